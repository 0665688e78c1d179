/* Statements of Spark's dialect that are not queries, as trn_command: its own frontend's statements run within a session of
 * Spark Connect. Queries and types inside of them are handed to Spark's planner as text. The engine's dialect has a planner
 * for statements (command_of.c), which drops constraints: those are read here for both. */
#include <strings.h>

#include "frontend/flightsql/flightsql.h"
#include "plan/plan.h"

enum { PARSE_NAME_PARTS_MAX = 3 };

typedef struct parser {
  flightsql_session *session;
  trn_arena *arena;
  const flightsql_text *text;
  const char *const *literals;
  size_t at;
  flightsql_dialect dialect;
  flightsql_command *out;
  trn_error **error;
} parser;

/* ---- which statement ---- */

flightsql_kind flightsql__kind(const flightsql_text *text) {
  static const char *const ddl[] = {"create", "drop", "alter", "use", "set", "reset", "truncate", "analyze", "msck"};
  static const char *const dml[] = {"insert", "delete", "update", "copy", "merge", "replace"};
  for (size_t i = 0; i < sizeof ddl / sizeof *ddl; i++)
    if (flightsql__token_is(text, 0, ddl[i])) return FLIGHTSQL_DDL;
  for (size_t i = 0; i < sizeof dml / sizeof *dml; i++)
    if (flightsql__token_is(text, 0, dml[i])) return FLIGHTSQL_DML;
  return FLIGHTSQL_QUERY;
}

/* ---- tokens ---- */

static bool is(const parser *p, const char *word) { return flightsql__token_is(p->text, p->at, word); }

static bool take(parser *p, const char *word) {
  bool there = is(p, word);
  p->at += there;
  return there;
}

/* Two words in a row. */
static bool take2(parser *p, const char *first, const char *second) {
  bool there = is(p, first) && flightsql__token_is(p->text, p->at + 1, second);
  p->at += there ? 2 : 0;
  return there;
}

static bool take_if_exists(parser *p) { return take2(p, "if", "exists"); }

static bool take_if_not_exists(parser *p) {
  bool there = is(p, "if") && flightsql__token_is(p->text, p->at + 1, "not") &&
               flightsql__token_is(p->text, p->at + 2, "exists");
  p->at += there ? 3 : 0;
  return there;
}

static bool at_end(const parser *p) { return p->at >= p->text->count; }

static trn_status unexpected(parser *p, const char *wanted) {
  if (at_end(p))
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The statement ends where %s is expected", wanted);
  const flightsql_token *token = &p->text->tokens[p->at];
  return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "Syntax error at '%.*s' (byte %u): %s is expected",
                       (int)(token->size < 80 ? token->size : 80), p->text->data + token->start, token->start, wanted);
}

static trn_status expect(parser *p, const char *word) { return take(p, word) ? TRN_OK : unexpected(p, word); }

static trn_status expect_end(parser *p) { return at_end(p) ? TRN_OK : unexpected(p, "the end of the statement"); }

static bool is_name(const flightsql_text *text, size_t at) {
  return at < text->count && (text->tokens[at].kind == FLIGHTSQL_WORD || text->tokens[at].kind == FLIGHTSQL_QUOTED);
}

trn_status flightsql__parse_name(trn_arena *arena, const flightsql_text *text, size_t *at, const char ***parts,
                                 size_t *count, trn_error **error) {
  *parts = TRN_NEW_N(arena, const char *, PARSE_NAME_PARTS_MAX);
  *count = 0;
  if (!*parts) return trn__no_memory(error);
  for (;;) {
    if (!is_name(text, *at)) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A name is expected%s", *count ? " behind '.'" : "");
    if (*count == PARSE_NAME_PARTS_MAX)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A name has at most %d parts", PARSE_NAME_PARTS_MAX);
    (*parts)[*count] = flightsql__token_name(arena, text, (*at)++);
    if (!(*parts)[(*count)++]) return trn__no_memory(error);
    if (!flightsql__token_is(text, *at, ".")) return TRN_OK;
    (*at)++;
  }
}

static trn_status name(parser *p) {
  trn_command *command = &p->out->command;
  return flightsql__parse_name(p->arena, p->text, &p->at, (const char ***)&command->name, &command->name_count, p->error);
}

