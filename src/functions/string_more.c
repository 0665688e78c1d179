/* Strings: case, patterns, encodings, distances, number formats. */
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#define EACH_TEXT_ROW(call, row)                                                                                       \
  for (int64_t row = 0; row < (call)->rows; row++)                                                                     \
    if (fn__row_is_null(&(call)->out, row))                                                                            \
      fn__push_end(&(call)->out, 0);                                                                                   \
    else

static fn_text text_at(const fn_call *call, size_t argument, int64_t row) {
  return fn__get_text(&call->columns[argument], row);
}

/* ---- case ---- */
enum { UPPER, LOWER, INITCAP };
static bool is_ascii(fn_text text) {
  unsigned char seen = 0;
  for (size_t i = 0; i < text.size; i++) seen |= (unsigned char)text.data[i];
  return seen < 0x80;
}

static void change_ascii(fn_builder *out, fn_text text, int how) {
  char *room = fn__reserve(out, text.size);
  bool start = true;
  if (!room) return;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    bool up = how == UPPER || (how == INITCAP && start);
    room[i] = up ? (c >= 'a' && c <= 'z' ? (char)(c - 32) : c) : (c >= 'A' && c <= 'Z' ? (char)(c + 32) : c);
    start = c == ' ';
  }
  fn__push_end(out, text.size);
}

/* What Java's full mappings make longer. */
static const struct {
  uint32_t code;
  const char *upper;
} LONG_UPPER[] = {{0xdf, "SS"},   {0x149, "\xca\xbcN"}, {0x1f0, "J\xcc\x8c"}, {0xfb00, "FF"}, {0xfb01, "FI"},
                  {0xfb02, "FL"}, {0xfb03, "FFI"},      {0xfb04, "FFL"},      {0xfb05, "ST"}, {0xfb06, "ST"}};

static bool is_letter_at(fn_text text, size_t at, locale_t unicode) {
  size_t size;
  return at < text.size &&
         iswalpha_l((wint_t)fn__char_decode((fn_text){text.data + at, text.size - at}, &size), unicode);
}

/* A capital sigma ends a word as a final sigma. */
static uint32_t lower_of(uint32_t code, fn_text text, size_t at, size_t size, locale_t unicode) {
  if (code != 0x3a3) return (uint32_t)towlower_l((wint_t)code, unicode);
  size_t before = at;
  while (before > 0 && ((unsigned char)text.data[--before] & 0xc0) == 0x80)
    ;
  return at > 0 && is_letter_at(text, before, unicode) && !is_letter_at(text, at + size, unicode) ? 0x3c2 : 0x3c3;
}

static void change_unicode(fn_builder *out, fn_text text, int how, locale_t unicode) {
  bool start = true;
  for (size_t at = 0, size; at < text.size; at += size) {
    char encoded[4];
    uint32_t code = fn__char_decode((fn_text){text.data + at, text.size - at}, &size);
    bool up = how == UPPER || (how == INITCAP && start);
    const char *longer = NULL;
    for (size_t i = 0; up && how == UPPER && i < sizeof LONG_UPPER / sizeof LONG_UPPER[0]; i++)
      if (LONG_UPPER[i].code == code) longer = LONG_UPPER[i].upper;
    if (!up && code == 0x130) longer = "i\xcc\x87";
    start = code == ' ';
    if (longer) {
      fn__append(out, longer, strlen(longer));
      continue;
    }
    code = up ? (uint32_t)towupper_l((wint_t)code, unicode) : lower_of(code, text, at, size, unicode);
    fn__append(out, encoded, fn__char_encode(code, encoded));
  }
  fn__push_end(out, 0);
}

static trn_status change_case(fn_call *call) {
  /* A locale object of our own: towupper without one follows the process's locale. */
  locale_t unicode = (locale_t)0;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    if (is_ascii(text)) {
      change_ascii(&call->out, text, call->function->op);
      continue;
    }
    if (!unicode) {
      unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
      if (!unicode && errno == ENOMEM) return fn__raise_out_of_memory(&call->report);
    }
    if (unicode)
      change_unicode(&call->out, text, call->function->op, unicode);
    else
      change_ascii(&call->out, text, call->function->op);
  }
  if (unicode) freelocale(unicode);
  return TRN_OK;
}

