/* Statistics of columns: describe, summary, cov, corr. */
#include "frontend/spark/translate/scope.h"
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};

typedef struct statistics {
  spark_translator *t;
  spark_aggregation *aggregation;
  const char *const *names; /* of the statistics */
  size_t count;
  spark_value *columns; /* whose */
  size_t column_count;
} statistics;

static bool is_text(const trn_type *type) {
  return type->id == TRN_TYPE_STRING;
}

/* What summary calls a statistic: a function, or a percentile like "25%". */
static trn_status statistic(statistics *s, const char *name, const spark_value *column, spark_value *out,
                            trn_error **error) {
  spark_translator *t = s->t;
  spark_value args[2] = {*column};
  size_t size = strlen(name);
  bool percentile = size > 1 && name[size - 1] == '%';
  bool number = percentile || strcasecmp(name, "mean") == 0 || strcasecmp(name, "stddev") == 0;
  trn_status status = TRN_OK;
  if (number && is_text(column->expr->type)) /* text that is no number counts as null */
    status = spark__cast(t, column->expr, trn__type(TRN_TYPE_FLOAT64), SPARK_CAST_TRY, NOWHERE, &args[0].expr, error);
  if (status != TRN_OK) return status;
  if (!percentile) {
    const char *function = strcasecmp(name, "mean") == 0     ? "avg"
                           : strcasecmp(name, "stddev") == 0 ? "stddev_samp"
                                                             : name;
    if (strcasecmp(name, "count_distinct") != 0 && strcasecmp(name, "approx_count_distinct") != 0)
      return spark__call_by_name(t, function, args, 1, NOWHERE, out, error);
    spark_call call = {.name = name[0] == 'c' || name[0] == 'C' ? "count" : name,
                       .args = args,
                       .arg_count = 1,
                       .is_distinct = name[0] == 'c' || name[0] == 'C',
                       .position = NOWHERE};
    return spark__call(t, &call, out, error);
  }
  char *end = NULL;
  double percent = strtod(name, &end);
  if (!end || *end != '%' || percent < 0 || percent > 100)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Unable to parse %s as a percentile", name);
  /* percentile_approx with its usual accuracy, exactly. */
  status = spark__sorted_values(t, &args[0], &args[1], error);
  return status == TRN_OK ? spark__quantile_of(t, &args[1], percent / 100, 1e-4, out, error) : status;
}