/* Behind the bracket that closes the one at p->at; 0: it does not. */
static size_t closing(const flightsql_text *text, size_t at) {
  size_t depth = 0;
  for (; at < text->count; at++) {
    if (flightsql__token_is(text, at, "(")) depth++;
    if (flightsql__token_is(text, at, ")") && --depth == 0) return at + 1;
  }
  return 0;
}

/* "(a, b)" as names. */
static trn_status name_list(parser *p, const char *const **out, size_t *count) {
  size_t end = closing(p->text, p->at);
  if (!is(p, "(") || !end) return unexpected(p, "a list of names in brackets");
  const char **names = TRN_NEW_N(p->arena, const char *, end - p->at);
  if (!names) return trn__no_memory(p->error);
  *count = 0;
  for (p->at++; p->at < end - 1;) {
    if (!is_name(p->text, p->at)) return unexpected(p, "a name");
    names[*count] = flightsql__token_name(p->arena, p->text, p->at++);
    if (!names[(*count)++]) return trn__no_memory(p->error);
    if (p->at < end - 1 && !take(p, ",")) return unexpected(p, "','");
  }
  p->at = end;
  *out = names;
  return TRN_OK;
}

static char *quoted(parser *p, const char *text) {
  trn_strbuf out = {0};
  char quote = p->dialect == FLIGHTSQL_SPARK ? '`' : '"';
  trn__strbuf_putc(&out, quote);
  for (; *text; text++) {
    if (*text == quote) trn__strbuf_putc(&out, quote);
    trn__strbuf_putc(&out, *text);
  }
  trn__strbuf_putc(&out, quote);
  char *copy = out.failed ? NULL : trn__arena_str(p->arena, out.data, out.size);
  trn__strbuf_finish(&out);
  return copy;
}

static char *slice(parser *p, size_t from, size_t to) {
  return flightsql__text_slice(p->arena, p->text, from, to, p->literals);
}

static trn_status plan_text(parser *p, const char *sql, trn_plan **out) {
  return sql ? flightsql__plan_in(p->session, p->dialect, sql, out, p->error) : trn__no_memory(p->error);
}

/* The rest of the statement as a query. */
static trn_status rest_as_plan(parser *p) {
  if (at_end(p)) return unexpected(p, "a query");
  trn_status status = plan_text(p, slice(p, p->at, p->text->count), &p->out->plan);
  p->out->command.plan = p->out->plan;
  p->at = p->text->count;
  return status;
}

/* ---- columns of CREATE TABLE ---- */

static bool ends_type(const flightsql_text *text, size_t at) {
  static const char *const words[] = {"not", "null", "primary", "unique", "default", "comment", "references",
                                      "check", "constraint", "generated", "collate", ","};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (flightsql__token_is(text, at, words[i])) return true;
  return false;
}

typedef struct column {
  const char *name, *type;
  bool not_null;
} column;

typedef struct table_parts {
  column *columns;
  size_t count;
  trn_constraint *constraints;
  size_t constraint_count;
} table_parts;

static trn_status add_constraint(parser *p, table_parts *parts, trn_constraint_kind kind, const char *const *columns,
                                 size_t count) {
  parts->constraints[parts->constraint_count++] = (trn_constraint){.kind = kind, .columns = columns, .column_count = count};
  return columns ? TRN_OK : trn__no_memory(p->error);
}

/* [CONSTRAINT name] PRIMARY KEY (..) | UNIQUE (..) | FOREIGN KEY (..) REFERENCES t (..). *is_one false: it is a column. */
static trn_status table_constraint(parser *p, table_parts *parts, bool *is_one) {
  const char *constraint_name = NULL;
  *is_one = true;
  if (is(p, "constraint") && is_name(p->text, p->at + 1)) {
    constraint_name = flightsql__token_name(p->arena, p->text, p->at + 1);
    p->at += 2;
  }
  bool foreign = false;
  trn_constraint_kind kind = TRN_CONSTRAINT_PRIMARY_KEY;
  if (take2(p, "foreign", "key")) {
    foreign = true;
    kind = TRN_CONSTRAINT_FOREIGN_KEY;
  } else if (is(p, "unique") && flightsql__token_is(p->text, p->at + 1, "(")) {
    p->at++;
    kind = TRN_CONSTRAINT_UNIQUE;
  } else if (!take2(p, "primary", "key")) {
    *is_one = false;
    return constraint_name ? unexpected(p, "PRIMARY KEY, UNIQUE or FOREIGN KEY") : TRN_OK;
  }
  const char *const *columns = NULL, **parts_of_name;
  size_t count = 0, name_count;
  trn_status status = name_list(p, &columns, &count);
  if (!status) status = add_constraint(p, parts, kind, columns, count);
  if (status) return status;
  trn_constraint *constraint = &parts->constraints[parts->constraint_count - 1];
  constraint->name = constraint_name;
  if (!foreign) return TRN_OK;
  status = expect(p, "references");
  if (!status) status = flightsql__parse_name(p->arena, p->text, &p->at, &parts_of_name, &name_count, p->error);
  if (!status) {
    constraint->target_table = parts_of_name[name_count - 1];
    constraint->target_database = name_count > 1 ? parts_of_name[name_count - 2] : NULL;
    status = name_list(p, &constraint->target_columns, &name_count);
  }
  if (!status && name_count != count)
    status = trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "A foreign key refers to as many columns as it has");
  return status;
}

