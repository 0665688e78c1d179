/* Plans as SQL text: every kind of relation and expression, run by SQLite where it has a form there, refused by name where it
 * has none; the dialects that are tables of traits. What DuckDB and PostgreSQL answer: tests/program/test_embed_sqlite.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "plan/plan.h"
#include <trunnion/sql.h>

/* ---- building ---- */

static trn_arena *arena;
static sqlite3 *db;
static uint32_t next_id = 100;

static int open_all(void **state) {
  (void)state;
  arena = trn__arena_create(0);
  if (!arena || sqlite3_open(":memory:", &db)) return -1;
  return sqlite3_exec(db,
                      "create table t (id int, name text, price int, day text, x real, flag int);"
                      "insert into t values (1, 'one', 150, '2024-01-31', 0.5, 1), (2, 'two', -25, '2023-12-01', 2.5, 0),"
                      "(3, null, null, null, null, null), (4, 'four''s', 1000, '1999-02-28', -1.5, 1);"
                      "create table u (id int, tag text); insert into u values (1, 'a'), (1, 'b'), (4, 'c'), (9, null)",
                      NULL, NULL, NULL);
}
static int close_all(void **state) {
  (void)state;
  trn__arena_unref(arena);
  return sqlite3_close(db);
}

static const trn_type *type(trn_type_id id) {
  return trn__type(id);
}
static const trn_type *dec(int precision, int scale) {
  return trn__type_decimal(arena, precision, scale);
}
#define INT type(TRN_TYPE_INT32)
#define LONG type(TRN_TYPE_INT64)
#define DOUBLE type(TRN_TYPE_FLOAT64)
#define TEXT type(TRN_TYPE_STRING)
#define BOOL type(TRN_TYPE_BOOL)
#define DATE type(TRN_TYPE_DATE)

static const trn_expr *whole(int64_t value) {
  return trn__expr_int(arena, INT, value);
}
static const trn_expr *text(const char *value) {
  return trn__expr_string(arena, value, strlen(value));
}
static const trn_expr *number(double value) {
  trn_expr *e = trn__expr_create(arena, TRN_EXPR_LITERAL, DOUBLE, false, NULL, 0);
  e->u.literal.value.number = value;
  return e;
}
static const trn_expr *exact(int64_t unscaled, int precision, int scale) {
  trn_expr *e = trn__expr_create(arena, TRN_EXPR_LITERAL, dec(precision, scale), false, NULL, 0);
  e->u.literal.value.decimal.low = (uint64_t)unscaled;
  e->u.literal.value.decimal.high = unscaled < 0 ? -1 : 0;
  return e;
}

#define CALL(home, name, type, ...)                                                                                    \
  trn__expr_call(arena, home, name, type, true, ((const trn_expr *[]){__VA_ARGS__}),                                   \
                 sizeof((const trn_expr *[]){__VA_ARGS__}) / sizeof(trn_expr *))
#define KERNEL(name, type, ...) CALL(TRN_HOME_LIBRARY, name, type, __VA_ARGS__)
#define NATIVE(name, type, ...) CALL(TRN_HOME_NATIVE, name, type, __VA_ARGS__)

static const trn_rel *table(const char *name, const char *const *columns, const trn_type *const *types, uint32_t count) {
  trn_scan_column seen[8];
  trn_column *made = TRN_NEW_N(arena, trn_column, count);
  uint32_t *indexes = TRN_NEW_N(arena, uint32_t, count);
  for (uint32_t i = 0; i < count; i++) {
    seen[i] = (trn_scan_column){columns[i], types[i], true};
    made[i] = (trn_column){next_id++, true, types[i]};
    indexes[i] = i;
  }
  trn_scan_info info = {.struct_size = sizeof info,
                        .kind = TRN_SCAN_TABLE,
                        .database = "default",
                        .table = name,
                        .columns = seen,
                        .column_count = count};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, made, count);
  assert_int_equal(trn_scan_label_create(&info, &rel->u.scan.info), TRN_OK);
  assert_int_equal(trn__label_hold(arena, rel->u.scan.info), TRN_OK);
  trn_scan_label_unref(rel->u.scan.info);
  rel->u.scan.indexes = indexes;
  return rel;
}

static const trn_rel *t_table(void) {
  return table("t", (const char *[]){"id", "name", "price", "day", "x", "flag"},
               (const trn_type *[]){INT, TEXT, dec(10, 2), DATE, DOUBLE, BOOL}, 6);
}
static const trn_rel *u_table(void) {
  return table("u", (const char *[]){"id", "tag"}, (const trn_type *[]){INT, TEXT}, 2);
}

static const trn_expr *col(const trn_rel *rel, uint32_t index) {
  return trn__expr_column(arena, &rel->columns[index]);
}

static const trn_rel *project(const trn_rel *input, const trn_expr *const *exprs, uint32_t count) {
  trn_column columns[8];
  for (uint32_t i = 0; i < count; i++) columns[i] = (trn_column){next_id++, true, exprs[i]->type};
  return trn__rel_project(arena, input, exprs, columns, count);
}
#define PROJECT(input, ...)                                                                                            \
  project(input, ((const trn_expr *[]){__VA_ARGS__}), sizeof((const trn_expr *[]){__VA_ARGS__}) / sizeof(trn_expr *))

static const trn_rel *values(const trn_expr *const *exprs, uint32_t rows, uint32_t width) {
  trn_column columns[8] = {0};
  for (uint32_t i = 0; i < width; i++) columns[i] = (trn_column){next_id++, true, rows ? exprs[i]->type : INT};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, exprs, rows * width, columns, width);
  rel->u.values.row_count = rows;
  return rel;
}

