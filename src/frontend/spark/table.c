/* Small results made here, as Arrow IPC: catalog answers, show, SET; and batches without rows. */
#include "arrow/arrow_util.h"
#include "frontend/spark/service.h"

/* ---- columns and rows ---- */

trn_status spark__table_init(spark_table *table, trn_arena *arena, const char *spec) {
  *table = (spark_table){.arena = arena};
  size_t most = 1;
  for (const char *at = spec; *at; at++) most += *at == ' ';
  trn_field *fields = TRN_NEW_N(arena, trn_field, most);
  if (!fields) return TRN_RESOURCE_EXHAUSTED;
  while (*spec) {
    size_t name = strcspn(spec, ":");
    trn_field *field = &fields[table->column_count++];
    char type = spec[name + 1];
    field->name = trn__arena_str(arena, spec, name);
    field->nullable = spec[name + 2] != '!';
    field->type = type == 'b'   ? trn__type(TRN_TYPE_BOOL)
                  : type == 'a' ? trn__type_array(arena, trn__type(TRN_TYPE_STRING), true)
                                : trn__type(TRN_TYPE_STRING);
    if (!field->name || !field->type) return TRN_RESOURCE_EXHAUSTED;
    spec += strcspn(spec, " ");
    spec += strspn(spec, " ");
  }
  table->fields = fields;
  return TRN_OK;
}

spark_cell *spark__table_add(spark_table *table) {
  size_t columns = table->column_count;
  if (table->row_count == table->row_capacity) {
    size_t capacity = table->row_capacity ? table->row_capacity * 2 : 8;
    spark_cell *cells = TRN_NEW_N(table->arena, spark_cell, capacity * (columns ? columns : 1));
    if (!cells) return NULL;
    if (table->row_count) memcpy(cells, table->cells, table->row_count * columns * sizeof *cells);
    table->cells = cells;
    table->row_capacity = capacity;
  }
  spark_cell *row = table->cells + table->row_count++ * columns;
  for (size_t i = 0; i < columns; i++) row[i] = (spark_cell){.is_null = true};
  return row;
}

spark_cell spark__cell_text(const char *text) {
  return text ? (spark_cell){.text = text, .text_size = strlen(text)} : (spark_cell){.is_null = true};
}

spark_cell spark__cell_bool(bool value) {
  return (spark_cell){.integer = value};
}

/* ---- as Arrow ---- */

static trn_status table_schema(const spark_table *table, struct ArrowSchema *out) {
  *out = (struct ArrowSchema){0};
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, table->column_count);
  for (size_t i = 0; i < table->column_count && !status; i++) {
    const trn_field *field = &table->fields[i];
    status = trn__type_export(field->type, field->name, field->nullable, NULL, NULL, out->children[i]);
  }
  if (status) trn__schema_release(out);
  return status;
}

static void append_cell(trn_array_builder *column, const trn_type *type, const spark_cell *cell) {
  if (cell->is_null) {
    trn__array_append_null(column);
  } else if (type->id == TRN_TYPE_BOOL) {
    trn__array_append_bool(column, cell->integer != 0);
  } else if (type->id == TRN_TYPE_INT64) {
    trn__array_append_int(column, cell->integer);
  } else if (type->id == TRN_TYPE_ARRAY) {
    for (size_t i = 0; i < cell->item_count; i++)
      trn__array_append_bytes(trn__array_builder_child(column, 0), cell->items[i], strlen(cell->items[i]));
    trn__array_append_end(column);
  } else {
    trn__array_append_bytes(column, cell->text, cell->text_size);
  }
}

/* Gives a buffer with the bytes; NULL: the writing failed. */
static spark_bytes *finish_bytes(trn_status status, trn_strbuf *out) {
  spark_bytes *bytes = status || out->failed ? NULL : spark__bytes_create(out->data, out->size);
  trn__strbuf_finish(out);
  return bytes;
}

spark_bytes *spark__table_schema_ipc(const spark_table *table) {
  struct ArrowSchema schema;
  trn_strbuf out = {0};
  trn_status status = table_schema(table, &schema);
  if (!status) {
    status = trn__ipc_write_schema(&schema, &out);
    trn__schema_release(&schema);
  }
  return finish_bytes(status, &out);
}

/* The batch of what the builder has. */
static spark_bytes *write_batch(const struct ArrowSchema *schema, trn_array_builder *builder) {
  struct ArrowArray array = {0};
  trn_strbuf out = {0};
  trn_status status = trn__array_builder_finish(builder, &array);
  if (!status) status = trn__ipc_write_batch(schema, &array, &out);
  trn__array_release(&array);
  return finish_bytes(status, &out);
}

spark_bytes *spark__table_batch_ipc(const spark_table *table) {
  struct ArrowSchema schema;
  if (table_schema(table, &schema)) return NULL;
  spark_bytes *bytes = NULL;
  trn_array_builder *builder = NULL;
  if (trn__array_builder_create(&schema, &builder) == TRN_OK) {
    const spark_cell *cell = table->cells;
    for (size_t row = 0; row < table->row_count; row++) {
      for (size_t i = 0; i < table->column_count; i++)
        append_cell(trn__array_builder_child(builder, i), table->fields[i].type, cell++);
      trn__array_append_end(builder);
    }
    bytes = write_batch(&schema, builder);
  }
  trn__array_builder_destroy(builder);
  trn__schema_release(&schema);
  return bytes;
}

spark_bytes *spark__empty_batch_ipc(const struct ArrowSchema *schema) {
  trn_array_builder *builder = NULL;
  if (trn__array_builder_create(schema, &builder)) return NULL;
  spark_bytes *bytes = write_batch(schema, builder);
  trn__array_builder_destroy(builder);
  return bytes;
}

trn_status spark__table_stream(const spark_table *table, ProtobufCBinaryData *out) {
  trn_strbuf end = {0};
  spark_bytes *schema = spark__table_schema_ipc(table), *batch = spark__table_batch_ipc(table);
  trn__ipc_eos(&end);
  trn_status status = TRN_RESOURCE_EXHAUSTED;
  if (schema && batch && !end.failed) {
    out->len = schema->size + batch->size + end.size;
    out->data = trn__arena_alloc(table->arena, out->len);
    if (out->data) {
      memcpy(out->data, schema->data, schema->size);
      memcpy(out->data + schema->size, batch->data, batch->size);
      memcpy(out->data + schema->size + batch->size, end.data, end.size);
      status = TRN_OK;
    }
  }
  spark__bytes_unref(schema);
  spark__bytes_unref(batch);
  trn__strbuf_finish(&end);
  return status;
}
