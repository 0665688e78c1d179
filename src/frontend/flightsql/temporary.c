/* Tables and views of one session. A table is a list of sources, one for each statement that gave it rows; a view is a text,
 * planned where it was made. Both hide what the catalogs have under their name. */
#include <unistd.h>

#include "frontend/flightsql/flightsql.h"
#include "plan/plan.h"

typedef struct temporary_part {
  trn_source *source;
  char *spool; /* a file to be removed, or NULL */
} temporary_part;

struct flightsql_temporary {
  trn_backend *backend;
  struct ArrowSchema schema;
  temporary_part *parts;
  size_t part_count;
  char *view_text; /* NULL: it is a table */
  char *catalog, *database;
};

void flightsql__temporary_destroy(void *argument) {
  flightsql_temporary *table = argument;
  if (!table) return;
  for (size_t i = 0; i < table->part_count; i++) {
    trn_backend_source_unref(table->backend, table->parts[i].source);
    if (table->parts[i].spool) unlink(table->parts[i].spool);
    free(table->parts[i].spool);
  }
  trn__schema_release(&table->schema);
  trn_backend_unref(table->backend);
  free(table->parts);
  free(table->view_text);
  free(table->catalog);
  free(table->database);
  free(table);
}

/* locks: the owner's mutex held */
static flightsql_temporary *find(flightsql_session *owner, const char *name) {
  return trn__map_get(owner->temporary, name, strlen(name));
}

flightsql_temporary_kind flightsql__temporary_kind(flightsql_session *session, const char *name) {
  flightsql_session *owner = flightsql__owner(session);
  pthread_mutex_lock(&owner->mutex);
  const flightsql_temporary *table = find(owner, name);
  flightsql_temporary_kind kind = !table              ? FLIGHTSQL_NO_TEMPORARY
                                  : table->view_text ? FLIGHTSQL_TEMPORARY_VIEW
                                                     : FLIGHTSQL_TEMPORARY_TABLE;
  pthread_mutex_unlock(&owner->mutex);
  return kind;
}

/* ---- reading ---- */

/* What is needed of one after the lock: references and copies. */
typedef struct reading {
  trn_backend *backend;
  struct ArrowSchema schema;
  trn_source **sources;
  size_t count;
  char *view_text, *catalog, *database;
} reading;

static void reading_finish(reading *r) {
  for (size_t i = 0; i < r->count; i++) trn_backend_source_unref(r->backend, r->sources[i]);
  trn__schema_release(&r->schema);
  trn_backend_unref(r->backend);
  free(r->sources);
  free(r->view_text);
  free(r->catalog);
  free(r->database);
}

/* locks: the owner's mutex held */
static bool read_it(const flightsql_temporary *table, reading *out) {
  out->backend = trn_backend_ref(table->backend);
  out->sources = calloc(table->part_count + 1, sizeof *out->sources);
  if (!out->sources || trn__schema_copy(&table->schema, &out->schema)) return false;
  for (size_t i = 0; i < table->part_count; i++)
    out->sources[out->count++] = trn_backend_source_ref(table->backend, table->parts[i].source);
  if (!table->view_text) return true;
  out->view_text = strdup(table->view_text);
  out->catalog = strdup(table->catalog);
  out->database = strdup(table->database);
  return out->view_text && out->catalog && out->database;
}

/* Names in a view are looked up where it was made. */
static trn_status plan_view(flightsql_session *session, const reading *r, unsigned depth, trn_plan **out, trn_error **error) {
  if (depth >= TRN_VIEW_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "views are nested deeper than TRN_VIEW_DEPTH_MAX (%u)",
                         TRN_VIEW_DEPTH_MAX);
  flightsql_place inside = {session, r->catalog, r->database, depth + 1, false};
  trn_plan *plan = NULL;
  trn_status status = flightsql__plan_at(&inside, r->view_text, &plan, error);
  if (!status) status = trn__plan_rename(plan, &r->schema, out, error);
  trn_plan_unref(plan);
  return status;
}

