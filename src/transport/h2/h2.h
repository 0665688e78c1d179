/* The parts of the bundled server. One loop (a thread) owns a connection with its nghttp2 session and its streams;
 * other threads reach a stream only through its mailbox. `thread: loop` means the loop that owns the object. */
#ifndef TRN_H2_H2_H
#define TRN_H2_H2_H
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include <uv.h>

#include <openssl/ssl.h>

#include <trunnion/server.h>

#include "limits.h"

#ifdef NDEBUG
#define H2_ASSERT(condition) ((void)sizeof(condition))
#else
#define H2_ASSERT(condition) ((condition) ? (void)0 : abort())
#endif

typedef struct h2_stream h2_stream;
typedef struct h2_conn h2_conn;
typedef struct h2_loop h2_loop;

/* ---- codec.c: texts of the gRPC mapping. thread: any ---- */

/* Accepts padded and unpadded text. `out` has room for size / 4 * 3 + 3. */
bool trn__h2_base64_decode(const char *text, size_t size, uint8_t *out, size_t *out_size);
size_t trn__h2_base64_size(size_t size); /* of the unpadded text */
void trn__h2_base64_encode(const void *data, size_t size, char *out);
size_t trn__h2_percent_size(const char *text);
void trn__h2_percent_encode(const char *text, char *out);
bool trn__h2_timeout_parse(const char *text, size_t size, int64_t *timeout_ns);
bool trn__h2_key_is_sendable(const char *key);
bool trn__h2_value_is_sendable(const void *value, size_t size);
bool trn__h2_key_is_binary(const char *key, size_t size);
int64_t trn__h2_now_ns(void);

/* ---- headers.c ---- */

typedef enum h2_encoding { H2_IDENTITY, H2_GZIP, H2_DEFLATE, H2_ENCODING_UNKNOWN } h2_encoding;

/* The headers of a request while they arrive. */
typedef struct h2_request {
  char *bytes; /* keys and values, each with a NUL */
  size_t size, capacity;
  struct {
    size_t key, value, value_size;
  } * entries;
  size_t count, entries_capacity;
  size_t list_size; /* as HTTP/2 counts it */
  char *path;
  size_t path_size;
  int64_t timeout_ns; /* -1: none */
  h2_encoding encoding;
  bool is_post, is_grpc, accepts_gzip;
  bool is_too_big, is_malformed, is_out_of_memory;
} h2_request;
void trn__h2_request_init(h2_request *request);
void trn__h2_request_add(h2_request *request, const uint8_t *name, size_t name_size, const uint8_t *value,
                         size_t value_size, size_t list_size_max);
/* Gives an array that points into the request, or NULL (no memory, or no metadata). */
trn_metadata *trn__h2_request_metadata(const h2_request *request);
void trn__h2_request_finish(h2_request *request);

/* Response headers or trailers, encoded; one allocation. */
typedef struct h2_block {
  size_t count;
  size_t list_size;
  nghttp2_nv nv[];
} h2_block;
h2_block *trn__h2_block_initial(const trn_metadata *metadata, size_t count);
h2_block *trn__h2_block_trailers(trn_status status, const char *message, const void *details, size_t details_size,
                                 const trn_metadata *metadata, size_t count);
/* Makes trailers fit a peer that announced SETTINGS_MAX_HEADER_LIST_SIZE: drops details, then cuts the message. */
void trn__h2_block_fit(h2_block *block, size_t list_size_max);
nghttp2_nv trn__h2_nv(const char *name, const char *value); /* of static texts */

/* ---- message.c ---- */

/* A message on its way out. Its references are the loop's: the stream's queue and the batches that point into it. */
typedef struct h2_out {
  struct h2_out *next;
  size_t refs;
  size_t size;          /* with the prefix */
  size_t index, offset; /* first byte that is in no frame yet */
  size_t count;
  uint8_t prefix[5];
  trn_slice slices[]; /* slices[0] is the prefix; followed by the copied bytes */
} h2_out;
/* Takes the slices, also on failure (NULL: no memory, or too long). */
h2_out *trn__h2_out_create(const trn_slice *slices, size_t count, bool compress);
void trn__h2_out_unref(h2_out *out);
void trn__h2_slices_release(const trn_slice *slices, size_t count);

