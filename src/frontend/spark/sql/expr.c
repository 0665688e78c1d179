/* Expressions by operator precedence, with two stacks instead of recursion. Levels as in Spark's grammar. */
#include "frontend/spark/sql/parser.h"

typedef enum level {
  LEVEL_PAREN, /* an open parenthesis; never reduced by an operator */
  LEVEL_OR,
  LEVEL_AND,
  LEVEL_NOT,
  LEVEL_COMPARE,
  LEVEL_PIPE,
  LEVEL_HAT,
  LEVEL_AMPERSAND,
  LEVEL_SHIFT,
  LEVEL_ADD,
  LEVEL_MULTIPLY,
  LEVEL_UNARY
} level;

typedef struct sql_operator {
  level level;
  const char *name; /* of the function */
  bool negated;     /* <> and != are not(==) */
  bool aliased;     /* of PAREN: the element being read has an alias */
  size_t at;        /* its token */
  sql_list row;     /* of PAREN: the elements before the last comma */
} sql_operator;

/* One call of parse(): the parts of the stacks above its base are its own. */
typedef struct machine {
  size_t operators, operands;
  size_t open;  /* parentheses */
  bool boolean; /* NOT, AND, OR and predicates may stand outside parentheses */
} machine;

/* ---- the stacks ---- */

static sql_operator *push_operator(sql_parser *p, level level, const char *name, size_t at) {
  if (p->operator_count == p->operator_capacity) {
    size_t capacity = p->operator_capacity == 0 ? 32 : p->operator_capacity * 2;
    sql_operator *grown = sql__alloc(p, capacity * sizeof(*grown));
    if (p->operator_count > 0) memcpy(grown, p->operators, p->operator_count * sizeof(*grown));
    p->operators = grown;
    p->operator_capacity = capacity;
  }
  sql_operator *entry = &p->operators[p->operator_count++];
  *entry = (sql_operator){.level = level, .name = name, .at = at};
  return entry;
}

static void push_operand(sql_parser *p, sql_operand operand) {
  if (p->operand_count == p->operand_capacity) {
    size_t capacity = p->operand_capacity == 0 ? 32 : p->operand_capacity * 2;
    sql_operand *grown = sql__alloc(p, capacity * sizeof(*grown));
    if (p->operand_count > 0) memcpy(grown, p->operands, p->operand_count * sizeof(*grown));
    p->operands = grown;
    p->operand_capacity = capacity;
  }
  p->operands[p->operand_count++] = operand;
}

static sql_operand *top_operand(sql_parser *p) {
  return &p->operands[p->operand_count - 1];
}

/* ---- reducing ---- */

/* Spark builds long chains of AND and OR as balanced trees, in this shape. */
static sql_expr *balanced(sql_parser *p, const char *name, const sql_operand *terms, size_t low, size_t high,
                          size_t start, size_t stop) {
  if (low == high) return terms[low].expr;
  size_t middle = high - low == 1 ? low : low + (high - low) / 2;
  sql_expr *left = balanced(p, name, terms, low, middle, start, stop);
  sql_expr *right = balanced(p, name, terms, middle + 1, high, start, stop);
  return sql__function2(p, name, left, right, start, stop);
}

static void reduce_chain(sql_parser *p, const machine *m, const sql_operator *last) {
  size_t terms = 1;
  while (p->operator_count > m->operators && p->operators[p->operator_count - 1].level == last->level) {
    p->operator_count--;
    terms++;
  }
  const sql_operand *first = &p->operands[p->operand_count - terms];
  sql_operand result = {.start = first->start, .stop = top_operand(p)->stop};
  result.expr = balanced(p, last->name, first, 0, terms - 1, result.start, result.stop);
  p->operand_count -= terms;
  push_operand(p, result);
}

