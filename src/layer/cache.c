/* The cache layer: whole results by what the plan is, what it reads, and what policies made of it. The first who asks fills
 * the entry while reading; others wait for it, and read the same batches. */
#include "layer/cache.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/blake2b.h"
#include "core/query.h"

/* ---- what may be kept, and under which key ---- */

typedef struct inquiry {
  trn_vec labels; /* const trn_scan_label */
  bool keeps;     /* nothing in the plan forbids it */
  bool failed;
} inquiry;

static trn_walk look_at_rel(void *user, const trn_rel *rel) {
  inquiry *q = user;
  uint8_t identity[16];
  switch (rel->kind) {
  case TRN_REL_SCAN:
    if (!rel->u.scan.info || !trn_scan_label_identity(rel->u.scan.info, identity))
      q->keeps = false;
    else if (!trn__vec_push(&q->labels, rel->u.scan.info))
      q->failed = true;
    break;
  case TRN_REL_WRITE:
  case TRN_REL_OPAQUE:
  case TRN_REL_EXTENSION:
  case TRN_REL_SAMPLE: q->keeps = false; break;
  default: break;
  }
  return q->keeps && !q->failed ? TRN_WALK_ON : TRN_WALK_STOP;
}

static trn_walk look_at_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  inquiry *q = user;
  (void)holder;
  if (trn_expr_volatility(expr) == 2) q->keeps = false;
  return q->keeps ? TRN_WALK_ON : TRN_WALK_STOP;
}

/* Another answer each time, or each day. */
static bool is_volatile(const char *name) {
  static const char *const names[] = {"now",          "current_timestamp", "localtimestamp",
                                      "current_date", "curdate",           "current_time",
                                      "today",        "unix_timestamp",    "to_unix_timestamp",
                                      "rand",         "random",            "randn",
                                      "uuid",         "shuffle",           "randstr",
                                      "uniform",      "spark_partition_id", "monotonically_increasing_id",
                                      "input_file_name", "input_file_block_start", "input_file_block_length",
                                      "reflect",      "java_method",       "try_reflect"};
  const char *plain = strncmp(name, "trn.", 4) == 0 ? name + 4 : name;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (trn_pattern_matches(names[i], plain, true)) return true;
  return false;
}

static bool calls_volatile(const trn_plan *plan, bool *failed) {
  const char *const *names = NULL;
  size_t count = 0;
  if (trn_plan_functions(plan, &names, &count)) *failed = true;
  for (size_t i = 0; i < count; i++)
    if (is_volatile(names[i])) return true;
  return *failed;
}

typedef struct setting_hash {
  const cache *cache;
  uint64_t sum[2]; /* settings have no order that matters */
} setting_hash;

static void add_setting(void *user, const char *key, const char *value) {
  setting_hash *h = user;
  uint64_t digest[2];
  trn_blake2b hash;
  if (!trn__texts_match(&h->cache->settings, key, false)) return;
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, key, strlen(key) + 1);
  trn__blake2b_add(&hash, value, strlen(value));
  trn__blake2b_end(&hash, (uint8_t *)digest);
  h->sum[0] += digest[0];
  h->sum[1] += digest[1];
}

static void put_text(trn_blake2b *hash, const char *text) {
  uint64_t size = text ? strlen(text) + 1 : 0;
  trn__blake2b_add(hash, &size, sizeof size);
  if (size) trn__blake2b_add(hash, text, size);
}

static bool texts_push(trn_texts *texts, char *text) {
  char **items = text ? realloc(texts->items, (texts->count + 1) * sizeof *items) : NULL;
  if (!items) {
    free(text);
    return false;
  }
  texts->items = items;
  items[texts->count++] = text;
  return true;
}

/* What a query is made of. */
typedef struct materials {
  uint8_t key[16], version[16];
  bool has_version;
  trn_texts tables, paths, live; /* live: paths whose files may change under their names */
} materials;

