/* Lifting of expressions. */
#include "engine/lift_read.h"

static trn_status literal_value(trn_lifting *l, trn_expr *e) {
  trn_literal *v = &e->u.literal;
  trn_status status = TRN_OK;
  uint32_t count = 0;
  const trn_expr **items = NULL;
  switch (e->type->id) {
  case TRN_TYPE_BOOL: return trn__lift_flag(l, &v->value.boolean);
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: return trn__lift_f64(l, &v->value.number);
  case TRN_TYPE_DECIMAL:
    status = trn__lift_u64(l, &v->value.decimal.low);
    return status ? status : trn__lift_i64(l, &v->value.decimal.high);
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: return trn__lift_text(l, &v->value.bytes.data, &v->value.bytes.size);
  case TRN_TYPE_INTERVAL_CALENDAR: {
    uint32_t months = 0, days = 0;
    status = trn__lift_u32(l, &months);
    if (!status) status = trn__lift_u32(l, &days);
    v->value.interval.months = (int32_t)months, v->value.interval.days = (int32_t)days;
    return status ? status : trn__lift_i64(l, &v->value.interval.nanos);
  }
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT:
    status = trn__lift_u32(l, &count);
    if (!status) status = trn__lift_pop_exprs(l, count, &items);
    v->value.nested.items = items, v->value.nested.count = count;
    return status;
  case TRN_TYPE_NULL:
  case TRN_TYPE_OTHER: return trn__lift_invalid(l, "a literal of a type that has none");
  default: return trn__lift_i64(l, &v->value.integer);
  }
}

static trn_status lift_literal(trn_lifting *l) {
  const trn_type *type = NULL;
  bool is_null = false;
  trn_status status = trn__lift_type(l, &type);
  if (!status) status = trn__lift_flag(l, &is_null);
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_LITERAL, type, is_null, NULL, 0);
  if (!e) return trn__no_memory(l->error);
  e->u.literal.is_null = is_null;
  status = is_null ? TRN_OK : literal_value(l, e);
  return status ? status : trn__lift_push_expr(l, e);
}

static trn_status lift_column(trn_lifting *l, trn_expr_kind kind) {
  uint32_t id;
  const trn_column *column = NULL;
  trn_status status = trn__lift_u32(l, &id);
  if (!status) status = trn__lift_known(l, id, &column);
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, kind, column->type, column->nullable, NULL, 0);
  if (e) e->u.column = id;
  return trn__lift_push_expr(l, e);
}

static trn_status home(trn_lifting *l, uint8_t *out) {
  trn_status status = trn__lift_u8(l, out);
  return !status && *out > TRN_HOME_LIBRARY ? trn__lift_invalid(l, "a function without a home") : status;
}

/* x LIKE 'a!%' ESCAPE '!': the engine's LIKE has one escape, the backslash: a pattern that is known is put into its words. */
static trn_status escaped(trn_lifting *l, const trn_expr **args, uint32_t *count) {
  const trn_expr *pattern = args[1], *escape = args[2];
  if (pattern->kind != TRN_EXPR_LITERAL || pattern->type->id != TRN_TYPE_STRING || escape->kind != TRN_EXPR_LITERAL ||
      pattern->u.literal.is_null || escape->u.literal.is_null || escape->u.literal.value.bytes.size != 1)
    return TRN_OK;
  const trn_str text = {pattern->u.literal.value.bytes.data, pattern->u.literal.value.bytes.size};
  char mark = escape->u.literal.value.bytes.data[0];
  char *out = trn__arena_alloc(l->arena, 2 * text.size + 1);
  trn_expr *known = TRN_NEW(l->arena, trn_expr);
  size_t size = 0;
  if (!out || !known) return trn__no_memory(l->error);
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] == mark && i + 1 < text.size) {
      out[size++] = '\\';
      out[size++] = text.data[++i];
    } else {
      if (text.data[i] == '\\') out[size++] = '\\'; /* a plain one */
      out[size++] = text.data[i];
    }
  }
  *known = *pattern;
  known->u.literal.value.bytes.data = out;
  known->u.literal.value.bytes.size = size;
  args[1] = known;
  *count = 2;
  return TRN_OK;
}

