/* Statements that are not queries: what only changes the catalog. */
#include "catalog/command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "catalog/warehouse.h"
#include "core/query.h"

static trn_status set_changed(bool *changed, bool value) {
  if (changed) *changed = value;
  return TRN_OK;
}

/* An error that a flag turns into nothing to do. */
static trn_status forgive(trn_status status, trn_status forgiven, bool flag, trn_error **error, bool *changed) {
  if (status != forgiven || !flag) return status;
  if (error) {
    trn_error_unref(*error);
    *error = NULL;
  }
  return set_changed(changed, false);
}

/* ---- databases ---- */

typedef struct looked_for {
  const char *name;
  bool found;
} looked_for;

static void compare_database(void *user, const trn_database_info *database) {
  looked_for *look = user;
  if (strcmp(database->name, look->name) == 0) look->found = true;
}

static trn_status no_database(const trn_catalog *catalog, const char *name, trn_error **error) {
  char text[600];
  snprintf(text, sizeof text, "`%s`.`%s`", trn_catalog_name(catalog), name);
  const trn_error_param param = {"schemaName", text};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_NOT_FOUND,
                               .condition = "SCHEMA_NOT_FOUND",
                               .params = &param,
                               .param_count = 1};
  if (error) *error = trn_error_create(&spec);
  return TRN_NOT_FOUND;
}

/* [catalog,] database */
static trn_status database_name(trn_session *session, const trn_command *c, trn_catalog **catalog, const char **name,
                                trn_error **error) {
  char *own = NULL, *schema = NULL;
  *catalog = NULL;
  if (c->name_count < 1 || c->name_count > 2)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a database's name has one or two parts, not %zu",
                         c->name_count);
  if (trn__session_get_names(session, &own, &schema)) return trn__no_memory(error);
  *name = c->name[c->name_count - 1];
  trn_status status = trn_session_get_catalog(session, c->name_count == 2 ? c->name[0] : own, catalog, error);
  free(own), free(schema);
  return status;
}

static trn_status use(trn_session *session, const trn_command *c, trn_error **error) {
  trn_catalog *catalog = NULL;
  const char *name = NULL;
  if (c->is_catalog) {
    if (c->name_count != 1) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a catalog's name has one part");
    trn_status status = trn_session_get_catalog(session, c->name[0], &catalog, error);
    trn_catalog_unref(catalog);
    if (!status && trn_session_set_namespace(session, c->name[0], TRN_DEFAULT_DATABASE)) status = trn__no_memory(error);
    return status;
  }
  trn_status status = database_name(session, c, &catalog, &name, error);
  looked_for look = {.name = name};
  if (!status) status = trn_catalog_list_databases(catalog, session, compare_database, &look, error);
  if (!status && !look.found) status = no_database(catalog, name, error);
  if (!status && trn_session_set_namespace(session, trn_catalog_name(catalog), name)) status = trn__no_memory(error);
  trn_catalog_unref(catalog);
  return status;
}

static trn_status on_database(trn_session *session, const trn_command *c, bool *changed, trn_error **error) {
  trn_catalog *catalog = NULL;
  const char *name = NULL;
  trn_status status = database_name(session, c, &catalog, &name, error);
  trn_database_info info = {.struct_size = sizeof info};
  if (c->database) memcpy(&info, c->database, trn__struct_size(c->database->struct_size, sizeof info));
  info.struct_size = sizeof info;
  info.name = name;
  if (!status) status = trn__transaction_check(session, catalog, error);
  if (status) {
    trn_catalog_unref(catalog);
    return status;
  }
  if (c->kind == TRN_COMMAND_CREATE_DATABASE) {
    status = trn_catalog_create_database(catalog, session, &info, error);
    status = forgive(status, TRN_ALREADY_EXISTS, c->if_not_exists, error, changed);
  } else if (c->kind == TRN_COMMAND_DROP_DATABASE) {
    status = trn_catalog_drop_database(catalog, session, name, c->cascade, error);
    status = forgive(status, TRN_NOT_FOUND, c->if_exists, error, changed);
  } else {
    status = trn_catalog_alter_database(catalog, session, &info, error);
  }
  trn_catalog_unref(catalog);
  return status;
}

