/* Types that meet: what Spark's analyzer casts operands and arguments to. AnsiTypeCoercion when t->ansi, else
 * TypeCoercion; the decimal rules are DecimalPrecision's with allowPrecisionLoss. */
#include "frontend/spark/translate/values.h"
#include <strings.h>

/* ---- decimals ---- */
const trn_type *spark__decimal_bounded(spark_translator *t, int precision, int scale) {
  return trn__type_decimal(t->arena, precision < 38 ? precision : 38, scale < 38 ? scale : 38);
}

const trn_type *spark__decimal_adjusted(spark_translator *t, int precision, int scale) {
  if (precision <= 38) return trn__type_decimal(t->arena, precision, scale);
  int whole = precision - scale, least = scale < 6 ? scale : 6;
  int adjusted = 38 - whole > least ? 38 - whole : least;
  return trn__type_decimal(t->arena, 38, adjusted);
}

const trn_type *spark__decimal_for(spark_translator *t, const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_INT8: return trn__type_decimal(t->arena, 3, 0);
  case TRN_TYPE_INT16: return trn__type_decimal(t->arena, 5, 0);
  case TRN_TYPE_INT32: return trn__type_decimal(t->arena, 10, 0);
  case TRN_TYPE_INT64: return trn__type_decimal(t->arena, 20, 0);
  case TRN_TYPE_FLOAT32: return trn__type_decimal(t->arena, 14, 7);
  case TRN_TYPE_FLOAT64: return trn__type_decimal(t->arena, 30, 15);
  default: return type;
  }
}

/* The decimal that holds both without loss, or clipped: DecimalPrecision.widerDecimalType. */
static const trn_type *wider_decimal(spark_translator *t, const trn_type *a, const trn_type *b) {
  int scale = a->scale > b->scale ? a->scale : b->scale;
  int left = a->precision - a->scale, right = b->precision - b->scale;
  return spark__decimal_bounded(t, (left > right ? left : right) + scale, scale);
}

static bool decimal_is_wider(const trn_type *decimal, const trn_type *integer_as_decimal) {
  return decimal->precision - decimal->scale >= integer_as_decimal->precision && decimal->scale >= 0;
}

const trn_type *spark__day_time(spark_translator *t, int start, int end) {
  trn_type *type = trn__arena_copy(t->arena, trn__type(TRN_TYPE_INTERVAL_DAY_TIME), sizeof(trn_type));
  if (type) type->precision = (uint8_t)start, type->scale = (int8_t)end;
  return type;
}

/* ---- the tightest common type ---- */
static trn_status merge_nested(spark_translator *t, const trn_type *a, const trn_type *b, bool wide,
                               const trn_type **out);

static const trn_type *merge_intervals(spark_translator *t, const trn_type *a, const trn_type *b) {
  trn_type *type = trn__arena_copy(t->arena, a, sizeof(trn_type));
  if (!type) return NULL;
  if (b->precision < type->precision) type->precision = b->precision;
  if (b->scale > type->scale) type->scale = b->scale;
  return type;
}

static trn_status tightest_number(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out) {
  bool left = a->id == TRN_TYPE_DECIMAL, right = b->id == TRN_TYPE_DECIMAL;
  if (left || right) {
    const trn_type *decimal = left ? a : b, *other = left ? b : a;
    if (!trn__type_is_integer(other)) return TRN_OK;
    const trn_type *as_decimal = spark__decimal_for(t, other);
    if (!as_decimal) return TRN_RESOURCE_EXHAUSTED;
    if (decimal_is_wider(decimal, as_decimal)) *out = decimal;
    return TRN_OK;
  }
  const trn_type *wider = a->id > b->id ? a : b, *narrow = wider == a ? b : a;
  if (t->ansi && wider->id == TRN_TYPE_FLOAT32 && trn__type_is_integer(narrow)) wider = trn__type(TRN_TYPE_FLOAT64);
  *out = wider;
  return TRN_OK;
}