static trn_status lift_call(trn_lifting *l) {
  uint8_t where = 0;
  const char *name = NULL;
  uint32_t count = 0;
  const trn_type *type = NULL;
  bool nullable = false;
  const trn_expr **args = NULL;
  trn_status status = home(l, &where);
  if (!status) status = trn__lift_text(l, &name, NULL);
  if (!status) status = trn__lift_u32(l, &count);
  if (!status) status = trn__lift_type(l, &type);
  if (!status) status = trn__lift_flag(l, &nullable);
  if (!status) status = trn__lift_pop_exprs(l, count, &args);
  if (status) return status;
  if (count == 3 && where == TRN_HOME_NATIVE && (strcmp(name, "like") == 0 || strcmp(name, "ilike") == 0))
    status = escaped(l, args, &count);
  if (status) return status;
  return trn__lift_push_expr(l, trn__expr_call(l->arena, (trn_function_home)where, name, type, nullable, args, count));
}

static trn_status lift_cast(trn_lifting *l) {
  const trn_type *type = NULL;
  bool is_try = false;
  const trn_expr **args = NULL;
  trn_status status = trn__lift_type(l, &type);
  if (!status) status = trn__lift_flag(l, &is_try);
  if (!status) status = trn__lift_pop_exprs(l, 1, &args);
  return status ? status : trn__lift_push_expr(l, trn__expr_cast(l->arena, args[0], type, is_try));
}

/* Branches have one type, but for those that are only null. */
static trn_status lift_case(trn_lifting *l) {
  uint32_t count = 0;
  const trn_expr **args = NULL;
  trn_status status = trn__lift_u32(l, &count);
  if (!status && count < 2) status = trn__lift_invalid(l, "a CASE without a branch");
  if (!status) status = trn__lift_pop_exprs(l, count, &args);
  if (status) return status;
  const trn_type *type = args[1]->type;
  bool nullable = count % 2 == 0;
  for (uint32_t i = 1; i < count; i++) {
    if (i % 2 == 0 && i + 1 < count) continue;
    if (type->id == TRN_TYPE_NULL) type = args[i]->type;
    nullable |= args[i]->nullable;
  }
  return trn__lift_push_expr(l, trn__expr_create(l->arena, TRN_EXPR_CASE, type, nullable, args, count));
}

static trn_status lift_in_list(trn_lifting *l) {
  uint32_t count = 0;
  bool negated = false, nullable = false;
  const trn_expr **args = NULL;
  trn_status status = trn__lift_u32(l, &count);
  if (!status) status = trn__lift_flag(l, &negated);
  if (!status && count < 2) status = trn__lift_invalid(l, "IN without items");
  if (!status) status = trn__lift_pop_exprs(l, count, &args);
  if (status) return status;
  for (uint32_t i = 0; i < count; i++) nullable |= args[i]->nullable;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_IN_LIST, trn__type(TRN_TYPE_BOOL), nullable, args, count);
  if (e) e->u.in_list.negated = negated;
  return trn__lift_push_expr(l, e);
}

