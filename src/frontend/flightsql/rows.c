/* Small results made here: columns by a text, rows by appending; sent in batches as they fill. */
#include "frontend/flightsql/flightsql.h"

enum { ROWS_COLUMNS_MAX = 32, ROWS_BATCH_BYTES = 1 << 20, ROWS_NAME_MAX = 64 };

static trn_status column_init(struct ArrowSchema *out, const char *name, char type, bool nullable) {
  static const struct {
    char type;
    const char *format;
  } formats[] = {{'u', "u"}, {'i', "i"}, {'l', "l"}, {'b', "b"}, {'y', "z"}, {'c', "C"}, {'U', "I"}, {'a', "+l"}};
  const char *format = NULL;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].type == type) format = formats[i].format;
  TRN_ASSERT(format);
  trn_status status =
      trn__schema_init(out, format, name, nullable ? ARROW_FLAG_NULLABLE : 0, NULL, 0, type == 'a' ? 1 : 0);
  if (!status && type == 'a') status = trn__schema_init(out->children[0], "u", "item", 0, NULL, 0, 0);
  return status;
}

static trn_status schema_from(const char *spec, struct ArrowSchema *out) {
  size_t count = 1;
  for (const char *c = spec; *c; c++) count += *c == ' ';
  TRN_ASSERT(count <= ROWS_COLUMNS_MAX);
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, count);
  const char *at = spec;
  for (size_t i = 0; i < count && !status; i++) {
    char name[ROWS_NAME_MAX];
    const char *colon = strchr(at, ':');
    memcpy(name, at, (size_t)(colon - at));
    name[colon - at] = 0;
    status = column_init(out->children[i], name, colon[1], colon[2] != '!');
    at = strchr(colon, ' ');
    if (at) at++;
  }
  return status;
}

trn_status flightsql__rows_init(flightsql_rows *rows, const char *spec, trn_error **error) {
  *rows = (flightsql_rows){0};
  trn_status status = schema_from(spec, &rows->schema);
  if (!status) status = trn__array_builder_create(&rows->schema, &rows->builder);
  if (!status) return TRN_OK;
  flightsql__rows_finish(rows);
  return trn__no_memory(error);
}

trn_array_builder *flightsql__rows_column(flightsql_rows *rows, size_t index) {
  return trn__array_builder_child(rows->builder, index);
}

void flightsql__rows_text(flightsql_rows *rows, size_t column, const char *text) {
  trn_array_builder *builder = flightsql__rows_column(rows, column);
  if (!text) {
    trn__array_append_null(builder);
  } else {
    trn__array_append_bytes(builder, text, strlen(text));
    rows->bytes += strlen(text);
  }
}

void flightsql__rows_int(flightsql_rows *rows, size_t column, int64_t value) {
  trn_array_builder *builder = flightsql__rows_column(rows, column);
  if (rows->schema.children[column]->format[0] == 'b') {
    trn__array_append_bool(builder, value != 0);
  } else {
    trn__array_append_int(builder, value);
  }
}

void flightsql__rows_null(flightsql_rows *rows, size_t column) {
  trn__array_append_null(flightsql__rows_column(rows, column));
}

/* Sends what has been appended, the schema before the first batch. */
static void flush(flightsql_rows *rows) {
  trn_strbuf bytes = {0};
  struct ArrowArray array = {0};
  if (rows->status) return;
  if (!rows->has_sent_schema) {
    rows->status = trn__ipc_write_schema(&rows->schema, &bytes);
    if (!rows->status) rows->status = flight__send_ipc(rows->rpc, bytes.data, bytes.size, &rows->error);
    rows->has_sent_schema = true;
  }
  if (!rows->status && trn__array_builder_length(rows->builder)) {
    bytes.size = 0;
    rows->status = trn__array_builder_finish(rows->builder, &array);
    if (!rows->status) rows->status = trn__ipc_write_batch(&rows->schema, &array, &bytes);
    if (!rows->status) rows->status = flight__send_ipc(rows->rpc, bytes.data, bytes.size, &rows->error);
    trn__array_release(&array);
  }
  rows->bytes = 0;
  trn__strbuf_finish(&bytes);
}

void flightsql__rows_end(flightsql_rows *rows) {
  trn__array_append_end(rows->builder);
  rows->bytes += 16 * (size_t)rows->schema.n_children;
  if (rows->rpc && rows->bytes >= ROWS_BATCH_BYTES) flush(rows);
}

trn_status flightsql__rows_send(flightsql_rows *rows, trn_error **error) {
  flush(rows);
  if (!rows->status) {
    flight__rpc_finish(rows->rpc);
    return TRN_OK;
  }
  if (error) {
    *error = rows->error;
    rows->error = NULL;
  }
  return rows->error || (error && *error) ? rows->status : trn__no_memory(error);
}

void flightsql__rows_finish(flightsql_rows *rows) {
  trn__array_builder_destroy(rows->builder);
  trn__schema_release(&rows->schema);
  trn_error_unref(rows->error);
  *rows = (flightsql_rows){0};
}
