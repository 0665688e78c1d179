/* Labels: what a scan reads, what a write writes, in the terms of policies. One arena each. */
#include "core/blake2b.h"
#include "plan/plan.h"

struct trn_scan_label {
  atomic_size_t refs;
  trn_arena *arena; /* owned; the label itself is in it */
  trn_scan_info info;
  bool has_identity;
  uint8_t identity[16];
};

/* ---- copying ---- */

static bool copy_text(trn_arena *arena, const char **text) {
  if (!*text) return true;
  *text = trn__arena_strdup(arena, *text);
  return *text != NULL;
}

/* The recursion is bounded: types are, by their constructors. */
const trn_type *trn__type_copy(trn_arena *arena, const trn_type *type) {
  trn_type *copy = trn__arena_copy(arena, type, sizeof *type);
  if (copy && !copy_text(arena, &copy->format)) return NULL;
  if (!copy || !type->field_count) return copy;
  trn_field *fields = trn__arena_copy(arena, type->fields, type->field_count * sizeof *fields);
  if (!fields) return NULL;
  for (uint32_t i = 0; i < type->field_count; i++) {
    fields[i].type = trn__type_copy(arena, fields[i].type);
    if (!fields[i].type || !copy_text(arena, &fields[i].name) || !copy_text(arena, &fields[i].metadata)) return NULL;
  }
  copy->fields = fields;
  return copy;
}

#define COPY_ARRAY(arena, items, count) trn__arena_copy((arena), (items), (count) * sizeof *(items))

static bool copy_lists(trn_arena *arena, trn_scan_info *info) {
  const char **paths = COPY_ARRAY(arena, info->paths, info->path_count);
  trn_kv *options = COPY_ARRAY(arena, info->options, info->option_count);
  trn_scan_column *columns = COPY_ARRAY(arena, info->columns, info->column_count);
  trn_scan_view *views = COPY_ARRAY(arena, info->views, info->view_count);
  if (!paths || !options || !columns || !views) return false;
  bool ok = true;
  for (size_t i = 0; i < info->path_count && ok; i++) ok = copy_text(arena, &paths[i]);
  for (size_t i = 0; i < info->option_count && ok; i++)
    ok = copy_text(arena, &options[i].key) && copy_text(arena, &options[i].value);
  for (size_t i = 0; i < info->column_count && ok; i++) {
    columns[i].type = trn__type_copy(arena, columns[i].type);
    ok = columns[i].type && copy_text(arena, &columns[i].name);
  }
  for (size_t i = 0; i < info->view_count && ok; i++)
    ok = copy_text(arena, &views[i].catalog) && copy_text(arena, &views[i].database) && copy_text(arena, &views[i].name);
  info->paths = paths;
  info->options = options;
  info->columns = columns;
  info->views = views;
  return ok;
}

static bool copy_info(trn_arena *arena, trn_scan_info *info) {
  return copy_text(arena, &info->catalog) && copy_text(arena, &info->database) && copy_text(arena, &info->table) &&
         copy_text(arena, &info->format) && copy_text(arena, &info->version) && copy_lists(arena, info);
}

/* ---- identity ---- */

static void put_text(trn_blake2b *hash, const char *text) {
  uint64_t size = text ? strlen(text) + 1 : 0;
  trn__blake2b_add(hash, &size, sizeof size);
  if (size) trn__blake2b_add(hash, text, size);
}

static void put_number(trn_blake2b *hash, uint64_t number) {
  trn__blake2b_add(hash, &number, sizeof number);
}

static void put_type(trn_blake2b *hash, const trn_type *type) {
  put_number(hash, (uint64_t)type->id | (uint64_t)type->precision << 8 | (uint64_t)(uint8_t)type->scale << 16 |
                       (uint64_t)type->variant << 24 | (uint64_t)(uint32_t)type->length << 32);
  put_text(hash, type->format);
  put_number(hash, type->field_count);
  for (uint32_t i = 0; i < type->field_count; i++) {
    put_text(hash, type->fields[i].name);
    put_number(hash, type->fields[i].nullable);
    put_type(hash, type->fields[i].type);
  }
}

static void make_identity(trn_scan_label *label, const void *content, size_t content_size) {
  const trn_scan_info *info = &label->info;
  bool is_local = info->kind == TRN_SCAN_LOCAL && content;
  label->has_identity = is_local || (info->version && (info->kind == TRN_SCAN_TABLE || info->kind == TRN_SCAN_FILES));
  if (!label->has_identity) return;
  trn_blake2b hash;
  trn__blake2b_init(&hash);
  put_number(&hash, info->kind);
  put_text(&hash, info->catalog), put_text(&hash, info->database), put_text(&hash, info->table);
  put_text(&hash, info->format), put_text(&hash, info->version);
  put_number(&hash, info->path_count);
  for (size_t i = 0; i < info->path_count; i++) put_text(&hash, info->paths[i]);
  put_number(&hash, info->option_count);
  for (size_t i = 0; i < info->option_count; i++)
    put_text(&hash, info->options[i].key), put_text(&hash, info->options[i].value);
  put_number(&hash, info->column_count);
  for (size_t i = 0; i < info->column_count; i++) {
    put_text(&hash, info->columns[i].name);
    put_number(&hash, info->columns[i].nullable);
    put_type(&hash, info->columns[i].type);
  }
  put_number(&hash, is_local ? content_size : 0);
  if (is_local) trn__blake2b_add(&hash, content, content_size);
  trn__blake2b_end(&hash, label->identity);
}

