/* Schemas from IPC messages. */
#include "arrow/ipc_schema.h"

#include <stdio.h>

#include "arrow/flatbuf_read.h"
#include "arrow/ipc_read.h"
#include "arrow/ipc_type.h"

typedef struct schema_reader {
  reader r;
  size_t nodes_left; /* a message cannot share its fields into more of them than it has bytes for */
} schema_reader;

static trn_status malformed(trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Arrow data is malformed");
}

/* Gives `*out` (free) and `*pairs`, whose texts lie behind them. */
static trn_status read_metadata(reader *r, const table *t, unsigned index, trn_kv **out, size_t *count,
                                trn_error **error) {
  size_t at = vector(r, t, index, 4, count), bytes = 0;
  for (int pass = 0; pass < 2; pass++) {
    char *texts = pass ? (char *)(*out + *count) : NULL;
    for (size_t i = 0; i < *count; i++) {
      table pair = table_at(r, at + 4 * i + (size_t)get(r, at + 4 * i, 4));
      for (unsigned k = 0; k < 2; k++) {
        size_t size, from = vector(r, &pair, k, 1, &size);
        if (r->bad) return malformed(error);
        bytes += size + 1;
        if (!pass) continue;
        *(k ? &(*out)[i].value : &(*out)[i].key) = texts;
        if (size) memcpy(texts, r->data + from, size);
        texts += size;
        *texts++ = 0;
      }
    }
    if (pass || !*count) break;
    if (bytes > r->size + 2 * *count) return malformed(error); /* shared texts */
    *out = calloc(1, *count * sizeof **out + bytes);
    if (!*out) return trn__no_memory(error);
  }
  return TRN_OK;
}

/* The format of a type that has children, or 64-bit offsets; false: it is neither. */
static bool nested_format(reader *r, unsigned type, const table *t, char out[160], int64_t *flags) {
  switch (type) {
  case IPC_LIST: strcpy(out, "+l"); return true;
  case IPC_LARGE_LIST: strcpy(out, "+L"); return true;
  case IPC_STRUCT: strcpy(out, "+s"); return true;
  case IPC_MAP:
    strcpy(out, "+m");
    if (number(r, t, 0, 1, 0) & 1) *flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    return true;
  case IPC_FIXED_LIST: snprintf(out, 160, "+w:%d", (int)(number(r, t, 0, 4, 0) & INT32_MAX)); return true;
  case IPC_LARGE_BINARY: strcpy(out, "Z"); return true;
  case IPC_LARGE_UTF8: strcpy(out, "U"); return true;
  default: return false;
  }
}

static trn_status read_field(schema_reader *s, size_t at, unsigned depth, struct ArrowSchema *out, trn_error **error);

static trn_status read_children(schema_reader *s, size_t at, unsigned depth, struct ArrowSchema *out,
                                trn_error **error) {
  trn_status status = TRN_OK;
  for (int64_t i = 0; i < out->n_children && !status; i++) {
    size_t place = at + 4 * (size_t)i, to = place + (size_t)get(&s->r, place, 4);
    status = to < s->r.size ? read_field(s, to, depth, out->children[i], error) : malformed(error);
  }
  return status;
}

/* A name that ends at its first NUL, as C's interface has it. */
static trn_status make_node(reader *r, const table *field, const char *format, int64_t flags, size_t children,
                            struct ArrowSchema *out, trn_error **error) {
  trn_kv *metadata = NULL;
  size_t metadata_count = 0, size, at = vector(r, field, 0, 1, &size);
  trn_status status = read_metadata(r, field, 6, &metadata, &metadata_count, error);
  char *name = status ? NULL : strndup(size ? (const char *)r->data + at : "", size);
  if (!status && (!name || trn__schema_init(out, format, name, flags, metadata, metadata_count, children)))
    status = trn__no_memory(error);
  free(name);
  free(metadata);
  return status;
}

/* Recursion: `depth` is bounded. */
static trn_status read_field(schema_reader *s, size_t at, unsigned depth, struct ArrowSchema *out, trn_error **error) {
  reader *r = &s->r;
  char format[160];
  size_t count;
  table field = table_at(r, at);
  unsigned type = (unsigned)number(r, &field, 2, 1, 0) & 0xff;
  size_t type_at = follow(r, &field, 3);
  table type_table = table_at(r, type_at);
  size_t children = vector(r, &field, 5, 4, &count);
  int64_t flags = number(r, &field, 1, 1, 0) & 1 ? ARROW_FLAG_NULLABLE : 0;
  if (r->bad || !type_at || !s->nodes_left--) return malformed(error);
  if (depth > IPC_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The Arrow schema is nested too deep");
  if (field_at(r, &field, 4, 4))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow dictionaries are not read");
  bool is_nested = nested_format(r, type, &type_table, format, &flags);
  trn_status status = is_nested ? TRN_OK : trn__ipc_flat_format(r, type, &type_table, format, error);
  if (status) return status;
  bool has_one = type == IPC_LIST || type == IPC_LARGE_LIST || type == IPC_MAP || type == IPC_FIXED_LIST;
  if (r->bad || (has_one ? count != 1 : type != IPC_STRUCT && count != 0)) return malformed(error);
  status = make_node(r, &field, format, flags, count, out, error);
  if (!status) status = read_children(s, children, depth + 1, out, error);
  if (status) trn__schema_release(out);
  return status;
}

trn_status trn__ipc_import_schema(const void *header, size_t size, struct ArrowSchema *out, trn_error **error) {
  schema_reader s = {.r = {header, size, false},
                     .nodes_left = size / 8 < TRN_SCHEMA_NODES_MAX ? size / 8 : TRN_SCHEMA_NODES_MAX};
  reader *r = &s.r;
  trn_kv *metadata = NULL;
  size_t count, metadata_count = 0;
  *out = (struct ArrowSchema){0};
  table message = table_at(r, (size_t)get(r, 0, 4));
  size_t header_at = follow(r, &message, 2);
  table schema = table_at(r, header_at);
  bool is_schema = (number(r, &message, 1, 1, 0) & 0xff) == MESSAGE_SCHEMA;
  size_t fields = vector(r, &schema, 1, 4, &count);
  if (r->bad || !header_at || !is_schema || count > s.nodes_left) return malformed(error);
  if (number(r, &schema, 0, 2, 0) != 0)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow data in big endian is not read");
  trn_status status = read_metadata(r, &schema, 2, &metadata, &metadata_count, error);
  if (!status && trn__schema_init(out, "+s", "", 0, metadata, metadata_count, count)) status = trn__no_memory(error);
  if (!status) status = read_children(&s, fields, 1, out, error);
  free(metadata);
  if (status) trn__schema_release(out);
  return status;
}
