/* trn_error as Spark sends it: gRPC status INTERNAL, google.rpc.Status with an ErrorInfo, and what FetchErrorDetails
 * gives. */
#include <stdio.h>

#include "frontend/spark/plan_sql.h"
#include "frontend/spark/service.h"
#include "frontend/wire/wire.h"
#include "grpc_status.pb-c.h"

enum {
  ERROR_MESSAGE_CHARS_MAX = 2048,    /* Spark cuts the message there */
  ERROR_METADATA_BYTES_MAX = 1024,   /* spark.connect.grpc.maxMetadataSize */
  ERROR_MESSAGE_BYTES_MAX = 1 << 20, /* of what FetchErrorDetails gives: texts of queries are in it */
  ERROR_VALUE_BYTES_MAX = 64 << 10,  /* of one parameter or fragment there */
  ERROR_TRAILERS_BYTES_MAX = 7500    /* gRPC clients refuse trailers over 8,192 bytes with the whole call */
};

/* ---- conditions ---- */

typedef struct condition_row {
  const char *name, *sqlstate, *text;
} condition_row;
static const condition_row conditions[] = {
#include "spark_conditions.inc"
};

static int condition_compare(const void *name, const void *row) {
  return strcmp(name, ((const condition_row *)row)->name);
}

bool spark__condition_find(const char *condition, const char **sqlstate, const char **text) {
  const condition_row *row = condition ? bsearch(condition, conditions, sizeof conditions / sizeof *conditions,
                                                 sizeof *conditions, condition_compare)
                                       : NULL;
  if (!row) return false;
  if (sqlstate) *sqlstate = row->sqlstate;
  if (text) *text = row->text;
  return true;
}

bool spark__condition_exists(const char *condition) {
  size_t size = strlen(condition);
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
    if (strncmp(conditions[i].name, condition, size) == 0 && (conditions[i].name[size] == 0 || conditions[i].name[size] == '.'))
      return true;
  return false;
}

trn_status spark__raise(trn_error **error, trn_status status, const char *condition, const char *key1,
                        const char *value1, const char *key2, const char *value2, const char *key3,
                        const char *value3) {
  if (!error) return status;
  const trn_error_param params[] = {{key1, value1}, {key2, value2}, {key3, value3}};
  size_t count = key1 ? key2 ? key3 ? 3 : 2 : 1 : 0;
  const trn_error_spec spec = {
      .struct_size = sizeof spec, .status = status, .condition = condition, .params = params, .param_count = count};
  *error = trn_error_create(&spec);
  return status;
}

trn_status spark__error_not_set(trn_error **error, const char *full_name, const char *name) {
  return spark__raise(error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET", "fullName",
                      full_name, "name", name, NULL, NULL);
}

trn_status spark__error_not_supported(trn_error **error, const ProtobufCMessage *message, int number) {
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(message->descriptor, (unsigned)number);
  char digits[16];
  snprintf(digits, sizeof digits, "%d", number);
  return spark__raise(error, TRN_UNIMPLEMENTED, "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SUPPORTED", "fullName",
                      message->descriptor->name, "name", field ? field->name : "?", "number", digits);
}

/* ---- exception classes ---- */

#define CHAIN_CHECKED "java.lang.Exception", "java.lang.Throwable", "java.lang.Object", NULL
#define CHAIN_RUNTIME "java.lang.RuntimeException", CHAIN_CHECKED
#define CHAIN_ANALYSIS "org.apache.spark.sql.AnalysisException", CHAIN_CHECKED

static const char *const class_analysis[] = {CHAIN_ANALYSIS};
static const char *const class_extended[] = {"org.apache.spark.sql.catalyst.ExtendedAnalysisException", CHAIN_ANALYSIS};
static const char *const class_temp_table[] = {"org.apache.spark.sql.catalyst.analysis.TempTableAlreadyExistsException",
                                               CHAIN_ANALYSIS};
static const char *const class_parse[] = {"org.apache.spark.sql.catalyst.parser.ParseException", CHAIN_ANALYSIS};
static const char *const class_arithmetic[] = {"org.apache.spark.SparkArithmeticException",
                                               "java.lang.ArithmeticException", CHAIN_RUNTIME};
