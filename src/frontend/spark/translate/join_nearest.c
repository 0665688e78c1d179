/* Joins of each left row with the right rows that come first by a rank: as-of joins and nearest-by joins. A left join
 * on the condition, then the first rows for each left row. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};

typedef struct nearest {
  spark_translator *t;
  spark_relation left, right, both; /* both: an inner join, for its scope */
  const trn_expr *row, *matched;    /* columns that are not shown: number of the left row; true */
  spark_value condition, rank;      /* condition.expr NULL: none */
  bool descending, outer;
  int32_t count;
} nearest;

/* Numbers the left rows and marks the right ones, below what they show. */
static trn_status prepare(nearest *n, trn_error **error) {
  spark_translator *t = n->t;
  spark_value number;
  trn_status status = spark__sequence_id(t, &number, error);
  n->row = number.expr;
  if (status == TRN_OK) status = spark__lift_windows(t, &n->left.rel, &n->row, 1, error);
  if (status != TRN_OK) return status;
  const trn_rel *left = n->left.rel, *right = n->right.rel;
  for (int side = 0; side < 2; side++) {
    const trn_rel *input = side ? right : left;
    const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, (size_t)input->column_count + 1);
    trn_column *columns = TRN_NEW_N(t->arena, trn_column, (size_t)input->column_count + 1);
    if (!exprs || !columns) return trn__no_memory(error);
    for (uint32_t i = 0; i < input->column_count; i++) {
      exprs[i] = trn__expr_column(t->arena, &input->columns[i]);
      columns[i] = input->columns[i];
      if (!exprs[i]) return trn__no_memory(error);
    }
    const trn_expr *added = side ? trn__expr_bool(t->arena, true) : n->row;
    if (!added) return trn__no_memory(error);
    trn_column *column = &columns[input->column_count];
    *column = (trn_column){.id = t->next_column++, .type = added->type, .nullable = side || added->nullable};
    exprs[input->column_count] = added;
    const trn_rel *rel = trn__rel_project(t->arena, input, exprs, columns, (size_t)input->column_count + 1);
    const trn_expr *shown = trn__expr_column(t->arena, column);
    if (!rel || !shown) return trn__no_memory(error);
    *(side ? &n->right.rel : &n->left.rel) = rel;
    *(side ? &n->matched : &n->row) = shown;
  }
  return spark__join_relations(t, TRN_JOIN_INNER, NULL, &n->left, &n->right, &n->both, error);
}

static void both_begin(nearest *n, spark_context *context) {
  spark__context_begin(n->t, context, n->both.scope);
  context->inputs[0] = n->left.scope;
  context->inputs[1] = n->right.scope;
  context->input_count = 2;
}

static trn_status and_also(nearest *n, const spark_value *other, trn_error **error) {
  if (!n->condition.expr) {
    n->condition = *other;
    return TRN_OK;
  }
  spark_value pair[2] = {n->condition, *other};
  return spark__call_by_name(n->t, "and", pair, 2, NOWHERE, &n->condition, error);
}

/* row_number() OVER (PARTITION BY the left row ORDER BY the rank) <= count. */
static trn_status keep_first(nearest *n, spark_relation *relation, trn_error **error) {
  spark_translator *t = n->t;
  spark_value number, rank, branch[2] = {{.expr = n->matched, .name = ""}, n->rank};
  trn_status status = spark__call_by_name(t, "row_number", NULL, 0, NOWHERE, &number, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "when", branch, 2, NOWHERE, &rank, error);
  if (status != TRN_OK) return status;
  const trn_expr *args[3] = {number.expr, n->row, rank.expr};
  trn_sort_flags *flags = TRN_NEW(t->arena, trn_sort_flags);
  trn_expr *window = trn__expr_create(t->arena, TRN_EXPR_WINDOW, number.expr->type, false, args, 3);
  if (!flags || !window) return trn__no_memory(error);
  *flags = (trn_sort_flags){.descending = n->descending, .nulls_first = !n->descending};
  window->u.window.partition_count = window->u.window.order_count = 1;
  window->u.window.order_flags = flags;
  window->u.window.unit = TRN_FRAME_ROWS;
  window->u.window.start_kind = TRN_BOUND_UNBOUNDED_PRECEDING;
  window->u.window.end_kind = TRN_BOUND_CURRENT_ROW;
  spark_value pair[2] = {{.expr = window, .name = ""}, {.name = "", .is_foldable = true}}, found = branch[0], kept;
  status = spark__lift_windows(t, &relation->rel, &pair[0].expr, 1, error);
  pair[1].expr = trn__expr_int(t->arena, pair[0].expr->type, n->count);
  if (!pair[1].expr) return trn__no_memory(error);
  if (status == TRN_OK) status = spark__call_by_name(t, "<=", pair, 2, NOWHERE, &kept, error);
  if (status == TRN_OK && !n->outer) {
    status = spark__call_by_name(t, "isnotnull", &found, 1, NOWHERE, &pair[0], error);
    pair[1] = kept;
    if (status == TRN_OK) status = spark__call_by_name(t, "and", pair, 2, NOWHERE, &kept, error);
  }
  if (status != TRN_OK) return status;
  relation->rel = trn__rel_filter(t->arena, relation->rel, kept.expr);
  return relation->rel ? TRN_OK : trn__no_memory(error);
}

