/* Arrays and maps: elements by index and key, size, membership. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <stdlib.h>
#include <string.h>

/* Results of any type: the kernel names, for each row, the element to take (-1: null); the builder takes them over. */
static trn_status give_elements(fn_call *call, const fn_column *child, const struct ArrowSchema *schema,
                                int64_t *picks) {
  struct ArrowArray taken;
  trn_status status = fn__take(schema, child->array, picks, call->rows, &taken);
  if (status != TRN_OK) return status == TRN_RESOURCE_EXHAUSTED ? fn__raise_out_of_memory(&call->report) : status;
  call->given = taken;
  return TRN_OK;
}

static trn_status raise_index(const fn_call *call, const char *condition, int64_t index, int64_t size) {
  char index_text[FN_INT_TEXT_MAX], size_text[FN_INT_TEXT_MAX];
  index_text[fn__int_print(index, index_text)] = 0;
  size_text[fn__int_print(size, size_text)] = 0;
  return fn__raise(&call->report, condition, "indexValue", index_text, "arraySize", size_text, "ansiConfig", FN_CONFIG,
                   NULL);
}

enum { ARRAY_GET, ELEMENT_AT };
/* array_get counts from 0, element_at from 1 or from the end; without a position an index outside gives null. */
static trn_status pick_element(fn_call *call, int64_t row, int64_t *pick) {
  const fn_column *list = &call->columns[0];
  const int32_t *offsets = list->offsets + row * list->step;
  int64_t size = offsets[1] - offsets[0], index = fn__get_i32(&call->columns[1], row), at = index;
  bool raises = call->function->flags & FN_POSITION, from_one = call->function->op == ELEMENT_AT;
  if (from_one && index == 0) return fn__raise(&call->report, "INVALID_INDEX_OF_ZERO", NULL);
  if (from_one) at = index > 0 ? index - 1 : size + index;
  if (at < 0 || at >= size) {
    *pick = -1;
    if (!raises) return TRN_OK;
    return raise_index(call, from_one ? "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" : "INVALID_ARRAY_INDEX", index, size);
  }
  *pick = offsets[0] + at;
  return TRN_OK;
}

static trn_status array_element(fn_call *call) {
  fn_column child;
  trn_status status = fn__column_child(&call->columns[0], 0, &child);
  int64_t *picks = status == TRN_OK ? fn__alloc(((size_t)call->rows + 1) * sizeof *picks) : NULL;
  if (!picks) return status == TRN_OK ? fn__raise_out_of_memory(&call->report) : status;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    picks[row] = -1;
    if (!fn__row_is_null(&call->out, row)) status = pick_element(call, row, &picks[row]);
  }
  if (status == TRN_OK) status = give_elements(call, &child, call->columns[0].type.schema->children[0], picks);
  free(picks);
  return status;
}

static trn_status bind_array_element(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "Li")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  if (!fn__type_read(element, out)) return fn__mismatch(call);
  return schema && out->kind >= FN_LIST ? fn__schema_copy(schema, element, "", true) : TRN_OK;
}

/* ---- maps: the value of the last equal key, as Spark's maps have each key once any would do ---- */
static bool same_value(const fn_column *a, int64_t i, const fn_column *b, int64_t j, fn_bytes *x, fn_bytes *y) {
  x->size = y->size = 0;
  return fn__encode(a, i, true, x) && fn__encode(b, j, true, y) && x->size == y->size &&
         memcmp(x->data, y->data, x->size) == 0;
}

static trn_status map_element(fn_call *call) {
  const fn_column *map = &call->columns[0], *wanted = &call->columns[1];
  fn_column entries, keys, values;
  fn_bytes x = {0}, y = {0};
  trn_status status = fn__column_child(map, 0, &entries);
  if (status == TRN_OK) status = fn__column_child(&entries, 0, &keys);
  if (status == TRN_OK) status = fn__column_child(&entries, 1, &values);
  int64_t *picks = status == TRN_OK ? fn__alloc(((size_t)call->rows + 1) * sizeof *picks) : NULL;
  if (!picks) return status == TRN_OK ? fn__raise_out_of_memory(&call->report) : status;
  for (int64_t row = 0; row < call->rows; row++) {
    picks[row] = -1;
    if (fn__row_is_null(&call->out, row)) continue;
    const int32_t *offsets = map->offsets + row * map->step;
    for (int32_t i = offsets[0]; i < offsets[1] && picks[row] < 0; i++)
      if (same_value(&keys, entries.offset + i, wanted, row, &x, &y)) picks[row] = entries.offset + i;
  }
  status = give_elements(call, &values, map->type.schema->children[0]->children[1], picks);
  fn__bytes_clear(&x);
  fn__bytes_clear(&y);
  free(picks);
  return status;
}

