#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "conformance/backend_suite.h"
#include "conformance/puller.h"
#include "plan/plan.h"

typedef struct suite {
  trn_backend *backend;
  const trn_backend_deviations *deviations;
  trn_session *session;
} suite;

enum { LONG_ROWS = 1 << 30, SOME_ROWS = 50000 };

/* ---- plans ---- */

static trn_plan *plan_end(trn_arena *a, const trn_rel *root, const char *const *names, uint32_t next) {
  trn_field *fields = TRN_NEW_N(a, trn_field, root->column_count);
  for (uint32_t i = 0; i < root->column_count; i++)
    fields[i] = (trn_field){.name = names[i], .type = root->columns[i].type, .nullable = root->columns[i].nullable};
  trn_plan *plan;
  assert_int_equal(trn__plan_create(a, root, fields, next, NULL, NULL, &plan), TRN_OK);
  return plan;
}

static trn_rel *range_rel(trn_arena *a, int64_t rows) {
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *range = trn__rel_create(a, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.end = rows;
  range->u.range.step = 1;
  range->u.range.partitions = 1;
  return range;
}

/* "id": 0 .. rows - 1 */
static trn_plan *range_plan(int64_t rows) {
  trn_arena *a = trn__arena_create(0);
  return plan_end(a, range_rel(a, rows), (const char *[]){"id"}, 2);
}

/* "id", "text": rows [skip, skip + fetch) of a range, with a constant */
static trn_plan *window_plan(int64_t rows, int64_t skip, int64_t fetch) {
  trn_arena *a = trn__arena_create(0);
  const trn_rel *range = range_rel(a, rows);
  const trn_expr *exprs[] = {trn__expr_column(a, &range->columns[0]), trn__expr_string(a, "caf\xc3\xa9", 5)};
  trn_column columns[] = {range->columns[0], {.id = 2, .type = trn__type(TRN_TYPE_STRING)}};
  const trn_rel *project = trn__rel_project(a, range, exprs, columns, 2);
  trn_rel *limit = trn__rel_create(a, TRN_REL_LIMIT, &project, 1, NULL, 0, project->columns, 2);
  limit->u.limit.skip = skip;
  limit->u.limit.fetch = fetch;
  return plan_end(a, limit, (const char *[]){"id", "text"}, 3);
}

/* Two rows: (1, 'x', null), (null, '', 2.5); the names repeat. */
static trn_plan *values_plan(void) {
  trn_arena *a = trn__arena_create(0);
  trn_expr *number = trn__expr_create(a, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_FLOAT64), false, NULL, 0);
  number->u.literal.value.number = 2.5;
  const trn_expr *exprs[] = {trn__expr_int(a, trn__type(TRN_TYPE_INT32), 1),
                             trn__expr_string(a, "x", 1),
                             trn__expr_null(a, trn__type(TRN_TYPE_FLOAT64)),
                             trn__expr_null(a, trn__type(TRN_TYPE_INT32)),
                             trn__expr_string(a, "", 0),
                             number};
  trn_column columns[] = {{.id = 1, .type = trn__type(TRN_TYPE_INT32), .nullable = true},
                          {.id = 2, .type = trn__type(TRN_TYPE_STRING)},
                          {.id = 3, .type = trn__type(TRN_TYPE_FLOAT64), .nullable = true}};
  trn_rel *values = trn__rel_create(a, TRN_REL_VALUES, NULL, 0, exprs, 6, columns, 3);
  values->u.values.row_count = 2;
  return plan_end(a, values, (const char *[]){"a", "a", "b c"}, 4);
}

/* ---- doing ---- */

