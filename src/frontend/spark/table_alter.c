/* ALTER TABLE and VIEW, DROP, TRUNCATE, partitions, databases, caching, MERGE's refusal. */
#include <strings.h>

#include "arrow/arrow_util.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/tables.h"

typedef struct alteration {
  spark_rpc *rpc;
  const Spark__Connect__TrnAlterTable *message;
  spark_table_name name;
  const trn_table_info *info;
  const trn_field *fields;
  uint32_t count;
  const char **comments, **defaults;
  trn_error **error;
} alteration;

/* ---- a table's definition, changed ---- */

static trn_status read_columns(alteration *a) {
  trn_status status = spark__table_fields(a->rpc->arena, a->info, &a->fields, &a->count, a->error);
  a->comments = TRN_NEW_N(a->rpc->arena, const char *, a->count);
  a->defaults = TRN_NEW_N(a->rpc->arena, const char *, a->count);
  if (!a->comments || !a->defaults) return trn__no_memory(a->error);
  for (uint32_t i = 0; !status && i < a->count; i++) {
    a->comments[i] = spark__column_text(a->rpc->arena, a->info->schema->children[i], TRN_COLUMN_COMMENT);
    a->defaults[i] = spark__column_text(a->rpc->arena, a->info->schema->children[i], TRN_COLUMN_DEFAULT);
  }
  return status;
}

static trn_status store(alteration *a, const trn_table_info *info) {
  trn_command command = {.kind = TRN_COMMAND_ALTER_TABLE, .table = info, .expected_version = a->info->version};
  return spark__run_command(a->rpc, &a->name, &command, a->error);
}

static trn_status store_columns(alteration *a) {
  struct ArrowSchema schema;
  trn_table_info info = *a->info;
  trn_status status = spark__table_schema(a->fields, a->count, a->comments, a->defaults, &schema, a->error);
  if (status) return status;
  info.schema = &schema;
  status = store(a, &info);
  trn__schema_release(&schema);
  return status;
}

static trn_status no_column(alteration *a, const char *name) {
  trn_strbuf all = {0};
  for (uint32_t i = 0; i < a->count; i++) trn__strbuf_printf(&all, "%s`%s`", i ? ", " : "", a->fields[i].name);
  const char *quoted = trn__arena_printf(a->rpc->arena, "`%s`", name);
  trn_status status = all.failed || !quoted
                          ? trn__no_memory(a->error)
                          : spark__raise(a->error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN.WITH_SUGGESTION", "objectName",
                                         quoted, "proposal", all.data ? all.data : "", NULL, NULL);
  trn__strbuf_finish(&all);
  return status;
}

static trn_status find_column(alteration *a, const char *text, uint32_t *out) {
  char **parts = NULL;
  size_t count = 0;
  bool sensitive = spark__config_bool(a->rpc->session, "spark.sql.caseSensitive");
  trn_status status = spark__sql_parse_attribute_name(a->rpc->arena, text, strlen(text), &parts, &count, a->error);
  if (status) return status;
  for (uint32_t i = 0; count == 1 && i < a->count; i++)
    if ((sensitive ? strcmp : strcasecmp)(a->fields[i].name, parts[0]) == 0) {
      *out = i;
      return TRN_OK;
    }
  return no_column(a, count ? parts[count - 1] : text);
}

