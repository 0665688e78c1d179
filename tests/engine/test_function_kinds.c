/* Functions of the other kinds and operators through the engine; what is cancelled; what the engine gets wrong. */
#include "seam.h"

/* ---- functions of other kinds ---- */

static void op_window_function(bytes *b, const char *name, uint8_t unit, uint8_t start, uint8_t end, uint8_t has_start) {
  u8(b, TRN_OP_WINDOW), u8(b, 0), u8(b, TRN_HOME_LIBRARY), str(b, name), u8(b, 0), u8(b, 0), u32(b, 1), u32(b, 0);
  u32(b, 1), u8(b, 0), u8(b, unit), u8(b, start), u8(b, end), u8(b, has_start), u8(b, 0);
  type(b, TRN_TYPE_INT64);
}

static void test_c_window_functions_see_partitions_and_frames(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 5, 1, 0);
  op_column(b, 0), op_column(b, 0);
  op_window_function(b, "t.running", TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, TRN_BOUND_CURRENT_ROW, 0);
  op_column(b, 0), op_column(b, 0), op_int(b, 1);
  op_window_function(b, "t.width", TRN_FRAME_ROWS, TRN_BOUND_PRECEDING, TRN_BOUND_CURRENT_ROW, 1);
  u8(b, TRN_OP_WINDOW_REL), u32(b, 2), u32(b, 1), u32(b, 2);
  RUN_EXPECT("0,0,1;1,1,2;2,3,2;3,6,2;4,10,2;");
}

static void test_c_table_functions_are_called_from_sql(void **state) {
  (void)state;
  static const char sql[] = "select v, v * 2 from t_count(5) where v > 1";
  trn_engine_statement_input input = {.struct_size = sizeof input, .sql = sql, .size = sizeof sql - 1};
  trn_engine_statement statement = {0};
  trn_engine_error error = {0};
  result out;
  check(f.engine->statement(f.session, &input, &statement, &error), &error);
  trn_engine_execution *execution = execute(statement.plan);
  drain(execution, &out);
  check(out.status, &out.error);
  assert_string_equal(out.text, "2,4;3,6;4,8;");
  f.engine->execution_release(execution);
  f.engine->plan_release(statement.plan);
  statement.release(statement.self);
  input.sql = "select * from t_count('x')", input.size = strlen(input.sql);
  assert_int_equal(f.engine->statement(f.session, &input, &statement, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(error.condition, "T_SIGNATURE");
  release_error(&error);
}

static void op_echo(bytes *b, const char *payload, uint32_t inputs, uint32_t id) {
  u8(b, TRN_OP_EXTENSION), str(b, "t.echo"), str(b, payload), u32(b, inputs), u32(b, 1), u32(b, id);
}

static void test_c_operators_get_what_they_need_of_their_inputs(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b); /* two inputs, one after the other; each is one sorted partition */
  op_range(b, 4, 2, 0), op_range(b, 3, 2, 1);
  op_echo(b, "s", 2, 5);
  RUN_EXPECT("3;2;1;0;-4;2;1;0;-3;");

  begin(b); /* all rows, and the counts of all partitions */
  op_range(b, 1000, 2, 0);
  op_echo(b, "k", 1, 5);
  op_column(b, 5), op_int(b, 0), op_call(b, TRN_HOME_NATIVE, ">=", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  op_column(b, 5), op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1);
  op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0);
  op_group(b, 0, 2, 7, 8);
  RUN_EXPECT("499500,1000;");

  begin(b);
  op_range(b, 10, 1, 0);
  op_echo(b, "f", 1, 5);
  result out;
  run(&out);
  assert_int_equal(out.status, TRN_DATA_LOSS);
  assert_string_equal(out.error.condition, "T_ECHO");
  release_error(&out.error);
  for (int i = 0; i < 2000 && echo_states; i++) usleep(1000);
  assert_int_equal(echo_states, 0);

  begin(b);
  op_range(b, 10, 1, 0);
  u8(b, TRN_OP_EXTENSION), str(b, "t.unknown"), str(b, ""), u32(b, 1), u32(b, 1), u32(b, 5);
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  assert_int_equal(f.engine->plan_lower(f.session, b->data, b->size, NULL, 0, &plan, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "t.unknown"));
  release_error(&error);
}

static void test_a_cancelled_nested_loop_join_frees_the_processor(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b); /* 10^10 pairs, of which none matches */
  op_range(b, 100000, 1, 0), op_range(b, 100000, 1, 1);
  op_column(b, 0), op_column(b, 1), op_call(b, TRN_HOME_NATIVE, "+", 2, TRN_TYPE_INT64);
  op_int(b, -1), op_call(b, TRN_HOME_NATIVE, "<", 2, TRN_TYPE_BOOL);
  op_join(b, TRN_JOIN_INNER, 0, 1, 0);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  pull p;
  pull_init(&p);
  trn_engine_error error = {0};
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  usleep(300000);
  f.engine->execution_cancel(execution);
  pull_wait(&p, 1);
  release_error(&p.error);
  usleep(300000); /* whatever was on its way has ended */
  clock_t before = clock();
  usleep(500000);
  double used_ms = (double)(clock() - before) * 1000 / CLOCKS_PER_SEC;
  if (used_ms > 100) fail_msg("the processor was busy for %.0f of 500 ms", used_ms);
  f.engine->execution_release(execution);
}

static void test_structs_beside_nulls_make_an_array(void **state) {
  (void)state;
  static const char sql[] = "select array_length(make_array(named_struct('a', 1), null))";
  trn_engine_statement_input input = {.struct_size = sizeof input, .sql = sql, .size = sizeof sql - 1};
  trn_engine_statement statement = {0};
  trn_engine_lifted lifted = {0};
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  result out;
  check(f.engine->statement(f.session, &input, &statement, &error), &error);
  check(f.engine->lift(statement.plan, &lifted, &error), &error);
  check(f.engine->plan_lower(f.session, lifted.data, lifted.size, NULL, 0, &plan, &error), &error);
  trn_engine_execution *execution = execute(plan);
  drain(execution, &out);
  check(out.status, &out.error);
  assert_int_equal(out.rows, 1);
  f.engine->execution_release(execution);
  f.engine->plan_release(plan), f.engine->plan_release(statement.plan);
  lifted.release(lifted.self), statement.release(statement.self);
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_c_window_functions_see_partitions_and_frames, reset),
      cmocka_unit_test_teardown(test_c_table_functions_are_called_from_sql, reset),
      cmocka_unit_test_teardown(test_c_operators_get_what_they_need_of_their_inputs, reset),
      cmocka_unit_test_teardown(test_a_cancelled_nested_loop_join_frees_the_processor, reset),
      cmocka_unit_test_teardown(test_structs_beside_nulls_make_an_array, reset),
  };
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
