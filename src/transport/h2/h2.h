/* The parts of the bundled server and of the network's client. One loop (a thread) owns a connection with its nghttp2
 * session and its streams; other threads reach a stream only through its mailbox. `thread: loop` means the loop that
 * owns the object. What both sides share knows them as a role: call.c is the server's, attempt.c the client's. */
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

#include <trunnion/client.h>
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
typedef struct h2_base h2_base;
typedef struct h2_channel h2_channel;
typedef struct h2_tls h2_tls;

/* ---- codec.c: texts of the gRPC mapping. thread: any ---- */

/* Accepts padded and unpadded text. `out` has room for size / 4 * 3 + 3. */
bool trn__h2_base64_decode(const char *text, size_t size, uint8_t *out, size_t *out_size);
size_t trn__h2_percent_size(const char *text);
void trn__h2_percent_encode(const char *text, char *out);
void trn__h2_percent_decode(const char *text, size_t size, char *out); /* room for size + 1; ends with a NUL */
void trn__h2_timeout_print(int64_t timeout_ns, char out[24]);
bool trn__h2_timeout_parse(const char *text, size_t size, int64_t *timeout_ns);
bool trn__h2_key_is_sendable(const char *key);
bool trn__h2_value_is_sendable(const void *value, size_t size);
bool trn__h2_key_is_binary(const char *key, size_t size);
int64_t trn__h2_now_ns(void);

/* ---- headers.c ---- */

typedef enum h2_encoding { H2_IDENTITY, H2_GZIP, H2_DEFLATE, H2_ENCODING_UNKNOWN } h2_encoding;

/* Headers while they arrive: a request's, a response's, or trailers. */
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
  int http_status, grpc_status; /* of responses; grpc_status -1: none */
  char *message;                /* of trailers, decoded */
  uint8_t *details;
  size_t details_size;
  bool is_post, is_get, is_grpc, accepts_gzip;
  bool is_too_big, is_malformed, is_out_of_memory;
} h2_request;
void trn__h2_request_init(h2_request *request);
void trn__h2_request_add(h2_request *request, const uint8_t *name, size_t name_size, const uint8_t *value,
                         size_t value_size, size_t list_size_max);
void trn__h2_response_add(h2_request *response, const uint8_t *name, size_t name_size, const uint8_t *value,
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
h2_out *trn__h2_out_raw(trn_slice slice); /* bytes that are no message; takes, also on failure */
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
  h2_base *base; /* whose memory budget it is */
} h2_read_limits;
typedef struct h2_failure {
  trn_status status;
  char message[160];
} h2_failure;
h2_read trn__h2_reader_feed(h2_reader *reader, const h2_read_limits *limits, const uint8_t *data, size_t size,
                            size_t *used, trn_slice *message, h2_failure *failure);
bool trn__h2_reader_keep(h2_reader *reader, const h2_read_limits *limits, const uint8_t *data, size_t size);
void trn__h2_reader_forget(h2_reader *reader, const h2_read_limits *limits); /* the unread bytes */
void trn__h2_reader_finish(h2_reader *reader, const h2_read_limits *limits);

/* ---- stream.c: one call, as both sides see it ---- */

/* What other threads want of a stream. */
typedef struct h2_mail {
  unsigned recv;
  h2_out *head, *tail;
  h2_block *initial, *trailers;
  bool start, finish, abort, announces_gzip;
  trn_status status;
} h2_mail;

/* What a side does with a stream. thread: loop, except no_memory. */
typedef struct h2_role {
  void (*message)(h2_stream *stream, trn_slice message); /* takes */
  void (*writable)(h2_stream *stream);
  void (*end)(h2_stream *stream); /* everything that the peer sent is read; tells once */
  void (*fail)(h2_stream *stream, trn_status status, const char *message);
  void (*no_memory)(h2_stream *stream);             /* thread: any. For a message that the caller sends */
  void (*mail)(h2_stream *stream, h2_mail *mail);   /* takes initial and trailers; the messages are queued already */
  void (*eof)(h2_stream *stream, uint32_t *flags);  /* the last message is in a frame, and no more come */
  void (*closed)(h2_stream *stream, uint32_t code); /* no more in the session, or the session is no more */
  void (*destroy)(h2_stream *stream);
} h2_role;

