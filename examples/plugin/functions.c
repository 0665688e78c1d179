/* Functions of each kind, over 64-bit integers: sample.digit_sum(n), sample.product(n), sample.gap(n) OVER (...) and the
 * table sample.squares(n); those with lambdas are in functions_lambda.c. Their names begin with the library's. */
#include "functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_int.h"
#include "functions_lambda.h"

static trn_status no_memory(trn_function_error *error) {
  error->fail(error->self, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  return TRN_RESOURCE_EXHAUSTED;
}

/* The one argument is a bigint: clients are told so by the name of the function. */
static trn_status check(const char *name, const trn_function_arg *args, size_t count, trn_function_error *error) {
  char message[128] = "";
  if (count == 1 && strcmp(args[0].type->format, "l") == 0) return TRN_OK;
  strcat(strcat(message, name), " takes one bigint");
  error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

static trn_status give(int_array *array, struct ArrowArray *out, trn_function_error *error) {
  return int_array_end(array, out) ? TRN_OK : no_memory(error);
}

/* ---- a scalar function ---- */

static trn_status digits_bind(const trn_scalar_function *function, const trn_function_arg *args, size_t count,
                              struct ArrowSchema *out, trn_function_error *error) {
  trn_status status = check(function->name, args, count, error);
  if (!status) int_schema(out, "", args[0].type->flags & ARROW_FLAG_NULLABLE);
  return status;
}

static trn_status digits_evaluate(const trn_scalar_function *function, const trn_function_arg *args, size_t count,
                                  int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  int_array result;
  int64_t value, length = args[0].is_scalar ? 1 : rows;
  (void)function, (void)count;
  if (!int_array_start(&result, length)) return no_memory(error);
  for (int64_t row = 0; row < length; row++) {
    if (!int_value(args[0].array, args[0].is_scalar, row, &value)) continue;
    int64_t sum = 0;
    for (; value; value /= 10) sum += value % 10;
    int_array_set(&result, row, sum < 0 ? -sum : sum);
  }
  return give(&result, out, error);
}

static const trn_scalar_function digit_sum = {sizeof(trn_scalar_function), "sample.digit_sum", TRN_IMMUTABLE,
                                              digits_bind,                 digits_evaluate,    NULL};

/* ---- an aggregate: the product of what is not null ---- */

typedef struct product_group {
  int64_t value;
  bool has_value;
} product_group;

typedef struct product_state {
  product_group *groups;
  size_t count, capacity;
} product_state;

static trn_status product_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowSchema *out, trn_function_error *error) {
  trn_status status = check(function->name, args, count, error);
  if (!status) int_schema(out, "", true);
  return status;
}

static trn_status product_types(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                struct ArrowSchema *out, size_t *state_count, trn_function_error *error) {
  trn_status status = check(function->name, args, count, error);
  if (!status) int_schema(&out[0], "product", true);
  *state_count = status ? 0 : 1;
  return status;
}

static trn_status product_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                 void **state, trn_function_error *error) {
  (void)function, (void)args, (void)count;
  *state = calloc(1, sizeof(product_state));
  return *state ? TRN_OK : no_memory(error);
}

static bool grow(product_state *state, size_t count) {
  if (count > state->capacity) {
    size_t capacity = count + count / 2;
    product_group *groups = realloc(state->groups, capacity * sizeof *groups);
    if (!groups) return false;
    state->groups = groups;
    state->capacity = capacity;
  }
  for (; state->count < count; state->count++) state->groups[state->count] = (product_group){1, false};
  return true;
}

static trn_status multiply(product_state *state, const struct ArrowArray *array, bool is_scalar, int64_t rows,
                           const size_t *groups, const uint8_t *filter, trn_function_error *error) {
  int64_t value;
  for (int64_t row = 0; row < rows; row++) {
    product_group *group = &state->groups[groups[row]];
    if ((filter && !filter[row]) || !int_value(array, is_scalar, row, &value)) continue;
    if (__builtin_mul_overflow(group->value, value, &group->value)) {
      error->fail(error->self, TRN_OUT_OF_RANGE, NULL, "sample.product leaves 64 bits");
      return TRN_OUT_OF_RANGE;
    }
    group->has_value = true;
  }
  return TRN_OK;
}

static trn_status product_update(void *self, const trn_function_arg *args, size_t count, int64_t rows,
                                 const size_t *groups, const uint8_t *filter, size_t group_count,
                                 trn_function_error *error) {
  (void)count;
  if (!grow(self, group_count)) return no_memory(error);
  return multiply(self, args[0].array, args[0].is_scalar, rows, groups, filter, error);
}

static trn_status product_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                                const size_t *groups, size_t group_count, trn_function_error *error) {
  (void)count;
  if (!grow(self, group_count)) return no_memory(error);
  return multiply(self, states[0], false, rows, groups, NULL, error);
}

static trn_status product_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  product_state *state = self;
  int_array result;
  if (!grow(state, emit) || !int_array_start(&result, (int64_t)emit)) return no_memory(error);
  for (size_t i = 0; i < emit; i++)
    if (state->groups[i].has_value) int_array_set(&result, (int64_t)i, state->groups[i].value);
  state->count -= emit;
  memmove(state->groups, state->groups + emit, state->count * sizeof *state->groups);
  return give(&result, out, error);
}

