/* The embedded backend: plans run in this process, on DataFusion behind libtrunnion_engine.so. */
#include "backend/embedded.h"
#include "core/query.h"
#include "optimize/optimize.h"

/* ---- sources ---- */

trn_source *trn__embedded_source_ref(void *self, trn_source *source) {
  (void)self;
  atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
  return source;
}

void trn__embedded_source_release(void *object) {
  trn_source *source = object;
  if (!source || atomic_fetch_sub_explicit(&source->refs, 1, memory_order_acq_rel) != 1) return;
  if (source->source) source->engine->source_release(source->source);
  if (source->original) source->engine->original_release(source->original);
  free(source);
}

static void source_unref(void *self, trn_source *source) {
  (void)self;
  trn__embedded_source_release(source);
}

trn_source *trn__embedded_source_create(const trn_engine *engine, trn_engine_source *source,
                                        trn_engine_original *original) {
  trn_source *out = calloc(1, sizeof *out);
  if (!out) return NULL;
  atomic_init(&out->refs, 1);
  out->engine = engine;
  out->source = engine->source_ref(source);
  out->original = engine->original_ref(original);
  return out;
}

/* ---- sessions ---- */

static trn_status open_session(void *self, trn_session *session, void **state, trn_error **error) {
  trn_embedded_session *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  s->backend = self, s->session = session;
  *state = s;
  return TRN_OK;
}

static void close_session(void *self, void *state) {
  (void)self;
  free(state);
}

/* The settings of a session that are the engine's: those that begin with "datafusion.". */
typedef struct engine_settings {
  trn_kv *items;
  size_t count, capacity;
  bool failed;
} engine_settings;

static void add_setting(void *user, const char *key, const char *value) {
  engine_settings *s = user;
  if (strncmp(key, "datafusion.", 11)) return;
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 8;
    trn_kv *items = realloc(s->items, capacity * sizeof *items);
    if (!items) {
      s->failed = true;
      return;
    }
    s->items = items, s->capacity = capacity;
  }
  trn_kv item = {strdup(key), strdup(value)};
  s->failed |= !item.key || !item.value;
  s->items[s->count++] = item;
}

static void finish_settings(engine_settings *s) {
  for (size_t i = 0; i < s->count; i++) free((char *)s->items[i].key), free((char *)s->items[i].value);
  free(s->items);
}

trn_status trn__embedded_engine_session(trn_embedded_session *s, trn_engine_session **out, trn_error **error) {
  engine_settings settings = {0};
  trn_engine_error failure = {.position = -1};
  trn_status status = trn_session_each(s->session, add_setting, &settings);
  if (!status && settings.failed) status = trn__no_memory(error);
  if (!status && s->backend->engine->session_create(s->backend->runtime, settings.items, settings.count, out, &failure))
    status = trn__engine_error(&failure, error);
  finish_settings(&settings);
  return status;
}

static trn_status open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  trn_embedded *b = self;
  trn_engine_session *session = NULL;
  trn_engine_error failure = {.position = -1};
  trn_source *source = calloc(1, sizeof *source);
  if (!source) return trn__no_memory(error);
  trn_cancel *cancel = trn_cancel_of_work();
  trn__embedded_watch(b, cancel);
  trn_status status = trn__embedded_engine_session(state, &session, error);
  if (!status && !strcmp(request->format, TRN_SOURCE_TABLE)) {
    status = trn__embedded_open_table(b, session, request->data, &source->source, schema, error);
  } else if (!status && !trn__embedded_open_mapped(b, session, request, &source->source, schema, &status, error)) {
    int32_t code = 0;
    if (!strcmp(request->format, "ipc")) {
      code = b->engine->source_ipc(session, request->data, request->data_size, &source->source, schema, &failure);
    } else if (!strcmp(request->format, TRN_SOURCE_FFI) && TRN_ENGINE_HAS(b->engine, source_ffi)) {
      code = b->engine->source_ffi(session, (void *)request->data, &source->source, schema, &failure);
    } else {
      status = trn__embedded_open_files(b, session, request, &source->source, schema, error);
    }
    if (code) status = trn__engine_error(&failure, error);
  }
  trn__embedded_watch(b, NULL);
  if (session) b->engine->session_release(session);
  if (status) {
    free(source);
    return trn__embedded_why(status, cancel, error);
  }
  atomic_init(&source->refs, 1);
  source->engine = b->engine;
  *out = source;
  return TRN_OK;
}

/* ---- running ---- */

