/* The engine's boundary, as C sees it: hand-encoded plans through libtrunnion_engine.so. */
#include "seam.h"
#include <sys/stat.h>

/* The same numbers as in engine/shim/src/abi.rs. */
_Static_assert(sizeof(trn_kv) == 16, "trn_kv");
_Static_assert(sizeof(trn_engine_error) == 64 && offsetof(trn_engine_error, position) == 40, "error");
_Static_assert(sizeof(trn_engine_options) == 48 && offsetof(trn_engine_options, memory_bytes) == 16, "options");
_Static_assert(sizeof(trn_engine_bytes) == 32 && sizeof(trn_engine_ipc) == 48, "bytes, ipc");
_Static_assert(sizeof(trn_engine) == 312 && offsetof(trn_engine, source_files) == 56, "vtable");
_Static_assert(offsetof(trn_engine, plan_lower) == 96 && offsetof(trn_engine, execute) == 152, "vtable");
_Static_assert(offsetof(trn_engine, execution_release) == 208, "vtable");
_Static_assert(offsetof(trn_engine, statement) == 216 && offsetof(trn_engine, decode) == 256, "vtable");
_Static_assert(sizeof(trn_engine_statement_input) == 64 && sizeof(trn_engine_statement) == 264, "statements");
_Static_assert(sizeof(trn_engine_lifted) == 80 && sizeof(trn_engine_table) == 88, "lifting");
_Static_assert(sizeof(trn_engine_table_ops) == 72 && sizeof(trn_engine_table_scan) == 64, "tables");
_Static_assert(sizeof(trn_function_error) == 40 && sizeof(trn_function_arg) == 24, "functions");
_Static_assert(sizeof(trn_scalar_function) == 48 && offsetof(trn_scalar_function, bind) == 24, "scalar");
_Static_assert(sizeof(trn_aggregate_function) == 96 && offsetof(trn_aggregate_function, memory) == 72, "aggregate");
_Static_assert(sizeof(trn_function_library) == 136 && offsetof(trn_function_library, lambdas) == 112, "library");
_Static_assert(sizeof(trn_lambda_function) == 64 && sizeof(trn_lambda) == 32, "lambdas");

/* ---- plans ---- */

static void test_range_filter_project_come_in_order(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 100000, 4, 0);
  op_column(b, 0), op_int(b, 2), op_call(b, TRN_HOME_NATIVE, "%", 2, TRN_TYPE_INT64);
  op_int(b, 0), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
  u8(b, TRN_OP_FILTER);
  op_column(b, 0), op_int(b, 1), op_call(b, TRN_HOME_NATIVE, "+", 2, TRN_TYPE_INT64);
  op_project(b, 1, 1);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  int64_t expected = 1;
  for (;;) {
    pull p;
    pull_init(&p);
    trn_engine_error error = {0};
    check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
    pull_wait(&p, 1);
    check(p.error.status, &p.error);
    if (!p.array.release) break;
    const struct ArrowArray *a = p.array.children[0];
    for (int64_t i = 0; i < a->length; i++, expected += 2)
      assert_int_equal(((const int64_t *)a->buffers[1])[a->offset + i], expected);
    p.array.release(&p.array);
  }
  assert_int_equal(expected, 100001);
  f.engine->plan_release(plan);
  f.engine->execution_release(execution);
}

