/* Functions of lists that pick, join or add up: top_k(list of (value, key), k), joined(list of (value, keys...),
 * delimiter, orders), the sums of vectors. What the aggregates max_by(x, y, k), listagg, vector_sum are made of. */
#include "functions/aggregate.h"
#include "functions/rowcodec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sorting the rows of a list by fields of its structs ---- */
typedef struct sort_key {
  fn_type type;
  bool descending, nulls_first;
} sort_key;

typedef struct entry {
  int32_t index;        /* of the element */
  uint32_t start, size; /* its encoded keys */
} entry;

typedef struct sorter {
  fn_column child, value;
  fn_column *keys; /* columns of the structs' fields behind the first */
  sort_key *orders;
  size_t key_count;
  entry *entries, *other;
  int64_t count, capacity;
  fn_bytes bytes;
} sorter;

static void sorter_clear(sorter *s) {
  free(s->keys);
  free(s->orders);
  free(s->entries);
  free(s->other);
  fn__bytes_clear(&s->bytes);
}

/* Elements are structs; `orders` has two letters a key: a or d, f or l. */
static bool sorter_open(sorter *s, const fn_column *list, fn_text orders) {
  *s = (sorter){0};
  if (fn__column_child(list, 0, &s->child) != TRN_OK || s->child.type.kind != FN_STRUCT) return false;
  if (fn__column_child(&s->child, 0, &s->value) != TRN_OK) return false;
  s->key_count = (size_t)s->child.type.schema->n_children - 1;
  s->keys = calloc(s->key_count + 1, sizeof *s->keys);
  s->orders = calloc(s->key_count + 1, sizeof *s->orders);
  bool good = s->keys && s->orders && orders.size == 2 * s->key_count;
  for (size_t i = 0; i < s->key_count && good; i++) {
    good = fn__column_child(&s->child, (int64_t)i + 1, &s->keys[i]) == TRN_OK;
    s->orders[i] = (sort_key){s->keys[i].type, orders.data[2 * i] == 'd', orders.data[2 * i + 1] == 'f'};
  }
  return good;
}

static bool sorter_load(sorter *s, int32_t first, int32_t end) {
  int64_t count = end - first;
  s->count = 0;
  s->bytes.size = 0;
  if (count > s->capacity) {
    free(s->entries);
    free(s->other);
    s->capacity = count;
    s->entries = malloc((size_t)count * sizeof *s->entries);
    s->other = malloc((size_t)count * sizeof *s->other);
    if (!s->entries || !s->other) {
      s->capacity = 0;
      return false;
    }
  }
  for (int32_t i = first; i < end; i++) {
    uint32_t start = (uint32_t)s->bytes.size;
    for (size_t k = 0; k < s->key_count; k++)
      if (!fn__encode(&s->keys[k], s->child.offset + i, false, &s->bytes) || s->bytes.size > INT32_MAX) return false;
    s->entries[s->count++] = (entry){i, start, (uint32_t)s->bytes.size - start};
  }
  return true;
}

static int entry_order(const sorter *s, const entry *a, const entry *b) {
  const char *x = s->bytes.data + a->start, *y = s->bytes.data + b->start;
  for (size_t k = 0; k < s->key_count; k++) {
    bool x_null = !*x, y_null = !*y;
    int order = fn__encoded_compare(&s->orders[k].type, &x, &y);
    if (x_null || y_null) {
      if (x_null != y_null) return x_null == s->orders[k].nulls_first ? -1 : 1;
    } else if (order) {
      return s->orders[k].descending ? -order : order;
    }
  }
  return 0;
}

/* A merge sort from below: rows with equal keys stay in their order. */
static void sorter_sort(sorter *s) {
  for (int64_t width = 1; width < s->count; width *= 2) {
    for (int64_t low = 0; low < s->count; low += 2 * width) {
      int64_t middle = low + width < s->count ? low + width : s->count,
              high = low + 2 * width < s->count ? low + 2 * width : s->count, i = low, j = middle;
      for (int64_t at = low; at < high; at++) {
        bool left = j >= high || (i < middle && entry_order(s, &s->entries[i], &s->entries[j]) <= 0);
        s->other[at] = left ? s->entries[i++] : s->entries[j++];
      }
    }
    entry *sorted = s->other;
    s->other = s->entries;
    s->entries = sorted;
  }
}

