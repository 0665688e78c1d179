/* One call: the host that a frontend talks to, and what its loop does for it. */
#include <stdio.h>

#include "h2.h"

/* ---- the host's functions. thread: any ---- */

/* locks: stream->mutex held */
static void post(h2_stream *stream) {
  if (stream->is_listed) return;
  stream->is_listed = true;
  trn__h2_loop_mail(stream->loop, stream);
}

static void free_queue(h2_out *head) {
  while (head) {
    h2_out *next = head->next;
    trn__h2_out_unref(head);
    head = next;
  }
}

static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  h2_stream *stream = self;
  /* Without memory for them only the status travels. */
  h2_block *trailers = trn__h2_block_trailers(status, message, details, details_size, trailing, trailing_count);
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_finished) {
    stream->is_finished = true;
    stream->mail.finish = true;
    stream->mail.status = status;
    stream->mail.trailers = trailers;
    trailers = NULL;
    post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
  free(trailers);
}

/* Settles what the first message decides, and whether there may be another. */
static bool may_send(h2_stream *stream, unsigned flags, bool *compress) {
  pthread_mutex_lock(&stream->mutex);
  bool may = !stream->is_closed && !stream->is_finished;
  if (may && !stream->is_first_sent) {
    stream->is_first_sent = true;
    stream->may_compress = stream->peer_accepts_gzip && (flags & TRN_SEND_COMPRESS);
    stream->mail.announces_gzip = stream->may_compress;
  }
  *compress = stream->may_compress && (flags & TRN_SEND_COMPRESS);
  pthread_mutex_unlock(&stream->mutex);
  return may;
}

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  h2_stream *stream = self;
  bool compress = false;
  if (!may_send(stream, flags, &compress)) {
    trn__h2_slices_release(slices, count);
    return TRN_SEND_CLOSED;
  }
  h2_out *out = trn__h2_out_create(slices, count, compress);
  if (!out) {
    host_finish(self, TRN_RESOURCE_EXHAUSTED, "No memory for a response message, or it is over 4 GiB", NULL, 0, NULL,
                0);
    return TRN_SEND_CLOSED;
  }
  trn_send_result result = TRN_SEND_CLOSED;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_finished) {
    if (stream->mail.tail) {
      stream->mail.tail->next = out;
    } else {
      stream->mail.head = out;
    }
    stream->mail.tail = out;
    stream->queued_bytes += out->size;
    out = NULL;
    bool full = stream->queued_bytes > stream->loop->server->options.send_high_water;
    if (full) stream->wants_writable = true;
    if (full || !(flags & TRN_SEND_MORE)) post(stream);
    result = full ? TRN_SEND_FULL : TRN_SEND_READY;
  }
  pthread_mutex_unlock(&stream->mutex);
  trn__h2_out_unref(out);
  return result;
}

static void host_recv(void *self) {
  h2_stream *stream = self;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && stream->mail.recv < UINT32_MAX / 2) {
    stream->mail.recv++;
    post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
}

static void host_set_initial_metadata(void *self, const trn_metadata *metadata, size_t count) {
  h2_stream *stream = self;
  h2_block *block = trn__h2_block_initial(metadata, count);
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_finished && !stream->is_first_sent) {
    h2_block *old = stream->mail.initial;
    stream->mail.initial = block;
    block = old;
  }
  pthread_mutex_unlock(&stream->mutex);
  free(block);
}

static void host_abort(void *self, trn_status status) {
  h2_stream *stream = self;
  h2_out *dropped = NULL;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_aborted) {
    stream->is_finished = stream->is_aborted = true;
    dropped = stream->mail.head;
    stream->mail.head = stream->mail.tail = NULL;
    stream->mail.abort = true;
    stream->mail.status = status;
    post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
  free_queue(dropped);
}

static void host_destroy(void *self) {
  trn__h2_stream_unref(self);
}

static const trn_call_host host = {
    .struct_size = sizeof(trn_call_host),
    .send = host_send,
    .finish = host_finish,
    .recv = host_recv,
    .set_initial_metadata = host_set_initial_metadata,
    .abort = host_abort,
    .destroy = host_destroy,
};

