/* The walk over Spark's expressions. */
#include "frontend/spark/translate/routine.h"
#include <stdio.h>
#include <strings.h>

typedef Spark__Connect__Expression expression;

trn_status spark__unimplemented(spark_translator *t, trn_position position, trn_error **error, const char *format,
                                ...) {
  char text[200];
  va_list list;
  (void)t;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  char message[260];
  snprintf(message, sizeof message, "%s is not supported yet.", text);
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = TRN_UNIMPLEMENTED,
                         .message = message,
                         .position = position,
                         .has_position = position.start >= 0};
  if (error) *error = trn_error_create(&spec);
  return TRN_UNIMPLEMENTED;
}

trn_position spark__position(spark_translator *t, const expression *e) {
  if (!e || !e->common || !e->common->trn_position || spark__state(t)->foreign_positions) return (trn_position){-1, -1};
  return (trn_position){e->common->trn_position->start, e->common->trn_position->stop};
}

trn_position spark__relation_position(spark_translator *t, const Spark__Connect__Relation *relation) {
  if (!relation || !relation->common || !relation->common->trn_position || spark__state(t)->foreign_positions)
    return (trn_position){-1, -1};
  return (trn_position){relation->common->trn_position->start, relation->common->trn_position->stop};
}

trn_status spark__enter(spark_translator *t, trn_error **error) {
  if (t->depth >= TRN_TRANSLATE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The plan is nested deeper than TRN_TRANSLATE_DEPTH_MAX (%u).", TRN_TRANSLATE_DEPTH_MAX);
  if (spark__state(t)->steps >= TRN_TRANSLATE_STEPS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The plan takes more than TRN_TRANSLATE_STEPS_MAX (%u) steps: parts are used too often.",
                         TRN_TRANSLATE_STEPS_MAX);
  if ((++spark__state(t)->steps & 1023) == 0 && t->is_cancelled && t->is_cancelled(t->cancel_user))
    return trn_error_set(error, TRN_CANCELLED, NULL, "The request was cancelled");
  t->depth++;
  return TRN_OK;
}

static trn_status invalid_plan(spark_translator *t, const char *full_name, const char *name, trn_error **error) {
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET",
                      (trn_position){-1, -1}, "fullName", full_name, "name", name, NULL);
}

/* ---- calls ---- */
trn_status spark__call_by_name(spark_translator *t, const char *name, const spark_value *args, size_t count,
                               trn_position position, spark_value *out, trn_error **error) {
  spark_call call = {.name = name, .args = args, .arg_count = count, .position = position};
  spark_value result = {0}; /* out may be one of the arguments */
  trn_status status = spark__call(t, &call, &result, error);
  *out = result;
  return status;
}

/* NOT over EXISTS and IN belongs to the subquery: its plan is a different one. */
static trn_status negate_subquery(spark_translator *t, const char *name, const spark_value *arg, spark_value *out,
                                  trn_error **error) {
  if (strcasecmp(name, "not") != 0 && strcmp(name, "!") != 0) return TRN_OK;
  const trn_expr *inner = arg->expr;
  if (inner->kind != TRN_EXPR_SUBQUERY || inner->u.subquery.kind == TRN_SUBQUERY_SCALAR) return TRN_OK;
  trn_expr *copy =
      trn__expr_create(t->arena, TRN_EXPR_SUBQUERY, inner->type, inner->nullable, inner->args, inner->arg_count);
  if (!copy) return trn__no_memory(error);
  copy->u = inner->u;
  copy->position = inner->position;
  copy->u.subquery.negated = !inner->u.subquery.negated;
  out->expr = copy;
  return TRN_OK;
}

typedef struct call_spec {
  const char *name;
  expression *const *arguments;
  size_t count;
  bool is_distinct, is_internal;
  const Spark__Connect__TrnFunctionModifiers *modifiers;
  trn_position position;
} call_spec;

