/* Pivot: an aggregation by the keys and the pivot column, then one column for each value that is asked for. */
#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

typedef struct pivot {
  spark_translator *t;
  spark_relation input;
  spark_value *keys, *calls;
  size_t key_count, call_count;
  spark_value column;        /* what is pivoted by */
  spark_value *values;       /* literals, cast to the column's type */
  const char *const *labels; /* of the values */
  size_t value_count;
} pivot;

static const char *bare(const spark_value *value) {
  return value->name ? value->name : "";
}

/* Phase one: keys and pivot column, all aggregates; gives the columns of each. */
static trn_status first_phase(pivot *p, spark_relation *out, trn_error **error) {
  spark_translator *t = p->t;
  size_t count = p->key_count + 1;
  spark_value *keys = TRN_NEW_N(t->arena, spark_value, count),
              *all = TRN_NEW_N(t->arena, spark_value, count + p->call_count);
  spark_aggregation aggregation = {.scope = p->input.scope, .has_group_by = true};
  if (!keys || !all) return trn__no_memory(error);
  if (p->key_count) memcpy(keys, p->keys, p->key_count * sizeof *keys);
  keys[p->key_count] = p->column;
  trn_status status = spark__aggregation_keys(t, &aggregation, keys, count, error);
  for (size_t i = 0; i < count + p->call_count && status == TRN_OK; i++) {
    all[i] = i < count ? keys[i] : p->calls[i - count];
    status = spark__aggregation_lift(t, &aggregation, all[i].expr, &all[i].expr, error);
  }
  spark_relation below = {.scope = p->input.scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, p->input.rel, &below.rel, error);
  return status == TRN_OK ? spark__project(t, &below, all, count + p->call_count, NULL, out, error) : status;
}

/* first(call) FILTER (WHERE pivot column <=> value): null when the combination has no row. */
static trn_status cell(pivot *p, const spark_column *column, const spark_column *call, const spark_value *value,
                       spark_value *out, trn_error **error) {
  spark_translator *t = p->t;
  spark_value pair[2], condition, arg;
  spark__column_value(column, column->name, &pair[0]);
  pair[1] = *value;
  spark__column_value(call, call->name, &arg);
  trn_status status = spark__call_by_name(t, "<=>", pair, 2, NOWHERE, &condition, error);
  if (status != TRN_OK) return status;
  spark_call first = {.name = "first", .args = &arg, .arg_count = 1, .filter = &condition, .position = NOWHERE};
  return spark__call(t, &first, out, error);
}

