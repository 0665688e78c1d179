/* CREATE TABLE, CREATE VIEW. */
#include <strings.h>
#include <unistd.h>

#include "arrow/arrow_util.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/tables.h"

/* ---- definitions ---- */

static void release_schema(void *schema) {
  trn__schema_release(schema);
}

static trn_status exists_twice(spark_rpc *rpc, const char *name, trn_error **error) {
  char *quoted = trn__arena_printf(rpc->arena, "`%s`", name);
  if (!quoted) return trn__no_memory(error);
  for (char *c = quoted; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  return spark__raise(error, TRN_ALREADY_EXISTS, "COLUMN_ALREADY_EXISTS", "columnName", quoted, NULL, NULL, NULL, NULL);
}

static trn_status check_names(spark_rpc *rpc, const trn_field *fields, uint32_t count, trn_error **error) {
  bool sensitive = spark__config_bool(rpc->session, "spark.sql.caseSensitive");
  for (uint32_t i = 1; i < count; i++)
    for (uint32_t k = 0; k < i; k++)
      if ((sensitive ? strcmp : strcasecmp)(fields[i].name, fields[k].name) == 0)
        return exists_twice(rpc, fields[i].name, error);
  return TRN_OK;
}

static trn_status not_defined(spark_rpc *rpc, const spark_table_name *name, const spark_new_table *table, const char *column,
                              trn_error **error) {
  trn_strbuf columns = {0};
  for (uint32_t i = 0; i < table->count; i++) trn__strbuf_printf(&columns, "%s`%s`", i ? ", " : "", table->fields[i].name);
  const char *shown = spark__table_text(rpc->arena, name, true);
  const char *quoted = trn__arena_printf(rpc->arena, "`%s`", column);
  trn_status status = TRN_NOT_FOUND;
  if (columns.failed || !shown || !quoted) {
    status = trn__no_memory(error);
  } else {
    const trn_error_param params[] = {
        {"colType", "partition"}, {"colName", quoted}, {"tableName", shown}, {"tableCols", columns.data}};
    const trn_error_spec spec = {.struct_size = sizeof spec, .status = status, .condition = "COLUMN_NOT_DEFINED_IN_TABLE",
                                 .params = params, .param_count = 4};
    if (error) *error = trn_error_create(&spec);
  }
  trn__strbuf_finish(&columns);
  return status;
}

/* order[i]: which field the table's column i is; partition columns last. */
static trn_status order_columns(spark_rpc *rpc, const spark_table_name *name, const spark_new_table *table,
                                uint32_t *order, const char **partitions, trn_error **error) {
  bool sensitive = spark__config_bool(rpc->session, "spark.sql.caseSensitive");
  uint32_t at = 0, last = table->count - (uint32_t)table->partition_count;
  bool *is_partition = TRN_NEW_N(rpc->arena, bool, table->count);
  if (!is_partition) return trn__no_memory(error);
  for (size_t p = 0; p < table->partition_count; p++) {
    uint32_t k = 0;
    while (k < table->count && (sensitive ? strcmp : strcasecmp)(table->fields[k].name, table->partition_by[p]) != 0) k++;
    if (k == table->count) return not_defined(rpc, name, table, table->partition_by[p], error);
    if (is_partition[k]) return exists_twice(rpc, table->partition_by[p], error);
    is_partition[k] = true;
    partitions[p] = trn__arena_strdup(rpc->arena, table->fields[k].name);
    if (!partitions[p]) return trn__no_memory(error);
    order[last + p] = k;
  }
  if (table->partition_count && table->partition_count == table->count)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "ALL_PARTITION_COLUMNS_NOT_ALLOWED", NULL, NULL, NULL, NULL, NULL, NULL);
  for (uint32_t i = 0; i < table->count; i++)
    if (!is_partition[i]) order[at++] = i;
  return TRN_OK;
}

