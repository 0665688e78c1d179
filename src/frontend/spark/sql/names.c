/* Identifiers, paths, aliases. */
#include "frontend/spark/sql/parser.h"
#include <stdlib.h>

bool sql__is_identifier(const sql_parser *p, size_t index) {
  sql_kind kind = sql__kind_at(p, index);
  return kind == SQL_IDENTIFIER || kind == SQL_BACKQUOTED ||
         (kind == SQL_DOUBLE_QUOTED && p->options.double_quoted_identifiers) || sql__is_keyword(kind);
}

bool sql__is_strict_identifier(const sql_parser *p, size_t index) {
  return sql__is_identifier(p, index) && !sql__is_strict_non_reserved(sql__kind_at(p, index));
}

static bool is_plain_word(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return size > 0;
}

_Noreturn static void fail_identifier(sql_parser *p, size_t first, size_t last, const char *text) {
  trn_kv param = {"ident", text};
  sql__fail(p, first, last, "INVALID_IDENTIFIER", "42602", &param, 1);
}

/* Takes the quotes off and halves doubled ones. */
static char *unquote(sql_parser *p, const char *text, size_t size) {
  char quote = text[0];
  char *value = sql__alloc(p, size);
  size_t n = 0;
  for (size_t i = 1; i + 1 < size; i++) {
    value[n++] = text[i];
    if (text[i] == quote) i++;
  }
  return value;
}

char *sql__join_texts(sql_parser *p, const sql_list *parts, const char *quote, const char *separator) {
  size_t size = 1;
  for (size_t i = 0; i < parts->count; i++) size += strlen(parts->items[i]) + 2 * strlen(quote) + strlen(separator);
  char *text = sql__alloc(p, size), *out = text;
  for (size_t i = 0; i < parts->count; i++) {
    if (i > 0) out = stpcpy(out, separator);
    out = stpcpy(stpcpy(stpcpy(out, quote), parts->items[i]), quote);
  }
  return text;
}

static bool at_identifier_clause(const sql_parser *p) {
  return sql__kind(p) == KW_IDENTIFIER_KW && sql__ahead(p, 1) == SQL_LEFT_PAREN;
}

/* Fails with what went wrong inside the text of the clause, at the place of the clause. */
_Noreturn static void fail_inside(sql_parser *p, size_t start, trn_error *error) {
  const trn_error_param *params;
  trn_kv copies[4] = {{0}};
  size_t count = trn_error_params(error, &params);
  if (count > 4) count = 4;
  const char *condition = trn_error_condition(error), *sqlstate = trn_error_sqlstate(error);
  char *condition_copy = trn__arena_strdup(p->arena, condition != NULL ? condition : "PARSE_SYNTAX_ERROR");
  char *sqlstate_copy = trn__arena_strdup(p->arena, sqlstate != NULL ? sqlstate : "42601");
  for (size_t i = 0; i < count; i++) {
    copies[i].key = trn__arena_strdup(p->arena, params[i].key);
    copies[i].value = trn__arena_strdup(p->arena, params[i].value);
    if (copies[i].key == NULL || copies[i].value == NULL) count = i;
  }
  trn_error_unref(error);
  if (condition_copy == NULL || sqlstate_copy == NULL) sql__fail_memory(p);
  sql__fail(p, start, sql__last(p), condition_copy, sqlstate_copy, copies, count);
}

/* The text of a constant: a string, a parameter or a variable that is one, strings joined by ||. NULL: something else. */
static const char *constant_text(sql_parser *p, const sql_expr *expr) {
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL) {
    bool string = expr->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_STRING;
    return string ? expr->literal->string : NULL;
  }
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_PARAMETER) {
    for (size_t i = 0; i < p->options.text_parameter_count; i++) {
      if (strcmp(p->options.text_parameters[i].key, expr->trn_parameter) == 0)
        return p->options.text_parameters[i].value;
    }
    return NULL;
  }
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE && p->options.text_variable) {
    const char *other;
    return p->options.text_variable(p->options.user, expr->unresolved_attribute->unparsed_identifier, &other);
  }
  if (expr->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION) return NULL;
  const Spark__Connect__Expression__UnresolvedFunction *function = expr->unresolved_function;
  if (strcmp(function->function_name, "concat") != 0 || function->n_arguments != 2) return NULL;
  const char *right = constant_text(p, function->arguments[1]), *left = NULL;
  if (right != NULL) {
    sql__enter(p, SQL_DEPTH_EXPRESSION); /* chains lean to the left */
    left = constant_text(p, function->arguments[0]);
    sql__leave(p, SQL_DEPTH_EXPRESSION);
  }
  if (left == NULL) return NULL;
  char *text = trn__arena_printf(p->arena, "%s%s", left, right);
  if (text == NULL) sql__fail_memory(p);
  return text;
}

