/* A job: submitted, followed until it is over, cancelled with care, cleaned up. */
#include "backend/ballista/backend.h"

#include <stdio.h>

static void poll(void *argument);

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
  free(run->job_id);
  pthread_mutex_destroy(&run->mu);
  trn__ballista_unref(run->backend);
  free(run);
}

static trn_ballista_run *run_create(trn_ballista *b, const trn_execute_request *request,
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

/* ---- its end ---- */

static void ignored(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  (void)user, (void)status, (void)error, (void)reply;
}

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
  if (cleans) trn__ballista_clean(run->backend->client, run->job_id, ignored, NULL, NULL);
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
  run->job = trn__ballista_job_ref(job);
  run->slots = slots;
  run->is_final = true;
  atomic_fetch_sub(&run->backend->following, 1);
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

static void end_with(trn_ballista_run *run, trn_status status, trn_error *error) {
  pthread_mutex_lock(&run->mu);
  run->is_final = true;
  pthread_mutex_unlock(&run->mu);
  atomic_fetch_sub(&run->backend->following, 1);
  trn__ballista_run_fail(run, status, error);
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
  trn__ballista_cancel(run->backend->client, run->job_id, ignored, NULL, NULL);
  end_with(run, status, error);
}

/* Waits longer the longer the job takes. Takes the reference of the poll that was. */
static void poll_later(trn_ballista_run *run) {
  unsigned longest = longest_pause(run);
  pthread_mutex_lock(&run->mu);
  unsigned delay = run->poll_ms < longest ? run->poll_ms : longest;
  run->poll_ms = delay + delay / 4 + 1;
  pthread_mutex_unlock(&run->mu);
  if (!atomic_load(&run->backend->is_closing) && !trn__ballista_after(run->backend->client, delay, poll, run)) return;
  trn_error *error = NULL;
  trn_status status = trn_error_set(&error, TRN_UNAVAILABLE, NULL, "job %s is not followed any more", run->job_id);
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
  status = trn_error_set(&error, status, NULL, "job %s was lost: %s", run->job_id, trn_error_message(why));
  give_up(run, status, error);
  trn__ballista_run_unref(run);
}

/* A scheduler that has just taken a job may not tell of it yet; one that was started again never will. */
static void poll_unknown(trn_ballista_run *run) {
  trn_error *error = NULL;
  bool is_young = trn__now_ns() - run->submitted_ns < TRN_BALLISTA_UNKNOWN_MS * INT64_C(1000000);
  if (!run->is_seen && is_young) {
    poll_later(run);
    return;
  }
  trn_status status = trn_error_set(&error, TRN_UNAVAILABLE, NULL,
                                    "the Ballista scheduler at %s does not know job %s any more: it was started again",
                                    trn__ballista_client_target(run->backend->client), run->job_id);
  end_with(run, status, error);
  trn__ballista_run_unref(run);
}

static void polled(void *user, trn_status status, const trn_error *why, const trn_ballista_reply *reply) {
  trn_ballista_run *run = user;
  trn_error *error = NULL;
  if (status) {
    poll_missed(run, status, why);
    return;
  }
  run->misses = 0;
  switch (reply->job->state) {
  case TRN_BALLISTA_UNKNOWN: poll_unknown(run); return;
  case TRN_BALLISTA_QUEUED:
  case TRN_BALLISTA_RUNNING: {
    int planning = TRN_OPERATION_PLANNING;
    run->is_seen = true;
    if (reply->job->state == TRN_BALLISTA_RUNNING)
      atomic_compare_exchange_strong(&run->state, &planning, TRN_OPERATION_RUNNING);
    pthread_mutex_lock(&run->mu);
    bool cancels = run->is_cancelled;
    pthread_mutex_unlock(&run->mu);
    /* A cancel is lost on a job that is being planned: again, until it is over. */
    if (cancels) trn__ballista_cancel(run->backend->client, run->job_id, ignored, NULL, NULL);
    poll_later(run);
    return;
  }
  case TRN_BALLISTA_FAILED:
    status = trn__ballista_job_error(run->job_id, reply->job->error, &error);
    end_with(run, status, error);
    break;
  case TRN_BALLISTA_CANCELLED:
    status = trn_error_set(&error, TRN_CANCELLED, NULL, "job %s was cancelled", run->job_id);
    end_with(run, status, error);
    break;
  case TRN_BALLISTA_SUCCESSFUL: succeed(run, reply->job); break;
  }
  trn__ballista_run_unref(run);
}

/* Has a reference of the run, which the completion takes over. */
static void poll(void *argument) {
  trn_ballista_run *run = argument;
  trn_error *error = NULL;
  trn_status status = trn__ballista_job_status(run->backend->client, run->job_id, polled, run, &error);
  if (!status) return;
  poll_missed(run, status, error);
  trn_error_unref(error);
}

/* ---- cancelling ---- */

void trn__ballista_run_cancel(void *self) {
  trn_ballista_run *run = self;
  pthread_mutex_lock(&run->mu);
  bool is_first = !run->is_cancelled && !run->status && !run->is_cleaned;
  if (is_first) run->is_cancelled = true;
  bool runs = is_first && !run->is_final, has_output = is_first && run->job;
  run->poll_ms = TRN_BALLISTA_POLL_FIRST_MS;
  pthread_mutex_unlock(&run->mu);
  if (!is_first) return;
  /* Whether the job is over by now is not known: if so, its output goes with it, which nobody wants any more. */
  if (runs) trn__ballista_cancel(run->backend->client, run->job_id, ignored, NULL, NULL);
  if (has_output) trn__ballista_output_stop(run);
  trn__ballista_run_ended(run, TRN_CANCELLED);
  /* Never inline; without memory, what happens next to the job or its fetches answers the pull. */
  trn__ballista_output_wake(run, false);
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

/* ---- blocking calls: metrics, and the answer to a submission ---- */

/* Shared by who waits and the call, since who waits may give up. */
typedef struct waiting {
  atomic_size_t refs;
  trn_ballista_client *client;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  /* guarded by mu */
  bool is_done, is_left;
  trn_status status;
  trn_error *error;
  char *text;
} waiting;

static void waiting_unref(waiting *w) {
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  trn_error_unref(w->error);
  trn__ballista_client_unref(w->client);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->mu);
  free(w->text);
  free(w);
}

/* With the reference of the call that is going to be made. NULL: no memory. */
static waiting *waiting_create(trn_ballista_client *client) {
  waiting *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  atomic_init(&w->refs, 2);
  w->client = trn__ballista_client_ref(client);
  pthread_mutex_init(&w->mu, NULL);
  pthread_cond_init(&w->changed, NULL);
  return w;
}

static void answered(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  waiting *w = user;
  const char *text = reply->job_id ? reply->job_id : reply->metrics;
  pthread_mutex_lock(&w->mu);
  w->status = status;
  w->error = error ? trn_error_ref((trn_error *)error) : NULL;
  w->text = !status && text ? strdup(text) : NULL;
  w->is_done = true;
  bool is_left = w->is_left;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mu);
  if (is_left && reply->job_id) trn__ballista_cancel(w->client, reply->job_id, ignored, NULL, NULL);
  waiting_unref(w);
}