trn_status flightsql__temporary_resolve(flightsql_session *session, const char *name, unsigned depth, bool *found,
                                        trn_resolved_table *out, trn_error **error) {
  flightsql_session *owner = flightsql__owner(session);
  reading r = {0};
  pthread_mutex_lock(&owner->mutex);
  const flightsql_temporary *table = find(owner, name);
  bool ok = !table || read_it(table, &r);
  pthread_mutex_unlock(&owner->mutex);
  *found = table != NULL;
  trn_status status = ok ? TRN_OK : trn__no_memory(error);
  if (!status && *found && r.view_text) {
    status = plan_view(session, &r, depth, &out->plan, error);
  } else if (!status && *found && r.count == 1) {
    out->source = r.sources[--r.count];
    out->schema = r.schema;
    r.schema.release = NULL;
    out->label = flightsql__own_rows();
    if (!out->label) {
      trn_backend_source_unref(r.backend, out->source);
      trn__schema_release(&out->schema);
      *out = (trn_resolved_table){0};
      status = trn__no_memory(error);
    }
  } else if (!status && *found) {
    status = flightsql__plan_scan(session, r.sources, r.count, &r.schema, &out->plan, error);
  }
  if (*found) reading_finish(&r);
  return status;
}

trn_status flightsql__temporary_schema(flightsql_session *session, const char *name, struct ArrowSchema *out, trn_error **error) {
  flightsql_session *owner = flightsql__owner(session);
  pthread_mutex_lock(&owner->mutex);
  const flightsql_temporary *table = find(owner, name);
  trn_status status = !table ? TRN_NOT_FOUND : trn__schema_copy(&table->schema, out);
  pthread_mutex_unlock(&owner->mutex);
  if (status == TRN_NOT_FOUND) return trn_error_set(error, status, NULL, "The temporary table %s is gone", name);
  return status ? trn__no_memory(error) : TRN_OK;
}

void flightsql__temporary_each(flightsql_session *session,
                               void (*each)(void *user, const char *name, const struct ArrowSchema *schema), void *user) {
  flightsql_session *owner = flightsql__owner(session);
  const char *key;
  void *value;
  pthread_mutex_lock(&owner->mutex);
  for (size_t i = 0; trn__map_next(owner->temporary, &i, &key, &value);)
    each(user, key, &((flightsql_temporary *)value)->schema);
  pthread_mutex_unlock(&owner->mutex);
}

/* ---- changing ---- */

/* Columns with the same names and types, in the same order. */
static bool same_columns(const struct ArrowSchema *a, const struct ArrowSchema *b) {
  if (a->n_children != b->n_children || strcmp(a->format, b->format) != 0) return false;
  for (int64_t i = 0; i < a->n_children; i++)
    if (strcmp(a->children[i]->name, b->children[i]->name) != 0 || !same_columns(a->children[i], b->children[i])) return false;
  return true;
}

/* Takes the rows' source and file. locks: the owner's mutex held */
static trn_status add_part(flightsql_temporary *table, flightsql_temporary_rows *rows) {
  if (table->part_count >= TRN_FLIGHT_TEMPORARY_PARTS_MAX) return TRN_RESOURCE_EXHAUSTED;
  temporary_part *parts = realloc(table->parts, (table->part_count + 1) * sizeof *parts);
  if (!parts) return TRN_ABORTED;
  table->parts = parts;
  parts[table->part_count++] = (temporary_part){rows->source, rows->spool};
  rows->source = NULL;
  rows->spool = NULL;
  return TRN_OK;
}

static flightsql_temporary *temporary_create(flightsql_session *session) {
  flightsql_temporary *table = calloc(1, sizeof *table);
  if (table) table->backend = trn_backend_ref(trn_session_backend(session->session));
  return table;
}

static trn_status put_error(trn_status status, const char *name, trn_error **error) {
  switch (status) {
  case TRN_ALREADY_EXISTS: return trn_error_set(error, status, NULL, "The temporary table %s exists already", name);
  case TRN_NOT_FOUND: return trn_error_set(error, status, NULL, "There is no temporary table %s", name);
  case TRN_INVALID_ARGUMENT:
    return trn_error_set(error, status, NULL, "The columns of the rows are not those of the temporary table %s", name);
  case TRN_RESOURCE_EXHAUSTED:
    return trn_error_set(error, status, NULL,
                         "Rows were added to the temporary table %s by TRN_FLIGHT_TEMPORARY_PARTS_MAX (%u) statements: make "
                         "another one of it",
                         name, TRN_FLIGHT_TEMPORARY_PARTS_MAX);
  default: return trn__no_memory(error);
  }
}

