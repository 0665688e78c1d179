/* Arithmetic against Spark's rules: result types, rounding, overflow by mode, errors with their parameters. */
#include "functions/harness.h"

static void integers_are_checked(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.add", "i|3", {"i|1", "i|2", H_POS}},
      {"trn.add",
       "!ARITHMETIC_OVERFLOW|message=integer overflow;alternative= Use 'try_add' to tolerate overflow and return NULL "
       "instead.;config=\"spark.sql.ansi.enabled\";",
       {"i|2147483647", "i|1", H_POS}},
      {"trn.add", "!ARITHMETIC_OVERFLOW|message=long overflow", {"l|9223372036854775807", "l|1", H_POS}},
      {"trn.add",
       "!BINARY_ARITHMETIC_OVERFLOW|value1=127S;symbol=+;value2=1S;functionName=`try_add`;",
       {"c|127", "c|1", H_POS}},
      {"trn.add", "s|-32768", {"s|-32767", "s|-1", H_POS}},
      {"trn.add_try", "~", {"i|2147483647", "i|1"}},
      {"trn.add_wrap", "i|-2147483648", {"i|2147483647", "i|1"}},
      {"trn.add_wrap", "c|-128", {"c|127", "c|1"}},
      {"trn.subtract", "!ARITHMETIC_OVERFLOW", {"l|-9223372036854775808", "l|1", H_POS}},
      {"trn.subtract_try", "~", {"i|-2147483648", "i|1"}},
      {"trn.multiply", "l|-6", {"l|2", "l|-3", H_POS}},
      {"trn.multiply", "!ARITHMETIC_OVERFLOW|Use 'try_multiply'", {"i|-2147483648", "i|10", H_POS}},
      {"trn.multiply_try", "~", {"l|4611686018427387904", "l|2"}},
      {"trn.multiply_wrap", "l|-9223372036854775808", {"l|4611686018427387904", "l|2"}},
      {"trn.int_divide", "l|1", {"i|3", "i|2", H_POS}},
      {"trn.int_divide", "!DIVIDE_BY_ZERO|config=", {"i|3", "i|0", H_POS}},
      {"trn.int_divide",
       "!ARITHMETIC_OVERFLOW|message=Overflow in integral divide",
       {"l|-9223372036854775808", "l|-1", H_POS}},
      {"trn.int_divide_wrap", "l|-9223372036854775808", {"l|-9223372036854775808", "l|-1"}},
      {"trn.int_divide_try", "~", {"i|3", "i|0"}},
      {"trn.remainder", "i|0", {"i|-2147483648", "i|-1", H_POS}},
      {"trn.remainder", "i|-1", {"i|-7", "i|3", H_POS}},
      {"trn.remainder", "!REMAINDER_BY_ZERO", {"i|1", "i|0", H_POS}},
      {"trn.remainder_try", "~", {"i|1", "i|0"}},
      {"trn.pmod", "i|1", {"i|10", "i|3", H_POS}},
      {"trn.pmod", "i|2", {"i|-10", "i|3", H_POS}},
      {"trn.pmod", "i|-1", {"i|-10", "i|-3", H_POS}},
      {"trn.negate", "!ARITHMETIC_OVERFLOW|alternative=;", {"i|-2147483648", H_POS}},
      {"trn.negate_wrap", "i|-2147483648", {"i|-2147483648"}},
      {"trn.abs", "c|5", {"c|-5", H_POS}},
      {"trn.abs_try", "~", {"l|-9223372036854775808"}},
      {"trn.add", "~", {"i|~", "i|2147483647", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void doubles_follow_ieee_but_not_by_zero(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.add", "g|0.30000000000000004", {"g|0.1", "g|0.2", H_POS}},
      {"trn.multiply", "f|6", {"f|2", "f|3", H_POS}},
      {"trn.divide", "g|1.5", {"g|3", "g|2", H_POS}},
      {"trn.divide", "!DIVIDE_BY_ZERO", {"g|3", "g|0", H_POS}},
      {"trn.divide_try", "~", {"g|3", "g|-0.0"}},
      {"trn.divide_wrap", "~", {"g|3", "g|0"}},
      {"trn.remainder", "g|0.5", {"g|2.5", "g|2", H_POS}},
      {"trn.pmod", "g|1.5", {"g|-0.5", "g|2", H_POS}},
      {"trn.negate", "g|-0", {"g|0", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void decimals_have_sparks_types_and_rounding(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.add", "d:16,2|0.96", {"d:15,2|1.00", "d:15,2|-0.04", H_POS}},
      {"trn.subtract", "d:16,2|0.96", {"d:15,2|1.00", "d:15,2|0.04", H_POS}},
      {"trn.subtract", "d:7,3|-0.767", {"d:5,2|1.23", "d:6,3|1.997", H_POS}},
      {"trn.multiply", "d:32,4|-9.6000", {"d:15,2|-10.00", "d:16,2|0.96", H_POS}},
      {"trn.multiply",
       "d:38,6|12345678901234567890.123457",
       {"d:38,10|12345678901234567890.1234567891", "d:38,10|1.0000000000", H_POS}},
      {"trn.multiply",
       "!NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION|precision=38;scale=0;config=\"spark.sql.ansi.enabled\";value="
       "10000000000000000000000000000000000000000",
       {"d:38,0|10000000000000000000000000000000000000", "d:4,0|1000", H_POS}},
      {"trn.multiply_try", "~", {"d:38,0|10000000000000000000000000000000000000", "d:4,0|1000"}},
      {"trn.multiply_wrap", "~", {"d:38,0|10000000000000000000000000000000000000", "d:4,0|1000"}},
      {"trn.divide", "d:21,13|0.3333333333333", {"d:10,2|1.00", "d:10,0|3", H_POS}},
      {"trn.divide", "d:21,13|-0.6666666666667", {"d:10,2|-2.00", "d:10,0|3", H_POS}},
      {"trn.divide", "d:8,6|0.666667", {"d:2,1|2.0", "d:2,1|3.0", H_POS}},
      {"trn.divide", "!DIVIDE_BY_ZERO", {"d:2,1|2.0", "d:2,1|0.0", H_POS}},
      {"trn.divide_wrap", "~", {"d:2,1|2.0", "d:2,1|0.0"}},
      {"trn.divide", "d:38,6|33333333333333333333.333333", {"d:38,2|100000000000000000000.00", "d:20,0|3", H_POS}},
      {"trn.add",
       "d:38,8|24691357802469135780.24691358",
       {"d:38,9|12345678901234567890.123456789", "d:38,9|12345678901234567890.123456789", H_POS}},
      {"trn.add",
       "!NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION|value=100000000000000000000000000000000000000",
       {"d:38,0|99999999999999999999999999999999999999", "d:38,0|1", H_POS}},
      {"trn.add_try", "~", {"d:38,0|99999999999999999999999999999999999999", "d:38,0|1"}},
      {"trn.add",
       "d:38,17|10000000000000000000.10000000000000000",
       {"d:38,18|10000000000000000000.000000000000000000", "d:2,1|0.1", H_POS}},
      {"trn.remainder", "d:2,1|0.2", {"d:1,0|2", "d:2,1|1.8", H_POS}},
      {"trn.remainder", "!REMAINDER_BY_ZERO", {"d:1,0|2", "d:2,1|0.0", H_POS}},
      {"trn.pmod", "d:2,1|1.6", {"d:2,1|-2.0", "d:2,1|1.8", H_POS}},
      {"trn.int_divide", "l|-3", {"d:3,1|-7.5", "d:2,1|2.1", H_POS}},
      {"trn.negate", "d:5,2|1.23", {"d:5,2|-1.23", H_POS}},
      {"trn.abs",
       "d:38,0|99999999999999999999999999999999999999",
       {"d:38,0|-99999999999999999999999999999999999999", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void rounding_keeps_sparks_types(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.round", "d:2,0|3", {"d:2,1|2.5", "=i|0", H_POS}},
      {"trn.bround", "d:2,0|2", {"d:2,1|2.5", "=i|0", H_POS}},
      {"trn.bround", "i|20", {"i|25", "=i|-1", H_POS}},
      {"trn.round", "i|30", {"i|25", "=i|-1", H_POS}},
      {"trn.round", "!ARITHMETIC_OVERFLOW", {"i|2147483647", "=i|-1", H_POS}},
      {"trn.round", "d:5,2|-100.00", {"d:5,3|-99.995", "=i|2", H_POS}},
      {"trn.round", "d:4,0|200", {"d:5,2|150.00", "=i|-2", H_POS}},
      {"trn.round", "g|2.68", {"g|2.675", "=i|2", H_POS}}, /* by its decimal text, not its binary value */
      {"trn.round", "g|-3", {"g|-2.5", "=i|0", H_POS}},
      {"trn.round", "g|1e+300", {"g|1e300", "=i|2", H_POS}},
      {"trn.ceil", "d:1,0|0", {"d:1,1|-0.1", H_POS}},
      {"trn.ceil", "d:5,3|3.142", {"d:5,4|3.1411", "=i|3", H_POS}},
      {"trn.ceil", "d:4,0|1000", {"d:5,4|3.1411", "=i|-3", H_POS}},
      {"trn.ceil", "l|5", {"i|5", H_POS}},
      {"trn.ceil", "l|-1", {"g|-1.5", H_POS}},
      {"trn.floor", "d:1,0|-1", {"d:1,1|-0.1", H_POS}},
      {"trn.floor", "d:4,0|0", {"d:5,4|3.1411", "=i|-3", H_POS}},
      {"trn.floor", "l|-2", {"g|-1.5", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void intervals_overflow_by_mode(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.interval_add", "Y|14", {"Y|12", "Y|2", H_POS}},
      {"trn.interval_add",
       "!INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION|functionName=`try_add`",
       {"Y|2147483647", "Y|2", H_POS}},
      {"trn.interval_subtract", "I|-5", {"I|5", "I|10", H_POS}},
      {"trn.interval_negate", "I|-5", {"I|5", H_POS}},
      {"trn.multiply_interval", "Y|3", {"Y|2", "g|1.5", H_POS}},
      {"trn.multiply_interval", "I|15", {"I|10", "d:2,1|1.5", H_POS}},
      {"trn.divide_interval", "Y|-2", {"Y|-3", "i|2", H_POS}},
      {"trn.divide_interval", "!INTERVAL_DIVIDED_BY_ZERO", {"I|10", "i|0", H_POS}},
      {"trn.divide_interval_try", "~", {"I|10", "i|0"}},
  };
  H_RUN_ALL(ROWS);
}

static void errors_carry_the_position(void **state) {
  (void)state;
  const char *args[] = {"i|1", "i|0", H_POS};
  char format[64], shown[2][256];
  int64_t length;
  h_error e;
  assert_int_equal(h_call("trn.int_divide", args, 3, 1, true, false, format, shown, &length, &e), TRN_INVALID_ARGUMENT);
  assert_int_equal(e.position, (3ll << 32) | 9);
}

static void wrong_types_are_refused_in_bind(void **state) {
  (void)state;
  const char *args[] = {"i|1", "l|0", H_POS};
  char format[64], shown[2][256];
  int64_t length;
  h_error e;
  assert_int_equal(h_call("trn.add", args, 3, 1, true, false, format, shown, &length, &e), TRN_INVALID_ARGUMENT);
  assert_string_equal(e.condition, "");
  assert_int_equal(h_call("trn.add", args, 1, 1, true, false, format, shown, &length, &e), TRN_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_are_checked),
      cmocka_unit_test(doubles_follow_ieee_but_not_by_zero),
      cmocka_unit_test(decimals_have_sparks_types_and_rounding),
      cmocka_unit_test(rounding_keeps_sparks_types),
      cmocka_unit_test(intervals_overflow_by_mode),
      cmocka_unit_test(errors_carry_the_position),
      cmocka_unit_test(wrong_types_are_refused_in_bind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
