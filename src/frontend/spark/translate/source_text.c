/* Text files: a row for each line, or for each file; records of CSV and JSON that the engine's reader of lines cannot cut.
 * They are read here, into memory. */
#include "frontend/spark/translate/source_text.h"
#include "arrow/arrow_util.h"
#include "frontend/spark/translate/infer.h"
#include "frontend/wire/wire.h"

/* A value costs its text, and VALUE_BYTES: where it ends, whether it is null, what the engine adds. */
enum { BATCH_ROWS = 1 << 16, BATCH_BYTES = 32 << 20, VALUE_BYTES = 8 };

typedef struct lines {
  spark_translator *t;
  const spark_text_source *source;
  const spark_partitions *partitions;
  struct ArrowSchema schema;
  trn_array_builder *builder;
  size_t rows, bytes; /* of the batch being built */
  size_t total, levels; /* levels: the bytes of a row that are not of its text */
  trn_strbuf *out;
  trn_error **error;
} lines;

trn_status spark__text_source_options(const Spark__Connect__Read__DataSource *node, spark_text_options *options,
                                      spark_text_source *out, trn_error **error) {
  bool served;
  spark__text_options(node, false, options, &served);
  *out = (spark_text_source){.options = options};
  for (size_t i = 0; node && i < node->n_options; i++)
    if (strcasecmp(node->options[i]->key, "wholetext") == 0) out->whole = strcasecmp(node->options[i]->value, "true") == 0;
  if (options->line_separator && !*options->line_separator)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: 'lineSep' cannot be an empty string.");
  return TRN_OK;
}

/* ---- batches ---- */

static trn_status flush(lines *l) {
  struct ArrowArray array = {0};
  if (!l->rows) return TRN_OK;
  trn_status status = trn__array_builder_finish(l->builder, &array);
  if (!status) status = trn__ipc_write_batch(&l->schema, &array, l->out);
  trn__array_release(&array);
  trn__array_builder_destroy(l->builder);
  l->builder = NULL;
  l->rows = l->bytes = 0;
  if (!status) status = trn__array_builder_create(&l->schema, &l->builder);
  return status || l->out->failed ? trn__no_memory(l->error) : TRN_OK;
}

/* The size of the character at the start, 0 when it is none. */
static size_t character(const char *text, size_t size) {
  for (size_t n = 1; n <= 4 && n <= size; n++)
    if (trn__utf8_is_valid(text, n)) return n;
  return 0;
}

/* Texts are UTF-8 everywhere: a byte that is not becomes U+FFFD. */
static bool put_text(trn_array_builder *builder, const char *text, size_t size) {
  if (trn__utf8_is_valid(text, size)) {
    trn__array_append_bytes(builder, text, size);
    return true;
  }
  trn_strbuf mended = {0};
  for (size_t at = 0; at < size;) {
    size_t n = character(text + at, size - at);
    trn__strbuf_add(&mended, n ? text + at : "\xEF\xBF\xBD", n ? n : 3);
    at += n ? n : 1;
  }
  if (!mended.failed) trn__array_append_bytes(builder, mended.data, mended.size);
  bool ok = !mended.failed;
  trn__strbuf_finish(&mended);
  return ok;
}

static trn_status add_row(lines *l, const char *text, size_t size, const char *const *levels) {
  size_t cost = size + l->levels;
  if (cost > l->source->bytes_max - l->total) {
    return trn_error_set(l->error, TRN_RESOURCE_EXHAUSTED, NULL, "Text files whose rows take more than TRN_TEXT_SOURCE_BYTES_MAX (%u) bytes.",
                         TRN_TEXT_SOURCE_BYTES_MAX);
  }
  if ((l->rows >= BATCH_ROWS || (l->rows && l->bytes + cost > BATCH_BYTES))) {
    trn_status status = flush(l);
    if (status) return status;
  }
  if (!put_text(trn__array_builder_child(l->builder, 0), text, size)) return trn__no_memory(l->error);
  for (uint32_t i = 0; i < l->partitions->count; i++) {
    const char *level = levels[i] ? levels[i] : SPARK_NULL_PARTITION;
    trn__array_append_bytes(trn__array_builder_child(l->builder, 1 + i), level, strlen(level));
  }
  trn__array_append_end(l->builder);
  l->rows++;
  l->bytes += cost;
  l->total += cost;
  return TRN_OK;
}

