/* Functions with lambda arguments of C libraries, by queries: planned by the engine, their plans through C and back. */
#include "seam.h"

/* ---- queries whose one column is text ---- */

static void add_texts(result *out, const struct ArrowArray *batch) {
  const struct ArrowArray *a = batch->children[0];
  for (int64_t row = 0; row < a->length; row++) {
    const int32_t *at = (const int32_t *)a->buffers[1] + a->offset + row;
    size_t used = strlen(out->text), size = (size_t)(at[1] - at[0]);
    if (used + size + 8 > sizeof out->text) fail_msg("more text than there is room for");
    if (!bit(a->buffers[0], a->offset + row)) strcat(out->text, "null;");
    else snprintf(out->text + used, size + 2, "%.*s;", (int)size, (const char *)a->buffers[2] + at[0]);
  }
}

static void drain_texts(trn_engine_execution *execution, result *out) {
  memset(out, 0, sizeof *out);
  for (;;) {
    pull p;
    pull_init(&p);
    trn_engine_error error = {0};
    check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
    pull_wait(&p, 1);
    out->status = p.error.status, out->error = p.error;
    if (p.error.status || !p.array.release) return;
    if (p.array.n_children != 1 || p.array.children[0]->n_buffers != 3) fail_msg("no column of text");
    add_texts(out, &p.array);
    p.array.release(&p.array);
  }
}

/* A failure of planning has no plan. */
static trn_engine_plan *planned(const char *sql, result *out) {
  trn_engine_statement_input input = {.struct_size = sizeof input, .sql = sql, .size = strlen(sql)};
  trn_engine_statement statement = {0};
  trn_engine_lifted lifted = {0};
  trn_engine_plan *plan = NULL;
  memset(out, 0, sizeof *out);
  out->status = f.engine->statement(f.session, &input, &statement, &out->error);
  if (out->status) return NULL;
  check(f.engine->lift(statement.plan, &lifted, &out->error), &out->error);
  out->status = f.engine->lower(f.session, lifted.data, lifted.size, lifted.sources, lifted.source_count,
                                lifted.originals, lifted.original_count, &plan, &out->error);
  lifted.release(lifted.self);
  f.engine->plan_release(statement.plan);
  statement.release(statement.self);
  return plan;
}

static void query(const char *sql, result *out) {
  trn_engine_plan *plan = planned(sql, out);
  trn_engine_execution *execution = NULL;
  if (!plan) return;
  out->status = f.engine->execute(f.session, plan, NULL, &execution, &out->error);
  f.engine->plan_release(plan);
  if (out->status) return;
  drain_texts(execution, out);
  f.engine->execution_release(execution);
}

static void expect(const char *sql, const char *texts) {
  result out;
  query(sql, &out);
  if (out.status) fail_msg("%s: %s", sql, out.error.message);
  if (strcmp(out.text, texts)) fail_msg("%s: %s, not %s", sql, out.text, texts);
}

static void expect_failure(const char *sql, int32_t status, const char *condition, const char *part) {
  result out;
  query(sql, &out);
  if (out.status != status) fail_msg("%s: status %d, %s", sql, out.status, out.error.message ? out.error.message : "");
  if (condition && (!out.error.condition || strcmp(out.error.condition, condition)))
    fail_msg("%s: condition %s", sql, out.error.condition ? out.error.condition : "(none)");
  if (!strstr(out.error.message, part)) fail_msg("%s: %s", sql, out.error.message);
  release_error(&out.error);
}

/* Three lists, one null, one empty, with a column beside them. */
#define LISTS                                                                                                     \
  "(values (1, make_array(1, 2, 3)), (10, cast(null as bigint[])), (100, make_array()), (1000, make_array(4, null))) " \
  "as t(k, xs) "
#define JOINED(list) "select cast(array_to_string(" list ", ',', 'null') as varchar) from "

static void test_a_lambda_is_computed_for_the_elements_of_all_lists(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> x * 2)") LISTS, "2,4,6;null;;8,null;");
  expect(JOINED("t.map(xs, x -> 7)") LISTS, "7,7,7;null;;7,7;");        /* looks at nothing */
  expect(JOINED("t.map(xs, x -> x)") LISTS, "1,2,3;null;;4,null;");     /* gives its argument's own buffers */
  expect(JOINED("t.map(make_array(), x -> 1)") "(values (1)) as t(k)", ";");
  expect(JOINED("t.map(xs, x -> 1)") "(select make_array(1) as xs where false)", "");
}

static void test_a_lambda_sees_the_columns_of_its_row(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> x + k)") LISTS, "2,3,4;null;;1004,null;");
  expect(JOINED("t.map(make_array(1, 2), x -> x + k)") LISTS, "2,3;11,12;101,102;1001,1002;"); /* a constant list */
  expect(JOINED("t.map(xs, x -> k)") LISTS, "1,1,1;null;;1000,1000;");
  expect(JOINED("t.map(xs, x -> x + k)") LISTS "where k > 1", "null;;1004,null;");
}

