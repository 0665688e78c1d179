/* A stream of result rows, pulled: as Arrow arrays or as IPC pieces. */
#ifndef TRUNNION_STREAM_H
#define TRUNNION_STREAM_H
#include <trunnion/arrow.h>
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_stream trn_stream;

/** One encapsulated Arrow IPC record batch message, as slices in order (header with continuation marker and length
 *  first, then body parts; 8-byte aligned as the format wants). */
typedef struct trn_ipc_piece {
  const trn_slice *slices; /**< their own release is NULL: all live until the piece is released */
  size_t slice_count;
  size_t size; /**< bytes of all slices */
  int64_t rows;
  void (*release)(void *owner); /**< once, any thread */
  void *owner;
} trn_ipc_piece;

/** Completions: exactly one per pull that returned TRN_OK, never inline, on any thread, must not block. `error` is
 *  borrowed. End of stream: status TRN_OK and item->release == NULL. Otherwise the callee takes the item. A backend's second
 *  answer to a pull is dropped, and its item released; none may come after `destroy`. */
typedef void (*trn_array_done)(void *user, trn_status status, const trn_error *error, struct ArrowArray *array);
typedef void (*trn_ipc_done)(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece);

/** What a backend implements. next_array or next_ipc is required; the other comes from an adapter when NULL (UNIMPLEMENTED
 *  until the adapter exists). */
typedef struct trn_stream_ops {
  size_t struct_size;
  trn_status (*schema)(void *self, struct ArrowSchema *out, trn_error **error);
  /** The encapsulated IPC schema message; borrowed, lives as long as the stream. */
  trn_status (*schema_ipc)(void *self, trn_slice *out, trn_error **error);
  trn_status (*next_array)(void *self, trn_array_done done, void *user, trn_error **error);
  /** Pieces larger than bytes_max are cut by rows (0: as they come). */
  trn_status (*next_ipc)(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error);
  void (*cancel)(void *self); /**< idempotent, does not block; an outstanding pull ends with CANCELLED */
  void (*destroy)(void *self); /**< no pull is outstanding */
} trn_stream_ops;

TRN_API trn_status trn_stream_create(const trn_stream_ops *ops, void *self, trn_stream **out);
TRN_API trn_stream *trn_stream_ref(trn_stream *stream);
/** The last unref cancels; an outstanding pull still completes. */
TRN_API void trn_stream_unref(trn_stream *stream);
TRN_API trn_status trn_stream_schema(trn_stream *stream, struct ArrowSchema *out, trn_error **error);
TRN_API trn_status trn_stream_schema_ipc(trn_stream *stream, trn_slice *out, trn_error **error);
/** One pull at a time: FAILED_PRECONDITION while another is outstanding. Not OK: no callback. After cancel: CANCELLED;
 *  after a pull that failed: its status. A pull from inside a completion is answered after that completion returned. */
TRN_API trn_status trn_stream_next_array(trn_stream *stream, trn_array_done done, void *user, trn_error **error);
TRN_API trn_status trn_stream_next_ipc(trn_stream *stream, size_t bytes_max, trn_ipc_done done, void *user,
                                       trn_error **error);
TRN_API void trn_stream_cancel(trn_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