static const trn_rel *sorted(const trn_rel *rel) {
  trn_sort_flags *flags = TRN_NEW(arena, trn_sort_flags);
  flags->nulls_first = true;
  const trn_expr *key = col(rel, 0);
  trn_rel *sort = trn__rel_create(arena, TRN_REL_SORT, &rel, 1, &key, 1, rel->columns, rel->column_count);
  sort->u.sort.flags = flags;
  sort->u.sort.fetch = -1;
  return sort;
}

static trn_rel *passing(trn_rel_kind kind, const trn_rel *input) {
  return trn__rel_create(arena, kind, &input, 1, NULL, 0, input->columns, input->column_count);
}

/* ---- printing and running ---- */

static trn_status print(const trn_rel *root, const char *dialect, const trn_sql_dialect *own, char **out, trn_error **error) {
  trn_field fields[8] = {{0}};
  trn_plan plan = {.arena = arena, .root = root, .fields = fields, .next_column = next_id};
  return own ? trn_plan_print_sql(&plan, own, out, error) : trn_plan_to_sql(&plan, dialect, out, error);
}

static char *sql_of(const trn_rel *root, const char *dialect) {
  char *sql = NULL;
  trn_error *error = NULL;
  trn_status status = print(root, dialect, NULL, &sql, &error);
  if (status) fail_msg("%s", trn_error_message(error));
  return sql;
}

/* Rows as "a|b;c|d;", nulls as "-". */
static void run(const trn_rel *root, trn_strbuf *out) {
  char *sql = sql_of(root, "sqlite");
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL)) fail_msg("%s: %s", sqlite3_errmsg(db), sql);
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
      const char *value = (const char *)sqlite3_column_text(statement, i);
      trn__strbuf_printf(out, "%s%s", i ? "|" : "", value ? value : "-");
    }
    trn__strbuf_puts(out, ";");
  }
  if (code != SQLITE_DONE) trn__strbuf_printf(out, "error: %s", sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  trn_free(sql);
}

static void gives_rows(const trn_rel *root, const char *expected) {
  trn_strbuf got = {0};
  run(root, &got);
  assert_string_equal(got.data ? got.data : "", expected);
  trn__strbuf_finish(&got);
}

static void gives(const trn_expr *e, const char *expected) {
  trn_strbuf whole_row = {0};
  trn__strbuf_printf(&whole_row, "%s%s", expected, strncmp(expected, "error", 5) ? ";" : "");
  gives_rows(PROJECT(values(NULL, 1, 0), e), whole_row.data);
  trn__strbuf_finish(&whole_row);
}

static void refuses(const trn_rel *root, const char *dialect, const char *what) {
  char *sql = NULL;
  trn_error *error = NULL;
  trn_status status = print(root, dialect, NULL, &sql, &error);
  if (!status) fail_msg("not refused: %s", sql);
  assert_int_equal(status, TRN_UNIMPLEMENTED);
  if (!strstr(trn_error_message(error), what)) fail_msg("\"%s\" is not in: %s", what, trn_error_message(error));
  assert_non_null(strstr(trn_error_message(error), "cannot be written in"));
  assert_null(sql);
  trn_error_unref(error);
}

static void writes(const trn_expr *e, const char *dialect, const char *expected) {
  char *sql = sql_of(PROJECT(values(NULL, 1, 0), e), dialect);
  if (!strstr(sql, expected)) fail_msg("\"%s\" is not in: %s", expected, sql);
  trn_free(sql);
}

/* ---- expressions ---- */

static const trn_expr *of_type(trn_type_id id, int64_t value) {
  return trn__expr_int(arena, type(id), value);
}

static void literals(void **state) {
  (void)state;
  gives(trn__expr_null(arena, TEXT), "-");
  gives(trn__expr_bool(arena, true), "1");
  gives(whole(-7), "-7");
  gives(of_type(TRN_TYPE_INT64, INT64_MAX), "9223372036854775807");
  gives(number(0.1), "0.1");
  gives(exact(-1750, 15, 2), "-1750");
  gives(text("it's 'so'"), "it's 'so'");
  gives(of_type(TRN_TYPE_DATE, 19782), "2024-02-29");
  gives(of_type(TRN_TYPE_DATE, -719528), "0000-01-01");
  gives(of_type(TRN_TYPE_TIMESTAMP, 1700000000000001), "1700000000000001");
  writes(whole(-7), "duckdb", "CAST('-7' AS INTEGER)");
  writes(exact(-5, 15, 2), "postgresql", "CAST('-0.05' AS numeric(15, 2))");
  writes(trn__expr_null(arena, TEXT), "postgresql", "CAST(NULL AS text)");
  writes(number(0.1), "duckdb", "CAST('0.10000000000000001' AS DOUBLE)");
  writes(number(-1.0 / 0.0), "postgresql", "CAST('-Infinity' AS double precision)");
  writes(of_type(TRN_TYPE_DATE, -1), "duckdb", "CAST('1969-12-31' AS DATE)");
  writes(of_type(TRN_TYPE_TIMESTAMP, -1), "duckdb", "CAST('1969-12-31 23:59:59.999999+00' AS TIMESTAMP WITH TIME ZONE)");
  writes(of_type(TRN_TYPE_TIMESTAMP_NTZ, 86400000000), "postgresql", "CAST('1970-01-02 00:00:00.000000' AS timestamp)");
  writes(text("it's"), "postgresql", "'it''s'");
  const trn_rel *one = values(NULL, 1, 0);
  refuses(PROJECT(one, number(0.0 / 0.0)), "sqlite", "NaN");
  refuses(PROJECT(one, of_type(TRN_TYPE_DATE, 3000000)), "sqlite", "a date outside");
  refuses(PROJECT(one, of_type(TRN_TYPE_DATE, -719528)), "postgresql", "a date before the year 1");
  refuses(PROJECT(one, of_type(TRN_TYPE_INT8, 1)), "postgresql", "the type tinyint");
  refuses(PROJECT(one, of_type(TRN_TYPE_INTERVAL_DAY_TIME, 1)), "duckdb", "the type interval");
  refuses(PROJECT(one, trn__expr_null(arena, trn__type_array(arena, INT, true))), "sqlite", "the type array<int>");
}

