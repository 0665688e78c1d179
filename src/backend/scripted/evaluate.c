/* Evaluates chains of PROJECT (columns, literals), LIMIT and harmless relations over one leaf. A plan becomes: a leaf,
 * a window of its rows, and per output column a column of the leaf or a literal. */
#include "backend/scripted/scripted.h"

enum { EVALUATION_ROWS = 8192 }; /* of a range, per batch */

typedef struct output {
  const trn_expr *literal; /* or NULL: */
  uint32_t column;         /* the id, then the leaf's index */
} output;

struct trn_evaluation {
  trn_plan *plan; /* a reference; NULL: canned rows */
  bool is_endless;
  size_t output_count;
  output *outputs;
  struct ArrowSchema schema; /* of the output */
  int64_t skip, left;        /* rows; left < 0: all */
  trn_scripted_table rows;   /* leaf: batches */
  size_t batch;
  int64_t batch_offset;
  bool is_range;
  int64_t start, step;
  uint64_t range_count, range_at;
};

/* ---- tables ---- */

trn_status trn__scripted_table_init(trn_scripted_table *table, const struct ArrowSchema *schema,
                                    trn_shared_array *const *batches, size_t batch_count) {
  *table = (trn_scripted_table){0};
  trn_status status = schema ? trn__schema_copy(schema, &table->schema) : TRN_OK;
  if (status) return status;
  table->batches = calloc(batch_count ? batch_count : 1, sizeof *table->batches);
  if (!table->batches) {
    trn__schema_release(&table->schema);
    return TRN_RESOURCE_EXHAUSTED;
  }
  table->batch_count = batch_count;
  for (size_t i = 0; i < batch_count; i++) table->batches[i] = trn__shared_array_ref(batches[i]);
  return TRN_OK;
}

void trn__scripted_table_finish(trn_scripted_table *table) {
  for (size_t i = 0; i < table->batch_count; i++) trn__shared_array_unref(table->batches[i]);
  free(table->batches);
  trn__schema_release(&table->schema);
  *table = (trn_scripted_table){0};
}

/* ---- literals as arrays ---- */

/* The recursion is bounded by the type's depth. */
static void append_literal(trn_array_builder *builder, const trn_expr *expr) {
  const trn_literal *literal = &expr->u.literal;
  if (literal->is_null || expr->type->id == TRN_TYPE_NULL) {
    trn__array_append_null(builder);
    return;
  }
  switch (expr->type->id) {
  case TRN_TYPE_BOOL: trn__array_append_bool(builder, literal->value.boolean); break;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: trn__array_append_double(builder, literal->value.number); break;
  case TRN_TYPE_DECIMAL: trn__array_append_fixed(builder, &literal->value.decimal, 16); break;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: trn__array_append_bytes(builder, literal->value.bytes.data, literal->value.bytes.size); break;
  case TRN_TYPE_INTERVAL_CALENDAR: trn__array_append_fixed(builder, &literal->value.interval, 16); break;
  case TRN_TYPE_ARRAY:
    for (uint32_t i = 0; i < literal->value.nested.count; i++)
      append_literal(trn__array_builder_child(builder, 0), literal->value.nested.items[i]);
    trn__array_append_end(builder);
    break;
  case TRN_TYPE_MAP: {
    trn_array_builder *entries = trn__array_builder_child(builder, 0);
    for (uint32_t i = 0; i < literal->value.nested.count; i++) {
      append_literal(trn__array_builder_child(entries, i % 2), literal->value.nested.items[i]);
      if (i % 2) trn__array_append_end(entries);
    }
    trn__array_append_end(builder);
    break;
  }
  case TRN_TYPE_STRUCT:
    for (uint32_t i = 0; i < literal->value.nested.count; i++)
      append_literal(trn__array_builder_child(builder, i), literal->value.nested.items[i]);
    trn__array_append_end(builder);
    break;
  default: trn__array_append_int(builder, literal->value.integer);
  }
}