/* What a constant is that is no text: "NULL", or the name of its type; NULL: nothing that is known here. */
static const char *other_constant(const sql_parser *p, const sql_expr *expr) {
  const char *other = NULL;
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_CAST && expr->cast->expr) {
    const sql_expr *inner = expr->cast->expr;
    bool null = inner->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL &&
                inner->literal->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL;
    return null ? "NULL" : NULL;
  }
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE && p->options.text_variable)
    p->options.text_variable(p->options.user, expr->unresolved_attribute->unparsed_identifier, &other);
  if (expr->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL) return other;
  switch ((int)expr->literal->literal_type_case) {
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL: return "NULL";
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER: return "int";
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_LONG: return "bigint";
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_BOOLEAN: return "boolean";
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DOUBLE: return "double";
  case SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DATE: return "date";
  default: return NULL;
  }
}

_Noreturn static void fail_constant(sql_parser *p, size_t start, const sql_expr *expr) {
  size_t first = start + 2, last = sql__last(p) - 1;
  const char *other = other_constant(p, expr);
  trn_kv params[] = {{"name", "IDENTIFIER"}, {"expr", sql__text_between(p, first, last)}, {"dataType", other}};
  if (other && strcmp(other, "NULL") == 0) sql__fail(p, first, last, "NOT_A_CONSTANT_STRING.NULL", "42601", params, 2);
  if (other) sql__fail(p, first, last, "NOT_A_CONSTANT_STRING.WRONG_TYPE", "42601", params, 3);
  if (expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_SUBQUERY_EXPRESSION ||
      expr->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_SUBQUERY) {
    params[1].value = "scalarsubquery()";
    sql__fail(p, first, last, "NOT_A_CONSTANT_STRING.NOT_CONSTANT", "42601", params, 2);
  }
  sql__fail_unimplemented(p, start, "IDENTIFIER(expression)");
}

/* IDENTIFIER('a.b') */
static void identifier_clause(sql_parser *p, sql_list *parts) {
  size_t start = p->at;
  p->at += 2;
  const sql_expr *expr = sql__expression(p);
  const char *text = constant_text(p, expr);
  sql__expect(p, SQL_RIGHT_PAREN);
  if (text == NULL && p->defers) {
    p->deferred = true;
    text = "deferred";
  }
  if (text == NULL) fail_constant(p, start, expr);
  char **items;
  size_t count;
  trn_error *error = NULL;
  sql__enter(p, SQL_DEPTH_QUERY); /* the text may hold another clause */
  trn_status status = sql__parse_nested_path(p, text, strlen(text), &items, &count, &error);
  sql__leave(p, SQL_DEPTH_QUERY);
  if (status == TRN_RESOURCE_EXHAUSTED) {
    p->status = status;
    p->error = error;
    longjmp(p->fail, 1);
  }
  if (status != TRN_OK) fail_inside(p, start, error);
  for (size_t i = 0; i < count; i++) sql__push(p, parts, items[i]);
}

void sql__path(sql_parser *p, sql_list *parts) {
  for (;;) {
    bool legacy = p->options.legacy_identifier_clause;
    if (at_identifier_clause(p) && (!legacy || parts->count == 0)) {
      identifier_clause(p, parts);
      if (legacy) return; /* then it is the whole path */
    } else {
      sql__push(p, parts, sql__error_capturing_identifier(p));
    }
    if (sql__kind(p) != SQL_DOT) return;
    sql__advance(p);
  }
}

/* IDENTIFIER('a') where one name must stand */
static char *clause_name(sql_parser *p) {
  size_t start = p->at;
  sql_list parts = {0};
  identifier_clause(p, &parts);
  if (parts.count == 1) return parts.items[0];
  trn_kv params[] = {{"identifier", sql__join_texts(p, &parts, "`", ".")}, {"limit", "1"}};
  sql__fail(p, start, sql__last(p), "IDENTIFIER_TOO_MANY_NAME_PARTS", "42601", params, 2);
}

