/* The keeper: a thread per scheduler, while it is needed: renews the lease, hears what others want cancelled, writes
 * what the store did not take, looks at others' jobs that somebody here watches. */
#include "scheduler/scheduler.h"

enum { KEEPER_STEP_MS_MAX = 1000, KEEPER_STEP_MS_MIN = 5 };

typedef struct jobs_list {
  trn_job **items; /* a reference each */
  size_t count;
} jobs_list;

/* Jobs of ours. What does not fit into memory waits for the next step. */
static jobs_list active_jobs(trn_scheduler *s) {
  jobs_list list = {0};
  pthread_mutex_lock(&s->mu);
  list.items = malloc((s->active + 1) * sizeof *list.items);
  for (trn_job *job = list.items ? s->active_jobs : NULL; job; job = job->next_active) {
    job->refs++;
    list.items[list.count++] = job;
  }
  pthread_mutex_unlock(&s->mu);
  return list;
}

static void look_after(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  bool is_unwritten = job->is_unwritten;
  job->is_unwritten = false;
  pthread_mutex_unlock(&job->mu);
  if (is_unwritten)
    trn__job_write_end(job);
  else
    trn__job_write_counts(job);
}

static void look_after_all(trn_scheduler *s) {
  jobs_list list = active_jobs(s);
  for (size_t i = 0; i < list.count; i++) {
    look_after(list.items[i]);
    trn_job_unref(list.items[i]);
  }
  free(list.items);
}

/* ---- others' jobs ---- */

/* Nobody will say any more what becomes of another's job. */
static void lose(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  if (!job->is_ours) job->is_lost = true;
  trn__job_event(job);
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->mu);
}

static void follow(trn_job *job) {
  trn_scheduler *s = job->scheduler;
  pthread_mutex_lock(&s->mu);
  bool is_stopping = s->is_stopping;
  if (!job->is_followed && !s->is_stopping) {
    job->is_followed = true;
    job->refs++;
    job->next_followed = s->followed;
    s->followed = job;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->mu);
  if (is_stopping) lose(job);
}

static bool is_worth_following(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  bool is_worth = job->watchers && !job->is_ours && !trn__job_is_over(job);
  pthread_mutex_unlock(&job->mu);
  return is_worth;
}

/* The list is taken whole: who is still of interest gets into a new one. */
static trn_job *take_followed(trn_scheduler *s) {
  pthread_mutex_lock(&s->mu);
  trn_job *list = s->followed;
  s->followed = NULL;
  for (trn_job *job = list; job; job = job->next_followed)
    job->is_followed = false, job->next_taken = job->next_followed;
  pthread_mutex_unlock(&s->mu);
  return list;
}

static void follow_all(trn_scheduler *s) {
  for (trn_job *job = take_followed(s), *next; job; job = next) {
    next = job->next_taken;
    if (is_worth_following(job)) {
      (void)trn__job_refresh(job, true, NULL); /* later, when the store cannot be asked now */
      if (is_worth_following(job)) follow(job);
    }
    trn_job_unref(job);
  }
}

static void stop_following(trn_scheduler *s) {
  for (trn_job *job = take_followed(s), *next; job; job = next) {
    next = job->next_taken;
    lose(job);
    trn_job_unref(job);
  }
}

trn_status trn__job_watch(trn_job *job, trn_error **error) {
  trn_status status = trn__job_refresh(job, false, error);
  if (status) return status;
  pthread_mutex_lock(&job->mu);
  job->watchers++;
  bool is_others = !job->is_ours && !trn__job_is_over(job);
  pthread_mutex_unlock(&job->mu);
  if (is_others) status = trn__keeper_start(job->scheduler, error);
  if (status)
    trn__job_unwatch(job);
  else if (is_others)
    follow(job);
  return status;
}

void trn__job_unwatch(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  job->watchers--;
  pthread_mutex_unlock(&job->mu);
}

/* ---- the thread ---- */

static int64_t step_ns(const trn_scheduler *s) {
  uint64_t step_ms = s->lease_ms / 3 < KEEPER_STEP_MS_MAX ? s->lease_ms / 3 : KEEPER_STEP_MS_MAX;
  return (int64_t)(step_ms > KEEPER_STEP_MS_MIN ? step_ms : KEEPER_STEP_MS_MIN) * 1000000;
}

static void *keeper_run(void *argument) {
  trn_scheduler *s = argument;
  int64_t renew_at_ns = 0, follow_at_ns = 0;
  pthread_mutex_lock(&s->mu);
  while (!s->is_stopping) {
    int64_t now_ns = trn__now_ns();
    bool renews = s->active && now_ns >= renew_at_ns, follows = s->followed && now_ns >= follow_at_ns;
    if (renews || follows) {
      pthread_mutex_unlock(&s->mu);
      if (renews) {
        (void)trn__scheduler_lease(s, true, NULL);
        look_after_all(s);
        trn__dispatch(s);
        renew_at_ns = now_ns + step_ns(s);
      }
      if (follows) {
        follow_all(s);
        follow_at_ns = now_ns + (int64_t)s->poll_ms * 1000000;
      }
      pthread_mutex_lock(&s->mu);
    } else if (!s->active && !s->followed) {
      pthread_cond_wait(&s->changed, &s->mu);
    } else {
      int64_t due_ns = s->active && (!s->followed || renew_at_ns < follow_at_ns) ? renew_at_ns : follow_at_ns;
      trn__wait_until(&s->changed, &s->mu, due_ns);
    }
  }
  pthread_mutex_unlock(&s->mu);
  stop_following(s);
  return NULL;
}

trn_status trn__keeper_start(trn_scheduler *s, trn_error **error) {
  trn_status status = TRN_OK;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return trn__no_memory(error);
  pthread_attr_setstacksize(&attributes, TRN_STACK_BYTES); /* the last reference to a session may go here */
  pthread_mutex_lock(&s->mu);
  if (s->is_stopping) {
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the scheduler has stopped");
  } else if (!s->has_keeper) {
    s->has_keeper = pthread_create(&s->keeper, &attributes, keeper_run, s) == 0;
    if (!s->has_keeper) status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no thread can be had");
  }
  pthread_mutex_unlock(&s->mu);
  pthread_attr_destroy(&attributes);
  return status;
}
