/* An attempt of a job in this process: from the queue to the end that the store has. Each step is written before
 * anybody is told of it. */
#include "scheduler/scheduler.h"

/* ---- the queue ---- */

/* locks: s->mu held */
static void push_queued(trn_scheduler *s, trn_job *job) {
  job->is_queued = true;
  job->next_queued = NULL;
  *(s->last_queued ? &s->last_queued->next_queued : &s->first_queued) = job;
  s->last_queued = job;
}

/* Takes it out, and gives it a slot. locks: s->mu held. False: it is not there. */
static bool take_queued(trn_scheduler *s, trn_job *job) {
  if (!job->is_queued) return false;
  trn_job *before = NULL;
  for (trn_job *at = s->first_queued; at != job; at = at->next_queued) before = at;
  *(before ? &before->next_queued : &s->first_queued) = job->next_queued;
  if (s->last_queued == job) s->last_queued = before;
  job->is_queued = false;
  s->running++;
  return true;
}

static void run_attempt(void *argument);

void trn__dispatch(trn_scheduler *s) {
  bool more = true;
  while (more) {
    pthread_mutex_lock(&s->mu);
    trn_job *job = !s->is_stopping && s->running < s->running_max ? s->first_queued : NULL;
    /* Without a thread it stays where it is: the keeper asks again. */
    more = job && !trn__pool_submit(s->pool, run_attempt, job);
    if (more) take_queued(s, job);
    pthread_mutex_unlock(&s->mu);
  }
}

void trn__job_begin(trn_job *job, trn_job_copy *copy, trn_session *session, trn_plan *plan, bool is_attached) {
  trn_scheduler *s = job->scheduler;
  job->session = session;
  job->plan = plan;
  job->is_attached = is_attached;
  pthread_mutex_lock(&job->mu);
  trn__job_copy_finish(&job->copy);
  trn__job_copy_finish(&job->end);
  job->copy = *copy;
  *copy = (trn_job_copy){0};
  trn_error_unref(job->failure);
  job->failure = NULL;
  job->is_ours = true;
  job->is_lost = job->is_gone = job->is_abandoned = job->has_ended = job->is_dirty = job->is_unwritten = false;
  job->is_starting = true;
  job->is_cancelling = job->copy.record.is_cancelled;
  trn__job_event(job);
  pthread_mutex_unlock(&job->mu);
  pthread_mutex_lock(&s->mu);
  job->refs++;
  s->active++;
  job->is_stopped = false;
  job->next_active = s->active_jobs;
  job->previous_active = NULL;
  if (s->active_jobs) s->active_jobs->previous_active = job;
  s->active_jobs = job;
  push_queued(s, job);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mu);
  trn__dispatch(s);
}

/* ---- the end ---- */

/* Calls into the run are over when this returns. Gives it, once. */
static void *take_run(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  job->has_ended = true;
  while (job->calls) pthread_cond_wait(&job->changed, &job->mu);
  void *run = job->run;
  job->run = NULL;
  pthread_mutex_unlock(&job->mu);
  return run;
}

/* The attempt is over here. `end`: what the store has now, of what the job has itself; NULL: it is lost to this
 * process. */
static void settle(trn_job *job, const trn_job_record *end) {
  trn_scheduler *s = job->scheduler;
  void *run = take_run(job);
  if (run) s->runner->close(run);
  trn_session_unref(job->session);
  trn_plan_unref(job->plan);
  job->session = NULL;
  job->plan = NULL;
  pthread_mutex_lock(&s->mu); /* before anybody sees that it is not ours: the next attempt is linked again */
  *(job->previous_active ? &job->previous_active->next_active : &s->active_jobs) = job->next_active;
  if (job->next_active) job->next_active->previous_active = job->previous_active;
  pthread_mutex_unlock(&s->mu);
  pthread_mutex_lock(&job->mu);
  trn_cancel_unref(job->planning);
  job->planning = NULL;
  if (end) job->copy.record = *end;
  job->is_ours = false;
  job->is_lost = !end;
  trn__job_event(job);
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->mu);
  pthread_mutex_lock(&s->mu);
  s->active--;
  s->running--;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mu);
  trn__dispatch(s);
  trn_job_unref(job);
}

