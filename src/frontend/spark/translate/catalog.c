/* What a session keeps between plans: temporary views, and sources that were opened for them. */
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/variable.h"
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct view {
  char *name;
  uint8_t *bytes; /* the serialized relation */
  size_t size;
} view;

typedef struct cached_source {
  char *key;
  size_t key_size;
  uint64_t stamp; /* of the files' names, sizes and times */
  uint64_t used;  /* for eviction */
  trn_backend *backend;
  trn_source *source;
  trn_arena *arena; /* fields live here */
  const trn_field *fields;
  uint32_t field_count;
} cached_source;

struct spark_catalog {
  pthread_mutex_t mu;
  trn_map *inferred; /* keys -> schemas as text; guarded by mu */
  trn_vec views;   /* view; guarded by mu */
  trn_vec sources; /* cached_source; guarded by mu */
  uint64_t clock;
  spark_variables *variables;  /* thread safe by itself, as the next */
  spark_routines *routines[2]; /* with a name in a catalog; temporary */
};

spark_catalog *spark__catalog_create(void) {
  spark_catalog *catalog = calloc(1, sizeof *catalog);
  if (catalog) {
    catalog->variables = spark__variables_create();
    for (int i = 0; i < 2; i++) catalog->routines[i] = spark__routines_create();
  }
  if (catalog && (!catalog->variables || !catalog->routines[0] || !catalog->routines[1] ||
                  pthread_mutex_init(&catalog->mu, NULL) != 0)) {
    spark__variables_destroy(catalog->variables);
    for (int i = 0; i < 2; i++) spark__routines_destroy(catalog->routines[i]);
    free(catalog);
    catalog = NULL;
  }
  return catalog;
}

spark_routines *spark__catalog_routines(spark_catalog *catalog, bool temporary) {
  return catalog->routines[temporary];
}

spark_variables *spark__catalog_variables(spark_catalog *catalog) {
  return catalog->variables;
}

static void free_view(view *item) {
  if (!item) return;
  free(item->name);
  free(item->bytes);
  free(item);
}

static void free_source(cached_source *item) {
  if (!item) return;
  if (item->source) trn_backend_source_unref(item->backend, item->source);
  trn_backend_unref(item->backend);
  trn__arena_unref(item->arena);
  free(item->key);
  free(item);
}

void spark__catalog_destroy(spark_catalog *catalog) {
  if (!catalog) return;
  for (size_t i = 0; i < catalog->views.count; i++) free_view(catalog->views.items[i]);
  for (size_t i = 0; i < catalog->sources.count; i++) free_source(catalog->sources.items[i]);
  trn__vec_finish(&catalog->views);
  trn__vec_finish(&catalog->sources);
  trn__map_destroy(catalog->inferred, free);
  spark__variables_destroy(catalog->variables);
  for (int i = 0; i < 2; i++) spark__routines_destroy(catalog->routines[i]);
  pthread_mutex_destroy(&catalog->mu);
  free(catalog);
}

const char *spark__catalog_inferred(spark_catalog *catalog, trn_arena *arena, const char *key) {
  pthread_mutex_lock(&catalog->mu);
  const char *found = catalog->inferred ? trn__map_get(catalog->inferred, key, strlen(key)) : NULL;
  const char *copy = found ? trn__arena_strdup(arena, found) : NULL;
  pthread_mutex_unlock(&catalog->mu);
  return copy;
}

void spark__catalog_keep_inferred(spark_catalog *catalog, const char *key, const char *schema) {
  char *copy = strdup(schema);
  void *old = copy;
  trn_map *full = NULL;
  pthread_mutex_lock(&catalog->mu);
  if (catalog->inferred && trn__map_count(catalog->inferred) >= TRN_SOURCE_CACHE_MAX) {
    full = catalog->inferred;
    catalog->inferred = NULL;
  }
  if (!catalog->inferred) catalog->inferred = trn__map_create();
  void *before = NULL;
  if (copy && catalog->inferred && trn__map_set(catalog->inferred, key, strlen(key), copy, &before)) old = before;
  pthread_mutex_unlock(&catalog->mu);
  trn__map_destroy(full, free);
  free(old);
}

