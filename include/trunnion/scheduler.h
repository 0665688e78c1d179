/* Jobs: queries that outlive the call, and the process, that submitted them. A scheduler runs them - on any backend of
 * this process, on a Ballista scheduler elsewhere or on one inside of this process - and a store remembers them, so
 * that another process can follow, fetch, recover.
 *
 * What is promised, whatever dies when:
 *  - An id runs once at a time. A second submit of an id is ALREADY_EXISTS, also when two processes race.
 *  - What was answered is in the store: a job exists before submit returns, its output before it is SUCCEEDED.
 *  - A job belongs to one scheduler (its owner) at a time, by a lease in the store. An owner that lost its lease -
 * stopped, cut off, dead - can change nothing of the job any more: each write names the attempt that it speaks for.
 *  - A job whose owner is gone is LOST, until somebody recovers it: where its work goes on elsewhere (a cluster) it is
 *    attached to; else it can be submitted again under the same id, from the query that the store has. */
#ifndef TRUNNION_SCHEDULER_H
#define TRUNNION_SCHEDULER_H
#include <trunnion/backend.h>
#include <trunnion/ballista.h>
#include <trunnion/registry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_scheduler trn_scheduler;
typedef struct trn_job trn_job;
typedef struct trn_job_store trn_job_store;
typedef struct trn_job_subscription trn_job_subscription;

typedef enum trn_job_state {
  TRN_JOB_QUEUED = 0,
  TRN_JOB_RUNNING,
  TRN_JOB_SUCCEEDED, /**< the output is there, until it is released */
  TRN_JOB_FAILED,
  TRN_JOB_CANCELLED,
  TRN_JOB_LOST /**< never in a store: it is queued or running there, and its owner is gone */
} trn_job_state;
/** "queued", "running", "succeeded", "failed", "cancelled", "lost". */
TRN_API const char *trn_job_state_name(trn_job_state state);

/** A part of a job's output, in the order of rows. Borrowed texts. */
typedef struct trn_job_location {
  size_t struct_size;
  const char *uri;    /**< "file:///...": an Arrow IPC stream; "grpc://host:port": Flight, `ticket` is for its DoGet */
  const void *ticket; /**< NULL: none */
  size_t ticket_size;
  int64_t rows, bytes; /**< -1: unknown */
} trn_job_location;

/** All that a store has about a job. Everything is borrowed. Zero: unknown or none. */
typedef struct trn_job_record {
  size_t struct_size;
  const char *id;
  const char *name; /**< for people; never NULL, nor are the next two */
  const char *user;
  const char *session_id;
  trn_job_state state;                        /**< QUEUED to CANCELLED */
  uint64_t attempt;                           /**< from 1; who writes must know it */
  const char *owner;                          /**< the scheduler that runs it */
  bool is_owner_alive;                        /**< its lease has not run out, by the store's clock */
  bool is_cancelled;                          /**< somebody asked for it */
  bool is_released;                           /**< its output was given up */
  const char *backend_id;                     /**< what the cluster calls it; NULL: nothing */
  int64_t submitted_ms, started_ms, ended_ms; /**< since the epoch, by the clock of who wrote them */
  uint32_t stages, stages_done, tasks, tasks_done;
  int64_t rows, bytes; /**< of the output */
  const char *const *tags;
  size_t tag_count;
  /** The identity and settings under which it runs again. */
  const char *const *groups;
  size_t group_count;
  bool is_authenticated;
  const trn_kv *settings;
  size_t setting_count;
  /** The query as it was submitted, or as the backend encoded its plan. `query` is NULL when it was not asked for. */
  const char *format; /**< NULL: nothing that could run again */
  const void *query;
  size_t query_size;
  const trn_kv *query_options;
  size_t query_option_count;
  /** How it ended. */
  trn_status error_status;
  const char *error_condition, *error_message;
  const char *metrics; /**< JSON */
  const trn_job_location *locations;
  size_t location_count;
  const void *schema; /**< of the output, as an encapsulated Arrow IPC message; NULL: not known yet */
  size_t schema_size;
} trn_job_record;

