/* CREATE TABLE, CREATE VIEW and what they share: properties, partitions, columns. */
#include "frontend/spark/sql/parser.h"

/* ---- shared pieces ---- */

char *sql__text_between(sql_parser *p, size_t first, size_t last) {
  const sql_token *a = &p->tokens[first], *b = &p->tokens[last];
  return sql__copy(p, p->text + a->start, b->start + b->size - a->start);
}

char *sql__string_text(sql_parser *p) {
  size_t size;
  return sql__string(p, &size);
}

bool sql__if_not_exists(sql_parser *p) {
  if (sql__kind(p) != KW_IF || (sql__ahead(p, 1) != KW_NOT && sql__ahead(p, 1) != SQL_BANG) ||
      sql__ahead(p, 2) != KW_EXISTS)
    return false;
  p->at += 3;
  return true;
}

/* The parts of a key are joined as they are: 'a.b' and a.b are the same key. */
static char *property_key(sql_parser *p) {
  if (sql__is_string(p, p->at)) return sql__string_text(p);
  sql_list parts = {0};
  do {
    sql__push(p, &parts, sql__error_capturing_identifier(p));
  } while (sql__accept(p, SQL_DOT));
  return sql__join_texts(p, &parts, "", ".");
}

/* A number, a boolean, a string; in OPTIONS any expression, by its text. NULL: none. */
static char *property_value(sql_parser *p, bool expressions) {
  sql_kind kind = sql__kind(p);
  if (kind == SQL_COMMA || kind == SQL_RIGHT_PAREN) return NULL;
  if (sql__is_string(p, p->at)) return sql__string_text(p);
  size_t first = p->at;
  if (kind == SQL_INTEGER || kind == SQL_DECIMAL || kind == KW_TRUE || kind == KW_FALSE) {
    sql__advance(p);
    char *text = sql__token_text(p, first);
    return sql__is_keyword(kind) ? sql__lower(p, text) : text;
  }
  if (!expressions) sql__fail_syntax(p);
  sql__expression(p);
  return sql__text_between(p, first, sql__last(p));
}

void sql__properties(sql_parser *p, sql_list *list, bool expressions) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    Spark__Connect__TrnProperty *property = SQL_NEW(p, Spark__Connect__TrnProperty, spark__connect__trn_property);
    property->key = property_key(p);
    bool equals = sql__accept(p, SQL_EQ);
    char *value = property_value(p, expressions);
    if (equals && value == NULL) sql__fail_syntax(p);
    if (value != NULL) property->value = value;
    sql__push(p, list, property);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* PARTITION (a = 1, b), at PARTITION */
