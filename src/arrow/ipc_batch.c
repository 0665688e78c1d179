/* Record batches from IPC messages. */
#include "arrow/ipc_batch.h"

#include <lz4frame.h>

#include "arrow/flatbuf_read.h"
#include "arrow/ipc_read.h"
#include "arrow/ipc_type.h"

static trn_status malformed(trn_error **error) {
  return trn_error_set(error, TRN_DATA_LOSS, NULL, "the Arrow data is malformed");
}

/* ---- what is in a message ---- */

/* The header table of a message, and what kind it is; 0: malformed. */
static int64_t read_message(reader *r, table *header) {
  table message = table_at(r, (size_t)get(r, 0, 4));
  int64_t type = number(r, &message, 1, 1, 0) & 0xff;
  size_t at = follow(r, &message, 2);
  *header = table_at(r, at);
  return r->bad || !at ? 0 : type;
}

/* BodyCompression { codec: byte = LZ4_FRAME, method: byte = BUFFER } */
static trn_ipc_codec read_codec(reader *r, const table *batch) {
  size_t at = follow(r, batch, 3);
  if (!at) return TRN_IPC_PLAIN;
  table compression = table_at(r, at);
  return number(r, &compression, 0, 1, 0) ? TRN_IPC_ZSTD : TRN_IPC_LZ4;
}

trn_status trn__ipc_batch_parse(const void *header, size_t size, size_t body_size, trn_ipc_batch *out,
                                trn_error **error) {
  reader r = {header, size, false};
  table batch;
  int64_t kind = read_message(&r, &batch);
  *out = (trn_ipc_batch){0};
  if (kind == 2) return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow dictionaries are not read");
  if (kind != MESSAGE_RECORD_BATCH) return malformed(error);
  out->rows = number(&r, &batch, 0, 8, 0);
  size_t nodes = vector(&r, &batch, 1, 16, &out->node_count);
  size_t buffers = vector(&r, &batch, 2, 16, &out->buffer_count);
  out->codec = read_codec(&r, &batch);
  if (r.bad || !trn__ipc_rows_fit(out->rows, body_size)) return malformed(error);
  int64_t *pairs = calloc(out->node_count + out->buffer_count + 1, 2 * sizeof *pairs);
  if (!pairs) return trn__no_memory(error);
  out->nodes = pairs;
  out->buffers = pairs + 2 * out->node_count;
  if (out->node_count) memcpy(out->nodes, r.data + nodes, 16 * out->node_count);
  if (out->buffer_count) memcpy(out->buffers, r.data + buffers, 16 * out->buffer_count);
  bool ok = true;
  for (size_t i = 0; i < out->buffer_count; i++) {
    int64_t at = out->buffers[2 * i], length = out->buffers[2 * i + 1];
    ok = ok && at >= 0 && length >= 0 && (uint64_t)at <= body_size && (uint64_t)length <= body_size - (uint64_t)at;
  }
  for (size_t i = 0; i < out->node_count; i++)
    ok = ok && out->nodes[2 * i] >= 0 && out->nodes[2 * i + 1] >= 0 && out->nodes[2 * i + 1] <= out->nodes[2 * i];
  if (ok) return TRN_OK;
  trn__ipc_batch_finish(out);
  return malformed(error);
}

void trn__ipc_batch_finish(trn_ipc_batch *batch) {
  free(batch->nodes);
  *batch = (trn_ipc_batch){0};
}

/* ---- decompression: each buffer on its own, behind 8 bytes that say how large it was (-1: it is as it is) ---- */

static size_t padded(size_t size) {
  return (size + 7) & ~(size_t)7;
}

/* The size that a buffer will have. False: it lies. LZ4 makes at most 255 bytes of one. */
static bool plain_size(const uint8_t *from, size_t size, size_t *out) {
  int64_t told;
  *out = 0;
  if (size == 0) return true;
  if (size < 8) return false;
  memcpy(&told, from, 8);
  if (told == -1) told = (int64_t)size - 8;
  *out = (size_t)told;
  return told >= 0 && (uint64_t)told / 256 <= size;
}

