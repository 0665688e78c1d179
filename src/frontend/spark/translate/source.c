/* Where rows come from: files, views and tables by name. */
#include "core/query.h"
#include "frontend/spark/translate/infer.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/source_file.h"
#include "frontend/spark/translate/table.h"
#include "frontend/spark/translate/write.h"
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

static const trn_position NOWHERE = {-1, -1};

/* ---- scans ---- */

/* What policies know of a scan. `info`: what the caller knows; columns and views are added. */
static trn_status label_scan(spark_translator *t, const trn_field *fields, const uint32_t *order, uint32_t count,
                             trn_scan_info info, trn_scan_label **out, trn_error **error) {
  const spark_view_frame *innermost = spark__state(t)->view;
  for (const spark_view_frame *frame = innermost; frame; frame = frame->outer) info.view_count++;
  trn_scan_view *views = TRN_NEW_N(t->arena, trn_scan_view, info.view_count);
  trn_scan_column *columns = TRN_NEW_N(t->arena, trn_scan_column, count);
  if (!views || !columns) return trn__no_memory(error);
  size_t place = info.view_count;
  for (const spark_view_frame *frame = innermost; frame; frame = frame->outer)
    views[--place] = (trn_scan_view){frame->catalog, frame->database, frame->name, frame->catalog == NULL};
  for (uint32_t i = 0; i < count; i++)
    columns[order ? order[i] : i] = (trn_scan_column){fields[i].name, fields[i].type, fields[i].nullable};
  info.struct_size = sizeof info;
  info.views = views;
  info.columns = columns;
  info.column_count = count;
  trn_status status = trn_scan_label_create(&info, out);
  if (status == TRN_OK) status = trn__label_hold(t->arena, *out);
  trn_scan_label_unref(*out); /* the arena's stays */
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status spark__scan_source(spark_translator *t, trn_source *source, const trn_field *fields, const uint32_t *order,
                              uint32_t count, const char *label, const trn_scan_info *info,
                              const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  spark__state(t)->reads_files = true;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  uint32_t *indexes = TRN_NEW_N(t->arena, uint32_t, count);
  if (!columns || !indexes) return trn__no_memory(error);
  for (uint32_t i = 0; i < count; i++) {
    columns[i] = (trn_column){.id = t->next_column++, .type = fields[i].type, .nullable = fields[i].nullable};
    indexes[i] = order ? order[i] : i;
  }
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, count);
  if (!rel) return trn__no_memory(error);
  rel->u.scan.source = source;
  rel->u.scan.indexes = indexes;
  rel->u.scan.label = label;
  trn_status status = label_scan(t, fields, order, count, *info, &rel->u.scan.info, error);
  if (status) return status;
  return spark__scope_of(t, rel, fields, qualifier, out, error);
}

trn_status spark__read_opened(spark_translator *t, trn_catalog *catalog, trn_table *table, const trn_field *fields,
                              uint32_t count, const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  const trn_table_info *info = trn_table_get_info(table);
  trn_source *source = NULL;
  struct ArrowSchema schema = {0};
  trn_scan_info label = {.struct_size = sizeof label,
                         .kind = TRN_SCAN_TABLE,
                         .catalog = trn_catalog_name(catalog),
                         .database = info->database,
                         .table = info->name,
                         .format = info->format,
                         .bytes = info->byte_count > 0 ? (uint64_t)info->byte_count : 0};
  const char *text = trn__arena_printf(t->arena, "%s.%s", info->database, info->name);
  if (info->identity) /* nobody but the catalog knows the rows, so that its version says all */
    label.version = trn__arena_printf(t->arena, "%s:%llu", info->identity, (unsigned long long)info->version);
  if (!text || (info->identity && !label.version)) return trn__no_memory(error);
  trn_status status = trn_catalog_open_table(catalog, t->session, table, &source, &schema, error);
  if (status) return status;
  if (schema.n_children != (int64_t)count)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "The catalog opened %s with other columns.", text);
  if (!status) status = spark__hold_source(t, trn_session_backend(t->session), source, NULL, error);
  if (!status) status = spark__scan_source(t, source, fields, NULL, count, text, &label, qualifier, out, error);
  trn_backend_source_unref(trn_session_backend(t->session), source); /* the arena's stays */
  if (schema.release) schema.release(&schema);
  return status;
}

/* A struct type as the Arrow schema of a request. */
static trn_status export_schema(const trn_type *type, struct ArrowSchema *out, trn_error **error) {
  trn_status status = trn__type_export(type, "", false, NULL, NULL, out);
  return status == TRN_OK ? TRN_OK : trn_error_set(error, status, NULL, "The schema has no Arrow form.");
}

