/* Texts as bytes and back: character sets, URLs, UTF-8 checks; masks, sets in texts, quoted texts. */
#include "functions/frame.h"
#include "functions/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH_TEXT_ROW(call, row)                                                                                       \
  for (int64_t row = 0; row < (call)->rows; row++)                                                                     \
    if (fn__row_is_null(&(call)->out, row))                                                                            \
      fn__push_end(&(call)->out, 0);                                                                                   \
    else

static fn_text text_at(const fn_call *call, size_t argument, int64_t row) {
  return fn__get_text(&call->columns[argument], row);
}

/* A text argument for an error's parameter: cut, ended by a zero. */
#define SHOWN_MAX 256
static const char *shown(fn_text text, char *out) {
  size_t size = text.size < SHOWN_MAX - 1 ? text.size : SHOWN_MAX - 1;
  memcpy(out, text.data, size);
  out[size] = 0;
  return out;
}

/* ---- UTF-8 ---- */
/* The size of a well-formed character at the start, or 0; then *bad has how many bytes one replacement stands for. */
static size_t valid_char(fn_text text, size_t *bad) {
  const unsigned char *p = (const unsigned char *)text.data;
  size_t size = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
  *bad = 1;
  for (size_t i = 1; i < size; i++) {
    unsigned char least = 0x80, most = 0xbf;
    if (i == 1 && p[0] == 0xe0) least = 0xa0;
    if (i == 1 && p[0] == 0xed) most = 0x9f;
    if (i == 1 && p[0] == 0xf0) least = 0x90;
    if (i == 1 && p[0] == 0xf4) most = 0x8f;
    if (i >= text.size || p[i] < least || p[i] > most) {
      *bad = i;
      return 0;
    }
  }
  return size;
}

static bool is_valid(fn_text text) {
  size_t bad;
  while (text.size > 0) {
    size_t size = valid_char(text, &bad);
    if (!size) return false;
    text = (fn_text){text.data + size, text.size - size};
  }
  return true;
}

static void push_repaired(fn_builder *out, fn_text text) {
  while (text.size > 0) {
    size_t bad, size = valid_char(text, &bad);
    fn__append(out, size ? text.data : "\xef\xbf\xbd", size ? size : 3);
    if (!size) size = bad;
    text = (fn_text){text.data + size, text.size - size};
  }
  fn__push_end(out, 0);
}

enum { IS_VALID, MAKE_VALID, VALIDATE, TRY_VALIDATE };
static trn_status utf8(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    bool null = fn__row_is_null(&call->out, row);
    fn_text text = null ? (fn_text){"", 0} : text_at(call, 0, row);
    bool good = is_valid(text);
    if (op == IS_VALID)
      fn__set_bool(&call->out, row, good);
    else if (null || (op == TRY_VALIDATE && !good))
      fn__push_null(&call->out);
    else if (op == VALIDATE && !good)
      return fn__raise(&call->report, "INVALID_UTF8_STRING", "str", "", NULL);
    else
      push_repaired(&call->out, text);
  }
  return TRN_OK;
}

/* ---- character sets ---- */
typedef enum charset { ASCII, LATIN1, UTF8, UTF16, UTF16BE, UTF16LE, UTF32, NO_CHARSET } charset;
static charset find_charset(fn_text name) {
  static const char *const NAMES[] = {"us-ascii", "iso-8859-1", "utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32"};
  for (int i = 0; i < NO_CHARSET; i++)
    if (fn__text_equal(name, NAMES[i])) return (charset)i;
  return NO_CHARSET;
}

static trn_status bad_charset(const fn_call *call, const char *function, fn_text name) {
  char text[SHOWN_MAX];
  return fn__raise(&call->report, "INVALID_PARAMETER_VALUE.CHARSET", "functionName", function, "parameter",
                   "`charset`", "charset", shown(name, text), "charsets",
                   "iso-8859-1, us-ascii, utf-16, utf-16be, utf-16le, utf-32, utf-8", NULL);
}

