/* The scripted backend: sessions, sources, operations and streams over evaluations and scripts. */
#include "backend/scripted/scripted.h"

#include <pthread.h>
#include <stdio.h>

enum { SCRIPTED_THREADS = 4 };

/* A script with what it refers to, owned. */
typedef struct owned_script {
  trn_script script; /* batches and schema: of `rows` */
  bool has_rows;
  trn_scripted_table rows;
  char *condition, *message;
} owned_script;

struct trn_scripted {
  atomic_size_t refs;
  trn_scripted_form form;
  trn_pool *pool;
  trn_scripted_handler handler;
  void *handler_user;
  pthread_mutex_t mu;
  trn_map *scripts; /* fingerprint, "" for any -> owned_script; guarded by mu */
  trn_map *tables;  /* path -> trn_scripted_table; guarded by mu; never removed before the end */
  atomic_uint_least64_t sessions_opened, sessions_closed, executed, streams_opened, streams_closed, pulls, completions;
};

struct trn_source {
  atomic_size_t refs;
  trn_scripted_table table;
  trn_table_provider provider; /* whose rows `table` has; zero: none */
};

/* ---- scripts ---- */

static void script_finish(owned_script *owned) {
  trn__scripted_table_finish(&owned->rows);
  free(owned->condition);
  free(owned->message);
  *owned = (owned_script){0};
}

static trn_status script_init(owned_script *owned, const trn_script *script) {
  *owned = (owned_script){.script = *script, .has_rows = script->schema != NULL};
  trn_status status = TRN_OK;
  if (owned->has_rows)
    status = trn__scripted_table_init(&owned->rows, script->schema, script->batches, script->batch_count);
  if (script->condition) owned->condition = trn__text_copy(script->condition);
  if (script->message) owned->message = trn__text_copy(script->message);
  if ((script->condition && !owned->condition) || (script->message && !owned->message)) status = TRN_RESOURCE_EXHAUSTED;
  owned->script.schema = owned->has_rows ? &owned->rows.schema : NULL;
  owned->script.batches = owned->rows.batches;
  owned->script.batch_count = owned->rows.batch_count;
  owned->script.condition = owned->condition;
  owned->script.message = owned->message;
  if (status) script_finish(owned);
  return status;
}

static void script_destroy(void *value) {
  if (!value) return;
  script_finish(value);
  free(value);
}

static void table_destroy(void *value) {
  if (!value) return;
  trn__scripted_table_finish(value);
  free(value);
}

/* ---- the control ---- */

static trn_scripted *control_ref(trn_scripted *control) {
  atomic_fetch_add_explicit(&control->refs, 1, memory_order_relaxed);
  return control;
}

void trn__scripted_unref(trn_scripted *control) {
  if (!control || atomic_fetch_sub_explicit(&control->refs, 1, memory_order_acq_rel) != 1) return;
  trn_pool *pool = control->pool;
  trn__map_destroy(control->scripts, script_destroy);
  trn__map_destroy(control->tables, table_destroy);
  pthread_mutex_destroy(&control->mu);
  free(control);
  trn__pool_destroy(pool); /* may be on one of its own threads */
}

trn_scripted_counts trn__scripted_count(trn_scripted *control) {
  return (trn_scripted_counts){control->sessions_opened, control->sessions_closed, control->executed,
                               control->streams_opened,  control->streams_closed,  control->pulls,
                               control->completions};
}

