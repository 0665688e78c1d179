/* INSERT, DELETE, UPDATE. */
#include "frontend/spark/sql/parser.h"

/* ---- INSERT ---- */

/* What stands between the table and the query. */
static void insert_target(sql_parser *p, Spark__Connect__TrnInsert *insert) {
  sql_list columns = {0}, partitions = {0}, options = {0};
  sql__accept(p, KW_TABLE);
  insert->table = sql__path_text(p);
  if (sql__kind(p) == KW_WITH && sql__ahead(p, 1) == SQL_LEFT_PAREN && !p->tokens[p->at + 1].opens_query) {
    sql__advance(p);
    sql__properties(p, &options, false);
  }
  if (sql__kind(p) == KW_REPLACE && sql__ahead(p, 1) == KW_WHERE && !insert->overwrite) {
    p->at += 2;
    insert->replace_where = sql__expression(p);
  } else if (sql__kind(p) == KW_REPLACE) {
    sql__fail_unimplemented(p, p->at, "INSERT INTO ... REPLACE ON or USING");
  }
  if (sql__kind(p) == KW_PARTITION && sql__ahead(p, 1) == SQL_LEFT_PAREN) sql__partitions(p, &partitions);
  insert->if_not_exists = sql__if_not_exists(p);
  if (sql__accept2(p, KW_BY, KW_NAME)) {
    insert->by_name = true;
  } else if (sql__kind(p) == SQL_LEFT_PAREN && !sql__token(p)->opens_query) {
    sql__identifier_list(p, &columns);
  }
  SQL_SET_LIST(columns, insert, columns);
  SQL_SET_LIST(partitions, insert, partitions);
  SQL_SET_LIST(options, insert, options);
}

static void insert(sql_parser *p, sql_relation *ctes, Spark__Connect__Command *command) {
  Spark__Connect__TrnInsert *message = SQL_NEW(p, Spark__Connect__TrnInsert, spark__connect__trn_insert);
  size_t start = p->at;
  sql__advance(p);
  if (sql__kind(p) == KW_WITH) sql__fail_unimplemented(p, start, "INSERT WITH SCHEMA EVOLUTION");
  message->overwrite = sql__accept(p, KW_OVERWRITE);
  if (message->overwrite &&
      (sql__kind(p) == KW_DIRECTORY || (sql__kind(p) == KW_LOCAL && sql__ahead(p, 1) == KW_DIRECTORY))) {
    sql__fail_unimplemented(p, start, "INSERT OVERWRITE DIRECTORY");
  }
  if (!message->overwrite) sql__expect(p, KW_INTO);
  insert_target(p, message);
  message->input = sql__query(p);
  if (ctes != NULL) {
    ctes->trn_with->input = message->input;
    message->input = ctes;
  }
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_INSERT;
  command->trn_insert = message;
}

/* ---- DELETE, UPDATE ---- */

static char *table_alias(sql_parser *p) {
  if (!sql__accept(p, KW_AS) && !sql__at_alias(p, true)) return NULL;
  return sql__strict_identifier(p);
}

static void delete_from(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnDelete *message = SQL_NEW(p, Spark__Connect__TrnDelete, spark__connect__trn_delete);
  sql__advance(p);
  sql__expect(p, KW_FROM);
  message->table = sql__path_text(p);
  char *alias = table_alias(p);
  if (alias != NULL) message->alias = alias;
  if (sql__accept(p, KW_WHERE)) message->condition = sql__expression(p);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DELETE;
  command->trn_delete = message;
}

static void update(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnUpdate *message = SQL_NEW(p, Spark__Connect__TrnUpdate, spark__connect__trn_update);
  sql_list columns = {0}, values = {0};
  sql__advance(p);
  message->table = sql__path_text(p);
  char *alias = table_alias(p);
  if (alias != NULL) message->alias = alias;
  sql__expect(p, KW_SET);
  do {
    sql__push(p, &columns, sql__path_text(p));
    sql__expect(p, SQL_EQ);
    sql__push(p, &values, sql__expression(p));
  } while (sql__accept(p, SQL_COMMA));
  if (sql__accept(p, KW_WHERE)) message->condition = sql__expression(p);
  SQL_SET_LIST(columns, message, columns);
  SQL_SET_LIST(values, message, values);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_UPDATE;
  command->trn_update = message;
}

bool sql__dml(sql_parser *p, sql_relation *ctes, Spark__Connect__Command *command) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  if (kind == KW_INSERT && (next == KW_INTO || next == KW_OVERWRITE || next == KW_WITH)) {
    insert(p, ctes, command);
  } else if (ctes != NULL) {
    if (kind == KW_MERGE || kind == KW_UPDATE || kind == KW_DELETE || kind == KW_FROM) {
      sql__fail_unimplemented(p, p->at, "WITH before UPDATE, DELETE, MERGE");
    }
    return false;
  } else if (kind == KW_DELETE && next == KW_FROM) {
    delete_from(p, command);
  } else if (kind == KW_UPDATE && sql__is_identifier(p, p->at + 1)) {
    update(p, command);
  } else {
    return false;
  }
  return true;
}
