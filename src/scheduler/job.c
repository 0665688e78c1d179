/* Jobs as their handles see them: what is known, what the store knows, cancel, output. */
#include "scheduler/scheduler.h"

#include <stdio.h>

enum { EVENTS_MIN = 8 };

/* ---- life ---- */

trn_status trn__job_create(trn_scheduler *s, const trn_job_record *record, trn_job **out) {
  *out = NULL;
  trn_job *job = calloc(1, sizeof *job);
  if (!job) return TRN_RESOURCE_EXHAUSTED;
  job->id = trn__text_copy(record->id);
  job->events = calloc(EVENTS_MIN, sizeof *job->events);
  job->event_capacity = EVENTS_MIN;
  trn_status status = job->id && job->events ? trn__job_copy_init(&job->copy, record) : TRN_RESOURCE_EXHAUSTED;
  if (!status && trn__condition_init(&job->changed)) status = TRN_RESOURCE_EXHAUSTED;
  if (status) {
    trn__job_copy_finish(&job->copy);
    free(job->events);
    free(job->id);
    free(job);
    return status;
  }
  pthread_mutex_init(&job->mu, NULL);
  job->refs = 1;
  job->scheduler = s;
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  *out = job;
  return TRN_OK;
}

trn_job *trn_job_ref(trn_job *job) {
  pthread_mutex_lock(&job->scheduler->mu);
  job->refs++;
  pthread_mutex_unlock(&job->scheduler->mu);
  return job;
}

void trn_job_unref(trn_job *job) {
  if (!job) return;
  trn_scheduler *s = job->scheduler;
  pthread_mutex_lock(&s->mu);
  bool is_last = --job->refs == 0;
  size_t size = strlen(job->id);
  if (is_last && trn__map_get(s->jobs, job->id, size) == job) trn__map_remove(s->jobs, job->id, size);
  pthread_mutex_unlock(&s->mu);
  if (!is_last) return;
  trn_session_unref(job->session);
  trn_plan_unref(job->plan);
  trn__job_copy_finish(&job->copy);
  trn__job_copy_finish(&job->end);
  trn_error_unref(job->failure);
  pthread_cond_destroy(&job->changed);
  pthread_mutex_destroy(&job->mu);
  free(job->events);
  free(job->id);
  free(job);
  trn__scheduler_let_go(s);
}

const char *trn_job_id(const trn_job *job) {
  return job->id;
}

trn_job *trn__job_find(trn_scheduler *s, const char *id) {
  pthread_mutex_lock(&s->mu);
  trn_job *job = trn__map_get(s->jobs, id, strlen(id));
  if (job) job->refs++;
  pthread_mutex_unlock(&s->mu);
  return job;
}

