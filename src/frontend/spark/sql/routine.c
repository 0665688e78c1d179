/* CREATE FUNCTION of SQL, DROP FUNCTION. */
#include "frontend/spark/sql/parser.h"

static void characteristics(sql_parser *p) {
  for (;;) {
    if (sql__accept(p, KW_LANGUAGE)) {
      if (!sql__token_is(p, p->at, "SQL")) sql__fail_unimplemented(p, p->at, "functions of other languages");
      sql__advance(p);
    } else if (sql__accept(p, KW_COMMENT)) {
      size_t size;
      if (!sql__is_string(p, p->at)) sql__fail_syntax(p);
      sql__string(p, &size);
    } else if (sql__accept(p, KW_DETERMINISTIC) || sql__accept2(p, KW_NOT, KW_DETERMINISTIC) ||
               sql__accept2(p, KW_NO, KW_SQL) || sql__accept2(p, KW_CONTAINS, KW_SQL)) {
      continue;
    } else if (sql__accept2(p, KW_READS, KW_SQL) || sql__accept2(p, KW_MODIFIES, KW_SQL)) {
      sql__expect(p, KW_DATA);
    } else if (sql__accept2(p, KW_SQL, KW_SECURITY)) {
      if (!sql__accept(p, KW_INVOKER)) sql__expect(p, KW_DEFINER);
    } else {
      return;
    }
  }
}

static void returns(sql_parser *p, Spark__Connect__TrnCreateFunction *out) {
  sql_list columns = {0};
  if (!sql__accept(p, KW_RETURNS)) return;
  if (!sql__accept(p, KW_TABLE)) {
    out->returns = sql__type(p);
    return;
  }
  out->is_table = true;
  if (sql__kind(p) == SQL_LEFT_PAREN) sql__column_list(p, &columns);
  SQL_SET_LIST(columns, out, columns);
}

/* AS 'library.word': a function of a plugin. Whatever brings resources of its own is Java's. */
static bool function_of_class(sql_parser *p, Spark__Connect__TrnCreateFunction *out, Spark__Connect__Command *command) {
  size_t size = 0;
  sql__expect(p, KW_AS);
  if (!sql__is_string(p, p->at)) return false;
  out->body_text = sql__string(p, &size);
  if (sql__kind(p) != SQL_END && sql__kind(p) != SQL_SEMICOLON) return false;
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_FUNCTION;
  command->trn_create_function = out;
  return true;
}

/* Behind FUNCTION. Without a body in SQL it is a function of a class: p->at is then anywhere. */
bool sql__create_function(sql_parser *p, bool replace, bool temporary, Spark__Connect__Command *command) {
  Spark__Connect__TrnCreateFunction *out =
      SQL_NEW(p, Spark__Connect__TrnCreateFunction, spark__connect__trn_create_function);
  sql_list parameters = {0};
  out->replace = replace;
  out->temporary = temporary;
  out->if_not_exists = sql__if_not_exists(p);
  out->name = sql__path_text(p);
  if (sql__kind(p) == KW_AS) return temporary && function_of_class(p, out, command);
  if (sql__kind(p) == SQL_LEFT_PAREN && sql__ahead(p, 1) == SQL_RIGHT_PAREN) {
    p->at += 2;
  } else {
    sql__column_list(p, &parameters);
  }
  SQL_SET_LIST(parameters, out, parameters);
  returns(p, out);
  characteristics(p);
  sql__expect(p, KW_RETURN);
  size_t first = p->at;
  if (sql__starts_query(p, p->at))
    out->query = sql__query(p);
  else
    out->body = sql__expression(p);
  out->body_text = sql__text_between(p, first, sql__last(p));
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_FUNCTION;
  command->trn_create_function = out;
  return true;
}

bool sql__drop_function(sql_parser *p, Spark__Connect__Command *command) {
  size_t at = p->at;
  bool drop = sql__accept(p, KW_DROP), temporary = drop && sql__accept(p, KW_TEMPORARY);
  if (!drop || !sql__accept(p, KW_FUNCTION)) {
    p->at = at;
    return false;
  }
  Spark__Connect__TrnDropFunction *out =
      SQL_NEW(p, Spark__Connect__TrnDropFunction, spark__connect__trn_drop_function);
  out->temporary = temporary;
  out->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
  out->name = sql__path_text(p);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DROP_FUNCTION;
  command->trn_drop_function = out;
  return true;
}
