/* One attempt of a client's call: a request over a channel's connection. What it delivers goes to client.h's calls. */
#include <stdio.h>

#include "h2.h"

typedef struct h2_attempt {
  h2_stream stream;    /* first; its references: the call's, and the loop's until the end is told */
  h2_channel *channel; /* a reference */
  trn_client_attempt *to;
  bool wait_for_ready, compresses;
  bool is_waiting;  /* in the channel, for a connection */
  bool is_sent;     /* the request's headers */
  bool has_headers; /* the response's came: what comes now is messages and trailers */
  bool is_trailing; /* so are the headers that come now */
  h2_request trailing;
  trn_metadata *initial_metadata, *trailing_metadata;
  char path[];
} h2_attempt;

static h2_attempt *attempt_of(h2_stream *stream) {
  return (h2_attempt *)stream;
}

/* ---- the host's functions. thread: any ---- */

static void host_half_close(void *self) {
  h2_stream *stream = self;
  pthread_mutex_lock(&stream->mutex);
  if (!stream->is_closed && !stream->is_finished) {
    stream->is_finished = true;
    stream->mail.finish = true;
    trn__h2_stream_post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
}

static void host_destroy(void *self) {
  trn__h2_stream_unref(self);
}

static const trn_client_host host = {
    .struct_size = sizeof(trn_client_host),
    .send = trn__h2_stream_send,
    .half_close = host_half_close,
    .recv = trn__h2_stream_recv,
    .cancel = trn__h2_stream_abort,
    .destroy = host_destroy,
};

static void no_memory(h2_stream *stream) {
  trn__h2_stream_abort(stream, TRN_RESOURCE_EXHAUSTED);
}

/* ---- the end. thread: loop ---- */

/* Leaves whatever it waits in. */
static void leave(h2_stream *stream, bool resets) {
  h2_attempt *attempt = attempt_of(stream);
  h2_conn *conn = stream->conn;
  if (attempt->is_waiting) {
    TAILQ_REMOVE(&attempt->channel->waiting, stream, link);
    attempt->is_waiting = false;
  }
  if (!conn) return;
  if (resets && conn->session && !(stream->is_remote_closed && stream->is_end_sent)) {
    trn__h2_stream_reset(stream, NGHTTP2_CANCEL);
  }
  trn__h2_conn_dirty(conn); /* it may have waited for its last call */
  trn__h2_stream_detach(stream);
}

static void finish(h2_stream *stream, const trn_client_result *given, bool resets) {
  if (stream->is_over) return;
  h2_attempt *attempt = attempt_of(stream);
  trn_client_result result = *given;
  stream->is_over = true;
  trn__h2_stream_shut(stream, true);
  trn__h2_stream_drop_output(stream);
  leave(stream, resets);
  trn__h2_loop_deadline_remove(stream->loop, stream);
  trn__h2_reader_finish(&stream->reader, &stream->read_limits);
  result.struct_size = sizeof result;
  result.initial = attempt->initial_metadata;
  result.initial_count = attempt->initial_metadata ? stream->request.count : 0;
  trn_client_attempt_done(attempt->to, &result);
  trn__h2_stream_unref(stream);
}

static void fail(h2_stream *stream, trn_status status, const char *message) {
  trn_client_result result = {.status = status, .message = message};
  finish(stream, &result, true);
}

void trn__h2_attempt_unsent(h2_stream *stream, trn_status status, const char *message) {
  trn_client_result result = {.status = status, .message = message};
  finish(stream, &result, false);
}

static trn_status status_of_reset(uint32_t code) {
  switch (code) {
  case NGHTTP2_REFUSED_STREAM: return TRN_UNAVAILABLE;
  case NGHTTP2_CANCEL: return TRN_CANCELLED;
  case NGHTTP2_ENHANCE_YOUR_CALM: return TRN_RESOURCE_EXHAUSTED;
  case NGHTTP2_INADEQUATE_SECURITY: return TRN_PERMISSION_DENIED;
  default: return TRN_INTERNAL;
  }
}

static void closed(h2_stream *stream, uint32_t code) {
  h2_attempt *attempt = attempt_of(stream);
  char text[160];
  trn_client_result result = {.message = text};
  if (stream->is_remote_closed) { /* messages wait to be asked for; then the end is told */
    trn__h2_stream_detach(stream);
    return;
  }
  if (!stream->conn->session) {
    const char *problem = stream->conn->problem;
    result.status = TRN_UNAVAILABLE;
    result.is_unprocessed = !attempt->is_sent;
    snprintf(text, sizeof text, "The connection ended: %s", problem ? problem : "it was lost");
  } else {
    /* Some servers reset a call whose deadline passed: there, and so here, within the precision of grpc-timeout. */
    bool is_late = stream->deadline_ns && trn__h2_now_ns() + TRN_H2_DEADLINE_SLACK_NS >= stream->deadline_ns;
    result.status = is_late && code == NGHTTP2_CANCEL ? TRN_DEADLINE_EXCEEDED : status_of_reset(code);
    result.is_unprocessed = code == NGHTTP2_REFUSED_STREAM;
    snprintf(text, sizeof text, "The server reset the call: %s", nghttp2_http2_strerror(code));
  }
  finish(stream, &result, false);
}

/* ---- the response. thread: loop ---- */

static trn_status status_of_http(int status) {
  switch (status) {
  case 400: return TRN_INTERNAL;
  case 401: return TRN_UNAUTHENTICATED;
  case 403: return TRN_PERMISSION_DENIED;
  case 404: return TRN_UNIMPLEMENTED;
  case 429:
  case 502:
  case 503:
  case 504: return TRN_UNAVAILABLE;
  default: return TRN_UNKNOWN;
  }
}

/* An answer that is not gRPC's, or that cannot be read. True: it ended the call. */
static bool refuse(h2_stream *stream, const h2_request *headers) {
  char text[96];
  trn_status status = TRN_RESOURCE_EXHAUSTED;
  if (headers->is_too_big) {
    snprintf(text, sizeof text, "Response metadata larger than %zu bytes",
             attempt_of(stream)->channel->options.metadata_bytes_max);
  } else if (headers->is_out_of_memory) {
    snprintf(text, sizeof text, "No memory for the response's metadata");
  } else if (headers->is_malformed) {
    status = TRN_INTERNAL;
    snprintf(text, sizeof text, "Malformed binary metadata in the response");
  } else if (headers->http_status && headers->http_status != 200 && headers->grpc_status < 0) {
    status = status_of_http(headers->http_status);
    snprintf(text, sizeof text, "The server answered with HTTP status %d", headers->http_status);
  } else if (headers->http_status && !headers->is_grpc && headers->grpc_status < 0) {
    status = TRN_UNKNOWN;
    snprintf(text, sizeof text, "The server's answer is not of the type application/grpc");
  } else if (headers->encoding == H2_ENCODING_UNKNOWN) {
    status = TRN_INTERNAL;
    snprintf(text, sizeof text, "The server's grpc-encoding is none of identity, gzip, deflate");
  } else {
    return false;
  }
  fail(stream, status, text);
  return true;
}

void trn__h2_attempt_begin_headers(h2_stream *stream, bool ends) {
  h2_attempt *attempt = attempt_of(stream);
  attempt->is_trailing = ends || attempt->has_headers;
  if (!attempt->is_trailing) trn__h2_request_finish(&stream->request); /* of a 1xx answer */
}

void trn__h2_attempt_header(h2_stream *stream, const uint8_t *name, size_t name_size, const uint8_t *value,
                            size_t value_size) {
  h2_attempt *attempt = attempt_of(stream);
  h2_request *headers = attempt->is_trailing ? &attempt->trailing : &stream->request;
  trn__h2_response_add(headers, name, name_size, value, value_size, attempt->channel->options.metadata_bytes_max);
}

void trn__h2_attempt_headers(h2_stream *stream) {
  h2_attempt *attempt = attempt_of(stream);
  h2_request *headers = &stream->request;
  if (attempt->is_trailing || (headers->http_status >= 100 && headers->http_status < 200)) return;
  if (refuse(stream, headers)) return;
  attempt->has_headers = true;
  stream->read_limits.encoding = headers->encoding;
  attempt->initial_metadata = trn__h2_request_metadata(headers);
  if (headers->count && !attempt->initial_metadata) {
    fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for the response's metadata");
    return;
  }
  trn_client_attempt_initial(attempt->to, attempt->initial_metadata, headers->count);
}

static void end(h2_stream *stream) {
  h2_attempt *attempt = attempt_of(stream);
  h2_request *trailing = &attempt->trailing;
  if (stream->reader.prefix_size) {
    fail(stream, TRN_INTERNAL, "The response ended inside a message");
    return;
  }
  if (refuse(stream, trailing)) return;
  if (trailing->grpc_status < 0) {
    fail(stream, TRN_UNKNOWN, "The response ended without a grpc-status");
    return;
  }
  attempt->trailing_metadata = trn__h2_request_metadata(trailing);
  trn_client_result result = {
      .status = (trn_status)trailing->grpc_status,
      .message = trailing->message ? trailing->message : "",
      .details = trailing->details,
      .details_size = trailing->details_size,
      .trailing = attempt->trailing_metadata,
      .trailing_count = attempt->trailing_metadata ? trailing->count : 0,
  };
  finish(stream, &result, true);
}

static void message(h2_stream *stream, trn_slice slice) {
  trn_client_attempt_message(attempt_of(stream)->to, slice);
}

static void writable(h2_stream *stream) {
  trn_client_attempt_writable(attempt_of(stream)->to);
}

static void eof(h2_stream *stream, uint32_t *flags) {
  stream->is_end_submitted = true;
  *flags |= NGHTTP2_DATA_FLAG_EOF;
}

/* ---- the request. thread: loop ---- */

h2_stream *trn__h2_attempt_of(h2_conn *conn, int32_t id) {
  h2_stream *stream = nghttp2_session_get_stream_user_data(conn->session, id);
  if (stream) return stream;
  TAILQ_FOREACH(stream, &conn->streams, link) {
    if (stream->id == id) return stream;
  }
  return NULL;
}

void trn__h2_attempt_sent(h2_stream *stream) {
  attempt_of(stream)->is_sent = true;
}

void trn__h2_attempt_submit(h2_stream *stream, h2_conn *conn) {
  h2_attempt *attempt = attempt_of(stream);
  const h2_channel *channel = attempt->channel;
  char timeout[24];
  nghttp2_nv fixed[10] = {
      trn__h2_nv(":method", "POST"),
      trn__h2_nv(":scheme", channel->tls ? "https" : "http"),
      trn__h2_nv(":path", attempt->path),
      trn__h2_nv(":authority", channel->authority),
      trn__h2_nv("te", "trailers"),
      trn__h2_nv("content-type", "application/grpc"),
      trn__h2_nv("user-agent", channel->user_agent),
      trn__h2_nv("grpc-accept-encoding", "identity,deflate,gzip"),
  };
  size_t fixed_count = 8, count = 0;
  fixed[2].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME; /* the path may be gone before it is sent */
  if (attempt->compresses) fixed[fixed_count++] = trn__h2_nv("grpc-encoding", "gzip");
  if (stream->deadline_ns) {
    trn__h2_timeout_print(stream->deadline_ns - trn__h2_now_ns(), timeout);
    fixed[fixed_count] = trn__h2_nv("grpc-timeout", timeout);
    fixed[fixed_count++].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  }
  nghttp2_data_provider provider = trn__h2_stream_provider();
  nghttp2_nv *nv = trn__h2_headers_join(fixed, fixed_count, stream->initial, &count);
  int32_t id = nv ? nghttp2_submit_request(conn->session, NULL, nv, count, &provider, stream) : NGHTTP2_ERR_NOMEM;
  free(nv);
  if (id < 0) {
    fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for a request");
    return;
  }
  free(stream->initial);
  stream->initial = NULL;
  stream->is_started = true;
  trn__h2_stream_attach(stream, conn, id);
  trn__h2_conn_dirty(conn);
}

static void start(h2_stream *stream) {
  h2_attempt *attempt = attempt_of(stream);
  if (stream->deadline_ns && !trn__h2_loop_deadline_add(stream->loop, stream)) {
    fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for a request");
    return;
  }
  trn__h2_channel_place(attempt->channel, stream, attempt->wait_for_ready);
}

void trn__h2_attempt_wait(h2_stream *stream) {
  h2_attempt *attempt = attempt_of(stream);
  attempt->is_waiting = true;
  TAILQ_INSERT_TAIL(&attempt->channel->waiting, stream, link);
}

void trn__h2_attempt_go(h2_stream *stream, h2_conn *conn) {
  h2_attempt *attempt = attempt_of(stream);
  TAILQ_REMOVE(&attempt->channel->waiting, stream, link);
  attempt->is_waiting = false;
  trn__h2_attempt_submit(stream, conn);
}

bool trn__h2_attempt_waits(const h2_stream *stream) {
  return ((const h2_attempt *)stream)->wait_for_ready;
}

static const char *words_of(trn_status status) {
  switch (status) {
  case TRN_CANCELLED: return "Cancelled by the client";
  case TRN_RESOURCE_EXHAUSTED: return "No memory for a request message, or it is over 4 GiB";
  default: return "The response is not what the method gives";
  }
}

static void mail(h2_stream *stream, h2_mail *mail) {
  if (mail->abort) {
    fail(stream, mail->status, words_of(mail->status));
    return;
  }
  if (mail->finish) stream->is_finishing = true;
  if (mail->start) {
    start(stream);
  } else if (stream->conn && (stream->head || stream->is_finishing)) {
    trn__h2_stream_resume(stream);
    trn__h2_conn_dirty(stream->conn);
  }
  if (mail->recv && !stream->is_single) trn__h2_stream_pull(stream, mail->recv);
}

/* ---- life ---- */

static void destroy(h2_stream *stream) {
  h2_attempt *attempt = attempt_of(stream);
  trn__h2_request_finish(&stream->request);
  trn__h2_request_finish(&attempt->trailing);
  free(attempt->initial_metadata);
  free(attempt->trailing_metadata);
  trn__h2_channel_unref(attempt->channel);
  free(attempt);
}

static const h2_role role = {
    .message = message,
    .writable = writable,
    .end = end,
    .fail = fail,
    .no_memory = no_memory,
    .mail = mail,
    .eof = eof,
    .closed = closed,
    .destroy = destroy,
};

/* thread: any */
trn_status trn__h2_attempt_create(h2_channel *channel, const trn_client_start *start, trn_client_attempt *to,
                                  h2_stream **out, const trn_client_host **out_host) {
  size_t path_size = strlen(start->path) + 1;
  h2_block *metadata = trn__h2_block_initial(start->metadata, start->metadata_count);
  h2_attempt *attempt = metadata ? calloc(1, sizeof *attempt + path_size) : NULL;
  if (!attempt || !trn__h2_stream_init(&attempt->stream, &role, channel->loop)) {
    free(metadata);
    free(attempt);
    return TRN_RESOURCE_EXHAUSTED;
  }
  h2_stream *stream = &attempt->stream;
  atomic_store(&stream->refs, 2);
  atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
  attempt->channel = channel;
  attempt->to = to;
  attempt->wait_for_ready = start->wait_for_ready;
  attempt->compresses = start->compress;
  trn__h2_request_init(&attempt->trailing);
  memcpy(attempt->path, start->path, path_size);
  stream->initial = metadata;
  stream->is_open = true;
  stream->is_single = start->kind == TRN_METHOD_UNARY || start->kind == TRN_METHOD_CLIENT_STREAM;
  stream->wanted = stream->is_single ? 1 : 0;
  stream->read_limits.message_bytes_max = start->message_bytes_max;
  stream->send_high_water = channel->options.send_high_water;
  stream->peer_accepts_gzip = start->compress;
  stream->deadline_ns = start->deadline_ns == INT64_MAX ? 0 : start->deadline_ns;
  pthread_mutex_lock(&stream->mutex);
  stream->mail.start = true;
  trn__h2_stream_post(stream);
  pthread_mutex_unlock(&stream->mutex);
  *out = stream;
  *out_host = &host;
  return TRN_OK;
}
