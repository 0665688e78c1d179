/* Expressions as SQL text: what all dialects write alike. */
#include "plan/sql_print.h"
#include <stdio.h>

trn_status trn__sql_refuse(sql_printer *p, const char *format, ...) {
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL, "%s cannot be written in %s's SQL", what, p->dialect->title);
}

void trn__sql_puts(sql_printer *p, const char *text) {
  trn__strbuf_puts(p->out, text);
}

void trn__sql_printf(sql_printer *p, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  trn__strbuf_puts(p->out, text);
}

void trn__sql_name(sql_printer *p, const char *name) {
  char quote = p->traits ? p->traits->name_quote : '"';
  trn__strbuf_putc(p->out, quote);
  for (; *name; name++) {
    if (*name == quote) trn__strbuf_putc(p->out, quote);
    trn__strbuf_putc(p->out, *name);
  }
  trn__strbuf_putc(p->out, quote);
}

trn_status trn__sql_exprs(sql_printer *p, const trn_expr *const *items, uint32_t count) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < count; i++) {
    if (i) trn__sql_puts(p, ", ");
    status = trn__sql_expr(p, items[i]);
  }
  return status;
}

trn_status trn__sql_form(sql_printer *p, const char *format, const trn_expr *const *args, uint32_t count) {
  trn_status status = TRN_OK;
  for (; !status && *format; format++) {
    if (*format != '$') {
      trn__strbuf_putc(p->out, *format);
      continue;
    }
    uint32_t index = (uint32_t)(*++format - '1');
    if (index >= count)
      return trn_error_set(p->error, TRN_INTERNAL, NULL, "an expression has too few arguments for its SQL form");
    status = trn__sql_expr(p, args[index]);
  }
  return status;
}

trn_status trn__sql_order(sql_printer *p, const trn_expr *const *keys, const trn_sort_flags *flags, uint32_t count) {
  trn_status status = TRN_OK;
  bool is_first = true;
  for (uint32_t i = 0; !status && i < count; i++) {
    if (keys[i]->kind == TRN_EXPR_LITERAL) continue; /* orders nothing, and a number would be a place */
    trn__sql_puts(p, is_first ? " ORDER BY " : ", ");
    is_first = false;
    status = trn__sql_expr(p, keys[i]);
    trn__sql_puts(p, flags[i].descending ? " DESC" : " ASC");
    trn__sql_puts(p, flags[i].nulls_first ? " NULLS FIRST" : " NULLS LAST");
  }
  return status;
}

/* ---- booleans: chains of one operator without recursion ---- */

static bool is_native(const trn_expr *e, const char *name) {
  return e->kind == TRN_EXPR_CALL && e->u.call.home == TRN_HOME_NATIVE && strcmp(e->u.call.name, name) == 0;
}

static trn_status chain(sql_printer *p, const trn_expr *e) {
  const char *name = e->u.call.name;
  trn_vec todo = {0};
  trn_status status = trn__vec_push(&todo, (void *)e) ? TRN_OK : trn__no_memory(p->error);
  bool is_first = true;
  trn__sql_puts(p, "(");
  while (!status && todo.count) {
    const trn_expr *item = todo.items[--todo.count];
    if (is_native(item, name) && item->arg_count) {
      for (uint32_t i = item->arg_count; !status && i-- > 0;)
        if (!trn__vec_push(&todo, (void *)item->args[i])) status = trn__no_memory(p->error);
      continue;
    }
    if (!is_first) trn__sql_puts(p, name[0] == 'a' ? " AND " : " OR ");
    is_first = false;
    status = trn__sql_expr(p, item);
  }
  trn__sql_puts(p, ")");
  trn__vec_finish(&todo);
  return status;
}

/* The parts of a chain of one operator, in order. */
static trn_status parts_of(const trn_expr *e, const char *name, trn_vec *out) {
  trn_vec todo = {0};
  trn_status status = trn__vec_push(&todo, (void *)e) ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  while (!status && todo.count) {
    const trn_expr *item = todo.items[--todo.count];
    bool is_chain = is_native(item, name);
    if (!is_chain && !trn__vec_push(out, (void *)item)) status = TRN_RESOURCE_EXHAUSTED;
    for (uint32_t i = is_chain ? item->arg_count : 0; !status && i-- > 0;)
      if (!trn__vec_push(&todo, (void *)item->args[i])) status = TRN_RESOURCE_EXHAUSTED;
  }
  trn__vec_finish(&todo);
  return status;
}

