/* SELECT with its clauses; GROUP BY with its grouping sets. */
#include "frontend/spark/sql/parser.h"

/* ---- hints ---- */

typedef struct hint {
  char *name;
  sql_list parameters;
} hint;

static void hints(sql_parser *p, sql_list *out) {
  while (sql__accept(p, SQL_HINT_START)) {
    do {
      hint *h = sql__alloc(p, sizeof(*h));
      h->name = sql__identifier(p);
      if (sql__accept(p, SQL_LEFT_PAREN)) {
        do {
          sql_operand parameter = sql__postfixes(p, sql__primary(p));
          sql__push(p, &h->parameters, parameter.expr);
        } while (sql__accept(p, SQL_COMMA));
        sql__expect(p, SQL_RIGHT_PAREN);
      }
      sql__push(p, out, h);
      sql__accept(p, SQL_COMMA);
    } while (sql__kind(p) != SQL_HINT_END && sql__kind(p) != SQL_END);
    sql__expect(p, SQL_HINT_END);
  }
}

static sql_relation *with_hints(sql_parser *p, sql_relation *input, const sql_list *list, size_t start) {
  for (size_t i = list->count; i-- > 0 && input != NULL;) {
    const hint *h = list->items[i];
    sql_relation *relation = sql__relation(p, start, sql__last(p));
    relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_HINT;
    relation->hint = SQL_NEW(p, Spark__Connect__Hint, spark__connect__hint);
    relation->hint->input = input;
    relation->hint->name = h->name;
    SQL_SET_LIST(h->parameters, relation->hint, parameters);
    input = relation;
  }
  return input;
}

/* ---- GROUP BY ---- */

typedef Spark__Connect__TrnExpressionList expression_list;

enum { GROUP_BY = 1, ROLLUP = 2, CUBE = 3, GROUPING_SETS = 5 }; /* Aggregate.GroupType */

/* One item of GROUP BY: the grouping sets that it stands for. */
typedef struct group_item {
  int32_t kind;   /* GROUP_BY: a plain expression */
  bool composite; /* ROLLUP and CUBE with (a, b) inside */
  sql_list sets;  /* of expression_list; those of ROLLUP and CUBE not expanded yet */
} group_item;

static void group_items(sql_parser *p, group_item *item);

static expression_list *new_set(sql_parser *p, const sql_list *expressions) {
  expression_list *set = SQL_NEW(p, expression_list, spark__connect__trn_expression_list);
  SQL_SET_LIST(*expressions, set, expressions);
  return set;
}

/* (a, b), () or a */
static void grouping_set(sql_parser *p, group_item *item) {
  sql_list expressions = {0};
  if (sql__kind(p) == SQL_LEFT_PAREN && !sql__token(p)->opens_query) {
    sql_kind behind = sql__kind_at(p, sql__token(p)->match + 1);
    if (behind == SQL_COMMA || behind == SQL_RIGHT_PAREN) {
      sql__advance(p);
      if (sql__kind(p) != SQL_RIGHT_PAREN) sql__expressions(p, &expressions);
      sql__expect(p, SQL_RIGHT_PAREN);
      if (expressions.count == 0 && (item->kind == ROLLUP || item->kind == CUBE)) {
        trn_kv param = {"element", item->kind == ROLLUP ? "ROLLUP" : "CUBE"};
        sql__refuse(p, sql__last(p) - 1, sql__last(p), "_LEGACY_ERROR_TEMP_0051", NULL, &param, 1);
      }
      item->composite = item->composite || expressions.count != 1;
      sql__push(p, &item->sets, new_set(p, &expressions));
      return;
    }
  }
  sql__push(p, &expressions, sql__expression(p));
  sql__push(p, &item->sets, new_set(p, &expressions));
}

_Noreturn static void fail_sets(sql_parser *p) {
  p->status = trn_error_set(&p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                            "GROUP BY has more grouping sets than TRN_GROUPING_SETS_MAX (%u)", TRN_GROUPING_SETS_MAX);
  longjmp(p->fail, 1);
}

static void append_set(sql_parser *p, sql_list *to, const expression_list *set) {
  for (size_t i = 0; i < set->n_expressions; i++) sql__push(p, to, set->expressions[i]);
}

/* Turns the sets of ROLLUP and CUBE into the grouping sets they stand for. */
static void expand(sql_parser *p, group_item *item) {
  sql_list expanded = {0};
  size_t n = item->sets.count;
  if (item->kind == ROLLUP) {
    if (n >= TRN_GROUPING_SETS_MAX) fail_sets(p);
    for (size_t size = n + 1; size-- > 0;) {
      sql_list expressions = {0};
      for (size_t i = 0; i < size; i++) append_set(p, &expressions, item->sets.items[i]);
      sql__push(p, &expanded, new_set(p, &expressions));
    }
  } else if (item->kind == CUBE) {
    if (n >= 31 || (1u << n) > TRN_GROUPING_SETS_MAX) fail_sets(p);
    for (uint32_t left_out = 0; left_out < 1u << n; left_out++) {
      sql_list expressions = {0};
      for (size_t i = 0; i < n; i++) {
        if ((left_out >> (n - 1 - i) & 1) == 0) append_set(p, &expressions, item->sets.items[i]);
      }
      sql__push(p, &expanded, new_set(p, &expressions));
    }
  } else {
    return;
  }
  item->sets = expanded;
  item->kind = GROUPING_SETS;
}

