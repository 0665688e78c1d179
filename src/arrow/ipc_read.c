/* Reading Arrow IPC from outside. Every position is checked against the buffer before it is looked at; nothing recurses. */
#include "arrow/ipc_read.h"

#include <stdio.h>

#include "arrow/flatbuf_read.h"

static trn_status malformed(trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Arrow data is malformed");
}

/* ---- messages ---- */

static trn_status read_message(reader *r, trn_ipc_kind *kind, int64_t *body_size, table *header, trn_error **error) {
  table message = table_at(r, (size_t)get(r, 0, 4));
  int64_t type = number(r, &message, 1, 1, 0) & 0xff;
  *body_size = number(r, &message, 3, 8, 0);
  size_t at = follow(r, &message, 2);
  *header = table_at(r, at);
  if (r->bad || !at || *body_size < 0) return malformed(error);
  if (type != TRN_IPC_SCHEMA && type != TRN_IPC_DICTIONARY && type != TRN_IPC_BATCH)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Arrow message is neither a schema nor a batch");
  *kind = (trn_ipc_kind)type;
  return TRN_OK;
}

trn_status trn__ipc_read_kind(const void *header, size_t size, trn_ipc_kind *kind, int64_t *body_size,
                              trn_error **error) {
  reader r = {header, size, false};
  table t;
  return read_message(&r, kind, body_size, &t, error);
}

trn_status trn__ipc_read_rows(const void *header, size_t size, int64_t *rows, trn_error **error) {
  reader r = {header, size, false};
  table batch;
  trn_ipc_kind kind;
  int64_t body_size;
  *rows = 0;
  trn_status status = read_message(&r, &kind, &body_size, &batch, error);
  if (status) return status;
  *rows = number(&r, &batch, 0, 8, 0);
  return r.bad || kind != TRN_IPC_BATCH || *rows < 0 ? malformed(error) : TRN_OK;
}

/* ---- schema ---- */

static char unit_letter(int64_t unit) { return unit >= 0 && unit <= 3 ? "smun"[unit] : '?'; }

/* Writes the C data format of a type. UNIMPLEMENTED names what is not read. */
trn_status trn__ipc_flat_format(reader *r, unsigned type, const table *t, char out[160], trn_error **error) {
  static const char *const names[] = {"none",     "null",       "int",       "float",  "binary",       "utf8",
                                      "bool",     "decimal",    "date",      "time",   "timestamp",    "interval",
                                      "list",     "struct",     "union",     "fixed",  "fixed list",   "map",
                                      "duration", "large binary", "large utf8", "large list", "run end encoded", "binary view",
                                      "utf8 view", "list view", "large list view"};
  const char *plain = type == 1 ? "n" : type == 4 ? "z" : type == 5 ? "u" : type == 6 ? "b" : type == 19 ? "z" : type == 20 ? "u" : NULL;
  int64_t width, unit;
  bool ok = true;
  if (plain) {
    strcpy(out, plain);
    return TRN_OK;
  }
  switch (type) {
  case 2:
    width = number(r, t, 0, 4, 0);
    ok = width == 8 || width == 16 || width == 32 || width == 64;
    if (ok) snprintf(out, 160, "%c", (number(r, t, 1, 1, 0) & 1 ? "csil" : "CSIL")[width == 8 ? 0 : width == 16 ? 1 : width == 32 ? 2 : 3]);
    break;
  case 3:
    unit = number(r, t, 0, 2, 0);
    ok = unit >= 0 && unit <= 2;
    if (ok) snprintf(out, 160, "%c", "efg"[unit]);
    break;
  case 7: {
    int64_t precision = number(r, t, 0, 4, 0), scale = number(r, t, 1, 4, 0);
    width = number(r, t, 2, 4, 128);
    ok = precision > 0 && precision <= 76 && scale >= -76 && scale <= 76 && (width == 128 || width == 256 || width == 64 || width == 32);
    if (ok && width == 128) snprintf(out, 160, "d:%d,%d", (int)precision, (int)scale);
    if (ok && width != 128) snprintf(out, 160, "d:%d,%d,%d", (int)precision, (int)scale, (int)width);
    break;
  }
  case 8: strcpy(out, number(r, t, 0, 2, 1) == 0 ? "tdD" : "tdm"); break;
  case 9:
    unit = number(r, t, 0, 2, 1);
    width = number(r, t, 1, 4, 32);
    ok = unit >= 0 && unit <= 3 && width == (unit >= 2 ? 64 : 32);
    snprintf(out, 160, "tt%c", unit_letter(unit));
    break;
  case 10: {
    unit = number(r, t, 0, 2, 0);
    size_t size, at = vector(r, t, 1, 1, &size);
    ok = unit >= 0 && unit <= 3 && size < 100;
    if (ok) snprintf(out, 160, "ts%c:%.*s", unit_letter(unit), (int)size, size ? (const char *)r->data + at : "");
    break;
  }
  case 11:
    unit = number(r, t, 0, 2, 0);
    ok = unit >= 0 && unit <= 2;
    if (ok) snprintf(out, 160, "ti%c", "MDn"[unit]);
    break;
  case 15:
    width = number(r, t, 0, 4, 0);
    ok = width >= 0 && width <= INT32_MAX;
    snprintf(out, 160, "w:%d", (int)width);
    break;
  case 18:
    unit = number(r, t, 0, 2, 1);
    ok = unit >= 0 && unit <= 3;
    snprintf(out, 160, "tD%c", unit_letter(unit));
    break;
  default:
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Parameters of the Arrow type %s are not read",
                         type < sizeof names / sizeof *names ? names[type] : "of an unknown number");
  }
  return ok && !r->bad ? TRN_OK : malformed(error);
}

