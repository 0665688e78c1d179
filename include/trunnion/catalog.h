/* Catalogs: databases, tables and views by name, and writes to them; statements that are not queries, as data.
 *
 * A backend has catalogs (`trn_backend_ops.catalog`). Every change of a table goes through the catalog's vtable, so that a
 * layer that wraps a backend may wrap its catalogs too. A program may bring catalogs of its own: fill `trn_catalog_ops`,
 * `trn_catalog_create`, then `trn_backend_add_catalog`.
 *
 * Names are compared byte by byte; what folds letters (Spark, SQL) does it before it asks. All functions may block (files,
 * locks, remote services): worker threads only, unless a comment says otherwise. All may be called from any thread. */
#ifndef TRUNNION_CATALOG_H
#define TRUNNION_CATALOG_H
#include <trunnion/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_catalog trn_catalog;
typedef struct trn_table trn_table;
typedef struct trn_table_write trn_table_write;

/* ---- what things are: plain data. Texts and arrays are borrowed from whoever gave the struct; NULL text: not set. ---- */

typedef struct trn_database_info {
  size_t struct_size;
  const char *name;
  const char *comment, *owner;
  const char *location; /**< a directory; NULL in a creation: the catalog's choice */
  const trn_kv *properties;
  size_t property_count;
  int64_t created_ms; /**< since the epoch; the catalog's in a creation */
} trn_database_info;

typedef enum trn_table_kind { TRN_TABLE_MANAGED = 0, TRN_TABLE_EXTERNAL, TRN_TABLE_VIEW } trn_table_kind;

typedef enum trn_constraint_kind { TRN_CONSTRAINT_PRIMARY_KEY = 0, TRN_CONSTRAINT_UNIQUE, TRN_CONSTRAINT_FOREIGN_KEY } trn_constraint_kind;
/** For information: nothing checks them. */
typedef struct trn_constraint {
  trn_constraint_kind kind;
  const char *name; /**< or NULL */
  const char *const *columns;
  size_t column_count;
  const char *target_database, *target_table; /**< of a foreign key; its columns, as many */
  const char *const *target_columns;
} trn_constraint;

/** Keys in the Arrow metadata of a column. */
#define TRN_COLUMN_COMMENT "comment"
#define TRN_COLUMN_DEFAULT "default"     /**< SQL text in the dialect of whoever made the table */
#define TRN_COLUMN_TYPE_TEXT "type_text" /**< the maker's name for the type, where Arrow's says less: "varchar(10)" */

/** A table or view. */
typedef struct trn_table_info {
  size_t struct_size;
  const char *catalog, *database, *name;
  trn_table_kind kind;
  const char *identity;             /**< a UUID from its creation: one dropped and made again is another. Not in a creation */
  uint64_t version;                 /**< grows with each change of data or definition. Not in a creation */
  const struct ArrowSchema *schema; /**< a struct; its children are the columns, partition columns last */
  const char *const *partition_columns;
  size_t partition_column_count;
  const char *format;   /**< "parquet" "csv" "json" "arrow" ...; of views NULL */
  const char *location; /**< a directory or file; NULL in a creation: managed, the catalog's choice */
  const trn_kv *options; /**< of the format, as its maker names them */
  size_t option_count;
  const trn_kv *properties;
  size_t property_count;
  const char *comment, *owner;
  int64_t created_ms;
  const char *view_text;    /**< the query of a view */
  const char *view_dialect; /**< a plan-input format: "sql" (the engine's), "spark.sql" */
  const char *view_catalog, *view_database; /**< where the names in it were looked up */
  const char *const *view_columns;          /**< the names that its query gives; NULL: as in `schema` */
  size_t view_column_count;
  uint32_t bucket_count;
  const char *const *bucket_columns, *const *sort_columns;
  size_t bucket_column_count, sort_column_count;
  const trn_constraint *constraints;
  size_t constraint_count;
  int64_t row_count, byte_count; /**< -1: not known. Of files that are listed the catalog knows them */
  const char *created_by;        /**< the program and version that made it; NULL in a creation: the catalog fills in */
} trn_table_info;

/** One value of each partition column, as text; NULL: null. In the order of the table's partition columns. */
typedef struct trn_partition_info {
  size_t struct_size;
  const char *const *values;
  size_t value_count;
  const char *location; /**< NULL: below the table's */
  int64_t row_count, byte_count; /**< -1: not known */
} trn_partition_info;