void sql__partitions(sql_parser *p, sql_list *list) {
  sql__advance(p);
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    Spark__Connect__TrnPartition *partition = SQL_NEW(p, Spark__Connect__TrnPartition, spark__connect__trn_partition);
    partition->column = sql__identifier(p);
    if (sql__accept(p, SQL_EQ)) partition->value = sql__value(p);
    sql__push(p, list, partition);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* [AS] query, with the text it was written in. NULL: none. */
static sql_relation *query_with_text(sql_parser *p, char **text) {
  size_t first = p->at;
  sql_relation *query = sql__query(p);
  *text = sql__text_between(p, first, sql__last(p));
  return query;
}

/* ---- columns ---- */

static void column_options(sql_parser *p, Spark__Connect__TrnColumn *column) {
  for (;;) {
    if (sql__column_constraint(p, column->name)) continue;
    if (sql__accept2(p, KW_NOT, KW_NULL) || sql__accept2(p, SQL_BANG, KW_NULL)) {
      column->nullable = false;
    } else if (sql__accept(p, KW_COMMENT)) {
      column->comment = sql__string_text(p);
    } else if (sql__accept(p, KW_DEFAULT)) {
      size_t first = p->at;
      sql__expression(p);
      column->default_text = sql__text_between(p, first, sql__last(p));
    } else if (sql__kind(p) == KW_GENERATED && sql__ahead(p, 1) == KW_ALWAYS && sql__ahead(p, 2) == KW_AS &&
               sql__ahead(p, 3) == SQL_LEFT_PAREN) {
      p->at += 4;
      size_t first = p->at;
      sql__expression(p);
      column->generated_text = sql__text_between(p, first, sql__last(p));
      sql__expect(p, SQL_RIGHT_PAREN);
    } else if (sql__kind(p) == SQL_COMMA || sql__kind(p) == SQL_RIGHT_PAREN) {
      return;
    } else if (sql__kind(p) == KW_GENERATED) {
      sql__fail_unimplemented(p, p->at, "identity columns");
    } else {
      sql__expect(p, SQL_RIGHT_PAREN);
    }
  }
}

static void column(sql_parser *p, sql_list *columns) {
  if (sql__table_constraint(p)) return;
  Spark__Connect__TrnColumn *out = SQL_NEW(p, Spark__Connect__TrnColumn, spark__connect__trn_column);
  out->name = sql__error_capturing_identifier(p);
  out->nullable = true;
  out->type = sql__type(p);
  column_options(p, out);
  sql__push(p, columns, out);
}

void sql__column_list(sql_parser *p, sql_list *columns) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    column(p, columns);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* (a COMMENT 'x', b) of a view */
static void view_columns(sql_parser *p, sql_list *columns) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    Spark__Connect__TrnColumn *out = SQL_NEW(p, Spark__Connect__TrnColumn, spark__connect__trn_column);
    out->name = sql__identifier(p);
    out->nullable = true;
    if (sql__accept(p, KW_COMMENT)) out->comment = sql__string_text(p);
    sql__push(p, columns, out);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* ---- CREATE TABLE ---- */

/* A column, a transform like days(ts), or a column definition, which adds a column. */
static void partition_field(sql_parser *p, sql_list *fields, sql_list *columns) {
  size_t start = p->at;
  sql_kind next = sql__ahead(p, 1);
  if (next == SQL_LEFT_PAREN || next == SQL_DOT || next == SQL_COMMA || next == SQL_RIGHT_PAREN) {
    sql__push(p, fields, sql__primary(p).expr);
    return;
  }
  size_t before = columns->count;
  column(p, columns);
  if (columns->count == before) sql__fail_syntax(p);
  const Spark__Connect__TrnColumn *added = columns->items[columns->count - 1];
  sql_list part = {0};
  sql__push(p, &part, added->name);
  sql__push(p, fields, sql__attribute(p, &part, start, start));
}

static void partitioned_by(sql_parser *p, sql_list *fields, sql_list *columns) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    partition_field(p, fields, columns);
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* CLUSTERED BY (a) [SORTED BY (b [ASC])] INTO n BUCKETS */
static void bucketed(sql_parser *p, Spark__Connect__TrnCreateTable *table) {
  sql_list columns = {0}, sort = {0};
  sql__identifier_list(p, &columns);
  if (sql__accept2(p, KW_SORTED, KW_BY)) {
    sql__expect(p, SQL_LEFT_PAREN);
    do {
      sql__push(p, &sort, sql__error_capturing_identifier(p));
      if (!sql__accept(p, KW_DESC)) sql__accept(p, KW_ASC);
    } while (sql__accept(p, SQL_COMMA));
    sql__expect(p, SQL_RIGHT_PAREN);
  }
  sql__expect(p, KW_INTO);
  table->bucket_count = sql__integer_value(p);
  sql__expect(p, KW_BUCKETS);
  SQL_SET_LIST(columns, table, bucket_columns);
  SQL_SET_LIST(sort, table, bucket_sort);
}

typedef struct table_lists {
  sql_list columns, options, partition_by, properties;
} table_lists;

/* One clause behind the columns; false: none here. */
static bool table_clause(sql_parser *p, Spark__Connect__TrnCreateTable *table, table_lists *lists) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  if (sql__accept(p, KW_OPTIONS)) {
    sql__properties(p, &lists->options, true);
  } else if (sql__accept(p, KW_TBLPROPERTIES)) {
    sql__properties(p, &lists->properties, false);
  } else if (sql__accept2(p, KW_PARTITIONED, KW_BY)) {
    partitioned_by(p, &lists->partition_by, &lists->columns);
  } else if (sql__accept2(p, KW_CLUSTERED, KW_BY)) {
    bucketed(p, table);
  } else if (sql__accept(p, KW_LOCATION)) {
    table->location = sql__string_text(p);
  } else if (sql__accept(p, KW_COMMENT)) {
    table->comment = sql__string_text(p);
  } else if (kind == KW_STORED && next == KW_AS && sql__ahead(p, 2) != KW_INPUTFORMAT) {
    p->at += 2;
    table->provider = sql__identifier(p);
  } else if ((kind == KW_ROW && next == KW_FORMAT) || kind == KW_STORED || (kind == KW_SKEWED && next == KW_BY) ||
             (kind == KW_CLUSTER && next == KW_BY) || (kind == KW_DEFAULT && next == KW_COLLATION)) {
    sql__fail_unimplemented(p, p->at, "ROW FORMAT, STORED BY, SKEWED BY, CLUSTER BY and COLLATION of tables");
  } else {
    return false;
  }
  return true;
}

static void set_table_lists(Spark__Connect__TrnCreateTable *table, const table_lists *lists) {
  SQL_SET_LIST(lists->columns, table, columns);
  SQL_SET_LIST(lists->options, table, options);
  SQL_SET_LIST(lists->partition_by, table, partition_by);
  SQL_SET_LIST(lists->properties, table, properties);
}

