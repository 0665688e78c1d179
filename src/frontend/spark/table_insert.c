/* INSERT, saveAsTable, insertInto, writeTo: rows for tables. */
#include <strings.h>

#include "frontend/spark/sql/sql.h"
#include "frontend/spark/tables.h"
#include "frontend/spark/translate/scope.h"

/* ---- the write ---- */

/* Format and options of the table, as those of a write. */
static trn_status spec_of(spark_rpc *rpc, const trn_table_info *info, spark_write_spec *out, trn_error **error) {
  Spark__Connect__WriteOperation operation = SPARK__CONNECT__WRITE_OPERATION__INIT;
  size_t count = info->option_count;
  Spark__Connect__WriteOperation__OptionsEntry *entries = TRN_NEW_N(rpc->arena, Spark__Connect__WriteOperation__OptionsEntry, count);
  operation.options = TRN_NEW_N(rpc->arena, Spark__Connect__WriteOperation__OptionsEntry *, count);
  if (!entries || !operation.options) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    spark__connect__write_operation__options_entry__init(&entries[i]);
    entries[i].key = (char *)info->options[i].key;
    entries[i].value = (char *)(info->options[i].value ? info->options[i].value : "");
    operation.options[operation.n_options++] = &entries[i];
  }
  operation._source_case = SPARK__CONNECT__WRITE_OPERATION___SOURCE_SOURCE;
  operation.source = (char *)(info->format ? info->format : "parquet");
  return spark__write_spec_of(rpc, &operation, out, error);
}

static trn_status translate(spark_rpc *rpc, const spark_table_rows *rows, const trn_write_target *target, trn_plan **plan,
                            trn_error **error) {
  spark_translator translator;
  spark_write_spec spec;
  const char *const *partitions = NULL;
  const trn_scan_info seen = {.struct_size = sizeof seen,
                              .kind = TRN_SCAN_TABLE,
                              .catalog = trn_catalog_name(rows->name->catalog),
                              .database = rows->name->database,
                              .table = rows->name->name,
                              .format = target->format};
  trn_status status = spec_of(rpc, rows->info, &spec, error);
  if (status) return status;
  spec.directory = target->directory;
  spec.partition_by = (char *const *)target->partition_columns;
  spec.partition_count = target->partition_column_count;
  spec.keeps_partitions = target->keeps_partition_columns;
  spec.partitions_last = !rows->insert;
  spec.insert = rows->insert;
  spec.table = &seen;
  const Spark__Connect__SQL *sql = spark__sql_of(rows->input);
  if (sql) rpc->sql = sql->query;
  status = spark__translator_init(&translator, rpc->session->session, rpc->session->catalog, error);
  if (status) return status;
  spark__translator_parameters(&translator, rpc->parameters);
  translator.registry = rpc->service->registry;
  translator.locals = rpc->locals;
  translator.sql = rpc->sql;
  translator.sql_size = rpc->sql ? strlen(rpc->sql) : 0;
  return spark__translate_write(&translator, rows->input, &spec, plan, &partitions, error);
}

trn_status spark__write_table(spark_rpc *rpc, spark_execution *execution, const spark_table_rows *rows,
                              trn_error **error) {
  trn_table_write *write = NULL;
  trn_plan *plan = NULL;
  const trn_write_request request = {.struct_size = sizeof request,
                                     .database = rows->name->database,
                                     .name = rows->name->name,
                                     .mode = rows->mode,
                                     .create = rows->mode == TRN_WRITE_CREATE ? rows->info : NULL,
                                     .replace = rows->replace,
                                     .partition = rows->partition,
                                     .partition_count = rows->partition_count,
                                     .expected_identity = rows->mode == TRN_WRITE_CREATE ? NULL : rows->info->identity};
  trn_status status = trn_catalog_begin_write(rows->name->catalog, rpc->session->session, &request, &write, error);
  if (!status) status = translate(rpc, rows, trn_table_write_target(write), &plan, error);
  if (!status) status = trn_backend_check(rpc->session->session, plan, error);
  if (status) {
    trn_table_write_abort(write);
    trn_plan_unref(plan);
    return status;
  }
  rpc->phase = SPARK_PHASE_EXECUTION;
  return spark__execution_run_write(execution, plan, write, error);
}

