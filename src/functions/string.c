/* Strings: pieces, case, padding, searching. Positions count characters from 1, as SQL does. */
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <limits.h>
#include <string.h>

/* Rows whose result is not null already; the others get an empty text. */
#define EACH_TEXT_ROW(call, row)                                                                                       \
  for (int64_t row = 0; row < (call)->rows; row++)                                                                     \
    if (fn__row_is_null(&(call)->out, row))                                                                            \
      fn__push_end(&(call)->out, 0);                                                                                   \
    else

static fn_text text_at(const fn_call *call, size_t argument, int64_t row) {
  return fn__get_text(&call->columns[argument], row);
}
static int32_t int_at(const fn_call *call, size_t argument, int64_t row) {
  return fn__get_i32(&call->columns[argument], row);
}

/* Characters start..until-1 (from 0), as UTF8String.substring. */
static fn_text slice_chars(fn_text text, int64_t start, int64_t until) {
  if (until <= start || start >= (int64_t)text.size) return (fn_text){text.data, 0};
  size_t from = fn__char_offset(text, start);
  fn_text rest = {text.data + from, text.size - from};
  rest.size = fn__char_offset(rest, until - (start > 0 ? start : 0));
  return rest;
}

static fn_text slice_bytes(fn_text text, int64_t start, int64_t until) {
  start = start < 0 ? 0 : start;
  until = until > (int64_t)text.size ? (int64_t)text.size : until;
  return until <= start ? (fn_text){text.data, 0} : (fn_text){text.data + start, (size_t)(until - start)};
}

static trn_status substring(fn_call *call) {
  bool binary = call->columns[0].type.kind == FN_BINARY;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    int64_t at = int_at(call, 1, row), count = call->count > 2 ? int_at(call, 2, row) : INT32_MAX;
    int64_t size = at >= 0 ? 0 : binary ? (int64_t)text.size : fn__char_count(text);
    int64_t start = at > 0 ? at - 1 : at < 0 ? size + at : 0, until = start + count;
    until = until > INT32_MAX ? INT32_MAX : until;
    fn_text part = binary ? slice_bytes(text, start, until) : slice_chars(text, start, until);
    fn__push(&call->out, part.data, part.size);
  }
  return TRN_OK;
}

static trn_status left_right(fn_call *call) {
  bool is_right = call->function->op, binary = call->columns[0].type.kind == FN_BINARY;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    int64_t count = int_at(call, 1, row), size = binary ? (int64_t)text.size : fn__char_count(text);
    count = count < 0 ? 0 : count > size ? size : count;
    int64_t start = is_right ? size - count : 0;
    fn_text part = binary ? slice_bytes(text, start, start + count) : slice_chars(text, start, start + count);
    fn__push(&call->out, part.data, part.size);
  }
  return TRN_OK;
}

/* Byte offset of `what` in `text` from `from` on, or -1. */
static int64_t find_bytes(fn_text text, fn_text what, size_t from) {
  if (what.size == 0) return from <= text.size ? (int64_t)from : -1;
  if (from >= text.size) return -1;
  const char *found = memmem(text.data + from, text.size - from, what.data, what.size);
  return found ? found - text.data : -1;
}

static int64_t find_bytes_back(fn_text text, fn_text what, int64_t from) {
  for (int64_t at = from; at >= 0; at--)
    if ((size_t)at + what.size <= text.size && memcmp(text.data + at, what.data, what.size) == 0) return at;
  return -1;
}

static fn_text part_by_index(fn_text text, fn_text delimiter, int64_t count) {
  if (delimiter.size == 0 || count == 0) return (fn_text){text.data, 0};
  if (count > 0) {
    int64_t at = -1;
    for (; count > 0; count--) {
      at = find_bytes(text, delimiter, (size_t)(at + 1));
      if (at < 0) return text;
    }
    return (fn_text){text.data, (size_t)at};
  }
  int64_t at = (int64_t)text.size - (int64_t)delimiter.size + 1;
  for (; count < 0; count++) {
    at = find_bytes_back(text, delimiter, at - 1);
    if (at < 0) return text;
  }
  size_t start = (size_t)at + delimiter.size;
  return (fn_text){text.data + start, text.size - start};
}