static trn_status table_column(parser *p, table_parts *parts, size_t end) {
  column *c = &parts->columns[parts->count];
  if (!is_name(p->text, p->at)) return unexpected(p, "a column's name");
  c->name = flightsql__token_name(p->arena, p->text, p->at++);
  size_t start = p->at;
  while (p->at < end && !ends_type(p->text, p->at)) {
    size_t behind = is(p, "(") ? closing(p->text, p->at) : p->at + 1;
    if (!behind) return unexpected(p, "')'");
    p->at = behind;
  }
  if (p->at == start) return unexpected(p, "a type");
  c->type = slice(p, start, p->at);
  if (!c->name || !c->type) return trn__no_memory(p->error);
  parts->count++;
  while (p->at < end && !is(p, ",")) {
    if (take2(p, "not", "null")) {
      c->not_null = true;
    } else if (take2(p, "primary", "key") || is(p, "unique")) {
      bool unique = take(p, "unique");
      const char **columns = TRN_NEW(p->arena, const char *);
      if (columns) *columns = c->name;
      trn_status status =
          add_constraint(p, parts, unique ? TRN_CONSTRAINT_UNIQUE : TRN_CONSTRAINT_PRIMARY_KEY, columns, 1);
      if (status) return status;
    } else if (!take(p, "null")) {
      return trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL, "Of a column's definition, '%.40s' is not supported",
                           slice(p, p->at, p->at + 1));
    }
  }
  return TRN_OK;
}

/* A column whose type is not looked at: what keys it says. */
static trn_status column_keys(parser *p, table_parts *parts, size_t end) {
  if (!is_name(p->text, p->at)) return unexpected(p, "a column's name");
  const char *column_name = flightsql__token_name(p->arena, p->text, p->at++);
  if (!column_name) return trn__no_memory(p->error);
  while (p->at < end && !is(p, ",")) {
    bool primary = take2(p, "primary", "key");
    if (primary || take(p, "unique")) {
      const char **columns = TRN_NEW(p->arena, const char *);
      if (columns) *columns = column_name;
      trn_status status =
          add_constraint(p, parts, primary ? TRN_CONSTRAINT_PRIMARY_KEY : TRN_CONSTRAINT_UNIQUE, columns, 1);
      if (status) return status;
      continue;
    }
    size_t behind = is(p, "(") ? closing(p->text, p->at) : p->at + 1;
    if (!behind) return unexpected(p, "')'");
    p->at = behind;
  }
  return TRN_OK;
}

trn_status flightsql__parse_constraints(trn_arena *arena, const flightsql_text *text, trn_constraint **out, size_t *count,
                                        trn_error **error) {
  parser p = {.arena = arena, .text = text, .error = error};
  while (p.at < text->count && !is(&p, "(")) p.at++;
  size_t end = closing(text, p.at);
  *out = NULL;
  *count = 0;
  if (!end) return unexpected(&p, "')'");
  table_parts parts = {.constraints = TRN_NEW_N(arena, trn_constraint, end - p.at)};
  if (!parts.constraints) return trn__no_memory(error);
  trn_status status = TRN_OK;
  for (p.at++; p.at < end - 1 && !status;) {
    bool is_constraint;
    status = table_constraint(&p, &parts, &is_constraint);
    if (!status && !is_constraint) status = column_keys(&p, &parts, end - 1);
    while (!status && p.at < end - 1 && !is(&p, ",")) p.at++; /* ON DELETE and the like */
    p.at++;
  }
  *out = parts.constraints;
  *count = parts.constraint_count;
  return status;
}

