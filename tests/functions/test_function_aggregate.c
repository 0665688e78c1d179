/* Aggregates: a column of values, comma-separated ('~' null), in one go, in two halves merged through their states, and
 * spread over groups of which the first are emitted early. */
#include "functions/harness.h"

#define VALUES_MAX 64
typedef struct agg_row {
  const char *name, *result, *args[2]; /* args: "i|1,2,~" */
  bool has_position;
} agg_row;

typedef struct column {
  struct ArrowSchema schema;
  struct ArrowArray array;
  const void *buffers[3];
  char format[32];
} column;

static const trn_aggregate_function *find(const char *name) {
  const trn_function_library *library = h_library();
  for (size_t i = 0; i < library->aggregate_count; i++)
    if (strcmp(library->aggregates[i]->name, name) == 0) return library->aggregates[i];
  fail_msg("no aggregate %s", name);
  return NULL;
}

static int64_t split(const char *text, char *copy, size_t size, const char **values) {
  char *save = NULL;
  int64_t count = 0;
  snprintf(copy, size, "%s", strchr(text, '|') + 1);
  for (char *v = strtok_r(copy, ",", &save); v; v = strtok_r(NULL, ",", &save)) values[count++] = v;
  return count;
}

/* Values from..to-1, each `repeat` times. */
static void make(const char *text, int64_t from, int64_t to, int64_t repeat, column *out) {
  const char *values[VALUES_MAX];
  char copy[1024];
  memset(out, 0, sizeof *out);
  h_format(text, out->format);
  split(text, copy, sizeof copy, values);
  int64_t rows = (to - from) * repeat;
  uint8_t *valid = calloc((size_t)rows / 8 + 1, 1);
  char *data = calloc((size_t)rows + 2, 16), *bytes = calloc((size_t)rows + 1, 64);
  int32_t used = 0;
  bool is_text = out->format[0] == 'u';
  for (int64_t i = 0; i < rows; i++) {
    const char *value = values[from + i / repeat];
    if (strcmp(value, "~") != 0) {
      valid[i / 8] |= (uint8_t)(1u << (i % 8));
      if (is_text) {
        memcpy(bytes + used, value, strlen(value));
        used += (int32_t)strlen(value);
      } else if (out->format[0] == 'b') {
        data[i / 8] |= (char)((strcmp(value, "true") == 0) << (i % 8));
      } else {
        h_put(out->format, data + i * h_width(out->format), value);
      }
    }
    if (is_text) ((int32_t *)data)[i + 1] = used;
  }
  out->buffers[0] = valid, out->buffers[1] = data, out->buffers[2] = bytes;
  out->schema = (struct ArrowSchema){.format = out->format, .name = "x", .flags = ARROW_FLAG_NULLABLE};
  out->array =
      (struct ArrowArray){.length = rows, .null_count = -1, .n_buffers = is_text ? 3 : 2, .buffers = out->buffers};
}

static void drop(column *c) {
  for (int i = 0; i < 3; i++) free((void *)(uintptr_t)c->buffers[i]);
}

typedef struct run {
  const agg_row *row;
  const trn_aggregate_function *function;
  h_error e;
  trn_function_error error;
  size_t arg_count;
  struct ArrowSchema schema;
} run;

static struct ArrowSchema POSITION_SCHEMA = {.format = "l", .name = ""};

/* Arguments over values from..to-1; the position literal last. */
static void arguments(run *r, int64_t from, int64_t to, int64_t repeat, column *columns, struct ArrowArray *position,
                      const void **position_buffers, trn_function_arg *args) {
  static const int64_t POSITION = 77;
  r->arg_count = 0;
  for (int i = 0; i < 2 && r->row->args[i]; i++) {
    make(r->row->args[i], from, to, repeat, &columns[i]);
    args[r->arg_count++] = (trn_function_arg){&columns[i].schema, &columns[i].array, false};
  }
  if (r->row->has_position) {
    position_buffers[0] = NULL;
    position_buffers[1] = &POSITION;
    *position = (struct ArrowArray){.length = 1, .n_buffers = 2, .buffers = position_buffers};
    args[r->arg_count++] = (trn_function_arg){&POSITION_SCHEMA, position, true};
  }
}