/* Takes the plan. */
static trn_operation *execute(trn_session *session, trn_plan *plan, const char *id) {
  trn_operation *operation = NULL;
  trn_error *error = NULL;
  trn_execute_request request = {.struct_size = sizeof request, .operation_id = id, .plan = plan};
  trn_status status = trn_backend_execute(session, &request, &operation, &error);
  if (status) print_error("execute: %s: %s\n", trn_status_name(status), trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_plan_unref(plan); /* the operation has what it needs */
  return operation;
}

static trn_stream *stream_of(trn_operation *operation) {
  trn_stream *stream = NULL;
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  assert_non_null(stream);
  return stream;
}

static trn_stream *stream_of_plan(const suite *s, trn_plan *plan) {
  trn_operation *operation = execute(s->session, plan, NULL);
  trn_stream *stream = stream_of(operation);
  trn_operation_unref(operation); /* the stream has what it needs */
  return stream;
}

/* Whatever the backend's natural form: the next rows; -1: the end. */
static trn_status pull_rows(const suite *s, puller *p, trn_stream *stream, int64_t *rows) {
  trn_status status;
  if (s->deviations->arrays_unimplemented) {
    trn_ipc_piece piece;
    status = pull_ipc(p, stream, 0, &piece);
    *rows = piece.release ? piece.rows : -1;
    if (status == TRN_OK && piece.release) piece.release(piece.owner);
  } else {
    struct ArrowArray array;
    status = pull_array(p, stream, &array);
    *rows = array.release ? array.length : -1;
    trn__array_release(&array);
  }
  return status;
}

static trn_status start_any(const suite *s, puller *p, trn_stream *stream) {
  return s->deviations->arrays_unimplemented ? puller_start_ipc(p, stream, 0) : puller_start_array(p, stream);
}

/* Reads to the end. */
static int64_t count_rows(const suite *s, trn_stream *stream) {
  puller p;
  int64_t rows, sum = 0;
  puller_init(&p);
  for (;;) {
    assert_int_equal(pull_rows(s, &p, stream, &rows), TRN_OK);
    if (rows < 0) break;
    sum += rows;
  }
  puller_finish(&p);
  return sum;
}

static void await_state(trn_operation *operation, trn_operation_state state) {
  for (int i = 0; i < 2000 && trn_operation_get_state(operation) != state; i++)
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(trn_operation_get_state(operation), state);
}

/* ---- sessions ---- */

static void sessions_keep_what_they_are_given(const suite *s) {
  trn_kv settings[] = {{"k", "v"}, {"l", "w"}};
  trn_session_request request = {
      .struct_size = sizeof request, .id = "my-id", .user = "ann", .settings = settings, .setting_count = 2};
  trn_session *one, *two;
  assert_int_equal(trn_session_open(s->backend, &request, &one, NULL), TRN_OK);
  assert_int_equal(trn_session_open(s->backend, NULL, &two, NULL), TRN_OK);
  assert_string_equal(trn_session_id(one), "my-id");
  assert_string_equal(trn_session_user(one), "ann");
  assert_ptr_equal(trn_session_backend(one), s->backend);
  char *value = trn_session_get(one, "l");
  assert_string_equal(value, "w");
  trn_free(value);
  assert_null(trn_session_get(two, "l"));
  assert_true(trn__uuid_is_valid(trn_session_id(two)));
  trn_session_unref(one);
  trn_session_unref(two);
}

static void operations_have_ids(const suite *s) {
  trn_operation *one = execute(s->session, range_plan(3), "op-1"), *two = execute(s->session, range_plan(3), NULL);
  assert_string_equal(trn_operation_id(one), "op-1");
  assert_true(trn__uuid_is_valid(trn_operation_id(two)));
  trn_operation_unref(one); /* never read: nothing is left over */
  trn_operation_unref(two);
}

static void execute_refuses_what_is_no_plan(const suite *s) {
  trn_operation *operation;
  trn_execute_request request = {.struct_size = sizeof request};
  assert_int_equal(trn_backend_execute(s->session, &request, &operation, NULL), TRN_INVALID_ARGUMENT);
  assert_null(operation);
}

/* ---- results ---- */

static void schemas_are_the_plans(const suite *s) {
  trn_stream *stream = stream_of_plan(s, values_plan());
  struct ArrowSchema schema;
  trn_slice first, second;
  if (s->deviations->arrays_unimplemented) {
    assert_int_equal(trn_stream_schema(stream, &schema, NULL), TRN_UNIMPLEMENTED);
  } else {
    assert_int_equal(trn_stream_schema(stream, &schema, NULL), TRN_OK);
    static const char *const names[] = {"a", "a", "b c"}, *const formats[] = {"i", "u", "g"};
    assert_string_equal(schema.format, "+s");
    assert_int_equal(schema.n_children, 3);
    for (int i = 0; i < 3; i++) {
      assert_string_equal(schema.children[i]->name, names[i]);
      assert_string_equal(schema.children[i]->format, formats[i]);
    }
    assert_true(schema.children[0]->flags & ARROW_FLAG_NULLABLE);
    assert_true(schema.children[2]->flags & ARROW_FLAG_NULLABLE);
    schema.release(&schema);
  }
  assert_int_equal(trn_stream_schema_ipc(stream, &first, NULL), TRN_OK);
  assert_int_equal(trn_stream_schema_ipc(stream, &second, NULL), TRN_OK);
  assert_null(first.release);
  assert_int_equal(ipc_message_kind(first.data, first.size), 1);
  assert_int_equal(first.size, second.size);
  assert_memory_equal(first.data, second.data, first.size);
  assert_int_equal(count_rows(s, stream), 2);
  trn_stream_unref(stream);
}

static void arrays_hold_the_values(const suite *s) {
  trn_stream *stream = stream_of_plan(s, values_plan());
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  if (s->deviations->arrays_unimplemented) {
    assert_int_equal(pull_array(&p, stream, &array), TRN_UNIMPLEMENTED);
  } else {
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    assert_int_equal(array.length, 2);
    assert_int_equal(array.n_children, 3);
    struct ArrowArray **c = array.children;
    int64_t at = array.offset;
    assert_int_equal(trn__array_int(c[0], "i", at), 1);
    assert_true(trn__array_is_null(c[0], at + 1));
    assert_int_equal(trn__array_bytes(c[1], "u", at).size, 1);
    assert_memory_equal(trn__array_bytes(c[1], "u", at).data, "x", 1);
    assert_int_equal(trn__array_bytes(c[1], "u", at + 1).size, 0);
    assert_false(trn__array_is_null(c[1], at + 1));
    assert_true(trn__array_is_null(c[2], at));
    assert_true(trn__array_double(c[2], "g", at + 1) == 2.5);
    array.release(&array);
  }
  puller_finish(&p);
  trn_stream_unref(stream);
}

static void arrays_come_in_order_and_end_for_ever(const suite *s) {
  if (s->deviations->arrays_unimplemented) return;
  trn_operation *operation = execute(s->session, range_plan(SOME_ROWS), NULL);
  trn_stream *stream = stream_of(operation);
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  int64_t expected = 0;
  while (pull_array(&p, stream, &array) == TRN_OK && array.release) {
    for (int64_t i = 0; i < array.length; i++)
      assert_int_equal(trn__array_int(array.children[0], "l", array.offset + i), expected++);
    array.release(&array);
  }
  assert_int_equal(p.status, TRN_OK);
  assert_int_equal(expected, SOME_ROWS);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    assert_null(array.release);
  }
  await_state(operation, TRN_OPERATION_FINISHED);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

/* Pieces of at most bytes_max bytes, or of one row; gives how many there were. */
static int read_pieces(const suite *s, size_t bytes_max) {
  trn_stream *stream = stream_of_plan(s, range_plan(SOME_ROWS));
  trn_ipc_piece piece;
  puller p;
  puller_init(&p);
  int64_t expected = 0;
  int count = 0;
  for (; pull_ipc(&p, stream, bytes_max, &piece) == TRN_OK && piece.release; count++) {
    ipc_batch batch;
    int64_t size = 0;
    assert_true(ipc_batch_read(&piece, &batch));
    assert_true(!bytes_max || piece.size <= bytes_max || piece.rows <= 1);
    const int64_t *values = ipc_batch_buffer(&batch, 1, &size);
    assert_non_null(values);
    assert_true(size >= 8 * batch.rows);
    for (int64_t i = 0; i < batch.rows; i++, expected++) {
      int64_t value;
      memcpy(&value, values + i, 8);
      assert_int_equal(value, expected);
    }
    free(batch.bytes);
    piece.release(piece.owner);
  }
  assert_int_equal(p.status, TRN_OK);
  assert_int_equal(expected, SOME_ROWS);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pull_ipc(&p, stream, bytes_max, &piece), TRN_OK);
    assert_null(piece.release);
  }
  puller_finish(&p);
  trn_stream_unref(stream);
  return count;
}