static trn_status modifiers_of(spark_translator *t, const Spark__Connect__TrnFunctionModifiers *modifiers,
                               spark_call *call, trn_error **error) {
  trn_status status = TRN_OK;
  if (modifiers->filter) {
    spark_value *filter = TRN_NEW(t->arena, spark_value);
    if (!filter) return trn__no_memory(error);
    status = spark__expression(t, modifiers->filter, filter, error);
    if (status != TRN_OK) return status;
    call->filter = filter;
  }
  call->ignore_nulls = modifiers->ignore_nulls;
  if (modifiers->n_within_group == 0) return TRN_OK;
  spark_value *order = TRN_NEW_N(t->arena, spark_value, modifiers->n_within_group);
  trn_sort_flags *flags = TRN_NEW_N(t->arena, trn_sort_flags, modifiers->n_within_group);
  if (!order || !flags) return trn__no_memory(error);
  for (size_t i = 0; i < modifiers->n_within_group && status == TRN_OK; i++) {
    flags[i] = spark__sort_flags(modifiers->within_group[i]);
    if (!modifiers->within_group[i]->child)
      return invalid_plan(t, "spark.connect.Expression.SortOrder", "CHILD_NOT_SET", error);
    status = spark__expression(t, modifiers->within_group[i]->child, &order[i], error);
  }
  call->order = order;
  call->order_flags = flags;
  call->order_count = modifiers->n_within_group;
  return status;
}

/* grouping() and grouping_id(): left as calls, which spark__aggregation_lift replaces. */
static trn_status grouping_call(spark_translator *t, const call_spec *spec, const spark_value *args, size_t count,
                                spark_value *out, trn_error **error) {
  bool is_id = strcasecmp(spec->name, "grouping_id") == 0;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_strbuf name = {0};
  if (!exprs) return trn__no_memory(error);
  trn__strbuf_puts(&name, is_id ? "grouping_id(" : "grouping(");
  for (size_t i = 0; i < count; i++) {
    exprs[i] = args[i].expr;
    trn__strbuf_printf(&name, "%s%s", i ? ", " : "", args[i].name ? args[i].name : "");
  }
  trn__strbuf_putc(&name, ')');
  *out = (spark_value){.name = spark__finish_text(t, &name), .has_aggregate = true};
  trn_expr *call = trn__expr_call(t->arena, TRN_HOME_NATIVE, is_id ? "grouping_id" : "grouping",
                                  trn__type(is_id ? TRN_TYPE_INT64 : TRN_TYPE_INT8), false, exprs, count);
  if (!call || !out->name) return trn__no_memory(error);
  call->position = spec->position;
  out->expr = call;
  return TRN_OK;
}

static bool is_plain_star(const expression *e) {
  if (e && e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_EXPRESSION_STRING &&
      e->expression_string->expression)
    return strcmp(e->expression_string->expression, "*") == 0;
  return e && e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR &&
         e->unresolved_star->_unparsed_target_case == 0;
}

static bool has_lambda(const call_spec *spec) {
  for (size_t i = 0; i < spec->count; i++)
    if (spec->arguments[i]->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LAMBDA_FUNCTION) return true;
  return false;
}

/* `first`: the first argument, already translated; or NULL. */
static trn_status call_with(spark_translator *t, const call_spec *given, const spark_value *first, spark_value *out,
                            trn_error **error) {
  spark_context *context = spark__state(t)->context;
  call_spec ordered = *given, *spec = &ordered;
  trn_status by_name = spark__positional(t, given->name, given->arguments, given->count, given->position,
                                         &ordered.arguments, &ordered.count, error);
  if (by_name != TRN_OK) return by_name;
  spark_call call = {.name = spec->name,
                     .is_distinct = spec->is_distinct,
                     .is_internal = spec->is_internal,
                     .position = spec->position};
  spark_value *values = NULL;
  size_t count = 0, capacity = 0;
  trn_status status = TRN_OK;
  bool grouping = strcasecmp(spec->name, "grouping") == 0 || strcasecmp(spec->name, "grouping_id") == 0;
  call_spec renamed = *spec;
  if (!grouping && t->catalog && !spark__function_exists(spec->name)) {
    const char *name = NULL;
    if ((by_name = spark__routine_alias(t, spec->name, &name, error))) return by_name;
    if (name) renamed.name = call.name = name, spec = &renamed;
  }
  bool aggregate =
      context && (grouping || spark__function_is_aggregate(spec->name) || spark__library_is_aggregate(t, spec->name));
  if (aggregate) context->in_aggregate++;
  if (spec->count == 1 && is_plain_star(spec->arguments[0]) && strcasecmp(spec->name, "count") == 0) {
    call.is_star = true;
  } else if (has_lambda(spec)) {
    status = spark__lambda_arguments(t, spec->name, spec->arguments, spec->count, spec->position, &values, &count,
                                     error);
  } else {
    if (first) status = spark__values_push(t, &values, &count, &capacity, first, error);
    for (size_t i = first ? 1 : 0; i < spec->count && status == TRN_OK; i++) {
      const expression *item = NULL;
      status = spark__list_item(t, spec->arguments[i], &values, &count, &capacity, &item, error);
    }
  }
  if (status == TRN_OK && spec->modifiers) status = modifiers_of(t, spec->modifiers, &call, error);
  if (aggregate) context->in_aggregate--;
  if (status != TRN_OK) return status;
  for (size_t i = 0; i < count; i++)
    if (values[i].is_window_function) return spark__needs_over(t, &values[i], error);
  call.args = values;
  call.arg_count = count;
  *out = (spark_value){0};
  if (strcmp(spec->name, "distributed_sequence_id") == 0) return spark__sequence_id(t, out, error);
  if (grouping) return grouping_call(t, spec, values, count, out, error);
  if (!spark__function_exists(spec->name) && t->catalog) {
    bool found = false;
    status = spark__routine_call(t, spec->name, values, count, spec->position, out, &found, error);
    if (status != TRN_OK || found) return status;
  }
  status = spark__call(t, &call, out, error);
  if (status == TRN_OK && out->is_generator) spark__state(t)->has_generators = true;
  if (status == TRN_OK && count == 1) status = negate_subquery(t, spec->name, &values[0], out, error);
  return status;
}

