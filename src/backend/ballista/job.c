/* A job: submitted, followed until it is over, cancelled with care, cleaned up. */
#include "backend/ballista/backend.h"

#include <stdio.h>

static void poll(void *argument);
static void poll_later(trn_ballista_run *run);

/* ---- life ---- */

trn_ballista_run *trn__ballista_run_ref(trn_ballista_run *run) {
  atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed);
  return run;
}

void trn__ballista_run_unref(void *self) {
  trn_ballista_run *run = self;
  if (!run || atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) != 1) return;
  if (run->slots) trn__ballista_output_finish(run);
  trn__ballista_job_unref(run->job);
  trn_error_unref(run->error);
  trn__schema_release(&run->schema);
  trn__strbuf_finish(&run->schema_ipc);
  trn_plan_unref(run->plan);
  trn__ballista_push_unref(run->push);
  free(run->asked_id);
  free(run->told_id);
  pthread_mutex_destroy(&run->mu);
  trn__ballista_unref(run->backend);
  free(run);
}

trn_ballista_run *trn__ballista_run_create(trn_ballista *b, const trn_execute_request *request,
                                           const struct ArrowSchema *schema, trn_error **error) {
  trn_ballista_run *run = calloc(1, sizeof *run);
  if (!run) {
    trn__no_memory(error);
    return NULL;
  }
  atomic_init(&run->refs, 1);
  atomic_init(&run->state, TRN_OPERATION_PLANNING);
  atomic_init(&run->is_read, false);
  pthread_mutex_init(&run->mu, NULL);
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  run->backend = b;
  run->plan = trn_plan_ref(request->plan);
  trn_status status = schema ? trn__schema_copy(schema, &run->schema) : trn_plan_schema(request->plan, &run->schema);
  if (!status) status = trn__ipc_write_schema(&run->schema, &run->schema_ipc);
  if (!status) return run;
  trn_error_set(error, status, NULL, "the result's schema cannot be written as Arrow IPC");
  trn__ballista_run_unref(run);
  return NULL;
}

void trn__ballista_ignored(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  (void)user, (void)status, (void)error, (void)reply;
}

static const char *id_of(const trn_ballista_run *run) {
  return atomic_load(&run->job_id);
}

/* ---- its end ---- */

void trn__ballista_run_ended(trn_ballista_run *run, trn_status status) {
  int running = TRN_OPERATION_RUNNING, planning = TRN_OPERATION_PLANNING;
  int end = status == TRN_OK          ? TRN_OPERATION_FINISHED
            : status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED
                                      : TRN_OPERATION_FAILED;
  if (!atomic_compare_exchange_strong(&run->state, &running, end))
    atomic_compare_exchange_strong(&run->state, &planning, end);
  pthread_mutex_lock(&run->mu);
  bool cleans = run->job && !run->is_cleaned; /* output is only there after success */
  run->is_cleaned |= cleans;
  pthread_mutex_unlock(&run->mu);
  if (cleans) trn__ballista_clean(run->backend->client, id_of(run), trn__ballista_ignored, NULL, NULL);
}

void trn__ballista_run_fail(trn_ballista_run *run, trn_status status, trn_error *error) {
  pthread_mutex_lock(&run->mu);
  bool is_first = !run->status && !run->is_cancelled;
  if (is_first) run->status = status, run->error = error, error = NULL;
  pthread_mutex_unlock(&run->mu);
  trn_error_unref(error);
  if (!is_first) { /* a pull that could not be answered when it was cancelled is answered now */
    trn__ballista_output_wake(run, true);
    return;
  }
  trn__ballista_output_stop(run);
  trn__ballista_run_ended(run, status);
  trn__ballista_output_wake(run, true);
}

/* ---- following ---- */

/* False: it was over already. A job may be told of by a push and by a question at once. locks: run->mu held */
static bool claim_end(trn_ballista_run *run) {
  if (run->is_final) return false;
  run->is_final = true;
  atomic_fetch_sub(&run->backend->following, 1);
  return true;
}

/* Nothing that is pushed is wanted any more. locks: none */
static void stop_push(trn_ballista_run *run) {
  pthread_mutex_lock(&run->mu);
  trn_ballista_push *push = run->push; /* lives as long as the run */
  pthread_mutex_unlock(&run->mu);
  if (push) trn__ballista_push_cancel(push);
}

