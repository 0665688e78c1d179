/* Tests of the function library, table-driven: a row names a function, its arguments as text ("i|42", "d:5,2|1.50",
 * "u|abc", "D|2020-02-03"; "i|~" is null; a leading '=' keeps the argument a literal in every run) and the result.
 * Every row runs as scalars; as arrays with an offset, a slice's end, and nulls in every third row; and over no rows.
 * Values are read and shown here without help from the library. */
#ifndef TRN_TESTS_FUNCTIONS_HARNESS_H
#define TRN_TESTS_FUNCTIONS_HARNESS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those above */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trunnion/function.h>

/* The export has a typedef's name, so it is declared under another one. */
extern const trn_function_library *h_library(void) __asm__("trn_function_library");
__extension__ typedef __int128 h_i128;

#define H_ARGS_MAX 8
#define H_ROWS 67
#define H_OFFSET 5

typedef struct h_row {
  const char *name, *result; /* result: "i|3", "~" any null, "!CONDITION" */
  const char *args[H_ARGS_MAX];
} h_row;

typedef struct h_error {
  trn_status status;
  char condition[128], message[256], params[2048];
  int64_t position;
} h_error;

static inline void h_fail(void *self, trn_status status, const char *condition, const char *message) {
  h_error *e = self;
  memset(e, 0, sizeof *e);
  e->status = status;
  e->position = -2;
  snprintf(e->condition, sizeof e->condition, "%s", condition ? condition : "");
  snprintf(e->message, sizeof e->message, "%s", message ? message : "");
}
static inline void h_param(void *self, const char *key, const char *value, size_t size) {
  h_error *e = self;
  size_t used = strlen(e->params);
  snprintf(e->params + used, sizeof e->params - used, "%s=%.*s;", key, (int)size, value);
}
static inline void h_position(void *self, int64_t position) {
  ((h_error *)self)->position = position;
}
static inline trn_function_error h_sink(h_error *e) {
  memset(e, 0, sizeof *e);
  return (trn_function_error){sizeof(trn_function_error), e, h_fail, h_param, h_position};
}

/* ---- building ---- */
typedef struct h_array {
  struct ArrowSchema schema, child_schema;
  struct ArrowArray array, child;
  struct ArrowSchema *schema_children[1];
  struct ArrowArray *array_children[1];
  const void *buffers[3], *child_buffers[3];
  char format[32], child_format[32];
} h_array;

static inline const char *h_format(const char *type, char *out) {
  static const char *const SHORT[][2] = {{"D", "tdD"}, {"T", "tsu:UTC"}, {"N", "tsu:"},
                                         {"t", "ttn"}, {"Y", "tiM"},     {"I", "tDu"}};
  const char *end = strchr(type, '|');
  size_t size = end ? (size_t)(end - type) : strlen(type);
  snprintf(out, 32, "%.*s", (int)size, type);
  if (out[0] == 'L') return strcpy(out, "+l");
  for (size_t i = 0; i < sizeof SHORT / sizeof SHORT[0]; i++)
    if (strcmp(out, SHORT[i][0]) == 0) return strcpy(out, SHORT[i][1]);
  return out;
}

static inline int h_width(const char *format) {
  if (format[0] == 'd') return 16;
  if (format[0] == 't')
    return strcmp(format, "tdD") == 0 || strcmp(format, "tiM") == 0 ? 4 : strcmp(format, "tin") == 0 ? 16 : 8;
  switch (format[0]) {
  case 'c': return 1;
  case 's': return 2;
  case 'i':
  case 'f': return 4;
  case 'l':
  case 'g': return 8;
  default: return 0;
  }
}

static inline h_i128 h_decimal(const char *text) {
  h_i128 value = 0;
  bool negative = *text == '-';
  for (text += negative; *text; text++)
    if (*text != '.') value = value * 10 + (*text - '0');
  return negative ? -value : value;
}

