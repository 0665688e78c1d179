/* Subqueries as expressions, and windows. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>
#include <strings.h>

typedef Spark__Connect__Expression expression;
static const trn_position NOWHERE = {-1, -1};

/* ---- subqueries ---- */
static trn_status length_mismatch(spark_translator *t, const spark_value *values, size_t count,
                                  const spark_scope *scope, trn_position position, trn_error **error) {
  char left[24], right[24];
  trn_strbuf left_columns = {0}, right_columns = {0};
  snprintf(left, sizeof left, "%zu", count);
  snprintf(right, sizeof right, "%zu", spark__visible_count(scope));
  for (size_t i = 0; i < count; i++)
    trn__strbuf_printf(&left_columns, "%s\"%s\"", i ? ", " : "", values[i].name ? values[i].name : "");
  for (uint32_t i = 0; i < scope->count; i++)
    if (!scope->columns[i].hidden)
      trn__strbuf_printf(&right_columns, "%s\"%s\"", right_columns.size ? ", " : "", scope->columns[i].name);
  const char *left_text = spark__finish_text(t, &left_columns);
  const char *right_text = right_columns.size ? spark__finish_text(t, &right_columns) : "";
  if (!left_text || !right_text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.IN_SUBQUERY_LENGTH_MISMATCH", position,
                      "sqlExpr", "\"in\"", "leftLength", left, "leftColumns", left_text, "rightLength", right,
                      "rightColumns", right_text, NULL);
}

/* ---- what of the place around it a subquery uses ---- */
typedef struct outer_names {
  spark_translator *t;
  const spark_scope *scope;
  trn_strbuf text;
  trn_vec seen;
  bool any;
} outer_names;

static trn_walk note_outer(void *user, const trn_expr *expr, const trn_rel *holder) {
  outer_names *names = user;
  (void)holder;
  if (expr->kind != TRN_EXPR_OUTER) return TRN_WALK_ON;
  const spark_column *column = spark__scope_column(names->t, names->scope, expr->u.column);
  if (!column) return TRN_WALK_ON;
  names->any = true; /* each time that it is used, as Spark lists them */
  if (!trn__vec_push(&names->seen, (void *)column)) return TRN_WALK_STOP;
  trn__strbuf_printf(&names->text, "%s%s", names->seen.count > 1 ? ", " : "", column->name);
  return TRN_WALK_ON;
}

/* Gives the columns of the context that `rel` uses, as generated names list them: "a, b". */
static trn_status outer_text(spark_translator *t, const trn_rel *rel, const char **out, trn_error **error) {
  const spark_context *context = spark__state(t)->context;
  outer_names names = {.t = t, .scope = context ? context->scope : NULL};
  trn_visitor visitor = {.expr = note_outer, .user = &names};
  trn_status status = names.scope ? trn__plan_walk(rel, &visitor) : TRN_OK;
  trn__vec_finish(&names.seen);
  if (status != TRN_OK) { /* the visitor stops when there is no memory */
    trn__strbuf_finish(&names.text);
    return status == TRN_CANCELLED
               ? trn__no_memory(error)
               : trn_error_set(error, status, NULL, "A subquery is nested too deep, or there is no memory for it.");
  }
  *out = names.any ? spark__finish_text(t, &names.text) : "";
  return *out ? TRN_OK : trn__no_memory(error);
}

typedef struct subquery_search {
  spark_translator *t;
  const spark_scope *scope;
  bool no_memory;
} subquery_search;

static bool is_correlated_scalar(void *user, const trn_expr *expr) {
  subquery_search *search = user;
  if (expr->kind != TRN_EXPR_SUBQUERY || expr->u.subquery.kind != TRN_SUBQUERY_SCALAR) return false;
  outer_names names = {.t = search->t, .scope = search->scope};
  trn_visitor visitor = {.expr = note_outer, .user = &names};
  search->no_memory |= trn__plan_walk(expr->u.subquery.rel, &visitor) != TRN_OK;
  trn__vec_finish(&names.seen);
  trn__strbuf_finish(&names.text);
  return names.any;
}

static bool is_predicate_subquery(void *user, const trn_expr *expr) {
  (void)user;
  return expr->kind == TRN_EXPR_SUBQUERY && expr->u.subquery.kind != TRN_SUBQUERY_SCALAR;
}

