/* window(time, ...) and session_window(time, gap): columns that a relation gets below the query that names them. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};
typedef Spark__Connect__Expression expression;
typedef Spark__Connect__Expression__UnresolvedFunction call_message;

#define SEARCH_DEPTH_MAX 32

/* ---- finding the call ---- */
static const call_message *find(const expression *e, unsigned depth) {
  if (!e || depth > SEARCH_DEPTH_MAX) return NULL;
  switch (e->expr_type_case) {
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS: return e->alias ? find(e->alias->expr, depth + 1) : NULL;
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_EXTRACT_VALUE:
    return e->unresolved_extract_value ? find(e->unresolved_extract_value->child, depth + 1) : NULL;
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION: break;
  default: return NULL;
  }
  const call_message *f = e->unresolved_function;
  const char *name = f->function_name ? f->function_name : "";
  if ((strcasecmp(name, "window") == 0 || strcasecmp(name, "session_window") == 0) && f->n_arguments >= 2) return f;
  for (size_t i = 0; i < f->n_arguments; i++) {
    const call_message *found = find(f->arguments[i], depth + 1);
    if (found) return found;
  }
  return NULL;
}

/* ---- durations ---- */
static const struct {
  const char *name;
  int64_t us;
} units[] = {{"week", INT64_C(604800000000)}, {"day", INT64_C(86400000000)}, {"hour", INT64_C(3600000000)},
             {"minute", 60000000},            {"second", 1000000},           {"millisecond", 1000},
             {"microsecond", 1}};

static int64_t unit_of(const char *text, size_t size) {
  if (size > 1 && (text[size - 1] == 's' || text[size - 1] == 'S')) size--;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i].name) == size && strncasecmp(units[i].name, text, size) == 0) return units[i].us;
  return 0;
}

/* "1 hour 30 minutes" with or without "interval"; false: something else, months too. */
static bool read_duration(const char *p, int64_t *out) {
  bool any = false;
  *out = 0;
  while (*p == ' ') p++;
  if (strncasecmp(p, "interval ", 9) == 0) p += 9;
  while (*p) {
    char *end;
    while (*p == ' ') p++;
    if (!*p) break;
    long long number = strtoll(p, &end, 10);
    if (end == p || *end != ' ') return false;
    for (p = end; *p == ' ';) p++;
    const char *word = p;
    while (*p && *p != ' ') p++;
    int64_t us = unit_of(word, (size_t)(p - word)), part;
    if (!us || __builtin_mul_overflow((int64_t)number, us, &part) || __builtin_add_overflow(*out, part, out))
      return false;
    any = true;
  }
  return any;
}

static trn_status duration(spark_translator *t, const expression *e, int64_t *out, trn_error **error) {
  spark_value value;
  trn_status status = spark__expression(t, e, &value, error);
  if (status != TRN_OK) return status;
  if (!spark__is_literal(value.expr) || !spark__is_string(value.expr->type))
    return spark__unimplemented(t, spark__position(t, e), error, "A window's size that is not a literal text");
  const char *text = value.expr->u.literal.value.bytes.data;
  if (read_duration(text, out)) return TRN_OK;
  const char *quoted = trn__arena_printf(t->arena, "'%s'", text);
  if (!quoted) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_PARSE_INTERVAL", NOWHERE, "intervalString", quoted,
                      (char *)NULL);
}

/* ---- the column ---- */
static const trn_type *span_type(spark_translator *t, const trn_type *time) {
  trn_field fields[2] = {{.name = "start", .type = time, .nullable = true},
                         {.name = "end", .type = time, .nullable = true}};
  return trn__type_struct(t->arena, fields, 2);
}

/* The relation shows one more column. */
static trn_status show(spark_translator *t, spark_relation *relation, const trn_rel *rel, const trn_expr *column,
                       const char *name, trn_error **error) {
  const spark_scope *scope = relation->scope;
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, (size_t)scope->count + 1);
  if (!columns) return trn__no_memory(error);
  if (scope->count) memcpy(columns, scope->columns, scope->count * sizeof *columns);
  columns[scope->count] = (spark_column){.expr = column, .name = name};
  spark_scope *made = spark__scope_create(t, columns, (size_t)scope->count + 1);
  if (!made) return trn__no_memory(error);
  made->below = scope->below;
  made->begin = scope->begin;
  made->end = scope->end;
  relation->rel = rel;
  relation->scope = made;
  spark__state(t)->time_window = column;
  return TRN_OK;
}