static void ipc_pieces_are_whole_messages_in_order(const suite *s) {
  assert_true(read_pieces(s, 0) >= 1);
}

static void ipc_pieces_are_cut_by_rows(const suite *s) {
  assert_true(read_pieces(s, 10000) >= SOME_ROWS * 8 / 10000);
}

static void windows_of_rows_and_constants(const suite *s) {
  static const int64_t cases[][4] = {/* rows, skip, fetch, expected */ {100, 10, 5, 5},
                                     {100, 98, 10, 2},
                                     {100, 0, 0, 0},
                                     {100, 100, 10, 0},
                                     {30000, 20000, -1, 10000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_stream *stream = stream_of_plan(s, window_plan(cases[i][0], cases[i][1], cases[i][2]));
    assert_int_equal(count_rows(s, stream), cases[i][3]);
    trn_slice schema;
    assert_int_equal(trn_stream_schema_ipc(stream, &schema, NULL), TRN_OK); /* after the end too, and without rows */
    assert_int_equal(ipc_message_kind(schema.data, schema.size), 1);
    trn_stream_unref(stream);
  }
}

static void results_read_twice_are_equal_or_refused(const suite *s) {
  trn_operation *operation = execute(s->session, range_plan(1000), NULL);
  trn_stream *first = stream_of(operation), *second = NULL;
  trn_status status = trn_operation_result_stream(operation, &second, NULL);
  if (status)
    assert_int_equal(status, TRN_FAILED_PRECONDITION);
  else
    assert_int_equal(count_rows(s, second), 1000);
  assert_int_equal(count_rows(s, first), 1000);
  trn_stream_unref(first);
  trn_stream_unref(second);
  trn_operation_unref(operation);
}

static void one_pull_at_a_time(const suite *s) {
  trn_stream *stream = stream_of_plan(s, range_plan(LONG_ROWS));
  puller p;
  puller_init(&p);
  for (int i = 0; i < 50; i++) {
    assert_int_equal(start_any(s, &p, stream), TRN_OK);
    trn_status second = start_any(s, &p, stream); /* the first may be done already */
    assert_true(second == TRN_OK || second == TRN_FAILED_PRECONDITION);
    assert_true(puller_wait(&p, 60000));
    assert_int_equal(p.status, TRN_OK);
  }
  trn_stream_unref(stream);
  puller_finish(&p);
}

/* ---- ends ---- */

static void cancel_before_the_first_pull(const suite *s) {
  trn_stream *stream = stream_of_plan(s, range_plan(LONG_ROWS));
  puller p;
  int64_t rows;
  puller_init(&p);
  trn_stream_cancel(stream);
  trn_stream_cancel(stream);
  for (int i = 0; i < 3; i++) assert_int_equal(pull_rows(s, &p, stream, &rows), TRN_CANCELLED);
  trn_stream_unref(stream);
  puller_finish(&p);
}

static void cancel_of_the_operation_before_its_stream(const suite *s) {
  trn_operation *operation = execute(s->session, range_plan(LONG_ROWS), NULL);
  trn_stream *stream = NULL;
  trn_operation_cancel(operation);
  trn_operation_cancel(operation);
  trn_status status = trn_operation_result_stream(operation, &stream, NULL);
  if (status == TRN_OK) {
    puller p;
    int64_t rows;
    puller_init(&p);
    assert_int_equal(pull_rows(s, &p, stream, &rows), TRN_CANCELLED);
    puller_finish(&p);
  } else {
    assert_int_equal(status, TRN_CANCELLED);
  }
  await_state(operation, TRN_OPERATION_CANCELLED);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

/* `by_operation`: else by the stream. */
static void cancel_midway(const suite *s, bool by_operation) {
  trn_operation *operation = execute(s->session, range_plan(LONG_ROWS), NULL);
  trn_stream *stream = stream_of(operation);
  puller p;
  int64_t rows;
  puller_init(&p);
  for (int i = 0; i < 3; i++) assert_int_equal(pull_rows(s, &p, stream, &rows), TRN_OK);
  assert_int_equal(start_any(s, &p, stream), TRN_OK);
  for (int i = 0; i < 3; i++) {
    if (by_operation)
      trn_operation_cancel(operation);
    else
      trn_stream_cancel(stream);
  }
  assert_true(puller_wait(&p, 60000)); /* with rows that were ready, or CANCELLED */
  assert_true(p.status == TRN_OK || p.status == TRN_CANCELLED);
  trn_status status = TRN_OK;
  for (int i = 0; i < 1000 && status == TRN_OK; i++) { /* what was ready may still come, soon it ends */
    status = pull_rows(s, &p, stream, &rows);
    assert_true(status != TRN_OK || rows >= 0); /* never as if it were the end */
  }
  assert_int_equal(status, TRN_CANCELLED);
  await_state(operation, TRN_OPERATION_CANCELLED);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  puller_finish(&p);
}

static void cancel_of_the_stream_while_it_runs(const suite *s) {
  cancel_midway(s, false);
}
static void cancel_of_the_operation_while_it_runs(const suite *s) {
  cancel_midway(s, true);
}

static void cancel_after_the_end_changes_nothing(const suite *s) {
  trn_operation *operation = execute(s->session, range_plan(10), NULL);
  trn_stream *stream = stream_of(operation);
  assert_int_equal(count_rows(s, stream), 10);
  await_state(operation, TRN_OPERATION_FINISHED);
  trn_operation_cancel(operation);
  trn_stream_cancel(stream);
  assert_int_equal(trn_operation_get_state(operation), TRN_OPERATION_FINISHED);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

static void unref_with_a_pull_outstanding_completes_it_once(const suite *s) {
  for (int i = 0; i < 20; i++) {
    trn_operation *operation = execute(s->session, range_plan(LONG_ROWS), NULL);
    trn_stream *stream = stream_of(operation);
    puller p;
    puller_init(&p);
    assert_int_equal(start_any(s, &p, stream), TRN_OK);
    if (i % 2) trn_operation_unref(operation);
    trn_stream_unref(stream);
    assert_true(puller_wait(&p, 60000));
    assert_true(p.status == TRN_OK || p.status == TRN_CANCELLED);
    if (i % 2 == 0) trn_operation_unref(operation);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(p.completed, 1);
    puller_finish(&p);
  }
}

static void operations_run_side_by_side(const suite *s) {
  enum { COUNT = 8 };
  trn_stream *streams[COUNT];
  puller pullers[COUNT];
  int64_t sums[COUNT] = {0};
  unsigned open = COUNT;
  bool is_open[COUNT];
  for (int i = 0; i < COUNT; i++) {
    streams[i] = stream_of_plan(s, range_plan(20000 + i));
    puller_init(&pullers[i]);
    is_open[i] = true;
  }
  while (open) {
    for (int i = 0; i < COUNT; i++)
      if (is_open[i]) assert_int_equal(start_any(s, &pullers[i], streams[i]), TRN_OK);
    for (int i = 0; i < COUNT; i++) {
      if (!is_open[i]) continue;
      assert_true(puller_wait(&pullers[i], 60000));
      assert_int_equal(pullers[i].status, TRN_OK);
      is_open[i] = pullers[i].array.release || pullers[i].piece.release;
      open -= !is_open[i];
      sums[i] += pullers[i].array.release   ? pullers[i].array.length
                 : pullers[i].piece.release ? pullers[i].piece.rows
                                            : 0;
    }
  }
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(sums[i], 20000 + i);
    trn_stream_unref(streams[i]);
    puller_finish(&pullers[i]);
  }
}

/* A pull from inside a completion is answered after that completion has returned. */
typedef struct chain {
  const suite *s;
  trn_stream *stream;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool is_inside, is_over;
  int64_t rows;
  trn_status status;
} chain;

static void chain_pull(chain *c);

static void chain_step(chain *c, trn_status status, int64_t rows) {
  pthread_mutex_lock(&c->mu);
  if (c->is_inside) abort(); /* completions overlap */
  c->is_inside = true;
  c->status = status;
  bool is_more = status == TRN_OK && rows >= 0;
  if (is_more) c->rows += rows;
  pthread_mutex_unlock(&c->mu);
  if (is_more) {
    chain_pull(c);
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL); /* time for the answer to come too early */
  }
  pthread_mutex_lock(&c->mu);
  c->is_inside = false;
  if (!is_more) c->is_over = true;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->mu);
}

