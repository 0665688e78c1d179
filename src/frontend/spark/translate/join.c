/* Joins: conditions, USING and NATURAL with their merged keys. */
#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct join_side {
  spark_relation relation;
  bool *is_key;        /* per column of the scope */
  uint32_t *key_index; /* which column is key i */
} join_side;

static trn_status join_type(spark_translator *t, const Spark__Connect__Join *node, trn_join_type *out,
                            trn_error **error) {
  switch ((int)node->join_type) {
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER:
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_CROSS: *out = TRN_JOIN_INNER; return TRN_OK;
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_FULL_OUTER: *out = TRN_JOIN_FULL; return TRN_OK;
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_OUTER: *out = TRN_JOIN_LEFT; return TRN_OK;
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_RIGHT_OUTER: *out = TRN_JOIN_RIGHT; return TRN_OK;
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_ANTI: *out = TRN_JOIN_LEFT_ANTI; return TRN_OK;
  case SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_SEMI: *out = TRN_JOIN_LEFT_SEMI; return TRN_OK;
  default:
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ENUM", NOWHERE, "fullName",
                        "spark.connect.Join.JoinType", "name", "JOIN_TYPE_UNSPECIFIED", "number", "0", NULL);
  }
}

/* The side's column as the join gives it: the other side of an outer join may have no row. */
static trn_status as_joined(spark_translator *t, const spark_column *column, bool nullable, spark_column *out,
                            trn_error **error) {
  *out = *column;
  if (!nullable || column->expr->nullable) return TRN_OK;
  trn_column made = {.id = column->expr->u.column, .type = column->expr->type, .nullable = true};
  out->expr = trn__expr_column(t->arena, &made);
  return out->expr ? TRN_OK : trn__no_memory(error);
}

/* Left's columns, then right's: what a condition sees. */
static trn_status both_scope(spark_translator *t, const join_side *left, const join_side *right, spark_scope **out,
                             trn_error **error) {
  size_t count = (size_t)left->relation.scope->count + right->relation.scope->count;
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, count);
  if (!columns) return trn__no_memory(error);
  if (left->relation.scope->count)
    memcpy(columns, left->relation.scope->columns, left->relation.scope->count * sizeof *columns);
  if (right->relation.scope->count)
    memcpy(columns + left->relation.scope->count, right->relation.scope->columns,
           right->relation.scope->count * sizeof *columns);
  *out = spark__scope_create(t, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status condition_of(spark_translator *t, const Spark__Connect__Expression *e, const join_side *left,
                               const join_side *right, const trn_expr **out, trn_error **error) {
  spark_context context;
  spark_scope *scope = NULL;
  spark_value value;
  trn_status status = both_scope(t, left, right, &scope, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, scope);
  context.inputs[0] = left->relation.scope;
  context.inputs[1] = right->relation.scope;
  context.input_count = 2;
  status = spark__expression(t, e, &value, error);
  spark__context_end(t, &context);
  if (status != TRN_OK) return status;
  if (value.has_aggregate || spark__expr_contains(value.expr, TRN_EXPR_WINDOW))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_EXPR_FOR_OPERATOR", spark__position(t, e),
                        "invalidExprSqls", value.name ? value.name : "", NULL);
  return spark__boolean(t, &value, "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE", spark__position(t, e), out, error);
}

/* ---- keys of USING and NATURAL ---- */
static trn_status no_using_column(spark_translator *t, const char *name, bool left, const spark_scope *scope,
                                  trn_error **error) {
  trn_strbuf list = {0};
  const char *names[1000], *quoted = spark__quote(t, name);
  size_t count = 0;
  for (uint32_t i = 0; i < scope->count && count < 1000; i++) {
    if (scope->columns[i].hidden) continue;
    size_t at = count++;
    for (; at > 0 && strcmp(names[at - 1], scope->columns[i].name) > 0; at--) names[at] = names[at - 1];
    names[at] = scope->columns[i].name;
  }
  for (size_t i = 0; i < count; i++) {
    const char *text = spark__quote(t, names[i]);
    trn__strbuf_printf(&list, "%s%s", i ? ", " : "", text ? text : "");
  }
  const char *suggestion = list.size ? spark__finish_text(t, &list) : "";
  if (!quoted || !suggestion) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_USING_COLUMN_FOR_JOIN", NOWHERE, "colName", quoted,
                      "side", left ? "left" : "right", "suggestion", suggestion, NULL);
}

