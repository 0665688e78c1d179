/* Other people's callbacks: each fails, says that it worked and gives nothing, answers late, twice, although it refused, or
 * after a cancel. What comes out is a status with words, once; nothing is lost and nothing is waited for for ever. Decoders
 * are in test_registry, decisions of policies in test_layer_authorize, schedulers and stores in test_scheduler. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "conformance/puller.h"
#include "core/core.h"
#include "core/query.h"
#include "plan/plan.h"
#include <trunnion/auth.h>
#include <trunnion/backend.h>
#include <trunnion/catalog.h>
#include <trunnion/layer.h>

static void says(trn_error *error, const char *words) {
  if (!strstr(trn_error_message(error), words)) print_error("'%s', not '%s'\n", trn_error_message(error), words);
  assert_non_null(strstr(trn_error_message(error), words));
  trn_error_unref(error);
}

/* ---- streams ---- */

typedef enum manner { LATE, TWICE, TWICE_LATE, REFUSES_AND_ANSWERS, REFUSES, FAILS, AFTER_CANCEL } manner;

typedef struct source {
  manner manner;
  trn_array_done done;
  void *user;
  pthread_t threads[4];
  size_t thread_count;
  atomic_int released, given, cancels, destroyed;
} source;

typedef struct batch {
  source *source;
} batch;

static void batch_release(struct ArrowArray *array) {
  batch *b = array->private_data;
  atomic_fetch_add(&b->source->released, 1);
  free(b);
  array->release = NULL;
}

/* Three nulls: no buffers. */
static void give(source *s) {
  static const void *none[1];
  batch *b = malloc(sizeof *b);
  *b = (batch){s};
  struct ArrowArray array = {.length = 3, .null_count = 0, .n_buffers = 1, .buffers = none, .release = batch_release, .private_data = b};
  atomic_fetch_add(&s->given, 1);
  s->done(s->user, TRN_OK, NULL, &array);
  if (array.release) array.release(&array); /* not taken: ours */
}

static void *answer(void *argument) {
  source *s = argument;
  usleep(3000);
  if (s->manner == FAILS) {
    trn_error *error = NULL;
    trn_error_set(&error, TRN_UNAVAILABLE, NULL, "the disk is away");
    s->done(s->user, TRN_UNAVAILABLE, error, NULL);
    trn_error_unref(error);
    return NULL;
  }
  give(s);
  if (s->manner == TWICE || s->manner == TWICE_LATE) {
    if (s->manner == TWICE_LATE) usleep(10000);
    give(s);
  }
  return NULL;
}

static trn_status source_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self, (void)error;
  return trn__schema_init(out, "+s", "", 0, NULL, 0, 0);
}

static trn_status source_next(void *self, trn_array_done done, void *user, trn_error **error) {
  source *s = self;
  s->done = done;
  s->user = user;
  if (s->manner == REFUSES_AND_ANSWERS) give(s);
  if (s->manner == REFUSES || s->manner == REFUSES_AND_ANSWERS)
    return trn_error_set(error, TRN_UNAVAILABLE, NULL, "not now");
  if (s->manner != AFTER_CANCEL) assert_int_equal(pthread_create(&s->threads[s->thread_count++], NULL, answer, s), 0);
  return TRN_OK;
}

static void source_cancel(void *self) {
  source *s = self;
  if (atomic_fetch_add(&s->cancels, 1) == 0 && s->manner == AFTER_CANCEL)
    assert_int_equal(pthread_create(&s->threads[s->thread_count++], NULL, answer, s), 0);
}

static void source_destroy(void *self) {
  atomic_fetch_add(&((source *)self)->destroyed, 1);
}

typedef struct reader {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  int answers, ended;
  trn_status status;
} reader;

static void read_answer(reader *r, trn_status status) {
  pthread_mutex_lock(&r->mu);
  r->answers++;
  r->status = status;
  pthread_cond_signal(&r->changed);
  pthread_mutex_unlock(&r->mu);
}
static void on_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  (void)error;
  if (!status && array->release) array->release(array);
  read_answer(user, status);
}
static void on_piece(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  (void)error;
  if (!status && piece->release) piece->release(piece->owner);
  read_answer(user, status);
}

