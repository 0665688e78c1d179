/* Aggregate functions. Library aggregates that can overflow take the position as their last argument. */
#include "frontend/spark/translate/values.h"

static const trn_expr *one(spark_translator *t) {
  return trn__expr_int(t->arena, trn__type(TRN_TYPE_INT32), 1);
}

/* count(a, b): rows where none is null. */
static const trn_expr *none_is_null(spark_builder *b) {
  const trn_expr *all = NULL;
  for (size_t i = 0; i < b->count; i++) {
    const trn_expr *present = spark__is_null(b->t, b->args[i], true), *both[2] = {all, present};
    all = all ? spark__native(b->t, "and", trn__type(TRN_TYPE_BOOL), both, 2) : present;
    if (!all) return NULL;
  }
  return all;
}

/* count(DISTINCT a, b): of rows as structs, null where one of them is null. */
static const trn_expr *as_row(spark_builder *b) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, b->count);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * b->count);
  if (!fields || !args) return NULL;
  for (size_t i = 0; i < b->count; i++) {
    char *name = trn__arena_printf(b->t->arena, "c%zu", i);
    if (!name) return NULL;
    fields[i] = (trn_field){.name = name, .type = b->args[i]->type, .nullable = b->args[i]->nullable};
    args[2 * i] = trn__expr_string(b->t->arena, name, strlen(name));
    args[2 * i + 1] = b->args[i];
    if (!args[2 * i]) return NULL;
  }
  const trn_type *type = trn__type_struct(b->t->arena, fields, b->count);
  if (!type) return NULL;
  const trn_expr *row = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "named_struct", type, false, args, 2 * b->count);
  const trn_expr *branches[2] = {none_is_null(b), row};
  return spark__case(b->t, branches, 2, type);
}

static trn_status build_count(spark_builder *b, const trn_expr **out) {
  const trn_expr *arg = NULL;
  if (b->call->is_star) {
    b->text = b->call->is_distinct ? "count(DISTINCT 1)" : "count(1)";
    arg = one(b->t);
  } else if (b->count == 1) {
    arg = b->args[0];
  } else if (b->call->is_distinct) {
    arg = as_row(b);
  } else {
    const trn_expr *branches[2] = {none_is_null(b), one(b->t)};
    arg = spark__case(b->t, branches, 2, trn__type(TRN_TYPE_INT32));
  }
  if (!arg) return trn__no_memory(b->error);
  return spark__gives(b, spark__aggregate(b, "@count", trn__type(TRN_TYPE_INT64), false, &arg, 1), out);
}

static trn_status build_count_if(spark_builder *b, const trn_expr **out) {
  const trn_expr *branches[2] = {b->args[0], one(b->t)};
  const trn_expr *arg = spark__case(b->t, branches, 2, trn__type(TRN_TYPE_INT32));
  return spark__gives(b, arg ? spark__aggregate(b, "@count", trn__type(TRN_TYPE_INT64), false, &arg, 1) : NULL, out);
}

/* sum, avg: numbers and intervals; strings and nulls as double. */
static trn_status coerce_summand(spark_builder *b) {
  const trn_type *type = b->args[0]->type;
  if (type->id == TRN_TYPE_NULL || spark__is_string(type) || type->id == TRN_TYPE_FLOAT32)
    return spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  if (trn__type_is_numeric(type) || spark__is_interval(type)) return TRN_OK;
  return spark__unexpected_input(b, 0, "\"NUMERIC\" or \"ANSI INTERVAL\"", type);
}

/* A library aggregate by mode: checked with the position, or without either. */
static trn_expr *moded_aggregate(spark_builder *b, const char *checked, const char *lenient, const trn_type *type) {
  bool strict = b->t->ansi && !(b->function->flags & SPARK_TRY);
  const trn_expr *args[2] = {b->args[0], spark__position_literal(b->t, b->call->position)};
  return spark__aggregate(b, strict ? checked : lenient, type, true, args, strict ? 2 : 1);
}

static trn_status build_sum(spark_builder *b, const trn_expr **out) {
  trn_status status = coerce_summand(b);
  if (status) return status;
  const trn_type *type = b->args[0]->type;
  if (type->id == TRN_TYPE_FLOAT64) return spark__gives(b, spark__aggregate(b, "@sum", type, true, b->args, 1), out);
  if (trn__type_is_integer(type))
    type = trn__type(TRN_TYPE_INT64);
  else if (type->id == TRN_TYPE_DECIMAL)
    type = spark__decimal_bounded(b->t, type->precision + 10, type->scale);
  const char *lenient = b->function->flags & SPARK_TRY ? "trn.sum_try" : "trn.sum_wrap";
  return spark__gives(b, moded_aggregate(b, "trn.sum", lenient, type), out);
}

