/* approx_count_distinct: HyperLogLog++ with the registers, hash and bias correction of Spark, so that estimates agree.
 * A group is its registers, a byte each; states are the same bytes. */
#include "functions/aggregate.h"
#include "functions/distinct_table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BITS_MAX 24     /* registers of a group: 16 MiB */
#define NEIGHBOURS 6    /* measured estimates whose bias is averaged */
#define HASH_SEED 42

typedef struct distinct_state {
  fn_groups groups; /* of 1 << bits registers */
  int bits;
} distinct_state;

/* What a deviation needs, as HyperLogLogPlusPlusHelper computes it; 0: it cannot be had. */
static int bits_for(double deviation) {
  double bits = ceil(2 * log(1.106 / deviation) / log(2));
  return bits >= FN_DISTINCT_BITS_MIN && bits <= BITS_MAX ? (int)bits : 0;
}

static trn_status open_distinct(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                int64_t rows, trn_function_error *error, fn_agg_call *call) {
  trn_status status = fn__agg_open(function->name, args, count, false, rows, error, call);
  if (status == TRN_OK && (call->count > 2 || (call->count == 2 && call->columns[1].type.kind != FN_FLOAT64))) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, "approx_count_distinct takes a value and a deviation");
    status = TRN_INVALID_ARGUMENT;
  }
  return status;
}

static trn_status distinct_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                struct ArrowSchema *out, trn_function_error *error) {
  fn_agg_call call;
  fn_type type = fn__type(FN_INT64);
  memset(out, 0, sizeof *out);
  trn_status status = open_distinct(function, args, count, 0, error, &call);
  return status == TRN_OK ? fn__schema_make(out, &type, "", false) : status;
}

static trn_status distinct_state_types(const trn_aggregate_function *function, const trn_function_arg *args,
                                       size_t count, struct ArrowSchema *out, size_t *state_count,
                                       trn_function_error *error) {
  fn_agg_call call;
  fn_type type = fn__type(FN_BINARY);
  *state_count = 0;
  trn_status status = open_distinct(function, args, count, 0, error, &call);
  if (status == TRN_OK) status = fn__schema_make(out, &type, "registers", false);
  *state_count = status == TRN_OK;
  return status;
}

static trn_status distinct_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                  void **out, trn_function_error *error) {
  fn_agg_call call;
  *out = NULL;
  trn_status status = open_distinct(function, args, count, 0, error, &call);
  if (status != TRN_OK) return status;
  double deviation = 0.05;
  if (call.count == 2 && call.columns[1].array && call.columns[1].array->length > 0)
    deviation = fn__get_f64(&call.columns[1], 0);
  int bits = bits_for(deviation);
  if (!bits) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, "FAILED_FUNCTION_CALL", NULL);
    error->add_param(error->self, "funcName", "`approx_count_distinct`", 23);
    return TRN_INVALID_ARGUMENT;
  }
  distinct_state *state = calloc(1, sizeof *state);
  if (!state) return fn__raise_out_of_memory(&call.report);
  state->bits = bits;
  state->groups.width = (size_t)1 << bits;
  *out = state;
  return TRN_OK;
}

static void see(const distinct_state *state, size_t group, uint64_t hash) {
  uint8_t *registers = (uint8_t *)state->groups.data + group * state->groups.width;
  uint64_t rest = hash << state->bits | (uint64_t)1 << (state->bits - 1);
  uint8_t zeros = (uint8_t)(__builtin_clzll(rest) + 1);
  uint8_t *own = &registers[hash >> (64 - state->bits)];
  if (zeros > *own) *own = zeros;
}

static trn_status distinct_update(void *self, const trn_function_arg *args, size_t count, int64_t rows,
                                  const size_t *groups, const uint8_t *filter, size_t group_count,
                                  trn_function_error *error) {
  distinct_state *state = self;
  fn_agg_call call;
  trn_status status = open_distinct(&fn__agg_approx_count_distinct, args, count, rows, error, &call);
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&call.report);
  for (int64_t row = 0; row < rows && status == TRN_OK; row++)
    if (!fn__skip(&call.columns[0], filter, row))
      see(state, groups[row], fn__xxhash64_value(HASH_SEED, &call.columns[0], row));
  return status;
}

static trn_status distinct_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                                 const size_t *groups, size_t group_count, trn_function_error *error) {
  distinct_state *state = self;
  fn_report report = {error, -1};
  static const struct ArrowSchema BINARY = {.format = "z"};
  fn_column column;
  if (count != 1 || fn__column_open(&BINARY, states[0], false, &column) != TRN_OK) return TRN_INVALID_ARGUMENT;
  if (!fn__groups_grow(&state->groups, group_count)) return fn__raise_out_of_memory(&report);
  for (int64_t row = 0; row < rows; row++) {
    if (fn__is_null(&column, row)) continue;
    fn_text other = fn__get_text(&column, row);
    uint8_t *own = (uint8_t *)state->groups.data + groups[row] * state->groups.width;
    for (size_t i = 0; i < other.size && i < state->groups.width; i++)
      if ((uint8_t)other.data[i] > own[i]) own[i] = (uint8_t)other.data[i];
  }
  return TRN_OK;
}

