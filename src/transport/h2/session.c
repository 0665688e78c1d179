/* What nghttp2 tells us. All run on the connection's loop, inside mem_recv or mem_send. */
#include "h2.h"

static h2_stream *stream_of(nghttp2_session *session, int32_t id) {
  return nghttp2_session_get_stream_user_data(session, id);
}

/* Without memory the session cannot go on: the peer would wait for what was lost. */
static int callback_result(int rc) {
  return rc == NGHTTP2_ERR_NOMEM ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* A header block that comes in pieces has a beginning; where it ends, on_frame_recv or an error comes. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user) {
  (void)session;
  h2_conn *conn = user;
  if (hd->type == NGHTTP2_HEADERS) {
    conn->header_ns = conn->last_read_ns;
  } else if (hd->type != NGHTTP2_CONTINUATION) {
    conn->header_ns = 0;
  }
  return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  h2_conn *conn = user;
  int32_t id = frame->hd.stream_id;
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  if (conn->channel) {
    h2_stream *attempt = stream_of(session, id);
    if (attempt) trn__h2_attempt_begin_headers(attempt, frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    return 0;
  }
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  /* nghttp2 itself refuses those over the limit of streams, also before the client has acknowledged our SETTINGS. */
  h2_stream *stream = conn->loop->stage >= H2_CANCEL ? NULL : trn__h2_call_create(conn, id);
  if (!stream || nghttp2_session_set_stream_user_data(session, id, stream) != 0) {
    if (stream) trn__h2_stream_closed(stream, NGHTTP2_REFUSED_STREAM);
    return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM));
  }
  return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user) {
  (void)flags;
  h2_conn *conn = user;
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  if (stream && conn->channel) {
    trn__h2_attempt_header(stream, name, name_size, value, value_size);
    return 0;
  }
  if (!stream || stream->is_open || stream->keeps_input || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  trn__h2_request_add(&stream->request, name, name_size, value, value_size,
                      conn->loop->server->options.metadata_bytes_max);
  return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  h2_conn *conn = user;
  conn->header_ns = 0;
  switch (frame->hd.type) {
  case NGHTTP2_SETTINGS:
    if (!conn->is_ready && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
      conn->is_ready = true;
      if (conn->channel) trn__h2_channel_ready(conn->channel, conn);
    }
    return 0;
  case NGHTTP2_PING:
    if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
      trn__h2_conn_ping(conn);
    } else {
      conn->ping_ns = 0;
      if (conn->is_leaving && !conn->channel) trn__h2_conn_leave_final(conn);
    }
    return 0;
  case NGHTTP2_GOAWAY:
    if (conn->channel) trn__h2_channel_leaving(conn->channel, conn);
    return 0;
  case NGHTTP2_HEADERS:
  case NGHTTP2_DATA: break;
  default: return 0;
  }
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  if (!stream) return 0;
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed); /* what it is told may end it */
  if (frame->hd.type == NGHTTP2_HEADERS && conn->channel) {
    trn__h2_attempt_headers(stream);
  } else if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    trn__h2_call_open(stream);
  }
  if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) trn__h2_stream_half_close(stream);
  trn__h2_stream_unref(stream);
  return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
                         void *user) {
  (void)flags, (void)user;
  h2_stream *stream = stream_of(session, id);
  if (!stream) return callback_result(nghttp2_session_consume(session, id, size));
  trn__h2_stream_data(stream, data, size);
  return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
  (void)user;
  h2_stream *stream = stream_of(session, id);
  if (stream) trn__h2_stream_closed(stream, code);
  return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  h2_conn *conn = user;
  if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) conn->sent_since_ping = true;
  if (conn->channel && frame->hd.type == NGHTTP2_HEADERS) {
    h2_stream *attempt = trn__h2_attempt_of(conn, frame->hd.stream_id);
    if (attempt) trn__h2_attempt_sent(attempt);
  }
  bool is_end = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
  h2_stream *stream = is_end ? stream_of(session, frame->hd.stream_id) : NULL;
  if (!stream) return 0;
  stream->is_end_sent = true;
  if (conn->channel) return 0;
  /* The client may still be sending; it is told that nobody listens, only now that the trailers are out. */
  if (stream->is_remote_closed) return 0;
  return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR));
}