/* A finished job: its output is fetched, unless nobody wants it. */
static void succeed(trn_ballista_run *run, trn_ballista_job *job) {
  size_t count = job->location_count;
  trn_error *error = NULL;
  trn_ballista_slot *slots = calloc(count ? count : 1, sizeof *slots);
  for (size_t i = 0; slots && i < count; i++) {
    slots[i].run = run;
    slots[i].last = &slots[i].first;
  }
  if (!slots) (void)trn__no_memory(&error);
  pthread_mutex_lock(&run->mu);
  if (!claim_end(run)) {
    pthread_mutex_unlock(&run->mu);
    trn_error_unref(error);
    free(slots);
    return;
  }
  run->job = trn__ballista_job_ref(job);
  run->slots = slots;
  bool is_wanted = !run->is_cancelled && !run->status, is_held = run->is_held;
  if (is_wanted && !slots) { /* under this lock: nobody looks for slots that are not there */
    run->status = TRN_RESOURCE_EXHAUSTED;
    run->error = error, error = NULL;
  }
  pthread_mutex_unlock(&run->mu);
  trn_error_unref(error);
  if (is_wanted && !slots) {
    trn__ballista_run_ended(run, TRN_RESOURCE_EXHAUSTED);
    trn__ballista_output_wake(run, true);
  } else if (is_wanted && is_held) {
    atomic_store(&run->state, TRN_OPERATION_FINISHED); /* its output lies where it is */
  } else if (is_wanted) {
    trn__ballista_output_begin(run);
  } else {
    trn__ballista_run_ended(run, TRN_CANCELLED);
    trn__ballista_output_wake(run, true);
  }
}

/* Takes the error. */
static void end_with(trn_ballista_run *run, trn_status status, trn_error *error) {
  pthread_mutex_lock(&run->mu);
  bool is_first = claim_end(run);
  pthread_mutex_unlock(&run->mu);
  if (is_first)
    trn__ballista_run_fail(run, status, error);
  else
    trn_error_unref(error);
}

/* At most so long between two questions: a short job is not made longer by them, and many jobs do not ask too much. */
static unsigned longest_pause(const trn_ballista_run *run) {
  int64_t taken_ms = (trn__now_ns() - run->submitted_ns) / 1000000;
  unsigned pause = taken_ms < TRN_BALLISTA_POLL_QUICK_MS        ? TRN_BALLISTA_POLL_QUICK
                   : taken_ms < TRN_BALLISTA_POLL_SLOW_AFTER_MS ? TRN_BALLISTA_POLL_MS
                                                                : TRN_BALLISTA_POLL_MS_MAX;
  pause *= 1 + atomic_load(&run->backend->following) / TRN_BALLISTA_POLL_JOBS;
  return pause < TRN_BALLISTA_POLL_MS_MAX ? pause : TRN_BALLISTA_POLL_MS_MAX;
}

/* Nobody looks after the job any more: it is cancelled if that can be. */
static void give_up(trn_ballista_run *run, trn_status status, trn_error *error) {
  trn__ballista_cancel(run->backend->client, id_of(run), trn__ballista_ignored, NULL, NULL);
  end_with(run, status, error);
}

/* Waits longer the longer the job takes. Takes the reference of the poll that was. */
static void poll_later(trn_ballista_run *run) {
  unsigned longest = longest_pause(run);
  pthread_mutex_lock(&run->mu);
  bool is_over = run->is_final; /* a push has said so */
  unsigned delay = run->poll_ms < longest ? run->poll_ms : longest;
  run->poll_ms = delay + delay / 4 + 1;
  pthread_mutex_unlock(&run->mu);
  if (is_over) {
    trn__ballista_run_unref(run);
    return;
  }
  if (!atomic_load(&run->backend->is_closing) && !trn__ballista_after(run->backend->client, delay, poll, run)) return;
  trn_error *error = NULL;
  trn_status status = trn_error_set(&error, TRN_UNAVAILABLE, NULL, "job %s is not followed any more", id_of(run));
  give_up(run, status, error);
  trn__ballista_run_unref(run);
}

/* The scheduler cannot be asked: once more, then the query fails. Takes the reference of the poll. */
static void poll_missed(trn_ballista_run *run, trn_status status, const trn_error *why) {
  trn_error *error = NULL;
  if (++run->misses < TRN_BALLISTA_MISSES_MAX) {
    poll_later(run);
    return;
  }
  status = trn_error_set(&error, status, NULL, "job %s was lost: %s", id_of(run), trn_error_message(why));
  give_up(run, status, error);
  trn__ballista_run_unref(run);
}