trn_status flightsql__temporary_put(flightsql_session *session, flightsql_temporary_rows *rows, trn_error **error) {
  flightsql_session *owner = flightsql__owner(session);
  trn_backend *backend = trn_session_backend(session->session);
  flightsql_temporary *made = temporary_create(session);
  void *old = NULL;
  trn_status status = made && trn__schema_copy(&rows->schema, &made->schema) == TRN_OK ? TRN_OK : TRN_ABORTED;
  pthread_mutex_lock(&owner->mutex);
  flightsql_temporary *there = status ? NULL : find(owner, rows->name);
  if (!status && there && rows->appends && !there->view_text) {
    status = same_columns(&there->schema, &rows->schema) ? add_part(there, rows) : TRN_INVALID_ARGUMENT;
  } else if (!status && there && !rows->replaces) {
    status = TRN_ALREADY_EXISTS;
  } else if (!status && !there && !rows->creates) {
    status = TRN_NOT_FOUND;
  } else if (!status) {
    status = add_part(made, rows);
    if (!status && !trn__map_set(owner->temporary, rows->name, strlen(rows->name), made, &old)) status = TRN_ABORTED;
    if (!status) made = NULL;
  }
  pthread_mutex_unlock(&owner->mutex);
  if (status) put_error(status, rows->name, error);
  flightsql__temporary_destroy(made);
  flightsql__temporary_destroy(old);
  if (rows->source) trn_backend_source_unref(backend, rows->source);
  if (rows->spool) unlink(rows->spool);
  free(rows->spool);
  trn__schema_release(&rows->schema);
  return status == TRN_ABORTED ? TRN_RESOURCE_EXHAUSTED : status;
}

/* Its query was planned when the statement was looked at: it means something now. */
trn_status flightsql__temporary_view(flightsql_session *session, const trn_command *command, trn_error **error) {
  flightsql_session *owner = flightsql__owner(session);
  const trn_table_info *table = command->table;
  if (command->name_count != 1)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A temporary view has a name of one part");
  flightsql_temporary *made = temporary_create(session);
  char *catalog = NULL, *database = NULL;
  void *old = NULL;
  trn_status status = made ? trn_session_namespace(session->session, &catalog, &database, error) : trn__no_memory(error);
  if (!status) {
    made->view_text = strdup(table->view_text ? table->view_text : "");
    made->catalog = strdup(catalog);
    made->database = strdup(database);
    if (!made->view_text || !made->catalog || !made->database || trn__schema_copy(table->schema, &made->schema))
      status = trn__no_memory(error);
  }
  const char *name = command->name[0];
  bool is_there = false;
  if (!status) {
    pthread_mutex_lock(&owner->mutex);
    is_there = find(owner, name) != NULL;
    bool sets = !is_there || command->or_replace;
    bool ok = !sets || trn__map_set(owner->temporary, name, strlen(name), made, &old);
    if (sets && ok) made = NULL;
    pthread_mutex_unlock(&owner->mutex);
    if (!ok) status = trn__no_memory(error);
    else if (!sets && !command->if_not_exists)
      status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "A temporary table or view %s exists already", name);
  }
  flightsql__temporary_destroy(made);
  flightsql__temporary_destroy(old);
  trn_free(catalog);
  trn_free(database);
  return status;
}

bool flightsql__temporary_remove(flightsql_session *session, const char *name) {
  flightsql_session *owner = flightsql__owner(session);
  pthread_mutex_lock(&owner->mutex);
  void *table = trn__map_remove(owner->temporary, name, strlen(name));
  pthread_mutex_unlock(&owner->mutex);
  flightsql__temporary_destroy(table);
  return table != NULL;
}
