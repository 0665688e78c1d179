/* Arenas: chunks of zeroed memory, freed at once. Large pieces get a chunk of their own. */
#include "core/core.h"

#include <stdio.h>
#include <trunnion/operation.h>

enum { ARENA_ALIGN = 16, ARENA_CHUNK_SMALL = 1 << 10, ARENA_CHUNK_MIN = 16 << 10, ARENA_CHUNK_MAX = 1 << 20 };
#ifdef TRN_ASAN
enum { ARENA_GAP = 16 }; /* behind each piece, poisoned */
#else
enum { ARENA_GAP = 0 };
#endif

typedef struct arena_chunk {
  struct arena_chunk *next;
  size_t size; /* of what follows the header */
} arena_chunk;

typedef struct arena_owned {
  struct arena_owned *next;
  void (*release)(void *object);
  void *object;
} arena_owned;

struct trn_arena {
  atomic_size_t refs;
  size_t bytes_max, bytes; /* handed out */
  char *at, *end;          /* of the chunk being filled */
  size_t chunk_next;       /* size of the next chunk */
  arena_chunk *chunks;
  arena_owned *owned; /* last first */
  const trn_cancel *cancel;
  bool is_short; /* something was asked for in vain */
};

static size_t round_up(size_t size) {
  return (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

#define CHUNK_HEADER ((sizeof(arena_chunk) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1))
#define ARENA_HEADER ((sizeof(trn_arena) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1))

/* The first chunk holds the arena itself: a small request costs one allocation. */
static trn_arena *create(size_t bytes_max, size_t chunk) {
  trn_arena *arena = calloc(1, chunk);
  if (!arena) return NULL;
  atomic_init(&arena->refs, 1);
  arena->bytes_max = bytes_max ? bytes_max : TRN_ARENA_BYTES_MAX;
  arena->at = (char *)arena + ARENA_HEADER;
  arena->end = (char *)arena + chunk;
  arena->chunk_next = 2 * chunk;
  TRN_POISON(arena->at, (size_t)(arena->end - arena->at));
  return arena;
}

trn_arena *trn__arena_create(size_t bytes_max) {
  return create(bytes_max, ARENA_CHUNK_MIN);
}

trn_arena *trn__arena_create_small(size_t bytes_max) {
  return create(bytes_max, ARENA_CHUNK_SMALL);
}

trn_arena *trn__arena_ref(trn_arena *arena) {
  atomic_fetch_add_explicit(&arena->refs, 1, memory_order_relaxed);
  return arena;
}

void trn__arena_unref(trn_arena *arena) {
  if (!arena || atomic_fetch_sub_explicit(&arena->refs, 1, memory_order_acq_rel) != 1) return;
  for (arena_owned *owned = arena->owned; owned; owned = owned->next) owned->release(owned->object);
  arena_chunk *chunk = arena->chunks;
  while (chunk) {
    arena_chunk *next = chunk->next;
    free(chunk);
    chunk = next;
  }
  free(arena);
}

/* A new chunk with room for `size` bytes; NULL: no memory. */
static char *chunk_add(trn_arena *arena, size_t size) {
  arena_chunk *chunk = calloc(1, CHUNK_HEADER + size);
  if (!chunk) return NULL;
  chunk->size = size;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  TRN_POISON((char *)chunk + CHUNK_HEADER, size);
  return (char *)chunk + CHUNK_HEADER;
}

/* Room for `size` bytes, a multiple of ARENA_ALIGN; NULL: no memory. */
static char *arena_room(trn_arena *arena, size_t size) {
  if (TRN_UNLIKELY(size > (size_t)(arena->end - arena->at))) {
    if (size > arena->chunk_next / 4) return chunk_add(arena, size); /* on its own; the chunk being filled stays */
    char *start = chunk_add(arena, arena->chunk_next - CHUNK_HEADER);
    if (!start) return NULL;
    arena->at = start;
    arena->end = start + (arena->chunk_next - CHUNK_HEADER);
    if (arena->chunk_next < ARENA_CHUNK_MAX) arena->chunk_next *= 2;
  }
  char *memory = arena->at;
  arena->at += size;
  return memory;
}

static void *refuse(trn_arena *arena) {
  arena->is_short = true;
  return NULL;
}

void *trn__arena_alloc(trn_arena *arena, size_t size) {
  if (size > arena->bytes_max || trn_cancel_is_requested(arena->cancel)) return refuse(arena);
  size_t whole = size ? round_up(size) : ARENA_ALIGN;
  if (whole > arena->bytes_max - arena->bytes) return refuse(arena);
  char *memory = arena_room(arena, whole + ARENA_GAP);
  if (!memory) return refuse(arena);
  arena->bytes += whole;
  TRN_UNPOISON(memory, size);
  return memory;
}

void *trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count) {
  if (size && count > SIZE_MAX / size) return refuse(arena);
  return trn__arena_alloc(arena, size * count);
}

bool trn__arena_is_short(const trn_arena *arena) {
  return arena->is_short;
}

void *trn__arena_copy(trn_arena *arena, const void *data, size_t size) {
  void *copy = trn__arena_alloc(arena, size);
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

char *trn__arena_str(trn_arena *arena, const char *data, size_t size) {
  if (size == SIZE_MAX) return NULL;
  char *copy = trn__arena_alloc(arena, size + 1);
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

char *trn__arena_strdup(trn_arena *arena, const char *text) {
  return trn__arena_str(arena, text, strlen(text));
}

char *trn__arena_printf(trn_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  char *text = NULL;
  int size = vsnprintf(NULL, 0, format, args);
  if (size >= 0) text = trn__arena_alloc(arena, (size_t)size + 1);
  if (text) vsnprintf(text, (size_t)size + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

void trn__arena_watch(trn_arena *arena, const trn_cancel *cancel) {
  arena->cancel = cancel;
}

size_t trn__arena_bytes(const trn_arena *arena) {
  return arena->bytes;
}

bool trn__arena_own(trn_arena *arena, void (*release)(void *object), void *object) {
  arena_owned *owned = TRN_NEW(arena, arena_owned);
  if (!owned) return false;
  owned->release = release;
  owned->object = object;
  owned->next = arena->owned;
  arena->owned = owned;
  return true;
}