/* A column of `count` rows: row r is exprs[r * stride]. */
static trn_status literal_column(const trn_type *type, const trn_expr *const *exprs, size_t stride, size_t count,
                                 struct ArrowArray *out) {
  struct ArrowSchema schema;
  trn_array_builder *builder;
  trn_status status = trn__type_export(type, "", true, NULL, NULL, &schema);
  if (status) return status;
  status = trn__array_builder_create(&schema, &builder);
  trn__schema_release(&schema);
  if (status) return status;
  for (size_t i = 0; i < count; i++) append_literal(builder, exprs[i * stride]);
  status = trn__array_builder_finish(builder, out);
  trn__array_builder_destroy(builder);
  return status;
}

/* Takes the columns, also on failure. */
static trn_status one_batch(trn_evaluation *e, struct ArrowArray *columns, size_t count, int64_t rows) {
  struct ArrowArray batch;
  trn_shared_array *shared = NULL;
  trn_status status = trn__array_struct(columns, count, rows, &batch);
  if (status == TRN_OK) status = trn__shared_array_create(&batch, &shared);
  if (status == TRN_OK) status = trn__scripted_table_init(&e->rows, NULL, &shared, 1);
  trn__shared_array_unref(shared);
  return status;
}

static trn_status leaf_values(trn_evaluation *e, const trn_rel *rel, trn_error **error) {
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (rel->exprs[i]->kind != TRN_EXPR_LITERAL)
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "VALUES of other than literals");
  struct ArrowArray *columns = calloc(rel->column_count ? rel->column_count : 1, sizeof *columns);
  trn_status status = columns ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  size_t done = 0;
  for (; status == TRN_OK && done < rel->column_count; done++)
    status = literal_column(rel->columns[done].type, rel->exprs + done, rel->column_count, rel->u.values.row_count,
                            &columns[done]);
  if (status == TRN_OK)
    status = one_batch(e, columns, rel->column_count, rel->u.values.row_count);
  else
    for (size_t i = 0; columns && i < done; i++) trn__array_release(&columns[i]);
  free(columns);
  return status ? trn_error_set(error, status, NULL, "these VALUES cannot be evaluated") : TRN_OK;
}

static trn_status leaf_range(trn_evaluation *e, const trn_rel *rel, trn_error **error) {
  int64_t start = rel->u.range.start, end = rel->u.range.end, step = rel->u.range.step;
  if (!step) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a range has the step 0");
  uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  bool is_empty = step > 0 ? start >= end : start <= end;
  uint64_t span = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
  e->is_range = true;
  e->start = start;
  e->step = step;
  e->range_count = is_empty ? 0 : (span - 1) / width + 1;
  return TRN_OK;
}

static trn_status leaf_scan(trn_evaluation *e, const trn_rel *rel, trn_error **error) {
  const trn_scripted_table *table = trn__scripted_source_table(rel->u.scan.source);
  trn_status status = trn__scripted_table_init(&e->rows, NULL, table->batches, table->batch_count);
  return status ? trn__no_memory(error) : TRN_OK;
}

/* ---- plans ---- */

/* Replaces ids of a projection's columns by what makes them. */
static trn_status through_project(trn_evaluation *e, const trn_rel *rel, trn_error **error) {
  for (size_t i = 0; i < e->output_count; i++) {
    if (e->outputs[i].literal) continue;
    uint32_t k = 0;
    while (k < rel->column_count && rel->columns[k].id != e->outputs[i].column) k++;
    const trn_expr *expr = k < rel->expr_count ? rel->exprs[k] : NULL;
    if (expr && expr->kind == TRN_EXPR_LITERAL)
      e->outputs[i].literal = expr;
    else if (expr && expr->kind == TRN_EXPR_COLUMN)
      e->outputs[i].column = expr->u.column;
    else
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "a projection of other than columns and literals");
  }
  return TRN_OK;
}

static void through_limit(trn_evaluation *e, const trn_rel *rel) {
  int64_t skip = rel->u.limit.skip > 0 ? rel->u.limit.skip : 0, fetch = rel->u.limit.fetch;
  if (fetch >= 0) {
    int64_t rest = fetch > e->skip ? fetch - e->skip : 0; /* of what the limit lets through */
    if (e->left < 0 || rest < e->left) e->left = rest;
  }
  e->skip = skip > INT64_MAX - e->skip ? INT64_MAX : e->skip + skip;
}

