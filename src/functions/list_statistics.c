/* percentile(list of numbers, fractions): between the two nearest values of the sorted list, as Spark's percentile;
 * percentile_disc takes a value that is there; percentile_weighted has a frequency with each value. list_mode(list): the
 * most frequent value. What these have in common with other functions of lists of numbers is here, too. */
#include "functions/aggregate.h"
#include "functions/digest.h"
#include "functions/rowcodec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */
bool fn__has_number(const fn_type *type) {
  return (type->kind >= FN_INT8 && type->kind <= FN_DECIMAL) ||
         (type->kind >= FN_DATE && type->kind <= FN_DAY_TIME);
}

double fn__number_at(const fn_column *column, int64_t row) {
  switch (column->type.kind) {
  case FN_FLOAT32:
  case FN_FLOAT64: return fn__get_number(column, row);
  case FN_DECIMAL: return fn__decimal_to_double(fn__get_decimal(column, row), column->type.scale);
  default: return (double)fn__get_integer(column, row);
  }
}

/* A double as Java casts it to long. */
static int64_t to_long(double value) {
  if (isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return INT64_MAX;
  return value <= -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

void fn__number_put(fn_builder *builder, int64_t row, double value) {
  switch (builder->type.kind) {
  case FN_INT8: ((int8_t *)builder->data)[row] = (int8_t)to_long(value); break;
  case FN_INT16: ((int16_t *)builder->data)[row] = (int16_t)to_long(value); break;
  case FN_INT32:
  case FN_DATE:
  case FN_YEAR_MONTH: ((int32_t *)builder->data)[row] = (int32_t)to_long(value); break;
  case FN_FLOAT32: ((float *)builder->data)[row] = (float)value; break;
  case FN_FLOAT64: ((double *)builder->data)[row] = value; break;
  case FN_DECIMAL: {
    fn_i128 decimal = 0;
    if (fn__decimal_from_double(value, false, builder->type.precision, builder->type.scale, &decimal) != FN_PARSE_OK)
      fn__set_null(builder, row);
    fn__store_decimal(builder->data, row, decimal);
    break;
  }
  default: ((int64_t *)builder->data)[row] = to_long(value);
  }
}

trn_status fn__bind_fractions(fn_call *call, const struct ArrowSchema *element, fn_type *out,
                              struct ArrowSchema *schema) {
  fn_type fraction, value;
  struct ArrowSchema child;
  bool many = call->count > 1 && call->columns[1].type.kind == FN_LIST;
  bool good = call->count > 1 && fn__type_read(element, &value) && fn__has_number(&value) &&
              (many ? fn__type_read(call->columns[1].type.schema->children[0], &fraction) &&
                          fraction.kind == FN_FLOAT64
                    : call->columns[1].type.kind == FN_FLOAT64);
  if (!good) return fn__mismatch(call);
  *out = many ? fn__type(FN_LIST) : value;
  if (!many || !schema) return TRN_OK;
  trn_status status = fn__schema_copy(&child, element, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

bool fn__fractions_open(const fn_call *call, fn_fractions *out) {
  const fn_column *column = &call->columns[1];
  *out = (fn_fractions){.count = 1, .many = column->type.kind == FN_LIST};
  if (!column->array || column->array->length < 1 || fn__is_null(column, 0)) {
    out->count = 0;
    return true;
  }
  if (!out->many) {
    out->one = fn__get_f64(column, 0);
    return true;
  }
  fn_column child;
  if (fn__column_child(column, 0, &child) != TRN_OK) return false;
  out->count = (size_t)(column->offsets[1] - column->offsets[0]);
  out->values = (const double *)child.data + column->offsets[0];
  return true;
}

trn_status fn__fractions_give(fn_call *call, const fn_fractions *fractions, const double *values, int64_t made,
                              const fn_type *element) {
  fn_builder child;
  struct ArrowArray array;
  int64_t at = 0;
  if (!fractions->many) {
    for (int64_t row = 0; row < call->rows; row++)
      fn__number_put(&call->out, row, fn__row_is_null(&call->out, row) ? 0 : values[at++]);
    return TRN_OK;
  }
  for (int64_t row = 0; row < call->rows; row++) {
    if (!fn__row_is_null(&call->out, row)) at += (int64_t)fractions->count;
    fn__push_list(&call->out, at);
  }
  if (!fn__builder_init(&child, element, made)) return fn__raise_out_of_memory(&call->report);
  for (int64_t i = 0; i < made; i++) fn__number_put(&child, i, values[i]);
  if (fn__builder_finish(&child, &array) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &array);
  return TRN_OK;
}

/* ---- percentiles ---- */
enum { CONTINUOUS = 0, DISCRETE = 1, DESCENDING = 2, WEIGHTED = 4 };

typedef struct weighed {
  double value;
  int64_t weight; /* its own; once sorted, with those before it */
} weighed;

static int by_value(const void *a, const void *b) {
  const weighed *x = a, *y = b;
  if (isnan(x->value) || isnan(y->value)) return isnan(x->value) - isnan(y->value);
  return x->value < y->value ? -1 : x->value > y->value;
}

static double value_at(const weighed *sorted, int64_t count, int64_t rank) {
  int64_t low = 0, high = count - 1;
  while (low < high) { /* the first that more than `rank` values reach */
    int64_t middle = low + (high - low) / 2;
    if (sorted[middle].weight > rank)
      high = middle;
    else
      low = middle + 1;
  }
  return sorted[low].value;
}

static double between(const weighed *sorted, int64_t count, double fraction, bool discrete) {
  int64_t total = sorted[count - 1].weight;
  if (discrete) {
    int64_t at = (int64_t)ceil((double)total * fraction) - 1;
    return value_at(sorted, count, at < 0 ? 0 : at >= total ? total - 1 : at);
  }
  double position = (double)(total - 1) * fraction, low = floor(position), high = ceil(position);
  double x = value_at(sorted, count, (int64_t)low), y = value_at(sorted, count, (int64_t)high);
  return low == high || x == y ? x : (high - position) * x + (position - low) * y;
}

/* Sorts, and sums the weights up. */
static void arrange(weighed *items, int64_t count, bool descending) {
  if (count > 1) qsort(items, (size_t)count, sizeof *items, by_value);
  for (int64_t i = 0; descending && i < count / 2; i++) {
    weighed other = items[i];
    items[i] = items[count - 1 - i];
    items[count - 1 - i] = other;
  }
  for (int64_t i = 1; i < count; i++) items[i].weight += items[i - 1].weight;
}

static trn_status raise_negative(const fn_call *call, int64_t weight) {
  char text[32];
  fn_text name = {"", 0};
  int size = snprintf(text, sizeof text, "%lldL", (long long)weight);
  fn__literal_text(call, 2, &name);
  trn_status status = fn__raise(&call->report, "NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION", NULL);
  fn__param(&call->report, "frequencyExpression", name.data, name.size);
  fn__param(&call->report, "negativeValue", text, (size_t)size);
  return status;
}

typedef struct elements {
  fn_column child, value, weight; /* weight: of structs only */
  bool weighted;
} elements;

static bool elements_open(const fn_call *call, elements *out) {
  out->weighted = call->function->op & WEIGHTED;
  if (fn__column_child(&call->columns[0], 0, &out->child) != TRN_OK) return false;
  out->value = out->child;
  return !out->weighted || (fn__column_child(&out->child, 0, &out->value) == TRN_OK &&
                            fn__column_child(&out->child, 1, &out->weight) == TRN_OK);
}

static trn_status load(const fn_call *call, const elements *from, int32_t first, int32_t end, weighed *items,
                       int64_t *count) {
  *count = 0;
  for (int32_t i = first; i < end; i++) {
    int64_t at = from->weighted ? from->child.offset + i : i, weight = 1;
    if (from->weighted) {
      if (fn__is_null(&from->value, at) || fn__is_null(&from->weight, at)) continue;
      weight = fn__get_i64(&from->weight, at);
      if (weight < 0) return raise_negative(call, weight);
      if (weight == 0) continue;
    }
    items[(*count)++] = (weighed){fn__number_at(&from->value, at), weight};
  }
  return TRN_OK;
}

static trn_status percentile(fn_call *call) {
  const fn_column *list = &call->columns[0];
  int op = call->function->op;
  elements from;
  fn_fractions fractions;
  if (!elements_open(call, &from) || !fn__fractions_open(call, &fractions)) return fn__mismatch(call);
  int64_t longest = 0, made = 0;
  for (int64_t row = 0; row < call->rows; row++) {
    int64_t count = list->offsets[row + 1] - list->offsets[row];
    longest = count > longest ? count : longest;
  }
  weighed *items = malloc(((size_t)longest + 1) * sizeof *items);
  double *values = malloc(((size_t)call->rows * fractions.count + 1) * sizeof *values);
  trn_status status = items && values ? TRN_OK : fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    int64_t count = 0;
    status = load(call, &from, list->offsets[row], list->offsets[row + 1], items, &count);
    if (count == 0 || fractions.count == 0) fn__set_null(&call->out, row);
    if (count == 0 || status != TRN_OK) continue;
    arrange(items, count, op & DESCENDING);
    for (size_t i = 0; i < fractions.count; i++)
      values[made++] = between(items, count, fractions.many ? fractions.values[i] : fractions.one, op & DISCRETE);
  }
  if (status == TRN_OK) status = fn__fractions_give(call, &fractions, values, made, &from.value.type);
  free(items);
  free(values);
  return status;
}

static trn_status bind_percentile(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (call->count < 2 || call->columns[0].type.kind != FN_LIST) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  if (call->function->op & WEIGHTED) {
    fn_type row, weight;
    if (!fn__type_read(element, &row) || row.kind != FN_STRUCT || element->n_children != 2 ||
        !fn__type_read(element->children[1], &weight) || weight.kind != FN_INT64)
      return fn__mismatch(call);
    element = element->children[0];
  }
  return fn__bind_fractions(call, element, out, schema);
}

/* ---- list_mode(list): the most frequent element; of several the least, the greatest, or Spark's first ---- */
enum { LEAST, GREATEST, HASHED };

typedef struct tally {
  uint32_t start, size, count; /* the value's bytes; a free slot has no count */
  int32_t index;               /* of its first row */
} tally;

typedef struct tallies {
  tally *item;
  uint32_t count, capacity;
  uint32_t *slot; /* item number plus one */
  uint32_t slots;
  fn_bytes bytes;
} tallies;

static bool tallies_reset(tallies *t, int64_t rows) {
  uint32_t slots = 16;
  while (slots < 2 * (uint64_t)rows && slots < 1u << 31) slots *= 2;
  t->count = 0;
  t->bytes.size = 0;
  if (slots > t->slots) {
    free(t->slot);
    free(t->item);
    t->slot = malloc(slots * sizeof *t->slot);
    t->item = malloc(slots * sizeof *t->item);
    t->slots = t->slot && t->item ? slots : 0;
  }
  if (t->slots) memset(t->slot, 0, t->slots * sizeof *t->slot);
  return t->slots != 0;
}

static bool tallies_add(tallies *t, const fn_column *child, int32_t row) {
  uint32_t start = (uint32_t)t->bytes.size;
  if (!fn__encode(child, row, true, &t->bytes) || t->bytes.size > INT32_MAX) return false;
  uint32_t size = (uint32_t)t->bytes.size - start;
  uint64_t at = fn__bytes_hash(t->bytes.data + start, size) & (t->slots - 1);
  for (; t->slot[at]; at = (at + 1) & (t->slots - 1)) {
    tally *known = &t->item[t->slot[at] - 1];
    if (known->size != size || memcmp(t->bytes.data + known->start, t->bytes.data + start, size) != 0) continue;
    t->bytes.size = start;
    known->count++;
    return true;
  }
  t->item[t->count] = (tally){start, size, 1, row};
  t->slot[at] = ++t->count;
  return true;
}

/* Object.hashCode of the value as Spark boxes it; false: a type whose hash is not known here. */
static bool java_hash(const fn_column *child, int64_t row, uint32_t *out) {
  uint64_t bits = 0;
  fn_text text;
  switch (child->type.kind) {
  case FN_BOOL: *out = fn__get_bool(child, row) ? 1231 : 1237; return true;
  case FN_INT8:
  case FN_INT16:
  case FN_INT32:
  case FN_DATE:
  case FN_YEAR_MONTH: *out = (uint32_t)fn__get_integer(child, row); return true;
  case FN_INT64:
  case FN_TIMESTAMP:
  case FN_TIMESTAMP_NTZ:
  case FN_TIME:
  case FN_DAY_TIME: bits = (uint64_t)fn__get_integer(child, row); break;
  case FN_FLOAT64: {
    double value = fn__get_f64(child, row);
    memcpy(&bits, &value, sizeof bits);
    break;
  }
  case FN_STRING:
    text = fn__get_text(child, row);
    *out = fn__murmur3(42, text.data, text.size);
    return true;
  default: return false;
  }
  *out = (uint32_t)(bits ^ bits >> 32);
  return true;
}

static void place(uint32_t *table, uint32_t size, const uint32_t *hashes, uint32_t number) {
  uint32_t at = fn__murmur3_int(0, hashes[number]) & (size - 1);
  for (uint32_t step = 1; table[at]; step++) at = (at + step) & (size - 1);
  table[at] = number + 1;
}

/* The most frequent item that Spark's hash map (64 slots, doubled at 70 %) comes to first; -1: no memory, -2: unknown. */
static int64_t first_hashed(const tallies *t, const fn_column *child) {
  uint32_t size = 64, best = 0, used = 0;
  int64_t found = -1;
  while ((uint64_t)t->count * 10 > (uint64_t)size * 7 && size < 1u << 30) size *= 2;
  uint32_t *hashes = malloc((t->count + 1) * sizeof *hashes), *table = calloc(size, sizeof *table),
           *other = calloc(size, sizeof *other);
  bool good = hashes && table && other, known = true;
  for (uint32_t i = 0; i < t->count && good && known; i++) known = java_hash(child, t->item[i].index, &hashes[i]);
  size = 64;
  for (uint32_t i = 0; i < t->count && good && known; i++) {
    place(table, size, hashes, i);
    if (++used <= size * 7 / 10) continue;
    memset(other, 0, (size_t)size * 2 * sizeof *other);
    for (uint32_t k = 0; k < size; k++)
      if (table[k]) place(other, size * 2, hashes, table[k] - 1);
    uint32_t *full = table;
    table = other;
    other = full;
    size *= 2;
  }
  for (uint32_t k = 0; k < size && good && known; k++) {
    if (!table[k] || t->item[table[k] - 1].count <= best) continue;
    best = t->item[table[k] - 1].count;
    found = t->item[table[k] - 1].index;
  }
  free(hashes);
  free(table);
  free(other);
  return !good ? -1 : known ? found : -2;
}

static int64_t mode_of(const tallies *t, const fn_type *type, const fn_column *child, int op) {
  int64_t found = op == HASHED && t->count ? first_hashed(t, child) : -2;
  const tally *top = NULL;
  if (found >= -1 && t->count) return found;
  for (uint32_t i = 0; i < t->count; i++) {
    const tally *item = &t->item[i];
    int order = 0;
    if (top && item->count == top->count) {
      const char *x = t->bytes.data + item->start, *y = t->bytes.data + top->start;
      order = fn__encoded_compare(type, &x, &y);
    }
    if (!top || item->count > top->count || (op == GREATEST ? order > 0 : order < 0)) top = item;
  }
  return top ? top->index : -2;
}

static trn_status list_mode(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  fn_type type;
  tallies t = {0};
  const struct ArrowSchema *schema = list->type.schema->children[0];
  int64_t *picks = malloc(((size_t)call->rows + 1) * sizeof *picks);
  bool good = picks && fn__column_child(list, 0, &child) == TRN_OK && fn__type_read(schema, &type);
  for (int64_t row = 0; row < call->rows && good; row++) {
    int32_t first = list->offsets[row], end = list->offsets[row + 1];
    good = tallies_reset(&t, end - first);
    for (int32_t i = first; i < end && good; i++) good = tallies_add(&t, &child, i);
    picks[row] = good ? mode_of(&t, &type, &child, call->function->op) : -1;
    good = good && picks[row] != -1;
    if (picks[row] == -2) picks[row] = -1; /* no values: null */
  }
  good = good && fn__take(schema, list->array->children[0], picks, call->rows, &call->given) == TRN_OK;
  fn__bytes_clear(&t.bytes);
  free(t.item);
  free(t.slot);
  free(picks);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_mode(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (!fn__args_are(call, "L")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  if (!fn__type_read(element, out)) return fn__mismatch(call);
  return schema && out->kind >= FN_LIST ? fn__schema_copy(schema, element, "", true) : TRN_OK;
}

/* ---- product(list of doubles) ---- */
static trn_status product(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  if (fn__column_child(list, 0, &child) != TRN_OK) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    double value = 1;
    if (list->offsets[row] == list->offsets[row + 1]) fn__set_null(&call->out, row);
    for (int32_t i = list->offsets[row]; i < list->offsets[row + 1]; i++) value *= fn__get_f64(&child, i);
    ((double *)call->out.data)[row] = value;
  }
  return TRN_OK;
}

static trn_status bind_product(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (!fn__args_are(call, "L") || !fn__type_read(call->columns[0].type.schema->children[0], out) ||
      out->kind != FN_FLOAT64)
    return fn__mismatch(call);
  return TRN_OK;
}

#define PERCENTILE(name, op)                                                                                           \
  { "trn." name, TRN_IMMUTABLE, FN_NULLABLE, op, bind_percentile, percentile }
const fn_scalar fn__list_statistics_table[] = {
    {"trn.mode", TRN_IMMUTABLE, FN_NULLABLE, HASHED, bind_mode, list_mode},
    {"trn.mode_first", TRN_IMMUTABLE, FN_NULLABLE, LEAST, bind_mode, list_mode},
    {"trn.mode_last", TRN_IMMUTABLE, FN_NULLABLE, GREATEST, bind_mode, list_mode},
    {"trn.product", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_product, product},
    PERCENTILE("percentile", CONTINUOUS),
    PERCENTILE("percentile_desc", DESCENDING),
    PERCENTILE("percentile_disc", DISCRETE),
    PERCENTILE("percentile_disc_desc", DISCRETE | DESCENDING),
    PERCENTILE("percentile_weighted", WEIGHTED),
    {NULL},
};