trn_status spark__define_table(spark_rpc *rpc, const spark_table_name *name, const spark_new_table *table,
                               trn_table_info *info, trn_error **error) {
  uint32_t *order = TRN_NEW_N(rpc->arena, uint32_t, table->count);
  trn_field *fields = TRN_NEW_N(rpc->arena, trn_field, table->count);
  const char **comments = TRN_NEW_N(rpc->arena, const char *, table->count);
  const char **defaults = TRN_NEW_N(rpc->arena, const char *, table->count);
  const char **partitions = TRN_NEW_N(rpc->arena, const char *, table->partition_count);
  struct ArrowSchema *schema = TRN_NEW(rpc->arena, struct ArrowSchema);
  if (!order || !fields || !comments || !defaults || !partitions || !schema) return trn__no_memory(error);
  trn_status status = check_names(rpc, table->fields, table->count, error);
  if (!status) status = order_columns(rpc, name, table, order, partitions, error);
  if (status) return status;
  for (uint32_t i = 0; i < table->count; i++) {
    fields[i] = table->fields[order[i]];
    fields[i].nullable = true; /* as Spark's tables over files have them */
    comments[i] = table->comments ? table->comments[order[i]] : NULL;
    defaults[i] = table->defaults ? table->defaults[order[i]] : NULL;
  }
  status = spark__table_schema(fields, table->count, comments, defaults, schema, error);
  if (status) return status;
  if (!trn__arena_own(rpc->arena, release_schema, schema)) {
    trn__schema_release(schema);
    return trn__no_memory(error);
  }
  info->struct_size = sizeof *info;
  info->catalog = trn_catalog_name(name->catalog);
  info->database = name->database;
  info->name = name->name;
  info->schema = schema;
  info->partition_columns = partitions;
  info->partition_column_count = table->partition_count;
  info->row_count = info->byte_count = -1;
  return TRN_OK;
}

/* ---- what a location holds ---- */

static trn_status no_schema(const char *format, trn_error **error) {
  const char *shown = strcmp(format, "parquet") == 0 ? "Parquet" : strcmp(format, "csv") == 0 ? "CSV"
                      : strcmp(format, "json") == 0 ? "JSON" : format;
  return spark__raise(error, TRN_INVALID_ARGUMENT, "UNABLE_TO_INFER_SCHEMA", "format", shown, NULL, NULL, NULL, NULL);
}

static Spark__Connect__Relation *read_of(spark_rpc *rpc, const char *format, const char *location, const trn_kv *options,
                                         size_t count) {
  Spark__Connect__Relation *relation = TRN_NEW(rpc->arena, Spark__Connect__Relation);
  Spark__Connect__Read *read = TRN_NEW(rpc->arena, Spark__Connect__Read);
  Spark__Connect__Read__DataSource *source = TRN_NEW(rpc->arena, Spark__Connect__Read__DataSource);
  char **paths = TRN_NEW_N(rpc->arena, char *, 1);
  if (!relation || !read || !source || !paths) return NULL;
  spark__connect__relation__init(relation);
  spark__connect__read__init(read);
  spark__connect__read__data_source__init(source);
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation->read = read;
  read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE;
  read->data_source = source;
  source->_format_case = SPARK__CONNECT__READ__DATA_SOURCE___FORMAT_FORMAT;
  source->format = (char *)format;
  paths[0] = (char *)location;
  source->paths = paths;
  source->n_paths = 1;
  source->options = TRN_NEW_N(rpc->arena, Spark__Connect__Read__DataSource__OptionsEntry *, count);
  for (size_t i = 0; source->options && i < count; i++) {
    Spark__Connect__Read__DataSource__OptionsEntry *entry = TRN_NEW(rpc->arena, Spark__Connect__Read__DataSource__OptionsEntry);
    if (!entry) return NULL;
    spark__connect__read__data_source__options_entry__init(entry);
    entry->key = (char *)options[i].key, entry->value = (char *)options[i].value;
    if (strcasecmp(entry->key, "path") != 0) source->options[source->n_options++] = entry;
  }
  return source->options ? relation : NULL;
}

static trn_status find_levels(spark_rpc *rpc, const char *location, spark_new_table *out, trn_error **error) {
  spark_translator translator;
  spark_partitions found = {0};
  trn_status status = spark__translator_init(&translator, rpc->session->session, rpc->session->catalog, error);
  if (status) return status;
  status = spark__partitions(&translator, &location, 1, true, &found, error);
  char **names = status ? NULL : TRN_NEW_N(rpc->arena, char *, found.count);
  if (!status && !names) status = trn__no_memory(error);
  for (uint32_t i = 0; !status && i < found.count; i++)
    if (!(names[i] = trn__arena_strdup(rpc->arena, found.names[i]))) status = trn__no_memory(error);
  out->partition_by = names;
  out->partition_count = found.count;
  trn__arena_unref(translator.arena);
  return status;
}

