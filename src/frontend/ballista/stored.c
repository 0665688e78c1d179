/* Jobs that a scheduler keeps (scheduler.h): recorded before they run, their outputs in files, so that another process
 * can be asked for them and fetched from. Of those that were submitted here, events say what becomes of them; of
 * others, the store does. */
#include "core/blake2b.h"
#include "frontend/ballista/ballista.h"

#define LOST_TEXT "The job was lost: the server that ran it is gone"

/* ---- tickets ---- */

void ballista__stored_key(ballista_service *service, const void *key, size_t size) {
  trn_blake2b hash;
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, key, size);
  trn__blake2b_end(&hash, service->ticket_key);
}

/* The same in every process that has the key, and no guess for anybody else: BLAKE2b may be keyed by what comes first.
 */
static uint64_t secret_of(const ballista_service *service, const char *id) {
  trn_blake2b hash;
  uint8_t digest[16];
  uint64_t secret;
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, service->ticket_key, sizeof service->ticket_key);
  trn__blake2b_add(&hash, id, strlen(id));
  trn__blake2b_end(&hash, digest);
  memcpy(&secret, digest, sizeof secret);
  return secret;
}

/* ---- jobs of this process: events ---- */

static bool next_event(ballista_job *job);

static void destroy_events(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  trn_job_subscription *events = job->events;
  job->events = NULL;
  pthread_mutex_unlock(&job->mutex);
  trn_job_subscription_destroy(events);
}

/* Nobody here says any more what becomes of it; the store does. */
static void leave_to_store(ballista_job *job, const trn_error *error) {
  ballista__job_fail(job, trn_error_status(error), error);
  ballista__job_forget(job);
}

static void take_event(ballista_job *job, const trn_job_status *status, const trn_error *failure) {
  trn_error *error = NULL;
  switch (status->state) {
  case TRN_JOB_QUEUED: return;
  case TRN_JOB_RUNNING: ballista__job_runs(job); return;
  case TRN_JOB_SUCCEEDED:
    pthread_mutex_lock(&job->mutex);
    job->rows = status->rows;
    job->bytes = status->bytes;
    pthread_mutex_unlock(&job->mutex);
    ballista__job_succeed(job);
    return;
  case TRN_JOB_CANCELLED: ballista__job_fail(job, TRN_CANCELLED, NULL); return;
  case TRN_JOB_FAILED: ballista__job_fail(job, failure ? trn_error_status(failure) : TRN_INTERNAL, failure); return;
  case TRN_JOB_LOST: break;
  }
  trn_error_set(&error, TRN_UNAVAILABLE, NULL, "%s", LOST_TEXT);
  leave_to_store(job, error);
  trn_error_unref(error);
}

/* `user`: one reference. thread: the scheduler's; does not block */
static void on_event(void *user, trn_status result, const trn_job_status *status, const trn_error *failure) {
  ballista_job *job = user;
  if (!result && status) take_event(job, status, failure);
  bool goes_on = !result && status && status->state <= TRN_JOB_RUNNING;
  if (!goes_on || !next_event(job)) ballista__job_unref(job);
}

/* Moves the caller's reference to the job into the event that comes. False: none comes. */
static bool next_event(ballista_job *job) {
  trn_error *error = NULL;
  pthread_mutex_lock(&job->mutex);
  trn_job_subscription *events = job->is_let_go ? NULL : job->events;
  job->is_asking = events != NULL;
  if (events) atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed); /* the event may come, and go, first */
  pthread_mutex_unlock(&job->mutex);
  if (!events) return false;
  trn_status status = trn_job_subscription_next(events, on_event, job, &error);
  pthread_mutex_lock(&job->mutex);
  job->is_asking = false;
  bool is_let_go = job->is_let_go;
  pthread_mutex_unlock(&job->mutex);
  if (status) leave_to_store(job, error);
  if (is_let_go) destroy_events(job);
  trn_error_unref(error);
  ballista__job_unref(job);
  return !status;
}

void ballista__stored_let_go(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  job->is_let_go = true;
  bool is_asking = job->is_asking; /* then whoever asks sees it */
  pthread_mutex_unlock(&job->mutex);
  if (!is_asking) destroy_events(job);
}

trn_status ballista__stored_submit(ballista_job *job, trn_session *session, trn_plan *plan, const trn_plan_input *input,
                                   trn_error **error) {
  trn_plan_input recorded = *input;
  trn_job *stored = NULL;
  trn_job_subscription *events = NULL;
  recorded.resolve = NULL; /* when it runs again, its tables are those of its session then */
  recorded.resolve_user = NULL;
  recorded.cancel = NULL;
  const trn_submit_request request = {.struct_size = sizeof request,
                                      .requested_job_id = job->id,
                                      .name = *job->name ? job->name : NULL,
                                      .session = session,
                                      .plan = plan,
                                      .input = &recorded};
  trn_status status = trn_scheduler_submit(job->service->scheduler, &request, &stored, error);
  if (status) return status;
  status = trn_job_subscribe(stored, &events, error);
  pthread_mutex_lock(&job->mutex);
  bool runs = !status && job->state == BALLISTA_QUEUED;
  job->stored = stored;
  job->events = events;
  pthread_mutex_unlock(&job->mutex);
  if (!runs) {
    (void)trn_job_cancel(stored, NULL);
    return status ? status : TRN_CANCELLED;
  }
  ballista__job_ref(job);
  if (!next_event(job)) ballista__job_unref(job);
  return TRN_OK;
}

