/* Text, CSV and JSON: rows out of lines and records. */
#include "core/query.h"
#include "frontend/spark/translate/source_file.h"
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

static const trn_position NOWHERE = {-1, -1};

/* ---- files ---- */

/* Spark's list is shorter than Java's. */
static trn_status check_charset(spark_translator *t, const char *who, const spark_text_options *options, trn_error **error) {
  static const char *const known[] = {"iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le", "utf-32", "utf-8"};
  if (!options->charset) return TRN_OK;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcasecmp(known[i], options->charset) == 0) return TRN_OK;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_PARAMETER_VALUE.CHARSET", NOWHERE, "functionName", who, "parameter",
                      "`charset`", "charset", options->charset, "charsets",
                      "iso-8859-1, us-ascii, utf-16, utf-16be, utf-16le, utf-32, utf-8", NULL);
}

static trn_status check_separator(bool csv, const spark_text_options *o, trn_error **error) {
  bool alone = !csv && o->charset && !o->multi_line; /* lines that are cut before they are UTF-8 */
  if (o->line_separator && !*o->line_separator)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: 'lineSep' cannot be an empty string.");
  if (alone && (strcasecmp(o->charset, "UTF-16") == 0 || strcasecmp(o->charset, "UTF-32") == 0))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "requirement failed: The %s encoding must not be included in the denyList when multiLine is disabled:\n"
                         "denylist: UTF-16, UTF-32",
                         o->charset);
  if (alone && !o->line_separator)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "requirement failed: The lineSep option must be specified for the %s encoding",
                         o->charset);
  return TRN_OK;
}

/* What all files are compressed with, SPARK_OTHER_COMPRESSION when they differ. What is not read at all is refused. */
static trn_status find_compression(spark_translator *t, const spark_file_read *read, spark_compression *out, trn_error **error) {
  *out = SPARK_PLAIN;
  for (size_t i = 0; i < read->list.files.count; i++) {
    spark_compression found = spark__compression_of(read->list.files.items[i]);
    if (found == SPARK_OTHER_COMPRESSION) return spark__unimplemented(t, NOWHERE, error, "Reading the compressed file %s",
                                                                          (const char *)read->list.files.items[i]);
    if (i && found != *out) *out = SPARK_OTHER_COMPRESSION;
    else if (!i) *out = found;
  }
  return TRN_OK;
}

/* ---- text ---- */

static trn_status find_text_files(spark_translator *t, spark_file_read *read, trn_error **error) {
  spark_compression compression;
  trn_status status = spark__text_source_options(read->node, &read->text, &read->lines, error);
  if (!status) status = check_charset(t, "TextOptions", &read->text, error);
  for (size_t i = 0; i < read->path_count && !status; i++) {
    const char *path = strncmp(read->paths[i], "file:/", 6) == 0 ? read->paths[i] + 5 : read->paths[i];
    const char *shown = strstr(path, "://") ? path : trn__arena_printf(t->arena, "file:%s", path);
    if (!shown) return trn__no_memory(error);
    if (strstr(path, "://")) return spark__unimplemented(t, NOWHERE, error, "Reading text files that are not local");
    if (access(path, F_OK) != 0)
      status = spark__error(t, error, TRN_NOT_FOUND, "PATH_NOT_FOUND", NOWHERE, "path", shown, NULL);
  }
  if (!status && !read->list.local)
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More text files than TRN_SOURCE_FILES_MAX (%u).",
                           TRN_SOURCE_FILES_MAX);
  if (!status) status = find_compression(t, read, &compression, error);
  read->options = (spark_read_options){.items = TRN_NEW_N(t->arena, trn_kv, 1)};
  return status || read->options.items ? status : trn__no_memory(error);
}

