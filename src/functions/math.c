/* Mathematics: functions of doubles by a table, bits, number bases. */
#include "functions/arithmetic.h"
#include "functions/text.h"
#include <math.h>
#include <string.h>

/* ---- one double ---- */
static double signum(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;
}
static double degrees(double x) {
  return x * 57.29577951308232;
}
static double radians(double x) {
  return x * 0.017453292519943295;
}
static double cube_root(double x) {
  return (double)cbrtl(x);
} /* glibc's cbrt(27) is not 3 */
static double cotangent(double x) {
  return 1 / tan(x);
}
static double secant(double x) {
  return 1 / cos(x);
}
static double cosecant(double x) {
  return 1 / sin(x);
}
static double area_sine(double x) { /* as Spark computes it: near 0 and far out not what libm's asinh gives */
  return x == -INFINITY ? -INFINITY
         : isinf(x)     ? x
         : x == 0       ? x
         : x > 0        ? log(x + sqrt(x * x + 1))
                        : -log(-x + sqrt(x * x + 1));
}
static double area_cosine(double x) {
  return log(x + sqrt(x * x - 1));
}
static double area_tangent(double x) {
  return 0.5 * (log1p(x) - log1p(-x));
}

typedef double (*double_function)(double);
static const double_function DOUBLES[] = {sqrt,        cube_root,    exp,    expm1,   sin,     cos,       tan,
                                          asin,        acos,         atan,   sinh,    cosh,    tanh,      area_sine,
                                          area_cosine, area_tangent, signum, degrees, radians, cotangent, secant,
                                          cosecant,    rint,         log1p,  log2,    log10};
enum {
  SQRT,
  CBRT,
  EXP,
  EXPM1,
  SIN,
  COS,
  TAN,
  ASIN,
  ACOS,
  ATAN,
  SINH,
  COSH,
  TANH,
  ASINH,
  ACOSH,
  ATANH,
  SIGNUM,
  DEGREES,
  RADIANS,
  COT,
  SEC,
  CSC,
  RINT,
  LOG1P,
  LOG2,
  LOG10
};

static trn_status one_double(fn_call *call) {
  int op = call->function->op;
  double_function compute = DOUBLES[op];
  double *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) out[row] = compute(fn__get_f64(&call->columns[0], row));
  for (int64_t row = 0; op >= LOG1P && row < call->rows; row++) /* logarithms are null from their pole down */
    if (fn__get_f64(&call->columns[0], row) <= (op == LOG1P ? -1.0 : 0.0)) {
      fn__set_null(&call->out, row);
      out[row] = 0;
    }
  return TRN_OK;
}

/* ---- two doubles ---- */
static double log_base(double base, double x) {
  return log(x) / log(base);
}
static double java_pow(double x, double y) {
  return isnan(y) || (fabs(x) == 1 && isinf(y)) ? NAN : pow(x, y);
}
enum { POW, ATAN2, HYPOT, LOG_BASE };
static trn_status two_doubles(fn_call *call) {
  static double (*const FUNCTIONS[])(double, double) = {java_pow, atan2, hypot, log_base};
  int op = call->function->op;
  double *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    double x = fn__get_f64(&call->columns[0], row), y = fn__get_f64(&call->columns[1], row);
    out[row] = FUNCTIONS[op](x, y);
    if (op == LOG_BASE && (x <= 0 || y <= 0)) {
      fn__set_null(&call->out, row);
      out[row] = 0;
    }
  }
  return TRN_OK;
}

/* ---- integers ---- */
/* log(x), log(base, x) */
static trn_status logarithm(fn_call *call) {
  double *out = call->out.data;
  bool has_base = call->count > 1;
  for (int64_t row = 0; row < call->rows; row++) {
    double x = fn__get_f64(&call->columns[has_base], row), base = has_base ? fn__get_f64(&call->columns[0], row) : 1;
    bool null = x <= 0 || base <= 0;
    out[row] = null ? 0 : has_base ? log_base(base, x) : log(x);
    if (null) fn__set_null(&call->out, row);
  }
  return TRN_OK;
}

static trn_status factorial(fn_call *call) {
  int64_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    int32_t n = fn__get_i32(&call->columns[0], row);
    out[row] = 1;
    if (n < 0 || n > 20)
      fn__set_null(&call->out, row);
    else
      for (int64_t i = 2; i <= n; i++) out[row] *= i;
  }
  return TRN_OK;
}

