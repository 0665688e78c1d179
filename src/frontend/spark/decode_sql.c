/* Statements of Spark's SQL as trn_statement, for whoever is not a client of Spark Connect. The parser gives messages, the
 * translator plans of the queries in them; what is left is to put names and clauses where commands have them. */
#include "frontend/spark/decode_sql.h"

#include <strings.h>
#include <trunnion/decoder.h>

#include "arrow/arrow_util.h"
#include "core/registry.h"
#include "frontend/spark/plan_sql.h"
#include "frontend/spark/service.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/tables.h"
#include "plan/plan.h"

typedef Spark__Connect__Expression expression;
typedef Spark__Connect__Relation relation;

/* What a statement that was given is borrowed from. */
typedef struct decoding {
  trn_arena *arena;
  trn_session *session;
  struct spark_catalog *views;
  const char *text;
  bool case_sensitive;
  trn_command command;
  trn_table_info table;
  trn_database_info database;
  struct ArrowSchema schema;
  trn_plan *plan;
  char *view_catalog, *view_database;
  const char *short_name; /* of the command's table; NULL: its name has several parts */
} decoding;

static void decoding_destroy(decoding *d) {
  trn_plan_unref(d->plan);
  trn__schema_release(&d->schema);
  trn__arena_unref(d->arena);
  free(d->view_catalog), free(d->view_database);
  free(d);
}

static void release(trn_statement *statement) {
  decoding_destroy(statement->owner);
  *statement = (trn_statement){0};
}

static trn_status unimplemented(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s is not supported here: only in a session of Spark Connect", what);
}

/* ---- pieces ---- */

/* What the statement's relation means; its columns are shown, or its rows written: the session must be allowed to. */
static trn_status plan_of(decoding *d, const relation *message, trn_plan **out, trn_error **error) {
  spark_translator translator;
  *out = NULL;
  trn_status status = spark__translator_init(&translator, d->session, d->views, error);
  if (status) return status;
  translator.sql = trn__arena_strdup(translator.arena, d->text);
  translator.sql_size = strlen(d->text);
  status = spark__translate_relation(&translator, message, out, error);
  if (!status) status = trn_backend_check(d->session, *out, error);
  if (!status) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
}

static trn_status parts_of(decoding *d, const char *text, char ***parts, size_t *count, trn_error **error) {
  return spark__sql_parse_multipart_identifier(d->arena, text, strlen(text), NULL, parts, count, error);
}

static trn_status set_name(decoding *d, const spark_table_name *name, trn_error **error) {
  const char **parts = TRN_NEW_N(d->arena, const char *, 3);
  if (!parts) return trn__no_memory(error);
  parts[0] = trn_catalog_name(name->catalog), parts[1] = name->database, parts[2] = name->name;
  d->command.name = parts;
  d->command.name_count = *name->name ? 3 : 2;
  return TRN_OK;
}

static trn_status name_table(decoding *d, const char *text, trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  spark_table_name name;
  trn_status status = parts_of(d, text, &parts, &count, error);
  if (!status && count == 1) d->short_name = parts[0];
  if (!status) status = spark__table_name(d->arena, d->session, d->case_sensitive, NULL, parts, count, &name, error);
  return status ? status : set_name(d, &name, error);
}

static trn_status name_database(decoding *d, const char *text, trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  spark_table_name name;
  trn_status status = parts_of(d, text, &parts, &count, error);
  if (!status) status = spark__database_name(d->arena, d->session, d->case_sensitive, parts, count, &name, error);
  return status ? status : set_name(d, &name, error);
}

static trn_status pairs_of(decoding *d, Spark__Connect__TrnProperty *const *list, size_t count, const trn_kv **out,
                           size_t *out_count, trn_error **error) {
  trn_kv *pairs = TRN_NEW_N(d->arena, trn_kv, count);
  if (!pairs) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) pairs[i] = (trn_kv){list[i]->key, list[i]->value ? list[i]->value : ""};
  *out = pairs;
  *out_count = count;
  return TRN_OK;
}

static const char *given(const char *text) { return text && *text ? text : NULL; }

/* ---- expressions that statements are short for ---- */

static expression *new_expression(decoding *d, Spark__Connect__Expression__ExprTypeCase type) {
  expression *e = TRN_NEW(d->arena, expression);
  if (!e) return NULL;
  spark__connect__expression__init(e);
  e->expr_type_case = type;
  return e;
}