struct h2_stream {
  const h2_role *role;
  atomic_size_t refs; /* the connection's, the call's, the mailbox list's */
  h2_loop *loop;
  h2_conn *conn; /* NULL once closed; loop only, like all up to the mutex */
  int32_t id;
  TAILQ_ENTRY(h2_stream) link;
  h2_request request; /* of a client: the response's headers */
  h2_reader reader;
  h2_read_limits read_limits;
  size_t send_high_water;
  unsigned wanted; /* messages asked for and not delivered */
  bool is_single;  /* one message comes, without being asked for */
  bool is_open, is_remote_closed, is_end_told, is_message_delivered, is_failed;
  bool keeps_input; /* not open yet, but it will be: what comes is for later */
  bool is_deaf;     /* what comes is not wanted any more */
  bool is_over;     /* for the caller: nothing is told any more */
  bool is_started;  /* our headers were submitted */
  bool is_deferred, is_end_submitted, is_end_sent;
  h2_out *head, *tail;
  h2_block *initial;
  bool is_finishing;
  bool announces_gzip;
  int64_t deadline_ns;
  int64_t progress_ns; /* of a message that has come in part: when its last byte came */
  size_t heap_index;   /* + 1; 0: not in the heap */

  pthread_mutex_t mutex; /* all below; taken before the loop's mutex */
  bool is_closed, is_finished, is_aborted, is_listed;
  bool peer_accepts_gzip, is_first_sent, may_compress;
  bool wants_writable;
  size_t queued_bytes;
  h2_stream *mail_next; /* the loop's mutex */
  h2_mail mail;
};

bool trn__h2_stream_init(h2_stream *stream, const h2_role *role, h2_loop *loop); /* of zeroed memory */
void trn__h2_stream_attach(h2_stream *stream, h2_conn *conn, int32_t id);
/* Leaves the connection, whose windows get back what was not read. The connection's reference becomes the caller's. */
void trn__h2_stream_detach(h2_stream *stream);
void trn__h2_stream_unref(h2_stream *stream);
void trn__h2_stream_data(h2_stream *stream, const uint8_t *data, size_t size);
void trn__h2_stream_half_close(h2_stream *stream);
void trn__h2_stream_closed(h2_stream *stream, uint32_t code);
void trn__h2_stream_deadline(h2_stream *stream);            /* it passed */
void trn__h2_stream_mail(h2_stream *stream);                /* does what other threads asked for */
void trn__h2_stream_taken(h2_stream *stream, size_t bytes); /* bytes left the queue */
ssize_t trn__h2_stream_ready(h2_stream *stream, size_t size_max, uint32_t *flags); /* for a DATA frame */
nghttp2_data_provider trn__h2_stream_provider(void);
void trn__h2_stream_pull(h2_stream *stream, unsigned count); /* the caller wants more messages */
void trn__h2_stream_resume(h2_stream *stream);               /* there is something to send */
void trn__h2_stream_reset(h2_stream *stream, uint32_t code);
void trn__h2_stream_shut(h2_stream *stream, bool closed); /* empties the mailbox; nothing gets in any more */
void trn__h2_stream_drop_output(h2_stream *stream);
/* `fixed`, then the block's. NULL: no memory. */
nghttp2_nv *trn__h2_headers_join(const nghttp2_nv *fixed, size_t fixed_count, const h2_block *block, size_t *count);
void trn__h2_conn_check(h2_conn *conn, int rc); /* an nghttp2 function failed: the session cannot go on */
/* Of both hosts. thread: any */
trn_send_result trn__h2_stream_send(void *self, const trn_slice *slices, size_t count, unsigned flags);
void trn__h2_stream_recv(void *self);
void trn__h2_stream_abort(void *self, trn_status status); /* drops the queue; the stream is reset */
void trn__h2_stream_post(h2_stream *stream); /* locks: stream->mutex held */

