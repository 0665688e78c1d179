/* Data types. Constructors bound depth and size, so that everything else may recurse over a type. */
#include "plan/plan.h"

const trn_type *trn__type(trn_type_id id) {
  static const trn_type types[] = {
      [TRN_TYPE_NULL] = {.id = TRN_TYPE_NULL},
      [TRN_TYPE_BOOL] = {.id = TRN_TYPE_BOOL},
      [TRN_TYPE_INT8] = {.id = TRN_TYPE_INT8},
      [TRN_TYPE_INT16] = {.id = TRN_TYPE_INT16},
      [TRN_TYPE_INT32] = {.id = TRN_TYPE_INT32},
      [TRN_TYPE_INT64] = {.id = TRN_TYPE_INT64},
      [TRN_TYPE_FLOAT32] = {.id = TRN_TYPE_FLOAT32},
      [TRN_TYPE_FLOAT64] = {.id = TRN_TYPE_FLOAT64},
      [TRN_TYPE_DECIMAL] = {.id = TRN_TYPE_DECIMAL, .precision = 10, .scale = 0},
      [TRN_TYPE_STRING] = {.id = TRN_TYPE_STRING},
      [TRN_TYPE_BINARY] = {.id = TRN_TYPE_BINARY},
      [TRN_TYPE_DATE] = {.id = TRN_TYPE_DATE},
      [TRN_TYPE_TIMESTAMP] = {.id = TRN_TYPE_TIMESTAMP},
      [TRN_TYPE_TIMESTAMP_NTZ] = {.id = TRN_TYPE_TIMESTAMP_NTZ},
      [TRN_TYPE_TIME] = {.id = TRN_TYPE_TIME, .precision = 6},
      [TRN_TYPE_INTERVAL_YEAR_MONTH] = {.id = TRN_TYPE_INTERVAL_YEAR_MONTH, .precision = 0, .scale = 1},
      [TRN_TYPE_INTERVAL_DAY_TIME] = {.id = TRN_TYPE_INTERVAL_DAY_TIME, .precision = 0, .scale = 3},
      [TRN_TYPE_INTERVAL_CALENDAR] = {.id = TRN_TYPE_INTERVAL_CALENDAR},
  };
  TRN_ASSERT(id < TRN_TYPE_ARRAY);
  return id < TRN_TYPE_ARRAY ? &types[id] : NULL;
}

const trn_type *trn__type_decimal(trn_arena *arena, int precision, int scale) {
  TRN_ASSERT(precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision);
  trn_type *type = TRN_NEW(arena, trn_type);
  if (!type) return NULL;
  type->id = TRN_TYPE_DECIMAL;
  type->precision = (uint8_t)precision;
  type->scale = (int8_t)scale;
  return type;
}

/* A leaf made by hand has depth and node_count 0: it counts as one. */
static const trn_type *type_nested(trn_arena *arena, trn_type_id id, const trn_field *fields, size_t count) {
  uint32_t depth = 0;
  uint64_t nodes = 1;
  for (size_t i = 0; i < count; i++) {
    const trn_type *type = fields[i].type;
    if (type->depth > depth) depth = type->depth;
    nodes += type->node_count ? type->node_count : 1;
    if (nodes > TRN_TYPE_NODES_MAX) return NULL;
  }
  if (depth + 1 > TRN_TYPE_DEPTH_MAX) return NULL;
  trn_type *type = TRN_NEW(arena, trn_type);
  trn_field *copies = TRN_NEW_N(arena, trn_field, count);
  if (!type || !copies) return NULL;
  for (size_t i = 0; i < count; i++) copies[i] = fields[i];
  type->id = (uint8_t)id;
  type->depth = depth + 1;
  type->node_count = (uint32_t)nodes;
  type->field_count = (uint32_t)count;
  type->fields = copies;
  return type;
}

const trn_type *trn__type_array(trn_arena *arena, const trn_type *element, bool contains_null) {
  trn_field field = {.name = "element", .type = element, .nullable = contains_null};
  return type_nested(arena, TRN_TYPE_ARRAY, &field, 1);
}

const trn_type *trn__type_map(trn_arena *arena, const trn_type *key, const trn_type *value, bool value_contains_null) {
  trn_field fields[] = {{.name = "key", .type = key, .nullable = false},
                        {.name = "value", .type = value, .nullable = value_contains_null}};
  return type_nested(arena, TRN_TYPE_MAP, fields, 2);
}

const trn_type *trn__type_other(trn_arena *arena, const char *format, size_t size) {
  trn_type *type = TRN_NEW(arena, trn_type);
  if (!type || !(type->format = trn__arena_str(arena, format, size))) return NULL;
  type->id = TRN_TYPE_OTHER;
  return type;
}

const trn_type *trn__type_struct(trn_arena *arena, const trn_field *fields, size_t count) {
  return type_nested(arena, TRN_TYPE_STRUCT, fields, count);
}

const trn_type *trn__type_all_nullable(trn_arena *arena, const trn_type *type, unsigned depth) {
  if (!type->field_count || depth > TRN_TYPE_DEPTH_MAX) return type;
  trn_field *fields = TRN_NEW_N(arena, trn_field, type->field_count);
  if (!fields) return NULL;
  for (uint32_t i = 0; i < type->field_count; i++) {
    fields[i] = type->fields[i];
    fields[i].nullable = true;
    if (!(fields[i].type = trn__type_all_nullable(arena, fields[i].type, depth + 1))) return NULL;
  }
  if (type->id == TRN_TYPE_STRUCT) return trn__type_struct(arena, fields, type->field_count);
  if (type->id == TRN_TYPE_MAP) return trn__type_map(arena, fields[0].type, fields[1].type, true);
  return trn__type_array(arena, fields[0].type, true);
}

/* ---- comparison ---- */

static bool is_same(const trn_type *a, const trn_type *b, bool exact) {
  if (a == b) return true;
  if (a->id != b->id || a->precision != b->precision || a->scale != b->scale || a->field_count != b->field_count)
    return false;
  if (a->id == TRN_TYPE_OTHER && strcmp(a->format, b->format)) return false;
  if (exact && (a->variant != b->variant || a->length != b->length)) return false;
  for (uint32_t i = 0; i < a->field_count; i++) {
    const trn_field *f = &a->fields[i], *g = &b->fields[i];
    if (exact && (f->nullable != g->nullable || strcmp(f->name, g->name) != 0)) return false;
    if (!is_same(f->type, g->type, exact)) return false;
  }
  return true;
}

bool trn__type_equal(const trn_type *a, const trn_type *b) {
  return is_same(a, b, true);
}

bool trn__type_same_shape(const trn_type *a, const trn_type *b) {
  return is_same(a, b, false);
}

bool trn__type_is_integer(const trn_type *type) {
  return type->id >= TRN_TYPE_INT8 && type->id <= TRN_TYPE_INT64;
}

bool trn__type_is_numeric(const trn_type *type) {
  return type->id >= TRN_TYPE_INT8 && type->id <= TRN_TYPE_DECIMAL;
}
