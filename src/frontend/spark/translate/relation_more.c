/* Relations that are made of others: nulls filled, dropped and replaced; unpivot and pivot. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};
typedef Spark__Connect__Expression__Literal literal;

/* ---- columns by name ---- */
static trn_status chosen_columns(spark_translator *t, const spark_relation *relation, char *const *names,
                                 size_t name_count, spark_value **values, size_t *count, uint32_t **chosen,
                                 trn_error **error) {
  trn_status status = spark__scope_values(t, relation->scope, values, count, error);
  uint32_t *marks = TRN_NEW_N(t->arena, uint32_t, *count); /* 0: not chosen; else 1 + which name */
  if (status != TRN_OK) return status;
  if (!marks) return trn__no_memory(error);
  for (size_t i = 0; i < *count && name_count == 0; i++) marks[i] = 1;
  for (size_t n = 0; n < name_count; n++) {
    char **parts = NULL;
    size_t part_count = 0;
    spark_resolved resolved;
    bool found = false;
    status = spark__sql_parse_attribute_name(t->arena, names[n], strlen(names[n]), &parts, &part_count, error);
    if (status == TRN_OK)
      status = spark__scope_resolve(t, relation->scope, parts, part_count, NOWHERE, &resolved, &found, error);
    if (status != TRN_OK) return status;
    if (!found || resolved.used != part_count)
      return spark__unresolved_column(t, relation->scope, parts, part_count, NOWHERE, error);
    for (size_t i = 0; i < *count; i++)
      if ((*values)[i].expr->u.column == resolved.column->expr->u.column) marks[i] = (uint32_t)n + 1;
  }
  *chosen = marks;
  return TRN_OK;
}

static void keep_name(spark_value *made, const spark_value *from) {
  made->name = from->name;
  made->metadata = from->metadata;
  made->is_alias = true;
  made->is_attribute = false;
}

static bool is_float(const trn_type *type) {
  return type->id == TRN_TYPE_FLOAT32 || type->id == TRN_TYPE_FLOAT64;
}

/* Whether fill and replace touch a column of this type with such a value. */
static bool fits(const trn_type *column, const trn_type *value) {
  if (trn__type_is_numeric(value)) return trn__type_is_numeric(column);
  return column->id == value->id;
}

/* ---- fill ---- */
static trn_status filled(spark_translator *t, const spark_value *column, const spark_value *value, spark_value *out,
                         trn_error **error) {
  spark_value pair[2] = {*column, *value};
  trn_status status = spark__cast(t, value->expr, column->expr->type, SPARK_CAST_ANSI, NOWHERE, &pair[1].expr, error);
  if (status == TRN_OK && is_float(column->expr->type)) { /* NaN is filled too */
    spark_value nan[2] = {*column, {.name = "NULL", .is_foldable = true}};
    nan[1].expr = trn__expr_null(t->arena, column->expr->type);
    if (!nan[1].expr) return trn__no_memory(error);
    status = spark__call_by_name(t, "nanvl", nan, 2, NOWHERE, &pair[0], error);
  }
  if (status == TRN_OK) status = spark__call_by_name(t, "coalesce", pair, 2, NOWHERE, out, error);
  keep_name(out, column);
  return status;
}

static trn_status fill_na(spark_translator *t, const Spark__Connect__NAFill *node, spark_relation *out,
                          trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  uint32_t *chosen = NULL;
  if (node->n_values == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.NA_FILL_VALUES_EMPTY", NOWHERE, NULL);
  if (node->n_values > 1 && node->n_values != node->n_cols)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.NA_FILL_VALUES_LENGTH_MISMATCH", NOWHERE,
                        NULL);
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = chosen_columns(t, out, node->cols, node->n_cols, &values, &count, &chosen, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    if (!chosen[i]) continue;
    spark_value value, column = values[i];
    status = spark__literal(t, node->values[node->n_values > 1 ? chosen[i] - 1 : 0], NOWHERE, &value, error);
    if (status == TRN_OK && fits(column.expr->type, value.expr->type))
      status = filled(t, &column, &value, &values[i], error);
  }
  return status == TRN_OK ? spark__project(t, out, values, count, NULL, out, error) : status;
}

