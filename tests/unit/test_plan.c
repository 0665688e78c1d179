/* Data types, plan nodes, walking, rewriting, printing, fingerprints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "core/blake2b.h"
#include "plan/graph.h"
#include "plan/plan.h"

static const trn_type *t(trn_type_id id) {
  return trn__type(id);
}

static int make_arena(void **state) {
  *state = trn__arena_create(0);
  return *state ? 0 : -1;
}
static int drop_arena(void **state) {
  trn__arena_unref(*state);
  return 0;
}

/* ---- types ---- */

static void types_compare_by_content(void **state) {
  trn_arena *a = *state;
  assert_true(trn__type_equal(t(TRN_TYPE_INT32), t(TRN_TYPE_INT32)));
  assert_false(trn__type_equal(t(TRN_TYPE_INT32), t(TRN_TYPE_INT64)));
  assert_true(trn__type_equal(trn__type_decimal(a, 10, 0), t(TRN_TYPE_DECIMAL)));
  assert_false(trn__type_equal(trn__type_decimal(a, 10, 2), t(TRN_TYPE_DECIMAL)));
  const trn_type *x = trn__type_array(a, t(TRN_TYPE_STRING), true), *y = trn__type_array(a, t(TRN_TYPE_STRING), false);
  assert_false(trn__type_equal(x, y));
  assert_true(trn__type_same_shape(x, y));
  trn_field f = {.name = "a", .type = x}, g = {.name = "b", .type = y};
  assert_true(trn__type_same_shape(trn__type_struct(a, &f, 1), trn__type_struct(a, &g, 1)));
  assert_false(trn__type_equal(trn__type_struct(a, &f, 1), trn__type_struct(a, &g, 1)));
  trn_type c = {.id = TRN_TYPE_STRING, .variant = TRN_STRING_CHAR, .length = 5};
  assert_false(trn__type_equal(&c, t(TRN_TYPE_STRING)));
  assert_true(trn__type_same_shape(&c, t(TRN_TYPE_STRING)));
  assert_true(trn__type_is_integer(t(TRN_TYPE_INT8)) && !trn__type_is_integer(t(TRN_TYPE_FLOAT32)));
  assert_true(trn__type_is_numeric(t(TRN_TYPE_DECIMAL)) && !trn__type_is_numeric(t(TRN_TYPE_STRING)));
}

static void types_are_bounded_in_depth_and_size(void **state) {
  trn_arena *a = *state;
  const trn_type *type = t(TRN_TYPE_INT32);
  unsigned depth = 0;
  for (; type && depth < 1000; depth++) type = trn__type_array(a, type, true);
  assert_int_equal(depth - 1, TRN_TYPE_DEPTH_MAX);
  type = t(TRN_TYPE_INT32); /* doubles with each level: few nodes in memory, many in a schema */
  for (depth = 0; type && depth < 60; depth++) {
    trn_field two[] = {{.name = "l", .type = type}, {.name = "r", .type = type}};
    type = trn__type_struct(a, two, 2);
  }
  assert_null(type);
  assert_true(depth < 20);
}

static void types_survive_arrow_and_back(void **state) {
  trn_arena *a = *state;
  trn_field inner[] = {{.name = "x", .type = t(TRN_TYPE_DATE), .nullable = true, .metadata = "{\"k\":1}"},
                       {.name = "x", .type = t(TRN_TYPE_INTERVAL_CALENDAR)}};
  const trn_type *types[] = {trn__type_decimal(a, 38, 38),
                             trn__type_array(a, trn__type_map(a, t(TRN_TYPE_STRING), t(TRN_TYPE_BINARY), true), false),
                             trn__type_struct(a, inner, 2), trn__type_struct(a, NULL, 0)};
  for (size_t i = 0; i < TRN_TYPE_ARRAY + 4; i++) {
    const trn_type *type = i < TRN_TYPE_ARRAY ? t((trn_type_id)i) : types[i - TRN_TYPE_ARRAY];
    struct ArrowSchema schema;
    trn_field back;
    assert_int_equal(trn__type_export(type, "n", true, "{}", NULL, &schema), TRN_OK);
    assert_string_equal(schema.name, "n");
    assert_int_equal(trn__field_import(a, &schema, &back, NULL), TRN_OK);
    if (type->id == TRN_TYPE_TIME)
      assert_int_equal(back.type->precision, 9); /* Arrow knows nanoseconds only */
    else
      assert_true(trn__type_equal(type, back.type));
    assert_true(back.nullable);
    assert_string_equal(back.metadata, "{}");
    struct ArrowSchema copy;
    assert_int_equal(trn__schema_copy(&schema, &copy), TRN_OK);
    trn__schema_release(&schema);
    assert_int_equal(trn__field_import(a, &copy, &back, NULL), TRN_OK);
    trn__schema_release(&copy);
  }
  assert_string_equal(types[2]->fields[0].metadata, "{\"k\":1}");
}

static void timestamps_carry_the_zone_of_the_edge(void **state) {
  (void)state;
  struct ArrowSchema schema;
  assert_int_equal(trn__type_export(t(TRN_TYPE_TIMESTAMP), NULL, true, NULL, "Asia/Tokyo", &schema), TRN_OK);
  assert_string_equal(schema.format, "tsu:Asia/Tokyo");
  schema.release(&schema);
  assert_int_equal(trn__type_export(t(TRN_TYPE_TIMESTAMP), NULL, true, NULL, NULL, &schema), TRN_OK);
  assert_string_equal(schema.format, "tsu:UTC");
  schema.release(&schema);
}

