/* A client of a Ballista scheduler, and of the executors (or the scheduler's proxy) that hold results. Asynchronous as
 * everything that faces a network here: a function that returns a status other than OK runs no callback; after OK there
 * is exactly one completion, on a thread of the connector, never inline; callbacks must not block.
 *
 * What Ballista does is in its own words in the names; the traps that a caller must know:
 * - CancelJob answers yes to anything, deletes the output of a finished job and is lost on a job that is being planned:
 * look at the status first, and repeat until it is final (trn__ballista_cancel does one step).
 * - The status of a job that was just submitted, or is unknown, is TRN_BALLISTA_UNKNOWN.
 * - A push stream may end without a final status: then ask.
 *
 * Texts in errors name the scheduler or the executor; the status is gRPC's. Internal. */
#ifndef TRN_BACKEND_BALLISTA_RPC_H
#define TRN_BACKEND_BALLISTA_RPC_H
#include "core/core.h"

#include <trunnion/client.h>

/* The version that is announced; schedulers of another major version refuse it, and are refused. */
#define TRN_BALLISTA_VERSION "55.0.0"

typedef struct trn_ballista_client trn_ballista_client;

/** Zero means the default. Copied. */
typedef struct trn_ballista_client_options {
  trn_connector *connector; /* a reference is taken; NULL when `routes` is set */
  const char *target;       /* "host:port" of the scheduler */
  const trn_routes *routes; /* scheduler and executors are these routes, without a network: for tests; borrowed */
  bool scheduler_tls, executor_tls;
  const char *ca_pem, *cert_pem, *key_pem; /* of both */
  const trn_metadata *metadata;            /* sent with every call to the scheduler */
  size_t metadata_count;
  unsigned timeout_ms;      /* of a unary call and of connecting; TRN_BALLISTA_TIMEOUT_MS */
  size_t message_bytes_max; /* TRN_BALLISTA_MESSAGE_BYTES_MAX */
} trn_ballista_client_options;

/* Gives `*out` (unref). Does not connect. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
trn_status trn__ballista_client_create(const trn_ballista_client_options *options, trn_ballista_client **out,
                                       trn_error **error);
trn_ballista_client *trn__ballista_client_ref(trn_ballista_client *client);
void trn__ballista_client_unref(trn_ballista_client *client);
const char *trn__ballista_client_target(const trn_ballista_client *client);

/* ---- jobs ---- */

typedef enum trn_ballista_state {
  TRN_BALLISTA_UNKNOWN = 0, /* the scheduler does not know the job (yet, or any more) */
  TRN_BALLISTA_QUEUED,
  TRN_BALLISTA_RUNNING,
  TRN_BALLISTA_FAILED,
  TRN_BALLISTA_CANCELLED, /* on the wire: failed, with the error "Cancelled" */
  TRN_BALLISTA_SUCCESSFUL
} trn_ballista_state;
static inline bool trn__ballista_is_final(trn_ballista_state state) {
  return state >= TRN_BALLISTA_FAILED;
}

/* Where a partition of the output lies. */
typedef struct trn_ballista_location {
  const char *job_id;
  uint32_t stage_id, partition_id;
  const char *executor_id, *host;
  uint32_t port;
  bool has_file_id, is_sort_shuffle;
  uint64_t file_id;
  int64_t rows, bytes; /* -1: unknown */
} trn_ballista_location;

/* A job as a scheduler told of it once. Immutable, reference counted; every text is NUL-terminated. */
typedef struct trn_ballista_job {
  atomic_size_t refs;
  trn_arena *arena;
  const char *id, *name; /* "" when it was not told */
  trn_ballista_state state;
  const char *error; /* of a failed one, else "" */
  uint64_t queued_at_ms, started_at_ms, ended_at_ms;
  const trn_ballista_location *locations; /* of a successful one, in order */
  size_t location_count;
  bool is_proxied;   /* results come through `proxy`, not from the executors */
  const char *proxy; /* "host:port"; "": the scheduler itself */
} trn_ballista_job;
trn_ballista_job *trn__ballista_job_ref(trn_ballista_job *job);
void trn__ballista_job_unref(trn_ballista_job *job);
/* Reads a GetJobStatusResult. Gives `*out`. DATA_LOSS: it is none. */
trn_status trn__ballista_job_parse(const void *data, size_t size, trn_ballista_job **out, trn_error **error);

typedef enum trn_ballista_plan_kind { /* the field of ExecuteQueryParams */
                                      TRN_BALLISTA_LOGICAL = 1,
                                      TRN_BALLISTA_SUBSTRAIT = 6,
                                      TRN_BALLISTA_PHYSICAL = 7
} trn_ballista_plan_kind;

