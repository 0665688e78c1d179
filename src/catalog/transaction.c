/* Transactions of a session over a warehouse: a connection of its own to catalog.sqlite, whose transaction spans the
 * session's statements. It reads the snapshot of its first statement and its own changes; others see nothing of them before
 * the commit, which is one commit of SQLite. Who writes to a snapshot that is no longer the newest is told to begin again
 * (ABORTED), so transactions are serializable. Savepoints are SQLite's.
 *
 *   _t-<uuid>/_w-<uuid>/...   the files that a transaction wrote; they stay there when it commits
 *   _t-<uuid>/owner           the process, while it has not: what a dead process left is swept when the warehouse is opened
 *
 * A version number that was seen inside of a transaction never comes again, also when that is rolled back: caches keep
 * results by it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/warehouse.h"
#include "core/query.h"

enum { VIEW_BUSY_MS = 1000 };

static trn_status run(trn_warehouse *w, trn_error **error, const char *sql) { return trn__sql_run(w, error, sql, ""); }

/* ---- the warehouse in memory moves to a file: SQLite's memory has one connection ---- */

/* locks: mu held */
static trn_status move_to_file(trn_warehouse *w, trn_error **error) {
  if (!w->in_memory || w->in_file) return TRN_OK;
  trn_strbuf path = {0};
  sqlite3 *db = NULL;
  const char *directory = trn__warehouse_directory(w, error);
  if (!directory) return TRN_RESOURCE_EXHAUSTED;
  trn__strbuf_printf(&path, "%s/catalog.sqlite", directory);
  trn_status status = path.failed ? trn__no_memory(error) : trn__sql_run(w, error, "VACUUM INTO ?", "s", path.data);
  if (!status && sqlite3_open_v2(path.data, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL))
    status = trn__sql_error(w, SQLITE_CANTOPEN, error);
  trn__strbuf_finish(&path);
  if (status) {
    sqlite3_close(db);
    return status;
  }
  sqlite3_close(w->db);
  w->db = db;
  w->in_file = true;
  sqlite3_busy_timeout(db, TRN_WAREHOUSE_BUSY_MS);
  status = run(w, error, "PRAGMA journal_mode = WAL");
  return status ? status : run(w, error, "PRAGMA synchronous = OFF");
}

/* ---- views ---- */

static void view_free(trn_warehouse *view) {
  sqlite3_close(view->db);
  pthread_mutex_destroy(&view->mu);
  free(view->directory), free(view->name), free(view->files);
  trn__warehouse_unref(view->base);
  free(view);
}

/* The last reference: the transaction is over, or its session is gone. */
void trn__transaction_free(trn_warehouse *view) {
  if (!view->is_ended) trn__transaction_end(view->base, view, false, NULL);
  view_free(view);
}

static trn_status open_view(trn_warehouse *view, trn_error **error) {
  trn_warehouse *base = view->base;
  pthread_mutex_lock(&base->mu);
  trn_status status = move_to_file(base, error);
  if (!status && !(view->directory = strdup(base->directory))) status = trn__no_memory(error);
  pthread_mutex_unlock(&base->mu);
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, "%s/catalog.sqlite", view->directory ? view->directory : "");
  if (!status && path.failed) status = trn__no_memory(error);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (!status && sqlite3_open_v2(path.data, &view->db, flags, NULL)) status = trn__sql_error(view, SQLITE_CANTOPEN, error);
  trn__strbuf_finish(&path);
  if (status) return status;
  sqlite3_busy_timeout(view->db, VIEW_BUSY_MS);
  return run(view, error, base->in_memory ? "PRAGMA synchronous = OFF" : "PRAGMA synchronous = FULL");
}

trn_status trn__transaction_begin(void *self, trn_session *session, void **out, trn_error **error) {
  trn_warehouse *base = self, *view = calloc(1, sizeof *view);
  if (!view) return trn__no_memory(error);
  view->session = session;
  atomic_init(&view->refs, 1);
  pthread_mutex_init(&view->mu, NULL);
  view->base = trn__warehouse_ref(base);
  view->in_memory = base->in_memory;
  view->name = strdup(base->name);
  view->process_file = -1;
  trn__uuid4(view->process); /* of the transaction: its directory */
  pthread_mutex_lock(&base->pin_mu);
  bool ok = view->name && base->transactions.count < TRN_WAREHOUSE_TRANSACTIONS_MAX && trn__vec_push(&base->transactions, view);
  pthread_mutex_unlock(&base->pin_mu);
  if (ok) {
    *out = view;
    return TRN_OK;
  }
  view_free(view);
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                       "More than TRN_WAREHOUSE_TRANSACTIONS_MAX (%u) transactions, or no memory for one",
                       TRN_WAREHOUSE_TRANSACTIONS_MAX);
}