trn_status spark__tightest_type(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out) {
  *out = NULL;
  if (trn__type_equal(a, b)) {
    *out = a;
  } else if (a->id == TRN_TYPE_NULL) {
    *out = b;
  } else if (b->id == TRN_TYPE_NULL) {
    *out = a;
  } else if (spark__is_string(a) && spark__is_string(b)) {
    *out = trn__type(TRN_TYPE_STRING); /* char and varchar are strings in expressions */
  } else if (trn__type_is_numeric(a) && trn__type_is_numeric(b)) {
    return tightest_number(t, a, b, out);
  } else if ((a->id == TRN_TYPE_DATE && spark__is_timestamp(b)) || (b->id == TRN_TYPE_DATE && spark__is_timestamp(a))) {
    *out = a->id == TRN_TYPE_DATE ? b : a;
  } else if (spark__is_timestamp(a) && spark__is_timestamp(b)) {
    *out = trn__type(TRN_TYPE_TIMESTAMP);
  } else if (a->id == b->id && spark__is_interval(a)) {
    *out = merge_intervals(t, a, b);
    if (!*out) return TRN_RESOURCE_EXHAUSTED;
  } else if (a->id == TRN_TYPE_TIME && b->id == TRN_TYPE_TIME) {
    *out = a->precision >= b->precision ? a : b;
  } else {
    return merge_nested(t, a, b, false, out);
  }
  return TRN_OK;
}

/* ---- the wider type: may go by way of strings and lossy decimals ---- */
static trn_status wider_number(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out) {
  bool left = a->id == TRN_TYPE_DECIMAL, right = b->id == TRN_TYPE_DECIMAL;
  if (!left && !right) return TRN_OK;
  if (spark__is_float(a) || spark__is_float(b)) {
    *out = trn__type(TRN_TYPE_FLOAT64);
    return TRN_OK;
  }
  const trn_type *x = left ? a : spark__decimal_for(t, a), *y = right ? b : spark__decimal_for(t, b);
  *out = x && y ? wider_decimal(t, x, y) : NULL;
  return *out ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* A string beside another atomic type. */
static const trn_type *wider_string(const spark_translator *t, const trn_type *other) {
  if (!t->ansi) {
    if (!spark__is_atomic(other) || other->id == TRN_TYPE_BINARY || other->id == TRN_TYPE_BOOL) return NULL;
    return trn__type(TRN_TYPE_STRING);
  }
  if (trn__type_is_integer(other)) return trn__type(TRN_TYPE_INT64);
  if (trn__type_is_numeric(other)) return trn__type(TRN_TYPE_FLOAT64);
  return spark__is_atomic(other) && !spark__is_interval(other) ? other : NULL;
}

trn_status spark__wider_type(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out) {
  trn_status status = spark__tightest_type(t, a, b, out);
  if (status || *out) return status;
  if (trn__type_is_numeric(a) && trn__type_is_numeric(b)) return wider_number(t, a, b, out);
  if (spark__is_string(a))
    *out = wider_string(t, b);
  else if (spark__is_string(b))
    *out = wider_string(t, a);
  else
    return merge_nested(t, a, b, true, out);
  return TRN_OK;
}

/* Whether a cast to the common element type can put nulls where none were. */
static bool force_null(const trn_type *from, const trn_type *to) {
  if (from->id == TRN_TYPE_NULL || trn__type_same_shape(from, to)) return false;
  if (spark__is_string(from)) return to->id != TRN_TYPE_BINARY && !spark__is_string(to);
  return false;
}

static trn_status merge_nested(spark_translator *t, const trn_type *a, const trn_type *b, bool wide,
                               const trn_type **out) {
  if (a->id != b->id || a->id < TRN_TYPE_ARRAY || a->field_count != b->field_count) return TRN_OK;
  if (spark__type_depth(a) > TRN_TYPE_DEPTH_MAX || spark__type_depth(b) > TRN_TYPE_DEPTH_MAX) return TRN_OK;
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, a->field_count);
  trn_type *type = trn__arena_copy(t->arena, a, sizeof(trn_type));
  if (!fields || !type) return TRN_RESOURCE_EXHAUSTED;
  for (uint32_t i = 0; i < a->field_count; i++) {
    const trn_field *x = &a->fields[i], *y = &b->fields[i];
    const trn_type *common = NULL;
    /* strcasecmp would follow the host's locale for letters beyond ASCII; names are compared as the setting says by
     * bytes */
    if (a->id == TRN_TYPE_STRUCT && strcmp(x->name, y->name) != 0 &&
        (t->case_sensitive || strcasecmp(x->name, y->name) != 0))
      return TRN_OK;
    trn_status status =
        wide ? spark__wider_type(t, x->type, y->type, &common) : spark__tightest_type(t, x->type, y->type, &common);
    if (status || !common) return status;
    bool forced = force_null(x->type, common) || force_null(y->type, common);
    if (forced && a->id == TRN_TYPE_MAP && i == 0) return TRN_OK; /* a key cannot become null */
    fields[i] = (trn_field){
        .name = x->name, .type = common, .metadata = x->metadata, .nullable = x->nullable || y->nullable || forced};
  }
  type->fields = fields;
  *out = type;
  return TRN_OK;
}