/* The one column of the files: `value`, or what the schema calls it. */
static trn_status text_column(spark_translator *t, const spark_file_read *read, const char **name, trn_error **error) {
  *name = "value";
  for (uint32_t i = 0; read->schema && i < read->schema->field_count; i++) {
    const trn_field *field = &read->schema->fields[i];
    const char *column = spark__quote(t, field->name), *type = spark__quoted_type(t, field->type);
    if (!column || !type) return trn__no_memory(error);
    if (field->type->id != TRN_TYPE_STRING)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", NOWHERE, "columnName",
                          column, "columnType", type, "format", "Text", NULL);
  }
  if (!read->schema) return TRN_OK;
  if (read->schema->field_count != 1)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "Text data source supports only a single column, and you have %u columns.", read->schema->field_count);
  *name = read->schema->fields[0].name;
  return TRN_OK;
}

/* The rows of the files as a source that only who may read what the label says may open. */
static trn_status open_rows(spark_translator *t, const spark_file_read *read, const trn_vec *files, const char *name, trn_scan_label *label,
                            trn_source **source, const trn_field **fields, uint32_t *count, trn_error **error) {
  trn_strbuf rows = {0};
  trn_status status = spark__text_source_rows(t, files, &read->partitions, &read->lines, name, &rows, error);
  const trn_source_request request = {
      .struct_size = sizeof request, .format = "ipc", .data = rows.data, .data_size = rows.size, .label = label};
  if (!status) status = spark__open_source(t, &request, NULL, source, fields, count, error);
  trn__strbuf_finish(&rows);
  return status;
}

trn_status spark__read_text(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                            trn_error **error) {
  trn_source *source = NULL;
  const trn_field *fields = NULL;
  const char *name = NULL, *label = trn__arena_printf(t->arena, "text %s", read->path_count ? read->paths[0] : "");
  uint32_t count = 0;
  trn_scan_info info;
  trn_scan_label *may = NULL;
  trn_status status = label ? spark__find_partitions(t, read, error) : trn__no_memory(error);
  if (!status) status = text_column(t, read, &name, error);
  if (!status) status = spark__files_info(t, read, &info, error);
  if (!status && read->table) info = spark__table_info(read, &info);
  if (!status && trn_scan_label_create(&info, &may)) status = trn__no_memory(error);
  if (!status) status = open_rows(t, read, &read->list.files, name, may, &source, &fields, &count, error);
  trn_scan_label_unref(may);
  if (!status) status = spark__scan_source(t, source, fields, NULL, count, label, &info, qualifier, out, error);
  return status ? status : spark__partition_values(t, read, out, error);
}

/* ---- CSV and JSON by lines ---- */

enum { CHECKED_BYTES_MAX = 64 << 20 };

/* Whether the engine's reader of lines would see them otherwise: a JSON line with an array, whose elements are records, or
 * with blanks only; CSV that is no UTF-8; a file that is cut. Of very large files only the beginning is looked at. */
static bool some_unusual(const spark_file_read *read, bool csv) {
  static const spark_text_options plain = {.separator = ","};
  uint64_t checked = csv ? CHECKED_BYTES_MAX : TRN_TEXT_SOURCE_BYTES_MAX, seen = 0; /* seen: not compressed */
  for (size_t i = 0; i < read->list.files.count; i++) {
    spark_records records;
    const char *text;
    size_t size;
    bool found = false, more = spark__records_open(&records, read->list.files.items[i], &plain, SPARK_CUT_LINES);
    while (more && !found && spark__records_next(&records, &text, &size)) {
      bool any = size > 0;
      seen += size + 1;
      if (csv) found = !trn__utf8_is_valid(text, size);
      while (!csv && size && (*text == ' ' || *text == '\t')) text++, size--;
      if (!csv) found = size ? *text == '[' : any;
      more = read->list.bytes <= checked && seen <= checked;
    }
    found |= records.failure != SPARK_RECORDS_GOOD;
    spark__records_close(&records);
    if (found) return true;
  }
  return false;
}

/* The engine's reader of lines serves lines of UTF-8 that end as usual, and one kind of compression. */
static bool in_memory(const spark_file_read *read, spark_compression compression) {
  const spark_text_options *o = &read->text;
  bool csv = strcmp(read->format, "csv") == 0;
  if (o->multi_line || o->charset || o->comments || compression >= SPARK_DEFLATE || (compression && o->ignores_corrupt)) return true;
  return (o->line_separator && strcmp(o->line_separator, "\n") != 0) || some_unusual(read, csv);
}

