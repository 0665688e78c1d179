/* Writes an Arrow IPC stream of every type that the writer knows, flat and nested, whole and sliced, to standard
 * output; check_ipc.py reads it with pyarrow. */
#include <stdio.h>

#include "arrow/arrow_util.h"
#include "plan/plan.h"

static const trn_type *all_types(trn_arena *arena) {
  trn_field fields[32];
  size_t n = 0;
#define ADD(t, label) fields[n++] = (trn_field){.name = label, .type = t, .nullable = true}
  ADD(trn__type(TRN_TYPE_NULL), "null");
  ADD(trn__type(TRN_TYPE_BOOL), "bool");
  ADD(trn__type(TRN_TYPE_INT8), "int8");
  ADD(trn__type(TRN_TYPE_INT16), "int16");
  ADD(trn__type(TRN_TYPE_INT32), "int32");
  ADD(trn__type(TRN_TYPE_INT64), "int64");
  ADD(trn__type(TRN_TYPE_FLOAT32), "float32");
  ADD(trn__type(TRN_TYPE_FLOAT64), "float64");
  ADD(trn__type_decimal(arena, 38, 10), "decimal");
  ADD(trn__type(TRN_TYPE_STRING), "string");
  ADD(trn__type(TRN_TYPE_BINARY), "binary");
  ADD(trn__type(TRN_TYPE_DATE), "date");
  ADD(trn__type(TRN_TYPE_TIMESTAMP), "timestamp");
  ADD(trn__type(TRN_TYPE_TIMESTAMP_NTZ), "timestamp_ntz");
  ADD(trn__type(TRN_TYPE_TIME), "time");
  ADD(trn__type(TRN_TYPE_INTERVAL_DAY_TIME), "day_time");
  ADD(trn__type(TRN_TYPE_INTERVAL_CALENDAR), "calendar");
  ADD(trn__type_array(arena, trn__type(TRN_TYPE_INT32), true), "array");
  ADD(trn__type_map(arena, trn__type(TRN_TYPE_STRING), trn__type(TRN_TYPE_FLOAT64), true), "map");
  trn_field inner[] = {
      {.name = "x", .type = trn__type(TRN_TYPE_INT32), .nullable = false},
      {.name = "y", .type = trn__type_array(arena, trn__type(TRN_TYPE_STRING), true), .nullable = true}};
  ADD(trn__type_struct(arena, inner, 2), "struct");
  fields[n - 1].metadata = "{\"comment\":\"nested\"}";
  return trn__type_struct(arena, fields, n);
}

/* Row `i` of a column: every fifth is null, the others follow from i as check_ipc.py knows. */
static void append(trn_array_builder *b, const trn_type *type, bool nullable, int64_t i) {
  char text[32];
  if (type->id == TRN_TYPE_NULL || (nullable && i % 5 == 4)) {
    trn__array_append_null(b);
    return;
  }
  switch (type->id) {
  case TRN_TYPE_BOOL: trn__array_append_bool(b, i % 3 == 0); break;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: trn__array_append_double(b, (double)i / 4); break;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: trn__array_append_bytes(b, text, (size_t)snprintf(text, sizeof text, "v%d", (int)i)); break;
  case TRN_TYPE_INTERVAL_CALENDAR: {
    struct {
      int32_t months, days;
      int64_t nanos;
    } value = {(int32_t)i, (int32_t)-i, i * 1000};
    trn__array_append_fixed(b, &value, sizeof value);
    break;
  }
  case TRN_TYPE_ARRAY:
    for (int64_t k = 0; k < i % 4; k++) append(trn__array_builder_child(b, 0), type->fields[0].type, true, i + k);
    trn__array_append_end(b);
    break;
  case TRN_TYPE_MAP: {
    trn_array_builder *entries = trn__array_builder_child(b, 0);
    for (int64_t k = 0; k < i % 3; k++) {
      append(trn__array_builder_child(entries, 0), type->fields[0].type, false, i + k);
      append(trn__array_builder_child(entries, 1), type->fields[1].type, true, i + k);
      trn__array_append_end(entries);
    }
    trn__array_append_end(b);
    break;
  }
  case TRN_TYPE_STRUCT:
    for (uint32_t k = 0; k < type->field_count; k++)
      append(trn__array_builder_child(b, k), type->fields[k].type, type->fields[k].nullable, i);
    trn__array_append_end(b);
    break;
  case TRN_TYPE_TIME: trn__array_append_int(b, i); break;
  default: trn__array_append_int(b, i % 2 ? -i : i);
  }
}

int main(void) {
  trn_arena *arena = trn__arena_create(0);
  const trn_type *type = all_types(arena);
  struct ArrowSchema schema;
  struct ArrowArray array, slice;
  trn_array_builder *builder;
  trn_shared_array *shared;
  trn_strbuf out = {0};
  if (trn__type_export(type, "", false, NULL, "Europe/Berlin", &schema) || trn__array_builder_create(&schema, &builder))
    return 1;
  if (trn__ipc_write_schema(&schema, &out)) return 2;
  if (trn__array_builder_finish(builder, &array) || trn__ipc_write_batch(&schema, &array, &out)) return 3; /* empty */
  trn__array_release(&array);
  for (int64_t i = 0; i < 100; i++) append(builder, type, false, i);
  if (trn__array_builder_finish(builder, &array) || trn__ipc_write_batch(&schema, &array, &out)) return 4;
  if (trn__shared_array_create(&array, &shared)) return 5;
  static const int64_t slices[][2] = {{0, 7}, {3, 21}, {8, 1}, {99, 1}, {50, 0}, {13, 64}};
  for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
    if (trn__shared_array_slice(shared, slices[i][0], slices[i][1], &slice)) return 6;
    if (trn__ipc_write_batch(&schema, &slice, &out)) return 7;
    trn__array_release(&slice);
  }
  struct ArrowArray view = *trn__shared_array_get(shared); /* an offset of the struct itself */
  view.offset = 11;
  view.length = 30;
  if (trn__ipc_write_batch(&schema, &view, &out)) return 8;
  trn__ipc_eos(&out);
  size_t written = out.failed ? 0 : fwrite(out.data, 1, out.size, stdout);
  int code = written == out.size && !out.failed ? 0 : 9;
  trn__strbuf_finish(&out);
  trn__shared_array_unref(shared);
  trn__array_builder_destroy(builder);
  trn__schema_release(&schema);
  trn__arena_unref(arena);
  return code;
}
