/* Arrays, maps, structs: making them and taking them apart. */
#include "frontend/spark/translate/values.h"

static trn_status too_deep(spark_builder *b) {
  return trn_error_set(b->error, TRN_RESOURCE_EXHAUSTED, NULL, "A type is nested deeper than TRN_TYPE_DEPTH_MAX (%d)",
                       TRN_TYPE_DEPTH_MAX);
}

static trn_status build_array(spark_builder *b, const trn_expr **out) {
  const trn_type *element = trn__type(TRN_TYPE_NULL);
  trn_status status = b->count ? spark__coerce_common(b, 0, 1, &element) : TRN_OK;
  if (status) return status;
  if (spark__type_depth(element) >= TRN_TYPE_DEPTH_MAX) return too_deep(b);
  const trn_type *type = trn__type_array(b->t->arena, element, spark__any_nullable(b->args, b->count));
  if (!type) return trn__no_memory(b->error);
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "make_array", type, false, b->args, b->count),
                      out);
}

/* ---- structs ---- */
static trn_status struct_of(spark_builder *b, const char *const *names, const trn_expr *const *values, size_t count,
                            const trn_expr **out) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, count);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * count);
  if (!fields || !args) return trn__no_memory(b->error);
  for (size_t i = 0; i < count; i++) {
    if (spark__type_depth(values[i]->type) >= TRN_TYPE_DEPTH_MAX) return too_deep(b);
    fields[i] = (trn_field){.name = names[i], .type = values[i]->type, .nullable = values[i]->nullable};
    args[2 * i] = trn__expr_string(b->t->arena, names[i], strlen(names[i]));
    args[2 * i + 1] = values[i];
    if (!args[2 * i]) return trn__no_memory(b->error);
  }
  const trn_type *type = trn__type_struct(b->t->arena, fields, count);
  if (!type) return trn__no_memory(b->error);
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "named_struct", type, false, args, 2 * count),
                      out);
}

/* struct(a, b + 1, c AS d): fields a, col2, d. */
static trn_status build_struct(spark_builder *b, const trn_expr **out) {
  const char **names = TRN_NEW_N(b->t->arena, const char *, b->count);
  if (!names) return trn__no_memory(b->error);
  for (size_t i = 0; i < b->count; i++) {
    const spark_value *value = &b->call->args[i];
    bool own = value->is_alias || value->is_attribute;
    names[i] = own                  ? value->name
               : value->lambda_name ? value->lambda_name
                                    : trn__arena_printf(b->t->arena, "col%zu", i + 1);
    if (!names[i]) return trn__no_memory(b->error);
  }
  if (b->function->run) { /* (a, b) */
    trn_strbuf text = {0};
    for (size_t i = 0; i < b->count; i++)
      trn__strbuf_printf(&text, "%s%s, %s", i ? ", " : "named_struct(", names[i], b->call->args[i].name);
    trn__strbuf_putc(&text, ')');
    if (!(b->text = spark__finish_text(b->t, &text))) return trn__no_memory(b->error);
  }
  bool aliases = false;
  for (size_t i = 0; i < b->count; i++) aliases |= b->call->args[i].is_alias && b->call->args[i].base_name;
  if (aliases && !b->function->run) {
    trn_strbuf text = {0};
    for (size_t i = 0; i < b->count; i++) {
      const spark_value *value = &b->call->args[i];
      trn__strbuf_puts(&text, i ? ", " : "struct(");
      if (value->is_alias && value->base_name) trn__strbuf_printf(&text, "%s AS %s", value->base_name, value->name);
      else trn__strbuf_puts(&text, value->name);
    }
    trn__strbuf_putc(&text, ')');
    if (!(b->text = spark__finish_text(b->t, &text))) return trn__no_memory(b->error);
  }
  return struct_of(b, names, b->args, b->count, out);
}

