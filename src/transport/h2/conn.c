/* A connection: its socket, its output, its end. thread: loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "h2.h"

/* ---- the batch: what one writev takes ---- */

/* A DATA frame and a HEADERS frame fit. */
static bool has_room(const h2_batch *batch) {
  return batch->count + TRN_H2_PIECES_MAX + 8 <= TRN_H2_BATCH_SEGMENTS &&
         batch->hold_count + TRN_H2_PIECES_MAX + 8 <= TRN_H2_BATCH_SEGMENTS &&
         batch->copy_size + (17u << 10) + TRN_H2_PIECES_MAX * TRN_H2_PIECE_COPY_MAX <= TRN_H2_BATCH_COPY &&
         batch->bytes < TRN_H2_BATCH_BYTES;
}

void trn__h2_batch_put(h2_batch *batch, const void *data, size_t size, h2_out *hold) {
  struct iovec *last = batch->count > batch->first ? &batch->segments[batch->count - 1] : NULL;
  batch->bytes += size;
  if (hold) {
    H2_ASSERT(batch->count < TRN_H2_BATCH_SEGMENTS && batch->hold_count < TRN_H2_BATCH_SEGMENTS);
    batch->segments[batch->count++] = (struct iovec){(void *)(uintptr_t)data, size};
    if (batch->hold_count && batch->holds[batch->hold_count - 1] == hold) return;
    hold->refs++;
    batch->holds[batch->hold_count++] = hold;
    return;
  }
  H2_ASSERT(batch->copy_size + size <= TRN_H2_BATCH_COPY);
  uint8_t *to = batch->copy + batch->copy_size;
  memcpy(to, data, size);
  batch->copy_size += size;
  if (last && (uint8_t *)last->iov_base + last->iov_len == to) {
    last->iov_len += size;
  } else {
    H2_ASSERT(batch->count < TRN_H2_BATCH_SEGMENTS);
    batch->segments[batch->count++] = (struct iovec){to, size};
  }
}

static void batch_advance(h2_batch *batch, size_t written) {
  batch->bytes -= written;
  while (written) {
    struct iovec *segment = &batch->segments[batch->first];
    if (written < segment->iov_len) {
      segment->iov_base = (uint8_t *)segment->iov_base + written;
      segment->iov_len -= written;
      return;
    }
    written -= segment->iov_len;
    batch->first++;
  }
}

/* ---- writing ---- */

typedef enum io_result { IO_DONE, IO_WAIT, IO_LOST } io_result;

static io_result write_plain(h2_conn *conn) {
  h2_batch *batch = conn->batch;
  while (batch->bytes) {
    struct msghdr message = {.msg_iov = batch->segments + batch->first, .msg_iovlen = batch->count - batch->first};
    ssize_t written = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      batch_advance(batch, (size_t)written);
    } else if (written < 0 && errno == EINTR) {
      continue;
    } else {
      return written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? IO_WAIT : IO_LOST;
    }
  }
  return IO_DONE;
}

/* Gathers small segments, so that each TLS record is full. */
static size_t gather(const h2_batch *batch, uint8_t *out, size_t max) {
  size_t size = 0;
  for (size_t i = batch->first; i < batch->count && size < max; i++) {
    size_t take = batch->segments[i].iov_len;
    if (take > max - size) take = max - size;
    memcpy(out + size, batch->segments[i].iov_base, take);
    size += take;
  }
  return size;
}

static io_result write_tls(h2_conn *conn) {
  h2_batch *batch = conn->batch;
  uint8_t record[16384];
  while (batch->bytes) {
    /* A retry after IO_WAIT gathers the same bytes again, as SSL_write demands. */
    size_t written = 0, size = gather(batch, record, sizeof record);
    ERR_clear_error();
    int rc = SSL_write_ex(conn->ssl, record, size, &written);
    if (rc == 1) {
      batch_advance(batch, written);
      continue;
    }
    int error = SSL_get_error(conn->ssl, rc);
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? IO_WAIT : IO_LOST;
  }
  return IO_DONE;
}

