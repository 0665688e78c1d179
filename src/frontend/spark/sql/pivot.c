/* PIVOT, UNPIVOT, and the pipe operators |> */
#include "frontend/spark/sql/parser.h"

/* ---- PIVOT (aggregates FOR column IN (values)) ---- */

static void pivot_columns(sql_parser *p, sql_list *columns) {
  if (sql__kind(p) == SQL_LEFT_PAREN) {
    sql__identifier_list(p, columns);
  } else {
    sql__push(p, columns, sql__error_capturing_identifier(p));
  }
}

sql_relation *sql__pivot(sql_parser *p, sql_relation *input, size_t start) {
  Spark__Connect__TrnPivot *pivot = SQL_NEW(p, Spark__Connect__TrnPivot, spark__connect__trn_pivot);
  sql_list aggregates = {0}, columns = {0}, values = {0};
  pivot->input = input;
  p->at++;
  sql__expect(p, SQL_LEFT_PAREN);
  sql__named_expressions(p, &aggregates);
  sql__expect(p, KW_FOR);
  pivot_columns(p, &columns);
  sql__expect(p, KW_IN);
  sql__expect(p, SQL_LEFT_PAREN);
  sql__named_expressions(p, &values);
  sql__expect(p, SQL_RIGHT_PAREN);
  sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(aggregates, pivot, aggregates);
  SQL_SET_LIST(columns, pivot, columns);
  SQL_SET_LIST(values, pivot, values);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_PIVOT;
  out->trn_pivot = pivot;
  return sql__table_alias(p, out, start);
}

/* ---- UNPIVOT [INCLUDE|EXCLUDE NULLS] (values FOR names IN (columns)) ---- */

static void unpivot_column(sql_parser *p, sql_list *columns) {
  size_t start = p->at;
  sql_list parts = {0};
  sql__path(p, &parts);
  sql__push(p, columns, sql__attribute(p, &parts, start, sql__last(p)));
}

static Spark__Connect__TrnUnpivotSet *unpivot_set(sql_parser *p, bool several) {
  Spark__Connect__TrnUnpivotSet *set = SQL_NEW(p, Spark__Connect__TrnUnpivotSet, spark__connect__trn_unpivot_set);
  sql_list columns = {0};
  if (several) sql__expect(p, SQL_LEFT_PAREN);
  do {
    unpivot_column(p, &columns);
  } while (several && sql__accept(p, SQL_COMMA));
  if (several) sql__expect(p, SQL_RIGHT_PAREN);
  if (sql__accept(p, KW_AS) || sql__at_alias(p, false)) set->alias = sql__error_capturing_identifier(p);
  SQL_SET_LIST(columns, set, columns);
  return set;
}

static void unpivot_body(sql_parser *p, Spark__Connect__TrnUnpivot *unpivot) {
  sql_list values = {0}, sets = {0};
  bool several = sql__accept(p, SQL_LEFT_PAREN);
  do {
    sql__push(p, &values, sql__identifier(p));
  } while (several && sql__accept(p, SQL_COMMA));
  if (several) sql__expect(p, SQL_RIGHT_PAREN);
  sql__expect(p, KW_FOR);
  unpivot->name_column = sql__identifier(p);
  sql__expect(p, KW_IN);
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    sql__push(p, &sets, unpivot_set(p, several));
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(values, unpivot, value_columns);
  SQL_SET_LIST(sets, unpivot, sets);
}

sql_relation *sql__unpivot(sql_parser *p, sql_relation *input, size_t start) {
  Spark__Connect__TrnUnpivot *unpivot = SQL_NEW(p, Spark__Connect__TrnUnpivot, spark__connect__trn_unpivot);
  p->at++;
  unpivot->input = input;
  unpivot->include_nulls = sql__kind(p) == KW_INCLUDE;
  if (!sql__accept2(p, KW_INCLUDE, KW_NULLS)) sql__accept2(p, KW_EXCLUDE, KW_NULLS);
  sql__expect(p, SQL_LEFT_PAREN);
  unpivot_body(p, unpivot);
  sql__expect(p, SQL_RIGHT_PAREN);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_UNPIVOT;
  out->trn_unpivot = unpivot;
  return sql__table_alias(p, out, start);
}

