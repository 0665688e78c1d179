/* The cache layer: whole results by what the plan is, what it reads, and what policies made of it. The first who asks fills
 * the entry while reading; others wait for it, and read the same batches. */
#include "layer/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/query.h"

/* ---- one request ---- */

void cache__ask_unref(void *user) {
  ask *a = user;
  if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
  if (a->request.plan) trn__request_finish(&a->request);
  cache__materials_finish(&a->materials);
  trn_session_unref(a->session);
  free(a);
}

ask *cache__ask_ref(ask *a) {
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
  return a;
}

void cache__emit(const ask *a, const char *action, int64_t rows) {
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
      .struct_size = sizeof ops, .start = start_waiting, .cancelled = drop_timer, .destroy = cache__ask_unref};
  trn_deferred *handle = NULL;
  trn_pool *pool = NULL;
  flight_timer *timer = malloc(sizeof *timer);
  if (!timer || trn__layer_pool(a->layer, &pool) ||
      trn_deferred_create(a->layer, &ops, a, &a->request, &handle, out)) {
    free(timer);
    return false;
  }
  cache__ask_ref(a);
  *timer = (flight_timer){a, a->cache, trn__deferred_ref(handle)};
  a->timer = timer; /* nobody else knows it yet */
  cache__emit(a, "wait", -1);
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
    cache__emit(a, "miss", -1);
    return cache__lead(a, entry, out, error);
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
  return cache__answer_from(a, body, out, error);
}

/* ---- writes ---- */

static trn_walk note_write(void *user, const trn_rel *rel) {
  if (rel->kind != TRN_REL_WRITE) return TRN_WALK_ON;
  trn_texts *targets = user; /* of each: a table, then a path; "" when there is none */
  const trn_scan_info *info = rel->u.write.info ? trn_scan_label_info(rel->u.write.info) : NULL;
  char *table = info && info->table ? trn_scan_label_text(rel->u.write.info) : trn__text_copy("");
  const char *path = info && info->path_count ? info->paths[0] : info ? "" : rel->u.write.directory;
  if (!cache__texts_push(targets, table)) return TRN_WALK_STOP;
  return cache__texts_push(targets, *path ? trn__path_normal(path, true) : trn__text_copy("")) ? TRN_WALK_ON : TRN_WALK_STOP;
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
  if (gone) cache__emit(w->ask, "invalidate", -1);
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
  cache__ask_unref(w->ask);
  free(w);
}

/* Takes the reference to `a`, also on failure. */
static trn_status execute_write(ask *a, trn_operation **out, trn_error **error) {
  static const trn_watch_hooks hooks = {.struct_size = sizeof hooks, .end = write_end, .destroy = write_free};
  writing *w = calloc(1, sizeof *w);
  trn_operation *inner = NULL;
  if (!w) {
    cache__ask_unref(a);
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
  } else if (cache__gather(self, a->session, &a->request, &a->materials)) {
    status = answer_or_lead(a, out, true, error);
  } else {
    status = trn_next_execute(s, &a->request, out, error);
  }
  cache__ask_unref(a);
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
  if (c->entries) cache__close(c);
  trn__map_destroy(c->entries, NULL);
  trn__texts_finish(&c->settings);
  pthread_mutex_destroy(&c->mu);
  free(c->directory);
  free(c);
}

static void destroy(void *self) {
  cache_free(self);
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
  if (status == TRN_OK && !c->settings.count && !cache__texts_push(&c->settings, trn__text_copy("datafusion.*")))
    status = trn__no_memory(error);
  if (status || !directory) return status;
  struct stat info;
  if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode) || access(directory, W_OK) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: the cache's directory %s is none that can be written",
                         trn_config_origin(trn_config_get(config, "directory")), directory);
  c->directory = trn__text_copy(directory);
  if (!c->directory) return trn__no_memory(error);
  cache__open(c);
  return TRN_OK;
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
