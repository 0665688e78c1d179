/* df.write with a path: options, modes, and the run. Tables are in table_insert.c. */
#include "frontend/spark/service.h"
#include "frontend/spark/tables.h"
#include "frontend/spark/translate/write.h"
#include "catalog/directory_write.h"
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct request {
  spark_rpc *rpc;
  const Spark__Connect__WriteOperation *write;
  spark_write_spec spec;
  trn_kv *options; /* room for all */
  const char *path;   /* as given */
  const char *target; /* absolute */
  const char *ending; /* of file names */
  trn_error **error;
} request;

static trn_status refuse(request *r, const char *option, const char *value) {
  return trn_error_set(r->error, TRN_UNIMPLEMENTED, NULL, "Writing %s with the option %s = '%s' is not supported",
                       r->spec.format, option, value);
}

/* ---- options ---- */

/* The last one counts; NULL: not given. */
static const char *option(const request *r, const char *name) {
  const char *value = NULL;
  for (size_t i = 0; i < r->write->n_options; i++)
    if (strcasecmp(r->write->options[i]->key, name) == 0) value = r->write->options[i]->value;
  return value;
}

static bool flag(const request *r, const char *name, bool otherwise) {
  const char *value = option(r, name);
  return value ? strcasecmp(value, "true") == 0 : otherwise;
}

static void set(request *r, const char *key, const char *value) {
  r->options[r->spec.option_count++] = (trn_kv){key, value};
}

/* An option that is one character, or a backslash and one. */
static trn_status byte_option(request *r, const char *name, const char *otherwise, const char **out) {
  const char *value = option(r, name);
  if (!value && strcmp(name, "sep") == 0) value = option(r, "delimiter");
  if (!value) value = otherwise;
  *out = value;
  if (value[0] == '\\' && value[1] && !value[2]) {
    *out = value[1] == 't' ? "\t" : value + 1;
  } else if (!value[0] || value[1] || (unsigned char)value[0] >= 128) {
    return refuse(r, name, value);
  }
  return TRN_OK;
}

typedef struct codec {
  const char *name, *engine, *ending;
} codec;

static const codec parquet_codecs[] = {{"snappy", "snappy", ".snappy"},   {"none", "uncompressed", ""},
                                       {"uncompressed", "uncompressed", ""}, {"gzip", "gzip(6)", ".gz"},
                                       {"zstd", "zstd(3)", ".zstd"},      {"lz4_raw", "lz4_raw", ".lz4raw"},
                                       {"lz4", "lz4", ".lz4hadoop"},      {"brotli", "brotli(1)", ".br"},
                                       {"lzo", NULL, NULL},               {NULL, NULL, NULL}};
static const codec text_codecs[] = {{"none", "uncompressed", ""},   {"uncompressed", "uncompressed", ""},
                                    {"gzip", "gzip", ".gz"},        {"bzip2", "bzip2", ".bz2"},
                                    {"deflate", NULL, NULL},        {"lz4", NULL, NULL},
                                    {"snappy", NULL, NULL},         {NULL, NULL, NULL}};

static trn_status set_codec(request *r, const codec *codecs, const char *name, const char *known, const char *format) {
  const codec *c = codecs;
  while (c->name && strcasecmp(c->name, name) != 0) c++;
  if (!c->name)
    return spark__raise(r->error, TRN_INVALID_ARGUMENT, "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION",
                        "codecName", name, "availableCodecs", known, NULL, NULL);
  if (!c->engine) return refuse(r, "compression", name);
  set(r, "compression", c->engine);
  r->ending = trn__arena_printf(r->rpc->arena, format, c->ending);
  return r->ending ? TRN_OK : trn__no_memory(r->error);
}