static void arithmetic(void **state) {
  (void)state;
  gives(KERNEL("trn.add", INT, whole(2), whole(3)), "5");
  gives(KERNEL("trn.add", INT, whole(INT32_MAX), whole(1)), "error: integer overflow");
  gives(KERNEL("trn.add_try", INT, whole(INT32_MAX), whole(1)), "-");
  gives(KERNEL("trn.multiply", LONG, of_type(TRN_TYPE_INT64, INT64_MAX), of_type(TRN_TYPE_INT64, 2)),
               "error: integer overflow");
  gives(KERNEL("trn.subtract", dec(6, 2), exact(100, 5, 2), exact(5, 3, 1)), "50");
  gives(KERNEL("trn.multiply", dec(8, 3), exact(15, 4, 1), exact(-125, 4, 2)), "-1875");
  gives(KERNEL("trn.divide", dec(10, 4), exact(200, 5, 2), exact(300, 5, 2)), "6667");
  gives(KERNEL("trn.divide", dec(10, 4), exact(-200, 5, 2), exact(300, 5, 2)), "-6667");
  gives(KERNEL("trn.divide", dec(10, 4), exact(200, 5, 2), exact(0, 5, 2)), "error: malformed JSON");
  gives(KERNEL("trn.divide_try", dec(10, 4), exact(200, 5, 2), exact(0, 5, 2)), "-");
  gives(KERNEL("trn.divide", DOUBLE, number(1), number(4)), "0.25");
  gives(KERNEL("trn.int_divide", LONG, of_type(TRN_TYPE_INT64, -7), of_type(TRN_TYPE_INT64, 2)), "-3");
  gives(KERNEL("trn.remainder", INT, whole(-7), whole(3)), "-1");
  gives(KERNEL("trn.remainder", INT, whole(7), whole(0)), "error: malformed JSON");
  gives(KERNEL("trn.negate", INT, whole(INT32_MIN)), "error: integer overflow");
  gives(KERNEL("trn.abs", DOUBLE, number(-2.5)), "2.5");
  gives(NATIVE("+", DOUBLE, number(1.5), number(1)), "2.5");
  writes(KERNEL("trn.add", INT, whole(2), whole(3)), "duckdb",
              "CAST((CAST('2' AS INTEGER) + CAST('3' AS INTEGER)) AS INTEGER)");
  writes(KERNEL("trn.divide", dec(10, 4), exact(2, 5, 2), exact(3, 5, 1)), "postgresql",
              "round(div(CAST('0.02' AS numeric(5, 2)) * 100000, CAST('0.3' AS numeric(5, 1))) * 0.1, 0) * 0.0001");
  writes(KERNEL("trn.divide", dec(10, 4), exact(2, 5, 2), exact(3, 5, 1)), "duckdb", "* 100 AS HUGEINT) * 100000 //");
  const trn_rel *one = values(NULL, 1, 0);
  for (size_t i = 0; i < 2; i++) {
    const char *dialect = i ? "duckdb" : "postgresql";
    refuses(PROJECT(one, KERNEL("trn.add_try", INT, whole(1), whole(2))), dialect, "gives null where it overflows");
    refuses(PROJECT(one, NATIVE("+", INT, whole(1), whole(2))), dialect, "\"+\" of this type");
    refuses(PROJECT(one, KERNEL("trn.add_wrap", INT, whole(1), whole(2))), dialect, "function trn.add_wrap");
    refuses(PROJECT(one, KERNEL("trn.multiply", dec(38, 30), exact(1, 30, 20), exact(1, 30, 20))), dialect,
                   "a scale of 40 digits");
  }
  refuses(PROJECT(one, KERNEL("trn.add_wrap", INT, whole(1), whole(2))), "sqlite", "function trn.add_wrap");
}

static void conditions(void **state) {
  (void)state;
  const trn_expr *yes = trn__expr_bool(arena, true), *no = trn__expr_bool(arena, false), *maybe = trn__expr_null(arena, BOOL);
  static const char *const comparisons[] = {"=", "!=", "<", "<=", ">", ">="};
  static const char *const answers[] = {"0", "1", "1", "1", "0", "0"};
  for (size_t i = 0; i < 6; i++) gives(NATIVE(comparisons[i], BOOL, whole(1), whole(2)), answers[i]);
  gives(NATIVE("and", BOOL, yes, NATIVE("or", BOOL, no, maybe)), "-");
  gives(NATIVE("not", BOOL, no), "1");
  gives(NATIVE("is_null", BOOL, maybe), "1");
  gives(NATIVE("is_not_null", BOOL, maybe), "0");
  gives(NATIVE("is_true", BOOL, maybe), "0");
  gives(NATIVE("is_not_true", BOOL, maybe), "1");
  gives(NATIVE("is_not_distinct_from", BOOL, maybe, maybe), "1");
  gives(NATIVE("is_distinct_from", BOOL, whole(1), trn__expr_null(arena, INT)), "1");
  const trn_expr *branches[] = {no, text("a"), maybe, text("b"), text("c")};
  gives(trn__expr_create(arena, TRN_EXPR_CASE, TEXT, true, branches, 5), "c");
  gives(trn__expr_create(arena, TRN_EXPR_CASE, TEXT, true, branches, 4), "-");
  const trn_expr *items[] = {whole(3), whole(1), trn__expr_null(arena, INT)};
  trn_expr *in = trn__expr_create(arena, TRN_EXPR_IN_LIST, BOOL, true, items, 3);
  gives(in, "-");
  in->u.in_list.negated = true;
  gives(in, "-");
  writes(NATIVE("is_not_distinct_from", BOOL, whole(1), whole(2)), "postgresql", "(NOT CAST('1' AS integer) IS DISTINCT FROM");
}

