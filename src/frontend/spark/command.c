/* Commands: spark.sql, temporary views, and the refusal of the others by name. */
#include "frontend/spark/service.h"
#include "frontend/spark/tables.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/variable.h"

/* ---- answers ---- */

static trn_status finish(spark_execution *execution) {
  if (execution->script) return TRN_OK; /* it goes on */
  spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  return TRN_OK;
}

static trn_status answer(spark_execution *execution, Spark__Connect__ExecutePlanResponse *response, trn_error **error) {
  if (execution->script) return TRN_OK; /* a script answers once */
  if (spark__execution_append(execution, response)) return trn__no_memory(error);
  return finish(execution);
}

/* The relation that the client runs next. */
static trn_status answer_sql(spark_execution *execution, Spark__Connect__Relation *relation, trn_error **error) {
  Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__SqlCommandResult result =
      SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__SQL_COMMAND_RESULT__INIT;
  result.relation = relation;
  response.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_SQL_COMMAND_RESULT;
  response.sql_command_result = &result;
  return answer(execution, &response, error);
}

/* The rows of a command that has run already, as a local relation. */
static trn_status answer_table(spark_execution *execution, const spark_table *table, trn_error **error) {
  Spark__Connect__LocalRelation local;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  spark__connect__local_relation__init(&local);
  local._data_case = SPARK__CONNECT__LOCAL_RELATION___DATA_DATA;
  if (spark__table_stream(table, &local.data)) return trn__no_memory(error);
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION;
  relation.local_relation = &local;
  return answer_sql(execution, &relation, error);
}

/* ---- SET, RESET ---- */

typedef struct set_rows {
  spark_table *table;
  trn_status status;
} set_rows;

static trn_status add_setting(spark_table *table, const char *key, const char *value) {
  char *name = trn__arena_strdup(table->arena, key), *text = trn__arena_strdup(table->arena, value);
  spark_cell *cell = name && text ? spark__table_add(table) : NULL;
  if (!cell) return TRN_RESOURCE_EXHAUSTED;
  cell[0] = spark__cell_text(name);
  cell[1] = spark__cell_text(text);
  return TRN_OK;
}

static void add_each_setting(void *user, const char *key, const char *value) {
  set_rows *rows = user;
  if (!rows->status) rows->status = add_setting(rows->table, key, value);
}

static trn_status show_setting(spark_rpc *rpc, spark_table *table, const char *key) {
  char *value = NULL;
  spark__config_get(rpc->session, key, &value);
  trn_status status = add_setting(table, key, value ? value : "<undefined>");
  free(value);
  return status;
}

/* SET x = 1 of a session variable was meant to be SET VARIABLE. */
static trn_status refuse_variable(spark_rpc *rpc, const char *key, trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  const trn_expr *value = NULL;
  if (spark__sql_parse_multipart_identifier(rpc->arena, key, strlen(key), NULL, &parts, &count, NULL) || !count ||
      spark__variable_qualifiers(parts, count) == SIZE_MAX)
    return TRN_OK;
  trn_status status = spark__variable_get(spark__catalog_variables(rpc->session->catalog), rpc->arena,
                                          parts[count - 1], &value, NULL, error);
  if (status || !value) return status;
  trn_strbuf text = {0};
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&text, "%s`%s`", i ? "." : "", parts[i]);
  const char *name = text.failed ? NULL : trn__arena_str(rpc->arena, text.data, text.size);
  trn__strbuf_finish(&text);
  if (!name) return trn__no_memory(error);
  return spark__raise(error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_FEATURE.SET_VARIABLE_USING_SET", "variableName", name,
                      NULL, NULL, NULL, NULL);
}

static trn_status run_set(spark_rpc *rpc, spark_execution *execution, const spark_sql_statement *statement,
                          trn_error **error) {
  static const trn_field columns[] = {{"key", NULL, false, NULL}, {"value", NULL, false, NULL}};
  trn_field *fields = trn__arena_copy(rpc->arena, columns, sizeof columns);
  if (!fields) return trn__no_memory(error);
  fields[0].type = fields[1].type = trn__type(TRN_TYPE_STRING);
  spark_table table = {.arena = rpc->arena, .fields = fields, .column_count = 2};
  set_rows rows = {&table, TRN_OK};
  if (!statement->set_count) {
    trn_status status = trn_session_client_each(rpc->session->session, add_each_setting, &rows);
    if (status || rows.status) return trn__no_memory(error);
  }
  for (size_t i = 0; i < statement->set_count; i++) {
    const trn_kv *entry = &statement->set[i];
    trn_status status = entry->value ? refuse_variable(rpc, entry->key, error) : TRN_OK;
    if (status) return status;
    status =
        entry->value ? spark__config_set(rpc->session, entry->key, entry->value, NULL, error)
                     : trn_session_client_check(rpc->session->session, entry->key, NULL, TRN_SETTING_GET, error);
    if (status) return status;
    if (entry->value ? add_setting(&table, entry->key, entry->value) : show_setting(rpc, &table, entry->key))
      return trn__no_memory(error);
  }
  return answer_table(execution, &table, error);
}

