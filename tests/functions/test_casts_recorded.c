/* Every cast that was recorded from real Spark (tests/data/spark/casts.jsonl, zone America/Los_Angeles): the value as
 * text, or the condition. What analysis refuses (DATATYPE_MISMATCH) is the translator's and not run here. */
#include "functions/harness.h"

#define ZONE "=u|America/Los_Angeles"
typedef struct source {
  const char *sql, *arg;
  uint8_t start, end; /* of intervals */
} source;

/* Literals of the recording as arguments; date, timestamp and text literals are read from the SQL itself. */
static const source SOURCES[] = {
    {"true", "b|true"},
    {"false", "b|false"},
    {"cast(127 as tinyint)", "c|127"},
    {"cast(-128 as tinyint)", "c|-128"},
    {"cast(32767 as smallint)", "s|32767"},
    {"0", "i|0"},
    {"-1", "i|-1"},
    {"2147483647", "i|2147483647"},
    {"-2147483648", "i|-2147483648"},
    {"9223372036854775807L", "l|9223372036854775807"},
    {"cast('NaN' as double)", "g|nan"},
    {"cast('Infinity' as double)", "g|inf"},
    {"1.0D", "g|1"},
    {"1e10D", "g|1e10"},
    {"1.5e-7D", "g|1.5e-7"},
    {"123456789.125D", "g|123456789.125"},
    {"-0.0D", "g|-0.0"},
    {"cast(3.4028235e38 as float)", "f|3.4028235e38"},
    {"cast(0.1 as float)", "f|0.1"},
    {"cast(16777216 as float)", "f|16777216"},
    {"1.23", "d:3,2|1.23"},
    {"-99.995", "d:5,3|-99.995"},
    {"cast('12345678901234567890.123456789' as decimal(38,9))", "d:38,9|12345678901234567890.123456789"},
    {"x''", "z|"},
    {"x'6869'", "z|hi"},
    {"null", "n|~"},
    {"time'23:59:59.999'", "t|86399999000000"},
    {"interval '3 04:05:06.789' day to second", "I|273906789000", 0, 3},
    {"interval '-0 00:00:01' day to second", "I|-1000000", 0, 3},
    {"interval '1-11' year to month", "Y|23", 0, 1},
    {"interval '5' month", "Y|5", 1, 1},
    {"interval 100 second", "I|100000000", 3, 3},
    {"array(1, null, 3)", "Li|1,~,3"},
    {"array('a','b')", "Lu|a,b"},
};
typedef struct target {
  const char *sql, *type;
  uint8_t start, end; /* of intervals; of TIME the precision */
} target;
static const target TARGETS[] = {
    {"boolean", "b"},
    {"tinyint", "c"},
    {"smallint", "s"},
    {"int", "i"},
    {"bigint", "l"},
    {"float", "f"},
    {"double", "g"},
    {"decimal(10,2)", "d:10,2"},
    {"decimal(38,0)", "d:38,0"},
    {"string", "u"},
    {"binary", "z"},
    {"date", "D"},
    {"timestamp", "T"},
    {"timestamp_ntz", "N"},
    {"interval day to second", "I", 0, 3},
    {"interval hour", "I", 1, 1},
    {"interval year to month", "Y", 0, 1},
    {"array<string>", "Lu"},
    {"time(3)", "t", 3, 0},
    {"varchar(3)", "u"},
    {"char(5)", "u"}, /* lengths are another function's */
};