static bool inflate_buffer(LZ4F_dctx *context, const uint8_t *from, size_t size, uint8_t *to, size_t plain) {
  static const LZ4F_decompressOptions_t options = {.stableDst = 1};
  int64_t told;
  if (!plain) return true;
  memcpy(&told, from, 8);
  from += 8, size -= 8;
  if (told == -1) {
    memcpy(to, from, plain);
    return true;
  }
  for (size_t done = 0; done < plain;) {
    size_t room = plain - done, taken = size;
    size_t left = LZ4F_decompress(context, to + done, &room, from, &taken, &options);
    if (LZ4F_isError(left) || (!room && !taken)) return false;
    done += room, from += taken, size -= taken;
  }
  LZ4F_resetDecompressionContext(context);
  return true;
}

trn_status trn__ipc_batch_inflate(trn_ipc_batch *batch, const void *body, size_t body_size, size_t bytes_max,
                                  void **out, size_t *size, trn_error **error) {
  LZ4F_dctx *context = NULL;
  trn_status status = TRN_OK;
  uint8_t *to = NULL;
  size_t total = 0, plain;
  (void)body_size; /* parse has compared every buffer with it */
  *out = NULL;
  if (batch->codec == TRN_IPC_ZSTD)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow data that is compressed with zstd is not read");
  for (size_t i = 0; i < batch->buffer_count; i++) {
    const uint8_t *from = (const uint8_t *)body + batch->buffers[2 * i];
    if (!plain_size(from, (size_t)batch->buffers[2 * i + 1], &plain)) return malformed(error);
    total += padded(plain);
    if (total > bytes_max)
      return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "a record batch of more than %zu bytes", bytes_max);
  }
  to = malloc(total ? total : 1);
  if (!to || LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) status = trn__no_memory(error);
  *size = total, total = 0;
  for (size_t i = 0; i < batch->buffer_count && !status; i++) {
    int64_t *pair = &batch->buffers[2 * i];
    const uint8_t *from = (const uint8_t *)body + pair[0];
    plain_size(from, (size_t)pair[1], &plain);
    if (!inflate_buffer(context, from, (size_t)pair[1], to + total, plain)) status = malformed(error);
    memset(to + total + plain, 0, padded(plain) - plain);
    pair[0] = (int64_t)total, pair[1] = (int64_t)plain;
    total += padded(plain);
  }
  LZ4F_freeDecompressionContext(context);
  batch->codec = TRN_IPC_PLAIN;
  if (status)
    free(to);
  else
    *out = to;
  return status;
}

trn_status trn__ipc_batch_head(const trn_ipc_batch *batch, size_t body_size, trn_strbuf *out) {
  trn_fb fb = {0};
  const void *metadata = trn__ipc_batch_metadata(&fb, batch->nodes, batch->node_count, batch->buffers,
                                                 batch->buffer_count, batch->rows, (int64_t)body_size);
  uint32_t prefix[2] = {0xffffffffu, (uint32_t)fb.size};
  trn__strbuf_add(out, prefix, sizeof prefix);
  if (metadata) trn__strbuf_add(out, metadata, fb.size);
  trn__fb_finish(&fb);
  return metadata && !out->failed ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- arrays ---- */

/* The body's owner, shared by all nodes, so that each may be moved and released on its own. */
typedef struct body_owner {
  atomic_size_t refs;
  trn_slice slice;
} body_owner;

typedef struct node_owner {
  body_owner *body;
  const void *buffers[3];
  struct ArrowArray *children;
  struct ArrowArray *pointers[];
} node_owner;

static void body_unref(body_owner *body) {
  if (!body || atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel) != 1) return;
  if (body->slice.release) body->slice.release(body->slice.owner);
  free(body);
}

static void node_release(struct ArrowArray *array) {
  node_owner *owner = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) trn__array_release(array->children[i]);
  free(owner->children);
  body_unref(owner->body);
  free(owner);
  array->release = NULL;
}

typedef struct import {
  const trn_ipc_batch *batch;
  const uint8_t *body;
  body_owner *owner;
  size_t node, buffer;
} import;

/* The next buffer; false: it is shorter than `needed` or misaligned. */
static bool next_buffer(import *in, size_t needed, trn_str *out) {
  if (in->buffer == in->batch->buffer_count) return false;
  const int64_t *pair = &in->batch->buffers[2 * in->buffer++];
  *out = (trn_str){(const char *)in->body + pair[0], (size_t)pair[1]};
  return out->size >= needed && pair[0] % 8 == 0;
}

static bool offsets_are_good(const char *offsets, int64_t rows, bool is_large, size_t items) {
  int64_t last = 0;
  for (int64_t i = 0; i <= rows; i++) {
    int64_t value = is_large ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];
    if (value < last || (uint64_t)value > items) return false;
    last = value;
  }
  return true;
}

