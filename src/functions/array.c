#include "functions/array.h"
#include "functions/decimal.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */
static const struct {
  const char *format;
  const char *sql;
  uint8_t width;
} KINDS[FN_KIND_COUNT] = {
    [FN_NULL] = {"n", "VOID", 0},
    [FN_BOOL] = {"b", "BOOLEAN", 0},
    [FN_INT8] = {"c", "TINYINT", 1},
    [FN_INT16] = {"s", "SMALLINT", 2},
    [FN_INT32] = {"i", "INT", 4},
    [FN_INT64] = {"l", "BIGINT", 8},
    [FN_FLOAT32] = {"f", "FLOAT", 4},
    [FN_FLOAT64] = {"g", "DOUBLE", 8},
    [FN_DECIMAL] = {NULL, "DECIMAL", 16},
    [FN_STRING] = {"u", "STRING", 0},
    [FN_BINARY] = {"z", "BINARY", 0},
    [FN_DATE] = {"tdD", "DATE", 4},
    [FN_TIMESTAMP] = {"tsu:UTC", "TIMESTAMP", 8},
    [FN_TIMESTAMP_NTZ] = {"tsu:", "TIMESTAMP_NTZ", 8},
    [FN_TIME] = {"ttn", "TIME(6)", 8},
    [FN_YEAR_MONTH] = {"tiM", "INTERVAL YEAR TO MONTH", 4},
    [FN_DAY_TIME] = {"tDu", "INTERVAL DAY TO SECOND", 8},
    [FN_CALENDAR] = {"tin", "INTERVAL", 16},
    [FN_LIST] = {"+l", "ARRAY", 0},
    [FN_MAP] = {"+m", "MAP", 0},
    [FN_STRUCT] = {"+s", "STRUCT", 0},
};

fn_type fn__type(fn_kind kind) {
  return (fn_type){.kind = (uint8_t)kind};
}

fn_type fn__type_decimal(int precision, int scale) {
  return (fn_type){.kind = FN_DECIMAL, .precision = (uint8_t)precision, .scale = (int8_t)scale};
}

size_t fn__type_width(fn_kind kind) {
  return KINDS[kind].width;
}

bool fn__type_read(const struct ArrowSchema *schema, fn_type *out) {
  *out = (fn_type){.schema = schema};
  const char *format = schema ? schema->format : NULL;
  if (!format || schema->dictionary) return false;
  if (strncmp(format, "d:", 2) == 0) {
    int precision = 0, scale = 0, bits = 128;
    if (sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) < 2 || bits != 128 || precision < 1 || precision > 38 ||
        scale < 0 || scale > precision)
      return false;
    *out = fn__type_decimal(precision, scale);
    out->schema = schema;
    return true;
  }
  if (strncmp(format, "tsu:", 4) == 0) {
    out->kind = format[4] ? FN_TIMESTAMP : FN_TIMESTAMP_NTZ;
    return true;
  }
  for (int kind = 0; kind < FN_KIND_COUNT; kind++)
    if (KINDS[kind].format && strcmp(KINDS[kind].format, format) == 0) {
      out->kind = (uint8_t)kind;
      int64_t children = kind == FN_LIST || kind == FN_MAP ? 1 : kind == FN_STRUCT ? schema->n_children : 0;
      return schema->n_children == children &&
             (kind != FN_MAP || (schema->children[0] && schema->children[0]->n_children == 2));
    }
  return false;
}

bool fn__type_same(const fn_type *a, const fn_type *b) {
  if (a->kind != b->kind || (a->kind == FN_DECIMAL && (a->precision != b->precision || a->scale != b->scale)))
    return false;
  if (a->kind < FN_LIST) return true;
  if (!a->schema || !b->schema || a->schema->n_children != b->schema->n_children) return false;
  for (int64_t i = 0; i < a->schema->n_children; i++) {
    fn_type x, y;
    if (!fn__type_read(a->schema->children[i], &x) || !fn__type_read(b->schema->children[i], &y) ||
        !fn__type_same(&x, &y))
      return false;
  }
  return true;
}