/** Zero means "any". The newest come first. */
typedef struct trn_job_filter {
  size_t struct_size;
  uint32_t
      states; /**< bits 1 << TRN_JOB_QUEUED ...; LOST counts as what the store has, and is found by its bit alone too */
  const char *user, *session_id, *name, *tag;
  const char *owner;
  int64_t since_ms, until_ms; /**< submitted in [since, until) */
  const char *after_id;       /**< goes on behind this job */
  size_t limit;               /**< default 100, at most 10000 */
} trn_job_filter;

/** `record` is borrowed during the call. False: enough. Must not call the store. */
typedef bool (*trn_job_each)(void *user, const trn_job_record *record);

/* ---- stores ---- */

/** What a store implements; schedulers on several hosts may share one. Every function may block, is called from any
 *  thread, and has made its change durable when it returns TRN_OK. UNAVAILABLE: it could not be asked now, and may or
 * may not have done it. */
typedef struct trn_job_store_ops {
  size_t struct_size;
  /** ALREADY_EXISTS: a job with the id of `record` is there. */
  trn_status (*insert)(void *self, const trn_job_record *record, trn_error **error);
  /** Calls `each` once. NOT_FOUND. `with_query`: also the query's bytes. */
  trn_status (*get)(void *self, const char *id, bool with_query, trn_job_each each, void *user, trn_error **error);
  /** Writes what changes while a job runs: state, backend_id, times, counts, rows, bytes, error, metrics, schema,
   * locations - if the store's record is active (QUEUED, RUNNING), has the attempt of `record` and its owner. Else
   * ABORTED, nothing changed. */
  trn_status (*update)(void *self, const trn_job_record *record, trn_error **error);
  /** Makes `owner` the owner, with attempt + 1, of an active job that has this attempt and whose owner's lease has run
   * out (or that is `owner`'s own), in one step. `is_new_run`: it is QUEUED again and its backend_id gone. Else
   * ABORTED. `owner` NULL: whoever has that attempt gives the job up: it has no owner, and so no living one. */
  trn_status (*take)(void *self, const char *id, uint64_t attempt, const char *owner, bool is_new_run,
                     trn_error **error);
  /** Makes the lease of `owner` run for `lease_ms` from now, by the store's clock; then tells ids of active jobs of
   * this owner that somebody wants cancelled (`each` sees id and attempt only). */
  trn_status (*renew)(void *self, const char *owner, uint64_t lease_ms, trn_job_each each, void *user,
                      trn_error **error);
  /** Asks an active job's owner to cancel it; nothing happens to others. NOT_FOUND. */
  trn_status (*cancel)(void *self, const char *id, trn_error **error);
  /** Of a job that has ended: is_released is set, its locations are gone. FAILED_PRECONDITION: it has not. NOT_FOUND.
   */
  trn_status (*release)(void *self, const char *id, trn_error **error);
  /** Forgets a job that has ended; its id may be used again. FAILED_PRECONDITION, NOT_FOUND. */
  trn_status (*remove)(void *self, const char *id, trn_error **error);
  /** Records without their queries. */
  trn_status (*list)(void *self, const trn_job_filter *filter, trn_job_each each, void *user, trn_error **error);
  void (*destroy)(void *self);
} trn_job_store_ops;

/** All slots are required (INVALID_ARGUMENT). Takes `self` on success. Threads: any. Since 0.1. */
TRN_API trn_status trn_job_store_create(const trn_job_store_ops *ops, void *self, trn_job_store **out);
TRN_API trn_job_store *trn_job_store_ref(trn_job_store *store);
TRN_API void trn_job_store_unref(trn_job_store *store); /**< NULL is accepted */
/** For wrappers: the table and its `self`; both live as long as the store. */
TRN_API const trn_job_store_ops *trn_job_store_get_ops(const trn_job_store *store, void **self);

/** A file of SQLite (WAL, every commit synced), for any number of processes of one host. NULL: in memory, this process
 * only. Blocks. Errors: PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (written by a newer version). Since
 * 0.1. */