/* Non-ANSI: with a string among them that can take all, the string; kept apart so that order does not matter. */
static bool has_string(const trn_type *const *types, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (spark__is_string(types[i])) return true;
  return false;
}

trn_status spark__common_type(spark_translator *t, const trn_type *const *types, size_t count, const trn_type **out) {
  const trn_type *common = count ? types[0] : trn__type(TRN_TYPE_NULL);
  /* Spark folds strings in first ("partition by isString"): the others then meet a string, not each other. */
  bool strings = has_string(types, count);
  if (strings) common = trn__type(TRN_TYPE_STRING);
  for (size_t i = strings ? 0 : 1; i < count; i++) {
    const trn_type *next = NULL;
    trn_status status = spark__wider_type(t, common, types[i], &next);
    if (status) return status;
    if (!next) {
      common = NULL;
      break;
    }
    common = next;
  }
  if (common && spark__is_string(common) && common->length) common = trn__type(TRN_TYPE_STRING);
  *out = common;
  return TRN_OK;
}

/* ---- arguments ---- */
trn_status spark__coerce(spark_builder *b, size_t index, const trn_type *type) {
  if (!type) return trn__no_memory(b->error);
  return spark__cast(b->t, b->args[index], type, SPARK_CAST_IMPLICIT, b->call->position, &b->args[index], b->error);
}

trn_status spark__coerce_common(spark_builder *b, size_t first, size_t step, const trn_type **type) {
  size_t count = 0;
  const trn_type **types = TRN_NEW_N(b->t->arena, const trn_type *, b->count + 1);
  const trn_expr **args = TRN_NEW_N(b->t->arena, const trn_expr *, b->count + 1);
  if (!types || !args) return trn__no_memory(b->error);
  for (size_t i = first; i < b->count; i += step) {
    args[count] = b->args[i];
    types[count++] = b->args[i]->type;
  }
  trn_status status = spark__common_type(b->t, types, count, type);
  if (status) return trn__no_memory(b->error);
  if (!*type) {
    const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name);
    const char *list = spark__quoted_types(b->t, NULL, args, count);
    if (!name || !list) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.DATA_DIFF_TYPES", "functionName", name, "dataType", list,
                           (char *)NULL);
  }
  for (size_t i = first; !status && i < b->count; i += step) status = spark__coerce(b, i, *type);
  return status;
}

/* The literal in `decimal op integer literal` has just the digits it needs. */
static const trn_type *decimal_of_operand(spark_builder *b, size_t index) {
  const trn_expr *arg = b->args[index];
  if (!b->call->args[index].is_literal || !spark__is_literal(arg)) return spark__decimal_for(b->t, arg->type);
  int64_t value = arg->u.literal.value.integer;
  int digits = 1;
  for (uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value; rest >= 10; rest /= 10) digits++;
  return trn__type_decimal(b->t->arena, digits, 0);
}