static trn_status find_key(spark_translator *t, const char *name, bool is_left, join_side *side, size_t index,
                           trn_error **error) {
  const spark_scope *scope = side->relation.scope;
  char *parts[1] = {(char *)name};
  spark_resolved resolved;
  bool found = false;
  trn_status status = spark__scope_resolve(t, scope, parts, 1, NOWHERE, &resolved, &found, error);
  if (status != TRN_OK) return status;
  if (!found) return no_using_column(t, name, is_left, scope, error);
  side->key_index[index] = (uint32_t)(resolved.column - scope->columns);
  side->is_key[side->key_index[index]] = true;
  return TRN_OK;
}

static trn_status start_side(spark_translator *t, join_side *side, size_t keys, trn_error **error) {
  side->is_key = TRN_NEW_N(t->arena, bool, side->relation.scope->count);
  side->key_index = TRN_NEW_N(t->arena, uint32_t, keys);
  return side->is_key && side->key_index ? TRN_OK : trn__no_memory(error);
}

/* Names that both sides have, in the left one's order. */
static trn_status natural_names(spark_translator *t, const join_side *left, const join_side *right, char ***out,
                                size_t *count, trn_error **error) {
  const spark_scope *scope = left->relation.scope;
  char **names = TRN_NEW_N(t->arena, char *, scope->count);
  if (!names) return trn__no_memory(error);
  *count = 0;
  for (uint32_t i = 0; i < scope->count; i++)
    if (!scope->columns[i].hidden && spark__scope_find(t, right->relation.scope, scope->columns[i].name) != UINT32_MAX)
      names[(*count)++] = (char *)scope->columns[i].name;
  *out = names;
  return TRN_OK;
}

static trn_status keys_equal(spark_translator *t, const join_side *left, const join_side *right, size_t keys,
                             const trn_expr **out, trn_error **error) {
  spark_value all = {0};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < keys && status == TRN_OK; i++) {
    spark_value pair[2], equal;
    const spark_column *l = &left->relation.scope->columns[left->key_index[i]];
    const spark_column *r = &right->relation.scope->columns[right->key_index[i]];
    spark__column_value(l, l->name, &pair[0]);
    spark__column_value(r, r->name, &pair[1]);
    status = spark__call_by_name(t, "==", pair, 2, NOWHERE, &equal, error);
    if (status != TRN_OK) break;
    spark_value both[2] = {all, equal};
    if (i == 0)
      all = equal;
    else
      status = spark__call_by_name(t, "and", both, 2, NOWHERE, &all, error);
  }
  *out = all.expr;
  return status;
}

/* ---- what a join with merged keys shows: keys, left's others, right's others; the other side's keys are hidden ----
 */
typedef struct using_output {
  spark_translator *t;
  spark_column *columns;
  const trn_expr **merged; /* per key of a full join: the coalesced value */
  size_t count;
} using_output;

static trn_status push_side(using_output *u, const join_side *side, bool nullable, trn_error **error) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < side->relation.scope->count && status == TRN_OK; i++)
    if (!side->is_key[i])
      status = as_joined(u->t, &side->relation.scope->columns[i], nullable, &u->columns[u->count++], error);
  return status;
}

static trn_status push_keys(using_output *u, const join_side *side, size_t keys, bool nullable, bool hidden,
                            trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < keys && status == TRN_OK; i++) {
    spark_column *column = &u->columns[u->count++];
    status = as_joined(u->t, &side->relation.scope->columns[side->key_index[i]], nullable, column, error);
    column->hidden = hidden;
  }
  return status;
}

