/* SQL functions: where they are kept, and how a call becomes what the function's body says. */
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/table.h"
#include <pthread.h>
#include <strings.h>

typedef Spark__Connect__TrnCreateFunction routine;

#define SHADOW_SETTING "spark.sql.legacy.allowUdfParameterToShadowParameterlessFunction"

struct spark_routines {
  pthread_mutex_t mu;
  trn_map *texts; /* guarded by mu */
};

spark_routines *spark__routines_create(void) {
  spark_routines *routines = calloc(1, sizeof *routines);
  if (routines) routines->texts = trn__map_create();
  if (routines && (!routines->texts || pthread_mutex_init(&routines->mu, NULL) != 0)) {
    trn__map_destroy(routines->texts, NULL);
    free(routines);
    routines = NULL;
  }
  return routines;
}

void spark__routines_destroy(spark_routines *routines) {
  if (!routines) return;
  trn__map_destroy(routines->texts, free);
  pthread_mutex_destroy(&routines->mu);
  free(routines);
}

trn_status spark__routine_add(spark_routines *routines, const char *key, const char *text, bool replace,
                              trn_error **error) {
  char *copy = strdup(text);
  void *old = copy;
  trn_status status = copy ? TRN_OK : trn__no_memory(error);
  if (status) return status;
  pthread_mutex_lock(&routines->mu);
  bool exists = trn__map_get(routines->texts, key, strlen(key)) != NULL;
  if (exists && !replace)
    status = TRN_ALREADY_EXISTS;
  else if (!exists && trn__map_count(routines->texts) >= TRN_ROUTINES_MAX)
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More functions than TRN_ROUTINES_MAX (%u).",
                           TRN_ROUTINES_MAX);
  else if (!trn__map_set(routines->texts, key, strlen(key), copy, &old))
    status = trn__no_memory(error), old = copy;
  pthread_mutex_unlock(&routines->mu);
  free(old);
  return status;
}

bool spark__routine_drop(spark_routines *routines, const char *key) {
  pthread_mutex_lock(&routines->mu);
  void *old = trn__map_remove(routines->texts, key, strlen(key));
  pthread_mutex_unlock(&routines->mu);
  free(old);
  return old != NULL;
}

/* A copy in `arena`; NULL: none, or no memory (*failed). */
/* The first letter says how arithmetic fails: as it did when the function was made. */
static const char *text_of(spark_routines *routines, trn_arena *arena, const char *key, bool *failed) {
  pthread_mutex_lock(&routines->mu);
  const char *text = trn__map_get(routines->texts, key, strlen(key));
  const char *copy = text ? trn__arena_strdup(arena, text) : NULL;
  *failed = text && !copy;
  pthread_mutex_unlock(&routines->mu);
  return copy;
}

bool spark__routine_has(spark_routines *routines, const char *key) {
  pthread_mutex_lock(&routines->mu);
  bool has = trn__map_get(routines->texts, key, strlen(key)) != NULL;
  pthread_mutex_unlock(&routines->mu);
  return has;
}

trn_status spark__routines_copy(spark_routines *from, spark_routines *to, trn_error **error) {
  trn_status status = TRN_OK;
  const char *key;
  void *text;
  pthread_mutex_lock(&from->mu);
  for (size_t i = 0; !status && trn__map_next(from->texts, &i, &key, &text);)
    status = spark__routine_add(to, key, text, true, error);
  pthread_mutex_unlock(&from->mu);
  return status;
}

/* ---- names ---- */
static const char *lower(spark_translator *t, const char *text) {
  char *copy = trn__arena_strdup(t->arena, text);
  for (char *at = copy; at && *at; at++)
    if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
  return copy;
}

static trn_status name_of_parts(spark_translator *t, char *const *parts, size_t count, bool temporary,
                                spark_routine_name *out, trn_error **error) {
  const spark_namespace inside = {spark__state(t)->view_catalog, spark__state(t)->view_database};
  out->temporary = temporary;
  out->last = parts[count - 1];
  if (temporary) {
    out->key = lower(t, out->last);
    out->shown = out->last;
    out->quoted = spark__quote(t, out->last);
  } else {
    spark_table_name name;
    trn_status status =
        spark__table_name(t->arena, t->session, t->case_sensitive, &inside, parts, count, &name, error);
    if (status) return status;
    out->shown = spark__table_text(t->arena, &name, false);
    out->quoted = spark__table_text(t->arena, &name, true);
    out->key = out->shown ? lower(t, out->shown) : NULL;
  }
  return out->key && out->shown && out->quoted ? TRN_OK : trn__no_memory(error);
}

