/* A hit of the cache: the same batches again. */
#include "core/query.h"
#include "layer/cache.h"

typedef struct replay {
  atomic_size_t refs;
  ask *ask;         /* a reference */
  cache_body *body; /* a reference */
  atomic_int state; /* trn_operation_state */
} replay;

static replay *replay_ref(replay *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void replay_unref(void *self) {
  replay *r = self;
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  cache__body_unref(r->body);
  cache__ask_unref(r->ask);
  free(r);
}

static void replay_settle(replay *r, trn_operation_state state) {
  int running = TRN_OPERATION_RUNNING;
  atomic_compare_exchange_strong(&r->state, &running, (int)state);
}

typedef struct replay_stream {
  replay *replay; /* a reference */
  size_t at;
  trn_pool *pool;
  bool has_begun;
  trn_stream *other; /* runs after all: the kept form does not do */
  trn_array_done array_done; /* of the pull that is outstanding */
  trn_ipc_done ipc_done;
  void *user;
} replay_stream;

static trn_status replay_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  const cache_body *body = ((replay_stream *)self)->replay->body;
  if (!body->has_schema) {
    trn_plan *plan = ((replay_stream *)self)->replay->ask->request.plan;
    return trn_plan_schema(plan, out) ? trn__no_memory(error) : TRN_OK;
  }
  return trn__schema_copy(&body->schema, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status replay_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  const cache_body *body = ((replay_stream *)self)->replay->body;
  (void)error;
  *out = (trn_slice){.data = body->schema_ipc.data, .size = body->schema_ipc.size};
  return TRN_OK;
}

/* thread: the layer's pool */
static void replay_answer(void *argument) {
  replay_stream *s = argument;
  replay *r = s->replay;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  struct ArrowArray array = {0};
  trn_ipc_piece piece = {0};
  const cache_item *item = s->at < r->body->count ? r->body->items[s->at] : NULL;
  if (atomic_load(&r->state) == TRN_OPERATION_CANCELLED) {
    status = trn_error_set(&error, TRN_CANCELLED, NULL, "the operation was cancelled");
  } else if (!item) {
    replay_settle(r, TRN_OPERATION_FINISHED);
  } else if (s->ipc_done) {
    piece = item->piece;
    piece.release = cache__item_unref;
    piece.owner = cache__item_ref((cache_item *)item);
    s->at++;
  } else {
    status = trn__shared_array_slice(item->array, 0, item->rows, &array);
    if (status)
      trn__no_memory(&error);
    else
      s->at++;
  }
  trn_array_done array_done = s->array_done;
  trn_ipc_done ipc_done = s->ipc_done;
  void *user = s->user;
  if (ipc_done)
    ipc_done(user, status, error, &piece);
  else
    array_done(user, status, error, &array);
  trn__array_release(&array);
  trn_error_unref(error);
}

static trn_status start_other(void *user, trn_operation **out, trn_error **error) {
  ask *a = user;
  bool is_new = false;
  cache_state state;
  cache_entry *entry =
      cache__find(a->cache, a->materials.key, &a->materials.tables, &a->materials.paths, &is_new, &state);
  if (entry && is_new) return cache__lead(a, entry, out, error); /* kept in the form that was wanted this time */
  cache__entry_unref(entry);
  return trn_next_execute(a->layer_session, &a->request, out, error);
}

/* Runs the query after all: the store has pieces that are too large for this reader, or the other form. */
static trn_status run_other(replay_stream *s, trn_error **error) {
  static const trn_deferred_ops ops = {.struct_size = sizeof ops, .start = start_other, .destroy = cache__ask_unref};
  ask *a = s->replay->ask;
  trn_deferred *handle = NULL;
  trn_operation *operation = NULL;
  trn_status status = trn_deferred_create(a->layer, &ops, a, &a->request, &handle, &operation);
  if (status) return trn__no_memory(error);
  cache__ask_ref(a);
  status = trn_operation_result_stream(operation, &s->other, error);
  if (status == TRN_OK) trn_deferred_start(handle);
  trn_deferred_unref(handle);
  trn_operation_unref(operation);
  return status;
}

static trn_status replay_next(replay_stream *s, bool fits, trn_error **error) {
  trn_status status = TRN_OK;
  if (!s->has_begun && !fits) status = run_other(s, error);
  s->has_begun = true;
  if (status || s->other) return status;
  status = trn__pool_submit(s->pool, replay_answer, s);
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status replay_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  replay_stream *s = self;
  const cache_body *body = s->replay->body;
  s->array_done = NULL, s->ipc_done = done, s->user = user;
  trn_status status = replay_next(s, body->is_ipc && (!bytes_max || body->piece_max <= bytes_max), error);
  if (status || !s->other) return status;
  return trn_stream_next_ipc(s->other, bytes_max, done, user, error);
}

static trn_status replay_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  replay_stream *s = self;
  s->array_done = done, s->ipc_done = NULL, s->user = user;
  trn_status status = replay_next(s, !s->replay->body->is_ipc || !s->replay->body->count, error);
  if (status || !s->other) return status;
  return trn_stream_next_array(s->other, done, user, error);
}

