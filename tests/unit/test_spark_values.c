/* What the value half of the translator builds: which operators run natively, what is folded, what things are called.
 */
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/values.h"
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const trn_position NOWHERE = {-1, -1};

static int make_translator(void **state) {
  spark_translator *t = calloc(1, sizeof *t);
  if (!t || spark__translator_init(t, NULL, NULL, NULL) != TRN_OK) return -1;
  t->now_us = INT64_C(1700000000000000);
  *state = t;
  return 0;
}
static int drop_translator(void **state) {
  spark_translator *t = *state;
  trn__arena_unref(t->arena);
  free(t);
  return 0;
}

/* A column named `name`. */
static spark_value column(spark_translator *t, const char *name, const trn_type *type) {
  trn_column made = {.id = t->next_column++, .nullable = true, .type = type};
  spark_value value = {.expr = trn__expr_column(t->arena, &made), .name = name, .is_attribute = true};
  assert_non_null(value.expr);
  return value;
}
static spark_value of(spark_translator *t, const char *name, trn_type_id id) {
  return column(t, name, trn__type(id));
}
static spark_value decimal(spark_translator *t, const char *name, int precision, int scale) {
  return column(t, name, trn__type_decimal(t->arena, precision, scale));
}

/* A literal as SQL writes it. */
static spark_value literal(spark_translator *t, const char *sql) {
  Spark__Connect__Expression *parsed = NULL;
  spark_value value;
  assert_int_equal(spark__sql_parse_expression(t->arena, sql, strlen(sql), NULL, &parsed, NULL), TRN_OK);
  assert_int_equal(spark__expression(t, parsed, &value, NULL), TRN_OK);
  return value;
}

static spark_value call2(spark_translator *t, const char *name, spark_value a, spark_value b) {
  spark_value args[2] = {a, b}, out;
  spark_call call = {.name = name, .args = args, .arg_count = 2, .position = NOWHERE};
  trn_error *error = NULL;
  if (spark__call(t, &call, &out, &error) != TRN_OK)
    fail_msg("%s: %s %s", name, trn_error_condition(error), trn_error_message(error));
  return out;
}
static spark_value call1(spark_translator *t, const char *name, spark_value a) {
  spark_call call = {.name = name, .args = &a, .arg_count = 1, .position = NOWHERE};
  spark_value out;
  assert_int_equal(spark__call(t, &call, &out, NULL), TRN_OK);
  return out;
}

static void assert_type(const trn_expr *expr, const char *expected) {
  trn_strbuf text = {0};
  spark__type_simple(&text, expr->type);
  assert_string_equal(text.data, expected);
  trn__strbuf_finish(&text);
}
static void assert_runs(const trn_expr *expr, trn_function_home home, const char *name) {
  assert_int_equal(expr->kind, TRN_EXPR_CALL);
  assert_string_equal(expr->u.call.name, name);
  assert_int_equal(expr->u.call.home, home);
}
static void assert_aggregates(const trn_expr *expr, trn_function_home home, const char *name, const char *type,
                              size_t args) {
  assert_int_equal(expr->kind, TRN_EXPR_AGGREGATE);
  assert_string_equal(expr->u.aggregate.name, name);
  assert_int_equal(expr->u.aggregate.home, home);
  assert_int_equal(expr->arg_count, args);
  assert_type(expr, type);
}

static void integers_are_checked_in_ansi_mode_and_wrap_without(void **state) {
  spark_translator *t = *state;
  spark_value sum = call2(t, "+", of(t, "a", TRN_TYPE_INT32), literal(t, "1"));
  assert_runs(sum.expr, TRN_HOME_LIBRARY, "trn.add");
  assert_int_equal(sum.expr->arg_count, 3);
  assert_int_equal(sum.expr->args[2]->u.literal.value.integer, -1); /* no SQL text: no position */
  assert_string_equal(sum.name, "(a + 1)");
  t->ansi = false;
  sum = call2(t, "+", of(t, "a", TRN_TYPE_INT32), literal(t, "1"));
  assert_runs(sum.expr, TRN_HOME_LIBRARY, "trn.add_wrap");
  assert_int_equal(sum.expr->arg_count, 2);
}

