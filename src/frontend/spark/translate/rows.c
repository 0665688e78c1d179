/* Queries that run while a plan is made: a pivot's values, a transposed table. Their rows become literals. */
#include "arrow/arrow_util.h"
#include "frontend/spark/translate/scope.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

/* One pull at a time, waited for. */
typedef struct pull {
  pthread_mutex_t mu;
  pthread_cond_t cond;
  bool done;               /* guarded by mu */
  trn_status status;       /* likewise */
  trn_error *error;        /* likewise; owned */
  struct ArrowArray array; /* likewise; owned */
} pull;

/* thread: any */
static void pulled(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  pull *p = user;
  pthread_mutex_lock(&p->mu);
  p->status = status;
  if (status && error) p->error = trn_error_ref((trn_error *)error);
  if (!status && array) p->array = *array;
  p->done = true;
  pthread_cond_signal(&p->cond);
  pthread_mutex_unlock(&p->mu);
}

enum { POLL_NS = 50000000 /* how late a cancellation may be seen */ };

static bool is_cancelled(const spark_translator *t) {
  return t->is_cancelled && t->is_cancelled(t->cancel_user);
}

/* Waits a little; true if nothing came. */
static bool is_late(pthread_cond_t *cond, pthread_mutex_t *mu) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += POLL_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  return pthread_cond_timedwait(cond, mu, &until) == ETIMEDOUT;
}

/* Waits for the completion; a cancellation makes the stream end early, the completion comes all the same. */
static void wait_for(spark_translator *t, pull *p, trn_stream *stream) {
  pthread_mutex_lock(&p->mu);
  while (!p->done) {
    if (!is_late(&p->cond, &p->mu) || !is_cancelled(t)) continue;
    pthread_mutex_unlock(&p->mu);
    trn_stream_cancel(stream);
    pthread_mutex_lock(&p->mu);
  }
  pthread_mutex_unlock(&p->mu);
}

/* ---- cells ---- */
static trn_status cell_of(spark_translator *t, const trn_type *type, const struct ArrowSchema *schema,
                          const struct ArrowArray *array, int64_t row, unsigned depth, const trn_expr **out,
                          trn_error **error);

/* Items [from, to) of `array`, each `step` columns wide, as a nested literal. */
static trn_status nested_of(spark_translator *t, const trn_type *type, const struct ArrowSchema *const *schemas,
                            const struct ArrowArray *const *arrays, size_t width, int64_t from, int64_t to,
                            unsigned depth, trn_expr *out, trn_error **error) {
  size_t count = (size_t)(to - from) * width;
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, count);
  if (!items || count > UINT32_MAX) return trn__no_memory(error);
  for (int64_t i = from; i < to; i++)
    for (size_t w = 0; w < width; w++) {
      size_t at = (size_t)(i - from) * width + w;
      trn_status status = cell_of(t, type->fields[w].type, schemas[w], arrays[w], i, depth + 1, &items[at], error);
      if (status != TRN_OK) return status;
    }
  out->u.literal.value.nested.items = items;
  out->u.literal.value.nested.count = (uint32_t)count;
  return TRN_OK;
}

static trn_status nested_cell(spark_translator *t, const trn_type *type, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, int64_t row, unsigned depth, trn_expr *out,
                              trn_error **error) {
  if (type->id == TRN_TYPE_STRUCT) {
    int64_t at = array->offset + row;
    return nested_of(t, type, (const struct ArrowSchema *const *)schema->children,
                     (const struct ArrowArray *const *)array->children, type->field_count, at, at + 1, depth, out,
                     error);
  }
  const int32_t *offsets = array->buffers[1];
  int64_t from = offsets[array->offset + row], to = offsets[array->offset + row + 1];
  const struct ArrowSchema *item = schema->children[0];
  const struct ArrowArray *items = array->children[0];
  if (type->id == TRN_TYPE_ARRAY)
    return nested_of(t, type, (const struct ArrowSchema *const *)schema->children,
                     (const struct ArrowArray *const *)array->children, 1, from, to, depth, out, error);
  return nested_of(t, type, (const struct ArrowSchema *const *)item->children,
                   (const struct ArrowArray *const *)items->children, 2, from + items->offset, to + items->offset,
                   depth, out, error);
}

