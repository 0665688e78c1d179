/* A tiny function library for tests at the engine's boundary: t.plus_one(int64 [, int64 position]), t.sum(int64). */
#ifndef TRN_TESTS_ENGINE_SEAM_FUNCTIONS_H
#define TRN_TESTS_ENGINE_SEAM_FUNCTIONS_H
#include <trunnion/function.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool bit(const uint8_t *bits, int64_t i) { return !bits || (bits[i / 8] >> (i % 8) & 1); }

static void release_schema(struct ArrowSchema *s) { s->release = NULL; }
static trn_status give_int64_type(struct ArrowSchema *out) {
  *out = (struct ArrowSchema){.format = "l", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = release_schema};
  return TRN_OK;
}
static void release_array(struct ArrowArray *a) {
  free((void *)a->buffers[0]), free((void *)a->buffers[1]), free(a->buffers);
  a->release = NULL;
}
static trn_status give_int64s(struct ArrowArray *out, int64_t n, int64_t **values, uint8_t **valid) {
  const void **buffers = calloc(2, sizeof *buffers);
  *values = calloc((size_t)n + 1, 8), *valid = calloc((size_t)n / 8 + 1, 1);
  if (!buffers || !*values || !*valid) abort();
  buffers[0] = *valid, buffers[1] = *values;
  *out = (struct ArrowArray){.length = n, .null_count = -1, .n_buffers = 2, .buffers = buffers, .release = release_array};
  return TRN_OK;
}