static void chain_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  (void)error;
  int64_t rows = status == TRN_OK && array->release ? array->length : -1;
  if (status == TRN_OK) trn__array_release(array);
  chain_step(user, status, rows);
}

static void chain_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  (void)error;
  int64_t rows = status == TRN_OK && piece->release ? piece->rows : -1;
  if (status == TRN_OK && piece->release) piece->release(piece->owner);
  chain_step(user, status, rows);
}

static void chain_pull(chain *c) {
  trn_status status = c->s->deviations->arrays_unimplemented ? trn_stream_next_ipc(c->stream, 0, chain_ipc, c, NULL)
                                                             : trn_stream_next_array(c->stream, chain_array, c, NULL);
  if (status) abort();
}

static void completions_may_pull_again_and_do_not_overlap(const suite *s) {
  chain c = {.s = s, .stream = stream_of_plan(s, range_plan(SOME_ROWS))};
  pthread_mutex_init(&c.mu, NULL);
  pthread_cond_init(&c.changed, NULL);
  chain_pull(&c);
  pthread_mutex_lock(&c.mu);
  while (!c.is_over) pthread_cond_wait(&c.changed, &c.mu);
  pthread_mutex_unlock(&c.mu);
  assert_int_equal(c.status, TRN_OK);
  assert_int_equal(c.rows, SOME_ROWS);
  trn_stream_unref(c.stream);
  pthread_cond_destroy(&c.changed);
  pthread_mutex_destroy(&c.mu);
}

