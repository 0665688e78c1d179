/* The examples of Spark's SQL function reference, against the schemas that Spark 4.2 gives them: generated names,
 * types, nullability. Nothing is executed. What is not supported yet must say so: a wrong schema is never right. */
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

#define EXAMPLES 1176
#define PASSED_MIN 851
#define WRONG_MAX 14 /* one of them: a lambda's (y, x) is named as struct(y, x) is */

typedef struct tally {
  size_t total, passed, unsupported, wrong;
} tally;

static bool same_fields(const trn_type *expected, const trn_plan *plan, const char *query) {
  bool same = expected->field_count == plan->field_count;
  if (!same) print_message("%s\n  columns: expected %u, got %u\n", query, expected->field_count, plan->field_count);
  for (uint32_t i = 0; same && i < plan->field_count; i++) {
    const trn_field *want = &expected->fields[i], *got = &plan->fields[i];
    bool type = trn__type_equal(want->type, got->type);
    if (!strcmp(want->name, got->name) && want->nullable == got->nullable && type) continue;
    trn_strbuf text = {0};
    trn__strbuf_printf(&text, "%s\n  expected `%s` ", query, want->name);
    spark__type_sql(&text, want->type);
    trn__strbuf_printf(&text, "%s\n       got `%s` ", want->nullable ? "" : " NOT NULL", got->name);
    spark__type_sql(&text, got->type);
    trn__strbuf_printf(&text, "%s\n", got->nullable ? "" : " NOT NULL");
    print_message("%s", text.data ? text.data : "");
    trn__strbuf_finish(&text);
    same = false;
  }
  return same;
}

static void replay(const char *line, tally *counts) {
  cJSON *json = cJSON_Parse(line), *schema = cJSON_GetObjectItem(json, "schema");
  assert_non_null(json);
  const char *query = cJSON_GetObjectItem(json, "query")->valuestring;
  char *schema_text = cJSON_PrintUnformatted(schema);
  trn_arena *arena = trn__arena_create(0);
  trn_error *error = NULL;
  trn_plan *plan = NULL;
  spark_translator t;
  spark_sql_statement statement;
  const trn_type *expected = NULL;
  counts->total++;
  assert_int_equal(spark__translator_init(&t, NULL, NULL, NULL), TRN_OK);
  t.sql = query;
  t.sql_size = strlen(query);
  trn_status status = spark__sql_parse_statement(arena, query, strlen(query), NULL, &statement, &error);
  if (!status && statement.kind == SPARK_SQL_QUERY) {
    status = spark__translate_relation(&t, statement.relation, &plan, &error);
  } else {
    trn__arena_unref(t.arena);
    if (!status) status = TRN_UNIMPLEMENTED;
  }
  if (status) {
    const char *condition = trn_error_condition(error);
    bool unsupported = status == TRN_UNIMPLEMENTED;
    if (unsupported)
      counts->unsupported++;
    else
      counts->wrong++;
    print_message("%s %s\n  %s: %s\n", unsupported ? "UNSUPPORTED" : "FAILED", query, condition ? condition : "",
                  trn_error_message(error));
    const trn_error_param *params;
    size_t count = trn_error_params(error, &params);
    for (size_t i = 0; i < count && !unsupported; i++) print_message("    %s: %s\n", params[i].key, params[i].value);
  } else if (spark__schema_from_text(arena, schema_text, strlen(schema_text), &expected, NULL) != TRN_OK) {
    counts->unsupported++; /* a type that is not supported */
  } else if (same_fields(expected, plan, query)) {
    counts->passed++;
  } else {
    counts->wrong++;
  }
  trn_error_unref(error);
  trn_plan_unref(plan);
  trn__arena_unref(arena);
  free(schema_text);
  cJSON_Delete(json);
}

static void run_all(void *argument) {
  tally *counts = argument;
  FILE *file = fopen(TRUNNION_TEST_DATA "/spark/functions.jsonl", "r");
  char *line = NULL;
  size_t capacity = 0;
  if (!file) return;
  while (getline(&line, &capacity, file) > 0) replay(line, counts);
  free(line);
  fclose(file);
}

static void examples_have_sparks_schemas(void **state) {
  (void)state;
  tally counts = {0};
  assert_int_equal(trn__run_on_big_stack(run_all, &counts), TRN_OK);
  print_message("%zu examples: %zu as Spark, %zu not supported, %zu wrong\n", counts.total, counts.passed,
                counts.unsupported, counts.wrong);
  assert_int_equal(counts.total, EXAMPLES);
  assert_true(counts.passed >= PASSED_MIN);
  assert_true(counts.wrong <= WRONG_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(examples_have_sparks_schemas)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
