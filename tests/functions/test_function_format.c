/* Formats of text, numbers and times, AES, CSV, vectors, numbers by chance: results as real Spark 4.2 gives them. */
#include "harness.h"

static void run_all(const h_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) h_run(&rows[i]);
}
/* What Spark encrypts to; every byte stands alone, for hexadecimal escapes have no end. */
#define GCM_TEXT "z|abcdefghijkl""\x34" "\x27" "\x7b" "\xf8" "\x56" "\x84" "\x88" "\x19" "\xc9" "\x62" "\xfc" "\xa8" "\x14" "\x15" "\x71" "\x71" "\x75" "\xa5" "\x67" "\xfa" "\xc4"
#define CBC_TEXT "z|abcdefghijklmnop""\x3c" "\x86" "\xfd" "\xe8" "\x86" "\x66" "\x1a" "\x3e" "\x27" "\x4b" "\x1d" "\x6e" "\xde" "\xf2" "\x40" "\x64" "\x31" "\xd6" "\x82" "\x2e" "\x70" "\x01" "\x7a" "\x71" "\x1d" "\xa4" "\x9b" "\x9e" "\x61" "\xf1" "\x08" "\x09"
#define RUN(rows) run_all(rows, sizeof rows / sizeof rows[0])

static void format_string(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.format_string", "u|   42|ab   |03.14|ff", {"=u|%5d|%-5s|%05.2f|%x", "=i|42", "=u|ab", "=g|3.14159", "=i|255"}},
      {"trn.format_string", "u|1.01      2.500", {"=u|%.2f %10.3f", "=g|1.005", "=f|2.5"}},
      {"trn.format_string", "u|+5 (5)  5", {"=u|%+d %(d % d", "=i|5", "=i|-5", "=i|5"}},
      {"trn.format_string", "u|10 FF dff4c098", {"=u|%o %X %h", "=i|8", "=i|255", "=u|hi"}},
      {"trn.format_string", "u|0.000100000 1.23457E+07 0x1.0p0", {"=u|%g %G %a", "=g|0.0001", "=g|12345678.9", "=g|1"}},
      {"trn.format_string", "u|a a 3", {"=u|%1$s %1$s %2$d", "=u|a", "=l|3"}},
      {"trn.format_string", "u|1,234,567|1.234568e+04|true|%", {"=u|%,d|%e|%b|%%", "=i|1234567", "=g|12345.678", "=b|true"}},
      {"trn.format_string", "u|1.5 18262 null", {"=u|%s %s %s", "=d:2,1|1.5", "=D|2020-01-01", "=i|~"}},
      {"trn.format_string", "~", {"=u|~", "=i|1"}},
      {"trn.format_string", "!", {"=u|%d %s", "=i|1"}},
      {"trn.format_string", "!", {"=u|%d", "=g|1"}},
      {"trn.format_string", "!", {"=u|%q", "=i|1"}},
      {"trn.format_string", "!", {"=u|%9999999999d", "=i|1"}},
  };
  RUN(ROWS);
}

static void numbers(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.to_char", "u|12,454.8-", {"d:6,1|-12454.8", "=u|99G999D9S"}},
      {"trn.to_char", "u|  5-", {"d:1,0|-5", "=u|999MI"}},
      {"trn.to_char", "u|   5", {"d:1,0|5", "=u|MI999"}},
      {"trn.to_char", "u|  <5>", {"d:1,0|-5", "=u|999PR"}},
      {"trn.to_char", "u|  5  ", {"d:1,0|5", "=u|999PR"}},
      {"trn.to_char", "u|## ###", {"d:7,0|1234567", "=u|99,999"}},
      {"trn.to_char", "u|#.##", {"d:4,3|1.239", "=u|9.99"}},
      {"trn.to_char", "u|  0.50", {"d:2,1|0.5", "=u|999.99"}},
      {"trn.to_char", "u|  -.5", {"d:2,1|-0.5", "=u|S99.9"}},
      {"trn.to_char", "u|0,001,234", {"d:4,0|1234", "=u|0,000,000"}},
      {"trn.to_char", "u|$   12.0", {"d:2,0|12", "=u|$9,999.9"}},
      {"trn.to_number", "d:6,1|-12454.8", {"u|12,454.8-", "=u|99,999.9S"}},
      {"trn.to_number", "d:4,2|78.12", {"u|$78.12", "=u|$99.99"}},
      {"trn.to_number", "d:1,0|-5", {"u|<5>", "=u|9PR"}},
      {"trn.to_number", "!INVALID_FORMAT.MISMATCH_INPUT", {"=u|<5", "=u|9PR"}},
      {"trn.to_number", "!INVALID_FORMAT.MISMATCH_INPUT", {"=u|45", "=u|000"}},
      {"trn.to_number", "!INVALID_FORMAT.MISMATCH_INPUT", {"=u|12454", "=u|99,999"}},
      {"trn.to_number", "!INVALID_FORMAT.MISMATCH_INPUT", {"=u|1,2,3,4", "=u|9,9,9"}},
      {"trn.to_number_try", "~", {"u|abc", "=u|9"}},
      {"trn.format_number", "u|-1,234.57", {"g|-1234.567", "=i|2", "=i|2", "=i|1", "=i|3"}},
      {"trn.format_number", "u|12332.123", {"g|12332.123456", "=i|3", "=i|0", "=i|1", "=i|0"}},
      {"trn.format_number", "u|2", {"g|2.5", "=i|0", "=i|0", "=i|1", "=i|0"}},
      {"trn.format_number", "u|12,332.1235", {"g|12332.123456", "i|4"}},
  };
  RUN(ROWS);
}