trn_status spark__function_call(spark_translator *t, const char *name, expression *const *arguments, size_t count,
                                bool is_distinct, bool is_internal,
                                const Spark__Connect__TrnFunctionModifiers *modifiers, trn_position position,
                                spark_value *out, trn_error **error) {
  call_spec spec = {name, arguments, count, is_distinct, is_internal, modifiers, position};
  return call_with(t, &spec, NULL, out, error);
}

static call_spec spec_of(spark_translator *t, const expression *e) {
  const Spark__Connect__Expression__UnresolvedFunction *f = e->unresolved_function;
  return (call_spec){.name = f->function_name ? f->function_name : "",
                     .arguments = f->arguments,
                     .count = f->n_arguments,
                     .is_distinct = f->is_distinct,
                     .is_internal = f->_is_internal_case != 0 && f->is_internal,
                     .position = spark__position(t, e)};
}

/* a + b + c + ... nests as deep as it is long, always in the first argument: a loop, not a recursion. */
static bool is_link(const expression *e) {
  return e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION &&
         e->unresolved_function->n_arguments == 2 && e->unresolved_function->function_name &&
         !spark__function_is_aggregate(e->unresolved_function->function_name);
}

static trn_status function(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  trn_vec chain = {0};
  const expression *at = e;
  trn_status status = TRN_OK;
  while (is_link(at) && is_link(at->unresolved_function->arguments[0])) {
    if (chain.count >= TRN_PLAN_DEPTH_MAX) {
      status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                             "An expression is nested deeper than TRN_PLAN_DEPTH_MAX (%d).", TRN_PLAN_DEPTH_MAX);
      goto done;
    }
    if (!trn__vec_push(&chain, (void *)at)) {
      status = trn__no_memory(error);
      goto done;
    }
    at = at->unresolved_function->arguments[0];
  }
  call_spec spec = spec_of(t, at);
  status = call_with(t, &spec, NULL, out, error);
  while (status == TRN_OK && chain.count > 0) {
    spark_value first = *out;
    spec = spec_of(t, chain.items[--chain.count]);
    status = call_with(t, &spec, &first, out, error);
  }
done:
  trn__vec_finish(&chain);
  return status;
}

static trn_status modified(spark_translator *t, const Spark__Connect__TrnFunctionModifiers *modifiers, spark_value *out,
                           trn_error **error) {
  const expression *inner = modifiers->function;
  if (!inner || inner->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION)
    return invalid_plan(t, "spark.connect.TrnFunctionModifiers", "FUNCTION_NOT_SET", error);
  call_spec spec = spec_of(t, inner);
  spec.modifiers = modifiers;
  return call_with(t, &spec, NULL, out, error);
}