static trn_status cell_of(spark_translator *t, const trn_type *type, const struct ArrowSchema *schema,
                          const struct ArrowArray *array, int64_t row, unsigned depth, const trn_expr **out,
                          trn_error **error) {
  if (type->id == TRN_TYPE_NULL || trn__array_is_null(array, row)) {
    *out = trn__expr_null(t->arena, type);
    return *out ? TRN_OK : trn__no_memory(error);
  }
  trn_expr *cell = trn__expr_create(t->arena, TRN_EXPR_LITERAL, type, false, NULL, 0);
  if (!cell || depth > TRN_TYPE_DEPTH_MAX) return trn__no_memory(error);
  *out = cell;
  trn_literal *literal = &cell->u.literal;
  const char *format = schema->format;
  switch ((trn_type_id)type->id) {
  case TRN_TYPE_BOOL: literal->value.boolean = trn__array_bool(array, row); return TRN_OK;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: literal->value.number = trn__array_double(array, format, row); return TRN_OK;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: {
    trn_str bytes = trn__array_bytes(array, format, row);
    literal->value.bytes.data = trn__arena_str(t->arena, bytes.data, bytes.size);
    literal->value.bytes.size = bytes.size;
    return literal->value.bytes.data ? TRN_OK : trn__no_memory(error);
  }
  case TRN_TYPE_DECIMAL: {
    const uint8_t *at = (const uint8_t *)array->buffers[1] + 16 * (size_t)(array->offset + row);
    memcpy(&literal->value.decimal.low, at, 8);
    memcpy(&literal->value.decimal.high, at + 8, 8);
    return TRN_OK;
  }
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: return nested_cell(t, type, schema, array, row, depth, cell, error);
  case TRN_TYPE_INTERVAL_CALENDAR: {
    const uint8_t *at = (const uint8_t *)array->buffers[1] + 16 * (size_t)(array->offset + row);
    memcpy(&literal->value.interval.months, at, 4);
    memcpy(&literal->value.interval.days, at + 4, 4);
    memcpy(&literal->value.interval.nanos, at + 8, 8);
    return TRN_OK;
  }
  default: literal->value.integer = trn__array_int(array, format, row); return TRN_OK;
  }
}

/* ---- rows ---- */
static trn_status add_batch(spark_translator *t, const struct ArrowSchema *schema, const struct ArrowArray *array,
                            const trn_rel *rel, size_t row_max, spark_rows *rows, size_t *capacity, trn_error **error) {
  trn_status status = TRN_OK;
  if (schema->n_children != (int64_t)rel->column_count || array->n_children != schema->n_children)
    return trn_error_set(error, TRN_INTERNAL, NULL, "The result has not the plan's columns");
  for (int64_t i = 0; i < array->length && rows->row_count < row_max && status == TRN_OK; i++) {
    if (rows->row_count == *capacity) {
      size_t grown = *capacity ? 2 * *capacity : 16;
      const trn_expr **cells = TRN_NEW_N(t->arena, const trn_expr *, grown * rows->width);
      if (!cells) return trn__no_memory(error);
      if (rows->row_count) memcpy(cells, rows->cells, rows->row_count * rows->width * sizeof *cells);
      rows->cells = cells;
      *capacity = grown;
    }
    const trn_expr **cells = rows->cells + rows->row_count++ * rows->width;
    for (size_t c = 0; c < rows->width && status == TRN_OK; c++)
      status = cell_of(t, rel->columns[c].type, schema->children[c], array->children[c], array->offset + i, 0,
                       &cells[c], error);
  }
  return status;
}