/* One pull, and all answers that come; by arrays, or by the adapter to IPC. */
static void pull_once(manner manner, bool as_ipc, trn_status refused, trn_status answered) {
  static const trn_stream_ops ops = {.struct_size = sizeof ops,
                                     .schema = source_schema,
                                     .next_array = source_next,
                                     .cancel = source_cancel,
                                     .destroy = source_destroy};
  source s = {.manner = manner};
  reader r = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  trn_stream *stream = NULL;
  assert_int_equal(trn_stream_create(&ops, &s, &stream), TRN_OK);
  trn_status status = as_ipc ? trn_stream_next_ipc(stream, 0, on_piece, &r, NULL)
                             : trn_stream_next_array(stream, on_array, &r, NULL);
  assert_int_equal(status, refused);
  if (manner == AFTER_CANCEL) {
    trn_stream_cancel(stream);
    trn_stream_cancel(stream);
    assert_int_equal(s.cancels, 1);
  }
  pthread_mutex_lock(&r.mu);
  while (!status && !r.answers) pthread_cond_wait(&r.changed, &r.mu);
  pthread_mutex_unlock(&r.mu);
  for (size_t i = 0; i < s.thread_count; i++) pthread_join(s.threads[i], NULL);
  assert_int_equal(r.answers, status ? 0 : 1);
  if (!status) assert_int_equal(r.status, answered);
  assert_int_equal(s.given, s.released); /* every batch found somebody who frees it */
  trn_stream_unref(stream);
  assert_int_equal(s.destroyed, 1);
}

static void streams_answer_a_pull_once_whatever_their_maker_does(void **state) {
  (void)state;
  static const struct {
    manner manner;
    trn_status refused, answered;
  } cases[] = {{LATE, TRN_OK, TRN_OK},
               {TWICE, TRN_OK, TRN_OK},
               {TWICE_LATE, TRN_OK, TRN_OK},
               {REFUSES, TRN_UNAVAILABLE, TRN_OK},
               {REFUSES_AND_ANSWERS, TRN_OK, TRN_OK}, /* who answered has not refused */
               {FAILS, TRN_OK, TRN_UNAVAILABLE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int ipc = 0; ipc < 2; ipc++) pull_once(cases[i].manner, ipc, cases[i].refused, cases[i].answered);
  pull_once(AFTER_CANCEL, false, TRN_OK, TRN_OK);
}

/* ---- backends, and layers around them ---- */

typedef enum answer_kind { WORKS, SAYS_NO, GIVES_NOTHING, NO_SLOT } answer_kind;

typedef struct odd {
  answer_kind kind;
  int sessions, operations;
} odd;

static trn_status odd_status(const odd *o, trn_error **error) {
  return o->kind == SAYS_NO ? trn_error_set(error, TRN_UNAVAILABLE, NULL, "gone fishing") : TRN_OK;
}
static trn_status odd_open(void *self, trn_session *session, void **state, trn_error **error) {
  (void)session, (void)error;
  ((odd *)self)->sessions++;
  *state = self;
  return TRN_OK;
}
static void odd_close(void *self, void *state) {
  assert_ptr_equal(self, state);
  ((odd *)self)->sessions--;
}
static trn_operation_state odd_state(void *self) {
  (void)self;
  return TRN_OPERATION_RUNNING;
}
static void odd_cancel(void *self) {
  (void)self;
}
static trn_status odd_result(void *self, trn_stream **out, trn_error **error) {
  (void)out;
  return odd_status(self, error); /* and no stream, either way */
}
static trn_status odd_metrics(void *self, char **out) {
  (void)out;
  return odd_status(self, NULL);
}
static void odd_operation_destroy(void *self) {
  ((odd *)self)->operations--;
}
static trn_status odd_execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                              trn_error **error) {
  static const trn_operation_ops ops = {.struct_size = sizeof ops,
                                        .state = odd_state,
                                        .cancel = odd_cancel,
                                        .result_stream = odd_result,
                                        .metrics = odd_metrics,
                                        .destroy = odd_operation_destroy};
  odd *o = self;
  (void)state, (void)request;
  if (o->kind != WORKS) return odd_status(o, error);
  trn_status status = trn_operation_create(&ops, o, NULL, out);
  if (!status) o->operations++;
  return status;
}
static trn_status odd_open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                                  struct ArrowSchema *schema, trn_error **error) {
  (void)state, (void)request, (void)out, (void)schema;
  return odd_status(self, error);
}
static trn_source *odd_ref(void *self, trn_source *source) {
  (void)self;
  return source;
}
static void odd_unref(void *self, trn_source *source) {
  (void)self, (void)source;
}
static trn_status odd_explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out,
                              trn_error **error) {
  (void)state, (void)plan, (void)mode, (void)out;
  return odd_status(self, error);
}
static trn_status odd_decode(void *self, void *state, const trn_plan_input *input, trn_plan **out, trn_error **error) {
  (void)state, (void)input, (void)out;
  return odd_status(self, error);
}
static trn_status odd_encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out,
                             trn_error **error) {
  (void)state, (void)plan, (void)format, (void)out;
  return odd_status(self, error);
}
static trn_status odd_check(void *self, void *state, trn_plan *plan, trn_error **error) {
  (void)state, (void)plan;
  return odd_status(self, error);
}
static trn_status odd_catalog(void *self, void *state, const char *name, trn_catalog **out, trn_error **error) {
  (void)state, (void)name, (void)out;
  return odd_status(self, error);
}
static trn_status odd_catalogs(void *self, void *state, void (*each)(void *user, const char *name), void *user,
                               trn_error **error) {
  (void)state, (void)each, (void)user;
  return odd_status(self, error);
}

