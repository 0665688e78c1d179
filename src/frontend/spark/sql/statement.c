/* Statements other than queries: some become commands, the others are refused by name. */
#include "frontend/spark/sql/parser.h"

static bool at_words(const sql_parser *p, const char *words) {
  size_t index = p->at;
  while (*words != 0) {
    size_t size = strcspn(words, " ");
    const sql_token *token = &p->tokens[index < p->count ? index : p->count - 1];
    if (token->size != size || strncasecmp(p->text + token->start, words, size) != 0) return false;
    words += size + (words[size] == ' ');
    index++;
  }
  return true;
}

static bool if_exists(sql_parser *p) {
  return sql__accept2(p, KW_IF, KW_EXISTS);
}

static sql_relation *catalog(sql_parser *p, size_t start, Spark__Connect__Catalog__CatTypeCase which,
                             Spark__Connect__Catalog **out) {
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_CATALOG;
  relation->catalog = *out = SQL_NEW(p, Spark__Connect__Catalog, spark__connect__catalog);
  relation->catalog->cat_type_case = which;
  return relation;
}

/* ---- views, tables ---- */

static sql_relation *drop_view(sql_parser *p, size_t start) {
  Spark__Connect__DropView *drop = SQL_NEW(p, Spark__Connect__DropView, spark__connect__drop_view);
  Spark__Connect__Catalog *message;
  drop->if_exists = if_exists(p);
  drop->view_name = sql__path_text(p);
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_VIEW, &message);
  message->drop_view = drop;
  return relation;
}

static sql_relation *drop_table(sql_parser *p, size_t start) {
  Spark__Connect__DropTable *drop = SQL_NEW(p, Spark__Connect__DropTable, spark__connect__drop_table);
  Spark__Connect__Catalog *message;
  drop->if_exists = if_exists(p);
  drop->table_name = sql__path_text(p);
  drop->purge = sql__accept(p, KW_PURGE);
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_TABLE, &message);
  message->drop_table = drop;
  return relation;
}

/* ---- databases, caches ---- */

/* What a property of CREATE DATABASE is called when the statement has a clause for it, as in spark.catalog. */
static void database_property(sql_parser *p, sql_list *list, const char *key, const char *value) {
  Spark__Connect__CreateDatabase__PropertiesEntry *entry =
      SQL_NEW(p, Spark__Connect__CreateDatabase__PropertiesEntry, spark__connect__create_database__properties_entry);
  entry->key = (char *)key;
  entry->value = (char *)value;
  sql__push(p, list, entry);
}

static void database_clauses(sql_parser *p, Spark__Connect__CreateDatabase *create) {
  sql_list all = {0};
  for (;;) {
    if (sql__accept(p, KW_COMMENT)) {
      database_property(p, &all, "comment", sql__string_text(p));
    } else if (sql__accept(p, KW_LOCATION)) {
      database_property(p, &all, "location", sql__string_text(p));
    } else if (sql__accept2(p, KW_WITH, KW_DBPROPERTIES) || sql__accept2(p, KW_WITH, KW_PROPERTIES)) {
      sql_list given = {0};
      sql__properties(p, &given, false);
      for (size_t i = 0; i < given.count; i++) {
        const Spark__Connect__TrnProperty *property = given.items[i];
        database_property(p, &all, property->key, property->value ? property->value : "");
      }
    } else {
      break;
    }
  }
  SQL_SET_LIST(all, create, properties);
}

static sql_relation *create_database(sql_parser *p, size_t start) {
  Spark__Connect__CreateDatabase *create = SQL_NEW(p, Spark__Connect__CreateDatabase, spark__connect__create_database);
  Spark__Connect__Catalog *message;
  if (sql__kind(p) == KW_IF && sql__ahead(p, 1) == KW_NOT && sql__ahead(p, 2) == KW_EXISTS) {
    create->if_not_exists = true;
    p->at += 3;
  }
  create->db_name = sql__path_text(p);
  database_clauses(p, create);
  if (sql__kind(p) == KW_DEFAULT) sql__fail_unimplemented(p, p->at, "CREATE DATABASE with a collation");
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_DATABASE, &message);
  message->create_database = create;
  return relation;
}

