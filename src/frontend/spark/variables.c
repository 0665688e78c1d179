/* DECLARE, SET VARIABLE, DROP TEMPORARY VARIABLE, EXECUTE IMMEDIATE. */
#include <strings.h>

#include "frontend/spark/service.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/variable.h"

#define DECLARE_PATH "[`system`.`session`]"
#define SEARCH_PATH "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]"

static const trn_position NOWHERE = {-1, -1};

static spark_variables *variables_of(const spark_rpc *rpc) {
  return spark__catalog_variables(rpc->session->catalog);
}

/* What the whole statement covers: casts of an assignment are there. */
static trn_position whole(const spark_rpc *rpc) {
  size_t size = rpc->sql ? strlen(rpc->sql) : 0;
  return size && size < INT32_MAX ? (trn_position){0, (int32_t)size - 1} : NOWHERE;
}

/* ---- names ---- */

static trn_status unresolved(spark_rpc *rpc, char *const *parts, size_t count, const char *path, trn_error **error) {
  trn_strbuf name = {0};
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&name, "%s`%s`", i ? "." : "", parts[i]);
  char *text = name.failed ? NULL : trn__arena_str(rpc->arena, name.data, name.size);
  trn__strbuf_finish(&name);
  if (!text) return trn__no_memory(error);
  return spark__raise(error, TRN_NOT_FOUND, "UNRESOLVED_VARIABLE", "variableName", text, "searchPath", path, NULL,
                      NULL);
}

/* What is before the names of new variables. */
static const char *place_of_new(spark_rpc *rpc) {
  if (!rpc->locals) return "`system`.`session`";
  return trn__arena_printf(rpc->arena, "`%s`", rpc->locals->label);
}

static trn_status with_name(spark_rpc *rpc, trn_status status, const char *condition, const char *key,
                            const char *name, trn_error **error) {
  char *text = trn__arena_strdup(rpc->arena, name);
  for (char *at = text; at && *at; at++)
    if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
  const char *place = place_of_new(rpc);
  const char *shown = text && place ? trn__arena_printf(rpc->arena, "%s.`%s`", place, text) : NULL;
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, status, condition, key, shown, NULL, NULL, NULL, NULL);
}

/* The last part of a variable's name, which must be in the session. */
static trn_status name_of(spark_rpc *rpc, const char *path, const char *search, const char **out, trn_error **error) {
  char **parts;
  size_t count;
  trn_status status =
      spark__sql_parse_multipart_identifier(rpc->arena, path, strlen(path), NULL, &parts, &count, error);
  if (status) return status;
  if (spark__variable_qualifiers(parts, count) == SIZE_MAX) return unresolved(rpc, parts, count, search, error);
  *out = parts[count - 1];
  return TRN_OK;
}

/* A variable that is there: of the script around, else of the session. */
typedef struct target {
  spark_variables *home;
  const char *name;
  const trn_expr *before, *after;
  const char *default_text; /* or NULL */
} target;

static trn_status target_of(spark_rpc *rpc, const char *path, target *out, trn_error **error) {
  char **parts;
  size_t count, used = 0;
  trn_status status =
      spark__sql_parse_multipart_identifier(rpc->arena, path, strlen(path), NULL, &parts, &count, error);
  if (status) return status;
  const spark_locals *local = spark__local_find(rpc->locals, parts, count, &used);
  if (local && used == count) {
    *out = (target){.home = local->variables, .name = parts[count - 1]};
  } else {
    if (spark__variable_qualifiers(parts, count) == SIZE_MAX) return unresolved(rpc, parts, count, SEARCH_PATH, error);
    *out = (target){.home = variables_of(rpc), .name = parts[count - 1]};
  }
  status = spark__variable_get(out->home, rpc->arena, out->name, &out->before, &out->default_text, error);
  if (status || out->before) return status;
  return unresolved(rpc, parts + count - 1, 1, SEARCH_PATH, error);
}