static trn_backend *odd_backend(odd *o) {
  trn_backend_ops ops = {.struct_size = sizeof ops, .open_session = odd_open, .close_session = odd_close, .execute = odd_execute};
  trn_backend *backend = NULL;
  if (o->kind != NO_SLOT) {
    ops.open_source = odd_open_source, ops.source_ref = odd_ref, ops.source_unref = odd_unref;
    ops.explain = odd_explain, ops.decode = odd_decode, ops.encode = odd_encode, ops.check = odd_check;
    ops.catalog = odd_catalog, ops.list_catalogs = odd_catalogs;
  }
  assert_int_equal(trn_backend_create(&ops, o, &backend), TRN_OK);
  return backend;
}

/* ---- each call by the public API; gives its status and error ---- */

static trn_plan *a_plan(void) {
  trn_arena *arena = trn__arena_create(0);
  const trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  const trn_field field = {.name = "id", .type = column.type};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  trn_plan *plan = NULL;
  rel->u.range.end = 3;
  rel->u.range.step = 1;
  assert_int_equal(trn__plan_create(arena, rel, &field, 2, NULL, NULL, &plan), TRN_OK);
  return plan;
}

static trn_status call_execute(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  trn_operation *operation = NULL;
  trn_status status = trn_backend_execute(session, &request, &operation, error);
  assert_true(status || operation);
  trn_operation_unref(operation);
  return status;
}
static trn_status call_open_source(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_source_request request = {.struct_size = sizeof request, .format = "parquet"};
  trn_source *source = NULL;
  struct ArrowSchema schema;
  (void)plan;
  return trn_backend_open_source(session, &request, &source, &schema, error);
}
static trn_status call_explain(trn_session *session, trn_plan *plan, trn_error **error) {
  char *text = NULL;
  trn_status status = trn_backend_explain(session, plan, TRN_EXPLAIN_LOGICAL, &text, error);
  assert_true(status || text);
  trn_free(text);
  return status;
}
static trn_status call_decode(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = "x", .size = 1};
  trn_plan *decoded = NULL;
  (void)plan;
  return trn_backend_decode(session, &input, &decoded, error);
}
static trn_status call_decode_statement(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = "x", .size = 1};
  trn_statement statement;
  (void)plan;
  return trn_backend_decode_statement(session, &input, &statement, error);
}
static trn_status call_catalog(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_catalog *catalog = NULL;
  (void)plan;
  return trn_session_get_catalog(session, "x", &catalog, error);
}
static trn_status call_encode(trn_session *session, trn_plan *plan, trn_error **error) {
  trn_bytes bytes;
  return trn_backend_encode(session, plan, "x", &bytes, error);
}
static trn_status call_check(trn_session *session, trn_plan *plan, trn_error **error) {
  return trn_backend_check(session, plan, error);
}

