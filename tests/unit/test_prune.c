/* What pruning leaves of a plan: fewer columns, one projection, one union; and what must stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "optimize/optimize.h"
#include <string.h>

static trn_column column_of(uint32_t id) {
  return (trn_column){.id = id, .type = trn__type(TRN_TYPE_INT64)};
}

static const trn_expr *read(trn_arena *arena, uint32_t id) {
  const trn_column column = column_of(id);
  return trn__expr_column(arena, &column);
}

static const trn_expr *plus(trn_arena *arena, uint32_t id, int64_t value) {
  const trn_expr *args[2] = {read(arena, id), trn__expr_int(arena, trn__type(TRN_TYPE_INT64), value)};
  return trn__expr_call(arena, TRN_HOME_NATIVE, "+", args[0]->type, false, args, 2);
}

static const trn_rel *range(trn_arena *arena, uint32_t id) {
  const trn_column column = column_of(id);
  trn_rel *rel = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  rel->u.range.end = 3, rel->u.range.step = 1;
  return rel;
}

static const trn_rel *project(trn_arena *arena, const trn_rel *input, const trn_expr *const *exprs, uint32_t first,
                              uint32_t count) {
  trn_column columns[8];
  for (uint32_t i = 0; i < count; i++) columns[i] = column_of(first + i);
  return trn__rel_project(arena, input, exprs, columns, count);
}

static void check(trn_arena *arena, const trn_rel *root, uint32_t next, const char *expected) {
  const trn_rel *out = NULL;
  trn_strbuf text = {0};
  assert_int_equal(trn__prune(arena, root, next, &out, NULL), TRN_OK);
  trn__rel_print(&text, out);
  trn__strbuf_putc(&text, 0);
  assert_string_equal(text.data, expected);
  trn__strbuf_finish(&text);
  trn__arena_unref(arena);
}

/* One column more at each step, of the first one: 40 projections become one. */
static void projections_over_projections_are_one(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *rel = range(arena, 1);
  uint32_t ids[3] = {1}, next = 2;
  for (uint32_t width = 1; width < 3; width++) {
    const trn_expr *exprs[3];
    for (uint32_t i = 0; i < width; i++) exprs[i] = read(arena, ids[i]);
    exprs[width] = plus(arena, ids[0], width);
    rel = project(arena, rel, exprs, next, width + 1);
    for (uint32_t i = 0; i <= width; i++) ids[i] = next++;
  }
  assert_int_equal(rel->inputs[0]->kind, TRN_REL_PROJECT);
  const trn_rel *out = NULL;
  assert_int_equal(trn__prune(arena, rel, next, &out, NULL), TRN_OK);
  assert_int_equal(out->kind, TRN_REL_PROJECT);
  assert_int_equal(out->inputs[0]->kind, TRN_REL_RANGE);
  assert_int_equal(out->column_count, 3);
  trn__arena_unref(arena);
}

/* x := a + 1, then x + x: what is computed once stays so. */
static void nothing_is_computed_twice(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_expr *one = plus(arena, 1, 1), *twice[2];
  const trn_rel *lower = project(arena, range(arena, 1), &one, 2, 1);
  twice[0] = twice[1] = read(arena, 2);
  const trn_rel *out = NULL, *upper = project(arena, lower, twice, 3, 2);
  assert_int_equal(trn__prune(arena, upper, 5, &out, NULL), TRN_OK);
  assert_int_equal(out->inputs[0]->kind, TRN_REL_PROJECT);
  trn__arena_unref(arena);
}

static void a_join_passes_only_what_is_read_above_it(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_expr *args[2] = {read(arena, 1), read(arena, 2)};
  const trn_expr *equal = trn__expr_call(arena, TRN_HOME_NATIVE, "=", trn__type(TRN_TYPE_BOOL), false, args, 2);
  const trn_rel *inner = trn__rel_join(arena, TRN_JOIN_INNER, range(arena, 1), range(arena, 2), equal);
  const trn_expr *args2[2] = {read(arena, 1), read(arena, 3)};
  const trn_expr *equal2 = trn__expr_call(arena, TRN_HOME_NATIVE, "=", trn__type(TRN_TYPE_BOOL), false, args2, 2);
  const trn_rel *outer = trn__rel_join(arena, TRN_JOIN_INNER, inner, range(arena, 3), equal2);
  const trn_expr *first = read(arena, 1);
  const trn_rel *out = NULL, *root = project(arena, outer, &first, 4, 1);
  assert_int_equal(trn__prune(arena, root, 5, &out, NULL), TRN_OK);
  const trn_rel *left = out->inputs[0]->inputs[0]; /* over the inner join: column 2 is gone */
  assert_int_equal(left->kind, TRN_REL_PROJECT);
  assert_int_equal(left->column_count, 1);
  assert_int_equal(left->columns[0].id, 1);
  assert_int_equal(left->inputs[0]->column_count, 2);
  trn__arena_unref(arena);
}

static void unions_in_unions_are_one(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *rel = range(arena, 1);
  uint32_t next = 2;
  for (int i = 0; i < 30; i++) {
    const trn_rel *inputs[2] = {rel, range(arena, next++)};
    const trn_column column = column_of(next++);
    rel = trn__rel_create(arena, TRN_REL_UNION, inputs, 2, NULL, 0, &column, 1);
  }
  const trn_rel *out = NULL;
  assert_int_equal(trn__prune(arena, rel, next, &out, NULL), TRN_OK);
  assert_int_equal(out->input_count, 31);
  assert_int_equal(out->columns[0].id, rel->columns[0].id);
  for (uint32_t i = 0; i < 31; i++) assert_int_equal(out->inputs[i]->kind, TRN_REL_RANGE);
  trn__arena_unref(arena);
}