/* The last reference goes from inside the completion: the stream is destroyed on the backend's own thread. */
typedef struct dropper {
  trn_stream *stream;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  int completions;
} dropper;

static void drop_stream(dropper *d) {
  trn_stream_unref(d->stream);
  pthread_mutex_lock(&d->mu);
  d->completions++;
  pthread_cond_signal(&d->changed);
  pthread_mutex_unlock(&d->mu);
}

static void drop_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  (void)error;
  if (status == TRN_OK) trn__array_release(array);
  drop_stream(user);
}

static void drop_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  (void)error;
  if (status == TRN_OK && piece->release) piece->release(piece->owner);
  drop_stream(user);
}

static void unref_from_inside_a_completion(const suite *s) {
  for (int i = 0; i < 10; i++) {
    dropper d = {.stream = stream_of_plan(s, range_plan(LONG_ROWS))};
    pthread_mutex_init(&d.mu, NULL);
    pthread_cond_init(&d.changed, NULL);
    trn_status status = s->deviations->arrays_unimplemented || i % 2
                            ? trn_stream_next_ipc(d.stream, 1000, drop_ipc, &d, NULL)
                            : trn_stream_next_array(d.stream, drop_array, &d, NULL);
    assert_int_equal(status, TRN_OK);
    pthread_mutex_lock(&d.mu);
    while (!d.completions) pthread_cond_wait(&d.changed, &d.mu);
    pthread_mutex_unlock(&d.mu);
    assert_int_equal(d.completions, 1);
    pthread_cond_destroy(&d.changed);
    pthread_mutex_destroy(&d.mu);
  }
}

