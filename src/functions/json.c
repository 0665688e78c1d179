/* JSON functions over texts: get_json_object by Hive's path rules, lengths and keys; values written as JSON. */
#include "functions/json.h"
#include "functions/calendar.h"
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/pattern.h"
#include "functions/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- paths: $.name, ['name'], [1], [*], .* ---- */
typedef struct step {
  enum { STEP_NAME, STEP_INDEX, STEP_EACH, STEP_ANY } kind; /* ANY: .*, which Spark reads and never finds */
  fn_text name;
  int64_t index;
} step;
#define STEPS_MAX 128

static bool read_index(fn_text path, size_t *at, step *out) {
  size_t start = ++*at;
  if (*at < path.size && path.data[*at] == '\'') {
    const char *end = memchr(path.data + start + 1, '\'', path.size - start - 1);
    if (!end || end + 1 >= path.data + path.size || end[1] != ']') return false;
    *out = (step){STEP_NAME, {path.data + start + 1, (size_t)(end - path.data) - start - 1}, 0};
    *at = (size_t)(end - path.data) + 2;
    return out->name.size > 0;
  }
  if (*at + 1 < path.size && path.data[*at] == '*' && path.data[*at + 1] == ']') {
    *out = (step){STEP_EACH, {0}, 0};
    *at += 2;
    return true;
  }
  out->kind = STEP_INDEX;
  out->index = 0;
  while (*at < path.size && path.data[*at] >= '0' && path.data[*at] <= '9') {
    out->index = out->index * 10 + (path.data[(*at)++] - '0');
    if (out->index > INT32_MAX) return false;
  }
  return *at > start && *at < path.size && path.data[(*at)++] == ']';
}

/* The number of steps, or -1: no path. */
static int read_path(fn_text path, step *steps) {
  int count = 0;
  if (!path.size || path.data[0] != '$') return -1;
  for (size_t at = 1; at < path.size; count++) {
    if (count == STEPS_MAX) return -1;
    if (path.data[at] == '[') {
      if (!read_index(path, &at, &steps[count])) return -1;
      continue;
    }
    if (path.data[at++] != '.') return -1;
    size_t start = at;
    while (at < path.size && path.data[at] != '.' && path.data[at] != '[') at++;
    if (at == start) return -1;
    bool any = at - start == 1 && path.data[start] == '*';
    steps[count] = (step){any ? STEP_ANY : STEP_NAME, {path.data + start, at - start}, 0};
  }
  return count;
}

/* ---- evaluation, as Spark's GetJsonObjectEvaluator ---- */
typedef enum style { RAW, QUOTED, FLATTEN } style;
typedef struct writer {
  const fn_json *json;
  fn_bytes out;
  bool comma, good;
  int arrays;
} writer;

static void put_raw(writer *w, const void *data, size_t size) {
  w->good = w->good && fn__bytes_append(&w->out, data, size);
}
static void separate(writer *w) {
  if (w->comma && w->arrays) put_raw(w, ",", 1);
  w->comma = true;
}
static void open_array(writer *w) {
  separate(w);
  put_raw(w, "[", 1);
  w->arrays++;
  w->comma = false;
}
static void close_array(writer *w) {
  put_raw(w, "]", 1);
  w->arrays--;
  w->comma = true;
}

static bool evaluate(writer *w, uint32_t index, style how, const step *path, int count);

/* [*] outside of another array: one hit loses its brackets. */
static bool each_flat(writer *w, const fn_json_node *node, style how, const step *path, int count) {
  writer inner = {.json = w->json, .good = w->good};
  int hits = 0;
  open_array(&inner);
  for (uint32_t child = node->child; child; child = w->json->node[child].next)
    hits += evaluate(&inner, child, how == RAW ? QUOTED : FLATTEN, path, count);
  close_array(&inner);
  w->good = inner.good;
  if (hits && w->good) {
    separate(w);
    if (hits > 1)
      put_raw(w, inner.out.data, inner.out.size);
    else
      put_raw(w, inner.out.data + 1, inner.out.size - 2);
  }
  fn__bytes_clear(&inner.out);
  return hits > 0;
}

static bool each(writer *w, const fn_json_node *node, style how, const step *path, int count) {
  bool twice = count > 0 && path[0].kind == STEP_EACH;
  if (!twice && how != QUOTED) return each_flat(w, node, how, path, count);
  bool dirty = false;
  open_array(w);
  for (uint32_t child = node->child; child; child = w->json->node[child].next)
    dirty |= evaluate(w, child, twice ? FLATTEN : QUOTED, twice ? path + 1 : path, twice ? count - 1 : count);
  close_array(w);
  return dirty;
}

