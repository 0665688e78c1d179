/* Spark relations that are long, deep or wide, and memory that runs out on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/spark_checks.h"

/* ---- size ---- */
static void on_big_stack(void *argument) {
  void (*run)(void) = *(void (**)(void))argument;
  run();
}

static void long_chains(void) {
  msg_expr *sum = msg_name(arena, "a", 0), *all = msg_call(arena, "<", msg_name(arena, "a", 0), msg_int(arena, 0));
  for (int i = 0; i < 4000; i++) {
    sum = msg_call(arena, "+", sum, msg_int(arena, i));
    all = msg_call(arena, "and", all, msg_call(arena, "<", msg_name(arena, "a", 0), msg_int(arena, i)));
  }
  check_relation("+", msg_project(arena, msg_table(arena, "u", 1), msg_as(arena, sum, "x"), NULL, 2), "x int");
  check_relation("and", msg_filter(arena, msg_table(arena, "u", 1), all, 2), "a int, b string, d bigint");
}

static void deep_relations(void) {
  msg_rel *r = msg_table(arena, "u", 1);
  for (int i = 0; i < 3000; i++) {
    r = msg_filter(arena, r, msg_call(arena, "<", msg_name(arena, "a", 0), msg_int(arena, i)), i + 2);
    if (i % 3 == 0)
      r = msg_with_column(arena, r, "d", msg_call(arena, "+", msg_name(arena, "a", i + 2), msg_int(arena, 1)),
                          10000 + i);
  }
  check_relation("deep", r, "a int, b string, d int");
  for (int i = 0; i < 4000; i++)
    r = msg_filter(arena, r, msg_call(arena, "<", msg_name(arena, "a", 0), msg_int(arena, i)), 20000 + i);
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  assert_int_equal(plans_relation(&plans, r, &plan, &error), TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "TRN_TRANSLATE_DEPTH_MAX"));
  trn_error_unref(error);
}

static void long_chains_and_deep_relations_work(void **state) {
  (void)state;
  void (*runs[])(void) = {long_chains, deep_relations};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    assert_int_equal(trn__run_on_big_stack(on_big_stack, &runs[i]), TRN_OK);
}

/* Memory of a plan of n columns over n columns: what is linear takes four times as much for four times the columns. */
static size_t bytes_of_wide(int n) {
  trn_strbuf query = {0};
  trn__strbuf_puts(&query, "select ");
  for (int i = 0; i < n; i++) trn__strbuf_printf(&query, "%sc%d + 1 as d%d", i ? ", " : "", i, i);
  trn__strbuf_puts(&query, " from (select ");
  for (int i = 0; i < n; i++) trn__strbuf_printf(&query, "%sa + %d as c%d", i ? ", " : "", i, i);
  trn__strbuf_puts(&query, " from u) order by d0");
  trn_plan *plan = NULL;
  assert_int_equal(plans_sql(&plans, query.data, &plan, NULL), TRN_OK);
  size_t bytes = trn__arena_bytes(plan->arena);
  trn_plan_unref(plan);
  trn__strbuf_finish(&query);
  return bytes;
}

static void wide_plans_cost_linear_memory(void **state) {
  (void)state;
  size_t small = bytes_of_wide(500), large = bytes_of_wide(2000);
  assert_in_range(large, small, small * 5);
}

/* ---- memory that runs out ---- */
static trn_status translate_within(const char *query, size_t bytes, trn_error **error) {
  spark_translator t;
  trn_plan *plan = NULL;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  assert_int_equal(spark__translator_init(&t, plans.session, plans.catalog, NULL), TRN_OK);
  trn__arena_unref(t.arena);
  t.arena = trn__arena_create(bytes);
  t.timezone = "UTC";
  t.state = t.arena ? TRN_NEW(t.arena, spark_state) : NULL;
  if (!t.state) {
    trn__arena_unref(t.arena);
    return TRN_RESOURCE_EXHAUSTED;
  }
  sql.query = (char *)query;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  trn_status status = spark__translate_relation(&t, &relation, &plan, error);
  trn_plan_unref(plan);
  return status;
}

static void out_of_memory_is_said_wherever_it_happens(void **state) {
  (void)state;
  static const char *const queries[] = {
      "select t.s.x as x, x + 1 as y, rank() over (partition by t.b order by t.c rows between 1 preceding and current "
      "row) "
      "from t full join u using (a) where t.b in (select b from u where u.a = t.a) order by y, t.m['k']",
      "with q as (select b, sum(d) as n from u group by rollup(b) having n > 1) select * from q x join q y on x.n = "
      "y.n "
      "union select b, a from u limit 5",
      "select *, explode(arr) as e from t lateral view posexplode(m) v as p, k, w",
      "select * from (select a, b, d from u) pivot (sum(d) for b in ('x' as x, 'y'))",
      "select * from values (1, 2.5), (2, null) as v(i, j) except all select a, 1 from twice",
      "select nope from t",
      "select arr[0], s.y.*, (select max(a) from u where u.b = t.b) from t where s.x between 1 and 2",
      "select * except (m), grouping(b) as g from t natural left join u group by all",
      "select * from t unpivot (v for n in (a as x, c as y)) order by all",
  };
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    trn_error *error = NULL;
    bool done = false;
    for (size_t bytes = 512; bytes < (1u << 20) && !done; bytes += 96) {
      error = NULL;
      trn_status status = translate_within(queries[i], bytes, &error);
      done = status != TRN_RESOURCE_EXHAUSTED;
      if (done && status != TRN_OK && status != TRN_INVALID_ARGUMENT)
        fail_msg("%s: %s", queries[i], trn_error_message(error));
      trn_error_unref(error);
    }
    assert_true(done);
  }
}

/* An operand of CASE is compared with every WHEN: nested, a tree of 4^60 nodes that are all the same sixty. */
static void shared_operands_do_not_multiply(void **state) {
  (void)state;
  trn_strbuf text = {0}, query = {0};
  for (int i = 0; i < 60; i++) trn__strbuf_puts(&text, "case ");
  trn__strbuf_puts(&text, "a");
  for (int i = 0; i < 60; i++) trn__strbuf_puts(&text, " when 1 then 2 when 3 then 4 when 5 then 6 when 7 then 8 end");
  trn__strbuf_printf(&query, "select 1 from u where %s > 1", text.data);
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = plans_sql(&plans, query.data, &plan, &error);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn_plan_unref(plan);
  trn_error_unref(error);
  query.size = 0;
  trn__strbuf_printf(&query, "select %s as x, %s as y, rank() over (order by %s) from u", text.data, text.data,
                     text.data);
  status = plans_sql(&plans, query.data, &plan, &error);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn_plan_unref(plan);
  trn_error_unref(error);
  trn__strbuf_finish(&query);
  trn__strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_chains_and_deep_relations_work),
      cmocka_unit_test(shared_operands_do_not_multiply),
      cmocka_unit_test(wide_plans_cost_linear_memory),
      cmocka_unit_test(out_of_memory_is_said_wherever_it_happens),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
