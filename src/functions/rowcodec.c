#include "functions/rowcodec.h"
#include "functions/decimal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool fn__bytes_append(fn_bytes *bytes, const void *data, size_t size) {
  if (size > bytes->capacity - bytes->size) {
    size_t capacity = bytes->capacity * 2 > bytes->size + size ? bytes->capacity * 2 : bytes->size + size;
    char *grown = realloc(bytes->data, capacity < 16 ? 16 : capacity);
    if (!grown) return false;
    bytes->data = grown;
    bytes->capacity = capacity < 16 ? 16 : capacity;
  }
  if (size) memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
  return true;
}

void fn__bytes_clear(fn_bytes *bytes) {
  free(bytes->data);
  *bytes = (fn_bytes){0};
}

/* ---- encoding: a byte 1 (null: 0), then the value; texts and lists with their 32-bit size first ---- */
static bool encode(const fn_column *column, int64_t row, bool canonical, fn_bytes *out, int depth) {
  bool null = fn__is_null(column, row);
  char present = !null;
  size_t width = fn__type_width((fn_kind)column->type.kind);
  if (depth > FN_NESTING_MAX || !fn__bytes_append(out, &present, 1)) return false;
  if (null) return true;
  if (width) {
    const char *at = (const char *)column->data + (size_t)(row * column->step) * width;
    if (canonical && column->type.kind == FN_FLOAT64) {
      double value = fn__get_f64(column, row);
      value = isnan(value) ? (double)NAN : value == 0 ? 0.0 : value;
      return fn__bytes_append(out, &value, sizeof value);
    }
    if (canonical && column->type.kind == FN_FLOAT32) {
      float value = (float)fn__get_number(column, row);
      value = isnan(value) ? NAN : value == 0 ? 0.0f : value;
      return fn__bytes_append(out, &value, sizeof value);
    }
    return fn__bytes_append(out, at, width);
  }
  fn_column child;
  switch (column->type.kind) {
  case FN_BOOL: {
    char value = fn__get_bool(column, row);
    return fn__bytes_append(out, &value, 1);
  }
  case FN_STRING:
  case FN_BINARY: {
    fn_text text = fn__get_text(column, row);
    uint32_t size = (uint32_t)text.size;
    return fn__bytes_append(out, &size, sizeof size) && fn__bytes_append(out, text.data, text.size);
  }
  case FN_LIST:
  case FN_MAP: {
    const int32_t *offsets = column->offsets + row * column->step;
    uint32_t size = (uint32_t)(offsets[1] - offsets[0]);
    if (fn__column_child(column, 0, &child) != TRN_OK || !fn__bytes_append(out, &size, sizeof size)) return false;
    for (int32_t i = offsets[0]; i < offsets[1]; i++)
      if (!encode(&child, i, canonical, out, depth + 1)) return false;
    return true;
  }
  case FN_STRUCT:
    for (int64_t i = 0; i < column->type.schema->n_children; i++)
      if (fn__column_child(column, i, &child) != TRN_OK ||
          !encode(&child, column->offset + row * column->step, canonical, out, depth + 1))
        return false;
    return true;
  default: return true;
  }
}

bool fn__encode(const fn_column *column, int64_t row, bool canonical, fn_bytes *out) {
  return encode(column, row, canonical, out, 0);
}

static uint32_t take_size(const char **at) {
  uint32_t size;
  memcpy(&size, *at, sizeof size);
  *at += sizeof size;
  return size;
}

#define COMPARE(x, y) ((x) < (y) ? -1 : (x) > (y))
static int compare_doubles(double x, double y) {
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return COMPARE(x, y);
}

static int compare_fixed(fn_kind kind, const char *a, const char *b) {
  int64_t x = 0, y = 0;
  switch (kind) {
  case FN_INT8: return COMPARE(*(const signed char *)a, *(const signed char *)b);
  case FN_INT16: {
    int16_t p, q;
    memcpy(&p, a, 2), memcpy(&q, b, 2);
    return COMPARE(p, q);
  }
  case FN_INT32:
  case FN_DATE:
  case FN_YEAR_MONTH: {
    int32_t p, q;
    memcpy(&p, a, 4), memcpy(&q, b, 4);
    return COMPARE(p, q);
  }
  case FN_FLOAT32: {
    float p, q;
    memcpy(&p, a, 4), memcpy(&q, b, 4);
    return compare_doubles(p, q);
  }
  case FN_FLOAT64: {
    double p, q;
    memcpy(&p, a, 8), memcpy(&q, b, 8);
    return compare_doubles(p, q);
  }
  case FN_DECIMAL: {
    fn_i128 p, q;
    memcpy(&p, a, 16), memcpy(&q, b, 16);
    return COMPARE(p, q);
  }
  case FN_CALENDAR: return memcmp(a, b, 16);
  default: memcpy(&x, a, 8), memcpy(&y, b, 8); return COMPARE(x, y);
  }
}

