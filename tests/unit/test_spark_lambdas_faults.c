/* Functions of plugins that take lambdas, in Spark's SQL: what their lambdas are given, what is refused in Spark's words, and
 * every allocation failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/function.h"
#include "support/spark_plans.h"
#include <trunnion/plugin.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static long long countdown = -1; /* < 0: nothing fails; 0: the next one */
static bool has_failed;

static bool fails(void) {
  if (countdown < 0 || countdown-- != 0) return false;
  return has_failed = true;
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

/* ---- my.each(xs, (x[, i]) -> y): an int; my.fold(xs, zero, (s, x) -> s[, s -> y]): what the last lambda gives ---- */

static void release_constant(struct ArrowSchema *schema) {
  schema->release = NULL;
}
static void constant_type(struct ArrowSchema *out, const char *format, int64_t flags) {
  *out = (struct ArrowSchema){.format = format, .name = "", .flags = flags, .release = release_constant};
}
static void borrow(struct ArrowSchema *out, const struct ArrowSchema *type) {
  *out = *type;
  out->release = NULL;
}
static trn_status refuse(trn_function_error *error, const char *message) {
  (error->fail)(error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

static size_t gives; /* so many parameters; 0: as it should */

static trn_status parameters(const trn_lambda_function *function, const trn_function_arg *args, size_t count, size_t index,
                             trn_lambda_parameters *out, trn_function_error *error) {
  bool is_fold = strcmp(function->name, "my.fold") == 0;
  if (strcmp(args[0].type->format, "+l") != 0) return refuse(error, "my list is no list");
  assert_true(!is_fold || (count >= 3 && count <= 4 && args[1].type));
  out->count = is_fold && index == 2 ? 2 : 1;
  out->least = out->count;
  if (is_fold) {
    if (index == 3) assert_non_null(args[2].type);
    borrow(&out->types[0], args[index == 3 ? 2 : 1].type);
    if (index == 2) borrow(&out->types[1], args[0].type->children[0]);
  } else {
    borrow(&out->types[0], args[0].type->children[0]);
    constant_type(&out->types[1], "i", 0);
    out->count = 2;
  }
  if (gives) out->count = gives;
  return TRN_OK;
}
static trn_status bind(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                       struct ArrowSchema *out, trn_function_error *error) {
  for (size_t i = 0; i < count; i++) assert_true(args[i].type && !args[i].array);
  if (strcmp(function->name, "my.each") == 0) {
    constant_type(out, "i", args[1].type->flags & ARROW_FLAG_NULLABLE);
    return TRN_OK;
  }
  if (strcmp(args[count - 1].type->format, "l") != 0) return refuse(error, "my fold gives bigints");
  constant_type(out, "l", args[count - 1].type->flags & ARROW_FLAG_NULLABLE);
  return TRN_OK;
}
static trn_status evaluate(const trn_lambda_function *function, const trn_function_arg *args, const trn_lambda *const *lambdas,
                           size_t count, int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  (void)function, (void)args, (void)lambdas, (void)count, (void)rows, (void)out;
  return refuse(error, "nobody evaluates here");
}
static trn_status bind_any(const trn_scalar_function *function, const trn_function_arg *args, size_t count,
                           struct ArrowSchema *out, trn_function_error *error) {
  (void)function, (void)args, (void)count, (void)error;
  constant_type(out, "i", 0);
  return TRN_OK;
}

static trn_lambda_function each = {sizeof each, "my.each", TRN_VOLATILE, "vl", parameters, bind, evaluate, NULL};
static const trn_lambda_function fold = {sizeof fold, "my.fold", TRN_IMMUTABLE, "vvl|l", parameters, bind, evaluate, NULL};
static const trn_lambda_function *const lambdas[] = {&each, &fold};
static const trn_scalar_function plain = {.struct_size = sizeof plain, .name = "my.plain", .bind = bind_any};
static const trn_scalar_function *const scalars[] = {&plain};
static const trn_function_library library = {.struct_size = sizeof library,
                                             .abi = TRN_FUNCTION_ABI,
                                             .name = "my",
                                             .scalars = scalars,
                                             .scalar_count = 1,
                                             .lambdas = lambdas,
                                             .lambda_count = 2};

/* ---- plans ---- */

static trn_registry *registry;
static spark_plans plans;

static int open_all(void **state) {
  (void)state;
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_add_functions(registry, &library, NULL), TRN_OK);
  assert_true(plans_open(&plans));
  return plans_table(&plans, "t", "k BIGINT, xs ARRAY<BIGINT>, ss ARRAY<STRUCT<a: STRING, d: TIMESTAMP>>") ? 0 : 1;
}
static int close_all(void **state) {
  (void)state;
  plans_close(&plans);
  trn_registry_destroy(registry);
  return 0;
}

static trn_status plan_of(const char *query, trn_plan **out, trn_error **error) {
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  spark_translator t;
  *out = NULL;
  trn_status status = spark__translator_init(&t, plans.session, plans.catalog, error);
  if (status) return status;
  t.registry = registry;
  sql.query = (char *)query;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  return spark__translate_relation(&t, &relation, out, error);
}

static void gives_plan(const char *query, const char *name, const char *const parts[], size_t count) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  char *text = NULL;
  if (plan_of(query, &plan, &error)) fail_msg("%s: %s", query, trn_error_message(error));
  assert_string_equal(trn_plan_column_name(plan, 0), name);
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK);
  for (size_t i = 0; i < count; i++)
    if (!strstr(text, parts[i])) fail_msg("%s is not in the plan of %s:\n%s", parts[i], query, text);
  free(text);
  trn_plan_unref(plan);
}