static trn_status parquet_options(request *r) {
  const char *name = option(r, "compression");
  char *configured = NULL;
  if (!name) name = option(r, "parquet.compression");
  if (!name && spark__config_get(r->rpc->session, "spark.sql.parquet.compression.codec", &configured) && configured)
    name = trn__arena_strdup(r->rpc->arena, configured);
  trn_free(configured);
  return set_codec(r, parquet_codecs, name ? name : "snappy",
                   "brotli, uncompressed, lzo, snappy, lz4_raw, none, zstd, lz4, gzip", "%s.parquet");
}

/* What both text formats have. */
static trn_status text_options(request *r, const char *form) {
  const char *name = option(r, "compression"), *line = option(r, "lineSep"), *encoding = option(r, "encoding");
  if (!name) name = option(r, "codec");
  if (!encoding) encoding = option(r, "charset");
  if (line && strcmp(line, "\n") != 0) return refuse(r, "lineSep", line);
  if (encoding && strcasecmp(encoding, "UTF-8") != 0) return refuse(r, "encoding", encoding);
  r->spec.date_format = option(r, "dateFormat");
  r->spec.timestamp_format = option(r, "timestampFormat");
  return set_codec(r, text_codecs, name ? name : "none", "bzip2, deflate, uncompressed, snappy, none, lz4, gzip", form);
}

static trn_status csv_options(request *r) {
  const char *empty = option(r, "emptyValue"), *null = option(r, "nullValue");
  spark_write_spec *spec = &r->spec;
  if (!flag(r, "escapeQuotes", true)) return refuse(r, "escapeQuotes", "false");
  trn_status status = text_options(r, ".csv%s");
  if (!status) status = byte_option(r, "sep", ",", &spec->separator);
  if (!status) status = byte_option(r, "quote", "\"", &spec->quote);
  if (!status) status = byte_option(r, "escape", "\\", &spec->escape);
  if (status) return status;
  spec->null_value = null ? null : "";
  spec->empty_value = empty ? empty : "\"\"";
  spec->quote_all = flag(r, "quoteAll", false);
  spec->trim_left = flag(r, "ignoreLeadingWhiteSpace", true);
  spec->trim_right = flag(r, "ignoreTrailingWhiteSpace", true);
  const char *number = trn__arena_printf(r->rpc->arena, "%u", (unsigned char)spec->separator[0]);
  if (!number) return trn__no_memory(r->error);
  set(r, "delimiter", number); /* "1" would be taken for byte 1 */
  set(r, "has_header", flag(r, "header", false) ? "true" : "false");
  set(r, "quote_style", "Never"); /* the fields come quoted */
  set(r, "null_value", spec->null_value);
  return TRN_OK;
}

static trn_status json_options(request *r) {
  if (!flag(r, "ignoreNullFields", true)) return refuse(r, "ignoreNullFields", "false");
  if (flag(r, "pretty", false)) return refuse(r, "pretty", "true");
  return text_options(r, ".json%s");
}

static trn_status read_format(request *r) {
  static const struct {
    const char *name, *shown;
    trn_status (*options)(request *);
  } formats[] = {{"parquet", "Parquet", parquet_options}, {"csv", "CSV", csv_options}, {"json", "JSON", json_options}};
  static const char *const known[] = {"orc", "text", "avro", "jdbc", "xml", "binaryfile", "kafka", "console"};
  const char *given = r->write->_source_case && r->write->source && *r->write->source ? r->write->source : "parquet";
  r->options = TRN_NEW_N(r->rpc->arena, trn_kv, 16);
  if (!r->options) return trn__no_memory(r->error);
  r->spec.options = r->options;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (strcasecmp(formats[i].name, given) != 0) continue;
    r->spec.format = formats[i].name, r->spec.shown_format = formats[i].shown;
    return formats[i].options(r);
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcasecmp(known[i], given) == 0)
      return trn_error_set(r->error, TRN_UNIMPLEMENTED, NULL, "Writing the format %s is not supported", known[i]);
  return spark__raise(r->error, TRN_INVALID_ARGUMENT, "DATA_SOURCE_NOT_FOUND", "provider", given, NULL, NULL, NULL, NULL);
}