/* ---- |> ---- */

static bool is_pipe_word(sql_kind kind) {
  switch ((int)kind) {
  case KW_SELECT:
  case KW_EXTEND:
  case KW_SET:
  case KW_DROP:
  case KW_AS:
  case KW_WHERE:
  case KW_PIVOT:
  case KW_UNPIVOT:
  case KW_TABLESAMPLE:
  case KW_UNION:
  case KW_EXCEPT:
  case KW_SETMINUS:
  case KW_INTERSECT:
  case KW_ORDER:
  case KW_CLUSTER:
  case KW_DISTRIBUTE:
  case KW_SORT:
  case KW_LIMIT:
  case KW_OFFSET:
  case KW_AGGREGATE:
  case KW_JOIN:
  case KW_NATURAL:
  case KW_INNER:
  case KW_CROSS:
  case KW_LEFT:
  case KW_RIGHT:
  case KW_FULL:
  case KW_SEMI:
  case KW_ANTI: return true;
  default: return false;
  }
}

/* Spark takes | for |>, too, where a word of a pipe operator follows and goes on as one. */
bool sql__at_pipe(const sql_parser *p) {
  if (sql__kind(p) == SQL_OPERATOR_PIPE) return true;
  if (sql__kind(p) != SQL_PIPE || !is_pipe_word(sql__ahead(p, 1))) return false;
  sql_kind next = sql__ahead(p, 2);
  return next != SQL_END && next != SQL_COMMA && next != SQL_RIGHT_PAREN && next != SQL_DOT &&
         !(next >= SQL_EQ && next <= SQL_GTE);
}

static sql_expr *plain_star(sql_parser *p) {
  sql_expr *star = sql__expr(p, sql__last(p), sql__last(p));
  star->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR;
  star->unresolved_star =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedStar, spark__connect__expression__unresolved_star);
  return star;
}

static sql_relation *select_from(sql_parser *p, sql_relation *input, const sql_list *list, size_t start) {
  Spark__Connect__TrnSelect *select = SQL_NEW(p, Spark__Connect__TrnSelect, spark__connect__trn_select);
  select->input = input;
  SQL_SET_LIST(*list, select, select);
  return sql__select_of(p, select, start);
}

/* EXTEND a AS x: SELECT *, a AS x */
static sql_relation *pipe_extend(sql_parser *p, sql_relation *input, size_t start) {
  sql_list list = {0};
  sql__advance(p);
  sql__push(p, &list, plain_star(p));
  sql__named_expressions(p, &list);
  return select_from(p, input, &list, start);
}

/* SET a = x, b = y: one after the other */
static sql_relation *pipe_set(sql_parser *p, sql_relation *input, size_t start) {
  sql__advance(p);
  do {
    Spark__Connect__Expression__Alias *alias =
        SQL_NEW(p, Spark__Connect__Expression__Alias, spark__connect__expression__alias);
    sql_list names = {0}, aliases = {0};
    sql__push(p, &names, sql__error_capturing_identifier(p));
    if (sql__kind(p) == SQL_DOT) {
      trn_kv param = {
          "message",
          "SQL pipe syntax |> SET operator with multi-part assignment key (only single-part keys are allowed)"};
      sql__refuse(p, start, p->at, "_LEGACY_ERROR_TEMP_0035", NULL, &param, 1);
      while (sql__accept(p, SQL_DOT)) sql__error_capturing_identifier(p);
    }
    sql__expect(p, SQL_EQ);
    alias->expr = sql__expression(p);
    SQL_SET_LIST(names, alias, name);
    sql__push(p, &aliases, alias);
    sql_relation *out = sql__relation(p, start, sql__last(p));
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_WITH_COLUMNS;
    out->with_columns = SQL_NEW(p, Spark__Connect__WithColumns, spark__connect__with_columns);
    out->with_columns->input = input;
    SQL_SET_LIST(aliases, out->with_columns, aliases);
    input = out;
  } while (sql__accept(p, SQL_COMMA));
  return input;
}

