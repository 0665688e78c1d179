/* Arrow arrays: owners, slices, structs, streams, and reading single values. */
#include "arrow/arrow_util.h"

#include <errno.h>

void trn__array_release(struct ArrowArray *array) {
  if (array && array->release) array->release(array);
}

/* ---- structs ---- */

typedef struct struct_owner {
  const void *buffers[1];
  struct ArrowArray *columns;
  struct ArrowArray *pointers[];
} struct_owner;

static void struct_release(struct ArrowArray *array) {
  struct_owner *owner = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) trn__array_release(array->children[i]);
  free(owner->columns);
  free(owner);
  array->release = NULL;
}

trn_status trn__array_struct(struct ArrowArray *columns, size_t count, int64_t length, struct ArrowArray *out) {
  *out = (struct ArrowArray){0};
  struct_owner *owner = calloc(1, sizeof *owner + count * sizeof(struct ArrowArray *));
  struct ArrowArray *copies = calloc(count ? count : 1, sizeof *copies);
  if (!owner || !copies) {
    for (size_t i = 0; i < count; i++) trn__array_release(&columns[i]);
    free(owner);
    free(copies);
    return TRN_RESOURCE_EXHAUSTED;
  }
  for (size_t i = 0; i < count; i++) {
    copies[i] = columns[i];
    columns[i].release = NULL;
    owner->pointers[i] = &copies[i];
  }
  owner->columns = copies;
  *out = (struct ArrowArray){.length = length,
                             .n_buffers = 1,
                             .n_children = (int64_t)count,
                             .buffers = owner->buffers,
                             .children = count ? owner->pointers : NULL,
                             .release = struct_release,
                             .private_data = owner};
  return TRN_OK;
}

/* ---- shared arrays and slices of them ---- */

struct trn_shared_array {
  atomic_size_t refs;
  struct ArrowArray array;
};

trn_status trn__shared_array_create(struct ArrowArray *array, trn_shared_array **out) {
  trn_shared_array *shared = calloc(1, sizeof *shared);
  *out = shared;
  if (!shared) {
    trn__array_release(array);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&shared->refs, 1);
  shared->array = *array;
  array->release = NULL;
  return TRN_OK;
}

trn_shared_array *trn__shared_array_ref(trn_shared_array *shared) {
  atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
  return shared;
}

void trn__shared_array_unref(trn_shared_array *shared) {
  if (!shared || atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1) return;
  trn__array_release(&shared->array);
  free(shared);
}

const struct ArrowArray *trn__shared_array_get(const trn_shared_array *shared) {
  return &shared->array;
}

/* One node of a slice: its buffers are the shared array's, its children nodes of their own, so that each may be moved.
 */
typedef struct slice_owner {
  trn_shared_array *shared;
  struct ArrowArray *children;
  struct ArrowArray *pointers[];
} slice_owner;

static void slice_release(struct ArrowArray *array) {
  slice_owner *owner = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) trn__array_release(array->children[i]);
  trn__array_release(array->dictionary);
  trn__shared_array_unref(owner->shared);
  free(owner->children); /* the dictionary's struct is behind the children's */
  free(owner);
  array->release = NULL;
}

