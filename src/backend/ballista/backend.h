/* What the files of the Ballista backend share. */
#ifndef TRN_BACKEND_BALLISTA_BACKEND_H
#define TRN_BACKEND_BALLISTA_BACKEND_H
#include "arrow/arrow_util.h"
#include "backend/ballista/rpc.h"
#include "core/core.h"
#include "plan/plan.h"

#include <pthread.h>
#include <trunnion/ballista.h>
#include <trunnion/layer.h>

typedef struct trn_ballista_spool trn_ballista_spool;

typedef struct trn_ballista {
  atomic_size_t refs; /* the layer's, and one of each run */
  trn_ballista_client *client;
  trn_arena *arena; /* what the options said */
  trn_ballista_options options;
  trn_pool *pool;            /* hands out results */
  trn_ballista_spool *spool; /* NULL: none */
  atomic_bool is_closing;
  atomic_uint following;   /* jobs that are not over */
  atomic_bool names_are_ids; /* the scheduler takes a job's name for its id (trunnion-ballista): statuses are pushed */
  atomic_int functions;     /* trn_ballista_functions: what the cluster has, as far as it is known */
  _Atomic int64_t asked_ns; /* when that was found out */
} trn_ballista;
void trn__ballista_unref(trn_ballista *b);

/* ---- one query on the cluster (job.c) ---- */

/* A result message that waits. */
typedef struct trn_ballista_item {
  struct trn_ballista_item *next;
  trn_ballista_message message;
} trn_ballista_item;

/* A partition that is being fetched. Guarded by the run's mutex. */
typedef struct trn_ballista_slot {
  struct trn_ballista_run *run;
  trn_ballista_fetch *fetch; /* set by whoever opened it */
  trn_ballista_item *first, **last;
  size_t bytes; /* that wait */
  int64_t rows; /* that came */
  bool is_asked, has_schema, is_done;
  trn_status status;
  trn_error *error;
} trn_ballista_slot;

/* Shared by the operation, its stream, the polls and the fetches. */
typedef struct trn_ballista_run {
  atomic_size_t refs;
  trn_ballista *backend;
  trn_plan *plan; /* keeps what the job reads */
  struct ArrowSchema schema;
  trn_strbuf schema_ipc;
  _Atomic(char *) job_id; /* `asked_id` or `told_id`; NULL: not known yet */
  char *asked_id;         /* the one that was chosen, of a job that is pushed: another's, until a status has it */
  char *told_id;          /* the scheduler's; never changes once it is there */
  int64_t submitted_ns;
  atomic_int state; /* trn_operation_state */
  atomic_bool is_read;

  pthread_mutex_t mu;
  /* guarded by mu */
  trn_status status; /* why there is no (more) result */
  trn_error *error;
  trn_ballista_job *job; /* of a successful one */
  bool is_cancelled, is_final, is_seen, is_cleaned;
  bool is_polled; /* its status is asked for, too */
  trn_ballista_push *push; /* NULL: it is only asked for */
  bool is_held; /* nothing is fetched before a stream is asked for */
  unsigned poll_ms, misses;
  struct trn_ballista_waiting *taking; /* who waits for a pushed job to be taken; touched by the push only */
  trn_ballista_slot *slots; /* one for each location */
  size_t head, opened;      /* the partition that is delivered; how many were opened */
  size_t bytes;             /* that wait, of all slots */
  /* the pull that is outstanding */
  bool has_pull, is_delivering;
  trn_array_done array_done;
  trn_ipc_done ipc_done;
  void *user;
  size_t piece_bytes_max;
  /* touched by the delivery that is on only */
  trn_shared_array *rest; /* rows from rest_at on are still to be sent */
  int64_t rest_at, rest_rows; /* so many of them may fit into a piece; 0: not known */
} trn_ballista_run;

/* Submits `plan` (taken) and waits for the scheduler's answer. `schema`: of the result, NULL: that of request->plan.
 * Gives
 * `*out`. INVALID_ARGUMENT: the scheduler cannot read it. */
trn_status trn__ballista_run_start(trn_ballista *b, const trn_execute_request *request, trn_session *session,
                                   trn_slice plan, const struct ArrowSchema *schema, trn_operation **out,
                                   trn_error **error);
trn_ballista_run *trn__ballista_run_create(trn_ballista *b, const trn_execute_request *request,
                                           const struct ArrowSchema *schema, trn_error **error);
