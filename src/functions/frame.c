#include "functions/frame.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

trn_status fn__raise(const fn_report *report, const char *condition, ...) {
  va_list list;
  report->error->fail(report->error->self, TRN_INVALID_ARGUMENT, condition, NULL);
  va_start(list, condition);
  for (const char *key = va_arg(list, const char *); key; key = va_arg(list, const char *)) {
    const char *value = va_arg(list, const char *);
    report->error->add_param(report->error->self, key, value, strlen(value));
  }
  va_end(list);
  report->error->set_position(report->error->self, report->position);
  return TRN_INVALID_ARGUMENT;
}

void fn__param(const fn_report *report, const char *key, const char *value, size_t size) {
  report->error->add_param(report->error->self, key, value, size);
}

trn_status fn__raise_overflow(const fn_report *report, const char *message, const char *hint) {
  char alternative[128] = "";
  if (hint && hint[0])
    snprintf(alternative, sizeof alternative, " Use '%s' to tolerate overflow and return NULL instead.", hint);
  return fn__raise(report, "ARITHMETIC_OVERFLOW", "message", message, "alternative", alternative, "config", FN_CONFIG,
                   NULL);
}

trn_status fn__raise_out_of_memory(const fn_report *report) {
  report->error->fail(report->error->self, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory in a function");
  return TRN_RESOURCE_EXHAUSTED;
}

trn_status fn__mismatch(const fn_call *call) {
  char message[400], type[100];
  int used = snprintf(message, sizeof message, "%s does not take (", call->function->name);
  for (size_t i = 0; i < call->count && used > 0 && (size_t)used < sizeof message; i++) {
    fn__type_sql(&call->columns[i].type, type, sizeof type);
    used += snprintf(message + used, sizeof message - (size_t)used, "%s%s", i ? ", " : "", type);
  }
  if (used > 0 && (size_t)used + 2 < sizeof message) strcpy(message + used, ")");
  call->report.error->fail(call->report.error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

#define BIND(name, kind)                                                                                               \
  trn_status fn__bind_##name(fn_call *call, fn_type *out, struct ArrowSchema *schema) {                                \
    (void)call, (void)schema;                                                                                          \
    *out = fn__type(kind);                                                                                             \
    return TRN_OK;                                                                                                     \
  }
BIND(bool, FN_BOOL)
BIND(i32, FN_INT32)
BIND(i64, FN_INT64)
BIND(f64, FN_FLOAT64)
BIND(string, FN_STRING)
BIND(binary, FN_BINARY)
BIND(date, FN_DATE)

trn_status fn__bind_first(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  (void)schema;
  if (call->count == 0) return fn__mismatch(call);
  *out = call->columns[0].type;
  return TRN_OK;
}

static bool letter_matches(char letter, fn_kind kind) {
  switch (letter) {
  case 'b': return kind == FN_BOOL;
  case 'i': return kind == FN_INT32;
  case 'l': return kind == FN_INT64;
  case 'n': return fn__is_integer(kind);
  case 'g': return kind == FN_FLOAT64;
  case 'f': return kind == FN_FLOAT32 || kind == FN_FLOAT64;
  case 'd': return kind == FN_DECIMAL;
  case 's': return kind == FN_STRING;
  case 'z': return kind == FN_BINARY;
  case 't': return kind == FN_STRING || kind == FN_BINARY;
  case 'D': return kind == FN_DATE;
  case 'T': return kind == FN_TIMESTAMP;
  case 'N': return kind == FN_TIMESTAMP_NTZ;
  case 'Y': return kind == FN_YEAR_MONTH;
  case 'I': return kind == FN_DAY_TIME;
  case 'M': return kind == FN_TIMESTAMP || kind == FN_TIMESTAMP_NTZ;
  case 'L': return kind == FN_LIST;
  case '*': return true;
  default: return false;
  }
}

bool fn__args_are(const fn_call *call, const char *letters) {
  size_t i = 0;
  bool optional = false;
  for (; *letters; letters++) {
    if (*letters == '|') {
      optional = true;
      continue;
    }
    if (i == call->count) return optional;
    if (!letter_matches(*letters, (fn_kind)call->columns[i].type.kind)) return false;
    i++;
  }
  return i == call->count;
}

bool fn__literal_text(const fn_call *call, size_t index, fn_text *out) {
  const fn_column *column = &call->columns[index];
  if (!column->array || column->type.kind != FN_STRING || column->step != 0 || fn__is_null(column, 0)) return false;
  *out = fn__get_text(column, 0);
  return true;
}

static trn_status open_call(fn_call *call, const fn_scalar *function, const trn_function_arg *args, size_t count,
                            trn_function_error *error) {
  memset(call, 0, offsetof(fn_call, inline_columns));
  call->function = function;
  call->report = (fn_report){error, -1};
  if (function->flags & FN_POSITION) {
    fn_column position;
    if (count == 0) return fn__mismatch(call);
    const trn_function_arg *last = &args[--count];
    /* A literal; an engine that has lost that hands it over as a column, of no rows even. */
    trn_status status = fn__column_open(last->type, last->array, false, &position);
    if (status != TRN_OK || position.type.kind != FN_INT64) return fn__mismatch(call);
    if (position.array && position.array->length > 0 && !fn__is_null(&position, 0))
      call->report.position = fn__get_i64(&position, 0);
  }
  call->columns = call->inline_columns;
  if (count > FN_COLUMNS_INLINE) {
    call->columns = calloc(count, sizeof *call->columns);
    if (!call->columns) return fn__raise_out_of_memory(&call->report);
  }
  for (size_t i = 0; i < count; i++) {
    if (fn__column_open(args[i].type, args[i].array, args[i].is_scalar, &call->columns[i]) != TRN_OK)
      return fn__mismatch(call);
    call->count = i + 1;
  }
  return TRN_OK;
}

static void close_call(fn_call *call) {
  if (call->columns != call->inline_columns) free(call->columns);
  call->columns = NULL;
  fn__builder_clear(&call->out);
}

static bool can_be_null(const trn_function_arg *arg) {
  return (arg->type->flags & ARROW_FLAG_NULLABLE) || strcmp(arg->type->format, "n") == 0 ||
         (arg->array && arg->array->null_count != 0);
}

trn_status fn__bind(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                    struct ArrowSchema *out, trn_function_error *error) {
  const fn_scalar *scalar = function->data;
  fn_call call;
  fn_type type = {0};
  memset(out, 0, sizeof *out);
  trn_status status = open_call(&call, scalar, args, count, error);
  /* Columns must not be read in bind beyond literals: what is not a literal has no array. */
  for (size_t i = 0; i < call.count; i++) call.columns[i].step = 0;
  if (status == TRN_OK) status = scalar->bind(&call, &type, out);
  if (status == TRN_OK) {
    bool nullable = scalar->flags & FN_NULLABLE;
    for (size_t i = 0; i < call.count && !(scalar->flags & FN_NEVER_NULL); i++) nullable |= can_be_null(&args[i]);
    if (call.nullable) nullable = call.nullable > 0;
    if (out->release)
      out->flags = (out->flags & ~ARROW_FLAG_NULLABLE) | (nullable ? ARROW_FLAG_NULLABLE : 0);
    else
      status = fn__schema_make(out, &type, "", nullable);
    if (status == TRN_RESOURCE_EXHAUSTED) fn__raise_out_of_memory(&call.report);
  }
  if (status != TRN_OK && out->release) out->release(out);
  close_call(&call);
  return status;
}

static trn_status run_call(fn_call *call, int64_t rows) {
  const fn_scalar *scalar = call->function;
  fn_type type = {0};
  bool all_scalar = scalar->volatility != TRN_VOLATILE, some_rows = true;
  for (size_t i = 0; i < call->count; i++) {
    const fn_column *column = &call->columns[i];
    if (!column->array || (column->step && column->array->length < rows)) return fn__mismatch(call);
    all_scalar &= column->step == 0;
  }
  call->rows = all_scalar ? 1 : rows;
  trn_status status = scalar->bind(call, &type, NULL);
  if (status != TRN_OK) return status;
  if (!fn__builder_init(&call->out, &type, call->rows)) return fn__raise_out_of_memory(&call->report);
  for (size_t i = 0; i < call->count && (scalar->flags & FN_STRICT); i++)
    some_rows &= fn__and_validity(&call->out, &call->columns[i]);
  if (some_rows) return scalar->kernel(call);
  size_t width = fn__type_width((fn_kind)type.kind);
  if (width) memset(call->out.data, 0, width * (size_t)call->rows);
  /* Nested results need children even for nulls: the kernel makes them, every row is null to it. */
  return type.kind >= FN_LIST ? scalar->kernel(call) : TRN_OK;
}

trn_status fn__evaluate(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                        int64_t rows, struct ArrowArray *out, trn_function_error *error) {
  fn_call call;
  memset(out, 0, sizeof *out);
  trn_status status = open_call(&call, function->data, args, count, error);
  if (status == TRN_OK) status = run_call(&call, rows);
  if (status == TRN_OK && call.given.release) {
    *out = call.given;
  } else if (status == TRN_OK) {
    status = fn__builder_finish(&call.out, out);
    if (status == TRN_RESOURCE_EXHAUSTED) fn__raise_out_of_memory(&call.report);
  }
  close_call(&call);
  return status;
}