static sql_relation *drop_database(sql_parser *p, size_t start) {
  Spark__Connect__DropDatabase *drop = SQL_NEW(p, Spark__Connect__DropDatabase, spark__connect__drop_database);
  Spark__Connect__Catalog *message;
  drop->if_exists = if_exists(p);
  drop->db_name = sql__path_text(p);
  drop->cascade = sql__accept(p, KW_CASCADE);
  if (!drop->cascade) sql__accept(p, KW_RESTRICT);
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_DROP_DATABASE, &message);
  message->drop_database = drop;
  return relation;
}

static sql_relation *clear_cache(sql_parser *p, size_t start) {
  Spark__Connect__Catalog *message;
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_CLEAR_CACHE, &message);
  message->clear_cache = SQL_NEW(p, Spark__Connect__ClearCache, spark__connect__clear_cache);
  return relation;
}

static sql_relation *use_database(sql_parser *p, size_t start) {
  Spark__Connect__Catalog *message;
  char *name = sql__path_text(p);
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_SET_CURRENT_DATABASE, &message);
  message->set_current_database = SQL_NEW(p, Spark__Connect__SetCurrentDatabase, spark__connect__set_current_database);
  message->set_current_database->db_name = name;
  return relation;
}

/* ---- SET, RESET ---- */

/* Where the statement's own text ends: at its first semicolon that ends it, or the end. */
static size_t statement_end(const sql_parser *p) {
  size_t end = p->count - 1;
  while (end > p->at && sql__kind_at(p, end - 1) == SQL_SEMICOLON) end--;
  return end;
}

static char *trimmed(sql_parser *p, size_t from, size_t to) {
  while (from < to && strchr(" \t\r\n", p->text[from]) != NULL) from++;
  while (to > from && strchr(" \t\r\n", p->text[to - 1]) != NULL) to--;
  return sql__copy(p, p->text + from, to - from);
}

static void set_entry(sql_parser *p, spark_sql_statement *out, const char *key, const char *value) {
  trn_kv *entry = sql__alloc(p, sizeof(*entry));
  entry->key = key;
  entry->value = value;
  out->set = entry;
  out->set_count = 1;
}

/* INTERVAL 2 HOURS, INTERVAL '-03:30' HOUR TO MINUTE, at INTERVAL: as an offset. */
static char *zone_interval(sql_parser *p) {
  static const char *const units[] = {"DAY", "DAYS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS"};
  static const long sizes[] = {86400, 3600, 60, 1};
  size_t start = p->at, size, unit = 0;
  sql__advance(p);
  bool negative = sql__accept(p, SQL_MINUS);
  const char *text = sql__is_string(p, p->at) ? sql__string(p, &size) : NULL;
  if (text == NULL) {
    if (sql__kind(p) != SQL_INTEGER) sql__fail_syntax(p);
    text = sql__token_text(p, p->at);
    sql__advance(p);
  }
  while (unit < 8 && !sql__token_is(p, p->at, units[unit])) unit++;
  if (unit == 8) sql__fail_unimplemented(p, p->at, "SET TIME ZONE interval");
  sql__advance(p);
  bool minutes = sql__token_is(p, p->at, "TO") && sql__token_is(p, p->at + 1, "MINUTE");
  bool both = minutes || (sql__token_is(p, p->at, "TO") && sql__token_is(p, p->at + 1, "SECOND"));
  if (both) p->at += 2;
  const char *input = text;
  long seconds = 0, scale = sizes[unit / 2];
  if (*text == '-' || *text == '+') negative ^= *text++ == '-';
  for (char *end; scale; text = end + 1, scale /= 60) {
    long part = strtol(text, &end, 10);
    if (end == text || part < 0 || part > 1000000) sql__fail_syntax(p);
    seconds += part * scale;
    if (*end == 0) break;
    if (*end != ':' || !both || scale == 1) sql__fail_syntax(p);
  }
  if (seconds > 18 * 3600) {
    trn_kv param = {"input", input};
    sql__fail(p, start, sql__last(p), "INVALID_INTERVAL_FORMAT.TIMEZONE_INTERVAL_OUT_OF_RANGE", "22006", &param, 1);
  }
  char *zone = trn__arena_printf(p->arena, seconds % 60 ? "%c%02ld:%02ld:%02ld" : "%c%02ld:%02ld", negative ? '-' : '+', seconds / 3600,
                                 seconds / 60 % 60, seconds % 60);
  if (zone == NULL) sql__fail_memory(p);
  return zone;
}

