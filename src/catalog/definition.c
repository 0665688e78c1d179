/* A table's definition as bytes: numbers little endian, texts with their size, lists with their count. */
#include "arrow/arrow_util.h"
#include "catalog/warehouse.h"

enum { DEFINITION_VERSION = 1, LIST_MAX = 1 << 20 };

/* ---- writing ---- */

static void put_u32(trn_strbuf *out, uint32_t v) {
  unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16), (unsigned char)(v >> 24)};
  trn__strbuf_add(out, bytes, 4);
}

/* 0: NULL; else its size + 1, then the bytes. */
static void put_bytes(trn_strbuf *out, const void *data, size_t size) {
  if (size >= UINT32_MAX) out->failed = true;
  put_u32(out, data ? (uint32_t)size + 1 : 0);
  if (data) trn__strbuf_add(out, data, size);
}

static void put_text(trn_strbuf *out, const char *text) {
  put_bytes(out, text, text ? strlen(text) : 0);
}

static void put_texts(trn_strbuf *out, const char *const *texts, size_t count) {
  put_u32(out, texts ? (uint32_t)count : 0);
  for (size_t i = 0; texts && i < count; i++) put_text(out, texts[i]);
}

void trn__properties_encode(trn_strbuf *out, const trn_kv *properties, size_t count) {
  put_u32(out, (uint32_t)count);
  for (size_t i = 0; i < count; i++) put_text(out, properties[i].key), put_text(out, properties[i].value);
}

/* The size of Arrow's encoded metadata. */
static size_t metadata_size(const char *metadata) {
  int32_t count, size;
  if (!metadata) return 0;
  memcpy(&count, metadata, 4);
  const char *at = metadata + 4;
  for (int32_t i = 0; i < 2 * count; i++) {
    memcpy(&size, at, 4);
    at += 4 + size;
  }
  return (size_t)(at - metadata);
}

static void put_schema(trn_strbuf *out, const struct ArrowSchema *schema, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX + 2 || schema->dictionary) out->failed = true;
  if (out->failed) return;
  put_text(out, schema->format);
  put_text(out, schema->name);
  put_bytes(out, schema->metadata, metadata_size(schema->metadata));
  put_u32(out, (uint32_t)schema->flags);
  put_u32(out, (uint32_t)schema->n_children);
  for (int64_t i = 0; i < schema->n_children; i++) put_schema(out, schema->children[i], depth + 1);
}

static void put_constraints(trn_strbuf *out, const trn_table_info *info) {
  put_u32(out, (uint32_t)info->constraint_count);
  for (size_t i = 0; i < info->constraint_count; i++) {
    const trn_constraint *c = &info->constraints[i];
    put_u32(out, (uint32_t)c->kind);
    put_text(out, c->name);
    put_texts(out, c->columns, c->column_count);
    put_text(out, c->target_database);
    put_text(out, c->target_table);
    put_texts(out, c->target_columns, c->target_columns ? c->column_count : 0);
  }
}

void trn__definition_encode(trn_strbuf *out, const trn_table_info *info) {
  put_u32(out, DEFINITION_VERSION);
  put_schema(out, info->schema, 0);
  put_texts(out, info->partition_columns, info->partition_column_count);
  trn__properties_encode(out, info->options, info->option_count);
  trn__properties_encode(out, info->properties, info->property_count);
  put_text(out, info->owner);
  put_text(out, info->view_text);
  put_text(out, info->view_dialect);
  put_text(out, info->view_catalog);
  put_text(out, info->view_database);
  put_texts(out, info->view_columns, info->view_column_count);
  put_u32(out, info->bucket_count);
  put_texts(out, info->bucket_columns, info->bucket_column_count);
  put_texts(out, info->sort_columns, info->sort_column_count);
  put_constraints(out, info);
  put_text(out, info->created_by ? info->created_by : "Trunnion " TRUNNION_VERSION);
}

/* ---- reading ---- */

typedef struct reader {
  trn_arena *arena;
  const uint8_t *at, *end;
  bool failed;    /* damaged */
  bool no_memory;
} reader;

static uint32_t get_u32(reader *r) {
  if (r->failed || r->end - r->at < 4) {
    r->failed = true;
    return 0;
  }
  uint32_t v = (uint32_t)r->at[0] | (uint32_t)r->at[1] << 8 | (uint32_t)r->at[2] << 16 | (uint32_t)r->at[3] << 24;
  r->at += 4;
  return v;
}

static void *kept(reader *r, void *memory) {
  if (!memory) r->failed = r->no_memory = true;
  return memory;
}

static const char *get_text(reader *r) {
  uint32_t size = get_u32(r);
  if (r->failed || !size) return NULL;
  if (size - 1 > (size_t)(r->end - r->at)) {
    r->failed = true;
    return NULL;
  }
  const char *text = kept(r, trn__arena_str(r->arena, (const char *)r->at, size - 1));
  r->at += size - 1;
  return text;
}