static trn_status substring_index(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text part = part_by_index(text_at(call, 0, row), text_at(call, 1, row), int_at(call, 2, row));
    fn__push(&call->out, part.data, part.size);
  }
  return TRN_OK;
}

static trn_status split_part(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), delimiter = text_at(call, 1, row), part = {text.data, 0};
    int64_t wanted = int_at(call, 2, row), parts = 1, index = 1;
    if (wanted == 0) return fn__raise(&call->report, "INVALID_INDEX_OF_ZERO", NULL);
    if (delimiter.size == 0) { /* one part, the whole */
      part = wanted == 1 || wanted == -1 ? text : part;
      fn__push(&call->out, part.data, part.size);
      continue;
    }
    for (int64_t at = find_bytes(text, delimiter, 0); at >= 0;
         at = find_bytes(text, delimiter, (size_t)at + delimiter.size))
      parts++;
    wanted = wanted < 0 ? parts + 1 + wanted : wanted;
    size_t start = 0;
    for (; index < wanted && index <= parts; index++) {
      int64_t at = find_bytes(text, delimiter, start);
      start = at < 0 ? text.size : (size_t)at + delimiter.size;
    }
    if (wanted >= 1 && wanted <= parts) {
      int64_t end = find_bytes(text, delimiter, start);
      part = (fn_text){text.data + start, (end < 0 ? text.size : (size_t)end) - start};
    }
    fn__push(&call->out, part.data, part.size);
  }
  return TRN_OK;
}