static io_result flush(h2_conn *conn) {
  h2_batch *batch = conn->batch;
  if (!batch) return IO_DONE;
  io_result result = conn->ssl ? write_tls(conn) : write_plain(conn);
  if (result != IO_DONE) return result;
  conn->batch = NULL;
  trn__h2_loop_batch_return(conn->loop, batch);
  return IO_DONE;
}

/* Takes frames out of the session until the batch is full or there are none. False: the session failed. */
static bool fill(h2_conn *conn) {
  if (!nghttp2_session_want_write(conn->session)) return true;
  if (!conn->batch) conn->batch = trn__h2_loop_batch(conn->loop);
  if (!conn->batch) return false;
  while (has_room(conn->batch)) {
    const uint8_t *data = NULL;
    conn->is_paused = false;
    ssize_t size = nghttp2_session_mem_send(conn->session, &data);
    if (size < 0) return false;
    if (size > 0) {
      trn__h2_batch_put(conn->batch, data, (size_t)size, NULL);
    } else if (!conn->is_paused) {
      break;
    }
  }
  return true;
}

static void wait_for(h2_conn *conn, int events);

static void write_out(h2_conn *conn) {
  size_t written = 0;
  io_result result = IO_DONE;
  while (result == IO_DONE) {
    if (!fill(conn)) {
      result = IO_LOST;
      break;
    }
    size_t bytes = conn->batch ? conn->batch->bytes : 0;
    result = flush(conn);
    if (!bytes) break;
    written += bytes - (conn->batch ? conn->batch->bytes : 0);
    if (result == IO_DONE && written >= TRN_H2_PUMP_BYTES) {
      trn__h2_conn_dirty(conn); /* the others first */
      break;
    }
  }
  conn->wants_write = result == IO_WAIT;
  if (written || result != IO_WAIT) {
    conn->stalled_ns = 0;
  } else if (!conn->stalled_ns) {
    conn->stalled_ns = trn__h2_now_ns();
  }
  bool is_over = result == IO_DONE && !nghttp2_session_want_write(conn->session) &&
                 (conn->is_kicked || !nghttp2_session_want_read(conn->session));
  if (result == IO_LOST || is_over) {
    if (is_over && conn->channel && !conn->is_ready) conn->problem = "the peer does not speak HTTP/2";
    trn__h2_conn_close(conn);
  } else {
    wait_for(conn, UV_READABLE | (conn->wants_write ? UV_WRITABLE : 0));
  }
}

/* ---- reading ---- */

static io_result read_some(h2_conn *conn, size_t *size) {
  if (!conn->ssl) {
    ssize_t got;
    do {
      got = recv(conn->fd, conn->loop->read_buffer, TRN_H2_READ_BYTES, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
      *size = (size_t)got;
      return IO_DONE;
    }
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? IO_WAIT : IO_LOST;
  }
  size_t total = 0;
  while (total + 16384 <= TRN_H2_READ_BYTES) {
    size_t got = 0;
    ERR_clear_error();
    int rc = SSL_read_ex(conn->ssl, conn->loop->read_buffer + total, TRN_H2_READ_BYTES - total, &got);
    if (rc != 1) {
      int error = SSL_get_error(conn->ssl, rc);
      bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
      if (!total) return waits ? IO_WAIT : IO_LOST; /* an error after data comes again at the next read */
      break;
    }
    total += got;
  }
  *size = total;
  return IO_DONE;
}

static void close_for(h2_conn *conn, const char *problem) {
  conn->problem = problem;
  trn__h2_conn_close(conn);
}

/* A client's socket: connected, or why not. */
static bool connected(h2_conn *conn) {
  int error = 0;
  socklen_t size = sizeof error;
  if (!conn->is_connecting) return true;
  if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error) {
    char text[96] = "";
    close_for(conn, strerror_r(error, text, sizeof text));
    return false;
  }
  conn->is_connecting = false;
  wait_for(conn, UV_READABLE);
  return !conn->is_closed;
}