/* Row i goes to group i % groups. */
static trn_status feed(run *r, void **state, int64_t from, int64_t to, size_t groups) {
  column columns[2] = {0};
  struct ArrowArray position;
  const void *buffers[2];
  trn_function_arg args[3];
  size_t ids[VALUES_MAX * 3];
  arguments(r, from, to, (int64_t)groups, columns, &position, buffers, args);
  int64_t rows = (to - from) * (int64_t)groups;
  for (int64_t i = 0; i < rows; i++) ids[i] = (size_t)i % groups;
  trn_status status = TRN_OK;
  if (!*state) status = r->function->create(r->function, args, r->arg_count, state, &r->error);
  if (status == TRN_OK && !r->schema.release)
    status = r->function->bind(r->function, args, r->arg_count, &r->schema, &r->error);
  if (status == TRN_OK) status = r->function->update(*state, args, r->arg_count, rows, ids, NULL, groups, &r->error);
  for (int i = 0; i < 2; i++) drop(&columns[i]);
  return status;
}

static void expect(run *r, const char *how, trn_status status, const char *shown) {
  h_row row = {.name = r->row->name, .result = r->row->result, .args = {r->row->args[0], r->row->args[1]}};
  h_expect(&row, how, status, r->schema.format ? r->schema.format : "", shown, &r->e);
}

static trn_status finish(run *r, void *state, size_t emit, char (*shown)[256]) {
  struct ArrowArray out;
  trn_status status = r->function->evaluate(state, emit, &out, &r->error);
  if (status != TRN_OK) return status;
  assert_int_equal(out.length, emit);
  for (size_t g = 0; g < emit; g++) h_show(&r->schema, &out, (int64_t)g, shown[g], sizeof shown[g]);
  out.release(&out);
  return TRN_OK;
}

static void start(run *r, const agg_row *row) {
  memset(r, 0, sizeof *r);
  r->row = row;
  r->function = find(row->name);
  r->error = h_sink(&r->e);
}

static void stop(run *r, void *state) {
  r->function->destroy(state);
  if (r->schema.release) r->schema.release(&r->schema);
}

static void in_one_go(const agg_row *row, int64_t count, size_t groups) {
  run r;
  void *state = NULL;
  char shown[4][256] = {""};
  start(&r, row);
  trn_status status = feed(&r, &state, 0, count, groups);
  assert_true(status != TRN_OK || r.function->memory(state) > 0);
  for (size_t g = 0; g < groups; g++) { /* one at a time: the later groups move down */
    if (status == TRN_OK) status = finish(&r, state, 1, shown);
    expect(&r, groups == 1 ? "in one go" : "in groups", status, shown[0]);
  }
  stop(&r, state);
}

