/* Tables and views of a warehouse. */
#include "catalog/warehouse.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- paths ---- */

const char *trn__path_inside(trn_warehouse *w, trn_arena *arena, const char *path) {
  size_t size = w->directory ? strlen(w->directory) : 0;
  if (!path) return NULL;
  if (size && strncmp(path, w->directory, size) == 0 && path[size] == '/')
    return trn__arena_printf(arena, ".%s", path + size);
  return trn__arena_strdup(arena, path);
}

const char *trn__path_outside(trn_warehouse *w, trn_arena *arena, const char *kept) {
  if (!kept) return NULL;
  if (kept[0] == '.' && kept[1] == '/' && w->directory) return trn__arena_printf(arena, "%s%s", w->directory, kept + 1);
  return trn__arena_strdup(arena, kept);
}

/* A name as part of a path: what would leave the directory, or hide, is escaped. */
static void put_name(trn_strbuf *out, const char *name) {
  for (const char *c = name; *c; c++) {
    bool plain = (unsigned char)*c >= 0x20 && *c != '/' && *c != '%' && *c != 0x7F;
    if (!plain || (c == name && (*c == '.' || *c == '_')))
      trn__strbuf_printf(out, "%%%02X", (unsigned char)*c);
    else
      trn__strbuf_putc(out, *c);
  }
}

char *trn__table_location(trn_warehouse *w, trn_arena *arena, const char *database, const char *name,
                          trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_strbuf path = {0};
  bool found = false;
  char *out = NULL;
  const char *directory = trn__warehouse_directory(w, error);
  if (!directory) return NULL;
  trn_status status =
      trn__sql_prepare(w, &statement, error, "SELECT location FROM databases WHERE name = ?", "s", database);
  if (!status) status = trn__sql_step(w, statement, &found, error);
  const char *base = found ? trn__sql_column(statement, 0) : NULL;
  if (base) {
    if (strncmp(base, "file:", 5) == 0) base += 5;
    trn__strbuf_puts(&path, base);
  } else {
    trn__strbuf_puts(&path, directory);
    if (strcmp(database, TRN_DEFAULT_DATABASE) != 0) trn__strbuf_putc(&path, '/'), put_name(&path, database), trn__strbuf_puts(&path, ".db");
  }
  trn__strbuf_putc(&path, '/');
  put_name(&path, name);
  if (!status && !path.failed) out = trn__arena_strdup(arena, path.data);
  if (!status && !out) trn__no_memory(error);
  sqlite3_finalize(statement);
  trn__strbuf_finish(&path);
  return out;
}

/* ---- rows ---- */

#define TABLE_COLUMNS                                                                                                  \
  "id, database, name, identity, version, definition_version, kind, format, location, comment, definition, row_count, "  \
  "byte_count, created_ms"

static const char *text_of(trn_arena *arena, sqlite3_stmt *s, int column, bool *failed) {
  const char *text = trn__sql_column(s, column), *copy = text ? trn__arena_strdup(arena, text) : NULL;
  if (text && !copy) *failed = true;
  return copy;
}

static trn_status read_row(trn_warehouse *w, trn_arena *arena, sqlite3_stmt *s, bool with_definition,
                           trn_table_row *out, trn_error **error) {
  trn_table_info *info = &out->info;
  bool failed = false;
  out->id = sqlite3_column_int64(s, 0);
  out->definition_version = (uint64_t)sqlite3_column_int64(s, 5);
  *info = (trn_table_info){.struct_size = sizeof *info,
                           .catalog = trn__arena_strdup(arena, w->name),
                           .database = text_of(arena, s, 1, &failed),
                           .name = text_of(arena, s, 2, &failed),
                           .identity = text_of(arena, s, 3, &failed),
                           .version = (uint64_t)sqlite3_column_int64(s, 4),
                           .kind = (trn_table_kind)sqlite3_column_int64(s, 6),
                           .format = text_of(arena, s, 7, &failed),
                           .comment = text_of(arena, s, 9, &failed),
                           .row_count = sqlite3_column_int64(s, 11),
                           .byte_count = sqlite3_column_int64(s, 12),
                           .created_ms = sqlite3_column_int64(s, 13)};
  const char *location = trn__sql_column(s, 8);
  info->location = trn__path_outside(w, arena, location);
  if (failed || !info->catalog || (location && !info->location)) return trn__no_memory(error);
  if (!with_definition) return TRN_OK;
  return trn__definition_decode(arena, sqlite3_column_blob(s, 10), (size_t)sqlite3_column_bytes(s, 10), info, error);
}

