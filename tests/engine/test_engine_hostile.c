/* Plans that are broken, deep, wide, or multiply: refused by name or run, and what they cost. */
#include "seam.h"

/* Gives the sizes after which what is there is a whole plan already. */
static size_t rich_plan(bytes *b, size_t *whole) {
  size_t n = 0;
  begin(b);
  four_rows(b, 0), whole[n++] = b->size;
  u8(b, TRN_OP_SHARE), u32(b, 3), whole[n++] = b->size;
  op_range(b, 5, 1, 2);
  op_column(b, 0), op_column(b, 2), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL), op_join(b, TRN_JOIN_LEFT, 0, 1, 0), whole[n++] = b->size;
  op_column(b, 0), op_int(b, 1), op_int(b, 2), u8(b, TRN_OP_IN_LIST), u32(b, 3), u8(b, 0);
  op_column(b, 1), op_call(b, TRN_HOME_NATIVE, "is_null", 1, TRN_TYPE_BOOL), op_call(b, TRN_HOME_NATIVE, "or", 2, TRN_TYPE_BOOL);
  u8(b, TRN_OP_FILTER), whole[n++] = b->size;
  op_column(b, 0), op_column(b, 1), op_aggregate(b, TRN_HOME_LIBRARY, "t.sum", 0, 1), op_group(b, 1, 1, 4, 5), whole[n++] = b->size;
  op_column(b, 4), op_column(b, 5), window(b, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, 0);
  u8(b, TRN_OP_WINDOW_REL), u32(b, 1), u32(b, 6), whole[n++] = b->size;
  op_column(b, 4), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_STRING), u8(b, 1), op_column(b, 6), op_project(b, 2, 7, 8), whole[n++] = b->size;
  u8(b, TRN_OP_SHARED), u32(b, 3), op_column(b, 0), op_sort(b, 1, 0);
  op_column(b, 0), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_STRING), u8(b, 0), op_column(b, 1), op_project(b, 2, 9, 10);
  u8(b, TRN_OP_UNION), u32(b, 2), u32(b, 2), u32(b, 11), u32(b, 12), u32(b, 7), u32(b, 8), u32(b, 9), u32(b, 10), whole[n++] = b->size;
  u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 100);
  return n;
}

static void test_every_prefix_is_refused_and_no_change_crashes(void **state) {
  (void)state;
  bytes *b = &f.plan;
  size_t whole[16], count = rich_plan(b, whole), next = 0;
  f.engine->plan_release(lower());
  for (size_t size = 0; size < b->size; size++) {
    if (next < count && whole[next] == size) {
      next++;
      continue;
    }
    trn_engine_plan *plan = NULL;
    trn_engine_error error = {0};
    uint8_t *copy = malloc(size + 1); /* exact, so that tools see a read beyond it */
    assert_non_null(copy);
    memcpy(copy, b->data, size);
    assert_int_not_equal(f.engine->plan_lower(f.session, copy, size, NULL, 0, &plan, &error), 0);
    assert_non_null(error.message);
    release_error(&error);
    free(copy);
  }
  static const uint8_t changes[] = {0, 1, 2, 3, 7, 35, 64, 127, 128, 255};
  size_t refused = 0;
  for (size_t at = 0; at < b->size; at++) {
    for (size_t i = 0; i < sizeof changes; i++) {
      trn_engine_plan *plan = NULL;
      trn_engine_error error = {0};
      uint8_t old = b->data[at];
      b->data[at] = changes[i];
      int32_t status = f.engine->plan_lower(f.session, b->data, b->size, NULL, 0, &plan, &error);
      if (status) {
        if (status == TRN_INTERNAL) fail_msg("byte %zu = %u: %s", at, changes[i], error.message);
        refused++, release_error(&error);
      } else {
        f.engine->plan_release(plan);
      }
      b->data[at] = old;
    }
  }
  assert_true(refused > b->size);
}

static void deep(uint32_t depth) {
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 3, 1, 0);
  op_column(b, 0);
  for (uint32_t i = 0; i < depth; i++) i % 100 ? op_int(b, 1) : op_column(b, 0), op_call(b, TRN_HOME_NATIVE, "+", 2, TRN_TYPE_INT64);
  op_project(b, 1, 1);
}