static void refuses(const char *query, const char *condition, const char *part) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  if (plan_of(query, &plan, &error) != TRN_INVALID_ARGUMENT) fail_msg("%s: %s", query, trn_error_message(error));
  const char *is = trn_error_condition(error);
  if (condition && (!is || strcmp(is, condition) != 0)) fail_msg("%s: %s", query, is ? is : trn_error_message(error));
  if (part && !strstr(trn_error_message(error), part)) fail_msg("%s: %s", query, trn_error_message(error));
  trn_error_unref(error);
}

/* ---- tests ---- */

static void lambdas_are_given_what_the_function_says(void **state) {
  (void)state;
  static const char *const first[] = {"my.each"}, *const second[] = {"my.fold"};
  gives_plan("SELECT my.each(xs, x -> x + k) FROM t",
             "my.each(xs, lambdafunction((namedlambdavariable() + k), namedlambdavariable()))", first, 1);
  gives_plan("SELECT My.Each(xs, (x, i) -> x + i) AS e FROM t", "e", first, 1);
  gives_plan("SELECT my.each(ss, s -> concat(s.a, cast(s.d AS STRING))) AS e FROM t", "e", first, 1);
  gives_plan("SELECT my.fold(xs, 0L, (s, x) -> s + x) AS f FROM t", "f", second, 1);
  gives_plan("SELECT my.fold(xs, 'a', (s, x) -> length(s), s -> s * 2L) AS f FROM t", "f", second, 1);
  gives_plan("SELECT my.each(xs, x -> my.fold(xs, x, (s, y) -> s + x + y + k)) AS n FROM t", "n", second, 1);
  gives_plan("SELECT transform(xs, x -> my.each(xs, y -> x + y)) AS n FROM t", "n", first, 1);
  gives_plan("SELECT my.each(xs, 5) AS c FROM t", "c", first, 1); /* what is no lambda looks at nothing */
  gives_plan("SELECT my.fold(xs, 0L, (s, x) -> s, 7L) AS c FROM t", "c", second, 1);
}

