/* Aggregations: group keys, aggregate functions lifted out of expressions, grouping sets. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

static const trn_position NOWHERE = {-1, -1};

trn_status spark__aggregation_keys(spark_translator *t, spark_aggregation *aggregation, const spark_value *keys,
                                   size_t count, trn_error **error) {
  aggregation->key_columns = TRN_NEW_N(t->arena, const trn_expr *, count);
  const char **names = TRN_NEW_N(t->arena, const char *, count);
  if (!aggregation->key_columns || !names) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const trn_expr *key = keys[i].expr;
    if (keys[i].has_aggregate) {
      const char *text = spark__sql_text(t, keys[i].name);
      if (!text) return trn__no_memory(error);
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "GROUP_BY_AGGREGATE", key->position, "sqlExpr", text, NULL);
    }
    if (spark__expr_contains(key, TRN_EXPR_WINDOW))
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE", key->position,
                          "clauseName", "GROUP BY", NULL);
    names[i] = keys[i].name ? keys[i].name : "";
    /* A column keeps its id, unless grouping sets make another column of it or it is a key already. */
    bool keeps = key->kind == TRN_EXPR_COLUMN && aggregation->set_count == 0 &&
                 spark__expr_set_find(&aggregation->keys, key) == UINT32_MAX;
    aggregation->key_columns[i] =
        keeps ? key : spark__column_expr(t, key->type, key->nullable || aggregation->set_count > 0);
    if (!aggregation->key_columns[i] || !spark__expr_set_add(t, &aggregation->keys, key)) return trn__no_memory(error);
  }
  aggregation->key_names = names;
  return TRN_OK;
}

bool spark__aggregation_has_key(const spark_aggregation *aggregation, const trn_expr *expr) {
  return spark__expr_set_find(&aggregation->keys, expr) != UINT32_MAX ||
         (expr->kind == TRN_EXPR_CALL && expr->arg_count > 0 &&
          spark__expr_set_find(&aggregation->keys, expr->args[0]) != UINT32_MAX);
}

static bool grow_call_columns(spark_translator *t, spark_aggregation *aggregation) {
  uint32_t capacity = aggregation->call_capacity ? aggregation->call_capacity * 2 : 8;
  const trn_expr **columns = TRN_NEW_N(t->arena, const trn_expr *, capacity);
  if (!columns) return false;
  if (aggregation->calls.count) memcpy(columns, aggregation->call_columns, aggregation->calls.count * sizeof *columns);
  aggregation->call_columns = columns;
  aggregation->call_capacity = capacity;
  return true;
}

static trn_status lift_call(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                            const trn_expr **out, trn_error **error) {
  for (uint32_t i = 0; i < expr->arg_count; i++)
    if (spark__expr_contains(expr->args[i], TRN_EXPR_WINDOW))
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_1031", expr->position, NULL);
  for (uint32_t i = 0; i < expr->arg_count; i++)
    if (spark__expr_contains(expr->args[i], TRN_EXPR_AGGREGATE))
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "NESTED_AGGREGATE_FUNCTION", expr->position, NULL);
  uint32_t known = spark__expr_set_find(&aggregation->calls, expr);
  if (known != UINT32_MAX) {
    *out = aggregation->call_columns[known];
    return TRN_OK;
  }
  if (aggregation->calls.count == aggregation->call_capacity && !grow_call_columns(t, aggregation))
    return trn__no_memory(error);
  trn_expr *column = spark__column_expr(t, expr->type, expr->nullable);
  if (!column) return trn__no_memory(error);
  aggregation->call_columns[aggregation->calls.count] = column;
  if (!spark__expr_set_add(t, &aggregation->calls, expr)) return trn__no_memory(error);
  *out = column;
  return TRN_OK;
}

/* Bit of a key in the grouping id: the first key has the highest; 1: the key is not in the row's set. */
static trn_status grouping_bit(spark_translator *t, const spark_aggregation *aggregation, uint32_t key,
                               const trn_expr **out, trn_error **error) {
  int64_t shift = (int64_t)aggregation->keys.count - 1 - key;
  spark_value args[2] = {{.expr = aggregation->grouping_id, .name = "grouping_id"}, {.name = "shift"}};
  args[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), shift);
  args[1].is_foldable = true;
  if (!args[1].expr) return trn__no_memory(error);
  spark_value shifted;
  trn_status status = spark__call_by_name(t, "shiftright", args, 2, NOWHERE, &shifted, error);
  if (status != TRN_OK) return status;
  args[0] = shifted;
  args[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), 1);
  if (!args[1].expr) return trn__no_memory(error);
  status = spark__call_by_name(t, "&", args, 2, NOWHERE, &shifted, error);
  *out = shifted.expr;
  return status;
}

