/* Parameters: Arrow rows become literals in the text of the statement, each with the type that it came in. Their types are
 * told to clients as far as the text says them: what is cast, what is inserted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "frontend/flightsql/flightsql.h"
#include "plan/plan.h"
#include "frontend/wire/wire.h"

flightsql_parameters *flightsql__parameters_create(void) {
  flightsql_parameters *parameters = calloc(1, sizeof *parameters);
  if (parameters) atomic_init(&parameters->refs, 1);
  return parameters;
}

flightsql_parameters *flightsql__parameters_ref(flightsql_parameters *parameters) {
  atomic_fetch_add_explicit(&parameters->refs, 1, memory_order_relaxed);
  return parameters;
}

void flightsql__parameters_unref(flightsql_parameters *parameters) {
  if (!parameters || atomic_fetch_sub_explicit(&parameters->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < parameters->batch_count; i++) trn__array_release(&parameters->batches[i]);
  free(parameters->batches);
  trn__schema_release(&parameters->schema);
  trn__strbuf_finish(&parameters->ipc);
  free(parameters);
}

/* ---- arriving ---- */

static trn_status add_batch(flightsql_parameters *parameters, const flight_data *data, trn_error **error) {
  struct ArrowArray batch = {0};
  int64_t rows;
  if (!parameters->schema.release)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Rows of parameters come before their schema");
  trn_status status = trn__ipc_read_rows(data->header.data, data->header.size, &rows, error);
  if (!status && rows > TRN_FLIGHT_PARAMETER_ROWS_MAX - parameters->rows) /* before anything is made of them */
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More than %u rows of parameters",
                           TRN_FLIGHT_PARAMETER_ROWS_MAX);
  if (!status)
    status = trn__ipc_read_batch(&parameters->schema, data->header.data, data->header.size, data->body.data, data->body.size,
                                 &batch, error);
  if (status) return status;
  struct ArrowArray *grown = realloc(parameters->batches, (parameters->batch_count + 1) * sizeof *parameters->batches);
  if (!grown) {
    trn__array_release(&batch);
    return trn__no_memory(error);
  }
  parameters->batches = grown;
  parameters->batches[parameters->batch_count++] = batch;
  parameters->rows += batch.length;
  return TRN_OK;
}

static void keep_message(flightsql_parameters *parameters, const flight_data *data) {
  size_t padding = (8 - data->header.size % 8) % 8;
  uint32_t prefix[2] = {0xffffffffu, (uint32_t)(data->header.size + padding)};
  trn__strbuf_add(&parameters->ipc, prefix, sizeof prefix);
  trn__strbuf_add(&parameters->ipc, data->header.data, data->header.size);
  if (padding) trn__strbuf_extend(&parameters->ipc, padding);
  trn__strbuf_add(&parameters->ipc, data->body.data, data->body.size);
}

trn_status flightsql__parameters_add(flightsql_parameters *parameters, const flight_data *data, trn_error **error) {
  trn_ipc_kind kind;
  int64_t body_size;
  size_t fields;
  if (!data->header.size) return TRN_OK; /* a descriptor alone, or metadata */
  if (parameters->ipc.size + data->header.size + data->body.size > TRN_FLIGHT_PARAMETER_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Parameters have more than %u bytes",
                         TRN_FLIGHT_PARAMETER_BYTES_MAX);
  trn_status status = trn__ipc_read_kind(data->header.data, data->header.size, &kind, &body_size, error);
  if (status) return status;
  if (kind == TRN_IPC_SCHEMA && parameters->schema.release)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The schema of the parameters comes twice");
  if (kind == TRN_IPC_DICTIONARY)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Parameters in dictionaries are not read");
  status = kind == TRN_IPC_SCHEMA
               ? trn__ipc_read_schema(data->header.data, data->header.size, &parameters->schema, &fields, error)
               : add_batch(parameters, data, error);
  if (!status) keep_message(parameters, data);
  return status ? status : parameters->ipc.failed ? trn__no_memory(error) : TRN_OK;
}

/* ---- literals ---- */

