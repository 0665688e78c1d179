/* Streams: the contract of pulls kept for every backend, and the adapter from arrays to IPC.
 *
 * Two counts: `users` are the references that callers hold; `refs` keep the memory: one for all users together, one for
 * a pull that is outstanding. The last user cancels; the last ref destroys. */
#include "core/core.h"

#include <pthread.h>
#include <trunnion/stream.h>

#include "arrow/arrow_util.h"
#include "core/query.h"

typedef struct completion {
  bool is_ipc;
  trn_status status;
  trn_error *error; /* a reference of ours when it waits, else borrowed */
  union {
    struct ArrowArray array;
    trn_ipc_piece piece;
  } item;
} completion;

struct trn_stream {
  atomic_size_t users, refs;
  trn_stream_ops ops;
  void *self;
  bool is_adapted; /* next_ipc is ours */
  atomic_bool is_pulling, is_cancelled;
  atomic_bool is_expected; /* an answer is: a second one is somebody's mistake, and dropped */
  atomic_int failed; /* the status of a failed pull: rows may be missing, so none may follow as if nothing were */

  /* of the pull that is outstanding */
  trn_array_done array_done;
  trn_ipc_done ipc_done;
  void *user;
  size_t bytes_max;

  pthread_mutex_t mu;
  /* guarded by mu: completions do not overlap, even when a pull from inside one is answered before it returned */
  bool is_delivering, is_waiting;
  completion waiting;
  trn_strbuf schema_bytes; /* guarded by mu until it is there */
  bool has_schema_bytes;

  /* the adapter; touched by the pull that is outstanding only */
  struct ArrowSchema schema;
  struct ArrowArray rest; /* rows from rest_offset on are still to be sent */
  int64_t rest_offset, rest_rows;
  trn_pool *pool; /* answers pulls that need no batch from the backend: never inline */
};

/* ---- what stands in for optional slots ---- */

static trn_status stub_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self;
  (void)out;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this stream gives its schema as IPC only");
}

static trn_status stub_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  (void)self;
  (void)done;
  (void)user;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this stream gives IPC only");
}

static void stub_void(void *self) {
  (void)self;
}

trn_status trn_stream_create(const trn_stream_ops *given, void *self, trn_stream **out) {
  *out = NULL;
  trn_stream_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.next_array && !ops.next_ipc) return TRN_INVALID_ARGUMENT;
  if (!ops.schema && (ops.next_array || !ops.schema_ipc)) return TRN_INVALID_ARGUMENT;
  trn_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return TRN_RESOURCE_EXHAUSTED;
  stream->is_adapted = !ops.next_ipc;
  if (!ops.schema) ops.schema = stub_schema;
  if (!ops.next_array) ops.next_array = stub_next_array;
  if (!ops.cancel) ops.cancel = stub_void;
  if (!ops.destroy) ops.destroy = stub_void;
  atomic_init(&stream->users, 1);
  atomic_init(&stream->refs, 1);
  pthread_mutex_init(&stream->mu, NULL);
  stream->ops = ops;
  stream->self = self;
  *out = stream;
  return TRN_OK;
}

trn_stream *trn_stream_ref(trn_stream *stream) {
  atomic_fetch_add_explicit(&stream->users, 1, memory_order_relaxed);
  return stream;
}

static void stream_unref(trn_stream *stream) {
  if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) return;
  stream->ops.destroy(stream->self);
  trn__pool_destroy(stream->pool);
  trn__schema_release(&stream->schema);
  trn__array_release(&stream->rest);
  trn__strbuf_finish(&stream->schema_bytes);
  pthread_mutex_destroy(&stream->mu);
  free(stream);
}

void trn_stream_cancel(trn_stream *stream) {
  if (!atomic_exchange(&stream->is_cancelled, true)) stream->ops.cancel(stream->self);
}

void trn_stream_unref(trn_stream *stream) {
  if (!stream || atomic_fetch_sub_explicit(&stream->users, 1, memory_order_acq_rel) != 1) return;
  trn_stream_cancel(stream);
  stream_unref(stream);
}

/* ---- schema ---- */

trn_status trn_stream_schema(trn_stream *stream, struct ArrowSchema *out, trn_error **error) {
  *out = (struct ArrowSchema){0};
  return stream->ops.schema(stream->self, out, error);
}

/* thread: any; locks: none */
static trn_status schema_encode(trn_stream *stream, trn_error **error) {
  struct ArrowSchema schema;
  trn_status status = trn_stream_schema(stream, &schema, error);
  if (status) return status;
  trn_strbuf bytes = {0};
  status = trn__ipc_write_schema(&schema, &bytes);
  trn__schema_release(&schema);
  pthread_mutex_lock(&stream->mu);
  if (status == TRN_OK && !stream->has_schema_bytes) { /* somebody may have been faster: pointers to it are out */
    stream->schema_bytes = bytes;
    stream->has_schema_bytes = true;
    bytes = (trn_strbuf){0};
  }
  pthread_mutex_unlock(&stream->mu);
  trn__strbuf_finish(&bytes);
  if (status) trn_error_set(error, status, NULL, "the schema cannot be written as Arrow IPC");
  return status;
}

