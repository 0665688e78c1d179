/* Aggregate functions that need all values of a group at once: percentiles, mode, the k best, listagg, sketches. The
 * library collects the first argument and takes the others as literals. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

/* Argument `index` as a literal of the type: what is constant is evaluated now. */
static trn_status constant(spark_builder *b, size_t index, const char *what, const trn_type *type,
                           const trn_expr **out) {
  spark_value value = b->call->args[index];
  if (!value.is_foldable) {
    const char *name = trn__arena_printf(b->t->arena, "\"%s\"", value.name), *shown = spark__quoted_type(b->t, type);
    if (!name || !shown) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "inputName", what, "inputType", shown,
                           "inputExpr", name, (char *)NULL);
  }
  trn_status status = spark__coerce(b, index, type);
  if (status) return status;
  *out = b->args[index];
  if ((*out)->kind == TRN_EXPR_LITERAL && trn__type_same_shape((*out)->type, type)) return TRN_OK;
  value.expr = b->args[index];
  return spark__evaluate(b->t, &value, out, b->error);
}

/* AGGREGATE of these arguments, without the call's order. */
static trn_expr *listed(spark_builder *b, const char *run, const trn_type *type, bool nullable,
                        const trn_expr *const *args, size_t count) {
  spark_call plain = *b->call;
  plain.order_count = 0;
  spark_builder inner = *b;
  inner.call = &plain;
  return spark__aggregate(&inner, run, type, nullable, args, count);
}

/* struct(values...) with fields named by number. */
static const trn_expr *row_of(spark_builder *b, const trn_expr *const *values, size_t count) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, count);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * count);
  if (!fields || !args) return NULL;
  for (size_t i = 0; i < count; i++) {
    const char *name = trn__arena_printf(b->t->arena, "c%zu", i);
    if (!name || !values[i]) return NULL;
    fields[i] = (trn_field){.name = name, .type = values[i]->type, .nullable = true};
    args[2 * i] = trn__expr_string(b->t->arena, name, strlen(name));
    args[2 * i + 1] = values[i];
    if (!args[2 * i]) return NULL;
  }
  const trn_type *type = trn__type_struct(b->t->arena, fields, count);
  return type ? trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "named_struct", type, false, args, 2 * count) : NULL;
}

static trn_status out_of_range(spark_builder *b, const char *what, const char *range, const char *given) {
  return spark__mismatch(b, "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE", "exprName", what, "valueRange", range,
                         "currentValue", given, (char *)NULL);
}

/* ---- percentiles ---- */
static trn_status check_fraction(spark_builder *b, const trn_expr *literal) {
  trn_strbuf text = {0};
  if (literal->u.literal.is_null)
    return spark__mismatch(b, "DATATYPE_MISMATCH.UNEXPECTED_NULL", "exprName", "percentage", (char *)NULL);
  double value = literal->u.literal.value.number;
  if (value >= 0 && value <= 1) return TRN_OK;
  spark__double_text(&text, value);
  trn__strbuf_putc(&text, 'D');
  const char *shown = spark__finish_text(b->t, &text);
  return shown ? out_of_range(b, "percentage", "[0.0, 1.0]", shown) : trn__no_memory(b->error);
}

/* A fraction, or an array of them, as a literal; *many tells which. */
static trn_status fractions_of(spark_builder *b, size_t index, const trn_expr **out, bool *many) {
  const trn_type *one = trn__type(TRN_TYPE_FLOAT64), *all = trn__type_array(b->t->arena, one, false);
  if (!all) return trn__no_memory(b->error);
  *many = b->args[index]->type->id == TRN_TYPE_ARRAY;
  trn_status status = constant(b, index, "`percentage`", *many ? all : one, out);
  if (status) return status;
  const trn_literal *literal = &(*out)->u.literal;
  if (!*many || literal->is_null) return check_fraction(b, *out);
  for (uint32_t i = 0; i < literal->value.nested.count && !status; i++)
    status = check_fraction(b, literal->value.nested.items[i]);
  return status;
}

