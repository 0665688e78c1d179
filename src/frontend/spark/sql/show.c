/* SHOW, DESCRIBE, EXPLAIN: statements that answer with rows about something. */
#include "frontend/spark/sql/parser.h"

/* ---- SHOW ---- */

/* [FROM|IN name] */
static void from_or_in(sql_parser *p, char **name) {
  if (sql__accept(p, KW_FROM) || sql__accept(p, KW_IN)) *name = sql__path_text(p);
}

/* [[LIKE] 'pattern'] */
static void pattern(sql_parser *p, Spark__Connect__TrnShow *show) {
  if (sql__accept(p, KW_LIKE) || sql__is_string(p, p->at)) show->pattern = sql__string_text(p);
}

static void list_in(sql_parser *p, Spark__Connect__TrnShow *show) {
  from_or_in(p, &show->namespace_);
  pattern(p, show);
}

static void show_columns(sql_parser *p, Spark__Connect__TrnShow *show) {
  if (sql__kind(p) != KW_FROM && sql__kind(p) != KW_IN) sql__fail_syntax(p);
  from_or_in(p, &show->name);
  from_or_in(p, &show->namespace_);
}

static void show_table_extended(sql_parser *p, Spark__Connect__TrnShow *show) {
  sql_list partitions = {0};
  from_or_in(p, &show->namespace_);
  sql__expect(p, KW_LIKE);
  show->pattern = sql__string_text(p);
  if (sql__kind(p) == KW_PARTITION) sql__partitions(p, &partitions);
  SQL_SET_LIST(partitions, show, partitions);
}

static void show_properties(sql_parser *p, Spark__Connect__TrnShow *show) {
  show->name = sql__path_text(p);
  if (!sql__accept(p, SQL_LEFT_PAREN)) return;
  show->key = sql__is_string(p, p->at)
                  ? sql__string_text(p)
                  : sql__text_between(p, p->at, sql__kind(p) == SQL_END ? p->at : p->tokens[sql__last(p)].match - 1);
  while (sql__kind(p) != SQL_RIGHT_PAREN && sql__kind(p) != SQL_END) sql__advance(p);
  sql__expect(p, SQL_RIGHT_PAREN);
}

static void show_partitions(sql_parser *p, Spark__Connect__TrnShow *show) {
  sql_list partitions = {0};
  show->name = sql__path_text(p);
  if (sql__kind(p) == KW_PARTITION) sql__partitions(p, &partitions);
  SQL_SET_LIST(partitions, show, partitions);
}

static void show_create_table(sql_parser *p, Spark__Connect__TrnShow *show) {
  show->name = sql__path_text(p);
  if (sql__accept2(p, KW_AS, KW_SERDE)) show->scope = "serde";
}

/* [USER|SYSTEM|ALL] FUNCTIONS [FROM ns] [LIKE 'x' | name] */
static void show_functions(sql_parser *p, Spark__Connect__TrnShow *show) {
  from_or_in(p, &show->namespace_);
  bool like = sql__accept(p, KW_LIKE);
  if (sql__is_string(p, p->at)) {
    show->pattern = sql__string_text(p);
  } else if (like || sql__is_identifier(p, p->at)) {
    show->pattern = sql__path_text(p);
  }
}

static void nothing(sql_parser *p, Spark__Connect__TrnShow *show) {
  (void)p;
  (void)show;
}

static const struct {
  uint16_t first, second; /* second 0: one word */
  const char *what;
  void (*rest)(sql_parser *p, Spark__Connect__TrnShow *show);
} shows[] = {
    {KW_TABLES, 0, "tables", list_in},
    {KW_VIEWS, 0, "views", list_in},
    {KW_DATABASES, 0, "databases", list_in},
    {KW_SCHEMAS, 0, "databases", list_in},
    {KW_NAMESPACES, 0, "databases", list_in},
    {KW_CATALOGS, 0, "catalogs", pattern},
    {KW_COLUMNS, 0, "columns", show_columns},
    {KW_TBLPROPERTIES, 0, "tblproperties", show_properties},
    {KW_PARTITIONS, 0, "partitions", show_partitions},
    {KW_FUNCTIONS, 0, "functions", show_functions},
    {KW_TABLE, KW_EXTENDED, "table extended", show_table_extended},
    {KW_CREATE, KW_TABLE, "create table", show_create_table},
    {KW_CURRENT, KW_DATABASE, "current namespace", nothing},
    {KW_CURRENT, KW_SCHEMA, "current namespace", nothing},
    {KW_CURRENT, KW_NAMESPACE, "current namespace", nothing},
};

bool sql__show(sql_parser *p, Spark__Connect__Command *command) {
  size_t at = p->at;
  Spark__Connect__TrnShow *show = SQL_NEW(p, Spark__Connect__TrnShow, spark__connect__trn_show);
  sql__advance(p);
  if (sql__is_identifier(p, p->at) && sql__ahead(p, 1) == KW_FUNCTIONS) show->scope = sql__lower(p, sql__identifier(p));
  for (size_t i = 0; i < sizeof(shows) / sizeof(shows[0]); i++) {
    if (sql__kind(p) != (sql_kind)shows[i].first ||
        (shows[i].second != 0 && sql__ahead(p, 1) != (sql_kind)shows[i].second))
      continue;
    p->at += shows[i].second != 0 ? 2 : 1;
    show->what = (char *)shows[i].what;
    command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_SHOW;
    command->trn_show = show;
    shows[i].rest(p, show);
    return true;
  }
  p->at = at;
  return false;
}