static trn_status build_named_struct(spark_builder *b, const trn_expr **out) {
  if (b->count % 2 || b->count == 0) {
    char *text = trn__arena_printf(b->t->arena, "%zu", b->count);
    if (!text) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", b->call->position,
                        "functionName", "`named_struct`", "expectedNum", "2n (n > 0)", "actualNum", text, "docroot",
                        "https://spark.apache.org/docs/latest", (char *)NULL);
  }
  size_t count = b->count / 2;
  const char **names = TRN_NEW_N(b->t->arena, const char *, count);
  const trn_expr **values = TRN_NEW_N(b->t->arena, const trn_expr *, count);
  if (!names || !values) return trn__no_memory(b->error);
  for (size_t i = 0; i < count; i++) {
    const trn_expr *name = b->args[2 * i];
    if (!spark__is_literal(name) || !spark__is_string(name->type))
      return spark__mismatch(b, "DATATYPE_MISMATCH.CREATE_NAMED_STRUCT_WITHOUT_FOLDABLE_STRING", "inputExprs", "[]",
                             (char *)NULL);
    names[i] = name->u.literal.value.bytes.data;
    values[i] = b->args[2 * i + 1];
  }
  return struct_of(b, names, values, count, out);
}

/* ---- maps ---- */
static trn_status collect(spark_builder *b, size_t first, const trn_type **type, const trn_expr **array) {
  trn_status status = spark__coerce_common(b, first, 2, type);
  if (status) return status;
  size_t count = b->count / 2;
  const trn_expr **items = TRN_NEW_N(b->t->arena, const trn_expr *, count);
  if (!items) return trn__no_memory(b->error);
  for (size_t i = 0; i < count; i++) items[i] = b->args[2 * i + first];
  if (spark__type_depth(*type) + 1 >= TRN_TYPE_DEPTH_MAX) return too_deep(b);
  const trn_type *list = trn__type_array(b->t->arena, *type, spark__any_nullable(items, count));
  *array = list ? trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "make_array", list, false, items, count) : NULL;
  return *array ? TRN_OK : trn__no_memory(b->error);
}

static trn_status build_map(spark_builder *b, const trn_expr **out) {
  if (b->count % 2) {
    char *text = trn__arena_printf(b->t->arena, "%zu", b->count);
    if (!text) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", b->call->position,
                        "functionName", "`map`", "expectedNum", "2n (n > 0)", "actualNum", text, "docroot",
                        "https://spark.apache.org/docs/latest", (char *)NULL);
  }
  const trn_type *key = trn__type(TRN_TYPE_NULL), *value = key;
  const trn_expr *args[2];
  trn_status status = collect(b, 0, &key, &args[0]);
  if (!status) status = collect(b, 1, &value, &args[1]);
  if (status) return status;
  if (key->id == TRN_TYPE_MAP)
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_MAP_KEY_TYPE", "keyType", "\"MAP\"", (char *)NULL);
  const trn_type *type = trn__type_map(b->t->arena, key, value, args[1]->type->fields[0].nullable);
  return spark__gives(b, type ? spark__kernel_with(b, "trn.map_from_arrays", type, args, 2, SPARK_POSITION) : NULL,
                      out);
}

static trn_status build_map_from_arrays(spark_builder *b, const trn_expr **out) {
  for (size_t i = 0; i < 2; i++)
    if (b->args[i]->type->id != TRN_TYPE_ARRAY) return spark__unexpected_input(b, i, "\"ARRAY\"", b->args[i]->type);
  const trn_field *key = &b->args[0]->type->fields[0], *value = &b->args[1]->type->fields[0];
  if (key->type->id == TRN_TYPE_MAP)
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_MAP_KEY_TYPE", "keyType", "\"MAP\"", (char *)NULL);
  const trn_type *type = trn__type_map(b->t->arena, key->type, value->type, value->nullable);
  return spark__gives(b, type ? spark__kernel_with(b, "trn.map_from_arrays", type, b->args, 2, SPARK_POSITION) : NULL,
                      out);
}

