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
    if (b->call->filter) b->text = trn__arena_printf(b->t->arena, "count(1) FILTER (WHERE %s)", b->call->filter->name);
    if (!b->text) return trn__no_memory(b->error);
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

/* min, max: the engine's, but for floating point, where NaN is the greatest. DISTINCT changes nothing. */
static trn_status build_extreme(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  spark_call plain = *b->call;
  plain.is_distinct = false;
  spark_builder inner = *b;
  inner.call = &plain;
  char *name = trn__arena_printf(b->t->arena, spark__is_float(type) ? "trn.%s" : "@%s", b->function->name);
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
  b->text = trn__arena_printf(b->t->arena, "%s(%s)%s", b->function->name, b->call->args[0].name,
                              b->call->ignore_nulls ? " ignore nulls" : "");
  const char *value = b->function->run[4] == 'a' ? "" : "_value"; /* trn.first_value_ignore_nulls, trn.any_value_... */
  const char *name =
      ignore ? trn__arena_printf(b->t->arena, "%s%s_ignore_nulls", b->function->run, value) : b->function->run;
  if (!b->text || !name) return trn__no_memory(b->error);
  return spark__gives(b, spark__aggregate(b, name, b->args[0]->type, true, b->args, 1), out);
}

static trn_status build_by(spark_builder *b, const trn_expr **out) {
  if (b->count == 3) return spark__not_supported(b, "the k best");
  return spark__gives(b, spark__aggregate(b, b->function->run, b->args[0]->type, true, b->args, 2), out);
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

/* listagg(x [, delimiter]) of strings: the engine's string_agg. */
static trn_status build_listagg(spark_builder *b, const trn_expr **out) {
  if (b->args[0]->type->id == TRN_TYPE_BINARY) return spark__not_supported(b, "binary");
  if (b->call->is_distinct)
    return spark__not_supported(b, "DISTINCT"); /* the engine's order of what is left is another */
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < b->count; i++) {
    const trn_type *type = spark__implicit_type(b->t, b->args[i]->type, 's');
    if (!type) return spark__unexpected_input(b, i, "(\"STRING\" or \"BINARY\")", b->args[i]->type);
    status = spark__coerce(b, i, type);
  }
  if (status) return status;
  bool given = b->count == 2 && b->args[1]->kind == TRN_EXPR_LITERAL && !b->args[1]->u.literal.is_null;
  if (b->count == 2 && b->args[1]->kind != TRN_EXPR_LITERAL)
    return spark__not_supported(b, "a delimiter that is not a literal");
  const char *name = b->call->order_count ? "listagg" : b->function->name;
  b->name = trn__arena_printf(b->t->arena, b->count == 2 ? "%s($1, $2)" : "%s($1, NULL)", name);
  const trn_expr *args[2] = {b->args[0], given ? b->args[1] : trn__expr_string(b->t->arena, "", 0)};
  if (!b->name) return trn__no_memory(b->error);
  return spark__gives(b, spark__aggregate(b, "@string_agg", trn__type(TRN_TYPE_STRING), true, args, 2), out);
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

/* The values as doubles in one list, without nulls. */
static trn_status doubles_of(spark_builder *b, const trn_expr *value, const trn_expr **list) {
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  if (!trn__type_is_numeric(value->type) && value->type->id != TRN_TYPE_NULL)
    return spark__not_supported(b, "values that are no numbers");
  trn_status status = spark__cast(b->t, value, type, SPARK_CAST_IMPLICIT, b->call->position, &value, b->error);
  if (status) return status;
  spark_call plain = *b->call;
  plain.order_count = 0;
  spark_builder inner = *b;
  inner.call = &plain;
  const trn_type *array = trn__type_array(b->t->arena, type, false);
  *list = spark__aggregate(&inner, "trn.collect_list", array, false, &value, 1);
  return *list ? TRN_OK : trn__no_memory(b->error);
}

/* A literal fraction from 0 to 1 as a double; from the other end with `reversed`. */
static trn_status fraction_of(spark_builder *b, const trn_expr *given, bool reversed, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  if (!spark__is_literal(given) || !trn__type_is_numeric(given->type))
    return spark__not_supported(b, "a percentage that is not a literal");
  const trn_expr *folded = spark__fold_cast(b->t, given, type);
  if (!folded || !spark__is_literal(folded)) return spark__not_supported(b, "this percentage");
  double value = folded->u.literal.value.number;
  if (!(value >= 0 && value <= 1)) return spark__not_supported(b, "a percentage outside of 0 to 1");
  *out = spark__double_literal(b->t, reversed ? 1 - value : value, type);
  return *out ? TRN_OK : trn__no_memory(b->error);
}

/* percentile(x, fraction or array of them), median(x). */
static trn_status build_percentile(spark_builder *b, const trn_expr **out) {
  bool median = b->count == 1;
  const trn_expr *given = median ? NULL : b->args[1];
  bool many = given && given->kind == TRN_EXPR_CALL && !strcmp(given->u.call.name, "make_array");
  size_t count = many ? given->arg_count : 1;
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, count + 2);
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  if (!args) return trn__no_memory(b->error);
  if (b->count == 3) return spark__not_supported(b, "frequencies");
  trn_status status = doubles_of(b, b->args[0], &args[0]);
  if (median && !(args[1] = spark__double_literal(b->t, 0.5, type))) return trn__no_memory(b->error);
  for (size_t i = 0; !status && !median && i < count; i++)
    status = fraction_of(b, many ? given->args[i] : given, false, &args[1 + i]);
  if (status) return status;
  if (!median) b->name = "percentile($1, $2, 1)";
  if (many) type = trn__type_array(b->t->arena, type, false);
  trn_expr *expr = spark__kernel(b->t, many ? "trn.percentiles" : "trn.percentile", type, args, count + 1);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* mode(x [, deterministic]), mode() WITHIN GROUP (ORDER BY x): of several the least; that is one of any, too. */
static trn_status build_mode(spark_builder *b, const trn_expr **out) {
  bool ordered = b->call->order_count == 1, down = ordered && b->call->order_flags[0].descending;
  if (b->count + b->call->order_count == 0 || (b->count && b->call->order_count))
    return spark__not_supported(b, "this number of arguments");
  if (b->count == 2 && !spark__is_literal(b->args[1])) return spark__not_supported(b, "a flag that is not a literal");
  const trn_expr *value = ordered ? b->call->order[0].expr : b->args[0];
  if (!spark__is_orderable(value->type)) return spark__not_supported(b, "values without an order");
  spark_call plain = *b->call;
  plain.order_count = 0;
  spark_builder inner = *b;
  inner.call = &plain;
  const trn_type *array = trn__type_array(b->t->arena, value->type, false);
  const trn_expr *list = spark__aggregate(&inner, "trn.collect_list", array, false, &value, 1);
  bool settled = b->count == 2 && b->args[1]->type->id == TRN_TYPE_BOOL && b->args[1]->u.literal.value.boolean;
  /* Spark shows the order the other way round. */
  b->text = ordered || settled
                ? trn__arena_printf(b->t->arena, "mode() WITHIN GROUP (ORDER BY %s%s)",
                                    ordered ? b->call->order[0].name : b->call->args[0].name, down ? "" : " DESC")
                : trn__arena_printf(b->t->arena, "mode(%s%s)", b->call->is_distinct ? "DISTINCT " : "",
                                    b->call->args[0].name);
  if (!list || !b->text) return trn__no_memory(b->error);
  trn_expr *expr = spark__kernel(b->t, down ? "trn.list_mode_last" : "trn.list_mode", value->type, &list, 1);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* percentile_cont, percentile_disc(fraction) WITHIN GROUP (ORDER BY x [DESC]). */
static trn_status build_percentile_of(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[2];
  if (b->call->order_count != 1) return spark__not_supported(b, "anything but one key to order by");
  bool down = b->call->order_flags[0].descending, discrete = b->function->run[0] == 'd';
  if (down && discrete) return spark__not_supported(b, "DESC");
  trn_status status = doubles_of(b, b->call->order[0].expr, &args[0]);
  if (!status) status = fraction_of(b, b->args[0], down, &args[1]);
  if (status) return status;
  b->text = trn__arena_printf(b->t->arena, "%s(%s) WITHIN GROUP (ORDER BY %s%s)", b->function->name,
                              b->call->args[0].name, b->call->order[0].name, down ? " DESC" : "");
  if (!b->text) return trn__no_memory(b->error);
  trn_expr *expr = spark__kernel(b->t, discrete ? "trn.percentile_disc" : "trn.percentile",
                                 trn__type(TRN_TYPE_FLOAT64), args, 2);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
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
    {"max_by", "ao|a", NULL, "trn.max_by", build_by, NULL, 0, AGGREGATE},
    {"min_by", "ao|a", NULL, "trn.min_by", build_by, NULL, 0, AGGREGATE},
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
    {"listagg", "a|a", NULL, NULL, build_listagg, NULL, 0, AGGREGATE},
    {"string_agg", "a|a", NULL, NULL, build_listagg, NULL, 0, AGGREGATE},
    {"regr_count", "dd", NULL, "c", build_regression, NULL, 0, AGGREGATE},
    {"regr_avgx", "dd", NULL, "x", build_regression, NULL, 0, AGGREGATE},
    {"regr_avgy", "dd", NULL, "y", build_regression, NULL, 0, AGGREGATE},
    {"mode", "|aa", NULL, NULL, build_mode, NULL, 0, AGGREGATE},
    {"median", "a", NULL, NULL, build_percentile, NULL, 0, AGGREGATE},
    {"percentile", "aa|a", NULL, NULL, build_percentile, NULL, 0, AGGREGATE},
    {"percentile_cont", "a", NULL, "c", build_percentile_of, NULL, 0, AGGREGATE},
    {"percentile_disc", "a", NULL, "d", build_percentile_of, NULL, 0, AGGREGATE},
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
