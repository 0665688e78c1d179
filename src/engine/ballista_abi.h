/* The boundary to libtrunnion_ballista.so (engine/scheduler): Ballista's scheduler in this process. One vtable, got by
 * trn_ballista_get(); loaded on demand and never unloaded (its threads live on). Mechanical: what a job means to a
 * user, and where jobs are kept, is decided behind the hooks.
 *
 * Messages of the package ballista.protobuf cross as their bytes; the comment names the message. All functions may be
 * called from any thread but those of the scheduler itself (so not from a hook), and block until the scheduler
 * answered, which takes no longer than its planning or its queue does. `trn_engine_error` and `trn_engine_bytes` are
 * given (engine_abi.h). */
#ifndef TRN_ENGINE_BALLISTA_ABI_H
#define TRN_ENGINE_BALLISTA_ABI_H
#include "engine/engine_abi.h"

#define TRN_BSCHED_ABI 1
#define TRN_BSCHED_JOB_ID_MAX 128 /* of a job's id: letters, digits, '-', '_' and '.', not first a '.' */

typedef struct trn_bsched_handle trn_bsched_handle;

typedef struct trn_bsched_progress {
  size_t struct_size;
  uint32_t stages, stages_done;
  uint64_t tasks, tasks_done; /* of the stages that are planned so far; stages that wait have theirs when they run */
} trn_bsched_progress;

typedef enum trn_bsched_change {
  TRN_BSCHED_QUEUED = 1,    /* accepted, not planned */
  TRN_BSCHED_RUNNING = 2,   /* planned, or a stage more runs; comes again */
  TRN_BSCHED_SUCCEEDED = 3, /* terminal: each job has exactly one of these three */
  TRN_BSCHED_FAILED = 4,
  TRN_BSCHED_CANCELLED = 5,
  TRN_BSCHED_REMOVED = 6 /* the scheduler forgets it */
} trn_bsched_change;

/* What happened to a job. All is borrowed. */
typedef struct trn_bsched_event {
  size_t struct_size;
  const char *job_id, *job_name;
  int32_t change;     /* trn_bsched_change */
  const void *status; /* JobStatus; of a cancelled job: failed, with the error "Cancelled" */
  size_t status_size;
  trn_bsched_progress progress;
} trn_bsched_event;

/* What a host decides. Called on the scheduler's threads, one call at a time for a job, never with a lock held; may
 * block for as long as writing to a store takes. Each may be NULL. Texts and bytes that are handed in are borrowed. */
typedef struct trn_bsched_hooks {
  size_t struct_size;
  void *user;
  /* The id of a job that was submitted without one (by clients of the port). Writes a NUL-terminated text into `out`. A
   * status other than 0: a UUIDv7 is taken. */
  int32_t (*next_id)(void *user, char *out, size_t room);
  /* Called before anybody can see the new state. A status other than 0 on SUCCEEDED makes the job a failed one (it
   * could not be recorded, so it is not reported), told by another call; on the others it changes nothing. */
  int32_t (*changed)(void *user, const trn_bsched_event *event);
  /* A job that this scheduler does not know: another process's, or one from before a restart. Gives a JobStatus, or
   * TRN_NOT_FOUND. */
  int32_t (*find)(void *user, const char *job_id, trn_engine_bytes *out);
  /* The session that a job's plan is decoded and planned in: called with its settings, answers with more of them, which
   * go over those, through `add` (copies). A status other than 0 refuses the submission. */
  int32_t (*session)(void *user, const trn_kv *settings, size_t count,
                     void (*add)(void *owner, const char *key, const char *value), void *owner);
  /* A table of a submitted logical plan that DataFusion's encoding leaves to others (CustomTableScanNode): its name and
   * bytes as the plan has them. Gives a stream of its rows, which is read to its end at once and travels to executors
   * with the plan's tasks, so it is for small ones. UNIMPLEMENTED: no table of this host's. */
  int32_t (*table)(void *user, const char *name, const void *bytes, size_t size, struct ArrowArrayStream *out);
} trn_bsched_hooks;

