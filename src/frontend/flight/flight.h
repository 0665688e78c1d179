/* The one Flight service of a table of routes. Several frontends share it: each registers a provider, which claims
 * descriptors and tickets by their bytes and actions by their type. Sessions, authentication and the framing of data are
 * here; what commands mean is the providers' business.
 *
 *   service.c   mounting, one flight_rpc per call, dispatch to workers     session.c   who calls: bearer, cookie, connection
 *   send.c      results as FlightData around the engine's buffers          wire.c      protobuf checks, Any, FlightData
 *   action.c    DoAction, ListActions, Handshake, session actions
 *
 * Locks, outermost first: service->mutex, session->mutex, rpc->mutex. None is held while calling out. */
#ifndef TRN_FRONTEND_FLIGHT_FLIGHT_H
#define TRN_FRONTEND_FLIGHT_FLIGHT_H
#include <pthread.h>

#include <trunnion/auth.h>
#include <trunnion/call.h>
#include <trunnion/frontend.h>

#include "core/core.h"
#include "core/gate.h"
#include "flight.pb-c.h"

enum { FLIGHT_PROVIDERS_MAX = 4, FLIGHT_TOKEN_SIZE = 65 /* 64 hexadecimal digits and the NUL */ };

typedef struct flight_service flight_service;
typedef struct flight_session flight_session;
typedef struct flight_rpc flight_rpc;
typedef struct flight_identity flight_identity;

/* ---- wire.c ---- */

/* Checks bytes from outside against the descriptor without recursion (nesting, number of messages, truncation, groups,
 * UTF-8 and NUL in texts), then decodes into `arena`. The result borrows nothing. INVALID_ARGUMENT names the message. */
trn_status flight__decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                          void *out_message, trn_error **error);
/* A google.protobuf.Any: the last part of its type URL (borrowed from `data`), and its value. False: it is none. */
bool flight__any(const void *data, size_t size, trn_str *type_url, trn_str *value);
/* Appends an Any around a message. */
void flight__any_put(trn_strbuf *out, const char *type_url, const ProtobufCMessage *message);
void flight__message_put(trn_strbuf *out, const ProtobufCMessage *message);
/* Both in base64, padded or not; gives bytes in `arena`, NUL-terminated. NULL: it is none, or no memory. */
char *flight__base64_decode(trn_arena *arena, const char *text, size_t size, size_t *out_size);

/* The fields of a FlightData, borrowed from its bytes. */
typedef struct flight_data {
  trn_str descriptor, header, metadata, body;
  bool has_descriptor;
} flight_data;
trn_status flight__data_parse(const void *bytes, size_t size, flight_data *out, trn_error **error);

/* ---- service.c ---- */

/* What a call's events reach after its handler returned. All on the host's threads: must not block. */
typedef struct flight_events {
  void (*writable)(void *user);
  void (*gone)(void *user); /* once: cancelled, or done; may come from inside flight__rpc_attach */
  void (*drop)(void *user); /* once, last: the call itself goes. The user lives until then: writable may be late */
} flight_events;

/* One call. The host's callbacks hold one reference until on_done. */
struct flight_rpc {
  atomic_uint refs;
  flight_service *service; /* one reference */
  trn_call *call;          /* one reference */
  const struct flight_method *method;
  trn_arena *arena;        /* of the request, while a worker has it */
  flight_session *session; /* one reference, once entered */
  flight_identity *found;  /* one reference, or NULL; then too */
  const char *const *groups; /* of who calls, now: in `found`, or in the call */
  size_t group_count;
  const struct flight_provider_entry *provider;
  atomic_bool gone;
  trn_cancel *cancel; /* requested when it is gone: for what a handler plans */
  pthread_mutex_t mutex;
  /* guarded by mutex */
  const flight_events *events;
  void *events_user;
  trn_slice messages[2]; /* arrived, not yet handled */
  unsigned message_count;
  bool is_running, is_half_closed, is_finished, half_close_done;
  /* of DoPut: what the provider made of the first message; touched by the worker that has the call */
  void *put;
};
flight_rpc *flight__rpc_ref(flight_rpc *rpc);
void flight__rpc_unref(flight_rpc *rpc);
/* Takes `user`. Events from now on; when the call is gone already, `gone` runs at once. One attachment per call. */
void flight__rpc_attach(flight_rpc *rpc, const flight_events *events, void *user);
trn_status flight__rpc_send(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error);
/* One message, then OK. */
trn_status flight__rpc_reply(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error);
void flight__rpc_finish(flight_rpc *rpc); /* OK */
void flight__rpc_fail(flight_rpc *rpc, trn_status status, const trn_error *error);
/* Work of a call on a worker; shutdown waits for it. False: the server stops or no thread can be had; then `run` does not run. */
bool flight__submit(flight_service *service, void (*run)(void *argument), void *argument);

/* ---- providers ---- */

typedef struct flight_action {
  const char *type, *description;
  trn_status (*run)(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error);
} flight_action;

/* What a frontend registers. Handlers run on workers with big stacks, one call at a time per call. OK: it answered or will;
 * else the service fails the call. The session is entered before. */
