/* percentile(list of doubles, fraction...): between the two nearest values of the sorted list, as Spark's percentile;
 * percentile_disc takes a value that is there. Over what collect_list gives. */
#include "functions/frame.h"
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

const fn_scalar fn__list_statistics_table[] = {
    {"trn.percentile", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, ONE, bind_percentile, percentile},
    {"trn.percentiles", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, MANY, bind_percentile, percentile},
    {"trn.percentile_disc", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, DISCRETE, bind_percentile, percentile},
    {NULL},
};