char *sql__identifier(sql_parser *p) {
  if (!sql__is_identifier(p, p->at)) sql__fail_syntax(p);
  if (!p->options.legacy_identifier_clause && at_identifier_clause(p) && sql__is_string(p, p->at + 2))
    return clause_name(p);
  const sql_token *token = sql__token(p);
  const char *text = p->text + token->start;
  char *value;
  if (token->kind == SQL_BACKQUOTED || token->kind == SQL_DOUBLE_QUOTED) {
    value = unquote(p, text, token->size);
  } else {
    if (!is_plain_word(text, token->size)) fail_identifier(p, p->at, p->at, sql__token_text(p, p->at));
    value = sql__copy(p, text, token->size);
  }
  sql__advance(p);
  return value;
}

char *sql__strict_identifier(sql_parser *p) {
  if (!sql__is_strict_identifier(p, p->at)) sql__fail_syntax(p);
  return sql__identifier(p);
}

char *sql__error_capturing_identifier(sql_parser *p) {
  size_t first = p->at;
  char *value = sql__identifier(p);
  if (sql__kind(p) != SQL_MINUS || !sql__is_identifier(p, p->at + 1)) return value;
  while (sql__kind(p) == SQL_MINUS && sql__is_identifier(p, p->at + 1)) p->at += 2;
  size_t last = sql__last(p);
  size_t start = p->tokens[first].start, stop = p->tokens[last].start + p->tokens[last].size;
  fail_identifier(p, first, last, sql__copy(p, p->text + start, stop - start));
}