static expression *attribute(decoding *d, const char *name) {
  expression *e = new_expression(d, SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE);
  char *part = (char *)name;
  if (!e || !(e->unresolved_attribute = TRN_NEW(d->arena, Spark__Connect__Expression__UnresolvedAttribute))) return NULL;
  spark__connect__expression__unresolved_attribute__init(e->unresolved_attribute);
  e->unresolved_attribute->unparsed_identifier = spark__sql_quote_path(d->arena, &part, 1);
  return e->unresolved_attribute->unparsed_identifier ? e : NULL;
}

static expression *boolean(decoding *d, bool value) {
  expression *e = new_expression(d, SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL);
  if (!e || !(e->literal = TRN_NEW(d->arena, Spark__Connect__Expression__Literal))) return NULL;
  spark__connect__expression__literal__init(e->literal);
  e->literal->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BOOLEAN;
  e->literal->boolean = value;
  return e;
}

/* NULL: out of memory, or an argument is. */
static expression *call(decoding *d, const char *name, expression *a, expression *b, expression *c) {
  expression *e = new_expression(d, SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION);
  expression **arguments = TRN_NEW_N(d->arena, expression *, 3);
  if (!a || !e || !arguments) return NULL;
  if (!(e->unresolved_function = TRN_NEW(d->arena, Spark__Connect__Expression__UnresolvedFunction))) return NULL;
  spark__connect__expression__unresolved_function__init(e->unresolved_function);
  arguments[0] = a, arguments[1] = b, arguments[2] = c;
  e->unresolved_function->function_name = (char *)name;
  e->unresolved_function->arguments = arguments;
  e->unresolved_function->n_arguments = c ? 3 : b ? 2 : 1;
  return e;
}

static expression *named(decoding *d, expression *value, const char *name) {
  expression *e = new_expression(d, SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS);
  char **names = TRN_NEW(d->arena, char *);
  if (!value || !e || !names || !(e->alias = TRN_NEW(d->arena, Spark__Connect__Expression__Alias))) return NULL;
  spark__connect__expression__alias__init(e->alias);
  *names = (char *)name;
  e->alias->expr = value;
  e->alias->name = names;
  e->alias->n_name = 1;
  return e;
}

static relation *new_relation(decoding *d, Spark__Connect__Relation__RelTypeCase type) {
  relation *r = TRN_NEW(d->arena, relation);
  if (!r) return NULL;
  spark__connect__relation__init(r);
  r->rel_type_case = type;
  return r;
}

/* The table, under its alias. */
static relation *read_table(decoding *d, const char *name, const char *alias) {
  relation *r = new_relation(d, SPARK__CONNECT__RELATION__REL_TYPE_READ);
  if (!r || !(r->read = TRN_NEW(d->arena, Spark__Connect__Read))) return NULL;
  spark__connect__read__init(r->read);
  r->read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE;
  if (!(r->read->named_table = TRN_NEW(d->arena, Spark__Connect__Read__NamedTable))) return NULL;
  spark__connect__read__named_table__init(r->read->named_table);
  r->read->named_table->unparsed_identifier = (char *)name;
  if (!given(alias)) return r;
  relation *renamed = new_relation(d, SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS);
  if (!renamed || !(renamed->subquery_alias = TRN_NEW(d->arena, Spark__Connect__SubqueryAlias))) return NULL;
  spark__connect__subquery_alias__init(renamed->subquery_alias);
  renamed->subquery_alias->input = r;
  renamed->subquery_alias->alias = (char *)alias;
  return renamed;
}

/* ---- CREATE TABLE ---- */

static trn_status partition_names(decoding *d, const Spark__Connect__TrnCreateTable *m, trn_error **error) {
  const char **names = TRN_NEW_N(d->arena, const char *, m->n_partition_by);
  if (!names) return trn__no_memory(error);
  for (size_t i = 0; i < m->n_partition_by; i++) {
    const expression *e = m->partition_by[i];
    char **parts = NULL;
    size_t count = 0;
    if (e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE)
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Partitioning by an expression is not supported: only by columns");
    const char *text = e->unresolved_attribute->unparsed_identifier;
    trn_status status = spark__sql_parse_attribute_name(d->arena, text, strlen(text), &parts, &count, error);
    if (status) return status;
    names[i] = parts[count - 1];
  }
  d->table.partition_columns = names;
  d->table.partition_column_count = m->n_partition_by;
  return TRN_OK;
}