/* ---- what a table's columns are ---- */

static trn_status target_of(spark_rpc *rpc, const spark_table_name *name, const trn_table_info *info, spark_insert *out,
                            trn_error **error) {
  const char **defaults = TRN_NEW_N(rpc->arena, const char *, (size_t)info->schema->n_children);
  trn_status status = defaults ? spark__table_fields(rpc->arena, info, &out->fields, &out->field_count, error)
                               : trn__no_memory(error);
  for (uint32_t i = 0; !status && i < out->field_count; i++)
    defaults[i] = spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_DEFAULT);
  out->defaults = defaults;
  out->table = spark__table_text(rpc->arena, name, true);
  return status || out->table ? status : trn__no_memory(error);
}

static trn_status refuse_view(const spark_insert *target, const char *operation, trn_error **error) {
  return spark__raise(error, TRN_INVALID_ARGUMENT, "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "viewName", target->table,
                      "operation", operation, NULL, NULL);
}

static bool dynamic_overwrite(spark_rpc *rpc) {
  char *mode = NULL;
  spark__config_get(rpc->session, "spark.sql.sources.partitionOverwriteMode", &mode);
  bool dynamic = mode && strcasecmp(mode, "dynamic") == 0;
  trn_free(mode);
  return dynamic;
}

/* ---- DEFAULT in VALUES and select lists ---- */

static bool is_default_word(const Spark__Connect__Expression *e) {
  return e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE &&
         strcasecmp(e->unresolved_attribute->unparsed_identifier, "default") == 0;
}

/* The column that the rows' column `index` goes to. */
static const char *default_of(spark_rpc *rpc, const spark_insert *target, size_t index) {
  spark_translator names = {.case_sensitive = spark__config_bool(rpc->session, "spark.sql.caseSensitive")};
  for (uint32_t i = 0; !target->column_count && i < target->field_count; i++) {
    if (spark__is_static(&names, target, target->fields[i].name)) continue;
    if (index-- == 0) return target->defaults[i] ? target->defaults[i] : "NULL";
  }
  if (target->column_count <= index) return "NULL";
  uint32_t at = spark__insert_column(&names, target, target->columns[index]);
  return at != UINT32_MAX && target->defaults[at] ? target->defaults[at] : "NULL";
}

static trn_status replace_defaults(spark_rpc *rpc, const spark_insert *target, Spark__Connect__Expression **list,
                                   size_t count, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && !status; i++) {
    if (!is_default_word(list[i])) continue;
    const char *text = default_of(rpc, target, i);
    status = spark__sql_parse_expression(rpc->arena, text, strlen(text), NULL, &list[i], error);
  }
  return status;
}

static trn_status expand_defaults(spark_rpc *rpc, const spark_insert *target, Spark__Connect__Relation *input,
                                  trn_error **error) {
  trn_status status = TRN_OK;
  if (input->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_TRN_SELECT)
    return replace_defaults(rpc, target, input->trn_select->select, input->trn_select->n_select, error);
  if (input->rel_type_case != SPARK__CONNECT__RELATION__REL_TYPE_TRN_VALUES) return TRN_OK;
  for (size_t i = 0; i < input->trn_values->n_rows && !status; i++)
    status = replace_defaults(rpc, target, input->trn_values->rows[i]->expressions, input->trn_values->rows[i]->n_expressions,
                              error);
  return status;
}

/* ---- INSERT ---- */

typedef struct insertion {
  spark_rpc *rpc;
  const Spark__Connect__TrnInsert *message;
  spark_table_name name;
  const trn_table_info *info;
  spark_insert target;
  const trn_kv *partition;
  size_t partition_count;
  trn_error **error;
} insertion;