/* Correlated scalar subqueries, and EXISTS and IN, do not stand everywhere. */
trn_status spark__refuse_subqueries(spark_translator *t, const trn_expr *expr, const spark_scope *scope,
                                    trn_error **error) {
  subquery_search search = {.t = t, .scope = scope};
  const trn_expr *found = spark__expr_find(expr, is_correlated_scalar, &search);
  if (search.no_memory) return trn__no_memory(error);
  if (found)
    return spark__error(t, error, TRN_INVALID_ARGUMENT,
                        "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY",
                        found->position, "treeNode", "", NULL);
  found = spark__expr_find(expr, is_predicate_subquery, NULL);
  if (!found) return TRN_OK;
  return spark__error(t, error, TRN_INVALID_ARGUMENT,
                      "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY", found->position,
                      "treeNode", "", NULL);
}

/* Both sides of IN get their common types. */
static trn_status align_in(spark_translator *t, const spark_value *values, size_t count, const trn_expr **args,
                           const trn_rel **rel, trn_position position, trn_error **error) {
  const trn_rel *input = *rel;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  bool changed = false;
  if (!exprs || !columns) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const trn_type *types[2] = {values[i].expr->type, input->columns[i].type}, *common = NULL;
    trn_status status = spark__common_type(t, types, 2, &common);
    if (status != TRN_OK) return trn__no_memory(error);
    if (!common) {
      const char *left = spark__quoted_type(t, types[0]), *right = spark__quoted_type(t, types[1]);
      if (!left || !right) return trn__no_memory(error);
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.IN_SUBQUERY_DATA_TYPE_MISMATCH", position,
                          "sqlExpr", "\"in\"", "mismatchedColumns", "", "leftType", left, "rightType", right, NULL);
    }
    status = spark__cast(t, values[i].expr, common, SPARK_CAST_IMPLICIT, position, &args[i], error);
    exprs[i] = trn__expr_column(t->arena, &input->columns[i]);
    if (status == TRN_OK && !exprs[i]) status = trn__no_memory(error);
    if (status == TRN_OK) status = spark__cast(t, exprs[i], common, SPARK_CAST_IMPLICIT, position, &exprs[i], error);
    if (status != TRN_OK) return status;
    columns[i] = input->columns[i];
    if (exprs[i]->kind == TRN_EXPR_COLUMN) continue;
    columns[i] = (trn_column){.id = t->next_column++, .type = exprs[i]->type, .nullable = exprs[i]->nullable};
    changed = true;
  }
  if (!changed) return TRN_OK;
  *rel = trn__rel_project(t->arena, input, exprs, columns, count);
  return *rel ? TRN_OK : trn__no_memory(error);
}

static trn_status name_in(spark_translator *t, const spark_value *values, size_t count, const char *outer,
                          spark_value *out, trn_error **error) {
  trn_strbuf name = {0};
  trn__strbuf_puts(&name, count > 1 ? "(named_struct(" : "(");
  for (size_t i = 0; i < count; i++)
    trn__strbuf_printf(&name, "%s%s", i ? ", " : "", values[i].name ? values[i].name : "");
  trn__strbuf_printf(&name, "%s IN (listquery(%s)))", count > 1 ? ")" : "", outer);
  out->name = spark__finish_text(t, &name);
  return out->name ? TRN_OK : trn__no_memory(error);
}

static trn_status subquery_over(spark_translator *t, Spark__Connect__TrnSubqueryKind kind, const spark_relation *inner,
                                const spark_value *values, size_t count, trn_position position, spark_value *out,
                                trn_error **error) {
  const trn_rel *rel = NULL;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, count);
  const trn_type *type = trn__type(TRN_TYPE_BOOL);
  bool nullable = false;
  trn_status status = spark__materialize(t, inner, &rel, error);
  *out = (spark_value){0};
  if (status != TRN_OK) return status;
  if (!args) return trn__no_memory(error);
  uint8_t plan_kind = TRN_SUBQUERY_EXISTS;
  const char *outer = "";
  status = outer_text(t, rel, &outer, error);
  if (status != TRN_OK) return status;
  if (kind == SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_SCALAR) {
    char number[24];
    snprintf(number, sizeof number, "%u", rel->column_count);
    if (rel->column_count != 1)
      return spark__error(t, error, TRN_INVALID_ARGUMENT,
                          "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN", position,
                          "number", number, NULL);
    plan_kind = TRN_SUBQUERY_SCALAR;
    type = rel->columns[0].type;
    nullable = true;
    out->name = trn__arena_printf(t->arena, "scalarsubquery(%s)", outer);
  } else if (kind == SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_IN) {
    if (count != rel->column_count) return length_mismatch(t, values, count, inner->scope, position, error);
    plan_kind = TRN_SUBQUERY_IN;
    status = align_in(t, values, count, args, &rel, position, error);
    if (status == TRN_OK) status = name_in(t, values, count, outer, out, error);
    for (size_t i = 0; i < count && status == TRN_OK; i++) nullable |= args[i]->nullable || rel->columns[i].nullable;
    if (status != TRN_OK) return status;
  } else {
    out->name = trn__arena_printf(t->arena, "exists(%s)", outer);
    count = 0;
  }
  if (plan_kind == TRN_SUBQUERY_SCALAR) count = 0;
  trn_expr *expr = trn__expr_create(t->arena, TRN_EXPR_SUBQUERY, type, nullable, args, count);
  if (!expr || !out->name) return trn__no_memory(error);
  expr->u.subquery.kind = plan_kind;
  expr->u.subquery.rel = rel;
  expr->position = position;
  out->expr = expr;
  return TRN_OK;
}

