/* Aggregates that are functions of the list of a group's values: every row of the table in one go, and in two halves
 * that are merged through their states. Results as real Spark 4.2 gives them for one partition. */
#include "harness.h"

#define VALUES_MAX 16
typedef struct list_row {
  const char *name, *result, *values[VALUES_MAX], *literals[4]; /* values: "i|1"; literals: "g|0.5", "Lg|0.1,0.9" */
} list_row;

static const trn_aggregate_function *find(const char *name) {
  const trn_function_library *library = h_library();
  for (size_t i = 0; i < library->aggregate_count; i++)
    if (strcmp(library->aggregates[i]->name, name) == 0) return library->aggregates[i];
  fail_msg("no aggregate %s", name);
  return NULL;
}

typedef struct run {
  const trn_aggregate_function *function;
  h_array value, literals[4];
  trn_function_arg args[5];
  size_t count;
  h_error e;
  trn_function_error error;
} run;

/* Feeds values from..to-1, one at a time. */
static trn_status feed(run *r, const list_row *row, void *state, size_t from, size_t to) {
  static const size_t GROUP = 0;
  trn_status status = TRN_OK;
  for (size_t i = from; i < to && status == TRN_OK; i++) {
    h_array one;
    h_build(row->values[i], 1, H_OFFSET, false, &one);
    r->args[0] = (trn_function_arg){&one.schema, &one.array, false};
    status = r->function->update(state, r->args, r->count, 1, &GROUP, NULL, 1, &r->error);
    h_free(&one);
  }
  return status;
}

static void start(run *r, const list_row *row) {
  memset(r, 0, sizeof *r);
  r->function = find(row->name);
  r->error = h_sink(&r->e);
  h_build(row->values[0], 1, 0, false, &r->value);
  r->args[0] = (trn_function_arg){&r->value.schema, NULL, false};
  r->count = 1;
  for (size_t i = 0; i < 4 && row->literals[i]; i++, r->count++) {
    h_build(row->literals[i], 1, 0, false, &r->literals[i]);
    r->args[r->count] = (trn_function_arg){&r->literals[i].schema, &r->literals[i].array, true};
  }
}

static void finish(run *r, const list_row *row, void *state, trn_status status, struct ArrowSchema *schema,
                   const char *how) {
  struct ArrowArray out;
  char shown[256] = "";
  h_row expected = {.name = row->name, .result = row->result, .args = {row->values[0], row->literals[0]}};
  if (status == TRN_OK) status = r->function->evaluate(state, 1, &out, &r->error);
  if (status == TRN_OK) {
    h_show(schema, &out, 0, shown, sizeof shown);
    out.release(&out);
  }
  h_expect(&expected, how, status, schema->format, shown, &r->e);
  r->function->destroy(state);
  h_free(&r->value);
  for (size_t i = 0; i + 1 < r->count; i++) h_free(&r->literals[i]);
  schema->release(schema);
}

static void one(const list_row *row) {
  run r;
  void *state = NULL, *other = NULL;
  struct ArrowSchema schema;
  size_t count = 0;
  while (count < VALUES_MAX && row->values[count]) count++;
  start(&r, row);
  assert_int_equal(r.function->bind(r.function, r.args, r.count, &schema, &r.error), TRN_OK);
  assert_int_equal(r.function->create(r.function, r.args, r.count, &state, &r.error), TRN_OK);
  finish(&r, row, state, feed(&r, row, state, 0, count), &schema, "in one go");

  start(&r, row);
  assert_int_equal(r.function->bind(r.function, r.args, r.count, &schema, &r.error), TRN_OK);
  assert_int_equal(r.function->create(r.function, r.args, r.count, &state, &r.error), TRN_OK);
  assert_int_equal(r.function->create(r.function, r.args, r.count, &other, &r.error), TRN_OK);
  struct ArrowArray half;
  static const size_t GROUP = 0;
  trn_status status = feed(&r, row, state, 0, count / 2);
  if (status == TRN_OK) status = feed(&r, row, other, count / 2, count);
  /* A state without rows has no group yet: it gets one, as the engine does it. */
  if (status == TRN_OK) status = r.function->emit_state(other, 1, &half, &r.error);
  const struct ArrowArray *states[1] = {&half};
  if (status == TRN_OK) {
    status = r.function->merge(state, states, 1, 1, &GROUP, 1, &r.error);
    half.release(&half);
  }
  r.function->destroy(other);
  finish(&r, row, state, status, &schema, "merged");
}

