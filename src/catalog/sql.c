/* Statements of SQLite, transactions, what its codes mean. locks: the warehouse's mu is held by every caller */
#include <stdio.h>

#include "catalog/warehouse.h"

trn_status trn__sql_error(trn_warehouse *w, int code, trn_error **error) {
  const char *what = w->in_memory ? "the catalog in memory" : w->directory;
  switch (code & 0xFF) {
  case SQLITE_NOMEM: return trn__no_memory(error);
  case SQLITE_FULL:
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No space is left for the warehouse %s", what);
  case SQLITE_BUSY:
    if (code == SQLITE_BUSY_SNAPSHOT)
      return trn_error_set(error, TRN_ABORTED, NULL,
                           "The warehouse %s was changed by others since the transaction began: begin it again", what);
    /* fall through */
  case SQLITE_LOCKED:
    return trn_error_set(error, TRN_UNAVAILABLE, NULL, "The warehouse %s is busy: another process is writing", what);
  case SQLITE_READONLY:
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "The warehouse %s cannot be opened or written", what);
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT:
    return trn_error_set(error, TRN_DATA_LOSS, NULL, "The warehouse %s is damaged: catalog.sqlite is no valid database",
                         what);
  case SQLITE_IOERR:
    /* A file system that is full, or a limit on the size of files, comes as a failed write. */
    return trn_error_set(error, (code >> 8) == (SQLITE_IOERR_WRITE >> 8) ? TRN_RESOURCE_EXHAUSTED : TRN_INTERNAL, NULL,
                         "The warehouse %s cannot be read or written (input/output error %d)", what, code >> 8);
  default: return trn_error_set(error, TRN_INTERNAL, NULL, "The warehouse %s failed with code %d", what, code);
  }
}

static int bind_all(sqlite3_stmt *statement, const char *types, va_list args) {
  int code = SQLITE_OK;
  for (int i = 1; *types && code == SQLITE_OK; i++, types++) {
    if (*types == 's') {
      const char *text = va_arg(args, const char *);
      code = text ? sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT) : sqlite3_bind_null(statement, i);
    } else if (*types == 'i') {
      code = sqlite3_bind_int64(statement, i, va_arg(args, int64_t));
    } else {
      const void *data = va_arg(args, const void *);
      size_t size = va_arg(args, size_t);
      code = sqlite3_bind_blob64(statement, i, data ? data : "", size, SQLITE_TRANSIENT);
    }
  }
  return code;
}

static trn_status prepare(trn_warehouse *w, sqlite3_stmt **out, trn_error **error, const char *sql, const char *types,
                          va_list args) {
  int code = sqlite3_prepare_v2(w->db, sql, -1, out, NULL);
  if (code == SQLITE_OK) code = bind_all(*out, types, args);
  if (code == SQLITE_OK) return TRN_OK;
  sqlite3_finalize(*out);
  *out = NULL;
  return trn__sql_error(w, code, error);
}

trn_status trn__sql_prepare(trn_warehouse *w, sqlite3_stmt **out, trn_error **error, const char *sql, const char *types,
                            ...) {
  va_list args;
  *out = NULL;
  va_start(args, types);
  trn_status status = prepare(w, out, error, sql, types, args);
  va_end(args);
  return status;
}

trn_status trn__sql_step(trn_warehouse *w, sqlite3_stmt *statement, bool *found, trn_error **error) {
  int code = sqlite3_step(statement);
  *found = code == SQLITE_ROW;
  return code == SQLITE_ROW || code == SQLITE_DONE ? TRN_OK : trn__sql_error(w, sqlite3_extended_errcode(w->db), error);
}

trn_status trn__sql_run(trn_warehouse *w, trn_error **error, const char *sql, const char *types, ...) {
  sqlite3_stmt *statement = NULL;
  va_list args;
  bool found = true;
  va_start(args, types);
  trn_status status = prepare(w, &statement, error, sql, types, args);
  va_end(args);
  while (!status && found) status = trn__sql_step(w, statement, &found, error);
  sqlite3_finalize(statement);
  return status;
}

const char *trn__sql_column(sqlite3_stmt *statement, int column) {
  return (const char *)sqlite3_column_text(statement, column);
}

trn_status trn__sql_begin(trn_warehouse *w, bool writes, trn_error **error) {
  return trn__sql_run(w, error, writes ? "BEGIN IMMEDIATE" : "BEGIN", "");
}

trn_status trn__sql_end(trn_warehouse *w, trn_status status, trn_error **error) {
  if (!status) status = trn__sql_run(w, error, "COMMIT", "");
  if (status && !sqlite3_get_autocommit(w->db)) trn__sql_run(w, NULL, "ROLLBACK", "");
  return status;
}

trn_status trn__sql_sequence(trn_warehouse *w, bool grow, uint64_t *out, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  bool found = false;
  trn_status status = grow ? trn__sql_run(w, error, "UPDATE state SET sequence = sequence + 1", "") : TRN_OK;
  if (!status) status = trn__sql_prepare(w, &statement, error, "SELECT sequence FROM state", "");
  if (!status) status = trn__sql_step(w, statement, &found, error);
  if (!status && !found) status = trn__sql_error(w, SQLITE_CORRUPT, error);
  if (!status) *out = (uint64_t)sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return status;
}

/* ---- errors with names ---- */

static void quote(trn_strbuf *out, const char *name) {
  trn__strbuf_putc(out, '`');
  for (; *name; name++) {
    if (*name == '`') trn__strbuf_putc(out, '`');
    trn__strbuf_putc(out, *name);
  }
  trn__strbuf_putc(out, '`');
}

trn_status trn__named_error(trn_warehouse *w, trn_status status, const char *condition, const char *key,
                            const char *database, const char *name, trn_error **error) {
  trn_strbuf text = {0};
  bool whole = strcmp(condition, "SCHEMA_ALREADY_EXISTS") != 0 && strcmp(condition, "SCHEMA_NOT_EMPTY") != 0;
  if (whole) quote(&text, w->name), trn__strbuf_putc(&text, '.');
  quote(&text, database);
  if (name) trn__strbuf_putc(&text, '.'), quote(&text, name);
  if (text.failed) {
    trn__strbuf_finish(&text);
    return trn__no_memory(error);
  }
  const trn_error_param param = {key, text.data};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = status,
                               .condition = condition,
                               .params = &param,
                               .param_count = 1};
  if (error) *error = trn_error_create(&spec);
  trn__strbuf_finish(&text);
  return status;
}

trn_status trn__no_database(trn_warehouse *w, const char *database, trn_error **error) {
  return trn__named_error(w, TRN_NOT_FOUND, "SCHEMA_NOT_FOUND", "schemaName", database, NULL, error);
}

trn_status trn__no_table(trn_warehouse *w, const char *database, const char *name, trn_error **error) {
  return trn__named_error(w, TRN_NOT_FOUND, "TABLE_OR_VIEW_NOT_FOUND", "relationName", database, name, error);
}