/* ---- options ---- */
typedef enum option_kind { OPTION_FLAG, OPTION_BYTE, OPTION_NULL_TEXT } option_kind;

/* Spark's names and the engine's. What is in neither list changes nothing that is read here. */
static const struct {
  const char *spark, *engine;
  option_kind kind;
} csv_options[] = {{"header", "has_header", OPTION_FLAG},
                   {"sep", "delimiter", OPTION_BYTE},
                   {"delimiter", "delimiter", OPTION_BYTE},
                   {"quote", "quote", OPTION_BYTE},
                   {"escape", "escape", OPTION_BYTE},
                   {"comment", "comment", OPTION_BYTE},
                   {"lineSep", "terminator", OPTION_BYTE},
                   {"multiLine", "newlines_in_values", OPTION_FLAG},
                   {"nullValue", "null_regex", OPTION_NULL_TEXT}};
static const char *const refused_options[] = {"dateFormat", "timestampFormat", "timestampNTZFormat", "timeFormat",
                                              "nanValue",   "positiveInf",     "negativeInf"};

/* Bytes go by their numbers: "1" would be taken for byte 1. */
static const char *byte_option(spark_translator *t, const char *value) {
  unsigned char byte = (unsigned char)value[0];
  size_t size = strlen(value);
  if (size == 2 && value[0] == '\\') {
    byte = value[1] == 't' ? '\t' : value[1] == 'n' ? '\n' : (unsigned char)value[1];
    size = 1;
  }
  return size > 1 || byte >= 128 ? "" : trn__arena_printf(t->arena, "%u", byte);
}

static const char *null_regex(spark_translator *t, const char *value) {
  trn_strbuf text = {0};
  trn__strbuf_putc(&text, '^');
  for (; *value; value++) {
    if (strchr("\\^$.|?*+()[]{}#&-~ ", *value)) trn__strbuf_putc(&text, '\\');
    trn__strbuf_putc(&text, *value);
  }
  trn__strbuf_putc(&text, '$');
  return spark__finish_text(t, &text);
}

static void set_option(spark_read_options *options, const char *key, const char *value) {
  for (size_t i = 0; i < options->count; i++)
    if (strcmp(options->items[i].key, key) == 0) {
      options->items[i].value = value;
      return;
    }
  options->items[options->count++] = (trn_kv){key, value};
}

static trn_status csv_option(spark_translator *t, size_t index, const char *value, spark_read_options *out,
                             trn_error **error) {
  const char *made = value;
  if (csv_options[index].kind == OPTION_FLAG) made = strcasecmp(value, "true") == 0 ? "true" : "false";
  if (csv_options[index].kind == OPTION_BYTE) made = byte_option(t, value);
  if (csv_options[index].kind == OPTION_NULL_TEXT) made = null_regex(t, value);
  if (!made) return trn__no_memory(error);
  if (!*made)
    return spark__unimplemented(t, NOWHERE, error, "The value '%s' of the option %s", value, csv_options[index].spark);
  set_option(out, csv_options[index].engine, made);
  return TRN_OK;
}

/* Compression is known by the file's ending. */
static void compression_option(const char *path, spark_read_options *out) {
  static const char *const endings[][2] = {{".gz", "gzip"}, {".bz2", "bzip2"}, {".xz", "xz"}, {".zst", "zstd"}};
  size_t size = path ? strlen(path) : 0;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t ending = strlen(endings[i][0]);
    if (size > ending && strcasecmp(path + size - ending, endings[i][0]) == 0)
      set_option(out, "compression", endings[i][1]);
  }
}

/* One option of text formats. */
static trn_status text_option(spark_translator *t, bool csv, const char *key, const char *value, spark_read_options *out,
                              trn_error **error) {
  if (strcasecmp(key, "inferSchema") == 0) out->infer_schema = strcasecmp(value, "true") == 0;
  if (strcasecmp(key, "header") == 0) out->header = strcasecmp(value, "true") == 0;
  for (size_t k = 0; k < sizeof refused_options / sizeof *refused_options; k++)
    if (strcasecmp(refused_options[k], key) == 0) return spark__unimplemented(t, NOWHERE, error, "The option %s", key);
  bool encoding = strcasecmp(key, "encoding") == 0 || strcasecmp(key, "charset") == 0;
  if (encoding && strcasecmp(value, "utf-8") != 0 && strcasecmp(value, "utf8") != 0)
    return spark__unimplemented(t, NOWHERE, error, "The encoding %s", value);
  if (!csv && strcasecmp(key, "multiLine") == 0)
    set_option(out, "newline_delimited", strcasecmp(value, "true") == 0 ? "false" : "true");
  for (size_t k = 0; csv && k < sizeof csv_options / sizeof *csv_options; k++)
    if (strcasecmp(csv_options[k].spark, key) == 0) return csv_option(t, k, value, out, error);
  return TRN_OK;
}