static bool is_harmless(const trn_rel *rel) {
  if (rel->kind == TRN_REL_REPARTITION) return true;
  return rel->kind == TRN_REL_FILTER && rel->exprs[0]->kind == TRN_EXPR_LITERAL && !rel->exprs[0]->u.literal.is_null &&
         rel->exprs[0]->u.literal.value.boolean;
}

/* Ids become indexes in the leaf's batches. */
static trn_status resolve_leaf(trn_evaluation *e, const trn_rel *leaf, trn_error **error) {
  for (size_t i = 0; i < e->output_count; i++) {
    if (e->outputs[i].literal) continue;
    uint32_t k = 0;
    while (k < leaf->column_count && leaf->columns[k].id != e->outputs[i].column) k++;
    if (k == leaf->column_count)
      return trn_error_set(error, TRN_INTERNAL, NULL, "the plan uses a column that nothing makes");
    e->outputs[i].column = leaf->kind == TRN_REL_SCAN ? leaf->u.scan.indexes[k] : k;
  }
  switch (leaf->kind) {
  case TRN_REL_VALUES: return leaf_values(e, leaf, error);
  case TRN_REL_RANGE: return leaf_range(e, leaf, error);
  case TRN_REL_SCAN: return leaf_scan(e, leaf, error);
  default:
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the scripted backend does not evaluate relations of kind %d",
                         leaf->kind);
  }
}

static trn_status compile(trn_evaluation *e, trn_error **error) {
  const trn_rel *rel = e->plan->root;
  trn_status status = TRN_OK;
  e->output_count = rel->column_count;
  e->outputs = calloc(rel->column_count + 1, sizeof *e->outputs);
  if (!e->outputs) return trn__no_memory(error);
  for (uint32_t i = 0; i < rel->column_count; i++) e->outputs[i].column = rel->columns[i].id;
  while (status == TRN_OK && rel->input_count == 1) {
    if (rel->kind == TRN_REL_PROJECT)
      status = through_project(e, rel, error);
    else if (rel->kind == TRN_REL_LIMIT)
      through_limit(e, rel);
    else if (!is_harmless(rel))
      break;
    rel = rel->inputs[0];
  }
  return status ? status : resolve_leaf(e, rel, error);
}

trn_status trn__evaluation_create(trn_plan *plan, const trn_scripted_table *table, bool is_endless,
                                  trn_evaluation **out, trn_error **error) {
  *out = NULL;
  trn_evaluation *e = calloc(1, sizeof *e);
  if (!e) return trn__no_memory(error);
  e->left = -1;
  e->is_endless = is_endless;
  trn_status status;
  if (table) {
    status = trn__scripted_table_init(&e->rows, NULL, table->batches, table->batch_count);
    if (status) trn__no_memory(error);
  } else {
    e->plan = trn_plan_ref(plan);
    status = compile(e, error);
  }
  if (status)
    trn__evaluation_destroy(e);
  else
    *out = e;
  return status;
}

void trn__evaluation_destroy(trn_evaluation *e) {
  if (!e) return;
  trn__scripted_table_finish(&e->rows);
  free(e->outputs);
  trn_plan_unref(e->plan);
  free(e);
}

/* ---- rows ---- */

static trn_status range_batch(trn_evaluation *e, uint64_t rows, trn_shared_array **out) {
  struct ArrowSchema schema;
  struct ArrowArray column, batch;
  trn_array_builder *builder;
  trn_status status = trn__schema_init(&schema, "l", "", 0, NULL, 0, 0);
  if (status) return status;
  status = trn__array_builder_create(&schema, &builder);
  trn__schema_release(&schema);
  if (status) return status;
  for (uint64_t i = 0; i < rows; i++)
    trn__array_append_int(builder, (int64_t)((uint64_t)e->start + (e->range_at + i) * (uint64_t)e->step));
  status = trn__array_builder_finish(builder, &column);
  trn__array_builder_destroy(builder);
  if (status == TRN_OK) status = trn__array_struct(&column, 1, (int64_t)rows, &batch);
  return status ? status : trn__shared_array_create(&batch, out);
}

