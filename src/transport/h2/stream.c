/* One call, as the server and the client see it: its queue of messages out, its bytes in, its mailbox. */
#include "h2.h"

/* ---- what both hosts do. thread: any ---- */

void trn__h2_stream_post(h2_stream *stream) {
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

trn_send_result trn__h2_stream_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  h2_stream *stream = self;
  bool compress = false;
  if (!may_send(stream, flags, &compress)) {
    trn__h2_slices_release(slices, count);
    return TRN_SEND_CLOSED;
  }
  h2_out *out = trn__h2_out_create(slices, count, compress);
  if (!out) {
    stream->role->no_memory(stream);
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
    bool full = stream->queued_bytes > stream->send_high_water;
    if (full) stream->wants_writable = true;
    if (full || !(flags & TRN_SEND_MORE)) trn__h2_stream_post(stream);
    result = full ? TRN_SEND_FULL : TRN_SEND_READY;
  }
  pthread_mutex_unlock(&stream->mutex);
  trn__h2_out_unref(out);
  return result;
}

void trn__h2_stream_recv(void *self) {
  h2_stream *stream = self;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && stream->mail.recv < UINT32_MAX / 2) {
    stream->mail.recv++;
    trn__h2_stream_post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
}

void trn__h2_stream_abort(void *self, trn_status status) {
  h2_stream *stream = self;
  h2_out *dropped = NULL;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_aborted) {
    stream->is_finished = stream->is_aborted = true;
    dropped = stream->mail.head;
    stream->mail.head = stream->mail.tail = NULL;
    stream->mail.abort = true;
    stream->mail.status = status;
    trn__h2_stream_post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
  free_queue(dropped);
}

/* ---- life. thread: loop, except unref ---- */

bool trn__h2_stream_init(h2_stream *stream, const h2_role *role, h2_loop *loop) {
  if (pthread_mutex_init(&stream->mutex, NULL) != 0) return false;
  atomic_init(&stream->refs, 1);
  stream->role = role;
  stream->loop = loop;
  trn__h2_request_init(&stream->request);
  stream->read_limits.base = loop->base;
  return true;
}

void trn__h2_stream_attach(h2_stream *stream, h2_conn *conn, int32_t id) {
  stream->conn = conn;
  stream->id = id;
  TAILQ_INSERT_TAIL(&conn->streams, stream, link);
  conn->stream_count++;
  conn->idle_ns = 0;
}

void trn__h2_stream_unref(h2_stream *stream) {
  if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) return;
  H2_ASSERT(!stream->conn && !stream->head && !stream->mail.head);
  pthread_mutex_destroy(&stream->mutex);
  stream->role->destroy(stream);
}

void trn__h2_stream_drop_output(h2_stream *stream) {
  free_queue(stream->head);
  stream->head = stream->tail = NULL;
  free(stream->initial);
  stream->initial = NULL;
}

void trn__h2_stream_shut(h2_stream *stream, bool closed) {
  pthread_mutex_lock(&stream->mutex);
  stream->is_finished = true;
  stream->is_closed = stream->is_closed || closed;
  h2_out *dropped = stream->mail.head;
  h2_block *initial = stream->mail.initial, *trailers = stream->mail.trailers;
  stream->mail.head = stream->mail.tail = NULL;
  stream->mail.initial = stream->mail.trailers = NULL;
  stream->mail.start = stream->mail.finish = stream->mail.abort = false;
  stream->queued_bytes = 0;
  pthread_mutex_unlock(&stream->mutex);
  free_queue(dropped);
  free(initial);
  free(trailers);
}

void trn__h2_conn_check(h2_conn *conn, int rc) {
  if (rc == 0) return;
  conn->is_broken = true;
  trn__h2_conn_dirty(conn);
}

