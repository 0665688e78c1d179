/* The objects of the query API over tables made by hand: what the core itself promises, whatever a backend does. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "backend/scripted/scripted.h"
#include "conformance/puller.h"
#include "core/core.h"
#include "core/query.h"
#include "plan/plan.h"
#include <trunnion/backend.h>
#include <trunnion/frontend.h>
#include <trunnion/layer.h>

/* ---- a backend that counts ---- */

typedef struct bare {
  int opened, closed, destroyed, source_refs;
  trn_status open_status;
  const char *seen_user;
  size_t seen_tags;
} bare;

static trn_status bare_open(void *self, trn_session *session, void **state, trn_error **error) {
  bare *b = self;
  if (b->open_status) return trn_error_set(error, b->open_status, NULL, "not today");
  b->opened++;
  b->seen_user = trn_session_user(session);
  *state = &b->opened;
  return TRN_OK;
}
static void bare_close(void *self, void *state) {
  assert_ptr_equal(state, &((bare *)self)->opened);
  ((bare *)self)->closed++;
}
static trn_status bare_execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                               trn_error **error) {
  (void)state;
  (void)out;
  ((bare *)self)->seen_tags = request->tag_count;
  return trn_error_set(error, TRN_UNAVAILABLE, NULL, "no engine");
}
static trn_status bare_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  (void)self, (void)state, (void)request, (void)out, (void)schema, (void)error;
  return TRN_OK; /* without giving one */
}
static trn_source *bare_ref(void *self, trn_source *source) {
  ((bare *)self)->source_refs++;
  return source;
}
static void bare_unref(void *self, trn_source *source) {
  (void)source;
  ((bare *)self)->source_refs--;
}
static void bare_destroy(void *self) {
  ((bare *)self)->destroyed++;
}

static const trn_backend_ops bare_ops = {.struct_size = sizeof(trn_backend_ops),
                                         .open_session = bare_open,
                                         .close_session = bare_close,
                                         .execute = bare_execute,
                                         .destroy = bare_destroy};

static void backends_are_checked_and_their_gaps_filled(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_backend_ops ops = bare_ops;
  ops.execute = NULL;
  assert_int_equal(trn_backend_create(&ops, &self, &backend), TRN_INVALID_ARGUMENT);
  assert_null(backend);
  ops = bare_ops;
  ops.struct_size = offsetof(trn_backend_ops, execute); /* an older table, without it */
  assert_int_equal(trn_backend_create(&ops, &self, &backend), TRN_INVALID_ARGUMENT);
  ops = bare_ops;
  ops.open_source = bare_source; /* sources without a count */
  assert_int_equal(trn_backend_create(&ops, &self, &backend), TRN_INVALID_ARGUMENT);
  assert_int_equal(self.destroyed, 0);

  ops = bare_ops;
  ops.struct_size = offsetof(trn_backend_ops, explain);
  assert_int_equal(trn_backend_create(&ops, &self, &backend), TRN_OK);
  memset(&ops, 0, sizeof ops); /* it was copied */
  trn_session *session;
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  trn_source *source;
  struct ArrowSchema schema;
  char *text;
  trn_source_request request = {.struct_size = sizeof request, .format = "csv"};
  trn_error *error = NULL;
  assert_int_equal(trn_backend_open_source(session, &request, &source, &schema, &error), TRN_UNIMPLEMENTED);
  assert_true(trn_error_message(error)[0] != 0);
  trn_error_unref(error);
  request.format = NULL;
  assert_int_equal(trn_backend_open_source(session, &request, &source, &schema, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_backend_explain(session, NULL, TRN_EXPLAIN_LOGICAL, &text, NULL), TRN_UNIMPLEMENTED);
  assert_null(text);
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(NULL);
  assert_int_equal(self.destroyed, 0); /* the table ended before `destroy` */
}

static void sessions_keep_their_backend(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_session *session;
  assert_int_equal(trn_backend_create(&bare_ops, &self, &backend), TRN_OK);
  char user[] = "ann";
  trn_session_request request = {.struct_size = sizeof request, .user = user, .client = "test/1"};
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
  user[0] = 'X';
  trn_backend_unref(backend);
  assert_string_equal(trn_session_user(session), "ann");
  assert_string_equal(self.seen_user, "ann");
  assert_string_equal(trn__session_client(session), "test/1");
  assert_ptr_equal(trn_session_backend_state(session), &self.opened);
  assert_int_equal(self.destroyed, 0);
  trn_session_unref(trn_session_ref(session));
  assert_int_equal(self.closed, 0);
  trn_session_unref(session);
  assert_int_equal(self.closed, 1);
  assert_int_equal(self.destroyed, 1);
}

static void sessions_that_fail_to_open_are_not_closed(void **state) {
  (void)state;
  bare self = {.open_status = TRN_PERMISSION_DENIED};
  trn_backend *backend;
  trn_session *session;
  trn_error *error = NULL;
  assert_int_equal(trn_backend_create(&bare_ops, &self, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, NULL, &session, &error), TRN_PERMISSION_DENIED);
  assert_null(session);
  assert_string_equal(trn_error_message(error), "not today");
  trn_error_unref(error);
  trn_kv bad = {NULL, "x"};
  trn_session_request request = {.struct_size = sizeof request, .settings = &bad, .setting_count = 1};
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_INVALID_ARGUMENT);
  trn_backend_unref(backend);
  assert_int_equal(self.closed, 0);
  assert_int_equal(self.destroyed, 1);
}