static bool member(writer *w, const fn_json_node *node, style how, const step *path, int count) {
  for (uint32_t child = node->child; child; child = w->json->node[child].next) {
    const fn_json_node *value = &w->json->node[child];
    fn_text key = fn__json_key(w->json, value);
    if (key.size != path->name.size || memcmp(key.data, path->name.data, key.size) != 0 ||
        value->kind == FN_JSON_NULL)
      continue;
    if (evaluate(w, child, how, path + 1, count - 1)) return true;
  }
  return false;
}

static bool element(writer *w, const fn_json_node *node, style how, const step *path, int count) {
  uint32_t child = node->child;
  for (int64_t i = path->index; i > 0 && child; i--) child = w->json->node[child].next;
  if (!child) return false;
  bool quoted = count > 1 && path[1].kind == STEP_EACH;
  return evaluate(w, child, quoted ? QUOTED : how, path + 1, count - 1);
}

static bool evaluate(writer *w, uint32_t index, style how, const step *path, int count) {
  const fn_json_node *node = &w->json->node[index];
  if (count == 0 && node->kind == FN_JSON_STRING && how == RAW) {
    fn_text text = fn__json_string(w->json, node);
    put_raw(w, text.data, text.size);
    return true;
  }
  if (count == 0 && node->kind == FN_JSON_ARRAY && how == FLATTEN) {
    bool dirty = false;
    for (uint32_t child = node->child; child; child = w->json->node[child].next)
      dirty |= evaluate(w, child, how, path, 0);
    return dirty;
  }
  if (count == 0) {
    separate(w);
    w->good = w->good && fn__json_put(&w->out, w->json, index);
    return true;
  }
  if (node->kind == FN_JSON_OBJECT && path->kind == STEP_NAME) return member(w, node, how, path, count);
  if (node->kind == FN_JSON_ARRAY && path->kind == STEP_EACH) return each(w, node, how, path + 1, count - 1);
  if (node->kind == FN_JSON_ARRAY && path->kind == STEP_INDEX) return element(w, node, how, path, count);
  return false;
}

static trn_status get_json_object(fn_call *call) {
  fn_json json = {0};
  step *steps = calloc(STEPS_MAX, sizeof *steps);
  writer w = {.json = &json, .good = steps != NULL};
  fn_text last = {0};
  int count = -1;
  for (int64_t row = 0; row < call->rows && w.good; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_null(&call->out);
      continue;
    }
    fn_text path = fn__get_text(&call->columns[1], row);
    if (path.data != last.data || path.size != last.size) count = read_path(path, steps);
    last = path;
    w.out.size = 0;
    w.comma = false;
    bool found = count >= 0 && fn__json_parse(&json, fn__get_text(&call->columns[0], row)) &&
                 evaluate(&w, 1, RAW, steps, count);
    w.good &= !json.no_memory;
    if (found)
      fn__push(&call->out, w.out.data ? w.out.data : "", w.out.size);
    else
      fn__push_null(&call->out);
  }
  fn__bytes_clear(&w.out);
  fn__json_clear(&json);
  free(steps);
  return w.good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

/* ---- json_array_length, json_object_keys ---- */
static trn_status array_length(fn_call *call) {
  fn_json json = {0};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    ((int32_t *)call->out.data)[row] = 0;
    if (fn__row_is_null(&call->out, row)) continue;
    bool array = fn__json_parse(&json, fn__get_text(&call->columns[0], row)) && json.node[1].kind == FN_JSON_ARRAY;
    good = !json.no_memory;
    if (array)
      ((int32_t *)call->out.data)[row] = (int32_t)json.node[1].count;
    else
      fn__set_null(&call->out, row);
  }
  fn__json_clear(&json);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status object_keys(fn_call *call) {
  fn_json json = {0};
  fn_builder keys;
  fn_type type = fn__type(FN_STRING);
  struct ArrowArray child;
  fn_bytes all = {0};
  uint32_t *sizes = NULL;
  int64_t total = 0, capacity = 0;
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    bool null = fn__row_is_null(&call->out, row);
    bool object = !null && fn__json_parse(&json, fn__get_text(&call->columns[0], row)) &&
                  json.node[1].kind == FN_JSON_OBJECT;
    good = !json.no_memory;
    if (!object && !null) fn__set_null(&call->out, row);
    for (uint32_t i = object ? json.node[1].child : 0; i && good; i = json.node[i].next, total++) {
      fn_text key = fn__json_key(&json, &json.node[i]);
      if (total == capacity) {
        capacity = capacity ? capacity * 2 : 256;
        uint32_t *grown = realloc(sizes, (size_t)capacity * sizeof *grown);
        if (!(good = grown != NULL)) break;
        sizes = grown;
      }
      sizes[total] = (uint32_t)key.size;
      good = fn__bytes_append(&all, key.data, key.size);
    }
    fn__push_list(&call->out, total);
  }
  good = good && fn__builder_init(&keys, &type, total);
  size_t at = 0;
  for (int64_t i = 0; i < total && good; at += sizes[i++]) fn__push(&keys, all.data + at, sizes[i]);
  fn__bytes_clear(&all);
  free(sizes);
  fn__json_clear(&json);
  if (!good || fn__builder_finish(&keys, &child) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &child);
  return TRN_OK;
}

