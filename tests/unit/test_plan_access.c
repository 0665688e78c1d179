/* Plans from outside: labels, accessors, matching, rewriting. */
#include "support/layer_fixture.h"

static const plan_spec SALES = {.path = "/data/sales", .table = "sales", .version = "v1"};

static trn_plan *sales_plan(bench *b, trn_session **session) {
  trn_plan *plan = NULL;
  bench_open(b, TRN_SCRIPTED_ARRAYS);
  *session = session_of(b->base, "ann", NULL);
  assert_int_equal(plan_of(*session, &SALES, &plan, NULL), TRN_OK);
  return plan;
}

static void labels_are_copies_with_an_identity(void **state) {
  (void)state;
  uint8_t one[16], two[16], other[16];
  plan_spec spec = SALES;
  trn_scan_label *a = label_of(&spec), *b = label_of(&spec);
  spec.version = "v2";
  trn_scan_label *c = label_of(&spec);
  spec.version = NULL;
  trn_scan_label *d = label_of(&spec);
  assert_true(trn_scan_label_identity(a, one) && trn_scan_label_identity(b, two) && trn_scan_label_identity(c, other));
  assert_memory_equal(one, two, 16);
  assert_memory_not_equal(one, other, 16);
  assert_false(trn_scan_label_identity(d, other)); /* it does not say all */
  trn_scan_view view = {"main", "shop", "v", false};
  trn_scan_label *through = NULL, *twice = NULL;
  assert_int_equal(trn_scan_label_through(a, &view, &through), TRN_OK);
  view.name = "w";
  assert_int_equal(trn_scan_label_through(through, &view, &twice), TRN_OK);
  const trn_scan_info *info = trn_scan_label_info(twice);
  assert_int_equal(info->view_count, 2);
  assert_string_equal(info->views[0].name, "w"); /* outermost first */
  assert_string_equal(info->views[1].name, "v");
  assert_true(trn_scan_label_identity(twice, two));
  assert_memory_equal(one, two, 16); /* how it is reached changes no row */
  char *text = trn_scan_label_text(a);
  assert_string_equal(text, "main.shop.sales");
  trn_free(text);
  trn_scan_info broken = {.struct_size = sizeof broken, .columns = &(trn_scan_column){0}, .column_count = 1};
  trn_scan_label *none = NULL;
  assert_int_equal(trn_scan_label_create(&broken, &none), TRN_INVALID_ARGUMENT);
  trn_scan_label *all[] = {a, b, c, d, through, twice};
  for (size_t i = 0; i < 6; i++) trn_scan_label_unref(all[i]);
}

static void local_rows_are_known_by_what_they_are(void **state) {
  (void)state;
  uint8_t digests[3][16];
  static const char *const contents[] = {"rows", "rows", "other"};
  for (int i = 0; i < 3; i++) {
    trn_scan_label *label = NULL;
    trn_scan_info info = {.struct_size = sizeof info,
                          .kind = TRN_SCAN_LOCAL,
                          .content = contents[i],
                          .content_size = strlen(contents[i])};
    assert_int_equal(trn_scan_label_create(&info, &label), TRN_OK);
    assert_true(trn_scan_label_identity(label, digests[i]));
    assert_null(trn_scan_label_info(label)->content);
    trn_scan_label_unref(label);
  }
  assert_memory_equal(digests[0], digests[1], 16);
  assert_memory_not_equal(digests[0], digests[2], 16);
}

static void equal_queries_of_different_sessions_have_one_fingerprint(void **state) {
  (void)state;
  bench b;
  uint8_t one[16], two[16], unversioned[16];
  trn_session *ann = NULL, *bob;
  trn_plan *first = sales_plan(&b, &ann), *second = NULL, *third = NULL;
  bob = session_of(b.base, "bob", NULL);
  assert_int_equal(plan_of(bob, &SALES, &second, NULL), TRN_OK);
  plan_spec spec = SALES;
  spec.version = NULL;
  assert_int_equal(plan_of(bob, &spec, &third, NULL), TRN_OK);
  trn_plan_fingerprint(first, one);
  trn_plan_fingerprint(second, two);
  trn_plan_fingerprint(third, unversioned);
  assert_memory_equal(one, two, 16);
  assert_memory_not_equal(one, unversioned, 16);
  trn_plan_unref(first), trn_plan_unref(second), trn_plan_unref(third);
  trn_session_unref(ann), trn_session_unref(bob);
  bench_close(&b);
}

