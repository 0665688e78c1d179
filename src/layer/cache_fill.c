/* Filling the cache: the operation of the first who asks, whose rows are kept while they are read. */
#include "core/query.h"
#include "layer/cache.h"

typedef struct tee {
  atomic_size_t refs;
  ask *ask;             /* a reference */
  cache_entry *entry;   /* a reference until it is complete or abandoned */
  trn_operation *inner; /* a reference */
  cache_body *body;     /* being filled by the pull that is outstanding */
  struct ArrowSchema schema; /* to count bytes by */
  atomic_bool is_over;  /* entry and body are somebody else's, or gone */
  atomic_bool has_stream;
} tee;

static void tee_abandon(tee *t) {
  if (!atomic_exchange(&t->is_over, true)) cache__abandon(t->ask->cache, t->entry);
}

static void tee_unref(tee *t) {
  if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  tee_abandon(t);
  cache__body_unref(t->body);
  trn__schema_release(&t->schema);
  trn_operation_unref(t->inner);
  cache__ask_unref(t->ask);
  free(t);
}

static tee *tee_ref(tee *t) {
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

/* All rows have been there. */
static void tee_complete(tee *t) {
  if (atomic_exchange(&t->is_over, true)) return;
  if (!cache__is_unchanged(&t->ask->materials)) {
    cache__abandon(t->ask->cache, t->entry);
    return;
  }
  cache_body *body = t->body;
  t->body = NULL;
  int64_t rows = body->rows;
  cache__complete(t->ask->cache, t->ask->layer, t->entry, body);
  cache__emit(t->ask, "store", rows);
}

/* The item is kept; false: nothing is kept any more. */
static bool tee_keep(tee *t, cache_item *item) {
  if (atomic_load(&t->is_over)) return false;
  bool fits = t->body->bytes + item->bytes <= t->ask->cache->entry_max;
  if (fits && cache__body_add(t->body, cache__item_ref(item))) return true;
  if (fits) cache__item_unref(item); /* the reference that was not taken */
  tee_abandon(t);
  return false;
}

typedef struct tee_stream {
  tee *tee;          /* a reference */
  trn_stream *inner; /* a reference */
  bool is_first, has_form, is_ipc;
  trn_array_done array_done; /* of the pull that is outstanding */
  trn_ipc_done ipc_done;
  void *user;
} tee_stream;

static trn_status tee_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  return trn_stream_schema(((tee_stream *)self)->inner, out, error);
}
static trn_status tee_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  return trn_stream_schema_ipc(((tee_stream *)self)->inner, out, error);
}

static void tee_on_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  tee_stream *s = user;
  trn_array_done done = s->array_done;
  void *done_user = s->user;
  trn_error *failure = NULL;
  struct ArrowArray shown = {0};
  bool is_item = status == TRN_OK && array && array->release;
  if (is_item) {
    cache_item *item = calloc(1, sizeof *item);
    struct ArrowArray given = *array;
    array->release = NULL;
    int64_t rows = given.length;
    if (item) {
      atomic_init(&item->refs, 1);
      item->rows = rows;
      item->bytes = s->tee->schema.release ? trn__array_size(&s->tee->schema, &given) : (uint64_t)rows * 8;
    }
    status = item ? trn__shared_array_create(&given, &item->array) : TRN_RESOURCE_EXHAUSTED;
    if (!item) trn__array_release(&given);
    if (status == TRN_OK) tee_keep(s->tee, item);
    if (status == TRN_OK) status = trn__shared_array_slice(item->array, 0, rows, &shown);
    cache__item_unref(item);
    if (status) trn__no_memory(&failure);
  }
  if (status)
    tee_abandon(s->tee);
  else if (!is_item)
    tee_complete(s->tee);
  done(done_user, status, failure ? failure : error, &shown);
  trn__array_release(&shown);
  trn_error_unref(failure);
}

static void tee_on_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  tee_stream *s = user;
  trn_ipc_done done = s->ipc_done;
  void *done_user = s->user;
  trn_error *failure = NULL;
  trn_ipc_piece shown = {0};
  bool is_item = status == TRN_OK && piece && piece->release;
  if (is_item) {
    cache_item *item = calloc(1, sizeof *item);
    if (item) {
      atomic_init(&item->refs, 1);
      item->piece = *piece;
      item->rows = piece->rows;
      item->bytes = piece->size;
      tee_keep(s->tee, item);
      shown = item->piece;
      shown.release = cache__item_unref;
      shown.owner = item;
    } else {
      shown = *piece; /* not kept: then as it came */
      tee_abandon(s->tee);
    }
  }
  if (status)
    tee_abandon(s->tee);
  else if (!is_item)
    tee_complete(s->tee);
  done(done_user, status, error, &shown);
  trn_error_unref(failure);
}

