/* Variance and its kin by central moments, covariance and correlation by co-moments: updates and merges as Spark
 * computes them, so that the last digits agree. Slots and states are doubles. */
#include "functions/aggregate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum shape {
  VAR_SAMP,
  VAR_POP,
  STDDEV_SAMP,
  STDDEV_POP,
  SKEWNESS,
  KURTOSIS, /* n avg m2 m3 m4 */
  COVAR_SAMP,
  COVAR_POP,
  CORR, /* n xavg yavg ck xm ym */
  REGR_SLOPE,
  REGR_INTERCEPT,
  REGR_R2,
  REGR_SXX,
  REGR_SYY,
  REGR_SXY /* (x, y): y depends on x */
} shape;

#define SLOTS_MAX 6
typedef struct moments_state {
  const trn_aggregate_function *function;
  fn_groups groups; /* of double[SLOTS_MAX] */
} moments_state;

static shape shape_of(const trn_aggregate_function *function) {
  return *(const shape *)function->data;
}
static bool is_pair(const trn_aggregate_function *function) {
  return shape_of(function) >= COVAR_SAMP;
}
static size_t slots_of(const trn_aggregate_function *function) {
  return is_pair(function) ? 6 : 5;
}

static trn_status open_moments(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               int64_t rows, trn_function_error *error, fn_agg_call *call) {
  trn_status status = fn__agg_open(function->name, args, count, false, rows, error, call);
  bool good = status == TRN_OK && call->count == (is_pair(function) ? 2u : 1u);
  for (size_t i = 0; good && i < call->count; i++) good = call->columns[i].type.kind == FN_FLOAT64;
  if (status == TRN_OK && !good) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, "statistics take doubles");
    status = TRN_INVALID_ARGUMENT;
  }
  return status;
}

static trn_status moments_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowSchema *out, trn_function_error *error) {
  fn_agg_call call;
  fn_type type = fn__type(FN_FLOAT64);
  memset(out, 0, sizeof *out);
  trn_status status = open_moments(function, args, count, 0, error, &call);
  return status == TRN_OK ? fn__schema_make(out, &type, "", true) : status;
}

static trn_status moments_state_types(const trn_aggregate_function *function, const trn_function_arg *args,
                                      size_t count, struct ArrowSchema *out, size_t *state_count,
                                      trn_function_error *error) {
  static const char *const NAMES[] = {"n", "a", "b", "c", "d", "e"};
  fn_agg_call call;
  fn_type type = fn__type(FN_FLOAT64);
  trn_status status = open_moments(function, args, count, 0, error, &call);
  *state_count = 0;
  while (status == TRN_OK && *state_count < slots_of(function)) {
    status = fn__schema_make(&out[*state_count], &type, NAMES[*state_count], false);
    *state_count += status == TRN_OK;
  }
  for (; status != TRN_OK && *state_count > 0; --*state_count) out[*state_count - 1].release(&out[*state_count - 1]);
  return status;
}

static trn_status moments_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                 void **out, trn_function_error *error) {
  fn_agg_call call;
  *out = NULL;
  trn_status status = open_moments(function, args, count, 0, error, &call);
  moments_state *state = status == TRN_OK ? calloc(1, sizeof *state) : NULL;
  if (!state) return status == TRN_OK ? fn__raise_out_of_memory(&call.report) : status;
  state->function = function;
  state->groups.width = SLOTS_MAX * sizeof(double);
  *out = state;
  return TRN_OK;
}

static void add_value(double *s, double x) {
  double n = s[0] + 1, delta = x - s[1], delta_n = delta / n, delta2 = delta * delta, delta_n2 = delta_n * delta_n;
  double m2 = s[2] + delta * (delta - delta_n);
  double m3 = s[3] - 3 * delta_n * m2 + delta * (delta2 - delta_n2);
  s[4] = s[4] - 4 * delta_n * m3 - 6 * delta_n2 * m2 + delta * (delta * delta2 - delta_n * delta_n2);
  s[0] = n, s[1] += delta_n, s[2] = m2, s[3] = m3;
}

static void add_pair(double *s, double x, double y) {
  double n = s[0] + 1, dx = x - s[1], dy = y - s[2];
  s[0] = n;
  s[1] += dx / n;
  s[2] += dy / n;
  s[3] += dx * (y - s[2]);
  s[4] += dx * (x - s[1]);
  s[5] += dy * (y - s[2]);
}