int fn__encoded_compare(const fn_type *type, const char **a, const char **b) {
  bool x = *(*a)++, y = *(*b)++;
  size_t width = fn__type_width((fn_kind)type->kind);
  if (!x || !y)
    return (int)x - (int)y; /* the pointers are not needed after a difference; two nulls have no more bytes */
  if (width) {
    int order = compare_fixed((fn_kind)type->kind, *a, *b);
    *a += width, *b += width;
    return order;
  }
  switch (type->kind) {
  case FN_BOOL: return (int)*(*a)++ - (int)*(*b)++;
  case FN_STRING:
  case FN_BINARY: {
    uint32_t p = take_size(a), q = take_size(b);
    int order = memcmp(*a, *b, p < q ? p : q);
    *a += p, *b += q;
    return order ? (order < 0 ? -1 : 1) : COMPARE(p, q);
  }
  case FN_LIST:
  case FN_MAP: {
    uint32_t p = take_size(a), q = take_size(b);
    fn_type child;
    if (!fn__type_read(type->schema->children[0], &child)) return 0;
    for (uint32_t i = 0; i < p && i < q; i++) {
      int order = fn__encoded_compare(&child, a, b);
      if (order) return order;
    }
    return COMPARE(p, q);
  }
  case FN_STRUCT:
    for (int64_t i = 0; i < type->schema->n_children; i++) {
      fn_type child;
      int order = fn__type_read(type->schema->children[i], &child) ? fn__encoded_compare(&child, a, b) : 0;
      if (order) return order;
    }
    return 0;
  default: return 0;
  }
}

uint64_t fn__bytes_hash(const char *data, size_t size) { /* FNV-1a over words, mixed: for tables of this process only */
  uint64_t hash = 0xcbf29ce484222325u ^ size;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  for (; size > 0; data++, size--) hash = (hash ^ (unsigned char)*data) * 0x100000001b3u;
  hash ^= hash >> 29;
  return hash * 0xbf58476d1ce4e5b9u;
}

/* ---- sinks ---- */
static size_t value_width(const fn_sink *sink) {
  size_t width = fn__type_width((fn_kind)sink->type.kind);
  return width                                                        ? width
         : sink->type.kind == FN_BOOL                                 ? 1
         : sink->type.kind == FN_STRUCT || sink->type.kind == FN_NULL ? 0
                                                                      : 4;
}

static bool sink_init(fn_sink *sink, const struct ArrowSchema *schema, int depth) {
  *sink = (fn_sink){0};
  if (depth > FN_NESTING_MAX || !fn__type_read(schema, &sink->type)) return false;
  if (sink->type.kind < FN_LIST) return true;
  sink->children = calloc((size_t)schema->n_children + 1, sizeof *sink->children);
  if (!sink->children) return false;
  for (int64_t i = 0; i < schema->n_children; i++) {
    if (!sink_init(&sink->children[i], schema->children[i], depth + 1)) return false;
    sink->child_count++;
  }
  return true;
}

bool fn__sink_init(fn_sink *sink, const struct ArrowSchema *schema) {
  if (sink_init(sink, schema, 0)) return true;
  fn__sink_clear(sink);
  return false;
}

void fn__sink_clear(fn_sink *sink) {
  for (int64_t i = 0; i < sink->child_count; i++) fn__sink_clear(&sink->children[i]);
  free(sink->children);
  free(sink->data);
  free(sink->valid);
  fn__bytes_clear(&sink->text);
  *sink = (fn_sink){0};
}

static bool has_offsets(const fn_sink *sink) {
  return value_width(sink) == 4 && !fn__type_width((fn_kind)sink->type.kind);
}

/* Makes room for a row and gives where its value goes. */
static char *new_row(fn_sink *sink, bool present) {
  size_t width = value_width(sink);
  if (sink->rows + 1 >= sink->capacity) {
    int64_t capacity = sink->capacity ? sink->capacity * 2 : 64;
    char *data = fn__alloc(((size_t)capacity + 1) * (width ? width : 1));
    uint8_t *valid = fn__alloc((size_t)capacity / 8 + 1);
    if (!data || !valid) {
      free(data);
      free(valid);
      sink->failed = true;
      return NULL;
    }
    memset(valid, 0, (size_t)capacity / 8 + 1);
    if (has_offsets(sink)) memset(data, 0, 4);
    if (sink->data) {
      memcpy(data, sink->data, ((size_t)sink->rows + 1) * width);
      memcpy(valid, sink->valid, (size_t)sink->rows / 8 + 1);
    }
    free(sink->data);
    free(sink->valid);
    sink->data = data;
    sink->valid = valid;
    sink->capacity = capacity;
  }
  if (present) sink->valid[sink->rows >> 3] |= (uint8_t)(1u << (sink->rows & 7));
  return sink->data + (size_t)sink->rows++ * width;
}