static void append_text(char *out, size_t size, const char *text) {
  size_t used = strlen(out);
  if (used + 1 < size) snprintf(out + used, size - used, "%s", text);
}

static void type_sql(const fn_type *type, char *out, size_t size, int depth) {
  if (type->kind == FN_DECIMAL) {
    char text[32];
    snprintf(text, sizeof text, "DECIMAL(%d,%d)", type->precision, type->scale);
    append_text(out, size, text);
    return;
  }
  append_text(out, size, KINDS[type->kind].sql);
  if (type->kind < FN_LIST || !type->schema || depth > FN_NESTING_MAX) return;
  const struct ArrowSchema *holder = type->kind == FN_MAP ? type->schema->children[0] : type->schema;
  append_text(out, size, "<");
  for (int64_t i = 0; i < holder->n_children; i++) {
    fn_type child;
    if (i) append_text(out, size, ", ");
    if (type->kind == FN_STRUCT) {
      append_text(out, size, holder->children[i]->name ? holder->children[i]->name : "");
      append_text(out, size, ": ");
    }
    if (fn__type_read(holder->children[i], &child)) type_sql(&child, out, size, depth + 1);
  }
  append_text(out, size, ">");
}

void fn__type_sql(const fn_type *type, char *out, size_t size) {
  out[0] = 0;
  type_sql(type, out, size, 0);
}

/* ---- schemas ---- */
typedef struct owned_schema {
  struct ArrowSchema *children;
  struct ArrowSchema **pointers;
  char *name;
  char format[];
} owned_schema;

static void release_schema(struct ArrowSchema *schema) {
  owned_schema *owned = schema->private_data;
  for (int64_t i = 0; i < schema->n_children; i++)
    if (owned->children[i].release) owned->children[i].release(&owned->children[i]);
  free(owned->children);
  free(owned->pointers);
  free(owned->name);
  free(owned);
  schema->release = NULL;
}

trn_status fn__schema_nest(struct ArrowSchema *out, const char *format, const char *name, bool nullable,
                           struct ArrowSchema *children, int64_t count) {
  size_t format_size = strlen(format) + 1;
  owned_schema *owned = calloc(1, sizeof *owned + format_size);
  trn_status status = TRN_RESOURCE_EXHAUSTED;
  memset(out, 0, sizeof *out);
  if (!owned) goto done;
  owned->name = strdup(name ? name : "");
  owned->children = calloc((size_t)count + 1, sizeof *owned->children);
  owned->pointers = calloc((size_t)count + 1, sizeof *owned->pointers);
  if (!owned->name || !owned->children || !owned->pointers) goto done;
  memcpy(owned->format, format, format_size);
  for (int64_t i = 0; i < count; i++) {
    owned->children[i] = children[i];
    owned->pointers[i] = &owned->children[i];
    children[i].release = NULL;
  }
  *out = (struct ArrowSchema){.format = owned->format,
                              .name = owned->name,
                              .flags = nullable ? ARROW_FLAG_NULLABLE : 0,
                              .n_children = count,
                              .children = count ? owned->pointers : NULL,
                              .release = release_schema,
                              .private_data = owned};
  owned = NULL;
  status = TRN_OK;
done:
  if (owned) {
    free(owned->children);
    free(owned->pointers);
    free(owned->name);
    free(owned);
  }
  for (int64_t i = 0; i < count; i++)
    if (children[i].release) children[i].release(&children[i]);
  return status;
}

static trn_status schema_copy(struct ArrowSchema *out, const struct ArrowSchema *from, const char *name, bool nullable,
                              int depth) {
  if (depth > FN_NESTING_MAX) return TRN_INVALID_ARGUMENT;
  struct ArrowSchema *children = calloc((size_t)from->n_children + 1, sizeof *children);
  if (!children) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < from->n_children && status == TRN_OK; i++) {
    const struct ArrowSchema *child = from->children[i];
    status = schema_copy(&children[i], child, child->name, child->flags & ARROW_FLAG_NULLABLE, depth + 1);
  }
  if (status == TRN_OK)
    status = fn__schema_nest(out, from->format, name, nullable, children, from->n_children);
  else
    for (int64_t i = 0; i < from->n_children; i++)
      if (children[i].release) children[i].release(&children[i]);
  free(children);
  return status;
}