static inline int64_t h_time(const char *text) { /* "yyyy-mm-dd[ hh:mm:ss[.ffffff]]" to microseconds */
  struct tm tm = {0};
  int year, month, day, hour = 0, minute = 0, second = 0, micro = 0;
  char fraction[8] = "000000";
  int got = sscanf(text, "%d-%d-%d %d:%d:%d.%6[0-9]", &year, &month, &day, &hour, &minute, &second, fraction);
  assert_true(got >= 3);
  for (size_t i = strlen(fraction); i < 6; i++) fraction[i] = '0';
  micro = got == 7 ? atoi(fraction) : 0;
  tm.tm_year = year - 1900, tm.tm_mon = month - 1, tm.tm_mday = day, tm.tm_hour = hour, tm.tm_min = minute,
  tm.tm_sec = second;
  return (int64_t)timegm(&tm) * 1000000 + micro;
}

static inline void h_put(const char *format, char *at, const char *text) {
  int width = h_width(format);
  if (format[0] == 'd') {
    h_i128 value = h_decimal(text);
    memcpy(at, &value, 16);
  } else if (format[0] == 'g') {
    double value = strtod(text, NULL);
    memcpy(at, &value, 8);
  } else if (format[0] == 'f') {
    float value = strtof(text, NULL);
    memcpy(at, &value, 4);
  } else {
    int64_t value = strcmp(format, "tdD") == 0        ? h_time(text) / 86400000000 - (h_time(text) % 86400000000 < 0)
                    : strncmp(format, "tsu:", 4) == 0 ? h_time(text)
                                                      : strtoll(text, NULL, 10);
    memcpy(at, &value, (size_t)width);
  }
}

/* `rows` copies of a value after `offset` others; null where every third row is (or the value itself is). */
static inline void h_fill(const char *format, const char *text, bool null, int64_t rows, int64_t offset, bool thirds,
                          const void **buffers, struct ArrowArray *array) {
  int64_t total = rows + offset + 3;
  size_t size = strlen(text);
  int width = h_width(format);
  uint8_t *valid = calloc((size_t)total / 8 + 2, 1);
  char *data = calloc((size_t)(total + 1) * 16, 1), *bytes = NULL;
  int64_t nulls = 0;
  if (format[0] == 'u' || format[0] == 'z') bytes = malloc((size + 1) * (size_t)total + 1);
  for (int64_t i = 0; i < total; i++) {
    bool gone = null || (thirds && i >= offset && (i - offset) % 3 == 1);
    nulls += gone && i >= offset && i < offset + rows;
    if (!gone) valid[i / 8] |= (uint8_t)(1u << (i % 8));
    if (width)
      h_put(format, data + i * width, text);
    else if (format[0] == 'b' && strcmp(text, "true") == 0)
      data[i / 8] |= (char)(1u << (i % 8));
    else if (bytes) {
      ((int32_t *)data)[i + 1] = (int32_t)((size_t)(i + 1) * size);
      memcpy(bytes + (size_t)i * size, text, size);
    }
  }
  bool is_null_type = format[0] == 'n';
  buffers[0] = nulls || null ? valid : NULL;
  if (!buffers[0]) free(valid);
  buffers[1] = data;
  buffers[2] = bytes;
  *array = (struct ArrowArray){.length = rows,
                               .null_count = is_null_type ? rows : nulls,
                               .offset = offset,
                               .n_buffers = is_null_type ? 0
                                            : bytes      ? 3
                                                         : 2,
                               .buffers = buffers};
}

