/* Schedulers, jobs, stores: what the files of this folder share. Internal.
 *
 *   scheduler.c   life, sessions, submit          recover.c   recover, job, list, forget
 *   job.c         handles: status, cancel, output  events.c   subscriptions, waiting
 *   run.c         a job from the queue to its end  keeper.c   the lease; other schedulers' jobs
 *   record.c      records: copies, lists as bytes   spool.c    outputs as files
 *   on_backend.c, on_ballista.c, on_ballista_here.c    where jobs run; remote_*.c: outputs of clusters
 *   store.c, store_sql.c over store_sqlite.c or store_postgres.c */
#ifndef TRN_SCHEDULER_SCHEDULER_H
#define TRN_SCHEDULER_SCHEDULER_H
#include "core/core.h"
#include "core/query.h"
#include <pthread.h>
#include <trunnion/catalog.h>
#include <trunnion/decoder.h>
#include <trunnion/plan.h>
#include <trunnion/scheduler.h>

/* ---- records (record.c) ---- */
bool trn__job_id_is_valid(const char *id);
static inline bool trn__job_is_active(trn_job_state state) {
  return state <= TRN_JOB_RUNNING;
}
/* Deep, into the arena. RESOURCE_EXHAUSTED. */
trn_status trn__job_record_copy(trn_arena *arena, const trn_job_record *record, trn_job_record *out);
/* Lists as bytes, for stores: texts (NULL is kept), pairs of texts, locations. */
void trn__texts_encode(trn_strbuf *out, const char *const *texts, size_t count);
void trn__kvs_encode(trn_strbuf *out, const trn_kv *items, size_t count);
void trn__locations_encode(trn_strbuf *out, const trn_job_location *items, size_t count);
/* From what a store had: everything is bounded. `*at` moves on. DATA_LOSS, RESOURCE_EXHAUSTED. */
typedef struct trn_bytes_reader {
  const uint8_t *data;
  size_t size, at;
} trn_bytes_reader;
trn_status trn__texts_decode(trn_arena *arena, trn_bytes_reader *from, const char *const **out, size_t *count);
trn_status trn__kvs_decode(trn_arena *arena, trn_bytes_reader *from, const trn_kv **out, size_t *count);
trn_status trn__locations_decode(trn_arena *arena, trn_bytes_reader *from, const trn_job_location **out, size_t *count);

/* A record that owns itself. */
typedef struct trn_job_copy {
  trn_arena *arena;
  trn_job_record record;
} trn_job_copy;
trn_status trn__job_copy_init(trn_job_copy *copy, const trn_job_record *record);
void trn__job_copy_finish(trn_job_copy *copy);
/* What the store has now. Gives `*out`. */
trn_status trn__store_get(trn_job_store *store, const char *id, bool with_query, trn_job_copy *out, trn_error **error);

/* ---- where jobs run ---- */

/* `run` is the runner's, of one attempt. It reports by trn__job_progress, trn__job_known_as and once by trn__job_ended
 * or trn__job_failed, also from inside of start. */
typedef struct trn_runner_ops {
  /* Begins; plans at most. thread: worker; may block. Not OK: has not begun, nothing is reported. */
  trn_status (*start)(void *self, trn_job *job, void **run, trn_error **error);
  /* Does work of an earlier owner go on somewhere? NOT_FOUND: it is lost for good. UNAVAILABLE: that cannot be known
   * now. May block. NULL, with `attach`: work dies with its process. */
  trn_status (*probe)(void *self, const trn_job_record *record, trn_error **error);
  trn_status (*attach)(void *self, trn_job *job, void **run, trn_error **error); /* as start */
  void (*cancel)(void *run);                    /* idempotent, does not block; the end is reported */
  void (*abandon)(void *run);                   /* likewise; but work elsewhere goes on */
  void (*close)(void *run);                     /* after the end; nothing else is called any more */
  trn_status (*metrics)(void *run, char **out); /* NULL: none while it runs */
  /* The output of a job that succeeded. */
  trn_status (*output)(void *self, const trn_job_record *record, trn_stream **out, trn_error **error);
  /* Makes away with the output of an attempt, also of one that left it half written; `all`: of earlier ones too. */
  void (*remove)(void *self, const trn_job_record *record, bool all);
  void (*stop)(
      void *self); /* the scheduler stops: no attempt runs any more; outputs are still read. NULL: nothing to do */
  void (*destroy)(void *self);
} trn_runner_ops;

/* How an attempt ended: `record` is borrowed; read are state, rows, bytes, error_*, metrics, locations. thread: any
 * that may block for the store. */
