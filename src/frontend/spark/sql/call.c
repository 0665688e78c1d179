/* Function calls: the ordinary form with its modifiers and windows, and those with a syntax of their own. */
#include "frontend/spark/sql/parser.h"

static sql_expr *argument(sql_parser *p) {
  size_t start = p->at;
  if (!sql__is_identifier(p, start) || sql__ahead(p, 1) != SQL_FAT_ARROW) return sql__expression(p);
  Spark__Connect__NamedArgumentExpression *named =
      SQL_NEW(p, Spark__Connect__NamedArgumentExpression, spark__connect__named_argument_expression);
  named->key = sql__identifier(p);
  sql__advance(p);
  named->value = sql__expression(p);
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_NAMED_ARGUMENT_EXPRESSION;
  expr->named_argument_expression = named;
  return expr;
}

static void arguments_until_paren(sql_parser *p, sql_list *arguments) {
  if (sql__kind(p) != SQL_RIGHT_PAREN) {
    do {
      sql__push(p, arguments, argument(p));
    } while (sql__accept(p, SQL_COMMA));
  }
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* ---- windows ---- */

static sql_expr *negated_bound(sql_parser *p, sql_expr *value, size_t start) {
  if (value->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL &&
      value->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER &&
      value->literal->integer > 0) {
    value->literal->integer = -value->literal->integer; /* what a DataFrame client sends */
    return value;
  }
  return sql__function1(p, "negative", value, start, sql__last(p));
}

static Spark__Connect__Expression__Window__WindowFrame__FrameBoundary *frame_bound(sql_parser *p) {
  Spark__Connect__Expression__Window__WindowFrame__FrameBoundary *bound =
      SQL_NEW(p, Spark__Connect__Expression__Window__WindowFrame__FrameBoundary,
              spark__connect__expression__window__window_frame__frame_boundary);
  size_t start = p->at;
  if (sql__accept2(p, KW_CURRENT, KW_ROW)) {
    bound->boundary_case = SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_CURRENT_ROW;
    bound->current_row = true;
    return bound;
  }
  if (sql__accept2(p, KW_UNBOUNDED, KW_PRECEDING) || sql__accept2(p, KW_UNBOUNDED, KW_FOLLOWING)) {
    bound->boundary_case = SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_UNBOUNDED;
    bound->unbounded = true;
    return bound;
  }
  bound->boundary_case = SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_VALUE;
  bound->value = sql__expression(p);
  if (bound->value->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE) {
    trn_kv param = {"msg", "Frame bound value must be a literal."};
    sql__refuse(p, start, p->at, "_LEGACY_ERROR_TEMP_0064", NULL, &param, 1);
  }
  if (sql__accept(p, KW_PRECEDING)) {
    bound->value = negated_bound(p, bound->value, start);
  } else {
    sql__expect(p, KW_FOLLOWING);
  }
  return bound;
}

/* ROWS|RANGE bound, ROWS|RANGE BETWEEN bound AND bound */
static Spark__Connect__Expression__Window__WindowFrame *window_frame(sql_parser *p) {
  Spark__Connect__Expression__Window__WindowFrame *frame =
      SQL_NEW(p, Spark__Connect__Expression__Window__WindowFrame, spark__connect__expression__window__window_frame);
  frame->frame_type = sql__kind(p) == KW_ROWS
                          ? SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_TYPE__FRAME_TYPE_ROW
                          : SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_TYPE__FRAME_TYPE_RANGE;
  sql__advance(p);
  if (sql__accept(p, KW_BETWEEN)) {
    frame->lower = frame_bound(p);
    sql__expect(p, KW_AND);
    frame->upper = frame_bound(p);
    return frame;
  }
  frame->lower = frame_bound(p);
  frame->upper = SQL_NEW(p, Spark__Connect__Expression__Window__WindowFrame__FrameBoundary,
                         spark__connect__expression__window__window_frame__frame_boundary);
  frame->upper->boundary_case = SPARK__CONNECT__EXPRESSION__WINDOW__WINDOW_FRAME__FRAME_BOUNDARY__BOUNDARY_CURRENT_ROW;
  frame->upper->current_row = true;
  return frame;
}

Spark__Connect__Expression__Window *sql__window_body(sql_parser *p) {
  Spark__Connect__Expression__Window *window =
      SQL_NEW(p, Spark__Connect__Expression__Window, spark__connect__expression__window);
  sql_list partition = {0}, order = {0};
  sql__expect(p, SQL_LEFT_PAREN);
  if (sql__accept2(p, KW_CLUSTER, KW_BY)) {
    sql__expressions(p, &partition);
  } else {
    if (sql__accept2(p, KW_PARTITION, KW_BY) || sql__accept2(p, KW_DISTRIBUTE, KW_BY)) sql__expressions(p, &partition);
    if (sql__accept2(p, KW_ORDER, KW_BY) || sql__accept2(p, KW_SORT, KW_BY)) sql__sort_items(p, &order);
  }
  if (sql__kind(p) == KW_ROWS || sql__kind(p) == KW_RANGE) window->frame_spec = window_frame(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(partition, window, partition_spec);
  SQL_SET_LIST(order, window, order_spec);
  return window;
}

/* The name in OVER w and OVER (w); NULL when a definition follows. */
static char *window_name(sql_parser *p) {
  if (sql__kind(p) != SQL_LEFT_PAREN) return sql__error_capturing_identifier(p);
  if (!sql__is_identifier(p, p->at + 1) || sql__ahead(p, 2) != SQL_RIGHT_PAREN) return NULL;
  sql__advance(p);
  char *name = sql__error_capturing_identifier(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  return name;
}

/* name AS (definition), name AS other */
void sql__named_window(sql_parser *p, sql_list *windows) {
  Spark__Connect__TrnNamedWindow *named = SQL_NEW(p, Spark__Connect__TrnNamedWindow, spark__connect__trn_named_window);
  named->name = sql__error_capturing_identifier(p);
  sql__expect(p, KW_AS);
  char *base = window_name(p);
  if (base != NULL) {
    named->base_name = base;
  } else {
    named->window = sql__window_body(p);
  }
  sql__push(p, windows, named);
}

static sql_expr *over(sql_parser *p, sql_expr *function, size_t start) {
  sql__advance(p);
  char *name = window_name(p);
  if (name != NULL) {
    sql_expr *expr = sql__expr(p, start, sql__last(p));
    expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_WINDOW_REFERENCE;
    expr->trn_window_reference = SQL_NEW(p, Spark__Connect__TrnWindowReference, spark__connect__trn_window_reference);
    expr->trn_window_reference->function = function;
    expr->trn_window_reference->name = name;
    return expr;
  }
  Spark__Connect__Expression__Window *window = sql__window_body(p);
  window->window_function = function;
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_WINDOW;
  expr->window = window;
  return expr;
}

/* ---- modifiers ---- */

static sql_expr *with_modifiers(sql_parser *p, sql_expr *function, const sql_list *within, sql_expr *filter,
                                bool ignore_nulls, size_t start) {
  if (within->count == 0 && filter == NULL && !ignore_nulls) return function;
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_MODIFIERS;
  expr->trn_modifiers = SQL_NEW(p, Spark__Connect__TrnFunctionModifiers, spark__connect__trn_function_modifiers);
  expr->trn_modifiers->function = function;
  expr->trn_modifiers->filter = filter;
  expr->trn_modifiers->ignore_nulls = ignore_nulls;
  SQL_SET_LIST(*within, expr->trn_modifiers, within_group);
  return expr;
}

/* WITHIN GROUP (ORDER BY ...), FILTER (WHERE ...), IGNORE|RESPECT NULLS, OVER ... */
static sql_expr *modifiers(sql_parser *p, sql_expr *function, bool ignore_nulls, size_t start) {
  sql_list within = {0};
  sql_expr *filter = NULL;
  if (sql__accept2(p, KW_WITHIN, KW_GROUP)) {
    sql__expect(p, SQL_LEFT_PAREN);
    sql__expect(p, KW_ORDER);
    sql__expect(p, KW_BY);
    sql__sort_items(p, &within);
    sql__expect(p, SQL_RIGHT_PAREN);
  }
  if (sql__kind(p) == KW_FILTER && sql__ahead(p, 1) == SQL_LEFT_PAREN) {
    p->at += 2;
    sql__expect(p, KW_WHERE);
    filter = sql__expression(p);
    sql__expect(p, SQL_RIGHT_PAREN);
  }
  if (sql__accept2(p, KW_IGNORE, KW_NULLS)) {
    ignore_nulls = true;
  } else {
    sql__accept2(p, KW_RESPECT, KW_NULLS);
  }
  sql_expr *expr = with_modifiers(p, function, &within, filter, ignore_nulls, start);
  if (sql__kind(p) == KW_OVER && (sql__ahead(p, 1) == SQL_LEFT_PAREN || sql__is_identifier(p, p->at + 1)))
    return over(p, expr, start);
  return expr;
}

/* ---- ordinary calls ---- */

static bool at_quantifier(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return (sql__kind(p) == KW_DISTINCT || sql__kind(p) == KW_ALL) && next != SQL_RIGHT_PAREN && next != SQL_COMMA &&
         next != SQL_DOT;
}

/* Remembers where f(a, b stops to look like a list of names, unless an alias could follow f. */
static void set_call_blame(sql_parser *p) {
  size_t open = p->at, i = open + 1;
  p->call_error = 0;
  if (p->depth == p->alias_depth || !sql__is_identifier(p, i)) return;
  while (sql__is_identifier(p, i) && sql__kind_at(p, i + 1) == SQL_COMMA && sql__is_identifier(p, i + 2)) i += 2;
  p->call_error = i + 1;
  p->call_blame = open;
}

sql_expr *sql__call(sql_parser *p, size_t start, const sql_list *name) {
  sql_list arguments = {0};
  bool distinct = false;
  sql_kind kind = name->count == 1 ? sql__kind_at(p, start) : SQL_IDENTIFIER;
  bool own_nulls = false;
  if (sql__kind(p) == SQL_LEFT_PAREN) set_call_blame(p);
  sql__expect(p, SQL_LEFT_PAREN);
  if (at_quantifier(p)) {
    distinct = sql__kind(p) == KW_DISTINCT;
    sql__advance(p);
  }
  if (kind == KW_FIRST || kind == KW_LAST || kind == KW_ANY_VALUE) { /* first(x IGNORE NULLS) */
    if (sql__kind(p) != SQL_RIGHT_PAREN) sql__push(p, &arguments, argument(p));
    own_nulls = sql__accept2(p, KW_IGNORE, KW_NULLS);
    if (!own_nulls && sql__accept(p, SQL_COMMA)) {
      arguments_until_paren(p, &arguments);
    } else {
      sql__expect(p, SQL_RIGHT_PAREN);
    }
  } else {
    arguments_until_paren(p, &arguments);
  }
  sql_expr *expr =
      sql__function(p, name->count == 1 ? name->items[0] : sql__join_path(p, name), &arguments, start, sql__last(p));
  expr->unresolved_function->is_distinct = distinct;
  expr->unresolved_function->is_user_defined_function = name->count > 1;
  return modifiers(p, expr, own_nulls, start);
}

/* ---- calls with a syntax of their own ---- */

/* CAST(x AS t) */
static sql_expr *cast(sql_parser *p, size_t start) {
  bool try_cast = sql__kind(p) == KW_TRY_CAST;
  p->at += 2;
  sql_expr *child = sql__expression(p);
  sql__expect(p, KW_AS);
  sql_type *type = sql__type(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__cast(p, child, type, try_cast, start, sql__last(p));
}

/* STRUCT(a AS x, b) */
static sql_expr *struct_call(sql_parser *p, size_t start) {
  sql_list arguments = {0};
  p->at += 2;
  if (sql__kind(p) != SQL_RIGHT_PAREN) sql__named_expressions(p, &arguments);
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, "struct", &arguments, start, sql__last(p));
}

/* EXTRACT(YEAR FROM x) */
static sql_expr *extract(sql_parser *p, size_t start) {
  p->at += 2;
  size_t at = p->at;
  char *field = sql__identifier(p);
  sql_expr *name = sql__string_literal(p, field, strlen(field), at);
  sql__expect(p, KW_FROM);
  sql_expr *source = sql__value(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function2(p, "extract", name, source, start, sql__last(p));
}

/* SUBSTRING(s FROM a FOR b) */
static sql_expr *substring(sql_parser *p, size_t start) {
  sql_list arguments = {0};
  p->at += 2;
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, KW_FROM);
  sql__push(p, &arguments, sql__value(p));
  if (sql__accept(p, KW_FOR)) sql__push(p, &arguments, sql__value(p));
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, "substring", &arguments, start, sql__last(p));
}

/* POSITION(a IN b) */
static sql_expr *position(sql_parser *p, size_t start) {
  p->at += 2;
  sql_expr *part = sql__value(p);
  sql__expect(p, KW_IN);
  sql_expr *whole = sql__value(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function2(p, "locate", part, whole, start, sql__last(p));
}

/* TRIM([BOTH|LEADING|TRAILING] [x] FROM s) */
static sql_expr *trim(sql_parser *p, size_t start) {
  const char *name = "trim";
  sql_list arguments = {0};
  p->at += 2;
  sql_kind kind = sql__kind(p);
  if (kind == KW_BOTH || kind == KW_LEADING || kind == KW_TRAILING) {
    name = kind == KW_LEADING ? "ltrim" : kind == KW_TRAILING ? "rtrim" : name;
    sql__advance(p);
  }
  if (sql__kind(p) != KW_FROM) sql__push(p, &arguments, sql__value(p));
  sql__expect(p, KW_FROM);
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, name, &arguments, start, sql__last(p));
}

/* OVERLAY(s PLACING r FROM a FOR b) */
static sql_expr *overlay(sql_parser *p, size_t start) {
  sql_list arguments = {0};
  p->at += 2;
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, KW_PLACING);
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, KW_FROM);
  sql__push(p, &arguments, sql__value(p));
  if (sql__accept(p, KW_FOR)) sql__push(p, &arguments, sql__value(p));
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, "overlay", &arguments, start, sql__last(p));
}

