#include "frontend/spark/sql/parser.h"

static void set_position(const sql_parser *p, Spark__Connect__TrnPosition *position, size_t start, size_t stop) {
  const sql_token *a = &p->tokens[start], *b = &p->tokens[stop];
  position->start = (int32_t)a->start;
  position->stop = (int32_t)(b->start + b->size) - 1;
}

sql_expr *sql__expr(sql_parser *p, size_t start, size_t stop) {
  struct {
    sql_expr expr;
    Spark__Connect__ExpressionCommon common;
    Spark__Connect__TrnPosition position;
  } *block = sql__alloc(p, sizeof(*block));
  spark__connect__expression__init(&block->expr);
  spark__connect__expression_common__init(&block->common);
  spark__connect__trn_position__init(&block->position);
  set_position(p, &block->position, start, stop);
  block->common.trn_position = &block->position;
  block->expr.common = &block->common;
  return &block->expr;
}

sql_relation *sql__relation(sql_parser *p, size_t start, size_t stop) {
  struct {
    sql_relation relation;
    Spark__Connect__RelationCommon common;
    Spark__Connect__TrnPosition position;
  } *block = sql__alloc(p, sizeof(*block));
  spark__connect__relation__init(&block->relation);
  spark__connect__relation_common__init(&block->common);
  spark__connect__trn_position__init(&block->position);
  set_position(p, &block->position, start, stop);
  block->common.trn_position = &block->position;
  block->relation.common = &block->common;
  return &block->relation;
}

sql_expr *sql__function(sql_parser *p, const char *name, const sql_list *arguments, size_t start, size_t stop) {
  sql_expr *expr = sql__expr(p, start, stop);
  Spark__Connect__Expression__UnresolvedFunction *function =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedFunction, spark__connect__expression__unresolved_function);
  function->function_name = (char *)name;
  if (arguments != NULL) SQL_SET_LIST(*arguments, function, arguments);
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION;
  expr->unresolved_function = function;
  return expr;
}

sql_expr *sql__function1(sql_parser *p, const char *name, sql_expr *a, size_t start, size_t stop) {
  void **items = sql__alloc(p, sizeof(void *));
  items[0] = a;
  return sql__function(p, name, &(sql_list){.items = items, .count = 1}, start, stop);
}

sql_expr *sql__function2(sql_parser *p, const char *name, sql_expr *a, sql_expr *b, size_t start, size_t stop) {
  void **items = sql__alloc(p, 2 * sizeof(void *));
  items[0] = a;
  items[1] = b;
  return sql__function(p, name, &(sql_list){.items = items, .count = 2}, start, stop);
}

static const sql_lambda *find_variable(const sql_parser *p, const char *name) {
  for (const sql_lambda *lambda = p->lambda; lambda != NULL; lambda = lambda->outer) {
    for (size_t i = 0; i < lambda->count; i++) {
      if (strcasecmp(lambda->names[i], name) == 0) return lambda;
    }
  }
  return NULL;
}

static sql_expr *lambda_variable(sql_parser *p, const sql_list *parts, size_t start, size_t stop) {
  sql_expr *expr = sql__expr(p, start, stop);
  Spark__Connect__Expression__UnresolvedNamedLambdaVariable *variable =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedNamedLambdaVariable,
              spark__connect__expression__unresolved_named_lambda_variable);
  variable->n_name_parts = 1;
  variable->name_parts = (char **)parts->items;
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_NAMED_LAMBDA_VARIABLE;
  expr->unresolved_named_lambda_variable = variable;
  for (size_t i = 1; i < parts->count; i++) {
    expr = sql__extract(p, expr, sql__constant_text(p, parts->items[i]), start, stop);
  }
  return expr;
}

sql_expr *sql__attribute(sql_parser *p, const sql_list *parts, size_t start, size_t stop) {
  if (find_variable(p, parts->items[0]) != NULL) return lambda_variable(p, parts, start, stop);
  sql_expr *expr = sql__expr(p, start, stop);
  Spark__Connect__Expression__UnresolvedAttribute *attribute =
      SQL_NEW(p, Spark__Connect__Expression__UnresolvedAttribute, spark__connect__expression__unresolved_attribute);
  attribute->unparsed_identifier = sql__join_path(p, parts);
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  expr->unresolved_attribute = attribute;
  return expr;
}

sql_expr *sql__extract(sql_parser *p, sql_expr *child, sql_expr *index, size_t start, size_t stop) {
  sql_expr *expr = sql__expr(p, start, stop);
  Spark__Connect__Expression__UnresolvedExtractValue *extract = SQL_NEW(
      p, Spark__Connect__Expression__UnresolvedExtractValue, spark__connect__expression__unresolved_extract_value);
  extract->child = child;
  extract->extraction = index;
  expr->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_EXTRACT_VALUE;
  expr->unresolved_extract_value = extract;
  return expr;
}

sql_expr *sql__alias(sql_parser *p, sql_expr *expr, const sql_list *names, size_t start, size_t stop) {
  sql_expr *result = sql__expr(p, start, stop);
  Spark__Connect__Expression__Alias *alias =
      SQL_NEW(p, Spark__Connect__Expression__Alias, spark__connect__expression__alias);
  alias->expr = expr;
  SQL_SET_LIST(*names, alias, name);
  result->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS;
  result->alias = alias;
  return result;
}

sql_expr *sql__cast(sql_parser *p, sql_expr *expr, sql_type *type, bool try_cast, size_t start, size_t stop) {
  sql_expr *result = sql__expr(p, start, stop);
  Spark__Connect__Expression__Cast *cast =
      SQL_NEW(p, Spark__Connect__Expression__Cast, spark__connect__expression__cast);
  cast->expr = expr;
  cast->cast_to_type_case = SPARK__CONNECT__EXPRESSION__CAST__CAST_TO_TYPE_TYPE;
  cast->type = type;
  if (try_cast) cast->eval_mode = SPARK__CONNECT__EXPRESSION__CAST__EVAL_MODE__EVAL_MODE_TRY;
  result->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_CAST;
  result->cast = cast;
  return result;
}

sql_relation *sql__filter(sql_parser *p, sql_relation *input, sql_expr *condition, size_t start, size_t stop) {
  sql_relation *relation = sql__relation(p, start, stop);
  Spark__Connect__Filter *filter = SQL_NEW(p, Spark__Connect__Filter, spark__connect__filter);
  filter->input = input;
  filter->condition = condition;
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_FILTER;
  relation->filter = filter;
  return relation;
}

sql_relation *sql__one_row(sql_parser *p) {
  sql_relation *relation = sql__relation(p, p->at, p->at);
  Spark__Connect__TrnValues *values = SQL_NEW(p, Spark__Connect__TrnValues, spark__connect__trn_values);
  sql_list rows = {0};
  sql__push(p, &rows, SQL_NEW(p, Spark__Connect__TrnExpressionList, spark__connect__trn_expression_list));
  SQL_SET_LIST(rows, values, rows);
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_VALUES;
  relation->trn_values = values;
  return relation;
}

void sql__row_values(sql_parser *p, sql_expr *row, sql_list *values) {
  if (row->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION ||
      (strcmp(row->unresolved_function->function_name, "struct") != 0 &&
       strcmp(row->unresolved_function->function_name, "row_struct") != 0)) {
    sql__push(p, values, row);
    return;
  }
  for (size_t i = 0; i < row->unresolved_function->n_arguments; i++) {
    sql_expr *value = row->unresolved_function->arguments[i];
    if (value->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS) value = value->alias->expr;
    sql__push(p, values, value);
  }
}