typedef struct reset_keys {
  trn_vec keys;
  bool failed;
} reset_keys;

static void collect_key(void *user, const char *key, const char *value) {
  reset_keys *reset = user;
  (void)value;
  char *copy = strdup(key);
  if (copy && trn__vec_push(&reset->keys, copy)) return;
  free(copy);
  reset->failed = true;
}

static trn_status run_reset(spark_rpc *rpc, spark_execution *execution, const spark_sql_statement *statement,
                            trn_error **error) {
  reset_keys reset = {0};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < statement->set_count && !status; i++)
    status = spark__config_unset(rpc->session, statement->set[i].key, error);
  if (!statement->set_count) status = trn_session_each(rpc->session->session, collect_key, &reset);
  if (reset.failed) status = trn__no_memory(error);
  for (size_t i = 0; i < reset.keys.count; i++) {
    /* What the client may not change stays. */
    const char *key = reset.keys.items[i];
    bool may_set = trn_session_client_check(rpc->session->session, key, NULL, TRN_SETTING_SET, NULL) == TRN_OK;
    if (!status && may_set) status = trn_session_set(rpc->session->session, key, NULL);
    free(reset.keys.items[i]);
  }
  trn__vec_finish(&reset.keys);
  const spark_table table = {.arena = rpc->arena};
  return status ? status : answer_table(execution, &table, error);
}

/* ---- views ---- */

/* `is_text`: the view is its SQL text, which means what it means when it is used. */
static trn_status create_view(spark_rpc *rpc, Spark__Connect__CreateDataFrameViewCommand *view, bool is_text,
                              trn_error **error) {
  trn_plan *plan = NULL;
  /* Analysed at once, as in Spark: a wrong query fails here, not when the view is used. */
  trn_status status = is_text ? spark__plan_relation(rpc, view->input, &plan, error)
                              : spark__freeze_views(rpc, &view->input, error);
  trn_plan_unref(plan);
  if (status) return status;
  char **parts;
  size_t count;
  rpc->phase = SPARK_PHASE_PARSE;
  rpc->sql = view->name;
  status =
      spark__sql_parse_multipart_identifier(rpc->arena, view->name, strlen(view->name), NULL, &parts, &count, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (count != 1)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "TEMP_VIEW_NAME_TOO_MANY_NAME_PARTS", "actualName", view->name,
                        NULL, NULL, NULL, NULL);
  status = spark__checkpoint_inline(rpc, &view->input->base, error);
  if (status) return status;
  return spark__session_set_view(rpc->session, parts[0], view->is_global, view->input, view->replace, error);
}

/* ---- spark.sql ---- */

/* 3.5 clients send the text in the command itself. */
static Spark__Connect__Relation *input_of(spark_rpc *rpc, Spark__Connect__SqlCommand *command) {
  if (command->input) return command->input;
  Spark__Connect__Relation *relation = TRN_NEW(rpc->arena, Spark__Connect__Relation);
  Spark__Connect__SQL *sql = relation ? TRN_NEW(rpc->arena, Spark__Connect__SQL) : NULL;
  if (!sql) return NULL;
  spark__connect__relation__init(relation);
  spark__connect__sql__init(sql);
  sql->query = command->sql;
  /* The entries of both maps have the same fields in the same places. */
  sql->n_args = command->n_args;
  sql->args = (Spark__Connect__SQL__ArgsEntry **)command->args;
  for (size_t i = 0; i < sql->n_args; i++) sql->args[i]->base.descriptor = &spark__connect__sql__args_entry__descriptor;
  sql->n_pos_args = command->n_pos_args;
  sql->pos_args = command->pos_args;
  sql->n_named_arguments = command->n_named_arguments;
  sql->named_arguments = (Spark__Connect__SQL__NamedArgumentsEntry **)command->named_arguments;
  for (size_t i = 0; i < sql->n_named_arguments; i++)
    sql->named_arguments[i]->base.descriptor = &spark__connect__sql__named_arguments_entry__descriptor;
  sql->n_pos_arguments = command->n_pos_arguments;
  sql->pos_arguments = command->pos_arguments;
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation->sql = sql;
  return relation;
}