static bool is_column_pair(const trn_expr *e) {
  return is_native(e, "=") && e->arg_count == 2 && e->args[0]->kind == TRN_EXPR_COLUMN &&
         e->args[1]->kind == TRN_EXPR_COLUMN;
}

static trn_status has_pair(const trn_expr *branch, const trn_expr *pair, bool *out) {
  trn_vec parts = {0};
  trn_status status = parts_of(branch, "and", &parts);
  *out = false;
  for (size_t i = 0; !status && i < parts.count && !*out; i++) {
    const trn_expr *e = parts.items[i];
    *out = is_column_pair(e) && e->args[0]->u.column == pair->args[0]->u.column &&
           e->args[1]->u.column == pair->args[1]->u.column;
  }
  trn__vec_finish(&parts);
  return status;
}

static trn_status implied_by_or(sql_printer *p, const trn_expr *e) {
  trn_vec branches = {0}, pairs = {0};
  trn_status status = parts_of(e, "or", &branches);
  if (!status) status = parts_of(branches.items[0], "and", &pairs);
  for (size_t i = 0; !status && i < pairs.count; i++) {
    const trn_expr *pair = pairs.items[i];
    bool is_everywhere = is_column_pair(pair);
    for (size_t k = 1; !status && is_everywhere && k < branches.count; k++)
      status = has_pair(branches.items[k], pair, &is_everywhere);
    if (status || !is_everywhere) continue;
    trn__sql_puts(p, " AND ");
    status = trn__sql_expr(p, pair);
  }
  trn__vec_finish(&branches);
  trn__vec_finish(&pairs);
  return status;
}

trn_status trn__sql_implied(sql_printer *p, const trn_expr *condition) {
  trn_vec parts = {0};
  trn_status status = parts_of(condition, "and", &parts);
  for (size_t i = 0; !status && i < parts.count; i++)
    if (is_native(parts.items[i], "or")) status = implied_by_or(p, parts.items[i]);
  trn__vec_finish(&parts);
  return status ? trn__no_memory(p->error) : TRN_OK;
}

typedef struct native_form {
  const char *name, *form;
} native_form;

/* What means the same everywhere, by the types that the plan proves. */
static const char *shared_form(const trn_expr *e) {
  static const native_form forms[] = {{"=", "($1 = $2)"},
                                      {"!=", "($1 <> $2)"},
                                      {"<", "($1 < $2)"},
                                      {"<=", "($1 <= $2)"},
                                      {">", "($1 > $2)"},
                                      {">=", "($1 >= $2)"},
                                      {"not", "(NOT $1)"},
                                      {"is_null", "($1 IS NULL)"},
                                      {"is_not_null", "($1 IS NOT NULL)"},
                                      {"is_true", "($1 IS TRUE)"},
                                      {"is_false", "($1 IS FALSE)"},
                                      {"is_not_true", "($1 IS NOT TRUE)"},
                                      {"is_not_false", "($1 IS NOT FALSE)"}};
  if (e->u.call.home != TRN_HOME_NATIVE) return NULL;
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
    if (strcmp(forms[i].name, e->u.call.name) == 0) return forms[i].form;
  return NULL;
}

static trn_status call(sql_printer *p, const trn_expr *e) {
  if (is_native(e, "and") || is_native(e, "or")) return chain(p, e);
  const char *form = shared_form(e);
  return form ? trn__sql_form(p, form, e->args, e->arg_count) : p->dialect->call(p, e);
}

/* ---- aggregates, windows ---- */

uint32_t trn__sql_operands(const trn_expr *aggregate) {
  uint32_t tail = aggregate->u.aggregate.order_count + aggregate->u.aggregate.has_filter;
  return aggregate->arg_count > tail ? aggregate->arg_count - tail : 0;
}

