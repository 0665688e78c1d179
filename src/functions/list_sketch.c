/* Summaries of lists as Spark's sketches give them: approx_percentile by Greenwald and Khanna's quantile summaries,
 * histogram_numeric by Ben-Haim and Tom-Tov's histograms, count_min_sketch, and bitmaps. */
#include "functions/aggregate.h"
#include "functions/digest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- approx_percentile(list of numbers, fractions, accuracy) ---- */
#define HEAD_MAX 50000     /* values that are sorted at once */
#define SAMPLES_MAX 10000  /* from here on samples are merged */

typedef struct sample {
  double value;
  int64_t g, delta;
} sample;

typedef struct summary {
  sample *samples, *spare;
  int64_t count, capacity, seen; /* seen: values */
  double error;
} summary;

static int by_double(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return x < y ? -1 : x > y;
}

/* Merges sorted values into the samples. */
static bool summary_insert(summary *s, const double *sorted, int64_t count) {
  int64_t needed = s->count + count, at = 0, made = 0;
  if (needed > s->capacity) {
    sample *samples = realloc(s->samples, (size_t)needed * sizeof *samples);
    if (samples) s->samples = samples;
    sample *spare = samples ? realloc(s->spare, (size_t)needed * sizeof *spare) : NULL;
    if (!spare) return false;
    s->spare = spare;
    s->capacity = needed;
  }
  for (int64_t i = 0; i < count; i++) {
    while (at < s->count && s->samples[at].value <= sorted[i]) s->spare[made++] = s->samples[at++];
    s->seen++;
    bool edge = made == 0 || (at == s->count && i == count - 1);
    s->spare[made++] = (sample){sorted[i], 1, edge ? 0 : (int64_t)floor(2 * s->error * (double)s->seen)};
  }
  while (at < s->count) s->spare[made++] = s->samples[at++];
  sample *full = s->spare;
  s->spare = s->samples;
  s->samples = full;
  s->count = made;
  return true;
}

static void summary_compress(summary *s) {
  if (s->count == 0) return;
  double most = 2 * s->error * (double)s->seen;
  sample head = s->samples[s->count - 1], first = s->samples[0];
  int64_t to = s->capacity; /* filled from the end */
  for (int64_t i = s->count - 2; i >= 1; i--) {
    sample own = s->samples[i];
    if ((double)(own.g + head.g + head.delta) < most) {
      head.g += own.g;
    } else {
      s->spare[--to] = head;
      head = own;
    }
  }
  s->spare[--to] = head;
  if (first.value <= head.value && s->count > 1) s->spare[--to] = first;
  s->count = s->capacity - to;
  memcpy(s->samples, s->spare + to, (size_t)s->count * sizeof *s->samples);
}

static double summary_query(const summary *s, double fraction) {
  int64_t widest = INT64_MIN, low = s->samples[0].g, at = 0;
  if (fraction <= s->error || s->count == 1) return s->samples[0].value;
  if (fraction >= 1 - s->error) return s->samples[s->count - 1].value;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t width = s->samples[i].delta + s->samples[i].g;
    widest = width > widest ? width : widest;
  }
  double error = (double)(widest / 2);
  int64_t rank = (int64_t)ceil(fraction * (double)s->seen);
  for (; at < s->count - 1; at++) {
    int64_t high = low + s->samples[at].delta;
    if ((double)high - error <= (double)rank && (double)rank <= (double)low + error) return s->samples[at].value;
    low += s->samples[at + 1].g;
  }
  return s->samples[s->count - 1].value;
}

/* The summary of a list's elements first..end. */
static bool summary_of(summary *s, double *head, const fn_column *child, int32_t first, int32_t end) {
  s->count = s->seen = 0;
  for (int64_t at = first; at < end;) {
    int64_t count = end - at < HEAD_MAX ? end - at : HEAD_MAX;
    for (int64_t i = 0; i < count; i++) head[i] = fn__number_at(child, at + i);
    qsort(head, (size_t)count, sizeof *head, by_double);
    if (!summary_insert(s, head, count)) return false;
    if (s->count >= SAMPLES_MAX && count == HEAD_MAX) summary_compress(s);
    at += count;
  }
  summary_compress(s);
  return true;
}

