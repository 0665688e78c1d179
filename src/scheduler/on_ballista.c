/* Jobs on a Ballista scheduler elsewhere, also a stock one: submitted by a call that gives its job's id, which is
 * recorded before anything else happens; then asked for its status until it is over. */
#include <stdio.h>

#include "scheduler/remote.h"

#define PLAN_FORMAT "ballista.logical.v1"
enum { ASK_FIRST_MS = 10, ASK_MS_MAX = 500, UNKNOWN_MAX = 40, SILENT_MAX = 12 };

typedef struct on_ballista {
  trn_ballista_client *client;
  trn_arena *arena; /* what the options said */
  trn_ballista_options options;
} on_ballista;

/* Asked for by one question at a time: what only the answers touch needs no lock. */
typedef struct remote_run {
  atomic_size_t refs; /* the job's; the question's */
  on_ballista *b;
  trn_job *job;
  trn_job_attempt attempt;
  char *backend_id;
  atomic_bool is_cancelled, is_abandoned;
  unsigned ask_ms, unknown, silent;
  bool is_seen;
  /* the last answer */
  trn_status status;
  trn_error *error;
  trn_ballista_job *told;
} remote_run;

static void forget_answer(remote_run *r) {
  trn_error_unref(r->error);
  r->error = NULL;
  if (r->told) trn__ballista_job_unref(r->told);
  r->told = NULL;
}

static void run_unref(remote_run *r) {
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  forget_answer(r);
  free(r->backend_id);
  trn_job_unref(r->job);
  free(r);
}

/* ---- one question, waited for. thread: worker ---- */

typedef struct question {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool is_answered;
  trn_status status;
  trn_error *error;
  char *text; /* a job's id, or metrics */
  trn_ballista_job *job;
} question;

static void question_init(question *q) {
  *q = (question){0};
  pthread_mutex_init(&q->mu, NULL);
  pthread_cond_init(&q->changed, NULL);
}

static void on_answer(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  question *q = user;
  pthread_mutex_lock(&q->mu);
  q->status = status;
  q->error = error ? trn_error_ref((trn_error *)error) : NULL;
  const char *text = !status && reply ? (reply->job_id ? reply->job_id : reply->metrics) : NULL;
  q->text = trn__text_copy(text);
  if (text && !q->text) q->status = trn__no_memory(&q->error);
  if (!status && reply && reply->job) q->job = trn__ballista_job_ref(reply->job);
  q->is_answered = true;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
}

/* `asked`: of the function that asked: not OK: there is no answer. Gives `*error`. */
static trn_status question_wait(question *q, trn_status asked, trn_error **error) {
  if (asked) return asked;
  pthread_mutex_lock(&q->mu);
  while (!q->is_answered) pthread_cond_wait(&q->changed, &q->mu);
  pthread_mutex_unlock(&q->mu);
  if (error)
    *error = q->error;
  else
    trn_error_unref(q->error);
  q->error = NULL;
  return q->status;
}

static void question_finish(question *q) {
  free(q->text);
  if (q->job) trn__ballista_job_unref(q->job);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->mu);
}

static void ignore(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  (void)user, (void)status, (void)error, (void)reply;
}

/* What a scheduler that takes names for ids calls a job of this name: in small letters. False: it does not take it. */
static bool id_there(const char *name, char out[TRN_UUID_SIZE]) {
  if (!trn__uuid_is_valid(name)) return false;
  size_t i = 0;
  for (; name[i]; i++) out[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + ('a' - 'A') : name[i]);
  out[i] = 0;
  return true;
}

/* A job that was handed over, but whose answer never came: a scheduler that takes names for ids (trunnion-ballista) is
 * asked by ours. Gives what it calls it (free). NOT_FOUND: it has none, or another scheduler's ids say nothing. */