static void positions_reach_the_kernels(void **state) {
  spark_translator *t = *state;
  spark_value args[2] = {of(t, "a", TRN_TYPE_INT32), of(t, "b", TRN_TYPE_INT32)}, out;
  spark_call call = {.name = "*", .args = args, .arg_count = 2, .position = {7, 11}};
  t->sql = "select a * b";
  t->sql_size = strlen(t->sql);
  assert_int_equal(spark__call(t, &call, &out, NULL), TRN_OK);
  assert_int_equal(out.expr->args[2]->u.literal.value.integer, (INT64_C(7) << 32) | 11);
  assert_int_equal(out.expr->position.start, 7);
}

static void decimals_run_natively_only_within_38_digits(void **state) {
  spark_translator *t = *state;
  spark_value price = decimal(t, "p", 15, 2), discount = decimal(t, "d", 15, 2), wide = decimal(t, "w", 30, 10);
  spark_value left = call2(t, "-", literal(t, "1"), discount);
  assert_runs(left.expr, TRN_HOME_NATIVE, "-");
  assert_type(left.expr, "decimal(16,2)");
  assert_string_equal(left.name, "(1 - d)");
  spark_value product = call2(t, "*", price, left);
  assert_runs(product.expr, TRN_HOME_NATIVE, "*");
  assert_type(product.expr, "decimal(32,4)");
  spark_value more = call2(t, "*", product, call2(t, "+", literal(t, "1"), discount));
  assert_runs(more.expr, TRN_HOME_LIBRARY, "trn.multiply"); /* 49 digits: fitted into 38, checked */
  assert_type(more.expr, "decimal(38,6)");
  assert_runs(call2(t, "*", wide, price).expr, TRN_HOME_LIBRARY, "trn.multiply");
  spark_value ratio = call2(t, "/", price, discount);
  assert_runs(ratio.expr, TRN_HOME_LIBRARY, "trn.divide");
  assert_type(ratio.expr, "decimal(33,18)");
  assert_true(ratio.expr->nullable);
}

static void literals_take_the_type_of_what_they_are_compared_with(void **state) {
  spark_translator *t = *state;
  const trn_expr *expr = call2(t, "<", decimal(t, "q", 15, 2), literal(t, "24")).expr;
  assert_runs(expr, TRN_HOME_NATIVE, "<");
  assert_int_equal(expr->args[0]->kind, TRN_EXPR_COLUMN);
  assert_int_equal(expr->args[1]->kind, TRN_EXPR_LITERAL);
  assert_type(expr->args[1], "decimal(15,2)");
  assert_true(expr->args[1]->u.literal.value.decimal.low == 2400);
  expr = call2(t, ">=", of(t, "d", TRN_TYPE_DATE), literal(t, "'1994-01-01'")).expr;
  assert_int_equal(expr->args[1]->kind, TRN_EXPR_LITERAL);
  assert_type(expr->args[1], "date");
  assert_int_equal(expr->args[1]->u.literal.value.integer, 8766);
  expr =
      call2(t, ">=", of(t, "d", TRN_TYPE_DATE), literal(t, "'1994-02-30'")).expr; /* not a date: raised when it runs */
  assert_runs(expr->args[1], TRN_HOME_LIBRARY, "trn.cast");
  expr = call2(t, "=", of(t, "l", TRN_TYPE_INT64), literal(t, "5")).expr;
  assert_int_equal(expr->args[1]->kind, TRN_EXPR_LITERAL);
  assert_type(expr->args[1], "bigint");
}

static void dates_move_by_intervals(void **state) {
  spark_translator *t = *state;
  spark_value moved = call2(t, "-", literal(t, "DATE '1998-12-01'"), literal(t, "INTERVAL '90' DAY"));
  assert_int_equal(moved.expr->kind, TRN_EXPR_LITERAL);
  assert_int_equal(moved.expr->u.literal.value.integer, spark__days_from_civil(1998, 9, 2));
  assert_string_equal(moved.name, "date_add(DATE '1998-12-01', (- extractansiintervaldays(INTERVAL '90' DAY)))");
  moved = call2(t, "+", literal(t, "DATE '2024-01-31'"), literal(t, "INTERVAL '1' MONTH"));
  assert_int_equal(moved.expr->u.literal.value.integer, spark__days_from_civil(2024, 2, 29));
  moved = call2(t, "+", of(t, "d", TRN_TYPE_DATE), literal(t, "INTERVAL 3 MONTHS"));
  assert_runs(moved.expr, TRN_HOME_LIBRARY, "trn.date_add_ym");
  assert_string_equal(moved.name, "d + INTERVAL '3' MONTH");
  moved = call2(t, "+", of(t, "d", TRN_TYPE_DATE), literal(t, "INTERVAL 5 HOURS"));
  assert_type(moved.expr, "timestamp");
}

