/* Arrow's IPC stream format: schema and record batch messages (metadata version 5, no compression). */
#include <stdio.h>

#include "arrow/ipc_type.h"

static int unit_of(char c) {
  const char *units = "smun", *at = c ? strchr(units, c) : NULL;
  return at ? (int)(at - units) : -1;
}

static bool parse_number_format(char c, ipc_type *out) {
  static const struct {
    char c;
    uint8_t id, width;
    bool is_signed;
    uint8_t unit;
  } formats[] = {{'c', IPC_INT, 1, true, 0},   {'C', IPC_INT, 1, false, 0}, {'s', IPC_INT, 2, true, 0},
                 {'S', IPC_INT, 2, false, 0},  {'i', IPC_INT, 4, true, 0},  {'I', IPC_INT, 4, false, 0},
                 {'l', IPC_INT, 8, true, 0},   {'L', IPC_INT, 8, false, 0}, {'e', IPC_FLOAT, 2, true, 0},
                 {'f', IPC_FLOAT, 4, true, 1}, {'g', IPC_FLOAT, 8, true, 2}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (formats[i].c != c) continue;
    *out = (ipc_type){.id = formats[i].id,
                      .layout = LAYOUT_FIXED,
                      .width = formats[i].width,
                      .is_signed = formats[i].is_signed,
                      .unit = formats[i].unit};
    return true;
  }
  return false;
}

/* "t..." */
static bool parse_time_format(const char *format, ipc_type *out) {
  out->layout = LAYOUT_FIXED;
  out->width = 8;
  int unit = format[1] && format[2] ? unit_of(format[2]) : -1;
  switch (format[1]) {
  case 'd':
    out->id = IPC_DATE;
    out->unit = format[2] == 'm';
    out->width = out->unit ? 8 : 4;
    return format[2] == 'D' || format[2] == 'm';
  case 't':
    out->id = IPC_TIME;
    out->unit = (uint8_t)unit;
    out->width = unit >= 2 ? 8 : 4;
    return unit >= 0;
  case 's':
    out->id = IPC_TIMESTAMP;
    out->unit = (uint8_t)unit;
    out->timezone = unit >= 0 && format[3] == ':' && format[4] ? format + 4 : NULL;
    return unit >= 0;
  case 'D':
    out->id = IPC_DURATION;
    out->unit = (uint8_t)unit;
    return unit >= 0;
  case 'i':
    out->id = IPC_INTERVAL;
    out->unit = format[2] == 'D' ? 1 : format[2] == 'n' ? 2 : 0;
    out->width = format[2] == 'M' ? 4 : format[2] == 'D' ? 8 : 16;
    return format[2] == 'M' || format[2] == 'D' || format[2] == 'n';
  default: return false;
  }
}

/* "+..." */
static bool parse_nested_format(const char *format, ipc_type *out) {
  switch (format[1]) {
  case 'l': *out = (ipc_type){.id = IPC_LIST, .layout = LAYOUT_LIST}; return true;
  case 'L': *out = (ipc_type){.id = IPC_LARGE_LIST, .layout = LAYOUT_LIST, .is_large = true}; return true;
  case 'm': *out = (ipc_type){.id = IPC_MAP, .layout = LAYOUT_LIST}; return true;
  case 's': *out = (ipc_type){.id = IPC_STRUCT, .layout = LAYOUT_STRUCT}; return true;
  case 'w':
    *out = (ipc_type){.id = IPC_FIXED_LIST, .layout = LAYOUT_FIXED_LIST};
    return sscanf(format, "+w:%d", &out->width) == 1 && out->width >= 0;
  case 'u':
    *out = (ipc_type){.id = IPC_UNION, .layout = LAYOUT_UNION};
    return format[2] == 'd' && format[3] == ':';
  default: return false;
  }
}