static void texts(void **state) {
  (void)state;
  gives(NATIVE("like", BOOL, text("a*b"), text("a*%")), "1");
  gives(NATIVE("like", BOOL, text("A"), text("a")), "0");
  gives(KERNEL("trn.like", BOOL, text("a_b"), text("a\\_b"), text("\\"), whole(-1)), "1");
  gives(KERNEL("trn.like", BOOL, text("axb"), text("a\\_b"), text("\\"), whole(-1)), "0");
  gives(KERNEL("trn.substring", TEXT, text("hello"), whole(2), whole(3)), "ell");
  gives(KERNEL("trn.concat", TEXT, text("a"), text("b"), text("c")), "abc");
  gives(KERNEL("trn.replace", TEXT, text("abab"), text("a"), text("x")), "xbxb");
  gives(KERNEL("trn.instr", INT, text("abc"), text("c")), "3");
  gives(KERNEL("trn.contains", BOOL, text("abc"), text("d")), "0");
  gives(KERNEL("trn.length", INT, text("h\xc3\xa9")), "2");
  gives(KERNEL("trn.octet_length", INT, text("h\xc3\xa9")), "3");
  gives(CALL(TRN_HOME_ENGINE, "coalesce", TEXT, trn__expr_null(arena, TEXT), text("x")), "x");
  writes(NATIVE("like", BOOL, text("a"), text("b%")), "postgresql", "('a' LIKE 'b%' ESCAPE '\\')");
  writes(KERNEL("trn.octet_length", INT, text("a")), "duckdb", "CAST(strlen('a') AS INTEGER)");
  const trn_rel *one = values(NULL, 1, 0);
  static const char *const dialects[] = {"sqlite", "postgresql", "duckdb"};
  for (size_t i = 0; i < 3; i++) {
    refuses(PROJECT(one, NATIVE("like", BOOL, text("a"), NATIVE("||", TEXT, text("a"), text("b")))), dialects[i],
                   "LIKE with a pattern that is no constant");
    refuses(PROJECT(one, NATIVE("like", BOOL, text("a"), text("\\a"))), dialects[i], "LIKE with an escape of something else");
    refuses(PROJECT(one, KERNEL("trn.like", BOOL, text("a"), text("!a"), text("!"), whole(-1))), dialects[i],
                   "function trn.like");
    refuses(PROJECT(one, KERNEL("trn.regexp_extract", TEXT, text("a"))), dialects[i], "function trn.regexp_extract");
    refuses(PROJECT(one, KERNEL("trn.upper", TEXT, text("a"))), dialects[i], "function trn.upper");
    const trn_expr *body = text("a");
    refuses(PROJECT(one, trn__expr_create(arena, TRN_EXPR_LAMBDA, TEXT, true, &body, 1)), dialects[i], "a lambda function");
  }
}

static void dates_and_casts(void **state) {
  (void)state;
  const trn_expr *day = of_type(TRN_TYPE_DATE, 19782), *before = of_type(TRN_TYPE_DATE, 19753);
  static const char *const parts[][2] = {{"YEAR", "2024"}, {"QUARTER", "1"}, {"MONTH", "2"}, {"DAY", "29"},
                                         {"DAYOFWEEK", "5"}, {"WEEKDAY", "3"}, {"DOY", "60"}};
  for (size_t i = 0; i < 7; i++) gives(KERNEL("trn.extract_date", INT, day, text(parts[i][0])), parts[i][1]);
  gives(KERNEL("trn.date_diff", INT, day, before), "29");
  gives(trn__expr_cast(arena, whole(300), LONG, false), "300");
  gives(KERNEL("trn.cast", type(TRN_TYPE_INT8), whole(300), whole(-1)), "error: integer overflow");
  gives(KERNEL("trn.cast_try", type(TRN_TYPE_INT8), whole(300), whole(-1)), "-");
  gives(trn__expr_cast(arena, exact(125, 5, 2), dec(5, 1), false), "13");
  gives(trn__expr_cast(arena, exact(-125, 5, 2), dec(5, 1), false), "-13");
  gives(trn__expr_cast(arena, whole(7), dec(12, 2), false), "700");
  gives(trn__expr_cast(arena, exact(175, 5, 2), DOUBLE, false), "1.75");
  gives(trn__expr_cast(arena, trn__expr_bool(arena, true), TEXT, false), "true");
  gives(trn__expr_cast(arena, day, TEXT, false), "2024-02-29");
  writes(KERNEL("trn.extract_date", INT, day, text("DAYOFWEEK")), "duckdb",
              "CAST(EXTRACT(DOW FROM CAST('2024-02-29' AS DATE)) + 1 AS INTEGER)");
  writes(trn__expr_cast(arena, whole(7), TEXT, false), "postgresql", "(CAST(CAST('7' AS integer) AS text) COLLATE \"C\")");
  const trn_rel *one = values(NULL, 1, 0);
  static const char *const dialects[] = {"sqlite", "postgresql", "duckdb"};
  for (size_t i = 0; i < 3; i++) {
    refuses(PROJECT(one, trn__expr_cast(arena, text("1"), INT, false)), dialects[i], "a cast from string to int");
    refuses(PROJECT(one, trn__expr_cast(arena, number(1.5), INT, false)), dialects[i], "a cast from double to int");
    refuses(PROJECT(one, trn__expr_cast(arena, exact(1, 30, 2), DOUBLE, false)), dialects[i], "a cast from decimal(30,2)");
    refuses(PROJECT(one, KERNEL("trn.extract_date", INT, day, text("CENTURY"))), dialects[i], "this part of a date");
  }
}

