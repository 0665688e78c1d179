/* Spark SQL from its text to the bytes for an engine - parser, translator, decorrelation, pruning, lowering, printing - while
 * the k-th allocation fails, on the heap or in an arena: once, and from then on. It says that memory is out and nothing
 * else, or its result is the same to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/lift.h"
#include "optimize/optimize.h"
#include "support/spark_plans.h"
#include <trunnion/sql.h>

/* ---- allocations that fail ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_trn__arena_alloc(trn_arena *arena, size_t size);
void *__real_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count);
void *__real_trn__arena_copy(trn_arena *arena, const void *data, size_t size);
char *__real_trn__arena_str(trn_arena *arena, const char *data, size_t size);
char *__real_trn__arena_strdup(trn_arena *arena, const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_trn__arena_alloc(trn_arena *arena, size_t size);
void *__wrap_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count);
void *__wrap_trn__arena_copy(trn_arena *arena, const void *data, size_t size);
char *__wrap_trn__arena_str(trn_arena *arena, const char *data, size_t size);
char *__wrap_trn__arena_strdup(trn_arena *arena, const char *text);

static _Thread_local long countdown = -1; /* allocations of this thread before one fails; -1: none does */
static _Thread_local bool goes_on;        /* all later ones fail, too */
static _Thread_local long failures, seen;

static bool fails(void) {
  seen++;
  if (countdown < 0) return false;
  if (countdown > 0) {
    countdown--;
    return false;
  }
  if (!goes_on) countdown = -1;
  failures++;
  return true;
}

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}
/* More than there can be: the arena refuses as it does when there is no memory. */
static void *refused(trn_arena *arena) {
  return __real_trn__arena_alloc(arena, SIZE_MAX);
}
void *__wrap_trn__arena_alloc(trn_arena *arena, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_alloc(arena, size);
}
void *__wrap_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count) {
  return fails() ? refused(arena) : __real_trn__arena_alloc_n(arena, size, count);
}
void *__wrap_trn__arena_copy(trn_arena *arena, const void *data, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_copy(arena, data, size);
}
char *__wrap_trn__arena_str(trn_arena *arena, const char *data, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_str(arena, data, size);
}
char *__wrap_trn__arena_strdup(trn_arena *arena, const char *text) {
  return fails() ? refused(arena) : __real_trn__arena_strdup(arena, text);
}

/* ---- from a text to bytes ---- */

typedef struct made {
  trn_lowered lowered;
  char *printed, *sql;
  char text[300]; /* of the error */
} made;

static void made_finish(made *m) {
  trn__lowered_finish(&m->lowered);
  trn_free(m->printed);
  trn_free(m->sql);
}

static trn_status lower(const trn_plan *plan, made *out, trn_error **error) {
  const trn_rel *root = NULL;
  uint32_t next = plan->next_column;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__plan_check_size(plan->root, error);
  if (!status) status = trn__decorrelate(arena, plan->root, &next, &root, error);
  if (!status) status = trn__prune(arena, root, next, &root, error);
  if (!status) status = trn__lower(root, false, &out->lowered, error);
  trn__arena_unref(arena);
  return status;
}

static trn_status make(spark_plans *plans, const char *sql, made *out) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  *out = (made){0};
  trn_status status = plans_sql(plans, sql, &plan, &error);
  if (!status) status = lower(plan, out, &error);
  if (!status) status = trn_plan_print(plan, &out->printed);
  if (!status) status = trn_plan_to_sql(plan, "duckdb", &out->sql, &error);
  if (status == TRN_UNIMPLEMENTED && out->printed) status = TRN_OK; /* Spark's own functions have no other spelling */
  trn_plan_unref(plan);
  snprintf(out->text, sizeof out->text, "%s", trn_error_message(error));
  trn_error_unref(error);
  return status;
}

static bool is_same(const made *a, const made *b) {
  return a->lowered.bytes.size == b->lowered.bytes.size &&
         memcmp(a->lowered.bytes.data, b->lowered.bytes.data, a->lowered.bytes.size) == 0 &&
         strcmp(a->printed, b->printed) == 0 && strcmp(a->sql ? a->sql : "", b->sql ? b->sql : "") == 0;
}

