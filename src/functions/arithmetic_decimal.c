#include "functions/arithmetic.h"
#include <string.h>

trn_status fn__raise_range(const fn_report *report, const char *value, size_t size, int precision, int scale) {
  char precision_text[FN_DECIMAL_TEXT_MAX], scale_text[FN_DECIMAL_TEXT_MAX];
  precision_text[fn__decimal_print(precision, 0, precision_text)] = 0;
  scale_text[fn__decimal_print(scale, 0, scale_text)] = 0;
  trn_status status = fn__raise(report, "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "precision", precision_text,
                                "scale", scale_text, "config", FN_CONFIG, NULL);
  fn__param(report, "value", value, size);
  return status;
}

trn_status fn__raise_decimal_range(const fn_report *report, fn_i128 value, int value_scale, int precision, int scale) {
  char text[FN_DECIMAL_TEXT_MAX];
  return fn__raise_range(report, text, fn__decimal_print(value, value_scale, text), precision, scale);
}

/* A signed 256-bit number, while it lasts. */
typedef struct wide {
  fn_u256 size;
  bool negative;
} wide;

static wide wide_scaled(fn_i128 value, int digits) {
  return (wide){fn__mul256(fn__abs128(value), fn__pow10[digits]), value < 0};
}

static wide wide_add(wide a, wide b) {
  if (a.negative == b.negative) return (wide){fn__add256(a.size, b.size), a.negative};
  bool less = a.size.high != b.size.high ? a.size.high < b.size.high : a.size.low < b.size.low;
  fn_u256 big = less ? b.size : a.size, small = less ? a.size : b.size;
  fn_u256 rest = {big.low - small.low, big.high - small.high - (big.low < small.low)};
  return (wide){rest, less ? b.negative : a.negative};
}

/* An exact result of scale `scale`; false when the rounded one has too many digits. */
static bool wide_fit(wide value, int scale, const fn_type *type, fn_i128 *out) {
  fn_u256 rounded = fn__round256(value.size, scale - type->scale);
  if (rounded.high != 0 || rounded.low >= fn__pow10[type->precision]) return false;
  *out = value.negative ? -(fn_i128)rounded.low : (fn_i128)rounded.low;
  return true;
}

/* What an overflow's message shows: the exact value, as far as it can be printed. */
static trn_status raise_wide(const fn_call *call, wide value, int scale) {
  char text[100];
  size_t used = sizeof text;
  const fn_type *type = &call->out.type;
  for (int digits = 0; used > 2; digits++) {
    fn_u128 rest;
    if (digits == scale && digits > 0) text[--used] = '.';
    if (digits > scale && value.size.low == 0 && value.size.high == 0) break;
    value.size = fn__div256(value.size, 10, &rest);
    text[--used] = (char)('0' + (int)rest);
  }
  if (value.negative) text[--used] = '-';
  return fn__raise_range(&call->report, text + used, sizeof text - used, type->precision, type->scale);
}

/* ---- results that precision proves to fit ---- */
static void add_proven(fn_call *call, fn_u128 scale_a, fn_u128 scale_b, bool narrow) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  const uint64_t *x = a->data, *y = b->data;
  uint64_t *out = call->out.data;
  int64_t sa = a->step * 2, sb = b->step * 2, n = call->rows;
  bool minus = fn__what(call) == FN_SUBTRACT;
  if (minus) scale_b = -scale_b;
  if (narrow) {
    uint64_t fa = (uint64_t)scale_a, fb = (uint64_t)scale_b;
    for (int64_t i = 0; i < n; i++) {
      int64_t sum = (int64_t)(x[i * sa] * fa + y[i * sb] * fb);
      out[i * 2] = (uint64_t)sum;
      out[i * 2 + 1] = (uint64_t)(sum >> 63);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++)
    fn__store_decimal(out, i,
                      (fn_i128)((fn_u128)fn__get_decimal(a, i) * scale_a + (fn_u128)fn__get_decimal(b, i) * scale_b));
}

static void multiply_proven(fn_call *call, bool narrow) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  const int64_t *x = a->data, *y = b->data;
  int64_t sa = a->step * 2, sb = b->step * 2, n = call->rows;
  if (narrow)
    for (int64_t i = 0; i < n; i++) fn__store_decimal(call->out.data, i, (fn_i128)x[i * sa] * y[i * sb]);
  else
    for (int64_t i = 0; i < n; i++)
      fn__store_decimal(call->out.data, i, (fn_i128)((fn_u128)fn__get_decimal(a, i) * (fn_u128)fn__get_decimal(b, i)));
}