/* The first pull says in which form the result is kept; a change of it ends the keeping. */
static void choose_form(tee_stream *s, bool is_ipc) {
  tee *t = s->tee;
  if (!s->is_first || atomic_load(&t->is_over)) return;
  if (s->has_form && s->is_ipc != is_ipc) {
    tee_abandon(t);
    return;
  }
  if (s->has_form) return;
  s->has_form = true;
  s->is_ipc = is_ipc;
  t->body->is_ipc = is_ipc;
  trn_slice bytes;
  t->body->has_schema = trn_stream_schema(s->inner, &t->body->schema, NULL) == TRN_OK;
  if (!is_ipc) (void)trn_stream_schema(s->inner, &t->schema, NULL);
  if (trn_stream_schema_ipc(s->inner, &bytes, NULL) == TRN_OK)
    trn__strbuf_add(&t->body->schema_ipc, bytes.data, bytes.size);
  if (t->body->schema_ipc.failed || !t->body->schema_ipc.size) tee_abandon(t);
}

static trn_status tee_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  tee_stream *s = self;
  choose_form(s, false);
  s->array_done = done;
  s->user = user;
  return trn_stream_next_array(s->inner, s->is_first ? tee_on_array : done, s->is_first ? s : user, error);
}

static trn_status tee_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  tee_stream *s = self;
  choose_form(s, true);
  s->ipc_done = done;
  s->user = user;
  return trn_stream_next_ipc(s->inner, bytes_max, s->is_first ? tee_on_ipc : done, s->is_first ? s : user, error);
}

static void tee_stream_cancel(void *self) {
  tee_stream *s = self;
  trn_stream_cancel(s->inner);
  if (s->is_first) tee_abandon(s->tee);
}

static void tee_stream_destroy(void *self) {
  tee_stream *s = self;
  if (s->is_first) tee_abandon(s->tee);
  trn_stream_unref(s->inner);
  tee_unref(s->tee);
  free(s);
}

static const trn_stream_ops tee_stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                              .schema = tee_schema,
                                              .schema_ipc = tee_schema_ipc,
                                              .next_array = tee_next_array,
                                              .next_ipc = tee_next_ipc,
                                              .cancel = tee_stream_cancel,
                                              .destroy = tee_stream_destroy};

static trn_operation_state tee_state(void *self) {
  return trn_operation_get_state(((tee *)self)->inner);
}
static void tee_cancel(void *self) {
  trn_operation_cancel(((tee *)self)->inner);
  tee_abandon(self);
}
static trn_status tee_metrics(void *self, char **out) {
  return trn_operation_metrics(((tee *)self)->inner, out);
}
static void tee_destroy(void *self) {
  tee_unref(self);
}

static trn_status tee_result(void *self, trn_stream **out, trn_error **error) {
  tee *t = self;
  trn_stream *inner = NULL;
  trn_status status = trn_operation_result_stream(t->inner, &inner, error);
  if (status) {
    if (status != TRN_FAILED_PRECONDITION) tee_abandon(t);
    return status;
  }
  tee_stream *s = calloc(1, sizeof *s);
  status = s ? trn_stream_create(&tee_stream_ops, s, out) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    free(s);
    trn_stream_unref(inner);
    return trn__no_memory(error);
  }
  s->tee = tee_ref(t);
  s->inner = inner;
  s->is_first = !atomic_exchange(&t->has_stream, true);
  return TRN_OK;
}

static const trn_operation_ops tee_ops = {.struct_size = sizeof(trn_operation_ops),
                                          .state = tee_state,
                                          .cancel = tee_cancel,
                                          .result_stream = tee_result,
                                          .metrics = tee_metrics,
                                          .destroy = tee_destroy};

trn_status cache__lead(ask *a, cache_entry *entry, trn_operation **out, trn_error **error) {
  trn_operation *inner = NULL;
  trn_status status = trn_next_execute(a->layer_session, &a->request, &inner, error);
  tee *t = status ? NULL : calloc(1, sizeof *t);
  if (!status && t) t->body = cache__body_create();
  if (!status && (!t || !t->body || trn_operation_create(&tee_ops, t, trn_operation_id(inner), out))) {
    /* It runs: then without being kept. */
    if (t) cache__body_unref(t->body);
    free(t);
    cache__abandon(a->cache, entry);
    *out = inner;
    return TRN_OK;
  }
  if (status) {
    cache__abandon(a->cache, entry);
    return status;
  }
  atomic_init(&t->refs, 1);
  t->ask = cache__ask_ref(a);
  t->entry = entry;
  t->inner = inner;
  return TRN_OK;
}