static const char *type_name(const char *format, flightsql_dialect dialect, char out[48]) {
  static const struct {
    const char *format, *engine, *spark;
  } names[] = {{"b", "BOOLEAN", "BOOLEAN"},  {"c", "TINYINT", "TINYINT"},     {"s", "SMALLINT", "SMALLINT"},
               {"i", "INT", "INT"},          {"l", "BIGINT", "BIGINT"},       {"C", "SMALLINT", "SMALLINT"},
               {"S", "INT", "INT"},          {"I", "BIGINT", "BIGINT"},       {"L", "DECIMAL(20, 0)", "DECIMAL(20, 0)"},
               {"f", "FLOAT", "FLOAT"},      {"g", "DOUBLE", "DOUBLE"},       {"u", "VARCHAR", "STRING"},
               {"z", "BYTEA", "BINARY"},     {"tdD", "DATE", "DATE"},         {"tdm", "DATE", "DATE"},
               {"tts", "TIME", "TIME"},      {"ttm", "TIME", "TIME"},         {"ttu", "TIME", "TIME"},
               {"ttn", "TIME", "TIME"}};
  int precision, scale, bits = 128;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i].format, format) == 0) return dialect == FLIGHTSQL_SPARK ? names[i].spark : names[i].engine;
  if (strncmp(format, "ts", 2) == 0) {
    bool has_zone = format[3] == ':' && format[4];
    return dialect == FLIGHTSQL_SPARK ? (has_zone ? "TIMESTAMP" : "TIMESTAMP_NTZ")
                                      : (has_zone ? "TIMESTAMP WITH TIME ZONE" : "TIMESTAMP");
  }
  if (sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) >= 2 && bits == 128 && scale >= 0) {
    snprintf(out, 48, "DECIMAL(%d, %d)", precision, scale);
    return out;
  }
  return NULL;
}

static void put_text(trn_strbuf *out, trn_str text, flightsql_dialect dialect) {
  trn__strbuf_putc(out, '\'');
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] == '\'') trn__strbuf_putc(out, dialect == FLIGHTSQL_SPARK ? '\\' : '\'');
    if (text.data[i] == '\\' && dialect == FLIGHTSQL_SPARK) trn__strbuf_putc(out, '\\');
    trn__strbuf_putc(out, text.data[i]);
  }
  trn__strbuf_putc(out, '\'');
}

static void put_date(trn_strbuf *out, int64_t days) {
  /* Howard Hinnant's civil_from_days */
  int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
  trn__strbuf_printf(out, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, yoe + era * 400 + (month <= 2), month, day);
}

static int64_t unit_per_second(char unit) {
  return unit == 's' ? 1 : unit == 'm' ? 1000 : unit == 'u' ? 1000000 : 1000000000;
}

static void put_time(trn_strbuf *out, int64_t value, char unit) {
  int64_t per = unit_per_second(unit), seconds = value / per;
  trn__strbuf_printf(out, "%02" PRId64 ":%02" PRId64 ":%02" PRId64 ".%09" PRId64, seconds / 3600, seconds / 60 % 60,
                     seconds % 60, value % per * (1000000000 / per));
}

static void put_timestamp(trn_strbuf *out, int64_t value, char unit) {
  int64_t day = 86400 * unit_per_second(unit), days = value / day - (value % day < 0);
  put_date(out, days);
  trn__strbuf_putc(out, 'T');
  put_time(out, value - days * day, unit);
}

static void put_decimal(trn_strbuf *out, const void *bytes, int scale) {
  trn_i128 value;
  memcpy(&value, bytes, sizeof value);
  bool negative = value < 0;
  trn_u128 rest = negative ? -(trn_u128)value : (trn_u128)value;
  char digits[64];
  int count = 0;
  do {
    digits[count++] = (char)('0' + (int)(rest % 10));
    if (count == scale) digits[count++] = '.';
  } while ((rest /= 10) || count < (scale ? scale + 2 : 1));
  if (negative) trn__strbuf_putc(out, '-');
  while (count) trn__strbuf_putc(out, digits[--count]);
}

static void put_number(trn_strbuf *out, double value) {
  if (isnan(value)) trn__strbuf_puts(out, "'NaN'");
  else if (isinf(value)) trn__strbuf_puts(out, value < 0 ? "'-Infinity'" : "'Infinity'");
  else trn__strbuf_printf(out, "'%.17g'", value);
}