static void list_settings(void *user, const char *key, const char *value) {
  trn__strbuf_printf(user, "%s=%s;", key, value);
}

/* Changes the settings while they are listed: no lock may be held. */
static void change_settings(void *user, const char *key, const char *value) {
  (void)value;
  assert_int_equal(trn_session_set(user, key, NULL), TRN_OK);
}

static void settings_are_set_unset_and_listed_in_order(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_session *session;
  assert_int_equal(trn_backend_create(&bare_ops, &self, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  assert_int_equal(trn_session_set(session, "b", "1"), TRN_OK);
  assert_int_equal(trn_session_set(session, "a", "2"), TRN_OK);
  assert_int_equal(trn_session_set(session, "c", ""), TRN_OK);
  assert_int_equal(trn_session_set(session, "b", "3"), TRN_OK);
  assert_int_equal(trn_session_set(session, "a", NULL), TRN_OK);
  assert_int_equal(trn_session_set(session, "never", NULL), TRN_OK);
  assert_null(trn_session_get(session, "a"));
  trn_strbuf text = {0};
  assert_int_equal(trn_session_each(session, list_settings, &text), TRN_OK);
  assert_string_equal(text.data, "b=3;c=;");
  trn__strbuf_finish(&text);
  assert_int_equal(trn_session_each(session, change_settings, session), TRN_OK);
  assert_null(trn_session_get(session, "b"));
  char key[16];
  for (int i = 0; i < TRN_SESSION_SETTINGS_MAX; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(trn_session_set(session, key, "v"), TRN_OK);
  }
  assert_int_equal(trn_session_set(session, "one more", "v"), TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(trn_session_set(session, "k5", "w"), TRN_OK); /* no new key */
  trn_session_unref(session);
  trn_backend_unref(backend);
}

static void *set_many(void *session) {
  for (int i = 0; i < 2000; i++) {
    trn_session_set(session, i % 2 ? "x" : "y", i % 3 ? "value" : NULL);
    trn_free(trn_session_get(session, "x"));
  }
  return NULL;
}

static void settings_may_be_used_from_many_threads(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_session *session;
  assert_int_equal(trn_backend_create(&bare_ops, &self, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, set_many, session), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  trn_session_unref(session);
  trn_backend_unref(backend);
}

static void execute_passes_the_request_and_the_failure(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_session *session;
  trn_operation *operation = (trn_operation *)1;
  trn_error *error = NULL;
  const char *tags[] = {"a", "b"};
  assert_int_equal(trn_backend_create(&bare_ops, &self, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  trn_execute_request request = {.struct_size = sizeof request, .plan = (trn_plan *)1, .tags = tags, .tag_count = 2};
  assert_int_equal(trn_backend_execute(session, &request, &operation, &error), TRN_UNAVAILABLE);
  assert_null(operation);
  assert_int_equal(self.seen_tags, 2);
  assert_string_equal(trn_error_message(error), "no engine");
  trn_error_unref(error);
  request.struct_size = offsetof(trn_execute_request, tags); /* an older caller */
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_UNAVAILABLE);
  assert_int_equal(self.seen_tags, 0);
  trn_session_unref(session);
  trn_backend_unref(backend);
}

static void plans_hold_their_sources(void **state) {
  (void)state;
  bare self = {0};
  trn_backend *backend;
  trn_backend_ops ops = bare_ops;
  ops.open_source = bare_source;
  ops.source_ref = bare_ref;
  ops.source_unref = bare_unref;
  assert_int_equal(trn_backend_create(&ops, &self, &backend), TRN_OK);
  trn_arena *arena = trn__arena_create(0);
  static int thing;
  assert_int_equal(trn__source_hold(arena, backend, (trn_source *)&thing), TRN_OK);
  trn_session *session;
  trn_source *source;
  struct ArrowSchema schema;
  trn_source_request request = {.struct_size = sizeof request, .format = "csv"};
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  assert_int_equal(trn_backend_open_source(session, &request, &source, &schema, NULL), TRN_INTERNAL);
  trn_session_unref(session);
  trn_backend_unref(backend);
  assert_int_equal(self.source_refs, 1);
  assert_int_equal(self.destroyed, 0);
  trn__arena_unref(arena);
  assert_int_equal(self.source_refs, 0);
  assert_int_equal(self.destroyed, 1);
}

/* ---- operations ---- */

typedef struct action {
  int cancels, destroyed;
} action;
static trn_operation_state action_state(void *self) {
  return ((action *)self)->cancels ? TRN_OPERATION_CANCELLED : TRN_OPERATION_RUNNING;
}
static void action_cancel(void *self) {
  ((action *)self)->cancels++;
}
static trn_status action_stream(void *self, trn_stream **out, trn_error **error) {
  (void)self, (void)out;
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "read already");
}
static void action_destroy(void *self) {
  ((action *)self)->destroyed++;
}

static void operations_are_checked_and_cancelled_once(void **state) {
  (void)state;
  action self = {0};
  trn_operation *operation;
  trn_operation_ops ops = {
      .struct_size = sizeof ops, .state = action_state, .cancel = action_cancel, .destroy = action_destroy};
  assert_int_equal(trn_operation_create(&ops, &self, NULL, &operation), TRN_INVALID_ARGUMENT);
  ops.result_stream = action_stream;
  assert_int_equal(trn_operation_create(&ops, &self, "id", &operation), TRN_OK);
  assert_string_equal(trn_operation_id(operation), "id");
  assert_int_equal(trn_operation_get_state(operation), TRN_OPERATION_RUNNING);
  trn_stream *stream = (trn_stream *)1;
  char *text = (char *)1;
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_FAILED_PRECONDITION);
  assert_null(stream);
  assert_int_equal(trn_operation_metrics(operation, &text), TRN_UNIMPLEMENTED);
  assert_null(text);
  for (int i = 0; i < 3; i++) trn_operation_cancel(operation);
  assert_int_equal(self.cancels, 1);
  trn_operation_unref(trn_operation_ref(operation));
  assert_int_equal(self.destroyed, 0);
  trn_operation_unref(operation);
  trn_operation_unref(NULL);
  assert_int_equal(self.destroyed, 1);
}

/* ---- streams: completions come when the test says ---- */

typedef struct manual {
  trn_array_done array_done;
  trn_ipc_done ipc_done;
  void *user;
  size_t bytes_max;
  atomic_int cancels, destroyed;
  trn_status refuse;
} manual;

static trn_status manual_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self, (void)error;
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, 1);
  return status ? status : trn__schema_init(out->children[0], "i", "v", 0, NULL, 0, 0);
}
static trn_status manual_next(void *self, trn_array_done done, void *user, trn_error **error) {
  manual *m = self;
  if (m->refuse) return trn_error_set(error, m->refuse, NULL, "refused");
  m->array_done = done;
  m->user = user;
  return TRN_OK;
}
static trn_status manual_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  (void)error;
  manual *m = self;
  m->ipc_done = done;
  m->user = user;
  m->bytes_max = bytes_max;
  return TRN_OK;
}
static trn_status manual_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  (void)self, (void)error;
  *out = (trn_slice){.data = "schema", .size = 6};
  return TRN_OK;
}
static void manual_cancel(void *self) {
  ((manual *)self)->cancels++;
}
static void manual_destroy(void *self) {
  ((manual *)self)->destroyed++;
}

