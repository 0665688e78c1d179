/* Relations that need a query's answer before they have a shape, and the statistics that are sampled or approximate in
 * Spark: tail, transpose, freqItems, approxQuantile, sampleBy. */
#include "frontend/spark/translate/scope.h"
#include <math.h>
#include <stdio.h>
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};

static spark_value int_value(spark_translator *t, int64_t number) {
  return (spark_value){
      .expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), number), .name = "n", .is_foldable = true};
}

static spark_value double_value(spark_translator *t, double number) {
  return (spark_value){
      .expr = spark__double_literal(t, number, trn__type(TRN_TYPE_FLOAT64)), .name = "p", .is_foldable = true};
}

trn_status spark__named_values(spark_translator *t, const spark_scope *scope, char *const *names, size_t count,
                               spark_value **out, trn_error **error) {
  spark_context context;
  spark_value *values = TRN_NEW_N(t->arena, spark_value, count);
  trn_status status = TRN_OK;
  if (!values) return trn__no_memory(error);
  spark__context_begin(t, &context, scope);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
    attribute.unparsed_identifier = names[i];
    status = spark__resolve_attribute(t, &attribute, NOWHERE, &values[i], error);
  }
  spark__context_end(t, &context);
  *out = values;
  return status;
}

/* The relation grouped by keys (columns first in the result), with the aggregates behind them. */
trn_status spark__grouped(spark_translator *t, const spark_relation *input, const spark_value *keys, size_t key_count,
                          const spark_value *calls, size_t call_count, spark_relation *out, trn_error **error) {
  spark_aggregation aggregation = {.scope = input->scope, .has_group_by = key_count > 0};
  spark_value *all = TRN_NEW_N(t->arena, spark_value, key_count + call_count);
  if (!all) return trn__no_memory(error);
  trn_status status = spark__aggregation_keys(t, &aggregation, keys, key_count, error);
  for (size_t i = 0; i < key_count + call_count && status == TRN_OK; i++) {
    all[i] = i < key_count ? keys[i] : calls[i - key_count];
    status = spark__aggregation_lift(t, &aggregation, all[i].expr, &all[i].expr, error);
  }
  spark_relation below = {.scope = input->scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, input->rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, all, key_count + call_count, NULL, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

/* ---- tail ---- */
static trn_status row_count_of(spark_translator *t, const spark_relation *input, int64_t *out, trn_error **error) {
  spark_value one = int_value(t, 1), count;
  spark_relation counted;
  spark_rows rows = {0};
  if (!one.expr) return trn__no_memory(error);
  trn_status status = spark__call_by_name(t, "count", &one, 1, NOWHERE, &count, error);
  if (status == TRN_OK) status = spark__grouped(t, input, NULL, 0, &count, 1, &counted, error);
  if (status == TRN_OK) status = spark__run_now(t, &counted, 1, &rows, error);
  if (status == TRN_OK) *out = rows.row_count ? rows.cells[0]->u.literal.value.integer : 0;
  return status;
}

static trn_status tail(spark_translator *t, const Spark__Connect__Tail *node, spark_relation *out, trn_error **error) {
  int64_t count = 0;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status != TRN_OK) return status;
  if (node->limit < 0) return spark__negative_limit(t, "tail", node->limit, NOWHERE, error);
  status = row_count_of(t, out, &count, error);
  return status == TRN_OK ? spark__limit(t, out, count > node->limit ? count - node->limit : 0, node->limit, error)
                          : status;
}

/* ---- transpose ---- */
typedef struct transposed {
  spark_translator *t;
  spark_relation input;
  spark_value index, *others;
  size_t other_count;
  const trn_type *type; /* of the cells */
} transposed;

static trn_status bad_index(transposed *x, const char *reason, trn_error **error) {
  return spark__error(x->t, error, TRN_INVALID_ARGUMENT, "TRANSPOSE_INVALID_INDEX_COLUMN", NOWHERE, "reason", reason,
                      NULL);
}

static trn_status find_index(transposed *x, const Spark__Connect__Transpose *node, trn_error **error) {
  spark_translator *t = x->t;
  spark_context context;
  spark_value *all = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(t, x->input.scope, &all, &count, error);
  if (status != TRN_OK) return status;
  if (node->n_index_columns > 1) return bad_index(x, "Index column must be an atomic attribute", error);
  if (node->n_index_columns) {
    spark__context_begin(t, &context, x->input.scope);
    status = spark__expression(t, node->index_columns[0], &x->index, error);
    spark__context_end(t, &context);
    if (status != TRN_OK) return status;
  } else if (count) {
    x->index = all[0];
  }
  if (!x->index.expr || x->index.expr->kind != TRN_EXPR_COLUMN)
    return bad_index(x, "Index column must be an atomic attribute", error);
  if (!spark__is_atomic(x->index.expr->type)) {
    trn_strbuf text = {0};
    trn__strbuf_puts(&text, "Index column must be of atomic type, but found: ");
    spark__type_sql(&text, x->index.expr->type);
    const char *reason = spark__finish_text(t, &text);
    return reason ? bad_index(x, reason, error) : trn__no_memory(error);
  }
  x->others = all;
  for (size_t i = 0; i < count; i++)
    if (all[i].expr->u.column != x->index.expr->u.column) x->others[x->other_count++] = all[i];
  return TRN_OK;
}

/* The type that all other columns get; numbers and texts have none. */
static trn_status find_type(transposed *x, trn_error **error) {
  spark_translator *t = x->t;
  const trn_type **types = TRN_NEW_N(t->arena, const trn_type *, x->other_count), *other = NULL;
  bool any_text = false, any_else = false;
  if (!types) return trn__no_memory(error);
  x->type = x->other_count ? NULL : trn__type(TRN_TYPE_STRING);
  for (size_t i = 0; i < x->other_count; i++) {
    types[i] = x->others[i].expr->type;
    any_text |= types[i]->id == TRN_TYPE_STRING;
    any_else |= types[i]->id != TRN_TYPE_STRING && types[i]->id != TRN_TYPE_NULL;
    if (!other && !trn__type_equal(types[0], types[i])) other = types[i];
  }
  if (x->other_count && !(any_text && any_else) && spark__common_type(t, types, x->other_count, &x->type) != TRN_OK)
    return trn__no_memory(error);
  if (x->type) return TRN_OK;
  const char *first = spark__quoted_type(t, types[0]), *second = spark__quoted_type(t, other ? other : types[0]);
  if (!first || !second) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "TRANSPOSE_NO_LEAST_COMMON_TYPE", NOWHERE, "dt1", first, "dt2",
                      second, NULL);
}