/* Decides whether the files can be read that way: local, with options that are known. */
trn_status spark__choose_reader(spark_translator *t, spark_file_read *read, const char *first, trn_error **error) {
  static const char *const names[] = {[SPARK_GZIP] = "gzip", [SPARK_BZIP2] = "bzip2", [SPARK_ZSTD] = "zstd"};
  bool csv = strcmp(read->format, "csv") == 0, served = false;
  spark_compression compression = SPARK_PLAIN;
  read->is_text = strcmp(read->format, "text") == 0;
  if (read->is_text) return find_text_files(t, read, error);
  if (!csv && strcmp(read->format, "json") != 0) return spark__read_options_of(t, read->node, read->format, first, &read->options, error);
  spark__text_options(read->node, csv, &read->text, &served);
  trn_status status = check_charset(t, csv ? "CSVOptions" : "JSONOptions", &read->text, error);
  if (!status) status = check_separator(csv, &read->text, error);
  read->as_lines = !status && served && read->list.local && (read->list.files.count || read->by_file);
  if (status || !read->as_lines) return status ? status : spark__read_options_of(t, read->node, read->format, first, &read->options, error);
  read->options = (spark_read_options){.items = TRN_NEW_N(t->arena, trn_kv, 8), .header = read->text.header};
  if (!read->options.items) return trn__no_memory(error);
  status = find_compression(t, read, &compression, error);
  bool levels = read->filter.base || (read->by_file && read->list.nested && !read->filter.recursive);
  read->in_memory = !status && (levels || !read->list.files.count || in_memory(read, compression));
  read->lines = (spark_text_source){csv ? SPARK_ROWS_CSV : SPARK_ROWS_JSON, read->text.multi_line, &read->text, 0};
  if (!status && !read->in_memory && compression) read->options.items[read->options.count++] = (trn_kv){"compression", names[compression]};
  return status;
}

/* What the result depends on, as text. NULL: not to be kept. */
static const char *inference_key(spark_translator *t, const spark_file_read *read) {
  uint8_t digest[16];
  uint64_t files, bytes;
  trn_strbuf key = {0};
  if (!t->catalog || !trn__paths_version(read->paths, read->path_count, digest, &files, &bytes)) return NULL;
  trn__strbuf_printf(&key, "%s %d", read->format, t->case_sensitive);
  for (int i = 0; i < 16; i++) trn__strbuf_printf(&key, "%02x", digest[i]);
  for (size_t i = 0; i < read->path_count; i++) trn__strbuf_printf(&key, "\1%s", read->paths[i]);
  for (size_t i = 0; read->node && i < read->node->n_options; i++)
    trn__strbuf_printf(&key, "\2%s\3%s", read->node->options[i]->key, read->node->options[i]->value ? read->node->options[i]->value : "");
  return spark__finish_text(t, &key);
}

trn_status spark__infer_lines(spark_translator *t, const spark_file_read *read, const trn_type **out, trn_error **error) {
  const char *key = inference_key(t, read), *known = key ? spark__catalog_inferred(t->catalog, t->arena, key) : NULL;
  Spark__Connect__DataType *proto = NULL;
  if (!read->list.files.count)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNABLE_TO_INFER_SCHEMA", NOWHERE, "format",
                        strcmp(read->format, "csv") == 0 ? "CSV" : "JSON", NULL);
  if (known && spark__sql_parse_type(t->arena, known, strlen(known), NULL, &proto, NULL) == TRN_OK &&
      spark__type_from_proto(t->arena, proto, out, NULL) == TRN_OK)
    return TRN_OK;
  trn_status status = strcmp(read->format, "csv") == 0 ? spark__infer_csv(t, &read->list.files, &read->text, out, error)
                                                       : spark__infer_json(t, &read->list.files, &read->text, out, error);
  trn_strbuf text = {0};
  if (!status && key) spark__type_sql(&text, *out);
  if (!status && key && !text.failed) spark__catalog_keep_inferred(t->catalog, key, text.data ? text.data : "");
  trn__strbuf_finish(&text);
  return status;
}