/* ---- relations ---- */

static const trn_expr *aggregate(const char *name, const trn_type *result, const trn_expr *argument, const trn_expr *filter) {
  const trn_expr *args[] = {argument, filter};
  trn_expr *e = trn__expr_create(arena, TRN_EXPR_AGGREGATE, result, true, args, filter ? 2 : 1);
  e->u.aggregate.name = name;
  e->u.aggregate.home = strncmp(name, "trn.", 4) ? TRN_HOME_ENGINE : TRN_HOME_LIBRARY;
  e->u.aggregate.has_filter = filter != NULL;
  return e;
}

static trn_rel *grouped(const trn_rel *input, const trn_expr *const *exprs, uint32_t count, uint32_t keys) {
  trn_column columns[8];
  for (uint32_t i = 0; i < count; i++) columns[i] = (trn_column){next_id++, true, exprs[i]->type};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_AGGREGATE, &input, 1, exprs, count, columns, count);
  rel->u.aggregate.group_count = keys;
  return rel;
}

static void leaves(void **state) {
  (void)state;
  const trn_expr *cells[] = {whole(1), text("a"), whole(2), trn__expr_null(arena, TEXT)};
  gives_rows(t_table(), "1|one|150|2024-01-31|0.5|1;2|two|-25|2023-12-01|2.5|0;3|-|-|-|-|-;4|four's|1000|1999-02-28|-1.5|1;");
  gives_rows(values(cells, 2, 2), "1|a;2|-;");
  gives_rows(values(cells, 1, 2), "1|a;");
  gives_rows(values(NULL, 0, 2), "");
  trn_column column = {next_id++, false, LONG};
  trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.start = 10, range->u.range.end = 1, range->u.range.step = -3;
  gives_rows(range, "10;7;4;");
  char *sql = sql_of(range, "duckdb");
  assert_non_null(strstr(sql, "FROM generate_series((10), (2), (-3)) AS g(v)"));
  trn_free(sql);
  range->u.range.end = 10;
  gives_rows(range, "");
  range->u.range.start = INT64_MAX - 2, range->u.range.end = INT64_MAX, range->u.range.step = 5;
  refuses(range, "sqlite", "a range that ends at the end of 64 bits");
  sql = sql_of(t_table(), "postgresql");
  assert_non_null(strstr(sql, "(\"name\" COLLATE \"C\") AS c"));
  assert_non_null(strstr(sql, "FROM \"t\""));
  trn_free(sql);
}

static void rows_of_one_input(void **state) {
  (void)state;
  const trn_rel *t = t_table();
  const trn_rel *some = trn__rel_filter(arena, t, NATIVE(">", BOOL, col(t, 2), exact(0, 10, 2)));
  gives_rows(PROJECT(some, col(some, 0), KERNEL("trn.add", INT, col(some, 0), whole(1))), "1|2;4|5;");
  trn_rel *limit = passing(TRN_REL_LIMIT, sorted(t));
  limit->u.limit.skip = 1, limit->u.limit.fetch = 2;
  gives_rows(PROJECT(limit, col(limit, 0)), "2;3;");
  limit->u.limit.fetch = -1;
  gives_rows(PROJECT(limit, col(limit, 0)), "2;3;4;");
  gives_rows(PROJECT(passing(TRN_REL_REPARTITION, some), col(some, 0)), "1;4;");
  const trn_rel *flags = PROJECT(t, col(t, 5));
  gives_rows(sorted(passing(TRN_REL_DISTINCT, flags)), "-;0;1;");
  trn_rel *sample = passing(TRN_REL_SAMPLE, some);
  sample->u.sample.upper = 0.5;
  refuses(sample, "sqlite", "a sample");
  sample->u.sample.upper = 1; /* all rows: a barrier */
  gives_rows(PROJECT(sample, col(sample, 0)), "1;4;");
  char *sql = sql_of(PROJECT(sample, col(sample, 0)), "duckdb");
  assert_non_null(strstr(sql, "AS MATERIALIZED ("));
  trn_free(sql);
}