/* True: TLS is up, or there is none. */
static bool shake_hands(h2_conn *conn) {
  if (!conn->ssl || conn->is_secure) return true;
  ERR_clear_error();
  int rc = SSL_do_handshake(conn->ssl);
  if (rc != 1) {
    int error = SSL_get_error(conn->ssl, rc);
    if (error == SSL_ERROR_WANT_READ) {
      wait_for(conn, UV_READABLE);
    } else if (error == SSL_ERROR_WANT_WRITE) {
      wait_for(conn, UV_READABLE | UV_WRITABLE);
    } else {
      long verified = SSL_get_verify_result(conn->ssl);
      close_for(conn, verified != X509_V_OK ? X509_verify_cert_error_string(verified) : "the TLS handshake failed");
    }
    return false;
  }
  conn->is_secure = true;
  if (conn->channel) {
    if (trn__h2_tls_is_h2(conn->ssl)) return true;
    close_for(conn, "the peer's TLS does not speak h2 (ALPN)");
    return false;
  }
  trn__h2_tls_identity(conn->ssl, conn->identity, sizeof conn->identity);
  if (trn__h2_tls_is_h2(conn->ssl) || conn->loop->server->options.http_get) return true;
  trn__h2_conn_close(conn);
  return false;
}

/* HTTP/1.1 may come instead: the first bytes tell. */
static bool may_be_http(const h2_conn *conn) {
  return !conn->channel && conn->loop->server->options.http_get && !(conn->ssl && trn__h2_tls_is_h2(conn->ssl));
}

/* Whatever comes before HTTP/2. True: bytes can be read. */
static bool establish(h2_conn *conn) {
  if (conn->session || conn->http) return true;
  if (!connected(conn) || !shake_hands(conn)) return false;
  if (may_be_http(conn)) {
    wait_for(conn, UV_READABLE);
    return !conn->is_closed;
  }
  if (!trn__h2_session_start(conn)) {
    close_for(conn, "no memory");
    return false;
  }
  return true;
}

/* Bytes for a connection that has no session: a plain request, or the beginning of HTTP/2. False: it is closed. */
static bool begin(h2_conn *conn, size_t size) {
  const uint8_t *data = conn->loop->read_buffer;
  if (conn->http || trn__h2_http_begins(data, size)) {
    if (trn__h2_http_read(conn, data, size)) return true;
    trn__h2_conn_close(conn);
    return false;
  }
  if (trn__h2_session_start(conn)) return true;
  trn__h2_conn_close(conn);
  return false;
}

static void read_in(h2_conn *conn) {
  conn->has_more_to_read = false;
  for (unsigned i = 0; i < TRN_H2_READS_MAX; i++) {
    size_t size = 0;
    io_result result = read_some(conn, &size);
    if (result == IO_WAIT) return;
    if (result == IO_LOST) {
      close_for(conn, "the peer closed it");
      return;
    }
    conn->last_read_ns = trn__h2_now_ns();
    if (!conn->session && !begin(conn, size)) return;
    if (conn->http) continue;
    ssize_t used = nghttp2_session_mem_recv(conn->session, conn->loop->read_buffer, size);
    if (used < 0) {
      /* Not HTTP/2, or no memory. What the session still has to say goes out if it fits the socket. */
      nghttp2_session_terminate_session(conn->session, NGHTTP2_PROTOCOL_ERROR);
      if (fill(conn)) flush(conn);
      close_for(conn, "the peer does not speak HTTP/2");
      return;
    }
    if (!conn->ssl && size < TRN_H2_READ_BYTES) return; /* the socket is empty; epoll tells when it is not */
  }
  conn->has_more_to_read = true;
  trn__h2_conn_dirty(conn);
}

/* ---- life ---- */

static void on_poll(uv_poll_t *poll, int status, int events) {
  h2_conn *conn = (h2_conn *)poll;
  h2_loop *loop = conn->loop;
  if (status < 0) {
    trn__h2_conn_close(conn);
  } else {
    if (establish(conn)) {
      if (events & UV_READABLE) read_in(conn);
      if (!conn->is_closed) trn__h2_conn_dirty(conn);
    }
  }
  trn__h2_loop_settle(loop);
}

static void wait_for(h2_conn *conn, int events) {
  if (conn->is_closed || conn->events == events) return;
  conn->events = events;
  if (uv_poll_start(&conn->poll, events, on_poll) != 0) trn__h2_conn_close(conn);
}