static void set_time_zone(sql_parser *p, spark_sql_statement *out) {
  size_t size;
  p->at += 2;
  if (sql__kind(p) == KW_LOCAL) sql__fail_unimplemented(p, p->at, "SET TIME ZONE LOCAL");
  if (sql__kind(p) == KW_INTERVAL) {
    set_entry(p, out, "spark.sql.session.timeZone", zone_interval(p));
    return;
  }
  if (!sql__is_string(p, p->at)) sql__fail_syntax(p);
  set_entry(p, out, "spark.sql.session.timeZone", sql__string(p, &size));
}

/* SET; SET key; SET key = value, where the value is whatever follows; SET `key` = `value` */
static void set(sql_parser *p, spark_sql_statement *out) {
  out->kind = SPARK_SQL_SET;
  sql__advance(p);
  if (sql__kind(p) == KW_TIME && sql__ahead(p, 1) == KW_ZONE) {
    set_time_zone(p, out);
    return;
  }
  if (sql__kind(p) == KW_ROLE) sql__fail_unimplemented(p, p->at, "SET ROLE");
  size_t end = statement_end(p), eq = p->at;
  while (eq < end && sql__kind_at(p, eq) != SQL_EQ) eq++;
  if (p->at == end) return;
  char *key, *value = NULL;
  if (sql__kind(p) == SQL_BACKQUOTED && eq == p->at + 1) {
    key = sql__identifier(p);
  } else {
    key = trimmed(p, sql__token(p)->start, p->tokens[eq].start);
  }
  if (eq < end) {
    p->at = eq + 1;
    value = sql__kind(p) == SQL_BACKQUOTED && p->at + 1 == end
                ? sql__identifier(p)
                : trimmed(p, p->tokens[eq].start + p->tokens[eq].size, p->tokens[end].start);
  }
  if (value == NULL && strchr(key, ' ') != NULL) sql__fail(p, p->at, end - 1, "INVALID_SET_SYNTAX", "42000", NULL, 0);
  set_entry(p, out, key, value);
  p->at = end;
}

static void reset(sql_parser *p, spark_sql_statement *out) {
  out->kind = SPARK_SQL_RESET;
  sql__advance(p);
  size_t end = statement_end(p);
  if (p->at == end) return;
  char *key = sql__kind(p) == SQL_BACKQUOTED && p->at + 1 == end
                  ? sql__identifier(p)
                  : trimmed(p, sql__token(p)->start, p->tokens[end].start);
  set_entry(p, out, key, NULL);
  p->at = end;
}

/* ---- which statement ---- */

