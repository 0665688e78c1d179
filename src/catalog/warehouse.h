/* The warehouse: a catalog in a directory.
 *
 *   catalog.sqlite         what there is: databases, tables, partitions, and the files of every managed table
 *   <table>/_w-<uuid>/...  the files of one write. They are where they stay from the start; a table has them only once
 *                          the one transaction of the commit lists them. What no table lists is swept.
 *   _t-<uuid>/             the files of one transaction, likewise (transaction.c)
 *   _processes/<uuid>      a process that has the warehouse open: locked while it lives; holds the oldest snapshot in use
 *
 *   warehouse.c   opening, databases            sql.c          statements of SQLite, errors
 *   tables.c      tables and views              definition.c   trn_table_info <-> bytes
 *   writes.c      writes, truncation            partitions.c   partitions by their directories
 *   sweep.c       snapshots in use, leftovers   parquet.c      row counts out of footers
 *   change.c      the frame of every function of the catalog: lock, transaction, turn
 *   transaction.c transactions of sessions: views of the warehouse with a connection of their own
 *
 * Locks, outermost first: the turn of who writes (turn_mu is held for a moment only), `mu`, which guards a connection and is
 * held during a transaction of SQLite, never while calling out, `pin_mu`. */
#ifndef TRN_CATALOG_WAREHOUSE_H
#define TRN_CATALOG_WAREHOUSE_H
#include <pthread.h>
#include <sqlite3.h>
#include <trunnion/catalog.h>

#include "core/core.h"

#define TRN_NULL_PARTITION "__HIVE_DEFAULT_PARTITION__" /* "no value" in a directory name=value */

typedef struct trn_pin {
  uint64_t sequence;
  size_t count;
} trn_pin;

enum {
  TRN_WAREHOUSE_BUSY_MS = 100 /* how long SQLite waits for another process, with the lock held */
};

typedef struct trn_warehouse {
  atomic_size_t refs;
  /* Of a view: what one transaction sees. Its connection, lock, directory and names are its own, all else is the base's. */
  struct trn_warehouse *base; /* a reference; NULL: it is the warehouse itself */
  trn_session *session;       /* whose transaction it is; not a reference, only compared */
  bool is_begun, is_ended, has_written; /* guarded by mu */
  uint64_t pinned, sequence;            /* the snapshot's; the highest that was seen */
  char *files;                          /* the directory of its writes; NULL: none yet */

  sqlite3 *db;
  pthread_mutex_t mu;
  char *directory; /* absolute; NULL: in memory, until the first table has rows */
  bool in_memory;
  bool in_file; /* in memory, but for a file in the temporary directory */
  char *name;
  uint64_t grace_ms, lock_ms;
  pthread_mutex_t turn_mu;
  pthread_cond_t turn;
  struct trn_warehouse *writer; /* whose turn it is to write; guarded by turn_mu */
  trn_vec transactions;         /* views; guarded by pin_mu */
  char process[TRN_UUID_SIZE];
  int process_file; /* locked; -1: in memory */
  _Atomic(uint64_t) *oldest; /* mapped from the file, or `own_oldest` */
  _Atomic(uint64_t) own_oldest;
  pthread_mutex_t pin_mu;
  trn_pin *pins; /* in order of sequences; guarded by pin_mu */
  size_t pin_count, pin_capacity;
  uint64_t seen;      /* the highest sequence that was read */
  size_t reading;     /* snapshots that are about to be pinned; guarded by pin_mu, as these */
  uint64_t read_from; /* none of those is older */
} trn_warehouse;

trn_warehouse *trn__warehouse_ref(trn_warehouse *w);
void trn__warehouse_unref(trn_warehouse *w);
/* The directory; made when in memory. NULL: `error` says why. locks: mu held */
const char *trn__warehouse_directory(trn_warehouse *w, trn_error **error);

/* ---- change.c ---- */
/* A function of the catalog at work: `w` is the session's view, locked, in a transaction. */
typedef struct trn_change {
  trn_warehouse *w; /* one reference */
  trn_arena *arena;
  uint64_t sequence; /* of what writes */
  bool writes, is_open;
  bool sweeps; /* set by the function: files may be garbage after it */
} trn_change;
/* UNAVAILABLE: others write for too long; ABORTED: the session's transaction reads what is no longer the newest. Unless OK, there
 * is nothing to end. `session` may be NULL. locks: takes mu */
