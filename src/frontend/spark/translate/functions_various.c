/* Functions about where and how a query runs, and generators of rows from values. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>
#include <strings.h>

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

/* ---- texts ---- */
/* str_to_map(text [, between pairs [, between key and value]]): both are patterns. */
static trn_status build_str_to_map(spark_builder *b, const trn_expr **out) {
  const trn_type *text = trn__type(TRN_TYPE_STRING);
  const trn_expr *marks[2] = {b->count > 1 ? b->args[1] : trn__expr_string(b->t->arena, ",", 1),
                              b->count > 2 ? b->args[2] : trn__expr_string(b->t->arena, ":", 1)};
  if (b->count < 3) b->name = b->count == 1 ? "str_to_map($1, ,, :)" : "str_to_map($1, $2, :)";
  const trn_type *texts = trn__type_array(b->t->arena, text, false);
  const trn_expr *split[2] = {b->args[0], marks[0]}, *parts = spark__kernel_with(b, "trn.split", texts, split, 2, SPARK_POSITION);
  trn_field fields[2] = {{.name = "key", .type = text, .nullable = false},
                         {.name = "value", .type = text, .nullable = true}};
  const trn_type *row = trn__type_struct(b->t->arena, fields, 2);
  const trn_type *list = row ? trn__type_array(b->t->arena, row, false) : NULL;
  const trn_type *map = trn__type_map(b->t->arena, text, text, true);
  const trn_expr *pairs[2] = {parts, marks[1]}, *made = spark__kernel(b->t, "trn.text_pairs", list, pairs, 2);
  const trn_expr *args[2] = {made, trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT64), -1)};
  return spark__gives(b, spark__kernel(b->t, "trn.map_from_entries", map, args, 2), out);
}

/* sentences(text [, language [, country]]): of English, whatever the locale. */
static trn_status build_sentences(spark_builder *b, const trn_expr **out) {
  const trn_type *words = trn__type_array(b->t->arena, trn__type(TRN_TYPE_STRING), false);
  const trn_type *type = words ? trn__type_array(b->t->arena, words, false) : NULL;
  if (b->count < 3) b->name = b->count == 1 ? "sentences($1, , )" : "sentences($1, $2, )";
  trn_expr *expr = spark__kernel(b->t, "trn.sentences", type, b->args, 1);
  return spark__gives(b, expr, out);
}

/* Every text has the one collation that there is here. */
static trn_status build_collation(spark_builder *b, const trn_expr **out) {
  if (!spark__is_string(b->args[0]->type) && b->args[0]->type->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, "\"STRING\"", b->args[0]->type);
  return spark__gives(b, trn__expr_string(b->t->arena, "SYSTEM.BUILTIN.UTF8_BINARY", 26), out);
}

static trn_status build_collate(spark_builder *b, const trn_expr **out) {
  const trn_expr *name = b->args[1];
  if (!spark__is_literal(name) || !spark__is_string(name->type) ||
      strcasecmp(name->u.literal.value.bytes.data, "utf8_binary") != 0)
    return spark__not_supported(b, "a collation other than UTF8_BINARY");
  trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  *out = b->args[0];
  return status;
}

/* ---- time_bucket(size, timestamp [, origin]) ---- */
static trn_status build_time_bucket(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[1]->type;
  if (!spark__is_interval(b->args[0]->type))
    return spark__unexpected_input(b, 0, "(\"INTERVAL YEAR TO MONTH\" or \"INTERVAL DAY TO SECOND\")", b->args[0]->type);
  if (!spark__is_timestamp(type))
    return spark__unexpected_input(b, 1, "(TIMESTAMP OR TIMESTAMP WITHOUT TIME ZONE)", type);
  const char *shown = type->id == TRN_TYPE_TIMESTAMP ? "TIMESTAMP" : "TIMESTAMP_NTZ";
  if (b->count == 2) b->name = trn__arena_printf(b->t->arena, "time_bucket($1, $2, %s '1970-01-01 00:00:00')", shown);
  const trn_expr *origin = b->count == 3 ? b->args[2] : trn__expr_int(b->t->arena, type, 0);
  if (b->count == 3) {
    trn_status status = spark__coerce(b, 2, type);
    if (status) return status;
    origin = b->args[2];
  }
  if (spark__is_literal(b->args[0]) && b->args[0]->u.literal.value.integer <= 0)
    return spark__mismatch(b, "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE", "exprName", "`bucketSize`", "valueRange",
                           "(0, inf)", "currentValue", b->call->args[0].name, (char *)NULL);
  if (!spark__is_literal(b->args[0])) return spark__not_supported(b, "a size that is not a literal");
  const trn_expr *args[4] = {b->args[0], b->args[1], origin, spark__zone_literal(b->t)};
  return spark__gives(b, spark__kernel(b->t, "trn.time_bucket", type, args, 4), out);
}

/* ---- arguments by name ---- */
typedef Spark__Connect__Expression expression;
#define PARAMETERS_MAX 5
static const struct {
  const char *function;
  const char *names[PARAMETERS_MAX], *usual[PARAMETERS_MAX]; /* usual: "" null */
} parameters[] = {{"explode", {"collection"}, {0}},
                  {"explode_outer", {"collection"}, {0}},
                  {"posexplode", {"collection"}, {0}},
                  {"posexplode_outer", {"collection"}, {0}},
                  {"inline", {"input"}, {0}},
                  {"inline_outer", {"input"}, {0}},
                  {"variant_explode", {"input"}, {0}},
                  {"variant_explode_outer", {"input"}, {0}},
                  {"count_min_sketch", {"column", "epsilon", "confidence", "seed"}, {0}},
                  {"mask", {"str", "upperChar", "lowerChar", "digitChar", "otherChar"}, {NULL, "X", "x", "n", ""}}};

