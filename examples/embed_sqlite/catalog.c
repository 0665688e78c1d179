/* The database's tables as a catalog with one database, "default". Nothing can be changed: other slots stay empty, and
 * whoever asks is told UNIMPLEMENTED. */
#include "embed.h"
#include <stdio.h>
#include <sys/stat.h>

static trn_status list_databases(void *self, trn_session *session, trn_each_database each, void *user, trn_error **error) {
  (void)self, (void)session, (void)error;
  const trn_database_info info = {.struct_size = sizeof info, .name = TRN_DEFAULT_DATABASE};
  each(user, &info);
  return TRN_OK;
}

/* A snapshot of a table's definition. */
typedef struct table {
  trn_table_info info;
  struct ArrowSchema schema;
  char *name;
} table;

static void table_destroy(void *self) {
  table *t = self;
  if (t->schema.release) t->schema.release(&t->schema);
  free(t->name);
  free(t);
}

/* Grows with every commit, so that results are kept until then. With a write-ahead log its file is the one that changes. */
static uint64_t version(const char *path) {
  char log[4096];
  struct stat data = {0}, wal = {0};
  snprintf(log, sizeof log, "%s-wal", path);
  stat(path, &data);
  stat(log, &wal);
  uint64_t a = (uint64_t)data.st_mtim.tv_sec * 1000000000u + (uint64_t)data.st_mtim.tv_nsec;
  uint64_t b = (uint64_t)wal.st_mtim.tv_sec * 1000000000u + (uint64_t)wal.st_mtim.tv_nsec;
  return a > b ? a : b;
}

static trn_status table_open(const embed *e, sqlite3 *db, const char *name, table **out, trn_error **error) {
  table *t = calloc(1, sizeof *t);
  *out = t;
  if (!t || !(t->name = strdup(name))) {
    free(t);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  }
  t->info = (trn_table_info){.struct_size = sizeof t->info,
                             .catalog = TRN_DEFAULT_CATALOG,
                             .database = TRN_DEFAULT_DATABASE,
                             .name = t->name,
                             .kind = TRN_TABLE_EXTERNAL,
                             .identity = t->name,
                             .version = version(e->path),
                             .format = "sqlite",
                             .row_count = -1,
                             .byte_count = -1};
  trn_status status = embed_schema(db, name, &t->schema, error);
  t->info.schema = &t->schema;
  if (status) table_destroy(t);
  return status;
}

static trn_status open_list(const embed *e, const char *sql, const char *name, sqlite3 **db, sqlite3_stmt **statement,
                            trn_error **error) {
  trn_status status = embed_open(e->path, db, error);
  if (status) return status;
  int code = sqlite3_prepare_v2(*db, sql, -1, statement, NULL);
  if (!code && name) code = sqlite3_bind_text(*statement, 1, name, -1, SQLITE_STATIC);
  return code ? embed_failed(*db, code, error) : TRN_OK;
}

static trn_status check_database(const char *database, trn_error **error) {
  if (strcmp(database, TRN_DEFAULT_DATABASE) == 0) return TRN_OK;
  return trn_error_set(error, TRN_NOT_FOUND, "SCHEMA_NOT_FOUND", "there is no database %s", database);
}

static trn_status list_tables(void *self, trn_session *session, const char *database, bool with_schema,
                              trn_each_table each, void *user, trn_error **error) {
  static const char sql[] = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
  sqlite3 *db = NULL;
  sqlite3_stmt *names = NULL;
  (void)session, (void)with_schema;
  trn_status status = check_database(database, error);
  if (!status) status = open_list(self, sql, NULL, &db, &names, error);
  while (!status && sqlite3_step(names) == SQLITE_ROW) {
    table *t;
    status = table_open(self, db, (const char *)sqlite3_column_text(names, 0), &t, error);
    if (status) break;
    each(user, &t->info);
    table_destroy(t);
  }
  sqlite3_finalize(names);
  sqlite3_close(db);
  return status;
}

static trn_status get_table(void *self, trn_session *session, const char *database, const char *name, trn_table **out,
                            trn_error **error) {
  static const char sql[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? AND name NOT LIKE 'sqlite_%'";
  static const trn_table_ops ops = {.struct_size = sizeof ops, .destroy = table_destroy};
  sqlite3 *db = NULL;
  sqlite3_stmt *found = NULL;
  table *t = NULL;
  (void)session;
  trn_status status = check_database(database, error);
  if (!status) status = open_list(self, sql, name, &db, &found, error);
  if (!status && sqlite3_step(found) != SQLITE_ROW)
    status = trn_error_set(error, TRN_NOT_FOUND, "TABLE_OR_VIEW_NOT_FOUND", "there is no table %s", name);
  if (!status) status = table_open(self, db, name, &t, error);
  if (!status) {
    status = trn_table_create(&ops, t, &t->info, NULL, 0, false, out);
    if (status) table_destroy(t);
  }
  sqlite3_finalize(found);
  sqlite3_close(db);
  return status;
}

/* The table is no file that others could read: what stands for it in a plan is a source of the backend. */
static trn_status open_table(void *self, trn_session *session, trn_table *table, trn_source **out,
                             struct ArrowSchema *schema, trn_error **error) {
  (void)self, (void)session;
  trn_status status = embed_schema_copy(trn_table_get_info(table)->schema, schema);
  if (!status && (status = embed_source_create(out))) schema->release(schema);
  return status ? trn_error_set(error, status, NULL, "out of memory") : TRN_OK;
}

static void destroy(void *self) {
  (void)self;
}

trn_status embed_catalog_create(embed *e, trn_catalog **out) {
  static const trn_catalog_ops ops = {.struct_size = sizeof ops,
                                      .list_databases = list_databases,
                                      .list_tables = list_tables,
                                      .get_table = get_table,
                                      .open_table = open_table,
                                      .destroy = destroy};
  return trn_catalog_create(&ops, e, TRN_DEFAULT_CATALOG, out);
}