/* ---- top_k(list of (value, key), k): the values with the greatest keys, from the greatest on ---- */
enum { GREATEST, LEAST };
static trn_status top_k(fn_call *call) {
  sorter s;
  const fn_column *list = &call->columns[0];
  const struct ArrowSchema *element = list->type.schema->children[0];
  fn_text order = {call->function->op == GREATEST ? "dl" : "al", 2};
  int64_t k = fn__get_i32(&call->columns[1], 0), made = 0, capacity = 0, *picks = NULL;
  struct ArrowArray child;
  bool good = sorter_open(&s, list, order);
  for (int64_t row = 0; row < call->rows && good; row++) {
    good = sorter_load(&s, list->offsets[row], list->offsets[row + 1]);
    if (!good) break;
    sorter_sort(&s);
    int64_t count = 0;
    while (count < s.count && count < k && !fn__is_null(&s.keys[0], s.child.offset + s.entries[count].index)) count++;
    if (made + count > capacity) {
      capacity = 2 * (made + count);
      int64_t *grown = realloc(picks, (size_t)capacity * sizeof *picks);
      if (!(good = grown != NULL)) break;
      picks = grown;
    }
    for (int64_t i = 0; i < count; i++) picks[made++] = s.child.offset + s.entries[i].index;
    if (count == 0) fn__set_null(&call->out, row);
    fn__push_list(&call->out, made);
  }
  good = good && fn__take(element->children[0], s.child.array->children[0], picks, made, &child) == TRN_OK;
  if (good) fn__add_child(&call->out, &child);
  free(picks);
  sorter_clear(&s);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_top_k(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "Li")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  fn_type type;
  struct ArrowSchema child;
  if (!fn__type_read(element, &type) || type.kind != FN_STRUCT || element->n_children != 2) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_copy(&child, element->children[0], "element", true);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- joined(list of (text, keys...), delimiter, orders) ---- */
static trn_status joined(fn_call *call) {
  sorter s;
  const fn_column *list = &call->columns[0];
  fn_text orders = fn__get_text(&call->columns[2], 0), delimiter = fn__get_text(&call->columns[1], 0);
  bool good = sorter_open(&s, list, orders);
  for (int64_t row = 0; row < call->rows && good; row++) {
    good = sorter_load(&s, list->offsets[row], list->offsets[row + 1]);
    if (!good) break;
    if (s.key_count) sorter_sort(&s);
    bool any = false;
    for (int64_t i = 0; i < s.count; i++) {
      int64_t at = s.child.offset + s.entries[i].index;
      if (fn__is_null(&s.value, at)) continue;
      fn_text text = fn__get_text(&s.value, at);
      if (any) fn__append(&call->out, delimiter.data, delimiter.size);
      fn__append(&call->out, text.data, text.size);
      any = true;
    }
    if (any)
      fn__push_end(&call->out, 0);
    else
      fn__push_null(&call->out);
  }
  sorter_clear(&s);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_joined(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (!fn__args_are(call, "Lts")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  fn_type type;
  if (!fn__type_read(element, &type) || type.kind != FN_STRUCT || element->n_children < 1 ||
      !fn__type_read(element->children[0], out) || (out->kind != FN_STRING && out->kind != FN_BINARY) ||
      out->kind != call->columns[1].type.kind)
    return fn__mismatch(call);
  return TRN_OK;
}

/* ---- vector_sum, vector_avg(list of lists of floats) ---- */
enum { SUM, AVERAGE };
static trn_status raise_dimensions(const fn_call *call, int64_t expected, int64_t actual) {
  char name[64], wanted[24], given[24];
  snprintf(name, sizeof name, "`%s`", call->function->name + 4);
  snprintf(wanted, sizeof wanted, "%lld", (long long)expected);
  snprintf(given, sizeof given, "%lld", (long long)actual);
  return fn__raise(&call->report, "VECTOR_DIMENSION_MISMATCH", "functionName", name, "leftDim", wanted, "rightDim",
                   given, NULL);
}

/* A vector with a null in it does not count. */
static bool is_whole(const fn_column *values, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++)
    if (fn__is_null(values, i)) return false;
  return true;
}

static trn_status vectors(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column vector, values;
  fn_bytes sums = {0};
  trn_status status = TRN_OK;
  int64_t made = 0;
  if (fn__column_child(list, 0, &vector) != TRN_OK || fn__column_child(&vector, 0, &values) != TRN_OK)
    return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    int64_t size = -1, used = 0;
    for (int32_t v = list->offsets[row]; v < list->offsets[row + 1] && status == TRN_OK; v++) {
      int32_t first = vector.offsets[v], end = vector.offsets[v + 1];
      if (!is_whole(&values, first, end)) continue;
      if (size >= 0 && end - first != size) {
        status = raise_dimensions(call, size, end - first);
        break;
      }
      const float *from = (const float *)values.data + first;
      used++;
      if (size < 0) {
        size = end - first;
        if (!fn__bytes_append(&sums, from, (size_t)size * sizeof(float))) status = fn__raise_out_of_memory(&call->report);
        continue;
      }
      float *sum = (float *)(void *)sums.data + made;
      for (int64_t i = 0; i < size; i++)
        sum[i] = call->function->op == SUM ? sum[i] + from[i] : sum[i] + (from[i] - sum[i]) / (float)used;
    }
    if (size < 0)
      fn__set_null(&call->out, row);
    else
      made += size;
    fn__push_list(&call->out, made);
  }
  fn_builder builder;
  fn_type type = fn__type(FN_FLOAT32);
  struct ArrowArray child;
  if (status == TRN_OK) {
    bool good = fn__builder_init(&builder, &type, made);
    if (good && made) memcpy(builder.data, sums.data, (size_t)made * sizeof(float));
    if (good && fn__builder_finish(&builder, &child) == TRN_OK)
      fn__add_child(&call->out, &child);
    else
      status = fn__raise_out_of_memory(&call->report);
  }
  fn__bytes_clear(&sums);
  return status;
}

static trn_status bind_vectors(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type vector, value;
  struct ArrowSchema child;
  if (!fn__args_are(call, "L") || !fn__type_read(call->columns[0].type.schema->children[0], &vector) ||
      vector.kind != FN_LIST || !fn__type_read(vector.schema->children[0], &value) || value.kind != FN_FLOAT32)
    return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&child, &value, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

const fn_scalar fn__list_pick_table[] = {
    {"trn.max_by_k", TRN_IMMUTABLE, FN_NULLABLE, GREATEST, bind_top_k, top_k},
    {"trn.min_by_k", TRN_IMMUTABLE, FN_NULLABLE, LEAST, bind_top_k, top_k},
    {"trn.listagg", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_joined, joined},
    {"trn.vector_sum", TRN_IMMUTABLE, FN_NULLABLE, SUM, bind_vectors, vectors},
    {"trn.vector_avg", TRN_IMMUTABLE, FN_NULLABLE, AVERAGE, bind_vectors, vectors},
    {NULL},
};