static void materials_finish(materials *m) {
  trn__texts_finish(&m->tables);
  trn__texts_finish(&m->paths);
  trn__texts_finish(&m->live);
}

static bool add_label(materials *m, const trn_scan_label *label) {
  const trn_scan_info *info = trn_scan_label_info(label);
  if (info->table && !texts_push(&m->tables, trn_scan_label_text(label))) return false;
  for (size_t i = 0; i < info->path_count; i++) {
    if (!texts_push(&m->paths, trn__path_normal(info->paths[i], true))) return false;
    if (info->kind == TRN_SCAN_FILES && !texts_push(&m->live, trn__text_copy(info->paths[i]))) return false;
  }
  return true;
}

/* False: not to be kept (or no memory for it: then it is only not kept). */
static bool gather(const cache *c, trn_session *session, const trn_execute_request *request, materials *m) {
  inquiry q = {.keeps = true};
  trn_visitor visitor = {.rel = look_at_rel, .expr = look_at_expr, .user = &q};
  bool failed = false;
  if (request->plan->kind == TRN_PLAN_PHYSICAL) return false;
  trn_status status = trn__plan_walk(request->plan->root, &visitor);
  bool keeps = status == TRN_OK && q.keeps && !q.failed && !calls_volatile(request->plan, &failed);
  for (size_t i = 0; i < q.labels.count && keeps; i++) keeps = add_label(m, q.labels.items[i]);
  trn__vec_finish(&q.labels);
  if (keeps && m->live.count) {
    m->has_version = trn__paths_version((const char *const *)m->live.items, m->live.count, m->version, NULL, NULL);
    keeps = m->has_version;
  }
  setting_hash settings = {.cache = c};
  if (!keeps || trn_session_each(session, add_setting, &settings)) return false;
  uint8_t fingerprint[16];
  trn_blake2b hash;
  trn_plan_fingerprint(request->plan, fingerprint);
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, fingerprint, sizeof fingerprint);
  trn__blake2b_add(&hash, m->version, sizeof m->version);
  trn__blake2b_add(&hash, settings.sum, sizeof settings.sum);
  put_text(&hash, request->policy);
  put_text(&hash, c->per_user ? trn_session_user(session) : NULL);
  trn__blake2b_end(&hash, m->key);
  return true;
}

/* The files are still what they were when the query began. */
static bool is_unchanged(const materials *m) {
  uint8_t now[16];
  if (!m->live.count) return true;
  return trn__paths_version((const char *const *)m->live.items, m->live.count, now, NULL, NULL) &&
         memcmp(now, m->version, sizeof now) == 0;
}

/* ---- one request ---- */

/* Of one that waits; lets go of it as soon as it does not. */
typedef struct flight_timer {
  struct ask *ask;      /* guarded by cache->mu */
  cache *cache;
  trn_deferred *handle; /* a reference; NULL: over; guarded by cache->mu */
} flight_timer;

typedef struct ask {
  atomic_size_t refs;
  cache *cache;
  trn_layer *layer;
  trn_session *session; /* a reference: keeps all of them */
  trn_layer_session *layer_session;
  trn_execute_request request; /* owned */
  materials materials;
  flight_timer *timer; /* NULL: none; guarded by cache->mu */
} ask;

static void ask_unref(void *user) {
  ask *a = user;
  if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
  if (a->request.plan) trn__request_finish(&a->request);
  materials_finish(&a->materials);
  trn_session_unref(a->session);
  free(a);
}

static ask *ask_ref(ask *a) {
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
  return a;
}

static void emit(const ask *a, const char *action, int64_t rows) {
  char *object = NULL;
  if (!trn__layer_has_sink(a->layer)) return;
  object = trn__plan_objects(a->request.plan);
  trn_event event = {.kind = TRN_EVENT_CACHE,
                     .action = action,
                     .object = object,
                     .operation_id = a->request.operation_id,
                     .statement = a->request.statement,
                     .protocol = a->request.protocol,
                     .rows = rows,
                     .bytes = -1};
  trn__layer_emit(a->layer, a->layer_session, &event);
  free(object);
}