/* ---- DESCRIBE ---- */

static void describe_table(sql_parser *p, Spark__Connect__TrnDescribe *describe) {
  sql_list partitions = {0}, column = {0};
  size_t start = sql__last(p);
  describe->what = "table";
  sql__accept(p, KW_TABLE);
  sql_kind next = sql__ahead(p, 1);
  if ((sql__kind(p) == KW_EXTENDED || sql__kind(p) == KW_FORMATTED) && next != SQL_END && next != SQL_DOT &&
      next != SQL_SEMICOLON) {
    describe->extended = true;
    sql__advance(p);
  }
  describe->name = sql__path_text(p);
  if (sql__kind(p) == KW_PARTITION && sql__ahead(p, 1) == SQL_LEFT_PAREN) sql__partitions(p, &partitions);
  if (sql__is_identifier(p, p->at) && sql__kind(p) != KW_AS) {
    sql__path(p, &column);
    describe->column = sql__join_path(p, &column);
  }
  describe->json = sql__accept2(p, KW_AS, KW_JSON);
  if (describe->json && column.count > 0) {
    sql__refuse(p, start, sql__last(p), "UNSUPPORTED_FEATURE.DESC_TABLE_COLUMN_JSON", "0A000", NULL, 0);
  }
  if (describe->json && !describe->extended) {
    trn_kv param = {"tableName", describe->name};
    sql__refuse(p, start, sql__last(p), "DESCRIBE_JSON_NOT_EXTENDED", "0A000", &param, 1);
  }
  SQL_SET_LIST(partitions, describe, partitions);
}

static void describe_function(sql_parser *p, Spark__Connect__TrnDescribe *describe) {
  describe->what = "function";
  sql__advance(p);
  if (sql__kind(p) == KW_EXTENDED && sql__ahead(p, 1) != SQL_END) {
    describe->extended = true;
    sql__advance(p);
  }
  if (sql__is_string(p, p->at)) {
    describe->name = sql__string_text(p);
  } else if (sql__is_identifier(p, p->at)) {
    describe->name = sql__path_text(p);
  } else if (sql__kind(p) >= SQL_BANG && sql__kind(p) <= SQL_HAT) { /* an operator */
    describe->name = sql__token_text(p, p->at);
    sql__advance(p);
  } else {
    sql__fail_syntax(p);
  }
}

static void describe_namespace(sql_parser *p, Spark__Connect__TrnDescribe *describe) {
  describe->what = "database";
  sql__advance(p);
  if (sql__kind(p) == KW_EXTENDED && sql__ahead(p, 1) != SQL_END) {
    describe->extended = true;
    sql__advance(p);
  }
  describe->name = sql__path_text(p);
}

static bool at_described_query(const sql_parser *p) {
  size_t i = p->at + (sql__kind(p) == KW_QUERY);
  if (sql__kind_at(p, i) == SQL_LEFT_PAREN) return p->tokens[i].opens_query;
  return sql__starts_query(p, i) && !(sql__kind_at(p, i) == KW_TABLE && i == p->at);
}

void sql__describe(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnDescribe *describe = SQL_NEW(p, Spark__Connect__TrnDescribe, spark__connect__trn_describe);
  sql__advance(p);
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  bool names = next != SQL_END && next != SQL_DOT && next != SQL_SEMICOLON;
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DESCRIBE;
  command->trn_describe = describe;
  if (at_described_query(p)) {
    describe->what = "query";
    if (kind == KW_QUERY) sql__advance(p);
    describe->query = sql__query(p);
  } else if (kind == KW_FUNCTION && names) {
    describe_function(p, describe);
  } else if ((kind == KW_DATABASE || kind == KW_SCHEMA || kind == KW_NAMESPACE) && names) {
    describe_namespace(p, describe);
  } else if (kind == KW_PROCEDURE && names) {
    sql__fail_unimplemented(p, p->at, "DESCRIBE PROCEDURE");
  } else {
    describe_table(p, describe);
  }
}

/* ---- EXPLAIN ---- */

static const struct {
  uint16_t kind;
  const char *name;
} modes[] = {
    {KW_LOGICAL, "logical"}, {KW_FORMATTED, "formatted"}, {KW_EXTENDED, "extended"},
    {KW_CODEGEN, "codegen"}, {KW_COST, "cost"},
};

void sql__explain(sql_parser *p, Spark__Connect__Command *command) {
  Spark__Connect__TrnExplain *explain = SQL_NEW(p, Spark__Connect__TrnExplain, spark__connect__trn_explain);
  spark_sql_statement inner = {0};
  sql__advance(p);
  explain->mode = "simple";
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
    if (sql__kind(p) != (sql_kind)modes[i].kind) continue;
    explain->mode = (char *)modes[i].name;
    sql__advance(p);
    break;
  }
  sql__enter(p, SQL_DEPTH_QUERY);
  sql__statement(p, &inner);
  sql__leave(p, SQL_DEPTH_QUERY);
  if (inner.kind == SPARK_SQL_SET || inner.kind == SPARK_SQL_RESET)
    sql__fail_unimplemented(p, p->at, "EXPLAIN of SET and RESET");
  explain->relation = inner.relation;
  explain->command = inner.command;
  command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_EXPLAIN;
  command->trn_explain = explain;
}