/* ---- LIKE ---- */
typedef struct like_step {
  uint32_t code; /* a character, or one of the two below */
} like_step;
#define ANY_ONE 0xffffffffu
#define ANY_MANY 0xfffffffeu
#define LIKE_STEPS_MAX 65536

/* `unicode`: NULL keeps the case. */
static uint32_t fold(uint32_t code, locale_t unicode) {
  if (!unicode) return code;
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  return (uint32_t)towlower_l((wint_t)code, unicode);
}

/* The pattern is shown in quotes; so is the character that is wrongly escaped, where there is one. */
static trn_status raise_pattern(const fn_call *call, fn_text pattern, fn_text escaped) {
  char quoted[260], character[8] = "'";
  size_t size = pattern.size < 256 ? pattern.size : 256;
  quoted[0] = '\'';
  memcpy(quoted + 1, pattern.data, size);
  quoted[size + 1] = '\'';
  trn_status status = fn__raise(
      &call->report, escaped.size ? "INVALID_FORMAT.ESC_IN_THE_MIDDLE" : "INVALID_FORMAT.ESC_AT_THE_END", NULL);
  fn__param(&call->report, "format", quoted, size + 2);
  if (escaped.size) {
    memcpy(character + 1, escaped.data, escaped.size);
    character[escaped.size + 1] = '\'';
    fn__param(&call->report, "char", character, escaped.size + 2);
  }
  return status;
}

static trn_status compile_like(const fn_call *call, fn_text pattern, uint32_t escape, locale_t unicode,
                               like_step *steps, size_t *count) {
  *count = 0;
  for (size_t at = 0, size; at < pattern.size; at += size) {
    uint32_t code = fn__char_decode((fn_text){pattern.data + at, pattern.size - at}, &size);
    if (*count == LIKE_STEPS_MAX) return fn__raise_out_of_memory(&call->report);
    if (code == escape) {
      size_t next;
      at += size;
      if (at >= pattern.size) return raise_pattern(call, pattern, (fn_text){"", 0});
      code = fn__char_decode((fn_text){pattern.data + at, pattern.size - at}, &next);
      if (code != '_' && code != '%' && code != escape)
        return raise_pattern(call, pattern, (fn_text){pattern.data + at, next});
      size = next;
      steps[(*count)++].code = fold(code, unicode);
    } else if (code == '%') {
      if (*count == 0 || steps[*count - 1].code != ANY_MANY) steps[(*count)++].code = ANY_MANY;
    } else {
      steps[(*count)++].code = code == '_' ? ANY_ONE : fold(code, unicode);
    }
  }
  return TRN_OK;
}

/* Two pointers: after a failure the last % takes one character more. */
static bool like_matches(fn_text text, const like_step *steps, size_t count, locale_t unicode) {
  size_t at = 0, step = 0, star = SIZE_MAX, star_at = 0, size;
  while (at < text.size) {
    uint32_t code = fold(fn__char_decode((fn_text){text.data + at, text.size - at}, &size), unicode);
    if (step < count && steps[step].code == ANY_MANY) {
      star = step++;
      star_at = at;
    } else if (step < count && (steps[step].code == ANY_ONE || steps[step].code == code)) {
      step++;
      at += size;
    } else if (star != SIZE_MAX) {
      fn__char_decode((fn_text){text.data + star_at, text.size - star_at}, &size);
      star_at += size;
      at = star_at;
      step = star + 1;
    } else {
      return false;
    }
  }
  while (step < count && steps[step].code == ANY_MANY) step++;
  return step == count;
}

/* ---- patterns of plain pieces between %: found one after the other by their bytes ---- */
#define PIECES_MAX 16
typedef struct pieces {
  fn_text piece[PIECES_MAX];
  size_t count; /* 0: not that kind of pattern */
} pieces;

static void cut_pieces(fn_text pattern, fn_text escape, pieces *out) {
  size_t start = 0;
  out->count = 0;
  for (size_t i = 0; i <= pattern.size; i++) {
    if (i < pattern.size &&
        (pattern.data[i] == '_' || (escape.size == 1 && pattern.data[i] == escape.data[0]) || escape.size > 1)) {
      out->count = 0;
      return;
    }
    if (i < pattern.size && pattern.data[i] != '%') continue;
    if (out->count == PIECES_MAX) {
      out->count = 0;
      return;
    }
    out->piece[out->count++] = (fn_text){pattern.data + start, i - start};
    start = i + 1;
  }
}