trn_status trn__ipc_type_of(const struct ArrowSchema *schema, ipc_type *out) {
  const char *format = schema->format;
  *out = (ipc_type){0};
  bool ok = true;
  if (schema->dictionary) return TRN_UNIMPLEMENTED;
  switch (format[0]) {
  case 'n': out->id = IPC_NULL; break; /* LAYOUT_NULL */
  case 'b':
    out->id = IPC_BOOL;
    out->layout = LAYOUT_BITS;
    break;
  case 'u': *out = (ipc_type){.id = IPC_UTF8, .layout = LAYOUT_BYTES}; break;
  case 'z': *out = (ipc_type){.id = IPC_BINARY, .layout = LAYOUT_BYTES}; break;
  case 'U': *out = (ipc_type){.id = IPC_LARGE_UTF8, .layout = LAYOUT_BYTES, .is_large = true}; break;
  case 'Z': *out = (ipc_type){.id = IPC_LARGE_BINARY, .layout = LAYOUT_BYTES, .is_large = true}; break;
  case 'w':
    *out = (ipc_type){.id = IPC_FIXED_BINARY, .layout = LAYOUT_FIXED};
    ok = sscanf(format, "w:%d", &out->width) == 1 && out->width >= 0;
    break;
  case 'd': {
    int bits = 128;
    *out = (ipc_type){.id = IPC_DECIMAL, .layout = LAYOUT_FIXED};
    ok = sscanf(format, "d:%d,%d,%d", &out->precision, &out->scale, &bits) >= 2 &&
         (bits == 32 || bits == 64 || bits == 128 || bits == 256);
    out->width = bits / 8;
    break;
  }
  case 't': ok = parse_time_format(format, out); break;
  case '+': ok = parse_nested_format(format, out); break;
  default: ok = parse_number_format(format[0], out);
  }
  return ok ? TRN_OK : TRN_UNIMPLEMENTED;
}

/* ---- messages ---- */

static uint32_t message_end(trn_fb *fb, unsigned header_type, uint32_t header, int64_t body_size) {
  trn__fb_table(fb, 5);
  trn__fb_add(fb, 3, (uint64_t)body_size, 8);
  trn__fb_add_offset(fb, 2, header);
  trn__fb_add(fb, 0, METADATA_V5, 2);
  trn__fb_add(fb, 1, header_type, 1);
  return trn__fb_table_end(fb);
}

/* Continuation marker and size of the metadata that follows, padding included. */
static void prefix_put(void *at, size_t metadata_size) {
  uint32_t prefix[2] = {0xffffffffu, (uint32_t)metadata_size};
  memcpy(at, prefix, sizeof prefix);
}

/* ---- schema ---- */

/* The numbers behind "+ud:". */
static uint32_t write_type_ids(trn_fb *fb, const char *format) {
  int32_t ids[IPC_UNION_MEMBERS_MAX];
  size_t count = 0;
  for (const char *at = format + 4; *at && count < IPC_UNION_MEMBERS_MAX;) {
    char *end;
    ids[count++] = (int32_t)strtol(at, &end, 10);
    at = *end ? end + 1 : end;
  }
  return trn__fb_int32s(fb, ids, count);
}

