/* Opening a warehouse; its databases. */
#include "catalog/warehouse.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT_VERSION = 1, LOCK_MS = 30000 };

static const char schema_sql[] =
    "CREATE TABLE IF NOT EXISTS state(format INTEGER NOT NULL, sequence INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS databases(name TEXT PRIMARY KEY, comment TEXT, owner TEXT, location TEXT,"
    " properties BLOB, created_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS tables(id INTEGER PRIMARY KEY AUTOINCREMENT, database TEXT NOT NULL, name TEXT NOT NULL,"
    " identity TEXT NOT NULL, version INTEGER NOT NULL, definition_version INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " format TEXT, location TEXT, comment TEXT, definition BLOB NOT NULL, row_count INTEGER NOT NULL,"
    " byte_count INTEGER NOT NULL, created_ms INTEGER NOT NULL, UNIQUE(database, name));"
    "CREATE TABLE IF NOT EXISTS partitions(table_id INTEGER NOT NULL, directory TEXT NOT NULL, location TEXT,"
    " PRIMARY KEY(table_id, directory)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS files(id INTEGER PRIMARY KEY AUTOINCREMENT, table_id INTEGER NOT NULL,"
    " partition TEXT NOT NULL, path TEXT NOT NULL, row_count INTEGER NOT NULL, byte_count INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS files_of_table ON files(table_id, partition);"
    "CREATE TABLE IF NOT EXISTS garbage(path TEXT PRIMARY KEY, sequence INTEGER NOT NULL, at_ms INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS writes(directory TEXT PRIMARY KEY, process TEXT NOT NULL) WITHOUT ROWID;";

/* ---- life ---- */

trn_warehouse *trn__warehouse_ref(trn_warehouse *w) {
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  return w;
}

void trn__warehouse_unref(trn_warehouse *w) {
  if (!w || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  if (w->base) {
    trn__transaction_free(w);
    return;
  }
  if (w->db && !w->in_memory) trn__sweep(w);
  sqlite3_close(w->db);
  if (w->in_memory && w->directory) trn__remove_all(w->directory);
  trn__process_close(w);
  pthread_mutex_destroy(&w->mu);
  pthread_mutex_destroy(&w->pin_mu);
  pthread_mutex_destroy(&w->turn_mu);
  pthread_cond_destroy(&w->turn);
  trn__vec_finish(&w->transactions);
  free(w->pins);
  free(w->directory), free(w->name);
  free(w);
}

static void destroy(void *self) {
  trn__warehouse_unref(self);
}

const char *trn__warehouse_directory(trn_warehouse *w, trn_error **error) {
  if (w->directory) return w->directory;
  const char *base = getenv("TMPDIR");
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, "%s/trunnion-XXXXXX", base && *base == '/' ? base : "/tmp");
  if (path.failed)
    trn__no_memory(error);
  else if (!mkdtemp(path.data))
    trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "No directory for tables can be made at %s", path.data);
  else
    return w->directory = path.data;
  trn__strbuf_finish(&path);
  return NULL;
}

/* ---- opening ---- */

static trn_status make_directory(const char *given, char **out, trn_error **error) {
  if (mkdir(given, 0777) != 0 && errno != EEXIST)
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "The warehouse directory %s cannot be made: %s", given,
                         strerrordesc_np(errno));
  *out = realpath(given, NULL);
  if (!*out)
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "The warehouse directory %s: %s", given, strerrordesc_np(errno));
  struct stat info;
  if (stat(*out, &info) == 0 && S_ISDIR(info.st_mode)) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The warehouse %s is no directory", given);
}

static trn_status exec(trn_warehouse *w, const char *sql, trn_error **error) {
  int code = sqlite3_exec(w->db, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? TRN_OK : trn__sql_error(w, sqlite3_extended_errcode(w->db), error);
}

static trn_status check_format(trn_warehouse *w, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool found = false;
  trn_status status = trn__sql_prepare(w, &statement, error, "SELECT format FROM state", "");
  if (!status) status = trn__sql_step(w, statement, &found, error);
  int64_t format = found ? sqlite3_column_int64(statement, 0) : FORMAT_VERSION;
  sqlite3_finalize(statement);
  if (!status && format > FORMAT_VERSION)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The warehouse %s was written by a newer version",
                           w->directory);
  if (!status && !found)
    status = trn__sql_run(w, error, "INSERT INTO state VALUES(?, 1)", "i", (int64_t)FORMAT_VERSION);
  return status;
}

static trn_status make_schema(trn_warehouse *w, trn_error **error) {
  trn_status status = trn__sql_begin(w, true, error);
  if (status) return status;
  status = exec(w, schema_sql, error);
  if (!status) status = check_format(w, error);
  if (!status)
    status = trn__sql_run(w, error, "INSERT OR IGNORE INTO databases VALUES(?, 'default database', '', NULL, x'', ?)",
                          "si", TRN_DEFAULT_DATABASE, trn__wall_ms());
  return trn__sql_end(w, status, error);
}