/* An operation that stands for the run: takes a reference, when it is OK. */
trn_status trn__ballista_run_operation(trn_ballista_run *run, const char *id, trn_operation **out);
/* Its status is asked for until it is over, unless that is on already; without an id it fails. locks: none */
void trn__ballista_run_follow(trn_ballista_run *run);
/* The scheduler has told of it. True: it is over. locks: none */
bool trn__ballista_run_told(trn_ballista_run *run, trn_ballista_job *job);
/* It got no operation, for this reason: if there may be a job it is cancelled. locks: none */
void trn__ballista_run_abandon(trn_ballista_run *run, trn_status status);
/* Of the job, as JSON (free). Blocks. */
trn_status trn__ballista_run_metrics(void *run, char **out);
/* The completion of calls whose answer does not matter. */
void trn__ballista_ignored(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply);
trn_ballista_run *trn__ballista_run_ref(trn_ballista_run *run);
void trn__ballista_run_unref(void *run);
void trn__ballista_run_cancel(void *run);
/* The output was read to its end (OK), or nothing will be read any more: deletes it on the cluster. locks: none */
void trn__ballista_run_ended(trn_ballista_run *run, trn_status status);
/* Ends the query with an error, unless it is over. Takes the error. locks: none */
void trn__ballista_run_fail(trn_ballista_run *run, trn_status status, trn_error *error);

/* The settings of one job; keys and values are the list's own. */
typedef struct trn_ballista_settings {
  trn_kv *items;
  size_t count, capacity;
  bool failed;
} trn_ballista_settings;
/* The safe ones, those of the configuration, those of the session, the job's name; a later one counts. To be finished
 * also after a failure. */
trn_status trn__ballista_settings_collect(const trn_ballista_options *options, trn_session *session, const char *name,
                                          trn_ballista_settings *out, trn_error **error);
void trn__ballista_settings_finish(trn_ballista_settings *settings);

/* ---- its output (output.c) ---- */
extern const trn_stream_ops trn__ballista_stream_ops;
/* The job is done: fetching begins. locks: none */
void trn__ballista_output_begin(trn_ballista_run *run);
/* Something changed: a pull that waits is served when it can be. `may_be_here`: on this thread, if need be. False: it
 * can be served, and there is no memory to do so elsewhere. locks: none */
bool trn__ballista_output_wake(trn_ballista_run *run, bool may_be_here);
void trn__ballista_output_finish(trn_ballista_run *run); /* frees what waits; no other reference is left */
/* Ends the fetches; their completions come. locks: none */
void trn__ballista_output_stop(trn_ballista_run *run);

/* ---- messages (message.c) ---- */
/* A message of a partition as it is handed on; takes message.bytes. A piece of more than `bytes_max` bytes (0: any
 * size) is given as `*array` instead, to be cut. */
trn_status trn__ballista_message_piece(trn_ballista_message message, size_t bytes_max, const struct ArrowSchema *schema,
                                       trn_ipc_piece *out, struct ArrowArray *array, trn_error **error);
trn_status trn__ballista_message_array(trn_ballista_message message, const struct ArrowSchema *schema,
                                       struct ArrowArray *out, trn_error **error);
/* Rows of an array as a piece of its own. */
trn_status trn__ballista_rows_piece(const struct ArrowSchema *schema, const struct ArrowArray *rows, trn_ipc_piece *out,
                                    trn_error **error);

/* ---- plans as text (explain.c) ---- */
/* The rows of an EXPLAIN that was submitted as text; waits for them. Gives `*out` (free). UNAVAILABLE: they do not
 * come within the client's time; the job is cancelled then. */
trn_status trn__ballista_explain_schema(struct ArrowSchema *out);
trn_status trn__ballista_explain_read(trn_ballista *b, trn_operation *operation, char **out, trn_error **error);

/* ---- failures of jobs (failure.c) ---- */
/* What a job's text says: errors of our functions carry their condition. Returns the status. */
trn_status trn__ballista_job_error(const char *job_id, const char *text, trn_error **error);

/* ---- what the cluster can run (support.c) ---- */
/* The first function or relation of the plan that is not DataFusion's own: its name; NULL: there is none. */
const char *trn__ballista_own_function(const trn_plan *plan);
/* It reads nothing but a few literal rows: sooner done than sent. */
bool trn__ballista_is_trivial(const trn_plan *plan);
/* It writes files. */
bool trn__ballista_writes(const trn_plan *plan);

/* ---- rows that are too large to travel in a plan (spool.c) ---- */
trn_status trn__ballista_spool_create(const char *directory, trn_ballista_spool **out, trn_error **error);
void trn__ballista_spool_destroy(trn_ballista_spool *spool); /* deletes its files */
/* Writes an IPC stream to a file. Gives `*path` (free). */
trn_status trn__ballista_spool_write(trn_ballista_spool *spool, const void *data, size_t size, char **path,
                                     trn_error **error);
/* The file belongs to a source, and is deleted with it. False: no memory. */
bool trn__ballista_spool_own(trn_ballista_spool *spool, trn_source *source, const char *path);
void trn__ballista_spool_ref(trn_ballista_spool *spool, trn_source *source);
void trn__ballista_spool_unref(trn_ballista_spool *spool, trn_source *source);

#endif
