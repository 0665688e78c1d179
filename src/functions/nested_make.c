/* Arrays and maps made of others: array_concat, map_from_arrays, reverse of arrays. */
#include "functions/cast.h"
#include "functions/rowcodec.h"
#include <stdlib.h>
#include <string.h>

/* Results are gathered in a sink and given whole. */
static trn_status give(fn_call *call, fn_sink *sink, trn_status status) {
  if (status != TRN_OK) {
    fn__sink_clear(sink);
    return status;
  }
  status = fn__sink_finish(sink, &call->given);
  return status == TRN_OK ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

/* Appends an encoded list's elements: `list` has its count first. */
static bool append_elements(fn_bytes *list, uint32_t *count, const fn_column *column, int64_t row) {
  fn_column child;
  const int32_t *offsets = column->offsets + row * column->step;
  if (fn__column_child(column, 0, &child) != TRN_OK) return false;
  for (int32_t i = offsets[0]; i < offsets[1]; i++, ++*count)
    if (*count == INT32_MAX || !fn__encode(&child, i, false, list)) return false;
  return true;
}

static trn_status array_concat(fn_call *call) {
  fn_sink sink;
  fn_bytes list = {0};
  bool good = fn__sink_init(&sink, call->columns[0].type.schema);
  if (!good) return fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && good; row++) {
    static const char HEAD[5] = {1};
    uint32_t count = 0;
    if (fn__row_is_null(&call->out, row)) {
      fn__sink_put_null(&sink);
      continue;
    }
    list.size = 0;
    good = fn__bytes_append(&list, HEAD, sizeof HEAD);
    for (size_t i = 0; i < call->count && good; i++) good = append_elements(&list, &count, &call->columns[i], row);
    if (good) {
      memcpy(list.data + 1, &count, sizeof count);
      const char *at = list.data;
      fn__sink_put(&sink, &at);
    }
  }
  fn__bytes_clear(&list);
  return give(call, &sink, good ? TRN_OK : fn__raise_out_of_memory(&call->report));
}

static trn_status bind_array_concat(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (call->count == 0 || call->columns[0].type.kind != FN_LIST) return fn__mismatch(call);
  for (size_t i = 1; i < call->count; i++)
    if (!fn__type_same(&call->columns[0].type, &call->columns[i].type)) return fn__mismatch(call);
  *out = call->columns[0].type;
  if (!schema) return TRN_OK;
  /* The elements may be null when those of any argument may. */
  trn_status status = fn__schema_copy(schema, out->schema, "", true);
  for (size_t i = 0; i < call->count && status == TRN_OK; i++)
    schema->children[0]->flags |= call->columns[i].type.schema->children[0]->flags & ARROW_FLAG_NULLABLE;
  return status;
}

/* ---- map_from_arrays(keys, values): keys are not null and there once ---- */
static trn_status raise_duplicate(const fn_call *call, const fn_column *keys, int64_t index) {
  char text[600];
  fn_cast cast = {.from_fields = {0, 3}};
  size_t size = fn__print_sql(&cast, keys, index, text, sizeof text);
  trn_status status =
      fn__raise(&call->report, "DUPLICATED_MAP_KEY", "mapKeyDedupPolicy", "\"spark.sql.mapKeyDedupPolicy\"", NULL);
  fn__param(&call->report, "key", text, size);
  return status;
}

typedef struct key_set { /* where the row's keys start in `bytes`, by hash */
  fn_bytes bytes;
  uint32_t *table;
  uint32_t size;
} key_set;

/* The row's key table has room for `count` keys. */
static bool key_set_reset(key_set *set, uint32_t count) {
  uint32_t size = 16;
  while (size < count * 2 && size < 1u << 30) size *= 2;
  if (size > set->size) {
    free(set->table);
    set->table = malloc(size * sizeof *set->table);
    set->size = set->table ? size : 0;
  }
  if (!set->table) return false;
  memset(set->table, 0, set->size * sizeof *set->table);
  set->bytes.size = 0;
  return true;
}

/* 1: new, 0: known, -1: no memory. */
static int key_set_add(key_set *set, const fn_column *keys, int64_t index) {
  uint32_t start = (uint32_t)set->bytes.size, length = 0;
  if (!fn__bytes_append(&set->bytes, &length, sizeof length) || !fn__encode(keys, index, true, &set->bytes) ||
      set->bytes.size > INT32_MAX)
    return -1;
  length = (uint32_t)set->bytes.size - start - (uint32_t)sizeof length;
  memcpy(set->bytes.data + start, &length, sizeof length);
  const char *key = set->bytes.data + start + sizeof length;
  uint64_t slot = fn__bytes_hash(key, length) & (set->size - 1);
  for (; set->table[slot]; slot = (slot + 1) & (set->size - 1)) {
    const char *known = set->bytes.data + set->table[slot] - 1;
    if (memcmp(known, set->bytes.data + start, sizeof length) == 0 && memcmp(known + sizeof length, key, length) == 0)
      return 0;
  }
  set->table[slot] = start + 1;
  return 1;
}

