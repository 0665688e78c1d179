/* Texts of failed jobs, as errors. */
#include "support/layer_fixture.h"

#include "backend/ballista/backend.h"

static void assert_has(const char *text, const char *part) {
  if (!strstr(text, part)) print_error("'%s' is not in '%s'\n", part, text);
  assert_non_null(strstr(text, part));
}

static void an_error_of_a_function_keeps_its_condition(void **state) {
  (void)state;
  static const char *const texts[] = {
      /* 3 \n DIVIDE_BY_ZERO \n 4294967298 \n hex("by zero") \n hex("config") \n hex("ansi") \n */
      "Task failed: External(Failure: by zero [[trn:"
      "330a4449564944455f42595f5a45524f0a343239343936373239380a3632373932303761363537323666"
      "0a3633366636653636363936370a36313665373336390a]])",
      "disk full", "[[trn:zz]]"};
  for (int i = 0; i < 3; i++) {
    trn_error *error = NULL;
    const trn_error_param *params = NULL;
    trn_position position;
    trn_status status = trn__ballista_job_error("job-1", texts[i], &error);
    assert_int_equal(status, i ? TRN_INTERNAL : TRN_INVALID_ARGUMENT);
    if (i) assert_has(trn_error_message(error), texts[i]);
    if (i) assert_has(trn_error_message(error), "job-1");
    if (!i) {
      assert_string_equal(trn_error_condition(error), "DIVIDE_BY_ZERO");
      assert_string_equal(trn_error_message(error), "by zero");
      assert_int_equal(trn_error_params(error, &params), 1);
      assert_string_equal(params[0].key, "config");
      assert_string_equal(params[0].value, "ansi");
      assert_true(trn_error_position(error, &position));
      assert_int_equal(position.start, 1);
      assert_int_equal(position.stop, 2);
    }
    trn_error_unref(error);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_error_of_a_function_keeps_its_condition)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
