/* sum and avg. Accumulators: int64 for integers and intervals, 128 bits for decimals, doubles for the rest. */
#include "functions/aggregate.h"
#include "functions/arithmetic.h"
#include <stdlib.h>
#include <string.h>

typedef struct sum_kind {
  bool is_avg;
  uint8_t mode;     /* fn_mode */
  bool is_count_if; /* the sum of a boolean's trues, 0 for no rows */
} sum_kind;

typedef struct slot {
  union {
    fn_i128 decimal;
    int64_t whole;
    double real;
  } value;
  int64_t count;
  bool overflow;
} slot;

typedef struct sum_state {
  const trn_aggregate_function *function;
  fn_type from, to;
  int64_t position;
  fn_groups groups; /* of slot */
} sum_state;

static const sum_kind *kind_of(const trn_aggregate_function *function) {
  return function->data;
}
static bool has_position(const trn_aggregate_function *function) {
  return kind_of(function)->mode == FN_ANSI;
}
static int min_of(int a, int b) {
  return a < b ? a : b;
}

static bool result_type(const trn_aggregate_function *function, const fn_type *from, fn_type *to) {
  bool is_avg = kind_of(function)->is_avg;
  *to = fn__type(FN_FLOAT64);
  if (kind_of(function)->is_count_if) {
    *to = fn__type(FN_INT64);
    return from->kind == FN_BOOL;
  }
  if (from->kind == FN_DECIMAL)
    *to = is_avg ? fn__type_decimal(min_of(from->precision + 4, FN_DIGITS_MAX), min_of(from->scale + 4, FN_DIGITS_MAX))
                 : fn__type_decimal(min_of(from->precision + 10, FN_DIGITS_MAX), from->scale);
  else if (from->kind == FN_YEAR_MONTH || from->kind == FN_DAY_TIME)
    *to = *from;
  else if (fn__is_integer((fn_kind)from->kind))
    *to = fn__type(is_avg ? FN_FLOAT64 : FN_INT64);
  else
    return from->kind == FN_FLOAT32 || from->kind == FN_FLOAT64;
  return true;
}

static trn_status open_sum(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                           trn_function_error *error, fn_agg_call *call, fn_type *to) {
  trn_status status = fn__agg_open(function->name, args, count, has_position(function), 0, error, call);
  if (status == TRN_OK && (call->count != 1 || !result_type(function, &call->columns[0].type, to))) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, "sum and avg take one number or interval");
    status = TRN_INVALID_ARGUMENT;
  }
  return status;
}

static trn_status sum_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                           struct ArrowSchema *out, trn_function_error *error) {
  fn_agg_call call;
  fn_type to;
  memset(out, 0, sizeof *out);
  trn_status status = open_sum(function, args, count, error, &call, &to);
  return status == TRN_OK ? fn__schema_make(out, &to, "", true) : status;
}

/* States: the sum (null: no rows), how many rows, has it overflowed. */
static fn_type sum_type(const fn_type *from, const fn_type *to) {
  return from->kind == FN_DECIMAL ? fn__type_decimal(FN_DIGITS_MAX, from->scale)
         : to->kind == FN_FLOAT64 ? fn__type(FN_FLOAT64)
                                  : fn__type(FN_INT64);
}

static trn_status sum_state_types(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                  struct ArrowSchema *out, size_t *state_count, trn_function_error *error) {
  fn_agg_call call;
  fn_type to, types[3] = {{0}, fn__type(FN_INT64), fn__type(FN_BOOL)};
  static const char *const NAMES[] = {"sum", "count", "overflow"};
  trn_status status = open_sum(function, args, count, error, &call, &to);
  *state_count = 0;
  if (status != TRN_OK) return status;
  types[0] = sum_type(&call.columns[0].type, &to);
  for (size_t i = 0; i < 3 && status == TRN_OK; i++) {
    status = fn__schema_make(&out[i], &types[i], NAMES[i], i == 0);
    *state_count += status == TRN_OK;
  }
  for (; status != TRN_OK && *state_count > 0; --*state_count) out[*state_count - 1].release(&out[*state_count - 1]);
  return status;
}

static trn_status sum_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                             void **out, trn_function_error *error) {
  fn_agg_call call;
  fn_type to;
  *out = NULL;
  trn_status status = open_sum(function, args, count, error, &call, &to);
  if (status != TRN_OK) return status;
  sum_state *state = calloc(1, sizeof *state);
  if (!state) return fn__raise_out_of_memory(&call.report);
  *state = (sum_state){.function = function,
                       .from = call.columns[0].type,
                       .to = to,
                       .position = call.report.position,
                       .groups = {.width = sizeof(slot)}};
  state->from.schema = NULL;
  state->to.schema = NULL;
  *out = state;
  return TRN_OK;
}

