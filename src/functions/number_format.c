/* to_char(decimal, format), to_number(text, format) by the formats of SQL: 9 0 . D , G $ L S MI PR. The translator has
 * checked that the format is one. */
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <string.h>

#define FORMAT_MAX 4096

/* A format, one letter a token: 9 0 . , $ S, M for MI, < and > for PR. */
typedef struct format {
  char tokens[FORMAT_MAX + 2];
  size_t count;
  int whole, fraction; /* digits */
} format;

static bool format_read(fn_text text, format *out) {
  bool wraps = false, point = false;
  out->count = 0;
  out->whole = out->fraction = 0;
  if (text.size > FORMAT_MAX) return false;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c >= 'a' && c <= 'z') c = (char)(c - 'a' + 'A');
    if (c == 'P') wraps = true;
    if (c == 'I' || c == 'R') continue; /* of MI and PR */
    if (c == 'G') c = ',';
    if (c == 'D') c = '.';
    if (c == 'L') c = '$';
    if (c == 'P') c = '>';
    if (c == '.') point = true;
    if (c == '9' || c == '0') *(point ? &out->fraction : &out->whole) += 1;
    out->tokens[out->count++] = c;
  }
  if (wraps) {
    memmove(out->tokens + 1, out->tokens, out->count++);
    out->tokens[0] = '<';
  }
  return true;
}

/* ---- to_char ---- */
typedef struct line {
  char text[FORMAT_MAX + 8];
  size_t size;
} line;

/* A space behind a sign goes before it: the sign stays next to the digits. */
static void put(line *out, char c) {
  char last = out->size ? out->text[out->size - 1] : 0;
  if (c == ' ' && (last == '-' || last == '+' || last == '<')) {
    out->text[out->size - 1] = ' ';
    c = last;
  }
  out->text[out->size++] = c;
}

typedef struct digits {
  char text[FN_DECIMAL_TEXT_MAX + 1];
  int whole, fraction; /* how many of each; the text has no point, no zeros around */
} digits;

static void digits_of(fn_i128 value, int scale, digits *out) {
  char text[FN_DECIMAL_TEXT_MAX + 1];
  size_t size = fn__decimal_print(value < 0 ? -value : value, scale, text), at = 0;
  out->whole = out->fraction = 0;
  while (at < size && text[at] == '0') at++;
  while (at < size && text[at] != '.') out->text[out->whole++] = text[at++];
  for (at++; at < size; at++) out->text[out->whole + out->fraction++] = text[at];
  while (out->fraction > 0 && out->text[out->whole + out->fraction - 1] == '0') out->fraction--;
}

static void put_digit(line *out, char token, const digits *d, int place) {
  int index = d->whole - 1 - place; /* place 0: ones, -1: tenths */
  bool known = place >= 0 ? index >= 0 : -place <= d->fraction;
  put(out, known ? d->text[index] : place < 0 || token == '0' ? '0' : ' ');
}

static void format_number(const format *f, fn_i128 value, int scale, line *out) {
  digits d;
  int place = f->whole;
  bool started = false;
  out->size = 0;
  digits_of(value, scale, &d);
  bool fits = d.whole <= f->whole && d.fraction <= f->fraction;
  for (size_t i = 0; i < f->count; i++) {
    switch (f->tokens[i]) {
    case '9':
    case '0':
      place--;
      started |= place < d.whole || f->tokens[i] == '0';
      if (fits)
        put_digit(out, f->tokens[i], &d, place);
      else
        put(out, '#');
      break;
    case ',': put(out, fits && started ? ',' : ' '); break;
    case '.': /* a space before the point is a zero that was not shown */
      if (f->fraction && out->size && out->text[out->size - 1] == ' ') out->text[out->size - 1] = '0';
      put(out, f->fraction ? '.' : ' ');
      break;
    case '$': put(out, '$'); break;
    case 'S': put(out, value < 0 ? '-' : '+'); break;
    case 'M': put(out, value < 0 ? '-' : ' '); break;
    case '<':
      if (value < 0) put(out, '<');
      break;
    default: /* > */
      put(out, value < 0 ? '>' : ' ');
      if (value >= 0) put(out, ' ');
    }
  }
}

static trn_status to_char(fn_call *call) {
  format f;
  line out;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    if (!format_read(fn__get_text(&call->columns[1], row), &f)) return fn__mismatch(call);
    format_number(&f, fn__get_decimal(&call->columns[0], row), call->columns[0].type.scale, &out);
    fn__push(&call->out, out.text, out.size);
  }
  return TRN_OK;
}

/* ---- to_number ---- */
typedef struct input {
  fn_text text;
  size_t at;
  fn_u128 value;
  int fraction; /* digits taken after the point */
  int taken;
} input;

static char peek(const input *in) {
  return in->at < in->text.size ? in->text.data[in->at] : 0;
}

static void take_digit(input *in) {
  in->value = in->value * 10 + (fn_u128)(in->text.data[in->at++] - '0');
  in->taken++;
}