/* The record of the end: what the job has, with what was reported. locks: mu held */
static trn_job_record end_record(const trn_job *job) {
  const trn_job_record *end = &job->end.record;
  trn_job_record r = job->copy.record;
  r.state = job->end.arena ? end->state : TRN_JOB_FAILED;
  r.ended_ms = trn__wall_ms();
  r.is_cancelled |= job->is_cancelling;
  r.error_status = TRN_RESOURCE_EXHAUSTED;
  r.error_message = "Out of memory";
  if (!job->end.arena) return r;
  r.rows = end->rows;
  r.bytes = end->bytes;
  r.error_status = end->error_status;
  r.error_condition = end->error_condition;
  r.error_message = end->error_message;
  r.metrics = end->metrics;
  r.locations = end->locations;
  r.location_count = end->location_count;
  if (end->schema) r.schema = end->schema, r.schema_size = end->schema_size;
  return r;
}

/* What every store takes, instead of an end that this one refuses for good. */
static trn_job_record plain_end(const trn_job_record *end) {
  trn_job_record r = *end;
  r.state = TRN_JOB_FAILED;
  r.error_status = TRN_INTERNAL;
  r.error_condition = NULL;
  r.error_message = "The store refused the record of how the job ended";
  r.metrics = NULL;
  r.locations = NULL;
  r.location_count = 0;
  return r;
}

void trn__job_write_end(trn_job *job) {
  trn_scheduler *s = job->scheduler;
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  pthread_mutex_lock(&job->mu);
  trn_job_record end = end_record(job);
  /* What was cancelled and may go on elsewhere is left to whoever finds it, with the wish. */
  bool is_dropped = job->is_abandoned && end.state != TRN_JOB_SUCCEEDED && (!job->is_cancelling || s->runner->probe);
  pthread_mutex_unlock(&job->mu);
  bool is_lost = end.state == TRN_JOB_LOST;
  trn_status status = is_dropped ? TRN_ABORTED
                      : is_lost  ? ops->take(self, end.id, end.attempt, NULL, false, NULL)
                                 : ops->update(self, &end, NULL);
  if (!is_lost && (status == TRN_INTERNAL || status == TRN_INVALID_ARGUMENT)) {
    trn_job_record plain = plain_end(&end);
    if (!(status = ops->update(self, &plain, NULL))) end = plain;
  }
  if (!status && is_lost) {
    settle(job, NULL);
    return;
  }
  if (!status) {
    if (end.state != TRN_JOB_SUCCEEDED) s->runner->remove(s->runner_self, &end, true);
    settle(job, &end);
    return;
  }
  if (status == TRN_ABORTED) { /* what this attempt made is nobody's; on a cluster it is whose who attached to it */
    if (!is_dropped && !s->runner->probe) s->runner->remove(s->runner_self, &end, false);
    settle(job, NULL);
    return;
  }
  pthread_mutex_lock(&job->mu);
  bool is_abandoned = job->is_abandoned;
  if (!is_abandoned) job->is_unwritten = true; /* the keeper tries again */
  pthread_mutex_unlock(&job->mu);
  if (is_abandoned) settle(job, NULL);
}

/* `error`: the object behind it; NULL: what the record says. */
static void end_with(trn_job *job, const trn_job_record *record, const trn_error *error) {
  pthread_mutex_lock(&job->mu);
  TRN_ASSERT(!job->has_ended);
  (void)trn__job_copy_init(&job->end, record); /* no memory: it failed, then */
  job->failure = error ? trn_error_ref((trn_error *)error) : NULL;
  job->has_ended = true;
  bool is_mine = !job->is_starting; /* else whoever starts it sees it */
  pthread_mutex_unlock(&job->mu);
  if (is_mine) trn__job_write_end(job);
}

void trn__job_ended(trn_job *job, const trn_job_record *record) {
  end_with(job, record, NULL);
}