static bool is_datetime_unit(sql_kind kind) {
  switch ((int)kind) {
  case KW_YEAR:
  case KW_QUARTER:
  case KW_MONTH:
  case KW_WEEK:
  case KW_DAY:
  case KW_DAYOFYEAR:
  case KW_HOUR:
  case KW_MINUTE:
  case KW_SECOND:
  case KW_MILLISECOND:
  case KW_MICROSECOND: return true;
  default: return false;
  }
}

static bool is_datetime_call(sql_kind kind) {
  switch ((int)kind) {
  case KW_TIMESTAMPADD:
  case KW_DATEADD:
  case KW_DATE_ADD:
  case KW_TIMESTAMPDIFF:
  case KW_DATEDIFF:
  case KW_DATE_DIFF:
  case KW_TIMEDIFF: return true;
  default: return false;
  }
}

static size_t count_commas(const sql_parser *p, size_t open) {
  size_t commas = 0;
  for (size_t i = open + 1; i < p->tokens[open].match; i++) {
    if (sql__kind_at(p, i) == SQL_LEFT_PAREN) i = p->tokens[i].match;
    if (sql__kind_at(p, i) == SQL_COMMA) commas++;
  }
  return commas;
}

/* DATEADD(DAY, n, x), TIMESTAMPDIFF(DAY, a, b): the unit becomes a text. */
static sql_expr *datetime_call(sql_parser *p, size_t start) {
  sql_kind kind = sql__kind(p);
  bool add = kind == KW_TIMESTAMPADD || kind == KW_DATEADD || kind == KW_DATE_ADD;
  sql_list arguments = {0};
  p->at += 2;
  size_t at = p->at;
  char *unit = sql__token_text(p, at);
  if (sql__is_string(p, at)) {
    trn_kv params[] = {{"functionName", trn__arena_printf(p->arena, "`%s`", sql__token_text(p, start))},
                       {"parameter", "`unit`"},
                       {"invalidValue", sql__token_text(p, at)}};
    sql__refuse(p, start, p->tokens[start + 1].match, "INVALID_PARAMETER_VALUE.DATETIME_UNIT", "22023", params, 3);
  }
  sql__advance(p);
  sql__push(p, &arguments, sql__string_literal(p, unit, strlen(unit), at));
  sql__expect(p, SQL_COMMA);
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, SQL_COMMA);
  sql__push(p, &arguments, sql__value(p));
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, add ? "timestampadd" : "timestampdiff", &arguments, start, sql__last(p));
}

