/* raise_error, greatest, least, nanvl, isnan, null-safe equality of any type. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* raise_error(message) or raise_error(condition, map of parameters is composed by the translator): fails on its first
 * row. */
static trn_status raise_error(fn_call *call) {
  if (call->rows == 0) return TRN_OK;
  bool null = fn__is_null(&call->columns[0], 0);
  fn_text text = null ? (fn_text){"null", 4} : fn__get_text(&call->columns[0], 0);
  trn_status status = fn__raise(&call->report, "USER_RAISED_EXCEPTION", NULL);
  fn__param(&call->report, "errorMessage", text.data, text.size);
  return status;
}

static trn_status bind_raise(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 1 || (call->columns[0].type.kind != FN_STRING && call->columns[0].type.kind != FN_NULL))
    return fn__mismatch(call);
  *out = fn__type(FN_NULL);
  call->nullable = 1;
  return TRN_OK;
}

/* A text is longer than char(n) or varchar(n) may be: n. */
static trn_status raise_limit_length(fn_call *call) {
  char text[16];
  if (call->rows == 0) return TRN_OK;
  int size = snprintf(text, sizeof text, "%d", ((const int32_t *)call->columns[0].data)[0]);
  trn_status status = fn__raise(&call->report, "EXCEED_LIMIT_LENGTH", NULL);
  fn__param(&call->report, "limit", text, (size_t)size);
  return status;
}

static trn_status bind_limit(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 1 || call->columns[0].type.kind != FN_INT32) return fn__mismatch(call);
  *out = fn__type(FN_NULL);
  call->nullable = 1;
  return TRN_OK;
}

/* A file that cannot be read as it should: its path. */
static trn_status raise_read_failure(fn_call *call) {
  if (call->rows == 0) return TRN_OK;
  fn_text path = fn__get_text(&call->columns[0], 0);
  trn_status status = fn__raise(&call->report, "FAILED_READ_FILE.NO_HINT", NULL);
  fn__param(&call->report, "path", path.data, path.size);
  return status;
}

/* Only the column of malformed records is asked for, and a file has no other. */
static trn_status raise_only_corrupt(fn_call *call) {
  return call->rows == 0 ? TRN_OK : fn__raise(&call->report, "UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN", NULL);
}

static trn_status bind_path(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 1 || call->columns[0].type.kind != FN_STRING) return fn__mismatch(call);
  *out = fn__type(FN_NULL);
  call->nullable = 1;
  return TRN_OK;
}

/* ---- greatest, least: nulls are passed over; null when all are ---- */
#define EXTREME(T, better)                                                                                             \
  for (int64_t row = 0; row < call->rows; row++) {                                                                     \
    bool any = false;                                                                                                  \
    T best = 0;                                                                                                        \
    for (size_t i = 0; i < call->count; i++) {                                                                         \
      if (fn__is_null(&call->columns[i], row)) continue;                                                               \
      T value = ((const T *)call->columns[i].data)[row * call->columns[i].step];                                       \
      if (!any || (better)) best = value;                                                                              \
      any = true;                                                                                                      \
    }                                                                                                                  \
    ((T *)call->out.data)[row] = best;                                                                                 \
    if (!any) fn__set_null(&call->out, row);                                                                           \
  }

static trn_status extreme_encoded(fn_call *call, bool greatest) {
  fn_bytes best = {0}, candidate = {0};
  fn_sink sink;
  bool good = fn__sink_init(&sink, call->columns[0].type.schema);
  for (int64_t row = 0; row < call->rows && good; row++) {
    best.size = 0;
    for (size_t i = 0; i < call->count && good; i++) {
      if (fn__is_null(&call->columns[i], row)) continue;
      candidate.size = 0;
      good = fn__encode(&call->columns[i], row, false, &candidate);
      const char *a = candidate.data, *b = best.data;
      int order = good && best.size ? fn__encoded_compare(&call->columns[0].type, &a, &b) : 0;
      if (good && (best.size == 0 || (greatest ? order > 0 : order < 0))) {
        fn_bytes swap = best;
        best = candidate;
        candidate = swap;
      }
    }
    const char *at = best.data;
    if (best.size)
      fn__sink_put(&sink, &at);
    else
      fn__sink_put_null(&sink);
  }
  fn__bytes_clear(&best);
  fn__bytes_clear(&candidate);
  struct ArrowArray values;
  if (!good) fn__sink_clear(&sink);
  if (!good || fn__sink_finish(&sink, &values) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  /* The builder's own array of the result, filled from the gathered one. */
  fn_column from;
  trn_status status = fn__column_open(call->columns[0].type.schema, &values, false, &from);
  size_t width = fn__type_width((fn_kind)call->out.type.kind);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    bool null = fn__is_null(&from, row);
    if (width)
      memcpy((char *)call->out.data + (size_t)row * width, (const char *)from.data + (size_t)row * width, width);
    else if (call->out.type.kind == FN_BOOL)
      fn__set_bool(&call->out, row, !null && fn__get_bool(&from, row));
    else {
      fn_text text = null ? (fn_text){"", 0} : fn__get_text(&from, row);
      fn__push(&call->out, text.data, text.size);
    }
    if (null) fn__set_null(&call->out, row);
  }
  values.release(&values);
  return status;
}