trn_status fn__schema_copy(struct ArrowSchema *out, const struct ArrowSchema *from, const char *name, bool nullable) {
  return schema_copy(out, from, name, nullable, 0);
}

trn_status fn__schema_make(struct ArrowSchema *out, const fn_type *type, const char *name, bool nullable) {
  char decimal[32];
  if (type->kind >= FN_LIST) return type->schema ? fn__schema_copy(out, type->schema, name, nullable) : TRN_INTERNAL;
  if (type->kind == FN_DECIMAL) snprintf(decimal, sizeof decimal, "d:%d,%d", type->precision, type->scale);
  return fn__schema_nest(out, type->kind == FN_DECIMAL ? decimal : KINDS[type->kind].format, name, nullable, NULL, 0);
}

/* ---- columns ---- */
trn_status fn__column_open(const struct ArrowSchema *schema, const struct ArrowArray *array, bool is_scalar,
                           fn_column *out) {
  static const int32_t NO_OFFSETS[2] = {0, 0};
  static const int64_t NO_DATA[2] = {0, 0};
  *out = (fn_column){.step = is_scalar ? 0 : 1, .array = array, .offsets = NO_OFFSETS, .data = NO_DATA, .bytes = ""};
  if (!fn__type_read(schema, &out->type)) return TRN_INVALID_ARGUMENT;
  if (!array) return TRN_OK;
  if (out->type.kind == FN_NULL) {
    out->all_null = true;
    return TRN_OK;
  }
  int64_t buffers = out->type.kind == FN_STRUCT                                  ? 1
                    : out->type.kind == FN_STRING || out->type.kind == FN_BINARY ? 3
                                                                                 : 2;
  if (array->n_buffers < buffers || array->offset < 0 || array->length < 0 || (is_scalar && array->length < 1))
    return TRN_INVALID_ARGUMENT;
  out->offset = array->offset;
  if (array->null_count != 0 && array->buffers[0]) out->valid = array->buffers[0];
  if (buffers > 1 && !array->buffers[1]) return array->length == 0 ? TRN_OK : TRN_INVALID_ARGUMENT;
  if (out->type.kind == FN_STRING || out->type.kind == FN_BINARY || out->type.kind == FN_LIST ||
      out->type.kind == FN_MAP)
    out->offsets = (const int32_t *)array->buffers[1] + array->offset;
  if (buffers == 3 && array->buffers[2]) out->bytes = array->buffers[2];
  if (out->type.kind == FN_BOOL)
    out->data = array->buffers[1];
  else if (KINDS[out->type.kind].width)
    out->data = (const char *)array->buffers[1] + (size_t)array->offset * KINDS[out->type.kind].width;
  return TRN_OK;
}

trn_status fn__column_child(const fn_column *parent, int64_t index, fn_column *out) {
  if (!parent->type.schema || index >= parent->type.schema->n_children || !parent->array ||
      index >= parent->array->n_children)
    return TRN_INVALID_ARGUMENT;
  return fn__column_open(parent->type.schema->children[index], parent->array->children[index], false, out);
}

int64_t fn__get_integer(const fn_column *column, int64_t row) {
  row *= column->step;
  switch (KINDS[column->type.kind].width) {
  case 1: return ((const int8_t *)column->data)[row];
  case 2: return ((const int16_t *)column->data)[row];
  case 4: return ((const int32_t *)column->data)[row];
  case 8: return ((const int64_t *)column->data)[row];
  default: return 0;
  }
}

double fn__get_number(const fn_column *column, int64_t row) {
  row *= column->step;
  return column->type.kind == FN_FLOAT32 ? (double)((const float *)column->data)[row]
                                         : ((const double *)column->data)[row];
}