/* Numbers as doubles, intervals as they are. */
static trn_status number_of(spark_builder *b, const trn_expr **value, const trn_type **result) {
  const trn_type *type = (*value)->type;
  if (spark__is_interval(type)) {
    *result = trn__type(type->id); /* with all its fields */
    return TRN_OK;
  }
  *result = trn__type(TRN_TYPE_FLOAT64);
  if (!trn__type_is_numeric(type) && type->id != TRN_TYPE_NULL && !spark__is_string(type))
    return spark__unexpected_input(b, 0, "(\"NUMERIC\" or \"ANSI INTERVAL\")", type);
  return spark__cast(b->t, *value, *result, SPARK_CAST_IMPLICIT, b->call->position, value, b->error);
}

static trn_status percentile_call(spark_builder *b, const char *run, const trn_expr *const *args, size_t count,
                                  const trn_type *type, bool many, const trn_expr **out) {
  if (many) type = trn__type_array(b->t->arena, type, false);
  return spark__gives(b, listed(b, run, type, true, args, count), out);
}

/* percentile(x, fractions [, frequency]), median(x). */
static trn_status build_percentile(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[3] = {b->args[0]};
  const trn_type *type = NULL;
  bool many = false, weighted = b->count == 3;
  if (b->count > 1) b->name = weighted ? "percentile($1, $2, $3)" : "percentile($1, $2, 1)";
  trn_status status = number_of(b, &args[0], &type);
  if (!status && b->count > 1) status = fractions_of(b, 1, &args[1], &many);
  if (status) return status;
  if (b->count == 1 && !(args[1] = spark__double_literal(b->t, 0.5, trn__type(TRN_TYPE_FLOAT64))))
    return trn__no_memory(b->error);
  if (!weighted) return percentile_call(b, "trn.percentile", args, 2, type, many, out);
  if (!trn__type_is_integer(b->args[2]->type)) return spark__unexpected_input(b, 2, "\"INTEGRAL\"", b->args[2]->type);
  status = spark__coerce(b, 2, trn__type(TRN_TYPE_INT64));
  const trn_expr *pair[2] = {args[0], b->args[2]};
  const char *name = trn__arena_printf(b->t->arena, "\"%s\"", b->call->args[2].name);
  if (status) return status;
  if (!name) return trn__no_memory(b->error);
  args[0] = row_of(b, pair, 2);
  args[2] = trn__expr_string(b->t->arena, name, strlen(name));
  return percentile_call(b, "trn.percentile_weighted", args, 3, type, many, out);
}

/* percentile_cont, percentile_disc(fractions) WITHIN GROUP (ORDER BY x [DESC]). */
static trn_status build_percentile_of(spark_builder *b, const trn_expr **out) {
  static const char *const runs[2][2] = {{"trn.percentile", "trn.percentile_desc"},
                                         {"trn.percentile_disc", "trn.percentile_disc_desc"}};
  const trn_expr *args[2];
  const trn_type *type = NULL;
  bool many = false;
  if (b->call->order_count != 1) return spark__not_supported(b, "anything but one key to order by");
  bool down = b->call->order_flags[0].descending, discrete = b->function->run[0] == 'd';
  b->text = trn__arena_printf(b->t->arena, "%s(%s) WITHIN GROUP (ORDER BY %s%s)", b->function->name,
                              b->call->args[0].name, b->call->order[0].name, down ? " DESC" : "");
  if (!b->text) return trn__no_memory(b->error);
  args[0] = b->call->order[0].expr;
  trn_status status = number_of(b, &args[0], &type);
  if (!status) status = fractions_of(b, 0, &args[1], &many);
  return status ? status : percentile_call(b, runs[discrete][down], args, 2, type, many, out);
}

