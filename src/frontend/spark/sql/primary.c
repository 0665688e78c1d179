/* Primary expressions and what may stand behind them. */
#include "frontend/spark/sql/parser.h"

static sql_operand operand_of(sql_parser *p, sql_expr *expr, size_t start) {
  return (sql_operand){expr, start, sql__last(p)};
}

/* ---- CASE ---- */

static sql_expr *simple_case(sql_parser *p, size_t start) {
  Spark__Connect__TrnSimpleCase *message = SQL_NEW(p, Spark__Connect__TrnSimpleCase, spark__connect__trn_simple_case);
  sql_list whens = {0}, thens = {0};
  message->operand = sql__expression(p);
  do {
    sql__expect(p, KW_WHEN);
    sql__push(p, &whens, sql__expression(p));
    sql__expect(p, KW_THEN);
    sql__push(p, &thens, sql__expression(p));
  } while (sql__kind(p) == KW_WHEN);
  if (sql__accept(p, KW_ELSE)) message->otherwise = sql__expression(p);
  sql__expect(p, KW_END);
  SQL_SET_LIST(whens, message, whens);
  SQL_SET_LIST(thens, message, thens);
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_SIMPLE_CASE;
  expr->trn_simple_case = message;
  return expr;
}

static sql_expr *case_expression(sql_parser *p) {
  size_t start = p->at, outer_blame = p->blame;
  sql__advance(p);
  if (sql__kind(p) != KW_WHEN) return simple_case(p, start);
  if (outer_blame == 0) p->blame = p->depth == p->alias_depth ? start + 2 : start + 1;
  sql_list arguments = {0};
  while (sql__accept(p, KW_WHEN)) {
    sql__push(p, &arguments, sql__expression(p));
    sql__expect(p, KW_THEN);
    sql__push(p, &arguments, sql__expression(p));
  }
  if (sql__accept(p, KW_ELSE)) sql__push(p, &arguments, sql__expression(p));
  sql__expect(p, KW_END);
  p->blame = outer_blame;
  return sql__function(p, "when", &arguments, start, sql__last(p));
}

static bool at_case(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return next != SQL_END && next != SQL_COMMA && next != SQL_RIGHT_PAREN && next != SQL_DOT && next != KW_FROM &&
         next != SQL_SEMICOLON;
}

/* ---- subqueries, stars, parameters, lambdas ---- */

sql_expr *sql__subquery(sql_parser *p, Spark__Connect__TrnSubqueryKind kind, const sql_list *in_values, size_t start) {
  sql__expect(p, SQL_LEFT_PAREN);
  Spark__Connect__TrnSubquery *subquery = SQL_NEW(p, Spark__Connect__TrnSubquery, spark__connect__trn_subquery);
  const sql_lambda *lambda = p->lambda;
  p->lambda = NULL; /* variables of a lambda are not seen inside a query */
  subquery->kind = kind;
  subquery->relation = sql__query(p);
  p->lambda = lambda;
  sql__expect(p, SQL_RIGHT_PAREN);
  if (in_values != NULL) SQL_SET_LIST(*in_values, subquery, in_values);
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_SUBQUERY;
  expr->trn_subquery = subquery;
  return expr;
}