/* Behind the table's own columns, before those of partitions. */
static trn_status add_columns(alteration *a) {
  const Spark__Connect__TrnAlterTable *m = a->message;
  uint32_t added = (uint32_t)m->n_columns, own = a->count - (uint32_t)a->info->partition_column_count;
  trn_field *fields = TRN_NEW_N(a->rpc->arena, trn_field, a->count + added);
  const char **comments = TRN_NEW_N(a->rpc->arena, const char *, a->count + added);
  const char **defaults = TRN_NEW_N(a->rpc->arena, const char *, a->count + added);
  if (!fields || !comments || !defaults) return trn__no_memory(a->error);
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t to = i < own ? i : i + added;
    fields[to] = a->fields[i], comments[to] = a->comments[i], defaults[to] = a->defaults[i];
  }
  for (uint32_t i = 0; i < added; i++) {
    const Spark__Connect__TrnColumn *column = m->columns[i];
    char **parts = NULL;
    size_t count = 0;
    trn_status status = spark__sql_parse_attribute_name(a->rpc->arena, column->name, strlen(column->name), &parts, &count, a->error);
    if (!status) status = spark__type_from_proto(a->rpc->arena, column->type, &fields[own + i].type, a->error);
    if (status) return status;
    fields[own + i].name = parts[count - 1];
    fields[own + i].nullable = true;
    comments[own + i] = column->comment && *column->comment ? column->comment : NULL;
    defaults[own + i] = column->default_text && *column->default_text ? column->default_text : NULL;
    for (uint32_t k = 0; k < a->count + i; k++) {
      uint32_t at = k < own ? k : k < a->count ? k + added : own + k - a->count;
      if (strcasecmp(fields[at].name, fields[own + i].name) == 0) {
        const char *quoted = trn__arena_printf(a->rpc->arena, "`%s`", fields[own + i].name);
        return spark__raise(a->error, TRN_ALREADY_EXISTS, "COLUMN_ALREADY_EXISTS", "columnName", quoted ? quoted : "", NULL,
                            NULL, NULL, NULL);
      }
    }
  }
  a->fields = fields, a->comments = comments, a->defaults = defaults;
  a->count += added;
  return store_columns(a);
}

static const char *quoted_type(alteration *a, const trn_type *type) {
  trn_strbuf text = {0};
  spark__type_sql(&text, type);
  const char *out = text.failed ? NULL : trn__arena_printf(a->rpc->arena, "\"%s\"", text.data);
  trn__strbuf_finish(&text);
  return out;
}