/* approx_percentile(x, fractions [, accuracy]): of x's own type. */
static trn_status build_approx_percentile(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[3] = {b->args[0], NULL, NULL};
  const trn_type *type = b->args[0]->type, *wide = trn__type(TRN_TYPE_INT64);
  bool many = false;
  if (type->id == TRN_TYPE_NULL || spark__is_string(type)) type = trn__type(TRN_TYPE_FLOAT64);
  if (!trn__type_is_numeric(type) && !spark__is_interval(type) && !spark__is_timestamp(type) &&
      type->id != TRN_TYPE_DATE)
    return spark__unexpected_input(
        b, 0, "(\"NUMERIC\", \"DATE\", \"TIMESTAMP\", \"TIMESTAMP_NTZ\" or \"ANSI INTERVAL\")", type);
  if (b->count == 2) b->name = trn__arena_printf(b->t->arena, "%s($1, $2, 10000)", b->function->name);
  if (b->count == 2 && !b->name) return trn__no_memory(b->error);
  trn_status status = spark__coerce(b, 0, type);
  if (!status) status = fractions_of(b, 1, &args[1], &many);
  if (status) return status;
  args[0] = b->args[0];
  args[2] = trn__expr_int(b->t->arena, wide, 10000);
  if (b->count == 3) status = constant(b, 2, "`accuracy`", wide, &args[2]);
  if (status) return status;
  int64_t accuracy = args[2] && !args[2]->u.literal.is_null ? args[2]->u.literal.value.integer : 0;
  char given[32];
  snprintf(given, sizeof given, "%lldL", (long long)accuracy);
  if (accuracy <= 0 || accuracy > INT32_MAX) return out_of_range(b, "accuracy", "(0, 2147483647]", given);
  return percentile_call(b, "trn.approx_percentile", args, 3, type, many, out);
}

/* ---- mode ---- */
/* mode(x [, deterministic]), mode() WITHIN GROUP (ORDER BY x). */
static trn_status build_mode(spark_builder *b, const trn_expr **out) {
  bool ordered = b->call->order_count == 1, down = ordered && b->call->order_flags[0].descending, settled = false;
  if (b->count + b->call->order_count == 0 || (b->count && b->call->order_count))
    return spark__not_supported(b, "this number of arguments");
  const trn_expr *value = ordered ? b->call->order[0].expr : b->args[0], *flag = NULL;
  if (b->count == 2) {
    trn_status status = constant(b, 1, "`deterministic`", trn__type(TRN_TYPE_BOOL), &flag);
    if (status) return status;
    settled = !flag->u.literal.is_null && flag->u.literal.value.boolean;
  }
  if (!spark__is_orderable(value->type) && value->type->id != TRN_TYPE_NULL)
    return spark__not_supported(b, "values without an order");
  /* Spark shows the order the other way round. */
  b->text = ordered || settled
                ? trn__arena_printf(b->t->arena, "mode() WITHIN GROUP (ORDER BY %s%s)",
                                    ordered ? b->call->order[0].name : b->call->args[0].name, down ? "" : " DESC")
                : trn__arena_printf(b->t->arena, "mode(%s%s)", b->call->is_distinct ? "DISTINCT " : "",
                                    b->call->args[0].name);
  if (!b->text) return trn__no_memory(b->error);
  const char *run = down ? "trn.mode_last" : ordered || settled ? "trn.mode_first" : "trn.mode";
  return spark__gives(b, listed(b, run, value->type, true, &value, 1), out);
}

/* ---- the k best ---- */
static trn_status build_by(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (b->count == 2) return spark__gives(b, spark__aggregate(b, b->function->run, type, true, b->args, 2), out);
  const trn_expr *args[2];
  char given[32];
  trn_status status = constant(b, 2, "`k`", trn__type(TRN_TYPE_INT32), &args[1]);
  if (status) return status;
  int64_t k = args[1]->u.literal.is_null ? 0 : args[1]->u.literal.value.integer;
  snprintf(given, sizeof given, "%lld", (long long)k);
  if (k < 1 || k > 100000) return out_of_range(b, "`k`", "[1, 100000]", given);
  if (!(args[0] = row_of(b, b->args, 2))) return trn__no_memory(b->error);
  const char *run = trn__arena_printf(b->t->arena, "%s_k", b->function->run);
  const trn_type *list = trn__type_array(b->t->arena, type, true);
  return spark__gives(b, run ? listed(b, run, list, true, args, 2) : NULL, out);
}

