/* Lateral joins: the right side sees the left one's columns. What needs no join is translated: generators, queries
 * without FROM, aggregations to one row, and filters that compare both sides. Others stay joins whose right side has
 * OUTER columns; they end where correlated subqueries do. */
#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct lateral {
  spark_translator *t;
  spark_relation left;
  const char *alias;    /* of the right side, or NULL */
  char *const *columns; /* names of its columns */
  size_t column_count;
} lateral;

/* Aliases around a table function. */
static const Spark__Connect__UnresolvedTableValuedFunction *function_of(lateral *l, const Spark__Connect__Relation *r) {
  for (int depth = 0; r && depth < 8; depth++) {
    switch ((int)r->rel_type_case) {
    case SPARK__CONNECT__RELATION__REL_TYPE_UNRESOLVED_TABLE_VALUED_FUNCTION:
      return r->unresolved_table_valued_function;
    case SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS:
      if (!l->alias) l->alias = r->subquery_alias->alias;
      r = r->subquery_alias->input;
      break;
    case SPARK__CONNECT__RELATION__REL_TYPE_TRN_TABLE_ALIAS:
      if (!l->alias) l->alias = r->trn_table_alias->alias;
      if (!l->column_count) {
        l->columns = r->trn_table_alias->columns;
        l->column_count = r->trn_table_alias->n_columns;
      }
      r = r->trn_table_alias->input;
      break;
    default: return NULL;
    }
  }
  return NULL;
}

/* FROM t, LATERAL explode(t.items) AS x(item) is a lateral view. */
static trn_status as_view(lateral *l, const Spark__Connect__LateralJoin *node,
                          const Spark__Connect__UnresolvedTableValuedFunction *function, spark_relation *out,
                          trn_error **error) {
  Spark__Connect__Expression__UnresolvedFunction call = SPARK__CONNECT__EXPRESSION__UNRESOLVED_FUNCTION__INIT;
  Spark__Connect__Expression generator = SPARK__CONNECT__EXPRESSION__INIT;
  Spark__Connect__TrnLateralView view = SPARK__CONNECT__TRN_LATERAL_VIEW__INIT;
  Spark__Connect__TrnLateralViewOf of = SPARK__CONNECT__TRN_LATERAL_VIEW_OF__INIT;
  call.function_name = function->function_name;
  call.n_arguments = function->n_arguments;
  call.arguments = function->arguments;
  generator.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION;
  generator.unresolved_function = &call;
  view.generator = &generator;
  view.outer = node->join_type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_OUTER;
  view.alias = (char *)(l->alias ? l->alias : "");
  view.columns = (char **)l->columns;
  view.n_columns = l->column_count;
  of.input = node->left;
  of.view = &view;
  return spark__relation_lateral_view(l->t, &of, out, error);
}

/* OUTER, which means the left side, becomes a plain column. */
static trn_status inward(spark_translator *t, const trn_expr *expr, const trn_expr **out, trn_error **error) {
  *out = expr;
  if (expr->kind == TRN_EXPR_OUTER) {
    trn_column column = {.id = expr->u.column, .type = expr->type, .nullable = expr->nullable};
    *out = trn__expr_column(t->arena, &column);
    return *out ? TRN_OK : trn__no_memory(error);
  }
  if (expr->arg_count == 0) return TRN_OK;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, expr->arg_count);
  if (!args) return trn__no_memory(error);
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  for (uint32_t i = 0; i < expr->arg_count && status == TRN_OK; i++) status = inward(t, expr->args[i], &args[i], error);
  spark__leave(t);
  return status == TRN_OK ? spark__expr_with_args(t, expr, args, out, error) : status;
}

/* Whether the relation is one projection of a single row of nothing. */
static bool is_computed(const trn_rel *rel) {
  if (rel->kind != TRN_REL_PROJECT) return false;
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (spark__expr_contains(rel->exprs[i], TRN_EXPR_SUBQUERY)) return false;
  const trn_rel *input = rel->inputs[0];
  return input->kind == TRN_REL_VALUES && input->u.values.row_count == 1 && input->column_count == 0;
}

