/* Values inside values: struct fields, array elements, map values; lambdas over them. */
#include "core/function.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/values.h"
#include <strings.h>

typedef Spark__Connect__Expression expression;
static const trn_position NOWHERE = {-1, -1};

/* ---- struct fields ---- */
static trn_status field_not_found(spark_translator *t, const trn_type *type, const char *name, trn_position position,
                                  trn_error **error) {
  trn_strbuf list = {0};
  for (uint32_t i = 0; i < type->field_count && i < 1000; i++) {
    const char *quoted = spark__quote(t, type->fields[i].name);
    if (!quoted) return trn__no_memory(error);
    trn__strbuf_printf(&list, "%s%s", i ? ", " : "", quoted);
  }
  const char *fields = list.size ? spark__finish_text(t, &list) : "", *quoted = spark__quote(t, name);
  if (!fields || !quoted) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "FIELD_NOT_FOUND", position, "fieldName", quoted, "fields",
                      fields, NULL);
}

static trn_status struct_field(spark_translator *t, const trn_expr *base, const char *name, trn_position position,
                               const trn_expr **out, trn_error **error) {
  const trn_type *type = base->type;
  uint32_t found = UINT32_MAX, count = 0;
  for (uint32_t i = 0; i < type->field_count; i++) {
    if (!spark__name_equal(t, type->fields[i].name, name)) continue;
    if (found == UINT32_MAX) found = i;
    count++;
  }
  if (count == 0) return field_not_found(t, type, name, position, error);
  if (count > 1) {
    char *number = trn__arena_printf(t->arena, "%u", count);
    const char *quoted = spark__quote(t, name);
    if (!number || !quoted) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "AMBIGUOUS_REFERENCE_TO_FIELDS", position, "field", quoted,
                        "count", number, NULL);
  }
  const trn_field *field = &type->fields[found];
  const trn_expr *args[2] = {base, trn__expr_string(t->arena, field->name, strlen(field->name))};
  if (!args[1]) return trn__no_memory(error);
  trn_expr *expr =
      trn__expr_call(t->arena, TRN_HOME_NATIVE, "get_field", field->type, base->nullable || field->nullable, args, 2);
  if (!expr) return trn__no_memory(error);
  expr->position = position;
  *out = expr;
  return TRN_OK;
}

/* base.name by the type of base. */
static trn_status one_level(spark_translator *t, const trn_expr *base, const char *base_name, const char *name,
                            trn_position position, const trn_expr **out, trn_error **error) {
  if (base->type->id == TRN_TYPE_STRUCT) return struct_field(t, base, name, position, out, error);
  spark_value child = {.expr = base, .name = base_name}, key = {.name = name, .is_foldable = true}, result;
  key.expr = trn__expr_string(t->arena, name, strlen(name));
  if (!key.expr) return trn__no_memory(error);
  trn_status status = spark__extract_value(t, &child, &key, position, &result, error);
  *out = result.expr;
  return status;
}

trn_status spark__nested_fields(spark_translator *t, const trn_expr *base, char *const *parts, size_t count,
                                trn_position position, const trn_expr **out, const char **name, trn_error **error) {
  trn_status status = TRN_OK;
  *out = base;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    status = one_level(t, *out, *name ? *name : "", parts[i], position, out, error);
    *name = parts[i];
  }
  return status;
}

/* ---- child[extraction] ---- */
static const char *literal_text(spark_translator *t, const trn_expr *expr) {
  if (expr->kind != TRN_EXPR_LITERAL || expr->type->id != TRN_TYPE_STRING || expr->u.literal.is_null) return NULL;
  return trn__arena_str(t->arena, expr->u.literal.value.bytes.data, expr->u.literal.value.bytes.size);
}

static trn_status cannot_extract(spark_translator *t, const spark_value *child, trn_position position,
                                 trn_error **error) {
  const char *base = spark__sql_text(t, child->name), *type = spark__quoted_type(t, child->expr->type);
  if (!base || !type) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_EXTRACT_BASE_FIELD_TYPE", position, "base", base,
                      "other", type, NULL);
}