static void merge_values(double *s, const double *o) {
  double n1 = s[0], n2 = o[0], n = n1 + n2, delta = o[1] - s[1], delta_n = n == 0 ? 0 : delta / n;
  double m2 = s[2] + o[2] + delta * delta_n * n1 * n2;
  double m3 = s[3] + o[3] + delta_n * delta_n * delta * n1 * n2 * (n1 - n2) + 3 * delta_n * (n1 * o[2] - n2 * s[2]);
  s[4] = s[4] + o[4] + delta_n * delta_n * delta_n * delta * n1 * n2 * (n1 * n1 - n1 * n2 + n2 * n2) +
         6 * delta_n * delta_n * (n1 * n1 * o[2] + n2 * n2 * s[2]) + 4 * delta_n * (n1 * o[3] - n2 * s[3]);
  s[0] = n, s[1] += delta_n * n2, s[2] = m2, s[3] = m3;
}

static void merge_pairs(double *s, const double *o) {
  double n1 = s[0], n2 = o[0], n = n1 + n2, dx = o[1] - s[1], dy = o[2] - s[2];
  double dx_n = n == 0 ? 0 : dx / n, dy_n = n == 0 ? 0 : dy / n;
  s[0] = n;
  s[1] += dx_n * n2;
  s[2] += dy_n * n2;
  s[3] += o[3] + dx * dy_n * n1 * n2;
  s[4] += o[4] + dx * dx_n * n1 * n2;
  s[5] += o[5] + dy * dy_n * n1 * n2;
}

static trn_status moments_update(void *self, const trn_function_arg *args, size_t count, int64_t rows,
                                 const size_t *groups, const uint8_t *filter, size_t group_count,
                                 trn_function_error *error) {
  moments_state *state = self;
  fn_agg_call call;
  trn_status status = open_moments(state->function, args, count, rows, error, &call);
  if (status != TRN_OK) return status;
  if (!fn__groups_grow(&state->groups, group_count)) return fn__raise_out_of_memory(&call.report);
  bool pair = is_pair(state->function);
  for (int64_t row = 0; row < rows; row++) {
    double *slots = (double *)state->groups.data + groups[row] * SLOTS_MAX;
    if (fn__skip(&call.columns[0], filter, row) || (pair && fn__is_null(&call.columns[1], row))) continue;
    if (pair)
      add_pair(slots, fn__get_f64(&call.columns[0], row), fn__get_f64(&call.columns[1], row));
    else
      add_value(slots, fn__get_f64(&call.columns[0], row));
  }
  return TRN_OK;
}

static trn_status moments_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                                const size_t *groups, size_t group_count, trn_function_error *error) {
  moments_state *state = self;
  fn_report report = {error, -1};
  fn_column columns[SLOTS_MAX];
  static const struct ArrowSchema FLOAT64 = {.format = "g"};
  size_t slots = slots_of(state->function);
  trn_status status = count == slots ? TRN_OK : TRN_INVALID_ARGUMENT;
  for (size_t i = 0; i < slots && status == TRN_OK; i++)
    status = fn__column_open(&FLOAT64, states[i], false, &columns[i]);
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&report);
  for (int64_t row = 0; row < rows && status == TRN_OK; row++) {
    double other[SLOTS_MAX] = {0}, *own = (double *)state->groups.data + groups[row] * SLOTS_MAX;
    for (size_t i = 0; i < slots; i++) other[i] = fn__get_f64(&columns[i], row);
    if (is_pair(state->function))
      merge_pairs(own, other);
    else
      merge_values(own, other);
  }
  return status;
}

/* False: null. */
static bool result_of(shape what, const double *s, double *out) {
  double n = s[0];
  if (n == 0) return false;
  switch (what) {
  case VAR_SAMP: *out = s[2] / (n - 1); return n != 1;
  case VAR_POP: *out = s[2] / n; return true;
  case STDDEV_SAMP: *out = sqrt(s[2] / (n - 1)); return n != 1;
  case STDDEV_POP: *out = sqrt(s[2] / n); return true;
  case SKEWNESS: *out = sqrt(n) * s[3] / sqrt(s[2] * s[2] * s[2]); return s[2] != 0;
  case KURTOSIS: *out = n * s[4] / (s[2] * s[2]) - 3.0; return s[2] != 0;
  case COVAR_SAMP: *out = s[3] / (n - 1); return n != 1;
  case COVAR_POP: *out = s[3] / n; return true;
  case REGR_SXX: *out = s[4]; return true;
  case REGR_SYY: *out = s[5]; return true;
  case REGR_SXY: *out = s[3]; return true;
  case REGR_SLOPE: *out = s[3] / s[4]; return s[4] != 0;
  case REGR_INTERCEPT: *out = s[2] - s[3] / s[4] * s[1]; return s[4] != 0;
  default: *out = s[3] / sqrt(s[4] * s[5]);
  }
  if (what == CORR) return n != 1 && s[4] * s[5] != 0;
  *out = s[5] == 0 ? 1 : *out * *out;
  return s[4] != 0;
}