static spark_sql_options sql_options(spark_session *session) {
  return (spark_sql_options){
      .double_quoted_identifiers = spark__config_bool(session, "spark.sql.ansi.doubleQuotedIdentifiers") &&
                                   spark__config_bool(session, "spark.sql.ansi.enabled"),
      .legacy_identifier_clause = spark__config_bool(session, "spark.sql.legacy.identifierClause"),
      .legacy_setops_precedence = spark__config_bool(session, "spark.sql.legacy.setopsPrecedence.enabled"),
      .exponent_as_decimal = spark__config_bool(session, "spark.sql.legacy.exponentLiteralAsDecimal.enabled")};
}

/* The answer of a statement whose rows are written while the client waits: none. It comes first, the end of the write
 * ends the execution. */
static trn_status append_nothing(spark_rpc *rpc, spark_execution *execution, trn_error **error) {
  if (execution->script) return TRN_OK;
  Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__SqlCommandResult result =
      SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__SQL_COMMAND_RESULT__INIT;
  Spark__Connect__LocalRelation local;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  const spark_table table = {.arena = rpc->arena};
  spark__connect__local_relation__init(&local);
  local._data_case = SPARK__CONNECT__LOCAL_RELATION___DATA_DATA;
  if (spark__table_stream(&table, &local.data)) return trn__no_memory(error);
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION;
  relation.local_relation = &local;
  result.relation = &relation;
  response.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_SQL_COMMAND_RESULT;
  response.sql_command_result = &result;
  return spark__execution_append(execution, &response) ? trn__no_memory(error) : TRN_OK;
}

/* CACHE TABLE x AS query: a view first. */
static trn_status run_cache(spark_rpc *rpc, const Spark__Connect__TrnTableStatement *s, trn_error **error) {
  Spark__Connect__Catalog catalog = SPARK__CONNECT__CATALOG__INIT;
  Spark__Connect__CacheTable cache = SPARK__CONNECT__CACHE_TABLE__INIT;
  Spark__Connect__UncacheTable uncache = SPARK__CONNECT__UNCACHE_TABLE__INIT;
  spark_table rows;
  bool caches = strcmp(s->what, "cache") == 0;
  if (s->query) {
    Spark__Connect__CreateDataFrameViewCommand view = SPARK__CONNECT__CREATE_DATA_FRAME_VIEW_COMMAND__INIT;
    view.name = s->name;
    view.input = s->query;
    view.replace = false;
    trn_status status = create_view(rpc, &view, true, error);
    if (status) return status;
  }
  catalog.cat_type_case = caches ? SPARK__CONNECT__CATALOG__CAT_TYPE_CACHE_TABLE : SPARK__CONNECT__CATALOG__CAT_TYPE_UNCACHE_TABLE;
  cache.table_name = uncache.table_name = s->name;
  if (caches) catalog.cache_table = &cache;
  else catalog.uncache_table = &uncache;
  trn_status status = spark__catalog_run(rpc, &catalog, &rows, error);
  if (status != TRN_NOT_FOUND || !s->if_exists) return status;
  if (error) {
    trn_error_unref(*error);
    *error = NULL;
  }
  return TRN_OK;
}