void trn__h2_conn_dirty(h2_conn *conn) {
  if (conn->is_dirty || conn->is_closed) return;
  conn->is_dirty = true;
  TAILQ_INSERT_TAIL(&conn->loop->dirty, conn, dirty_link);
}

/* A plain answer goes out; then the connection is over. */
static void write_http(h2_conn *conn) {
  bool has_answer = conn->batch != NULL;
  io_result result = flush(conn);
  conn->wants_write = result == IO_WAIT;
  if (result == IO_LOST || (result == IO_DONE && has_answer)) {
    trn__h2_conn_close(conn);
  } else {
    wait_for(conn, conn->wants_write ? UV_WRITABLE : UV_READABLE);
  }
}

void trn__h2_conn_work(h2_conn *conn) {
  if (conn->http) {
    write_http(conn);
    return;
  }
  if (!conn->session) return;
  if (conn->is_broken) {
    trn__h2_conn_close(conn);
    return;
  }
  if (conn->has_more_to_read) read_in(conn);
  if (!conn->is_closed) write_out(conn);
}

static void set_peer(h2_conn *conn, const struct sockaddr_storage *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->ss_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    snprintf(conn->peer, sizeof conn->peer, "ipv4:%s:%u", text, ntohs(v4->sin_port));
  } else if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) { /* came through "[::]" */
      inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof text);
      snprintf(conn->peer, sizeof conn->peer, "ipv4:%s:%u", text, ntohs(v6->sin6_port));
    } else {
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
      snprintf(conn->peer, sizeof conn->peer, "ipv6:[%s]:%u", text, ntohs(v6->sin6_port));
    }
  } else {
    snprintf(conn->peer, sizeof conn->peer, address->ss_family == AF_UNIX ? "unix:" : "unknown:");
  }
}

static void set_socket_options(int fd) {
  int on = 1, idle = TRN_H2_TCP_KEEPALIVE_S;
  /* Best effort: each only makes things better. */
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
}

/* Takes fd, also on failure. */
static h2_conn *create(h2_loop *loop, int fd, const struct sockaddr_storage *address) {
  h2_conn *conn = calloc(1, sizeof *conn);
  if (!conn || uv_poll_init(&loop->uv, &conn->poll, fd) != 0) {
    free(conn);
    close(fd);
    atomic_fetch_sub(&loop->base->connection_count, 1);
    return NULL;
  }
  conn->loop = loop;
  conn->fd = fd;
  conn->born_ns = conn->last_read_ns = conn->idle_ns = trn__h2_now_ns();
  TAILQ_INIT(&conn->streams);
  TAILQ_INSERT_TAIL(&loop->conns, conn, link);
  set_peer(conn, address);
  if (address->ss_family != AF_UNIX) set_socket_options(fd);
  return conn;
}

static bool use_tls(h2_conn *conn) {
  trn_server *server = conn->loop->server;
  if (!server->has_tls) return true;
  pthread_mutex_lock(&server->tls_mutex);
  conn->tls = trn__h2_tls_ref(server->tls);
  pthread_mutex_unlock(&server->tls_mutex);
  conn->ssl = trn__h2_tls_accept(conn->tls, conn->fd);
  return conn->ssl != NULL;
}

void trn__h2_conn_open(h2_loop *loop, int fd, const struct sockaddr_storage *address) {
  h2_conn *conn = create(loop, fd, address);
  if (!conn) return;
  if (!use_tls(conn)) {
    trn__h2_conn_close(conn);
    return;
  }
  wait_for(conn, UV_READABLE);
  if (!conn->is_closed && !conn->ssl && establish(conn)) trn__h2_conn_dirty(conn);
}

h2_conn *trn__h2_conn_connect(h2_channel *channel, int fd, const struct sockaddr_storage *address) {
  atomic_fetch_add(&channel->base->connection_count, 1);
  h2_conn *conn = create(channel->loop, fd, address);
  if (!conn) return NULL;
  conn->channel = channel;
  atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
  conn->is_connecting = true;
  if (channel->tls) {
    conn->tls = trn__h2_tls_ref(channel->tls);
    conn->ssl = trn__h2_tls_connect(channel->tls, fd, channel->server_name);
  }
  wait_for(conn, UV_WRITABLE);
  if (channel->tls && !conn->ssl && !conn->is_closed) close_for(conn, "no memory");
  return conn;
}