/* Takes messages out of a request's bytes. */
typedef struct h2_reader {
  uint8_t prefix[5];
  unsigned prefix_size;
  uint8_t *message;
  size_t message_size, message_have, message_capacity;
  uint8_t *unread; /* bytes that came before anybody asked */
  size_t unread_at, unread_size, unread_capacity;
  size_t window_debt; /* of the unread bytes: those not given back to the connection's window yet */
} h2_reader;
typedef enum h2_read { H2_READ_MORE, H2_READ_MESSAGE, H2_READ_FAILED } h2_read;
typedef struct h2_read_limits {
  size_t message_bytes_max;
  h2_encoding encoding;
  atomic_size_t *partial_bytes; /* of the server */
} h2_read_limits;
typedef struct h2_failure {
  trn_status status;
  char message[160];
} h2_failure;
h2_read trn__h2_reader_feed(h2_reader *reader, const h2_read_limits *limits, const uint8_t *data, size_t size,
                            size_t *used, trn_slice *message, h2_failure *failure);
bool trn__h2_reader_keep(h2_reader *reader, const uint8_t *data, size_t size);
void trn__h2_reader_finish(h2_reader *reader, const h2_read_limits *limits);

/* ---- stream.c: one call ---- */

/* What other threads want of a stream. */
typedef struct h2_mail {
  unsigned recv;
  h2_out *head, *tail;
  h2_block *initial, *trailers;
  bool finish, abort, announces_gzip;
  trn_status status;
} h2_mail;

struct h2_stream {
  atomic_size_t refs; /* the connection's, the call's, the mailbox list's */
  h2_loop *loop;
  h2_conn *conn; /* NULL once closed; loop only, like all up to the mutex */
  int32_t id;
  TAILQ_ENTRY(h2_stream) link;
  h2_request request;
  trn_call *call;
  const trn_method *method;
  h2_reader reader;
  h2_read_limits read_limits;
  unsigned wanted; /* messages asked for and not delivered */
  bool is_open, is_remote_closed, is_half_close_delivered, is_message_delivered, is_cancel_delivered, is_failed;
  bool is_started; /* response headers were submitted */
  bool has_data, is_deferred, is_end_submitted, is_end_sent;
  h2_out *head, *tail;
  h2_block *initial, *trailers;
  bool is_finishing;
  trn_status finish_status;
  bool announces_gzip;
  int64_t deadline_ns;
  size_t heap_index; /* + 1; 0: not in the heap */

  pthread_mutex_t mutex; /* all below; taken before the loop's mutex */
  bool is_closed, is_finished, is_aborted, is_listed;
  bool peer_accepts_gzip, is_first_sent, may_compress;
  bool wants_writable;
  size_t queued_bytes;
  h2_stream *mail_next; /* the loop's mutex */
  h2_mail mail;
};

h2_stream *trn__h2_stream_create(h2_conn *conn, int32_t id);
void trn__h2_stream_unref(h2_stream *stream);
void trn__h2_stream_open(h2_stream *stream); /* the request's headers are complete */
void trn__h2_stream_data(h2_stream *stream, const uint8_t *data, size_t size);
void trn__h2_stream_half_close(h2_stream *stream);
void trn__h2_stream_closed(
    h2_stream *stream); /* the stream is no more: tells the frontend, drops the connection's ref */
void trn__h2_stream_deadline(h2_stream *stream);                                     /* it passed */
void trn__h2_stream_fail(h2_stream *stream, trn_status status, const char *message); /* the host ends the call */
void trn__h2_stream_mail(h2_stream *stream);                /* does what other threads asked for */
void trn__h2_stream_taken(h2_stream *stream, size_t bytes); /* bytes left the queue */
ssize_t trn__h2_stream_ready(h2_stream *stream, size_t size_max, uint32_t *flags); /* for a DATA frame */

/* ---- session.c: nghttp2's callbacks ---- */

trn_status trn__h2_session_callbacks(nghttp2_session_callbacks **out);
bool trn__h2_session_start(h2_conn *conn);

/* ---- conn.c: a connection's socket ---- */

/* What one writev takes; pooled by the loop, since most connections have nothing to write most of the time. */
typedef struct h2_batch {
  struct h2_batch *next;
  size_t first, count;
  size_t bytes;
  size_t copy_size;
  size_t hold_count;
  struct iovec segments[TRN_H2_BATCH_SEGMENTS];
  h2_out *holds[TRN_H2_BATCH_SEGMENTS];
  uint8_t copy[TRN_H2_BATCH_COPY];
} h2_batch;
void trn__h2_batch_put(h2_batch *batch, const void *data, size_t size, h2_out *hold); /* hold NULL: copies */