static inline void h_build(const char *arg, int64_t rows, int64_t offset, bool thirds, h_array *out) {
  memset(out, 0, sizeof *out);
  const char *text = strchr(arg, '|');
  text = text ? text + 1 : "~";
  bool null = strcmp(text, "~") == 0;
  h_format(arg, out->format);
  out->schema = (struct ArrowSchema){.format = out->format, .name = "", .flags = ARROW_FLAG_NULLABLE};
  if (arg[0] != 'L') {
    h_fill(out->format, null ? (out->format[0] == 't' ? "1970-01-01" : "0") : text, null, rows, offset, thirds,
           out->buffers, &out->array);
    return;
  }
  /* "Li|1,~,3": every row the same elements */
  h_format(arg + 1, out->child_format);
  char copy[256], *save = NULL;
  int64_t count = 0, total = rows + offset + 3;
  snprintf(copy, sizeof copy, "%s", null ? "" : text);
  const char *elements[32];
  for (char *e = strtok_r(copy, ",", &save); e; e = strtok_r(NULL, ",", &save)) elements[count++] = e;
  char *data = calloc((size_t)(total * count + 1) * 16, 1), *bytes = malloc(65536);
  int32_t used = 0, *text_offsets = (int32_t *)data, *offsets = calloc((size_t)total + 1, 4);
  uint8_t *valid = calloc((size_t)(total * count) / 8 + 1, 1), *list_valid = calloc((size_t)total / 8 + 1, 1);
  bool is_text = out->child_format[0] == 'u';
  for (int64_t i = 0; i < total * count; i++) {
    const char *e = elements[i % count];
    if (strcmp(e, "~") != 0) valid[i / 8] |= (uint8_t)(1u << (i % 8));
    if (is_text) {
      memcpy(bytes + used, e, strlen(e));
      used += (int32_t)strlen(e);
      text_offsets[i + 1] = used;
    } else {
      h_put(out->child_format, data + i * h_width(out->child_format), e);
    }
  }
  int64_t nulls = 0;
  for (int64_t i = 0; i < total; i++) {
    bool gone = null || (thirds && i >= offset && (i - offset) % 3 == 1);
    nulls += gone && i >= offset && i < offset + rows;
    if (!gone) list_valid[i / 8] |= (uint8_t)(1u << (i % 8));
    offsets[i + 1] = (int32_t)((i + 1) * count);
  }
  out->child_schema =
      (struct ArrowSchema){.format = out->child_format, .name = "element", .flags = ARROW_FLAG_NULLABLE};
  out->schema_children[0] = &out->child_schema;
  out->schema.n_children = 1;
  out->schema.children = out->schema_children;
  out->child_buffers[0] = valid, out->child_buffers[1] = data, out->child_buffers[2] = bytes;
  out->child = (struct ArrowArray){
      .length = total * count, .null_count = -1, .n_buffers = is_text ? 3 : 2, .buffers = out->child_buffers};
  out->array_children[0] = &out->child;
  out->buffers[0] = list_valid, out->buffers[1] = offsets;
  out->array = (struct ArrowArray){.length = rows,
                                   .null_count = nulls,
                                   .offset = offset,
                                   .n_buffers = 2,
                                   .buffers = out->buffers,
                                   .n_children = 1,
                                   .children = out->array_children};
}

static inline void h_free(h_array *a) {
  for (int i = 0; i < 3; i++) {
    free((void *)(uintptr_t)a->buffers[i]);
    free((void *)(uintptr_t)a->child_buffers[i]);
  }
}

/* ---- showing ---- */
static inline bool h_bit(const void *bits, int64_t i) {
  return ((const uint8_t *)bits)[i / 8] >> (i % 8) & 1;
}