/* ---- listagg(x [, delimiter]) [WITHIN GROUP (ORDER BY keys)] ---- */
static trn_status listagg_order(spark_builder *b) {
  const spark_call *call = b->call;
  if (!call->is_distinct || !call->order_count) return TRN_OK;
  if (call->order_count == 1 && spark__expr_same(call->order[0].expr, call->args[0].expr)) return TRN_OK;
  trn_strbuf keys = {0};
  for (size_t i = 0; i < call->order_count; i++)
    trn__strbuf_printf(&keys, "%s\"%s\"", i ? ", " : "", call->order[i].name);
  const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name),
             *given = trn__arena_printf(b->t->arena, "\"%s\"", call->args[0].name),
             *shown = spark__finish_text(b->t, &keys);
  if (!name || !given || !shown) return trn__no_memory(b->error);
  return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT,
                      "INVALID_WITHIN_GROUP_EXPRESSION.MISMATCH_WITH_DISTINCT_INPUT", call->position, "funcName", name,
                      "funcArg", given, "orderingExpr", shown, (char *)NULL);
}

static trn_status listagg_name(spark_builder *b) {
  const spark_call *call = b->call;
  const char *name = call->order_count ? "listagg" : b->function->name;
  b->text = trn__arena_printf(b->t->arena, "%s(%s%s, %s)", name, call->is_distinct ? "DISTINCT " : "",
                              call->args[0].name, b->count == 2 ? call->args[1].name : "NULL");
  if (!call->order_count || !b->text) return b->text ? TRN_OK : trn__no_memory(b->error);
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "%s WITHIN GROUP (ORDER BY ", b->text);
  for (size_t i = 0; i < call->order_count; i++)
    trn__strbuf_printf(&text, "%s%s %s NULLS %s", i ? ", " : "", call->order[i].name,
                       call->order_flags[i].descending ? "DESC" : "ASC",
                       call->order_flags[i].nulls_first ? "FIRST" : "LAST");
  trn__strbuf_putc(&text, ')');
  b->text = spark__finish_text(b->t, &text);
  return b->text ? TRN_OK : trn__no_memory(b->error);
}

static trn_status build_listagg(spark_builder *b, const trn_expr **out) {
  const spark_call *call = b->call;
  bool binary = b->args[0]->type->id == TRN_TYPE_BINARY;
  const trn_type *type = trn__type(binary ? TRN_TYPE_BINARY : TRN_TYPE_STRING);
  const trn_expr *delimiter = NULL;
  trn_status status = listagg_name(b);
  if (!status) status = listagg_order(b);
  if (status) return status;
  if (!spark__implicit_type(b->t, b->args[0]->type, 'x'))
    return spark__unexpected_input(b, 0, "(\"STRING\" or \"BINARY\")", b->args[0]->type);
  if (b->count == 2 && b->args[1]->type->id != TRN_TYPE_NULL && (b->args[1]->type->id == TRN_TYPE_BINARY) != binary) {
    const char *list = spark__quoted_types(b->t, NULL, b->args, 2);
    if (!list) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.DATA_DIFF_TYPES", "functionName", "`listagg`", "dataType", list,
                           (char *)NULL);
  }
  if (!(status = spark__coerce(b, 0, type)) && b->count == 2) status = constant(b, 1, "`delimiter`", type, &delimiter);
  if (status) return status;
  if (!delimiter || delimiter->u.literal.is_null) delimiter = trn__expr_string(b->t->arena, "", 0);
  if (delimiter && delimiter->type->id != type->id) {
    trn_expr *same = trn__arena_copy(b->t->arena, delimiter, sizeof *delimiter);
    if (same) same->type = type;
    delimiter = same;
  }
  const trn_expr *args[3] = {b->args[0], delimiter, NULL};
  if (!delimiter) return trn__no_memory(b->error);
  if (!binary && !call->order_count && !call->is_distinct)
    return spark__gives(b, spark__aggregate(b, "@string_agg", type, true, args, 2), out);
  size_t keys = call->is_distinct ? 1 : call->order_count; /* any order will do for DISTINCT alone: this one */
  const trn_expr **fields = TRN_NEW_N(b->t->arena, const trn_expr *, keys + 1);
  char *orders = TRN_NEW_N(b->t->arena, char, 2 * keys + 1);
  if (!fields || !orders) return trn__no_memory(b->error);
  fields[0] = b->args[0];
  for (size_t i = 0; i < keys; i++) {
    bool given = i < call->order_count;
    fields[i + 1] = given ? call->order[i].expr : b->args[0];
    orders[2 * i] = given && call->order_flags[i].descending ? 'd' : 'a';
    orders[2 * i + 1] = !given || call->order_flags[i].nulls_first ? 'f' : 'l';
  }
  args[0] = row_of(b, fields, keys + 1);
  args[2] = trn__expr_string(b->t->arena, orders, 2 * keys);
  return spark__gives(b, args[0] && args[2] ? listed(b, "trn.listagg", type, true, args, 3) : NULL, out);
}