/* ---- builders ---- */
void *fn__alloc(size_t size) {
  size = (size + FN_ALIGNMENT) & ~(size_t)(FN_ALIGNMENT - 1);
  return size < FN_ALIGNMENT ? NULL : aligned_alloc(FN_ALIGNMENT, size);
}

bool fn__builder_init(fn_builder *builder, const fn_type *type, int64_t rows) {
  *builder = (fn_builder){.type = *type, .rows = rows};
  size_t width = KINDS[type->kind].width, size = (size_t)rows * width;
  if (type->kind == FN_STRUCT || type->kind == FN_NULL) return true;
  if (type->kind == FN_BOOL)
    size = ((size_t)rows + 7) / 8;
  else if (!width)
    size = ((size_t)rows + 1) * sizeof(int32_t);
  builder->data = fn__alloc(size);
  if (!builder->data) {
    builder->status = TRN_RESOURCE_EXHAUSTED;
    return false;
  }
  /* Rows that end up null must not leak what the memory held before; kernels that fill every row pay a memset. */
  if (type->kind == FN_BOOL || !width) memset(builder->data, 0, size);
  return true;
}

void fn__builder_clear(fn_builder *builder) {
  free(builder->valid);
  free(builder->data);
  free(builder->bytes);
  for (int64_t i = 0; i < builder->child_count; i++) {
    if (builder->children[i]->release) builder->children[i]->release(builder->children[i]);
    free(builder->children[i]);
  }
  free(builder->children);
  *builder = (fn_builder){.status = builder->status};
}

typedef struct owned_array {
  const void *buffers[3];
} owned_array;

static void release_array(struct ArrowArray *array) {
  owned_array *owned = array->private_data;
  for (int i = 0; i < 3; i++) free((void *)(uintptr_t)owned->buffers[i]);
  free(owned);
  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->children);
  array->release = NULL;
}

static int64_t count_nulls(const uint8_t *valid, int64_t rows) {
  int64_t set = 0, i = 0;
  for (; i + 64 <= rows; i += 64) {
    uint64_t word;
    memcpy(&word, valid + i / 8, sizeof word);
    set += __builtin_popcountll(word);
  }
  for (; i < rows; i++) set += fn__bit(valid, i);
  return rows - set;
}

trn_status fn__builder_finish(fn_builder *builder, struct ArrowArray *out) {
  memset(out, 0, sizeof *out);
  owned_array *owned = builder->status == TRN_OK ? calloc(1, sizeof *owned) : NULL;
  bool is_text = builder->type.kind == FN_STRING || builder->type.kind == FN_BINARY;
  if (owned && is_text && !builder->bytes) /* a reader may want an address even for no bytes */
    builder->bytes = fn__alloc(1);
  if (!owned || (is_text && !builder->bytes)) {
    trn_status status = builder->status == TRN_OK ? TRN_RESOURCE_EXHAUSTED : builder->status;
    free(owned);
    fn__builder_clear(builder);
    return status;
  }
  owned->buffers[0] = builder->valid;
  owned->buffers[1] = builder->data;
  owned->buffers[2] = builder->bytes;
  int64_t buffers = builder->type.kind == FN_NULL ? 0 : builder->type.kind == FN_STRUCT ? 1 : is_text ? 3 : 2;
  *out = (struct ArrowArray){.length = builder->rows,
                             .null_count = builder->type.kind == FN_NULL ? builder->rows
                                           : builder->valid              ? count_nulls(builder->valid, builder->rows)
                                                                         : 0,
                             .n_buffers = buffers,
                             .n_children = builder->child_count,
                             .buffers = owned->buffers,
                             .children = builder->children,
                             .release = release_array,
                             .private_data = owned};
  *builder = (fn_builder){0};
  return TRN_OK;
}

static bool make_validity(fn_builder *builder, int fill) {
  if (builder->valid) return true;
  size_t size = ((size_t)builder->rows + 7) / 8;
  builder->valid = fn__alloc(size);
  if (!builder->valid) {
    builder->status = TRN_RESOURCE_EXHAUSTED;
    return false;
  }
  memset(builder->valid, fill, size);
  return true;
}

