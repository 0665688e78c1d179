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
  return out;
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

sql_relation *sql__pipe(sql_parser *p, sql_relation *input, size_t start) {
  sql_relation *out;
  switch ((int)sql__kind(p)) {
  case KW_SELECT: return sql__select(p, input, true);
  case KW_WHERE: {
    sql__advance(p);
    sql_expr *condition = sql__expression(p);
    return sql__filter(p, input, condition, start, sql__last(p));
  }
  case KW_AS:
    sql__advance(p);
    out = sql__relation(p, start, p->at);
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS;
    out->subquery_alias = SQL_NEW(p, Spark__Connect__SubqueryAlias, spark__connect__subquery_alias);
    out->subquery_alias->input = input;
    out->subquery_alias->alias = sql__error_capturing_identifier(p);
    return out;
  case KW_PIVOT: return sql__pivot(p, input, start);
  case KW_UNPIVOT: return sql__unpivot(p, input, start);
  case KW_TABLESAMPLE: return sql__sample(p, input, start);
  case KW_UNION:
  case KW_EXCEPT:
  case KW_SETMINUS:
  case KW_INTERSECT: {
    sql_kind kind = sql__kind(p);
    sql__advance(p);
    bool all = sql__set_quantifier(p);
    sql_relation *right = sql__query_primary(p);
    return sql__set_operation(p, input, right, kind, all, start);
  }
  case KW_ORDER:
  case KW_CLUSTER:
  case KW_DISTRIBUTE:
  case KW_SORT:
  case KW_LIMIT:
  case KW_OFFSET: return sql__organization(p, input, start);
  case KW_EXTEND:
  case KW_SET:
  case KW_DROP:
  case KW_AGGREGATE: sql__fail_unimplemented(p, p->at, "this |> operator");
  default:
    if (!sql__at_join(p)) sql__fail_syntax(p);
    return sql__join(p, input, start);
  }
}
