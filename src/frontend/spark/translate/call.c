/* Calls of functions by name: the lookup, the number of arguments, their implicit casts, and what most rows need: a
 * kernel or an operator called with them. Rows that need more have a builder in functions_*.c. */
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/values.h"
#include <stdio.h>
#include <strings.h>

#define ARGUMENTS_MAX 1000000 /* of one call; the wire's limits bound it before */

static const spark_function_table *const tables[] = {
    &spark__functions_operator, &spark__functions_condition, &spark__functions_aggregate, &spark__functions_string,
    &spark__functions_math,     &spark__functions_date,      &spark__functions_nested,    &spark__functions_window,
    &spark__functions_more,     &spark__functions_regex,     &spark__functions_array,
    &spark__functions_lambda,   &spark__functions_time,      &spark__functions_text,      &spark__functions_json,
    &spark__functions_list,     &spark__functions_various,   &spark__functions_format,
    &spark__functions_time_window,
};

static bool same_name(const char *row, const char *name, size_t size) {
  for (size_t i = 0; i < size; i++) {
    char c = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    char r = row[i] >= 'A' && row[i] <= 'Z' ? (char)(row[i] - 'A' + 'a') : row[i];
    if (r != c || !r) return false;
  }
  return row[size] == 0;
}

const spark_function *spark__function_find(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    for (size_t j = 0; j < tables[i]->count; j++)
      if (same_name(tables[i]->rows[j].name, name, size)) return &tables[i]->rows[j];
  return NULL;
}

bool spark__function_exists(const char *name) {
  const spark_function *row = spark__function_find(name, strlen(name));
  return (row && !(row->flags & SPARK_NO_NAMES)) || spark__function_is_known(name);
}

bool spark__function_is_served(const char *name) {
  const spark_function *row = spark__function_find(name, strlen(name));
  return row && !(row->flags & SPARK_NO_NAMES);
}

bool spark__function_is_aggregate(const char *name) {
  const spark_function *row = spark__function_find(name, strlen(name));
  return row && row->kind == SPARK_FUNCTION_AGGREGATE;
}

/* ---- pieces ---- */
bool spark__any_nullable(const trn_expr *const *args, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (args[i]->nullable) return true;
  return false;
}

const trn_expr *spark__position_literal(spark_translator *t, trn_position position) {
  int64_t value = -1;
  if (t->sql && position.start >= 0) value = ((int64_t)position.start << 32) | (uint32_t)position.stop;
  return trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), value);
}

const trn_expr *spark__zone_literal(spark_translator *t) {
  return trn__expr_string(t->arena, t->timezone, strlen(t->timezone));
}

trn_expr *spark__native(spark_translator *t, const char *name, const trn_type *type, const trn_expr *const *args,
                        size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!args[i]) return NULL;
  return trn__expr_call(t->arena, TRN_HOME_NATIVE, name, type, spark__any_nullable(args, count), args, count);
}

trn_expr *spark__kernel(spark_translator *t, const char *name, const trn_type *type, const trn_expr *const *args,
                        size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!args[i]) return NULL;
  return type ? trn__expr_call(t->arena, TRN_HOME_LIBRARY, name, type, spark__any_nullable(args, count), args, count)
              : NULL;
}

trn_expr *spark__kernel_with(spark_builder *b, const char *name, const trn_type *type, const trn_expr *const *args,
                             size_t count, unsigned flags) {
  const trn_expr **all = TRN_NEW_N(b->t->arena, const trn_expr *, count + 2);
  if (!all) return NULL;
  for (size_t i = 0; i < count; i++) all[i] = args[i];
  if (flags & SPARK_ZONE) all[count++] = spark__zone_literal(b->t);
  if (flags & SPARK_POSITION) all[count++] = spark__position_literal(b->t, b->call->position);
  return spark__kernel(b->t, name, type, all, count);
}

trn_expr *spark__moded(spark_builder *b, const char *stem, const trn_type *type, const trn_expr *const *args,
                       size_t count) {
  bool is_try = b->function->flags & SPARK_TRY || b->call->is_try;
  const char *name = stem;
  if (is_try || !b->t->ansi) name = trn__arena_printf(b->t->arena, is_try ? "%s_try" : "%s_wrap", stem);
  if (!name) return NULL;
  trn_expr *call = spark__kernel_with(b, name, type, args, count, is_try || !b->t->ansi ? 0 : SPARK_POSITION);
  if (call && is_try) call->nullable = true;
  return call;
}

trn_expr *spark__case(spark_translator *t, const trn_expr *const *args, size_t count, const trn_type *type) {
  bool nullable = count % 2 == 0;
  for (size_t i = 0; i < count; i++) {
    if (!args[i]) return NULL;
    if (i % 2 || i + 1 == count) nullable = nullable || args[i]->nullable;
  }
  return trn__expr_create(t->arena, TRN_EXPR_CASE, type, nullable, args, count);
}

