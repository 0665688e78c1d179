/* A call of the server: the host that a frontend talks to, and what its loop does for it. */
#include <stdio.h>

#include "h2.h"

static h2_call *call_of(h2_stream *stream) {
  return (h2_call *)stream;
}

/* ---- the host's functions. thread: any ---- */

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
    trn__h2_stream_post(stream);
  }
  pthread_mutex_unlock(&stream->mutex);
  free(trailers);
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

static void host_destroy(void *self) {
  trn__h2_stream_unref(self);
}

static const trn_call_host host = {
    .struct_size = sizeof(trn_call_host),
    .send = trn__h2_stream_send,
    .finish = host_finish,
    .recv = trn__h2_stream_recv,
    .set_initial_metadata = host_set_initial_metadata,
    .abort = trn__h2_stream_abort,
    .destroy = host_destroy,
};

/* ---- the end. thread: loop ---- */

static void no_memory(h2_stream *stream) {
  host_finish(stream, TRN_RESOURCE_EXHAUSTED, "No memory for a response message, or it is over 4 GiB", NULL, 0, NULL,
              0);
}

static void drop_output(h2_stream *stream) {
  trn__h2_stream_drop_output(stream);
  free(call_of(stream)->trailers);
  call_of(stream)->trailers = NULL;
}

static void deliver_cancel(h2_stream *stream) {
  h2_call *call = call_of(stream);
  if (!stream->is_open || call->is_cancel_delivered) return;
  call->is_cancel_delivered = true;
  trn_call_deliver_cancel(call->call);
}

static void closed(h2_stream *stream, uint32_t code) {
  (void)code;
  if (!stream->is_end_sent) deliver_cancel(stream);
  stream->is_over = true;
  trn__h2_stream_shut(stream, true);
  drop_output(stream);
  trn__h2_stream_detach(stream);
  trn__h2_reader_finish(&stream->reader, &stream->read_limits);
  trn__h2_request_finish(&stream->request);
  trn__h2_loop_deadline_remove(stream->loop, stream);
  trn_call *call = call_of(stream)->call;
  call_of(stream)->call = NULL;
  if (stream->is_open) {
    trn_call_deliver_done(call); /* drops our reference */
  } else {
    trn_call_unref(call);
  }
  trn__h2_stream_unref(stream);
}

/* ---- output. thread: loop ---- */

static const char *status_digits(trn_status status) {
  static const char *const digits[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                       "9", "10", "11", "12", "13", "14", "15", "16"};
  return digits[(unsigned)status <= TRN_UNAUTHENTICATED ? status : TRN_UNKNOWN];
}

static void fit_trailers(h2_stream *stream) {
  uint32_t max = nghttp2_session_get_remote_settings(stream->conn->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
  if (call_of(stream)->trailers && max >= 1024) trn__h2_block_fit(call_of(stream)->trailers, max - 256);
}

static void submit_trailers(h2_stream *stream) {
  nghttp2_nv status = trn__h2_nv("grpc-status", status_digits(call_of(stream)->finish_status));
  fit_trailers(stream);
  const nghttp2_nv *nv = call_of(stream)->trailers ? call_of(stream)->trailers->nv : &status;
  size_t count = call_of(stream)->trailers ? call_of(stream)->trailers->count : 1;
  stream->is_end_submitted = stream->is_deaf = true;
  trn__h2_conn_check(stream->conn, nghttp2_submit_trailer(stream->conn->session, stream->id, nv, count));
}

static void submit_trailers_only(h2_stream *stream) {
  nghttp2_nv fixed[] = {trn__h2_nv(":status", "200"), trn__h2_nv("content-type", "application/grpc"),
                        trn__h2_nv("grpc-accept-encoding", "identity,deflate,gzip"),
                        trn__h2_nv("grpc-status", status_digits(call_of(stream)->finish_status))};
  size_t count = 0;
  fit_trailers(stream);
  nghttp2_nv *nv = trn__h2_headers_join(fixed, call_of(stream)->trailers ? 3 : 4, call_of(stream)->trailers, &count);
  stream->is_started = stream->is_end_submitted = stream->is_deaf = true;
  int rc = nv ? nghttp2_submit_response(stream->conn->session, stream->id, nv, count, NULL) : NGHTTP2_ERR_NOMEM;
  trn__h2_conn_check(stream->conn, rc);
  free(nv);
}

static void submit_headers(h2_stream *stream) {
  nghttp2_nv fixed[] = {trn__h2_nv(":status", "200"), trn__h2_nv("content-type", "application/grpc"),
                        trn__h2_nv("grpc-accept-encoding", "identity,deflate,gzip"),
                        trn__h2_nv("grpc-encoding", "gzip")};
  nghttp2_data_provider provider = trn__h2_stream_provider();
  size_t count = 0;
  nghttp2_nv *nv = trn__h2_headers_join(fixed, stream->announces_gzip ? 4 : 3, stream->initial, &count);
  stream->is_started = true;
  int rc = nv ? nghttp2_submit_response(stream->conn->session, stream->id, nv, count, &provider) : NGHTTP2_ERR_NOMEM;
  trn__h2_conn_check(stream->conn, rc);
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
  } else if (stream->head) {
    trn__h2_stream_resume(stream);
  }
  trn__h2_conn_dirty(stream->conn);
}

