#include "functions/arithmetic.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const SYMBOLS[] = {"+", "-", "*", "/", "div", "%", "pmod"};
static const char *const HINTS[] = {
    "try_add", "try_subtract", "try_multiply", "try_divide", "try_divide", "try_mod", "", "", ""};

trn_status fn__raise_zero(const fn_call *call, bool remainder) {
  return fn__raise(&call->report, remainder ? "REMAINDER_BY_ZERO" : "DIVIDE_BY_ZERO", "config", FN_CONFIG, NULL);
}

/* ---- checked integers: every row without branches, overflows gathered; where one is is looked for afterwards ---- */
#define CHECKED_LOOP(T, statement)                                                                                     \
  do {                                                                                                                 \
    if (sa && sb)                                                                                                      \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = a[i], y = b[i];                                                                                          \
        statement;                                                                                                     \
      }                                                                                                                \
    else if (sa)                                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = a[i], y = b[0];                                                                                          \
        statement;                                                                                                     \
      }                                                                                                                \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        T x = a[0], y = b[i * sb];                                                                                     \
        statement;                                                                                                     \
      }                                                                                                                \
  } while (0)

#define NARROW(name, T, W, symbol)                                                                                     \
  static bool name(const T *restrict a, int64_t sa, const T *restrict b, int64_t sb, T *restrict out, int64_t n) {     \
    W bad = 0;                                                                                                         \
    CHECKED_LOOP(T, W r = (W)x symbol(W) y; out[i] = (T)r; bad |= r ^ (W)(T)r);                                        \
    return bad != 0;                                                                                                   \
  }
NARROW(add_i8, int8_t, int32_t, +)
NARROW(subtract_i8, int8_t, int32_t, -)
NARROW(multiply_i8, int8_t, int32_t, *)
NARROW(add_i16, int16_t, int32_t, +)
NARROW(subtract_i16, int16_t, int32_t, -)
NARROW(multiply_i16, int16_t, int32_t, *)
NARROW(add_i32, int32_t, int64_t, +)
NARROW(subtract_i32, int32_t, int64_t, -)
NARROW(multiply_i32, int32_t, int64_t, *)

static bool add_i64(const int64_t *restrict a, int64_t sa, const int64_t *restrict b, int64_t sb, int64_t *restrict out,
                    int64_t n) {
  int64_t bad = 0;
  CHECKED_LOOP(int64_t, int64_t r = (int64_t)((uint64_t)x + (uint64_t)y); out[i] = r; bad |= (x ^ r) & (y ^ r));
  return bad < 0;
}
static bool subtract_i64(const int64_t *restrict a, int64_t sa, const int64_t *restrict b, int64_t sb,
                         int64_t *restrict out, int64_t n) {
  int64_t bad = 0;
  CHECKED_LOOP(int64_t, int64_t r = (int64_t)((uint64_t)x - (uint64_t)y); out[i] = r; bad |= (x ^ y) & (x ^ r));
  return bad < 0;
}
static bool multiply_i64(const int64_t *restrict a, int64_t sa, const int64_t *restrict b, int64_t sb,
                         int64_t *restrict out, int64_t n) {
  bool bad = false;
  CHECKED_LOOP(int64_t, bad |= __builtin_mul_overflow(x, y, &out[i]));
  return bad;
}

#define FLOATS(name, T, symbol)                                                                                        \
  static bool name(const T *restrict a, int64_t sa, const T *restrict b, int64_t sb, T *restrict out, int64_t n) {     \
    CHECKED_LOOP(T, out[i] = x symbol y);                                                                              \
    return false;                                                                                                      \
  }
FLOATS(add_f32, float, +)
FLOATS(subtract_f32, float, -)
FLOATS(multiply_f32, float, *)
FLOATS(add_f64, double, +)
FLOATS(subtract_f64, double, -)
FLOATS(multiply_f64, double, *)

typedef bool (*binary_loop)(const void *a, int64_t sa, const void *b, int64_t sb, void *out, int64_t n);
#define LOOP(name)                                                                                                     \
  static bool name##_any(const void *a, int64_t sa, const void *b, int64_t sb, void *out, int64_t n) {                 \
    return name(a, sa, b, sb, out, n);                                                                                 \
  }
LOOP(add_i8)
LOOP(subtract_i8)
LOOP(multiply_i8)
LOOP(add_i16) LOOP(subtract_i16) LOOP(multiply_i16) LOOP(add_i32) LOOP(subtract_i32) LOOP(multiply_i32) LOOP(add_i64)
    LOOP(subtract_i64) LOOP(multiply_i64) LOOP(add_f32) LOOP(subtract_f32) LOOP(multiply_f32) LOOP(add_f64)
        LOOP(subtract_f64) LOOP(multiply_f64)

            static const binary_loop LOOPS[FN_FLOAT64 + 1][3] = {
                [FN_INT8] = {add_i8_any, subtract_i8_any, multiply_i8_any},
                [FN_INT16] = {add_i16_any, subtract_i16_any, multiply_i16_any},
                [FN_INT32] = {add_i32_any, subtract_i32_any, multiply_i32_any},
                [FN_INT64] = {add_i64_any, subtract_i64_any, multiply_i64_any},
                [FN_FLOAT32] = {add_f32_any, subtract_f32_any, multiply_f32_any},
                [FN_FLOAT64] = {add_f64_any, subtract_f64_any, multiply_f64_any},
};

