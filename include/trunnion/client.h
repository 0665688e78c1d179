/* The client side of calls: channels to gRPC servers - over a network, or to routes in this process - and the calls on
 * them. Contract as on the server side (call.h): callbacks are never inline, never overlap, and end with exactly one
 * on_done. The network is in libtrunnion_server (trn_connector_create_network); everything else is in libtrunnion, so
 * what needs a client without knowing sockets takes a trn_connector. */
#ifndef TRUNNION_CLIENT_H
#define TRUNNION_CLIENT_H
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_connector trn_connector;     /**< makes channels; owns the event loops that they share */
typedef struct trn_channel trn_channel;         /**< one target; connects when a call needs it, and again when lost */
typedef struct trn_client_call trn_client_call; /**< one RPC */

/* ---- channels ---- */

/** Which failed calls are tried again. Only a call of which the client has seen nothing (no metadata, no message), and
 * whose sent messages are still kept (retry_bytes_max of the channel). Zero means the default for every member. Without
 * any policy a call is still repeated when the server certainly has not seen it (a refused stream, a GOAWAY below it, a
 * connection that was never there). */
typedef struct trn_retry_policy {
  size_t struct_size;
  unsigned attempts_max; /**< with the first; 0 and 1: no retry by policy */
  unsigned backoff_ms; /**< before the second attempt; times 1.6 for each further one, less or more 20 %; default 100 */
  unsigned backoff_ms_max; /**< default 5,000 */
  uint32_t statuses;       /**< 1u << status of those to repeat; 0: UNAVAILABLE. "grpc-retry-pushback-ms" is obeyed */
} trn_retry_policy;

/** Zero means the default for every member. All texts are copied. */
typedef struct trn_channel_options {
  size_t struct_size;
  /** "host:port", "[v6]:port", "unix:/path". Not read when `routes` is set. */
  const char *target;
  const trn_routes *routes; /**< calls go to this table without a network; borrowed, outlives the channel */
  const char *authority;    /**< ":authority"; default: the target ("localhost" for unix) */
  const char *user_agent;   /**< put before the library's own */

  bool tls;             /**< TLS with ALPN h2; implied by any of the texts below */
  const char *ca_pem;   /**< who may sign the server's certificate; NULL: the system's store */
  const char *cert_pem; /**< client certificate chain; with key_pem */
  const char *key_pem;
  const char *server_name; /**< SNI, and the name that the certificate must have; default: the target's host */

  const trn_metadata *metadata; /**< sent with every call, before the call's own; copied */
  size_t metadata_count;

  unsigned connect_timeout_ms;   /**< name, TCP, TLS, HTTP/2 settings; default 20,000 */
  unsigned backoff_ms;           /**< pause after the first failed connect; times 1.6 each; default 1,000 */
  unsigned backoff_ms_max;       /**< default 120,000 */
  unsigned keepalive_ms;         /**< silence, then a PING; default 0: none */
  unsigned keepalive_timeout_ms; /**< silence after that PING, then the connection is lost; default 20,000 */
  bool keepalive_without_calls;  /**< PING also when no call runs; servers may object */
  unsigned
      idle_ms; /**< no calls for so long: the connection is closed, and made again for the next; default 0: never */

  size_t message_bytes_max;  /**< largest response message, also after decompression; default 128 MiB */
  size_t metadata_bytes_max; /**< response metadata; default 64 KiB */
  size_t send_high_water;    /**< queued bytes per call at which a send answers TRN_SEND_FULL; default 1 MiB */
  size_t retry_bytes_max;    /**< sent messages that a call keeps for a retry; default 256 KiB. More: no retry */
  trn_retry_policy retry;    /**< of calls that bring none of their own */
} trn_channel_options;

/** Opens a channel; does not connect yet. `connector` may be NULL when `options->routes` is set. The channel keeps a
 *  reference to the connector. Gives `*out` (trn_channel_unref).
 *  Threads: any. Blocks: no. Errors: INVALID_ARGUMENT (target, PEM texts), RESOURCE_EXHAUSTED. Since 0.1. */
TRN_API trn_status trn_channel_open(trn_connector *connector, const trn_channel_options *options, trn_channel **out,
                                    trn_error **error);
TRN_API trn_channel *trn_channel_ref(trn_channel *channel);
/** The last reference: no new calls; calls that run keep the channel's connection until they end. Never blocks; may be
 *  called in callbacks. NULL is accepted. */