/* The data source is at its end: the trailers end the stream. */
static void eof(h2_stream *stream, uint32_t *flags) {
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  submit_trailers(stream);
}

static void fail(h2_stream *stream, trn_status status, const char *message) {
  if (stream->is_failed || stream->is_end_submitted) return;
  stream->is_failed = stream->is_finishing = true;
  trn__h2_stream_shut(stream, false);
  drop_output(stream);
  call_of(stream)->finish_status = status;
  call_of(stream)->trailers = trn__h2_block_trailers(status, message, NULL, 0, NULL, 0);
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
  stream->is_failed = stream->is_started = stream->is_end_submitted = stream->is_deaf = true;
  trn__h2_conn_check(stream->conn, nghttp2_submit_response(stream->conn->session, stream->id, &nv, 1, NULL));
  trn__h2_conn_dirty(stream->conn);
}

/* ---- input. thread: loop ---- */

static void message(h2_stream *stream, trn_slice slice) {
  trn_call_deliver_message(call_of(stream)->call, slice);
}

static void writable(h2_stream *stream) {
  trn_call_deliver_writable(call_of(stream)->call);
}

static void end(h2_stream *stream) {
  if (stream->reader.prefix_size) {
    fail(stream, TRN_INTERNAL, "The request ended inside a message");
  } else if (stream->is_single && !stream->is_message_delivered) {
    fail(stream, TRN_INTERNAL, "The request ended without a message");
  } else {
    trn_call_deliver_half_close(call_of(stream)->call);
  }
}

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

static void mail(h2_stream *stream, h2_mail *mail) {
  h2_call *call = call_of(stream);
  if (mail->initial) {
    free(stream->initial);
    stream->initial = mail->initial;
  }
  if (mail->abort) {
    free(mail->trailers);
    drop_output(stream);
    stream->is_failed = true;
    trn__h2_stream_reset(stream, reset_code(mail->status));
    return;
  }
  if (mail->finish) {
    stream->is_finishing = true;
    call->finish_status = mail->status;
    call->trailers = mail->trailers;
  }
  advance(stream);
  if (mail->recv && !stream->is_single) trn__h2_stream_pull(stream, mail->recv);
}