static void aggregates(void **state) {
  (void)state;
  const trn_rel *t = t_table();
  const trn_expr *positive = NATIVE(">", BOOL, col(t, 2), exact(0, 10, 2));
  const trn_expr *exprs[] = {col(t, 5),
                             aggregate("count", LONG, whole(1), NULL),
                             aggregate("trn.sum", dec(20, 2), col(t, 2), NULL),
                             aggregate("trn.avg", dec(14, 6), col(t, 2), NULL),
                             aggregate("trn.max", TEXT, col(t, 1), NULL),
                             aggregate("count", LONG, col(t, 0), positive),
                             aggregate("avg", DOUBLE, col(t, 4), NULL)};
  gives_rows(sorted(grouped(t, exprs, 7, 1)), "-|1|-|-|-|0|-;0|1|-25|-250000|two|0|2.5;1|2|1150|5750000|one|2|-0.5;");
  const trn_expr *constant[] = {whole(1), aggregate("count", LONG, whole(1), NULL)};
  const trn_rel *none = trn__rel_filter(arena, t, trn__expr_bool(arena, false));
  gives_rows(grouped(none, constant, 2, 1), "");
  gives_rows(grouped(none, constant + 1, 1, 0), "0;");
  char *sql = sql_of(grouped(none, constant, 2, 1), "postgresql");
  assert_non_null(strstr(sql, "HAVING count(*) > 0"));
  assert_null(strstr(sql, "GROUP BY"));
  trn_free(sql);
  trn_rel *sets = grouped(t, exprs, 2, 1);
  static const uint64_t masks[] = {1, 0};
  sets->u.aggregate.set_count = 2, sets->u.aggregate.sets = masks;
  refuses(sets, "duckdb", "GROUPING SETS");
  const trn_expr *list = aggregate("trn.collect_list", trn__type_array(arena, INT, true), col(t, 0), NULL);
  refuses(PROJECT(grouped(t, &list, 1, 0), whole(1)), "postgresql", "function trn.collect_list");
}

static const trn_rel *join(trn_join_type kind, const trn_rel *left, const trn_rel *right, const trn_expr *more) {
  const trn_expr *equal = NATIVE("=", BOOL, col(left, 0), col(right, 0));
  return trn__rel_join(arena, kind, left, right, more ? NATIVE("and", BOOL, equal, more) : equal);
}

static void joins(void **state) {
  (void)state;
  static const struct {
    trn_join_type type;
    const char *rows;
  } outer[] = {{TRN_JOIN_INNER, "1|a;1|b;4|c;"}, {TRN_JOIN_LEFT, "1|a;1|b;2|-;3|-;4|c;"},
               {TRN_JOIN_RIGHT, "-|-;1|a;1|b;4|c;"}, {TRN_JOIN_FULL, "-|-;1|a;1|b;2|-;3|-;4|c;"}};
  for (size_t i = 0; i < 4; i++) {
    const trn_rel *t = t_table(), *u = u_table(), *both = join(outer[i].type, t, u, NULL);
    gives_rows(sorted(PROJECT(both, col(t, 0), col(u, 1))), outer[i].rows);
  }
  const trn_rel *t = t_table(), *u = u_table();
  gives_rows(sorted(PROJECT(join(TRN_JOIN_LEFT_SEMI, t, u, NULL), col(t, 0))), "1;4;");
  gives_rows(sorted(PROJECT(join(TRN_JOIN_LEFT_ANTI, t, u, NULL), col(t, 0))), "2;3;");
  trn_rel *mark = trn__rel_mark_join(arena, t, u, NATIVE("=", BOOL, col(t, 0), col(u, 0)), next_id++);
  gives_rows(sorted(PROJECT(mark, col(t, 0), col(mark, 6))), "1|1;2|0;3|0;4|1;");
  trn_rel *aware = (trn_rel *)join(TRN_JOIN_LEFT_ANTI, t, PROJECT(u, col(u, 0)), NULL); /* NOT IN: the null there is in tag */
  aware->u.join.null_aware = true;
  gives_rows(sorted(PROJECT(aware, col(t, 0))), "2;3;");
  trn_rel *tags = (trn_rel *)trn__rel_join(arena, TRN_JOIN_LEFT_ANTI, t, u, NATIVE("=", BOOL, col(t, 1), col(u, 1)));
  gives_rows(sorted(PROJECT(tags, col(t, 0))), "1;2;3;4;");
  tags->u.join.null_aware = true;
  gives_rows(PROJECT(tags, col(t, 0)), "");
  const trn_expr *mixed = NATIVE("<", BOOL, col(t, 1), col(u, 1));
  refuses(join(TRN_JOIN_LEFT_SEMI, t, u, mixed), "sqlite", "EXISTS with a condition that is no equality");
  char *sql = sql_of(PROJECT(join(TRN_JOIN_LEFT_ANTI, t, u, mixed), col(t, 0)), "duckdb");
  assert_non_null(strstr(sql, "WHERE NOT (EXISTS (SELECT 1 FROM"));
  trn_free(sql);
}

static void sets_of_rows(void **state) {
  (void)state;
  static const struct {
    bool except, all;
    const char *rows;
  } sets[] = {{false, false, "1;4;"}, {false, true, "1;4;"}, {true, false, "9;"}, {true, true, "1;9;"}};
  for (size_t i = 0; i < 4; i++) {
    const trn_rel *t = t_table(), *u = u_table();
    const trn_rel *inputs[] = {PROJECT(u, col(u, 0)), PROJECT(t, col(t, 0))};
    trn_column column = {next_id++, true, INT};
    trn_rel *set = trn__rel_create(arena, TRN_REL_SET, inputs, 2, NULL, 0, &column, 1);
    set->u.set.except = sets[i].except, set->u.set.all = sets[i].all;
    gives_rows(sorted(set), sets[i].rows);
  }
  const trn_rel *u = u_table(), *ids = PROJECT(u, col(u, 0)), *inputs[] = {ids, ids};
  trn_column column = {next_id++, true, INT};
  gives_rows(sorted(trn__rel_create(arena, TRN_REL_UNION, inputs, 2, NULL, 0, &column, 1)), "1;1;1;1;4;4;9;9;");
}

