/* What statements about tables share: see tables.h. */
#include "frontend/spark/tables.h"

#include <strings.h>

#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/scope.h"

/* ---- names ---- */

static trn_status parts_of(spark_rpc *rpc, const char *text, char ***parts, size_t *count, trn_error **error) {
  *count = 0;
  if (!text || !*text) return TRN_OK;
  return spark__sql_parse_multipart_identifier(rpc->arena, text, strlen(text), NULL, parts, count, error);
}

trn_status spark__name_of(spark_rpc *rpc, const char *text, spark_table_name *out, trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  bool sensitive = spark__config_bool(rpc->session, "spark.sql.caseSensitive");
  trn_status status = parts_of(rpc, text, &parts, &count, error);
  if (status) return status;
  return spark__table_name(rpc->arena, rpc->session->session, sensitive, NULL, parts, count, out, error);
}

typedef struct looked_for {
  const char *name;
  bool found;
} looked_for;

static void compare_database(void *user, const trn_database_info *database) {
  looked_for *look = user;
  if (strcmp(database->name, look->name) == 0) look->found = true;
}

bool spark__database_exists(spark_rpc *rpc, const spark_table_name *name) {
  looked_for look = {.name = name->database};
  return trn_catalog_list_databases(name->catalog, rpc->session->session, compare_database, &look, NULL) == TRN_OK &&
         look.found;
}

trn_status spark__database_of(spark_rpc *rpc, const char *text, bool must_exist, spark_table_name *out,
                              trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  bool sensitive = spark__config_bool(rpc->session, "spark.sql.caseSensitive");
  trn_status status = parts_of(rpc, text, &parts, &count, error);
  if (!status) status = spark__database_name(rpc->arena, rpc->session->session, sensitive, parts, count, out, error);
  if (status || !must_exist || spark__database_exists(rpc, out)) return status;
  const char *shown = spark__table_text(rpc->arena, out, true);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_NOT_FOUND, "SCHEMA_NOT_FOUND", "schemaName", shown, NULL, NULL, NULL, NULL);
}

static void drop_table(void *table) {
  trn_table_unref(table);
}

trn_status spark__find_table(spark_rpc *rpc, const spark_table_name *name, trn_table **out, trn_error **error) {
  trn_error *failure = NULL;
  trn_status status =
      trn_catalog_get_table(name->catalog, rpc->session->session, name->database, name->name, out, &failure);
  if (status == TRN_NOT_FOUND) {
    trn_error_unref(failure);
    *out = NULL;
    return TRN_OK;
  }
  if (status) {
    if (error) *error = failure;
    else trn_error_unref(failure);
    return status;
  }
  if (trn__arena_own(rpc->arena, drop_table, *out)) return TRN_OK;
  trn_table_unref(*out);
  return trn__no_memory(error);
}

trn_status spark__no_such_table(spark_rpc *rpc, const char *shown, trn_error **error) {
  char *database = NULL, *catalog = NULL;
  const char *path = "[]";
  if (trn_session_namespace(rpc->session->session, &catalog, &database, NULL) == TRN_OK)
    path = trn__arena_printf(rpc->arena, "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`%s`]", database);
  free(catalog), free(database);
  if (!shown || !path) return trn__no_memory(error);
  return spark__raise(error, TRN_NOT_FOUND, "TABLE_OR_VIEW_NOT_FOUND", "relationName", shown, "searchPath", path, NULL,
                      NULL);
}

/* The name as it was written, each part in backticks. */
static const char *as_written(spark_rpc *rpc, const char *text) {
  char **parts = NULL;
  size_t count = 0;
  trn_strbuf out = {0};
  if (parts_of(rpc, text, &parts, &count, NULL)) return NULL;
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&out, "%s`%s`", i ? "." : "", parts[i]);
  const char *copy = out.failed ? NULL : trn__arena_strdup(rpc->arena, out.data ? out.data : "");
  trn__strbuf_finish(&out);
  return copy;
}

trn_status spark__need_table(spark_rpc *rpc, const char *text, spark_table_name *name, trn_table **out,
                             trn_error **error) {
  trn_status status = spark__name_of(rpc, text, name, error);
  if (!status) status = spark__find_table(rpc, name, out, error);
  if (status || *out) return status;
  return spark__no_such_table(rpc, as_written(rpc, text), error);
}

bool spark__is_temp_view(spark_rpc *rpc, const char *text) {
  char **parts = NULL;
  size_t count = 0;
  if (parts_of(rpc, text, &parts, &count, NULL)) return false;
  if (count == 1) return spark__session_has_view(rpc->session, parts[0]);
  if (count != 2 || strcasecmp(parts[0], "global_temp") != 0) return false;
  const char *name = trn__arena_printf(rpc->arena, "global_temp.%s", parts[1]);
  return name && spark__session_has_view(rpc->session, name);
}

/* ---- errors ---- */

trn_status spark__refuse_temp_view(spark_rpc *rpc, const char *text, const char *operation, bool permanent, trn_error **error) {
  if (!spark__is_temp_view(rpc, text)) return TRN_OK;
  const char *shown = as_written(rpc, text);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_INVALID_ARGUMENT, permanent ? "EXPECT_PERMANENT_VIEW_NOT_TEMP" : "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE",
                      "viewName", shown, "operation", operation, NULL, NULL);
}

trn_status spark__no_operation(spark_rpc *rpc, const spark_table_name *name, const char *operation, trn_error **error) {
  const char *shown = spark__table_text(rpc->arena, name, true);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_UNIMPLEMENTED, "UNSUPPORTED_FEATURE.TABLE_OPERATION", "tableName", shown, "operation",
                      operation, NULL, NULL);
}