/* ---- drop ---- */
static trn_status present(spark_translator *t, const spark_value *column, spark_value *out, trn_error **error) {
  trn_status status = spark__call_by_name(t, "isnotnull", column, 1, NOWHERE, out, error);
  if (status != TRN_OK || !is_float(column->expr->type)) return status;
  spark_value nan, pair[2] = {*out, {0}};
  status = spark__call_by_name(t, "isnan", column, 1, NOWHERE, &nan, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "not", &nan, 1, NOWHERE, &pair[1], error);
  return status == TRN_OK ? spark__call_by_name(t, "and", pair, 2, NOWHERE, out, error) : status;
}

/* Folds values by a binary function, as a balanced tree. */
static trn_status fold(spark_translator *t, const char *function, spark_value *values, size_t count,
                       trn_error **error) {
  trn_status status = TRN_OK;
  for (; count > 1 && status == TRN_OK; count = (count + 1) / 2)
    for (size_t i = 0; i < count / 2 && status == TRN_OK; i++) {
      spark_value pair[2] = {values[2 * i], values[2 * i + 1]};
      status = spark__call_by_name(t, function, pair, 2, NOWHERE, &values[i], error);
      if (i + 1 == count / 2 && count % 2) values[i + 1] = values[count - 1];
    }
  return status;
}

static trn_status as_count(spark_translator *t, spark_value *flag, trn_error **error) {
  spark_value branches[3] = {*flag, {.name = "1", .is_foldable = true}, {.name = "0", .is_foldable = true}};
  branches[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), 1);
  branches[2].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), 0);
  if (!branches[1].expr || !branches[2].expr) return trn__no_memory(error);
  return spark__call_by_name(t, "when", branches, 3, NOWHERE, flag, error);
}

static trn_status drop_na(spark_translator *t, const Spark__Connect__NADrop *node, spark_relation *out,
                          trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0, used = 0;
  uint32_t *chosen = NULL;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = chosen_columns(t, out, node->cols, node->n_cols, &values, &count, &chosen, error);
  if (status != TRN_OK) return status;
  bool counted = node->_min_non_nulls_case != 0;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    spark_value column = values[i];
    if (!chosen[i]) continue;
    status = present(t, &column, &values[used], error);
    if (status == TRN_OK && counted) status = as_count(t, &values[used], error);
    used++;
  }
  if (status != TRN_OK || used == 0) return status;
  status = fold(t, counted ? "+" : "and", values, used, error);
  if (status == TRN_OK && counted) {
    spark_value pair[2] = {values[0], {.name = "n", .is_foldable = true}};
    pair[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), node->min_non_nulls);
    if (!pair[1].expr) return trn__no_memory(error);
    status = spark__call_by_name(t, ">=", pair, 2, NOWHERE, &values[0], error);
  }
  if (status != TRN_OK) return status;
  out->rel = trn__rel_filter(t->arena, out->rel, values[0].expr);
  return out->rel ? TRN_OK : trn__no_memory(error);
}

/* ---- replace ---- */
static trn_status replaced(spark_translator *t, const Spark__Connect__NAReplace *node, spark_value *column,
                           trn_error **error) {
  spark_value *args = TRN_NEW_N(t->arena, spark_value, 2 * node->n_replacements + 1), original = *column;
  size_t count = 0;
  trn_status status = TRN_OK;
  if (!args) return trn__no_memory(error);
  for (size_t i = 0; i < node->n_replacements && status == TRN_OK; i++) {
    spark_value pair[2] = {original, {0}}, new_value;
    status = spark__literal(t, node->replacements[i]->old_value, NOWHERE, &pair[1], error);
    if (status == TRN_OK) status = spark__literal(t, node->replacements[i]->new_value, NOWHERE, &new_value, error);
    if (status != TRN_OK || !fits(original.expr->type, pair[1].expr->type)) continue;
    status = spark__cast(t, pair[1].expr, original.expr->type, SPARK_CAST_ANSI, NOWHERE, &pair[1].expr, error);
    if (status == TRN_OK)
      status = spark__cast(t, new_value.expr, original.expr->type, SPARK_CAST_ANSI, NOWHERE, &new_value.expr, error);
    if (status == TRN_OK) status = spark__call_by_name(t, "==", pair, 2, NOWHERE, &args[count], error);
    args[count + 1] = new_value;
    count += 2;
  }
  if (status != TRN_OK || count == 0) return status;
  args[count++] = original;
  status = spark__call_by_name(t, "when", args, count, NOWHERE, column, error);
  keep_name(column, &original);
  return status;
}