/* Until the answer is there, or nobody wants it. locks: w->mu held */
static void wait_while(waiting *w, const trn_cancel *cancel) {
  while (!w->is_done && !trn_cancel_is_requested(cancel)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TRN_BALLISTA_POLL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
    if (cancel)
      pthread_cond_timedwait(&w->changed, &w->mu, &until);
    else
      pthread_cond_wait(&w->changed, &w->mu);
  }
}

/* Waits for what was started with `status`; takes `w`, gives the text (free). thread: none of the connector's. */
static trn_status wait_for(waiting *w, trn_status status, const trn_cancel *cancel, char **text, trn_error **error) {
  if (status) {
    waiting_unref(w); /* there was no call */
    waiting_unref(w);
    return status;
  }
  pthread_mutex_lock(&w->mu);
  wait_while(w, cancel);
  w->is_left = !w->is_done;
  if (w->is_left) {
    status = trn_error_set(error, TRN_CANCELLED, NULL, "the query was cancelled");
  } else if (w->status) {
    status = w->status;
    if (error) *error = w->error, w->error = NULL;
  } else if (!w->text) {
    status = trn__no_memory(error);
  }
  *text = status ? NULL : w->text;
  if (!status) w->text = NULL;
  pthread_mutex_unlock(&w->mu);
  waiting_unref(w);
  return status;
}

static trn_status operation_metrics(void *self, char **out) {
  trn_ballista_run *run = self;
  waiting *w = waiting_create(run->backend->client);
  if (!w) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__ballista_job_metrics(run->backend->client, run->job_id, answered, w, NULL);
  return wait_for(w, status, NULL, out, NULL);
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
                                                .metrics = operation_metrics,
                                                .destroy = operation_destroy,
                                                .locations = operation_locations};

/* ---- submitting ---- */