static const trn_stream_ops manual_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = manual_schema,
                                          .next_array = manual_next,
                                          .cancel = manual_cancel,
                                          .destroy = manual_destroy};

/* A struct array of one int32 column: `first`, ... */
static void make_rows(int32_t first, int rows, struct ArrowArray *out) {
  struct ArrowSchema schema;
  trn_array_builder *builder;
  assert_int_equal(manual_schema(NULL, &schema, NULL), TRN_OK);
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  for (int i = 0; i < rows; i++) {
    trn__array_append_int(trn__array_builder_child(builder, 0), first + i);
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_finish(builder, out), TRN_OK);
  trn__array_builder_destroy(builder);
  trn__schema_release(&schema);
}

static void complete_rows(manual *m, int32_t first, int rows) {
  struct ArrowArray array;
  make_rows(first, rows, &array);
  m->array_done(m->user, TRN_OK, NULL, &array);
  assert_null(array.release);
}

static void streams_are_checked(void **state) {
  (void)state;
  trn_stream *stream;
  trn_stream_ops ops = {.struct_size = sizeof ops, .schema = manual_schema};
  assert_int_equal(trn_stream_create(&ops, NULL, &stream), TRN_INVALID_ARGUMENT);
  ops = (trn_stream_ops){.struct_size = sizeof ops, .next_array = manual_next};
  assert_int_equal(trn_stream_create(&ops, NULL, &stream), TRN_INVALID_ARGUMENT);
  ops = (trn_stream_ops){.struct_size = sizeof ops, .next_ipc = manual_next_ipc};
  assert_int_equal(trn_stream_create(&ops, NULL, &stream), TRN_INVALID_ARGUMENT);
  assert_null(stream);
  trn_stream_unref(NULL);
}