void trn__job_failed(trn_job *job, trn_status status, const trn_error *error) {
  const char *message = trn_error_message(error);
  char cut[1024];
  trn_job_record r = {.struct_size = sizeof r,
                      .id = job->id,
                      .state = status == TRN_CANCELLED ? TRN_JOB_CANCELLED : TRN_JOB_FAILED,
                      .error_status = status,
                      .error_condition = trn_error_condition(error),
                      .error_message = message};
  if (strlen(message) > TRN_JOB_TEXT_BYTES_MAX) {
    size_t size = sizeof cut - 1;
    memcpy(cut, message, size);
    while (size && ((uint8_t)message[size] & 0xc0) == 0x80) size--; /* not inside of a character */
    cut[size] = 0;
    r.error_message = cut;
  }
  /* A store, and whoever reads it, takes texts: what a cluster said in other bytes is said without them. */
  bool is_text = trn__utf8_is_valid(r.error_message, strlen(r.error_message));
  if (!is_text) r.error_message = "The job failed with a message that is not UTF-8";
  if (!*r.error_message) r.error_message = trn_status_name(status);
  end_with(job, &r, is_text ? error : NULL);
}

/* ---- writing on the way ---- */

/* What the job has now. It stays as it is meanwhile: `calls` keeps the end away. */
static trn_status write_record(trn_job *job, trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(job->scheduler->store, &self);
  pthread_mutex_lock(&job->mu);
  if (!job->is_ours || job->has_ended) { /* `calls` would come too late */
    pthread_mutex_unlock(&job->mu);
    return trn_error_set(error, TRN_ABORTED, NULL, "The attempt is over");
  }
  trn_job_record record = job->copy.record;
  job->is_dirty = false;
  job->calls++;
  pthread_mutex_unlock(&job->mu);
  trn_status status = ops->update(self, &record, error);
  pthread_mutex_lock(&job->mu);
  job->calls--;
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->mu);
  return status;
}

void trn__job_write_counts(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  bool is_due = job->is_dirty && job->is_ours && !job->has_ended;
  pthread_mutex_unlock(&job->mu);
  if (is_due) (void)write_record(job, NULL); /* an end that comes first makes it void */
}

trn_status trn__job_known_as(trn_job *job, const char *backend_id, trn_slice schema, trn_error **error) {
  trn_job_record *r = &job->copy.record;
  pthread_mutex_lock(&job->mu);
  char *copy = trn__arena_strdup(job->copy.arena, backend_id);
  void *bytes = copy ? trn__arena_copy(job->copy.arena, schema.data, schema.size) : NULL;
  if (bytes) r->backend_id = copy, r->schema = bytes, r->schema_size = schema.size;
  pthread_mutex_unlock(&job->mu);
  return bytes ? write_record(job, error) : trn__no_memory(error);
}

void trn__job_lost(trn_job *job) {
  trn_job_record r = {.struct_size = sizeof r, .id = job->id, .state = TRN_JOB_LOST};
  end_with(job, &r, NULL);
}

void trn__job_progress(trn_job *job, const trn_job_counts *counts) {
  pthread_mutex_lock(&job->mu);
  if (job->is_ours && !job->has_ended) {
    trn_job_record *r = &job->copy.record;
    r->stages = counts->stages, r->stages_done = counts->stages_done;
    r->tasks = counts->tasks, r->tasks_done = counts->tasks_done;
    r->rows = counts->rows, r->bytes = counts->bytes;
    job->is_dirty = true;
    trn__job_event(job);
  }
  pthread_mutex_unlock(&job->mu);
}

void trn__job_attempt(trn_job *job, trn_job_attempt *out) {
  pthread_mutex_lock(&job->mu);
  const trn_job_record *r = &job->copy.record;
  *out = (trn_job_attempt){.id = job->id,
                           .name = r->name,
                           .attempt = r->attempt,
                           .backend_id = r->backend_id,
                           .session = job->session,
                           .cancel = job->planning,
                           .pool = job->scheduler->pool,
                           .settings = r->settings,
                           .setting_count = r->setting_count,
                           .tags = r->tags,
                           .tag_count = r->tag_count};
  pthread_mutex_unlock(&job->mu);
}

/* ---- starting ---- */

typedef enum step { STEP_START, STEP_CANCEL, STEP_GIVE_UP } step;

static step first_step(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  step next = job->is_abandoned ? STEP_GIVE_UP : job->is_cancelling && !job->is_attached ? STEP_CANCEL : STEP_START;
  if (next == STEP_START) {
    trn_job_record *r = &job->copy.record;
    r->state = TRN_JOB_RUNNING;
    if (!r->started_ms) r->started_ms = trn__wall_ms();
  }
  pthread_mutex_unlock(&job->mu);
  return next;
}

