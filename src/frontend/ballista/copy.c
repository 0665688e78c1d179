/* COPY and INSERT. Ballista sends them as plans; here they are commands, so that policies see what is written where,
 * and that it is written as all else that writes files is: all of it, or nothing. A table of the client's is where its
 * files are: an INSERT adds files there. */
#include <trunnion/catalog.h>

#include "frontend/ballista/ballista.h"
#include "plan/ballista_plan.h"

enum { COPY_OPTIONS_MAX = 16 };

/* How a field of a format's message becomes an option's text. */
typedef enum option_kind { OPTION_BOOL, OPTION_CHARACTER, OPTION_TEXT, OPTION_COMPRESSION } option_kind;
typedef struct option {
  uint64_t field;
  const char *name; /* the engine's */
  option_kind kind;
} option;

static const option csv_options[] = {{1, "has_header", OPTION_BOOL},
                                     {2, "delimiter", OPTION_CHARACTER},
                                     {3, "quote", OPTION_CHARACTER},
                                     {4, "escape", OPTION_CHARACTER},
                                     {5, "compression", OPTION_COMPRESSION},
                                     {7, "date_format", OPTION_TEXT},
                                     {8, "datetime_format", OPTION_TEXT},
                                     {9, "timestamp_format", OPTION_TEXT},
                                     {10, "timestamp_tz_format", OPTION_TEXT},
                                     {11, "time_format", OPTION_TEXT},
                                     {12, "null_value", OPTION_TEXT},
                                     {15, "double_quote", OPTION_BOOL},
                                     {0}};
static const option json_options[] = {{1, "compression", OPTION_COMPRESSION}, {0}};
static const option parquet_options[] = {{10, "compression", OPTION_TEXT}, {19, "encoding", OPTION_TEXT}, {0}};
static const option no_options[] = {{0}};

/* By their place in Ballista's list of codecs. */
static const struct format {
  const char *name;
  const option *options;
} formats[] = {
    {"parquet", parquet_options}, {"csv", csv_options}, {"json", json_options}, {"arrow", no_options}, {"avro", NULL}};

/* CompressionTypeVariant. */
static const char *const compressions[] = {"gzip", "bzip2", "xz", "zstd", "uncompressed"};

/* NULL: no memory. "": it says nothing. */
static const char *option_text(trn_arena *arena, const option *o, const trn_ballista_field *field) {
  switch (o->kind) {
  case OPTION_COMPRESSION:
    return field->number < sizeof compressions / sizeof *compressions ? compressions[field->number] : "";
  case OPTION_BOOL: return !field->bytes.size ? "" : *field->bytes.data ? "true" : "false";
  case OPTION_CHARACTER:
    return field->bytes.size == 1 && *field->bytes.data ? trn__arena_str(arena, field->bytes.data, 1) : "";
  case OPTION_TEXT: break;
  }
  return memchr(field->bytes.data, 0, field->bytes.size) ? ""
                                                         : trn__arena_str(arena, field->bytes.data, field->bytes.size);
}

static void put_option(trn_kv *options, size_t *count, const char *name, const char *value) {
  size_t i = 0;
  while (i < *count && strcmp(options[i].key, name) != 0) i++;
  if (i == COPY_OPTIONS_MAX) return;
  options[i] = (trn_kv){name, value};
  if (i == *count) (*count)++;
}

static trn_status options_of(trn_arena *arena, const struct format *format, trn_str message, trn_kv *options,
                             size_t *count, trn_error **error) {
  trn_ballista_field field;
  trn_str global = {"", 0};
  /* An absent number is the first of its enumeration. */
  for (const option *o = format->options; o->field; o++)
    if (o->kind == OPTION_COMPRESSION && message.size) put_option(options, count, o->name, compressions[0]);
  if (format->options == parquet_options) { /* what is for all columns */
    for (size_t at = 0; trn__ballista_field(message, &at, &field);)
      if (field.id == 1 && field.is_bytes) global = field.bytes;
    message = global;
  }
  for (size_t at = 0; trn__ballista_field(message, &at, &field);) {
    const option *o = format->options;
    while (o->field && o->field != field.id) o++;
    if (!o->field || field.is_bytes != (o->kind != OPTION_COMPRESSION)) continue;
    const char *text = option_text(arena, o, &field);
    if (!text) return trn__no_memory(error);
    if (*text) put_option(options, count, o->name, text);
  }
  return TRN_OK;
}