static void negative_zero_equals_zero(void **state) {
  spark_translator *t = *state;
  const trn_expr *expr = call2(t, "=", of(t, "x", TRN_TYPE_FLOAT64), literal(t, "0.0D")).expr;
  assert_runs(expr, TRN_HOME_NATIVE, "and"); /* -0.0 <= x <= 0.0 */
  expr = call2(t, "<", of(t, "x", TRN_TYPE_FLOAT64), literal(t, "1.5D")).expr;
  assert_int_equal(expr->args[0]->kind, TRN_EXPR_COLUMN); /* nothing to care for: the column stays bare */
  expr = call2(t, "=", of(t, "x", TRN_TYPE_FLOAT64), of(t, "y", TRN_TYPE_FLOAT64)).expr;
  assert_runs(expr->args[0], TRN_HOME_NATIVE, "+");
}

static void aggregates_have_sparks_types(void **state) {
  spark_translator *t = *state;
  assert_aggregates(call1(t, "sum", of(t, "a", TRN_TYPE_INT32)).expr, TRN_HOME_LIBRARY, "trn.sum", "bigint", 2);
  assert_aggregates(call1(t, "sum", decimal(t, "a", 15, 2)).expr, TRN_HOME_LIBRARY, "trn.sum", "decimal(25,2)", 2);
  assert_aggregates(call1(t, "sum", of(t, "a", TRN_TYPE_FLOAT64)).expr, TRN_HOME_ENGINE, "sum", "double", 1);
  assert_aggregates(call1(t, "avg", decimal(t, "a", 15, 2)).expr, TRN_HOME_LIBRARY, "trn.avg", "decimal(19,6)", 2);
  assert_aggregates(call1(t, "avg", of(t, "a", TRN_TYPE_INT64)).expr, TRN_HOME_ENGINE, "avg", "double", 1);
  assert_aggregates(call1(t, "max", of(t, "a", TRN_TYPE_FLOAT32)).expr, TRN_HOME_LIBRARY, "trn.max", "float", 1);
  assert_aggregates(call1(t, "min", of(t, "a", TRN_TYPE_STRING)).expr, TRN_HOME_ENGINE, "min", "string", 1);
  spark_call star = {.name = "count", .is_star = true, .position = NOWHERE};
  spark_value count;
  assert_int_equal(spark__call(t, &star, &count, NULL), TRN_OK);
  assert_aggregates(count.expr, TRN_HOME_ENGINE, "count", "bigint", 1);
  assert_string_equal(count.name, "count(1)");
  assert_true(count.has_aggregate);
  assert_false(count.expr->nullable);
  spark_value a = of(t, "a", TRN_TYPE_INT32);
  spark_call distinct = {.name = "COUNT", .args = &a, .arg_count = 1, .is_distinct = true, .position = NOWHERE};
  assert_int_equal(spark__call(t, &distinct, &count, NULL), TRN_OK);
  assert_string_equal(count.name, "count(DISTINCT a)");
  assert_true(count.expr->u.aggregate.distinct);
}

static void filters_and_order_follow_the_arguments(void **state) {
  spark_translator *t = *state;
  spark_value a = of(t, "a", TRN_TYPE_INT32), filter = of(t, "f", TRN_TYPE_BOOL), out;
  spark_call call = {.name = "sum", .args = &a, .arg_count = 1, .filter = &filter, .position = NOWHERE};
  assert_int_equal(spark__call(t, &call, &out, NULL), TRN_OK);
  assert_true(out.expr->u.aggregate.has_filter);
  assert_int_equal(out.expr->arg_count, 3);
  assert_ptr_equal(out.expr->args[2], filter.expr);
  assert_string_equal(out.name, "sum(a) FILTER (WHERE f)");
}

