/* Aggregates that give one of their input values: first, last, single_value, min, max, max_by, min_by, any_value. A
 * group keeps its value encoded (rowcodec.h), so every type goes the same way. */
#include "functions/aggregate.h"
#include "functions/rowcodec.h"
#include <stdlib.h>
#include <string.h>

typedef enum pick { PICK_FIRST, PICK_LAST, PICK_SINGLE, PICK_MIN, PICK_MAX, PICK_MIN_BY, PICK_MAX_BY } pick;
typedef struct pick_kind {
  uint8_t pick;
  bool ignore_nulls;
} pick_kind;

typedef struct held {
  fn_bytes value, key; /* key: of max_by and min_by */
  int64_t rows;        /* that counted */
} held;

typedef struct value_state {
  const trn_aggregate_function *function;
  struct ArrowSchema value_schema, key_schema;
  fn_type value_type, key_type;
  int64_t position;
  fn_groups groups; /* of held */
  fn_bytes scratch;
  size_t bytes;
} value_state;

static pick pick_of(const trn_aggregate_function *f) {
  return (pick)((const pick_kind *)f->data)->pick;
}
static bool ignores_nulls(const trn_aggregate_function *f) {
  return ((const pick_kind *)f->data)->ignore_nulls;
}
static bool has_key(const trn_aggregate_function *f) {
  return pick_of(f) >= PICK_MIN_BY;
}

static trn_status open_value(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                             int64_t rows, trn_function_error *error, fn_agg_call *call) {
  trn_status status = fn__agg_open(function->name, args, count, false, rows, error, call);
  if (status == TRN_OK && call->count != (has_key(function) ? 2u : 1u)) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, "wrong number of arguments of an aggregate");
    status = TRN_INVALID_ARGUMENT;
  }
  return status;
}

static trn_status value_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                             struct ArrowSchema *out, trn_function_error *error) {
  fn_agg_call call;
  memset(out, 0, sizeof *out);
  trn_status status = open_value(function, args, count, 0, error, &call);
  return status == TRN_OK ? fn__schema_copy(out, args[0].type, "", true) : status;
}

/* States: the value, the key where there is one, and how many rows counted. */
static trn_status value_state_types(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                    struct ArrowSchema *out, size_t *state_count, trn_function_error *error) {
  fn_agg_call call;
  fn_type rows = fn__type(FN_INT64);
  *state_count = 0;
  trn_status status = open_value(function, args, count, 0, error, &call);
  if (status == TRN_OK && (status = fn__schema_copy(&out[0], args[0].type, "value", true)) == TRN_OK) ++*state_count;
  if (status == TRN_OK && has_key(function) && (status = fn__schema_copy(&out[1], args[1].type, "key", true)) == TRN_OK)
    ++*state_count;
  if (status == TRN_OK && (status = fn__schema_make(&out[*state_count], &rows, "rows", true)) == TRN_OK) ++*state_count;
  for (; status != TRN_OK && *state_count > 0; --*state_count) out[*state_count - 1].release(&out[*state_count - 1]);
  return status;
}

static void value_destroy(void *self) {
  value_state *state = self;
  if (!state) return;
  for (size_t g = 0; g < state->groups.count; g++) {
    fn__bytes_clear(&((held *)state->groups.data)[g].value);
    fn__bytes_clear(&((held *)state->groups.data)[g].key);
  }
  free(state->groups.data);
  fn__bytes_clear(&state->scratch);
  if (state->value_schema.release) state->value_schema.release(&state->value_schema);
  if (state->key_schema.release) state->key_schema.release(&state->key_schema);
  free(state);
}

static trn_status value_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               void **out, trn_function_error *error) {
  fn_agg_call call;
  *out = NULL;
  trn_status status = open_value(function, args, count, 0, error, &call);
  value_state *state = status == TRN_OK ? calloc(1, sizeof *state) : NULL;
  if (!state) return status == TRN_OK ? fn__raise_out_of_memory(&call.report) : status;
  state->function = function;
  state->position = call.report.position;
  state->groups.width = sizeof(held);
  status = fn__schema_copy(&state->value_schema, args[0].type, "", true);
  if (status == TRN_OK && has_key(function)) status = fn__schema_copy(&state->key_schema, args[1].type, "", true);
  if (status == TRN_OK && (!fn__type_read(&state->value_schema, &state->value_type) ||
                           (has_key(function) && !fn__type_read(&state->key_schema, &state->key_type))))
    status = TRN_INVALID_ARGUMENT;
  if (status != TRN_OK) {
    value_destroy(state);
    return status == TRN_RESOURCE_EXHAUSTED ? fn__raise_out_of_memory(&call.report) : status;
  }
  *out = state;
  return TRN_OK;
}