/* Spark's statements that this parser knows by their first words and does not do yet. Longer ones first. */
static const char *const refused[] = {
    "ALTER TABLE",
    "ALTER VIEW",
    "ALTER DATABASE",
    "ALTER SCHEMA",
    "ALTER NAMESPACE",
    "ALTER INDEX",
    "ANALYZE TABLE",
    "ANALYZE TABLES",
    "ADD",
    "CACHE LAZY TABLE",
    "CALL",
    "COMMENT ON",
    "COMMIT",
    "CREATE",
    "DELETE FROM",
    "DESC",
    "DESCRIBE",
    "DFS",
    "DROP FUNCTION",
    "DROP TEMP",
    "DROP TEMPORARY",
    "DROP INDEX",
    "DROP ROLE",
    "EXPLAIN",
    "EXPORT TABLE",
    "GRANT",
    "IMPORT TABLE",
    "INSERT INTO",
    "INSERT OVERWRITE",
    "LIST",
    "LOAD DATA",
    "LOCK",
    "MERGE",
    "MSCK REPAIR TABLE",
    "REFRESH FUNCTION",
    "REFRESH",
    "REPAIR TABLE",
    "REPLACE TABLE",
    "REVOKE",
    "ROLLBACK",
    "SHOW",
    "START TRANSACTION",
    "TRUNCATE TABLE",
    "UNLOCK",
    "UPDATE",
};

static void refuse(sql_parser *p) {
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    if (at_words(p, refused[i]) && sql__ahead(p, 1) != SQL_END) {
      const char *what = strchr(refused[i], ' ') != NULL ? refused[i] : NULL;
      if (what == NULL) {
        const sql_token *second = &p->tokens[p->at + 1];
        what =
            trn__arena_printf(p->arena, "%s %.*s", refused[i],
                              sql__is_keyword((sql_kind)second->kind) ? (int)second->size : 0, p->text + second->start);
        if (what == NULL) sql__fail_memory(p);
      }
      sql__fail_unimplemented(p, p->at, what);
    }
  }
}

typedef sql_relation *(*catalog_rule)(sql_parser *p, size_t start);

static sql_relation *refresh(sql_parser *p, size_t start) {
  Spark__Connect__Catalog *message;
  char *name = sql__path_text(p);
  sql_relation *relation = catalog(p, start, SPARK__CONNECT__CATALOG__CAT_TYPE_REFRESH_TABLE, &message);
  message->refresh_table = SQL_NEW(p, Spark__Connect__RefreshTable, spark__connect__refresh_table);
  message->refresh_table->table_name = name;
  return relation;
}

static const struct {
  const char *words;
  uint8_t count;
  catalog_rule rule;
} catalog_statements[] = {
    {"DROP VIEW", 2, drop_view},
    {"DROP TABLE", 2, drop_table},
    {"CREATE DATABASE", 2, create_database},
    {"CREATE SCHEMA", 2, create_database},
    {"CREATE NAMESPACE", 2, create_database},
    {"DROP DATABASE", 2, drop_database},
    {"DROP SCHEMA", 2, drop_database},
    {"DROP NAMESPACE", 2, drop_database},
    {"REFRESH TABLE", 2, refresh},
    {"CLEAR CACHE", 2, clear_cache},
    {"USE DATABASE", 2, use_database},
    {"USE SCHEMA", 2, use_database},
    {"USE NAMESPACE", 2, use_database},
    {"USE", 1, use_database},
};

static bool catalog_statement(sql_parser *p, spark_sql_statement *out) {
  for (size_t i = 0; i < sizeof(catalog_statements) / sizeof(catalog_statements[0]); i++) {
    sql_kind behind = sql__ahead(p, catalog_statements[i].count);
    if (!at_words(p, catalog_statements[i].words) || behind == SQL_DOT) continue;
    if (catalog_statements[i].rule == use_database && (behind == SQL_END || behind == SQL_SEMICOLON))
      continue; /* USE schema */
    size_t start = p->at;
    p->at += catalog_statements[i].count;
    out->relation = catalog_statements[i].rule(p, start);
    return true;
  }
  return false;
}