static trn_status import_format(trn_arena *a, const char *format, const trn_type **type, trn_error **error) {
  struct ArrowSchema schema = {.format = format, .name = ""};
  return trn__type_import(a, &schema, type, error);
}

static void import_maps_variants_and_names_what_it_refuses(void **state) {
  trn_arena *a = *state;
  const trn_type *type;
  static const struct {
    const char *format;
    trn_type_id id;
  } known[] = {{"U", TRN_TYPE_STRING},
               {"vu", TRN_TYPE_STRING},
               {"vz", TRN_TYPE_BINARY},
               {"tsn:", TRN_TYPE_TIMESTAMP_NTZ},
               {"tsm:+01:00", TRN_TYPE_TIMESTAMP},
               {"w:16", TRN_TYPE_BINARY},
               {"d:5,2,256", TRN_TYPE_DECIMAL},
               {"ttu", TRN_TYPE_TIME}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    assert_int_equal(import_format(a, known[i].format, &type, NULL), TRN_OK);
    assert_int_equal(type->id, known[i].id);
  }
  static const char *const refused[] = {"L", "e",   "d:40,2", "d:10,-1", "tiD", "+r",  "",
                                        "x", "+s1", "+l",     "+m",      "tt",  "tt.", "tsu"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    trn_error *error = NULL;
    assert_int_equal(import_format(a, refused[i], &type, &error), TRN_UNIMPLEMENTED);
    assert_non_null(strstr(trn_error_message(error), refused[i]));
    trn_error_unref(error);
  }
  struct ArrowSchema value = {.format = "u", .name = ""}, keys = {.format = "i", .name = "", .dictionary = &value};
  assert_int_equal(trn__type_import(a, &keys, &type, NULL), TRN_OK);
  assert_int_equal(type->id, TRN_TYPE_STRING);
  /* A schema that contains itself ends. */
  struct ArrowSchema loop = {.format = "+l", .name = "", .n_children = 1}, *child = &loop;
  loop.children = &child;
  assert_int_equal(trn__type_import(a, &loop, &type, NULL), TRN_RESOURCE_EXHAUSTED);
  struct ArrowSchema copy;
  assert_int_equal(trn__schema_copy(&loop, &copy), TRN_RESOURCE_EXHAUSTED);
}

/* ---- plans for the tests ---- */

static trn_rel *values_rel(trn_arena *a, uint32_t first_id, size_t width) {
  trn_column *columns = TRN_NEW_N(a, trn_column, width);
  const trn_expr **exprs = TRN_NEW_N(a, const trn_expr *, width);
  for (size_t i = 0; i < width; i++) {
    columns[i] = (trn_column){.id = first_id + (uint32_t)i, .type = t(TRN_TYPE_INT32)};
    exprs[i] = trn__expr_int(a, t(TRN_TYPE_INT32), (int64_t)i);
  }
  trn_rel *rel = trn__rel_create(a, TRN_REL_VALUES, NULL, 0, exprs, width, columns, width);
  rel->u.values.row_count = 1;
  return rel;
}

/* `levels` projections of `width` columns over one row of values; ids from `id` on. */
static const trn_rel *tower(trn_arena *a, size_t width, size_t levels, uint32_t *id) {
  const trn_rel *rel = values_rel(a, *id, width);
  *id += (uint32_t)width;
  for (size_t level = 0; level < levels; level++) {
    trn_column *columns = TRN_NEW_N(a, trn_column, width);
    const trn_expr **exprs = TRN_NEW_N(a, const trn_expr *, width);
    for (size_t i = 0; i < width; i++) {
      const trn_expr *args[] = {trn__expr_column(a, &rel->columns[i]), trn__expr_int(a, t(TRN_TYPE_INT32), 1)};
      exprs[i] = trn__expr_call(a, TRN_HOME_LIBRARY, "trn.add", t(TRN_TYPE_INT32), false, args, 2);
      columns[i] = (trn_column){.id = (*id)++, .type = t(TRN_TYPE_INT32)};
    }
    rel = trn__rel_project(a, rel, exprs, columns, width);
  }
  return rel;
}

static trn_plan *plan_of(trn_arena *a, const trn_rel *root, uint32_t next, const char *timezone) {
  trn_field *fields = TRN_NEW_N(a, trn_field, root->column_count);
  for (uint32_t i = 0; i < root->column_count; i++)
    fields[i] = (trn_field){.name = "c", .type = root->columns[i].type, .nullable = root->columns[i].nullable};
  trn_plan *plan;
  assert_int_equal(trn__plan_create(trn__arena_ref(a), root, fields, next, timezone, NULL, &plan), TRN_OK);
  return plan;
}