static inline void h_show(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t row, char *out,
                          size_t size) {
  const char *f = schema->format;
  int64_t i = row + array->offset;
  if (f[0] == 'n' || (array->null_count != 0 && array->buffers[0] && !h_bit(array->buffers[0], i))) {
    snprintf(out, size, "~");
    return;
  }
  if (strcmp(f, "+l") == 0) {
    const int32_t *offsets = array->buffers[1];
    int used = snprintf(out, size, "[");
    for (int32_t e = offsets[i]; e < offsets[i + 1]; e++) {
      char one[256];
      h_show(schema->children[0], array->children[0], e, one, sizeof one);
      used += snprintf(out + used, size - (size_t)used, "%s%s", e > offsets[i] ? "," : "", one);
    }
    snprintf(out + used, size - (size_t)used, "]");
    return;
  }
  const char *data = array->buffers[1];
  int width = h_width(f);
  if (f[0] == 'b') {
    snprintf(out, size, "%s", h_bit(data, i) ? "true" : "false");
  } else if (f[0] == 'u') {
    const int32_t *offsets = (const int32_t *)data;
    snprintf(out, size, "%.*s", (int)(offsets[i + 1] - offsets[i]), (const char *)array->buffers[2] + offsets[i]);
  } else if (f[0] == 'z') {
    const int32_t *offsets = (const int32_t *)data;
    int used = 0;
    out[0] = 0;
    for (int32_t b = offsets[i]; b < offsets[i + 1] && (size_t)used + 3 < size; b++)
      used += snprintf(out + used, size - (size_t)used, "%02x", ((const unsigned char *)array->buffers[2])[b]);
  } else if (f[0] == 'g') {
    double value;
    memcpy(&value, data + i * 8, 8);
    snprintf(out, size, "%.17g", value);
  } else if (f[0] == 'f') {
    float value;
    memcpy(&value, data + i * 4, 4);
    snprintf(out, size, "%.9g", (double)value);
  } else if (f[0] == 'd') {
    h_i128 value;
    int precision, scale;
    char digits[64];
    int at = sizeof digits - 1, count = 0;
    sscanf(f, "d:%d,%d", &precision, &scale);
    memcpy(&value, data + i * 16, 16);
    bool negative = value < 0;
    digits[at] = 0;
    do {
      if (count == scale && scale > 0) digits[--at] = '.';
      int digit = (int)(value % 10);
      digits[--at] = (char)('0' + (digit < 0 ? -digit : digit));
      value /= 10;
      count++;
    } while (value || count <= scale);
    if (negative) digits[--at] = '-';
    snprintf(out, size, "%s", digits + at);
  } else {
    int64_t value = width == 1   ? *(const int8_t *)(data + i)
                    : width == 2 ? *(const int16_t *)(data + i * 2)
                    : width == 4 ? *(const int32_t *)(data + i * 4)
                                 : *(const int64_t *)(data + i * 8);
    if (strcmp(f, "tdD") == 0 || strncmp(f, "tsu:", 4) == 0) {
      bool date = f[2] == 'D';
      int64_t us = date ? value * 86400000000 : value, rest = us % 1000000;
      rest += rest < 0 ? 1000000 : 0;
      time_t seconds = (time_t)((us - rest) / 1000000);
      struct tm tm;
      gmtime_r(&seconds, &tm);
      int used = snprintf(out, size, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
      if (!date) used += snprintf(out + used, size - (size_t)used, " %02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
      if (rest) snprintf(out + used, size - (size_t)used, ".%06d", (int)rest);
    } else {
      snprintf(out, size, "%lld", (long long)value);
    }
  }
}

/* ---- running ---- */
static inline const trn_scalar_function *h_find(const char *name) {
  const trn_function_library *library = h_library();
  assert_int_equal(library->abi, TRN_FUNCTION_ABI);
  for (size_t i = 0; i < library->scalar_count; i++)
    if (strcmp(library->scalars[i]->name, name) == 0) return library->scalars[i];
  fail_msg("no function %s", name);
  return NULL;
}

/* Gives the shown values of all rows in `shown` (256 bytes each), or the error. `is_scalar`: all arguments are. */
static inline trn_status h_call(const char *name, const char *const *texts, size_t count, int64_t rows, bool is_scalar,
                                bool thirds, char *format, char (*shown)[256], int64_t *length, h_error *e) {
  const trn_scalar_function *function = h_find(name);
  trn_function_error error = h_sink(e);
  h_array arrays[H_ARGS_MAX];
  trn_function_arg bind_args[H_ARGS_MAX], args[H_ARGS_MAX];
  struct ArrowSchema schema;
  struct ArrowArray out;
  for (size_t i = 0; i < count; i++) {
    bool literal = texts[i][0] == '=';
    bool scalar = literal || is_scalar;
    h_build(texts[i] + literal, scalar ? 1 : rows, scalar ? 0 : H_OFFSET, thirds && !scalar, &arrays[i]);
    args[i] = (trn_function_arg){&arrays[i].schema, &arrays[i].array, scalar};
    bind_args[i] = args[i];
    if (!scalar) bind_args[i].array = NULL;
  }
  trn_status status = function->bind(function, bind_args, count, &schema, &error);
  *length = 0;
  if (status == TRN_OK) {
    snprintf(format, 64, "%s", schema.format);
    status = function->evaluate(function, args, count, rows, &out, &error);
    if (status == TRN_OK) {
      *length = out.length;
      for (int64_t row = 0; row < out.length; row++) h_show(&schema, &out, row, shown[row], sizeof shown[row]);
      bool has_null = false;
      for (int64_t row = 0; row < out.length; row++) has_null |= strcmp(shown[row], "~") == 0;
      if (has_null && !(schema.flags & ARROW_FLAG_NULLABLE))
        fail_msg("%s gives a null of a type that is not nullable", name);
      out.release(&out);
      assert_null(out.release);
    }
    schema.release(&schema);
  }
  for (size_t i = 0; i < count; i++) h_free(&arrays[i]);
  return status;
}

static inline void h_expect(const h_row *row, const char *run, trn_status status, const char *format, const char *shown,
                            const h_error *e) {
  char wanted_format[32], described[512] = "";
  for (size_t i = 0; i < H_ARGS_MAX && row->args[i]; i++)
    snprintf(described + strlen(described), sizeof described - strlen(described), "%s%s", i ? ", " : "", row->args[i]);
  if (row->result[0] == '!') {
    if (status == TRN_OK) fail_msg("%s(%s) %s: gave %s, not %s", row->name, described, run, shown, row->result);
    if (strncmp(e->condition, row->result + 1, strcspn(row->result + 1, "|")) != 0 ||
        (strchr(row->result, '|') && !strstr(e->params, strchr(row->result, '|') + 1)))
      fail_msg("%s(%s) %s: failed with %s {%s} %s, not %s", row->name, described, run, e->condition, e->params,
               e->message, row->result);
    return;
  }
  if (status != TRN_OK)
    fail_msg("%s(%s) %s: failed with %s {%s} %s, not %s", row->name, described, run, e->condition, e->params,
             e->message, row->result);
  const char *value = strchr(row->result, '|');
  if (value && strcmp(format, h_format(row->result, wanted_format)) != 0)
    fail_msg("%s(%s) %s: has type %s, not %s", row->name, described, run, format, wanted_format);
  value = value ? value + 1 : row->result;
  bool same = strcmp(value, shown) == 0;
  if (!same && (format[0] == 'g' || format[0] == 'f') && strcmp(shown, "~") != 0 && strcmp(value, "~") != 0) {
    double a = strtod(value, NULL), b = strtod(shown, NULL);
    same = a == b || (a != a && b != b);
  }
  if (!same) fail_msg("%s(%s) %s: gave %s, not %s", row->name, described, run, shown, value);
}

static inline void h_run(const h_row *row) {
  char format[64] = "", null_format[64];
  static char shown[H_ROWS + 8][256], null_shown[8][256];
  const char *nulls[H_ARGS_MAX];
  char null_text[H_ARGS_MAX][64];
  int64_t length;
  h_error e, null_e;
  size_t count = 0;
  bool has_array = false;
  while (count < H_ARGS_MAX && row->args[count]) {
    const char *arg = row->args[count];
    has_array |= arg[0] != '=';
    if (arg[0] != '=') snprintf(null_text[count], sizeof null_text[count], "%.*s|~", (int)strcspn(arg, "|"), arg);
    nulls[count] = arg[0] == '=' ? arg : null_text[count];
    count++;
  }
  trn_status status = h_call(row->name, row->args, count, 1, true, false, format, shown, &length, &e);
  if (status == TRN_OK) assert_int_equal(length, 1);
  h_expect(row, "as scalars", status, format, shown[0], &e);
  if (!has_array) return;
  trn_status null_status = h_call(row->name, nulls, count, 1, true, false, null_format, null_shown, &length, &null_e);
  status = h_call(row->name, row->args, count, H_ROWS, false, true, format, shown, &length, &e);
  if (status != TRN_OK) {
    h_expect(row, "as arrays", status, format, "", &e);
  } else {
    assert_int_equal(length, H_ROWS);
    for (int64_t i = 0; i < H_ROWS; i++)
      if (i % 3 != 1)
        h_expect(row, "as arrays", status, format, shown[i], &e);
      else if (null_status == TRN_OK && strcmp(shown[i], null_shown[0]) != 0)
        fail_msg("%s: row %d gave %s, nulls alone give %s", row->name, (int)i, shown[i], null_shown[0]);
  }
  if (strncmp(row->result, "!INVALID_TIMEZONE", 17) == 0) /* of a literal: fails without rows too */
    return;
  status = h_call(row->name, row->args, count, 0, false, false, format, shown, &length, &e);
  if (status != TRN_OK || length != 0)
    fail_msg("%s over no rows: status %d, length %d", row->name, (int)status, (int)length);
}

static inline void h_run_all(const h_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) h_run(&rows[i]);
}
#define H_RUN_ALL(rows) h_run_all(rows, sizeof(rows) / sizeof(rows)[0])
#define H_POS "=l|12884901897" /* 3 << 32 | 9 */
#endif