static void reduce_one(sql_parser *p, const machine *m) {
  sql_operator entry = p->operators[p->operator_count - 1];
  if (entry.level == LEVEL_AND || entry.level == LEVEL_OR) {
    reduce_chain(p, m, &entry);
    return;
  }
  p->operator_count--;
  sql_operand *right = top_operand(p);
  if (entry.level == LEVEL_NOT || entry.level == LEVEL_UNARY) {
    right->start = entry.at;
    right->expr = sql__function1(p, entry.name, right->expr, right->start, right->stop);
    return;
  }
  sql_operand *left = right - 1;
  sql_expr *expr = sql__function2(p, entry.name, left->expr, right->expr, left->start, right->stop);
  if (entry.negated) expr = sql__function1(p, "not", expr, left->start, right->stop);
  left->expr = expr;
  left->stop = right->stop;
  p->operand_count--;
}

/* Reduces what binds at least as tightly as `level`, down to the innermost open parenthesis. */
static void reduce(sql_parser *p, const machine *m, level level) {
  while (p->operator_count > m->operators && p->operators[p->operator_count - 1].level >= level) reduce_one(p, m);
}

/* ---- operators ---- */

static const struct binary_operator {
  uint16_t kind;
  uint8_t level;
  bool negated;
  const char *name;
} binary_operators[] = {
    {SQL_EQ, LEVEL_COMPARE, false, "=="},
    {SQL_NSEQ, LEVEL_COMPARE, false, "<=>"},
    {SQL_NEQ, LEVEL_COMPARE, true, "=="},
    {SQL_NEQJ, LEVEL_COMPARE, true, "=="},
    {SQL_LT, LEVEL_COMPARE, false, "<"},
    {SQL_LTE, LEVEL_COMPARE, false, "<="},
    {SQL_GT, LEVEL_COMPARE, false, ">"},
    {SQL_GTE, LEVEL_COMPARE, false, ">="},
    {SQL_PIPE, LEVEL_PIPE, false, "|"},
    {SQL_HAT, LEVEL_HAT, false, "^"},
    {SQL_AMPERSAND, LEVEL_AMPERSAND, false, "&"},
    {SQL_SHIFT_LEFT, LEVEL_SHIFT, false, "<<"},
    {SQL_SHIFT_RIGHT, LEVEL_SHIFT, false, ">>"},
    {SQL_SHIFT_RIGHT_UNSIGNED, LEVEL_SHIFT, false, ">>>"},
    {SQL_PLUS, LEVEL_ADD, false, "+"},
    {SQL_MINUS, LEVEL_ADD, false, "-"},
    {SQL_CONCAT, LEVEL_ADD, false, "concat"},
    {SQL_ASTERISK, LEVEL_MULTIPLY, false, "*"},
    {SQL_SLASH, LEVEL_MULTIPLY, false, "/"},
    {SQL_PERCENT, LEVEL_MULTIPLY, false, "%"},
    {KW_DIV, LEVEL_MULTIPLY, false, "div"},
};

static const struct binary_operator *find_binary(sql_kind kind) {
  for (size_t i = 0; i < sizeof(binary_operators) / sizeof(binary_operators[0]); i++) {
    if (binary_operators[i].kind == kind) return &binary_operators[i];
  }
  return NULL;
}

/* What cannot follow an operator that is a word: there the word is an identifier. */
static bool ends_phrase(sql_kind kind) {
  return kind == SQL_END || kind == SQL_COMMA || kind == SQL_RIGHT_PAREN || kind == SQL_SEMICOLON;
}

static bool is_boolean_context(const machine *m) {
  return m->boolean || m->open > 0;
}

/* NOT may stand where a boolean expression starts, not as the operand of + or =. */
static bool at_boolean_start(const sql_parser *p, const machine *m) {
  if (p->operator_count == m->operators) return m->boolean;
  return p->operators[p->operator_count - 1].level <= LEVEL_NOT;
}

static bool at_not(const sql_parser *p, const machine *m) {
  if (sql__kind(p) == SQL_BANG) {
    return at_boolean_start(p, m);
  }
  return sql__kind(p) == KW_NOT && !ends_phrase(sql__ahead(p, 1)) && sql__ahead(p, 1) != SQL_DOT &&
         at_boolean_start(p, m);
}

