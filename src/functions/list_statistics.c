/* percentile(list of doubles, fraction...): between the two nearest values of the sorted list, as Spark's percentile;
 * percentile_disc takes a value that is there. list_mode(list): the most
 * frequent value. Over what collect_list gives. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ONE, MANY, DISCRETE };

static int by_value(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return x < y ? -1 : x > y;
}

static double between(const double *sorted, int64_t count, double fraction, bool discrete) {
  if (discrete) {
    int64_t at = (int64_t)ceil((double)count * fraction) - 1;
    return sorted[at < 0 ? 0 : at >= count ? count - 1 : at];
  }
  double position = (double)(count - 1) * fraction, low = floor(position), high = ceil(position);
  double x = sorted[(int64_t)low], y = sorted[(int64_t)high];
  return low == high || x == y ? x : (high - position) * x + (position - low) * y;
}

static trn_status percentile(fn_call *call) {
  const fn_column *list = &call->columns[0];
  int op = call->function->op;
  size_t each = call->count - 1;
  double *sorted = NULL, *results = op == MANY ? fn__alloc((size_t)call->rows * each * sizeof(double)) : call->out.data;
  int64_t capacity = 0, made = 0;
  fn_column child;
  bool good = results && fn__column_child(list, 0, &child) == TRN_OK;
  for (int64_t row = 0; row < call->rows && good; row++) {
    const int32_t *offsets = list->offsets + row * list->step;
    int64_t count = fn__row_is_null(&call->out, row) ? 0 : offsets[1] - offsets[0];
    if (op != MANY) results[row] = 0;
    if (count > capacity) {
      free(sorted);
      capacity = count;
      good = (sorted = malloc((size_t)count * sizeof *sorted)) != NULL;
    }
    if (!good) break;
    if (!count) fn__set_null(&call->out, row);
    for (int64_t i = 0; i < count; i++) sorted[i] = fn__get_f64(&child, offsets[0] + i);
    if (count) qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    for (size_t i = 0; i < each && count; i++) {
      double value = between(sorted, count, fn__get_f64(&call->columns[1 + i], row), op == DISCRETE);
      results[op == MANY ? made++ : row] = value;
    }
    if (op == MANY) fn__push_list(&call->out, made);
  }
  free(sorted);
  fn_builder values;
  fn_type type = fn__type(FN_FLOAT64);
  struct ArrowArray array;
  if (op == MANY && good) {
    good = fn__builder_init(&values, &type, made);
    if (good) memcpy(values.data, results, (size_t)made * sizeof *results);
    good = good && fn__builder_finish(&values, &array) == TRN_OK;
    if (good) fn__add_child(&call->out, &array);
  }
  if (op == MANY) free(results);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_percentile(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type element;
  int op = call->function->op;
  bool good = call->count >= 2 && (op == MANY || call->count == 2) && call->columns[0].type.kind == FN_LIST &&
              fn__type_read(call->columns[0].type.schema->children[0], &element) && element.kind == FN_FLOAT64;
  for (size_t i = 1; i < call->count && good; i++) good = call->columns[i].type.kind == FN_FLOAT64;
  if (!good) return fn__mismatch(call);
  *out = fn__type(op == MANY ? FN_LIST : FN_FLOAT64);
  if (op != MANY || !schema) return TRN_OK;
  struct ArrowSchema child;
  trn_status status = fn__schema_make(&child, &element, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- list_mode(list): the most frequent element; of several the least, or the greatest ---- */
typedef struct tally {
  uint32_t start, size, count; /* the value's bytes; a free slot has no count */
} tally;

/* The element's number in the list, or -1; *good is false without memory. */
static int64_t mode_of(const fn_column *child, const fn_type *type, int32_t first, int32_t end, bool greatest,
                       fn_bytes *bytes, bool *good) {
  uint32_t slots = 16;
  int64_t best = -1;
  while (slots < 2 * (uint32_t)(end - first) && slots < 1u << 31) slots *= 2;
  tally *table = calloc(slots, sizeof *table), top = {0};
  *good = table != NULL;
  bytes->size = 0;
  for (int32_t i = first; i < end && *good; i++) {
    uint32_t start = (uint32_t)bytes->size;
    *good = fn__encode(child, i, true, bytes) && bytes->size <= INT32_MAX;
    if (!*good) break;
    uint32_t size = (uint32_t)bytes->size - start;
    uint64_t at = fn__bytes_hash(bytes->data + start, size) & (slots - 1);
    while (table[at].count &&
           (table[at].size != size || memcmp(bytes->data + table[at].start, bytes->data + start, size) != 0))
      at = (at + 1) & (slots - 1);
    if (table[at].count)
      bytes->size = start;
    else
      table[at] = (tally){start, size, 0};
    table[at].count++;
    int order = 0;
    if (table[at].count == top.count) {
      const char *x = bytes->data + table[at].start, *y = bytes->data + top.start;
      order = fn__encoded_compare(type, &x, &y);
    }
    if (table[at].count > top.count || (greatest ? order > 0 : order < 0)) {
      top = table[at];
      best = i;
    }
  }
  free(table);
  return best;
}

static trn_status list_mode(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  fn_type type;
  fn_bytes bytes = {0};
  const struct ArrowSchema *schema = list->type.schema->children[0];
  int64_t *picks = fn__alloc(((size_t)call->rows + 1) * sizeof *picks);
  bool good = picks && fn__column_child(list, 0, &child) == TRN_OK && fn__type_read(schema, &type);
  for (int64_t row = 0; row < call->rows && good; row++) {
    const int32_t *offsets = list->offsets + row * list->step;
    picks[row] = -1;
    if (!fn__row_is_null(&call->out, row))
      picks[row] = mode_of(&child, &type, offsets[0], offsets[1], call->function->op, &bytes, &good);
  }
  good = good && fn__take(schema, child.array, picks, call->rows, &call->given) == TRN_OK;
  fn__bytes_clear(&bytes);
  free(picks);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_mode(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "L")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  if (!fn__type_read(element, out)) return fn__mismatch(call);
  return schema && out->kind >= FN_LIST ? fn__schema_copy(schema, element, "", true) : TRN_OK;
}

const fn_scalar fn__list_statistics_table[] = {
    {"trn.list_mode", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_mode, list_mode},
    {"trn.list_mode_last", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 1, bind_mode, list_mode},
    {"trn.percentile", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, ONE, bind_percentile, percentile},
    {"trn.percentiles", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, MANY, bind_percentile, percentile},
    {"trn.percentile_disc", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, DISCRETE, bind_percentile, percentile},
    {NULL},
};