static void end_offset(fn_sink *sink, size_t end) {
  if (end > INT32_MAX)
    sink->failed = true;
  else
    ((int32_t *)sink->data)[sink->rows] = (int32_t)end;
}

void fn__sink_put_null(fn_sink *sink) {
  char *at = new_row(sink, false);
  if (!at) return;
  if (has_offsets(sink))
    ((int32_t *)sink->data)[sink->rows] = ((int32_t *)sink->data)[sink->rows - 1];
  else
    memset(at, 0, value_width(sink));
  for (int64_t i = 0; sink->type.kind == FN_STRUCT && i < sink->child_count; i++) fn__sink_put_null(&sink->children[i]);
}

/* False after a failure: then *at is not behind the value, and nothing after it can be read. */
static bool put(fn_sink *sink, const char **at) {
  if (!*(*at)++) {
    fn__sink_put_null(sink);
    return !sink->failed;
  }
  char *to = new_row(sink, true);
  if (!to) return false;
  size_t width = value_width(sink);
  bool good = true;
  switch (sink->type.kind) {
  case FN_STRING:
  case FN_BINARY: {
    uint32_t size = take_size(at);
    good = fn__bytes_append(&sink->text, *at, size);
    *at += size;
    if (good) end_offset(sink, sink->text.size);
    break;
  }
  case FN_LIST:
  case FN_MAP:
    for (uint32_t size = take_size(at); size > 0 && good; size--) good = put(&sink->children[0], at);
    if (good) end_offset(sink, (size_t)sink->children[0].rows);
    break;
  case FN_STRUCT:
    for (int64_t i = 0; i < sink->child_count && good; i++) good = put(&sink->children[i], at);
    break;
  default: memcpy(to, *at, width); *at += width;
  }
  sink->failed |= !good;
  return !sink->failed;
}

void fn__sink_put(fn_sink *sink, const char **at) {
  if (!sink->failed) put(sink, at);
}

void fn__sink_put_value(fn_sink *sink, const fn_column *column, int64_t row, fn_bytes *scratch) {
  scratch->size = 0;
  if (!fn__encode(column, row, false, scratch)) {
    sink->failed = true;
    return;
  }
  const char *at = scratch->data;
  fn__sink_put(sink, &at);
}

static bool sink_failed(const fn_sink *sink) {
  bool failed = sink->failed;
  for (int64_t i = 0; i < sink->child_count; i++) failed |= sink_failed(&sink->children[i]);
  return failed;
}

static trn_status finish(fn_sink *sink, struct ArrowArray *out) {
  fn_builder builder;
  size_t width = fn__type_width((fn_kind)sink->type.kind);
  if (!fn__builder_init(&builder, &sink->type, sink->rows)) return builder.status;
  if (width && sink->rows)
    memcpy(builder.data, sink->data, width * (size_t)sink->rows);
  else if (has_offsets(sink) && sink->rows)
    memcpy(builder.data, sink->data, 4 * ((size_t)sink->rows + 1));
  for (int64_t row = 0; row < sink->rows; row++) {
    if (sink->type.kind == FN_BOOL) fn__set_bool(&builder, row, sink->data[row]);
    if (!fn__bit(sink->valid, row)) fn__set_null(&builder, row);
  }
  fn__append(&builder, sink->text.data ? sink->text.data : "", sink->text.size);
  if (sink->type.kind != FN_STRING && sink->type.kind != FN_BINARY) {
    free(builder.bytes);
    builder.bytes = NULL;
  }
  for (int64_t i = 0; i < sink->child_count; i++) {
    struct ArrowArray child;
    trn_status status = finish(&sink->children[i], &child);
    if (status != TRN_OK) {
      fn__builder_clear(&builder);
      return status;
    }
    fn__add_child(&builder, &child);
  }
  return fn__builder_finish(&builder, out);
}

trn_status fn__sink_finish(fn_sink *sink, struct ArrowArray *out) {
  memset(out, 0, sizeof *out);
  trn_status status = sink_failed(sink) ? TRN_RESOURCE_EXHAUSTED : finish(sink, out);
  fn__sink_clear(sink);
  return status;
}
