/* Statements about databases, tables and views: from Spark's messages to trn_command, and what SHOW and DESCRIBE answer.
 *
 *   tables.c         names, commands, errors that they share      table_create.c   CREATE TABLE, CREATE VIEW
 *   table_alter.c    ALTER, TRUNCATE, DROP, partitions, databases  table_insert.c   INSERT, saveAsTable, insertInto, writeTo
 *   table_show.c     SHOW, DESCRIBE of them */
#ifndef TRN_FRONTEND_SPARK_TABLES_H
#define TRN_FRONTEND_SPARK_TABLES_H
#include "frontend/spark/service.h"
#include "frontend/spark/translate/insert.h"
#include "frontend/spark/translate/table.h"
#include "frontend/spark/translate/write.h"

/* ---- tables.c ---- */
trn_status spark__name_of(spark_rpc *rpc, const char *text, spark_table_name *out, trn_error **error);
/* Of a database: "" is the session's. SCHEMA_NOT_FOUND unless it is there (`must_exist`). */
trn_status spark__database_of(spark_rpc *rpc, const char *text, bool must_exist, spark_table_name *out,
                              trn_error **error);
bool spark__database_exists(spark_rpc *rpc, const spark_table_name *name);
/* A snapshot, kept by rpc->arena. NULL in *out: there is none. */
trn_status spark__find_table(spark_rpc *rpc, const spark_table_name *name, trn_table **out, trn_error **error);
/* The same by a name as it was written; TABLE_OR_VIEW_NOT_FOUND with those words. */
trn_status spark__need_table(spark_rpc *rpc, const char *text, spark_table_name *name, trn_table **out, trn_error **error);
/* TABLE_OR_VIEW_NOT_FOUND: `shown` as it is to stand there. */
trn_status spark__no_such_table(spark_rpc *rpc, const char *shown, trn_error **error);
/* UNSUPPORTED_FEATURE.TABLE_OPERATION */
/* OK when the name is no temporary view's. `permanent`: a lasting view would do, else only a table. */
trn_status spark__refuse_temp_view(spark_rpc *rpc, const char *text, const char *operation, bool permanent, trn_error **error);
trn_status spark__no_operation(spark_rpc *rpc, const spark_table_name *name, const char *operation, trn_error **error);
/* Runs a command on a table or database (`name->name` is "": a database). */
trn_status spark__run_command(spark_rpc *rpc, const spark_table_name *name, trn_command *command, trn_error **error);
/* TrnProperty lists as pairs, in rpc->arena; keys that repeat: the last counts. */
trn_status spark__properties_of(spark_rpc *rpc, Spark__Connect__TrnProperty *const *list, size_t count, const trn_kv **out,
                                size_t *out_count, trn_error **error);
/* PARTITION (a = 1, b) as pairs of names and texts; those without a value are left out. */
trn_status spark__partition_spec(spark_rpc *rpc, const trn_table_info *info, Spark__Connect__TrnPartition *const *list,
                                 size_t count, const trn_kv **out, size_t *out_count, trn_error **error);
/* A format by the name that a client wrote, as tables have it. DATA_SOURCE_NOT_FOUND. */
trn_status spark__table_format(spark_rpc *rpc, const char *given, const char **out, trn_error **error);
const char *spark__kind_text(trn_table_kind kind); /* "MANAGED" */
/* A temporary view of that name (one part), or a global one (global_temp.x). */
bool spark__is_temp_view(spark_rpc *rpc, const char *text);

/* ---- statements; those with an execution may go on after they return: then *running is true ---- */
trn_status spark__create_table(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__TrnCreateTable *message,
                               bool *running, trn_error **error);
