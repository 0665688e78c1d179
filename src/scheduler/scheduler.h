/* Schedulers, jobs, stores: what the files of this folder share. Internal.
 *
 *   scheduler.c   life, sessions, submit          recover.c   recover, job, list, forget
 *   job.c         handles: status, cancel, output  events.c   subscriptions, waiting
 *   run.c         a job from the queue to its end  keeper.c   the lease; other schedulers' jobs
 *   record.c      records: copies, lists as bytes   spool.c    outputs as files
 *   on_backend.c, on_ballista.c                    where jobs run
 *   store.c, store_sql.c over store_sqlite.c or store_postgres.c */
#ifndef TRN_SCHEDULER_SCHEDULER_H
#define TRN_SCHEDULER_SCHEDULER_H
#include "core/core.h"
#include "core/query.h"
#include <pthread.h>
#include <trunnion/scheduler.h>

/* ---- records (record.c) ---- */
bool trn__job_id_is_valid(const char *id);
static inline bool trn__job_is_active(trn_job_state state) { return state <= TRN_JOB_RUNNING; }
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

/* `run` is the runner's, of one attempt. It reports by trn__job_progress, trn__job_known_as and once by trn__job_ended. */
typedef struct trn_runner_ops {
  /* Begins; plans at most. thread: worker; may block. Not OK: has not begun, nothing is reported. */
  trn_status (*start)(void *self, trn_job *job, void **run, trn_error **error);
  /* Goes on with what an earlier owner began. NOT_FOUND: it is not known there: lost for good. UNAVAILABLE: ask again later.
   * NULL: work dies with its process. */
  trn_status (*attach)(void *self, trn_job *job, void **run, trn_error **error);
  void (*cancel)(void *run);   /* idempotent, does not block; trn__job_ended follows */
  void (*abandon)(void *run);  /* this process lets go: trn__job_ended follows, work elsewhere goes on */
  void (*close)(void *run);    /* after trn__job_ended */
  trn_status (*metrics)(void *run, char **out); /* NULL: none while it runs */
  /* The output of a job that succeeded. */
  trn_status (*output)(void *self, const trn_job_record *record, trn_stream **out, trn_error **error);
  /* Makes away with the output of an attempt, also of one that left it half written. */
  void (*remove)(void *self, const trn_job_record *record);
  void (*destroy)(void *self);
} trn_runner_ops;

/* How an attempt ended: `record` borrowed; read are state, rows, bytes, error_*, metrics, locations. thread: any; may block
 * for the store: not from a completion that must not. */
void trn__job_ended(trn_job *job, const trn_job_record *record);
void trn__job_failed(trn_job *job, trn_status status, const trn_error *error); /* or CANCELLED */
typedef struct trn_job_counts {
  uint32_t stages, stages_done, tasks, tasks_done;
  int64_t rows, bytes;
} trn_job_counts;
void trn__job_progress(trn_job *job, const trn_job_counts *counts);
/* Records what the cluster calls it, before anything is built on it. ABORTED: the job is not ours any more. */
trn_status trn__job_known_as(trn_job *job, const char *backend_id, trn_error **error);
bool trn__job_is_cancelled(trn_job *job);

/* ---- the scheduler ---- */

typedef struct run_queue {
  trn_job *first, **last;
  size_t count;
} run_queue;

struct trn_scheduler {
  atomic_size_t users, refs; /* callers' references; what keeps the memory: one for all users, one per job */
  const trn_runner_ops *runner;
  void *runner_self;
  trn_job_store *store;
  trn_backend *backend;
  const trn_registry *registry;
  char *owner;
  uint64_t lease_ms, poll_ms;
  unsigned running_max, queued_max;
  trn_pool *pool;

