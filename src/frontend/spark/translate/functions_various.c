/* Functions about where and how a query runs, and generators of rows from values. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

/* ---- assert_true(condition [, message]): null, or the error ---- */
static trn_status build_assert_true(spark_builder *b, const trn_expr **out) {
  const trn_type *none = trn__type(TRN_TYPE_NULL);
  const char *text = trn__arena_printf(b->t->arena, "'%s' is not true!", b->call->args[0].name);
  if (!text) return trn__no_memory(b->error);
  const trn_expr *message = trn__expr_string(b->t->arena, text, strlen(text));
  b->name = trn__arena_printf(b->t->arena, "assert_true($1, %s)", b->count == 2 ? b->call->args[1].name : text);
  if (b->count == 2) {
    trn_status status = spark__coerce(b, 1, trn__type(TRN_TYPE_STRING));
    if (status) return status;
    message = b->args[1];
  }
  const trn_expr *args[2] = {message, trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT64), -1)}; /* shows no text */
  trn_expr *raise = spark__kernel(b->t, "trn.raise_error", none, args, 2);
  if (!raise || !b->name) return trn__no_memory(b->error);
  raise->nullable = true;
  raise->u.call.volatility = 2;
  const trn_expr *branches[3] = {b->args[0], trn__expr_null(b->t->arena, none), raise};
  return spark__gives(b, spark__case(b->t, branches, 3, none), out);
}

/* ---- constants ---- */
static trn_status build_constant(spark_builder *b, const trn_expr **out) {
  const char *text = b->function->run;
  const trn_expr *expr = NULL;
  if (text[0] == '#')
    expr = trn__expr_int(b->t->arena, trn__type(text[1] == 'l' ? TRN_TYPE_INT64 : TRN_TYPE_INT32), atoi(text + 2));
  else
    expr = trn__expr_string(b->t->arena, text, strlen(text));
  return spark__gives(b, expr, out);
}

/* input_file_name() and kin, where no file is read. */
static trn_status build_input_file(spark_builder *b, const trn_expr **out) {
  if (spark__state(b->t)->reads_files) return spark__not_supported(b, "a query that reads files");
  return build_constant(b, out);
}

/* monotonically_increasing_id(): rows of one partition are numbered from 0. */
static trn_status build_sequence_id(spark_builder *b, const trn_expr **out) {
  spark_value value;
  trn_status status = spark__sequence_id(b->t, &value, b->error);
  *out = status ? NULL : value.expr;
  return status;
}

/* ---- generators of several columns: the CALL carries an array of structs, which `inline` takes apart ---- */
static trn_status generate_rows(spark_builder *b, const trn_expr *const *cells, size_t height, size_t width,
                                const char *prefix, const trn_expr **out) {
  trn_field *fields = TRN_NEW_N(b->t->arena, trn_field, width);
  const trn_expr **rows = TRN_NEW_N(b->t->arena, const trn_expr *, height),
                 **args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * width);
  if (!fields || !rows || !args) return trn__no_memory(b->error);
  for (size_t c = 0; c < width; c++) {
    const char *name = trn__arena_printf(b->t->arena, "%s%zu", prefix, c);
    if (!name) return trn__no_memory(b->error);
    fields[c] = (trn_field){.name = name, .type = cells[c]->type, .nullable = true};
  }
  const trn_type *row = trn__type_struct(b->t->arena, fields, width);
  const trn_type *list = row ? trn__type_array(b->t->arena, row, false) : NULL;
  if (!list) return trn__no_memory(b->error);
  for (size_t r = 0; r < height; r++) {
    for (size_t c = 0; c < width; c++) {
      args[2 * c] = trn__expr_string(b->t->arena, fields[c].name, strlen(fields[c].name));
      args[2 * c + 1] = cells[r * width + c];
      if (!args[2 * c]) return trn__no_memory(b->error);
    }
    rows[r] = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "named_struct", row, false, args, 2 * width);
    args = TRN_NEW_N(b->t->arena, const trn_expr *, 2 * width);
    if (!rows[r] || !args) return trn__no_memory(b->error);
  }
  const trn_expr *all = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "make_array", list, false, rows, height);
  if (!all) return trn__no_memory(b->error);
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_LIBRARY, b->function->name, row, true, &all, 1), out);
}

#define STACK_ROWS_MAX 100000
static trn_status bad_stack(spark_builder *b, int64_t n) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)n);
  return spark__mismatch(b, "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE", "exprName", "`n`", "valueRange", "(0, 2147483647]",
                         "currentValue", text, (char *)NULL);
}