static void everything_can_be_read(void **state) {
  (void)state;
  bench b;
  trn_session *session = NULL;
  trn_plan *plan = sales_plan(&b, &session);
  const trn_rel *root = trn_plan_root(plan), *scan = trn_rel_input(root, 0);
  assert_int_equal(trn_plan_get_kind(plan), TRN_PLAN_LOGICAL);
  assert_int_equal(trn_plan_column_count(plan), 3);
  assert_string_equal(trn_plan_column_name(plan, 1), "region");
  assert_int_equal(trn_type_get_id(trn_plan_column_type(plan, 0)), TRN_TYPE_INT64);
  assert_int_equal(trn_rel_get_kind(root), TRN_REL_PROJECT);
  assert_string_equal(trn_rel_kind_name(trn_rel_get_kind(scan)), "Scan");
  assert_null(trn_rel_input(root, 1));
  assert_null(trn_rel_expr(root, 9));
  assert_string_equal(trn_rel_scan_column_name(scan, 2), "ssn");
  assert_null(trn_rel_scan_column_name(scan, 3));
  assert_int_equal(trn_rel_column_id(scan, 0), trn_expr_column_id(trn_rel_expr(root, 0)));
  assert_string_equal(trn_scan_label_info(trn_rel_label(scan))->table, "sales");
  assert_null(trn_rel_label(root));
  assert_int_equal(trn_rel_column_id(scan, 99), UINT32_MAX);
  char *text = NULL;
  assert_int_equal(trn_type_print(trn_rel_column_type(scan, 0), &text), TRN_OK);
  assert_string_equal(text, "bigint");
  trn_free(text);
  trn_plan_unref(plan);
  trn_session_unref(session);
  bench_close(&b);
}

static trn_plan *calls_plan(void) {
  trn_arena *arena = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  trn_column made[] = {{.id = 2, .type = trn__type(TRN_TYPE_STRING)}, {.id = 3, .type = trn__type(TRN_TYPE_STRING)}};
  const trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  const trn_expr *text = trn__expr_string(arena, "x", 1);
  const trn_expr *upper = trn__expr_call(arena, TRN_HOME_LIBRARY, "trn.upper", made[0].type, false, &text, 1);
  const trn_expr *exprs[] = {upper, trn__expr_call(arena, TRN_HOME_LIBRARY, "trn.lower", made[1].type, false, &upper, 1)};
  return plan_end(arena, trn__rel_project(arena, range, exprs, made, 2), NULL, 4);
}

static bool count_match(void *user, const trn_rel *rel, const trn_expr *expr) {
  (void)rel, (void)expr;
  ++*(int *)user;
  return true;
}
static bool first_match(void *user, const trn_rel *rel, const trn_expr *expr) {
  (void)rel, (void)expr;
  ++*(int *)user;
  return false;
}

static int matches(const trn_plan *plan, trn_pattern pattern) {
  int count = 0;
  pattern.struct_size = sizeof pattern;
  assert_int_equal(trn_plan_match(plan, &pattern, count_match, &count), TRN_OK);
  return count;
}

static void patterns_find_what_they_say(void **state) {
  (void)state;
  bench b;
  trn_session *session = NULL;
  trn_plan *plan = sales_plan(&b, &session), *calls = calls_plan();
  assert_int_equal(matches(plan, (trn_pattern){0}), 2);
  assert_int_equal(matches(plan, (trn_pattern){.rel_kinds = 1u << TRN_REL_SCAN}), 1);
  assert_int_equal(matches(plan, (trn_pattern){.table = "MAIN.*.sales"}), 1);
  assert_int_equal(matches(plan, (trn_pattern){.table = "main.shop.other"}), 0);
  assert_int_equal(matches(plan, (trn_pattern){.path = "/data/*"}), 1);
  assert_int_equal(matches(plan, (trn_pattern){.expr_kinds = 1u << TRN_EXPR_COLUMN}), 3);
  assert_int_equal(matches(calls, (trn_pattern){.function = "trn.*"}), 2); /* what is shared comes once */
  assert_int_equal(matches(calls, (trn_pattern){.function = "trn.lower"}), 1);
  int count = 0;
  trn_pattern any = {.struct_size = sizeof any};
  assert_int_equal(trn_plan_match(plan, &any, first_match, &count), TRN_OK);
  assert_int_equal(count, 1);
  trn_plan_unref(plan);
  trn_plan_unref(calls);
  trn_session_unref(session);
  bench_close(&b);
}

static void stars_match_in_linear_time(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {{"", "", true},       {"*", "", true},          {"?", "", false},      {"a*b*c", "aXbYc", true},
               {"a*b*c", "aXcYb", false}, {"**a", "a", true}, {"a?", "a", false},    {"*.x", "a.x.y", false},
               {"*.x*", "a.x.y", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(trn_pattern_matches(cases[i].pattern, cases[i].text, false), cases[i].matches);
  static char text[20001];
  memset(text, 'a', 20000);
  int64_t begun = trn__now_ns();
  assert_false(trn_pattern_matches("*a*a*a*a*a*a*a*a*a*a*a*b", text, false));
  assert_true(trn__now_ns() - begun < 5000000000);
}

static void functions_are_the_protocols_or_the_plans(void **state) {
  (void)state;
  const char *const *names = NULL;
  size_t count = 0;
  trn_plan *plan = calls_plan();
  assert_int_equal(trn_plan_functions(plan, &names, &count), TRN_OK);
  assert_int_equal(count, 2);
  assert_string_equal(names[0], "trn.lower");
  assert_string_equal(names[1], "trn.upper");
  const char *given[] = {"ucase", "lcase", "ucase"};
  trn__plan_set_functions(plan, trn__arena_copy(plan->arena, given, sizeof given), 3);
  assert_int_equal(trn_plan_functions(plan, &names, &count), TRN_OK);
  assert_int_equal(count, 2);
  assert_string_equal(names[0], "lcase");
  trn_plan_unref(plan);
}

/* ---- rewriting ---- */

static trn_status limit_scans(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user, (void)error;
  if (trn_rel_get_kind(rel) == TRN_REL_SCAN) *out = trn_edit_limit(edit, rel, 0, 2);
  return TRN_OK;
}

static void a_rewritten_plan_stands_alone(void **state) {
  (void)state;
  bench b;
  trn_session *session = NULL;
  trn_plan *plan = sales_plan(&b, &session), *limited = NULL, *same = NULL;
  uint8_t one[16], two[16];
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = limit_scans};
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &limited, NULL), TRN_OK);
  rewriting.rel = NULL;
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &same, NULL), TRN_OK);
  assert_ptr_equal(same, plan);
  trn_plan_fingerprint(plan, one);
  trn_plan_fingerprint(limited, two);
  assert_memory_not_equal(one, two, 16);
  trn_plan_unref(same);
  trn_plan_unref(plan); /* the new one holds what it needs */
  trn_status status;
  assert_int_equal(run_plan(session, limited, &status, NULL), 2);
  trn_session_unref(session);
  bench_close(&b);
}

