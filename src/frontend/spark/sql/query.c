/* Queries: WITH, set operations, what may be a query, ORDER BY to OFFSET. */
#include "frontend/spark/sql/parser.h"

/* ---- where a query starts ---- */

static bool ends_or_operates(sql_kind kind) {
  return kind == SQL_END || kind == SQL_COMMA || kind == SQL_RIGHT_PAREN || kind == SQL_DOT ||
         (kind >= SQL_EQ && kind <= SQL_GTE) || kind == SQL_SLASH || kind == SQL_CONCAT || kind == SQL_SEMICOLON;
}

static bool is_transform(const sql_parser *p, size_t index) {
  sql_kind next = sql__kind_at(p, index + 1);
  return !ends_or_operates(next) && next != SQL_LEFT_PAREN && next != SQL_ARROW;
}

/* The words that start a query are no reserved words: (SELECT) is a column. */
bool sql__starts_query(const sql_parser *p, size_t index) {
  sql_kind next = sql__kind_at(p, index + 1);
  switch ((int)sql__kind_at(p, index)) {
  case KW_SELECT: return !ends_or_operates(next);
  case KW_VALUES: return !ends_or_operates(next);
  case KW_FROM: return sql__is_identifier(p, index + 1) || next == SQL_LEFT_PAREN;
  case KW_TABLE: return sql__is_identifier(p, index + 1);
  case KW_WITH: {
    sql_kind second = sql__kind_at(p, index + 2);
    return sql__is_identifier(p, index + 1) &&
           (second == KW_AS || second == SQL_LEFT_PAREN || next == KW_RECURSIVE || second == KW_MAX);
  }
  case KW_MAP:
  case KW_REDUCE: return is_transform(p, index);
  default: return false;
  }
}

/* ---- WITH ---- */