/* ---- call.c: a call of the server ---- */

typedef struct h2_call {
  h2_stream stream; /* first */
  trn_call *call;
  const trn_method *method;
  h2_block *trailers;
  trn_status finish_status;
  bool is_cancel_delivered;
} h2_call;
h2_stream *trn__h2_call_create(h2_conn *conn, int32_t id);
void trn__h2_call_open(h2_stream *stream); /* the request's headers are complete */

/* ---- attempt.c, channel.c: the client ---- */

h2_stream *trn__h2_attempt_of(h2_conn *conn, int32_t id); /* also before its headers are sent; NULL: none */
void trn__h2_attempt_begin_headers(h2_stream *stream, bool ends);
void trn__h2_attempt_header(h2_stream *stream, const uint8_t *name, size_t name_size, const uint8_t *value,
                            size_t value_size);
void trn__h2_attempt_headers(h2_stream *stream); /* are complete */
void trn__h2_attempt_sent(h2_stream *stream);    /* its request's headers were */
void trn__h2_attempt_submit(h2_stream *stream, h2_conn *conn);
void trn__h2_attempt_wait(h2_stream *stream);              /* in its channel, for a connection */
void trn__h2_attempt_go(h2_stream *stream, h2_conn *conn); /* there is one */
bool trn__h2_attempt_waits(const h2_stream *stream);       /* rather than fail when there can be none */
void trn__h2_attempt_unsent(h2_stream *stream, trn_status status,
                            const char *message); /* it ends without a connection */
trn_status trn__h2_attempt_create(h2_channel *channel, const trn_client_start *start, trn_client_attempt *to,
                                  h2_stream **out, const trn_client_host **host);

typedef enum h2_link { H2_LINK_IDLE, H2_LINK_RESOLVING, H2_LINK_CONNECTING, H2_LINK_READY, H2_LINK_PAUSED } h2_link;

/* Runs later on a loop. Intrusive: it is its poster's until it runs. */
typedef struct h2_task {
  struct h2_task *next;
  int64_t at_ns;
  void (*run)(struct h2_task *task);
} h2_task;

struct h2_channel {
  atomic_size_t refs; /* the trn_channel's, attempts', connections', a resolver's, a pause's */
  h2_base *base;
  h2_loop *loop;
  trn_channel_options options; /* numbers; texts are the ones below */
  char *target;
  char *host; /* NULL: a unix path; with the two texts that follow in it */
  char *host_name, *port;
  char *authority, *user_agent, *server_name;
  h2_tls *tls; /* NULL: plain */
  h2_task close_task;

  h2_link link; /* loop only, like all below */
  bool is_closing;
  h2_conn *conn; /* the one that new calls go to, or that is being made */
  struct sockaddr_storage addresses[TRN_H2_ADDRESSES_MAX];
  unsigned address_count, address_next;
  unsigned failures;
  char problem[192]; /* of the last attempt to connect */
  int64_t connect_until_ns, paused_until_ns;
  h2_task pause_task;
  bool is_pausing;
  uv_getaddrinfo_t resolver;
  TAILQ_HEAD(, h2_stream) waiting; /* for a connection */
};
void trn__h2_channel_unref(h2_channel *channel);
void trn__h2_channel_place(h2_channel *channel, h2_stream *stream, bool waits); /* a new attempt wants a connection */
void trn__h2_channel_ready(h2_channel *channel, h2_conn *conn);                 /* the peer's settings are there */
void trn__h2_channel_leaving(h2_channel *channel, h2_conn *conn);               /* takes no more calls */
void trn__h2_channel_lost(h2_channel *channel, h2_conn *conn, const char *problem); /* is closed */

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
  h2_channel *channel; /* a reference; NULL: of the server */
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
  int64_t idle_ns;                        /* since when there are no calls; 0: there are */
  int64_t stalled_ns;                     /* since when the peer takes nothing of what waits for it; 0: it does */
  int64_t header_ns;                      /* since when a header block is incomplete; 0: none is */
  int64_t peer_ping_ns, leaving_ns;
  unsigned ping_strikes;
  bool is_dirty, is_closed, is_broken, is_ready, is_paused, wants_write, has_more_to_read;
  bool is_leaving, is_goaway_final, is_connecting, is_secure, is_kicked, sent_since_ping;
  h2_tls *tls;            /* a reference */
  struct h2_http *http;   /* a plain HTTP/1.1 request instead of a session */
  struct h2_known *known; /* who the last credentials were */
  const char *problem;    /* why it closes, for a client */
  char peer[80];
  char identity[256];
};