static void test_ipc_messages_are_cut_and_read_back(void **state) {
  (void)state;
  bytes *b = &f.plan, stream = {0};
  begin(b);
  op_range(b, 20000, 2, 0);
  op_text(b, "some text"), op_column(b, 0), op_project(b, 2, 1, 0);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  trn_engine_bytes schema = {0};
  trn_engine_error error = {0};
  check(f.engine->execution_schema_ipc(execution, &schema, &error), &error);
  put(&stream, schema.data, schema.size);
  int64_t rows = 0;
  for (;;) {
    pull p;
    pull_init(&p);
    check(f.engine->next_ipc(execution, 32768, pull_ipc_done, &p, &error), &error);
    pull_wait(&p, 1);
    check(p.error.status, &p.error);
    if (!p.ipc.release) break;
    size_t size = 0;
    uint32_t marker, header;
    assert_true(p.ipc.size <= 32768);
    memcpy(&marker, p.ipc.parts[0].data, 4), memcpy(&header, (const uint8_t *)p.ipc.parts[0].data + 4, 4);
    assert_int_equal(marker, 0xffffffff);
    assert_int_equal(header + 8, p.ipc.parts[0].size);
    for (size_t i = 0; i < p.ipc.part_count; i++) {
      put(&stream, p.ipc.parts[i].data, p.ipc.parts[i].size);
      size += p.ipc.parts[i].size;
    }
    assert_int_equal(size, p.ipc.size);
    rows += p.ipc.rows;
    p.ipc.release(p.ipc.self);
  }
  assert_int_equal(rows, 20000);
  f.engine->execution_release(execution);

  struct ArrowSchema read = {0};
  check(f.engine->source_ipc(f.session, stream.data, stream.size, &f.sources[0], &read, &error), &error);
  assert_int_equal(read.n_children, 2);
  read.release(&read);
  for (size_t size = 0; size < schema.size; size += 7) { /* cut inside the schema: an error, no crash */
    trn_engine_source *source = NULL;
    assert_int_not_equal(f.engine->source_ipc(f.session, stream.data, size, &source, NULL, &error), 0);
    release_error(&error);
  }
  free(stream.data);
  f.source_count = 1;
  begin(b);
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 2), u32(b, 1), u32(b, 5), u32(b, 1), u32(b, 6);
  op_column(b, 5), op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1);
  op_column(b, 6), op_aggregate(b, TRN_HOME_ENGINE, "max", 0, 1);
  op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0);
  op_group(b, 0, 3, 7, 8, 9);
  RUN_EXPECT("199990000,19999,20000;");

  begin(b); /* rows in memory stay in their order */
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 1), u32(b, 1), u32(b, 5);
  op_column(b, 5), op_int(b, 9000), op_call(b, TRN_HOME_NATIVE, ">=", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 3);
  RUN_EXPECT("9000;9001;9002;");
}

static void test_many_partitions_join_without_waiting_for_each_other(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  for (uint32_t side = 0; side < 2; side++) {
    op_range(b, 5000, 2, side), op_column(b, side);
    u8(b, TRN_OP_REPARTITION), u32(b, 64), u8(b, 1), u8(b, 0), u32(b, 1), u8(b, 0);
  }
  op_column(b, 0), op_column(b, 1), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL), op_join(b, TRN_JOIN_INNER, 0, 1, 0);
  result r;
  run(&r);
  check(r.status, &r.error);
  assert_int_equal(r.rows, 5000);
}

static void test_c_functions_run_inside(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  four_rows(b, 0);
  op_column(b, 0), op_column(b, 1);
  op_call(b, TRN_HOME_LIBRARY, "t.plus_one", 1, TRN_TYPE_INT64), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1);
  op_group(b, 1, 1, 2, 3);
  op_column(b, 2), op_sort(b, 1, 0);
  RUN_EXPECT("1,42;2,21;3,null;");

  begin(b); /* many groups, in two stages */
  op_range(b, 100000, 4, 0);
  op_column(b, 0), op_int(b, 50000), op_call(b, TRN_HOME_NATIVE, "%", 2, TRN_TYPE_INT64);
  op_column(b, 0), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1), op_group(b, 1, 1, 1, 2);
  op_column(b, 1), op_sort(b, 1, 0), u8(b, TRN_OP_LIMIT), i64(b, 1), i64(b, 2);
  RUN_EXPECT("1,50002;2,50004;");

  begin(b); /* no rows: one group */
  op_range(b, 0, 1, 0);
  op_column(b, 0), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1), op_group(b, 0, 1, 1);
  RUN_EXPECT("null;");

  begin(b); /* distinct, beside one that is not */
  four_rows(b, 0);
  op_column(b, 0), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 1, 1);
  op_column(b, 0), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1), op_group(b, 0, 2, 2, 3);
  RUN_EXPECT("6,7;");
}

static void test_c_aggregates_run_over_windows(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 5, 1, 0);
  op_column(b, 0), op_column(b, 0), window(b, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, 0);
  op_column(b, 0), op_column(b, 0), op_int(b, 1), window(b, TRN_FRAME_ROWS, TRN_BOUND_PRECEDING, 1);
  u8(b, TRN_OP_WINDOW_REL), u32(b, 2), u32(b, 1), u32(b, 2);
  op_column(b, 0), op_sort(b, 1, 0);
  RUN_EXPECT("0,0,0;1,1,1;2,3,3;3,6,5;4,10,7;");
}

