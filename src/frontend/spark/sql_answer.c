/* SHOW, DESCRIBE, EXPLAIN as SQL statements, with Spark 4.2's columns; the refusal of the other statements by name. */
#include <strings.h>

#include "frontend/spark/service.h"
#include "frontend/spark/tables.h"

/* ---- SHOW ---- */

static trn_status show_name(const Spark__Connect__TrnShow *show, spark_table *out, const char *name,
                            trn_error **error) {
  if (!spark__pattern_matches(*show->pattern ? show->pattern : NULL, name)) return TRN_OK;
  spark_cell *cell = spark__table_add(out);
  if (!cell) return trn__no_memory(error);
  cell[0] = spark__cell_text(name);
  return TRN_OK;
}

static trn_status show_catalogs(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                trn_error **error) {
  (void)rpc;
  return show_name(show, out, "spark_catalog", error);
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
    {"catalogs", "catalog:s!", show_catalogs},
    {"functions", "function:s!", show_functions},
};

static trn_status unsupported(trn_error **error, const char *statement, const char *what) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s%s%s is not supported by this server.", statement,
                       *what ? " " : "", what);
}

static trn_status show(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  bool found = false;
  trn_status status = spark__show_of_catalog(rpc, show, out, &found, error);
  if (status || found) return status;
  for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
    if (strcmp(shows[i].what, show->what) != 0) continue;
    if (spark__table_init(out, rpc->arena, shows[i].columns)) return trn__no_memory(error);
    return shows[i].run(rpc, show, out, error);
  }
  return unsupported(error, "SHOW", show->what);
}

/* ---- DESCRIBE ---- */

/* Of a temporary view. */
static trn_status describe_view_column(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                       trn_error **error) {
  trn_plan *plan = NULL;
  const char *rows[3][2] = {{"col_name", NULL}, {"data_type", NULL}, {"comment", "NULL"}};
  trn_status status = spark__plan_table(rpc, describe->name, &plan, error);
  for (uint32_t i = 0; !status && i < plan->field_count && !rows[0][1]; i++) {
    trn_strbuf type = {0};
    if (strcasecmp(plan->fields[i].name, describe->column) != 0) continue;
    spark__type_simple(&type, plan->fields[i].type);
    rows[0][1] = trn__arena_strdup(rpc->arena, plan->fields[i].name);
    rows[1][1] = type.failed ? NULL : trn__arena_strdup(rpc->arena, type.data);
    trn__strbuf_finish(&type);
    if (!rows[0][1] || !rows[1][1]) status = trn__no_memory(error);
  }
  trn_plan_unref(plan);
  if (status) return status;
  const char *name = trn__arena_printf(rpc->arena, "`%s`", describe->column);
  if (!name || spark__table_init(out, rpc->arena, "info_name:s! info_value:s!")) return trn__no_memory(error);
  if (!rows[0][1])
    return spark__raise(error, TRN_INVALID_ARGUMENT, "COLUMN_NOT_FOUND", "colName", name, "caseSensitiveConfig",
                        "\"spark.sql.caseSensitive\"", NULL, NULL);
  for (size_t i = 0; i < 3; i++) {
    spark_cell *cell = spark__table_add(out);
    if (!cell) return trn__no_memory(error);
    cell[0] = spark__cell_text(rows[i][0]);
    cell[1] = spark__cell_text(rows[i][1]);
  }
  return TRN_OK;
}

static trn_status describe_plan(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                trn_error **error) {
  trn_plan *plan = NULL;
  bool found = false;
  if (!describe->query && !describe->n_partitions) {
    trn_status answered = spark__describe_table(rpc, describe, out, &found, error);
    if (answered || found) return answered;
  }
  if (describe->json || describe->n_partitions) return unsupported(error, "DESCRIBE", "of a view's partition or as JSON");
  if (*describe->column) return describe_view_column(rpc, describe, out, error);
  if (spark__table_init(out, rpc->arena, "col_name:s! data_type:s! comment:s")) return trn__no_memory(error);
  trn_status status = describe->query ? spark__plan_relation(rpc, describe->query, &plan, error)
                                      : spark__plan_table(rpc, describe->name, &plan, error);
  if (!status && spark__add_columns(out, plan->fields, plan->field_count, 1, out->column_count))
    status = trn__no_memory(error);
  trn_plan_unref(plan);
  return status;
}

/* Spark's usage texts are not here: the name tells that there is such a function. */
static trn_status describe_function(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                    trn_error **error) {
  const char *rows[] = {trn__arena_printf(rpc->arena, "Function: %s", describe->name), "Class: N/A.", "Usage: N/A."};
  const char *shown = trn__arena_printf(rpc->arena, "`%s`", describe->name);
  if (!rows[0] || !shown) return trn__no_memory(error);
  if (!spark__function_exists(describe->name))
    return spark__raise(error, TRN_NOT_FOUND, "UNRESOLVED_ROUTINE", "routineName", shown, "searchPath",
                        "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]", NULL, NULL);
  if (spark__table_init(out, rpc->arena, "function_desc:s!")) return trn__no_memory(error);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    spark_cell *cell = spark__table_add(out);
    if (!cell) return trn__no_memory(error);
    cell[0] = spark__cell_text(rows[i]);
  }
  return TRN_OK;
}

static trn_status describe(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                           trn_error **error) {
  if (strcmp(describe->what, "table") == 0 || strcmp(describe->what, "query") == 0)
    return describe_plan(rpc, describe, out, error);
  if (strcmp(describe->what, "function") == 0) return describe_function(rpc, describe, out, error);
  if (strcmp(describe->what, "database") == 0) return spark__describe_database(rpc, describe, out, error);
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

trn_status spark__sql_answer(spark_rpc *rpc, const Spark__Connect__Command *command, spark_table *out,
                             trn_error **error) {
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_SHOW: return show(rpc, command->trn_show, out, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DESCRIBE: return describe(rpc, command->trn_describe, out, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_EXPLAIN: return explain(rpc, command->trn_explain, out, error);
  default: return spark__error_not_supported(error, &command->base, (int)command->command_type_case);
  }
}
