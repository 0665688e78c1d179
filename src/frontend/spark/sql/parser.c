#include "frontend/spark/sql/parser.h"
#include <stdio.h>

/* ---- memory ---- */

void *sql__alloc(sql_parser *p, size_t size) {
  void *memory = trn__arena_alloc(p->arena, size);
  if (memory == NULL) sql__fail_memory(p);
  return memory;
}

char *sql__copy(sql_parser *p, const char *text, size_t size) {
  char *copy = trn__arena_str(p->arena, text, size);
  if (copy == NULL) sql__fail_memory(p);
  return copy;
}

void sql__push(sql_parser *p, sql_list *list, void *item) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
    void **items = sql__alloc(p, capacity * sizeof(void *));
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof(void *));
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
}

void *sql__message(sql_parser *p, size_t size, void (*init)(void *message)) {
  void *message = sql__alloc(p, size);
  init(message);
  return message;
}

/* ---- tokens ---- */

void sql__advance(sql_parser *p) {
  if (p->at + 1 < p->count) p->at++;
}

bool sql__accept(sql_parser *p, sql_kind kind) {
  if (sql__kind(p) != kind) return false;
  sql__advance(p);
  return true;
}

bool sql__accept2(sql_parser *p, sql_kind first, sql_kind second) {
  if (sql__kind(p) != first || sql__ahead(p, 1) != second) return false;
  p->at += 2;
  return true;
}

/* Where the token after a surplus one is the expected one, ANTLR calls the surplus one extra input. */
void sql__expect(sql_parser *p, sql_kind kind) {
  if (sql__accept(p, kind) || (kind == SQL_END && sql__kind(p) == SQL_END)) return;
  const char *hint = NULL;
  if (sql__kind(p) != SQL_END && sql__ahead(p, 1) == kind) {
    hint = trn__arena_printf(p->arena, ": extra input '%s'", sql__token_text(p, p->at));
    if (hint == NULL) sql__fail_memory(p);
  }
  sql__fail_syntax_at(p, p->at, hint);
}

size_t sql__last(const sql_parser *p) {
  return p->at > 0 ? p->at - 1 : 0;
}

void sql__enter(sql_parser *p, unsigned cost) {
  p->depth += cost;
  if (p->depth > TRN_SQL_DEPTH_MAX) {
    p->status = trn_error_set(&p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                              "the SQL text nests deeper than TRN_SQL_DEPTH_MAX (%d)", TRN_SQL_DEPTH_MAX);
    longjmp(p->fail, 1);
  }
}

void sql__leave(sql_parser *p, unsigned cost) {
  p->depth -= cost;
}

size_t sql__find_inside(const sql_parser *p, size_t open, sql_kind a, sql_kind b) {
  size_t close = p->tokens[open].match;
  for (size_t i = open + 1; i < close; i++) {
    if (sql__kind_at(p, i) == SQL_LEFT_PAREN) {
      i = p->tokens[i].match;
    } else if (sql__kind_at(p, i) == a || sql__kind_at(p, i) == b) {
      return i;
    }
  }
  return 0;
}

char *sql__token_text(sql_parser *p, size_t index) {
  return sql__copy(p, p->text + p->tokens[index].start, p->tokens[index].size);
}

char *sql__upper(sql_parser *p, const char *text) {
  char *copy = sql__copy(p, text, strlen(text));
  for (char *c = copy; *c != 0; c++) {
    if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
  }
  return copy;
}

char *sql__lower(sql_parser *p, const char *text) {
  char *copy = sql__copy(p, text, strlen(text));
  for (char *c = copy; *c != 0; c++) {
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  }
  return copy;
}

bool sql__token_is(const sql_parser *p, size_t index, const char *word) {
  const sql_token *token = &p->tokens[index < p->count ? index : p->count - 1];
  return token->size == strlen(word) && strncasecmp(p->text + token->start, word, token->size) == 0;
}

/* ---- errors ---- */

_Noreturn void sql__fail_memory(sql_parser *p) {
  p->status = trn__no_memory(&p->error);
  longjmp(p->fail, 1);
}

static trn_error *grammar_error(const sql_parser *p, size_t first, size_t last, const char *condition,
                                const char *sqlstate, const trn_kv *params, size_t param_count) {
  const sql_token *a = &p->tokens[first], *b = &p->tokens[last];
  trn_error_spec spec = {.struct_size = sizeof(spec),
                         .status = TRN_INVALID_ARGUMENT,
                         .condition = condition,
                         .sqlstate = sqlstate,
                         .params = params,
                         .param_count = param_count,
                         .has_position = true};
  spec.position.start = (int32_t)a->start;
  spec.position.stop = (int32_t)(b->size > 0 ? b->start + b->size - 1 : b->start);
  return trn_error_create(&spec);
}

