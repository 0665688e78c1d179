/* Tokens of Spark SQL. */
#ifndef TRN_SPARK_SQL_LEXER_H
#define TRN_SPARK_SQL_LEXER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sql_kind {
  SQL_END,
  SQL_IDENTIFIER,
  SQL_BACKQUOTED,
  SQL_STRING,        /* 'x', r'x', r"x" */
  SQL_DOUBLE_QUOTED, /* "x": a string, or an identifier by option */
  SQL_DOLLAR_STRING, /* $tag$x$tag$ */
  /* numbers */
  SQL_INTEGER,
  SQL_BIGINT,
  SQL_SMALLINT,
  SQL_TINYINT,
  SQL_EXPONENT,
  SQL_DECIMAL,
  SQL_FLOAT,
  SQL_DOUBLE,
  SQL_BIGDECIMAL,
  /* punctuation */
  SQL_SEMICOLON,
  SQL_LEFT_PAREN,
  SQL_RIGHT_PAREN,
  SQL_COMMA,
  SQL_DOT,
  SQL_LEFT_BRACKET,
  SQL_RIGHT_BRACKET,
  SQL_BANG,
  SQL_EQ,
  SQL_NSEQ,
  SQL_NEQ,  /* <> */
  SQL_NEQJ, /* != */
  SQL_LT,
  SQL_LTE,
  SQL_GT,
  SQL_GTE,
  SQL_SHIFT_LEFT,
  SQL_SHIFT_RIGHT,
  SQL_SHIFT_RIGHT_UNSIGNED,
  SQL_PLUS,
  SQL_MINUS,
  SQL_ASTERISK,
  SQL_SLASH,
  SQL_PERCENT,
  SQL_TILDE,
  SQL_AMPERSAND,
  SQL_PIPE,
  SQL_CONCAT,
  SQL_OPERATOR_PIPE, /* |> */
  SQL_HAT,
  SQL_COLON,
  SQL_DOUBLE_COLON,
  SQL_ARROW,
  SQL_FAT_ARROW,
  SQL_HINT_START,
  SQL_HINT_END,
  SQL_QUESTION,
  SQL_UNRECOGNIZED,
  SQL_KEYWORDS, /* from here on: keywords */
#define K(token, text) KW_##token,
#define A(token, text)
#include "frontend/spark/sql/keywords.inc"
#undef K
#undef A
  SQL_KINDS
} sql_kind;

typedef struct sql_token {
  uint16_t kind;
  bool opens_query; /* of "(": what is inside is a query, not an expression */
  uint32_t start;   /* byte offset */
  uint32_t size;
  uint32_t match; /* of "(" and ")": index of the other one; 0: none */
} sql_token;

typedef struct sql_lexer {
  const char *text;
  size_t size;
  size_t at;
  size_t unclosed_comment; /* offset + 1 of a comment that never ends */
  /* A quote that never closes is an error wherever it is: the search for its end is not made again and again. */
  bool unclosed_single, unclosed_double, unclosed_back, unclosed_raw, unclosed_dollar;
} sql_lexer;

/* Reads the next token into *token; kind SQL_END at the end, again and again. */
void sql__next_token(sql_lexer *lexer, sql_token *token);
/* The text of a keyword or of punctuation as Spark's messages show it: 'AS', EQ. NULL for tokens without one text. */
const char *sql__kind_display(sql_kind kind);
static inline bool sql__is_keyword(sql_kind kind) {
  return kind > SQL_KEYWORDS && kind < SQL_KINDS;
}
/* Keywords that are no table alias and no strict identifier, even without the ANSI list of reserved words. */
bool sql__is_strict_non_reserved(sql_kind kind);

#endif
