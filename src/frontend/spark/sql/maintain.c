/* Statements that look after tables and databases: ALTER DATABASE, COMMENT ON, ANALYZE, MSCK REPAIR, TRUNCATE, CACHE, UNCACHE,
 * SET CATALOG; MERGE, which tables of files refuse. What trn_table_statement.what says:
 *  - "set database properties": name, properties. "set database location", "comment on database", "comment on table": name,
 *    text ("" removes a comment).
 *  - "analyze": name. "repair": name, text "add", "drop" or "sync". "truncate": name, partitions.
 *  - "cache": name, query (the name is then a new view's). "uncache": name, if_exists. "set catalog": name. "merge": name. */
#include "frontend/spark/sql/parser.h"

typedef Spark__Connect__TrnTableStatement table_statement;

static bool at_namespace(const sql_parser *p, unsigned ahead) {
  sql_kind kind = sql__ahead(p, ahead);
  return kind == KW_DATABASE || kind == KW_SCHEMA || kind == KW_NAMESPACE;
}

/* ALTER DATABASE x SET ... */
static bool alter_database(sql_parser *p, table_statement *s) {
  sql_list properties = {0};
  if (sql__kind(p) != KW_ALTER || !at_namespace(p, 1)) return false;
  p->at += 2;
  s->name = sql__path_text(p);
  if (sql__accept2(p, KW_SET, KW_DBPROPERTIES) || sql__accept2(p, KW_SET, KW_PROPERTIES)) {
    s->what = "set database properties";
    sql__properties(p, &properties, false);
    SQL_SET_LIST(properties, s, properties);
  } else if (sql__accept2(p, KW_SET, KW_LOCATION)) {
    s->what = "set database location";
    s->text = sql__string_text(p);
  } else {
    sql__fail_unimplemented(p, p->at, "this form of ALTER DATABASE");
  }
  return true;
}

/* COMMENT ON TABLE x IS 'text' */
static bool comment_on(sql_parser *p, table_statement *s) {
  if (sql__kind(p) != KW_COMMENT || sql__ahead(p, 1) != KW_ON || (!at_namespace(p, 2) && sql__ahead(p, 2) != KW_TABLE))
    return false;
  s->what = sql__ahead(p, 2) == KW_TABLE ? "comment on table" : "comment on database";
  p->at += 3;
  s->name = sql__path_text(p);
  sql__expect(p, KW_IS);
  if (!sql__accept(p, KW_NULL)) s->text = sql__string_text(p);
  return true;
}

/* ANALYZE TABLE x [PARTITION (...)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS a, b | FOR ALL COLUMNS] */
static bool analyze(sql_parser *p, table_statement *s) {
  sql_list partitions = {0};
  if (sql__kind(p) != KW_ANALYZE || sql__ahead(p, 1) != KW_TABLE) return false;
  p->at += 2;
  s->what = "analyze";
  s->name = sql__path_text(p);
  if (sql__kind(p) == KW_PARTITION) sql__partitions(p, &partitions);
  SQL_SET_LIST(partitions, s, partitions);
  sql__expect(p, KW_COMPUTE);
  sql__expect(p, KW_STATISTICS);
  if (sql__accept(p, KW_FOR)) {
    if (sql__accept2(p, KW_ALL, KW_COLUMNS)) return true;
    sql__expect(p, KW_COLUMNS);
    do {
      sql__identifier(p);
    } while (sql__accept(p, SQL_COMMA));
  } else if (sql__is_identifier(p, p->at)) {
    sql__identifier(p); /* NOSCAN */
  }
  return true;
}

/* MSCK [REPAIR] TABLE x [ADD | DROP | SYNC PARTITIONS], REPAIR TABLE x */
static bool repair(sql_parser *p, table_statement *s) {
  size_t words = sql__kind(p) == KW_MSCK ? (sql__ahead(p, 1) == KW_REPAIR ? 2 : 1) : sql__kind(p) == KW_REPAIR ? 1 : 0;
  if (!words || sql__ahead(p, (unsigned)words) != KW_TABLE) return false;
  p->at += words + 1;
  s->what = "repair";
  s->name = sql__path_text(p);
  s->text = "add";
  if (sql__accept(p, KW_DROP)) s->text = "drop";
  else if (sql__accept(p, KW_SYNC)) s->text = "sync";
  else if (!sql__accept(p, KW_ADD)) return true;
  sql__expect(p, KW_PARTITIONS);
  return true;
}

static bool truncate(sql_parser *p, table_statement *s) {
  sql_list partitions = {0};
  if (sql__kind(p) != KW_TRUNCATE || sql__ahead(p, 1) != KW_TABLE) return false;
  p->at += 2;
  s->what = "truncate";
  s->name = sql__path_text(p);
  if (sql__kind(p) == KW_PARTITION) sql__partitions(p, &partitions);
  SQL_SET_LIST(partitions, s, partitions);
  return true;
}

/* CACHE [LAZY] TABLE x [OPTIONS (...)] [[AS] query] */
static bool cache(sql_parser *p, table_statement *s) {
  sql_list options = {0};
  bool lazy = sql__ahead(p, 1) == KW_LAZY;
  if (sql__kind(p) != KW_CACHE || sql__ahead(p, lazy ? 2 : 1) != KW_TABLE) return false;
  p->at += lazy ? 3 : 2;
  s->what = "cache";
  s->name = sql__path_text(p);
  if (sql__accept(p, KW_OPTIONS)) sql__properties(p, &options, false);
  if (sql__accept(p, KW_AS) || sql__starts_query(p, p->at) || sql__kind(p) == SQL_LEFT_PAREN) s->query = sql__query(p);
  return true;
}

static bool uncache(sql_parser *p, table_statement *s) {
  if (sql__kind(p) != KW_UNCACHE || sql__ahead(p, 1) != KW_TABLE) return false;
  p->at += 2;
  s->what = "uncache";
  s->if_exists = sql__accept2(p, KW_IF, KW_EXISTS);
  s->name = sql__path_text(p);
  return true;
}

static bool set_catalog(sql_parser *p, table_statement *s) {
  if (sql__kind(p) != KW_SET || sql__ahead(p, 1) != KW_CATALOG) return false;
  p->at += 2;
  s->what = "set catalog";
  s->name = sql__is_string(p, p->at) ? sql__string_text(p) : sql__identifier(p);
  return true;
}

/* MERGE INTO x USING ...: only its target counts. */
static bool merge(sql_parser *p, table_statement *s) {
  if (sql__kind(p) != KW_MERGE || sql__ahead(p, 1) != KW_INTO) return false;
  p->at += 2;
  s->what = "merge";
  s->name = sql__path_text(p);
  while (sql__kind(p) != SQL_END && sql__kind(p) != KW_USING) sql__advance(p);
  sql__expect(p, KW_USING);
  while (sql__kind(p) != SQL_END && sql__kind(p) != SQL_SEMICOLON) sql__advance(p);
  return true;
}

bool sql__table_statement(sql_parser *p, Spark__Connect__Command *command) {
  static bool (*const rules[])(sql_parser *p, table_statement *s) = {
      alter_database, comment_on, analyze, repair, truncate, cache, uncache, set_catalog, merge};
  table_statement *s = SQL_NEW(p, table_statement, spark__connect__trn_table_statement);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (!rules[i](p, s)) continue;
    command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_TABLE_STATEMENT;
    command->trn_table_statement = s;
    return true;
  }
  return false;
}