/* The engine gives lines: a CSV of one column whose separator and quote are in no text. */
static trn_status engine_lines(spark_translator *t, const spark_file_read *read, spark_file_read *lines, trn_scan_info *info,
                               spark_relation *out, trn_error **error) {
  bool csv = strcmp(read->format, "csv") == 0;
  trn_source *source = NULL;
  const trn_field *fields = NULL;
  uint32_t count = 0;
  const trn_field line = {.name = "value", .type = trn__type(TRN_TYPE_STRING), .nullable = true};
  *lines = *read;
  lines->format = "csv";
  lines->schema = trn__type_struct(t->arena, &line, 1);
  lines->schema_text = "\1lines";
  lines->options.items = TRN_NEW_N(t->arena, trn_kv, read->options.count + 8);
  if (!lines->schema || !lines->options.items) return trn__no_memory(error);
  if (read->options.count) memcpy(lines->options.items, read->options.items, read->options.count * sizeof(trn_kv));
  lines->options.items[lines->options.count++] = (trn_kv){"has_header", csv && read->text.header ? "true" : "false"};
  lines->options.items[lines->options.count++] = (trn_kv){"delimiter", "1"};
  lines->options.items[lines->options.count++] = (trn_kv){"quote", "2"};
  if (csv && read->text.comment) {
    const char *number = trn__arena_printf(t->arena, "%u", (unsigned char)read->text.comment);
    if (!number) return trn__no_memory(error);
    lines->options.items[lines->options.count++] = (trn_kv){"comment", number};
  }
  trn_status status = spark__open_files(t, lines, lines->schema, lines->schema_text, &source, &fields, &count, error);
  trn_field *shown = status ? NULL : TRN_NEW_N(t->arena, trn_field, count);
  const char *label = trn__arena_printf(t->arena, "%s %s", read->format, read->path_count ? read->paths[0] : "");
  if (!status && (!shown || !label)) status = trn__no_memory(error);
  for (uint32_t i = 0; !status && i < count; i++) shown[i] = fields[i], shown[i].nullable = true;
  return status ? status : spark__scan_source(t, source, shown, NULL, count, label, info, NULL, out, error);
}

static trn_status memory_lines(spark_translator *t, const spark_file_read *read, const trn_scan_info *info, spark_relation *out,
                               trn_error **error) {
  trn_source *source = NULL;
  const trn_field *fields = NULL;
  uint32_t count = 0;
  trn_scan_label *may = NULL;
  const char *label = trn__arena_printf(t->arena, "%s %s", read->format, read->path_count ? read->paths[0] : "");
  trn_status status = !label || trn_scan_label_create(info, &may) ? trn__no_memory(error) : TRN_OK;
  if (!status) status = open_rows(t, read, &read->list.files, "value", may, &source, &fields, &count, error);
  trn_scan_label_unref(may);
  return status ? status : spark__scan_source(t, source, fields, NULL, count, label, info, NULL, out, error);
}

trn_status spark__read_lines(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                             trn_error **error) {
  bool csv = strcmp(read->format, "csv") == 0;
  const trn_type *schema = NULL;
  spark_file_read lines;
  trn_scan_info info;
  trn_status status = read->table && read->table->listed ? TRN_OK : spark__find_partitions(t, read, error);
  if (!status) {
    schema = read->schema;
    if (!schema) status = spark__infer_lines(t, read, &schema, error);
  }
  if (!status) status = spark__files_info(t, read, &info, error);
  if (!status && read->table) info = spark__table_info(read, &info);
  if (status) return status;
  info.is_raw = true;
  status = read->in_memory ? memory_lines(t, read, &info, out, error) : engine_lines(t, read, &lines, &info, out, error);
  if (!status) status = spark__partition_values(t, read->in_memory ? read : &lines, out, error);
  if (!status) status = spark__rows_of_lines(t, csv, schema, &read->text, read->path_count ? read->paths[0] : "", out, error);
  if (status || !qualifier) return status;
  return spark__alias_relation(t, out, qualifier->parts, qualifier->count, error);
}