static void percentiles(void **state) {
  (void)state;
  static const list_row ROWS[] = {
      {"trn.percentile", "g|1.5", {"g|1", "g|2"}, {"g|0.5"}},
      {"trn.percentile", "[1.25,1.5]", {"g|2", "g|~", "g|1"}, {"Lg|0.25,0.5"}},
      {"trn.percentile", "~", {"g|~"}, {"g|0.5"}},
      {"trn.percentile_desc", "g|3.25", {"g|1", "g|2", "g|3", "g|4"}, {"g|0.25"}},
      {"trn.percentile_disc", "g|2", {"g|1", "g|2", "g|3", "g|4"}, {"g|0.3"}},
      {"trn.percentile_disc_desc", "g|3", {"g|1", "g|2", "g|3", "g|4"}, {"g|0.3"}},
      {"trn.approx_percentile", "[1,1,0]", {"i|0", "i|1", "i|2", "i|10"}, {"Lg|0.5,0.4,0.1", "l|100"}},
      {"trn.approx_percentile", "i|7", {"i|0", "i|6", "i|7", "i|9", "i|10"}, {"g|0.5", "l|100"}},
      {"trn.approx_percentile", "d:3,2|2.50", {"d:3,2|1.50", "d:3,2|2.50", "d:3,2|3.25"}, {"g|0.5", "l|10000"}},
      {"trn.product", "g|24", {"g|2", "g|3", "g|4", "g|~"}, {0}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) one(&ROWS[i]);
}

static void modes(void **state) {
  (void)state;
  static const list_row ROWS[] = {
      {"trn.mode", "i|100", {"i|5", "i|3", "i|100", "i|77", "i|12"}, {0}},
      {"trn.mode", "l|100", {"l|5", "l|3", "l|100", "l|77", "l|12"}, {0}},
      {"trn.mode", "g|100", {"g|5.5", "g|3.5", "g|100", "g|77", "g|12"}, {0}},
      {"trn.mode", "u|b", {"u|a", "u|b", "u|c", "u|zz", "u|y"}, {0}},
      {"trn.mode", "i|0", {"i|-10", "i|0", "i|10"}, {0}},
      {"trn.mode", "b|false", {"b|true", "b|false"}, {0}},
      {"trn.mode", "i|7", {"i|5", "i|7", "i|7", "i|~", "i|~", "i|~"}, {0}},
      {"trn.mode_first", "i|5", {"i|7", "i|5"}, {0}},
      {"trn.mode_last", "i|7", {"i|7", "i|5"}, {0}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) one(&ROWS[i]);
}

static void sketches(void **state) {
  (void)state;
  static const list_row ROWS[] = {
      {"trn.approx_count_distinct", "l|3", {"i|1", "i|1", "i|2", "i|2", "i|3", "i|~"}, {0}},
      {"trn.approx_count_distinct", "l|2", {"u|a", "u|b", "u|~", "u|a"}, {"g|0.01"}},
      {"trn.count_min_sketch",
       "z|0000000100000000000000030000000100000004000000005d8d6ab90000000000000000000000000000000200000000000000010000000000"
       "000000",
       {"i|1", "i|2", "i|1"},
       {"g|0.5", "g|0.5", "l|1"}},
      {"trn.bitmap_construct_agg", "!INVALID_BITMAP_POSITION", {"l|32768"}, {0}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) one(&ROWS[i]);
}

/* 10,000 numbers at three precisions: the estimates that Spark gives. */
static void estimates(void **state) {
  (void)state;
  static const struct {
    double deviation;
    int64_t estimate;
  } KNOWN[] = {{0.05, 9571}, {0.1, 9472}, {0.01, 9965}};
  enum { COUNT = 10000 };
  const trn_aggregate_function *function = find("trn.approx_count_distinct");
  int64_t *values = malloc(COUNT * sizeof *values);
  size_t *groups = calloc(COUNT, sizeof *groups);
  for (int64_t i = 0; i < COUNT; i++) values[i] = i;
  for (size_t k = 0; k < sizeof KNOWN / sizeof KNOWN[0]; k++) {
    h_error e;
    trn_function_error error = h_sink(&e);
    const void *buffers[2] = {NULL, values}, *literal[2] = {NULL, &KNOWN[k].deviation};
    struct ArrowSchema wide = {.format = "l", .name = ""}, real = {.format = "g", .name = ""};
    struct ArrowArray column = {.length = COUNT, .n_buffers = 2, .buffers = buffers};
    struct ArrowArray deviation = {.length = 1, .n_buffers = 2, .buffers = literal}, out;
    trn_function_arg args[2] = {{&wide, &column, false}, {&real, &deviation, true}};
    void *self = NULL;
    assert_int_equal(function->create(function, args, 2, &self, &error), TRN_OK);
    assert_int_equal(function->update(self, args, 2, COUNT, groups, NULL, 1, &error), TRN_OK);
    assert_int_equal(function->evaluate(self, 1, &out, &error), TRN_OK);
    assert_int_equal(((const int64_t *)out.buffers[1])[0], KNOWN[k].estimate);
    out.release(&out);
    function->destroy(self);
  }
  free(values);
  free(groups);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(percentiles), cmocka_unit_test(modes), cmocka_unit_test(sketches),
                                     cmocka_unit_test(estimates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