/* Which of the partition columns it is, from 0; the count: none. */
static size_t partition_at(const decoding *d, const char *column) {
  size_t i = 0;
  while (i < d->table.partition_column_count &&
         (d->case_sensitive ? strcmp : strcasecmp)(d->table.partition_columns[i], column) != 0)
    i++;
  return i;
}

/* The columns in their order, those of partitions last. */
static trn_status columns_of(decoding *d, const Spark__Connect__TrnCreateTable *m, trn_error **error) {
  size_t count = m->n_columns, partitions = d->table.partition_column_count, at = 0, found = 0;
  trn_field *fields = TRN_NEW_N(d->arena, trn_field, count);
  const char **comments = TRN_NEW_N(d->arena, const char *, count);
  const char **defaults = TRN_NEW_N(d->arena, const char *, count);
  if (!fields || !comments || !defaults) return trn__no_memory(error);
  if (partitions > count) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "PARTITIONED BY names more columns than the table has");
  for (size_t i = 0; i < count; i++) {
    const Spark__Connect__TrnColumn *column = m->columns[i];
    size_t partition = partition_at(d, column->name), to;
    if (given(column->generated_text)) return unimplemented(error, "A generated column");
    if (partition < partitions) to = count - partitions + partition, found++;
    else to = at++;
    trn_status status = spark__type_from_proto(d->arena, column->type, &fields[to].type, error);
    if (status) return status;
    fields[to].name = column->name;
    fields[to].nullable = true; /* as Spark's tables over files have them */
    comments[to] = given(column->comment);
    defaults[to] = given(column->default_text);
  }
  if (found != partitions)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "PARTITIONED BY names a column that the table has not");
  return spark__table_schema(fields, (uint32_t)count, comments, defaults, &d->schema, error);
}

/* The schema of files that are there. */
static trn_status infer_schema(decoding *d, trn_error **error) {
  const trn_source_request request = {.struct_size = sizeof request,
                                      .format = d->table.format,
                                      .paths = &d->table.location,
                                      .path_count = 1,
                                      .options = d->table.options,
                                      .option_count = d->table.option_count};
  trn_source *source = NULL;
  if (!d->table.location) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "CREATE TABLE has no columns");
  trn_status status = trn_backend_open_source(d->session, &request, &source, &d->schema, error);
  if (source) trn_backend_source_unref(trn_session_backend(d->session), source);
  return status;
}

static trn_status clauses_of(decoding *d, const Spark__Connect__TrnCreateTable *m, trn_error **error) {
  trn_table_info *table = &d->table;
  trn_status status = spark__table_format(NULL, m->provider, &table->format, error);
  if (!status) status = pairs_of(d, m->options, m->n_options, &table->options, &table->option_count, error);
  if (!status) status = pairs_of(d, m->properties, m->n_properties, &table->properties, &table->property_count, error);
  table->comment = given(m->comment);
  table->location = given(m->location);
  size_t kept = 0; /* a path is a location, not an option */
  for (size_t i = 0; !status && i < table->option_count; i++) {
    bool is_path = strcasecmp(table->options[i].key, "path") == 0;
    if (is_path && !table->location) table->location = table->options[i].value;
    if (!is_path) ((trn_kv *)table->options)[kept++] = table->options[i];
  }
  table->option_count = kept;
  table->kind = table->location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  table->bucket_count = (uint32_t)m->bucket_count;
  table->bucket_columns = (const char *const *)m->bucket_columns;
  table->bucket_column_count = m->n_bucket_columns;
  table->sort_columns = (const char *const *)m->bucket_sort;
  table->sort_column_count = m->n_bucket_sort;
  if (!status && m->external && !table->location)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "CREATE EXTERNAL TABLE must be accompanied by LOCATION.");
  return status;
}

static trn_status keys_of(decoding *d, const spark_sql_statement *statement, trn_error **error) {
  trn_constraint *keys = TRN_NEW_N(d->arena, trn_constraint, statement->constraint_count);
  if (!keys) return trn__no_memory(error);
  for (size_t i = 0; i < statement->constraint_count; i++) keys[i] = *statement->constraints[i];
  d->table.constraints = keys;
  d->table.constraint_count = statement->constraint_count;
  return TRN_OK;
}

