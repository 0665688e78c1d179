/* Functions with lambda arguments for tests at the engine's boundary, over lists of any elements:
 *   t.map(xs, x -> y): a list of what the lambda gives
 *   t.fold(xs, zero, (state, x) -> state [, state -> result])
 *   t.misuse(xs, how, x -> y): calls its lambda as nobody should; `how` is an int64. */
#ifndef TRN_TESTS_ENGINE_SEAM_LAMBDAS_H
#define TRN_TESTS_ENGINE_SEAM_LAMBDAS_H
#include <stdio.h>
#include <trunnion/function.h>

static bool is_list(const trn_function_arg *arg) { return arg->type && !strcmp(arg->type->format, "+l"); }

static void borrow_type(struct ArrowSchema *out, const struct ArrowSchema *type) { *out = *type, out->release = NULL; }

static void release_deep_schema(struct ArrowSchema *s) {
  for (int64_t i = 0; i < s->n_children; i++) s->children[i]->release(s->children[i]), free(s->children[i]);
  free(s->children), free((void *)s->format), free((void *)s->name);
  s->release = NULL;
}
static trn_status give_type(struct ArrowSchema *out, const struct ArrowSchema *type) {
  *out = (struct ArrowSchema){.format = strdup(type->format), .name = strdup(type->name ? type->name : ""),
                              .flags = type->flags, .n_children = type->n_children, .release = release_deep_schema};
  out->children = calloc((size_t)type->n_children + 1, sizeof *out->children);
  for (int64_t i = 0; i < type->n_children; i++) {
    out->children[i] = calloc(1, sizeof **out->children);
    give_type(out->children[i], type->children[i]);
  }
  return TRN_OK;
}