static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user) {
  (void)error;
  h2_conn *conn = user;
  int32_t id = frame->hd.stream_id;
  if (conn->channel && frame->hd.type == NGHTTP2_HEADERS) { /* the peer takes no more, or the call was cancelled */
    h2_stream *stream = trn__h2_attempt_of(conn, id);
    if (stream) trn__h2_stream_closed(stream, NGHTTP2_REFUSED_STREAM);
    return 0;
  }
  if (frame->hd.type != NGHTTP2_HEADERS || !stream_of(session, id)) return 0;
  return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR));
}

static ssize_t data_frame_size(nghttp2_session *session, uint8_t type, int32_t id, int32_t session_window,
                               int32_t stream_window, uint32_t frame_max, void *user) {
  (void)session, (void)type, (void)id, (void)user;
  int64_t size = frame_max < TRN_H2_FRAME_SEND_MAX ? frame_max : TRN_H2_FRAME_SEND_MAX;
  if (size > session_window) size = session_window;
  if (size > stream_window) size = stream_window;
  return (ssize_t)size;
}

/* Puts one DATA frame into the batch: its header, and references to the messages' bytes. */
static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header, size_t size,
                     nghttp2_data_source *source, void *user) {
  (void)source;
  h2_conn *conn = user;
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  H2_ASSERT(stream && frame->data.padlen == 0);
  if (!stream) return NGHTTP2_ERR_CALLBACK_FAILURE;
  trn__h2_batch_put(conn->batch, header, 9, NULL);
  size_t left = size;
  while (left) {
    h2_out *out = stream->head;
    H2_ASSERT(out && out->index < out->count);
    const trn_slice *slice = &out->slices[out->index];
    size_t take = slice->size - out->offset;
    if (take > left) take = left;
    const uint8_t *data = (const uint8_t *)slice->data + out->offset;
    if (take) trn__h2_batch_put(conn->batch, data, take, take < TRN_H2_PIECE_COPY_MAX ? NULL : out);
    left -= take;
    out->offset += take;
    while (out->index < out->count && out->offset == out->slices[out->index].size) {
      out->index++;
      out->offset = 0;
    }
    if (out->index == out->count) {
      stream->head = out->next;
      if (!stream->head) stream->tail = NULL;
      trn__h2_out_unref(out);
    }
  }
  if (size) trn__h2_stream_taken(stream, size);
  conn->is_paused = true; /* mem_send returns nothing now, but there may be more */
  return NGHTTP2_ERR_PAUSE;
}

trn_status trn__h2_session_callbacks(nghttp2_session_callbacks **out) {
  if (nghttp2_session_callbacks_new(out) != 0) return TRN_RESOURCE_EXHAUSTED;
  nghttp2_session_callbacks_set_on_begin_frame_callback(*out, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(*out, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(*out, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(*out, on_frame_recv);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(*out, on_data_chunk);
  nghttp2_session_callbacks_set_on_stream_close_callback(*out, on_stream_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(*out, on_frame_send);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(*out, on_frame_not_send);
  nghttp2_session_callbacks_set_data_source_read_length_callback(*out, data_frame_size);
  nghttp2_session_callbacks_set_send_data_callback(*out, send_data);
  return TRN_OK;
}

static bool start_client(h2_conn *conn) {
  const h2_base *base = conn->loop->base;
  if (nghttp2_session_client_new2(&conn->session, base->callbacks, conn, base->session_option) != 0) return false;
  size_t list_max = conn->channel->options.metadata_bytes_max;
  nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, TRN_H2_STREAM_WINDOW},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, TRN_H2_FRAME_RECV_MAX},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, list_max > UINT32_MAX ? UINT32_MAX : (uint32_t)list_max},
  };
  return nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0;
}

static bool start_server(h2_conn *conn) {
  const trn_server *server = conn->loop->server;
  const h2_base *base = conn->loop->base;
  if (nghttp2_session_server_new2(&conn->session, base->callbacks, conn, base->session_option) != 0) return false;
  size_t list_max = server->options.metadata_bytes_max;
  nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server->options.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, TRN_H2_STREAM_WINDOW},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, TRN_H2_FRAME_RECV_MAX},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, list_max > UINT32_MAX ? UINT32_MAX : (uint32_t)list_max},
  };
  return nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0;
}

bool trn__h2_session_start(h2_conn *conn) {
  return (conn->channel ? start_client(conn) : start_server(conn)) &&
         nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, TRN_H2_CONNECTION_WINDOW) == 0;
}