typedef struct trn_function_info {
  size_t struct_size;
  const char *database; /**< NULL: built in */
  const char *name, *description;
} trn_function_info;

/** A file of a snapshot. */
typedef struct trn_table_file {
  const char *path; /**< absolute */
  int64_t row_count, byte_count; /**< -1: not known */
} trn_table_file;

/* ---- tables: immutable snapshots. While one is referenced, the files that it lists stay readable. ---- */

typedef struct trn_table_ops {
  size_t struct_size;
  void (*destroy)(void *self);
} trn_table_ops;
/** For catalogs. `info` and `files` live until destroy. `has_files`: the data are exactly these (perhaps none); else they are
 *  what `location` holds when it is read, or what `open_table` gives. */
TRN_API trn_status trn_table_create(const trn_table_ops *ops, void *self, const trn_table_info *info,
                                    const trn_table_file *files, size_t file_count, bool has_files, trn_table **out);
TRN_API trn_table *trn_table_ref(trn_table *table);
TRN_API void trn_table_unref(trn_table *table); /**< NULL is accepted. May delete files that nobody needs any more. */
TRN_API const trn_table_info *trn_table_get_info(const trn_table *table); /**< borrowed */
/** False: its data are not a list of files. */
TRN_API bool trn_table_files(const trn_table *table, const trn_table_file **files, size_t *count);
/** What a scan of it reads, in the terms of policies: names, format, files, columns; `version` is identity and version when
 *  the files are listed. Gives `*out`. */
TRN_API trn_status trn_table_label(const trn_table *table, trn_scan_label **out, trn_error **error);

/* ---- writes ---- */

typedef enum trn_write_mode {
  TRN_WRITE_APPEND = 0,
  TRN_WRITE_OVERWRITE,            /**< all rows go, or those of the partition that `partition` names */
  TRN_WRITE_OVERWRITE_PARTITIONS, /**< partitions that are written lose their old rows */
  TRN_WRITE_CREATE                /**< the table appears with its rows: `create`; `replace`: in place of what is there */
} trn_write_mode;

typedef struct trn_write_request {
  size_t struct_size;
  const char *database, *name;
  trn_write_mode mode;
  const trn_table_info *create;
  bool replace;
  const trn_kv *partition; /**< values of some partition columns: OVERWRITE replaces only what has them */
  size_t partition_count;
  const char *expected_identity; /**< NULL: any; ABORTED when the table is another by then */
  uint64_t expected_version;     /**< 0: any; ABORTED when there is a newer one at the commit: rows were read from it */
} trn_write_request;

/** Where the rows of a write go: the engine writes files below `directory`, a directory per stream "0", "1", ..., in each
 *  of those a level "any=value" per partition column, values percent-encoded; files hold *all* columns when
 *  `keeps_partition_columns`, else those that are not partition columns. `directory` NULL: rows are given by `batch`. */
typedef struct trn_write_target {
  size_t struct_size;
  const char *directory, *format;
  const trn_kv *options;
  size_t option_count;
  const char *const *partition_columns;
  size_t partition_column_count;
  bool keeps_partition_columns;
} trn_write_target;

typedef struct trn_table_write_ops {
  size_t struct_size;
  /** Required. All or nothing becomes visible. The write is over, also on failure. */
  trn_status (*commit)(void *self, int64_t row_count, trn_error **error);
  /** Required. Nothing of it stays. */
  void (*abort)(void *self);
  /** Rows of a write without a directory; takes the array. */
  trn_status (*batch)(void *self, const struct ArrowSchema *schema, struct ArrowArray *rows, trn_error **error);
  void (*destroy)(void *self); /**< after commit or abort */
} trn_table_write_ops;
/** For catalogs. `target` lives until destroy. */
TRN_API trn_status trn_table_write_create(const trn_table_write_ops *ops, void *self, const trn_write_target *target,
                                          trn_table_write **out);
TRN_API const trn_write_target *trn_table_write_target(const trn_table_write *write);
TRN_API trn_status trn_table_write_batch(trn_table_write *write, const struct ArrowSchema *schema, struct ArrowArray *rows,
                                         trn_error **error);
/** Both free `write`. */
TRN_API trn_status trn_table_write_commit(trn_table_write *write, int64_t row_count, trn_error **error);
TRN_API void trn_table_write_abort(trn_table_write *write); /**< NULL is accepted */

/* ---- the vtable ---- */