static trn_status read_field(reader *r, size_t at, struct ArrowSchema *out, trn_error **error) {
  char format[160];
  table field = table_at(r, at);
  unsigned type = (unsigned)number(r, &field, 2, 1, 0) & 0xff;
  size_t type_at = follow(r, &field, 3);
  table type_table = table_at(r, type_at);
  size_t size, name_at = vector(r, &field, 0, 1, &size);
  if (r->bad || !type_at) return malformed(error);
  if (field_at(r, &field, 4, 4))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Parameters in dictionaries are not read");
  trn_status status = trn__ipc_flat_format(r, type, &type_table, format, error);
  if (status) return status;
  char *name = strndup(size ? (const char *)r->data + name_at : "", size);
  if (!name) return trn__no_memory(error);
  bool nullable = number(r, &field, 1, 1, 0) & 1;
  int64_t flags = (nullable ? ARROW_FLAG_NULLABLE : 0) | (type == 19 || type == 20 ? TRN_IPC_FLAG_LARGE : 0);
  status = trn__schema_init(out, format, name, flags, NULL, 0, 0);
  free(name);
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status trn__ipc_read_schema(const void *header, size_t size, struct ArrowSchema *out, size_t *fields,
                                trn_error **error) {
  reader r = {header, size, false};
  table schema;
  trn_ipc_kind kind;
  int64_t body_size;
  size_t count;
  if (out) *out = (struct ArrowSchema){0};
  trn_status status = read_message(&r, &kind, &body_size, &schema, error);
  if (status) return status;
  size_t at = vector(&r, &schema, 1, 4, &count);
  if (r.bad || kind != TRN_IPC_SCHEMA) return malformed(error);
  *fields = count;
  if (!out) return TRN_OK;
  if (number(&r, &schema, 0, 2, 0) != 0)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow data in big endian is not read");
  if (trn__schema_init(out, "+s", "", 0, NULL, 0, count)) return trn__no_memory(error);
  for (size_t i = 0; i < count && !status; i++) {
    size_t to = at + 4 * i + (size_t)get(&r, at + 4 * i, 4);
    status = to < r.size ? read_field(&r, to, out->children[i], error) : malformed(error);
  }
  if (status) trn__schema_release(out);
  return status;
}

/* ---- batches ---- */

/* Bytes of one value; 0: bits, offsets or none. */
static size_t value_width(const char *format) {
  switch (format[0]) {
  case 'c':
  case 'C': return 1;
  case 's':
  case 'S':
  case 'e': return 2;
  case 'i':
  case 'I':
  case 'f': return 4;
  case 'l':
  case 'L':
  case 'g': return 8;
  case 'd': {
    int precision, scale, bits = 128;
    sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits);
    return (size_t)bits / 8;
  }
  case 'w': return (size_t)atoi(format + 2);
  case 't':
    if (format[1] == 'd') return format[2] == 'D' ? 4 : 8;
    if (format[1] == 't') return format[2] == 's' || format[2] == 'm' ? 4 : 8;
    if (format[1] == 'i') return format[2] == 'M' ? 4 : format[2] == 'D' ? 8 : 16;
    return 8;
  default: return 0;
  }
}