/* The JSON text after "key": ", unescaped; false: no such key. */
static bool json_text(const char *line, const char *key, char *out, size_t size) {
  char pattern[32];
  snprintf(pattern, sizeof pattern, "\"%s\": \"", key);
  const char *at = strstr(line, pattern);
  if (!at) return false;
  size_t used = 0;
  for (at += strlen(pattern); *at && *at != '"' && used + 4 < size; at++) {
    unsigned code = (unsigned char)*at;
    if (*at == '\\' && at[1] == 'u') {
      sscanf(at + 2, "%4x", &code);
      at += 5;
      if (code >= 0x80) { /* only U+FFFD is in the recording */
        used += (size_t)snprintf(out + used, size - used, "\xef\xbf\xbd");
        continue;
      }
    } else if (*at == '\\') {
      code = (unsigned char)*++at;
      code = code == 'n' ? '\n' : code == 't' ? '\t' : code;
    }
    out[used++] = (char)code;
  }
  out[used] = 0;
  return true;
}

static const target *find_target(const char *sql) {
  for (size_t i = 0; i < sizeof TARGETS / sizeof TARGETS[0]; i++)
    if (strcmp(TARGETS[i].sql, sql) == 0) return &TARGETS[i];
  fail_msg("unknown target %s", sql);
  return NULL;
}

/* A typed literal such as date'1970-01-01', by the library's own cast of its text. */
static void read_typed(const char *sql, const char *type, char *arg, size_t size) {
  char format[64], shown[2][256], text[128], null[16];
  int64_t length;
  h_error e;
  snprintf(text, sizeof text, "u|%.*s", (int)(strrchr(sql, '\'') - strchr(sql, '\'') - 1), strchr(sql, '\'') + 1);
  snprintf(null, sizeof null, "=%s|~", type);
  const char *args[] = {text, null, ZONE, "=l|-1"};
  assert_int_equal(h_call("trn.cast", args, 4, 1, true, false, format, shown, &length, &e), TRN_OK);
  snprintf(arg, size, "%s|%s", type, shown[0]);
}

static bool find_source(const char *sql, char *arg, size_t size, source *out) {
  *out = (source){sql, arg, 0, 3};
  for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++)
    if (strcmp(SOURCES[i].sql, sql) == 0) {
      *out = SOURCES[i];
      out->end = out->end || out->start ? out->end : 3;
      return true;
    }
  if (sql[0] == '\'')
    snprintf(arg, size, "u|%.*s", (int)strlen(sql) - 2, sql + 1);
  else if (strncmp(sql, "date'", 5) == 0)
    read_typed(sql, "D", arg, size);
  else if (strncmp(sql, "timestamp'", 10) == 0)
    read_typed(sql, "T", arg, size);
  else if (strncmp(sql, "timestamp_ntz'", 14) == 0)
    read_typed(sql, "N", arg, size);
  else
    return false; /* maps and structs: test_nested.c; x'ff00': below */
  return true;
}

/* The recording's day, for a time of day cast to a timestamp. */
static bool is_todays(const char *sql, const target *to) {
  return strcmp(sql, "'12:34:56'") == 0 && strcmp(to->type, "T") == 0;
}