static void test_results_have_the_types_that_plans_declare(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b); /* row_number is uint64 in the engine; the kernel takes int64 only */
  op_range(b, 3, 1, 0);
  op_column(b, 0);
  u8(b, TRN_OP_WINDOW), u8(b, 0), u8(b, TRN_HOME_ENGINE), str(b, "row_number"), u8(b, 0), u8(b, 0), u32(b, 0), u32(b, 0);
  u32(b, 1), u8(b, 1), u8(b, TRN_FRAME_ROWS), u8(b, TRN_BOUND_UNBOUNDED_PRECEDING), u8(b, TRN_BOUND_CURRENT_ROW), u8(b, 0), u8(b, 0);
  type(b, TRN_TYPE_INT64);
  u8(b, TRN_OP_WINDOW_REL), u32(b, 1), u32(b, 1);
  op_column(b, 0), op_column(b, 1), op_call(b, TRN_HOME_LIBRARY, "t.plus_one", 1, TRN_TYPE_INT64), op_project(b, 2, 0, 2);
  op_column(b, 0), op_sort(b, 1, 0);
  RUN_EXPECT("0,4;1,3;2,2;");
  begin(b); /* so is the length of a text int32 */
  op_text(b, "four"), u8(b, TRN_OP_VALUES), u32(b, 1), u32(b, 1), u32(b, 0), type(b, TRN_TYPE_STRING), u8(b, 1);
  op_column(b, 0), op_call(b, TRN_HOME_ENGINE, "character_length", 1, TRN_TYPE_INT64);
  op_call(b, TRN_HOME_LIBRARY, "t.plus_one", 1, TRN_TYPE_INT64), op_project(b, 1, 1);
  RUN_EXPECT("5;");
}

static void test_kernel_errors_keep_condition_params_position(void **state) {
  (void)state;
  bytes *b = &f.plan;
  result r;
  begin(b);
  op_range(b, 1000, 2, 0);
  op_column(b, 0), op_int(b, (int64_t)7 << 32 | 12), op_call(b, TRN_HOME_LIBRARY, "t.plus_one", 2, TRN_TYPE_INT64);
  op_project(b, 1, 1);
  run(&r);
  assert_int_equal(r.status, TRN_INVALID_ARGUMENT);
  assert_string_equal(r.error.condition, "T_BAD_VALUE");
  assert_string_equal(r.error.message, "a bad value");
  assert_int_equal(r.error.param_count, 1);
  assert_string_equal(r.error.params[0].key, "value");
  assert_string_equal(r.error.params[0].value, "666");
  assert_int_equal(r.error.position, (int64_t)7 << 32 | 12);
  release_error(&r.error);
}