/* ---- many threads on one session ---- */

typedef struct worker {
  const suite *s;
  pthread_t thread;
  int64_t rows;
  int refused;
} worker;

static void *worker_run(void *argument) {
  worker *w = argument;
  for (int i = 0; i < 10; i++) {
    trn_execute_request request = {.struct_size = sizeof request, .plan = range_plan(5000)};
    trn_operation *operation;
    trn_stream *stream;
    trn_status status = trn_backend_execute(w->s->session, &request, &operation, NULL);
    trn_plan_unref(request.plan);
    if (status == TRN_OK) status = trn_operation_result_stream(operation, &stream, NULL);
    if (status) {
      w->refused++;
      continue;
    }
    puller p;
    int64_t rows;
    puller_init(&p);
    while (pull_rows(w->s, &p, stream, &rows) == TRN_OK && rows >= 0) w->rows += rows;
    puller_finish(&p);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
  }
  return NULL;
}

static void many_threads_share_a_session(const suite *s) {
  worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.s = s};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].refused, 0);
    assert_int_equal(workers[i].rows, 50000);
  }
}

/* ---- sources ---- */

static void a_path_without_data_is_named(const suite *s) {
  const char *path = "/nowhere/at/all.parquet";
  trn_source_request request = {.struct_size = sizeof request, .format = "parquet", .paths = &path, .path_count = 1};
  trn_source *source = (trn_source *)1;
  struct ArrowSchema schema;
  trn_error *error = NULL;
  trn_status status = trn_backend_open_source(s->session, &request, &source, &schema, &error);
  assert_null(source);
  assert_null(schema.release);
  if (s->deviations->sources_unimplemented) {
    assert_int_equal(status, TRN_UNIMPLEMENTED);
  } else {
    const trn_error_param *params;
    assert_int_not_equal(status, TRN_OK);
    assert_string_equal(trn_error_condition(error), "PATH_NOT_FOUND");
    assert_int_equal(trn_error_params(error, &params), 1);
    assert_string_equal(params[0].key, "path");
    assert_non_null(strstr(params[0].value, "/nowhere/at/all.parquet"));
  }
  trn_error_unref(error);
}

