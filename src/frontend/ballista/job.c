/* Jobs by id. A job is queued while its plan is decoded and planned, runs, and is over once: successful, or failed (a
 * cancelled one has failed with "Cancelled", as Ballista says it). Who watches it by a call is told of each step. */
#include "frontend/ballista/ballista.h"

#include <stdio.h>
#include <sys/random.h>

/* ---- life ---- */

ballista_job *ballista__job_ref(ballista_job *job) {
  atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
  return job;
}

void ballista__job_unref(ballista_job *job) {
  if (!job || atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) != 1) return;
  trn_operation_unref(job->operation);
  ballista__result_unref(job->result);
  trn_session_unref(job->session);
  ballista__locations_destroy(job->handed);
  trn_job_subscription_destroy(job->events);
  trn_job_unref(job->stored);
  trn_cancel_unref(job->cancel);
  free(job->metrics);
  free(job->failure);
  free(job->name);
  free(job->user);
  pthread_mutex_destroy(&job->mutex);
  ballista__service_unref(job->service);
  free(job);
}

static bool is_over(const ballista_job *job) {
  return job->state == BALLISTA_FAILED || job->state == BALLISTA_SUCCESSFUL;
}

/* The table has room, if need be by forgetting the oldest job that is over. locks: service->mutex held */
static bool make_room(ballista_service *service, ballista_job **forgotten) {
  const char *key;
  void *value;
  *forgotten = NULL;
  if (trn__map_count(service->jobs) < TRN_BALLISTA_JOBS_MAX) return true;
  for (size_t i = 0; trn__map_next(service->jobs, &i, &key, &value);) {
    ballista_job *job = value;
    pthread_mutex_lock(&job->mutex);
    bool over = is_over(job);
    pthread_mutex_unlock(&job->mutex);
    if (!over) continue;
    *forgotten = trn__map_remove(service->jobs, job->id, TRN_UUID_SIZE - 1);
    return true;
  }
  return false;
}

static trn_status job_insert(ballista_job *job, trn_error **error) {
  ballista_service *service = job->service;
  ballista_job *forgotten = NULL;
  trn_status status = TRN_OK;
  pthread_mutex_lock(&service->mutex);
  bool full = service->active >= TRN_BALLISTA_RUNNING_MAX || !make_room(service, &forgotten);
  if (service->gate.is_closed)
    status = TRN_UNAVAILABLE;
  else if (full || !trn__map_set(service->jobs, job->id, TRN_UUID_SIZE - 1, job, NULL))
    status = TRN_RESOURCE_EXHAUSTED;
  else
    service->active++, job->is_counted = true, ballista__job_ref(job);
  pthread_mutex_unlock(&service->mutex);
  if (forgotten) ballista__job_drop_output(forgotten);
  ballista__job_unref(forgotten);
  if (!status) ballista__need_timer(service);
  if (!status) return TRN_OK;
  return trn_error_set(error, status, NULL,
                       status == TRN_UNAVAILABLE ? "The server is stopping"
                                                 : "The server has too many jobs (limit TRN_BALLISTA_RUNNING_MAX)");
}

ballista_job *ballista__job_new(ballista_service *service, const char *id) {
  ballista_job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  atomic_init(&job->refs, 1);
  pthread_mutex_init(&job->mutex, NULL);
  job->service = ballista__service_ref(service);
  snprintf(job->id, sizeof job->id, "%s", id);
  return job;
}

trn_status ballista__job_create(ballista_rpc *rpc, const char *name, ballista_job **out, trn_error **error) {
  char id[TRN_UUID_SIZE];
  trn__uuid7(id);
  ballista_job *job = ballista__job_new(rpc->service, id);
  *out = NULL;
  if (!job) return trn__no_memory(error);
  size_t size = strnlen(name, TRN_BALLISTA_NAME_BYTES_MAX);
  while (size && (name[size] & 0xC0) == 0x80) size--; /* whole characters */
  job->name = strndup(name, size);
  job->user = strdup(ballista__rpc_user(rpc, &job->is_authenticated));
  job->queued_ms = (uint64_t)trn__wall_ms();
  bool is_random = getrandom(&job->secret, sizeof job->secret, 0) == (ssize_t)sizeof job->secret;
  if (rpc->service->scheduler) ballista__stored_prepare(job);
  trn_status status = job->name && job->user && !trn_cancel_create(&job->cancel) ? TRN_OK : trn__no_memory(error);
  if (!status && !is_random) status = trn_error_set(error, TRN_INTERNAL, NULL, "The system gives no random numbers");
  if (!status) status = job_insert(job, error);
  if (status) {
    ballista__job_unref(job);
    return status;
  }
  *out = job;
  return TRN_OK;
}