static void test_a_kernel_that_refuses_to_bind_fails_the_plan(void **state) {
  (void)state;
  bytes *b = &f.plan;
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  begin(b);
  op_range(b, 10, 1, 0);
  op_text(b, "x"), op_call(b, TRN_HOME_LIBRARY, "t.plus_one", 1, TRN_TYPE_INT64), op_project(b, 1, 1);
  assert_int_equal(f.engine->plan_lower(f.session, b->data, b->size, NULL, 0, &plan, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(error.condition, "T_SIGNATURE");
  release_error(&error);
}

static void test_relations_give_their_rows(void **state) {
  (void)state;
  bytes *b = &f.plan;
  static const struct {
    uint8_t kind, null_aware;
    const char *expected;
  } joins[] = {{TRN_JOIN_INNER, 0, "1,10,1,10;1,30,1,10;2,20,2,20;"},
               {TRN_JOIN_LEFT, 0, "1,10,1,10;1,30,1,10;2,20,2,20;3,null,null,null;"},
               {TRN_JOIN_LEFT_SEMI, 0, "1,10;1,30;2,20;"},
               {TRN_JOIN_LEFT_ANTI, 0, "3,null;"},
               {TRN_JOIN_LEFT_ANTI, 1, "3,null;"}};
  for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
    begin(b);
    four_rows(b, 0);
    four_rows(b, 2), u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 2);
    op_column(b, 0), op_column(b, 2), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
    op_join(b, joins[i].kind, joins[i].null_aware, 1, 0);
    op_column(b, 0), op_column(b, 1), op_sort(b, 2, 0);
    RUN_EXPECT(joins[i].expected);
  }
  begin(b); /* mark: counted where marked */
  four_rows(b, 0);
  four_rows(b, 2), u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 2);
  op_column(b, 0), op_column(b, 2), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
  op_join(b, TRN_JOIN_LEFT_MARK, 0, 1, 9);
  op_column(b, 9), op_call(b, TRN_HOME_NATIVE, "not", 1, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  op_column(b, 0), op_project(b, 1, 3 + 100);
  RUN_EXPECT("3;");

  begin(b); /* union by place, of a relation that is shared */
  four_rows(b, 0);
  u8(b, TRN_OP_SHARE), u32(b, 0), u8(b, TRN_OP_SHARED), u32(b, 0);
  u8(b, TRN_OP_UNION), u32(b, 2), u32(b, 1), u32(b, 5), u32(b, 0), u32(b, 1);
  u8(b, TRN_OP_DISTINCT), op_column(b, 5), op_sort(b, 1, 3);
  RUN_EXPECT("null;30;20;10;3;2;1;");

  for (int all = 0; all < 2; all++) { /* {1,2,1,3} and {1,2} */
    for (int except = 0; except < 2; except++) {
      begin(b);
      four_rows(b, 0);
      four_rows(b, 2), u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 2);
      u8(b, TRN_OP_SET), u8(b, (uint8_t)except), u8(b, (uint8_t)all), u32(b, 1), u32(b, 7), u32(b, 0), u32(b, 2);
      op_column(b, 7), op_sort(b, 1, 0);
      RUN_EXPECT(except ? (all ? "1;3;" : "3;") : "1;2;");
    }
  }
  begin(b); /* ROLLUP(c0) with its id */
  four_rows(b, 0);
  op_column(b, 0), op_column(b, 1), op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1);
  u8(b, TRN_OP_AGGREGATE_REL), u32(b, 1), u32(b, 1), u32(b, 2), u32(b, 3), u32(b, 2), u64(b, 1), u64(b, 0), u32(b, 4);
  op_column(b, 4), op_column(b, 2), op_sort(b, 2, 0);
  RUN_EXPECT("1,40,0;2,20,0;3,null,0;null,60,1;");

  begin(b); /* columns that are not there, one key twice, casts that share a name */
  four_rows(b, 0);
  op_column(b, 0), op_column(b, 0);
  op_column(b, 1), op_aggregate(b, TRN_HOME_ENGINE, "max", 0, 1);
  op_column(b, 1), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_STRING), u8(b, 0), op_aggregate(b, TRN_HOME_ENGINE, "max", 0, 1);
  op_group(b, 2, 2, 2, 3, 4, 5);
  op_column(b, 5), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_INT64), u8(b, 0);
  op_column(b, 4), op_column(b, 3), op_column(b, 2), op_project(b, 4, 6, 4, 3, 2);
  op_column(b, 2), op_sort(b, 1, 0);
  RUN_EXPECT("30,30,1,1;20,20,2,2;null,null,3,3;");

  begin(b); /* rows without columns */
  u8(b, TRN_OP_VALUES), u32(b, 3), u32(b, 0);
  op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0), op_group(b, 0, 1, 1);
  RUN_EXPECT("3;");
}

static void test_a_sort_does_not_change_the_rows_of_a_limit_below_it(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  four_rows(b, 0), u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 2), op_column(b, 0), op_sort(b, 1, 1);
  RUN_EXPECT("2,20;1,10;");
  begin(b);
  four_rows(b, 0), u8(b, TRN_OP_LIMIT), i64(b, 1), i64(b, 2), op_column(b, 0), op_sort(b, 1, 0);
  RUN_EXPECT("1,30;2,20;");
  begin(b); /* the same below a window, which sorts */
  four_rows(b, 0), u8(b, TRN_OP_LIMIT), i64(b, 1), i64(b, 2);
  op_column(b, 0), op_column(b, 0), window(b, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, 0);
  u8(b, TRN_OP_WINDOW_REL), u32(b, 1), u32(b, 6);
  RUN_EXPECT("1,30,1;2,20,3;");
  begin(b); /* a limit over a sort, sorted again */
  four_rows(b, 0), op_column(b, 1), op_sort(b, 1, 1), u8(b, TRN_OP_LIMIT), i64(b, 1), i64(b, 2);
  op_column(b, 0), op_sort(b, 1, 1);
  RUN_EXPECT("2,20;1,10;");
}

static void test_a_limit_takes_the_first_rows_of_several_partitions(void **state) {
  (void)state;
  bytes *b = &f.plan;
  for (int i = 0; i < 20; i++) {
    begin(b);
    op_range(b, 1000000, 8, 0);
    op_column(b, 0), op_int(b, 2), op_call(b, TRN_HOME_NATIVE, "%", 2, TRN_TYPE_INT64);
    op_int(b, 1), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
    u8(b, TRN_OP_LIMIT), i64(b, 2), i64(b, 3);
    RUN_EXPECT("5;7;9;");
  }
}

/* ---- lifting ---- */

