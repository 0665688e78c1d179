/* Window functions, a table function and operators for tests at the engine's boundary. */
#ifndef TRN_TESTS_ENGINE_SEAM_KINDS_H
#define TRN_TESTS_ENGINE_SEAM_KINDS_H
#include "seam_functions.h"

/* ---- t.running(int64): the sum so far; t.width(): the rows of the frame ---- */

static trn_status window_bind(const trn_window_function *f, const trn_function_arg *args, size_t count,
                              struct ArrowSchema *out, trn_function_error *error) {
  if (count != 1 || strcmp(args[0].type->format, "l")) {
    (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_SIGNATURE", f->name);
    return TRN_INVALID_ARGUMENT;
  }
  return give_int64_type(out);
}

static trn_status running_evaluate(const trn_window_function *f, const trn_function_arg *args, size_t count, int64_t rows,
                                   int64_t value_count, const size_t *starts, const size_t *ends, struct ArrowArray *out,
                                   trn_function_error *error) {
  (void)f, (void)count, (void)error;
  int64_t *values, sum = 0;
  uint8_t *valid;
  const struct ArrowArray *a = args[0].array;
  if (starts || ends || value_count != rows || a->length != rows) return TRN_INTERNAL;
  give_int64s(out, rows, &values, &valid);
  for (int64_t i = 0; i < rows; i++) {
    sum += ((const int64_t *)a->buffers[1])[a->offset + i];
    values[i] = sum;
    valid[i / 8] |= (uint8_t)(1u << (i % 8));
  }
  return TRN_OK;
}

static trn_status width_evaluate(const trn_window_function *f, const trn_function_arg *args, size_t count, int64_t rows,
                                 int64_t value_count, const size_t *starts, const size_t *ends, struct ArrowArray *out,
                                 trn_function_error *error) {
  (void)f, (void)args, (void)count, (void)rows, (void)error;
  int64_t *values;
  uint8_t *valid;
  if (!starts || !ends) return TRN_INTERNAL;
  give_int64s(out, value_count, &values, &valid);
  for (int64_t i = 0; i < value_count; i++) {
    values[i] = (int64_t)(ends[i] - starts[i]);
    valid[i / 8] |= (uint8_t)(1u << (i % 8));
  }
  return TRN_OK;
}

static const trn_window_function running = {.struct_size = sizeof running, .name = "t.running", .bind = window_bind,
                                            .evaluate = running_evaluate};
static const trn_window_function width = {.struct_size = sizeof width, .name = "t.width", .uses_frame = true,
                                          .bind = window_bind, .evaluate = width_evaluate};

/* ---- t_count(n): rows 0..n-1 ---- */

static struct ArrowSchema *one_column(void) {
  struct ArrowSchema *child = calloc(1, sizeof *child);
  give_int64_type(child);
  child->name = "v";
  return child;
}
static void release_struct(struct ArrowSchema *s) {
  free(s->children[0]), free(s->children);
  s->release = NULL;
}
static trn_status give_struct(struct ArrowSchema *out) {
  *out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = 1, .release = release_struct};
  out->children = calloc(1, sizeof *out->children);
  out->children[0] = one_column();
  return TRN_OK;
}
static void release_rows(struct ArrowArray *a) {
  if (a->children[0]->release) a->children[0]->release(a->children[0]);
  free(a->children[0]), free(a->children), free(a->buffers);
  a->release = NULL;
}
/* A struct array of one column. */
static void give_rows(struct ArrowArray *out, const int64_t *rows, int64_t count) {
  int64_t *values;
  uint8_t *valid;
  *out = (struct ArrowArray){.length = count, .n_buffers = 1, .n_children = 1, .release = release_rows};
  out->buffers = calloc(1, sizeof *out->buffers), out->children = calloc(1, sizeof *out->children);
  out->children[0] = calloc(1, sizeof *out->children[0]);
  give_int64s(out->children[0], count, &values, &valid);
  for (int64_t i = 0; i < count; i++) values[i] = rows[i], valid[i / 8] |= (uint8_t)(1u << (i % 8));
}

static trn_status count_bind(const trn_table_function *f, const trn_function_arg *args, size_t count,
                             struct ArrowSchema *out, trn_function_error *error) {
  if (count != 1 || !args[0].array || strcmp(args[0].type->format, "l")) {
    (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_SIGNATURE", f->name);
    return TRN_INVALID_ARGUMENT;
  }
  return give_struct(out);
}

typedef struct counting {
  int64_t at, end;
} counting;
static int counting_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) { return (void)s, give_struct(out), 0; }
static int counting_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
  counting *c = s->private_data;
  int64_t rows[2], count = 0;
  while (count < 2 && c->at < c->end) rows[count++] = c->at++;
  if (count) give_rows(out, rows, count);
  else *out = (struct ArrowArray){0};
  return 0;
}
static const char *counting_error(struct ArrowArrayStream *s) { return (void)s, NULL; }
static void counting_release(struct ArrowArrayStream *s) { free(s->private_data), s->release = NULL; }