static const trn_expr *or_chain(trn_arena *a, const trn_column *column, size_t terms, int64_t last) {
  const trn_expr *chain = NULL;
  for (size_t i = 0; i < terms; i++) {
    const trn_expr *sides[] = {trn__expr_column(a, column),
                               trn__expr_int(a, t(TRN_TYPE_INT32), i + 1 == terms ? last : (int64_t)i)};
    const trn_expr *term = trn__expr_call(a, TRN_HOME_NATIVE, "=", t(TRN_TYPE_BOOL), false, sides, 2);
    const trn_expr *both[] = {chain, term};
    chain = chain ? trn__expr_call(a, TRN_HOME_NATIVE, "or", t(TRN_TYPE_BOOL), false, both, 2) : term;
  }
  return chain;
}

/* ---- builders ---- */

static void builders_copy_arrays_and_share_columns(void **state) {
  trn_arena *a = *state;
  trn_rel *values = values_rel(a, 1, 3);
  trn_rel *filter = trn__rel_filter(a, values, trn__expr_bool(a, true));
  assert_ptr_equal(filter->columns, values->columns);
  const trn_expr *args[] = {trn__expr_null(a, t(TRN_TYPE_INT32))};
  trn_expr *call = trn__expr_call(a, TRN_HOME_ENGINE, "abs", t(TRN_TYPE_INT32), true, args, 1);
  args[0] = NULL;
  assert_non_null(call->args[0]);
  assert_true(call->args[0]->u.literal.is_null && call->args[0]->nullable);
  assert_int_equal(call->position.start, -1);
  assert_true(trn__expr_cast(a, trn__expr_bool(a, true), t(TRN_TYPE_INT32), true)->nullable);
  trn_expr *text = trn__expr_string(a, "a\0b", 3);
  assert_int_equal(text->u.literal.value.bytes.size, 3);
  assert_memory_equal(text->u.literal.value.bytes.data, "a\0b", 4);
}

static void joins_make_columns_by_their_type(void **state) {
  trn_arena *a = *state;
  trn_rel *left = values_rel(a, 1, 2), *right = values_rel(a, 10, 3);
  static const struct {
    trn_join_type type;
    uint32_t count;
    bool left_null, right_null;
  } cases[] = {{TRN_JOIN_INNER, 5, false, false},     {TRN_JOIN_LEFT, 5, false, true},
               {TRN_JOIN_RIGHT, 5, true, false},      {TRN_JOIN_FULL, 5, true, true},
               {TRN_JOIN_LEFT_SEMI, 2, false, false}, {TRN_JOIN_LEFT_ANTI, 2, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_rel *join = trn__rel_join(a, cases[i].type, left, right, trn__expr_bool(a, true));
    assert_int_equal(join->column_count, cases[i].count);
    assert_int_equal(join->columns[0].nullable, cases[i].left_null);
    if (cases[i].count == 5) assert_int_equal(join->columns[4].nullable, cases[i].right_null);
    if (cases[i].count == 5) assert_int_equal(join->columns[2].id, 10);
  }
  assert_int_equal(trn__rel_join(a, TRN_JOIN_INNER, left, right, NULL)->expr_count, 0);
  trn_rel *mark = trn__rel_mark_join(a, left, right, trn__expr_bool(a, true), 77);
  assert_int_equal(mark->column_count, 3);
  assert_int_equal(mark->columns[2].id, 77);
  assert_int_equal(mark->columns[2].type->id, TRN_TYPE_BOOL);
}

static void schemas_have_display_names_that_may_repeat(void **state) {
  trn_arena *a = *state;
  trn_column columns[] = {{.id = 1, .type = t(TRN_TYPE_TIMESTAMP), .nullable = true},
                          {.id = 2, .type = t(TRN_TYPE_INT32)}};
  trn_rel *rel = trn__rel_create(a, TRN_REL_VALUES, NULL, 0, NULL, 0, columns, 2);
  trn_plan *plan = plan_of(a, rel, 3, "Europe/Berlin");
  struct ArrowSchema schema;
  assert_int_equal(trn_plan_schema(plan, &schema), TRN_OK);
  assert_string_equal(schema.format, "+s");
  assert_int_equal(schema.n_children, 2);
  assert_string_equal(schema.children[0]->format, "tsu:Europe/Berlin");
  assert_string_equal(schema.children[1]->name, "c");
  assert_int_equal(schema.children[1]->flags, 0);
  schema.release(&schema);
  trn_plan_unref(trn_plan_ref(plan));
  trn_plan_unref(plan);
  trn_plan_unref(NULL);
}

/* ---- walking ---- */

typedef struct counts {
  size_t rels, exprs, columns;
  const trn_rel *holder;
  int stop_after;
} counts;
static trn_walk count_rel(void *user, const trn_rel *rel) {
  counts *c = user;
  c->rels++;
  return c->stop_after && rel->kind == TRN_REL_FILTER ? TRN_WALK_SKIP : TRN_WALK_ON;
}
static trn_walk count_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  counts *c = user;
  c->exprs++;
  c->columns += expr->kind == TRN_EXPR_COLUMN;
  c->holder = holder;
  return TRN_WALK_ON;
}
static trn_walk stop_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)expr;
  (void)holder;
  return ++((counts *)user)->exprs == 3 ? TRN_WALK_STOP : TRN_WALK_ON;
}

static void walk_visits_each_node_once(void **state) {
  trn_arena *a = *state;
  uint32_t id = 1;
  const trn_rel *root = tower(a, 5000, 10, &id);
  counts c = {0};
  trn_visitor visitor = {count_rel, count_expr, &c};
  assert_int_equal(trn__plan_walk(root, &visitor), TRN_OK);
  assert_int_equal(c.rels, 11);
  assert_int_equal(c.exprs, 5000 + 10 * 5000 * 3);
  assert_int_equal(c.columns, 10 * 5000);
}

