/* Ballista's scheduler protocol over any backend: plans come in as bytes, results are fetched from the one Flight
 * service of the routes.
 *
 *   frontend.c  options, mounting; one ballista_rpc per call: the host's thread hands it to a worker
 *   submit.c    ExecuteQuery, ExecuteQueryPush: a session, a plan, an operation      explain.c  EXPLAIN's three rows
 *   copy.c      COPY and INSERT: commands, not queries                               stored.c   jobs of a scheduler
 *   settings.c  what of a client's settings counts; sets of them that clients keep (CreateUpdateSession)
 *   job.c       jobs by id: their life, who may see them, cancelling, expiry         status.c   jobs as messages,
 * metrics result.c    a job's rows on their way: kept up to a budget, then made as they are fetched handed.c    results
 * that clients fetch from where a cluster left them ticket.c    the provider in the Flight service wire.c     messages
 * from outside
 *
 * Locks, outermost first: service->mutex, job->mutex, result->mutex. None is held while calling out. */
#ifndef TRN_FRONTEND_BALLISTA_BALLISTA_H
#define TRN_FRONTEND_BALLISTA_BALLISTA_H
#include <pthread.h>

#include <trunnion/backend.h>
#include <trunnion/decoder.h>
#include <trunnion/frontend.h>
#include <trunnion/scheduler.h>

#include "ballista.pb-c.h"
#include "core/core.h"
#include "core/gate.h"
#include "frontend/flight/flight.h"

#define BALLISTA_VERSION "55.0.0" /* whose protocol this is; clients of the same major version go with it */

typedef struct ballista_service ballista_service;
typedef struct ballista_job ballista_job;
typedef struct ballista_result ballista_result;
typedef struct ballista_rpc ballista_rpc;

/* ---- frontend.c ---- */

struct ballista_service {
  atomic_uint refs; /* the routes', the Flight service's, one per job, rpc and result */
  trn_backend *backend;
  const trn_registry *registry; /* borrowed, or `own` */
  trn_registry *own;
  trn_pool *pool, *control, *stored; /* for plans; for what blocks nowhere; for questions to a store, NULL without one */
  uint64_t result_ms, job_ms, session_idle_ms;
  size_t result_bytes, results_bytes;
  bool runs_on, refuses_older, hands_through, resubmits;
  trn_scheduler *scheduler; /* one reference; NULL: jobs are this process's */
  uint8_t ticket_key[16];
  pthread_mutex_t mutex;
  trn_gate gate; /* work that shutdown waits for */
  /* guarded by mutex */
  trn_map *jobs;     /* id -> job, one reference each */
  trn_map *sessions; /* user and id -> ballista_settings */
  unsigned active;   /* jobs that are not over, or whose rows are still to be made */
  bool has_timer;
  atomic_size_t bytes; /* of all results in memory */
};
ballista_service *ballista__service_ref(ballista_service *service);
void ballista__service_unref(ballista_service *service);
void ballista__need_timer(ballista_service *service);

typedef struct ballista_method ballista_method;

/* One call. The host's callbacks hold one reference until on_done. */
struct ballista_rpc {
  atomic_uint refs;
  ballista_service *service; /* one reference */
  trn_call *call;            /* one reference */
  const ballista_method *method;
  trn_slice message;
  trn_cancel *cancel; /* requested when the call is gone: what the worker works for, outside of jobs */
  trn_arena *arena;   /* while a worker has it */
  bool is_older;      /* of a 54.x client */
  pthread_mutex_t mutex;
  /* guarded by mutex */
  ballista_job *job; /* that it watches, or is to tell the id of; one reference */
  bool is_untold;    /* `job` goes with the call: nobody knows its id yet */
  bool gone;
};
ballista_rpc *ballista__rpc_ref(ballista_rpc *rpc);
void ballista__rpc_unref(ballista_rpc *rpc);
/* Who calls: "" when nobody knows. */
const char *ballista__rpc_user(const ballista_rpc *rpc, bool *is_authenticated);
trn_status ballista__rpc_send(ballista_rpc *rpc, const ProtobufCMessage *message, trn_error **error);
trn_status ballista__rpc_reply(ballista_rpc *rpc, const ProtobufCMessage *message, trn_error **error); /* then OK */
void ballista__rpc_finish(ballista_rpc *rpc);
void ballista__rpc_fail(ballista_rpc *rpc, trn_status status, const trn_error *error);
/* An error as a person reads it; gives text on the heap (free), never NULL but without memory. */
char *ballista__error_text(trn_status status, const trn_error *error);

/* ---- wire.c: messages from outside ---- */

/* Checks without recursion, then decodes into `arena`. INVALID_ARGUMENT names the message. */
trn_status ballista__decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                            size_t size, void *out_message, trn_error **error);

/* ---- settings.c ---- */