static bool is_one_row(const trn_rel *rel) {
  while (rel->kind == TRN_REL_PROJECT) rel = rel->inputs[0];
  return rel->kind == TRN_REL_AGGREGATE && rel->u.aggregate.group_count == 0 && rel->u.aggregate.set_count == 0;
}

static trn_status scalar(spark_translator *t, const trn_rel *rel, uint32_t index, const trn_expr **out,
                         trn_error **error) {
  const trn_expr *column = trn__expr_column(t->arena, &rel->columns[index]);
  const trn_rel *one = column ? trn__rel_project(t->arena, rel, &column, &rel->columns[index], 1) : NULL;
  trn_expr *expr = one ? trn__expr_create(t->arena, TRN_EXPR_SUBQUERY, column->type, true, NULL, 0) : NULL;
  if (!expr) return trn__no_memory(error);
  expr->u.subquery.kind = TRN_SUBQUERY_SCALAR;
  expr->u.subquery.rel = one;
  *out = expr;
  return TRN_OK;
}

/* Left's columns and, for each row, what the right side makes of it. */
static trn_status as_projection(lateral *l, const spark_relation *right, spark_relation *out, bool *done,
                                trn_error **error) {
  spark_translator *t = l->t;
  const trn_rel *rel = NULL;
  spark_value *values = NULL, *made = NULL;
  size_t count = 0, made_count = 0;
  trn_status status = spark__materialize(t, right, &rel, error);
  *done = status != TRN_OK || is_computed(rel) || is_one_row(rel);
  if (!*done) return TRN_OK;
  if (status == TRN_OK) status = spark__scope_values(t, l->left.scope, &values, &count, error);
  if (status == TRN_OK) status = spark__scope_values(t, right->scope, &made, &made_count, error);
  if (status != TRN_OK) return status;
  spark_value *all = TRN_NEW_N(t->arena, spark_value, count + made_count);
  if (!all) return trn__no_memory(error);
  if (count) memcpy(all, values, count * sizeof *all);
  for (size_t i = 0; i < made_count && status == TRN_OK; i++) {
    all[count + i] = made[i];
    if (is_computed(rel))
      status = inward(t, rel->exprs[i], &all[count + i].expr, error);
    else
      status = scalar(t, rel, (uint32_t)i, &all[count + i].expr, error);
  }
  return status == TRN_OK ? spark__project(t, &l->left, all, count + made_count, NULL, out, error) : status;
}

/* Whether anything in the relation is a column of the left side. */
typedef struct outer_search {
  spark_translator *t;
  const spark_scope *scope;
  bool found;
} outer_search;

static trn_walk search_outer(void *user, const trn_expr *expr, const trn_rel *holder) {
  outer_search *search = user;
  (void)holder;
  if (expr->kind != TRN_EXPR_OUTER || !spark__scope_has(search->t, search->scope, expr->u.column)) return TRN_WALK_ON;
  search->found = true;
  return TRN_WALK_STOP;
}

/* Filters that compare both sides over a relation that knows only its own: the join's condition. */
static trn_status as_join(lateral *l, const spark_relation *right, bool outer, spark_relation *out, bool *done,
                          trn_error **error) {
  spark_translator *t = l->t;
  spark_relation plain = *right;
  spark_value condition = {0};
  outer_search search = {.t = t, .scope = l->left.scope};
  trn_visitor visitor = {.expr = search_outer, .user = &search};
  trn_status status = TRN_OK;
  *done = false;
  for (; plain.rel->kind == TRN_REL_FILTER && status == TRN_OK; plain.rel = plain.rel->inputs[0]) {
    spark_value pair[2] = {condition, {.name = ""}};
    if (spark__expr_contains(plain.rel->exprs[0], TRN_EXPR_SUBQUERY)) return TRN_OK;
    status = inward(t, plain.rel->exprs[0], &pair[1].expr, error);
    if (!condition.expr)
      condition = pair[1];
    else if (status == TRN_OK)
      status = spark__call_by_name(t, "and", pair, 2, NOWHERE, &condition, error);
  }
  if (status != TRN_OK) return status;
  status = trn__plan_walk(plain.rel, &visitor);
  if (search.found) return TRN_OK;
  if (status != TRN_OK) return trn_error_set(error, status, NULL, "A lateral join is nested too deep.");
  *done = true;
  if (outer && !condition.expr) condition.expr = trn__expr_bool(t->arena, true);
  if (outer && !condition.expr) return trn__no_memory(error);
  return spark__join_relations(t, outer ? TRN_JOIN_LEFT : TRN_JOIN_INNER, condition.expr, &l->left, &plain, out, error);
}

