/* format_string(pattern, values...): java.util.Formatter, for the values that Spark hands over. */
#include "functions/decimal.h"
#include "functions/digest.h"
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX 1000000    /* of a field, and of a precision */
#define DIGITS_MAX 400       /* of a double's whole part, and then some */

typedef struct spec {
  bool left, alternate, plus, space, zero, group, parenthesis;
  int64_t index; /* 0: the next; -1: the last one again */
  int64_t width, precision; /* -1: none */
  char conversion;
  bool upper;
  const char *start;
  size_t size; /* of its text */
} spec;

typedef struct formatter {
  fn_call *call;
  int64_t row;
  fn_bytes text; /* of one value */
  fn_bytes out;  /* of the row */
  bool no_memory;
} formatter;

static void add(formatter *f, const void *data, size_t size) {
  f->no_memory |= !fn__bytes_append(&f->text, data, size);
}
static void add_char(formatter *f, char c) {
  add(f, &c, 1);
}
static void add_repeated(formatter *f, char c, int64_t count) {
  for (; count > 0; count--) add_char(f, c);
}

/* ---- errors: the exceptions of java.util ---- */
static trn_status fail(const formatter *f, const char *message) {
  f->call->report.error->fail(f->call->report.error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}
static trn_status fail_missing(const formatter *f, const spec *s) {
  char message[128];
  snprintf(message, sizeof message, "Format specifier '%.*s'", s->size < 64 ? (int)s->size : 64, s->start);
  return fail(f, message);
}
static trn_status fail_type(const formatter *f, const spec *s, const fn_column *column) {
  static const char *const NAMES[FN_KIND_COUNT] = {[FN_BOOL] = "java.lang.Boolean",
                                                   [FN_INT8] = "java.lang.Byte",
                                                   [FN_INT16] = "java.lang.Short",
                                                   [FN_INT32] = "java.lang.Integer",
                                                   [FN_INT64] = "java.lang.Long",
                                                   [FN_FLOAT32] = "java.lang.Float",
                                                   [FN_FLOAT64] = "java.lang.Double",
                                                   [FN_DECIMAL] = "org.apache.spark.sql.types.Decimal",
                                                   [FN_STRING] = "org.apache.spark.unsafe.types.UTF8String",
                                                   [FN_DATE] = "java.lang.Integer",
                                                   [FN_YEAR_MONTH] = "java.lang.Integer"};
  char message[128];
  const char *name = NAMES[column->type.kind];
  snprintf(message, sizeof message, "%c != %s", s->conversion, name ? name : "java.lang.Long");
  return fail(f, message);
}

/* ---- the pattern ---- */
/* Reads a specifier behind its '%'. False: not one. */
static bool read_spec(const char **at, const char *end, spec *out) {
  const char *p = *at, *digits = p;
  *out = (spec){.width = -1, .precision = -1, .start = p - 1};
  int64_t number = 0;
  while (p < end && *p >= '0' && *p <= '9' && number < WIDTH_MAX) number = number * 10 + *p++ - '0';
  if (p < end && p > digits && *p == '$') {
    out->index = number;
    if (number == 0) return false;
    p++;
  } else {
    p = digits;
    if (p < end && *p == '<') {
      out->index = -1;
      p++;
    }
  }
  for (bool more = true; more && p < end;) {
    bool *flag = *p == '-'   ? &out->left
                 : *p == '#' ? &out->alternate
                 : *p == '+' ? &out->plus
                 : *p == ' ' ? &out->space
                 : *p == '0' ? &out->zero
                 : *p == ',' ? &out->group
                 : *p == '(' ? &out->parenthesis
                             : NULL;
    more = flag != NULL;
    if (more) *flag = true, p++;
  }
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    out->width = (out->width < 0 ? 0 : out->width * 10) + *p - '0';
    if (out->width > WIDTH_MAX) return false;
  }
  if (p < end && *p == '.') {
    out->precision = 0;
    for (digits = ++p; p < end && *p >= '0' && *p <= '9'; p++) {
      out->precision = out->precision * 10 + *p - '0';
      if (out->precision > WIDTH_MAX) return false;
    }
    if (p == digits) return false;
  }
  if (p >= end || !isalpha((unsigned char)*p)) {
    if (p >= end || *p != '%') return false;
  }
  out->upper = *p >= 'A' && *p <= 'Z';
  out->conversion = out->upper ? (char)(*p - 'A' + 'a') : *p;
  if (!strchr("bhscdoxefga%n", out->conversion) || (out->upper && strchr("dofn", out->conversion))) return false;
  out->size = (size_t)(++p - out->start);
  *at = p;
  return true;
}