/* ---- life. thread: loop, except unref ---- */

h2_stream *trn__h2_stream_create(h2_conn *conn, int32_t id) {
  h2_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  if (pthread_mutex_init(&stream->mutex, NULL) != 0) {
    free(stream);
    return NULL;
  }
  atomic_init(&stream->refs, 1);
  stream->loop = conn->loop;
  stream->conn = conn;
  stream->id = id;
  trn__h2_request_init(&stream->request);
  stream->read_limits.partial_bytes = &conn->loop->server->partial_bytes;
  TAILQ_INSERT_TAIL(&conn->streams, stream, link);
  conn->stream_count++;
  return stream;
}

void trn__h2_stream_unref(h2_stream *stream) {
  if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) return;
  H2_ASSERT(!stream->conn && !stream->head && !stream->mail.head);
  pthread_mutex_destroy(&stream->mutex);
  free(stream);
}

static void drop_output(h2_stream *stream) {
  free_queue(stream->head);
  stream->head = stream->tail = NULL;
  free(stream->initial);
  free(stream->trailers);
  stream->initial = stream->trailers = NULL;
}

/* Empties the mailbox; nothing gets in any more. */
static void shut_mailbox(h2_stream *stream, bool closed) {
  pthread_mutex_lock(&stream->mutex);
  stream->is_finished = true;
  stream->is_closed = stream->is_closed || closed;
  h2_out *dropped = stream->mail.head;
  h2_block *initial = stream->mail.initial, *trailers = stream->mail.trailers;
  stream->mail.head = stream->mail.tail = NULL;
  stream->mail.initial = stream->mail.trailers = NULL;
  stream->mail.finish = stream->mail.abort = false;
  stream->queued_bytes = 0;
  pthread_mutex_unlock(&stream->mutex);
  free_queue(dropped);
  free(initial);
  free(trailers);
}

static void deliver_cancel(h2_stream *stream) {
  if (!stream->is_open || stream->is_cancel_delivered) return;
  stream->is_cancel_delivered = true;
  trn_call_deliver_cancel(stream->call);
}

/* An nghttp2 function failed: no memory, the session cannot go on. */
static void check(h2_conn *conn, int rc) {
  if (rc == 0) return;
  conn->is_broken = true;
  trn__h2_conn_dirty(conn);
}

void trn__h2_stream_closed(h2_stream *stream) {
  h2_conn *conn = stream->conn;
  if (!conn) return;
  if (!stream->is_end_sent) deliver_cancel(stream);
  shut_mailbox(stream, true);
  drop_output(stream);
  conn->unread_bytes -= stream->reader.unread_size - stream->reader.unread_at;
  if (stream->reader.window_debt && conn->session) {
    check(conn, nghttp2_session_consume_connection(conn->session, stream->reader.window_debt));
  }
  trn__h2_reader_finish(&stream->reader, &stream->read_limits);
  trn__h2_request_finish(&stream->request);
  trn__h2_loop_deadline_remove(stream->loop, stream);
  if (conn->session) nghttp2_session_set_stream_user_data(conn->session, stream->id, NULL);
  TAILQ_REMOVE(&conn->streams, stream, link);
  conn->stream_count--;
  stream->conn = NULL;
  trn_call *call = stream->call;
  stream->call = NULL;
  if (stream->is_open) {
    trn_call_deliver_done(call); /* drops our reference */
  } else {
    trn_call_unref(call);
  }
  trn__h2_stream_unref(stream);
}

/* ---- output. thread: loop ---- */

/* Gives received bytes back to the stream's and the connection's window. */
static void consume(h2_stream *stream, size_t size) {
  check(stream->conn, nghttp2_session_consume(stream->conn->session, stream->id, size));
}

static void reset(h2_stream *stream, uint32_t code) {
  check(stream->conn, nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, code));
  trn__h2_conn_dirty(stream->conn);
}