/* ---- filling: the leader's operation ---- */

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
  ask_unref(t->ask);
  free(t);
}

static tee *tee_ref(tee *t) {
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

/* All rows have been there. */
static void tee_complete(tee *t) {
  if (atomic_exchange(&t->is_over, true)) return;
  if (!is_unchanged(&t->ask->materials)) {
    cache__abandon(t->ask->cache, t->entry);
    return;
  }
  cache_body *body = t->body;
  t->body = NULL;
  int64_t rows = body->rows;
  cache__complete(t->ask->cache, t->ask->layer, t->entry, body);
  emit(t->ask, "store", rows);
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

/* Executes, and fills the entry; takes the entry's reference, also on failure. */
static trn_status lead(ask *a, cache_entry *entry, trn_operation **out, trn_error **error) {
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
  t->ask = ask_ref(a);
  t->entry = entry;
  t->inner = inner;
  return TRN_OK;
}

/* ---- a hit: the same batches again ---- */

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
  ask_unref(r->ask);
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
  if (entry && is_new) return lead(a, entry, out, error); /* kept in the form that was wanted this time */
  cache__entry_unref(entry);
  return trn_next_execute(a->layer_session, &a->request, out, error);
}

/* Runs the query after all: the store has pieces that are too large for this reader, or the other form. */
static trn_status run_other(replay_stream *s, trn_error **error) {
  static const trn_deferred_ops ops = {.struct_size = sizeof ops, .start = start_other, .destroy = ask_unref};
  ask *a = s->replay->ask;
  trn_deferred *handle = NULL;
  trn_operation *operation = NULL;
  trn_status status = trn_deferred_create(a->layer, &ops, a, &a->request, &handle, &operation);
  if (status) return trn__no_memory(error);
  ask_ref(a);
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

/* Takes the body, also on failure. */
static trn_status answer_from(ask *a, cache_body *body, trn_operation **out, trn_error **error) {
  replay *r = calloc(1, sizeof *r);
  if (!r || trn_operation_create(&replay_ops, r, a->request.operation_id, out)) {
    free(r);
    cache__body_unref(body);
    return trn__no_memory(error);
  }
  atomic_init(&r->refs, 1);
  atomic_init(&r->state, TRN_OPERATION_RUNNING);
  r->ask = ask_ref(a);
  r->body = body;
  emit(a, "hit", body->rows);
  return TRN_OK;
}

/* ---- looking up ---- */

static void count(cache *c, uint64_t *which) {
  pthread_mutex_lock(&c->mu);
  ++*which;
  pthread_mutex_unlock(&c->mu);
}

static trn_status answer_or_lead(ask *a, trn_operation **out, bool may_wait, trn_error **error);

/* It waits no more. */
static void drop_timer(void *user) {
  ask *a = user;
  trn_deferred *handle = NULL;
  pthread_mutex_lock(&a->cache->mu);
  if (a->timer) {
    handle = a->timer->handle;
    a->timer->handle = NULL;
    a->timer = NULL;
  }
  pthread_mutex_unlock(&a->cache->mu);
  trn_deferred_unref(handle); /* not the last: this runs inside of it */
}

/* The one that was waited for is there, given up, or too slow. */
static trn_status start_waiting(void *user, trn_operation **out, trn_error **error) {
  drop_timer(user);
  return answer_or_lead(user, out, false, error);
}

static void stop_waiting(void *argument) {
  flight_timer *timer = argument;
  pthread_mutex_lock(&timer->cache->mu);
  trn_deferred *handle = timer->handle;
  if (handle) timer->ask->timer = NULL;
  pthread_mutex_unlock(&timer->cache->mu);
  if (handle) trn_deferred_start(handle);
  trn_deferred_unref(handle);
  free(timer);
}

/* Waits for who fills the entry; false: it is not filling any more, or there is no memory to wait with. */
static bool wait_for(ask *a, cache_entry *entry, trn_operation **out) {
  static const trn_deferred_ops ops = {
      .struct_size = sizeof ops, .start = start_waiting, .cancelled = drop_timer, .destroy = ask_unref};
  trn_deferred *handle = NULL;
  trn_pool *pool = NULL;
  flight_timer *timer = malloc(sizeof *timer);
  if (!timer || trn__layer_pool(a->layer, &pool) ||
      trn_deferred_create(a->layer, &ops, a, &a->request, &handle, out)) {
    free(timer);
    return false;
  }
  ask_ref(a);
  *timer = (flight_timer){a, a->cache, trn__deferred_ref(handle)};
  a->timer = timer; /* nobody else knows it yet */
  emit(a, "wait", -1);
  if (trn__pool_submit_after(pool, a->cache->wait_ms, stop_waiting, timer)) stop_waiting(timer);
  if (!cache__wait(a->cache, entry, handle)) { /* it is there already */
    trn_deferred_start(handle);
    trn_deferred_unref(handle);
  }
  return true;
}

static trn_status answer_or_lead(ask *a, trn_operation **out, bool may_wait, trn_error **error) {
  cache *c = a->cache;
  bool is_new = false, from_disk = false;
  cache_state state = CACHE_GONE;
  cache_entry *entry = cache__find(c, a->materials.key, &a->materials.tables, &a->materials.paths, &is_new, &state);
  if (!entry) return trn_next_execute(a->layer_session, &a->request, out, error);
  if (is_new) {
    count(c, &c->counts.misses);
    emit(a, "miss", -1);
    return lead(a, entry, out, error);
  }
  if (state == CACHE_FILLING) {
    bool waits = may_wait && wait_for(a, entry, out);
    cache__entry_unref(entry);
    return waits ? TRN_OK : trn_next_execute(a->layer_session, &a->request, out, error);
  }
  cache_body *body = cache__take(c, entry, &from_disk);
  cache__entry_unref(entry);
  if (!body) return trn_next_execute(a->layer_session, &a->request, out, error);
  count(c, from_disk ? &c->counts.disk_hits : &c->counts.hits);
  return answer_from(a, body, out, error);
}

/* ---- writes ---- */

static trn_walk note_write(void *user, const trn_rel *rel) {
  if (rel->kind != TRN_REL_WRITE) return TRN_WALK_ON;
  trn_texts *targets = user; /* of each: a table, then a path; "" when there is none */
  const trn_scan_info *info = rel->u.write.info ? trn_scan_label_info(rel->u.write.info) : NULL;
  char *table = info && info->table ? trn_scan_label_text(rel->u.write.info) : trn__text_copy("");
  const char *path = info && info->path_count ? info->paths[0] : info ? "" : rel->u.write.directory;
  if (!texts_push(targets, table)) return TRN_WALK_STOP;
  return texts_push(targets, *path ? trn__path_normal(path, true) : trn__text_copy("")) ? TRN_WALK_ON : TRN_WALK_STOP;
}

typedef struct writing {
  ask *ask;
  trn_texts targets;
} writing;

static void invalidate(cache *c, const writing *w) {
  size_t gone = 0;
  for (size_t i = 0; i + 1 < w->targets.count; i += 2)
    gone += cache__invalidate(c, *w->targets.items[i] ? w->targets.items[i] : NULL,
                              *w->targets.items[i + 1] ? w->targets.items[i + 1] : NULL);
  if (gone) emit(w->ask, "invalidate", -1);
}

/* Whatever the end: rows may be there. */
static void write_end(void *user, trn_status status, const trn_error *error) {
  writing *w = user;
  (void)status, (void)error;
  invalidate(w->ask->cache, w);
}

static void write_free(void *user) {
  writing *w = user;
  trn__texts_finish(&w->targets);
  ask_unref(w->ask);
  free(w);
}

/* Takes the reference to `a`, also on failure. */
static trn_status execute_write(ask *a, trn_operation **out, trn_error **error) {
  static const trn_watch_hooks hooks = {.struct_size = sizeof hooks, .end = write_end, .destroy = write_free};
  writing *w = calloc(1, sizeof *w);
  trn_operation *inner = NULL;
  if (!w) {
    ask_unref(a);
    return trn__no_memory(error);
  }
  w->ask = a;
  trn_visitor visitor = {.rel = note_write, .user = &w->targets};
  trn_status status = trn__plan_walk(a->request.plan->root, &visitor);
  if (status) trn__no_memory(error);
  if (status == TRN_OK) status = trn_next_execute(a->layer_session, &a->request, &inner, error);
  if (status == TRN_OK && trn_operation_watch(inner, &hooks, w, out)) {
    trn_operation_cancel(inner);
    trn_operation_unref(inner);
    status = trn__no_memory(error);
  }
  if (status) write_free(w);
  return status;
}

/* ---- the layer ---- */

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  bool writes = strcmp(trn__plan_statement(request->plan), "write") == 0;
  ask *a = calloc(1, sizeof *a);
  if (!a) return trn__no_memory(error);
  atomic_init(&a->refs, 1);
  a->cache = self;
  a->layer = trn_layer_session_layer(s);
  a->session = trn_session_ref(trn_layer_session_get(s));
  a->layer_session = s;
  trn_status status = TRN_OK;
  if (!trn__request_copy(&a->request, request)) {
    status = trn__no_memory(error);
  } else if (writes) {
    return execute_write(a, out, error);
  } else if (gather(self, a->session, &a->request, &a->materials)) {
    status = answer_or_lead(a, out, true, error);
  } else {
    status = trn_next_execute(s, &a->request, out, error);
  }
  ask_unref(a);
  return status;
}

/* ---- changes of catalogs ---- */

typedef struct catalog_watch {
  cache *cache;
  trn_layer *layer;
  trn_backend *backend; /* a reference: keeps both */
} catalog_watch;

static void catalog_changed(void *user, trn_session *session, const trn_catalog_access *access) {
  catalog_watch *w = user;
  trn_strbuf name = {0};
  trn__strbuf_printf(&name, "%s.%s.%s", access->catalog ? access->catalog : "", access->database,
                     access->table ? access->table : "*");
  size_t gone = name.failed ? 0 : cache__invalidate(w->cache, name.data, NULL);
  if (name.failed) cache__clear(w->cache); /* rather nothing than something old */
  if (gone) {
    trn_event event = {.kind = TRN_EVENT_CACHE,
                       .action = "invalidate",
                       .object = name.data,
                       .user = trn_session_user(session),
                       .session_id = trn_session_id(session),
                       .rows = -1,
                       .bytes = -1};
    trn__layer_emit(w->layer, NULL, &event);
  }
  trn__strbuf_finish(&name);
}

static void watch_free(void *user) {
  catalog_watch *w = user;
  trn_backend_unref(w->backend);
  free(w);
}

static trn_status wrap_catalog(void *self, trn_layer_session *s, trn_catalog *inner, trn_catalog **out,
                               trn_error **error) {
  static const trn_catalog_hooks hooks = {
      .struct_size = sizeof hooks, .changed = catalog_changed, .destroy = watch_free};
  catalog_watch *w = malloc(sizeof *w);
  if (!w) return trn__no_memory(error);
  trn_layer *layer = trn_layer_session_layer(s);
  *w = (catalog_watch){self, layer, trn__layer_ref(layer)};
  if (trn_catalog_wrap(inner, &hooks, w, out) == TRN_OK) return TRN_OK;
  watch_free(w);
  return trn__no_memory(error);
}

/* ---- making ---- */

static void cache_free(cache *c) {
  if (c->entries) cache__clear(c);
  trn__map_destroy(c->entries, NULL);
  trn__texts_finish(&c->settings);
  pthread_mutex_destroy(&c->mu);
  free(c->directory);
  free(c);
}

static void destroy(void *self) {
  cache_free(self);
}

/* Files of an earlier process: what is in them is not known any more. */
static void sweep(const char *directory) {
  DIR *folder = opendir(directory);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    size_t size = strlen(entry->d_name), ending = strlen(".trncache");
    if (size != TRN_UUID_SIZE - 1 + ending || strcmp(entry->d_name + size - ending, ".trncache") != 0) continue;
    trn_strbuf path = {0};
    trn__strbuf_printf(&path, "%s/%s", directory, entry->d_name);
    if (!path.failed) unlink(path.data);
    trn__strbuf_finish(&path);
  }
  if (folder) closedir(folder);
}