char *spark__sql_quote_path(trn_arena *arena, char *const *parts, size_t count) {
  size_t size = 1;
  for (size_t i = 0; i < count; i++) size += 2 * strlen(parts[i]) + 3;
  char *text = trn__arena_alloc(arena, size), *out = text;
  if (text == NULL) return NULL;
  for (size_t i = 0; i < count; i++) {
    size_t n = strlen(parts[i]);
    if (i > 0) *out++ = '.';
    /* digits only would read as a number */
    if (is_plain_word(parts[i], n) && strspn(parts[i], "0123456789") < n) {
      memcpy(out, parts[i], n);
      out += n;
      continue;
    }
    *out++ = '`';
    for (size_t j = 0; j < n; j++) {
      if (parts[i][j] == '`') *out++ = '`';
      *out++ = parts[i][j];
    }
    *out++ = '`';
  }
  return text;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *sql__find_duplicate(sql_parser *p, const sql_list *names) {
  char **sorted = sql__alloc(p, names->count * sizeof(char *));
  for (size_t i = 0; i < names->count; i++) sorted[i] = sql__lower(p, names->items[i]);
  qsort(sorted, names->count, sizeof(char *), compare_names);
  for (size_t i = 1; i < names->count; i++) {
    if (strcmp(sorted[i - 1], sorted[i]) == 0) return sorted[i];
  }
  return NULL;
}

char *sql__join_path(sql_parser *p, const sql_list *parts) {
  char *text = spark__sql_quote_path(p->arena, (char *const *)parts->items, parts->count);
  if (text == NULL) sql__fail_memory(p);
  return text;
}

char *sql__path_text(sql_parser *p) {
  sql_list parts = {0};
  sql__path(p, &parts);
  return sql__join_path(p, &parts);
}

void sql__identifier_list(sql_parser *p, sql_list *names) {
  sql__expect(p, SQL_LEFT_PAREN);
  do {
    sql__push(p, names, sql__error_capturing_identifier(p));
  } while (sql__accept(p, SQL_COMMA));
  sql__expect(p, SQL_RIGHT_PAREN);
}

/* Keywords that go on with the query where an alias without AS could stand. */
static bool stops_alias(sql_kind kind, bool table) {
  switch ((int)kind) {
  case KW_AS:
  case KW_WHERE:
  case KW_HAVING:
  case KW_LIMIT:
  case KW_OFFSET:
  case KW_WINDOW:
  case KW_QUALIFY:
  case KW_LATERAL:
  case KW_UNION:
  case KW_INTERSECT:
  case KW_EXCEPT:
  case KW_SETMINUS:
  case KW_FOR: return true;
  case KW_SELECT:
  case KW_INSERT: return true;
  case KW_FROM: return !table;
  case KW_PIVOT:
  case KW_UNPIVOT:
  case KW_TABLESAMPLE:
  case KW_MAP:
  case KW_REDUCE:
  case KW_SET:
  case KW_WHEN:
  case KW_WITH: return table;
  default: return false;
  }
}

/* Two keywords that together go on with the query. */
static bool is_pair(sql_kind kind, sql_kind next, sql_kind third) {
  switch ((int)kind) {
  case KW_GROUP:
  case KW_ORDER:
  case KW_CLUSTER:
  case KW_DISTRIBUTE:
  case KW_SORT: return next == KW_BY && third != SQL_END;
  case KW_GROUPING: return next == KW_SETS;
  case KW_WITH: return next == KW_ROLLUP || next == KW_CUBE;
  default: return false;
  }
}

bool sql__as_is_name(const sql_parser *p) {
  if (sql__kind(p) != KW_AS) return false;
  sql_kind next = sql__ahead(p, 1), third = sql__ahead(p, 2);
  if (next == SQL_END || next == SQL_COMMA || next == SQL_RIGHT_PAREN || next == SQL_SEMICOLON) return true;
  if (next != KW_FROM) return false;
  if (third == SQL_LEFT_PAREN) return true;
  return sql__is_identifier(p, p->at + 2) && !stops_alias(third, false) &&
         !is_pair(third, sql__ahead(p, 3), sql__ahead(p, 4));
}

bool sql__at_alias(const sql_parser *p, bool table) {
  if (!(table ? sql__is_strict_identifier(p, p->at) : sql__is_identifier(p, p->at))) return false;
  if (p->in_for && sql__kind(p) == KW_DO) return false;
  if ((sql__kind(p) == KW_APPROX || sql__kind(p) == KW_EXACT) && sql__ahead(p, 1) == KW_NEAREST) return !table;
  if (is_pair(sql__kind(p), sql__ahead(p, 1), sql__ahead(p, 2))) return false;
  if (!stops_alias(sql__kind(p), table)) return true;
  sql_kind next = sql__ahead(p, 1);
  return sql__kind(p) != KW_AS &&
         (next == SQL_END || next == SQL_COMMA || next == SQL_RIGHT_PAREN || next == SQL_SEMICOLON);
}

/* ---- column names of DataFrame.col ---- */

static trn_status attribute_syntax(const char *text, size_t size, trn_error **error) {
  char name[256];
  size_t n = size < sizeof(name) ? size : sizeof(name) - 1;
  memcpy(name, text, n);
  name[n] = 0;
  trn_kv param = {"name", name};
  trn_error_spec spec = {.struct_size = sizeof(spec),
                         .status = TRN_INVALID_ARGUMENT,
                         .condition = "INVALID_ATTRIBUTE_NAME_SYNTAX",
                         .sqlstate = "42601",
                         .params = &param,
                         .param_count = 1};
  if (error != NULL) *error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

/* Reads one part from *i on; false: malformed. `part` has room for the whole text. */
static bool attribute_part(const char *text, size_t size, size_t *i, char *part, size_t *part_size) {
  size_t n = 0;
  if (*i < size && text[*i] == '`') {
    for (++*i;; ++*i) {
      if (*i >= size) return false;
      if (text[*i] == '`') {
        if (*i + 1 >= size || text[*i + 1] != '`') break;
        ++*i;
      }
      part[n++] = text[*i];
    }
    ++*i;
    if (*i < size && text[*i] != '.') return false;
  } else {
    for (; *i < size && text[*i] != '.'; ++*i) {
      if (text[*i] == '`') return false;
      part[n++] = text[*i];
    }
    if (n == 0 && size > 0) return false;
  }
  *part_size = n;
  return true;
}

trn_status spark__sql_parse_attribute_name(trn_arena *arena, const char *text, size_t size, char ***parts,
                                           size_t *count, trn_error **error) {
  size_t dots = 0;
  for (size_t i = 0; i < size; i++) dots += text[i] == '.';
  char **items = trn__arena_alloc_n(arena, sizeof(char *), dots + 1);
  char *buffer = trn__arena_alloc(arena, size + 1);
  if (items == NULL || buffer == NULL) return trn__no_memory(error);
  size_t i = 0, n = 0;
  for (;;) {
    size_t part_size;
    if (!attribute_part(text, size, &i, buffer, &part_size)) return attribute_syntax(text, size, error);
    items[n] = trn__arena_str(arena, buffer, part_size);
    if (items[n++] == NULL) return trn__no_memory(error);
    if (i >= size) break;
    i++; /* the dot */
    if (i >= size) return attribute_syntax(text, size, error);
  }
  *parts = items;
  *count = n;
  return TRN_OK;
}