/* list.field: the field of every struct in the list. */
static trn_status field_of_structs(spark_translator *t, const spark_value *list, const char *field,
                                   trn_position position, spark_value *out, trn_error **error) {
  const trn_field *element = &list->expr->type->fields[0];
  const trn_type *type = spark__all_nullable(t, element->type, 0);
  trn_expr *variable = type ? trn__expr_create(t->arena, TRN_EXPR_LAMBDA_VARIABLE, type, element->nullable, NULL, 0) : NULL;
  uint32_t *id = TRN_NEW_N(t->arena, uint32_t, 1);
  if (!variable || !id) return trn__no_memory(error);
  *id = variable->u.column = t->next_column++;
  const trn_expr *body = NULL;
  trn_status status = struct_field(t, variable, field, position, &body, error);
  if (status != TRN_OK) return status;
  trn_expr *lambda = trn__expr_create(t->arena, TRN_EXPR_LAMBDA, body->type, body->nullable, &body, 1);
  if (!lambda) return trn__no_memory(error);
  lambda->u.lambda.param_count = 1;
  lambda->u.lambda.params = id;
  spark_value pair[2] = {*list, {.expr = lambda, .name = "", .lambda_count = 1}};
  return spark__call_by_name(t, "transform", pair, 2, position, out, error);
}

trn_status spark__extract_value(spark_translator *t, const spark_value *child, const spark_value *extraction,
                                trn_position position, spark_value *out, trn_error **error) {
  const trn_type *type = child->expr->type;
  const char *field = literal_text(t, extraction->expr), *base = child->name ? child->name : "";
  spark_value pair[2] = {*child, *extraction};
  trn_status status = TRN_OK;
  *out = (spark_value){.has_aggregate = child->has_aggregate || extraction->has_aggregate,
                       .is_foldable = child->is_foldable && extraction->is_foldable};
  bool of_structs = type->id == TRN_TYPE_ARRAY && type->fields[0].type->id == TRN_TYPE_STRUCT && field;
  if (type->id == TRN_TYPE_STRUCT || of_structs) {
    if (!field) {
      const char *text = spark__sql_text(t, extraction->name);
      if (!text) return trn__no_memory(error);
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_EXTRACT_FIELD_TYPE", position, "extraction", text,
                          NULL);
    }
    if (of_structs)
      status = field_of_structs(t, child, field, position, out, error);
    else
      status = struct_field(t, child->expr, field, position, &out->expr, error);
    out->name = trn__arena_printf(t->arena, "%s.%s", base, field);
  } else if (type->id == TRN_TYPE_ARRAY || type->id == TRN_TYPE_MAP) {
    status = spark__call_by_name(t, type->id == TRN_TYPE_ARRAY ? "get_array_item" : "get_map_value", pair, 2, position,
                                 out, error);
    out->name = trn__arena_printf(t->arena, "%s[%s]", base, extraction->name ? extraction->name : "");
  } else {
    return cannot_extract(t, child, position, error);
  }
  if (status == TRN_OK && !out->name) return trn__no_memory(error);
  return status;
}

/* ---- withField, dropFields ---- */
static trn_status struct_values(spark_translator *t, const trn_expr *base, const char *name, const spark_value *value,
                                spark_value **out, size_t *count, trn_error **error) {
  const trn_type *type = base->type;
  bool found = false;
  spark_value *pairs = TRN_NEW_N(t->arena, spark_value, 2 * ((size_t)type->field_count + 1));
  if (!pairs) return trn__no_memory(error);
  *count = 0;
  for (uint32_t i = 0; i <= type->field_count; i++) {
    bool match = i < type->field_count && spark__name_equal(t, type->fields[i].name, name);
    if (i == type->field_count && (found || !value)) break;
    if (match && !value) continue; /* dropped */
    const char *label = i < type->field_count && !match ? type->fields[i].name : name;
    spark_value *key = &pairs[(*count)++], *item = &pairs[(*count)++];
    *key = (spark_value){.expr = trn__expr_string(t->arena, label, strlen(label)), .name = label, .is_foldable = true};
    if (!key->expr) return trn__no_memory(error);
    found |= match;
    if (match || i == type->field_count) {
      *item = *value;
      continue;
    }
    *item = (spark_value){.name = label};
    trn_status status = struct_field(t, base, label, NOWHERE, &item->expr, error);
    if (status != TRN_OK) return status;
  }
  *out = pairs;
  return TRN_OK;
}