void trn__h2_stream_detach(h2_stream *stream) {
  h2_conn *conn = stream->conn;
  conn->unread_bytes -= stream->reader.unread_size - stream->reader.unread_at;
  if (conn->session) {
    if (stream->reader.window_debt) {
      trn__h2_conn_check(conn, nghttp2_session_consume_connection(conn->session, stream->reader.window_debt));
      trn__h2_conn_dirty(conn);
    }
    nghttp2_session_set_stream_user_data(conn->session, stream->id, NULL);
  }
  stream->reader.window_debt = 0;
  TAILQ_REMOVE(&conn->streams, stream, link);
  conn->stream_count--;
  if (!conn->stream_count) conn->idle_ns = trn__h2_now_ns();
  stream->conn = NULL;
}

void trn__h2_stream_closed(h2_stream *stream, uint32_t code) {
  if (stream->conn) stream->role->closed(stream, code);
}

/* ---- output. thread: loop ---- */

/* Gives received bytes back to the stream's and the connection's window. */
static void consume(h2_stream *stream, size_t size) {
  if (!stream->conn || !size) return;
  trn__h2_conn_check(stream->conn, nghttp2_session_consume(stream->conn->session, stream->id, size));
}

void trn__h2_stream_reset(h2_stream *stream, uint32_t code) {
  h2_conn *conn = stream->conn;
  trn__h2_conn_check(conn, nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, stream->id, code));
  trn__h2_conn_dirty(conn);
}

nghttp2_nv *trn__h2_headers_join(const nghttp2_nv *fixed, size_t fixed_count, const h2_block *block, size_t *count) {
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

nghttp2_data_provider trn__h2_stream_provider(void) {
  return (nghttp2_data_provider){.read_callback = read_callback};
}

void trn__h2_stream_resume(h2_stream *stream) {
  if (!stream->is_deferred) return;
  stream->is_deferred = false;
  trn__h2_conn_check(stream->conn, nghttp2_session_resume_data(stream->conn->session, stream->id));
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
    stream->role->eof(stream, flags);
  } else if (!size) {
    stream->is_deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  return (ssize_t)size;
}

void trn__h2_stream_taken(h2_stream *stream, size_t bytes) {
  size_t low_water = stream->send_high_water / 2;
  pthread_mutex_lock(&stream->mutex);
  stream->queued_bytes -= bytes < stream->queued_bytes ? bytes : stream->queued_bytes;
  bool fire = stream->wants_writable && stream->queued_bytes <= low_water && !stream->is_finished;
  if (fire) stream->wants_writable = false;
  pthread_mutex_unlock(&stream->mutex);
  if (fire && stream->is_open) stream->role->writable(stream);
}

void trn__h2_stream_deadline(h2_stream *stream) {
  stream->role->fail(stream, TRN_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

/* ---- input. thread: loop ---- */

/* Nobody wants what comes. */
static bool is_deaf(const h2_stream *stream) {
  return (!stream->is_open && !stream->keeps_input) || stream->is_failed || stream->is_deaf || stream->is_over;
}

/* Everything that was received is read: tells what the end means. */
static void check_end(h2_stream *stream) {
  const h2_reader *reader = &stream->reader;
  if (!stream->is_remote_closed || stream->is_end_told || !stream->is_open || is_deaf(stream)) return;
  if (reader->unread_at < reader->unread_size) return;
  stream->is_end_told = true;
  stream->role->end(stream);
}

/* Reads messages as long as the caller wants some. Gives the count of bytes that were used. */
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
      stream->role->fail(stream, failure.status, failure.message);
    } else if (result == H2_READ_MESSAGE) {
      stream->wanted--;
      stream->is_message_delivered = true;
      stream->role->message(stream, message);
    }
  }
  return at;
}

static void fail_many(h2_stream *stream) {
  stream->role->fail(stream, TRN_INTERNAL, "More than one message where the method has one");
}

