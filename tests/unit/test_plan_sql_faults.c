/* Every allocation of printing SQL fails once: it says so, and nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include <trunnion/sql.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static long countdown = -1, failures; /* one thread */

static bool fails(void) {
  if (countdown < 0 || countdown-- != 0) return false;
  failures++;
  return true;
}
void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}

/* Averages by a key over a table whose rows have a match in itself, and a column that is cast to text. */
static const trn_rel *some_query(trn_arena *arena) {
  const trn_type *price = trn__type_decimal(arena, 10, 2), *text = trn__type(TRN_TYPE_STRING);
  const trn_scan_column seen[] = {{"name", text, true}, {"price", price, true}};
  const trn_column columns[] = {{1, true, text}, {2, true, price}}, others[] = {{3, true, text}, {4, true, price}};
  trn_scan_info info = {.struct_size = sizeof info,
                        .kind = TRN_SCAN_TABLE,
                        .table = "goods",
                        .columns = seen,
                        .column_count = 2};
  trn_scan_label *label = NULL;
  assert_int_equal(trn_scan_label_create(&info, &label), TRN_OK);
  assert_int_equal(trn__label_hold(arena, label), TRN_OK);
  trn_scan_label_unref(label);
  static const uint32_t indexes[] = {0, 1};
  trn_rel *left = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, 2);
  trn_rel *right = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, others, 2);
  left->u.scan.info = right->u.scan.info = label;
  left->u.scan.indexes = right->u.scan.indexes = indexes;
  const trn_expr *a = trn__expr_column(arena, &columns[0]), *b = trn__expr_column(arena, &others[0]);
  const trn_expr *both[] = {a, b};
  const trn_expr *equal = trn__expr_call(arena, TRN_HOME_NATIVE, "=", trn__type(TRN_TYPE_BOOL), true, both, 2);
  const trn_rel *semi = trn__rel_join(arena, TRN_JOIN_LEFT_SEMI, left, right, equal);
  const trn_expr *value = trn__expr_column(arena, &columns[1]);
  trn_expr *average = trn__expr_create(arena, TRN_EXPR_AGGREGATE, trn__type_decimal(arena, 14, 6), true, &value, 1);
  average->u.aggregate.name = "trn.avg";
  average->u.aggregate.home = TRN_HOME_LIBRARY;
  const trn_expr *exprs[] = {trn__expr_cast(arena, trn__expr_string(arena, "x", 1), text, false), average};
  const trn_column made[] = {{5, true, text}, {6, true, average->type}};
  trn_rel *grouped = trn__rel_create(arena, TRN_REL_AGGREGATE, &semi, 1, exprs, 2, made, 2);
  grouped->u.aggregate.group_count = 1;
  return grouped;
}

static void each_allocation_fails_once(void **state) {
  (void)state;
  static const char *const dialects[] = {"sqlite", "postgresql", "duckdb"};
  trn_arena *arena = trn__arena_create(0);
  trn_field fields[2] = {{0}};
  const trn_plan plan = {.arena = arena, .root = some_query(arena), .fields = fields, .next_column = 10};
  for (size_t i = 0; i < 3; i++) {
    char *whole = NULL;
    assert_int_equal(trn_plan_to_sql(&plan, dialects[i], &whole, NULL), TRN_OK);
    long k = 0;
    for (;; k++) {
      char *sql = NULL;
      trn_error *error = NULL;
      failures = 0;
      countdown = k;
      trn_status status = trn_plan_to_sql(&plan, dialects[i], &sql, &error);
      countdown = -1;
      trn_error_unref(error);
      if (!failures) {
        assert_int_equal(status, TRN_OK);
        assert_string_equal(sql, whole);
        trn_free(sql);
        break;
      }
      assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
      assert_null(sql);
    }
    print_message("%s: %ld allocations\n", dialects[i], k);
    assert_true(k > 10);
    trn_free(whole);
  }
  trn__arena_unref(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