static trn_status put_map(fn_call *call, fn_sink *sink, fn_bytes *encoded, key_set *set, const fn_column *keys,
                          const fn_column *values, int64_t row) {
  const int32_t *k = call->columns[0].offsets + row * call->columns[0].step,
                *v = call->columns[1].offsets + row * call->columns[1].step;
  uint32_t count = (uint32_t)(k[1] - k[0]);
  char present = 1;
  if (v[1] - v[0] != k[1] - k[0])
    return fn__raise(&call->report, "_LEGACY_ERROR_TEMP_2148", NULL); /* key and value arrays of different lengths */
  encoded->size = 0;
  bool good = key_set_reset(set, count) && fn__bytes_append(encoded, &present, 1) &&
              fn__bytes_append(encoded, &count, sizeof count);
  for (uint32_t i = 0; i < count && good; i++) {
    if (fn__is_null(keys, k[0] + (int64_t)i)) return fn__raise(&call->report, "NULL_MAP_KEY", NULL);
    int added = key_set_add(set, keys, k[0] + (int64_t)i);
    if (added == 0) return raise_duplicate(call, keys, k[0] + (int64_t)i);
    good = added > 0 && fn__bytes_append(encoded, &present, 1) && fn__encode(keys, k[0] + (int64_t)i, false, encoded) &&
           fn__encode(values, v[0] + (int64_t)i, false, encoded);
  }
  if (!good) return fn__raise_out_of_memory(&call->report);
  const char *at = encoded->data;
  fn__sink_put(sink, &at);
  return TRN_OK;
}

static trn_status map_schema(const fn_call *call, struct ArrowSchema *out) {
  struct ArrowSchema fields[2], entries;
  const struct ArrowSchema *key = call->columns[0].type.schema->children[0],
                           *value = call->columns[1].type.schema->children[0];
  trn_status status = fn__schema_copy(&fields[0], key, "key", false);
  if (status != TRN_OK) return status;
  status = fn__schema_copy(&fields[1], value, "value", value->flags & ARROW_FLAG_NULLABLE);
  if (status != TRN_OK) {
    fields[0].release(&fields[0]);
    return status;
  }
  status = fn__schema_nest(&entries, "+s", "entries", false, fields, 2);
  return status == TRN_OK ? fn__schema_nest(out, "+m", "", true, &entries, 1) : status;
}

static trn_status map_from_arrays(fn_call *call) {
  fn_sink sink;
  fn_bytes encoded = {0};
  key_set set = {0};
  fn_column keys, values;
  struct ArrowSchema schema;
  trn_status status = map_schema(call, &schema);
  if (status != TRN_OK) return fn__raise_out_of_memory(&call->report);
  if (!fn__sink_init(&sink, &schema) || fn__column_child(&call->columns[0], 0, &keys) != TRN_OK ||
      fn__column_child(&call->columns[1], 0, &values) != TRN_OK)
    status = fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++)
    if (fn__row_is_null(&call->out, row))
      fn__sink_put_null(&sink);
    else
      status = put_map(call, &sink, &encoded, &set, &keys, &values, row);
  fn__bytes_clear(&encoded);
  fn__bytes_clear(&set.bytes);
  free(set.table);
  status = give(call, &sink, status);
  schema.release(&schema);
  return status;
}

static trn_status bind_map_from_arrays(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "LL")) return fn__mismatch(call);
  *out = fn__type(FN_MAP);
  return schema ? map_schema(call, schema) : TRN_OK;
}