/* SELECT my.each(xs, (x, i) -> x > k), from a query that has another argument there. */
static trn_status compare_with_k(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  const trn_expr *call = trn_rel_get_kind(rel) == TRN_REL_PROJECT ? trn_rel_expr(rel, 0) : NULL;
  (void)user, (void)error;
  if (!call || trn_expr_get_kind(call) != TRN_EXPR_CALL) return TRN_OK;
  const trn_expr *k = trn_edit_column(edit, trn_rel_input(rel, 0), 0), *xs = trn_edit_column(edit, trn_rel_input(rel, 0), 1);
  const trn_type *bigint = trn_type_field_type(trn_expr_get_type(xs), 0), *truth = trn_edit_type(edit, TRN_TYPE_BOOL);
  const trn_expr *params[2] = {trn_edit_lambda_variable(edit, bigint, true),
                               trn_edit_lambda_variable(edit, trn_edit_type(edit, TRN_TYPE_INT32), false)};
  const trn_expr *sides[2] = {params[0], k};
  const trn_expr *body = trn_edit_call(edit, TRN_HOME_NATIVE, ">", truth, true, sides, 2);
  const trn_expr *args[2] = {xs, trn_edit_lambda(edit, params, 2, body)};
  const trn_expr *made = trn_edit_call(edit, TRN_HOME_LIBRARY, "my.each", trn_expr_get_type(call), true, args, 2);
  *out = trn_edit_project(edit, trn_rel_input(rel, 0), &made, 1, false);
  return TRN_OK;
}

static trn_walk see_lambda(void *user, const trn_expr *expr, const trn_rel *holder) {
  const trn_expr **found = user;
  (void)holder;
  if (trn_expr_get_kind(expr) == TRN_EXPR_LAMBDA) *found = expr;
  return TRN_WALK_ON;
}

/* Plans that were opened apart differ in the ids of their columns, and by fingerprint: the table has no version. */
static void text_without_ids(const trn_plan *plan, char *out) {
  char *text = NULL;
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK);
  assert_true(strlen(text) < 1000);
  for (const char *from = text; *from; from++)
    if (*from < '0' || *from > '9') *out++ = *from;
  *out = 0;
  free(text);
}

static void lambdas_that_are_built_are_those_of_sql(void **state) {
  (void)state;
  trn_plan *plan = NULL, *built = NULL, *written = NULL;
  char one[1000], two[1000];
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = compare_with_k};
  assert_int_equal(plan_of("SELECT my.each(xs, 5) AS c FROM t", &plan, NULL), TRN_OK);
  assert_int_equal(plan_of("SELECT my.each(xs, (x, i) -> x > k) AS c FROM t", &written, NULL), TRN_OK);
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &built, NULL), TRN_OK);
  trn_plan_unref(plan);
  text_without_ids(built, one), text_without_ids(written, two);
  assert_string_equal(one, two);
  assert_int_equal(trn_rel_column_nullable(trn_plan_root(built), 0), trn_rel_column_nullable(trn_plan_root(written), 0));
  const trn_expr *lambda = NULL;
  trn_visitor visitor = {.expr = see_lambda, .user = &lambda};
  assert_int_equal(trn_plan_walk(built, &visitor), TRN_OK);
  assert_non_null(lambda);
  assert_int_equal(trn_expr_lambda_param_count(lambda), 2);
  const trn_expr *x = trn_expr_arg(trn_expr_arg(lambda, 0), 0), *k = trn_expr_arg(trn_expr_arg(lambda, 0), 1);
  assert_int_equal(trn_expr_get_kind(x), TRN_EXPR_LAMBDA_VARIABLE);
  assert_int_equal(trn_expr_column_id(x), trn_expr_lambda_param(lambda, 0));
  assert_int_not_equal(trn_expr_lambda_param(lambda, 0), trn_expr_lambda_param(lambda, 1));
  assert_int_equal(trn_expr_lambda_param(lambda, 2), UINT32_MAX);
  assert_int_equal(trn_expr_get_kind(k), TRN_EXPR_COLUMN);
  assert_int_equal(trn_expr_column_id(k), trn_rel_column_id(trn_rel_input(trn_plan_root(built), 0), 0));
  assert_int_equal(trn_expr_lambda_param_count(k), 0);
  trn_plan_unref(built);
  trn_plan_unref(written);
}