static trn_status second_phase(pivot *p, const spark_relation *first, spark_relation *out, trn_error **error) {
  spark_translator *t = p->t;
  size_t count = p->key_count + p->value_count * p->call_count, at = p->key_count;
  spark_value *all = TRN_NEW_N(t->arena, spark_value, count);
  spark_aggregation aggregation = {.scope = first->scope, .has_group_by = p->key_count > 0};
  const spark_column *columns = first->scope->columns;
  if (!all) return trn__no_memory(error);
  for (size_t i = 0; i < p->key_count; i++) spark__column_value(&columns[i], columns[i].name, &all[i]);
  trn_status status = spark__aggregation_keys(t, &aggregation, all, p->key_count, error);
  for (size_t v = 0; v < p->value_count; v++)
    for (size_t c = 0; c < p->call_count && status == TRN_OK; c++) {
      spark_value *made = &all[at++];
      status = cell(p, &columns[p->key_count], &columns[p->key_count + 1 + c], &p->values[v], made, error);
      made->name =
          p->call_count == 1 ? p->labels[v] : trn__arena_printf(t->arena, "%s_%s", p->labels[v], bare(&p->calls[c]));
      made->is_alias = true;
      if (status == TRN_OK && !made->name) status = trn__no_memory(error);
    }
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = spark__aggregation_lift(t, &aggregation, all[i].expr, &all[i].expr, error);
  spark_relation below = {.scope = first->scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, first->rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, all, count, NULL, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

static trn_status run(pivot *p, spark_relation *out, trn_error **error) {
  spark_relation first;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < p->value_count && status == TRN_OK; i++)
    status = spark__cast(p->t, p->values[i].expr, p->column.expr->type, SPARK_CAST_IMPLICIT, NOWHERE,
                         &p->values[i].expr, error);
  for (size_t i = 0; i < p->call_count && status == TRN_OK; i++)
    if (!p->calls[i].has_aggregate)
      status = spark__error(p->t, error, TRN_INVALID_ARGUMENT, "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION",
                            NOWHERE, "sqlExpr", bare(&p->calls[i]), NULL);
  if (status == TRN_OK) status = first_phase(p, &first, error);
  return status == TRN_OK ? second_phase(p, &first, out, error) : status;
}

/* The values that there are, in order, and the texts that Spark names columns by. */
static trn_status find_values(pivot *p, trn_error **error) {
  spark_translator *t = p->t;
  spark_relation distinct, shown;
  spark_value pair[2];
  spark_rows rows = {0};
  const trn_sort_flags flags = {.nulls_first = true};
  trn_status status = spark__grouped(t, &p->input, &p->column, 1, NULL, 0, &distinct, error);
  if (status != TRN_OK) return status;
  const trn_expr *key = distinct.scope->columns[0].expr;
  status = spark__limit(t, &distinct, 0, TRN_PIVOT_VALUES_MAX + 1, error);
  if (status == TRN_OK) status = spark__sort_by(t, &distinct, &key, &flags, 1, true, error);
  spark__column_value(&distinct.scope->columns[0], "value", &pair[0]);
  pair[1] = pair[0];
  pair[1].is_alias = true;
  pair[1].is_attribute = false;
  if (status == TRN_OK)
    status = spark__cast(t, key, trn__type(TRN_TYPE_STRING), SPARK_CAST_ANSI, NOWHERE, &pair[1].expr, error);
  if (status == TRN_OK) status = spark__project(t, &distinct, pair, 2, NULL, &shown, error);
  if (status == TRN_OK) shown.scope->below = NULL;
  if (status == TRN_OK) status = spark__run_now(t, &shown, TRN_PIVOT_VALUES_MAX + 1, &rows, error);
  if (status != TRN_OK) return status;
  if (rows.row_count > TRN_PIVOT_VALUES_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "The pivot column %s has more than %u distinct values, this could indicate an error. If this "
                         "was intended, give the list of values.",
                         bare(&p->column), TRN_PIVOT_VALUES_MAX);
  p->values = TRN_NEW_N(t->arena, spark_value, rows.row_count);
  const char **labels = TRN_NEW_N(t->arena, const char *, rows.row_count);
  if (!p->values || !labels) return trn__no_memory(error);
  p->value_count = rows.row_count;
  p->labels = labels;
  for (size_t i = 0; i < rows.row_count; i++) {
    const trn_expr *text = rows.cells[2 * i + 1];
    labels[i] = text->u.literal.is_null ? "null" : text->u.literal.value.bytes.data;
    p->values[i] = (spark_value){.expr = rows.cells[2 * i], .name = labels[i], .is_foldable = true};
  }
  return TRN_OK;
}

trn_status spark__relation_pivot(spark_translator *t, const Spark__Connect__Aggregate *node, spark_relation *out,
                                 trn_error **error) {
  pivot p = {.t = t};
  spark_context context;
  if (!node->pivot || !node->pivot->col)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.AGGREGATE_WITH_PIVOT_REQUIRES_PIVOT",
                        NOWHERE, NULL);
  trn_status status = spark__relation(t, node->input, &p.input, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, p.input.scope);
  status =
      spark__expressions(t, node->grouping_expressions, node->n_grouping_expressions, &p.keys, &p.key_count, error);
  if (status == TRN_OK)
    status = spark__expressions(t, node->aggregate_expressions, node->n_aggregate_expressions, &p.calls, &p.call_count,
                                error);
  if (status == TRN_OK) status = spark__expression(t, node->pivot->col, &p.column, error);
  if (status == TRN_OK && node->pivot->n_values == 0) {
    spark__context_end(t, &context);
    status = find_values(&p, error);
    return status == TRN_OK ? run(&p, out, error) : status;
  }
  p.value_count = node->pivot->n_values;
  p.values = TRN_NEW_N(t->arena, spark_value, p.value_count);
  const char **labels = TRN_NEW_N(t->arena, const char *, p.value_count);
  if (status == TRN_OK && (!p.values || !labels)) status = trn__no_memory(error);
  for (size_t i = 0; i < p.value_count && status == TRN_OK; i++) {
    status = spark__literal(t, node->pivot->values[i], NOWHERE, &p.values[i], error);
    labels[i] = bare(&p.values[i]);
  }
  spark__context_end(t, &context);
  p.labels = labels;
  return status == TRN_OK ? run(&p, out, error) : status;
}

/* Whether an expression of the aggregates uses the column: such columns are no group keys of SQL's PIVOT. */
static trn_walk note_column(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)holder;
  trn_vec *used = user;
  if (expr->kind == TRN_EXPR_COLUMN && !trn__vec_push(used, (void *)expr)) return TRN_WALK_STOP;
  return TRN_WALK_ON;
}

