/* Parts of the cache layer. Internal to src/layer. */
#ifndef TRN_LAYER_CACHE_H
#define TRN_LAYER_CACHE_H
#include <pthread.h>

#include "arrow/arrow_util.h"
#include "layer/request.h"

/* ---- results ---- */

/* One batch or piece as the backend gave it, shared by everybody who reads it. */
typedef struct cache_item {
  atomic_size_t refs;
  trn_ipc_piece piece;     /* release NULL: an array */
  trn_shared_array *array;
  int64_t rows;
  uint64_t bytes;
} cache_item;
cache_item *cache__item_ref(cache_item *item);
void cache__item_unref(void *item);

/* A whole result. Changed by who fills it, then never again. */
typedef struct cache_body {
  atomic_size_t refs;
  cache_item **items;
  size_t count, capacity;
  bool is_ipc, has_schema;
  size_t piece_max; /* the largest piece */
  int64_t rows;
  uint64_t bytes;
  struct ArrowSchema schema;
  trn_strbuf schema_ipc;
} cache_body;
cache_body *cache__body_create(void);
cache_body *cache__body_ref(cache_body *body);
void cache__body_unref(cache_body *body);
/* Takes the item on success. */
bool cache__body_add(cache_body *body, cache_item *item);

/* ---- the store ---- */

typedef enum cache_state { CACHE_FILLING = 0, CACHE_COMPLETE, CACHE_GONE } cache_state;

typedef struct cache_entry {
  atomic_size_t refs;
  uint8_t key[16];
  trn_texts tables, paths; /* what it was made of */
  /* guarded by cache->mu */
  cache_state state;
  cache_body *body; /* NULL: filling, or on disk only */
  char *file;       /* on disk; or NULL */
  uint64_t bytes;
  uint64_t used;
  int64_t expires_ns; /* 0: never */
  bool is_spilling;
  trn_vec waiting; /* trn_deferred handles of those who want it */
} cache_entry;
cache_entry *cache__entry_ref(cache_entry *entry);
void cache__entry_unref(cache_entry *entry);

typedef struct cache {
  uint64_t memory_max, disk_max, entry_max, ttl_ms, wait_ms;
  char *directory; /* NULL: memory only */
  bool per_user;
  trn_texts settings; /* that change results */
  pthread_mutex_t mu;
  /* guarded by mu */
  trn_map *entries; /* key -> cache_entry, a reference each */
  uint64_t clock;
  trn_cache_counts counts;
} cache;

/* Gives an entry to fill (a reference; `is_new`: it takes the texts), or one that is there. NULL: no memory. locks: takes
 * mu */
cache_entry *cache__find(cache *c, const uint8_t key[16], trn_texts *tables, trn_texts *paths, bool *is_new,
                         cache_state *state);
/* Filled, or given up: whoever waits goes on. Both unref the entry. */
void cache__complete(cache *c, trn_layer *layer, cache_entry *entry, cache_body *body); /* takes the body */
void cache__abandon(cache *c, cache_entry *entry);
/* The result, from memory or disk (a reference); NULL: it is gone. `*from_disk`. May block. */
cache_body *cache__take(cache *c, cache_entry *entry, bool *from_disk);
/* Adds a handle (takes it) to those who wait; false: the entry is not filling any more. */
bool cache__wait(cache *c, cache_entry *entry, trn_deferred *handle);
/* Entries made of this table ("catalog.database.table") or of something at, above or below this path; gives how many. */
size_t cache__invalidate(cache *c, const char *table, const char *path);
void cache__clear(cache *c);
/* Finds the results that are in the directory; before the cache is used. */
void cache__open(cache *c);
/* Leaves in the directory what is in memory, as far as it has room, and clears. Nobody uses the cache any more. */
void cache__close(cache *c);

/* ---- files (cache_body.c) ---- */

/* Gives the file's path, or NULL: it stays in memory no longer, then. */
char *cache__write_body(const cache *c, const cache_entry *entry, const cache_body *body);
/* NULL: it is not what was written, or of another key. */
cache_body *cache__read_body(const char *path, const uint8_t key[16]);
/* Calls `each` (which takes the entry) for the files of a directory until it returns false. Files of no use are removed. */
void cache__each_file(const char *directory, bool (*each)(cache *c, cache_entry *entry), cache *c);

/* ---- one request (cache.c) ---- */

/* What a query is made of. */
typedef struct materials {
  uint8_t key[16], version[16];
  bool has_version;
  trn_texts tables, paths, live; /* live: paths whose files may change under their names */
} materials;
void cache__materials_finish(materials *m);
/* cache_key.c. False: not to be kept (or no memory for it: then it is only not kept). */
bool cache__gather(const cache *c, trn_session *session, const trn_execute_request *request, materials *m);
/* The files are still what they were when the query began. */
bool cache__is_unchanged(const materials *m);
bool cache__texts_push(trn_texts *texts, char *text); /* takes the text; false: no memory */

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
ask *cache__ask_ref(ask *a);
void cache__ask_unref(void *ask);
void cache__emit(const ask *a, const char *action, int64_t rows);
/* cache_fill.c: runs the query and keeps its rows. Takes the reference to the entry. */
trn_status cache__lead(ask *a, cache_entry *entry, trn_operation **out, trn_error **error);
/* cache_replay.c: an operation that gives the body again. Takes the body, also on failure. */
trn_status cache__answer_from(ask *a, cache_body *body, trn_operation **out, trn_error **error);

#endif
