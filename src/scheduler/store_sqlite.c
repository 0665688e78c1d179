/* The job store's driver for SQLite: one connection, one thread at a time; other processes by WAL. */
#include <sqlite3.h>
#include <stdio.h>

#include "scheduler/store_sql.h"

enum { LOCK_MS = 30000, COLUMNS_MAX = 32 };

typedef struct sqlite_db {
  pthread_mutex_t mu; /* from begin to end */
  sqlite3 *db;
  atomic_uint_least64_t steps;
} sqlite_db;

static trn_status failed(sqlite_db *d, int code, trn_error **error) {
  const char *text = d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(code);
  switch (code & 0xff) {
  case SQLITE_NOMEM: return trn__no_memory(error);
  case SQLITE_FULL: return trn__sql_failed(error, TRN_RESOURCE_EXHAUSTED, text);
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return trn__sql_failed(error, TRN_UNAVAILABLE, text);
  case SQLITE_CANTOPEN:
  case SQLITE_READONLY:
  case SQLITE_PERM: return trn__sql_failed(error, TRN_PERMISSION_DENIED, text);
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return trn__sql_failed(error, TRN_DATA_LOSS, text);
  /* A transaction that a failing disk ended may or may not be there. */
  case SQLITE_IOERR: return trn__sql_failed(error, TRN_UNAVAILABLE, text);
  default: return trn__sql_failed(error, TRN_INTERNAL, text);
  }
}

static int exec(sqlite_db *d, const char *sql) {
  return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

static trn_status begin(void *self, bool writes, trn_error **error) {
  sqlite_db *d = self;
  pthread_mutex_lock(&d->mu);
  int code = writes ? exec(d, "BEGIN IMMEDIATE") : SQLITE_OK;
  if (code == SQLITE_OK) return TRN_OK;
  trn_status status = failed(d, code, error);
  pthread_mutex_unlock(&d->mu);
  return status;
}

static trn_status end(void *self, bool writes, trn_status status, trn_error **error) {
  sqlite_db *d = self;
  if (writes && !status) {
    int code = exec(d, "COMMIT");
    if (code != SQLITE_OK) status = failed(d, code, error);
  }
  if (writes && status && !sqlite3_get_autocommit(d->db)) exec(d, "ROLLBACK");
  pthread_mutex_unlock(&d->mu);
  return status;
}

static int bind(sqlite3_stmt *statement, const trn_sql_value *values, size_t count) {
  int code = SQLITE_OK;
  for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
    const trn_sql_value *v = &values[i];
    int at = (int)i + 1;
    if (v->kind == TRN_SQL_INT) code = sqlite3_bind_int64(statement, at, v->number);
    if (v->kind == TRN_SQL_TEXT)
      code = sqlite3_bind_text64(statement, at, v->data, v->size, SQLITE_STATIC, SQLITE_UTF8);
    if (v->kind == TRN_SQL_BYTES) code = sqlite3_bind_blob64(statement, at, v->data, v->size, SQLITE_STATIC);
  }
  return code;
}

static bool tell(sqlite3_stmt *statement, const char *kinds, trn_sql_row row, void *user) {
  trn_sql_value values[COLUMNS_MAX];
  size_t count = strnlen(kinds, COLUMNS_MAX);
  for (size_t i = 0; i < count; i++) {
    values[i] = (trn_sql_value){0};
    if (sqlite3_column_type(statement, (int)i) == SQLITE_NULL) continue;
    values[i].kind = kinds[i] == 'i' ? TRN_SQL_INT : kinds[i] == 't' ? TRN_SQL_TEXT : TRN_SQL_BYTES;
    if (kinds[i] == 'i') values[i].number = sqlite3_column_int64(statement, (int)i);
    if (kinds[i] == 't') values[i].data = sqlite3_column_text(statement, (int)i);
    if (kinds[i] == 'b') values[i].data = sqlite3_column_blob(statement, (int)i);
    if (kinds[i] != 'i') values[i].size = (size_t)sqlite3_column_bytes(statement, (int)i);
    if (kinds[i] != 'i' && !values[i].data) values[i].data = ""; /* nothing, but not NULL */
  }
  return row(user, values, count);
}

static trn_status run(void *self, const char *sql, const trn_sql_value *parameters, size_t count, const char *kinds,
                      trn_sql_row row, void *user, int64_t *changed, trn_error **error) {
  sqlite_db *d = self;
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(d->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) code = bind(statement, parameters, count);
  if (code == SQLITE_OK)
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
      if (!row || !tell(statement, kinds, row, user)) break;
  trn_status status = TRN_OK;
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    bool is_taken = code == SQLITE_CONSTRAINT_PRIMARYKEY || code == SQLITE_CONSTRAINT_UNIQUE;
    status = is_taken ? trn__sql_failed(error, TRN_ALREADY_EXISTS, sqlite3_errmsg(d->db)) : failed(d, code, error);
  }
  if (changed) *changed = status ? 0 : sqlite3_changes64(d->db);
  if (statement) atomic_fetch_add(&d->steps, (uint64_t)sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0));
  sqlite3_finalize(statement);
  return status;
}

static void destroy(void *self) {
  sqlite_db *d = self;
  sqlite3_close(d->db);
  pthread_mutex_destroy(&d->mu);
  free(d);
}

static const trn_sql_driver driver = {.bytes_type = "BLOB",
                                      .now = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
                                      .binary = "",
                                      .begin = begin,
                                      .end = end,
                                      .run = run,
                                      .destroy = destroy};

trn_status trn_sqlite_job_store_open(const char *path, trn_job_store **out, trn_error **error) {
  *out = NULL;
  sqlite_db *d = calloc(1, sizeof *d);
  if (!d) return trn__no_memory(error);
  pthread_mutex_init(&d->mu, NULL);
  atomic_init(&d->steps, 0);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int code = sqlite3_open_v2(path ? path : ":memory:", &d->db, flags, NULL);
  if (code == SQLITE_OK) code = sqlite3_busy_timeout(d->db, LOCK_MS);
  /* FULL: what was committed stays committed when the power fails. */
  if (code == SQLITE_OK && path) code = exec(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  if (code == SQLITE_OK) return trn__sql_job_store_create(&driver, d, out, error);
  trn_status status = failed(d, code, error);
  destroy(d);
  return status;
}

uint64_t trn__sqlite_job_store_steps(trn_job_store *store) {
  void *self = NULL;
  trn_job_store_get_ops(store, &self);
  sqlite_db *d = trn__sql_job_store_driver(self);
  return atomic_load(&d->steps);
}