/* s.withField("a.b", v): the nested struct is updated, then put in its place. */
static trn_status update(spark_translator *t, const trn_expr *base, char **parts, size_t count,
                         const spark_value *value, spark_value *out, trn_error **error) {
  spark_value inner, *pairs = NULL;
  size_t pair_count = 0;
  trn_status status = TRN_OK;
  spark_value child = {.expr = base, .name = ""};
  if (base->type->id != TRN_TYPE_STRUCT) return cannot_extract(t, &child, NOWHERE, error);
  if (count > 1) {
    const trn_expr *nested = NULL;
    status = spark__enter(t, error);
    if (status != TRN_OK) return status;
    status = struct_field(t, base, parts[0], NOWHERE, &nested, error);
    if (status == TRN_OK) status = update(t, nested, parts + 1, count - 1, value, &inner, error);
    spark__leave(t);
    value = &inner;
  }
  if (status == TRN_OK) status = struct_values(t, base, parts[0], value, &pairs, &pair_count, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "named_struct", pairs, pair_count, NOWHERE, out, error);
  if (status != TRN_OK || !base->nullable) return status;
  spark_value branches[3] = {{0}, {0}, *out};
  status = spark__call_by_name(t, "isNull", &child, 1, NOWHERE, &branches[0], error);
  if (status != TRN_OK) return status;
  branches[1].expr = trn__expr_null(t->arena, out->expr->type);
  branches[1].name = "NULL";
  if (!branches[1].expr) return trn__no_memory(error);
  return spark__call_by_name(t, "when", branches, 3, NOWHERE, out, error);
}

trn_status spark__update_fields(spark_translator *t, const Spark__Connect__Expression__UpdateFields *node,
                                trn_position position, spark_value *out, trn_error **error) {
  spark_value base, value;
  char **parts = NULL;
  size_t count = 0;
  const char *name = node->field_name ? node->field_name : "";
  trn_status status = spark__expression(t, node->struct_expression, &base, error);
  if (status == TRN_OK && node->value_expression) status = spark__expression(t, node->value_expression, &value, error);
  if (status == TRN_OK) status = spark__sql_parse_attribute_name(t->arena, name, strlen(name), &parts, &count, error);
  if (status != TRN_OK) return status;
  if (count == 0) return field_not_found(t, base.expr->type, name, position, error);
  status = update(t, base.expr, parts, count, node->value_expression ? &value : NULL, out, error);
  out->name = trn__arena_printf(t->arena, "update_fields(%s)", base.name ? base.name : "");
  out->has_aggregate = base.has_aggregate || (node->value_expression && value.has_aggregate);
  return status == TRN_OK && !out->name ? trn__no_memory(error) : status;
}

/* ---- lambdas ---- */
/* What each parameter of a higher-order function's lambda is: e element, i index, k key, v value, a the second
 * argument's type, 1 and 2 elements of the first and second argument, K and V key and value of map_zip_with. */
static const struct {
  const char *name, *parameters;
  size_t first; /* the first argument that may be a lambda */
} higher_order[] = {{"transform", "ei", 1},
                    {"filter", "ei", 1},
                    {"exists", "e", 1},
                    {"forall", "e", 1},
                    {"any", "e", 1},
                    {"all", "e", 1},
                    {"aggregate", "ae", 2},
                    {"reduce", "ae", 2},
                    {"zip_with", "12", 2},
                    {"map_filter", "kv", 1},
                    {"transform_keys", "kv", 1},
                    {"transform_values", "kv", 1},
                    {"map_zip_with", "kvV", 2},
                    {"array_sort", "ee", 1}};