trn_status trn__change_begin(trn_change *change, trn_warehouse *w, trn_session *session, bool writes, trn_error **error);
/* Commits when `status` is OK, else rolls back; gives the status of all. */
trn_status trn__change_end(trn_change *change, trn_status status, trn_error **error);
void trn__turn_end(trn_warehouse *view);

/* ---- transaction.c ---- */
trn_status trn__transaction_begin(void *self, trn_session *session, void **out, trn_error **error);
trn_status trn__transaction_savepoint(void *self, void *state, trn_savepoint_action action, const char *name,
                                      trn_error **error);
trn_status trn__transaction_end(void *self, void *state, bool is_commit, trn_error **error);
void trn__transaction_release(void *self, void *state);
void trn__transaction_free(trn_warehouse *view);
/* What the session sees: a reference. *is_over: its transaction in this warehouse is, or is just being ended. */
trn_warehouse *trn__transaction_view(trn_warehouse *w, trn_session *session, bool *is_over);
/* A statement in it. locks: mu held */
trn_status trn__transaction_enter(trn_warehouse *view, trn_error **error);
trn_status trn__transaction_leave(trn_warehouse *view, uint64_t sequence, trn_status status, trn_error **error);
const char *trn__transaction_directory(trn_warehouse *view, trn_arena *arena, trn_error **error);
void trn__transactions_sweep(trn_warehouse *w, const trn_map *alive);

/* ---- sql.c: locks: mu held by the caller ---- */
/* What SQLite said, as an error. */
trn_status trn__sql_error(trn_warehouse *w, int code, trn_error **error);
/* `types`: a letter per argument: s text (const char *, may be NULL), i int64_t, b bytes (const void *, size_t). */
trn_status trn__sql_prepare(trn_warehouse *w, sqlite3_stmt **out, trn_error **error, const char *sql, const char *types,
                            ...);
trn_status trn__sql_run(trn_warehouse *w, trn_error **error, const char *sql, const char *types, ...);
/* One row? *found. Then the caller reads columns, and finalizes in either case. */
trn_status trn__sql_step(trn_warehouse *w, sqlite3_stmt *statement, bool *found, trn_error **error);
const char *trn__sql_column(sqlite3_stmt *statement, int column); /* NULL: null */
/* Transactions. `end` commits when `status` is OK, else rolls back; gives the status of all. */
trn_status trn__sql_begin(trn_warehouse *w, bool writes, trn_error **error);
trn_status trn__sql_end(trn_warehouse *w, trn_status status, trn_error **error);
/* The number of the transaction that is running: grows with each that writes. */
trn_status trn__sql_sequence(trn_warehouse *w, bool grow, uint64_t *out, trn_error **error);

/* Errors with a condition. `kind`: of names in messages. */
trn_status trn__no_database(trn_warehouse *w, const char *database, trn_error **error);
trn_status trn__no_table(trn_warehouse *w, const char *database, const char *name, trn_error **error);
trn_status trn__named_error(trn_warehouse *w, trn_status status, const char *condition, const char *key,
                            const char *database, const char *name, trn_error **error);

/* ---- definition.c ---- */
void trn__definition_encode(trn_strbuf *out, const trn_table_info *info);
/* Borrows nothing from `data`. DATA_LOSS. What has columns of its own in the table is not in it. */
trn_status trn__definition_decode(trn_arena *arena, const void *data, size_t size, trn_table_info *out,
                                  trn_error **error);
void trn__properties_encode(trn_strbuf *out, const trn_kv *properties, size_t count);
trn_status trn__properties_decode(trn_arena *arena, const void *data, size_t size, const trn_kv **out, size_t *count,
                                  trn_error **error);

/* ---- tables.c ---- */
typedef struct trn_table_row {
  int64_t id;
  trn_table_info info; /* in the arena */
  uint64_t definition_version;
} trn_table_row;
/* locks: mu held, in a transaction. NOT_FOUND with its condition; database too. */
trn_status trn__table_find(trn_warehouse *w, trn_arena *arena, const char *database, const char *name,
                           trn_table_row *out, trn_error **error);
trn_status trn__database_check(trn_warehouse *w, const char *database, trn_error **error);
/* Adds the row of a new table; `replace`: what is there goes. Gives its id. locks: mu held, in a transaction */
trn_status trn__table_insert(trn_warehouse *w, const trn_table_info *table, bool replace, uint64_t sequence, int64_t *id,
                             trn_error **error);