static trn_status bind_keys(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  fn_type type = fn__type(FN_STRING);
  *out = fn__type(FN_LIST);
  if (!fn__args_are(call, "s")) return fn__mismatch(call);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&child, &type, "element", true);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* json_field(text, name): the field of the root as text, for json_tuple; no paths. Of equal names the last. */
static trn_status json_field(fn_call *call) {
  fn_json json = {0};
  fn_bytes text = {0};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    bool null = fn__row_is_null(&call->out, row);
    bool object = !null && fn__json_parse(&json, fn__get_text(&call->columns[0], row)) &&
                  json.node[1].kind == FN_JSON_OBJECT;
    uint32_t found = 0;
    good = !json.no_memory;
    fn_text name = null ? (fn_text){"", 0} : fn__get_text(&call->columns[1], row);
    for (uint32_t i = object ? json.node[1].child : 0; i; i = json.node[i].next) {
      fn_text key = fn__json_key(&json, &json.node[i]);
      if (key.size == name.size && memcmp(key.data, name.data, name.size) == 0) found = i;
    }
    if (!found || json.node[found].kind == FN_JSON_NULL) {
      fn__push_null(&call->out);
      continue;
    }
    text.size = 0;
    fn_text value = fn__json_string(&json, &json.node[found]);
    if (json.node[found].kind != FN_JSON_STRING) {
      good = good && fn__json_put(&text, &json, found);
      value = (fn_text){text.data, text.size};
    }
    fn__push(&call->out, value.data, value.size);
  }
  fn__bytes_clear(&text);
  fn__json_clear(&json);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

/* ---- to_json(value, zone) ---- */
typedef struct printer {
  fn_bytes *out;
  fn_zone zone;
  fn_zone_range range;
  fn_text zone_name;
  const fn_pattern *timestamps, *dates; /* NULL: as ISO 8601 has them */
  bool all_fields, sorted;              /* nulls too; by name */
} printer;

static bool put(const printer *p, const void *data, size_t size) {
  return fn__bytes_append(p->out, data, size);
}

static bool put_quoted(const printer *p, const char *text, size_t size) {
  return fn__json_put_string(p->out, (fn_text){text, size});
}

static bool put_float(const printer *p, const fn_column *c, int64_t row) {
  char text[FN_DOUBLE_TEXT_MAX];
  double value = fn__get_number(c, row);
  size_t size = c->type.kind == FN_FLOAT32 ? fn__float_print((float)value, text) : fn__double_print(value, text);
  return isfinite(value) ? put(p, text, size) : put_quoted(p, text, size);
}

static bool put_pattern(printer *p, const fn_pattern *pattern, int64_t local, int64_t offset) {
  fn_builder text;
  fn_type type = fn__type(FN_STRING);
  if (!fn__builder_init(&text, &type, 1)) return false;
  fn__pattern_format(pattern, local, (int32_t)offset, p->zone_name, &text);
  bool good = text.status == TRN_OK && put_quoted(p, text.bytes ? text.bytes : "", text.size);
  fn__builder_clear(&text);
  return good;
}

/* yyyy-MM-dd'T'HH:mm:ss.SSS and for instants the offset, Z for none. */
static bool put_timestamp(printer *p, const fn_column *c, int64_t row) {
  char text[FN_TIMESTAMP_TEXT_MAX + 32], day[FN_DATE_TEXT_MAX + 8];
  int64_t us = fn__get_i64(c, row);
  bool instant = c->type.kind == FN_TIMESTAMP;
  int64_t local = instant ? fn__to_local(&p->zone, us, &p->range) : us;
  int64_t clock = fn__floor_mod(local, FN_DAY), offset = (local - us) / FN_SECOND;
  if (p->timestamps) return put_pattern(p, p->timestamps, local, offset);
  size_t size = fn__date_print(fn__floor_div(local, FN_DAY), day);
  int length = snprintf(text, sizeof text, "%.*sT%02d:%02d:%02d.%03d", (int)size, day, (int)(clock / FN_HOUR),
                        (int)(clock % FN_HOUR / FN_MINUTE), (int)(clock % FN_MINUTE / FN_SECOND),
                        (int)(clock % FN_SECOND / 1000));
  if (instant && offset == 0) {
    text[length++] = 'Z';
  } else if (instant) {
    int64_t size_of = offset < 0 ? -offset : offset;
    length += snprintf(text + length, sizeof text - (size_t)length, "%c%02d:%02d", offset < 0 ? '-' : '+',
                       (int)(size_of / 3600), (int)(size_of / 60 % 60));
  }
  return put_quoted(p, text, (size_t)length);
}