trn_status spark__subquery(spark_translator *t, Spark__Connect__TrnSubqueryKind kind,
                           const Spark__Connect__Relation *relation, expression *const *in_values, size_t value_count,
                           trn_position position, spark_value *out, trn_error **error) {
  spark_state *state = spark__state(t);
  const spark_plan_id *mark = state->last_plan;
  spark_value *values = NULL;
  size_t count = 0;
  spark_relation inner;
  trn_status status = spark__expressions(t, in_values, value_count, &values, &count, error);
  /* Inside, names that the subquery has not are looked up where it stands; state->context is that place. An aggregate
   * function around the subquery is not one around its inside. */
  unsigned before = state->context ? state->context->in_aggregate : 0;
  if (state->context) state->context->in_aggregate = 0;
  if (status == TRN_OK) status = spark__relation(t, relation, &inner, error);
  if (state->context) state->context->in_aggregate = before;
  spark__plan_id_forget(t, mark);
  if (status == TRN_OK) status = subquery_over(t, kind, &inner, values, count, position, out, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) out->has_aggregate |= values[i].has_aggregate;
  return status;
}

/* ---- windows ---- */
typedef struct frame_text {
  const char *start, *end;
} frame_text;

static bool is_negated(const expression *e) {
  return e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION &&
         e->unresolved_function->n_arguments == 1 && e->unresolved_function->function_name &&
         strcmp(e->unresolved_function->function_name, "negative") == 0;
}

static bool negative_value(const trn_expr *literal) {
  if (literal->type->id == TRN_TYPE_DECIMAL) return literal->u.literal.value.decimal.high < 0;
  if (literal->type->id == TRN_TYPE_FLOAT64 || literal->type->id == TRN_TYPE_FLOAT32)
    return literal->u.literal.value.number < 0;
  if (literal->type->id == TRN_TYPE_INTERVAL_CALENDAR)
    return literal->u.literal.value.interval.months < 0 || literal->u.literal.value.interval.days < 0 ||
           literal->u.literal.value.interval.nanos < 0;
  return literal->u.literal.value.integer < 0;
}

static const trn_expr *absolute(spark_translator *t, const trn_expr *literal) {
  trn_expr *copy = trn__expr_create(t->arena, TRN_EXPR_LITERAL, literal->type, false, NULL, 0);
  if (!copy) return NULL;
  copy->u = literal->u;
  switch ((trn_type_id)literal->type->id) {
  case TRN_TYPE_DECIMAL: {
    copy->u.literal.value.decimal.low = ~literal->u.literal.value.decimal.low + 1;
    copy->u.literal.value.decimal.high =
        (int64_t)(~(uint64_t)literal->u.literal.value.decimal.high + (copy->u.literal.value.decimal.low == 0));
    break;
  }
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: copy->u.literal.value.number = -literal->u.literal.value.number; break;
  case TRN_TYPE_INTERVAL_CALENDAR:
    copy->u.literal.value.interval.months = (int32_t)(0 - (uint32_t)literal->u.literal.value.interval.months);
    copy->u.literal.value.interval.days = (int32_t)(0 - (uint32_t)literal->u.literal.value.interval.days);
    copy->u.literal.value.interval.nanos = (int64_t)(0 - (uint64_t)literal->u.literal.value.interval.nanos);
    break;
  default: copy->u.literal.value.integer = (int64_t)(0 - (uint64_t)literal->u.literal.value.integer);
  }
  return copy;
}