static const char *const class_number[] = {"org.apache.spark.SparkNumberFormatException",
                                           "java.lang.NumberFormatException", "java.lang.IllegalArgumentException",
                                           CHAIN_RUNTIME};
static const char *const class_datetime[] = {"org.apache.spark.SparkDateTimeException", "java.time.DateTimeException",
                                             CHAIN_RUNTIME};
static const char *const class_index[] = {"org.apache.spark.SparkArrayIndexOutOfBoundsException",
                                          "java.lang.ArrayIndexOutOfBoundsException",
                                          "java.lang.IndexOutOfBoundsException", CHAIN_RUNTIME};
static const char *const class_runtime[] = {"org.apache.spark.SparkRuntimeException", CHAIN_RUNTIME};
static const char *const class_no_element[] = {"org.apache.spark.SparkNoSuchElementException",
                                               "java.util.NoSuchElementException", CHAIN_RUNTIME};
static const char *const class_spark_argument[] = {"org.apache.spark.SparkIllegalArgumentException",
                                                   "java.lang.IllegalArgumentException", CHAIN_RUNTIME};
static const char *const class_argument[] = {"java.lang.IllegalArgumentException", CHAIN_RUNTIME};
static const char *const class_spark_unsupported[] = {"org.apache.spark.SparkUnsupportedOperationException",
                                                      "java.lang.UnsupportedOperationException", CHAIN_RUNTIME};
static const char *const class_unsupported[] = {"java.lang.UnsupportedOperationException", CHAIN_RUNTIME};
static const char *const class_sql[] = {"org.apache.spark.SparkSQLException", "java.sql.SQLException", CHAIN_CHECKED};
static const char *const class_upgrade[] = {"org.apache.spark.SparkUpgradeException", CHAIN_RUNTIME};
static const char *const class_file[] = {"org.apache.spark.SparkFileNotFoundException", "java.io.FileNotFoundException",
                                         "java.io.IOException", CHAIN_CHECKED};
static const char *const class_class[] = {"org.apache.spark.SparkClassNotFoundException", "java.lang.ClassNotFoundException",
                                          "java.lang.ReflectiveOperationException", CHAIN_CHECKED};
static const char *const class_script[] = {"org.apache.spark.sql.exceptions.SqlScriptingException", CHAIN_CHECKED};
static const char *const class_plan[] = {"org.apache.spark.sql.connect.common.InvalidPlanInput", CHAIN_CHECKED};
static const char *const class_spark[] = {"org.apache.spark.SparkException", CHAIN_CHECKED};

/* The class of a condition, by the longest prefix that ends at a dot or at the end; '*' at the end of a name ends
 * anywhere. */
