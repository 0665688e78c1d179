/* Plans in other encodings: what is encoded and decoded again gives the same rows; bytes that are no plan are refused. */
#include "sql_fixture.h"

static const char *const tables[] = {"create table t (a bigint, b double, c varchar, d date)",
                                     "insert into t values (1, 1.5, 'x', date '2020-01-01'), (2, 2.5, 'y', null), (3, 0.5, 'x', null)",
                                     "create table u as select 1 as k, 'one' as v union all select 3, 'three'", NULL};

static trn_status decode_as(const char *format, const void *data, size_t size, trn_plan **out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input, .format = format, .data = data, .size = size,
                                .resolve = trn_session_resolve_table, .resolve_user = session};
  *out = NULL;
  return trn_backend_decode(session, &input, out, error);
}

enum { LOGICAL = 1, SUBSTRAIT = 2, PHYSICAL = 4, ALL = 7 };
static const struct { const char *sql; int formats; } queries[] = {
    {"select a, b * 2 as bb, upper(c) as cc from t where a > 1 order by a", ALL},
    {"select c, count(*) as n, sum(b) as s from t group by c order by c", ALL},
    {"select t.a, u.v from t join u on t.a = u.k order by a", ALL},
    {"select t.a, u.v from t left join u on t.a = u.k order by a", ALL},
    {"select a from t where a in (select k from u) order by a", ALL},
    {"select a from t union all select k from u", LOGICAL | SUBSTRAIT | PHYSICAL},
    {"select a, row_number() over (order by b) as n from t order by a", LOGICAL | SUBSTRAIT | PHYSICAL},
    {"select case when a > 1 then 'many' else 'one' end as w from t order by a", ALL},
    {"select 1 as one, 'text' as two", LOGICAL | PHYSICAL},
    {"select distinct c from t order by c limit 1", ALL},
};

static void goes_round(const char *sql, const char *format) {
  trn_statement s;
  trn_error *error = NULL;
  trn_bytes bytes = {0};
  trn_plan *again = NULL;
  trn_status status = decode(sql, &s, &error);
  if (status) fail_with(status, error, sql);
  char *expected = execute(s.plan, sql);
  status = trn_backend_encode(session, s.plan, format, &bytes, &error);
  if (status) fail_with(status, error, sql);
  assert_true(bytes.size > 0);
  status = decode_as(format, bytes.data, bytes.size, &again, &error);
  if (status) fail_with(status, error, sql);
  char *rows = execute(again, sql);
  if (strcmp(rows, expected)) fail_msg("%s as %s\n%s\nnot\n%s", sql, format, rows, expected);
  struct ArrowSchema a = {0}, b = {0};
  assert_int_equal(trn_plan_schema(s.plan, &a), TRN_OK);
  assert_int_equal(trn_plan_schema(again, &b), TRN_OK);
  for (int64_t i = 0; i < a.n_children; i++) assert_string_equal(a.children[i]->name, b.children[i]->name);
  a.release(&a), b.release(&b);
  free(rows), free(expected);
  trn_plan_unref(again);
  bytes.release(bytes.owner);
  s.release(&s);
}

static void encodings_go_round(void **state) {
  (void)state;
  run_all(tables);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
    if (queries[i].formats & LOGICAL) goes_round(queries[i].sql, "datafusion.logical.v1");
    if (queries[i].formats & SUBSTRAIT) goes_round(queries[i].sql, "substrait.plan.v1");
    if (queries[i].formats & PHYSICAL) goes_round(queries[i].sql, "datafusion.physical.v1");
  }
}

/* A message whose field 1 holds a message, and so on. */
static char *nested(size_t levels, size_t *size) {
  enum { ROOM = 12 };
  char *bytes = calloc(levels + 1, ROOM), *end = bytes + (levels + 1) * ROOM, *at = end;
  for (size_t i = 0; i < levels; i++) {
    size_t inner = (size_t)(end - at), count = 0;
    uint8_t head[ROOM] = {0x12}; /* field 2, bytes: in both formats a message that holds others */
    for (head[1 + count] = inner & 0x7f; inner >>= 7; head[1 + count] = inner & 0x7f) head[1 + count++] |= 0x80;
    at -= count + 2;
    memcpy(at, head, count + 2);
  }
  *size = (size_t)(end - at);
  char *out = malloc(*size);
  memcpy(out, at, *size);
  free(bytes);
  return out;
}

