/* Lists side by side: arrays_zip, the join of two maps by key, indices, array_insert. With them functions that take a
 * lambda of several parameters become ones of a single struct. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include <stdlib.h>
#include <string.h>

static const char PRESENT = 1, ABSENT = 0;

static trn_status give(fn_call *call, fn_sink *sink, bool good) {
  if (!good) {
    fn__sink_clear(sink);
    return fn__raise_out_of_memory(&call->report);
  }
  return fn__sink_finish(sink, &call->given) == TRN_OK ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

/* A sink of the call's own result type. */
static bool open_sink(fn_call *call, fn_sink *sink) {
  struct ArrowSchema schema;
  fn_type ignored;
  *sink = (fn_sink){0};
  if (call->function->bind(call, &ignored, &schema) != TRN_OK) return false;
  bool good = fn__sink_init(sink, &schema);
  schema.release(&schema);
  return good;
}

static int32_t list_size(const fn_column *list, int64_t row, int32_t *start) {
  const int32_t *offsets = list->offsets + row * list->step;
  *start = offsets[0];
  return offsets[1] - offsets[0];
}

static bool list_begin(fn_bytes *list, uint32_t count) {
  list->size = 0;
  return fn__bytes_append(list, &PRESENT, 1) && fn__bytes_append(list, &count, sizeof count);
}

/* ---- arrays_zip(name, array, name, array, ...): structs as long as the longest, with nulls behind the shorter ---- */
#define ZIP_MAX 512
static bool zip_row(const fn_call *call, const fn_column *children, int64_t row, fn_bytes *list) {
  uint32_t longest = 0;
  int32_t start;
  size_t count = call->count / 2;
  for (size_t i = 0; i < count; i++) {
    uint32_t size = (uint32_t)list_size(&call->columns[2 * i + 1], row, &start);
    if (size > longest) longest = size;
  }
  bool good = list_begin(list, longest);
  for (uint32_t at = 0; at < longest && good; at++) {
    good = fn__bytes_append(list, &PRESENT, 1);
    for (size_t i = 0; i < count && good; i++) {
      uint32_t size = (uint32_t)list_size(&call->columns[2 * i + 1], row, &start);
      good = at < size ? fn__encode(&children[i], start + (int64_t)at, false, list)
                       : fn__bytes_append(list, &ABSENT, 1);
    }
  }
  return good;
}

static trn_status arrays_zip(fn_call *call) {
  fn_sink sink;
  fn_bytes list = {0};
  size_t count = call->count / 2;
  fn_column *children = calloc(count + 1, sizeof *children);
  bool good = children && open_sink(call, &sink);
  if (!good) {
    free(children);
    return fn__raise_out_of_memory(&call->report);
  }
  for (size_t i = 0; i < count && good; i++)
    good = fn__column_child(&call->columns[2 * i + 1], 0, &children[i]) == TRN_OK;
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__sink_put_null(&sink);
      continue;
    }
    const char *at;
    good = zip_row(call, children, row, &list);
    at = list.data;
    if (good) fn__sink_put(&sink, &at);
  }
  fn__bytes_clear(&list);
  free(children);
  return give(call, &sink, good);
}

/* A list of structs of these fields (moved). */
static trn_status struct_list(struct ArrowSchema *fields, int64_t count, struct ArrowSchema *out) {
  struct ArrowSchema element;
  trn_status status = fn__schema_nest(&element, "+s", "element", false, fields, count);
  return status == TRN_OK ? fn__schema_nest(out, "+l", "", true, &element, 1) : status;
}

static trn_status bind_zip(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  *out = fn__type(FN_LIST);
  if (call->count % 2 || call->count == 0 || call->count > 2 * ZIP_MAX) return fn__mismatch(call);
  for (size_t i = 0; i < call->count; i += 2)
    if (call->columns[i].type.kind != FN_STRING || call->columns[i + 1].type.kind != FN_LIST) return fn__mismatch(call);
  if (!schema) return TRN_OK;
  size_t made = 0, count = call->count / 2;
  struct ArrowSchema *fields = calloc(count, sizeof *fields);
  trn_status status = fields ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  for (; made < count && status == TRN_OK; made++) {
    char name[256];
    fn_text text;
    if (!fn__literal_text(call, 2 * made, &text) || text.size >= sizeof name) {
      status = fn__mismatch(call);
      break;
    }
    memcpy(name, text.data, text.size);
    name[text.size] = 0;
    status = fn__schema_copy(&fields[made], call->columns[2 * made + 1].type.schema->children[0], name, true);
    if (status != TRN_OK) break;
  }
  if (status == TRN_OK)
    status = struct_list(fields, (int64_t)count, schema);
  else
    for (size_t i = 0; i < made; i++) fields[i].release(&fields[i]);
  free(fields);
  return status;
}

