/* What the columns of CSV files are, as Spark's CSVInferSchema finds it: a type that grows with each value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "frontend/spark/translate/infer.h"

typedef enum guess {
  GUESS_NULL = 0,
  GUESS_INT,
  GUESS_LONG,
  GUESS_DECIMAL,
  GUESS_DOUBLE,
  GUESS_DATE,
  GUESS_TIMESTAMP,
  GUESS_BOOLEAN,
  GUESS_STRING
} guess;

typedef struct column {
  const char *name;
  guess type;
  int digits; /* of a decimal */
} column;

typedef struct inference {
  spark_translator *t;
  const spark_text_options *options;
  column *columns;
  size_t count;
  char *cell; /* a value without its quotes */
  size_t room;
  trn_error **error;
} inference;

/* ---- cells of a record ---- */

static bool at_separator(const inference *n, const char *text, size_t size, size_t at) {
  size_t length = strlen(n->options->separator);
  return at + length <= size && memcmp(text + at, n->options->separator, length) == 0;
}

/* Where the quotes of the value at `at` end, or where a quote that is not escaped stands inside; size: they do not end. */
static size_t quoted_end(const inference *n, const char *text, size_t size, size_t at) {
  char quote = n->options->quote, escape = n->options->escape;
  size_t i = at + 1;
  for (; i < size; i++) {
    bool doubled = escape == quote && text[i] == quote && i + 1 < size && text[i + 1] == quote;
    if (doubled || (text[i] == escape && escape != quote && i + 1 < size)) i++;
    else if (text[i] == quote) break;
  }
  return i < size ? i : size;
}

/* The next cell from *at on; *at: behind it. A quote inside that is not escaped belongs to it, as the first one then does,
 * up to the separator. False: out of memory. */
static bool next_cell(inference *n, const char *text, size_t size, size_t *at, const char **cell, size_t *cell_size) {
  size_t start = *at, end = start, length = 0;
  bool quoted = n->options->quote && start < size && text[start] == n->options->quote;
  size_t stop = quoted ? quoted_end(n, text, size, start) : start;
  bool whole = quoted && (stop == size || stop + 1 == size || at_separator(n, text, size, stop + 1));
  if (whole) end = stop < size ? stop + 1 : size;
  else
    for (end = stop; end < size && !at_separator(n, text, size, end);) end++;
  *at = end;
  *cell = text + start, *cell_size = end - start;
  if (!whole) return true; /* what its type is, and a name, do not depend on escapes before such a quote */
  if (n->room < end - start) {
    char *larger = realloc(n->cell, end - start);
    if (!larger) return false;
    n->cell = larger, n->room = end - start;
  }
  for (size_t i = start + 1; i < stop; i++) {
    bool escaped = i + 1 < stop && text[i] == n->options->escape && (text[i + 1] == n->options->quote || text[i + 1] == n->options->escape);
    n->cell[length++] = text[escaped ? ++i : i];
  }
  *cell = n->cell ? n->cell : "", *cell_size = length;
  return true;
}

/* Empty lines and comments are no records. */
static bool next_record(inference *n, spark_records *records, const char **text, size_t *size) {
  do {
    if (!spark__records_next(records, text, size)) return false;
  } while (!*size || (n->options->comment && (*text)[0] == n->options->comment));
  return true;
}

/* ---- types of values ---- */

static bool is_integer(const char *s, size_t size, int64_t *out) {
  char text[24], *end;
  if (!size || size > 20) return false;
  for (size_t i = *s == '-' || *s == '+'; i < size; i++)
    if (s[i] < '0' || s[i] > '9') return false;
  if (size == 1 && (*s == '-' || *s == '+')) return false;
  memcpy(text, s, size), text[size] = 0;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return errno == 0;
}

/* A whole number of up to 38 digits; its digits, else 0. */
static int whole_digits(const char *s, size_t size) {
  size_t i = size && (*s == '-' || *s == '+'), first;
  while (i + 1 < size && s[i] == '0') i++;
  for (first = i; i < size; i++)
    if (s[i] < '0' || s[i] > '9') return 0;
  return i > first && i - first <= 38 ? (int)(i - first) : 0;
}