static trn_status create_table(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnCreateTable *m = message;
  d->command.kind = TRN_COMMAND_CREATE_TABLE;
  d->command.if_not_exists = m->if_not_exists;
  d->command.or_replace = m->replace;
  d->command.table = &d->table;
  trn_status status = name_table(d, m->name, error);
  if (!status) status = clauses_of(d, m, error);
  if (!status) status = partition_names(d, m, error);
  if (status) return status;
  if (m->query) {
    if (m->n_columns)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Schema may not be specified in a Create Table As Select (CTAS) statement");
    status = plan_of(d, m->query, &d->plan, error);
  } else if (given(m->like)) {
    trn_plan *plan = NULL;
    relation *source = read_table(d, m->like, NULL);
    status = source ? plan_of(d, source, &plan, error) : trn__no_memory(error);
    if (!status && trn_plan_schema(plan, &d->schema)) status = trn__no_memory(error);
    trn_plan_unref(plan);
    return status;
  } else {
    return m->n_columns ? columns_of(d, m, error) : infer_schema(d, error);
  }
  d->command.plan = d->plan;
  if (!status && trn_plan_schema(d->plan, &d->schema)) status = trn__no_memory(error);
  return status;
}

/* ---- CREATE VIEW ---- */

static trn_status create_view(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnCreateView *m = message;
  trn_table_info *table = &d->table;
  d->command.kind = TRN_COMMAND_CREATE_VIEW;
  d->command.if_not_exists = m->if_not_exists;
  d->command.or_replace = m->replace;
  d->command.table = table;
  trn_status status = name_table(d, m->name, error);
  if (!status) status = plan_of(d, m->query, &d->plan, error);
  if (!status) status = pairs_of(d, m->properties, m->n_properties, &table->properties, &table->property_count, error);
  if (!status) status = trn_session_namespace(d->session, &d->view_catalog, &d->view_database, error);
  if (status) return status;
  uint32_t count = d->plan->field_count;
  trn_field *fields = TRN_NEW_N(d->arena, trn_field, count);
  const char **comments = TRN_NEW_N(d->arena, const char *, count), **own = TRN_NEW_N(d->arena, const char *, count);
  if (!fields || !comments || !own) return trn__no_memory(error);
  if (m->n_columns && m->n_columns != count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The view has %zu columns, its query %u", m->n_columns, count);
  for (uint32_t i = 0; i < count; i++) {
    fields[i] = d->plan->fields[i];
    own[i] = fields[i].name; /* the plan is the statement's */
    if (m->n_columns) fields[i].name = m->columns[i]->name, comments[i] = given(m->columns[i]->comment);
  }
  table->kind = TRN_TABLE_VIEW;
  table->comment = given(m->comment);
  table->view_text = m->query_text;
  table->view_dialect = "spark.sql";
  table->view_catalog = d->view_catalog, table->view_database = d->view_database;
  table->view_columns = own;
  table->view_column_count = count;
  return spark__table_schema(fields, count, comments, NULL, &d->schema, error);
}

/* ---- rows ---- */

static trn_status insert(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnInsert *m = message;
  d->command.kind = TRN_COMMAND_INSERT;
  d->command.mode = m->overwrite ? TRN_WRITE_OVERWRITE : TRN_WRITE_APPEND;
  if (m->replace_where) return unimplemented(error, "INSERT with REPLACE WHERE");
  for (size_t i = 0; i < m->n_partitions; i++)
    if (m->partitions[i]->value) return unimplemented(error, "INSERT with a constant in PARTITION");
  trn_status status = name_table(d, m->table, error);
  if (!status) status = plan_of(d, m->input, &d->plan, error);
  if (status) return status;
  d->command.plan = d->plan;
  d->command.columns = m->n_columns ? (const char *const *)m->columns : NULL;
  d->command.column_count = m->n_columns;
  if (!m->by_name) return TRN_OK;
  const char **names = TRN_NEW_N(d->arena, const char *, d->plan->field_count);
  if (!names) return trn__no_memory(error);
  for (uint32_t i = 0; i < d->plan->field_count; i++) names[i] = d->plan->fields[i].name;
  d->command.columns = names;
  d->command.column_count = d->plan->field_count;
  return TRN_OK;
}

/* The rows that stay: those of which the condition is not true. */
static trn_status delete_rows(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnDelete *m = message;
  d->command.kind = TRN_COMMAND_DELETE;
  trn_status status = name_table(d, m->table, error);
  if (status) return status;
  expression *stays = m->condition ? call(d, "not", call(d, "<=>", m->condition, boolean(d, true), NULL), NULL, NULL)
                                   : boolean(d, false);
  relation *table = read_table(d, m->table, m->alias);
  relation *rest = new_relation(d, SPARK__CONNECT__RELATION__REL_TYPE_FILTER);
  if (!stays || !table || !rest || !(rest->filter = TRN_NEW(d->arena, Spark__Connect__Filter))) return trn__no_memory(error);
  spark__connect__filter__init(rest->filter);
  rest->filter->input = table;
  rest->filter->condition = stays;
  status = plan_of(d, rest, &d->plan, error);
  d->command.plan = d->plan;
  return status;
}

/* Which assignment a column of the table has. `parts` of its name: the last one counts. */
static trn_status assigned(decoding *d, const Spark__Connect__TrnUpdate *m, const char *column, expression **value,
                           size_t *used, trn_error **error) {
  *value = NULL;
  for (size_t i = 0; i < m->n_columns; i++) {
    char **parts = NULL;
    size_t count = 0;
    trn_status status = spark__sql_parse_attribute_name(d->arena, m->columns[i], strlen(m->columns[i]), &parts, &count, error);
    if (status) return status;
    if ((d->case_sensitive ? strcmp : strcasecmp)(parts[count - 1], column) != 0) continue;
    if (*value) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "UPDATE sets the column %s twice", column);
    *value = m->values[i];
    (*used)++;
  }
  return TRN_OK;
}

