/* Functions of maps and ranges: keys, values, entries, concatenation, sequence. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <stdlib.h>
#include <string.h>

enum { KEYS, VALUES, ENTRIES };

/* ---- map_keys, map_values, map_entries: a map is a list of its entries already ---- */
static trn_status entries_of(fn_call *call) {
  const fn_column *map = &call->columns[0];
  int op = call->function->op;
  fn_column entries = {0}, part;
  fn_sink sink;
  fn_bytes list = {0};
  struct ArrowSchema schema;
  fn_type ignored;
  if (call->function->bind(call, &ignored, &schema) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  bool good = fn__sink_init(&sink, &schema) && fn__column_child(map, 0, &entries) == TRN_OK;
  part = entries;
  if (good && op != ENTRIES) good = fn__column_child(&entries, op == VALUES, &part) == TRN_OK;
  for (int64_t row = 0; row < call->rows && good; row++) {
    static const char HEAD[5] = {1};
    const int32_t *offsets = map->offsets + row * map->step;
    if (fn__row_is_null(&call->out, row)) {
      fn__sink_put_null(&sink);
      continue;
    }
    uint32_t count = (uint32_t)(offsets[1] - offsets[0]);
    list.size = 0;
    good = fn__bytes_append(&list, HEAD, sizeof HEAD);
    for (int32_t i = offsets[0]; i < offsets[1] && good; i++)
      good = fn__encode(&part, op == ENTRIES ? i : entries.offset + i, false, &list);
    if (!good) break;
    memcpy(list.data + 1, &count, sizeof count);
    const char *at = list.data;
    fn__sink_put(&sink, &at);
  }
  fn__bytes_clear(&list);
  schema.release(&schema);
  if (good)
    good = fn__sink_finish(&sink, &call->given) == TRN_OK;
  else
    fn__sink_clear(&sink);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_entries(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (call->count != 1 || call->columns[0].type.kind != FN_MAP) return fn__mismatch(call);
  const struct ArrowSchema *entries = call->columns[0].type.schema->children[0];
  int op = call->function->op;
  const struct ArrowSchema *element = op == ENTRIES ? entries : entries->children[op == VALUES];
  struct ArrowSchema child;
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status =
      fn__schema_copy(&child, element, "element", op == VALUES && (element->flags & ARROW_FLAG_NULLABLE));
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- sequence(start, stop, step) of integers ---- */
static trn_status raise_bounds(const fn_call *call, int64_t start, int64_t stop, int64_t step) {
  char text[3][FN_INT_TEXT_MAX], message[128] = "Illegal sequence boundaries: ";
  const int64_t values[] = {start, stop, step};
  for (int i = 0; i < 3; i++) text[i][fn__int_print(values[i], text[i])] = 0;
  strcat(strcat(strcat(strcat(strcat(message, text[0]), " to "), text[1]), " by "), text[2]);
  call->report.error->fail(call->report.error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

#define SEQUENCE_MAX ((int64_t)INT32_MAX - 15)

static trn_status count_row(const fn_call *call, int64_t row, int64_t *start, int64_t *step, int64_t *count) {
  int64_t stop = fn__get_integer(&call->columns[1], row);
  *start = fn__get_integer(&call->columns[0], row);
  *step = call->count > 2 ? fn__get_integer(&call->columns[2], row) : *start <= stop ? 1 : -1;
  if (*step == 0 ? *start != stop : *step > 0 ? *start > stop : *start < stop)
    return raise_bounds(call, *start, stop, *step);
  uint64_t distance = *start <= stop ? (uint64_t)stop - (uint64_t)*start : (uint64_t)*start - (uint64_t)stop;
  uint64_t size = *step < 0 ? -(uint64_t)*step : (uint64_t)*step;
  uint64_t steps = size ? distance / size : 0;
  if (steps >= (uint64_t)SEQUENCE_MAX) {
    char text[FN_INT_TEXT_MAX];
    text[fn__int_print((int64_t)(steps > INT64_MAX - 1 ? INT64_MAX : steps + 1), text)] = 0;
    return fn__raise(&call->report, "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER", "numberOfElements", text,
                     "functionName", "`sequence`", "maxRoundedArrayLength", "2147483632", "parameter", "`count`", NULL);
  }
  *count = (int64_t)steps + 1;
  return TRN_OK;
}

static trn_status sequence(fn_call *call) {
  int64_t total = 0, start, step, count;
  fn_builder values;
  struct ArrowArray child;
  size_t width = fn__type_width((fn_kind)call->columns[0].type.kind);
  for (int64_t row = 0; row < call->rows; row++) {
    trn_status status = fn__row_is_null(&call->out, row) ? TRN_OK : count_row(call, row, &start, &step, &count);
    if (status != TRN_OK) return status;
    if (!fn__row_is_null(&call->out, row)) total += count;
    if (total > INT32_MAX) return fn__raise_out_of_memory(&call->report);
    fn__push_list(&call->out, total);
  }
  if (!fn__builder_init(&values, &call->columns[0].type, total)) return fn__raise_out_of_memory(&call->report);
  char *at = values.data;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row) || count_row(call, row, &start, &step, &count) != TRN_OK) continue;
    for (int64_t i = 0; i < count; i++, at += width) {
      int64_t value = (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)step);
      memcpy(at, &value, width); /* little endian */
    }
  }
  if (fn__builder_finish(&values, &child) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &child);
  return TRN_OK;
}

static trn_status bind_sequence(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  *out = fn__type(FN_LIST);
  bool good = fn__args_are(call, "nn|n");
  for (size_t i = 1; i < call->count; i++) good &= call->columns[i].type.kind == call->columns[0].type.kind;
  if (!good) return fn__mismatch(call);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_copy(&child, call->columns[0].type.schema, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

const fn_scalar fn__nested_map_table[] = {
    {"trn.map_keys", TRN_IMMUTABLE, FN_STRICT, KEYS, bind_entries, entries_of},
    {"trn.map_values", TRN_IMMUTABLE, FN_STRICT, VALUES, bind_entries, entries_of},
    {"trn.map_entries", TRN_IMMUTABLE, FN_STRICT, ENTRIES, bind_entries, entries_of},
    {"trn.sequence", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, 0, bind_sequence, sequence},
    {NULL},
};