/* ---- the label ---- */

static bool is_whole(const trn_scan_info *info) {
  for (size_t i = 0; i < info->column_count; i++)
    if (!info->columns[i].name || !info->columns[i].type) return false;
  for (size_t i = 0; i < info->path_count; i++)
    if (!info->paths[i]) return false;
  for (size_t i = 0; i < info->option_count; i++)
    if (!info->options[i].key) return false;
  return true;
}

trn_status trn_scan_label_create(const trn_scan_info *given, trn_scan_label **out) {
  *out = NULL;
  trn_scan_info info = {0};
  memcpy(&info, given, given->struct_size < sizeof info ? given->struct_size : sizeof info);
  if (!is_whole(&info)) return TRN_INVALID_ARGUMENT;
  trn_arena *arena = trn__arena_create(0);
  trn_scan_label *label = arena ? TRN_NEW(arena, trn_scan_label) : NULL;
  const void *content = info.content;
  size_t content_size = info.content_size;
  info.struct_size = sizeof info;
  info.content = NULL;
  info.content_size = 0;
  if (!label || !copy_info(arena, &info)) {
    trn__arena_unref(arena);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&label->refs, 1);
  label->arena = arena;
  label->info = info;
  make_identity(label, content, content_size);
  *out = label;
  return TRN_OK;
}

trn_status trn_scan_label_through(const trn_scan_label *label, const trn_scan_view *view, trn_scan_label **out) {
  *out = NULL;
  trn_scan_info info = label->info;
  trn_scan_view *views = calloc(info.view_count + 1, sizeof *views);
  if (!views) return TRN_RESOURCE_EXHAUSTED;
  views[0] = *view;
  if (info.view_count) memcpy(views + 1, info.views, info.view_count * sizeof *views);
  info.views = views;
  info.view_count++;
  trn_status status = trn_scan_label_create(&info, out);
  free(views);
  if (status == TRN_OK) { /* what was digested is not kept */
    (*out)->has_identity = label->has_identity;
    memcpy((*out)->identity, label->identity, 16);
  }
  return status;
}

trn_scan_label *trn_scan_label_ref(trn_scan_label *label) {
  if (label) atomic_fetch_add_explicit(&label->refs, 1, memory_order_relaxed);
  return label;
}

void trn_scan_label_unref(trn_scan_label *label) {
  if (!label || atomic_fetch_sub_explicit(&label->refs, 1, memory_order_acq_rel) != 1) return;
  trn__arena_unref(label->arena);
}

const trn_scan_info *trn_scan_label_info(const trn_scan_label *label) {
  return &label->info;
}

bool trn_scan_label_identity(const trn_scan_label *label, uint8_t out[16]) {
  memcpy(out, label->identity, 16);
  return label->has_identity;
}

char *trn_scan_label_text(const trn_scan_label *label) {
  static const char *const kinds[] = {"unknown data", "a table", "files", "local rows", "generated rows"};
  const trn_scan_info *info = &label->info;
  trn_strbuf text = {0};
  if (info->table) {
    if (info->catalog) trn__strbuf_printf(&text, "%s.", info->catalog);
    if (info->database) trn__strbuf_printf(&text, "%s.", info->database);
    trn__strbuf_puts(&text, info->table);
  } else if (info->path_count) {
    for (size_t i = 0; i < info->path_count && i < 3; i++)
      trn__strbuf_printf(&text, "%s%s", i ? ", " : "", info->paths[i]);
    if (info->path_count > 3) trn__strbuf_printf(&text, " and %zu more", info->path_count - 3);
  } else {
    trn__strbuf_puts(&text, (unsigned)info->kind < sizeof kinds / sizeof *kinds ? kinds[info->kind] : kinds[0]);
  }
  if (!text.failed) return text.data;
  trn__strbuf_finish(&text);
  return NULL;
}

static void release_label(void *label) {
  trn_scan_label_unref(label);
}

trn_status trn__label_hold(trn_arena *arena, trn_scan_label *label) {
  if (!label) return TRN_OK;
  if (trn__arena_own(arena, release_label, trn_scan_label_ref(label))) return TRN_OK;
  trn_scan_label_unref(label);
  return TRN_RESOURCE_EXHAUSTED;
}