/* The next rows of the leaf, at most `rows_max`: a batch and a window in it. *rows 0: the end. */
static trn_status leaf_next(trn_evaluation *e, uint64_t rows_max, trn_shared_array **batch, int64_t *offset,
                            int64_t *rows) {
  *batch = NULL;
  *rows = 0;
  *offset = 0;
  if (e->is_range) {
    if (e->range_at >= e->range_count && e->is_endless && e->range_count) e->range_at = 0;
    uint64_t count = e->range_count - e->range_at;
    if (count > EVALUATION_ROWS) count = EVALUATION_ROWS;
    if (count > rows_max) count = rows_max;
    trn_status status = count ? range_batch(e, count, batch) : TRN_OK;
    e->range_at += count;
    *rows = (int64_t)count;
    return status;
  }
  bool is_again = false;
  for (;;) {
    if (e->batch >= e->rows.batch_count) {
      if (!e->is_endless || is_again) return TRN_OK; /* nothing but empty batches: no endless search */
      is_again = true;
      e->batch = 0;
    }
    if (e->batch >= e->rows.batch_count) return TRN_OK;
    trn_shared_array *shared = e->rows.batches[e->batch];
    int64_t left = trn__shared_array_get(shared)->length - e->batch_offset;
    if (left > 0) {
      *rows = (uint64_t)left > rows_max ? (int64_t)rows_max : left;
      *offset = e->batch_offset;
      *batch = trn__shared_array_ref(shared);
      e->batch_offset += *rows;
      return TRN_OK;
    }
    e->batch++;
    e->batch_offset = 0;
  }
}

static trn_status skip_rows(trn_evaluation *e) {
  if (e->is_range && e->skip) {
    uint64_t jump = (uint64_t)e->skip < e->range_count ? (uint64_t)e->skip : e->range_count;
    e->range_at = jump;
    e->skip = 0;
  }
  while (e->skip > 0) {
    trn_shared_array *batch;
    int64_t offset, rows;
    trn_status status = leaf_next(e, (uint64_t)e->skip, &batch, &offset, &rows);
    trn__shared_array_unref(batch);
    if (status || !rows) return status;
    e->skip -= rows;
  }
  return TRN_OK;
}

static trn_status output_column(const trn_evaluation *e, const output *o, trn_shared_array *batch, int64_t offset,
                                int64_t rows, struct ArrowArray *out) {
  (void)e;
  if (o->literal) return literal_column(o->literal->type, &o->literal, 0, (size_t)rows, out);
  return trn__shared_array_column(batch, o->column, offset, rows, out);
}

static trn_status output_batch(trn_evaluation *e, trn_shared_array *batch, int64_t offset, int64_t rows,
                               struct ArrowArray *out) {
  if (!e->plan) return trn__shared_array_slice(batch, offset, rows, out);
  struct ArrowArray *columns = calloc(e->output_count + 1, sizeof *columns);
  if (!columns) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < e->output_count && status == TRN_OK; i++)
    status = output_column(e, &e->outputs[i], batch, offset, rows, &columns[i]);
  if (status == TRN_OK)
    status = trn__array_struct(columns, e->output_count, rows, out);
  else
    for (size_t i = 0; i < e->output_count; i++) trn__array_release(&columns[i]);
  free(columns);
  return status;
}

trn_status trn__evaluation_next(trn_evaluation *e, struct ArrowArray *out, trn_error **error) {
  *out = (struct ArrowArray){0};
  trn_shared_array *batch = NULL;
  int64_t offset = 0, rows = 0;
  trn_status status = skip_rows(e);
  if (status == TRN_OK && e->left)
    status = leaf_next(e, e->left < 0 ? UINT64_MAX : (uint64_t)e->left, &batch, &offset, &rows);
  if (status == TRN_OK && rows) {
    if (e->left > 0) e->left -= rows;
    status = output_batch(e, batch, offset, rows, out);
  }
  trn__shared_array_unref(batch);
  return status ? trn_error_set(error, status, NULL, "a batch cannot be made") : TRN_OK;
}
