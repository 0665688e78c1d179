/* Vectors: lists of floats that are measured, compared and scaled, in float arithmetic as Spark does; and bitmaps' bits.
 */
#include "functions/frame.h"
#include "functions/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INNER, DISTANCE, COSINE };

typedef struct vector {
  const float *values;
  int64_t size;
} vector;

static trn_status raise_dimensions(const fn_call *call, int64_t left, int64_t right) {
  char name[64], sizes[2][24];
  snprintf(name, sizeof name, "`%s`", call->function->name + 4);
  snprintf(sizes[0], sizeof sizes[0], "%lld", (long long)left);
  snprintf(sizes[1], sizeof sizes[1], "%lld", (long long)right);
  return fn__raise(&call->report, "VECTOR_DIMENSION_MISMATCH", "functionName", name, "leftDim", sizes[0], "rightDim",
                   sizes[1], NULL);
}

/* False: an element is null. */
static bool vector_at(const fn_column *list, const fn_column *child, int64_t row, vector *out) {
  const int32_t *offsets = list->offsets + row * list->step;
  *out = (vector){(const float *)child->data + offsets[0], offsets[1] - offsets[0]};
  for (int32_t i = offsets[0]; i < offsets[1]; i++)
    if (fn__is_null(child, i)) return false;
  return true;
}

static float compare(int op, const vector *a, const vector *b, bool *null) {
  float sum = 0, left = 0, right = 0;
  for (int64_t i = 0; i < a->size; i++) {
    float x = a->values[i], y = b->values[i], d = x - y;
    sum += op == DISTANCE ? d * d : x * y;
    left += x * x;
    right += y * y;
  }
  if (op == INNER) return sum;
  if (op == DISTANCE) return (float)sqrt((double)sum);
  float size = (float)sqrt((double)(left * right));
  *null = size == 0;
  return *null ? 0 : sum / size;
}

static trn_status pairs(fn_call *call) {
  fn_column children[2];
  float *out = call->out.data;
  if (fn__column_child(&call->columns[0], 0, &children[0]) != TRN_OK ||
      fn__column_child(&call->columns[1], 0, &children[1]) != TRN_OK)
    return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    vector a, b;
    bool null = fn__row_is_null(&call->out, row);
    out[row] = 0;
    if (null) continue;
    bool whole = vector_at(&call->columns[0], &children[0], row, &a);
    whole &= vector_at(&call->columns[1], &children[1], row, &b);
    if (a.size != b.size) return raise_dimensions(call, a.size, b.size);
    if (whole)
      out[row] = compare(call->function->op, &a, &b, &null);
    else
      null = true;
    if (null) fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

/* False: the degree is none of 1, 2, infinity. */
static bool norm_of(const vector *v, float degree, float *out) {
  float sum = 0;
  for (int64_t i = 0; i < v->size; i++) {
    float size = fabsf(v->values[i]);
    if (degree == 1)
      sum += size;
    else if (degree == 2)
      sum += v->values[i] * v->values[i];
    else
      sum = size > sum ? size : sum;
  }
  *out = degree == 2 ? (float)sqrt((double)sum) : sum;
  return degree == 1 || degree == 2 || (isinf(degree) && degree > 0);
}

static trn_status raise_degree(const fn_call *call, float degree) {
  char name[64], text[FN_DOUBLE_TEXT_MAX + 1];
  snprintf(name, sizeof name, "`%s`", call->function->name + 4);
  text[fn__float_print(degree, text)] = 0;
  return fn__raise(&call->report, "INVALID_VECTOR_NORM_DEGREE", "functionName", name, "degree", text, NULL);
}

static trn_status norms(fn_call *call) {
  fn_column child;
  float *out = call->out.data;
  if (fn__column_child(&call->columns[0], 0, &child) != TRN_OK) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    vector v;
    out[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    float degree = (float)fn__get_number(&call->columns[1], row);
    if (!vector_at(&call->columns[0], &child, row, &v))
      fn__set_null(&call->out, row);
    else if (!norm_of(&v, degree, &out[row]))
      return raise_degree(call, degree);
  }
  return TRN_OK;
}

static trn_status normalize(fn_call *call) {
  fn_column child;
  fn_builder values;
  fn_type type = fn__type(FN_FLOAT32);
  const fn_column *list = &call->columns[0];
  struct ArrowArray array;
  int64_t total = 0, made = 0;
  if (fn__column_child(list, 0, &child) != TRN_OK) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++)
    if (!fn__row_is_null(&call->out, row))
      total += list->offsets[row * list->step + 1] - list->offsets[row * list->step];
  if (!fn__builder_init(&values, &type, total)) return fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows; row++) {
    vector v;
    float size = 1;
    bool null = fn__row_is_null(&call->out, row);
    if (!null) {
      float degree = (float)fn__get_number(&call->columns[1], row);
      bool whole = vector_at(list, &child, row, &v);
      if (whole && !norm_of(&v, degree, &size)) {
        fn__builder_clear(&values);
        return raise_degree(call, degree);
      }
      null = !whole || (size == 0 && v.size > 0);
      if (null) fn__set_null(&call->out, row);
    }
    for (int64_t i = 0; !null && i < v.size; i++) ((float *)values.data)[made++] = v.values[i] / size;
    fn__push_list(&call->out, made);
  }
  values.rows = made;
  if (fn__builder_finish(&values, &array) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &array);
  return TRN_OK;
}