/* ---- map_zip(a, b): every key of either once, with both values: list of struct(key, value1, value2) ---- */
typedef struct map_parts {
  fn_column entries, keys, values;
} map_parts;

static bool open_map(const fn_column *map, map_parts *out) {
  return fn__column_child(map, 0, &out->entries) == TRN_OK && fn__column_child(&out->entries, 0, &out->keys) == TRN_OK &&
         fn__column_child(&out->entries, 1, &out->values) == TRN_OK;
}

/* The entry of `map` whose key is that of `from` at `index`, or -1; *good is false without memory. */
static int64_t find_key(const fn_column *column, const map_parts *map, int64_t row, const map_parts *from,
                        int64_t index, fn_bytes scratch[2], bool *good) {
  int32_t start, size = list_size(column, row, &start);
  scratch[0].size = 0;
  *good = fn__encode(&from->keys, index, true, &scratch[0]);
  for (int32_t i = 0; i < size && *good; i++) {
    scratch[1].size = 0;
    *good = fn__encode(&map->keys, map->entries.offset + start + i, true, &scratch[1]);
    if (*good && scratch[0].size == scratch[1].size && !memcmp(scratch[0].data, scratch[1].data, scratch[0].size))
      return map->entries.offset + start + i;
  }
  return -1;
}

static bool put_pair(fn_bytes *list, const fn_column *keys, int64_t key, const map_parts maps[2], int64_t first,
                     int64_t second) {
  const int64_t at[2] = {first, second};
  bool good = fn__bytes_append(list, &PRESENT, 1) && fn__encode(keys, key, false, list);
  for (int i = 0; i < 2 && good; i++)
    good = at[i] < 0 ? fn__bytes_append(list, &ABSENT, 1) : fn__encode(&maps[i].values, at[i], false, list);
  return good;
}

static bool map_zip_row(const fn_call *call, const map_parts maps[2], int64_t row, fn_bytes *list,
                        fn_bytes scratch[2]) {
  int32_t start[2], size[2];
  uint32_t count = 0;
  bool good = list_begin(list, 0);
  for (int i = 0; i < 2; i++) size[i] = list_size(&call->columns[i], row, &start[i]);
  for (int32_t i = 0; i < size[0] && good; i++, count++) {
    int64_t at = maps[0].entries.offset + start[0] + i;
    int64_t other = find_key(&call->columns[1], &maps[1], row, &maps[0], at, scratch, &good);
    good = good && put_pair(list, &maps[0].keys, at, maps, at, other);
  }
  for (int32_t i = 0; i < size[1] && good; i++) {
    int64_t at = maps[1].entries.offset + start[1] + i;
    if (find_key(&call->columns[0], &maps[0], row, &maps[1], at, scratch, &good) >= 0 || !good) continue;
    good = put_pair(list, &maps[1].keys, at, maps, -1, at);
    count++;
  }
  if (good) memcpy(list->data + 1, &count, sizeof count);
  return good;
}

static trn_status map_zip(fn_call *call) {
  fn_sink sink;
  fn_bytes list = {0}, scratch[2] = {{0}, {0}};
  map_parts maps[2];
  if (!open_sink(call, &sink)) return fn__raise_out_of_memory(&call->report);
  bool good = open_map(&call->columns[0], &maps[0]) && open_map(&call->columns[1], &maps[1]);
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__sink_put_null(&sink);
      continue;
    }
    good = map_zip_row(call, maps, row, &list, scratch);
    const char *at = list.data;
    if (good) fn__sink_put(&sink, &at);
  }
  fn__bytes_clear(&list);
  fn__bytes_clear(&scratch[0]);
  fn__bytes_clear(&scratch[1]);
  return give(call, &sink, good);
}

static trn_status bind_map_zip(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  *out = fn__type(FN_LIST);
  if (call->count != 2 || call->columns[0].type.kind != FN_MAP || call->columns[1].type.kind != FN_MAP)
    return fn__mismatch(call);
  if (!schema) return TRN_OK;
  static const char *const NAMES[] = {"0", "1", "2"};
  struct ArrowSchema fields[3];
  for (int i = 0; i < 3; i++) {
    const struct ArrowSchema *entries = call->columns[i == 2].type.schema->children[0];
    trn_status status = fn__schema_copy(&fields[i], entries->children[i > 0], NAMES[i], i > 0);
    if (status == TRN_OK) continue;
    while (i-- > 0) fields[i].release(&fields[i]);
    return status;
  }
  return struct_list(fields, 3, schema);
}