void trn__h2_conn_open(h2_loop *loop, int fd, const struct sockaddr_storage *address); /* takes fd; of the server */
/* Of a channel: `fd` is connecting. NULL: no memory. Takes fd. */
h2_conn *trn__h2_conn_connect(h2_channel *channel, int fd, const struct sockaddr_storage *address);
void trn__h2_conn_ping(h2_conn *conn); /* the peer sent one */
void trn__h2_conn_close(h2_conn *conn);
void trn__h2_conn_dirty(h2_conn *conn); /* has something to do when the loop settles */
void trn__h2_conn_work(h2_conn *conn);
void trn__h2_conn_tick(h2_conn *conn, int64_t now_ns);
void trn__h2_conn_leave(h2_conn *conn); /* GOAWAY in two steps */
void trn__h2_conn_leave_final(h2_conn *conn);
void trn__h2_conn_cancel(h2_conn *conn);

/* ---- http.c: GET for those who do not speak gRPC ---- */

typedef struct h2_http h2_http;
/* Whether a connection's first bytes are the beginning of such a request. */
bool trn__h2_http_begins(const uint8_t *data, size_t size);
/* Takes what came; the answer is in the batch when it is complete. False: the connection is to be closed. */
bool trn__h2_http_read(h2_conn *conn, const uint8_t *data, size_t size);
void trn__h2_http_destroy(h2_http *http);
void trn__h2_http_get(h2_stream *stream); /* the same over HTTP/2 */

/* ---- identity.c: who calls ---- */

typedef struct h2_known h2_known;
/* Finds out who calls; then, perhaps later, `then(stream, status, message)` runs on the loop, unless the stream is
 * closed. The identity is in `identity` until it returns. */
typedef void (*h2_identified)(h2_stream *stream, trn_status status, const char *message, const trn_identity *identity);
void trn__h2_identify(h2_stream *stream, const char *authorization, h2_identified then);
void trn__h2_known_destroy(h2_known *known);

/* ---- tls.c ---- */

typedef struct h2_tls_texts {
  const char *cert_pem, *key_pem, *ca_pem;
  bool is_client, takes_http1;
} h2_tls_texts;
trn_status trn__h2_tls_create(const h2_tls_texts *texts, h2_tls **out, trn_error **error);
h2_tls *trn__h2_tls_ref(h2_tls *tls);
void trn__h2_tls_unref(h2_tls *tls);
SSL *trn__h2_tls_accept(h2_tls *tls, int fd);
SSL *trn__h2_tls_connect(h2_tls *tls, int fd, const char *server_name);
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
  h2_base *base;
  trn_server *server; /* NULL: of a client */
  uv_loop_t uv;
  uv_async_t async;
  uv_timer_t deadline_timer, tick_timer, task_timer;
  uv_poll_t listeners[TRN_H2_LISTENERS_MAX]; /* of the server's sockets; on one loop only */
  unsigned listener_count;
  uv_timer_t accept_timer;
  bool is_initialized, has_thread;
  pthread_t thread; /* to join; the starter's */
  h2_stage stage;
  TAILQ_HEAD(, h2_conn) conns;
  TAILQ_HEAD(, h2_conn) dirty;
  h2_batch *batches;
  h2_stream **heap;
  size_t heap_count, heap_capacity;
  int64_t timer_ns; /* what the timer is set to; 0: not set */
  h2_task *tasks;   /* not due yet */
  unsigned tick_ms;
  unsigned working; /* identifications and resolvers on their way */
  uint8_t *read_buffer;

  pthread_mutex_t mutex; /* all below */
  pthread_t self;        /* the thread's own note of who it is */
  bool is_finished;
  h2_stream *mail_first, **mail_end;
  h2_handoff *handoffs;
  h2_task *new_tasks;
};