/* As Java reads a double: blanks around it, and d or f behind it. */
static bool is_double(const char *s, size_t size) {
  char text[400], *end;
  while (size && (unsigned char)*s <= ' ') s++, size--;
  while (size && (unsigned char)s[size - 1] <= ' ') size--;
  if (!size || size >= sizeof text) return false;
  memcpy(text, s, size), text[size] = 0;
  const char *plain = text + (*text == '-' || *text == '+');
  if (!strcmp(plain, "Infinity") || !strcmp(plain, "NaN") || !strcmp(text, "Inf") || !strcmp(text, "-Inf")) return true;
  if (!((*plain >= '0' && *plain <= '9') || *plain == '.') || plain[1] == 'x' || plain[1] == 'X') return false;
  strtod(text, &end);
  if (end == text) return false;
  if (*end && strchr("dDfF", *end)) end++;
  return !*end;
}

static bool is_date(const inference *n, const char *s, size_t size) {
  int64_t days;
  if (n->options->date_format && strcmp(n->options->date_format, "yyyy-MM-dd") != 0) return false;
  return size == 10 && s[4] == '-' && s[7] == '-' && spark__parse_date(s, size, &days);
}

static bool is_timestamp(const inference *n, const char *s, size_t size) {
  int64_t micros, offset;
  char whole[96];
  if (n->options->timestamp_format || size >= 64) return false;
  if (spark__parse_timestamp(s, size, &micros, &offset)) return true;
  /* A time alone is one of today; an hour may stand without minutes. */
  bool time_only = size && (*s == 'T' || (size > 2 && (s[1] == ':' || s[2] == ':')));
  int made = time_only ? snprintf(whole, sizeof whole, "2000-01-01 %.*s", (int)(size - (*s == 'T')), s + (*s == 'T'))
                       : snprintf(whole, sizeof whole, "%.*s:00", (int)size, s);
  return made > 0 && (time_only || size >= 12) && spark__parse_timestamp(whole, (size_t)made, &micros, &offset);
}

/* The type of one value, tried from `from` on. */
static guess type_of(const inference *n, guess from, const char *s, size_t size, int *digits) {
  int64_t number;
  if (from <= GUESS_LONG && is_integer(s, size, &number) && (from != GUESS_LONG || true))
    return from <= GUESS_INT && number >= INT32_MIN && number <= INT32_MAX ? GUESS_INT : GUESS_LONG;
  if (from <= GUESS_DECIMAL && (*digits = whole_digits(s, size))) return GUESS_DECIMAL;
  if (from <= GUESS_DOUBLE && is_double(s, size)) return GUESS_DOUBLE;
  if (from <= GUESS_DATE && is_date(n, s, size)) return GUESS_DATE;
  if (from <= GUESS_TIMESTAMP && is_timestamp(n, s, size)) return GUESS_TIMESTAMP;
  if (from <= GUESS_BOOLEAN && ((size == 4 && !strncasecmp(s, "true", 4)) || (size == 5 && !strncasecmp(s, "false", 5))))
    return GUESS_BOOLEAN;
  return GUESS_STRING;
}

/* What holds both. */
static guess wider(guess a, guess b) {
  if (a == b || a == GUESS_NULL) return b;
  if (b == GUESS_NULL) return a;
  guess low = a < b ? a : b, high = a < b ? b : a;
  if (high <= GUESS_DOUBLE) return high;
  return low == GUESS_DATE && high == GUESS_TIMESTAMP ? GUESS_TIMESTAMP : GUESS_STRING;
}

static void grow(const inference *n, column *c, const char *s, size_t size) {
  int digits = 0;
  size_t null = strlen(n->options->null_value);
  if (!size || (size == null && memcmp(s, n->options->null_value, null) == 0) || c->type == GUESS_STRING) return;
  guess found = type_of(n, c->type, s, size, &digits);
  guess merged = wider(c->type, found);
  if (merged == GUESS_DECIMAL) { /* what was an integer has up to 10 or 20 digits */
    int before = c->type == GUESS_DECIMAL ? c->digits : c->type == GUESS_INT ? 10 : c->type == GUESS_LONG ? 20 : 0;
    c->digits = digits > before ? digits : before;
  }
  c->type = merged;
}

/* ---- the head ---- */

static bool is_duplicate(const inference *n, char *const *names, size_t count, size_t index) {
  for (size_t i = 0; i < count; i++)
    if (i != index && spark__name_equal(n->t, names[i], names[index])) return true;
  return false;
}