TRN_API trn_status trn_sqlite_job_store_open(const char *path, trn_job_store **out, trn_error **error);
/** A database of PostgreSQL 12 or newer, for schedulers on several hosts. `conninfo` as libpq takes it; libpq.so.5 is
 * loaded when this is called first, NOT_FOUND names it. The table names begin with `trunnion_`. A lost connection is
 * opened again by the next call. Blocks. Since 0.1. */
TRN_API trn_status trn_postgres_job_store_open(const char *conninfo, trn_job_store **out, trn_error **error);

/* ---- schedulers ---- */

/** Zero means the default. */
typedef struct trn_scheduler_options {
  size_t struct_size;
  trn_job_store *store; /**< required; a reference is taken */
  const char
      *output_directory; /**< where outputs are spooled: required by trn_scheduler_create; made when absent. Processes
                              that share a store share it as well, or cannot fetch each other's outputs */
  const trn_registry *registry; /**< decoders of encoded queries; borrowed until the scheduler's end. NULL: the
                                   backend's own formats */
  const char *name;             /**< the beginning of this owner's name, for people; a UUID is added */
  uint64_t lease_ms;            /**< how long after its last sign of life a scheduler counts as gone; default 10 s */
  uint64_t poll_ms;             /**< how often another scheduler's job is looked at, at most; default 100 ms */
  unsigned jobs_running_max;    /**< others wait as QUEUED; default 16 */
  unsigned jobs_queued_max;     /**< more are RESOURCE_EXHAUSTED; default 10000 */
  unsigned workers;             /**< threads that plan and write outputs; default 4 */
} trn_scheduler_options;

/** Jobs run on `backend` (a reference is taken), in this process; they do not survive it, their outputs do. Threads
 * made: one that renews the lease while jobs are active, workers on demand. Blocks. Since 0.1. */
TRN_API trn_status trn_scheduler_create(const trn_scheduler_options *options, trn_backend *backend, trn_scheduler **out,
                                        trn_error **error);
/** Jobs run on a Ballista cluster (ballista.h; of `ballista`, what is said of spooling, falling back and fetching is
 * not read); `local` (a reference is taken) keeps sessions and tables, decodes, and encodes for the cluster. The
 * scheduler there may be a stock one. A job that was handed over goes on when this process dies; whoever recovers it
 * attaches to it. Its output is the cluster's, and lives as long as the cluster keeps it: release it, or read it, in
 * time. A job whose process died between handing it over and recording what the cluster calls it is found again by its
 * id, if that is a UUID, on schedulers that take names for ids (trunnion-ballista); on others it stays there, and nobody
 * reads it. What the cluster cannot run fails with UNIMPLEMENTED. Blocks. Since 0.1. */
TRN_API trn_status trn_scheduler_create_ballista(const trn_scheduler_options *options,
                                                 const trn_ballista_options *ballista, trn_backend *local,
                                                 trn_scheduler **out, trn_error **error);

/** Zero means the default. */
typedef struct trn_ballista_here_options {
  size_t struct_size;
  const char *library_path; /**< libtrunnion_ballista.so; NULL: beside the running program, then the loader's search */
  const char *functions_path; /**< libtrunnion_functions.so; likewise */
  trn_connector *connector;   /**< fetches outputs; a reference is taken. Required */
  const char *host; /**< where Ballista's protocol is served, for executors and its own clients; default 127.0.0.1 */
  uint16_t port;    /**< 0: any free one */
  bool pulls;       /**< executors ask for tasks; otherwise they are sent */
  bool proxies;     /**< outputs are fetched through this scheduler, not from the executors */
  unsigned threads; /**< default: cores */
  int64_t data_seconds; /**< how long outputs of ended jobs are kept; default 300 */
} trn_ballista_here_options;
/** Jobs run on a Ballista scheduler inside of this process, to which executors come (`trunnion-ballista executor`, with
 * the same function library); `local` as above. It serves Ballista's protocol at `*address` ("host:port"; trn_free; may
 * be NULL as a pointer), also to clients of its own, whose jobs are not in the store. A job dies with its process, and
 * is LOST until it is submitted again; outputs of jobs that ended are the executors'. The library is loaded, and stays.
 * Effects: it listens. Blocks. Errors: NOT_FOUND (a library), UNAVAILABLE (the port). Since 0.1. */