static void streams_allow_one_pull_and_cancel_once(void **state) {
  (void)state;
  manual m = {0};
  trn_stream *stream;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_stream_create(&manual_ops, &m, &stream), TRN_OK);
  m.refuse = TRN_UNAVAILABLE; /* not accepted: no completion, and the next one may go */
  assert_int_equal(puller_start_array(&p, stream), TRN_UNAVAILABLE);
  m.refuse = TRN_OK;
  assert_int_equal(puller_start_array(&p, stream), TRN_OK);
  assert_int_equal(puller_start_array(&p, stream), TRN_FAILED_PRECONDITION);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_FAILED_PRECONDITION);
  complete_rows(&m, 1, 5);
  assert_int_equal(p.array.length, 5);
  assert_int_equal(puller_start_array(&p, stream), TRN_OK);
  trn_stream_cancel(stream);
  trn_stream_cancel(stream);
  assert_int_equal(m.cancels, 1);
  assert_int_equal(p.completed, 1); /* the pull is still out */
  m.array_done(m.user, TRN_CANCELLED, NULL, &(struct ArrowArray){0});
  assert_int_equal(p.status, TRN_CANCELLED);
  assert_int_equal(puller_start_array(&p, stream), TRN_CANCELLED);
  trn_stream_unref(stream);
  assert_int_equal(m.cancels, 1);
  assert_int_equal(m.destroyed, 1);
  puller_finish(&p);
}

static void the_last_unref_cancels_and_the_pull_still_completes(void **state) {
  (void)state;
  manual m = {0};
  trn_stream *stream;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_stream_create(&manual_ops, &m, &stream), TRN_OK);
  trn_stream_unref(trn_stream_ref(stream));
  assert_int_equal(m.cancels, 0);
  assert_int_equal(puller_start_array(&p, stream), TRN_OK);
  trn_stream_unref(stream);
  assert_int_equal(m.cancels, 1);
  assert_int_equal(m.destroyed, 0);
  trn_error *error = NULL;
  trn_error_set(&error, TRN_CANCELLED, NULL, "over");
  m.array_done(m.user, TRN_CANCELLED, error, &(struct ArrowArray){0});
  trn_error_unref(error);
  assert_int_equal(m.destroyed, 1);
  assert_int_equal(p.completed, 1);
  assert_string_equal(p.message, "over");
  puller_finish(&p);
}

/* A completion that pulls again, from a backend that answers at once: the second is delivered after the first returned.
 */
