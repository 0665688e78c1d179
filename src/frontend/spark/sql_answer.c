/* SHOW, DESCRIBE, EXPLAIN as SQL statements, with Spark 4.2's columns; the refusal of the other statements by name. */
#include <strings.h>

#include "frontend/spark/service.h"

static const char global_prefix[] = "global_temp.";

/* ---- SHOW ---- */

/* Temporary views: namespace, name, isTemporary. They are listed with every database. */
static trn_status show_views(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  bool global = strcasecmp(show->namespace_, "global_temp") == 0;
  const char *pattern = *show->pattern ? show->pattern : NULL;
  trn_status status = *show->namespace_ ? spark__check_database(rpc, show->namespace_, error) : TRN_OK;
  trn_vec names = {0};
  if (!status && !spark__session_views(rpc->session, &names)) status = trn__no_memory(error);
  for (size_t i = 0; i < names.count; i++) {
    char *name = names.items[i];
    bool is_global = strncmp(name, global_prefix, sizeof global_prefix - 1) == 0;
    const char *plain = is_global ? name + sizeof global_prefix - 1 : name;
    if (!status && (global || !is_global) && spark__pattern_matches(pattern, plain)) {
      char *copy = trn__arena_strdup(rpc->arena, plain);
      spark_cell *cell = copy ? spark__table_add(out) : NULL;
      if (cell) {
        cell[0] = spark__cell_text(is_global ? "global_temp" : "");
        cell[1] = spark__cell_text(copy);
        cell[2] = spark__cell_bool(true);
      } else {
        status = trn__no_memory(error);
      }
    }
    free(name);
  }
  trn__vec_finish(&names);
  return status;
}

static trn_status show_name(const Spark__Connect__TrnShow *show, spark_table *out, const char *name,
                            trn_error **error) {
  if (!spark__pattern_matches(*show->pattern ? show->pattern : NULL, name)) return TRN_OK;
  spark_cell *cell = spark__table_add(out);
  if (!cell) return trn__no_memory(error);
  cell[0] = spark__cell_text(name);
  return TRN_OK;
}

static trn_status show_databases(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                 trn_error **error) {
  (void)rpc;
  return show_name(show, out, "default", error);
}

static trn_status show_catalogs(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                trn_error **error) {
  (void)rpc;
  return show_name(show, out, "spark_catalog", error);
}

static trn_status show_current(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                               trn_error **error) {
  (void)rpc;
  (void)show;
  spark_cell *cell = spark__table_add(out);
  if (!cell) return trn__no_memory(error);
  cell[0] = spark__cell_text("spark_catalog");
  cell[1] = spark__cell_text("default");
  return TRN_OK;
}

static trn_status show_columns(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                               trn_error **error) {
  trn_plan *plan = NULL;
  trn_status status = spark__plan_table(rpc, show->name, &plan, error);
  for (uint32_t i = 0; !status && i < plan->field_count; i++) {
    char *name = trn__arena_strdup(rpc->arena, plan->fields[i].name);
    status = name ? show_name(show, out, name, error) : trn__no_memory(error);
  }
  trn_plan_unref(plan);
  return status;
}

static trn_status show_functions(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                 trn_error **error) {
  const char *name;
  trn_status status = *show->namespace_ ? spark__check_database(rpc, show->namespace_, error) : TRN_OK;
  if (strcmp(show->scope, "user") == 0) return status; /* there are none */
  for (size_t i = 0; !status && (name = spark__function_name(i)); i++)
    if (spark__function_is_served(name)) status = show_name(show, out, name, error);
  return status;
}

static const struct {
  const char *what, *columns;
  trn_status (*run)(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error);
} shows[] = {
    {"tables", "namespace:s! tableName:s! isTemporary:b!", show_views},
    {"views", "namespace:s! viewName:s! isTemporary:b!", show_views},
    {"databases", "namespace:s!", show_databases},
    {"catalogs", "catalog:s!", show_catalogs},
    {"current namespace", "catalog:s! namespace:s!", show_current},
    {"columns", "col_name:s!", show_columns},
    {"functions", "function:s!", show_functions},
};

static trn_status unsupported(trn_error **error, const char *statement, const char *what) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s%s%s is not supported by this server.", statement,
                       *what ? " " : "", what);
}