/* ---- what is not done ---- */

static trn_status check_insert(const trn_ballista_write *w, trn_error **error) {
  static const char *const names[] = {"UPDATE",           "DELETE",         "CREATE TABLE AS", "INSERT",
                                      "INSERT OVERWRITE", "INSERT REPLACE", "TRUNCATE",        "MERGE"};
  const trn_str *l = &w->location;
  int size = (int)(w->table.size < 100 ? w->table.size : 100);
  if (w->operation != TRN_BALLISTA_INSERT_APPEND)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s of a client's table is not supported: only INSERT INTO",
                         w->operation < sizeof names / sizeof *names ? names[w->operation] : "This change");
  if (!w->input.size) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "INSERT without rows");
  if (w->location_count != 1)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL,
                         "INSERT INTO %.*s: it is not a table of files in one directory", size, w->table.data);
  if (!l->size || l->data[l->size - 1] != '/')
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "INSERT INTO %.*s: its location is a file; that of a directory ends with '/'", size,
                         w->table.data);
  return TRN_OK;
}

static trn_status check(const trn_ballista_write *w, trn_error **error) {
  const char *what = w->is_insert ? "INSERT" : "COPY";
  trn_status status = w->is_insert ? check_insert(w, error) : TRN_OK;
  if (status) return status;
  if (w->format >= sizeof formats / sizeof *formats)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s to file format number %llu, which is none of Ballista's", what,
                         (unsigned long long)w->format);
  const char *name = formats[w->format].name;
  if (!formats[w->format].options)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s to %s files is not supported", what, name);
  if (memchr(w->location.data, 0, w->location.size))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s to a location with a NUL character", what);
  const trn_str *extension = &w->file_extension;
  bool is_own = extension->size == strlen(name) + 1 && !memcmp(extension->data + 1, name, extension->size - 1);
  if (extension->size && !is_own)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "INSERT INTO a table whose files end with %.*s, not .%s",
                         (int)(extension->size < 40 ? extension->size : 40), extension->data, name);
  if (w->partition_count > TRN_BALLISTA_PARTITIONS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "%s with %zu partition columns (limit TRN_BALLISTA_PARTITIONS_MAX)", what, w->partition_count);
  return TRN_OK;
}

/* ---- running ---- */

static bool keeps_partitions(trn_session *session) {
  char *value = trn_session_get(session, "datafusion.execution.keep_partition_by_columns");
  bool keeps = value && strcmp(value, "true") == 0;
  trn_free(value);
  return keeps;
}

static trn_status partitions_of(trn_arena *arena, const trn_ballista_write *w, const char **out, trn_error **error) {
  for (size_t i = 0; i < w->partition_count; i++) {
    const trn_str *name = &w->partition_by[i];
    if (!name->size || memchr(name->data, 0, name->size))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A partition column has no name, or one with a NUL");
    out[i] = trn__arena_str(arena, name->data, name->size);
    if (!out[i]) return trn__no_memory(error);
  }
  return TRN_OK;
}

trn_status ballista__write(ballista_rpc *rpc, ballista_job *job, trn_session *session, trn_plan *plan,
                           const struct trn_ballista_write *write, trn_operation **out, trn_error **error) {
  trn_kv options[COPY_OPTIONS_MAX];
  const char *partitions[TRN_BALLISTA_PARTITIONS_MAX];
  size_t count = 0;
  trn_status status = check(write, error);
  if (status) return status;
  const struct format *format = &formats[write->format];
  const char *location = trn__arena_str(rpc->arena, write->location.data, write->location.size);
  if (!location) return trn__no_memory(error);
  status = options_of(rpc->arena, format, write->options, options, &count, error);
  if (!status) status = partitions_of(rpc->arena, write, partitions, error);
  if (status) return status;
  const trn_command command = {.struct_size = sizeof command,
                               .kind = TRN_COMMAND_COPY,
                               .plan = plan,
                               .mode = TRN_WRITE_APPEND,
                               .format = format->name,
                               .location = location,
                               .options = options,
                               .option_count = count,
                               .operation_id = job->id,
                               .cancel = job->cancel,
                               .partition_by = partitions,
                               .partition_by_count = write->partition_count,
                               /* files of a table never have the columns of their directories */
                               .keeps_partition_columns = !write->is_insert && keeps_partitions(session)};
  return trn_command_execute(session, &command, out, NULL, NULL, error);
}