/* Aggregates that are never null, and window functions; of others it is not known. */
static bool never_null(const char *name) {
  static const char *const names[] = {"count",     "row_number", "rank",     "dense_rank",     "percent_rank",
                                      "cume_dist", "ntile",      "grouping", "approx_distinct"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

static trn_status lift_aggregate(trn_lifting *l) {
  uint8_t where = 0;
  const char *name = NULL;
  bool distinct = false, has_filter = false;
  uint32_t order_count = 0, count = 0;
  const trn_sort_flags *flags = NULL;
  const trn_type *type = NULL;
  const trn_expr **args = NULL;
  trn_status status = home(l, &where);
  if (!status) status = trn__lift_text(l, &name, NULL);
  if (!status) status = trn__lift_flag(l, &distinct);
  if (!status) status = trn__lift_flag(l, &has_filter);
  if (!status) status = trn__lift_count(l, 1, &order_count);
  if (!status) status = trn__lift_flags(l, order_count, &flags);
  if (!status) status = trn__lift_u32(l, &count);
  if (!status) status = trn__lift_type(l, &type);
  if (!status && count > l->count) status = trn__lift_invalid(l, "arguments are missing");
  if (!status) status = trn__lift_pop_exprs(l, count + order_count + has_filter, &args);
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_AGGREGATE, type, !never_null(name), args,
                                 (size_t)count + order_count + has_filter);
  if (e) {
    e->u.aggregate.name = name, e->u.aggregate.home = where;
    e->u.aggregate.distinct = distinct, e->u.aggregate.has_filter = has_filter;
    e->u.aggregate.order_count = order_count, e->u.aggregate.order_flags = flags;
  }
  return trn__lift_push_expr(l, e);
}

typedef struct window_parts {
  bool is_aggregate, distinct, ignore_nulls, has_start, has_end;
  uint8_t home, unit, start_kind, end_kind;
  const char *name;
  uint32_t args, partitions, orders;
  const trn_sort_flags *flags;
  const trn_type *type;
} window_parts;

static trn_status read_window(trn_lifting *l, window_parts *w) {
  trn_status status = trn__lift_flag(l, &w->is_aggregate);
  if (!status) status = home(l, &w->home);
  if (!status) status = trn__lift_text(l, &w->name, NULL);
  if (!status) status = trn__lift_flag(l, &w->distinct);
  if (!status) status = trn__lift_flag(l, &w->ignore_nulls);
  if (!status) status = trn__lift_u32(l, &w->args);
  if (!status) status = trn__lift_u32(l, &w->partitions);
  if (!status) status = trn__lift_count(l, 1, &w->orders);
  if (!status) status = trn__lift_flags(l, w->orders, &w->flags);
  if (!status) status = trn__lift_u8(l, &w->unit);
  if (!status) status = trn__lift_u8(l, &w->start_kind);
  if (!status) status = trn__lift_u8(l, &w->end_kind);
  if (!status) status = trn__lift_flag(l, &w->has_start);
  if (!status) status = trn__lift_flag(l, &w->has_end);
  if (!status) status = trn__lift_type(l, &w->type);
  if (!status && (w->unit > TRN_FRAME_GROUPS || w->start_kind > TRN_BOUND_UNBOUNDED_FOLLOWING ||
                  w->end_kind > TRN_BOUND_UNBOUNDED_FOLLOWING))
    status = trn__lift_invalid(l, "a window's frame");
  if (!status && (w->args > l->count || w->partitions > l->count))
    status = trn__lift_invalid(l, "operands are missing");
  return status;
}

static trn_expr *window_function(trn_lifting *l, const window_parts *w, const trn_expr *const *args) {
  trn_expr *f = trn__expr_create(l->arena, w->is_aggregate ? TRN_EXPR_AGGREGATE : TRN_EXPR_CALL, w->type,
                                 !never_null(w->name), args, w->args);
  if (!f) return NULL;
  if (w->is_aggregate) {
    f->u.aggregate.name = w->name, f->u.aggregate.home = w->home, f->u.aggregate.distinct = w->distinct;
  } else {
    f->u.call.name = w->name, f->u.call.home = w->home;
  }
  return f;
}

static trn_status lift_window(trn_lifting *l) {
  window_parts w = {0};
  const trn_expr **all = NULL;
  trn_status status = read_window(l, &w);
  uint32_t total = w.args + w.partitions + w.orders + w.has_start + w.has_end;
  if (!status) status = trn__lift_pop_exprs(l, total, &all);
  if (status) return status;
  trn_expr *f = window_function(l, &w, all);
  uint32_t keys = w.partitions + w.orders;
  const trn_expr **args = f ? TRN_NEW_N(l->arena, const trn_expr *, (size_t)keys + 1) : NULL;
  if (!args) return trn__no_memory(l->error);
  args[0] = f;
  if (keys) memcpy(args + 1, all + w.args, keys * sizeof *args);
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_WINDOW, w.type, f->nullable, args, (size_t)keys + 1);
  if (e) {
    e->u.window.partition_count = w.partitions, e->u.window.order_count = w.orders, e->u.window.order_flags = w.flags;
    e->u.window.unit = w.unit, e->u.window.start_kind = w.start_kind, e->u.window.end_kind = w.end_kind;
    e->u.window.start = w.has_start ? all[w.args + keys] : NULL;
    e->u.window.end = w.has_end ? all[total - 1] : NULL;
    e->u.window.ignore_nulls = w.ignore_nulls;
  }
  return trn__lift_push_expr(l, e);
}