static void cte(sql_parser *p, sql_list *ctes, bool recursive) {
  size_t start = p->at;
  Spark__Connect__TrnCte *out = SQL_NEW(p, Spark__Connect__TrnCte, spark__connect__trn_cte);
  sql_list columns = {0};
  out->name = sql__error_capturing_identifier(p);
  if (sql__kind(p) == SQL_LEFT_PAREN && !sql__token(p)->opens_query) sql__identifier_list(p, &columns);
  if (sql__kind(p) == KW_MAX && sql__ahead(p, 1) == KW_RECURSION) {
    p->at += 2;
    sql__expect(p, KW_LEVEL);
    if (!recursive) {
      trn_kv param = {"message", "Cannot specify MAX RECURSION LEVEL when the CTE is not marked as RECURSIVE"};
      sql__refuse(p, start, p->at, "_LEGACY_ERROR_TEMP_0035", NULL, &param, 1);
    }
    out->max_recursion_level = sql__integer_value(p);
  }
  sql__accept(p, KW_AS);
  sql__expect(p, SQL_LEFT_PAREN);
  out->relation = sql__query(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(columns, out, columns);
  sql__push(p, ctes, out);
}

sql_relation *sql__with(sql_parser *p) {
  size_t start = p->at;
  Spark__Connect__TrnWith *message = SQL_NEW(p, Spark__Connect__TrnWith, spark__connect__trn_with);
  sql_list ctes = {0}, names = {0};
  sql__advance(p);
  if (sql__kind(p) == KW_RECURSIVE && sql__is_identifier(p, p->at + 1) && sql__ahead(p, 1) != KW_AS) {
    message->recursive = true;
    sql__advance(p);
  }
  do {
    cte(p, &ctes, message->recursive);
    sql__push(p, &names, ((Spark__Connect__TrnCte *)ctes.items[ctes.count - 1])->name);
  } while (sql__accept(p, SQL_COMMA));
  const char *duplicate = sql__find_duplicate(p, &names);
  if (duplicate != NULL) {
    trn_kv param = {"duplicateNames", trn__arena_printf(p->arena, "`%s`", duplicate)};
    sql__refuse(p, start, sql__last(p), "DUPLICATED_CTE_NAMES", "42602", &param, 1);
  }
  SQL_SET_LIST(ctes, message, ctes);
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_WITH;
  relation->trn_with = message;
  return relation;
}

/* ---- set operations ---- */

bool sql__set_quantifier(sql_parser *p) {
  if (sql__accept(p, KW_ALL)) return true;
  sql__accept(p, KW_DISTINCT);
  return false;
}

sql_relation *sql__set_operation(sql_parser *p, sql_relation *left, sql_relation *right, sql_kind kind, bool all,
                                 size_t start) {
  Spark__Connect__SetOperation *operation = SQL_NEW(p, Spark__Connect__SetOperation, spark__connect__set_operation);
  operation->left_input = left;
  operation->right_input = right;
  operation->set_op_type = kind == KW_UNION       ? SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_UNION
                           : kind == KW_INTERSECT ? SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_INTERSECT
                                                  : SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_EXCEPT;
  operation->_is_all_case = SPARK__CONNECT__SET_OPERATION___IS_ALL_IS_ALL;
  operation->is_all = all;
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SET_OP;
  relation->set_op = operation;
  return relation;
}

static bool is_set_operator(sql_kind kind) {
  return kind == KW_UNION || kind == KW_EXCEPT || kind == KW_SETMINUS;
}

/* Operands of UNION and EXCEPT: INTERSECT binds tighter. */
static sql_relation *intersection(sql_parser *p) {
  size_t start = p->at;
  sql_relation *left = sql__query_primary(p);
  while (sql__kind(p) == KW_INTERSECT && !p->options.legacy_setops_precedence) {
    sql__advance(p);
    bool all = sql__set_quantifier(p);
    sql_relation *right = sql__query_primary(p);
    left = sql__set_operation(p, left, right, KW_INTERSECT, all, start);
  }
  return left;
}

static sql_relation *query_term(sql_parser *p) {
  size_t start = p->at;
  sql_relation *left = intersection(p);
  for (;;) {
    sql_kind kind = sql__kind(p);
    if (is_set_operator(kind) || kind == KW_INTERSECT) {
      sql__advance(p);
      bool all = sql__set_quantifier(p);
      sql_relation *right = intersection(p);
      left = sql__set_operation(p, left, right, kind, all, start);
    } else if (sql__at_pipe(p)) {
      sql__advance(p);
      left = sql__pipe(p, left, start);
    } else {
      return left;
    }
  }
}

/* ---- primaries ---- */

/* FROM t SELECT a; FROM t alone is SELECT * */
static sql_relation *from_statement(sql_parser *p) {
  sql_relation *from = sql__from_clause(p);
  sql_kind kind = sql__kind(p);
  if (kind == KW_MAP || kind == KW_REDUCE) sql__fail_unimplemented(p, p->at, "TRANSFORM");
  if (kind == KW_INSERT) sql__fail_unimplemented(p, p->at, "INSERT");
  if (kind != KW_SELECT) return from;
  size_t start = p->at;
  sql_relation *out = sql__select(p, from, SQL_SELECT_BEHIND_FROM);
  while (sql__kind(p) == KW_SELECT) { /* FROM t SELECT a SELECT b: both, one after the other */
    sql_relation *more = sql__select(p, from, SQL_SELECT_BEHIND_FROM);
    out = sql__set_operation(p, out, more, KW_UNION, true, start);
  }
  return out;
}

static sql_relation *table(sql_parser *p) {
  size_t start = p->at;
  sql__advance(p);
  sql_relation *relation = sql__relation(p, start, start);
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation->read = SQL_NEW(p, Spark__Connect__Read, spark__connect__read);
  relation->read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE;
  relation->read->named_table = SQL_NEW(p, Spark__Connect__Read__NamedTable, spark__connect__read__named_table);
  relation->read->named_table->unparsed_identifier = sql__path_text(p);
  return relation;
}

sql_relation *sql__query_primary(sql_parser *p) {
  switch ((int)sql__kind(p)) {
  case KW_SELECT: return sql__select(p, NULL, SQL_SELECT_PLAIN);
  case KW_FROM: return from_statement(p);
  case KW_VALUES: return sql__inline_table(p);
  case KW_TABLE: return table(p);
  case KW_MAP:
  case KW_REDUCE: sql__fail_unimplemented(p, p->at, "TRANSFORM");
  case SQL_LEFT_PAREN: {
    sql__advance(p);
    sql_relation *relation = sql__query(p);
    sql__expect(p, SQL_RIGHT_PAREN);
    return relation;
  }
  default: sql__fail_syntax(p);
  }
}

/* ---- ORDER BY ... OFFSET ---- */

static sql_relation *order_by(sql_parser *p, sql_relation *input, sql_list *order, bool global, bool all,
                              size_t start) {
  Spark__Connect__TrnOrderBy *message = SQL_NEW(p, Spark__Connect__TrnOrderBy, spark__connect__trn_order_by);
  message->input = input;
  message->is_global = global;
  message->all = all;
  SQL_SET_LIST(*order, message, order);
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_ORDER_BY;
  relation->trn_order_by = message;
  return relation;
}

static sql_relation *distribute_by(sql_parser *p, sql_relation *input, sql_list *expressions, size_t start) {
  Spark__Connect__RepartitionByExpression *message =
      SQL_NEW(p, Spark__Connect__RepartitionByExpression, spark__connect__repartition_by_expression);
  message->input = input;
  SQL_SET_LIST(*expressions, message, partition_exprs);
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_REPARTITION_BY_EXPRESSION;
  relation->repartition_by_expression = message;
  return relation;
}

/* SORT BY of CLUSTER BY: ascending */
static void ascending(sql_parser *p, const sql_list *expressions, sql_list *order) {
  for (size_t i = 0; i < expressions->count; i++) {
    Spark__Connect__Expression__SortOrder *item =
        SQL_NEW(p, Spark__Connect__Expression__SortOrder, spark__connect__expression__sort_order);
    item->child = expressions->items[i];
    item->direction = SPARK__CONNECT__EXPRESSION__SORT_ORDER__SORT_DIRECTION__SORT_DIRECTION_ASCENDING;
    item->null_ordering = SPARK__CONNECT__EXPRESSION__SORT_ORDER__NULL_ORDERING__SORT_NULLS_FIRST;
    sql__push(p, order, item);
  }
}

/* ORDER BY ALL: the word alone, with a direction */
static bool at_order_all(const sql_parser *p) {
  sql_kind next = sql__ahead(p, 1);
  return sql__kind(p) == KW_ALL &&
         (next == KW_ASC || next == KW_DESC || next == KW_NULLS || next == SQL_END || next == SQL_RIGHT_PAREN ||
          next == SQL_SEMICOLON || next == KW_LIMIT || next == KW_OFFSET || next == KW_WINDOW);
}

static void refuse_combination(sql_parser *p, size_t start) {
  sql__refuse(p, start, sql__last(p), "UNSUPPORTED_FEATURE.COMBINATION_QUERY_RESULT_CLAUSES", "0A000", NULL, 0);
}

static sql_relation *ordering(sql_parser *p, sql_relation *relation, size_t start) {
  sql_list order = {0}, cluster = {0}, distribute = {0}, sort = {0};
  bool all = false;
  if (sql__accept2(p, KW_ORDER, KW_BY)) {
    all = at_order_all(p);
    sql__sort_items(p, &order);
  }
  if (sql__accept2(p, KW_CLUSTER, KW_BY)) sql__expressions(p, &cluster);
  if (sql__accept2(p, KW_DISTRIBUTE, KW_BY)) sql__expressions(p, &distribute);
  if (sql__accept2(p, KW_SORT, KW_BY)) sql__sort_items(p, &sort);
  size_t kinds = (order.count > 0) + (cluster.count > 0) + (distribute.count > 0 || sort.count > 0);
  if (kinds > 1) refuse_combination(p, start);
  if (cluster.count > 0) {
    ascending(p, &cluster, &sort);
    distribute = cluster;
  }
  if (distribute.count > 0) relation = distribute_by(p, relation, &distribute, start);
  if (sort.count > 0) relation = order_by(p, relation, &sort, false, false, start);
  if (order.count > 0) relation = order_by(p, relation, &order, true, all && order.count == 1, start);
  return relation;
}

static sql_relation *limit(sql_parser *p, sql_relation *input, size_t start) {
  sql_expr *limit = NULL, *offset = NULL;
  if (sql__accept(p, KW_LIMIT) && !sql__accept(p, KW_ALL)) limit = sql__expression(p);
  if (sql__accept(p, KW_OFFSET)) offset = sql__expression(p);
  if (limit == NULL && offset == NULL) return input;
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_LIMIT;
  relation->trn_limit = SQL_NEW(p, Spark__Connect__TrnLimit, spark__connect__trn_limit);
  relation->trn_limit->input = input;
  relation->trn_limit->limit = limit;
  relation->trn_limit->offset = offset;
  return relation;
}

/* The select whose windows a WINDOW clause behind ORDER BY adds to; NULL: none. */
static Spark__Connect__TrnSelect *select_below(sql_relation *relation) {
  while (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_TRN_ORDER_BY)
    relation = relation->trn_order_by->input;
  return relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_TRN_SELECT ? relation->trn_select : NULL;
}

sql_relation *sql__organization(sql_parser *p, sql_relation *relation, size_t start) {
  relation = ordering(p, relation, start);
  if (sql__kind(p) == KW_WINDOW) {
    Spark__Connect__TrnSelect *select = select_below(relation);
    if (select == NULL) sql__fail_unimplemented(p, p->at, "WINDOW behind a set operation");
    sql_list windows = {0};
    for (size_t i = 0; i < select->n_windows; i++) sql__push(p, &windows, select->windows[i]);
    sql__window_clause(p, &windows);
    SQL_SET_LIST(windows, select, windows);
  }
  return limit(p, relation, start);
}

sql_relation *sql__query_behind(sql_parser *p, sql_relation *ctes, size_t start) {
  size_t body = p->at;
  sql_relation *relation = query_term(p);
  relation = sql__organization(p, relation, body);
  if (ctes == NULL) return relation;
  const sql_token *last = &p->tokens[sql__last(p)];
  ctes->trn_with->input = relation;
  ctes->common->trn_position->start = (int32_t)p->tokens[start].start;
  ctes->common->trn_position->stop = (int32_t)(last->start + last->size) - 1;
  return ctes;
}

sql_relation *sql__query(sql_parser *p) {
  sql__enter(p, SQL_DEPTH_QUERY);
  size_t start = p->at;
  sql_relation *ctes = sql__kind(p) == KW_WITH ? sql__with(p) : NULL;
  sql_relation *relation = sql__query_behind(p, ctes, start);
  sql__leave(p, SQL_DEPTH_QUERY);
  return relation;
}
