/* Calls on routes without a network: for tests, fuzzers, sanitizers, and programs that are their own client. Equal in
 * contract to the bundled server: deliveries come from a thread of its own, never inline, and never overlap. Internal.
 */
#ifndef TRN_TRANSPORT_INPROC_H
#define TRN_TRANSPORT_INPROC_H
#include <trunnion/client.h>

/* A channel to `options->routes` (client.h). */
trn_status trn__inproc_channel_open(const trn_channel_options *options, const trn_channel_ops **ops, void **out,
                                    trn_error **error);

/* A client with one delivery thread. */
typedef struct trn_inproc trn_inproc;
/* Borrows `routes`: they must outlive it. Gives `*out`. */
trn_status trn__inproc_create(const trn_routes *routes, trn_inproc **out);
/* Cancels the calls that still run, tells both sides, joins the thread. Blocks; not from a callback. NULL is accepted.
 */
void trn__inproc_destroy(trn_inproc *inproc);
/* The same, also from a callback: then the thread ends by itself. */
void trn__inproc_release(trn_inproc *inproc);
/* Runs `run(argument)` on the delivery thread after `delay_ns`; at once when the client is destroyed. thread: any */
trn_status trn__inproc_run_after(trn_inproc *inproc, int64_t delay_ns, void (*run)(void *argument), void *argument);

/* ---- a call, event by event ---- */

typedef struct trn_inproc_result { /* borrowed by on_finish */
  trn_status status;
  const char *message; /* never NULL */
  const void *details;
  size_t details_size;
  const trn_metadata *initial, *trailing;
  size_t initial_count, trailing_count;
} trn_inproc_result;

typedef struct trn_inproc_request {
  const char *path;
  const trn_metadata *metadata; /* copied; keys in lower case */
  size_t metadata_count;
  const char *identity;      /* copied; NULL: none */
  int64_t timeout_ns;        /* 0: no deadline */
  int64_t deadline_ns;       /* CLOCK_MONOTONIC; 0: by timeout_ns */
  size_t response_bytes_max; /* 0: no limit */
  size_t message_bytes_max;  /* 0: 128 MiB; a method's own limit goes first */
  size_t send_high_water;    /* 0: 1 MiB */
  bool reads_when_asked;     /* messages come only as asked for with trn__inproc_read */
  /* On the delivery thread; must not block. on_message takes its slice. on_finish: exactly once, last. */
  void (*on_initial)(void *user, const trn_metadata *metadata, size_t count); /* NULL: only in the result */
  void (*on_message)(void *user, trn_slice message);
  void (*on_writable)(void *user); /* the request's queue fell under half of send_high_water; may be NULL */
  void (*on_finish)(void *user, const trn_inproc_result *result);
  void *user;
} trn_inproc_request;

typedef struct trn_inproc_call trn_inproc_call;
/* Not OK: no callback, ever. OK: gives `*out` (trn__inproc_call_unref). An unknown path is UNIMPLEMENTED in on_finish.
 */
trn_status trn__inproc_call(trn_inproc *inproc, const trn_inproc_request *request, trn_inproc_call **out);
/* thread: any. Those after the call's end do nothing. */
void trn__inproc_call_send(trn_inproc_call *call, trn_slice message); /* takes; without a release it is copied */
trn_send_result trn__inproc_call_send_slices(trn_inproc_call *call, const trn_slice *slices, size_t count); /* takes */
void trn__inproc_call_half_close(trn_inproc_call *call);
void trn__inproc_call_read(trn_inproc_call *call, size_t count);
void trn__inproc_call_cancel(trn_inproc_call *call);
void trn__inproc_call_fail(trn_inproc_call *call, trn_status status,
                           const char *message);    /* as cancel, with a status */
void trn__inproc_call_unref(trn_inproc_call *call); /* does not cancel; NULL is accepted */

/* ---- a call, blocking ---- */

typedef struct trn_inproc_reply {
  trn_status status;
  char *message; /* never NULL after an OK invoke */
  void *details;
  size_t details_size;
  trn_slice *messages; /* each owns its bytes */
  size_t message_count;
  trn_metadata *initial, *trailing;
  size_t initial_count, trailing_count;
} trn_inproc_reply;
/* Sends `requests`, half-closes, waits for the end. Returns what trn__inproc_call returned; the call's own status is in
 * the reply, which trn__inproc_reply_finish frees in any case. Blocks; not from a callback. */
trn_status trn__inproc_invoke(trn_inproc *inproc, const trn_inproc_request *request, const trn_slice *requests,
                              size_t request_count, trn_inproc_reply *reply);
void trn__inproc_reply_finish(trn_inproc_reply *reply);

#endif