static trn_status approx_percentile(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  fn_fractions fractions;
  if (fn__column_child(list, 0, &child) != TRN_OK || !fn__fractions_open(call, &fractions)) return fn__mismatch(call);
  int64_t accuracy = fn__get_i64(&call->columns[2], 0), made = 0;
  summary s = {.error = 1.0 / (double)(accuracy > 0 ? accuracy : 1)};
  double *values = malloc(((size_t)call->rows * fractions.count + 1) * sizeof *values),
         *head = malloc(HEAD_MAX * sizeof *head);
  bool good = values && head;
  for (int64_t row = 0; row < call->rows && good; row++) {
    int32_t first = list->offsets[row], end = list->offsets[row + 1];
    if (first == end || fractions.count == 0) {
      fn__set_null(&call->out, row);
      continue;
    }
    good = summary_of(&s, head, &child, first, end);
    for (size_t i = 0; i < fractions.count && good; i++)
      values[made++] = summary_query(&s, fractions.many ? fractions.values[i] : fractions.one);
  }
  trn_status status = good ? fn__fractions_give(call, &fractions, values, made, &child.type)
                           : fn__raise_out_of_memory(&call->report);
  free(s.samples);
  free(s.spare);
  free(values);
  free(head);
  return status;
}

static trn_status bind_approx(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  if (call->count != 3 || call->columns[0].type.kind != FN_LIST || call->columns[2].type.kind != FN_INT64)
    return fn__mismatch(call);
  return fn__bind_fractions(call, call->columns[0].type.schema->children[0], out, schema);
}

/* ---- java.util.Random ---- */
typedef struct java_random {
  uint64_t seed;
} java_random;
static java_random java_random_of(int64_t seed) {
  return (java_random){((uint64_t)seed ^ 0x5DEECE66Du) & 0xffffffffffffu};
}
static int32_t java_random_next(java_random *r, int bits) {
  r->seed = (r->seed * 0x5DEECE66Du + 0xB) & 0xffffffffffffu;
  return (int32_t)(uint32_t)(r->seed >> (48 - bits));
}
static double java_random_double(java_random *r) {
  int64_t high = (int64_t)(uint32_t)java_random_next(r, 26) << 27;
  return (double)(high + java_random_next(r, 27)) * 0x1.0p-53;
}
static int32_t java_random_below(java_random *r, int32_t bound) {
  int32_t bits = java_random_next(r, 31), rest = bits;
  if ((bound & (bound - 1)) == 0) return (int32_t)(((int64_t)bound * bits) >> 31);
  for (; (int64_t)bits - (rest = bits % bound) + (bound - 1) > INT32_MAX; bits = java_random_next(r, 31)) continue;
  return rest;
}

/* ---- histogram_numeric(list of numbers, bins) ---- */
typedef struct bin {
  double x, y;
} bin;
typedef struct histogram {
  bin *bins;
  int64_t used;
  java_random random;
} histogram;

/* Merges the two nearest bins; of several pairs one by chance, as Hive does. */
static void histogram_trim(histogram *h) {
  double nearest = h->bins[1].x - h->bins[0].x;
  int64_t at = 0, ties = 1;
  for (int64_t i = 1; i < h->used - 1; i++) {
    double distance = h->bins[i + 1].x - h->bins[i].x;
    if (distance < nearest) {
      nearest = distance;
      at = i;
      ties = 1;
    } else if (distance == nearest && java_random_double(&h->random) <= 1.0 / (double)++ties) {
      at = i;
    }
  }
  bin *left = &h->bins[at], *right = left + 1;
  double height = left->y + right->y;
  left->x *= left->y / height;
  left->x += right->x / height * right->y;
  left->y = height;
  memmove(right, right + 1, (size_t)(h->used - at - 2) * sizeof *right);
  h->used--;
}

static void histogram_add(histogram *h, double value, int64_t most) {
  int64_t at = 0;
  for (int64_t low = 0, high = h->used; low < high;) {
    at = (low + high) / 2;
    if (h->bins[at].x > value) {
      high = at;
    } else if (h->bins[at].x < value) {
      low = ++at;
    } else {
      break;
    }
  }
  if (at < h->used && h->bins[at].x == value) {
    h->bins[at].y++;
    return;
  }
  memmove(h->bins + at + 1, h->bins + at, (size_t)(h->used - at) * sizeof *h->bins);
  h->bins[at] = (bin){value, 1};
  if (++h->used > most) histogram_trim(h);
}

/* The list's child: structs (x, y) of `count` bins. */
static bool give_bins(fn_call *call, const bin *bins, int64_t count, const fn_type *type) {
  fn_builder x, y, row;
  fn_type height = fn__type(FN_FLOAT64), pair = fn__type(FN_STRUCT);
  struct ArrowArray fields[2], child;
  if (!fn__builder_init(&x, type, count)) return false;
  for (int64_t i = 0; i < count; i++) fn__number_put(&x, i, bins[i].x);
  if (fn__builder_finish(&x, &fields[0]) != TRN_OK) return false;
  bool good = fn__builder_init(&y, &height, count);
  for (int64_t i = 0; i < count && good; i++) ((double *)y.data)[i] = bins[i].y;
  good = good && fn__builder_finish(&y, &fields[1]) == TRN_OK;
  if (!good) {
    fields[0].release(&fields[0]);
    return false;
  }
  fn__builder_init(&row, &pair, count);
  fn__add_child(&row, &fields[0]);
  fn__add_child(&row, &fields[1]);
  if (fn__builder_finish(&row, &child) != TRN_OK) return false;
  fn__add_child(&call->out, &child);
  return true;
}