_Noreturn void sql__fail(sql_parser *p, size_t first, size_t last, const char *condition, const char *sqlstate,
                         const trn_kv *params, size_t param_count) {
  p->status = TRN_INVALID_ARGUMENT;
  p->error = grammar_error(p, first, last, condition, sqlstate, params, param_count);
  longjmp(p->fail, 1);
}

void sql__refuse(sql_parser *p, size_t first, size_t last, const char *condition, const char *sqlstate,
                 const trn_kv *params, size_t param_count) {
  if (p->refused) return;
  p->refused = true;
  p->refusal = grammar_error(p, first, last, condition, sqlstate, params, param_count);
}

_Noreturn void sql__fail_syntax_at(sql_parser *p, size_t index, const char *hint) {
  const char *what = "end of input";
  size_t blame = p->blame != 0 ? p->blame : index == p->call_error ? p->call_blame : 0;
  if (blame != 0) {
    index = blame;
    hint = NULL;
  }
  if (p->tokens[index].kind != SQL_END) {
    what = trn__arena_printf(p->arena, "'%.*s'", (int)p->tokens[index].size, p->text + p->tokens[index].start);
    if (what == NULL) sql__fail_memory(p);
  }
  trn_kv params[] = {{"error", what}, {"hint", hint != NULL ? hint : ""}};
  sql__fail(p, index, index, "PARSE_SYNTAX_ERROR", "42601", params, 2);
}

_Noreturn void sql__fail_syntax(sql_parser *p) {
  sql__fail_syntax_at(p, p->at, NULL);
}

_Noreturn void sql__fail_unimplemented(sql_parser *p, size_t index, const char *what) {
  const sql_token *token = &p->tokens[index];
  char *message = trn__arena_printf(p->arena, "not supported yet in SQL: %s", what);
  trn_error_spec spec = {.struct_size = sizeof(spec),
                         .status = TRN_UNIMPLEMENTED,
                         .condition = "UNSUPPORTED_FEATURE",
                         .sqlstate = "0A000",
                         .message = message != NULL ? message : what,
                         .has_position = true};
  spec.position.start = (int32_t)token->start;
  spec.position.stop = (int32_t)(token->size > 0 ? token->start + token->size - 1 : token->start);
  p->status = TRN_UNIMPLEMENTED;
  p->error = trn_error_create(&spec);
  longjmp(p->fail, 1);
}

/* ---- reading the tokens ---- */

/* What may stand between the end of a parenthesized query and the parenthesis around the query it belongs to. */
static bool continues_query(sql_kind kind) {
  switch ((int)kind) {
  case KW_UNION:
  case KW_INTERSECT:
  case KW_EXCEPT:
  case KW_SETMINUS:
  case KW_ORDER:
  case KW_LIMIT:
  case KW_OFFSET:
  case KW_CLUSTER:
  case KW_DISTRIBUTE:
  case KW_SORT:
  case KW_WINDOW:
  case SQL_OPERATOR_PIPE:
  case SQL_RIGHT_PAREN: return true;
  default: return false;
  }
}

/* Pairs the parentheses and finds, from the inside out, which of them hold queries: ((SELECT 1) UNION SELECT 2) does,
 * ((SELECT 1) + 2) does not. */
static void pair_parentheses(sql_parser *p) {
  uint32_t open = 0; /* innermost open one + 1; `match` of open ones links to the next outer one */
  for (size_t i = 0; i < p->count; i++) {
    sql_token *token = &p->tokens[i];
    if (token->kind == SQL_LEFT_PAREN) {
      token->match = open;
      open = (uint32_t)i + 1;
    } else if (token->kind == SQL_RIGHT_PAREN && open > 0) {
      sql_token *opener = &p->tokens[open - 1];
      uint32_t outer = opener->match;
      opener->match = (uint32_t)i;
      token->match = open - 1;
      open = outer;
    }
  }
  while (open > 0) { /* never closed: as if closed by the end */
    sql_token *opener = &p->tokens[open - 1];
    open = opener->match;
    opener->match = (uint32_t)(p->count - 1);
  }
  for (size_t i = p->count; i-- > 0;) {
    sql_token *token = &p->tokens[i];
    if (token->kind != SQL_LEFT_PAREN) continue;
    const sql_token *next = &p->tokens[i + 1];
    token->opens_query = next->kind == SQL_LEFT_PAREN
                             ? next->opens_query && continues_query(sql__kind_at(p, next->match + 1))
                             : sql__starts_query(p, i + 1);
  }
}

