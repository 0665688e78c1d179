/* CSV of one line, as univocity reads and writes it with Spark's settings: csv_field(text, index, separator, quote,
 * escape), csv_quote(text, separator, all). */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include <string.h>

typedef struct dialect {
  fn_text separator;
  char quote, escape; /* quote 0: none */
} dialect;

static bool at_separator(const dialect *d, fn_text text, size_t at) {
  return d->separator.size && at + d->separator.size <= text.size &&
         memcmp(text.data + at, d->separator.data, d->separator.size) == 0;
}

/* The end of the quoted value whose quote is at `at`: behind the closing quote, which a separator or the end follows;
 * or 0, and then the quote is as any other character. */
static size_t quoted_end(const dialect *d, fn_text text, size_t at) {
  for (size_t i = at + 1; i < text.size; i++) {
    if (text.data[i] == d->escape && d->escape != d->quote && i + 1 < text.size)
      i++;
    else if (text.data[i] == d->quote && (i + 1 == text.size || at_separator(d, text, i + 1)))
      return i + 1;
  }
  return 0;
}

static size_t field_end(const dialect *d, fn_text text, size_t at, bool *quoted) {
  size_t end = at < text.size && d->quote && text.data[at] == d->quote ? quoted_end(d, text, at) : 0;
  *quoted = end != 0;
  if (end) return end;
  while (at < text.size && !at_separator(d, text, at)) at++;
  return at;
}

/* A quote inside of quotes that is doubled or escaped. */
static bool put_quoted(fn_bytes *out, const dialect *d, fn_text text) {
  bool doubled = false;
  for (size_t i = 0; i < text.size; i++) doubled |= text.data[i] == d->quote && (i == 0 || text.data[i - 1] != d->escape);
  if (doubled) { /* univocity gives such a value back with its quotes */
    return fn__bytes_append(out, &d->quote, 1) && fn__bytes_append(out, text.data, text.size) &&
           fn__bytes_append(out, &d->quote, 1);
  }
  for (size_t i = 0; i < text.size; i++) {
    bool escaped = text.data[i] == d->escape && i + 1 < text.size &&
                   (text.data[i + 1] == d->quote || text.data[i + 1] == d->escape);
    if (!fn__bytes_append(out, text.data + i + escaped, 1)) return false;
    i += escaped;
  }
  return true;
}

static char first_of(const fn_column *column) {
  fn_text text = fn__is_null(column, 0) ? (fn_text){"", 0} : fn__get_text(column, 0);
  return text.size ? text.data[0] : 0;
}

static trn_status csv_field(fn_call *call) {
  const fn_column *c = call->columns;
  fn_bytes value = {0};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__get_text(&c[0], row);
    dialect d = {fn__get_text(&c[2], row), first_of(&c[3]), first_of(&c[4])};
    int32_t wanted = fn__get_i32(&c[1], row);
    bool quoted = false, there = true;
    size_t at = 0, end = field_end(&d, text, 0, &quoted);
    for (int32_t i = 0; i < wanted && there; i++) {
      there = at_separator(&d, text, end);
      if (!there) break;
      at = end + d.separator.size;
      end = field_end(&d, text, at, &quoted);
    }
    fn_text found = {text.data + at + quoted, there ? end - at - 2 * (size_t)quoted : 0};
    value.size = 0;
    good = !quoted || put_quoted(&value, &d, found);
    if (quoted) found = (fn_text){value.data, value.size};
    if (!there || found.size == 0)
      fn__push_null(&call->out);
    else
      fn__push(&call->out, found.data, found.size);
  }
  fn__bytes_clear(&value);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

/* ---- writing ---- */
static bool needs_quotes(fn_text text, fn_text separator) {
  if (text.size == 0 || text.data[0] == '#') return true;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == '"' || c == '\n' || c == '\r') return true;
    if (separator.size && i + separator.size <= text.size && memcmp(text.data + i, separator.data, separator.size) == 0)
      return true;
  }
  return false;
}

/* How many values a line has. */
static trn_status csv_count(fn_call *call) {
  const fn_column *c = call->columns;
  for (int64_t row = 0; row < call->rows; row++) {
    int32_t count = 1;
    bool quoted;
    if (!fn__row_is_null(&call->out, row)) {
      fn_text text = fn__get_text(&c[0], row);
      dialect d = {fn__get_text(&c[1], row), first_of(&c[2]), first_of(&c[3])};
      size_t end = field_end(&d, text, 0, &quoted);
      for (; at_separator(&d, text, end); count++) end = field_end(&d, text, end + d.separator.size, &quoted);
    }
    ((int32_t *)call->out.data)[row] = count;
  }
  return TRN_OK;
}

static trn_status csv_quote(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__get_text(&call->columns[0], row), separator = fn__get_text(&call->columns[1], row);
    while (text.size && (unsigned char)text.data[0] <= ' ') text.data++, text.size--;
    while (text.size && (unsigned char)text.data[text.size - 1] <= ' ') text.size--;
    if (!fn__get_bool(&call->columns[2], row) && !needs_quotes(text, separator)) {
      fn__push(&call->out, text.data, text.size);
      continue;
    }
    fn__append(&call->out, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
      if (text.data[i] == '"') fn__append(&call->out, "\\", 1);
      fn__append(&call->out, text.data + i, 1);
    }
    fn__append(&call->out, "\"", 1);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

FN_BIND(field, "sisss", fn__type(FN_STRING))
FN_BIND(quote, "ssb", fn__type(FN_STRING))
FN_BIND(count, "ssss", fn__type(FN_INT32))

const fn_scalar fn__csv_table[] = {
    {"trn.csv_field", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_field, csv_field},
    {"trn.csv_count", TRN_IMMUTABLE, FN_STRICT, 0, bind_count, csv_count},
    {"trn.csv_quote", TRN_IMMUTABLE, FN_STRICT, 0, bind_quote, csv_quote},
    {NULL},
};