static const trn_rel *windowed(const trn_rel *input, const trn_expr *function, uint8_t unit, uint8_t start, const trn_expr *by) {
  trn_sort_flags *flags = TRN_NEW(arena, trn_sort_flags);
  const trn_expr *args[] = {function, col(input, 0)};
  trn_expr *e = trn__expr_create(arena, TRN_EXPR_WINDOW, function->type, true, args, 2);
  e->u.window.order_count = 1, e->u.window.order_flags = flags;
  e->u.window.unit = unit, e->u.window.start_kind = start, e->u.window.end_kind = TRN_BOUND_CURRENT_ROW;
  e->u.window.start = by;
  const trn_expr *exprs[] = {e};
  trn_column *columns = TRN_NEW_N(arena, trn_column, input->column_count + 1);
  memcpy(columns, input->columns, input->column_count * sizeof *columns);
  columns[input->column_count] = (trn_column){next_id++, true, function->type};
  return trn__rel_create(arena, TRN_REL_WINDOW, &input, 1, exprs, 1, columns, input->column_count + 1);
}

static void windows(void **state) {
  (void)state;
  const trn_rel *t = t_table();
  const trn_expr *row_number = trn__expr_call(arena, TRN_HOME_ENGINE, "row_number", INT, false, NULL, 0);
  const trn_rel *numbered = windowed(t, row_number, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, NULL);
  gives_rows(PROJECT(sorted(numbered), col(numbered, 0), col(numbered, 6)), "1|1;2|2;3|3;4|4;");
  const trn_expr *sum = aggregate("trn.sum", LONG, col(t, 0), NULL);
  const trn_rel *sums = windowed(t, sum, TRN_FRAME_ROWS, TRN_BOUND_PRECEDING, whole(1));
  gives_rows(PROJECT(sorted(sums), col(sums, 6)), "1;3;5;7;");
  const trn_rel *ranges = windowed(t, sum, TRN_FRAME_RANGE, TRN_BOUND_PRECEDING, whole(2));
  gives_rows(PROJECT(sorted(ranges), col(ranges, 6)), "1;3;6;9;");
  const trn_expr *lag = CALL(TRN_HOME_ENGINE, "lag", TEXT, col(t, 1), of_type(TRN_TYPE_INT64, 1), text("none"));
  const trn_rel *lagged = windowed(t, lag, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, NULL);
  gives_rows(PROJECT(sorted(lagged), col(lagged, 6)), "none;one;two;-;");
  char *sql = sql_of(PROJECT(numbered, col(numbered, 6)), "postgresql");
  assert_non_null(strstr(sql, "CAST(row_number() OVER ( ORDER BY"));
  trn_free(sql);
  sql = sql_of(PROJECT(lagged, col(lagged, 6)), "postgresql");
  assert_non_null(strstr(sql, ", 1, 'none')"));
  trn_free(sql);
  const trn_expr *own = trn__expr_call(arena, TRN_HOME_LIBRARY, "sample.gap", LONG, true, NULL, 0);
  refuses(windowed(t, own, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, NULL), "duckdb", "the window function sample.gap");
  const trn_expr *average = aggregate("trn.avg", dec(14, 6), col(t, 2), NULL);
  refuses(windowed(t, average, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, NULL), "sqlite", "of a decimal over a window");
  trn_rel *ignoring = (trn_rel *)windowed(t, lag, TRN_FRAME_ROWS, TRN_BOUND_UNBOUNDED_PRECEDING, NULL);
  ((trn_expr *)ignoring->exprs[0])->u.window.ignore_nulls = true;
  refuses(ignoring, "duckdb", "IGNORE NULLS");
}

static void subqueries(void **state) {
  (void)state;
  const trn_rel *t = t_table(), *u = u_table(), *ids = PROJECT(u, col(u, 0));
  const trn_expr *value = col(t, 0);
  trn_expr *in = trn__expr_create(arena, TRN_EXPR_SUBQUERY, BOOL, true, &value, 1);
  in->u.subquery.kind = TRN_SUBQUERY_IN, in->u.subquery.rel = ids;
  const trn_rel *found = trn__rel_filter(arena, t, in);
  gives_rows(sorted(PROJECT(found, col(t, 0))), "1;4;");
  trn_expr *outer = trn__expr_create(arena, TRN_EXPR_OUTER, INT, true, NULL, 0);
  outer->u.column = t->columns[0].id;
  const trn_rel *u2 = u_table(), *same = trn__rel_filter(arena, u2, NATIVE("=", BOOL, col(u2, 0), outer));
  const trn_expr *count = aggregate("count", LONG, whole(1), NULL);
  trn_expr *scalar = trn__expr_create(arena, TRN_EXPR_SUBQUERY, LONG, true, NULL, 0);
  scalar->u.subquery.kind = TRN_SUBQUERY_SCALAR, scalar->u.subquery.rel = grouped(same, &count, 1, 0);
  gives_rows(sorted(PROJECT(t, col(t, 0), scalar)), "1|2;2|0;3|0;4|1;");
}