trn_expr *spark__is_null(spark_translator *t, const trn_expr *expr, bool negated) {
  return trn__expr_call(t->arena, TRN_HOME_NATIVE, negated ? "is_not_null" : "is_null", trn__type(TRN_TYPE_BOOL), false,
                        &expr, 1);
}

trn_expr *spark__aggregate(spark_builder *b, const char *run, const trn_type *type, bool nullable,
                           const trn_expr *const *args, size_t count) {
  const spark_call *call = b->call;
  const trn_expr **all = TRN_NEW_N(b->t->arena, const trn_expr *, count + call->order_count + 1);
  if (!all || !type) return NULL;
  size_t n = 0;
  for (; n < count; n++)
    if (!(all[n] = args[n])) return NULL;
  for (size_t i = 0; i < call->order_count; i++) all[n++] = call->order[i].expr;
  if (call->filter) all[n++] = call->filter->expr;
  trn_expr *expr = trn__expr_create(b->t->arena, TRN_EXPR_AGGREGATE, type, nullable, all, n);
  if (!expr) return NULL;
  bool engine = run[0] == '@';
  expr->u.aggregate.name = engine ? run + 1 : run;
  expr->u.aggregate.home = engine ? TRN_HOME_ENGINE : TRN_HOME_LIBRARY;
  expr->u.aggregate.distinct = call->is_distinct;
  expr->u.aggregate.has_filter = call->filter != NULL;
  expr->u.aggregate.order_count = (uint32_t)call->order_count;
  expr->u.aggregate.order_flags = call->order_flags;
  return expr;
}

trn_status spark__gives(spark_builder *b, const trn_expr *expr, const trn_expr **out) {
  *out = expr;
  return expr ? TRN_OK : trn__no_memory(b->error);
}

const trn_type *spark__all_nullable(spark_translator *t, const trn_type *type, unsigned depth) {
  return trn__type_all_nullable(t->arena, type, depth);
}

/* ---- the row's letters ---- */
static void arity(const char *arguments, size_t *least, size_t *most) {
  size_t count = 0;
  bool optional = false;
  *least = 0;
  for (const char *p = arguments; *p; p++) {
    if (*p == '|') {
      optional = true;
      *least = count;
    } else if (*p == '+') {
      *most = ARGUMENTS_MAX;
      if (!optional) *least = count;
      return;
    } else {
      count++;
    }
  }
  if (!optional) *least = count;
  *most = count;
}

static char letter_at(const char *arguments, size_t index) {
  char last = 'a';
  for (const char *p = arguments; *p && *p != '+'; p++) {
    if (*p == '|') continue;
    last = *p;
    if (index-- == 0) return last;
  }
  return last;
}

static trn_status wrong_count(spark_builder *b, size_t least, size_t most) {
  char expected[128], actual[32];
  if (most == ARGUMENTS_MAX) {
    snprintf(expected, sizeof expected, "> %zu", least ? least - 1 : 0);
  } else if (least == most) {
    snprintf(expected, sizeof expected, "%zu", least);
  } else {
    int at = snprintf(expected, sizeof expected, "[%zu", least);
    for (size_t i = least + 1; i <= most && at < 100; i++)
      at += snprintf(expected + at, sizeof expected - (size_t)at, ", %zu", i);
    snprintf(expected + at, sizeof expected - (size_t)at, "]");
  }
  snprintf(actual, sizeof actual, "%zu", b->call->arg_count);
  const char *name = trn__arena_printf(b->t->arena, "`%s`", b->call->name);
  if (!name) return trn__no_memory(b->error);
  return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", b->call->position,
                      "functionName", name, "expectedNum", expected, "actualNum", actual, "docroot",
                      "https://spark.apache.org/docs/latest", (char *)NULL);
}

trn_status spark__argument_count(spark_translator *t, const spark_function *row, const spark_call *call,
                                 trn_error **error) {
  size_t least, most;
  arity(row->arguments, &least, &most);
  if (call->is_star || (call->arg_count >= least && call->arg_count <= most)) return TRN_OK;
  spark_builder b = {.t = t, .call = call, .function = row, .count = call->arg_count, .error = error};
  return wrong_count(&b, least, most);
}