static trn_status replace(spark_translator *t, const Spark__Connect__NAReplace *node, spark_relation *out,
                          trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  uint32_t *chosen = NULL;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = chosen_columns(t, out, node->cols, node->n_cols, &values, &count, &chosen, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    if (chosen[i]) status = replaced(t, node, &values[i], error);
  return status == TRN_OK ? spark__project(t, out, values, count, NULL, out, error) : status;
}

/* ---- unpivot: every row once for each value column ---- */
typedef struct unpivot {
  spark_relation input;
  spark_value *ids, *values; /* values: set by set, width each */
  size_t id_count, set_count, width;
  const char **labels; /* of the sets */
  const char *name_column, *const *value_columns;
} unpivot;

/* The input joined with the numbers of the sets. */
trn_status spark__numbered(spark_translator *t, const trn_rel **rel, size_t count, const trn_expr **number,
                           trn_error **error) {
  const trn_expr **rows = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_column column = {.id = t->next_column++, .type = trn__type(TRN_TYPE_INT32)};
  if (!rows) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    rows[i] = trn__expr_int(t->arena, column.type, (int64_t)i);
    if (!rows[i]) return trn__no_memory(error);
  }
  trn_rel *values = trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, rows, count, &column, 1);
  if (!values) return trn__no_memory(error);
  values->u.values.row_count = (uint32_t)count;
  *number = trn__expr_column(t->arena, &column);
  *rel = trn__rel_join(t->arena, TRN_JOIN_INNER, *rel, values, NULL);
  return *rel && *number ? TRN_OK : trn__no_memory(error);
}

/* CASE number WHEN 0 THEN items[0] WHEN 1 ... ELSE the last END */
trn_status spark__by_number(spark_translator *t, const trn_expr *number, const spark_value *items, size_t stride,
                            size_t count, spark_value *out, trn_error **error) {
  spark_value *args = TRN_NEW_N(t->arena, spark_value, 2 * count);
  trn_status status = TRN_OK;
  if (!args) return trn__no_memory(error);
  *out = items[(count - 1) * stride];
  if (count == 1) return TRN_OK;
  for (size_t i = 0; i + 1 < count && status == TRN_OK; i++) {
    spark_value pair[2] = {{.expr = number, .name = "n"}, {.name = "i", .is_foldable = true}};
    pair[1].expr = trn__expr_int(t->arena, number->type, (int64_t)i);
    if (!pair[1].expr) return trn__no_memory(error);
    status = spark__call_by_name(t, "==", pair, 2, NOWHERE, &args[2 * i], error);
    args[2 * i + 1] = items[i * stride];
  }
  args[2 * count - 2] = items[(count - 1) * stride];
  return status == TRN_OK ? spark__call_by_name(t, "when", args, 2 * count - 1, NOWHERE, out, error) : status;
}

static trn_status unpivot_types(spark_translator *t, unpivot *u, trn_error **error) {
  for (size_t w = 0; w < u->width; w++) {
    const trn_type **types = TRN_NEW_N(t->arena, const trn_type *, u->set_count), *common = NULL;
    if (!types) return trn__no_memory(error);
    for (size_t i = 0; i < u->set_count; i++) types[i] = u->values[i * u->width + w].expr->type;
    if (spark__common_type(t, types, u->set_count, &common) != TRN_OK) return trn__no_memory(error);
    if (!common)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNPIVOT_VALUE_DATA_TYPE_MISMATCH", NOWHERE, "types", "",
                          NULL);
    for (size_t i = 0; i < u->set_count; i++) {
      const trn_expr **cell = &u->values[i * u->width + w].expr;
      trn_status status = spark__cast(t, *cell, common, SPARK_CAST_IMPLICIT, NOWHERE, cell, error);
      if (status != TRN_OK) return status;
    }
  }
  return TRN_OK;
}