/* ---- views ---- */
static view *pack(const char *name, const Spark__Connect__Relation *relation) {
  view *item = calloc(1, sizeof *item);
  if (!item) return NULL;
  item->size = protobuf_c_message_get_packed_size(&relation->base);
  item->name = strdup(name);
  item->bytes = malloc(item->size ? item->size : 1);
  if (!item->name || !item->bytes) {
    free_view(item);
    return NULL;
  }
  protobuf_c_message_pack(&relation->base, item->bytes);
  return item;
}

/* locks: catalog->mu held. SIZE_MAX: none. */
static size_t find_view(const spark_catalog *catalog, const char *name, bool case_sensitive) {
  for (size_t i = 0; i < catalog->views.count; i++) {
    const view *item = catalog->views.items[i];
    if ((case_sensitive ? strcmp : strcasecmp)(item->name, name) == 0) return i;
  }
  return SIZE_MAX;
}

trn_status spark__catalog_set_view(spark_catalog *catalog, const char *name, const Spark__Connect__Relation *relation,
                                   bool replace, trn_error **error) {
  view *item = pack(name, relation), *old = NULL;
  trn_status status = TRN_OK;
  if (!item) return trn__no_memory(error);
  pthread_mutex_lock(&catalog->mu);
  size_t at = find_view(catalog, name, false);
  if (at != SIZE_MAX && replace) {
    old = catalog->views.items[at];
    catalog->views.items[at] = item;
  } else if (at != SIZE_MAX) {
    old = item;
    status = TRN_ALREADY_EXISTS;
  } else if (!trn__vec_push(&catalog->views, item)) {
    old = item;
    status = TRN_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_unlock(&catalog->mu);
  free_view(old);
  if (status == TRN_RESOURCE_EXHAUSTED) return trn__no_memory(error);
  if (status == TRN_OK) return TRN_OK;
  char quoted[300];
  snprintf(quoted, sizeof quoted, "`%s`", name);
  trn_error_param param = {"relationName", quoted};
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = TRN_ALREADY_EXISTS,
                         .condition = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS",
                         .params = &param,
                         .param_count = 1};
  if (error) *error = trn_error_create(&spec);
  return TRN_ALREADY_EXISTS;
}

trn_status spark__catalog_view(spark_catalog *catalog, trn_arena *arena, const char *name, bool case_sensitive,
                               Spark__Connect__Relation **out, trn_error **error) {
  void *bytes = NULL;
  size_t size = 0;
  bool found = false;
  *out = NULL;
  pthread_mutex_lock(&catalog->mu);
  size_t at = find_view(catalog, name, case_sensitive);
  if (at != SIZE_MAX) {
    const view *item = catalog->views.items[at];
    found = true;
    size = item->size;
    bytes = trn__arena_copy(arena, item->bytes, size);
  }
  pthread_mutex_unlock(&catalog->mu);
  if (!found) return TRN_OK;
  if (!bytes) return trn__no_memory(error);
  ProtobufCAllocator allocator = spark__allocator(arena);
  *out = spark__connect__relation__unpack(&allocator, size, bytes);
  return *out ? TRN_OK : trn__no_memory(error); /* we packed it: memory is all that can be wrong */
}

bool spark__catalog_drop_view(spark_catalog *catalog, const char *name, bool case_sensitive) {
  view *item = NULL;
  pthread_mutex_lock(&catalog->mu);
  size_t at = find_view(catalog, name, case_sensitive);
  if (at != SIZE_MAX) {
    item = catalog->views.items[at];
    memmove(&catalog->views.items[at], &catalog->views.items[at + 1], (catalog->views.count - at - 1) * sizeof(void *));
    catalog->views.count--;
  }
  pthread_mutex_unlock(&catalog->mu);
  free_view(item);
  return item != NULL;
}

/* ---- sources ---- */
typedef struct stamp {
  uint64_t hash;
  unsigned files;
  bool failed; /* cannot be watched: not cached */
} stamp;

static void stamp_path(const char *path, unsigned depth, stamp *out);