static void drop_plan(void *plan) {
  trn_plan_unref(plan);
}

trn_status spark__infer_table(spark_rpc *rpc, const char *format, const char *location, const trn_kv *options,
                              size_t option_count, spark_new_table *out, trn_error **error) {
  trn_plan *plan = NULL;
  trn_error *why = NULL;
  if (!location) return no_schema(format, error);
  const char *local = strncmp(location, "file:", 5) == 0 ? location + 5 : location;
  Spark__Connect__Relation *relation = read_of(rpc, format, location, options, option_count);
  if (!relation) return trn__no_memory(error);
  const char *sql = rpc->sql;
  trn_status status = spark__plan_relation(rpc, relation, &plan, &why);
  rpc->sql = sql;
  /* Whether there is anything is told to who may read it. */
  bool is_missing = status && why && trn_error_condition(why) && strcmp(trn_error_condition(why), "PATH_NOT_FOUND") == 0;
  if (status && !is_missing && error) *error = trn_error_ref(why);
  trn_error_unref(why);
  if (is_missing) return no_schema(format, error);
  if (status) return status;
  if (!trn__arena_own(rpc->arena, drop_plan, plan)) {
    trn_plan_unref(plan);
    return trn__no_memory(error);
  }
  if (!plan->field_count) return no_schema(format, error);
  out->fields = plan->fields;
  out->count = plan->field_count;
  return find_levels(rpc, local, out, error);
}

/* ---- CREATE TABLE ---- */

typedef struct creation {
  spark_rpc *rpc;
  const Spark__Connect__TrnCreateTable *message;
  spark_table_name name;
  spark_new_table table;
  trn_table_info info;
  trn_error **error;
} creation;

static trn_status columns_of(creation *c) {
  size_t count = c->message->n_columns;
  trn_field *fields = TRN_NEW_N(c->rpc->arena, trn_field, count);
  const char **comments = TRN_NEW_N(c->rpc->arena, const char *, count);
  const char **defaults = TRN_NEW_N(c->rpc->arena, const char *, count);
  if (!fields || !comments || !defaults) return trn__no_memory(c->error);
  for (size_t i = 0; i < count; i++) {
    const Spark__Connect__TrnColumn *column = c->message->columns[i];
    trn_status status = spark__type_from_proto(c->rpc->arena, column->type, &fields[i].type, c->error);
    if (status) return status;
    if (column->generated_text && *column->generated_text)
      return spark__no_operation(c->rpc, &c->name, "GENERATED COLUMN", c->error);
    fields[i].name = column->name;
    fields[i].nullable = true;
    comments[i] = column->comment && *column->comment ? column->comment : NULL;
    defaults[i] = column->default_text && *column->default_text ? column->default_text : NULL;
  }
  c->table.fields = fields;
  c->table.count = (uint32_t)count;
  c->table.comments = comments;
  c->table.defaults = defaults;
  return TRN_OK;
}

static trn_status partitions_of(creation *c) {
  size_t count = c->message->n_partition_by;
  char **names = TRN_NEW_N(c->rpc->arena, char *, count);
  if (!names) return trn__no_memory(c->error);
  for (size_t i = 0; i < count; i++) {
    const Spark__Connect__Expression *e = c->message->partition_by[i];
    if (e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE)
      return trn_error_set(c->error, TRN_UNIMPLEMENTED, NULL, "Partitioning by an expression is not supported: only by columns");
    char **parts = NULL;
    size_t part_count = 0;
    const char *text = e->unresolved_attribute->unparsed_identifier;
    trn_status status = spark__sql_parse_attribute_name(c->rpc->arena, text, strlen(text), &parts, &part_count, c->error);
    if (status) return status;
    names[i] = parts[part_count - 1];
  }
  c->table.partition_by = names;
  c->table.partition_count = count;
  return TRN_OK;
}

static trn_status bucket_info(creation *c) {
  c->info.bucket_count = (uint32_t)c->message->bucket_count;
  c->info.bucket_columns = (const char *const *)c->message->bucket_columns;
  c->info.bucket_column_count = c->message->n_bucket_columns;
  c->info.sort_columns = (const char *const *)c->message->bucket_sort;
  c->info.sort_column_count = c->message->n_bucket_sort;
  return TRN_OK;
}