/* Its version grows, its numbers are what its files say. `definition`: that changed too. */
trn_status trn__table_touch(trn_warehouse *w, int64_t id, uint64_t sequence, bool definition, trn_error **error);
/* Where a managed table's files go. NULL: `error` says why. locks: mu held */
char *trn__table_location(trn_warehouse *w, trn_arena *arena, const char *database, const char *name, trn_error **error);
/* Paths are kept relative to the warehouse ("./x"), so that it can be moved. NULL: out of memory (or no path). */
const char *trn__path_inside(trn_warehouse *w, trn_arena *arena, const char *path);
const char *trn__path_outside(trn_warehouse *w, trn_arena *arena, const char *kept);
trn_status trn__warehouse_list_tables(void *self, trn_session *session, const char *database, bool with_schema,
                                      trn_each_table each, void *user, trn_error **error);
trn_status trn__warehouse_get_table(void *self, trn_session *session, const char *database, const char *name,
                                    trn_table **out, trn_error **error);
trn_status trn__warehouse_create_table(void *self, trn_session *session, const trn_table_info *table, bool replace,
                                       trn_error **error);
trn_status trn__warehouse_drop_table(void *self, trn_session *session, const char *database, const char *name, bool purge,
                                     trn_error **error);
trn_status trn__warehouse_rename_table(void *self, trn_session *session, const char *database, const char *name,
                                       const char *to_database, const char *to_name, trn_error **error);
trn_status trn__warehouse_alter_table(void *self, trn_session *session, const trn_table_info *table,
                                      uint64_t expected_version, trn_error **error);

/* ---- writes.c ---- */
trn_status trn__warehouse_begin_write(void *self, trn_session *session, const trn_write_request *request,
                                      trn_table_write **out, trn_error **error);
trn_status trn__warehouse_truncate(void *self, trn_session *session, const char *database, const char *name,
                                   const trn_kv *partition, size_t partition_count, trn_error **error);

/* ---- partitions.c ---- */
/* Appends "name=value", escaped as Hive does; `value` NULL: TRN_NULL_PARTITION. */
void trn__partition_level(trn_strbuf *out, const char *name, const char *value);
/* Takes %XX apart, of `size` bytes. Appends. */
void trn__partition_unescape(trn_strbuf *out, const char *text, size_t size);
/* The value of level `index` in "a=1/b=2" into `out` (cleared first); false: null. */
bool trn__partition_value(const char *directory, size_t index, trn_strbuf *out);
/* Whether a partition has the values (by names of partition columns; letters of either case). */
trn_status trn__partition_matches(const trn_table_info *table, const char *directory, const trn_kv *values, size_t count,
                                  bool *out, trn_error **error);
trn_status trn__warehouse_list_partitions(void *self, trn_session *session, const char *database, const char *name,
                                          const trn_kv *partition, size_t partition_count, trn_each_partition each,
                                          void *user, trn_error **error);
trn_status trn__warehouse_add_partitions(void *self, trn_session *session, const char *database, const char *name,
                                         const trn_partition_info *partitions, size_t count, bool if_not_exists,
                                         trn_error **error);
trn_status trn__warehouse_drop_partitions(void *self, trn_session *session, const char *database, const char *name,
                                          const trn_kv *partition, size_t partition_count, bool if_exists,
                                          trn_error **error);

/* ---- sweep.c ---- */
trn_status trn__process_open(trn_warehouse *w, trn_error **error); /* the process file */
void trn__process_close(trn_warehouse *w);
bool trn__process_is_alive(const trn_warehouse *w, const char *id); /* now; a dead one's file is removed */
/* A snapshot is about to be read: nothing that it may see goes, until trn__pin_add or trn__pin_cancel. */
void trn__pin_before(trn_warehouse *w);
/* It was read, with this sequence: stays until unpinned. Ends `before` in either case. False: out of memory. */
bool trn__pin_add(trn_warehouse *w, uint64_t sequence);
void trn__pin_cancel(trn_warehouse *w);
void trn__pin_remove(trn_warehouse *w, uint64_t sequence);
/* Files of a table (all, or those of a partition directory) are no longer listed: they become garbage. locks: mu held */
trn_status trn__files_retire(trn_warehouse *w, int64_t table, const char *partition, uint64_t sequence,
                             trn_error **error);
/* Removes what nobody needs: best effort. locks: takes mu */
void trn__sweep(trn_warehouse *w);
void trn__sweep_opened(trn_warehouse *w); /* also transactions of processes that died */
/* Removes a file or a directory with all that is in it. */
void trn__remove_all(const char *path);

/* ---- parquet.c ---- */
int64_t trn__parquet_rows(const char *path); /* -1: not known */

#endif