trn_status trn__scripted_on(trn_scripted *control, const uint8_t fingerprint[16], const trn_script *script) {
  owned_script *owned = malloc(sizeof *owned);
  if (!owned) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = script_init(owned, script);
  if (status) {
    free(owned);
    return status;
  }
  void *old = NULL;
  pthread_mutex_lock(&control->mu);
  const char *key = fingerprint ? (const char *)fingerprint : "";
  bool ok = trn__map_set(control->scripts, key, fingerprint ? 16 : 0, owned, &old);
  pthread_mutex_unlock(&control->mu);
  script_destroy(ok ? old : owned);
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

void trn__scripted_on_plan(trn_scripted *control, trn_scripted_handler handler, void *user) {
  control->handler = handler;
  control->handler_user = user;
}

trn_status trn__scripted_add_table(trn_scripted *control, const char *path, const struct ArrowSchema *schema,
                                   trn_shared_array *const *batches, size_t batch_count) {
  trn_scripted_table *table = malloc(sizeof *table);
  if (!table) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__scripted_table_init(table, schema, batches, batch_count);
  if (status) {
    free(table);
    return status;
  }
  void *old = NULL;
  pthread_mutex_lock(&control->mu);
  bool ok = trn__map_set(control->tables, path, strlen(path), table, &old);
  pthread_mutex_unlock(&control->mu);
  table_destroy(ok ? old : table);
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- runs: what an operation and its stream share ---- */

typedef struct run {
  atomic_size_t refs;
  trn_scripted *control;
  struct ArrowSchema schema;
  owned_script script;
  atomic_int state; /* trn_operation_state */
  atomic_bool is_cancelled, has_stream;

  /* touched by the pull that is outstanding only */
  trn_evaluation *evaluation;
  uint64_t pull_count;
  bool is_over; /* ended or failed */
  atomic_int_least64_t rows;

  pthread_mutex_t mu;
  /* guarded by mu */
  bool is_pulling;
  uint64_t generation; /* of the pull, so that a late timer does not answer the next one */
  trn_array_done done;
  void *user;
} run;

static void run_unref(run *r) {
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  trn_scripted *control = r->control;
  trn__evaluation_destroy(r->evaluation);
  script_finish(&r->script);
  trn__schema_release(&r->schema);
  pthread_mutex_destroy(&r->mu);
  free(r);
  trn__scripted_unref(control);
}

static run *run_ref(run *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void run_settle(run *r, trn_operation_state state) {
  int running = TRN_OPERATION_RUNNING;
  atomic_compare_exchange_strong(&r->state, &running, (int)state);
}

/* ---- pulls ---- */

typedef struct pull_job {
  run *run; /* a reference */
  uint64_t generation;
} pull_job;

/* Makes the batch of the outstanding pull. */
static trn_status make_batch(run *r, struct ArrowArray *out, trn_error **error) {
  const trn_script *script = &r->script.script;
  uint64_t number = r->pull_count++;
  if (script->fail_status && number == script->fail_at) {
    r->is_over = true;
    run_settle(r, TRN_OPERATION_FAILED);
    return trn_error_set(error, script->fail_status, script->condition, "%s",
                         script->message ? script->message : "as scripted");
  }
  if (r->is_over) return TRN_OK;
  trn_status status = trn__evaluation_next(r->evaluation, out, error);
  r->is_over = status || !out->release;
  if (status)
    run_settle(r, TRN_OPERATION_FAILED);
  else if (r->is_over)
    run_settle(r, TRN_OPERATION_FINISHED);
  else
    atomic_fetch_add(&r->rows, out->length);
  return status;
}

/* thread: the pool's */
static void pull_run(void *argument) {
  pull_job *job = argument;
  run *r = job->run;
  pthread_mutex_lock(&r->mu);
  bool is_mine = r->is_pulling && r->generation == job->generation;
  trn_array_done done = r->done;
  void *user = r->user;
  if (is_mine) r->is_pulling = false;
  pthread_mutex_unlock(&r->mu);
  if (is_mine) {
    struct ArrowArray array = {0};
    trn_error *error = NULL;
    trn_status status;
    if (atomic_load(&r->is_cancelled))
      status = trn_error_set(&error, TRN_CANCELLED, NULL, "the operation was cancelled");
    else
      status = make_batch(r, &array, &error);
    atomic_fetch_add(&r->control->completions, 1);
    done(user, status, error, &array);
    trn__array_release(&array); /* nobody took it */
    trn_error_unref(error);
  }
  free(job);
  run_unref(r);
}

/* Answers pull `generation` after a while; exactly one of several answers to it counts. */
static trn_status pull_answer(run *r, uint64_t generation, uint32_t delay_ms) {
  pull_job *job = malloc(sizeof *job);
  if (!job) return TRN_RESOURCE_EXHAUSTED;
  *job = (pull_job){run_ref(r), generation};
  trn_status status = delay_ms ? trn__pool_submit_after(r->control->pool, delay_ms, pull_run, job)
                               : trn__pool_submit(r->control->pool, pull_run, job);
  if (status) {
    free(job);
    run_unref(r);
  }
  return status;
}

static void run_cancel(run *r) {
  if (atomic_exchange(&r->is_cancelled, true)) return;
  run_settle(r, TRN_OPERATION_CANCELLED);
  pthread_mutex_lock(&r->mu);
  bool is_pulling = r->is_pulling;
  uint64_t generation = r->generation;
  pthread_mutex_unlock(&r->mu);
  /* When this fails the delayed answer says it; a hanging one would stay: out of memory, in a test. */
  if (is_pulling) (void)pull_answer(r, generation, 0);
}

/* ---- streams ---- */

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  run *r = self;
  return trn__schema_copy(&r->schema, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status stream_next(void *self, trn_array_done done, void *user, trn_error **error) {
  run *r = self;
  const trn_script *script = &r->script.script;
  pthread_mutex_lock(&r->mu);
  bool is_busy = r->is_pulling;
  uint64_t generation = r->generation + !is_busy;
  if (!is_busy) {
    r->is_pulling = true;
    r->generation = generation;
    r->done = done;
    r->user = user;
  }
  pthread_mutex_unlock(&r->mu);
  if (is_busy) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "a pull is outstanding");
  atomic_fetch_add(&r->control->pulls, 1);
  bool is_hanging = script->is_hanging && r->pull_count == script->hang_at;
  trn_status status = TRN_OK;
  /* Cancelled just now: cancel may have looked before the pull was there. */
  if (!is_hanging || atomic_load(&r->is_cancelled)) status = pull_answer(r, generation, script->pull_delay_ms);
  if (status == TRN_OK) return TRN_OK;
  pthread_mutex_lock(&r->mu);
  bool is_open = r->is_pulling && r->generation == generation; /* else a cancel has answered it */
  if (is_open) r->is_pulling = false;
  pthread_mutex_unlock(&r->mu);
  return is_open ? trn__no_memory(error) : TRN_OK;
}

static void stream_cancel(void *self) {
  run_cancel(self);
}

static void stream_destroy(void *self) {
  run *r = self;
  atomic_fetch_add(&r->control->streams_closed, 1);
  run_unref(r);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = stream_schema,
                                          .next_array = stream_next,
                                          .cancel = stream_cancel,
                                          .destroy = stream_destroy};

/* The other natural form: IPC only, over a stream of arrays. */
static trn_status ipc_schema(void *self, trn_slice *out, trn_error **error) {
  return trn_stream_schema_ipc(self, out, error);
}
static trn_status ipc_next(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  return trn_stream_next_ipc(self, bytes_max, done, user, error);
}
static void ipc_cancel(void *self) {
  trn_stream_cancel(self);
}
static void ipc_destroy(void *self) {
  trn_stream_unref(self);
}

static const trn_stream_ops ipc_ops = {.struct_size = sizeof(trn_stream_ops),
                                       .schema_ipc = ipc_schema,
                                       .next_ipc = ipc_next,
                                       .cancel = ipc_cancel,
                                       .destroy = ipc_destroy};

/* ---- operations ---- */

static trn_operation_state operation_state(void *self) {
  return (trn_operation_state)atomic_load(&((run *)self)->state);
}

static void operation_cancel(void *self) {
  run_cancel(self);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  run *r = self;
  if (atomic_load(&r->is_cancelled)) return trn_error_set(error, TRN_CANCELLED, NULL, "the operation was cancelled");
  if (atomic_exchange(&r->has_stream, true))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result was read already");
  trn_stream *stream;
  trn_status status = trn_stream_create(&stream_ops, r, &stream);
  if (status) return trn__no_memory(error);
  run_ref(r);
  atomic_fetch_add(&r->control->streams_opened, 1);
  if (r->control->form == TRN_SCRIPTED_ARRAYS) {
    *out = stream;
    return TRN_OK;
  }
  status = trn_stream_create(&ipc_ops, stream, out);
  if (status) trn_stream_unref(stream);
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status operation_metrics(void *self, char **out) {
  run *r = self;
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "[{\"name\":\"scripted\",\"metrics\":{\"output_rows\":%lld}}]", (long long)r->rows);
  if (text.failed) {
    trn__strbuf_finish(&text);
    return TRN_RESOURCE_EXHAUSTED;
  }
  *out = text.data;
  return TRN_OK;
}

static void operation_destroy(void *self) {
  run_unref(self);
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = operation_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = operation_metrics,
                                                .destroy = operation_destroy};

/* ---- the backend ---- */

typedef struct session_state {
  trn_session *session; /* borrowed: it outlives this */
} session_state;

static trn_status open_session(void *self, trn_session *session, void **out, trn_error **error) {
  session_state *state = malloc(sizeof *state);
  if (!state) return trn__no_memory(error);
  state->session = session;
  atomic_fetch_add(&((trn_scripted *)self)->sessions_opened, 1);
  *out = state;
  return TRN_OK;
}

static void close_session(void *self, void *state) {
  atomic_fetch_add(&((trn_scripted *)self)->sessions_closed, 1);
  free(state);
}

/* A table of the program. It is read now, and destroyed with the source. */
static trn_status open_provider(const trn_table_provider *table, trn_source **out, struct ArrowSchema *schema,
                                trn_error **error) {
  trn_source *source = calloc(1, sizeof *source);
  if (!source) return trn__no_memory(error);
  atomic_init(&source->refs, 1);
  trn_status status = trn__scripted_read_table(table, &source->table, error);
  if (!status && trn__schema_copy(&source->table.schema, schema)) status = trn__no_memory(error);
  if (status) {
    trn__scripted_table_finish(&source->table);
    free(source);
    return status;
  }
  source->provider = *table;
  *out = source;
  return TRN_OK;
}

static trn_status open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  trn_scripted *control = self;
  (void)state;
  if (!strcmp(request->format, TRN_SOURCE_TABLE)) return open_provider(request->data, out, schema, error);
  if (request->path_count != 1)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the scripted backend knows tables by one path");
  const char *path = request->paths[0];
  trn_source *source = calloc(1, sizeof *source);
  if (!source) return trn__no_memory(error);
  atomic_init(&source->refs, 1);
  pthread_mutex_lock(&control->mu);
  const trn_scripted_table *table = trn__map_get(control->tables, path, strlen(path));
  trn_status status = TRN_NOT_FOUND;
  if (table) status = trn__scripted_table_init(&source->table, &table->schema, table->batches, table->batch_count);
  pthread_mutex_unlock(&control->mu);
  if (status == TRN_OK) status = trn__schema_copy(&source->table.schema, schema);
  if (status) {
    trn__scripted_table_finish(&source->table);
    free(source);
    if (status != TRN_NOT_FOUND) return trn__no_memory(error);
    if (error)
      *error = trn_error_create(&(trn_error_spec){.struct_size = sizeof(trn_error_spec),
                                                  .status = TRN_NOT_FOUND,
                                                  .condition = "PATH_NOT_FOUND",
                                                  .params = &(trn_error_param){"path", path},
                                                  .param_count = 1});
    return TRN_NOT_FOUND;
  }
  *out = source;
  return TRN_OK;
}

static trn_source *source_ref(void *self, trn_source *source) {
  (void)self;
  atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
  return source;
}

static void source_unref(void *self, trn_source *source) {
  (void)self;
  if (atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) != 1) return;
  trn__scripted_table_finish(&source->table);
  if (source->provider.ops.destroy) source->provider.ops.destroy(source->provider.self);
  free(source);
}

const trn_scripted_table *trn__scripted_source_table(const trn_source *source) {
  return &source->table;
}

/* The script for a plan, owned. */
static trn_status script_find(trn_scripted *control, trn_session *session, trn_plan *plan, owned_script *out) {
  trn_script script = {0};
  if (control->handler) {
    trn_status status = control->handler(control->handler_user, session, plan, &script);
    if (status != TRN_UNIMPLEMENTED) return status ? status : script_init(out, &script);
    script = (trn_script){0};
  }
  uint8_t fingerprint[16];
  trn_plan_fingerprint(plan, fingerprint);
  pthread_mutex_lock(&control->mu);
  const owned_script *known = trn__map_get(control->scripts, (const char *)fingerprint, 16);
  if (!known) known = trn__map_get(control->scripts, "", 0);
  trn_status status = script_init(out, known ? &known->script : &script);
  pthread_mutex_unlock(&control->mu);
  return status;
}

static trn_status run_prepare(run *r, trn_session *session, trn_plan *plan, trn_error **error) {
  trn_status status = script_find(r->control, session, plan, &r->script);
  if (status) return trn_error_set(error, status, NULL, "no script can be had");
  const trn_script *script = &r->script.script;
  if (script->execute_status)
    return trn_error_set(error, script->execute_status, script->condition, "%s",
                         script->message ? script->message : "as scripted");
  status = r->script.has_rows ? trn__schema_copy(script->schema, &r->schema) : trn_plan_schema(plan, &r->schema);
  if (status) return trn__no_memory(error);
  return trn__evaluation_create(plan, r->script.has_rows ? &r->script.rows : NULL, script->is_endless, &r->evaluation,
                                error);
}

static trn_status execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  run *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  atomic_init(&r->refs, 1);
  atomic_init(&r->state, TRN_OPERATION_RUNNING);
  r->control = control_ref(self);
  pthread_mutex_init(&r->mu, NULL);
  atomic_fetch_add(&r->control->executed, 1);
  trn_status status = run_prepare(r, ((session_state *)state)->session, request->plan, error);
  if (status == TRN_OK) {
    status = trn_operation_create(&operation_ops, r, request->operation_id, out);
    if (status) trn__no_memory(error);
  }
  if (status) run_unref(r);
  return status;
}

