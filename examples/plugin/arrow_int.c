#include "arrow_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
}

bool int_schema(struct ArrowSchema *out, const char *name, bool nullable) {
  memset(out, 0, sizeof *out);
  out->format = "l";
  out->name = name;
  out->flags = nullable ? ARROW_FLAG_NULLABLE : 0;
  out->release = release_schema;
  return true;
}

bool int_struct_schema(struct ArrowSchema *out, const char *const *names, size_t count) {
  int_schema(out, "", false);
  out->format = "+s";
  out->children = calloc(count, sizeof *out->children);
  for (size_t i = 0; out->children && i < count; i++) {
    out->children[i] = malloc(sizeof **out->children);
    if (!out->children[i]) break;
    int_schema(out->children[i], names[i], false);
    out->n_children++;
  }
  if (out->n_children == (int64_t)count) return true;
  release_schema(out);
  return false;
}

bool int_list_schema(struct ArrowSchema *out) {
  static const char *const item[] = {"item"};
  if (!int_struct_schema(out, item, 1)) return false;
  out->format = "+l";
  out->flags = out->children[0]->flags = ARROW_FLAG_NULLABLE;
  return true;
}

/* ---- arrays ---- */

bool int_array_start(int_array *array, int64_t rows) {
  size_t room = rows > 0 ? (size_t)rows : 1;
  array->rows = array->nulls = rows;
  array->values = calloc(room, sizeof *array->values);
  array->valid = calloc(room / 8 + 1, 1);
  if (array->values && array->valid) return true;
  int_array_drop(array);
  return false;
}

void int_array_set(int_array *array, int64_t row, int64_t value) {
  array->values[row] = value;
  array->valid[row / 8] |= (uint8_t)(1u << row % 8);
  array->nulls--;
}

bool int_array_get(const int_array *array, int64_t row, int64_t *out) {
  *out = array->values[row];
  return array->valid[row / 8] >> row % 8 & 1;
}

void int_array_drop(int_array *array) {
  free(array->values);
  free(array->valid);
  array->values = NULL;
  array->valid = NULL;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  free(array->children);
  free((void *)array->buffers);
  array->release = NULL;
}

bool int_array_end(int_array *array, struct ArrowArray *out) {
  memset(out, 0, sizeof *out);
  out->buffers = calloc(2, sizeof *out->buffers);
  if (!out->buffers) {
    int_array_drop(array);
    return false;
  }
  out->buffers[0] = array->valid;
  out->buffers[1] = array->values;
  out->n_buffers = 2;
  out->length = array->rows;
  out->null_count = array->nulls;
  out->release = release_array;
  return true;
}

bool int_struct_array(struct ArrowArray *out, struct ArrowArray *columns, size_t count, int64_t rows) {
  memset(out, 0, sizeof *out);
  out->buffers = calloc(1, sizeof *out->buffers);
  out->children = calloc(count, sizeof *out->children);
  out->n_buffers = out->buffers ? 1 : 0;
  out->length = rows;
  out->release = release_array;
  for (size_t i = 0; i < count; i++) {
    struct ArrowArray *child = out->children ? malloc(sizeof *child) : NULL;
    if (child) {
      *child = columns[i];
      out->children[out->n_children++] = child;
    } else {
      columns[i].release(&columns[i]);
    }
  }
  if (out->buffers && out->n_children == (int64_t)count) return true;
  release_array(out);
  return false;
}

bool int_list_array(struct ArrowArray *out, const struct ArrowArray *like, const int32_t *starts, struct ArrowArray *values) {
  const uint8_t *bits = like->buffers[0];
  int64_t rows = like->length;
  uint8_t *valid = calloc((size_t)rows / 8 + 1, 1);
  int32_t *own = malloc(((size_t)rows + 1) * sizeof *own);
  const void **buffers = calloc(2, sizeof *buffers);
  bool is_made = int_struct_array(out, values, 1, rows);
  if (!is_made || !valid || !own || !buffers) {
    if (is_made) release_array(out);
    free(valid);
    free(own);
    free((void *)buffers);
    return false;
  }
  for (int64_t row = 0; row <= rows; row++) own[row] = starts[row] - starts[0];
  for (int64_t row = 0, at = like->offset; row < rows; row++, at++)
    if (!bits || (bits[at / 8] >> at % 8 & 1)) valid[row / 8] |= (uint8_t)(1u << row % 8);
  free((void *)out->buffers);
  buffers[0] = valid;
  buffers[1] = own;
  out->buffers = buffers;
  out->n_buffers = 2;
  out->null_count = -1;
  return true;
}

bool int_value(const struct ArrowArray *array, bool is_scalar, int64_t row, int64_t *out) {
  int64_t at = array->offset + (is_scalar ? 0 : row);
  const uint8_t *valid = array->buffers[0];
  if (valid && !(valid[at / 8] >> at % 8 & 1)) return false;
  *out = ((const int64_t *)array->buffers[1])[at];
  return true;
}
