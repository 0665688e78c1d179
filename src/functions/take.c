/* Gathering rows of an array of any type: for aggregates that keep values, and kernels over nested types. */
#include "functions/array.h"
#include <stdlib.h>
#include <string.h>

static trn_status take(const struct ArrowSchema *schema, const struct ArrowArray *from, const int64_t *rows,
                       int64_t count, struct ArrowArray *out, int depth);

/* Lists and maps: the elements of the taken rows, gathered from the child. */
static trn_status take_elements(const fn_column *column, const int64_t *rows, int64_t count, fn_builder *builder,
                                int depth) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; i++)
    if (rows[i] >= 0 && !fn__is_null(column, rows[i])) total += column->offsets[rows[i] + 1] - column->offsets[rows[i]];
  int64_t *elements = malloc((size_t)(total + 1) * sizeof *elements);
  if (!elements) return TRN_RESOURCE_EXHAUSTED;
  int64_t used = 0;
  for (int64_t i = 0; i < count; i++) {
    if (rows[i] < 0 || fn__is_null(column, rows[i]))
      fn__set_null(builder, i);
    else
      for (int32_t e = column->offsets[rows[i]]; e < column->offsets[rows[i] + 1]; e++) elements[used++] = e;
    fn__push_list(builder, used);
  }
  struct ArrowArray child;
  trn_status status =
      take(column->type.schema->children[0], column->array->children[0], elements, used, &child, depth + 1);
  free(elements);
  if (status == TRN_OK) fn__add_child(builder, &child);
  return status;
}

static trn_status take_fields(const fn_column *column, const int64_t *rows, int64_t count, fn_builder *builder,
                              int depth) {
  int64_t *shifted = malloc((size_t)(count + 1) * sizeof *shifted);
  if (!shifted) return TRN_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < count; i++) {
    bool null = rows[i] < 0 || fn__is_null(column, rows[i]);
    if (null) fn__set_null(builder, i);
    shifted[i] = null ? -1 : rows[i] + column->offset;
  }
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < column->type.schema->n_children && status == TRN_OK; i++) {
    struct ArrowArray child;
    status = take(column->type.schema->children[i], column->array->children[i], shifted, count, &child, depth + 1);
    if (status == TRN_OK) fn__add_child(builder, &child);
  }
  free(shifted);
  return status;
}

static trn_status take(const struct ArrowSchema *schema, const struct ArrowArray *from, const int64_t *rows,
                       int64_t count, struct ArrowArray *out, int depth) {
  fn_column column;
  fn_builder builder;
  memset(out, 0, sizeof *out);
  trn_status status = depth > FN_NESTING_MAX ? TRN_INVALID_ARGUMENT : fn__column_open(schema, from, false, &column);
  if (status != TRN_OK) return status;
  if (column.type.kind >= FN_LIST && from->n_children != schema->n_children) return TRN_INVALID_ARGUMENT;
  if (!fn__builder_init(&builder, &column.type, count)) return builder.status;
  size_t width = fn__type_width(column.type.kind);
  if (column.type.kind == FN_LIST || column.type.kind == FN_MAP)
    status = take_elements(&column, rows, count, &builder, depth);
  else if (column.type.kind == FN_STRUCT)
    status = take_fields(&column, rows, count, &builder, depth);
  else
    for (int64_t i = 0; i < count && column.type.kind != FN_NULL; i++) {
      bool null = rows[i] < 0 || fn__is_null(&column, rows[i]);
      if (null) fn__set_null(&builder, i);
      if (width && null)
        memset((char *)builder.data + (size_t)i * width, 0, width);
      else if (width)
        memcpy((char *)builder.data + (size_t)i * width, (const char *)column.data + (size_t)rows[i] * width, width);
      else if (column.type.kind == FN_BOOL)
        fn__set_bool(&builder, i, !null && fn__get_bool(&column, rows[i]));
      else {
        fn_text text = null ? (fn_text){"", 0} : fn__get_text(&column, rows[i]);
        fn__push(&builder, text.data, text.size);
      }
    }
  if (status != TRN_OK) {
    fn__builder_clear(&builder);
    return status;
  }
  return fn__builder_finish(&builder, out);
}

trn_status fn__take(const struct ArrowSchema *schema, const struct ArrowArray *from, const int64_t *rows, int64_t count,
                    struct ArrowArray *out) {
  return take(schema, from, rows, count, out, 0);
}