static trn_status malformed(const fn_call *call, const char *function, fn_text name) {
  char text[SHOWN_MAX];
  return fn__raise(&call->report, "MALFORMED_CHARACTER_CODING", "function", function, "charset", shown(name, text),
                   NULL);
}

static void put_unit(fn_builder *out, uint32_t unit, size_t bytes, bool little) {
  char data[4];
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(unit >> (8 * (little ? i : bytes - 1 - i)));
  fn__append(out, data, bytes);
}

static bool encode_char(fn_builder *out, charset set, uint32_t code) {
  bool little = set == UTF16LE;
  if (set == ASCII || set == LATIN1) {
    if (code > (set == ASCII ? 0x7fu : 0xffu)) return false;
    put_unit(out, code, 1, false);
  } else if (set == UTF32) {
    put_unit(out, code, 4, false);
  } else if (code >= 0x10000) {
    put_unit(out, 0xd800 + ((code - 0x10000) >> 10), 2, little);
    put_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ff), 2, little);
  } else {
    put_unit(out, code, 2, little);
  }
  return true;
}

static trn_status encode(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), name = text_at(call, 1, row);
    charset set = find_charset(name);
    if (set == NO_CHARSET) return bad_charset(call, "`encode`", name);
    if (set == UTF8) {
      fn__push(&call->out, text.data, text.size);
      continue;
    }
    if (set == UTF16 && text.size) put_unit(&call->out, 0xfeff, 2, false);
    while (text.size > 0) {
      size_t size;
      uint32_t code = fn__char_decode(text, &size);
      if (!encode_char(&call->out, set, code)) return malformed(call, "`encode`", name);
      text = (fn_text){text.data + size, text.size - size};
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static uint32_t get_unit(fn_text text, size_t at, size_t bytes, bool little) {
  uint32_t unit = 0;
  for (size_t i = 0; i < bytes; i++)
    unit |= (uint32_t)(unsigned char)text.data[at + i] << (8 * (little ? i : bytes - 1 - i));
  return unit;
}

/* False: malformed. */
static bool decode_units(fn_builder *out, charset set, fn_text text) {
  size_t width = set == ASCII || set == LATIN1 ? 1 : set == UTF32 ? 4 : 2, at = 0;
  bool little = set == UTF16LE;
  if (text.size % width) return false;
  if (set == UTF16 && text.size >= 2) {
    uint32_t mark = get_unit(text, 0, 2, false);
    little = mark == 0xfffe;
    if (little || mark == 0xfeff) at = 2;
  }
  for (; at < text.size; at += width) {
    char data[4];
    uint32_t code = get_unit(text, at, width, little);
    if (width == 2 && code >= 0xd800 && code < 0xdc00 && at + 4 <= text.size) {
      uint32_t low = get_unit(text, at + 2, 2, little);
      if (low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      at += 2;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (set == ASCII && code > 0x7f)) return false;
    fn__append(out, data, fn__char_encode(code, data));
  }
  fn__push_end(out, 0);
  return true;
}

static trn_status decode(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), name = text_at(call, 1, row);
    charset set = find_charset(name);
    if (set == NO_CHARSET) return bad_charset(call, "`decode`", name);
    if (set == UTF8 ? !is_valid(text) : !decode_units(&call->out, set, text)) return malformed(call, "`decode`", name);
    if (set == UTF8) fn__push(&call->out, text.data, text.size);
  }
  return TRN_OK;
}

