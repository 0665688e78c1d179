/* The store of the cache layer: entries in memory and on disk, the oldest go first. */
#include <unistd.h>

#include "layer/cache.h"

/* ---- entries ---- */

cache_entry *cache__entry_ref(cache_entry *entry) {
  atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
  return entry;
}

void cache__entry_unref(cache_entry *entry) {
  if (!entry || atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel) != 1) return;
  cache__body_unref(entry->body);
  if (entry->file) unlink(entry->file);
  free(entry->file);
  trn__texts_finish(&entry->tables);
  trn__texts_finish(&entry->paths);
  for (size_t i = 0; i < entry->waiting.count; i++) trn_deferred_unref(entry->waiting.items[i]);
  trn__vec_finish(&entry->waiting);
  free(entry);
}

/* Takes it out of the map; gives the map's reference, for after the lock. locks: mu held */
static cache_entry *remove_entry(cache *c, cache_entry *entry) {
  if (entry->state == CACHE_GONE) return NULL;
  if (entry->state == CACHE_COMPLETE) {
    c->counts.entries--;
    if (entry->body) c->counts.bytes -= entry->bytes;
    if (entry->file) c->counts.disk_bytes -= entry->bytes;
  }
  entry->state = CACHE_GONE;
  trn__map_remove(c->entries, (const char *)entry->key, sizeof entry->key);
  return entry;
}

/* Those who waited begin. locks: none */
static void wake(trn_vec *waiting) {
  for (size_t i = 0; i < waiting->count; i++) {
    trn_deferred_start(waiting->items[i]);
    trn_deferred_unref(waiting->items[i]);
  }
  trn__vec_finish(waiting);
}

static trn_vec take_waiting(cache_entry *entry) {
  trn_vec waiting = entry->waiting;
  entry->waiting = (trn_vec){0};
  return waiting;
}

cache_entry *cache__find(cache *c, const uint8_t key[16], trn_texts *tables, trn_texts *paths, bool *is_new,
                         cache_state *state) {
  cache_entry *old = NULL, *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  atomic_init(&made->refs, 2); /* the map's and the caller's */
  memcpy(made->key, key, sizeof made->key);
  pthread_mutex_lock(&c->mu);
  cache_entry *found = trn__map_get(c->entries, (const char *)key, 16);
  if (found && found->state == CACHE_COMPLETE && found->expires_ns && trn__now_ns() >= found->expires_ns) {
    old = remove_entry(c, found);
    found = NULL;
  }
  *is_new = !found;
  if (found) {
    found->used = ++c->clock;
    cache__entry_ref(found);
  } else if (trn__map_set(c->entries, (const char *)key, 16, made, NULL)) {
    found = made;
    made = NULL;
    found->tables = *tables;
    found->paths = *paths;
    *tables = *paths = (trn_texts){0};
  }
  *state = found ? found->state : CACHE_GONE;
  pthread_mutex_unlock(&c->mu);
  cache__entry_unref(old);
  free(made);
  return found;
}

/* ---- eviction ---- */

typedef struct spill {
  cache *cache;
  cache_entry *entry; /* a reference */
  cache_body *body;   /* a reference */
} spill;

/* The least recently used one in memory (`on_disk` false) that is not on its way out. locks: mu held */
static cache_entry *oldest(const cache *c, bool on_disk) {
  cache_entry *best = NULL;
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(c->entries, &i, &key, &value);) {
    cache_entry *entry = value;
    bool fits = entry->state == CACHE_COMPLETE && (on_disk ? entry->file != NULL : entry->body && !entry->is_spilling);
    if (fits && (!best || entry->used < best->used)) best = entry;
  }
  return best;
}

/* locks: takes mu */
static void trim_disk(cache *c) {
  for (;;) {
    pthread_mutex_lock(&c->mu);
    cache_entry *entry = c->counts.disk_bytes > c->disk_max ? oldest(c, true) : NULL;
    if (entry && entry->body) { /* still in memory: only the file goes */
      char *file = entry->file;
      entry->file = NULL;
      c->counts.disk_bytes -= entry->bytes;
      pthread_mutex_unlock(&c->mu);
      unlink(file);
      free(file);
      continue;
    }
    cache_entry *gone = entry ? remove_entry(c, entry) : NULL;
    if (gone) c->counts.evictions++;
    pthread_mutex_unlock(&c->mu);
    if (!gone) return;
    cache__entry_unref(gone);
  }
}