static void sets_in_parentheses(sql_parser *p, group_item *item, bool nested) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    if (nested) {
      group_items(p, item);
    } else {
      grouping_set(p, item);
    }
    if (item->sets.count > TRN_GROUPING_SETS_MAX) fail_sets(p);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

static bool at_analytics(const sql_parser *p) {
  sql_kind kind = sql__kind(p);
  return ((kind == KW_ROLLUP || kind == KW_CUBE) && sql__ahead(p, 1) == SQL_LEFT_PAREN) ||
         (kind == KW_GROUPING && sql__ahead(p, 1) == KW_SETS && sql__ahead(p, 2) == SQL_LEFT_PAREN);
}

static void analytics(sql_parser *p, group_item *item) {
  if (sql__accept(p, KW_GROUPING)) {
    item->kind = GROUPING_SETS;
    sql__advance(p);
    sets_in_parentheses(p, item, true);
    return;
  }
  item->kind = sql__kind(p) == KW_ROLLUP ? ROLLUP : CUBE;
  sql__advance(p);
  sets_in_parentheses(p, item, false);
}

/* An element of GROUPING SETS: a set, or other analytics whose sets join in. */
static void group_items(sql_parser *p, group_item *item) {
  if (!at_analytics(p)) {
    grouping_set(p, item);
    return;
  }
  sql__enter(p, SQL_DEPTH_EXPRESSION);
  group_item inner = {0};
  analytics(p, &inner);
  expand(p, &inner);
  for (size_t i = 0; i < inner.sets.count; i++) sql__push(p, &item->sets, inner.sets.items[i]);
  sql__leave(p, SQL_DEPTH_EXPRESSION);
}

/* All pairs of a set of `left` and one of `right`, joined. */
static sql_list cross(sql_parser *p, const sql_list *left, const sql_list *right) {
  sql_list product = {0};
  if (left->count * right->count > TRN_GROUPING_SETS_MAX) fail_sets(p);
  for (size_t i = 0; i < left->count; i++) {
    for (size_t j = 0; j < right->count; j++) {
      sql_list expressions = {0};
      append_set(p, &expressions, left->items[i]);
      append_set(p, &expressions, right->items[j]);
      sql__push(p, &product, new_set(p, &expressions));
    }
  }
  return product;
}

static void flatten(sql_parser *p, const sql_list *items, sql_list *expressions) {
  for (size_t i = 0; i < items->count; i++) {
    const group_item *item = items->items[i];
    for (size_t j = 0; j < item->sets.count; j++) append_set(p, expressions, item->sets.items[j]);
  }
}

/* a, b | ROLLUP(a, b) | a, ROLLUP(b), CUBE(c) */
static void finish_items(sql_parser *p, Spark__Connect__TrnSelect *select, const sql_list *items) {
  sql_list expressions = {0};
  group_item *first = items->items[0];
  bool plain = true;
  for (size_t i = 0; i < items->count; i++) plain = plain && ((group_item *)items->items[i])->kind == GROUP_BY;
  if (plain || (items->count == 1 && !first->composite && (first->kind == ROLLUP || first->kind == CUBE))) {
    select->group_type = plain ? GROUP_BY : first->kind;
    flatten(p, items, &expressions);
    SQL_SET_LIST(expressions, select, group_by);
    return;
  }
  expand(p, first);
  sql_list sets = first->sets;
  for (size_t i = 1; i < items->count; i++) {
    group_item *item = items->items[i];
    expand(p, item);
    sets = cross(p, &sets, &item->sets);
  }
  select->group_type = GROUPING_SETS;
  SQL_SET_LIST(sets, select, grouping_sets);
}

static bool at_group_all(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return sql__kind(p) == KW_ALL && next != SQL_DOT && next != SQL_LEFT_PAREN && next != SQL_COMMA &&
         !(next >= SQL_EQ && next <= SQL_HAT);
}

/* The grammar lets an alias stand here; it means nothing. */
static sql_expr *group_expression(sql_parser *p) {
  if (sql__kind(p) == KW_WITH && (sql__ahead(p, 1) == KW_ROLLUP || sql__ahead(p, 1) == KW_CUBE)) {
    return sql__expression(p); /* GROUP BY WITH ROLLUP lacks its expressions */
  }
  sql_expr *expr = sql__named_expression(p);
  return expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS ? expr->alias->expr : expr;
}