static trn_status push_merged(using_output *u, const join_side *left, const join_side *right, size_t keys,
                              trn_error **error) {
  spark_translator *t = u->t;
  trn_status status = TRN_OK;
  u->merged = TRN_NEW_N(t->arena, const trn_expr *, keys);
  if (!u->merged) return trn__no_memory(error);
  for (size_t i = 0; i < keys && status == TRN_OK; i++) {
    spark_column l, r;
    spark_value pair[2], value;
    status = as_joined(t, &left->relation.scope->columns[left->key_index[i]], true, &l, error);
    if (status == TRN_OK) status = as_joined(t, &right->relation.scope->columns[right->key_index[i]], true, &r, error);
    if (status != TRN_OK) break;
    spark__column_value(&l, l.name, &pair[0]);
    spark__column_value(&r, r.name, &pair[1]);
    status = spark__call_by_name(t, "coalesce", pair, 2, NOWHERE, &value, error);
    if (status != TRN_OK) break;
    const trn_expr *column = spark__column_expr(t, value.expr->type, value.expr->nullable);
    if (!column) return trn__no_memory(error);
    u->merged[i] = value.expr;
    u->columns[u->count++] = (spark_column){.expr = column, .name = l.name};
  }
  return status;
}

/* A full join's keys are computed: a projection that keeps all the join's columns. */
static trn_status merged_relation(using_output *u, const trn_rel *join, size_t keys, const trn_rel **out,
                                  trn_error **error) {
  spark_translator *t = u->t;
  size_t count = join->column_count + keys;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  if (!exprs || !columns) return trn__no_memory(error);
  for (size_t i = 0; i < join->column_count; i++) {
    columns[i] = join->columns[i];
    exprs[i] = trn__expr_column(t->arena, &columns[i]);
    if (!exprs[i]) return trn__no_memory(error);
  }
  for (size_t i = 0; i < keys; i++) {
    const trn_expr *column = u->columns[i].expr;
    exprs[join->column_count + i] = u->merged[i];
    columns[join->column_count + i] =
        (trn_column){.id = column->u.column, .type = column->type, .nullable = column->nullable};
  }
  *out = trn__rel_project(t->arena, join, exprs, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status using_join(spark_translator *t, trn_join_type type, char *const *names, size_t keys, join_side *left,
                             join_side *right, spark_relation *out, trn_error **error) {
  using_output u = {.t = t};
  const trn_expr *condition = NULL;
  trn_status status = start_side(t, left, keys, error);
  if (status == TRN_OK) status = start_side(t, right, keys, error);
  for (size_t i = 0; i < keys && status == TRN_OK; i++) {
    status = find_key(t, names[i], true, left, i, error);
    if (status == TRN_OK) status = find_key(t, names[i], false, right, i, error);
  }
  if (status == TRN_OK) status = keys_equal(t, left, right, keys, &condition, error);
  if (status != TRN_OK) return status;
  const trn_rel *rel = trn__rel_join(t->arena, type, left->relation.rel, right->relation.rel, condition);
  u.columns =
      TRN_NEW_N(t->arena, spark_column, (size_t)left->relation.scope->count + right->relation.scope->count + 2 * keys);
  if (!rel || !u.columns) return trn__no_memory(error);
  bool left_nullable = type == TRN_JOIN_RIGHT || type == TRN_JOIN_FULL,
       right_nullable = type == TRN_JOIN_LEFT || type == TRN_JOIN_FULL;
  bool half = type == TRN_JOIN_LEFT_SEMI || type == TRN_JOIN_LEFT_ANTI;
  if (type == TRN_JOIN_FULL)
    status = push_merged(&u, left, right, keys, error);
  else
    status = push_keys(&u, type == TRN_JOIN_RIGHT ? right : left, keys, false, false, error);
  if (status == TRN_OK) status = push_side(&u, left, left_nullable, error);
  if (status == TRN_OK && !half) status = push_side(&u, right, right_nullable, error);
  if (status == TRN_OK && (type == TRN_JOIN_RIGHT || type == TRN_JOIN_FULL))
    status = push_keys(&u, left, keys, true, true, error);
  if (status == TRN_OK && !half && type != TRN_JOIN_RIGHT)
    status = push_keys(&u, right, keys, right_nullable, true, error);
  if (status == TRN_OK && type == TRN_JOIN_FULL) status = merged_relation(&u, rel, keys, &rel, error);
  if (status != TRN_OK) return status;
  out->rel = rel;
  out->scope = spark__scope_create(t, u.columns, u.count);
  return out->scope ? TRN_OK : trn__no_memory(error);
}

trn_status spark__join_relations(spark_translator *t, trn_join_type type, const trn_expr *condition,
                                 const spark_relation *left, const spark_relation *right, spark_relation *out,
                                 trn_error **error) {
  const spark_scope *l = left->scope, *r = right->scope;
  bool half = type == TRN_JOIN_LEFT_SEMI || type == TRN_JOIN_LEFT_ANTI;
  bool left_nullable = type == TRN_JOIN_RIGHT || type == TRN_JOIN_FULL,
       right_nullable = type == TRN_JOIN_LEFT || type == TRN_JOIN_FULL;
  const trn_rel *rel = trn__rel_join(t->arena, type, left->rel, right->rel, condition);
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, (size_t)l->count + r->count);
  size_t count = 0;
  trn_status status = TRN_OK;
  if (!rel || !columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < l->count && status == TRN_OK; i++)
    status = as_joined(t, &l->columns[i], left_nullable, &columns[count++], error);
  for (uint32_t i = 0; !half && i < r->count && status == TRN_OK; i++)
    status = as_joined(t, &r->columns[i], right_nullable, &columns[count++], error);
  if (status != TRN_OK) return status;
  out->rel = rel;
  out->scope = spark__scope_create(t, columns, count);
  return out->scope ? TRN_OK : trn__no_memory(error);
}

trn_status spark__relation_join(spark_translator *t, const Spark__Connect__Join *node, bool natural,
                                spark_relation *out, trn_error **error) {
  join_side left = {0}, right = {0};
  trn_join_type type = TRN_JOIN_INNER;
  const trn_expr *condition = NULL;
  char **names = NULL;
  size_t keys = 0;
  if (!node)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.ASSERTION_FAILURE", NOWHERE, "message",
                        "", NULL);
  trn_status status = join_type(t, node, &type, error);
  if (status == TRN_OK && node->n_using_columns && node->join_condition)
    status = spark__error(t, error, TRN_INVALID_ARGUMENT,
                          "CONNECT_INVALID_PLAN.USING_COLUMNS_OR_JOIN_CONDITION_SET_IN_JOIN", NOWHERE, NULL);
  if (status == TRN_OK) status = spark__relation(t, node->left, &left.relation, error);
  if (status == TRN_OK) status = spark__relation(t, node->right, &right.relation, error);
  if (status != TRN_OK) return status;
  names = node->using_columns;
  keys = node->n_using_columns;
  if (natural) status = natural_names(t, &left, &right, &names, &keys, error);
  if (status == TRN_OK && (keys > 0 || natural) && !(natural && keys == 0))
    return using_join(t, type, names, keys, &left, &right, out, error);
  if (status == TRN_OK && node->join_condition)
    status = condition_of(t, node->join_condition, &left, &right, &condition, error);
  if (status == TRN_OK && !condition && type != TRN_JOIN_INNER) { /* an outer join of everything with everything */
    condition = trn__expr_bool(t->arena, true);
    if (!condition) return trn__no_memory(error);
  }
  return status == TRN_OK ? spark__join_relations(t, type, condition, &left.relation, &right.relation, out, error)
                          : status;
}