static trn_status misuse_lambdas(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user, (void)out, (void)error;
  if (trn_rel_get_kind(rel) != TRN_REL_PROJECT) return TRN_OK;
  const trn_expr *xs = trn_edit_column(edit, trn_rel_input(rel, 0), 1), *x[TRN_LAMBDA_PARAMETERS_MAX + 1];
  for (size_t i = 0; i <= TRN_LAMBDA_PARAMETERS_MAX; i++)
    x[i] = trn_edit_lambda_variable(edit, trn_edit_type(edit, TRN_TYPE_INT64), true);
  const trn_expr *twice[2] = {x[0], x[0]}, *missing[2] = {x[0], NULL};
  assert_null(trn_edit_lambda(edit, &xs, 1, x[0]));
  assert_null(trn_edit_lambda(edit, twice, 2, x[0]));
  assert_null(trn_edit_lambda(edit, missing, 2, x[0]));
  assert_null(trn_edit_lambda(edit, x, 1, NULL));
  assert_null(trn_edit_lambda(edit, x, TRN_LAMBDA_PARAMETERS_MAX + 1, x[0]));
  assert_null(trn_edit_lambda_variable(edit, NULL, true));
  assert_false(trn_edit_failed(edit));
  assert_non_null(trn_edit_lambda(edit, x, TRN_LAMBDA_PARAMETERS_MAX, x[0]));
  assert_int_equal(trn_expr_lambda_param_count(trn_edit_lambda(edit, NULL, 0, xs)), 0);
  /* What is inside of a variable's type may be null. */
  const trn_type *text = trn_edit_type(edit, TRN_TYPE_STRING), *list = trn_expr_get_type(user);
  assert_false(trn_type_field_nullable(list, 0));
  assert_true(trn_type_field_nullable(trn_expr_get_type(trn_edit_lambda_variable(edit, list, false)), 0));
  assert_false(trn_expr_is_nullable(trn_edit_lambda_variable(edit, text, false)));
  return TRN_OK;
}

static void what_is_no_lambda_is_not_built(void **state) {
  (void)state;
  trn_plan *plan = NULL, *same = NULL;
  assert_int_equal(plan_of("SELECT xs, array(1L, 2L) AS sure FROM t", &plan, NULL), TRN_OK);
  trn_rewriting rewriting = {.struct_size = sizeof rewriting,
                             .rel = misuse_lambdas,
                             .user = (void *)trn_rel_expr(trn_plan_root(plan), 1)};
  assert_int_equal(trn_plan_rewrite(plan, &rewriting, &same, NULL), TRN_OK);
  trn_plan_unref(same);
  trn_plan_unref(plan);
}