/* Adds a column below what is shown: the rows' numbers. */
static trn_status row_number(spark_translator *t, spark_relation *relation, const trn_expr **out, trn_error **error) {
  spark_value number;
  trn_status status = spark__sequence_id(t, &number, error);
  const trn_rel *rel = relation->rel;
  if (status == TRN_OK) status = spark__lift_windows(t, &rel, &number.expr, 1, error);
  if (status != TRN_OK) return status;
  relation->rel = rel;
  *out = number.expr;
  return TRN_OK;
}

/* Index texts and cells, in the order of the index. */
static trn_status transposed_rows(transposed *x, spark_rows *rows, trn_error **error) {
  spark_translator *t = x->t;
  spark_value *values = TRN_NEW_N(t->arena, spark_value, x->other_count + 1), present;
  const trn_expr *key = x->index.expr;
  const trn_sort_flags flags[2] = {{.nulls_first = true}, {.nulls_first = true}};
  spark_relation sorted = x->input, shown;
  if (!values) return trn__no_memory(error);
  trn_status status = spark__call_by_name(t, "isnotnull", &x->index, 1, NOWHERE, &present, error);
  if (status != TRN_OK) return status;
  sorted.rel = trn__rel_filter(t->arena, sorted.rel, present.expr);
  if (!sorted.rel) return trn__no_memory(error);
  const trn_expr *keys[2] = {key, NULL};
  status = row_number(t, &sorted, &keys[1], error); /* equal indexes stay as they came */
  if (status == TRN_OK) status = spark__sort_by(t, &sorted, keys, flags, 2, true, error);
  if (status == TRN_OK) status = spark__limit(t, &sorted, 0, TRN_TRANSPOSE_ROWS_MAX + 1, error);
  values[0] = x->index;
  for (size_t i = 0; i <= x->other_count && status == TRN_OK; i++) {
    if (i) values[i] = x->others[i - 1];
    status = spark__cast(t, values[i].expr, i ? x->type : trn__type(TRN_TYPE_STRING), SPARK_CAST_ANSI, NOWHERE,
                         &values[i].expr, error);
    values[i].is_alias = true;
    values[i].is_attribute = false;
  }
  if (status == TRN_OK) status = spark__project(t, &sorted, values, x->other_count + 1, NULL, &shown, error);
  if (status == TRN_OK) shown.scope->below = NULL;
  if (status == TRN_OK) status = spark__run_now(t, &shown, TRN_TRANSPOSE_ROWS_MAX + 1, rows, error);
  if (status != TRN_OK || rows->row_count <= TRN_TRANSPOSE_ROWS_MAX) return status;
  char most[24];
  snprintf(most, sizeof most, "%u", TRN_TRANSPOSE_ROWS_MAX);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "TRANSPOSE_EXCEED_ROW_LIMIT", NOWHERE, "maxValues", most,
                      "config", "spark.sql.transposeMaxValues", NULL);
}