static bool starts_statement(sql_kind kind) {
  return kind == KW_SELECT || kind == KW_VALUES || kind == KW_FROM || kind == KW_TABLE || kind == KW_WITH ||
         kind == KW_DROP || kind == KW_ALTER || kind == KW_CREATE || kind == KW_REFRESH || kind == KW_CACHE ||
         kind == KW_CLEAR || kind == KW_UNCACHE || kind == KW_INSERT || kind == KW_SHOW || kind == KW_DESCRIBE ||
         kind == KW_EXPLAIN || kind == KW_USE || kind == KW_DELETE || kind == KW_UPDATE || kind == KW_MERGE;
}

static bool at_set_variable(const sql_parser *p) {
  return (sql__ahead(p, 1) == KW_VARIABLE || sql__ahead(p, 1) == KW_VAR) &&
         (sql__is_identifier(p, p->at + 2) || sql__ahead(p, 2) == SQL_LEFT_PAREN);
}

static bool command_statement(sql_parser *p, spark_sql_statement *out) {
  Spark__Connect__Command *command = SQL_NEW(p, Spark__Connect__Command, spark__connect__command);
  sql_kind next = sql__ahead(p, 1);
  bool more = next != SQL_END && next != SQL_SEMICOLON, done = more;
  switch ((int)sql__kind(p)) {
  case KW_CREATE:
  case KW_REPLACE:
    done = sql__create(p, command);
    out->constraints = (struct trn_constraint *const *)p->constraints.items;
    out->constraint_count = p->constraints.count;
    break;
  case KW_ALTER: done = sql__alter(p, command); break;
  case KW_SHOW: done = sql__show(p, command); break;
  case KW_DESC:
  case KW_DESCRIBE:
    if (more) sql__describe(p, command);
    break;
  case KW_EXPLAIN:
    if (more) sql__explain(p, command);
    break;
  default: done = sql__dml(p, NULL, command) || sql__variable(p, command) || sql__drop_function(p, command);
  }
  if (!done) done = sql__table_statement(p, command);
  if (done) out->command = command;
  return done;
}

/* WITH before a query or INSERT */
static void with_statement(sql_parser *p, spark_sql_statement *out) {
  size_t start = p->at;
  sql__enter(p, SQL_DEPTH_QUERY);
  sql_relation *ctes = sql__with(p);
  Spark__Connect__Command *command = SQL_NEW(p, Spark__Connect__Command, spark__connect__command);
  if (sql__dml(p, ctes, command)) {
    out->kind = SPARK_SQL_COMMAND;
    out->command = command;
  } else {
    out->kind = SPARK_SQL_QUERY;
    out->relation = sql__query_behind(p, ctes, start);
  }
  sql__leave(p, SQL_DEPTH_QUERY);
}

void sql__statement(sql_parser *p, spark_sql_statement *out) {
  sql_kind kind = sql__kind(p);
  if (kind == KW_WITH && sql__starts_query(p, p->at)) {
    with_statement(p, out);
  } else if (kind == SQL_LEFT_PAREN || sql__starts_query(p, p->at)) {
    out->kind = SPARK_SQL_QUERY;
    out->relation = sql__query(p);
  } else if (kind == KW_BEGIN && !p->in_script) {
    out->kind = SPARK_SQL_SCRIPT;
    out->script = sql__script(p);
  } else if (kind == KW_SET && p->in_script) {
    sql__advance(p);
    out->kind = SPARK_SQL_COMMAND;
    out->command = SQL_NEW(p, Spark__Connect__Command, spark__connect__command);
    sql__set_variable(p, out->command);
  } else if (kind == KW_SET && !at_set_variable(p) && sql__ahead(p, 1) != KW_CATALOG) {
    set(p, out);
  } else if (kind == KW_RESET && p->in_script) { /* not part of scripts */
    sql__advance(p);
    sql__fail_syntax(p);
  } else if (kind == KW_RESET) {
    reset(p, out);
  } else {
    out->kind = SPARK_SQL_COMMAND;
    if (command_statement(p, out) || catalog_statement(p, out)) return;
    refuse(p);
    if (starts_statement(kind)) sql__advance(p); /* then what follows is wrong */
    sql__fail_syntax(p);
  }
}