static trn_status find_there(on_ballista *b, const char *id, char **out, trn_error **error) {
  question q;
  char there[TRN_UUID_SIZE];
  *out = NULL;
  if (!id_there(id, there)) return trn_error_set(error, TRN_NOT_FOUND, NULL, "job %s was not handed over", id);
  question_init(&q);
  trn_status status = question_wait(&q, trn__ballista_job_status(b->client, there, on_answer, &q, error), error);
  if (status == TRN_NOT_FOUND) status = TRN_UNAVAILABLE; /* not of the job: of the method */
  bool is_known = !status && q.job->state != TRN_BALLISTA_UNKNOWN && strcmp(q.job->name, id) == 0;
  if (!status && !is_known)
    status = trn_error_set(error, TRN_NOT_FOUND, NULL, "the cluster has no job of the name %s", id);
  if (!status && !(*out = trn__text_copy(there))) status = trn__no_memory(error);
  question_finish(&q);
  return status;
}

/* ---- its end ---- */

static void succeed(remote_run *r) {
  const trn_ballista_job *told = r->told;
  trn_job_location *locations = NULL;
  trn_error *error = NULL;
  question q;
  trn_job_record record = {.struct_size = sizeof record, .id = r->attempt.id, .state = TRN_JOB_SUCCEEDED};
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena ? trn__remote_locations(arena, r->b->client, told, &locations) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    trn__job_failed(r->job, trn__no_memory(&error), error);
  } else {
    question_init(&q);
    if (!question_wait(&q, trn__ballista_job_metrics(r->b->client, r->backend_id, on_answer, &q, NULL), NULL))
      record.metrics = q.text;
    for (size_t i = 0; i < told->location_count; i++) {
      if (locations[i].rows > 0) record.rows += locations[i].rows;
      if (locations[i].bytes > 0) record.bytes += locations[i].bytes;
    }
    record.locations = locations;
    record.location_count = told->location_count;
    trn__job_ended(r->job, &record);
    question_finish(&q);
  }
  trn_error_unref(error);
  trn__arena_unref(arena);
}

static void fail(remote_run *r, trn_status status, const char *text) {
  trn_error *error = NULL;
  if (status)
    trn_error_set(&error, status, NULL, "%s", text);
  else
    status = trn__ballista_job_error(r->backend_id, text, &error);
  trn__job_failed(r->job, status, error);
  trn_error_unref(error);
}

/* ---- asking ---- */

static void ask(void *run);

static void on_status(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply);

/* How many stages and tasks are done: "stage" and "partitions" of the metrics, which has those that are. */
static void count_done(remote_run *r) {
  question q;
  trn_job_counts counts = {0};
  question_init(&q);
  if (!question_wait(&q, trn__ballista_job_metrics(r->b->client, r->backend_id, on_answer, &q, NULL), NULL) && q.text) {
    for (const char *at = q.text; (at = strstr(at, "{\"stage\":")); at++) {
      const char *tasks = strstr(at, "\"partitions\":");
      counts.stages_done++;
      counts.tasks_done += tasks ? (uint32_t)strtoul(tasks + strlen("\"partitions\":"), NULL, 10) : 0;
    }
    trn__job_progress(r->job, &counts);
  }
  question_finish(&q);
}

