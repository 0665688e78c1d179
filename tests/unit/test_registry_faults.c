/* Configuration, registry, decoders, plans from nothing: every allocation fails once. What is checked: the failure is
 * reported, nothing leaks (by the leak checker of the sanitizer builds), and the run without a failure succeeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "core/core.h"
#include "plan/plan.h"
#include <trunnion/auth.h>
#include <trunnion/build.h>
#include <trunnion/decoder.h>
#include <trunnion/translator.h>

#include "support/failing_memory.h"

/* Runs `attempt` with its first, second, ... allocation failing, until one run meets no failure; that one succeeds. */
static void each_allocation_fails(trn_status (*attempt)(trn_error **error)) {
  for (long long k = 0;; k++) {
    trn_error *error = NULL;
    assert_true(k < 100000);
    failures = 0;
    countdown = k;
    trn_status status = attempt(&error);
    countdown = -1;
    trn_error_unref(error);
    if (!failures) {
      assert_int_equal(status, TRN_OK);
      assert_true(k > 0);
      return;
    }
    /* Memory that was only for a better message may be missing. */
    if (status != TRN_OK) assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  }
}

static trn_status configure(trn_error **error) {
  trn_config *root = trn_config_create(), *list = NULL;
  trn_status status = root ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  if (!status) status = trn_config_set(root, "a.b.c", "1", error);
  if (!status) status = trn_config_set(root, "a.b.c", "2", error);
  if (!status) status = trn_config_set(root, "list[]", "x", error);
  if (!status) status = trn_config_add(root, "more", TRN_CONFIG_LIST, NULL, "f:1", &list, error);
  for (int i = 0; i < 40 && !status; i++)
    status = trn_config_add(list, NULL, TRN_CONFIG_TEXT, "item", "f:2", NULL, error);
  trn_config_destroy(root);
  return status;
}

static trn_status nothing(void *user, const trn_registry *registry, const trn_config *config, trn_backend **out,
                          trn_error **error) {
  (void)user, (void)registry, (void)config, (void)out, (void)error;
  return TRN_OK;
}

static void ignore(void *object) {
  (void)object;
}

/* count_where(list, x -> x > bound), whatever these are. */
static const trn_expr *count_where(trn_edit *edit, const trn_expr *list, const trn_expr *bound) {
  const trn_type *bigint = trn_edit_type(edit, TRN_TYPE_INT64);
  const trn_expr *x = trn_edit_lambda_variable(edit, bigint, true), *sides[2] = {x, bound};
  const trn_expr *holds = trn_edit_call(edit, TRN_HOME_NATIVE, ">", trn_edit_type(edit, TRN_TYPE_BOOL), true, sides, 2);
  const trn_expr *args[2] = {list, trn_edit_lambda(edit, &x, 1, holds)};
  return trn_edit_call(edit, TRN_HOME_LIBRARY, "sample.count_where", bigint, true, args, 2);
}

/* range(3) joined with itself, sorted. */
static trn_status build(void *user, trn_edit *edit, const trn_rel **root, const char *const **names,
                        trn_error **error) {
  static const char *const columns[] = {"left", "right", "third"};
  (void)error;
  const trn_rel *left = trn_edit_range(edit, 0, 3, 1), *right = trn_edit_range(edit, 0, 3, 1);
  const trn_expr *keys[2] = {trn_edit_column(edit, left, 0), trn_edit_column(edit, right, 0)};
  const trn_expr *equal = trn_edit_call(edit, TRN_HOME_NATIVE, "=", trn_edit_type(edit, TRN_TYPE_BOOL), false, keys, 2);
  const trn_rel *join = trn_edit_join(edit, TRN_JOIN_INNER, left, right, equal);
  if (user) join = trn_edit_join(edit, TRN_JOIN_INNER, join, trn_edit_plan(edit, user), NULL);
  const trn_expr *key = count_where(edit, trn_edit_column(edit, join, 0), trn_edit_column(edit, join, 1));
  const bool descends = true;
  *root = trn_edit_sort(edit, join, &key, &descends, 1);
  *names = columns;
  return TRN_OK;
}

static trn_status one_column(void *user, trn_edit *edit, const trn_rel **root, const char *const **names,
                             trn_error **error) {
  static const char *const column = "x";
  (void)user, (void)error;
  const trn_expr *cells[2] = {trn_edit_text(edit, "a", 1), trn_edit_null(edit, trn_edit_type(edit, TRN_TYPE_STRING))};
  *root = trn_edit_values(edit, cells, 2, 1);
  *names = &column;
  return TRN_OK;
}

static trn_status decode(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                         trn_error **error) {
  (void)self, (void)session, (void)input;
  trn_plan *inner = NULL;
  trn_status status = trn_plan_build(one_column, NULL, &inner, error);
  if (!status) status = trn_plan_build(build, inner, out, error);
  trn_plan_unref(inner);
  return status;
}

static trn_status translate(void *self, trn_translation *translation, const void *value, size_t size,
                            trn_translated *out, trn_error **error) {
  (void)self, (void)translation, (void)value, (void)size, (void)out, (void)error;
  return TRN_OK;
}

static trn_status use_registry(trn_error **error) {
  static const trn_decoder_ops decoder = {.struct_size = sizeof decoder, .decode = decode};
  static const trn_translator_ops translator = {.struct_size = sizeof translator, .relation = translate};
  const trn_plan_input input = {.struct_size = sizeof input, .format = "test"};
  trn_registry *registry = NULL;
  trn_plan *plan = NULL;
  trn_status status = trn_registry_create(&registry);
  if (!status) status = trn_registry_add_backend(registry, "test", nothing, NULL, error);
  if (!status) status = trn_registry_own(registry, ignore, registry);
  if (!status) status = trn_registry_add_decoder(registry, "test", &decoder, NULL, error);
  if (!status) status = trn_registry_add_translator(registry, "url/test.Message", &translator, NULL, error);
  if (!status) status = trn_registry_decode(registry, NULL, &input, NULL, &plan, error);
  if (!status) {
    assert_int_equal(trn_plan_column_count(plan), 3);
    assert_string_equal(trn_plan_column_name(plan, 2), "third");
    assert_int_equal(trn_type_get_id(trn_plan_column_type(plan, 2)), TRN_TYPE_STRING);
  }
  trn_plan_unref(plan);
  trn_registry_destroy(registry);
  return status;
}

static void failing_allocations_in_configurations(void **state) {
  (void)state;
  each_allocation_fails(configure);
}

static void failing_allocations_in_registries_decoders_and_builders(void **state) {
  (void)state;
  each_allocation_fails(use_registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failing_allocations_in_configurations),
      cmocka_unit_test(failing_allocations_in_registries_decoders_and_builders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
