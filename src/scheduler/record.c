/* Records of jobs: deep copies, and lists as bytes for stores that have columns. */
#include <stdio.h>

#include "scheduler/scheduler.h"

static const uint32_t ABSENT = UINT32_MAX; /* the size of a NULL */

bool trn__job_id_is_valid(const char *id) {
  size_t size = id ? strnlen(id, TRN_JOB_ID_BYTES_MAX + 1) : 0;
  if (!size || size > TRN_JOB_ID_BYTES_MAX) return false;
  for (size_t i = 0; i < size; i++) {
    char c = id[i];
    bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_plain && (i == 0 || !strchr("._-", c))) return false;
  }
  return true;
}

const char *trn_job_state_name(trn_job_state state) {
  static const char *const names[] = {"queued", "running", "succeeded", "failed", "cancelled", "lost"};
  return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* ---- copies ---- */

/* Failures are collected in *ok. */
static const char *copy_text(trn_arena *arena, const char *text, bool *ok) {
  char *copy = text ? trn__arena_strdup(arena, text) : NULL;
  if (text && !copy) *ok = false;
  return copy;
}

static const void *copy_bytes(trn_arena *arena, const void *data, size_t size, bool *ok) {
  void *copy = data ? trn__arena_copy(arena, data, size) : NULL;
  if (data && !copy) *ok = false;
  return copy;
}

static const char *const *copy_texts(trn_arena *arena, const char *const *texts, size_t count, bool *ok) {
  const char **copy = TRN_NEW_N(arena, const char *, count);
  for (size_t i = 0; copy && i < count; i++) copy[i] = copy_text(arena, texts[i], ok);
  if (!copy) *ok = false;
  return copy;
}

static const trn_kv *copy_kvs(trn_arena *arena, const trn_kv *items, size_t count, bool *ok) {
  trn_kv *copy = TRN_NEW_N(arena, trn_kv, count);
  for (size_t i = 0; copy && i < count; i++)
    copy[i] = (trn_kv){copy_text(arena, items[i].key, ok), copy_text(arena, items[i].value, ok)};
  if (!copy) *ok = false;
  return copy;
}

static const trn_job_location *copy_locations(trn_arena *arena, const trn_job_location *items, size_t count, bool *ok) {
  trn_job_location *copy = TRN_NEW_N(arena, trn_job_location, count);
  for (size_t i = 0; copy && i < count; i++) {
    copy[i] = items[i];
    copy[i].uri = copy_text(arena, items[i].uri, ok);
    copy[i].ticket = copy_bytes(arena, items[i].ticket, items[i].ticket_size, ok);
  }
  if (!copy) *ok = false;
  return copy;
}

trn_status trn__job_record_copy(trn_arena *arena, const trn_job_record *r, trn_job_record *out) {
  bool ok = true;
  trn_job_record copy = {0};
  memcpy(&copy, r, trn__struct_size(r->struct_size, sizeof copy));
  copy.struct_size = sizeof copy;
  copy.id = copy_text(arena, copy.id, &ok);
  copy.name = copy_text(arena, copy.name ? copy.name : "", &ok);
  copy.user = copy_text(arena, copy.user ? copy.user : "", &ok);
  copy.session_id = copy_text(arena, copy.session_id ? copy.session_id : "", &ok);
  copy.owner = copy_text(arena, copy.owner ? copy.owner : "", &ok);
  copy.backend_id = copy_text(arena, copy.backend_id, &ok);
  copy.tags = copy_texts(arena, copy.tags, copy.tag_count, &ok);
  copy.groups = copy_texts(arena, copy.groups, copy.group_count, &ok);
  copy.settings = copy_kvs(arena, copy.settings, copy.setting_count, &ok);
  copy.format = copy_text(arena, copy.format, &ok);
  copy.query = copy_bytes(arena, copy.query, copy.query_size, &ok);
  copy.query_options = copy_kvs(arena, copy.query_options, copy.query_option_count, &ok);
  copy.error_condition = copy_text(arena, copy.error_condition, &ok);
  copy.error_message = copy_text(arena, copy.error_message, &ok);
  copy.metrics = copy_text(arena, copy.metrics, &ok);
  copy.schema = copy_bytes(arena, copy.schema, copy.schema_size, &ok);
  copy.locations = copy_locations(arena, copy.locations, copy.location_count, &ok);
  *out = copy;
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

trn_status trn__job_copy_init(trn_job_copy *copy, const trn_job_record *record) {
  *copy = (trn_job_copy){.arena = trn__arena_create(0)};
  trn_status status = copy->arena ? trn__job_record_copy(copy->arena, record, &copy->record) : TRN_RESOURCE_EXHAUSTED;
  if (status) trn__job_copy_finish(copy);
  return status;
}

void trn__job_copy_finish(trn_job_copy *copy) {
  trn__arena_unref(copy->arena);
  *copy = (trn_job_copy){0};
}

typedef struct getting {
  trn_job_copy *out;
  trn_status status;
} getting;

static bool get_each(void *user, const trn_job_record *record) {
  getting *g = user;
  g->status = trn__job_copy_init(g->out, record);
  return false;
}

trn_status trn__store_get(trn_job_store *store, const char *id, bool with_query, trn_job_copy *out, trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(store, &self);
  getting g = {out, TRN_OK};
  *out = (trn_job_copy){0};
  trn_status status = ops->get(self, id, with_query, get_each, &g, error);
  if (!status && g.status) status = trn__no_memory(error);
  if (!status && !out->arena) status = trn_error_set(error, TRN_INTERNAL, NULL, "the store gave no record of %s", id);
  if (status) trn__job_copy_finish(out);
  return status;
}

/* ---- lists as bytes: a count, then sizes with what they count; little endian as the host's ---- */

static void put_number(trn_strbuf *out, uint32_t number) {
  trn__strbuf_add(out, &number, sizeof number);
}

static void put_bytes(trn_strbuf *out, const void *data, size_t size) {
  if (size >= ABSENT) out->failed = true;
  put_number(out, data ? (uint32_t)size : ABSENT);
  if (data) trn__strbuf_add(out, data, size);
}

static void put_text(trn_strbuf *out, const char *text) {
  put_bytes(out, text, text ? strlen(text) : 0);
}

void trn__texts_encode(trn_strbuf *out, const char *const *texts, size_t count) {
  put_number(out, (uint32_t)count);
  for (size_t i = 0; i < count; i++) put_text(out, texts[i]);
}

void trn__kvs_encode(trn_strbuf *out, const trn_kv *items, size_t count) {
  put_number(out, (uint32_t)count);
  for (size_t i = 0; i < count; i++) put_text(out, items[i].key), put_text(out, items[i].value);
}

void trn__locations_encode(trn_strbuf *out, const trn_job_location *items, size_t count) {
  put_number(out, (uint32_t)count);
  for (size_t i = 0; i < count; i++) {
    put_text(out, items[i].uri);
    put_bytes(out, items[i].ticket, items[i].ticket_size);
    trn__strbuf_add(out, &items[i].rows, sizeof items[i].rows);
    trn__strbuf_add(out, &items[i].bytes, sizeof items[i].bytes);
  }
}

static bool get_raw(trn_bytes_reader *from, void *out, size_t size) {
  if (size > from->size - from->at) return false;
  memcpy(out, from->data + from->at, size);
  from->at += size;
  return true;
}

/* Each item has `item_bytes` at least: so a count cannot ask for more memory than there are bytes. */
static bool get_count(trn_bytes_reader *from, size_t item_bytes, size_t *count) {
  uint32_t n;
  if (!get_raw(from, &n, sizeof n) || n > (from->size - from->at) / item_bytes) return false;
  *count = n;
  return true;
}

static trn_status get_bytes(trn_arena *arena, trn_bytes_reader *from, const char **out, size_t *size) {
  uint32_t n;
  *out = NULL;
  *size = 0;
  if (!get_raw(from, &n, sizeof n)) return TRN_DATA_LOSS;
  if (n == ABSENT) return TRN_OK;
  if (n > from->size - from->at) return TRN_DATA_LOSS;
  *out = trn__arena_str(arena, (const char *)from->data + from->at, n);
  *size = n;
  from->at += n;
  return *out ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

trn_status trn__texts_decode(trn_arena *arena, trn_bytes_reader *from, const char *const **out, size_t *count) {
  size_t size;
  if (!get_count(from, 4, count)) return TRN_DATA_LOSS;
  const char **texts = TRN_NEW_N(arena, const char *, *count);
  trn_status status = texts ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < *count && !status; i++) status = get_bytes(arena, from, &texts[i], &size);
  *out = texts;
  return status;
}

trn_status trn__kvs_decode(trn_arena *arena, trn_bytes_reader *from, const trn_kv **out, size_t *count) {
  size_t size;
  if (!get_count(from, 8, count)) return TRN_DATA_LOSS;
  trn_kv *items = TRN_NEW_N(arena, trn_kv, *count);
  trn_status status = items ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < *count && !status; i++) {
    status = get_bytes(arena, from, &items[i].key, &size);
    if (!status) status = get_bytes(arena, from, &items[i].value, &size);
    if (!status && !items[i].key) status = TRN_DATA_LOSS;
  }
  *out = items;
  return status;
}

trn_status trn__locations_decode(trn_arena *arena, trn_bytes_reader *from, const trn_job_location **out,
                                 size_t *count) {
  size_t size;
  if (!get_count(from, 24, count)) return TRN_DATA_LOSS;
  trn_job_location *items = TRN_NEW_N(arena, trn_job_location, *count);
  trn_status status = items ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < *count && !status; i++) {
    const char *ticket = NULL;
    items[i].struct_size = sizeof *items;
    status = get_bytes(arena, from, &items[i].uri, &size);
    if (!status) status = get_bytes(arena, from, &ticket, &items[i].ticket_size);
    items[i].ticket = ticket;
    bool ok = !status && items[i].uri && get_raw(from, &items[i].rows, 8) && get_raw(from, &items[i].bytes, 8);
    if (!status && !ok) status = TRN_DATA_LOSS;
  }
  *out = items;
  return status;
}
