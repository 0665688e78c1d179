/* A small HTTP/2 client over a plain socket, for tests of the bundled server: nghttp2 on a blocking poll loop, and raw
 * bytes where a test needs frames that no library makes. */
#ifndef TESTS_TRANSPORT_H2_CLIENT_H
#define TESTS_TRANSPORT_H2_CLIENT_H
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct h2_reply {
  int32_t id;
  int http_status, grpc_status; /* -1: not seen */
  char message[512];
  char headers[4096]; /* "name: value\n" of headers and trailers */
  int header_blocks;
  uint8_t *data; /* as received: with message prefixes */
  size_t size, capacity;
  bool is_closed;
  uint32_t error_code;
  uint8_t *out; /* what is to be sent */
  size_t out_size, out_at;
  bool out_ends, is_deferred;
} h2_reply;

typedef struct h2_client {
  int fd;
  SSL *ssl; /* NULL: plain */
  nghttp2_session *session;
  h2_reply *replies[4096]; /* by (id - 1) / 2 */
  int goaways, settings;
  int32_t last_goaway_id;
  uint32_t goaway_code;
  bool is_lost;
  bool reads; /* false: takes nothing from the socket */
} h2_client;

static inline int64_t client_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline h2_reply *reply_of(h2_client *client, int32_t id) {
  return client->replies[(id - 1) / 2];
}

static inline int client_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                                   size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                                   void *user) {
  (void)session, (void)flags;
  h2_reply *reply = reply_of(user, frame->hd.stream_id);
  size_t used = strlen(reply->headers);
  snprintf(reply->headers + used, sizeof reply->headers - used, "%.*s: %.*s\n", (int)name_size, (const char *)name,
           (int)value_size, (const char *)value);
  if (strcmp((const char *)name, ":status") == 0) reply->http_status = atoi((const char *)value);
  if (strcmp((const char *)name, "grpc-status") == 0) reply->grpc_status = atoi((const char *)value);
  if (strcmp((const char *)name, "grpc-message") == 0) {
    snprintf(reply->message, sizeof reply->message, "%.*s", (int)value_size, (const char *)value);
  }
  return 0;
}

static inline int client_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  (void)session;
  h2_client *client = user;
  if (frame->hd.type == NGHTTP2_HEADERS) reply_of(client, frame->hd.stream_id)->header_blocks++;
  if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) client->settings++;
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    client->goaways++;
    client->last_goaway_id = frame->goaway.last_stream_id;
    client->goaway_code = frame->goaway.error_code;
  }
  return 0;
}

static inline int client_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
                                 void *user) {
  (void)session, (void)flags;
  h2_reply *reply = reply_of(user, id);
  if (reply->size + size > reply->capacity) {
    reply->capacity = (reply->size + size) * 2;
    reply->data = realloc(reply->data, reply->capacity);
  }
  memcpy(reply->data + reply->size, data, size);
  reply->size += size;
  return 0;
}

static inline int client_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
  (void)session;
  h2_reply *reply = reply_of(user, id);
  reply->is_closed = true;
  reply->error_code = code;
  return 0;
}

static inline ssize_t client_read(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size, uint32_t *flags,
                                  nghttp2_data_source *source, void *user) {
  (void)session, (void)source;
  h2_reply *reply = reply_of(user, id);
  size_t left = reply->out_size - reply->out_at;
  if (left < size) size = left;
  if (size) memcpy(buffer, reply->out + reply->out_at, size);
  reply->out_at += size;
  if (reply->out_at == reply->out_size && reply->out_ends) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  } else if (!size) {
    reply->is_deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return (ssize_t)size;
}

/* A socket to the server; receive_buffer 0: the system's. */
static inline int client_socket(int port, int receive_buffer) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (receive_buffer) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

static inline h2_client *client_on(int fd, SSL *ssl, bool auto_window) {
  h2_client *client = calloc(1, sizeof *client);
  nghttp2_session_callbacks *callbacks = NULL;
  nghttp2_option *option = NULL;
  client->fd = fd;
  client->ssl = ssl;
  client->reads = true;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, client_on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, client_on_close);
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, !auto_window);
  nghttp2_option_set_peer_max_concurrent_streams(option, 100000);
  nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
  nghttp2_session_client_new2(&client->session, callbacks, client, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0);
  return client;
}

static inline h2_client *client_connect(int port, bool auto_window, int receive_buffer) {
  return client_on(client_socket(port, receive_buffer), NULL, auto_window);
}