static trn_status drain(spark_translator *t, trn_stream *stream, const trn_rel *rel, size_t row_max, spark_rows *rows,
                        trn_error **error) {
  struct ArrowSchema schema = {0};
  size_t capacity = 0;
  bool more = true;
  trn_status status = trn_stream_schema(stream, &schema, error);
  while (status == TRN_OK && more && rows->row_count < row_max) {
    pull p = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    status = trn_stream_next_array(stream, pulled, &p, error);
    if (status == TRN_OK) {
      wait_for(t, &p, stream);
      status = p.status;
      if (status && error && p.error) *error = trn_error_ref(p.error);
      more = p.array.release != NULL;
      if (status == TRN_OK && more) status = add_batch(t, &schema, &p.array, rel, row_max, rows, &capacity, error);
      if (more) p.array.release(&p.array);
      trn_error_unref(p.error);
    }
    pthread_mutex_destroy(&p.mu);
    pthread_cond_destroy(&p.cond);
  }
  if (schema.release) schema.release(&schema);
  return status;
}

/* A plan over the translation's own memory: nothing is allocated there while it runs. */
static trn_status plan_of(spark_translator *t, const trn_rel *root, trn_plan **out, trn_error **error) {
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, root->column_count);
  if (!fields) return trn__no_memory(error);
  for (uint32_t i = 0; i < root->column_count; i++)
    fields[i] = (trn_field){.name = trn__arena_printf(t->arena, "c%u", i),
                            .type = root->columns[i].type,
                            .nullable = root->columns[i].nullable};
  for (uint32_t i = 0; i < root->column_count; i++)
    if (!fields[i].name) return trn__no_memory(error);
  trn_status status =
      trn__plan_create(trn__arena_ref(t->arena), root, fields, t->next_column, t->timezone, t->sql, out);
  return status == TRN_OK ? TRN_OK : trn_error_set(error, status, NULL, "The plan could not be made.");
}

trn_status spark__run_now(spark_translator *t, const spark_relation *relation, size_t row_max, spark_rows *out,
                          trn_error **error) {
  const trn_rel *root = NULL;
  trn_plan *plan = NULL;
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  *out = (spark_rows){0};
  if (!t->session) return spark__unimplemented(t, (trn_position){-1, -1}, error, "A query while a plan is made");
  trn_status status = spark__materialize(t, relation, &root, error);
  if (status == TRN_OK) status = plan_of(t, root, &plan, error);
  if (status == TRN_OK) {
    const trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .cancel = t->cancel};
    out->width = root->column_count;
    status = is_cancelled(t) ? trn_error_set(error, TRN_CANCELLED, NULL, "The request was cancelled")
                             : trn_backend_execute(t->session, &request, &operation, error);
  }
  if (status == TRN_OK) status = trn_operation_result_stream(operation, &stream, error);
  if (status == TRN_OK) status = drain(t, stream, root, row_max, out, error);
  if (operation) trn_operation_cancel(operation); /* there may be more rows than were asked for */
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
  return status;
}

/* ---- all rows as an IPC stream ---- */
typedef struct ipc_pull {
  pthread_mutex_t mu;
  pthread_cond_t cond;
  bool done; /* guarded by mu, as the rest */
  trn_status status;
  trn_error *error;    /* owned */
  trn_ipc_piece piece; /* owned */
} ipc_pull;

/* thread: any */
static void ipc_pulled(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  ipc_pull *p = user;
  pthread_mutex_lock(&p->mu);
  p->status = status;
  if (status && error) p->error = trn_error_ref((trn_error *)error);
  if (!status && piece) p->piece = *piece;
  p->done = true;
  pthread_cond_signal(&p->cond);
  pthread_mutex_unlock(&p->mu);
}

