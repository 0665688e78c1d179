/* Projections: what they show, windows and lateral aliases below them. */
#include "frontend/spark/translate/scope.h"

void spark__context_begin(spark_translator *t, spark_context *context, const spark_scope *scope) {
  spark_state *state = spark__state(t);
  *context = (spark_context){.outer = state->context, .scope = scope};
  if (scope) context->inputs[context->input_count++] = scope;
  state->context = context;
}

void spark__context_end(spark_translator *t, spark_context *context) {
  spark__state(t)->context = context->outer;
}

trn_status spark__output_scope(spark_translator *t, const spark_value *values, const trn_expr *const *exprs,
                               size_t count, spark_scope **out, trn_error **error) {
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, count);
  if (!columns) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const trn_expr *expr = exprs ? exprs[i] : values[i].expr;
    /* An alias makes a column of its own, as in Spark: df["a"] does not mean what df.select(df.a.alias("b")) gives. */
    if (expr->kind != TRN_EXPR_COLUMN || values[i].is_alias) expr = spark__column_expr(t, expr->type, expr->nullable);
    if (!expr) return trn__no_memory(error);
    columns[i] = (spark_column){.expr = expr,
                                .name = values[i].name ? values[i].name : "",
                                .metadata = values[i].metadata,
                                .qualifier = values[i].is_attribute ? values[i].qualifier : NULL,
                                .generated = !values[i].is_alias && !values[i].is_attribute};
  }
  *out = spark__scope_create(t, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

trn_status spark__project_to(spark_translator *t, const trn_rel *input, const trn_expr *const *exprs,
                             const spark_scope *scope, const trn_rel **out, trn_error **error) {
  bool only_columns = true;
  for (uint32_t i = 0; i < scope->count && only_columns; i++)
    only_columns = exprs[i]->kind == TRN_EXPR_COLUMN && exprs[i]->u.column == scope->columns[i].expr->u.column;
  *out = input;
  if (only_columns) return TRN_OK;
  const trn_expr **made = TRN_NEW_N(t->arena, const trn_expr *, scope->count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, scope->count);
  spark_scope seen = {.columns = scope->columns};
  size_t count = 0;
  if (!made || !columns) return trn__no_memory(error);
  /* A column that is shown twice is made once. Earlier ones are looked up in the whole scope: the first one counts. */
  seen.count = scope->count;
  for (uint32_t i = 0; i < scope->count; i++) {
    const trn_expr *column = scope->columns[i].expr;
    if (spark__scope_column(t, &seen, column->u.column) != &scope->columns[i]) continue;
    made[count] = exprs[i];
    columns[count++] = (trn_column){.id = column->u.column, .type = column->type, .nullable = column->nullable};
  }
  *out = trn__rel_project(t->arena, input, made, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* ---- windows ---- */
typedef struct window_list {
  spark_translator *t;
  spark_expr_set windows;
  const trn_expr **columns; /* one for each window */
  size_t capacity;          /* of columns */
} window_list;

static trn_status take_window(window_list *list, const trn_expr *window, const trn_expr **out, trn_error **error) {
  spark_translator *t = list->t;
  uint32_t known = spark__expr_set_find(&list->windows, window), count = list->windows.count;
  if (known != UINT32_MAX) {
    *out = list->columns[known];
    return TRN_OK;
  }
  if (count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 8;
    const trn_expr **columns = TRN_NEW_N(t->arena, const trn_expr *, capacity);
    if (!columns) return trn__no_memory(error);
    if (count) memcpy(columns, list->columns, count * sizeof *columns);
    list->columns = columns;
    list->capacity = capacity;
  }
  *out = spark__column_expr(t, window->type, window->nullable);
  if (!*out || !spark__expr_set_add(t, &list->windows, window)) return trn__no_memory(error);
  list->columns[count] = *out;
  return TRN_OK;
}

static trn_status lift_window(window_list *list, const trn_expr *expr, const trn_expr **out, trn_error **error) {
  spark_translator *t = list->t;
  *out = expr;
  if (expr->arg_count == 0) return TRN_OK;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, expr->arg_count);
  if (!args) return trn__no_memory(error);
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  for (uint32_t i = 0; i < expr->arg_count && status == TRN_OK; i++)
    status = lift_window(list, expr->args[i], &args[i], error);
  spark__leave(t);
  if (status == TRN_OK) status = spark__expr_with_args(t, expr, args, out, error);
  if (status == TRN_OK && (*out)->kind == TRN_EXPR_WINDOW) status = take_window(list, *out, out, error);
  return status;
}

/* Columns of windows are made one after the other: those from a place on have larger ids than those before it. */
typedef struct window_range {
  uint32_t first, last;
} window_range;

static bool is_in_range(void *user, const trn_expr *expr) {
  const window_range *range = user;
  return expr->kind == TRN_EXPR_COLUMN && expr->u.column >= range->first && expr->u.column <= range->last;
}

static bool uses_window(const window_list *list, const trn_expr *window, size_t from) {
  window_range range = {list->columns[from]->u.column, list->columns[list->windows.count - 1]->u.column};
  return spark__expr_find(window, is_in_range, &range) != NULL;
}

static trn_status window_relation(spark_translator *t, const trn_rel **rel, const window_list *list, size_t from,
                                  size_t to, trn_error **error) {
  const trn_rel *input = *rel;
  size_t count = input->column_count;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count + (to - from));
  if (!columns) return trn__no_memory(error);
  if (count) memcpy(columns, input->columns, count * sizeof *columns);
  for (size_t i = from; i < to; i++)
    columns[count++] = (trn_column){
        .id = list->columns[i]->u.column, .type = list->columns[i]->type, .nullable = list->columns[i]->nullable};
  *rel = trn__rel_create(t->arena, TRN_REL_WINDOW, &input, 1, list->windows.items + from, to - from, columns, count);
  return *rel ? TRN_OK : trn__no_memory(error);
}

trn_status spark__lift_windows(spark_translator *t, const trn_rel **rel, const trn_expr **exprs, size_t count,
                               trn_error **error) {
  window_list list = {.t = t};
  trn_status status = TRN_OK;
  size_t done = 0;
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    if (spark__expr_contains(exprs[i], TRN_EXPR_WINDOW)) status = lift_window(&list, exprs[i], &exprs[i], error);
  /* A window over another one's result goes above it. Inner ones come first in the list. */
  while (status == TRN_OK && done < list.windows.count) {
    size_t to = done;
    while (to < list.windows.count && !uses_window(&list, list.windows.items[to], done)) to++;
    if (to == done) return trn_error_set(error, TRN_INTERNAL, NULL, "Window functions depend on each other.");
    status = window_relation(t, rel, &list, done, to, error);
    done = to;
  }
  return status;
}

/* ---- lateral aliases: each level of them is a projection of its own ---- */
static trn_status lateral_level(spark_translator *t, const trn_rel **rel, const spark_context *context,
                                const trn_expr *const *exprs, const trn_expr **pending, const trn_expr **open,
                                size_t *left, trn_error **error) {
  const trn_rel *input = *rel;
  size_t count = input->column_count;
  const trn_expr **made = TRN_NEW_N(t->arena, const trn_expr *, count + *left);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count + *left);
  bool *ready = TRN_NEW_N(t->arena, bool, context->lateral_count);
  size_t before = *left;
  if (!made || !columns || !ready) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    columns[i] = input->columns[i];
    made[i] = trn__expr_column(t->arena, &columns[i]);
    if (!made[i]) return trn__no_memory(error);
  }
  size_t open_count = 0;
  for (uint32_t i = 0; i < context->lateral_count; i++)
    if (pending[i]) open[open_count++] = pending[i];
  for (uint32_t i = 0; i < context->lateral_count; i++)
    ready[i] = pending[i] && !spark__expr_uses(exprs[context->laterals[i].item], open, open_count);
  for (uint32_t i = 0; i < context->lateral_count; i++) {
    if (!ready[i]) continue;
    made[count] = exprs[context->laterals[i].item];
    columns[count++] =
        (trn_column){.id = pending[i]->u.column, .type = pending[i]->type, .nullable = pending[i]->nullable};
    pending[i] = NULL;
    (*left)--;
  }
  if (*left == before) return trn_error_set(error, TRN_INTERNAL, NULL, "Lateral column aliases depend on each other.");
  *rel = trn__rel_project(t->arena, input, made, columns, count);
  return *rel ? TRN_OK : trn__no_memory(error);
}