/* All arguments of letter 'c' take their common type. */
static trn_status coerce_group(spark_builder *b) {
  size_t count = 0;
  const trn_type *type = NULL;
  const trn_expr **all = b->args, **some = TRN_NEW_N(b->t->arena, const trn_expr *, b->count + 1);
  size_t *where = TRN_NEW_N(b->t->arena, size_t, b->count + 1), total = b->count;
  if (!some || !where) return trn__no_memory(b->error);
  for (size_t i = 0; i < total; i++) {
    if (letter_at(b->function->arguments, i) != 'c') continue;
    where[count] = i;
    some[count++] = all[i];
  }
  if (!count) return TRN_OK;
  b->args = some;
  b->count = count;
  trn_status status = spark__coerce_common(b, 0, 1, &type);
  b->args = all;
  b->count = total;
  for (size_t i = 0; !status && i < count; i++) all[where[i]] = some[i];
  return status;
}

static trn_status coerce_letters(spark_builder *b) {
  const char *arguments = b->function->arguments;
  trn_status status = coerce_group(b);
  for (size_t i = 0; !status && i < b->count; i++) {
    char letter = letter_at(arguments, i);
    if (letter == 'a' || letter == 'c') continue;
    const trn_type *type = spark__implicit_type(b->t, b->args[i]->type, letter);
    if (!type) return spark__unexpected_input(b, i, spark__letter_text(letter), b->args[i]->type);
    if (letter == 'o' && !spark__is_orderable(type)) {
      const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name),
                 *text = spark__quoted_type(b->t, type);
      if (!name || !text) return trn__no_memory(b->error);
      return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", "functionName", name, "dataType", text,
                             (char *)NULL);
    }
    status = spark__coerce(b, i, type);
  }
  return status;
}

static const trn_type *result_type(spark_builder *b) {
  char letter = b->function->result[0];
  if (letter >= '1' && letter <= '9') return (size_t)(letter - '1') < b->count ? b->args[letter - '1']->type : NULL;
  if (letter == 'e') return b->args[0]->type->field_count ? b->args[0]->type->fields[0].type : NULL;
  if (letter == 'c') {
    for (size_t i = 0; i < b->count; i++)
      if (letter_at(b->function->arguments, i) == 'c') return b->args[i]->type;
    return NULL;
  }
  return spark__implicit_type(b->t, trn__type(TRN_TYPE_NULL), letter);
}

/* A row without a builder. */
static trn_status run_row(spark_builder *b, const trn_expr **out) {
  const spark_function *row = b->function;
  const trn_type *type = result_type(b);
  if (!type) return trn_error_set(b->error, TRN_INTERNAL, NULL, "The function %s has no result type here", row->name);
  trn_expr *expr = NULL;
  if (row->kind == SPARK_FUNCTION_AGGREGATE) {
    expr = spark__aggregate(b, row->run, type, !(row->flags & SPARK_NEVER_NULL), b->args, b->count);
  } else if (row->run[0] == '=') {
    expr = spark__native(b->t, row->run + 1, type, b->args, b->count);
  } else if (row->run[0] == '@') {
    expr = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, row->run + 1, type, spark__any_nullable(b->args, b->count),
                          b->args, b->count);
  } else if (row->flags & SPARK_LEGACY_NULL && !b->t->ansi) {
    const char *name = trn__arena_printf(b->t->arena, "%s_try", row->run);
    expr = name ? spark__kernel_with(b, name, type, b->args, b->count, row->flags & SPARK_ZONE) : NULL;
    if (expr) expr->nullable = true;
  } else if (row->flags & SPARK_MODE) {
    expr = spark__moded(b, row->run, type, b->args, b->count);
  } else {
    expr = spark__kernel_with(b, row->run, type, b->args, b->count, row->flags);
  }
  return spark__gives(b, expr, out);
}

/* ---- what only some kinds take ---- */
static trn_status unsupported_syntax(spark_builder *b, const char *syntax) {
  const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name);
  if (!name) return trn__no_memory(b->error);
  return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_SQL_SYNTAX.FUNCTION_WITH_UNSUPPORTED_SYNTAX",
                      b->call->position, "prettyName", name, "syntax", syntax, (char *)NULL);
}

static trn_status check_modifiers(spark_builder *b) {
  const spark_call *call = b->call;
  bool aggregate = b->function->kind == SPARK_FUNCTION_AGGREGATE;
  if (call->is_distinct && !aggregate) return unsupported_syntax(b, "DISTINCT");
  if (call->filter && !aggregate) return unsupported_syntax(b, "FILTER CLAUSE");
  if (call->is_star && strcmp(b->function->name, "count") != 0) {
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_USAGE_OF_STAR_OR_REGEX", call->position, "elem",
                        "'*'", "prettyName", b->function->name, (char *)NULL);
  }
  if (!aggregate) return TRN_OK;
  if (call->filter && call->filter->expr->type->id != TRN_TYPE_BOOL) {
    const char *sql = trn__arena_printf(b->t->arena, "\"%s\"", call->filter->name);
    const char *type = spark__quoted_type(b->t, call->filter->expr->type);
    if (!sql || !type) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_AGGREGATE_FILTER.NOT_BOOLEAN", call->position,
                        "filterExpr", sql, "filterType", type, (char *)NULL);
  }
  return TRN_OK;
}