trn_status spark__write_spec_of(spark_rpc *rpc, const Spark__Connect__WriteOperation *operation, spark_write_spec *out,
                                trn_error **error) {
  request r = {.rpc = rpc, .write = operation, .error = error};
  trn_status status = read_format(&r);
  *out = r.spec;
  return status;
}

/* ---- where ---- */

static trn_status read_path(request *r) {
  bool given = r->write->save_type_case == SPARK__CONNECT__WRITE_OPERATION__SAVE_TYPE_PATH;
  const char *path = given ? r->write->path : option(r, "path");
  if (!path) return trn_error_set(r->error, TRN_INVALID_ARGUMENT, NULL, "'path' is not specified.");
  if (!*path) return trn_error_set(r->error, TRN_INVALID_ARGUMENT, NULL, "Can not create a Path from an empty string");
  if (strncmp(path, "file:", 5) == 0) path += 5;
  else if (strstr(path, "://"))
    return trn_error_set(r->error, TRN_UNIMPLEMENTED, NULL, "Writing to %s is not supported: only to local files", path);
  while (path[0] == '/' && path[1] == '/') path++;
  char here[4096];
  if (*path != '/' && !getcwd(here, sizeof here))
    return trn_error_set(r->error, TRN_INTERNAL, NULL, "The working directory has no name");
  char *target = *path == '/' ? trn__arena_strdup(r->rpc->arena, path)
                              : trn__arena_printf(r->rpc->arena, "%s/%s", here, path);
  if (!target) return trn__no_memory(r->error);
  for (size_t size = strlen(target); size > 1 && target[size - 1] == '/';) target[--size] = '\0';
  if (strcmp(target, "/") == 0)
    return trn_error_set(r->error, TRN_INVALID_ARGUMENT, NULL, "The root directory cannot be written to");
  r->target = target;
  return TRN_OK;
}

/* *skip: there is something, and it stays. */
static trn_status check_mode(request *r, bool *skip) {
  struct stat info;
  bool exists = stat(r->target, &info) == 0;
  const char *shown = trn__arena_printf(r->rpc->arena, "file:%s", r->target);
  if (!shown) return trn__no_memory(r->error);
  switch (r->write->mode) {
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_IGNORE: *skip = exists; return TRN_OK;
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_OVERWRITE: return TRN_OK;
  case SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_APPEND:
    if (!exists || S_ISDIR(info.st_mode)) return TRN_OK;
    return trn_error_set(r->error, TRN_INVALID_ARGUMENT, NULL, "Parent path is not a directory: %s", shown);
  default:
    if (!exists) return TRN_OK;
    return spark__raise(r->error, TRN_ALREADY_EXISTS, "PATH_ALREADY_EXISTS", "outputPath", shown, NULL, NULL, NULL, NULL);
  }
}

static trn_directory_mode write_mode(const request *r) {
  if (r->write->mode != SPARK__CONNECT__WRITE_OPERATION__SAVE_MODE__SAVE_MODE_OVERWRITE) return TRN_DIRECTORY_APPEND;
  const char *given = option(r, "partitionOverwriteMode");
  char *configured = NULL;
  if (!given && spark__config_get(r->rpc->session, "spark.sql.sources.partitionOverwriteMode", &configured))
    given = configured;
  bool dynamic = given && strcasecmp(given, "dynamic") == 0 && r->write->n_partitioning_columns;
  trn_free(configured);
  return dynamic ? TRN_DIRECTORY_OVERWRITE_PARTITIONS : TRN_DIRECTORY_OVERWRITE;
}

/* ---- the run ---- */