/* All rows, changed. */
static trn_status update_rows(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnUpdate *m = message;
  trn_plan *before = NULL;
  size_t used = 0;
  d->command.kind = TRN_COMMAND_UPDATE;
  trn_status status = name_table(d, m->table, error);
  relation *table = read_table(d, m->table, m->alias), *after = new_relation(d, SPARK__CONNECT__RELATION__REL_TYPE_PROJECT);
  if (!status && (!table || !after || !(after->project = TRN_NEW(d->arena, Spark__Connect__Project)))) status = trn__no_memory(error);
  if (!status) status = plan_of(d, table, &before, error);
  if (status) return status;
  spark__connect__project__init(after->project);
  after->project->input = table;
  after->project->n_expressions = before->field_count;
  after->project->expressions = TRN_NEW_N(d->arena, expression *, before->field_count);
  if (!after->project->expressions) status = trn__no_memory(error);
  for (uint32_t i = 0; !status && i < before->field_count; i++) {
    char *name = trn__arena_strdup(d->arena, before->fields[i].name);
    expression *value = NULL, *old = name ? attribute(d, name) : NULL;
    status = old ? assigned(d, m, name, &value, &used, error) : trn__no_memory(error);
    if (status) break;
    if (value && m->condition) value = call(d, "when", m->condition, value, old);
    after->project->expressions[i] = value ? named(d, value, name) : old;
    if (!after->project->expressions[i]) status = trn__no_memory(error);
  }
  trn_plan_unref(before);
  if (!status && used != m->n_columns)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "UPDATE names a column that the table has not");
  if (!status) status = plan_of(d, after, &d->plan, error);
  d->command.plan = d->plan;
  return status;
}

/* ---- the catalog ---- */

static trn_status alter_table(decoding *d, const void *message, trn_error **error) {
  const Spark__Connect__TrnAlterTable *m = message;
  char **to = NULL;
  if (strcmp(m->action, "recover partitions") == 0) {
    d->command.kind = TRN_COMMAND_RECOVER_PARTITIONS;
    return name_table(d, m->name, error);
  }
  if (strcmp(m->action, "rename") != 0) return unimplemented(error, "ALTER TABLE, but for RENAME TO and RECOVER PARTITIONS,");
  d->command.kind = TRN_COMMAND_RENAME_TABLE;
  trn_status status = name_table(d, m->name, error);
  if (!status) status = parts_of(d, m->to, &to, &d->command.to_count, error);
  for (size_t i = 0; !status && !d->case_sensitive && i < d->command.to_count; i++)
    for (char *c = to[i]; *c; c++)
      if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  d->command.to = (const char *const *)to;
  return status;
}