/* One row of all statistics as texts, then one row for each. */
static trn_status table_of(statistics *s, const spark_relation *input, spark_relation *out, trn_error **error) {
  spark_translator *t = s->t;
  spark_value *cells = TRN_NEW_N(t->arena, spark_value, s->count * s->column_count);
  spark_value *labels = TRN_NEW_N(t->arena, spark_value, s->count),
              *all = TRN_NEW_N(t->arena, spark_value, s->column_count + 1);
  const trn_expr *number = NULL;
  if (!cells || !labels || !all) return trn__no_memory(error);
  trn_status status = spark__aggregation_keys(t, s->aggregation, NULL, 0, error);
  for (size_t i = 0; i < s->count && status == TRN_OK; i++) {
    labels[i] = (spark_value){
        .expr = trn__expr_string(t->arena, s->names[i], strlen(s->names[i])), .name = s->names[i], .is_foldable = true};
    if (!labels[i].expr) return trn__no_memory(error);
    for (size_t c = 0; c < s->column_count && status == TRN_OK; c++) {
      spark_value *cell = &cells[i * s->column_count + c];
      status = statistic(s, s->names[i], &s->columns[c], cell, error);
      if (status == TRN_OK) status = spark__aggregation_lift(t, s->aggregation, cell->expr, &cell->expr, error);
      if (status == TRN_OK)
        status = spark__cast(t, cell->expr, trn__type(TRN_TYPE_STRING), SPARK_CAST_ANSI, NOWHERE, &cell->expr, error);
    }
  }
  spark_relation below = {.scope = input->scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, s->aggregation, input->rel, &below.rel, error);
  if (status == TRN_OK) status = spark__numbered(t, &below.rel, s->count, &number, error);
  if (status == TRN_OK) status = spark__by_number(t, number, labels, 1, s->count, &all[0], error);
  if (status == TRN_OK) { /* Spark's column of names may be null */
    trn_expr *label = TRN_NEW(t->arena, trn_expr);
    if (!label) return trn__no_memory(error);
    *label = *all[0].expr;
    label->nullable = true;
    all[0].expr = label;
  }
  all[0].name = "summary";
  all[0].is_alias = true;
  for (size_t c = 0; c < s->column_count && status == TRN_OK; c++) {
    status = spark__by_number(t, number, cells + c, s->column_count, s->count, &all[c + 1], error);
    all[c + 1].name = s->columns[c].name;
    all[c + 1].is_alias = true;
  }
  if (status == TRN_OK) status = spark__project(t, &below, all, s->column_count + 1, NULL, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

static trn_status chosen(statistics *s, const spark_relation *input, char *const *names, size_t count,
                         trn_error **error) {
  spark_translator *t = s->t;
  spark_value *all = NULL;
  size_t all_count = 0;
  trn_status status = TRN_OK;
  if (count == 0) {
    status = spark__scope_values(t, input->scope, &all, &all_count, error);
  } else {
    spark_context context;
    all = TRN_NEW_N(t->arena, spark_value, count);
    if (!all) return trn__no_memory(error);
    spark__context_begin(t, &context, input->scope);
    for (; all_count < count && status == TRN_OK; all_count++) {
      Spark__Connect__Expression__UnresolvedAttribute attribute =
          SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
      attribute.unparsed_identifier = names[all_count];
      status = spark__resolve_attribute(t, &attribute, NOWHERE, &all[all_count], error);
    }
    spark__context_end(t, &context);
  }
  if (status != TRN_OK) return status;
  s->columns = all;
  for (size_t i = 0; i < all_count; i++)
    if (trn__type_is_numeric(all[i].expr->type) || is_text(all[i].expr->type)) s->columns[s->column_count++] = all[i];
  return TRN_OK;
}

/* cov and corr of two columns: one number. */
static trn_status pair_of(spark_translator *t, const Spark__Connect__Relation *input, const char *function,
                          const char *name, char *first, char *second, spark_relation *out, trn_error **error) {
  spark_relation relation;
  spark_aggregation aggregation = {0};
  statistics s = {.t = t, .aggregation = &aggregation};
  char *names[2] = {first, second};
  spark_value value;
  trn_status status = spark__relation(t, input, &relation, error);
  if (status == TRN_OK) status = chosen(&s, &relation, names, 2, error);
  if (status != TRN_OK) return status;
  if (s.column_count != 2)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s needs two numeric columns.", name);
  aggregation.scope = relation.scope;
  for (size_t i = 0; i < 2 && status == TRN_OK; i++) { /* a null counts as 0 */
    spark_value pair[2] = {s.columns[i], {.name = "0", .is_foldable = true}};
    status = spark__cast(t, pair[0].expr, trn__type(TRN_TYPE_FLOAT64), SPARK_CAST_IMPLICIT, NOWHERE, &pair[0].expr, error);
    pair[1].expr = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), 0);
    if (status == TRN_OK && !pair[1].expr) status = trn__no_memory(error);
    if (status == TRN_OK) status = spark__cast(t, pair[1].expr, trn__type(TRN_TYPE_FLOAT64), SPARK_CAST_IMPLICIT, NOWHERE, &pair[1].expr, error);
    if (status == TRN_OK) status = spark__call_by_name(t, "coalesce", pair, 2, NOWHERE, &s.columns[i], error);
  }
  if (status == TRN_OK) status = spark__call_by_name(t, function, s.columns, 2, NOWHERE, &value, error);
  if (status == TRN_OK) status = spark__aggregation_keys(t, &aggregation, NULL, 0, error);
  if (status == TRN_OK) status = spark__aggregation_lift(t, &aggregation, value.expr, &value.expr, error);
  value.name = name;
  value.is_alias = true;
  spark_relation below = {.scope = relation.scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, relation.rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, &value, 1, NULL, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

trn_status spark__relation_stat(spark_translator *t, const Spark__Connect__Relation *r, spark_relation *out,
                                trn_error **error) {
  static const char *const describe[] = {"count", "mean", "stddev", "min", "max"};
  static const char *const summary[] = {"count", "mean", "stddev", "min", "25%", "50%", "75%", "max"};
  spark_aggregation aggregation = {0};
  statistics s = {.t = t, .aggregation = &aggregation, .names = describe, .count = sizeof describe / sizeof *describe};
  const Spark__Connect__Relation *input = NULL;
  char **columns = NULL;
  size_t column_count = 0;
  switch ((int)r->rel_type_case) {
  case SPARK__CONNECT__RELATION__REL_TYPE_COV:
    return pair_of(t, r->cov->input, "covar_samp", "cov", r->cov->col1, r->cov->col2, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_CORR:
    return pair_of(t, r->corr->input, "corr", "corr", r->corr->col1, r->corr->col2, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_DESCRIBE:
    input = r->describe->input;
    columns = r->describe->cols;
    column_count = r->describe->n_cols;
    break;
  default:
    input = r->summary->input;
    s.names = r->summary->n_statistics ? (const char *const *)r->summary->statistics : summary;
    s.count = r->summary->n_statistics ? r->summary->n_statistics : sizeof summary / sizeof *summary;
  }
  spark_relation relation;
  trn_status status = spark__relation(t, input, &relation, error);
  if (status == TRN_OK) status = chosen(&s, &relation, columns, column_count, error);
  aggregation.scope = relation.scope;
  return status == TRN_OK ? table_of(&s, &relation, out, error) : status;
}