static trn_status change_type(alteration *a, uint32_t at, const trn_type *type) {
  if (trn__type_equal(a->fields[at].type, type)) return TRN_OK;
  const char *table = spark__table_text(a->rpc->arena, &a->name, true), *from = quoted_type(a, a->fields[at].type);
  const char *to = quoted_type(a, type), *name = trn__arena_printf(a->rpc->arena, "`%s`", a->fields[at].name);
  if (!table || !from || !to || !name) return trn__no_memory(a->error);
  const trn_error_param params[] = {{"table", table}, {"originName", name}, {"originType", from}, {"newName", name}, {"newType", to}};
  const trn_error_spec spec = {.struct_size = sizeof spec, .status = TRN_INVALID_ARGUMENT,
                               .condition = "NOT_SUPPORTED_CHANGE_COLUMN", .params = params, .param_count = 5};
  if (a->error) *a->error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

static trn_status alter_column(alteration *a) {
  const Spark__Connect__TrnAlterTable *m = a->message;
  const Spark__Connect__TrnColumn *column = m->n_columns ? m->columns[0] : NULL;
  uint32_t at = 0;
  trn_status status = find_column(a, column ? column->name : m->names[0], &at);
  const trn_type *type = NULL;
  if (!status && column && column->type) status = spark__type_from_proto(a->rpc->arena, column->type, &type, a->error);
  if (!status && type) status = change_type(a, at, type);
  if (status) return status;
  if (strcmp(m->action, "column comment") == 0) a->comments[at] = column->comment && *column->comment ? column->comment : NULL;
  if (strcmp(m->action, "column set default") == 0) a->defaults[at] = column->default_text;
  if (strcmp(m->action, "column drop default") == 0) a->defaults[at] = NULL;
  return store_columns(a);
}

/* ---- properties ---- */

static trn_status set_properties(alteration *a, bool unset) {
  const Spark__Connect__TrnAlterTable *m = a->message;
  trn_kv *all = TRN_NEW_N(a->rpc->arena, trn_kv, a->info->property_count + m->n_properties);
  size_t count = 0;
  trn_table_info info = *a->info;
  if (!all) return trn__no_memory(a->error);
  for (size_t i = 0; i < info.property_count; i++) {
    bool named = false;
    for (size_t k = 0; k < m->n_properties; k++) named |= strcmp(m->properties[k]->key, info.properties[i].key) == 0;
    if (!named) all[count++] = info.properties[i];
  }
  for (size_t k = 0; k < m->n_properties && !unset; k++) {
    trn_kv given = {m->properties[k]->key, m->properties[k]->value ? m->properties[k]->value : ""};
    if (!m->view || strcmp(given.key, SPARK_VIEW_MODE) != 0) {
      all[count++] = given;
      continue;
    }
    /* ALTER VIEW .. WITH SCHEMA: as CREATE VIEW keeps it */
    info.options = trn__arena_copy(a->rpc->arena, &given, sizeof given), info.option_count = 1;
    if (!info.options) return trn__no_memory(a->error);
  }
  info.properties = all, info.property_count = count;
  for (size_t k = 0; k < m->n_properties; k++)
    if (strcmp(m->properties[k]->key, "comment") == 0) info.comment = unset ? NULL : m->properties[k]->value;
  return store(a, &info);
}

/* ---- the rest ---- */

static trn_status rename_table(alteration *a) {
  char **parts = NULL;
  size_t count = 0;
  const char *to = a->message->to;
  bool sensitive = spark__config_bool(a->rpc->session, "spark.sql.caseSensitive");
  trn_status status = spark__sql_parse_multipart_identifier(a->rpc->arena, to, strlen(to), NULL, &parts, &count, a->error);
  if (status) return status;
  for (size_t i = 0; i < count && !sensitive; i++)
    for (char *c = parts[i]; *c; c++)
      if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  if (count == 3 && strcasecmp(parts[0], SPARK_CATALOG) == 0) parts++, count--;
  trn_command command = {.kind = TRN_COMMAND_RENAME_TABLE, .to = (const char *const *)parts, .to_count = count};
  return spark__run_command(a->rpc, &a->name, &command, a->error);
}

static trn_status not_partitioned(alteration *a, const char *operation) {
  const char *shown = spark__table_text(a->rpc->arena, &a->name, true);
  if (!shown) return trn__no_memory(a->error);
  return spark__raise(a->error, TRN_INVALID_ARGUMENT, "NOT_A_PARTITIONED_TABLE", "operation", operation, "tableIdentWithDB",
                      shown, NULL, NULL);
}

static trn_status change_partitions(alteration *a, bool add) {
  const Spark__Connect__TrnAlterTable *m = a->message;
  const trn_kv *pairs = NULL;
  size_t count = 0;
  if (!a->info->partition_column_count)
    return trn_error_set(a->error, TRN_INVALID_ARGUMENT, NULL,
                         "ALTER TABLE %s PARTITION is not allowed on %s since its partition metadata is not stored in the "
                         "Hive metastore. To import this information into the metastore, run `msck repair table %s`.",
                         add ? "ADD" : "DROP", a->info->name, a->info->name);
  trn_status status = spark__partition_spec(a->rpc, a->info, m->partitions, m->n_partitions, &pairs, &count, a->error);
  if (status) return status;
  trn_command command = {.kind = TRN_COMMAND_DROP_PARTITIONS, .partition = pairs, .partition_count = count, .if_exists = m->if_exists};
  if (!add) return spark__run_command(a->rpc, &a->name, &command, a->error);
  const char **values = TRN_NEW_N(a->rpc->arena, const char *, a->info->partition_column_count);
  if (!values) return trn__no_memory(a->error);
  for (size_t i = 0; i < a->info->partition_column_count; i++)
    for (size_t k = 0; k < count; k++)
      if (strcmp(pairs[k].key, a->info->partition_columns[i]) == 0) values[i] = pairs[k].value;
  const trn_partition_info partition = {.struct_size = sizeof partition, .values = values,
                                        .value_count = a->info->partition_column_count};
  command = (trn_command){.kind = TRN_COMMAND_ADD_PARTITIONS, .partitions = &partition, .partition_info_count = 1,
                          .if_not_exists = m->if_exists};
  return spark__run_command(a->rpc, &a->name, &command, a->error);
}

static trn_status set_location(alteration *a) {
  trn_table_info info = *a->info;
  if (info.kind != TRN_TABLE_EXTERNAL)
    return trn_error_set(a->error, TRN_UNIMPLEMENTED, NULL, "The location of a managed table cannot be changed");
  info.location = a->message->to;
  return store(a, &info);
}

static trn_status alter_view_query(alteration *a) {
  const Spark__Connect__TrnAlterTable *m = a->message;
  Spark__Connect__TrnCreateView view = SPARK__CONNECT__TRN_CREATE_VIEW__INIT;
  view.name = m->name;
  view.query = m->query;
  view.query_text = m->query_text;
  view.replace = true;
  view.comment = (char *)(a->info->comment ? a->info->comment : "");
  return spark__create_view(a->rpc, &view, a->error);
}

static trn_status on_columns(alteration *a) {
  const char *action = a->message->action;
  static const char *const refused[][2] = {{"rename column", "RENAME COLUMN"},
                                           {"drop columns", "DROP COLUMN"},
                                           {"column set not null", "ALTER COLUMN ... SET NOT NULL"},
                                           {"column drop not null", "ALTER COLUMN ... DROP NOT NULL"},
                                           {"column position", "ALTER COLUMN ... FIRST | AFTER"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strcmp(refused[i][0], action) == 0) return spark__no_operation(a->rpc, &a->name, refused[i][1], a->error);
  trn_status status = read_columns(a);
  if (status) return status;
  return strcmp(action, "add columns") == 0 ? add_columns(a) : alter_column(a);
}

static trn_status alter(alteration *a) {
  const char *action = a->message->action;
  if (strcmp(action, "rename") == 0) return rename_table(a);
  if (strcmp(action, "set properties") == 0) return set_properties(a, false);
  if (strcmp(action, "unset properties") == 0) return set_properties(a, true);
  if (strcmp(action, "add partition") == 0) return change_partitions(a, true);
  if (strcmp(action, "drop partition") == 0) return change_partitions(a, false);
  if (strcmp(action, "set location") == 0) return set_location(a);
  if (strcmp(action, "query") == 0) return alter_view_query(a);
  if (strcmp(action, "recover partitions") == 0) {
    trn_command command = {.kind = TRN_COMMAND_RECOVER_PARTITIONS};
    if (!a->info->partition_column_count) return not_partitioned(a, "ALTER TABLE RECOVER PARTITIONS");
    return spark__run_command(a->rpc, &a->name, &command, a->error);
  }
  return on_columns(a);
}

trn_status spark__alter_table(spark_rpc *rpc, const Spark__Connect__TrnAlterTable *message, trn_error **error) {
  alteration a = {.rpc = rpc, .message = message, .error = error};
  trn_table *table = NULL;
  trn_status status = spark__need_table(rpc, message->name, &a.name, &table, error);
  if (status) return status;
  a.info = trn_table_get_info(table);
  bool is_view = a.info->kind == TRN_TABLE_VIEW;
  if (is_view == message->view) return alter(&a);
  const char *written = trn__arena_printf(rpc->arena, "`%s`", message->name);
  if (!written) return trn__no_memory(error);
  return is_view ? spark__raise(error, TRN_INVALID_ARGUMENT, "EXPECT_TABLE_NOT_VIEW.USE_ALTER_VIEW", "viewName", written,
                                "operation", "ALTER TABLE", NULL, NULL)
                 : spark__raise(error, TRN_INVALID_ARGUMENT, "EXPECT_VIEW_NOT_TABLE.USE_ALTER_TABLE", "tableName", written,
                                "operation", "ALTER VIEW", NULL, NULL);
}

/* ---- DROP ---- */

trn_status spark__drop_table(spark_rpc *rpc, const char *text, bool is_view, bool if_exists, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  trn_status status = spark__name_of(rpc, text, &name, error);
  if (!status) status = spark__find_table(rpc, &name, &table, error);
  if (status) return status;
  if (!table) return if_exists ? TRN_OK : spark__no_such_table(rpc, spark__table_text(rpc->arena, &name, true), error);
  trn_table_kind kind = trn_table_get_info(table)->kind;
  if (is_view && kind != TRN_TABLE_VIEW) {
    const char *shown = spark__table_text(rpc->arena, &name, false);
    if (!shown) return trn__no_memory(error);
    const trn_error_param params[] = {{"operation", "DROP VIEW"}, {"requiredType", "VIEW or METRIC_VIEW"}, {"objectName", shown},
                                      {"foundType", spark__kind_text(kind)}, {"alternative", "DROP TABLE"}};
    const trn_error_spec spec = {.struct_size = sizeof spec, .status = TRN_INVALID_ARGUMENT,
                                 .condition = "WRONG_COMMAND_FOR_OBJECT_TYPE", .params = params, .param_count = 5};
    if (error) *error = trn_error_create(&spec);
    return TRN_INVALID_ARGUMENT;
  }
  trn_command command = {.kind = kind == TRN_TABLE_VIEW ? TRN_COMMAND_DROP_VIEW : TRN_COMMAND_DROP_TABLE, .if_exists = if_exists};
  return spark__run_command(rpc, &name, &command, error);
}

trn_status spark__refuse_change(spark_rpc *rpc, const char *text, const char *operation, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  trn_status status = TRN_OK;
  if (spark__is_temp_view(rpc, text)) name = (spark_table_name){.name = text};
  else status = spark__need_table(rpc, text, &name, &table, error);
  return status ? status : spark__no_operation(rpc, &name, operation, error);
}

/* ---- TRUNCATE, REPAIR, ANALYZE ---- */

static trn_status truncate(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  const trn_kv *pairs = NULL;
  size_t count = 0;
  trn_status status = spark__refuse_temp_view(rpc, s->name, "TRUNCATE TABLE", false, error);
  if (!status) status = spark__need_table(rpc, s->name, &name, &table, error);
  if (status) return status;
  const trn_table_info *info = trn_table_get_info(table);
  const char *shown = spark__table_text(rpc->arena, &name, true);
  if (!shown) return trn__no_memory(error);
  if (info->kind == TRN_TABLE_VIEW)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "viewName", shown, "operation",
                        "TRUNCATE TABLE", NULL, NULL);
  if (info->kind == TRN_TABLE_EXTERNAL)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "CANNOT_TRUNCATE_EXTERNAL_TABLE", "tableName", shown, NULL, NULL, NULL, NULL);
  status = spark__partition_spec(rpc, info, s->partitions, s->n_partitions, &pairs, &count, error);
  trn_command command = {.kind = TRN_COMMAND_TRUNCATE_TABLE, .partition = pairs, .partition_count = count};
  return status ? status : spark__run_command(rpc, &name, &command, error);
}