trn_status spark__read_options_of(spark_translator *t, const Spark__Connect__Read__DataSource *node, const char *format,
                                  const char *path, spark_read_options *out, trn_error **error) {
  bool csv = strcmp(format, "csv") == 0, text = csv || strcmp(format, "json") == 0;
  size_t given = node ? node->n_options : 0;
  trn_status status = TRN_OK;
  out->items = TRN_NEW_N(t->arena, trn_kv, given + 8);
  if (!out->items) return trn__no_memory(error);
  if (!text) return TRN_OK;
  if (csv) { /* Spark's defaults */
    set_option(out, "has_header", "false");
    set_option(out, "delimiter", "44");
    set_option(out, "quote", "34");
    set_option(out, "escape", "92");
  }
  compression_option(path, out);
  for (size_t i = 0; i < given && status == TRN_OK; i++)
    status =
        text_option(t, csv, node->options[i]->key, node->options[i]->value ? node->options[i]->value : "", out, error);
  return status;
}

/* ---- files ---- */
trn_status spark__open_files(spark_translator *t, const spark_file_read *read, const trn_type *schema, const char *schema_key,
                             trn_source **source, const trn_field **fields, uint32_t *count, trn_error **error) {
  struct ArrowSchema arrow = {0};
  trn_source_request request = {.struct_size = sizeof request,
                                .format = read->format,
                                .paths = read->paths,
                                .path_count = read->path_count,
                                .options = read->options.items,
                                .option_count = read->options.count};
  trn_status status = schema ? export_schema(schema, &arrow, error) : TRN_OK;
  trn_scan_label *label = NULL; /* of a table: the right to it is what counts, not that to its paths */
  if (status == TRN_OK && read->table && trn_scan_label_create(&read->table->info, &label)) status = trn__no_memory(error);
  if (status == TRN_OK) {
    request.schema = schema ? &arrow : NULL;
    request.label = label;
    status = spark__open_source(t, &request, schema_key, source, fields, count, error);
  }
  trn_scan_label_unref(label);
  if (arrow.release) arrow.release(&arrow);
  return status;
}

/* Without inferSchema every column of a CSV file is text; without a header they are _c0, _c1, ... */
static trn_status csv_as_text(spark_translator *t, const spark_file_read *read, trn_source **source, const trn_field **fields,
                              uint32_t *count, trn_error **error) {
  uint32_t own = *count - read->partitions.count;
  trn_field *texts = TRN_NEW_N(t->arena, trn_field, own);
  if (!texts) return trn__no_memory(error);
  for (uint32_t i = 0; i < own; i++)
    texts[i] = (trn_field){.name = (*fields)[i].name, .type = trn__type(TRN_TYPE_STRING), .nullable = true};
  const trn_type *type = trn__type_struct(t->arena, texts, own);
  if (!type) return trn__no_memory(error);
  return spark__open_files(t, read, type, "\1all text", source, fields, count, error);
}

static int by_field_name(const void *a, const void *b, void *fields) {
  const trn_field *f = fields;
  return strcmp(f[*(const uint32_t *)a].name, f[*(const uint32_t *)b].name);
}

/* What Spark shows of the files: everything nullable, JSON in the order of names, CSV without header renamed. */
static trn_status shown_fields(spark_translator *t, const spark_file_read *read, const trn_field *fields, uint32_t count,
                               trn_field **out, uint32_t **order, trn_error **error) {
  trn_field *shown = TRN_NEW_N(t->arena, trn_field, count);
  uint32_t *places = TRN_NEW_N(t->arena, uint32_t, count);
  bool csv = strcmp(read->format, "csv") == 0, json = strcmp(read->format, "json") == 0;
  if (!shown || !places) return trn__no_memory(error);
  for (uint32_t i = 0; i < count; i++) places[i] = i;
  uint32_t own = count - read->partitions.count;
  if (json && !read->schema) qsort_r(places, own, sizeof *places, by_field_name, (void *)fields);
  for (uint32_t i = 0; i < count; i++) {
    shown[i] = fields[places[i]];
    shown[i].nullable = true;
    if (read->schema && i < read->schema->field_count) shown[i].metadata = read->schema->fields[i].metadata;
    if (csv && !read->schema && !read->options.header && i < own) {
      shown[i].name = trn__arena_printf(t->arena, "_c%u", i);
      if (!shown[i].name) return trn__no_memory(error);
    }
  }
  *out = shown;
  *order = places;
  return TRN_OK;
}