static trn_status open_db(trn_warehouse *w, trn_error **error) {
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, w->in_memory ? ":memory:%s" : "%s/catalog.sqlite", w->in_memory ? "" : w->directory);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (path.failed) {
    trn__strbuf_finish(&path);
    return trn__no_memory(error);
  }
  int code = sqlite3_open_v2(path.data, &w->db, flags, NULL);
  trn__strbuf_finish(&path);
  if (code != SQLITE_OK) return trn__sql_error(w, code, error);
  sqlite3_busy_timeout(w->db, w->lock_ms > INT_MAX ? INT_MAX : (int)w->lock_ms);
  /* FULL: what was committed stays committed when the power fails. */
  trn_status status = w->in_memory ? TRN_OK : exec(w, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;", error);
  if (!status) status = make_schema(w, error);
  sqlite3_busy_timeout(w->db, TRN_WAREHOUSE_BUSY_MS); /* who waits longer does so without the lock (change.c) */
  return status;
}

static trn_status create(const trn_warehouse_options *options, trn_warehouse **out, trn_error **error) {
  trn_warehouse *w = calloc(1, sizeof *w);
  if (!w) return trn__no_memory(error);
  atomic_init(&w->refs, 1);
  atomic_init(&w->own_oldest, UINT64_MAX);
  w->oldest = &w->own_oldest;
  w->process_file = -1;
  w->grace_ms = options->grace_ms;
  w->lock_ms = options->lock_ms ? options->lock_ms : LOCK_MS;
  w->in_memory = !options->directory;
  pthread_mutex_init(&w->mu, NULL);
  pthread_mutex_init(&w->pin_mu, NULL);
  pthread_mutex_init(&w->turn_mu, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->turn, &clock);
  pthread_condattr_destroy(&clock);
  w->name = strdup(options->name ? options->name : TRN_DEFAULT_CATALOG);
  *out = w;
  return w->name ? TRN_OK : trn__no_memory(error);
}

/* ---- databases ---- */

static trn_status find_database(trn_warehouse *w, const char *name, bool *found, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_status status = trn__sql_prepare(w, &statement, error, "SELECT 1 FROM databases WHERE name = ?", "s", name);
  if (!status) status = trn__sql_step(w, statement, found, error);
  sqlite3_finalize(statement);
  return status;
}

trn_status trn__database_check(trn_warehouse *w, const char *database, trn_error **error) {
  bool found = false;
  trn_status status = find_database(w, database, &found, error);
  return status || found ? status : trn__no_database(w, database, error);
}

static trn_status read_database(trn_arena *arena, sqlite3_stmt *s, trn_database_info *out, trn_error **error) {
  const char *texts[4];
  for (int i = 0; i < 4; i++) {
    const char *text = trn__sql_column(s, i);
    texts[i] = text ? trn__arena_strdup(arena, text) : NULL;
    if (text && !texts[i]) return trn__no_memory(error);
  }
  *out = (trn_database_info){.struct_size = sizeof *out,
                             .name = texts[0],
                             .comment = texts[1],
                             .owner = texts[2],
                             .location = texts[3],
                             .created_ms = sqlite3_column_int64(s, 5)};
  return trn__properties_decode(arena, sqlite3_column_blob(s, 4), (size_t)sqlite3_column_bytes(s, 4), &out->properties,
                                &out->property_count, error);
}

/* A location that was not chosen: below the warehouse, as Hive lays it out. */
static trn_status fill_location(trn_warehouse *w, trn_arena *arena, trn_database_info *info, trn_error **error) {
  if (info->location) return TRN_OK;
  const char *base = w->directory ? w->directory : "";
  bool is_default = strcmp(info->name, TRN_DEFAULT_DATABASE) == 0;
  info->location = is_default ? trn__arena_strdup(arena, base) : trn__arena_printf(arena, "%s/%s.db", base, info->name);
  return info->location ? TRN_OK : trn__no_memory(error);
}

static trn_status list_databases(void *self, trn_session *session, trn_each_database each, void *user,
                                 trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_vec found = {0};
  trn_change change;
  bool more = true;
  trn_status status = trn__change_begin(&change, self, session, false, error);
  if (status) return status;
  trn_arena *arena = trn__arena_ref(change.arena);
  status = trn__sql_prepare(change.w, &statement, error,
                            "SELECT name, comment, owner, location, properties, created_ms FROM databases ORDER BY name", "");
  while (!status && more) {
    status = trn__sql_step(change.w, statement, &more, error);
    if (status || !more) break;
    trn_database_info *info = TRN_NEW(arena, trn_database_info);
    if (!info || !trn__vec_push(&found, info)) status = trn__no_memory(error);
    if (!status) status = read_database(arena, statement, info, error);
    if (!status) status = fill_location(change.w, arena, info, error);
  }
  sqlite3_finalize(statement);
  status = trn__change_end(&change, status, error);
  for (size_t i = 0; !status && i < found.count; i++) each(user, found.items[i]);
  trn__vec_finish(&found);
  trn__arena_unref(arena);
  return status;
}