static void stamp_folder(const char *path, unsigned depth, stamp *out) {
  DIR *folder = depth < 16 ? opendir(path) : NULL;
  if (!folder) {
    out->failed = true;
    return;
  }
  uint64_t sum = 0; /* readdir has no order */
  for (struct dirent *entry; !out->failed && (entry = readdir(folder));) {
    char below[4096];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if ((size_t)snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= sizeof below) out->failed = true;
    stamp inner = {.files = out->files};
    if (!out->failed) stamp_path(below, depth + 1, &inner);
    sum += inner.hash;
    out->files = inner.files;
    out->failed |= inner.failed;
  }
  closedir(folder);
  out->hash = trn__hash(&sum, sizeof sum, out->hash);
}

static void stamp_path(const char *path, unsigned depth, stamp *out) {
  struct stat info;
  if (++out->files > TRN_SOURCE_FILES_MAX || stat(path, &info) != 0) {
    out->failed = true;
    return;
  }
  int64_t facts[4] = {(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec,
                      (int64_t)info.st_ino};
  out->hash = trn__hash(path, strlen(path), out->hash);
  out->hash = trn__hash(facts, sizeof facts, out->hash);
  if (S_ISDIR(info.st_mode)) stamp_folder(path, depth, out);
}

static bool stamp_request(const trn_source_request *request, uint64_t *out) {
  stamp result = {.failed = request->path_count == 0 || request->data};
  for (size_t i = 0; i < request->path_count && !result.failed; i++) {
    const char *path = request->paths[i];
    if (strncmp(path, "file://", 7) == 0)
      path += 7;
    else if (strncmp(path, "file:", 5) == 0)
      path += 5;
    else if (strstr(path, "://"))
      result.failed = true;                           /* an object store: nothing to look at cheaply */
    if (!result.failed) stamp_path(path, 0, &result); /* globs are no files: not cached */
  }
  *out = result.hash;
  return !result.failed;
}

static bool source_key(const trn_source_request *request, const char *schema_key, trn_strbuf *out) {
  trn__strbuf_add(out, request->format, strlen(request->format) + 1);
  for (size_t i = 0; i < request->path_count; i++)
    trn__strbuf_add(out, request->paths[i], strlen(request->paths[i]) + 1);
  trn__strbuf_putc(out, 1);
  for (size_t i = 0; i < request->option_count; i++) {
    trn__strbuf_add(out, request->options[i].key, strlen(request->options[i].key) + 1);
    trn__strbuf_add(out, request->options[i].value, strlen(request->options[i].value) + 1);
  }
  trn__strbuf_putc(out, 2);
  if (schema_key) trn__strbuf_puts(out, schema_key);
  return !out->failed;
}

/* Gives the plan's arena a reference to the source and to the memory that the fields are in. */
typedef struct held_source {
  trn_backend *backend;
  trn_source *source;
  trn_arena *arena;
} held_source;

static void release_held(void *object) {
  held_source *held = object;
  if (held->source) trn_backend_source_unref(held->backend, held->source);
  trn_backend_unref(held->backend);
  trn__arena_unref(held->arena);
  free(held);
}

trn_status spark__hold_source(spark_translator *t, trn_backend *backend, trn_source *source, trn_arena *arena,
                              trn_error **error) {
  held_source *held = calloc(1, sizeof *held);
  if (!held) return trn__no_memory(error);
  held->backend = trn_backend_ref(backend);
  held->source = trn_backend_source_ref(backend, source);
  held->arena = arena ? trn__arena_ref(arena) : NULL;
  if (trn__arena_own(t->arena, release_held, held)) return TRN_OK;
  release_held(held);
  return trn__no_memory(error);
}

/* locks: takes catalog->mu; calls the backend's source_ref under it, which only counts. */
static trn_status from_cache(spark_translator *t, const trn_strbuf *key, uint64_t now, trn_source **source,
                             const trn_field **fields, uint32_t *count, trn_error **error) {
  spark_catalog *catalog = t->catalog;
  cached_source *stale = NULL;
  trn_status status = TRN_OK;
  *source = NULL;
  pthread_mutex_lock(&catalog->mu);
  for (size_t i = 0; i < catalog->sources.count; i++) {
    cached_source *item = catalog->sources.items[i];
    if (item->key_size != key->size || memcmp(item->key, key->data, key->size) != 0) continue;
    if (item->stamp != now) {
      stale = item;
      catalog->sources.items[i] = catalog->sources.items[--catalog->sources.count];
      break;
    }
    item->used = ++catalog->clock;
    status = spark__hold_source(t, item->backend, item->source, item->arena, error);
    *source = item->source;
    *fields = item->fields;
    *count = item->field_count;
    break;
  }
  pthread_mutex_unlock(&catalog->mu);
  free_source(stale);
  return status;
}

/* Takes item. */
static void to_cache(spark_catalog *catalog, cached_source *item) {
  cached_source *evicted = NULL;
  pthread_mutex_lock(&catalog->mu);
  if (catalog->sources.count >= TRN_SOURCE_CACHE_MAX) {
    size_t oldest = 0;
    for (size_t i = 1; i < catalog->sources.count; i++)
      if (((cached_source *)catalog->sources.items[i])->used < ((cached_source *)catalog->sources.items[oldest])->used)
        oldest = i;
    evicted = catalog->sources.items[oldest];
    catalog->sources.items[oldest] = catalog->sources.items[--catalog->sources.count];
  }
  item->used = ++catalog->clock;
  bool pushed = trn__vec_push(&catalog->sources, item);
  pthread_mutex_unlock(&catalog->mu);
  free_source(evicted);
  if (!pushed) free_source(item);
}

static trn_status import_fields(trn_arena *arena, const struct ArrowSchema *schema, const trn_field **out,
                                uint32_t *count, trn_error **error) {
  if (schema->n_children < 0 || schema->n_children > 1000000)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The data has no usable schema.");
  trn_field *fields = TRN_NEW_N(arena, trn_field, (size_t)schema->n_children);
  if (!fields) return trn__no_memory(error);
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *child = schema->children[i];
    fields[i].name = trn__arena_strdup(arena, child->name ? child->name : "");
    fields[i].nullable = (child->flags & ARROW_FLAG_NULLABLE) != 0;
    if (!fields[i].name) return trn__no_memory(error);
    trn_status status = trn__type_import(arena, child, &fields[i].type, error);
    if (status != TRN_OK) return status;
  }
  *out = fields;
  *count = (uint32_t)schema->n_children;
  return TRN_OK;
}