trn_status spark__lateral_relations(spark_translator *t, const trn_rel **rel, const spark_context *context,
                                    const trn_expr **exprs, size_t count, trn_error **error) {
  size_t left = 0;
  if (!context || !context->lateral_used) return TRN_OK;
  const trn_expr **pending = TRN_NEW_N(t->arena, const trn_expr *, context->lateral_count);
  const trn_expr **open = TRN_NEW_N(t->arena, const trn_expr *, context->lateral_count); /* those that are pending */
  if (!pending || !open) return trn__no_memory(error);
  for (uint32_t i = 0; i < context->lateral_count; i++) {
    pending[i] = context->laterals[i].column;
    left += pending[i] != NULL;
  }
  trn_status status = TRN_OK;
  while (left > 0 && status == TRN_OK) status = lateral_level(t, rel, context, exprs, pending, open, &left, error);
  for (uint32_t i = 0; i < context->lateral_count && status == TRN_OK; i++)
    if (context->laterals[i].column && context->laterals[i].item < count)
      exprs[context->laterals[i].item] = context->laterals[i].column;
  return status;
}

static bool is_lateral_window(void *user, const trn_expr *expr) {
  const spark_context *context = user;
  for (uint32_t i = 0; expr->kind == TRN_EXPR_WINDOW && i < context->lateral_count; i++)
    if (context->laterals[i].column && spark__expr_uses(expr, &context->laterals[i].column, 1)) return true;
  return false;
}

