/* A table that C implements, read through queries: columns, filters, limit, partitions, statistics, failures. */
#include "sql_fixture.h"
#include "support/numbers_table.h"

/* ---- queries ---- */

static trn_source *current;

static trn_status resolve_numbers(void *user, const char *const *parts, size_t count, trn_resolved_table *out, trn_error **error) {
  (void)user;
  *out = (trn_resolved_table){0};
  if (count != 1 || strcmp(parts[0], "numbers")) return trn_error_set(error, TRN_NOT_FOUND, NULL, "no table %s", parts[0]);
  out->source = trn_backend_source_ref(backend, current);
  schema_of(NULL, 3, &out->schema);
  return TRN_OK;
}

static trn_status plan_of(const char *sql, trn_plan **out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = sql, .size = strlen(sql), .resolve = resolve_numbers};
  return trn_backend_decode(session, &input, out, error);
}

static void gives(const char *sql, const char *expected) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = plan_of(sql, &plan, &error);
  if (status) fail_with(status, error, sql);
  char *rows = execute(plan, sql);
  if (strcmp(rows, expected)) fail_msg("%s: %s", sql, rows);
  free(rows);
  trn_plan_unref(plan);
}

static void a_table_is_read_through_queries(void **state) {
  (void)state;
  numbers t = {.support = TRN_FILTER_EXACT};
  struct ArrowSchema schema = {0};
  trn_error *error = NULL;
  trn_status status = trn_table_source_create(session, &numbers_ops, &t, NULL, &current, &schema, &error);
  if (status) fail_with(status, error, "numbers");
  assert_int_equal(schema.n_children, 3);
  schema.release(&schema);

  gives("select sum(n) as s, count(half) as c from numbers", "499500,500,\n");
  gives("select n from numbers order by n limit 3", "0,\n1,\n2,\n");
  gives("select half, n2, n from numbers where n > 997", "499,1996,998,\nnull,1998,999,\n");
  assert_int_equal(t.filters_seen, 1);
  gives("select n from numbers where n > 997 and half is not null", "998,\n");
  assert_int_equal(t.filters_seen, 1); /* the other one is not for the table */
  t.scans = 0;
  gives("select n2 from numbers where n > 998", "1998,\n");
  assert_int_equal(t.columns_asked, 1); /* the filter's column is the table's own business */
  assert_int_equal(t.scans, 2);
  gives("select count(*) as c from numbers a join numbers b on a.n = b.n2", "500,\n");
  t.support = TRN_FILTER_INEXACT; /* more rows come than match */
  gives("select n from numbers where n > 998", "999,\n");
  assert_int_equal(t.filters_seen, 1);
  t.support = TRN_FILTER_UNSUPPORTED;
  gives("select n from numbers where n > 998", "999,\n");
  assert_int_equal(t.filters_seen, 0);

  t.fails_late = true;
  trn_plan *plan = NULL;
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  puller p;
  assert_int_equal(plan_of("select n from numbers", &plan, NULL), TRN_OK);
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  puller_init(&p);
  struct ArrowArray batch = {0};
  while (!(status = pull_array(&p, stream, &batch)) && batch.release) batch.release(&batch);
  assert_int_equal(status, TRN_DATA_LOSS);
  assert_string_equal(p.condition, "MY_CONDITION");
  assert_string_equal(p.message, "the disk melted");
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
  assert_int_equal(t.destroyed, 0);
  trn_backend_source_unref(backend, current);
  for (int i = 0; i < 2000 && !t.destroyed; i++) usleep(1000); /* the last of it goes on a thread of the engine */
  assert_int_equal(t.destroyed, 1);
}

static trn_status no_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self, (void)out;
  return trn_error_set(error, TRN_UNAVAILABLE, NULL, "not today");
}

static void a_table_that_fails_is_not_taken(void **state) {
  (void)state;
  numbers t = {0};
  struct ArrowSchema schema = {0};
  trn_source *source = NULL;
  trn_error *error = NULL;
  trn_table_provider_ops ops = numbers_ops;
  ops.schema = no_schema;
  assert_int_equal(trn_table_source_create(session, &ops, &t, NULL, &source, &schema, &error), TRN_UNAVAILABLE);
  assert_string_equal(trn_error_message(error), "not today");
  trn_error_unref(error);
  ops = numbers_ops, ops.scan = NULL;
  assert_int_equal(trn_table_source_create(session, &ops, &t, NULL, &source, &schema, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(t.destroyed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_table_is_read_through_queries),
                                     cmocka_unit_test(a_table_that_fails_is_not_taken)};
  const char *path = getenv("TRUNNION_ENGINE");
  if (!path || access(path, R_OK)) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: TRUNNION_ENGINE=%s is not readable\n", path ? path : "");
    return 0;
  }
  return cmocka_run_group_tests(tests, open_session, close_session);
}
