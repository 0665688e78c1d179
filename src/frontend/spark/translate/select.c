/* SELECT: group keys, HAVING, QUALIFY, DISTINCT and ORDER BY around one projection. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

typedef struct selection {
  spark_translator *t;
  const Spark__Connect__TrnSelect *select; /* NULL: a DataFrame's project */
  const Spark__Connect__TrnOrderBy *order;
  spark_relation input;
  spark_context context;
  spark_value *values;
  size_t count;
  spark_aggregation aggregation;
  const spark_scope *generated; /* what generators of the select list give */
  spark_scope *output;
  /* ORDER BY over an aggregation */
  const trn_expr **keys;
  trn_sort_flags *flags;
  size_t key_count;
} selection;

/* ---- GROUP BY ---- */
static const Spark__Connect__Expression__Literal *ordinal_of(const Spark__Connect__Expression *e) {
  if (e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL) return NULL;
  return e->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER ? e->literal : NULL;
}

static trn_status out_of_range(spark_translator *t, const char *condition, int64_t index, size_t size,
                               trn_position position, trn_error **error) {
  char number[24], limit[24];
  snprintf(number, sizeof number, "%lld", (long long)index);
  snprintf(limit, sizeof limit, "%zu", size);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, condition, position, "index", number, "size", limit, NULL);
}

static trn_status group_ordinal(selection *s, const Spark__Connect__Expression *e, int64_t index, spark_value *out,
                                trn_error **error) {
  if (index < 1 || (uint64_t)index > s->count)
    return out_of_range(s->t, "GROUP_BY_POS_OUT_OF_RANGE", index, s->count, spark__position(s->t, e), error);
  *out = s->values[index - 1];
  if (!out->has_aggregate) return TRN_OK;
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)index);
  const char *text = spark__sql_text(s->t, out->name);
  if (!text) return trn__no_memory(error);
  return spark__error(s->t, error, TRN_INVALID_ARGUMENT, "GROUP_BY_POS_AGGREGATE", spark__position(s->t, e), "index",
                      number, "aggExpr", text, NULL);
}

/* A name of GROUP BY that the input has not may be an alias of the select list. */
static bool group_alias(selection *s, const Spark__Connect__Expression *e, spark_value *out) {
  if (e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE) return false;
  char **parts = NULL;
  size_t part_count = 0;
  const char *text = e->unresolved_attribute->unparsed_identifier;
  if (!text || spark__sql_parse_attribute_name(s->t->arena, text, strlen(text), &parts, &part_count, NULL) != TRN_OK ||
      part_count != 1)
    return false;
  bool found = false;
  if (spark__scope_find(s->t, s->input.scope, parts[0]) != UINT32_MAX) return false;
  for (size_t i = 0; i < s->count && !found; i++) {
    if (!s->values[i].is_alias || s->values[i].is_generator || !s->values[i].name || !spark__name_equal(s->t, s->values[i].name, parts[0])) continue;
    *out = s->values[i];
    found = true;
  }
  return found;
}

static trn_status group_value(selection *s, const Spark__Connect__Expression *e, spark_value *out, trn_error **error) {
  const Spark__Connect__Expression__Literal *ordinal = ordinal_of(e);
  if (ordinal) return group_ordinal(s, e, ordinal->integer, out, error);
  if (group_alias(s, e, out)) return TRN_OK;
  return spark__expression(s->t, e, out, error);
}

/* Every item without an aggregate function is a key. */
static trn_status group_all(selection *s, spark_value **keys, size_t *count, trn_error **error) {
  size_t capacity = s->count;
  for (size_t i = 0; i < s->count; i++) capacity += s->values[i].is_generator ? s->values[i].expr->arg_count : 0;
  *keys = TRN_NEW_N(s->t->arena, spark_value, capacity);
  if (!*keys) return trn__no_memory(error);
  for (size_t i = 0; i < s->count; i++) {
    const spark_value *value = &s->values[i];
    if (!value->is_generator && !value->has_aggregate && !value->is_foldable) (*keys)[(*count)++] = *value;
    /* a generator stands above the aggregation: its arguments do not */
    for (uint32_t k = 0; value->is_generator && k < value->expr->arg_count; k++)
      if (spark__expr_contains(value->expr->args[k], TRN_EXPR_COLUMN) &&
          !spark__expr_contains(value->expr->args[k], TRN_EXPR_AGGREGATE))
        (*keys)[(*count)++] = (spark_value){.expr = value->expr->args[k], .name = value->name};
  }
  return TRN_OK;
}