typedef struct flight_provider {
  size_t struct_size;
  const char *name;
  /* Whether a descriptor's command or a ticket is the provider's. Looks at the bytes only. */
  bool (*claims)(void *self, const void *command, size_t size);
  trn_status (*get_flight_info)(void *self, flight_rpc *rpc, const Arrow__Flight__Protocol__FlightDescriptor *descriptor,
                                trn_error **error);
  trn_status (*poll_flight_info)(void *self, flight_rpc *rpc,
                                 const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error);
  trn_status (*get_schema)(void *self, flight_rpc *rpc, const Arrow__Flight__Protocol__FlightDescriptor *descriptor,
                           trn_error **error);
  trn_status (*do_get)(void *self, flight_rpc *rpc, const void *ticket, size_t size, trn_error **error);
  /* The first message of a DoPut: gives `*put`. Then put_data for each message (also the first), put_end after the last,
   * put_drop in any case, last. */
  trn_status (*put_open)(void *self, flight_rpc *rpc, const void *command, size_t size, void **put, trn_error **error);
  trn_status (*put_data)(void *self, void *put, const flight_data *data, trn_error **error);
  trn_status (*put_end)(void *self, void *put, trn_error **error);
  void (*put_drop)(void *self, void *put);
  const flight_action *actions;
  size_t action_count;
  /* A session begins lazily: the provider keeps what it has in flight__session_state. */
  void (*session_end)(void *self, void *state);   /* what it keeps goes; calls may still hold it */
  void (*session_close)(void *self, void *state); /* the last of them is over */
  void (*sweep)(void *self); /* about once a second: things that expire. thread: worker */
  void (*stop)(void *self);  /* the routes go: cancel what runs; then shutdown waits for who has entered */
  void (*destroy)(void *self);
  /* Who has a ticket may redeem it: a DoGet without credentials is let in, and has no session then. */
  bool has_secret_tickets;
} flight_provider;

typedef struct flight_provider_entry {
  flight_provider ops;
  void *self;
  unsigned index;
} flight_provider_entry;

typedef struct flight_options {
  unsigned workers;
  uint64_t session_idle_ms;
  trn_authenticator *authenticator; /* NULL: none */
  bool allow_anonymous;             /* also with an authenticator */
} flight_options;

/* Finds the Flight service of `routes`, or mounts it with `options`. Borrowed: the routes own it. */
trn_status flight__mount(trn_routes *routes, const flight_options *options, flight_service **out, trn_error **error);
/* Takes `self` on success. Before the routes serve. */
trn_status flight__add_provider(flight_service *service, const flight_provider *ops, void *self, trn_error **error);

struct flight_service {
  atomic_uint refs;
  trn_pool *pool, *control;
  uint64_t session_idle_ms;
  trn_authenticator *authenticator;
  bool allow_anonymous;
  flight_provider_entry providers[FLIGHT_PROVIDERS_MAX];
  unsigned provider_count;
  pthread_mutex_t mutex;
  trn_gate gate; /* work that shutdown waits for */
  trn_map *sessions; /* key -> flight_session, one reference each */
  bool has_timer;
};
flight_service *flight__service_ref(flight_service *service);
void flight__service_unref(flight_service *service);
void flight__need_timer(flight_service *service);

/* ---- session.c ---- */

struct flight_session {
  atomic_uint refs;
  flight_service *service; /* one reference */
  char *key, *user;
  flight_identity *found; /* of a handshake: who its token stands for; or NULL. Guarded by mutex */
  bool is_authenticated;
  char token[FLIGHT_TOKEN_SIZE]; /* of sessions that a client carries itself (bearer, cookie) */
  int64_t expires_ms;            /* of the identity, since the epoch; 0: never */
  pthread_mutex_t mutex;
  void *states[FLIGHT_PROVIDERS_MAX]; /* guarded by mutex until set, then fixed */
  int64_t used_ns;                    /* guarded by service->mutex */
  unsigned calls;                     /* running ones; guarded by service->mutex */
  bool is_closed;
};
/* What an authenticator said, shared. */
struct flight_identity {
  atomic_uint refs;
  trn_identity identity;
  bool is_from_authenticator; /* of the service; else from the host, and copied */
};
flight_identity *flight__identity_ref(flight_identity *found); /* takes NULL */
void flight__identity_unref(flight_identity *found);
/* Finds who calls and which session that is; gives rpc->session, rpc->found, rpc->groups. UNAUTHENTICATED. */
trn_status flight__session_enter(flight_rpc *rpc, trn_error **error);
void flight__session_leave(flight_session *session);
flight_session *flight__session_ref(flight_session *session);
void flight__session_unref(flight_session *session);
/* Handshake: makes a session of its own for who presents credentials, in the call's headers or in `payload` (a BasicAuth
 * message; size 0: none), and answers: the bearer token as a header, and as the payload when it was asked for there. */
trn_status flight__session_handshake(flight_rpc *rpc, const void *payload, size_t size, trn_error **error);
/* The provider's state of the call's session, made by `make` when there is none. */
trn_status flight__session_state(flight_rpc *rpc, const flight_provider_entry *provider,
                                 trn_status (*make)(void *self, flight_rpc *rpc, void **state, trn_error **error),
                                 void **out, trn_error **error);
/* Takes it out; the providers drop what they keep for it. */
void flight__session_close(flight_session *session);
void flight__sweep_sessions(flight_service *service);
void flight__close_all_sessions(flight_service *service);
/* User-agent of the call, "" when there is none. */
const char *flight__user_agent(const flight_rpc *rpc);

/* ---- action.c ---- */
trn_status flight__handle_do_action(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status flight__handle_list_actions(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);

/* ---- send.c: results ---- */

/* Sends an encapsulated IPC message as FlightData; copies. */
trn_status flight__send_ipc(flight_rpc *rpc, const void *message, size_t size, trn_error **error);
/* Called once, when a stream has been sent or has failed; the call is finished by then. */
typedef void (*flight_sent)(void *user, trn_status status, int64_t rows);
/* Streams a result: schema, then batches, then OK; an error ends the call with it. Takes `operation` (may be NULL) and
 * `stream` in any case. When the call is cancelled both are cancelled. `sent` may be
 * NULL; it is called in any case, also after a failure here. */
void flight__send_stream(flight_rpc *rpc, trn_operation *operation, trn_stream *stream, size_t bytes_max,
                         flight_sent sent, void *user);

#endif