void trn__job_ended(trn_job *job, const trn_job_record *record);
void trn__job_failed(trn_job *job, trn_status status, const trn_error *error); /* CANCELLED when that is the status */
typedef struct trn_job_counts {
  uint32_t stages, stages_done, tasks, tasks_done;
  int64_t rows, bytes;
} trn_job_counts;
void trn__job_progress(trn_job *job, const trn_job_counts *counts); /* does not block */
/* Records what the cluster calls it, and its output's schema (an IPC message), before anything is built on it. ABORTED:
 * the job is not ours any more. Blocks. */
trn_status trn__job_known_as(trn_job *job, const char *backend_id, trn_slice schema, trn_error **error);
void trn__job_lost(trn_job *job); /* instead of ended: its work is gone; nobody owns it any more */

/* What runners read; constant while an attempt runs. */
typedef struct trn_job_attempt {
  const char *id, *name;
  uint64_t attempt;
  const char *backend_id; /* NULL: not known; of an attempt that is attached to */
  trn_session *session;
  trn_cancel *cancel; /* for what blocks in start */
  trn_pool *pool;
  const trn_kv *settings;
  size_t setting_count;
  const char *const *tags;
  size_t tag_count;
} trn_job_attempt;
void trn__job_attempt(trn_job *job, trn_job_attempt *out);
/* The plan: as it was submitted, or decoded. Gives a reference. thread: worker. */
trn_status trn__job_plan(trn_job *job, trn_plan **out, trn_error **error);

/* ---- the scheduler ---- */

/* Locks: never both of a scheduler's and a job's; none while calling a store, a runner or a caller. */
struct trn_scheduler {
  atomic_size_t users, refs; /* callers' references; what keeps the memory: one for all users, one per job */
  const trn_runner_ops *runner;
  void *runner_self;
  trn_job_store *store;
  trn_backend *backend;
  const trn_registry *registry;
  char *owner;
  uint64_t lease_ms, poll_ms;
  size_t running_max, queued_max;
  trn_pool *pool;

  pthread_mutex_t mu;
  pthread_cond_t changed; /* active, is_stopping; monotonic clock */
  /* guarded by mu */
  trn_map *jobs;                       /* id -> trn_job; no reference */
  trn_job *first_queued, *last_queued; /* no reference: `active` jobs have one */
  trn_job *active_jobs;                /* ours that have not ended; a reference each */
  size_t active, running;              /* how many; of these, how many have a slot */
  trn_job *followed;                   /* others' that somebody watches; a reference each */
  int64_t leased_until_ns;
  bool is_stopping, has_keeper;
  pthread_t keeper;
};

struct trn_job {
  trn_scheduler *scheduler;
  char *id;
  /* guarded by the scheduler's mu */
  size_t refs;
  trn_job *next_queued, *next_followed, *next_taken, *next_active, *previous_active;
  bool is_queued, is_followed, is_active, is_stopped;

  /* of the attempt that runs here; changed only while none does */
  trn_session *session;
  trn_plan *plan;
  bool is_attached;     /* begins with attach, not start */
  trn_cancel *planning; /* ends planning early; set with job->mu held */

  pthread_mutex_t mu;
  pthread_cond_t changed; /* monotonic */
  /* guarded by mu */
  trn_job_copy copy;     /* what is known */
  bool is_ours;          /* an attempt runs here: `copy` is the truth; else the store is */
  bool is_lost, is_gone; /* gone: forgotten by the store */
  bool is_adopting;      /* somebody here is taking it: one at a time, for the store lets an owner take twice */
  bool is_cancelling, is_abandoned;
  bool is_starting, has_ended; /* the runner has not returned yet; has reported the end */
  bool is_dirty;               /* counts that the store does not have */
  bool is_unwritten;           /* an end that the store did not take yet */
  trn_job_copy end;            /* as it was reported */
  void *run;
  unsigned calls; /* into the run, by others than who closes it */
  trn_error *failure;
  trn_job_status *events;
  size_t event_count, event_capacity, attempt_at; /* where the events of this attempt begin */
  trn_job_subscription *subscriptions;
  unsigned watchers; /* subscriptions and waiting callers */
};

/* What all forms have in common. Takes `self`, also on failure (the runner's destroy). */
trn_status trn__scheduler_create(const trn_scheduler_options *options, trn_backend *backend,
                                 const trn_runner_ops *runner, void *self, trn_scheduler **out, trn_error **error);