static size_t key_index(spark_value *keys, size_t *count, const spark_value *value) {
  for (size_t i = 0; i < *count; i++)
    if (spark__expr_same(keys[i].expr, value->expr)) return i;
  keys[*count] = *value;
  return (*count)++;
}

/* GROUPING SETS: the keys are what the sets name, after what GROUP BY named before. */
static trn_status group_sets(selection *s, spark_value **keys, size_t *count, trn_error **error) {
  spark_translator *t = s->t;
  const Spark__Connect__TrnSelect *select = s->select;
  size_t capacity = *count;
  for (size_t i = 0; i < select->n_grouping_sets; i++) capacity += select->grouping_sets[i]->n_expressions;
  spark_value *all = TRN_NEW_N(t->arena, spark_value, capacity);
  uint64_t *sets = TRN_NEW_N(t->arena, uint64_t, select->n_grouping_sets);
  if (!all || !sets) return trn__no_memory(error);
  if (*count) memcpy(all, *keys, *count * sizeof *all);
  for (size_t i = 0; i < select->n_grouping_sets; i++)
    for (size_t k = 0; k < select->grouping_sets[i]->n_expressions; k++) {
      spark_value value;
      trn_status status = group_value(s, select->grouping_sets[i]->expressions[k], &value, error);
      if (status != TRN_OK) return status;
      size_t index = key_index(all, count, &value);
      if (index < TRN_GROUPING_KEYS_MAX) sets[i] |= (uint64_t)1 << index;
    }
  *keys = all;
  return spark__grouping_sets(t, select->group_type, *count, sets, select->n_grouping_sets, &s->aggregation, error);
}

static trn_status group_keys(selection *s, trn_error **error) {
  spark_translator *t = s->t;
  const Spark__Connect__TrnSelect *select = s->select;
  spark_value *keys = NULL;
  size_t count = 0;
  trn_status status = TRN_OK;
  s->aggregation.scope = s->input.scope;
  s->aggregation.laterals = s->context.laterals;
  s->aggregation.lateral_count = s->context.lateral_count;
  if (!select || !select->has_group_by) return spark__aggregation_keys(t, &s->aggregation, NULL, 0, error);
  s->aggregation.has_group_by = true;
  if (select->group_all) {
    status = group_all(s, &keys, &count, error);
  } else {
    keys = TRN_NEW_N(t->arena, spark_value, select->n_group_by);
    if (!keys) return trn__no_memory(error);
    for (; count < select->n_group_by && status == TRN_OK; count++) {
      status = group_value(s, select->group_by[count], &keys[count], error);
      if (status == TRN_OK && spark__holds_generator(t, keys[count].expr))
        return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_EXPR_FOR_OPERATOR",
                            spark__position(t, select->group_by[count]), "invalidExprSqls",
                            spark__sql_text(t, keys[count].name), NULL);
    }
  }
  if (status == TRN_OK && select->group_type >= SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_ROLLUP)
    status = group_sets(s, &keys, &count, error);
  return status == TRN_OK ? spark__aggregation_keys(t, &s->aggregation, keys, count, error) : status;
}

/* ---- conditions and order over the aggregation ---- */
/* Evaluates `e` over the input, aliases of the select list included; the aggregation's output is what it is made of. */
static trn_status condition(selection *s, const Spark__Connect__Expression *e, bool aggregates, const trn_expr **out,
                            trn_error **error) {
  spark_translator *t = s->t;
  spark_context context;
  spark_value value;
  spark__context_begin(t, &context, s->input.scope);
  context.last = s->output;
  context.select = s->select;
  if (aggregates) context.aggregation = &s->aggregation;
  trn_status status = spark__expression(t, e, &value, error);
  spark__context_end(t, &context);
  if (status == TRN_OK)
    status = spark__boolean(t, &value, "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", spark__position(t, e), out, error);
  if (status == TRN_OK && aggregates) status = spark__aggregation_lift(t, &s->aggregation, *out, out, error);
  if (status != TRN_OK) return status;
  const trn_expr **columns = TRN_NEW_N(t->arena, const trn_expr *, s->count);
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, s->count);
  if (!columns || !exprs) return trn__no_memory(error);
  for (size_t i = 0; i < s->count; i++) {
    columns[i] = s->output->columns[i].expr == s->values[i].expr ? NULL : s->output->columns[i].expr;
    exprs[i] = s->values[i].expr;
  }
  return spark__substitute(t, *out, columns, exprs, s->count, out, error);
}

