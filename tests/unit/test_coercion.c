/* Type coercion against answers recorded from Spark 4.2: result type or error condition of an operator for each pair of
 * types, ANSI on and off. Operands are literals, as they were when the answers were recorded. */
#include "frontend/spark/translate/values.h"
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ANSWERS 12100
static const trn_position NOWHERE = {-1, -1};

typedef struct world {
  spark_translator t;
} world;

static spark_value number(world *w, trn_type_id id, const char *name) {
  spark_value value = {
      .expr = trn__expr_int(w->t.arena, trn__type(id), 1), .name = name, .is_foldable = true, .is_literal = true};
  assert_non_null(value.expr);
  return value;
}

static spark_value cast_one(world *w, const trn_type *type) {
  spark_value one = number(w, TRN_TYPE_INT32, "1"), out;
  assert_int_equal(spark__cast_value(&w->t, &one, type, false, NOWHERE, &out, NULL), TRN_OK);
  return out;
}

static spark_value text(world *w, const char *value) {
  spark_value out = {.expr = trn__expr_string(w->t.arena, value, strlen(value)),
                     .name = value,
                     .is_foldable = true,
                     .is_literal = true};
  assert_non_null(out.expr);
  return out;
}

static spark_value typed(world *w, char *type, char *literal) {
  Spark__Connect__TrnTypedString proto = SPARK__CONNECT__TRN_TYPED_STRING__INIT;
  spark_value out;
  proto.type = type;
  proto.text = literal;
  assert_int_equal(spark__typed_string(&w->t, &proto, NOWHERE, &out, NULL), TRN_OK);
  return out;
}

static spark_value interval(world *w, const char *value, char *from, char *to) {
  Spark__Connect__TrnInterval proto = SPARK__CONNECT__TRN_INTERVAL__INIT;
  char *names[] = {from, to};
  spark_value written = text(w, value), out;
  proto.units = names;
  proto.n_units = 2;
  assert_int_equal(spark__interval(&w->t, &proto, &written, 1, NOWHERE, &out, NULL), TRN_OK);
  return out;
}

static spark_value called(world *w, const char *name, const spark_value *args, size_t count) {
  spark_call call = {.name = name, .args = args, .arg_count = count, .position = NOWHERE};
  spark_value out;
  assert_int_equal(spark__call(&w->t, &call, &out, NULL), TRN_OK);
  return out;
}

static spark_value nested(world *w, const char *type) {
  spark_value one = number(w, TRN_TYPE_INT32, "1"), pair[2] = {text(w, "a"), one};
  if (!strcmp(type, "array<int>")) return called(w, "array", &one, 1);
  if (!strcmp(type, "map<string,int>")) return called(w, "map", pair, 2);
  assert_string_equal(type, "struct<a:int>");
  return called(w, "named_struct", pair, 2);
}

static spark_value literal_of(world *w, const char *type) {
  static const struct {
    const char *name;
    trn_type_id id;
  } casts[] = {{"tinyint", TRN_TYPE_INT8}, {"smallint", TRN_TYPE_INT16}, {"float", TRN_TYPE_FLOAT32}};
  for (size_t i = 0; i < 3; i++)
    if (!strcmp(type, casts[i].name)) return cast_one(w, trn__type(casts[i].id));
  int precision, scale;
  if (sscanf(type, "decimal(%d,%d)", &precision, &scale) == 2)
    return cast_one(w, trn__type_decimal(w->t.arena, precision, scale));
  if (!strcmp(type, "int")) return number(w, TRN_TYPE_INT32, "1");
  if (!strcmp(type, "bigint")) return number(w, TRN_TYPE_INT64, "1");
  if (!strcmp(type, "string")) return text(w, "1");
  if (!strcmp(type, "date")) return typed(w, "DATE", "2020-01-01");
  if (!strcmp(type, "timestamp")) return typed(w, "TIMESTAMP", "2020-01-01 00:00:00");
  if (!strcmp(type, "timestamp_ntz")) return typed(w, "TIMESTAMP_NTZ", "2020-01-01 00:00:00");
  if (!strcmp(type, "time(6)")) return typed(w, "TIME", "01:02:03");
  if (!strcmp(type, "interval day to second")) return interval(w, "1 02:03:04", "day", "second");
  if (!strcmp(type, "interval year to month")) return interval(w, "1-2", "year", "month");
  spark_value out = {.name = type, .is_foldable = true, .is_literal = true};
  if (!strcmp(type, "boolean"))
    out.expr = trn__expr_bool(w->t.arena, true);
  else if (!strcmp(type, "null"))
    out.expr = trn__expr_null(w->t.arena, trn__type(TRN_TYPE_NULL));
  else if (!strcmp(type, "double"))
    out.expr = spark__double_literal(&w->t, 1, trn__type(TRN_TYPE_FLOAT64));
  else if (!strcmp(type, "binary"))
    assert_int_equal(
        spark__cast(&w->t, text(w, "1").expr, trn__type(TRN_TYPE_BINARY), SPARK_CAST_ANSI, NOWHERE, &out.expr, NULL),
        TRN_OK);
  else
    return nested(w, type);
  return out;
}