static void run_spill(void *argument) {
  spill *s = argument;
  cache *c = s->cache;
  char *file = cache__write_body(c, s->entry, s->body);
  cache_entry *gone = NULL;
  cache_body *body = NULL;
  pthread_mutex_lock(&c->mu);
  s->entry->is_spilling = false;
  if (s->entry->state == CACHE_COMPLETE) {
    if (file) {
      s->entry->file = file;
      c->counts.disk_bytes += s->entry->bytes;
      body = s->entry->body;
      s->entry->body = NULL;
      c->counts.bytes -= s->entry->bytes;
      file = NULL;
    } else {
      gone = remove_entry(c, s->entry);
      c->counts.evictions++;
    }
  }
  pthread_mutex_unlock(&c->mu);
  if (file) unlink(file);
  free(file);
  cache__body_unref(body);
  cache__entry_unref(gone);
  cache__entry_unref(s->entry);
  cache__body_unref(s->body);
  free(s);
  trim_disk(c);
}

/* Until what is in memory fits. locks: takes mu */
static void trim_memory(cache *c, trn_layer *layer) {
  trn_pool *pool = NULL;
  bool spills = c->directory && layer && trn__layer_pool(layer, &pool) == TRN_OK;
  uint64_t leaving = 0;
  for (;;) {
    cache_entry *gone = NULL;
    cache_body *dropped = NULL;
    spill *job = spills ? malloc(sizeof *job) : NULL;
    pthread_mutex_lock(&c->mu);
    cache_entry *entry = c->counts.bytes - leaving > c->memory_max ? oldest(c, false) : NULL;
    bool goes_to_disk = entry && job && entry->body->is_ipc && !entry->file;
    if (goes_to_disk) {
      *job = (spill){c, cache__entry_ref(entry), cache__body_ref(entry->body)};
      entry->is_spilling = true;
      leaving += entry->bytes;
    } else if (entry && entry->file) { /* it is on disk already */
      dropped = entry->body;
      entry->body = NULL;
      c->counts.bytes -= entry->bytes;
    } else if (entry) {
      gone = remove_entry(c, entry);
      c->counts.evictions++;
    }
    pthread_mutex_unlock(&c->mu);
    cache__body_unref(dropped);
    if (!goes_to_disk) free(job);
    cache__entry_unref(gone);
    if (!entry) return;
    if (goes_to_disk && trn__pool_submit(pool, run_spill, job)) run_spill(job);
  }
}

void cache__complete(cache *c, trn_layer *layer, cache_entry *entry, cache_body *body) {
  pthread_mutex_lock(&c->mu);
  bool is_wanted = entry->state == CACHE_FILLING; /* else a write has made it stale */
  trn_vec waiting = take_waiting(entry);
  if (is_wanted) {
    entry->state = CACHE_COMPLETE;
    entry->body = body;
    entry->bytes = body->bytes + body->schema_ipc.size;
    entry->used = ++c->clock;
    entry->expires_ns = c->ttl_ms ? trn__now_ns() + (int64_t)c->ttl_ms * 1000000 : 0;
    c->counts.entries++;
    c->counts.stores++;
    c->counts.bytes += entry->bytes;
  }
  pthread_mutex_unlock(&c->mu);
  if (!is_wanted) cache__body_unref(body);
  wake(&waiting);
  if (is_wanted) trim_memory(c, layer);
  cache__entry_unref(entry);
}

void cache__abandon(cache *c, cache_entry *entry) {
  pthread_mutex_lock(&c->mu);
  cache_entry *gone = remove_entry(c, entry);
  trn_vec waiting = take_waiting(entry);
  pthread_mutex_unlock(&c->mu);
  wake(&waiting);
  cache__entry_unref(gone);
  cache__entry_unref(entry);
}