enum { LEFT, RIGHT, RIGHT_UNSIGNED };
static trn_status shift(fn_call *call) {
  bool wide = call->out.type.kind == FN_INT64;
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    int bits = fn__get_i32(&call->columns[1], row) & (wide ? 63 : 31);
    int64_t x = fn__get_integer(&call->columns[0], row);
    if (wide)
      ((int64_t *)call->out.data)[row] = op == LEFT    ? (int64_t)((uint64_t)x << bits)
                                         : op == RIGHT ? x >> bits
                                                       : (int64_t)((uint64_t)x >> bits);
    else
      ((int32_t *)call->out.data)[row] = op == LEFT    ? (int32_t)((uint32_t)x << bits)
                                         : op == RIGHT ? (int32_t)x >> bits
                                                       : (int32_t)((uint32_t)x >> bits);
  }
  return TRN_OK;
}

static trn_status bit_count(fn_call *call) {
  const fn_column *a = &call->columns[0];
  for (int64_t row = 0; row < call->rows; row++)
    ((int32_t *)call->out.data)[row] =
        a->type.kind == FN_BOOL ? fn__get_bool(a, row) : __builtin_popcountll((uint64_t)fn__get_integer(a, row));
  return TRN_OK;
}

enum { BIT_AND, BIT_OR, BIT_XOR, BIT_NOT };
static trn_status bitwise(fn_call *call) {
  int op = call->function->op;
  size_t width = fn__type_width((fn_kind)call->out.type.kind);
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t x = fn__get_integer(&call->columns[0], row),
            y = call->count > 1 ? fn__get_integer(&call->columns[1], row) : 0;
    int64_t r = op == BIT_AND ? x & y : op == BIT_OR ? x | y : op == BIT_XOR ? x ^ y : ~x;
    memcpy((char *)call->out.data + (size_t)row * width, &r, width); /* little endian */
  }
  return TRN_OK;
}

static trn_status get_bit(fn_call *call) {
  int64_t bits = (int64_t)fn__type_width((fn_kind)call->columns[0].type.kind) * 8;
  for (int64_t row = 0; row < call->rows; row++) {
    int32_t at = fn__get_i32(&call->columns[1], row);
    ((int8_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    if (at < 0 || at >= bits) {
      char upper[FN_INT_TEXT_MAX], value[FN_INT_TEXT_MAX];
      upper[fn__int_print(bits, upper)] = 0;
      value[fn__int_print(at, value)] = 0;
      return fn__raise(&call->report, "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE", "functionName", "`getbit`",
                       "parameter", "`pos`", "upper", upper, "invalidValue", value, NULL);
    }
    ((int8_t *)call->out.data)[row] = (int8_t)((uint64_t)fn__get_integer(&call->columns[0], row) >> at & 1);
  }
  return TRN_OK;
}

static trn_status width_bucket(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    double value = fn__get_f64(&call->columns[0], row), low = fn__get_f64(&call->columns[1], row),
           high = fn__get_f64(&call->columns[2], row);
    int64_t buckets = fn__get_i64(&call->columns[3], row), result;
    ((int64_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    if (buckets <= 0 || buckets == INT64_MAX || isnan(value) || low == high || !isfinite(low) || !isfinite(high)) {
      fn__set_null(&call->out, row);
      continue;
    }
    double least = low < high ? low : high, most = low < high ? high : low;
    if (value < least)
      result = low < high ? 0 : buckets + 1;
    else if (value >= most && (low < high || value > most))
      result = low < high ? buckets + 1 : 0;
    else if (low < high)
      result = (int64_t)((double)buckets * (value - least) / (most - least)) + 1;
    else
      result = value == least ? buckets + 1 : (int64_t)((double)buckets * (most - value) / (most - least)) + 1;
    ((int64_t *)call->out.data)[row] = result;
  }
  return TRN_OK;
}

/* ---- bases ---- */
static trn_status bin(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    char text[64];
    uint64_t x = (uint64_t)fn__get_integer(&call->columns[0], row);
    int count = 0;
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    for (int bits = x ? 64 - __builtin_clzll(x) : 1; bits > 0; bits--)
      text[count++] = (char)('0' + (x >> (bits - 1) & 1));
    fn__push(&call->out, text, (size_t)count);
  }
  return TRN_OK;
}

static int digit_of(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'z' ? c - 'a' + 10
         : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                : 99;
}

/* Unsigned 64-bit; digits beyond the base end the number; a negative target base shows it as signed. */
static trn_status conv(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__trim_all(fn__get_text(&call->columns[0], row));
    int64_t from = fn__get_i32(&call->columns[1], row), to = fn__get_i32(&call->columns[2], row),
            base = to < 0 ? -to : to;
    if (from < 2 || from > 36 || base < 2 || base > 36 || text.size == 0) {
      fn__push_null(&call->out);
      continue;
    }
    bool negative = text.data[0] == '-', overflow = false;
    uint64_t value = 0;
    for (size_t i = negative; i < text.size && digit_of(text.data[i]) < from; i++) {
      uint64_t digit = (uint64_t)digit_of(text.data[i]);
      overflow |= __builtin_mul_overflow(value, (uint64_t)from, &value) || __builtin_add_overflow(value, digit, &value);
      if (overflow) value = UINT64_MAX;
    }
    if (overflow && (call->function->flags & FN_POSITION))
      return fn__raise_overflow(&call->report, "Overflow in function conv()", NULL);
    if (negative && to > 0) value = (int64_t)value < 0 ? UINT64_MAX : -value;
    bool minus = to < 0 && (negative || (int64_t)value < 0);
    if (to < 0 && !negative && (int64_t)value < 0) value = -value;
    char out[80];
    size_t at = sizeof out;
    do out[--at] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % (uint64_t)base];
    while (value /= (uint64_t)base);
    if (minus && !(sizeof out - at == 1 && out[at] == '0')) out[--at] = '-';
    fn__push(&call->out, out + at, sizeof out - at);
  }
  return TRN_OK;
}