/* ---- tables ---- */

static trn_status full_info(const trn_command_target *t, trn_table_info *out, trn_error **error) {
  if (!t->command->table) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the statement has no definition");
  *out = (trn_table_info){.row_count = -1, .byte_count = -1};
  memcpy(out, t->command->table, trn__struct_size(t->command->table->struct_size, sizeof *out));
  out->struct_size = sizeof *out;
  out->database = t->database;
  out->name = t->name;
  return TRN_OK;
}

/* The kind of what is there; *found false: nothing. */
static trn_status look(const trn_command_target *t, bool *found, trn_table_kind *kind, trn_error **error) {
  trn_table *table = NULL;
  trn_error *missing = NULL;
  trn_status status = trn_catalog_get_table(t->catalog, t->session, t->database, t->name, &table, &missing);
  *found = status == TRN_OK;
  if (*found) *kind = trn_table_get_info(table)->kind;
  trn_table_unref(table);
  if (status && status != TRN_NOT_FOUND && error) {
    *error = missing;
    return status;
  }
  trn_error_unref(missing);
  return status == TRN_NOT_FOUND ? TRN_OK : status;
}

static trn_status create_table(const trn_command_target *t, trn_operation **out, bool *changed, trn_error **error) {
  const trn_command *c = t->command;
  trn_table_info info;
  bool found = false;
  trn_table_kind kind = TRN_TABLE_MANAGED;
  trn_status status = full_info(t, &info, error);
  if (!status && c->if_not_exists) status = look(t, &found, &kind, error);
  if (status || found) return status ? status : set_changed(changed, false);
  if (c->plan) return trn__command_write(t, out, error);
  status = trn_catalog_create_table(t->catalog, t->session, &info, c->or_replace, error);
  return forgive(status, TRN_ALREADY_EXISTS, c->if_not_exists, error, changed);
}

static trn_status create_view(const trn_command_target *t, bool *changed, trn_error **error) {
  const trn_command *c = t->command;
  trn_table_info info;
  bool found = false;
  trn_table_kind kind = TRN_TABLE_VIEW;
  trn_status status = full_info(t, &info, error);
  if (!status) status = look(t, &found, &kind, error);
  if (status) return status;
  info.kind = TRN_TABLE_VIEW;
  if (found && c->if_not_exists) return set_changed(changed, false);
  if (found && kind != TRN_TABLE_VIEW && c->or_replace)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a table, not a view: it cannot be replaced by one",
                         t->name);
  status = trn_catalog_create_table(t->catalog, t->session, &info, c->or_replace, error);
  return forgive(status, TRN_ALREADY_EXISTS, c->if_not_exists, error, changed);
}

static trn_status drop(const trn_command_target *t, bool *changed, trn_error **error) {
  const trn_command *c = t->command;
  bool found = false, view = c->kind == TRN_COMMAND_DROP_VIEW;
  trn_table_kind kind = TRN_TABLE_MANAGED;
  trn_status status = look(t, &found, &kind, error);
  if (status) return status;
  if (found && (kind == TRN_TABLE_VIEW) != view)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a %s", t->name, view ? "table" : "view");
  status = trn_catalog_drop_table(t->catalog, t->session, t->database, t->name, c->purge, error);
  return forgive(status, TRN_NOT_FOUND, c->if_exists, error, changed);
}

static trn_status rename_table(const trn_command_target *t, trn_error **error) {
  const trn_command *c = t->command;
  trn_catalog *catalog = NULL;
  char *database = NULL, *name = NULL;
  /* An unqualified new name means: in the same database. */
  const char *same[] = {trn_catalog_name(t->catalog), t->database, c->to_count ? c->to[c->to_count - 1] : ""};
  if (c->to_count == 2) same[1] = c->to[0];
  bool full = c->to_count == 3;
  trn_status status =
      trn_session_resolve_name(t->session, full ? c->to : same, c->to_count ? 3 : 0, &catalog, &database, &name, error);
  if (!status && strcmp(trn_catalog_name(catalog), trn_catalog_name(t->catalog)) != 0)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a table cannot be renamed into another catalog");
  if (!status) status = trn_catalog_rename_table(t->catalog, t->session, t->database, t->name, database, name, error);
  trn_catalog_unref(catalog);
  free(database), free(name);
  return status;
}