/* Prefix operators, open parentheses, one primary expression with its postfixes. */
static void want_operand(sql_parser *p, machine *m) {
  for (;;) {
    size_t at = p->at;
    sql_kind kind = sql__kind(p);
    if ((kind == SQL_MINUS && !sql__is_number(sql__ahead(p, 1))) || kind == SQL_PLUS || kind == SQL_TILDE) {
      push_operator(p, LEVEL_UNARY, kind == SQL_MINUS ? "negative" : kind == SQL_PLUS ? "positive" : "~", at);
    } else if (at_not(p, m)) {
      push_operator(p, LEVEL_NOT, "not", at);
    } else if (kind == SQL_LEFT_PAREN && !sql__token(p)->opens_query && !sql__at_lambda(p)) {
      sql__enter(p, SQL_DEPTH_PAREN);
      push_operator(p, LEVEL_PAREN, NULL, at);
      m->open++;
    } else {
      break;
    }
    sql__advance(p);
  }
  push_operand(p, sql__postfixes(p, sql__primary(p)));
}

/* ---- predicates: [NOT] IN, LIKE, BETWEEN, IS ---- */

static sql_expr *negate_if(sql_parser *p, sql_expr *expr, bool negated, size_t start) {
  return negated ? sql__function1(p, "not", expr, start, sql__last(p)) : expr;
}

static sql_expr *between(sql_parser *p, const sql_operand *left) {
  sql_expr *lower = sql__value(p);
  sql__expect(p, KW_AND);
  sql_expr *upper = sql__value(p);
  sql_list arguments = {0};
  sql__push(p, &arguments, left->expr);
  sql__push(p, &arguments, lower);
  sql__push(p, &arguments, upper);
  return sql__function(p, "between", &arguments, left->start, sql__last(p));
}

static sql_expr *in(sql_parser *p, const sql_operand *left) {
  sql_list values = {0};
  if (sql__kind(p) == SQL_LEFT_PAREN && sql__token(p)->opens_query && sql__ahead(p, 1) != SQL_LEFT_PAREN) {
    sql__row_values(p, left->expr, &values);
    return sql__subquery(p, SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_IN, &values, left->start);
  }
  if (sql__kind(p) == SQL_LEFT_PAREN && sql__token(p)->opens_query &&
      sql__kind_at(p, sql__token(p)->match) == SQL_RIGHT_PAREN &&
      sql__kind_at(p, p->tokens[p->at + 1].match + 1) != SQL_RIGHT_PAREN) { /* ((query) UNION (query)) */
    sql__row_values(p, left->expr, &values);
    return sql__subquery(p, SPARK__CONNECT__TRN_SUBQUERY_KIND__TRN_SUBQUERY_KIND_IN, &values, left->start);
  }
  sql__push(p, &values, left->expr);
  sql__expect(p, SQL_LEFT_PAREN);
  if (sql__kind(p) == SQL_RIGHT_PAREN) {
    size_t first = p->at - (sql__kind_at(p, p->at - 3) == KW_NOT ? 3 : 2);
    sql__refuse(p, first, p->at, "INVALID_SQL_SYNTAX.EMPTY_IN_PREDICATE", "42000", NULL, 0);
  } else {
    sql__expressions(p, &values);
  }
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__function(p, "in", &values, left->start, sql__last(p));
}