static void crypt(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.aes_encrypt", "z|b00f6ff4bf69f8a482ddf536cdfb0449",
       {"=z|Spark SQL", "=z|0000111122223333", "=u|ECB", "=u|DEFAULT", "=z|", "=z|"}},
      {"trn.aes_decrypt", "z|537061726b",
       {GCM_TEXT, "=z|000011112222333344445555", "=u|gcm", "=u|default", "=z|some aad"}},
      {"trn.aes_decrypt", "z|30313233343536373839616263646566",
       {CBC_TEXT, "=z|00001111222233330000111122223333", "=u|CBC", "=u|PKCS", "=z|"}},
      {"trn.aes_decrypt", "!INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR|detailMessage=Tag mismatch",
       {GCM_TEXT, "=z|000011112222333344445555", "=u|gcm", "=u|default", "=z|other aad"}},
      {"trn.aes_decrypt", "!INVALID_PARAMETER_VALUE.AES_KEY_LENGTH", {"=z|x", "=z|abc", "=u|GCM", "=u|DEFAULT", "=z|"}},
      {"trn.aes_decrypt", "!INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR|detailMessage=Invalid buffer arguments",
       {"=z|x", "=z|0000111122223333", "=u|GCM", "=u|DEFAULT", "=z|"}},
      {"trn.aes_decrypt", "!UNSUPPORTED_FEATURE.AES_MODE",
       {"=z|x", "=z|0000111122223333", "=u|FOO", "=u|DEFAULT", "=z|"}},
      {"trn.aes_decrypt_try", "~", {"z|sixteen bytes...", "=z|0000111122223333", "=u|ECB", "=u|DEFAULT", "=z|"}},
  };
  RUN(ROWS);
}