trn_status spark__routine_name(spark_translator *t, const char *path, bool temporary, spark_routine_name *out,
                               trn_error **error) {
  char **parts;
  size_t count;
  trn_status status = spark__sql_parse_multipart_identifier(t->arena, path, strlen(path), NULL, &parts, &count, error);
  return status ? status : name_of_parts(t, parts, count, temporary, out, error);
}

static trn_status check_reference(spark_translator *t, const spark_routine_name *name, trn_error **error) {
  trn_strbuf path = {0};
  for (const spark_body *body = spark__state(t)->body; body; body = body->outer) {
    if (strcmp(body->key, name->key) != 0) continue;
    const spark_body *list[TRN_VIEW_DEPTH_MAX + 1];
    size_t count = 0;
    for (const spark_body *b = spark__state(t)->body; count <= TRN_VIEW_DEPTH_MAX; b = b->outer) {
      list[count++] = b;
      if (b == body) break;
    }
    while (count) trn__strbuf_printf(&path, "%s -> ", list[--count]->shown);
    trn__strbuf_puts(&path, name->shown);
    const char *text = spark__finish_text(t, &path);
    if (!text) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CYCLIC_FUNCTION_REFERENCE", (trn_position){-1, -1}, "path",
                        text, NULL);
  }
  return name->temporary ? spark__routine_refuse_temporary(t, "FUNCTION", name->last, error) : TRN_OK;
}

trn_status spark__routine_refuse_temporary(spark_translator *t, const char *kind, const char *name,
                                           trn_error **error) {
  const spark_body *body = spark__state(t)->body;
  while (body && body->outer) body = body->outer; /* the one that is being made */
  if (!body || !body->is_kept) return TRN_OK;
  const char *shown = strchr(body->shown, '.'), *quoted = shown ? spark__quote_text(t, shown + 1) : NULL;
  const char *temporary = spark__quote(t, name);
  if (!quoted || !temporary) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_TEMP_OBJ_REFERENCE", (trn_position){-1, -1}, "obj",
                      "FUNCTION", "objName", quoted, "tempObj", kind, "tempObjName", temporary, NULL);
}

/* Looks for the session's own first, then for those of the catalog. */
static trn_status find(spark_translator *t, const char *path, spark_routine_name *name, const routine **out,
                       trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  *out = NULL;
  if (!t->catalog || !t->session) return TRN_OK;
  if (spark__sql_parse_multipart_identifier(t->arena, path, strlen(path), NULL, &parts, &count, NULL) || !count)
    return TRN_OK; /* an operator */
  bool own = count == 1 || (count == 2 && strcasecmp(parts[0], "session") == 0) ||
             (count == 3 && strcasecmp(parts[0], "system") == 0 && strcasecmp(parts[1], "session") == 0);
  const char *text = NULL;
  bool failed = false;
  for (int temporary = own ? 1 : 0; temporary >= 0 && !text && !failed; temporary--) {
    if (name_of_parts(t, parts, count, temporary, name, NULL)) continue;
    text = text_of(spark__catalog_routines(t->catalog, temporary), t->arena, name->key, &failed);
  }
  if (failed) return trn__no_memory(error);
  if (!text) return TRN_OK;
  name->ansi = *text++ == SPARK_ROUTINE_ANSI;
  trn_status fits = check_reference(t, name, error);
  if (fits) return fits;
  spark_sql_statement statement = {0};
  trn_status status = spark__sql_parse_statement(t->arena, text, strlen(text), NULL, &statement, error);
  if (status) return status;
  if (statement.command &&
      statement.command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_FUNCTION)
    *out = statement.command->trn_create_function;
  return TRN_OK;
}

trn_status spark__routine_alias(spark_translator *t, const char *path, const char **out, trn_error **error) {
  const routine *function = NULL;
  spark_routine_name name;
  *out = NULL;
  trn_status status = find(t, path, &name, &function, error);
  if (!status && function && !function->query && !function->body) *out = function->body_text;
  return status;
}

bool spark__routine_exists(spark_translator *t, const char *path, bool is_table) {
  const routine *function = NULL;
  spark_routine_name name;
  return find(t, path, &name, &function, NULL) == TRN_OK && function && function->is_table == is_table;
}

