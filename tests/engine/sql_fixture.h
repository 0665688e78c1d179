/* A session of the embedded backend whose tables are made by SQL; results as text. One program includes it. */
#ifndef TRN_TESTS_SQL_FIXTURE_H
#define TRN_TESTS_SQL_FIXTURE_H
#include "backend/embedded.h"
#include "conformance/puller.h"
#include "engine/lift.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/catalog.h>
#include <unistd.h>
#include <cmocka.h>

static trn_backend *backend;
static trn_session *session;

/* ---- arrays as text: equal texts for equal values ---- */

static inline bool is_set(const void *bits, int64_t i) { return !bits || (((const uint8_t *)bits)[i / 8] >> (i % 8) & 1); }

static inline int fixed_width(const char *format) {
  switch (format[0]) {
  case 'c':
  case 'C': return 1;
  case 's':
  case 'S':
  case 'e': return 2;
  case 'i':
  case 'I':
  case 'f': return 4;
  case 'l':
  case 'L':
  case 'g': return 8;
  case 'd': return 16;
  case 't':
    if (!strcmp(format, "tdD") || !strcmp(format, "tts") || !strcmp(format, "ttm") || !strcmp(format, "tiM")) return 4;
    return !strcmp(format, "tin") ? 16 : 8;
  default: return 0;
  }
}

static inline void put_cell(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *a, int64_t row);

static inline void put_list(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *a, int64_t at) {
  const int32_t *offsets = (const int32_t *)a->buffers[1] + at;
  trn__strbuf_putc(out, '[');
  for (int32_t i = offsets[0]; i < offsets[1]; i++) put_cell(out, schema->children[0], a->children[0], i);
  trn__strbuf_putc(out, ']');
}

static inline void put_cell(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *a, int64_t row) {
  const char *f = schema->format;
  int64_t at = a->offset + row;
  int width = fixed_width(f);
  if (f[0] == 'n' || (a->n_buffers && !is_set(a->buffers[0], at))) {
    trn__strbuf_puts(out, "null,");
    return;
  }
  if (f[0] == 'b') {
    trn__strbuf_puts(out, is_set(a->buffers[1], at) ? "true" : "false");
  } else if (f[0] == 'u' || f[0] == 'z') {
    const int32_t *offsets = (const int32_t *)a->buffers[1] + at;
    trn__strbuf_add(out, (const char *)a->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0]));
  } else if (f[0] == 'g') {
    trn__strbuf_printf(out, "%.10g", ((const double *)a->buffers[1])[at]);
  } else if (f[0] == 'l' || f[0] == 'L' || (width == 8 && f[0] == 't')) {
    trn__strbuf_printf(out, "%" PRId64, ((const int64_t *)a->buffers[1])[at]);
  } else if (width == 4 && f[0] != 'f') {
    trn__strbuf_printf(out, "%" PRId32, ((const int32_t *)a->buffers[1])[at]);
  } else if (width) {
    for (int i = width; i-- > 0;) trn__strbuf_printf(out, "%02x", ((const uint8_t *)a->buffers[1])[at * width + i]);
  } else if (!strcmp(f, "+l") || !strcmp(f, "+m")) {
    put_list(out, schema, a, at);
  } else if (!strcmp(f, "+s")) {
    trn__strbuf_putc(out, '{');
    for (int64_t c = 0; c < a->n_children; c++) put_cell(out, schema->children[c], a->children[c], at);
    trn__strbuf_putc(out, '}');
  } else {
    fail_msg("no text for format %s", f);
  }
  trn__strbuf_putc(out, ',');
}

static inline void put_batch(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *batch) {
  for (int64_t row = 0; row < batch->length; row++) {
    for (int64_t c = 0; c < batch->n_children; c++) put_cell(out, schema->children[c], batch->children[c], batch->offset + row);
    trn__strbuf_putc(out, '\n');
  }
}

/* ---- through the backend ---- */

static inline void fail_with(trn_status status, trn_error *error, const char *what) {
  fail_msg("%s: %s %s: %s", what, trn_status_name(status), error && trn_error_condition(error) ? trn_error_condition(error) : "",
           error ? trn_error_message(error) : "");
}

static inline trn_status decode(const char *sql, trn_statement *out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql,
                                .size = strlen(sql),
                                .resolve = trn_session_resolve_table,
                                .resolve_user = session};
  return trn_backend_decode_statement(session, &input, out, error);
}

/* All rows; free(). */
static inline char *drain(trn_operation *operation, const char *what) {
  trn_stream *stream = NULL;
  trn_error *error = NULL;
  struct ArrowSchema schema = {0};
  trn_strbuf out = {0};
  puller p;
  trn_status status = trn_operation_result_stream(operation, &stream, &error);
  if (!status) status = trn_stream_schema(stream, &schema, &error);
  if (status) fail_with(status, error, what);
  puller_init(&p);
  for (;;) {
    struct ArrowArray batch = {0};
    status = pull_array(&p, stream, &batch);
    if (status) fail_msg("%s: %s %s", what, trn_status_name(status), p.message);
    if (!batch.release) break;
    put_batch(&out, &schema, &batch);
    batch.release(&batch);
  }
  puller_finish(&p);
  schema.release(&schema);
  trn_stream_unref(stream);
  trn__strbuf_putc(&out, 0);
  return out.data;
}

static inline char *execute(trn_plan *plan, const char *what) {
  trn_error *error = NULL;
  trn_operation *operation = NULL;
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  trn_status status = trn_backend_execute(session, &request, &operation, &error);
  if (status) fail_with(status, error, what);
  char *text = drain(operation, what);
  trn_operation_unref(operation);
  return text;
}

/* A query's rows, or what a command says. */
static inline char *run_sql(const char *sql) {
  trn_statement statement;
  trn_error *error = NULL;
  trn_operation *operation = NULL;
  char *text = NULL;
  trn_status status = decode(sql, &statement, &error);
  if (status) fail_with(status, error, sql);
  if (statement.kind == TRN_STATEMENT_QUERY) {
    text = execute(statement.plan, sql);
  } else {
    assert_int_equal(statement.kind, TRN_STATEMENT_COMMAND);
    status = trn_command_execute(session, statement.command, &operation, NULL, NULL, &error);
    if (status) fail_with(status, error, sql);
    text = operation ? drain(operation, sql) : strdup("");
    trn_operation_unref(operation);
  }
  statement.release(&statement);
  return text;
}

static inline void run_all(const char *const *statements) {
  for (; *statements; statements++) free(run_sql(*statements));
}

/* ---- opening ---- */

static inline int open_session(void **state) {
  (void)state;
  trn_error *error = NULL;
  trn_embedded_options options = {.struct_size = sizeof options,
                                  .engine_path = getenv("TRUNNION_ENGINE"),
                                  .functions_path = getenv("TRUNNION_FUNCTIONS"),
                                  .threads = 2};
  trn_status status = trn_embedded_backend_create(&options, &backend, &error);
  if (!status) status = trn_session_open(backend, &(trn_session_request){.struct_size = sizeof(trn_session_request), .user = ""}, &session, &error);
  if (status) print_error("%s\n", error ? trn_error_message(error) : "no session");
  return status ? -1 : 0;
}

static inline int close_session(void **state) {
  (void)state;
  trn_session_unref(session);
  trn_backend_unref(backend);
  return 0;
}

#endif