static trn_status put_value(trn_strbuf *out, const char *format, const struct ArrowArray *array, int64_t row,
                            flightsql_dialect dialect, trn_error **error) {
  char buffer[48];
  const char *type = type_name(format, dialect, buffer);
  if (format[0] == 'n') {
    trn__strbuf_puts(out, "NULL");
    return TRN_OK;
  }
  if (!type) return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Parameters of the Arrow type '%s' are not read", format);
  if (trn__array_is_null(array, row)) {
    trn__strbuf_printf(out, "CAST(NULL AS %s)", type);
    return TRN_OK;
  }
  if (format[0] == 'u') {
    trn_str text = trn__array_bytes(array, format, row);
    if (memchr(text.size ? text.data : "x", 0, text.size ? text.size : 1) || !trn__utf8_is_valid(text.data, text.size))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A parameter is a text with a NUL, or is not UTF-8");
    put_text(out, text, dialect);
    return TRN_OK;
  }
  if (format[0] == 'b') {
    trn__strbuf_puts(out, trn__array_bool(array, row) ? "TRUE" : "FALSE");
    return TRN_OK;
  }
  if (format[0] == 'z') {
    trn_str bytes = trn__array_bytes(array, format, row);
    trn__strbuf_puts(out, "X'");
    for (size_t i = 0; i < bytes.size; i++) trn__strbuf_printf(out, "%02x", (unsigned char)bytes.data[i]);
    trn__strbuf_putc(out, '\'');
    return TRN_OK;
  }
  trn__strbuf_puts(out, "CAST(");
  if (format[0] == 'f' || format[0] == 'g') {
    put_number(out, trn__array_double(array, format, row));
  } else if (format[0] == 'd') {
    int precision, scale;
    sscanf(format, "d:%d,%d", &precision, &scale);
    trn__strbuf_putc(out, '\'');
    put_decimal(out, (const char *)array->buffers[1] + 16 * (array->offset + row), scale);
    trn__strbuf_putc(out, '\'');
  } else if (format[0] == 't') {
    int64_t value = trn__array_int(array, format, row);
    trn__strbuf_putc(out, '\'');
    if (format[1] == 'd') put_date(out, format[2] == 'm' ? value / 86400000 : value);
    else if (format[1] == 't') put_time(out, value, format[2]);
    else put_timestamp(out, value, format[2]);
    if (format[1] == 's' && format[3] == ':' && format[4]) trn__strbuf_putc(out, 'Z');
    trn__strbuf_putc(out, '\'');
  } else if (format[0] == 'L') {
    trn__strbuf_printf(out, "'%" PRIu64 "'", (uint64_t)trn__array_int(array, format, row));
  } else {
    trn__strbuf_printf(out, "'%" PRId64 "'", trn__array_int(array, format, row));
  }
  trn__strbuf_printf(out, " AS %s)", type);
  return TRN_OK;
}

/* Columns by name -> index + 1, the first of each; a name may have the mark that it has in the text. NULL: no memory. */
static trn_map *columns_by_name(const struct ArrowSchema *schema) {
  trn_map *map = trn__map_create();
  for (int64_t i = 0; map && i < schema->n_children; i++) {
    const char *name = schema->children[i]->name ? schema->children[i]->name : "";
    if (*name == '$' || *name == ':') name++; /* in texts no name begins so */
    size_t size = strlen(name);
    if (trn__map_get(map, name, size) || trn__map_set(map, name, size, (void *)(uintptr_t)(i + 1), NULL)) continue;
    trn__map_destroy(map, NULL);
    return NULL;
  }
  return map;
}

/* columns[i]: which column parameter i is. */
static trn_status columns_of(const struct ArrowSchema *schema, const flightsql_text *text, int64_t *columns, trn_error **error) {
  uint32_t found = 0, missing = 0;
  trn_map *map = text->name_count ? columns_by_name(schema) : NULL;
  if (text->name_count && !map) return trn__no_memory(error);
  for (uint32_t i = 0; i < text->parameter_count; i++) {
    const void *at = i < text->name_count ? trn__map_get(map, text->names[i], strlen(text->names[i])) : NULL;
    columns[i] = (int64_t)(uintptr_t)at - 1;
    if (columns[i] >= 0) found++;
    else if (!found || missing < i) missing = i;
  }
  trn__map_destroy(map, NULL);
  if (found == text->parameter_count) return TRN_OK;
  if (found)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The parameter '%.100s' has no value: no column has its name", text->names[missing]);
  for (uint32_t i = 0; i < text->parameter_count; i++) columns[i] = i; /* a driver that binds by place */
  return TRN_OK;
}