typedef struct ballista_settings {
  trn_kv *items; /* texts on the heap */
  size_t count, bytes;
  int64_t used_ns;
} ballista_settings;
void ballista__settings_destroy(void *settings);
/* Makes a session for one job: what its client keeps, then what came with the query, as far as it counts and policies
 * let it. Settings are never written anywhere: they may be secrets. */
trn_status ballista__session_open(ballista_rpc *rpc, const Ballista__Protobuf__ExecuteQueryParams *params,
                                  trn_session **out, trn_error **error);
/* "ballista.job.name" among them, or "". Borrowed. */
const char *ballista__job_name(const Ballista__Protobuf__ExecuteQueryParams *params);
trn_status ballista__handle_update_session(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status ballista__handle_remove_session(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
void ballista__sweep_sessions(ballista_service *service, int64_t now_ns);

/* ---- job.c ---- */

typedef enum ballista_state {
  BALLISTA_QUEUED = 0,
  BALLISTA_RUNNING,
  BALLISTA_FAILED,
  BALLISTA_SUCCESSFUL
} ballista_state;

/* Where parts of a result lie, when clients fetch them there. */
typedef struct ballista_locations {
  trn_arena *arena;
  trn_vec items; /* trn_result_location, in the arena */
  bool failed;
} ballista_locations;

struct ballista_job {
  atomic_uint refs;
  ballista_service *service; /* one reference */
  char id[TRN_UUID_SIZE];
  char *name, *user;
  bool is_authenticated;
  uint64_t secret; /* of its ticket: the location's file id */
  trn_cancel *cancel;
  pthread_mutex_t mutex;
  /* guarded by mutex */
  ballista_state state;
  uint64_t queued_ms, started_ms, ended_ms;
  char *failure;
  trn_operation *operation;   /* while it runs; one reference */
  trn_session *session;       /* of the operation; one reference */
  ballista_result *result;    /* one reference; NULL: not yet, or dropped */
  ballista_locations *handed; /* instead of it; NULL: not yet, or dropped. Fixed once it is there */
  bool is_handed;
  char *metrics;                         /* JSON, when it is over */
  ballista_rpc *watcher;                 /* one reference */
  int64_t result_expires_ns, expires_ns; /* once it is over */
  unsigned fetching;                     /* calls that read the result now */
  bool is_fetched;
  bool is_made; /* its last row */
  bool is_counted; /* among service->active */
  /* of a job that a scheduler keeps */
  trn_job *stored;              /* one reference; fixed once it is there */
  bool is_lost;                 /* as the store said when it was found there */
  trn_job_subscription *events; /* of one that was submitted here */
  bool is_asking, is_let_go;    /* the next event is being asked for; none is wanted any more */
  int64_t rows, bytes;
};
/* One that nobody knows yet, with these texts missing: name, user. NULL: no memory. */
ballista_job *ballista__job_new(ballista_service *service, const char *id);
/* Makes one and puts it into the table. RESOURCE_EXHAUSTED. */
trn_status ballista__job_create(ballista_rpc *rpc, const char *name, ballista_job **out, trn_error **error);
ballista_job *ballista__job_ref(ballista_job *job);
void ballista__job_unref(ballista_job *job);
/* A reference to that of this process, or of the store (which may block); NULL: there is none. UNAVAILABLE: that cannot be
 * known now. Whoever asks has to be looked at. */
trn_status ballista__job_get(ballista_service *service, const char *id, ballista_job **out, trn_error **error);
/* A reference, if there is one and the user may see it; else NULL. */
trn_status ballista__job_find(ballista_service *service, const char *id, const char *user, bool is_authenticated,
                              ballista_job **out, trn_error **error);
/* Takes it out of the table: nobody was told of it. */
void ballista__job_forget(ballista_job *job);
/* The call hears of the job until it is over; then it is finished. */
void ballista__job_watch(ballista_job *job, ballista_rpc *rpc);
/* Until the call has told the job's id, the job ends with it. */
void ballista__job_hold(ballista_job *job, ballista_rpc *rpc);
void ballista__job_let_go(ballista_rpc *rpc);
/* Nobody hears of it any more. */
void ballista__job_unwatch(ballista_job *job);
/* Planned: takes the references to `operation` (may be NULL) and `result`, and one of its own to the session; the job
 * runs. CANCELLED: it was cancelled meanwhile; then both are cancelled and let go. */
trn_status ballista__job_run(ballista_job *job, trn_session *session, trn_operation *operation,
                             ballista_result *result);
/* The same for an operation whose output stays where it is. */
trn_status ballista__job_run_handed(ballista_job *job, trn_session *session, trn_operation *operation);
void ballista__job_runs(ballista_job *job); /* elsewhere it was begun */
/* The result is there, or begins to be made as it is fetched. */
void ballista__job_succeed(ballista_job *job);
/* Its last row was made: metrics are kept, the operation goes; both on a worker. thread: any, does not block */
void ballista__job_done(ballista_job *job);
void ballista__job_fail(ballista_job *job, trn_status status, const trn_error *error);
/* True: it was not over, and is now. A job that is over keeps its output. thread: any, does not block */
bool ballista__job_cancel(ballista_job *job);
/* Who submitted it is gone: it is cancelled unless it is over, or jobs run on. thread: any, does not block */
void ballista__job_abandon(ballista_job *job);
/* The output goes; what still makes it is cancelled. */
void ballista__job_drop_output(ballista_job *job);
void ballista__sweep_jobs(ballista_service *service, int64_t now_ns); /* 0: all */
/* Output that was fetched goes before new output has no room. */
void ballista__drop_fetched(ballista_service *service);

/* ---- status.c ---- */

/* A job as a message, in the arena. thread: any; locks: none */
trn_status ballista__status_of(trn_arena *arena, ballista_job *job, Ballista__Protobuf__GetJobStatusResult **out);
/* Metrics (backend's JSON) as a message in the arena; what is none gives none. */
trn_status ballista__metrics_of(trn_arena *arena, const char *json, Ballista__Protobuf__GetJobMetricsResult *out);
trn_status ballista__handle_get_status(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status ballista__handle_get_metrics(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status ballista__handle_cancel(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status ballista__handle_clean(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);

/* ---- submit.c ---- */
trn_status ballista__handle_execute(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status ballista__handle_execute_push(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);

/* ---- explain.c ---- */
/* The three rows that EXPLAIN has on a cluster. */
trn_status ballista__explain(ballista_service *service, trn_session *session, trn_plan *plan, ballista_result **out,
                             trn_error **error);

/* ---- copy.c ---- */
struct trn_ballista_write;
/* Writes the rows of `plan`; gives an operation whose one row is their count. UNIMPLEMENTED names what is not done. */
trn_status ballista__write(ballista_rpc *rpc, ballista_job *job, trn_session *session, trn_plan *plan,
                           const struct trn_ballista_write *write, trn_operation **out, trn_error **error);

/* ---- result.c ---- */

/* Takes the stream in any case. Nothing is pulled before ballista__result_start. */
trn_status ballista__result_create(ballista_service *service, trn_stream *stream, ballista_result **out,
                                   trn_error **error);
/* Of rows that are there: takes both buffers in any case. */
trn_status ballista__result_of(ballista_service *service, trn_strbuf *schema, trn_strbuf *batch, int64_t rows,
                               ballista_result **out, trn_error **error);
/* Begins; from now on it tells the job, of which it takes a reference until it is over. */
void ballista__result_start(ballista_result *result, ballista_job *job);
ballista_result *ballista__result_ref(ballista_result *result);
void ballista__result_unref(ballista_result *result);
/* Nothing more is made or given. thread: any, does not block */
void ballista__result_cancel(ballista_result *result);
/* -1: not known yet. */
void ballista__result_size(ballista_result *result, int64_t *rows, int64_t *batches, int64_t *bytes);
bool ballista__result_is_complete(ballista_result *result);
/* A stream for one fetch. FAILED_PRECONDITION: it was too large to be kept, and is fetched already. */
trn_status ballista__result_open(ballista_result *result, trn_stream **out, trn_error **error);

/* ---- handed.c ---- */
/* Asks a running job's operation where its output is, again and again until it is known. */
void ballista__handed_start(ballista_job *job);
void ballista__locations_destroy(ballista_locations *locations);

/* ---- stored.c: jobs of a scheduler ---- */
void ballista__stored_key(ballista_service *service, const void *key, size_t size);
/* The ticket's secret of one that is new. */
void ballista__stored_prepare(ballista_job *job);
/* Submits it; events bring its states. `input`: what `plan` was decoded from. CANCELLED: it was cancelled meanwhile. */
trn_status ballista__stored_submit(ballista_job *job, trn_session *session, trn_plan *plan, const trn_plan_input *input,
                                   trn_error **error);
/* What the store says of a job; NULL: nothing. It is not in the table. */
trn_status ballista__stored_find(ballista_service *service, const char *id, ballista_job **out, trn_error **error);
/* A lost one that was found there runs again, where that is wanted and possible: for who may see it only. Blocks. */
void ballista__stored_run_again(ballista_job *job);
trn_status ballista__stored_cancel(ballista_job *job, bool *is_cancelled, trn_error **error);
/* No more events: it goes on without this service. */
void ballista__stored_let_go(ballista_job *job);

/* ---- ticket.c ---- */
bool ballista__claims(void *self, const void *ticket, size_t size);
trn_status ballista__do_get(void *self, flight_rpc *rpc, const void *ticket, size_t size, trn_error **error);
/* Checks a ticket's bytes and finds its job. NOT_FOUND, the same whatever is wrong with it. */
trn_status ballista__redeem(ballista_service *service, trn_arena *arena, const void *ticket, size_t size,
                            const char *user, bool is_authenticated, ballista_job **out, trn_error **error);

#endif