/* Statements about tables: *done unless it is none of them; *running: the execution ends later. */
static trn_status run_on_tables(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__Command *command,
                                bool *done, bool *running, trn_error **error) {
  trn_status status;
  *done = true;
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_TABLE:
    if (command->trn_create_table->query && (status = append_nothing(rpc, execution, error))) return status;
    status = spark__create_table(rpc, execution, command->trn_create_table, running, error);
    if (!status && command->trn_create_table->query && !*running) { /* IF NOT EXISTS, and it does */
      *running = true;
      return finish(execution);
    }
    return status;
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_INSERT:
    *running = true;
    status = append_nothing(rpc, execution, error);
    return status ? status : spark__insert(rpc, execution, command->trn_insert, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_VIEW: return spark__create_view(rpc, command->trn_create_view, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_ALTER_TABLE: return spark__alter_table(rpc, command->trn_alter_table, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DELETE:
    return spark__refuse_change(rpc, command->trn_delete->table, "DELETE", error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_UPDATE:
    return spark__refuse_change(rpc, command->trn_update->table, "UPDATE TABLE", error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_TABLE_STATEMENT:
    if (strcmp(command->trn_table_statement->what, "cache") == 0 || strcmp(command->trn_table_statement->what, "uncache") == 0)
      return run_cache(rpc, command->trn_table_statement, error);
    return spark__table_statement(rpc, command->trn_table_statement, error);
  default: *done = false; return TRN_OK;
  }
}

/* A statement that runs now. */
static trn_status run_statement(spark_rpc *rpc, spark_execution *execution, const spark_sql_statement *statement,
                                trn_error **error) {
  if (statement->kind == SPARK_SQL_SET) return run_set(rpc, execution, statement, error);
  if (statement->kind == SPARK_SQL_RESET) return run_reset(rpc, execution, statement, error);
  trn_status status = TRN_OK;
  bool done = false, running = false;
  const char *sql = rpc->sql; /* positions in a view's query are positions in this text */
  if (statement->command) status = run_on_tables(rpc, execution, statement->command, &done, &running, error);
  if (running) return status;
  if (!status && !done && statement->command)
    status = spark__variable_statement(rpc, statement->command, &done, error);
  if (!status && !done && statement->command)
    status = spark__routine_statement(rpc, statement->command, &done, error);
  if (status || done) {
    rpc->sql = sql;
  } else if (statement->command &&
      statement->command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW) {
    status = create_view(rpc, statement->command->create_dataframe_view, true, error);
  } else if (statement->command) {
    spark_table rows;
    status = spark__sql_answer(rpc, statement->command, &rows, error);
    if (!status) return answer_table(execution, &rows, error);
  } else {
    spark_table rows; /* SQL's forms of these give none */
    status = spark__catalog_run(rpc, statement->relation->catalog, &rows, error);
  }
  rpc->sql = sql;
  const spark_table table = {.arena = rpc->arena};
  return status ? status : answer_table(execution, &table, error);
}

/* The text before is blank, so that places are those in the script. */
trn_status spark__script_read_later(spark_rpc *rpc, const char *text, const spark_script_later *later, spark_sql_statement *statement,
                                    Spark__Connect__Expression **condition, trn_error **error) {
  spark_sql_options options = sql_options(rpc->session);
  spark_text_names names = {rpc->arena, spark__catalog_variables(rpc->session->catalog), rpc->locals};
  size_t size = later->start + later->size;
  char *piece = trn__arena_str(rpc->arena, text, size);
  if (!piece) return trn__no_memory(error);
  for (size_t i = 0; i < later->start; i++)
    if (piece[i] != '\n') piece[i] = ' ';
  trn_status status = spark__text_names(&names, rpc->parameters, &options, error);
  options.in_script = true;
  options.positional = later->positional;
  if (status) return status;
  return condition ? spark__sql_parse_expression(rpc->arena, piece, size, &options, condition, error)
                   : spark__sql_parse_statement(rpc->arena, piece, size, &options, statement, error);
}

static trn_status run_text(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Relation *input,
                           const Spark__Connect__TrnExecuteImmediate *into, trn_error **error);
static trn_status run_parsed(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Relation *input,
                             const spark_sql_statement *statement, trn_error **error);

/* EXECUTE IMMEDIATE: the text in place of the statement. */
static trn_status run_immediate(spark_rpc *rpc, spark_execution *execution,
                                const Spark__Connect__TrnExecuteImmediate *message, trn_error **error) {
  Spark__Connect__Relation *input = NULL;
  trn_status status = spark__execute_immediate(rpc, message, &input, error);
  if (status) return status;
  if (++rpc->immediate_depth > TRN_EXECUTE_IMMEDIATE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "EXECUTE IMMEDIATE is nested deeper than TRN_EXECUTE_IMMEDIATE_DEPTH_MAX (%u).",
                         TRN_EXECUTE_IMMEDIATE_DEPTH_MAX);
  const Spark__Connect__SQL *parameters = rpc->parameters;
  status = run_text(rpc, execution, input, message->n_into ? message : NULL, error);
  if (!status) rpc->immediate_depth--;
  if (!status) rpc->parameters = parameters;
  return status;
}

/* The text does not see the variables of the script around it, but what it sets INTO. */
static trn_status run_immediate_text(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Relation *input,
                                     const spark_sql_statement *statement, trn_error **error) {
  const struct spark_locals *locals = rpc->locals;
  if (statement->kind == SPARK_SQL_SCRIPT)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "SQL_SCRIPT_IN_EXECUTE_IMMEDIATE", "sqlString", input->sql->query,
                        NULL, NULL, NULL, NULL);
  rpc->locals = NULL;
  trn_status status = run_parsed(rpc, execution, input, statement, error);
  rpc->locals = locals;
  return status;
}

static bool is_immediate(const spark_sql_statement *statement) {
  return statement->command &&
         statement->command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_EXECUTE_IMMEDIATE;
}

static trn_status run_parsed(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Relation *input,
                             const spark_sql_statement *statement, trn_error **error) {
  if (is_immediate(statement)) return run_immediate(rpc, execution, statement->command->trn_execute_immediate, error);
  if (statement->kind == SPARK_SQL_SCRIPT) return spark__script_run(rpc, execution, statement, error);
  if (statement->kind != SPARK_SQL_QUERY) return run_statement(rpc, execution, statement, error);
  if (execution->script) return spark__script_query(rpc, execution, input, error);
  trn_plan *plan = NULL; /* analysed at once: spark.sql fails, not the first action */
  trn_status status = spark__plan_relation(rpc, input, &plan, error);
  trn_plan_unref(plan);
  return status ? status : answer_sql(execution, input, error);
}

trn_status spark__statement_run(spark_rpc *rpc, spark_execution *execution, const spark_sql_statement *statement,
                                trn_error **error) {
  return run_parsed(rpc, execution, statement->relation, statement, error);
}

static trn_status run_sql(spark_rpc *rpc, spark_execution *execution, Spark__Connect__SqlCommand *command,
                          trn_error **error) {
  Spark__Connect__Relation *input = input_of(rpc, command);
  return input ? run_text(rpc, execution, input, NULL, error) : trn__no_memory(error);
}

static trn_status run_text(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Relation *input,
                           const Spark__Connect__TrnExecuteImmediate *into, trn_error **error) {
  const Spark__Connect__SQL *sql = spark__sql_of(input);
  if (!sql)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.ASSERTION_FAILURE", "message",
                        "a SQL command without a SQL text", NULL, NULL, NULL, NULL);
  spark_sql_statement statement;
  const char *outer = rpc->sql;
  spark_sql_options options = sql_options(rpc->session);
  spark_text_names names = {rpc->arena, spark__catalog_variables(rpc->session->catalog), rpc->locals};
  trn_status status = spark__text_names(&names, sql, &options, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_PARSE;
  rpc->sql = sql->query;
  rpc->parameters = sql;
  status = spark__sql_parse_statement(rpc->arena, sql->query, strlen(sql->query), &options, &statement, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (into) {
    const spark_table table = {.arena = rpc->arena};
    status = spark__execute_into(rpc, into, input, statement.kind == SPARK_SQL_QUERY, outer, error);
    return status ? status : answer_table(execution, &table, error);
  }
  if (rpc->immediate_depth) return run_immediate_text(rpc, execution, input, &statement, error);
  return run_parsed(rpc, execution, input, &statement, error);
}

/* ---- which command ---- */

static trn_status get_resources(spark_execution *execution, trn_error **error) {
  Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__GetResourcesCommandResult result = SPARK__CONNECT__GET_RESOURCES_COMMAND_RESULT__INIT;
  response.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_GET_RESOURCES_COMMAND_RESULT;
  response.get_resources_command_result = &result;
  return answer(execution, &response, error);
}

trn_status spark__command_run(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Command *command,
                              trn_error **error) {
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_SQL_COMMAND: return run_sql(rpc, execution, command->sql_command, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW: {
    trn_status status = create_view(rpc, command->create_dataframe_view, false, error);
    return status ? status : finish(execution);
  }
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_WRITE_OPERATION:
    return spark__write_run(rpc, execution, command->write_operation, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_WRITE_OPERATION_V2:
    return spark__write_v2(rpc, execution, command->write_operation_v2, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_CHECKPOINT_COMMAND:
    return spark__checkpoint_run(rpc, execution, command->checkpoint_command, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_REMOVE_CACHED_REMOTE_RELATION_COMMAND:
    return spark__checkpoint_drop(rpc, execution, command->remove_cached_remote_relation_command, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_GET_RESOURCES_COMMAND: return get_resources(execution, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_EXTENSION: {
    trn_plan *plan = NULL;
    trn_status status = spark__plan_command(rpc, command->extension, &plan, error);
    if (status) return status;
    return plan ? spark__execution_run(execution, plan, error) : finish(execution);
  }
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_ML_COMMAND:
    /* Every client says this when it exits; there is no cache. */
    if (command->ml_command->command_case == SPARK__CONNECT__ML_COMMAND__COMMAND_CLEAN_CACHE) return finish(execution);
    return spark__error_not_supported(error, &command->base, (int)command->command_type_case);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE__NOT_SET:
    return spark__error_not_set(error, "spark.connect.Command", "COMMANDTYPE_NOT_SET");
  default: return spark__error_not_supported(error, &command->base, (int)command->command_type_case);
  }
}