static const struct {
  const char *condition;
  const char *const *classes;
} classes_by_condition[] = {
    {"CONNECT_INVALID_PLAN", class_plan},
    {"DATA_SOURCE_NOT_FOUND", class_class},
    {"FAILED_READ_FILE", class_spark},
    {"MALFORMED_RECORD_IN_PARSING", class_spark},
    {"INVALID_HANDLE", class_sql},
    {"INVALID_CURSOR", class_sql},
    {"OPERATION_CANCELED", class_sql},
    {"SQL_CONF_NOT_FOUND", class_no_element},
    {"INVALID_CONF_VALUE", class_spark_argument},
    {"CODEC_NOT_AVAILABLE", class_spark_argument},
    {"CANNOT_MODIFY_STATIC_CONFIG", class_analysis},
    {"CANNOT_MODIFY_CONFIG", class_analysis},
    {"PARSE_*", class_parse},
    {"UNCLOSED_BRACKETED_COMMENT", class_parse},
    {"INVALID_SQL_SYNTAX", class_parse},
    {"DIVIDE_BY_ZERO", class_arithmetic},
    {"REMAINDER_BY_ZERO", class_arithmetic},
    {"ARITHMETIC_OVERFLOW", class_arithmetic},
    {"BINARY_ARITHMETIC_OVERFLOW", class_arithmetic},
    {"CAST_OVERFLOW", class_arithmetic},
    {"CAST_OVERFLOW_IN_TABLE_INSERT", class_arithmetic},
    {"NUMERIC_VALUE_OUT_OF_RANGE", class_arithmetic},
    {"NUMERIC_OUT_OF_SUPPORTED_RANGE", class_arithmetic},
    {"INTERVAL_ARITHMETIC_OVERFLOW", class_arithmetic},
    {"INTERVAL_DIVIDED_BY_ZERO", class_arithmetic},
    {"DATETIME_OVERFLOW", class_arithmetic},
    {"INVALID_ARRAY_INDEX", class_index},
    {"INVALID_ARRAY_INDEX_IN_ELEMENT_AT", class_index},
    {"CANNOT_PARSE_TIMESTAMP", class_datetime},
    {"CANNOT_PARSE_TIME", class_datetime},
    {"INVALID_FRACTION_OF_SECOND", class_datetime},
    {"DATETIME_FIELD_OUT_OF_BOUNDS", class_datetime},
    {"INVALID_TIMEZONE", class_datetime},
    {"INCONSISTENT_BEHAVIOR_CROSS_VERSION", class_upgrade},
    {"FAILED_READ_FILE.FILE_NOT_EXIST", class_file},
    {"UNRESOLVED_COLUMN", class_extended},
    {"UNRESOLVED_USING_COLUMN_FOR_JOIN", class_analysis},
    {"TABLE_OR_VIEW_NOT_FOUND", class_extended},
    {"TEMP_TABLE_OR_VIEW_ALREADY_EXISTS", class_temp_table},
    {"DATATYPE_MISMATCH", class_extended},
    {"MISSING_AGGREGATION", class_extended},
    {"MISSING_GROUP_BY", class_extended},
    {"GROUP_BY_AGGREGATE", class_extended},
    {"INCOMPATIBLE_COLUMN_TYPE", class_extended},
    {"NUM_COLUMNS_MISMATCH", class_extended},
    {"UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY", class_extended},
    {"SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN", class_analysis},
    {"CONFLICTING_PARTITION_COLUMN_NAMES", class_runtime},
    {"TASK_WRITE_FAILED", class_spark},
    {"USER_RAISED_EXCEPTION", class_runtime},
    {"SCALAR_SUBQUERY_TOO_MANY_ROWS", class_runtime},
    {"INTERNAL_ERROR", class_spark},
};

static bool condition_matches(const char *condition, const char *pattern) {
  size_t size = strlen(pattern);
  if (size && pattern[size - 1] == '*') return strncmp(condition, pattern, size - 1) == 0;
  return strncmp(condition, pattern, size) == 0 && (condition[size] == 0 || condition[size] == '.');
}

/* What a script itself does wrong, not its statements. */
static bool is_of_script(const char *condition) {
  static const char *const patterns[] = {
      "INVALID_LABEL_USAGE", "LABELS_MISMATCH", "LABEL_*", "END_LABEL_*", "INVALID_HANDLER_DECLARATION",
      "DUPLICATE_EXCEPTION_HANDLER", "DUPLICATE_CONDITION_IN_SCOPE", "INVALID_ERROR_CONDITION_DECLARATION",
      "INVALID_SQLSTATE", "INVALID_BOOLEAN_STATEMENT", "INVALID_VARIABLE_DECLARATION.ONLY_AT_BEGINNING",
      "INVALID_VARIABLE_DECLARATION.NOT_ALLOWED_IN_SCOPE", "UNSUPPORTED_FEATURE.CONTINUE_EXCEPTION_HANDLER",
      "UNSUPPORTED_FEATURE.SQL_CURSOR"};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (condition_matches(condition, patterns[i])) return true;
  return false;
}

/* CAST_INVALID_INPUT has three classes, by what was cast to. */
static const char *const *cast_classes(const trn_error *error) {
  const trn_error_param *params;
  size_t count = trn_error_params(error, &params);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(params[i].key, "targetType") != 0 || !params[i].value) continue;
    if (strstr(params[i].value, "DATE") || strstr(params[i].value, "TIME")) return class_datetime;
    if (strstr(params[i].value, "BOOLEAN")) return class_runtime;
  }
  return class_number;
}

/* Engines say only that a file cannot be read: Spark's condition is that of its footer where its schema was looked for. */
static const char *spark_condition(const trn_error *error, spark_phase phase) {
  const char *condition = trn_error_condition(error);
  if (!condition || strcmp(condition, "CANNOT_READ_FILE") != 0) return condition;
  return phase == SPARK_PHASE_EXECUTION ? "FAILED_READ_FILE.NO_HINT" : "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER";
}