/* ---- the other kinds ---- */
static trn_status alias(spark_translator *t, const Spark__Connect__Expression__Alias *node, spark_value *out,
                        trn_error **error) {
  if (!node->expr || node->n_name == 0) return invalid_plan(t, "spark.connect.Expression.Alias", "EXPR_NOT_SET", error);
  trn_status status = spark__expression(t, node->expr, out, error);
  if (status != TRN_OK) return status;
  bool metadata = node->_metadata_case == SPARK__CONNECT__EXPRESSION__ALIAS___METADATA_METADATA;
  if (node->n_name > 1) {
    if (metadata)
      return spark__error(t, error, TRN_INVALID_ARGUMENT,
                          "CONNECT_INVALID_PLAN.ALIAS_WITH_MULTIPLE_IDENTIFIERS_AND_METADATA", (trn_position){-1, -1},
                          NULL);
    out->aliases = (const char *const *)node->name;
    out->alias_count = node->n_name;
  }
  out->base_name = out->name;
  out->name = node->name[0];
  if (metadata) out->metadata = node->metadata;
  out->is_alias = true;
  out->is_attribute = false;
  out->qualifier = NULL;
  return TRN_OK;
}

static trn_status cast(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__Expression__Cast *node = e->cast;
  Spark__Connect__DataType *proto = NULL;
  const trn_type *type = NULL;
  spark_value value;
  trn_status status = TRN_OK;
  if (!node->expr) return invalid_plan(t, "spark.connect.Expression.Cast", "EXPR_NOT_SET", error);
  if (node->cast_to_type_case == SPARK__CONNECT__EXPRESSION__CAST__CAST_TO_TYPE_TYPE)
    proto = node->type;
  else if (node->cast_to_type_case == SPARK__CONNECT__EXPRESSION__CAST__CAST_TO_TYPE_TYPE_STR)
    status = spark__sql_parse_type(t->arena, node->type_str, strlen(node->type_str), NULL, &proto, error);
  else
    return invalid_plan(t, "spark.connect.Expression.Cast", "CASTTOTYPE_NOT_SET", error);
  if (status == TRN_OK) status = spark__type_from_proto(t->arena, proto, &type, error);
  if (status == TRN_OK) status = spark__expression(t, node->expr, &value, error);
  if (status != TRN_OK) return status;
  bool is_try = node->eval_mode == SPARK__CONNECT__EXPRESSION__CAST__EVAL_MODE__EVAL_MODE_TRY;
  return spark__cast_value(t, &value, type, is_try, spark__position(t, e), out, error);
}

static trn_status simple_case(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__TrnSimpleCase *node = e->trn_simple_case;
  size_t count = node->n_whens * 2 + (node->otherwise ? 1 : 0);
  spark_value operand, *args = TRN_NEW_N(t->arena, spark_value, count);
  if (!args) return trn__no_memory(error);
  if (!node->operand || node->n_whens != node->n_thens)
    return invalid_plan(t, "spark.connect.TrnSimpleCase", "OPERAND_NOT_SET", error);
  trn_status status = spark__expression(t, node->operand, &operand, error);
  for (size_t i = 0; i < node->n_whens && status == TRN_OK; i++) {
    spark_value pair[2] = {operand, {0}};
    status = spark__expression(t, node->whens[i], &pair[1], error);
    if (status == TRN_OK) status = spark__call_by_name(t, "==", pair, 2, spark__position(t, e), &args[2 * i], error);
    if (status == TRN_OK) status = spark__expression(t, node->thens[i], &args[2 * i + 1], error);
  }
  if (status == TRN_OK && node->otherwise) status = spark__expression(t, node->otherwise, &args[count - 1], error);
  return status == TRN_OK ? spark__call_by_name(t, "when", args, count, spark__position(t, e), out, error) : status;
}

static trn_status interval(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__TrnInterval *node = e->trn_interval;
  spark_value *values = TRN_NEW_N(t->arena, spark_value, node->n_values);
  if (!values) return trn__no_memory(error);
  trn_status status = TRN_OK;
  for (size_t i = 0; i < node->n_values && status == TRN_OK; i++)
    status = spark__expression(t, node->values[i], &values[i], error);
  return status == TRN_OK ? spark__interval(t, node, values, node->n_values, spark__position(t, e), out, error)
                          : status;
}