static trn_status name_columns(inference *n, const char *text, size_t size) {
  trn_vec cells = {0};
  trn_status status = TRN_OK;
  for (size_t at = 0;; at += strlen(n->options->separator)) {
    const char *cell;
    size_t cell_size;
    char *copy = NULL;
    if (next_cell(n, text, size, &at, &cell, &cell_size)) copy = trn__arena_str(n->t->arena, cell, cell_size);
    if (!copy || !trn__vec_push(&cells, copy)) {
      status = trn__no_memory(n->error);
      break;
    }
    if (!at_separator(n, text, size, at)) break;
  }
  n->count = cells.count;
  n->columns = status ? NULL : TRN_NEW_N(n->t->arena, column, n->count);
  if (!status && !n->columns) status = trn__no_memory(n->error);
  for (size_t i = 0; !status && i < n->count; i++) {
    char *const *names = (char *const *)cells.items;
    bool unnamed = !n->options->header || !*names[i] || strcmp(names[i], n->options->null_value) == 0;
    n->columns[i].name = unnamed                                  ? trn__arena_printf(n->t->arena, "_c%zu", i)
                         : is_duplicate(n, names, n->count, i) ? trn__arena_printf(n->t->arena, "%s%zu", names[i], i)
                                                               : names[i];
    if (!n->columns[i].name) status = trn__no_memory(n->error);
  }
  trn__vec_finish(&cells);
  return status;
}

/* ---- the whole ---- */

static bool look_at(inference *n, const char *text, size_t size) {
  size_t at = 0;
  for (size_t i = 0; i < n->count; i++) {
    const char *cell;
    size_t cell_size;
    if (!next_cell(n, text, size, &at, &cell, &cell_size)) return false;
    grow(n, &n->columns[i], cell, cell_size);
    if (!at_separator(n, text, size, at)) break;
    at += strlen(n->options->separator);
  }
  return true;
}

static trn_status look_at_file(inference *n, const char *path) {
  spark_records records;
  const char *text;
  size_t size;
  trn_status status = TRN_OK;
  bool open = spark__records_open(&records, path, n->options, n->options->multi_line ? SPARK_CUT_CSV : SPARK_CUT_LINES), enough = false;
  for (bool first = true; open && !status && !enough && next_record(n, &records, &text, &size); first = false) {
    if (!n->columns) status = name_columns(n, text, size);
    enough = !n->options->infer;
    if ((first && n->options->header) || enough) continue;
    if (!status && !look_at(n, text, size)) status = trn__no_memory(n->error);
    if (!status && n->t->is_cancelled && n->t->is_cancelled(n->t->cancel_user))
      status = trn_error_set(n->error, TRN_CANCELLED, NULL, "The query was cancelled");
  }
  if (!status) status = spark__records_status(n->t, &records, path, n->error);
  spark__records_close(&records);
  return status;
}

static const trn_type *final_type(inference *n, const column *c) {
  switch (c->type) {
  case GUESS_INT: return trn__type(TRN_TYPE_INT32);
  case GUESS_LONG: return trn__type(TRN_TYPE_INT64);
  case GUESS_DECIMAL: return trn__type_decimal(n->t->arena, c->digits, 0);
  case GUESS_DOUBLE: return trn__type(TRN_TYPE_FLOAT64);
  case GUESS_DATE: return trn__type(TRN_TYPE_DATE);
  case GUESS_TIMESTAMP: return trn__type(TRN_TYPE_TIMESTAMP);
  case GUESS_BOOLEAN: return trn__type(TRN_TYPE_BOOL);
  default: return trn__type(TRN_TYPE_STRING);
  }
}

trn_status spark__infer_csv(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                            const trn_type **out, trn_error **error) {
  inference n = {.t = t, .options = options, .error = error};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < files->count && !status; i++) {
    status = look_at_file(&n, files->items[i]);
    if (!options->infer && n.columns) break;
  }
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, n.count);
  if (!status && !fields) status = trn__no_memory(error);
  for (size_t i = 0; !status && i < n.count; i++) {
    fields[i] = (trn_field){.name = n.columns[i].name, .type = final_type(&n, &n.columns[i]), .nullable = true};
    if (!fields[i].type) status = trn__no_memory(error);
  }
  if (!status && !(*out = trn__type_struct(t->arena, fields, n.count))) status = trn__no_memory(error);
  free(n.cell);
  return status;
}