static void keep(h2_stream *stream, const uint8_t *data, size_t size) {
  h2_conn *conn = stream->conn;
  if (!trn__h2_reader_keep(&stream->reader, &stream->read_limits, data, size)) {
    consume(stream, size);
    stream->role->fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for unread bytes of a call");
    return;
  }
  conn->unread_bytes += size;
  /* One call that nobody reads must not stop the others on its connection, until that costs too much memory. */
  if (conn->unread_bytes <= TRN_H2_UNREAD_BYTES_MAX) {
    trn__h2_conn_check(conn, nghttp2_session_consume_connection(conn->session, size));
  } else {
    stream->reader.window_debt += size;
  }
}

/* What follows may end the call, and its last reference with it. */
static void hold(h2_stream *stream) {
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
}

void trn__h2_stream_data(h2_stream *stream, const uint8_t *data, size_t size) {
  hold(stream);
  h2_conn *conn = stream->conn;
  int32_t id = stream->id;
  bool has_unread = stream->reader.unread_at < stream->reader.unread_size;
  size_t used = has_unread || is_deaf(stream) ? 0 : feed(stream, data, size);
  if (used < size && !is_deaf(stream) && !(stream->is_single && stream->is_open)) {
    keep(stream, data + used, size - used);
    size = used;
  } else if (used < size && !is_deaf(stream)) {
    fail_many(stream);
  }
  /* What nobody will want is as good as read. The stream may have left the connection meanwhile. */
  if (size && conn->session) trn__h2_conn_check(conn, nghttp2_session_consume(conn->session, id, size));
  stream->progress_ns = stream->wanted && stream->reader.prefix_size ? conn->last_read_ns : 0;
  trn__h2_stream_unref(stream);
}

void trn__h2_stream_half_close(h2_stream *stream) {
  hold(stream);
  stream->is_remote_closed = true;
  stream->progress_ns = 0;
  check_end(stream);
  trn__h2_stream_unref(stream);
}

/* What was read of the unread bytes opens the windows, unless the connection has ended with everything sent. */
static void give_back(h2_stream *stream, size_t used) {
  h2_reader *reader = &stream->reader;
  h2_conn *conn = stream->conn;
  reader->unread_at += used;
  if (!conn) return;
  conn->unread_bytes -= used;
  size_t debt = used < reader->window_debt ? used : reader->window_debt;
  reader->window_debt -= debt;
  trn__h2_conn_check(conn, nghttp2_session_consume_stream(conn->session, stream->id, used));
  if (debt) trn__h2_conn_check(conn, nghttp2_session_consume_connection(conn->session, debt));
  trn__h2_conn_dirty(conn);
}

static void read_unread(h2_stream *stream) {
  h2_reader *reader = &stream->reader;
  size_t used = feed(stream, reader->unread + reader->unread_at, reader->unread_size - reader->unread_at);
  if (stream->is_over) return;
  give_back(stream, used);
  if (stream->is_single && reader->unread_at < reader->unread_size && !is_deaf(stream)) fail_many(stream);
  if (!stream->is_over && reader->unread_at == reader->unread_size) {
    trn__h2_reader_forget(reader, &stream->read_limits);
  }
}

void trn__h2_stream_pull(h2_stream *stream, unsigned count) {
  if (is_deaf(stream)) return;
  hold(stream);
  stream->wanted = count < UINT32_MAX - stream->wanted ? stream->wanted + count : UINT32_MAX;
  if (stream->reader.unread_at < stream->reader.unread_size) read_unread(stream);
  check_end(stream);
  trn__h2_stream_unref(stream);
}

/* ---- the mailbox. thread: loop ---- */

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
  stream->mail.start = stream->mail.finish = stream->mail.abort = stream->mail.announces_gzip = false;
  stream->is_listed = false;
  pthread_mutex_unlock(&stream->mutex);
  if (stream->is_over) {
    H2_ASSERT(!mail.head && !mail.initial && !mail.trailers);
    return;
  }
  stream->announces_gzip |= mail.announces_gzip;
  append(stream, mail.head, mail.tail);
  stream->role->mail(stream, &mail);
}