static void on_poll_closed(uv_handle_t *handle) {
  free(handle);
}

/* A batch that will not be written: its messages are released. */
static void drop_batch(h2_conn *conn) {
  if (!conn->batch) return;
  trn__h2_loop_batch_return(conn->loop, conn->batch);
  conn->batch = NULL;
}

void trn__h2_conn_close(h2_conn *conn) {
  if (conn->is_closed) return;
  h2_loop *loop = conn->loop;
  conn->is_closed = true;
  if (conn->is_dirty) TAILQ_REMOVE(&loop->dirty, conn, dirty_link);
  TAILQ_REMOVE(&loop->conns, conn, link);
  uv_poll_stop(&conn->poll);
  /* Deleting a session calls no close callbacks: the calls are told here. */
  nghttp2_session *session = conn->session;
  conn->session = NULL;
  while (!TAILQ_EMPTY(&conn->streams)) trn__h2_stream_closed(TAILQ_FIRST(&conn->streams), NGHTTP2_CONNECT_ERROR);
  nghttp2_session_del(session);
  drop_batch(conn);
  trn__h2_http_destroy(conn->http);
  trn__h2_known_destroy(conn->known);
  conn->http = NULL;
  conn->known = NULL;
  if (conn->ssl) {
    ERR_clear_error();
    SSL_shutdown(conn->ssl); /* sends close_notify if it fits; nobody waits for the peer's */
    SSL_free(conn->ssl);
  }
  trn__h2_tls_unref(conn->tls);
  h2_channel *channel = conn->channel;
  const char *problem = conn->problem;
  uv_close((uv_handle_t *)&conn->poll, on_poll_closed);
  close(conn->fd);
  atomic_fetch_sub(&loop->base->connection_count, 1);
  if (channel) {
    trn__h2_channel_lost(channel, conn, problem ? problem : "it was lost");
    trn__h2_channel_unref(channel);
  }
}

/* ---- time and leaving ---- */

static bool passed(int64_t now_ns, int64_t since_ns, int64_t ms) {
  return now_ns - since_ns >= ms * 1000000;
}

/* Silence, then a PING, then the peer is lost. False: it is closed. */
static bool keep_alive(h2_conn *conn, int64_t now_ns, unsigned silence_ms, unsigned timeout_ms, bool also_idle) {
  if (conn->ping_ns && conn->last_read_ns > conn->ping_ns) conn->ping_ns = 0;
  if (conn->ping_ns && passed(now_ns, conn->ping_ns, timeout_ms)) {
    close_for(conn, "the peer answers no PING");
    return false;
  }
  if (!conn->ping_ns && (conn->stream_count || also_idle) && passed(now_ns, conn->last_read_ns, silence_ms)) {
    conn->ping_ns = now_ns;
    conn->is_broken |= nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL) != 0;
    trn__h2_conn_dirty(conn);
  }
  return true;
}

static void tick_client(h2_conn *conn, int64_t now_ns) {
  const trn_channel_options *options = &conn->channel->options;
  if (!conn->is_ready) {
    if (now_ns >= conn->channel->connect_until_ns) close_for(conn, "it took too long");
    return;
  }
  if (options->keepalive_ms && !keep_alive(conn, now_ns, options->keepalive_ms, options->keepalive_timeout_ms,
                                           options->keepalive_without_calls)) {
    return;
  }
  bool is_idle = !conn->stream_count && conn->idle_ns;
  if (is_idle && options->idle_ms && !conn->is_leaving && passed(now_ns, conn->idle_ns, options->idle_ms)) {
    trn__h2_channel_leaving(conn->channel, conn);
  }
}

/* Messages that stopped in the middle. */
static void fail_paused(h2_conn *conn, int64_t now_ns, unsigned stalled_ms) {
  h2_stream *stream = TAILQ_FIRST(&conn->streams);
  while (stream) {
    h2_stream *next = TAILQ_NEXT(stream, link);
    if (stream->progress_ns && passed(now_ns, stream->progress_ns, stalled_ms)) {
      stream->progress_ns = 0;
      stream->role->fail(stream, TRN_DEADLINE_EXCEEDED, "The request pauses inside a message");
    }
    stream = next;
  }
}