/* A list's count: each item takes 4 bytes at least. */
static size_t get_count(reader *r) {
  uint32_t count = get_u32(r);
  if (count > LIST_MAX || count > (size_t)(r->end - r->at) / 4) r->failed = true;
  return r->failed ? 0 : count;
}

static const char *const *get_texts(reader *r, size_t *count) {
  *count = get_count(r);
  const char **texts = *count ? kept(r, TRN_NEW_N(r->arena, const char *, *count)) : NULL;
  for (size_t i = 0; texts && i < *count && !r->failed; i++)
    if (!(texts[i] = get_text(r))) r->failed = true;
  if (!texts) *count = 0;
  return texts;
}

static const trn_kv *get_properties(reader *r, size_t *count) {
  *count = get_count(r);
  trn_kv *items = *count ? kept(r, TRN_NEW_N(r->arena, trn_kv, *count)) : NULL;
  for (size_t i = 0; items && i < *count && !r->failed; i++) {
    items[i].key = get_text(r), items[i].value = get_text(r);
    if (!items[i].key) r->failed = true;
  }
  if (!items) *count = 0;
  return items;
}

static void in_arena(struct ArrowSchema *schema) {
  schema->release = NULL;
}

/* The whole tree lives in the arena; its release does nothing. */
static struct ArrowSchema *get_schema(reader *r, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX + 2) r->failed = true;
  struct ArrowSchema *schema = r->failed ? NULL : kept(r, TRN_NEW(r->arena, struct ArrowSchema));
  if (!schema) return NULL;
  schema->format = get_text(r);
  schema->name = get_text(r);
  schema->metadata = get_text(r);
  schema->flags = get_u32(r);
  size_t count = get_count(r);
  schema->n_children = (int64_t)count;
  schema->children = count ? kept(r, TRN_NEW_N(r->arena, struct ArrowSchema *, count)) : NULL;
  for (size_t i = 0; schema->children && i < count && !r->failed; i++) schema->children[i] = get_schema(r, depth + 1);
  schema->release = in_arena;
  if (!schema->format) r->failed = true;
  return schema;
}

static const trn_constraint *get_constraints(reader *r, size_t *count) {
  *count = get_count(r);
  trn_constraint *items = *count ? kept(r, TRN_NEW_N(r->arena, trn_constraint, *count)) : NULL;
  for (size_t i = 0; items && i < *count; i++) {
    trn_constraint *c = &items[i];
    size_t targets = 0;
    c->kind = (trn_constraint_kind)get_u32(r);
    c->name = get_text(r);
    c->columns = get_texts(r, &c->column_count);
    c->target_database = get_text(r);
    c->target_table = get_text(r);
    c->target_columns = get_texts(r, &targets);
    if (targets && targets != c->column_count) r->failed = true;
  }
  if (!items) *count = 0;
  return items;
}

static trn_status finish(const reader *r, trn_error **error) {
  if (r->no_memory) return trn__no_memory(error);
  if (!r->failed) return TRN_OK;
  return trn_error_set(error, TRN_DATA_LOSS, NULL, "A definition in the warehouse is damaged");
}

trn_status trn__properties_decode(trn_arena *arena, const void *data, size_t size, const trn_kv **out, size_t *count,
                                  trn_error **error) {
  *out = NULL, *count = 0;
  if (!size) return TRN_OK;
  reader r = {.arena = arena, .at = data, .end = (const uint8_t *)data + size};
  *out = get_properties(&r, count);
  return finish(&r, error);
}

trn_status trn__definition_decode(trn_arena *arena, const void *data, size_t size, trn_table_info *out,
                                  trn_error **error) {
  reader r = {.arena = arena, .at = data, .end = (const uint8_t *)data + size};
  if (!size || get_u32(&r) != DEFINITION_VERSION) r.failed = true;
  out->schema = get_schema(&r, 0);
  out->partition_columns = get_texts(&r, &out->partition_column_count);
  out->options = get_properties(&r, &out->option_count);
  out->properties = get_properties(&r, &out->property_count);
  out->owner = get_text(&r);
  out->view_text = get_text(&r);
  out->view_dialect = get_text(&r);
  out->view_catalog = get_text(&r);
  out->view_database = get_text(&r);
  out->view_columns = get_texts(&r, &out->view_column_count);
  out->bucket_count = get_u32(&r);
  out->bucket_columns = get_texts(&r, &out->bucket_column_count);
  out->sort_columns = get_texts(&r, &out->sort_column_count);
  out->constraints = get_constraints(&r, &out->constraint_count);
  out->created_by = get_text(&r);
  return finish(&r, error);
}
