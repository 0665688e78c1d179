/* The tree of configuration: setting by path, adding as a file's reader does, typed reads, what is said about mistakes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core.h"
#include <trunnion/config.h>

static void fails_with(trn_status status, trn_status wanted, trn_error *error, const char *text) {
  assert_int_equal(status, wanted);
  assert_non_null(error);
  if (!strstr(trn_error_message(error), text)) fail_msg("'%s' is not in '%s'", text, trn_error_message(error));
  trn_error_unref(error);
}

static void paths_make_maps_and_append_to_lists(void **state) {
  (void)state;
  trn_config *root = trn_config_create();
  const char *text = NULL;
  assert_int_equal(trn_config_set(root, "auth.tokens", "a.txt", NULL), TRN_OK);
  assert_int_equal(trn_config_set(root, "auth.jwt.issuer", "me", NULL), TRN_OK);
  assert_int_equal(trn_config_set_from(root, "plugins[]", "one.so", "--plugin", NULL), TRN_OK);
  assert_int_equal(trn_config_set_from(root, "plugins[]", "two.so", "--plugin", NULL), TRN_OK);
  assert_int_equal(trn_config_text(trn_config_get(root, "auth"), "tokens", &text, NULL), TRN_OK);
  assert_string_equal(text, "a.txt");
  assert_int_equal(trn_config_count(trn_config_get(root, "plugins")), 2);
  assert_string_equal(trn_config_value(trn_config_at(trn_config_get(root, "plugins"), 1)), "two.so");
  assert_string_equal(trn_config_origin(trn_config_at(trn_config_get(root, "plugins"), 1)), "--plugin");
  assert_string_equal(trn_config_key_at(root, 0), "auth");
  trn_error *error = NULL;
  trn_status status = trn_config_set(root, "auth", "x", &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "'auth'");
  error = NULL;
  status = trn_config_set(root, "auth.tokens.deep", "x", &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "'tokens'");
  error = NULL;
  status = trn_config_set(root, "auth..deep", "x", &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "path of keys");
  trn_config_destroy(root);
  trn_config_destroy(NULL);
}

static void a_later_text_goes_over_an_earlier_one_with_its_origin(void **state) {
  (void)state;
  trn_config *root = trn_config_create();
  const char *text = NULL;
  trn_error *error = NULL;
  int64_t number = 7;
  assert_int_equal(trn_config_add(root, "threads", TRN_CONFIG_TEXT, "2", "trunnion.yaml:3", NULL, NULL), TRN_OK);
  assert_int_equal(trn_config_add(root, "a.b", TRN_CONFIG_TEXT, "dots", "trunnion.yaml:4", NULL, NULL), TRN_OK);
  assert_int_equal(trn_config_set_from(root, "threads", "many", "--threads", NULL), TRN_OK);
  trn_status status = trn_config_number(root, "threads", 0, 10, &number, &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "--threads: threads: 'many' is not a number from 0 to 10");
  assert_int_equal(number, 7);
  assert_int_equal(trn_config_text(root, "a.b", &text, NULL), TRN_OK);
  assert_string_equal(text, "dots");
  error = NULL;
  status = trn_config_add(root, "a.b", TRN_CONFIG_TEXT, "again", "trunnion.yaml:9", NULL, &error);
  fails_with(status, TRN_ALREADY_EXISTS, error, "trunnion.yaml:9: 'a.b' is there twice, first at trunnion.yaml:4");
  trn_config_destroy(root);
}

static void typed_reads_take_units_and_keep_defaults(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t size, ms; /* < 0: refused */
  } cases[] = {{"0", 0, 0},
               {"12", 12, 12},
               {"3K", 3072, -1},
               {"2m", 2 << 20, 120000},
               {"1G", 1 << 30, -1},
               {"1GiB", 1 << 30, -1},
               {"500ms", -1, 500},
               {"2 s", -1, 2000},
               {"1h", -1, 3600000},
               {"-1", -1, -1},
               {"", -1, -1},
               {"9999999999999999999999", -1, -1},
               {"18446744073709551615K", -1, -1},
               {"1.5G", -1, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_config *root = trn_config_create();
    uint64_t size = 99, ms = 99;
    assert_int_equal(trn_config_set(root, "x", cases[i].text, NULL), TRN_OK);
    assert_int_equal(trn_config_size(root, "x", &size, NULL), cases[i].size < 0 ? TRN_INVALID_ARGUMENT : TRN_OK);
    assert_int_equal(trn_config_duration(root, "x", &ms, NULL), cases[i].ms < 0 ? TRN_INVALID_ARGUMENT : TRN_OK);
    assert_int_equal(size, cases[i].size < 0 ? 99 : cases[i].size);
    assert_int_equal(ms, cases[i].ms < 0 ? 99 : cases[i].ms);
    trn_config_destroy(root);
  }
  trn_config *root = trn_config_create();
  bool on = false;
  uint64_t size = 5;
  assert_int_equal(trn_config_set(root, "yes", "On", NULL), TRN_OK);
  assert_int_equal(trn_config_add(root, "none", TRN_CONFIG_NONE, NULL, "", NULL, NULL), TRN_OK);
  assert_int_equal(trn_config_bool(root, "yes", &on, NULL), TRN_OK);
  assert_true(on);
  assert_int_equal(trn_config_size(root, "none", &size, NULL), TRN_OK);
  assert_int_equal(trn_config_size(root, "absent", &size, NULL), TRN_OK);
  assert_int_equal(trn_config_size(NULL, "absent", &size, NULL), TRN_OK);
  assert_int_equal(size, 5);
  assert_int_equal(trn_config_bool(root, "yes", &on, NULL), TRN_OK);
  assert_int_equal(trn_config_set(root, "map.x", "1", NULL), TRN_OK);
  assert_int_equal(trn_config_bool(root, "map", &on, NULL), TRN_INVALID_ARGUMENT);
  trn_config_destroy(root);
}