void trn__scheduler_let_go(trn_scheduler *s);
/* A lease that is good for a while. Blocks. */
trn_status trn__scheduler_lease(trn_scheduler *s, bool always, trn_error **error);
trn_status trn__keeper_start(trn_scheduler *s, trn_error **error);
bool trn__wait_until(pthread_cond_t *changed, pthread_mutex_t *mu, int64_t due_ns); /* false: it is due */
trn_status trn__condition_init(pthread_cond_t *condition);                          /* by the monotonic clock */

/* ---- jobs (job.c) ---- */
/* The job of that id that this process knows, with a reference, or NULL. */
trn_job *trn__job_find(trn_scheduler *s, const char *id);
/* One that knows what `record` says. */
trn_status trn__job_create(trn_scheduler *s, const trn_job_record *record, trn_job **out);
/* Makes it the one that find gives; `other` (may be NULL): unless there is one, of which it gives a reference.
 * RESOURCE_EXHAUSTED. */
trn_status trn__job_enter(trn_job *job, trn_job **other);
/* That of the store: found or made, and refreshed. Gives `*out`. */
trn_status trn__job_open(trn_scheduler *s, const char *id, trn_job **out, trn_error **error);
/* What the store has becomes what is known, and an event when it differs. Nothing happens to ours. `may_adopt`: one
 * that is lost and goes on elsewhere becomes ours. */
trn_status trn__job_refresh(trn_job *job, bool may_adopt, trn_error **error);
/* Takes a lost job: to attach to it, or (`resubmit`) to run it again. Gives whether it is ours now. `from`: with its
 * query. */
trn_status trn__job_adopt(trn_job *job, const trn_job_copy *from, bool resubmit, bool *adopted, trn_error **error);

/* A job that nobody runs ends by being taken: CANCELLED, or FAILED. Its output, if an attempt left some, goes. TRN_OK
 * also when somebody else has taken it. Blocks. */
trn_status trn__job_end_lost(trn_scheduler *s, const trn_job_record *record, const trn_error_spec *why,
                             trn_error **error);

/* Opens the session in which a recorded job runs again. */
trn_status trn__job_open_session(trn_scheduler *s, const trn_job_record *record, trn_session **out, trn_error **error);

/* ---- an attempt here (run.c) ---- */
/* Makes it ours with what `copy` says (taken): a reference, `active` grows; it runs as soon as it may. */
void trn__job_begin(trn_job *job, trn_job_copy *copy, trn_session *session, trn_plan *plan, bool is_attached);
void trn__dispatch(trn_scheduler *s);
void trn__job_write_end(trn_job *job); /* tries (again) to write the end; settles the job when that is done */
void trn__job_write_counts(trn_job *job);
void trn__job_cancel_here(trn_job *job);
void trn__job_abandon(trn_job *job);

/* ---- events (events.c); locks: job->mu held ---- */
void trn__job_event(trn_job *job);
void trn__status_of(const trn_job *job, trn_job_status *out);
bool trn__job_is_over(const trn_job *job);       /* ended, lost or gone */
trn_error *trn__job_failure(const trn_job *job); /* a reference, or NULL */
/* locks: none. Somebody begins or ends to watch. */
trn_status trn__job_watch(trn_job *job, trn_error **error);
void trn__job_unwatch(trn_job *job);

/* ---- outputs as files (spool.c) ---- */
typedef struct trn_spool_file trn_spool_file;
/* <directory>/<job>/<attempt>/part-00000.arrows; folders are made. */
trn_status trn__spool_create(const char *directory, const char *job_id, uint64_t attempt, trn_spool_file **out,
                             trn_error **error);
trn_status trn__spool_write(trn_spool_file *file, const trn_slice *slices, size_t count, trn_error **error);
/* Everything is on the disk when it returns. Gives `*path` (free). */
trn_status trn__spool_end(trn_spool_file *file, char **path, int64_t *bytes, trn_error **error);
void trn__spool_destroy(trn_spool_file *file); /* what was not ended goes away */
/* Reads one as a stream, in pieces as they were written. `bytes` and `rows`: what it must have. */
trn_status trn__spool_open(const char *uri, int64_t rows, int64_t bytes, trn_stream **out, trn_error **error);
typedef enum trn_spool_which {
  TRN_SPOOL_THIS,
  TRN_SPOOL_OTHERS,
  TRN_SPOOL_ALL
} trn_spool_which; /* attempts of a job */
void trn__spool_remove(const char *directory, const char *job_id, uint64_t attempt, trn_spool_which which);

#endif
