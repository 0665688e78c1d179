/* Plans whose shared parts make trees that are exponentially larger: refused before anybody walks them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "optimize/optimize.h"
#include "support/spark_client.h"

static const trn_expr *doubled(trn_arena *arena, const trn_expr *expr, unsigned times) {
  for (unsigned i = 0; i < times; i++) {
    const trn_expr *args[2] = {expr, expr};
    expr = trn__expr_call(arena, TRN_HOME_NATIVE, "+", expr->type, false, args, 2);
  }
  return expr;
}

static trn_status check_expressions(unsigned times, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  const trn_expr *expr = doubled(arena, trn__expr_int(arena, trn__type(TRN_TYPE_INT64), 1), times);
  const trn_column column = {.id = 1, .type = expr->type};
  const trn_rel *one = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, NULL, 0, NULL, 0);
  trn_status status = trn__plan_check_size(trn__rel_project(arena, one, &expr, &column, 1), error);
  trn__arena_unref(arena);
  return status;
}

static void shared_expressions_count_as_often_as_they_are_used(void **state) {
  (void)state;
  trn_error *error = NULL;
  assert_int_equal(check_expressions(18, &error), TRN_OK);
  assert_int_equal(check_expressions(60, &error), TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "expressions"));
  trn_error_unref(error);
  assert_int_equal(check_expressions(2000, NULL), TRN_RESOURCE_EXHAUSTED); /* and nothing overflows */
}

static trn_status check_relations(unsigned times, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *rel = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, NULL, 0, NULL, 0);
  for (unsigned i = 0; i < times; i++) {
    const trn_rel *inputs[2] = {rel, rel};
    rel = trn__rel_create(arena, TRN_REL_UNION, inputs, 2, NULL, 0, NULL, 0);
  }
  trn_status status = trn__plan_check_size(rel, error);
  trn__arena_unref(arena);
  return status;
}

static void shared_relations_too(void **state) {
  (void)state;
  trn_error *error = NULL;
  assert_int_equal(check_relations(10, &error), TRN_OK);
  assert_int_equal(check_relations(40, &error), TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "relations"));
  trn_error_unref(error);
}

static void rows_of_literals_are_data(void **state) {
  (void)state;
  enum { ROWS = 2 << 20 };
  trn_arena *arena = trn__arena_create(0);
  const trn_expr **rows = TRN_NEW_N(arena, const trn_expr *, ROWS);
  const trn_expr *one = trn__expr_int(arena, trn__type(TRN_TYPE_INT64), 1);
  for (size_t i = 0; i < ROWS; i++) rows[i] = one;
  const trn_column column = {.id = 1, .type = one->type};
  trn_rel *values = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, rows, ROWS, &column, 1);
  values->u.values.row_count = ROWS;
  assert_int_equal(trn__plan_check_size(values, NULL), TRN_OK);
  trn__arena_unref(arena);
}

/* BETWEEN reads its operand twice: 60 inside each other must not be 2^60 translations. */
static void operands_that_are_read_twice_are_translated_once(void **state) {
  (void)state;
  spark_client client;
  trn_strbuf text = {0};
  test_plan p;
  assert_int_equal(client_start(&client, NULL), 0);
  trn__strbuf_puts(&text, "select ");
  for (int i = 0; i < 60; i++) trn__strbuf_puts(&text, "cast((");
  trn__strbuf_puts(&text, "1");
  for (int i = 0; i < 60; i++) trn__strbuf_puts(&text, ") between 0 and 1 as int)");
  assert_false(text.failed);
  responses r = client_execute(&client, sql_plan(&p, text.data), (execute_options){0});
  assert_string_equal(r.reply.message, ""); /* each operand once: 60 calls */
  responses_finish(&r);
  trn__strbuf_finish(&text);
  client_stop(&client);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_expressions_count_as_often_as_they_are_used),
      cmocka_unit_test(shared_relations_too),
      cmocka_unit_test(rows_of_literals_are_data),
      cmocka_unit_test(operands_that_are_read_twice_are_translated_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