static trn_status create_database(void *self, trn_session *session, const trn_database_info *info, trn_error **error) {
  trn_strbuf properties = {0};
  trn_change change;
  bool found = false;
  trn__properties_encode(&properties, info->properties, info->property_count);
  trn_status status = properties.failed ? trn__no_memory(error) : trn__change_begin(&change, self, session, true, error);
  if (!status) {
    status = find_database(change.w, info->name, &found, error);
    if (!status && found)
      status = trn__named_error(change.w, TRN_ALREADY_EXISTS, "SCHEMA_ALREADY_EXISTS", "schemaName", info->name, NULL, error);
    if (!status)
      status = trn__sql_run(change.w, error, "INSERT INTO databases VALUES(?, ?, ?, ?, ?, ?)", "ssssbi", info->name,
                            info->comment, info->owner, info->location, properties.data, properties.size,
                            trn__wall_ms());
    status = trn__change_end(&change, status, error);
  }
  trn__strbuf_finish(&properties);
  return status;
}

static trn_status alter_database(void *self, trn_session *session, const trn_database_info *info, trn_error **error) {
  trn_strbuf properties = {0};
  trn_change change;
  trn__properties_encode(&properties, info->properties, info->property_count);
  trn_status status = properties.failed ? trn__no_memory(error) : trn__change_begin(&change, self, session, true, error);
  if (!status) {
    status = trn__database_check(change.w, info->name, error);
    if (!status)
      status = trn__sql_run(change.w, error, "UPDATE databases SET comment = ?, location = ?, properties = ? WHERE name = ?",
                            "ssbs", info->comment, info->location, properties.data, properties.size, info->name);
    status = trn__change_end(&change, status, error);
  }
  trn__strbuf_finish(&properties);
  return status;
}

/* locks: mu held, in a transaction */
static trn_status drop_tables_of(trn_warehouse *w, const char *name, bool cascade, uint64_t sequence,
                                 trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool more = true;
  trn_status status = trn__sql_prepare(w, &statement, error, "SELECT id FROM tables WHERE database = ?", "s", name);
  while (!status && more) {
    status = trn__sql_step(w, statement, &more, error);
    if (status || !more) break;
    if (!cascade)
      status = trn__named_error(w, TRN_FAILED_PRECONDITION, "SCHEMA_NOT_EMPTY", "schemaName", name, NULL, error);
    else
      status = trn__files_retire(w, sqlite3_column_int64(statement, 0), NULL, sequence, error);
    if (!status)
      status = trn__sql_run(w, error, "DELETE FROM partitions WHERE table_id = ?", "i",
                            sqlite3_column_int64(statement, 0));
  }
  sqlite3_finalize(statement);
  return status ? status : trn__sql_run(w, error, "DELETE FROM tables WHERE database = ?", "s", name);
}

static trn_status drop_database(void *self, trn_session *session, const char *name, bool cascade, trn_error **error) {
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  change.sweeps = true;
  status = trn__database_check(change.w, name, error);
  if (!status && strcmp(name, TRN_DEFAULT_DATABASE) == 0)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The database %s cannot be dropped", name);
  if (!status) status = drop_tables_of(change.w, name, cascade, change.sequence, error);
  if (!status) status = trn__sql_run(change.w, error, "DELETE FROM databases WHERE name = ?", "s", name);
  return trn__change_end(&change, status, error);
}

static const trn_catalog_ops warehouse_ops = {.struct_size = sizeof(trn_catalog_ops),
                                              .list_databases = list_databases,
                                              .create_database = create_database,
                                              .drop_database = drop_database,
                                              .alter_database = alter_database,
                                              .list_tables = trn__warehouse_list_tables,
                                              .get_table = trn__warehouse_get_table,
                                              .create_table = trn__warehouse_create_table,
                                              .drop_table = trn__warehouse_drop_table,
                                              .rename_table = trn__warehouse_rename_table,
                                              .alter_table = trn__warehouse_alter_table,
                                              .begin_write = trn__warehouse_begin_write,
                                              .truncate_table = trn__warehouse_truncate,
                                              .list_partitions = trn__warehouse_list_partitions,
                                              .add_partitions = trn__warehouse_add_partitions,
                                              .drop_partitions = trn__warehouse_drop_partitions,
                                              .destroy = destroy,
                                              .begin_transaction = trn__transaction_begin,
                                              .savepoint = trn__transaction_savepoint,
                                              .end_transaction = trn__transaction_end,
                                              .release_transaction = trn__transaction_release};

trn_status trn_warehouse_open(const trn_warehouse_options *given, trn_catalog **out, trn_error **error) {
  trn_warehouse_options options = {0};
  trn_warehouse *w = NULL;
  *out = NULL;
  memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
  trn_status status = create(&options, &w, error);
  if (!status && options.directory) status = make_directory(options.directory, &w->directory, error);
  if (!status) status = open_db(w, error);
  if (!status && !w->in_memory) status = trn__process_open(w, error);
  if (!status && !w->in_memory) trn__sweep_opened(w);
  if (!status && trn_catalog_create(&warehouse_ops, w, w->name, out)) status = trn__no_memory(error);
  if (status) trn__warehouse_unref(w);
  return status;
}
