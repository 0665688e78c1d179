/* Results as FlightData. The body of a batch is not copied: its slices go to the host as they came from the engine, behind
 * a small head of our own. Pulls are one at a time; a full send queue pauses them until the host says that it has room. */
#include "core/varint.h"
#include "frontend/flight/flight.h"

enum { SEND_SMALL_SLICE = 4096 /* smaller neighbours are copied together */ };

/* ---- framing ---- */

/* Size of the flatbuffer in an encapsulated message, from its first bytes; 0: it is none. */
static size_t metadata_size(const uint8_t *message, size_t size) {
  uint32_t mark, length;
  if (size < 8) return 0;
  memcpy(&mark, message, 4);
  memcpy(&length, message + 4, 4);
  return mark == 0xffffffffu && length && length <= size - 8 ? length : 0;
}

/* One FlightData on its way: the head and the small pieces are ours, the rest is the piece's. */
typedef struct frame {
  atomic_uint refs;
  trn_ipc_piece piece; /* released with the last slice */
  uint8_t bytes[];
} frame;

static void frame_unref(void *owner) {
  frame *f = owner;
  if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
  if (f->piece.release) f->piece.release(f->piece.owner);
  free(f);
}

enum { FRAME_HEAD_MAX = 32 };

/* The fields before the body's bytes. */
static uint8_t *put_head(uint8_t *at, const uint8_t *header, size_t header_size, size_t body_size) {
  *at++ = 0x12; /* data_header */
  at = trn__varint_put(at, header_size);
  memcpy(at, header, header_size);
  at += header_size;
  if (body_size) {
    *at++ = 0xC2; /* data_body, field 1000 */
    *at++ = 0x3E;
    at = trn__varint_put(at, body_size);
  }
  return at;
}

/* Slices of one message; small ones in a row share a copy. */
typedef struct frame_slices {
  frame *owner;
  trn_slice *slices;
  size_t count;
  uint8_t *run, *at; /* of the copy that grows: begins, ends */
} frame_slices;

static void slices_flush(frame_slices *out) {
  if (out->at == out->run) return;
  out->slices[out->count++] = (trn_slice){out->run, (size_t)(out->at - out->run), frame_unref, out->owner};
  out->run = out->at;
}

static void slices_add(frame_slices *out, const void *data, size_t size) {
  if (!size) return;
  if (size < SEND_SMALL_SLICE) {
    memcpy(out->at, data, size);
    out->at += size;
    return;
  }
  slices_flush(out);
  out->slices[out->count++] = (trn_slice){data, size, frame_unref, out->owner};
}

/* Takes the piece. */
static trn_status send_piece(flight_rpc *rpc, trn_ipc_piece *piece, trn_send_result *result, trn_error **error) {
  const trn_slice *first = piece->slices;
  size_t header_size = piece->slice_count ? metadata_size(first->data, first->size) : 0;
  size_t small = 0;
  for (size_t i = 0; i < piece->slice_count; i++)
    if (piece->slices[i].size < SEND_SMALL_SLICE) small += piece->slices[i].size;
  small += header_size && first->size - 8 - header_size < SEND_SMALL_SLICE ? first->size - 8 - header_size : 0;
  frame *f = header_size ? malloc(sizeof *f + FRAME_HEAD_MAX + header_size + small) : NULL;
  trn_slice *slices = f ? malloc((2 * piece->slice_count + 2) * sizeof *slices) : NULL;
  if (!slices) {
    free(f);
    piece->release(piece->owner);
    return header_size ? trn__no_memory(error)
                       : trn_error_set(error, TRN_INTERNAL, NULL, "A batch does not begin with its metadata");
  }
  f->piece = *piece;
  size_t body_size = piece->size - 8 - header_size;
  frame_slices out = {f, slices, 0, f->bytes, f->bytes};
  out.at = put_head(out.at, (const uint8_t *)first->data + 8, header_size, body_size);
  slices_add(&out, (const uint8_t *)first->data + 8 + header_size, first->size - 8 - header_size);
  for (size_t i = 1; i < piece->slice_count; i++) slices_add(&out, piece->slices[i].data, piece->slices[i].size);
  slices_flush(&out);
  atomic_init(&f->refs, (unsigned)out.count);
  *result = trn_call_send(rpc->call, slices, out.count, 0);
  free(slices);
  return TRN_OK;
}

trn_status flight__send_ipc(flight_rpc *rpc, const void *message, size_t size, trn_error **error) {
  size_t header_size = metadata_size(message, size);
  uint8_t *bytes = header_size ? malloc(FRAME_HEAD_MAX + size) : NULL;
  if (!bytes)
    return header_size ? trn__no_memory(error) : trn_error_set(error, TRN_INTERNAL, NULL, "A message without metadata");
  size_t body_size = size - 8 - header_size;
  uint8_t *at = put_head(bytes, (const uint8_t *)message + 8, header_size, body_size);
  if (body_size) memcpy(at, (const uint8_t *)message + 8 + header_size, body_size);
  trn_slice slice = {bytes, (size_t)(at - bytes) + body_size, free, bytes};
  trn_call_send(rpc->call, &slice, 1, TRN_SEND_MORE);
  return TRN_OK;
}

/* ---- streaming ---- */

typedef struct sender {
  flight_rpc *rpc; /* one reference while it is active; the call owns the sender */
  trn_operation *operation;
  trn_stream *stream;
  size_t bytes_max;
  flight_sent sent;
  void *user;
  int64_t rows;
  pthread_mutex_t mutex;
  bool is_pulling, is_paused, is_over;
  uint64_t writable; /* counts: room that comes between a send and the pause is not missed */
} sender;