static void unknown_keys_are_errors_with_the_nearest_name(void **state) {
  (void)state;
  static const char *const keys[] = {"listen", "threads", "memory", NULL};
  trn_config *root = trn_config_create();
  trn_error *error = NULL;
  assert_int_equal(trn_config_set_from(root, "server.lisen", "x", "f.yaml:2", NULL), TRN_OK);
  trn_status status = trn_config_check_keys(trn_config_get(root, "server"), keys, &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "f.yaml:2: unknown key 'lisen' in 'server'; did you mean 'listen'?");
  error = NULL;
  assert_int_equal(trn_config_set(root, "other.zzzzzzzzz", "x", NULL), TRN_OK);
  status = trn_config_check_keys(trn_config_get(root, "other"), keys, &error);
  fails_with(status, TRN_INVALID_ARGUMENT, error, "known are: listen, threads, memory");
  assert_int_equal(trn_config_check_keys(NULL, keys, NULL), TRN_OK);
  trn_config_destroy(root);
}

static void nesting_has_a_limit(void **state) {
  (void)state;
  trn_config *root = trn_config_create(), *node = root;
  trn_status status = TRN_OK;
  unsigned depth = 0;
  while (!(status = trn_config_add(node, "k", TRN_CONFIG_MAP, NULL, "f", &node, NULL))) depth++;
  assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  assert_true(depth > 10 && depth < TRN_CONFIG_DEPTH_MAX);
  trn_config_destroy(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_make_maps_and_append_to_lists),
      cmocka_unit_test(a_later_text_goes_over_an_earlier_one_with_its_origin),
      cmocka_unit_test(typed_reads_take_units_and_keep_defaults),
      cmocka_unit_test(unknown_keys_are_errors_with_the_nearest_name),
      cmocka_unit_test(nesting_has_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