static trn_status refuse_lateral_windows(spark_translator *t, const spark_context *context, const trn_expr *expr,
                                         trn_error **error) {
  const trn_expr *found = spark__expr_find(expr, is_lateral_window, (void *)context);
  if (!found) return TRN_OK;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_WINDOW",
                      found->position, "lca", "", "windowExpr", "\"window\"", NULL);
}

trn_status spark__needs_over(spark_translator *t, const spark_value *value, trn_error **error) {
  const char *text = spark__sql_text(t, value->name);
  if (!text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE", value->expr->position,
                      "funcName", text, NULL);
}

/* Values are many and large in wide plans: they are not copied here. */
trn_status spark__project(spark_translator *t, const spark_relation *input, const spark_value *given, size_t count,
                          const spark_context *context, spark_relation *out, trn_error **error) {
  spark_relation below = *input;
  const spark_value *values = given;
  spark_scope *scope = NULL;
  trn_status status = spark__expand_generators(t, &below, &values, &count, context, error);
  if (status != TRN_OK) return status;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  if (!exprs) return trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    exprs[i] = values[i].expr;
    if (values[i].is_window_function) return spark__needs_over(t, &values[i], error);
    if (context && context->lateral_used) status = refuse_lateral_windows(t, context, exprs[i], error);
  }
  if (status == TRN_OK) status = spark__lift_windows(t, &below.rel, exprs, count, error);
  if (status == TRN_OK) status = spark__lateral_relations(t, &below.rel, context, exprs, count, error);
  if (status == TRN_OK) status = spark__output_scope(t, values, exprs, count, &scope, error);
  if (status == TRN_OK) status = spark__project_to(t, below.rel, exprs, scope, &out->rel, error);
  if (status != TRN_OK) return status;
  scope->below = input->scope;
  out->scope = scope;
  return TRN_OK;
}

/* ---- sorting ---- */
trn_status spark__refuse_unordered(spark_translator *t, const spark_value *key, trn_sort_flags flags,
                                   trn_error **error) {
  if (spark__is_orderable(key->expr->type)) return TRN_OK;
  const char *text = trn__arena_printf(t->arena, "\"%s %s NULLS %s\"", key->name ? key->name : "",
                                       flags.descending ? "DESC" : "ASC", flags.nulls_first ? "FIRST" : "LAST");
  const char *type = spark__quoted_type(t, key->expr->type);
  if (!text || !type) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", key->expr->position,
                      "sqlExpr", text, "functionName", "`sortorder`", "dataType", type, NULL);
}

trn_status spark__sort_by(spark_translator *t, spark_relation *relation, const trn_expr **keys,
                          const trn_sort_flags *flags, size_t count, bool is_global, trn_error **error) {
  const trn_rel *rel = relation->rel;
  trn_status status = spark__require_columns(t, rel, keys, count, &rel, error);
  if (status == TRN_OK) status = spark__lift_windows(t, &rel, keys, count, error);
  if (status != TRN_OK) return status;
  trn_sort_flags *copy = trn__arena_copy(t->arena, flags, count * sizeof *flags);
  trn_rel *sort = trn__rel_create(t->arena, TRN_REL_SORT, &rel, 1, keys, count, rel->columns, rel->column_count);
  if (!sort || !copy) return trn__no_memory(error);
  sort->u.sort.flags = copy;
  sort->u.sort.fetch = -1;
  sort->u.sort.is_global = is_global;
  relation->rel = sort;
  return TRN_OK;
}

/* ---- select lists ---- */
static bool is_lateral(const spark_value *value) {
  return value->is_alias && value->alias_count == 0 && !value->is_generator && value->name;
}

