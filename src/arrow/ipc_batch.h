/* Record batches that arrive as IPC messages: what is in them, decompressed bodies, and the arrays that they hold.
 * Every position is checked; a schema of our own says what is expected, and bounds the depth. Internal. */
#ifndef TRN_ARROW_IPC_BATCH_H
#define TRN_ARROW_IPC_BATCH_H
#include "arrow/arrow_util.h"

typedef enum trn_ipc_codec { TRN_IPC_PLAIN = 0, TRN_IPC_LZ4, TRN_IPC_ZSTD } trn_ipc_codec;

typedef struct trn_ipc_batch {
  int64_t rows;
  int64_t *nodes;   /* pairs: length, null count */
  int64_t *buffers; /* pairs: offset in the body, size */
  size_t node_count, buffer_count;
  trn_ipc_codec codec;
} trn_ipc_batch;

/* Reads a message's flatbuffer (without its prefix). `body_size` is how much there is. DATA_LOSS, UNIMPLEMENTED (a
 * dictionary). Gives what trn__ipc_batch_finish frees. */
trn_status trn__ipc_batch_parse(const void *header, size_t size, size_t body_size, trn_ipc_batch *out,
                                trn_error **error);
void trn__ipc_batch_finish(trn_ipc_batch *batch);
/* Decompresses the body into a new one (free) of `*size` bytes, aligned as arrays want it; the batch's buffers then
 * refer to that. DATA_LOSS, RESOURCE_EXHAUSTED (over `bytes_max`), UNIMPLEMENTED (zstd). */
trn_status trn__ipc_batch_inflate(trn_ipc_batch *batch, const void *body, size_t body_size, size_t bytes_max,
                                  void **out, size_t *size, trn_error **error);
/* The encapsulated message's head for the batch as it is now: marker, size, flatbuffer, padding. */
trn_status trn__ipc_batch_head(const trn_ipc_batch *batch, size_t body_size, trn_strbuf *out);
/* The batch as a struct array, not copied: it holds the body by `owner`, which is taken also on failure. `body` is
 * aligned to 8 bytes. Offsets of lists and texts are checked. */
trn_status trn__ipc_batch_import(const trn_ipc_batch *batch, const struct ArrowSchema *schema, const void *body,
                                 size_t body_size, trn_slice owner, struct ArrowArray *out, trn_error **error);

/* Whether a schema message is of the columns that `schema` has, as far as bytes of batches go: types, not names, not
 * nullability, not time zones. DATA_LOSS: it is no schema; FAILED_PRECONDITION says which column differs. */
trn_status trn__ipc_schema_check(const void *header, size_t size, const struct ArrowSchema *schema, trn_error **error);

#endif