static const char *condition_of(spark_translator *t, const char *name, const spark_value *args, size_t count,
                                const char *key, char *value) {
  static char condition[128];
  trn_error *error = NULL;
  spark_value out;
  spark_call call = {.name = name, .args = args, .arg_count = count, .position = NOWHERE};
  assert_int_not_equal(spark__call(t, &call, &out, &error), TRN_OK);
  snprintf(condition, sizeof condition, "%s", trn_error_condition(error) ? trn_error_condition(error) : "");
  const trn_error_param *params;
  size_t found = trn_error_params(error, &params);
  value[0] = 0;
  for (size_t i = 0; i < found; i++)
    if (!strcmp(params[i].key, key)) snprintf(value, 128, "%s", params[i].value);
  trn_error_unref(error);
  return condition;
}

static void errors_are_sparks(void **state) {
  spark_translator *t = *state;
  char value[128];
  spark_value args[3] = {of(t, "a", TRN_TYPE_INT32), of(t, "b", TRN_TYPE_BOOL), of(t, "c", TRN_TYPE_STRING)};
  assert_string_equal(condition_of(t, "nosuch", args, 1, "routineName", value), "UNRESOLVED_ROUTINE");
  assert_string_equal(value, "`nosuch`");
  assert_string_equal(condition_of(t, "upper", args, 3, "expectedNum", value), "WRONG_NUM_ARGS.WITHOUT_SUGGESTION");
  assert_string_equal(value, "1");
  assert_string_equal(condition_of(t, "substring", args, 1, "expectedNum", value), "WRONG_NUM_ARGS.WITHOUT_SUGGESTION");
  assert_string_equal(value, "[2, 3]");
  assert_string_equal(condition_of(t, "+", args, 2, "sqlExpr", value), "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES");
  assert_string_equal(value, "\"(a + b)\"");
  assert_string_equal(condition_of(t, "date_add", args, 2, "inputType", value),
                      "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE");
  assert_string_equal(value, "\"INT\"");
  assert_string_equal(condition_of(t, "xpath", args, 2, "", value), ""); /* Spark has it: not supported, by name */
}

