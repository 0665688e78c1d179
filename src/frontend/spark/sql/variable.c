/* Session variables and EXECUTE IMMEDIATE. */
#include "frontend/spark/sql/parser.h"

static bool at_variable_word(const sql_parser *p, size_t index) {
  return sql__kind_at(p, index) == KW_VARIABLE || sql__kind_at(p, index) == KW_VAR;
}

/* DECLARE [OR REPLACE] [VARIABLE] a, b [type] [DEFAULT|= value], behind DECLARE */
static void declare(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnDeclareVariable *message =
      SQL_NEW(p, Spark__Connect__TrnDeclareVariable, spark__connect__trn_declare_variable);
  sql_list names = {0};
  size_t start = sql__last(p);
  message->replace = sql__accept2(p, KW_OR, KW_REPLACE);
  if (at_variable_word(p, p->at) && sql__is_identifier(p, p->at + 1)) sql__advance(p);
  do {
    sql__push(p, &names, sql__path_text(p));
  } while (sql__accept(p, SQL_COMMA));
  bool value = sql__kind(p) == KW_DEFAULT || sql__kind(p) == SQL_EQ;
  if (!value && sql__is_identifier(p, p->at)) message->type = sql__type(p);
  if (sql__accept(p, KW_DEFAULT) || sql__accept(p, SQL_EQ)) {
    size_t first = p->at;
    message->value = sql__expression(p);
    message->value_text = sql__text_between(p, first, sql__last(p));
  }
  if (message->type == NULL && message->value == NULL) {
    sql__refuse(p, start, sql__last(p), "INVALID_SQL_SYNTAX.VARIABLE_TYPE_OR_DEFAULT_REQUIRED", "42000", NULL, 0);
  }
  SQL_SET_LIST(names, message, names);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DECLARE_VARIABLE;
  command->trn_declare_variable = message;
}

/* SET VARIABLE a = 1, b = 2 or SET VARIABLE (a, b) = (query), behind VARIABLE */
void sql__set_variable(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnSetVariable *message =
      SQL_NEW(p, Spark__Connect__TrnSetVariable, spark__connect__trn_set_variable);
  sql_list names = {0}, values = {0};
  if (sql__accept(p, SQL_LEFT_PAREN)) {
    do {
      sql__push(p, &names, sql__path_text(p));
    } while (sql__accept(p, SQL_COMMA));
    sql__expect(p, SQL_RIGHT_PAREN);
    sql__expect(p, SQL_EQ);
    sql__expect(p, SQL_LEFT_PAREN);
    message->query = sql__query(p);
    sql__expect(p, SQL_RIGHT_PAREN);
  } else {
    do {
      sql__push(p, &names, sql__path_text(p));
      sql__expect(p, SQL_EQ);
      sql__push(p, &values, sql__expression(p));
    } while (sql__accept(p, SQL_COMMA));
  }
  SQL_SET_LIST(names, message, names);
  SQL_SET_LIST(values, message, values);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_SET_VARIABLE;
  command->trn_set_variable = message;
}

static void drop_variable(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnDropVariable *message =
      SQL_NEW(p, Spark__Connect__TrnDropVariable, spark__connect__trn_drop_variable);
  message->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
  message->name = sql__path_text(p);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DROP_VARIABLE;
  command->trn_drop_variable = message;
}

/* EXECUTE IMMEDIATE text [INTO a, b] [USING (x AS y, z)], behind IMMEDIATE */
static void execute_immediate(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnExecuteImmediate *message =
      SQL_NEW(p, Spark__Connect__TrnExecuteImmediate, spark__connect__trn_execute_immediate);
  sql_list into = {0}, values = {0};
  message->query = sql__expression(p);
  if (sql__accept(p, KW_INTO)) {
    do {
      sql__push(p, &into, sql__path_text(p));
    } while (sql__accept(p, SQL_COMMA));
  }
  if (sql__accept(p, KW_USING)) {
    /* (a, b) is a list only when nothing follows: (a) + 1, b is one, too */
    size_t close = sql__kind(p) == SQL_LEFT_PAREN ? sql__token(p)->match : 0;
    sql_kind behind = sql__kind_at(p, close + 1);
    bool parentheses = close > 0 && !sql__token(p)->opens_query && (behind == SQL_END || behind == SQL_SEMICOLON);
    if (parentheses) sql__advance(p);
    sql__named_expressions(p, &values);
    if (parentheses) sql__expect(p, SQL_RIGHT_PAREN);
  }
  SQL_SET_LIST(into, message, into);
  SQL_SET_LIST(values, message, arguments);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_EXECUTE_IMMEDIATE;
  command->trn_execute_immediate = message;
}

bool sql__variable(sql_parser *p, Spark__Connect__Command *command) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  bool named = sql__is_identifier(p, p->at + 2) || sql__ahead(p, 2) == SQL_LEFT_PAREN;
  if (kind == KW_SET && at_variable_word(p, p->at + 1) && named) {
    p->at += 2;
    sql__set_variable(p, command);
  } else if (kind == KW_DECLARE && sql__is_identifier(p, p->at + 1)) {
    p->at++;
    declare(p, command);
  } else if (kind == KW_DROP && next == KW_TEMPORARY && at_variable_word(p, p->at + 2)) {
    p->at += 3;
    drop_variable(p, command);
  } else if (kind == KW_EXECUTE && next == KW_IMMEDIATE) {
    p->at += 2;
    execute_immediate(p, command);
  } else {
    return false;
  }
  return true;
}