static trn_status order_key(selection *s, const Spark__Connect__Expression *e, const trn_expr **out,
                            trn_error **error) {
  spark_translator *t = s->t;
  const Spark__Connect__Expression__Literal *ordinal = ordinal_of(e);
  if (ordinal) {
    if (ordinal->integer < 1 || (uint64_t)ordinal->integer > s->count)
      return out_of_range(t, "ORDER_BY_POS_OUT_OF_RANGE", ordinal->integer, s->count, spark__position(t, e), error);
    *out = s->output->columns[ordinal->integer - 1].expr;
    return TRN_OK;
  }
  spark_value value;
  trn_status status = spark__expression(t, e, &value, error);
  if (status == TRN_OK) status = spark__refuse_subqueries(t, value.expr, s->input.scope, error);
  if (status == TRN_OK) status = spark__aggregation_lift(t, &s->aggregation, value.expr, out, error);
  /* What the select list computes already is not computed again, and can be had above a DISTINCT. */
  for (size_t i = 0; i < s->count && status == TRN_OK; i++)
    if (spark__expr_same(*out, s->values[i].expr)) {
      *out = s->output->columns[i].expr;
      break;
    }
  return status;
}

static trn_status order_keys(selection *s, trn_error **error) {
  spark_translator *t = s->t;
  spark_context context;
  trn_status status = TRN_OK;
  if (!s->order) return TRN_OK;
  size_t count = s->order->all ? s->count : s->order->n_order;
  s->keys = TRN_NEW_N(t->arena, const trn_expr *, count);
  s->flags = TRN_NEW_N(t->arena, trn_sort_flags, count);
  if (!s->keys || !s->flags) return trn__no_memory(error);
  spark__context_begin(t, &context, s->input.scope);
  context.first = s->output;
  context.aggregation = &s->aggregation;
  context.select = s->select;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    if (s->order->all) {
      s->keys[i] = s->output->columns[i].expr;
      s->flags[i] = s->order->n_order ? spark__sort_flags(s->order->order[0]) : (trn_sort_flags){false, true};
    } else {
      s->flags[i] = spark__sort_flags(s->order->order[i]);
      status = order_key(s, s->order->order[i]->child, &s->keys[i], error);
    }
  }
  spark__context_end(t, &context);
  s->key_count = count;
  return status;
}

/* ---- the two forms ---- */
static trn_status check_qualify(const selection *s, const trn_expr *qualify, trn_error **error) {
  bool found = spark__expr_contains(qualify, TRN_EXPR_WINDOW);
  for (size_t i = 0; i < s->count && !found; i++) found = spark__expr_contains(s->values[i].expr, TRN_EXPR_WINDOW);
  if (found) return TRN_OK;
  return spark__error(s->t, error, TRN_INVALID_ARGUMENT, "QUALIFY_REQUIRES_WINDOW_FUNCTION",
                      spark__position(s->t, s->select->qualify), NULL);
}

/* What a generator gives comes to be above the aggregation: beside it no item can name it. */
static trn_status refuse_generated(selection *s, trn_error **error) {
  for (uint32_t i = 0; s->generated && i < s->generated->count; i++) {
    const spark_column *column = &s->generated->columns[i];
    char *name = (char *)column->name;
    if (column->expr->kind != TRN_EXPR_COLUMN) continue; /* a field of inline's struct */
    for (size_t k = 0; k < s->count; k++)
      if (spark__expr_uses(s->values[k].expr, &column->expr, 1))
        return spark__unresolved_column(s->t, s->input.scope, &name, 1, s->values[k].expr->position, error);
  }
  return TRN_OK;
}

/* As Spark has it: the generators stand in a projection over the aggregation, HAVING and ORDER BY over that. */
static trn_status generators_over(selection *s, spark_relation *out, trn_error **error) {
  spark_translator *t = s->t;
  const Spark__Connect__TrnSelect *select = s->select;
  spark_relation below = {.scope = s->input.scope};
  if (select && select->qualify)
    return spark__unimplemented(t, spark__position(t, select->qualify), error, "QUALIFY over a generator in an aggregation");
  trn_status status = spark__aggregation_relation(t, &s->aggregation, s->input.rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, s->values, s->count, &s->context, out, error);
  if (status != TRN_OK) return status;
  out->scope->below = NULL;
  if (select && select->having) status = spark__filter_by(t, out, select->having, error);
  if (status == TRN_OK && select && select->distinct) status = spark__distinct(t, out, error);
  if (status != TRN_OK || !s->order) return status;
  return spark__sort_relation(t, out, s->order->order, s->order->n_order, s->order->all, s->order->is_global, select, error);
}