/* * or target.*, at the asterisk; with EXCEPT (a, b.c) */
static sql_expr *star(sql_parser *p, const sql_list *target, size_t start) {
  sql__advance(p);
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR;
  expr->unresolved_star =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedStar, spark__connect__expression__unresolved_star);
  if (target != NULL) {
    char *path = sql__join_path(p, target);
    expr->unresolved_star->_unparsed_target_case =
        SPARK__CONNECT__EXPRESSION__UNRESOLVED_STAR___UNPARSED_TARGET_UNPARSED_TARGET;
    expr->unresolved_star->unparsed_target = trn__arena_printf(p->arena, "%s.*", path);
    if (expr->unresolved_star->unparsed_target == NULL) sql__fail_memory(p);
  }
  if (sql__kind(p) != KW_EXCEPT || sql__ahead(p, 1) != SQL_LEFT_PAREN || p->tokens[p->at + 1].opens_query) return expr;
  p->at += 2;
  sql_list expressions = {0};
  sql__push(p, &expressions, expr);
  do {
    size_t first = p->at;
    sql_list parts = {0};
    sql__path(p, &parts);
    sql__push(p, &expressions, sql__attribute(p, &parts, first, sql__last(p)));
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
  sql_expr *result = sql__expr(p, start, sql__last(p));
  result->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_STAR_EXCEPT;
  result->trn_star_except = SQL_NEW(p, Spark__Connect__TrnExpressionList, spark__connect__trn_expression_list);
  SQL_SET_LIST(expressions, result->trn_star_except, expressions);
  return result;
}

static sql_expr *parameter(sql_parser *p) {
  size_t start = p->at;
  char *name;
  if (sql__accept(p, SQL_QUESTION)) {
    name = trn__arena_printf(p->arena, "%zu", p->positional++);
    if (name == NULL) sql__fail_memory(p);
  } else {
    sql__advance(p);
    name = sql__identifier(p);
    p->named++;
  }
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_PARAMETER;
  expr->trn_parameter = name;
  return expr;
}

bool sql__at_lambda(const sql_parser *p) {
  if (sql__ahead(p, 1) == SQL_ARROW) return sql__is_identifier(p, p->at);
  if (sql__kind(p) != SQL_LEFT_PAREN) return false;
  size_t close = sql__token(p)->match;
  if (sql__kind_at(p, close) != SQL_RIGHT_PAREN || sql__kind_at(p, close + 1) != SQL_ARROW) return false;
  for (size_t i = p->at + 1; i < close; i += 2) {
    if (!sql__is_identifier(p, i) || (sql__kind_at(p, i + 1) != SQL_COMMA && i + 1 != close)) return false;
  }
  return close > p->at + 2; /* one name in parentheses is no lambda */
}

sql_expr *sql__lambda(sql_parser *p) {
  size_t start = p->at;
  sql_list names = {0}, variables = {0};
  if (sql__accept(p, SQL_LEFT_PAREN)) {
    do {
      sql__push(p, &names, sql__identifier(p));
    } while (sql__accept(p, SQL_COMMA));
    sql__expect(p, SQL_RIGHT_PAREN);
  } else {
    sql__push(p, &names, sql__identifier(p));
  }
  sql__expect(p, SQL_ARROW);
  for (size_t i = 0; i < names.count; i++) {
    Spark__Connect__Expression__UnresolvedNamedLambdaVariable *variable =
        SQL_NEW(p, Spark__Connect__Expression__UnresolvedNamedLambdaVariable,
                spark__connect__expression__unresolved_named_lambda_variable);
    variable->n_name_parts = 1;
    variable->name_parts = (char **)&names.items[i];
    sql__push(p, &variables, variable);
  }
  sql_lambda scope = {.outer = p->lambda, .names = (char **)names.items, .count = names.count};
  scope.total = names.count + (scope.outer != NULL ? scope.outer->total : 0);
  if (scope.total > TRN_SQL_LAMBDA_VARIABLES_MAX) {
    p->status =
        trn_error_set(&p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                      "more lambda variables than TRN_SQL_LAMBDA_VARIABLES_MAX (%d)", TRN_SQL_LAMBDA_VARIABLES_MAX);
    longjmp(p->fail, 1);
  }
  p->lambda = &scope;
  sql_expr *body = sql__expression(p);
  p->lambda = scope.outer;
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LAMBDA_FUNCTION;
  expr->lambda_function =
      SQL_NEW(p, Spark__Connect__Expression__LambdaFunction, spark__connect__expression__lambda_function);
  expr->lambda_function->function = body;
  SQL_SET_LIST(variables, expr->lambda_function, arguments);
  return expr;
}

/* ---- names: columns, calls, stars ---- */