/* The schema: types are what the dialect's CAST makes of them. */
static trn_status columns_schema(parser *p, const table_parts *parts) {
  trn_strbuf sql = {0};
  trn_plan *plan = NULL;
  for (size_t i = 0; i < parts->count; i++) {
    const char *name_text = quoted(p, parts->columns[i].name);
    trn__strbuf_printf(&sql, "%s CAST(NULL AS %s) AS %s", i ? "," : "SELECT", parts->columns[i].type,
                       name_text ? name_text : "");
  }
  trn_status status = sql.failed ? trn__no_memory(p->error) : plan_text(p, sql.data, &plan);
  trn__strbuf_finish(&sql);
  if (!status && trn_plan_schema(plan, &p->out->schema)) status = trn__no_memory(p->error);
  if (!status && (size_t)p->out->schema.n_children != parts->count)
    status = trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "A column's type is not one type");
  for (size_t i = 0; !status && i < parts->count; i++) {
    struct ArrowSchema *child = p->out->schema.children[i];
    child->flags = parts->columns[i].not_null ? child->flags & ~(int64_t)ARROW_FLAG_NULLABLE
                                              : child->flags | ARROW_FLAG_NULLABLE;
    if (child->format[0] == 'n')
      status = trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The column %s has no type", parts->columns[i].name);
  }
  trn_plan_unref(plan);
  return status;
}

static trn_status table_columns(parser *p) {
  size_t end = closing(p->text, p->at);
  if (!end) return unexpected(p, "')'");
  table_parts parts = {.columns = TRN_NEW_N(p->arena, column, end - p->at),
                       .constraints = TRN_NEW_N(p->arena, trn_constraint, end - p->at)};
  if (!parts.columns || !parts.constraints) return trn__no_memory(p->error);
  trn_status status = TRN_OK;
  for (p->at++; p->at < end - 1 && !status;) {
    bool is_constraint;
    status = table_constraint(p, &parts, &is_constraint);
    if (!status && !is_constraint) status = table_column(p, &parts, end - 1);
    if (!status && p->at < end - 1) status = expect(p, ",");
  }
  if (status) return status;
  p->at = end;
  if (!parts.count) return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "A table without columns");
  p->out->table.constraints = parts.constraints;
  p->out->table.constraint_count = parts.constraint_count;
  return columns_schema(p, &parts);
}

/* ---- CREATE TABLE ---- */

static trn_status text_value(parser *p, const char **out) {
  if (at_end(p) || p->text->tokens[p->at].kind != FLIGHTSQL_STRING) return unexpected(p, "a text in quotes");
  *out = flightsql__token_name(p->arena, p->text, p->at++);
  return *out ? TRN_OK : trn__no_memory(p->error);
}

/* OPTIONS ('key' 'value', key = value): keys are as written, or as names joined by dots. */
static trn_status option_list(parser *p, const trn_kv **out, size_t *count) {
  size_t end = closing(p->text, p->at);
  if (!is(p, "(") || !end) return unexpected(p, "options in brackets");
  trn_kv *items = TRN_NEW_N(p->arena, trn_kv, end - p->at);
  if (!items) return trn__no_memory(p->error);
  *count = 0;
  for (p->at++; p->at < end - 1;) {
    trn_strbuf key = {0};
    for (; p->at < end - 1 && !is(p, "=") && !is(p, ","); p->at++) {
      bool is_value = key.size && p->text->tokens[p->at].kind != FLIGHTSQL_SYMBOL && !flightsql__token_is(p->text, p->at - 1, ".");
      if (is_value) break;
      char *part = flightsql__token_name(p->arena, p->text, p->at);
      trn__strbuf_puts(&key, part ? part : "");
    }
    items[*count].key = key.data ? trn__arena_str(p->arena, key.data, key.size) : NULL;
    trn__strbuf_finish(&key);
    take(p, "=");
    if (p->at >= end - 1 || !items[*count].key) return unexpected(p, "a value");
    items[*count].value = flightsql__token_name(p->arena, p->text, p->at++);
    if (!items[(*count)++].value) return trn__no_memory(p->error);
    if (p->at < end - 1 && !take(p, ",")) return unexpected(p, "','");
  }
  p->at = end;
  *out = items;
  return TRN_OK;
}

