/* Functions from lists to lists and elements. A row's elements are encoded (rowcodec.h), rearranged, and put into a
 * sink of the result's type. */
#include "functions/frame.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <stdlib.h>
#include <string.h>

typedef struct item {
  uint32_t start, size; /* in the bytes of its list */
  bool null;
} item;
typedef struct items {
  fn_bytes bytes;
  item *item;
  uint32_t count, capacity;
} items;

static void items_clear(items *list) {
  fn__bytes_clear(&list->bytes);
  free(list->item);
}

static bool items_add(items *list, const fn_column *column, int64_t row) {
  if (list->count == list->capacity) {
    uint32_t capacity = list->capacity ? list->capacity * 2 : 16;
    item *grown = capacity < INT32_MAX / 16 ? realloc(list->item, capacity * sizeof *grown) : NULL;
    if (!grown) return false;
    list->item = grown;
    list->capacity = capacity;
  }
  size_t start = list->bytes.size;
  /* Canonical: -0.0 equals 0.0 and every NaN another, as SQL's sets have it. */
  if (!fn__encode(column, row, true, &list->bytes) || list->bytes.size > INT32_MAX) return false;
  list->item[list->count++] = (item){(uint32_t)start, (uint32_t)(list->bytes.size - start), fn__is_null(column, row)};
  return true;
}

/* The elements of a list column's row, after those that are there. */
static bool items_add_list(items *list, const fn_column *column, int64_t row) {
  fn_column child;
  const int32_t *offsets = column->offsets + row * column->step;
  bool good = fn__column_child(column, 0, &child) == TRN_OK;
  for (int32_t i = offsets[0]; i < offsets[1] && good; i++) good = items_add(list, &child, i);
  return good;
}

static void items_reset(items *list) {
  list->bytes.size = 0;
  list->count = 0;
}

static bool same(const items *a, uint32_t i, const items *b, uint32_t j) {
  return a->item[i].size == b->item[j].size &&
         memcmp(a->bytes.data + a->item[i].start, b->bytes.data + b->item[j].start, a->item[i].size) == 0;
}

/* ---- sets of a row's elements ---- */
typedef struct item_index {
  uint32_t *slot; /* item number plus one */
  uint32_t size;
} item_index;

static bool index_reset(item_index *x, uint32_t count) {
  uint32_t size = 16;
  while (size < count * 2) size *= 2;
  if (size > x->size) {
    free(x->slot);
    x->slot = malloc(size * sizeof *x->slot);
    x->size = x->slot ? size : 0;
  }
  if (x->slot) memset(x->slot, 0, x->size * sizeof *x->slot);
  return x->slot != NULL;
}

/* The number of an equal item of `list` in the index, or -1; with `add`, the item goes in. */
static int64_t index_find(item_index *x, const items *list, const items *from, uint32_t i, bool add) {
  uint64_t at = fn__bytes_hash(from->bytes.data + from->item[i].start, from->item[i].size) & (x->size - 1);
  for (; x->slot[at]; at = (at + 1) & (x->size - 1))
    if (same(list, x->slot[at] - 1, from, i)) return x->slot[at] - 1;
  if (add) x->slot[at] = i + 1;
  return -1;
}

/* ---- one row's work ---- */
typedef struct work {
  fn_call *call;
  items a, b;
  item_index known, other;
  fn_bytes list;
  uint32_t count; /* of the list being made */
  bool null;      /* the result is null */
  fn_type element;
} work;

static bool list_start(work *w) {
  static const char HEAD[5] = {1};
  w->list.size = 0;
  w->count = 0;
  w->null = false;
  return fn__bytes_append(&w->list, HEAD, sizeof HEAD);
}

static bool list_add(work *w, const items *from, uint32_t i) {
  w->count++;
  return fn__bytes_append(&w->list, from->bytes.data + from->item[i].start, from->item[i].size);
}