TRN_API trn_status trn_scheduler_create_ballista_here(const trn_scheduler_options *options,
                                                      const trn_ballista_here_options *here, trn_backend *local,
                                                      char **address, trn_scheduler **out, trn_error **error);
TRN_API trn_scheduler *trn_scheduler_ref(trn_scheduler *scheduler);
/** The last unref of the scheduler stops it: jobs of this process that are still active are given up as by a death, at
 * once LOST for others; on a cluster they go on. Handles of jobs stay valid: their status, output and subscriptions end
 * with what was known. Blocks until this process has let go. Not from a completion of the scheduler's. */
TRN_API void trn_scheduler_unref(trn_scheduler *scheduler);
TRN_API const char *trn_scheduler_owner(const trn_scheduler *scheduler); /**< its name in records */

/** As trn_session_open, on the scheduler's backend. */
TRN_API trn_status trn_scheduler_create_session(trn_scheduler *scheduler, const trn_session_request *request,
                                                trn_session **out, trn_error **error);

/** Borrowed during the call. One of `plan` and `input`, or both: then `plan` is what `input` was decoded to, for the
 * session's user; it runs, and `input` is what is recorded and runs again. */
typedef struct trn_submit_request {
  size_t struct_size;
  const char *requested_job_id; /**< 1 to 128 of [A-Za-z0-9._-], beginning with a letter or digit; NULL: a new UUIDv7 */
  const char *name;             /**< NULL: the id */
  trn_session *session; /**< of the scheduler's backend; its user, groups and settings are recorded with the job */
  trn_plan *plan;
  const trn_plan_input *input; /**< is recorded as it is; tables are those of the session, `resolve` and parameters are
                                    refused (INVALID_ARGUMENT) */
  const trn_kv *settings;      /**< over the session's, for this job */
  size_t setting_count;
  const char *const *tags;
  size_t tag_count;
} trn_submit_request;

/** The job is recorded when this returns TRN_OK, and runs as soon as it may. A plan that cannot be encoded runs too,
 * but not again. Gives `*out` (trn_job_unref). Threads: any. Blocks: for the store. Errors: ALREADY_EXISTS,
 * INVALID_ARGUMENT (the id, an unknown format), RESOURCE_EXHAUSTED, UNAVAILABLE: the store could not say whether the
 * job is recorded; if it is, it fails and does not run. Since 0.1. */
TRN_API trn_status trn_scheduler_submit(trn_scheduler *scheduler, const trn_submit_request *request, trn_job **out,
                                        trn_error **error);

typedef struct trn_recover_options {
  size_t struct_size;
  bool resubmit; /**< a job that is lost for good runs again, from its recorded query; the fifth time it FAILED */
} trn_recover_options;
/** A handle of a job, and care for it: one whose owner is gone becomes this scheduler's - attached to where its work
 * goes on, or submitted again. Ended jobs, and those of living owners, are left as they are. `options`: NULL: none.
 * Gives `*out`, whose status says what came of it: LOST when it was not to be resubmitted. Blocks. Errors: NOT_FOUND;
 *  FAILED_PRECONDITION: to be resubmitted, but nothing is recorded that could run; it FAILED. Since 0.1. */
TRN_API trn_status trn_scheduler_recover(trn_scheduler *scheduler, const char *job_id,
                                         const trn_recover_options *options, trn_job **out, trn_error **error);
/** A handle of a job, whoever runs it. Changes nothing. Blocks. Errors: NOT_FOUND. Since 0.1. */
TRN_API trn_status trn_scheduler_job(trn_scheduler *scheduler, const char *job_id, trn_job **out, trn_error **error);
/** `record->state` is LOST where it is. `filter`: NULL: the newest 100. Blocks. Since 0.1. */
TRN_API trn_status trn_scheduler_list(trn_scheduler *scheduler, const trn_job_filter *filter, trn_job_each each,
                                      void *user, trn_error **error);
/** Removes an ended job and its output; the id may be used again. Errors: NOT_FOUND, FAILED_PRECONDITION (not ended).
 */