static trn_status promote_string(spark_builder *b, bool comparison, bool *done) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type, *to = NULL;
  *done = false;
  if (spark__is_string(x) == spark__is_string(y)) return TRN_OK;
  const trn_type *other = spark__is_string(x) ? y : x;
  if (other->id == TRN_TYPE_NULL) {
    to = b->t->ansi || comparison ? trn__type(TRN_TYPE_STRING) : trn__type(TRN_TYPE_FLOAT64);
  } else if (b->t->ansi) {
    to = wider_string(b->t, other);
  } else if (comparison) {
    to = spark__is_atomic(other) && !spark__is_interval(other) ? other : NULL;
  } else if (trn__type_is_numeric(other)) {
    size_t string = spark__is_string(x) ? 0 : 1;
    trn_status status = spark__coerce(b, string, trn__type(TRN_TYPE_FLOAT64)); /* the other is widened afterwards */
    return status;
  }
  if (!to) return TRN_OK;
  *done = true;
  trn_status status = spark__coerce(b, 0, to);
  return status ? status : spark__coerce(b, 1, to);
}

static trn_status coerce_decimal_operands(spark_builder *b, bool comparison) {
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type;
  if (spark__is_float(x) || spark__is_float(y)) {
    trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64));
    return status ? status : spark__coerce(b, 1, trn__type(TRN_TYPE_FLOAT64));
  }
  const trn_type *left = x->id == TRN_TYPE_DECIMAL ? x : decimal_of_operand(b, 0);
  const trn_type *right = y->id == TRN_TYPE_DECIMAL ? y : decimal_of_operand(b, 1);
  if (!left || !right) return trn__no_memory(b->error);
  if (comparison) { /* both sides in the type that holds both */
    left = right = wider_decimal(b->t, left, right);
    if (!left) return trn__no_memory(b->error);
  }
  trn_status status = spark__coerce(b, 0, left);
  return status ? status : spark__coerce(b, 1, right);
}

trn_status spark__coerce_operands(spark_builder *b, bool comparison) {
  bool done;
  trn_status status = promote_string(b, comparison, &done);
  if (status || done) return status;
  const trn_type *x = b->args[0]->type, *y = b->args[1]->type, *common = NULL;
  if (!comparison && spark__is_string(x) && spark__is_string(y) && !b->t->ansi) {
    if ((status = spark__coerce(b, 0, trn__type(TRN_TYPE_FLOAT64)))) return status;
    return spark__coerce(b, 1, trn__type(TRN_TYPE_FLOAT64));
  }
  if (trn__type_is_numeric(x) && trn__type_is_numeric(y) && (x->id == TRN_TYPE_DECIMAL || y->id == TRN_TYPE_DECIMAL))
    return coerce_decimal_operands(b, comparison);
  if (trn__type_same_shape(x, y)) return TRN_OK;
  if (spark__tightest_type(b->t, x, y, &common)) return trn__no_memory(b->error);
  if (!common) return TRN_OK;
  if ((status = spark__coerce(b, 0, common))) return status;
  return spark__coerce(b, 1, common);
}

/* ---- implicit casts of arguments ---- */
static const trn_type *of_letter(char letter) {
  switch (letter) {
  case 'b': return trn__type(TRN_TYPE_BINARY);
  case 'B': return trn__type(TRN_TYPE_BOOL);
  case 'd':
  case 'n': return trn__type(TRN_TYPE_FLOAT64);
  case 'D': return trn__type(TRN_TYPE_DATE);
  case 'i':
  case 'I': return trn__type(TRN_TYPE_INT32);
  case 'l': return trn__type(TRN_TYPE_INT64);
  case 'm': return trn__type(TRN_TYPE_DECIMAL);
  case 's':
  case 'x': return trn__type(TRN_TYPE_STRING);
  case 't':
  case 'T': return trn__type(TRN_TYPE_TIMESTAMP);
  case 'y': return trn__type(TRN_TYPE_INTERVAL_YEAR_MONTH);
  case 'Y': return trn__type(TRN_TYPE_INTERVAL_DAY_TIME);
  default: return NULL;
  }
}