static sql_operand name_expression(sql_parser *p) {
  size_t start = p->at;
  sql_list parts = {0};
  if (sql__kind(p) == KW_IDENTIFIER_KW && sql__ahead(p, 1) == SQL_LEFT_PAREN) {
    sql__path(p, &parts);
  } else {
    sql__push(p, &parts, sql__identifier(p));
  }
  while (sql__kind(p) == SQL_DOT && sql__kind(p) != SQL_END) {
    if (sql__ahead(p, 1) == SQL_ASTERISK) {
      sql__advance(p);
      return operand_of(p, star(p, &parts, start), start);
    }
    sql__advance(p);
    sql__push(p, &parts, sql__identifier(p));
  }
  if (sql__kind(p) == SQL_LEFT_PAREN) return operand_of(p, sql__call(p, start, &parts), start);
  return operand_of(p, sql__attribute(p, &parts, start, sql__last(p)), start);
}

/* A single string; adjacent ones make one. */
static sql_expr *string_expression(sql_parser *p, size_t start) {
  size_t size;
  char *text = sql__string(p, &size);
  return sql__string_literal(p, text, size, start);
}

static sql_expr *null_literal(sql_parser *p, size_t start) {
  sql__advance(p);
  sql_expr *expr = sql__expr(p, start, start);
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  expr->literal = SQL_NEW(p, Spark__Connect__Expression__Literal, spark__connect__expression__literal);
  expr->literal->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL;
  expr->literal->null = SQL_NEW(p, sql_type, spark__connect__data_type);
  expr->literal->null->kind_case = SPARK__CONNECT__DATA_TYPE__KIND_NULL;
  expr->literal->null->null = SQL_NEW(p, Spark__Connect__DataType__NULL, spark__connect__data_type__null);
  return expr;
}

static sql_expr *boolean_literal(sql_parser *p, size_t start) {
  sql__advance(p);
  return sql__boolean(p, sql__kind_at(p, start) == KW_TRUE, start);
}

/* NULL, TRUE, FALSE are constants unless something makes names of them. */
static bool at_word_constant(const sql_parser *p) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  return (kind == KW_NULL || kind == KW_TRUE || kind == KW_FALSE) && next != SQL_LEFT_PAREN && next != SQL_DOT;
}

sql_operand sql__primary(sql_parser *p) {
  size_t start = p->at;
  sql_kind kind = sql__kind(p);
  sql_expr *expr;
  if (sql__is_number(kind) || (kind == SQL_MINUS && sql__is_number(sql__ahead(p, 1)))) {
    expr = sql__number(p);
  } else if (sql__is_string(p, start)) {
    expr = string_expression(p, start);
  } else if (kind == SQL_ASTERISK) {
    expr = star(p, NULL, start);
  } else if (kind == SQL_QUESTION || (kind == SQL_COLON && sql__is_identifier(p, start + 1))) {
    expr = parameter(p);
  } else if (sql__at_lambda(p)) {
    expr = sql__lambda(p);
  } else if (kind == SQL_LEFT_PAREN) { /* of an expression: expr.c reads those itself */
    expr = sql__subquery(p, SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_SCALAR, NULL, start);
  } else if (at_word_constant(p)) {
    expr = kind == KW_NULL ? null_literal(p, start) : boolean_literal(p, start);
  } else if (kind == KW_CASE && at_case(p)) {
    expr = case_expression(p);
  } else if (sql__at_interval(p)) {
    expr = sql__interval(p);
  } else if (sql__at_typed_string(p)) {
    expr = sql__typed_string(p);
  } else if (sql__at_special_call(p)) {
    expr = sql__special_call(p);
  } else {
    return name_expression(p);
  }
  return operand_of(p, expr, start);
}

/* ---- postfixes ---- */