/* True: it is over, and was said to be. thread: worker */
static bool look(remote_run *r) {
  bool is_cancelled = atomic_load(&r->is_cancelled);
  trn_ballista_state state = r->told ? r->told->state : TRN_BALLISTA_UNKNOWN;
  if (atomic_load(&r->is_abandoned)) {
    if (is_cancelled) { /* nobody asks again: waits until it was heard, for the client may go next */
      question q;
      question_init(&q);
      (void)question_wait(&q, trn__ballista_cancel(r->b->client, r->backend_id, on_answer, &q, NULL), NULL);
      question_finish(&q);
    }
    fail(r, TRN_CANCELLED, "given up");
    return true;
  }
  if (r->status) { /* nobody answers, or nonsense: somebody else may find the job later */
    if (++r->silent < SILENT_MAX) return false;
    trn__job_lost(r->job);
    return true;
  }
  r->silent = 0;
  switch (state) {
  case TRN_BALLISTA_SUCCESSFUL: succeed(r); return true;
  case TRN_BALLISTA_FAILED: fail(r, TRN_OK, r->told->error); return true;
  case TRN_BALLISTA_CANCELLED: fail(r, TRN_CANCELLED, "The job was cancelled"); return true;
  case TRN_BALLISTA_UNKNOWN: /* not yet, or not any more */
    if (!r->is_seen && ++r->unknown < UNKNOWN_MAX) return false;
    trn__job_lost(r->job);
    return true;
  default: break;
  }
  r->is_seen = true;
  /* One that is being planned does not hear it: again and again. */
  if (is_cancelled)
    (void)trn__ballista_cancel(r->b->client, r->backend_id, ignore, NULL, NULL);
  else if (state == TRN_BALLISTA_RUNNING)
    count_done(r);
  return false;
}

/* thread: worker */
static void look_and_ask(void *run) {
  remote_run *r = run;
  if (look(r)) {
    run_unref(r);
    return;
  }
  forget_answer(r);
  r->ask_ms = r->ask_ms * 3 / 2 < ASK_MS_MAX ? r->ask_ms * 3 / 2 : ASK_MS_MAX;
  if (atomic_load(&r->is_cancelled)) r->ask_ms = ASK_FIRST_MS;
  if (!trn__ballista_after(r->b->client, r->ask_ms, ask, r)) return;
  trn__job_lost(r->job); /* no thread, no memory: but it goes on */
  run_unref(r);
}

/* thread: the connector's: a worker looks at it */
static void on_status(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  remote_run *r = user;
  r->status = status;
  r->error = error ? trn_error_ref((trn_error *)error) : NULL;
  r->told = !status && reply && reply->job ? trn__ballista_job_ref(reply->job) : NULL;
  if (trn__pool_submit(r->attempt.pool, look_and_ask, r)) look_and_ask(r);
}

static void ask(void *run) {
  remote_run *r = run;
  trn_status status = atomic_load(&r->is_abandoned)
                          ? TRN_CANCELLED
                          : trn__ballista_job_status(r->b->client, r->backend_id, on_status, r, NULL);
  if (status) on_status(r, status, NULL, NULL);
}

/* ---- the runner ---- */

static trn_status run_create(on_ballista *b, trn_job *job, remote_run **out, trn_error **error) {
  remote_run *r = calloc(1, sizeof *r);
  *out = r;
  if (!r) return trn__no_memory(error);
  atomic_init(&r->refs, 1);
  atomic_init(&r->is_cancelled, false);
  atomic_init(&r->is_abandoned, false);
  r->b = b;
  r->job = trn_job_ref(job);
  r->ask_ms = ASK_FIRST_MS;
  trn__job_attempt(job, &r->attempt);
  return TRN_OK;
}

/* Hands it over. Gives what the cluster calls it. */
static trn_status hand_over(remote_run *r, trn_plan *plan, trn_error **error) {
  trn_bytes bytes = {0};
  trn_ballista_settings settings = {0};
  question q;
  question_init(&q);
  trn_status status = trn_backend_encode(r->attempt.session, plan, PLAN_FORMAT, &bytes, error);
  trn_slice encoded = {bytes.data, bytes.size, bytes.release, bytes.owner};
  if (!status)
    status = trn__ballista_settings_collect(&r->b->options, r->attempt.session, r->attempt.id, &settings, error);
  if (!status) {
    trn_ballista_query query = {.kind = TRN_BALLISTA_LOGICAL,
                                .plan = encoded,
                                .session_id = trn_session_id(r->attempt.session),
                                .settings = settings.items,
                                .setting_count = settings.count,
                                .operation_id = r->attempt.id};
    status = question_wait(&q, trn__ballista_execute(r->b->client, &query, on_answer, &q, error), error);
  } else if (encoded.release) {
    encoded.release(encoded.owner);
  }
  trn__ballista_settings_finish(&settings);
  if (!status) r->backend_id = q.text, q.text = NULL;
  question_finish(&q);
  return status;
}