static trn_status table_statement(decoding *d, const void *message, trn_error **error) {
  static const struct {
    const char *what;
    trn_command_kind kind;
  } kinds[] = {{"truncate", TRN_COMMAND_TRUNCATE_TABLE}, {"analyze", TRN_COMMAND_ANALYZE_TABLE}, {"repair", TRN_COMMAND_RECOVER_PARTITIONS}};
  const Spark__Connect__TrnTableStatement *m = message;
  if (strcmp(m->what, "set catalog") == 0) {
    const char **name = TRN_NEW(d->arena, const char *);
    if (!name) return trn__no_memory(error);
    *name = m->name;
    d->command.kind = TRN_COMMAND_USE;
    d->command.is_catalog = true;
    d->command.name = name;
    d->command.name_count = 1;
    return TRN_OK;
  }
  bool is_whole = !m->n_partitions && (!given(m->text) || strcmp(m->text, "add") == 0);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && is_whole; i++) {
    if (strcmp(kinds[i].what, m->what) != 0) continue;
    d->command.kind = kinds[i].kind;
    return name_table(d, m->name, error);
  }
  return unimplemented(error, "The statement");
}

static trn_status create_database(decoding *d, const Spark__Connect__CreateDatabase *m, trn_error **error) {
  trn_kv *properties = TRN_NEW_N(d->arena, trn_kv, m->n_properties);
  d->command.kind = TRN_COMMAND_CREATE_DATABASE;
  d->command.if_not_exists = m->if_not_exists;
  d->command.database = &d->database;
  trn_status status = properties ? name_database(d, m->db_name, error) : trn__no_memory(error);
  if (status) return status;
  d->database.name = d->command.name[1];
  for (size_t i = 0; i < m->n_properties; i++) {
    const char *key = m->properties[i]->key, *value = m->properties[i]->value;
    if (strcmp(key, "comment") == 0) d->database.comment = value;
    else if (strcmp(key, "location") == 0) d->database.location = value;
    else properties[d->database.property_count++] = (trn_kv){key, value};
  }
  d->database.properties = properties;
  return TRN_OK;
}

/* Statements that have a message of their own in spark.catalog. */
static trn_status on_catalog(decoding *d, const Spark__Connect__Catalog *m, trn_error **error) {
  trn_command *command = &d->command;
  switch (m->cat_type_case) {
  case SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_VIEW:
    command->kind = TRN_COMMAND_DROP_VIEW;
    command->if_exists = m->drop_view->if_exists;
    return name_table(d, m->drop_view->view_name, error);
  case SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_TABLE:
    command->kind = TRN_COMMAND_DROP_TABLE;
    command->if_exists = m->drop_table->if_exists;
    command->purge = m->drop_table->purge;
    return name_table(d, m->drop_table->table_name, error);
  case SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_DATABASE:
    command->kind = TRN_COMMAND_DROP_DATABASE;
    command->if_exists = m->drop_database->if_exists;
    command->cascade = m->drop_database->cascade;
    return name_database(d, m->drop_database->db_name, error);
  case SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_DATABASE: return create_database(d, m->create_database, error);
  case SPARK__CONNECT__CATALOG__CAT_TYPE_SET_CURRENT_DATABASE:
    command->kind = TRN_COMMAND_USE;
    return name_database(d, m->set_current_database->db_name, error);
  default: return unimplemented(error, "The statement");
  }
}

static trn_status set(decoding *d, const spark_sql_statement *statement, trn_error **error) {
  const char **key = TRN_NEW(d->arena, const char *);
  bool is_set = statement->kind == SPARK_SQL_SET;
  if (!key) return trn__no_memory(error);
  if (statement->set_count != 1 || (is_set && !statement->set->value))
    return unimplemented(error, is_set ? "SET without a value" : "RESET without a setting's name");
  *key = statement->set->key;
  d->command.kind = TRN_COMMAND_SET;
  d->command.columns = key;
  d->command.column_count = 1;
  d->command.comment = is_set ? statement->set->value : NULL;
  return TRN_OK;
}