static trn_status next_piece(trn_stream *stream, const trn_cancel *cancel, trn_strbuf *out, bool *more, trn_error **error) {
  ipc_pull p = {.mu = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
  trn_status status = trn_stream_next_ipc(stream, 0, ipc_pulled, &p, error);
  *more = false;
  if (status == TRN_OK) {
    pthread_mutex_lock(&p.mu);
    while (!p.done) {
      if (!is_late(&p.cond, &p.mu) || !trn_cancel_is_requested(cancel)) continue;
      pthread_mutex_unlock(&p.mu);
      trn_stream_cancel(stream);
      pthread_mutex_lock(&p.mu);
    }
    pthread_mutex_unlock(&p.mu);
    status = p.status;
    if (status && error && p.error) *error = trn_error_ref(p.error);
    *more = p.piece.release != NULL;
    for (size_t i = 0; *more && i < p.piece.slice_count; i++)
      trn__strbuf_add(out, p.piece.slices[i].data, p.piece.slices[i].size);
    if (*more) p.piece.release(p.piece.owner);
    trn_error_unref(p.error);
  }
  pthread_mutex_destroy(&p.mu);
  pthread_cond_destroy(&p.cond);
  return status;
}

trn_status spark__collect_ipc(trn_session *session, trn_plan *plan, trn_cancel *cancel, size_t bytes_max, trn_strbuf *out,
                              bool *fits, trn_error **error) {
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .cancel = cancel};
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_slice schema = {0};
  bool more = true;
  *fits = true;
  trn_status status = trn_backend_execute(session, &request, &operation, error);
  if (status == TRN_OK) status = trn_operation_result_stream(operation, &stream, error);
  if (status == TRN_OK) status = trn_stream_schema_ipc(stream, &schema, error);
  if (status == TRN_OK) trn__strbuf_add(out, schema.data, schema.size);
  if (schema.release) schema.release(schema.owner);
  while (status == TRN_OK && more && *fits) {
    status = next_piece(stream, cancel, out, &more, error);
    *fits = out->size <= bytes_max;
  }
  trn__ipc_eos(out);
  if (operation) trn_operation_cancel(operation);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  return status == TRN_OK && out->failed ? trn__no_memory(error) : status;
}

trn_status spark__evaluate(spark_translator *t, const spark_value *value, const trn_expr **out, trn_error **error) {
  spark_relation one, shown;
  spark_rows rows = {0};
  spark_value copy = *value;
  copy.is_alias = true;
  trn_status status = spark__one_row(t, &one, error);
  if (status == TRN_OK) status = spark__project(t, &one, &copy, 1, NULL, &shown, error);
  if (status == TRN_OK) shown.scope->below = NULL;
  if (status == TRN_OK) status = spark__run_now(t, &shown, 1, &rows, error);
  if (status == TRN_OK && !rows.row_count) return trn_error_set(error, TRN_INTERNAL, NULL, "A constant has no value");
  if (status == TRN_OK) *out = rows.cells[0];
  return status;
}

trn_status spark__rows_relation(spark_translator *t, const spark_rows *rows, const trn_field *fields,
                                spark_relation *out, trn_error **error) {
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, rows->width);
  if (!columns) return trn__no_memory(error);
  for (size_t c = 0; c < rows->width; c++)
    columns[c] = (trn_column){.id = t->next_column++, .type = fields[c].type, .nullable = fields[c].nullable};
  const trn_expr **cells = rows->cells;
  size_t count = rows->row_count;
  if (!count) { /* VALUES has a row: one that is filtered out */
    count = 1;
    cells = TRN_NEW_N(t->arena, const trn_expr *, rows->width);
    for (size_t c = 0; cells && c < rows->width; c++)
      if (!(cells[c] = trn__expr_null(t->arena, fields[c].type))) return trn__no_memory(error);
  }
  trn_rel *rel =
      cells ? trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, cells, count * rows->width, columns, rows->width)
            : NULL;
  if (!rel) return trn__no_memory(error);
  rel->u.values.row_count = (uint32_t)count;
  if (!rows->row_count) {
    const trn_expr *never = trn__expr_bool(t->arena, false);
    rel = never ? trn__rel_filter(t->arena, rel, never) : NULL;
    if (!rel) return trn__no_memory(error);
  }
  return spark__scope_of(t, rel, fields, NULL, out, error);
}
