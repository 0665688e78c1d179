/* What is told of a job: its events, who subscribes to them, who waits. A job keeps the events of its attempts here,
 * and each subscription a place among them: so nobody is too slow. */
#include "scheduler/scheduler.h"

struct trn_job_subscription {
  atomic_size_t refs; /* the caller's; one per completion on its way */
  trn_job *job;       /* a reference */
  trn_job_subscription *next;
  /* guarded by the job's mu */
  size_t at;     /* the next event */
  bool is_over;  /* the terminal one was taken */
  bool is_asked; /* a completion is owed, and not on its way yet */
  bool is_busy;  /* it is on its way */
  bool is_destroyed;
  trn_job_event_done done;
  void *user;
};

/* ---- states ---- */

bool trn__job_is_over(const trn_job *job) {
  return !job->is_ours && (job->is_lost || job->is_gone || !trn__job_is_active(job->copy.record.state));
}

void trn__status_of(const trn_job *job, trn_job_status *out) {
  const trn_job_record *r = &job->copy.record;
  bool is_lost = !job->is_ours && (job->is_lost || job->is_gone) && trn__job_is_active(r->state);
  *out = (trn_job_status){.struct_size = sizeof *out,
                          .state = is_lost ? TRN_JOB_LOST : r->state,
                          .attempt = r->attempt,
                          .stages = r->stages,
                          .stages_done = r->stages_done,
                          .tasks = r->tasks,
                          .tasks_done = r->tasks_done,
                          .submitted_ms = r->submitted_ms,
                          .started_ms = r->started_ms,
                          .ended_ms = r->ended_ms,
                          .rows = r->rows,
                          .bytes = r->bytes,
                          .is_cancelled = r->is_cancelled || job->is_cancelling,
                          .is_released = r->is_released};
}

trn_error *trn__job_failure(const trn_job *job) {
  const trn_job_record *r = &job->copy.record;
  if (r->state != TRN_JOB_FAILED && r->state != TRN_JOB_CANCELLED) return NULL;
  if (job->failure) return trn_error_ref(job->failure);
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = r->error_status ? r->error_status : TRN_UNKNOWN,
                         .condition = r->error_condition,
                         .message = r->error_message};
  return r->error_status ? trn_error_create(&spec) : NULL;
}

/* ---- deliveries ---- */

static void subscription_unref(trn_job_subscription *s) {
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  trn_job_unref(s->job);
  free(s);
}

/* thread: worker, or whoever made the event when no worker can be had */
static void deliver(void *argument) {
  trn_job_subscription *s = argument;
  trn_job *job = s->job;
  trn_job_status status = {0};
  trn_error *failure = NULL;
  pthread_mutex_lock(&job->mu);
  bool is_destroyed = s->is_destroyed, has_event = !is_destroyed && !s->is_over && s->at < job->event_count;
  trn_job_event_done done = s->done;
  void *user = s->user;
  if (has_event) {
    status = job->events[s->at++];
    s->is_over = status.state > TRN_JOB_RUNNING;
    if (s->is_over) failure = trn__job_failure(job);
  }
  s->is_busy = false;
  pthread_mutex_unlock(&job->mu);
  done(user, is_destroyed ? TRN_CANCELLED : TRN_OK, has_event ? &status : NULL, failure);
  trn_error_unref(failure);
  subscription_unref(s);
}

static bool can_deliver(const trn_job *job, const trn_job_subscription *s) {
  return s->is_over || s->is_destroyed || s->at < job->event_count;
}

/* A scheduler that has stopped has no workers any more. locks: none */
static trn_status send(trn_job_subscription *s) {
  trn_scheduler *scheduler = s->job->scheduler;
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  pthread_mutex_lock(&scheduler->mu);
  trn_status status = scheduler->pool ? trn__pool_submit(scheduler->pool, deliver, s) : TRN_FAILED_PRECONDITION;
  pthread_mutex_unlock(&scheduler->mu);
  if (status) subscription_unref(s);
  return status;
}

static bool same(const trn_job_status *a, const trn_job_status *b) {
  return a->state == b->state && a->attempt == b->attempt && a->stages == b->stages &&
         a->stages_done == b->stages_done && a->tasks == b->tasks && a->tasks_done == b->tasks_done &&
         a->rows == b->rows && a->bytes == b->bytes;
}

/* Places of the attempt's events; false: there is no memory for more. */
static bool make_room(trn_job *job) {
  if (job->event_count < job->event_capacity) return true;
  size_t capacity = job->event_capacity ? job->event_capacity * 2 : 8;
  trn_job_status *events = realloc(job->events, capacity * sizeof *events);
  if (!events) return false;
  job->events = events;
  job->event_capacity = capacity;
  return true;
}

/* Without memory the newest word is the one that counts: whoever has read the last one reads it again. There is always
 * one: the first has its place since the job was made. */