/* Format, location, options, comment, properties. */
static trn_status clauses_of(creation *c) {
  const Spark__Connect__TrnCreateTable *m = c->message;
  trn_table_info *info = &c->info;
  trn_status status = spark__table_format(c->rpc, m->provider, &info->format, c->error);
  if (!status) status = spark__properties_of(c->rpc, m->options, m->n_options, &info->options, &info->option_count, c->error);
  if (!status)
    status = spark__properties_of(c->rpc, m->properties, m->n_properties, &info->properties, &info->property_count, c->error);
  if (status) return status;
  info->comment = m->comment && *m->comment ? m->comment : NULL;
  info->location = m->location && *m->location ? m->location : NULL;
  for (size_t i = 0; i < info->option_count && !info->location; i++)
    if (strcasecmp(info->options[i].key, "path") == 0) info->location = info->options[i].value;
  size_t kept = 0; /* a path is a location, not an option */
  for (size_t i = 0; i < info->option_count; i++)
    if (strcasecmp(info->options[i].key, "path") != 0) ((trn_kv *)info->options)[kept++] = info->options[i];
  info->option_count = kept;
  if (m->external && !info->location)
    return trn_error_set(c->error, TRN_INVALID_ARGUMENT, NULL, "CREATE EXTERNAL TABLE must be accompanied by LOCATION.");
  info->kind = info->location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  info->owner = c->rpc->session->user;
  return bucket_info(c);
}

/* CREATE TABLE a LIKE b: b's columns. */
static trn_status like(creation *c) {
  spark_table_name source;
  trn_table *table = NULL;
  trn_plan *plan = NULL;
  if (spark__is_temp_view(c->rpc, c->message->like)) {
    trn_status status = spark__plan_table(c->rpc, c->message->like, &plan, c->error);
    if (status) return status;
    if (!trn__arena_own(c->rpc->arena, drop_plan, plan)) {
      trn_plan_unref(plan);
      return trn__no_memory(c->error);
    }
    c->table = (spark_new_table){.fields = plan->fields, .count = plan->field_count};
    return TRN_OK;
  }
  trn_status status = spark__need_table(c->rpc, c->message->like, &source, &table, c->error);
  if (status) return status;
  const trn_table_info *info = trn_table_get_info(table);
  const char **comments = TRN_NEW_N(c->rpc->arena, const char *, (size_t)info->schema->n_children);
  status = comments ? spark__table_fields(c->rpc->arena, info, &c->table.fields, &c->table.count, c->error)
                    : trn__no_memory(c->error);
  for (uint32_t i = 0; !status && i < c->table.count; i++)
    comments[i] = spark__column_text(c->rpc->arena, info->schema->children[i], TRN_COLUMN_COMMENT);
  c->table.comments = comments;
  c->table.partition_by = (char *const *)info->partition_columns;
  c->table.partition_count = info->partition_column_count;
  if (!status && (!c->message->provider || !*c->message->provider) && info->format) c->info.format = info->format;
  return status;
}

static trn_status already_exists(creation *c) {
  const char *shown = spark__table_text(c->rpc->arena, &c->name, true);
  if (!shown) return trn__no_memory(c->error);
  return spark__raise(c->error, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", shown, NULL, NULL, NULL,
                      NULL);
}

static trn_status create_with_rows(creation *c, spark_execution *execution) {
  trn_plan *plan = NULL;
  const char *sql = c->rpc->sql;
  trn_status status = spark__plan_relation(c->rpc, c->message->query, &plan, c->error);
  c->rpc->sql = sql;
  if (status) return status;
  c->table.fields = plan->fields, c->table.count = plan->field_count;
  status = spark__define_table(c->rpc, &c->name, &c->table, &c->info, c->error);
  trn_plan_unref(plan);
  const spark_table_rows rows = {.name = &c->name, .input = c->message->query, .mode = TRN_WRITE_CREATE, .info = &c->info};
  return status ? status : spark__write_table(c->rpc, execution, &rows, c->error);
}