/* ---- taking apart ---- */
/* size(NULL) is NULL; with ANSI off size and cardinality give -1. */
static trn_status build_size(spark_builder *b, const trn_expr **out) {
  bool legacy = !b->t->ansi && b->function->flags & SPARK_LEGACY_NULL;
  trn_expr *expr = spark__kernel(b->t, legacy ? "trn.size_legacy" : "trn.size", trn__type(TRN_TYPE_INT32), b->args, 1);
  if (expr && legacy) expr->nullable = false;
  return spark__gives(b, expr, out);
}

/* A value among those of an array: both get one type. */
static trn_status with_array(spark_builder *b) {
  const trn_field *field = &b->args[0]->type->fields[0];
  const trn_type *common = NULL;
  if (spark__wider_type(b->t, field->type, b->args[1]->type, &common)) return trn__no_memory(b->error);
  bool one_text = spark__is_string(field->type) != spark__is_string(b->args[1]->type); /* which is not read as the other's type */
  if (!common || (one_text && field->type->id != TRN_TYPE_NULL && b->args[1]->type->id != TRN_TYPE_NULL)) {
    const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name), *left = spark__quoted_type(b->t, b->args[0]->type),
               *right = spark__quoted_type(b->t, b->args[1]->type);
    if (!name || !left || !right) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.ARRAY_FUNCTION_DIFF_TYPES", "functionName", name, "dataType", "\"ARRAY\"",
                                     "leftType", left, "rightType", right, (char *)NULL);
  }
  const trn_type *whole = trn__type_array(b->t->arena, common, field->nullable);
  trn_status status = whole ? TRN_OK : trn__no_memory(b->error);
  if (!status && !trn__type_same_shape(common, field->type)) status = spark__coerce(b, 0, whole);
  return status ? status : spark__coerce(b, 1, common);
}

/* The position, from 1, of a value; 0 when it is not there. */
static trn_status build_array_position(spark_builder *b, const trn_expr **out) {
  trn_status status = with_array(b);
  if (status) return status;
  return spark__gives(b, spark__kernel(b->t, "trn.array_position", trn__type(TRN_TYPE_INT64), b->args, 2), out);
}