enum {
  DISTINCT,
  UNION,
  INTERSECT,
  EXCEPT,
  REMOVE,
  COMPACT,
  APPEND,
  PREPEND,
  REPEAT,
  FLATTEN,
  SLICE,
  REVERSE,
  SORT,
  SORT_LAST,
  MAXIMUM,
  MINIMUM
};

static bool make_set(work *w, int64_t row, int op) {
  const fn_column *columns = w->call->columns;
  bool good = op == UNION ? items_add_list(&w->a, &columns[1], row) : true;
  if (op == INTERSECT || op == EXCEPT) {
    good = items_add_list(&w->b, &columns[1], row) && index_reset(&w->other, w->b.count);
    for (uint32_t i = 0; i < w->b.count && good; i++) index_find(&w->other, &w->b, &w->b, i, true);
  }
  good = good && index_reset(&w->known, w->a.count);
  for (uint32_t i = 0; i < w->a.count && good; i++) {
    if (index_find(&w->known, &w->a, &w->a, i, true) >= 0) continue;
    bool there = op == INTERSECT || op == EXCEPT ? index_find(&w->other, &w->b, &w->a, i, false) >= 0 : false;
    if (op == INTERSECT ? there : !there) good = list_add(w, &w->a, i);
  }
  return good;
}

static bool filter(work *w, int64_t row, bool compact) {
  bool good = compact || items_add(&w->b, &w->call->columns[1], row);
  for (uint32_t i = 0; i < w->a.count && good; i++)
    if (compact ? !w->a.item[i].null : w->a.item[i].null || !same(&w->a, i, &w->b, 0)) good = list_add(w, &w->a, i);
  return good;
}

static bool extend(work *w, int64_t row, bool in_front) {
  bool good = items_add(&w->b, &w->call->columns[1], row);
  if (good && in_front) good = list_add(w, &w->b, 0);
  for (uint32_t i = 0; i < w->a.count && good; i++) good = list_add(w, &w->a, i);
  return good && (in_front || list_add(w, &w->b, 0));
}

static bool flatten(work *w, int64_t row) {
  const fn_column *outer = &w->call->columns[0];
  fn_column inner;
  const int32_t *offsets = outer->offsets + row * outer->step;
  items_reset(&w->a);
  bool good = fn__column_child(outer, 0, &inner) == TRN_OK;
  for (int32_t i = offsets[0]; i < offsets[1] && good && !w->null; i++) {
    w->null = fn__is_null(&inner, i);
    good = w->null || items_add_list(&w->a, &inner, i);
  }
  for (uint32_t i = 0; i < w->a.count && good; i++) good = list_add(w, &w->a, i);
  return good;
}

static trn_status slice(work *w, int64_t row, bool *good) {
  int64_t start = fn__get_i32(&w->call->columns[1], row), length = fn__get_i32(&w->call->columns[2], row);
  if (start == 0)
    return fn__raise(&w->call->report, "INVALID_PARAMETER_VALUE.START", "functionName", "`slice`", "parameter",
                     "`start`", NULL);
  if (length < 0) {
    char text[FN_INT_TEXT_MAX];
    text[fn__int_print(length, text)] = 0;
    return fn__raise(&w->call->report, "INVALID_PARAMETER_VALUE.LENGTH", "functionName", "`slice`", "parameter",
                     "`length`", "length", text, NULL);
  }
  start = start > 0 ? start - 1 : w->a.count + start;
  for (int64_t i = start; i >= 0 && i < w->a.count && i - start < length && *good; i++)
    *good = list_add(w, &w->a, (uint32_t)i);
  return TRN_OK;
}

/* ---- order: merge sort over item numbers, nulls first ---- */
static int order(const work *w, uint32_t i, uint32_t j) {
  const char *x = w->a.bytes.data + w->a.item[i].start, *y = w->a.bytes.data + w->a.item[j].start;
  return fn__encoded_compare(&w->element, &x, &y);
}