static trn_status build_avg(spark_builder *b, const trn_expr **out) {
  trn_status status = coerce_summand(b);
  if (!status && trn__type_is_integer(b->args[0]->type)) status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  if (status) return status;
  const trn_type *type = b->args[0]->type;
  if (type->id == TRN_TYPE_FLOAT64) return spark__gives(b, spark__aggregate(b, "@avg", type, true, b->args, 1), out);
  if (type->id == TRN_TYPE_DECIMAL)
    type = spark__decimal_bounded(b->t, type->precision + 4, type->scale + 4);
  else
    type = trn__type(type->id); /* an interval with all its fields */
  return spark__gives(b, moded_aggregate(b, "trn.avg", "trn.avg_try", type), out);
}

/* min, max: the engine's, but for floating point, where NaN is the greatest, and what is nested, where a null inside is the
 * least. DISTINCT changes nothing. */
static trn_status build_extreme(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  spark_call plain = *b->call;
  plain.is_distinct = false;
  spark_builder inner = *b;
  inner.call = &plain;
  bool own = spark__is_float(type) || type->id == TRN_TYPE_ARRAY || type->id == TRN_TYPE_STRUCT;
  char *name = trn__arena_printf(b->t->arena, own ? "trn.%s" : "@%s", b->function->name);
  return spark__gives(b, name ? spark__aggregate(&inner, name, type, true, b->args, 1) : NULL, out);
}

/* first, last, any_value(x [, ignoreNulls]). */
static trn_status build_first(spark_builder *b, const trn_expr **out) {
  bool ignore = b->call->ignore_nulls;
  if (b->count == 2) {
    if (!spark__is_literal(b->args[1]) || b->args[1]->type->id != TRN_TYPE_BOOL)
      return spark__unexpected_input(b, 1, "\"BOOLEAN\"", b->args[1]->type);
    ignore = ignore || b->args[1]->u.literal.value.boolean;
  }
  size_t shown = strlen(b->function->name); /* Spark makes IGNORE NULLS of first_value a call of first */
  if (b->call->ignore_nulls && shown > 6 && strcmp(b->function->name + shown - 6, "_value") == 0 && b->function->run[4] != 'a') shown -= 6;
  b->text = trn__arena_printf(b->t->arena, "%.*s(%s)", (int)shown, b->function->name, b->call->args[0].name);
  const char *value = b->function->run[4] == 'a' ? "" : "_value"; /* trn.first_value_ignore_nulls, trn.any_value_... */
  const char *name =
      ignore ? trn__arena_printf(b->t->arena, "%s%s_ignore_nulls", b->function->run, value) : b->function->run;
  if (!b->text || !name) return trn__no_memory(b->error);
  return spark__gives(b, spark__aggregate(b, name, b->args[0]->type, true, b->args, 1), out);
}

static trn_status build_collect(spark_builder *b, const trn_expr **out) {
  const trn_type *element = b->args[0]->type;
  if (spark__type_depth(element) >= TRN_TYPE_DEPTH_MAX) return spark__not_supported(b, "a type nested this deep");
  const trn_type *type = trn__type_array(b->t->arena, element, false);
  return spark__gives(b, spark__aggregate(b, b->function->run, type, false, b->args, 1), out);
}

/* bit_and and kin: of integers, in their type. */
static trn_status build_bits(spark_builder *b, const trn_expr **out) {
  const trn_type *type = spark__implicit_type(b->t, b->args[0]->type, 'I');
  if (!type) return spark__unexpected_input(b, 0, "\"INTEGRAL\"", b->args[0]->type);
  trn_status status = spark__coerce(b, 0, type);
  return status ? status : spark__gives(b, spark__aggregate(b, b->function->run, type, true, b->args, 1), out);
}

/* regr_count, regr_avgx, regr_avgy(y, x): over the pairs without a null. */
static trn_status build_regression(spark_builder *b, const trn_expr **out) {
  char which = b->function->run[0];
  const trn_expr *value = which == 'c' ? one(b->t) : b->args[which == 'x'];
  const trn_expr *branches[2] = {none_is_null(b), value};
  if (!branches[0] || !value) return trn__no_memory(b->error);
  const trn_expr *arg = spark__case(b->t, branches, 2, value->type);
  const trn_type *type = trn__type(which == 'c' ? TRN_TYPE_INT64 : TRN_TYPE_FLOAT64);
  return spark__gives(
      b, arg ? spark__aggregate(b, which == 'c' ? "@count" : "@avg", type, which != 'c', &arg, 1) : NULL, out);
}

/* regr_slope and kin (y, x): the kernels take x first, as Spark's co-moments do. */
static trn_status build_moments(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[2] = {b->args[1], b->args[0]};
  return spark__gives(b, spark__aggregate(b, b->function->run, trn__type(TRN_TYPE_FLOAT64), true, args, 2), out);
}