/* Each kind is either written or refused by name: none is forgotten, and none makes nonsense. */
static void no_kind_is_forgotten(void **state) {
  (void)state;
  static const char *const names[TRN_REL_COUNT_] = {[TRN_REL_LOCAL] = "rows that came with the query",
                                                    [TRN_REL_UNNEST] = "a generator",
                                                    [TRN_REL_WRITE] = "a write",
                                                    [TRN_REL_EXTENSION] = "the operator my.operator",
                                                    [TRN_REL_OPAQUE] = "the operator \"something else\""};
  for (int kind = 0; kind < TRN_REL_COUNT_; kind++) {
    if (!names[kind]) continue;
    trn_rel *rel = passing((trn_rel_kind)kind, t_table());
    if (kind == TRN_REL_EXTENSION) rel->u.extension.name = "my.operator";
    if (kind == TRN_REL_OPAQUE) rel->u.opaque.label = "something else";
    refuses(rel, "sqlite", names[kind]);
    refuses(rel, "postgresql", names[kind]);
  }
  trn_rel *unknown = (trn_rel *)t_table();
  unknown->u.scan.info = NULL, unknown->u.scan.label = "a file";
  refuses(unknown, "duckdb", "a scan of a file, which is no table,");
  trn_plan physical = {.arena = arena, .root = t_table(), .kind = TRN_PLAN_PHYSICAL};
  char *sql = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_plan_to_sql(&physical, "sqlite", &sql, &error), TRN_UNIMPLEMENTED);
  assert_non_null(strstr(trn_error_message(error), "a physical plan"));
  trn_error_unref(error), error = NULL;
  assert_int_equal(print(t_table(), "oracle", NULL, &sql, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "known: sqlite, postgresql, duckdb"));
  trn_error_unref(error);
}

static void deep_plans_are_refused(void **state) {
  (void)state;
  const trn_expr *e = whole(1);
  for (int i = 0; i < 3000; i++) e = KERNEL("trn.negate", INT, e);
  char *sql = NULL;
  trn_error *error = NULL;
  assert_int_equal(print(PROJECT(values(NULL, 1, 0), e), "postgresql", NULL, &sql, &error), TRN_RESOURCE_EXHAUSTED);
  trn_error_unref(error);
}

/* ---- a dialect of one's own ---- */

static void a_dialect_of_ones_own(void **state) {
  (void)state;
  static const trn_sql_type types[] = {{TRN_TYPE_INT32, "INT64"}, {TRN_TYPE_INT64, "INT64"}, {TRN_TYPE_STRING, "STRING"},
                                       {TRN_TYPE_BOOL, "BOOL"}, {TRN_TYPE_DECIMAL, "NUMERIC"}, {TRN_TYPE_DATE, "DATE"},
                                       {TRN_TYPE_FLOAT64, "FLOAT64"}};
  static const trn_sql_function functions[] = {{"trn.upper", 1, "UPPER($1)"}, {"trn.wrong", 1, "WRONG($2, $x)"}};
  const trn_sql_dialect *base = trn_sql_dialect_find("postgresql");
  trn_sql_dialect own = *base;
  own.title = "My database";
  own.name_quote = '`';
  own.types = types, own.type_count = 7;
  own.functions = functions, own.function_count = 2;
  own.text_column = NULL;
  own.lacks_filter = true;
  own.is_distinct = "DIFFERS($1, $2)";
  const trn_rel *t = t_table();
  const trn_expr *exprs[] = {KERNEL("trn.upper", TEXT, col(t, 1)),
                             aggregate("count", LONG, col(t, 0), NATIVE("is_distinct_from", BOOL, col(t, 0), whole(2)))};
  char *sql = NULL;
  trn_error *error = NULL;
  assert_int_equal(print(grouped(t, exprs, 2, 1), NULL, &own, &sql, &error), TRN_OK);
  assert_non_null(strstr(sql, "`name` AS c"));
  assert_non_null(strstr(sql, "UPPER(c"));
  assert_non_null(strstr(sql, "count(CASE WHEN DIFFERS(c"));
  assert_null(strstr(sql, "FILTER"));
  trn_free(sql);
  assert_int_equal(print(PROJECT(t, KERNEL("trn.wrong", TEXT, col(t, 1))), NULL, &own, &sql, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "My database"));
  trn_error_unref(error), error = NULL;
  assert_int_equal(print(PROJECT(t, KERNEL("trn.lower", TEXT, col(t, 1))), NULL, &own, &sql, &error), TRN_UNIMPLEMENTED);
  assert_string_equal(trn_error_message(error), "function trn.lower cannot be written in My database's SQL");
  trn_error_unref(error), error = NULL;
  trn_sql_dialect bare = {.struct_size = sizeof bare, .types = types, .type_count = 7};
  assert_int_equal(print(PROJECT(t, KERNEL("trn.int_divide", LONG, whole(1), whole(2))), NULL, &bare, &sql, &error), TRN_UNIMPLEMENTED);
  trn_error_unref(error), error = NULL;
  bare.decimal_digits = 9;
  assert_int_equal(print(PROJECT(t, col(t, 2)), NULL, &bare, &sql, &error), TRN_UNIMPLEMENTED);
  assert_non_null(strstr(trn_error_message(error), "the type decimal(10,2)"));
  trn_error_unref(error);
  assert_null(trn_sql_dialect_find("sqlite"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(literals),       cmocka_unit_test(arithmetic),
      cmocka_unit_test(conditions),     cmocka_unit_test(texts),
      cmocka_unit_test(dates_and_casts), cmocka_unit_test(leaves),
      cmocka_unit_test(rows_of_one_input), cmocka_unit_test(aggregates),
      cmocka_unit_test(joins),          cmocka_unit_test(sets_of_rows),
      cmocka_unit_test(windows),        cmocka_unit_test(subqueries),
      cmocka_unit_test(no_kind_is_forgotten), cmocka_unit_test(deep_plans_are_refused),
      cmocka_unit_test(a_dialect_of_ones_own),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
