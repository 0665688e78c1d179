/* How a query becomes a job: its settings, the plan sent, the scheduler's answer awaited. A scheduler that takes a job's
 * name for its id (trunnion-ballista) pushes how the job goes on, since what is to be cancelled is known beforehand;
 * others are asked. */
#include "backend/ballista/backend.h"
#include "backend/ballista/client.h"

/* ---- blocking calls: metrics, and the answer to a submission ---- */

/* Shared by who waits and the call, since who waits may give up. */
struct trn_ballista_waiting {
  atomic_size_t refs;
  trn_ballista_client *client;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  int64_t until_ns; /* the call has no end of its own; 0: it has */
  /* guarded by mu */
  bool is_done, is_left;
  trn_status status;
  trn_error *error;
  char *text;
};
typedef struct trn_ballista_waiting waiting;

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

/* True: nobody waits for it any more. */
static bool tell(waiting *w, trn_status status, const trn_error *error, const char *text) {
  pthread_mutex_lock(&w->mu);
  w->status = status;
  w->error = error ? trn_error_ref((trn_error *)error) : NULL;
  w->text = !status && text ? strdup(text) : NULL;
  w->is_done = true;
  bool is_left = w->is_left;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mu);
  return is_left;
}

static void answered(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  waiting *w = user;
  bool is_left = tell(w, status, error, reply->job_id ? reply->job_id : reply->metrics);
  if (is_left && reply->job_id) trn__ballista_cancel(w->client, reply->job_id, trn__ballista_ignored, NULL, NULL);
  waiting_unref(w);
}