/* ---- joining ---- */
static trn_status concat(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    for (size_t i = 0; i < call->count; i++) {
      fn_text text = text_at(call, i, row);
      fn__append(&call->out, text.data, text.size);
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

/* Null arguments are left out; list arguments give their elements. */
static trn_status concat_ws(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__is_null(&call->columns[0], row)) {
      fn__push_null(&call->out);
      continue;
    }
    fn_text separator = text_at(call, 0, row);
    bool any = false;
    for (size_t i = 1; i < call->count; i++) {
      const fn_column *column = &call->columns[i];
      fn_column child = *column;
      if (fn__is_null(column, row)) continue;
      bool is_list = column->type.kind == FN_LIST;
      int64_t from = is_list ? column->offsets[row * column->step] : row,
              to = is_list ? column->offsets[row * column->step + 1] : row + 1;
      if (is_list && fn__column_child(column, 0, &child) != TRN_OK) return fn__mismatch(call);
      for (int64_t e = from; e < to; e++) {
        if (fn__is_null(&child, e)) continue;
        fn_text text = fn__get_text(&child, e);
        if (any) fn__append(&call->out, separator.data, separator.size);
        fn__append(&call->out, text.data, text.size);
        any = true;
      }
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static trn_status repeat(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    int64_t times = int_at(call, 1, row);
    times = times < 0 || text.size == 0 ? 0 : times;
    size_t total = text.size * (size_t)times;
    char *room = fn__reserve(&call->out, total);
    if (!room) return TRN_OK; /* the builder remembers */
    for (int64_t i = 0; i < times; i++) memcpy(room + (size_t)i * text.size, text.data, text.size);
    fn__push_end(&call->out, total);
  }
  return TRN_OK;
}

static trn_status space(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    int32_t count = int_at(call, 0, row);
    size_t size = count < 0 ? 0 : (size_t)count;
    char *room = fn__reserve(&call->out, size);
    if (!room) return TRN_OK;
    memset(room, ' ', size);
    fn__push_end(&call->out, size);
  }
  return TRN_OK;
}

/* ---- padding ---- */
/* `count` characters (or bytes) of `pad` repeated. */
static void append_padding(fn_builder *out, fn_text pad, int64_t count, bool binary) {
  int64_t size = binary ? (int64_t)pad.size : fn__char_count(pad);
  for (; count >= size && out->status == TRN_OK; count -= size) fn__append(out, pad.data, pad.size);
  fn__append(out, pad.data, binary ? (size_t)count : fn__char_offset(pad, count));
}

static trn_status pad(fn_call *call) {
  bool is_right = call->function->op, binary = call->columns[0].type.kind == FN_BINARY;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row),
            pad_text = call->count > 2 ? text_at(call, 2, row) : (fn_text){binary ? "\0" : " ", 1};
    int64_t wanted = int_at(call, 1, row), size = binary ? (int64_t)text.size : fn__char_count(text);
    wanted = wanted < 0 ? 0 : wanted;
    if (size >= wanted || pad_text.size == 0) {
      fn_text part = binary ? slice_bytes(text, 0, wanted) : slice_chars(text, 0, wanted);
      fn__push(&call->out, part.data, part.size);
      continue;
    }
    if (is_right) fn__append(&call->out, text.data, text.size);
    append_padding(&call->out, pad_text, wanted - size, binary);
    if (!is_right) fn__append(&call->out, text.data, text.size);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

/* char(n): blanks up to n characters; longer texts may only lose blanks. varchar(n) is the second half of it. */
static trn_status char_pad(fn_call *call) {
  bool fill = call->function->op == 0;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    int64_t wanted = int_at(call, 1, row), size = fn__char_count(text);
    while (size > wanted && text.size > 0 && text.data[text.size - 1] == ' ') text.size--, size--;
    if (size > wanted) {
      char limit[FN_INT_TEXT_MAX];
      limit[fn__int_print(wanted, limit)] = 0;
      return fn__raise(&call->report, "EXCEED_LIMIT_LENGTH", "limit", limit, NULL);
    }
    fn__append(&call->out, text.data, text.size);
    if (fill) append_padding(&call->out, (fn_text){" ", 1}, wanted - size, true);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

/* ---- trimming ---- */
enum { BOTH, LEADING, TRAILING };
static bool in_set(fn_text set, fn_text c) {
  for (size_t at = 0; at < set.size;) {
    size_t size = fn__char_size((unsigned char)set.data[at]);
    if (size == c.size && at + size <= set.size && memcmp(set.data + at, c.data, size) == 0) return true;
    at += size;
  }
  return false;
}

static fn_text trim_set(fn_text text, fn_text set, int side) {
  while (side != TRAILING && text.size > 0) {
    size_t size = fn__char_size((unsigned char)text.data[0]);
    size = size > text.size ? text.size : size;
    if (!in_set(set, (fn_text){text.data, size})) break;
    text.data += size, text.size -= size;
  }
  while (side != LEADING && text.size > 0) {
    size_t size = 1;
    while (size < text.size && size < 4 && ((unsigned char)text.data[text.size - size] & 0xc0) == 0x80) size++;
    if (!in_set(set, (fn_text){text.data + text.size - size, size})) break;
    text.size -= size;
  }
  return text;
}

static trn_status trim(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text set = call->count > 1 ? text_at(call, 1, row) : (fn_text){" ", 1};
    fn_text text = trim_set(text_at(call, 0, row), set, call->function->op);
    fn__push(&call->out, text.data, text.size);
  }
  return TRN_OK;
}

/* ---- replacing ---- */
static trn_status replace(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), what = text_at(call, 1, row);
    fn_text with = call->count > 2 ? text_at(call, 2, row) : (fn_text){"", 0};
    size_t start = 0;
    if (what.size > 0)
      for (int64_t at = find_bytes(text, what, 0); at >= 0; at = find_bytes(text, what, start)) {
        fn__append(&call->out, text.data + start, (size_t)at - start);
        fn__append(&call->out, with.data, with.size);
        start = (size_t)at + what.size;
      }
    fn__append(&call->out, text.data + start, text.size - start);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static trn_status translate(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), from = text_at(call, 1, row), to = text_at(call, 2, row);
    for (size_t at = 0, size; at < text.size; at += size) {
      size = fn__char_size((unsigned char)text.data[at]);
      size = at + size > text.size ? text.size - at : size;
      int64_t index = 0;
      size_t f = 0;
      for (; f < from.size; index++) {
        size_t width = fn__char_size((unsigned char)from.data[f]);
        if (width == size && f + width <= from.size && memcmp(from.data + f, text.data + at, size) == 0) break;
        f += width;
      }
      if (f >= from.size) {
        fn__append(&call->out, text.data + at, size);
        continue;
      }
      size_t t = fn__char_offset(to, index);
      if (t < to.size) {
        size_t width = fn__char_size((unsigned char)to.data[t]);
        fn__append(&call->out, to.data + t, t + width > to.size ? to.size - t : width);
      }
    }
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static trn_status overlay(fn_call *call) {
  bool binary = call->columns[0].type.kind == FN_BINARY;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row), with = text_at(call, 1, row);
    int64_t at = int_at(call, 2, row), count = call->count > 3 ? int_at(call, 3, row) : -1;
    if (count < 0) count = binary ? (int64_t)with.size : fn__char_count(with);
    /* substringSQL(1, at - 1) + with + substringSQL(at + count, max) */
    int64_t tail = at + count, size = binary ? (int64_t)text.size : fn__char_count(text);
    int64_t start = tail > 0 ? tail - 1 : tail < 0 ? size + tail : 0;
    fn_text head = binary ? slice_bytes(text, 0, at - 1) : slice_chars(text, 0, at - 1);
    fn_text rest = binary ? slice_bytes(text, start, INT32_MAX) : slice_chars(text, start, INT32_MAX);
    fn__append(&call->out, head.data, head.size);
    fn__append(&call->out, with.data, with.size);
    fn__append(&call->out, rest.data, rest.size);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

trn_status fn__reverse_text(fn_call *call) {
  bool binary = call->columns[0].type.kind == FN_BINARY;
  EACH_TEXT_ROW(call, row) {
    fn_text text = text_at(call, 0, row);
    char *room = fn__reserve(&call->out, text.size);
    if (!room) return TRN_OK;
    for (size_t at = 0, size; at < text.size; at += size) {
      size = binary ? 1 : fn__char_size((unsigned char)text.data[at]);
      size = at + size > text.size ? text.size - at : size;
      memcpy(room + text.size - at - size, text.data + at, size);
    }
    fn__push_end(&call->out, text.size);
  }
  return TRN_OK;
}

/* ---- numbers out of texts ---- */
enum { LENGTH, OCTETS, BITS, ASCII };
static trn_status measure(fn_call *call) {
  int op = call->function->op;
  bool binary = call->columns[0].type.kind == FN_BINARY;
  int32_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    fn_text text = text_at(call, 0, row);
    size_t size;
    if (fn__row_is_null(&call->out, row))
      out[row] = 0;
    else if (op == ASCII)
      out[row] = text.size == 0 ? 0 : (int32_t)fn__char_decode(text, &size);
    else
      out[row] = op == LENGTH && !binary ? (int32_t)fn__char_count(text) : (int32_t)text.size * (op == BITS ? 8 : 1);
  }
  return TRN_OK;
}