static void in_halves(const agg_row *row, int64_t count) {
  run r;
  void *state = NULL;
  char shown[4][256] = {""};
  start(&r, row);
  trn_status status = TRN_OK;
  for (int half = 0; half < 2 && status == TRN_OK; half++) {
    void *part = NULL;
    struct ArrowArray states[8];
    const struct ArrowArray *pointers[8];
    struct ArrowSchema types[8];
    size_t state_count = 0, ids[2] = {0, 1};
    status = feed(&r, &part, half ? count / 2 : 0, half ? count : count / 2, 2);
    column columns[2] = {0};
    struct ArrowArray position;
    const void *buffers[2];
    trn_function_arg args[3];
    arguments(&r, 0, 0, 1, columns, &position, buffers, args);
    if (status == TRN_OK && !state) status = r.function->create(r.function, args, r.arg_count, &state, &r.error);
    if (status == TRN_OK)
      status = r.function->state_types(r.function, args, r.arg_count, types, &state_count, &r.error);
    for (size_t i = 0; i < state_count; i++) types[i].release(&types[i]);
    if (status == TRN_OK) status = r.function->emit_state(part, 2, states, &r.error);
    if (status == TRN_OK) {
      for (size_t i = 0; i < state_count; i++) pointers[i] = &states[i];
      status = r.function->merge(state, pointers, state_count, 2, ids, 2, &r.error);
      for (size_t i = 0; i < state_count; i++) states[i].release(&states[i]);
    }
    for (int i = 0; i < 2; i++) drop(&columns[i]);
    r.function->destroy(part);
  }
  if (status == TRN_OK) status = finish(&r, state, 2, shown);
  expect(&r, "in halves", status, shown[0]);
  if (status == TRN_OK) expect(&r, "in halves, second group", status, shown[1]);
  stop(&r, state);
}

static void run_row(const agg_row *row) {
  const char *values[VALUES_MAX];
  char copy[1024];
  int64_t count = split(row->args[0], copy, sizeof copy, values);
  in_one_go(row, count, 1);
  in_one_go(row, count, 3);
  in_halves(row, count);
}