#define BINS_START 1024
static trn_status histogram_numeric(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  int64_t most = fn__get_i32(&call->columns[1], 0), made = 0, all_capacity = 0, capacity = 0;
  histogram h = {0};
  bin *all = NULL;
  bool good = fn__column_child(list, 0, &child) == TRN_OK && most > 1;
  for (int64_t row = 0; row < call->rows && good; row++) {
    int32_t first = list->offsets[row], end = list->offsets[row + 1];
    int64_t room = (most < end - first ? most : end - first) + 2;
    if (room > capacity) {
      free(h.bins);
      capacity = room;
      good = (h.bins = malloc((size_t)room * sizeof *h.bins)) != NULL;
    }
    h.used = 0;
    h.random = java_random_of(31183);
    for (int32_t i = first; i < end && good; i++) histogram_add(&h, fn__number_at(&child, i), most);
    if (good && made + h.used > all_capacity) {
      all_capacity = 2 * (made + h.used) + BINS_START;
      bin *grown = realloc(all, (size_t)all_capacity * sizeof *all);
      if ((good = grown != NULL)) all = grown;
    }
    if (!good) break;
    if (h.used) memcpy(all + made, h.bins, (size_t)h.used * sizeof *all);
    made += h.used;
    if (first == end) fn__set_null(&call->out, row);
    fn__push_list(&call->out, made);
  }
  good = good && give_bins(call, all, made, &child.type);
  free(h.bins);
  free(all);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_histogram(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type value, height = fn__type(FN_FLOAT64);
  struct ArrowSchema fields[2], row;
  if (!fn__args_are(call, "Li")) return fn__mismatch(call);
  const struct ArrowSchema *element = call->columns[0].type.schema->children[0];
  if (!fn__type_read(element, &value) || !fn__has_number(&value)) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_copy(&fields[0], element, "x", true);
  if (status != TRN_OK) return status;
  if ((status = fn__schema_make(&fields[1], &height, "y", true)) != TRN_OK) {
    fields[0].release(&fields[0]);
    return status;
  }
  status = fn__schema_nest(&row, "+s", "element", true, fields, 2);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &row, 1) : status;
}

/* ---- count_min_sketch(list, eps, confidence, seed): version 1 of Spark's own format ---- */
#define SKETCH_CELLS_MAX (1 << 24)
static void put_big(fn_builder *out, uint64_t value, int bytes) {
  char text[8];
  for (int i = 0; i < bytes; i++) text[i] = (char)(value >> (8 * (bytes - 1 - i)));
  fn__append(out, text, (size_t)bytes);
}

typedef struct count_min {
  int32_t depth, width;
  int64_t *cells, *hashes;
} count_min;

static void count_min_add(count_min *s, const fn_column *child, int64_t row) {
  bool text = child->type.kind == FN_STRING || child->type.kind == FN_BINARY;
  uint32_t first = 0, second = 0;
  if (text) {
    fn_text value = fn__get_text(child, row);
    first = fn__murmur3(0, value.data, value.size);
    second = fn__murmur3(first, value.data, value.size);
  }
  for (int32_t i = 0; i < s->depth; i++) {
    int32_t at;
    if (text) {
      at = (int32_t)(first + (uint32_t)i * second) % s->width;
      at = at < 0 ? -at : at;
    } else {
      uint64_t hash = (uint64_t)s->hashes[i] * (uint64_t)fn__get_integer(child, row);
      hash += (uint64_t)((int64_t)hash >> 32);
      at = (int32_t)(hash & 0x7fffffff) % s->width;
    }
    s->cells[(int64_t)i * s->width + at]++;
  }
}