/* ---- map_concat(maps...), map_from_entries(list of pairs) ---- */
static trn_status put_entries(fn_call *call, const fn_column *lists, fn_bytes *encoded, key_set *set, int64_t row,
                              fn_sink *sink) {
  uint32_t total = 0, done = 0;
  char present = 1;
  for (size_t i = 0; i < call->count; i++) {
    const int32_t *offsets = lists[i].offsets + row * lists[i].step;
    if (offsets[1] - offsets[0] > INT32_MAX - (int32_t)total) return fn__raise_out_of_memory(&call->report);
    total += (uint32_t)(offsets[1] - offsets[0]);
  }
  encoded->size = 0;
  bool good = key_set_reset(set, total) && fn__bytes_append(encoded, &present, 1) &&
              fn__bytes_append(encoded, &total, sizeof total);
  for (size_t i = 0; i < call->count && good; i++) {
    fn_column entries, keys, values;
    const int32_t *offsets = lists[i].offsets + row * lists[i].step;
    good = fn__column_child(&lists[i], 0, &entries) == TRN_OK && fn__column_child(&entries, 0, &keys) == TRN_OK &&
           fn__column_child(&entries, 1, &values) == TRN_OK;
    for (int32_t at = offsets[0]; at < offsets[1] && good; at++, done++) {
      int64_t index = entries.offset + at;
      if (fn__is_null(&entries, at)) { /* an entry that is null makes the whole map null */
        fn__sink_put_null(sink);
        return TRN_OK;
      }
      if (fn__is_null(&keys, index)) return fn__raise(&call->report, "NULL_MAP_KEY", NULL);
      int added = key_set_add(set, &keys, index);
      if (added == 0) return raise_duplicate(call, &keys, index);
      good = added > 0 && fn__bytes_append(encoded, &present, 1) && fn__encode(&keys, index, false, encoded) &&
             fn__encode(&values, index, false, encoded);
    }
  }
  if (!good) return fn__raise_out_of_memory(&call->report);
  const char *at = encoded->data;
  fn__sink_put(sink, &at);
  return TRN_OK;
}

static trn_status entries_schema(const fn_call *call, struct ArrowSchema *out) {
  struct ArrowSchema fields[2], entries;
  const struct ArrowSchema *pair = call->columns[0].type.schema->children[0];
  bool nullable = false;
  for (size_t i = 0; i < call->count; i++)
    nullable |= (call->columns[i].type.schema->children[0]->children[1]->flags & ARROW_FLAG_NULLABLE) != 0;
  trn_status status = fn__schema_copy(&fields[0], pair->children[0], "key", false);
  if (status != TRN_OK) return status;
  status = fn__schema_copy(&fields[1], pair->children[1], "value", nullable);
  if (status != TRN_OK) {
    fields[0].release(&fields[0]);
    return status;
  }
  status = fn__schema_nest(&entries, "+s", "entries", false, fields, 2);
  return status == TRN_OK ? fn__schema_nest(out, "+m", "", true, &entries, 1) : status;
}

static trn_status map_of_entries(fn_call *call) {
  fn_sink sink;
  fn_bytes encoded = {0};
  key_set set = {0};
  struct ArrowSchema schema;
  trn_status status = entries_schema(call, &schema);
  if (status != TRN_OK) return fn__raise_out_of_memory(&call->report);
  if (!fn__sink_init(&sink, &schema)) status = fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++)
    if (fn__row_is_null(&call->out, row))
      fn__sink_put_null(&sink);
    else
      status = put_entries(call, call->columns, &encoded, &set, row, &sink);
  fn__bytes_clear(&encoded);
  fn__bytes_clear(&set.bytes);
  free(set.table);
  status = give(call, &sink, status);
  schema.release(&schema);
  return status;
}

static trn_status bind_map_of_entries(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  bool maps = call->function->op;
  *out = fn__type(FN_MAP);
  if (call->count == 0 || (!maps && call->count != 1)) return fn__mismatch(call);
  for (size_t i = 0; i < call->count; i++) {
    const fn_type *type = &call->columns[i].type;
    fn_type pair;
    if (type->kind != (maps ? FN_MAP : FN_LIST) || !fn__type_read(type->schema->children[0], &pair) ||
        pair.kind != FN_STRUCT || type->schema->children[0]->n_children != 2 ||
        (maps && i > 0 && !fn__type_same(type, &call->columns[0].type)))
      return fn__mismatch(call);
  }
  return schema ? entries_schema(call, schema) : TRN_OK;
}

const fn_scalar fn__nested_make_table[] = {
    {"trn.map_concat", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, 1, bind_map_of_entries, map_of_entries},
    {"trn.map_from_entries", TRN_IMMUTABLE, FN_STRICT | FN_POSITION | FN_NULLABLE, 0, bind_map_of_entries,
     map_of_entries},
    {"trn.array_concat", TRN_IMMUTABLE, FN_STRICT, 0, bind_array_concat, array_concat},
    {"trn.map_from_arrays", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, 0, bind_map_from_arrays, map_from_arrays},
    {NULL},
};