/* DROP a, b: SELECT * EXCEPT (a, b) */
static sql_relation *pipe_drop(sql_parser *p, sql_relation *input, size_t start) {
  sql_list columns = {0}, list = {0};
  sql__advance(p);
  sql__push(p, &columns, plain_star(p));
  do {
    size_t first = p->at;
    sql_list parts = {0};
    sql__path(p, &parts);
    sql__push(p, &columns, sql__attribute(p, &parts, first, sql__last(p)));
  } while (sql__accept(p, SQL_COMMA));
  sql_expr *except = sql__expr(p, start, sql__last(p));
  except->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_STAR_EXCEPT;
  except->trn_star_except = SQL_NEW(p, Spark__Connect__TrnExpressionList, spark__connect__trn_expression_list);
  SQL_SET_LIST(columns, except->trn_star_except, expressions);
  sql__push(p, &list, except);
  return select_from(p, input, &list, start);
}

/* Spark has GROUP BY ALL and grouping sets in SELECT only. */
static void refuse_grouping(sql_parser *p, size_t keys) {
  sql_kind kind = sql__kind_at(p, keys), next = sql__kind_at(p, keys + 1);
  const char *what = NULL;
  if ((kind == KW_ROLLUP || kind == KW_CUBE) && next == SQL_LEFT_PAREN)
    what = kind == KW_ROLLUP ? "GROUP BY ROLLUP" : "GROUP BY CUBE";
  if (kind == KW_ALL && keys == sql__last(p)) what = "GROUP BY ALL";
  if ((kind == KW_GROUPING && next == KW_SETS) || sql__kind(p) == KW_GROUPING) what = "GROUPING SETS";
  if (what == NULL) return;
  trn_kv param = {"case", what};
  sql__refuse(p, keys, sql__last(p), "UNSUPPORTED_FEATURE.PIPE_OPERATOR_AGGREGATE_UNSUPPORTED_CASE", "0A000", &param,
              1);
}

/* AGGREGATE sum(a) AS s GROUP BY b AS c: SELECT b AS c, sum(a) AS s ... GROUP BY b */
static sql_relation *pipe_aggregate(sql_parser *p, sql_relation *input, size_t start) {
  Spark__Connect__TrnSelect *select = SQL_NEW(p, Spark__Connect__TrnSelect, spark__connect__trn_select);
  sql_list aggregates = {0}, keys = {0}, list = {0};
  sql__advance(p);
  bool grouped = sql__accept2(p, KW_GROUP, KW_BY);
  if (!grouped) {
    sql__named_expressions(p, &aggregates);
    grouped = sql__accept2(p, KW_GROUP, KW_BY);
  }
  select->input = input;
  select->has_group_by = true; /* without keys: one group */
  select->group_type = 1;
  if (grouped) {
    size_t at = p->at;
    sql__named_expressions(p, &list);
    refuse_grouping(p, at);
    for (size_t i = 0; i < list.count; i++) {
      sql_expr *key = list.items[i];
      sql__push(p, &keys, key->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS ? key->alias->expr : key);
    }
  }
  for (size_t i = 0; i < aggregates.count; i++) sql__push(p, &list, aggregates.items[i]);
  SQL_SET_LIST(list, select, select);
  SQL_SET_LIST(keys, select, group_by);
  return sql__select_of(p, select, start);
}

static sql_relation *pipe_alias(sql_parser *p, sql_relation *input, size_t start) {
  sql__advance(p);
  sql_relation *out = sql__relation(p, start, p->at);
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS;
  out->subquery_alias = SQL_NEW(p, Spark__Connect__SubqueryAlias, spark__connect__subquery_alias);
  out->subquery_alias->input = input;
  out->subquery_alias->alias = sql__error_capturing_identifier(p);
  return out;
}