static void results_may_be_null_as_their_functions_say(void **state) {
  (void)state;
  static const struct {
    const char *query;
    bool nullable;
  } cases[] = {{"SELECT my.each(array(1L), (x, i) -> i) FROM t", false},
               {"SELECT my.each(xs, x -> x) FROM t", true},
               {"SELECT my.each(xs, 5) FROM t", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_plan *plan = NULL;
    assert_int_equal(plan_of(cases[i].query, &plan, NULL), TRN_OK);
    assert_int_equal(plan->fields[0].nullable, cases[i].nullable);
    trn_plan_unref(plan);
  }
}

static void misuse_is_refused_in_sparks_words(void **state) {
  (void)state;
  refuses("SELECT my.each(xs) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", NULL);
  refuses("SELECT my.each(xs, x -> x, 1) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", NULL);
  refuses("SELECT my.fold(x -> x) FROM t", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", NULL);
  refuses("SELECT my.each(xs, (x, y, z) -> x) FROM t", "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", NULL);
  refuses("SELECT my.fold(xs, 0L, x -> x) FROM t", "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", NULL);
  refuses("SELECT my.each(xs, (x, x) -> x) FROM t", "INVALID_LAMBDA_FUNCTION_CALL.DUPLICATE_ARG_NAMES", NULL);
  refuses("SELECT my.each(x -> x, xs) FROM t",
          "INVALID_LAMBDA_FUNCTION_CALL.PARAMETER_DOES_NOT_ACCEPT_LAMBDA_FUNCTION", NULL);
  refuses("SELECT my.plain(x -> x) FROM t", "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION", NULL);
  refuses("SELECT my.nothing(x -> x) FROM t", "UNRESOLVED_ROUTINE", NULL);
  refuses("SELECT my.each(k, x -> x) FROM t", NULL, "my list is no list");
  refuses("SELECT my.fold(xs, 0L, (s, x) -> 'a') FROM t", NULL, "my fold gives bigints");
  refuses("SELECT my.each(xs, x -> y) FROM t", "UNRESOLVED_COLUMN.WITH_SUGGESTION", NULL);
}

static void functions_that_say_too_much_are_at_fault(void **state) {
  (void)state;
  static const size_t wrong[] = {9, SIZE_MAX};
  for (size_t i = 0; i < 2; i++) {
    trn_plan *plan = NULL;
    trn_error *error = NULL;
    gives = wrong[i];
    trn_status status = plan_of("SELECT my.each(xs, x -> x) FROM t", &plan, &error);
    gives = 0;
    assert_int_equal(status, TRN_INTERNAL);
    assert_non_null(strstr(trn_error_message(error), "The function my.each gives a lambda"));
    trn_error_unref(error);
  }
}

static void a_library_is_checked_when_it_is_added(void **state) {
  (void)state;
  static const char *const wrong[] = {"", "v", "vv+", "x", "vl|v|", "+l", "v+l", "vl++", "l l"},
                          *const right[] = {"l", "vl", "vl|", "|vl", "vl+", "lv+", "vvl|l"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong + sizeof right / sizeof *right + 1; i++) {
    size_t count = sizeof wrong / sizeof *wrong;
    trn_registry *own = NULL;
    trn_error *error = NULL;
    assert_int_equal(trn_registry_create(&own), TRN_OK);
    each.arguments = i < count ? wrong[i] : i == count ? NULL : right[i - count - 1];
    trn_status status = trn_registry_add_functions(own, &library, &error);
    if (status != (i <= count ? TRN_INVALID_ARGUMENT : TRN_OK))
      fail_msg("\"%s\": %s", each.arguments ? each.arguments : "(none)", trn_error_message(error));
    if (status) assert_non_null(strstr(trn_error_message(error), "my.each"));
    trn_error_unref(error);
    trn_registry_destroy(own);
    each.arguments = "vl";
  }
  trn_registry *own = NULL;
  trn_function_library older = library;
  trn_found_function found;
  assert_int_equal(trn_registry_create(&own), TRN_OK);
  older.struct_size = offsetof(trn_function_library, lambdas);
  assert_int_equal(trn_registry_add_functions(own, &older, NULL), TRN_OK);
  assert_true(trn__registry_function(own, "my.plain", &found));
  assert_false(trn__registry_function(own, "my.each", &found));
  trn_registry_destroy(own);
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  static const char *const queries[] = {"SELECT my.fold(ss, k, (s, x) -> s + k, 7L) FROM t",
                                        "SELECT my.each(xs, x -> my.each(xs, (y, i) -> x + y + i)) FROM t"};
  for (size_t i = 0; i < 2; i++) {
    for (long long k = 0;; k++) {
      trn_plan *plan = NULL;
      trn_error *error = NULL;
      assert_true(k < 100000);
      has_failed = false;
      countdown = k;
      trn_status status = plan_of(queries[i], &plan, &error);
      countdown = -1;
      assert_true((status == TRN_OK) == (plan != NULL));
      if (!has_failed) assert_int_equal(status, TRN_OK);
      trn_plan_unref(plan);
      trn_error_unref(error);
      if (!has_failed) break;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lambdas_are_given_what_the_function_says),
      cmocka_unit_test(lambdas_that_are_built_are_those_of_sql),
      cmocka_unit_test(what_is_no_lambda_is_not_built),
      cmocka_unit_test(results_may_be_null_as_their_functions_say),
      cmocka_unit_test(misuse_is_refused_in_sparks_words),
      cmocka_unit_test(functions_that_say_too_much_are_at_fault),
      cmocka_unit_test(a_library_is_checked_when_it_is_added),
      cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