static trn_status with_aggregation(selection *s, spark_relation *out, trn_error **error) {
  spark_translator *t = s->t;
  const trn_expr *having = NULL, *qualify = NULL;
  bool generates = false;
  trn_status status = spark__refuse_nested_generators(t, s->values, s->count, error);
  if (status == TRN_OK) status = refuse_generated(s, error);
  for (size_t i = 0; i < s->count && status == TRN_OK; i++)
    status = spark__aggregation_lift(t, &s->aggregation, s->values[i].expr, &s->values[i].expr, error);
  for (uint32_t i = 0; i < s->context.lateral_count; i++)
    s->context.laterals[i].value = s->values[s->context.laterals[i].item].expr;
  for (size_t i = 0; i < s->count; i++) generates |= s->values[i].is_generator;
  if (status == TRN_OK && generates) return generators_over(s, out, error);
  if (status == TRN_OK) status = spark__output_scope(t, s->values, NULL, s->count, &s->output, error);
  if (status != TRN_OK) return status;
  s->aggregation.output = s->output;
  if (s->select && s->select->having) status = condition(s, s->select->having, true, &having, error);
  if (status == TRN_OK && s->select && s->select->qualify)
    status = condition(s, s->select->qualify, true, &qualify, error);
  if (status == TRN_OK && qualify) status = check_qualify(s, qualify, error);
  if (status == TRN_OK) status = order_keys(s, error);
  if (status != TRN_OK) return status;
  spark_relation below = {.scope = s->input.scope};
  status = spark__aggregation_relation(t, &s->aggregation, s->input.rel, &below.rel, error);
  if (status == TRN_OK && having) {
    below.rel = trn__rel_filter(t->arena, below.rel, having);
    if (!below.rel) status = trn__no_memory(error);
  }
  if (status == TRN_OK)
    status = spark__finish_select(t, &below, s->values, s->count, &s->context, qualify, s->output, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  if (status == TRN_OK && s->select && s->select->distinct) status = spark__distinct(t, out, error);
  if (status == TRN_OK && s->order)
    status = spark__sort_by(t, out, s->keys, s->flags, s->key_count, s->order->is_global, error);
  return status;
}

static trn_status without_aggregation(selection *s, spark_relation *out, trn_error **error) {
  spark_translator *t = s->t;
  const trn_expr *qualify = NULL;
  trn_status status = TRN_OK;
  if (s->select && s->select->qualify) {
    status = spark__output_scope(t, s->values, NULL, s->count, &s->output, error);
    if (status == TRN_OK) status = condition(s, s->select->qualify, false, &qualify, error);
    if (status == TRN_OK) status = check_qualify(s, qualify, error);
  }
  if (status == TRN_OK)
    status = spark__finish_select(t, &s->input, s->values, s->count, &s->context, qualify, s->output, out, error);
  if (status == TRN_OK && s->select && s->select->distinct) status = spark__distinct(t, out, error);
  if (status != TRN_OK || !s->order) return status;
  return spark__sort_relation(t, out, s->order->order, s->order->n_order, s->order->all, s->order->is_global, s->select,
                              error);
}

/* QUALIFY filters between the windows and the projection. `output`: columns that are promised already, or NULL. */
trn_status spark__finish_select(spark_translator *t, const spark_relation *input, spark_value *values, size_t count,
                                const spark_context *context, const trn_expr *qualify, spark_scope *output,
                                spark_relation *out, trn_error **error) {
  if (!output) return spark__project(t, input, values, count, context, out, error);
  spark_relation below = *input;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count + 1);
  if (!exprs) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    if (values[i].is_generator)
      return spark__unimplemented(t, values[i].expr->position, error, "A generator in an aggregation");
    exprs[i] = values[i].expr;
  }
  if (qualify) exprs[count] = qualify;
  trn_status status = spark__lift_windows(t, &below.rel, exprs, count + (qualify ? 1 : 0), error);
  if (status != TRN_OK) return status;
  if (qualify) {
    below.rel = trn__rel_filter(t->arena, below.rel, exprs[count]);
    if (!below.rel) return trn__no_memory(error);
  }
  status = spark__lateral_relations(t, &below.rel, context, exprs, count, error);
  if (status == TRN_OK) status = spark__project_to(t, below.rel, exprs, output, &out->rel, error);
  output->below = input->scope;
  out->scope = output;
  return status;
}