/* Opens; gives an item that is not in the cache yet. */
static trn_status open_item(spark_translator *t, const trn_source_request *request, cached_source **out,
                            trn_error **error) {
  struct ArrowSchema schema = {0};
  cached_source *item = calloc(1, sizeof *item);
  trn_status status = item ? TRN_OK : trn__no_memory(error);
  if (status == TRN_OK) {
    item->arena = trn__arena_create(0);
    item->backend = trn_backend_ref(trn_session_backend(t->session));
    if (!item->arena) status = trn__no_memory(error);
  }
  if (status == TRN_OK) status = trn_backend_open_source(t->session, request, &item->source, &schema, error);
  if (status == TRN_OK) status = import_fields(item->arena, &schema, &item->fields, &item->field_count, error);
  if (schema.release) schema.release(&schema);
  if (status != TRN_OK) {
    free_source(item);
    item = NULL;
  }
  *out = item;
  return status;
}

trn_status spark__open_source(spark_translator *t, const trn_source_request *request, const char *schema_key,
                              trn_source **source, const trn_field **fields, uint32_t *field_count, trn_error **error) {
  trn_strbuf key = {0};
  uint64_t now = 0;
  cached_source *item = NULL;
  trn_status status = TRN_OK;
  *source = NULL;
  bool cached = t->catalog && stamp_request(request, &now) && source_key(request, schema_key, &key);
  if (cached) status = from_cache(t, &key, now, source, fields, field_count, error);
  if (status != TRN_OK || *source) goto done;
  status = open_item(t, request, &item, error);
  if (status == TRN_OK) status = spark__hold_source(t, item->backend, item->source, item->arena, error);
  if (status != TRN_OK) goto done;
  *source = item->source;
  *fields = item->fields;
  *field_count = item->field_count;
  if (!cached) goto done;
  item->key = malloc(key.size);
  if (!item->key) goto done; /* works without the cache */
  memcpy(item->key, key.data, key.size);
  item->key_size = key.size;
  item->stamp = now;
  to_cache(t->catalog, item);
  item = NULL;
done:
  free_source(item);
  trn__strbuf_finish(&key);
  return status;
}