static void sums_and_averages(void **state) {
  (void)state;
  static const agg_row ROWS[] = {
      {"trn.sum", "l|30", {"i|5,10,15"}, true},
      {"trn.sum", "l|25", {"i|~,10,15"}, true},
      {"trn.sum", "l|~", {"i|~,~"}, true},
      {"trn.sum", "l|~", {"l|"}, true},
      {"trn.sum", "!ARITHMETIC_OVERFLOW|message=long overflow", {"l|9223372036854775807,1"}, true},
      {"trn.sum_try", "l|~", {"l|9223372036854775807,1"}},
      {"trn.sum_wrap", "l|-9223372036854775808", {"l|9223372036854775807,1"}},
      {"trn.sum", "d:25,2|6.75", {"d:15,2|1.50,2.25,3.00,~"}, true},
      {"trn.sum", "d:38,2|-0.75", {"d:30,2|1.50,-2.25"}, true},
      {"trn.sum",
       "!ARITHMETIC_OVERFLOW|message=Overflow in sum of decimals",
       {"d:38,0|99999999999999999999999999999999999999,1"},
       true},
      {"trn.sum",
       "!ARITHMETIC_OVERFLOW",
       {"d:38,0|99999999999999999999999999999999999999,99999999999999999999999999999999999999,"
        "99999999999999999999999999999999999999,99999999999999999999999999999999999999"},
       true},
      {"trn.sum_try", "d:38,0|~", {"d:38,0|99999999999999999999999999999999999999,1"}},
      {"trn.sum", "g|0.75", {"g|0.5,0.25"}, true},
      {"trn.sum", "Y|14", {"Y|12,2"}, true},
      {"trn.sum", "I|3", {"I|1,2"}, true},
      {"trn.sum", "!INTERVAL_ARITHMETIC_OVERFLOW", {"I|9223372036854775807,1"}, true},
      {"trn.avg", "g|2", {"i|1,2,3"}, true},
      {"trn.avg", "g|1.5", {"i|1,2,~"}, true},
      {"trn.avg", "g|~", {"i|~"}, true},
      {"trn.avg", "d:19,6|2.250000", {"d:15,2|1.50,2.25,3.00"}, true},
      {"trn.avg", "d:6,5|0.66667", {"d:2,1|0.0,1.0,1.0"}, true},
      {"trn.avg", "d:5,4|-0.6667", {"d:1,0|0,-1,-1"}, true},
      {"trn.avg_try", "d:38,4|~", {"d:38,0|99999999999999999999999999999999999999,1"}},
      {"trn.avg", "Y|-3", {"Y|-5,0"}, true},
      {"trn.count_if", "l|2", {"b|true,false,~,true"}},
      {"trn.count_if", "l|0", {"b|~"}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) run_row(&ROWS[i]);
}

static void picked_values(void **state) {
  (void)state;
  static const agg_row ROWS[] = {
      {"trn.first", "i|~", {"i|~,2,3"}},
      {"trn.first_value_ignore_nulls", "i|2", {"i|~,2,3"}},
      {"trn.last", "u|~", {"u|a,b,~"}},
      {"trn.last_value_ignore_nulls", "u|b", {"u|a,b,~"}},
      {"trn.any_value", "D|2020-01-01", {"D|2020-01-01,2021-01-01"}},
      {"trn.single_value", "d:5,2|1.50", {"d:5,2|1.50"}},
      {"trn.single_value", "i|~", {"i|~"}},
      {"trn.single_value", "i|~", {"i|"}},
      {"trn.single_value", "!SCALAR_SUBQUERY_TOO_MANY_ROWS", {"i|1,2"}},
      {"trn.single_value", "!SCALAR_SUBQUERY_TOO_MANY_ROWS", {"i|~,~"}},
      {"trn.min", "g|1", {"g|nan,1,~,2"}},
      {"trn.max", "g|nan", {"g|nan,1,~,2"}},
      {"trn.max", "u|b", {"u|ab,b,a"}},
      {"trn.min", "b|false", {"b|true,false"}},
      {"trn.max_by", "u|b", {"u|a,b,c", "i|10,50,20"}},
      {"trn.min_by", "u|a", {"u|a,b,c", "i|10,50,20"}},
      {"trn.max_by", "u|~", {"u|a,b", "i|~,~"}},
      {"trn.bool_and", "b|false", {"b|true,false,~"}},
      {"trn.bool_or", "b|true", {"b|true,false,~"}},
      {"trn.bool_and", "b|~", {"b|~"}},
      {"trn.collect_list", "[1,2,1]", {"i|1,2,~,1"}},
      {"trn.collect_set", "[1,2]", {"i|1,2,~,1"}},
      {"trn.collect_list", "[]", {"u|~"}},
      {"trn.collect_set", "[0]", {"g|0,-0.0"}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) run_row(&ROWS[i]);
}

static void statistics(void **state) {
  (void)state;
  static const agg_row ROWS[] = {
      {"trn.stddev_samp", "g|1", {"g|1,2,3"}},
      {"trn.stddev_pop", "g|0.816496580927726", {"g|1,2,3"}},
      {"trn.var_samp", "g|1", {"g|1,2,3,~"}},
      {"trn.var_pop", "g|0.6666666666666666", {"g|1,2,3"}},
      {"trn.var_samp", "g|~", {"g|1"}},
      {"trn.var_pop", "g|~", {"g|~"}},
      {"trn.covar_samp", "g|1", {"g|1,2,3", "g|1,2,3"}},
      {"trn.covar_pop", "g|0.6666666666666666", {"g|1,2,3", "g|1,2,3"}},
      {"trn.corr", "g|~", {"g|1", "g|2"}},
      {"trn.skewness", "g|~", {"g|1,1"}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) run_row(&ROWS[i]);
  /* The last digits are those of two partitions, as the recording had them. */
  static const agg_row HALVES[] = {
      {"trn.skewness", "g|1.1135657469022011", {"g|-10,-20,100,1000"}},
      {"trn.kurtosis", "g|-0.7014368047529627", {"g|-10,-20,100,1000"}},
      {"trn.kurtosis", "g|0.19432323191699075", {"g|1,10,100,10,1"}},
      {"trn.corr", "g|0.8660254037844387", {"g|3,3,6", "g|2,3,4"}},
  };
  for (size_t i = 0; i < sizeof HALVES / sizeof HALVES[0]; i++) in_halves(&HALVES[i], i == 3 ? 3 : i == 2 ? 5 : 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_and_averages), cmocka_unit_test(picked_values),
                                     cmocka_unit_test(statistics)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