static void destroy(h2_stream *stream) {
  free(stream);
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

h2_stream *trn__h2_call_create(h2_conn *conn, int32_t id) {
  h2_call *call = calloc(1, sizeof *call);
  if (!call || !trn__h2_stream_init(&call->stream, &role, conn->loop)) {
    free(call);
    return NULL;
  }
  call->stream.send_high_water = conn->loop->server->options.send_high_water;
  trn__h2_stream_attach(&call->stream, conn, id);
  return &call->stream;
}

/* ---- the request begins. thread: loop ---- */

/* Refuses the request in words that a client shows to its user; true: it may go on. */
static bool check_request(h2_stream *stream) {
  h2_request *request = &stream->request;
  char text[256];
  if (request->is_too_big) {
    snprintf(text, sizeof text, "Request metadata larger than %zu bytes",
             stream->loop->server->options.metadata_bytes_max);
    fail(stream, TRN_RESOURCE_EXHAUSTED, text);
  } else if (request->is_out_of_memory) {
    fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for the request's metadata");
  } else if (request->is_get && stream->loop->server->options.http_get) {
    stream->is_failed = stream->is_deaf = true;
    trn__h2_http_get(stream);
  } else if (!request->is_post) {
    refuse_http(stream, "405");
  } else if (!request->is_grpc) {
    refuse_http(stream, "415");
  } else if (request->is_malformed) {
    fail(stream, TRN_INTERNAL, "Malformed grpc-timeout or binary metadata");
  } else if (request->encoding == H2_ENCODING_UNKNOWN) {
    fail(stream, TRN_UNIMPLEMENTED, "grpc-encoding is none of identity, gzip, deflate");
  } else if (!call_of(stream)->method) {
    snprintf(text, sizeof text, "Method not found: %.200s", request->path ? request->path : "");
    fail(stream, TRN_UNIMPLEMENTED, text);
  } else {
    return true;
  }
  return false;
}

static trn_status make_call(h2_stream *stream, const trn_identity *identity) {
  h2_conn *conn = stream->conn;
  trn_metadata *metadata = trn__h2_request_metadata(&stream->request);
  if (!metadata && stream->request.count) return TRN_RESOURCE_EXHAUSTED;
  trn_call_request request = {
      .struct_size = sizeof request,
      .method = call_of(stream)->method,
      .metadata = metadata,
      .metadata_count = stream->request.count,
      .peer = conn->peer,
      .identity = identity                     ? identity->user
                  : stream->loop->server->authenticator ? NULL /* it did not take the certificate for a name */
                  : conn->identity[0]          ? conn->identity
                                               : NULL,
      .deadline_ns = stream->deadline_ns,
      .groups = identity ? identity->groups : NULL,
      .group_count = identity ? identity->group_count : 0,
  };
  trn_status status = trn_call_create(&request, &host, stream, &call_of(stream)->call);
  if (!status) atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed); /* the call's, until `destroy` */
  free(metadata);
  return status;
}

/* The caller is known: the frontend gets the call. */
static void identified(h2_stream *stream, trn_status status, const char *message, const trn_identity *identity) {
  stream->keeps_input = false;
  if (stream->is_failed) return; /* its deadline passed meanwhile */
  bool may_pass = status == TRN_UNAUTHENTICATED && call_of(stream)->method->authenticates;
  if (status && !may_pass) {
    fail(stream, status, message);
    return;
  }
  status = make_call(stream, status ? NULL : identity);
  trn__h2_request_finish(&stream->request);
  if (status) {
    fail(stream, status, "No memory for the call");
    return;
  }
  stream->is_open = true;
  trn_call_deliver_open(call_of(stream)->call);
  trn__h2_stream_pull(stream, stream->is_single ? 1 : 0);
}

void trn__h2_call_open(h2_stream *stream) {
  trn_server *server = stream->loop->server;
  h2_request *request = &stream->request;
  h2_call *call = call_of(stream);
  if (request->path) call->method = trn_routes_find(server->routes, request->path, request->path_size);
  if (!check_request(stream)) return;
  stream->peer_accepts_gzip = request->accepts_gzip;
  stream->is_single = call->method->kind == TRN_METHOD_UNARY || call->method->kind == TRN_METHOD_SERVER_STREAM;
  size_t own_max = call->method->message_bytes_max;
  stream->read_limits.message_bytes_max = own_max ? own_max : server->options.message_bytes_max;
  stream->read_limits.encoding = request->encoding;
  if (request->timeout_ns >= 0) {
    stream->deadline_ns = trn__h2_now_ns() + request->timeout_ns;
    if (!trn__h2_loop_deadline_add(stream->loop, stream)) {
      fail(stream, TRN_RESOURCE_EXHAUSTED, "No memory for the call");
      return;
    }
  }
  if (!server->authenticator) {
    identified(stream, TRN_OK, NULL, NULL);
    return;
  }
  const char *authorization = NULL;
  for (size_t i = 0; i < request->count; i++) {
    if (strcmp(request->bytes + request->entries[i].key, "authorization") == 0) {
      authorization = request->bytes + request->entries[i].value;
    }
  }
  stream->keeps_input = true;
  trn__h2_identify(stream, authorization, identified);
}