static void begin_asking(remote_run *r, void **run) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  *run = r;
  ask(r);
}

/* The answer did not come: was it taken all the same? `failed`: how handing over ended; else that stays. */
static trn_status find_taken(remote_run *r, trn_status failed, trn_error **error) {
  trn_error *own = NULL;
  if (failed != TRN_UNAVAILABLE && failed != TRN_DEADLINE_EXCEEDED) return failed;
  trn_status status = find_there(r->b, r->attempt.id, &r->backend_id, &own);
  trn_error_unref(own);
  if (status) return failed;
  if (error) trn_error_unref(*error), *error = NULL;
  return TRN_OK;
}

static bool is_abandoned(trn_job *job) {
  pthread_mutex_lock(&job->mu);
  bool is = job->is_abandoned;
  pthread_mutex_unlock(&job->mu);
  return is;
}

/* `is_there`: it was handed over before, and is known by its name. */
static trn_status begin(remote_run *r, bool is_there, trn_error **error) {
  char there[TRN_UUID_SIZE];
  bool has_name = id_there(r->attempt.id, there);
  bool is_found = is_there, is_taken = false; /* by its name; by somebody else */
  trn_plan *plan = NULL;
  trn_strbuf schema = {0};
  trn_error *own = NULL;
  trn_status status = trn__job_plan(r->job, &plan, error);
  if (!status) status = trn__remote_schema(plan, &schema, error);
  if (!status && is_there) status = find_there(r->b, r->attempt.id, &r->backend_id, error);
  if (!status && !is_there) {
    status = find_taken(r, hand_over(r, plan, &own), &own);
    if (error)
      *error = own;
    else
      trn_error_unref(own);
  }
  if (!status) {
    is_found = has_name && strcmp(r->backend_id, there) == 0;
    own = NULL;
    status = trn__job_known_as(r->job, r->backend_id, (trn_slice){.data = schema.data, .size = schema.size}, &own);
    is_taken = status == TRN_ABORTED;
    /* The next word to the store says it; whoever looks for it meanwhile finds it, and it must not end under them. */
    if (is_found && status == TRN_UNAVAILABLE) status = TRN_OK;
    if (status && error)
      *error = own;
    else
      trn_error_unref(own);
  }
  /* Nobody would find it; but what has our name is whose it is by now. */
  const char *unread = r->backend_id ? r->backend_id : is_there && has_name ? there : NULL;
  bool is_others = is_found && (is_taken || is_abandoned(r->job));
  if (status && unread && !is_others) (void)trn__ballista_cancel(r->b->client, unread, ignore, NULL, NULL);
  trn__strbuf_finish(&schema);
  trn_plan_unref(plan);
  return status;
}

static trn_status start(void *self, trn_job *job, void **run, trn_error **error) {
  remote_run *r = NULL;
  trn_status status = run_create(self, job, &r, error);
  if (!status) status = begin(r, false, error);
  if (status)
    run_unref(r);
  else
    begin_asking(r, run);
  return status;
}

static trn_status attach(void *self, trn_job *job, void **run, trn_error **error) {
  remote_run *r = NULL;
  trn_status status = run_create(self, job, &r, error);
  if (!status && !r->attempt.backend_id) {
    status = begin(r, true, error);
  } else if (!status) {
    r->backend_id = trn__text_copy(r->attempt.backend_id);
    if (!r->backend_id) status = trn__no_memory(error);
  }
  if (!status) r->is_seen = true;
  if (status)
    run_unref(r);
  else
    begin_asking(r, run);
  return status;
}