/* ---- directories name=value ---- */

static uint32_t partition_of(spark_translator *t, const spark_partitions *partitions, const char *name) {
  uint32_t i = 0;
  while (i < partitions->count && !spark__name_equal(t, partitions->names[i], name)) i++;
  return i;
}

/* Looks for them; what a given schema says of their columns goes before what the values look like, and is no column of
 * the files. */
trn_status spark__find_partitions(spark_translator *t, spark_file_read *read, trn_error **error) {
  spark_partitions *found = &read->partitions;
  const char *base = read->filter.base;
  trn_status status = TRN_OK;
  if (!read->filter.recursive)
    status = base ? spark__partitions_of_files(t, base, &read->list.files, found, error)
                  : spark__partitions(t, read->paths, read->path_count, true, found, error);
  if (status == TRN_OK && read->by_file && read->list.files.count)
    read->paths = (const char **)read->list.files.items, read->path_count = read->list.files.count;
  if (status != TRN_OK) return status;
  size_t room = read->options.count + found->count;
  trn_kv *options = TRN_NEW_N(t->arena, trn_kv, room + 1);
  if (!options) return trn__no_memory(error);
  if (read->options.count) memcpy(options, read->options.items, read->options.count * sizeof *options);
  read->options.items = options;
  if (found->first_file && strcmp(read->format, "parquet") != 0) compression_option(found->first_file, &read->options);
  for (uint32_t i = 0; i < found->count; i++)
    options[read->options.count++] = (trn_kv){"partition_column", found->keys[i]};
  if (!found->count || !read->schema) return TRN_OK;
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, read->schema->field_count);
  uint32_t count = 0;
  if (!fields) return trn__no_memory(error);
  for (uint32_t i = 0; i < read->schema->field_count; i++) {
    uint32_t level = partition_of(t, found, read->schema->fields[i].name);
    if (level < found->count)
      found->types[level] = read->schema->fields[i].type;
    else
      fields[count++] = read->schema->fields[i];
  }
  read->schema = trn__type_struct(t->arena, fields, count);
  return read->schema ? TRN_OK : trn__no_memory(error);
}

/* A directory's text as the column's value. */
trn_status spark__partition_value(spark_translator *t, const trn_expr *text, const trn_type *type, const trn_expr **out,
                                  trn_error **error) {
  const trn_expr *value = text;
  trn_expr *none = trn__expr_string(t->arena, SPARK_NULL_PARTITION, strlen(SPARK_NULL_PARTITION));
  trn_expr *null = trn__expr_null(t->arena, trn__type(TRN_TYPE_STRING));
  const trn_expr *sides[] = {text, none};
  trn_expr *is_none =
      none ? trn__expr_call(t->arena, TRN_HOME_NATIVE, "=", trn__type(TRN_TYPE_BOOL), true, sides, 2) : NULL;
  const trn_expr *args[] = {is_none, null, text};
  trn_expr *known = is_none && null
                        ? trn__expr_create(t->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), true, args, 3)
                        : NULL;
  value = known;
  if (!known) return trn__no_memory(error);
  if (type->id == TRN_TYPE_NULL) {
    *out = trn__expr_null(t->arena, type);
    return *out ? TRN_OK : trn__no_memory(error);
  }
  return spark__cast(t, value, type, SPARK_CAST_ANSI, NOWHERE, out, error);
}

trn_status spark__partition_values(spark_translator *t, const spark_file_read *read, spark_relation *out,
                                   trn_error **error) {
  const spark_partitions *found = &read->partitions;
  spark_value *values = NULL;
  size_t count = 0;
  if (!found->count) return TRN_OK;
  trn_status status = spark__scope_values(t, out->scope, &values, &count, error);
  if (status == TRN_OK && count < found->count)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "The files have no partition columns");
  for (uint32_t i = 0; i < found->count && status == TRN_OK; i++) {
    spark_value *value = &values[count - found->count + i];
    status = spark__partition_value(t, value->expr, found->types[i], &value->expr, error);
    value->name = found->names[i];
    value->is_attribute = false;
    value->is_alias = true;
  }
  return status == TRN_OK ? spark__project(t, out, values, count, NULL, out, error) : status;
}