trn_status trn__sql_aggregate(sql_printer *p, const trn_expr *e, unsigned part) {
  if (e->u.aggregate.order_count) return trn__sql_refuse(p, "the sort order of an argument of %s", e->u.aggregate.name);
  trn_status status = p->dialect->aggregate(p, e, part);
  if (status || !e->u.aggregate.has_filter || p->dialect->lacks_filter) return status;
  return trn__sql_form(p, " FILTER (WHERE $1)", &e->args[e->arg_count - 1], 1);
}

static trn_status typed(sql_printer *p, const trn_expr *e) {
  if (!p->dialect->typed_open) return trn__sql_aggregate(p, e, 0);
  p->dialect->typed_open(p, e->type);
  trn_status status = trn__sql_aggregate(p, e, 0);
  return status ? status : p->dialect->typed_close(p, e->type);
}

static trn_status bound(sql_printer *p, unsigned kind, const trn_expr *value) {
  static const char *const texts[] = {"UNBOUNDED PRECEDING", " PRECEDING", "CURRENT ROW", " FOLLOWING",
                                      "UNBOUNDED FOLLOWING"};
  if (kind > TRN_BOUND_UNBOUNDED_FOLLOWING) return trn__sql_refuse(p, "a window frame's bound of kind %u", kind);
  trn_status status = TRN_OK;
  if (kind == TRN_BOUND_PRECEDING || kind == TRN_BOUND_FOLLOWING)
    status = value ? trn__sql_expr(p, value) : trn__sql_refuse(p, "a window frame's bound without a value");
  trn__sql_puts(p, texts[kind]);
  return status;
}

/* Distances of a RANGE frame are added to the order key, as the dialect stores it. */
static bool can_range(const trn_expr *e) {
  if (e->u.window.unit != TRN_FRAME_RANGE || (!e->u.window.start && !e->u.window.end)) return true;
  if (e->u.window.order_count != 1) return false;
  const trn_type *key = e->args[1 + e->u.window.partition_count]->type;
  for (unsigned i = 0; i < 2; i++) {
    const trn_expr *value = i ? e->u.window.end : e->u.window.start;
    if (value && !trn__type_equal(value->type, key)) return false;
  }
  return trn__type_is_numeric(key);
}

static trn_status window(sql_printer *p, const trn_expr *e) {
  static const char *const units[] = {"ROWS", "RANGE", "GROUPS"};
  const trn_expr *function = e->args[0];
  uint32_t partitions = e->u.window.partition_count, orders = e->u.window.order_count;
  if (e->u.window.ignore_nulls) return trn__sql_refuse(p, "IGNORE NULLS");
  if (e->u.window.unit > TRN_FRAME_GROUPS || !can_range(e))
    return trn__sql_refuse(p, "this RANGE of a window's frame");
  trn_status status;
  if (p->dialect->typed_open) p->dialect->typed_open(p, e->type);
  if (function->kind != TRN_EXPR_AGGREGATE)
    status = p->dialect->window_function(p, function);
  else if (p->dialect->is_split(function) || function->u.aggregate.distinct)
    status = trn__sql_refuse(p, "function %s%s over a window", function->u.aggregate.name,
                             function->u.aggregate.distinct ? " with DISTINCT" : " of a decimal");
  else
    status = trn__sql_aggregate(p, function, 0);
  trn__sql_puts(p, " OVER (");
  if (!status && partitions) {
    trn__sql_puts(p, "PARTITION BY ");
    status = trn__sql_exprs(p, e->args + 1, partitions);
  }
  if (!status) status = trn__sql_order(p, e->args + 1 + partitions, e->u.window.order_flags, orders);
  if (status) return status;
  trn__sql_printf(p, " %s BETWEEN ", units[e->u.window.unit]);
  status = bound(p, e->u.window.start_kind, e->u.window.start);
  trn__sql_puts(p, " AND ");
  if (!status) status = bound(p, e->u.window.end_kind, e->u.window.end);
  trn__sql_puts(p, ")");
  return !status && p->dialect->typed_close ? p->dialect->typed_close(p, e->type) : status;
}

/* ---- the rest ---- */

static trn_status case_when(sql_printer *p, const trn_expr *e) {
  trn_status status = TRN_OK;
  trn__sql_puts(p, "CASE");
  for (uint32_t i = 0; !status && i < e->arg_count; i++) {
    bool is_else = i == e->arg_count - 1 && e->arg_count % 2;
    trn__sql_puts(p, is_else ? " ELSE " : i % 2 ? " THEN " : " WHEN ");
    status = trn__sql_expr(p, e->args[i]);
  }
  trn__sql_puts(p, " END");
  return status;
}