/* A boundary's value: a literal, whose sign says on which side of the row it is. */
static trn_status bound_value(spark_translator *t, const expression *e, const trn_type *order_type, bool lower,
                              uint8_t *kind, const trn_expr **out, const char **text, trn_error **error) {
  bool negated = is_negated(e);
  spark_value value;
  const expression *inner = negated ? e->unresolved_function->arguments[0] : e;
  trn_status status = spark__expression(t, inner, &value, error);
  if (status != TRN_OK) return status;
  if (value.expr->kind != TRN_EXPR_LITERAL || value.expr->u.literal.is_null) {
    const char *shown = spark__sql_text(t, value.name);
    if (!shown) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.SPECIFIED_WINDOW_FRAME_WITHOUT_FOLDABLE",
                        spark__position(t, e), "sqlExpr", shown, "location", lower ? "lower" : "upper", "expression",
                        shown, NULL);
  }
  const trn_expr *literal = value.expr;
  if (order_type && trn__type_is_numeric(order_type) && !trn__type_is_numeric(literal->type)) {
    const char *given = spark__quoted_type(t, literal->type), *wanted = spark__quoted_type(t, order_type);
    if (!given || !wanted) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.RANGE_FRAME_INVALID_TYPE",
                        spark__position(t, e), "sqlExpr", "\"window\"", "orderSpecType", wanted, "valueBoundaryType",
                        given, NULL);
  }
  if (order_type && trn__type_is_numeric(order_type) && !trn__type_equal(order_type, literal->type))
    status = spark__cast(t, literal, order_type, SPARK_CAST_IMPLICIT, spark__position(t, e), &literal, error);
  if (status != TRN_OK) return status;
  bool minus = negated;
  if (literal->kind == TRN_EXPR_LITERAL && negative_value(literal)) {
    minus = !minus;
    literal = absolute(t, literal);
    if (!literal) return trn__no_memory(error);
  }
  *kind = minus ? TRN_BOUND_PRECEDING : TRN_BOUND_FOLLOWING;
  *out = literal;
  /* SQL's "1 PRECEDING" comes as -1, which a DataFrame's -1 is not called. */
  const char *shown = value.name ? value.name : "";
  bool sql = !negated && shown[0] == '-' && spark__position(t, e).start >= 0;
  *text = trn__arena_printf(t->arena, "%s %s", sql ? shown + 1 : shown, negated || sql ? "PRECEDING" : "FOLLOWING");
  return *text ? TRN_OK : trn__no_memory(error);
}

static trn_status bound(spark_translator *t, const Spark__Connect__Expression__Window__WindowFrame__FrameBoundary *b,
                        const trn_type *order_type, bool lower, uint8_t *kind, const trn_expr **out, const char **text,
                        trn_error **error) {
  *out = NULL;
  switch ((int)(b ? b->boundary_case : 0)) {
  case SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_CURRENT_ROW:
    *kind = TRN_BOUND_CURRENT_ROW;
    *text = "CURRENT ROW";
    return TRN_OK;
  case SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_UNBOUNDED:
    *kind = lower ? TRN_BOUND_UNBOUNDED_PRECEDING : TRN_BOUND_UNBOUNDED_FOLLOWING;
    *text = lower ? "UNBOUNDED PRECEDING" : "UNBOUNDED FOLLOWING";
    return TRN_OK;
  case SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_VALUE:
    return bound_value(t, b->value, order_type, lower, kind, out, text, error);
  default:
    return spark__error(t, error, TRN_INVALID_ARGUMENT,
                        lower ? "CONNECT_INVALID_PLAN.LOWER_BOUND_REQUIRED_IN_WINDOW_FRAME"
                              : "CONNECT_INVALID_PLAN.UPPER_BOUND_REQUIRED_IN_WINDOW_FRAME",
                        NOWHERE, NULL);
  }
}

typedef struct window_parts {
  const Spark__Connect__Expression__Window *spec;
  spark_value function, *partitions, *orders;
  trn_sort_flags *flags;
  uint8_t unit, start_kind, end_kind;
  const trn_expr *start, *end;
  frame_text text;
} window_parts;