void fn__set_null(fn_builder *builder, int64_t row) {
  if (builder->type.kind != FN_NULL && make_validity(builder, 0xff))
    builder->valid[row >> 3] &= (uint8_t) ~(1u << (row & 7));
}

bool fn__and_validity(fn_builder *builder, const fn_column *column) {
  if (builder->type.kind == FN_NULL) return false;
  if (!column->all_null && !column->valid) return true;
  if (column->all_null || (column->step == 0 && fn__is_null(column, 0))) {
    if (make_validity(builder, 0)) memset(builder->valid, 0, ((size_t)builder->rows + 7) / 8);
    return false;
  }
  if (column->step == 0 || !make_validity(builder, 0xff)) return true;
  int64_t bytes = builder->rows / 8, first = column->offset / 8;
  int shift = (int)(column->offset & 7);
  const uint8_t *from = column->valid + first;
  if (shift == 0)
    for (int64_t i = 0; i < bytes; i++) builder->valid[i] &= from[i];
  else
    for (int64_t i = 0; i < bytes; i++)
      builder->valid[i] &= (uint8_t)((from[i] >> shift) | (from[i + 1] << (8 - shift)));
  for (int64_t row = bytes * 8; row < builder->rows; row++)
    if (fn__is_null(column, row)) builder->valid[row >> 3] &= (uint8_t) ~(1u << (row & 7));
  return true;
}

char *fn__reserve(fn_builder *builder, size_t size) {
  if (builder->status != TRN_OK) return NULL;
  size_t wanted = builder->size + size;
  if (size > INT32_MAX || wanted > INT32_MAX) {
    builder->status = TRN_RESOURCE_EXHAUSTED;
    return NULL;
  }
  if (wanted > builder->capacity || !builder->bytes) {
    size_t capacity = builder->capacity * 2 > wanted ? builder->capacity * 2 : wanted;
    capacity = capacity < 256 ? 256 : capacity;
    char *grown = fn__alloc(capacity);
    if (!grown) {
      builder->status = TRN_RESOURCE_EXHAUSTED;
      return NULL;
    }
    if (builder->size) memcpy(grown, builder->bytes, builder->size);
    free(builder->bytes);
    builder->bytes = grown;
    builder->capacity = capacity;
  }
  return builder->bytes + builder->size;
}

void fn__push_end(fn_builder *builder, size_t size) {
  if (builder->status != TRN_OK) return;
  builder->size += size;
  ((int32_t *)builder->data)[++builder->next] = (int32_t)builder->size;
}

void fn__append(fn_builder *builder, const void *data, size_t size) {
  char *room = fn__reserve(builder, size);
  if (!room) return;
  if (size) memcpy(room, data, size);
  builder->size += size;
}

void fn__push_slow(fn_builder *builder, const void *data, size_t size) {
  fn__append(builder, data, size);
  fn__push_end(builder, 0);
}

void fn__push_null(fn_builder *builder) {
  fn__set_null(builder, builder->next);
  fn__push_end(builder, 0);
}

void fn__push_list(fn_builder *builder, int64_t end) {
  if (end > INT32_MAX) builder->status = TRN_RESOURCE_EXHAUSTED;
  if (builder->status == TRN_OK) ((int32_t *)builder->data)[++builder->next] = (int32_t)end;
}

void fn__add_child(fn_builder *builder, struct ArrowArray *child) {
  struct ArrowArray **grown = realloc(builder->children, (size_t)(builder->child_count + 1) * sizeof *grown);
  if (grown) builder->children = grown;
  struct ArrowArray *own = grown ? malloc(sizeof *own) : NULL;
  if (!own) {
    builder->status = TRN_RESOURCE_EXHAUSTED;
    child->release(child);
    return;
  }
  *own = *child;
  child->release = NULL;
  builder->children[builder->child_count++] = own;
}