static trn_status static_partitions(insertion *n) {
  const Spark__Connect__TrnInsert *m = n->message;
  char **names = TRN_NEW_N(n->rpc->arena, char *, m->n_partitions);
  Spark__Connect__Expression **values = TRN_NEW_N(n->rpc->arena, Spark__Connect__Expression *, m->n_partitions);
  if (!names || !values) return trn__no_memory(n->error);
  for (size_t i = 0; i < m->n_partitions; i++) names[i] = m->partitions[i]->column, values[i] = m->partitions[i]->value;
  n->target.static_names = names, n->target.static_values = values, n->target.static_count = m->n_partitions;
  trn_status status = spark__partition_spec(n->rpc, n->info, m->partitions, m->n_partitions, &n->partition,
                                            &n->partition_count, n->error);
  bool dynamic = false; /* a constant behind a column without one */
  for (size_t i = 0; i < n->info->partition_column_count && !status; i++) {
    bool constant = false;
    for (size_t k = 0; k < n->partition_count; k++) constant |= strcmp(n->partition[k].key, n->info->partition_columns[i]) == 0;
    if (constant && dynamic) {
      trn_strbuf list = {0};
      for (size_t k = 0; k < n->info->partition_column_count; k++)
        trn__strbuf_printf(&list, "%s%s", k ? "," : "", n->info->partition_columns[k]);
      status = trn_error_set(n->error, TRN_INVALID_ARGUMENT, NULL,
                             "The ordering of partition columns is [%s]. All partition columns having constant values need "
                             "to appear before other partition columns that do not have an assigned constant value.",
                             list.data ? list.data : "");
      trn__strbuf_finish(&list);
    }
    dynamic |= !constant;
  }
  return status;
}

static trn_write_mode mode_of(const insertion *n) {
  if (!n->message->overwrite) return TRN_WRITE_APPEND;
  bool all_static = n->partition_count && n->partition_count == n->info->partition_column_count;
  bool dynamic = n->info->partition_column_count && !all_static && dynamic_overwrite(n->rpc);
  return dynamic ? TRN_WRITE_OVERWRITE_PARTITIONS : TRN_WRITE_OVERWRITE;
}

static trn_status insert(insertion *n, spark_execution *execution) {
  const Spark__Connect__TrnInsert *m = n->message;
  trn_table *table = NULL;
  if (spark__is_temp_view(n->rpc, m->table)) {
    n->target.table = trn__arena_printf(n->rpc->arena, "`%s`", m->table);
    return n->target.table ? refuse_view(&n->target, "INSERT", n->error) : trn__no_memory(n->error);
  }
  trn_status status = spark__need_table(n->rpc, m->table, &n->name, &table, n->error);
  if (status) return status;
  n->info = trn_table_get_info(table);
  if (m->replace_where) {
    const char *shown = spark__table_text(n->rpc->arena, &n->name, true);
    return trn_error_set(n->error, TRN_INVALID_ARGUMENT, NULL, "Cannot write into v1 table: %s.; line 1 pos 0", shown ? shown : "");
  }
  status = target_of(n->rpc, &n->name, n->info, &n->target, n->error);
  if (!status && n->info->kind == TRN_TABLE_VIEW) return refuse_view(&n->target, "INSERT", n->error);
  if (!status) status = static_partitions(n);
  n->target.columns = m->n_columns ? m->columns : NULL;
  n->target.column_count = m->n_columns;
  n->target.by_name = m->by_name;
  if (!status) status = expand_defaults(n->rpc, &n->target, m->input, n->error);
  const spark_table_rows rows = {.name = &n->name,
                                 .input = m->input,
                                 .mode = mode_of(n),
                                 .info = n->info,
                                 .insert = &n->target,
                                 .partition = n->partition,
                                 .partition_count = m->overwrite ? n->partition_count : 0};
  return status ? status : spark__write_table(n->rpc, execution, &rows, n->error);
}