/* A running query, shared by its operation, its stream and an outstanding pull. */
typedef struct run {
  atomic_uint refs;
  atomic_int state; /* trn_operation_state */
  atomic_bool read; /* the stream was given */
  const trn_engine *engine;
  trn_engine_execution *execution;
  trn_array_done array_done; /* of the one outstanding pull */
  trn_ipc_done ipc_done;
  void *user;
} run;

static void run_unref(void *self) {
  run *r = self;
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  if (r->execution) r->engine->execution_release(r->execution);
  free(r);
}

static run *run_ref(run *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void run_ended(run *r, trn_status status) {
  int running = TRN_OPERATION_RUNNING;
  int end = status == TRN_OK ? TRN_OPERATION_FINISHED
                             : status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED : TRN_OPERATION_FAILED;
  atomic_compare_exchange_strong(&r->state, &running, end);
}

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  run *r = self;
  trn_engine_error failure = {.position = -1};
  return r->engine->execution_schema(r->execution, out, &failure) ? trn__engine_error(&failure, error) : TRN_OK;
}

static trn_status stream_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  run *r = self;
  trn_engine_error failure = {.position = -1};
  trn_engine_bytes bytes = {0};
  if (r->engine->execution_schema_ipc(r->execution, &bytes, &failure)) return trn__engine_error(&failure, error);
  *out = (trn_slice){.data = bytes.data, .size = bytes.size};
  return TRN_OK;
}

static void array_arrived(void *user, struct ArrowArray *array, trn_engine_error *failure) {
  run *r = user;
  trn_error *error = NULL;
  trn_status status = failure && failure->status ? trn__engine_error(failure, &error) : TRN_OK;
  struct ArrowArray end = {0};
  if (!array) array = &end;
  if (status || !array->release) run_ended(r, status);
  r->array_done(r->user, status, error, array);
  trn_error_unref(error);
  run_unref(r);
}

typedef struct piece {
  trn_engine_ipc ipc;
  trn_slice slices[];
} piece;

static void piece_release(void *owner) {
  piece *p = owner;
  p->ipc.release(p->ipc.self);
  free(p);
}

static void ipc_arrived(void *user, trn_engine_ipc *ipc, trn_engine_error *failure) {
  run *r = user;
  trn_error *error = NULL;
  trn_ipc_piece out = {0};
  trn_status status = failure && failure->status ? trn__engine_error(failure, &error) : TRN_OK;
  if (!status && ipc && ipc->release) {
    piece *p = malloc(sizeof *p + ipc->part_count * sizeof *p->slices);
    if (!p) {
      ipc->release(ipc->self);
      status = trn__no_memory(&error);
    } else {
      p->ipc = *ipc;
      for (size_t i = 0; i < ipc->part_count; i++)
        p->slices[i] = (trn_slice){.data = ipc->parts[i].data, .size = ipc->parts[i].size};
      out = (trn_ipc_piece){p->slices, ipc->part_count, ipc->size, ipc->rows, piece_release, p};
    }
  }
  if (status || !out.release) run_ended(r, status);
  r->ipc_done(r->user, status, error, &out);
  trn_error_unref(error);
  run_unref(r);
}

static trn_status stream_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  run *r = run_ref(self);
  trn_engine_error failure = {.position = -1};
  r->array_done = done, r->user = user;
  if (!r->engine->next_array(r->execution, array_arrived, r, &failure)) return TRN_OK;
  run_unref(r);
  return trn__engine_error(&failure, error);
}

static trn_status stream_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  run *r = run_ref(self);
  trn_engine_error failure = {.position = -1};
  r->ipc_done = done, r->user = user;
  if (!r->engine->next_ipc(r->execution, bytes_max, ipc_arrived, r, &failure)) return TRN_OK;
  run_unref(r);
  return trn__engine_error(&failure, error);
}

static void run_cancel(void *self) {
  run *r = self;
  run_ended(r, TRN_CANCELLED);
  r->engine->execution_cancel(r->execution);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = stream_schema,
                                          .schema_ipc = stream_schema_ipc,
                                          .next_array = stream_next_array,
                                          .next_ipc = stream_next_ipc,
                                          .cancel = run_cancel,
                                          .destroy = run_unref};

static trn_operation_state operation_state(void *self) { return (trn_operation_state)atomic_load(&((run *)self)->state); }

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  run *r = self;
  if (atomic_exchange(&r->read, true))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result of this operation can be read once");
  trn_status status = trn_stream_create(&stream_ops, run_ref(r), out);
  if (status) {
    run_unref(r);
    atomic_store(&r->read, false);
    return trn__no_memory(error);
  }
  return TRN_OK;
}