static void walk_goes_into_subqueries_bounds_and_nested_literals(void **state) {
  trn_arena *a = *state;
  trn_rel *inner = values_rel(a, 1, 1), *outer = values_rel(a, 5, 1);
  trn_expr *subquery = trn__expr_create(a, TRN_EXPR_SUBQUERY, t(TRN_TYPE_BOOL), false, NULL, 0);
  subquery->u.subquery.rel = inner;
  const trn_expr *window_args[] = {trn__expr_call(a, TRN_HOME_ENGINE, "rank", t(TRN_TYPE_INT32), false, NULL, 0)};
  trn_expr *window = trn__expr_create(a, TRN_EXPR_WINDOW, t(TRN_TYPE_INT32), false, window_args, 1);
  window->u.window.end = trn__expr_int(a, t(TRN_TYPE_INT32), 3);
  trn_expr *list = trn__expr_create(a, TRN_EXPR_LITERAL, trn__type_array(a, t(TRN_TYPE_INT32), false), false, NULL, 0);
  const trn_expr *items[] = {trn__expr_int(a, t(TRN_TYPE_INT32), 1), trn__expr_int(a, t(TRN_TYPE_INT32), 2)};
  list->u.literal.value.nested.items = items;
  list->u.literal.value.nested.count = 2;
  const trn_expr *exprs[] = {subquery, window, list};
  trn_column columns[3] = {
      {.id = 7, .type = t(TRN_TYPE_BOOL)}, {.id = 8, .type = t(TRN_TYPE_INT32)}, {.id = 9, .type = list->type}};
  trn_rel *root = trn__rel_project(a, outer, exprs, columns, 3);
  counts c = {0};
  trn_visitor visitor = {count_rel, count_expr, &c};
  assert_int_equal(trn__plan_walk(root, &visitor), TRN_OK);
  assert_int_equal(c.rels, 3);
  assert_int_equal(c.exprs, 1 + 1 + 1 /* subquery's value */ + 3 + 3);
  assert_ptr_equal(c.holder, root);
}

static void walk_of_a_shared_plan_is_linear(void **state) {
  trn_arena *a = *state;
  const trn_rel *rel = values_rel(a, 1, 1);
  const trn_expr *expr = trn__expr_column(a, &rel->columns[0]);
  for (int i = 0; i < 100; i++) { /* 2^100 paths */
    const trn_rel *both[] = {rel, rel};
    const trn_expr *args[] = {expr, expr};
    trn_column column = {.id = 10 + (uint32_t)i, .type = t(TRN_TYPE_INT32)};
    rel = trn__rel_create(a, TRN_REL_UNION, both, 2, NULL, 0, &column, 1);
    expr = trn__expr_call(a, TRN_HOME_LIBRARY, "trn.add", t(TRN_TYPE_INT32), false, args, 2);
  }
  rel = trn__rel_project(a, rel, &expr, &(trn_column){.id = 500, .type = t(TRN_TYPE_INT32)}, 1);
  counts c = {0};
  trn_visitor visitor = {count_rel, count_expr, &c};
  assert_int_equal(trn__plan_walk(rel, &visitor), TRN_OK);
  assert_int_equal(c.rels, 102);
  assert_int_equal(c.exprs, 1 + 100 + 2);
  trn_plan *plan = plan_of(a, rel, 501, NULL);
  uint8_t fingerprint[16];
  trn_plan_fingerprint(plan, fingerprint);
  char *text;
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK); /* relations once; the expression is cut */
  assert_non_null(strstr(text, "..."));
  assert_true(strlen(text) <= TRN_PLAN_PRINT_BYTES_MAX + 1000);
  trn_free(text);
  trn_plan_unref(plan);
}

static void walk_skips_stops_and_bounds_depth(void **state) {
  trn_arena *a = *state;
  trn_rel *values = values_rel(a, 1, 1);
  const trn_rel *rel = trn__rel_filter(a, values, trn__expr_bool(a, true));
  counts c = {.stop_after = 1};
  trn_visitor visitor = {count_rel, count_expr, &c};
  assert_int_equal(trn__plan_walk(rel, &visitor), TRN_OK);
  assert_int_equal(c.rels, 1);
  assert_int_equal(c.exprs, 0);
  trn_visitor stopper = {NULL, stop_expr, &c};
  c = (counts){0};
  assert_int_equal(trn__expr_walk(or_chain(a, &values->columns[0], 10, 0), &stopper), TRN_CANCELLED);
  assert_int_equal(c.exprs, 3);
  for (int i = 0; i < TRN_PLAN_DEPTH_MAX + 10; i++) rel = trn__rel_filter(a, rel, trn__expr_bool(a, true));
  visitor = (trn_visitor){0};
  assert_int_equal(trn__plan_walk(rel, &visitor), TRN_RESOURCE_EXHAUSTED);
}

/* ---- rewriting ---- */

static trn_status keep_rel(void *user, trn_arena *a, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)a;
  (void)error;
  ++*(size_t *)user;
  *out = rel;
  return TRN_OK;
}

