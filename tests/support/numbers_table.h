/* A table of numbers for tests of tables that the program implements. Everything is static: one program includes it. */
#ifndef TRN_TESTS_NUMBERS_TABLE_H
#define TRN_TESTS_NUMBERS_TABLE_H
#include "plan/plan.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/table.h>

/* ---- the table: numbers 0..ROWS-1 in two partitions, columns n (bigint), n (twice n), half (bigint, null when odd) ---- */
enum { ROWS = 1000, BATCH = 64 };

typedef struct numbers {
  atomic_int scans, filters_seen, columns_asked, destroyed, support_asked;
  int64_t last_limit;
  trn_filter_support support;
  bool fails_late;
} numbers;

static const char *const formats[] = {"l", "l", "l"}, *const names[] = {"n", "n2", "half"};

static void schema_release(struct ArrowSchema *s) {
  for (int64_t i = 0; i < s->n_children; i++) free(s->children[i]);
  free(s->children);
  s->release = NULL;
}
static void leaf_release(struct ArrowSchema *s) { s->release = NULL; }

static void schema_of(const uint32_t *columns, size_t count, struct ArrowSchema *out) {
  *out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = (int64_t)count, .release = schema_release};
  out->children = calloc(count + 1, sizeof *out->children);
  for (size_t i = 0; i < count; i++) {
    uint32_t c = columns ? columns[i] : (uint32_t)i;
    out->children[i] = calloc(1, sizeof **out->children);
    *out->children[i] = (struct ArrowSchema){.format = formats[c], .name = names[c], .flags = ARROW_FLAG_NULLABLE, .release = leaf_release};
  }
}

static trn_status numbers_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self, (void)error;
  schema_of(NULL, 3, out);
  return TRN_OK;
}

typedef struct reader {
  numbers *table;
  uint32_t columns[8];
  size_t column_count;
  int64_t at, end, above; /* above: only larger ones */
} reader;

static void array_release(struct ArrowArray *a) {
  for (int64_t i = 0; i < a->n_children; i++) {
    free((void *)a->children[i]->buffers[0]), free((void *)a->children[i]->buffers[1]);
    free(a->children[i]->buffers), free(a->children[i]);
  }
  free(a->children), free(a->buffers);
  a->release = NULL;
}
static void leaf_array_release(struct ArrowArray *a) { a->release = NULL; }

static void fill(reader *r, struct ArrowArray *out) {
  int64_t values[BATCH], count = 0;
  for (; r->at < r->end && count < BATCH; r->at++)
    if (r->at > r->above) values[count++] = r->at;
  *out = (struct ArrowArray){.length = count, .n_buffers = 1, .n_children = (int64_t)r->column_count, .release = array_release};
  out->buffers = calloc(1, sizeof *out->buffers);
  out->children = calloc(r->column_count + 1, sizeof *out->children);
  for (size_t c = 0; c < r->column_count; c++) {
    struct ArrowArray *a = out->children[c] = calloc(1, sizeof *a);
    *a = (struct ArrowArray){.length = count, .n_buffers = 2, .null_count = -1, .release = leaf_array_release};
    uint8_t *bits = calloc(1, BATCH / 8);
    int64_t *data = calloc(BATCH, sizeof *data);
    a->buffers = calloc(2, sizeof *a->buffers);
    for (int64_t i = 0; i < count; i++) {
      bool is_null = r->columns[c] == 2 && values[i] % 2;
      if (!is_null) bits[i / 8] |= (uint8_t)(1 << (i % 8));
      data[i] = r->columns[c] == 0 ? values[i] : r->columns[c] == 1 ? 2 * values[i] : values[i] / 2;
    }
    a->buffers[0] = bits, a->buffers[1] = data;
  }
}

typedef struct answer {
  reader *reader;
  trn_array_done done;
  void *user;
} answer;

static void *give(void *argument) {
  answer a = *(answer *)argument;
  struct ArrowArray batch = {0};
  free(argument);
  if (a.reader->table->fails_late && a.reader->at > 100) {
    trn_error *error = NULL;
    trn_status status = trn_error_set(&error, TRN_DATA_LOSS, "MY_CONDITION", "the disk %s", "melted");
    a.done(a.user, status, error, &batch);
    trn_error_unref(error);
    return NULL;
  }
  if (a.reader->at < a.reader->end) fill(a.reader, &batch);
  a.done(a.user, TRN_OK, NULL, &batch);
  return NULL;
}

static trn_status reader_next(void *self, trn_array_done done, void *user, trn_error **error) {
  (void)error;
  pthread_t thread;
  answer *a = malloc(sizeof *a);
  *a = (answer){self, done, user};
  if (pthread_create(&thread, NULL, give, a)) {
    free(a);
    return TRN_RESOURCE_EXHAUSTED;
  }
  pthread_detach(thread);
  return TRN_OK;
}

static trn_status reader_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)error;
  reader *r = self;
  schema_of(r->columns, r->column_count, out);
  return TRN_OK;
}
static void reader_cancel(void *self) { (void)self; }

static const trn_stream_ops reader_ops = {.struct_size = sizeof reader_ops, .schema = reader_schema,
                                          .next_array = reader_next, .cancel = reader_cancel, .destroy = free};

/* The n of a filter "n > literal", or -1. */
static int64_t bound_of(const trn_expr *filter) {
  if (filter->kind != TRN_EXPR_CALL || strcmp(filter->u.call.name, ">")) return -1;
  const trn_expr *column = filter->args[0], *value = filter->args[1];
  if (column->kind != TRN_EXPR_COLUMN || column->u.column != 0 || value->kind != TRN_EXPR_LITERAL) return -1;
  return value->u.literal.value.integer;
}

static trn_status numbers_scan(void *self, const trn_table_scan *scan, trn_stream **out, trn_error **error) {
  numbers *t = self;
  (void)error;
  reader *r = calloc(1, sizeof *r);
  *r = (reader){.table = t, .column_count = scan->column_count, .above = -1};
  for (size_t i = 0; i < scan->column_count; i++) r->columns[i] = scan->columns[i];
  r->at = scan->partition * (ROWS / 2), r->end = r->at + ROWS / 2;
  for (size_t i = 0; i < scan->filter_count; i++) r->above = bound_of(scan->filters[i]);
  t->scans++;
  t->columns_asked = (int)scan->column_count;
  t->filters_seen = (int)scan->filter_count;
  t->last_limit = scan->limit;
  if (t->support == TRN_FILTER_INEXACT) r->above = -1;
  return trn_stream_create(&reader_ops, r, out);
}

static trn_filter_support numbers_supports(void *self, const trn_expr *filter) {
  numbers *t = self;
  t->support_asked++;
  return bound_of(filter) >= 0 ? t->support : TRN_FILTER_UNSUPPORTED;
}
static uint32_t numbers_partitions(void *self) {
  (void)self;
  return 2;
}
static void numbers_statistics(void *self, trn_table_statistics *out) {
  (void)self;
  out->row_count = ROWS;
  out->is_exact = true;
}
static void numbers_destroy(void *self) { ((numbers *)self)->destroyed++; }

static const trn_table_provider_ops numbers_ops = {.struct_size = sizeof numbers_ops, .schema = numbers_schema,
                                                   .scan = numbers_scan, .supports = numbers_supports,
                                                   .partition_count = numbers_partitions, .statistics = numbers_statistics,
                                                   .destroy = numbers_destroy};

#endif