static void check(const char *line, int number, int *run) {
  char expr[256], sql[256], to_sql[64], wanted[256], condition[128], arg[512], null[32], fields[32], second[512],
      null_text[] = "=u|~";
  char format[64], shown[2][256], hex[256];
  int64_t length;
  h_error e;
  source from;
  assert_true(json_text(line, "expr", expr, sizeof expr));
  bool is_error = json_text(line, "error", condition, sizeof condition),
       is_null = !json_text(line, "string", wanted, sizeof wanted);
  if (is_error && strncmp(condition, "DATATYPE_MISMATCH", 17) == 0) return;
  bool is_try = strncmp(expr, "try_", 4) == 0;
  char *body = expr + (is_try ? 9 : 5), *as = NULL;
  for (char *at = strstr(body, " as "); at; at = strstr(at + 1, " as ")) as = at;
  snprintf(sql, sizeof sql, "%.*s", (int)(as - body), body);
  snprintf(to_sql, sizeof to_sql, "%.*s", (int)strlen(as + 4) - 1, as + 4);
  const target *to = find_target(to_sql);
  if (!find_source(sql, arg, sizeof arg, &from)) return;
  ++*run;
  snprintf(null, sizeof null, "=%s|~", to->type);
  snprintf(fields, sizeof fields, "=i|%d",
           from.start | from.end << 4 | to->start << 8 | (to->end || to->start ? to->end : 3) << 12);
  const char *args[] = {from.arg, null, ZONE, fields, "=l|-1"};
  trn_status status = h_call(is_try ? "trn.cast_fields_try" : "trn.cast_fields", args, is_try ? 4 : 5, 1, true, false,
                             format, shown, &length, &e);
  if (is_error) {
    if (status == TRN_OK || strcmp(e.condition, condition) != 0)
      fail_msg("line %d: %s gives %s, not %s", number, expr, status == TRN_OK ? shown[0] : e.condition, condition);
    return;
  }
  if (status != TRN_OK) fail_msg("line %d: %s fails with %s", number, expr, e.condition);
  if (is_null || strcmp(shown[0], "~") == 0) {
    if (!is_null || strcmp(shown[0], "~") != 0)
      fail_msg("line %d: %s gives %s, not %s", number, expr, shown[0], is_null ? "null" : wanted);
    return;
  }
  if (strcmp(to->type, "z") == 0) {
    for (size_t i = 0; i <= strlen(shown[0]); i++) hex[i] = shown[0][i] >= 'a' ? (char)(shown[0][i] - 32) : shown[0][i];
  } else if (strcmp(to->type, "Lu") == 0) { /* shown without Spark's blanks */
    snprintf(hex, sizeof hex, "%s",
             strcmp(shown[0], "[a,b]") == 0     ? "[a, b]"
             : strcmp(shown[0], "[1,~,3]") == 0 ? "[1, null, 3]"
                                                : shown[0]);
  } else if (strcmp(to->type, "D") == 0 || strcmp(to->type, "u") == 0) {
    snprintf(hex, sizeof hex, "%s", shown[0]);
  } else { /* as Spark prints it: cast to string, the target's fields as the source's */
    char raw[300];
    snprintf(raw, sizeof raw, "%s|%s", to->type, shown[0]);
    snprintf(second, sizeof second, "%s", raw);
    snprintf(fields, sizeof fields, "=i|%d", to->start | (to->end || to->start ? to->end : 3) << 4);
    const char *again[] = {second, null_text, ZONE, fields, "=l|-1"};
    assert_int_equal(h_call("trn.cast_fields", again, 5, 1, true, false, format, shown, &length, &e), TRN_OK);
    snprintf(hex, sizeof hex, "%s", shown[0]);
  }
  if (is_todays(sql, to)) memcpy(hex, wanted, 10);
  if (strcmp(hex, wanted) != 0) fail_msg("line %d: %s gives %s, not %s", number, expr, hex, wanted);
}

static void casts_are_as_recorded(void **state) {
  (void)state;
  FILE *file = fopen(TRUNNION_TEST_DATA "/spark/casts.jsonl", "r");
  char line[2048];
  int number = 0, run = 0;
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) check(line, ++number, &run);
  fclose(file);
  assert_int_equal(number, 2688);
  assert_true(run > 1700);
}