/* .name.name: a longer path of an attribute, as Spark does it even behind parentheses; else fields. */
static sql_expr *dereference(sql_parser *p, sql_expr *base, size_t start) {
  if (base->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE) {
    sql__advance(p);
    size_t at = p->at;
    char *name = sql__identifier(p);
    return sql__extract(p, base, sql__string_literal(p, name, strlen(name), at), start, at);
  }
  sql_list parts = {0};
  while (sql__accept(p, SQL_DOT)) sql__push(p, &parts, sql__identifier(p));
  sql_expr *expr = sql__expr(p, start, sql__last(p));
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  expr->unresolved_attribute =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedAttribute, spark__connect__expression__unresolved_attribute);
  expr->unresolved_attribute->unparsed_identifier =
      trn__arena_printf(p->arena, "%s.%s", base->unresolved_attribute->unparsed_identifier, sql__join_path(p, &parts));
  if (expr->unresolved_attribute->unparsed_identifier == NULL) sql__fail_memory(p);
  return expr;
}

/* v:a.b[0] of a variant: variant_get(v, '$.a.b[0]', 'variant') */
static sql_expr *variant_path(sql_parser *p, sql_expr *base, size_t start) {
  sql__advance(p);
  size_t first = p->at;
  bool more = true;
  for (bool opening = true; more; opening = false) {
    if (sql__kind(p) == SQL_LEFT_BRACKET) {
      sql__advance(p);
      if (sql__kind(p) != SQL_INTEGER && !sql__is_string(p, p->at) && !sql__is_identifier(p, p->at))
        sql__fail_syntax(p);
      sql__advance(p);
      sql__expect(p, SQL_RIGHT_BRACKET);
    } else {
      if (!opening) sql__advance(p); /* the dot */
      sql__identifier(p);
    }
    more = sql__kind(p) == SQL_DOT || sql__kind(p) == SQL_LEFT_BRACKET;
  }
  const sql_token *a = &p->tokens[first], *b = &p->tokens[sql__last(p)];
  char *path = trn__arena_printf(p->arena, a->kind == SQL_LEFT_BRACKET ? "$%.*s" : "$.%.*s",
                                 (int)(b->start + b->size - a->start), p->text + a->start);
  if (path == NULL) sql__fail_memory(p);
  sql_list arguments = {0};
  sql__push(p, &arguments, base);
  sql__push(p, &arguments, sql__constant_text(p, path));
  sql__push(p, &arguments, sql__constant_text(p, "variant"));
  return sql__function(p, "variant_get", &arguments, start, sql__last(p));
}

static bool at_variant_path(const sql_parser *p) {
  return sql__kind(p) == SQL_COLON && (sql__is_identifier(p, p->at + 1) || sql__ahead(p, 1) == SQL_LEFT_BRACKET);
}

sql_operand sql__postfixes(sql_parser *p, sql_operand operand) {
  for (;;) {
    sql_expr *expr = operand.expr;
    if (sql__kind(p) == SQL_DOT) {
      expr = dereference(p, expr, operand.start);
    } else if (sql__accept(p, SQL_LEFT_BRACKET)) {
      sql_expr *index = sql__value(p);
      sql__expect(p, SQL_RIGHT_BRACKET);
      expr = sql__extract(p, expr, index, operand.start, sql__last(p));
    } else if (sql__accept(p, SQL_DOUBLE_COLON)) {
      sql_type *type = sql__type(p);
      expr = sql__cast(p, expr, type, false, operand.start, sql__last(p));
    } else if (sql__kind(p) == KW_COLLATE && sql__is_identifier(p, p->at + 1)) {
      sql__advance(p);
      char *name = sql__path_text(p);
      expr = sql__function2(p, "collate", expr, sql__constant_text(p, name), operand.start, sql__last(p));
    } else if (sql__kind(p) == SQL_COLON) {
      if (!at_variant_path(p)) sql__fail_syntax_at(p, p->at + 1, NULL);
      expr = variant_path(p, expr, operand.start);
    } else {
      return operand;
    }
    operand.expr = expr;
    operand.stop = sql__last(p);
  }
}
