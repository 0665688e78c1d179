/* Arrays and maps rearranged: the library's kernels over lists. */
#include "frontend/spark/translate/values.h"

static trn_status array_at(spark_builder *b, size_t index) {
  const trn_type *type = b->args[index]->type;
  if (type->id == TRN_TYPE_ARRAY) return TRN_OK;
  return spark__unexpected_input(b, index, "\"ARRAY\"", type);
}

static const trn_type *array_of(spark_builder *b, const trn_type *element, bool contains_null) {
  return trn__type_array(b->t->arena, element, contains_null);
}

/* array_distinct, array_compact: fewer of the same. */
static trn_status build_fewer(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  const trn_type *type = b->args[0]->type;
  if (b->function->run[4 + 6] == 'c') type = array_of(b, type->fields[0].type, false); /* trn.array_compact */
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, 1), out);
}

/* array_max, array_min. */
static trn_status build_extreme(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  const trn_type *element = b->args[0]->type->fields[0].type;
  if (!spark__is_orderable(element)) return spark__not_supported(b, "elements without an order");
  return spark__gives(b, spark__kernel(b->t, b->function->run, element, b->args, 1), out);
}

/* array_union, array_intersect, array_except, arrays_overlap: two arrays of one type. */
static trn_status build_two(spark_builder *b, const trn_expr **out) {
  const trn_type *common = NULL;
  for (size_t i = 0; i < 2; i++) {
    trn_status status = array_at(b, i);
    if (status) return status;
  }
  const trn_field *x = &b->args[0]->type->fields[0], *y = &b->args[1]->type->fields[0];
  char which = b->function->run[4 + 6]; /* trn.array_u.. i.. e.., trn.arrays_overlap has '_' there */
  bool nullable = which == 'u' ? x->nullable || y->nullable : which == 'i' ? x->nullable && y->nullable : x->nullable;
  bool could_be_null = x->nullable || y->nullable;
  if (spark__wider_type(b->t, x->type, y->type, &common)) return trn__no_memory(b->error);
  if (!common) return spark__not_supported(b, "arrays of types that do not meet");
  for (size_t i = 0; i < 2; i++) {
    const trn_field *field = &b->args[i]->type->fields[0];
    if (trn__type_same_shape(field->type, common)) continue;
    trn_status status = spark__coerce(b, i, array_of(b, common, field->nullable));
    if (status) return status;
  }
  const trn_type *type =
      which == 'u' || which == 'i' || which == 'e' ? array_of(b, common, nullable) : trn__type(TRN_TYPE_BOOL);
  trn_expr *expr = spark__kernel(b->t, b->function->run, type, b->args, 2);
  if (expr && type && type->id == TRN_TYPE_BOOL) expr->nullable = expr->nullable || could_be_null;
  return spark__gives(b, expr, out);
}

/* array_append, array_prepend, array_remove: an array and one value of its type. */
static trn_status build_with_value(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  const trn_field *field = &b->args[0]->type->fields[0];
  const trn_type *common = NULL;
  if (spark__wider_type(b->t, field->type, b->args[1]->type, &common)) return trn__no_memory(b->error);
  if (!common) return spark__not_supported(b, "a value of another type");
  bool removes = b->function->run[4 + 6] == 'r';
  const trn_type *type = array_of(b, common, field->nullable || !removes);
  if (!trn__type_same_shape(field->type, common)) status = spark__coerce(b, 0, array_of(b, common, field->nullable));
  if (!status) status = spark__coerce(b, 1, common);
  if (status) return status;
  trn_expr *expr = spark__kernel(b->t, b->function->run, type, b->args, 2);
  if (expr && !removes) expr->nullable = b->args[0]->nullable; /* a null value is appended */
  return spark__gives(b, expr, out);
}

static trn_status build_repeat(spark_builder *b, const trn_expr **out) {
  if (spark__type_depth(b->args[0]->type) >= TRN_TYPE_DEPTH_MAX)
    return spark__not_supported(b, "a type nested this deep");
  const trn_type *type = array_of(b, b->args[0]->type, b->args[0]->nullable);
  trn_expr *expr = spark__kernel(b->t, "trn.array_repeat", type, b->args, 2);
  if (expr) expr->nullable = b->args[1]->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_flatten(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  const trn_field *inner = &b->args[0]->type->fields[0];
  if (inner->type->id != TRN_TYPE_ARRAY)
    return spark__unexpected_input(b, 0, "\"ARRAY\" of \"ARRAY\"", b->args[0]->type);
  trn_expr *expr = spark__kernel(b->t, "trn.flatten", inner->type, b->args, 1);
  if (expr) expr->nullable = b->args[0]->nullable || inner->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_slice(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  return spark__gives(b, spark__kernel_with(b, "trn.slice", b->args[0]->type, b->args, 3, SPARK_POSITION), out);
}

static trn_status build_sort(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  if (!spark__is_orderable(b->args[0]->type)) return spark__not_supported(b, "elements without an order");
  if (b->count == 2 && !spark__is_literal(b->args[1]))
    return spark__not_supported(b, "a direction that is not a literal");
  if (b->count == 1) b->name = "sort_array($1, true)";
  return spark__gives(b, spark__kernel(b->t, "trn.sort_array", b->args[0]->type, b->args, b->count), out);
}

static trn_status build_join(spark_builder *b, const trn_expr **out) {
  trn_status status = array_at(b, 0);
  if (status) return status;
  const trn_field *field = &b->args[0]->type->fields[0];
  const trn_type *string = trn__type(TRN_TYPE_STRING);
  if (!spark__is_atomic(field->type)) return spark__unexpected_input(b, 0, "\"ARRAY<STRING>\"", b->args[0]->type);
  if (!spark__is_string(field->type)) status = spark__coerce(b, 0, array_of(b, string, field->nullable));
  if (status) return status;
  return spark__gives(b, spark__kernel(b->t, "trn.array_join", string, b->args, b->count), out);
}

/* map_keys, map_values. */
static trn_status build_map_part(spark_builder *b, const trn_expr **out) {
  const trn_type *map = b->args[0]->type;
  bool keys = b->function->run[4 + 4] == 'k';
  const trn_type *type = array_of(b, map->fields[keys ? 0 : 1].type, true); /* as Spark's schema shows it */
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, 1), out);
}