/* Replaces the plan by what lifting gives of it, and the sources likewise. */
static void relift(trn_engine_plan *plan) {
  trn_engine_bytes lifted = {0};
  trn_engine_source *const *sources = NULL;
  trn_engine_error error = {0};
  check(f.engine->plan_lift(plan, &lifted, &sources, &f.source_count, &error), &error);
  f.plan.size = 0;
  put(&f.plan, lifted.data, lifted.size);
  for (size_t i = 0; i < f.source_count; i++) {
    f.engine->source_release(f.sources[i]);
    f.sources[i] = f.engine->source_ref(sources[i]);
  }
  lifted.release(lifted.self);
  f.engine->plan_release(plan);
}

static void test_lifted_plans_lower_to_the_same(void **state) {
  (void)state;
  static const struct {
    const char *sql, *expected;
  } cases[] = {
      {"SELECT a + 1, b FROM (VALUES (1, 10), (2, NULL), (3, 30)) AS t(a, b) WHERE a <> 2 OR b IS NULL ORDER BY a DESC", "4,30;3,null;2,10;"},
      {"SELECT t.a, sum(u.b), count(*), count(DISTINCT u.b) FROM (VALUES (1), (2)) AS t(a) JOIN (VALUES (1, 5), (1, 6), (2, 5)) AS u(a, b)"
       " ON t.a = u.a AND u.b BETWEEN 1 AND 9 GROUP BY t.a HAVING sum(u.b) > 1 ORDER BY 1", "1,11,2,2;2,5,1,1;"},
      {"SELECT DISTINCT x FROM (SELECT 1 AS x UNION ALL SELECT 1 UNION ALL SELECT CASE WHEN 'abc' LIKE 'a%' THEN 7 ELSE 0 END) ORDER BY x LIMIT 1 OFFSET 1", "7;"},
      {"SELECT a FROM (VALUES (1), (2), (3)) AS t(a) WHERE a IN (SELECT b FROM (VALUES (2), (3)) AS u(b)) AND NOT EXISTS"
       " (SELECT 1 FROM (VALUES (3)) AS w(c) WHERE c = a)", "2;"},
      {"SELECT max(a) FILTER (WHERE a < 3), min(CAST(length('four') AS BIGINT)) FROM (VALUES (1), (2), (3)) AS t(a)", "2,4;"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_engine_plan *plan = NULL, *optimized = NULL;
    trn_engine_error error = {0};
    check(f.engine->plan_sql(f.session, cases[i].sql, strlen(cases[i].sql), &plan, &error), &error);
    check(f.engine->plan_optimize(f.session, plan, &optimized, &error), &error);
    relift(optimized);
    RUN_EXPECT(cases[i].expected);
    if (i != 3) { /* subqueries are no part of the encoding */
      relift(plan);
      RUN_EXPECT(cases[i].expected);
    } else {
      f.engine->plan_release(plan);
    }
  }
  begin(&f.plan);
  op_range(&f.plan, 3, 1, 0), op_column(&f.plan, 0), op_call(&f.plan, TRN_HOME_LIBRARY, "t.plus_one", 1, TRN_TYPE_INT64);
  op_project(&f.plan, 1, 1);
  relift(lower());
  RUN_EXPECT("1;2;3;");
}

static void test_unnest_keeps_places_and_empty_lists(void **state) {
  (void)state;
  bytes *b = &f.plan;
  for (int outer = 0; outer < 2; outer++) {
    begin(b);
    op_range(b, 2, 1, 0);
    op_column(b, 0), op_int(b, 0), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
    op_int(b, 7), op_int(b, 8);
    u8(b, TRN_OP_LITERAL), u8(b, TRN_TYPE_ARRAY), u8(b, 0), u8(b, 0), u8(b, 0), u32(b, 0), u32(b, 1), str(b, "element"), u8(b, 1);
    type(b, TRN_TYPE_INT64), u8(b, 0), u32(b, 2);
    u8(b, TRN_OP_LITERAL), u8(b, TRN_TYPE_ARRAY), u8(b, 0), u8(b, 0), u8(b, 0), u32(b, 0), u32(b, 1), str(b, "element"), u8(b, 1);
    type(b, TRN_TYPE_INT64), u8(b, 0), u32(b, 0);
    u8(b, TRN_OP_CASE), u32(b, 3);
    u8(b, TRN_OP_UNNEST), u8(b, (uint8_t)outer), u8(b, 1), u32(b, 2), u32(b, 1), u32(b, 2);
    op_column(b, 0), op_column(b, 1), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_INT64), u8(b, 0), op_column(b, 2);
    op_project(b, 3, 0, 3, 2);
    RUN_EXPECT(outer ? "0,0,7;0,1,8;1,null,null;" : "0,0,7;0,1,8;");
  }
}

