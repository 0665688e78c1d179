/* FROM: tables, subqueries, table functions, joins, samples, lateral views. */
#include "frontend/spark/sql/parser.h"
#include <stdlib.h>

static sql_relation *relation(sql_parser *p, sql_relation *left, size_t start);

/* ---- aliases and samples ---- */

sql_relation *sql__table_alias(sql_parser *p, sql_relation *input, size_t start) {
  sql_list columns = {0};
  /* Spark reads AS (a) as an alias that is called AS */
  bool as_is_name = sql__kind(p) == KW_AS && (sql__ahead(p, 1) == SQL_LEFT_PAREN || sql__as_is_name(p));
  if (!as_is_name && !sql__accept(p, KW_AS) && !sql__at_alias(p, true)) return input;
  char *alias = sql__strict_identifier(p);
  if (sql__kind(p) == SQL_LEFT_PAREN) sql__identifier_list(p, &columns);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  if (columns.count == 0) {
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS;
    out->subquery_alias = SQL_NEW(p, Spark__Connect__SubqueryAlias, spark__connect__subquery_alias);
    out->subquery_alias->input = input;
    out->subquery_alias->alias = alias;
    return out;
  }
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_TABLE_ALIAS;
  out->trn_table_alias = SQL_NEW(p, Spark__Connect__TrnTableAlias, spark__connect__trn_table_alias);
  out->trn_table_alias->input = input;
  out->trn_table_alias->alias = alias;
  SQL_SET_LIST(columns, out->trn_table_alias, columns);
  return out;
}

static void refuse_sample(sql_parser *p, size_t start, const char *message) {
  trn_kv param = {"msg", message};
  sql__refuse(p, start, sql__last(p), "_LEGACY_ERROR_TEMP_0064", NULL, &param, 1);
}

static sql_relation *sample_fraction(sql_parser *p, sql_relation *input, double fraction, size_t start) {
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SAMPLE;
  out->sample = SQL_NEW(p, Spark__Connect__Sample, spark__connect__sample);
  out->sample->input = input;
  out->sample->upper_bound = fraction;
  return out;
}

static double number_value(sql_parser *p) {
  bool negative = sql__accept(p, SQL_MINUS);
  double value = 0, unit = 1;
  bool fraction = false;
  if (sql__kind(p) != SQL_INTEGER && sql__kind(p) != SQL_DECIMAL) sql__fail_syntax(p);
  const char *text = p->text + sql__token(p)->start;
  for (size_t i = 0; i < sql__token(p)->size; i++) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    value = value * 10 + (text[i] - '0');
    if (fraction) unit *= 10;
  }
  sql__advance(p);
  return (negative ? -value : value) / unit;
}

static bool at_percent(const sql_parser *p) {
  size_t i = p->at + (sql__kind(p) == SQL_MINUS);
  return (sql__kind_at(p, i) == SQL_INTEGER || sql__kind_at(p, i) == SQL_DECIMAL) &&
         sql__kind_at(p, i + 1) == KW_PERCENTLIT;
}

static sql_relation *sample_bucket(sql_parser *p, sql_relation *input, size_t start) {
  sql__advance(p);
  double numerator = sql__integer_value(p);
  sql__expect(p, KW_OUT);
  sql__expect(p, KW_OF);
  double denominator = sql__integer_value(p);
  if (sql__kind(p) == KW_ON) sql__fail_unimplemented(p, p->at, "TABLESAMPLE(BUCKET x OUT OF y ON column)");
  double fraction = denominator > 0 ? numerator / denominator : -1;
  if (fraction < 0 || fraction > 1) refuse_sample(p, start, "Sampling fraction must be on interval [0, 1]");
  return sample_fraction(p, input, fraction, start);
}