static const trn_field *parameter_field(const spark_value *args, size_t count, char letter) {
  const trn_type *first = count > 0 && args[0].expr ? args[0].expr->type : NULL;
  const trn_type *second = count > 1 && args[1].expr ? args[1].expr->type : NULL;
  switch (letter) {
  case 'e':
  case '1': return first && first->id == TRN_TYPE_ARRAY ? &first->fields[0] : NULL;
  case '2': return second && second->id == TRN_TYPE_ARRAY ? &second->fields[0] : NULL;
  case 'k': return first && first->id == TRN_TYPE_MAP ? &first->fields[0] : NULL;
  case 'v': return first && first->id == TRN_TYPE_MAP ? &first->fields[1] : NULL;
  case 'V': return second && second->id == TRN_TYPE_MAP ? &second->fields[1] : NULL;
  default: return NULL;
  }
}

static trn_status variable(spark_translator *t, const trn_type *type, bool nullable, const trn_expr **out,
                           trn_error **error) {
  /* The engine's variables and what is inside of them may be null: lists are cast to that (functions_lambda.c). */
  if (!(type = spark__all_nullable(t, type, 0))) return trn__no_memory(error);
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LAMBDA_VARIABLE, type, nullable, NULL, 0);
  if (!expr) return trn__no_memory(error);
  expr->u.column = t->next_column++;
  *out = expr;
  return TRN_OK;
}

/* Several parameters as the fields of one: `whole` is then the variable that the engine's lambda has. */
static trn_status pack(spark_translator *t, const trn_expr **variables, size_t count, const trn_expr **whole,
                       trn_error **error) {
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, count);
  if (!fields) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const char *name = trn__arena_printf(t->arena, "%zu", i);
    if (!name) return trn__no_memory(error);
    fields[i] = (trn_field){.name = name, .type = variables[i]->type, .nullable = variables[i]->nullable};
  }
  const trn_type *type = trn__type_struct(t->arena, fields, count);
  if (!type) return trn__no_memory(error);
  trn_status status = variable(t, type, false, whole, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    const trn_expr *args[2] = {*whole, trn__expr_string(t->arena, fields[i].name, strlen(fields[i].name))};
    if (!args[1] || !(variables[i] = trn__expr_call(t->arena, TRN_HOME_NATIVE, "get_field", fields[i].type,
                                                    fields[i].nullable, args, 2)))
      status = trn__no_memory(error);
  }
  return status;
}

static trn_status lambda_body(spark_translator *t, const Spark__Connect__Expression__LambdaFunction *lambda,
                              const trn_expr *const *variables, const trn_expr *whole, spark_value *out,
                              trn_error **error) {
  spark_state *state = spark__state(t);
  size_t count = lambda->n_arguments;
  const char **names = TRN_NEW_N(t->arena, const char *, count);
  uint32_t *ids = TRN_NEW_N(t->arena, uint32_t, count);
  trn_strbuf text = {0};
  if (!names || !ids) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    names[i] = lambda->arguments[i]->n_name_parts ? lambda->arguments[i]->name_parts[0] : "";
    ids[i] = whole ? whole->u.column : variables[i]->u.column;
  }
  spark_lambda frame = {.outer = state->lambda, .names = names, .variables = variables, .count = (uint32_t)count};
  spark_value body;
  state->lambda = &frame;
  trn_status status = spark__expression(t, lambda->function, &body, error);
  state->lambda = frame.outer;
  if (status != TRN_OK) return status;
  trn__strbuf_printf(&text, "lambdafunction(%s", body.name ? body.name : "");
  for (size_t i = 0; i < count; i++) trn__strbuf_puts(&text, ", namedlambdavariable()");
  trn__strbuf_putc(&text, ')');
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_LAMBDA, body.expr->type, body.expr->nullable, &body.expr, 1);
  *out = (spark_value){.name = spark__finish_text(t, &text),
                       .has_aggregate = body.has_aggregate,
                       .lambda_count = (uint32_t)count};
  if (!expr || !out->name) return trn__no_memory(error);
  expr->u.lambda.param_count = whole ? 1 : (uint32_t)count;
  expr->u.lambda.params = ids;
  out->expr = expr;
  return TRN_OK;
}