static trn_status wrong_sequence(spark_builder *b) {
  return spark__mismatch(b, "DATATYPE_MISMATCH.SEQUENCE_WRONG_INPUT_TYPES", "functionName", "`sequence`", "startType",
                         "(\"TIMESTAMP\" or \"TIMESTAMP_NTZ\" or \"DATE\")", "stepType",
                         "(\"INTERVAL\" or \"INTERVAL YEAR TO MONTH\" or \"INTERVAL DAY TO SECOND\")", "otherStartType",
                         "\"INTEGRAL\"", (char *)NULL);
}

/* A day forwards, or backwards when stop is before start. */
static const trn_expr *day_step(spark_builder *b) {
  const trn_type *type = trn__type(TRN_TYPE_INTERVAL_DAY_TIME);
  const int64_t day = INT64_C(86400000000);
  const trn_expr *before = spark__native(b->t, ">", trn__type(TRN_TYPE_BOOL), b->args, 2);
  const trn_expr *branches[3] = {before, trn__expr_int(b->t->arena, type, -day), trn__expr_int(b->t->arena, type, day)};
  return spark__case(b->t, branches, 3, type);
}

static trn_status time_sequence(spark_builder *b, const trn_expr **out) {
  const trn_type *common = NULL;
  if (spark__wider_type(b->t, b->args[0]->type, b->args[1]->type, &common)) return trn__no_memory(b->error);
  if (!common || !(common->id == TRN_TYPE_DATE || spark__is_timestamp(common))) return wrong_sequence(b);
  for (size_t i = 0; i < 2; i++) {
    trn_status status = spark__coerce(b, i, common);
    if (status) return status;
  }
  if (b->count == 3 && b->args[2]->type->id == TRN_TYPE_INTERVAL_CALENDAR)
    return spark__not_supported(b, "calendar intervals");
  if (b->count == 3 && !spark__is_interval(b->args[2]->type)) return wrong_sequence(b);
  const trn_expr *args[4] = {b->args[0], b->args[1], b->count == 3 ? b->args[2] : day_step(b), spark__zone_literal(b->t)};
  const trn_type *type = array_of(b, common, false);
  return spark__gives(b, type ? spark__kernel(b->t, "trn.sequence_time", type, args, 4) : NULL, out);
}

/* sequence(start, stop [, step]) of integers, dates, timestamps. */
static trn_status build_sequence(spark_builder *b, const trn_expr **out) {
  const trn_type *common = NULL;
  for (size_t i = 0; i < 2; i++)
    if (b->args[i]->type->id == TRN_TYPE_DATE || spark__is_timestamp(b->args[i]->type)) return time_sequence(b, out);
  for (size_t i = 0; i < b->count; i++)
    if (!trn__type_is_integer(b->args[i]->type) && b->args[i]->type->id != TRN_TYPE_NULL) return wrong_sequence(b);
  trn_status status = spark__coerce_common(b, 0, 1, &common);
  if (status) return status;
  const trn_type *type = array_of(b, common, false);
  return spark__gives(b, spark__kernel_with(b, "trn.sequence", type, b->args, b->count, SPARK_POSITION), out);
}

static const spark_function rows[] = {
    {"sequence", "aa|a", NULL, NULL, build_sequence, NULL, 0, 0},
    {"array_distinct", "a", NULL, "trn.array_distinct", build_fewer, NULL, 0, 0},
    {"array_compact", "a", NULL, "trn.array_compact", build_fewer, NULL, 0, 0},
    {"array_max", "a", NULL, "trn.array_max", build_extreme, NULL, SPARK_NULLABLE, 0},
    {"array_min", "a", NULL, "trn.array_min", build_extreme, NULL, SPARK_NULLABLE, 0},
    {"array_union", "aa", NULL, "trn.array_union", build_two, NULL, 0, 0},
    {"array_intersect", "aa", NULL, "trn.array_intersect", build_two, NULL, 0, 0},
    {"array_except", "aa", NULL, "trn.array_except", build_two, NULL, 0, 0},
    {"arrays_overlap", "aa", NULL, "trn.arrays_overlap", build_two, NULL, 0, 0},
    {"array_append", "aa", NULL, "trn.array_append", build_with_value, NULL, 0, 0},
    {"array_prepend", "aa", NULL, "trn.array_prepend", build_with_value, NULL, 0, 0},
    {"array_remove", "aa", NULL, "trn.array_remove", build_with_value, NULL, 0, 0},
    {"array_repeat", "ai", NULL, NULL, build_repeat, NULL, 0, 0},
    {"flatten", "a", NULL, NULL, build_flatten, NULL, 0, 0},
    {"slice", "aii", NULL, NULL, build_slice, NULL, 0, 0},
    {"sort_array", "a|B", NULL, NULL, build_sort, NULL, 0, 0},
    {"array_join", "as|s", NULL, NULL, build_join, NULL, 0, 0},
    {"map_keys", "M", NULL, "trn.map_keys", build_map_part, NULL, 0, 0},
    {"map_values", "M", NULL, "trn.map_values", build_map_part, NULL, 0, 0},
};
const spark_function_table spark__functions_array = {rows, sizeof rows / sizeof rows[0]};