/* `args` and `pos_args` are what clients before 4.0 send. */
TRN_DEPRECATED_USE_BEGIN
static trn_status parameter(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__SQL *sql = spark__state(t)->parameters;
  const char *name = e->trn_parameter ? e->trn_parameter : "";
  bool positional = name[0] >= '0' && name[0] <= '9';
  size_t index = positional ? strtoul(name, NULL, 10) : 0;
  if (sql && positional && index < sql->n_pos_arguments)
    return spark__expression(t, sql->pos_arguments[index], out, error);
  if (sql && positional && index < sql->n_pos_args)
    return spark__literal(t, sql->pos_args[index], spark__position(t, e), out, error);
  for (size_t i = 0; sql && !positional && i < sql->n_named_arguments; i++)
    if (strcmp(sql->named_arguments[i]->key, name) == 0)
      return spark__expression(t, sql->named_arguments[i]->value, out, error);
  for (size_t i = 0; sql && !positional && i < sql->n_args; i++)
    if (strcmp(sql->args[i]->key, name) == 0)
      return spark__literal(t, sql->args[i]->value, spark__position(t, e), out, error);
  char number[24];
  if (positional) snprintf(number, sizeof number, "_%d", spark__position(t, e).start);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNBOUND_SQL_PARAMETER", spark__position(t, e), "name",
                      positional ? number : name, NULL);
}
TRN_DEPRECATED_USE_END

static trn_status extract(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  spark_value child, extraction;
  const Spark__Connect__Expression__UnresolvedExtractValue *node = e->unresolved_extract_value;
  if (!node->child || !node->extraction)
    return invalid_plan(t, "spark.connect.Expression.UnresolvedExtractValue", "CHILD_NOT_SET", error);
  trn_status status = spark__expression(t, node->child, &child, error);
  if (status == TRN_OK) status = spark__expression(t, node->extraction, &extraction, error);
  return status == TRN_OK ? spark__extract_value(t, &child, &extraction, spark__position(t, e), out, error) : status;
}

static trn_status expression_string(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  spark_state *state = spark__state(t);
  expression *parsed = NULL;
  const char *text = e->expression_string->expression ? e->expression_string->expression : "";
  trn_status status = spark__sql_parse_expression(t->arena, text, strlen(text), NULL, &parsed, error);
  if (status != TRN_OK) return status;
  bool before = state->foreign_positions;
  state->foreign_positions = true; /* they refer to this text */
  status = spark__expression(t, parsed, out, error);
  state->foreign_positions = before;
  return status;
}

static trn_status subquery_by_plan_id(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__SubqueryExpression *node = e->subquery_expression;
  const Spark__Connect__Relation *relation = spark__reference_by_plan_id(t, node->plan_id);
  if (!relation)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_WITH_RELATION_REFERENCE",
                        (trn_position){-1, -1}, NULL);
  Spark__Connect__TrnSubqueryKind kind;
  switch (node->subquery_type) {
  case SPARK__CONNECT__SUBQUERY_EXPRESSION__SUBQUERY_TYPE__SUBQUERY_TYPE_SCALAR:
    kind = SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_SCALAR;
    break;
  case SPARK__CONNECT__SUBQUERY_EXPRESSION__SUBQUERY_TYPE__SUBQUERY_TYPE_EXISTS:
    kind = SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_EXISTS;
    break;
  case SPARK__CONNECT__SUBQUERY_EXPRESSION__SUBQUERY_TYPE__SUBQUERY_TYPE_IN:
    kind = SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_IN;
    break;
  default: return spark__unimplemented(t, spark__position(t, e), error, "A table argument");
  }
  return spark__subquery(t, kind, relation, node->in_subquery_values, node->n_in_subquery_values, spark__position(t, e),
                         out, error);
}