/* The first piece starts the text, the last ends it. */
static bool pieces_match(fn_text text, const pieces *p) {
  const fn_text *first = &p->piece[0], *last = &p->piece[p->count - 1];
  if (text.size < first->size || memcmp(text.data, first->data, first->size) != 0) return false;
  if (p->count == 1) return text.size == first->size;
  text.data += first->size, text.size -= first->size;
  if (text.size < last->size || memcmp(text.data + text.size - last->size, last->data, last->size) != 0) return false;
  text.size -= last->size;
  for (size_t i = 1; i + 1 < p->count; i++) {
    const char *found = p->piece[i].size ? memmem(text.data, text.size, p->piece[i].data, p->piece[i].size) : text.data;
    if (!found) return false;
    text.size -= (size_t)(found - text.data) + p->piece[i].size;
    text.data = found + p->piece[i].size;
  }
  return true;
}

static trn_status like(fn_call *call) {
  bool ignore_case = call->function->op;
  locale_t unicode = ignore_case ? newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0) : (locale_t)0;
  like_step *steps = malloc(LIKE_STEPS_MAX * sizeof *steps);
  size_t count = 0, size;
  pieces plain = {.count = 0};
  fn_text compiled = {NULL, 0};
  trn_status status = steps && (unicode || !ignore_case) ? TRN_OK : fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text pattern = text_at(call, 1, row), escape = call->count > 2 ? text_at(call, 2, row) : (fn_text){"\\", 1};
    if (pattern.data != compiled.data || pattern.size != compiled.size) {
      status =
          compile_like(call, pattern, escape.size ? fn__char_decode(escape, &size) : ANY_ONE, unicode, steps, &count);
      compiled = pattern;
      plain.count = 0;
      if (!ignore_case) cut_pieces(pattern, escape, &plain);
    }
    if (plain.count)
      fn__set_bool(&call->out, row, pieces_match(text_at(call, 0, row), &plain));
    else if (status == TRN_OK)
      fn__set_bool(&call->out, row, like_matches(text_at(call, 0, row), steps, count, unicode));
  }
  free(steps);
  if (unicode) freelocale(unicode);
  return status;
}

/* ---- hexadecimal, base 64 ---- */
static trn_status hex(fn_call *call) {
  const fn_column *a = &call->columns[0];
  EACH_TEXT_ROW(call, row) {
    if (a->type.kind != FN_STRING && a->type.kind != FN_BINARY) {
      char text[17];
      fn__push(&call->out, text,
               (size_t)snprintf(text, sizeof text, "%llX", (unsigned long long)fn__get_integer(a, row)));
      continue;
    }
    fn_text text = fn__get_text(a, row);
    char *room = fn__reserve(&call->out, text.size * 2);
    if (!room) return TRN_OK;
    for (size_t i = 0; i < text.size; i++) {
      room[i * 2] = "0123456789ABCDEF"[(unsigned char)text.data[i] >> 4];
      room[i * 2 + 1] = "0123456789ABCDEF"[text.data[i] & 15];
    }
    fn__push_end(&call->out, text.size * 2);
  }
  return TRN_OK;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static trn_status unhex(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    size_t size = (text.size + 1) / 2;
    char *room = fn__reserve(&call->out, size);
    if (!room) return TRN_OK;
    bool good = true;
    for (size_t i = 0; i < text.size && good; i++) {
      int digit = hex_digit(text.data[i]);
      size_t at = (i + (text.size & 1)) / 2;
      bool low = (i + (text.size & 1)) & 1;
      good = digit >= 0;
      room[at] = (char)(low && i > 0 ? room[at] << 4 | digit : digit);
    }
    if (good)
      fn__push_end(&call->out, size);
    else
      fn__push_null(&call->out);
  }
  return TRN_OK;
}

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static trn_status base64(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    size_t size = (text.size + 2) / 3 * 4;
    char *room = fn__reserve(&call->out, size);
    if (!room) return TRN_OK;
    for (size_t i = 0, o = 0; i < text.size; i += 3, o += 4) {
      uint32_t bits = 0;
      for (size_t k = 0; k < 3; k++) bits = bits << 8 | (i + k < text.size ? (unsigned char)text.data[i + k] : 0);
      for (size_t k = 0; k < 4; k++) room[o + k] = i + k > text.size ? '=' : BASE64[bits >> (18 - 6 * k) & 63];
    }
    fn__push_end(&call->out, size);
  }
  return TRN_OK;
}

