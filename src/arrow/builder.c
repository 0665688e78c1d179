/* Arrow arrays by appending values. */
#include <stdio.h>

#include "arrow/arrow_util.h"

typedef enum builder_kind {
  BUILDER_NULL,
  BUILDER_BOOL,
  BUILDER_FIXED,
  BUILDER_FLOAT,
  BUILDER_BYTES,
  BUILDER_LIST, /* maps too */
  BUILDER_STRUCT
} builder_kind;

struct trn_array_builder {
  builder_kind kind;
  uint8_t width; /* of a fixed value */
  bool failed;
  int64_t length, null_count;
  trn_strbuf validity, data, offsets; /* bits; bits or values or bytes; int32 */
  size_t child_count;
  trn_array_builder **children;
};

static bool kind_of(const char *format, trn_array_builder *builder) {
  static const struct {
    const char *format;
    uint8_t kind, width;
  } kinds[] = {
      {"n", BUILDER_NULL, 0},    {"b", BUILDER_BOOL, 0},    {"c", BUILDER_FIXED, 1},    {"C", BUILDER_FIXED, 1},
      {"s", BUILDER_FIXED, 2},   {"S", BUILDER_FIXED, 2},   {"i", BUILDER_FIXED, 4},    {"I", BUILDER_FIXED, 4},
      {"l", BUILDER_FIXED, 8},   {"L", BUILDER_FIXED, 8},   {"f", BUILDER_FLOAT, 4},    {"g", BUILDER_FLOAT, 8},
      {"u", BUILDER_BYTES, 0},   {"z", BUILDER_BYTES, 0},   {"tdD", BUILDER_FIXED, 4},  {"tdm", BUILDER_FIXED, 8},
      {"tts", BUILDER_FIXED, 4}, {"ttm", BUILDER_FIXED, 4}, {"ttu", BUILDER_FIXED, 8},  {"ttn", BUILDER_FIXED, 8},
      {"tiM", BUILDER_FIXED, 4}, {"tiD", BUILDER_FIXED, 8}, {"tin", BUILDER_FIXED, 16}, {"+l", BUILDER_LIST, 0},
      {"+m", BUILDER_LIST, 0},   {"+s", BUILDER_STRUCT, 0},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(format, kinds[i].format) != 0) continue;
    builder->kind = kinds[i].kind;
    builder->width = kinds[i].width;
    return true;
  }
  int precision, scale, bits = 128;
  bool is_decimal = sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) >= 2;
  bool is_time = strncmp(format, "ts", 2) == 0 || strncmp(format, "tD", 2) == 0;
  builder->kind = BUILDER_FIXED;
  builder->width = is_decimal ? (uint8_t)(bits / 8) : 8;
  return is_time || (is_decimal && (bits == 32 || bits == 64 || bits == 128 || bits == 256));
}