trn_warehouse *trn__transaction_view(trn_warehouse *w, trn_session *session, bool *is_over) {
  trn_catalog *catalog = NULL;
  *is_over = false;
  if (w->base) return trn__warehouse_ref(w); /* a write of the transaction ends in it */
  void *state = session ? trn__session_look_at_transaction(session, &catalog, is_over) : NULL;
  trn_warehouse *found = NULL;
  if (!state) return trn__warehouse_ref(w);
  pthread_mutex_lock(&w->pin_mu);
  for (size_t i = 0; i < w->transactions.count && !found; i++)
    if (w->transactions.items[i] == state && ((trn_warehouse *)state)->session == session) found = trn__warehouse_ref(state);
  pthread_mutex_unlock(&w->pin_mu);
  *is_over = !found && strcmp(trn_catalog_name(catalog), w->name) == 0; /* else it is another catalog's */
  trn_catalog_unref(catalog);
  return found ? found : trn__warehouse_ref(w);
}

/* ---- statements in it. locks: the view's mu held ---- */

/* The first statement fixes what is read: nothing of that is swept before the end. */
static trn_status start(trn_warehouse *view, trn_error **error) {
  uint64_t sequence = 0;
  bool is_before = true;
  trn_status status = view->db ? TRN_OK : open_view(view, error);
  if (status) return status;
  trn__pin_before(view);
  status = run(view, error, "BEGIN");
  if (!status) status = trn__sql_sequence(view, false, &sequence, error);
  if (!status) status = run(view, error, "SAVEPOINT trn_start");
  if (!status) {
    is_before = false;
    if (!trn__pin_add(view, sequence)) status = trn__no_memory(error);
  }
  if (is_before) trn__pin_cancel(view);
  if (status) {
    if (!sqlite3_get_autocommit(view->db)) run(view, NULL, "ROLLBACK");
    return status;
  }
  view->pinned = view->sequence = sequence;
  view->is_begun = true;
  return TRN_OK;
}

trn_status trn__transaction_enter(trn_warehouse *view, trn_error **error) {
  if (view->is_ended) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The transaction is over");
  trn_status status = view->is_begun ? TRN_OK : start(view, error);
  return status ? status : run(view, error, "SAVEPOINT trn_statement");
}

trn_status trn__transaction_leave(trn_warehouse *view, uint64_t sequence, trn_status status, trn_error **error) {
  if (sequence > view->sequence) view->sequence = sequence;
  if (!status) status = run(view, error, "RELEASE trn_statement");
  if (status && !sqlite3_get_autocommit(view->db)) {
    run(view, NULL, "ROLLBACK TO trn_statement");
    run(view, NULL, "RELEASE trn_statement");
  }
  view->has_written = sqlite3_txn_state(view->db, NULL) == SQLITE_TXN_WRITE;
  return status;
}

/* Numbers that were seen stay behind. */
static trn_status keep_numbers(trn_warehouse *view, trn_error **error) {
  return trn__sql_run(view, error, "UPDATE state SET sequence = max(sequence, ?)", "i", (int64_t)view->sequence);
}

/* Where a write of the transaction puts its files. NULL: `error` says why. In the arena. locks: mu held */
const char *trn__transaction_directory(trn_warehouse *view, trn_arena *arena, trn_error **error) {
  if (!view->files) {
    trn_strbuf path = {0};
    trn__strbuf_printf(&path, "%s/_t-%s", view->directory, view->process);
    if (!path.failed && mkdir(path.data, 0777) != 0) {
      trn_error_set(error, errno == ENOSPC ? TRN_RESOURCE_EXHAUSTED : TRN_PERMISSION_DENIED, NULL,
                    "The directory %s cannot be made: %s", path.data, strerrordesc_np(errno));
      trn__strbuf_finish(&path);
      return NULL;
    }
    if (path.failed) {
      trn__strbuf_finish(&path);
      trn__no_memory(error);
      return NULL;
    }
    view->files = path.data;
    trn_strbuf owner = {0};
    trn__strbuf_printf(&owner, "%s/owner", view->files);
    int file = owner.failed ? -1 : open(owner.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = file >= 0 && write(file, view->base->process, TRN_UUID_SIZE - 1) == TRN_UUID_SIZE - 1;
    if (file >= 0) close(file);
    trn__strbuf_finish(&owner);
    if (!ok) {
      trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "Nothing can be written to the warehouse %s", view->directory);
      return NULL;
    }
  }
  const char *copy = trn__arena_strdup(arena, view->files);
  if (!copy) trn__no_memory(error);
  return copy;
}

/* ---- the end ---- */

static trn_status commit(trn_warehouse *view, trn_error **error) {
  trn_status status = run(view, error, "COMMIT");
  if (status && !sqlite3_get_autocommit(view->db)) run(view, NULL, "ROLLBACK");
  return status;
}

static void roll_back(trn_warehouse *view) {
  trn_status status = TRN_OK;
  if (view->has_written) { /* in the same transaction, so that nobody uses the numbers meanwhile */
    status = run(view, NULL, "ROLLBACK TO trn_start");
    if (!status) status = keep_numbers(view, NULL);
    if (!status) status = run(view, NULL, "COMMIT");
  }
  if (status || !view->has_written) run(view, NULL, "ROLLBACK");
}

static void forget_owner(const trn_warehouse *view) {
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, "%s/owner", view->files);
  if (!path.failed) unlink(path.data);
  rmdir(view->files); /* nothing was written, or all of it was dropped */
  trn__strbuf_finish(&path);
}