/* MIME rules: other characters are passed over. */
static trn_status unbase64(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    char *room = fn__reserve(&call->out, text.size);
    uint32_t bits = 0;
    int held = 0;
    size_t size = 0;
    if (!room) return TRN_OK;
    for (size_t i = 0; i < text.size && text.data[i] != '='; i++) {
      const char *digit = text.data[i] ? strchr(BASE64, text.data[i]) : NULL;
      if (!digit) continue;
      bits = bits << 6 | (uint32_t)(digit - BASE64);
      held += 6;
      if (held >= 8) room[size++] = (char)(bits >> (held -= 8));
    }
    fn__push_end(&call->out, size);
  }
  return TRN_OK;
}

/* ---- sound and distance ---- */
static trn_status soundex(fn_call *call) {
  static const char CODES[] = "01230127022455012623017202"; /* 7: H and W, passed over */
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    char out[4] = {0}, c = text.size ? text.data[0] : 0;
    size_t used = 1;
    c = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
    if (c < 'A' || c > 'Z') {
      fn__push(&call->out, text.data, text.size);
      continue;
    }
    out[0] = c;
    char last = CODES[c - 'A'];
    for (size_t i = 1; i < text.size && used < 4; i++) {
      c = text.data[i] >= 'a' && text.data[i] <= 'z' ? (char)(text.data[i] - 32) : text.data[i];
      if (c < 'A' || c > 'Z') {
        last = '0';
        continue;
      }
      char code = CODES[c - 'A'];
      if (code == '7') continue;
      if (code != '0' && code != last) out[used++] = code;
      last = code;
    }
    while (used < 4) out[used++] = '0';
    fn__push(&call->out, out, 4);
  }
  return TRN_OK;
}

#define LEVENSHTEIN_MAX ((size_t)1 << 26) /* cells of work for one row: what one value may cost */

static int32_t levenshtein_of(fn_text a, fn_text b, int32_t *line) {
  int64_t count = fn__char_count(b);
  for (int64_t j = 0; j <= count; j++) line[j] = (int32_t)j;
  for (size_t at = 0, size, i = 1; at < a.size; at += size, i++) {
    uint32_t x = fn__char_decode((fn_text){a.data + at, a.size - at}, &size);
    int32_t diagonal = line[0];
    line[0] = (int32_t)i;
    int64_t j = 1;
    for (size_t other = 0, width; other < b.size && j <= count; other += width, j++) {
      uint32_t y = fn__char_decode((fn_text){b.data + other, b.size - other}, &width);
      int32_t best = diagonal + (x != y);
      diagonal = line[j];
      best = best < line[j] + 1 ? best : line[j] + 1;
      line[j] = best < line[j - 1] + 1 ? best : line[j - 1] + 1;
    }
  }
  return line[count];
}

static trn_status levenshtein(fn_call *call) {
  int32_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    out[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text a = text_at(call, 0, row), b = text_at(call, 1, row);
    if (a.size && b.size > LEVENSHTEIN_MAX / a.size) {
      call->report.error->fail(call->report.error->self, TRN_RESOURCE_EXHAUSTED, NULL,
                               "levenshtein: the texts are too long");
      return TRN_RESOURCE_EXHAUSTED;
    }
    int32_t *line = malloc((b.size + 1) * sizeof *line);
    if (!line) return fn__raise_out_of_memory(&call->report);
    out[row] = levenshtein_of(a, b, line);
    free(line);
    if (call->count > 2 && out[row] > fn__get_i32(&call->columns[2], row)) out[row] = -1;
  }
  return TRN_OK;
}

/* ---- format_number(x, places[, least places, least whole digits, group]): HALF_EVEN ---- */
typedef struct grouping {
  size_t least_fraction, least_whole, group; /* group 0: none */
} grouping;

static void append_grouped(fn_builder *out, const char *digits, size_t size, const grouping *how) {
  size_t at = 0, whole = 0;
  if (size && digits[0] == '-') fn__append(out, digits, 1), at = 1;
  while (at + whole < size && digits[at + whole] != '.') whole++;
  size_t fraction = size - at - whole; /* with the point */
  while (fraction > how->least_fraction + 1 && digits[at + whole + fraction - 1] == '0') fraction--;
  if (fraction == 1) fraction = 0;
  for (size_t i = whole > how->least_whole ? whole : how->least_whole; i > 0; i--) {
    fn__append(out, i > whole ? "0" : digits + at + whole - i, 1);
    if (how->group && i > 1 && (i - 1) % how->group == 0) fn__append(out, ",", 1);
  }
  fn__append(out, digits + at + whole, fraction);
  fn__push_end(out, 0);
}

