/* Hash map from text: entries in order of insertion, and a table of their indexes. */
#include "core/core.h"

#include <sys/random.h>

typedef struct map_entry {
  char *key; /* NULL: removed */
  size_t size;
  uint64_t hash;
  void *value;
} map_entry;

struct trn_map {
  uint64_t seed;
  map_entry *entries;
  size_t used, capacity; /* entries, the removed included */
  size_t count;          /* without them */
  uint32_t *slots;       /* index + 1 of an entry, 0: free; a power of two of them, at least twice the capacity */
  size_t slot_count;
};

enum { MAP_CAPACITY_MIN = 8 };

trn_map *trn__map_create(void) {
  trn_map *map = calloc(1, sizeof *map);
  if (!map) return NULL;
  /* Keys come from outside: an unknown seed keeps them from being chosen to collide. */
  if (getrandom(&map->seed, sizeof map->seed, GRND_NONBLOCK) < 0) map->seed = (uintptr_t)map ^ (uint64_t)trn__now_ns();
  return map;
}

void trn__map_destroy(trn_map *map, void (*destroy)(void *value)) {
  if (!map) return;
  for (size_t i = 0; i < map->used; i++) {
    if (!map->entries[i].key) continue;
    free(map->entries[i].key);
    if (destroy) destroy(map->entries[i].value);
  }
  free(map->entries);
  free(map->slots);
  free(map);
}

static map_entry *map_find(const trn_map *map, const char *key, size_t size, uint64_t hash) {
  if (!map->slot_count) return NULL;
  for (size_t at = hash & (map->slot_count - 1); map->slots[at]; at = (at + 1) & (map->slot_count - 1)) {
    map_entry *entry = &map->entries[map->slots[at] - 1];
    if (entry->key && entry->hash == hash && entry->size == size && memcmp(entry->key, key, size) == 0) return entry;
  }
  return NULL;
}

void *trn__map_get(const trn_map *map, const char *key, size_t size) {
  const map_entry *entry = map_find(map, key, size, trn__hash(key, size, map->seed));
  return entry ? entry->value : NULL;
}

static void slot_put(uint32_t *slots, size_t slot_count, uint64_t hash, size_t index) {
  size_t at = hash & (slot_count - 1);
  while (slots[at]) at = (at + 1) & (slot_count - 1);
  slots[at] = (uint32_t)index + 1;
}

/* Room for one more entry; drops the removed ones. */
static bool map_grow(trn_map *map) {
  if (map->used < map->capacity) return true;
  size_t capacity = map->count * 2 < MAP_CAPACITY_MIN ? MAP_CAPACITY_MIN : map->count * 2;
  if (capacity > UINT32_MAX / 2) return false;
  size_t slot_count = MAP_CAPACITY_MIN * 2;
  while (slot_count < capacity * 2) slot_count *= 2;
  map_entry *entries = calloc(capacity, sizeof *entries);
  uint32_t *slots = calloc(slot_count, sizeof *slots);
  if (!entries || !slots) {
    free(entries);
    free(slots);
    return false;
  }
  size_t used = 0;
  for (size_t i = 0; i < map->used; i++) {
    if (!map->entries[i].key) continue;
    entries[used] = map->entries[i];
    slot_put(slots, slot_count, entries[used].hash, used);
    used++;
  }
  free(map->entries);
  free(map->slots);
  map->entries = entries;
  map->slots = slots;
  map->used = used;
  map->capacity = capacity;
  map->slot_count = slot_count;
  return true;
}

bool trn__map_set(trn_map *map, const char *key, size_t size, void *value, void **old) {
  uint64_t hash = trn__hash(key, size, map->seed);
  map_entry *entry = map_find(map, key, size, hash);
  if (old) *old = entry ? entry->value : NULL;
  if (entry) {
    entry->value = value;
    return true;
  }
  if (size == SIZE_MAX || !map_grow(map)) return false;
  char *copy = malloc(size + 1);
  if (!copy) return false;
  if (size) memcpy(copy, key, size);
  copy[size] = 0;
  map->entries[map->used] = (map_entry){.key = copy, .size = size, .hash = hash, .value = value};
  slot_put(map->slots, map->slot_count, hash, map->used);
  map->used++;
  map->count++;
  return true;
}

void *trn__map_remove(trn_map *map, const char *key, size_t size) {
  map_entry *entry = map_find(map, key, size, trn__hash(key, size, map->seed));
  if (!entry) return NULL;
  void *value = entry->value;
  free(entry->key);
  entry->key = NULL; /* its slot stays until the next growth, so that chains through it hold */
  entry->value = NULL;
  map->count--;
  return value;
}

size_t trn__map_count(const trn_map *map) {
  return map->count;
}

bool trn__map_next(const trn_map *map, size_t *index, const char **key, void **value) {
  while (*index < map->used) {
    const map_entry *entry = &map->entries[(*index)++];
    if (!entry->key) continue;
    if (key) *key = entry->key;
    if (value) *value = entry->value;
    return true;
  }
  return false;
}