trn_status trn__job_enter(trn_job *job, trn_job **other) {
  trn_scheduler *s = job->scheduler;
  size_t size = strlen(job->id);
  bool ok = true;
  pthread_mutex_lock(&s->mu);
  trn_job *there = other ? trn__map_get(s->jobs, job->id, size) : NULL;
  if (there)
    there->refs++;
  else
    ok = trn__map_set(s->jobs, job->id, size, job, NULL);
  pthread_mutex_unlock(&s->mu);
  if (other) *other = there;
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- what the store has ---- */

/* Whoever is recorded as alive here, and is not, is lost too: after an insert that nobody could confirm. locks: mu held
 */
static bool is_lost(const trn_job *job, const trn_job_record *r) {
  return trn__job_is_active(r->state) && (!r->is_owner_alive || strcmp(r->owner, job->scheduler->owner) == 0);
}

/* Takes `copy`. */
static void learn(trn_job *job, trn_job_copy *copy) {
  pthread_mutex_lock(&job->mu);
  /* An answer that was under way while an attempt began or ended here is older than what is known. */
  const trn_job_record *old_record = &job->copy.record, *r = &copy->record;
  bool is_newer = r->attempt > old_record->attempt || r->submitted_ms != old_record->submitted_ms;
  bool is_same_or_on =
      r->attempt == old_record->attempt && (trn__job_is_active(old_record->state) || !trn__job_is_active(r->state));
  if (!job->is_ours && !job->is_adopting && (is_newer || is_same_or_on)) {
    if (is_newer) trn_error_unref(job->failure), job->failure = NULL;
    trn_job_copy old = job->copy;
    job->copy = *copy;
    *copy = old;
    job->is_lost = is_lost(job, &job->copy.record);
    job->is_gone = false;
    trn__job_event(job);
  }
  pthread_mutex_unlock(&job->mu);
  trn__job_copy_finish(copy);
}

static trn_status forgotten(trn_job *job, trn_error **error) {
  pthread_mutex_lock(&job->mu);
  if (!job->is_ours) {
    job->is_gone = true;
    trn__job_event(job);
    pthread_cond_broadcast(&job->changed);
  }
  pthread_mutex_unlock(&job->mu);
  return trn_error_set(error, TRN_NOT_FOUND, "JOB_NOT_FOUND", "There is no job %s", job->id);
}

trn_status trn__job_refresh(trn_job *job, bool may_adopt, trn_error **error) {
  trn_job_copy copy;
  trn_error *failure = NULL;
  pthread_mutex_lock(&job->mu);
  bool is_ours = job->is_ours;
  pthread_mutex_unlock(&job->mu);
  if (is_ours) return TRN_OK;
  trn_status status = trn__store_get(job->scheduler->store, job->id, false, &copy, &failure);
  if (status == TRN_NOT_FOUND) {
    trn_error_unref(failure);
    return forgotten(job, error);
  }
  if (status) {
    if (error)
      *error = failure;
    else
      trn_error_unref(failure);
    return status;
  }
  bool adopted = false;
  if (may_adopt && job->scheduler->runner->probe && is_lost(job, &copy.record))
    (void)trn__job_adopt(job, &copy, false, &adopted, NULL);
  if (adopted)
    trn__job_copy_finish(&copy);
  else
    learn(job, &copy);
  return TRN_OK;
}

trn_status trn__job_open(trn_scheduler *s, const char *id, trn_job **out, trn_error **error) {
  trn_job_copy copy = {0};
  *out = trn__job_find(s, id);
  if (*out) {
    trn_status status = trn__job_refresh(*out, false, error);
    if (status) trn_job_unref(*out), *out = NULL;
    return status;
  }
  trn_status status = trn__store_get(s->store, id, false, &copy, error);
  if (status) return status;
  trn_job *job = NULL;
  status = trn__job_create(s, &copy.record, &job);
  if (!status) job->is_lost = is_lost(job, &copy.record);
  trn_job *other = NULL; /* somebody was faster */
  if (!status) status = trn__job_enter(job, &other);
  if (status) trn__no_memory(error);
  trn__job_copy_finish(&copy);
  if (status || other) trn_job_unref(job);
  *out = status ? NULL : other ? other : job;
  return status;
}

/* ---- handles ---- */

trn_status trn_job_get_status(trn_job *job, trn_job_status *status, trn_error **failure, trn_error **error) {
  trn_job_status now;
  if (failure) *failure = NULL;
  trn_status result = trn__job_refresh(job, false, error);
  if (result) return result;
  pthread_mutex_lock(&job->mu);
  trn__status_of(job, &now);
  if (failure) *failure = trn__job_failure(job);
  pthread_mutex_unlock(&job->mu);
  memcpy(status, &now, trn__struct_size(status->struct_size, sizeof now));
  return TRN_OK;
}

trn_status trn_job_read(trn_job *job, trn_job_each each, void *user, trn_error **error) {
  trn_job_copy copy;
  trn_status status = trn__store_get(job->scheduler->store, job->id, false, &copy, error);
  if (status) return status;
  pthread_mutex_lock(&job->mu);
  bool runs_here = job->is_ours && job->copy.record.attempt == copy.record.attempt;
  pthread_mutex_unlock(&job->mu);
  if (!runs_here && is_lost(job, &copy.record)) copy.record.state = TRN_JOB_LOST;
  (void)each(user, &copy.record);
  trn__job_copy_finish(&copy);
  return TRN_OK;
}

trn_status trn__job_end_lost(trn_scheduler *s, const trn_job_record *record, const trn_error_spec *why,
                             trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_job_record end = *record;
  trn_status status = trn__scheduler_lease(s, false, error);
  if (!status) status = ops->take(self, record->id, record->attempt, s->owner, false, error);
  if (status == TRN_ABORTED) return TRN_OK; /* somebody has it now, and sees the wish */
  end.attempt++;
  end.owner = s->owner;
  end.state = why->status == TRN_CANCELLED ? TRN_JOB_CANCELLED : TRN_JOB_FAILED;
  end.ended_ms = trn__wall_ms();
  end.error_status = why->status;
  end.error_condition = why->condition;
  end.error_message = why->message;
  if (!status) status = ops->update(self, &end, error);
  if (status == TRN_ABORTED) return TRN_OK;
  if (!status) s->runner->remove(s->runner_self, &end, true);
  return status;
}

static trn_status cancel_lost(trn_job *job, const trn_job_record *record, trn_error **error) {
  const trn_error_spec why = {.struct_size = sizeof why, .status = TRN_CANCELLED, .message = "The job was cancelled"};
  return trn__job_end_lost(job->scheduler, record, &why, error);
}

trn_status trn_job_cancel(trn_job *job, trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(job->scheduler->store, &self);
  trn_job_copy copy;
  trn_status status = ops->cancel(self, job->id, error);
  if (status) return status;
  trn__job_cancel_here(job);
  pthread_mutex_lock(&job->mu);
  bool is_ours = job->is_ours;
  pthread_mutex_unlock(&job->mu);
  if (is_ours) return TRN_OK;
  status = trn__store_get(job->scheduler->store, job->id, false, &copy, error);
  if (status) return status;
  /* One that goes on elsewhere is attached to, and cancelled there. */
  bool adopted = false;
  if (is_lost(job, &copy.record) && job->scheduler->runner->probe)
    status = trn__job_adopt(job, &copy, false, &adopted, error);
  pthread_mutex_lock(&job->mu);
  is_ours = job->is_ours;
  pthread_mutex_unlock(&job->mu);
  if (is_ours) { /* another caller has adopted it meanwhile, maybe without the wish */
    trn__job_cancel_here(job);
    adopted = true;
  }
  if (!status && !adopted && is_lost(job, &copy.record)) status = cancel_lost(job, &copy.record, error);
  trn__job_copy_finish(&copy);
  return status ? status : trn__job_refresh(job, false, error);
}

/* ---- output ---- */

static trn_status get_output(trn_job *job, trn_job_copy *copy, trn_error **error) {
  trn_status status = trn__store_get(job->scheduler->store, job->id, false, copy, error);
  if (status) return status;
  const trn_job_record *r = &copy->record;
  if (r->state != TRN_JOB_SUCCEEDED)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, "JOB_HAS_NO_OUTPUT", "Job %s has no output: it is %s",
                           job->id, trn_job_state_name(r->state));
  else if (r->is_released)
    status = trn_error_set(error, TRN_NOT_FOUND, "JOB_OUTPUT_RELEASED", "The output of job %s was released", job->id);
  if (status) trn__job_copy_finish(copy);
  return status;
}