trn_status flightsql__parameters_literals(trn_arena *arena, const flightsql_parameters *parameters, int64_t row,
                                          const flightsql_text *text, flightsql_dialect dialect, const char ***out,
                                          trn_error **error) {
  size_t batch = 0;
  uint32_t count = text->parameter_count;
  if ((uint64_t)parameters->schema.n_children != count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement has %u parameters, %" PRId64 " were bound", count,
                         parameters->schema.n_children);
  while (batch < parameters->batch_count && row >= parameters->batches[batch].length)
    row -= parameters->batches[batch++].length;
  if (batch == parameters->batch_count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement has %u parameters, but no row was bound", count);
  const char **literals = TRN_NEW_N(arena, const char *, count);
  int64_t *columns = TRN_NEW_N(arena, int64_t, count);
  if (!literals || !columns) return trn__no_memory(error);
  trn_status status = columns_of(&parameters->schema, text, columns, error);
  for (uint32_t i = 0; i < count && !status; i++) {
    trn_strbuf value = {0};
    status = put_value(&value, parameters->schema.children[columns[i]]->format, parameters->batches[batch].children[columns[i]],
                       row, dialect, error);
    if (!status) literals[i] = value.failed ? NULL : trn__arena_str(arena, value.data, value.size);
    if (!status && !literals[i]) status = trn__no_memory(error);
    trn__strbuf_finish(&value);
  }
  *out = literals;
  return status;
}

/* ---- types ---- */

/* The type in CAST(? AS type) or ?::type around token `at`; NULL: the text does not say. */
static char *cast_type(trn_arena *arena, const flightsql_text *text, size_t at) {
  size_t from = 0, to = 0;
  bool is_cast = at >= 2 && flightsql__token_is(text, at - 1, "(") &&
                 (flightsql__token_is(text, at - 2, "cast") || flightsql__token_is(text, at - 2, "try_cast"));
  if (is_cast && flightsql__token_is(text, at + 1, "as")) {
    size_t depth = 0;
    for (from = to = at + 2; to < text->count; to++) {
      if (flightsql__token_is(text, to, "(")) depth++;
      if (flightsql__token_is(text, to, ")") && depth-- == 0) break;
    }
  } else if (flightsql__token_is(text, at + 1, ":") && flightsql__token_is(text, at + 2, ":")) {
    from = at + 3;
    to = from + 1;
    if (flightsql__token_is(text, to, "("))
      while (to < text->count && !flightsql__token_is(text, to++, ")")) {}
  }
  return from < to && to <= text->count ? flightsql__text_slice(arena, text, from, to, NULL) : NULL;
}

/* The columns that INSERT ... VALUES (..) gives, as a plan over the table; NULL: it is none. */
static trn_plan *insert_columns(flightsql_session *session, trn_arena *arena, const flightsql_text *text, size_t *row_at,
                                size_t *row_end) {
  size_t name_end, columns_at;
  trn_plan *plan = NULL;
  if (!flightsql__insert_shape(text, &name_end, &columns_at, row_at, row_end)) return NULL;
  size_t start = flightsql__token_is(text, 2, "table") ? 3 : 2;
  char *name = flightsql__text_slice(arena, text, start, name_end, NULL);
  char *columns = columns_at ? flightsql__text_slice(arena, text, columns_at + 1, *row_at - 2, NULL) : NULL;
  char *sql = name ? trn__arena_printf(arena, "SELECT %s FROM %s", columns ? columns : "*", name) : NULL;
  if (sql) flightsql__plan(session, sql, &plan, NULL);
  return plan;
}

/* Types of placeholders that stand alone in a VALUES row. */
static void types_of_row(const flightsql_text *text, const trn_plan *plan, size_t row_at, size_t row_end,
                         const trn_type **types) {
  size_t depth = 0, column = 0;
  for (size_t i = row_at; i < row_end; i++) {
    if (flightsql__token_is(text, i, "(")) depth++;
    if (flightsql__token_is(text, i, ")")) depth--;
    if (depth == 1 && flightsql__token_is(text, i, ",")) column++;
    bool stands_alone = text->tokens[i].kind == FLIGHTSQL_PLACEHOLDER && depth == 1 &&
                        (flightsql__token_is(text, i - 1, "(") || flightsql__token_is(text, i - 1, ",")) &&
                        (flightsql__token_is(text, i + 1, ")") || flightsql__token_is(text, i + 1, ","));
    if (stands_alone && column < plan->field_count) types[text->tokens[i].parameter] = plan->fields[column].type;
  }
}

static trn_status type_of_text(flightsql_session *session, trn_arena *arena, const char *type_text, trn_plan **plan,
                               const trn_type **type) {
  char *sql = trn__arena_printf(arena, "SELECT CAST(NULL AS %s) AS p", type_text);
  trn_status status = sql ? flightsql__plan(session, sql, plan, NULL) : TRN_RESOURCE_EXHAUSTED;
  if (!status && (*plan)->field_count == 1) *type = (*plan)->fields[0].type;
  return status;
}

/* The engine's planner infers types from what parameters are compared with, cast to, inserted into. */
static void types_of_planner(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                             const trn_type **types) {
  const char **numbers = TRN_NEW_N(arena, const char *, text->parameter_count);
  struct ArrowSchema found = {0};
  trn_plan *plan = NULL;
  flightsql_kind kind;
  for (uint32_t i = 0; numbers && i < text->parameter_count; i++)
    if (!(numbers[i] = trn__arena_printf(arena, "$%u", i + 1))) numbers = NULL;
  if (!numbers || flightsql__classify(session, arena, text, numbers, &kind, &plan, &found, NULL)) return;
  for (int64_t i = 0; found.release && i < found.n_children; i++) {
    const struct ArrowSchema *child = found.children[i];
    unsigned long number = child->name && child->name[0] == '$' ? strtoul(child->name + 1, NULL, 10) : 0;
    trn_field field;
    if (!number || number > text->parameter_count || types[number - 1] || strcmp(child->format, "n") == 0) continue;
    if (trn__field_import(arena, child, &field, NULL) == TRN_OK) types[number - 1] = field.type;
  }
  trn_plan_unref(plan);
  trn__schema_release(&found);
}

trn_status flightsql__parameter_types(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                                      struct ArrowSchema *out, const char ***nulls, trn_error **error) {
  uint32_t count = text->parameter_count;
  const trn_type **types = TRN_NEW_N(arena, const trn_type *, count);
  *nulls = TRN_NEW_N(arena, const char *, count);
  trn_plan **plans = TRN_NEW_N(arena, trn_plan *, count + 1);
  if (!types || !*nulls || !plans || trn__schema_init(out, "+s", "", 0, NULL, 0, count)) return trn__no_memory(error);
  for (uint32_t i = 0; i < count; i++) (*nulls)[i] = "NULL";
  size_t row_at, row_end;
  plans[count] = count ? insert_columns(session, arena, text, &row_at, &row_end) : NULL;
  if (plans[count]) types_of_row(text, plans[count], row_at, row_end, types);
  for (size_t i = 0; i < text->count; i++) {
    uint32_t parameter = text->tokens[i].parameter;
    if (text->tokens[i].kind != FLIGHTSQL_PLACEHOLDER || types[parameter]) continue;
    char *type_text = cast_type(arena, text, i);
    if (type_text) {
      type_of_text(session, arena, type_text, &plans[parameter], &types[parameter]);
      (*nulls)[parameter] = trn__arena_printf(arena, "CAST(NULL AS %s)", type_text);
    }
  }
  if (count && flightsql__dialect(session) == FLIGHTSQL_ENGINE) types_of_planner(session, arena, text, types);
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < count && !status; i++) {
    char name[16];
    snprintf(name, sizeof name, "$%u", i + 1);
    const trn_type *type = types[i] ? types[i] : trn__type(TRN_TYPE_STRING);
    if (trn__type_export(type, i < text->name_count ? text->names[i] : name, true, NULL, NULL, out->children[i])) status = trn__no_memory(error);
  }
  for (uint32_t i = 0; i <= count; i++) trn_plan_unref(plans[i]);
  if (status) trn__schema_release(out);
  return status;
}