typedef struct batch_reader {
  reader r;
  const uint8_t *body;
  size_t body_size;
  size_t nodes, node_count, node, buffers, buffer_count, buffer;
} batch_reader;

/* The next buffer; it has at least `needed` bytes unless it is absent and may be. */
static bool next_buffer(batch_reader *b, size_t needed, bool may_be_absent, trn_str *out) {
  if (b->buffer == b->buffer_count) return false;
  int64_t offset = (int64_t)get(&b->r, b->buffers + 16 * b->buffer, 8);
  int64_t size = (int64_t)get(&b->r, b->buffers + 16 * b->buffer + 8, 8);
  b->buffer++;
  if (b->r.bad || offset < 0 || size < 0 || (uint64_t)offset > b->body_size || (uint64_t)size > b->body_size - (uint64_t)offset)
    return false;
  *out = (trn_str){b->body ? (const char *)b->body + offset : NULL, (size_t)size}; /* a message may have no body */
  return (size_t)size >= needed || (may_be_absent && !size);
}

static bool offsets_are_good(const char *offsets, int64_t rows, bool is_large, size_t data_size) {
  int64_t last = 0;
  for (int64_t i = 0; i <= rows; i++) {
    int64_t value;
    if (is_large) {
      memcpy(&value, offsets + 8 * i, 8);
    } else {
      int32_t narrow;
      memcpy(&narrow, offsets + 4 * i, 4);
      value = narrow;
    }
    if (value < last || (uint64_t)value > data_size) return false;
    last = value;
  }
  return true;
}

static void append_rows(trn_array_builder *to, const char *format, bool is_large, int64_t rows, trn_str validity,
                        trn_str values, trn_str data) {
  bool is_bytes = format[0] == 'u' || format[0] == 'z';
  size_t width = value_width(format);
  for (int64_t i = 0; i < rows; i++) {
    if (format[0] == 'n' || (validity.size && !((uint8_t)validity.data[i >> 3] >> (i & 7) & 1))) {
      trn__array_append_null(to);
    } else if (is_bytes) {
      int64_t range[2] = {0};
      for (int k = 0; k < 2; k++) {
        int32_t narrow;
        if (is_large) {
          memcpy(&range[k], values.data + 8 * (i + k), 8);
        } else {
          memcpy(&narrow, values.data + 4 * (i + k), 4);
          range[k] = narrow;
        }
      }
      trn__array_append_bytes(to, data.data + range[0], (size_t)(range[1] - range[0]));
    } else if (format[0] == 'b') {
      trn__array_append_bool(to, (uint8_t)values.data[i >> 3] >> (i & 7) & 1);
    } else {
      trn__array_append_fixed(to, values.data + (size_t)i * width, width);
    }
  }
}