/* -1 and EAGAIN: not now; other results <= 0: the connection is lost. */
static inline ssize_t client_put(h2_client *client, const uint8_t *data, size_t size) {
  if (!client->ssl) return send(client->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  int rc = SSL_write(client->ssl, data, (int)size), error = SSL_get_error(client->ssl, rc);
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
  return rc > 0 ? rc : -1;
}

static inline ssize_t client_get(h2_client *client, uint8_t *data, size_t size) {
  if (!client->ssl) return recv(client->fd, data, size, MSG_DONTWAIT);
  int rc = SSL_read(client->ssl, data, (int)size), error = SSL_get_error(client->ssl, rc);
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
  return rc > 0 ? rc : -1;
}

static inline void client_close(h2_client *client) {
  for (size_t i = 0; i < sizeof client->replies / sizeof *client->replies; i++) {
    if (!client->replies[i]) continue;
    free(client->replies[i]->data);
    free(client->replies[i]->out);
    free(client->replies[i]);
  }
  nghttp2_session_del(client->session);
  SSL_free(client->ssl);
  if (client->fd >= 0) close(client->fd);
  free(client);
}

static inline nghttp2_nv client_nv(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

/* Appends bytes to a call's request. */
static inline void client_write(h2_client *client, h2_reply *reply, const void *data, size_t size, bool ends) {
  reply->out = realloc(reply->out, reply->out_size + size + 1);
  if (size) memcpy(reply->out + reply->out_size, data, size);
  reply->out_size += size;
  reply->out_ends = ends;
  if (reply->is_deferred) {
    reply->is_deferred = false;
    nghttp2_session_resume_data(client->session, reply->id);
  }
}

/* Appends one message, with its prefix. */
static inline void client_message(h2_client *client, h2_reply *reply, const void *data, size_t size, bool ends) {
  uint8_t prefix[5] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
  client_write(client, reply, prefix, 5, false);
  client_write(client, reply, data, size, ends);
}

/* Starts a call with these headers after :path (those NULL-named replace the usual ones). */
static inline h2_reply *client_start(h2_client *client, const nghttp2_nv *nv, size_t count) {
  nghttp2_data_provider provider = {.read_callback = client_read};
  h2_reply *reply = calloc(1, sizeof *reply);
  reply->http_status = reply->grpc_status = -1;
  reply->id = nghttp2_submit_request(client->session, NULL, nv, count, &provider, NULL);
  if (reply->id <= 0) abort();
  client->replies[(reply->id - 1) / 2] = reply;
  return reply;
}

static inline h2_reply *client_call(h2_client *client, const char *path, const nghttp2_nv *extra, size_t extra_count) {
  nghttp2_nv nv[64] = {client_nv(":method", "POST"),
                       client_nv(":scheme", "http"),
                       client_nv(":path", path),
                       client_nv(":authority", "test"),
                       client_nv("content-type", "application/grpc"),
                       client_nv("te", "trailers")};
  if (extra_count) memcpy(nv + 6, extra, extra_count * sizeof *nv);
  return client_start(client, nv, 6 + extra_count);
}

/* One round of reading and writing. */
static inline void client_step(h2_client *client, int timeout_ms) {
  const uint8_t *data;
  ssize_t size;
  while (!client->is_lost && (size = nghttp2_session_mem_send(client->session, &data)) > 0) {
    while (size > 0) {
      ssize_t sent = client_put(client, data, (size_t)size);
      if (sent < 0 && errno == EAGAIN) {
        struct pollfd full = {.fd = client->fd, .events = POLLOUT};
        poll(&full, 1, 10);
        sent = 0;
      } else if (sent < 0) {
        client->is_lost = true;
        break;
      }
      data += sent;
      size -= sent;
    }
  }
  struct pollfd ready = {.fd = client->fd, .events = POLLIN};
  bool is_pending = client->ssl && SSL_pending(client->ssl) > 0;
  if (!client->reads || (!is_pending && poll(&ready, 1, timeout_ms) <= 0)) return;
  uint8_t buffer[65536];
  ssize_t got = client_get(client, buffer, sizeof buffer);
  if (got == 0 || (got < 0 && errno != EAGAIN)) client->is_lost = true;
  if (got > 0 && nghttp2_session_mem_recv(client->session, buffer, (size_t)got) < 0) client->is_lost = true;
}

static inline void client_run(h2_client *client, int ms) {
  int64_t until = client_now_ms() + ms;
  while (client_now_ms() < until && !client->is_lost) client_step(client, 5);
}

/* Until the call is over; false after ten seconds or when the connection is lost. */
static inline bool client_finish(h2_client *client, h2_reply *reply) {
  int64_t until = client_now_ms() + 10000;
  while (!reply->is_closed && !client->is_lost && client_now_ms() < until) client_step(client, 5);
  return reply->is_closed;
}

static inline void client_cancel(h2_client *client, h2_reply *reply, uint32_t code) {
  nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, reply->id, code);
}

/* ---- raw bytes ---- */

static inline void raw_send(int fd, const void *data, size_t size) {
  const uint8_t *at = data;
  while (size) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += sent;
    size -= (size_t)sent;
  }
}

static inline void raw_frame(int fd, uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t size) {
  uint8_t header[9] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size,      type,       flags,
                       (uint8_t)(id >> 24),   (uint8_t)(id >> 16),  (uint8_t)(id >> 8), (uint8_t)id};
  raw_send(fd, header, 9);
  raw_send(fd, payload, size);
}

/* True when the server closes the connection within the time. */
static inline bool raw_is_closed(int fd, int ms) {
  int64_t until = client_now_ms() + ms;
  char buffer[4096];
  while (client_now_ms() < until) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 20) <= 0) continue;
    ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

#endif