/* What a stock client sends as well, so that a scheduler's defaults do not matter: joins hang with dynamic filters,
 * physical scalar subqueries have no codec, and files' own layouts of text columns are what we know. */
static const trn_kv safe_settings[] = {
    {"datafusion.optimizer.enable_dynamic_filter_pushdown", "false"},
    {"datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", "false"},
    {"datafusion.execution.parquet.schema_force_view_types", "false"},
    {"datafusion.sql_parser.map_string_types_to_utf8view", "false"},
};
enum { SAFE_COUNT = sizeof safe_settings / sizeof *safe_settings };

static void settings_add(void *user, const char *key, const char *value) {
  trn_ballista_settings *s = user;
  for (size_t i = 0; i < SAFE_COUNT; i++)
    if (strcmp(key, safe_settings[i].key) == 0 && s->count >= SAFE_COUNT) return; /* nobody changes them */
  if (!value || (strncmp(key, "ballista.", 9) != 0 && strncmp(key, "datafusion.", 11) != 0)) return;
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 16;
    trn_kv *items = realloc(s->items, capacity * sizeof *items);
    if (!items) {
      s->failed = true;
      return;
    }
    s->items = items, s->capacity = capacity;
  }
  s->items[s->count] = (trn_kv){strdup(key), strdup(value)};
  s->failed |= !s->items[s->count].key || !s->items[s->count].value;
  s->count++;
}

void trn__ballista_settings_finish(trn_ballista_settings *s) {
  for (size_t i = 0; i < s->count; i++) {
    free((char *)s->items[i].key);
    free((char *)s->items[i].value);
  }
  free(s->items);
}

trn_status trn__ballista_settings_collect(const trn_ballista_options *o, trn_session *session, const char *name,
                                          trn_ballista_settings *out, trn_error **error) {
  *out = (trn_ballista_settings){0};
  for (size_t i = 0; i < SAFE_COUNT; i++) settings_add(out, safe_settings[i].key, safe_settings[i].value);
  for (size_t i = 0; i < o->setting_count; i++) settings_add(out, o->settings[i].key, o->settings[i].value);
  trn_status status = trn_session_each(session, settings_add, out);
  settings_add(out, "ballista.job.name", name);
  if (out->failed) status = TRN_RESOURCE_EXHAUSTED;
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status submit(trn_ballista_run *run, const trn_execute_request *request, trn_session *session,
                         trn_slice plan, trn_error **error) {
  trn_ballista_settings settings;
  trn_status status =
      trn__ballista_settings_collect(&run->backend->options, session, request->operation_id, &settings, error);
  waiting *w = status ? NULL : waiting_create(run->backend->client);
  if (!w) {
    trn__ballista_settings_finish(&settings);
    if (plan.release) plan.release(plan.owner);
    return status ? status : trn__no_memory(error);
  }
  trn_ballista_query query = {.kind = TRN_BALLISTA_LOGICAL,
                              .plan = plan,
                              .session_id = trn_session_id(session),
                              .settings = settings.items,
                              .setting_count = settings.count,
                              .operation_id = request->operation_id};
  status = trn__ballista_execute(run->backend->client, &query, answered, w, error);
  trn__ballista_settings_finish(&settings);
  return wait_for(w, status, request->cancel, &run->job_id, error);
}

trn_status trn__ballista_run_start(trn_ballista *b, const trn_execute_request *request, trn_session *session,
                                   trn_slice plan, const struct ArrowSchema *schema, trn_operation **out,
                                   trn_error **error) {
  trn_ballista_run *run = run_create(b, request, schema, error);
  if (!run) {
    if (plan.release) plan.release(plan.owner);
    return TRN_RESOURCE_EXHAUSTED;
  }
  trn_status status = submit(run, request, session, plan, error);
  if (status) {
    trn__ballista_run_unref(run);
    return status;
  }
  run->submitted_ns = trn__now_ns();
  run->poll_ms = TRN_BALLISTA_POLL_FIRST_MS;
  run->is_held = request->holds_output;
  trn__ballista_run_ref(run); /* the poll's */
  atomic_fetch_add(&b->following, 1);
  if (trn_operation_create(&operation_ops, run, request->operation_id, out)) {
    status = trn__no_memory(error);
    atomic_fetch_sub(&b->following, 1);
    trn__ballista_run_cancel(run); /* once may be too early, which nobody is left to mend */
    trn__ballista_run_unref(run);
    trn__ballista_run_unref(run);
    return status;
  }
  poll_later(run);
  return TRN_OK;
}