TRN_API trn_status trn_scheduler_forget(trn_scheduler *scheduler, const char *job_id, trn_error **error);

/* ---- jobs ---- */

/** A copy. */
typedef struct trn_job_status {
  size_t struct_size;
  trn_job_state state;
  uint64_t attempt;
  uint32_t stages, stages_done, tasks, tasks_done; /**< 0 stages: not known, or not yet */
  int64_t submitted_ms, started_ms, ended_ms;      /**< 0: not yet */
  int64_t rows, bytes;                             /**< of the output so far */
  bool is_cancelled;                               /**< asked for; a job may still succeed if it was faster */
  bool is_released;
} trn_job_status;

TRN_API trn_job *trn_job_ref(trn_job *job);
TRN_API void trn_job_unref(trn_job *job); /**< NULL is accepted; the job goes on */
TRN_API const char *trn_job_id(const trn_job *job);
/** Of this process's own jobs at once; of others as the store has it now. Set `status->struct_size` before. `failure`
 * (may be NULL) gets why it FAILED (trn_error_unref), else NULL. Blocks: for the store. Since 0.1. */
TRN_API trn_status trn_job_get_status(trn_job *job, trn_job_status *status, trn_error **failure, trn_error **error);
/** All that the store has about it, but for its query: `each` is called once, `record->state` is LOST where it is.
 *  Blocks. Since 0.1. */
TRN_API trn_status trn_job_read(trn_job *job, trn_job_each each, void *user, trn_error **error);
/** Until it has ended or is LOST; `timeout_ms` UINT64_MAX: for ever. DEADLINE_EXCEEDED: not yet. Else as get_status. */
TRN_API trn_status trn_job_wait(trn_job *job, uint64_t timeout_ms, trn_job_status *status, trn_error **failure,
                                trn_error **error);
/** Asks for it, durably: also a job that is recovered later will not run. A job that has ended keeps its output.
 * Idempotent. Blocks: for the store. */
TRN_API trn_status trn_job_cancel(trn_job *job, trn_error **error);

/** What happens to the job from its submission on (of another scheduler's job: from what it is now), in order: QUEUED,
 *  RUNNING, RUNNING with other counts, and one terminal status: SUCCEEDED, FAILED, CANCELLED or LOST. Nothing is lost
 * to a slow subscriber: the job keeps its events. Only of jobs with more than 10000, counts in between are merged.
 * Gives `*out`. */
TRN_API trn_status trn_job_subscribe(trn_job *job, trn_job_subscription **out, trn_error **error);
/** `status` is borrowed; NULL with TRN_OK: there was the terminal one before, nothing follows. */
typedef void (*trn_job_event_done)(void *user, trn_status result, const trn_job_status *status,
                                   const trn_error *failure);
/** The next event: one completion, never inline, when there is one; it must not block. FAILED_PRECONDITION: one is
 * asked for already. Not OK: no completion. */
TRN_API trn_status trn_job_subscription_next(trn_job_subscription *subscription, trn_job_event_done done, void *user,
                                             trn_error **error);
/** Ends it; an outstanding `next` completes with CANCELLED. NULL is accepted. */
TRN_API void trn_job_subscription_destroy(trn_job_subscription *subscription);

/** Where the output is, in order. FAILED_PRECONDITION: it has not succeeded; NOT_FOUND: it was released. Blocks. */
TRN_API trn_status trn_job_locations(trn_job *job, void (*each)(void *user, const trn_job_location *location),
                                     void *user, trn_error **error);
/** The whole output, any number of times. Gives `*out`. Errors: as above; DATA_LOSS names what is not there any more,
 * from here or from a pull. Blocks: for opening. */
TRN_API trn_status trn_job_output(trn_job *job, trn_stream **out, trn_error **error);
/** JSON; gives `*out` (trn_free). UNIMPLEMENTED: there are none. */
TRN_API trn_status trn_job_metrics(trn_job *job, char **out, trn_error **error);
/** The output is not needed any more: files, or the cluster's data, go. The record stays. FAILED_PRECONDITION: the job
 * has not ended. Idempotent. Blocks. */
TRN_API trn_status trn_job_release(trn_job *job, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
