/* GET for those who do not speak gRPC: metrics, health. One request on a connection of HTTP/1.1, then it ends. */
#include <stdio.h>

#include "h2.h"

struct h2_http {
  size_t size;
  bool is_answered;
  char head[TRN_H2_HTTP_HEAD_MAX];
};

bool trn__h2_http_begins(const uint8_t *data, size_t size) {
  return size && memcmp(data, "GET ", size < 4 ? size : 4) == 0; /* HTTP/2 begins with a P */
}

void trn__h2_http_destroy(h2_http *http) {
  free(http);
}

static void ask(h2_loop *loop, const char *path, trn_http_response *response) {
  const trn_server_options *options = &loop->server->options;
  *response = (trn_http_response){.struct_size = sizeof *response};
  options->http_get(options->http_user, path, response);
  bool is_valid = response->status >= 100 && response->status <= 999;
  bool is_text =
      !response->content_type || trn__h2_value_is_sendable(response->content_type, strlen(response->content_type));
  if (!is_valid) response->status = 404;
  if (!is_text || !response->content_type) response->content_type = "text/plain; charset=utf-8";
}

/* ---- HTTP/1.1 ---- */

static bool put_answer(h2_conn *conn, const trn_http_response *response) {
  char head[512];
  size_t size = response->body.size;
  int head_size = snprintf(head, sizeof head,
                           "HTTP/1.1 %u %s\r\nContent-Type: %.200s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                           response->status, response->status == 200 ? "OK" : "Status", response->content_type, size);
  h2_out *body = trn__h2_out_raw(response->body);
  conn->batch = body ? trn__h2_loop_batch(conn->loop) : NULL;
  if (conn->batch) {
    trn__h2_batch_put(conn->batch, head, (size_t)head_size, NULL);
    if (size) trn__h2_batch_put(conn->batch, body->slices[1].data, size, body);
  }
  trn__h2_out_unref(body);
  return conn->batch != NULL;
}

bool trn__h2_http_read(h2_conn *conn, const uint8_t *data, size_t size) {
  if (!conn->http) conn->http = calloc(1, sizeof *conn->http);
  h2_http *http = conn->http;
  if (!http) return false;
  if (http->is_answered) return true; /* nobody listens */
  if (size > sizeof http->head - 1 - http->size) return false;
  memcpy(http->head + http->size, data, size);
  http->size += size;
  http->head[http->size] = 0;
  if (!trn__h2_http_begins((const uint8_t *)http->head, http->size)) return false;
  if (!strstr(http->head, "\r\n\r\n")) return true;
  char *path = http->head + 4, *end = path + strcspn(path, " \r\n");
  if (*end != ' ' || strncmp(end + 1, "HTTP/1.", 7) != 0 || path[0] != '/') return false;
  *end = 0;
  http->is_answered = true;
  trn_http_response response;
  ask(conn->loop, path, &response);
  return put_answer(conn, &response);
}

/* ---- HTTP/2 ---- */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
  (void)buffer, (void)source, (void)user;
  const h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
  if (!stream) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  size_t left = stream->head ? stream->head->slices[1].size - stream->head->offset : 0;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (left <= size) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return (ssize_t)(left < size ? left : size);
}

void trn__h2_http_get(h2_stream *stream) {
  h2_conn *conn = stream->conn;
  trn_http_response response;
  char digits[16];
  ask(conn->loop, stream->request.path ? stream->request.path : "/", &response);
  snprintf(digits, sizeof digits, "%u", response.status);
  nghttp2_nv nv[] = {trn__h2_nv(":status", digits), trn__h2_nv("content-type", response.content_type)};
  nv[0].flags = nv[1].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  bool has_body = response.body.size != 0;
  h2_out *body = trn__h2_out_raw(response.body);
  if (has_body && body) {
    stream->head = stream->tail = body;
  } else {
    trn__h2_out_unref(body);
  }
  nghttp2_data_provider provider = {.read_callback = read_body};
  stream->is_started = stream->is_end_submitted = true;
  int rc =
      body ? nghttp2_submit_response(conn->session, stream->id, nv, 2, has_body ? &provider : NULL) : NGHTTP2_ERR_NOMEM;
  trn__h2_conn_check(conn, rc);
  trn__h2_conn_dirty(conn);
}