typedef void (*trn_each_database)(void *user, const trn_database_info *database);
typedef void (*trn_each_table)(void *user, const trn_table_info *table);
typedef void (*trn_each_partition)(void *user, const trn_partition_info *partition);
typedef void (*trn_each_function)(void *user, const trn_function_info *function);

typedef enum trn_savepoint_action { TRN_SAVEPOINT_SET = 0, TRN_SAVEPOINT_RELEASE, TRN_SAVEPOINT_ROLLBACK } trn_savepoint_action;

/** What a catalog implements. `session`: on whose behalf. NOT_FOUND and ALREADY_EXISTS say that a thing is not, or is,
 *  there; ABORTED: somebody else changed it meanwhile; FAILED_PRECONDITION: a database that is not empty. Conditions:
 *  "SCHEMA_NOT_FOUND", "SCHEMA_ALREADY_EXISTS", "SCHEMA_NOT_EMPTY", "TABLE_OR_VIEW_NOT_FOUND",
 *  "TABLE_OR_VIEW_ALREADY_EXISTS", "PARTITIONS_NOT_FOUND", "PARTITIONS_ALREADY_EXIST". Optional slots are filled with
 *  UNIMPLEMENTED. `each` is called on the calling thread before the function returns. */
typedef struct trn_catalog_ops {
  size_t struct_size;
  /** Required. In order of names. */
  trn_status (*list_databases)(void *self, trn_session *session, trn_each_database each, void *user, trn_error **error);
  trn_status (*create_database)(void *self, trn_session *session, const trn_database_info *database, trn_error **error);
  /** `cascade`: with its tables; else FAILED_PRECONDITION when it has any. */
  trn_status (*drop_database)(void *self, trn_session *session, const char *name, bool cascade, trn_error **error);
  /** Comment, location and properties become what `database` says. */
  trn_status (*alter_database)(void *self, trn_session *session, const trn_database_info *database, trn_error **error);
  /** Required. Tables and views in order of names: name, kind, comment, format, identity, version at least; `schema` when
   *  `with_schema`. NOT_FOUND: no such database. */
  trn_status (*list_tables)(void *self, trn_session *session, const char *database, bool with_schema, trn_each_table each,
                            void *user, trn_error **error);
  /** Required. Gives `*out`. */
  trn_status (*get_table)(void *self, trn_session *session, const char *database, const char *name, trn_table **out,
                          trn_error **error);
  /** A table without rows, or a view. `replace`: whatever is there goes, in one step. */
  trn_status (*create_table)(void *self, trn_session *session, const trn_table_info *table, bool replace,
                             trn_error **error);
  trn_status (*drop_table)(void *self, trn_session *session, const char *database, const char *name, bool purge,
                           trn_error **error);
  trn_status (*rename_table)(void *self, trn_session *session, const char *database, const char *name,
                             const char *to_database, const char *to_name, trn_error **error);
  /** The definition (all but names, identity, version, created_ms) becomes what `table` says; ABORTED unless its version
   *  is still `expected_version` (0: any). */
  trn_status (*alter_table)(void *self, trn_session *session, const trn_table_info *table, uint64_t expected_version,
                            trn_error **error);
  /** Gives `*out`. */
  trn_status (*begin_write)(void *self, trn_session *session, const trn_write_request *request, trn_table_write **out,
                            trn_error **error);
  /** Rows go; with `partition`, those that have these values. */
  trn_status (*truncate_table)(void *self, trn_session *session, const char *database, const char *name,
                               const trn_kv *partition, size_t partition_count, trn_error **error);
  /** Partitions in order of their values; with `partition`, those that have these values. */
  trn_status (*list_partitions)(void *self, trn_session *session, const char *database, const char *name,
                                const trn_kv *partition, size_t partition_count, trn_each_partition each, void *user,
                                trn_error **error);
  /** All or none. ALREADY_EXISTS unless `if_not_exists`. */
  trn_status (*add_partitions)(void *self, trn_session *session, const char *database, const char *name,
                               const trn_partition_info *partitions, size_t count, bool if_not_exists, trn_error **error);
  /** Every partition with these values, with its rows where the table is managed. NOT_FOUND unless `if_exists`. */
  trn_status (*drop_partitions)(void *self, trn_session *session, const char *database, const char *name,
                                const trn_kv *partition, size_t partition_count, bool if_exists, trn_error **error);
  /** Functions of its own, besides what every backend has. */
  trn_status (*list_functions)(void *self, trn_session *session, trn_each_function each, void *user, trn_error **error);
  /** For tables that are no files: gives a source and its schema. */
  trn_status (*open_table)(void *self, trn_session *session, trn_table *table, trn_source **out,
                           struct ArrowSchema *schema, trn_error **error);
  void (*destroy)(void *self);
  /** Transactions: all four slots, or none. From here to its end, what is asked on behalf of the session is a part of it
   *  (trn_transaction_state gives the state back): it sees a snapshot and its own changes, and nobody else sees those.
   *  ABORTED: others changed what it has read, it has to be begun again. Gives `*state`. */
  trn_status (*begin_transaction)(void *self, trn_session *session, void **state, trn_error **error);
  /** `name` is the caller's and unique in the transaction. After a ROLLBACK the savepoint stays, later ones are gone. */
  trn_status (*savepoint)(void *self, void *state, trn_savepoint_action action, const char *name, trn_error **error);
  /** All of it becomes visible at once, or nothing does; over in any case. */
  trn_status (*end_transaction)(void *self, void *state, bool is_commit, trn_error **error);
  void (*release_transaction)(void *self, void *state); /**< last; rolls back what was not ended */
} trn_catalog_ops;