static const char *const *error_classes(trn_status status, const trn_error *error, spark_phase phase) {
  const char *condition = spark_condition(error, phase);
  if (condition && strcmp(condition, "CAST_INVALID_INPUT") == 0) return cast_classes(error);
  if (condition && is_of_script(condition)) return class_script;
  if (condition && phase == SPARK_PHASE_PARSE) return class_parse;
  if (condition)
    for (size_t i = 0; i < sizeof classes_by_condition / sizeof *classes_by_condition; i++)
      if (condition_matches(condition, classes_by_condition[i].condition)) return classes_by_condition[i].classes;
  if (status == TRN_UNIMPLEMENTED) return condition ? class_spark_unsupported : class_unsupported;
  if (condition && phase == SPARK_PHASE_ANALYSIS) return class_analysis;
  if (condition) return class_runtime;
  const char *message = trn_error_message(error);
  if (message && strncmp(message, "requirement failed: ", 20) == 0) return class_argument; /* Scala's require */
  if (status == TRN_INVALID_ARGUMENT) return phase == SPARK_PHASE_PROTOCOL ? class_argument : class_analysis;
  return class_spark;
}

/* ---- texts ---- */

void spark__json_string(trn_strbuf *out, const char *text) {
  trn__strbuf_putc(out, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      trn__strbuf_putc(out, '\\');
      trn__strbuf_putc(out, (char)c);
    } else if (c == '\n') {
      trn__strbuf_puts(out, "\\n");
    } else if (c < 0x20) {
      trn__strbuf_printf(out, "\\u%04x", c);
    } else {
      trn__strbuf_putc(out, (char)c);
    }
  }
  trn__strbuf_putc(out, '"');
}

static const char *param_value(const trn_error *error, const char *key, size_t size) {
  const trn_error_param *params;
  size_t count = trn_error_params(error, &params);
  for (size_t i = 0; i < count; i++)
    if (strlen(params[i].key) == size && memcmp(params[i].key, key, size) == 0) return params[i].value;
  return NULL;
}

/* The template with its parameters filled in. False: one is missing (it stays as "<name>"). */
static bool render_template(trn_strbuf *out, const char *text, const trn_error *error) {
  bool complete = true;
  while (*text) {
    size_t plain = strcspn(text, "<");
    trn__strbuf_add(out, text, plain);
    text += plain;
    if (!*text) break;
    size_t name = strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    const char *value = text[1 + name] == '>' ? param_value(error, text + 1, name) : NULL;
    if (value) {
      trn__strbuf_puts(out, value);
      text += name + 2;
    } else {
      if (name && text[1 + name] == '>') complete = false;
      trn__strbuf_putc(out, *text++);
    }
  }
  return complete;
}

/* "[CONDITION] text SQLSTATE: 12345", or the bare message of an error without a condition. */
static void render_message(trn_strbuf *out, trn_status status, const trn_error *error, const char *condition,
                           const char *sqlstate) {
  const char *message = error ? trn_error_message(error) : "Out of memory";
  if (!condition) {
    trn__strbuf_puts(out, *message ? message : trn_status_name(status));
    return;
  }
  const char *text = NULL;
  trn_strbuf filled = {0};
  bool complete = spark__condition_find(condition, NULL, &text) && render_template(&filled, text, error);
  if (message[0] == '[' && !complete) {
    trn__strbuf_puts(out, message);
  } else {
    trn__strbuf_printf(out, "[%s] ", condition);
    if ((complete || !*message) && filled.data) {
      trn__strbuf_add(out, filled.data, filled.size);
    } else {
      trn__strbuf_puts(out, message);
    }
    if (sqlstate) trn__strbuf_printf(out, " SQLSTATE: %s", sqlstate);
  }
  if (filled.failed) out->failed = true;
  trn__strbuf_finish(&filled);
}

void spark__error_text(trn_strbuf *out, const trn_error *error) {
  const char *condition = trn_error_condition(error), *sqlstate = trn_error_sqlstate(error);
  if (condition && !sqlstate) spark__condition_find(condition, &sqlstate, NULL);
  render_message(out, trn_error_status(error), error, condition, sqlstate);
}