static bool sort(work *w, bool descending, bool nulls_last) {
  uint32_t n = w->a.count, *from = malloc(((size_t)n * 2 + 1) * sizeof *from), *all = from;
  if (!from) return false;
  uint32_t *to = from + n;
  for (uint32_t i = 0; i < n; i++) from[i] = i;
  for (uint64_t width = 1; width < n; width *= 2) {
    for (uint64_t low = 0; low < n; low += 2 * width) {
      uint64_t middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
      uint64_t i = low, j = middle;
      for (uint64_t k = low; k < high; k++) {
        int compared = i < middle && j < high ? order(w, from[i], from[j]) : 0;
        bool left = i < middle && (j >= high || (descending ? compared >= 0 : compared <= 0));
        to[k] = left ? from[i++] : from[j++];
      }
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  bool good = true;
  uint32_t nulls = 0; /* they come first when ascending */
  while (nulls_last && nulls < n && w->a.item[from[nulls]].null) nulls++;
  for (uint32_t i = 0; i < n && good; i++) good = list_add(w, &w->a, from[(i + nulls) % n]);
  free(all);
  return good;
}

static int64_t extreme(const work *w, bool greatest) {
  int64_t best = -1;
  for (uint32_t i = 0; i < w->a.count; i++) {
    if (w->a.item[i].null) continue;
    int compared = best < 0 ? 0 : order(w, i, (uint32_t)best);
    if (best < 0 || (greatest ? compared > 0 : compared < 0)) best = i;
  }
  return best;
}

static trn_status make_row(work *w, int64_t row, bool *good) {
  fn_call *call = w->call;
  int op = call->function->op;
  items_reset(&w->a);
  items_reset(&w->b);
  *good = list_start(w);
  if (*good && op != REPEAT && op != FLATTEN) *good = items_add_list(&w->a, &call->columns[0], row);
  if (!*good) return TRN_OK;
  switch (op) {
  case DISTINCT:
  case UNION:
  case INTERSECT:
  case EXCEPT: *good = make_set(w, row, op); break;
  case REMOVE:
  case COMPACT: *good = filter(w, row, op == COMPACT); break;
  case APPEND:
  case PREPEND: *good = extend(w, row, op == PREPEND); break;
  case REPEAT:
    *good = items_add(&w->a, &call->columns[0], row);
    for (int32_t i = 0; i < fn__get_i32(&call->columns[1], row) && *good; i++)
      *good = list_add(w, &w->a, 0) && w->list.size < INT32_MAX;
    break;
  case FLATTEN: *good = flatten(w, row); break;
  case SLICE: return slice(w, row, good);
  case REVERSE:
    for (uint32_t i = w->a.count; i > 0 && *good; i--) *good = list_add(w, &w->a, i - 1);
    break;
  case SORT: *good = sort(w, call->count > 1 && !fn__get_bool(&call->columns[1], row), false); break;
  case SORT_LAST: *good = sort(w, false, true); break;
  default: {
    int64_t best = extreme(w, op == MAXIMUM);
    w->null = best < 0;
    w->list.size = 0;
    if (best >= 0) *good = list_add(w, &w->a, (uint32_t)best);
  }
  }
  return TRN_OK;
}

static bool is_element(int op) {
  return op == MAXIMUM || op == MINIMUM;
}

/* The result's schema: of the element, or of the list. */
static trn_status result_schema(const fn_call *call, struct ArrowSchema *out) {
  const struct ArrowSchema *list = call->columns[0].type.schema;
  int op = call->function->op;
  if (is_element(op) || op == FLATTEN) return fn__schema_copy(out, list->children[0], "", true);
  trn_status status = TRN_OK;
  if (op == REPEAT) {
    struct ArrowSchema child;
    status = fn__schema_copy(&child, list, "element", true);
    return status == TRN_OK ? fn__schema_nest(out, "+l", "", true, &child, 1) : status;
  }
  status = fn__schema_copy(out, list, "", true);
  if (status != TRN_OK) return status;
  if (op == APPEND || op == PREPEND) out->children[0]->flags |= ARROW_FLAG_NULLABLE;
  if (op == COMPACT) out->children[0]->flags &= ~ARROW_FLAG_NULLABLE;
  if (op == UNION) out->children[0]->flags |= call->columns[1].type.schema->children[0]->flags & ARROW_FLAG_NULLABLE;
  return TRN_OK;
}

static trn_status rearrange(fn_call *call) {
  work w = {.call = call};
  fn_sink sink;
  struct ArrowSchema schema;
  if (result_schema(call, &schema) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  bool good = fn__sink_init(&sink, &schema);
  trn_status status = TRN_OK;
  if (call->function->op != REPEAT) fn__type_read(call->columns[0].type.schema->children[0], &w.element);
  for (int64_t row = 0; row < call->rows && good && status == TRN_OK; row++) {
    w.null = fn__row_is_null(&call->out, row);
    if (!w.null) status = make_row(&w, row, &good);
    if (w.null) {
      fn__sink_put_null(&sink);
    } else if (good && status == TRN_OK) {
      if (!is_element(call->function->op)) memcpy(w.list.data + 1, &w.count, sizeof w.count);
      const char *at = w.list.data;
      fn__sink_put(&sink, &at);
    }
  }
  items_clear(&w.a);
  items_clear(&w.b);
  free(w.known.slot);
  free(w.other.slot);
  fn__bytes_clear(&w.list);
  schema.release(&schema);
  if (good && status == TRN_OK)
    good = fn__sink_finish(&sink, &call->given) == TRN_OK;
  else
    fn__sink_clear(&sink);
  return good ? status : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_list(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  static const char *const LETTERS[] = {"L",  "LL", "LL",  "LL", "L*",  "L", "L*", "L*",
                                        "*i", "L",  "Lii", "L",  "L|b", "L",  "L", "L"};
  int op = call->function->op;
  fn_type element, inner;
  bool good = fn__args_are(call, LETTERS[op]);
  if (good && op != REPEAT) {
    good = fn__type_read(call->columns[0].type.schema->children[0], &element);
    if (op == REMOVE || op == APPEND || op == PREPEND) good &= fn__type_same(&element, &call->columns[1].type);
    if (op >= UNION && op <= EXCEPT) good &= fn__type_same(&call->columns[0].type, &call->columns[1].type);
    if (op == FLATTEN) good = good && element.kind == FN_LIST && fn__type_read(element.schema, &inner);
  }
  if (!good) return fn__mismatch(call);
  if (is_element(op))
    *out = element;
  else if (op == FLATTEN)
    *out = inner;
  else if (op == REPEAT)
    *out = fn__type(FN_LIST);
  else
    *out = call->columns[0].type;
  if (op == APPEND || op == PREPEND || op == REPEAT) /* the element may be null, the result is not for that */
    for (size_t i = 0; i < call->count; i++) {
      bool counts = (op == REPEAT) == (i == 1);
      const fn_column *c = &call->columns[i];
      if (counts && (c->type.kind == FN_NULL || !c->type.schema || (c->type.schema->flags & ARROW_FLAG_NULLABLE) ||
                     (c->array && c->array->null_count != 0)))
        call->nullable = 1;
    }
  if (!call->nullable && (op == APPEND || op == PREPEND || op == REPEAT)) call->nullable = -1;
  return schema ? result_schema(call, schema) : TRN_OK;
}

/* append, prepend, repeat: strict in one argument only. */
static trn_status rearrange_partly_strict(fn_call *call) {
  fn__and_validity(&call->out, &call->columns[call->function->op == REPEAT]);
  return rearrange(call);
}

/* ---- reverse: of a list, a text, bytes ---- */
static trn_status reverse(fn_call *call) {
  return call->columns[0].type.kind == FN_LIST ? rearrange(call) : fn__reverse_text(call);
}

static trn_status bind_reverse(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "t")) return bind_list(call, out, schema);
  *out = call->columns[0].type;
  return TRN_OK;
}

/* ---- array_join(texts, delimiter [, for nulls]) ---- */
static trn_status join(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  trn_status status = fn__column_child(list, 0, &child);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    bool any = false;
    const int32_t *offsets = list->offsets + row * list->step;
    for (int32_t i = offsets[0]; i < offsets[1] && !fn__row_is_null(&call->out, row); i++) {
      bool null = fn__is_null(&child, i);
      if (null && call->count < 3) continue;
      fn_text text = null ? fn__get_text(&call->columns[2], row) : fn__get_text(&child, i),
              between = fn__get_text(&call->columns[1], row);
      if (any) fn__append(&call->out, between.data, between.size);
      fn__append(&call->out, text.data, text.size);
      any = true;
    }
    fn__push_end(&call->out, 0);
  }
  return status;
}

static trn_status bind_join(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  fn_type element;
  *out = fn__type(FN_STRING);
  bool good = fn__args_are(call, "Ls|s") && fn__type_read(call->columns[0].type.schema->children[0], &element) &&
              element.kind == FN_STRING;
  return good ? TRN_OK : fn__mismatch(call);
}

/* ---- arrays_overlap: true, or null when a null might be the common element ---- */
static trn_status overlap(fn_call *call) {
  work w = {.call = call};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (fn__row_is_null(&call->out, row)) continue;
    bool common = false, null = false;
    items_reset(&w.a);
    items_reset(&w.b);
    good = items_add_list(&w.a, &call->columns[0], row) && items_add_list(&w.b, &call->columns[1], row) &&
           index_reset(&w.known, w.a.count);
    for (uint32_t i = 0; i < w.a.count && good; i++) {
      null |= w.a.item[i].null;
      if (!w.a.item[i].null) index_find(&w.known, &w.a, &w.a, i, true);
    }
    for (uint32_t i = 0; i < w.b.count && good; i++) {
      null |= w.b.item[i].null;
      common |= !w.b.item[i].null && index_find(&w.known, &w.a, &w.b, i, false) >= 0;
    }
    if (!common && null && w.a.count && w.b.count)
      fn__set_null(&call->out, row);
    else
      fn__set_bool(&call->out, row, common);
  }
  items_clear(&w.a);
  items_clear(&w.b);
  free(w.known.slot);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_overlap(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  *out = fn__type(FN_BOOL);
  return fn__args_are(call, "LL") && fn__type_same(&call->columns[0].type, &call->columns[1].type) ? TRN_OK
                                                                                                   : fn__mismatch(call);
}

#define LIST(name, flags, op)                                                                                          \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | (flags), op, bind_list, rearrange }
#define PARTLY(name, op)                                                                                               \
  { "trn." name, TRN_IMMUTABLE, 0, op, bind_list, rearrange_partly_strict }
const fn_scalar fn__nested_list_table[] = {
    LIST("array_distinct", 0, DISTINCT),
    LIST("array_union", 0, UNION),
    LIST("array_intersect", 0, INTERSECT),
    LIST("array_except", 0, EXCEPT),
    LIST("array_remove", 0, REMOVE),
    LIST("array_compact", 0, COMPACT),
    PARTLY("array_append", APPEND),
    PARTLY("array_prepend", PREPEND),
    PARTLY("array_repeat", REPEAT),
    LIST("flatten", FN_NULLABLE, FLATTEN),
    LIST("slice", FN_POSITION, SLICE),
    LIST("array_reverse", 0, REVERSE),
    LIST("sort_array", 0, SORT),
    LIST("array_sort", 0, SORT_LAST),
    LIST("array_max", FN_NULLABLE, MAXIMUM),
    LIST("array_min", FN_NULLABLE, MINIMUM),
    {"trn.reverse", TRN_IMMUTABLE, FN_STRICT, REVERSE, bind_reverse, reverse},
    {"trn.array_join", TRN_IMMUTABLE, FN_STRICT, 0, bind_join, join},
    {"trn.arrays_overlap", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, 0, bind_overlap, overlap},
    {NULL},
};