static trn_status explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  (void)self;
  (void)state;
  (void)mode;
  return trn_plan_print(plan, out) ? trn__no_memory(error) : TRN_OK;
}

static void destroy(void *self) {
  trn__scripted_unref(self);
}

static const trn_backend_ops backend_ops = {.struct_size = sizeof(trn_backend_ops),
                                            .open_session = open_session,
                                            .close_session = close_session,
                                            .open_source = open_source,
                                            .source_ref = source_ref,
                                            .source_unref = source_unref,
                                            .execute = execute,
                                            .explain = explain,
                                            .destroy = destroy};

trn_status trn__scripted_create(trn_scripted_form form, trn_scripted **out, trn_backend **backend) {
  *out = NULL;
  *backend = NULL;
  trn_scripted *control = calloc(1, sizeof *control);
  if (!control) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&control->refs, 1);
  control->form = form;
  pthread_mutex_init(&control->mu, NULL);
  control->scripts = trn__map_create();
  control->tables = trn__map_create();
  trn_status status = control->scripts && control->tables ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_OK) status = trn__pool_create(SCRIPTED_THREADS, &control->pool);
  if (status == TRN_OK) status = trn_backend_create(&backend_ops, control, backend);
  if (status) {
    trn__map_destroy(control->scripts, NULL);
    trn__map_destroy(control->tables, NULL);
    trn__pool_destroy(control->pool);
    pthread_mutex_destroy(&control->mu);
    free(control);
    return status;
  }
  control_ref(control); /* the backend's */
  *out = control;
  return TRN_OK;
}