/* Groups of three and all places, unless the arguments say more. */
static grouping grouping_of(const fn_call *call, int64_t row, int64_t places) {
  if (call->count < 5) return (grouping){(size_t)places, 1, 3};
  return (grouping){(size_t)fn__get_i32(&call->columns[2], row), (size_t)fn__get_i32(&call->columns[3], row),
                    (size_t)fn__get_i32(&call->columns[4], row)};
}

#define PLACES_MAX 308
static trn_status format_number(fn_call *call) {
  const fn_column *a = &call->columns[0];
  EACH_TEXT_ROW(call, row) {
    char text[FN_DECIMAL_TEXT_MAX + PLACES_MAX + 400];
    int64_t places = fn__get_i32(&call->columns[1], row);
    if (places < 0) {
      fn__push_null(&call->out);
      continue;
    }
    places = places > PLACES_MAX ? PLACES_MAX : places;
    grouping how = grouping_of(call, row, places);
    if (a->type.kind == FN_FLOAT64 || a->type.kind == FN_FLOAT32) {
      double value = fn__get_number(a, row);
      size_t size = 0;
      if (value - value != 0) {
        size = (size_t)snprintf(text, sizeof text, value != value ? "NaN" : value > 0 ? "\u221e" : "-\u221e");
        fn__push(&call->out, text, size);
        continue;
      }
      size = (size_t)snprintf(text, sizeof text, "%.*f", (int)places, value); /* rounds the exact value half to even */
      for (size_t i = 0; i < size; i++)                                       /* libc's radix point is the process's */
        if (text[i] != '-' && (text[i] < '0' || text[i] > '9')) text[i] = '.';
      append_grouped(&call->out, text, size, &how);
      continue;
    }
    fn_i128 value = a->type.kind == FN_DECIMAL ? fn__get_decimal(a, row) : fn__get_integer(a, row);
    int scale = a->type.kind == FN_DECIMAL ? a->type.scale : 0;
    if (places < scale) {
      fn_u128 size = fn__abs128(value), unit = fn__pow10[scale - places], quotient = size / unit, rest = size % unit;
      quotient += rest > unit / 2 || (rest == unit / 2 && (quotient & 1));
      value = value < 0 ? -(fn_i128)quotient : (fn_i128)quotient;
      scale = (int)places;
    }
    size_t size = fn__decimal_print(value, scale, text);
    if (scale == 0 && places > 0) text[size++] = '.';
    for (; scale < places; scale++) text[size++] = '0';
    append_grouped(&call->out, text, size, &how);
  }
  return TRN_OK;
}

/* ---- binding ---- */
FN_BIND(string, "s", fn__type(FN_STRING))
FN_BIND(like, "ss|s", fn__type(FN_BOOL))
FN_BIND(hex, "*", fn__type(FN_STRING))
FN_BIND(unhex, "s", fn__type(FN_BINARY))
FN_BIND(base64, "t", fn__type(FN_STRING))
FN_BIND(unbase64, "s", fn__type(FN_BINARY))
FN_BIND(levenshtein, "ss|i", fn__type(FN_INT32))
FN_BIND(format_number, "*i|iii", fn__type(FN_STRING))

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
const fn_scalar fn__string_more_table[] = {
    STRICT("upper", 0, UPPER, bind_string, change_case),
    STRICT("lower", 0, LOWER, bind_string, change_case),
    STRICT("initcap", 0, INITCAP, bind_string, change_case),
    STRICT("like", FN_POSITION, 0, bind_like, like),
    STRICT("ilike", FN_POSITION, 1, bind_like, like),
    STRICT("hex", 0, 0, bind_hex, hex),
    STRICT("unhex", FN_NULLABLE, 0, bind_unhex, unhex),
    STRICT("base64", 0, 0, bind_base64, base64),
    STRICT("unbase64", 0, 0, bind_unbase64, unbase64),
    STRICT("soundex", 0, 0, bind_string, soundex),
    STRICT("levenshtein", 0, 0, bind_levenshtein, levenshtein),
    STRICT("format_number", FN_NULLABLE, 0, bind_format_number, format_number),
    {NULL},
};