static trn_status join_nearest(nearest *n, spark_relation *out, trn_error **error) {
  spark_value ranked;
  trn_status status = spark__call_by_name(n->t, "isnotnull", &n->rank, 1, NOWHERE, &ranked, error);
  if (status == TRN_OK) status = and_also(n, &ranked, error);
  if (status == TRN_OK)
    status = spark__join_relations(n->t, TRN_JOIN_LEFT, n->condition.expr, &n->left, &n->right, out, error);
  return status == TRN_OK ? keep_first(n, out, error) : status;
}

static trn_status join_type(nearest *n, const char *type, const char *what, trn_error **error) {
  bool inner = !type || !*type || strcasecmp(type, "inner") == 0;
  n->outer = !inner;
  if (inner || strcasecmp(type, "left") == 0 || strcasecmp(type, "leftouter") == 0 ||
      strcasecmp(type, "left_outer") == 0)
    return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: Unsupported %s join type %s", what,
                       type);
}

/* ---- nearest-by ---- */
trn_status spark__relation_nearest_by(spark_translator *t, const Spark__Connect__NearestByJoin *node,
                                      spark_relation *out, trn_error **error) {
  nearest n = {.t = t, .count = node->num_results, .descending = strcasecmp(node->direction, "similarity") == 0};
  spark_context context;
  trn_status status = join_type(&n, node->join_type, "nearest-by", error);
  if (status != TRN_OK) return status;
  if (node->num_results < 1 || node->num_results > TRN_NEAREST_BY_RESULTS_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A nearest-by join gives between 1 and %d rows per row.",
                         TRN_NEAREST_BY_RESULTS_MAX);
  status = spark__relation(t, node->left, &n.left, error);
  if (status == TRN_OK) status = spark__relation(t, node->right, &n.right, error);
  if (status == TRN_OK) status = prepare(&n, error);
  if (status != TRN_OK) return status;
  both_begin(&n, &context);
  status = spark__expression(t, node->ranking_expression, &n.rank, error);
  spark__context_end(t, &context);
  return status == TRN_OK ? join_nearest(&n, out, error) : status;
}

/* ---- as-of ---- */
typedef struct as_of {
  nearest n;
  spark_value l, r, tolerance; /* tolerance.expr NULL: none */
  bool exact;
} as_of;

static trn_status call2(as_of *a, const char *name, const spark_value *x, const spark_value *y, spark_value *out,
                        trn_error **error) {
  const spark_value pair[2] = {*x, *y};
  return spark__call_by_name(a->n.t, name, pair, 2, NOWHERE, out, error);
}

static trn_status compare(as_of *a, const char *name, const spark_value *x, const spark_value *y, trn_error **error) {
  spark_value made;
  trn_status status = call2(a, name, x, y, &made, error);
  return status == TRN_OK ? and_also(&a->n, &made, error) : status;
}

/* Right at least `left - tolerance` (before), at most `left + tolerance` (after). */
static trn_status within(as_of *a, bool before, trn_error **error) {
  spark_value bound;
  if (!a->tolerance.expr) return TRN_OK;
  trn_status status = call2(a, before ? "-" : "+", &a->l, &a->tolerance, &bound, error);
  return status == TRN_OK ? compare(a, before ? ">=" : "<=", &a->r, &bound, error) : status;
}

