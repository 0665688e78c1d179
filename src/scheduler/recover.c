/* Jobs of others, and of processes that are gone. */
#include <stdio.h>

#include "scheduler/scheduler.h"

/* ---- running again ---- */

trn_status trn__job_open_session(trn_scheduler *s, const trn_job_record *r, trn_session **out, trn_error **error) {
  trn_session_request request = {.struct_size = sizeof request,
                                 .user = r->user,
                                 .client = "job",
                                 .settings = r->settings,
                                 .setting_count = r->setting_count,
                                 .groups = r->groups,
                                 .group_count = r->group_count,
                                 .is_authenticated = r->is_authenticated};
  return trn_session_open(s->backend, &request, out, error);
}

static bool is_cancelled(void *user) {
  trn_job *job = user;
  pthread_mutex_lock(&job->mu);
  bool is = job->is_cancelling || job->is_abandoned;
  pthread_mutex_unlock(&job->mu);
  return is;
}

trn_status trn__job_plan(trn_job *job, trn_plan **out, trn_error **error) {
  const trn_job_record *r = &job->copy.record; /* nobody replaces it while an attempt runs */
  if (job->plan) {
    *out = trn_plan_ref(job->plan);
    return TRN_OK;
  }
  *out = NULL;
  if (!r->format || !r->query)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, "JOB_HAS_NO_QUERY",
                         "Nothing is recorded of job %s that could run", job->id);
  trn_plan_input input = {.struct_size = sizeof input,
                          .format = r->format,
                          .data = r->query,
                          .size = r->query_size,
                          .options = r->query_options,
                          .option_count = r->query_option_count,
                          .resolve = trn_session_resolve_table,
                          .resolve_user = job->session,
                          .cancel = job->planning};
  trn_decode_options options = {.struct_size = sizeof options, .is_cancelled = is_cancelled, .user = job};
  const trn_registry *registry = job->scheduler->registry;
  return registry ? trn_registry_decode(registry, job->session, &input, &options, out, error)
                  : trn_backend_decode(job->session, &input, out, error);
}

/* An attempt that still runs here, though the job was taken away: it ends first. */
static void leave_behind(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  bool is_ours = job->is_ours;
  pthread_mutex_unlock(&job->mu);
  if (!is_ours) return;
  trn__job_abandon(job);
  pthread_mutex_lock(&job->mu);
  while (job->is_ours) pthread_cond_wait(&job->changed, &job->mu);
  pthread_mutex_unlock(&job->mu);
}

/* Does its work go on somewhere? */
static trn_status probe(trn_scheduler *s, const trn_job_record *record, bool *goes_on, trn_error **error) {
  trn_error *failure = NULL;
  *goes_on = false;
  if (!s->runner->probe) return TRN_OK;
  trn_status status = s->runner->probe(s->runner_self, record, &failure);
  *goes_on = !status;
  if (status == TRN_NOT_FOUND) status = TRN_OK;
  if (status && error)
    *error = failure;
  else
    trn_error_unref(failure);
  return status;
}

/* One that cannot run again, or that was lost so often that it may be what kills its servers. */
static trn_status end_for_good(trn_job *job, const trn_job_record *old, trn_error **error) {
  char text[128];
  trn_error_spec why = {.struct_size = sizeof why, .status = TRN_UNAVAILABLE, .message = text};
  snprintf(text, sizeof text, "The job was lost %llu times, each time with the server that ran it",
           (unsigned long long)old->attempt);
  if (!old->format) {
    why.status = TRN_FAILED_PRECONDITION;
    why.condition = "JOB_HAS_NO_QUERY";
    why.message = "The job is lost, and nothing is recorded of it that could run again";
  }
  if (old->is_cancelled) why = (trn_error_spec){sizeof why, TRN_CANCELLED, .message = "The job was cancelled"};
  leave_behind(job);
  trn_status status = trn__job_end_lost(job->scheduler, old, &why, error);
  if (status || why.status != TRN_FAILED_PRECONDITION) return status;
  return trn_error_set(error, why.status, why.condition,
                       "Job %s is lost, and nothing is recorded of it that could run again", old->id);
}