/* ---- the body in a place of its own ---- */
/* Names inside of a body: the parameters, by name and by function.name. */
static trn_status parameter_scope(spark_translator *t, const routine *function, const spark_routine_name *name,
                                  const spark_value *values, spark_scope **out, trn_error **error) {
  size_t count = function->n_parameters;
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, count);
  const spark_qualifier *qualifier = spark__qualifier(t, &name->last, 1);
  if (!columns || !qualifier) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    columns[i] = (spark_column){.expr = spark__column_expr(t, values[i].expr->type, true),
                                .name = function->parameters[i]->name,
                                .qualifier = qualifier};
    if (!columns[i].expr) return trn__no_memory(error);
  }
  *out = spark__scope_create(t, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

typedef struct body {
  spark_context context;
  spark_state before;
  spark_body frame;
  bool ansi;
} body;

static trn_status enter(spark_translator *t, const routine *function, const spark_routine_name *name,
                        const spark_value *values, body *b, trn_error **error) {
  spark_state *state = spark__state(t);
  spark_scope *scope = NULL;
  if (state->view_depth >= TRN_VIEW_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Functions are nested deeper than TRN_VIEW_DEPTH_MAX (%u).",
                         TRN_VIEW_DEPTH_MAX);
  trn_status status = parameter_scope(t, function, name, values, &scope, error);
  if (status) return status;
  status = spark__enter(t, error);
  if (status) return status;
  b->before = *state;
  b->ansi = t->ansi;
  b->frame = (spark_body){.key = name->key, .shown = name->shown, .outer = state->body};
  state->body = &b->frame;
  t->ansi = name->ansi;
  state->view_depth++;
  state->ctes = NULL;
  state->references = NULL;
  state->context = NULL;
  state->lambda = NULL;
  state->parameters = NULL;
  state->foreign_positions = true;
  spark__context_begin(t, &b->context, scope);
  b->context.values = values;
  char *shadows = t->session ? trn_session_get(t->session, SHADOW_SETTING) : NULL;
  b->context.shadows = shadows && strcasecmp(shadows, "true") == 0;
  trn_free(shadows);
  return TRN_OK;
}

static void leave(spark_translator *t, body *b) {
  spark_state *state = spark__state(t);
  spark__context_end(t, &b->context);
  t->ansi = b->ansi;
  state->body = b->before.body;
  state->view_depth = b->before.view_depth;
  state->ctes = b->before.ctes;
  state->references = b->before.references;
  state->context = b->before.context;
  state->lambda = b->before.lambda;
  state->parameters = b->before.parameters;
  state->foreign_positions = b->before.foreign_positions;
  spark__leave(t);
}

/* ---- arguments ---- */
static trn_status wrong_count(spark_translator *t, const routine *function, const spark_routine_name *name,
                              size_t count, trn_position position, trn_error **error) {
  const char *given = trn__arena_printf(t->arena, "%zu", count);
  const char *wanted = trn__arena_printf(t->arena, "%zu", function->n_parameters);
  if (!given || !wanted) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", position, "functionName",
                      name->quoted, "expectedNum", wanted, "actualNum", given, "docroot",
                      "https://spark.apache.org/docs/latest", NULL);
}

static trn_status default_value(spark_translator *t, const char *text, spark_value *out, trn_error **error) {
  spark_state *state = spark__state(t);
  spark_context *context = state->context;
  bool foreign = state->foreign_positions;
  Spark__Connect__Expression *expression = NULL;
  trn_status status = spark__sql_parse_expression(t->arena, text, strlen(text), NULL, &expression, error);
  if (status) return status;
  state->context = NULL; /* nothing around the call is meant */
  state->foreign_positions = true;
  status = spark__expression(t, expression, out, error);
  state->context = context;
  state->foreign_positions = foreign;
  return status;
}

/* One value per parameter, cast to its type. */
static trn_status bind(spark_translator *t, const routine *function, const spark_routine_name *name,
                       const spark_value *args, size_t count, trn_position position, spark_value **out,
                       trn_error **error) {
  size_t all = function->n_parameters;
  spark_value *values = *out = TRN_NEW_N(t->arena, spark_value, all);
  trn_status status = TRN_OK;
  if (!values) return trn__no_memory(error);
  if (count > all) return wrong_count(t, function, name, count, position, error);
  for (size_t i = 0; i < all && !status; i++) {
    const char *text = function->parameters[i]->default_text;
    const trn_type *type = NULL;
    if (i < count) values[i] = args[i];
    else if (!text || !*text) return wrong_count(t, function, name, count, position, error);
    else status = default_value(t, text, &values[i], error);
    if (!status) status = spark__type_from_proto(t->arena, function->parameters[i]->type, &type, error);
    if (!status)
      status = spark__cast(t, values[i].expr, type, t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY, position,
                           &values[i].expr, error);
  }
  return status;
}

