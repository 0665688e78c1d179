/* from_json(text, typed null, zone[, timestamp pattern, date pattern, field of bad records or -1, fails[, exact]]): JSON into
 * values of the null's type. What does not fit is null, and a text that is no JSON gives a struct of nulls, as Spark's
 * permissive mode; a field of the struct may take the text then. */
#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/json.h"
#include "functions/pattern.h"
#include "functions/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char PRESENT = 1, ABSENT = 0;

typedef struct reader {
  fn_json json;
  fn_bytes out, text;
  fn_zone zone;
  fn_zone_range range;
  const fn_pattern *timestamps, *dates; /* NULL: as casts read them */
  int64_t corrupt;                      /* the field of the root that takes a bad record's text, or -1 */
  bool bad;                             /* something did not fit */
  bool exact;                           /* texts of what is no string are as they stand */
  fn_text record;                       /* what that field gets; empty: null */
} reader;

static bool put(reader *r, const void *data, size_t size) {
  return fn__bytes_append(&r->out, data, size);
}

static bool put_present(reader *r, const void *data, size_t size) {
  return put(r, &PRESENT, 1) && put(r, data, size);
}

static bool put_text(reader *r, const void *data, size_t size) {
  uint32_t length = (uint32_t)size;
  return put(r, &PRESENT, 1) && put(r, &length, sizeof length) && put(r, data ? data : "", size);
}

/* ---- scalars: false in *fits when the node is no such value ---- */
static bool read_integer(reader *r, const fn_type *type, const fn_json_node *node, bool *fits) {
  int64_t value;
  size_t width = fn__type_width((fn_kind)type->kind);
  int64_t limit = width == 8 ? INT64_MAX : (INT64_C(1) << (8 * width - 1)) - 1;
  *fits = node->kind == FN_JSON_INTEGER && fn__int_parse(fn__json_string(&r->json, node), false, &value) &&
          value <= limit && value >= -limit - 1;
  return !*fits || put_present(r, &value, width); /* little endian */
}

static bool read_float(reader *r, const fn_type *type, const fn_json_node *node, bool *fits) {
  fn_text text = fn__json_string(&r->json, node);
  double value = NAN;
  if (node->kind == FN_JSON_STRING) {
    bool infinite = fn__text_equal(text, "infinity") || fn__text_equal(text, "+infinity") ||
                    fn__text_equal(text, "inf") || fn__text_equal(text, "+inf");
    bool negative = fn__text_equal(text, "-infinity") || fn__text_equal(text, "-inf");
    *fits = infinite || negative || fn__text_equal(text, "nan");
    if (infinite || negative) value = infinite ? INFINITY : -INFINITY;
  } else {
    *fits = (node->kind == FN_JSON_INTEGER || node->kind == FN_JSON_FLOAT) && fn__double_parse(text, &value);
  }
  float single = (float)value;
  if (*fits && type->kind == FN_FLOAT32 && node->kind != FN_JSON_STRING) fn__float_parse(text, &single);
  if (!*fits) return true;
  return type->kind == FN_FLOAT32 ? put_present(r, &single, 4) : put_present(r, &value, 8);
}

static bool read_decimal(reader *r, const fn_type *type, const fn_json_node *node, bool *fits) {
  fn_text text = fn__json_string(&r->json, node);
  fn_i128 value;
  *fits = node->kind >= FN_JSON_INTEGER && node->kind <= FN_JSON_STRING &&
          fn__decimal_parse(text.data, text.size, type->precision, type->scale, &value) == FN_PARSE_OK;
  return !*fits || put_present(r, &value, sizeof value);
}

static bool read_pattern(reader *r, const fn_type *type, fn_text text, bool *fits) {
  fn_pattern_result result;
  bool date = type->kind == FN_DATE;
  *fits = fn__pattern_parse(date ? r->dates : r->timestamps, text, &result);
  if (!*fits) return true;
  int32_t days = (int32_t)fn__floor_div(result.local_us, FN_DAY);
  if (date) return put_present(r, &days, 4);
  fn_zone own = result.has_zone ? result.zone : (fn_zone){NULL, result.offset};
  fn_zone_range range = {0};
  int64_t us = type->kind == FN_TIMESTAMP_NTZ          ? result.local_us
               : result.has_offset || result.has_zone ? fn__to_utc(&own, result.local_us, &range)
                                                      : fn__to_utc(&r->zone, result.local_us, &r->range);
  return put_present(r, &us, 8);
}