sql_relation *sql__sample(sql_parser *p, sql_relation *input, size_t start) {
  sql__advance(p);
  sql__expect(p, SQL_LEFT_PAREN);
  sql_relation *out;
  if (sql__kind(p) == SQL_RIGHT_PAREN) {
    sql__refuse(p, sql__last(p) - 1, p->at, "_LEGACY_ERROR_TEMP_0014", NULL, NULL, 0);
    sql__advance(p);
    return input;
  }
  if (at_percent(p)) {
    double fraction = number_value(p) / 100;
    sql__advance(p);
    if (!(fraction >= 0 && fraction <= 1)) refuse_sample(p, start, "Sampling fraction must be on interval [0, 1]");
    out = sample_fraction(p, input, fraction, start);
  } else if (sql__kind(p) == KW_BUCKET && sql__ahead(p, 1) == SQL_INTEGER) {
    out = sample_bucket(p, input, start);
  } else {
    sql_expr *rows = sql__expression(p);
    if (!sql__accept(p, KW_ROWS)) sql__fail_unimplemented(p, p->at, "TABLESAMPLE(byteLengthLiteral)");
    out = sql__relation(p, start, sql__last(p));
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_LIMIT;
    out->trn_limit = SQL_NEW(p, Spark__Connect__TrnLimit, spark__connect__trn_limit);
    out->trn_limit->input = input;
    out->trn_limit->limit = rows;
  }
  sql__expect(p, SQL_RIGHT_PAREN);
  if (sql__kind(p) == KW_REPEATABLE && sql__ahead(p, 1) == SQL_LEFT_PAREN) {
    p->at += 2;
    int32_t seed = sql__integer_value(p);
    sql__expect(p, SQL_RIGHT_PAREN);
    if (out->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_SAMPLE) {
      out->sample->_seed_case = SPARK__CONNECT__SAMPLE___SEED_SEED;
      out->sample->seed = seed;
    }
  }
  return out;
}

static sql_relation *sample_and_alias(sql_parser *p, sql_relation *input, size_t start) {
  sql_kind next = sql__ahead(p, 1);
  bool ends = next == SQL_END || next == SQL_COMMA || next == SQL_RIGHT_PAREN || next == SQL_SEMICOLON;
  if (sql__kind(p) == KW_TABLESAMPLE && !ends) input = sql__sample(p, input, start);
  if (sql__kind(p) == KW_WATERMARK && sql__is_identifier(p, p->at + 1)) sql__fail_unimplemented(p, p->at, "WATERMARK");
  return sql__table_alias(p, input, start);
}

/* ---- primaries ---- */

sql_relation *sql__inline_table(sql_parser *p) {
  size_t start = p->at;
  Spark__Connect__TrnValues *values = SQL_NEW(p, Spark__Connect__TrnValues, spark__connect__trn_values);
  sql_list rows = {0};
  sql__advance(p);
  do {
    sql_list row = {0};
    sql__row_values(p, sql__expression(p), &row);
    Spark__Connect__TrnExpressionList *list =
        SQL_NEW(p, Spark__Connect__TrnExpressionList, spark__connect__trn_expression_list);
    SQL_SET_LIST(row, list, expressions);
    sql__push(p, &rows, list);
  } while (sql__accept(p, SQL_COMMA));
  SQL_SET_LIST(rows, values, rows);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_VALUES;
  out->trn_values = values;
  return sql__table_alias(p, out, start);
}

static bool at_table_argument(const sql_parser *p) {
  size_t i = p->at;
  if (sql__is_identifier(p, i) && sql__kind_at(p, i + 1) == SQL_FAT_ARROW) i += 2;
  return sql__kind_at(p, i) == KW_TABLE && (sql__kind_at(p, i + 1) == SQL_LEFT_PAREN || sql__is_identifier(p, i + 1));
}

static sql_relation *table_function(sql_parser *p, const sql_list *name, size_t start) {
  for (size_t open = p->at, i = open + 1; i < p->tokens[open].match; i++) {
    size_t at = p->at;
    p->at = i;
    bool table = at_table_argument(p);
    p->at = at;
    if (table) sql__fail_unimplemented(p, i, "TABLE as a function's argument");
    if (sql__kind_at(p, i) == SQL_LEFT_PAREN) i = p->tokens[i].match;
  }
  sql_expr *call = sql__call(p, start, name);
  if (call->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION) sql__fail_syntax(p);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_UNRESOLVED_TABLE_VALUED_FUNCTION;
  Spark__Connect__UnresolvedTableValuedFunction *function =
      SQL_NEW(p, Spark__Connect__UnresolvedTableValuedFunction, spark__connect__unresolved_table_valued_function);
  function->function_name = call->unresolved_function->function_name;
  function->n_arguments = call->unresolved_function->n_arguments;
  function->arguments = call->unresolved_function->arguments;
  out->unresolved_table_valued_function = function;
  return sample_and_alias(p, out, start);
}