/* ---- URLs ---- */
static bool is_alnum(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static trn_status url_encode(fn_call *call) {
  static const char HEX[] = "0123456789ABCDEF";
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    for (size_t i = 0; i < text.size; i++) {
      unsigned char c = (unsigned char)text.data[i];
      char coded[3] = {'%', HEX[c >> 4], HEX[c & 15]};
      bool plain = is_alnum(c) || c == '.' || c == '-' || c == '*' || c == '_';
      if (plain)
        fn__append(&call->out, &text.data[i], 1);
      else
        fn__append(&call->out, c == ' ' ? "+" : coded, c == ' ' ? 1 : 3);
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The decoded bytes in `out`, which has room for as many as `text`; -1: malformed. */
static int64_t unescape(fn_text text, char *out) {
  size_t size = 0;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == '%') {
      int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
      int low = i + 2 < text.size ? hex_digit(text.data[i + 2]) : -1;
      if (high < 0 || low < 0) return -1;
      c = (char)(high * 16 + low);
      i += 2;
    } else if (c == '+') {
      c = ' ';
    }
    out[size++] = c;
  }
  return (int64_t)size;
}

static trn_status url_decode(fn_call *call) {
  bool raises = call->function->flags & FN_POSITION;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    char *room = malloc(text.size + 1);
    if (!room) return fn__raise_out_of_memory(&call->report);
    int64_t size = unescape(text, room);
    if (size >= 0)
      push_repaired(&call->out, (fn_text){room, (size_t)size});
    else if (!raises)
      fn__push_null(&call->out);
    free(room);
    char url[SHOWN_MAX];
    if (size < 0 && raises) return fn__raise(&call->report, "CANNOT_DECODE_URL", "url", shown(text, url), NULL);
  }
  return TRN_OK;
}

/* The parts that java.net.URI tells apart; a part that is not there has no data. */
typedef struct url {
  fn_text scheme, authority, user, host, path, query, fragment, file;
} url;

static bool url_byte(fn_text text, size_t i) {
  unsigned char c = (unsigned char)text.data[i];
  if (c == '%') return i + 2 < text.size && hex_digit(text.data[i + 1]) >= 0 && hex_digit(text.data[i + 2]) >= 0;
  return c >= 0x80 || (c > 0x20 && c != 0x7f && !strchr("\"<>\\^`{|}", c));
}

static fn_text cut(fn_text *rest, size_t size, size_t skip) {
  fn_text part = {rest->data, size};
  *rest = (fn_text){rest->data + size + skip, rest->size - size - skip};
  return part;
}

static size_t find_any(fn_text text, const char *stops) {
  size_t at = 0;
  while (at < text.size && !(text.data[at] && strchr(stops, text.data[at]))) at++;
  return at;
}

/* False: no URL. */
static bool read_url(fn_text text, url *out) {
  *out = (url){0};
  for (size_t i = 0; i < text.size; i++)
    if (!url_byte(text, i)) return false;
  size_t colon = find_any(text, ":/?#");
  if (colon < text.size && text.data[colon] == ':') {
    bool letter = colon > 0 && is_alnum((unsigned char)text.data[0]) && text.data[0] > '9';
    for (size_t i = 0; i < colon; i++)
      letter &= is_alnum((unsigned char)text.data[i]) || (text.data[i] && strchr("+-.", text.data[i]) != NULL);
    if (!letter || colon + 1 == text.size) return false;
    out->scheme = cut(&text, colon, 1);
    if (text.data[0] != '/') return true; /* opaque: mailto:x */
  }
  if (text.size >= 2 && text.data[0] == '/' && text.data[1] == '/') {
    cut(&text, 0, 2);
    out->authority = cut(&text, find_any(text, "/?#"), 0);
    const char *at = memchr(out->authority.data, '@', out->authority.size);
    out->host = out->authority;
    if (at) out->user = cut(&out->host, (size_t)(at - out->authority.data), 1);
    bool bracket = out->host.size && out->host.data[0] == '[';
    out->host.size = bracket ? find_any(out->host, "]") + 1 : find_any(out->host, ":");
    if (!out->authority.size) out->authority.data = out->host.data = NULL;
  }
  out->file = out->path = cut(&text, find_any(text, "?#"), 0);
  if (text.size && text.data[0] == '?') {
    cut(&text, 0, 1);
    out->query = cut(&text, find_any(text, "#"), 0);
    out->file.size += 1 + out->query.size;
  }
  if (text.size) out->fragment = (fn_text){text.data + 1, text.size - 1};
  return true;
}