static trn_status table_clause(parser *p, bool *found) {
  trn_table_info *table = &p->out->table;
  *found = true;
  if (take2(p, "stored", "as") || take(p, "using")) {
    if (!is_name(p->text, p->at)) return unexpected(p, "a format");
    table->format = flightsql__token_name(p->arena, p->text, p->at++);
    return table->format ? TRN_OK : trn__no_memory(p->error);
  }
  if (take(p, "location")) return text_value(p, &table->location);
  if (take(p, "comment")) return text_value(p, &table->comment);
  if (take2(p, "partitioned", "by")) return name_list(p, &table->partition_columns, &table->partition_column_count);
  if (take(p, "options")) return option_list(p, &table->options, &table->option_count);
  if (take(p, "tblproperties")) return option_list(p, &table->properties, &table->property_count);
  *found = false;
  return TRN_OK;
}

/* The schema of files that are there. */
static trn_status infer_schema(parser *p) {
  trn_table_info *table = &p->out->table;
  const trn_source_request request = {.struct_size = sizeof request,
                                      .format = table->format,
                                      .paths = &table->location,
                                      .path_count = 1,
                                      .options = table->options,
                                      .option_count = table->option_count};
  trn_source *source = NULL;
  trn_status status = trn_backend_open_source(p->session->session, &request, &source, &p->out->schema, p->error);
  if (source) trn_backend_source_unref(trn_session_backend(p->session->session), source);
  return status;
}

static trn_status create_table(parser *p, bool is_external) {
  trn_command *command = &p->out->command;
  trn_table_info *table = &p->out->table;
  command->kind = TRN_COMMAND_CREATE_TABLE;
  command->if_not_exists = take_if_not_exists(p);
  trn_status status = name(p);
  bool has_columns = !status && is(p, "(") && !flightsql__token_is(p->text, p->at + 1, "select");
  if (has_columns) status = table_columns(p);
  for (bool found = true; !status && found;) status = table_clause(p, &found);
  if (!status && (take(p, "as") || is(p, "select") || is(p, "with") || is(p, "("))) {
    if (has_columns)
      return trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL, "CREATE TABLE has columns or a query, not both");
    status = rest_as_plan(p);
    if (!status && trn_plan_schema(p->out->plan, &p->out->schema)) status = trn__no_memory(p->error);
  }
  if (!status) status = expect_end(p);
  if (status) return status;
  if (!table->format) table->format = "parquet";
  table->kind = table->location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  if (is_external && !table->location)
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "An external table has a LOCATION");
  if (!p->out->schema.release) {
    if (!table->location)
      return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "CREATE TABLE has no columns");
    status = infer_schema(p);
  }
  return status;
}

static trn_status create_view(parser *p) {
  trn_command *command = &p->out->command;
  trn_table_info *table = &p->out->table;
  command->kind = TRN_COMMAND_CREATE_VIEW;
  command->if_not_exists = take_if_not_exists(p);
  trn_status status = name(p);
  if (!status && is(p, "(")) status = name_list(p, &table->view_columns, &table->view_column_count);
  if (!status && take(p, "comment")) status = text_value(p, &table->comment);
  if (!status) status = expect(p, "as");
  if (status) return status;
  table->view_text = slice(p, p->at, p->text->count);
  table->view_dialect = p->dialect == FLIGHTSQL_SPARK ? "spark.sql" : "sql";
  table->kind = TRN_TABLE_VIEW;
  status = rest_as_plan(p);
  if (!status && trn_plan_schema(p->out->plan, &p->out->schema)) status = trn__no_memory(p->error);
  command->plan = NULL; /* its columns were wanted */
  return status;
}

static trn_status create_database(parser *p) {
  trn_command *command = &p->out->command;
  command->kind = TRN_COMMAND_CREATE_DATABASE;
  command->if_not_exists = take_if_not_exists(p);
  trn_status status = name(p);
  if (!status && take(p, "comment")) status = text_value(p, &p->out->database.comment);
  if (!status && take(p, "location")) status = text_value(p, &p->out->database.location);
  if (!status) p->out->database.name = command->name[command->name_count - 1];
  command->database = &p->out->database;
  return status ? status : expect_end(p);
}