/** Checks the required slots (INVALID_ARGUMENT), fills optional ones. Copies `name`. Takes `self` on success only. */
TRN_API trn_status trn_catalog_create(const trn_catalog_ops *ops, void *self, const char *name, trn_catalog **out);
TRN_API trn_catalog *trn_catalog_ref(trn_catalog *catalog);
TRN_API void trn_catalog_unref(trn_catalog *catalog);
TRN_API const char *trn_catalog_name(const trn_catalog *catalog);

/* The slots, called; they check that what they are given is whole. */
TRN_API trn_status trn_catalog_list_databases(trn_catalog *catalog, trn_session *session, trn_each_database each, void *user,
                                              trn_error **error);
TRN_API trn_status trn_catalog_create_database(trn_catalog *catalog, trn_session *session,
                                               const trn_database_info *database, trn_error **error);
TRN_API trn_status trn_catalog_drop_database(trn_catalog *catalog, trn_session *session, const char *name, bool cascade,
                                             trn_error **error);
TRN_API trn_status trn_catalog_alter_database(trn_catalog *catalog, trn_session *session,
                                              const trn_database_info *database, trn_error **error);
TRN_API trn_status trn_catalog_list_tables(trn_catalog *catalog, trn_session *session, const char *database,
                                           bool with_schema, trn_each_table each, void *user, trn_error **error);
TRN_API trn_status trn_catalog_get_table(trn_catalog *catalog, trn_session *session, const char *database,
                                         const char *name, trn_table **out, trn_error **error);
TRN_API trn_status trn_catalog_create_table(trn_catalog *catalog, trn_session *session, const trn_table_info *table,
                                            bool replace, trn_error **error);
TRN_API trn_status trn_catalog_drop_table(trn_catalog *catalog, trn_session *session, const char *database,
                                          const char *name, bool purge, trn_error **error);
TRN_API trn_status trn_catalog_rename_table(trn_catalog *catalog, trn_session *session, const char *database,
                                            const char *name, const char *to_database, const char *to_name,
                                            trn_error **error);
TRN_API trn_status trn_catalog_alter_table(trn_catalog *catalog, trn_session *session, const trn_table_info *table,
                                           uint64_t expected_version, trn_error **error);
TRN_API trn_status trn_catalog_begin_write(trn_catalog *catalog, trn_session *session, const trn_write_request *request,
                                           trn_table_write **out, trn_error **error);
TRN_API trn_status trn_catalog_truncate_table(trn_catalog *catalog, trn_session *session, const char *database,
                                              const char *name, const trn_kv *partition, size_t partition_count,
                                              trn_error **error);
TRN_API trn_status trn_catalog_list_partitions(trn_catalog *catalog, trn_session *session, const char *database,
                                               const char *name, const trn_kv *partition, size_t partition_count,
                                               trn_each_partition each, void *user, trn_error **error);
TRN_API trn_status trn_catalog_add_partitions(trn_catalog *catalog, trn_session *session, const char *database,
                                              const char *name, const trn_partition_info *partitions, size_t count,
                                              bool if_not_exists, trn_error **error);
TRN_API trn_status trn_catalog_drop_partitions(trn_catalog *catalog, trn_session *session, const char *database,
                                               const char *name, const trn_kv *partition, size_t partition_count,
                                               bool if_exists, trn_error **error);
TRN_API trn_status trn_catalog_list_functions(trn_catalog *catalog, trn_session *session, trn_each_function each,
                                              void *user, trn_error **error);