/* A scheduler that has just taken a job may not tell of it yet; one that was started again never will. */
static void poll_unknown(trn_ballista_run *run) {
  trn_error *error = NULL;
  bool is_young = trn__now_ns() - run->submitted_ns < TRN_BALLISTA_UNKNOWN_MS * INT64_C(1000000);
  pthread_mutex_lock(&run->mu);
  bool is_seen = run->is_seen;
  pthread_mutex_unlock(&run->mu);
  if (!is_seen && is_young) {
    poll_later(run);
    return;
  }
  trn_status status = trn_error_set(&error, TRN_UNAVAILABLE, NULL,
                                    "the Ballista scheduler at %s does not know job %s any more: it was started again",
                                    trn__ballista_client_target(run->backend->client), id_of(run));
  end_with(run, status, error);
  trn__ballista_run_unref(run);
}

bool trn__ballista_run_told(trn_ballista_run *run, trn_ballista_job *job) {
  trn_error *error = NULL;
  trn_status status;
  switch (job->state) {
  case TRN_BALLISTA_UNKNOWN: return false;
  case TRN_BALLISTA_QUEUED:
  case TRN_BALLISTA_RUNNING: {
    int planning = TRN_OPERATION_PLANNING;
    if (job->state == TRN_BALLISTA_RUNNING)
      atomic_compare_exchange_strong(&run->state, &planning, TRN_OPERATION_RUNNING);
    pthread_mutex_lock(&run->mu);
    run->is_seen = true;
    bool cancels = run->is_cancelled;
    pthread_mutex_unlock(&run->mu);
    /* A cancel is lost on a job that is being planned: again, until it is over. */
    if (cancels) {
      trn__ballista_cancel(run->backend->client, id_of(run), trn__ballista_ignored, NULL, NULL);
      trn__ballista_run_follow(run);
    }
    return false;
  }
  case TRN_BALLISTA_FAILED:
    status = trn__ballista_job_error(id_of(run), job->error, &error);
    end_with(run, status, error);
    break;
  case TRN_BALLISTA_CANCELLED:
    status = trn_error_set(&error, TRN_CANCELLED, NULL, "job %s was cancelled", id_of(run));
    end_with(run, status, error);
    break;
  case TRN_BALLISTA_SUCCESSFUL: succeed(run, job); break;
  }
  return true;
}

static void polled(void *user, trn_status status, const trn_error *why, const trn_ballista_reply *reply) {
  trn_ballista_run *run = user;
  if (status) {
    poll_missed(run, status, why);
    return;
  }
  run->misses = 0;
  if (reply->job->state == TRN_BALLISTA_UNKNOWN) {
    poll_unknown(run);
  } else if (!trn__ballista_run_told(run, reply->job)) {
    poll_later(run);
  } else {
    stop_push(run);
    trn__ballista_run_unref(run);
  }
}

/* Has a reference of the run, which the completion takes over. */
static void poll(void *argument) {
  trn_ballista_run *run = argument;
  trn_error *error = NULL;
  trn_status status = trn__ballista_job_status(run->backend->client, id_of(run), polled, run, &error);
  if (!status) return;
  poll_missed(run, status, error);
  trn_error_unref(error);
}

/* The scheduler has never said which job is the query's, and will not. */
static void end_unknown(trn_ballista_run *run) {
  trn_error *error = NULL;
  trn_status status = trn_error_set(&error, TRN_UNAVAILABLE, NULL,
                                    "the Ballista scheduler at %s did not say what became of the query",
                                    trn__ballista_client_target(run->backend->client));
  end_with(run, status, error);
}

void trn__ballista_run_follow(trn_ballista_run *run) {
  if (!id_of(run)) {
    end_unknown(run);
    return;
  }
  pthread_mutex_lock(&run->mu);
  bool begins = !run->is_polled && !run->is_final;
  run->is_polled |= begins;
  pthread_mutex_unlock(&run->mu);
  if (begins) poll_later(trn__ballista_run_ref(run));
}

/* ---- cancelling ---- */