trn_status trn__table_find(trn_warehouse *w, trn_arena *arena, const char *database, const char *name,
                           trn_table_row *out, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool found = false;
  trn_status status = trn__sql_prepare(w, &statement, error,
                                       "SELECT " TABLE_COLUMNS " FROM tables WHERE database = ? AND name = ?", "ss",
                                       database, name);
  if (!status) status = trn__sql_step(w, statement, &found, error);
  if (!status && found) status = read_row(w, arena, statement, true, out, error);
  sqlite3_finalize(statement);
  if (status || found) return status;
  status = trn__database_check(w, database, error);
  return status ? status : trn__no_table(w, database, name, error);
}

static trn_status delete_table(trn_warehouse *w, int64_t id, uint64_t sequence, trn_error **error) {
  trn_status status = trn__files_retire(w, id, NULL, sequence, error);
  if (!status) status = trn__sql_run(w, error, "DELETE FROM partitions WHERE table_id = ?", "i", id);
  return status ? status : trn__sql_run(w, error, "DELETE FROM tables WHERE id = ?", "i", id);
}

/* What stands where a new table or view shall be. *found: its id, or 0. */
static trn_status occupied(trn_warehouse *w, const char *database, const char *name, int64_t *found, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool more = false;
  *found = 0;
  trn_status status = trn__sql_prepare(w, &statement, error, "SELECT id FROM tables WHERE database = ? AND name = ?",
                                       "ss", database, name);
  if (!status) status = trn__sql_step(w, statement, &more, error);
  if (!status && more) *found = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return status;
}

trn_status trn__table_insert(trn_warehouse *w, const trn_table_info *table, bool replace, uint64_t sequence, int64_t *id,
                             trn_error **error) {
  trn_strbuf definition = {0};
  char identity[TRN_UUID_SIZE];
  const char *location = NULL;
  int64_t old = 0, version = (int64_t)sequence;
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena ? trn__database_check(w, table->database, error) : trn__no_memory(error);
  if (!status) status = occupied(w, table->database, table->name, &old, error);
  if (!status && old && !replace)
    status = trn__named_error(w, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", table->database,
                              table->name, error);
  if (!status && old) status = delete_table(w, old, sequence, error);
  if (!status && table->kind == TRN_TABLE_MANAGED) {
    location = trn__table_location(w, arena, table->database, table->name, error);
    if (!location) status = TRN_RESOURCE_EXHAUSTED;
  } else if (table->location) {
    location = table->location;
  }
  const char *kept = location ? trn__path_inside(w, arena, location) : NULL;
  trn__definition_encode(&definition, table);
  if (!status && (definition.failed || (location && !kept))) status = trn__no_memory(error);
  trn__uuid7(identity);
  bool counted = table->kind == TRN_TABLE_MANAGED;
  if (!status)
    status = trn__sql_run(w, error,
                          "INSERT INTO tables(database, name, identity, version, definition_version, kind, format, "
                          "location, comment, definition, row_count, byte_count, created_ms) "
                          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                          "sssiiisssbiii", table->database, table->name, identity, version, version,
                          (int64_t)table->kind, table->format, kept, table->comment, definition.data, definition.size,
                          counted ? (int64_t)0 : table->row_count, counted ? (int64_t)0 : table->byte_count,
                          trn__wall_ms());
  if (!status && id) *id = sqlite3_last_insert_rowid(w->db);
  trn__strbuf_finish(&definition);
  trn__arena_unref(arena);
  return status;
}

trn_status trn__table_touch(trn_warehouse *w, int64_t id, uint64_t sequence, bool definition, trn_error **error) {
  trn_status status = trn__sql_run(w, error, "UPDATE tables SET version = ? WHERE id = ?", "ii", (int64_t)sequence, id);
  if (!status && definition)
    status = trn__sql_run(w, error, "UPDATE tables SET definition_version = ? WHERE id = ?", "ii", (int64_t)sequence, id);
  if (!status) /* -1 in any file: not known for the table */
    status = trn__sql_run(w, error,
                          "UPDATE tables SET (row_count, byte_count) = (SELECT CASE WHEN min(row_count) < 0 THEN -1 "
                          "ELSE ifnull(sum(row_count), 0) END, ifnull(sum(byte_count), 0) FROM files WHERE table_id = "
                          "tables.id) WHERE id = ? AND kind = 0",
                          "i", id);
  return status;
}

/* ---- snapshots ---- */

typedef struct snapshot {
  trn_warehouse *w;
  trn_arena *arena;
  uint64_t sequence;
  bool is_pinned;
  trn_vec files; /* trn_table_file */
  trn_table_file *list;
} snapshot;