static trn_status read_cache(const trn_config *config, cache *c, trn_error **error) {
  static const char *const keys[] = {"memory", "disk", "directory", "entry", "ttl", "wait", "settings", "per_user", NULL};
  const char *directory = NULL;
  c->memory_max = 256u << 20, c->disk_max = 1ull << 30, c->entry_max = 64u << 20, c->wait_ms = 10 * 1000;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (status == TRN_OK) status = trn_config_size(config, "memory", &c->memory_max, error);
  if (status == TRN_OK) status = trn_config_size(config, "disk", &c->disk_max, error);
  if (status == TRN_OK) status = trn_config_size(config, "entry", &c->entry_max, error);
  if (status == TRN_OK) status = trn_config_duration(config, "ttl", &c->ttl_ms, error);
  if (status == TRN_OK) status = trn_config_duration(config, "wait", &c->wait_ms, error);
  if (status == TRN_OK) status = trn_config_bool(config, "per_user", &c->per_user, error);
  if (status == TRN_OK) status = trn_config_text(config, "directory", &directory, error);
  if (status == TRN_OK) status = trn__texts_read(config, "settings", &c->settings, error);
  if (status == TRN_OK && !c->settings.count && !texts_push(&c->settings, trn__text_copy("datafusion.*")))
    status = trn__no_memory(error);
  if (status || !directory) return status;
  struct stat info;
  if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode) || access(directory, W_OK) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: the cache's directory %s is none that can be written",
                         trn_config_origin(trn_config_get(config, "directory")), directory);
  sweep(directory);
  c->directory = trn__text_copy(directory);
  return c->directory ? TRN_OK : trn__no_memory(error);
}