/* instr(text, what); locate(what, text, start): the same with a start, 0 when that is below 1. */
static trn_status locate(fn_call *call) {
  bool is_locate = call->function->op;
  int32_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    out[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text what = text_at(call, is_locate ? 0 : 1, row), text = text_at(call, is_locate ? 1 : 0, row);
    int64_t start = call->count > 2 ? int_at(call, 2, row) : 1;
    if (start < 1) continue;
    size_t from = fn__char_offset(text, start - 1);
    if (from == text.size && start - 1 > fn__char_count(text)) continue;
    int64_t at = what.size == 0 && is_locate ? (int64_t)from : find_bytes(text, what, from);
    if (at >= 0) out[row] = (int32_t)fn__char_count((fn_text){text.data, (size_t)at}) + 1;
  }
  return TRN_OK;
}

enum { STARTS, ENDS, CONTAINS };
static trn_status match_text(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    fn_text text = text_at(call, 0, row), what = text_at(call, 1, row);
    bool found = what.size <= text.size;
    if (found && call->function->op == CONTAINS)
      found = find_bytes(text, what, 0) >= 0;
    else if (found)
      found = memcmp(call->function->op == STARTS ? text.data : text.data + text.size - what.size, what.data,
                     what.size) == 0;
    fn__set_bool(&call->out, row, found);
  }
  return TRN_OK;
}

/* Code points 0..255 of the number's last byte; nothing for negative numbers. */
static trn_status chr(fn_call *call) {
  EACH_TEXT_ROW(call, row) {
    char text[4];
    int64_t value = fn__get_i64(&call->columns[0], row);
    fn__push(&call->out, text, value < 0 ? 0 : fn__char_encode((uint32_t)(value & 0xff), text));
  }
  return TRN_OK;
}