cache_body *cache__take(cache *c, cache_entry *entry, bool *from_disk) {
  pthread_mutex_lock(&c->mu);
  cache_body *body = entry->body ? cache__body_ref(entry->body) : NULL;
  char *file = !body && entry->file && entry->state == CACHE_COMPLETE ? trn__text_copy(entry->file) : NULL;
  pthread_mutex_unlock(&c->mu);
  *from_disk = file != NULL;
  if (body || !file) return body;
  body = cache__read_body(file, entry->key);
  free(file);
  cache_entry *gone = NULL;
  pthread_mutex_lock(&c->mu);
  if (!body && entry->state == CACHE_COMPLETE) gone = remove_entry(c, entry);
  if (body && entry->state == CACHE_COMPLETE && !entry->body) { /* it is in memory again, and on disk */
    entry->body = cache__body_ref(body);
    c->counts.bytes += entry->bytes;
  }
  pthread_mutex_unlock(&c->mu);
  cache__entry_unref(gone);
  if (body) trim_memory(c, NULL);
  return body;
}

bool cache__wait(cache *c, cache_entry *entry, trn_deferred *handle) {
  pthread_mutex_lock(&c->mu);
  bool waits = entry->state == CACHE_FILLING && trn__vec_push(&entry->waiting, handle);
  if (waits) c->counts.waits++;
  pthread_mutex_unlock(&c->mu);
  return waits;
}

/* ---- invalidation ---- */

static bool overlaps(const char *a, const char *b) {
  size_t size = strlen(a), other = strlen(b);
  if (size > other) return overlaps(b, a);
  while (size && a[size - 1] == '/') size--;
  return strncmp(a, b, size) == 0 && (!b[size] || b[size] == '/');
}

static bool is_made_of(const cache_entry *entry, const char *table, const char *path) {
  for (size_t i = 0; table && i < entry->tables.count; i++)
    if (trn_pattern_matches(table, entry->tables.items[i], true)) return true;
  for (size_t i = 0; path && i < entry->paths.count; i++)
    if (overlaps(path, entry->paths.items[i])) return true;
  return false;
}

/* locks: takes mu; `table` and `path` NULL: all */
static size_t forget(cache *c, const char *table, const char *path) {
  size_t count = 0;
  for (;;) {
    cache_entry *gone = NULL;
    const char *key;
    void *value;
    trn_vec waiting = {0};
    pthread_mutex_lock(&c->mu);
    for (size_t i = 0; !gone && trn__map_next(c->entries, &i, &key, &value);)
      if ((!table && !path) || is_made_of(value, table, path)) {
        waiting = take_waiting(value);
        gone = remove_entry(c, value);
      }
    if (gone && (table || path)) c->counts.invalidations++;
    pthread_mutex_unlock(&c->mu);
    if (!gone) return count;
    wake(&waiting);
    cache__entry_unref(gone);
    count++;
  }
}

size_t cache__invalidate(cache *c, const char *table, const char *path) {
  return table || path ? forget(c, table, path) : 0;
}

/* ---- from one process to the next ---- */

/* Takes the entry. The newest of a key stays; there are no others yet but those of files. */
static bool add_file(cache *c, cache_entry *entry) {
  bool has_room = trn__map_count(c->entries) < TRN_CACHE_FILES_MAX;
  bool is_new = !trn__map_get(c->entries, (const char *)entry->key, sizeof entry->key);
  if (has_room && is_new && trn__map_set(c->entries, (const char *)entry->key, sizeof entry->key, entry, NULL)) {
    entry->state = CACHE_COMPLETE;
    entry->used = ++c->clock;
    c->counts.entries++;
    c->counts.disk_bytes += entry->bytes;
  } else {
    cache__entry_unref(entry); /* and its file */
  }
  return true;
}

void cache__open(cache *c) {
  cache__each_file(c->directory, add_file, c);
  trim_disk(c);
}

void cache__close(cache *c) {
  const char *key;
  void *value;
  for (size_t i = 0; c->directory && trn__map_next(c->entries, &i, &key, &value);) {
    cache_entry *entry = value;
    if (entry->state != CACHE_COMPLETE) continue;
    bool fits = c->counts.disk_bytes + entry->bytes <= c->disk_max;
    if (!entry->file && entry->body && entry->body->is_ipc && fits)
      if ((entry->file = cache__write_body(c, entry, entry->body))) c->counts.disk_bytes += entry->bytes;
    free(entry->file); /* the name; the file stays */
    entry->file = NULL;
  }
  cache__clear(c);
}

void cache__clear(cache *c) {
  forget(c, NULL, NULL);
}