static trn_status run_unpivot(spark_translator *t, unpivot *u, bool drop_nulls, spark_relation *out,
                              trn_error **error) {
  const trn_expr *number = NULL;
  spark_value *labels = TRN_NEW_N(t->arena, spark_value, u->set_count);
  spark_value *all = TRN_NEW_N(t->arena, spark_value, u->id_count + 1 + u->width);
  spark_relation below = u->input;
  if (!labels || !all) return trn__no_memory(error);
  for (size_t i = 0; i < u->set_count; i++) {
    labels[i] = (spark_value){.expr = trn__expr_string(t->arena, u->labels[i], strlen(u->labels[i])),
                              .name = u->labels[i],
                              .is_foldable = true};
    if (!labels[i].expr) return trn__no_memory(error);
  }
  trn_status status = unpivot_types(t, u, error);
  if (status == TRN_OK) status = spark__numbered(t, &below.rel, u->set_count, &number, error);
  if (status != TRN_OK) return status;
  size_t count = u->id_count;
  if (count) memcpy(all, u->ids, count * sizeof *all);
  status = spark__by_number(t, number, labels, 1, u->set_count, &all[count], error);
  keep_name(&all[count++], &(spark_value){.name = u->name_column});
  for (size_t w = 0; w < u->width && status == TRN_OK; w++) {
    status = spark__by_number(t, number, u->values + w, u->width, u->set_count, &all[count], error);
    keep_name(&all[count++], &(spark_value){.name = u->value_columns[w]});
  }
  if (status == TRN_OK) status = spark__project(t, &below, all, count, NULL, out, error);
  if (status != TRN_OK) return status;
  out->scope->below = NULL;
  if (!drop_nulls) return TRN_OK;
  spark_value *present_values = TRN_NEW_N(t->arena, spark_value, u->width);
  if (!present_values) return trn__no_memory(error);
  for (size_t w = 0; w < u->width && status == TRN_OK; w++) {
    spark_value column;
    spark__column_value(&out->scope->columns[u->id_count + 1 + w], "", &column);
    status = spark__call_by_name(t, "isnotnull", &column, 1, NOWHERE, &present_values[w], error);
  }
  if (status == TRN_OK) status = fold(t, "or", present_values, u->width, error);
  if (status != TRN_OK) return status;
  out->rel = trn__rel_filter(t->arena, out->rel, present_values[0].expr);
  return out->rel ? TRN_OK : trn__no_memory(error);
}

static bool is_listed(const spark_value *list, size_t count, const trn_expr *column) {
  for (size_t i = 0; i < count; i++)
    if (list[i].expr->kind == TRN_EXPR_COLUMN && list[i].expr->u.column == column->u.column) return true;
  return false;
}