static void replay_cancel(void *self) {
  replay_stream *s = self;
  replay_settle(s->replay, TRN_OPERATION_CANCELLED);
  if (s->other) trn_stream_cancel(s->other);
}

static void replay_destroy(void *self) {
  replay_stream *s = self;
  trn_stream_unref(s->other);
  replay_unref(s->replay);
  free(s);
}

/* Kept arrays become IPC by the adapter of streams; kept IPC is given as it is. */
static const trn_stream_ops replay_array_ops = {.struct_size = sizeof(trn_stream_ops),
                                                .schema = replay_schema,
                                                .schema_ipc = replay_schema_ipc,
                                                .next_array = replay_next_array,
                                                .cancel = replay_cancel,
                                                .destroy = replay_destroy};
static const trn_stream_ops replay_ipc_ops = {.struct_size = sizeof(trn_stream_ops),
                                              .schema = replay_schema,
                                              .schema_ipc = replay_schema_ipc,
                                              .next_array = replay_next_array,
                                              .next_ipc = replay_next_ipc,
                                              .cancel = replay_cancel,
                                              .destroy = replay_destroy};

static trn_operation_state replay_state(void *self) {
  return (trn_operation_state)atomic_load(&((replay *)self)->state);
}
static void replay_operation_cancel(void *self) {
  replay_settle(self, TRN_OPERATION_CANCELLED);
}

static trn_status replay_result(void *self, trn_stream **out, trn_error **error) {
  replay *r = self;
  if (atomic_load(&r->state) == TRN_OPERATION_CANCELLED)
    return trn_error_set(error, TRN_CANCELLED, NULL, "the operation was cancelled");
  replay_stream *s = calloc(1, sizeof *s);
  trn_status status = s ? trn__layer_pool(r->ask->layer, &s->pool) : TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_OK) status = trn_stream_create(r->body->is_ipc ? &replay_ipc_ops : &replay_array_ops, s, out);
  if (status) {
    free(s);
    return trn__no_memory(error);
  }
  s->replay = replay_ref(r);
  return TRN_OK;
}

static trn_status replay_metrics(void *self, char **out) {
  const replay *r = self;
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "[{\"name\":\"cache\",\"metrics\":{\"hit\":1,\"output_rows\":%lld,\"bytes\":%llu}}]",
                     (long long)r->body->rows, (unsigned long long)r->body->bytes);
  if (!text.failed) {
    *out = text.data;
    return TRN_OK;
  }
  trn__strbuf_finish(&text);
  return TRN_RESOURCE_EXHAUSTED;
}

static const trn_operation_ops replay_ops = {.struct_size = sizeof(trn_operation_ops),
                                             .state = replay_state,
                                             .cancel = replay_operation_cancel,
                                             .result_stream = replay_result,
                                             .metrics = replay_metrics,
                                             .destroy = replay_unref};

trn_status cache__answer_from(ask *a, cache_body *body, trn_operation **out, trn_error **error) {
  replay *r = calloc(1, sizeof *r);
  if (!r || trn_operation_create(&replay_ops, r, a->request.operation_id, out)) {
    free(r);
    cache__body_unref(body);
    return trn__no_memory(error);
  }
  atomic_init(&r->refs, 1);
  atomic_init(&r->state, TRN_OPERATION_RUNNING);
  r->ask = cache__ask_ref(a);
  r->body = body;
  cache__emit(a, "hit", body->rows);
  return TRN_OK;
}