/* A lateral alias, or a variable, that is an item of its own. */
static void name_lateral(const spark_context *context, spark_value *value) {
  if (value->variable_name && !value->is_alias) value->name = value->variable_name;
  for (uint32_t i = 0; context->lateral_used && value->is_attribute && i < context->lateral_count; i++)
    if (context->laterals[i].column && value->expr->kind == TRN_EXPR_COLUMN &&
        context->laterals[i].column->u.column == value->expr->u.column)
      value->name = context->laterals[i].name;
}

/* In a select list the cast of a column has the column's name; inside of expressions it has not. */
static trn_status name_cast(spark_translator *t, const Spark__Connect__Expression *item, spark_value *value,
                            trn_error **error) {
  const Spark__Connect__Expression *child =
      item->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_CAST ? item->cast->expr : NULL;
  spark_value column;
  if (!child || child->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE) return TRN_OK;
  trn_status status = spark__expression(t, child, &column, error);
  if (status != TRN_OK || !column.is_attribute) return status;
  value->name = column.name;
  value->is_alias = true;
  value->is_attribute = false;
  return TRN_OK;
}

trn_status spark__select_list(spark_translator *t, spark_context *context, Spark__Connect__Expression *const *list,
                              size_t count, spark_value **out, size_t *out_count, trn_error **error) {
  size_t capacity = 0;
  trn_status status = TRN_OK;
  *out = NULL;
  *out_count = 0;
  context->laterals = TRN_NEW_N(t->arena, spark_lateral, count);
  if (!context->laterals) return trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    const Spark__Connect__Expression *item = NULL;
    size_t at = *out_count;
    status = spark__list_item(t, list[i], out, out_count, &capacity, &item, error);
    if (status == TRN_OK && *out_count == at + 1) status = name_cast(t, item, &(*out)[at], error);
    if (status != TRN_OK) break;
    if (*out_count == at + 1) name_lateral(context, &(*out)[at]);
    if (*out_count == at + 1 && (*out)[at].is_generator) status = spark__declare_generator(t, context, &(*out)[at], error);
    if (status != TRN_OK) break;
    if (item->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS || !is_lateral(&(*out)[at])) continue;
    context->laterals[context->lateral_count++] =
        (spark_lateral){.name = (*out)[at].name, .hash = spark__name_hash((*out)[at].name), .item = (uint32_t)at, .value = (*out)[at].expr};
  }
  return status;
}

trn_status spark__one_row(spark_translator *t, spark_relation *out, trn_error **error) {
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, NULL, 0, NULL, 0);
  if (!rel) return trn__no_memory(error);
  rel->u.values.row_count = 1;
  return spark__scope_of(t, rel, NULL, NULL, out, error);
}

/* Whether windows are inside only of functions of a seed, which take the number of the row. */
static bool has_window(const trn_expr *expr, unsigned depth) {
  if (expr->kind == TRN_EXPR_WINDOW || depth > TRN_PLAN_DEPTH_MAX) return true;
  if (expr->kind == TRN_EXPR_CALL && strncmp(expr->u.call.name, "trn.rand", 8) == 0) return false;
  for (uint32_t i = 0; i < expr->arg_count; i++)
    if (has_window(expr->args[i], depth + 1)) return true;
  return false;
}

trn_status spark__filter_by(spark_translator *t, spark_relation *relation, const Spark__Connect__Expression *condition,
                            trn_error **error) {
  spark_context context;
  spark_value value;
  const trn_expr *expr = NULL;
  const trn_rel *rel = relation->rel;
  spark__context_begin(t, &context, relation->scope);
  context.use_below = true;
  trn_status status = spark__expression(t, condition, &value, error);
  spark__context_end(t, &context);
  if (status == TRN_OK) status = spark__refuse_generators(t, &value, "'Filter %s", error);
  if (status != TRN_OK) return status;
  if (!value.has_aggregate && has_window(value.expr, 0))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE", ((trn_position){-1, -1}),
                        "clauseName", "WHERE", NULL);
  bool misplaced = value.has_aggregate || has_window(value.expr, 0);
  if (misplaced) {
    const char *text = spark__sql_text(t, value.name);
    if (!text) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_WHERE_CONDITION", spark__position(t, condition),
                        "condition", text, "expressionList", value.name ? value.name : "", NULL);
  }
  status =
      spark__boolean(t, &value, "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", spark__position(t, condition), &expr, error);
  if (status == TRN_OK && context.found_below) status = spark__require_columns(t, rel, &expr, 1, &rel, error);
  if (status == TRN_OK && spark__expr_contains(expr, TRN_EXPR_WINDOW))
    status = spark__lift_windows(t, &rel, &expr, 1, error);
  if (status != TRN_OK) return status;
  relation->rel = trn__rel_filter(t->arena, rel, expr);
  return relation->rel ? TRN_OK : trn__no_memory(error);
}