static int64_t sampled(double lower, double upper, uint8_t with_replacement) {
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 10000, 2, 0);
  u8(b, TRN_OP_SAMPLE), put(b, &lower, 8), put(b, &upper, 8), u8(b, with_replacement), i64(b, 42);
  result r;
  run(&r);
  check(r.status, &r.error);
  return r.rows;
}

static void test_samples_of_one_seed_repeat_and_partition_the_rows(void **state) {
  (void)state;
  int64_t third = sampled(0, 0.3, 0), rest = sampled(0.3, 1, 0);
  assert_int_equal(third + rest, 10000);
  assert_in_range(third, 2800, 3200);
  assert_int_equal(sampled(0, 0.3, 0), third);
  assert_in_range(sampled(0, 2, 1), 19500, 20500);
}

static void test_lambdas_reach_the_engine_functions(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 1, 1, 0);
  op_int(b, 7), op_int(b, 8);
  u8(b, TRN_OP_LITERAL), u8(b, TRN_TYPE_ARRAY), u8(b, 0), u8(b, 0), u8(b, 0), u32(b, 0), u32(b, 1), str(b, "element"), u8(b, 1);
  type(b, TRN_TYPE_INT64), u8(b, 0), u32(b, 2);
  u8(b, TRN_OP_LAMBDA_VARIABLE), u32(b, 9), type(b, TRN_TYPE_INT64);
  op_int(b, 1), op_call(b, TRN_HOME_NATIVE, "+", 2, TRN_TYPE_INT64);
  u8(b, TRN_OP_LAMBDA), u32(b, 1), u32(b, 9);
  op_call(b, TRN_HOME_ENGINE, "array_transform", 2, TRN_TYPE_NULL);
  u8(b, TRN_OP_UNNEST), u8(b, 0), u8(b, 0), u32(b, 1), u32(b, 1);
  RUN_EXPECT("0,8;0,9;");
}

/* ---- files ---- */

static void sql(const char *text) {
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  result r;
  check(f.engine->plan_sql(f.session, text, strlen(text), &plan, &error), &error);
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  drain(execution, &r);
  check(r.status, &r.error);
  f.engine->execution_release(execution);
}

static void touch(const char *directory, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
}

static void test_parquet_directories_are_read_beside_markers(void **state) {
  (void)state;
  char directory[] = "/tmp/trn-seam-XXXXXX", text[1024];
  assert_non_null(mkdtemp(directory));
  snprintf(text, sizeof text,
           "COPY (SELECT column1 AS \"Key\", column2 AS v FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL))) TO '%s/part-0.parquet'"
           " STORED AS PARQUET", directory);
  sql(text);
  touch(directory, "_SUCCESS"), touch(directory, "._SUCCESS.crc");
  const char *paths[] = {directory};
  struct ArrowSchema schema = {0};
  trn_engine_error error = {0};
  check(f.engine->source_files(f.session, "parquet", paths, 1, NULL, 0, NULL, &f.sources[0], &schema, &error), &error);
  f.source_count = 1;
  assert_int_equal(schema.n_children, 2);
  assert_string_equal(schema.children[0]->name, "Key");
  assert_string_equal(schema.children[1]->format, "u");
  schema.release(&schema);
  bytes *b = &f.plan;
  begin(b);
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 2), u32(b, 1), u32(b, 0), u32(b, 0), u32(b, 1);
  op_column(b, 1), op_int(b, 1), op_call(b, TRN_HOME_NATIVE, ">", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  op_column(b, 1), op_project(b, 1, 1), op_column(b, 1), op_sort(b, 1, 0);
  RUN_EXPECT("2;3;");

  snprintf(text, sizeof text, "COPY (SELECT 7 AS \"Key\", 'c' AS v) TO '%s/part-1.parquet' STORED AS PARQUET", directory);
  sql(text); /* what was written since is seen */
  RUN_EXPECT("2;3;7;");

  snprintf(text, sizeof text, "rm -r %s", directory);
  assert_int_equal(system(text), 0);
}

static void test_a_missing_path_is_named(void **state) {
  (void)state;
  static const char *const paths[] = {"/nowhere/at/all.parquet", "/nowhere/*.parquet", "file:///nowhere/dir/"};
  for (size_t i = 0; i < 3; i++) {
    trn_engine_error error = {0};
    trn_engine_source *source = NULL;
    assert_int_equal(f.engine->source_files(f.session, "parquet", &paths[i], 1, NULL, 0, NULL, &source, NULL, &error), TRN_NOT_FOUND);
    assert_string_equal(error.condition, "PATH_NOT_FOUND");
    assert_string_equal(error.params[0].key, "path");
    assert_string_equal(error.params[0].value, paths[i]);
    release_error(&error);
  }
}