trn_status spark__truncate_table(spark_rpc *rpc, const char *name, trn_error **error) {
  Spark__Connect__TrnTableStatement statement = SPARK__CONNECT__TRN_TABLE_STATEMENT__INIT;
  statement.name = (char *)name;
  return truncate(rpc, &statement, error);
}

trn_status spark__recover_partitions(spark_rpc *rpc, const char *text, const char *operation, trn_error **error) {
  alteration a = {.rpc = rpc, .error = error};
  trn_table *table = NULL;
  trn_command command = {.kind = TRN_COMMAND_RECOVER_PARTITIONS};
  trn_status status = spark__refuse_temp_view(rpc, text, operation, false, error);
  if (!status) status = spark__need_table(rpc, text, &a.name, &table, error);
  if (status) return status;
  a.info = trn_table_get_info(table);
  if (!a.info->partition_column_count) return not_partitioned(&a, operation);
  return spark__run_command(rpc, &a.name, &command, error);
}

trn_status spark__analyze_table(spark_rpc *rpc, const char *text, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  trn_command command = {.kind = TRN_COMMAND_ANALYZE_TABLE};
  trn_status status = spark__refuse_temp_view(rpc, text, "ANALYZE TABLE", true, error);
  if (!status) status = spark__need_table(rpc, text, &name, &table, error);
  return status ? status : spark__run_command(rpc, &name, &command, error);
}