static trn_status probe(void *self, const trn_job_record *record, trn_error **error) {
  on_ballista *b = self;
  question q;
  if (!record->backend_id) {
    char *found = NULL;
    trn_status looked = find_there(b, record->id, &found, error);
    free(found);
    return looked;
  }
  question_init(&q);
  trn_status status =
      question_wait(&q, trn__ballista_job_status(b->client, record->backend_id, on_answer, &q, error), error);
  if (status == TRN_NOT_FOUND) status = TRN_UNAVAILABLE; /* not of the job: of the method */
  if (!status && q.job->state == TRN_BALLISTA_UNKNOWN)
    status = trn_error_set(error, TRN_NOT_FOUND, NULL, "the cluster does not know job %s", record->id);
  question_finish(&q);
  return status;
}

static void cancel(void *run) {
  atomic_store(&((remote_run *)run)->is_cancelled, true);
} /* heard by the next question */
static void abandon(void *run) {
  atomic_store(&((remote_run *)run)->is_abandoned, true);
}
static void close_run(void *run) {
  run_unref(run);
}

static trn_status output(void *self, const trn_job_record *record, trn_stream **out, trn_error **error) {
  return trn__remote_output_open(((on_ballista *)self)->client, record, out, error);
}

/* Only what succeeded has data there: the cluster removes the others' itself. */
static void remove_output(void *self, const trn_job_record *record, bool all) {
  (void)all;
  if (record->backend_id && record->state == TRN_JOB_SUCCEEDED)
    (void)trn__ballista_clean(((on_ballista *)self)->client, record->backend_id, ignore, NULL, NULL);
}

static void destroy(void *self) {
  on_ballista *b = self;
  if (b->client) trn__ballista_client_unref(b->client);
  trn__arena_unref(b->arena);
  free(b);
}

static const trn_runner_ops runner = {.start = start,
                                      .probe = probe,
                                      .attach = attach,
                                      .cancel = cancel,
                                      .abandon = abandon,
                                      .close = close_run,
                                      .output = output,
                                      .remove = remove_output,
                                      .destroy = destroy};

/* ---- life ---- */

static bool keep_settings(on_ballista *b) {
  trn_ballista_options *o = &b->options;
  trn_kv *copy = TRN_NEW_N(b->arena, trn_kv, o->setting_count);
  bool ok = copy != NULL;
  for (size_t i = 0; i < o->setting_count && ok; i++) {
    const char *value = o->settings[i].value;
    copy[i] =
        (trn_kv){trn__arena_strdup(b->arena, o->settings[i].key), value ? trn__arena_strdup(b->arena, value) : NULL};
    ok = copy[i].key && (!value || copy[i].value);
  }
  o->settings = copy;
  return ok;
}

static trn_status open_client(on_ballista *b, trn_error **error) {
  const trn_ballista_options *o = &b->options;
  if (!o->routes && (!o->connector || !o->scheduler || !*o->scheduler))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a cluster needs a connector and a scheduler");
  trn_ballista_client_options options = {.connector = o->connector,
                                         .target = o->scheduler,
                                         .routes = o->routes,
                                         .scheduler_tls = o->scheduler_tls,
                                         .executor_tls = o->executor_tls,
                                         .ca_pem = o->ca_pem,
                                         .cert_pem = o->cert_pem,
                                         .key_pem = o->key_pem,
                                         .metadata = o->metadata,
                                         .metadata_count = o->metadata_count,
                                         .timeout_ms = o->timeout_ms};
  return trn__ballista_client_create(&options, &b->client, error);
}

trn_status trn_scheduler_create_ballista(const trn_scheduler_options *options, const trn_ballista_options *ballista,
                                         trn_backend *local, trn_scheduler **out, trn_error **error) {
  *out = NULL;
  on_ballista *b = calloc(1, sizeof *b);
  if (!b) return trn__no_memory(error);
  memcpy(&b->options, ballista, trn__struct_size(ballista->struct_size, sizeof b->options));
  b->arena = trn__arena_create(0);
  trn_status status = b->arena && keep_settings(b) ? open_client(b, error) : trn__no_memory(error);
  if (!status) return trn__scheduler_create(options, local, &runner, b, out, error);
  destroy(b);
  return status;
}
