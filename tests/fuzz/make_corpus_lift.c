/* Writes the corpus of the lifting fuzzer: plans of queries, lowered. usage: make_corpus_lift FOLDER */
#include <stdlib.h>

#include "engine/engine.h"
#include "optimize/optimize.h"
#include "support/spark_plans.h"

static const struct query {
  const char *name, *text;
} queries[] = {
    {"values", "select * from values (1, 'a', 1.5), (2, null, 2.5) t(a, b, c)"},
    {"types", "select 1Y, 2S, 3L, 1.5f, 2.5d, 3.25BD, true, X'00ff', date'2024-02-29', timestamp'2024-01-01 00:00:00', "
              "timestamp_ntz'2024-01-01 00:00:00', interval '1' year, interval '1' day, null, array(1, null), map('a', 1), "
              "named_struct('x', 1, 'y', array(array('z')))"},
    {"filter", "select a + 1 as x, upper(b) from t where a > 1 and b like 'x%' or c is null"},
    {"case", "select case when a = 1 then b when a in (2, 3, 4) then 'x' else cast(a as string) end from t"},
    {"join", "select t.a, u.d from t left join u on t.a = u.a and u.d > date'2020-01-01'"},
    {"semi", "select * from t where exists (select 1 from u where u.a = t.a) and a not in (select a from u)"},
    {"scalar", "select a, (select max(d) from u where u.a = t.a) from t"},
    {"aggregate", "select b, sum(a), count(distinct c), avg(c) filter (where a > 0) from t group by b having count(*) > 1"},
    {"rollup", "select a, b, grouping_id(), sum(c) from t group by rollup (a, b)"},
    {"window", "select sum(c) over (partition by b order by a rows between 1 preceding and current row), rank() over (order by c) from t"},
    {"sort", "select * from t order by a desc nulls last, b limit 5 offset 2"},
    {"sets", "select a from t union all select a from u union select 1 except select 2 intersect select 3"},
    {"nested", "select s.x, s.y[0], m['k'], explode(s.y) from u"},
    {"lambda", "select transform(s.y, (e, i) -> concat(e, cast(i as string))), aggregate(sequence(1, 5), 0, (x, y) -> x + y), "
               "filter(s.y, e -> e is not null) from u"},
    {"range", "select id % 7 as k, count(*) from range(0, 100, 3) group by id % 7"},
    {"cte", "with x as (select a from t), y as (select a + 1 as a from x) select * from x join y using (a)"},
    {"recursive", "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r"},
    {"sample", "select * from t tablesample (10 percent) repeatable (3)"},
    {"distinct", "select distinct a, b from t"},
    {"lateral", "select * from t, lateral (select d from u where u.a = t.a limit 1)"},
    {"unpivot", "select * from t unpivot (v for n in (a, c))"},
    {"pivot", "select * from t pivot (sum(c) for b in ('x', 'y'))"},
};

static void write_one(const char *folder, const char *name, const trn_plan *plan) {
  const trn_rel *root = NULL;
  trn_lowered lowered = {0};
  trn_error *error = NULL;
  uint32_t next = plan->next_column;
  char path[4096];
  trn_arena *arena = trn__arena_create(0);
  trn_status status = trn__decorrelate(arena, plan->root, &next, &root, &error);
  if (!status) status = trn__prune(arena, root, next, &root, &error);
  if (!status) status = trn__lower(root, false, &lowered, &error);
  if (status) {
    fprintf(stderr, "%s: %s\n", name, trn_error_message(error));
    exit(1);
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file) exit(1);
  fputc((int)root->column_count, file);
  fwrite(lowered.bytes.data, 1, lowered.bytes.size, file);
  fclose(file);
  trn__lowered_finish(&lowered);
  trn__arena_unref(arena);
}

static void run(void *argument) {
  const char *folder = argument;
  spark_plans plans;
  if (!plans_open(&plans) || !plans_table(&plans, "t", "a INT, b STRING, c DECIMAL(10,2)") ||
      !plans_table(&plans, "u", "a BIGINT, d DATE, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>"))
    exit(1);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    trn_plan *plan = NULL;
    trn_error *error = NULL;
    if (plans_sql(&plans, queries[i].text, &plan, &error)) {
      fprintf(stderr, "%s: %s\n", queries[i].name, trn_error_message(error));
      trn_error_unref(error);
      continue;
    }
    write_one(folder, queries[i].name, plan);
    trn_plan_unref(plan);
  }
  plans_close(&plans);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  return trn__run_on_big_stack(run, argv[1]) ? 1 : 0;
}