static trn_status create(parser *p) {
  p->out->command.or_replace = take2(p, "or", "replace");
  bool is_temporary = take(p, "temporary") || take(p, "temp");
  bool is_external = take(p, "external");
  take(p, "unbounded");
  if (is_temporary)
    return trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL,
                         "CREATE TEMPORARY is not supported; an ingestion can make a temporary table");
  if (take(p, "table")) return create_table(p, is_external);
  if (take(p, "view")) return create_view(p);
  if (take(p, "schema") || take(p, "database")) return create_database(p);
  return unexpected(p, "TABLE, VIEW or SCHEMA");
}

/* ---- the other DDL ---- */

static trn_status drop(parser *p) {
  trn_command *command = &p->out->command;
  bool is_view = false, is_database = false;
  if (take(p, "view")) is_view = true;
  else if (take(p, "schema") || take(p, "database")) is_database = true;
  else if (!take(p, "table")) return unexpected(p, "TABLE, VIEW or SCHEMA");
  command->kind = is_view ? TRN_COMMAND_DROP_VIEW : is_database ? TRN_COMMAND_DROP_DATABASE : TRN_COMMAND_DROP_TABLE;
  command->if_exists = take_if_exists(p);
  trn_status status = name(p);
  command->cascade = take(p, "cascade");
  take(p, "restrict");
  command->purge = take(p, "purge");
  return status ? status : expect_end(p);
}

static trn_status alter(parser *p) {
  trn_command *command = &p->out->command;
  if (!take(p, "table") && !take(p, "view")) return unexpected(p, "TABLE");
  trn_status status = name(p);
  if (!status && !take2(p, "rename", "to"))
    status = trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL, "Of ALTER TABLE, RENAME TO is supported");
  command->kind = TRN_COMMAND_RENAME_TABLE;
  if (!status)
    status = flightsql__parse_name(p->arena, p->text, &p->at, (const char ***)&command->to, &command->to_count, p->error);
  return status ? status : expect_end(p);
}

/* SET key = value, SET key TO value, RESET key. */
static trn_status set(parser *p, bool is_reset) {
  trn_command *command = &p->out->command;
  size_t start = p->at;
  command->kind = TRN_COMMAND_SET;
  while (!at_end(p) && !is(p, "=") && !is(p, "to")) p->at++;
  const char **key = TRN_NEW(p->arena, const char *);
  if (!key || !(*key = slice(p, start, p->at))) return trn__no_memory(p->error);
  if (start == p->at) return unexpected(p, "a setting's name");
  command->columns = key;
  command->column_count = 1;
  if (is_reset) return expect_end(p);
  if (!take(p, "=") && !take(p, "to")) return unexpected(p, "'='");
  if (at_end(p)) return unexpected(p, "a value");
  command->comment = p->at + 1 == p->text->count ? flightsql__token_name(p->arena, p->text, p->at)
                                                 : slice(p, p->at, p->text->count);
  return command->comment ? TRN_OK : trn__no_memory(p->error);
}

static trn_status use(parser *p) {
  p->out->command.kind = TRN_COMMAND_USE;
  p->out->command.is_catalog = take(p, "catalog");
  if (!take(p, "schema")) take(p, "database");
  trn_status status = name(p);
  return status ? status : expect_end(p);
}

static trn_status truncate_table(parser *p) {
  p->out->command.kind = TRN_COMMAND_TRUNCATE_TABLE;
  take(p, "table");
  trn_status status = name(p);
  return status ? status : expect_end(p);
}

/* ---- DML ---- */

static trn_status insert(parser *p) {
  trn_command *command = &p->out->command;
  command->kind = TRN_COMMAND_INSERT;
  command->mode = take(p, "overwrite") ? TRN_WRITE_OVERWRITE : TRN_WRITE_APPEND;
  if (command->mode == TRN_WRITE_APPEND && !take(p, "into")) return unexpected(p, "INTO");
  if (command->mode == TRN_WRITE_OVERWRITE) take(p, "into");
  take(p, "table");
  trn_status status = name(p);
  if (!status && is(p, "(") && !flightsql__token_is(p->text, p->at + 1, "select") &&
      !flightsql__token_is(p->text, p->at + 1, "values") && !flightsql__token_is(p->text, p->at + 1, "with"))
    status = name_list(p, &command->columns, &command->column_count);
  return status ? status : rest_as_plan(p);
}

