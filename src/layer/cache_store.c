/* The store of the cache layer: entries in memory and on disk, the oldest go first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layer/cache.h"

/* ---- results ---- */

cache_item *cache__item_ref(cache_item *item) {
  atomic_fetch_add_explicit(&item->refs, 1, memory_order_relaxed);
  return item;
}

void cache__item_unref(void *owner) {
  cache_item *item = owner;
  if (!item || atomic_fetch_sub_explicit(&item->refs, 1, memory_order_acq_rel) != 1) return;
  if (item->piece.release) item->piece.release(item->piece.owner);
  trn__shared_array_unref(item->array);
  free(item);
}

cache_body *cache__body_create(void) {
  cache_body *body = calloc(1, sizeof *body);
  if (body) atomic_init(&body->refs, 1);
  return body;
}

cache_body *cache__body_ref(cache_body *body) {
  atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
  return body;
}

void cache__body_unref(cache_body *body) {
  if (!body || atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < body->count; i++) cache__item_unref(body->items[i]);
  free(body->items);
  trn__schema_release(&body->schema);
  trn__strbuf_finish(&body->schema_ipc);
  free(body);
}

bool cache__body_add(cache_body *body, cache_item *item) {
  if (body->count == body->capacity) {
    size_t capacity = body->capacity ? body->capacity * 2 : 8;
    cache_item **items = realloc(body->items, capacity * sizeof *items);
    if (!items) return false;
    body->items = items;
    body->capacity = capacity;
  }
  body->items[body->count++] = item;
  body->rows += item->rows;
  body->bytes += item->bytes;
  if (item->bytes > body->piece_max) body->piece_max = item->bytes;
  return true;
}

/* ---- files: count, sizes, then schema and pieces, each at a multiple of 8 ---- */

#define CACHE_SUFFIX ".trncache"
static const char MAGIC[8] = "TRNCACH1";

typedef struct file_head {
  char magic[8];
  uint64_t count, schema_size, rows;
} file_head;

static size_t padded(size_t size) {
  return (size + 7) & ~(size_t)7;
}

static bool write_all(int fd, const void *data, size_t size) {
  for (const char *at = data; size;) {
    ssize_t done = write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= (size_t)done;
  }
  return true;
}

static bool write_padding(int fd, size_t size) {
  static const char zeros[8] = {0};
  return write_all(fd, zeros, padded(size) - size);
}

static bool write_items(int fd, const cache_body *body) {
  for (size_t i = 0; i < body->count; i++) {
    uint64_t sizes[2] = {body->items[i]->piece.size, (uint64_t)body->items[i]->rows};
    if (!write_all(fd, sizes, sizeof sizes)) return false;
  }
  if (!write_all(fd, body->schema_ipc.data, body->schema_ipc.size) || !write_padding(fd, body->schema_ipc.size))
    return false;
  for (size_t i = 0; i < body->count; i++) {
    const trn_ipc_piece *piece = &body->items[i]->piece;
    for (size_t k = 0; k < piece->slice_count; k++)
      if (!write_all(fd, piece->slices[k].data, piece->slices[k].size)) return false;
    if (!write_padding(fd, piece->size)) return false;
  }
  return true;
}

/* Gives the file's path, or NULL: it stays in memory no longer, then. */
static char *write_body(const cache *c, const cache_body *body) {
  char id[TRN_UUID_SIZE];
  trn_strbuf path = {0};
  trn__uuid4(id);
  trn__strbuf_printf(&path, "%s/%s%s", c->directory, id, CACHE_SUFFIX);
  if (path.failed) {
    trn__strbuf_finish(&path);
    return NULL;
  }
  int fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  file_head head = {.count = body->count, .schema_size = body->schema_ipc.size, .rows = (uint64_t)body->rows};
  memcpy(head.magic, MAGIC, sizeof MAGIC);
  bool ok = fd >= 0 && write_all(fd, &head, sizeof head) && write_items(fd, body);
  if (fd >= 0 && close(fd) != 0) ok = false;
  if (ok) return path.data;
  if (fd >= 0) unlink(path.data);
  trn__strbuf_finish(&path);
  return NULL;
}

/* The bytes of a file, shared by its pieces. */
typedef struct block {
  atomic_size_t refs;
  char *data;
} block;

static void block_unref(void *owner) {
  block *b = owner;
  if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  free(b->data);
  free(b);
}

typedef struct loaded_item {
  cache_item item;
  trn_slice slice;
} loaded_item;

static bool add_loaded(cache_body *body, block *b, const char *data, uint64_t size, uint64_t rows) {
  loaded_item *loaded = calloc(1, sizeof *loaded);
  if (!loaded) return false;
  atomic_init(&loaded->item.refs, 1);
  loaded->slice = (trn_slice){.data = data, .size = size};
  atomic_fetch_add(&b->refs, 1);
  loaded->item.piece = (trn_ipc_piece){.slices = &loaded->slice,
                                       .slice_count = 1,
                                       .size = size,
                                       .rows = (int64_t)rows,
                                       .release = block_unref,
                                       .owner = b};
  loaded->item.rows = (int64_t)rows;
  loaded->item.bytes = size;
  if (cache__body_add(body, &loaded->item)) return true;
  cache__item_unref(&loaded->item);
  return false;
}

/* Sizes are checked: the directory is ours, but a file may have been cut. */
static bool parse_block(cache_body *body, block *b, size_t size) {
  file_head head;
  if (size < sizeof head) return false;
  memcpy(&head, b->data, sizeof head);
  if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.count > (size - sizeof head) / 16) return false;
  const char *sizes = b->data + sizeof head;
  size_t at = sizeof head + (size_t)head.count * 16;
  if (head.schema_size > size - at) return false;
  trn__strbuf_add(&body->schema_ipc, b->data + at, head.schema_size);
  at += padded(head.schema_size);
  body->is_ipc = true;
  for (uint64_t i = 0; i < head.count; i++) {
    uint64_t pair[2];
    memcpy(pair, sizes + i * 16, 16);
    if (at > size || pair[0] > size - at || !add_loaded(body, b, b->data + at, pair[0], pair[1])) return false;
    at += padded(pair[0]);
  }
  return !body->schema_ipc.failed && body->rows == (int64_t)head.rows;
}

static bool read_whole(int fd, char *data, size_t size) {
  while (size) {
    ssize_t done = read(fd, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= (size_t)done;
  }
  return true;
}

static cache_body *read_body(const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  cache_body *body = cache__body_create();
  block *b = calloc(1, sizeof *b);
  bool ok = body && b && fstat(fd, &info) == 0 && info.st_size > 0;
  if (b) atomic_init(&b->refs, 1);
  if (ok) b->data = malloc((size_t)info.st_size);
  ok = ok && b->data && read_whole(fd, b->data, (size_t)info.st_size) && parse_block(body, b, (size_t)info.st_size);
  close(fd);
  if (b) block_unref(b);
  if (ok) return body;
  cache__body_unref(body);
  return NULL;
}

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
  char *file = write_body(c, s->body);
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
  body = read_body(file);
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

void cache__clear(cache *c) {
  forget(c, NULL, NULL);
}