static void names_are_sparks(void **state) {
  spark_translator *t = *state;
  static const struct {
    const char *sql, *name;
  } cases[] = {
      {"-1", "-1"},
      {"1.50", "1.50"},
      {"1e3", "1000.0"},
      {"1e10D", "1.0E10"},
      {"0.0000001", "1E-7"},
      {"1.0E-5D", "1.0E-5"},
      {"'abc'", "abc"},
      {"NULL", "NULL"},
      {"true", "true"},
      {"X'1f'", "X'1F'"},
      {"DATE '1998-9-2'", "DATE '1998-09-02'"},
      {"TIMESTAMP '2020-01-01 01:02:03.40'", "TIMESTAMP '2020-01-01 01:02:03.4'"},
      {"INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"},
      {"INTERVAL 90 DAYS", "INTERVAL '90' DAY"},
      {"INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND"},
      {"INTERVAL -5 HOURS", "INTERVAL '-05' HOUR"},
      {"1 + 2 * 3", "(1 + (2 * 3))"},
      {"not (1 = 2)", "(NOT (1 = 2))"},
      {"1 != 2", "(NOT (1 = 2))"},
      {"1 in (1, 2)", "(1 IN (1, 2))"},
      {"true and false or true", "((true AND false) OR true)"},
      {"case when true then 1 else 2 end", "CASE WHEN true THEN 1 ELSE 2 END"},
      {"if(true, 1, 2)", "(IF(true, 1, 2))"},
      {"cast(1 as string)", "CAST(1 AS STRING)"},
      {"try_cast('a' as int)", "TRY_CAST(a AS INT)"},
      {"cast('1' as decimal(10,2))", "CAST(1 AS DECIMAL(10,2))"},
      {"'a' is null", "(a IS NULL)"},
      {"'a' like 'b'", "a LIKE b"},
      {"'a' not like 'b'", "(NOT a LIKE b)"},
      {"substring('abc', 1)", "substring(abc, 1, 2147483647)"},
      {"- (1)", "(- 1)"},
      {"negative(1)", "negative(1)"},
      {"'a' || 'b'", "concat(a, b)"},
      {"5 div 2", "(5 div 2)"},
      {"round(1.5)", "round(1.5, 0)"},
      {"ceil(1.5)", "CEIL(1.5)"},
      {"extract(year from DATE '2020-01-01')", "extract(year FROM DATE '2020-01-01')"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    t->sql = cases[i].sql;
    t->sql_size = strlen(t->sql);
    spark_value value = literal(t, cases[i].sql);
    assert_string_equal(value.name, cases[i].name);
  }
}

static void decimal_literals_grow_to_hold_their_value(void **state) {
  spark_translator *t = *state;
  static const struct {
    char *text;
    int precision, scale;
    const char *type;
  } cases[] = {{"1.25", 10, 0, "decimal(10,2)"}, {"12345678901.25", 10, 0, "decimal(13,2)"},
               {"1.5", 2, 1, "decimal(2,1)"},    {"0.05", 2, 2, "decimal(2,2)"},
               {"-7", 10, 0, "decimal(10,0)"},   {"1e3", 10, 0, "decimal(10,0)"},
               {"1", 38, 18, "decimal(38,18)"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    Spark__Connect__Expression__Literal__Decimal decimal = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL__INIT;
    Spark__Connect__Expression__Literal proto = SPARK__CONNECT__EXPRESSION__LITERAL__INIT;
    spark_value value;
    decimal.value = cases[i].text;
    decimal._precision_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___PRECISION_PRECISION;
    decimal.precision = cases[i].precision;
    decimal._scale_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___SCALE_SCALE;
    decimal.scale = cases[i].scale;
    proto.literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DECIMAL;
    proto.decimal = &decimal;
    assert_int_equal(spark__literal(t, &proto, NOWHERE, &value, NULL), TRN_OK);
    assert_type(value.expr, cases[i].type);
  }
}

static void hostile_literals_are_refused(void **state) {
  spark_translator *t = *state;
  static char *const texts[] = {
      "", "-", "1.2.3", "1e", "abc", "1e99999999999", "123456789012345678901234567890123456789"};
  spark_value value;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    Spark__Connect__Expression__Literal__Decimal decimal = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL__INIT;
    Spark__Connect__Expression__Literal proto = SPARK__CONNECT__EXPRESSION__LITERAL__INIT;
    decimal.value = texts[i];
    proto.literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DECIMAL;
    proto.decimal = &decimal;
    assert_int_equal(spark__literal(t, &proto, NOWHERE, &value, NULL), TRN_INVALID_ARGUMENT);
  }
  Spark__Connect__Expression__Literal bad = SPARK__CONNECT__EXPRESSION__LITERAL__INIT;
  bad.literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING;
  bad.string = "\xc3\x28";
  assert_int_equal(spark__literal(t, &bad, NOWHERE, &value, NULL), TRN_INVALID_ARGUMENT);
  /* an array in an array in an array ... */
  enum { DEEP = TRN_TYPE_DEPTH_MAX + 2 };
  static Spark__Connect__Expression__Literal literals[DEEP];
  static Spark__Connect__Expression__Literal__Array arrays[DEEP];
  static Spark__Connect__Expression__Literal *inner[DEEP];
  for (size_t i = 0; i < DEEP; i++) {
    spark__connect__expression__literal__init(&literals[i]);
    spark__connect__expression__literal__array__init(&arrays[i]);
    literals[i].literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_ARRAY;
    literals[i].array = &arrays[i];
    if (i) inner[i] = &literals[i - 1], arrays[i].elements = &inner[i], arrays[i].n_elements = 1;
  }
  assert_int_equal(spark__literal(t, &literals[DEEP - 1], NOWHERE, &value, NULL), TRN_RESOURCE_EXHAUSTED);
}

static void types_survive_the_way_to_protobuf_and_back(void **state) {
  spark_translator *t = *state;
  static const char *const texts[] = {"boolean",
                                      "tinyint",
                                      "smallint",
                                      "int",
                                      "bigint",
                                      "float",
                                      "double",
                                      "decimal(38,18)",
                                      "string",
                                      "binary",
                                      "date",
                                      "timestamp",
                                      "timestamp_ntz",
                                      "interval year",
                                      "interval year to month",
                                      "interval day to second",
                                      "interval hour to minute",
                                      "array<map<string,struct<a:int,b:array<decimal(3,1)>>>>",
                                      "char(5)",
                                      "varchar(3)",
                                      "time(3)",
                                      "void"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char json[256];
    const trn_type *type = NULL, *back = NULL;
    trn_error *error = NULL;
    snprintf(
        json, sizeof json,
        "{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":\"%s\",\"nullable\":false,\"metadata\":{\"k\":1}}]}",
        texts[i]);
    if (spark__schema_from_text(t->arena, json, strlen(json), &type, &error) != TRN_OK)
      fail_msg("%s: %s", texts[i], trn_error_message(error));
    Spark__Connect__DataType *proto = spark__type_to_proto(t->arena, type);
    assert_non_null(proto);
    assert_int_equal(spark__type_from_proto(t->arena, proto, &back, NULL), TRN_OK);
    assert_true(trn__type_equal(type, back));
    trn_strbuf text = {0};
    spark__type_simple(&text, back->fields[0].type);
    assert_string_equal(text.data, texts[i]);
    trn__strbuf_finish(&text);
    assert_string_equal(back->fields[0].metadata, "{\"k\":1}");
    assert_false(back->fields[0].nullable);
  }
}

static void schemas_too_deep_or_broken_are_refused(void **state) {
  spark_translator *t = *state;
  trn_strbuf deep = {0};
  const trn_type *type = NULL;
  for (int i = 0; i < 200; i++) trn__strbuf_puts(&deep, "{\"type\":\"array\",\"elementType\":");
  trn__strbuf_puts(&deep, "\"int\"");
  for (int i = 0; i < 200; i++) trn__strbuf_puts(&deep, ",\"containsNull\":true}");
  assert_int_equal(spark__schema_from_text(t->arena, deep.data, deep.size, &type, NULL), TRN_RESOURCE_EXHAUSTED);
  trn__strbuf_finish(&deep);
  static const char *const broken[] = {"{",
                                       "{}",
                                       "{\"type\":\"struct\"}",
                                       "{\"type\":\"struct\",\"fields\":[1]}",
                                       "\"nosuch\"",
                                       "{\"type\":\"map\",\"keyType\":\"int\"}",
                                       ""};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    trn_error *error = NULL;
    trn_status status = spark__schema_from_text(t->arena, broken[i], strlen(broken[i]), &type, &error);
    if (broken[i][0]) assert_int_not_equal(status, TRN_OK);
    trn_error_unref(error);
  }
}