/* ---- update ---- */
static void add_decimals(slot *slots, const fn_column *column, int64_t rows, const size_t *groups,
                         const uint8_t *filter, int precision) {
  bool plain = !column->valid && !column->all_null && !filter;
  if (precision <= 18 && plain) { /* the low words hold the values; 10^10 rows of 28 digits stay below 10^38 */
    const int64_t *low = column->data;
    for (int64_t row = 0; row < rows; row++) {
      slot *s = &slots[groups[row]];
      s->value.decimal += low[row * column->step * 2];
      s->count++;
    }
    return;
  }
  for (int64_t row = 0; row < rows; row++) {
    if (!plain && fn__skip(column, filter, row)) continue;
    slot *s = &slots[groups[row]];
    s->overflow |= __builtin_add_overflow(s->value.decimal, fn__get_decimal(column, row), &s->value.decimal);
    s->count++;
  }
}

/* One group: the accumulator stays in registers. */
static void add_decimals_once(slot *s, const fn_column *column, int64_t rows) {
  const int64_t *low = column->data;
  fn_i128 sum = 0;
  for (int64_t row = 0; row < rows; row++) sum += low[row * column->step * 2];
  s->value.decimal += sum;
  s->count += rows;
}

/* Sums of a batch's int64 fit in 128 bits: one check at its end. */
static void add_wholes_once(slot *s, const fn_column *column, int64_t rows) {
  fn_i128 sum = 0;
  if (fn__type_width((fn_kind)column->type.kind) == 8)
    for (int64_t row = 0; row < rows; row++) sum += fn__get_i64(column, row);
  else
    for (int64_t row = 0; row < rows; row++) sum += fn__get_i32(column, row);
  sum += s->value.whole;
  s->value.whole = (int64_t)(uint64_t)(fn_u128)sum;
  s->overflow |= sum != s->value.whole;
  s->count += rows;
}

static void add_wholes(slot *slots, const fn_column *column, int64_t rows, const size_t *groups,
                       const uint8_t *filter) {
  bool plain = !column->valid && !column->all_null && !filter;
  bool is_i64 = fn__type_width((fn_kind)column->type.kind) == 8;
  for (int64_t row = 0; row < rows; row++) {
    if (!plain && fn__skip(column, filter, row)) continue;
    slot *s = &slots[groups[row]];
    int64_t value = column->type.kind == FN_BOOL ? fn__get_bool(column, row)
                    : is_i64                     ? fn__get_i64(column, row)
                                                 : fn__get_integer(column, row);
    s->overflow |= __builtin_add_overflow(s->value.whole, value, &s->value.whole);
    s->count++;
  }
}

static void add_reals(slot *slots, const fn_column *column, int64_t rows, const size_t *groups, const uint8_t *filter) {
  bool whole = fn__is_integer((fn_kind)column->type.kind);
  for (int64_t row = 0; row < rows; row++) {
    if (fn__skip(column, filter, row)) continue;
    slot *s = &slots[groups[row]];
    s->value.real += whole ? (double)fn__get_integer(column, row) : fn__get_number(column, row);
    s->count++;
  }
}

static trn_status check_wholes(const sum_state *state, const fn_report *report) {
  const slot *slots = (const slot *)state->groups.data;
  if (kind_of(state->function)->mode != FN_ANSI || state->to.kind == FN_FLOAT64 || state->from.kind == FN_DECIMAL)
    return TRN_OK;
  for (size_t g = 0; g < state->groups.count; g++)
    if (slots[g].overflow) {
      if (state->to.kind == FN_INT64) return fn__raise_overflow(report, "long overflow", "try_add");
      return fn__raise(report, "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION", "functionName", "`try_add`", NULL);
    }
  return TRN_OK;
}

