/* What nghttp2 tells us. All run on the connection's loop, inside mem_recv or mem_send. */
#include "h2.h"

static h2_stream *stream_of(nghttp2_session *session, int32_t id) {
  return nghttp2_session_get_stream_user_data(session, id);
}

/* Without memory the session cannot go on: the peer would wait for what was lost. */
static int callback_result(int rc) {
  return rc == NGHTTP2_ERR_NOMEM ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  h2_conn *conn = user;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  int32_t id = frame->hd.stream_id;
  /* nghttp2 itself refuses those over the limit of streams, also before the client has acknowledged our SETTINGS. */
  h2_stream *stream = conn->loop->stage >= H2_CANCEL ? NULL : trn__h2_stream_create(conn, id);
  if (!stream || nghttp2_session_set_stream_user_data(session, id, stream) != 0) {
    if (stream) trn__h2_stream_closed(stream);
    return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM));
  }
  return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user) {
  (void)flags;
  h2_conn *conn = user;
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  if (!stream || stream->is_open || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  trn__h2_request_add(&stream->request, name, name_size, value, value_size,
                      conn->loop->server->options.metadata_bytes_max);
  return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  h2_conn *conn = user;
  switch (frame->hd.type) {
  case NGHTTP2_SETTINGS: conn->is_ready = true; return 0;
  case NGHTTP2_PING:
    if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
      conn->ping_ns = 0;
      if (conn->is_leaving) trn__h2_conn_leave_final(conn);
    }
    return 0;
  case NGHTTP2_HEADERS:
  case NGHTTP2_DATA: break;
  default: return 0;
  }
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  if (!stream) return 0;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) trn__h2_stream_open(stream);
  if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) trn__h2_stream_half_close(stream);
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
  (void)code, (void)user;
  h2_stream *stream = stream_of(session, id);
  if (stream) trn__h2_stream_closed(stream);
  return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  (void)user;
  if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
  h2_stream *stream = stream_of(session, frame->hd.stream_id);
  if (!stream) return 0;
  stream->is_end_sent = true;
  /* The client may still be sending; it is told that nobody listens, only now that the trailers are out. */
  if (stream->is_remote_closed) return 0;
  return callback_result(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR));
}

static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user) {
  (void)error, (void)user;
  int32_t id = frame->hd.stream_id;
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

bool trn__h2_session_start(h2_conn *conn) {
  const trn_server *server = conn->loop->server;
  if (nghttp2_session_server_new2(&conn->session, server->callbacks, conn, server->session_option) != 0) return false;
  size_t list_max = server->options.metadata_bytes_max;
  nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server->options.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, TRN_H2_STREAM_WINDOW},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, TRN_H2_FRAME_RECV_MAX},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, list_max > UINT32_MAX ? UINT32_MAX : (uint32_t)list_max},
  };
  nghttp2_session *session = conn->session;
  return nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0 &&
         nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, TRN_H2_CONNECTION_WINDOW) == 0;
}
