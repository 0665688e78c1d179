/* Higher-order functions. The engine transforms, filters and searches lists by a lambda of one parameter; lambdas of
 * several take the fields of a struct (expression_nested.c), over lists that the library zips. The lambdas of folds and
 * comparators have two parameters of their own (engine/shim/src/fold.rs, sort_by.rs). */
#include "frontend/spark/translate/values.h"

static trn_status collection_at(spark_builder *b, size_t index, trn_type_id id) {
  if (b->args[index]->type->id == id) return TRN_OK;
  return spark__unexpected_input(b, index, id == TRN_TYPE_MAP ? "\"MAP\"" : "\"ARRAY\"", b->args[index]->type);
}

trn_status spark__as_lambda(spark_builder *b, size_t index, size_t parameters) {
  if (b->args[index]->kind == TRN_EXPR_LAMBDA) return TRN_OK;
  const trn_expr *body = b->args[index];
  trn_expr *lambda = trn__expr_create(b->t->arena, TRN_EXPR_LAMBDA, body->type, body->nullable, &body, 1);
  uint32_t *ids = TRN_NEW_N(b->t->arena, uint32_t, parameters);
  if (!lambda || !ids) return trn__no_memory(b->error);
  for (size_t i = 0; i < parameters; i++) ids[i] = b->t->next_column++;
  lambda->u.lambda.param_count = (uint32_t)parameters;
  lambda->u.lambda.params = ids;
  b->args[index] = lambda;
  return TRN_OK;
}

static trn_status lambda_at(spark_builder *b, size_t index) {
  return spark__as_lambda(b, index, 1);
}

/* A predicate's body is boolean. */
static trn_status predicate_at(spark_builder *b, size_t index) {
  trn_status status = lambda_at(b, index);
  if (status) return status;
  const trn_expr *body = b->args[index]->args[0];
  if (body->type->id == TRN_TYPE_BOOL) return TRN_OK;
  return spark__unexpected_input(b, index, "\"BOOLEAN\"", body->type);
}

/* The engine wants the lambda's variable to be exactly the list's element, and ours may be null inside and out. */
static const trn_expr *lenient(spark_builder *b, const trn_expr *list) {
  const trn_type *type = spark__all_nullable(b->t, list->type, 0);
  if (!type) return NULL;
  return trn__type_equal(type, list->type) ? list : trn__expr_cast(b->t->arena, list, type, false);
}

static const trn_expr *engine(spark_builder *b, const char *name, const trn_type *type, const trn_expr *list,
                              const trn_expr *lambda) {
  const trn_expr *args[2] = {list ? lenient(b, list) : NULL, lambda};
  if (!args[0] || !lambda || !type) return NULL;
  return trn__expr_call(b->t->arena, TRN_HOME_ENGINE, name, type, list->nullable, args, 2);
}

/* The lambda with another body. */
static const trn_expr *lambda_of(spark_builder *b, const trn_expr *lambda, const trn_expr *body) {
  trn_expr *expr = body ? trn__expr_create(b->t->arena, TRN_EXPR_LAMBDA, body->type, body->nullable, &body, 1) : NULL;
  if (expr) expr->u.lambda = lambda->u.lambda;
  return expr;
}

static const trn_type *list_of(spark_builder *b, const trn_expr *lambda) {
  const trn_expr *body = lambda->args[0];
  return trn__type_array(b->t->arena, body->type, body->nullable);
}

/* A list of structs of the lists' elements, named by number. */
static const trn_expr *zipped(spark_builder *b, const trn_expr *const *lists, size_t count, bool nullable) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, count);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * count);
  if (!fields || !args) return NULL;
  for (size_t i = 0; i < count; i++) {
    const char *name = trn__arena_printf(b->t->arena, "%zu", i);
    if (!name || !lists[i]) return NULL;
    const trn_field *element = &lists[i]->type->fields[0];
    fields[i] = (trn_field){.name = name, .type = element->type, .nullable = nullable || element->nullable};
    args[2 * i] = trn__expr_string(b->t->arena, name, strlen(name));
    args[2 * i + 1] = lists[i];
  }
  const trn_type *row = trn__type_struct(b->t->arena, fields, count);
  const trn_type *type = row ? trn__type_array(b->t->arena, row, false) : NULL;
  return spark__kernel(b->t, "trn.arrays_zip", type, args, 2 * count);
}