static void test_parts_of_arrays_are_seen_as_parts(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> x + k)") LISTS "offset 3", "1004,null;");
  expect(JOINED("t.map(array_slice(xs, 2, 3), x -> x + k)") LISTS "limit 1", "3,4;");
  expect("select cast(array_to_string(t.map(xs, x -> x * 2), ',') as varchar) from (select array_agg(v) as xs from "
         "generate_series(1, 5) as g(v))", "2,4,6,8,10;");
  expect("select cast(sum(array_length(t.map(xs, x -> x + v))) as varchar) from (select v, make_array(v, v + 1) as xs from "
         "generate_series(1, 20000) as g(v))", "40000;");
}

static void test_elements_are_of_any_type(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> x || '!')") "(values (make_array('a', null, 'c'))) as t(xs)", "a!,null,c!;");
  expect(JOINED("t.map(xs, x -> x['a'] + 1)") "(values (make_array(named_struct('a', 1), named_struct('a', 2)))) as t(xs)",
         "2,3;");
  expect(JOINED("flatten(t.map(xs, x -> x))") "(values (make_array(make_array(1, 2), make_array(3)))) as t(xs)", "1,2,3;");
  expect(JOINED("t.map(t.map(xs, x -> named_struct('v', x, 'k', k)), s -> s['v'] + s['k'])") LISTS, "2,3,4;null;;1004,null;");
}

/* The engine moves expressions to other columns, and would leave the lambdas' variables behind. */
static void test_lambdas_stay_whole_where_expressions_are_moved(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> x + 1)") "(select xs from (select k as a, k * 2 as b, xs from " LISTS "))", "2,3,4;null;;5,null;");
  expect("select cast(l.k + r.k as varchar) from (select * from " LISTS ") l join (select * from " LISTS ") r on "
         "l.k < 10 and (array_length(t.map(l.xs, x -> x + r.k)) = 3) = (l.k + r.k = 2)", "2;");
  expect("select cast(l.k + r.k as varchar) from (values (1, make_array(1, 2))) as l(k, xs) join (values (2), (3)) as r(k) on "
         "array_element(array_transform(l.xs, x -> x * r.k), 2) = 6 or l.k > r.k", "4;");
}

/* coalesce is never run itself: the engine runs what it means. */
static void test_functions_that_mean_others_are_run_in_lambdas_and_deep_expressions(void **state) {
  (void)state;
  expect(JOINED("t.map(xs, x -> coalesce(x, k))") LISTS, "1,2,3;null;;4,1000;");
  char sql[4096] = "select cast(";
  for (int i = 0; i < 60; i++) strcat(sql, "coalesce(nullif(k, 1), 7) + ");
  strcat(sql, "0 as varchar) from " LISTS "where k < 100");
  expect(sql, "420;600;");
}

static void test_plans_with_lambdas_travel(void **state) {
  (void)state;
  static const char format[] = "datafusion.logical.v1";
  trn_engine_plan *plan, *again = NULL;
  trn_engine_execution *execution = NULL;
  trn_engine_bytes encoded = {0};
  trn_engine_error error = {0};
  result out;
  plan = planned(JOINED("t.map(array_transform(xs, x -> x * 2), x -> x + k)")
                 "(select make_array(1, 2, 3) as xs, 1 as k)", &out);
  check(f.engine->encode(f.session, plan, format, NULL, &encoded, &error), &error);
  check(f.engine->decode(f.session, format, encoded.data, encoded.size, NULL, NULL, &again, &error), &error);
  check(f.engine->execute(f.session, again, NULL, &execution, &error), &error);
  drain_texts(execution, &out);
  check(out.status, &out.error);
  assert_string_equal(out.text, "3,5,7;");
  f.engine->execution_release(execution);
  f.engine->plan_release(plan), f.engine->plan_release(again);
  encoded.release(encoded.self);
}

static void test_lambdas_stand_inside_of_lambdas(void **state) {
  (void)state;
  expect(JOINED("flatten(t.map(xs, x -> t.map(make_array(10, 20), y -> x + y + k)))") LISTS,
         "12,22,13,23,14,24;null;;1014,1024,null,null;");
  expect(JOINED("t.map(xs, x -> t.fold(make_array(1, 2), x, (s, y) -> s * 10 + y))") LISTS, "112,212,312;null;;412,null;");
}

static void test_lambdas_are_bound_from_left_to_right(void **state) {
  (void)state;
  expect("select cast(t.fold(xs, 100, (s, x) -> s + x) as varchar) from " LISTS, "106;null;100;null;");
  expect("select cast(t.fold(xs, k, (s, x) -> s * 2 + x, s -> s || ':' || k) as varchar) from " LISTS,
         "19:1;null;100:100;null;");
  expect("select cast(t.fold(xs, k, (s, x) -> coalesce(s, 0) + coalesce(x, k)) as varchar) from " LISTS,
         "7;null;100;2004;");
}