/* ---- the way in ---- */

static trn_status command(decoding *d, const spark_sql_statement *statement, trn_error **error) {
  if (statement->kind == SPARK_SQL_SET || statement->kind == SPARK_SQL_RESET) return set(d, statement, error);
  if (statement->kind == SPARK_SQL_SCRIPT) return unimplemented(error, "A script");
  if (!statement->command) return on_catalog(d, statement->relation->catalog, error);
  const Spark__Connect__Command *m = statement->command;
  switch (m->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_TABLE: return create_table(d, m->trn_create_table, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_VIEW: return create_view(d, m->trn_create_view, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_INSERT: return insert(d, m->trn_insert, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DELETE: return delete_rows(d, m->trn_delete, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_UPDATE: return update_rows(d, m->trn_update, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_ALTER_TABLE: return alter_table(d, m->trn_alter_table, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_TABLE_STATEMENT: return table_statement(d, m->trn_table_statement, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW: return unimplemented(error, "A temporary view");
  default: return unimplemented(error, "The statement");
  }
}

static trn_status decode(decoding *d, trn_statement *out, trn_error **error) {
  spark_translator settings;
  spark_sql_options options = {0};
  spark_sql_statement statement = {0};
  trn_status status = spark__translator_init(&settings, d->session, d->views, error);
  if (status) return status;
  spark__translator_sql_options(&settings, &options);
  options.takes_constraints = true;
  d->case_sensitive = settings.case_sensitive;
  trn__arena_unref(settings.arena);
  status = spark__sql_parse_statement(d->arena, d->text, strlen(d->text), &options, &statement, error);
  if (status) return status;
  if (statement.positional_parameters || statement.named_parameters)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement has parameters that have no values");
  if (statement.kind == SPARK_SQL_QUERY) {
    out->kind = TRN_STATEMENT_QUERY;
    status = spark__plan_sql(d->session, d->views, d->text, &d->plan, error); /* as a text: with the session's variables */
    if (!status) status = trn_backend_check(d->session, d->plan, error);
    out->plan = d->plan;
    return status;
  }
  out->kind = TRN_STATEMENT_COMMAND;
  out->command = &d->command;
  status = keys_of(d, &statement, error);
  if (!status) status = command(d, &statement, error);
  if (d->schema.release) d->table.schema = &d->schema;
  return status;
}

trn_status spark__decode_sql(trn_session *session, struct spark_catalog *catalog, const char *text, trn_statement *out,
                             trn_error **error) {
  decoding *d = calloc(1, sizeof *d);
  *out = (trn_statement){0};
  if (!d) return trn__no_memory(error);
  d->session = session;
  d->views = catalog;
  d->command.struct_size = sizeof d->command;
  d->table = (trn_table_info){.struct_size = sizeof d->table, .row_count = -1, .byte_count = -1};
  d->database.struct_size = sizeof d->database;
  d->arena = trn__arena_create(0);
  d->text = d->arena ? trn__arena_strdup(d->arena, text) : NULL;
  trn_status status = d->text ? decode(d, out, error) : trn__no_memory(error);
  if (status) {
    decoding_destroy(d);
    *out = (trn_statement){0};
    return status;
  }
  out->struct_size = sizeof *out;
  out->owner = d;
  out->release = release;
  return TRN_OK;
}

const char *spark__decoded_short_name(const trn_statement *statement) {
  return statement->release == release ? ((const decoding *)statement->owner)->short_name : NULL;
}

/* ---- as a decoder ---- */

static trn_status decode_query(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                               trn_error **error) {
  struct spark_catalog *views = spark__catalog_create();
  char *text = strndup(input->size ? input->data : "", input->size);
  (void)self;
  trn_status status = views && text ? TRN_OK : trn__no_memory(error);
  if (!status && strlen(text) != input->size)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The SQL text has a NUL in it");
  if (!status) status = spark__plan_sql(session, views, text, out, error);
  free(text);
  spark__catalog_destroy(views);
  return status;
}

trn_status trn__spark_decoder_register(trn_registry *registry) {
  static const trn_decoder_ops ops = {.struct_size = sizeof ops, .decode = decode_query};
  return trn_registry_add_decoder(registry, "spark.sql", &ops, NULL, NULL);
}