static sql_relation *pipe_set_operation(sql_parser *p, sql_relation *input, size_t start) {
  sql_kind kind = sql__kind(p);
  sql__advance(p);
  bool all = sql__set_quantifier(p);
  sql_relation *right = sql__query_primary(p);
  return sql__set_operation(p, input, right, kind, all, start);
}

static sql_relation *pipe_pivot(sql_parser *p, sql_relation *input, size_t start) {
  bool pivot = sql__kind(p) == KW_PIVOT;
  sql_relation *out = pivot ? sql__pivot(p, input, start) : sql__unpivot(p, input, start);
  if (sql__kind(p) == (pivot ? KW_UNPIVOT : KW_PIVOT)) {
    sql__refuse(p, start, p->count - 2, "NOT_ALLOWED_IN_FROM.UNPIVOT_WITH_PIVOT", "42601", NULL, 0);
    return pivot ? sql__unpivot(p, out, start) : sql__pivot(p, out, start);
  }
  return out;
}

static const char *result_clause(sql_kind kind) {
  switch ((int)kind) {
  case KW_ORDER: return "ORDER BY";
  case KW_CLUSTER: return "CLUSTER BY";
  case KW_DISTRIBUTE: return "DISTRIBUTE BY";
  case KW_SORT: return "SORT BY";
  case KW_LIMIT: return "LIMIT";
  case KW_OFFSET: return "OFFSET";
  default: return NULL;
  }
}

/* ORDER BY to OFFSET: one of them, except that LIMIT and OFFSET, DISTRIBUTE BY and SORT BY go together. */
static sql_relation *pipe_result_clause(sql_parser *p, sql_relation *input, size_t start) {
  size_t from = p->at;
  sql_kind first = sql__kind(p);
  sql_relation *out = sql__organization(p, input, start);
  for (size_t i = from + 1; i < p->at; i++) {
    sql_kind kind = sql__kind_at(p, i);
    if (kind == SQL_LEFT_PAREN) i = p->tokens[i].match;
    if (result_clause(kind) == NULL || kind == first || (first == KW_LIMIT && kind == KW_OFFSET) ||
        (first == KW_DISTRIBUTE && kind == KW_SORT) ||
        (kind != KW_LIMIT && kind != KW_OFFSET && sql__kind_at(p, i + 1) != KW_BY)) {
      continue;
    }
    trn_kv params[] = {{"clause1", result_clause(first)}, {"clause2", result_clause(kind)}};
    sql__refuse(p, from, sql__last(p), "MULTIPLE_QUERY_RESULT_CLAUSES_WITH_PIPE_OPERATORS", "42000", params, 2);
  }
  return out;
}

sql_relation *sql__pipe(sql_parser *p, sql_relation *input, size_t start) {
  switch ((int)sql__kind(p)) {
  case KW_SELECT: return sql__select(p, input, SQL_SELECT_PIPE);
  case KW_WHERE: {
    sql__advance(p);
    sql_expr *condition = sql__expression(p);
    return sql__filter(p, input, condition, start, sql__last(p));
  }
  case KW_EXTEND: return pipe_extend(p, input, start);
  case KW_SET: return pipe_set(p, input, start);
  case KW_DROP: return pipe_drop(p, input, start);
  case KW_AGGREGATE: return pipe_aggregate(p, input, start);
  case KW_AS: return pipe_alias(p, input, start);
  case KW_PIVOT:
  case KW_UNPIVOT: return pipe_pivot(p, input, start);
  case KW_TABLESAMPLE: return sql__sample(p, input, start);
  case KW_UNION:
  case KW_EXCEPT:
  case KW_SETMINUS:
  case KW_INTERSECT: return pipe_set_operation(p, input, start);
  case KW_ORDER:
  case KW_CLUSTER:
  case KW_DISTRIBUTE:
  case KW_SORT:
  case KW_LIMIT:
  case KW_OFFSET: return pipe_result_clause(p, input, start);
  default:
    if (!sql__at_join(p)) sql__fail_syntax(p);
    return sql__join(p, input, start);
  }
}