/* The list itself, or with the index of every element when the lambda takes it. */
static const trn_expr *with_index(spark_builder *b, size_t lambda) {
  if (b->call->args[lambda].lambda_count < 2) return b->args[0];
  const trn_type *indices = trn__type_array(b->t->arena, trn__type(TRN_TYPE_INT32), false);
  const trn_expr *lists[2] = {b->args[0], spark__kernel(b->t, "trn.array_indices", indices, b->args, 1)};
  return zipped(b, lists, 2, false);
}

/* The field `index` of the struct that the lambda takes, as a lambda. */
static const trn_expr *pick_lambda(spark_builder *b, const trn_expr *list, size_t index) {
  const trn_type *row = spark__all_nullable(b->t, list->type->fields[0].type, 0);
  if (!row) return NULL;
  trn_expr *variable = trn__expr_create(b->t->arena, TRN_EXPR_LAMBDA_VARIABLE, row, false, NULL, 0);
  uint32_t *id = TRN_NEW_N(b->t->arena, uint32_t, 1);
  if (!variable || !id) return NULL;
  *id = variable->u.column = b->t->next_column++;
  const trn_field *field = &row->fields[index];
  bool nullable = list->type->fields[0].type->fields[index].nullable;
  const trn_expr *args[2] = {variable, trn__expr_string(b->t->arena, field->name, strlen(field->name))};
  const trn_expr *body = spark__native(b->t, "get_field", field->type, args, 2);
  trn_expr *lambda =
      body ? trn__expr_create(b->t->arena, TRN_EXPR_LAMBDA, field->type, nullable, &body, 1) : NULL;
  if (!lambda) return NULL;
  lambda->u.lambda.param_count = 1;
  lambda->u.lambda.params = id;
  return lambda;
}

static const trn_expr *picked(spark_builder *b, const trn_expr *list, size_t index) {
  if (!list) return NULL;
  const trn_field *field = &list->type->fields[0].type->fields[index];
  return engine(b, "array_transform", trn__type_array(b->t->arena, field->type, field->nullable), list,
                pick_lambda(b, list, index));
}

/* ---- of arrays ---- */
static trn_status build_transform(spark_builder *b, const trn_expr **out) {
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (!status) status = lambda_at(b, 1);
  if (status) return status;
  return spark__gives(b, engine(b, "array_transform", list_of(b, b->args[1]), with_index(b, 1), b->args[1]), out);
}

static trn_status build_filter(spark_builder *b, const trn_expr **out) {
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (!status) status = predicate_at(b, 1);
  if (status) return status;
  const trn_expr *list = with_index(b, 1);
  const trn_expr *kept = list ? engine(b, "array_filter", list->type, list, b->args[1]) : NULL;
  if (kept && list != b->args[0]) kept = picked(b, kept, 0);
  return spark__gives(b, kept, out);
}

/* exists is the engine's, in three-valued logic; forall is that nothing fails. */
static trn_status build_exists(spark_builder *b, const trn_expr **out) {
  bool all = b->function->run[0] == 'a';
  const trn_type *type = trn__type(TRN_TYPE_BOOL);
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (!status) status = predicate_at(b, 1);
  if (status) return status;
  const trn_expr *lambda = b->args[1];
  if (all) lambda = lambda_of(b, lambda, spark__native(b->t, "not", type, &lambda->args[0], 1));
  const trn_expr *args[2] = {lenient(b, b->args[0]), lambda};
  if (!args[0] || !lambda) return trn__no_memory(b->error);
  bool nullable = b->args[0]->nullable || b->args[1]->args[0]->nullable;
  const trn_expr *found =
      trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "array_any_match", type, nullable, args, 2);
  return spark__gives(b, all && found ? spark__native(b->t, "not", type, &found, 1) : found, out);
}

static trn_status build_zip_with(spark_builder *b, const trn_expr **out) {
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (!status) status = collection_at(b, 1, TRN_TYPE_ARRAY);
  if (!status) status = lambda_at(b, 2);
  if (status) return status;
  return spark__gives(
      b, engine(b, "array_transform", list_of(b, b->args[2]), zipped(b, b->args, 2, true), b->args[2]), out);
}