/* ---- databases ---- */

typedef struct found_database {
  spark_rpc *rpc;
  const char *name;
  trn_database_info info;
  bool found, failed;
} found_database;

static void keep_database(void *user, const trn_database_info *info) {
  found_database *f = user;
  if (strcmp(info->name, f->name) != 0) return;
  trn_kv *properties = TRN_NEW_N(f->rpc->arena, trn_kv, info->property_count);
  f->found = true;
  f->info = *info;
  f->info.name = trn__arena_strdup(f->rpc->arena, info->name);
  f->info.comment = info->comment ? trn__arena_strdup(f->rpc->arena, info->comment) : NULL;
  f->info.location = info->location ? trn__arena_strdup(f->rpc->arena, info->location) : NULL;
  f->info.owner = info->owner ? trn__arena_strdup(f->rpc->arena, info->owner) : NULL;
  f->info.properties = properties;
  f->failed = !properties || !f->info.name;
  for (size_t i = 0; properties && i < info->property_count; i++) {
    properties[i].key = trn__arena_strdup(f->rpc->arena, info->properties[i].key);
    properties[i].value = trn__arena_strdup(f->rpc->arena, info->properties[i].value ? info->properties[i].value : "");
    f->failed |= !properties[i].key || !properties[i].value;
  }
}