static const struct {
  const char *name;
  trn_status (*call)(trn_session *session, trn_plan *plan, trn_error **error);
  trn_status nothing; /* when it says OK and gives nothing */
  const char *words;
  trn_status no_slot;
} calls[] = {
    {"execute", call_execute, TRN_INTERNAL, "gave no operation", TRN_INTERNAL},
    {"open_source", call_open_source, TRN_INTERNAL, "gave no source", TRN_UNIMPLEMENTED},
    {"explain", call_explain, TRN_INTERNAL, "gave no text", TRN_UNIMPLEMENTED},
    {"decode", call_decode, TRN_INTERNAL, "gave no plan", TRN_UNIMPLEMENTED},
    {"decode_statement", call_decode_statement, TRN_INTERNAL, "gave no plan", TRN_UNIMPLEMENTED},
    {"catalog", call_catalog, TRN_INTERNAL, "gave no catalog", TRN_NOT_FOUND},
    {"encode", call_encode, TRN_OK, NULL, TRN_UNIMPLEMENTED},
    {"check", call_check, TRN_OK, NULL, TRN_OK},
};

/* A layer that changes nothing, whose slots are all there. */
static trn_status through_execute(void *self, trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                                  trn_error **error) {
  (void)self;
  return trn_next_execute(s, request, out, error);
}
static trn_status through_source(void *self, trn_layer_session *s, const trn_source_request *request, trn_source **out,
                                 struct ArrowSchema *schema, trn_error **error) {
  (void)self;
  return trn_next_open_source(s, request, out, schema, error);
}
static trn_status through_explain(void *self, trn_layer_session *s, trn_plan *plan, trn_explain_mode mode, char **out,
                                  trn_error **error) {
  (void)self;
  return trn_next_explain(s, plan, mode, out, error);
}
static trn_status through_decode(void *self, trn_layer_session *s, const trn_plan_input *input, trn_plan **out,
                                 trn_error **error) {
  (void)self;
  return trn_next_decode(s, input, out, error);
}
static trn_status through_encode(void *self, trn_layer_session *s, trn_plan *plan, const char *format, trn_bytes *out,
                                 trn_error **error) {
  (void)self;
  return trn_next_encode(s, plan, format, out, error);
}
static trn_status through_check(void *self, trn_layer_session *s, trn_plan *plan, trn_error **error) {
  (void)self;
  return trn_next_check(s, plan, error);
}

static void each_call(odd *o, trn_backend *backend) {
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  trn_session *session = NULL;
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
  trn_plan *plan = a_plan();
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    trn_error *error = NULL;
    trn_status status = calls[i].call(session, plan, &error);
    trn_status wanted = o->kind == SAYS_NO         ? TRN_UNAVAILABLE
                        : o->kind == GIVES_NOTHING ? calls[i].nothing
                                                   : calls[i].no_slot;
    if (status != wanted) print_error("%s: %s\n", calls[i].name, trn_status_name(status));
    assert_int_equal(status, wanted);
    const char *words = o->kind == SAYS_NO ? "gone fishing" : o->kind == GIVES_NOTHING ? calls[i].words : NULL;
    if (words) {
      says(error, words);
    } else {
      assert_true(!status == !error);
      trn_error_unref(error);
    }
  }
  trn_plan_unref(plan);
  trn_session_unref(session);
  assert_int_equal(o->sessions, 0);
}