/* LIKE ANY (p, q) is LIKE p OR LIKE q; NOT goes to each. */
static sql_expr *like_quantified(sql_parser *p, const sql_operand *left, const char *name, bool negated, bool all) {
  size_t quantifier = p->at;
  sql_list patterns = {0};
  p->at += 2;
  if (sql__kind(p) == SQL_RIGHT_PAREN) {
    trn_kv param = {"msg", "Expected something between '(' and ')'."};
    sql__refuse(p, left->start, quantifier, "_LEGACY_ERROR_TEMP_0064", NULL, &param, 1);
    sql__advance(p);
    return left->expr;
  }
  sql__expressions(p, &patterns);
  sql__expect(p, SQL_RIGHT_PAREN);
  size_t stop = sql__last(p);
  bool constant = true;
  for (size_t i = 0; i < patterns.count; i++) {
    const sql_expr *pattern = patterns.items[i];
    constant &= pattern->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL &&
                pattern->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING;
  }
  if (constant) { /* one expression, as Spark has it */
    static const char *const names[] = {"@likeany", "@notlikeany", "@likeall", "@notlikeall"};
    bool lower = strcmp(name, "ilike") == 0;
    sql_list arguments = {0};
    sql__push(p, &arguments, lower ? sql__function1(p, "lower", left->expr, left->start, stop) : left->expr);
    for (size_t i = 0; i < patterns.count; i++)
      sql__push(p, &arguments, lower ? sql__function1(p, "lower", patterns.items[i], left->start, stop) : patterns.items[i]);
    return sql__function(p, names[2 * all + negated], &arguments, left->start, stop);
  }
  sql_operand *terms = sql__alloc(p, patterns.count * sizeof(*terms));
  for (size_t i = 0; i < patterns.count; i++) {
    terms[i].expr = sql__function2(p, name, left->expr, patterns.items[i], left->start, stop);
    terms[i].expr = negate_if(p, terms[i].expr, negated, left->start);
  }
  return balanced(p, all ? "and" : "or", terms, 0, patterns.count - 1, left->start, stop);
}

static sql_expr *like(sql_parser *p, const sql_operand *left, const char *name, bool negated) {
  sql_kind kind = sql__kind(p);
  if ((kind == KW_ANY || kind == KW_SOME || kind == KW_ALL) && sql__ahead(p, 1) == SQL_LEFT_PAREN) {
    return like_quantified(p, left, name, negated, kind == KW_ALL);
  }
  sql_list arguments = {0};
  sql__push(p, &arguments, left->expr);
  sql__push(p, &arguments, sql__value(p));
  if (sql__accept(p, KW_ESCAPE)) {
    size_t start = p->at, size;
    char *text = sql__string(p, &size);
    if (size != 1) {
      trn_kv param = {"sqlExpr", text};
      sql__refuse(p, left->start, sql__last(p), "INVALID_ESCAPE_CHAR", "42604", &param, 1);
    }
    sql__push(p, &arguments, sql__string_literal(p, text, size, start));
  }
  sql_expr *expr = sql__function(p, name, &arguments, left->start, sql__last(p));
  return negate_if(p, expr, negated, left->start);
}

static sql_expr *is(sql_parser *p, const sql_operand *left) {
  bool negated = sql__accept(p, KW_NOT) || sql__accept(p, SQL_BANG);
  size_t start = left->start, at = p->at;
  switch ((int)sql__kind(p)) {
  case KW_NULL: sql__advance(p); return sql__function1(p, negated ? "isNotNull" : "isNull", left->expr, start, at);
  case KW_UNKNOWN: sql__advance(p); return sql__function1(p, negated ? "isNotNull" : "isNull", left->expr, start, at);
  case KW_TRUE:
  case KW_FALSE: {
    sql_expr *value = sql__boolean(p, sql__kind(p) == KW_TRUE, at);
    sql__advance(p);
    return negate_if(p, sql__function2(p, "<=>", left->expr, value, start, at), negated, start);
  }
  case KW_DISTINCT: {
    sql__advance(p);
    sql__expect(p, KW_FROM);
    sql_expr *right = sql__value(p);
    return negate_if(p, sql__function2(p, "<=>", left->expr, right, start, sql__last(p)), !negated, start);
  }
  default: sql__fail_syntax(p);
  }
}

static bool is_predicate(sql_kind kind) {
  return kind == KW_BETWEEN || kind == KW_IN || kind == KW_RLIKE || kind == KW_LIKE || kind == KW_ILIKE;
}

static bool at_predicate(const sql_parser *p) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  if (kind == KW_NOT || kind == SQL_BANG) return is_predicate(next);
  return (is_predicate(kind) || kind == KW_IS) && !ends_phrase(next);
}