static trn_status signature(const trn_lambda_function *f, trn_function_error *error) {
  (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_SIGNATURE", f->name);
  return TRN_INVALID_ARGUMENT;
}

/* ---- t.map, t.misuse ---- */
static trn_status map_parameters(const trn_lambda_function *f, const trn_function_arg *args, size_t count, size_t index,
                                 trn_lambda_parameters *out, trn_function_error *error) {
  (void)count, (void)index;
  if (!is_list(&args[0])) return signature(f, error);
  borrow_type(&out->types[0], args[0].type->children[0]);
  out->count = out->least = 1;
  return TRN_OK;
}
static trn_status map_bind(const trn_lambda_function *f, const trn_function_arg *args, size_t count,
                           struct ArrowSchema *out, trn_function_error *error) {
  if (!is_list(&args[0]) || !args[count - 1].type) return signature(f, error);
  give_type(out, args[0].type);
  out->children[0]->release(out->children[0]);
  give_type(out->children[0], args[count - 1].type);
  free((void *)out->children[0]->name);
  out->children[0]->name = strdup("item");
  out->children[0]->flags |= ARROW_FLAG_NULLABLE, out->flags |= ARROW_FLAG_NULLABLE;
  return TRN_OK;
}

static void release_list(struct ArrowArray *a) {
  if (a->children[0]->release) a->children[0]->release(a->children[0]);
  free(a->children[0]), free(a->children), free((void *)a->buffers[0]), free((void *)a->buffers[1]), free(a->buffers);
  a->release = NULL;
}
/* A list like `like`, whose elements are what the lambda gave for those from its first one on. */
static void give_list(struct ArrowArray *out, const struct ArrowArray *like, struct ArrowArray *elements) {
  const int32_t *starts = (const int32_t *)like->buffers[1] + like->offset;
  int32_t *own = calloc((size_t)like->length + 1, sizeof *own);
  uint8_t *valid = calloc((size_t)like->length / 8 + 1, 1);
  const void **buffers = calloc(2, sizeof *buffers);
  for (int64_t i = 0; i <= like->length; i++) own[i] = starts[i] - starts[0];
  for (int64_t i = 0; i < like->length; i++)
    if (bit(like->buffers[0], like->offset + i)) valid[i / 8] |= (uint8_t)(1u << (i % 8));
  buffers[0] = valid, buffers[1] = own;
  *out = (struct ArrowArray){.length = like->length, .null_count = -1, .n_buffers = 2, .n_children = 1,
                             .buffers = buffers, .children = calloc(1, sizeof *out->children), .release = release_list};
  out->children[0] = calloc(1, sizeof **out->children);
  *out->children[0] = *elements;
}

enum { MISUSE_ORIGIN = 1, MISUSE_COUNT, MISUSE_LENGTH, MISUSE_NO_ORIGINS, MISUSE_ROWS, MISUSE_RELEASED, MISUSE_IGNORES };

static trn_status map_evaluate(const trn_lambda_function *f, const trn_function_arg *args, const trn_lambda *const *lambdas,
                               size_t count, int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  const trn_lambda *lambda = lambdas[count - 1];
  const struct ArrowArray *list = args[0].array;
  const int32_t *starts = (const int32_t *)list->buffers[1] + list->offset;
  int64_t total = starts[rows] - starts[0], how = 0;
  uint32_t *origins = calloc((size_t)total + 1, sizeof *origins);
  struct ArrowArray given[2] = {{0}}, made = {0};
  (void)f;
  if (count == 3 && rows) how = ((const int64_t *)args[1].array->buffers[1])[args[1].array->offset];
  for (int64_t row = 0; row < rows; row++)
    for (int32_t at = starts[row]; at < starts[row + 1]; at++) origins[at - starts[0]] = (uint32_t)row;
  trn_status status = lambda->share(lambda, list->children[0], &given[0], error);
  given[0].offset += starts[0], given[0].length = total, given[0].null_count = -1;
  if (how == MISUSE_ORIGIN && total) origins[total - 1] = (uint32_t)rows;
  if (how == MISUSE_LENGTH) given[0].length--;
  if (how == MISUSE_RELEASED) given[0].release(&given[0]);
  if (how == MISUSE_COUNT) lambda->share(lambda, list->children[0], &given[1], error);
  if (!status)
    status = lambda->invoke(lambda, given, how == MISUSE_COUNT ? 2 : 1, how == MISUSE_ROWS ? -1 : total,
                            how == MISUSE_NO_ORIGINS ? NULL : origins, &made, error);
  free(origins);
  if (given[0].release || given[1].release) abort(); /* taken, whatever happens */
  if (status && how == MISUSE_IGNORES) {
    struct ArrowArray none = {0};
    *out = none; /* OK, and nothing */
    return TRN_OK;
  }
  if (!status) give_list(out, list, &made);
  return status;
}
static const trn_lambda_function t_map = {.struct_size = sizeof t_map, .name = "t.map", .arguments = "vl",
                                          .parameters = map_parameters, .bind = map_bind, .evaluate = map_evaluate};
static const trn_lambda_function t_misuse = {.struct_size = sizeof t_misuse, .name = "t.misuse", .arguments = "vvl",
                                             .parameters = map_parameters, .bind = map_bind, .evaluate = map_evaluate};

/* ---- t.fold: over int64 ---- */
static trn_status fold_parameters(const trn_lambda_function *f, const trn_function_arg *args, size_t count, size_t index,
                                  trn_lambda_parameters *out, trn_function_error *error) {
  (void)count;
  if (!is_list(&args[0]) || strcmp(args[0].type->children[0]->format, "l") || strcmp(args[1].type->format, "l"))
    return signature(f, error);
  if (index == 3) { /* left to right: the first lambda's type is known, or whoever asks is wrong */
    if (!args[2].type) return (error->fail)(error->self, TRN_INTERNAL, "T_ORDER", "asked too early"), TRN_INTERNAL;
    borrow_type(&out->types[0], args[2].type);
    out->count = out->least = 1;
    return TRN_OK;
  }
  give_int64_type(&out->types[0]), give_int64_type(&out->types[1]);
  out->count = out->least = 2;
  return TRN_OK;
}
static trn_status fold_bind(const trn_lambda_function *f, const trn_function_arg *args, size_t count,
                            struct ArrowSchema *out, trn_function_error *error) {
  if (!is_list(&args[0]) || strcmp(args[2].type->format, "l")) return signature(f, error);
  give_type(out, args[count - 1].type);
  out->flags |= ARROW_FLAG_NULLABLE;
  return TRN_OK;
}
static bool value_at(const struct ArrowArray *a, int64_t i, int64_t *out) {
  *out = ((const int64_t *)a->buffers[1])[a->offset + i];
  return bit(a->buffers[0], a->offset + i);
}
static trn_status fold_evaluate(const trn_lambda_function *f, const trn_function_arg *args, const trn_lambda *const *lambdas,
                                size_t count, int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  const struct ArrowArray *list = args[0].array;
  const int32_t *starts = (const int32_t *)list->buffers[1] + list->offset;
  int64_t *states, *values, value;
  uint8_t *valid, *bits;
  uint32_t *live = calloc((size_t)rows + 1, sizeof *live);
  struct ArrowArray state, given;
  trn_status status = TRN_OK;
  (void)f;
  give_int64s(&state, rows, &states, &valid);
  for (int64_t i = 0; i < rows; i++)
    if (value_at(args[1].array, i, &value)) states[i] = value, valid[i / 8] |= (uint8_t)(1u << (i % 8));
  for (int64_t step = 0; !status; step++) {
    struct ArrowArray params[2];
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++)
      if (starts[i + 1] - starts[i] > step) live[n++] = (uint32_t)i;
    if (!n) break;
    give_int64s(&params[0], n, &values, &bits);
    for (int64_t i = 0; i < n; i++)
      if (valid[live[i] / 8] >> (live[i] % 8) & 1) values[i] = states[live[i]], bits[i / 8] |= (uint8_t)(1u << (i % 8));
    give_int64s(&params[1], n, &values, &bits);
    for (int64_t i = 0; i < n; i++)
      if (value_at(list->children[0], starts[live[i]] + step, &value))
        values[i] = value, bits[i / 8] |= (uint8_t)(1u << (i % 8));
    if ((status = lambdas[2]->invoke(lambdas[2], params, 2, n, live, &given, error))) break;
    for (int64_t i = 0; i < n; i++) {
      bool is_valid = value_at(&given, i, &states[live[i]]);
      valid[live[i] / 8] = (uint8_t)((valid[live[i] / 8] & ~(1u << (live[i] % 8))) | (unsigned)is_valid << (live[i] % 8));
    }
    given.release(&given);
  }
  free(live);
  for (int64_t i = 0; i < rows; i++) /* a null list has no result */
    if (!bit(list->buffers[0], list->offset + i)) valid[i / 8] &= (uint8_t) ~(1u << (i % 8));
  if (status || count == 3) {
    if (status) state.release(&state);
    else *out = state;
    return status;
  }
  return lambdas[3]->invoke(lambdas[3], &state, 1, rows, NULL, out, error);
}
static const trn_lambda_function t_fold = {.struct_size = sizeof t_fold, .name = "t.fold", .arguments = "vvl|l",
                                           .parameters = fold_parameters, .bind = fold_bind, .evaluate = fold_evaluate};

static const trn_lambda_function *const lambda_functions[] = {&t_map, &t_misuse, &t_fold};

#endif