trn_status spark__get_database(spark_rpc *rpc, const char *text, spark_table_name *name, trn_database_info *out,
                               trn_error **error) {
  trn_status status = spark__database_of(rpc, text, true, name, error);
  found_database f = {.rpc = rpc, .name = name->database};
  if (!status) status = trn_catalog_list_databases(name->catalog, rpc->session->session, keep_database, &f, error);
  if (!status && (f.failed || !f.found)) status = trn__no_memory(error);
  *out = f.info;
  return status;
}

static trn_status change_database(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error) {
  spark_table_name name;
  trn_database_info info;
  trn_status status = spark__get_database(rpc, s->name, &name, &info, error);
  if (status) return status;
  if (strcmp(s->what, "comment on database") == 0) {
    info.comment = s->text;
  } else if (strcmp(s->what, "set database location") == 0) {
    info.location = s->text;
  } else {
    trn_kv *all = TRN_NEW_N(rpc->arena, trn_kv, info.property_count + s->n_properties);
    size_t count = info.property_count;
    if (!all) return trn__no_memory(error);
    if (count) memcpy(all, info.properties, count * sizeof *all);
    for (size_t i = 0; i < s->n_properties; i++) {
      size_t at = 0;
      while (at < count && strcmp(all[at].key, s->properties[i]->key) != 0) at++;
      all[at] = (trn_kv){s->properties[i]->key, s->properties[i]->value ? s->properties[i]->value : ""};
      if (at == count) count++;
    }
    info.properties = all, info.property_count = count;
  }
  trn_command command = {.kind = TRN_COMMAND_ALTER_DATABASE, .database = &info};
  return spark__run_command(rpc, &name, &command, error);
}