/* ---- sketches ---- */
static trn_status build_approx_count_distinct(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[2] = {b->args[0], NULL};
  if (b->count == 2) {
    b->name = b->call->is_distinct ? "approx_count_distinct(DISTINCT $1)" : "approx_count_distinct($1)";
    trn_status status = constant(b, 1, "`relativeSD`", trn__type(TRN_TYPE_FLOAT64), &args[1]);
    if (status) return status;
    double deviation = args[1]->u.literal.is_null ? 0 : args[1]->u.literal.value.number;
    if (!(deviation > 0 && deviation <= 0.39))
      return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "FAILED_FUNCTION_CALL", b->call->position, "funcName",
                          "`approx_count_distinct`", (char *)NULL);
  }
  return spark__gives(b,
                      listed(b, "trn.approx_count_distinct", trn__type(TRN_TYPE_INT64), false, args, b->count), out);
}

static trn_status build_histogram(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[2];
  const trn_type *type = b->args[0]->type;
  char given[32];
  if (type->id == TRN_TYPE_NULL || spark__is_string(type)) type = trn__type(TRN_TYPE_FLOAT64);
  if (!trn__type_is_numeric(type) && !spark__is_interval(type) && !spark__is_timestamp(type) &&
      type->id != TRN_TYPE_DATE)
    return spark__unexpected_input(
        b, 0, "(\"NUMERIC\", \"DATE\", \"TIMESTAMP\", \"TIMESTAMP_NTZ\" or \"ANSI INTERVAL\")", type);
  trn_status status = spark__coerce(b, 0, type);
  if (!status) status = constant(b, 1, "`nb`", trn__type(TRN_TYPE_INT32), &args[1]);
  if (status) return status;
  int64_t bins = args[1]->u.literal.is_null ? 0 : args[1]->u.literal.value.integer;
  snprintf(given, sizeof given, "%lld", (long long)bins);
  if (bins < 2) return out_of_range(b, "nb", "[2, 2147483647]", given);
  args[0] = b->args[0];
  trn_field fields[2] = {{.name = "x", .type = type, .nullable = true},
                         {.name = "y", .type = trn__type(TRN_TYPE_FLOAT64), .nullable = true}};
  const trn_type *row = trn__type_struct(b->t->arena, fields, 2);
  const trn_type *list = row ? trn__type_array(b->t->arena, row, true) : NULL;
  return spark__gives(b, listed(b, "trn.histogram_numeric", list, true, args, 2), out);
}