static bool read_time(reader *r, const fn_type *type, const fn_json_node *node, bool *fits) {
  fn_text text = fn__json_string(&r->json, node);
  int64_t us = 0;
  int32_t days;
  *fits = false;
  if (node->kind == FN_JSON_STRING && (type->kind == FN_DATE ? r->dates : r->timestamps))
    return read_pattern(r, type, text, fits);
  if (type->kind == FN_DATE) {
    *fits = node->kind == FN_JSON_STRING && fn__date_parse(text, &days);
    return !*fits || put_present(r, &days, 4);
  }
  if (type->kind == FN_TIMESTAMP && node->kind == FN_JSON_INTEGER)
    *fits = fn__int_parse(text, false, &us) && !__builtin_mul_overflow(us, FN_SECOND, &us);
  else if (type->kind == FN_TIMESTAMP)
    *fits = node->kind == FN_JSON_STRING && fn__timestamp_parse_zoned(text, &r->zone, &us);
  fn_parsed_time parsed;
  if (type->kind == FN_TIMESTAMP_NTZ && node->kind == FN_JSON_STRING) {
    *fits = fn__timestamp_parse(text, &parsed) && !parsed.just_time && !parsed.has_zone;
    us = parsed.local_us;
  }
  return !*fits || put_present(r, &us, 8);
}

static bool read_text(reader *r, uint32_t index) {
  const fn_json_node *node = &r->json.node[index];
  if (node->kind == FN_JSON_STRING) {
    fn_text text = fn__json_string(&r->json, node);
    return put_text(r, text.data, text.size);
  }
  if (r->exact) return put_text(r, r->json.source.data + node->start, node->source_end - node->start);
  r->text.size = 0;
  return fn__json_put(&r->text, &r->json, index) && put_text(r, r->text.data, r->text.size);
}

static bool read_scalar(reader *r, const fn_type *type, uint32_t index, bool *fits) {
  const fn_json_node *node = &r->json.node[index];
  *fits = true;
  switch (type->kind) {
  case FN_BOOL: {
    char value = node->kind == FN_JSON_TRUE;
    *fits = value || node->kind == FN_JSON_FALSE;
    return !*fits || put_present(r, &value, 1);
  }
  case FN_INT8:
  case FN_INT16:
  case FN_INT32:
  case FN_INT64: return read_integer(r, type, node, fits);
  case FN_FLOAT32:
  case FN_FLOAT64: return read_float(r, type, node, fits);
  case FN_DECIMAL: return read_decimal(r, type, node, fits);
  case FN_STRING: return read_text(r, index);
  default: return read_time(r, type, node, fits);
  }
}

/* ---- containers ---- */
/* False: no memory. A value that does not fit leaves nothing behind. */
static bool read_value(reader *r, const struct ArrowSchema *schema, uint32_t index, int depth, bool *fits);

static bool read_or_null(reader *r, const struct ArrowSchema *schema, uint32_t index, int depth) {
  bool fits;
  bool good = read_value(r, schema, index, depth, &fits);
  r->bad |= !fits;
  return good && (fits || put(r, &ABSENT, 1));
}

static bool read_struct(reader *r, const struct ArrowSchema *schema, uint32_t index, int depth) {
  bool good = put(r, &PRESENT, 1);
  for (int64_t i = 0; i < schema->n_children && good; i++) {
    const char *name = schema->children[i]->name;
    size_t size = strlen(name);
    uint32_t found = 0; /* the last one of that name */
    if (depth == 0 && i == r->corrupt) {
      good = r->record.size ? put_text(r, r->record.data, r->record.size) : put(r, &ABSENT, 1);
      continue;
    }
    for (uint32_t at = index ? r->json.node[index].child : 0; at; at = r->json.node[at].next) {
      fn_text key = fn__json_key(&r->json, &r->json.node[at]);
      if (key.size == size && memcmp(key.data, name, size) == 0) found = at;
    }
    good = found ? read_or_null(r, schema->children[i], found, depth) : put(r, &ABSENT, 1);
  }
  return good;
}

/* One element that does not fit makes the whole list not fit. */
static bool read_list(reader *r, const struct ArrowSchema *schema, uint32_t index, bool map, int depth, bool *fits) {
  const fn_json_node *node = &r->json.node[index];
  size_t start = r->out.size;
  bool good = put_present(r, &node->count, sizeof node->count);
  const struct ArrowSchema *child = schema->children[0];
  for (uint32_t at = node->child; at && good && *fits; at = r->json.node[at].next) {
    fn_text key = fn__json_key(&r->json, &r->json.node[at]);
    if (map) good = put(r, &PRESENT, 1) && put_text(r, key.data, key.size);
    good = good && read_value(r, map ? child->children[1] : child, at, depth, fits);
  }
  if (!*fits) r->out.size = start;
  return good;
}

static bool read_value(reader *r, const struct ArrowSchema *schema, uint32_t index, int depth, bool *fits) {
  fn_type type;
  *fits = true;
  if (depth > FN_NESTING_MAX || !fn__type_read(schema, &type)) return false;
  uint8_t kind = r->json.node[index].kind;
  if (kind == FN_JSON_NULL) return put(r, &ABSENT, 1);
  if (type.kind < FN_LIST) return read_scalar(r, &type, index, fits);
  *fits = kind == (type.kind == FN_LIST ? FN_JSON_ARRAY : FN_JSON_OBJECT);
  if (!*fits) return true;
  if (type.kind == FN_STRUCT) return read_struct(r, schema, index, depth + 1);
  return read_list(r, schema, index, type.kind == FN_MAP, depth + 1, fits);
}