static void what_a_backend_says_comes_out_also_through_layers(void **state) {
  (void)state;
  static const trn_layer_ops through = {.struct_size = sizeof through,
                                        .name = "through",
                                        .execute = through_execute,
                                        .open_source = through_source,
                                        .explain = through_explain,
                                        .decode = through_decode,
                                        .encode = through_encode,
                                        .check = through_check};
  static const trn_layer_ops empty = {.struct_size = sizeof empty, .name = "empty"};
  for (answer_kind kind = SAYS_NO; kind <= NO_SLOT; kind++)
    for (int layers = 0; layers < 3; layers++) {
      odd o = {.kind = kind};
      trn_backend *backend = odd_backend(&o), *layer = NULL;
      if (layers) {
        assert_int_equal(trn_layer_create(layers == 1 ? &through : &empty, NULL, backend, &layer, NULL), TRN_OK);
        trn_backend_unref(backend);
        backend = layer;
      }
      each_call(&o, backend);
      trn_backend_unref(backend);
    }
}

static void what_an_operation_says_comes_out(void **state) {
  (void)state;
  for (answer_kind kind = SAYS_NO; kind <= GIVES_NOTHING; kind++) {
    odd o = {.kind = WORKS};
    trn_backend *backend = odd_backend(&o);
    trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
    trn_session *session = NULL;
    assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
    trn_plan *plan = a_plan();
    trn_execute_request execute = {.struct_size = sizeof execute, .plan = plan};
    trn_operation *operation = NULL;
    trn_stream *stream = NULL;
    trn_error *error = NULL;
    char *metrics = NULL;
    assert_int_equal(trn_backend_execute(session, &execute, &operation, NULL), TRN_OK);
    o.kind = kind;
    assert_int_equal(trn_operation_result_stream(operation, &stream, &error), kind == SAYS_NO ? TRN_UNAVAILABLE : TRN_INTERNAL);
    says(error, kind == SAYS_NO ? "gone fishing" : "gave no stream");
    assert_null(stream);
    trn_status status = trn_operation_metrics(operation, &metrics);
    assert_true(status || !metrics);
    trn_operation_cancel(operation);
    trn_operation_cancel(operation);
    trn_operation_unref(operation);
    assert_int_equal(o.operations, 0);
    trn_plan_unref(plan);
    trn_session_unref(session);
    trn_backend_unref(backend);
  }
}

/* ---- catalogs ---- */

static trn_status odd_databases(void *self, trn_session *session, trn_each_database each, void *user, trn_error **error) {
  (void)session, (void)each, (void)user;
  return odd_status(self, error);
}
static trn_status odd_tables(void *self, trn_session *session, const char *database, bool with_schema,
                             trn_each_table each, void *user, trn_error **error) {
  (void)session, (void)database, (void)with_schema, (void)each, (void)user;
  return odd_status(self, error);
}
static trn_status odd_table(void *self, trn_session *session, const char *database, const char *name, trn_table **out,
                            trn_error **error) {
  (void)session, (void)database, (void)name, (void)out;
  return odd_status(self, error);
}
static trn_status odd_begin(void *self, trn_session *session, const trn_write_request *request, trn_table_write **out,
                            trn_error **error) {
  (void)session, (void)request, (void)out;
  return odd_status(self, error);
}
static trn_status odd_open_table(void *self, trn_session *session, trn_table *table, trn_source **out,
                                 struct ArrowSchema *schema, trn_error **error) {
  (void)session, (void)table, (void)out, (void)schema;
  return odd_status(self, error);
}

