/* Arrow IPC messages from outside, read without trust: flat columns only (parameters of statements). Nested types,
 * dictionaries, views and compressed bodies are refused by name. Internal. */
#ifndef TRN_ARROW_IPC_READ_H
#define TRN_ARROW_IPC_READ_H
#include "arrow/arrow_util.h"

typedef enum trn_ipc_kind { TRN_IPC_SCHEMA = 1, TRN_IPC_DICTIONARY = 2, TRN_IPC_BATCH = 3 } trn_ipc_kind;

/* What a Message flatbuffer (without its prefix) holds, and how long its body must be. INVALID_ARGUMENT. */
trn_status trn__ipc_read_kind(const void *header, size_t size, trn_ipc_kind *kind, int64_t *body_size, trn_error **error);
/* The rows of a batch. */
trn_status trn__ipc_read_rows(const void *header, size_t size, int64_t *rows, trn_error **error);
/* Whether rows may be in so many bytes. They cost a bit at least, but for those of no columns or of nulls only, of which as many as
 * one likes cost nothing to claim. Compressed bodies have their factor; the engine reads within the same bounds. */
#define TRN_IPC_FREE_ROWS_MAX (1u << 24)
#define TRN_IPC_ROWS_PER_BYTE_MAX (1u << 10)
static inline bool trn__ipc_rows_fit(int64_t rows, uint64_t bytes) {
  return rows >= 0 && ((uint64_t)rows <= TRN_IPC_FREE_ROWS_MAX ||
                       ((uint64_t)rows - TRN_IPC_FREE_ROWS_MAX) / TRN_IPC_ROWS_PER_BYTE_MAX <= bytes);
}
/* In the flags of a field that came with offsets of 64 bits: it is given as plain utf8 or binary. */
#define TRN_IPC_FLAG_LARGE (1 << 16)
/* Gives `*out` (a struct); `fields` only counts them when `out` is NULL. */
trn_status trn__ipc_read_schema(const void *header, size_t size, struct ArrowSchema *out, size_t *fields,
                                trn_error **error);
/* Whether every position in a message lies in it, and every buffer in its body: who puts zeros behind a header that was cut lets
 * others read something that nobody sent. Schemas with types that are not read here are looked at up to the first one. */
trn_status trn__ipc_check(const void *header, size_t size, size_t body_size, trn_error **error);
/* Gives `*out`, a struct array that owns a copy of the body. Every offset in it is checked. */
trn_status trn__ipc_read_batch(const struct ArrowSchema *schema, const void *header, size_t size, const void *body,
                               size_t body_size, struct ArrowArray *out, trn_error **error);

#endif