/* What is read, and what it holds now. */
trn_status spark__files_info(spark_translator *t, const spark_file_read *read, trn_scan_info *out, trn_error **error) {
  uint8_t digest[16];
  *out = (trn_scan_info){.struct_size = sizeof *out,
                         .kind = TRN_SCAN_FILES,
                         .format = read->format,
                         .paths = read->paths,
                         .path_count = read->path_count,
                         .options = read->options.items,
                         .option_count = read->options.count};
  if (!trn__paths_version(read->paths, read->path_count, digest, &out->files, &out->bytes)) return TRN_OK;
  char *text = trn__arena_alloc(t->arena, 33);
  if (!text) return trn__no_memory(error);
  for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  out->version = text;
  return TRN_OK;
}

/* A table, with the version of its files where the catalog does not list them. */
trn_scan_info spark__table_info(const spark_file_read *read, const trn_scan_info *files) {
  trn_scan_info info = read->table->info;
  if (read->table->listed) return info;
  info.version = files->version, info.files = files->files, info.bytes = files->bytes;
  info.options = files->options, info.option_count = files->option_count;
  return info;
}

trn_status spark__read_opened_files(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier,
                                    spark_relation *out, trn_error **error) {
  trn_source *source = NULL;
  const trn_field *fields = NULL;
  trn_field *shown = NULL;
  uint32_t count = 0, *order = NULL;
  trn_status status = spark__open_files(t, read, read->schema, read->schema_text, &source, &fields, &count, error);
  bool text = strcmp(read->format, "csv") == 0 && !read->schema && !read->options.infer_schema;
  if (status == TRN_OK && text) status = csv_as_text(t, read, &source, &fields, &count, error);
  if (status == TRN_OK) status = shown_fields(t, read, fields, count, &shown, &order, error);
  if (status != TRN_OK) return status;
  const char *label = trn__arena_printf(t->arena, "%s %s", read->format, read->path_count ? read->paths[0] : "");
  if (!label) return trn__no_memory(error);
  trn_scan_info info;
  status = spark__files_info(t, read, &info, error);
  if (read->table) info = spark__table_info(read, &info);
  if (status == TRN_OK) status = spark__scan_source(t, source, shown, order, count, label, &info, qualifier, out, error);
  return status == TRN_OK ? spark__partition_values(t, read, out, error) : status;
}

static trn_status read_files(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier,
                             spark_relation *out, trn_error **error) {
  trn_status status = read->table && read->table->listed ? TRN_OK : spark__find_partitions(t, read, error);
  if (!status && strcmp(read->format, "parquet") == 0 && !read->table) status = spark__parquet_schema(t, read, error);
  if (status) return status;
  if (read->by_file && (!read->list.files.count || read->partitions.count)) return spark__read_groups(t, read, qualifier, out, error);
  return spark__read_opened_files(t, read, qualifier, out, error);
}

/* The base is only where columns begin: it is no right to look at what is beside the paths. */
static trn_status check_base(spark_translator *t, const spark_file_read *read, trn_error **error) {
  const char *base = read->filter.base;
  if (!base) return TRN_OK;
  if (strstr(base, "://")) return spark__unimplemented(t, NOWHERE, error, "The option basePath of files that are not local");
  for (size_t i = 0; i < read->path_count; i++) {
    const char *path = read->paths[i];
    if (!spark__path_below(base, path))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Wrong basePath %s for the root path: %s%s", base,
                           *path == '/' ? "file:" : "", path);
  }
  return TRN_OK;
}

/* Asked before anything is looked at: policies judge a source without rows that has the label of the paths, or of the table.
 * A backend that knows no such source was reached, so that nobody refuses. */
static trn_status may_read(spark_translator *t, const spark_file_read *read, const char *const *paths, size_t count, trn_error **error) {
  const trn_scan_info files = {
      .struct_size = sizeof files, .kind = TRN_SCAN_FILES, .format = read->format, .paths = paths, .path_count = count};
  const spark_partitions levels = {0};
  const spark_text_source nothing = {0};
  trn_scan_label *label = NULL;
  trn_strbuf rows = {0};
  trn_source *source = NULL;
  struct ArrowSchema schema = {0};
  trn_error *failure = NULL;
  trn_status status = trn_scan_label_create(read->table ? &read->table->info : &files, &label) ? trn__no_memory(error) : TRN_OK;
  if (!status) status = spark__text_source_rows(t, &(trn_vec){0}, &levels, &nothing, "value", &rows, error);
  if (!status) {
    const trn_source_request request = {
        .struct_size = sizeof request, .format = "ipc", .data = rows.data, .data_size = rows.size, .label = label};
    status = trn_backend_open_source(t->session, &request, &source, &schema, &failure);
  }
  if (status == TRN_UNIMPLEMENTED) status = TRN_OK;
  if (status && failure && error) *error = failure;
  else trn_error_unref(failure);
  trn_backend_source_unref(trn_session_backend(t->session), source);
  if (schema.release) schema.release(&schema);
  trn__strbuf_finish(&rows);
  trn_scan_label_unref(label);
  return status;
}