/* ---- binding ---- */
#define FIRST (call->columns[0].type)
#define STRING fn__type(FN_STRING)
#define INT fn__type(FN_INT32)
#define BOOL fn__type(FN_BOOL)
FN_BIND(substring, "ti|i", FIRST)
FN_BIND(text_int, "ti", FIRST)
FN_BIND(string_int, "si", STRING)
FN_BIND(index, "ssi", STRING)
FN_BIND(int, "i", STRING)
FN_BIND(pad, "ti|t", FIRST)
FN_BIND(trim, "s|s", STRING)
FN_BIND(replace, "ss|s", STRING)
FN_BIND(translate, "sss", STRING)
FN_BIND(overlay, "tti|i", FIRST)
FN_BIND(measure, "t", INT)
FN_BIND(ascii, "s", INT)
FN_BIND(instr, "ss", INT)
FN_BIND(locate, "ss|i", INT)
FN_BIND(match, "tt", BOOL)
FN_BIND(chr, "l", STRING)

static trn_status bind_concat(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  for (size_t i = 0; i < call->count; i++)
    if (call->columns[i].type.kind != call->columns[0].type.kind ||
        !(call->columns[i].type.kind == FN_STRING || call->columns[i].type.kind == FN_BINARY))
      return fn__mismatch(call);
  *out = fn__type(call->count && call->columns[0].type.kind == FN_BINARY ? FN_BINARY : FN_STRING);
  return TRN_OK;
}

static trn_status bind_concat_ws(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  for (size_t i = 0; i < call->count; i++) {
    fn_type element = call->columns[i].type;
    if (i > 0 && element.kind == FN_LIST && !fn__type_read(element.schema->children[0], &element))
      return fn__mismatch(call);
    if (element.kind != FN_STRING) return fn__mismatch(call);
  }
  *out = fn__type(FN_STRING);
  return call->count ? TRN_OK : fn__mismatch(call);
}

#define STRICT(name, flags, op, bind, kernel)                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind, kernel }
const fn_scalar fn__string_table[] = {
    STRICT("substring", 0, 0, bind_substring, substring),
    STRICT("substring_index", 0, 0, bind_index, substring_index),
    STRICT("left", 0, 0, bind_text_int, left_right),
    STRICT("right", 0, 1, bind_text_int, left_right),
    STRICT("split_part", FN_POSITION, 0, bind_index, split_part),
    STRICT("concat", 0, 0, bind_concat, concat),
    {"trn.concat_ws", TRN_IMMUTABLE, 0, 0, bind_concat_ws, concat_ws},
    STRICT("repeat", 0, 0, bind_string_int, repeat),
    STRICT("space", 0, 0, bind_int, space),
    STRICT("lpad", 0, 0, bind_pad, pad),
    STRICT("rpad", 0, 1, bind_pad, pad),
    STRICT("char_pad", 0, 0, bind_string_int, char_pad),
    STRICT("varchar_cut", 0, 1, bind_string_int, char_pad),
    STRICT("trim", 0, BOTH, bind_trim, trim),
    STRICT("ltrim", 0, LEADING, bind_trim, trim),
    STRICT("rtrim", 0, TRAILING, bind_trim, trim),
    STRICT("replace", 0, 0, bind_replace, replace),
    STRICT("translate", 0, 0, bind_translate, translate),
    STRICT("overlay", 0, 0, bind_overlay, overlay),
    STRICT("length", 0, LENGTH, bind_measure, measure),
    STRICT("octet_length", 0, OCTETS, bind_measure, measure),
    STRICT("bit_length", 0, BITS, bind_measure, measure),
    STRICT("ascii", 0, ASCII, bind_ascii, measure),
    STRICT("instr", 0, 0, bind_instr, locate),
    STRICT("locate", 0, 1, bind_locate, locate),
    STRICT("startswith", 0, STARTS, bind_match, match_text),
    STRICT("endswith", 0, ENDS, bind_match, match_text),
    STRICT("contains", 0, CONTAINS, bind_match, match_text),
    STRICT("chr", 0, 0, bind_chr, chr),
    {NULL},
};