trn_status spark__insert(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__TrnInsert *message,
                         trn_error **error) {
  insertion n = {.rpc = rpc, .message = message, .error = error};
  return insert(&n, execution);
}

/* ---- df.write ---- */

static trn_status insert_into(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__WriteOperation *w,
                              trn_error **error) {
  insertion n = {.rpc = rpc, .error = error};
  trn_table *table = NULL;
  const char *text = w->table->table_name ? w->table->table_name : "";
  if (w->n_partitioning_columns)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO", "tableName", text, NULL,
                        NULL, NULL, NULL);
  trn_status status = spark__need_table(rpc, text, &n.name, &table, error);
  if (status) return status;
  n.info = trn_table_get_info(table);
  status = target_of(rpc, &n.name, n.info, &n.target, error);
  if (!status && n.info->kind == TRN_TABLE_VIEW) return refuse_view(&n.target, "INSERT", error);
  bool overwrite = w->mode == SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_OVERWRITE;
  bool dynamic = n.info->partition_column_count && dynamic_overwrite(rpc);
  const spark_table_rows rows = {.name = &n.name,
                                 .input = w->input,
                                 .mode = !overwrite ? TRN_WRITE_APPEND
                                         : dynamic  ? TRN_WRITE_OVERWRITE_PARTITIONS
                                                    : TRN_WRITE_OVERWRITE,
                                 .info = n.info,
                                 .insert = &n.target};
  return status ? status : spark__write_table(rpc, execution, &rows, error);
}

typedef struct saving {
  spark_rpc *rpc;
  spark_execution *execution;
  const Spark__Connect__WriteOperation *write;
  spark_table_name name;
  trn_table_info info;
  trn_error **error;
} saving;

static const char *format_class(const char *format) {
  return !format || strcmp(format, "parquet") == 0 ? "ParquetDataSourceV2"
         : strcmp(format, "csv") == 0              ? "CSVDataSourceV2"
         : strcmp(format, "json") == 0             ? "JsonDataSourceV2"
                                                   : format;
}

static trn_status append_to(saving *s, const trn_table_info *there) {
  const Spark__Connect__WriteOperation *w = s->write;
  const char *plain = spark__table_text(s->rpc->arena, &s->name, false), *format = NULL;
  spark_insert target = {.by_name = true, .is_save = true};
  if (!plain) return trn__no_memory(s->error);
  trn_status status = target_of(s->rpc, &s->name, there, &target, s->error);
  if (!status && there->kind == TRN_TABLE_VIEW) return refuse_view(&target, "saveAsTable", s->error);
  if (!status) status = spark__table_format(s->rpc, w->_source_case ? w->source : NULL, &format, s->error);
  if (status) return status;
  if (w->_source_case && w->source && *w->source && strcmp(format, there->format ? there->format : "") != 0)
    return trn_error_set(s->error, TRN_INVALID_ARGUMENT, NULL,
                         "The format of the existing table %s is `%s`. It doesn't match the specified format `%s`.", plain,
                         format_class(there->format), format_class(format));
  bool same = !w->n_partitioning_columns || w->n_partitioning_columns == there->partition_column_count;
  for (size_t i = 0; same && i < w->n_partitioning_columns; i++)
    same = strcasecmp(w->partitioning_columns[i], there->partition_columns[i]) == 0;
  if (!same)
    return trn_error_set(s->error, TRN_INVALID_ARGUMENT, NULL,
                         "Specified partitioning does not match that of the existing table %s.", plain);
  const spark_table_rows rows = {.name = &s->name, .input = w->input, .mode = TRN_WRITE_APPEND, .info = there, .insert = &target};
  return spark__write_table(s->rpc, s->execution, &rows, s->error);
}