static trn_status adopt_known(trn_job *job, const trn_job_copy *from, bool resubmit, bool *adopted, trn_error **error) {
  trn_scheduler *s = job->scheduler;
  const trn_job_record *old = &from->record;
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_job_record now = *old;
  trn_job_copy copy;
  bool goes_on;
  trn_status status = probe(s, old, &goes_on, error);
  if (status || (!goes_on && !resubmit)) return status;
  if (!goes_on && (!old->format || old->attempt >= TRN_JOB_ATTEMPTS_MAX)) return end_for_good(job, old, error);
  now.attempt++;
  now.owner = s->owner;
  if (!goes_on) {
    now.state = TRN_JOB_QUEUED;
    now.backend_id = NULL;
    now.started_ms = now.rows = now.bytes = 0;
    now.stages = now.stages_done = now.tasks = now.tasks_done = 0;
  }
  status = trn__job_copy_init(&copy, &now);
  if (status) return trn__no_memory(error);
  status = trn__keeper_start(s, error);
  if (!status) status = trn__scheduler_lease(s, false, error);
  if (!status) {
    leave_behind(job);
    trn_error *failure = NULL;
    status = ops->take(self, old->id, old->attempt, s->owner, !goes_on, &failure);
    *adopted = !status;
    if (status == TRN_ABORTED) status = TRN_OK; /* somebody was faster */
    if (status && error)
      *error = failure;
    else
      trn_error_unref(failure);
  }
  if (*adopted) trn__job_begin(job, &copy, NULL, NULL, goes_on);
  trn__job_copy_finish(&copy);
  return status;
}

/* What may be attached to without an id of the cluster's is planned again: its query is needed. */
static trn_status adopt(trn_job *job, const trn_job_copy *from, bool resubmit, bool *adopted, trn_error **error) {
  const trn_job_record *known = &from->record;
  trn_job_copy whole;
  if (known->backend_id || known->query || !known->format || !job->scheduler->runner->probe)
    return adopt_known(job, from, resubmit, adopted, error);
  trn_status status = trn__store_get(job->scheduler->store, job->id, true, &whole, error);
  if (status) return status;
  /* Another attempt by now: it is not ours to take. */
  if (whole.record.attempt == known->attempt) status = adopt_known(job, &whole, resubmit, adopted, error);
  trn__job_copy_finish(&whole);
  return status;
}

trn_status trn__job_adopt(trn_job *job, const trn_job_copy *from, bool resubmit, bool *adopted, trn_error **error) {
  const trn_job_record *known = &job->copy.record, *old = &from->record;
  *adopted = false;
  pthread_mutex_lock(&job->mu);
  while (job->is_adopting) pthread_cond_wait(&job->changed, &job->mu);
  bool is_late = known->submitted_ms == old->submitted_ms && known->attempt > old->attempt;
  if (!is_late) job->is_adopting = true;
  pthread_mutex_unlock(&job->mu);
  if (is_late) return TRN_OK;
  trn_status status = adopt(job, from, resubmit, adopted, error);
  pthread_mutex_lock(&job->mu);
  job->is_adopting = false;
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->mu);
  return status;
}

/* ---- finding ---- */

trn_status trn_scheduler_job(trn_scheduler *s, const char *id, trn_job **out, trn_error **error) {
  return trn__job_open(s, id, out, error);
}

/* Does nobody run it: neither another scheduler that lives, nor this one? */
static bool needs_care(trn_job *job, const trn_job_record *r) {
  if (!trn__job_is_active(r->state)) return false;
  if (strcmp(r->owner, job->scheduler->owner) != 0) return !r->is_owner_alive;
  pthread_mutex_lock(&job->mu);
  bool runs_here = job->is_ours && job->copy.record.attempt == r->attempt;
  pthread_mutex_unlock(&job->mu);
  return !runs_here;
}

/* Its owner may have died between the record and what it says. */
static bool has_leftovers(const trn_job_record *r) {
  return !trn__job_is_active(r->state) && (r->state != TRN_JOB_SUCCEEDED || r->is_released);
}

trn_status trn_scheduler_recover(trn_scheduler *s, const char *id, const trn_recover_options *given, trn_job **out,
                                 trn_error **error) {
  trn_recover_options options = {0};
  trn_job_copy copy = {0};
  bool adopted = false;
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  trn_status status = trn__job_open(s, id, out, error);
  if (status) return status;
  status = trn__store_get(s->store, id, true, &copy, error);
  if (!status && needs_care(*out, &copy.record))
    status = trn__job_adopt(*out, &copy, options.resubmit, &adopted, error);
  else if (!status && has_leftovers(&copy.record))
    s->runner->remove(s->runner_self, &copy.record, true);
  trn__job_copy_finish(&copy);
  if (!status && !adopted) status = trn__job_refresh(*out, false, error);
  if (status) trn_job_unref(*out), *out = NULL;
  return status;
}

typedef struct listing {
  trn_scheduler *scheduler;
  trn_job_each each;
  void *user;
} listing;

static bool list_each(void *user, const trn_job_record *record) {
  listing *l = user;
  trn_job_record r = *record;
  if (trn__job_is_active(r.state) && !r.is_owner_alive) r.state = TRN_JOB_LOST;
  return l->each(l->user, &r);
}

trn_status trn_scheduler_list(trn_scheduler *s, const trn_job_filter *filter, trn_job_each each, void *user,
                              trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  listing l = {s, each, user};
  return ops->list(self, filter, list_each, &l, error);
}
