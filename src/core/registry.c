/* The registry: things by name, of several kinds, in one table of entries. */
#include "core/query.h"
#include "core/registry.h"

static const char *const kind_names[REGISTRY_KINDS] = {"frontend", "backend", "layer",
                                                       "catalog",  "decoder", "translator", "function library"};

/* ---- life ---- */

static void entry_destroy(registry_entry *entry) {
  if (!entry) return;
  if (entry->destroy) entry->destroy(entry->object);
  free(entry->name);
  free(entry);
}

void trn_registry_destroy(trn_registry *registry) {
  if (!registry) return;
  TRN_ASSERT(!registry->waits);
  for (size_t kind = REGISTRY_KINDS; kind-- > 0;) {
    trn_vec *entries = &registry->entries[kind];
    for (size_t i = entries->count; i-- > 0;) entry_destroy(entries->items[i]);
    trn__vec_finish(entries);
  }
  trn_authenticator_unref(registry->authenticator);
  trn_connector_unref(registry->connector);
  for (size_t i = registry->owned.count; i-- > 0;) { /* last first: what came later may use what came before */
    registry_owned *owned = registry->owned.items[i];
    owned->destroy(owned->object);
    free(owned);
  }
  trn__vec_finish(&registry->owned);
  trn__vec_finish(&registry->plugins);
  trn__vec_finish(&registry->libraries);
  pthread_cond_destroy(&registry->answered);
  pthread_mutex_destroy(&registry->mutex);
  free(registry);
}

trn_status trn_registry_create(trn_registry **out) {
  *out = NULL;
  trn_registry *registry = calloc(1, sizeof *registry);
  if (!registry) return TRN_RESOURCE_EXHAUSTED;
  pthread_condattr_t attributes;
  pthread_mutex_init(&registry->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&registry->answered, &attributes);
  pthread_condattr_destroy(&attributes);
  trn_status status = trn__registry_add_builtin(registry);
  if (status) {
    trn_registry_destroy(registry);
  } else {
    *out = registry;
  }
  return status;
}

void trn_registry_set_authenticator(trn_registry *registry, trn_authenticator *authenticator) {
  if (authenticator) trn_authenticator_ref(authenticator);
  trn_authenticator_unref(registry->authenticator);
  registry->authenticator = authenticator;
}

void trn_registry_set_connector(trn_registry *registry, trn_connector *connector) {
  if (connector) trn_connector_ref(connector);
  trn_connector_unref(registry->connector);
  registry->connector = connector;
}

trn_connector *trn_registry_connector(const trn_registry *registry) {
  return registry->connector;
}

void trn_registry_set_jobs(trn_registry *registry, const trn_registry_jobs *jobs) {
  registry->jobs = (trn_registry_jobs){0};
  if (jobs) memcpy(&registry->jobs, jobs, trn__struct_size(jobs->struct_size, sizeof registry->jobs));
}

const trn_registry_jobs *trn_registry_get_jobs(const trn_registry *registry) {
  return registry->jobs.scheduler ? &registry->jobs : NULL;
}

trn_authenticator *trn_registry_authenticator(const trn_registry *registry) {
  return registry->authenticator;
}

trn_status trn_registry_own(trn_registry *registry, void (*destroy)(void *object), void *object) {
  if (!destroy) return TRN_INVALID_ARGUMENT;
  registry_owned *owned = malloc(sizeof *owned);
  if (!owned) return TRN_RESOURCE_EXHAUSTED;
  *owned = (registry_owned){destroy, object};
  if (trn__vec_push(&registry->owned, owned)) return TRN_OK;
  free(owned);
  return TRN_RESOURCE_EXHAUSTED;
}

/* ---- entries ---- */

const registry_entry *trn__registry_find(const trn_registry *registry, registry_kind kind, const char *name) {
  const trn_vec *entries = &registry->entries[kind];
  for (size_t i = 0; i < entries->count; i++) {
    const registry_entry *entry = entries->items[i];
    if (strcmp(entry->name, name) == 0) return entry;
  }
  return NULL;
}

trn_status trn__registry_add(trn_registry *registry, registry_kind kind, const char *name, const registry_entry *given,
                             trn_error **error) {
  trn_vec *entries = &registry->entries[kind];
  if (!name || !*name || strlen(name) > TRN_REGISTRY_NAME_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A %s needs a name of 1 to %u bytes", kind_names[kind],
                         TRN_REGISTRY_NAME_MAX);
  if (trn__registry_find(registry, kind, name))
    return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "There is already a %s '%s'", kind_names[kind], name);
  if (entries->count >= TRN_REGISTRY_ENTRIES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "There are already %u %ss", TRN_REGISTRY_ENTRIES_MAX,
                         kind_names[kind]);
  registry_entry *entry = malloc(sizeof *entry);
  if (!entry) return trn__no_memory(error);
  *entry = *given;
  entry->name = strdup(name);
  if (entry->name && trn__vec_push(entries, entry)) return TRN_OK;
  free(entry->name);
  free(entry);
  return trn__no_memory(error);
}