trn_status spark__create_view(spark_rpc *rpc, const Spark__Connect__TrnCreateView *message, trn_error **error);
trn_status spark__alter_table(spark_rpc *rpc, const Spark__Connect__TrnAlterTable *message, trn_error **error);
trn_status spark__drop_table(spark_rpc *rpc, const char *text, bool is_view, bool if_exists, trn_error **error);
/* DELETE, UPDATE: UNSUPPORTED_FEATURE.TABLE_OPERATION, if the table is there. */
trn_status spark__refuse_change(spark_rpc *rpc, const char *text, const char *operation, trn_error **error);
trn_status spark__truncate_table(spark_rpc *rpc, const char *name, trn_error **error);
trn_status spark__recover_partitions(spark_rpc *rpc, const char *text, const char *operation, trn_error **error);
trn_status spark__analyze_table(spark_rpc *rpc, const char *text, trn_error **error);
/* `out` is of rpc->arena. SCHEMA_NOT_FOUND. */
trn_status spark__get_database(spark_rpc *rpc, const char *text, spark_table_name *name, trn_database_info *out,
                               trn_error **error);
trn_status spark__create_database(spark_rpc *rpc, const Spark__Connect__CreateDatabase *create, trn_error **error);
trn_status spark__drop_database(spark_rpc *rpc, const Spark__Connect__DropDatabase *drop, trn_error **error);
trn_status spark__use_database(spark_rpc *rpc, const char *text, trn_error **error);
trn_status spark__use_catalog(spark_rpc *rpc, const char *text, trn_error **error);
/* What sql/maintain.c parses, but caching. */
trn_status spark__table_statement(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error);
trn_status spark__insert(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__TrnInsert *message,
                         trn_error **error);
/* The table that a creation makes: its rows, in the end. Takes nothing. */
typedef struct spark_table_rows {
  const spark_table_name *name;
  const Spark__Connect__Relation *input;
  trn_write_mode mode;
  const trn_table_info *info; /* of the table that is there, or that is created */
  bool replace;
  const spark_insert *insert; /* NULL: a new table */
  const trn_kv *partition;    /* OVERWRITE: only these */
  size_t partition_count;
} spark_table_rows;
trn_status spark__write_table(spark_rpc *rpc, spark_execution *execution, const spark_table_rows *rows, trn_error **error);
/* df.write.saveAsTable, insertInto; df.writeTo */
trn_status spark__save_table(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__WriteOperation *operation,
                             trn_error **error);
trn_status spark__write_v2(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__WriteOperationV2 *operation,
                           trn_error **error);
/* A new table's definition out of fields and names of partition columns (moved to the end). Of the arena; the schema is
 * released with it. */
typedef struct spark_new_table {
  const trn_field *fields;
  uint32_t count;
  const char *const *comments, *const *defaults; /* per field; NULL: none */
  char *const *partition_by;
  size_t partition_count;
} spark_new_table;
trn_status spark__define_table(spark_rpc *rpc, const spark_table_name *name, const spark_new_table *table,
                               trn_table_info *info, trn_error **error);
/* The schema of what is at a location: fields, and the names of partition columns. UNABLE_TO_INFER_SCHEMA. */
trn_status spark__infer_table(spark_rpc *rpc, const char *format, const char *location, const trn_kv *options,
                              size_t option_count, spark_new_table *out, trn_error **error);

/* ---- table_show.c ---- */
/* *found false: it is about something else. */
trn_status spark__show_of_catalog(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, bool *found,
                                  trn_error **error);
/* What SHOW CREATE TABLE says; of rpc->arena. */
trn_status spark__create_statement(spark_rpc *rpc, const char *text, const char **out, trn_error **error);
trn_status spark__describe_database(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                    trn_error **error);
/* DESCRIBE TABLE; *found false: it is no table of a catalog. */
trn_status spark__describe_table(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out, bool *found,
                                 trn_error **error);

/* ---- write.c ---- */
/* Format and options of a write, as the engine wants them; the texts are borrowed from `operation` and rpc->arena. */
trn_status spark__write_spec_of(spark_rpc *rpc, const Spark__Connect__WriteOperation *operation, spark_write_spec *out,
                                trn_error **error);
#endif