/* Ends it: the first caller tells `sent` and lets everything go. thread: any */
static void sender_end(sender *s, trn_status status, const trn_error *error) {
  pthread_mutex_lock(&s->mutex);
  bool first = !s->is_over;
  s->is_over = true;
  trn_stream *stream = first ? s->stream : NULL;
  trn_operation *operation = first ? s->operation : NULL;
  if (first) s->stream = NULL, s->operation = NULL;
  pthread_mutex_unlock(&s->mutex);
  if (!first) return;
  if (status) {
    if (stream) trn_stream_cancel(stream);
    if (operation) trn_operation_cancel(operation);
    flight__rpc_fail(s->rpc, status, error);
  } else {
    flight__rpc_finish(s->rpc);
  }
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  if (s->sent) s->sent(s->user, status, s->rows);
  flight_service *service = flight__service_ref(s->rpc->service);
  flight__rpc_unref(s->rpc);
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

static void sender_pull(sender *s);

static void piece_done(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  sender *s = user;
  flight_rpc *rpc = flight__rpc_ref(s->rpc); /* the sender may end here */
  trn_error *own = NULL;
  bool is_end = !status && !piece->release, again = false;
  pthread_mutex_lock(&s->mutex);
  uint64_t before = s->writable;
  bool is_over = s->is_over;
  pthread_mutex_unlock(&s->mutex);
  trn_send_result result = TRN_SEND_READY;
  if (!status && !is_end && is_over) {
    piece->release(piece->owner);
  } else if (!status && !is_end) {
    s->rows += piece->rows;
    status = send_piece(rpc, piece, &result, &own);
    if (own) error = own;
    if (!status && result == TRN_SEND_CLOSED) status = TRN_CANCELLED;
  }
  pthread_mutex_lock(&s->mutex);
  s->is_pulling = false;
  again = !status && !is_end && !s->is_over && (result == TRN_SEND_READY || s->writable != before);
  s->is_paused = !status && !is_end && !again;
  pthread_mutex_unlock(&s->mutex);
  if (status || is_end) {
    sender_end(s, status, error);
  } else if (again) {
    sender_pull(s);
  } else if (atomic_load(&rpc->gone)) {
    sender_end(s, TRN_CANCELLED, NULL); /* it went while this pull was outstanding */
  }
  trn_error_unref(own);
  flight__rpc_unref(rpc);
}

static void sender_pull(sender *s) {
  pthread_mutex_lock(&s->mutex);
  bool pull = !s->is_over && !s->is_pulling;
  if (pull) s->is_pulling = true;
  trn_stream *stream = pull ? trn_stream_ref(s->stream) : NULL;
  pthread_mutex_unlock(&s->mutex);
  if (!pull) return;
  trn_error *error = NULL;
  flight_rpc *rpc = flight__rpc_ref(s->rpc);
  trn_status status = trn_stream_next_ipc(stream, s->bytes_max, piece_done, s, &error);
  if (status) sender_end(s, status, error);
  trn_error_unref(error);
  trn_stream_unref(stream);
  flight__rpc_unref(rpc);
}

static void sender_writable(void *user) {
  sender *s = user;
  pthread_mutex_lock(&s->mutex);
  s->writable++;
  bool pull = s->is_paused && !s->is_over;
  s->is_paused = false;
  pthread_mutex_unlock(&s->mutex);
  if (pull) sender_pull(s);
}

/* The client is gone. A pull that is outstanding ends the sender; else this does. */
static void sender_gone(void *user) {
  sender *s = user;
  pthread_mutex_lock(&s->mutex);
  trn_stream *stream = s->stream && !s->is_over ? trn_stream_ref(s->stream) : NULL;
  trn_operation *operation = s->operation && !s->is_over ? trn_operation_ref(s->operation) : NULL;
  bool end = !s->is_over && !s->is_pulling;
  pthread_mutex_unlock(&s->mutex);
  if (stream) trn_stream_cancel(stream);
  if (operation) trn_operation_cancel(operation);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  if (end) sender_end(s, TRN_CANCELLED, NULL);
}

static void sender_drop(void *user) {
  sender *s = user;
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

void flight__send_stream(flight_rpc *rpc, trn_operation *operation, trn_stream *stream, size_t bytes_max,
                         flight_sent sent, void *user) {
  static const flight_events events = {sender_writable, sender_gone, sender_drop};
  trn_error *error = NULL;
  trn_slice schema = {0};
  bool entered = trn__gate_enter(&rpc->service->gate);
  sender *s = entered ? calloc(1, sizeof *s) : NULL;
  if (!s) {
    if (entered) trn__gate_leave(&rpc->service->gate);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
    flight__rpc_fail(rpc, TRN_RESOURCE_EXHAUSTED, NULL);
    if (sent) sent(user, TRN_RESOURCE_EXHAUSTED, 0);
    return;
  }
  pthread_mutex_init(&s->mutex, NULL);
  s->rpc = flight__rpc_ref(rpc);
  s->operation = operation;
  s->stream = stream;
  s->bytes_max = bytes_max;
  s->sent = sent;
  s->user = user;
  s->is_pulling = true; /* until the schema is sent */
  flight__rpc_attach(rpc, &events, s);
  trn_status status = trn_stream_schema_ipc(stream, &schema, &error);
  if (!status) status = flight__send_ipc(rpc, schema.data, schema.size, &error);
  if (schema.release) schema.release(schema.owner);
  pthread_mutex_lock(&s->mutex);
  s->is_pulling = false;
  pthread_mutex_unlock(&s->mutex);
  if (!status && atomic_load(&rpc->gone)) status = TRN_CANCELLED;
  if (status) {
    sender_end(s, status, error);
  } else {
    sender_pull(s);
  }
  trn_error_unref(error);
}