trn_status trn__transaction_end(void *self, void *state, bool is_commit, trn_error **error) {
  trn_warehouse *base = self, *view = state;
  pthread_mutex_lock(&base->pin_mu);
  for (size_t i = 0; i < base->transactions.count; i++)
    if (base->transactions.items[i] == view) base->transactions.items[i--] = base->transactions.items[--base->transactions.count];
  pthread_mutex_unlock(&base->pin_mu);
  pthread_mutex_lock(&view->mu);
  bool was_ended = view->is_ended, was_begun = view->is_begun;
  trn_status status = TRN_OK;
  if (!was_ended && was_begun) {
    if (is_commit) status = commit(view, error);
    else roll_back(view);
  }
  view->is_ended = true;
  bool is_kept = is_commit && !status;
  if (view->files && is_kept) forget_owner(view);
  else if (view->files) trn__remove_all(view->files);
  pthread_mutex_unlock(&view->mu);
  if (was_ended) return TRN_OK;
  if (was_begun) trn__pin_remove(view, view->pinned);
  trn__turn_end(view);
  if (is_kept && view->has_written) trn__sweep(base);
  return status;
}

void trn__transaction_release(void *self, void *state) {
  (void)self;
  trn__warehouse_unref(state);
}

/* ---- savepoints ---- */

static trn_status named(trn_warehouse *view, const char *what, const char *name, trn_error **error) {
  trn_strbuf sql = {0};
  trn__strbuf_printf(&sql, "%s \"s_", what);
  for (const char *c = name; *c; c++) {
    if (*c == '"') trn__strbuf_putc(&sql, '"');
    trn__strbuf_putc(&sql, *c);
  }
  trn__strbuf_putc(&sql, '"');
  trn_status status = sql.failed ? trn__no_memory(error) : run(view, error, sql.data);
  trn__strbuf_finish(&sql);
  return status;
}

trn_status trn__transaction_savepoint(void *self, void *state, trn_savepoint_action action, const char *name, trn_error **error) {
  static const char *const what[] = {"SAVEPOINT", "RELEASE", "ROLLBACK TO"};
  trn_warehouse *view = state;
  (void)self;
  pthread_mutex_lock(&view->mu);
  trn_status status = trn__transaction_enter(view, error);
  if (!status) {
    run(view, NULL, "RELEASE trn_statement"); /* a savepoint outlives the statement that makes it */
    status = named(view, what[action], name, error);
    if (!status && action == TRN_SAVEPOINT_ROLLBACK && view->has_written) status = keep_numbers(view, error);
  }
  pthread_mutex_unlock(&view->mu);
  return status;
}

/* ---- what dead processes left ---- */

/* Whether files of the directory are listed: the commit was the last thing that the process did. */
static bool is_listed(trn_warehouse *w, const char *name) {
  sqlite3_stmt *statement = NULL;
  bool found = true;
  trn_strbuf prefix = {0};
  trn__strbuf_printf(&prefix, "./%s/", name);
  int64_t size = (int64_t)prefix.size;
  pthread_mutex_lock(&w->mu);
  trn_status status = prefix.failed ? TRN_RESOURCE_EXHAUSTED
                                    : trn__sql_prepare(w, &statement, NULL,
                                                       "SELECT 1 FROM files WHERE substr(path, 1, ?) = ? UNION ALL SELECT 1 "
                                                       "FROM garbage WHERE substr(path, 1, ?) = ? LIMIT 1",
                                                       "isis", size, prefix.data, size, prefix.data);
  if (!status) status = trn__sql_step(w, statement, &found, NULL);
  sqlite3_finalize(statement);
  pthread_mutex_unlock(&w->mu);
  trn__strbuf_finish(&prefix);
  return status || found;
}

static void sweep_one(trn_warehouse *w, const char *name, const trn_map *alive) {
  trn_strbuf path = {0}, owner = {0};
  char id[TRN_UUID_SIZE] = "";
  trn__strbuf_printf(&path, "%s/%s", w->directory, name);
  trn__strbuf_printf(&owner, "%s/%s/owner", w->directory, name);
  int file = path.failed || owner.failed ? -1 : open(owner.data, O_RDONLY | O_CLOEXEC);
  ssize_t got = file >= 0 ? read(file, id, TRN_UUID_SIZE - 1) : -1;
  if (file >= 0) close(file);
  bool is_known = got == TRN_UUID_SIZE - 1 && trn__uuid_is_valid(id);
  if (is_known && !trn__map_get(alive, id, strlen(id)) && !trn__process_is_alive(w, id)) { /* it may have begun since */
    if (is_listed(w, name)) unlink(owner.data);
    else trn__remove_all(path.data);
  }
  trn__strbuf_finish(&path), trn__strbuf_finish(&owner);
}

void trn__transactions_sweep(trn_warehouse *w, const trn_map *alive) {
  DIR *stream = opendir(w->directory);
  for (struct dirent *e; stream && (e = readdir(stream));)
    if (strncmp(e->d_name, "_t-", 3) == 0) sweep_one(w, e->d_name, alive);
  if (stream) closedir(stream);
}