static void csv(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.csv_field", "u|a,b", {"u|\"a,b\",c", "=i|0", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "u|c", {"u|\"a,b\",c", "=i|1", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "~", {"u|\"a,b\",c", "=i|2", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "~", {"u|a,,c", "=i|1", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "u|a\"b", {"u|\"a\\\"b\"", "=i|0", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "u|\"a\"\"b\"", {"u|\"a\"\"b\",x", "=i|0", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_field", "u|y", {"u|x||y", "=i|1", "=u|||", "=u|\"", "=u|\\"}},
      {"trn.csv_quote", "u|\"x,y\"", {"u|x,y", "=u|,", "=b|false"}},
      {"trn.csv_quote", "u|\"q\\\"r\"", {"u|q\"r", "=u|,", "=b|false"}},
      {"trn.csv_quote", "u|s", {"u| s ", "=u|,", "=b|false"}},
      {"trn.csv_quote", "u|\"\"", {"u|", "=u|,", "=b|false"}},
      {"trn.schema_of_json", "u|ARRAY<STRUCT<a: BIGINT, b: STRING>>", {"u|[{\"a\":1},{\"b\":\"x\",\"a\":null}]"}},
      {"trn.schema_of_json", "u|STRUCT<d: ARRAY<STRING>, g: DECIMAL(20,0)>",
       {"u|{\"g\":12345678901234567890,\"d\":[1,\"x\"]}"}},
      {"trn.schema_of_json", "u|ARRAY<DOUBLE>", {"u|[1,2.5]"}},
      {"trn.schema_of_json", "u|STRUCT<a: STRING>", {"u|{\"a\":1}", "=b|true"}},
      {"trn.schema_of_json", "!MALFORMED_RECORD_IN_PARSING", {"=u|{\"a"}},
      {"trn.json_field", "u|[1,2]", {"u|{\"a\":1,\"b\":[1, 2]}", "u|b"}},
      {"trn.json_field", "~", {"u|bad", "u|b"}},
  };
  RUN(ROWS);
}

static void texts(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.to_binary_hex", "z|0abc", {"u|abc"}},
      {"trn.to_binary_hex", "!CONVERSION_INVALID_INPUT|fmt='HEX'", {"=u|zz"}},
      {"trn.to_binary_base64", "z|537061726b", {"u|U3Bhcms="}},
      {"trn.to_binary_base64_try", "~", {"u|a!"}},
      {"trn.lpad_binary", "z|3132316162", {"z|ab", "=i|5", "=z|12"}},
      {"trn.rpad_binary", "z|6162313231", {"z|ab", "=i|5", "=z|12"}},
      {"trn.rpad_binary", "z|6162", {"z|ab", "=i|4", "=z|"}},
      {"trn.reverse_binary", "z|6362c3", {"z|\xc3" "bc"}},
      {"trn.to_time", "t|43805000000000", {"u|12.10.05", "=u|HH.mm.ss"}},
      {"trn.to_time_try", "~", {"u|foo", "=u|HH:mm:ss"}},
      {"trn.to_time", "!CANNOT_PARSE_TIME|input='foo'", {"=u|foo", "=u|HH:mm:ss"}},
  };
  RUN(ROWS);
}

static void times(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.time_bucket", "T|2024-01-01 11:15:00", {"=I|900000000", "T|2024-01-01 11:27:00", "=T|1970-01-01", "=u|UTC"}},
      {"trn.time_bucket", "T|2024-07-15 09:00:00", {"=Y|1", "T|2024-07-20 14:30:00", "=T|2024-06-15 09:00:00", "=u|UTC"}},
      {"trn.time_bucket", "T|2024-02-29 09:00:00", {"=Y|1", "T|2024-03-30 14:30:00", "=T|2024-01-31 09:00:00", "=u|UTC"}},
      {"trn.sequence_time", "!", {"=D|2018-01-01", "=D|2018-01-03", "=I|3600000000", "=u|UTC"}},
      {"trn.sequence_time", "!", {"=D|2018-01-01", "=D|2018-01-03", "=I|-86400000000", "=u|UTC"}},
  };
  RUN(ROWS);
}

static void chance(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.rand", "g|0.7604953758285915", {"=l|0", "=l|0"}},
      {"trn.rand", "g|0.7298503424273113", {"=l|3", "l|3"}},
      {"trn.rand", "g|0.11490071667933077", {"=l|3", "l|4"}},
      {"trn.randn", "g|1.6034991609278433", {"=l|0", "l|0"}},
      {"trn.randstr", "u|aR2", {"=i|3", "=l|0", "l|2"}},
      {"trn.random_uuid", "u|2a52c3b8-890f-4aae-9607-3331ab0d4f01", {"=l|0", "l|1"}},
      {"trn.bitmap_bit_position", "l|1", {"l|-1"}},
      {"trn.bitmap_bucket_number", "l|-1", {"l|-32768"}},
      {"trn.bitmap_count", "l|9", {"z|\xff\x01"}},
  };
  /* A null row number is none: these run as scalars and as columns without nulls. */
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
    char format[64], shown[4][256];
    int64_t length;
    h_error e;
    size_t count = 0;
    while (ROWS[i].args[count]) count++;
    trn_status status = h_call(ROWS[i].name, ROWS[i].args, count, 1, true, false, format, shown, &length, &e);
    h_expect(&ROWS[i], "as scalars", status, format, shown[0], &e);
    status = h_call(ROWS[i].name, ROWS[i].args, count, 2, false, false, format, shown, &length, &e);
    h_expect(&ROWS[i], "as a column", status, format, shown[0], &e);
    h_expect(&ROWS[i], "as a column", status, format, shown[length - 1], &e);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(format_string), cmocka_unit_test(numbers), cmocka_unit_test(crypt),
                                     cmocka_unit_test(csv),           cmocka_unit_test(texts),   cmocka_unit_test(times),
                                     cmocka_unit_test(chance)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