static void test_csv_options_go_by_the_engine_names(void **state) {
  (void)state;
  char path[] = "/tmp/trn-seam-XXXXXX.csv";
  int fd = mkstemps(path, 4);
  assert_true(fd >= 0 && write(fd, "a;b\n1;2\n3;\n", 11) == 11);
  close(fd);
  const char *paths[] = {path};
  trn_kv options[] = {{"has_header", "true"}, {"delimiter", ";"}}, wrong[] = {{"no_such", "1"}};
  trn_engine_error error = {0};
  trn_engine_source *none = NULL;
  assert_int_equal(f.engine->source_files(f.session, "csv", paths, 1, wrong, 1, NULL, &none, NULL, &error), TRN_INVALID_ARGUMENT);
  release_error(&error);
  check(f.engine->source_files(f.session, "csv", paths, 1, options, 2, NULL, &f.sources[0], NULL, &error), &error);
  f.source_count = 1;
  begin(&f.plan);
  u8(&f.plan, TRN_OP_SCAN), u32(&f.plan, 0), u32(&f.plan, 2), u32(&f.plan, 0), u32(&f.plan, 0), u32(&f.plan, 1), u32(&f.plan, 1);
  RUN_EXPECT("1,2;3,null;");
  unlink(path);
}

/* ---- output ---- */

static void keep_schema(struct ArrowSchema *s) { (void)s; }

static void test_output_is_relabelled(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  u8(b, TRN_OP_LITERAL), type(b, TRN_TYPE_TIMESTAMP), u8(b, 0), i64(b, 42);
  op_text(b, "x"), op_null(b, TRN_TYPE_INT64);
  u8(b, TRN_OP_VALUES), u32(b, 1), u32(b, 3);
  u32(b, 0), type(b, TRN_TYPE_TIMESTAMP), u8(b, 0), u32(b, 1), type(b, TRN_TYPE_STRING), u8(b, 1);
  u32(b, 2), type(b, TRN_TYPE_INT64), u8(b, 1);
  struct ArrowSchema columns[] = {{.format = "tsu:Asia/Tokyo", .name = "same", .release = keep_schema},
                                  {.format = "U", .name = "same", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema},
                                  {.format = "l", .name = "never null", .release = keep_schema}};
  struct ArrowSchema *children[] = {&columns[0], &columns[1], &columns[2]};
  struct ArrowSchema output = {.format = "+s", .name = "", .n_children = 3, .children = children, .release = keep_schema};
  struct ArrowSchema schema = {0};
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = NULL;
  trn_engine_error error = {0};
  check(f.engine->execute(f.session, plan, &output, &execution, &error), &error);
  check(f.engine->execution_schema(execution, &schema, &error), &error);
  assert_string_equal(schema.children[0]->format, "tsu:Asia/Tokyo");
  assert_string_equal(schema.children[1]->name, "same");
  assert_string_equal(schema.children[1]->format, "U");
  schema.release(&schema);
  pull p;
  pull_init(&p);
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  pull_wait(&p, 1);
  check(p.error.status, &p.error);
  assert_int_equal(((const int64_t *)p.array.children[0]->buffers[1])[0], 42);
  assert_int_equal(((const int64_t *)p.array.children[1]->buffers[1])[1], 1); /* large offsets */
  assert_false(bit(p.array.children[2]->buffers[0], 0));
  p.array.release(&p.array);
  f.engine->execution_release(execution);
  output.n_children = 2;
  assert_int_equal(f.engine->execute(f.session, plan, &output, &execution, &error), TRN_INVALID_ARGUMENT);
  release_error(&error);
  f.engine->plan_release(plan);
}

/* ---- life ---- */

static void test_cancel_completes_the_pull_once(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 1000000, 1, 0), op_range(b, 1000000, 1, 1);
  op_join(b, TRN_JOIN_INNER, 0, 0, 0);
  op_column(b, 0), op_column(b, 1), op_call(b, TRN_HOME_NATIVE, "+", 2, TRN_TYPE_INT64);
  op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1), op_group(b, 0, 1, 2);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  pull p, second;
  trn_engine_error error = {0};
  pull_init(&p), pull_init(&second);
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  usleep(50000);
  assert_int_equal(f.engine->next_array(execution, pull_array_done, &second, &error), TRN_FAILED_PRECONDITION);
  release_error(&error);
  double start = now_ms();
  f.engine->execution_cancel(execution), f.engine->execution_cancel(execution);
  pull_wait(&p, 1);
  print_message("cancelled after %.1f ms\n", now_ms() - start);
  assert_int_equal(p.error.status, TRN_CANCELLED);
  assert_string_equal(p.error.condition, "CANCELLED");
  assert_true(now_ms() - start < 1000);
  release_error(&p.error);
  usleep(100000);
  assert_int_equal(p.calls, 1);
  assert_int_equal(second.calls, 0);
  pull_init(&p);
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  pull_wait(&p, 1);
  assert_int_equal(p.error.status, TRN_CANCELLED);
  release_error(&p.error);
  f.engine->execution_release(execution);
}