/* casts.jsonl: which casts the analyzer refuses, and with what condition. */
static bool refusal_matches(spark_translator *t, const cJSON *json, size_t *judged) {
  const char *sql = cJSON_GetObjectItem(json, "expr")->valuestring;
  const cJSON *expected = cJSON_GetObjectItem(json, "error"), *type = cJSON_GetObjectItem(json, "type");
  Spark__Connect__Expression *parsed = NULL;
  spark_value value;
  trn_error *error = NULL;
  if (spark__sql_parse_expression(t->arena, sql, strlen(sql), NULL, &parsed, NULL) != TRN_OK) return true;
  trn_status status = spark__expression(t, parsed, &value, &error);
  bool same = true;
  if (status == TRN_UNIMPLEMENTED) {
    same = true;
  } else if (expected && !strncmp(expected->valuestring, "DATATYPE_MISMATCH", 17)) {
    same = status && trn_error_condition(error) && !strcmp(trn_error_condition(error), expected->valuestring);
    ++*judged;
  } else if (type && status == TRN_OK) {
    trn_strbuf text = {0};
    spark__type_simple(&text, value.expr->type);
    same = !strcmp(text.data, type->valuestring);
    trn__strbuf_finish(&text);
    ++*judged;
  } else if (status) {
    same = false; /* raises when it runs in Spark, not when it is analysed */
  }
  if (!same)
    print_message("%s: expected %s, got %s %s\n", sql, expected ? expected->valuestring : type->valuestring,
                  trn_status_name(status), error && trn_error_condition(error) ? trn_error_condition(error) : "");
  trn_error_unref(error);
  return same;
}

static void casts_are_allowed_and_refused_as_in_spark(void **state) {
  spark_translator *t = *state;
  FILE *file = fopen(TRUNNION_TEST_DATA "/spark/casts.jsonl", "r");
  char line[1024];
  size_t judged = 0, wrong = 0, total = 0;
  assert_non_null(file);
  t->timezone = "America/Los_Angeles";
  while (fgets(line, sizeof line, file)) {
    cJSON *json = cJSON_Parse(line);
    assert_non_null(json);
    total++;
    wrong += !refusal_matches(t, json, &judged);
    cJSON_Delete(json);
  }
  fclose(file);
  print_message("%zu casts, %zu judged, %zu wrong\n", total, judged, wrong);
  assert_int_equal(total, 2688);
  assert_true(judged > 2000);
  assert_int_equal(wrong, 0);
}