/* Literal 1 becomes 2. */
static trn_status one_to_two(void *user, trn_arena *a, const trn_expr *expr, const trn_expr **out, trn_error **error) {
  (void)user;
  *out = expr;
  if (expr->kind != TRN_EXPR_LITERAL || expr->type->id != TRN_TYPE_INT32 || expr->u.literal.value.integer != 1)
    return TRN_OK;
  *out = trn__expr_int(a, expr->type, 2);
  return *out ? TRN_OK : trn__no_memory(error);
}

static void rewrite_without_a_change_gives_the_same_plan(void **state) {
  trn_arena *a = *state;
  uint32_t id = 1;
  const trn_rel *root = tower(a, 5000, 10, &id), *out;
  size_t rels = 0, bytes = trn__arena_bytes(a);
  trn_rewriter rewriter = {.rel = keep_rel, .user = &rels};
  assert_int_equal(trn__rel_rewrite(a, root, &rewriter, &out, NULL), TRN_OK);
  assert_ptr_equal(out, root);
  assert_int_equal(rels, 11);
  assert_int_equal(trn__arena_bytes(a), bytes);
}

static void rewrite_shares_what_did_not_change(void **state) {
  trn_arena *a = *state;
  trn_rel *left = values_rel(a, 1, 1), *right = values_rel(a, 5, 2); /* only right has a literal 1 */
  const trn_rel *join = trn__rel_join(a, TRN_JOIN_INNER, left, right, NULL), *out;
  trn_rewriter rewriter = {.expr = one_to_two};
  assert_int_equal(trn__rel_rewrite(a, join, &rewriter, &out, NULL), TRN_OK);
  assert_ptr_not_equal(out, join);
  assert_ptr_equal(out->inputs[0], left);
  assert_ptr_not_equal(out->inputs[1], right);
  assert_int_equal(out->inputs[1]->exprs[1]->u.literal.value.integer, 2);
  assert_ptr_equal(out->inputs[1]->exprs[0], right->exprs[0]);
  assert_int_equal(right->exprs[1]->u.literal.value.integer, 1);
}

static void rewrite_keeps_sharing(void **state) {
  trn_arena *a = *state;
  const trn_rel *rel = values_rel(a, 1, 2), *out;
  for (uint32_t i = 0; i < 64; i++) {
    const trn_rel *both[] = {rel, rel};
    trn_column columns[2] = {{.id = 10 + 2 * i, .type = t(TRN_TYPE_INT32)},
                             {.id = 11 + 2 * i, .type = t(TRN_TYPE_INT32)}};
    rel = trn__rel_create(a, TRN_REL_UNION, both, 2, NULL, 0, columns, 2);
  }
  size_t rels = 0;
  trn_rewriter rewriter = {.rel = keep_rel, .expr = one_to_two, .user = &rels};
  assert_int_equal(trn__rel_rewrite(a, rel, &rewriter, &out, NULL), TRN_OK);
  assert_int_equal(rels, 65);
  assert_ptr_equal(out->inputs[0], out->inputs[1]);
  assert_ptr_not_equal(out, rel);
}

/* VALUES gain a column. */
static trn_status widen(void *user, trn_arena *a, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user;
  *out = rel->kind == TRN_REL_VALUES ? values_rel(a, rel->columns[0].id, rel->column_count + 1) : rel;
  return *out ? TRN_OK : trn__no_memory(error);
}

static void rewrite_lets_columns_follow_the_inputs(void **state) {
  trn_arena *a = *state;
  trn_rel *left = values_rel(a, 1, 1), *right = values_rel(a, 50, 1);
  trn_rel *filter = trn__rel_filter(a, left, trn__expr_bool(a, true));
  const trn_rel *join = trn__rel_join(a, TRN_JOIN_LEFT, filter, right, trn__expr_bool(a, true)), *out;
  trn_column window_columns[] = {join->columns[0], join->columns[1], {.id = 99, .type = t(TRN_TYPE_INT32)}};
  const trn_expr *rank = trn__expr_call(a, TRN_HOME_ENGINE, "rank", t(TRN_TYPE_INT32), false, NULL, 0);
  const trn_expr *window = trn__expr_create(a, TRN_EXPR_WINDOW, t(TRN_TYPE_INT32), false, &rank, 1);
  const trn_rel *root = trn__rel_create(a, TRN_REL_WINDOW, &join, 1, &window, 1, window_columns, 3);
  trn_rewriter rewriter = {.rel = widen};
  assert_int_equal(trn__rel_rewrite(a, root, &rewriter, &out, NULL), TRN_OK);
  assert_int_equal(out->column_count, 5);
  static const uint32_t ids[] = {1, 2, 50, 51, 99};
  for (int i = 0; i < 5; i++) assert_int_equal(out->columns[i].id, ids[i]);
  assert_true(out->columns[3].nullable && !out->columns[0].nullable);
  assert_ptr_equal(out->inputs[0]->inputs[0]->columns, out->inputs[0]->inputs[0]->inputs[0]->columns);
}

static trn_status fail_expr(void *user, trn_arena *a, const trn_expr *expr, const trn_expr **out, trn_error **error) {
  (void)user;
  (void)a;
  *out = expr;
  return expr->kind == TRN_EXPR_COLUMN ? trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "no") : TRN_OK;
}

