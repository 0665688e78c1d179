/* The table of methods that frontends fill and hosts read: a hash table over stable entries. */
#include <stdlib.h>
#include <string.h>

#include <trunnion/call.h>

#include "core/core.h"

typedef struct route {
  trn_method method; /* first: trn_routes_find gives its address */
  size_t path_size;
  char path[];
} route;

typedef struct owned {
  void (*destroy)(void *service);
  void *service;
} owned;

struct trn_routes {
  route **entries;
  size_t count, capacity;
  size_t *slots; /* index + 1 into entries, 0: free; a power of two, at most half full */
  size_t slot_count;
  owned *owned;
  size_t owned_count, owned_capacity;
};

static uint64_t hash_path(const char *path, size_t size) {
  uint64_t hash = 1469598103934665603u; /* FNV-1a: paths are the host's, an attacker cannot add any */
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)path[i]) * 1099511628211u;
  return hash;
}

static size_t *find_slot(const trn_routes *routes, const char *path, size_t size) {
  size_t mask = routes->slot_count - 1;
  for (size_t at = hash_path(path, size) & mask;; at = (at + 1) & mask) {
    size_t *slot = &routes->slots[at];
    if (!*slot) return slot;
    const route *entry = routes->entries[*slot - 1];
    if (entry->path_size == size && memcmp(entry->path, path, size) == 0) return slot;
  }
}

trn_status trn_routes_create(trn_routes **out) {
  *out = calloc(1, sizeof **out);
  return *out ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

const trn_method *trn_routes_find(const trn_routes *routes, const char *path, size_t path_size) {
  if (!routes->slot_count) return NULL;
  size_t *slot = find_slot(routes, path, path_size);
  return *slot ? &routes->entries[*slot - 1]->method : NULL;
}

size_t trn_routes_count(const trn_routes *routes) {
  return routes->count;
}

const trn_method *trn_routes_at(const trn_routes *routes, size_t index) {
  return index < routes->count ? &routes->entries[index]->method : NULL;
}

/* Room for `more` entries, in the array and in the hash table, so that inserting them cannot fail. */
static bool reserve(trn_routes *routes, size_t more) {
  size_t need = routes->count + more;
  if (need > routes->capacity) {
    route **entries = realloc(routes->entries, need * 2 * sizeof *entries);
    if (!entries) return false;
    routes->entries = entries;
    routes->capacity = need * 2;
  }
  size_t slot_count = routes->slot_count ? routes->slot_count : 16;
  while (slot_count < need * 2) slot_count *= 2;
  if (slot_count == routes->slot_count) return true;
  size_t *slots = calloc(slot_count, sizeof *slots);
  if (!slots) return false;
  free(routes->slots);
  routes->slots = slots;
  routes->slot_count = slot_count;
  for (size_t i = 0; i < routes->count; i++) {
    *find_slot(routes, routes->entries[i]->path, routes->entries[i]->path_size) = i + 1;
  }
  return true;
}

static size_t method_size(const trn_method *method) {
  return method->struct_size && method->struct_size < sizeof *method ? method->struct_size : sizeof *method;
}

static const trn_method *method_at(const trn_method *methods, size_t index) {
  size_t stride = methods->struct_size ? methods->struct_size : sizeof *methods;
  return (const trn_method *)((const char *)methods + index * stride);
}

static trn_status make_route(const trn_method *method, route **out, trn_error **error) {
  if (!method->path || method->path[0] != '/' || !method->on_message || !method->on_done ||
      (unsigned)method->kind > TRN_METHOD_BIDI) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "Method '%s' needs a path that starts with '/', a kind, on_message and on_done",
                         method->path ? method->path : "(null)");
  }
  size_t size = strlen(method->path);
  route *entry = calloc(1, sizeof *entry + size + 1);
  if (!entry) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory for method '%s'", method->path);
  memcpy(&entry->method, method, method_size(method));
  memcpy(entry->path, method->path, size);
  entry->path_size = size;
  entry->method.struct_size = sizeof entry->method;
  entry->method.path = entry->path;
  *out = entry;
  return TRN_OK;
}

/* Takes back the entries from `first` on: an add that failed leaves nothing behind. */
static void drop_from(trn_routes *routes, size_t first) {
  for (size_t i = first; i < routes->count; i++) free(routes->entries[i]);
  routes->count = first;
  memset(routes->slots, 0, routes->slot_count * sizeof *routes->slots);
  for (size_t i = 0; i < first; i++) {
    *find_slot(routes, routes->entries[i]->path, routes->entries[i]->path_size) = i + 1;
  }
}

trn_status trn_routes_add(trn_routes *routes, const trn_method *methods, size_t count, trn_error **error) {
  if (count == 0) return TRN_OK;
  if (!methods) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "No methods were given");
  if (count > TRN_ROUTES_MAX - routes->count || !reserve(routes, count)) {
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No room for %zu more methods", count);
  }
  size_t first = routes->count;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && !status; i++) {
    route *entry = NULL;
    status = make_route(method_at(methods, i), &entry, error);
    if (status) break;
    size_t *slot = find_slot(routes, entry->path, entry->path_size);
    if (*slot) {
      status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "Method '%s' is taken", entry->path);
      free(entry);
      break;
    }
    routes->entries[routes->count++] = entry;
    *slot = routes->count;
  }
  if (status) drop_from(routes, first);
  return status;
}

trn_status trn_routes_own(trn_routes *routes, void (*destroy)(void *service), void *service) {
  if (!destroy) return TRN_INVALID_ARGUMENT;
  if (routes->owned_count == routes->owned_capacity) {
    size_t capacity = routes->owned_capacity ? routes->owned_capacity * 2 : 4;
    owned *grown = realloc(routes->owned, capacity * sizeof *grown);
    if (!grown) return TRN_RESOURCE_EXHAUSTED;
    routes->owned = grown;
    routes->owned_capacity = capacity;
  }
  routes->owned[routes->owned_count++] = (owned){destroy, service};
  return TRN_OK;
}

void trn_routes_destroy(trn_routes *routes) {
  if (!routes) return;
  /* Last in, first out: what came later may use what came before. */
  for (size_t i = routes->owned_count; i-- > 0;) routes->owned[i].destroy(routes->owned[i].service);
  for (size_t i = 0; i < routes->count; i++) free(routes->entries[i]);
  free(routes->entries);
  free(routes->slots);
  free(routes->owned);
  free(routes);
}