static trn_status slice_node(trn_shared_array *shared, const struct ArrowArray *array, struct ArrowArray *out,
                             unsigned depth) {
  size_t count = (size_t)array->n_children;
  *out = (struct ArrowArray){0};
  if (depth > 2 * TRN_TYPE_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  slice_owner *owner = calloc(1, sizeof *owner + count * sizeof(struct ArrowArray *));
  struct ArrowArray *children = calloc(count + 1, sizeof *children);
  if (!owner || !children) {
    free(owner);
    free(children);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
  owner->shared = shared;
  owner->children = children;
  for (size_t i = 0; i < count; i++) owner->pointers[i] = &children[i];
  *out = *array;
  out->children = count ? owner->pointers : NULL;
  out->dictionary = array->dictionary ? &children[count] : NULL;
  out->release = slice_release;
  out->private_data = owner;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = slice_node(shared, array->children[i], &children[i], depth + 1);
  if (status == TRN_OK && array->dictionary)
    status = slice_node(shared, array->dictionary, &children[count], depth + 1);
  if (status) trn__array_release(out);
  return status;
}

static void slice_move(struct ArrowArray *array, int64_t offset, int64_t length) {
  array->offset += offset;
  array->length = length;
  if (array->null_count) array->null_count = -1;
}

trn_status trn__shared_array_slice(trn_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out) {
  trn_status status = slice_node(shared, &shared->array, out, 0);
  if (status || (offset == 0 && length == out->length)) return status;
  if (out->buffers[0]) { /* validity of its own: children follow through the offset */
    slice_move(out, offset, length);
    return TRN_OK;
  }
  /* Otherwise the columns themselves are moved: every reader understands that. */
  for (int64_t i = 0; i < out->n_children; i++) slice_move(out->children[i], out->offset + offset, length);
  out->offset = 0;
  out->length = length;
  return TRN_OK;
}

trn_status trn__shared_array_column(trn_shared_array *shared, size_t index, int64_t offset, int64_t length,
                                    struct ArrowArray *out) {
  trn_status status = slice_node(shared, shared->array.children[index], out, 0);
  offset += shared->array.offset;
  if (status == TRN_OK && (offset || length != out->length)) slice_move(out, offset, length);
  return status;
}

/* ---- reading ---- */

bool trn__array_is_null(const struct ArrowArray *array, int64_t row) {
  if (array->n_buffers == 0) return true; /* the null type */
  const unsigned char *bits = array->buffers[0];
  int64_t at = array->offset + row;
  return bits && array->null_count && !(bits[at >> 3] >> (at & 7) & 1);
}

/* Bytes of a value of an integer or time format. */
static unsigned int_width(const char *format) {
  switch (format[0]) {
  case 'c':
  case 'C': return 1;
  case 's':
  case 'S': return 2;
  case 'i':
  case 'I': return 4;
  case 't':
    if (strcmp(format, "tdD") == 0 || strcmp(format, "tts") == 0 || strcmp(format, "ttm") == 0 ||
        strcmp(format, "tiM") == 0)
      return 4;
    return 8;
  default: return 8;
  }
}

int64_t trn__array_int(const struct ArrowArray *array, const char *format, int64_t row) {
  const void *data = array->buffers[1];
  int64_t at = array->offset + row;
  bool is_unsigned = format[0] == 'C' || format[0] == 'S' || format[0] == 'I';
  switch (int_width(format)) {
  case 1: return is_unsigned ? ((const uint8_t *)data)[at] : ((const int8_t *)data)[at];
  case 2: return is_unsigned ? ((const uint16_t *)data)[at] : ((const int16_t *)data)[at];
  case 4: return is_unsigned ? (int64_t)((const uint32_t *)data)[at] : ((const int32_t *)data)[at];
  default: return ((const int64_t *)data)[at];
  }
}

double trn__array_double(const struct ArrowArray *array, const char *format, int64_t row) {
  int64_t at = array->offset + row;
  return format[0] == 'f' ? (double)((const float *)array->buffers[1])[at] : ((const double *)array->buffers[1])[at];
}

bool trn__array_bool(const struct ArrowArray *array, int64_t row) {
  const unsigned char *bits = array->buffers[1];
  int64_t at = array->offset + row;
  return bits[at >> 3] >> (at & 7) & 1;
}

trn_str trn__array_bytes(const struct ArrowArray *array, const char *format, int64_t row) {
  int64_t at = array->offset + row, start, end;
  if (format[0] == 'U' || format[0] == 'Z') {
    start = ((const int64_t *)array->buffers[1])[at];
    end = ((const int64_t *)array->buffers[1])[at + 1];
  } else {
    start = ((const int32_t *)array->buffers[1])[at];
    end = ((const int32_t *)array->buffers[1])[at + 1];
  }
  const char *data = array->buffers[2];
  return (trn_str){.data = data ? data + start : "", .size = (size_t)(end - start)};
}

/* ---- a stream over arrays ---- */

typedef struct array_stream {
  struct ArrowSchema schema;
  size_t count, at;
  struct ArrowArray arrays[];
} array_stream;

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  array_stream *self = stream->private_data;
  return trn__schema_copy(&self->schema, out) == TRN_OK ? 0 : ENOMEM;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  array_stream *self = stream->private_data;
  *out = (struct ArrowArray){0};
  if (self->at == self->count) return 0;
  *out = self->arrays[self->at];
  self->arrays[self->at++].release = NULL;
  return 0;
}

static const char *stream_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL;
}

static void stream_release(struct ArrowArrayStream *stream) {
  array_stream *self = stream->private_data;
  trn__schema_release(&self->schema);
  for (size_t i = self->at; i < self->count; i++) trn__array_release(&self->arrays[i]);
  free(self);
  stream->release = NULL;
}

trn_status trn__arrow_stream(struct ArrowSchema *schema, struct ArrowArray *arrays, size_t count,
                             struct ArrowArrayStream *out) {
  *out = (struct ArrowArrayStream){0};
  array_stream *self = calloc(1, sizeof *self + count * sizeof *arrays);
  if (!self) {
    trn__schema_release(schema);
    for (size_t i = 0; i < count; i++) trn__array_release(&arrays[i]);
    return TRN_RESOURCE_EXHAUSTED;
  }
  self->schema = *schema;
  schema->release = NULL;
  self->count = count;
  for (size_t i = 0; i < count; i++) {
    self->arrays[i] = arrays[i];
    arrays[i].release = NULL;
  }
  *out = (struct ArrowArrayStream){.get_schema = stream_schema,
                                   .get_next = stream_next,
                                   .get_last_error = stream_last_error,
                                   .release = stream_release,
                                   .private_data = self};
  return TRN_OK;
}