/* What loops serve: a server, or a connector of channels. */
struct h2_base {
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *session_option;
  unsigned loop_count, next_loop;
  h2_loop *loops;
  atomic_uint connection_count;
  atomic_size_t held_bytes; /* of messages that have not come whole, and of unread bytes */
  size_t memory_bytes_max;
  unsigned tick_ms; /* how often its times have to be looked at; 0: TRN_H2_TICK_MS */
  atomic_int stage;
  pthread_mutex_t mutex; /* running, is_abandoned */
  pthread_cond_t changed;
  unsigned running;
  bool is_abandoned; /* the last thread frees it */
};
bool trn__h2_base_create_parts(h2_base *base); /* of zeroed memory */
/* Without `has_threads` the loops are the calling thread's, which runs them itself (uv_run): for tests. */
trn_status trn__h2_base_start(h2_base *base, unsigned loops, trn_server *server, bool has_threads);
/* Splits "host:port" or "[v6]:port" in place. */
bool trn__h2_address_split(char *text, char **host, char **port);
void trn__h2_base_stage(h2_base *base, h2_stage stage);
bool trn__h2_base_wait(h2_base *base, unsigned timeout_ms); /* true: all loops have ended */
void trn__h2_base_join(h2_base *base);
void trn__h2_base_finish(h2_base *base);
/* More bytes are held; false: over the budget, nothing changed. thread: any */
bool trn__h2_base_hold(h2_base *base, size_t bytes);
void trn__h2_base_unhold(h2_base *base, size_t bytes);

struct trn_server {
  h2_base base; /* first */
  const trn_routes *routes;
  trn_server_options options; /* texts are not kept */
  trn_authenticator *authenticator;
  pthread_mutex_t tls_mutex; /* tls */
  h2_tls *tls;
  bool has_tls;
  int listen_fds[TRN_H2_LISTENERS_MAX];
  unsigned listen_count;
  int port;
  char *unix_path; /* to be removed */
};

/* As trn_server_start and trn_connector_create_network; see trn__h2_base_start. */
trn_status trn__h2_server_start(const trn_routes *routes, const trn_server_options *options, bool has_threads,
                                trn_server **out, trn_error **error);
trn_status trn__h2_connector_create(const trn_network_options *options, bool has_threads, h2_base **base,
                                    trn_connector **out, trn_error **error);

trn_status trn__h2_loop_init(h2_loop *loop, h2_base *base, trn_server *server, bool listens);
trn_status trn__h2_loop_start(h2_loop *loop);
void trn__h2_loop_finish(h2_loop *loop);
void trn__h2_loop_wake(h2_loop *loop);                         /* thread: any */
bool trn__h2_loop_handoff(h2_loop *loop, h2_handoff *handoff); /* thread: any; takes, unless it is false */
/* thread: any; locks: the stream's mutex held. Takes a reference to the stream. */
void trn__h2_loop_mail(h2_loop *loop, h2_stream *stream);
/* thread: any. Runs `task` on the loop at `task->at_ns`, sooner when the loop ends. */
void trn__h2_loop_post(h2_loop *loop, h2_task *task);
void trn__h2_loop_tick_at_most(h2_loop *loop, unsigned ms);
/* Every uv callback calls it last: delivers mail and writes until there is nothing left to do. */
void trn__h2_loop_settle(h2_loop *loop);
bool trn__h2_loop_deadline_add(h2_loop *loop, h2_stream *stream);
void trn__h2_loop_deadline_remove(h2_loop *loop, h2_stream *stream);
h2_batch *trn__h2_loop_batch(h2_loop *loop);
void trn__h2_loop_batch_return(h2_loop *loop, h2_batch *batch);

#endif