/* Replaces the top operand by the predicate over it. */
static void predicate(sql_parser *p) {
  sql_operand left = *top_operand(p);
  p->operand_count--; /* nested calls use the stack above */
  bool negated = sql__accept(p, KW_NOT) || sql__accept(p, SQL_BANG);
  sql_kind kind = sql__kind(p);
  sql__advance(p);
  sql_expr *expr;
  if (kind == KW_LIKE || kind == KW_ILIKE) {
    expr = like(p, &left, kind == KW_LIKE ? "like" : "ilike", negated);
  } else if (kind == KW_IS) {
    expr = is(p, &left);
  } else {
    if (kind == KW_BETWEEN) {
      expr = between(p, &left);
    } else if (kind == KW_IN) {
      expr = in(p, &left);
    } else {
      sql_expr *pattern = sql__value(p);
      expr = sql__function2(p, "rlike", left.expr, pattern, left.start, sql__last(p));
    }
    expr = negate_if(p, expr, negated, left.start);
  }
  push_operand(p, (sql_operand){expr, left.start, sql__last(p)});
}

/* ---- parentheses ---- */

/* Takes the top operand off and appends it to the row of the innermost open parenthesis. */
static sql_operator *take_element(sql_parser *p, const machine *m) {
  reduce(p, m, LEVEL_OR);
  sql_operator *paren = &p->operators[p->operator_count - 1];
  sql__push(p, &paren->row, top_operand(p)->expr);
  p->operand_count--;
  paren->aliased = false;
  return paren;
}

static void close_paren(sql_parser *p, machine *m) {
  reduce(p, m, LEVEL_OR);
  sql_operator *paren = &p->operators[p->operator_count - 1];
  if (paren->aliased && paren->row.count == 0) sql__fail_syntax(p); /* (a AS b) is no row */
  sql_operand operand = *top_operand(p);
  operand.start = paren->at;
  operand.stop = p->at;
  if (paren->row.count > 0) {
    sql_list row = take_element(p, m)->row;
    operand.expr = sql__function(p, "row_struct", &row, operand.start, operand.stop);
  } else {
    p->operand_count--;
  }
  p->operator_count--;
  m->open--;
  sql__leave(p, SQL_DEPTH_PAREN);
  sql__advance(p);
  push_operand(p, sql__postfixes(p, operand));
}

/* Names behind an expression: AS a, AS (a, b), a. Returns false when there are none. */
static bool alias_names(sql_parser *p, sql_list *names) {
  bool is_name = sql__as_is_name(p), as = !is_name && sql__accept(p, KW_AS);
  if (sql__kind(p) == SQL_LEFT_PAREN) {
    sql__identifier_list(p, names);
    return true;
  }
  if (!is_name && !as && !sql__at_alias(p, false)) return false;
  sql__push(p, names, sql__error_capturing_identifier(p));
  return true;
}

static bool alias_element(sql_parser *p, machine *m) {
  sql_operator *paren;
  sql_list names = {0};
  reduce(p, m, LEVEL_OR);
  paren = &p->operators[p->operator_count - 1];
  if (paren->aliased || !alias_names(p, &names)) return false;
  paren->aliased = true;
  sql_operand *operand = top_operand(p);
  operand->stop = sql__last(p);
  operand->expr = sql__alias(p, operand->expr, &names, operand->start, operand->stop);
  return true;
}

/* ---- behind an operand ---- */

/* Reads what follows an operand. True: another operand must come. False: the expression ends here. */
static bool after_operand(sql_parser *p, machine *m) {
  bool predicated = false; /* a predicate is no operand of another one, nor of + or = */
  for (;;) {
    sql_kind kind = sql__kind(p);
    const struct binary_operator *binary = predicated ? NULL : find_binary(kind);
    if (m->open == 0 && kind == SQL_PIPE && sql__at_pipe(p)) return false;
    if (binary != NULL && !(kind == KW_DIV && ends_phrase(sql__ahead(p, 1)))) {
      reduce(p, m, (level)binary->level);
      push_operator(p, (level)binary->level, binary->name, p->at)->negated = binary->negated;
      sql__advance(p);
      return true;
    }
    if ((kind == KW_AND || kind == KW_OR) && is_boolean_context(m) && !ends_phrase(sql__ahead(p, 1))) {
      level chain = kind == KW_AND ? LEVEL_AND : LEVEL_OR;
      reduce(p, m, chain + 1);
      push_operator(p, chain, kind == KW_AND ? "and" : "or", p->at);
      sql__advance(p);
      return true;
    }
    if (!predicated && is_boolean_context(m) && at_predicate(p)) {
      reduce(p, m, LEVEL_COMPARE);
      predicate(p);
      predicated = true;
    } else if (m->open == 0) {
      return false;
    } else if (kind == SQL_RIGHT_PAREN) {
      close_paren(p, m);
      predicated = false;
    } else if (kind == SQL_COMMA) {
      take_element(p, m);
      sql__advance(p);
      return true;
    } else if (!alias_element(p, m)) {
      sql__expect(p, SQL_RIGHT_PAREN);
    }
  }
}