static trn_status lift_grouping(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                                const trn_expr **out, trn_error **error) {
  if (aggregation->set_count == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_GROUPING_EXPRESSION", expr->position, NULL);
  bool is_id = strcmp(expr->u.call.name, "grouping_id") == 0;
  uint32_t found = 0;
  for (; is_id && found < expr->arg_count && found < aggregation->keys.count; found++)
    if (!spark__expr_same(expr->args[found], aggregation->keys.items[found])) break;
  if (is_id && expr->arg_count > 0 && (found != expr->arg_count || found != aggregation->keys.count))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "GROUPING_ID_COLUMN_MISMATCH", expr->position,
                        "groupingIdColumn", "", "groupByColumns", "", NULL);
  if (is_id) {
    *out = aggregation->grouping_id;
    return TRN_OK;
  }
  for (uint32_t i = 0; expr->arg_count == 1 && i < aggregation->keys.count; i++) {
    if (!spark__expr_same(expr->args[0], aggregation->keys.items[i])) continue;
    trn_status status = grouping_bit(t, aggregation, i, out, error);
    if (status != TRN_OK) return status;
    return spark__cast(t, *out, trn__type(TRN_TYPE_INT8), SPARK_CAST_IMPLICIT, NOWHERE, out, error);
  }
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "GROUPING_COLUMN_MISMATCH", expr->position, "grouping", "",
                      "groupingColumns", "", NULL);
}

static trn_status not_aggregated(spark_translator *t, const spark_aggregation *aggregation, const trn_expr *expr,
                                 trn_error **error) {
  const char *name = spark__column_name(t, aggregation->scope, expr->u.column);
  if (!aggregation->has_group_by)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "MISSING_GROUP_BY", expr->position, NULL);
  const char *any = trn__arena_printf(t->arena, "any_value(%s)", name);
  const char *text = spark__sql_text(t, name), *any_text = any ? spark__sql_text(t, any) : NULL;
  if (!text || !any_text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "MISSING_AGGREGATION", expr->position, "expression", text,
                      "expressionAnyValue", any_text, NULL);
}

static bool is_allowed(spark_translator *t, const spark_aggregation *aggregation, uint32_t id) {
  for (uint32_t i = 0; i < aggregation->lateral_count; i++)
    if (aggregation->laterals[i].column && aggregation->laterals[i].column->u.column == id) return true;
  return aggregation->output && spark__scope_has(t, aggregation->output, id);
}

/* A correlated subquery above the aggregation sees its output: keys that are columns keep their ids, others are gone.
 */
typedef struct outer_check {
  spark_translator *t;
  const spark_aggregation *aggregation;
  const trn_expr *bad;
} outer_check;

static trn_walk check_outer(void *user, const trn_expr *expr, const trn_rel *holder) {
  outer_check *check = user;
  (void)holder;
  if (expr->kind != TRN_EXPR_OUTER || !spark__scope_has(check->t, check->aggregation->scope, expr->u.column))
    return TRN_WALK_ON;
  for (uint32_t i = 0; i < check->aggregation->keys.count; i++)
    if (check->aggregation->key_columns[i]->u.column == expr->u.column) return TRN_WALK_ON;
  check->bad = expr;
  return TRN_WALK_STOP;
}

static trn_status lift_subquery(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                                trn_error **error) {
  outer_check check = {.t = t, .aggregation = aggregation};
  trn_visitor visitor = {.expr = check_outer, .user = &check};
  trn_status status = trn__plan_walk(expr->u.subquery.rel, &visitor);
  if (check.bad)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "SCALAR_SUBQUERY_IS_IN_GROUP_BY_OR_AGGREGATE_FUNCTION",
                        expr->position, "sqlExpr", "\"scalarsubquery()\"", NULL);
  return status == TRN_OK ? TRN_OK : trn_error_set(error, status, NULL, "A subquery is nested too deep.");
}

