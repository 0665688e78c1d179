/* One RPC, free of any transport: what a frontend sees (trn_call, trn_method, trn_routes), and what a host - the
 * bundled server or an adapter to somebody else's - implements (trn_call_host). Behaviour: gRPC over HTTP/2. */
#ifndef TRUNNION_CALL_H
#define TRUNNION_CALL_H
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_call trn_call;
typedef struct trn_routes trn_routes;

typedef enum trn_method_kind {
  TRN_METHOD_UNARY = 0,
  TRN_METHOD_SERVER_STREAM = 1,
  TRN_METHOD_CLIENT_STREAM = 2,
  TRN_METHOD_BIDI = 3
} trn_method_kind;

/** A metadata entry: lower-case key; a "-bin" key has raw bytes as its value (hosts do the base64). */
typedef struct trn_metadata {
  const char *key;
  const void *value;
  size_t size;
} trn_metadata;

/** What a frontend registers for a path. The callbacks of one call never overlap, never run inside a trn_call_*
 *  function of that call, and must not block (take a reference and hand work to a worker). Order:
 *  on_open, { on_message | on_writable }*, on_cancel?, on_done. All may be NULL except on_message and on_done. */
typedef struct trn_method {
  size_t struct_size;
  const char *path; /**< "/package.Service/Method"; copied */
  trn_method_kind kind;
  /** Request metadata is there. */
  void (*on_open)(trn_call *call, void *service);
  /** Takes `message` (call its release once when non-NULL). For UNARY and SERVER_STREAM exactly one message is
   *  delivered without asking; otherwise one per trn_call_recv. */
  void (*on_message)(trn_call *call, void *user, trn_slice message);
  /** The client will send no more. For UNARY and SERVER_STREAM it follows the message; a call of these kinds that ends
   *  without a message is answered by the host with INTERNAL, and on_message never runs. */
  void (*on_half_close)(trn_call *call, void *user);
  /** The send queue fell under half its high-water mark. */
  void (*on_writable)(trn_call *call, void *user);
  /** The client cancelled, the deadline passed, the peer was lost, or the server stops. */
  void (*on_cancel)(trn_call *call, void *user);
  /** Exactly once, last. The frontend drops its references to the call. */
  void (*on_done)(trn_call *call, void *user);
  void *service;            /**< handed to on_open; `user` of the others is `service` until trn_call_set_user */
  size_t message_bytes_max; /**< largest request message; 0: the host's limit */
  /** The frontend checks credentials itself (those of its own handshake, too): a caller whom the host's authenticator
   * does not know comes without an identity, instead of not at all. */
  bool authenticates;
} trn_method;

/** A host's table of methods. Filled before it serves, then only read. Several frontends share one. */
TRN_API trn_status trn_routes_create(trn_routes **out);
/** Copies `methods`. ALREADY_EXISTS names the path that is taken; then nothing was added. */
TRN_API trn_status trn_routes_add(trn_routes *routes, const trn_method *methods, size_t count, trn_error **error);
TRN_API const trn_method *trn_routes_find(const trn_routes *routes, const char *path, size_t path_size);
TRN_API size_t trn_routes_count(const trn_routes *routes);
TRN_API const trn_method *trn_routes_at(const trn_routes *routes, size_t index);
/** Runs `destroy(service)` when the routes are destroyed: how a frontend ties its life to them. */
TRN_API trn_status trn_routes_own(trn_routes *routes, void (*destroy)(void *service), void *service);
TRN_API void trn_routes_destroy(trn_routes *routes);

/* ---- the frontend's side: any thread while it holds a reference (on_open..on_done holds one for it) ---- */

TRN_API trn_call *trn_call_ref(trn_call *call);
TRN_API void trn_call_unref(trn_call *call);
TRN_API void trn_call_set_user(trn_call *call, void *user); /**< only inside on_open */
TRN_API void *trn_call_user(const trn_call *call);
TRN_API const trn_method *trn_call_method(const trn_call *call);
/** The last value of `key`, or NULL. Lives as long as the call. */
TRN_API const void *trn_call_metadata(const trn_call *call, const char *key, size_t *size);
TRN_API size_t trn_call_metadata_count(const trn_call *call);
TRN_API const trn_metadata *trn_call_metadata_at(const trn_call *call, size_t index);
TRN_API int64_t trn_call_deadline_ns(const trn_call *call); /**< CLOCK_MONOTONIC; INT64_MAX: none */
TRN_API const char *trn_call_peer(const trn_call *call);    /**< "ipv4:127.0.0.1:5123", "unix:", "inproc:" */
/** The identity that the transport authenticated (mTLS subject, or what the host's own middleware says); NULL: none. */
TRN_API const char *trn_call_identity(const trn_call *call);
/** The groups that the host's authenticator found for the identity. Returns the count; borrowed, as long as the call.
 */