static bool is_vector(const fn_column *column) {
  fn_type value;
  return column->type.kind == FN_LIST && fn__type_read(column->type.schema->children[0], &value) &&
         value.kind == FN_FLOAT32;
}

static trn_status bind_pairs(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 2 || !is_vector(&call->columns[0]) || !is_vector(&call->columns[1])) return fn__mismatch(call);
  *out = fn__type(FN_FLOAT32);
  return TRN_OK;
}

static trn_status bind_norms(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 2 || !is_vector(&call->columns[0]) || call->columns[1].type.kind != FN_FLOAT32)
    return fn__mismatch(call);
  *out = fn__type(FN_FLOAT32);
  return TRN_OK;
}

static trn_status bind_normalize(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  fn_type value = fn__type(FN_FLOAT32);
  trn_status status = bind_norms(call, out, NULL);
  if (status != TRN_OK) return status;
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  status = fn__schema_make(&child, &value, "element", true);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- where a number is in bitmaps of 32768 bits ---- */
#define BITMAP_BITS 32768
enum { POSITION, BUCKET };
static trn_status bitmap_place(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t value = fn__row_is_null(&call->out, row) ? 0 : fn__get_i64(&call->columns[0], row);
    int64_t position = value > 0 ? (value - 1) % BITMAP_BITS : -(value % BITMAP_BITS);
    int64_t bucket = value > 0 ? 1 + (value - 1) / BITMAP_BITS : value / BITMAP_BITS;
    ((int64_t *)call->out.data)[row] = call->function->op == POSITION ? position : bucket;
  }
  return TRN_OK;
}

static trn_status bitmap_count(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t bits = 0;
    fn_text text = fn__row_is_null(&call->out, row) ? (fn_text){"", 0} : fn__get_text(&call->columns[0], row);
    for (size_t i = 0; i < text.size; i++) bits += __builtin_popcount((unsigned char)text.data[i]);
    ((int64_t *)call->out.data)[row] = bits;
  }
  return TRN_OK;
}

FN_BIND(place, "l", fn__type(FN_INT64))
FN_BIND(bits, "z", fn__type(FN_INT64))

const fn_scalar fn__vector_table[] = {
    {"trn.vector_inner_product", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, INNER, bind_pairs, pairs},
    {"trn.vector_l2_distance", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, DISTANCE, bind_pairs, pairs},
    {"trn.vector_cosine_similarity", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, COSINE, bind_pairs, pairs},
    {"trn.vector_norm", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_norms, norms},
    {"trn.vector_normalize", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_normalize, normalize},
    {"trn.bitmap_bit_position", TRN_IMMUTABLE, FN_STRICT, POSITION, bind_place, bitmap_place},
    {"trn.bitmap_bucket_number", TRN_IMMUTABLE, FN_STRICT, BUCKET, bind_place, bitmap_place},
    {"trn.bitmap_count", TRN_IMMUTABLE, FN_STRICT, 0, bind_bits, bitmap_count},
    {NULL},
};