static const char *call_name(spark_translator *t, const spark_routine_name *name, const spark_value *args,
                             size_t count) {
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "%s(", name->shown);
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&text, "%s%s", i ? ", " : "", args[i].name ? args[i].name : "");
  trn__strbuf_putc(&text, ')');
  return spark__finish_text(t, &text);
}

/* ---- calls ---- */
static trn_status scalar_body(spark_translator *t, const routine *function, spark_value *out, trn_error **error) {
  const trn_type *type = NULL;
  trn_status status = function->query
                          ? spark__subquery(t, SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_SCALAR,
                                            function->query, NULL, 0, (trn_position){-1, -1}, out, error)
                          : spark__expression(t, function->body, out, error);
  if (status || !function->returns) return status;
  status = spark__type_from_proto(t->arena, function->returns, &type, error);
  return status ? status
                : spark__cast(t, out->expr, type, t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY,
                              (trn_position){-1, -1}, &out->expr, error);
}

trn_status spark__routine_call(spark_translator *t, const char *path, const spark_value *args, size_t count,
                               trn_position position, spark_value *out, bool *found, trn_error **error) {
  const routine *function = NULL;
  spark_routine_name name;
  spark_value *values = NULL, result = {0};
  body b;
  *found = false;
  trn_status status = find(t, path, &name, &function, error);
  if (status || !function || function->is_table) return status;
  *found = true;
  status = bind(t, function, &name, args, count, position, &values, error);
  if (!status) status = enter(t, function, &name, values, &b, error);
  if (status) return status;
  status = scalar_body(t, function, &result, error);
  leave(t, &b);
  if (status) return status;
  *out = (spark_value){.expr = result.expr, .is_foldable = result.is_foldable};
  for (size_t i = 0; i < count; i++) out->has_aggregate |= args[i].has_aggregate;
  out->name = call_name(t, &name, args, count);
  return out->name ? TRN_OK : trn__no_memory(error);
}

/* The rows' columns under the names and types that the function declares. */
static trn_status declared_columns(spark_translator *t, const routine *function, const spark_routine_name *name,
                                   spark_relation *relation, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(t, relation->scope, &values, &count, error);
  if (status) return status;
  if (function->n_columns && count != function->n_columns) {
    const char *given = trn__arena_printf(t->arena, "%zu", count);
    const char *wanted = trn__arena_printf(t->arena, "%zu", function->n_columns);
    if (!given || !wanted) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "USER_DEFINED_FUNCTIONS.RETURN_COLUMN_COUNT_MISMATCH",
                        (trn_position){-1, -1}, "name", name->shown, "outputSize", given, "returnParamSize", wanted,
                        NULL);
  }
  for (size_t i = 0; i < function->n_columns && !status; i++) {
    const trn_type *type = NULL;
    status = spark__type_from_proto(t->arena, function->columns[i]->type, &type, error);
    if (!status)
      status = spark__cast(t, values[i].expr, type, t->ansi ? SPARK_CAST_ANSI : SPARK_CAST_LEGACY,
                           (trn_position){-1, -1}, &values[i].expr, error);
    values[i].name = function->columns[i]->name;
    values[i].is_alias = true;
    values[i].is_attribute = false;
    values[i].qualifier = NULL;
  }
  spark_relation input = *relation;
  if (!status) status = spark__project(t, &input, values, count, NULL, relation, error);
  if (status) return status;
  relation->scope->below = NULL;
  return spark__alias_relation(t, relation, &name->last, 1, error);
}

trn_status spark__routine_table(spark_translator *t, const char *path, const spark_value *args, size_t count,
                                trn_position position, spark_relation *out, bool *found, trn_error **error) {
  const routine *function = NULL;
  spark_routine_name name;
  spark_value *values = NULL;
  body b;
  *found = false;
  trn_status status = find(t, path, &name, &function, error);
  if (status || !function || !function->is_table || !function->query) return status;
  *found = true;
  status = bind(t, function, &name, args, count, position, &values, error);
  if (!status) status = enter(t, function, &name, values, &b, error);
  if (status) return status;
  status = spark__relation(t, function->query, out, error);
  leave(t, &b);
  return status ? status : declared_columns(t, function, &name, out, error);
}