static void snapshot_destroy(void *self) {
  snapshot *s = self;
  if (s->is_pinned) trn__pin_remove(s->w, s->sequence);
  trn__vec_finish(&s->files);
  trn__arena_unref(s->arena);
  trn__warehouse_unref(s->w);
  free(s);
}

static const trn_table_ops snapshot_ops = {.struct_size = sizeof(trn_table_ops), .destroy = snapshot_destroy};

/* locks: mu held, in a transaction */
static trn_status read_files(snapshot *s, trn_warehouse *w, int64_t table, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool more = true;
  trn_status status =
      trn__sql_prepare(w, &statement, error,
                       "SELECT path, row_count, byte_count FROM files WHERE table_id = ? ORDER BY id", "i", table);
  while (!status && more) {
    status = trn__sql_step(w, statement, &more, error);
    if (status || !more) break;
    trn_table_file *file = TRN_NEW(s->arena, trn_table_file);
    const char *path = trn__sql_column(statement, 0);
    if (file) *file = (trn_table_file){trn__path_outside(w, s->arena, path ? path : ""),
                                       sqlite3_column_int64(statement, 1), sqlite3_column_int64(statement, 2)};
    if (!file || !file->path || !trn__vec_push(&s->files, file)) status = trn__no_memory(error);
  }
  sqlite3_finalize(statement);
  if (!status && !(s->list = TRN_NEW_N(s->arena, trn_table_file, s->files.count))) status = trn__no_memory(error);
  for (size_t i = 0; !status && i < s->files.count; i++) s->list[i] = *(trn_table_file *)s->files.items[i];
  return status;
}

/* Gives the row; its texts are the snapshot's. */
static trn_status read_snapshot(snapshot *s, trn_session *session, const char *database, const char *name,
                                trn_table_row *row, trn_error **error) {
  trn_change change;
  bool is_before = true;
  trn__pin_before(s->w);
  trn_status status = trn__change_begin(&change, s->w, session, false, error);
  if (!status) {
    status = trn__sql_sequence(change.w, false, &s->sequence, error);
    if (!status) status = trn__table_find(change.w, s->arena, database, name, row, error);
    if (!status && row->info.kind == TRN_TABLE_MANAGED) status = read_files(s, change.w, row->id, error);
    if (!status) {
      is_before = false;
      s->is_pinned = trn__pin_add(change.w, s->sequence);
      if (!s->is_pinned) status = trn__no_memory(error);
    }
    status = trn__change_end(&change, status, error);
  }
  if (is_before) trn__pin_cancel(s->w);
  return status;
}

trn_status trn__warehouse_get_table(void *self, trn_session *session, const char *database, const char *name,
                                    trn_table **out, trn_error **error) {
  trn_table_row row;
  snapshot *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  s->w = trn__warehouse_ref(self);
  s->arena = trn__arena_create(0);
  trn_status status = s->arena ? read_snapshot(s, session, database, name, &row, error) : trn__no_memory(error);
  bool managed = !status && row.info.kind == TRN_TABLE_MANAGED;
  if (!status && trn_table_create(&snapshot_ops, s, &row.info, s->list, s->files.count, managed, out))
    status = trn__no_memory(error);
  if (status) snapshot_destroy(s);
  return status;
}

trn_status trn__warehouse_list_tables(void *self, trn_session *session, const char *database, bool with_schema,
                                      trn_each_table each, void *user, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_vec found = {0};
  trn_change change;
  bool more = true;
  trn_status status = trn__change_begin(&change, self, session, false, error);
  if (status) return status;
  trn_arena *arena = trn__arena_ref(change.arena);
  status = trn__database_check(change.w, database, error);
  if (!status)
    status = trn__sql_prepare(change.w, &statement, error,
                              "SELECT " TABLE_COLUMNS " FROM tables WHERE database = ? ORDER BY name", "s", database);
  while (!status && more) {
    status = trn__sql_step(change.w, statement, &more, error);
    if (status || !more) break;
    trn_table_row *row = TRN_NEW(arena, trn_table_row);
    if (!row || !trn__vec_push(&found, row)) status = trn__no_memory(error);
    if (!status) status = read_row(change.w, arena, statement, with_schema, row, error);
  }
  sqlite3_finalize(statement);
  status = trn__change_end(&change, status, error);
  for (size_t i = 0; !status && i < found.count; i++) each(user, &((trn_table_row *)found.items[i])->info);
  trn__vec_finish(&found);
  trn__arena_unref(arena);
  return status;
}