static size_t product_memory(const void *self) {
  return sizeof(product_state) + ((const product_state *)self)->capacity * sizeof(product_group);
}

static void product_destroy(void *self) {
  if (self) free(((product_state *)self)->groups);
  free(self);
}

static const trn_aggregate_function product = {
    sizeof(trn_aggregate_function), "sample.product", product_bind,   product_types,
    product_create,                 product_update,   product_merge,  product_evaluate,
    product_evaluate /* the state is the result */,   product_memory, product_destroy,  NULL};

/* ---- a window function: how far a row is from the one before ---- */

static trn_status gap_bind(const trn_window_function *function, const trn_function_arg *args, size_t count,
                           struct ArrowSchema *out, trn_function_error *error) {
  trn_status status = check(function->name, args, count, error);
  if (!status) int_schema(out, "", true);
  return status;
}

static trn_status gap_evaluate(const trn_window_function *function, const trn_function_arg *args, size_t count,
                               int64_t rows, int64_t value_count, const size_t *starts, const size_t *ends,
                               struct ArrowArray *out, trn_function_error *error) {
  int_array result;
  int64_t before, here;
  (void)function, (void)count, (void)value_count, (void)starts, (void)ends;
  if (!int_array_start(&result, rows)) return no_memory(error);
  for (int64_t row = 1; row < rows; row++)
    if (int_value(args[0].array, args[0].is_scalar, row - 1, &before) &&
        int_value(args[0].array, args[0].is_scalar, row, &here))
      int_array_set(&result, row, (int64_t)((uint64_t)here - (uint64_t)before));
  return give(&result, out, error);
}

static const trn_window_function gap = {sizeof(trn_window_function), "sample.gap", false, gap_bind, gap_evaluate, NULL};

/* ---- a table function: the numbers below n, and their squares ---- */

enum { SQUARES_MAX = 1000000, SQUARES_BATCH = 1024 };
static const char *const square_columns[] = {"n", "square"};

typedef struct squares {
  int64_t next, end;
} squares;

static trn_status squares_bind(const trn_table_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowSchema *out, trn_function_error *error) {
  trn_status status = check(function->name, args, count, error);
  if (status) return status;
  return int_struct_schema(out, square_columns, 2) ? TRN_OK : no_memory(error);
}

static int squares_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  (void)stream;
  return int_struct_schema(out, square_columns, 2) ? 0 : ENOMEM;
}

static int squares_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  squares *self = stream->private_data;
  int64_t rows = self->end - self->next < SQUARES_BATCH ? self->end - self->next : SQUARES_BATCH;
  int_array arrays[2] = {{0}};
  struct ArrowArray columns[2];
  memset(out, 0, sizeof *out);
  if (rows <= 0) return 0;
  if (!int_array_start(&arrays[0], rows)) return ENOMEM;
  if (!int_array_start(&arrays[1], rows)) {
    int_array_drop(&arrays[0]);
    return ENOMEM;
  }
  for (int64_t i = 0; i < rows; i++) {
    int_array_set(&arrays[0], i, self->next + i);
    int_array_set(&arrays[1], i, (self->next + i) * (self->next + i));
  }
  self->next += rows;
  bool has_first = int_array_end(&arrays[0], &columns[0]), has_second = int_array_end(&arrays[1], &columns[1]);
  if (has_first && has_second) return int_struct_array(out, columns, 2, rows) ? 0 : ENOMEM;
  if (has_first) columns[0].release(&columns[0]);
  if (has_second) columns[1].release(&columns[1]);
  return ENOMEM;
}

static const char *squares_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return "out of memory";
}

static void squares_release(struct ArrowArrayStream *stream) {
  free(stream->private_data);
  stream->release = NULL;
}

static trn_status squares_open(const trn_table_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowArrayStream *out, trn_function_error *error) {
  squares self = {0, 0};
  trn_status status = check(function->name, args, count, error);
  if (status) return status;
  if (int_value(args[0].array, true, 0, &self.end) && self.end > SQUARES_MAX) {
    error->fail(error->self, TRN_OUT_OF_RANGE, NULL, "sample.squares gives a million rows at most");
    return TRN_OUT_OF_RANGE;
  }
  squares *state = malloc(sizeof *state);
  if (!state) return no_memory(error);
  *state = self;
  *out = (struct ArrowArrayStream){squares_schema, squares_next, squares_error, squares_release, state};
  return TRN_OK;
}

static const trn_table_function squares_table = {sizeof(trn_table_function), "sample.squares", squares_bind, squares_open,
                                                 NULL};

/* ---- the library ---- */

static const trn_scalar_function *const scalars[] = {&digit_sum};
static const trn_aggregate_function *const aggregates[] = {&product};
static const trn_window_function *const windows[] = {&gap};
static const trn_table_function *const tables[] = {&squares_table};

const trn_function_library sample_functions = {sizeof(trn_function_library),
                                               TRN_FUNCTION_ABI,
                                               "sample",
                                               "1.0",
                                               scalars,
                                               1,
                                               aggregates,
                                               1,
                                               windows,
                                               1,
                                               tables,
                                               1,
                                               NULL,
                                               0,
                                               sample_lambdas,
                                               SAMPLE_LAMBDAS,
                                               0};