static void finish_value(const spark_builder *b, trn_expr *expr, spark_value *out) {
  const spark_function *row = b->function;
  const spark_call *call = b->call;
  *out = (spark_value){.expr = expr,
                       .is_foldable = row->kind == SPARK_FUNCTION_SCALAR && !(row->flags & SPARK_VOLATILE),
                       .is_generator = row->kind == SPARK_FUNCTION_GENERATOR,
                       .is_window_function = row->kind == SPARK_FUNCTION_WINDOW,
                       .has_aggregate = row->kind == SPARK_FUNCTION_AGGREGATE};
  for (size_t i = 0; i < call->arg_count; i++) {
    out->is_foldable = out->is_foldable && call->args[i].is_foldable;
    out->has_aggregate = out->has_aggregate || call->args[i].has_aggregate;
  }
}

static trn_status unresolved(spark_translator *t, const spark_call *call, trn_error **error) {
  if (spark__function_is_known(call->name))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "The function '%s' is not supported yet", call->name);
  trn_strbuf text = {0};
  trn__strbuf_putc(&text, '`');
  for (const char *p = call->name; *p; p++) {
    if (*p == '`') trn__strbuf_putc(&text, '`');
    trn__strbuf_putc(&text, *p);
  }
  trn__strbuf_putc(&text, '`');
  const char *name = spark__finish_text(t, &text);
  if (!name) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_ROUTINE", call->position, "routineName", name,
                      "searchPath", "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]",
                      (char *)NULL);
}

enum { USED_FUNCTIONS = 2048 }; /* a power of two, well above the number of functions there are */

bool spark__note_function(spark_translator *t, const spark_function *row) {
  spark_state *state = spark__state(t);
  if (!state) return true; /* expressions alone */
  if (!state->used && !(state->used = TRN_NEW_N(t->arena, const spark_function *, USED_FUNCTIONS))) return false;
  size_t at = ((uintptr_t)row >> 4) * 0x9E3779B97F4A7C15ull >> 53;
  while (state->used[at] && state->used[at] != row) at = (at + 1) % USED_FUNCTIONS;
  if (state->used[at] || state->used_count >= USED_FUNCTIONS / 2) return true;
  state->used[at] = row;
  state->used_count++;
  return true;
}

trn_status spark__plan_functions(const spark_translator *t, trn_plan *plan) {
  const spark_state *state = t->state;
  size_t count = 0;
  if (!state || !state->used) return TRN_OK;
  const char **names = TRN_NEW_N(plan->arena, const char *, state->used_count);
  if (!names) return TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < USED_FUNCTIONS; i++)
    if (state->used[i]) names[count++] = state->used[i]->name;
  trn__plan_set_functions(plan, names, count);
  return TRN_OK;
}

trn_status spark__call(spark_translator *t, const spark_call *call, spark_value *out, trn_error **error) {
  const spark_function *row = spark__function_find(call->name, strlen(call->name));
  if (!row) row = spark__library_find(t, call->name);
  if (!row) return unresolved(t, call, error);
  if (!spark__note_function(t, row)) return trn__no_memory(error);
  spark_builder b = {.t = t, .call = call, .function = row, .count = call->arg_count, .error = error};
  trn_status status = check_modifiers(&b);
  if (!status) status = spark__argument_count(t, row, call, error);
  if (status) return status;
  b.args = TRN_NEW_N(t->arena, const trn_expr *, call->arg_count + 1);
  if (!b.args) return trn__no_memory(error);
  for (size_t i = 0; i < call->arg_count; i++) b.args[i] = call->args[i].expr;
  const trn_expr *made = NULL;
  if ((status = coerce_letters(&b))) return status;
  if ((status = row->build ? row->build(&b, &made) : run_row(&b, &made))) return status;
  trn_expr *expr = trn__arena_copy(t->arena, made, sizeof *made); /* builders may give an argument itself */
  if (!expr) return trn__no_memory(error);
  if (row->flags & SPARK_NULLABLE) expr->nullable = true;
  if (row->flags & SPARK_NEVER_NULL) expr->nullable = false;
  if (expr->kind == TRN_EXPR_CALL && row->flags & (SPARK_VOLATILE | SPARK_STABLE))
    expr->u.call.volatility = row->flags & SPARK_VOLATILE ? 2 : 1;
  if (call->position.start >= 0) expr->position = call->position;
  finish_value(&b, expr, out);
  out->name = spark__call_name(&b);
  return out->name ? TRN_OK : trn__no_memory(error);
}