static trn_status delete_from(parser *p) {
  p->out->command.kind = TRN_COMMAND_DELETE;
  trn_status status = expect(p, "from");
  size_t start = p->at;
  if (!status) status = name(p);
  if (status) return status;
  char *table = slice(p, start, p->at), *sql = NULL;
  if (at_end(p)) {
    sql = table ? trn__arena_printf(p->arena, "SELECT * FROM %s WHERE 1 = 0", table) : NULL;
  } else {
    status = expect(p, "where");
    char *condition = status ? NULL : slice(p, p->at, p->text->count);
    /* The rows that stay: those of which the condition is not true. */
    if (condition && table)
      sql = trn__arena_printf(p->arena, "SELECT * FROM %s WHERE (%s) IS NOT TRUE", table, condition);
  }
  if (!status) status = plan_text(p, sql, &p->out->plan);
  p->out->command.plan = p->out->plan;
  return status;
}

/* "a = expression" items up to WHERE: where each begins and ends. */
typedef struct assignment {
  const char *name;
  const char *value;
} assignment;

static trn_status assignments(parser *p, assignment **out, size_t *count) {
  assignment *items = TRN_NEW_N(p->arena, assignment, p->text->count);
  if (!items) return trn__no_memory(p->error);
  *count = 0;
  for (;;) {
    if (!is_name(p->text, p->at)) return unexpected(p, "a column's name");
    items[*count].name = flightsql__token_name(p->arena, p->text, p->at++);
    trn_status status = expect(p, "=");
    if (status) return status;
    size_t start = p->at;
    while (!at_end(p) && !is(p, ",") && !is(p, "where")) {
      size_t behind = is(p, "(") ? closing(p->text, p->at) : p->at + 1;
      if (!behind) return unexpected(p, "')'");
      p->at = behind;
    }
    if (p->at == start) return unexpected(p, "a value");
    items[*count].value = slice(p, start, p->at);
    if (!items[*count].name || !items[*count].value) return trn__no_memory(p->error);
    (*count)++;
    if (!take(p, ",")) break;
  }
  *out = items;
  return TRN_OK;
}

static trn_status update_select(parser *p, const char *table, const assignment *items, size_t count,
                                const char *condition, trn_strbuf *sql) {
  trn_plan *plan = NULL;
  char *all = trn__arena_printf(p->arena, "SELECT * FROM %s", table);
  trn_status status = plan_text(p, all, &plan);
  size_t used = 0;
  for (uint32_t i = 0; !status && i < plan->field_count; i++) {
    const assignment *found = NULL;
    for (size_t j = 0; j < count && !found; j++)
      if (strcasecmp(items[j].name, plan->fields[i].name) == 0) found = &items[j];
    const char *column_name = quoted(p, plan->fields[i].name);
    if (!column_name) status = trn__no_memory(p->error);
    trn__strbuf_puts(sql, i ? ", " : "SELECT ");
    if (found && condition)
      trn__strbuf_printf(sql, "CASE WHEN %s THEN %s ELSE %s END AS %s", condition, found->value,
                         column_name ? column_name : "", column_name ? column_name : "");
    else if (found)
      trn__strbuf_printf(sql, "%s AS %s", found->value, column_name ? column_name : "");
    else
      trn__strbuf_puts(sql, column_name ? column_name : "");
    used += found != NULL;
  }
  if (!status && used != count)
    status = trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "UPDATE names a column that the table has not");
  trn__strbuf_printf(sql, " FROM %s", table);
  trn_plan_unref(plan);
  return status;
}

static trn_status update(parser *p) {
  assignment *items = NULL;
  size_t count = 0, start = p->at;
  trn_strbuf sql = {0};
  p->out->command.kind = TRN_COMMAND_UPDATE;
  trn_status status = name(p);
  char *table = status ? NULL : slice(p, start, p->at), *condition = NULL;
  if (!status && !table) status = trn__no_memory(p->error);
  if (!status) status = expect(p, "set");
  if (!status) status = assignments(p, &items, &count);
  if (!status && take(p, "where")) {
    condition = slice(p, p->at, p->text->count);
    p->at = p->text->count;
    if (!condition) status = trn__no_memory(p->error);
  }
  if (!status) status = expect_end(p);
  if (!status) status = update_select(p, table, items, count, condition, &sql);
  if (!status) status = sql.failed ? trn__no_memory(p->error) : plan_text(p, sql.data, &p->out->plan);
  p->out->command.plan = p->out->plan;
  trn__strbuf_finish(&sql);
  return status;
}