static void rewrite_reaches_deep_chains_and_reports_failures(void **state) {
  trn_arena *a = *state;
  trn_rel *values = values_rel(a, 1, 1);
  const trn_expr *chain = or_chain(a, &values->columns[0], 1000, 1), *out;
  trn_rewriter rewriter = {.expr = one_to_two};
  assert_int_equal(trn__expr_rewrite(a, chain, &rewriter, &out, NULL), TRN_OK);
  assert_int_equal(out->args[1]->args[1]->u.literal.value.integer, 2);
  trn_error *error = NULL;
  rewriter.expr = fail_expr;
  assert_int_equal(trn__expr_rewrite(a, chain, &rewriter, &out, &error), TRN_PERMISSION_DENIED);
  assert_null(out);
  assert_string_equal(trn_error_message(error), "no");
  trn_error_unref(error);
}

/* ---- fingerprints ---- */

static void blake2b_is_the_rfcs(void **state) {
  (void)state;
  /* hashlib.blake2b(b"abc", digest_size=16), and of 300 bytes 'x' */
  static const uint8_t abc[16] = {0xcf, 0x4a, 0xb7, 0x91, 0xc6, 0x2b, 0x8d, 0x2b,
                                  0x21, 0x09, 0xc9, 0x02, 0x75, 0x28, 0x78, 0x16};
  trn_blake2b hash;
  uint8_t out[16], again[16];
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, "abc", 3);
  trn__blake2b_end(&hash, out);
  assert_memory_equal(out, abc, 16);
  char x[300];
  memset(x, 'x', sizeof x);
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, x, sizeof x);
  trn__blake2b_end(&hash, out);
  trn__blake2b_init(&hash);
  for (int i = 0; i < 300; i++) trn__blake2b_add(&hash, "x", 1);
  trn__blake2b_end(&hash, again);
  assert_memory_equal(out, again, 16);
}

static void print_of(trn_arena *a, const trn_rel *root, uint8_t out[16]) {
  trn_plan *plan = plan_of(a, root, 1u << 30, NULL);
  uint8_t second[16];
  trn_plan_fingerprint(plan, out);
  trn_plan_fingerprint(plan, second);
  assert_memory_equal(out, second, 16);
  trn_plan_unref(plan);
}

static void fingerprints_do_not_depend_on_numbering(void **state) {
  trn_arena *a = *state;
  uint32_t low = 1, high = 70000;
  uint8_t x[16], y[16];
  print_of(a, tower(a, 30, 3, &low), x);
  print_of(a, tower(a, 30, 3, &high), y);
  assert_memory_equal(x, y, 16);
}

static void fingerprints_see_every_difference(void **state) {
  trn_arena *a = *state;
  uint8_t prints[40][16];
  size_t n = 0;
  trn_rel *values = values_rel(a, 1, 2), *other = values_rel(a, 11, 2);
#define PRINT(rel) print_of(a, (rel), prints[n++])
  PRINT(values);
  PRINT(values_rel(a, 1, 3));
  PRINT(trn__rel_filter(a, values, or_chain(a, &values->columns[0], 3, 7)));
  PRINT(trn__rel_filter(a, values, or_chain(a, &values->columns[0], 3, 8)));
  PRINT(trn__rel_filter(a, values, or_chain(a, &values->columns[1], 3, 8)));
  for (trn_join_type type = TRN_JOIN_INNER; type <= TRN_JOIN_LEFT_ANTI; type++)
    PRINT(trn__rel_join(a, type, values, other, trn__expr_bool(a, true)));
  PRINT(trn__rel_join(a, TRN_JOIN_INNER, values, values, trn__expr_bool(a, true)));
  static int source_a, source_b;
  static const uint32_t indexes[] = {0, 1}, swapped[] = {1, 0};
  for (int i = 0; i < 4; i++) {
    trn_rel *scan = trn__rel_create(a, TRN_REL_SCAN, NULL, 0, NULL, 0, values->columns, 2);
    scan->u.scan.source = (trn_source *)(i == 1 ? &source_b : &source_a);
    scan->u.scan.indexes = i == 2 ? swapped : indexes;
    scan->u.scan.label = i == 3 ? "other" : "t";
    PRINT(scan);
  }
  for (int i = 0; i < 3; i++) {
    const trn_rel *in = values;
    trn_rel *limit = trn__rel_create(a, TRN_REL_LIMIT, &in, 1, NULL, 0, values->columns, 2);
    limit->u.limit.skip = i == 1;
    limit->u.limit.fetch = i == 2;
    PRINT(limit);
  }
  const trn_rel *in = values;
  const trn_expr *swap[] = {trn__expr_column(a, &values->columns[1]), trn__expr_column(a, &values->columns[0])};
  trn_column columns[] = {{.id = 21, .type = t(TRN_TYPE_INT32)}, {.id = 22, .type = t(TRN_TYPE_INT32)}};
  PRINT(trn__rel_project(a, in, swap, columns, 2));
  const trn_expr *straight[] = {swap[1], swap[0]};
  PRINT(trn__rel_project(a, in, straight, columns, 2));
  trn_expr *number = trn__expr_create(a, TRN_EXPR_LITERAL, t(TRN_TYPE_FLOAT64), false, NULL, 0);
  PRINT(trn__rel_project(a, in, (const trn_expr *[]){number}, columns, 1));
  trn_expr *minus = trn__expr_create(a, TRN_EXPR_LITERAL, t(TRN_TYPE_FLOAT64), false, NULL, 0);
  minus->u.literal.value.number = -0.0;
  PRINT(trn__rel_project(a, in, (const trn_expr *[]){minus}, columns, 1));
  PRINT(trn__rel_project(a, in, (const trn_expr *[]){trn__expr_null(a, t(TRN_TYPE_FLOAT64))}, columns, 1));
  PRINT(trn__rel_project(a, in, (const trn_expr *[]){trn__expr_string(a, "a", 1)}, columns, 1));
  PRINT(trn__rel_project(a, in, (const trn_expr *[]){trn__expr_string(a, "b", 1)}, columns, 1));
#undef PRINT
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) assert_memory_not_equal(prints[i], prints[k], 16);
}

