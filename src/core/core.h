/* What everything else stands on: arenas, text buffers, maps, ids, clocks, the worker pool. Internal. */
#ifndef TRN_CORE_CORE_H
#define TRN_CORE_CORE_H
#include "core/compiler.h"
#include "core/limits.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <trunnion/error.h>

/* Most messages of errors that come from a failed allocation; sets nothing else. */
trn_status trn__no_memory(trn_error **error);

/* ---- arena: memory of one request or plan, freed at once. Not thread safe while allocating; what it holds may be read
 * from any thread. Reference counted (atomic). ---- */
typedef struct trn_arena trn_arena;
trn_arena *trn__arena_create(size_t bytes_max); /* 0: TRN_ARENA_BYTES_MAX; NULL: out of memory */
trn_arena *trn__arena_create_small(size_t bytes_max); /* of what is kept for long, in numbers: begins with a kilobyte */
trn_arena *trn__arena_ref(trn_arena *arena);
void trn__arena_unref(trn_arena *arena); /* NULL is accepted */
/* Zeroed, aligned to 16. NULL: out of memory or over the cap. size 0 gives a valid pointer. */
void *trn__arena_alloc(trn_arena *arena, size_t size);
void *trn__arena_copy(trn_arena *arena, const void *data, size_t size);
char *trn__arena_str(trn_arena *arena, const char *data, size_t size); /* NUL-terminated copy */
char *trn__arena_strdup(trn_arena *arena, const char *text);
char *trn__arena_printf(trn_arena *arena, const char *format, ...) TRN_PRINTF(2, 3);
size_t trn__arena_bytes(const trn_arena *arena);
/* Something was asked for in vain: where "none" and "no memory" look the same, what came of it may be wrong. */
bool trn__arena_is_short(const trn_arena *arena);
/* From now on nothing can be had once `cancel` (NULL: never) is requested: what fills an arena ends soon, as if memory were
 * out, and its caller knows better. Borrowed until the next watch; arenas that live on are unwatched with NULL. */
typedef struct trn_cancel trn_cancel;
void trn__arena_watch(trn_arena *arena, const trn_cancel *cancel);
/* Runs `release(object)` when the arena is freed (last first). On failure returns false and did not take it. */
bool trn__arena_own(trn_arena *arena, void (*release)(void *object), void *object);
#define TRN_NEW(arena, type) ((type *)trn__arena_alloc((arena), sizeof(type)))
#define TRN_NEW_N(arena, type, count) ((type *)trn__arena_alloc_n((arena), sizeof(type), (count)))
void *trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count); /* overflow checked */

/* ---- text buffer on the heap; a failed allocation makes it sticky-failed, checked once at the end ---- */
typedef struct trn_strbuf {
  char *data; /* NUL-terminated once something was added */
  size_t size, capacity;
  bool failed;
} trn_strbuf;
void trn__strbuf_add(trn_strbuf *buffer, const void *data, size_t size);
void trn__strbuf_puts(trn_strbuf *buffer, const char *text);
void trn__strbuf_putc(trn_strbuf *buffer, char c);
void trn__strbuf_printf(trn_strbuf *buffer, const char *format, ...) TRN_PRINTF(2, 3);
/* Adds `size` zero bytes and gives them, to be filled in before the next call; NULL: failed. */
void *trn__strbuf_extend(trn_strbuf *buffer, size_t size);
void trn__strbuf_finish(trn_strbuf *buffer); /* frees */

char *trn__text_copy(const char *text); /* on the heap; NULL gives NULL */
bool trn__utf8_is_valid(const void *data, size_t size);
/* How many bytes must be added, taken away or changed; beyond TRN_EDIT_DISTANCE_BYTES_MAX: the longer text's size. */
size_t trn__edit_distance(const char *a, const char *b);

/* ---- growable array of pointers on the heap ---- */
typedef struct trn_vec {
  void **items;
  size_t count, capacity;
} trn_vec;
bool trn__vec_push(trn_vec *vec, void *item);
void trn__vec_finish(trn_vec *vec);

/* ---- hash map: text -> pointer; keys are copied; insertion order is kept by iteration ---- */
typedef struct trn_map trn_map;
trn_map *trn__map_create(void);
void trn__map_destroy(trn_map *map, void (*destroy)(void *value)); /* destroy may be NULL */
void *trn__map_get(const trn_map *map, const char *key, size_t size);
/* Sets; stores what was there before in *old (may be NULL). false: out of memory, nothing changed. */
bool trn__map_set(trn_map *map, const char *key, size_t size, void *value, void **old);
void *trn__map_remove(trn_map *map, const char *key, size_t size); /* gives what was there */
size_t trn__map_count(const trn_map *map);
/* for (size_t i = 0; trn__map_next(map, &i, &key, &value);) ; no changes meanwhile except through the returned value */
bool trn__map_next(const trn_map *map, size_t *index, const char **key, void **value);

uint64_t trn__hash(const void *data, size_t size, uint64_t seed); /* fast, not cryptographic, stable across runs */

/* ---- ids ---- */
#define TRN_UUID_SIZE 37 /* with the NUL */
void trn__uuid7(char out[TRN_UUID_SIZE]); /* time ordered, random from getrandom() */
void trn__uuid4(char out[TRN_UUID_SIZE]);
bool trn__uuid_is_valid(const char *text);

int64_t trn__now_ns(void);      /* CLOCK_MONOTONIC */
int64_t trn__wall_ms(void);     /* since the epoch */

/* ---- worker pool: plain sequential work that may compute or block ---- */
typedef struct trn_pool trn_pool;
/* Threads start lazily, up to `threads_max`, each with a stack of TRN_STACK_BYTES. */
trn_status trn__pool_create(unsigned threads_max, trn_pool **out);
/* thread: any. RESOURCE_EXHAUSTED when no thread can be had or memory is out; then `run` never runs. */
trn_status trn__pool_submit(trn_pool *pool, void (*run)(void *argument), void *argument);
/* Runs `run` after `delay_ms` on a worker (timers: idle sessions, detached operations). */
trn_status trn__pool_submit_after(trn_pool *pool, uint64_t delay_ms, void (*run)(void *argument), void *argument);
/* Runs what is queued, drops what is delayed by running it now, joins. From a task of the pool itself: does not wait; the
 * last thread out frees the pool. */
void trn__pool_destroy(trn_pool *pool);
/* Runs `run` on a fresh thread with a stack of TRN_STACK_BYTES and waits for it. */
trn_status trn__run_on_big_stack(void (*run)(void *argument), void *argument);

#endif