/* ---- array_indices(array): 0, 1, ... as ints ---- */
static trn_status array_indices(fn_call *call) {
  int64_t total = 0;
  int32_t start;
  fn_builder values;
  fn_type type = fn__type(FN_INT32);
  struct ArrowArray child;
  for (int64_t row = 0; row < call->rows; row++) {
    if (!fn__row_is_null(&call->out, row)) total += list_size(&call->columns[0], row, &start);
    if (total > INT32_MAX) return fn__raise_out_of_memory(&call->report);
    fn__push_list(&call->out, total);
  }
  if (!fn__builder_init(&values, &type, total)) return fn__raise_out_of_memory(&call->report);
  int32_t *at = values.data;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    int32_t size = list_size(&call->columns[0], row, &start);
    for (int32_t i = 0; i < size; i++) *at++ = i;
  }
  if (fn__builder_finish(&values, &child) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &child);
  return TRN_OK;
}

static trn_status bind_indices(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  fn_type type = fn__type(FN_INT32);
  *out = fn__type(FN_LIST);
  if (!fn__args_are(call, "L")) return fn__mismatch(call);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&child, &type, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- array_insert(array, position, value): from 1, or from the end; nulls fill what lies between ---- */
#define INSERT_MAX ((int64_t)INT32_MAX - 15)
static bool insert_row(const fn_call *call, const fn_column *child, int64_t row, int64_t position, fn_bytes *list) {
  int32_t start, size = list_size(&call->columns[0], row, &start);
  int64_t where = position > 0 ? position - 1 : size + position + 1;
  int64_t fill = where < 0 ? -where : 0, after = where > size ? where - size : 0;
  int64_t total = size + 1 + after + fill;
  if (where < 0) where = 0;
  bool good = total <= INSERT_MAX && list_begin(list, (uint32_t)total);
  for (int64_t i = 0; i <= size && good; i++) {
    if (i == where || (i == size && after)) {
      for (int64_t k = 0; k < after && good; k++) good = fn__bytes_append(list, &ABSENT, 1);
      good = good && fn__encode(&call->columns[2], row, false, list);
      for (int64_t k = 0; k < fill && good; k++) good = fn__bytes_append(list, &ABSENT, 1);
    }
    if (i < size && good) good = fn__encode(child, start + i, false, list);
  }
  return good;
}

static trn_status array_insert(fn_call *call) {
  fn_sink sink;
  fn_bytes list = {0};
  fn_column child;
  trn_status status = TRN_OK;
  if (!open_sink(call, &sink)) return fn__raise_out_of_memory(&call->report);
  bool good = fn__column_child(&call->columns[0], 0, &child) == TRN_OK;
  for (int64_t row = 0; row < call->rows && good && status == TRN_OK; row++) {
    if (fn__is_null(&call->columns[0], row) || fn__is_null(&call->columns[1], row)) {
      fn__sink_put_null(&sink);
      continue;
    }
    int64_t position = fn__get_i32(&call->columns[1], row);
    if (position == 0) {
      status = fn__raise(&call->report, "INVALID_INDEX_OF_ZERO", NULL);
      break;
    }
    good = insert_row(call, &child, row, position, &list);
    const char *at = list.data;
    if (good) fn__sink_put(&sink, &at);
  }
  fn__bytes_clear(&list);
  if (status == TRN_OK) return give(call, &sink, good);
  fn__sink_clear(&sink);
  return status;
}

static trn_status bind_insert(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type element;
  if (!fn__args_are(call, "Li*") || !fn__type_read(call->columns[0].type.schema->children[0], &element) ||
      !fn__type_same(&element, &call->columns[2].type))
    return fn__mismatch(call);
  *out = call->columns[0].type;
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_copy(schema, out->schema, "", true);
  if (status == TRN_OK) schema->children[0]->flags |= ARROW_FLAG_NULLABLE;
  return status;
}

const fn_scalar fn__nested_zip_table[] = {
    {"trn.arrays_zip", TRN_IMMUTABLE, FN_STRICT, 0, bind_zip, arrays_zip},
    {"trn.map_zip", TRN_IMMUTABLE, FN_STRICT, 0, bind_map_zip, map_zip},
    {"trn.array_indices", TRN_IMMUTABLE, FN_STRICT, 0, bind_indices, array_indices},
    {"trn.array_insert", TRN_IMMUTABLE, FN_POSITION, 0, bind_insert, array_insert},
    {NULL},
};
