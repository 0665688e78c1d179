/* Arrow schemas made in C: one allocation per node, which holds its texts and its children's structs. */
#include "arrow/arrow_util.h"

static void schema_free(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) trn__schema_release(schema->children[i]);
  trn__schema_release(schema->dictionary);
  free(schema->private_data);
  schema->release = NULL;
}

void trn__schema_release(struct ArrowSchema *schema) {
  if (schema && schema->release) schema->release(schema);
}

static size_t metadata_size(const trn_kv *metadata, size_t count) {
  if (!count) return 0;
  size_t size = 4;
  for (size_t i = 0; i < count; i++)
    size += 8 + strlen(metadata[i].key) + (metadata[i].value ? strlen(metadata[i].value) : 0);
  return size;
}

static char *put_counted(char *at, const char *text) {
  int32_t size = text ? (int32_t)strlen(text) : 0;
  memcpy(at, &size, 4);
  if (size) memcpy(at + 4, text, (size_t)size);
  return at + 4 + size;
}

static void metadata_put(char *at, const trn_kv *metadata, size_t count) {
  int32_t n = (int32_t)count;
  memcpy(at, &n, 4);
  at += 4;
  for (size_t i = 0; i < count; i++) at = put_counted(put_counted(at, metadata[i].key), metadata[i].value);
}

/* The node with `raw` bytes of encoded metadata, to be filled in. */
static trn_status node_init(struct ArrowSchema *out, const char *format, const char *name, int64_t flags, size_t raw,
                            size_t child_count, bool has_dictionary, char **metadata) {
  *out = (struct ArrowSchema){0};
  size_t nodes = child_count + has_dictionary;
  if (nodes > SIZE_MAX / 4 / (sizeof(struct ArrowSchema) + sizeof(void *))) return TRN_RESOURCE_EXHAUSTED;
  size_t format_size = strlen(format) + 1, name_size = name ? strlen(name) + 1 : 1;
  size_t head = nodes * sizeof(struct ArrowSchema) + child_count * sizeof(struct ArrowSchema *);
  char *block = calloc(1, head + raw + format_size + name_size);
  if (!block) return TRN_RESOURCE_EXHAUSTED;
  struct ArrowSchema *structs = (struct ArrowSchema *)block;
  struct ArrowSchema **children = (struct ArrowSchema **)(structs + nodes);
  for (size_t i = 0; i < child_count; i++) children[i] = &structs[i];
  char *at = block + head;
  *metadata = raw ? at : NULL;
  out->metadata = *metadata;
  out->format = memcpy(at + raw, format, format_size);
  out->name = at + raw + format_size;
  if (name) memcpy(at + raw + format_size, name, name_size);
  out->flags = flags;
  out->n_children = (int64_t)child_count;
  out->children = child_count ? children : NULL;
  out->dictionary = has_dictionary ? &structs[child_count] : NULL;
  out->release = schema_free;
  out->private_data = block;
  return TRN_OK;
}

trn_status trn__schema_init(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                            const trn_kv *metadata, size_t metadata_count, size_t child_count) {
  size_t raw = metadata_size(metadata, metadata_count);
  char *at;
  trn_status status = node_init(out, format, name, flags, raw, child_count, false, &at);
  if (status == TRN_OK && raw) metadata_put(at, metadata, metadata_count);
  return status;
}

/* Size of encoded metadata. */
static size_t encoded_size(const char *metadata) {
  if (!metadata) return 0;
  int32_t count, size;
  memcpy(&count, metadata, 4);
  size_t at = 4;
  for (int32_t i = 0; i < 2 * count; i++) {
    memcpy(&size, metadata + at, 4);
    at += 4 + (size_t)size;
  }
  return at;
}

static trn_status copy_node(const struct ArrowSchema *schema, struct ArrowSchema *out, unsigned depth) {
  *out = (struct ArrowSchema){0};
  /* A list has a level of its own beneath it, a map two: twice the depth of our types is enough. */
  if (depth > 2 * TRN_TYPE_DEPTH_MAX || schema->n_children < 0) return TRN_RESOURCE_EXHAUSTED;
  size_t raw = encoded_size(schema->metadata);
  char *at;
  trn_status status = node_init(out, schema->format, schema->name, schema->flags, raw, (size_t)schema->n_children,
                                schema->dictionary != NULL, &at);
  if (status) return status;
  if (raw) memcpy(at, schema->metadata, raw);
  for (int64_t i = 0; i < schema->n_children && status == TRN_OK; i++)
    status = copy_node(schema->children[i], out->children[i], depth + 1);
  if (status == TRN_OK && schema->dictionary) status = copy_node(schema->dictionary, out->dictionary, depth + 1);
  if (status) trn__schema_release(out);
  return status;
}

trn_status trn__schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out) {
  return copy_node(schema, out, 0);
}

const char *trn__schema_metadata(const struct ArrowSchema *schema, const char *key, size_t *size) {
  if (!schema->metadata) return NULL;
  size_t key_size = strlen(key);
  const char *at = schema->metadata;
  int32_t count, n, m;
  memcpy(&count, at, 4);
  at += 4;
  for (int32_t i = 0; i < count; i++) {
    memcpy(&n, at, 4);
    memcpy(&m, at + 4 + n, 4);
    if ((size_t)n == key_size && memcmp(at + 4, key, key_size) == 0) {
      *size = (size_t)m;
      return at + 8 + n;
    }
    at += 8 + n + m;
  }
  return NULL;
}
