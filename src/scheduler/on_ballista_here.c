/* Jobs on a Ballista scheduler inside of this process: executors register with it, and it tells of each change before
 * anybody can see it. What it knows dies with the process; outputs of jobs that ended are the executors'. */
#include <stdio.h>

#include "backend/ballista/wire.h"
#include "engine/ballista_abi.h"
#include "engine/engine.h"
#include "scheduler/remote.h"

#define PLAN_FORMAT "ballista.logical.v1"
enum { STOP_WAIT_MS = 5000 };

typedef struct on_here {
  const trn_bsched *library;
  trn_bsched_handle *scheduler;
  trn_ballista_client *client; /* fetches outputs */
  trn_pool *pool;              /* calls that may block, of functions that must not */
  pthread_mutex_t mu;
  trn_map *runs; /* guarded by mu: what the scheduler calls a job -> its run, which has a reference for it */
} on_here;

typedef struct here_run {
  atomic_size_t refs; /* the job's; the map's; of calls on their way */
  on_here *h;
  trn_job *job;
  trn_job_attempt attempt;
  char name[TRN_BSCHED_JOB_ID_MAX + 1]; /* of this attempt there: executors keep files of earlier ones */
  atomic_bool is_over;
} here_run;

static void run_unref(here_run *r) {
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  trn_job_unref(r->job);
  free(r);
}