static trn_status show(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
    if (strcmp(shows[i].what, show->what) != 0) continue;
    if (spark__table_init(out, rpc->arena, shows[i].columns)) return trn__no_memory(error);
    return shows[i].run(rpc, show, out, error);
  }
  return unsupported(error, "SHOW", show->what);
}

/* ---- DESCRIBE ---- */

static trn_status describe_plan(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                trn_error **error) {
  trn_plan *plan = NULL;
  if (*describe->column || describe->json || describe->n_partitions)
    return unsupported(error, "DESCRIBE", "of a column, partition or as JSON");
  if (spark__table_init(out, rpc->arena, "col_name:s! data_type:s! comment:s")) return trn__no_memory(error);
  trn_status status = describe->query ? spark__plan_relation(rpc, describe->query, &plan, error)
                                      : spark__plan_table(rpc, describe->name, &plan, error);
  if (!status && spark__add_columns(out, plan->fields, plan->field_count, 1, out->column_count))
    status = trn__no_memory(error);
  trn_plan_unref(plan);
  return status;
}

static trn_status describe_database(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                    trn_error **error) {
  trn_status status = spark__check_database(rpc, describe->name, error);
  if (status) return status;
  char *warehouse = NULL;
  spark__config_get(rpc->session, "spark.sql.warehouse.dir", &warehouse);
  const char *rows[][2] = {{"Catalog Name", "spark_catalog"},
                           {"Namespace Name", "default"},
                           {"Comment", "default database"},
                           {"Location", warehouse ? trn__arena_strdup(rpc->arena, warehouse) : ""},
                           {"Owner", ""}};
  free(warehouse);
  if (spark__table_init(out, rpc->arena, "info_name:s! info_value:s!")) return trn__no_memory(error);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    spark_cell *cell = rows[i][1] ? spark__table_add(out) : NULL;
    if (!cell) return trn__no_memory(error);
    cell[0] = spark__cell_text(rows[i][0]);
    cell[1] = spark__cell_text(rows[i][1]);
  }
  return TRN_OK;
}

static trn_status describe(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                           trn_error **error) {
  if (strcmp(describe->what, "table") == 0 || strcmp(describe->what, "query") == 0)
    return describe_plan(rpc, describe, out, error);
  if (strcmp(describe->what, "database") == 0) return describe_database(rpc, describe, out, error);
  return unsupported(error, "DESCRIBE", describe->what);
}

/* ---- EXPLAIN ---- */

static trn_status explain(spark_rpc *rpc, const Spark__Connect__TrnExplain *explain, spark_table *out,
                          trn_error **error) {
  if (!explain->relation || explain->relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_CATALOG)
    return unsupported(error, "EXPLAIN", "of a command");
  trn_strbuf text = {0};
  trn_status status = spark__explain(rpc, explain->relation, explain->mode, &text, error);
  if (!status) {
    spark_cell *cell = NULL;
    char *copy = trn__arena_str(rpc->arena, text.data, text.size);
    if (copy && spark__table_init(out, rpc->arena, "plan:s") == TRN_OK) cell = spark__table_add(out);
    if (cell) cell[0] = (spark_cell){.text = copy, .text_size = text.size};
    if (!cell) status = trn__no_memory(error);
  }
  trn__strbuf_finish(&text);
  return status;
}

/* ---- which statement ---- */

/* How people call the statement that became a member of ours. */
static const char *statement_name(const Spark__Connect__Command *command) {
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_TABLE: return "CREATE TABLE";
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_VIEW: return "CREATE VIEW";
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_INSERT: return "INSERT";
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DELETE: return "DELETE";
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_UPDATE: return "UPDATE";
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_ALTER_TABLE:
    return command->trn_alter_table->view ? "ALTER VIEW" : "ALTER TABLE";
  default: return NULL;
  }
}

trn_status spark__sql_answer(spark_rpc *rpc, const Spark__Connect__Command *command, spark_table *out,
                             trn_error **error) {
  const char *name = statement_name(command);
  if (name) return unsupported(error, name, "");
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_SHOW: return show(rpc, command->trn_show, out, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DESCRIBE: return describe(rpc, command->trn_describe, out, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_EXPLAIN: return explain(rpc, command->trn_explain, out, error);
  default: return spark__error_not_supported(error, &command->base, (int)command->command_type_case);
  }
}