/* Patterns become what they match. Who may read neither that nor what the pattern says is told of the pattern only: not what
 * it matches, or whether. */
static trn_status find_paths(spark_translator *t, spark_file_read *read, trn_error **error) {
  const char **given = read->paths;
  size_t count = read->path_count;
  trn_error *failure = NULL, *first = NULL;
  trn_status status = read->table ? TRN_OK : spark__expand_patterns(t, &read->paths, &read->path_count, &failure);
  bool stays = !status && read->paths == given;
  if (!status) status = may_read(t, read, read->paths, read->path_count, &failure);
  if (!status) return TRN_OK;
  trn_status refused = stays ? TRN_OK : may_read(t, read, given, count, &first);
  if (refused) status = refused;
  if (error) *error = trn_error_ref(refused ? first : failure);
  trn_error_unref(first);
  trn_error_unref(failure);
  return status;
}

static bool names_files(const spark_file_read *read) {
  if (!read->list.local || read->table) return false;
  return read->filter.any || (read->list.leaves_out && read->list.files.count);
}

/* Which files they are, and who reads them. */
static trn_status prepare(spark_translator *t, spark_file_read *read, trn_error **error) {
  spark_file_filter *filter = &read->filter;
  trn_status status = spark__file_filter(t, read->node, filter, error);
  if (!status && filter->base && read->path_count == 1 && strcmp(filter->base, read->paths[0]) == 0) filter->base = NULL;
  if (read->table) filter->base = NULL; /* its catalog knows its columns */
  if (!status) status = check_base(t, read, error);
  if (!status) status = spark__select_files(t, read->paths, read->path_count, filter, &read->list, error);
  if (!status && filter->any && !read->list.local && (filter->pattern || filter->base || filter->recursive || filter->after != INT64_MIN ||
                                                    filter->before != INT64_MAX))
    status = spark__unimplemented(t, NOWHERE, error, "Choosing among files that are not local, or are many,");
  read->by_file = names_files(read);
  if (!status && read->by_file && read->list.files.count) /* a right to each of them */
    status = may_read(t, read, (const char *const *)read->list.files.items, read->list.files.count, error);
  if (!status && filter->ignores_corrupt && strcmp(read->format, "parquet") == 0) status = spark__without_corrupt(t, read, error);
  read->by_file = names_files(read);
  return status ? status : spark__choose_reader(t, read, read->path_count ? read->paths[0] : NULL, error);
}

static trn_status read_either(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                              trn_error **error) {
  trn_status status = find_paths(t, read, error);
  if (!status) status = prepare(t, read, error);
  bool inferred = !read->as_lines && read->list.files.count && strcmp(read->format, "csv") == 0 && read->text.multi_line &&
                  read->text.infer && !read->schema;
  if (inferred && !status) { /* with options that are the engine's: read by it as what Spark finds in them */
    status = spark__infer_lines(t, read, &read->schema, error);
    read->schema_text = "\1inferred";
  }
  if (!status && read->is_text) status = spark__read_text(t, read, qualifier, out, error);
  else if (!status) status = read->as_lines ? spark__read_lines(t, read, qualifier, out, error) : read_files(t, read, qualifier, out, error);
  trn__vec_finish(&read->list.files);
  return status;
}

static trn_status file_format(spark_translator *t, const char *given, const char **out, trn_error **error) {
  static const char *const formats[] = {"parquet", "csv", "json", "arrow", "text"};
  static const char *const known[] = {"orc", "jdbc", "xml", "binaryfile", "rate", "socket"};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (strcasecmp(formats[i], given) != 0) continue;
    *out = formats[i];
    return TRN_OK;
  }
  const char *title = strcasecmp(given, "avro") == 0 ? "avro" : strcasecmp(given, "kafka") == 0 ? "kafka" : NULL;
  if (title && *title == 'a')
    return trn_error_set(error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_1139",
                         "Failed to find data source: %s. Avro is built-in but external data source module since Spark 2.4. Please deploy "
                         "the application as per the deployment section of Apache Avro Data Source Guide.",
                         title);
  if (title)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_1140",
                         "Failed to find data source: %s. Please deploy the application as per the deployment section of Structured "
                         "Streaming + Kafka Integration Guide.",
                         title);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcasecmp(known[i], given) == 0)
      return spark__unimplemented(t, NOWHERE, error, "Reading the format %s", known[i]);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATA_SOURCE_NOT_FOUND", NOWHERE, "provider", given, NULL);
}

