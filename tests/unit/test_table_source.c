/* Tables that the program implements, over the scripted backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "conformance/puller.h"
#include "support/numbers_table.h"

static trn_scripted *control;
static trn_backend *backend;
static trn_session *session;

static int setup(void **state) {
  (void)state;
  if (trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, &backend)) return -1;
  return trn_session_open(backend, &(trn_session_request){.struct_size = sizeof(trn_session_request), .user = ""}, &session, NULL);
}

static int teardown(void **state) {
  (void)state;
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn__scripted_unref(control);
  return 0;
}

static trn_plan *scan_of(trn_source *source) {
  trn_arena *a = trn__arena_create(0);
  static const uint32_t indexes[] = {0};
  trn_column column = {.id = 1, .nullable = true, .type = trn__type(TRN_TYPE_INT64)};
  trn_field *field = TRN_NEW(a, trn_field);
  *field = (trn_field){.name = "n", .type = column.type, .nullable = true};
  trn_rel *scan = trn__rel_create(a, TRN_REL_SCAN, NULL, 0, NULL, 0, &column, 1);
  scan->u.scan.source = source, scan->u.scan.indexes = indexes, scan->u.scan.label = "";
  trn_plan *plan = NULL;
  assert_int_equal(trn__plan_create(a, scan, field, 2, NULL, NULL, &plan), TRN_OK);
  return plan;
}

static void rows_of_all_partitions_arrive_in_order(void **state) {
  (void)state;
  numbers t = {0};
  struct ArrowSchema schema = {0};
  trn_source *source = NULL;
  assert_int_equal(trn_table_source_create(session, &numbers_ops, &t, NULL, &source, &schema, NULL), TRN_OK);
  assert_int_equal(schema.n_children, 3);
  schema.release(&schema);
  trn_plan *plan = scan_of(source);
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  int64_t next = 0;
  puller p;
  puller_init(&p);
  for (;;) {
    struct ArrowArray batch = {0};
    assert_int_equal(pull_array(&p, stream, &batch), TRN_OK);
    if (!batch.release) break;
    const int64_t *values = batch.children[0]->buffers[1];
    for (int64_t i = 0; i < batch.length; i++) assert_int_equal(values[batch.children[0]->offset + i], next++);
    batch.release(&batch);
  }
  assert_int_equal(next, ROWS);
  puller_finish(&p);
  trn_stream_unref(stream), trn_operation_unref(operation), trn_plan_unref(plan);
  assert_int_equal(t.destroyed, 0);
  trn_backend_source_unref(backend, source);
  assert_int_equal(t.destroyed, 1);
}

static void a_table_that_fails_is_not_taken(void **state) {
  (void)state;
  numbers t = {.fails_late = true};
  struct ArrowSchema schema = {0};
  trn_source *source = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_table_source_create(session, &numbers_ops, &t, NULL, &source, &schema, &error), TRN_DATA_LOSS);
  assert_string_equal(trn_error_condition(error), "MY_CONDITION");
  trn_error_unref(error);
  trn_table_provider_ops ops = numbers_ops;
  ops.scan = NULL;
  assert_int_equal(trn_table_source_create(session, &ops, &t, NULL, &source, &schema, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(t.destroyed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_all_partitions_arrive_in_order),
                                     cmocka_unit_test(a_table_that_fails_is_not_taken)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