/* arrays_zip(a, b): fields are named by the column or by number. */
static trn_status build_arrays_zip(spark_builder *b, const trn_expr **out) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, b->count + 1);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * b->count + 1);
  if (!fields || !args) return trn__no_memory(b->error);
  if (!b->count) return spark__not_supported(b, "no arrays");
  for (size_t i = 0; i < b->count; i++) {
    trn_status status = collection_at(b, i, TRN_TYPE_ARRAY);
    if (status) return status;
    const spark_value *value = &b->call->args[i];
    bool own = value->is_alias || value->is_attribute;
    const char *name = own ? value->name : trn__arena_printf(b->t->arena, "%zu", i);
    if (!name) return trn__no_memory(b->error);
    fields[i] = (trn_field){.name = name, .type = b->args[i]->type->fields[0].type, .nullable = true};
    args[2 * i] = trn__expr_string(b->t->arena, name, strlen(name));
    args[2 * i + 1] = b->args[i];
  }
  const trn_type *row = trn__type_struct(b->t->arena, fields, b->count);
  const trn_type *type = row ? trn__type_array(b->t->arena, row, false) : NULL;
  if (!type) return trn__no_memory(b->error);
  return spark__gives(b, spark__kernel(b->t, "trn.arrays_zip", type, args, 2 * b->count), out);
}

/* ---- folds and comparators ---- */
/* aggregate(list, zero, merge[, finish]): merge gives what zero is, and nothing is cast to make it so. */
static trn_status build_fold(spark_builder *b, const trn_expr **out) {
  bool finishes = b->count > 3;
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (!status) status = spark__as_lambda(b, 2, 2);
  if (!status && finishes) status = spark__as_lambda(b, 3, 1);
  if (status) return status;
  const trn_type *zero = b->args[1]->type, *merged = b->args[2]->args[0]->type;
  if (!trn__type_same_shape(zero, merged)) {
    const char *required = spark__quoted_type(b->t, zero);
    return required ? spark__unexpected_input(b, 2, required, merged) : trn__no_memory(b->error);
  }
  if (!finishes)
    b->name = trn__arena_printf(
        b->t->arena, "%s($1, $2, $3, lambdafunction(namedlambdavariable(), namedlambdavariable()))", b->function->name);
  const trn_expr *args[4] = {lenient(b, b->args[0]), lenient(b, b->args[1]), b->args[2], finishes ? b->args[3] : NULL};
  if (!args[0] || !args[1] || (!finishes && !b->name)) return trn__no_memory(b->error);
  const trn_type *type = finishes ? args[3]->args[0]->type : zero;
  return spark__gives(
      b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "array_fold", type, true, args, finishes ? 4 : 3), out);
}

static trn_status sort_by(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__as_lambda(b, 1, 2);
  if (status) return status;
  const trn_type *given = b->args[1]->args[0]->type;
  if (given->id == TRN_TYPE_INT32)
    return spark__gives(b, engine(b, "array_sort_by", b->args[0]->type, b->args[0], b->args[1]), out);
  const char *type = spark__quoted_type(b->t, given);
  if (!type) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.UNEXPECTED_RETURN_TYPE", "functionName", "`lambdafunction`",
                         "expectedType", "\"INT\"", "actualType", type, (char *)NULL);
}

/* Without a comparator: ascending, nulls last. */
static trn_status build_array_sort(spark_builder *b, const trn_expr **out) {
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (status) return status;
  if (b->count == 2) return sort_by(b, out);
  if (!spark__is_orderable(b->args[0]->type)) return spark__not_supported(b, "elements without an order");
  b->name = "array_sort($1, lambdafunction((IF(((namedlambdavariable() IS NULL) AND (namedlambdavariable() IS NULL)), "
            "0, (IF((namedlambdavariable() IS NULL), 1, (IF((namedlambdavariable() IS NULL), -1, (IF("
            "(namedlambdavariable() < namedlambdavariable()), -1, (IF((namedlambdavariable() > "
            "namedlambdavariable()), 1, 0)))))))))), namedlambdavariable(), namedlambdavariable()))";
  return spark__gives(b, spark__kernel(b->t, "trn.array_sort", b->args[0]->type, b->args, 1), out);
}