typedef struct trn_bsched_options {
  size_t struct_size;
  const char *host; /* where to serve Ballista's protocol; NULL: nowhere, so no executor can register */
  uint16_t port;    /* 0: any free one */
  bool pulls;       /* executors ask for tasks; otherwise the scheduler pushes them */
  bool proxies;     /* results can be fetched from the scheduler's port */
  uint32_t threads; /* 0: cores */
  const char *id;   /* of this scheduler; NULL: a fresh one */
  int64_t data_seconds,
      state_seconds;        /* results and states of finished jobs are kept so long; 0: for ever; < 0: 300, 3600 */
  int64_t executor_seconds; /* an executor that is silent so long is lost; <= 0: 180 */
  const trn_function_library *const *libraries;
  size_t library_count;
  trn_bsched_hooks hooks; /* copied */
} trn_bsched_options;

enum { TRN_BSCHED_LOGICAL = 1, TRN_BSCHED_PHYSICAL = 7 }; /* the numbers of ExecuteQueryParams' members */

typedef struct trn_bsched_submission {
  size_t struct_size;
  int32_t kind;
  const void *plan; /* datafusion.LogicalPlanNode or PhysicalPlanNode, in Ballista's codec */
  size_t plan_size;
  const char *requested_id; /* NULL: a fresh one */
  const char *job_name;     /* NULL: none */
  const char *session_id;   /* NULL: a fresh one */
  const trn_kv *settings;   /* those without a value are left out */
  size_t setting_count;
} trn_bsched_submission;

typedef struct trn_bsched {
  size_t struct_size;
  uint32_t abi;
  const char *version; /* of Ballista */
  /* INVALID_ARGUMENT, UNAVAILABLE (the port). */
  int32_t (*start)(const trn_bsched_options *options, trn_bsched_handle **out, trn_engine_error *error);
  /* Jobs that run are abandoned, without an event; all calls have returned. Waits for hooks that run, at most
   * `wait_ms`. */
  void (*stop)(trn_bsched_handle *scheduler, uint32_t wait_ms);
  /* "host:port", or "" when it serves nowhere; lives as long as the scheduler. */
  const char *(*address)(const trn_bsched_handle *scheduler);
  /* Executors that are registered and alive. */
  int32_t (*executors)(trn_bsched_handle *scheduler, size_t *count, trn_engine_error *error);
  /* Decodes the plan and queues the job. Writes the id, NUL-terminated, into `id_out` (TRN_BSCHED_JOB_ID_MAX + 1).
   * ALREADY_EXISTS: this scheduler (or `find`) knows the requested id; of calls that race exactly one is OK.
   * INVALID_ARGUMENT: the id, or a plan that cannot be decoded. What is wrong with planning comes as a failed job. */
  int32_t (*submit)(trn_bsched_handle *scheduler, const trn_bsched_submission *submission, char *id_out,
                    trn_engine_error *error);
  /* GetJobStatusResult. NOT_FOUND: neither this scheduler nor `find` knows it. */
  int32_t (*status)(trn_bsched_handle *scheduler, const char *job_id, trn_engine_bytes *out, trn_engine_error *error);
  /* Of a job that runs, or has run here. NOT_FOUND. Set out->struct_size. */
  int32_t (*progress)(trn_bsched_handle *scheduler, const char *job_id, trn_bsched_progress *out,
                      trn_engine_error *error);
  /* GetJobMetricsResult, of the stages that are done. NOT_FOUND. */
  int32_t (*metrics)(trn_bsched_handle *scheduler, const char *job_id, trn_engine_bytes *out, trn_engine_error *error);
  /* Safe for every job: a finished one keeps its output and its state; one that is being planned is cancelled as soon
   * as it is planned. After OK the job ends as CANCELLED or was finished before. NOT_FOUND. */
  int32_t (*cancel)(trn_bsched_handle *scheduler, const char *job_id, trn_engine_error *error);
  /* A finished job's output is no longer wanted: executors delete its files. FAILED_PRECONDITION: it is not finished.
   */
  int32_t (*release)(trn_bsched_handle *scheduler, const char *job_id, trn_engine_error *error);
  /* All jobs that this scheduler knows: message { repeated JobStatus jobs = 1; }. Successful ones without their
   * locations. */
  int32_t (*list)(trn_bsched_handle *scheduler, trn_engine_bytes *out, trn_engine_error *error);
} trn_bsched;

#define TRN_BSCHED_LIBRARY "libtrunnion_ballista.so"
/* NULL: another ABI is wanted. */
typedef const trn_bsched *(*trn_bsched_get_fn)(uint32_t abi);

/* Loads the library: `path`, or beside the program, or wherever the loader looks. NOT_FOUND, FAILED_PRECONDITION. */
trn_status trn__bsched_load(const char *path, const trn_bsched **out, trn_error **error);
#endif