typedef struct nested {
  manual *m;
  trn_stream *stream;
  int depth, deepest, calls;
} nested;

static void nested_done(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  nested *n = user;
  assert_int_equal(status, n->calls < 4 ? TRN_OK : TRN_ABORTED);
  if (status) assert_string_equal(trn_error_message(error), "enough");
  trn__array_release(array);
  if (++n->depth > n->deepest) n->deepest = n->depth;
  if (++n->calls <= 4) {
    assert_int_equal(trn_stream_next_array(n->stream, nested_done, n, NULL), TRN_OK);
    if (n->calls < 4) {
      complete_rows(n->m, 0, 1);
    } else {
      trn_error *failure = NULL; /* outlives nothing: whoever waits keeps a reference */
      trn_error_set(&failure, TRN_ABORTED, NULL, "enough");
      n->m->array_done(n->m->user, TRN_ABORTED, failure, &(struct ArrowArray){0});
      trn_error_unref(failure);
    }
  } else {
    trn_stream_unref(n->stream); /* the last one, from inside */
  }
  n->depth--;
}

static void completions_never_overlap(void **state) {
  (void)state;
  manual m = {0};
  nested n = {.m = &m};
  assert_int_equal(trn_stream_create(&manual_ops, &m, &n.stream), TRN_OK);
  assert_int_equal(trn_stream_next_array(n.stream, nested_done, &n, NULL), TRN_OK);
  complete_rows(&m, 0, 1);
  assert_int_equal(n.calls, 5);
  assert_int_equal(n.deepest, 1);
  assert_int_equal(m.destroyed, 1);
}

/* ---- adapters ---- */

static void ipc_only_streams_refuse_arrays(void **state) {
  (void)state;
  manual m = {0};
  trn_stream *stream;
  trn_slice schema;
  struct ArrowSchema arrow;
  puller p;
  puller_init(&p);
  trn_stream_ops ops = {.struct_size = sizeof ops,
                        .schema_ipc = manual_schema_ipc,
                        .next_ipc = manual_next_ipc,
                        .destroy = manual_destroy};
  assert_int_equal(trn_stream_create(&ops, &m, &stream), TRN_OK);
  assert_int_equal(puller_start_array(&p, stream), TRN_UNIMPLEMENTED);
  assert_int_equal(trn_stream_schema(stream, &arrow, NULL), TRN_UNIMPLEMENTED);
  assert_int_equal(trn_stream_schema_ipc(stream, &schema, NULL), TRN_OK);
  assert_memory_equal(schema.data, "schema", 6);
  assert_int_equal(puller_start_ipc(&p, stream, 77), TRN_OK); /* the refused pull left nothing behind */
  assert_int_equal(m.bytes_max, 77);
  m.ipc_done(m.user, TRN_OK, NULL, &(trn_ipc_piece){.rows = 0});
  assert_int_equal(p.completed, 1);
  trn_stream_unref(stream);
  assert_int_equal(m.destroyed, 1);
  puller_finish(&p);
}

static int32_t piece_check(trn_ipc_piece *piece, int32_t expected) {
  ipc_batch batch;
  int64_t size;
  assert_true(ipc_batch_read(piece, &batch));
  const int32_t *values = ipc_batch_buffer(&batch, 1, &size);
  for (int64_t i = 0; i < batch.rows; i++) assert_int_equal(values[i], expected + i);
  expected += (int32_t)batch.rows;
  free(batch.bytes);
  piece->release(piece->owner);
  piece->release = NULL;
  return expected;
}

