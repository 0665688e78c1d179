/* Inside the parser. One recursive descent over an array of tokens; expressions use stacks of their own (expr.c), so
 * that parentheses and operators cost no C stack.
 *
 * Errors leave by longjmp to spark__sql_parse_*: everything is in the arena and nothing has a destructor, so there is
 * nothing to unwind, and no function here returns a failure. */
#ifndef TRN_SPARK_SQL_PARSER_H
#define TRN_SPARK_SQL_PARSER_H
#include "frontend/spark/sql/lexer.h"
#include "frontend/spark/sql/sql.h"
#include <setjmp.h>

typedef Spark__Connect__Expression sql_expr;
typedef Spark__Connect__Relation sql_relation;
typedef Spark__Connect__DataType sql_type;

/* The variables of the lambdas around the place being parsed. */
typedef struct sql_lambda {
  const struct sql_lambda *outer;
  char **names;
  size_t count;
  size_t total; /* with those of the lambdas around */
} sql_lambda;

/* A growing array in the arena. */
typedef struct sql_list {
  void **items;
  size_t count, capacity;
} sql_list;

typedef struct sql_parser {
  trn_arena *arena;
  const char *text;
  size_t size;
  spark_sql_options options;
  sql_token *tokens; /* the last one is SQL_END */
  size_t count;
  size_t at;
  unsigned depth, type_depth;
  size_t positional, named; /* parameters so far: ? and :name */
  const sql_lambda *lambda;
  struct sql_operator *operators; /* the stacks of expr.c, shared by nested calls */
  size_t operator_count, operator_capacity;
  struct sql_operand *operands;
  size_t operand_count, operand_capacity;
  jmp_buf fail;
  trn_status status;
  trn_error *error;
  /* Spark's generated parser reads CASE and f as names when what follows does not fit, and so blames another token than
   * the one that does not fit. 0: none. */
  size_t blame;                  /* inside CASE WHEN: for any error */
  size_t call_error, call_blame; /* for an error at call_error: behind f(a, b */
  unsigned alias_depth;          /* at this depth an alias could follow */
  bool in_script, in_for; /* in_for: in the query of a FOR, which DO ends */
  bool defers, deferred;  /* IDENTIFIER of what is not known yet gets a placeholder; there was one */
  size_t blocks;                  /* BEGIN ... END around the place; the outermost one has no label */
  const struct sql_label *labels; /* of script.c: the innermost one */
  sql_list constraints; /* trn_constraint, of CREATE TABLE */
  bool refused;
  trn_error *refusal; /* NULL although refused: out of memory */
} sql_parser;

/* An expression with the tokens that its grammar rule covers, which parentheses make wider than its origin. */
typedef struct sql_operand {
  sql_expr *expr;
  size_t start, stop; /* token indexes, inclusive */
} sql_operand;

/* How much of TRN_SQL_DEPTH_MAX a recursion takes: about its share of C stack. */
enum { SQL_DEPTH_EXPRESSION = 2, SQL_DEPTH_QUERY = 12, SQL_DEPTH_RELATION = 4, SQL_DEPTH_PAREN = 1 };