static bool is_true(const Spark__Connect__Expression *e) {
  return !e || (e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL &&
                e->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BOOLEAN &&
                e->literal->boolean);
}

/* The join as it is, ON the condition. */
static trn_status as_dependent(lateral *l, const spark_relation *right, trn_join_type type,
                               const Spark__Connect__Expression *on, spark_relation *out, trn_error **error) {
  spark_translator *t = l->t;
  spark_relation both;
  spark_context context;
  spark_value value;
  const trn_expr *condition = NULL;
  trn_status status = spark__join_relations(t, TRN_JOIN_INNER, NULL, &l->left, right, &both, error);
  if (status == TRN_OK && !is_true(on)) {
    spark__context_begin(t, &context, both.scope);
    status = spark__expression(t, on, &value, error);
    spark__context_end(t, &context);
    if (status == TRN_OK)
      status =
          spark__boolean(t, &value, "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE", spark__position(t, on), &condition, error);
  }
  if (status == TRN_OK && type == TRN_JOIN_LEFT && !condition && !(condition = trn__expr_bool(t->arena, true)))
    status = trn__no_memory(error);
  return status == TRN_OK ? spark__join_relations(t, type, condition, &l->left, right, out, error) : status;
}

/* The right side, whatever it is, joined. */
static trn_status as_query(lateral *l, const Spark__Connect__LateralJoin *node, bool left, spark_relation *out,
                           trn_error **error) {
  spark_translator *t = l->t;
  spark_relation right;
  spark_context context;
  bool done = false, plain = is_true(node->join_condition);
  trn_status status = spark__relation(t, node->left, &l->left, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, l->left.scope);
  status = spark__relation(t, node->right, &right, error);
  spark__context_end(t, &context);
  if (status == TRN_OK && (plain || !left)) status = as_join(l, &right, left, out, &done, error);
  if (status == TRN_OK && !done && (plain || !left)) status = as_projection(l, &right, out, &done, error);
  if (status == TRN_OK && !done)
    return as_dependent(l, &right, left ? TRN_JOIN_LEFT : TRN_JOIN_INNER, node->join_condition, out, error);
  if (status != TRN_OK || plain) return status;
  out->scope->below = NULL;
  return spark__filter_by(t, out, node->join_condition, error);
}

trn_status spark__relation_lateral_join(spark_translator *t, const Spark__Connect__LateralJoin *node,
                                        spark_relation *out, trn_error **error) {
  lateral l = {.t = t};
  bool inner = node->join_type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER ||
               node->join_type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_CROSS;
  bool left = node->join_type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_OUTER,
       plain = is_true(node->join_condition);
  if (!inner && !left) return spark__unimplemented(t, NOWHERE, error, "A lateral join of this type");
  const Spark__Connect__UnresolvedTableValuedFunction *function = function_of(&l, node->right);
  if (!function || (left && !plain)) return as_query(&l, node, left, out, error);
  trn_status status = as_view(&l, node, function, out, error);
  if (status != TRN_OK || plain) return status;
  out->scope->below = NULL;
  return spark__filter_by(t, out, node->join_condition, error);
}