static trn_status read_column(batch_reader *b, const struct ArrowSchema *schema, int64_t rows, struct ArrowArray *out,
                              trn_error **error) {
  const char *format = schema->format;
  bool is_large = schema->flags & TRN_IPC_FLAG_LARGE, is_bytes = format[0] == 'u' || format[0] == 'z';
  trn_str validity = {0}, values = {0}, data = {0};
  size_t width = value_width(format), count = (size_t)rows;
  if (b->node == b->node_count || (int64_t)get(&b->r, b->nodes + 16 * b->node, 8) != rows) return malformed(error);
  int64_t nulls = (int64_t)get(&b->r, b->nodes + 16 * b->node++ + 8, 8);
  bool ok = nulls >= 0 && nulls <= rows && (width == 0 || count <= b->body_size / width + 1);
  if (format[0] != 'n') {
    size_t needed = is_bytes ? (is_large ? 8u : 4u) * (count + 1) : width ? width * count : (count + 7) / 8;
    ok = ok && next_buffer(b, (count + 7) / 8, nulls == 0, &validity) && next_buffer(b, needed, rows == 0, &values);
    if (is_bytes) {
      ok = ok && next_buffer(b, 0, true, &data);
      if (ok && rows) ok = offsets_are_good(values.data, rows, is_large, data.size);
    }
  }
  if (!ok) return malformed(error);
  trn_array_builder *builder = NULL;
  trn_status status = trn__array_builder_create(schema, &builder);
  if (status) return trn_error_set(error, status, NULL, "Parameters of the Arrow type '%s' are not read", format);
  append_rows(builder, format, is_large, rows, nulls ? validity : (trn_str){0}, values, data);
  status = trn__array_builder_finish(builder, out);
  trn__array_builder_destroy(builder);
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status check_schema(const void *header, size_t size, trn_error **error) {
  struct ArrowSchema schema;
  trn_error *failure = NULL;
  size_t fields;
  trn_status status = trn__ipc_read_schema(header, size, &schema, &fields, &failure);
  trn__schema_release(&schema);
  if (status == TRN_UNIMPLEMENTED) status = TRN_OK;
  if (status && error) *error = failure;
  else trn_error_unref(failure);
  return status;
}

trn_status trn__ipc_check(const void *header, size_t size, size_t body_size, trn_error **error) {
  reader r = {header, size, false};
  table batch;
  trn_ipc_kind kind;
  int64_t declared;
  size_t nodes, buffers;
  trn_status status = read_message(&r, &kind, &declared, &batch, error);
  if (status || kind == TRN_IPC_SCHEMA) return status ? status : check_schema(header, size, error);
  if (kind == TRN_IPC_DICTIONARY) {
    size_t at = follow(&r, &batch, 1);
    batch = table_at(&r, at);
    if (!at) return malformed(error);
  }
  int64_t rows = number(&r, &batch, 0, 8, 0);
  vector(&r, &batch, 1, 16, &nodes);
  size_t at = vector(&r, &batch, 2, 16, &buffers);
  for (size_t i = 0; i < buffers && !r.bad; i++) {
    uint64_t offset = get(&r, at + 16 * i, 8), length = get(&r, at + 16 * i + 8, 8);
    if (offset > body_size || length > body_size - offset) r.bad = true;
  }
  return r.bad || rows < 0 ? malformed(error) : TRN_OK;
}

trn_status trn__ipc_read_batch(const struct ArrowSchema *schema, const void *header, size_t size, const void *body,
                               size_t body_size, struct ArrowArray *out, trn_error **error) {
  batch_reader b = {.r = {header, size, false}, .body = body, .body_size = body_size};
  table batch;
  trn_ipc_kind kind;
  int64_t declared;
  *out = (struct ArrowArray){0};
  trn_status status = read_message(&b.r, &kind, &declared, &batch, error);
  if (status) return status;
  int64_t rows = number(&b.r, &batch, 0, 8, 0);
  b.nodes = vector(&b.r, &batch, 1, 16, &b.node_count);
  b.buffers = vector(&b.r, &batch, 2, 16, &b.buffer_count);
  if (b.r.bad || kind != TRN_IPC_BATCH || (uint64_t)declared > body_size || rows < 0) return malformed(error);
  if (field_at(&b.r, &batch, 3, 4))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Parameters in compressed batches are not read");
  /* Rows cost a bit at least, but for columns of nulls. */
  if ((uint64_t)rows > body_size * 8 && (uint64_t)rows > TRN_FLIGHT_PARAMETER_ROWS_MAX) return malformed(error);
  size_t count = (size_t)schema->n_children;
  struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
  if (!columns) return trn__no_memory(error);
  size_t done = 0;
  while (done < count && !status) {
    status = read_column(&b, schema->children[done], rows, &columns[done], error);
    done += !status;
  }
  if (!status) {
    if (trn__array_struct(columns, count, rows, out)) status = trn__no_memory(error);
  } else {
    for (size_t i = 0; i < done; i++) trn__array_release(&columns[i]);
  }
  free(columns);
  return status;
}