static trn_status build_count_min(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[4] = {b->args[0]};
  const trn_type *type = b->args[0]->type;
  if (!trn__type_is_integer(type) && !spark__is_string(type) && type->id != TRN_TYPE_BINARY)
    return spark__unexpected_input(b, 0, "(\"INTEGRAL\" or \"STRING\" or \"BINARY\")", type);
  trn_status status = TRN_OK;
  for (size_t i = 1; i < 4 && !status; i++)
    status = constant(b, i, i == 1 ? "`eps`" : i == 2 ? "`confidence`" : "`seed`", trn__type(i == 3 ? TRN_TYPE_INT64 : TRN_TYPE_FLOAT64), &args[i]);
  if (status) return status;
  for (size_t i = 1; i < 4; i++)
    if (args[i]->u.literal.is_null) return spark__not_supported(b, "a parameter that is null");
  return spark__gives(b, listed(b, "trn.count_min_sketch", trn__type(TRN_TYPE_BINARY), false, args, 4), out);
}

/* vector_sum, vector_avg(x) of arrays of floats. */
static trn_status build_vectors(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_ARRAY || type->fields[0].type->id != TRN_TYPE_FLOAT32)
    return spark__unexpected_input(b, 0, "\"ARRAY<FLOAT>\"", type);
  type = trn__type_array(b->t->arena, type->fields[0].type, false);
  return spark__gives(b, listed(b, b->function->run, type, true, b->args, 1), out);
}

/* product(x), of the DataFrame API alone. */
static trn_status build_product(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
  return status ? status
                : spark__gives(b, listed(b, "trn.product", trn__type(TRN_TYPE_FLOAT64), true, b->args, 1), out);
}

#define AGGREGATE SPARK_FUNCTION_AGGREGATE
static const spark_function rows[] = {
    {"max_by", "ao|a", NULL, "trn.max_by", build_by, NULL, 0, AGGREGATE},
    {"min_by", "ao|a", NULL, "trn.min_by", build_by, NULL, 0, AGGREGATE},
    {"listagg", "a|a", NULL, NULL, build_listagg, NULL, 0, AGGREGATE},
    {"string_agg", "a|a", NULL, NULL, build_listagg, NULL, 0, AGGREGATE},
    {"mode", "|aa", NULL, NULL, build_mode, NULL, 0, AGGREGATE},
    {"median", "a", NULL, NULL, build_percentile, NULL, 0, AGGREGATE},
    {"percentile", "aa|a", NULL, NULL, build_percentile, NULL, 0, AGGREGATE},
    {"percentile_cont", "a", NULL, "c", build_percentile_of, NULL, 0, AGGREGATE},
    {"percentile_disc", "a", NULL, "d", build_percentile_of, NULL, 0, AGGREGATE},
    {"approx_percentile", "aa|a", NULL, NULL, build_approx_percentile, NULL, 0, AGGREGATE},
    {"percentile_approx", "aa|a", NULL, NULL, build_approx_percentile, NULL, 0, AGGREGATE},
    {"approx_count_distinct", "a|a", NULL, NULL, build_approx_count_distinct, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"histogram_numeric", "aa", NULL, NULL, build_histogram, NULL, 0, AGGREGATE},
    {"count_min_sketch", "aaaa", NULL, NULL, build_count_min, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"bitmap_construct_agg", "l", "b", "trn.bitmap_construct_agg", NULL, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"bitmap_or_agg", "b", "b", "trn.bitmap_or_agg", NULL, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"bitmap_and_agg", "b", "b", "trn.bitmap_and_agg", NULL, NULL, SPARK_NEVER_NULL, AGGREGATE},
    {"product", "n", NULL, NULL, build_product, NULL, SPARK_NO_NAMES, AGGREGATE},
    {"vector_sum", "a", NULL, "trn.vector_sum", build_vectors, NULL, 0, AGGREGATE},
    {"vector_avg", "a", NULL, "trn.vector_avg", build_vectors, NULL, 0, AGGREGATE},
};
const spark_function_table spark__functions_list = {rows, sizeof rows / sizeof rows[0]};