/* The average bias of the measured estimates around this one. */
static double bias_of(int bits, double estimate) {
  const double *estimates = fn__distinct_estimates + fn__distinct_first[bits - FN_DISTINCT_BITS_MIN],
               *biases = fn__distinct_biases + fn__distinct_first[bits - FN_DISTINCT_BITS_MIN];
  int count = fn__distinct_first[bits - FN_DISTINCT_BITS_MIN + 1] - fn__distinct_first[bits - FN_DISTINCT_BITS_MIN];
  int nearest = 0;
  while (nearest < count && estimates[nearest] < estimate) nearest++;
  int low = nearest - NEIGHBOURS + 1 > 0 ? nearest - NEIGHBOURS + 1 : 0,
      high = low + NEIGHBOURS < count ? low + NEIGHBOURS : count;
  for (; high < count; low++, high++) {
    double below = estimate - estimates[low], above = estimate - estimates[high];
    if (above * above >= below * below) break;
  }
  double sum = 0;
  for (int i = low; i < high; i++) sum += biases[i];
  return sum / (high - low);
}

static int64_t estimate_of(const uint8_t *registers, int bits) {
  static const double LINEAR_MOST[] = {10,   20,   40,   80,    220,   400,   900,   1800,
                                       3100, 6500, 15500, 20000, 50000, 120000, 350000};
  double m = (double)((int64_t)1 << bits), inverse = 0, empty = 0;
  for (int64_t i = 0; i < (int64_t)1 << bits; i++) {
    inverse += 1.0 / (double)((uint64_t)1 << registers[i]);
    empty += registers[i] == 0;
  }
  double alpha = bits == 4 ? 0.673 : bits == 5 ? 0.697 : bits == 6 ? 0.709 : 0.7213 / (1.0 + 1.079 / m);
  double estimate = alpha * m * m / inverse, linear = empty > 0 ? m * log(m / empty) : 0;
  bool table = bits <= FN_DISTINCT_BITS_TABLE_MAX;
  double result = table && estimate < 5 * m ? estimate - bias_of(bits, estimate) : estimate;
  if (empty > 0 && (table ? linear <= LINEAR_MOST[bits - FN_DISTINCT_BITS_MIN] : estimate <= 2.5 * m)) result = linear;
  return (int64_t)floor(result + 0.5);
}

static trn_status distinct_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  distinct_state *state = self;
  fn_report report = {error, -1};
  fn_builder builder;
  fn_type type = fn__type(FN_INT64);
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || !fn__builder_init(&builder, &type, (int64_t)emit))
    return fn__raise_out_of_memory(&report);
  for (size_t g = 0; g < emit; g++)
    ((int64_t *)builder.data)[g] =
        estimate_of((const uint8_t *)state->groups.data + g * state->groups.width, state->bits);
  fn__groups_drop(&state->groups, emit);
  return fn__builder_finish(&builder, out) == TRN_OK ? TRN_OK : fn__raise_out_of_memory(&report);
}

static trn_status distinct_emit_state(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  distinct_state *state = self;
  fn_report report = {error, -1};
  fn_builder builder;
  fn_type type = fn__type(FN_BINARY);
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || !fn__builder_init(&builder, &type, (int64_t)emit))
    return fn__raise_out_of_memory(&report);
  for (size_t g = 0; g < emit; g++)
    fn__push(&builder, state->groups.data + g * state->groups.width, state->groups.width);
  if (fn__builder_finish(&builder, out) != TRN_OK) return fn__raise_out_of_memory(&report);
  fn__groups_drop(&state->groups, emit);
  return TRN_OK;
}

static size_t distinct_memory(const void *self) {
  const distinct_state *state = self;
  return sizeof *state + state->groups.capacity * state->groups.width;
}

static void distinct_destroy(void *self) {
  distinct_state *state = self;
  if (state) free(state->groups.data);
  free(state);
}

const trn_aggregate_function fn__agg_approx_count_distinct = {sizeof(trn_aggregate_function),
                                                              "trn.approx_count_distinct",
                                                              distinct_bind,
                                                              distinct_state_types,
                                                              distinct_create,
                                                              distinct_update,
                                                              distinct_merge,
                                                              distinct_evaluate,
                                                              distinct_emit_state,
                                                              distinct_memory,
                                                              distinct_destroy,
                                                              NULL};