static trn_status sum_update(void *self, const trn_function_arg *args, size_t count, int64_t rows, const size_t *groups,
                             const uint8_t *filter, size_t group_count, trn_function_error *error) {
  sum_state *state = self;
  fn_agg_call call;
  trn_status status =
      fn__agg_open(state->function->name, args, count, has_position(state->function), rows, error, &call);
  if (status != TRN_OK) return status;
  const fn_column *column = &call.columns[0];
  if (column->type.kind != state->from.kind) return TRN_INVALID_ARGUMENT;
  if (!fn__groups_grow(&state->groups, group_count)) return fn__raise_out_of_memory(&call.report);
  slot *slots = (slot *)state->groups.data;
  if (state->from.kind == FN_DECIMAL && group_count == 1 && state->from.precision <= 18 && !filter && !column->valid &&
      !column->all_null)
    add_decimals_once(slots, column, rows);
  else if (state->from.kind == FN_DECIMAL)
    add_decimals(slots, column, rows, groups, filter, state->from.precision);
  else if (group_count == 1 && state->to.kind != FN_FLOAT64 && !filter && !column->valid && !column->all_null &&
           fn__type_width((fn_kind)column->type.kind) >= 4)
    add_wholes_once(slots, column, rows);
  else if (state->to.kind == FN_FLOAT64)
    add_reals(slots, column, rows, groups, filter);
  else
    add_wholes(slots, column, rows, groups, filter);
  return TRN_OK;
}

static trn_status sum_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                            const size_t *groups, size_t group_count, trn_function_error *error) {
  sum_state *state = self;
  fn_report report = {error, state->position};
  fn_type types[3] = {sum_type(&state->from, &state->to), fn__type(FN_INT64), fn__type(FN_BOOL)};
  fn_column columns[3];
  struct ArrowSchema schema;
  trn_status status = count == 3 ? TRN_OK : TRN_INVALID_ARGUMENT;
  for (size_t i = 0; i < 3 && status == TRN_OK; i++) {
    status = fn__schema_make(&schema, &types[i], "", true);
    if (status == TRN_OK) {
      status = fn__column_open(&schema, states[i], false, &columns[i]);
      schema.release(&schema);
    }
  }
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&report);
  if (status != TRN_OK) return status;
  slot *slots = (slot *)state->groups.data;
  for (int64_t row = 0; row < rows; row++) {
    slot *s = &slots[groups[row]];
    s->overflow |= !fn__is_null(&columns[2], row) && fn__get_bool(&columns[2], row);
    if (fn__is_null(&columns[0], row)) continue;
    s->count += fn__get_i64(&columns[1], row);
    if (types[0].kind == FN_DECIMAL)
      s->overflow |= __builtin_add_overflow(s->value.decimal, fn__get_decimal(&columns[0], row), &s->value.decimal);
    else if (types[0].kind == FN_FLOAT64)
      s->value.real += fn__get_f64(&columns[0], row);
    else
      s->overflow |= __builtin_add_overflow(s->value.whole, fn__get_i64(&columns[0], row), &s->value.whole);
  }
  return TRN_OK;
}

/* ---- results ---- */
static int64_t divide_half_up(int64_t sum, int64_t count) {
  int64_t quotient = sum / count, rest = sum % count;
  uint64_t size = rest < 0 ? -(uint64_t)rest : (uint64_t)rest;
  return quotient + (size * 2 >= (uint64_t)count && rest != 0 ? (sum < 0 ? -1 : 1) : 0);
}

/* False: overflow. */
static bool put_decimal(const sum_state *state, const slot *s, fn_builder *out, int64_t row) {
  fn_i128 value = s->value.decimal;
  /* A sum has the type of its inputs with ten digits more, also inside of an average. */
  bool good = !s->overflow && fn__fits(value, min_of(state->from.precision + 10, FN_DIGITS_MAX));
  if (good && kind_of(state->function)->is_avg)
    good = fn__decimal_divide(s->value.decimal, state->from.scale, s->count, 0, state->to.scale, &value) &&
           fn__fits(value, state->to.precision);
  fn__store_decimal(out->data, row, good ? value : 0);
  return good;
}

static bool put_result(const sum_state *state, const slot *s, fn_builder *out, int64_t row) {
  bool is_avg = kind_of(state->function)->is_avg;
  bool wraps = kind_of(state->function)->mode == FN_WRAP;
  switch (state->to.kind) {
  case FN_DECIMAL: return put_decimal(state, s, out, row);
  case FN_FLOAT64: ((double *)out->data)[row] = is_avg ? s->value.real / (double)s->count : s->value.real; return true;
  case FN_YEAR_MONTH: {
    int64_t months = is_avg ? divide_half_up(s->value.whole, s->count) : s->value.whole;
    ((int32_t *)out->data)[row] = (int32_t)months;
    return !s->overflow && months == (int32_t)months;
  }
  case FN_DAY_TIME:
    ((int64_t *)out->data)[row] = is_avg ? divide_half_up(s->value.whole, s->count) : s->value.whole;
    return !s->overflow;
  default: ((int64_t *)out->data)[row] = s->value.whole; return !s->overflow || wraps;
  }
}