static trn_status count_open(const trn_table_function *f, const trn_function_arg *args, size_t count,
                             struct ArrowArrayStream *out, trn_function_error *error) {
  (void)f, (void)count, (void)error;
  counting *c = calloc(1, sizeof *c);
  c->end = ((const int64_t *)args[0].array->buffers[1])[args[0].array->offset];
  *out = (struct ArrowArrayStream){.get_schema = counting_schema, .get_next = counting_next,
                                   .get_last_error = counting_error, .release = counting_release, .private_data = c};
  return TRN_OK;
}
static const trn_table_function t_count = {.struct_size = sizeof t_count, .name = "t_count", .bind = count_bind, .open = count_open};

/* ---- operators: each row as it comes, then the number of rows of its partition (per input) ---- */

static trn_status echo_bind(const trn_operator *op, const void *payload, size_t size, const struct ArrowSchema *const *inputs,
                            size_t input_count, struct ArrowSchema *out, trn_function_error *error) {
  (void)op, (void)payload, (void)size;
  for (size_t i = 0; i < input_count; i++)
    if (inputs[i]->n_children != 1) {
      (error->fail)(error->self, TRN_INVALID_ARGUMENT, "T_SIGNATURE", "t.echo has inputs of one column");
      return TRN_INVALID_ARGUMENT;
    }
  return give_struct(out);
}

/* payload[0]: 's' single and sorted descending, 'k' by key, else nothing is needed. */
static trn_status echo_require(const trn_operator *op, const void *payload, size_t size, size_t input,
                               trn_operator_requirement *out, trn_function_error *error) {
  (void)op, (void)input, (void)error;
  static const uint32_t first[] = {0};
  static const uint8_t descending[] = {1};
  char kind = size ? *(const char *)payload : 0;
  if (kind == 's') {
    out->distribution = TRN_DISTRIBUTION_SINGLE;
    out->order = first, out->order_flags = descending, out->order_count = 1;
  } else if (kind == 'k') {
    out->distribution = TRN_DISTRIBUTION_KEYS;
    out->keys = first, out->key_count = 1;
  }
  return TRN_OK;
}

typedef struct echo {
  struct ArrowArray rows; /* to be given out */
  int64_t count, end_count; /* end_count: to be given out, or -1 */
  bool fails;
} echo;
static atomic_int echo_states;

static trn_status echo_create(const trn_operator *op, const void *payload, size_t size, const struct ArrowSchema *const *inputs,
                              size_t input_count, uint32_t partition, void **state, trn_function_error *error) {
  (void)op, (void)inputs, (void)input_count, (void)partition, (void)error;
  echo *e = calloc(1, sizeof *e);
  e->end_count = -1;
  e->fails = size && *(const char *)payload == 'f';
  echo_states++;
  *state = e;
  return TRN_OK;
}
static trn_status echo_push(void *state, size_t input, struct ArrowArray *rows, trn_function_error *error) {
  echo *e = state;
  (void)input;
  if (!rows->release) {
    e->end_count = e->count, e->count = 0;
    return TRN_OK;
  }
  if (e->fails) {
    rows->release(rows);
    (error->fail)(error->self, TRN_DATA_LOSS, "T_ECHO", "no echo here");
    return TRN_DATA_LOSS;
  }
  e->rows = *rows, rows->release = NULL;
  e->count += e->rows.length;
  return TRN_OK;
}
static trn_status echo_pull(void *state, struct ArrowArray *out, trn_function_error *error) {
  echo *e = state;
  (void)error;
  *out = e->rows;
  e->rows.release = NULL;
  if (!out->release && e->end_count >= 0) {
    int64_t last = -e->end_count;
    e->end_count = -1;
    give_rows(out, &last, 1);
  }
  return TRN_OK;
}
static void echo_destroy(void *state) {
  echo *e = state;
  if (e->rows.release) e->rows.release(&e->rows);
  free(e);
  echo_states--;
}
static const trn_operator echo_operator = {.struct_size = sizeof echo_operator, .name = "t.echo", .bind = echo_bind,
                                           .require = echo_require, .create = echo_create, .push = echo_push,
                                           .pull = echo_pull, .destroy = echo_destroy};

static const trn_window_function *const windows[] = {&running, &width};
static const trn_table_function *const table_functions[] = {&t_count};
static const trn_operator *const operators[] = {&echo_operator};

#endif