trn_status ballista__job_get(ballista_service *service, const char *id, ballista_job **out, trn_error **error) {
  pthread_mutex_lock(&service->mutex);
  ballista_job *job = trn__map_get(service->jobs, id, strlen(id));
  *out = job ? ballista__job_ref(job) : NULL;
  pthread_mutex_unlock(&service->mutex);
  return *out || !service->scheduler ? TRN_OK : ballista__stored_find(service, id, out, error);
}

trn_status ballista__job_find(ballista_service *service, const char *id, const char *user, bool is_authenticated,
                              ballista_job **out, trn_error **error) {
  trn_status status = ballista__job_get(service, id, out, error);
  ballista_job *job = *out;
  if (!job || !job->is_authenticated || (is_authenticated && strcmp(job->user, user) == 0)) return status;
  ballista__job_unref(job);
  *out = NULL;
  return status;
}

/* It holds nothing any more that many of them could not. locks: none */
static void uncount(ballista_job *job) {
  ballista_service *service = job->service;
  pthread_mutex_lock(&service->mutex);
  if (job->is_counted) service->active--;
  job->is_counted = false;
  pthread_mutex_unlock(&service->mutex);
}

/* ---- telling who watches ---- */

static void send_status(ballista_job *job, ballista_rpc *rpc, bool is_last) {
  Ballista__Protobuf__GetJobStatusResult *message;
  trn_arena *arena = trn__arena_create(0);
  trn_error *error = NULL;
  trn_status status = arena ? ballista__status_of(arena, job, &message) : trn__no_memory(&error);
  if (!status) status = ballista__rpc_send(rpc, &message->base, &error);
  if (status)
    ballista__rpc_fail(rpc, status, error);
  else if (is_last)
    ballista__rpc_finish(rpc);
  trn_error_unref(error);
  trn__arena_unref(arena);
}

/* The call lets go of the job it watches. */
static void rpc_detach(ballista_rpc *rpc) {
  pthread_mutex_lock(&rpc->mutex);
  ballista_job *job = rpc->job;
  rpc->job = NULL;
  rpc->is_untold = false;
  pthread_mutex_unlock(&rpc->mutex);
  ballista__job_unref(job);
}

void ballista__job_hold(ballista_job *job, ballista_rpc *rpc) {
  pthread_mutex_lock(&rpc->mutex);
  bool gone = rpc->gone;
  if (!gone) {
    rpc->job = ballista__job_ref(job);
    rpc->is_untold = true;
  }
  pthread_mutex_unlock(&rpc->mutex);
  if (gone) ballista__job_cancel(job);
}

void ballista__job_let_go(ballista_rpc *rpc) {
  rpc_detach(rpc);
}

/* The job has taken a step. locks: none */
static void tell(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  ballista_rpc *rpc = job->watcher;
  bool over = is_over(job);
  if (rpc) ballista__rpc_ref(rpc);
  if (over) job->watcher = NULL;
  pthread_mutex_unlock(&job->mutex);
  if (!rpc) return;
  send_status(job, rpc, over);
  if (over) {
    rpc_detach(rpc);
    ballista__rpc_unref(rpc); /* the job's */
  }
  ballista__rpc_unref(rpc);
}

void ballista__job_watch(ballista_job *job, ballista_rpc *rpc) {
  pthread_mutex_lock(&rpc->mutex);
  bool gone = rpc->gone;
  if (!gone) rpc->job = ballista__job_ref(job);
  pthread_mutex_unlock(&rpc->mutex);
  if (gone) ballista__job_abandon(job);
  pthread_mutex_lock(&job->mutex);
  job->watcher = ballista__rpc_ref(rpc);
  pthread_mutex_unlock(&job->mutex);
  tell(job);
}

void ballista__job_unwatch(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  ballista_rpc *rpc = job->watcher;
  job->watcher = NULL;
  pthread_mutex_unlock(&job->mutex);
  if (!rpc) return;
  rpc_detach(rpc);
  ballista__rpc_unref(rpc);
}

/* ---- steps ---- */

trn_status ballista__job_run(ballista_job *job, trn_session *session, trn_operation *operation,
                             ballista_result *result) {
  pthread_mutex_lock(&job->mutex);
  bool runs = job->state == BALLISTA_QUEUED;
  if (runs) {
    job->state = BALLISTA_RUNNING;
    job->started_ms = (uint64_t)trn__wall_ms();
    job->operation = operation;
    job->session = trn_session_ref(session);
    job->result = result;
    ballista__result_ref(result);
  }
  pthread_mutex_unlock(&job->mutex);
  if (!runs) {
    ballista__result_cancel(result);
    if (operation) trn_operation_cancel(operation);
    trn_operation_unref(operation);
    ballista__result_unref(result);
    return TRN_CANCELLED;
  }
  tell(job);
  ballista__result_start(result, job);
  ballista__result_unref(result);
  return TRN_OK;
}

