/* Data types to and from Arrow schemas. */
#include "plan/plan.h"

#include <stdio.h>

#include "arrow/arrow_util.h"

/* The format of a type; `buffer` is used for those with parameters. */
static const char *format_of(const trn_type *type, const char *timezone, char *buffer, size_t size) {
  static const char *const formats[TRN_TYPE_COUNT] = {
      [TRN_TYPE_NULL] = "n",
      [TRN_TYPE_BOOL] = "b",
      [TRN_TYPE_INT8] = "c",
      [TRN_TYPE_INT16] = "s",
      [TRN_TYPE_INT32] = "i",
      [TRN_TYPE_INT64] = "l",
      [TRN_TYPE_FLOAT32] = "f",
      [TRN_TYPE_FLOAT64] = "g",
      [TRN_TYPE_STRING] = "u",
      [TRN_TYPE_BINARY] = "z",
      [TRN_TYPE_DATE] = "tdD",
      [TRN_TYPE_TIMESTAMP_NTZ] = "tsu:",
      [TRN_TYPE_TIME] = "ttn",
      [TRN_TYPE_INTERVAL_YEAR_MONTH] = "tiM",
      [TRN_TYPE_INTERVAL_DAY_TIME] = "tDu",
      [TRN_TYPE_INTERVAL_CALENDAR] = "tin",
      [TRN_TYPE_ARRAY] = "+l",
      [TRN_TYPE_MAP] = "+m",
      [TRN_TYPE_STRUCT] = "+s",
  };
  if (type->id == TRN_TYPE_OTHER) /* no driver but Arrow's own reads half floats */
    return strcmp(type->format, "e") ? type->format : "f";
  if (type->id == TRN_TYPE_DECIMAL) {
    snprintf(buffer, size, "d:%d,%d", type->precision, type->scale);
    return buffer;
  }
  if (type->id == TRN_TYPE_TIMESTAMP) {
    snprintf(buffer, size, "tsu:%s", timezone ? timezone : "UTC");
    return buffer;
  }
  return formats[type->id];
}

static trn_status export_fields(const trn_type *type, const char *timezone, struct ArrowSchema *parent) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < type->field_count && status == TRN_OK; i++) {
    const trn_field *field = &type->fields[i];
    status =
        trn__type_export(field->type, field->name, field->nullable, field->metadata, timezone, parent->children[i]);
  }
  return status;
}

trn_status trn__type_export(const trn_type *type, const char *name, bool nullable, const char *metadata,
                            const char *timezone, struct ArrowSchema *out) {
  char buffer[128];
  trn_kv entry = {TRN_FIELD_METADATA_KEY, metadata};
  bool is_map = type->id == TRN_TYPE_MAP;
  trn_status status =
      trn__schema_init(out, format_of(type, timezone, buffer, sizeof buffer), name, nullable ? ARROW_FLAG_NULLABLE : 0,
                       &entry, metadata ? 1 : 0, is_map ? 1 : type->field_count);
  if (status) return status;
  if (is_map) {
    status = trn__schema_init(out->children[0], "+s", "entries", 0, NULL, 0, type->field_count);
    if (status == TRN_OK) status = export_fields(type, timezone, out->children[0]);
  } else {
    status = export_fields(type, timezone, out);
  }
  if (status) trn__schema_release(out);
  return status;
}

/* ---- import ---- */

typedef struct importing {
  trn_arena *arena;
  bool any; /* what the plan has no name for passes by its format */
} importing;

static trn_status import_unknown(const char *format, trn_error **error) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "there is no data type for the Arrow format \"%.64s\"", format);
}

/* What the engine has and the plan has not: unsigned integers, half floats, dates of milliseconds, long decimals. */
static bool is_other(const char *format) {
  static const char *const others[] = {"C", "S", "I", "L", "e", "tdm"};
  size_t size = strlen(format);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(format, others[i])) return true;
  return !strncmp(format, "d:", 2) && size > 6 && !strcmp(format + size - 4, ",256");
}