/* The definition of what a write makes. */
static trn_status new_table(saving *s, const char *source, char *const *partition_by, size_t partition_count) {
  spark_new_table table = {.partition_by = partition_by, .partition_count = partition_count};
  trn_plan *plan = NULL;
  trn_status status = spark__table_format(s->rpc, source, &s->info.format, s->error);
  if (!status) status = spark__plan_relation(s->rpc, s->write->input, &plan, s->error);
  if (status) return status;
  table.fields = plan->fields, table.count = plan->field_count;
  status = spark__define_table(s->rpc, &s->name, &table, &s->info, s->error);
  trn_plan_unref(plan);
  return status;
}

static trn_status options_of(saving *s) {
  const Spark__Connect__WriteOperation *w = s->write;
  trn_kv *options = TRN_NEW_N(s->rpc->arena, trn_kv, w->n_options);
  size_t count = 0;
  if (!options) return trn__no_memory(s->error);
  for (size_t i = 0; i < w->n_options; i++) {
    if (strcasecmp(w->options[i]->key, "path") == 0) s->info.location = w->options[i]->value;
    else options[count++] = (trn_kv){w->options[i]->key, w->options[i]->value};
  }
  s->info.options = options;
  s->info.option_count = count;
  s->info.kind = s->info.location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  s->info.owner = s->rpc->session->user;
  if (w->bucket_by) {
    s->info.bucket_count = (uint32_t)w->bucket_by->num_buckets;
    s->info.bucket_columns = (const char *const *)w->bucket_by->bucket_column_names;
    s->info.bucket_column_count = w->bucket_by->n_bucket_column_names;
    s->info.sort_columns = (const char *const *)w->sort_column_names;
    s->info.sort_column_count = w->n_sort_column_names;
  }
  return TRN_OK;
}

static trn_status create_by(saving *s, bool replace) {
  const Spark__Connect__WriteOperation *w = s->write;
  trn_status status = options_of(s);
  if (!status) status = new_table(s, w->_source_case ? w->source : NULL, w->partitioning_columns, w->n_partitioning_columns);
  const spark_table_rows rows = {.name = &s->name, .input = w->input, .mode = TRN_WRITE_CREATE, .info = &s->info, .replace = replace};
  return status ? status : spark__write_table(s->rpc, s->execution, &rows, s->error);
}

static trn_status no_database(spark_rpc *rpc, const spark_table_name *name, trn_error **error) {
  spark_table_name database = *name;
  database.name = "";
  const char *shown = spark__table_text(rpc->arena, &database, true);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_NOT_FOUND, "SCHEMA_NOT_FOUND", "schemaName", shown, NULL, NULL, NULL, NULL);
}

static trn_status already_exists(spark_rpc *rpc, const spark_table_name *name, trn_error **error) {
  const char *shown = spark__table_text(rpc->arena, name, true);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", shown, NULL, NULL, NULL,
                      NULL);
}

static trn_status save(saving *s) {
  trn_table *there = NULL;
  const char *text = s->write->table->table_name ? s->write->table->table_name : "";
  trn_status status = spark__name_of(s->rpc, text, &s->name, s->error);
  if (!status) status = spark__find_table(s->rpc, &s->name, &there, s->error);
  if (!status && !there && !spark__database_exists(s->rpc, &s->name)) return no_database(s->rpc, &s->name, s->error);
  if (status || !there) return status ? status : create_by(s, false);
  switch (s->write->mode) {
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_IGNORE:
    spark__execution_finish(s->execution, SPARK_RUN_SUCCEEDED, NULL);
    return TRN_OK;
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_APPEND: return append_to(s, trn_table_get_info(there));
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_OVERWRITE: return create_by(s, true);
  default: return already_exists(s->rpc, &s->name, s->error);
  }
}

trn_status spark__save_table(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__WriteOperation *operation,
                             trn_error **error) {
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (!operation->input || operation->input->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE__NOT_SET)
    return spark__error_not_set(error, "spark.connect.Relation", "RELTYPE_NOT_SET");
  if (operation->table->save_method ==
      SPARK__CONNECT__WRITE_OPERATION__SAVE_TABLE__TABLE_SAVE_METHOD__TABLE_SAVE_METHOD_INSERT_INTO)
    return insert_into(rpc, execution, operation, error);
  saving s = {.rpc = rpc, .execution = execution, .write = operation, .error = error};
  return save(&s);
}