static trn_status build_array_insert(spark_builder *b, const trn_expr **out) {
  trn_status status = collection_at(b, 0, TRN_TYPE_ARRAY);
  if (status) return status;
  const trn_type *element = b->args[0]->type->fields[0].type, *common = NULL;
  const trn_type *index = spark__implicit_type(b->t, b->args[1]->type, 'i');
  if (!index) return spark__unexpected_input(b, 1, "\"INT\"", b->args[1]->type);
  if (spark__wider_type(b->t, element, b->args[2]->type, &common)) return trn__no_memory(b->error);
  if (!common) return spark__not_supported(b, "a value of another type");
  if (!trn__type_same_shape(element, common))
    status = spark__coerce(b, 0, trn__type_array(b->t->arena, common, b->args[0]->type->fields[0].nullable));
  if (!status) status = spark__coerce(b, 1, index);
  if (!status) status = spark__coerce(b, 2, common);
  if (status) return status;
  const trn_type *type = trn__type_array(b->t->arena, common, true);
  trn_expr *expr = spark__kernel_with(b, "trn.array_insert", type, b->args, 3, SPARK_POSITION);
  if (expr) expr->nullable = b->args[0]->nullable || b->args[1]->nullable;
  return spark__gives(b, expr, out);
}

/* ---- of maps ---- */
static const trn_expr *entries(spark_builder *b, const trn_expr *map, const char *const names[2]) {
  const trn_field *k = &map->type->fields[0], *v = &map->type->fields[1];
  trn_field fields[2] = {{.name = names[0], .type = k->type, .nullable = false},
                         {.name = names[1], .type = v->type, .nullable = v->nullable}};
  const trn_type *row = trn__type_struct(b->t->arena, fields, 2);
  const trn_type *type = row ? trn__type_array(b->t->arena, row, false) : NULL;
  return spark__kernel(b->t, "trn.map_entries", type, &map, 1);
}

static trn_status build_map_entries(spark_builder *b, const trn_expr **out) {
  static const char *const names[2] = {"key", "value"};
  return spark__gives(b, entries(b, b->args[0], names), out);
}

/* Keys and values as lists of structs "0", "1": what lambdas of maps go over. */
static const trn_expr *pairs(spark_builder *b, const trn_expr *map) {
  const trn_field *k = &map->type->fields[0], *v = &map->type->fields[1];
  const trn_expr *lists[2] = {
      spark__kernel(b->t, "trn.map_keys", trn__type_array(b->t->arena, k->type, false), &map, 1),
      spark__kernel(b->t, "trn.map_values", trn__type_array(b->t->arena, v->type, v->nullable), &map, 1)};
  return zipped(b, lists, 2, false);
}

static trn_status build_map_filter(spark_builder *b, const trn_expr **out) {
  trn_status status = predicate_at(b, 1);
  if (status) return status;
  const trn_expr *list = pairs(b, b->args[0]);
  const trn_expr *kept = list ? engine(b, "array_filter", list->type, list, b->args[1]) : NULL;
  return spark__gives(
      b, kept ? spark__kernel_with(b, "trn.map_from_entries", b->args[0]->type, &kept, 1, SPARK_POSITION) : NULL, out);
}

static const trn_expr *joined(spark_builder *b, const trn_expr *keys, const trn_expr *values) {
  const trn_expr *args[2] = {keys, values};
  if (!keys || !values) return NULL;
  const trn_field *k = &keys->type->fields[0], *v = &values->type->fields[0];
  const trn_type *type = trn__type_map(b->t->arena, k->type, v->type, v->nullable);
  return spark__kernel_with(b, "trn.map_from_arrays", type, args, 2, SPARK_POSITION);
}

static trn_status build_transform_map(spark_builder *b, const trn_expr **out) {
  bool keys = b->function->run[0] == 'k';
  trn_status status = lambda_at(b, 1);
  if (status) return status;
  const trn_expr *list = pairs(b, b->args[0]);
  const trn_expr *made = engine(b, "array_transform", list_of(b, b->args[1]), list, b->args[1]);
  return spark__gives(b, keys ? joined(b, made, picked(b, list, 1)) : joined(b, picked(b, list, 0), made), out);
}

static trn_status build_map_zip_with(spark_builder *b, const trn_expr **out) {
  trn_status status = lambda_at(b, 2);
  if (status) return status;
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  if (!trn__type_same_shape(x->fields[0].type, y->fields[0].type))
    return spark__not_supported(b, "maps with keys of different types");
  trn_field fields[3] = {{.name = "0", .type = x->fields[0].type, .nullable = false},
                         {.name = "1", .type = x->fields[1].type, .nullable = true},
                         {.name = "2", .type = y->fields[1].type, .nullable = true}};
  const trn_type *row = trn__type_struct(b->t->arena, fields, 3);
  const trn_type *type = row ? trn__type_array(b->t->arena, row, false) : NULL;
  const trn_expr *list = spark__kernel(b->t, "trn.map_zip", type, b->args, 2);
  const trn_expr *made = engine(b, "array_transform", list_of(b, b->args[2]), list, b->args[2]);
  return spark__gives(b, joined(b, picked(b, list, 0), made), out);
}