static trn_status element_of_map(spark_builder *b, const trn_expr **out) {
  const trn_type *map = b->args[0]->type;
  trn_status status = spark__coerce(b, 1, map->fields[0].type);
  if (status) return status;
  trn_expr *expr = spark__kernel(b->t, "trn.map_get", map->fields[1].type, b->args, 2);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* A literal index into an array that is written out: null only where that element is; into another one it may be. */
static bool picked_nullable(const trn_expr *array, const trn_expr *index, int64_t base, bool otherwise) {
  if (!spark__is_literal(index) || index->u.literal.is_null) return otherwise;
  if (array->kind != TRN_EXPR_CALL || strcmp(array->u.call.name, "make_array") != 0) return true;
  int64_t at = index->u.literal.value.integer - base;
  if (base && at < 0) at = array->arg_count + at + base;
  return at >= 0 && at < array->arg_count ? array->args[at]->nullable : true;
}

static trn_status build_element_at(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  bool is_try = b->function->flags & SPARK_TRY || !b->t->ansi;
  if (type->id == TRN_TYPE_MAP) return element_of_map(b, out);
  if (type->id != TRN_TYPE_ARRAY) return spark__unexpected_input(b, 0, "(\"ARRAY\" or \"MAP\")", type);
  if (!trn__type_is_integer(b->args[1]->type) || b->args[1]->type->id == TRN_TYPE_INT64)
    return spark__unexpected_input(b, 1, "\"INT\"", b->args[1]->type);
  trn_status status = spark__coerce(b, 1, trn__type(TRN_TYPE_INT32));
  if (status) return status;
  trn_expr *expr = is_try ? spark__kernel(b->t, "trn.element_at_try", type->fields[0].type, b->args, 2)
                          : spark__kernel_with(b, "trn.element_at", type->fields[0].type, b->args, 2, SPARK_POSITION);
  bool usual = b->args[0]->nullable || b->args[1]->nullable || type->fields[0].nullable || is_try;
  if (expr) expr->nullable = picked_nullable(b->args[0], b->args[1], 1, usual);
  return spark__gives(b, expr, out);
}

/* a[i], 0-based: get_array_item is UnresolvedExtractValue's, which expression_nested.c names; get is the function. */
static trn_status build_array_get(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *index = spark__implicit_type(b->t, b->args[1]->type, 'I');
  if (type->id != TRN_TYPE_ARRAY) return spark__unexpected_input(b, 0, "\"ARRAY\"", type);
  if (!index) return spark__unexpected_input(b, 1, "\"INTEGRAL\"", b->args[1]->type);
  trn_status status = spark__cast(b->t, b->args[1], trn__type(TRN_TYPE_INT32), SPARK_CAST_ANSI, b->call->position,
                                  &b->args[1], b->error);
  if (status) return status;
  bool lenient = !b->t->ansi || b->function->flags & SPARK_TRY;
  trn_expr *expr = lenient ? spark__kernel(b->t, "trn.array_get_try", type->fields[0].type, b->args, 2)
                           : spark__kernel_with(b, "trn.array_get", type->fields[0].type, b->args, 2, SPARK_POSITION);
  bool usual = b->args[0]->nullable || b->args[1]->nullable || type->fields[0].nullable || lenient;
  if (expr) expr->nullable = picked_nullable(b->args[0], b->args[1], 0, usual);
  return spark__gives(b, expr, out);
}

static trn_status build_array_contains(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_ARRAY) return spark__unexpected_input(b, 0, "\"ARRAY\"", type);
  trn_status status = with_array(b);
  if (status) return status;
  trn_expr *expr = spark__kernel(b->t, "trn.array_contains", trn__type(TRN_TYPE_BOOL), b->args, 2);
  if (expr) expr->nullable = expr->nullable || type->fields[0].nullable;
  return spark__gives(b, expr, out);
}

static const spark_function rows[] = {
    {"array", "|a+", NULL, NULL, build_array, NULL, 0, 0},
    {"struct", "|a+", NULL, NULL, build_struct, NULL, 0, 0},
    {"row_struct", "|a+", NULL, "row", build_struct, NULL, SPARK_NO_NAMES, 0},
    {"named_struct", "|a+", NULL, NULL, build_named_struct, NULL, 0, 0},
    {"map", "|a+", NULL, NULL, build_map, NULL, 0, 0},
    {"map_from_arrays", "aa", NULL, NULL, build_map_from_arrays, NULL, 0, 0},
    {"size", "k", NULL, NULL, build_size, NULL, SPARK_LEGACY_NULL, 0},
    {"cardinality", "k", NULL, NULL, build_size, NULL, SPARK_LEGACY_NULL, 0},
    {"array_position", "Aa", NULL, NULL, build_array_position, NULL, 0, 0},
    {"array_size", "A", NULL, NULL, build_size, NULL, 0, 0},
    {"element_at", "aa", NULL, NULL, build_element_at, NULL, 0, 0},
    {"try_element_at", "aa", NULL, NULL, build_element_at, NULL, SPARK_TRY, 0},
    {"get", "aa", NULL, NULL, build_array_get, NULL, SPARK_TRY, 0},
    {"get_array_item", "aa", NULL, NULL, build_array_get, "$1[$2]", SPARK_NO_NAMES, 0},
    {"get_map_value", "Ma", NULL, NULL, element_of_map, "$1[$2]", SPARK_NO_NAMES, 0},
    {"array_contains", "aa", NULL, NULL, build_array_contains, NULL, 0, 0},
};
const spark_function_table spark__functions_nested = {rows, sizeof rows / sizeof rows[0]};