static trn_status transpose(spark_translator *t, const Spark__Connect__Transpose *node, spark_relation *out,
                            trn_error **error) {
  transposed x = {.t = t};
  spark_rows rows = {0}, turned = {0};
  trn_status status = spark__relation(t, node->input, &x.input, error);
  if (status == TRN_OK) status = find_index(&x, node, error);
  if (status == TRN_OK) status = find_type(&x, error);
  if (status == TRN_OK) status = transposed_rows(&x, &rows, error);
  if (status != TRN_OK) return status;
  turned.width = rows.row_count + 1;
  turned.row_count = x.other_count;
  turned.cells = TRN_NEW_N(t->arena, const trn_expr *, turned.width *turned.row_count);
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, turned.width);
  if (!turned.cells || !fields) return trn__no_memory(error);
  fields[0] = (trn_field){.name = "key", .type = trn__type(TRN_TYPE_STRING)};
  for (size_t r = 0; r < rows.row_count; r++)
    fields[r + 1] =
        (trn_field){.name = rows.cells[r * rows.width]->u.literal.value.bytes.data, .type = x.type, .nullable = true};
  for (size_t c = 0; c < turned.row_count; c++) {
    const trn_expr **row = turned.cells + c * turned.width;
    row[0] = trn__expr_string(t->arena, x.others[c].name, strlen(x.others[c].name));
    if (!row[0]) return trn__no_memory(error);
    for (size_t r = 0; r < rows.row_count; r++) row[r + 1] = rows.cells[r * rows.width + c + 1];
  }
  return spark__rows_relation(t, &turned, fields, out, error);
}

/* ---- freqItems: exact, where Spark counts with as many counters as fit the support ---- */
static trn_expr *array_literal(spark_translator *t, const trn_type *element, const trn_expr **items, size_t count,
                               bool contains_null) {
  const trn_type *type = trn__type_array(t->arena, element, contains_null);
  trn_expr *expr =
      type && count <= UINT32_MAX ? trn__expr_create(t->arena, TRN_EXPR_LITERAL, type, false, NULL, 0) : NULL;
  if (!expr) return NULL;
  expr->u.literal.value.nested.items = items;
  expr->u.literal.value.nested.count = (uint32_t)count;
  return expr;
}