/* All values of a column have the first one's type; nulls take it. */
static trn_status stack_column(spark_builder *b, size_t column, size_t width, const trn_type **out) {
  size_t first = 0;
  *out = trn__type(TRN_TYPE_NULL);
  for (size_t i = 1 + column; i < b->count; i += width) {
    const trn_type *type = b->args[i]->type;
    if (type->id == TRN_TYPE_NULL) continue;
    if (!first) {
      first = i;
      *out = type;
    } else if (!trn__type_same_shape(type, *out)) {
      char index[32], at[2][32];
      snprintf(index, sizeof index, "%zu", column);
      snprintf(at[0], sizeof at[0], "%zu", first);
      snprintf(at[1], sizeof at[1], "%zu", i);
      const char *left = spark__quoted_type(b->t, *out), *right = spark__quoted_type(b->t, type);
      if (!left || !right) return trn__no_memory(b->error);
      return spark__mismatch(b, "DATATYPE_MISMATCH.STACK_COLUMN_DIFF_TYPES", "columnIndex", index, "leftParamIndex",
                             at[0], "leftType", left, "rightParamIndex", at[1], "rightType", right, (char *)NULL);
    }
  }
  return TRN_OK;
}

static trn_status build_stack(spark_builder *b, const trn_expr **out) {
  const trn_expr *count = b->args[0];
  if (b->count < 2 || !spark__is_literal(count) || !trn__type_is_integer(count->type))
    return spark__not_supported(b, "a number of rows that is not a literal");
  int64_t n = count->u.literal.value.integer;
  if (n <= 0) return bad_stack(b, n);
  if (n > STACK_ROWS_MAX) return spark__not_supported(b, "this many rows");
  size_t height = (size_t)n, width = (b->count - 1 + height - 1) / height;
  const trn_expr **cells = TRN_NEW_N(b->t->arena, const trn_expr *, height * width);
  if (!cells) return trn__no_memory(b->error);
  for (size_t c = 0; c < width; c++) {
    const trn_type *type = NULL;
    trn_status status = stack_column(b, c, width, &type);
    for (size_t r = 0; r < height && !status; r++) {
      size_t at = 1 + r * width + c;
      const trn_expr *cell = at < b->count ? b->args[at] : NULL;
      if (!cell || cell->type->id == TRN_TYPE_NULL) cell = trn__expr_null(b->t->arena, type);
      if (!(cells[r * width + c] = cell)) return trn__no_memory(b->error);
    }
    if (status) return status;
  }
  return generate_rows(b, cells, height, width, "col", out);
}

/* json_tuple(text, names...): one row of the texts of these fields. */
static trn_status build_json_tuple(spark_builder *b, const trn_expr **out) {
  const trn_expr **cells = TRN_NEW_N(b->t->arena, const trn_expr *, b->count);
  const trn_type *text = trn__type(TRN_TYPE_STRING);
  if (!cells) return trn__no_memory(b->error);
  for (size_t i = 0; i < b->count; i++)
    if (!spark__is_string(b->args[i]->type))
      return spark__mismatch(b, "DATATYPE_MISMATCH.NON_STRING_TYPE", "funcName", "`json_tuple`", (char *)NULL);
  for (size_t i = 1; i < b->count; i++) {
    const trn_expr *args[2] = {b->args[0], b->args[i]};
    trn_expr *field = spark__kernel(b->t, "trn.json_field", text, args, 2);
    if (!field) return trn__no_memory(b->error);
    field->nullable = true;
    cells[i - 1] = field;
  }
  return generate_rows(b, cells, 1, b->count - 1, "c", out);
}

#define GENERATOR SPARK_FUNCTION_GENERATOR
static const spark_function rows[] = {
    {"assert_true", "B|a", NULL, NULL, build_assert_true, NULL, SPARK_NULLABLE | SPARK_VOLATILE, 0},
    {"version", "", NULL, "4.2.0 32f7299601108917fb01920a54e084595b7b3bf8", build_constant, NULL, SPARK_NEVER_NULL, 0},
    {"current_path", "", NULL, "system.builtin,system.session,spark_catalog.default", build_constant, NULL,
     SPARK_NEVER_NULL, 0},
    {"input_file_name", "", NULL, "", build_input_file, NULL, SPARK_NEVER_NULL, 0},
    {"input_file_block_start", "", NULL, "#l-1", build_input_file, NULL, SPARK_NEVER_NULL, 0},
    {"input_file_block_length", "", NULL, "#l-1", build_input_file, NULL, SPARK_NEVER_NULL, 0},
    {"spark_partition_id", "", NULL, "#i0", build_constant, "SPARK_PARTITION_ID()", SPARK_NEVER_NULL, 0},
    {"monotonically_increasing_id", "", NULL, NULL, build_sequence_id, NULL, SPARK_NEVER_NULL, 0},
    {"stack", "a+", NULL, NULL, build_stack, NULL, 0, GENERATOR},
    {"json_tuple", "aa+", NULL, NULL, build_json_tuple, NULL, 0, GENERATOR},
};
const spark_function_table spark__functions_various = {rows, sizeof rows / sizeof rows[0]};