/* All of the first ones, then fewer: later ones are more of the same. */
static long step(long k) {
  return k < 300 ? 1 : 1 + k / 60;
}

/* How often something else came of it. */
static long survives(spark_plans *plans, const char *sql) {
  made whole, now;
  seen = 0;
  trn_status status = make(plans, sql, &whole);
  long count = seen, wrong = 0;
  if (status) fail_msg("%s: %d %s", sql, (int)status, whole.text);
  for (int mode = 0; mode < 2; mode++) {
    for (long k = 0; k < count; k += step(k)) {
      failures = 0;
      goes_on = mode == 1;
      countdown = k;
      status = make(plans, sql, &now);
      countdown = -1;
      goes_on = false;
      bool is_good = status ? status == TRN_RESOURCE_EXHAUSTED : is_same(&whole, &now);
      if (!is_good && ++wrong <= 3)
        print_error("%s\n  allocation %ld of %ld%s: status %d, %s\n", sql, k, count, mode ? " and all later ones" : "",
                    (int)status, status ? now.text : "another result");
      if (!failures && k < count / 2) fail_msg("nothing failed");
      made_finish(&now);
    }
  }
  print_message("  %5ld allocations: %.60s\n", count, sql);
  made_finish(&whole);
  return wrong;
}

static const char *const simple[] = {
    "select 1 as a, 'x' || upper('y') b, null, date '2020-01-01', interval 1 day, 1.5e0, x'00ff', timestamp '2020-01-01 00:00:00'",
    "select * from values (1, 'a'), (2, null) as t(x, y) where x in (1, 2, 3) and y is not null order by 1 desc nulls first limit 3 offset 1",
    "select case when n_nationkey > 3 then 'a' when n_nationkey between 1 and 2 then n_name else cast(n_nationkey as string) end, "
    "n_name like 'A%', n_name rlike 'x+', try_cast(n_name as int) from nation",
    "select named_struct('a', 1, 'b', map('k', array(1.5))).b['k'][0], struct(1, 2).col1, array(1, 2)[0]",
    "select transform(array(1, 2, 3), x -> x + 1), filter(array(1), (x, i) -> x > i), aggregate(array(1, 2), 0, (a, x) -> a + x)",
    "select s.* except (n_comment) from nation s",
};

static const char *const relational[] = {
    "select n_regionkey, count(*), sum(distinct n_nationkey), max(n_name) filter (where n_nationkey > 1) from nation group by n_regionkey "
    "having count(*) > 1 order by 2",
    "select n_regionkey, n_name, grouping(n_name), grouping_id(), count(*) from nation group by rollup (n_regionkey, n_name)",
    "select * from nation n left join region r on n.n_regionkey = r.r_regionkey and r_name > 'a' full join (select 1 as k) x on k = 1",
    "select * from nation a join nation b using (n_nationkey) natural join (select 1 as n_nationkey)",
    "select n_name from nation union all select r_name from region union select 'x' except select 'y' intersect all select 'z'",
    "select *, row_number() over w, sum(n_nationkey) over (partition by n_regionkey order by n_name rows between 1 preceding and current row) "
    "from nation window w as (partition by n_regionkey order by n_name desc)",
    "select * from (select n_regionkey k, n_name v from nation) pivot (count(v) as c for k in (1 as one, 2))",
    "select * from (select 1 as a, 2 as b) unpivot (v for n in (a, b))",
    "select n_name, x from nation lateral view outer explode(array(1, 2)) e as x",
    "select * from range(10) tablesample (50 percent) repeatable (3)",
};