static bool put_base64(const printer *p, fn_text text) {
  static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  bool good = put(p, "\"", 1);
  for (size_t i = 0; i < text.size && good; i += 3) {
    uint32_t bits = 0;
    char four[4];
    size_t left = text.size - i < 3 ? text.size - i : 3;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < left ? (unsigned char)text.data[i + k] : 0);
    for (size_t k = 0; k < 4; k++) four[k] = k <= left ? DIGITS[bits >> (18 - 6 * k) & 63] : '=';
    good = put(p, four, 4);
  }
  return good && put(p, "\"", 1);
}

static bool put_scalar(printer *p, const fn_column *c, int64_t row) {
  char text[FN_DECIMAL_TEXT_MAX + FN_TIMESTAMP_TEXT_MAX];
  switch (c->type.kind) {
  case FN_BOOL: return fn__get_bool(c, row) ? put(p, "true", 4) : put(p, "false", 5);
  case FN_INT8:
  case FN_INT16:
  case FN_INT32:
  case FN_INT64: return put(p, text, fn__int_print(fn__get_integer(c, row), text));
  case FN_FLOAT32:
  case FN_FLOAT64: return put_float(p, c, row);
  case FN_DECIMAL: return put(p, text, fn__decimal_print_scientific(fn__get_decimal(c, row), c->type.scale, text));
  case FN_STRING: return fn__json_put_string(p->out, fn__get_text(c, row));
  case FN_BINARY: return put_base64(p, fn__get_text(c, row));
  case FN_DATE:
    if (p->dates) return put_pattern(p, p->dates, fn__midnight(fn__get_i32(c, row)), 0);
    return put_quoted(p, text, fn__date_print(fn__get_i32(c, row), text));
  case FN_TIME: return put_quoted(p, text, fn__time_print(fn__get_i64(c, row), text));
  case FN_TIMESTAMP:
  case FN_TIMESTAMP_NTZ: return put_timestamp(p, c, row);
  default: return put(p, "null", 4);
  }
}

static bool put_value(printer *p, const fn_column *c, int64_t row, int depth);

/* The field whose name is the least beyond `last`, or the first that is left: -1. */
static int64_t next_field(const printer *p, const struct ArrowSchema *schema, int64_t last) {
  int64_t found = -1;
  if (!p->sorted) return last + 1 < schema->n_children ? last + 1 : -1;
  for (int64_t i = 0; i < schema->n_children; i++) {
    const char *name = schema->children[i]->name;
    int above = last < 0 ? 1 : strcmp(name, schema->children[last]->name);
    if (above < 0 || (above == 0 && i <= last)) continue;
    if (found < 0 || strcmp(name, schema->children[found]->name) < 0) found = i;
  }
  return found;
}

static bool put_struct(printer *p, const fn_column *c, int64_t row, int depth) {
  bool good = put(p, "{", 1), first = true;
  for (int64_t i = next_field(p, c->type.schema, -1); i >= 0 && good; i = next_field(p, c->type.schema, i)) {
    fn_column child;
    int64_t at = c->offset + row * c->step;
    const char *name = c->type.schema->children[i]->name;
    if (fn__column_child(c, i, &child) != TRN_OK) return false;
    if (fn__is_null(&child, at) && !p->all_fields) continue;
    good = (first || put(p, ",", 1)) && put_quoted(p, name, strlen(name)) && put(p, ":", 1) &&
           put_value(p, &child, at, depth);
    first = false;
  }
  return good && put(p, "}", 1);
}