/* ---- files ---- */

typedef struct taken {
  lines *l;
  const char **levels; /* values of the directories */
} taken;

static trn_status take_record(void *user, const char *text, size_t size) {
  taken *t = user;
  return add_row(t->l, text, size, t->levels);
}

static trn_status add_records(lines *l, const char *path, spark_records *records, const char **levels) {
  const spark_text_source *source = l->source;
  taken takes = {l, levels};
  const char *text;
  size_t size;
  trn_status status = TRN_OK;
  bool csv = source->kind == SPARK_ROWS_CSV, header = csv && source->options->header;
  while (!status && spark__records_next(records, &text, &size)) {
    if (csv && (!size || (source->options->comment && *text == source->options->comment))) continue;
    if (source->kind == SPARK_ROWS_JSON) status = spark__json_records(l->t, source->options, text, size, take_record, &takes, l->error);
    else if (!header) status = add_row(l, text, size, levels);
    header = false;
    if (!status && l->t->is_cancelled && l->t->is_cancelled(l->t->cancel_user))
      status = trn_error_set(l->error, TRN_CANCELLED, NULL, "The query was cancelled");
  }
  return status ? status : spark__records_status(l->t, records, path, l->error);
}

static trn_status add_file(lines *l, const char *path) {
  const char **levels = TRN_NEW_N(l->t->arena, const char *, l->partitions->count);
  const spark_text_source *source = l->source;
  bool csv = source->kind == SPARK_ROWS_CSV;
  spark_cut cut = !source->whole ? SPARK_CUT_LINES : csv ? SPARK_CUT_CSV : SPARK_CUT_FILE;
  spark_records records;
  if (!levels) return trn__no_memory(l->error);
  l->levels = VALUE_BYTES;
  for (uint32_t i = 0; i < l->partitions->count; i++) {
    levels[i] = spark__partition_text(l->t->arena, path, l->partitions->keys[i]);
    l->levels += VALUE_BYTES + strlen(levels[i] ? levels[i] : SPARK_NULL_PARTITION);
  }
  trn_status status = spark__records_open(&records, path, source->options, cut) ? add_records(l, path, &records, levels)
                                                                             : spark__records_status(l->t, &records, path, l->error);
  spark__records_close(&records);
  return status;
}

/* ---- all of them ---- */

/* value, then a text for each level of directories. */
static trn_status schema_of(lines *l, const char *name) {
  trn_field *fields = TRN_NEW_N(l->t->arena, trn_field, l->partitions->count + 1);
  if (!fields) return trn__no_memory(l->error);
  fields[0] = (trn_field){.name = name, .type = trn__type(TRN_TYPE_STRING), .nullable = true};
  for (uint32_t i = 0; i < l->partitions->count; i++)
    fields[i + 1] = (trn_field){.name = l->partitions->names[i], .type = trn__type(TRN_TYPE_STRING), .nullable = true};
  const trn_type *type = trn__type_struct(l->t->arena, fields, l->partitions->count + 1);
  if (!type || trn__type_export(type, "", false, NULL, NULL, &l->schema)) return trn__no_memory(l->error);
  if (trn__ipc_write_schema(&l->schema, l->out)) return trn__no_memory(l->error);
  return trn__array_builder_create(&l->schema, &l->builder) ? trn__no_memory(l->error) : TRN_OK;
}

trn_status spark__text_source_rows(spark_translator *t, const trn_vec *files, const spark_partitions *partitions,
                                   const spark_text_source *source, const char *name, trn_strbuf *out,
                                   trn_error **error) {
  spark_text_source bounded = *source;
  bounded.bytes_max = TRN_TEXT_SOURCE_BYTES_MAX;
  lines l = {.t = t, .source = &bounded, .partitions = partitions, .out = out, .error = error};
  trn_status status = schema_of(&l, name);
  for (size_t i = 0; i < files->count && !status; i++) status = add_file(&l, files->items[i]);
  if (!status) status = flush(&l);
  trn__ipc_eos(out);
  trn__array_builder_destroy(l.builder);
  trn__schema_release(&l.schema);
  return status || !out->failed ? status : trn__no_memory(error);
}