static trn_status drop_column(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user, (void)error;
  if (trn_rel_get_kind(rel) != TRN_REL_PROJECT) return TRN_OK;
  const trn_expr *only = trn_rel_expr(rel, 0);
  *out = trn_edit_project(edit, trn_rel_input(rel, 0), &only, 1, true);
  return TRN_OK;
}
static trn_status fail_rewrite(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user, (void)edit, (void)rel, (void)out;
  return trn_error_set(error, TRN_ABORTED, NULL, "no");
}

static void a_rewrite_may_not_change_what_clients_see_and_may_fail(void **state) {
  (void)state;
  bench b;
  trn_session *session = NULL;
  trn_error *error = NULL;
  trn_plan *plan = sales_plan(&b, &session), *out = NULL;
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = drop_column};
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &out, &error), TRN_INVALID_ARGUMENT);
  assert_null(out);
  trn_error_unref(error);
  rewriting.rel = fail_rewrite;
  error = NULL;
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &out, &error), TRN_ABORTED);
  assert_string_equal(trn_error_message(error), "no");
  trn_error_unref(error);
  trn_plan_unref(plan);
  trn_session_unref(session);
  bench_close(&b);
}

/* A builder's calls nest: what is NULL gives NULL. */
static trn_status use_builder(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user, (void)error;
  if (trn_rel_get_kind(rel) != TRN_REL_SCAN) return TRN_OK;
  const trn_type *bigint = trn_edit_type(edit, TRN_TYPE_INT64), *truth = trn_edit_type(edit, TRN_TYPE_BOOL);
  assert_null(trn_edit_type(edit, TRN_TYPE_ARRAY));
  assert_null(trn_edit_decimal(edit, 39, 0));
  assert_null(trn_edit_column(edit, rel, 77));
  const trn_expr *args[] = {trn_edit_column(edit, rel, 0), trn_edit_int(edit, bigint, 1)};
  const trn_expr *test = trn_edit_call(edit, TRN_HOME_NATIVE, ">", truth, true, args, 2);
  const trn_expr *branches[] = {test, trn_edit_bool(edit, true), trn_edit_null(edit, truth)};
  const trn_expr *nothing[] = {NULL, test};
  assert_null(trn_edit_call(edit, TRN_HOME_NATIVE, "and", truth, true, nothing, 2));
  *out = trn_edit_filter(edit, rel, trn_edit_case(edit, branches, 3));
  assert_null(trn_edit_filter(edit, rel, NULL));
  assert_false(trn_edit_failed(edit));
  return TRN_OK;
}

static void the_builder_makes_what_is_asked_for(void **state) {
  (void)state;
  bench b;
  trn_session *session = NULL;
  char *text = NULL;
  trn_plan *plan = sales_plan(&b, &session), *out = NULL;
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = use_builder};
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &out, NULL), TRN_OK);
  assert_int_equal(trn_plan_print(out, &text), TRN_OK);
  assert_non_null(strcasestr(text, "filter"));
  assert_non_null(strcasestr(text, "case"));
  trn_free(text);
  trn_plan_unref(out);
  trn_plan_unref(plan);
  trn_session_unref(session);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(labels_are_copies_with_an_identity),
      cmocka_unit_test(local_rows_are_known_by_what_they_are),
      cmocka_unit_test(equal_queries_of_different_sessions_have_one_fingerprint),
      cmocka_unit_test(everything_can_be_read),
      cmocka_unit_test(patterns_find_what_they_say),
      cmocka_unit_test(stars_match_in_linear_time),
      cmocka_unit_test(functions_are_the_protocols_or_the_plans),
      cmocka_unit_test(a_rewritten_plan_stands_alone),
      cmocka_unit_test(a_rewrite_may_not_change_what_clients_see_and_may_fail),
      cmocka_unit_test(the_builder_makes_what_is_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