static trn_status check_sizes(spark_translator *t, const spark_value *time, const int64_t sizes[3], trn_error **error) {
  char window[32], slide[32];
  snprintf(window, sizeof window, "%lldL", (long long)sizes[0]);
  snprintf(slide, sizeof slide, "%lldL", (long long)sizes[1]);
  const char *shown = trn__arena_printf(t->arena, "\"window(%s, %lld, %lld, %lld)\"", time->name, (long long)sizes[0],
                                        (long long)sizes[1], (long long)sizes[2]);
  if (!shown) return trn__no_memory(error);
  for (int i = 0; i < 2; i++)
    if (sizes[i] <= 0)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE", NOWHERE, "sqlExpr",
                          shown, "exprName", i ? "`slide_duration`" : "`window_duration`", "valueRange",
                          "(0, 9223372036854775807]", "currentValue", i ? slide : window, (char *)NULL);
  if (sizes[1] <= sizes[0]) return TRN_OK;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION", NOWHERE,
                      "sqlExpr", shown, "leftExprName", "`slide_duration`", "leftExprValue", slide, "constraint", "<=",
                      "rightExprName", "`window_duration`", "rightExprValue", window, (char *)NULL);
}

static trn_status tumbling(spark_translator *t, spark_relation *relation, const call_message *call,
                           const spark_value *value, const trn_expr *time, trn_error **error) {
  int64_t sizes[3] = {0, 0, 0};
  trn_status status = TRN_OK;
  for (size_t i = 1; i < call->n_arguments && i < 4 && status == TRN_OK; i++)
    status = duration(t, call->arguments[i], &sizes[i - 1], error);
  if (status != TRN_OK) return status;
  if (call->n_arguments < 3) sizes[1] = sizes[0];
  if ((status = check_sizes(t, value, sizes, error)) != TRN_OK) return status;
  const trn_type *wide = trn__type(TRN_TYPE_INT64), *span = span_type(t, time->type),
                 *list = span ? trn__type_array(t->arena, span, false) : NULL;
  const trn_expr *args[4] = {time};
  for (size_t i = 0; i < 3; i++) args[1 + i] = trn__expr_int(t->arena, wide, sizes[i]);
  trn_expr *windows = spark__kernel(t, "trn.time_windows", list, args, 4);
  const trn_rel *input = relation->rel;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, (size_t)input->column_count + 1);
  if (!windows || !columns) return trn__no_memory(error);
  windows->nullable = false;
  if (input->column_count) memcpy(columns, input->columns, input->column_count * sizeof *columns);
  trn_column *own = &columns[input->column_count];
  *own = (trn_column){.id = t->next_column++, .type = span, .nullable = false};
  const trn_expr *list_expr = windows;
  trn_rel *made = trn__rel_create(t->arena, TRN_REL_UNNEST, &input, 1, &list_expr, 1, columns,
                                  (size_t)input->column_count + 1);
  const trn_expr *column = made ? trn__expr_column(t->arena, own) : NULL;
  return column ? show(t, relation, made, column, "window", error) : trn__no_memory(error);
}

/* ---- sessions: runs of rows, by the other keys, in which no gap is longer ---- */
typedef struct session {
  spark_translator *t;
  trn_error **error;
  const trn_rel *rel;
  const trn_expr **keys; /* the other group keys */
  size_t key_count;
} session;

/* function(value) OVER (PARTITION BY keys, extra ORDER BY order ROWS up to `end`). */
static const trn_expr *over(session *s, const char *function, const trn_expr *value, const trn_expr *extra,
                            const trn_expr *order, trn_frame_bound_kind end) {
  spark_translator *t = s->t;
  size_t parts = s->key_count + (extra != NULL), count = 1 + parts + (order != NULL);
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_sort_flags *flags = TRN_NEW_N(t->arena, trn_sort_flags, 1);
  trn_expr *call = value ? trn__expr_create(t->arena, TRN_EXPR_AGGREGATE, value->type, true, &value, 1) : NULL;
  if (!args || !flags || !call) return NULL;
  call->u.aggregate.name = function;
  call->u.aggregate.home = TRN_HOME_ENGINE;
  args[0] = call;
  for (size_t i = 0; i < s->key_count; i++) args[1 + i] = s->keys[i];
  if (extra) args[1 + s->key_count] = extra;
  if (order) args[1 + parts] = order;
  flags[0] = (trn_sort_flags){false, true};
  trn_expr *window = trn__expr_create(t->arena, TRN_EXPR_WINDOW, value->type, true, args, count);
  if (!window) return NULL;
  window->u.window.partition_count = (uint32_t)parts;
  window->u.window.order_count = order != NULL;
  window->u.window.order_flags = flags;
  window->u.window.unit = TRN_FRAME_ROWS;
  window->u.window.start_kind = TRN_BOUND_UNBOUNDED_PRECEDING;
  window->u.window.end_kind = (uint8_t)end;
  if (end == TRN_BOUND_PRECEDING) window->u.window.end = trn__expr_int(t->arena, trn__type(TRN_TYPE_INT64), 1);
  return window;
}