/* ---- row by row ---- */
typedef struct row_result {
  bool by_zero, overflow;
  fn_i128 value;
  wide exact; /* of an overflow */
  int exact_scale;
} row_result;

static row_result add_row(const fn_call *call, fn_i128 x, fn_i128 y) {
  const fn_type *a = &call->columns[0].type, *b = &call->columns[1].type;
  row_result r = {.exact_scale = a->scale > b->scale ? a->scale : b->scale};
  wide right = wide_scaled(y, r.exact_scale - b->scale);
  right.negative ^= fn__what(call) == FN_SUBTRACT;
  r.exact = wide_add(wide_scaled(x, r.exact_scale - a->scale), right);
  r.overflow = !wide_fit(r.exact, r.exact_scale, &call->out.type, &r.value);
  return r;
}

static row_result multiply_row(const fn_call *call, fn_i128 x, fn_i128 y) {
  row_result r = {.exact_scale = call->columns[0].type.scale + call->columns[1].type.scale};
  r.exact = (wide){fn__mul256(fn__abs128(x), fn__abs128(y)), (x < 0) != (y < 0)};
  r.overflow = !wide_fit(r.exact, r.exact_scale, &call->out.type, &r.value);
  return r;
}

static row_result divide_row(const fn_call *call, fn_i128 x, fn_i128 y) {
  const fn_type *a = &call->columns[0].type, *b = &call->columns[1].type;
  row_result r = {.by_zero = y == 0};
  if (y == 0) return r;
  bool fits = fn__decimal_divide(x, a->scale, y, b->scale, call->out.type.scale, &r.value);
  r.overflow = !fits || !fn__fits(r.value, call->out.type.precision);
  if (!fits) { /* the whole part is what is too big */
    fn_u128 rest;
    r.exact =
        (wide){fn__div256(fn__mul256(fn__abs128(x), fn__pow10[b->scale]), fn__abs128(y), &rest), (x < 0) != (y < 0)};
    r.exact.size = fn__div256(r.exact.size, fn__pow10[a->scale], &rest);
  } else if (r.overflow) {
    r.exact = (wide){{fn__abs128(r.value), 0}, r.value < 0};
    r.exact_scale = call->out.type.scale;
  }
  return r;
}

static row_result remainder_row(const fn_call *call, fn_i128 x, fn_i128 y) {
  const fn_type *a = &call->columns[0].type, *b = &call->columns[1].type;
  int scale = a->scale > b->scale ? a->scale : b->scale;
  row_result r = {.by_zero = y == 0, .exact_scale = scale};
  fn_i128 quotient, rest;
  if (y == 0) return r;
  bool fits = fn__decimal_quotient(x, a->scale, y, b->scale, &quotient, &rest);
  if (fn__what(call) == FN_INT_DIVIDE) {
    r.value = quotient;
    r.overflow = !fits;
    r.exact = (wide){{fn__abs128(quotient), 0}, quotient < 0};
    r.exact_scale = 0;
    return r;
  }
  if (fn__what(call) == FN_PMOD && rest < 0) { /* (rest + y) % y; rest is smaller than y */
    wide sum = wide_add((wide){{fn__abs128(rest), 0}, true}, wide_scaled(y, scale - b->scale));
    if (y > 0) {
      r.exact = sum;
      r.overflow = !wide_fit(sum, scale, &call->out.type, &r.value);
      return r;
    }
  }
  r.exact = (wide){{fn__abs128(rest), 0}, rest < 0};
  r.overflow = !fn__rescale(rest, scale, call->out.type.scale, call->out.type.precision, &r.value);
  return r;
}

static trn_status slow_row(fn_call *call, int64_t row, row_result (*compute)(const fn_call *, fn_i128, fn_i128),
                           fn_i128 x, fn_i128 y, fn_i128 *out) {
  row_result r = compute(call, x, y);
  *out = r.value;
  if (!r.by_zero && !r.overflow) return TRN_OK;
  if (fn__mode(call) == FN_ANSI)
    return r.by_zero ? fn__raise_zero(call, fn__what(call) == FN_REMAINDER || fn__what(call) == FN_PMOD)
           : call->out.type.kind == FN_INT64 ? fn__raise_decimal_range(&call->report, r.value, 0, FN_DIGITS_MAX, 0)
                                             : raise_wide(call, r.exact, r.exact_scale);
  fn__set_null(&call->out, row);
  *out = 0;
  return TRN_OK;
}