static fn_text url_part(const url *u, fn_text part) {
  static const char *const NAMES[] = {"HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO"};
  const fn_text parts[] = {u->host, u->path, u->query, u->fragment, u->scheme, u->file, u->authority, u->user};
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
    if (part.size == strlen(NAMES[i]) && memcmp(part.data, NAMES[i], part.size) == 0) return parts[i];
  return (fn_text){0};
}

/* The value of key=value in a query; a key is searched as the regular expression (&|^)key=([^&]*) of a plain text. */
static fn_text query_value(fn_text query, fn_text key) {
  while (query.data && query.size > 0) {
    size_t size = find_any(query, "&");
    if (size > key.size && query.data[key.size] == '=' && memcmp(query.data, key.data, key.size) == 0)
      return (fn_text){query.data + key.size + 1, size - key.size - 1};
    cut(&query, size, size < query.size);
  }
  return (fn_text){0};
}

static trn_status parse_url(fn_call *call) {
  bool raises = call->function->flags & FN_POSITION;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), part = text_at(call, 1, row), found = {0};
    url u;
    char name[SHOWN_MAX];
    bool good = read_url(text, &u);
    if (!good && raises) return fn__raise(&call->report, "INVALID_URL", "url", shown(text, name), NULL);
    if (good && call->count == 2) found = url_part(&u, part);
    if (good && call->count == 3 && part.size == 5 && memcmp(part.data, "QUERY", 5) == 0)
      found = query_value(u.query, text_at(call, 2, row));
    if (found.data)
      fn__push(&call->out, found.data, found.size);
    else
      fn__push_null(&call->out);
  }
  return TRN_OK;
}

/* ---- find_in_set, luhn_check, quote, mask ---- */
static trn_status find_in_set(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    int32_t found = 0, at = 1;
    if (!fn__row_is_null(&call->out, row)) {
      fn_text word = text_at(call, 0, row), set = text_at(call, 1, row);
      bool comma = word.size && memchr(word.data, ',', word.size);
      for (bool more = !comma; more && !found; at++) {
        size_t size = find_any(set, ",");
        if (size == word.size && memcmp(set.data, word.data, size) == 0) found = at;
        more = size < set.size;
        cut(&set, size, more);
      }
    }
    ((int32_t *)call->out.data)[row] = found;
  }
  return TRN_OK;
}

static trn_status luhn_check(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text text = text_at(call, 0, row);
    unsigned sum = 0;
    bool good = text.size > 0;
    for (size_t i = 0; i < text.size && good; i++) {
      unsigned digit = (unsigned)(unsigned char)text.data[text.size - 1 - i] - '0';
      good = digit < 10;
      if (i % 2) digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
      sum = (sum + digit) % 10;
    }
    fn__set_bool(&call->out, row, good && sum == 0);
  }
  return TRN_OK;
}