static trn_status range_frame_errors(spark_translator *t, const window_parts *w, trn_position position,
                                     trn_error **error) {
  bool valued = w->start || w->end;
  if (w->unit != TRN_FRAME_RANGE) return TRN_OK;
  if (w->spec->n_order_spec == 0 &&
      (valued || w->start_kind == TRN_BOUND_CURRENT_ROW || w->end_kind == TRN_BOUND_CURRENT_ROW))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.RANGE_FRAME_WITHOUT_ORDER", position,
                        "sqlExpr", "\"window\"", NULL);
  if (valued && w->spec->n_order_spec > 1)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.RANGE_FRAME_MULTI_ORDER", position,
                        "sqlExpr", "\"window\"", "orderSpec", "", NULL);
  return TRN_OK;
}

/* lag and lead have no frame; their names show the offset as one. */
static trn_status offset_frame(spark_translator *t, window_parts *w, bool backward, trn_error **error) {
  const trn_expr *call = w->function.expr;
  bool constant = call->arg_count > 1 && call->args[1]->kind == TRN_EXPR_LITERAL && !call->args[1]->u.literal.is_null;
  long long offset = constant && trn__type_is_integer(call->args[1]->type) ? call->args[1]->u.literal.value.integer : 1;
  w->text.start = trn__arena_printf(t->arena, "%lld FOLLOWING", backward ? -offset : offset);
  w->text.end = w->text.start;
  return w->text.start ? TRN_OK : trn__no_memory(error);
}

static trn_status frame(spark_translator *t, window_parts *w, trn_position position, trn_error **error) {
  const Spark__Connect__Expression__Window__WindowFrame *spec = w->spec->frame_spec;
  bool ordered = w->spec->n_order_spec > 0, ranking = w->function.is_window_function;
  const char *name = w->function.expr->kind == TRN_EXPR_CALL ? w->function.expr->u.call.name : "";
  bool is_plugins = ranking && w->function.expr->u.call.home == TRN_HOME_LIBRARY;
  bool by_range = is_plugins || strcmp(name, "cume_dist") == 0 || strcmp(name, "nth_value") == 0;
  w->start_kind = TRN_BOUND_UNBOUNDED_PRECEDING;
  w->end_kind = ordered ? TRN_BOUND_CURRENT_ROW : TRN_BOUND_UNBOUNDED_FOLLOWING;
  w->unit = ordered && (!ranking || by_range) ? TRN_FRAME_RANGE : TRN_FRAME_ROWS;
  w->text = (frame_text){"UNBOUNDED PRECEDING", ordered ? "CURRENT ROW" : "UNBOUNDED FOLLOWING"};
  if (ranking && !ordered)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "WINDOW_FUNCTION_FRAME_NOT_ORDERED", position, "wf_name",
                        w->function.name ? w->function.name : "", "wf_expr", w->function.name ? w->function.name : "",
                        NULL);
  if (strcmp(name, "lag") == 0 || strcmp(name, "lead") == 0) return offset_frame(t, w, name[1] == 'a', error);
  if (!spec) return TRN_OK;
  w->unit = spec->frame_type == SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_TYPE__FRAME_TYPE_ROW
                ? TRN_FRAME_ROWS
                : TRN_FRAME_RANGE;
  const trn_type *order_type = w->unit == TRN_FRAME_RANGE && ordered ? w->orders[0].expr->type : NULL;
  trn_status status = bound(t, spec->lower, order_type, true, &w->start_kind, &w->start, &w->text.start, error);
  if (status == TRN_OK) status = bound(t, spec->upper, order_type, false, &w->end_kind, &w->end, &w->text.end, error);
  return status == TRN_OK ? range_frame_errors(t, w, position, error) : status;
}

/* RANGE over dates: by the number of days. Bounds with months stay: the engine knows those. */
static bool is_days(const trn_expr *bound) {
  if (!bound) return true;
  if (trn__type_is_integer(bound->type)) return true;
  return bound->type->id == TRN_TYPE_INTERVAL_DAY_TIME && bound->u.literal.value.integer % 86400000000 == 0;
}

static const trn_expr *days_of(spark_translator *t, const trn_expr *bound) {
  int64_t value = bound->u.literal.value.integer;
  if (bound->type->id == TRN_TYPE_INTERVAL_DAY_TIME) value /= 86400000000;
  return trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), value);
}

