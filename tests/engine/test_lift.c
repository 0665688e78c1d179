/* SQL that is lifted to a resolved plan and lowered again gives the rows that the engine gives for the text itself. */
#include "sql_fixture.h"

/* ---- the engine alone ---- */

typedef struct direct {
  trn_resolved_table tables[64];
  trn_engine_plan *views[64];
  size_t count;
  trn_engine_session *session;
} direct;

static trn_embedded *embedded(void) { return ((trn_embedded_session *)trn_session_backend_state(session))->backend; }

static int32_t resolve_directly(void *user, const char *const *parts, size_t count, trn_engine_table *out) {
  direct *d = user;
  trn_error *error = NULL;
  trn_resolved_table *t = &d->tables[d->count];
  trn_status status = trn_session_resolve_table(session, parts, count, t, &error);
  trn_error_unref(error);
  if (status) return (int32_t)status;
  if (t->plan) {
    assert_int_equal(trn__embedded_lower(embedded(), d->session, t->plan, NULL, &d->views[d->count], NULL), TRN_OK);
    assert_int_equal(trn_plan_schema(t->plan, &out->schema), TRN_OK);
  } else {
    out->schema = t->schema;
    t->schema.release = NULL;
    out->source = t->source->source;
  }
  out->plan = d->views[d->count++];
  return TRN_OK;
}

typedef struct engine_pull {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool done;
  struct ArrowArray array;
  int32_t status;
} engine_pull;

static void engine_pulled(void *user, struct ArrowArray *array, trn_engine_error *failure) {
  engine_pull *p = user;
  pthread_mutex_lock(&p->mu);
  p->status = failure->status;
  if (failure->status) print_error("%s\n", failure->message);
  if (failure->release) failure->release(failure->self);
  if (!p->status && array) p->array = *array;
  p->done = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->mu);
}

static void check_engine(int32_t status, trn_engine_error *failure, const char *sql) {
  if (status) fail_msg("%s: %d %s", sql, status, failure->message);
}

/* `plan`: the lifted one, for the types that the result is cast to. */
static char *run_directly(const char *sql, const trn_plan *plan) {
  const trn_engine *engine = embedded()->engine;
  direct d = {0};
  trn_engine_error failure = {0};
  trn_engine_statement statement = {0};
  trn_engine_execution *execution = NULL;
  struct ArrowSchema schema = {0};
  trn_strbuf out = {0};
  assert_int_equal(trn__embedded_engine_session(trn_session_backend_state(session), &d.session, NULL), TRN_OK);
  const trn_engine_statement_input input = {
      .struct_size = sizeof input, .sql = sql, .size = strlen(sql), .resolve = resolve_directly, .user = &d};
  assert_int_equal(trn_plan_schema(plan, &schema), TRN_OK);
  check_engine(engine->statement(d.session, &input, &statement, &failure), &failure, sql);
  check_engine(engine->execute(d.session, statement.plan, &schema, &execution, &failure), &failure, sql);
  for (;;) {
    engine_pull p = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    check_engine(engine->next_array(execution, engine_pulled, &p, &failure), &failure, sql);
    pthread_mutex_lock(&p.mu);
    while (!p.done) pthread_cond_wait(&p.changed, &p.mu);
    pthread_mutex_unlock(&p.mu);
    if (p.status) fail_msg("%s", sql);
    if (!p.array.release) break;
    put_batch(&out, &schema, &p.array);
    p.array.release(&p.array);
  }
  trn__strbuf_putc(&out, 0);
  schema.release(&schema);
  engine->execution_release(execution);
  engine->plan_release(statement.plan);
  statement.release(statement.self);
  for (size_t i = 0; i < d.count; i++) {
    if (d.views[i]) engine->plan_release(d.views[i]);
    if (d.tables[i].schema.release) d.tables[i].schema.release(&d.tables[i].schema);
    if (d.tables[i].source) trn__embedded_source_release(d.tables[i].source);
    trn_plan_unref(d.tables[i].plan);
    trn_table_unref(d.tables[i].table);
    trn_scan_label_unref(d.tables[i].label);
  }
  engine->session_release(d.session);
  return out.data;
}