static trn_status frequent_of(spark_translator *t, const spark_relation *input, const spark_value *column,
                              size_t counters, const trn_expr **out, trn_error **error) {
  spark_value one = int_value(t, 1), count;
  spark_relation grouped;
  spark_rows rows = {0};
  if (!one.expr) return trn__no_memory(error);
  trn_status status = spark__call_by_name(t, "count", &one, 1, NOWHERE, &count, error);
  if (status == TRN_OK) status = spark__grouped(t, input, column, 1, &count, 1, &grouped, error);
  if (status == TRN_OK) status = spark__run_now(t, &grouped, TRN_FREQUENT_VALUES_MAX + 1, &rows, error);
  if (status != TRN_OK) return status;
  if (rows.row_count > TRN_FREQUENT_VALUES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "A column has more different values than TRN_FREQUENT_VALUES_MAX (%u).",
                         TRN_FREQUENT_VALUES_MAX);
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, rows.row_count);
  size_t used = 0;
  int64_t total = 0;
  if (!items) return trn__no_memory(error);
  for (size_t i = 0; i < rows.row_count; i++) total += rows.cells[2 * i + 1]->u.literal.value.integer;
  for (size_t i = 0; i < rows.row_count; i++) {
    double share = (double)rows.cells[2 * i + 1]->u.literal.value.integer * (double)(counters + 1);
    if (rows.row_count <= counters || share > (double)total) items[used++] = rows.cells[2 * i];
  }
  *out = array_literal(t, column->expr->type, items, used, true);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status freq_items(spark_translator *t, const Spark__Connect__StatFreqItems *node, spark_relation *out,
                             trn_error **error) {
  double support = node->_support_case ? node->support : 0.01;
  spark_relation input;
  spark_value *columns = NULL;
  if (!(support >= 1e-4 && support <= 1)) {
    trn_strbuf text = {0};
    spark__double_text(&text, support);
    const char *shown = spark__finish_text(t, &text);
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "requirement failed: Support must be in [1e-4, 1], but got %s.", shown ? shown : "");
  }
  trn_status status = spark__relation(t, node->input, &input, error);
  if (status == TRN_OK) status = spark__named_values(t, input.scope, node->cols, node->n_cols, &columns, error);
  if (status != TRN_OK) return status;
  spark_rows rows = {.width = node->n_cols, .row_count = 1};
  rows.cells = TRN_NEW_N(t->arena, const trn_expr *, node->n_cols);
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, node->n_cols);
  if (!rows.cells || !fields) return trn__no_memory(error);
  for (size_t i = 0; i < node->n_cols && status == TRN_OK; i++) {
    status = frequent_of(t, &input, &columns[i], (size_t)(1 / support), &rows.cells[i], error);
    if (status != TRN_OK) break;
    fields[i].name = trn__arena_printf(t->arena, "%s_freqItems", columns[i].name);
    fields[i].type = rows.cells[i]->type;
    if (!fields[i].name) status = trn__no_memory(error);
  }
  return status == TRN_OK ? spark__rows_relation(t, &rows, fields, out, error) : status;
}

/* ---- approxQuantile: exact, which any error that is asked for allows ---- */
/* sort_array(collect_list(value)) without nulls and NaN. */
static trn_status sorted_list(spark_translator *t, const spark_value *column, spark_value *out, trn_error **error) {
  spark_value value = *column, flag, branch[2];
  trn_status status =
      spark__cast(t, value.expr, trn__type(TRN_TYPE_FLOAT64), SPARK_CAST_ANSI, NOWHERE, &value.expr, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "isnan", &value, 1, NOWHERE, &flag, error);
  if (status == TRN_OK) status = spark__call_by_name(t, "not", &flag, 1, NOWHERE, &branch[0], error);
  branch[1] = value;
  if (status == TRN_OK) status = spark__call_by_name(t, "when", branch, 2, NOWHERE, &value, error);
  return status == TRN_OK ? spark__sorted_values(t, &value, out, error) : status;
}

trn_status spark__sorted_values(spark_translator *t, const spark_value *value, spark_value *out, trn_error **error) {
  spark_value list;
  trn_status status = spark__call_by_name(t, "collect_list", value, 1, NOWHERE, &list, error);
  return status == TRN_OK ? spark__call_by_name(t, "sort_array", &list, 1, NOWHERE, out, error) : status;
}