/* Functions, types and spellings: one or two of each family. */
static const char *const functions[] = {
    "select substring(n_name, 2, 3), trim(both 'x' from n_name), overlay(n_name placing 'ab' from 2), position('a' in n_name), "
    "split(n_name, ','), concat_ws('-', n_name, 'x'), regexp_extract(n_name, '(a)', 1), lpad(n_name, 5) from nation",
    "select date_add(o_orderdate, 3), o_orderdate + interval '1-2' year to month, extract(year from o_orderdate), "
    "date_format(o_orderdate, 'yyyy'), to_date('2020', 'yyyy'), datediff(o_orderdate, current_date()), months_between(o_orderdate, o_orderdate) "
    "from orders",
    "select cast('1' as decimal(10, 2)) + 1.25, 5 / 2, 5 div 2, 5 % 2, -n_nationkey, ~1, 1 & 2, abs(-3), round(2.5, 0), greatest(1, 2L, 3.5), "
    "coalesce(null, n_nationkey), nullif(1, 2), nvl2(null, 1, 2), if(true, 1, 2) from nation",
    "select map_keys(map(1, 'a')), array_contains(array(1), 1), sort_array(array(3, 1)), element_at(array(1), 1), size(array()), "
    "map_filter(map(1, 2), (k, v) -> k > v), zip_with(array(1), array(2), (a, b) -> a * b), exists(array(1), x -> x = 1), "
    "array_sort(array(2, 1), (a, b) -> a - b)",
    "select cast(array(1, 2) as array<string>), cast(named_struct('a', 1) as struct<b: bigint>), to_json(named_struct('a', 1)), "
    "from_json('{}', 'a INT, b ARRAY<STRING>'), get_json_object('{}', '$.a')",
    "select percentile_approx(n_nationkey, 0.5), collect_list(n_name), stddev(n_nationkey), corr(n_nationkey, n_regionkey), any_value(n_name), "
    "count_if(n_name = 'x'), first(n_name, true), approx_count_distinct(n_name) from nation",
    "select ntile(3) over (order by n_name), percent_rank() over (order by n_name), first_value(n_name) ignore nulls over (order by n_name "
    "range between unbounded preceding and current row), lead(n_name, 2, 'z') over (partition by n_regionkey order by n_name) from nation",
    "select inline(array(struct(1, 'a'))), n_name from nation",
    "select stack(2, 1, 2, 3)",
    "select distinct n_name as x from nation order by x",
};

static const char *const nested[] = {
    "with a as (select 1 as x), b as (select x + 1 as y from a) select * from a, b where a.x < b.y",
    "select s_name from supplier where exists (select 1 from nation where n_nationkey = s_nationkey) and s_acctbal > "
    "(select avg(s_acctbal) from supplier s2 where s2.s_nationkey = supplier.s_nationkey)",
    "select n_name, (select count(*) from supplier where s_nationkey = n_nationkey and s_acctbal > n_nationkey) from nation "
    "where n_regionkey not in (select r_regionkey from region where r_name = n_name)",
    "select * from region, lateral (select n_name from nation where n_regionkey = r_regionkey order by 1 limit 2)",
};

static void all_survive(const char *const *texts, size_t count) {
  spark_plans plans;
  assert_true(plans_open(&plans) && plans_tpch(&plans));
  long wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += survives(&plans, texts[i]);
  plans_close(&plans);
  assert_int_equal(wrong, 0);
}

static void simple_texts(void **state) {
  (void)state;
  all_survive(simple, sizeof simple / sizeof *simple);
}

static void relational_texts(void **state) {
  (void)state;
  all_survive(relational, sizeof relational / sizeof *relational);
}

static void texts_with_functions(void **state) {
  (void)state;
  all_survive(functions, sizeof functions / sizeof *functions);
}

/* Fewer of their allocations: there are thousands. */
static void tpch(void **state) {
  static const int numbers[] = {2, 7, 13, 15, 18, 20, 21, 22};
  (void)state;
  char texts[sizeof numbers / sizeof *numbers][4096];
  const char *list[sizeof numbers / sizeof *numbers];
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/tpch/q%02d.sql", TRUNNION_TEST_DATA, numbers[i]);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(texts[i], 1, sizeof texts[i] - 1, file);
    fclose(file);
    texts[i][size] = 0;
    list[i] = texts[i];
  }
  all_survive(list, sizeof numbers / sizeof *numbers);
}

static void nested_texts(void **state) {
  (void)state;
  all_survive(nested, sizeof nested / sizeof *nested);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(simple_texts), cmocka_unit_test(relational_texts),
                                     cmocka_unit_test(nested_texts), cmocka_unit_test(texts_with_functions),
                                     cmocka_unit_test(tpch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