/* ---- both ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lines in order, where the query leaves the order open. */
static void sort_lines(char *text) {
  size_t count = 0, size = strlen(text);
  char *copy = strdup(text), **lines = calloc(size + 1, sizeof *lines);
  for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) lines[count++] = line;
  qsort(lines, count, sizeof *lines, by_text);
  for (size_t i = 0, at = 0; i < count; i++) at += (size_t)sprintf(text + at, "%s\n", lines[i]);
  free(lines), free(copy);
}

static bool is_opaque(trn_plan *plan) {
  char *text = NULL;
  assert_int_equal(trn_plan_print(plan, &text), TRN_OK);
  bool found = strstr(text, "opaque") != NULL;
  trn_free(text);
  return found;
}

enum { ROWS = 1, OPAQUE = 2 /* some of it has no form of ours */ };

static void same_rows(const char *sql, int flags) {
  trn_statement statement;
  trn_error *error = NULL;
  trn_status status = decode(sql, &statement, &error);
  if (status) fail_with(status, error, sql);
  assert_int_equal(statement.kind, TRN_STATEMENT_QUERY);
  if (is_opaque(statement.plan) != ((flags & OPAQUE) != 0)) {
    char *text = NULL;
    trn_plan_print(statement.plan, &text);
    fail_msg("%s\n%s", sql, text);
  }
  char *lifted = execute(statement.plan, sql), *itself = run_directly(sql, statement.plan);
  sort_lines(lifted), sort_lines(itself);
  if (!(flags & ROWS)) assert_string_equal(lifted, "");
  else if (!*itself) fail_msg("%s: no rows", sql);
  if (strcmp(lifted, itself)) fail_msg("%s\nlifted:\n%s\nitself:\n%s", sql, lifted, itself);
  free(lifted), free(itself);
  statement.release(&statement);
}

static const char *const tables[] = {
    "create table t (a bigint, b double, c varchar, d date, e boolean)",
    "insert into t values (1, 1.5, 'x', date '2020-01-01', true), (2, 2.5, 'y', date '2021-02-03', false),"
    " (3, null, 'x', null, null), (4, 4.5, null, date '2020-01-01', true), (2, 7.5, 'zz', date '1999-12-31', false)",
    "create table u (k bigint, v varchar)",
    "insert into u values (1, 'one'), (2, 'two'), (5, 'five'), (null, 'none')",
    "create table n as select 1 as id, make_array(1, 2, 3) as l, named_struct('p', 1, 'q', 'z') as s"
    " union all select 2, make_array(), named_struct('p', 2, 'q', 'w') union all select 3, null, null",
    "create view w as select a, c, b * 2 as bb from t where a > 1",
    NULL};

