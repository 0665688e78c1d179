/* Tables of the program behind the engine's table functions. */
#include "arrow/arrow_util.h"
#include "backend/embedded.h"
#include "engine/lift.h"

typedef struct table {
  trn_table_provider_ops ops;
  void *self;
  trn_arena *arena; /* of the columns */
  trn_column *columns;
  uint32_t column_count;
} table;

static void release_error(void *self) {
  trn_error_unref(self);
}

/* Ours as the engine's, which releases it. */
static int32_t engine_error(trn_status status, trn_error *error, trn_engine_error *out) {
  *out = (trn_engine_error){.status = (int32_t)status, .position = -1};
  if (!error) return (int32_t)status;
  out->condition = trn_error_condition(error);
  out->message = trn_error_message(error);
  out->param_count = trn_error_params(error, &out->params);
  out->self = error, out->release = release_error;
  return (int32_t)status;
}

static int32_t table_schema(void *self, struct ArrowSchema *out, trn_engine_error *failure) {
  table *t = self;
  trn_error *error = NULL;
  trn_status status = t->ops.schema(t->self, out, &error);
  return status ? engine_error(status, error, failure) : TRN_OK;
}

static void table_supports(void *self, const void *filters, size_t size, size_t count, uint8_t *answers) {
  table *t = self;
  const trn_expr *const *exprs = NULL;
  trn_arena *arena = t->ops.supports ? trn__arena_create(0) : NULL;
  for (size_t i = 0; i < count; i++) answers[i] = TRN_FILTER_UNSUPPORTED;
  if (arena && !trn__lift_exprs(arena, filters, size, t->columns, t->column_count, (uint32_t)count, &exprs, NULL))
    for (size_t i = 0; i < count; i++) answers[i] = (uint8_t)t->ops.supports(t->self, exprs[i]);
  trn__arena_unref(arena);
}

static uint32_t table_partitions(void *self) {
  table *t = self;
  return t->ops.partition_count ? t->ops.partition_count(t->self) : 1;
}

static void table_statistics(void *self, trn_engine_table_statistics *out) {
  table *t = self;
  trn_table_statistics known = {.struct_size = sizeof known, .row_count = -1, .byte_count = -1};
  if (t->ops.statistics) t->ops.statistics(t->self, &known);
  *out = (trn_engine_table_statistics){known.row_count, known.byte_count, known.is_exact};
}

static int32_t table_scan(void *self, const trn_engine_table_scan *wanted, void **stream, trn_engine_error *failure) {
  table *t = self;
  trn_error *error = NULL;
  trn_stream *out = NULL;
  const trn_expr *const *filters = NULL;
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena ? TRN_OK : trn__no_memory(&error);
  if (!status)
    status = trn__lift_exprs(arena, wanted->filters, wanted->filters_size, t->columns, t->column_count,
                             (uint32_t)wanted->filter_count, &filters, &error);
  if (!status) {
    const trn_table_scan scan = {.struct_size = sizeof scan,
                                 .columns = wanted->projection,
                                 .column_count = wanted->projection_count,
                                 .filters = filters,
                                 .filter_count = wanted->filter_count,
                                 .limit = wanted->limit,
                                 .partition = wanted->partition};
    status = t->ops.scan(t->self, &scan, &out, &error);
  }
  if (!status && !out) status = trn_error_set(&error, TRN_INTERNAL, NULL, "a table's scan gave no stream");
  trn__arena_unref(arena);
  *stream = out;
  return status ? engine_error(status, error, failure) : TRN_OK;
}

/* A pull on its way through the program. */
typedef struct pull {
  trn_engine_array_done done;
  void *user;
} pull;

static void pulled(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  pull p = *(pull *)user;
  trn_engine_error failure = {.position = -1};
  free(user);
  if (status) engine_error(status, trn_error_ref((trn_error *)error), &failure);
  p.done(p.user, array, &failure);
}

static int32_t table_next(void *stream, trn_engine_array_done done, void *user, trn_engine_error *failure) {
  trn_error *error = NULL;
  pull *p = malloc(sizeof *p);
  if (!p) return engine_error(trn__no_memory(&error), error, failure);
  *p = (pull){done, user};
  trn_status status = trn_stream_next_array(stream, pulled, p, &error);
  if (!status) return TRN_OK;
  free(p);
  return engine_error(status, error, failure);
}

static void table_close(void *stream) {
  trn_stream_cancel(stream);
  trn_stream_unref(stream);
}

static void table_free(table *t) {
  trn__arena_unref(t->arena);
  free(t);
}

static void table_destroy(void *self) {
  table *t = self;
  if (t->ops.destroy) t->ops.destroy(t->self);
  table_free(t);
}

static const trn_engine_table_ops engine_ops = {.struct_size = sizeof(trn_engine_table_ops),
                                                .schema = table_schema,
                                                .supports = table_supports,
                                                .partitions = table_partitions,
                                                .statistics = table_statistics,
                                                .scan = table_scan,
                                                .next = table_next,
                                                .close = table_close,
                                                .destroy = table_destroy};

trn_status trn__embedded_open_table(trn_embedded *backend, trn_engine_session *session, const trn_table_provider *given,
                                    trn_engine_source **out, struct ArrowSchema *schema, trn_error **error) {
  const trn_engine *engine = backend->engine;
  trn_engine_error failure = {.position = -1};
  table *t = calloc(1, sizeof *t);
  if (!t) return trn__no_memory(error);
  *t = (table){.ops = given->ops, .self = given->self, .arena = trn__arena_create(0)};
  trn_status status = t->arena ? t->ops.schema(t->self, schema, error) : trn__no_memory(error);
  if (!status) status = trn__lift_columns(t->arena, schema, &t->columns, error);
  if (!status) t->column_count = (uint32_t)schema->n_children;
  if (!status && !TRN_ENGINE_HAS(engine, source_table))
    status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this engine reads no tables of the program");
  if (!status && engine->source_table(session, &engine_ops, t, out, &failure))
    status = trn__engine_error(&failure, error);
  if (!status) return TRN_OK;
  if (schema->release) schema->release(schema);
  table_free(t);
  return status;
}