/* The targets of an assignment, each once. */
static trn_status targets_of(spark_rpc *rpc, char *const *paths, size_t count, target *targets, trn_error **error) {
  for (size_t i = 0; i < count; i++) {
    trn_status status = target_of(rpc, paths[i], &targets[i], error);
    if (status) return status;
    for (size_t k = 0; k < i; k++) {
      if (targets[k].home != targets[i].home || strcasecmp(targets[k].name, targets[i].name) != 0) continue;
      const char *shown = trn__arena_printf(rpc->arena, "`%s`", targets[k].name);
      if (!shown) return trn__no_memory(error);
      return spark__raise(error, TRN_INVALID_ARGUMENT, "DUPLICATE_ASSIGNMENTS", "nameList", shown, NULL, NULL, NULL,
                          NULL);
    }
  }
  return TRN_OK;
}

/* ---- values ---- */

static trn_status evaluate(spark_rpc *rpc, spark_translator *t, const spark_value *value, const trn_type *type,
                           const trn_expr **out, trn_error **error) {
  spark_value cast = *value;
  trn_status status = TRN_OK;
  if (type)
    status = spark__cast(t, value->expr, type, t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY, whole(rpc), &cast.expr,
                         error);
  if (status || cast.expr->kind == TRN_EXPR_LITERAL) {
    *out = cast.expr;
    return status;
  }
  cast.name = "value";
  rpc->phase = SPARK_PHASE_EXECUTION;
  status = spark__evaluate(t, &cast, out, error);
  if (!status) rpc->phase = SPARK_PHASE_ANALYSIS;
  return status;
}

static trn_status evaluate_expression(spark_rpc *rpc, spark_translator *t, const Spark__Connect__Expression *message,
                                      const trn_type *type, const trn_expr **out, trn_error **error) {
  spark_value value;
  trn_status status = spark__expression(t, message, &value, error);
  return status ? status : evaluate(rpc, t, &value, type, out, error);
}

/* A default is evaluated again whenever it is asked for. */
static trn_status evaluate_default(spark_rpc *rpc, spark_translator *t, const char *text, const trn_type *type,
                                   const trn_expr **out, trn_error **error) {
  Spark__Connect__Expression *message = NULL;
  if (!text) {
    *out = trn__expr_null(t->arena, type);
    return *out ? TRN_OK : trn__no_memory(error);
  }
  trn_status status = spark__sql_parse_expression(rpc->arena, text, strlen(text), NULL, &message, error);
  return status ? status : evaluate_expression(rpc, t, message, type, out, error);
}

static bool is_default(const Spark__Connect__Expression *e) {
  return e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE &&
         e->unresolved_attribute->unparsed_identifier &&
         strcasecmp(e->unresolved_attribute->unparsed_identifier, "default") == 0;
}

/* ---- DECLARE ---- */

static trn_status refuse_subquery(spark_rpc *rpc, const Spark__Connect__TrnDeclareVariable *message, const char *name,
                                  trn_error **error) {
  const char *place = place_of_new(rpc), *local = rpc->locals ? "`local`." : "";
  const char *shown = place ? trn__arena_printf(rpc->arena, "%s%s.`%s`", local, place, name) : NULL;
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION", "statement",
                      "DECLARE VARIABLE", "colName", shown, "defaultValue", message->value_text);
}

static trn_status declared_value(spark_rpc *rpc, spark_translator *t,
                                 const Spark__Connect__TrnDeclareVariable *message, const char *name,
                                 const trn_expr **out, trn_error **error) {
  const trn_type *type = NULL;
  spark_value value;
  trn_status status = message->type ? spark__type_from_proto(t->arena, message->type, &type, error) : TRN_OK;
  if (status) return status;
  if (!message->value) return evaluate_default(rpc, t, NULL, type, out, error);
  status = spark__expression(t, message->value, &value, error);
  if (status) return status;
  if (spark__expr_contains(value.expr, TRN_EXPR_SUBQUERY)) return refuse_subquery(rpc, message, name, error);
  return evaluate(rpc, t, &value, type, out, error);
}