/* Until the answer is there, or nobody wants it. locks: w->mu held */
static void wait_while(waiting *w, const trn_cancel *cancel) {
  while (!w->is_done && !trn_cancel_is_requested(cancel) && (!w->until_ns || trn__now_ns() < w->until_ns)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TRN_BALLISTA_POLL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
    if (cancel || w->until_ns)
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
  if (w->is_left && trn_cancel_is_requested(cancel)) {
    status = trn_error_set(error, TRN_CANCELLED, NULL, "the query was cancelled");
  } else if (w->is_left) {
    status = trn_error_set(error, TRN_DEADLINE_EXCEEDED, NULL,
                           "the Ballista scheduler at %s (ExecuteQueryPush) did not answer in time",
                           trn__ballista_client_target(w->client));
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

trn_status trn__ballista_run_metrics(void *self, char **out) {
  trn_ballista_run *run = self;
  const char *id = atomic_load(&run->job_id);
  if (!id) return TRN_UNAVAILABLE; /* it was taken just now */
  waiting *w = waiting_create(run->backend->client);
  if (!w) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__ballista_job_metrics(run->backend->client, id, answered, w, NULL);
  return wait_for(w, status, NULL, out, NULL);
}

/* ---- settings ---- */

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

/* ---- a job that is pushed. thread: the connector's, one at a time ---- */

static void push_taken(void *user) {
  trn_ballista_run *run = user;
  waiting *w = run->taking;
  run->taking = NULL;
  (void)tell(w, TRN_OK, NULL, run->asked_id); /* who left has made the run one that is cancelled */
  waiting_unref(w);
}

/* The scheduler's first word of the job: only now is it known which one is ours. Where the id that was asked for is not
 * its own, it is another scheduler than it was, or the name was taken: by a job of somebody else. False: no memory. */
static bool adopt(trn_ballista_run *run, const char *id) {
  char *own = run->asked_id;
  if (strcmp(id, own) != 0) {
    atomic_store(&run->backend->names_are_ids, false);
    own = run->told_id = strdup(id);
  }
  if (own) atomic_store(&run->job_id, own);
  return own != NULL;
}

static void push_status(void *user, trn_ballista_job *job) {
  trn_ballista_run *run = user;
  bool is_known = atomic_load(&run->job_id);
  if (!is_known && !*job->id) return; /* of which job? */
  if (!is_known && !adopt(run, job->id)) {
    trn_error *error = NULL;
    trn_status status = trn__no_memory(&error);
    trn__ballista_run_fail(run, status, error);
    return;
  }
  if (!trn__ballista_run_told(run, job)) return;
  pthread_mutex_lock(&run->mu);
  trn_ballista_push *push = run->push;
  pthread_mutex_unlock(&run->mu);
  if (push) trn__ballista_push_cancel(push); /* nothing more can come; who does not end the stream is not waited for */
}

static void push_done(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  trn_ballista_run *run = user;
  (void)reply;
  if (run->taking) {
    trn_error *own = NULL;
    const trn_ballista_reply none = {0};
    if (!status) status = trn_error_set(&own, TRN_UNAVAILABLE, NULL, "the Ballista scheduler did not take the query");
    answered(run->taking, status, own ? own : error, &none);
    run->taking = NULL;
    trn_error_unref(own);
  }
  trn__ballista_run_follow(run); /* a stream may end without a job's end */
  trn__ballista_run_unref(run);
}

/* Takes the plan. */
static trn_status start_push(trn_ballista_run *run, const trn_ballista_query *query, waiting *w, trn_error **error) {
  static const trn_ballista_push_handlers handlers = {push_taken, push_status, push_done};
  trn_ballista_push *push = NULL;
  run->taking = w;
  w->until_ns = trn__now_ns() + trn__ballista_timeout_ms(run->backend->client) * INT64_C(1000000);
  trn__ballista_run_ref(run);
  trn_status status = trn__ballista_execute_push(run->backend->client, query, &handlers, run, &push, error);
  if (status) {
    run->taking = NULL;
    trn__ballista_run_unref(run);
    return status;
  }
  pthread_mutex_lock(&run->mu);
  run->push = push;
  bool is_over = run->is_final; /* told of before: nobody could end the stream */
  pthread_mutex_unlock(&run->mu);
  if (is_over) trn__ballista_push_cancel(push);
  return TRN_OK;
}

/* ---- submitting ---- */

/* Can it be pushed? Then its id is chosen; it counts when the scheduler says so. */
static bool choose_id(trn_ballista_run *run, const char *name) {
  if (!atomic_load(&run->backend->names_are_ids) || !name || !trn__uuid_is_valid(name)) return false;
  run->asked_id = strdup(name);
  if (!run->asked_id) return false; /* then it is asked for */
  for (char *c = run->asked_id; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
  return true;
}

/* The scheduler's answer gives the id. */
static trn_status learn_id(trn_ballista_run *run, const char *name, char *id) {
  run->told_id = id;
  atomic_store(&run->job_id, id);
  if (name && trn__uuid_is_valid(name) && strcasecmp(name, id) == 0)
    atomic_store(&run->backend->names_are_ids, true);
  return TRN_OK;
}

/* Takes the plan. */
static trn_status submit(trn_ballista_run *run, const trn_execute_request *request, trn_session *session,
                         trn_slice plan, trn_error **error) {
  const char *name = request->operation_id;
  trn_ballista_settings settings;
  char *id = NULL;
  trn_status status = trn__ballista_settings_collect(&run->backend->options, session, name, &settings, error);
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
                              .operation_id = name};
  bool pushes = choose_id(run, name);
  status = pushes ? start_push(run, &query, w, error)
                  : trn__ballista_execute(run->backend->client, &query, answered, w, error);
  trn__ballista_settings_finish(&settings);
  status = wait_for(w, status, request->cancel, &id, error);
  if (!status && !pushes) return learn_id(run, name, id);
  free(id);
  return status;
}

trn_status trn__ballista_run_start(trn_ballista *b, const trn_execute_request *request, trn_session *session,
                                   trn_slice plan, const struct ArrowSchema *schema, trn_operation **out,
                                   trn_error **error) {
  trn_ballista_run *run = trn__ballista_run_create(b, request, schema, error);
  if (!run) {
    if (plan.release) plan.release(plan.owner);
    return TRN_RESOURCE_EXHAUSTED;
  }
  run->submitted_ns = trn__now_ns();
  run->is_held = request->holds_output;
  atomic_fetch_add(&b->following, 1); /* until its end */
  trn_status status = submit(run, request, session, plan, error);
  if (!status) {
    trn__ballista_run_ref(run); /* the operation's */
    if (trn__ballista_run_operation(run, request->operation_id, out)) {
      trn__ballista_run_unref(run);
      status = trn__no_memory(error);
    }
  }
  if (status)
    trn__ballista_run_abandon(run, status);
  else if (!run->asked_id)
    trn__ballista_run_follow(run);
  trn__ballista_run_unref(run);
  return status;
}