void sql__group_by(sql_parser *p, Spark__Connect__TrnSelect *select) {
  select->has_group_by = true;
  select->group_type = GROUP_BY;
  if (at_group_all(p)) {
    sql__advance(p);
    select->group_all = true;
    return;
  }
  sql_list items = {0};
  do {
    group_item *item = sql__alloc(p, sizeof(*item));
    item->kind = GROUP_BY;
    if (at_analytics(p)) {
      analytics(p, item);
    } else {
      sql_list expressions = {0};
      sql__push(p, &expressions, group_expression(p));
      sql__push(p, &item->sets, new_set(p, &expressions));
    }
    sql__push(p, &items, item);
  } while (sql__accept(p, SQL_COMMA));
  finish_items(p, select, &items);
  if (select->group_type != GROUP_BY) return;
  if (sql__accept2(p, KW_WITH, KW_ROLLUP)) {
    select->group_type = ROLLUP;
  } else if (sql__accept2(p, KW_WITH, KW_CUBE)) {
    select->group_type = CUBE;
  } else if (at_analytics(p) && sql__kind(p) == KW_GROUPING) { /* a, b GROUPING SETS ((a), (b)) */
    group_item item = {.kind = GROUPING_SETS};
    p->at += 2;
    sets_in_parentheses(p, &item, false);
    select->group_type = GROUPING_SETS;
    SQL_SET_LIST(item.sets, select, grouping_sets);
  }
}

/* ---- SELECT ---- */

void sql__window_clause(sql_parser *p, sql_list *windows) {
  size_t start = p->at;
  sql__advance(p);
  do {
    sql__named_window(p, windows);
  } while (sql__accept(p, SQL_COMMA));
  sql_list names = {0};
  for (size_t i = 0; i < windows->count; i++)
    sql__push(p, &names, ((Spark__Connect__TrnNamedWindow *)windows->items[i])->name);
  const char *duplicate = sql__find_duplicate(p, &names);
  if (duplicate == NULL) return;
  trn_kv param = {"windowName", trn__arena_printf(p->arena, "`%s`", duplicate)};
  sql__refuse(p, start, sql__last(p), "INVALID_SQL_SYNTAX.REPETITIVE_WINDOW_DEFINITION", "42000", &param, 1);
}

static bool at_set_quantifier(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return (sql__kind(p) == KW_DISTINCT || sql__kind(p) == KW_ALL) && next != SQL_END && next != SQL_COMMA &&
         next != SQL_RIGHT_PAREN && next != SQL_DOT && next != SQL_SEMICOLON;
}

/* SELECT TRANSFORM(...) USING 'script', not the function transform */
static bool at_script_transform(const sql_parser *p) {
  if (sql__kind(p) != KW_TRANSFORM || sql__ahead(p, 1) != SQL_LEFT_PAREN) return false;
  sql_kind behind = sql__kind_at(p, p->tokens[p->at + 1].match + 1);
  return behind == KW_USING || behind == KW_ROW || behind == KW_RECORDWRITER;
}

static void clauses(sql_parser *p, Spark__Connect__TrnSelect *select) {
  sql_list windows = {0};
  if (sql__accept2(p, KW_GROUP, KW_BY)) {
    sql__group_by(p, select);
  } else if (sql__kind(p) == KW_GROUP) {
    sql__advance(p);
    sql__expect(p, KW_BY);
  }
  if (sql__accept(p, KW_HAVING)) select->having = sql__expression(p);
  if (sql__accept(p, KW_QUALIFY)) select->qualify = sql__expression(p);
  if (sql__kind(p) == KW_WINDOW) sql__window_clause(p, &windows);
  if (select->qualify == NULL && sql__accept(p, KW_QUALIFY)) select->qualify = sql__expression(p);
  SQL_SET_LIST(windows, select, windows);
}

sql_relation *sql__select_of(sql_parser *p, Spark__Connect__TrnSelect *select, size_t start) {
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_SELECT;
  relation->trn_select = select;
  return relation;
}

sql_relation *sql__select(sql_parser *p, sql_relation *from, sql_select_form form) {
  size_t start = p->at;
  Spark__Connect__TrnSelect *select = SQL_NEW(p, Spark__Connect__TrnSelect, spark__connect__trn_select);
  sql_list list = {0}, hint_list = {0};
  sql__expect(p, KW_SELECT);
  hints(p, &hint_list);
  if (at_script_transform(p)) sql__fail_unimplemented(p, p->at, "TRANSFORM");
  if (at_set_quantifier(p)) {
    select->distinct = sql__kind(p) == KW_DISTINCT;
    sql__advance(p);
  }
  sql__named_expressions(p, &list);
  SQL_SET_LIST(list, select, select);
  size_t from_start = p->at;
  if (form == SQL_SELECT_PIPE) { /* |> SELECT has no FROM and WHERE */
    clauses(p, select);
    select->input = with_hints(p, from, &hint_list, start);
    return sql__select_of(p, select, start);
  }
  if (form == SQL_SELECT_PLAIN && sql__kind(p) == KW_FROM) from = sql__from_clause(p);
  from = sql__lateral_views(p, from, from_start);
  if (sql__accept(p, KW_WHERE)) {
    sql_expr *condition = sql__expression(p);
    from = sql__filter(p, from != NULL ? from : sql__one_row(p), condition, from_start, sql__last(p));
  }
  clauses(p, select);
  select->input = with_hints(p, from, &hint_list, from_start);
  return sql__select_of(p, select, start);
}