const char *trn__registry_name_at(const trn_registry *registry, registry_kind kind, size_t index) {
  const trn_vec *entries = &registry->entries[kind];
  return index < entries->count ? ((const registry_entry *)entries->items[index])->name : NULL;
}

trn_status trn__registry_unknown(const trn_registry *registry, registry_kind kind, const char *name, trn_status status,
                                 trn_error **error) {
  const trn_vec *entries = &registry->entries[kind];
  const char **names = calloc(entries->count + 1, sizeof *names);
  trn_strbuf list = {0};
  for (size_t i = 0; i < entries->count; i++) {
    const char *known = trn__registry_name_at(registry, kind, i);
    trn__strbuf_printf(&list, "%s%s", i ? ", " : "", known);
    if (names) names[i] = known;
  }
  const char *nearest = names ? trn_config_nearest(name, names) : NULL;
  trn_error_set(error, status, NULL, "There is no %s '%s'%s%s%s; known are: %s", kind_names[kind], name,
                nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "",
                list.data ? list.data : "none");
  trn__strbuf_finish(&list);
  free(names);
  return status;
}

/* ---- factories ---- */

static trn_status add_factory(trn_registry *registry, registry_kind kind, const char *name, void (*factory)(void),
                              void *user, trn_error **error) {
  if (!factory) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A %s needs a factory", kind_names[kind]);
  return trn__registry_add(registry, kind, name, &(registry_entry){.factory = factory, .user = user}, error);
}

trn_status trn_registry_add_frontend(trn_registry *registry, const char *name, trn_frontend_factory factory, void *user,
                                     trn_error **error) {
  return add_factory(registry, REGISTRY_FRONTEND, name, (void (*)(void))factory, user, error);
}

trn_status trn_registry_add_backend(trn_registry *registry, const char *name, trn_backend_factory factory, void *user,
                                    trn_error **error) {
  return add_factory(registry, REGISTRY_BACKEND, name, (void (*)(void))factory, user, error);
}

trn_status trn_registry_add_layer(trn_registry *registry, const char *name, trn_layer_factory factory, void *user,
                                  trn_error **error) {
  return add_factory(registry, REGISTRY_LAYER, name, (void (*)(void))factory, user, error);
}

trn_status trn_registry_add_catalog(trn_registry *registry, const char *kind, trn_catalog_factory factory, void *user,
                                    trn_error **error) {
  return add_factory(registry, REGISTRY_CATALOG, kind, (void (*)(void))factory, user, error);
}

trn_status trn_registry_make_catalog(const trn_registry *registry, const char *kind, const trn_config *config,
                                     const char *name, trn_catalog **out, trn_error **error) {
  *out = NULL;
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_CATALOG, kind);
  if (!entry) return trn__registry_unknown(registry, REGISTRY_CATALOG, kind, TRN_NOT_FOUND, error);
  return ((trn_catalog_factory)entry->factory)(entry->user, registry, config, name, out, error);
}

trn_status trn_registry_make_frontend(const trn_registry *registry, const char *name, const trn_config *config,
                                      trn_frontend **out, trn_error **error) {
  *out = NULL;
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_FRONTEND, name);
  if (!entry) return trn__registry_unknown(registry, REGISTRY_FRONTEND, name, TRN_NOT_FOUND, error);
  return ((trn_frontend_factory)entry->factory)(entry->user, registry, config, out, error);
}

trn_status trn_registry_make_backend(const trn_registry *registry, const char *name, const trn_config *config,
                                     trn_backend **out, trn_error **error) {
  *out = NULL;
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_BACKEND, name);
  if (!entry) return trn__registry_unknown(registry, REGISTRY_BACKEND, name, TRN_NOT_FOUND, error);
  return ((trn_backend_factory)entry->factory)(entry->user, registry, config, out, error);
}

trn_status trn_registry_make_layer(const trn_registry *registry, const char *name, const trn_config *config,
                                   trn_backend *inner, trn_backend **out, trn_error **error) {
  *out = NULL;
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_LAYER, name);
  if (!entry) return trn__registry_unknown(registry, REGISTRY_LAYER, name, TRN_NOT_FOUND, error);
  return ((trn_layer_factory)entry->factory)(entry->user, registry, config, inner, out, error);
}

const char *trn_registry_frontend_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_FRONTEND, index);
}

const char *trn_registry_backend_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_BACKEND, index);
}

const char *trn_registry_layer_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_LAYER, index);
}

const char *trn_registry_catalog_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_CATALOG, index);
}