trn_status trn_cache_create(const trn_cache_options *given, trn_backend *inner, trn_backend **out, trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "cache",
                                    .role = TRN_LAYER_CACHE,
                                    .execute = execute,
                                    .catalog = wrap_catalog,
                                    .destroy = destroy};
  *out = NULL;
  trn_cache_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  cache *c = calloc(1, sizeof *c);
  if (!c) return trn__no_memory(error);
  pthread_mutex_init(&c->mu, NULL);
  c->entries = trn__map_create();
  trn_status status = c->entries ? read_cache(options.config, c, error) : trn__no_memory(error);
  if (status == TRN_OK) status = trn__layer_make(&ops, c, inner, options.sink, options.sink_user, out, error);
  if (status) cache_free(c);
  return status;
}

bool trn_cache_count(trn_backend *backend, trn_cache_counts *out) {
  trn_layer *layer = trn__layer_of(backend);
  if (!layer || !trn__layer_is(layer, destroy)) return false;
  cache *c = trn__layer_self(layer);
  size_t size = out->struct_size;
  pthread_mutex_lock(&c->mu);
  trn_cache_counts counts = c->counts;
  pthread_mutex_unlock(&c->mu);
  counts.struct_size = size;
  memcpy(out, &counts, trn__struct_size(size, sizeof counts));
  return true;
}

void trn_cache_clear(trn_backend *backend) {
  trn_layer *layer = trn__layer_of(backend);
  if (layer && trn__layer_is(layer, destroy)) cache__clear(trn__layer_self(layer));
}