/* ---- maps of maps and of pairs ---- */
static trn_status build_map_concat(spark_builder *b, const trn_expr **out) {
  const trn_type *common = NULL;
  if (!b->count) return spark__not_supported(b, "no maps");
  trn_status status = spark__coerce_common(b, 0, 1, &common);
  if (status) return status;
  if (common->id != TRN_TYPE_MAP) return spark__unexpected_input(b, 0, "\"MAP\"", common);
  return spark__gives(b, spark__kernel_with(b, "trn.map_concat", common, b->args, b->count, SPARK_POSITION), out);
}

static trn_status build_map_from_entries(spark_builder *b, const trn_expr **out) {
  const trn_type *list = b->args[0]->type;
  const trn_type *pair = list->id == TRN_TYPE_ARRAY ? list->fields[0].type : NULL;
  if (!pair || pair->id != TRN_TYPE_STRUCT || pair->field_count != 2)
    return spark__unexpected_input(b, 0, "\"ARRAY\" of pair \"STRUCT\"", list);
  const trn_type *type =
      trn__type_map(b->t->arena, pair->fields[0].type, pair->fields[1].type, pair->fields[1].nullable);
  trn_expr *expr = spark__kernel_with(b, "trn.map_from_entries", type, b->args, 1, SPARK_POSITION);
  if (expr) expr->nullable = b->args[0]->nullable || list->fields[0].nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_contains_key(spark_builder *b, const trn_expr **out) {
  const trn_type *map = b->args[0]->type, *key = map->fields[0].type;
  trn_status status = spark__coerce(b, 1, key);
  if (status) return status;
  const trn_expr *args[2] = {
      spark__kernel(b->t, "trn.map_keys", trn__type_array(b->t->arena, key, false), b->args, 1), b->args[1]};
  b->name = "map_contains_key($1, $2)";
  return spark__gives(
      b, args[0] ? spark__kernel(b->t, "trn.array_contains", trn__type(TRN_TYPE_BOOL), args, 2) : NULL, out);
}

static const spark_function rows[] = {
    {"transform", "aa", NULL, NULL, build_transform, NULL, 0, 0},
    {"filter", "aa", NULL, NULL, build_filter, NULL, 0, 0},
    {"exists", "aa", NULL, "some", build_exists, NULL, 0, 0},
    {"forall", "aa", NULL, "all", build_exists, NULL, 0, 0},
    {"zip_with", "aaa", NULL, NULL, build_zip_with, NULL, 0, 0},
    {"arrays_zip", "|a+", NULL, NULL, build_arrays_zip, NULL, 0, 0},
    {"aggregate", "aaa|a", NULL, NULL, build_fold, NULL, SPARK_NULLABLE, 0},
    {"reduce", "aaa|a", NULL, NULL, build_fold, NULL, SPARK_NULLABLE, 0},
    {"array_sort", "a|a", NULL, NULL, build_array_sort, NULL, 0, 0},
    {"array_insert", "aaa", NULL, NULL, build_array_insert, NULL, 0, 0},
    {"map_entries", "M", NULL, NULL, build_map_entries, NULL, 0, 0},
    {"map_filter", "Ma", NULL, NULL, build_map_filter, NULL, 0, 0},
    {"transform_keys", "Ma", NULL, "keys", build_transform_map, NULL, 0, 0},
    {"transform_values", "Ma", NULL, "values", build_transform_map, NULL, 0, 0},
    {"map_zip_with", "MMa", NULL, NULL, build_map_zip_with, NULL, 0, 0},
    {"map_concat", "|a+", NULL, NULL, build_map_concat, NULL, 0, 0},
    {"map_from_entries", "a", NULL, NULL, build_map_from_entries, NULL, 0, 0},
    {"map_contains_key", "Ma", NULL, NULL, build_contains_key, NULL, SPARK_NULLABLE, 0},
};
const spark_function_table spark__functions_lambda = {rows, sizeof rows / sizeof rows[0]};