/* ---- binding ---- */
FN_BIND(double, "g", fn__type(FN_FLOAT64))
FN_BIND(log, "g|g", fn__type(FN_FLOAT64))
FN_BIND(doubles, "gg", fn__type(FN_FLOAT64))
FN_BIND(factorial, "i", fn__type(FN_INT64))
static trn_status bind_shift(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (!fn__args_are(call, "ii") && !fn__args_are(call, "li")) return fn__mismatch(call);
  *out = call->columns[0].type;
  return TRN_OK;
}
FN_BIND(count, "*", fn__type(FN_INT32))
FN_BIND(bits, "nn", call->columns[0].type)
FN_BIND(bit, "n", call->columns[0].type)
FN_BIND(get_bit, "ni", fn__type(FN_INT8))
FN_BIND(width_bucket, "gggl", fn__type(FN_INT64))
FN_BIND(bin, "n", fn__type(FN_STRING))
FN_BIND(conv, "sii", fn__type(FN_STRING))

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
#define DOUBLE(name, op) STRICT(name, (op) >= LOG1P ? FN_NULLABLE : 0, op, bind_double, one_double)
const fn_scalar fn__math_table[] = {
    DOUBLE("sqrt", SQRT),
    DOUBLE("cbrt", CBRT),
    DOUBLE("exp", EXP),
    DOUBLE("expm1", EXPM1),
    DOUBLE("sin", SIN),
    DOUBLE("cos", COS),
    DOUBLE("tan", TAN),
    DOUBLE("asin", ASIN),
    DOUBLE("acos", ACOS),
    DOUBLE("atan", ATAN),
    DOUBLE("sinh", SINH),
    DOUBLE("cosh", COSH),
    DOUBLE("tanh", TANH),
    DOUBLE("asinh", ASINH),
    DOUBLE("acosh", ACOSH),
    DOUBLE("atanh", ATANH),
    DOUBLE("signum", SIGNUM),
    DOUBLE("degrees", DEGREES),
    DOUBLE("radians", RADIANS),
    DOUBLE("cot", COT),
    DOUBLE("sec", SEC),
    DOUBLE("csc", CSC),
    DOUBLE("rint", RINT),
    STRICT("log", FN_NULLABLE, 0, bind_log, logarithm),
    DOUBLE("log1p", LOG1P),
    DOUBLE("log2", LOG2),
    DOUBLE("log10", LOG10),
    STRICT("pow", 0, POW, bind_doubles, two_doubles),
    STRICT("atan2", 0, ATAN2, bind_doubles, two_doubles),
    STRICT("hypot", 0, HYPOT, bind_doubles, two_doubles),
    STRICT("log_base", FN_NULLABLE, LOG_BASE, bind_doubles, two_doubles),
    STRICT("factorial", FN_NULLABLE, 0, bind_factorial, factorial),
    STRICT("shiftleft", 0, LEFT, bind_shift, shift),
    STRICT("shiftright", 0, RIGHT, bind_shift, shift),
    STRICT("shiftrightunsigned", 0, RIGHT_UNSIGNED, bind_shift, shift),
    STRICT("bit_count", 0, 0, bind_count, bit_count),
    STRICT("bit_and", 0, BIT_AND, bind_bits, bitwise),
    STRICT("bit_or", 0, BIT_OR, bind_bits, bitwise),
    STRICT("bit_xor", 0, BIT_XOR, bind_bits, bitwise),
    STRICT("bit_not", 0, BIT_NOT, bind_bit, bitwise),
    STRICT("getbit", FN_POSITION, 0, bind_get_bit, get_bit),
    STRICT("width_bucket", FN_NULLABLE, 0, bind_width_bucket, width_bucket),
    STRICT("bin", 0, 0, bind_bin, bin),
    STRICT("conv", FN_POSITION | FN_NULLABLE, 0, bind_conv, conv),
    STRICT("conv_wrap", FN_NULLABLE, 0, bind_conv, conv),
    {NULL},
};