/* The expressions as further columns of the relation; each becomes its column. */
static trn_status add_columns(session *s, const trn_expr **exprs, size_t count) {
  spark_translator *t = s->t;
  trn_status status = spark__lift_windows(t, &s->rel, exprs, count, s->error);
  if (status != TRN_OK) return status;
  const trn_rel *input = s->rel;
  size_t total = (size_t)input->column_count + count;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, total);
  const trn_expr **all = TRN_NEW_N(t->arena, const trn_expr *, total);
  if (!columns || !all) return trn__no_memory(s->error);
  for (size_t i = 0; i < input->column_count; i++) {
    columns[i] = input->columns[i];
    if (!(all[i] = trn__expr_column(t->arena, &columns[i]))) return trn__no_memory(s->error);
  }
  for (size_t i = 0; i < count; i++) {
    size_t at = input->column_count + i;
    columns[at] = (trn_column){.id = t->next_column++, .type = exprs[i]->type, .nullable = exprs[i]->nullable};
    all[at] = exprs[i];
    if (!(exprs[i] = trn__expr_column(t->arena, &columns[at]))) return trn__no_memory(s->error);
  }
  s->rel = trn__rel_create(t->arena, TRN_REL_PROJECT, &input, 1, all, total, columns, total);
  return s->rel ? TRN_OK : trn__no_memory(s->error);
}

static trn_status sessions(session *s, spark_relation *relation, const call_message *call, const trn_expr *time) {
  spark_translator *t = s->t;
  int64_t gap = 0;
  trn_status status = duration(t, call->arguments[1], &gap, s->error);
  if (status != TRN_OK) return status;
  if (gap <= 0) return spark__unimplemented(t, NOWHERE, s->error, "A session's gap that is not positive");
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL), *wide = trn__type(TRN_TYPE_INT64);
  const trn_expr *step[2] = {time, trn__expr_int(t->arena, trn__type(TRN_TYPE_INTERVAL_DAY_TIME), gap)};
  const trn_expr *ends = spark__kernel(t, "trn.timestamp_add_dt", time->type, step, 2);
  const trn_expr *known = spark__is_null(t, time, true);
  trn_rel *kept = known ? trn__rel_filter(t->arena, relation->rel, known) : NULL;
  if (!ends || !kept) return trn__no_memory(s->error);
  s->rel = kept;
  const trn_expr *span[2] = {time, ends};
  if ((status = add_columns(s, span, 2)) != TRN_OK) return status;
  const trn_expr *latest = over(s, "max", span[1], NULL, span[0], TRN_BOUND_PRECEDING);
  if (!latest) return trn__no_memory(s->error);
  if ((status = add_columns(s, &latest, 1)) != TRN_OK) return status;
  const trn_expr *apart[2] = {span[0], latest}, *branches[3];
  branches[0] = spark__native(t, "<=", boolean, apart, 2);
  branches[1] = trn__expr_int(t->arena, wide, 0);
  branches[2] = trn__expr_int(t->arena, wide, 1);
  const trn_expr *starts = spark__case(t, branches, 3, wide);
  if (!starts) return trn__no_memory(s->error);
  if ((status = add_columns(s, &starts, 1)) != TRN_OK) return status;
  const trn_expr *number = over(s, "sum", starts, NULL, span[0], TRN_BOUND_CURRENT_ROW);
  if (!number) return trn__no_memory(s->error);
  if ((status = add_columns(s, &number, 1)) != TRN_OK) return status;
  const trn_expr *whole[2] = {over(s, "min", span[0], number, NULL, TRN_BOUND_UNBOUNDED_FOLLOWING),
                              over(s, "max", span[1], number, NULL, TRN_BOUND_UNBOUNDED_FOLLOWING)};
  if (!whole[0] || !whole[1]) return trn__no_memory(s->error);
  if ((status = add_columns(s, whole, 2)) != TRN_OK) return status;
  const trn_type *type = span_type(t, time->type);
  const trn_expr *fields[4] = {trn__expr_string(t->arena, "start", 5), whole[0], trn__expr_string(t->arena, "end", 3),
                               whole[1]};
  const trn_expr *column =
      type ? trn__expr_call(t->arena, TRN_HOME_ENGINE, "named_struct", type, false, fields, 4) : NULL;
  if (!column) return trn__no_memory(s->error);
  if ((status = add_columns(s, &column, 1)) != TRN_OK) return status;
  return show(t, relation, s->rel, column, "session_window", s->error);
}