static trn_status data_source(spark_translator *t, const Spark__Connect__Read__DataSource *node, spark_relation *out,
                              trn_error **error) {
  spark_file_read read = {0};
  const char *format = node->_format_case && node->format && *node->format ? node->format : "parquet";
  trn_status status = file_format(t, format, &read.format, error);
  if (status != TRN_OK) return status;
  read.paths = TRN_NEW_N(t->arena, const char *, node->n_paths + 1);
  if (!read.paths) return trn__no_memory(error);
  for (size_t i = 0; i < node->n_paths; i++) read.paths[read.path_count++] = node->paths[i];
  for (size_t i = 0; i < node->n_options && read.path_count == 0; i++)
    if (strcasecmp(node->options[i]->key, "path") == 0) read.paths[read.path_count++] = node->options[i]->value;
  read.node = node;
  if (read.path_count == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNABLE_TO_INFER_SCHEMA", NOWHERE, "format", read.format, NULL);
  if (node->n_predicates)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.PREDICATES_NOT_SUPPORTED_FOR_DATA_SOURCE",
                        NOWHERE, "format", read.format, NULL);
  if (node->_schema_case && node->schema && *node->schema) {
    read.schema_text = node->schema;
    status = spark__schema_from_text(t->arena, node->schema, strlen(node->schema), &read.schema, error);
    if (status == TRN_OK && read.schema->id != TRN_TYPE_STRUCT)
      status = spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_SCHEMA_NON_STRUCT_TYPE",
                            NOWHERE, "inputSchema", node->schema, "dataType", "", NULL);
  }
  return status == TRN_OK ? read_either(t, &read, NULL, out, error) : status;
}

/* ---- names ---- */
trn_status spark__read_source(spark_translator *t, const Spark__Connect__Read__DataSource *options,
                              const spark_source_spec *spec, spark_relation *out, trn_error **error) {
  spark_file_read read = {.paths = spec->paths, .path_count = spec->path_count, .schema = spec->schema, .table = spec};
  trn_strbuf key = {0}; /* of the source, in the session's cache: by its types */
  trn_status status = file_format(t, spec->format, &read.format, error);
  read.node = options;
  spark__type_sql(&key, spec->schema);
  read.schema_text = spark__finish_text(t, &key);
  if (!status && !read.schema_text) status = trn__no_memory(error);
  return status ? status : read_either(t, &read, spec->qualifier, out, error);
}

static trn_status not_found(spark_translator *t, char *const *parts, size_t count, trn_position position,
                            trn_error **error) {
  const char *name = spark__quote_parts(t, parts, count);
  if (!name) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "TABLE_OR_VIEW_NOT_FOUND", position, "relationName", name,
                      "searchPath", "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]", NULL);
}

trn_status spark__translate_view(spark_translator *t, spark_view_frame frame, const Spark__Connect__Relation *relation,
                                 spark_relation *out, trn_error **error) {
  spark_state *state = spark__state(t), before = *state;
  frame.outer = before.view;
  if (state->view_depth + t->outer_views >= TRN_VIEW_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Views are nested deeper than TRN_VIEW_DEPTH_MAX (%u).",
                         TRN_VIEW_DEPTH_MAX);
  state->view_depth++;
  state->view = &frame;
  state->ctes = NULL;
  state->references = NULL;
  state->context = NULL;
  state->lambda = NULL;
  state->parameters = NULL;
  state->foreign_positions = true;
  trn_status status = spark__relation(t, relation, out, error);
  state->view_depth = before.view_depth;
  state->view = before.view;
  state->ctes = before.ctes;
  state->references = before.references;
  state->context = before.context;
  state->lambda = before.lambda;
  state->parameters = before.parameters;
  state->foreign_positions = before.foreign_positions;
  return status;
}

/* `name`: as the catalog has it; those of all sessions begin with "global_temp.". */
static trn_status view_by_name(spark_translator *t, const char *name, spark_relation *out, bool *found,
                               trn_error **error) {
  spark_state *state = spark__state(t);
  Spark__Connect__Relation *relation = NULL;
  for (spark_shared *shared = state->views; shared; shared = shared->next)
    if (spark__name_equal(t, shared->name, name)) {
      *found = true;
      return spark__use_shared(t, shared, out, error);
    }
  if (!t->catalog) return TRN_OK;
  trn_status status = spark__catalog_view(t->catalog, t->arena, name, t->case_sensitive, &relation, error);
  if (status != TRN_OK || !relation) return status;
  status = spark__routine_refuse_temporary(t, "VIEW", name, error);
  if (status != TRN_OK) return status;
  *found = true;
  spark_shared *shared = TRN_NEW(t->arena, spark_shared);
  if (!shared) return trn__no_memory(error);
  *shared = (spark_shared){.name = trn__arena_strdup(t->arena, name)};
  if (!shared->name) return trn__no_memory(error);
  const spark_plan_id *mark = state->last_plan;
  status = spark__translate_view(t, (spark_view_frame){.name = shared->name}, relation, &shared->relation, error);
  spark__plan_id_forget(t, mark);
  if (status != TRN_OK) return status;
  shared->next = state->views;
  state->views = shared;
  return spark__use_shared(t, shared, out, error);
}