static trn_status count_min_sketch(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  double eps = fn__get_f64(&call->columns[1], 0), confidence = fn__get_f64(&call->columns[2], 0);
  double depth = ceil(-log(1 - confidence) / log(2)), width = ceil(2 / eps);
  java_random random = java_random_of((int32_t)(uint32_t)(uint64_t)fn__get_i64(&call->columns[3], 0));
  if (fn__column_child(list, 0, &child) != TRN_OK) return fn__mismatch(call);
  if (!(depth >= 1 && width >= 1 && depth * width <= SKETCH_CELLS_MAX)) return fn__raise_out_of_memory(&call->report);
  count_min s = {(int32_t)depth, (int32_t)width, NULL, NULL};
  size_t cells = (size_t)s.depth * (size_t)s.width;
  s.cells = malloc(cells * sizeof *s.cells);
  s.hashes = malloc((size_t)s.depth * sizeof *s.hashes);
  bool good = s.cells && s.hashes;
  for (int32_t i = 0; i < s.depth && good; i++) s.hashes[i] = java_random_below(&random, INT32_MAX);
  for (int64_t row = 0; row < call->rows && good; row++) {
    int32_t first = list->offsets[row], end = list->offsets[row + 1];
    memset(s.cells, 0, cells * sizeof *s.cells);
    for (int32_t i = first; i < end; i++) count_min_add(&s, &child, i);
    put_big(&call->out, 1, 4);
    put_big(&call->out, (uint64_t)(end - first), 8);
    put_big(&call->out, (uint64_t)s.depth, 4);
    put_big(&call->out, (uint64_t)s.width, 4);
    for (int32_t i = 0; i < s.depth; i++) put_big(&call->out, (uint64_t)s.hashes[i], 8);
    for (size_t i = 0; i < cells; i++) put_big(&call->out, (uint64_t)s.cells[i], 8);
    fn__push_end(&call->out, 0);
  }
  free(s.cells);
  free(s.hashes);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_count_min(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type element;
  (void)schema;
  if (!fn__args_are(call, "Lggl") || !fn__type_read(call->columns[0].type.schema->children[0], &element) ||
      !(fn__is_integer((fn_kind)element.kind) || element.kind == FN_STRING || element.kind == FN_BINARY))
    return fn__mismatch(call);
  *out = fn__type(FN_BINARY);
  return TRN_OK;
}

/* ---- bitmaps of 32768 bits ---- */
#define BITMAP_BYTES 4096
enum { CONSTRUCT, OR, AND };

static trn_status raise_position(const fn_call *call, int64_t position) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)position);
  return fn__raise(&call->report, "INVALID_BITMAP_POSITION", "bitPosition", text, "bitmapNumBytes", "4096",
                   "bitmapNumBits", "32768", NULL);
}

static void combine(unsigned char *bits, fn_text text, bool both) {
  for (size_t i = 0; i < BITMAP_BYTES; i++) {
    unsigned char own = i < text.size ? (unsigned char)text.data[i] : 0;
    bits[i] = both ? bits[i] & own : bits[i] | own;
  }
}

static trn_status bitmap(fn_call *call) {
  const fn_column *list = &call->columns[0];
  int op = call->function->op;
  fn_column child;
  unsigned char bits[BITMAP_BYTES];
  if (fn__column_child(list, 0, &child) != TRN_OK) return fn__mismatch(call);
  for (int64_t row = 0; row < call->rows; row++) {
    memset(bits, op == AND ? 0xff : 0, sizeof bits);
    for (int32_t i = list->offsets[row]; i < list->offsets[row + 1]; i++) {
      if (op != CONSTRUCT) {
        combine(bits, fn__get_text(&child, i), op == AND);
        continue;
      }
      int64_t position = fn__get_i64(&child, i);
      if (position < 0 || position >= BITMAP_BYTES * 8) return raise_position(call, position);
      bits[position / 8] |= (unsigned char)(1u << (position % 8));
    }
    fn__push(&call->out, bits, sizeof bits);
  }
  return TRN_OK;
}

static trn_status bind_bitmap(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type element;
  (void)schema;
  if (!fn__args_are(call, "L") || !fn__type_read(call->columns[0].type.schema->children[0], &element) ||
      element.kind != (call->function->op == CONSTRUCT ? FN_INT64 : FN_BINARY))
    return fn__mismatch(call);
  *out = fn__type(FN_BINARY);
  return TRN_OK;
}

const fn_scalar fn__list_sketch_table[] = {
    {"trn.approx_percentile", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_approx, approx_percentile},
    {"trn.histogram_numeric", TRN_IMMUTABLE, FN_NULLABLE, 0, bind_histogram, histogram_numeric},
    {"trn.count_min_sketch", TRN_IMMUTABLE, FN_NEVER_NULL, 0, bind_count_min, count_min_sketch},
    {"trn.bitmap_construct_agg", TRN_IMMUTABLE, FN_NEVER_NULL, CONSTRUCT, bind_bitmap, bitmap},
    {"trn.bitmap_or_agg", TRN_IMMUTABLE, FN_NEVER_NULL, OR, bind_bitmap, bitmap},
    {"trn.bitmap_and_agg", TRN_IMMUTABLE, FN_NEVER_NULL, AND, bind_bitmap, bitmap},
    {NULL},
};