/* ---- df.writeTo ---- */

static trn_status create_v2(saving *s, const Spark__Connect__WriteOperationV2 *v2) {
  char **names = TRN_NEW_N(s->rpc->arena, char *, v2->n_partitioning_columns);
  trn_kv *options = TRN_NEW_N(s->rpc->arena, trn_kv, v2->n_options);
  trn_kv *properties = TRN_NEW_N(s->rpc->arena, trn_kv, v2->n_table_properties);
  if (!names || !options || !properties) return trn__no_memory(s->error);
  for (size_t i = 0; i < v2->n_partitioning_columns; i++) {
    const Spark__Connect__Expression *e = v2->partitioning_columns[i];
    if (e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE)
      return trn_error_set(s->error, TRN_UNIMPLEMENTED, NULL, "Partitioning by an expression is not supported: only by columns");
    names[i] = e->unresolved_attribute->unparsed_identifier;
  }
  for (size_t i = 0; i < v2->n_options; i++) {
    if (strcasecmp(v2->options[i]->key, "path") == 0) s->info.location = v2->options[i]->value;
    else options[s->info.option_count++] = (trn_kv){v2->options[i]->key, v2->options[i]->value};
  }
  for (size_t i = 0; i < v2->n_table_properties; i++)
    properties[s->info.property_count++] = (trn_kv){v2->table_properties[i]->key, v2->table_properties[i]->value};
  s->info.options = options, s->info.properties = properties;
  s->info.kind = s->info.location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  s->info.owner = s->rpc->session->user;
  trn_status status = new_table(s, v2->_provider_case ? v2->provider : NULL, names, v2->n_partitioning_columns);
  const spark_table_rows rows = {.name = &s->name, .input = v2->input, .mode = TRN_WRITE_CREATE, .info = &s->info};
  return status ? status : spark__write_table(s->rpc, s->execution, &rows, s->error);
}

/* A file table of Spark's is written to only by those that make it. */
trn_status spark__write_v2(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__WriteOperationV2 *v2,
                           trn_error **error) {
  Spark__Connect__WriteOperation input = SPARK__CONNECT__WRITE_OPERATION__INIT;
  saving s = {.rpc = rpc, .execution = execution, .write = &input, .error = error};
  trn_table *there = NULL;
  input.input = v2->input;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (!v2->input || v2->input->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE__NOT_SET)
    return spark__error_not_set(error, "spark.connect.Relation", "RELTYPE_NOT_SET");
  if (v2->mode == SPARK__CONNECT__WRITE_OPERATION_V2__MODE__MODE_CREATE ||
      v2->mode == SPARK__CONNECT__WRITE_OPERATION_V2__MODE__MODE_REPLACE ||
      v2->mode == SPARK__CONNECT__WRITE_OPERATION_V2__MODE__MODE_CREATE_OR_REPLACE) {
    trn_status status = spark__name_of(rpc, v2->table_name, &s.name, error);
    if (!status) status = spark__find_table(rpc, &s.name, &there, error);
    if (status) return status;
    if (v2->mode != SPARK__CONNECT__WRITE_OPERATION_V2__MODE__MODE_CREATE)
      return spark__no_operation(rpc, &s.name, "REPLACE TABLE AS SELECT", error);
    if (there) return already_exists(rpc, &s.name, error);
    if (!spark__database_exists(rpc, &s.name)) return no_database(rpc, &s.name, error);
    return create_v2(&s, v2);
  }
  trn_status status = spark__need_table(rpc, v2->table_name, &s.name, &there, error);
  if (status) return status;
  const char *shown = spark__table_text(rpc->arena, &s.name, true);
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Cannot write into v1 table: %s.", shown ? shown : "");
}