static trn_status in_list(sql_printer *p, const trn_expr *e) {
  trn__sql_puts(p, "(");
  trn_status status = trn__sql_expr(p, e->args[0]);
  trn__sql_puts(p, e->u.in_list.negated ? " NOT IN (" : " IN (");
  if (!status) status = trn__sql_exprs(p, e->args + 1, e->arg_count - 1);
  trn__sql_puts(p, "))");
  return status;
}

static trn_status body(sql_printer *p, const trn_expr *e) {
  switch (e->kind) {
  case TRN_EXPR_LITERAL: {
    trn_status status = p->dialect->check_type(p, e->type);
    if (!status && e->u.literal.is_null)
      status = p->dialect->null(p, e->type);
    else if (!status)
      status = p->dialect->literal(p, e);
    return status;
  }
  case TRN_EXPR_COLUMN: trn__sql_printf(p, "c%u", e->u.column); return TRN_OK;
  case TRN_EXPR_CALL: return call(p, e);
  case TRN_EXPR_AGGREGATE: return typed(p, e);
  case TRN_EXPR_WINDOW: return window(p, e);
  case TRN_EXPR_CAST: return p->dialect->cast(p, e->args[0], e->type, e->u.cast.is_try);
  case TRN_EXPR_CASE: return case_when(p, e);
  case TRN_EXPR_IN_LIST: return in_list(p, e);
  case TRN_EXPR_LAMBDA:
  case TRN_EXPR_LAMBDA_VARIABLE: return trn__sql_refuse(p, "a lambda function");
  default: return trn_error_set(p->error, TRN_INTERNAL, NULL, "an expression of kind %d is left in the plan", e->kind);
  }
}

trn_status trn__sql_expr(sql_printer *p, const trn_expr *e) {
  if (++p->depth > TRN_SQL_PRINT_DEPTH_MAX)
    return trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested too deeply for SQL text");
  /* Shared expressions are written as often as they are used. */
  if (p->out->size > TRN_SQL_BYTES_MAX)
    return trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is too large for SQL text");
  trn_status status = body(p, e);
  p->depth--;
  return status;
}

/* ---- kernels of the library ---- */

trn_status trn__sql_kernel(sql_printer *p, const trn_expr *e, const sql_kernels *k) {
  const char *name = e->u.call.name;
  bool is_try = false;
  if (e->arg_count >= 2) {
    if (trn__sql_is_family(name, "trn.add", &is_try)) return k->arithmetic(p, e, '+', is_try);
    if (trn__sql_is_family(name, "trn.subtract", &is_try)) return k->arithmetic(p, e, '-', is_try);
    if (trn__sql_is_family(name, "trn.multiply", &is_try)) return k->arithmetic(p, e, '*', is_try);
    if (trn__sql_is_family(name, "trn.divide", &is_try)) return k->divide(p, e, is_try);
    if (trn__sql_is_family(name, "trn.int_divide", &is_try)) return k->divide_whole(p, e, '/', is_try);
    if (trn__sql_is_family(name, "trn.remainder", &is_try)) return k->divide_whole(p, e, '%', is_try);
    if (trn__sql_is_family(name, "trn.cast", &is_try)) return k->cast(p, e->args[0], e->type, is_try);
    if (strcmp(name, "trn.extract_date") == 0) return k->extract_date(p, e);
  }
  if (e->arg_count >= 1) {
    if (trn__sql_is_family(name, "trn.negate", &is_try)) return k->negate(p, e, "(- $1)", is_try);
    if (trn__sql_is_family(name, "trn.abs", &is_try)) return k->negate(p, e, "abs($1)", is_try);
  }
  if (strcmp(name, "trn.substring") == 0) return k->substring(p, e);
  if (strcmp(name, "trn.concat") == 0) return k->concat(p, e);
  if (strcmp(name, "trn.like") == 0 && trn__sql_escapes_plainly(e)) return k->like(p, e);
  return k->other(p, e);
}