/* Behind TABLE, at the name. */
static void create_table(sql_parser *p, Spark__Connect__TrnCreateTable *table) {
  table_lists lists = {{0}};
  table->if_not_exists = sql__if_not_exists(p);
  table->name = sql__path_text(p);
  if (sql__accept(p, KW_LIKE)) table->like = sql__path_text(p);
  if (table->like[0] == 0 && sql__kind(p) == SQL_LEFT_PAREN && !sql__token(p)->opens_query)
    sql__column_list(p, &lists.columns);
  if (sql__accept(p, KW_USING)) table->provider = sql__path_text(p);
  while (table_clause(p, table, &lists)) {
  }
  set_table_lists(table, &lists);
  bool as = sql__accept(p, KW_AS);
  if (as || sql__starts_query(p, p->at) || sql__kind(p) == SQL_LEFT_PAREN)
    table->query = query_with_text(p, &table->query_text);
}

/* ---- CREATE VIEW ---- */

Spark__Connect__TrnProperty *sql__view_mode(sql_parser *p) {
  Spark__Connect__TrnProperty *mode = SQL_NEW(p, Spark__Connect__TrnProperty, spark__connect__trn_property);
  mode->key = SPARK_VIEW_MODE;
  if (sql__accept2(p, KW_TYPE, KW_EVOLUTION)) {
    mode->value = "TYPE EVOLUTION";
  } else if (sql__accept(p, KW_EVOLUTION)) {
    mode->value = "EVOLUTION";
  } else if (sql__accept(p, KW_BINDING)) {
    mode->value = "BINDING";
  } else {
    sql__expect(p, KW_COMPENSATION);
    mode->value = "COMPENSATION";
  }
  return mode;
}

/* COMMENT, TBLPROPERTIES, WITH SCHEMA between the name of a view and AS */
static void view_clauses(sql_parser *p, char **comment, sql_list *properties) {
  for (;;) {
    if (sql__accept(p, KW_COMMENT)) {
      *comment = sql__string_text(p);
    } else if (sql__accept(p, KW_TBLPROPERTIES)) {
      sql__properties(p, properties, false);
    } else if (sql__accept2(p, KW_WITH, KW_SCHEMA)) {
      sql__push(p, properties, sql__view_mode(p));
    } else if (sql__kind(p) == KW_DEFAULT || sql__kind(p) == KW_PARTITIONED) {
      sql__fail_unimplemented(p, p->at, "DEFAULT COLLATION and PARTITIONED ON of views");
    } else {
      return;
    }
  }
}

/* CREATE TEMPORARY VIEW v (columns) USING format OPTIONS (...): a read of the source */
static sql_relation *view_source(sql_parser *p, size_t start, char *schema) {
  sql_list properties = {0}, entries = {0};
  Spark__Connect__Read__DataSource *source =
      SQL_NEW(p, Spark__Connect__Read__DataSource, spark__connect__read__data_source);
  source->_format_case = SPARK__CONNECT__READ__DATA_SOURCE___FORMAT_FORMAT;
  source->format = sql__path_text(p);
  if (schema != NULL) {
    source->_schema_case = SPARK__CONNECT__READ__DATA_SOURCE___SCHEMA_SCHEMA;
    source->schema = schema;
  }
  if (sql__accept(p, KW_OPTIONS)) sql__properties(p, &properties, false);
  for (size_t i = 0; i < properties.count; i++) {
    Spark__Connect__Read__DataSource__OptionsEntry *entry =
        SQL_NEW(p, Spark__Connect__Read__DataSource__OptionsEntry, spark__connect__read__data_source__options_entry);
    entry->key = ((Spark__Connect__TrnProperty *)properties.items[i])->key;
    entry->value = ((Spark__Connect__TrnProperty *)properties.items[i])->value;
    sql__push(p, &entries, entry);
  }
  SQL_SET_LIST(entries, source, options);
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation->read = SQL_NEW(p, Spark__Connect__Read, spark__connect__read);
  relation->read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE;
  relation->read->data_source = source;
  return relation;
}

/* The query with its columns renamed: CREATE TEMPORARY VIEW v (a, b) AS query */
static sql_relation *renamed(sql_parser *p, sql_relation *query, const sql_list *columns, size_t start) {
  if (columns->count == 0) return query;
  sql_list names = {0};
  for (size_t i = 0; i < columns->count; i++)
    sql__push(p, &names, ((Spark__Connect__TrnColumn *)columns->items[i])->name);
  sql_relation *relation = sql__relation(p, start, sql__last(p));
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TO_DF;
  relation->to_df = SQL_NEW(p, Spark__Connect__ToDF, spark__connect__to_df);
  relation->to_df->input = query;
  SQL_SET_LIST(names, relation->to_df, column_names);
  return relation;
}