/* ---- commands ---- */

trn_status spark__run_command(spark_rpc *rpc, const spark_table_name *name, trn_command *command, trn_error **error) {
  const char *parts[] = {trn_catalog_name(name->catalog), name->database, name->name};
  trn_operation *operation = NULL;
  command->struct_size = sizeof *command;
  command->name = parts;
  command->name_count = *name->name ? 3 : 2;
  trn_status status = trn_command_execute(rpc->session->session, command, &operation, NULL, NULL, error);
  trn_operation_unref(operation); /* none of these has rows */
  return status;
}

trn_status spark__properties_of(spark_rpc *rpc, Spark__Connect__TrnProperty *const *list, size_t count, const trn_kv **out,
                                size_t *out_count, trn_error **error) {
  trn_kv *pairs = TRN_NEW_N(rpc->arena, trn_kv, count);
  size_t made = 0;
  if (!pairs) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < made && strcmp(pairs[at].key, list[i]->key) != 0) at++;
    pairs[at] = (trn_kv){list[i]->key, list[i]->value ? list[i]->value : ""};
    if (at == made) made++;
  }
  *out = pairs;
  *out_count = made;
  return TRN_OK;
}

static const char *literal_text(spark_rpc *rpc, const trn_literal *literal, const trn_type *type) {
  if (literal->is_null) return NULL;
  if (type->id != TRN_TYPE_STRING) return NULL;
  return trn__arena_str(rpc->arena, literal->value.bytes.data, literal->value.bytes.size);
}

/* A constant's text as a directory has it, cast to the column's type. */
static trn_status constant_text(spark_rpc *rpc, const Spark__Connect__Expression *expression, const trn_field *field,
                                const char **out, trn_error **error) {
  spark_translator translator;
  spark_context context;
  spark_value value;
  const trn_expr *cast = NULL, *constant = NULL;
  trn_status status =
      spark__translator_init(&translator, rpc->session->session, rpc->session->catalog, error);
  if (status) return status;
  spark_translator *t = &translator;
  t->locals = rpc->locals;
  spark_scope *nothing = spark__scope_create(t, NULL, 0);
  if (!nothing) status = trn__no_memory(error);
  if (!status) {
    spark__context_begin(t, &context, nothing);
    status = spark__expression(t, expression, &value, error);
    spark__context_end(t, &context);
  }
  if (!status) status = spark__cast(t, value.expr, field->type, SPARK_CAST_ANSI, (trn_position){-1, -1}, &cast, error);
  if (!status)
    status = spark__cast(t, cast, trn__type(TRN_TYPE_STRING), SPARK_CAST_LEGACY, (trn_position){-1, -1}, &cast, error);
  if (!status) {
    value.expr = cast;
    status = spark__evaluate(t, &value, &constant, error);
  }
  if (!status && constant->kind == TRN_EXPR_LITERAL) *out = literal_text(rpc, &constant->u.literal, constant->type);
  trn__arena_unref(translator.arena);
  return status;
}

trn_status spark__partition_spec(spark_rpc *rpc, const trn_table_info *info, Spark__Connect__TrnPartition *const *list,
                                 size_t count, const trn_kv **out, size_t *out_count, trn_error **error) {
  const trn_field *fields = NULL;
  uint32_t field_count = 0;
  trn_kv *pairs = TRN_NEW_N(rpc->arena, trn_kv, count);
  trn_status status = pairs ? spark__table_fields(rpc->arena, info, &fields, &field_count, error) : trn__no_memory(error);
  size_t made = 0;
  for (size_t i = 0; i < count && !status; i++) {
    uint32_t at = 0;
    size_t level = 0;
    while (level < info->partition_column_count && strcasecmp(info->partition_columns[level], list[i]->column) != 0) level++;
    if (level == info->partition_column_count) {
      const char *quoted = trn__arena_printf(rpc->arena, "`%s`", list[i]->column);
      const char *table = trn__arena_printf(rpc->arena, "`spark_catalog`.`%s`.`%s`", info->database, info->name);
      if (!quoted || !table) return trn__no_memory(error);
      return spark__raise(error, TRN_NOT_FOUND, "PARTITIONS_NOT_FOUND", "partitionList", quoted, "tableName", table, NULL,
                          NULL);
    }
    while (at < field_count && strcmp(fields[at].name, info->partition_columns[level]) != 0) at++;
    if (!list[i]->value || at == field_count) continue;
    const char *text = NULL;
    status = constant_text(rpc, list[i]->value, &fields[at], &text, error);
    pairs[made++] = (trn_kv){info->partition_columns[level], text};
  }
  *out = pairs;
  *out_count = made;
  return status;
}

trn_status spark__table_format(spark_rpc *rpc, const char *given, const char **out, trn_error **error) {
  static const char *const formats[] = {"parquet", "csv", "json", "arrow"};
  static const char *const known[] = {"orc", "text", "avro", "jdbc", "xml", "binaryfile", "hive"};
  (void)rpc;
  if (!given || !*given) given = "parquet";
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcasecmp(formats[i], given) == 0) {
      *out = formats[i];
      return TRN_OK;
    }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcasecmp(known[i], given) == 0)
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Tables of the format %s are not supported", known[i]);
  return spark__raise(error, TRN_INVALID_ARGUMENT, "DATA_SOURCE_NOT_FOUND", "provider", given, NULL, NULL, NULL, NULL);
}

const char *spark__kind_text(trn_table_kind kind) {
  return kind == TRN_TABLE_VIEW ? "VIEW" : kind == TRN_TABLE_EXTERNAL ? "EXTERNAL" : "MANAGED";
}