trn_status spark__quantile_of(spark_translator *t, const spark_value *sorted, double probability, double tolerance,
                              spark_value *out, trn_error **error) {
  spark_value size, args[2], index[2];
  trn_status status = spark__call_by_name(t, "size", sorted, 1, NOWHERE, &size, error);
  if (probability <= tolerance) {
    index[0] = int_value(t, 1);
    if (!index[0].expr) return trn__no_memory(error);
  } else if (probability >= 1 - tolerance) {
    index[0] = size;
  } else if (status == TRN_OK) {
    args[0] = double_value(t, probability);
    args[1] = size;
    if (!args[0].expr) return trn__no_memory(error);
    status = spark__call_by_name(t, "*", args, 2, NOWHERE, &args[0], error);
    if (status == TRN_OK) status = spark__call_by_name(t, "ceil", args, 1, NOWHERE, &index[0], error);
    if (status == TRN_OK)
      status =
          spark__cast(t, index[0].expr, trn__type(TRN_TYPE_INT32), SPARK_CAST_ANSI, NOWHERE, &index[0].expr, error);
  }
  index[1] = int_value(t, 1);
  if (!index[1].expr) return trn__no_memory(error);
  args[0] = *sorted;
  if (status == TRN_OK) status = spark__call_by_name(t, "-", index, 2, NOWHERE, &args[1], error);
  return status == TRN_OK ? spark__call_by_name(t, "get", args, 2, NOWHERE, out, error) : status;
}

static trn_status quantile_lists(spark_translator *t, const Spark__Connect__StatApproxQuantile *node,
                                 spark_relation *out, trn_error **error) {
  spark_relation input;
  spark_value *columns = NULL, *lists = TRN_NEW_N(t->arena, spark_value, node->n_cols);
  if (!lists) return trn__no_memory(error);
  trn_status status = spark__relation(t, node->input, &input, error);
  if (status == TRN_OK) status = spark__named_values(t, input.scope, node->cols, node->n_cols, &columns, error);
  for (size_t i = 0; i < node->n_cols && status == TRN_OK; i++) {
    const trn_type *type = columns[i].expr->type;
    if (!trn__type_is_numeric(type)) {
      trn_strbuf text = {0};
      spark__type_simple(&text, type);
      const char *shown = spark__finish_text(t, &text);
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "requirement failed: Quantile calculation for column %s with data type %s is not supported.",
                           columns[i].name, shown ? shown : "");
    }
    status = sorted_list(t, &columns[i], &lists[i], error);
    lists[i].is_alias = true;
  }
  return status == TRN_OK ? spark__grouped(t, &input, NULL, 0, lists, node->n_cols, out, error) : status;
}

static trn_status approx_quantile(spark_translator *t, const Spark__Connect__StatApproxQuantile *node,
                                  spark_relation *out, trn_error **error) {
  size_t width = node->n_probabilities, count = node->n_cols;
  spark_relation lists, cells;
  spark_rows rows = {0}, one = {.width = 1, .row_count = 1};
  if (node->relative_error < 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: Relative Error must be non-negative.");
  for (size_t i = 0; i < width; i++)
    if (!(node->probabilities[i] >= 0 && node->probabilities[i] <= 1))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "requirement failed: percentile should be in the range [0.0, 1.0]");
  trn_status status = quantile_lists(t, node, &lists, error);
  spark_value *values = TRN_NEW_N(t->arena, spark_value, width * count);
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, count);
  one.cells = TRN_NEW_N(t->arena, const trn_expr *, 1);
  if (status != TRN_OK) return status;
  if (!values || !items || !one.cells) return trn__no_memory(error);
  for (size_t c = 0; c < count; c++)
    for (size_t i = 0; i < width && status == TRN_OK; i++) {
      spark_value list, *value = &values[c * width + i];
      spark__column_value(&lists.scope->columns[c], "q", &list);
      status = spark__quantile_of(t, &list, node->probabilities[i], node->relative_error, value, error);
      value->is_alias = true;
    }
  if (status == TRN_OK && width && count) {
    status = spark__project(t, &lists, values, width * count, NULL, &cells, error);
    if (status == TRN_OK) cells.scope->below = NULL;
    if (status == TRN_OK) status = spark__run_now(t, &cells, 1, &rows, error);
  }
  if (status != TRN_OK) return status;
  for (size_t c = 0; c < count; c++) { /* a column without values has no quantiles */
    bool none = !width || !rows.row_count || rows.cells[c * width]->u.literal.is_null;
    items[c] =
        array_literal(t, trn__type(TRN_TYPE_FLOAT64), none ? NULL : rows.cells + c * width, none ? 0 : width, false);
    if (!items[c]) return trn__no_memory(error);
  }
  const trn_type *inner = trn__type_array(t->arena, trn__type(TRN_TYPE_FLOAT64), false);
  one.cells[0] = inner ? array_literal(t, inner, items, count, false) : NULL;
  if (!one.cells[0]) return trn__no_memory(error);
  const trn_field field = {.name = "approx_quantile", .type = one.cells[0]->type};
  return spark__rows_relation(t, &one, &field, out, error);
}