/* The name of a new variable: one of a script has no qualifier, and does not replace another. */
static trn_status new_name(spark_rpc *rpc, const char *path, bool replace, const char **out, trn_error **error) {
  char **parts;
  size_t count;
  if (!rpc->locals) return name_of(rpc, path, DECLARE_PATH, out, error);
  trn_status status =
      spark__sql_parse_multipart_identifier(rpc->arena, path, strlen(path), NULL, &parts, &count, error);
  if (status) return status;
  *out = parts[count - 1];
  if (count == 1 && !replace) return TRN_OK;
  trn_strbuf text = {0};
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&text, "%s`%s`", i ? "." : "", parts[i]);
  const char *shown = text.failed ? NULL : trn__arena_str(rpc->arena, text.data, text.size);
  trn__strbuf_finish(&text);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_INVALID_ARGUMENT,
                      count > 1 ? "INVALID_VARIABLE_DECLARATION.QUALIFIED_LOCAL_VARIABLE"
                                : "INVALID_VARIABLE_DECLARATION.REPLACE_LOCAL_VARIABLE",
                      "varName", shown, NULL, NULL, NULL, NULL);
}

static trn_status declare(spark_rpc *rpc, spark_translator *t, const Spark__Connect__TrnDeclareVariable *message,
                          trn_error **error) {
  const trn_expr *value = NULL;
  const char **names = TRN_NEW_N(rpc->arena, const char *, message->n_names);
  trn_status status = names ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < message->n_names && !status; i++) {
    status = new_name(rpc, message->names[i], message->replace, &names[i], error);
    for (size_t k = 0; k < i && !status; k++)
      if (strcasecmp(names[k], names[i]) == 0)
        status = with_name(rpc, TRN_INVALID_ARGUMENT, "DUPLICATE_VARIABLE_NAME_INSIDE_DECLARE", "variableName",
                           names[i], error);
  }
  if (!status) status = declared_value(rpc, t, message, names[0], &value, error);
  for (size_t i = 0; i < message->n_names && !status; i++) {
    spark_variables *home = rpc->locals ? rpc->locals->variables : variables_of(rpc);
    status = spark__variable_declare(home, names[i], value, message->value ? message->value_text : NULL,
                                     message->replace, error);
    if (status == TRN_ALREADY_EXISTS)
      status = with_name(rpc, status, "VARIABLE_ALREADY_EXISTS", "variableName", names[i], error);
  }
  return status;
}

/* ---- SET VARIABLE ---- */

/* The one row of a query, cast to what the variables are; none: all NULL. */
static trn_status values_of_query(spark_rpc *rpc, spark_translator *t, const Spark__Connect__Relation *query,
                                  target *targets, size_t count, trn_error **error) {
  spark_relation relation;
  spark_value *values = NULL;
  size_t width = 0;
  spark_rows rows = {0};
  trn_status status = spark__relation(t, query, &relation, error);
  if (!status) status = spark__scope_values(t, relation.scope, &values, &width, error);
  if (status) return status;
  if (width != count) {
    const char *given = trn__arena_printf(rpc->arena, "%zu", width);
    const char *wanted = trn__arena_printf(rpc->arena, "%zu", count);
    if (!given || !wanted) return trn__no_memory(error);
    return spark__raise(error, TRN_INVALID_ARGUMENT, "ASSIGNMENT_ARITY_MISMATCH", "numTarget", wanted, "numExpr",
                        given, NULL, NULL);
  }
  rpc->phase = SPARK_PHASE_EXECUTION;
  status = spark__run_now(t, &relation, 2, &rows, error);
  if (status) return status;
  if (rows.row_count > 1)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "ROW_SUBQUERY_TOO_MANY_ROWS", NULL, NULL, NULL, NULL, NULL, NULL);
  rpc->phase = SPARK_PHASE_ANALYSIS;
  for (size_t i = 0; i < count && !status; i++) {
    spark_value value = {.expr = rows.row_count ? rows.cells[i] : NULL, .name = "value", .is_foldable = true};
    const trn_type *type = targets[i].before->type;
    status = rows.row_count ? evaluate(rpc, t, &value, type, &targets[i].after, error)
                            : evaluate_default(rpc, t, NULL, type, &targets[i].after, error);
  }
  return status;
}