/* ---- positions ---- */

/* Line from 1 and column from 0 (in characters) of a byte offset. */
static void line_and_column(const char *sql, size_t offset, size_t *line, size_t *column) {
  *line = 1;
  *column = 0;
  for (size_t i = 0; i < offset; i++) {
    if (sql[i] == '\n') {
      ++*line;
      *column = 0;
    } else if (((unsigned char)sql[i] & 0xC0) != 0x80) {
      ++*column;
    }
  }
}

static void put_repeated(trn_strbuf *out, char c, size_t count) {
  while (count--) trn__strbuf_putc(out, c);
}

/* Spark's ParseException: the whole text with a mark under its line. */
static void render_parse_context(trn_strbuf *out, const char *sql, size_t start) {
  size_t line, column;
  line_and_column(sql, start, &line, &column);
  trn__strbuf_printf(out, " (line %zu, pos %zu)\n\n== SQL ==\n", line, column);
  size_t now = 1;
  for (const char *at = sql;; now++) {
    size_t size = strcspn(at, "\n");
    trn__strbuf_add(out, at, size);
    trn__strbuf_putc(out, '\n');
    if (now == line) {
      put_repeated(out, '-', column);
      trn__strbuf_puts(out, "^^^\n");
    }
    if (!at[size]) break;
    at += size + 1;
  }
}

/* Moves a byte offset back to where a character starts. */
static size_t character_start(const char *sql, size_t offset) {
  while (offset && ((unsigned char)sql[offset] & 0xC0) == 0x80) offset--;
  return offset;
}

/* Spark's SQLQueryContext.summary: the lines around [start, stop], at most 32 more bytes on each side, marked. */
static void render_summary(trn_strbuf *out, const char *sql, size_t size, size_t start, size_t stop) {
  enum { AROUND = 32 };
  size_t line, column;
  line_and_column(sql, start, &line, &column);
  trn__strbuf_printf(out, "== SQL (line %zu, position %zu) ==\n", line, column + 1);
  size_t from = start, to = stop + 1;
  while (from && sql[from - 1] != '\n') from--;
  while (to < size && sql[to] != '\n') to++;
  bool cut_left = start - from > AROUND, cut_right = to - stop > AROUND;
  if (cut_left) from = character_start(sql, start - AROUND);
  if (cut_right) to = character_start(sql, stop + AROUND);
  for (size_t at = from; at < to || at == from; at++) {
    size_t end = at;
    while (end < to && sql[end] != '\n') end++;
    bool first = at == from, last = end == to;
    if (first && cut_left) trn__strbuf_puts(out, "...");
    trn__strbuf_add(out, sql + at, end - at);
    if (last && cut_right) trn__strbuf_puts(out, "...");
    trn__strbuf_putc(out, '\n');
    if (first && cut_left) trn__strbuf_puts(out, "   ");
    for (size_t i = at; i < end && i <= stop; i++)
      if (((unsigned char)sql[i] & 0xC0) != 0x80) trn__strbuf_putc(out, i < start ? ' ' : '^');
    trn__strbuf_putc(out, '\n');
    at = end;
  }
}

/* ---- google.rpc.Status ---- */

typedef Google__Rpc__ErrorInfo__MetadataEntry metadata_entry;

static void add_metadata(trn_arena *arena, Google__Rpc__ErrorInfo *info, const char *key, const char *value) {
  if (!value || strlen(value) > ERROR_METADATA_BYTES_MAX) return;
  metadata_entry *entry = TRN_NEW(arena, metadata_entry);
  char *name = entry ? trn__arena_strdup(arena, key) : NULL;
  char *text = name ? trn__arena_strdup(arena, value) : NULL;
  if (!text) return; /* only the details suffer */
  google__rpc__error_info__metadata_entry__init(entry);
  entry->key = name;
  entry->value = text;
  info->metadata[info->n_metadata++] = entry;
}

/* The message cut to what fits into trailers beside `details_size` bytes: it travels twice, percent-encoded as
 * grpc-message and inside the details as base64. Cut at a character's start. */