static trn_status range_of_dates(spark_translator *t, window_parts *w, trn_error **error) {
  if (w->unit != TRN_FRAME_RANGE || (!w->start && !w->end) || w->spec->n_order_spec != 1 ||
      w->orders[0].expr->type->id != TRN_TYPE_DATE || !is_days(w->start) || !is_days(w->end))
    return TRN_OK;
  spark_value days;
  trn_status status = spark__call_by_name(t, "unix_date", &w->orders[0], 1, NOWHERE, &days, error);
  if (status != TRN_OK) return status;
  w->orders[0].expr = days.expr; /* the name stays: it is shown */
  if (w->start && !(w->start = days_of(t, w->start))) return trn__no_memory(error);
  if (w->end && !(w->end = days_of(t, w->end))) return trn__no_memory(error);
  return TRN_OK;
}

static trn_status window_name(spark_translator *t, const window_parts *w, const char **out, trn_error **error) {
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "%s OVER (", w->function.name ? w->function.name : "");
  for (size_t i = 0; i < w->spec->n_partition_spec; i++)
    trn__strbuf_printf(&text, "%s%s", i ? ", " : "PARTITION BY ", w->partitions[i].name ? w->partitions[i].name : "");
  if (w->spec->n_partition_spec) trn__strbuf_putc(&text, ' ');
  for (size_t i = 0; i < w->spec->n_order_spec; i++)
    trn__strbuf_printf(&text, "%s%s %s NULLS %s", i ? ", " : "ORDER BY ", w->orders[i].name ? w->orders[i].name : "",
                       w->flags[i].descending ? "DESC" : "ASC", w->flags[i].nulls_first ? "FIRST" : "LAST");
  if (w->spec->n_order_spec) trn__strbuf_putc(&text, ' ');
  trn__strbuf_printf(&text, "%s BETWEEN %s AND %s)", w->unit == TRN_FRAME_ROWS ? "ROWS" : "RANGE", w->text.start,
                     w->text.end);
  *out = spark__finish_text(t, &text);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status window_parts_of(spark_translator *t, window_parts *w, const expression *function, trn_error **error) {
  size_t partitions = w->spec->n_partition_spec, orders = w->spec->n_order_spec;
  w->partitions = TRN_NEW_N(t->arena, spark_value, partitions);
  w->orders = TRN_NEW_N(t->arena, spark_value, orders);
  w->flags = TRN_NEW_N(t->arena, trn_sort_flags, orders);
  if (!w->partitions || !w->orders || !w->flags) return trn__no_memory(error);
  trn_status status = spark__expression(t, function, &w->function, error);
  for (size_t i = 0; i < partitions && status == TRN_OK; i++)
    status = spark__expression(t, w->spec->partition_spec[i], &w->partitions[i], error);
  for (size_t i = 0; i < orders && status == TRN_OK; i++) {
    w->flags[i] = spark__sort_flags(w->spec->order_spec[i]);
    status = spark__expression(t, w->spec->order_spec[i]->child, &w->orders[i], error);
    if (status == TRN_OK) status = spark__refuse_unordered(t, &w->orders[i], w->flags[i], error);
  }
  return status;
}

static bool has_inner_aggregate(const window_parts *w) {
  bool found = false;
  for (uint32_t i = 0; i < w->function.expr->arg_count; i++)
    found |= spark__expr_contains(w->function.expr->args[i], TRN_EXPR_AGGREGATE);
  for (size_t i = 0; i < w->spec->n_partition_spec; i++) found |= w->partitions[i].has_aggregate;
  for (size_t i = 0; i < w->spec->n_order_spec; i++) found |= w->orders[i].has_aggregate;
  return found;
}