/* Gives an empty node with `child_count` children; false: no memory. */
static bool node_init(import *in, const ipc_type *type, int64_t rows, int64_t nulls, size_t child_count,
                      struct ArrowArray *out) {
  static const int64_t buffers[] = {
      [LAYOUT_NULL] = 0, [LAYOUT_BITS] = 2,   [LAYOUT_FIXED] = 2,      [LAYOUT_BYTES] = 3,
      [LAYOUT_LIST] = 2, [LAYOUT_STRUCT] = 1, [LAYOUT_FIXED_LIST] = 1, [LAYOUT_UNION] = 2};
  node_owner *owner = calloc(1, sizeof *owner + child_count * sizeof(struct ArrowArray *));
  struct ArrowArray *children = calloc(child_count + 1, sizeof *children);
  *out = (struct ArrowArray){0};
  if (!owner || !children) {
    free(owner);
    free(children);
    return false;
  }
  for (size_t i = 0; i < child_count; i++) owner->pointers[i] = &children[i];
  atomic_fetch_add_explicit(&in->owner->refs, 1, memory_order_relaxed);
  owner->body = in->owner, owner->children = children;
  *out = (struct ArrowArray){.length = rows,
                             .null_count = nulls,
                             .n_buffers = buffers[type->layout],
                             .n_children = (int64_t)child_count,
                             .buffers = owner->buffers,
                             .children = child_count ? owner->pointers : NULL,
                             .release = node_release,
                             .private_data = owner};
  return true;
}

/* Buffers of a node but its validity. `*items`: what its children must have, -1: as many as rows. */
static bool import_values(import *in, const ipc_type *type, int64_t rows, const void **buffers, trn_str *offsets,
                          trn_str *data) {
  size_t count = (size_t)rows, width = type->is_large ? 8 : 4;
  switch (type->layout) {
  case LAYOUT_BITS:
    if (!next_buffer(in, (count + 7) / 8, data)) return false;
    break;
  case LAYOUT_FIXED:
    if (type->width && count > SIZE_MAX / (size_t)type->width) return false;
    if (!next_buffer(in, count * (size_t)type->width, data)) return false;
    break;
  case LAYOUT_BYTES:
  case LAYOUT_LIST:
    if (count >= SIZE_MAX / width) return false;
    if (!next_buffer(in, rows ? width * (count + 1) : 0, offsets)) return false;
    buffers[1] = offsets->data;
    if (type->layout == LAYOUT_LIST) return true;
    if (!next_buffer(in, 0, data)) return false;
    buffers[2] = data->data;
    return !rows || offsets_are_good(offsets->data, rows, type->is_large, data->size);
  default: return true;
  }
  buffers[1] = data->data;
  return true;
}

static trn_status import_node(import *in, const struct ArrowSchema *schema, unsigned depth, struct ArrowArray *out,
                              trn_error **error);

static trn_status import_children(import *in, const struct ArrowSchema *schema, const ipc_type *type, unsigned depth,
                                  trn_str offsets, struct ArrowArray *out, trn_error **error) {
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < schema->n_children && !status; i++) {
    status = import_node(in, schema->children[i], depth + 1, out->children[i], error);
    if (status) break;
    int64_t length = out->children[i]->length;
    bool ok = true;
    if (type->layout == LAYOUT_STRUCT) ok = length >= out->length;
    if (type->layout == LAYOUT_FIXED_LIST) ok = !type->width || length / type->width >= out->length;
    if (type->layout == LAYOUT_LIST)
      ok = !out->length || offsets_are_good(offsets.data, out->length, type->is_large, (size_t)length);
    if (!ok) status = malformed(error);
  }
  return status;
}

/* Recurses as deep as our own schema. */
static trn_status import_node(import *in, const struct ArrowSchema *schema, unsigned depth, struct ArrowArray *out,
                              trn_error **error) {
  ipc_type type;
  trn_str validity = {0}, offsets = {0}, data = {0};
  if (depth > IPC_DEPTH_MAX || trn__ipc_type_of(schema, &type) || type.layout == LAYOUT_UNION)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "results of the Arrow type '%s' are not read", schema->format);
  if (in->node == in->batch->node_count) return malformed(error);
  int64_t rows = in->batch->nodes[2 * in->node], nulls = in->batch->nodes[2 * in->node + 1];
  in->node++;
  if (!node_init(in, &type, rows, nulls, (size_t)schema->n_children, out)) return trn__no_memory(error);
  node_owner *owner = out->private_data;
  bool ok = type.layout == LAYOUT_NULL || next_buffer(in, nulls ? ((size_t)rows + 7) / 8 : 0, &validity);
  owner->buffers[0] = nulls ? validity.data : NULL;
  ok = ok && import_values(in, &type, rows, owner->buffers, &offsets, &data);
  trn_status status = ok ? import_children(in, schema, &type, depth, offsets, out, error) : malformed(error);
  if (status) trn__array_release(out);
  return status;
}