static void tick_server(h2_conn *conn, int64_t now_ns) {
  const trn_server_options *options = &conn->loop->server->options;
  if (!conn->is_ready) {
    if (passed(now_ns, conn->born_ns, options->handshake_ms)) trn__h2_conn_close(conn);
    return;
  }
  if (conn->is_leaving && passed(now_ns, conn->leaving_ns, TRN_H2_GOAWAY_MS)) trn__h2_conn_leave_final(conn);
  bool is_stalled = (conn->stalled_ns && passed(now_ns, conn->stalled_ns, options->stalled_ms)) ||
                    (conn->header_ns && passed(now_ns, conn->header_ns, options->stalled_ms));
  if (is_stalled) {
    trn__h2_conn_close(conn);
    return;
  }
  if (!keep_alive(conn, now_ns, options->keepalive_ms, options->keepalive_timeout_ms, false)) return;
  fail_paused(conn, now_ns, options->stalled_ms);
  bool is_idle = options->connection_idle_ms && !conn->stream_count && conn->idle_ns &&
                 passed(now_ns, conn->idle_ns, options->connection_idle_ms);
  bool is_old = options->connection_age_ms && passed(now_ns, conn->born_ns, options->connection_age_ms);
  if (is_idle || is_old) trn__h2_conn_leave(conn);
}

void trn__h2_conn_tick(h2_conn *conn, int64_t now_ns) {
  if (conn->channel) {
    tick_client(conn, now_ns);
  } else {
    tick_server(conn, now_ns);
  }
}

void trn__h2_conn_ping(h2_conn *conn) {
  if (conn->channel || conn->is_kicked) return;
  const trn_server_options *options = &conn->loop->server->options;
  int64_t now = conn->last_read_ns, before = conn->peer_ping_ns;
  unsigned interval_ms = conn->stream_count ? options->ping_interval_min_ms : TRN_H2_PING_INTERVAL_IDLE_MS;
  if (conn->sent_since_ping) {
    conn->ping_strikes = 0;
  } else if (before && !passed(now, before, interval_ms)) {
    conn->ping_strikes++;
  }
  conn->sent_since_ping = false;
  conn->peer_ping_ns = now;
  if (conn->ping_strikes <= TRN_H2_PING_STRIKES_MAX) return;
  static const uint8_t why[] = "too_many_pings"; /* the words that clients know: they ask more seldom then */
  conn->is_kicked = true;
  int32_t last = nghttp2_session_get_last_proc_stream_id(conn->session);
  trn__h2_conn_check(conn, nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_ENHANCE_YOUR_CALM, why,
                                                 sizeof why - 1));
  trn__h2_conn_dirty(conn);
}

void trn__h2_conn_leave(h2_conn *conn) {
  if (conn->is_leaving || conn->channel) return;
  conn->is_leaving = true;
  conn->leaving_ns = trn__h2_now_ns();
  if (!conn->is_ready) { /* nothing was promised */
    trn__h2_conn_close(conn);
    return;
  }
  /* First "send no more", and once the client has seen that (it answers the PING) the last call that counts. */
  conn->is_broken |= nghttp2_submit_shutdown_notice(conn->session) != 0 ||
                     nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL) != 0;
  trn__h2_conn_dirty(conn);
}

void trn__h2_conn_leave_final(h2_conn *conn) {
  if (conn->is_goaway_final) return;
  conn->is_goaway_final = true;
  int32_t last = nghttp2_session_get_last_proc_stream_id(conn->session);
  conn->is_broken |= nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) != 0;
  trn__h2_conn_dirty(conn);
}

void trn__h2_conn_cancel(h2_conn *conn) {
  if (!conn->session) {
    trn__h2_conn_close(conn);
    return;
  }
  h2_stream *stream;
  TAILQ_FOREACH(stream, &conn->streams, link) {
    stream->role->fail(stream, TRN_UNAVAILABLE, "The server is shutting down");
  }
  if (!conn->channel) trn__h2_conn_leave_final(conn);
}