  pthread_mutex_t mu;
  pthread_cond_t changed; /* active, stopping; monotonic clock */
  /* guarded by mu */
  trn_map *jobs; /* id -> trn_job; no reference */
  run_queue queue;
  unsigned running;   /* jobs that have a slot */
  size_t active;      /* jobs of ours that have not ended: each has a reference */
  trn_job *followed;  /* list of jobs that somebody watches and others run; a reference each */
  trn_job *unwritten; /* list of ours whose end the store did not take yet */
  trn_vec uncertain;  /* ids (heap) that may or may not have been inserted */
  int64_t leased_until_ns, leased_at_ns;
  bool is_stopping, has_keeper;
  pthread_t keeper;
};

struct trn_job {
  size_t refs; /* guarded by the scheduler's mu */
  trn_scheduler *scheduler;
  char *id;
  trn_job *next_queued, *next_followed, *next_unwritten; /* guarded by the scheduler's mu */
  bool is_queued, is_followed;                           /* likewise */

  /* of the attempt that this process runs; set before it is queued */
  trn_session *session;
  trn_plan *plan;

  pthread_mutex_t mu; /* may be taken while the scheduler's is not, never the other way round */
  pthread_cond_t changed; /* monotonic */
  /* guarded by mu */
  trn_job_copy copy; /* what is known; without the query, but for attempts that need it */
  bool is_ours;      /* active here: `copy` is the truth; else the store is */
  bool has_ended;    /* the runner has reported the end of this attempt */
  bool is_lost;
  bool is_cancelling;
  void *run;
  trn_error *failure;
  trn_job_status *events;
  size_t event_count, event_capacity, attempt_at; /* where the events of this attempt begin */
  trn_job_subscription *subscriptions;
  unsigned watchers; /* subscriptions and waiting callers */
};

trn_scheduler *trn__scheduler_hold(trn_scheduler *s); /* memory only */
void trn__scheduler_let_go(trn_scheduler *s);
/* What all forms have in common. Takes `self` on success; `destroy` of the runner is called at the end. */
trn_status trn__scheduler_create(const trn_scheduler_options *options, trn_backend *backend, const trn_runner_ops *runner,
                                 void *self, trn_scheduler **out, trn_error **error);
/* A lease that is good for a while. Blocks. */
trn_status trn__scheduler_lease(trn_scheduler *s, trn_error **error);
trn_status trn__keeper_start(trn_scheduler *s, trn_error **error);
void trn__keeper_wake(trn_scheduler *s);
void *trn__keeper_run(void *scheduler);

/* ---- jobs ---- */
/* The job of that id that this process knows, with a reference, or NULL. */
trn_job *trn__job_find(trn_scheduler *s, const char *id);
/* One that knows what `record` says; enters it as the id's. Gives `*out`. */
trn_status trn__job_create(trn_scheduler *s, const trn_job_record *record, trn_job **out);
/* What the store has becomes what is known, and an event when it differs. Of jobs that are not ours. */
trn_status trn__job_refresh(trn_job *job, trn_error **error);
/* Opens the session in which a recorded job runs again. */
trn_status trn__job_open_session(trn_scheduler *s, const trn_job_record *record, trn_session **out, trn_error **error);
/* Puts a job of ours into the queue: a reference is taken, `active` grows. RESOURCE_EXHAUSTED: the queue is full. */
void trn__job_enqueue(trn_job *job);
void trn__dispatch(trn_scheduler *s);
/* Tries again to write the end. True: it is written, or not to be. */
bool trn__job_write_end(trn_job *job);
void trn__job_cancel_here(trn_job *job);
/* The attempt is over in this process. locks: none */
void trn__job_settle(trn_job *job);
/* The plan of an attempt: as it was submitted, or decoded. Gives a reference. thread: worker. */
trn_status trn__job_plan(trn_job *job, trn_plan **out, trn_error **error);
void trn__job_copy_query(trn_job *job);

/* ---- events (events.c); locks: job->mu held ---- */
void trn__job_event(trn_job *job);
void trn__status_of(const trn_job *job, trn_job_status *out);
bool trn__job_is_over(const trn_job *job); /* ended or lost */
/* Somebody begins or ends to watch. locks: none */
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
void trn__spool_remove(const char *directory, const char *job_id, uint64_t attempt); /* 0: all attempts */

#endif