#define AGGREGATE SPARK_FUNCTION_AGGREGATE
static const spark_function rows[] = {
    {"count", "a|a+", NULL, NULL, build_count, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"count_if", "B", NULL, NULL, build_count_if, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"sum", "a", NULL, NULL, build_sum, NULL, 0, AGGREGATE},
    {"try_sum", "a", NULL, NULL, build_sum, NULL, SPARK_TRY, AGGREGATE},
    {"avg", "a", NULL, NULL, build_avg, NULL, 0, AGGREGATE},
    {"mean", "a", NULL, NULL, build_avg, NULL, 0, AGGREGATE},
    {"try_avg", "a", NULL, NULL, build_avg, NULL, SPARK_TRY, AGGREGATE},
    {"min", "o", NULL, NULL, build_extreme, NULL, 0, AGGREGATE},
    {"max", "o", NULL, NULL, build_extreme, NULL, 0, AGGREGATE},
    {"first", "a|a", NULL, "trn.first", build_first, NULL, 0, AGGREGATE},
    {"first_value", "a|a", NULL, "trn.first", build_first, NULL, 0, AGGREGATE},
    {"last", "a|a", NULL, "trn.last", build_first, NULL, 0, AGGREGATE},
    {"last_value", "a|a", NULL, "trn.last", build_first, NULL, 0, AGGREGATE},
    {"any_value", "a|a", NULL, "trn.any_value", build_first, NULL, 0, AGGREGATE},
    {"bool_and", "B", "B", "trn.bool_and", NULL, NULL, 0, AGGREGATE},
    {"every", "B", "B", "trn.bool_and", NULL, NULL, 0, AGGREGATE},
    {"bool_or", "B", "B", "trn.bool_or", NULL, NULL, 0, AGGREGATE},
    {"some", "B", "B", "trn.bool_or", NULL, NULL, 0, AGGREGATE},
    {"any", "B", "B", "trn.bool_or", NULL, NULL, 0, AGGREGATE},
    {"stddev", "d", "d", "trn.stddev_samp", NULL, NULL, 0, AGGREGATE},
    {"std", "d", "d", "trn.stddev_samp", NULL, NULL, 0, AGGREGATE},
    {"stddev_samp", "d", "d", "trn.stddev_samp", NULL, NULL, 0, AGGREGATE},
    {"stddev_pop", "d", "d", "trn.stddev_pop", NULL, NULL, 0, AGGREGATE},
    {"variance", "d", "d", "trn.var_samp", NULL, NULL, 0, AGGREGATE},
    {"var_samp", "d", "d", "trn.var_samp", NULL, NULL, 0, AGGREGATE},
    {"var_pop", "d", "d", "trn.var_pop", NULL, NULL, 0, AGGREGATE},
    {"skewness", "d", "d", "trn.skewness", NULL, NULL, 0, AGGREGATE},
    {"kurtosis", "d", "d", "trn.kurtosis", NULL, NULL, 0, AGGREGATE},
    {"corr", "dd", "d", "trn.corr", NULL, NULL, 0, AGGREGATE},
    {"covar_samp", "dd", "d", "trn.covar_samp", NULL, NULL, 0, AGGREGATE},
    {"covar_pop", "dd", "d", "trn.covar_pop", NULL, NULL, 0, AGGREGATE},
    {"bit_and", "a", NULL, "@bit_and", build_bits, NULL, 0, AGGREGATE},
    {"bit_or", "a", NULL, "@bit_or", build_bits, NULL, 0, AGGREGATE},
    {"bit_xor", "a", NULL, "@bit_xor", build_bits, NULL, 0, AGGREGATE},
    {"regr_count", "dd", NULL, "c", build_regression, NULL, 0, AGGREGATE},
    {"regr_avgx", "dd", NULL, "x", build_regression, NULL, 0, AGGREGATE},
    {"regr_avgy", "dd", NULL, "y", build_regression, NULL, 0, AGGREGATE},
    {"regr_slope", "dd", NULL, "trn.regr_slope", build_moments, NULL, 0, AGGREGATE},
    {"regr_intercept", "dd", NULL, "trn.regr_intercept", build_moments, NULL, 0, AGGREGATE},
    {"regr_r2", "dd", NULL, "trn.regr_r2", build_moments, NULL, 0, AGGREGATE},
    {"regr_sxx", "dd", NULL, "trn.regr_sxx", build_moments, NULL, 0, AGGREGATE},
    {"regr_syy", "dd", NULL, "trn.regr_syy", build_moments, NULL, 0, AGGREGATE},
    {"regr_sxy", "dd", NULL, "trn.regr_sxy", build_moments, NULL, 0, AGGREGATE},
    {"collect_list", "a", NULL, "trn.collect_list", build_collect, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"array_agg", "a", NULL, "trn.collect_list", build_collect, "=collect_list", SPARK_NEVER_NULL, AGGREGATE},
    {"collect_set", "a", NULL, "trn.collect_set", build_collect, NULL, SPARK_NEVER_NULL, AGGREGATE},
};
const spark_function_table spark__functions_aggregate = {rows, sizeof rows / sizeof rows[0]};