static bool is_named(const expression *e) {
  return e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_NAMED_ARGUMENT_EXPRESSION;
}

static expression *usual_argument(spark_translator *t, const char *text) {
  expression *e = TRN_NEW(t->arena, expression);
  Spark__Connect__Expression__Literal *literal = TRN_NEW(t->arena, Spark__Connect__Expression__Literal);
  if (!e || !literal) return NULL;
  spark__connect__expression__init(e);
  spark__connect__expression__literal__init(literal);
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  e->literal = literal;
  literal->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING;
  literal->string = (char *)text;
  if (text[0]) return e;
  Spark__Connect__DataType *type = TRN_NEW(t->arena, Spark__Connect__DataType);
  Spark__Connect__DataType__String *string = TRN_NEW(t->arena, Spark__Connect__DataType__String);
  if (!type || !string) return NULL;
  spark__connect__data_type__init(type);
  spark__connect__data_type__string__init(string);
  type->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_STRING;
  type->string = string;
  literal->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL;
  literal->null = type;
  return e;
}

static trn_status unknown_parameter(spark_translator *t, const char *function, const char *name,
                                    const char *const *known, trn_position position, trn_error **error) {
  const char *routine = spark__quote(t, function), *argument = spark__quote(t, name ? name : "");
  trn_strbuf list = {0};
  for (size_t i = 0; i < PARAMETERS_MAX && known[i]; i++) trn__strbuf_printf(&list, "%s`%s`", i ? ", " : "", known[i]);
  const char *proposal = spark__finish_text(t, &list);
  if (!routine || !argument || !proposal) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRECOGNIZED_PARAMETER_NAME", position, "routineName", routine,
                      "argumentName", argument, "proposal", proposal, (char *)NULL);
}

trn_status spark__positional(spark_translator *t, const char *function, expression *const *arguments, size_t count,
                             trn_position position, expression *const **out, size_t *out_count, trn_error **error) {
  size_t f = 0, width = 0, last = 0;
  bool any = false;
  *out = arguments;
  *out_count = count;
  for (size_t i = 0; i < count; i++) any = any || is_named(arguments[i]);
  if (!any) return TRN_OK;
  while (f < sizeof parameters / sizeof *parameters && strcasecmp(parameters[f].function, function) != 0) f++;
  if (f == sizeof parameters / sizeof *parameters) {
    const char *name = spark__quote(t, function);
    if (!name) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "NAMED_PARAMETERS_NOT_SUPPORTED", position, "functionName",
                        name, (char *)NULL);
  }
  while (width < PARAMETERS_MAX && parameters[f].names[width]) width++;
  expression **slots = TRN_NEW_N(t->arena, expression *, PARAMETERS_MAX);
  if (!slots) return trn__no_memory(error);
  if (count > width) return TRN_OK; /* the call says how many there may be */
  for (size_t i = 0; i < count; i++) {
    size_t at = i;
    if (is_named(arguments[i])) {
      const char *key = arguments[i]->named_argument_expression->key;
      for (at = 0; at < width && (!key || strcasecmp(parameters[f].names[at], key) != 0);) at++;
      if (at == width || slots[at])
        return unknown_parameter(t, function, key, parameters[f].names, position, error);
    }
    slots[at] = is_named(arguments[i]) ? arguments[i]->named_argument_expression->value : arguments[i];
    if (!slots[at]) return unknown_parameter(t, function, "", parameters[f].names, position, error);
    last = at + 1 > last ? at + 1 : last;
  }
  for (size_t i = 0; i < last; i++) {
    if (slots[i]) continue;
    const char *name = parameters[f].names[i], *routine = spark__quote(t, function), *argument = spark__quote(t, name);
    if (!routine || !argument) return trn__no_memory(error);
    if (!parameters[f].usual[i])
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "REQUIRED_PARAMETER_NOT_FOUND", position, "routineName",
                          routine, "parameterName", argument, "index", "0", (char *)NULL);
    if (!(slots[i] = usual_argument(t, parameters[f].usual[i]))) return trn__no_memory(error);
  }
  *out = slots;
  *out_count = last;
  return TRN_OK;
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
    {"str_to_map", "s|ss", NULL, NULL, build_str_to_map, NULL, 0, 0},
    {"sentences", "s|ss", NULL, NULL, build_sentences, NULL, SPARK_NULLABLE, 0},
    {"collation", "a", NULL, NULL, build_collation, NULL, SPARK_NEVER_NULL, 0},
    {"collate", "aa", NULL, NULL, build_collate, NULL, 0, 0},
    {"time_bucket", "aa|a", NULL, NULL, build_time_bucket, NULL, 0, 0},
    {"stack", "a+", NULL, NULL, build_stack, NULL, 0, GENERATOR},
    {"json_tuple", "aa+", NULL, NULL, build_json_tuple, NULL, 0, GENERATOR},
};
const spark_function_table spark__functions_various = {rows, sizeof rows / sizeof rows[0]};