/* Every allocation may be the one that fails: the arena's cap grows by small steps until the expression fits. */
static void running_out_of_memory_is_an_error(void **state) {
  static const char *const expressions[] = {"1 + 2.5 * cast('3' as int)",
                                            "sum(1.5)",
                                            "count(distinct 1, 'a')",
                                            "case when 1 < 1.5 then 'a' else 'b' end",
                                            "'1994-01-01' >= date '1994-01-01'",
                                            "date '2020-01-31' + interval '1-2' year to month",
                                            "interval '1 02:03:04' day to second",
                                            "coalesce(null, 1, 2L)",
                                            "1 in (1, 2.5, 3L)",
                                            "concat('a', 1, date '2020-01-01')",
                                            "map('a', array(1, 2), 'b', array())",
                                            "named_struct('a', 1, 'b', map(1, 2))",
                                            "round(1.2345, 2)",
                                            "extract(second from timestamp '2020-01-01 00:00:01')",
                                            "1 + true",
                                            "upper(1, 2, 3)",
                                            "nosuch(1)",
                                            "cast(true as date)",
                                            "x'1f' like '%a'",
                                            "decode(1, 1, 'a', 2, 'b', 'c')",
                                            "timestampadd(month, 1, timestamp '2020-01-01 00:00:00')",
                                            "greatest(1, 2.5, 3D)",
                                            "make_dt_interval(1, 2, 3, 4.5)",
                                            "try_cast('a' as decimal(10,2))",
                                            "listagg('a', ',')",
                                            "regexp_extract('a1', '([a-z])(\\\\d)', 2)",
                                            "split('a,b', ',')",
                                            "regexp_replace('a', 'a+', '<$0>')",
                                            "'a' rlike '[ab]$'",
                                            "interval '1 day 2' day",
                                            "lead(1) over (order by 1)"};
  (void)state;
  for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
    trn_arena *text = trn__arena_create(0);
    Spark__Connect__Expression *parsed = NULL;
    assert_int_equal(spark__sql_parse_expression(text, expressions[i], strlen(expressions[i]), NULL, &parsed, NULL),
                     TRN_OK);
    size_t refused = 0, cap = 16;
    for (; cap < 1u << 20; cap += 16) {
      spark_translator t;
      spark_value value;
      trn_error *error = NULL;
      assert_int_equal(spark__translator_init(&t, NULL, NULL, NULL), TRN_OK);
      trn_arena *whole = t.arena;
      t.arena = trn__arena_create(cap);
      assert_non_null(t.arena);
      trn_status status = spark__expression(&t, parsed, &value, &error);
      trn__arena_unref(t.arena);
      trn__arena_unref(whole);
      trn_error_unref(error);
      assert_int_not_equal(status, TRN_INTERNAL);
      if (status != TRN_RESOURCE_EXHAUSTED) break;
      refused++;
    }
    if (cap >= 1u << 20 || refused == 0) fail_msg("%s: %zu times out of memory, cap %zu", expressions[i], refused, cap);
    trn__arena_unref(text);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_translator, drop_translator)
  const struct CMUnitTest tests[] = {
      TEST(integers_are_checked_in_ansi_mode_and_wrap_without),
      TEST(positions_reach_the_kernels),
      TEST(decimals_run_natively_only_within_38_digits),
      TEST(literals_take_the_type_of_what_they_are_compared_with),
      TEST(dates_move_by_intervals),
      TEST(negative_zero_equals_zero),
      TEST(aggregates_have_sparks_types),
      TEST(filters_and_order_follow_the_arguments),
      TEST(errors_are_sparks),
      TEST(names_are_sparks),
      TEST(decimal_literals_grow_to_hold_their_value),
      TEST(hostile_literals_are_refused),
      TEST(types_survive_the_way_to_protobuf_and_back),
      TEST(schemas_too_deep_or_broken_are_refused),
      TEST(casts_are_allowed_and_refused_as_in_spark),
      TEST(running_out_of_memory_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