static void fingerprints_of_shared_nodes_equal_those_of_copies(void **state) {
  trn_arena *a = *state;
  uint8_t x[16], y[16];
  trn_rel *one = values_rel(a, 1, 2), *copy = values_rel(a, 1, 2);
  trn_column columns[] = {{.id = 21, .type = t(TRN_TYPE_INT32)}, {.id = 22, .type = t(TRN_TYPE_INT32)}};
  print_of(a, trn__rel_create(a, TRN_REL_UNION, (const trn_rel *[]){one, one}, 2, NULL, 0, columns, 2), x);
  print_of(a, trn__rel_create(a, TRN_REL_UNION, (const trn_rel *[]){one, copy}, 2, NULL, 0, columns, 2), y);
  assert_memory_equal(x, y, 16);
  /* Likewise of columns that pass through. */
  trn_rel *filter = trn__rel_filter(a, one, trn__expr_bool(a, true));
  print_of(a, filter, x);
  filter->columns = trn__arena_copy(a, one->columns, 2 * sizeof *one->columns);
  print_of(a, filter, y);
  assert_memory_equal(x, y, 16);
}

/* ---- text ---- */

static void assert_expr_text(const trn_expr *expr, const char *expected) {
  trn_strbuf out = {0};
  trn__expr_print(&out, expr);
  assert_false(out.failed);
  assert_string_equal(out.data, expected);
  trn__strbuf_finish(&out);
}

static void expressions_print(void **state) {
  trn_arena *a = *state;
  trn_rel *values = values_rel(a, 3, 1);
  const trn_expr *column = trn__expr_column(a, &values->columns[0]);
  assert_expr_text(or_chain(a, &values->columns[0], 2, 9), "or(=(#3, 0), =(#3, 9))");
  assert_expr_text(trn__expr_cast(a, column, trn__type_array(a, trn__type_decimal(a, 5, 2), true), true),
                   "try_cast<array<decimal(5,2)>>(#3)");
  assert_expr_text(trn__expr_string(a, "it's\n", 5), "'it''s\\012'");
  const trn_expr *args[] = {trn__expr_bool(a, true), column, trn__expr_null(a, t(TRN_TYPE_INT32))};
  assert_expr_text(trn__expr_create(a, TRN_EXPR_CASE, t(TRN_TYPE_INT32), true, args, 3),
                   "case when true then #3 else null:int end");
  assert_expr_text(trn__expr_create(a, TRN_EXPR_CASE, t(TRN_TYPE_INT32), true, args, 2), "case when true then #3 end");
  trn_expr *in = trn__expr_create(a, TRN_EXPR_IN_LIST, t(TRN_TYPE_BOOL), true, args, 3);
  in->u.in_list.negated = true;
  assert_expr_text(in, "true not in (#3, null:int)");
  trn_sort_flags flags[] = {{.descending = true}};
  trn_expr *sum = trn__expr_create(a, TRN_EXPR_AGGREGATE, t(TRN_TYPE_INT32), true,
                                   (const trn_expr *[]){column, column, args[0]}, 3);
  sum->u.aggregate.name = "sum";
  sum->u.aggregate.distinct = sum->u.aggregate.has_filter = true;
  sum->u.aggregate.order_count = 1;
  sum->u.aggregate.order_flags = flags;
  assert_expr_text(sum, "sum(distinct #3 order by #3 desc) filter (true)");
  trn_expr *window =
      trn__expr_create(a, TRN_EXPR_WINDOW, t(TRN_TYPE_INT32), true, (const trn_expr *[]){sum, column, column}, 3);
  window->u.window.partition_count = window->u.window.order_count = 1;
  window->u.window.order_flags = flags;
  window->u.window.start_kind = TRN_BOUND_PRECEDING;
  window->u.window.start = trn__expr_int(a, t(TRN_TYPE_INT32), 2);
  window->u.window.end_kind = TRN_BOUND_CURRENT_ROW;
  assert_expr_text(window, "sum(distinct #3 order by #3 desc) filter (true) over (partition by #3 order by #3 desc "
                           "rows 2 preceding..current row)");
}