static trn_status bind_map_element(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type key;
  if (call->count != 2 || call->columns[0].type.kind != FN_MAP) return fn__mismatch(call);
  const struct ArrowSchema *entries = call->columns[0].type.schema->children[0];
  if (!fn__type_read(entries->children[0], &key) || !fn__type_read(entries->children[1], out) ||
      !fn__type_same(&key, &call->columns[1].type))
    return fn__mismatch(call);
  return schema && out->kind >= FN_LIST ? fn__schema_copy(schema, entries->children[1], "", true) : TRN_OK;
}

/* ---- size, membership ---- */
static trn_status size(fn_call *call) {
  const fn_column *list = &call->columns[0];
  bool legacy = call->function->op; /* null has size -1 */
  int32_t *out = call->out.data;
  for (int64_t row = 0; row < call->rows; row++) {
    bool null = fn__is_null(list, row);
    const int32_t *offsets = list->offsets + row * list->step;
    out[row] = null ? -1 : offsets[1] - offsets[0];
    if (null && !legacy) {
      out[row] = 0;
      fn__set_null(&call->out, row);
    }
  }
  return TRN_OK;
}

static trn_status bind_size(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_INT32);
  bool good = call->count == 1 && (call->columns[0].type.kind == FN_LIST || call->columns[0].type.kind == FN_MAP);
  return good ? TRN_OK : fn__mismatch(call);
}

enum { CONTAINS, POSITION };
/* Null when not found among elements of which one is null; positions count from 1, 0: not there. */
static trn_status array_search(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  fn_bytes x = {0}, y = {0};
  trn_status status = fn__column_child(list, 0, &child);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    int64_t found = 0;
    bool null_seen = false;
    if (!fn__row_is_null(&call->out, row)) {
      const int32_t *offsets = list->offsets + row * list->step;
      for (int32_t i = offsets[0]; i < offsets[1] && !found; i++) {
        bool null = fn__is_null(&child, i);
        null_seen |= null;
        if (!null && same_value(&child, i, &call->columns[1], row, &x, &y)) found = i - offsets[0] + 1;
      }
    }
    if (call->function->op == POSITION)
      ((int64_t *)call->out.data)[row] = found;
    else if (!found && null_seen)
      fn__set_null(&call->out, row);
    else
      fn__set_bool(&call->out, row, found != 0);
  }
  fn__bytes_clear(&x);
  fn__bytes_clear(&y);
  return status;
}

static trn_status bind_search(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  fn_type element;
  *out = fn__type(call->function->op == POSITION ? FN_INT64 : FN_BOOL);
  bool good = call->count == 2 && call->columns[0].type.kind == FN_LIST &&
              fn__type_read(call->columns[0].type.schema->children[0], &element) &&
              fn__type_same(&element, &call->columns[1].type);
  return good ? TRN_OK : fn__mismatch(call);
}

const fn_scalar fn__nested_table[] = {
    {"trn.array_get", TRN_IMMUTABLE, FN_STRICT | FN_POSITION | FN_NULLABLE, ARRAY_GET, bind_array_element,
     array_element},
    {"trn.array_get_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, ARRAY_GET, bind_array_element, array_element},
    {"trn.element_at", TRN_IMMUTABLE, FN_STRICT | FN_POSITION | FN_NULLABLE, ELEMENT_AT, bind_array_element,
     array_element},
    {"trn.element_at_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, ELEMENT_AT, bind_array_element, array_element},
    {"trn.map_get", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_map_element, map_element},
    {"trn.size", TRN_IMMUTABLE, 0, 0, bind_size, size},
    {"trn.size_legacy", TRN_IMMUTABLE, FN_NEVER_NULL, 1, bind_size, size},
    {"trn.array_contains", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, CONTAINS, bind_search, array_search},
    {"trn.array_position", TRN_IMMUTABLE, FN_STRICT, POSITION, bind_search, array_search},
    {NULL},
};