/* Keeps the row's value (and key). False: no memory. */
static bool keep(value_state *state, held *h, const fn_column *value, const fn_column *key, int64_t row) {
  size_t before = h->value.capacity + h->key.capacity;
  h->value.size = h->key.size = 0;
  bool good = fn__encode(value, row, false, &h->value) && (!key || fn__encode(key, row, false, &h->key));
  state->bytes += h->value.capacity + h->key.capacity - before;
  return good;
}

/* Whether the row's order value comes before (< 0) or after the held one. */
static bool order_of(value_state *state, const held *h, const fn_column *column, int64_t row, bool by_key, int *order) {
  state->scratch.size = 0;
  if (!fn__encode(column, row, false, &state->scratch)) return false;
  const char *mine = state->scratch.data, *other = by_key ? h->key.data : h->value.data;
  *order = fn__encoded_compare(by_key ? &state->key_type : &state->value_type, &mine, &other);
  return true;
}

static trn_status take_row(value_state *state, const fn_report *report, held *h, const fn_column *value,
                           const fn_column *key, int64_t row) {
  pick what = pick_of(state->function);
  const fn_column *order_column = key ? key : value;
  bool wanted = h->rows == 0;
  int order = 0;
  if ((what >= PICK_MIN && fn__is_null(order_column, row)) ||
      (ignores_nulls(state->function) && fn__is_null(value, row)))
    return TRN_OK;
  if (what == PICK_SINGLE && h->rows > 0) return fn__raise(report, "SCALAR_SUBQUERY_TOO_MANY_ROWS", NULL);
  if (what == PICK_LAST) wanted = true;
  if (what >= PICK_MIN && !wanted) {
    if (!order_of(state, h, order_column, row, key != NULL, &order)) return fn__raise_out_of_memory(report);
    wanted = what == PICK_MIN || what == PICK_MIN_BY ? order < 0 : order > 0;
    wanted |= order == 0 && key; /* of rows with equal keys the later */
  }
  h->rows++;
  return !wanted || keep(state, h, value, key, row) ? TRN_OK : fn__raise_out_of_memory(report);
}

static trn_status value_update(void *self, const trn_function_arg *args, size_t count, int64_t rows,
                               const size_t *groups, const uint8_t *filter, size_t group_count,
                               trn_function_error *error) {
  value_state *state = self;
  fn_agg_call call;
  trn_status status = open_value(state->function, args, count, rows, error, &call);
  call.report.position = state->position;
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&call.report);
  for (int64_t row = 0; row < rows && status == TRN_OK; row++)
    if (!filter || filter[row])
      status = take_row(state, &call.report, &((held *)state->groups.data)[groups[row]], &call.columns[0],
                        call.count > 1 ? &call.columns[1] : NULL, row);
  return status;
}

static trn_status value_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                              const size_t *groups, size_t group_count, trn_function_error *error) {
  value_state *state = self;
  fn_report report = {error, state->position};
  fn_column value, key, counted;
  static const struct ArrowSchema INT64 = {.format = "l"};
  bool keyed = has_key(state->function);
  if (count != (keyed ? 3u : 2u)) return TRN_INVALID_ARGUMENT;
  trn_status status = fn__column_open(&state->value_schema, states[0], false, &value);
  if (status == TRN_OK && keyed) status = fn__column_open(&state->key_schema, states[1], false, &key);
  if (status == TRN_OK) status = fn__column_open(&INT64, states[count - 1], false, &counted);
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&report);
  for (int64_t row = 0; row < rows && status == TRN_OK; row++) {
    if (fn__is_null(&counted, row) || fn__get_i64(&counted, row) == 0) continue;
    held *h = &((held *)state->groups.data)[groups[row]];
    status = take_row(state, &report, h, &value, keyed ? &key : NULL, row);
  }
  return status;
}