struct h2_conn {
  uv_poll_t poll; /* first */
  h2_loop *loop;
  TAILQ_ENTRY(h2_conn) link, dirty_link;
  int fd;
  int events; /* what the poll handle waits for */
  nghttp2_session *session;
  SSL *ssl;
  h2_batch *batch;
  TAILQ_HEAD(, h2_stream) streams;
  size_t stream_count;
  size_t unread_bytes;
  int64_t born_ns, last_read_ns, ping_ns; /* ping_ns 0: none on its way */
  bool is_dirty, is_closed, is_broken, is_ready, is_paused, wants_write, has_more_to_read;
  bool is_leaving, is_goaway_final;
  int64_t leaving_ns;
  char peer[80];
  char identity[256];
};

void trn__h2_conn_open(h2_loop *loop, int fd, const struct sockaddr_storage *address); /* takes fd */
void trn__h2_conn_close(h2_conn *conn);
void trn__h2_conn_dirty(h2_conn *conn); /* has something to do when the loop settles */
void trn__h2_conn_work(h2_conn *conn);
void trn__h2_conn_tick(h2_conn *conn, int64_t now_ns);
void trn__h2_conn_leave(h2_conn *conn); /* GOAWAY in two steps */
void trn__h2_conn_leave_final(h2_conn *conn);
void trn__h2_conn_cancel(h2_conn *conn);

/* ---- tls.c ---- */

typedef struct h2_tls h2_tls;
trn_status trn__h2_tls_create(const trn_server_options *options, h2_tls **out, trn_error **error);
void trn__h2_tls_destroy(h2_tls *tls);
SSL *trn__h2_tls_accept(h2_tls *tls, int fd);
bool trn__h2_tls_is_h2(SSL *ssl);
void trn__h2_tls_identity(SSL *ssl, char *out, size_t out_size); /* "" when there is none */

/* ---- loop.c ---- */

typedef enum h2_stage { H2_RUN, H2_DRAIN, H2_CANCEL, H2_KILL } h2_stage;

typedef struct h2_handoff {
  struct h2_handoff *next;
  int fd;
  struct sockaddr_storage address;
} h2_handoff;

struct h2_loop {
  trn_server *server;
  uv_loop_t uv;
  uv_async_t async;
  uv_timer_t deadline_timer, tick_timer;
  uv_poll_t listeners[TRN_H2_LISTENERS_MAX]; /* of the server's sockets; on one loop only */
  unsigned listener_count;
  uv_timer_t accept_timer;
  bool is_initialized, has_thread;
  pthread_t thread; /* to join; the starter's */
  pthread_t self;   /* the thread's own note of who it is */
  h2_stage stage;
  TAILQ_HEAD(, h2_conn) conns;
  TAILQ_HEAD(, h2_conn) dirty;
  h2_batch *batches;
  h2_stream **heap;
  size_t heap_count, heap_capacity;
  int64_t timer_ns; /* what the timer is set to; 0: not set */
  uint8_t *read_buffer;

  pthread_mutex_t mutex; /* all below */
  bool is_finished;
  h2_stream *mail_first, **mail_end;
  h2_handoff *handoffs;
};

struct trn_server {
  const trn_routes *routes;
  trn_server_options options; /* texts are not kept */
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *session_option;
  h2_tls *tls;
  int listen_fds[TRN_H2_LISTENERS_MAX];
  unsigned listen_count;
  int port;
  unsigned loop_count, next_loop;
  h2_loop *loops;
  atomic_uint connection_count;
  atomic_size_t partial_bytes;
  atomic_int stage;
  pthread_mutex_t mutex; /* running */
  pthread_cond_t changed;
  unsigned running;
};

trn_status trn__h2_loop_init(h2_loop *loop, trn_server *server, bool listens);
trn_status trn__h2_loop_start(h2_loop *loop);
void trn__h2_loop_finish(h2_loop *loop);
void trn__h2_loop_wake(h2_loop *loop);                         /* thread: any */
bool trn__h2_loop_handoff(h2_loop *loop, h2_handoff *handoff); /* thread: any; takes, unless it is false */
/* thread: any; locks: the stream's mutex held. Takes a reference to the stream. */
void trn__h2_loop_mail(h2_loop *loop, h2_stream *stream);
/* Every uv callback calls it last: delivers mail and writes until there is nothing left to do. */
void trn__h2_loop_settle(h2_loop *loop);
bool trn__h2_loop_deadline_add(h2_loop *loop, h2_stream *stream);
void trn__h2_loop_deadline_remove(h2_loop *loop, h2_stream *stream);
h2_batch *trn__h2_loop_batch(h2_loop *loop);
void trn__h2_loop_batch_return(h2_loop *loop, h2_batch *batch);

#endif