static trn_status quote(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    fn__append(&call->out, "'", 1);
    for (size_t i = 0; i < text.size; i++) {
      if (text.data[i] == '\'') fn__append(&call->out, "\\", 1);
      fn__append(&call->out, &text.data[i], 1);
    }
    fn__append(&call->out, "'", 1);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

/* mask(text, upper, lower, digit, other): a null leaves what it stands for; of letters only ASCII's are told apart, and
 * others by Unicode's case where the C library knows it. */
static trn_status mask(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__is_null(&call->columns[0], row)) {
      fn__push_null(&call->out);
      continue;
    }
    fn_text text = text_at(call, 0, row);
    for (size_t i = 0, size; i < text.size; i += size) {
      size = fn__char_size((unsigned char)text.data[i]);
      if (size > text.size - i) size = text.size - i;
      char c = text.data[i];
      bool two = size == 2 && (unsigned char)c == 0xc3; /* Latin-1's letters */
      unsigned char second = two ? (unsigned char)text.data[i + 1] : 0;
      bool upper = (c >= 'A' && c <= 'Z') || (two && second < 0x9f && second != 0x97);
      bool lower = (c >= 'a' && c <= 'z') || (two && second > 0x9e && second != 0xb7);
      size_t argument = upper ? 1 : lower ? 2 : c >= '0' && c <= '9' ? 3 : 4;
      if (fn__is_null(&call->columns[argument], row)) {
        fn__append(&call->out, text.data + i, size);
      } else {
        fn_text by = text_at(call, argument, row);
        fn__append(&call->out, by.data, by.size);
      }
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

/* elt(n, texts...): the n-th of them. */
static trn_status elt(fn_call *call) {
  bool raises = call->function->flags & FN_POSITION;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__is_null(&call->columns[0], row)) {
      fn__push_null(&call->out);
      continue;
    }
    int64_t index = fn__get_i32(&call->columns[0], row);
    bool inside = index >= 1 && (size_t)index < call->count;
    if (!inside && raises) {
      char at[FN_INT_TEXT_MAX], size[FN_INT_TEXT_MAX];
      at[fn__int_print(index, at)] = 0;
      size[fn__int_print((int64_t)call->count - 1, size)] = 0;
      return fn__raise(&call->report, "INVALID_ARRAY_INDEX", "indexValue", at, "arraySize", size, "ansiConfig",
                       FN_CONFIG, NULL);
    }
    if (!inside || fn__is_null(&call->columns[index], row)) {
      fn__push_null(&call->out);
    } else {
      fn_text text = text_at(call, (size_t)index, row);
      fn__push(&call->out, text.data, text.size);
    }
  }
  return TRN_OK;
}

static trn_status bind_elt(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  bool good = call->count >= 2 && call->columns[0].type.kind == FN_INT32;
  for (size_t i = 1; i < call->count && good; i++) good = fn__type_same(&call->columns[i].type, &call->columns[1].type);
  if (!good) return fn__mismatch(call);
  *out = fn__type((fn_kind)call->columns[1].type.kind);
  return out->kind == FN_STRING || out->kind == FN_BINARY ? TRN_OK : fn__mismatch(call);
}

FN_BIND(string, "s", fn__type(FN_STRING))
FN_BIND(check, "t", fn__type(FN_BOOL))
FN_BIND(repair, "t", fn__type(FN_STRING))
FN_BIND(luhn, "s", fn__type(FN_BOOL))
FN_BIND(encode, "ss", fn__type(FN_BINARY))
FN_BIND(decode, "zs", fn__type(FN_STRING))
FN_BIND(url, "ss|s", fn__type(FN_STRING))
FN_BIND(find, "ss", fn__type(FN_INT32))
FN_BIND(mask, "sssss", fn__type(FN_STRING))

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
const fn_scalar fn__encoding_table[] = {
    STRICT("is_valid_utf8", 0, IS_VALID, bind_check, utf8),
    STRICT("make_valid_utf8", 0, MAKE_VALID, bind_repair, utf8),
    STRICT("validate_utf8", FN_POSITION, VALIDATE, bind_repair, utf8),
    STRICT("try_validate_utf8", FN_NULLABLE, TRY_VALIDATE, bind_repair, utf8),
    STRICT("encode", FN_POSITION, 0, bind_encode, encode),
    STRICT("decode", FN_POSITION, 0, bind_decode, decode),
    STRICT("url_encode", 0, 0, bind_string, url_encode),
    STRICT("url_decode", FN_POSITION, 0, bind_string, url_decode),
    STRICT("url_decode_try", FN_NULLABLE, 0, bind_string, url_decode),
    STRICT("parse_url", FN_POSITION | FN_NULLABLE, 0, bind_url, parse_url),
    STRICT("parse_url_try", FN_NULLABLE, 0, bind_url, parse_url),
    STRICT("find_in_set", 0, 0, bind_find, find_in_set),
    STRICT("luhn_check", 0, 0, bind_luhn, luhn_check),
    STRICT("quote", 0, 0, bind_string, quote),
    {"trn.mask", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_mask, mask},
    {"trn.elt", TRN_IMMUTABLE, FN_POSITION | FN_NULLABLE, 0, bind_elt, elt},
    {"trn.elt_try", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_elt, elt},
    {NULL},
};