static trn_status alter_table(const trn_command_target *t, trn_error **error) {
  trn_table_info info;
  trn_status status = full_info(t, &info, error);
  return status ? status
                : trn_catalog_alter_table(t->catalog, t->session, &info, t->command->expected_version, error);
}

/* ---- partitions that a location has ---- */

typedef struct recovery {
  const trn_table_info *info;
  trn_arena *arena;
  trn_vec found; /* trn_partition_info */
  trn_error **error;
} recovery;

static trn_status recovered(recovery *r, const char *directory) {
  size_t count = r->info->partition_column_count;
  trn_partition_info *p = TRN_NEW(r->arena, trn_partition_info);
  const char **values = TRN_NEW_N(r->arena, const char *, count);
  trn_strbuf value = {0};
  trn_status status = p && values ? TRN_OK : trn__no_memory(r->error);
  for (size_t i = 0; !status && i < count; i++)
    if (trn__partition_value(directory, i, &value) && !(values[i] = trn__arena_strdup(r->arena, value.data)))
      status = trn__no_memory(r->error);
  if (value.failed) status = trn__no_memory(r->error);
  trn__strbuf_finish(&value);
  if (status) return status;
  *p = (trn_partition_info){.struct_size = sizeof *p, .values = values, .value_count = count};
  return trn__vec_push(&r->found, p) ? TRN_OK : trn__no_memory(r->error);
}

static trn_status recover(recovery *r, const char *path, const char *below, size_t level) {
  if (level == r->info->partition_column_count) return recovered(r, below);
  DIR *stream = opendir(path);
  const char *name = r->info->partition_columns[level];
  trn_status status = TRN_OK; /* a directory that is not there has no partitions */
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    trn_strbuf key = {0}, inner = {0}, deeper = {0};
    const char *equals = strchr(e->d_name, '=');
    if (!equals || r->found.count > TRN_SOURCE_FILES_MAX) continue;
    trn__partition_unescape(&key, e->d_name, (size_t)(equals - e->d_name));
    trn__strbuf_printf(&inner, "%s/%s", path, e->d_name);
    trn__strbuf_printf(&deeper, "%s%s%s", below, *below ? "/" : "", e->d_name);
    if (key.failed || inner.failed || deeper.failed) status = trn__no_memory(r->error);
    else if (key.data && strcmp(key.data, name) == 0) status = recover(r, inner.data, deeper.data, level + 1);
    trn__strbuf_finish(&key), trn__strbuf_finish(&inner), trn__strbuf_finish(&deeper);
  }
  if (stream) closedir(stream);
  return status;
}

static trn_status recover_partitions(const trn_command_target *t, trn_error **error) {
  trn_table *table = NULL;
  trn_status status = trn_catalog_get_table(t->catalog, t->session, t->database, t->name, &table, error);
  if (status) return status;
  recovery r = {.info = trn_table_get_info(table), .error = error, .arena = trn__arena_create(0)};
  const char *location = r.info->location;
  if (location && strncmp(location, "file:", 5) == 0) location += 5;
  if (!r.arena) status = trn__no_memory(error);
  else if (!r.info->partition_column_count)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s has no partitions", t->name);
  else if (r.info->kind == TRN_TABLE_EXTERNAL && location)
    status = recover(&r, location, "", 0);
  trn_partition_info *list = status ? NULL : TRN_NEW_N(r.arena, trn_partition_info, r.found.count);
  if (!status && !list) status = trn__no_memory(error);
  for (size_t i = 0; list && i < r.found.count; i++) list[i] = *(trn_partition_info *)r.found.items[i];
  if (!status && r.found.count)
    status = trn_catalog_add_partitions(t->catalog, t->session, t->database, t->name, list, r.found.count, true, error);
  trn__vec_finish(&r.found);
  trn__arena_unref(r.arena);
  trn_table_unref(table);
  return status;
}