static void decimals_print_exactly(void **state) {
  trn_arena *a = *state;
  static const struct {
    int64_t high;
    uint64_t low;
    int precision, scale;
    const char *text;
  } cases[] = {
      {0, 0, 5, 0, "0:decimal(5,0)"},
      {0, 5, 5, 2, "0.05:decimal(5,2)"},
      {0, 12345, 5, 2, "123.45:decimal(5,2)"},
      {-1, (uint64_t)-12345, 5, 5, "-0.12345:decimal(5,5)"},
      {1, 0, 38, 0, "18446744073709551616:decimal(38,0)"},
      {5421010862427522170, 687399551400673279ull, 38, 1, "9999999999999999999999999999999999999.9:decimal(38,1)"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_expr *expr =
        trn__expr_create(a, TRN_EXPR_LITERAL, trn__type_decimal(a, cases[i].precision, cases[i].scale), false, NULL, 0);
    expr->u.literal.value.decimal.high = cases[i].high;
    expr->u.literal.value.decimal.low = cases[i].low;
    assert_expr_text(expr, cases[i].text);
  }
}

static void plans_print_as_indented_lines(void **state) {
  trn_arena *a = *state;
  trn_rel *values = values_rel(a, 1, 1);
  trn_rel *filter = trn__rel_filter(a, values, or_chain(a, &values->columns[0], 1, 4));
  const trn_expr *exprs[] = {trn__expr_column(a, &values->columns[0]), trn__expr_int(a, t(TRN_TYPE_INT64), 8)};
  trn_column columns[] = {values->columns[0], {.id = 2, .type = t(TRN_TYPE_INT64)}};
  trn_rel *project = trn__rel_project(a, filter, exprs, columns, 2);
  trn_rel *join = trn__rel_join(a, TRN_JOIN_LEFT, project, project, trn__expr_bool(a, true));
  trn_plan *plan = plan_of(a, join, 3, NULL);
  char *text;
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK);
  assert_string_equal(text, "output c #1 int, c #2 bigint, c #1 int, c #2 bigint\n"
                            "join left true\n"
                            "  @1 project #1, #2 := 8:bigint\n"
                            "    filter =(#1, 4)\n"
                            "      values 1 rows 0 [#1 int not null]\n"
                            "  shared @1\n");
  trn_free(text);
  trn_plan_unref(plan);
}

static void deep_and_wide_plans_cost_linear_time(void **state) {
  trn_arena *a = *state;
  uint32_t id = 1;
  int64_t start_ns = trn__now_ns();
  const trn_rel *rel = tower(a, 5000, 10, &id);
  rel = trn__rel_filter(a, rel, or_chain(a, &rel->columns[0], 1000, 5));
  for (int i = 0; i < 4000; i++) rel = trn__rel_filter(a, rel, trn__expr_bool(a, true));
  trn_plan *plan = plan_of(a, rel, id, NULL);
  uint8_t fingerprint[16];
  trn_plan_fingerprint(plan, fingerprint);
  char *text;
  struct ArrowSchema schema;
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK);
  assert_int_equal(trn_plan_schema(plan, &schema), TRN_OK);
  size_t rels = 0;
  const trn_rel *out;
  trn_rewriter rewriter = {.rel = keep_rel, .expr = one_to_two, .user = &rels};
  assert_int_equal(trn__rel_rewrite(a, rel, &rewriter, &out, NULL), TRN_OK);
  assert_int_equal(rels, 4012);
  schema.release(&schema);
  trn_free(text);
  trn_plan_unref(plan);
  int64_t ms = (trn__now_ns() - start_ns) / 1000000;
  print_message("5,000 columns x 10 levels, 1,000 terms, 4,000 filters: %d ms\n", (int)ms);
  assert_true(ms < 30000); /* quadratic work would take minutes; sanitizers and busy machines are slow */
}

#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, make_arena, drop_arena)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_ARENA(types_compare_by_content),
      WITH_ARENA(types_are_bounded_in_depth_and_size),
      WITH_ARENA(types_survive_arrow_and_back),
      WITH_ARENA(timestamps_carry_the_zone_of_the_edge),
      WITH_ARENA(import_maps_variants_and_names_what_it_refuses),
      WITH_ARENA(builders_copy_arrays_and_share_columns),
      WITH_ARENA(joins_make_columns_by_their_type),
      WITH_ARENA(schemas_have_display_names_that_may_repeat),
      WITH_ARENA(walk_visits_each_node_once),
      WITH_ARENA(walk_goes_into_subqueries_bounds_and_nested_literals),
      WITH_ARENA(walk_of_a_shared_plan_is_linear),
      WITH_ARENA(walk_skips_stops_and_bounds_depth),
      WITH_ARENA(rewrite_without_a_change_gives_the_same_plan),
      WITH_ARENA(rewrite_shares_what_did_not_change),
      WITH_ARENA(rewrite_keeps_sharing),
      WITH_ARENA(rewrite_lets_columns_follow_the_inputs),
      WITH_ARENA(rewrite_reaches_deep_chains_and_reports_failures),
      WITH_ARENA(blake2b_is_the_rfcs),
      WITH_ARENA(fingerprints_do_not_depend_on_numbering),
      WITH_ARENA(fingerprints_see_every_difference),
      WITH_ARENA(fingerprints_of_shared_nodes_equal_those_of_copies),
      WITH_ARENA(expressions_print),
      WITH_ARENA(decimals_print_exactly),
      WITH_ARENA(plans_print_as_indented_lines),
      WITH_ARENA(deep_and_wide_plans_cost_linear_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