static trn_status moments_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  moments_state *state = self;
  fn_report report = {error, -1};
  fn_builder builder;
  fn_type type = fn__type(FN_FLOAT64);
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || !fn__builder_init(&builder, &type, (int64_t)emit))
    return fn__raise_out_of_memory(&report);
  for (size_t g = 0; g < emit; g++) {
    double value = 0;
    if (!result_of(shape_of(state->function), (const double *)state->groups.data + g * SLOTS_MAX, &value)) {
      fn__set_null(&builder, (int64_t)g);
      value = 0;
    }
    ((double *)builder.data)[g] = value;
  }
  fn__groups_drop(&state->groups, emit);
  return fn__builder_finish(&builder, out);
}

static trn_status moments_emit_state(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  moments_state *state = self;
  fn_report report = {error, -1};
  fn_type type = fn__type(FN_FLOAT64);
  size_t slots = slots_of(state->function);
  memset(out, 0, slots * sizeof *out);
  bool good = fn__groups_grow(&state->groups, emit);
  for (size_t i = 0; i < slots && good; i++) {
    fn_builder builder;
    good = fn__builder_init(&builder, &type, (int64_t)emit);
    for (size_t g = 0; g < emit && good; g++)
      ((double *)builder.data)[g] = ((const double *)state->groups.data)[g * SLOTS_MAX + i];
    good = good && fn__builder_finish(&builder, &out[i]) == TRN_OK;
  }
  if (good) {
    fn__groups_drop(&state->groups, emit);
    return TRN_OK;
  }
  for (size_t i = 0; i < slots; i++)
    if (out[i].release) out[i].release(&out[i]);
  return fn__raise_out_of_memory(&report);
}

static size_t moments_memory(const void *self) {
  const moments_state *state = self;
  return sizeof *state + state->groups.capacity * state->groups.width;
}

static void moments_destroy(void *self) {
  moments_state *state = self;
  if (state) free(state->groups.data);
  free(state);
}

static const shape SHAPES[] = {VAR_SAMP, VAR_POP,    STDDEV_SAMP, STDDEV_POP, SKEWNESS,
                               KURTOSIS, COVAR_SAMP, COVAR_POP,   CORR,       REGR_SLOPE, REGR_INTERCEPT,
                               REGR_R2,  REGR_SXX,   REGR_SYY,    REGR_SXY};
#define MOMENTS(name, what)                                                                                            \
  {                                                                                                                    \
    sizeof(trn_aggregate_function), "trn." name, moments_bind, moments_state_types, moments_create, moments_update,    \
        moments_merge, moments_evaluate, moments_emit_state, moments_memory, moments_destroy, &SHAPES[what]            \
  }
const trn_aggregate_function fn__agg_moments[] = {
    MOMENTS("var_samp", VAR_SAMP),     MOMENTS("var_pop", VAR_POP),     MOMENTS("stddev_samp", STDDEV_SAMP),
    MOMENTS("stddev_pop", STDDEV_POP), MOMENTS("skewness", SKEWNESS),   MOMENTS("kurtosis", KURTOSIS),
    MOMENTS("covar_samp", COVAR_SAMP), MOMENTS("covar_pop", COVAR_POP), MOMENTS("corr", CORR),
    MOMENTS("regr_slope", REGR_SLOPE), MOMENTS("regr_intercept", REGR_INTERCEPT), MOMENTS("regr_r2", REGR_R2),
    MOMENTS("regr_sxx", REGR_SXX),     MOMENTS("regr_syy", REGR_SYY),             MOMENTS("regr_sxy", REGR_SXY),
};
const size_t fn__agg_moments_count = sizeof fn__agg_moments / sizeof fn__agg_moments[0];