void trn__ballista_run_cancel(void *self) {
  trn_ballista_run *run = self;
  pthread_mutex_lock(&run->mu);
  bool is_first = !run->is_cancelled && !run->status && !run->is_cleaned;
  if (is_first) run->is_cancelled = true;
  bool runs = is_first && !run->is_final && id_of(run), has_output = is_first && run->job;
  run->poll_ms = TRN_BALLISTA_POLL_FIRST_MS;
  pthread_mutex_unlock(&run->mu);
  if (!is_first) return;
  /* Whether the job is over by now is not known: if so, its output goes with it, which nobody wants any more. */
  if (runs) {
    trn__ballista_cancel(run->backend->client, id_of(run), trn__ballista_ignored, NULL, NULL);
    trn__ballista_run_follow(run); /* a push says nothing while a job goes on, and once may be too early */
  }
  if (has_output) trn__ballista_output_stop(run);
  trn__ballista_run_ended(run, TRN_CANCELLED);
  /* Never inline; without memory, what happens next to the job or its fetches answers the pull. */
  trn__ballista_output_wake(run, false);
}

void trn__ballista_run_abandon(trn_ballista_run *run, trn_status status) {
  bool may_run = status == TRN_CANCELLED || status == TRN_DEADLINE_EXCEEDED || status == TRN_UNAVAILABLE ||
                 status == TRN_RESOURCE_EXHAUSTED;
  /* Followed until it is over, so that no cancel is lost; one that is pushed once its id is known. */
  if (may_run && (id_of(run) || run->push)) {
    trn__ballista_run_cancel(run);
    return;
  }
  pthread_mutex_lock(&run->mu);
  claim_end(run);
  pthread_mutex_unlock(&run->mu);
}

/* ---- the operation ---- */

static trn_operation_state operation_state(void *self) {
  return (trn_operation_state)atomic_load(&((trn_ballista_run *)self)->state);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  trn_ballista_run *run = self;
  if (atomic_exchange(&run->is_read, true))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result of this operation can be read once");
  trn_status status = trn_stream_create(&trn__ballista_stream_ops, trn__ballista_run_ref(run), out);
  if (!status) {
    pthread_mutex_lock(&run->mu);
    bool begins = run->is_held && run->job && !run->is_cancelled && !run->status;
    run->is_held = false;
    pthread_mutex_unlock(&run->mu);
    if (begins) trn__ballista_output_begin(run);
    return TRN_OK;
  }
  trn__ballista_run_unref(run);
  atomic_store(&run->is_read, false);
  return trn__no_memory(error);
}

static trn_status operation_locations(void *self, void (*each)(void *user, const trn_result_location *location),
                                      void *user, trn_error **error) {
  trn_ballista_run *run = self;
  pthread_mutex_lock(&run->mu);
  trn_status status = run->is_cancelled ? TRN_CANCELLED : run->status;
  trn_error *why = run->error ? trn_error_ref(run->error) : NULL;
  trn_ballista_job *job = !status && run->job ? trn__ballista_job_ref(run->job) : NULL;
  pthread_mutex_unlock(&run->mu);
  if (status && why && error) {
    *error = why;
    return status;
  }
  trn_error_unref(why);
  if (status) return trn_error_set(error, status, NULL, "the query was cancelled");
  if (!job) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the job is not over");
  if (job->is_proxied) {
    status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the output is to be fetched through a proxy");
  } else {
    for (size_t i = 0; i < job->location_count; i++) {
      const trn_ballista_location *l = &job->locations[i];
      const trn_result_location location = {sizeof location,    l->job_id,  l->stage_id, l->partition_id,
                                            l->executor_id,     l->host,    l->port,     l->has_file_id,
                                            l->is_sort_shuffle, l->file_id, l->rows,     l->bytes};
      each(user, &location);
    }
  }
  trn__ballista_job_unref(job);
  return status;
}

static void operation_destroy(void *self) {
  trn_ballista_run *run = self;
  if (!atomic_load(&run->is_read)) trn__ballista_run_cancel(run); /* with a stream it is the stream that says so */
  trn__ballista_run_unref(run);
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = trn__ballista_run_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = trn__ballista_run_metrics,
                                                .destroy = operation_destroy,
                                                .locations = operation_locations};

trn_status trn__ballista_run_operation(trn_ballista_run *run, const char *id, trn_operation **out) {
  return trn_operation_create(&operation_ops, run, id, out);
}