trn_status trn_stream_schema_ipc(trn_stream *stream, trn_slice *out, trn_error **error) {
  *out = (trn_slice){0};
  if (stream->ops.schema_ipc) return stream->ops.schema_ipc(stream->self, out, error);
  pthread_mutex_lock(&stream->mu);
  bool is_there = stream->has_schema_bytes;
  pthread_mutex_unlock(&stream->mu);
  trn_status status = is_there ? TRN_OK : schema_encode(stream, error);
  if (status == TRN_OK) *out = (trn_slice){.data = stream->schema_bytes.data, .size = stream->schema_bytes.size};
  return status;
}

/* ---- completions ---- */

static void call_done(trn_stream *stream, completion *c) {
  void *user = stream->user;
  trn_array_done array_done = stream->array_done;
  trn_ipc_done ipc_done = stream->ipc_done;
  if (c->status) atomic_store(&stream->failed, (int)c->status);
  atomic_store(&stream->is_pulling, false); /* from here on the next pull may overwrite them */
  if (c->is_ipc)
    ipc_done(user, c->status, c->error, &c->item.piece);
  else
    array_done(user, c->status, c->error, &c->item.array);
}

static void drop(completion *c) {
  if (c->status) return;
  if (!c->is_ipc) {
    trn__array_release(&c->item.array);
  } else if (c->item.piece.release) {
    c->item.piece.release(c->item.piece.owner);
  }
}

/* Takes the item; borrows the error. Releases the reference of the pull. */
static void complete(trn_stream *stream, completion *c) {
  if (!atomic_exchange(&stream->is_expected, false)) {
    drop(c);
    return;
  }
  pthread_mutex_lock(&stream->mu);
  if (stream->is_delivering) {
    stream->waiting = *c;
    stream->waiting.error = trn_error_ref(c->error);
    stream->is_waiting = true;
    pthread_mutex_unlock(&stream->mu);
    return; /* who delivers goes on with it */
  }
  stream->is_delivering = true;
  pthread_mutex_unlock(&stream->mu);

  call_done(stream, c);
  for (;;) {
    completion next;
    pthread_mutex_lock(&stream->mu);
    bool is_more = stream->is_waiting;
    next = stream->waiting;
    stream->is_waiting = false;
    stream->is_delivering = is_more;
    pthread_mutex_unlock(&stream->mu);
    if (!is_more) break;
    call_done(stream, &next);
    trn_error_unref(next.error);
    stream_unref(stream); /* not the last: the first completion's is still held */
  }
  stream_unref(stream);
}

static void on_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  completion c = {.status = status, .error = (trn_error *)error};
  if (status == TRN_OK && array) {
    c.item.array = *array;
    array->release = NULL;
  }
  complete(user, &c);
}

static void on_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  completion c = {.is_ipc = true, .status = status, .error = (trn_error *)error};
  if (status == TRN_OK && piece) c.item.piece = *piece;
  complete(user, &c);
}

/* ---- pulls ---- */

static trn_status pull_begin(trn_stream *stream, trn_error **error) {
  if (atomic_load(&stream->is_cancelled)) return trn_error_set(error, TRN_CANCELLED, NULL, "the stream was cancelled");
  trn_status failed = (trn_status)atomic_load(&stream->failed);
  if (failed) return trn_error_set(error, failed, NULL, "the stream has failed before");
  if (atomic_exchange(&stream->is_pulling, true))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "a pull of this stream is outstanding");
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
  atomic_store(&stream->is_expected, true);
  return TRN_OK;
}

/* The pull was not accepted: no completion will come. One that came all the same is the answer. */
static trn_status pull_undo(trn_stream *stream, trn_status status, trn_error **error) {
  if (!atomic_exchange(&stream->is_expected, false)) {
    if (error) trn_error_unref(*error), *error = NULL;
    return TRN_OK;
  }
  atomic_store(&stream->is_pulling, false);
  stream_unref(stream);
  return status;
}

trn_status trn_stream_next_array(trn_stream *stream, trn_array_done done, void *user, trn_error **error) {
  trn_status status = pull_begin(stream, error);
  if (status) return status;
  stream->array_done = done;
  stream->user = user;
  status = stream->ops.next_array(stream->self, on_array, stream, error);
  return status ? pull_undo(stream, status, error) : TRN_OK;
}

/* ---- the adapter: IPC from arrays ---- */