static bool at_datetime_call(const sql_parser *p) {
  return is_datetime_call(sql__kind(p)) && (is_datetime_unit(sql__ahead(p, 2)) || sql__is_string(p, p->at + 2)) &&
         sql__ahead(p, 3) == SQL_COMMA && count_commas(p, p->at + 1) == 2;
}

bool sql__at_special_call(const sql_parser *p) {
  if (sql__ahead(p, 1) != SQL_LEFT_PAREN) return false;
  size_t open = p->at + 1;
  switch ((int)sql__kind(p)) {
  case KW_CAST:
  case KW_TRY_CAST: return sql__ahead(p, 2) != SQL_RIGHT_PAREN;
  case KW_STRUCT: return true;
  case KW_EXISTS: return p->tokens[open].opens_query;
  case KW_EXTRACT: return sql__ahead(p, 3) == KW_FROM;
  case KW_SUBSTR:
  case KW_SUBSTRING:
  case KW_TRIM: return sql__find_inside(p, open, KW_FROM, KW_FROM) > 0;
  case KW_OVERLAY: return sql__find_inside(p, open, KW_PLACING, KW_PLACING) > 0;
  case KW_POSITION: return sql__kind_at(p, sql__find_inside(p, open, KW_IN, SQL_COMMA)) == KW_IN;
  default: return at_datetime_call(p);
  }
}

sql_expr *sql__special_call(sql_parser *p) {
  size_t start = p->at;
  switch ((int)sql__kind(p)) {
  case KW_CAST:
  case KW_TRY_CAST: return cast(p, start);
  case KW_STRUCT: return struct_call(p, start);
  case KW_EXISTS:
    sql__advance(p);
    return sql__subquery(p, SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_EXISTS, NULL, start);
  case KW_EXTRACT: return extract(p, start);
  case KW_SUBSTR:
  case KW_SUBSTRING: return substring(p, start);
  case KW_TRIM: return trim(p, start);
  case KW_OVERLAY: return overlay(p, start);
  case KW_POSITION: return position(p, start);
  default: return datetime_call(p, start);
  }
}