static trn_status put_values(value_state *state, size_t emit, bool keys, const struct ArrowSchema *schema,
                             struct ArrowArray *out) {
  fn_sink sink;
  if (!fn__sink_init(&sink, schema)) return TRN_RESOURCE_EXHAUSTED;
  for (size_t g = 0; g < emit; g++) {
    const held *h = &((const held *)state->groups.data)[g];
    const char *at = keys ? h->key.data : h->value.data;
    if (h->rows > 0 && at)
      fn__sink_put(&sink, &at);
    else
      fn__sink_put_null(&sink);
  }
  return fn__sink_finish(&sink, out);
}

static void drop(value_state *state, size_t emit) {
  for (size_t g = 0; g < emit; g++) {
    held *h = &((held *)state->groups.data)[g];
    state->bytes -= h->value.capacity + h->key.capacity;
    fn__bytes_clear(&h->value);
    fn__bytes_clear(&h->key);
  }
  fn__groups_drop(&state->groups, emit);
}

static trn_status value_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  value_state *state = self;
  fn_report report = {error, state->position};
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || put_values(state, emit, false, &state->value_schema, out) != TRN_OK)
    return fn__raise_out_of_memory(&report);
  drop(state, emit);
  return TRN_OK;
}

static trn_status value_emit_state(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  value_state *state = self;
  fn_report report = {error, state->position};
  fn_builder counts;
  fn_type type = fn__type(FN_INT64);
  size_t keyed = has_key(state->function);
  memset(out, 0, (2 + keyed) * sizeof *out);
  bool good = fn__groups_grow(&state->groups, emit) &&
              put_values(state, emit, false, &state->value_schema, &out[0]) == TRN_OK &&
              (!keyed || put_values(state, emit, true, &state->key_schema, &out[1]) == TRN_OK) &&
              fn__builder_init(&counts, &type, (int64_t)emit);
  for (size_t g = 0; good && g < emit; g++) ((int64_t *)counts.data)[g] = ((const held *)state->groups.data)[g].rows;
  if (good && fn__builder_finish(&counts, &out[1 + keyed]) == TRN_OK) {
    drop(state, emit);
    return TRN_OK;
  }
  for (size_t i = 0; i < 2 + keyed; i++)
    if (out[i].release) out[i].release(&out[i]);
  return fn__raise_out_of_memory(&report);
}

static size_t value_memory(const void *self) {
  const value_state *state = self;
  return sizeof *state + state->groups.capacity * sizeof(held) + state->bytes;
}

#define PICK(variable, sql_name, what, ignore)                                                                         \
  static const pick_kind variable##_kind = {what, ignore};                                                             \
  const trn_aggregate_function variable = {sizeof(trn_aggregate_function),                                             \
                                           sql_name,                                                                   \
                                           value_bind,                                                                 \
                                           value_state_types,                                                          \
                                           value_create,                                                               \
                                           value_update,                                                               \
                                           value_merge,                                                                \
                                           value_evaluate,                                                             \
                                           value_emit_state,                                                           \
                                           value_memory,                                                               \
                                           value_destroy,                                                              \
                                           &variable##_kind}
PICK(fn__agg_first, "trn.first", PICK_FIRST, false);
PICK(fn__agg_first_ignore, "trn.first_value_ignore_nulls", PICK_FIRST, true);
PICK(fn__agg_last, "trn.last", PICK_LAST, false);
PICK(fn__agg_last_ignore, "trn.last_value_ignore_nulls", PICK_LAST, true);
PICK(fn__agg_any_value, "trn.any_value", PICK_FIRST, false);
PICK(fn__agg_any_value_ignore, "trn.any_value_ignore_nulls", PICK_FIRST, true);
PICK(fn__agg_single, "trn.single_value", PICK_SINGLE, false);
PICK(fn__agg_min, "trn.min", PICK_MIN, false);
PICK(fn__agg_max, "trn.max", PICK_MAX, false);
PICK(fn__agg_min_by, "trn.min_by", PICK_MIN_BY, false);
PICK(fn__agg_max_by, "trn.max_by", PICK_MAX_BY, false);
PICK(fn__agg_bool_and, "trn.bool_and", PICK_MIN, false); /* false comes before true */
PICK(fn__agg_bool_or, "trn.bool_or", PICK_MAX, false);