static char *cut_message(trn_arena *arena, const char *message, size_t details_size) {
  size_t left = (size_t)ERROR_TRAILERS_BYTES_MAX * 3, used = details_size * 4; /* in thirds of a byte */
  size_t size = 0, chars = 0;
  for (; message[size]; size++) {
    unsigned char c = (unsigned char)message[size];
    used += 4 + (c < 0x20 || c > 0x7E || c == '%' ? 9 : 3);
    if (used > left || ((c & 0xC0) != 0x80 && ++chars > ERROR_MESSAGE_CHARS_MAX)) break;
  }
  if (message[size]) size = character_start(message, size);
  return trn__arena_str(arena, message, size);
}

static bool pack_details(spark_failure *failure) {
  trn_arena *arena = failure->arena;
  Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
  Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
  Google__Rpc__StatusAny any = GOOGLE__RPC__STATUS_ANY__INIT;
  metadata_entry *entries[8];
  trn_strbuf classes = {0}, params = {0};
  info.metadata = entries;
  info.reason = (char *)failure->classes[0];
  info.domain = "org.apache.spark";
  for (size_t i = 0; failure->classes[i]; i++) {
    trn__strbuf_putc(&classes, i ? ',' : '[');
    spark__json_string(&classes, failure->classes[i]);
  }
  trn__strbuf_putc(&classes, ']');
  trn__strbuf_putc(&params, '{');
  for (size_t i = 0; i < failure->param_count; i++) {
    if (i) trn__strbuf_putc(&params, ',');
    spark__json_string(&params, failure->params[i].key);
    trn__strbuf_putc(&params, ':');
    spark__json_string(&params, failure->params[i].value ? failure->params[i].value : "");
  }
  trn__strbuf_putc(&params, '}');
  bool done = false;
  if (!classes.failed && !params.failed) {
    add_metadata(arena, &info, "classes", classes.data);
    if (failure->condition) {
      add_metadata(arena, &info, "errorClass", failure->condition);
      add_metadata(arena, &info, "sqlState", failure->sqlstate);
      add_metadata(arena, &info, "messageParameters", params.data);
    }
    if (failure->error_id[0]) add_metadata(arena, &info, "errorId", failure->error_id);
    any.type_url = "type.googleapis.com/google.rpc.ErrorInfo";
    any.value.len = google__rpc__error_info__get_packed_size(&info);
    any.value.data = trn__arena_alloc(arena, any.value.len);
    failure->wire_message = cut_message(arena, failure->message, any.value.len);
    if (any.value.data && failure->wire_message) {
      google__rpc__error_info__pack(&info, any.value.data);
      Google__Rpc__StatusAny *details[] = {&any};
      status.code = TRN_INTERNAL;
      status.message = (char *)failure->wire_message;
      status.n_details = 1;
      status.details = details;
      failure->details_size = google__rpc__status__get_packed_size(&status);
      uint8_t *bytes = trn__arena_alloc(arena, failure->details_size);
      if (bytes) google__rpc__status__pack(&status, bytes);
      failure->details = bytes;
      done = bytes != NULL;
    }
  }
  trn__strbuf_finish(&classes);
  trn__strbuf_finish(&params);
  return done;
}

/* ---- failures ---- */

/* A copy of at most `most` bytes. */
static char *copy_bounded(trn_arena *arena, const char *text, size_t size, size_t most) {
  if (size > most) size = character_start(text, most);
  return trn__arena_str(arena, text, size);
}

static bool copy_params(spark_failure *failure, const trn_error *error) {
  const trn_error_param *params;
  size_t count = trn_error_params(error, &params);
  trn_kv *copies = TRN_NEW_N(failure->arena, trn_kv, count);
  if (!copies) return false;
  for (size_t i = 0; i < count; i++) {
    copies[i].key = trn__arena_strdup(failure->arena, params[i].key);
    const char *value = params[i].value ? params[i].value : "";
    copies[i].value = copy_bounded(failure->arena, value, strlen(value), ERROR_VALUE_BYTES_MAX);
    if (!copies[i].key || !copies[i].value) return false;
  }
  failure->params = copies;
  failure->param_count = count;
  return true;
}

