/* ALTER TABLE, ALTER VIEW. What trn_alter_table.action says, and which fields go with it:
 *  - rename: to. rename column: names[0], to. set location: to.
 *  - add columns: columns; position "first" or "after x". drop columns: names, if_exists.
 *  - set properties, unset properties: properties, if_exists.
 *  - column type, column comment: columns[0]. column set default: columns[0].default_text.
 *  - column set not null, column drop not null, column drop default: names[0]. column position: names[0], position.
 *  - add partition, drop partition: partitions, if_exists. query: query, query_text. recover partitions. */
#include "frontend/spark/sql/parser.h"

typedef Spark__Connect__TrnAlterTable alter_table;

static Spark__Connect__TrnColumn *new_column(sql_parser *p, alter_table *alter, char *name) {
  Spark__Connect__TrnColumn *column = SQL_NEW(p, Spark__Connect__TrnColumn, spark__connect__trn_column);
  sql_list columns = {0};
  column->name = name;
  column->nullable = true;
  sql__push(p, &columns, column);
  SQL_SET_LIST(columns, alter, columns);
  return column;
}

static void set_name(sql_parser *p, alter_table *alter, char *name) {
  sql_list names = {0};
  sql__push(p, &names, name);
  SQL_SET_LIST(names, alter, names);
}

/* FIRST, AFTER x; false: none */
static bool position(sql_parser *p, alter_table *alter) {
  if (sql__accept(p, KW_FIRST)) {
    alter->position = "first";
  } else if (sql__accept(p, KW_AFTER)) {
    alter->position = trn__arena_printf(p->arena, "after %s", sql__error_capturing_identifier(p));
    if (alter->position == NULL) sql__fail_memory(p);
  } else {
    return false;
  }
  return true;
}

static void add_columns(sql_parser *p, alter_table *alter) {
  sql_list columns = {0};
  bool parentheses = sql__accept(p, SQL_LEFT_PAREN);
  do {
    Spark__Connect__TrnColumn *column = SQL_NEW(p, Spark__Connect__TrnColumn, spark__connect__trn_column);
    column->name = sql__path_text(p);
    column->nullable = true;
    column->type = sql__type(p);
    for (;;) {
      if (sql__accept2(p, KW_NOT, KW_NULL)) {
        column->nullable = false;
      } else if (sql__accept(p, KW_COMMENT)) {
        column->comment = sql__string_text(p);
      } else if (sql__accept(p, KW_DEFAULT)) {
        size_t first = p->at;
        sql__expression(p);
        column->default_text = sql__text_between(p, first, sql__last(p));
      } else if (!position(p, alter)) {
        break;
      }
    }
    sql__push(p, &columns, column);
  } while (sql__accept(p, SQL_COMMA));
  if (parentheses) sql__expect(p, SQL_RIGHT_PAREN);
  alter->action = "add columns";
  SQL_SET_LIST(columns, alter, columns);
}

static void drop_columns(sql_parser *p, alter_table *alter) {
  sql_list names = {0};
  alter->action = "drop columns";
  alter->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
  bool parentheses = sql__accept(p, SQL_LEFT_PAREN);
  do {
    sql__push(p, &names, sql__path_text(p));
  } while (sql__accept(p, SQL_COMMA));
  if (parentheses) sql__expect(p, SQL_RIGHT_PAREN);
  SQL_SET_LIST(names, alter, names);
}

static void rename_to(sql_parser *p, alter_table *alter) {
  if (sql__accept(p, KW_COLUMN)) {
    alter->action = "rename column";
    set_name(p, alter, sql__path_text(p));
    sql__expect(p, KW_TO);
    alter->to = sql__error_capturing_identifier(p);
    return;
  }
  alter->action = "rename";
  sql__expect(p, KW_TO);
  alter->to = sql__path_text(p);
}

/* [COLUMN] x TYPE t | COMMENT 'x' | SET|DROP NOT NULL | SET DEFAULT e | DROP DEFAULT | FIRST | AFTER y */
static void alter_column(sql_parser *p, alter_table *alter) {
  size_t start = p->at;
  sql__accept(p, KW_COLUMN);
  char *name = sql__path_text(p);
  set_name(p, alter, name);
  if (sql__accept(p, KW_TYPE)) {
    alter->action = "column type";
    new_column(p, alter, name)->type = sql__type(p);
  } else if (sql__accept(p, KW_COMMENT)) {
    alter->action = "column comment";
    new_column(p, alter, name)->comment = sql__string_text(p);
  } else if (sql__accept2(p, KW_SET, KW_NOT)) {
    alter->action = "column set not null";
    sql__expect(p, KW_NULL);
  } else if (sql__accept2(p, KW_DROP, KW_NOT)) {
    alter->action = "column drop not null";
    sql__expect(p, KW_NULL);
  } else if (sql__accept2(p, KW_SET, KW_DEFAULT)) {
    size_t first = p->at;
    alter->action = "column set default";
    sql__expression(p);
    new_column(p, alter, name)->default_text = sql__text_between(p, first, sql__last(p));
  } else if (sql__accept2(p, KW_DROP, KW_DEFAULT)) {
    alter->action = "column drop default";
  } else if (position(p, alter)) {
    alter->action = "column position";
  } else if (sql__is_identifier(p, p->at)) { /* CHANGE COLUMN a b INT COMMENT 'x' */
    alter->action = "column comment";
    alter->to = sql__error_capturing_identifier(p);
    Spark__Connect__TrnColumn *column = new_column(p, alter, name);
    column->type = sql__type(p);
    if (sql__accept(p, KW_COMMENT)) column->comment = sql__string_text(p);
    else alter->action = "column type";
  } else {
    sql__fail_unimplemented(p, start, "this form of ALTER COLUMN");
  }
  if (sql__kind(p) == SQL_COMMA) sql__fail_unimplemented(p, p->at, "ALTER COLUMN of several columns");
}