/* As many parameters as the function gives, an index not counted; each with a name of its own. */
static trn_status lambda_parameters(spark_translator *t, const Spark__Connect__Expression__LambdaFunction *lambda,
                                    size_t least, size_t most, trn_error **error) {
  size_t count = lambda->n_arguments;
  if (!lambda->function || count < least || count > most) { /* Spark has the two numbers the wrong way round */
    const char *has = trn__arena_printf(t->arena, "%zu", count), *wants = trn__arena_printf(t->arena, "%zu", least);
    if (!has || !wants) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", NOWHERE,
                        "expectedNumArgs", has, "actualNumArgs", wants, NULL);
  }
  trn_strbuf names = {0};
  bool repeats = false;
  for (size_t i = 0; i < count; i++) {
    const char *name = lambda->arguments[i]->n_name_parts ? lambda->arguments[i]->name_parts[0] : "";
    trn__strbuf_printf(&names, "%s`%s`", i ? ", " : "", name);
    for (size_t j = 0; j < i && !repeats; j++)
      repeats = lambda->arguments[j]->n_name_parts && spark__name_equal(t, lambda->arguments[j]->name_parts[0], name);
  }
  const char *text = spark__finish_text(t, &names);
  if (!text) return trn__no_memory(error);
  if (!repeats) return TRN_OK;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_LAMBDA_FUNCTION_CALL.DUPLICATE_ARG_NAMES", NOWHERE,
                      "args", text, "caseSensitiveConfig", "\"spark.sql.caseSensitive\"", NULL);
}

static trn_status no_lambda_here(spark_translator *t, trn_error **error) {
  return spark__error(t, error, TRN_INVALID_ARGUMENT,
                      "INVALID_LAMBDA_FUNCTION_CALL.PARAMETER_DOES_NOT_ACCEPT_LAMBDA_FUNCTION", NOWHERE, NULL);
}

/* A lambda of a plugin's function: its variables are what the function says. */
static trn_status library_lambda(spark_translator *t, const trn_found_function *function, const spark_value *args,
                                 size_t count, size_t index,
                                 const Spark__Connect__Expression__LambdaFunction *lambda, spark_value *out,
                                 trn_error **error) {
  trn_field *fields = NULL;
  size_t most = 0, least = 0;
  if (trn__lambda_letter(function->lambda->arguments, index) != 'l') return no_lambda_here(t, error);
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  if (!exprs) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) exprs[i] = args[i].expr;
  trn_status status = spark__library_parameters(t, function, exprs, count, index, &fields, &most, &least, error);
  if (!status) status = lambda_parameters(t, lambda, least, most, error);
  if (status) return status;
  const trn_expr **variables = TRN_NEW_N(t->arena, const trn_expr *, lambda->n_arguments);
  if (!variables) return trn__no_memory(error);
  for (size_t i = 0; i < lambda->n_arguments && !status; i++)
    status = variable(t, fields[i].type, fields[i].nullable, &variables[i], error);
  return status ? status : lambda_body(t, lambda, variables, NULL, out, error);
}