/* ---- signs, groups, zeros ---- */
/* The number's digits (with a point, an exponent) as they are shown. */
static void put_number(formatter *f, const spec *s, bool negative, const char *digits, size_t size, const char *prefix) {
  size_t whole = 0, sign = 0;
  while (whole < size && digits[whole] >= '0' && digits[whole] <= '9') whole++;
  size_t commas = s->group && whole > 0 ? (whole - 1) / 3 : 0;
  if (negative || s->plus || s->space) sign = negative && s->parenthesis ? 2 : 1;
  if (negative)
    add_char(f, s->parenthesis ? '(' : '-');
  else if (s->plus || s->space)
    add_char(f, s->plus ? '+' : ' ');
  add(f, prefix, strlen(prefix));
  if (s->zero) add_repeated(f, '0', s->width - (int64_t)(size + commas + sign + strlen(prefix)));
  for (size_t i = 0; i < size; i++) {
    add_char(f, digits[i]);
    if (s->group && i + 1 < whole && (whole - i - 1) % 3 == 0) add_char(f, ',');
  }
  if (negative && s->parenthesis) add_char(f, ')');
}

static int integer_bits(fn_kind kind) {
  return kind == FN_INT8 ? 8 : kind == FN_INT16 ? 16 : kind == FN_INT32 || kind == FN_DATE || kind == FN_YEAR_MONTH ? 32 : 64;
}
static bool is_integer(fn_kind kind) {
  return fn__is_integer(kind) || (kind >= FN_DATE && kind <= FN_DAY_TIME);
}

static void put_integer(formatter *f, const spec *s, const fn_column *column) {
  char text[32];
  int64_t value = fn__get_integer(column, f->row);
  int bits = integer_bits((fn_kind)column->type.kind);
  uint64_t raw = bits == 64 ? (uint64_t)value : (uint64_t)value & (((uint64_t)1 << bits) - 1);
  int size;
  if (s->conversion == 'd') {
    size = snprintf(text, sizeof text, "%llu", (unsigned long long)(value < 0 ? -(uint64_t)value : (uint64_t)value));
    put_number(f, s, value < 0, text, (size_t)size, "");
    return;
  }
  bool octal = s->conversion == 'o';
  size = snprintf(text, sizeof text, octal ? "%llo" : "%llx", (unsigned long long)raw);
  spec plain = *s;
  plain.group = plain.plus = plain.space = false;
  put_number(f, &plain, false, text, (size_t)size, !s->alternate ? "" : octal ? "0" : "0x");
}

/* ---- doubles: the digits of Double.toString, rounded half up ---- */
typedef struct decimal_digits {
  char digit[DIGITS_MAX];
  int count, exponent; /* 0.ddd * 10^exponent */
} decimal_digits;

static void digits_of(double value, decimal_digits *out) {
  char text[FN_DOUBLE_TEXT_MAX + 1];
  size_t size = fn__double_print(fabs(value), text);
  int point = -1, exponent = 0;
  out->count = 0;
  text[size] = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '.') {
      point = out->count;
    } else if (text[i] == 'E') {
      exponent = atoi(text + i + 1);
      break;
    } else {
      out->digit[out->count++] = text[i];
    }
  }
  out->exponent = (point < 0 ? out->count : point) + exponent;
  int zeros = 0;
  while (zeros < out->count - 1 && out->digit[zeros] == '0') zeros++;
  memmove(out->digit, out->digit + zeros, (size_t)(out->count - zeros));
  out->count -= zeros;
  out->exponent -= zeros;
  while (out->count > 1 && out->digit[out->count - 1] == '0') out->count--;
}