static trn_status extreme(fn_call *call) {
  bool greatest = call->function->op;
  switch (call->out.type.kind) {
  case FN_INT32:
  case FN_DATE:
    if (greatest) {
      EXTREME(int32_t, value > best)
    } else {
      EXTREME(int32_t, value < best)
    }
    return TRN_OK;
  case FN_INT64:
  case FN_TIMESTAMP:
    if (greatest) {
      EXTREME(int64_t, value > best)
    } else {
      EXTREME(int64_t, value < best)
    }
    return TRN_OK;
  case FN_FLOAT64: /* NaN is the greatest */
    if (greatest) {
      EXTREME(double, value > best || (isnan(value) && !isnan(best)))
    } else {
      EXTREME(double, value < best || (isnan(best) && !isnan(value)))
    }
    return TRN_OK;
  default: return extreme_encoded(call, greatest);
  }
}

static trn_status bind_extreme(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count < 2 || call->columns[0].type.kind >= FN_LIST || call->columns[0].type.kind == FN_NULL)
    return fn__mismatch(call);
  for (size_t i = 1; i < call->count; i++)
    if (!fn__type_same(&call->columns[0].type, &call->columns[i].type)) return fn__mismatch(call);
  *out = call->columns[0].type;
  return TRN_OK;
}

/* ---- NaN ---- */
static trn_status nanvl(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  for (int64_t row = 0; row < call->rows; row++) {
    bool null = fn__is_null(a, row);
    double value = null ? 0 : fn__get_number(a, row);
    if (!null && isnan(value)) {
      null = fn__is_null(b, row);
      value = null ? 0 : fn__get_number(b, row);
    }
    if (null) fn__set_null(&call->out, row);
    if (call->out.type.kind == FN_FLOAT32)
      ((float *)call->out.data)[row] = (float)value;
    else
      ((double *)call->out.data)[row] = value;
  }
  return TRN_OK;
}

static trn_status bind_nanvl(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (!fn__args_are(call, "ff") || call->columns[0].type.kind != call->columns[1].type.kind) return fn__mismatch(call);
  *out = call->columns[0].type;
  return TRN_OK;
}

static trn_status is_nan(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++)
    fn__set_bool(&call->out, row,
                 !fn__is_null(&call->columns[0], row) && isnan(fn__get_number(&call->columns[0], row)));
  return TRN_OK;
}

static trn_status bind_is_nan(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_BOOL);
  return fn__args_are(call, "f") ? TRN_OK : fn__mismatch(call);
}

/* ---- Spark's order of any two values: NaN equals NaN and is last, -0.0 equals 0.0 ---- */
enum { NULL_SAFE_EQUAL, EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NOT_EQUAL };
static bool holds(int op, int order) {
  switch (op) {
  case LESS: return order < 0;
  case LESS_EQUAL: return order <= 0;
  case GREATER: return order > 0;
  case GREATER_EQUAL: return order >= 0;
  case NOT_EQUAL: return order != 0;
  default: return order == 0;
  }
}

static trn_status compare(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  fn_bytes x = {0}, y = {0};
  trn_status status = TRN_OK;
  bool real = a->type.kind == FN_FLOAT64 || a->type.kind == FN_FLOAT32;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    int order = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    if (real && !fn__is_null(a, row) && !fn__is_null(b, row)) {
      double p = fn__get_number(a, row), q = fn__get_number(b, row);
      order = isnan(p) || isnan(q) ? isnan(p) - isnan(q) : p < q ? -1 : p > q;
    } else {
      x.size = y.size = 0;
      if (!fn__encode(a, row, false, &x) || !fn__encode(b, row, false, &y)) {
        status = fn__raise_out_of_memory(&call->report);
        break;
      }
      const char *left = x.data, *right = y.data;
      order = fn__encoded_compare(&a->type, &left, &right);
    }
    fn__set_bool(&call->out, row, holds(call->function->op, order));
  }
  fn__bytes_clear(&x);
  fn__bytes_clear(&y);
  return status;
}

static trn_status bind_compare(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_BOOL);
  return call->count == 2 && fn__type_same(&call->columns[0].type, &call->columns[1].type) ? TRN_OK
                                                                                           : fn__mismatch(call);
}

#define COMPARE(name, op)                                                                                              \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT, op, bind_compare, compare }
const fn_scalar fn__conditional_table[] = {
    {"trn.raise_read_failure", TRN_VOLATILE, 0, 0, bind_path, raise_read_failure},
    {"trn.raise_only_corrupt", TRN_VOLATILE, 0, 0, bind_path, raise_only_corrupt},
    {"trn.raise_limit_length", TRN_VOLATILE, 0, 0, bind_limit, raise_limit_length},
    {"trn.raise_error", TRN_VOLATILE, FN_POSITION, 0, bind_raise, raise_error}, /* volatile: not to be folded away */
    {"trn.greatest", TRN_IMMUTABLE, 0, 1, bind_extreme, extreme},
    {"trn.least", TRN_IMMUTABLE, 0, 0, bind_extreme, extreme},
    {"trn.nanvl", TRN_IMMUTABLE, 0, 0, bind_nanvl, nanvl},
    {"trn.isnan", TRN_IMMUTABLE, FN_NEVER_NULL, 0, bind_is_nan, is_nan},
    {"trn.equal_null_safe", TRN_IMMUTABLE, FN_NEVER_NULL, NULL_SAFE_EQUAL, bind_compare, compare},
    COMPARE("equal", EQUAL),
    COMPARE("not_equal", NOT_EQUAL),
    COMPARE("less", LESS),
    COMPARE("less_equal", LESS_EQUAL),
    COMPARE("greater", GREATER),
    COMPARE("greater_equal", GREATER_EQUAL),
    {NULL},
};