static trn_status import_other(const importing *in, const char *format, const trn_type **out, trn_error **error) {
  if (!in->any || !is_other(format)) return import_unknown(format, error);
  *out = trn__type_other(in->arena, format, strlen(format));
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status import_decimal(const importing *in, const char *format, const trn_type **out, trn_error **error) {
  int precision = 0, scale = 0;
  if (sscanf(format, "d:%d,%d", &precision, &scale) != 2 || precision < 1 || precision > 38 || scale < 0 ||
      scale > precision)
    return import_other(in, format, out, error);
  *out = trn__type_decimal(in->arena, precision, scale);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status import_time(const importing *in, const char *format, const trn_type **out, trn_error **error) {
  trn_type *type = TRN_NEW(in->arena, trn_type);
  if (!type) return trn__no_memory(error);
  const char *units = "s..m..u..n"; /* the index is the number of digits */
  type->id = TRN_TYPE_TIME;
  type->precision = (uint8_t)(strchr(units, format[2]) - units);
  *out = type;
  return TRN_OK;
}

/* Formats without children. */
static trn_status import_leaf(const importing *in, const char *format, const trn_type **out, trn_error **error) {
  static const struct {
    const char *format; /* "*" at its end: whatever follows */
    uint8_t id;
  } leaves[] = {
      {"n", TRN_TYPE_NULL},
      {"b", TRN_TYPE_BOOL},
      {"c", TRN_TYPE_INT8},
      {"s", TRN_TYPE_INT16},
      {"i", TRN_TYPE_INT32},
      {"l", TRN_TYPE_INT64},
      {"f", TRN_TYPE_FLOAT32},
      {"g", TRN_TYPE_FLOAT64},
      {"u", TRN_TYPE_STRING},
      {"U", TRN_TYPE_STRING},
      {"vu", TRN_TYPE_STRING},
      {"z", TRN_TYPE_BINARY},
      {"Z", TRN_TYPE_BINARY},
      {"vz", TRN_TYPE_BINARY},
      {"w:*", TRN_TYPE_BINARY},
      {"tdD", TRN_TYPE_DATE},
      {"tss:", TRN_TYPE_TIMESTAMP_NTZ},
      {"tsm:", TRN_TYPE_TIMESTAMP_NTZ},
      {"tsu:", TRN_TYPE_TIMESTAMP_NTZ},
      {"tsn:", TRN_TYPE_TIMESTAMP_NTZ},
      {"tss:*", TRN_TYPE_TIMESTAMP},
      {"tsm:*", TRN_TYPE_TIMESTAMP},
      {"tsu:*", TRN_TYPE_TIMESTAMP},
      {"tsn:*", TRN_TYPE_TIMESTAMP},
      {"tiM", TRN_TYPE_INTERVAL_YEAR_MONTH},
      {"tin", TRN_TYPE_INTERVAL_CALENDAR},
      {"tDs", TRN_TYPE_INTERVAL_DAY_TIME},
      {"tDm", TRN_TYPE_INTERVAL_DAY_TIME},
      {"tDu", TRN_TYPE_INTERVAL_DAY_TIME},
      {"tDn", TRN_TYPE_INTERVAL_DAY_TIME},
  };
  for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
    size_t size = strlen(leaves[i].format);
    bool is_prefix = leaves[i].format[size - 1] == '*';
    if (is_prefix ? strncmp(format, leaves[i].format, size - 1) == 0 : strcmp(format, leaves[i].format) == 0) {
      *out = trn__type(leaves[i].id);
      return TRN_OK;
    }
  }
  if (strncmp(format, "d:", 2) == 0) return import_decimal(in, format, out, error);
  if (strncmp(format, "tt", 2) == 0 && format[2] && strchr("smun", format[2]) && !format[3])
    return import_time(in, format, out, error);
  return import_other(in, format, out, error);
}

static trn_status import_node(const importing *in, const struct ArrowSchema *schema, unsigned depth, const trn_type **out,
                              trn_error **error);

static trn_status import_field(const importing *in, const struct ArrowSchema *schema, unsigned depth, trn_field *out,
                               trn_error **error) {
  trn_status status = import_node(in, schema, depth, &out->type, error);
  if (status) return status;
  size_t size = 0;
  const char *metadata = trn__schema_metadata(schema, TRN_FIELD_METADATA_KEY, &size);
  out->name = trn__arena_strdup(in->arena, schema->name ? schema->name : "");
  out->nullable = schema->flags & ARROW_FLAG_NULLABLE;
  out->metadata = metadata ? trn__arena_str(in->arena, metadata, size) : NULL;
  return out->name && (out->metadata || !metadata) ? TRN_OK : trn__no_memory(error);
}

static trn_status import_struct(const importing *in, const struct ArrowSchema *schema, unsigned depth,
                                const trn_type **out, trn_error **error) {
  size_t count = (size_t)schema->n_children;
  trn_field *fields = TRN_NEW_N(in->arena, trn_field, count);
  if (!fields) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    trn_status status = import_field(in, schema->children[i], depth + 1, &fields[i], error);
    if (status) return status;
  }
  *out = trn__type_struct(in->arena, fields, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status import_list(const importing *in, const struct ArrowSchema *schema, unsigned depth, const trn_type **out,
                              trn_error **error) {
  const struct ArrowSchema *child = schema->children[0];
  const trn_type *element;
  trn_status status = import_node(in, child, depth + 1, &element, error);
  if (status) return status;
  *out = trn__type_array(in->arena, element, child->flags & ARROW_FLAG_NULLABLE);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status import_map(const importing *in, const struct ArrowSchema *schema, unsigned depth, const trn_type **out,
                             trn_error **error) {
  const struct ArrowSchema *entries = schema->children[0];
  if (entries->n_children != 2) return import_unknown(schema->format, error);
  const trn_type *key, *value;
  trn_status status = import_node(in, entries->children[0], depth + 1, &key, error);
  if (status == TRN_OK) status = import_node(in, entries->children[1], depth + 1, &value, error);
  if (status) return status;
  *out = trn__type_map(in->arena, key, value, entries->children[1]->flags & ARROW_FLAG_NULLABLE);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status import_node(const importing *in, const struct ArrowSchema *schema, unsigned depth, const trn_type **out,
                              trn_error **error) {
  if (depth >= TRN_TYPE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "a data type is nested deeper than %d levels",
                         TRN_TYPE_DEPTH_MAX);
  if (schema->dictionary) schema = schema->dictionary;
  const char *format = schema->format;
  if (format[0] != '+') return import_leaf(in, format, out, error);
  if (strcmp(format, "+s") == 0 && schema->n_children >= 0) return import_struct(in, schema, depth, out, error);
  if (schema->n_children != 1) return import_unknown(format, error);
  if (strcmp(format, "+m") == 0) return import_map(in, schema, depth, out, error);
  bool is_list = strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0 || strncmp(format, "+w:", 3) == 0 ||
                 strcmp(format, "+vl") == 0 || strcmp(format, "+vL") == 0;
  return is_list ? import_list(in, schema, depth, out, error) : import_unknown(format, error);
}

trn_status trn__type_import(trn_arena *arena, const struct ArrowSchema *schema, const trn_type **out,
                            trn_error **error) {
  const importing in = {arena, false};
  *out = NULL;
  return import_node(&in, schema, 0, out, error);
}

trn_status trn__field_import(trn_arena *arena, const struct ArrowSchema *schema, trn_field *out, trn_error **error) {
  const importing in = {arena, false};
  *out = (trn_field){0};
  return import_field(&in, schema, 0, out, error);
}

trn_status trn__field_import_any(trn_arena *arena, const struct ArrowSchema *schema, trn_field *out, trn_error **error) {
  const importing in = {arena, true};
  *out = (trn_field){0};
  return import_field(&in, schema, 0, out, error);
}