static void what_a_catalog_says_comes_out(void **state) {
  (void)state;
  static const trn_catalog_ops ops = {.struct_size = sizeof ops,
                                      .list_databases = odd_databases,
                                      .list_tables = odd_tables,
                                      .get_table = odd_table,
                                      .begin_write = odd_begin,
                                      .open_table = odd_open_table};
  static const trn_table_ops table_ops = {.struct_size = sizeof table_ops};
  for (answer_kind kind = SAYS_NO; kind <= GIVES_NOTHING; kind++) {
    odd o = {.kind = kind};
    trn_backend *backend = odd_backend(&o);
    trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
    trn_session *session = NULL;
    trn_catalog *catalog = NULL;
    trn_table *table = NULL, *found = NULL;
    trn_table_write *write = NULL;
    trn_source *source = NULL;
    struct ArrowSchema schema = {0}, opened = {0};
    trn_error *error = NULL;
    trn_status wanted = kind == SAYS_NO ? TRN_UNAVAILABLE : TRN_INTERNAL;
    trn_write_request writing = {.struct_size = sizeof writing, .database = "d", .name = "t"};
    assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
    assert_int_equal(trn_catalog_create(&ops, &o, "odd", &catalog), TRN_OK);
    assert_int_equal(trn_catalog_get_table(catalog, session, "d", "t", &found, &error), wanted);
    says(error, kind == SAYS_NO ? "gone fishing" : "gave no table");
    error = NULL;
    assert_int_equal(trn_catalog_begin_write(catalog, session, &writing, &write, &error), wanted);
    says(error, kind == SAYS_NO ? "gone fishing" : "gave no write");
    error = NULL;
    assert_int_equal(trn__schema_init(&schema, "+s", "", 0, NULL, 0, 0), TRN_OK);
    const trn_table_info info = {.struct_size = sizeof info, .catalog = "odd", .database = "d", .name = "t", .schema = &schema};
    assert_int_equal(trn_table_create(&table_ops, &o, &info, NULL, 0, false, &table), TRN_OK);
    assert_int_equal(trn_catalog_open_table(catalog, session, table, &source, &opened, &error), wanted);
    says(error, kind == SAYS_NO ? "gone fishing" : "gave no source");
    error = NULL;
    /* What is not there at all. */
    assert_int_equal(trn_catalog_drop_table(catalog, session, "d", "t", false, &error), TRN_UNIMPLEMENTED);
    trn_error_unref(error);
    trn_table_unref(table);
    trn__schema_release(&schema);
    trn_catalog_unref(catalog);
    trn_session_unref(session);
    trn_backend_unref(backend);
  }
}

/* ---- authenticators ---- */

typedef struct doorman {
  answer_kind kind;
  int released, destroyed;
} doorman;

static void identity_release(trn_identity *identity) {
  ((doorman *)identity->owner)->released++;
}
static trn_status doorman_knows(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error) {
  doorman *d = self;
  assert_string_equal(credentials->authorization, "Bearer x");
  if (d->kind == SAYS_NO) return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "nobody I know");
  *out = (trn_identity){.struct_size = sizeof *out, .user = d->kind == WORKS ? "ann" : "", .release = identity_release, .owner = d};
  return TRN_OK;
}
static trn_status doorman_reload(void *self, trn_error **error) {
  return ((doorman *)self)->kind == SAYS_NO ? trn_error_set(error, TRN_NOT_FOUND, NULL, "the list is lost") : TRN_OK;
}
static trn_status doorman_refresh(void *self, const trn_identity *was, trn_identity *out, trn_error **error) {
  assert_string_equal(was->user, "ann");
  (void)out;
  return ((doorman *)self)->kind == SAYS_NO ? trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "he was let go") : TRN_OK;
}
static void doorman_destroy(void *self) {
  ((doorman *)self)->destroyed++;
}

