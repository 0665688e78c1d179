#include "functions/cast.h"
#include <stdlib.h>
#include <string.h>

static trn_status cast_any(fn_cast *cast);

/* ---- failures ---- */
#define SQL_TEXT_MAX 1024
static trn_status fail_row(fn_cast *cast, int64_t row, const char *condition, const char *value_key) {
  if (cast->mode != FN_ANSI) {
    if (fn__type_width((fn_kind)cast->out->type.kind))
      memset((char *)cast->out->data + (size_t)row * fn__type_width((fn_kind)cast->out->type.kind), 0,
             fn__type_width((fn_kind)cast->out->type.kind));
    fn__set_null(cast->out, row);
    return TRN_OK;
  }
  char value[SQL_TEXT_MAX], source[256], target[256], quoted_source[260], quoted_target[260];
  fn__type_sql(&cast->from->type, source, sizeof source);
  fn__type_sql(&cast->out->type, target, sizeof target);
  size_t size = fn__print_sql(cast, cast->from, row, value, sizeof value);
  strcpy(quoted_source, "\"");
  strcat(strcat(quoted_source, source), "\"");
  strcpy(quoted_target, "\"");
  strcat(strcat(quoted_target, target), "\"");
  trn_status status = fn__raise(cast->report, condition, "sourceType", quoted_source, "targetType", quoted_target,
                                "ansiConfig", FN_CONFIG, NULL);
  fn__param(cast->report, value_key, value, size);
  return status;
}

trn_status fn__cast_invalid(fn_cast *cast, int64_t row) {
  return fail_row(cast, row, "CAST_INVALID_INPUT", "expression");
}
trn_status fn__cast_overflow(fn_cast *cast, int64_t row) {
  return fail_row(cast, row, "CAST_OVERFLOW", "value");
}

/* ---- nested ---- */
/* Casts elements `first`..`first + rows` of a child into an array for `schema`. */
static trn_status cast_child(const fn_cast *cast, const fn_column *child, int64_t rows,
                             const struct ArrowSchema *schema, struct ArrowArray *out) {
  fn_type type;
  fn_builder builder;
  if (!fn__type_read(schema, &type) || cast->depth > FN_NESTING_MAX) return TRN_INVALID_ARGUMENT;
  if (!fn__builder_init(&builder, &type, rows)) return TRN_RESOURCE_EXHAUSTED;
  fn_cast inner = *cast;
  inner.from = child;
  inner.out = &builder;
  inner.rows = rows;
  inner.depth++;
  trn_status status = cast_any(&inner);
  if (status != TRN_OK) {
    fn__builder_clear(&builder);
    return status;
  }
  return fn__builder_finish(&builder, out);
}

/* Lists and maps keep their offsets, counted from the first element used. */
static trn_status cast_list(fn_cast *cast) {
  fn_column child;
  struct ArrowArray result;
  int64_t first = cast->from->offsets[0], last = cast->from->offsets[cast->rows * cast->from->step];
  if (cast->from->step == 0) last = cast->from->offsets[1];
  trn_status status = fn__column_child(cast->from, 0, &child);
  if (status != TRN_OK) return status;
  /* A slice of the child, so that elements outside of the rows are not cast (they might fail). */
  struct ArrowArray slice = *child.array;
  slice.offset += first;
  slice.length = last - first;
  slice.null_count = -1;
  status = fn__column_open(child.type.schema ? child.type.schema : cast->from->type.schema->children[0], &slice, false,
                           &child);
  if (status == TRN_OK) status = cast_child(cast, &child, last - first, cast->out->type.schema->children[0], &result);
  if (status != TRN_OK) return status;
  fn__add_child(cast->out, &result);
  for (int64_t row = 0; row < cast->rows; row++)
    fn__push_list(cast->out, cast->from->offsets[row * cast->from->step + 1] - first);
  return TRN_OK;
}

static trn_status cast_struct(fn_cast *cast) {
  const struct ArrowSchema *target = cast->out->type.schema, *source = cast->from->type.schema;
  trn_status status = TRN_OK;
  if (cast->from->step == 0 && cast->rows > 1) return TRN_INVALID_ARGUMENT;
  for (int64_t i = 0; i < target->n_children && status == TRN_OK; i++) {
    fn_column child;
    struct ArrowArray result, slice;
    status = fn__column_child(cast->from, i, &child);
    if (status != TRN_OK) break;
    slice = *child.array;
    slice.offset += cast->from->offset;
    slice.length = cast->rows;
    slice.null_count = -1;
    status = fn__column_open(source->children[i], &slice, false, &child);
    if (status == TRN_OK) status = cast_child(cast, &child, cast->rows, target->children[i], &result);
    if (status == TRN_OK) fn__add_child(cast->out, &result);
  }
  return status;
}

