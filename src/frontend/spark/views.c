/* Temporary views of a session: the definitions are the translator's catalog; the names, for listing, are kept beside.
 */
#include "frontend/spark/service.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/variable.h"

static const char global_prefix[] = "global_temp.";

/* The name as Spark keeps it: lower case unless names are case sensitive. Gives (free); NULL: out of memory. */
static char *view_name(spark_session *session, const char *name, bool is_global) {
  size_t prefix = is_global ? sizeof global_prefix - 1 : 0, size = strlen(name);
  char *out = malloc(prefix + size + 1);
  if (!out) return NULL;
  memcpy(out, global_prefix, prefix);
  memcpy(out + prefix, name, size + 1);
  if (!spark__config_bool(session, "spark.sql.caseSensitive"))
    for (char *c = out + prefix; *c; c++)
      if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  return out;
}

trn_status spark__session_set_view(spark_session *session, const char *name, bool is_global,
                                   const Spark__Connect__Relation *relation, bool replace, trn_error **error) {
  char *key = view_name(session, name, is_global);
  char *value = key ? strdup(key) : NULL;
  if (!value) {
    free(key);
    return trn__no_memory(error);
  }
  trn_status status = spark__catalog_set_view(session->catalog, key, relation, replace, error);
  if (!status) {
    void *old = NULL;
    pthread_mutex_lock(&session->mutex);
    bool stored = trn__map_set(session->views, key, strlen(key), value, &old);
    pthread_mutex_unlock(&session->mutex);
    free(old);
    if (stored) {
      value = NULL;
    } else {
      spark__catalog_drop_view(session->catalog, key, true);
      status = trn__no_memory(error);
    }
  }
  free(value);
  free(key);
  return status;
}

bool spark__session_drop_view(spark_session *session, const char *name, bool is_global) {
  char *key = view_name(session, name, is_global);
  if (!key) return false;
  bool dropped = spark__catalog_drop_view(session->catalog, key, true);
  pthread_mutex_lock(&session->mutex);
  char *old = trn__map_remove(session->views, key, strlen(key));
  pthread_mutex_unlock(&session->mutex);
  free(old);
  free(key);
  return dropped;
}

bool spark__session_has_view(spark_session *session, const char *name) {
  char *key = view_name(session, name, false);
  if (!key) return false;
  pthread_mutex_lock(&session->mutex);
  bool found = trn__map_get(session->views, key, strlen(key)) != NULL;
  pthread_mutex_unlock(&session->mutex);
  free(key);
  return found;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

bool spark__session_views(spark_session *session, trn_vec *out) {
  bool complete = true;
  pthread_mutex_lock(&session->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; complete && trn__map_next(session->views, &i, &key, &value);) {
    char *copy = strdup(value);
    complete = copy && trn__vec_push(out, copy);
    if (!complete) free(copy);
  }
  pthread_mutex_unlock(&session->mutex);
  if (out->count) qsort(out->items, out->count, sizeof *out->items, compare_names);
  return complete;
}

trn_status spark__session_copy_views(spark_session *from, spark_session *to, trn_error **error) {
  trn_vec names = {0};
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena && spark__session_views(from, &names) ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < names.count; i++) {
    char *name = names.items[i];
    Spark__Connect__Relation *relation = NULL;
    bool is_global = strncmp(name, global_prefix, sizeof global_prefix - 1) == 0;
    if (!status) status = spark__catalog_view(from->catalog, arena, name, true, &relation, error);
    if (!status && relation)
      status = spark__session_set_view(to, is_global ? name + sizeof global_prefix - 1 : name, is_global, relation,
                                       true, error);
    free(name);
  }
  if (!status)
    status = spark__variables_copy(spark__catalog_variables(from->catalog), spark__catalog_variables(to->catalog), error);
  for (int i = 0; i < 2 && !status; i++)
    status = spark__routines_copy(spark__catalog_routines(from->catalog, i), spark__catalog_routines(to->catalog, i),
                                  error);
  trn__vec_finish(&names);
  trn__arena_unref(arena);
  return status;
}