/* ---- changes ---- */

trn_status trn__warehouse_create_table(void *self, trn_session *session, const trn_table_info *table, bool replace,
                                       trn_error **error) {
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  change.sweeps = replace;
  return trn__change_end(&change, trn__table_insert(change.w, table, replace, change.sequence, NULL, error), error);
}

trn_status trn__warehouse_drop_table(void *self, trn_session *session, const char *database, const char *name, bool purge,
                                     trn_error **error) {
  trn_table_row row;
  trn_change change;
  (void)purge;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  change.sweeps = true;
  status = trn__table_find(change.w, change.arena, database, name, &row, error);
  if (!status) status = delete_table(change.w, row.id, change.sequence, error);
  return trn__change_end(&change, status, error);
}

/* A new name that is taken: as Spark shows it, without the catalog. */
static trn_status already_there(const char *database, const char *name, trn_error **error) {
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "`%s`.`%s`", database, name);
  const trn_error_param param = {"relationName", text.data};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_ALREADY_EXISTS,
                               .condition = "TABLE_OR_VIEW_ALREADY_EXISTS",
                               .params = &param,
                               .param_count = 1};
  if (error) *error = text.failed ? NULL : trn_error_create(&spec);
  trn__strbuf_finish(&text);
  return TRN_ALREADY_EXISTS;
}

/* locks: mu held, in a transaction */
static trn_status rename_row(trn_warehouse *w, trn_arena *arena, const trn_table_row *row, const char *to_database,
                             const char *to_name, uint64_t sequence, trn_error **error) {
  int64_t there = 0;
  const char *location = row->info.location;
  trn_status status = trn__database_check(w, to_database, error);
  if (!status) status = occupied(w, to_database, to_name, &there, error);
  if (!status && there) status = already_there(to_database, to_name, error);
  if (status) return status;
  if (row->info.kind == TRN_TABLE_MANAGED) { /* files stay where they are; new ones go to the new place */
    location = trn__table_location(w, arena, to_database, to_name, error);
    if (!location) return TRN_RESOURCE_EXHAUSTED;
  }
  const char *kept = location ? trn__path_inside(w, arena, location) : NULL;
  if (location && !kept) return trn__no_memory(error);
  status = trn__sql_run(w, error, "UPDATE tables SET database = ?, name = ?, location = ? WHERE id = ?", "sssi",
                        to_database, to_name, kept, row->id);
  return status ? status : trn__table_touch(w, row->id, sequence, true, error);
}

trn_status trn__warehouse_rename_table(void *self, trn_session *session, const char *database, const char *name,
                                       const char *to_database, const char *to_name, trn_error **error) {
  trn_table_row row;
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  status = trn__table_find(change.w, change.arena, database, name, &row, error);
  if (!status) status = rename_row(change.w, change.arena, &row, to_database, to_name, change.sequence, error);
  return trn__change_end(&change, status, error);
}

/* locks: mu held, in a transaction */
static trn_status change_row(trn_warehouse *w, trn_arena *arena, const trn_table_row *row, const trn_table_info *table,
                             uint64_t sequence, trn_error **error) {
  trn_strbuf definition = {0};
  trn_table_info next = *table;
  if (!next.created_by) next.created_by = row->info.created_by;
  const char *location = row->info.kind == TRN_TABLE_MANAGED ? row->info.location : table->location;
  const char *kept = location ? trn__path_inside(w, arena, location) : NULL;
  trn__definition_encode(&definition, &next);
  trn_status status = definition.failed || (location && !kept) ? trn__no_memory(error) : TRN_OK;
  if (!status)
    status = trn__sql_run(w, error,
                          "UPDATE tables SET definition = ?, location = ?, comment = ?, row_count = ?, byte_count = ? "
                          "WHERE id = ?",
                          "bssiii", definition.data, definition.size, kept, table->comment, table->row_count,
                          table->byte_count, row->id);
  if (!status) status = trn__table_touch(w, row->id, sequence, true, error);
  trn__strbuf_finish(&definition);
  return status;
}

trn_status trn__warehouse_alter_table(void *self, trn_session *session, const trn_table_info *table,
                                      uint64_t expected_version, trn_error **error) {
  trn_table_row row;
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  status = trn__table_find(change.w, change.arena, table->database, table->name, &row, error);
  if (!status && expected_version && row.info.version != expected_version)
    status = trn_error_set(error, TRN_ABORTED, NULL, "The table %s was changed meanwhile", table->name);
  if (!status) status = change_row(change.w, change.arena, &row, table, change.sequence, error);
  return trn__change_end(&change, status, error);
}