/* ---- sampleBy: rand(seed) < the fraction of the row's stratum ---- */
static trn_status sample_by(spark_translator *t, const Spark__Connect__StatSampleBy *node, spark_relation *out,
                            trn_error **error) {
  spark_value column, pair[2], seed;
  spark_value *args = TRN_NEW_N(t->arena, spark_value, 2 * node->n_fractions + 1);
  spark_context context;
  if (!args) return trn__no_memory(error);
  trn_status status = spark__relation(t, node->input, out, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, out->scope);
  status = spark__expression(t, node->col, &column, error);
  for (size_t i = 0; i < node->n_fractions && status == TRN_OK; i++) {
    double fraction = node->fractions[i]->fraction;
    if (!(fraction >= 0 && fraction <= 1)) {
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: Fractions must be in [0, 1].");
      break;
    }
    pair[0] = column;
    status = spark__literal(t, node->fractions[i]->stratum, NOWHERE, &pair[1], error);
    if (status == TRN_OK) status = spark__call_by_name(t, "<=>", pair, 2, NOWHERE, &args[2 * i], error);
    args[2 * i + 1] = double_value(t, fraction);
    if (status == TRN_OK && !args[2 * i + 1].expr) status = trn__no_memory(error);
  }
  args[2 * node->n_fractions] = double_value(t, 0);
  seed = (spark_value){
      .expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), node->_seed_case ? node->seed : trn__now_ns()),
      .name = "seed",
      .is_foldable = true,
      .is_literal = true};
  if (status == TRN_OK && (!seed.expr || !args[2 * node->n_fractions].expr)) status = trn__no_memory(error);
  if (status == TRN_OK) status = spark__call_by_name(t, "rand", &seed, 1, NOWHERE, &pair[0], error);
  pair[1] = args[0];
  if (status == TRN_OK && node->n_fractions)
    status = spark__call_by_name(t, "when", args, 2 * node->n_fractions + 1, NOWHERE, &pair[1], error);
  if (status == TRN_OK) status = spark__call_by_name(t, "<", pair, 2, NOWHERE, &pair[0], error);
  spark__context_end(t, &context);
  const trn_rel *rel = out->rel;
  const trn_expr *condition = pair[0].expr;
  if (status == TRN_OK) status = spark__lift_windows(t, &rel, &condition, 1, error); /* rand takes the row's number */
  if (status != TRN_OK) return status;
  out->rel = trn__rel_filter(t->arena, rel, condition);
  return out->rel ? TRN_OK : trn__no_memory(error);
}

trn_status spark__relation_run(spark_translator *t, const Spark__Connect__Relation *r, spark_relation *out,
                               trn_error **error) {
  switch ((int)r->rel_type_case) {
  case SPARK__CONNECT__RELATION__REL_TYPE_TAIL: return tail(t, r->tail, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_TRANSPOSE: return transpose(t, r->transpose, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_FREQ_ITEMS: return freq_items(t, r->freq_items, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_APPROX_QUANTILE: return approx_quantile(t, r->approx_quantile, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_SAMPLE_BY: return sample_by(t, r->sample_by, out, error);
  default: return spark__relation_crosstab(t, r->crosstab, out, error);
  }
}
