/* Results that stay where a cluster left them: the client is told the executors' places and fetches from there, so that
 * no row comes through this server. The operation lives as long as the output may be fetched: its end has the cluster
 * clean up. */
#include "frontend/ballista/ballista.h"

enum { HANDED_POLL_MS = 5, HANDED_POLL_MS_MAX = 100 };

void ballista__locations_destroy(ballista_locations *locations) {
  if (!locations) return;
  trn__vec_finish(&locations->items);
  trn__arena_unref(locations->arena);
  free(locations);
}

static void collect(void *user, const trn_result_location *given) {
  ballista_locations *all = user;
  trn_result_location *copy = all->failed ? NULL : TRN_NEW(all->arena, trn_result_location);
  if (copy) {
    *copy = *given;
    copy->job_id = trn__arena_strdup(all->arena, given->job_id);
    copy->executor_id = trn__arena_strdup(all->arena, given->executor_id);
    copy->host = trn__arena_strdup(all->arena, given->host);
  }
  if (!copy || !copy->job_id || !copy->executor_id || !copy->host || !trn__vec_push(&all->items, copy))
    all->failed = true;
}

static trn_status ask(trn_operation *operation, ballista_locations **out, trn_error **error) {
  ballista_locations *all = calloc(1, sizeof *all);
  if (all) all->arena = trn__arena_create(0);
  trn_status status =
      all && all->arena ? trn_operation_locations(operation, collect, all, error) : trn__no_memory(error);
  if (!status && all->failed) status = trn__no_memory(error);
  if (!status) {
    *out = all;
    return TRN_OK;
  }
  ballista__locations_destroy(all);
  return status;
}

/* It cannot be fetched there after all: its rows come through here. */
static trn_status make_result(ballista_job *job, trn_operation *operation, trn_error **error) {
  trn_stream *stream = NULL;
  ballista_result *result = NULL;
  trn_status status = trn_operation_result_stream(operation, &stream, error);
  if (!status) status = ballista__result_create(job->service, stream, &result, error);
  if (status) return status;
  pthread_mutex_lock(&job->mutex);
  bool runs = job->state == BALLISTA_RUNNING;
  if (runs) job->result = ballista__result_ref(result), job->is_handed = false;
  pthread_mutex_unlock(&job->mutex);
  if (runs)
    ballista__result_start(result, job);
  else
    ballista__result_cancel(result);
  ballista__result_unref(result);
  return TRN_OK;
}

typedef struct poll {
  ballista_job *job; /* one reference */
  unsigned delay_ms;
} poll;

/* thread: worker */
static void poll_run(void *argument) {
  poll *p = argument;
  ballista_job *job = p->job;
  ballista_locations *found = NULL;
  trn_error *error = NULL;
  pthread_mutex_lock(&job->mutex);
  bool runs = job->state == BALLISTA_RUNNING;
  trn_operation *operation = runs && job->operation ? trn_operation_ref(job->operation) : NULL;
  pthread_mutex_unlock(&job->mutex);
  trn_status status = operation ? ask(operation, &found, &error) : TRN_CANCELLED;
  if (operation && status == TRN_FAILED_PRECONDITION) {
    unsigned next = p->delay_ms + p->delay_ms / 2;
    p->delay_ms = next < HANDED_POLL_MS_MAX ? next : HANDED_POLL_MS_MAX;
    if (trn__pool_submit_after(job->service->control, p->delay_ms, poll_run, p) == TRN_OK) p = NULL;
    status = p ? TRN_RESOURCE_EXHAUSTED : TRN_OK;
  } else if (operation && status == TRN_UNIMPLEMENTED) {
    trn_error_unref(error);
    error = NULL;
    status = make_result(job, operation, &error);
  } else if (operation && !status) {
    pthread_mutex_lock(&job->mutex);
    bool kept = job->state == BALLISTA_RUNNING;
    if (kept) job->handed = found;
    pthread_mutex_unlock(&job->mutex);
    if (kept) found = NULL;
    ballista__job_succeed(job);
  }
  if (operation && status) ballista__job_fail(job, status, error);
  ballista__locations_destroy(found);
  trn_error_unref(error);
  trn_operation_unref(operation);
  if (!p) return;
  free(p);
  ballista__job_unref(job);
}

void ballista__handed_start(ballista_job *job) {
  poll *p = calloc(1, sizeof *p);
  if (p) {
    p->job = ballista__job_ref(job);
    p->delay_ms = HANDED_POLL_MS;
    if (trn__pool_submit(job->service->control, poll_run, p) == TRN_OK) return;
    ballista__job_unref(job);
    free(p);
  }
  ballista__job_fail(job, TRN_RESOURCE_EXHAUSTED, NULL);
}
