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

/* A value: as it stands from start to end; or quoted from start to stop (which is its end or, where a quote that is not
 * escaped stands inside, the place of that quote: then it goes on as it stands, and its first quote belongs to it). */
typedef struct value {
  size_t start, stop, end;
  bool quoted, open; /* open: the quotes do not end */
} value;

static value value_at(const dialect *d, fn_text text, size_t at) {
  value v = {at, at, at, false, false};
  v.quoted = d->quote && at < text.size && text.data[at] == d->quote;
  if (v.quoted) {
    size_t i = at + 1;
    for (; i < text.size; i++) {
      bool doubled = d->escape == d->quote && text.data[i] == d->quote && i + 1 < text.size && text.data[i + 1] == d->quote;
      if (doubled || (text.data[i] == d->escape && d->escape != d->quote && i + 1 < text.size)) i++;
      else if (text.data[i] == d->quote) break;
    }
    v.open = i >= text.size;
    v.stop = v.end = v.open ? text.size : i;
    if (v.open) return v;
    if (i + 1 == text.size || at_separator(d, text, i + 1)) {
      v.end = i + 1;
      return v;
    }
  }
  while (v.end < text.size && !at_separator(d, text, v.end)) v.end++;
  return v;
}

/* The value as univocity gives it. */
static bool put_value(fn_bytes *out, const dialect *d, fn_text text, const value *v) {
  bool whole = v->open || v->end == v->stop + 1;
  bool good = whole || fn__bytes_append(out, &d->quote, 1);
  for (size_t i = v->start + 1; i < v->stop && good; i++) {
    bool escaped = text.data[i] == d->escape && i + 1 < v->stop && (text.data[i + 1] == d->quote || text.data[i + 1] == d->escape);
    i += escaped;
    good = fn__bytes_append(out, text.data + i, 1);
  }
  return good && (whole || fn__bytes_append(out, text.data + v->stop, v->end - v->stop));
}

static char first_of(const fn_column *column) {
  fn_text text = fn__is_null(column, 0) ? (fn_text){"", 0} : fn__get_text(column, 0);
  return text.size ? text.data[0] : 0;
}

static trn_status csv_field(fn_call *call) {
  const fn_column *c = call->columns;
  fn_bytes made = {0};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__get_text(&c[0], row);
    dialect d = {fn__get_text(&c[2], row), first_of(&c[3]), first_of(&c[4])};
    int32_t wanted = fn__get_i32(&c[1], row);
    value v = value_at(&d, text, 0);
    bool there = true;
    for (int32_t i = 0; i < wanted && there; i++) {
      there = at_separator(&d, text, v.end);
      if (there) v = value_at(&d, text, v.end + d.separator.size);
    }
    fn_text found = {text.data + v.start, there ? v.end - v.start : 0};
    made.size = 0;
    good = !v.quoted || !there || put_value(&made, &d, text, &v);
    if (v.quoted && there) found = (fn_text){made.data, made.size};
    if (found.size == 0) fn__push_null(&call->out);
    else fn__push(&call->out, found.data, found.size);
  }
  fn__bytes_clear(&made);
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
    if (!fn__row_is_null(&call->out, row)) {
      fn_text text = fn__get_text(&c[0], row);
      dialect d = {fn__get_text(&c[1], row), first_of(&c[2]), first_of(&c[3])};
      size_t end = value_at(&d, text, 0).end;
      for (; at_separator(&d, text, end); count++) end = value_at(&d, text, end + d.separator.size).end;
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