/* `first`..: fixed headers, then the block's, then `extra`. */
static nghttp2_nv *join_headers(const nghttp2_nv *fixed, size_t fixed_count, const h2_block *block, size_t *count) {
  size_t more = block ? block->count : 0;
  nghttp2_nv *nv = malloc((fixed_count + more) * sizeof *nv);
  if (!nv) return NULL;
  memcpy(nv, fixed, fixed_count * sizeof *nv);
  if (more) memcpy(nv + fixed_count, block->nv, more * sizeof *nv);
  *count = fixed_count + more;
  return nv;
}

static ssize_t read_callback(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size, uint32_t *flags,
                             nghttp2_data_source *source, void *user) {
  (void)buffer, (void)source, (void)user;
  h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
  return stream ? trn__h2_stream_ready(stream, size, flags) : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static const char *status_digits(trn_status status) {
  static const char *const digits[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                       "9", "10", "11", "12", "13", "14", "15", "16"};
  return digits[(unsigned)status <= TRN_UNAUTHENTICATED ? status : TRN_UNKNOWN];
}

static void fit_trailers(h2_stream *stream) {
  uint32_t max = nghttp2_session_get_remote_settings(stream->conn->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
  if (stream->trailers && max >= 1024) trn__h2_block_fit(stream->trailers, max - 256);
}

static void submit_trailers(h2_stream *stream) {
  nghttp2_nv status = trn__h2_nv("grpc-status", status_digits(stream->finish_status));
  fit_trailers(stream);
  const nghttp2_nv *nv = stream->trailers ? stream->trailers->nv : &status;
  size_t count = stream->trailers ? stream->trailers->count : 1;
  stream->is_end_submitted = true;
  check(stream->conn, nghttp2_submit_trailer(stream->conn->session, stream->id, nv, count));
}

static void submit_trailers_only(h2_stream *stream) {
  nghttp2_nv fixed[] = {trn__h2_nv(":status", "200"), trn__h2_nv("content-type", "application/grpc"),
                        trn__h2_nv("grpc-accept-encoding", "identity,deflate,gzip"),
                        trn__h2_nv("grpc-status", status_digits(stream->finish_status))};
  size_t count = 0;
  fit_trailers(stream);
  nghttp2_nv *nv = join_headers(fixed, stream->trailers ? 3 : 4, stream->trailers, &count);
  stream->is_started = stream->is_end_submitted = true;
  int rc = nv ? nghttp2_submit_response(stream->conn->session, stream->id, nv, count, NULL) : NGHTTP2_ERR_NOMEM;
  check(stream->conn, rc);
  free(nv);
}

static void submit_headers(h2_stream *stream) {
  nghttp2_nv fixed[] = {trn__h2_nv(":status", "200"), trn__h2_nv("content-type", "application/grpc"),
                        trn__h2_nv("grpc-accept-encoding", "identity,deflate,gzip"),
                        trn__h2_nv("grpc-encoding", "gzip")};
  nghttp2_data_provider provider = {.read_callback = read_callback};
  size_t count = 0;
  nghttp2_nv *nv = join_headers(fixed, stream->announces_gzip ? 4 : 3, stream->initial, &count);
  stream->is_started = true;
  int rc = nv ? nghttp2_submit_response(stream->conn->session, stream->id, nv, count, &provider) : NGHTTP2_ERR_NOMEM;
  check(stream->conn, rc);
  free(nv);
}

/* Sends what there is: headers, messages, trailers. */
static void advance(h2_stream *stream) {
  if (stream->is_end_submitted) return;
  if (!stream->is_started) {
    if (!stream->head && !stream->is_finishing) return;
    if (!stream->head && !stream->initial) {
      submit_trailers_only(stream);
    } else {
      submit_headers(stream);
    }
  } else if (stream->is_finishing && !stream->head && stream->is_deferred) {
    submit_trailers(stream); /* not through the data source: that waits for the peer's window */
  } else if (stream->is_deferred && stream->head) {
    stream->is_deferred = false;
    check(stream->conn, nghttp2_session_resume_data(stream->conn->session, stream->id));
  }
  trn__h2_conn_dirty(stream->conn);
}

ssize_t trn__h2_stream_ready(h2_stream *stream, size_t size_max, uint32_t *flags) {
  size_t size = 0;
  unsigned pieces = 0;
  const h2_out *out = stream->head;
  for (; out; out = out->next) {
    size_t offset = out->offset;
    size_t index = out->index;
    for (; index < out->count && size < size_max && pieces < TRN_H2_PIECES_MAX; index++) {
      size_t left = out->slices[index].size - offset;
      offset = 0;
      if (left > size_max - size) {
        size = size_max;
        break;
      }
      size += left;
      pieces += left != 0;
    }
    if (index < out->count) break;
  }
  if (!out && stream->is_finishing) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    submit_trailers(stream);
  } else if (!size) {
    stream->is_deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  return (ssize_t)size;
}

void trn__h2_stream_taken(h2_stream *stream, size_t bytes) {
  size_t low_water = stream->loop->server->options.send_high_water / 2;
  pthread_mutex_lock(&stream->mutex);
  stream->queued_bytes -= bytes < stream->queued_bytes ? bytes : stream->queued_bytes;
  bool fire = stream->wants_writable && stream->queued_bytes <= low_water && !stream->is_finished;
  if (fire) stream->wants_writable = false;
  pthread_mutex_unlock(&stream->mutex);
  if (fire && stream->is_open) trn_call_deliver_writable(stream->call);
}

void trn__h2_stream_fail(h2_stream *stream, trn_status status, const char *message) {
  if (stream->is_failed || stream->is_end_submitted) return;
  stream->is_failed = stream->is_finishing = true;
  shut_mailbox(stream, false);
  drop_output(stream);
  stream->finish_status = status;
  stream->trailers = trn__h2_block_trailers(status, message, NULL, 0, NULL, 0);
  if (stream->is_started) {
    submit_trailers(stream);
  } else {
    submit_trailers_only(stream);
  }
  trn__h2_conn_dirty(stream->conn);
  deliver_cancel(stream);
}

/* An HTTP answer for those who do not speak gRPC. */
static void refuse_http(h2_stream *stream, const char *status) {
  nghttp2_nv nv = trn__h2_nv(":status", status);
  stream->is_failed = stream->is_started = stream->is_end_submitted = true;
  check(stream->conn, nghttp2_submit_response(stream->conn->session, stream->id, &nv, 1, NULL));
  trn__h2_conn_dirty(stream->conn);
}

void trn__h2_stream_deadline(h2_stream *stream) {
  trn__h2_stream_fail(stream, TRN_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

/* ---- input. thread: loop ---- */

static bool is_single(const h2_stream *stream) {
  return stream->method->kind == TRN_METHOD_UNARY || stream->method->kind == TRN_METHOD_SERVER_STREAM;
}

static bool is_deaf(const h2_stream *stream) {
  return !stream->is_open || stream->is_failed || stream->is_end_submitted;
}

/* Everything that was received is read: tells what the end of the request means. */
static void check_end(h2_stream *stream) {
  const h2_reader *reader = &stream->reader;
  if (!stream->is_remote_closed || stream->is_half_close_delivered || is_deaf(stream)) return;
  if (reader->unread_at < reader->unread_size) return;
  if (reader->prefix_size) {
    trn__h2_stream_fail(stream, TRN_INTERNAL, "The request ended inside a message");
  } else if (is_single(stream) && !stream->is_message_delivered) {
    trn__h2_stream_fail(stream, TRN_INTERNAL, "The request ended without a message");
  } else {
    stream->is_half_close_delivered = true;
    trn_call_deliver_half_close(stream->call);
  }
}

/* Reads messages as long as the frontend wants some. Gives the count of bytes that were used. */
static size_t feed(h2_stream *stream, const uint8_t *data, size_t size) {
  size_t at = 0;
  h2_failure failure;
  trn_slice message;
  while (at < size && stream->wanted && !is_deaf(stream)) {
    size_t used = 0;
    h2_read result =
        trn__h2_reader_feed(&stream->reader, &stream->read_limits, data + at, size - at, &used, &message, &failure);
    at += used;
    if (result == H2_READ_FAILED) {
      trn__h2_stream_fail(stream, failure.status, failure.message);
    } else if (result == H2_READ_MESSAGE) {
      stream->wanted--;
      stream->is_message_delivered = true;
      trn_call_deliver_message(stream->call, message);
    }
  }
  return at;
}

static void keep(h2_stream *stream, const uint8_t *data, size_t size) {
  h2_conn *conn = stream->conn;
  if (!trn__h2_reader_keep(&stream->reader, data, size)) {
    consume(stream, size);
    trn__h2_stream_fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for unread request bytes");
    return;
  }
  conn->unread_bytes += size;
  /* One call that nobody reads must not stop the others on its connection, until that costs too much memory. */
  if (conn->unread_bytes <= TRN_H2_UNREAD_BYTES_MAX) {
    check(conn, nghttp2_session_consume_connection(conn->session, size));
  } else {
    stream->reader.window_debt += size;
  }
}

void trn__h2_stream_data(h2_stream *stream, const uint8_t *data, size_t size) {
  bool has_unread = stream->reader.unread_at < stream->reader.unread_size;
  size_t used = has_unread || is_deaf(stream) ? 0 : feed(stream, data, size);
  if (used) consume(stream, used);
  if (used == size) return;
  if (is_deaf(stream)) {
    consume(stream, size - used); /* nobody will want it */
  } else if (is_single(stream)) {
    consume(stream, size - used);
    trn__h2_stream_fail(stream, TRN_INTERNAL, "More than one message in a request of a method that takes one");
  } else {
    keep(stream, data + used, size - used);
  }
}

void trn__h2_stream_half_close(h2_stream *stream) {
  stream->is_remote_closed = true;
  check_end(stream);
}

/* The frontend asked for more: what waits in the unread bytes comes first. */
static void pull(h2_stream *stream) {
  h2_reader *reader = &stream->reader;
  h2_conn *conn = stream->conn;
  if (reader->unread_at < reader->unread_size) {
    size_t used = feed(stream, reader->unread + reader->unread_at, reader->unread_size - reader->unread_at);
    reader->unread_at += used;
    conn->unread_bytes -= used;
    size_t debt = used < reader->window_debt ? used : reader->window_debt;
    reader->window_debt -= debt;
    check(conn, nghttp2_session_consume_stream(conn->session, stream->id, used));
    if (debt) check(conn, nghttp2_session_consume_connection(conn->session, debt));
    trn__h2_conn_dirty(conn);
    if (reader->unread_at == reader->unread_size && reader->unread_capacity > TRN_H2_BATCH_COPY) {
      free(reader->unread);
      reader->unread = NULL;
      reader->unread_at = reader->unread_size = reader->unread_capacity = 0;
    }
  }
  check_end(stream);
}

/* ---- the mailbox. thread: loop ---- */

static uint32_t reset_code(trn_status status) {
  switch (status) {
  case TRN_OK: return NGHTTP2_NO_ERROR;
  case TRN_CANCELLED: return NGHTTP2_CANCEL;
  case TRN_RESOURCE_EXHAUSTED: return NGHTTP2_ENHANCE_YOUR_CALM;
  case TRN_UNAVAILABLE: return NGHTTP2_REFUSED_STREAM;
  case TRN_PERMISSION_DENIED: return NGHTTP2_INADEQUATE_SECURITY;
  default: return NGHTTP2_INTERNAL_ERROR;
  }
}

static void append(h2_stream *stream, h2_out *head, h2_out *tail) {
  if (!head) return;
  if (stream->tail) {
    stream->tail->next = head;
  } else {
    stream->head = head;
  }
  stream->tail = tail;
}

void trn__h2_stream_mail(h2_stream *stream) {
  pthread_mutex_lock(&stream->mutex);
  h2_mail mail = stream->mail;
  stream->mail.recv = 0;
  stream->mail.head = stream->mail.tail = NULL;
  stream->mail.initial = stream->mail.trailers = NULL;
  stream->mail.finish = stream->mail.abort = stream->mail.announces_gzip = false;
  stream->is_listed = false;
  pthread_mutex_unlock(&stream->mutex);
  if (!stream->conn) {
    H2_ASSERT(!mail.head && !mail.initial && !mail.trailers);
    return;
  }
  stream->announces_gzip |= mail.announces_gzip;
  if (mail.initial) {
    free(stream->initial);
    stream->initial = mail.initial;
  }
  append(stream, mail.head, mail.tail);
  if (mail.abort) {
    free(mail.trailers);
    drop_output(stream);
    stream->is_failed = true;
    reset(stream, reset_code(mail.status));
    return;
  }
  if (mail.finish) {
    stream->is_finishing = true;
    stream->finish_status = mail.status;
    stream->trailers = mail.trailers;
  }
  advance(stream);
  if (mail.recv && !is_deaf(stream) && !is_single(stream)) {
    stream->wanted += mail.recv;
    pull(stream);
  }
}

/* ---- the request begins. thread: loop ---- */

/* Refuses the request in words that a client shows to its user; true: it may go on. */
static bool check_request(h2_stream *stream) {
  h2_request *request = &stream->request;
  char text[256];
  if (request->is_too_big) {
    snprintf(text, sizeof text, "Request metadata larger than %zu bytes",
             stream->loop->server->options.metadata_bytes_max);
    trn__h2_stream_fail(stream, TRN_RESOURCE_EXHAUSTED, text);
  } else if (request->is_out_of_memory) {
    trn__h2_stream_fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for the request's metadata");
  } else if (!request->is_post) {
    refuse_http(stream, "405");
  } else if (!request->is_grpc) {
    refuse_http(stream, "415");
  } else if (request->is_malformed) {
    trn__h2_stream_fail(stream, TRN_INTERNAL, "Malformed grpc-timeout or binary metadata");
  } else if (request->encoding == H2_ENCODING_UNKNOWN) {
    trn__h2_stream_fail(stream, TRN_UNIMPLEMENTED, "grpc-encoding is none of identity, gzip, deflate");
  } else if (!stream->method) {
    snprintf(text, sizeof text, "Method not found: %.200s", request->path ? request->path : "");
    trn__h2_stream_fail(stream, TRN_UNIMPLEMENTED, text);
  } else {
    return true;
  }
  return false;
}

static trn_status make_call(h2_stream *stream) {
  h2_conn *conn = stream->conn;
  trn_metadata *metadata = trn__h2_request_metadata(&stream->request);
  if (!metadata && stream->request.count) return TRN_RESOURCE_EXHAUSTED;
  trn_call_request request = {
      .struct_size = sizeof request,
      .method = stream->method,
      .metadata = metadata,
      .metadata_count = stream->request.count,
      .peer = conn->peer,
      .identity = conn->identity[0] ? conn->identity : NULL,
      .deadline_ns = stream->deadline_ns,
  };
  trn_status status = trn_call_create(&request, &host, stream, &stream->call);
  if (!status) atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed); /* the call's, until `destroy` */
  free(metadata);
  return status;
}

void trn__h2_stream_open(h2_stream *stream) {
  trn_server *server = stream->loop->server;
  h2_request *request = &stream->request;
  if (request->path) stream->method = trn_routes_find(server->routes, request->path, request->path_size);
  if (!check_request(stream)) return;
  stream->peer_accepts_gzip = request->accepts_gzip;
  size_t own_max = stream->method->message_bytes_max;
  stream->read_limits.message_bytes_max = own_max ? own_max : server->options.message_bytes_max;
  stream->read_limits.encoding = request->encoding;
  if (request->timeout_ns >= 0) stream->deadline_ns = trn__h2_now_ns() + request->timeout_ns;
  trn_status status = make_call(stream);
  trn__h2_request_finish(request);
  if (!status && stream->deadline_ns && !trn__h2_loop_deadline_add(stream->loop, stream)) {
    status = TRN_RESOURCE_EXHAUSTED;
  }
  if (status) {
    trn__h2_stream_fail(stream, status, "No memory for the call");
    return;
  }
  stream->wanted = is_single(stream) ? 1 : 0;
  stream->is_open = true;
  trn_call_deliver_open(stream->call);
}