static void replace_last(trn_job *job, const trn_job_status *now) {
  job->events[job->event_count - 1] = *now;
  if (job->attempt_at == job->event_count) job->attempt_at--;
  for (trn_job_subscription *s = job->subscriptions; s; s = s->next)
    if (s->at == job->event_count && !s->is_over) s->at--;
}

/* Everyone who is owed something: one after the other, since sending wants no lock. */
static void send_owed(trn_job *job) {
  for (;;) {
    trn_job_subscription *s = job->subscriptions;
    while (s && !(s->is_asked && can_deliver(job, s))) s = s->next;
    if (!s) return;
    s->is_asked = false;
    s->is_busy = true;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&job->mu);
    if (send(s)) {
      atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
      deliver(s);
    }
    subscription_unref(s);
    pthread_mutex_lock(&job->mu);
  }
}

void trn__job_event(trn_job *job) {
  trn_job_status now;
  trn__status_of(job, &now);
  size_t count = job->event_count - job->attempt_at;
  trn_job_status *last = count ? &job->events[job->event_count - 1] : NULL;
  if (last && same(last, &now)) return;
  if (last && last->state > TRN_JOB_RUNNING) { /* it was lost, and is not any more */
    job->attempt_at = job->event_count;
    last = NULL;
  }
  bool is_merged = last && last->state == now.state && count >= TRN_JOB_EVENTS_MAX;
  if (is_merged)
    *last = now;
  else if (make_room(job))
    job->events[job->event_count++] = now;
  else
    replace_last(job, &now);
  pthread_cond_broadcast(&job->changed);
  send_owed(job);
}

/* ---- subscriptions ---- */

trn_status trn_job_subscribe(trn_job *job, trn_job_subscription **out, trn_error **error) {
  *out = NULL;
  trn_job_subscription *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  trn_status status = trn__job_watch(job, error);
  if (status) {
    free(s);
    return status;
  }
  atomic_init(&s->refs, 1);
  s->job = trn_job_ref(job);
  pthread_mutex_lock(&job->mu);
  trn__job_event(job); /* of a job that nothing was told of yet: what it is now */
  s->at = job->attempt_at;
  s->next = job->subscriptions;
  job->subscriptions = s;
  pthread_mutex_unlock(&job->mu);
  *out = s;
  return TRN_OK;
}

trn_status trn_job_subscription_next(trn_job_subscription *s, trn_job_event_done done, void *user, trn_error **error) {
  trn_job *job = s->job;
  pthread_mutex_lock(&job->mu);
  bool is_taken = s->is_asked || s->is_busy, is_there = false;
  if (!is_taken) {
    s->done = done;
    s->user = user;
    is_there = can_deliver(job, s);
    *(is_there ? &s->is_busy : &s->is_asked) = true;
  }
  pthread_mutex_unlock(&job->mu);
  if (is_taken) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "an event is asked for already");
  trn_status status = is_there ? send(s) : TRN_OK;
  if (!status) return TRN_OK;
  pthread_mutex_lock(&job->mu);
  s->is_busy = false;
  pthread_mutex_unlock(&job->mu);
  return trn_error_set(error, status, NULL, "no thread can be had for the completion");
}

void trn_job_subscription_destroy(trn_job_subscription *s) {
  if (!s) return;
  trn_job *job = s->job;
  pthread_mutex_lock(&job->mu);
  s->is_destroyed = true;
  send_owed(job);
  for (trn_job_subscription **at = &job->subscriptions; *at; at = &(*at)->next) {
    if (*at != s) continue;
    *at = s->next;
    break;
  }
  pthread_mutex_unlock(&job->mu);
  trn__job_unwatch(job);
  subscription_unref(s);
}

/* ---- waiting ---- */

static int64_t due_after(uint64_t timeout_ms) {
  int64_t now_ns = trn__now_ns();
  return timeout_ms < (uint64_t)(INT64_MAX - now_ns) / 1000000 ? now_ns + (int64_t)timeout_ms * 1000000 : INT64_MAX;
}

trn_status trn_job_wait(trn_job *job, uint64_t timeout_ms, trn_job_status *status, trn_error **failure,
                        trn_error **error) {
  int64_t due_ns = due_after(timeout_ms);
  trn_job_status now;
  if (failure) *failure = NULL;
  trn_status result = trn__job_watch(job, error);
  if (result) return result;
  pthread_mutex_lock(&job->mu);
  bool is_due = false;
  while (!trn__job_is_over(job) && !is_due) {
    if (due_ns == INT64_MAX)
      pthread_cond_wait(&job->changed, &job->mu);
    else
      is_due = !trn__wait_until(&job->changed, &job->mu, due_ns);
  }
  bool is_over = trn__job_is_over(job);
  trn__status_of(job, &now);
  if (is_over && failure) *failure = trn__job_failure(job);
  pthread_mutex_unlock(&job->mu);
  trn__job_unwatch(job);
  memcpy(status, &now, trn__struct_size(status->struct_size, sizeof now));
  if (is_over) return TRN_OK;
  return trn_error_set(error, TRN_DEADLINE_EXCEEDED, NULL, "job %s has not ended yet", job->id);
}