/* ---- what queries call ---- */
static trn_status other_keys(session *s, expression *const *keys, size_t count, const call_message *call) {
  s->keys = TRN_NEW_N(s->t->arena, const trn_expr *, count + 1);
  if (!s->keys) return trn__no_memory(s->error);
  for (size_t i = 0; i < count; i++) {
    spark_value value;
    if (find(keys[i], 0) == call) continue;
    trn_status status = spark__expression(s->t, keys[i], &value, s->error);
    if (status != TRN_OK) return status;
    s->keys[s->key_count++] = value.expr;
  }
  return TRN_OK;
}

trn_status spark__time_windows(spark_translator *t, spark_relation *relation, expression *const *keys,
                               size_t key_count, expression *const *items, size_t item_count, trn_error **error) {
  const call_message *call = NULL;
  spark_context context;
  spark_value time;
  session s = {.t = t, .error = error};
  for (size_t i = 0; i < key_count && !call; i++) call = find(keys[i], 0);
  for (size_t i = 0; i < item_count && !call; i++) call = find(items[i], 0);
  if (!call) return TRN_OK;
  bool is_session = strcasecmp(call->function_name, "session_window") == 0;
  spark__context_begin(t, &context, relation->scope);
  trn_status status = spark__expression(t, call->arguments[0], &time, error);
  const trn_expr *expr = status == TRN_OK ? time.expr : NULL;
  if (expr && spark__is_string(expr->type))
    status = spark__cast(t, expr, trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_IMPLICIT, NOWHERE, &expr, error);
  if (status == TRN_OK && expr->type->id == TRN_TYPE_STRUCT && expr->type->field_count == 2) { /* a window's window */
    spark_value end, in = {.expr = expr, .name = "window"};
    status = spark__call_by_name(t, "window_time", &in, 1, NOWHERE, &end, error);
    if (status == TRN_OK) expr = end.expr;
  }
  if (status == TRN_OK && !spark__is_timestamp(expr->type))
    status = spark__unimplemented(t, NOWHERE, error, "A window over something that is no timestamp");
  if (status == TRN_OK && is_session) status = other_keys(&s, keys, key_count, call);
  if (status == TRN_OK)
    status = is_session ? sessions(&s, relation, call, expr) : tumbling(t, relation, call, &time, expr, error);
  spark__context_end(t, &context);
  return status;
}

/* ---- the calls themselves ---- */
static trn_status build_window(spark_builder *b, const trn_expr **out) {
  const spark_state *state = spark__state(b->t);
  const trn_expr *column = state->time_window;
  bool here = column && state->context && state->context->scope &&
              spark__scope_has(b->t, state->context->scope, column->u.column);
  if (!here) return spark__not_supported(b, "a place other than the keys of GROUP BY and the select list");
  b->text = b->function->name;
  *out = column;
  return TRN_OK;
}

/* window_time(window): the last microsecond of it. */
static trn_status build_window_time(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_STRUCT || type->field_count != 2 || !spark__is_timestamp(type->fields[1].type))
    return spark__unexpected_input(b, 0, "\"STRUCT\"", type);
  const trn_expr *field[2] = {b->args[0], trn__expr_string(b->t->arena, type->fields[1].name,
                                                           strlen(type->fields[1].name))};
  const trn_expr *args[2] = {spark__native(b->t, "get_field", type->fields[1].type, field, 2),
                             trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INTERVAL_DAY_TIME), -1)};
  trn_expr *expr = spark__kernel(b->t, "trn.timestamp_add_dt", type->fields[1].type, args, 2);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static const spark_function rows[] = {
    {"window", "aa|aa", NULL, NULL, build_window, NULL, 0, 0},
    {"session_window", "aa", NULL, NULL, build_window, NULL, 0, 0},
    {"window_time", "a", NULL, NULL, build_window_time, NULL, SPARK_NULLABLE, 0},
};
const spark_function_table spark__functions_time_window = {rows, sizeof rows / sizeof rows[0]};