static trn_status check(request *r) {
  const Spark__Connect__WriteOperation *w = r->write;
  r->rpc->phase = SPARK_PHASE_ANALYSIS;
  if (w->bucket_by) return trn_error_set(r->error, TRN_INVALID_ARGUMENT, NULL, "'save' does not support bucketBy right now.");
  if (w->n_sort_column_names)
    return spark__raise(r->error, TRN_INVALID_ARGUMENT, "SORT_BY_WITHOUT_BUCKETING", NULL, NULL, NULL, NULL, NULL, NULL);
  if (w->with_schema_evolution)
    return trn_error_set(r->error, TRN_UNIMPLEMENTED, NULL, "df.write.withSchemaEvolution is not supported");
  if (!w->input || w->input->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE__NOT_SET)
    return spark__error_not_set(r->error, "spark.connect.Relation", "RELTYPE_NOT_SET");
  r->rpc->phase = SPARK_PHASE_PROTOCOL; /* for what Spark says of options, as of arguments */
  return TRN_OK;
}

/* All rows, and nothing is kept: what time a query takes. */
static trn_status run_noop(request *r, spark_execution *execution) {
  trn_plan *plan = NULL;
  trn_directory_write *nowhere = NULL;
  trn_table_write *write = NULL;
  trn_status status = spark__plan_relation(r->rpc, r->write->input, &plan, r->error);
  if (!status && !(nowhere = calloc(1, sizeof *nowhere))) status = trn__no_memory(r->error);
  if (!status) status = trn__directory_write_wrap(nowhere, &write, r->error);
  if (status) {
    trn_plan_unref(plan);
    return status;
  }
  r->rpc->phase = SPARK_PHASE_EXECUTION;
  return spark__execution_run_write(execution, plan, write, r->error);
}

static trn_status translate(request *r, trn_directory_write *write, trn_plan **plan) {
  spark_translator translator;
  const char *const *partitions = NULL;
  memset(&translator, 0, sizeof translator);
  r->spec.directory = write->staging;
  r->spec.target = r->target;
  r->spec.partition_by = r->write->partitioning_columns;
  r->spec.partition_count = r->write->n_partitioning_columns;
  spark_session *session = r->rpc->session;
  const Spark__Connect__SQL *sql = spark__sql_of(r->write->input);
  r->rpc->sql = sql ? sql->query : NULL;
  trn_status status = spark__translator_init(&translator, session->session, session->catalog, r->error);
  if (!status)
    status = spark__translate_write(&translator, r->write->input, &r->spec, plan, &partitions, r->error);
  return status ? status : trn__directory_write_set_partitions(write, partitions, r->error);
}

trn_status spark__write_run(spark_rpc *rpc, spark_execution *execution,
                            const Spark__Connect__WriteOperation *operation, trn_error **error) {
  request r = {.rpc = rpc, .write = operation, .error = error};
  trn_directory_write *write = NULL;
  trn_plan *plan = NULL;
  bool skip = false;
  if (operation->save_type_case == SPARK__CONNECT__WRITE_OPERATION__SAVE_TYPE_TABLE)
    return spark__save_table(rpc, execution, operation, error);
  trn_status status = check(&r);
  if (status) return status;
  if (operation->_source_case && operation->source && strcasecmp(operation->source, "noop") == 0)
    return run_noop(&r, execution);
  status = read_format(&r);
  if (!status) status = read_path(&r);
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (!status)
    status = trn__directory_write_create(r.target, r.ending, operation->n_partitioning_columns, write_mode(&r), &write, error);
  if (!status) status = translate(&r, write, &plan);
  if (!status) status = trn_backend_check(rpc->session->session, plan, error); /* before anything is looked at */
  if (!status) status = check_mode(&r, &skip);
  if (!status && !skip) {
    rpc->phase = SPARK_PHASE_EXECUTION;
    status = trn__directory_write_prepare(write, error);
  }
  if (status || skip) {
    trn__directory_write_abort(write);
    trn_plan_unref(plan);
    if (!status) spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
    return status;
  }
  rpc->phase = SPARK_PHASE_EXECUTION;
  trn_table_write *wrapped = NULL;
  status = trn__directory_write_wrap(write, &wrapped, error);
  if (!status) return spark__execution_run_write(execution, plan, wrapped, error);
  trn_plan_unref(plan);
  return status;
}