static trn_status create(creation *c, spark_execution *execution, bool *running) {
  const Spark__Connect__TrnCreateTable *m = c->message;
  trn_table *there = NULL;
  trn_status status = spark__name_of(c->rpc, m->name, &c->name, c->error);
  if (!status && m->replace)
    return spark__no_operation(c->rpc, &c->name, m->query ? "REPLACE TABLE AS SELECT" : "REPLACE TABLE", c->error);
  if (!status) status = columns_of(c);
  if (!status) status = partitions_of(c);
  if (!status) status = clauses_of(c);
  if (!status && *m->like) status = like(c);
  if (!status) status = check_names(c->rpc, c->table.fields, c->table.count, c->error);
  if (!status && !spark__database_exists(c->rpc, &c->name)) {
    spark_table_name database = c->name;
    database.name = "";
    const char *shown = spark__table_text(c->rpc->arena, &database, true);
    return shown ? spark__raise(c->error, TRN_NOT_FOUND, "SCHEMA_NOT_FOUND", "schemaName", shown, NULL, NULL, NULL, NULL)
                 : trn__no_memory(c->error);
  }
  if (!status) status = spark__find_table(c->rpc, &c->name, &there, c->error);
  if (status) return status;
  if (there) return m->if_not_exists ? TRN_OK : already_exists(c);
  if (m->query) {
    *running = true;
    return create_with_rows(c, execution);
  }
  if (!c->table.count)
    status = spark__infer_table(c->rpc, c->info.format, c->info.location, c->info.options, c->info.option_count, &c->table,
                                c->error);
  if (!status) status = spark__define_table(c->rpc, &c->name, &c->table, &c->info, c->error);
  trn_command command = {.kind = TRN_COMMAND_CREATE_TABLE, .table = &c->info, .if_not_exists = m->if_not_exists};
  return status ? status : spark__run_command(c->rpc, &c->name, &command, c->error);
}

trn_status spark__create_table(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__TrnCreateTable *message,
                               bool *running, trn_error **error) {
  creation c = {.rpc = rpc, .message = message, .error = error};
  return create(&c, execution, running);
}

/* ---- CREATE VIEW ---- */

typedef struct view_creation {
  spark_rpc *rpc;
  const Spark__Connect__TrnCreateView *message;
  spark_table_name name;
  trn_plan *plan;
  trn_error **error;
} view_creation;

static trn_status view_error(view_creation *v, const char *condition) {
  const char *shown = spark__table_text(v->rpc->arena, &v->name, true);
  trn_strbuf columns = {0}, data = {0};
  for (size_t i = 0; i < v->message->n_columns; i++)
    trn__strbuf_printf(&columns, "%s`%s`", i ? ", " : "", v->message->columns[i]->name);
  for (uint32_t i = 0; i < v->plan->field_count; i++)
    trn__strbuf_printf(&data, "%s`%s`", i ? ", " : "", v->plan->fields[i].name);
  trn_status status = shown && !columns.failed && !data.failed
                          ? spark__raise(v->error, TRN_INVALID_ARGUMENT, condition, "viewName", shown, "viewColumns",
                                         columns.data, "dataColumns", data.data ? data.data : "")
                          : trn__no_memory(v->error);
  trn__strbuf_finish(&columns), trn__strbuf_finish(&data);
  return status;
}