static trn_status dispatch(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  trn_position position = spark__position(t, e);
  switch ((int)e->expr_type_case) {
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL: return spark__literal(t, e->literal, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE:
    return spark__resolve_attribute(t, e->unresolved_attribute, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION: return function(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_EXPRESSION_STRING: return expression_string(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS: return alias(t, e->alias, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_CAST: return cast(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_WINDOW: return spark__window(t, e->window, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_EXTRACT_VALUE: return extract(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UPDATE_FIELDS:
    return spark__update_fields(t, e->update_fields, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_CALL_FUNCTION:
    return spark__function_call(t, e->call_function->function_name ? e->call_function->function_name : "",
                                e->call_function->arguments, e->call_function->n_arguments, false, false, NULL,
                                position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_NAMED_LAMBDA_VARIABLE:
    return spark__lambda_variable(t, e->unresolved_named_lambda_variable, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_SUBQUERY_EXPRESSION: return subquery_by_plan_id(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_SUBQUERY:
    return spark__subquery(t, e->trn_subquery->kind, e->trn_subquery->relation, e->trn_subquery->in_values,
                           e->trn_subquery->n_in_values, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_MODIFIERS: return modified(t, e->trn_modifiers, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_INTERVAL: return interval(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_SIMPLE_CASE: return simple_case(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_TYPED_STRING:
    return spark__typed_string(t, e->trn_typed_string, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_WINDOW_REFERENCE:
    return spark__window_reference(t, e->trn_window_reference, position, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_PARAMETER: return parameter(t, e, out, error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR:
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_REGEX:
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_STAR_EXCEPT:
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_USAGE_OF_STAR_OR_REGEX", position, "elem", "'*'",
                        "prettyName", "expression", NULL);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_SORT_ORDER: /* its direction is read by those who can use one */
    if (e->sort_order->child) return spark__expression(t, e->sort_order->child, out, error);
    return invalid_plan(t, "spark.connect.Expression.SortOrder", "CHILD_NOT_SET", error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE__NOT_SET:
    return invalid_plan(t, "spark.connect.Expression", "EXPRTYPE_NOT_SET", error);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_COMMON_INLINE_USER_DEFINED_FUNCTION:
    return spark__unimplemented(t, position, error, "A user-defined function (%s)",
                                e->common_inline_user_defined_function->function_name);
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_EXTENSION:
    return spark__expression_extension(t, e->extension, position, out, error);
  default: {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&spark__connect__expression__descriptor, (unsigned)e->expr_type_case);
    return spark__unimplemented(t, position, error, "The expression kind %s", field ? field->name : "unknown");
  }
  }
}

trn_status spark__expression(spark_translator *t, const expression *e, spark_value *out, trn_error **error) {
  *out = (spark_value){0};
  if (!e) return invalid_plan(t, "spark.connect.Expression", "EXPRTYPE_NOT_SET", error);
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  status = dispatch(t, e, out, error);
  spark__leave(t);
  return status;
}

/* ---- small things that several use ---- */
trn_sort_flags spark__sort_flags(const Spark__Connect__Expression__SortOrder *order) {
  bool descending =
      order->direction == SPARK__CONNECT__EXPRESSION__SORT_ORDER__SORT_DIRECTION__SORT_DIRECTION_DESCENDING;
  bool nulls_first = !descending;
  if (order->null_ordering == SPARK__CONNECT__EXPRESSION__SORT_ORDER__NULL_ORDERING__SORT_NULLS_FIRST)
    nulls_first = true;
  if (order->null_ordering == SPARK__CONNECT__EXPRESSION__SORT_ORDER__NULL_ORDERING__SORT_NULLS_LAST)
    nulls_first = false;
  return (trn_sort_flags){.descending = descending, .nulls_first = nulls_first};
}

trn_status spark__boolean(spark_translator *t, const spark_value *value, const char *condition, trn_position position,
                          const trn_expr **out, trn_error **error) {
  *out = value->expr;
  if (value->expr->type->id == TRN_TYPE_BOOL) return TRN_OK;
  if (value->expr->type->id == TRN_TYPE_NULL)
    return spark__cast(t, value->expr, trn__type(TRN_TYPE_BOOL), SPARK_CAST_IMPLICIT, position, out, error);
  const char *text = spark__sql_text(t, value->name), *type = spark__quoted_type(t, value->expr->type);
  if (!text || !type) return trn__no_memory(error);
  if (strcmp(condition, "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE") == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, condition, position, "joinCondition", text, "conditionType",
                        type, NULL);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, condition, position, "sqlExpr", text, "filter", text, "type",
                      type, NULL);
}

trn_status spark__values_push(spark_translator *t, spark_value **values, size_t *count, size_t *capacity,
                              const spark_value *value, trn_error **error) {
  if (*count == *capacity) {
    size_t larger = *capacity ? *capacity * 2 : 8;
    spark_value *items = TRN_NEW_N(t->arena, spark_value, larger);
    if (!items) return trn__no_memory(error);
    if (*count) memcpy(items, *values, *count * sizeof *items);
    *values = items;
    *capacity = larger;
  }
  (*values)[(*count)++] = *value;
  return TRN_OK;
}

trn_status spark__expressions(spark_translator *t, expression *const *expressions, size_t count, spark_value **out,
                              size_t *out_count, trn_error **error) {
  size_t capacity = 0;
  trn_status status = TRN_OK;
  *out = NULL;
  *out_count = 0;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    const expression *item = NULL;
    status = spark__list_item(t, expressions[i], out, out_count, &capacity, &item, error);
  }
  return status;
}