static trn_status melt(spark_translator *t, const Spark__Connect__Unpivot *node, spark_relation *out,
                       trn_error **error) {
  unpivot u = {.width = 1,
               .name_column = node->variable_column_name,
               .value_columns = (const char *const *)&node->value_column_name};
  spark_context context;
  spark_value *all = NULL;
  size_t all_count = 0;
  trn_status status = spark__relation(t, node->input, &u.input, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, u.input.scope);
  status = spark__expressions(t, node->ids, node->n_ids, &u.ids, &u.id_count, error);
  if (status == TRN_OK && node->_values_case)
    status = spark__expressions(t, node->values->values, node->values->n_values, &u.values, &u.set_count, error);
  spark__context_end(t, &context);
  if (status == TRN_OK && !node->_values_case) { /* all that are no ids */
    status = spark__scope_values(t, u.input.scope, &all, &all_count, error);
    u.values = all;
    for (size_t i = 0; i < all_count; i++)
      if (!is_listed(u.ids, u.id_count, all[i].expr)) u.values[u.set_count++] = all[i];
  }
  if (status != TRN_OK) return status;
  if (u.set_count == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNPIVOT_REQUIRES_VALUE_COLUMNS", NOWHERE, NULL);
  u.labels = TRN_NEW_N(t->arena, const char *, u.set_count);
  if (!u.labels) return trn__no_memory(error);
  for (size_t i = 0; i < u.set_count; i++) u.labels[i] = u.values[i].name ? u.values[i].name : "";
  return run_unpivot(t, &u, false, out, error);
}

/* SQL's UNPIVOT: the columns that no set names stay as they are. */
static trn_status sql_unpivot(spark_translator *t, const Spark__Connect__TrnUnpivot *node, spark_relation *out,
                              trn_error **error) {
  unpivot u = {.set_count = node->n_sets,
               .width = node->n_value_columns,
               .name_column = node->name_column,
               .value_columns = (const char *const *)node->value_columns};
  spark_context context;
  spark_value *all = NULL;
  size_t all_count = 0;
  trn_status status = spark__relation(t, node->input, &u.input, error);
  if (status == TRN_OK) status = spark__scope_values(t, u.input.scope, &all, &all_count, error);
  u.values = TRN_NEW_N(t->arena, spark_value, u.set_count * u.width);
  u.labels = TRN_NEW_N(t->arena, const char *, u.set_count);
  if (status != TRN_OK) return status;
  if (!u.values || !u.labels) return trn__no_memory(error);
  spark__context_begin(t, &context, u.input.scope);
  for (size_t i = 0; i < u.set_count && status == TRN_OK; i++) {
    const Spark__Connect__TrnUnpivotSet *set = node->sets[i];
    trn_strbuf label = {0};
    if (set->n_columns != u.width)
      status = spark__error(t, error, TRN_INVALID_ARGUMENT, "UNPIVOT_VALUE_SIZE_MISMATCH", NOWHERE, "names", "", NULL);
    for (size_t w = 0; w < u.width && status == TRN_OK; w++) {
      spark_value *value = &u.values[i * u.width + w];
      status = spark__expression(t, set->columns[w], value, error);
      trn__strbuf_printf(&label, "%s%s", w ? "_" : "", status == TRN_OK && value->name ? value->name : "");
    }
    const char *made = spark__finish_text(t, &label);
    u.labels[i] = set->alias && *set->alias ? set->alias : made;
    if (status == TRN_OK && !u.labels[i]) status = trn__no_memory(error);
  }
  spark__context_end(t, &context);
  if (status != TRN_OK) return status;
  u.ids = all;
  for (size_t i = 0; i < all_count; i++)
    if (!is_listed(u.values, u.set_count * u.width, all[i].expr)) u.ids[u.id_count++] = all[i];
  return run_unpivot(t, &u, !node->include_nulls, out, error);
}

trn_status spark__relation_more(spark_translator *t, const Spark__Connect__Relation *r, spark_relation *out,
                                trn_error **error) {
  switch ((int)r->rel_type_case) {
  case SPARK__CONNECT__RELATION__REL_TYPE_FILL_NA: return fill_na(t, r->fill_na, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_DROP_NA: return drop_na(t, r->drop_na, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_REPLACE: return replace(t, r->replace, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_UNPIVOT: return melt(t, r->unpivot, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_TRN_UNPIVOT: return sql_unpivot(t, r->trn_unpivot, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_TRN_PIVOT: return spark__relation_sql_pivot(t, r->trn_pivot, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_UNRESOLVED_TABLE_VALUED_FUNCTION:
    return spark__relation_table_function(t, r->unresolved_table_valued_function, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_LATERAL_JOIN:
    return spark__relation_lateral_join(t, r->lateral_join, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_DESCRIBE:
  case SPARK__CONNECT__RELATION__REL_TYPE_SUMMARY:
  case SPARK__CONNECT__RELATION__REL_TYPE_COV:
  case SPARK__CONNECT__RELATION__REL_TYPE_CORR: return spark__relation_stat(t, r, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_AS_OF_JOIN: return spark__relation_as_of(t, r->as_of_join, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_NEAREST_BY_JOIN:
    return spark__relation_nearest_by(t, r->nearest_by_join, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_TAIL:
  case SPARK__CONNECT__RELATION__REL_TYPE_TRANSPOSE:
  case SPARK__CONNECT__RELATION__REL_TYPE_CROSSTAB:
  case SPARK__CONNECT__RELATION__REL_TYPE_FREQ_ITEMS:
  case SPARK__CONNECT__RELATION__REL_TYPE_APPROX_QUANTILE:
  case SPARK__CONNECT__RELATION__REL_TYPE_SAMPLE_BY: return spark__relation_run(t, r, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_TRN_LATERAL_VIEW:
    return spark__relation_lateral_view(t, r->trn_lateral_view, out, error);
  default: {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&spark__connect__relation__descriptor, (unsigned)r->rel_type_case);
    return spark__unimplemented(t, spark__relation_position(t, r), error, "The relation kind %s",
                                field ? field->name : "unknown");
  }
  }
}