/* Plans the query; nothing temporary may be in it. */
static trn_status plan_view(view_creation *v) {
  spark_translator translator;
  const char *temporary = NULL;
  trn_status status =
      spark__translator_init(&translator, v->rpc->session->session, v->rpc->session->catalog, v->error);
  if (status) return status;
  translator.sql = v->rpc->sql;
  translator.view_name = spark__table_text(v->rpc->arena, &v->name, true);
  translator.sql_size = v->rpc->sql ? strlen(v->rpc->sql) : 0;
  status = spark__translate_relation(&translator, v->message->query, &v->plan, v->error);
  if (!status) status = trn_backend_check(v->rpc->session->session, v->plan, v->error); /* a view may give rights */
  if (status) return status;
  const char *used = spark__used_view(&translator, 0);
  if (used) temporary = trn__arena_printf(v->rpc->arena, "`%s`", used);
  if (!used) return TRN_OK;
  const char *shown = spark__table_text(v->rpc->arena, &v->name, true);
  if (!shown || !temporary) return trn__no_memory(v->error);
  const trn_error_param params[] = {
      {"obj", "VIEW"}, {"objName", shown}, {"tempObj", "VIEW"}, {"tempObjName", temporary}};
  const trn_error_spec spec = {.struct_size = sizeof spec, .status = TRN_INVALID_ARGUMENT,
                               .condition = "INVALID_TEMP_OBJ_REFERENCE", .params = params, .param_count = 4};
  if (v->error) *v->error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

static trn_status define_view(view_creation *v, trn_table_info *info) {
  const Spark__Connect__TrnCreateView *m = v->message;
  uint32_t count = v->plan->field_count;
  trn_field *fields = TRN_NEW_N(v->rpc->arena, trn_field, count);
  const char **comments = TRN_NEW_N(v->rpc->arena, const char *, count);
  const char **own = TRN_NEW_N(v->rpc->arena, const char *, count);
  if (!fields || !comments || !own) return trn__no_memory(v->error);
  if (m->n_columns && m->n_columns > count)
    return view_error(v, "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS");
  if (m->n_columns && m->n_columns < count) return view_error(v, "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS");
  for (uint32_t i = 0; i < count; i++) {
    fields[i] = v->plan->fields[i];
    own[i] = trn__arena_strdup(v->rpc->arena, fields[i].name);
    if (!own[i]) return trn__no_memory(v->error);
    if (!m->n_columns) continue;
    fields[i].name = m->columns[i]->name;
    comments[i] = m->columns[i]->comment && *m->columns[i]->comment ? m->columns[i]->comment : NULL;
  }
  const spark_new_table table = {.fields = fields, .count = count, .comments = comments};
  trn_status status = spark__define_table(v->rpc, &v->name, &table, info, v->error);
  if (!status)
    status = spark__properties_of(v->rpc, m->properties, m->n_properties, &info->properties, &info->property_count, v->error);
  size_t kept = 0; /* how the schema may change is kept with what a table has as options */
  for (size_t i = 0; !status && i < info->property_count; i++) {
    bool mode = strcmp(info->properties[i].key, SPARK_VIEW_MODE) == 0;
    if (mode) info->options = trn__arena_copy(v->rpc->arena, &info->properties[i], sizeof(trn_kv)), info->option_count = 1;
    else ((trn_kv *)info->properties)[kept++] = info->properties[i];
    if (mode && !info->options) return trn__no_memory(v->error);
  }
  info->property_count = kept;
  info->kind = TRN_TABLE_VIEW;
  info->comment = m->comment && *m->comment ? m->comment : NULL;
  info->owner = v->rpc->session->user;
  info->view_text = m->query_text;
  info->view_dialect = "spark.sql";
  info->view_columns = own;
  info->view_column_count = count;
  return status;
}

static trn_status make_view(view_creation *v) {
  const Spark__Connect__TrnCreateView *m = v->message;
  trn_table_info info = {0};
  trn_table *there = NULL;
  char *catalog = NULL, *database = NULL;
  trn_status status = spark__find_table(v->rpc, &v->name, &there, v->error);
  if (status) return status;
  const char *shown = spark__table_text(v->rpc->arena, &v->name, true);
  if (!shown) return trn__no_memory(v->error);
  if (there && m->if_not_exists) return TRN_OK;
  if (there && !m->replace)
    return spark__raise(v->error, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", shown, NULL, NULL, NULL,
                        NULL);
  if (there && trn_table_get_info(there)->kind != TRN_TABLE_VIEW)
    return spark__raise(v->error, TRN_INVALID_ARGUMENT, "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE", "tableName", shown,
                        "operation", "CREATE OR REPLACE VIEW", NULL, NULL);
  status = plan_view(v);
  if (!status) status = define_view(v, &info);
  if (!status) status = trn_session_namespace(v->rpc->session->session, &catalog, &database, v->error);
  info.view_catalog = catalog, info.view_database = database;
  trn_command command = {.kind = TRN_COMMAND_CREATE_VIEW, .table = &info, .or_replace = m->replace,
                         .if_not_exists = m->if_not_exists};
  if (!status) status = spark__run_command(v->rpc, &v->name, &command, v->error);
  free(catalog), free(database);
  return status;
}

trn_status spark__create_view(spark_rpc *rpc, const Spark__Connect__TrnCreateView *message, trn_error **error) {
  view_creation v = {.rpc = rpc, .message = message, .error = error};
  trn_status status = spark__name_of(rpc, message->name, &v.name, error);
  if (!status) status = make_view(&v);
  trn_plan_unref(v.plan);
  return status;
}