/* Only letters, digits and _ */
static bool is_plain(const char *name) {
  for (const char *c = name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_')) return false;
  return *name != 0;
}

trn_status spark__create_database(spark_rpc *rpc, const Spark__Connect__CreateDatabase *create, trn_error **error) {
  spark_table_name name;
  trn_status status = spark__database_of(rpc, create->db_name, false, &name, error);
  trn_kv *properties = TRN_NEW_N(rpc->arena, trn_kv, create->n_properties);
  trn_database_info info = {.struct_size = sizeof info, .name = name.database, .owner = rpc->session->user, .properties = properties};
  if (status) return status;
  if (!properties) return trn__no_memory(error);
  if (!is_plain(name.database)) {
    trn_strbuf quoted = {0};
    trn__strbuf_putc(&quoted, '`');
    for (const char *c = name.database; *c; c++) { /* as Spark quotes the parts of what it split at dots */
      if (*c == '.') trn__strbuf_puts(&quoted, "`.`");
      else trn__strbuf_putc(&quoted, *c);
    }
    trn__strbuf_putc(&quoted, '`');
    status = spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_SCHEMA_OR_RELATION_NAME", "name", quoted.data, NULL, NULL, NULL, NULL);
    trn__strbuf_finish(&quoted);
    return status;
  }
  for (size_t i = 0; i < create->n_properties; i++) {
    const char *key = create->properties[i]->key, *value = create->properties[i]->value;
    if (strcmp(key, "comment") == 0) info.comment = value;
    else if (strcmp(key, "location") == 0) info.location = value;
    else properties[info.property_count++] = (trn_kv){key, value};
  }
  trn_command command = {.kind = TRN_COMMAND_CREATE_DATABASE, .database = &info, .if_not_exists = create->if_not_exists};
  return spark__run_command(rpc, &name, &command, error);
}

trn_status spark__drop_database(spark_rpc *rpc, const Spark__Connect__DropDatabase *drop, trn_error **error) {
  spark_table_name name;
  trn_status status = spark__database_of(rpc, drop->db_name, !drop->if_exists, &name, error);
  if (status) return status;
  if (strcmp(name.database, TRN_DEFAULT_DATABASE) == 0) {
    const char *shown = spark__table_text(rpc->arena, &name, true);
    if (!shown) return trn__no_memory(error);
    return spark__raise(error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_FEATURE.DROP_DATABASE", "database", shown, NULL, NULL, NULL, NULL);
  }
  trn_command command = {.kind = TRN_COMMAND_DROP_DATABASE, .if_exists = drop->if_exists, .cascade = drop->cascade};
  return spark__run_command(rpc, &name, &command, error);
}

trn_status spark__use_database(spark_rpc *rpc, const char *text, trn_error **error) {
  spark_table_name name;
  trn_command command = {.kind = TRN_COMMAND_USE};
  trn_status status = spark__database_of(rpc, text, true, &name, error);
  return status ? status : spark__run_command(rpc, &name, &command, error);
}

trn_status spark__use_catalog(spark_rpc *rpc, const char *text, trn_error **error) {
  trn_catalog *catalog = NULL;
  const char *shown = NULL;
  trn_status status = spark__catalog_named(rpc->arena, rpc->session->session, text, &catalog, &shown, error);
  if (status) return status;
  status = trn_session_set_namespace(rpc->session->session, trn_catalog_name(catalog), TRN_DEFAULT_DATABASE);
  return status ? trn__no_memory(error) : TRN_OK;
}

/* ---- statements of sql/maintain.c but those of caching, which catalog_table.c has ---- */

static trn_status comment_on_table(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error) {
  alteration a = {.rpc = rpc, .error = error};
  trn_table *table = NULL;
  trn_status status = spark__refuse_temp_view(rpc, s->name, "COMMENT ON TABLE", false, error);
  if (!status) status = spark__need_table(rpc, s->name, &a.name, &table, error);
  if (status) return status;
  a.info = trn_table_get_info(table);
  trn_table_info info = *a.info;
  info.comment = *s->text ? s->text : NULL;
  return store(&a, &info);
}

trn_status spark__table_statement(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error) {
  if (strcmp(s->what, "comment on table") == 0) return comment_on_table(rpc, s, error);
  if (strcmp(s->what, "analyze") == 0) return spark__analyze_table(rpc, s->name, error);
  if (strcmp(s->what, "repair") == 0) return spark__recover_partitions(rpc, s->name, "MSCK REPAIR TABLE", error);
  if (strcmp(s->what, "truncate") == 0) return truncate(rpc, s, error);
  if (strcmp(s->what, "set catalog") == 0) return spark__use_catalog(rpc, s->name, error);
  if (strcmp(s->what, "merge") == 0) return spark__refuse_change(rpc, s->name, "MERGE INTO TABLE", error);
  return change_database(rpc, s, error);
}