typedef struct trn_ballista_query {
  trn_ballista_plan_kind kind;
  trn_slice plan;         /* taken, also on failure; not copied when it has a release */
  const char *session_id; /* NULL: a new one */
  const trn_kv *settings; /* a NULL value is not sent */
  size_t setting_count;
  const char *operation_id; /* only echoed and logged */
} trn_ballista_query;

/* What completions get, borrowed; which member is set depends on the call. */
typedef struct trn_ballista_reply {
  const char *job_id;    /* execute */
  trn_ballista_job *job; /* status */
  const char *metrics;   /* metrics: JSON text */
} trn_ballista_reply;
typedef void (*trn_ballista_done)(void *user, trn_status status, const trn_error *error,
                                  const trn_ballista_reply *reply);

/* ExecuteQuery: gives the job's id at once. A scheduler of another version: FAILED_PRECONDITION (the job, if it was
 * taken, is cancelled); a plan that it cannot read: INVALID_ARGUMENT. thread: any */
trn_status trn__ballista_execute(trn_ballista_client *client, const trn_ballista_query *query, trn_ballista_done done,
                                 void *user, trn_error **error);
/* GetJobStatus. */
trn_status trn__ballista_job_status(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                                    trn_error **error);
/* GetJobMetrics, as JSON: [{"stage":1,"partitions":2,"operators":[{"depth":0,"name":"..","description":"..",
 * "metrics":{"output_rows":5}}]}]. NOT_FOUND: an unknown job. */
trn_status trn__ballista_job_metrics(trn_ballista_client *client, const char *job_id, trn_ballista_done done,
                                     void *user, trn_error **error);
/* CancelJob, once. */
trn_status trn__ballista_cancel(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                                trn_error **error);
/* CleanJobData: deletes the output. */
trn_status trn__ballista_clean(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                               trn_error **error);

/* ExecuteQueryPush: one job, told of as it goes on. */
typedef struct trn_ballista_push trn_ballista_push;
typedef struct trn_ballista_push_handlers {
  void (*on_taken)(void *user); /* once, before any status: by a scheduler that can read the plan */
  void (*on_status)(void *user, trn_ballista_job *job); /* borrowed; the next one is asked for when it returns */
  trn_ballista_done on_done; /* last; without on_taken: as that of trn__ballista_execute */
} trn_ballista_push_handlers;
/* Waits as long as it takes, but not for on_taken. Gives `*out` (unref). thread: any */
trn_status trn__ballista_execute_push(trn_ballista_client *client, const trn_ballista_query *query,
                                      const trn_ballista_push_handlers *handlers, void *user, trn_ballista_push **out,
                                      trn_error **error);
/* Stops listening (on_done comes with CANCELLED); the job runs on. */
void trn__ballista_push_cancel(trn_ballista_push *push);
void trn__ballista_push_unref(trn_ballista_push *push);

/* Runs `run(argument)` after a while on a thread of the connector. Not OK: it does not run. */
trn_status trn__ballista_after(trn_ballista_client *client, unsigned delay_ms, void (*run)(void *argument),
                               void *argument);

/* ---- results ---- */

/* One IPC message of a partition. `header`: the flatbuffer without its prefix; it and `body` lie in `bytes`, whose
 * release the receiver calls (they are not copied anywhere). */
typedef struct trn_ballista_message {
  const void *header, *body;
  size_t header_size, body_size;
  trn_slice bytes;
} trn_ballista_message;

/* DoGet of one partition: pulled, the schema's message first. */
typedef struct trn_ballista_fetch trn_ballista_fetch;
typedef struct trn_ballista_fetch_handlers {
  void (*on_message)(void *user, trn_ballista_message message); /* takes message.bytes */
  /* Last. The error names job, partition and executor. */
  void (*on_done)(void *user, trn_status status, const trn_error *error);
} trn_ballista_fetch_handlers;
/* `location` is one of job->locations. Gives `*out` (unref). */
trn_status trn__ballista_fetch_open(trn_ballista_client *client, trn_ballista_job *job,
                                    const trn_ballista_location *location, const trn_ballista_fetch_handlers *handlers,
                                    void *user, trn_ballista_fetch **out, trn_error **error);
/* Asks for one more message. */
void trn__ballista_fetch_next(trn_ballista_fetch *fetch);
void trn__ballista_fetch_cancel(trn_ballista_fetch *fetch);
void trn__ballista_fetch_unref(trn_ballista_fetch *fetch);

#endif