typedef struct owned_piece {
  trn_slice slice;
  trn_strbuf bytes;
} owned_piece;

static void owned_piece_release(void *owner) {
  owned_piece *piece = owner;
  trn__strbuf_finish(&piece->bytes);
  free(piece);
}

/* Takes the bytes, also on failure. */
static trn_status piece_create(trn_strbuf *bytes, int64_t rows, trn_ipc_piece *out) {
  owned_piece *owner = bytes->failed ? NULL : calloc(1, sizeof *owner);
  if (!owner) {
    trn__strbuf_finish(bytes);
    return TRN_RESOURCE_EXHAUSTED;
  }
  owner->bytes = *bytes;
  owner->slice = (trn_slice){.data = bytes->data, .size = bytes->size};
  *out = (trn_ipc_piece){.slices = &owner->slice,
                         .slice_count = 1,
                         .size = bytes->size,
                         .rows = rows,
                         .release = owned_piece_release,
                         .owner = owner};
  return TRN_OK;
}

/* Rows [offset, offset + rows) of a batch, as a view that owns nothing. */
static trn_status encode_rows(trn_stream *stream, const struct ArrowArray *batch, int64_t offset, int64_t rows,
                              trn_strbuf *out) {
  struct ArrowArray view = *batch;
  view.offset += offset;
  view.length = rows;
  view.release = NULL;
  if (view.null_count) view.null_count = -1;
  return trn__ipc_write_batch(&stream->schema, &view, out);
}

/* The next piece of stream->rest. */
static trn_status rest_piece(trn_stream *stream, trn_ipc_piece *out) {
  int64_t left = stream->rest.length - stream->rest_offset;
  int64_t rows = stream->rest_rows && stream->rest_rows < left ? stream->rest_rows : left;
  trn_strbuf bytes = {0};
  trn_status status = encode_rows(stream, &stream->rest, stream->rest_offset, rows, &bytes);
  while (status == TRN_OK && stream->bytes_max && bytes.size > stream->bytes_max && rows > 1) {
    /* Too large: from here on so many rows at a time. */
    int64_t fewer = (int64_t)((double)rows * (double)stream->bytes_max / (double)bytes.size);
    rows = fewer < 1 ? 1 : fewer < rows ? fewer : rows - 1;
    stream->rest_rows = rows;
    trn__strbuf_finish(&bytes);
    status = encode_rows(stream, &stream->rest, stream->rest_offset, rows, &bytes);
  }
  if (status) {
    trn__strbuf_finish(&bytes);
    return status;
  }
  stream->rest_offset += rows;
  if (stream->rest_offset >= stream->rest.length) trn__array_release(&stream->rest);
  return piece_create(&bytes, rows, out);
}

/* Answers the outstanding pull with a piece of stream->rest. */
static void rest_answer(void *argument) {
  trn_stream *stream = argument;
  completion c = {.is_ipc = true};
  if (atomic_load(&stream->is_cancelled)) {
    c.status = trn_error_set(&c.error, TRN_CANCELLED, NULL, "the stream was cancelled");
  } else {
    c.status = rest_piece(stream, &c.item.piece);
    if (c.status) trn_error_set(&c.error, c.status, NULL, "a batch cannot be written as Arrow IPC");
  }
  trn_error *error = c.error;
  complete(stream, &c);
  trn_error_unref(error);
}

static void on_adapted_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  trn_stream *stream = user;
  bool has_rows = status == TRN_OK && array && array->release;
  if (has_rows && !atomic_load(&stream->is_expected)) {
    trn__array_release(array);
    return;
  }
  if (has_rows) {
    stream->rest = *array;
    array->release = NULL;
    stream->rest_offset = stream->rest_rows = 0;
    rest_answer(stream);
    return;
  }
  completion c = {.is_ipc = true, .status = status, .error = (trn_error *)error};
  complete(stream, &c);
}

static trn_status next_adapted(trn_stream *stream, trn_error **error) {
  trn_status status = TRN_OK;
  if (!stream->schema.release) status = stream->ops.schema(stream->self, &stream->schema, error);
  if (status) return status;
  if (!stream->rest.release) return stream->ops.next_array(stream->self, on_adapted_array, stream, error);
  if (!stream->pool) status = trn__pool_create(1, &stream->pool);
  if (status == TRN_OK) status = trn__pool_submit(stream->pool, rest_answer, stream);
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status trn_stream_next_ipc(trn_stream *stream, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  trn_status status = pull_begin(stream, error);
  if (status) return status;
  stream->ipc_done = done;
  stream->user = user;
  stream->bytes_max = bytes_max;
  status = stream->is_adapted ? next_adapted(stream, error)
                              : stream->ops.next_ipc(stream->self, bytes_max, on_ipc, stream, error);
  return status ? pull_undo(stream, status, error) : TRN_OK;
}