/* All values are those before the statement: nothing is set until all of them are there. */
static trn_status assign(spark_rpc *rpc, spark_translator *t, char *const *paths, size_t count,
                         Spark__Connect__Expression *const *values, const Spark__Connect__Relation *query,
                         trn_error **error) {
  target *targets = TRN_NEW_N(rpc->arena, target, count);
  if (!targets) return trn__no_memory(error);
  trn_status status = targets_of(rpc, paths, count, targets, error);
  if (!status && query) status = values_of_query(rpc, t, query, targets, count, error);
  for (size_t i = 0; i < count && !query && !status; i++) {
    target *to = &targets[i];
    status = is_default(values[i]) ? evaluate_default(rpc, t, to->default_text, to->before->type, &to->after, error)
                                   : evaluate_expression(rpc, t, values[i], to->before->type, &to->after, error);
  }
  for (size_t i = 0; i < count && !status; i++)
    status = spark__variable_set(targets[i].home, targets[i].name, targets[i].after, error);
  return status;
}

/* ---- DROP ---- */

static trn_status drop(spark_rpc *rpc, const Spark__Connect__TrnDropVariable *message, trn_error **error) {
  const char *name = NULL;
  if (rpc->locals)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_FEATURE.SQL_SCRIPTING_DROP_TEMPORARY_VARIABLE", NULL,
                        NULL, NULL, NULL, NULL, NULL);
  trn_status status = name_of(rpc, message->name, DECLARE_PATH, &name, error);
  if (status || spark__variable_drop(variables_of(rpc), name) || message->if_exists) return status;
  return with_name(rpc, TRN_NOT_FOUND, "VARIABLE_NOT_FOUND", "variableName", name, error);
}

trn_status spark__variable_statement(spark_rpc *rpc, const Spark__Connect__Command *command, bool *done,
                                     trn_error **error) {
  spark_translator t;
  *done = true;
  switch (command->command_type_case) {
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DROP_VARIABLE:
    return drop(rpc, command->trn_drop_variable, error);
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DECLARE_VARIABLE:
  case SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_SET_VARIABLE: break;
  default: *done = false; return TRN_OK;
  }
  trn_status status = spark__begin_translation(rpc, &t, error);
  if (status) return status;
  if (command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DECLARE_VARIABLE) {
    status = declare(rpc, &t, command->trn_declare_variable, error);
  } else {
    const Spark__Connect__TrnSetVariable *set = command->trn_set_variable;
    status = assign(rpc, &t, set->names, set->n_names, set->values, set->query, error);
  }
  trn__arena_unref(t.arena);
  return status;
}

/* ---- conditions of scripts ---- */

trn_status spark__evaluate_condition(spark_rpc *rpc, const Spark__Connect__Expression *message, bool *is_boolean,
                                     bool *is_true, trn_error **error) {
  spark_translator t;
  spark_value value;
  const trn_expr *constant = NULL;
  *is_boolean = *is_true = false;
  trn_status status = spark__begin_translation(rpc, &t, error);
  if (status) return status;
  status = spark__expression(&t, message, &value, error);
  if (!status) *is_boolean = value.expr->type->id == TRN_TYPE_BOOL;
  if (!status && *is_boolean) status = evaluate(rpc, &t, &value, NULL, &constant, error);
  if (constant) *is_true = !constant->u.literal.is_null && constant->u.literal.value.boolean;
  trn__arena_unref(t.arena);
  return status;
}

/* ---- EXECUTE IMMEDIATE ---- */