/* A copy of the same type. */
static trn_status cast_same(fn_cast *cast) {
  const fn_column *from = cast->from;
  size_t width = fn__type_width((fn_kind)from->type.kind);
  if (width && from->step) {
    memcpy(cast->out->data, from->data, width * (size_t)cast->rows);
    return TRN_OK;
  }
  for (int64_t row = 0; row < cast->rows; row++) {
    if (width)
      memcpy((char *)cast->out->data + (size_t)row * width, from->data, width);
    else if (from->type.kind == FN_BOOL)
      fn__set_bool(cast->out, row, fn__get_bool(from, row));
    else if (!fn__row_is_null(cast->out, row)) {
      fn_text text = fn__get_text(from, row);
      fn__push(cast->out, text.data, text.size);
    } else {
      fn__push_null(cast->out);
    }
  }
  return TRN_OK;
}

static trn_status cast_any(fn_cast *cast) {
  fn_kind from = (fn_kind)cast->from->type.kind, to = (fn_kind)cast->out->type.kind;
  if (to == FN_NULL) return TRN_OK;
  if (!fn__and_validity(cast->out, cast->from) && from == FN_NULL) {
    size_t width = fn__type_width(to);
    if (width) memset(cast->out->data, 0, width * (size_t)cast->rows);
    for (int64_t i = 0; to == FN_STRUCT && i < cast->out->type.schema->n_children; i++) {
      struct ArrowArray child;
      trn_status status = cast_child(cast, cast->from, cast->rows, cast->out->type.schema->children[i], &child);
      if (status != TRN_OK) return status;
      fn__add_child(cast->out, &child);
    }
    if (to == FN_LIST || to == FN_MAP) {
      struct ArrowArray child;
      trn_status status = cast_child(cast, cast->from, 0, cast->out->type.schema->children[0], &child);
      if (status == TRN_OK) fn__add_child(cast->out, &child);
      return status;
    }
    return TRN_OK;
  }
  bool interval_fields = to == FN_YEAR_MONTH || to == FN_DAY_TIME || to == FN_TIME;
  if (fn__type_same(&cast->from->type, &cast->out->type) && to < FN_LIST && !interval_fields) return cast_same(cast);
  switch (to) {
  case FN_BOOL: return fn__cast_to_bool(cast);
  case FN_INT8:
  case FN_INT16:
  case FN_INT32:
  case FN_INT64: return fn__cast_to_integer(cast);
  case FN_FLOAT32:
  case FN_FLOAT64: return fn__cast_to_float(cast);
  case FN_DECIMAL: return fn__cast_to_decimal(cast);
  case FN_STRING: return fn__cast_to_string(cast);
  case FN_BINARY: return fn__cast_to_binary(cast);
  case FN_DATE:
  case FN_TIMESTAMP:
  case FN_TIMESTAMP_NTZ:
  case FN_TIME: return fn__cast_to_time(cast);
  case FN_YEAR_MONTH:
  case FN_DAY_TIME:
  case FN_CALENDAR: return fn__cast_to_interval(cast);
  case FN_LIST:
  case FN_MAP: return cast_list(cast);
  case FN_STRUCT: return cast_struct(cast);
  default: return TRN_INVALID_ARGUMENT;
  }
}

/* ---- which pairs there are; modes forbid more, which is the translator's to say ---- */
#define K(kind) (1u << (kind))
#define NUMBERS (K(FN_INT8) | K(FN_INT16) | K(FN_INT32) | K(FN_INT64) | K(FN_FLOAT32) | K(FN_FLOAT64) | K(FN_DECIMAL))
#define INTS (K(FN_INT8) | K(FN_INT16) | K(FN_INT32) | K(FN_INT64))
#define INTERVALS (K(FN_YEAR_MONTH) | K(FN_DAY_TIME))
static const uint32_t SOURCES[FN_KIND_COUNT] = {
    [FN_BOOL] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE),
    [FN_INT8] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE) | K(FN_TIME) | INTERVALS,
    [FN_INT16] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE) | K(FN_TIME) | INTERVALS,
    [FN_INT32] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE) | K(FN_TIME) | INTERVALS,
    [FN_INT64] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE) | K(FN_TIME) | INTERVALS,
    [FN_FLOAT32] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE),
    [FN_FLOAT64] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE),
    [FN_DECIMAL] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_TIMESTAMP) | K(FN_DATE) | K(FN_TIME) | INTERVALS,
    [FN_STRING] = ~0u,
    [FN_BINARY] = INTS | K(FN_STRING) | K(FN_BINARY),
    [FN_DATE] = K(FN_STRING) | K(FN_DATE) | K(FN_TIMESTAMP) | K(FN_TIMESTAMP_NTZ),
    [FN_TIMESTAMP] = NUMBERS | K(FN_BOOL) | K(FN_STRING) | K(FN_DATE) | K(FN_TIMESTAMP) | K(FN_TIMESTAMP_NTZ),
    [FN_TIMESTAMP_NTZ] = K(FN_STRING) | K(FN_DATE) | K(FN_TIMESTAMP) | K(FN_TIMESTAMP_NTZ),
    [FN_TIME] = K(FN_STRING) | K(FN_TIME) | K(FN_TIMESTAMP_NTZ) | K(FN_TIMESTAMP),
    [FN_YEAR_MONTH] = INTS | K(FN_DECIMAL) | K(FN_STRING) | K(FN_YEAR_MONTH),
    [FN_DAY_TIME] = INTS | K(FN_DECIMAL) | K(FN_STRING) | K(FN_DAY_TIME),
    [FN_CALENDAR] = K(FN_STRING) | K(FN_CALENDAR),
    [FN_LIST] = K(FN_LIST),
    [FN_MAP] = K(FN_MAP),
    [FN_STRUCT] = K(FN_STRUCT),
};