/* Spark shows keys as its own values print: dates and times as numbers, structs and lists as [a,b]. */
static bool put_plain(printer *p, const fn_column *c, int64_t row, int depth) {
  char text[FN_INT_TEXT_MAX];
  fn_column child;
  if (depth > FN_NESTING_MAX) return false;
  if (fn__is_null(c, row)) return put(p, "null", 4);
  if (c->type.kind == FN_STRING) {
    fn_text own = fn__get_text(c, row);
    return put(p, own.data, own.size);
  }
  if (c->type.kind >= FN_DATE && c->type.kind <= FN_DAY_TIME)
    return put(p, text, fn__int_print(fn__get_integer(c, row), text));
  if (c->type.kind != FN_STRUCT && c->type.kind != FN_LIST) return put_scalar(p, c, row);
  bool good = put(p, "[", 1), list = c->type.kind == FN_LIST;
  int64_t first = list ? c->offsets[row * c->step] : 0,
          end = list ? c->offsets[row * c->step + 1] : c->type.schema->n_children;
  for (int64_t i = first; i < end && good; i++) {
    good = (i == first || put(p, ",", 1)) && fn__column_child(c, list ? 0 : i, &child) == TRN_OK;
    good = good && put_plain(p, &child, list ? i : c->offset + row * c->step, depth + 1);
  }
  return good && put(p, "]", 1);
}

static bool put_key(printer *p, const fn_column *keys, int64_t at) {
  fn_bytes plain = {0}, *out = p->out;
  if (keys->type.kind == FN_STRING) return fn__json_put_string(out, fn__get_text(keys, at));
  p->out = &plain;
  bool good = put_plain(p, keys, at, 0);
  p->out = out;
  good = good && fn__json_put_string(out, (fn_text){plain.data, plain.size});
  fn__bytes_clear(&plain);
  return good;
}

static bool put_list(printer *p, const fn_column *c, int64_t row, int depth) {
  fn_column child, keys, values;
  bool map = c->type.kind == FN_MAP;
  const int32_t *offsets = c->offsets + row * c->step;
  if (fn__column_child(c, 0, &child) != TRN_OK) return false;
  if (map && (fn__column_child(&child, 0, &keys) != TRN_OK || fn__column_child(&child, 1, &values) != TRN_OK))
    return false;
  bool good = put(p, map ? "{" : "[", 1);
  for (int32_t i = offsets[0]; i < offsets[1] && good; i++) {
    if (i > offsets[0]) good = put(p, ",", 1);
    if (map)
      good = good && put_key(p, &keys, child.offset + i) && put(p, ":", 1) &&
             put_value(p, &values, child.offset + i, depth);
    else
      good = good && put_value(p, &child, i, depth);
  }
  return good && put(p, map ? "}" : "]", 1);
}

static bool put_value(printer *p, const fn_column *c, int64_t row, int depth) {
  if (depth > FN_NESTING_MAX) return false;
  if (fn__is_null(c, row)) return put(p, "null", 4);
  if (c->type.kind == FN_STRUCT) return put_struct(p, c, row, depth + 1);
  if (c->type.kind == FN_LIST || c->type.kind == FN_MAP) return put_list(p, c, row, depth + 1);
  return put_scalar(p, c, row);
}

static trn_status to_json(fn_call *call) {
  fn_bytes text = {0};
  fn_text zone;
  printer p = {.out = &text};
  bool good = true;
  fn_pattern patterns[2];
  if (!fn__literal_text(call, 1, &zone) || !fn__zone_find(zone, &p.zone)) return fn__mismatch(call);
  p.zone_name = zone;
  for (size_t i = 0; i < 2; i++) {
    fn_text pattern;
    if (call->count < 6 || !fn__literal_text(call, 2 + i, &pattern) || pattern.size == 0) continue;
    if (!fn__pattern_compile(pattern, &patterns[i])) return fn__mismatch(call);
    *(i ? &p.dates : &p.timestamps) = &patterns[i];
  }
  if (call->count == 6) p.all_fields = fn__get_bool(&call->columns[4], 0), p.sorted = fn__get_bool(&call->columns[5], 0);
  for (int64_t row = 0; row < call->rows && good; row++) {
    text.size = 0;
    if (fn__row_is_null(&call->out, row)) {
      fn__push_null(&call->out);
      continue;
    }
    good = put_value(&p, &call->columns[0], row, 0);
    fn__push(&call->out, text.data, text.size);
  }
  fn__bytes_clear(&text);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

FN_BIND(get, "ss", fn__type(FN_STRING))
FN_BIND(length, "s", fn__type(FN_INT32))
FN_BIND(to_json, "*s|ssbb", fn__type(FN_STRING))

const fn_scalar fn__json_table[] = {
    {"trn.get_json_object", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_get, get_json_object},
    {"trn.json_field", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_get, json_field},
    {"trn.json_array_length", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_length, array_length},
    {"trn.json_object_keys", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_keys, object_keys},
    {"trn.to_json", TRN_IMMUTABLE, FN_STRICT, 0, bind_to_json, to_json},
    {NULL},
};