static const char *const formats[] = {"datafusion.logical.v1", "substrait.plan.v1", "datafusion.physical.v1"};

static void bad_bytes_are_refused(void **state) {
  (void)state;
  uint32_t random = 12345;
  char noise[256];
  for (size_t f = 0; f < 3; f++) {
    trn_plan *plan;
    trn_error *error = NULL;
    for (int round = 0; round < 200; round++) {
      size_t size = (size_t)(round % sizeof noise);
      for (size_t i = 0; i < size; i++) noise[i] = (char)((random = random * 1103515245 + 12345) >> 16);
      if (!decode_as(formats[f], noise, size, &plan, &error)) {
        trn_plan_unref(plan); /* a few bytes may well be a plan */
        continue;
      }
      assert_true(trn_error_message(error)[0] != 0);
      trn_error_unref(error), error = NULL;
    }
    size_t size;
    char *deep = nested(100000, &size);
    trn_status status = decode_as(formats[f], deep, size, &plan, &error);
    if (status != TRN_RESOURCE_EXHAUSTED && status != TRN_INVALID_ARGUMENT)
      fail_msg("%s: %s", formats[f], trn_status_name(status));
    trn_error_unref(error), error = NULL;
    free(deep);
  }
}

static void cut_plans_are_refused(void **state) {
  (void)state;
  for (size_t f = 0; f < 3; f++) {
    trn_statement s;
    trn_bytes bytes = {0};
    trn_error *error = NULL;
    assert_int_equal(decode("select c, sum(b) as s from t join u on a = k where a < 10 group by c", &s, NULL), TRN_OK);
    assert_int_equal(trn_backend_encode(session, s.plan, formats[f], &bytes, NULL), TRN_OK);
    for (size_t size = 0; size < bytes.size; size += 1 + bytes.size / 97) {
      trn_plan *plan;
      if (!decode_as(formats[f], bytes.data, size, &plan, &error)) trn_plan_unref(plan);
      trn_error_unref(error), error = NULL;
    }
    bytes.release(bytes.owner);
    s.release(&s);
  }
}

static void unknown_names_are_told(void **state) {
  (void)state;
  trn_statement s;
  trn_bytes bytes = {0};
  trn_error *error = NULL;
  trn_plan *plan;
  free(run_sql("create table gone as select 1 as x"));
  assert_int_equal(decode("select x from gone", &s, NULL), TRN_OK);
  assert_int_equal(trn_backend_encode(session, s.plan, "substrait.plan.v1", &bytes, NULL), TRN_OK);
  s.release(&s);
  free(run_sql("drop table gone"));
  assert_int_equal(decode_as("substrait.plan.v1", bytes.data, bytes.size, &plan, &error), TRN_NOT_FOUND);
  const trn_error_param *params = NULL; /* the catalog's own error, as it gave it */
  size_t count = trn_error_params(error, &params);
  assert_string_equal(trn_error_condition(error), "TABLE_OR_VIEW_NOT_FOUND");
  assert_true(count > 0 && strstr(params[0].value, "gone"));
  trn_error_unref(error);
  bytes.release(bytes.owner);
}

static void physical_plans_are_opaque(void **state) {
  (void)state;
  trn_statement s;
  trn_bytes bytes = {0};
  trn_plan *plan;
  assert_int_equal(decode("select a from t", &s, NULL), TRN_OK);
  assert_int_equal(trn_backend_encode(session, s.plan, "datafusion.physical.v1", &bytes, NULL), TRN_OK);
  assert_int_equal(decode_as("datafusion.physical.v1", bytes.data, bytes.size, &plan, NULL), TRN_OK);
  assert_int_equal(plan->kind, TRN_PLAN_PHYSICAL);
  assert_int_equal(plan->root->kind, TRN_REL_OPAQUE);
  trn_plan_unref(plan);
  bytes.release(bytes.owner);
  s.release(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(encodings_go_round), cmocka_unit_test(bad_bytes_are_refused),
                                     cmocka_unit_test(cut_plans_are_refused), cmocka_unit_test(unknown_names_are_told),
                                     cmocka_unit_test(physical_plans_are_opaque)};
  const char *path = getenv("TRUNNION_ENGINE");
  if (!path || access(path, R_OK)) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: TRUNNION_ENGINE=%s is not readable\n", path ? path : "");
    return 0;
  }
  return cmocka_run_group_tests(tests, open_session, close_session);
}