/* WITH ('key' = 'value', key value) */
static void table_options(sql_parser *p, Spark__Connect__Read__NamedTable *table) {
  sql_list entries = {0};
  p->at += 2;
  do {
    Spark__Connect__Read__NamedTable__OptionsEntry *entry =
        SQL_NEW(p, Spark__Connect__Read__NamedTable__OptionsEntry, spark__connect__read__named_table__options_entry);
    size_t size;
    entry->key = sql__is_string(p, p->at) ? sql__string(p, &size) : sql__path_text(p);
    sql__accept(p, SQL_EQ);
    if (sql__is_string(p, p->at)) {
      entry->value = sql__string(p, &size);
    } else if (sql__kind(p) == SQL_INTEGER || sql__kind(p) == SQL_DECIMAL || sql__kind(p) == KW_TRUE ||
               sql__kind(p) == KW_FALSE) {
      entry->value = sql__lower(p, sql__token_text(p, p->at));
      sql__advance(p);
    }
    sql__push(p, &entries, entry);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(entries, table, options);
}

static bool at_temporal(const sql_parser *p) {
  size_t i = p->at + (sql__kind(p) == KW_FOR);
  sql_kind kind = sql__kind_at(p, i);
  return (kind == KW_VERSION || kind == KW_SYSTEM_VERSION || kind == KW_TIMESTAMP || kind == KW_SYSTEM_TIME) &&
         sql__kind_at(p, i + 1) == KW_AS && sql__kind_at(p, i + 2) == KW_OF;
}

static sql_relation *named_table(sql_parser *p) {
  size_t start = p->at;
  sql_list parts = {0};
  sql__path(p, &parts);
  if (sql__kind(p) == SQL_LEFT_PAREN) return table_function(p, &parts, start);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  out->read = SQL_NEW(p, Spark__Connect__Read, spark__connect__read);
  out->read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE;
  out->read->named_table = SQL_NEW(p, Spark__Connect__Read__NamedTable, spark__connect__read__named_table);
  out->read->named_table->unparsed_identifier = sql__join_path(p, &parts);
  if (at_temporal(p)) { /* no table here has versions */
    trn_kv param = {"relationId", sql__join_texts(p, &parts, "`", ".")};
    sql__fail(p, p->at, p->at, "UNSUPPORTED_FEATURE.TIME_TRAVEL", "0A000", &param, 1);
  }
  if (sql__kind(p) == KW_WITH && sql__ahead(p, 1) == SQL_LEFT_PAREN) table_options(p, out->read->named_table);
  return sample_and_alias(p, out, start);
}

static sql_relation *primary(sql_parser *p) {
  size_t start = p->at;
  if (sql__kind(p) == KW_VALUES && sql__starts_query(p, start)) return sql__inline_table(p);
  if (sql__kind(p) != SQL_LEFT_PAREN) return named_table(p);
  sql_relation *inner;
  bool query = sql__token(p)->opens_query;
  sql__advance(p);
  if (query) {
    inner = sql__query(p);
  } else {
    sql__enter(p, SQL_DEPTH_RELATION);
    inner = relation(p, NULL, p->at);
    sql__leave(p, SQL_DEPTH_RELATION);
  }
  sql__expect(p, SQL_RIGHT_PAREN);
  return sample_and_alias(p, inner, start);
}

/* ---- joins ---- */

typedef struct join_words {
  Spark__Connect__Join__JoinType type;
  bool natural;
  size_t words; /* tokens up to and with JOIN; 0: no join here */
} join_words;

static join_words read_join_words(const sql_parser *p) {
  join_words j = {.type = SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER};
  size_t i = p->at;
  if (sql__kind_at(p, i) == KW_NATURAL) {
    j.natural = true;
    i++;
  }
  sql_kind kind = sql__kind_at(p, i);
  if (kind == KW_INNER || kind == KW_CROSS) {
    if (kind == KW_CROSS) j.type = SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_CROSS;
    i++;
  } else if (kind == KW_LEFT || kind == KW_RIGHT || kind == KW_FULL) {
    j.type = kind == KW_LEFT    ? SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_OUTER
             : kind == KW_RIGHT ? SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_RIGHT_OUTER
                                : SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_FULL_OUTER;
    i++;
    if (sql__kind_at(p, i) == KW_OUTER) i++;
  }
  kind = sql__kind_at(p, i);
  bool half = (i == p->at + j.natural || sql__kind_at(p, i - 1) == KW_LEFT) && (kind == KW_SEMI || kind == KW_ANTI);
  if (half) {
    j.type = kind == KW_SEMI ? SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_SEMI
                             : SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_ANTI;
    i++;
  }
  if (sql__kind_at(p, i) == KW_JOIN) j.words = i + 1 - p->at;
  return j;
}

/* Any word of a join: what comes instead of JOIN is then the error. */
bool sql__at_join(const sql_parser *p) {
  switch ((int)sql__kind(p)) {
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

_Noreturn static void fail_join_words(sql_parser *p) {
  while (sql__at_join(p) || sql__kind(p) == KW_OUTER) sql__advance(p);
  sql__fail_syntax(p);
}

static sql_relation *lateral_join(sql_parser *p, sql_relation *left, sql_relation *right,
                                  Spark__Connect__Join__JoinType type, sql_expr *condition, size_t start) {
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_LATERAL_JOIN;
  out->lateral_join = SQL_NEW(p, Spark__Connect__LateralJoin, spark__connect__lateral_join);
  out->lateral_join->left = left;
  out->lateral_join->right = right;
  out->lateral_join->join_type = type;
  out->lateral_join->join_condition = condition;
  return out;
}

static sql_relation *plain_join(sql_parser *p, sql_relation *left, sql_relation *right, const join_words *words,
                                sql_expr *condition, const sql_list *columns, size_t start) {
  Spark__Connect__Join *join = SQL_NEW(p, Spark__Connect__Join, spark__connect__join);
  join->left = left;
  join->right = right;
  join->join_type = words->type;
  join->join_condition = condition;
  if (columns != NULL) SQL_SET_LIST(*columns, join, using_columns);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  if (words->natural) {
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_NATURAL_JOIN;
    out->trn_natural_join = SQL_NEW(p, Spark__Connect__TrnNaturalJoin, spark__connect__trn_natural_join);
    out->trn_natural_join->join = join;
  } else {
    out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_JOIN;
    out->join = join;
  }
  return out;
}

/* APPROX|EXACT NEAREST [n] BY SIMILARITY|DISTANCE expression */
static bool at_nearest(const sql_parser *p) {
  return (sql__kind(p) == KW_APPROX || sql__kind(p) == KW_EXACT) && sql__ahead(p, 1) == KW_NEAREST;
}

static int32_t nearest_count(sql_parser *p, size_t words_start) {
  if (sql__kind(p) == KW_BY) return 1;
  char *text = sql__token_text(p, p->at);
  int32_t count = sql__integer_value(p);
  if (count < 1 || count > TRN_NEAREST_BY_RESULTS_MAX) {
    trn_kv params[] = {{"numResults", text}, {"min", "1"}, {"max", "100000"}};
    sql__refuse(p, words_start, sql__last(p), "NEAREST_BY_JOIN.NUM_RESULTS_OUT_OF_RANGE", "42604", params, 3);
  }
  return count;
}

static sql_relation *nearest_by(sql_parser *p, sql_relation *left, sql_relation *right, const join_words *words,
                                size_t words_start, size_t start) {
  Spark__Connect__NearestByJoin *join = SQL_NEW(p, Spark__Connect__NearestByJoin, spark__connect__nearest_by_join);
  join->left = left;
  join->right = right;
  join->mode = sql__kind(p) == KW_APPROX ? "approx" : "exact";
  p->at += 2;
  join->num_results = nearest_count(p, words_start);
  sql__expect(p, KW_BY);
  if (sql__kind(p) != KW_SIMILARITY && sql__kind(p) != KW_DISTANCE) sql__fail_syntax(p);
  join->direction = sql__kind(p) == KW_SIMILARITY ? "similarity" : "distance";
  sql__advance(p);
  join->ranking_expression = sql__expression(p);
  if (words->type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER) {
    join->join_type = "inner";
  } else if (words->type == SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_LEFT_OUTER) {
    join->join_type = "leftouter";
  } else {
    const sql_token *a = &p->tokens[words_start], *b = &p->tokens[words_start + words->words - 2];
    char *type = trn__arena_printf(p->arena, "%.*s", (int)(b->start + b->size - a->start), p->text + a->start);
    if (type == NULL) sql__fail_memory(p);
    trn_kv params[] = {{"joinType", sql__upper(p, type)}, {"supported", "'INNER', 'LEFT OUTER'"}};
    sql__refuse(p, words_start, sql__last(p), "NEAREST_BY_JOIN.UNSUPPORTED_JOIN_TYPE", "42604", params, 2);
  }
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_NEAREST_BY_JOIN;
  out->nearest_by_join = join;
  return out;
}

sql_relation *sql__join(sql_parser *p, sql_relation *left, size_t start) {
  join_words words = read_join_words(p);
  if (words.words == 0) fail_join_words(p);
  p->at += words.words;
  size_t words_start = p->at - words.words, lateral = p->at;
  bool is_lateral = sql__accept(p, KW_LATERAL);
  sql_relation *right = primary(p);
  sql_expr *condition = NULL;
  sql_list columns = {0};
  if (at_nearest(p)) {
    if (is_lateral || words.natural) sql__fail_syntax(p);
    return nearest_by(p, left, right, &words, words_start, start);
  }
  if (!words.natural && sql__accept(p, KW_ON)) {
    condition = sql__expression(p);
  } else if (!words.natural && sql__accept(p, KW_USING)) {
    sql__identifier_list(p, &columns);
  }
  if (!is_lateral) return plain_join(p, left, right, &words, condition, &columns, start);
  if (words.natural || columns.count > 0) sql__fail_unimplemented(p, lateral, "LATERAL in a NATURAL or USING join");
  return lateral_join(p, left, right, words.type, condition, start);
}

/* [LATERAL] primary, then joins and pivots. `left` is what stands before a comma: as in Spark, a comma joins before
 * the words behind it do, so that FROM a, b JOIN c ON a.x = c.x sees a. */
static sql_relation *relation(sql_parser *p, sql_relation *left, size_t start) {
  const join_words words = {.type = SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER};
  bool lateral = sql__accept(p, KW_LATERAL);
  sql_relation *out = primary(p);
  if (lateral) {
    out = lateral_join(p, left != NULL ? left : sql__one_row(p), out, words.type, NULL, start);
  } else if (left != NULL) {
    out = plain_join(p, left, out, &words, NULL, NULL, start);
  }
  for (;;) {
    if (sql__at_join(p)) {
      out = sql__join(p, out, start);
    } else if (sql__kind(p) == KW_PIVOT && sql__ahead(p, 1) == SQL_LEFT_PAREN) {
      out = sql__pivot(p, out, start);
    } else if (sql__kind(p) == KW_UNPIVOT) {
      out = sql__unpivot(p, out, start);
    } else {
      return out;
    }
  }
}

sql_relation *sql__from_clause(sql_parser *p) {
  sql__advance(p);
  size_t start = p->at;
  sql_relation *out = relation(p, NULL, start);
  while (sql__accept(p, SQL_COMMA)) out = relation(p, out, start);
  out = sql__lateral_views(p, out, start);
  if (sql__kind(p) == KW_PIVOT && sql__ahead(p, 1) == SQL_LEFT_PAREN) out = sql__pivot(p, out, start);
  if (sql__kind(p) == KW_UNPIVOT) out = sql__unpivot(p, out, start);
  return out;
}

/* ---- lateral views ---- */

static sql_relation *lateral_view(sql_parser *p, sql_relation *input, size_t start) {
  Spark__Connect__TrnLateralView *view = SQL_NEW(p, Spark__Connect__TrnLateralView, spark__connect__trn_lateral_view);
  sql_list columns = {0}, name = {0};
  p->at += 2;
  view->outer = sql__kind(p) == KW_OUTER && sql__ahead(p, 1) != SQL_LEFT_PAREN && sql__accept(p, KW_OUTER);
  size_t call = p->at;
  do {
    sql__push(p, &name, sql__identifier(p));
  } while (sql__accept(p, SQL_DOT));
  if (sql__kind(p) != SQL_LEFT_PAREN) sql__fail_syntax(p);
  view->generator = sql__call(p, call, &name);
  view->alias = sql__identifier(p);
  if (sql__accept(p, KW_AS) || sql__at_alias(p, true)) {
    do {
      sql__push(p, &columns, sql__identifier(p));
    } while (sql__accept(p, SQL_COMMA));
  }
  SQL_SET_LIST(columns, view, columns);
  sql_relation *out = sql__relation(p, start, sql__last(p));
  out->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_LATERAL_VIEW;
  out->trn_lateral_view = SQL_NEW(p, Spark__Connect__TrnLateralViewOf, spark__connect__trn_lateral_view_of);
  out->trn_lateral_view->input = input != NULL ? input : sql__one_row(p);
  out->trn_lateral_view->view = view;
  return out;
}

sql_relation *sql__lateral_views(sql_parser *p, sql_relation *input, size_t start) {
  while (sql__kind(p) == KW_LATERAL && sql__ahead(p, 1) == KW_VIEW) input = lateral_view(p, input, start);
  return input;
}