static trn_status operation_metrics(void *self, char **out) {
  run *r = self;
  trn_engine_error failure = {.position = -1};
  trn_engine_bytes text = {0};
  if (r->engine->execution_metrics(r->execution, &text, &failure)) return trn__engine_error(&failure, NULL);
  *out = strndup(text.data, text.size);
  if (text.release) text.release(text.self);
  return *out ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = run_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = operation_metrics,
                                                .destroy = run_unref};

/* ---- planning that can be cancelled ---- */

void trn__embedded_watch(const trn_embedded *b, const trn_cancel *cancel) {
  if (TRN_ENGINE_HAS(b->engine, watch)) b->engine->watch(trn__cancel_flag(cancel));
}

trn_status trn__embedded_why(trn_status status, const trn_cancel *cancel, trn_error **error) {
  if (!trn_cancel_is_requested(cancel)) return status;
  if (error) {
    trn_error_unref(*error);
    *error = NULL;
  }
  return trn__cancelled(error);
}

/* Decorrelates, lowers; gives the engine's plan. */
static trn_status lower(trn_embedded *b, trn_engine_session *session, const trn_plan *plan, bool with_names,
                        const trn_cancel *cancel, trn_engine_plan **out, trn_error **error) {
  trn_engine_error failure = {.position = -1};
  trn_lowered lowered = {0};
  trn_engine_source **sources = NULL;
  trn_engine_original **originals = NULL;
  const trn_rel *root = NULL;
  uint32_t next = plan->next_column;
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena ? trn__plan_check_size(plan->root, error) : trn__no_memory(error);
  if (!status) trn__arena_watch(arena, cancel);
  if (!status) status = trn__decorrelate(arena, plan->root, &next, &root, error);
  if (!status) status = trn__prune(arena, root, next, &root, error);
  if (!status) status = trn__lower(root, with_names, &lowered, error);
  if (!status) {
    sources = calloc(lowered.sources.count + 1, sizeof *sources);
    originals = calloc(lowered.originals.count + 1, sizeof *originals);
    if (!sources || !originals) status = trn__no_memory(error);
  }
  for (size_t i = 0; !status && i < lowered.sources.count; i++)
    sources[i] = ((trn_source *)lowered.sources.items[i])->source;
  for (size_t i = 0; !status && i < lowered.originals.count; i++)
    originals[i] = ((trn_source *)lowered.originals.items[i])->original;
  if (!status && b->engine->lower(session, lowered.bytes.data, lowered.bytes.size, sources, lowered.sources.count,
                                  originals, lowered.originals.count, out, &failure))
    status = trn__engine_error(&failure, error);
  free(originals);
  free(sources);
  trn__lowered_finish(&lowered);
  trn__arena_unref(arena);
  return status;
}

trn_status trn__embedded_lower(trn_embedded *b, trn_engine_session *session, const trn_plan *plan,
                               const trn_cancel *cancel, trn_engine_plan **out, trn_error **error) {
  return lower(b, session, plan, false, cancel, out, error);
}

trn_status trn__embedded_encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out,
                                trn_error **error) {
  trn_embedded *b = self;
  trn_engine_session *session = NULL;
  trn_engine_plan *lowered = NULL;
  trn_engine_error failure = {.position = -1};
  trn_engine_bytes bytes = {0};
  struct ArrowSchema schema = {0};
  trn_cancel *cancel = trn_cancel_of_work();
  if (!TRN_ENGINE_HAS(b->engine, encode))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this engine does not encode plans as '%s'", format);
  trn__embedded_watch(b, cancel);
  trn_status status = trn__embedded_engine_session(state, &session, error);
  if (!status) status = lower(b, session, plan, true, cancel, &lowered, error);
  if (!status && trn_plan_schema(plan, &schema)) status = trn__no_memory(error);
  if (!status && b->engine->encode(session, lowered, format, &schema, &bytes, &failure))
    status = trn__engine_error(&failure, error);
  trn__embedded_watch(b, NULL);
  if (status) status = trn__embedded_why(status, cancel, error);
  if (!status) *out = (trn_bytes){bytes.data, bytes.size, bytes.release, bytes.self};
  if (schema.release) schema.release(&schema);
  if (lowered) b->engine->plan_release(lowered);
  if (session) b->engine->session_release(session);
  return status;
}