static bool accepts(char letter, const trn_type *type) {
  switch (letter) {
  case 'a':
  case 'c': return true;
  case 'o': return true; /* ordering is checked after the casts */
  case 'n': return trn__type_is_numeric(type);
  case 'I': return trn__type_is_integer(type);
  case 'm': return type->id == TRN_TYPE_DECIMAL;
  case 'x': return spark__is_string(type) || type->id == TRN_TYPE_BINARY;
  case 'T': return spark__is_timestamp(type);
  case 'A': return type->id == TRN_TYPE_ARRAY;
  case 'M': return type->id == TRN_TYPE_MAP;
  case 'R': return type->id == TRN_TYPE_STRUCT;
  case 'k': return type->id == TRN_TYPE_ARRAY || type->id == TRN_TYPE_MAP;
  default: return of_letter(letter) && of_letter(letter)->id == type->id;
  }
}

const char *spark__letter_text(char letter) {
  switch (letter) {
  case 'b': return "\"BINARY\"";
  case 'B': return "\"BOOLEAN\"";
  case 'd': return "\"DOUBLE\"";
  case 'n': return "\"NUMERIC\"";
  case 'D': return "\"DATE\"";
  case 'i': return "\"INT\"";
  case 'I': return "\"INTEGRAL\"";
  case 'l': return "\"BIGINT\"";
  case 'm': return "\"DECIMAL\"";
  case 's': return "\"STRING\"";
  case 'x': return "(\"STRING\" or \"BINARY\")";
  case 't': return "\"TIMESTAMP\"";
  case 'T': return "(\"TIMESTAMP\" or \"TIMESTAMP WITHOUT TIME ZONE\")";
  case 'A': return "\"ARRAY\"";
  case 'M': return "\"MAP\"";
  case 'R': return "\"STRUCT\"";
  case 'k': return "(\"ARRAY\" or \"MAP\")";
  case 'y': return "\"INTERVAL YEAR TO MONTH\"";
  case 'Y': return "\"INTERVAL DAY TO SECOND\"";
  default: return "\"ANY\"";
  }
}

const trn_type *spark__implicit_type(spark_translator *t, const trn_type *from, char letter) {
  if (accepts(letter, from)) return spark__is_string(from) && from->length ? trn__type(TRN_TYPE_STRING) : from;
  const trn_type *target = of_letter(letter);
  if (from->id == TRN_TYPE_NULL && (letter == 'A' || letter == 'k')) return trn__type_array(t->arena, from, true);
  if (from->id == TRN_TYPE_NULL && letter == 'M') return trn__type_map(t->arena, from, from, true);
  if (from->id == TRN_TYPE_NULL) return target;
  if (!target) return NULL;
  bool number = trn__type_is_numeric(from);
  if (letter == 'm')
    return number ? spark__decimal_for(t, from) : spark__is_string(from) ? trn__type_decimal(t->arena, 38, 18) : NULL;
  if (letter == 'n') return spark__is_string(from) ? target : NULL;
  if (letter == 'I') return NULL; /* a type class: strings and other numbers are not taken */
  if (number && trn__type_is_numeric(target)) return target;
  if (spark__is_string(target))
    return spark__is_atomic(from) || (t->ansi && from->id == TRN_TYPE_INTERVAL_CALENDAR) ? target : NULL;
  if (spark__is_string(from)) {
    if (t->ansi) return spark__is_atomic(target) && !spark__is_interval(target) ? target : NULL;
    return trn__type_is_numeric(target) || target->id == TRN_TYPE_DATE || spark__is_timestamp(target) ||
                   target->id == TRN_TYPE_BINARY
               ? target
               : NULL;
  }
  bool from_date = from->id == TRN_TYPE_DATE || spark__is_timestamp(from);
  bool to_date = target->id == TRN_TYPE_DATE || spark__is_timestamp(target);
  return from_date && to_date ? target : NULL;
}