/* Keeps `count` digits (it may be negative: all go), half up. */
static void round_digits(decimal_digits *d, int64_t count) {
  if (count >= d->count) return;
  bool up = count >= 0 && d->digit[count] >= '5';
  d->count = count > 0 ? (int)count : 0;
  if (!up) {
    if (d->count == 0) d->digit[0] = '0', d->count = 1;
    return;
  }
  int i = d->count - 1;
  while (i >= 0 && d->digit[i] == '9') d->digit[i--] = '0';
  if (i >= 0) {
    d->digit[i]++;
    return;
  }
  d->digit[0] = '1';
  d->count = 1;
  d->exponent++;
}

static void put_fixed(fn_bytes *out, const decimal_digits *d, int64_t precision, bool point, bool *no_memory) {
  bool good = true;
  if (d->exponent <= 0) good = fn__bytes_append(out, "0", 1);
  for (int i = 0; i < d->exponent && good; i++) good = fn__bytes_append(out, i < d->count ? &d->digit[i] : "0", 1);
  if ((precision > 0 || point) && good) good = fn__bytes_append(out, ".", 1);
  for (int64_t i = d->exponent, end = d->exponent + precision; i < end && good; i++)
    good = fn__bytes_append(out, i >= 0 && i < d->count ? &d->digit[i] : "0", 1);
  *no_memory |= !good;
}