/* The type's text, or the condition. */
static void answer(world *w, const char *op, const spark_value *pair, char *out, size_t size) {
  trn_error *error = NULL;
  const trn_type *type = NULL;
  spark_value result, all[3] = {{0}, pair[0], pair[1]};
  if (!strcmp(op, "union")) {
    const trn_type *types[2] = {pair[0].expr->type, pair[1].expr->type};
    assert_int_equal(spark__common_type(&w->t, types, 2, &type), TRN_OK);
    if (!type) {
      snprintf(out, size, "INCOMPATIBLE_COLUMN_TYPE");
      return;
    }
  } else {
    bool three = !strcmp(op, "if");
    all[0] = (spark_value){.expr = trn__expr_bool(w->t.arena, true), .name = "true", .is_literal = true};
    spark_call call = {.name = op, .args = three ? all : pair, .arg_count = three ? 3 : 2, .position = NOWHERE};
    if (spark__call(&w->t, &call, &result, &error) != TRN_OK) {
      snprintf(out, size, "%s", trn_error_condition(error) ? trn_error_condition(error) : trn_error_message(error));
      trn_error_unref(error);
      return;
    }
    type = result.expr->type;
    assert_true(result.name && result.name[0]);
  }
  trn_strbuf text = {0};
  spark__type_simple(&text, type);
  snprintf(out, size, "%s", text.data ? text.data : "");
  trn__strbuf_finish(&text);
}

static bool replay(const char *line, bool show) {
  cJSON *json = cJSON_Parse(line);
  assert_non_null(json);
  const char *op = cJSON_GetObjectItem(json, "op")->valuestring, *left = cJSON_GetObjectItem(json, "left")->valuestring,
             *right = cJSON_GetObjectItem(json, "right")->valuestring;
  const cJSON *expected = cJSON_GetObjectItem(json, "type");
  if (!expected) expected = cJSON_GetObjectItem(json, "error");
  world w = {
      .t = {.arena = trn__arena_create(0), .timezone = "UTC", .ansi = cJSON_IsTrue(cJSON_GetObjectItem(json, "ansi"))}};
  assert_non_null(w.t.arena);
  spark_value pair[2] = {literal_of(&w, left), literal_of(&w, right)};
  char got[256];
  answer(&w, op, pair, got, sizeof got);
  bool same = !strcmp(got, expected->valuestring);
  if (!same && show)
    print_message("ansi=%d %s %s %s: expected %s, got %s\n", w.t.ansi, left, op, right, expected->valuestring, got);
  trn__arena_unref(w.t.arena);
  cJSON_Delete(json);
  return same;
}

static void every_recorded_answer_is_given(void **state) {
  (void)state;
  FILE *file = fopen(TRUNNION_TEST_DATA "/spark/coercion.jsonl", "r");
  assert_non_null(file);
  char line[1024];
  size_t total = 0, passed = 0;
  while (fgets(line, sizeof line, file)) {
    total++;
    passed += replay(line, total - passed < 2000);
  }
  fclose(file);
  print_message("%zu of %zu recorded answers\n", passed, total);
  assert_int_equal(total, ANSWERS);
  assert_int_equal(passed, ANSWERS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_recorded_answer_is_given)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