trn_status ballista__job_run_handed(ballista_job *job, trn_session *session, trn_operation *operation) {
  pthread_mutex_lock(&job->mutex);
  bool runs = job->state == BALLISTA_QUEUED;
  if (runs) {
    job->state = BALLISTA_RUNNING;
    job->started_ms = (uint64_t)trn__wall_ms();
    job->operation = operation;
    job->session = trn_session_ref(session);
    job->is_handed = true;
  }
  pthread_mutex_unlock(&job->mutex);
  if (!runs) {
    trn_operation_cancel(operation);
    trn_operation_unref(operation);
    return TRN_CANCELLED;
  }
  tell(job);
  ballista__handed_start(job);
  return TRN_OK;
}

void ballista__job_runs(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  bool begins = job->state == BALLISTA_QUEUED;
  if (begins) {
    job->state = BALLISTA_RUNNING;
    job->started_ms = (uint64_t)trn__wall_ms();
  }
  pthread_mutex_unlock(&job->mutex);
  if (begins) tell(job);
}

/* locks: job->mutex held. True: it ends now. */
static bool end(ballista_job *job, ballista_state state) {
  if (is_over(job)) return false;
  job->state = state;
  job->ended_ms = (uint64_t)trn__wall_ms();
  if (!job->started_ms) job->started_ms = job->ended_ms;
  int64_t now = trn__now_ns();
  job->result_expires_ns = now + (int64_t)job->service->result_ms * 1000000;
  job->expires_ns = now + (int64_t)job->service->job_ms * 1000000;
  return true;
}

void ballista__job_succeed(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  bool ends = end(job, BALLISTA_SUCCESSFUL), is_elsewhere = job->is_handed || job->stored;
  pthread_mutex_unlock(&job->mutex);
  if (is_elsewhere) uncount(job); /* its rows are */
  if (ends) tell(job);
}

/* Takes the operation out. locks: none */
static void operation_end(ballista_job *job, bool is_cancelled) {
  pthread_mutex_lock(&job->mutex);
  trn_operation *operation = job->operation;
  trn_session *session = job->session;
  job->operation = NULL;
  job->session = NULL;
  pthread_mutex_unlock(&job->mutex);
  if (operation && is_cancelled) trn_operation_cancel(operation);
  trn_operation_unref(operation);
  trn_session_unref(session);
  uncount(job);
}

/* Metrics outlive the operation, which goes only once they are there. thread: worker */
static void keep_metrics(ballista_job *job) {
  char *metrics = NULL, *text = NULL;
  pthread_mutex_lock(&job->mutex);
  trn_operation *operation = job->operation ? trn_operation_ref(job->operation) : NULL;
  pthread_mutex_unlock(&job->mutex);
  if (operation && trn_operation_metrics(operation, &text) == TRN_OK && text &&
      strnlen(text, TRN_BALLISTA_METRICS_BYTES_MAX + 1) <= TRN_BALLISTA_METRICS_BYTES_MAX)
    metrics = strdup(text);
  trn_free(text);
  pthread_mutex_lock(&job->mutex);
  char *old = metrics ? job->metrics : NULL;
  if (metrics) job->metrics = metrics;
  pthread_mutex_unlock(&job->mutex);
  free(old);
  trn_operation_unref(operation);
}

/* thread: worker. Takes a reference. */
static void end_run(void *argument) {
  ballista_job *job = argument;
  ballista_service *service = ballista__service_ref(job->service);
  keep_metrics(job);
  operation_end(job, false);
  ballista__job_unref(job);
  trn__gate_leave(&service->gate);
  ballista__service_unref(service);
}

void ballista__job_done(ballista_job *job) {
  ballista_service *service = job->service;
  pthread_mutex_lock(&job->mutex);
  job->is_made = true;
  pthread_mutex_unlock(&job->mutex);
  uncount(job);
  bool entered = trn__gate_enter(&service->gate);
  if (entered && trn__pool_submit(service->pool, end_run, ballista__job_ref(job)) == TRN_OK) return;
  operation_end(job, false); /* without metrics, then */
  if (!entered) return;
  trn__gate_leave(&service->gate);
  ballista__job_unref(job);
}

void ballista__job_fail(ballista_job *job, trn_status status, const trn_error *error) {
  char *text = status == TRN_CANCELLED ? strdup("Cancelled") : ballista__error_text(status, error);
  pthread_mutex_lock(&job->mutex);
  bool ends = end(job, BALLISTA_FAILED);
  /* One whose rows are made as they are fetched was successful until now. */
  bool turns = !ends && job->state == BALLISTA_SUCCESSFUL && job->operation && !job->is_made;
  if (turns) job->state = BALLISTA_FAILED;
  if (ends || turns) {
    job->failure = text;
    text = NULL;
  }
  pthread_mutex_unlock(&job->mutex);
  free(text);
  operation_end(job, true);
  if (ends) tell(job);
}