static trn_status reference_by_name(spark_translator *t, const char *name, spark_relation *out, bool *found,
                                    trn_error **error) {
  spark_state *state = spark__state(t);
  for (spark_references *r = state->references; r; r = r->outer)
    for (size_t i = 0; i < r->message->n_references; i++) {
      const Spark__Connect__Relation *relation = r->message->references[i];
      if (relation->rel_type_case != SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS) continue;
      if (!relation->subquery_alias->alias || !spark__name_equal(t, relation->subquery_alias->alias, name)) continue;
      *found = true;
      spark_references *inside = state->references;
      state->references = r->outer; /* a reference does not see itself */
      trn_status status = spark__relation(t, relation, out, error);
      state->references = inside;
      return status;
    }
  return TRN_OK;
}

static trn_status named_table(spark_translator *t, const Spark__Connect__Read__NamedTable *node, trn_position position,
                              spark_relation *out, trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  const char *text = node->unparsed_identifier ? node->unparsed_identifier : "";
  trn_status status = spark__sql_parse_multipart_identifier(t->arena, text, strlen(text), NULL, &parts, &count, error);
  bool found = false;
  if (status != TRN_OK) return status;
  if (count == 1) {
    for (spark_shared *cte = spark__state(t)->ctes; cte; cte = cte->next)
      if (spark__name_equal(t, cte->name, parts[0])) return spark__use_shared(t, cte, out, error);
    status = reference_by_name(t, parts[0], out, &found, error);
    if (status != TRN_OK || found) return status;
  }
  bool in_catalog = spark__state(t)->view_database != NULL; /* a view of a catalog sees no temporary ones */
  if ((count == 1 && !in_catalog) || (count == 2 && strcasecmp(parts[0], "global_temp") == 0)) {
    const char *key = count == 1 ? parts[0] : trn__arena_printf(t->arena, "global_temp.%s", parts[1]);
    if (!key) return trn__no_memory(error);
    status = view_by_name(t, key, out, &found, error);
    if (status == TRN_OK && found && count == 2)
      status = spark__alias_relation(t, out, (const char *const *)parts, 2, error);
    if (status != TRN_OK || found) return status;
  }
  status = spark__relation_table(t, parts, count, out, &found, error);
  if (status != TRN_OK || found) return status;
  spark_file_read read = {.paths = TRN_NEW_N(t->arena, const char *, 1), .path_count = 1};
  if (!read.paths) return trn__no_memory(error);
  if (count != 2 || file_format(t, parts[0], &read.format, NULL) != TRN_OK)
    return not_found(t, parts, count, position, error);
  read.paths[0] = parts[1];
  return read_either(t, &read, NULL, out, error);
}

trn_status spark__relation_created(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                   trn_error **error) {
  const Spark__Connect__Catalog *catalog = relation->catalog;
  Spark__Connect__Read__NamedTable named = SPARK__CONNECT__READ__NAMED_TABLE__INIT;
  if (catalog->cat_type_case == SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_TABLE)
    named.unparsed_identifier = catalog->create_table->table_name;
  else if (catalog->cat_type_case == SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_EXTERNAL_TABLE)
    named.unparsed_identifier = catalog->create_external_table->table_name;
  else
    return spark__unimplemented(t, NOWHERE, error, "An operation on the catalog as a relation");
  return named_table(t, &named, NOWHERE, out, error);
}

trn_status spark__relation_read(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                trn_error **error) {
  const Spark__Connect__Read *read = relation->read;
  if (read->is_streaming) return spark__unimplemented(t, NOWHERE, error, "A streaming read");
  if (read->read_type_case == SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE)
    return data_source(t, read->data_source, out, error);
  if (read->read_type_case == SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE)
    return named_table(t, read->named_table, spark__relation_position(t, relation), out, error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET", NOWHERE,
                      "fullName", "spark.connect.Read", "name", "READTYPE_NOT_SET", NULL);
}