static void test_what_a_lambda_meets_is_the_calls_failure(void **state) {
  (void)state;
  expect_failure(JOINED("t.map(xs, x -> 1 / (x - 2))") LISTS, TRN_INVALID_ARGUMENT, "DIVIDE_BY_ZERO", "zero");
  expect_failure(JOINED("t.map(xs, x -> t.plus_one(x + 664))") LISTS, TRN_INVALID_ARGUMENT, "T_BAD_VALUE", "a bad value");
  expect_failure(JOINED("t.map(xs, x -> array_element(t.map(make_array(x), y -> t.plus_one(y + 664)), 1))") LISTS, TRN_INVALID_ARGUMENT,
                 "T_BAD_VALUE", "a bad value");
  expect_failure("select cast(t.fold(xs, 0, (s, x) -> 1 / s) as varchar) from " LISTS, TRN_INVALID_ARGUMENT,
                 "DIVIDE_BY_ZERO", "zero");
}

static void test_calls_that_do_not_fit_are_refused_when_they_are_planned(void **state) {
  (void)state;
  expect_failure("select cast(t.map(1, x -> x) as varchar)", TRN_INVALID_ARGUMENT, "T_SIGNATURE", "t.map");
  expect_failure("select cast(t.fold(make_array(1), 1, (s, x) -> 'x') as varchar)", TRN_INVALID_ARGUMENT, "T_SIGNATURE",
                 "t.fold");
  expect_failure(JOINED("t.map(xs, (x, y) -> x)") LISTS, TRN_INVALID_ARGUMENT, NULL, "lambda");
}

static void test_a_lambda_that_is_called_wrongly_says_so(void **state) {
  (void)state;
  static const struct { int how; const char *says; } cases[] = {
      {MISUSE_ORIGIN, "a lambda over row 4 of 4"},      {MISUSE_COUNT, "a lambda gets 1 arrays, not 2"},
      {MISUSE_LENGTH, "a lambda over 5 rows gets 4"},   {MISUSE_NO_ORIGINS, "a lambda over 5 rows of 4 without origins"},
      {MISUSE_ROWS, "a lambda over less than no rows"}, {MISUSE_RELEASED, "a kernel gave no array"}};
  char sql[512];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(sql, sizeof sql, JOINED("t.misuse(xs, %d, x -> x + k)") LISTS, cases[i].how);
    expect_failure(sql, TRN_INTERNAL, NULL, cases[i].says);
  }
  snprintf(sql, sizeof sql, JOINED("t.misuse(xs, %d, x -> 1 / (x - 2))") LISTS, MISUSE_IGNORES);
  expect_failure(sql, TRN_INTERNAL, NULL, "a kernel gave no array");
}

static void test_all_kinds_of_functions_are_called_from_sql_by_their_names(void **state) {
  (void)state;
  expect("select cast(t.plus_one(k) as varchar) from " LISTS, "2;11;101;1001;");
  expect("select cast(\"t.sum\"(k) as varchar) from " LISTS, "1111;");
  expect("select cast(t.sum(k) filter (where k > 1) as varchar) from " LISTS, "1110;");
  expect("select cast(t.running(k) over (order by k rows between unbounded preceding and current row) as varchar) from " LISTS
         "order by k", "1;11;111;1111;");
  expect_failure("select cast(t.plus_two(k) as varchar) from " LISTS, TRN_INVALID_ARGUMENT, "UNRESOLVED_ROUTINE", "t.plus_two");
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  /* The engine's own dialect has no lambdas. */
  const trn_kv setting = {"datafusion.sql_parser.dialect", "duckdb"};
  trn_engine_error error = {0};
  f.engine->session_release(f.session);
  if (f.engine->session_create(f.runtime, &setting, 1, &f.session, &error)) return fprintf(stderr, "%s\n", error.message), 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_lambda_is_computed_for_the_elements_of_all_lists),
      cmocka_unit_test(test_a_lambda_sees_the_columns_of_its_row),
      cmocka_unit_test(test_parts_of_arrays_are_seen_as_parts),
      cmocka_unit_test(test_elements_are_of_any_type),
      cmocka_unit_test(test_lambdas_stay_whole_where_expressions_are_moved),
      cmocka_unit_test(test_functions_that_mean_others_are_run_in_lambdas_and_deep_expressions),
      cmocka_unit_test(test_plans_with_lambdas_travel),
      cmocka_unit_test(test_lambdas_stand_inside_of_lambdas),
      cmocka_unit_test(test_lambdas_are_bound_from_left_to_right),
      cmocka_unit_test(test_what_a_lambda_meets_is_the_calls_failure),
      cmocka_unit_test(test_calls_that_do_not_fit_are_refused_when_they_are_planned),
      cmocka_unit_test(test_a_lambda_that_is_called_wrongly_says_so),
      cmocka_unit_test(test_all_kinds_of_functions_are_called_from_sql_by_their_names),
  };
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