TRN_API size_t trn_call_groups(const trn_call *call, const char *const **groups);
TRN_API bool trn_call_is_cancelled(const trn_call *call);

/** Asks for one more message (CLIENT_STREAM, BIDI): the pull is the flow control. */
TRN_API void trn_call_recv(trn_call *call);

typedef enum trn_send_flags {
  TRN_SEND_MORE = 1,    /**< a send or finish follows at once: may be held back and merged */
  TRN_SEND_COMPRESS = 2 /**< gzip, if the peer accepts it */
} trn_send_flags;
typedef enum trn_send_result {
  TRN_SEND_READY = 0, /**< queued; send more when you like */
  TRN_SEND_FULL = 1,  /**< queued, past the high-water mark: wait for on_writable */
  TRN_SEND_CLOSED = 2 /**< the call is over; the slices were released */
} trn_send_result;
/** Sends one message made of `count` slices, without copying those that have a release. Takes the slices in every case;
 *  slices without a release are copied before return. A release may run inside this function or after on_done, on any
 *  thread: it takes no lock that is held around trn_call_* functions. */
TRN_API trn_send_result trn_call_send(trn_call *call, const trn_slice *slices, size_t count, unsigned flags);
/** Response metadata that goes out before the first message. Copies. No effect once sending began. */
TRN_API void trn_call_set_initial_metadata(trn_call *call, const trn_metadata *metadata, size_t count);
/** Ends the call behind the queued sends. Copies everything. `details`: a serialized google.rpc.Status or NULL (sent as
 *  grpc-status-details-bin). Later sends and finishes are no-ops. */
TRN_API void trn_call_finish(trn_call *call, trn_status status, const char *message, const void *details,
                             size_t details_size, const trn_metadata *trailing, size_t trailing_count);
/** Drops the queue and resets the stream. */
TRN_API void trn_call_abort(trn_call *call, trn_status status);

/* ---- the host's side ---- */

/** What a host implements. Functions may be called from any thread, until `destroy`. None may call back into the
 *  frontend before it returns. */
typedef struct trn_call_host {
  size_t struct_size;
  trn_send_result (*send)(void *self, const trn_slice *slices, size_t count, unsigned flags);
  void (*finish)(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                 const trn_metadata *trailing, size_t trailing_count);
  void (*recv)(void *self);
  void (*set_initial_metadata)(void *self, const trn_metadata *metadata, size_t count);
  void (*abort)(void *self, trn_status status);
  /** The last reference to the call is gone. Any thread. */
  void (*destroy)(void *self);
} trn_call_host;

typedef struct trn_call_request {
  size_t struct_size;
  const trn_method *method;     /**< from trn_routes_find; lives as long as the routes */
  const trn_metadata *metadata; /**< copied */
  size_t metadata_count;
  const char *peer;
  const char *identity;
  int64_t deadline_ns;       /**< CLOCK_MONOTONIC; INT64_MAX or 0: none */
  const char *const *groups; /**< copied */
  size_t group_count;
} trn_call_request;

/** Makes a call for a host. The host owns one reference until it has delivered trn_call_deliver_done, which drops it; a
 *  call that is never opened is dropped with trn_call_unref. */
TRN_API trn_status trn_call_create(const trn_call_request *request, const trn_call_host *host, void *self,
                                   trn_call **out);
/* Deliveries: the host serializes them per call and never makes one from inside a trn_call_host function. After
 * deliver_done none may follow. deliver_cancel at most once; trn_call_is_cancelled turns true at once. */
TRN_API void trn_call_deliver_open(trn_call *call);
TRN_API void trn_call_deliver_message(trn_call *call, trn_slice message); /**< takes */
TRN_API void trn_call_deliver_half_close(trn_call *call);
TRN_API void trn_call_deliver_writable(trn_call *call);
TRN_API void trn_call_deliver_cancel(trn_call *call);
TRN_API void trn_call_deliver_done(trn_call *call);

#ifdef __cplusplus
}
#endif
#endif