static bool pair_exists(const struct ArrowSchema *from, const struct ArrowSchema *to, int depth) {
  fn_type a, b;
  if (depth > FN_NESTING_MAX || !fn__type_read(from, &a) || !fn__type_read(to, &b)) return false;
  if (a.kind == FN_NULL || (a.kind == b.kind && b.kind < FN_LIST)) return true;
  if (!(SOURCES[b.kind] & K(a.kind))) return false;
  if (b.kind < FN_LIST) return true;
  if (from->n_children != to->n_children) return false;
  for (int64_t i = 0; i < from->n_children; i++)
    if (!pair_exists(from->children[i], to->children[i], depth + 1)) return false;
  return true;
}

/* A double that is no finite number becomes a null decimal even under ANSI. */
static bool may_null(const fn_type *from, const fn_type *to) {
  return (from->kind == FN_FLOAT32 || from->kind == FN_FLOAT64) && to->kind == FN_DECIMAL;
}

static trn_status bind_cast(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  bool has_fields = call->function->op >> 4;
  if (!fn__args_are(call, has_fields ? "**si" : "**s")) return fn__mismatch(call);
  const fn_type *from = &call->columns[0].type;
  *out = call->columns[1].type;
  const struct ArrowSchema *to = out->schema;
  if (!pair_exists(from->schema, to, 0)) return fn__mismatch(call);
  if ((call->function->op & 15) == FN_ANSI) {
    const fn_column *value = &call->columns[0];
    bool null_value = from->kind == FN_NULL || (value->array && value->array->null_count != 0);
    call->nullable = null_value || may_null(from, out) || (from->schema->flags & ARROW_FLAG_NULLABLE) ? 1 : -1;
  } else {
    call->nullable = 1;
  }
  if (schema && out->kind >= FN_LIST) return fn__schema_copy(schema, to, "", true);
  return TRN_OK;
}

static trn_status cast_kernel(fn_call *call) {
  fn_cast cast = {.from = &call->columns[0],
                  .out = &call->out,
                  .rows = call->rows,
                  .mode = (fn_mode)(call->function->op & 15),
                  .from_fields = {0, call->columns[0].type.kind == FN_YEAR_MONTH ? 1 : 3},
                  .to_fields = {0, call->columns[1].type.kind == FN_YEAR_MONTH ? 1 : 3},
                  .precision = 6,
                  .report = &call->report};
  fn_text zone;
  if (fn__literal_text(call, 2, &zone) && !fn__zone_find(zone, &cast.zone)) {
    trn_status status = fn__raise(&call->report, "INVALID_TIMEZONE", NULL);
    fn__param(&call->report, "timeZone", zone.data, zone.size);
    return status;
  }
  if (call->function->op >> 4) {
    uint32_t fields = (uint32_t)fn__get_i32(&call->columns[3], 0);
    cast.from_fields = (fn_fields){fields & 3, fields >> 4 & 3};
    cast.precision = fields >> 8 & 15;
    cast.to_fields = (fn_fields){fields >> 8 & 3, fields >> 12 & 3};
  }
  trn_status status = cast_any(&cast);
  if (status == TRN_RESOURCE_EXHAUSTED) return fn__raise_out_of_memory(&call->report);
  return status;
}

/* With fields: the fourth argument is an int32 literal, source start | source end << 4 | target start << 8 | target end
 * << 12 (for TIME: precision << 8), which Arrow's interval and time types do not carry. */
const fn_scalar fn__cast_table[] = {
    {"trn.cast", TRN_IMMUTABLE, FN_POSITION, FN_ANSI, bind_cast, cast_kernel},
    {"trn.cast_try", TRN_IMMUTABLE, 0, FN_TRY, bind_cast, cast_kernel},
    {"trn.cast_legacy", TRN_IMMUTABLE, 0, FN_WRAP, bind_cast, cast_kernel},
    {"trn.cast_fields", TRN_IMMUTABLE, FN_POSITION, FN_ANSI | 16, bind_cast, cast_kernel},
    {"trn.cast_fields_try", TRN_IMMUTABLE, 0, FN_TRY | 16, bind_cast, cast_kernel},
    {"trn.cast_fields_legacy", TRN_IMMUTABLE, 0, FN_WRAP | 16, bind_cast, cast_kernel},
    {NULL},
};