static void test_deep_expressions_run_or_are_refused(void **state) {
  (void)state;
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  double start = now_ms();
  deep(500); /* 1 + 5 times the column, and 495 */
  RUN_EXPECT("495;501;507;");
  print_message("500 deep, run: %.0f ms", now_ms() - start);
  start = now_ms();
  deep(3000);
  RUN_EXPECT("2970;3001;3032;");
  print_message("; 3,000 deep, run: %.0f ms", now_ms() - start);
  start = now_ms();
  deep(9000);
  RUN_EXPECT("8910;9001;9092;");
  print_message("; 9,000 deep, run: %.0f ms\n", now_ms() - start);
  deep(100000);
  assert_int_equal(f.engine->plan_lower(f.session, f.plan.data, f.plan.size, NULL, 0, &plan, &error), TRN_RESOURCE_EXHAUSTED);
  release_error(&error);

  bytes *b = &f.plan; /* OR of a thousand, AND of a hundred thousand */
  begin(b);
  op_range(b, 5000, 1, 0);
  op_column(b, 0), op_int(b, 0), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
  for (int i = 1; i < 1000; i++) {
    op_column(b, 0), op_int(b, 3 * i), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
    op_call(b, TRN_HOME_NATIVE, "or", 2, TRN_TYPE_BOOL);
  }
  u8(b, TRN_OP_FILTER), op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0), op_group(b, 0, 1, 1);
  start = now_ms();
  RUN_EXPECT("1000;");
  print_message("OR of 1,000: %.0f ms\n", now_ms() - start);
  begin(b);
  op_range(b, 5, 1, 0);
  op_column(b, 0), op_int(b, 0), op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL);
  for (int i = 1; i < 100000; i++) {
    op_column(b, 0), op_int(b, i), op_call(b, TRN_HOME_NATIVE, "<", 2, TRN_TYPE_BOOL);
    op_call(b, TRN_HOME_NATIVE, "and", 2, TRN_TYPE_BOOL);
  }
  u8(b, TRN_OP_FILTER);
  start = now_ms();
  f.engine->plan_release(lower());
  print_message("AND of 100,000, lowered: %.0f ms\n", now_ms() - start);
}

static void test_sharing_does_not_multiply(void **state) {
  (void)state;
  bytes *b = &f.plan;
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  begin(b);
  op_range(b, 3, 1, 0);
  for (uint32_t i = 1; i < 60; i++) {
    u8(b, TRN_OP_SHARE), u32(b, i), u8(b, TRN_OP_SHARED), u32(b, i);
    u8(b, TRN_OP_UNION), u32(b, 2), u32(b, 1), u32(b, i), u32(b, i - 1), u32(b, i - 1);
  }
  assert_int_equal(f.engine->plan_lower(f.session, b->data, b->size, NULL, 0, &plan, &error), TRN_RESOURCE_EXHAUSTED);
  release_error(&error);
}

static void test_wide_and_small_plans_are_cheap(void **state) {
  (void)state;
  bytes *b = &f.plan;
  begin(b);
  op_range(b, 10, 1, 0);
  for (uint32_t level = 0; level < 3; level++) {
    for (uint32_t i = 0; i < 2000; i++) op_column(b, level ? level * 2000 + i : 0);
    u8(b, TRN_OP_PROJECT), u32(b, 2000);
    for (uint32_t i = 0; i < 2000; i++) u32(b, (level + 1) * 2000 + i);
  }
  double start = now_ms();
  trn_engine_plan *plan = lower();
  print_message("2,000 columns, 3 projections: lowered in %.1f ms", now_ms() - start);
  start = now_ms();
  trn_engine_execution *execution = execute(plan);
  print_message(", planned in %.1f ms\n", now_ms() - start);
  f.engine->execution_release(execution), f.engine->plan_release(plan);

  begin(b);
  u8(b, TRN_OP_VALUES), u32(b, 1), u32(b, 0), op_int(b, 1), op_project(b, 1, 0);
  start = now_ms();
  for (int i = 0; i < 200; i++) {
    result r;
    run(&r);
    assert_string_equal(r.text, "1;");
  }
  print_message("select 1: %.3f ms\n", (now_ms() - start) / 200);
  start = now_ms();
  for (int i = 0; i < 200; i++) {
    trn_engine_session *session = NULL;
    trn_kv setting = {"datafusion.execution.batch_size", "4096"};
    trn_engine_error error = {0};
    check(f.engine->session_create(f.runtime, &setting, 1, &session, &error), &error);
    f.engine->session_release(session);
  }
  print_message("a session with a setting: %.3f ms\n", (now_ms() - start) / 200);
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_every_prefix_is_refused_and_no_change_crashes, reset),
      cmocka_unit_test_teardown(test_deep_expressions_run_or_are_refused, reset),
      cmocka_unit_test_teardown(test_sharing_does_not_multiply, reset),
      cmocka_unit_test_teardown(test_wide_and_small_plans_are_cheap, reset),
  };
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