/* COPY (query) | table TO 'path' [STORED AS format] [PARTITIONED BY ..] [OPTIONS (..)]. */
static trn_status copy(parser *p) {
  trn_command *command = &p->out->command;
  command->kind = TRN_COMMAND_COPY;
  char *sql;
  if (is(p, "(")) {
    size_t end = closing(p->text, p->at);
    if (!end) return unexpected(p, "')'");
    sql = slice(p, p->at + 1, end - 1);
    p->at = end;
  } else {
    size_t start = p->at;
    trn_status status = name(p);
    if (status) return status;
    char *table = slice(p, start, p->at);
    sql = table ? trn__arena_printf(p->arena, "SELECT * FROM %s", table) : NULL;
    command->name = NULL;
    command->name_count = 0;
  }
  trn_status status = plan_text(p, sql, &p->out->plan);
  command->plan = p->out->plan;
  if (!status) status = expect(p, "to");
  if (!status) status = text_value(p, &command->location);
  for (bool found = true; !status && found;) status = table_clause(p, &found);
  if (status) return status;
  const char *dot = strrchr(command->location, '.');
  command->format = p->out->table.format ? p->out->table.format : dot && !strchr(dot, '/') ? dot + 1 : "parquet";
  command->options = p->out->table.options;
  command->option_count = p->out->table.option_count;
  return expect_end(p);
}

/* ---- the way in ---- */

trn_status flightsql__parse(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                            const char *const *literals, flightsql_command *out, trn_error **error) {
  static const struct {
    const char *word;
    trn_status (*run)(parser *p);
  } statements[] = {{"create", create}, {"drop", drop},     {"alter", alter},       {"use", use},      {"insert", insert},
                    {"delete", delete_from}, {"update", update}, {"truncate", truncate_table}, {"copy", copy}};
  *out = (flightsql_command){.command = {.struct_size = sizeof(trn_command)},
                             .table = {.struct_size = sizeof(trn_table_info), .row_count = -1, .byte_count = -1},
                             .database = {.struct_size = sizeof(trn_database_info)}};
  pthread_mutex_lock(&session->mutex);
  flightsql_dialect dialect = session->dialect;
  pthread_mutex_unlock(&session->mutex);
  parser p = {session, arena, text, literals, 1, dialect, out, error};
  trn_status status = TRN_UNIMPLEMENTED;
  bool known = false;
  if (flightsql__token_is(text, 0, "set") || flightsql__token_is(text, 0, "reset")) {
    known = true;
    status = set(&p, flightsql__token_is(text, 0, "reset"));
  }
  for (size_t i = 0; i < sizeof statements / sizeof *statements && !known; i++) {
    if (!flightsql__token_is(text, 0, statements[i].word)) continue;
    known = true;
    status = statements[i].run(&p);
  }
  if (!known)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%.*s is not supported by this server",
                         (int)text->tokens[0].size, text->data + text->tokens[0].start);
  if (status) {
    flightsql__command_finish(out);
    return status;
  }
  out->table.schema = out->schema.release ? &out->schema : NULL;
  out->command.table = &out->table;
  return TRN_OK;
}

bool flightsql__insert_shape(const flightsql_text *text, size_t *name_end, size_t *columns_at, size_t *row_at,
                             size_t *row_end) {
  size_t at = 2;
  if (!flightsql__token_is(text, 0, "insert") || !flightsql__token_is(text, 1, "into")) return false;
  if (flightsql__token_is(text, at, "table")) at++;
  while (is_name(text, at) && flightsql__token_is(text, at + 1, ".")) at += 2;
  if (!is_name(text, at++)) return false;
  *name_end = at;
  *columns_at = 0;
  if (flightsql__token_is(text, at, "(")) {
    *columns_at = at;
    at = closing(text, at);
    if (!at) return false;
  }
  if (!flightsql__token_is(text, at, "values") || !flightsql__token_is(text, at + 1, "(")) return false;
  *row_at = at + 1;
  *row_end = closing(text, at + 1);
  return *row_end == text->count;
}