static trn_status plus_one_bind(const trn_scalar_function *f, const trn_function_arg *args, size_t count,
                                struct ArrowSchema *out, trn_function_error *error) {
  (void)f;
  if (count < 1 || count > 2 || strcmp(args[0].type->format, "l") || (count == 2 && !args[1].array)) {
    (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_SIGNATURE", "t.plus_one takes an int64 and a literal position");
    return TRN_INVALID_ARGUMENT;
  }
  return give_int64_type(out);
}
/* 666 is refused, by name, value and place. */
static trn_status plus_one_evaluate(const trn_scalar_function *f, const trn_function_arg *args, size_t count,
                                    int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  (void)f;
  const struct ArrowArray *a = args[0].array;
  int64_t n = args[0].is_scalar ? 1 : rows, *values;
  uint8_t *valid;
  give_int64s(out, n, &values, &valid);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = ((const int64_t *)a->buffers[1])[a->offset + i];
    if (!bit(a->buffers[0], a->offset + i)) continue;
    if (v == 666) {
      const struct ArrowArray *p = count == 2 ? args[1].array : NULL;
      out->release(out);
      (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_BAD_VALUE", "a bad value");
      error->add_param(error->self, "value", "666xyz", 3);
      error->set_position(error->self, p ? ((const int64_t *)p->buffers[1])[p->offset] : -1);
      return TRN_INVALID_ARGUMENT;
    }
    values[i] = v + 1;
    valid[i / 8] |= (uint8_t)(1u << (i % 8));
  }
  return TRN_OK;
}

typedef struct sum_state {
  int64_t *sums, *counts;
  size_t groups;
} sum_state;

static trn_status sum_bind(const trn_aggregate_function *f, const trn_function_arg *args, size_t count,
                           struct ArrowSchema *out, trn_function_error *error) {
  (void)f, (void)error;
  return count == 1 && !strcmp(args[0].type->format, "l") ? give_int64_type(out) : TRN_INVALID_ARGUMENT;
}
static trn_status sum_state_types(const trn_aggregate_function *f, const trn_function_arg *args, size_t count,
                                  struct ArrowSchema *out, size_t *state_count, trn_function_error *error) {
  (void)f, (void)args, (void)count, (void)error;
  *state_count = 2;
  give_int64_type(&out[0]);
  return give_int64_type(&out[1]);
}
static trn_status sum_create(const trn_aggregate_function *f, const trn_function_arg *args, size_t count, void **state,
                             trn_function_error *error) {
  (void)f, (void)args, (void)count, (void)error;
  return (*state = calloc(1, sizeof(sum_state))) ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}
static void sum_grow(sum_state *s, size_t groups) {
  if (groups <= s->groups) return;
  s->sums = realloc(s->sums, groups * 8), s->counts = realloc(s->counts, groups * 8);
  if (!s->sums || !s->counts) abort();
  memset(s->sums + s->groups, 0, (groups - s->groups) * 8), memset(s->counts + s->groups, 0, (groups - s->groups) * 8);
  s->groups = groups;
}
static trn_status sum_update(void *state, const trn_function_arg *args, size_t count, int64_t rows,
                             const size_t *groups, const uint8_t *filter, size_t group_count, trn_function_error *error) {
  sum_state *s = state;
  const struct ArrowArray *a = args[0].array;
  (void)count, (void)error;
  sum_grow(s, group_count);
  for (int64_t r = 0; r < rows; r++) {
    int64_t i = a->offset + (args[0].is_scalar ? 0 : r);
    if ((filter && !filter[r]) || !bit(a->buffers[0], i)) continue;
    s->sums[groups[r]] += ((const int64_t *)a->buffers[1])[i], s->counts[groups[r]]++;
  }
  return TRN_OK;
}
static trn_status sum_merge(void *state, const struct ArrowArray *const *states, size_t count, int64_t rows,
                            const size_t *groups, size_t group_count, trn_function_error *error) {
  sum_state *s = state;
  (void)error;
  if (count != 2) return TRN_INTERNAL;
  sum_grow(s, group_count);
  for (int64_t r = 0; r < rows; r++) {
    s->sums[groups[r]] += ((const int64_t *)states[0]->buffers[1])[states[0]->offset + r];
    s->counts[groups[r]] += ((const int64_t *)states[1]->buffers[1])[states[1]->offset + r];
  }
  return TRN_OK;
}
static void sum_forget(sum_state *s, size_t emit) {
  s->groups -= emit;
  memmove(s->sums, s->sums + emit, s->groups * 8), memmove(s->counts, s->counts + emit, s->groups * 8);
}
static trn_status sum_evaluate(void *state, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  sum_state *s = state;
  int64_t *values;
  uint8_t *valid;
  (void)error;
  if (emit > s->groups) return TRN_INTERNAL;
  give_int64s(out, (int64_t)emit, &values, &valid);
  for (size_t i = 0; i < emit; i++)
    if (s->counts[i]) values[i] = s->sums[i], valid[i / 8] |= (uint8_t)(1u << (i % 8));
  sum_forget(s, emit);
  return TRN_OK;
}
static trn_status sum_emit_state(void *state, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  sum_state *s = state;
  (void)error;
  if (emit > s->groups) return TRN_INTERNAL;
  for (int k = 0; k < 2; k++) {
    int64_t *values;
    uint8_t *valid;
    give_int64s(&out[k], (int64_t)emit, &values, &valid);
    memset(valid, 0xff, emit / 8 + 1);
    memcpy(values, k ? s->counts : s->sums, emit * 8);
  }
  sum_forget(s, emit);
  return TRN_OK;
}
static size_t sum_memory(const void *state) { return sizeof(sum_state) + ((const sum_state *)state)->groups * 16; }
static void sum_destroy(void *state) {
  sum_state *s = state;
  free(s->sums), free(s->counts), free(s);
}

static const trn_scalar_function plus_one = {.struct_size = sizeof plus_one, .name = "t.plus_one", .volatility = TRN_IMMUTABLE,
                                             .bind = plus_one_bind, .evaluate = plus_one_evaluate};
static const trn_aggregate_function sum = {
    .struct_size = sizeof sum, .name = "t.sum", .bind = sum_bind, .state_types = sum_state_types, .create = sum_create,
    .update = sum_update, .merge = sum_merge, .evaluate = sum_evaluate, .emit_state = sum_emit_state,
    .memory = sum_memory, .destroy = sum_destroy};
#include "seam_kinds.h"
#include "seam_lambdas.h"

static const trn_scalar_function *const scalars[] = {&plus_one};
static const trn_aggregate_function *const aggregates[] = {&sum};
static const trn_function_library library = {.struct_size = sizeof library, .abi = TRN_FUNCTION_ABI, .name = "t",
                                             .version = "1", .scalars = scalars, .scalar_count = 1,
                                             .aggregates = aggregates, .aggregate_count = 1,
                                             .windows = windows, .window_count = 2,
                                             .tables = table_functions, .table_count = 1,
                                             .operators = operators, .operator_count = 1,
                                             .lambdas = lambda_functions, .lambda_count = 3};

#endif