/* (a INT) of a view with USING, as text; NULL when the list has no types */
static char *typed_columns(sql_parser *p) {
  if (sql__kind(p) != SQL_LEFT_PAREN || sql__kind_at(p, sql__token(p)->match + 1) != KW_USING) return NULL;
  size_t first = p->at + 1;
  sql__advance(p);
  sql__schema(p);
  sql__expect(p, SQL_RIGHT_PAREN);
  return sql__text_between(p, first, sql__last(p) - 1);
}

static void create_temp_view(sql_parser *p, Spark__Connect__CreateDataFrameViewCommand *view) {
  sql_list columns = {0}, properties = {0};
  char *comment;
  size_t start = p->at;
  if (sql__if_not_exists(p)) sql__fail_unimplemented(p, start, "CREATE TEMPORARY VIEW IF NOT EXISTS");
  sql_list name = {0};
  sql__path(p, &name);
  if (name.count > 1) {
    sql_list qualifier = {.items = name.items, .count = name.count - 1};
    trn_kv params[] = {{"objectType", "VIEW"},
                       {"objectName", trn__arena_printf(p->arena, "`%s`", (char *)name.items[name.count - 1])},
                       {"qualifier", trn__arena_printf(p->arena, "`%s`", sql__join_path(p, &qualifier))}};
    sql__refuse(p, start, sql__last(p), "INVALID_TEMP_OBJ_QUALIFIER", "42602", params, 3);
  }
  view->name = sql__join_path(p, &name);
  char *schema = typed_columns(p);
  if (sql__accept(p, KW_USING)) {
    view->input = view_source(p, start, schema);
    return;
  }
  if (sql__kind(p) == SQL_LEFT_PAREN) view_columns(p, &columns);
  view_clauses(p, &comment, &properties);
  sql__expect(p, KW_AS);
  view->input = renamed(p, sql__query(p), &columns, start);
  for (size_t i = 0; i < properties.count; i++)
    if (strcmp(((Spark__Connect__TrnProperty *)properties.items[i])->key, SPARK_VIEW_MODE) == 0)
      sql__refuse(p, start, sql__last(p), "UNSUPPORTED_FEATURE.TEMPORARY_VIEW_WITH_SCHEMA_BINDING_MODE", "0A000", NULL, 0);
}

static void create_view(sql_parser *p, Spark__Connect__TrnCreateView *view) {
  sql_list columns = {0}, properties = {0};
  view->if_not_exists = sql__if_not_exists(p);
  view->name = sql__path_text(p);
  if (sql__kind(p) == SQL_LEFT_PAREN) view_columns(p, &columns);
  view_clauses(p, &view->comment, &properties);
  sql__expect(p, KW_AS);
  view->query = query_with_text(p, &view->query_text);
  SQL_SET_LIST(columns, view, columns);
  SQL_SET_LIST(properties, view, properties);
}

/* ---- which one ---- */

bool sql__create(sql_parser *p, Spark__Connect__Command *command) {
  size_t at = p->at;
  bool create = sql__accept(p, KW_CREATE);
  bool replace = create ? sql__accept2(p, KW_OR, KW_REPLACE) : sql__accept(p, KW_REPLACE);
  bool global = sql__accept(p, KW_GLOBAL), temporary = sql__accept(p, KW_TEMPORARY),
       external = sql__accept(p, KW_EXTERNAL);
  if (sql__accept(p, KW_TABLE) && !global && !temporary) {
    Spark__Connect__TrnCreateTable *table =
        SQL_NEW(p, Spark__Connect__TrnCreateTable, spark__connect__trn_create_table);
    table->create = create;
    table->replace = replace;
    table->external = external;
    command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_TABLE;
    command->trn_create_table = table;
    create_table(p, table);
    return true;
  }
  if (create && !external && sql__accept(p, KW_VIEW)) {
    if (temporary) {
      command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW;
      command->create_dataframe_view =
          SQL_NEW(p, Spark__Connect__CreateDataFrameViewCommand, spark__connect__create_data_frame_view_command);
      command->create_dataframe_view->is_global = global;
      command->create_dataframe_view->replace = replace;
      create_temp_view(p, command->create_dataframe_view);
      return true;
    }
    if (!global) {
      command->command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_VIEW;
      command->trn_create_view = SQL_NEW(p, Spark__Connect__TrnCreateView, spark__connect__trn_create_view);
      command->trn_create_view->replace = replace;
      create_view(p, command->trn_create_view);
      return true;
    }
  }
  if (create && !global && !external && sql__accept(p, KW_FUNCTION) &&
      sql__create_function(p, replace, temporary, command))
    return true;
  p->at = at;
  return false;
}