static trn_status lift_lambda(trn_lifting *l) {
  uint32_t count = 0;
  const trn_expr **body = NULL;
  trn_status status = trn__lift_count(l, 4, &count);
  uint32_t *params = !status ? TRN_NEW_N(l->arena, uint32_t, count ? count : 1) : NULL;
  if (!status && !params) status = trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < count; i++) {
    status = trn__lift_u32(l, &params[i]);
    if (!status && params[i] >= l->in->next_column) status = trn__lift_invalid(l, "an id beyond all bounds");
  }
  if (!status) status = trn__lift_pop_exprs(l, 1, &body);
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_LAMBDA, body[0]->type, body[0]->nullable, body, 1);
  if (e) e->u.lambda.param_count = count, e->u.lambda.params = params;
  return trn__lift_push_expr(l, e);
}

static trn_status lift_lambda_variable(trn_lifting *l) {
  uint32_t id = 0;
  const trn_type *type = NULL;
  trn_status status = trn__lift_u32(l, &id);
  if (!status) status = trn__lift_type(l, &type);
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_LAMBDA_VARIABLE, type, true, NULL, 0);
  if (e) e->u.column = id;
  return trn__lift_push_expr(l, e);
}

static trn_status lift_subquery(trn_lifting *l) {
  uint8_t kind = 0;
  bool negated = false, nullable = false;
  uint32_t count = 0;
  const trn_type *type = NULL;
  const trn_expr **args = NULL;
  const trn_rel *rel = NULL;
  trn_status status = trn__lift_u8(l, &kind);
  if (!status) status = trn__lift_flag(l, &negated);
  if (!status) status = trn__lift_u32(l, &count);
  if (!status) status = trn__lift_type(l, &type);
  if (!status) status = trn__lift_flag(l, &nullable);
  if (!status) status = trn__lift_pop_exprs(l, count, &args);
  if (!status) status = trn__lift_pop_rel(l, &rel);
  if (!status && kind > TRN_SUBQUERY_IN) status = trn__lift_invalid(l, "a subquery of no kind");
  if (!status && (kind == TRN_SUBQUERY_EXISTS ? count != 0 : rel->column_count != (kind ? count : 1)))
    status = trn__lift_invalid(l, "a subquery with other columns than it needs");
  if (status) return status;
  trn_expr *e = trn__expr_create(l->arena, TRN_EXPR_SUBQUERY, type, nullable, args, count);
  if (e) e->u.subquery.kind = kind, e->u.subquery.negated = negated, e->u.subquery.rel = rel;
  return trn__lift_push_expr(l, e);
}

trn_status trn__lift_expr(trn_lifting *l, uint8_t op) {
  switch (op) {
  case TRN_OP_LITERAL: return lift_literal(l);
  case TRN_OP_COLUMN: return lift_column(l, TRN_EXPR_COLUMN);
  case TRN_OP_OUTER: return lift_column(l, TRN_EXPR_OUTER);
  case TRN_OP_CALL: return lift_call(l);
  case TRN_OP_CAST: return lift_cast(l);
  case TRN_OP_CASE: return lift_case(l);
  case TRN_OP_IN_LIST: return lift_in_list(l);
  case TRN_OP_AGGREGATE: return lift_aggregate(l);
  case TRN_OP_WINDOW: return lift_window(l);
  case TRN_OP_LAMBDA: return lift_lambda(l);
  case TRN_OP_LAMBDA_VARIABLE: return lift_lambda_variable(l);
  case TRN_OP_SUBQUERY: return lift_subquery(l);
  default: return trn__lift_invalid(l, "an unknown operation");
  }
}