static trn_status refuse_argument(spark_rpc *rpc, spark_translator *t, const spark_value *value, trn_error **error) {
  (void)rpc;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_EXPR_FOR_PARAMETER", value->expr->position,
                      "invalidExprSql", spark__sql_text(t, value->name), NULL);
}

static trn_status text_of(spark_rpc *rpc, spark_translator *t, const Spark__Connect__Expression *message,
                          const char **out, trn_error **error) {
  spark_value value;
  const trn_expr *constant = NULL;
  trn_status status = spark__expression(t, message, &value, error);
  if (status) return status;
  if (spark__expr_contains(value.expr, TRN_EXPR_SUBQUERY)) return refuse_argument(rpc, t, &value, error);
  if (value.expr->type->id != TRN_TYPE_STRING) {
    const char *type = spark__quoted_type(t, value.expr->type);
    if (!type) return trn__no_memory(error);
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE", "exprType", type,
                        NULL, NULL, NULL, NULL);
  }
  status = evaluate(rpc, t, &value, NULL, &constant, error);
  if (status) return status;
  if (constant->u.literal.is_null) {
    const char *name = spark__quote(t, value.variable_name ? value.variable_name : value.name);
    if (!name) return trn__no_memory(error);
    return spark__raise(error, TRN_INVALID_ARGUMENT, "NULL_QUERY_STRING_EXECUTE_IMMEDIATE", "varName", name, NULL,
                        NULL, NULL, NULL);
  }
  *out = trn__arena_str(rpc->arena, constant->u.literal.value.bytes.data, constant->u.literal.value.bytes.size);
  return *out ? TRN_OK : trn__no_memory(error);
}

typedef struct argument {
  const char *name; /* or NULL */
  const char *shown;
  Spark__Connect__Expression *value;
} argument;

static trn_status argument_of(spark_rpc *rpc, spark_translator *t, const Spark__Connect__Expression *message,
                              argument *out, trn_error **error) {
  spark_value value;
  const trn_expr *constant = NULL;
  trn_status status = spark__expression(t, message, &value, error);
  if (status) return status;
  if (spark__expr_contains(value.expr, TRN_EXPR_SUBQUERY)) return refuse_argument(rpc, t, &value, error);
  status = evaluate(rpc, t, &value, NULL, &constant, error);
  if (status) return status;
  out->value = TRN_NEW(t->arena, Spark__Connect__Expression);
  if (!out->value) return trn__no_memory(error);
  spark__connect__expression__init(out->value);
  out->value->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  out->shown = value.name ? value.name : "";
  out->name = value.is_alias ? value.name : value.variable_name;
  return spark__literal_to_proto(t, constant, &out->value->literal, error);
}

static trn_status refuse_unnamed(spark_translator *t, const argument *arguments, size_t count, trn_error **error) {
  trn_strbuf text = {0};
  for (size_t i = 0; i < count; i++)
    if (!arguments[i].name) trn__strbuf_printf(&text, "%s\"%s\"", text.size ? ", " : "", arguments[i].shown);
  const char *shown = spark__finish_text(t, &text);
  if (!shown) return trn__no_memory(error);
  return spark__raise(error, TRN_INVALID_ARGUMENT, "ALL_PARAMETERS_MUST_BE_NAMED", "exprs", shown, NULL, NULL, NULL,
                      NULL);
}

