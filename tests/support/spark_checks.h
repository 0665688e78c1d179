/* What tests of Spark relations share: tables, and checks of a plan's fields, its text or the error. Include it once,
 * after cmocka. */
#ifndef TRN_TESTS_SPARK_CHECKS_H
#define TRN_TESTS_SPARK_CHECKS_H
#include "support/spark_messages.h"
#include "support/spark_plans.h"

static spark_plans plans;
static trn_arena *arena;

static const char T[] =
    "a INT, b STRING, c DOUBLE, s STRUCT<x: INT, y: STRUCT<z: STRING>>, arr ARRAY<INT>, m MAP<STRING, INT>";

static int set_up(void **state) {
  (void)state;
  arena = trn__arena_create(0);
  return arena && plans_open(&plans) && plans_tpch(&plans) && plans_table(&plans, "t", T) &&
                 plans_table(&plans, "u", "a INT, b STRING, d BIGINT") && plans_table(&plans, "twice", "a INT, A INT")
             ? 0
             : -1;
}

static int tear_down(void **state) {
  (void)state;
  plans_close(&plans);
  trn__arena_unref(arena);
  return 0;
}

/* ---- what came out ---- */
/* Fields as "name type[!], ..." with ! for not null. */
static void fields_text(const trn_plan *plan, trn_strbuf *out) {
  for (uint32_t i = 0; i < plan->field_count; i++) {
    trn__strbuf_printf(out, "%s%s ", i ? ", " : "", plan->fields[i].name);
    spark__type_simple(out, plan->fields[i].type);
    if (!plan->fields[i].nullable) trn__strbuf_putc(out, '!');
  }
}

static void error_text(const trn_error *error, trn_strbuf *out) {
  const trn_error_param *params = NULL;
  size_t count = trn_error_params(error, &params);
  trn__strbuf_puts(out, trn_error_condition(error) ? trn_error_condition(error) : trn_error_message(error));
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(out, " %s=%s", params[i].key, params[i].value);
}

/* Checks fields (when the text starts with '|': the plan behind it too) or, with '!', the error. */
static void check(const char *what, trn_status status, trn_plan *plan, trn_error *error, const char *expected) {
  trn_strbuf text = {0};
  if (status != TRN_OK) {
    trn__strbuf_putc(&text, '!');
    error_text(error, &text);
  } else if (expected[0] == '|') {
    trn__strbuf_puts(&text, "|");
    trn__rel_print(&text, plan->root);
    while (text.size && text.data[text.size - 1] == '\n') text.data[--text.size] = 0;
  } else {
    fields_text(plan, &text);
  }
  if (strcmp(text.data ? text.data : "", expected) != 0) {
    print_error("%s\n", what);
    assert_string_equal(text.data ? text.data : "", expected);
  }
  trn__strbuf_finish(&text);
  trn_plan_unref(plan);
  trn_error_unref(error);
}

static inline void check_sql(const char *query, const char *expected) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = plans_sql(&plans, query, &plan, &error);
  check(query, status, plan, error, expected);
}

static inline void check_relation(const char *what, const msg_rel *relation, const char *expected) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = plans_relation(&plans, relation, &plan, &error);
  check(what, status, plan, error, expected);
}

typedef struct sql_case {
  const char *query, *expected;
} sql_case;

static inline void check_all(const sql_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) check_sql(cases[i].query, cases[i].expected);
}
#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof *(cases))

#endif