/* DISTINCT is over all columns, read or not. */
static void distinct_keeps_its_columns(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_expr *two[2] = {read(arena, 1), plus(arena, 1, 1)};
  const trn_rel *below = project(arena, range(arena, 1), two, 2, 2);
  const trn_rel *distinct = trn__rel_create(arena, TRN_REL_DISTINCT, &below, 1, NULL, 0, below->columns, 2);
  const trn_expr *first = read(arena, 2);
  check(arena, project(arena, distinct, &first, 4, 1), 5,
        "project #4 := #2\n  distinct\n    project #2 := #1, #3 := +(#1, 1:bigint)\n      range 0..3 by 1 [#1 bigint "
        "not null]\n");
}

static const trn_rel *filter(trn_arena *arena, const trn_rel *input, const char *name, int64_t value, uint8_t volatility) {
  const trn_expr *args[2] = {read(arena, 1), trn__expr_int(arena, trn__type(TRN_TYPE_INT64), value)};
  trn_expr *condition = trn__expr_call(arena, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), false, args, 2);
  condition->u.call.volatility = volatility;
  return trn__rel_filter(arena, input, condition);
}

/* The lowest condition stays the first one. */
static void filters_over_filters_are_one(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *rel = range(arena, 1);
  for (int i = 0; i < 3; i++) rel = filter(arena, rel, ">", i, 0);
  check(arena, rel, 2,
        "filter and(>(#1, 0:bigint), and(>(#1, 1:bigint), >(#1, 2:bigint)))\n  range 0..3 by 1 [#1 bigint not null]\n");
}

/* Another reader needs the lower one's rows; what is random must see the rows that it saw. */
static void filters_that_others_need_stay(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *lower = filter(arena, range(arena, 1), ">", 1, 0), *inputs[2] = {lower, filter(arena, lower, "<", 2, 0)};
  const trn_column column = column_of(2);
  const trn_rel *both = trn__rel_create(arena, TRN_REL_UNION, inputs, 2, NULL, 0, &column, 1), *out = NULL;
  assert_int_equal(trn__prune(arena, both, 3, &out, NULL), TRN_OK);
  assert_int_equal(out->inputs[1]->inputs[0]->kind, TRN_REL_FILTER);
  const trn_rel *random = filter(arena, filter(arena, range(arena, 1), ">", 1, 2), "<", 2, 0);
  assert_int_equal(trn__prune(arena, random, 2, &out, NULL), TRN_OK);
  assert_int_equal(out->inputs[0]->kind, TRN_REL_FILTER);
  trn__arena_unref(arena);
}

/* `kind` of x and of what has `width` columns of type `id` and claims two bigints. */
static void assert_misfit(trn_rel_kind kind, uint32_t width, trn_type_id id, trn_status expected) {
  trn_arena *arena = trn__arena_create(0);
  const trn_expr *exprs[3];
  trn_column columns[3], own[2] = {column_of(8), column_of(9)};
  for (uint32_t i = 0; i < 3; i++) {
    exprs[i] = i < 2 ? plus(arena, 1, i) : trn__expr_bool(arena, true);
    columns[i] = column_of(2 + i);
  }
  const trn_rel *inputs[2] = {project(arena, range(arena, 1), exprs, 6, 2), NULL}, *out = NULL;
  if (id != TRN_TYPE_INT64) exprs[1] = trn__expr_null(arena, columns[1].type = trn__type(id));
  inputs[1] = trn__rel_project(arena, range(arena, 1), exprs, columns, width);
  trn_rel *both = trn__rel_create(arena, kind, inputs, 2, NULL, 0, own, 2);
  trn_lowered lowered;
  assert_int_equal(trn__prune(arena, both, 10, &out, NULL), expected);
  assert_int_equal(trn__lower(both, false, &lowered, NULL), expected);
  if (!expected) trn__lowered_finish(&lowered);
  trn__arena_unref(arena);
}

/* Their columns are read by their places. */
static void inputs_of_other_columns_are_an_error(void **state) {
  (void)state;
  static const trn_rel_kind kinds[] = {TRN_REL_UNION, TRN_REL_SET};
  for (int i = 0; i < 2; i++) {
    assert_misfit(kinds[i], 2, TRN_TYPE_INT64, TRN_OK);
    assert_misfit(kinds[i], 2, TRN_TYPE_NULL, TRN_OK);
    assert_misfit(kinds[i], 1, TRN_TYPE_INT64, TRN_INTERNAL);
    assert_misfit(kinds[i], 3, TRN_TYPE_INT64, TRN_INTERNAL);
    assert_misfit(kinds[i], 2, TRN_TYPE_STRING, TRN_INTERNAL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(projections_over_projections_are_one), cmocka_unit_test(nothing_is_computed_twice),
      cmocka_unit_test(a_join_passes_only_what_is_read_above_it), cmocka_unit_test(unions_in_unions_are_one),
      cmocka_unit_test(distinct_keeps_its_columns), cmocka_unit_test(filters_over_filters_are_one),
      cmocka_unit_test(filters_that_others_need_stay), cmocka_unit_test(inputs_of_other_columns_are_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