/* ---- which ---- */

static trn_status on_table(const trn_command_target *t, trn_operation **out, bool *changed, trn_error **error) {
  const trn_command *c = t->command;
  trn_status status;
  switch (c->kind) {
  case TRN_COMMAND_CREATE_TABLE: return create_table(t, out, changed, error);
  case TRN_COMMAND_CREATE_VIEW: return create_view(t, changed, error);
  case TRN_COMMAND_DROP_TABLE:
  case TRN_COMMAND_DROP_VIEW: return drop(t, changed, error);
  case TRN_COMMAND_RENAME_TABLE: return rename_table(t, error);
  case TRN_COMMAND_ALTER_TABLE: return alter_table(t, error);
  case TRN_COMMAND_TRUNCATE_TABLE:
    return trn_catalog_truncate_table(t->catalog, t->session, t->database, t->name, c->partition, c->partition_count,
                                      error);
  case TRN_COMMAND_INSERT:
  case TRN_COMMAND_DELETE:
  case TRN_COMMAND_UPDATE: return trn__command_write(t, out, error);
  case TRN_COMMAND_ADD_PARTITIONS:
    return trn_catalog_add_partitions(t->catalog, t->session, t->database, t->name, c->partitions,
                                      c->partition_info_count, c->if_not_exists, error);
  case TRN_COMMAND_DROP_PARTITIONS:
    status = trn_catalog_drop_partitions(t->catalog, t->session, t->database, t->name, c->partition, c->partition_count,
                                         c->if_exists, error);
    return status;
  case TRN_COMMAND_RECOVER_PARTITIONS: return recover_partitions(t, error);
  case TRN_COMMAND_ANALYZE_TABLE: { /* files are counted when they are listed: the table must be there */
    bool found = false;
    trn_table_kind kind;
    status = look(t, &found, &kind, error);
    trn_table *table = NULL;
    if (!status && !found) status = trn_catalog_get_table(t->catalog, t->session, t->database, t->name, &table, error);
    trn_table_unref(table);
    return status;
  }
  default: return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "there is no statement of kind %d", (int)c->kind);
  }
}

static trn_status execute(trn_session *session, const trn_command *c, trn_operation **out, bool *changed,
                          trn_error **error) {
  trn_command_target target = {.session = session, .command = c};
  char *database = NULL, *name = NULL;
  switch (c->kind) {
  case TRN_COMMAND_USE: return use(session, c, error);
  case TRN_COMMAND_CREATE_DATABASE:
  case TRN_COMMAND_DROP_DATABASE:
  case TRN_COMMAND_ALTER_DATABASE: return on_database(session, c, changed, error);
  case TRN_COMMAND_COPY: return trn__command_write(&target, out, error);
  case TRN_COMMAND_SET:
    if (!c->column_count || !c->columns[0] || !*c->columns[0])
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "there is no setting to set");
    return trn_session_client_set(session, c->columns[0], c->comment, error);
  default: break;
  }
  trn_status status =
      trn_session_resolve_name(session, c->name, c->name_count, &target.catalog, &database, &name, error);
  target.database = database, target.name = name;
  if (!status) status = trn__transaction_check(session, target.catalog, error);
  if (!status) status = on_table(&target, out, changed, error);
  trn_catalog_unref(target.catalog);
  free(database), free(name);
  return status;
}

trn_status trn_command_execute(trn_session *session, const trn_command *given, trn_operation **out, int64_t *count,
                               bool *changed, trn_error **error) {
  trn_command command = {0};
  memcpy(&command, given, trn__struct_size(given->struct_size, sizeof command));
  command.struct_size = sizeof command;
  *out = NULL;
  if (count) *count = 0;
  set_changed(changed, true);
  return execute(session, &command, out, changed, error);
}