static trn_status lambda_argument(spark_translator *t, const char *name, const spark_value *args, size_t count,
                                  size_t index, const Spark__Connect__Expression__LambdaFunction *lambda,
                                  spark_value *out, trn_error **error) {
  const char *letters = NULL;
  size_t first = 0;
  for (size_t i = 0; i < sizeof higher_order / sizeof *higher_order; i++)
    if (strcasecmp(higher_order[i].name, name) == 0)
      letters = higher_order[i].parameters, first = higher_order[i].first;
  trn_found_function function = {.sort = TRN_SORT_LAMBDA};
  bool is_known = spark__function_find(name, strlen(name)) != NULL, is_library = false;
  if (!letters && !is_known && t->registry) is_library = trn__registry_function(t->registry, name, &function);
  if (is_library && function.sort == TRN_SORT_LAMBDA)
    return library_lambda(t, &function, args, count, index, lambda, out, error);
  if (!letters && (is_known || is_library))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION", NOWHERE,
                        "class", name, NULL);
  if (!letters && !spark__function_is_known(name) && !(t->catalog && spark__routine_exists(t, name, false))) {
    const spark_call nothing = {.name = name, .position = NOWHERE};
    return spark__call(t, &nothing, out, error); /* there is no such function */
  }
  if (!letters) return spark__unimplemented(t, NOWHERE, error, "A lambda in the function %s", name);
  if (index < first) return no_lambda_here(t, error);
  bool reduce = letters[0] == 'a';
  if (reduce && index == 3) letters = "a"; /* the finish function takes the accumulator alone */
  size_t most = strlen(letters), least = letters[most - 1] == 'i' ? most - 1 : most;
  trn_status status = lambda_parameters(t, lambda, least, most, error);
  if (status != TRN_OK) return status;
  const trn_expr **variables = TRN_NEW_N(t->arena, const trn_expr *, lambda->n_arguments);
  if (!variables) return trn__no_memory(error);
  for (size_t i = 0; i < lambda->n_arguments; i++) {
    const trn_field *field = parameter_field(args, count, letters[i]);
    const trn_type *type = field ? field->type : trn__type(TRN_TYPE_INT32);
    bool nullable = field ? field->nullable : false;
    if (letters[i] == 'a' && count > 1 && args[1].expr) {
      type = args[1].expr->type;
      nullable = true;
    } else if (letters[i] != 'i' && !field) { /* the argument has the wrong type: let the call say so */
      type = trn__type(TRN_TYPE_NULL);
      nullable = true;
    }
    if (letters[i] == 'V' || letters[i] == '1' || letters[i] == '2' || (letters[i] == 'v' && letters[2] == 'V'))
      nullable = true;
    status = variable(t, type, nullable, &variables[i], error);
    if (status != TRN_OK) return status;
  }
  bool packs = lambda->n_arguments > 1 && letters[0] != 'a' && strcmp(letters, "ee") != 0;
  const trn_expr *whole = NULL;
  status = packs ? pack(t, variables, lambda->n_arguments, &whole, error) : TRN_OK;
  return status == TRN_OK ? lambda_body(t, lambda, variables, whole, out, error) : status;
}

trn_status spark__lambda_arguments(spark_translator *t, const char *name, expression *const *arguments, size_t count,
                                   trn_position position, spark_value **out, size_t *out_count, trn_error **error) {
  const spark_call call = {.name = name, .arg_count = count, .position = position};
  const spark_function *row = spark__function_find(name, strlen(name));
  spark_value *values = TRN_NEW_N(t->arena, spark_value, count);
  trn_status status = TRN_OK;
  if (!values) return trn__no_memory(error);
  /* A plugin's function may count on its arguments. */
  if (!row && (row = spark__library_find(t, name))) status = spark__argument_count(t, row, &call, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    if (arguments[i]->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LAMBDA_FUNCTION)
      status = spark__expression(t, arguments[i], &values[i], error);
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    if (arguments[i]->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LAMBDA_FUNCTION)
      status = lambda_argument(t, name, values, count, i, arguments[i]->lambda_function, &values[i], error);
  *out = values;
  *out_count = count;
  return status;
}

trn_status spark__lambda_variable(spark_translator *t,
                                  const Spark__Connect__Expression__UnresolvedNamedLambdaVariable *node,
                                  trn_position position, spark_value *out, trn_error **error) {
  if (node->n_name_parts == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT,
                        "CONNECT_INVALID_PLAN.UNRESOLVED_NAMED_LAMBDA_VARIABLE_REQUIRES_NAME_PART", NOWHERE, NULL);
  for (const spark_lambda *frame = spark__state(t)->lambda; frame; frame = frame->outer)
    for (uint32_t i = 0; i < frame->count; i++) {
      if (!spark__name_equal(t, frame->names[i], node->name_parts[0])) continue;
      *out = (spark_value){.expr = frame->variables[i], .name = "namedlambdavariable()",
                           .lambda_name = node->name_parts[node->n_name_parts - 1]};
      if (node->n_name_parts == 1) return TRN_OK;
      return spark__nested_fields(t, frame->variables[i], node->name_parts + 1, node->n_name_parts - 1, position,
                                  &out->expr, &out->name, error);
    }
  return spark__unresolved_column(t, NULL, node->name_parts, node->n_name_parts, position, error);
}