static here_run *run_ref(here_run *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static here_run *find_run(on_here *h, const char *name) {
  pthread_mutex_lock(&h->mu);
  here_run *r = trn__map_get(h->runs, name, strlen(name));
  if (r) run_ref(r);
  pthread_mutex_unlock(&h->mu);
  return r;
}

static void forget_run(here_run *r) {
  pthread_mutex_lock(&r->h->mu);
  here_run *there = trn__map_remove(r->h->runs, r->name, strlen(r->name));
  pthread_mutex_unlock(&r->h->mu);
  run_unref(there);
}

/* ---- the end ---- */

/* A JobStatus as it is in a GetJobStatusResult. */
static trn_status parse_status(const trn_bsched_event *event, trn_ballista_job **out, trn_error **error) {
  trn_strbuf wrapped = {0};
  trn__wire_put_bytes(&wrapped, 1, event->status, event->status_size);
  trn_status status =
      wrapped.failed ? trn__no_memory(error) : trn__ballista_job_parse(wrapped.data, wrapped.size, out, error);
  trn__strbuf_finish(&wrapped);
  return status;
}

static void succeed(here_run *r, const trn_ballista_job *told) {
  trn_job_record record = {.struct_size = sizeof record, .id = r->attempt.id, .state = TRN_JOB_SUCCEEDED};
  trn_job_location *locations = NULL;
  trn_error *error = NULL;
  trn_arena *arena = trn__arena_create(0);
  if (!arena || trn__remote_locations(arena, r->h->client, told, &locations)) {
    trn__job_failed(r->job, trn__no_memory(&error), error);
  } else {
    for (size_t i = 0; i < told->location_count; i++) {
      if (locations[i].rows > 0) record.rows += locations[i].rows;
      if (locations[i].bytes > 0) record.bytes += locations[i].bytes;
    }
    record.locations = locations;
    record.location_count = told->location_count;
    trn__job_ended(r->job, &record);
  }
  trn_error_unref(error);
  trn__arena_unref(arena);
}

static void end_run(here_run *r, const trn_bsched_event *event) {
  trn_ballista_job *told = NULL;
  trn_error *error = NULL;
  if (atomic_exchange(&r->is_over, true)) return;
  trn_status status = parse_status(event, &told, &error);
  if (!status && event->change == TRN_BSCHED_SUCCEEDED) {
    succeed(r, told);
  } else {
    if (!status && event->change == TRN_BSCHED_CANCELLED)
      status = trn_error_set(&error, TRN_CANCELLED, NULL, "The job was cancelled");
    else if (!status)
      status = trn__ballista_job_error(r->name, told->error, &error);
    trn__job_failed(r->job, status, error);
  }
  if (told) trn__ballista_job_unref(told);
  trn_error_unref(error);
  forget_run(r);
}

/* thread: the scheduler's; may block for the store. Its clients' own jobs are theirs. */
static int32_t on_changed(void *user, const trn_bsched_event *event) {
  here_run *r = find_run(user, event->job_id);
  if (!r) return 0;
  const trn_bsched_progress *p = &event->progress;
  trn_job_counts counts = {.stages = p->stages,
                           .stages_done = p->stages_done,
                           .tasks = (uint32_t)p->tasks,
                           .tasks_done = (uint32_t)p->tasks_done};
  if (event->change >= TRN_BSCHED_RUNNING && event->change <= TRN_BSCHED_CANCELLED) trn__job_progress(r->job, &counts);
  if (event->change >= TRN_BSCHED_SUCCEEDED && event->change <= TRN_BSCHED_CANCELLED) end_run(r, event);
  run_unref(r);
  return 0;
}

/* ---- the runner ---- */

static void name_attempt(here_run *r) {
  int size = r->attempt.attempt == 1
                 ? snprintf(r->name, sizeof r->name, "%s", r->attempt.id)
                 : snprintf(r->name, sizeof r->name, "%s.%llu", r->attempt.id, (unsigned long long)r->attempt.attempt);
  if ((size_t)size >= sizeof r->name) trn__uuid7(r->name);
}

static trn_status submit(here_run *r, trn_plan *plan, trn_error **error) {
  trn_bytes bytes = {0};
  trn_ballista_settings settings = {0};
  trn_ballista_options none = {.struct_size = sizeof none};
  trn_engine_error failure = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  trn_status status = trn_backend_encode(r->attempt.session, plan, PLAN_FORMAT, &bytes, error);
  if (!status) status = trn__ballista_settings_collect(&none, r->attempt.session, r->attempt.id, &settings, error);
  if (!status) {
    trn_bsched_submission submission = {.struct_size = sizeof submission,
                                        .kind = TRN_BSCHED_LOGICAL,
                                        .plan = bytes.data,
                                        .plan_size = bytes.size,
                                        .requested_id = r->name,
                                        .job_name = r->attempt.id,
                                        .session_id = trn_session_id(r->attempt.session),
                                        .settings = settings.items,
                                        .setting_count = settings.count};
    if (r->h->library->submit(r->h->scheduler, &submission, id, &failure)) status = trn__engine_error(&failure, error);
  }
  trn__ballista_settings_finish(&settings);
  if (bytes.release) bytes.release(bytes.owner);
  return status;
}

static trn_status enter_run(here_run *r, trn_error **error) {
  pthread_mutex_lock(&r->h->mu);
  bool ok = trn__map_set(r->h->runs, r->name, strlen(r->name), run_ref(r), NULL);
  pthread_mutex_unlock(&r->h->mu);
  if (!ok) run_unref(r);
  return ok ? TRN_OK : trn__no_memory(error);
}

static trn_status start(void *self, trn_job *job, void **run, trn_error **error) {
  trn_plan *plan = NULL;
  trn_strbuf schema = {0};
  here_run *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  atomic_init(&r->refs, 1);
  atomic_init(&r->is_over, false);
  r->h = self;
  r->job = trn_job_ref(job);
  trn__job_attempt(job, &r->attempt);
  name_attempt(r);
  trn_status status = trn__job_plan(job, &plan, error);
  if (!status) status = trn__remote_schema(plan, &schema, error);
  if (!status) status = trn__job_known_as(job, r->name, (trn_slice){.data = schema.data, .size = schema.size}, error);
  if (!status) status = enter_run(r, error);
  if (!status && (status = submit(r, plan, error))) {
    atomic_store(&r->is_over, true);
    forget_run(r);
  }
  trn__strbuf_finish(&schema);
  trn_plan_unref(plan);
  if (status)
    run_unref(r);
  else
    *run = r;
  return status;
}

static void cancel_now(void *run) {
  here_run *r = run;
  trn_engine_error failure = {0};
  trn_error *error = NULL;
  if (!atomic_load(&r->is_over) && r->h->library->cancel(r->h->scheduler, r->name, &failure)) {
    trn__engine_error(&failure, &error); /* it ended meanwhile */
    trn_error_unref(error);
  }
  run_unref(r);
}

static void cancel(void *run) {
  here_run *r = run;
  if (trn__pool_submit(r->h->pool, cancel_now, run_ref(r))) run_unref(r); /* no memory: asked again, it is done */
}

/* This process lets go: what runs there is stopped with the scheduler. */
static void abandon_now(void *run) {
  here_run *r = run;
  trn_error *error = NULL;
  if (!atomic_exchange(&r->is_over, true)) {
    trn__job_failed(r->job, trn_error_set(&error, TRN_CANCELLED, NULL, "given up"), error);
    forget_run(r);
  }
  trn_error_unref(error);
  run_unref(r);
}

static void abandon(void *run) {
  here_run *r = run;
  if (trn__pool_submit(r->h->pool, abandon_now, run_ref(r))) run_unref(r);
}

static void close_run(void *run) {
  run_unref(run);
}

static trn_status output(void *self, const trn_job_record *record, trn_stream **out, trn_error **error) {
  return trn__remote_output_open(((on_here *)self)->client, record, out, error);
}

static void ignore(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  (void)user, (void)status, (void)error, (void)reply;
}

/* Of a job of this process; another's data goes when its executors' time has come. */
static void remove_output(void *self, const trn_job_record *record, bool all) {
  on_here *h = self;
  (void)all;
  if (record->backend_id && record->state == TRN_JOB_SUCCEEDED)
    (void)trn__ballista_clean(h->client, record->backend_id, ignore, NULL, NULL);
}

static void stop(void *self) {
  on_here *h = self;
  trn__pool_destroy(h->pool); /* what it still does calls into the scheduler */
  h->pool = NULL;
  if (h->scheduler) h->library->stop(h->scheduler, STOP_WAIT_MS);
  h->scheduler = NULL;
}

static void destroy(void *self) {
  on_here *h = self;
  stop(h);
  if (h->client) trn__ballista_client_unref(h->client);
  trn__map_destroy(h->runs, NULL);
  pthread_mutex_destroy(&h->mu);
  free(h);
}

static const trn_runner_ops runner = {.start = start,
                                      .cancel = cancel,
                                      .abandon = abandon,
                                      .close = close_run,
                                      .output = output,
                                      .remove = remove_output,
                                      .stop = stop,
                                      .destroy = destroy};

/* ---- life ---- */

static trn_status start_scheduler(on_here *h, const trn_ballista_here_options *o, trn_error **error) {
  const trn_function_library *functions = NULL;
  trn_engine_error failure = {0};
  trn_status status = trn__bsched_load(o->library_path, &h->library, error);
  if (!status) status = trn__function_library_load(o->functions_path, &functions, error);
  if (status) return status;
  trn_bsched_options options = {.struct_size = sizeof options,
                                .host = o->host ? o->host : "127.0.0.1",
                                .port = o->port,
                                .pulls = o->pulls,
                                .proxies = o->proxies,
                                .threads = o->threads,
                                .data_seconds = o->data_seconds ? o->data_seconds : -1,
                                .state_seconds = -1,
                                .libraries = &functions,
                                .library_count = 1,
                                .hooks = {.struct_size = sizeof options.hooks, .user = h, .changed = on_changed}};
  return h->library->start(&options, &h->scheduler, &failure) ? trn__engine_error(&failure, error) : TRN_OK;
}

static trn_status open_client(on_here *h, const trn_ballista_here_options *o, trn_error **error) {
  trn_ballista_client_options options = {.connector = o->connector, .target = h->library->address(h->scheduler)};
  return trn__ballista_client_create(&options, &h->client, error);
}

trn_status trn_scheduler_create_ballista_here(const trn_scheduler_options *options,
                                              const trn_ballista_here_options *given, trn_backend *local,
                                              char **address, trn_scheduler **out, trn_error **error) {
  trn_ballista_here_options o = {0};
  *out = NULL;
  if (address) *address = NULL;
  memcpy(&o, given, trn__struct_size(given->struct_size, sizeof o));
  if (!o.connector) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "outputs are fetched by a connector");
  on_here *h = calloc(1, sizeof *h);
  if (!h) return trn__no_memory(error);
  pthread_mutex_init(&h->mu, NULL);
  h->runs = trn__map_create();
  trn_status status = h->runs && !trn__pool_create(2, &h->pool) ? TRN_OK : trn__no_memory(error);
  if (!status) status = start_scheduler(h, &o, error);
  if (!status) status = open_client(h, &o, error);
  char *text = !status && address ? trn__text_copy(h->library->address(h->scheduler)) : NULL;
  if (!status && address && !text) status = trn__no_memory(error);
  if (status)
    destroy(h);
  else
    status = trn__scheduler_create(options, local, &runner, h, out, error);
  if (!status && address)
    *address = text;
  else
    free(text);
  return status;
}