TRN_API void trn_channel_unref(trn_channel *channel);

/* ---- connectors ---- */

typedef struct trn_network_options {
  size_t struct_size;
  unsigned loops;          /**< event loops (threads), which all channels share; default 1 */
  size_t memory_bytes_max; /**< unfinished response messages of all channels together; default 2 GiB */
} trn_network_options;

/** In libtrunnion_server. Starts the loops. Threads: any. Blocks: no. Since 0.1. */
TRN_API trn_status trn_connector_create_network(const trn_network_options *options, trn_connector **out,
                                                trn_error **error);
TRN_API trn_connector *trn_connector_ref(trn_connector *connector);
/** The last reference ends the loops, once the channels' connections are closed; it does not wait when it is dropped on
 * one of them, and joins them otherwise. NULL is accepted. */
TRN_API void trn_connector_unref(trn_connector *connector);

/* ---- calls ---- */

/** How a call ended. Borrowed during on_done. */
typedef struct trn_client_result {
  size_t struct_size;
  trn_status status;
  const char *message; /**< never NULL */
  const void *details; /**< grpc-status-details-bin: a serialized google.rpc.Status; NULL: none */
  size_t details_size;
  const trn_metadata *initial; /**< response headers; keys lower case, "-bin" values decoded */
  size_t initial_count;
  const trn_metadata *trailing;
  size_t trailing_count;
  bool is_unprocessed; /**< the server's application certainly has not seen the call */
  unsigned attempts;   /**< how many were made */
} trn_client_result;

/** On a thread of the connector (or the routes' delivery thread). They must not block. All but on_done may be NULL. */
typedef struct trn_client_handlers {
  size_t struct_size;
  /** Response metadata is there (not when the call failed without any). Borrowed. */
  void (*on_initial)(trn_client_call *call, void *user, const trn_metadata *metadata, size_t count);
  /** Takes `message`. For UNARY and CLIENT_STREAM at most one is delivered, without asking; otherwise one per
   *  trn_client_call_recv. NULL: messages are asked for and dropped. */
  void (*on_message)(trn_client_call *call, void *user, trn_slice message);
  /** The send queue fell under half its high-water mark. */
  void (*on_writable)(trn_client_call *call, void *user);
  /** Exactly once, last. It comes as soon as the status is known and all messages that came before it are delivered: a
   *  stream that is not read to its end is told of its end only after that, or when it is cancelled. */
  void (*on_done)(trn_client_call *call, void *user, const trn_client_result *result);
} trn_client_handlers;

typedef struct trn_client_request {
  size_t struct_size;
  const char *path; /**< "/package.Service/Method" */
  trn_method_kind kind;
  const trn_metadata *metadata; /**< copied */
  size_t metadata_count;
  int64_t timeout_ns;                  /**< until DEADLINE_EXCEEDED, all attempts together; 0: none */
  bool wait_for_ready;                 /**< wait for a connection instead of failing when it cannot be made now */
  bool compress;                       /**< announce gzip for what is sent with TRN_SEND_COMPRESS */
  size_t message_bytes_max;            /**< 0: the channel's */
  const trn_retry_policy *retry;       /**< NULL: the channel's */
  const trn_client_handlers *handlers; /**< copied */
  void *user;
} trn_client_request;

/** Starts a call. Not OK: no callback, ever. OK: exactly one on_done; gives `*out` (trn_client_call_unref; a reference
 * does not keep the call running, and dropping it does not cancel). Threads: any, also in callbacks. Blocks: no.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. Since 0.1. */
TRN_API trn_status trn_client_call_start(trn_channel *channel, const trn_client_request *request, trn_client_call **out,
                                         trn_error **error);
TRN_API trn_client_call *trn_client_call_ref(trn_client_call *call);
TRN_API void trn_client_call_unref(trn_client_call *call);
TRN_API void *trn_client_call_user(const trn_client_call *call);

/* Any thread; those after the call's end do nothing. */

/** As trn_call_send: takes the slices in every case, does not copy those that have a release. */
TRN_API trn_send_result trn_client_call_send(trn_client_call *call, const trn_slice *slices, size_t count,
                                             unsigned flags);