static trn_status directed(as_of *a, const char *direction, trn_error **error) {
  spark_value args[3];
  trn_status status;
  if (strcasecmp(direction, "backward") == 0) {
    status = compare(a, a->exact ? ">=" : ">", &a->l, &a->r, error);
    if (status == TRN_OK) status = within(a, true, error);
    return status == TRN_OK ? call2(a, "-", &a->l, &a->r, &a->n.rank, error) : status;
  }
  if (strcasecmp(direction, "forward") == 0) {
    status = compare(a, a->exact ? "<=" : "<", &a->l, &a->r, error);
    if (status == TRN_OK) status = within(a, false, error);
    return status == TRN_OK ? call2(a, "-", &a->r, &a->l, &a->n.rank, error) : status;
  }
  if (strcasecmp(direction, "nearest") != 0) {
    const char *text = trn__arena_printf(a->n.t->arena, "'%s'", direction);
    if (!text) return trn__no_memory(error);
    return spark__error(a->n.t, error, TRN_INVALID_ARGUMENT, "AS_OF_JOIN.UNSUPPORTED_DIRECTION", NOWHERE, "direction",
                        direction, "supported", "'forward', 'backward', 'nearest'", NULL);
  }
  status = a->exact ? TRN_OK : compare(a, "!=", &a->l, &a->r, error);
  if (status == TRN_OK) status = within(a, true, error);
  if (status == TRN_OK) status = within(a, false, error);
  if (status == TRN_OK) status = call2(a, ">", &a->l, &a->r, &args[0], error);
  if (status == TRN_OK) status = call2(a, "-", &a->l, &a->r, &args[1], error);
  if (status == TRN_OK) status = call2(a, "-", &a->r, &a->l, &args[2], error);
  return status == TRN_OK ? spark__call_by_name(a->n.t, "when", args, 3, NOWHERE, &a->n.rank, error) : status;
}

static trn_status one_side(as_of *a, const spark_scope *scope, const Spark__Connect__Expression *e, spark_value *out,
                           trn_error **error) {
  spark_context context;
  spark__context_begin(a->n.t, &context, scope);
  trn_status status = spark__expression(a->n.t, e, out, error);
  spark__context_end(a->n.t, &context);
  return status;
}

static bool is_negative(const trn_expr *e) {
  if (e->kind != TRN_EXPR_LITERAL || e->u.literal.is_null) return false;
  if (e->type->id == TRN_TYPE_FLOAT32 || e->type->id == TRN_TYPE_FLOAT64) return e->u.literal.value.number < 0;
  if (e->type->id == TRN_TYPE_DECIMAL) return e->u.literal.value.decimal.high < 0;
  return (trn__type_is_integer(e->type) || spark__is_interval(e->type)) && e->u.literal.value.integer < 0;
}

static trn_status as_of_parts(as_of *a, const Spark__Connect__AsOfJoin *node, trn_error **error) {
  spark_translator *t = a->n.t;
  spark_context context;
  spark_value *l = NULL, *r = NULL;
  trn_status status = one_side(a, a->n.left.scope, node->left_as_of, &a->l, error);
  if (status == TRN_OK) status = one_side(a, a->n.right.scope, node->right_as_of, &a->r, error);
  if (status == TRN_OK && node->tolerance) status = one_side(a, NULL, node->tolerance, &a->tolerance, error);
  if (status == TRN_OK && a->tolerance.expr && is_negative(a->tolerance.expr))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "AS_OF_JOIN.TOLERANCE_IS_NON_NEGATIVE", NOWHERE, NULL);
  size_t keys = node->n_using_columns;
  if (status == TRN_OK) status = spark__named_values(t, a->n.left.scope, node->using_columns, keys, &l, error);
  if (status == TRN_OK) status = spark__named_values(t, a->n.right.scope, node->using_columns, keys, &r, error);
  for (size_t i = 0; i < keys && status == TRN_OK; i++) status = compare(a, "==", &l[i], &r[i], error);
  if (status != TRN_OK || keys || !node->join_expr) return status;
  both_begin(&a->n, &context);
  spark_value condition;
  status = spark__expression(t, node->join_expr, &condition, error);
  spark__context_end(t, &context);
  return status == TRN_OK ? and_also(&a->n, &condition, error) : status;
}

trn_status spark__relation_as_of(spark_translator *t, const Spark__Connect__AsOfJoin *node, spark_relation *out,
                                 trn_error **error) {
  as_of a = {.n = {.t = t, .count = 1}, .exact = node->allow_exact_matches};
  trn_status status = join_type(&a.n, node->join_type, "as-of", error);
  if (status == TRN_OK) status = spark__relation(t, node->left, &a.n.left, error);
  if (status == TRN_OK) status = spark__relation(t, node->right, &a.n.right, error);
  if (status == TRN_OK) status = prepare(&a.n, error);
  if (status == TRN_OK) status = as_of_parts(&a, node, error);
  if (status == TRN_OK) status = directed(&a, node->direction, error);
  return status == TRN_OK ? join_nearest(&a.n, out, error) : status;
}
