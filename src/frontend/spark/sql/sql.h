/* The Spark SQL parser: text in, the protobuf messages out that a DataFrame client would have sent, plus
 * members of our own (proto/extensions.json) where those lack something. Pure: no session, no catalog. Follows
 * the grammar of Spark 4.2.
 *
 * How things are encoded, for those who translate the result
 *  - Names. An identifier path is one text, its parts joined by '.', a part in backticks where it needs them
 *    (both in unresolved_attribute.unparsed_identifier and in named_table.unparsed_identifier). A function of
 *    one part is unresolved_function with the name as written (it may still be a temporary function of the
 *    user); a path has is_user_defined_function set. CURRENT_DATE, CURRENT_USER etc. without parentheses are
 *    unresolved_attribute, as in Spark: a function only when no column has the name.
 *  - Operators: + - * / % div & | ^ ~ << >> >>> = as "==", <=> < <= > >=, and, or, not, like(a, p[, escape]),
 *    ilike, rlike, in, isNull, isNotNull, concat for ||, negative, positive. BETWEEN is and(>=, <=) over
 *    shared operand messages. a IS TRUE is <=>(a, true), IS UNKNOWN is isNull. LIKE ANY/ALL are or/and chains.
 *    Chains of AND (OR) become balanced trees, as in Spark. (a, b) is struct(a, b). CASE WHEN is when(c1, v1,
 *    ..., else).
 *  - trn_interval. values: texts (string literals) with the sign applied, or trn_parameter; units: lower case,
 *    singular or plural as written. As many units as values: INTERVAL 3 MONTHS '2' DAY. One value, two units:
 *    INTERVAL '1-2' YEAR TO MONTH. One value, no unit: INTERVAL '1 day 2 hours'. `negative` is not used.
 *  - trn_typed_string: type is DATE, TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_LTZ or TIME. X'1F' is a binary
 *    literal.
 *  - trn_parameter: the name of :name; for ? its index from 0 as digits.
 *  - trn_star_except: expressions[0] is the star, the others are the columns it leaves out.
 *  - trn_window_reference: f() OVER w.  trn_modifiers: FILTER, IGNORE NULLS, WITHIN GROUP.
 *  - trn_subquery kind IN: in_values holds one expression, or several for (a, b) IN (query).
 *  - A lambda's variables are unresolved_named_lambda_variable with one part, fields of them
 *    unresolved_extract_value.
 *  - FROM a, b: joins of type INNER without condition. WHERE: filter between FROM and trn_select (which also
 *    is where the hints are). No FROM: trn_select.input is NULL, one row; below a filter that is trn_values
 *    with one empty row.
 *  - trn_select.group_type has the numbers of Aggregate.GroupType: 1 GROUP BY, 2 ROLLUP, 3 CUBE (each of plain
 *    expressions), 5 GROUPING SETS (also what a mixture or (a, b) inside ROLLUP expands to; group_by is then
 *    what stood before the sets, possibly nothing). trn_lateral_view, trn_pivot, trn_unpivot are relations.
 *  - DISTRIBUTE BY is repartition_by_expression; SORT BY is trn_order_by without is_global; CLUSTER BY is
 *    both. ORDER BY ALL: trn_order_by.all, and one item whose direction counts.
 *  - TABLESAMPLE (n ROWS) is trn_limit. FROM t SELECT a SELECT b is a UNION ALL over one shared FROM message.
 *  - |> WHERE is filter, SELECT and EXTEND and DROP are trn_select (EXTEND: SELECT *, x; DROP: SELECT * EXCEPT
 *    (x)), SET is with_columns, AGGREGATE is trn_select with the keys first in the list, AS is subquery_alias.
 *  - Commands. CREATE TEMPORARY VIEW is create_dataframe_view: with column names over to_df, with USING over a
 *    read. trn_create_table, trn_create_view, trn_insert, trn_delete, trn_update, trn_alter_table (alter.c
 *    lists its actions), trn_show (what: "tables", "create table", ... as in show.c), trn_describe (what:
 *    "table", "query", "function", "database"), trn_explain, trn_declare_variable, trn_set_variable,
 *    trn_drop_variable, trn_execute_immediate, trn_create_function (`query` or `body`), trn_drop_function. An optional text that was not there is "". DROP, USE, CACHE,
 *    CLEAR CACHE, REFRESH, TRUNCATE, CREATE DATABASE are catalog messages; a USE's name may start with a
 *    catalog.
 *  - A script is a tree (spark_script) of statements like those; inside, SET is trn_set_variable.
 *  - Names inside of scripts may be IDENTIFIER of variables: such pieces have a placeholder, and are read again (`later`).
 *  - What the parser leaves to others: the values inside DATE '...' and INTERVAL texts, lengths of VALUES
 *    rows, variables like ${x} (to be replaced in the text before), everything that needs names.
 *  - Positions: 0-based byte offsets, inclusive, of the text that Spark's origin of the expression covers. */