static trn_status builder_create(const struct ArrowSchema *schema, unsigned depth, trn_array_builder **out) {
  *out = NULL;
  if (depth > 2 * TRN_TYPE_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  trn_array_builder *builder = calloc(1, sizeof *builder);
  if (!builder) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = schema->dictionary || !kind_of(schema->format, builder) ? TRN_UNIMPLEMENTED : TRN_OK;
  size_t count = status == TRN_OK && schema->n_children > 0 ? (size_t)schema->n_children : 0;
  if (count) {
    builder->children = calloc(count, sizeof(trn_array_builder *));
    if (!builder->children)
      status = TRN_RESOURCE_EXHAUSTED;
    else
      builder->child_count = count;
  }
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = builder_create(schema->children[i], depth + 1, &builder->children[i]);
  if (status)
    trn__array_builder_destroy(builder);
  else
    *out = builder;
  return status;
}

trn_status trn__array_builder_create(const struct ArrowSchema *schema, trn_array_builder **out) {
  return builder_create(schema, 0, out);
}

void trn__array_builder_destroy(trn_array_builder *builder) {
  if (!builder) return;
  for (size_t i = 0; i < builder->child_count; i++) trn__array_builder_destroy(builder->children[i]);
  free(builder->children);
  trn__strbuf_finish(&builder->validity);
  trn__strbuf_finish(&builder->data);
  trn__strbuf_finish(&builder->offsets);
  free(builder);
}

trn_array_builder *trn__array_builder_child(trn_array_builder *builder, size_t index) {
  return builder->children[index];
}

int64_t trn__array_builder_length(const trn_array_builder *builder) {
  return builder->length;
}

/* ---- appending ---- */

static void append_bit(trn_strbuf *bits, int64_t index, bool bit) {
  if ((index & 7) == 0) trn__strbuf_putc(bits, 0);
  if (bit && !bits->failed) bits->data[index >> 3] = (char)(bits->data[index >> 3] | (1 << (index & 7)));
}

static void append_validity(trn_array_builder *builder, bool is_valid) {
  append_bit(&builder->validity, builder->length, is_valid);
  builder->length++;
  builder->null_count += !is_valid;
}

/* The offset behind the last value. */
static void append_offset(trn_array_builder *builder, size_t end) {
  if (!builder->offsets.size) trn__strbuf_extend(&builder->offsets, 4);
  if (end > INT32_MAX) builder->failed = true;
  int32_t offset = (int32_t)end;
  trn__strbuf_add(&builder->offsets, &offset, 4);
}

void trn__array_append_null(trn_array_builder *builder) {
  switch (builder->kind) {
  case BUILDER_NULL: break;
  case BUILDER_BOOL: append_bit(&builder->data, builder->length, false); break;
  case BUILDER_FIXED:
  case BUILDER_FLOAT: trn__strbuf_extend(&builder->data, builder->width); break;
  case BUILDER_BYTES: append_offset(builder, builder->data.size); break;
  case BUILDER_LIST: append_offset(builder, (size_t)builder->children[0]->length); break;
  case BUILDER_STRUCT:
    for (size_t i = 0; i < builder->child_count; i++) trn__array_append_null(builder->children[i]);
  }
  append_validity(builder, false);
}

void trn__array_append_bool(trn_array_builder *builder, bool value) {
  TRN_ASSERT(builder->kind == BUILDER_BOOL);
  append_bit(&builder->data, builder->length, value);
  append_validity(builder, true);
}

void trn__array_append_int(trn_array_builder *builder, int64_t value) {
  TRN_ASSERT(builder->kind == BUILDER_FIXED);
  unsigned char bytes[32];
  memset(bytes, value < 0 ? 0xff : 0, sizeof bytes); /* wider than 8: sign extended */
  memcpy(bytes, &value, 8);
  trn__strbuf_add(&builder->data, bytes, builder->width);
  append_validity(builder, true);
}

void trn__array_append_double(trn_array_builder *builder, double value) {
  TRN_ASSERT(builder->kind == BUILDER_FLOAT);
  float narrow = (float)value;
  if (builder->width == 4)
    trn__strbuf_add(&builder->data, &narrow, 4);
  else
    trn__strbuf_add(&builder->data, &value, 8);
  append_validity(builder, true);
}

void trn__array_append_bytes(trn_array_builder *builder, const void *data, size_t size) {
  TRN_ASSERT(builder->kind == BUILDER_BYTES);
  trn__strbuf_add(&builder->data, data, size);
  append_offset(builder, builder->data.size);
  append_validity(builder, true);
}

void trn__array_append_fixed(trn_array_builder *builder, const void *data, size_t size) {
  TRN_ASSERT((builder->kind == BUILDER_FIXED || builder->kind == BUILDER_FLOAT) && size == builder->width);
  trn__strbuf_add(&builder->data, data, size);
  append_validity(builder, true);
}

void trn__array_append_end(trn_array_builder *builder) {
  TRN_ASSERT(builder->kind == BUILDER_LIST || builder->kind == BUILDER_STRUCT);
  if (builder->kind == BUILDER_LIST) append_offset(builder, (size_t)builder->children[0]->length);
  append_validity(builder, true);
}

/* ---- the array ---- */

typedef struct built {
  const void *buffers[3];
  struct ArrowArray *children;
  struct ArrowArray *pointers[];
} built;

static void built_release(struct ArrowArray *array) {
  built *owner = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) trn__array_release(array->children[i]);
  for (unsigned i = 0; i < 3; i++) free((void *)owner->buffers[i]);
  free(owner->children);
  free(owner);
  array->release = NULL;
}

static const void *take(trn_strbuf *buffer) {
  const void *data = buffer->data;
  *buffer = (trn_strbuf){0};
  return data;
}

static bool is_even(const trn_array_builder *builder) {
  if (builder->kind != BUILDER_STRUCT) return true;
  for (size_t i = 0; i < builder->child_count; i++)
    if (builder->children[i]->length != builder->length) return false;
  return true;
}

trn_status trn__array_builder_finish(trn_array_builder *builder, struct ArrowArray *out) {
  static const uint8_t buffer_counts[] = {
      [BUILDER_NULL] = 0,  [BUILDER_BOOL] = 2, [BUILDER_FIXED] = 2, [BUILDER_FLOAT] = 2,
      [BUILDER_BYTES] = 3, [BUILDER_LIST] = 2, [BUILDER_STRUCT] = 1};
  *out = (struct ArrowArray){0};
  if ((builder->kind == BUILDER_BYTES || builder->kind == BUILDER_LIST) && !builder->offsets.size)
    trn__strbuf_extend(&builder->offsets, 4);
  if (builder->failed || builder->validity.failed || builder->data.failed || builder->offsets.failed)
    return TRN_RESOURCE_EXHAUSTED;
  if (!is_even(builder)) return TRN_INTERNAL;
  size_t count = builder->child_count;
  built *owner = calloc(1, sizeof *owner + count * sizeof(struct ArrowArray *));
  struct ArrowArray *children = calloc(count ? count : 1, sizeof *children);
  if (!owner || !children) {
    free(owner);
    free(children);
    return TRN_RESOURCE_EXHAUSTED;
  }
  for (size_t i = 0; i < count; i++) owner->pointers[i] = &children[i];
  owner->children = children;
  *out = (struct ArrowArray){.length = builder->length,
                             .null_count = builder->null_count,
                             .n_buffers = buffer_counts[builder->kind],
                             .n_children = (int64_t)count,
                             .buffers = owner->buffers,
                             .children = count ? owner->pointers : NULL,
                             .release = built_release,
                             .private_data = owner};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = trn__array_builder_finish(builder->children[i], &children[i]);
  if (status) {
    trn__array_release(out);
    return status;
  }
  bool has_offsets = builder->kind == BUILDER_BYTES || builder->kind == BUILDER_LIST;
  if (builder->null_count && builder->kind != BUILDER_NULL)
    owner->buffers[0] = take(&builder->validity);
  else
    trn__strbuf_finish(&builder->validity);
  if (has_offsets) owner->buffers[1] = take(&builder->offsets);
  owner->buffers[has_offsets ? 2 : 1] = take(&builder->data);
  builder->length = builder->null_count = 0;
  return TRN_OK;
}