/* ---- parser.c: memory, tokens, errors ---- */
void *sql__alloc(sql_parser *p, size_t size);
char *sql__copy(sql_parser *p, const char *text, size_t size);
void sql__push(sql_parser *p, sql_list *list, void *item);
#define SQL_NEW(p, type, prefix) ((type *)sql__message((p), sizeof(type), (void (*)(void *))(void *)prefix##__init))
void *sql__message(sql_parser *p, size_t size, void (*init)(void *message));
/* Sets array and count of a repeated field. */
#define SQL_SET_LIST(list, message, field)                                                                             \
  ((message)->n_##field = (list).count, (message)->field = (void *)(list).items)

static inline const sql_token *sql__token(const sql_parser *p) {
  return &p->tokens[p->at];
}
static inline sql_kind sql__kind(const sql_parser *p) {
  return (sql_kind)p->tokens[p->at].kind;
}
static inline sql_kind sql__kind_at(const sql_parser *p, size_t index) {
  return (sql_kind)p->tokens[index < p->count ? index : p->count - 1].kind;
}
static inline sql_kind sql__ahead(const sql_parser *p, size_t n) {
  return sql__kind_at(p, p->at + n);
}
void sql__advance(sql_parser *p);
bool sql__accept(sql_parser *p, sql_kind kind);
bool sql__accept2(sql_parser *p, sql_kind first, sql_kind second);
void sql__expect(sql_parser *p, sql_kind kind);
size_t sql__last(const sql_parser *p); /* index of the token before the current one */
void sql__enter(sql_parser *p, unsigned cost);
void sql__leave(sql_parser *p, unsigned cost);
/* The index of the first token of `a` or `b` inside the parentheses that open at `open`, not deeper; 0: none. */
size_t sql__find_inside(const sql_parser *p, size_t open, sql_kind a, sql_kind b);

_Noreturn void sql__fail_memory(sql_parser *p);
_Noreturn void sql__fail_syntax(sql_parser *p); /* at the current token */
_Noreturn void sql__fail_syntax_at(sql_parser *p, size_t index, const char *hint);
/* Another condition of the grammar; up to two parameters; position from the tokens first..last. */
_Noreturn void sql__fail(sql_parser *p, size_t first, size_t last, const char *condition, const char *sqlstate,
                         const trn_kv *params, size_t param_count);
/* The same for what the grammar allows and Spark's builder of trees refuses: reading goes on, since a syntax error
 * further on comes first; of several the first one counts. */
void sql__refuse(sql_parser *p, size_t first, size_t last, const char *condition, const char *sqlstate,
                 const trn_kv *params, size_t param_count);
_Noreturn void sql__fail_unimplemented(sql_parser *p, size_t index, const char *what);
char *sql__token_text(sql_parser *p, size_t index);
char *sql__upper(sql_parser *p, const char *text);
char *sql__lower(sql_parser *p, const char *text);
bool sql__token_is(const sql_parser *p, size_t index, const char *word); /* ignoring case */

/* A path inside another text; goes on counting depth. */
trn_status sql__parse_nested_path(const sql_parser *p, const char *text, size_t size, char ***parts, size_t *count,
                                  trn_error **error);

/* ---- names.c ---- */
bool sql__is_identifier(const sql_parser *p, size_t index);        /* also strict ones */
bool sql__is_strict_identifier(const sql_parser *p, size_t index); /* a table alias */
char *sql__identifier(sql_parser *p);                              /* value, without backticks */
char *sql__strict_identifier(sql_parser *p);
/* Where `test-table` is refused by name. */
char *sql__error_capturing_identifier(sql_parser *p);
void sql__path(sql_parser *p, sql_list *parts); /* a.b.c or IDENTIFIER('a.b.c') */
char *sql__path_text(sql_parser *p);
char *sql__join_path(sql_parser *p, const sql_list *parts);
char *sql__join_texts(sql_parser *p, const sql_list *parts, const char *quote, const char *separator);
const char *sql__find_duplicate(sql_parser *p, const sql_list *names); /* ignoring case, in lower case; NULL: none */
void sql__identifier_list(sql_parser *p, sql_list *names);             /* (a, b) */
/* True when the current token starts an alias without AS; `table`: a strict one, in FROM. */
bool sql__at_alias(const sql_parser *p, bool table);
bool sql__as_is_name(const sql_parser *p); /* SELECT 1 AS: nothing that it could name follows, so it is one itself */

/* ---- literal.c ---- */
bool sql__is_string(const sql_parser *p, size_t index);
bool sql__is_number(sql_kind kind);
char *sql__string(sql_parser *p, size_t *size); /* one or more adjacent ones */
sql_expr *sql__string_literal(sql_parser *p, const char *text, size_t size, size_t start);
sql_expr *sql__constant_text(sql_parser *p, const char *text); /* a made-up string argument */
sql_expr *sql__number(sql_parser *p);                          /* with a leading '-' */
sql_expr *sql__boolean(sql_parser *p, bool value, size_t start);
sql_expr *sql__integer_literal(sql_parser *p, int32_t value, size_t start);
int32_t sql__integer_value(sql_parser *p);
bool sql__at_interval(const sql_parser *p);
sql_expr *sql__interval(sql_parser *p);
bool sql__at_typed_string(const sql_parser *p);
sql_expr *sql__typed_string(sql_parser *p);

/* ---- type.c ---- */
sql_type *sql__type(sql_parser *p);
sql_type *sql__schema(sql_parser *p);

/* ---- build.c ---- */
sql_expr *sql__expr(sql_parser *p, size_t start, size_t stop); /* no kind yet */
sql_expr *sql__function(sql_parser *p, const char *name, const sql_list *arguments, size_t start, size_t stop);
sql_expr *sql__function1(sql_parser *p, const char *name, sql_expr *a, size_t start, size_t stop);
sql_expr *sql__function2(sql_parser *p, const char *name, sql_expr *a, sql_expr *b, size_t start, size_t stop);
sql_expr *sql__attribute(sql_parser *p, const sql_list *parts, size_t start, size_t stop);
sql_expr *sql__extract(sql_parser *p, sql_expr *child, sql_expr *index, size_t start, size_t stop);
sql_expr *sql__alias(sql_parser *p, sql_expr *expr, const sql_list *names, size_t start, size_t stop);
sql_expr *sql__cast(sql_parser *p, sql_expr *expr, sql_type *type, bool try_cast, size_t start, size_t stop);
void sql__row_values(sql_parser *p, sql_expr *row, sql_list *values); /* those of a struct, else the one */
sql_relation *sql__relation(sql_parser *p, size_t start, size_t stop);
sql_relation *sql__filter(sql_parser *p, sql_relation *input, sql_expr *condition, size_t start, size_t stop);
sql_relation *sql__one_row(sql_parser *p);

/* ---- expr.c, primary.c, call.c ---- */
sql_expr *sql__expression(sql_parser *p);
sql_operand sql__operand(sql_parser *p);       /* expression, with its tokens */
sql_operand sql__value_operand(sql_parser *p); /* valueExpression: no predicate, NOT, AND, OR outside parentheses */
sql_expr *sql__value(sql_parser *p);
sql_expr *sql__named_expression(sql_parser *p);
void sql__expressions(sql_parser *p, sql_list *list);
void sql__named_expressions(sql_parser *p, sql_list *list);
Spark__Connect__Expression__SortOrder *sql__sort_item(sql_parser *p);
void sql__sort_items(sql_parser *p, sql_list *list);
sql_operand sql__primary(sql_parser *p);                                /* without postfixes behind parentheses */
sql_operand sql__postfixes(sql_parser *p, sql_operand operand);         /* .x [i] ::t COLLATE c */
sql_expr *sql__call(sql_parser *p, size_t start, const sql_list *name); /* at "(" */
bool sql__at_special_call(const sql_parser *p);
sql_expr *sql__special_call(sql_parser *p);
bool sql__at_lambda(const sql_parser *p);
sql_expr *sql__lambda(sql_parser *p);
sql_expr *sql__subquery(sql_parser *p, Spark__Connect__TrnSubqueryKind kind, const sql_list *in_values,
                        size_t start);                               /* at "(" */
Spark__Connect__Expression__Window *sql__window_body(sql_parser *p); /* at "(" */
void sql__named_window(sql_parser *p, sql_list *windows);

/* ---- query.c, select.c, from.c ---- */
sql_relation *sql__query(sql_parser *p);
typedef enum sql_select_form { SQL_SELECT_PLAIN, SQL_SELECT_BEHIND_FROM, SQL_SELECT_PIPE } sql_select_form;
sql_relation *sql__select(sql_parser *p, sql_relation *from, sql_select_form form);
sql_relation *sql__select_of(sql_parser *p, Spark__Connect__TrnSelect *select, size_t start);
sql_relation *sql__from_clause(sql_parser *p); /* at FROM */
sql_relation *sql__inline_table(sql_parser *p);
bool sql__at_join(const sql_parser *p);
sql_relation *sql__join(sql_parser *p, sql_relation *left, size_t start);
sql_relation *sql__pivot(sql_parser *p, sql_relation *input, size_t start);   /* at PIVOT */
sql_relation *sql__unpivot(sql_parser *p, sql_relation *input, size_t start); /* at UNPIVOT */
bool sql__at_pipe(const sql_parser *p);                                       /* |> or | before an operator of pipes */
sql_relation *sql__pipe(sql_parser *p, sql_relation *input, size_t start);    /* behind |> */
sql_relation *sql__set_operation(sql_parser *p, sql_relation *left, sql_relation *right, sql_kind kind, bool all,
                                 size_t start);
bool sql__set_quantifier(sql_parser *p); /* UNION ALL */
sql_relation *sql__query_primary(sql_parser *p);
sql_relation *sql__organization(sql_parser *p, sql_relation *relation, size_t start);
sql_relation *sql__sample(sql_parser *p, sql_relation *input, size_t start); /* at TABLESAMPLE */
sql_relation *sql__lateral_views(sql_parser *p, sql_relation *input, size_t start);
sql_relation *sql__table_alias(sql_parser *p, sql_relation *input, size_t start);
void sql__window_clause(sql_parser *p, sql_list *windows);
void sql__group_by(sql_parser *p, Spark__Connect__TrnSelect *select); /* behind GROUP BY */
bool sql__starts_query(const sql_parser *p, size_t index);

/* Goes on with a query behind its WITH (`ctes`, may be NULL), whose first token is `start`. */
sql_relation *sql__query_behind(sql_parser *p, sql_relation *ctes, size_t start);
sql_relation *sql__with(sql_parser *p); /* at WITH; input is not set yet */

/* ---- ddl.c, dml.c, show.c: false when the statement is not one of theirs; then nothing was read ---- */
bool sql__create(sql_parser *p, Spark__Connect__Command *command);
void sql__column_list(sql_parser *p, sql_list *columns); /* (a INT, b STRING DEFAULT '') */
/* routine.c */
bool sql__create_function(sql_parser *p, bool replace, bool temporary, Spark__Connect__Command *command);
bool sql__drop_function(sql_parser *p, Spark__Connect__Command *command);
bool sql__dml(sql_parser *p, sql_relation *ctes, Spark__Connect__Command *command);
bool sql__variable(sql_parser *p, Spark__Connect__Command *command);
/* maintain.c: statements that become trn_table_statement; false: none of them. */
bool sql__table_statement(sql_parser *p, Spark__Connect__Command *command);
bool sql__alter(sql_parser *p, Spark__Connect__Command *command);
bool sql__show(sql_parser *p, Spark__Connect__Command *command);
void sql__describe(sql_parser *p, Spark__Connect__Command *command);
void sql__explain(sql_parser *p, Spark__Connect__Command *command);
/* constraint.c: at one? It is read, and kept when they are taken. */
bool sql__table_constraint(sql_parser *p);
bool sql__column_constraint(sql_parser *p, char *column);
void sql__properties(sql_parser *p, sql_list *list, bool expressions);
void sql__partitions(sql_parser *p, sql_list *list);
bool sql__if_not_exists(sql_parser *p);
Spark__Connect__TrnProperty *sql__view_mode(sql_parser *p); /* what WITH SCHEMA says, as a property SPARK_VIEW_MODE */
char *sql__string_text(sql_parser *p);
char *sql__text_between(sql_parser *p, size_t first, size_t last);

void sql__set_variable(sql_parser *p, Spark__Connect__Command *command); /* behind SET or SET VARIABLE */

/* ---- statement.c ---- */
void sql__statement(sql_parser *p, spark_sql_statement *out);
/* ---- script.c ---- */
spark_script *sql__script(sql_parser *p); /* at BEGIN */

#endif
