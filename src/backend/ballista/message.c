/* IPC messages of executors as what streams give: bytes that are passed on, or arrays. */
#include "arrow/ipc_batch.h"
#include "arrow/ipc_read.h"
#include "backend/ballista/backend.h"

typedef struct piece {
  trn_slice bytes; /* what the slices lie in */
  trn_strbuf head; /* marker, size, flatbuffer: always in one slice */
  trn_slice slices[2];
} piece;

static void piece_release(void *owner) {
  piece *p = owner;
  if (p->bytes.release) p->bytes.release(p->bytes.owner);
  trn__strbuf_finish(&p->head);
  free(p);
}

static void release(trn_slice *slice) {
  if (slice->release) slice->release(slice->owner);
  *slice = (trn_slice){0};
}

/* The body goes on where it lies, behind a copy of its head. */
static trn_status fill_plain(piece *p, const trn_ballista_message *message, trn_ipc_piece *out, trn_error **error) {
  static const char zeros[8];
  size_t padding = (8 - message->header_size % 8) % 8;
  const uint32_t prefix[2] = {0xffffffffu, (uint32_t)(message->header_size + padding)};
  trn_ipc_kind kind;
  int64_t told = -1;
  if (trn__ipc_read_kind(message->header, message->header_size, &kind, &told, NULL) ||
      (uint64_t)told != message->body_size)
    return trn_error_set(error, TRN_DATA_LOSS, NULL, "a record batch has %zu bytes of the %lld that it tells of",
                         message->body_size, (long long)told);
  trn__strbuf_add(&p->head, prefix, sizeof prefix);
  trn__strbuf_add(&p->head, message->header, message->header_size);
  trn__strbuf_add(&p->head, zeros, padding);
  if (p->head.failed) return trn__no_memory(error);
  p->slices[0] = (trn_slice){.data = p->head.data, .size = p->head.size};
  out->slice_count = 1;
  if (message->body_size)
    p->slices[out->slice_count++] = (trn_slice){.data = message->body, .size = message->body_size};
  return TRN_OK;
}

/* A body that arrays can lie in: decompressed, or copied, since arrays want their buffers aligned and a message has its
 * body anywhere. Gives `*body` (free). */
static trn_status own_body(trn_ipc_batch *batch, const trn_ballista_message *message, void **body, size_t *size,
                           trn_error **error) {
  if (batch->codec)
    return trn__ipc_batch_inflate(batch, message->body, message->body_size, TRN_BALLISTA_BATCH_BYTES_MAX, body, size,
                                  error);
  *size = message->body_size;
  *body = malloc(*size ? *size : 1);
  if (*body && *size) memcpy(*body, message->body, *size);
  return *body ? TRN_OK : trn__no_memory(error);
}

static trn_status fill_inflated(piece *p, const trn_ipc_batch *batch, size_t size, trn_ipc_piece *out,
                                trn_error **error) {
  if (trn__ipc_batch_head(batch, size, &p->head)) return trn__no_memory(error);
  p->slices[0] = (trn_slice){.data = p->head.data, .size = p->head.size};
  out->slice_count = 1;
  if (size) p->slices[out->slice_count++] = (trn_slice){.data = p->bytes.data, .size = size};
  return TRN_OK;
}

/* The batch of `message` as a piece; as an array when the piece would be too large, or when only that is wanted. */
static trn_status convert(trn_ipc_batch *batch, trn_ballista_message *message, bool wants_array, size_t bytes_max,
                          const struct ArrowSchema *schema, trn_ipc_piece *out, struct ArrowArray *array,
                          trn_error **error) {
  size_t size = message->body_size;
  void *body = NULL;
  trn_status status = TRN_OK;
  bool is_large = bytes_max && batch->rows > 1 && message->header_size + size > bytes_max;
  if (wants_array || is_large || batch->codec) {
    status = own_body(batch, message, &body, &size, error);
    if (status) return status;
    release(&message->bytes);
    message->bytes = (trn_slice){body, size, free, body};
    is_large = bytes_max && batch->rows > 1 && size + 16 * (batch->buffer_count + batch->node_count) > bytes_max;
  }
  if (wants_array || is_large) {
    trn_slice owner = message->bytes;
    message->bytes = (trn_slice){0};
    return trn__ipc_batch_import(batch, schema, body, size, owner, array, error);
  }
  piece *p = calloc(1, sizeof *p);
  if (!p) return trn__no_memory(error);
  p->bytes = message->bytes;
  message->bytes = (trn_slice){0};
  if (body)
    status = fill_inflated(p, batch, size, out, error);
  else
    status = fill_plain(p, message, out, error);
  for (size_t i = 0; i < out->slice_count; i++) out->size += p->slices[i].size;
  out->slices = p->slices, out->rows = batch->rows, out->release = piece_release, out->owner = p;
  if (!status) return TRN_OK;
  piece_release(p);
  *out = (trn_ipc_piece){0};
  return status;
}

trn_status trn__ballista_message_piece(trn_ballista_message message, size_t bytes_max, const struct ArrowSchema *schema,
                                       trn_ipc_piece *out, struct ArrowArray *array, trn_error **error) {
  trn_ipc_batch batch = {0};
  *out = (trn_ipc_piece){0};
  *array = (struct ArrowArray){0};
  trn_status status = trn__ipc_batch_parse(message.header, message.header_size, message.body_size, &batch, error);
  if (!status) status = convert(&batch, &message, false, bytes_max, schema, out, array, error);
  release(&message.bytes);
  trn__ipc_batch_finish(&batch);
  return status;
}

trn_status trn__ballista_message_array(trn_ballista_message message, const struct ArrowSchema *schema,
                                       struct ArrowArray *out, trn_error **error) {
  trn_ipc_batch batch = {0};
  trn_ipc_piece none = {0};
  *out = (struct ArrowArray){0};
  trn_status status = trn__ipc_batch_parse(message.header, message.header_size, message.body_size, &batch, error);
  if (!status) status = convert(&batch, &message, true, 0, schema, &none, out, error);
  release(&message.bytes);
  trn__ipc_batch_finish(&batch);
  return status;
}

trn_status trn__ballista_rows_piece(const struct ArrowSchema *schema, const struct ArrowArray *rows, trn_ipc_piece *out,
                                    trn_error **error) {
  piece *p = calloc(1, sizeof *p);
  *out = (trn_ipc_piece){0};
  if (!p) return trn__no_memory(error);
  trn_status status = trn__ipc_write_batch(schema, rows, &p->head);
  if (status) {
    piece_release(p);
    return trn_error_set(error, status, NULL, "a batch of %lld rows cannot be encoded", (long long)rows->length);
  }
  p->slices[0] = (trn_slice){.data = p->head.data, .size = p->head.size};
  *out = (trn_ipc_piece){p->slices, 1, p->head.size, rows->length, piece_release, p};
  return TRN_OK;
}