/* ---- definitions ---- */
static const char *twice(spark_translator *t, Spark__Connect__TrnColumn *const *columns, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++)
      if (spark__name_equal(t, columns[i]->name, columns[k]->name)) return lower(t, columns[i]->name);
  return NULL;
}

static trn_status check_names(spark_translator *t, const routine *function, const char *name, trn_error **error) {
  const char *parameter = twice(t, function->parameters, function->n_parameters);
  const char *column = twice(t, function->columns, function->n_columns);
  const char *shown = parameter || column ? spark__quote(t, parameter ? parameter : column) : "";
  if (!shown) return trn__no_memory(error);
  if (parameter)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DUPLICATE_ROUTINE_PARAMETER_NAMES", (trn_position){-1, -1},
                        "routineName", name, "names", shown, NULL);
  if (column)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DUPLICATE_ROUTINE_RETURNS_COLUMNS", (trn_position){-1, -1},
                        "routineName", name, "columns", shown, NULL);
  for (size_t i = 1; i < function->n_parameters; i++) {
    const char *before = function->parameters[i - 1]->default_text, *here = function->parameters[i]->default_text;
    if (before && *before && (!here || !*here)) {
      const char *first = spark__quote(t, function->parameters[i - 1]->name);
      const char *next = spark__quote(t, function->parameters[i]->name);
      if (!first || !next) return trn__no_memory(error);
      return spark__error(t, error, TRN_INVALID_ARGUMENT,
                          "USER_DEFINED_FUNCTIONS.NOT_A_VALID_DEFAULT_PARAMETER_POSITION", (trn_position){-1, -1},
                          "functionName", name, "parameterName", first, "nextParameterName", next, NULL);
    }
  }
  return TRN_OK;
}

static trn_status check_defaults(spark_translator *t, const routine *function, const char *name, trn_error **error) {
  for (size_t i = 0; i < function->n_parameters; i++) {
    const char *text = function->parameters[i]->default_text;
    const trn_type *type = NULL;
    spark_value value;
    if (!text || !*text) continue;
    trn_status status = default_value(t, text, &value, error);
    if (status) return status;
    if (spark__expr_contains(value.expr, TRN_EXPR_SUBQUERY) || value.has_aggregate)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "USER_DEFINED_FUNCTIONS.NOT_A_VALID_DEFAULT_EXPRESSION",
                          (trn_position){-1, -1}, "functionName", name, "parameterName",
                          function->parameters[i]->name, NULL);
    status = spark__type_from_proto(t->arena, function->parameters[i]->type, &type, error);
    if (!status)
      status = spark__cast(t, value.expr, type, SPARK_CAST_ANSI, (trn_position){-1, -1}, &value.expr, error);
    if (status) return status;
  }
  return TRN_OK;
}

trn_status spark__routine_check(spark_translator *t, const routine *function, const spark_routine_name *name,
                                trn_error **error) {
  if (function->is_table && !function->query)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "USER_DEFINED_FUNCTIONS.SQL_TABLE_UDF_BODY_MUST_BE_A_QUERY",
                        (trn_position){-1, -1}, "name", name->last, NULL);
  trn_status status = check_names(t, function, name->last, error);
  if (!status) status = check_defaults(t, function, name->last, error);
  spark_value *values = TRN_NEW_N(t->arena, spark_value, function->n_parameters), result = {0};
  if (!status && !values) return trn__no_memory(error);
  for (size_t i = 0; i < function->n_parameters && !status; i++) {
    const trn_type *type = NULL;
    status = spark__type_from_proto(t->arena, function->parameters[i]->type, &type, error);
    if (status) return status;
    values[i] = (spark_value){.expr = spark__column_expr(t, type, true), .name = function->parameters[i]->name};
    if (!values[i].expr) return trn__no_memory(error);
  }
  body b;
  spark_relation rows;
  if (!status) status = enter(t, function, name, values, &b, error);
  if (status) return status;
  b.frame.is_kept = !name->temporary;
  status = function->is_table ? spark__relation(t, function->query, &rows, error)
                              : scalar_body(t, function, &result, error);
  leave(t, &b);
  if (!status && !function->is_table && (result.has_aggregate || result.is_generator || result.is_window_function))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "USER_DEFINED_FUNCTIONS.CANNOT_CONTAIN_COMPLEX_FUNCTIONS",
                        (trn_position){-1, -1}, "queryText", function->body_text ? function->body_text : "", NULL);
  return !status && function->is_table ? declared_columns(t, function, name, &rows, error) : status;
}