static const struct {
  const char *sql;
  int flags;
} queries[] = {
    {"select 1", ROWS},
    {"select * from t", ROWS},
    {"select a + 1, b * 2.5, upper(c), -a from t where a > 1 and (c = 'x' or c is null)", ROWS},
    {"select a from t where false", 0},
    {"select t.*, u.* from t join u on t.a = u.k", ROWS},
    {"select * from t left join u on t.a = u.k and u.v <> 'two'", ROWS},
    {"select * from t right join u on t.a = u.k", ROWS},
    {"select * from t full join u on t.a = u.k", ROWS},
    {"select * from t join u using (a)", 64},
    {"select * from t natural join (select a, c from t) as other", ROWS},
    {"select * from t cross join u", ROWS},
    {"select x.a, y.a from t x join t y on x.a < y.a", ROWS},
    {"select * from t left semi join u on t.a = u.k", ROWS},
    {"select * from t left anti join u on t.a = u.k", ROWS},
    {"select * from t right semi join u on t.a = u.k", ROWS},
    {"select * from t right anti join u on t.a = u.k", ROWS},
    {"select c, count(*), sum(a), avg(b), min(d), max(c) from t group by c", ROWS},
    {"select c, count(distinct a), sum(b) filter (where a > 1) from t group by c having count(*) > 0", ROWS},
    {"select count(*), sum(a) from t", ROWS},
    {"select array_agg(a order by a desc) from t", ROWS},
    {"select string_agg(c, ',' order by c) from t", ROWS},
    {"select c, a, sum(b), grouping(c), grouping(a) from t group by rollup (c, a)", ROWS},
    {"select c, a, sum(b), grouping(c) from t group by cube (c, a)", ROWS},
    {"select c, a, count(*) from t group by grouping sets ((c), (a), ())", ROWS},
    {"select distinct c from t", ROWS},
    {"select distinct on (c) c, a from t order by c, a desc", ROWS},
    {"select * from t order by b desc nulls last, a limit 3", ROWS},
    {"select * from t order by a, b offset 2 limit 2", ROWS},
    {"select a from t union all select k from u", ROWS},
    {"select a from t union select k from u", ROWS},
    {"select a from t intersect select k from u", ROWS},
    {"select a from t except select k from u", ROWS},
    {"select a, row_number() over (order by a, b), rank() over (partition by c order by a) from t", ROWS},
    {"select a, sum(a) over (order by a, b rows between 1 preceding and 1 following) from t", ROWS},
    {"select a, sum(b) over (order by a range between 1 preceding and current row) from t", ROWS},
    {"select a, lag(a, 1, 0) over (order by a, b), first_value(c) ignore nulls over (order by b, a) from t", ROWS},
    {"select a, count(*) filter (where a > 1) over (partition by c) from t", ROWS | OPAQUE},
    {"select a, ntile(2) over (order by a, b), cume_dist() over (order by a) from t", ROWS},
    {"select * from (values (1, 'a', 1.5), (2, null, null)) as v (i, s, f)", ROWS},
    {"select a from t where a in (select k from u)", ROWS},
    {"select a from t where a not in (select k from u where k is not null)", ROWS},
    {"select a from t where exists (select 1 from u where u.k = t.a)", ROWS},
    {"select a from t where not exists (select 1 from u where u.k = t.a and u.v = 'one')", ROWS},
    {"select a, (select max(v) from u where u.k = t.a) from t", ROWS},
    {"select a, (select count(*) from u) from t", ROWS},
    {"select a from t where b >= (select avg(b) from t i where i.c = t.c)", ROWS},
    {"select case when a > 2 then 'big' when a = 2 then 'two' else c end, case a when 1 then 'one' end from t", ROWS},
    {"select a between 2 and 3, c like '%x%', c ilike 'X', c not like 'z_', c is distinct from 'x' from t", ROWS},
    {"select a in (1, 2), a not in (3), e is true, e is not false, e is unknown from t", ROWS},
    {"select cast(a as varchar), try_cast(c as int), cast(d as timestamp), b::varchar from t", ROWS},
    {"select c || '-' || a, c ~ '^x', c !~ 'y', a & 1, a | 4, a ^ 1, a << 1, a >> 1 from t", ROWS},
    {"select c similar to 'x|y' from t", ROWS},
    {"select date_trunc('month', d), extract(year from d), d + interval '1 day', d - date '2020-01-01' from t", ROWS},
    {"select timestamp '2020-01-01 00:00:00', date '2020-02-02', interval '1 month 2 days', x'ff', 1.25, 1e3", ROWS},
    {"select now() is not null, current_date is not null", ROWS},
    {"select make_array(1, 2, 3), [1, 2], named_struct('x', 1, 'y', 'z'), map(['k'], [1])", ROWS},
    {"select id, l[1], s.p, s['q'], array_length(l) from n", ROWS},
    {"select id, unnest(l) from n", ROWS},
    {"select unnest([1, 2, 3])", ROWS},
    {"select id, unnest(s) from n", ROWS | OPAQUE},
    {"select * from generate_series(1, 5)", ROWS},
    {"select a from w where bb > 4", ROWS},
    {"select x.a, y.a from w x join w y on x.a = y.a", ROWS},
    {"select count(*) from w, t", ROWS},
    {"with q as (select a, b from t where a > 1), r as (select * from q) select * from q join r using (a)", ROWS},
    {"with recursive r (i) as (select 1 union all select i + 1 from r where i < 5) select * from r", ROWS | OPAQUE},
    {"with recursive r as (select a as i from t where a = 1 union all select i + 1 from r, u where i < 3) select * from r",
     ROWS | OPAQUE},
    {"select * from t, lateral (select v from u where u.k = t.a) as l", ROWS | OPAQUE},
    {"select arrow_cast(a, 'UInt64') + arrow_cast(1, 'UInt64'), arrow_cast(a, 'Timestamp(Nanosecond, None)'),"
     " arrow_cast(a, 'UInt8'), arrow_typeof(arrow_cast(a, 'Float16')) from t",
     ROWS},
    {"select arrow_cast(18446744073709551615, 'UInt64'), arrow_cast('2020-01-01T00:00:00.123456789', "
     "'Timestamp(Nanosecond, Some(\"Europe/Berlin\"))')",
     ROWS},
    {"select array_transform([1, 2], x -> x + 1)", 64},
    {"select nullif(a, 2), coalesce(c, 'none'), greatest(a, 2), abs(-a), round(b, 1), substr(c, 1, 1) from t", ROWS},
    {"select 1 where (select count(*) from t) = 5", ROWS},
    {"select first_value(a order by b desc), last_value(c order by a), bool_and(e), var_pop(b) from t", ROWS},
    {"select approx_distinct(c), median(a), stddev(b), corr(a, b) from t", ROWS},
    {"select percentile_cont(0.5) within group (order by a) from t", ROWS},
    {"select a as \"A b\", a as \"A b2\" from t order by \"A b\"", ROWS},
    {"select * from t where a = any (select k from u)", ROWS | 128},
    {"explain select * from t", 256},
};