static trn_status begin_run(trn_job *job, void **run, trn_error **error) {
  trn_scheduler *s = job->scheduler;
  trn_cancel *planning = NULL;
  trn_status status = trn_cancel_create(&planning);
  if (status) return trn__no_memory(error);
  pthread_mutex_lock(&job->mu);
  job->planning = planning;
  if ((job->is_cancelling && !job->is_attached) || job->is_abandoned) trn_cancel_request(planning);
  trn__job_event(job);
  pthread_mutex_unlock(&job->mu);
  /* Nobody replaces the record while an attempt runs. */
  if (!job->session) status = trn__job_open_session(s, &job->copy.record, &job->session, error);
  if (status) return status;
  return job->is_attached ? s->runner->attach(s->runner_self, job, run, error)
                          : s->runner->start(s->runner_self, job, run, error);
}

/* It has begun, or has not. Whatever was asked for meanwhile is done now. */
static void begun(trn_job *job, void *run) {
  trn_scheduler *s = job->scheduler;
  pthread_mutex_lock(&job->mu);
  job->run = run;
  job->is_starting = false;
  bool has_ended = job->has_ended;
  bool cancels = run && !has_ended && job->is_cancelling, abandons = run && !has_ended && job->is_abandoned;
  job->calls += cancels || abandons;
  pthread_mutex_unlock(&job->mu);
  if (cancels)
    s->runner->cancel(run);
  else if (abandons)
    s->runner->abandon(run);
  if (cancels || abandons) {
    pthread_mutex_lock(&job->mu);
    job->calls--;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mu);
  }
  if (has_ended) trn__job_write_end(job);
}

/* thread: worker */
static void run_attempt(void *argument) {
  trn_job *job = argument;
  void *run = NULL;
  trn_error *error = NULL;
  step next = first_step(job);
  trn_status status = TRN_OK;
  if (next == STEP_START && write_record(job, NULL) == TRN_ABORTED) next = STEP_GIVE_UP; /* it was taken away */
  trn_job_ref(job);
  if (next == STEP_GIVE_UP) {
    settle(job, NULL);
  } else {
    if (next == STEP_CANCEL)
      status = trn_error_set(&error, TRN_CANCELLED, NULL, "The job was cancelled");
    else
      status = begin_run(job, &run, &error);
    if (status) trn__job_failed(job, status, error);
    begun(job, run);
  }
  trn_error_unref(error);
  trn_job_unref(job);
}

/* ---- what comes from outside ---- */

static bool leave_queue(trn_job *job) {
  trn_scheduler *s = job->scheduler;
  pthread_mutex_lock(&s->mu);
  bool was_queued = take_queued(s, job);
  pthread_mutex_unlock(&s->mu);
  return was_queued;
}

/* The run to call into, if there is one. */
static void *call_begin(trn_job *job, bool *wish) {
  pthread_mutex_lock(&job->mu);
  if (job->is_ours) *wish = true;
  if (job->is_ours && job->is_starting && !job->is_attached) trn_cancel_request(job->planning);
  void *run = job->is_ours && !job->has_ended && !job->is_starting ? job->run : NULL;
  job->calls += run != NULL;
  pthread_mutex_unlock(&job->mu);
  return run;
}

static void call_end(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  job->calls--;
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->mu);
}

void trn__job_cancel_here(trn_job *job) {
  trn_scheduler *s = job->scheduler;
  bool was_queued = leave_queue(job);
  void *run = call_begin(job, &job->is_cancelling);
  if (run) {
    s->runner->cancel(run);
    call_end(job);
  }
  if (was_queued && trn__pool_submit(s->pool, run_attempt, job)) run_attempt(job);
}

void trn__job_abandon(trn_job *job) {
  bool was_queued = leave_queue(job);
  void *run = call_begin(job, &job->is_abandoned);
  if (run) {
    job->scheduler->runner->abandon(run);
    call_end(job);
  }
  pthread_mutex_lock(&job->mu);
  bool is_unwritten = job->is_unwritten;
  job->is_unwritten = false;
  pthread_mutex_unlock(&job->mu);
  if (is_unwritten) trn__job_write_end(job);
  if (was_queued) run_attempt(job);
}