static trn_status window_over(spark_translator *t, const Spark__Connect__Expression__Window *spec,
                              const expression *function, trn_position position, spark_value *out, trn_error **error) {
  window_parts w = {.spec = spec};
  if (!function)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.WINDOW_FUNCTION_REQUIRED", NOWHERE, NULL);
  trn_status status = window_parts_of(t, &w, function, error);
  if (status != TRN_OK) return status;
  if (w.function.expr->kind != TRN_EXPR_AGGREGATE && !w.function.is_window_function) {
    const char *text = spark__sql_text(t, w.function.name);
    if (!text) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_EXPR_FOR_WINDOW", position, "sqlExpr", text, NULL);
  }
  status = frame(t, &w, position, error);
  if (status == TRN_OK) status = range_of_dates(t, &w, error);
  size_t count = 1 + spec->n_partition_spec + spec->n_order_spec;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, count);
  if (status != TRN_OK) return status;
  if (!args) return trn__no_memory(error);
  args[0] = w.function.expr;
  for (size_t i = 0; i < spec->n_partition_spec; i++) args[1 + i] = w.partitions[i].expr;
  for (size_t i = 0; i < spec->n_order_spec; i++) args[1 + spec->n_partition_spec + i] = w.orders[i].expr;
  trn_expr *expr =
      trn__expr_create(t->arena, TRN_EXPR_WINDOW, w.function.expr->type, w.function.expr->nullable, args, count);
  if (!expr) return trn__no_memory(error);
  expr->position = position;
  expr->u.window.partition_count = (uint32_t)spec->n_partition_spec;
  expr->u.window.order_count = (uint32_t)spec->n_order_spec;
  expr->u.window.order_flags = w.flags;
  expr->u.window.unit = w.unit;
  expr->u.window.start_kind = w.start_kind;
  expr->u.window.end_kind = w.end_kind;
  expr->u.window.start = w.start;
  expr->u.window.end = w.end;
  expr->u.window.ignore_nulls = w.function.is_window_function &&
                                function->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_MODIFIERS &&
                                function->trn_modifiers->ignore_nulls;
  *out = (spark_value){.expr = expr, .has_aggregate = has_inner_aggregate(&w)};
  return window_name(t, &w, &out->name, error);
}

trn_status spark__window(spark_translator *t, const Spark__Connect__Expression__Window *window, trn_position position,
                         spark_value *out, trn_error **error) {
  return window_over(t, window, window->window_function, position, out, error);
}

/* A named window; it may build on another one: (w ORDER BY a). */
static trn_status named(spark_translator *t, const Spark__Connect__TrnSelect *select, const char *name, unsigned depth,
                        Spark__Connect__Expression__Window *out, trn_position position, trn_error **error) {
  for (size_t i = 0; select && depth < 100 && i < select->n_windows; i++) {
    const Spark__Connect__TrnNamedWindow *window = select->windows[i];
    if (!spark__name_equal(t, window->name, name)) continue;
    if (!window->base_name || !*window->base_name) {
      *out = *window->window;
      return TRN_OK;
    }
    trn_status status = named(t, select, window->base_name, depth + 1, out, position, error);
    if (status != TRN_OK || !window->window) return status;
    if (window->window->n_partition_spec) {
      out->n_partition_spec = window->window->n_partition_spec;
      out->partition_spec = window->window->partition_spec;
    }
    if (window->window->n_order_spec) {
      out->n_order_spec = window->window->n_order_spec;
      out->order_spec = window->window->order_spec;
    }
    if (window->window->frame_spec) out->frame_spec = window->window->frame_spec;
    return TRN_OK;
  }
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "MISSING_WINDOW_SPECIFICATION", position, "windowName", name,
                      "docroot", "https://spark.apache.org/docs/latest", NULL);
}

trn_status spark__window_reference(spark_translator *t, const Spark__Connect__TrnWindowReference *reference,
                                   trn_position position, spark_value *out, trn_error **error) {
  const spark_context *context = spark__state(t)->context;
  Spark__Connect__Expression__Window window;
  trn_status status =
      named(t, context ? context->select : NULL, reference->name ? reference->name : "", 0, &window, position, error);
  return status == TRN_OK ? window_over(t, &window, reference->function, position, out, error) : status;
}

trn_status spark__sequence_id(spark_translator *t, spark_value *out, trn_error **error) {
  spark_value number, pair[2] = {{.name = "n"}, {.name = "1", .is_foldable = true}};
  trn_status status = spark__call_by_name(t, "row_number", NULL, 0, NOWHERE, &number, error);
  if (status != TRN_OK) return status;
  trn_expr *window = trn__expr_create(t->arena, TRN_EXPR_WINDOW, number.expr->type, false, &number.expr, 1);
  pair[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), 1);
  if (!window || !pair[1].expr) return trn__no_memory(error);
  window->u.window.unit = TRN_FRAME_ROWS;
  window->u.window.start_kind = TRN_BOUND_UNBOUNDED_PRECEDING;
  window->u.window.end_kind = TRN_BOUND_CURRENT_ROW;
  status = spark__cast(t, window, trn__type(TRN_TYPE_INT64), SPARK_CAST_IMPLICIT, NOWHERE, &pair[0].expr, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "-", pair, 2, NOWHERE, out, error);
  out->name = "distributed_sequence_id()";
  return status;
}