/* ---- jobs that the store knows ---- */

/* What a record says, taken while it is there. */
typedef struct reading {
  ballista_job *job;
  trn_job_state state;
  bool failed;
} reading;

static char *failure_of(const trn_job_record *r) {
  if (r->state == TRN_JOB_LOST) return strdup(LOST_TEXT);
  if (r->state == TRN_JOB_CANCELLED) return strdup("Cancelled");
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = r->error_status,
                               .condition = r->error_condition,
                               .message = r->error_message ? r->error_message : ""};
  trn_error *error = trn_error_create(&spec);
  char *text = ballista__error_text(r->error_status, error);
  trn_error_unref(error);
  return text;
}

static bool read_record(void *user, const trn_job_record *r) {
  reading *to = user;
  ballista_job *job = to->job;
  static const ballista_state states[] = {
      [TRN_JOB_QUEUED] = BALLISTA_QUEUED,        [TRN_JOB_RUNNING] = BALLISTA_RUNNING,
      [TRN_JOB_SUCCEEDED] = BALLISTA_SUCCESSFUL, [TRN_JOB_FAILED] = BALLISTA_FAILED,
      [TRN_JOB_CANCELLED] = BALLISTA_FAILED,     [TRN_JOB_LOST] = BALLISTA_FAILED};
  free(job->name), free(job->user), free(job->failure);
  job->name = strdup(strcmp(r->name, r->id) == 0 ? "" : r->name); /* one that has none is called by its id */
  job->user = strdup(r->user);
  job->is_authenticated = r->is_authenticated;
  job->state = states[r->state];
  job->queued_ms = (uint64_t)r->submitted_ms;
  job->started_ms = (uint64_t)r->started_ms;
  job->ended_ms = (uint64_t)r->ended_ms;
  job->rows = r->rows;
  job->bytes = r->bytes;
  job->failure = job->state == BALLISTA_FAILED ? failure_of(r) : NULL;
  to->state = r->state;
  to->failed = !job->name || !job->user || (job->state == BALLISTA_FAILED && !job->failure);
  return false;
}

static trn_status read_stored(ballista_job *job, trn_job_state *state, trn_error **error) {
  reading to = {.job = job};
  trn_status status = trn_job_read(job->stored, read_record, &to, error);
  *state = to.state;
  return !status && to.failed ? trn__no_memory(error) : status;
}

void ballista__stored_run_again(ballista_job *job) {
  const trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  trn_job_state state;
  trn_job *again = NULL;
  if (!job->is_lost || !job->service->resubmits) return;
  if (trn_scheduler_recover(job->service->scheduler, job->id, &resubmit, &again, NULL)) return;
  trn_job_unref(job->stored);
  job->stored = again;
  (void)read_stored(job, &state, NULL);
}

trn_status ballista__stored_find(ballista_service *service, const char *id, ballista_job **out, trn_error **error) {
  trn_error *own = NULL;
  trn_job *stored = NULL;
  trn_job_state state = TRN_JOB_QUEUED;
  *out = NULL;
  if (strlen(id) != TRN_UUID_SIZE - 1) return TRN_OK; /* none that clients of this protocol were told of */
  trn_status status = trn_scheduler_job(service->scheduler, id, &stored, &own);
  if (status == TRN_NOT_FOUND) {
    trn_error_unref(own);
    return TRN_OK;
  }
  if (status) {
    if (error)
      *error = own;
    else
      trn_error_unref(own);
    return status;
  }
  ballista_job *job = ballista__job_new(service, id);
  if (!job) {
    trn_job_unref(stored);
    return trn__no_memory(error);
  }
  job->stored = stored;
  job->secret = secret_of(service, id);
  status = read_stored(job, &state, error);
  job->is_lost = state == TRN_JOB_LOST;
  if (status)
    ballista__job_unref(job);
  else
    *out = job;
  return status;
}

void ballista__stored_prepare(ballista_job *job) {
  job->secret = secret_of(job->service, job->id);
}

trn_status ballista__stored_cancel(ballista_job *job, bool *is_cancelled, trn_error **error) {
  trn_job_status now = {.struct_size = sizeof now};
  trn_status status = trn_job_get_status(job->stored, &now, NULL, error);
  *is_cancelled = false;
  if (status || (now.state > TRN_JOB_RUNNING && now.state != TRN_JOB_LOST)) return status;
  status = trn_job_cancel(job->stored, error);
  *is_cancelled = !status;
  return status;
}