#ifndef TRN_SPARK_SQL_H
#define TRN_SPARK_SQL_H
#include "core/core.h"
#include "spark_connect.pb-c.h"

/* WITH SCHEMA of a view, as one of its properties: EVOLUTION, TYPE EVOLUTION, BINDING or COMPENSATION. */
#define SPARK_VIEW_MODE "view.schemaMode"

/* Session settings that change the grammar. Zero: Spark's defaults. */
typedef struct spark_sql_options {
  bool double_quoted_identifiers; /* spark.sql.ansi.doubleQuotedIdentifiers together with spark.sql.ansi.enabled */
  bool legacy_setops_precedence;  /* spark.sql.legacy.setopsPrecedence.enabled */
  bool exponent_as_decimal;       /* spark.sql.legacy.exponentLiteralAsDecimal.enabled */
  bool legacy_identifier_clause;  /* spark.sql.legacy.identifierClause: IDENTIFIER() is a whole path, not a part of one */
  /* The parameters that are strings, for IDENTIFIER(:name): key is the name, or the index from 0 as digits. Borrowed.
   */
  const trn_kv *text_parameters;
  size_t text_parameter_count;
  bool takes_constraints; /* of CREATE TABLE; else UNIMPLEMENTED */
  /* The text of the variable of that name, for IDENTIFIER(v); NULL: there is none that is a text. *other: what it is then, a
   * type's name, or "NULL"; NULL: there is no such variable. May be NULL. */
  const char *(*text_variable)(void *user, const char *name, const char **other);
  void *user;
  /* A statement of a script that is read again, when the names in it are known: what is before `positional` ? is its own. */
  bool in_script;
  size_t positional;
} spark_sql_options;

typedef enum spark_sql_kind {
  SPARK_SQL_QUERY,   /* relation: the rows it gives */
  SPARK_SQL_COMMAND, /* command, or relation with a catalog member: to run now */
  SPARK_SQL_SET,     /* set: no entry lists all; a NULL value asks for one key */
  SPARK_SQL_RESET,   /* set: the keys to reset; no entry: all */
  SPARK_SQL_SCRIPT   /* script: BEGIN ... END */
} spark_sql_kind;

/* A part of a script. */
typedef enum spark_script_kind {
  SPARK_SCRIPT_BLOCK,     /* items in order; a BEGIN ... END has a scope of variables and handlers */
  SPARK_SCRIPT_STATEMENT, /* statement */
  SPARK_SCRIPT_BRANCH,    /* IF and CASE: the first branch that is true, else `body` (may be NULL) */
  SPARK_SCRIPT_WHILE,     /* branches[0] is the condition; body */
  SPARK_SCRIPT_REPEAT,    /* the same, asked behind the body: until it is true */
  SPARK_SCRIPT_LOOP,      /* body, until it is left */
  SPARK_SCRIPT_FOR,       /* query, variable (may be NULL), body */
  SPARK_SCRIPT_LEAVE,     /* label */
  SPARK_SCRIPT_ITERATE    /* label */
} spark_script_kind;

typedef struct spark_script spark_script;
typedef struct spark_sql_statement spark_sql_statement;