/* The arguments as those of spark.sql(text, args): by place when the text has question marks, else by name. */
static trn_status bind(spark_translator *t, const argument *arguments, size_t count, bool by_place,
                       Spark__Connect__SQL *sql, trn_error **error) {
  if (by_place) {
    sql->n_pos_arguments = count;
    sql->pos_arguments = TRN_NEW_N(t->arena, Spark__Connect__Expression *, count);
    for (size_t i = 0; sql->pos_arguments && i < count; i++) sql->pos_arguments[i] = arguments[i].value;
    return sql->pos_arguments ? TRN_OK : trn__no_memory(error);
  }
  for (size_t i = 0; i < count; i++)
    if (!arguments[i].name) return refuse_unnamed(t, arguments, count, error);
  sql->n_named_arguments = count;
  sql->named_arguments = TRN_NEW_N(t->arena, Spark__Connect__SQL__NamedArgumentsEntry *, count);
  for (size_t i = 0; sql->named_arguments && i < count; i++) {
    Spark__Connect__SQL__NamedArgumentsEntry *entry = sql->named_arguments[i] =
        TRN_NEW(t->arena, Spark__Connect__SQL__NamedArgumentsEntry);
    if (!entry) return trn__no_memory(error);
    spark__connect__sql__named_arguments_entry__init(entry);
    entry->key = (char *)arguments[i].name;
    entry->value = arguments[i].value;
  }
  return sql->named_arguments ? TRN_OK : trn__no_memory(error);
}

/* How the text has its parameters; what does not parse has none: its error comes when it runs. */
static trn_status bind_text(spark_rpc *rpc, spark_translator *t, const argument *arguments, size_t count,
                            const char *text, Spark__Connect__SQL *sql, trn_error **error) {
  spark_sql_statement statement = {0};
  if (spark__sql_parse_statement(rpc->arena, text, strlen(text), NULL, &statement, NULL))
    memset(&statement, 0, sizeof statement);
  if (statement.positional_parameters && statement.named_parameters)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_QUERY_MIXED_QUERY_PARAMETERS", NULL, NULL, NULL, NULL,
                        NULL, NULL);
  return bind(t, arguments, count, statement.positional_parameters > 0, sql, error);
}

trn_status spark__execute_immediate(spark_rpc *rpc, const Spark__Connect__TrnExecuteImmediate *message,
                                    Spark__Connect__Relation **out, trn_error **error) {
  spark_translator t;
  const char *text = NULL;
  Spark__Connect__Relation *relation = TRN_NEW(rpc->arena, Spark__Connect__Relation);
  Spark__Connect__SQL *sql = TRN_NEW(rpc->arena, Spark__Connect__SQL);
  argument *arguments = TRN_NEW_N(rpc->arena, argument, message->n_arguments);
  if (!relation || !sql || !arguments) return trn__no_memory(error);
  spark__connect__relation__init(relation);
  spark__connect__sql__init(sql);
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation->sql = sql;
  trn_status status = spark__begin_translation(rpc, &t, error);
  if (status) return status;
  /* The arguments stay where they are, until the request is over. */
  if (!trn__arena_own(rpc->arena, (void (*)(void *))trn__arena_unref, t.arena)) {
    trn__arena_unref(t.arena);
    return trn__no_memory(error);
  }
  status = text_of(rpc, &t, message->query, &text, error);
  for (size_t i = 0; i < message->n_arguments && !status; i++)
    status = argument_of(rpc, &t, message->arguments[i], &arguments[i], error);
  if (!status) status = bind_text(rpc, &t, arguments, message->n_arguments, text, sql, error);
  sql->query = (char *)text;
  *out = relation;
  return status;
}

trn_status spark__execute_into(spark_rpc *rpc, const Spark__Connect__TrnExecuteImmediate *message,
                               const Spark__Connect__Relation *query, bool is_query, const char *text,
                               trn_error **error) {
  spark_translator t;
  if (!is_query) {
    char *upper = trn__arena_strdup(rpc->arena, query->sql->query);
    for (char *at = upper; at && *at; at++)
      if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
    if (!upper) return trn__no_memory(error);
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_STATEMENT_FOR_EXECUTE_INTO", "sqlString", upper, NULL,
                        NULL, NULL, NULL);
  }
  trn_status status = spark__begin_translation(rpc, &t, error);
  if (status) return status;
  rpc->sql = text; /* casts belong to the statement, not to the query in it */
  t.locals = NULL; /* the query does not see the script's variables; what it sets does */
  status = assign(rpc, &t, message->into, message->n_into, NULL, query, error);
  trn__arena_unref(t.arena);
  return status;
}