static void casts_of_arrays_are_as_of_scalars(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.cast", "l|12", {"u| 12 ", "=l|~", ZONE, H_POS}},
      {"trn.cast",
       "!CAST_INVALID_INPUT|sourceType=\"STRING\";targetType=\"INT\";ansiConfig=\"spark.sql.ansi.enabled\";expression='"
       "abc';",
       {"u|abc", "=i|~", ZONE, H_POS}},
      {"trn.cast", "!CAST_INVALID_INPUT|expression='it\\'s';", {"u|it's", "=i|~", ZONE, H_POS}},
      {"trn.cast",
       "!CAST_OVERFLOW|sourceType=\"BIGINT\";targetType=\"INT\";ansiConfig=\"spark.sql.ansi.enabled\";value="
       "2147483648L;",
       {"l|2147483648", "=i|~", ZONE, H_POS}},
      {"trn.cast", "!CAST_OVERFLOW|value=1.0E10D;", {"g|1e10", "=i|~", ZONE, H_POS}},
      {"trn.cast",
       "!NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION|precision=10;scale=2;config=\"spark.sql.ansi.enabled\";value="
       "2147483647;",
       {"i|2147483647", "=d:10,2|~", ZONE, H_POS}},
      {"trn.cast",
       "!NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION|value=10000000000;",
       {"g|1e10", "=d:10,2|~", ZONE, H_POS}},
      {"trn.cast_try", "i|~", {"u|abc", "=i|~", ZONE}},
      {"trn.cast_legacy", "c|44", {"i|300", "=c|~", ZONE}},
      {"trn.cast_legacy", "i|1", {"u|1.9", "=i|~", ZONE}},
      {"trn.cast_legacy", "i|2147483647", {"g|1e10", "=i|~", ZONE}},
      {"trn.cast_legacy", "d:3,1|~", {"u|123.4", "=d:3,1|~", ZONE}},
      {"trn.cast", "d:16,2|42.00", {"i|42", "=d:16,2|~", ZONE, H_POS}},
      {"trn.cast", "d:38,9|1.000000000", {"d:3,2|1.00", "=d:38,9|~", ZONE, H_POS}},
      {"trn.cast", "d:3,1|1.3", {"d:3,2|1.25", "=d:3,1|~", ZONE, H_POS}},
      {"trn.cast", "g|0.1", {"d:3,2|0.10", "=g|~", ZONE, H_POS}},
      {"trn.cast", "u|[1, null, 3]", {"Li|1,~,3", "=u|~", ZONE, H_POS}},
      {"trn.cast", "[1,~,3]", {"Lu|1,~,3", "=Ll|~", ZONE, H_POS}},
      {"trn.cast", "!CAST_INVALID_INPUT", {"Lu|1,x", "=Ll|~", ZONE, H_POS}},
      {"trn.cast", "u|1.0E10", {"g|1e10", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|0.001", {"g|0.001", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|9.999E-4", {"g|0.0009999", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|4.9E-324", {"g|4.9e-324", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|1.7976931348623157E308", {"g|1.7976931348623157e308", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|1.4E-45", {"f|1.4e-45", "=u|~", ZONE, H_POS}},
      {"trn.cast", "u|2.2250738585072014E-308", {"g|2.2250738585072014e-308", "=u|~", ZONE, H_POS}},
      {"trn.cast", "g|2.2250738585072014e-308", {"u|2.2250738585072014E-308", "=g|~", ZONE, H_POS}},
      {"trn.cast", "T|1883-11-18 20:07:02", {"u|1883-11-18 12:07:02", "=T|~", ZONE, H_POS}},
      {"trn.cast", "T|1883-11-18 19:52:57", {"u|1883-11-18 11:59:59", "=T|~", ZONE, H_POS}}, /* local mean time */
      {"trn.cast", "T|2020-11-01 08:30:00", {"u|2020-11-01 01:30:00", "=T|~", ZONE, H_POS}}, /* the earlier of two */
      {"trn.cast", "T|2020-03-08 10:30:00", {"u|2020-03-08 02:30:00", "=T|~", ZONE, H_POS}}, /* in the gap */
      {"trn.cast", "T|2120-07-01 07:00:00", {"u|2120-07-01", "=T|~", ZONE, H_POS}}, /* by the rule after the table */
      {"trn.cast", "!INVALID_TIMEZONE|timeZone=Mars/Base", {"u|2020-07-01", "=T|~", "=u|Mars/Base", H_POS}},
      {"trn.cast", "!INVALID_TIMEZONE", {"u|2020-07-01", "=T|~", "=u|../../etc/passwd", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(casts_are_as_recorded),
                                     cmocka_unit_test(casts_of_arrays_are_as_of_scalars)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