static void array_streams_give_ipc_cut_by_rows(void **state) {
  (void)state;
  manual m = {0};
  trn_stream *stream;
  trn_slice schema, again;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_stream_create(&manual_ops, &m, &stream), TRN_OK);
  assert_int_equal(trn_stream_schema_ipc(stream, &schema, NULL), TRN_OK);
  assert_int_equal(ipc_message_kind(schema.data, schema.size), 1);
  assert_int_equal(trn_stream_schema_ipc(stream, &again, NULL), TRN_OK);
  assert_ptr_equal(schema.data, again.data);
  int32_t at = 0, pieces = 0;
  assert_int_equal(puller_start_ipc(&p, stream, 1000), TRN_OK);
  complete_rows(&m, 0, 5000);
  assert_true(puller_wait(&p, 10000)); /* who delivered last may deliver this one too */
  while (at < 5000) {                  /* the rest needs no backend */
    assert_true(p.piece.size <= 1000);
    at = piece_check(&p.piece, at);
    pieces++;
    if (at == 5000) break;
    assert_int_equal(puller_start_ipc(&p, stream, 1000), TRN_OK);
    assert_true(puller_wait(&p, 10000));
    assert_int_equal(p.status, TRN_OK);
  }
  assert_true(pieces >= 20 && pieces < 60);
  /* One row larger than the limit comes whole; no limit: all at once. */
  assert_int_equal(puller_start_ipc(&p, stream, 1), TRN_OK);
  complete_rows(&m, 7, 2);
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.piece.rows, 1);
  piece_check(&p.piece, 7);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  assert_true(puller_wait(&p, 10000));
  piece_check(&p.piece, 8);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  complete_rows(&m, 100, 5000);
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.piece.rows, 5000);
  piece_check(&p.piece, 100);
  /* The end passes; so does a failure, and it is the last thing that comes. */
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  m.array_done(m.user, TRN_OK, NULL, &(struct ArrowArray){0});
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.status, TRN_OK);
  assert_null(p.piece.release);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  m.array_done(m.user, TRN_DATA_LOSS, NULL, &(struct ArrowArray){0});
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.status, TRN_DATA_LOSS);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_DATA_LOSS);
  assert_int_equal(puller_start_array(&p, stream), TRN_DATA_LOSS);
  trn_stream_unref(stream);
  assert_int_equal(m.destroyed, 1);
  puller_finish(&p);
}

/* The rest of a batch is dropped with its stream, also from inside a completion on the adapter's own thread. */
typedef struct dropper {
  trn_stream *stream;
  atomic_bool is_done;
} dropper;
static void drop_done(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  (void)error;
  dropper *d = user;
  assert_int_equal(status, TRN_OK);
  piece->release(piece->owner);
  trn_stream_unref(d->stream);
  d->is_done = true;
}

static void a_rest_is_dropped_with_its_stream(void **state) {
  (void)state;
  manual m = {0};
  dropper d = {0};
  puller p;
  puller_init(&p);
  assert_int_equal(trn_stream_create(&manual_ops, &m, &d.stream), TRN_OK);
  assert_int_equal(puller_start_ipc(&p, d.stream, 1000), TRN_OK);
  complete_rows(&m, 0, 5000);
  assert_int_equal(trn_stream_next_ipc(d.stream, 1000, drop_done, &d, NULL), TRN_OK);
  while (!d.is_done) sched_yield();
  for (int i = 0; i < 1000 && !m.destroyed; i++) usleep(1000);
  assert_int_equal(m.destroyed, 1);
  puller_finish(&p);
}

/* ---- frontends ---- */

static trn_status front_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  (void)routes, (void)backend;
  ++*(int *)self;
  return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "taken");
}
static void front_destroy(void *self) {
  *(int *)self += 100;
}

static void frontends_are_checked_and_pass_through(void **state) {
  (void)state;
  int self = 0;
  trn_frontend *frontend;
  trn_frontend_ops ops = {.struct_size = sizeof ops, .destroy = front_destroy};
  assert_int_equal(trn_frontend_create(&ops, &self, &frontend), TRN_INVALID_ARGUMENT);
  ops.do_register = front_register;
  assert_int_equal(trn_frontend_create(&ops, &self, &frontend), TRN_OK);
  assert_int_equal(trn_frontend_register(frontend, NULL, NULL, NULL), TRN_ALREADY_EXISTS);
  trn_frontend_destroy(frontend);
  trn_frontend_destroy(NULL);
  assert_int_equal(self, 101);
}

/* ---- many threads ---- */

enum { THREADS = 16, ROUNDS = 60 };
typedef struct crowd {
  trn_backend *backend;
  int number;
} crowd;

static void drop_piece(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  (void)error;
  if (status == TRN_OK && piece->release) piece->release(piece->owner);
  atomic_fetch_add((atomic_int *)user, 1);
}