trn_status trn__ipc_batch_import(const trn_ipc_batch *batch, const struct ArrowSchema *schema, const void *body,
                                 size_t body_size, trn_slice owner, struct ArrowArray *out, trn_error **error) {
  size_t count = (size_t)schema->n_children, done = 0;
  body_owner *shared = calloc(1, sizeof *shared);
  struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
  trn_status status = shared && columns ? TRN_OK : trn__no_memory(error);
  (void)body_size; /* parse has compared every buffer with it */
  if (shared) {
    atomic_init(&shared->refs, 1);
    shared->slice = owner;
  } else if (owner.release) {
    owner.release(owner.owner);
  }
import in = {batch, body, shared, 0, 0 };
  while (done < count && !status) {
    status = import_node(&in, schema->children[done], 0, &columns[done], error);
    if (!status && columns[done++].length != batch->rows) status = malformed(error);
  }
  if (!status) {
    if (trn__array_struct(columns, count, batch->rows, out)) status = trn__no_memory(error);
  } else {
    for (size_t i = 0; i < done; i++) trn__array_release(&columns[i]);
  }
  free(columns);
  body_unref(shared);
  return status;
}

/* ---- schemas ---- */

/* Whether the type table has what the format says. */
static bool type_is(reader *r, const table *t, const ipc_type *type) {
  switch (type->id) {
  case IPC_INT: return number(r, t, 0, 4, 0) == type->width * 8 && (number(r, t, 1, 1, 0) & 1) == type->is_signed;
  case IPC_FLOAT:
  case IPC_INTERVAL:
  case IPC_TIMESTAMP: return number(r, t, 0, 2, 0) == type->unit;
  case IPC_DATE:
  case IPC_TIME:
  case IPC_DURATION: return number(r, t, 0, 2, 1) == type->unit;
  case IPC_DECIMAL:
    return number(r, t, 0, 4, 0) == type->precision && number(r, t, 1, 4, 0) == type->scale &&
           number(r, t, 2, 4, 128) == type->width * 8;
  case IPC_FIXED_BINARY:
  case IPC_FIXED_LIST: return number(r, t, 0, 4, 0) == type->width;
  default: return true;
  }
}

/* The fields of a vector against the children of `schema`: 0 they match, else the number (from 1) of the first that
 * does not. Recurses as deep as our own schema. */
static size_t check_fields(reader *r, const table *parent, unsigned index, const struct ArrowSchema *schema,
                           unsigned depth) {
  size_t count, at = vector(r, parent, index, 4, &count);
  if (count != (size_t)schema->n_children || depth > IPC_DEPTH_MAX) return count + 1;
  for (size_t i = 0; i < count; i++) {
    ipc_type type;
    table field = table_at(r, at + 4 * i + (size_t)get(r, at + 4 * i, 4));
    unsigned id = (unsigned)number(r, &field, 2, 1, 0) & 0xff;
    table inside = table_at(r, follow(r, &field, 3));
    bool ok = !r->bad && !trn__ipc_type_of(schema->children[i], &type) && id == type.id && type_is(r, &inside, &type);
    if (!ok || field_at(r, &field, 4, 4) || check_fields(r, &field, 5, schema->children[i], depth + 1)) return i + 1;
  }
  return 0;
}

trn_status trn__ipc_schema_check(const void *header, size_t size, const struct ArrowSchema *schema, trn_error **error) {
  reader r = {header, size, false};
  table root;
  if (read_message(&r, &root) != MESSAGE_SCHEMA) return malformed(error);
  size_t count;
  vector(&r, &root, 1, 4, &count);
  size_t wrong = check_fields(&r, &root, 1, schema, 0);
  if (r.bad) return malformed(error);
  if (!wrong) return TRN_OK;
  if (count != (size_t)schema->n_children)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%zu columns arrive, and %lld are expected", count,
                         (long long)schema->n_children);
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "column %zu arrives with another type than '%s'", wrong,
                       schema->children[wrong - 1]->format);
}