/* 64: the engine refuses the text; 128: opaque or not, as the engine plans it; 256: rows are of the plan itself. */
static void texts_survive(void **state) {
  (void)state;
  run_all(tables);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    int flags = queries[i].flags;
    trn_statement statement;
    trn_error *error = NULL;
    if (flags & 64) {
      if (!decode(queries[i].sql, &statement, &error)) fail_msg("%s is understood", queries[i].sql);
      assert_true(trn_error_message(error)[0] != 0);
      trn_error_unref(error);
    } else if (flags & (128 | 256)) {
      if (decode(queries[i].sql, &statement, &error)) fail_msg("%s: %s", queries[i].sql, trn_error_message(error));
      bool opaque = is_opaque(statement.plan);
      statement.release(&statement);
      if (flags & 256) {
        char *text = run_sql(queries[i].sql);
        assert_non_null(strstr(text, "physical_plan"));
        free(text);
      } else {
        same_rows(queries[i].sql, (flags & ROWS ? ROWS : 0) | (opaque ? OPAQUE : 0) | ROWS);
      }
    } else {
      if (getenv("TRUNNION_TEST_VERBOSE")) print_message("%s\n", queries[i].sql);
      same_rows(queries[i].sql, flags);
    }
  }
}

/* ---- TPC-H ---- */

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  char *text = calloc(1, 1 << 16);
  size_t size = fread(text, 1, (1 << 16) - 1, file);
  while (size && (text[size - 1] == '\n' || text[size - 1] == ';')) text[--size] = 0;
  fclose(file);
  return text;
}

static void tpch_survives(void **state) {
  (void)state;
  static const char *const names[] = {"region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"};
  const char *data = getenv("TRUNNION_TPCH_DATA"), *folder = getenv("TRUNNION_TPCH_QUERIES");
  char text[1024];
  if (!data || !folder) {
    print_message("SKIPPED: TRUNNION_TPCH_DATA and TRUNNION_TPCH_QUERIES are not set\n");
    skip();
  }
  for (size_t i = 0; i < 8; i++) {
    snprintf(text, sizeof text, "create external table %s stored as parquet location '%s/%s.parquet'", names[i], data, names[i]);
    free(run_sql(text));
  }
  for (int q = 1; q <= 22; q++) {
    snprintf(text, sizeof text, "%s/q%02d.sql", folder, q);
    char *sql = read_text(text);
    assert_non_null(sql);
    same_rows(sql, q == 0 ? 0 : ROWS);
    free(sql);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_survive), cmocka_unit_test(tpch_survives)};
  const char *path = getenv("TRUNNION_ENGINE");
  if (!path || access(path, R_OK)) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: TRUNNION_ENGINE=%s is not readable\n", path ? path : "");
    return 0;
  }
  return cmocka_run_group_tests(tests, open_session, close_session);
}