/** No more messages will be sent. */
TRN_API void trn_client_call_half_close(trn_client_call *call);
/** Asks for one more message (SERVER_STREAM, BIDI): the pull is the flow control. */
TRN_API void trn_client_call_recv(trn_client_call *call);
/** The call ends with CANCELLED, if it has not ended. Never blocks. */
TRN_API void trn_client_call_cancel(trn_client_call *call);

/** What a blocking call gives; trn_client_reply_finish frees it in any case. */
typedef struct trn_client_reply {
  size_t struct_size;
  trn_status status;
  char *message; /**< never NULL after an OK return */
  void *details;
  size_t details_size;
  trn_slice response;               /**< {0}: none */
  trn_metadata *initial, *trailing; /**< one allocation each */
  size_t initial_count, trailing_count;
} trn_client_reply;
/** A unary call that blocks until it ends. Handlers, user and kind of `request` are not read. `slices`: the pieces of
 * the message; takes them. Returns what trn_client_call_start returns; the call's own status is in the reply. Threads:
 * any but those that callbacks run on. Since 0.1. */
TRN_API trn_status trn_client_invoke(trn_channel *channel, const trn_client_request *request, const trn_slice *slices,
                                     size_t count, trn_client_reply *reply, trn_error **error);
TRN_API void trn_client_reply_finish(trn_client_reply *reply);

/* ---- the transport's side: what brings a client stack of its own to the library ---- */

/** One attempt of a call, as a transport sees it: where it delivers. */
typedef struct trn_client_attempt trn_client_attempt;

/** What a transport implements for one attempt. Any thread, until `destroy`; none may deliver before it returns. */
typedef struct trn_client_host {
  size_t struct_size;
  trn_send_result (*send)(void *self, const trn_slice *slices, size_t count, unsigned flags);
  void (*half_close)(void *self);
  void (*recv)(void *self);
  void (*cancel)(void *self, trn_status status); /**< deliver_done follows, with this status unless it ended before */
  void (*destroy)(void *self);                   /**< after deliver_done, or after a start that is not OK */
} trn_client_host;

typedef struct trn_client_start {
  size_t struct_size;
  const char *path;
  trn_method_kind kind;
  const trn_metadata *metadata; /**< the channel's and the call's; borrowed */
  size_t metadata_count;
  int64_t deadline_ns; /**< CLOCK_MONOTONIC; INT64_MAX: none */
  bool wait_for_ready, compress;
  size_t message_bytes_max; /**< never 0 */
} trn_client_start;

typedef struct trn_channel_ops {
  size_t struct_size;
  /** Starts an attempt. Not OK: nothing is delivered, `host->destroy` is not called. OK: gives the host and `*out`, its
   *  self; exactly one trn_client_attempt_done follows, never from inside. Deliveries of all attempts of one channel
   * that belong to the same call come on one thread. */
  trn_status (*start)(void *self, const trn_client_start *start, trn_client_attempt *attempt,
                      const trn_client_host **host, void **out);
  /** Runs `run(argument)` on the thread of the channel's deliveries after `delay_ms`; sooner when the transport is
   * stopped. Never inline. Not OK: it does not run. */
  trn_status (*run_after)(void *self, unsigned delay_ms, void (*run)(void *argument), void *argument);
  void (*destroy)(void *self); /**< no more starts; attempts that run go on */
} trn_channel_ops;

typedef struct trn_connector_ops {
  size_t struct_size;
  trn_status (*open)(void *self, const trn_channel_options *options, const trn_channel_ops **ops, void **out,
                     trn_error **error);
  void (*destroy)(void *self);
} trn_connector_ops;
/** Gives a connector over `ops` (static) and takes `self`, also on failure. */
TRN_API trn_status trn_connector_create(const trn_connector_ops *ops, void *self, trn_connector **out);

/* Deliveries: serialized per attempt, never from inside a trn_client_host function. */
TRN_API void trn_client_attempt_initial(trn_client_attempt *attempt, const trn_metadata *metadata, size_t count);
TRN_API void trn_client_attempt_message(trn_client_attempt *attempt, trn_slice message); /**< takes; as asked for */
TRN_API void trn_client_attempt_writable(trn_client_attempt *attempt);
/** Last; the attempt is gone afterwards. `result` is borrowed. */
TRN_API void trn_client_attempt_done(trn_client_attempt *attempt, const trn_client_result *result);

#ifdef __cplusplus
}
#endif
#endif