static trn_status execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  trn_embedded *b = self;
  trn_engine_session *session = NULL;
  trn_engine_plan *plan = NULL;
  trn_engine_error failure = {.position = -1};
  struct ArrowSchema schema = {0};
  run *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  atomic_init(&r->refs, 1), atomic_init(&r->state, TRN_OPERATION_RUNNING), atomic_init(&r->read, false);
  r->engine = b->engine;
  trn__embedded_watch(b, request->cancel);
  trn_status status = trn__embedded_engine_session(state, &session, error);
  if (!status) status = trn__embedded_lower(b, session, request->plan, request->cancel, &plan, error);
  if (!status && trn_plan_schema(request->plan, &schema)) status = trn__no_memory(error);
  if (!status && b->engine->execute(session, plan, &schema, &r->execution, &failure))
    status = trn__engine_error(&failure, error);
  trn__embedded_watch(b, NULL);
  if (status) status = trn__embedded_why(status, request->cancel, error);
  if (!status && trn_operation_create(&operation_ops, r, request->operation_id, out)) status = trn__no_memory(error);
  if (status) run_unref(r);
  if (schema.release) schema.release(&schema);
  if (plan) b->engine->plan_release(plan);
  if (session) b->engine->session_release(session);
  return status;
}

static trn_status explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out, trn_error **error) {
  trn_embedded *b = self;
  trn_engine_session *session = NULL;
  trn_engine_plan *lowered = NULL;
  trn_engine_error failure = {.position = -1};
  trn_engine_bytes text = {0};
  trn_cancel *cancel = trn_cancel_of_work();
  trn__embedded_watch(b, cancel);
  trn_status status = trn__embedded_engine_session(state, &session, error);
  if (!status) status = trn__embedded_lower(b, session, plan, cancel, &lowered, error);
  if (!status && b->engine->plan_explain(session, lowered, (int32_t)mode, &text, &failure))
    status = trn__engine_error(&failure, error);
  trn__embedded_watch(b, NULL);
  if (status) status = trn__embedded_why(status, cancel, error);
  if (!status && !(*out = strndup(text.data, text.size))) status = trn__no_memory(error);
  if (text.release) text.release(text.self);
  if (lowered) b->engine->plan_release(lowered);
  if (session) b->engine->session_release(session);
  return status;
}

static void destroy(void *self) {
  trn_embedded *b = self;
  b->engine->runtime_release(b->runtime);
  free(b);
}

static const trn_backend_ops backend_ops = {.struct_size = sizeof(trn_backend_ops),
                                            .open_session = open_session,
                                            .close_session = close_session,
                                            .open_source = open_source,
                                            .source_ref = trn__embedded_source_ref,
                                            .source_unref = source_unref,
                                            .execute = execute,
                                            .explain = explain,
                                            .destroy = destroy,
                                            .decode = trn__embedded_decode,
                                            .encode = trn__embedded_encode,
                                            .decode_statement = trn__embedded_decode_statement};

trn_status trn_embedded_backend_create(const trn_embedded_options *options, trn_backend **out, trn_error **error) {
  trn_embedded_options o = {0};
  if (options) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
  trn_embedded *b = calloc(1, sizeof *b);
  const trn_function_library **libraries = calloc(o.library_count + 1, sizeof *libraries);
  trn_status status = b && libraries ? TRN_OK : trn__no_memory(error);
  if (!status) status = trn__engine_load(o.engine_path, &b->engine, error);
  if (!status) status = trn__function_library_load(o.functions_path, &libraries[0], error);
  for (size_t i = 0; i < o.library_count && libraries; i++) libraries[i + 1] = o.libraries[i];
  if (!status) {
    trn_engine_error failure = {.position = -1};
    trn_engine_options engine_options = {.struct_size = sizeof engine_options,
                                         .threads = o.threads,
                                         .memory_bytes = o.memory_bytes,
                                         .spill_directory = o.spill_directory,
                                         .libraries = libraries,
                                         .library_count = o.library_count + 1};
    if (b->engine->runtime_create(&engine_options, &b->runtime, &failure)) status = trn__engine_error(&failure, error);
  }
  if (!status && (status = trn_backend_create(&backend_ops, b, out))) {
    b->engine->runtime_release(b->runtime);
    trn_error_set(error, status, NULL, "cannot make the embedded backend");
  }
  free(libraries);
  if (status) free(b);
  return status;
}