static bool overflows(int what, fn_kind kind, int64_t x, int64_t y) {
  fn_i128 r = what == FN_ADD ? (fn_i128)x + y : what == FN_SUBTRACT ? (fn_i128)x - y : (fn_i128)x * y;
  int bits = (int)fn__type_width(kind) * 8;
  fn_i128 limit = (fn_i128)1 << (bits - 1);
  return r < -limit || r >= limit;
}

static trn_status raise_integer(const fn_call *call, fn_kind kind, int64_t x, int64_t y) {
  int what = fn__what(call);
  if (kind >= FN_INT32)
    return fn__raise_overflow(&call->report, kind == FN_INT32 ? "integer overflow" : "long overflow", HINTS[what]);
  char left[32], right[32], hint[32];
  snprintf(left, sizeof left, "%lldS", (long long)x); /* both widths go through shorts there */
  snprintf(right, sizeof right, "%lldS", (long long)y);
  snprintf(hint, sizeof hint, "`%s`", HINTS[what]);
  return fn__raise(&call->report, "BINARY_ARITHMETIC_OVERFLOW", "value1", left, "symbol", SYMBOLS[what], "value2",
                   right, "functionName", hint, NULL);
}

static trn_status add_like(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  fn_kind kind = (fn_kind)a->type.kind;
  if (kind == FN_DECIMAL) return fn__decimal_arithmetic(call);
  int what = fn__what(call), mode = fn__mode(call);
  bool bad = LOOPS[kind][what](a->data, a->step, b->data, b->step, call->out.data, call->rows);
  if (!bad || mode == FN_WRAP) return TRN_OK;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    int64_t x = fn__get_integer(a, row), y = fn__get_integer(b, row);
    if (!overflows(what, kind, x, y)) continue;
    if (mode == FN_ANSI) return raise_integer(call, kind, x, y);
    fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

static void put_integer(fn_builder *out, int64_t row, int64_t value) {
  switch (out->type.kind) {
  case FN_INT8: ((int8_t *)out->data)[row] = (int8_t)value; break;
  case FN_INT16: ((int16_t *)out->data)[row] = (int16_t)value; break;
  case FN_INT32: ((int32_t *)out->data)[row] = (int32_t)value; break;
  case FN_INT64: ((int64_t *)out->data)[row] = value; break;
  default: break;
  }
}

static int64_t wrap_to(fn_kind kind, int64_t value) {
  return kind == FN_INT64 ? value : (int32_t)(uint32_t)value;
}

static int64_t integer_result(int what, fn_kind kind, int64_t x, int64_t y) {
  if (what == FN_INT_DIVIDE) return y == -1 ? (int64_t) - (uint64_t)x : x / y;
  int64_t r = y == -1 ? 0 : x % y;
  if (what == FN_PMOD && r < 0) {
    int64_t sum = wrap_to(kind, (int64_t)((uint64_t)r + (uint64_t)y)); /* Java adds in the type, bytes in ints */
    r = y == -1 ? 0 : sum % y;
  }
  return r;
}

static trn_status divide_integers(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  int what = fn__what(call), mode = fn__mode(call);
  fn_kind kind = (fn_kind)a->type.kind;
  for (int64_t row = 0; row < call->rows; row++) {
    put_integer(&call->out, row, 0);
    if (fn__row_is_null(&call->out, row)) continue;
    int64_t x = fn__get_integer(a, row), y = fn__get_integer(b, row);
    bool overflow = what == FN_INT_DIVIDE && kind == FN_INT64 && x == INT64_MIN && y == -1 && mode != FN_WRAP;
    if (y != 0 && !overflow) {
      put_integer(&call->out, row, integer_result(what, kind, x, y));
      continue;
    }
    if (mode == FN_ANSI)
      return overflow ? fn__raise_overflow(&call->report, "Overflow in integral divide", "try_divide")
                      : fn__raise_zero(call, what != FN_INT_DIVIDE);
    fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

static double float_result(int what, double x, double y) {
  if (what == FN_DIVIDE) return x / y;
  double r = fmod(x, y);
  return what == FN_PMOD && r < 0 ? fmod(r + y, y) : r;
}

static float float32_result(int what, float x, float y) {
  if (what == FN_DIVIDE) return x / y;
  float r = fmodf(x, y);
  return what == FN_PMOD && r < 0 ? fmodf(r + y, y) : r;
}

static trn_status divide_floats(fn_call *call) {
  const fn_column *a = &call->columns[0], *b = &call->columns[1];
  int what = fn__what(call);
  bool narrow = a->type.kind == FN_FLOAT32;
  for (int64_t row = 0; row < call->rows; row++) {
    double x = fn__get_number(a, row), y = fn__get_number(b, row);
    if (narrow)
      ((float *)call->out.data)[row] = float32_result(what, (float)x, (float)y);
    else
      ((double *)call->out.data)[row] = float_result(what, x, y);
    if (y != 0 || fn__row_is_null(&call->out, row)) continue;
    if (fn__mode(call) == FN_ANSI) return fn__raise_zero(call, what != FN_DIVIDE);
    fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

static trn_status divide_like(fn_call *call) {
  fn_kind kind = (fn_kind)call->columns[0].type.kind;
  return kind == FN_DECIMAL     ? fn__decimal_arithmetic(call)
         : fn__is_integer(kind) ? divide_integers(call)
                                : divide_floats(call);
}

/* ---- one argument ---- */
static trn_status negate_like(fn_call *call) {
  const fn_column *a = &call->columns[0];
  fn_kind kind = (fn_kind)a->type.kind;
  bool is_abs = fn__what(call) == FN_ABS;
  int bits = (int)fn__type_width(kind) * 8;
  for (int64_t row = 0; row < call->rows; row++) {
    if (kind == FN_DECIMAL) {
      fn_i128 x = fn__get_decimal(a, row);
      fn__store_decimal(call->out.data, row, is_abs && x >= 0 ? x : (fn_i128) - (fn_u128)x);
    } else if (kind == FN_FLOAT64) {
      double x = fn__get_f64(a, row);
      ((double *)call->out.data)[row] = is_abs ? fabs(x) : -x;
    } else if (kind == FN_FLOAT32) {
      float x = (float)fn__get_number(a, row);
      ((float *)call->out.data)[row] = is_abs ? fabsf(x) : -x;
    } else {
      int64_t x = fn__get_integer(a, row);
      put_integer(&call->out, row, is_abs && x >= 0 ? x : (int64_t) - (uint64_t)x);
      if ((x != INT64_MIN && x != INT64_MIN >> (64 - bits)) || fn__mode(call) == FN_WRAP ||
          fn__row_is_null(&call->out, row))
        continue;
      if (fn__mode(call) == FN_TRY) {
        fn__set_null(&call->out, row);
        continue;
      }
      if (kind >= FN_INT32)
        return fn__raise_overflow(&call->report, kind == FN_INT32 ? "integer overflow" : "long overflow", NULL);
      return fn__raise(&call->report, "_LEGACY_ERROR_TEMP_2043", "sqlValue", kind == FN_INT8 ? "-128" : "-32768", NULL);
    }
  }
  return TRN_OK;
}

/* ---- types ---- */
static trn_status bind_binary(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 2) return fn__mismatch(call);
  const fn_type *a = &call->columns[0].type, *b = &call->columns[1].type;
  int what = fn__what(call);
  bool good = a->kind == b->kind && a->kind >= FN_INT8 && a->kind <= FN_DECIMAL;
  if (what == FN_DIVIDE) good &= a->kind == FN_FLOAT64 || a->kind == FN_DECIMAL;
  if (what == FN_INT_DIVIDE) good &= a->kind != FN_FLOAT32 && a->kind != FN_FLOAT64;
  if (!good) return fn__mismatch(call);
  *out = *a;
  if (what == FN_INT_DIVIDE)
    *out = fn__type(FN_INT64);
  else if (a->kind == FN_DECIMAL)
    *out = what <= FN_SUBTRACT   ? fn__decimal_add_type(a, b)
           : what == FN_MULTIPLY ? fn__decimal_multiply_type(a, b)
           : what == FN_DIVIDE   ? fn__decimal_divide_type(a, b)
                                 : fn__decimal_remainder_type(a, b);
  return TRN_OK;
}

static trn_status bind_unary(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count != 1 || call->columns[0].type.kind < FN_INT8 || call->columns[0].type.kind > FN_DECIMAL)
    return fn__mismatch(call);
  *out = call->columns[0].type;
  return TRN_OK;
}

#define FAMILY(name, what, bind, kernel)                                                                               \
  {"trn." name, TRN_IMMUTABLE, FN_STRICT | FN_POSITION, FN_OP(what, FN_ANSI), bind, kernel},                           \
      {"trn." name "_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, FN_OP(what, FN_TRY), bind, kernel}, {               \
    "trn." name "_wrap", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, FN_OP(what, FN_WRAP), bind, kernel                    \
  }
const fn_scalar fn__arithmetic_table[] = {
    FAMILY("add", FN_ADD, bind_binary, add_like),
    FAMILY("subtract", FN_SUBTRACT, bind_binary, add_like),
    FAMILY("multiply", FN_MULTIPLY, bind_binary, add_like),
    FAMILY("divide", FN_DIVIDE, bind_binary, divide_like),
    FAMILY("int_divide", FN_INT_DIVIDE, bind_binary, divide_like),
    FAMILY("remainder", FN_REMAINDER, bind_binary, divide_like),
    FAMILY("pmod", FN_PMOD, bind_binary, divide_like),
    FAMILY("negate", FN_NEGATE, bind_unary, negate_like),
    FAMILY("abs", FN_ABS, bind_unary, negate_like),
    {NULL},
};