/* One object where an array of structs is wanted is an array of it. */
static bool read_root(reader *r, const struct ArrowSchema *schema, const fn_type *type, bool parsed) {
  fn_type element;
  if (type->kind == FN_STRUCT) {
    bool object = parsed && r->json.node[1].kind == FN_JSON_OBJECT;
    r->bad |= !object;
    return read_struct(r, schema, object ? 1 : 0, 0);
  }
  r->bad |= !parsed;
  if (!parsed) return put(r, &ABSENT, 1);
  if (type->kind == FN_LIST && r->json.node[1].kind == FN_JSON_OBJECT &&
      fn__type_read(schema->children[0], &element) && element.kind == FN_STRUCT) {
    uint32_t one = 1;
    return put_present(r, &one, sizeof one) && read_struct(r, schema->children[0], 1, 1);
  }
  return read_or_null(r, schema, 1, 0);
}

static trn_status from_json(fn_call *call) {
  reader r = {0};
  fn_sink sink;
  fn_text zone;
  const struct ArrowSchema *schema = call->columns[1].type.schema;
  fn_pattern patterns[2];
  if (!fn__literal_text(call, 2, &zone) || !fn__zone_find(zone, &r.zone)) return fn__mismatch(call);
  for (size_t i = 0; i < 2; i++) {
    fn_text pattern;
    if (call->count < 7 || !fn__literal_text(call, 3 + i, &pattern) || pattern.size == 0) continue;
    if (!fn__pattern_compile(pattern, &patterns[i])) return fn__mismatch(call);
    *(i ? &r.dates : &r.timestamps) = &patterns[i];
  }
  r.corrupt = call->count >= 7 ? fn__get_i32(&call->columns[5], 0) : -1;
  bool fails = call->count >= 7 && fn__get_bool(&call->columns[6], 0), bad_record = false;
  r.exact = call->count == 8 && fn__get_bool(&call->columns[7], 0);
  bool good = fn__sink_init(&sink, schema);
  if (!good) return fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && good; row++) {
    fn_text text = {0};
    if (!fn__is_null(&call->columns[0], row)) text = fn__trim_all(fn__get_text(&call->columns[0], row));
    if (!text.size) {
      fn__sink_put_null(&sink);
      continue;
    }
    bool parsed = fn__json_parse(&r.json, text);
    r.out.size = 0;
    r.bad = false;
    r.record = (fn_text){"", 0};
    good = !r.json.no_memory && read_root(&r, schema, &call->columns[1].type, parsed);
    if (good && r.bad && fails) {
      bad_record = true;
      break;
    }
    if (good && r.bad && r.corrupt >= 0) {
      r.out.size = 0;
      r.record = fn__get_text(&call->columns[0], row);
      good = read_root(&r, schema, &call->columns[1].type, parsed);
    }
    const char *at = r.out.data;
    if (good) fn__sink_put(&sink, &at);
  }
  fn__bytes_clear(&r.out);
  fn__bytes_clear(&r.text);
  fn__json_clear(&r.json);
  if (bad_record) {
    fn__sink_clear(&sink);
    return fn__raise(&call->report, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "badRecord", "[null]",
                     "failFastMode", "FAILFAST", NULL);
  }
  if (good) return fn__sink_finish(&sink, &call->given) == TRN_OK ? TRN_OK : fn__raise_out_of_memory(&call->report);
  fn__sink_clear(&sink);
  return fn__raise_out_of_memory(&call->report);
}

/* What this file reads: maps have texts as keys. */
static bool is_readable(const struct ArrowSchema *schema, int depth) {
  fn_type type;
  if (depth > FN_NESTING_MAX || !fn__type_read(schema, &type)) return false;
  if (type.kind == FN_MAP) {
    fn_type key;
    return fn__type_read(schema->children[0]->children[0], &key) && key.kind == FN_STRING &&
           is_readable(schema->children[0]->children[1], depth + 1);
  }
  for (int64_t i = 0; i < schema->n_children; i++)
    if (!is_readable(schema->children[i], depth + 1)) return false;
  return type.kind != FN_NULL && type.kind != FN_BINARY && type.kind != FN_TIME && type.kind != FN_YEAR_MONTH &&
         type.kind != FN_DAY_TIME && type.kind != FN_CALENDAR;
}

static trn_status bind_from_json(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  bool good = (call->count == 3 || ((call->count == 7 || (call->count == 8 && call->columns[7].type.kind == FN_BOOL)) && call->columns[3].type.kind == FN_STRING &&
                                    call->columns[4].type.kind == FN_STRING && call->columns[5].type.kind == FN_INT32 &&
                                    call->columns[6].type.kind == FN_BOOL)) &&
              call->columns[0].type.kind == FN_STRING && call->columns[1].type.kind >= FN_LIST &&
              call->columns[2].type.kind == FN_STRING && is_readable(call->columns[1].type.schema, 0);
  if (!good) return fn__mismatch(call);
  *out = call->columns[1].type;
  return schema ? fn__schema_copy(schema, out->schema, "", true) : TRN_OK;
}

const fn_scalar fn__json_read_table[] = {
    {"trn.from_json", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_from_json, from_json},
    {NULL},
};