static void put_scientific(fn_bytes *out, const decimal_digits *d, int64_t precision, bool zero, bool point,
                           bool *no_memory) {
  char text[16];
  int exponent = zero ? 0 : d->exponent - 1;
  bool good = fn__bytes_append(out, d->digit, 1) && (!(precision > 0 || point) || fn__bytes_append(out, ".", 1));
  for (int64_t i = 1; i <= precision && good; i++) good = fn__bytes_append(out, i < d->count ? &d->digit[i] : "0", 1);
  int size = snprintf(text, sizeof text, "e%c%02d", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
  *no_memory |= !good || !fn__bytes_append(out, text, (size_t)size);
}

static void put_hexadecimal(fn_bytes *out, double value, bool *no_memory) {
  char text[64];
  uint64_t bits;
  value = fabs(value);
  memcpy(&bits, &value, sizeof bits);
  uint64_t fraction = bits & 0xfffffffffffffu;
  int exponent = (int)(bits >> 52), digits = 13, size;
  while (digits > 1 && !(fraction & 15)) fraction >>= 4, digits--;
  if (bits == 0)
    size = snprintf(text, sizeof text, "0x0.0p0");
  else
    size = snprintf(text, sizeof text, "0x%d.%0*llxp%d", exponent != 0, digits, (unsigned long long)fraction,
                    exponent ? exponent - 1023 : -1022);
  *no_memory |= !fn__bytes_append(out, text, (size_t)size);
}

static trn_status put_double(formatter *f, const spec *s, const fn_column *column) {
  double value = fn__get_number(column, f->row);
  bool negative = signbit(value) && !isnan(value), zero = value == 0;
  if (!isfinite(value)) {
    spec plain = *s;
    plain.zero = plain.group = false;
    if (isnan(value)) plain.plus = plain.space = false;
    put_number(f, &plain, negative, isnan(value) ? "NaN" : "Infinity", isnan(value) ? 3 : 8, "");
    return TRN_OK;
  }
  decimal_digits d;
  fn_bytes digits = {0};
  int64_t precision = s->precision < 0 ? 6 : s->precision;
  digits_of(value, &d);
  if (s->conversion == 'a') {
    put_hexadecimal(&digits, value, &f->no_memory);
  } else if (s->conversion == 'f') {
    if (!zero) round_digits(&d, d.exponent + precision);
    put_fixed(&digits, &d, precision, s->alternate, &f->no_memory);
  } else if (s->conversion == 'e') {
    round_digits(&d, precision + 1);
    put_scientific(&digits, &d, precision, zero, s->alternate, &f->no_memory);
  } else { /* g */
    if (precision == 0) precision = 1;
    round_digits(&d, precision);
    if (zero || (d.exponent - 1 >= -4 && d.exponent - 1 < precision))
      put_fixed(&digits, &d, zero ? precision - 1 : precision - d.exponent, false, &f->no_memory);
    else
      put_scientific(&digits, &d, precision - 1, false, false, &f->no_memory);
  }
  put_number(f, s, negative, digits.data, digits.size, "");
  fn__bytes_clear(&digits);
  return TRN_OK;
}

/* ---- texts ---- */
static void put_text(formatter *f, const fn_column *c) {
  char text[FN_DECIMAL_TEXT_MAX + FN_DOUBLE_TEXT_MAX];
  fn_text value;
  switch (c->type.kind) {
  case FN_STRING:
    value = fn__get_text(c, f->row);
    add(f, value.data, value.size);
    break;
  case FN_BOOL:
    if (fn__get_bool(c, f->row))
      add(f, "true", 4);
    else
      add(f, "false", 5);
    break;
  case FN_FLOAT32: add(f, text, fn__float_print((float)fn__get_number(c, f->row), text)); break;
  case FN_FLOAT64: add(f, text, fn__double_print(fn__get_number(c, f->row), text)); break;
  case FN_DECIMAL: add(f, text, fn__decimal_print_scientific(fn__get_decimal(c, f->row), c->type.scale, text)); break;
  default: add(f, text, fn__int_print(fn__get_integer(c, f->row), text));
  }
}

/* Object.hashCode in hexadecimal. */
static trn_status put_hash(formatter *f, const spec *s, const fn_column *c) {
  char text[16];
  uint64_t bits = 0;
  uint32_t hash;
  if (c->type.kind == FN_STRING) {
    fn_text value = fn__get_text(c, f->row);
    hash = fn__murmur3(42, value.data, value.size);
  } else if (c->type.kind == FN_BOOL) {
    hash = fn__get_bool(c, f->row) ? 1231 : 1237;
  } else if (is_integer((fn_kind)c->type.kind)) {
    int64_t value = fn__get_integer(c, f->row);
    bits = (uint64_t)value;
    hash = integer_bits((fn_kind)c->type.kind) == 64 ? (uint32_t)(bits ^ bits >> 32) : (uint32_t)value;
  } else if (c->type.kind == FN_FLOAT64) {
    double value = fn__get_f64(c, f->row);
    memcpy(&bits, &value, sizeof bits);
    hash = (uint32_t)(bits ^ bits >> 32);
  } else {
    return fail_type(f, s, c);
  }
  add(f, text, (size_t)snprintf(text, sizeof text, "%x", hash));
  return TRN_OK;
}

static trn_status put_char(formatter *f, const spec *s, const fn_column *c) {
  char text[4];
  if (c->type.kind < FN_INT8 || c->type.kind > FN_INT32) return fail_type(f, s, c);
  int64_t code = fn__get_integer(c, f->row);
  if (code < 0 || code > 0x10ffff) {
    char message[64];
    snprintf(message, sizeof message, "Code point = 0x%x", (unsigned)code);
    return fail(f, message);
  }
  add(f, text, fn__char_encode((uint32_t)code, text));
  return TRN_OK;
}

/* The value by its specifier, before its width. */
static trn_status put_value(formatter *f, const spec *s, const fn_column *c) {
  fn_kind kind = (fn_kind)c->type.kind;
  bool null = fn__is_null(c, f->row);
  trn_status status = TRN_OK;
  if (s->conversion == 'b') {
    bool value = !null && (kind != FN_BOOL || fn__get_bool(c, f->row));
    add(f, value ? "true" : "false", value ? 4 : 5);
  } else if (null) {
    add(f, "null", 4);
  } else if (s->conversion == 's') {
    put_text(f, c);
  } else if (s->conversion == 'h') {
    status = put_hash(f, s, c);
  } else if (s->conversion == 'c') {
    status = put_char(f, s, c);
  } else if (strchr("dox", s->conversion)) {
    if (!is_integer(kind)) return fail_type(f, s, c);
    put_integer(f, s, c);
  } else {
    if (kind != FN_FLOAT32 && kind != FN_FLOAT64) return fail_type(f, s, c);
    status = put_double(f, s, c);
  }
  if (status == TRN_OK && s->precision >= 0 && strchr("bsh", s->conversion))
    f->text.size = fn__char_offset((fn_text){f->text.data, f->text.size}, s->precision);
  return status;
}

static void end_value(formatter *f, const spec *s) {
  if (s->upper)
    for (size_t i = 0; i < f->text.size; i++) f->text.data[i] = (char)toupper((unsigned char)f->text.data[i]);
  int64_t missing = s->width - fn__char_count((fn_text){f->text.data, f->text.size});
  for (int64_t i = 0; i < missing && !s->left; i++) f->no_memory |= !fn__bytes_append(&f->out, " ", 1);
  f->no_memory |= !fn__bytes_append(&f->out, f->text.data, f->text.size);
  for (int64_t i = 0; i < missing && s->left; i++) f->no_memory |= !fn__bytes_append(&f->out, " ", 1);
}

static trn_status format_row(formatter *f, fn_text pattern) {
  const char *at = pattern.data, *end = at + pattern.size;
  int64_t next = 1, last = 0;
  f->out.size = 0;
  while (at < end && !f->no_memory) {
    const char *mark = memchr(at, '%', (size_t)(end - at));
    spec s;
    f->no_memory |= !fn__bytes_append(&f->out, at, (size_t)((mark ? mark : end) - at));
    if (!mark) break;
    at = mark + 1;
    if (!read_spec(&at, end, &s)) {
      char message[64];
      snprintf(message, sizeof message, "Conversion = '%c'", mark + 1 < end ? mark[1] : '%');
      return fail(f, message);
    }
    f->text.size = 0;
    if (s.conversion == '%' || s.conversion == 'n') {
      add_char(f, s.conversion == '%' ? '%' : '\n');
    } else {
      int64_t index = s.index > 0 ? s.index : s.index < 0 ? last : next++;
      if (index <= 0 || (size_t)index >= f->call->count) return fail_missing(f, &s);
      last = index;
      trn_status status = put_value(f, &s, &f->call->columns[index]);
      if (status != TRN_OK) return status;
    }
    end_value(f, &s);
  }
  return f->no_memory ? fn__raise_out_of_memory(&f->call->report) : TRN_OK;
}

static trn_status format_string(fn_call *call) {
  formatter f = {.call = call};
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (fn__is_null(&call->columns[0], row)) {
      fn__push_null(&call->out);
      continue;
    }
    f.row = row;
    status = format_row(&f, fn__get_text(&call->columns[0], row));
    if (status == TRN_OK) fn__push(&call->out, f.out.data, f.out.size);
  }
  fn__bytes_clear(&f.text);
  fn__bytes_clear(&f.out);
  return status;
}

static trn_status bind_format(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count < 1 || call->columns[0].type.kind != FN_STRING) return fn__mismatch(call);
  for (size_t i = 1; i < call->count; i++)
    if (call->columns[i].type.kind >= FN_CALENDAR || call->columns[i].type.kind == FN_BINARY) return fn__mismatch(call);
  *out = fn__type(FN_STRING);
  return TRN_OK;
}

const fn_scalar fn__text_format_table[] = {
    {"trn.format_string", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_format, format_string},
    {NULL},
};