static uint32_t write_type(trn_fb *fb, const struct ArrowSchema *schema, const ipc_type *type) {
  uint32_t zone = type->timezone ? trn__fb_string(fb, type->timezone, strlen(type->timezone)) : 0;
  if (type->id == IPC_UNION) zone = write_type_ids(fb, schema->format);
  trn__fb_table(fb, 3);
  switch (type->id) {
  case IPC_INT:
    trn__fb_add(fb, 0, (uint64_t)type->width * 8, 4);
    trn__fb_add(fb, 1, type->is_signed, 1);
    break;
  case IPC_DECIMAL:
    trn__fb_add(fb, 0, (uint64_t)type->precision, 4);
    trn__fb_add(fb, 1, (uint32_t)type->scale, 4);
    trn__fb_add(fb, 2, (uint64_t)type->width * 8, 4);
    break;
  case IPC_TIME:
    trn__fb_add(fb, 1, (uint64_t)type->width * 8, 4);
    trn__fb_add(fb, 0, type->unit, 2);
    break;
  case IPC_TIMESTAMP:
    if (zone) trn__fb_add_offset(fb, 1, zone);
    trn__fb_add(fb, 0, type->unit, 2);
    break;
  case IPC_UNION:
    trn__fb_add_offset(fb, 1, zone);
    trn__fb_add(fb, 0, 1, 2); /* dense */
    break;
  case IPC_FLOAT:
  case IPC_DATE:
  case IPC_INTERVAL:
  case IPC_DURATION: trn__fb_add(fb, 0, type->unit, 2); break;
  case IPC_FIXED_BINARY:
  case IPC_FIXED_LIST: trn__fb_add(fb, 0, (uint32_t)type->width, 4); break;
  case IPC_MAP: trn__fb_add(fb, 0, (schema->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0, 1); break;
  default: break;
  }
  return trn__fb_table_end(fb);
}

/* A vector of KeyValue; 0: there is none. */
static uint32_t write_metadata(trn_fb *fb, const char *metadata) {
  int32_t count = 0;
  if (metadata) memcpy(&count, metadata, 4);
  if (count <= 0) return 0;
  uint32_t *items = calloc((size_t)count, sizeof *items);
  if (!items) {
    fb->failed = true;
    return 0;
  }
  const char *at = metadata + 4;
  for (int32_t i = 0; i < count; i++) {
    int32_t key_size, value_size;
    memcpy(&key_size, at, 4);
    memcpy(&value_size, at + 4 + key_size, 4);
    uint32_t key = trn__fb_string(fb, at + 4, (size_t)key_size);
    uint32_t value = trn__fb_string(fb, at + 8 + key_size, (size_t)value_size);
    trn__fb_table(fb, 2);
    trn__fb_add_offset(fb, 0, key);
    trn__fb_add_offset(fb, 1, value);
    items[i] = trn__fb_table_end(fb);
    at += 8 + key_size + value_size;
  }
  uint32_t vector = trn__fb_offsets(fb, items, (size_t)count);
  free(items);
  return vector;
}

static trn_status write_fields(trn_fb *fb, const struct ArrowSchema *parent, unsigned depth, uint32_t *vector);

static trn_status write_field(trn_fb *fb, const struct ArrowSchema *schema, unsigned depth, uint32_t *out) {
  ipc_type type;
  if (depth > IPC_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__ipc_type_of(schema, &type);
  uint32_t children = 0;
  if (status == TRN_OK) status = write_fields(fb, schema, depth + 1, &children);
  if (status) return status;
  uint32_t metadata = write_metadata(fb, schema->metadata);
  uint32_t type_table = write_type(fb, schema, &type);
  const char *name = schema->name ? schema->name : "";
  uint32_t name_string = trn__fb_string(fb, name, strlen(name));
  trn__fb_table(fb, 7);
  trn__fb_add_offset(fb, 0, name_string);
  trn__fb_add_offset(fb, 3, type_table);
  trn__fb_add_offset(fb, 5, children);
  if (metadata) trn__fb_add_offset(fb, 6, metadata);
  trn__fb_add(fb, 1, (schema->flags & ARROW_FLAG_NULLABLE) != 0, 1);
  trn__fb_add(fb, 2, type.id, 1);
  *out = trn__fb_table_end(fb);
  return TRN_OK;
}

static trn_status write_fields(trn_fb *fb, const struct ArrowSchema *parent, unsigned depth, uint32_t *vector) {
  size_t count = parent->n_children > 0 ? (size_t)parent->n_children : 0;
  uint32_t *items = calloc(count ? count : 1, sizeof *items);
  if (!items) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = write_field(fb, parent->children[i], depth, &items[i]);
  if (status == TRN_OK) *vector = trn__fb_offsets(fb, items, count);
  free(items);
  return status;
}

trn_status trn__ipc_write_schema(const struct ArrowSchema *schema, trn_strbuf *out) {
  trn_fb fb = {0};
  uint32_t fields = 0;
  trn_status status = write_fields(&fb, schema, 0, &fields);
  if (status == TRN_OK) {
    uint32_t metadata = write_metadata(&fb, schema->metadata);
    trn__fb_table(&fb, 4);
    trn__fb_add_offset(&fb, 1, fields);
    if (metadata) trn__fb_add_offset(&fb, 2, metadata);
    trn__fb_add(&fb, 0, 0, 2); /* little endian */
    uint32_t header = trn__fb_table_end(&fb);
    const void *bytes = trn__fb_root(&fb, message_end(&fb, MESSAGE_SCHEMA, header, 0));
    void *prefix = bytes ? trn__strbuf_extend(out, 8) : NULL;
    if (prefix) prefix_put(prefix, fb.size);
    if (bytes) trn__strbuf_add(out, bytes, fb.size);
    if (!bytes || out->failed) status = TRN_RESOURCE_EXHAUSTED;
  }
  trn__fb_finish(&fb);
  return status;
}

void trn__ipc_eos(trn_strbuf *out) {
  void *prefix = trn__strbuf_extend(out, 8);
  if (prefix) prefix_put(prefix, 0);
}

/* ---- record batches ---- */

typedef struct batch_writer {
  trn_strbuf *out;
  size_t body;              /* where the body starts in out */
  int64_t *nodes, *buffers; /* pairs: length, null count; offset, size */
  size_t node_count, buffer_count;
} batch_writer;

/* How many nodes and buffers the columns of a schema have. */
static trn_status count_nodes(const struct ArrowSchema *schema, unsigned depth, batch_writer *w) {
  static const uint8_t buffers[] = {[LAYOUT_NULL] = 0, [LAYOUT_BITS] = 2,   [LAYOUT_FIXED] = 2,     [LAYOUT_BYTES] = 3,
                                    [LAYOUT_LIST] = 2, [LAYOUT_STRUCT] = 1, [LAYOUT_FIXED_LIST] = 1,
                                    [LAYOUT_UNION] = 2};
  ipc_type type;
  if (depth > IPC_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn__ipc_type_of(schema, &type);
  w->node_count++;
  w->buffer_count += status ? 0 : buffers[type.layout];
  for (int64_t i = 0; i < schema->n_children && status == TRN_OK; i++)
    status = count_nodes(schema->children[i], depth + 1, w);
  return status;
}

/* A buffer of `size` bytes, zeroed, padded to 8; NULL: size is 0 or failed. */
static void *buffer_add(batch_writer *w, size_t size) {
  int64_t *pair = &w->buffers[2 * w->buffer_count++];
  pair[0] = (int64_t)(w->out->size - w->body);
  pair[1] = (int64_t)size;
  return size ? trn__strbuf_extend(w->out, (size + 7) & ~(size_t)7) : NULL;
}

static void buffer_copy(batch_writer *w, const void *data, size_t size) {
  int64_t *pair = &w->buffers[2 * w->buffer_count++];
  pair[0] = (int64_t)(w->out->size - w->body);
  pair[1] = (int64_t)size;
  trn__strbuf_add(w->out, data, size);
  if (size & 7) trn__strbuf_extend(w->out, 8 - (size & 7));
}

/* Bits [offset, offset + count) to the start of `to`, which is zeroed. */
static void copy_bits(unsigned char *to, const unsigned char *from, int64_t offset, int64_t count) {
  from += offset >> 3;
  unsigned shift = (unsigned)(offset & 7);
  size_t size = (size_t)(count + 7) >> 3, from_size = (size_t)(shift + count + 7) >> 3;
  if (shift == 0) {
    memcpy(to, from, size);
  } else {
    for (size_t i = 0; i < size; i++) {
      unsigned high = i + 1 < from_size ? from[i + 1] : 0;
      to[i] = (unsigned char)(from[i] >> shift | high << (8 - shift));
    }
  }
  if (count & 7) to[size - 1] &= (unsigned char)((1u << (count & 7)) - 1);
}

static int64_t count_zero_bits(const unsigned char *bits, int64_t count) {
  int64_t ones = 0;
  for (int64_t i = 0; i < (count + 7) >> 3; i++)
    for (unsigned byte = bits[i]; byte; byte &= byte - 1) ones++;
  return count - ones;
}

/* The node of a column and its validity bits. */
static void write_validity(batch_writer *w, const struct ArrowArray *array, int64_t offset, int64_t rows) {
  int64_t *node = &w->nodes[2 * w->node_count++];
  node[0] = rows;
  node[1] = 0;
  const unsigned char *bits = array->n_buffers > 0 ? array->buffers[0] : NULL;
  unsigned char *to = bits && array->null_count && rows ? buffer_add(w, (size_t)(rows + 7) >> 3) : NULL;
  if (!to) {
    if (!(bits && array->null_count && rows)) buffer_add(w, 0);
    return;
  }
  copy_bits(to, bits, offset, rows);
  node[1] = count_zero_bits(to, rows);
}

/* Offsets [offset, offset + rows], from 0 on; the range that they cover in *first, *last. */
static trn_status write_offsets(batch_writer *w, const struct ArrowArray *array, int64_t offset, int64_t rows,
                                bool is_large, int64_t *first, int64_t *last) {
  size_t width = is_large ? 8 : 4;
  const void *from = array->n_buffers > 1 ? array->buffers[1] : NULL;
  *first = *last = 0;
  if (!from && rows) return TRN_INVALID_ARGUMENT;
  void *to = buffer_add(w, width * ((size_t)rows + 1));
  if (!to || !from || !rows) return TRN_OK; /* no rows: one offset, 0 */
  if (is_large) {
    const int64_t *in = (const int64_t *)from + offset;
    for (int64_t i = 0; i <= rows; i++) ((int64_t *)to)[i] = in[i] - in[0];
    *first = in[0];
    *last = in[rows];
  } else {
    const int32_t *in = (const int32_t *)from + offset;
    for (int64_t i = 0; i <= rows; i++) ((int32_t *)to)[i] = in[i] - in[0];
    *first = in[0];
    *last = in[rows];
  }
  return *first >= 0 && *last >= *first ? TRN_OK : TRN_INVALID_ARGUMENT;
}

static trn_status write_column(batch_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array,
                               int64_t offset, int64_t rows);

static trn_status write_children(batch_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array,
                                 int64_t offset, int64_t rows) {
  trn_status status = schema->n_children == array->n_children ? TRN_OK : TRN_INVALID_ARGUMENT;
  for (int64_t i = 0; i < schema->n_children && status == TRN_OK; i++) {
    const struct ArrowArray *child = array->children[i];
    if (offset + rows > child->length)
      status = TRN_INVALID_ARGUMENT;
    else
      status = write_column(w, schema->children[i], child, child->offset + offset, rows);
  }
  return status;
}

/* A dense union has no validity; its members stay whole, whatever rows refer to them. */
static trn_status write_union(batch_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              int64_t offset, int64_t rows) {
  if (array->n_buffers != 2 || array->n_children != schema->n_children || (rows && (!array->buffers[0] || !array->buffers[1])))
    return TRN_INVALID_ARGUMENT;
  int64_t *node = &w->nodes[2 * w->node_count++];
  node[0] = rows;
  node[1] = 0;
  buffer_copy(w, rows ? (const int8_t *)array->buffers[0] + offset : NULL, (size_t)rows);
  buffer_copy(w, rows ? (const int32_t *)array->buffers[1] + offset : NULL, (size_t)rows * 4);
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < schema->n_children && status == TRN_OK; i++)
    status = write_column(w, schema->children[i], array->children[i], array->children[i]->offset, array->children[i]->length);
  return status;
}

/* Rows [offset, offset + rows) of the buffers; the depth was bounded by count_nodes. */
static trn_status write_column(batch_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array,
                               int64_t offset, int64_t rows) {
  ipc_type type;
  trn_status status = trn__ipc_type_of(schema, &type);
  if (status) return status;
  int64_t first, last;
  const unsigned char *data = array->n_buffers > 1 ? array->buffers[1] : NULL;
  if (type.layout == LAYOUT_NULL) {
    int64_t *node = &w->nodes[2 * w->node_count++];
    node[0] = node[1] = rows;
    return TRN_OK;
  }
  if (type.layout == LAYOUT_UNION) return write_union(w, schema, array, offset, rows);
  write_validity(w, array, offset, rows);
  switch (type.layout) {
  case LAYOUT_BITS: {
    if (rows && !data) return TRN_INVALID_ARGUMENT;
    unsigned char *to = buffer_add(w, (size_t)(rows + 7) >> 3);
    if (to) copy_bits(to, data, offset, rows);
    break;
  }
  case LAYOUT_FIXED:
    if (rows && type.width && !data) return TRN_INVALID_ARGUMENT;
    buffer_copy(w, rows ? data + offset * type.width : NULL, (size_t)(rows * type.width));
    break;
  case LAYOUT_BYTES:
    status = write_offsets(w, array, offset, rows, type.is_large, &first, &last);
    if (status) break;
    data = array->n_buffers > 2 ? array->buffers[2] : NULL;
    if (last > first && !data) return TRN_INVALID_ARGUMENT;
    buffer_copy(w, last > first ? data + first : NULL, (size_t)(last - first));
    break;
  case LAYOUT_LIST:
    status = write_offsets(w, array, offset, rows, type.is_large, &first, &last);
    if (status == TRN_OK) status = write_children(w, schema, array, first, last - first);
    break;
  case LAYOUT_FIXED_LIST: status = write_children(w, schema, array, offset * type.width, rows * type.width); break;
  default: status = write_children(w, schema, array, offset, rows);
  }
  return status;
}

const void *trn__ipc_batch_metadata(trn_fb *fb, const int64_t *node_pairs, size_t node_count,
                                    const int64_t *buffer_pairs, size_t buffer_count, int64_t rows, int64_t body_size) {
  uint32_t buffers = trn__fb_int64s(fb, buffer_pairs, buffer_count, 2);
  uint32_t nodes = trn__fb_int64s(fb, node_pairs, node_count, 2);
  trn__fb_table(fb, 5);
  trn__fb_add(fb, 0, (uint64_t)rows, 8);
  trn__fb_add_offset(fb, 1, nodes);
  trn__fb_add_offset(fb, 2, buffers);
  uint32_t header = trn__fb_table_end(fb);
  return trn__fb_root(fb, message_end(fb, MESSAGE_RECORD_BATCH, header, body_size));
}

/* The message's metadata; its size depends on the schema only. */
static const void *batch_metadata(trn_fb *fb, const batch_writer *w, int64_t rows, int64_t body_size) {
  return trn__ipc_batch_metadata(fb, w->nodes, w->node_count, w->buffers, w->buffer_count, rows, body_size);
}

trn_status trn__ipc_write_batch(const struct ArrowSchema *schema, const struct ArrowArray *array, trn_strbuf *out) {
  batch_writer w = {.out = out};
  trn_fb fb = {0};
  size_t start = out->size;
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < schema->n_children && status == TRN_OK; i++) status = count_nodes(schema->children[i], 0, &w);
  if (status) return status;
  w.nodes = calloc(w.node_count + 1, 2 * sizeof *w.nodes);
  w.buffers = calloc(w.buffer_count + 1, 2 * sizeof *w.buffers);
  /* The metadata comes first but is known last: a place of the right size is kept for it. */
  const void *metadata = w.nodes && w.buffers ? batch_metadata(&fb, &w, 0, 0) : NULL;
  size_t metadata_size = fb.size;
  if (metadata) trn__strbuf_extend(out, 8 + metadata_size);
  if (!metadata || out->failed) {
    status = TRN_RESOURCE_EXHAUSTED;
    goto done;
  }
  w.body = out->size;
  w.node_count = w.buffer_count = 0;
  status = write_children(&w, schema, array, array->offset, array->length);
  trn__fb_finish(&fb);
  if (status == TRN_OK) metadata = batch_metadata(&fb, &w, array->length, (int64_t)(out->size - w.body));
  if (status == TRN_OK && (!metadata || out->failed)) status = TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_OK) {
    TRN_ASSERT(fb.size == metadata_size);
    prefix_put(out->data + start, metadata_size);
    memcpy(out->data + start + 8, metadata, metadata_size);
  }
done:
  if (status && !out->failed && out->data) {
    out->size = start; /* nothing half written is left */
    out->data[start] = 0;
  }
  trn__fb_finish(&fb);
  free(w.nodes);
  free(w.buffers);
  return status;
}
