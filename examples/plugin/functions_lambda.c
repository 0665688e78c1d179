/* Functions with lambda arguments: sample.count_where(xs, x -> condition) counts elements of any type, and
 * sample.running(xs, start, (state, x) -> state) gives the states of a fold over bigints. Lambdas are computed for whole
 * arrays: of one all elements of all lists at once, of the other the n-th elements of all lists that have one. */
#include "functions_lambda.h"

#include <stdlib.h>
#include <string.h>

#include "arrow_int.h"

static trn_status no_memory(trn_function_error *error) {
  error->fail(error->self, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  return TRN_RESOURCE_EXHAUSTED;
}

static trn_status refuse(trn_function_error *error, const char *message) {
  error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

/* ---- lists: list i has the elements [starts[i], starts[i + 1]) of `elements`; one that is null has none ---- */

typedef struct lists {
  const int32_t *starts;
  const struct ArrowArray *elements;
  int64_t first, count; /* of all lists together */
} lists;

static lists lists_of(const struct ArrowArray *array) {
  static const int32_t none[1] = {0};
  const int32_t *starts = array->buffers[1] ? (const int32_t *)array->buffers[1] + array->offset : none;
  return (lists){starts, array->children[0], starts[0], starts[array->length] - starts[0]};
}

static bool is_set(const struct ArrowArray *array, int buffer, int64_t row) {
  const uint8_t *bits = array->buffers[buffer];
  int64_t at = array->offset + row;
  return !bits || (bits[at / 8] >> at % 8 & 1);
}

static bool has(const trn_function_arg *arg, const char *format) {
  return arg->type && strcmp(arg->type->format, format) == 0;
}

/* A type that is there already: a copy of its struct, without release. */
static void borrow_type(struct ArrowSchema *out, const struct ArrowSchema *type) {
  *out = *type;
  out->release = NULL;
}

/* ---- sample.count_where ---- */

static trn_status where_parameters(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                                   size_t index, trn_lambda_parameters *out, trn_function_error *error) {
  (void)function, (void)count, (void)index;
  if (!has(&args[0], "+l")) return refuse(error, "sample.count_where takes an array and a condition");
  borrow_type(&out->types[0], args[0].type->children[0]);
  out->count = out->least = 1;
  return TRN_OK;
}

static trn_status where_bind(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                             struct ArrowSchema *out, trn_function_error *error) {
  (void)function, (void)count;
  if (!has(&args[0], "+l") || !has(&args[1], "b"))
    return refuse(error, "sample.count_where takes an array and a condition");
  int_schema(out, "", args[0].type->flags & ARROW_FLAG_NULLABLE);
  return TRN_OK;
}

static uint32_t *origins_of(const lists *of, int64_t rows) {
  uint32_t *origins = malloc(((size_t)of->count + 1) * sizeof *origins);
  for (int64_t row = 0; origins && row < rows; row++)
    for (int32_t at = of->starts[row]; at < of->starts[row + 1]; at++) origins[at - of->first] = (uint32_t)row;
  return origins;
}

static trn_status where_evaluate(const trn_lambda_function *function, const trn_function_arg *args,
                                 const trn_lambda *const *lambdas, size_t count, int64_t rows, struct ArrowArray *out,
                                 trn_function_error *error) {
  const trn_lambda *condition = lambdas[1];
  lists of = lists_of(args[0].array);
  struct ArrowArray elements, holds = {0};
  int_array result = {0};
  uint32_t *origins = origins_of(&of, rows);
  trn_status status = origins ? condition->share(condition, of.elements, &elements, error) : no_memory(error);
  (void)function, (void)count;
  if (status) goto done;
  elements.offset += of.first; /* a part of what the lists have in common, without a copy */
  elements.length = of.count;
  elements.null_count = -1;
  status = condition->invoke(condition, &elements, 1, of.count, origins, &holds, error);
  if (!status && !int_array_start(&result, rows)) status = no_memory(error);
  for (int64_t row = 0; row < rows && !status; row++) {
    int64_t found = 0;
    for (int32_t at = of.starts[row]; at < of.starts[row + 1]; at++)
      found += is_set(&holds, 0, at - of.first) && is_set(&holds, 1, at - of.first);
    if (is_set(args[0].array, 0, row)) int_array_set(&result, row, found);
  }
  if (!status && !int_array_end(&result, out)) status = no_memory(error);
done:
  if (holds.release) holds.release(&holds);
  free(origins);
  return status;
}

static const trn_lambda_function count_where = {sizeof(trn_lambda_function), "sample.count_where", TRN_IMMUTABLE, "vl",
                                                where_parameters, where_bind, where_evaluate, NULL};

/* ---- sample.running ---- */

static const char *const running_takes = "sample.running takes an array of bigints, a bigint and a function of both that gives a bigint";

static bool running_takes_these(const trn_function_arg *args) {
  return has(&args[0], "+l") && strcmp(args[0].type->children[0]->format, "l") == 0 && has(&args[1], "l");
}

static trn_status running_parameters(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                                     size_t index, trn_lambda_parameters *out, trn_function_error *error) {
  (void)function, (void)count, (void)index;
  if (!running_takes_these(args)) return refuse(error, running_takes);
  int_schema(&out->types[0], "", true);
  int_schema(&out->types[1], "", true);
  int_schema(&out->types[2], "", false); /* the place of the element, which a lambda may leave out */
  out->count = 3;
  out->least = 2;
  return TRN_OK;
}

static trn_status running_bind(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowSchema *out, trn_function_error *error) {
  (void)function, (void)count;
  if (!running_takes_these(args) || !has(&args[2], "l")) return refuse(error, running_takes);
  return int_list_schema(out) ? TRN_OK : no_memory(error);
}

/* The states before step `step` of the rows that take it, their elements, and the step. */
static bool step_arrays(const trn_function_arg *args, const int_array *states, const lists *of, const uint32_t *live,
                        int64_t count, int64_t step, struct ArrowArray *params) {
  int_array columns[3] = {{0}};
  bool is_made = true;
  int64_t value;
  for (int i = 0; i < 3; i++) is_made = is_made && int_array_start(&columns[i], count);
  for (int64_t i = 0; i < count && is_made; i++) {
    int64_t at = of->starts[live[i]] + step;
    if (step == 0 ? int_value(args[1].array, false, live[i], &value)
                  : int_array_get(states, at - 1 - of->first, &value))
      int_array_set(&columns[0], i, value);
    if (int_value(of->elements, false, at, &value)) int_array_set(&columns[1], i, value);
    int_array_set(&columns[2], i, step);
  }
  for (int i = 0; i < 3; i++) {
    if (!is_made) int_array_drop(&columns[i]);
    else if (!int_array_end(&columns[i], &params[i])) is_made = false;
  }
  for (int i = 0; i < 3 && !is_made; i++)
    if (params[i].release) params[i].release(&params[i]);
  return is_made;
}

/* Step by step: as many calls of the lambda as the longest list has elements. */
static trn_status run(const trn_function_arg *args, const trn_lambda *next, const lists *of, int64_t rows,
                      uint32_t *live, int_array *states, trn_function_error *error) {
  trn_status status = TRN_OK;
  int64_t count = rows, value;
  for (int64_t row = 0; row < rows; row++) live[row] = (uint32_t)row;
  for (int64_t step = 0; !status; step++) {
    struct ArrowArray params[3] = {{0}}, given = {0};
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++)
      if (of->starts[live[i] + 1] - of->starts[live[i]] > step) live[left++] = live[i];
    if (!(count = left)) break;
    if (!step_arrays(args, states, of, live, count, step, params)) return no_memory(error);
    status = next->invoke(next, params, 3, count, live, &given, error);
    for (int64_t i = 0; i < count && !status; i++)
      if (int_value(&given, false, i, &value)) int_array_set(states, of->starts[live[i]] + step - of->first, value);
    if (given.release) given.release(&given);
  }
  return status;
}

static trn_status running_evaluate(const trn_lambda_function *function, const trn_function_arg *args,
                                   const trn_lambda *const *lambdas, size_t count, int64_t rows, struct ArrowArray *out,
                                   trn_function_error *error) {
  lists of = lists_of(args[0].array);
  int_array states = {0};
  struct ArrowArray values;
  uint32_t *live = malloc(((size_t)rows + 1) * sizeof *live);
  bool is_made = live && int_array_start(&states, of.count);
  trn_status status = is_made ? run(args, lambdas[2], &of, rows, live, &states, error) : no_memory(error);
  (void)function, (void)count;
  if (status) int_array_drop(&states);
  else if (!int_array_end(&states, &values) || !int_list_array(out, args[0].array, of.starts, &values))
    status = no_memory(error);
  free(live);
  return status;
}

static const trn_lambda_function running = {sizeof(trn_lambda_function), "sample.running", TRN_IMMUTABLE, "vvl",
                                            running_parameters, running_bind, running_evaluate, NULL};

const trn_lambda_function *const sample_lambdas[SAMPLE_LAMBDAS] = {&count_where, &running};