/* {LINE:3} before the message */
static void render_line(trn_strbuf *message, const trn_error *error, const char *sql) {
  trn_position position;
  if (!sql || !trn_error_position(error, &position) || position.start < 0) return;
  size_t start = (size_t)position.start, line, column;
  if (start > strlen(sql)) return;
  line_and_column(sql, start, &line, &column);
  trn__strbuf_printf(message, "{LINE:%zu} ", line);
}

/* Adds what the position says to the message, in the form of the exception's class. */
static void render_context(spark_failure *failure, trn_strbuf *message, const trn_error *error, spark_phase phase,
                           const char *sql) {
  trn_position position;
  if (!sql || !trn_error_position(error, &position) || position.start < 0) return;
  size_t size = strlen(sql), start = (size_t)position.start, stop = start;
  if (start > size || failure->classes == class_script) return;
  if (position.stop > position.start) stop = (size_t)position.stop;
  if (failure->classes == class_parse) {
    render_parse_context(message, sql, start);
    return;
  }
  if (start >= size) return;
  if (stop >= size) stop = size - 1;
  trn_strbuf summary = {0};
  render_summary(&summary, sql, size, start, stop);
  if (phase == SPARK_PHASE_EXECUTION || failure->classes == class_arithmetic || failure->classes == class_number ||
      failure->classes == class_datetime || failure->classes == class_index || failure->classes == class_runtime) {
    trn__strbuf_putc(message, '\n');
    if (summary.data) trn__strbuf_add(message, summary.data, summary.size);
  } else {
    size_t line, column;
    line_and_column(sql, start, &line, &column);
    trn__strbuf_printf(message, "; line %zu pos %zu", line, column);
  }
  failure->has_context = true;
  failure->start = (int32_t)start;
  failure->stop = (int32_t)stop;
  failure->fragment = copy_bounded(failure->arena, sql + start, stop - start + 1, ERROR_VALUE_BYTES_MAX);
  failure->summary =
      copy_bounded(failure->arena, summary.data ? summary.data : "", summary.size, ERROR_VALUE_BYTES_MAX);
  if (summary.failed || !failure->fragment || !failure->summary) message->failed = true;
  trn__strbuf_finish(&summary);
}

spark_failure *spark__failure_create(trn_status status, const trn_error *error, spark_phase phase, const char *sql,
                                     bool is_kept) {
  trn_arena *arena = trn__arena_create_small(0);
  spark_failure *failure = arena ? TRN_NEW(arena, spark_failure) : NULL;
  trn_strbuf message = {0};
  bool done = false;
  if (failure) {
    failure->arena = arena;
    if (is_kept) trn__uuid4(failure->error_id);
    failure->classes = error_classes(status, error, phase);
    const char *condition = spark_condition(error, phase), *sqlstate = trn_error_sqlstate(error);
    if (condition && !sqlstate) spark__condition_find(condition, &sqlstate, NULL);
    failure->condition = condition ? trn__arena_strdup(arena, condition) : NULL;
    failure->sqlstate = sqlstate ? trn__arena_strdup(arena, sqlstate) : NULL;
    if (failure->classes == class_parse) trn__strbuf_putc(&message, '\n');
    if (failure->classes == class_script) render_line(&message, error, sql);
    render_message(&message, status, error, condition, sqlstate);
    if (error) render_context(failure, &message, error, phase, sql);
    /* Texts of others (paths, rows) may hold anything; a broken one would kill the client. */
    if (!message.failed && message.data && trn__utf8_is_valid(message.data, message.size)) {
      failure->message = copy_bounded(arena, message.data, message.size, ERROR_MESSAGE_BYTES_MAX);
    } else if (!message.failed) {
      failure->message = trn_status_name(status);
    }
    done = failure->message && (!error || copy_params(failure, error)) && pack_details(failure);
  }
  trn__strbuf_finish(&message);
  if (!done) trn__arena_unref(arena);
  return done ? failure : NULL;
}

spark_failure *spark__failure_ref(spark_failure *failure) {
  if (failure) trn__arena_ref(failure->arena);
  return failure;
}

void spark__failure_unref(spark_failure *failure) {
  if (failure) trn__arena_unref(failure->arena);
}

void spark__call_fail(trn_call *call, const spark_failure *failure) {
  if (failure) {
    trn_call_finish(call, TRN_INTERNAL, failure->wire_message, failure->details, failure->details_size, NULL, 0);
  } else {
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
  }
}