static trn_status implicit_keys(pivot *p, trn_error **error) {
  spark_translator *t = p->t;
  trn_vec used = {0};
  trn_visitor visitor = {.expr = note_column, .user = &used};
  spark_value *all = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(t, p->input.scope, &all, &count, error);
  for (size_t i = 0; i < p->call_count && status == TRN_OK; i++)
    if (trn__expr_walk(p->calls[i].expr, &visitor) != TRN_OK) status = trn__no_memory(error);
  if (status == TRN_OK && trn__expr_walk(p->column.expr, &visitor) != TRN_OK) status = trn__no_memory(error);
  p->keys = all;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    bool is_used = false;
    for (size_t k = 0; k < used.count && !is_used; k++)
      is_used = ((const trn_expr *)used.items[k])->u.column == all[i].expr->u.column;
    if (!is_used) p->keys[p->key_count++] = all[i];
  }
  trn__vec_finish(&used);
  return status;
}

trn_status spark__relation_sql_pivot(spark_translator *t, const Spark__Connect__TrnPivot *node, spark_relation *out,
                                     trn_error **error) {
  pivot p = {.t = t, .value_count = node->n_values};
  spark_context context;
  if (node->n_columns != 1) return spark__unimplemented(t, NOWHERE, error, "PIVOT by several columns");
  trn_status status = spark__relation(t, node->input, &p.input, error);
  if (status != TRN_OK) return status;
  Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
  attribute.unparsed_identifier = node->columns[0];
  spark__context_begin(t, &context, p.input.scope);
  status = spark__expressions(t, node->aggregates, node->n_aggregates, &p.calls, &p.call_count, error);
  if (status == TRN_OK) status = spark__resolve_attribute(t, &attribute, NOWHERE, &p.column, error);
  if (status == TRN_OK) status = spark__expressions(t, node->values, node->n_values, &p.values, &p.value_count, error);
  spark__context_end(t, &context);
  const char **labels = TRN_NEW_N(t->arena, const char *, p.value_count);
  if (status != TRN_OK) return status;
  if (!labels) return trn__no_memory(error);
  for (size_t i = 0; i < p.value_count; i++) labels[i] = bare(&p.values[i]);
  p.labels = labels;
  status = implicit_keys(&p, error);
  return status == TRN_OK ? run(&p, out, error) : status;
}

/* Crosstab: a pivot of counts over texts, without nulls. */
static trn_status text_or_null(spark_translator *t, spark_value *value, trn_error **error) {
  spark_value branches[3] = {{0}, {.name = "null", .is_foldable = true}, *value};
  trn_status status = spark__call_by_name(t, "isnull", value, 1, NOWHERE, &branches[0], error);
  if (status == TRN_OK)
    status =
        spark__cast(t, value->expr, trn__type(TRN_TYPE_STRING), SPARK_CAST_ANSI, NOWHERE, &branches[2].expr, error);
  branches[1].expr = trn__expr_string(t->arena, "null", 4);
  if (!branches[1].expr) return trn__no_memory(error);
  return status == TRN_OK ? spark__call_by_name(t, "when", branches, 3, NOWHERE, value, error) : status;
}

/* The visible columns with 0 where a count is null. */
static trn_status fill_zeros(spark_translator *t, spark_relation *relation, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(t, relation->scope, &values, &count, error);
  for (size_t i = 1; i < count && status == TRN_OK; i++) {
    spark_value pair[2] = {values[i], {.name = "0", .is_foldable = true}};
    pair[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), 0);
    if (!pair[1].expr) return trn__no_memory(error);
    const char *name = values[i].name;
    status = spark__call_by_name(t, "coalesce", pair, 2, NOWHERE, &values[i], error);
    values[i].name = name;
    values[i].is_alias = true;
  }
  return status == TRN_OK ? spark__project(t, relation, values, count, NULL, relation, error) : status;
}

trn_status spark__relation_crosstab(spark_translator *t, const Spark__Connect__StatCrosstab *node, spark_relation *out,
                                    trn_error **error) {
  pivot p = {.t = t, .key_count = 1, .call_count = 1};
  char *names[2] = {node->col1, node->col2};
  spark_value *columns = NULL, count,
              one = {.expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), 1), .name = "1", .is_foldable = true};
  if (!one.expr) return trn__no_memory(error);
  trn_status status = spark__relation(t, node->input, &p.input, error);
  if (status == TRN_OK) status = spark__named_values(t, p.input.scope, names, 2, &columns, error);
  for (size_t i = 0; i < 2 && status == TRN_OK; i++) status = text_or_null(t, &columns[i], error);
  if (status == TRN_OK) status = spark__call_by_name(t, "count", &one, 1, NOWHERE, &count, error);
  if (status != TRN_OK) return status;
  columns[0].name = trn__arena_printf(t->arena, "%s_%s", node->col1, node->col2);
  columns[0].is_alias = true;
  if (!columns[0].name) return trn__no_memory(error);
  p.keys = columns;
  p.column = columns[1];
  p.calls = &count;
  status = find_values(&p, error);
  if (status == TRN_OK) status = run(&p, out, error);
  return status == TRN_OK ? fill_zeros(t, out, error) : status;
}