static void read_tokens(sql_parser *p) {
  sql_token token;
  sql_lexer lexer = {.text = p->text, .size = p->size};
  size_t count = 0;
  do { /* counting first costs a second pass and saves half of the memory */
    sql__next_token(&lexer, &token);
    count++;
  } while (token.kind != SQL_END);
  p->tokens = trn__arena_alloc_n(p->arena, sizeof(sql_token), count);
  if (p->tokens == NULL) sql__fail_memory(p);
  p->count = count;
  lexer = (sql_lexer){.text = p->text, .size = p->size};
  for (size_t i = 0; i < count; i++) sql__next_token(&lexer, &p->tokens[i]);
  if (lexer.unclosed_comment > 0) {
    sql_token *end = &p->tokens[count - 1];
    end->start = (uint32_t)(lexer.unclosed_comment - 1);
    end->size = (uint32_t)(p->size - end->start);
    sql__fail(p, count - 1, count - 1, "UNCLOSED_BRACKETED_COMMENT", "42601", NULL, 0);
  }
  pair_parentheses(p);
}

/* ---- the doors ---- */

typedef void (*sql_rule)(sql_parser *p, void *out);

static void statement_rule(sql_parser *p, void *out) {
  sql__statement(p, out);
  while (sql__accept(p, SQL_SEMICOLON)) {
  }
}

static void expression_rule(sql_parser *p, void *out) {
  *(sql_expr **)out = sql__named_expression(p);
}
static void type_rule(sql_parser *p, void *out) {
  *(sql_type **)out = sql__type(p);
}
static void schema_rule(sql_parser *p, void *out) {
  *(sql_type **)out = sql__schema(p);
}
static void path_rule(sql_parser *p, void *out) {
  sql__path(p, out);
}

/* The only place that sets the jump: its locals do not change between setjmp and longjmp. */
static trn_status run(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options, sql_rule rule,
                      void *out, size_t positional[2], unsigned depth, trn_error **error) {
  if (size > TRN_SQL_BYTES_MAX) {
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "a SQL text of %zu bytes is over TRN_SQL_BYTES_MAX (%u)",
                         size, TRN_SQL_BYTES_MAX);
  }
  sql_parser *p = trn__arena_alloc(arena, sizeof(*p));
  if (p == NULL) return trn__no_memory(error);
  p->arena = arena;
  p->text = text;
  p->size = size;
  p->depth = depth;
  if (options != NULL) p->options = *options;
  p->in_script = p->options.in_script;
  p->positional = p->options.positional;
  if (setjmp(p->fail) == 0) {
    read_tokens(p);
    if (sql__kind(p) == SQL_END) sql__fail(p, 0, 0, "PARSE_EMPTY_STATEMENT", "42617", NULL, 0);
    rule(p, out);
    sql__expect(p, SQL_END);
    if (positional != NULL) positional[0] = p->positional, positional[1] = p->named;
    if (p->refused) p->status = TRN_INVALID_ARGUMENT;
    p->error = p->refusal;
  } else {
    trn_error_unref(p->refusal);
  }
  if (error != NULL) {
    *error = p->error;
  } else {
    trn_error_unref(p->error);
  }
  return p->status;
}

trn_status spark__sql_parse_statement(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                      spark_sql_statement *out, trn_error **error) {
  *out = (spark_sql_statement){0};
  size_t parameters[2] = {0};
  trn_status status = run(arena, text, size, options, statement_rule, out, parameters, 0, error);
  out->positional_parameters = parameters[0];
  out->named_parameters = parameters[1];
  return status;
}

trn_status spark__sql_parse_expression(trn_arena *arena, const char *text, size_t size,
                                       const spark_sql_options *options, Spark__Connect__Expression **out,
                                       trn_error **error) {
  *out = NULL;
  return run(arena, text, size, options, expression_rule, out, NULL, 0, error);
}

trn_status spark__sql_parse_type(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                 Spark__Connect__DataType **out, trn_error **error) {
  *out = NULL;
  return run(arena, text, size, options, type_rule, out, NULL, 0, error);
}

trn_status spark__sql_parse_schema(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                   Spark__Connect__DataType **out, trn_error **error) {
  *out = NULL;
  return run(arena, text, size, options, schema_rule, out, NULL, 0, error);
}

trn_status sql__parse_nested_path(const sql_parser *p, const char *text, size_t size, char ***parts, size_t *count,
                                  trn_error **error) {
  sql_list list = {0};
  trn_status status = run(p->arena, text, size, &p->options, path_rule, &list, NULL, p->depth, error);
  *parts = (char **)list.items;
  *count = list.count;
  return status;
}

trn_status spark__sql_parse_multipart_identifier(trn_arena *arena, const char *text, size_t size,
                                                 const spark_sql_options *options, char ***parts, size_t *count,
                                                 trn_error **error) {
  sql_list list = {0};
  trn_status status = run(arena, text, size, options, path_rule, &list, NULL, 0, error);
  *parts = status == TRN_OK ? (char **)list.items : NULL;
  *count = status == TRN_OK ? list.count : 0;
  return status;
}