/* Digits and commas against tokens [first, end): groups are compared from the right. */
static bool take_groups(input *in, const format *f, size_t first, size_t end) {
  int given[FN_DIGITS_MAX + 2] = {0}, groups = 0;
  for (char c = peek(in); (c >= '0' && c <= '9') || c == ','; c = peek(in)) {
    if (c == ',') {
      if (++groups > FN_DIGITS_MAX) return false;
      in->at++;
      continue;
    }
    if (++given[groups] > FN_DIGITS_MAX || in->taken >= FN_DIGITS_MAX) return false;
    take_digit(in);
  }
  for (size_t right = end; right > first || groups >= 0;) {
    size_t left = right;
    while (left > first && f->tokens[left - 1] != ',') left--;
    int wanted = (int)(right - left), has = groups >= 0 ? given[groups] : 0;
    bool exact = wanted > 0 && f->tokens[left] == '0';
    if (right == first && groups >= 0) return false; /* more groups than the format has */
    if (exact ? has != wanted : has > wanted) return false;
    groups--;
    right = left > first ? left - 1 : first;
    if (left == first && groups < 0) break;
  }
  return true;
}

static bool take_fraction(input *in, size_t count) {
  for (; peek(in) >= '0' && peek(in) <= '9'; in->fraction++) {
    if ((size_t)in->fraction >= count || in->taken >= FN_DIGITS_MAX) return false;
    take_digit(in);
  }
  return true;
}

static bool parse_number(const format *f, fn_text text, fn_i128 *out) {
  input in = {.text = text};
  bool negative = false, opened = false, point = false;
  while (peek(&in) == ' ') in.at++;
  for (size_t i = 0; i < f->count; i++) {
    char c = peek(&in), token = f->tokens[i];
    size_t end = i;
    if (token == '9' || token == '0') {
      while (end < f->count && (f->tokens[end] == '9' || f->tokens[end] == '0' || f->tokens[end] == ',')) end++;
      bool after = memchr(f->tokens, '.', i) != NULL;
      if (after && point && !take_fraction(&in, end - i)) return false;
      if (!after && !take_groups(&in, f, i, end)) return false;
      i = end - 1;
    } else if (token == '.') {
      point = c == '.';
      in.at += point;
    } else if (token == '$') {
      if (c != '$') return false;
      in.at++;
    } else if (token == 'S' || token == 'M') {
      negative |= c == '-';
      in.at += c == '-' || (c == '+' && token == 'S');
    } else if (token == '<') {
      opened = c == '<';
      in.at += opened;
    } else if (token == '>') {
      if (opened != (c == '>')) return false;
      negative |= opened;
      in.at += opened;
    }
  }
  if (in.at < text.size || in.taken == 0) return false;
  fn_u128 value = in.value;
  for (int i = in.fraction; i < f->fraction; i++) value *= 10;
  *out = negative ? -(fn_i128)value : (fn_i128)value;
  return true;
}

static trn_status raise_input(const fn_call *call, fn_text text, fn_text pattern) {
  trn_status status = fn__raise(&call->report, "INVALID_FORMAT.MISMATCH_INPUT", "inputType", "\"STRING\"", NULL);
  fn__param(&call->report, "input", text.data, text.size);
  fn__param(&call->report, "format", pattern.data, pattern.size);
  return status;
}

static trn_status to_number(fn_call *call) {
  format f;
  fn_text pattern = {"", 0};
  if (!fn__literal_text(call, 1, &pattern) || !format_read(pattern, &f)) pattern.size = f.count = 0;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_i128 value = 0;
    if (!fn__row_is_null(&call->out, row)) {
      fn_text text = fn__get_text(&call->columns[0], row);
      bool good = parse_number(&f, text, &value);
      if (!good && !call->function->op) return raise_input(call, text, pattern);
      if (!good) fn__set_null(&call->out, row);
    }
    fn__store_decimal(call->out.data, row, value);
  }
  return TRN_OK;
}

FN_BIND(to_char, "ds", fn__type(FN_STRING))

static trn_status bind_to_number(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  format f;
  fn_text pattern;
  (void)schema;
  if (!fn__args_are(call, "ss")) return fn__mismatch(call);
  if (!fn__literal_text(call, 1, &pattern)) {
    *out = fn__type_decimal(10, 0);
    return TRN_OK;
  }
  if (!format_read(pattern, &f) || f.whole + f.fraction < 1 || f.whole + f.fraction > FN_DIGITS_MAX)
    return fn__mismatch(call);
  *out = fn__type_decimal(f.whole + f.fraction, f.fraction);
  return TRN_OK;
}

const fn_scalar fn__number_format_table[] = {
    {"trn.to_char", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_to_char, to_char},
    {"trn.to_number", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_to_number, to_number},
    {"trn.to_number_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 1, bind_to_number, to_number},
    {NULL},
};