static trn_status sum_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  sum_state *state = self;
  fn_report report = {error, state->position};
  fn_builder builder;
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || !fn__builder_init(&builder, &state->to, (int64_t)emit))
    return fn__raise_out_of_memory(&report);
  const slot *slots = (const slot *)state->groups.data;
  trn_status status = check_wholes(state, &report);
  size_t width = fn__type_width((fn_kind)state->to.kind);
  for (size_t g = 0; g < emit && status == TRN_OK; g++) {
    memset((char *)builder.data + g * width, 0, width);
    if (slots[g].count == 0 && !kind_of(state->function)->is_count_if)
      fn__set_null(&builder, (int64_t)g);
    else if (slots[g].count != 0 && !put_result(state, &slots[g], &builder, (int64_t)g)) {
      if (kind_of(state->function)->mode == FN_ANSI)
        status = fn__raise_overflow(&report, "Overflow in sum of decimals",
                                    kind_of(state->function)->is_avg ? "try_avg" : "try_sum");
      else
        fn__set_null(&builder, (int64_t)g);
    }
  }
  if (status != TRN_OK) {
    fn__builder_clear(&builder);
    return status;
  }
  fn__groups_drop(&state->groups, emit);
  return fn__builder_finish(&builder, out);
}

static trn_status sum_emit_state(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  sum_state *state = self;
  fn_report report = {error, state->position};
  fn_builder builders[3];
  memset(builders, 0, sizeof builders);
  fn_type types[3] = {sum_type(&state->from, &state->to), fn__type(FN_INT64), fn__type(FN_BOOL)};
  bool good = fn__groups_grow(&state->groups, emit);
  for (int i = 0; i < 3; i++) good = fn__builder_init(&builders[i], &types[i], (int64_t)emit) && good;
  const slot *slots = (const slot *)state->groups.data;
  for (size_t g = 0; g < emit && good; g++) {
    int64_t row = (int64_t)g;
    if (types[0].kind == FN_DECIMAL)
      fn__store_decimal(builders[0].data, row, slots[g].value.decimal);
    else
      ((int64_t *)builders[0].data)[row] = slots[g].value.whole; /* a double's bits lie there too */
    if (slots[g].count == 0) fn__set_null(&builders[0], row);
    ((int64_t *)builders[1].data)[row] = slots[g].count;
    fn__set_bool(&builders[2], row, slots[g].overflow);
  }
  memset(out, 0, 3 * sizeof *out);
  for (int i = 0; i < 3; i++) {
    if (!good)
      fn__builder_clear(&builders[i]);
    else
      good = fn__builder_finish(&builders[i], &out[i]) == TRN_OK;
  }
  if (!good) {
    for (int i = 0; i < 3; i++)
      if (out[i].release) out[i].release(&out[i]);
    return fn__raise_out_of_memory(&report);
  }
  fn__groups_drop(&state->groups, emit);
  return TRN_OK;
}

static size_t sum_memory(const void *self) {
  const sum_state *state = self;
  return sizeof *state + state->groups.capacity * sizeof(slot);
}

static void sum_destroy(void *self) {
  sum_state *state = self;
  if (state) free(state->groups.data);
  free(state);
}

#define SUM(variable, sql_name, ...)                                                                                   \
  static const sum_kind variable##_kind = {__VA_ARGS__};                                                               \
  const trn_aggregate_function variable = {sizeof(trn_aggregate_function),                                             \
                                           sql_name,                                                                   \
                                           sum_bind,                                                                   \
                                           sum_state_types,                                                            \
                                           sum_create,                                                                 \
                                           sum_update,                                                                 \
                                           sum_merge,                                                                  \
                                           sum_evaluate,                                                               \
                                           sum_emit_state,                                                             \
                                           sum_memory,                                                                 \
                                           sum_destroy,                                                                \
                                           &variable##_kind}
SUM(fn__agg_sum, "trn.sum", false, FN_ANSI);
SUM(fn__agg_sum_try, "trn.sum_try", false, FN_TRY);
SUM(fn__agg_sum_wrap, "trn.sum_wrap", false, FN_WRAP);
SUM(fn__agg_avg, "trn.avg", true, FN_ANSI);
SUM(fn__agg_avg_try, "trn.avg_try", true, FN_TRY);
SUM(fn__agg_count_if, "trn.count_if", false, FN_WRAP, true);