static trn_status run(selection *s, Spark__Connect__Expression *const *list, size_t count, spark_relation *out,
                      trn_error **error) {
  spark_translator *t = s->t;
  bool aggregated = s->select && (s->select->has_group_by || s->select->having);
  spark__context_begin(t, &s->context, s->input.scope);
  s->context.select = s->select;
  trn_status status = spark__select_list(t, &s->context, list, count, &s->values, &s->count, error);
  for (size_t i = 0; i < s->count; i++) aggregated |= s->values[i].has_aggregate;
  s->generated = s->context.generated;
  s->context.generated = NULL; /* GROUP BY does not see it */
  if (status == TRN_OK && aggregated) status = group_keys(s, error);
  spark__context_end(t, &s->context); /* what follows has contexts of its own beside it, not inside it */
  if (status != TRN_OK) return status;
  return aggregated ? with_aggregation(s, out, error) : without_aggregation(s, out, error);
}

trn_status spark__relation_select(spark_translator *t, const Spark__Connect__TrnSelect *select,
                                  const Spark__Connect__TrnOrderBy *order, spark_relation *out, trn_error **error) {
  selection s = {.t = t, .select = select, .order = order};
  trn_status status =
      select->input ? spark__relation(t, select->input, &s.input, error) : spark__one_row(t, &s.input, error);
  if (status == TRN_OK)
    status = spark__time_windows(t, &s.input, select->group_by, select->n_group_by, select->select, select->n_select,
                                 error);
  return status == TRN_OK ? run(&s, select->select, select->n_select, out, error) : status;
}

trn_status spark__relation_project(spark_translator *t, const Spark__Connect__Project *project, spark_relation *out,
                                   trn_error **error) {
  selection s = {.t = t};
  trn_status status =
      project->input ? spark__relation(t, project->input, &s.input, error) : spark__one_row(t, &s.input, error);
  if (status == TRN_OK)
    status = spark__time_windows(t, &s.input, NULL, 0, project->expressions, project->n_expressions, error);
  return status == TRN_OK ? run(&s, project->expressions, project->n_expressions, out, error) : status;
}

/* ---- ORDER BY over a relation that is there ---- */
trn_status spark__sort_relation(spark_translator *t, spark_relation *relation,
                                Spark__Connect__Expression__SortOrder *const *order, size_t count, bool all,
                                bool is_global, const Spark__Connect__TrnSelect *select, trn_error **error) {
  spark_value *visible = NULL;
  size_t visible_count = 0;
  trn_status status = spark__scope_values(t, relation->scope, &visible, &visible_count, error);
  size_t key_count = all ? visible_count : count;
  const trn_expr **keys = TRN_NEW_N(t->arena, const trn_expr *, key_count);
  trn_sort_flags *flags = TRN_NEW_N(t->arena, trn_sort_flags, key_count);
  if (status != TRN_OK) return status;
  if (!keys || !flags) return trn__no_memory(error);
  spark_context context;
  spark__context_begin(t, &context, relation->scope);
  context.use_below = true;
  context.select = select;
  for (size_t i = 0; i < key_count && status == TRN_OK; i++) {
    const Spark__Connect__Expression__SortOrder *item = all ? (count ? order[0] : NULL) : order[i];
    flags[i] = item ? spark__sort_flags(item) : (trn_sort_flags){false, true};
    const Spark__Connect__Expression__Literal *ordinal = all || !item->child ? NULL : ordinal_of(item->child);
    if (all || ordinal) {
      int64_t index = all ? (int64_t)i + 1 : ordinal->integer;
      if (index < 1 || (uint64_t)index > visible_count)
        status =
            out_of_range(t, "ORDER_BY_POS_OUT_OF_RANGE", index, visible_count, spark__position(t, item->child), error);
      else
        keys[i] = visible[index - 1].expr;
      continue;
    }
    spark_value value;
    status = spark__expression(t, item->child, &value, error);
    keys[i] = value.expr;
    if (status == TRN_OK) status = spark__refuse_subqueries(t, value.expr, relation->scope, error);
    if (status == TRN_OK) status = spark__refuse_generators(t, &value, "Sort [%s ASC NULLS FIRST], true", error);
    if (status == TRN_OK) status = spark__refuse_unordered(t, &value, flags[i], error);
    if (status == TRN_OK && value.has_aggregate)
      status = spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_EXPR_FOR_OPERATOR",
                            spark__position(t, item->child), "invalidExprSqls", spark__sql_text(t, value.name), NULL);
  }
  spark__context_end(t, &context);
  return status == TRN_OK ? spark__sort_by(t, relation, keys, flags, key_count, is_global, error) : status;
}