/* `with_rows`: also one that is successful, but has rows still to be made. */
static bool cancel(ballista_job *job, bool with_rows) {
  pthread_mutex_lock(&job->mutex);
  bool runs = !is_over(job) || (with_rows && job->operation && !job->is_handed && !job->is_made);
  ballista_result *result = runs && job->result ? ballista__result_ref(job->result) : NULL;
  trn_operation *operation = runs && job->operation ? trn_operation_ref(job->operation) : NULL;
  pthread_mutex_unlock(&job->mutex);
  if (!runs) return false;
  trn_cancel_request(job->cancel);
  ballista__job_fail(job, TRN_CANCELLED, NULL);
  if (result) ballista__result_cancel(result);
  if (operation) trn_operation_cancel(operation);
  ballista__result_unref(result);
  trn_operation_unref(operation);
  return true;
}

bool ballista__job_cancel(ballista_job *job) {
  return cancel(job, true);
}

void ballista__job_abandon(ballista_job *job) {
  if (!job->service->runs_on) cancel(job, false);
}

void ballista__job_drop_output(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  ballista_result *result = job->result;
  job->result = NULL;
  ballista_locations *handed = job->handed;
  job->handed = NULL;
  char *metrics = job->metrics;
  job->metrics = NULL;
  pthread_mutex_unlock(&job->mutex);
  free(metrics);
  if (handed) operation_end(job, true); /* its output goes with it */
  ballista__locations_destroy(handed);
  if (!result) return;
  ballista__result_cancel(result);
  ballista__result_unref(result);
}

void ballista__job_forget(ballista_job *job) {
  ballista_service *service = job->service;
  pthread_mutex_lock(&service->mutex);
  ballista_job *taken = trn__map_remove(service->jobs, job->id, TRN_UUID_SIZE - 1);
  pthread_mutex_unlock(&service->mutex);
  ballista__job_unref(taken);
}

/* ---- expiry ---- */

enum { WHICH_FETCHED, WHICH_EXPIRED, WHICH_ALL };

static bool is_wanted(ballista_job *job, int which, int64_t now_ns, bool *forget) {
  pthread_mutex_lock(&job->mutex);
  bool over = is_over(job), wanted = which == WHICH_ALL;
  *forget = which == WHICH_ALL || (which == WHICH_EXPIRED && over && !job->fetching && job->expires_ns <= now_ns);
  if (which == WHICH_FETCHED) wanted = over && job->is_fetched && job->result && !job->fetching;
  if (which == WHICH_EXPIRED)
    wanted = *forget || (over && (job->result || job->handed) && !job->fetching && job->result_expires_ns <= now_ns);
  pthread_mutex_unlock(&job->mutex);
  return wanted;
}

/* What only this process knows ends with it; what a scheduler keeps is its scheduler's. */
static void end_with_service(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  bool is_stored = job->stored != NULL;
  pthread_mutex_unlock(&job->mutex);
  if (is_stored)
    ballista__stored_let_go(job);
  else
    ballista__job_cancel(job);
}

/* Drops the output of those that are meant, and the jobs themselves where it says so; no lock is held while they go. */
static void drop(ballista_service *service, int which, int64_t now_ns) {
  trn_vec outputs = {0}, forgotten = {0};
  const char *key;
  void *value;
  bool forget;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; trn__map_next(service->jobs, &i, &key, &value);)
    if (is_wanted(value, which, now_ns, &forget) && trn__vec_push(forget ? &forgotten : &outputs, value))
      ballista__job_ref(value);
  for (size_t i = 0; i < forgotten.count; i++) {
    ballista_job *job = forgotten.items[i];
    ballista__job_unref(trn__map_remove(service->jobs, job->id, TRN_UUID_SIZE - 1)); /* not the last reference */
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < forgotten.count; i++) {
    if (which == WHICH_ALL) end_with_service(forgotten.items[i]);
    ballista__job_drop_output(forgotten.items[i]);
    ballista__job_unref(forgotten.items[i]);
  }
  for (size_t i = 0; i < outputs.count; i++) {
    ballista__job_drop_output(outputs.items[i]);
    ballista__job_unref(outputs.items[i]);
  }
  trn__vec_finish(&outputs);
  trn__vec_finish(&forgotten);
}

void ballista__sweep_jobs(ballista_service *service, int64_t now_ns) {
  drop(service, now_ns ? WHICH_EXPIRED : WHICH_ALL, now_ns);
}

void ballista__drop_fetched(ballista_service *service) {
  drop(service, WHICH_FETCHED, 0);
}