static void streams_outlive_their_session(const suite *s) {
  trn_session *session;
  assert_int_equal(trn_session_open(s->backend, NULL, &session, NULL), TRN_OK);
  trn_operation *operation = execute(session, range_plan(SOME_ROWS), NULL);
  trn_stream *stream = stream_of(operation);
  trn_operation_unref(operation);
  trn_session_unref(session);
  assert_int_equal(count_rows(s, stream), SOME_ROWS);
  trn_stream_unref(stream);
}

static void explain_and_metrics_answer(const suite *s) {
  trn_plan *plan = range_plan(10);
  char *text = NULL;
  for (int mode = TRN_EXPLAIN_LOGICAL; mode <= TRN_EXPLAIN_PHYSICAL; mode++) {
    trn_status status = trn_backend_explain(s->session, plan, (trn_explain_mode)mode, &text, NULL);
    assert_int_equal(status, s->deviations->explain_unimplemented ? TRN_UNIMPLEMENTED : TRN_OK);
    if (status == TRN_OK) assert_true(strlen(text) > 0);
    trn_free(text);
    text = NULL;
  }
  trn_operation *operation = execute(s->session, plan, NULL);
  trn_stream *stream = stream_of(operation);
  count_rows(s, stream);
  trn_status status = trn_operation_metrics(operation, &text);
  assert_int_equal(status, s->deviations->metrics_unimplemented ? TRN_UNIMPLEMENTED : TRN_OK);
  if (status == TRN_OK) assert_true(text[0] == '[' || text[0] == '{');
  trn_free(text);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

void trn_backend_conformance(trn_backend *backend, const trn_backend_deviations *deviations) {
  static const struct {
    const char *name;
    void (*check)(const suite *s);
  } checks[] = {
#define CHECK(name) {#name, name}
      CHECK(sessions_keep_what_they_are_given),
      CHECK(operations_have_ids),
      CHECK(execute_refuses_what_is_no_plan),
      CHECK(schemas_are_the_plans),
      CHECK(arrays_hold_the_values),
      CHECK(arrays_come_in_order_and_end_for_ever),
      CHECK(ipc_pieces_are_whole_messages_in_order),
      CHECK(ipc_pieces_are_cut_by_rows),
      CHECK(windows_of_rows_and_constants),
      CHECK(results_read_twice_are_equal_or_refused),
      CHECK(one_pull_at_a_time),
      CHECK(cancel_before_the_first_pull),
      CHECK(cancel_of_the_operation_before_its_stream),
      CHECK(cancel_of_the_stream_while_it_runs),
      CHECK(cancel_of_the_operation_while_it_runs),
      CHECK(cancel_after_the_end_changes_nothing),
      CHECK(unref_with_a_pull_outstanding_completes_it_once),
      CHECK(operations_run_side_by_side),
      CHECK(completions_may_pull_again_and_do_not_overlap),
      CHECK(unref_from_inside_a_completion),
      CHECK(many_threads_share_a_session),
      CHECK(a_path_without_data_is_named),
      CHECK(streams_outlive_their_session),
      CHECK(explain_and_metrics_answer),
#undef CHECK
  };
  suite s = {.backend = backend, .deviations = deviations};
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
    print_message("             %s\n", checks[i].name);
    assert_int_equal(trn_session_open(backend, NULL, &s.session, NULL), TRN_OK);
    checks[i].check(&s);
    trn_session_unref(s.session);
  }
}
