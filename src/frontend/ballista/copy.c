/* COPY. Ballista sends it as a plan; here it is a command, so that policies see what is written where, and that it is
 * written as all else that writes files is: all of it, or nothing. */
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

trn_status ballista__copy(ballista_rpc *rpc, ballista_job *job, trn_session *session, trn_plan *plan,
                          const struct trn_ballista_copy *copy, trn_operation **out, trn_error **error) {
  trn_kv options[COPY_OPTIONS_MAX];
  size_t count = 0;
  if (copy->is_partitioned)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "COPY with PARTITIONED BY is not supported yet");
  if (copy->format >= sizeof formats / sizeof *formats)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "COPY to file format number %llu, which is none of Ballista's",
                         (unsigned long long)copy->format);
  const struct format *format = &formats[copy->format];
  if (!format->options)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "COPY to %s files is not supported", format->name);
  if (memchr(copy->location.data, 0, copy->location.size))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "COPY to a location with a NUL character");
  const char *location = trn__arena_str(rpc->arena, copy->location.data, copy->location.size);
  trn_status status =
      location ? options_of(rpc->arena, format, copy->options, options, &count, error) : trn__no_memory(error);
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
                               .cancel = job->cancel};
  return trn_command_execute(session, &command, out, NULL, NULL, error);
}