/* ---- types that may overflow, values that do not: both fit in 64 bits, so products are below 2^126 < 10^38 ---- */
static inline bool is_narrow(fn_i128 value) {
  return value == (int64_t)value;
}

static inline bool quick_multiply(fn_i128 x, fn_i128 y, int drop, fn_i128 *out) {
  if (!is_narrow(x) || !is_narrow(y)) return false;
  fn_i128 product = (fn_i128)(int64_t)x * (int64_t)y;
  *out = drop ? fn__round_down_digits(product, drop) : product;
  return true;
}

/* Only results of 38 digits are not proven, and those hold any product. */
static trn_status multiply_quick(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  int drop = a->type.scale + b->type.scale - call->out.type.scale;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0, x = fn__get_decimal(a, row), y = fn__get_decimal(b, row);
    if (!quick_multiply(x, y, drop, &value) && !fn__row_is_null(&call->out, row)) {
      trn_status status = slow_row(call, row, multiply_row, x, y, &value);
      if (status != TRN_OK) return status;
    }
    fn__store_decimal(call->out.data, row, value);
  }
  return TRN_OK;
}

static trn_status add_quick(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  int scale = a->type.scale > b->type.scale ? a->type.scale : b->type.scale, drop = scale - call->out.type.scale;
  int up_a = scale - a->type.scale, up_b = scale - b->type.scale;
  bool small = up_a <= 18 && up_b <= 18, minus = fn__what(call) == FN_SUBTRACT;
  int64_t factor_a = small ? (int64_t)fn__pow10[up_a] : 0, factor_b = small ? (int64_t)fn__pow10[up_b] : 0;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0, x = fn__get_decimal(a, row), y = fn__get_decimal(b, row);
    bool quick = small && is_narrow(x) && is_narrow(y);
    if (quick) { /* below 2^124 each */
      fn_i128 left = (fn_i128)(int64_t)x * factor_a, right = (fn_i128)(int64_t)y * factor_b;
      value = fn__round_down_digits(minus ? left - right : left + right, drop);
      quick = fn__fits(value, FN_DIGITS_MAX);
    }
    if (!quick && !fn__row_is_null(&call->out, row)) {
      trn_status status = slow_row(call, row, add_row, x, y, &value);
      if (status != TRN_OK) return status;
    }
    fn__store_decimal(call->out.data, row, value);
  }
  return TRN_OK;
}

static trn_status each_row(fn_call *call, row_result (*compute)(const fn_call *, fn_i128, fn_i128)) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  bool whole = call->out.type.kind == FN_INT64;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0;
    trn_status status = TRN_OK;
    if (!fn__row_is_null(&call->out, row))
      status = slow_row(call, row, compute, fn__get_decimal(a, row), fn__get_decimal(b, row), &value);
    if (status != TRN_OK) return status;
    if (whole)
      ((int64_t *)call->out.data)[row] = (int64_t)(uint64_t)(fn_u128)value;
    else
      fn__store_decimal(call->out.data, row, value);
  }
  return TRN_OK;
}

trn_status fn__decimal_arithmetic(fn_call *call) {
  const fn_type *a = &call->columns[0].type, *b = &call->columns[1].type;
  int what = fn__what(call), scale = a->scale > b->scale ? a->scale : b->scale;
  int up_a = scale - a->scale, up_b = scale - b->scale;
  if (what == FN_MULTIPLY) {
    if (a->precision + b->precision + 1 > FN_DIGITS_MAX) return multiply_quick(call);
    multiply_proven(call, a->precision <= 18 && b->precision <= 18);
    return TRN_OK;
  }
  if (what == FN_DIVIDE) return each_row(call, divide_row);
  if (what > FN_DIVIDE) return each_row(call, remainder_row);
  if (call->out.type.scale != scale || a->precision + up_a >= FN_DIGITS_MAX || b->precision + up_b >= FN_DIGITS_MAX)
    return add_quick(call);
  add_proven(call, fn__pow10[up_a], fn__pow10[up_b], a->precision + up_a <= 17 && b->precision + up_b <= 17);
  return TRN_OK;
}