trn_status trn_job_locations(trn_job *job, void (*each)(void *user, const trn_job_location *location), void *user,
                             trn_error **error) {
  trn_job_copy copy;
  trn_status status = get_output(job, &copy, error);
  if (status) return status;
  for (size_t i = 0; i < copy.record.location_count; i++) each(user, &copy.record.locations[i]);
  trn__job_copy_finish(&copy);
  return TRN_OK;
}

trn_status trn_job_output(trn_job *job, trn_stream **out, trn_error **error) {
  trn_job_copy copy;
  *out = NULL;
  trn_status status = get_output(job, &copy, error);
  if (status) return status;
  status = job->scheduler->runner->output(job->scheduler->runner_self, &copy.record, out, error);
  trn__job_copy_finish(&copy);
  return status;
}

trn_status trn_job_metrics(trn_job *job, char **out, trn_error **error) {
  trn_status status = trn__job_refresh(job, false, error);
  *out = NULL;
  if (status) return status;
  const trn_runner_ops *runner = job->scheduler->runner;
  pthread_mutex_lock(&job->mu);
  void *run = runner->metrics && job->is_ours && !job->has_ended ? job->run : NULL;
  if (run) job->calls++;
  bool is_there = job->copy.record.metrics != NULL;
  if (!run && is_there) *out = trn__text_copy(job->copy.record.metrics);
  pthread_mutex_unlock(&job->mu);
  if (run) {
    is_there = !runner->metrics(run, out) && *out;
    pthread_mutex_lock(&job->mu);
    job->calls--;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->mu);
  }
  if (is_there) return *out ? TRN_OK : trn__no_memory(error);
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "job %s has no metrics", job->id);
}

/* The record first: an output that a record promises must be there. */
static trn_status release(trn_scheduler *s, const char *id, trn_error **error) {
  void *self;
  trn_job_copy copy;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_status status = trn__store_get(s->store, id, false, &copy, error);
  if (status) return status;
  status = ops->release(self, id, error);
  if (!status) s->runner->remove(s->runner_self, &copy.record, true);
  trn__job_copy_finish(&copy);
  return status;
}

trn_status trn_job_release(trn_job *job, trn_error **error) {
  trn_status status = release(job->scheduler, job->id, error);
  return status ? status : trn__job_refresh(job, false, error);
}

trn_status trn_scheduler_forget(trn_scheduler *s, const char *id, trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_status status = release(s, id, error);
  return status ? status : ops->remove(self, id, error);
}