static trn_status lift_children(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                                const trn_expr **out, trn_error **error) {
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, expr->arg_count);
  if (!args) return trn__no_memory(error);
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  uint32_t i = 0;
  if (expr->kind == TRN_EXPR_WINDOW) { /* the function itself stays: sum(sum(a)) OVER () */
    const trn_expr *function = expr->args[0];
    const trn_expr **inner = TRN_NEW_N(t->arena, const trn_expr *, function->arg_count);
    if (!inner) status = trn__no_memory(error);
    for (uint32_t k = 0; k < function->arg_count && status == TRN_OK; k++)
      status = spark__aggregation_lift(t, aggregation, function->args[k], &inner[k], error);
    if (status == TRN_OK) status = spark__expr_with_args(t, function, inner, &args[0], error);
    i = 1;
  }
  for (; i < expr->arg_count && status == TRN_OK; i++)
    status = spark__aggregation_lift(t, aggregation, expr->args[i], &args[i], error);
  spark__leave(t);
  return status == TRN_OK ? spark__expr_with_args(t, expr, args, out, error) : status;
}

trn_status spark__aggregation_lift(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                                   const trn_expr **out, trn_error **error) {
  *out = expr;
  uint32_t key = spark__expr_set_find(&aggregation->keys, expr);
  if (key != UINT32_MAX) {
    *out = aggregation->key_columns[key];
    return TRN_OK;
  }
  if (expr->kind == TRN_EXPR_AGGREGATE) return lift_call(t, aggregation, expr, out, error);
  if (expr->kind == TRN_EXPR_COLUMN)
    return is_allowed(t, aggregation, expr->u.column) ? TRN_OK : not_aggregated(t, aggregation, expr, error);
  if (expr->kind == TRN_EXPR_CALL && expr->u.call.home == TRN_HOME_NATIVE &&
      (strcmp(expr->u.call.name, "grouping") == 0 || strcmp(expr->u.call.name, "grouping_id") == 0))
    return lift_grouping(t, aggregation, expr, out, error);
  if (expr->kind == TRN_EXPR_SUBQUERY) {
    trn_status status = lift_subquery(t, aggregation, expr, error);
    if (status != TRN_OK) return status;
  }
  return expr->arg_count ? lift_children(t, aggregation, expr, out, error) : TRN_OK;
}

trn_status spark__aggregation_relation(spark_translator *t, const spark_aggregation *aggregation, const trn_rel *input,
                                       const trn_rel **out, trn_error **error) {
  size_t count = (size_t)aggregation->keys.count + aggregation->calls.count;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count + 1);
  if (!exprs || !columns) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    bool key = i < aggregation->keys.count;
    const trn_expr *column = key ? aggregation->key_columns[i] : aggregation->call_columns[i - aggregation->keys.count];
    exprs[i] = key ? aggregation->keys.items[i] : aggregation->calls.items[i - aggregation->keys.count];
    columns[i] = (trn_column){.id = column->u.column, .type = column->type, .nullable = column->nullable};
  }
  size_t column_count = count;
  if (aggregation->set_count)
    columns[column_count++] = (trn_column){
        .id = aggregation->grouping_id->u.column, .type = aggregation->grouping_id->type, .nullable = false};
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_AGGREGATE, &input, 1, exprs, count, columns, column_count);
  if (!rel) return trn__no_memory(error);
  rel->u.aggregate.group_count = aggregation->keys.count;
  rel->u.aggregate.set_count = aggregation->set_count;
  rel->u.aggregate.sets = aggregation->sets;
  *out = rel;
  return TRN_OK;
}

/* Sets of ROLLUP, CUBE or those given; before spark__aggregation_keys. */
trn_status spark__grouping_sets(spark_translator *t, int group_type, size_t key_count, const uint64_t *given,
                                size_t given_count, spark_aggregation *aggregation, trn_error **error) {
  bool cube = group_type == SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_CUBE;
  bool rollup = group_type == SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_ROLLUP;
  size_t count = given_count;
  if (key_count >= TRN_GROUPING_KEYS_MAX || (cube && key_count > 12))
    return trn_error_set(
        error, TRN_RESOURCE_EXHAUSTED, NULL,
        "More grouping columns than TRN_GROUPING_KEYS_MAX (%u) or sets than TRN_GROUPING_SETS_MAX (%u).",
        TRN_GROUPING_KEYS_MAX, TRN_GROUPING_SETS_MAX);
  if (rollup) count = key_count + 1;
  if (cube) count = (size_t)1 << key_count;
  if (count > TRN_GROUPING_SETS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More grouping sets than TRN_GROUPING_SETS_MAX (%u).",
                         TRN_GROUPING_SETS_MAX);
  uint64_t *sets = TRN_NEW_N(t->arena, uint64_t, count);
  if (!sets) return trn__no_memory(error);
  uint64_t all = key_count ? ((uint64_t)1 << key_count) - 1 : 0;
  for (size_t i = 0; i < count; i++) {
    if (rollup)
      sets[i] = all >> i; /* the first keys stay longest */
    else if (cube)
      sets[i] = all - i;
    else
      sets[i] = given[i];
  }
  aggregation->sets = sets;
  aggregation->set_count = (uint32_t)count;
  aggregation->grouping_id = spark__column_expr(t, trn__type(TRN_TYPE_INT64), false);
  return aggregation->grouping_id ? TRN_OK : trn__no_memory(error);
}