static void what_an_authenticator_says_comes_out(void **state) {
  (void)state;
  static const trn_authenticator_ops ops = {.struct_size = sizeof ops,
                                            .authenticate = doorman_knows,
                                            .destroy = doorman_destroy,
                                            .reload = doorman_reload,
                                            .refresh = doorman_refresh};
  /* Built before there were `reload` and `refresh`. */
  static const trn_authenticator_ops old = {.struct_size = offsetof(trn_authenticator_ops, reload),
                                            .authenticate = doorman_knows,
                                            .destroy = doorman_destroy,
                                            .reload = doorman_reload,
                                            .refresh = doorman_refresh};
  const trn_credentials credentials = {.struct_size = sizeof credentials, .authorization = "Bearer x"};
  for (answer_kind kind = WORKS; kind <= GIVES_NOTHING; kind++)
    for (int is_old = 0; is_old < 2; is_old++) {
      doorman d = {.kind = kind};
      trn_authenticator *authenticator = NULL;
      trn_identity identity = {.struct_size = sizeof identity};
      const trn_identity was = {.struct_size = sizeof was, .user = "ann"};
      trn_error *error = NULL;
      assert_int_equal(trn_authenticator_create(is_old ? &old : &ops, &d, &authenticator), TRN_OK);
      trn_status status = trn_authenticate(authenticator, &credentials, &identity, &error);
      assert_int_equal(status, kind == WORKS ? TRN_OK : kind == SAYS_NO ? TRN_UNAUTHENTICATED : TRN_INTERNAL);
      if (status) says(error, kind == SAYS_NO ? "nobody I know" : "gave no user");
      error = NULL;
      if (!status) identity.release(&identity);
      assert_int_equal(d.released, kind == SAYS_NO ? 0 : 1); /* nobody is released, too */
      bool is_lost = kind == SAYS_NO && !is_old;
      assert_int_equal(trn_authenticator_reload(authenticator, &error), is_lost ? TRN_NOT_FOUND : TRN_OK);
      if (is_lost) says(error, "the list is lost");
      error = NULL;
      assert_int_equal(trn_authenticator_reloads(authenticator), is_lost ? 0 : 1);
      identity = (trn_identity){.struct_size = sizeof identity};
      assert_int_equal(trn_authenticator_refresh(authenticator, &was, &identity, &error), is_lost ? TRN_UNAUTHENTICATED : TRN_OK);
      if (is_lost) says(error, "he was let go");
      assert_null(identity.user);
      trn_authenticator_unref(authenticator);
      assert_int_equal(d.destroyed, 1);
    }
}

/* ---- groups of a session: borrowed as long as it lives, bounded ---- */

static void groups_change_and_what_was_borrowed_stays(void **state) {
  (void)state;
  odd o = {.kind = WORKS};
  trn_backend *backend = odd_backend(&o);
  const char *const first[] = {"red", "blue"}, *const second[] = {"red"};
  trn_session_request request = {.struct_size = sizeof request, .user = "ann", .groups = first, .group_count = 2};
  trn_session *session = NULL;
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
  const char *const *borrowed, *const *now;
  assert_int_equal(trn_session_groups(session, &borrowed), 2);
  assert_int_equal(trn_session_set_groups(session, second, 1, NULL), TRN_OK);
  assert_int_equal(trn_session_groups(session, &now), 1);
  assert_string_equal(now[0], "red");
  assert_string_equal(borrowed[1], "blue");
  assert_int_equal(trn_session_set_groups(session, NULL, 0, NULL), TRN_OK);
  assert_int_equal(trn_session_groups(session, &now), 0);
  for (int i = 0; i < 5000; i++) /* sets that take turns cost nothing */
    assert_int_equal(trn_session_set_groups(session, i % 2 ? first : second, i % 2 ? 2 : 1, NULL), TRN_OK);
  assert_int_equal(trn_session_groups(session, &now), 2);
  assert_ptr_equal(now, borrowed);
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  for (unsigned i = 0; !status && i < 2 * TRN_SESSION_GROUP_SETS_MAX; i++) {
    char name[20];
    const char *const one[] = {name};
    snprintf(name, sizeof name, "group%u", i);
    status = trn_session_set_groups(session, one, 1, &error);
  }
  assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  says(error, "begin a new one");
  assert_int_equal(trn_session_set_groups(session, first, 2, NULL), TRN_OK); /* one that was there before */
  trn_session_unref(session);
  trn_backend_unref(backend);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_answer_a_pull_once_whatever_their_maker_does),
      cmocka_unit_test(what_a_backend_says_comes_out_also_through_layers),
      cmocka_unit_test(what_an_operation_says_comes_out),
      cmocka_unit_test(what_a_catalog_says_comes_out),
      cmocka_unit_test(what_an_authenticator_says_comes_out),
      cmocka_unit_test(groups_change_and_what_was_borrowed_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