static void test_release_while_pulling_completes_the_pull(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 4000000, 2, 0);
  op_column(b, 0), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1), op_group(b, 0, 1, 2);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  pull p;
  trn_engine_error error = {0};
  pull_init(&p);
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  f.engine->execution_release(execution);
  pull_wait(&p, 1);
  if (p.error.status) assert_int_equal(p.error.status, TRN_CANCELLED);
  else if (p.array.release) p.array.release(&p.array);
  release_error(&p.error);
}

static void test_metrics_explain_and_schema_are_there(void **state) {
  (void)state;
  trn_engine_error error = {0};
  trn_engine_bytes text = {0};
  struct ArrowSchema schema = {0};
  begin(&f.plan);
  op_range(&f.plan, 10, 1, 0);
  trn_engine_plan *plan = lower();
  for (int what = 0; what < 3; what++) {
    check(f.engine->plan_explain(f.session, plan, what, &text, &error), &error);
    assert_int_equal(strlen(text.data), text.size);
    assert_true(text.size > 0);
    text.release(text.self);
  }
  check(f.engine->plan_schema(plan, &schema, &error), &error);
  assert_string_equal(schema.children[0]->name, "c0");
  schema.release(&schema);
  trn_engine_execution *execution = execute(plan);
  result r;
  drain(execution, &r);
  check(f.engine->execution_metrics(execution, &text, &error), &error);
  assert_non_null(strstr(text.data, "\"output_rows\":10"));
  text.release(text.self);
  f.engine->execution_release(execution);
  f.engine->plan_release(plan);
}

static void test_settings_are_checked(void **state) {
  (void)state;
  trn_engine_session *session = NULL;
  trn_engine_error error = {0};
  trn_kv setting = {"datafusion.no.such.key", "1"};
  assert_int_equal(f.engine->session_create(f.runtime, &setting, 1, &session, &error), TRN_INVALID_ARGUMENT);
  release_error(&error);
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_range_filter_project_come_in_order, reset),
      cmocka_unit_test_teardown(test_ipc_messages_are_cut_and_read_back, reset),
      cmocka_unit_test_teardown(test_many_partitions_join_without_waiting_for_each_other, reset),
      cmocka_unit_test_teardown(test_c_functions_run_inside, reset),
      cmocka_unit_test_teardown(test_c_aggregates_run_over_windows, reset),
      cmocka_unit_test_teardown(test_results_have_the_types_that_plans_declare, reset),
      cmocka_unit_test_teardown(test_kernel_errors_keep_condition_params_position, reset),
      cmocka_unit_test_teardown(test_a_kernel_that_refuses_to_bind_fails_the_plan, reset),
      cmocka_unit_test_teardown(test_relations_give_their_rows, reset),
      cmocka_unit_test_teardown(test_a_sort_does_not_change_the_rows_of_a_limit_below_it, reset),
      cmocka_unit_test_teardown(test_a_limit_takes_the_first_rows_of_several_partitions, reset),
      cmocka_unit_test_teardown(test_lifted_plans_lower_to_the_same, reset),
      cmocka_unit_test_teardown(test_unnest_keeps_places_and_empty_lists, reset),
      cmocka_unit_test_teardown(test_samples_of_one_seed_repeat_and_partition_the_rows, reset),
      cmocka_unit_test_teardown(test_lambdas_reach_the_engine_functions, reset),
      cmocka_unit_test_teardown(test_parquet_directories_are_read_beside_markers, reset),
      cmocka_unit_test_teardown(test_a_missing_path_is_named, reset),
      cmocka_unit_test_teardown(test_csv_options_go_by_the_engine_names, reset),
      cmocka_unit_test_teardown(test_output_is_relabelled, reset),
      cmocka_unit_test_teardown(test_cancel_completes_the_pull_once, reset),
      cmocka_unit_test_teardown(test_release_while_pulling_completes_the_pull, reset),
      cmocka_unit_test_teardown(test_metrics_explain_and_schema_are_there, reset),
      cmocka_unit_test_teardown(test_settings_are_checked, reset),
  };
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