/* ---- the DataFrame's relation ---- */
static trn_status sets_of(spark_translator *t, const Spark__Connect__Aggregate *node, const spark_value *keys,
                          size_t count, spark_aggregation *aggregation, trn_error **error) {
  uint64_t *sets = TRN_NEW_N(t->arena, uint64_t, node->n_grouping_sets);
  if (!sets) return trn__no_memory(error);
  for (size_t i = 0; i < node->n_grouping_sets; i++) {
    for (size_t k = 0; k < node->grouping_sets[i]->n_grouping_set; k++) {
      spark_value value;
      trn_status status = spark__expression(t, node->grouping_sets[i]->grouping_set[k], &value, error);
      if (status != TRN_OK) return status;
      for (size_t n = 0; n < count && n < TRN_GROUPING_KEYS_MAX; n++)
        if (spark__expr_same(keys[n].expr, value.expr)) sets[i] |= (uint64_t)1 << n;
    }
  }
  return spark__grouping_sets(t, (int)node->group_type, count, sets, node->n_grouping_sets, aggregation, error);
}

static trn_status aggregate_in(spark_translator *t, const Spark__Connect__Aggregate *node, const spark_relation *input,
                               spark_context *context, spark_relation *out, trn_error **error) {
  spark_aggregation aggregation = {.scope = input->scope, .has_group_by = node->n_grouping_expressions > 0};
  spark_value *keys = NULL, *calls = NULL;
  size_t key_count = 0, call_count = 0;
  trn_status status =
      spark__expressions(t, node->grouping_expressions, node->n_grouping_expressions, &keys, &key_count, error);
  if (status == TRN_OK && node->group_type >= SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_ROLLUP)
    status = sets_of(t, node, keys, key_count, &aggregation, error);
  if (status == TRN_OK) status = spark__aggregation_keys(t, &aggregation, keys, key_count, error);
  if (status == TRN_OK)
    status =
        spark__expressions(t, node->aggregate_expressions, node->n_aggregate_expressions, &calls, &call_count, error);
  if (status != TRN_OK) return status;
  spark_value *values = TRN_NEW_N(t->arena, spark_value, key_count + call_count);
  if (!values) return trn__no_memory(error);
  for (size_t i = 0; i < key_count + call_count && status == TRN_OK; i++) {
    values[i] = i < key_count ? keys[i] : calls[i - key_count];
    status = spark__aggregation_lift(t, &aggregation, values[i].expr, &values[i].expr, error);
  }
  spark_relation below = {.scope = input->scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, input->rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, values, key_count + call_count, context, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

trn_status spark__relation_aggregate(spark_translator *t, const Spark__Connect__Aggregate *node, spark_relation *out,
                                     trn_error **error) {
  spark_relation input;
  spark_context context;
  if (node->group_type == SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_PIVOT)
    return spark__relation_pivot(t, node, out, error);
  if (node->group_type == SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_UNSPECIFIED)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ENUM", NOWHERE, "fullName",
                        "spark.connect.Aggregate.GroupType", "name", "GROUP_TYPE_UNSPECIFIED", "number", "0", NULL);
  trn_status status = spark__relation(t, node->input, &input, error);
  if (status == TRN_OK)
    status = spark__time_windows(t, &input, node->grouping_expressions, node->n_grouping_expressions, NULL, 0, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, input.scope);
  status = aggregate_in(t, node, &input, &context, out, error);
  spark__context_end(t, &context);
  return status;
}