static void set_something(sql_parser *p, alter_table *alter, size_t start) {
  sql_list properties = {0};
  if (sql__accept(p, KW_TBLPROPERTIES)) {
    alter->action = "set properties";
    sql__properties(p, &properties, false);
    SQL_SET_LIST(properties, alter, properties);
  } else if (sql__accept(p, KW_LOCATION)) {
    alter->action = "set location";
    alter->to = sql__string_text(p);
  } else {
    sql__fail_unimplemented(p, start, "this form of ALTER TABLE ... SET");
  }
}

static void partition_action(sql_parser *p, alter_table *alter, bool add) {
  sql_list partitions = {0};
  alter->action = add ? "add partition" : "drop partition";
  sql__partitions(p, &partitions);
  if (sql__kind(p) == SQL_COMMA || sql__kind(p) == KW_PARTITION || sql__kind(p) == KW_LOCATION) {
    sql__fail_unimplemented(p, p->at, "ALTER TABLE of several partitions or with a location");
  }
  if (!add) sql__accept(p, KW_PURGE);
  SQL_SET_LIST(partitions, alter, partitions);
}

static void add_something(sql_parser *p, alter_table *alter, size_t start) {
  alter->if_exists = sql__if_not_exists(p);
  if (sql__kind(p) == KW_PARTITION) {
    partition_action(p, alter, true);
  } else if (sql__accept(p, KW_COLUMN) || sql__accept(p, KW_COLUMNS)) {
    add_columns(p, alter);
  } else {
    sql__fail_unimplemented(p, start, "ALTER TABLE ... ADD of constraints");
  }
}

static void drop_something(sql_parser *p, alter_table *alter, size_t start) {
  if (sql__accept(p, KW_COLUMN) || sql__accept(p, KW_COLUMNS)) {
    drop_columns(p, alter);
    return;
  }
  alter->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
  if (sql__kind(p) != KW_PARTITION) sql__fail_unimplemented(p, start, "ALTER TABLE ... DROP of constraints");
  partition_action(p, alter, false);
}

static void alter_query(sql_parser *p, alter_table *alter) {
  size_t first = p->at;
  alter->action = "query";
  alter->query = sql__query(p);
  alter->query_text = sql__text_between(p, first, sql__last(p));
}

static void alter_action(sql_parser *p, alter_table *alter, size_t start) {
  sql_list properties = {0};
  if (sql__accept(p, KW_RENAME)) {
    rename_to(p, alter);
  } else if (sql__accept(p, KW_ADD)) {
    add_something(p, alter, start);
  } else if (sql__accept(p, KW_DROP)) {
    drop_something(p, alter, start);
  } else if (sql__accept(p, KW_SET)) {
    set_something(p, alter, start);
  } else if (!alter->view && sql__accept2(p, KW_RECOVER, KW_PARTITIONS)) {
    alter->action = "recover partitions";
  } else if (sql__accept2(p, KW_UNSET, KW_TBLPROPERTIES)) {
    alter->action = "unset properties";
    alter->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
    sql__properties(p, &properties, false);
    SQL_SET_LIST(properties, alter, properties);
  } else if (!alter->view && (sql__accept(p, KW_ALTER) || sql__accept(p, KW_CHANGE))) {
    alter_column(p, alter);
  } else if (alter->view && sql__accept2(p, KW_WITH, KW_SCHEMA)) {
    alter->action = "set properties";
    sql__push(p, &properties, sql__view_mode(p));
    SQL_SET_LIST(properties, alter, properties);
  } else if (alter->view && (sql__accept(p, KW_AS) || sql__starts_query(p, p->at))) {
    alter_query(p, alter);
  } else {
    sql__fail_unimplemented(p, start, alter->view ? "this form of ALTER VIEW" : "this form of ALTER TABLE");
  }
}

bool sql__alter(sql_parser *p, Spark__Connect__Command *command) {
  size_t start = p->at;
  sql_kind next = sql__ahead(p, 1), third = sql__ahead(p, 2);
  if ((next != KW_TABLE && next != KW_VIEW) || third == SQL_END || third == SQL_SEMICOLON) return false;
  alter_table *alter = SQL_NEW(p, alter_table, spark__connect__trn_alter_table);
  p->at += 2;
  alter->view = next == KW_VIEW;
  alter->name = sql__path_text(p);
  if (sql__kind(p) == KW_PARTITION) sql__fail_unimplemented(p, start, "ALTER TABLE of a partition");
  alter_action(p, alter, start);
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_ALTER_TABLE;
  command->trn_alter_table = alter;
  return true;
}