/* A piece of the script's text that has IDENTIFIER of variables: it is read again when it runs. size 0: none. */
typedef struct spark_script_later {
  size_t start, size, positional; /* positional: how many ? are before it */
} spark_script_later;

typedef struct spark_script_branch {
  Spark__Connect__Expression *condition;
  const char *text; /* of the condition */
  spark_script_later later; /* of the condition */
  spark_script *body;
} spark_script_branch;

typedef enum spark_handler_kind {
  SPARK_HANDLER_CONDITION, /* name: DIVIDE_BY_ZERO, A.B, or one that the script declares; in capitals */
  SPARK_HANDLER_SQLSTATE,  /* name: 22012 */
  SPARK_HANDLER_NOT_FOUND,
  SPARK_HANDLER_EXCEPTION
} spark_handler_kind;

typedef struct spark_script_condition {
  spark_handler_kind kind;
  const char *name;
} spark_script_condition;

/* EXIT handlers: Spark 4.2 refuses the others. */
typedef struct spark_script_handler {
  const spark_script_condition *conditions;
  size_t condition_count;
  spark_script *body;
} spark_script_handler;

struct spark_script {
  spark_script_kind kind;
  const char *label; /* of a block or a loop, as written; NULL: none */
  bool has_scope;    /* of a BLOCK */
  int32_t start;     /* where it begins in the text */
  spark_script **items;
  size_t item_count;
  const spark_script_handler *handlers;
  size_t handler_count;
  const char **conditions; /* declared in the block, in capitals */
  size_t condition_count;
  spark_sql_statement *statement;
  spark_script_later later; /* of the statement, or of the query of a FOR */
  spark_script_branch *branches;
  size_t branch_count;
  Spark__Connect__Relation *query;
  const char *variable;
  spark_script *body;
};

struct spark_sql_statement {
  spark_sql_kind kind;
  spark_script *script;
  Spark__Connect__Relation *relation;
  Spark__Connect__Command *command;
  const trn_kv *set;
  size_t set_count;
  struct trn_constraint *const *constraints; /* of CREATE TABLE, when they are taken */
  size_t constraint_count;
  size_t positional_parameters; /* how many ? there are */
  size_t named_parameters;      /* and :name */
};

/* All of them: borrow `text` (UTF-8, `size` bytes), allocate in `arena` what they give, and fail with INVALID_ARGUMENT
 * and the condition, its parameters and the position that Spark would give; with UNIMPLEMENTED for what Spark's grammar
 * has and this parser has not; with RESOURCE_EXHAUSTED over a limit or out of memory. `options` may be NULL.
 * thread: any. Blocks: no. Stack: bounded by TRN_SQL_DEPTH_MAX. */
trn_status spark__sql_parse_statement(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                      spark_sql_statement *out, trn_error **error);
/* A named expression: "a + 1 AS b". */
trn_status spark__sql_parse_expression(trn_arena *arena, const char *text, size_t size,
                                       const spark_sql_options *options, Spark__Connect__Expression **out,
                                       trn_error **error);
trn_status spark__sql_parse_type(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                 Spark__Connect__DataType **out, trn_error **error);
/* "a INT, b STRING NOT NULL COMMENT 'x'" as a struct. */
trn_status spark__sql_parse_schema(trn_arena *arena, const char *text, size_t size, const spark_sql_options *options,
                                   Spark__Connect__DataType **out, trn_error **error);
/* A table or function name of one or more parts. */
trn_status spark__sql_parse_multipart_identifier(trn_arena *arena, const char *text, size_t size,
                                                 const spark_sql_options *options, char ***parts, size_t *count,
                                                 trn_error **error);
/* A column name as DataFrame.col takes it: only dots and backticks mean something. */
trn_status spark__sql_parse_attribute_name(trn_arena *arena, const char *text, size_t size, char ***parts,
                                           size_t *count, trn_error **error);
/* The text of a path, parts in backticks where needed. NULL: out of memory. */
char *spark__sql_quote_path(trn_arena *arena, char *const *parts, size_t count);

#endif