/** What reads a table: its files, its location, or what the catalog opens. Views: INVALID_ARGUMENT. Gives both. */
TRN_API trn_status trn_catalog_open_table(trn_catalog *catalog, trn_session *session, trn_table *table, trn_source **out,
                                          struct ArrowSchema *schema, trn_error **error);

TRN_API bool trn_catalog_has_transactions(const trn_catalog *catalog);
/** For catalogs that wrap others; sessions use trn_transaction_begin. */
TRN_API trn_status trn_catalog_begin_transaction(trn_catalog *catalog, trn_session *session, void **state, trn_error **error);
TRN_API trn_status trn_catalog_savepoint(trn_catalog *catalog, void *state, trn_savepoint_action action, const char *name,
                                         trn_error **error);
TRN_API trn_status trn_catalog_end_transaction(trn_catalog *catalog, void *state, bool is_commit, trn_error **error);
TRN_API void trn_catalog_release_transaction(trn_catalog *catalog, void *state);

/* ---- transactions of a session: over its default catalog (at their begin); what it does to another one is refused ---- */

/** FAILED_PRECONDITION: there is one already. UNIMPLEMENTED: the catalog has none. Does not block. */
TRN_API trn_status trn_transaction_begin(trn_session *session, trn_error **error);
/** FAILED_PRECONDITION: there is no transaction. */
TRN_API trn_status trn_transaction_savepoint(trn_session *session, trn_savepoint_action action, const char *name,
                                             trn_error **error);
/** The session has none after it, whatever is returned; ABORTED, UNAVAILABLE: nothing was committed. The last unref of a
 *  session rolls back. */
TRN_API trn_status trn_transaction_end(trn_session *session, bool is_commit, trn_error **error);
/** What the catalog's begin_transaction gave; NULL: the session has none. For catalogs: a pointer to compare. Any thread. */
TRN_API void *trn_transaction_state(trn_session *session);

/* ---- where catalogs are ---- */

#define TRN_DEFAULT_DATABASE "default"
#define TRN_DEFAULT_CATALOG "spark_catalog" /* so that names with a catalog mean the same in every protocol */

/** Adds a catalog to a backend that has no `catalog` slot of its own; a reference is taken. The first is the default one;
 *  without any, the backend makes one in memory. Before sessions are opened. ALREADY_EXISTS. */
TRN_API trn_status trn_backend_add_catalog(trn_backend *backend, trn_catalog *catalog);
/** The catalog of that name as the session's backend has it; NULL: the default one. Gives `*out`. NOT_FOUND. */
TRN_API trn_status trn_session_get_catalog(trn_session *session, const char *name, trn_catalog **out, trn_error **error);
/** Their names, the default one first. */
TRN_API trn_status trn_session_list_catalogs(trn_session *session, void (*each)(void *user, const char *name), void *user,
                                             trn_error **error);
/** Where unqualified names are looked up, from the start the default catalog and TRN_DEFAULT_DATABASE. Gives both
 *  (trn_free). Does not block. */
TRN_API trn_status trn_session_namespace(trn_session *session, char **catalog, char **database, trn_error **error);
/** NULL: as it was. Nothing is checked: trn_command_execute with TRN_COMMAND_USE does. Does not block. */
TRN_API trn_status trn_session_set_namespace(trn_session *session, const char *catalog, const char *database);

/** A name in the terms of catalogs: `parts` outermost first, what is missing is the session's. Gives all three: a
 *  reference, and texts (trn_free). INVALID_ARGUMENT: more than three parts, or none. NOT_FOUND: no such catalog. */
TRN_API trn_status trn_session_resolve_name(trn_session *session, const char *const *parts, size_t count,
                                            trn_catalog **catalog, char **database, char **name, trn_error **error);
/** A `trn_table_resolver` whose user is a session: tables of its catalogs, views in dialects that its backend decodes. */
TRN_API trn_status trn_session_resolve_table(void *session, const char *const *parts, size_t count,
                                             trn_resolved_table *out, trn_error **error);

/** A catalog that lives in a directory: SQLite for what there is, files for rows. Several processes may have it open.
 *  `directory` NULL: in memory; rows are in a directory of its own below the system's temporary one, made with the first
 *  table that has rows, removed at the end. Gives `*out`. INVALID_ARGUMENT, PERMISSION_DENIED, UNAVAILABLE (locked). */