/* Opens, executes, reads some, cancels or drops at any point, closes. */
static void *crowd_run(void *argument) {
  crowd *c = argument;
  for (int i = 0; i < ROUNDS; i++) {
    trn_session *session = NULL;
    trn_operation *operation = NULL;
    trn_stream *stream = NULL;
    atomic_int completions = 0;
    if (trn_session_open(c->backend, NULL, &session, NULL)) continue;
    trn_arena *arena = trn__arena_create(0);
    trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
    trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
    trn_field field = {.name = "n", .type = column.type};
    range->u.range.end = 20000 * (i % 3);
    range->u.range.step = 1;
    trn_plan *plan = NULL;
    if (trn__plan_create(arena, range, trn__arena_copy(arena, &field, sizeof field), 2, NULL, NULL, &plan)) abort();
    trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
    int started = 0;
    if (trn_backend_execute(session, &request, &operation, NULL) == TRN_OK) {
      if ((i + c->number) % 4 == 0) trn_operation_cancel(operation);
      if (trn_operation_result_stream(operation, &stream, NULL) == TRN_OK)
        started += trn_stream_next_ipc(stream, 0, drop_piece, &completions, NULL) == TRN_OK;
      if ((i + c->number) % 4 == 1) trn_operation_cancel(operation);
      if ((i + c->number) % 4 == 2 && stream) trn_stream_cancel(stream);
      (void)trn_operation_get_state(operation);
    }
    trn_plan_unref(plan);
    trn_session_unref(session);
    trn_operation_unref(operation);
    trn_stream_unref(stream);
    for (int wait = 0; wait < 20000 && atomic_load(&completions) < started; wait++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&completions) != started) abort();
  }
  return NULL;
}

static void sixteen_threads_open_execute_cancel_and_close(void **state) {
  (void)state;
  trn_scripted *control = NULL;
  trn_backend *base = NULL;
  trn_registry *registry = NULL;
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, &base), TRN_OK);
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  trn_config *config = trn_config_create();
  static const char *const layers[] = {"trace", "validate", "cache", "limit", "route"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    assert_int_equal(trn_config_set(config, "layers[]", layers[i], NULL), TRN_OK);
  for (int layered = 0; layered < 2; layered++) { /* the backend itself; a stack of layers around it */
    trn_backend *backend = trn_backend_ref(base);
    if (layered) {
      trn_backend_unref(backend);
      assert_int_equal(trn_layers_build(registry, trn_config_get(config, "layers"), base, NULL, &backend, NULL), TRN_OK);
    }
    pthread_t threads[THREADS];
    crowd crowds[THREADS];
    for (int i = 0; i < THREADS; i++) {
      crowds[i] = (crowd){backend, i};
      assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    trn_backend_unref(backend);
  }
  trn_config_destroy(config);
  trn_registry_destroy(registry);
  trn_backend_unref(base);
  trn_scripted_counts counts = trn__scripted_count(control);
  for (int i = 0; i < 5000 && counts.streams_opened != counts.streams_closed; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    counts = trn__scripted_count(control);
  }
  assert_int_equal(counts.sessions_opened, counts.sessions_closed);
  assert_int_equal(counts.streams_opened, counts.streams_closed);
  assert_int_equal(counts.pulls, counts.completions);
  trn__scripted_unref(control);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(backends_are_checked_and_their_gaps_filled),
      cmocka_unit_test(sessions_keep_their_backend),
      cmocka_unit_test(sessions_that_fail_to_open_are_not_closed),
      cmocka_unit_test(settings_are_set_unset_and_listed_in_order),
      cmocka_unit_test(settings_may_be_used_from_many_threads),
      cmocka_unit_test(execute_passes_the_request_and_the_failure),
      cmocka_unit_test(plans_hold_their_sources),
      cmocka_unit_test(operations_are_checked_and_cancelled_once),
      cmocka_unit_test(streams_are_checked),
      cmocka_unit_test(streams_allow_one_pull_and_cancel_once),
      cmocka_unit_test(the_last_unref_cancels_and_the_pull_still_completes),
      cmocka_unit_test(completions_never_overlap),
      cmocka_unit_test(ipc_only_streams_refuse_arrays),
      cmocka_unit_test(array_streams_give_ipc_cut_by_rows),
      cmocka_unit_test(a_rest_is_dropped_with_its_stream),
      cmocka_unit_test(frontends_are_checked_and_pass_through),
      cmocka_unit_test(sixteen_threads_open_execute_cancel_and_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