static sql_operand parse(sql_parser *p, bool boolean) {
  sql__enter(p, SQL_DEPTH_EXPRESSION);
  machine m = {.operators = p->operator_count, .operands = p->operand_count, .boolean = boolean};
  do {
    want_operand(p, &m);
  } while (after_operand(p, &m));
  reduce(p, &m, LEVEL_OR);
  TRN_ASSERT(p->operator_count == m.operators && p->operand_count == m.operands + 1);
  sql__leave(p, SQL_DEPTH_EXPRESSION);
  return p->operands[--p->operand_count];
}

sql_operand sql__operand(sql_parser *p) {
  return parse(p, true);
}
sql_expr *sql__expression(sql_parser *p) {
  return parse(p, true).expr;
}
sql_operand sql__value_operand(sql_parser *p) {
  return parse(p, false);
}
sql_expr *sql__value(sql_parser *p) {
  return parse(p, false).expr;
}

sql_expr *sql__named_expression(sql_parser *p) {
  unsigned outer_depth = p->alias_depth;
  p->alias_depth = p->depth + SQL_DEPTH_EXPRESSION;
  sql_operand operand = parse(p, true);
  p->alias_depth = outer_depth;
  sql_list names = {0};
  if (!alias_names(p, &names)) return operand.expr;
  return sql__alias(p, operand.expr, &names, operand.start, sql__last(p));
}

void sql__expressions(sql_parser *p, sql_list *list) {
  do {
    sql__push(p, list, sql__expression(p));
  } while (sql__accept(p, SQL_COMMA));
}

void sql__named_expressions(sql_parser *p, sql_list *list) {
  do {
    sql__push(p, list, sql__named_expression(p));
  } while (sql__accept(p, SQL_COMMA));
}

Spark__Connect__Expression__SortOrder *sql__sort_item(sql_parser *p) {
  Spark__Connect__Expression__SortOrder *order =
      SQL_NEW(p, Spark__Connect__Expression__SortOrder, spark__connect__expression__sort_order);
  order->child = sql__expression(p);
  bool descending = sql__accept(p, KW_DESC);
  if (!descending) sql__accept(p, KW_ASC);
  bool first = !descending; /* Spark's default */
  if (sql__kind(p) == KW_NULLS) {
    sql__advance(p);
    first = sql__kind(p) == KW_FIRST;
    if (!first && sql__kind(p) != KW_LAST) sql__fail_syntax(p);
    sql__advance(p);
  }
  order->direction = descending ? SPARK__CONNECT__EXPRESSION__SORT_ORDER__SORT_DIRECTION__SORT_DIRECTION_DESCENDING
                                : SPARK__CONNECT__EXPRESSION__SORT_ORDER__SORT_DIRECTION__SORT_DIRECTION_ASCENDING;
  order->null_ordering = first ? SPARK__CONNECT__EXPRESSION__SORT_ORDER__NULL_ORDERING__SORT_NULLS_FIRST
                               : SPARK__CONNECT__EXPRESSION__SORT_ORDER__NULL_ORDERING__SORT_NULLS_LAST;
  return order;
}

void sql__sort_items(sql_parser *p, sql_list *list) {
  do {
    sql__push(p, list, sql__sort_item(p));
  } while (sql__accept(p, SQL_COMMA));
}