typedef struct trn_warehouse_options {
  size_t struct_size;
  const char *directory;
  const char *name;       /**< of the catalog; NULL: TRN_DEFAULT_CATALOG */
  uint64_t lock_ms;       /**< how long to wait for other writers; 0: 30 seconds */
  uint64_t grace_ms;      /**< how long files of former versions stay at least; 0: none */
} trn_warehouse_options;
TRN_API trn_status trn_warehouse_open(const trn_warehouse_options *options, trn_catalog **out, trn_error **error);

/* ---- statements that are not queries ---- */

typedef enum trn_command_kind {
  TRN_COMMAND_USE = 1,            /**< name: [catalog,] database; `is_catalog`: a catalog alone */
  TRN_COMMAND_CREATE_DATABASE,    /**< name, database; if_not_exists */
  TRN_COMMAND_DROP_DATABASE,      /**< name; if_exists, cascade */
  TRN_COMMAND_ALTER_DATABASE,     /**< name, database */
  TRN_COMMAND_CREATE_TABLE,       /**< name, table, plan (with rows) or NULL; if_not_exists, or_replace */
  TRN_COMMAND_CREATE_VIEW,        /**< name, table; if_not_exists, or_replace */
  TRN_COMMAND_DROP_TABLE,         /**< name; if_exists, purge. A view is refused */
  TRN_COMMAND_DROP_VIEW,          /**< name; if_exists. A table is refused */
  TRN_COMMAND_RENAME_TABLE,       /**< name, to */
  TRN_COMMAND_ALTER_TABLE,        /**< name, table (whole), expected_version */
  TRN_COMMAND_TRUNCATE_TABLE,     /**< name, partition */
  TRN_COMMAND_INSERT,             /**< name, plan, mode, partition, columns */
  TRN_COMMAND_DELETE,             /**< name, plan: the rows that stay; tables whose files are listed */
  TRN_COMMAND_UPDATE,             /**< name, plan: all rows, changed */
  TRN_COMMAND_COPY,               /**< plan, format, location, options, partition_by: rows to files, no table */
  TRN_COMMAND_ADD_PARTITIONS,     /**< name, partitions; if_not_exists */
  TRN_COMMAND_DROP_PARTITIONS,    /**< name, partition; if_exists */
  TRN_COMMAND_RECOVER_PARTITIONS, /**< name: those that the location holds are added */
  TRN_COMMAND_ANALYZE_TABLE,      /**< name: what the catalog knows of rows and bytes is counted anew */
  TRN_COMMAND_SET                 /**< columns[0]: a key; comment: its value, NULL: unset */
} trn_command_kind;

/** A statement as data, whoever wrote it in whatever language. Borrowed during the call. */
struct trn_command {
  size_t struct_size;
  trn_command_kind kind;
  const char *const *name; /**< parts, outermost first; what is missing is the session's */
  size_t name_count;
  const char *const *to; /**< RENAME_TABLE: likewise */
  size_t to_count;
  bool if_exists, if_not_exists, or_replace, cascade, purge, is_catalog;
  const trn_database_info *database;
  const trn_table_info *table; /**< its own names are not read */
  uint64_t expected_version;
  trn_plan *plan; /**< rows in the order of the table's columns, or of `columns`; cast to their types where they differ */
  trn_write_mode mode;
  const char *const *columns; /**< INSERT: the columns that the plan gives; others are null. NULL: all */
  size_t column_count;
  const trn_kv *partition; /**< INSERT: static values; they are not in the plan */
  size_t partition_count;
  const trn_partition_info *partitions;
  size_t partition_info_count;
  const char *format, *location; /**< COPY */
  const trn_kv *options;
  size_t option_count;
  const char *comment;
  const char *operation_id; /**< of what writes rows; NULL: a new one */
  trn_cancel *cancel;       /**< as of trn_execute_request */
  /** COPY: columns of the plan that become directories ("a=1/b=2"), outermost first; files have them only if kept. */
  const char *const *partition_by;
  size_t partition_by_count;
  bool keeps_partition_columns;
};

/** Runs it. What writes rows gives an operation in `*out`: its stream has one row, the int64 column "count", after the
 *  commit; nothing is committed unless the stream is read to its end, and dropping it before aborts. All else is done when
 *  this returns, `*out` is NULL and `*count` (may be NULL as a pointer) 0. `changed`: NULL or set to false when a flag made
 *  nothing of it. */
TRN_API trn_status trn_command_execute(trn_session *session, const trn_command *command, trn_operation **out,
                                       int64_t *count, bool *changed, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
