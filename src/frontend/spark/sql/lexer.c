#include "frontend/spark/sql/lexer.h"
#include <string.h>

typedef struct keyword {
  const char *text;
  uint8_t size;
  uint16_t kind;
} keyword;

static const keyword keywords[] = {
#define K(token, text) {text, sizeof(text) - 1, KW_##token},
#define A(token, text) {text, sizeof(text) - 1, KW_##token},
#include "frontend/spark/sql/keywords.inc"
#undef K
#undef A
};
enum { KEYWORD_SIZE_MAX = 17 };

static bool is_digit(unsigned char c) {
  return c >= '0' && c <= '9';
}
static unsigned char upper(unsigned char c) {
  return c >= 'a' && c <= 'z' ? (unsigned char)(c - 'a' + 'A') : c;
}
/* Letters outside ASCII are refused by name later, as in Spark (INVALID_IDENTIFIER). */
static bool is_letter(unsigned char c) {
  return (upper(c) >= 'A' && upper(c) <= 'Z') || c >= 0x80;
}
static bool is_word(unsigned char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

static unsigned char at(const sql_lexer *l, size_t i) {
  return i < l->size ? (unsigned char)l->text[i] : 0;
}

/* The size of the white space character at i; 0: none. The list is the grammar's. */
static size_t space_size(const sql_lexer *l, size_t i) {
  unsigned char c = at(l, i), d = at(l, i + 1), e = at(l, i + 2);
  if (i < l->size && (c == ' ' || (c >= '\t' && c <= '\r'))) return 1;
  if (c == 0xC2 && d == 0xA0) return 2;
  if (c == 0xE1 && d == 0x9A && e == 0x80) return 3;
  if (c == 0xE2 && d == 0x80 && (e <= 0x8A ? e >= 0x80 : e == 0xA8 || e == 0xAF)) return 3;
  if (c == 0xE2 && d == 0x81 && e == 0x9F) return 3;
  if (c == 0xE3 && d == 0x80 && e == 0x80) return 3;
  return 0;
}

static size_t line_comment_end(const sql_lexer *l, size_t i) {
  for (; i < l->size && l->text[i] != '\n' && l->text[i] != '\r'; i++) {
    if (l->text[i] == '\\' && at(l, i + 1) == '\n') i++;
  }
  return i;
}

/* Comments nest. Returns the offset behind the comment that opens at i, l->size when it never closes. */
static size_t block_comment_end(sql_lexer *l, size_t i) {
  size_t depth = 0, open = i;
  while (i < l->size) {
    if (l->text[i] == '/' && at(l, i + 1) == '*' && (depth == 0 || at(l, i + 2) != '+')) {
      depth++;
      i += 2;
    } else if (l->text[i] == '*' && at(l, i + 1) == '/') {
      i += 2;
      if (--depth == 0) return i;
    } else {
      i++;
    }
  }
  l->unclosed_comment = open + 1;
  return l->size;
}

static void skip_blank(sql_lexer *l) {
  for (;;) {
    size_t space = space_size(l, l->at);
    if (space > 0) {
      l->at += space;
    } else if (at(l, l->at) == '-' && at(l, l->at + 1) == '-') {
      l->at = line_comment_end(l, l->at + 2);
    } else if (at(l, l->at) == '/' && at(l, l->at + 1) == '*' && at(l, l->at + 2) != '+') {
      l->at = block_comment_end(l, l->at);
    } else {
      return;
    }
  }
}

/* The size of a quoted token that starts at i with `quote`; 0 when it never closes. */
static size_t quoted_size(const sql_lexer *l, size_t i, char quote, bool escapes) {
  for (size_t j = i + 1; j < l->size; j++) {
    if (escapes && l->text[j] == '\\') {
      j++;
    } else if (l->text[j] == quote) {
      if ((escapes || quote == '`') && at(l, j + 1) == (unsigned char)quote) {
        j++;
      } else {
        return j + 1 - i;
      }
    }
  }
  return 0;
}

/* The same, and remembers in *unclosed that there is no end. */
static size_t quoted_once(const sql_lexer *l, size_t i, bool escapes, bool *unclosed) {
  if (*unclosed) return 0;
  size_t size = quoted_size(l, i, l->text[i], escapes);
  *unclosed = size == 0;
  return size;
}

static size_t digits(const sql_lexer *l, size_t i) {
  size_t n = 0;
  while (is_digit(at(l, i + n))) n++;
  return n;
}

static size_t exponent(const sql_lexer *l, size_t i) {
  if (upper(at(l, i)) != 'E') return 0;
  size_t sign = at(l, i + 1) == '+' || at(l, i + 1) == '-' ? 1 : 0;
  size_t n = digits(l, i + 1 + sign);
  return n == 0 ? 0 : 1 + sign + n;
}

/* Behind a number with a dot no word character may follow, else it is no such number. */
static void number_candidate(const sql_lexer *l, size_t i, size_t size, sql_kind kind, bool dotted, sql_token *best) {
  if (size > best->size && !(dotted && is_word(at(l, i + size)) && at(l, i + size) < 0x80)) {
    best->size = (uint32_t)size;
    best->kind = kind;
  }
}

static void number_suffixes(const sql_lexer *l, size_t i, size_t size, bool dotted, bool has_exponent,
                            sql_token *best) {
  unsigned char c = upper(at(l, i + size));
  if (c == 'F') number_candidate(l, i, size + 1, SQL_FLOAT, dotted, best);
  if (c == 'D') number_candidate(l, i, size + 1, SQL_DOUBLE, dotted, best);
  if (c == 'B' && upper(at(l, i + size + 1)) == 'D') number_candidate(l, i, size + 2, SQL_BIGDECIMAL, dotted, best);
  if (!dotted && !has_exponent) {
    if (c == 'L') number_candidate(l, i, size + 1, SQL_BIGINT, false, best);
    if (c == 'S') number_candidate(l, i, size + 1, SQL_SMALLINT, false, best);
    if (c == 'Y') number_candidate(l, i, size + 1, SQL_TINYINT, false, best);
  }
}

/* The longest number that starts at i, like the generated lexer takes the longest match. size 0: none. */
static void scan_number(const sql_lexer *l, size_t i, sql_token *best) {
  size_t whole = digits(l, i);
  best->size = 0;
  if (whole > 0) {
    number_candidate(l, i, whole, SQL_INTEGER, false, best);
    number_suffixes(l, i, whole, false, false, best);
    size_t e = exponent(l, i + whole);
    if (e > 0) {
      number_candidate(l, i, whole + e, SQL_EXPONENT, false, best);
      number_suffixes(l, i, whole + e, false, true, best);
    }
  }
  if (at(l, i + whole) == '.') {
    size_t size = whole + 1 + digits(l, i + whole + 1);
    if (size == 1) return;
    number_candidate(l, i, size, SQL_DECIMAL, true, best);
    number_suffixes(l, i, size, true, false, best);
    size_t e = exponent(l, i + size);
    if (e > 0) {
      number_candidate(l, i, size + e, SQL_EXPONENT, true, best);
      number_suffixes(l, i, size + e, true, true, best);
    }
  }
}

static size_t word_size(const sql_lexer *l, size_t i) {
  size_t n = 0;
  while (i + n < l->size && is_word((unsigned char)l->text[i + n]) && space_size(l, i + n) == 0) n++;
  return n;
}

/* s3://bucket/path is one token, to be refused by name. */
static size_t uri_size(const sql_lexer *l, size_t i, size_t word) {
  if (word == 0 || i + word + 3 > l->size || memcmp(l->text + i + word, "://", 3) != 0) return 0;
  for (size_t j = 0; j < word; j++) {
    if (!is_letter((unsigned char)l->text[i + j])) return 0;
  }
  size_t n = word + 3;
  while (i + n < l->size && (is_word((unsigned char)l->text[i + n]) || strchr("/-.?=&#%", l->text[i + n]) != NULL) &&
         l->text[i + n] != 0) {
    n++;
  }
  return n > word + 3 ? n : 0;
}

static uint16_t find_keyword(const char *text, size_t size) {
  char word[KEYWORD_SIZE_MAX + 1];
  if (size > KEYWORD_SIZE_MAX) return SQL_IDENTIFIER;
  for (size_t i = 0; i < size; i++) word[i] = (char)upper((unsigned char)text[i]);
  word[size] = 0;
  size_t low = 0, high = sizeof(keywords) / sizeof(keywords[0]);
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(word, keywords[middle].text);
    if (order == 0) return keywords[middle].kind;
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return SQL_IDENTIFIER;
}

static bool scan_word(sql_lexer *l, size_t i, sql_token *token) {
  unsigned char c = at(l, i);
  if (upper(c) == 'R' && (at(l, i + 1) == '\'' || at(l, i + 1) == '"')) {
    size_t raw = quoted_once(l, i + 1, false, &l->unclosed_raw);
    if (raw > 0) {
      token->kind = SQL_STRING;
      token->size = (uint32_t)(raw + 1);
      return true;
    }
  }
  sql_token number = {0};
  if (is_digit(c) || c == '.') scan_number(l, i, &number);
  size_t word = is_word(c) ? word_size(l, i) : 0;
  if (number.size > 0 && number.size >= word) {
    token->kind = number.kind;
    token->size = number.size;
    return true;
  }
  if (word == 0) return false;
  size_t uri = uri_size(l, i, word);
  token->kind = uri > 0 ? SQL_IDENTIFIER : find_keyword(l->text + i, word);
  token->size = (uint32_t)(uri > 0 ? uri : word);
  return true;
}

/* $tag$ ... $tag$ */
static bool scan_dollar(sql_lexer *l, size_t i, sql_token *token) {
  size_t tag = 1;
  if (l->unclosed_dollar) return false;
  while (is_word(at(l, i + tag))) tag++;
  if (at(l, i + tag) != '$') return false;
  tag++;
  for (size_t j = i + tag; j + tag <= l->size; j++) {
    if (l->text[j] == '$' && memcmp(l->text + j, l->text + i, tag) == 0) {
      token->kind = SQL_DOLLAR_STRING;
      token->size = (uint32_t)(j + tag - i);
      return true;
    }
  }
  l->unclosed_dollar = true;
  return false;
}

typedef struct punctuation {
  char text[4];
  uint8_t size;
  uint16_t kind;
  const char *display;
} punctuation;

/* Longest first. */
static const punctuation punctuations[] = {
    {">>>", 3, SQL_SHIFT_RIGHT_UNSIGNED, "'>>>'"},
    {"<=>", 3, SQL_NSEQ, "'<=>'"},
    {"/*+", 3, SQL_HINT_START, "'/*+'"},
    {"==", 2, SQL_EQ, "EQ"},
    {"<>", 2, SQL_NEQ, "'<>'"},
    {"!=", 2, SQL_NEQJ, "'!='"},
    {"<=", 2, SQL_LTE, "LTE"},
    {"!>", 2, SQL_LTE, "LTE"},
    {">=", 2, SQL_GTE, "GTE"},
    {"!<", 2, SQL_GTE, "GTE"},
    {"<<", 2, SQL_SHIFT_LEFT, "'<<'"},
    {">>", 2, SQL_SHIFT_RIGHT, "'>>'"},
    {"||", 2, SQL_CONCAT, "'||'"},
    {"|>", 2, SQL_OPERATOR_PIPE, "'|>'"},
    {"::", 2, SQL_DOUBLE_COLON, "'::'"},
    {"->", 2, SQL_ARROW, "'->'"},
    {"=>", 2, SQL_FAT_ARROW, "'=>'"},
    {"*/", 2, SQL_HINT_END, "'*/'"},
    {";", 1, SQL_SEMICOLON, "';'"},
    {"(", 1, SQL_LEFT_PAREN, "'('"},
    {")", 1, SQL_RIGHT_PAREN, "')'"},
    {",", 1, SQL_COMMA, "','"},
    {".", 1, SQL_DOT, "'.'"},
    {"[", 1, SQL_LEFT_BRACKET, "'['"},
    {"]", 1, SQL_RIGHT_BRACKET, "']'"},
    {"!", 1, SQL_BANG, "'!'"},
    {"=", 1, SQL_EQ, "EQ"},
    {"<", 1, SQL_LT, "'<'"},
    {">", 1, SQL_GT, "'>'"},
    {"+", 1, SQL_PLUS, "'+'"},
    {"-", 1, SQL_MINUS, "'-'"},
    {"*", 1, SQL_ASTERISK, "'*'"},
    {"/", 1, SQL_SLASH, "'/'"},
    {"%", 1, SQL_PERCENT, "'%'"},
    {"~", 1, SQL_TILDE, "'~'"},
    {"&", 1, SQL_AMPERSAND, "'&'"},
    {"|", 1, SQL_PIPE, "'|'"},
    {"^", 1, SQL_HAT, "'^'"},
    {":", 1, SQL_COLON, "':'"},
    {"?", 1, SQL_QUESTION, "'?'"},
};

static void scan_punctuation(sql_lexer *l, size_t i, sql_token *token) {
  for (size_t p = 0; p < sizeof(punctuations) / sizeof(punctuations[0]); p++) {
    const punctuation *candidate = &punctuations[p];
    if (candidate->size <= l->size - i && memcmp(l->text + i, candidate->text, candidate->size) == 0) {
      token->kind = candidate->kind;
      token->size = candidate->size;
      return;
    }
  }
  token->kind = SQL_UNRECOGNIZED;
  token->size = 1;
}

void sql__next_token(sql_lexer *l, sql_token *token) {
  skip_blank(l);
  size_t i = l->at;
  *token = (sql_token){.kind = SQL_END, .start = (uint32_t)i};
  if (i >= l->size) return;
  char c = l->text[i];
  size_t quoted = 0;
  if (c == '\'') quoted = quoted_once(l, i, true, &l->unclosed_single);
  if (c == '"') quoted = quoted_once(l, i, true, &l->unclosed_double);
  if (c == '`') quoted = quoted_once(l, i, false, &l->unclosed_back);
  if (quoted > 0) {
    token->kind = c == '\'' ? SQL_STRING : c == '"' ? SQL_DOUBLE_QUOTED : SQL_BACKQUOTED;
    token->size = (uint32_t)quoted;
  } else if (!(c == '$' && scan_dollar(l, i, token)) && !scan_word(l, i, token)) {
    scan_punctuation(l, i, token);
  }
  l->at = i + token->size;
}

/* Keywords of one spelling in quotes; those of several by the name of the token. */
static const char *const keyword_displays[] = {
#define K(token, text) [KW_##token - SQL_KEYWORDS] = "'" text "'",
#define A(token, text)
#include "frontend/spark/sql/keywords.inc"
#undef K
#undef A
};

const char *sql__kind_display(sql_kind kind) {
  if (kind == KW_RLIKE) return "RLIKE";
  if (kind == KW_TEMPORARY) return "TEMPORARY";
  if (kind == SQL_IDENTIFIER) return "IDENTIFIER";
  if (sql__is_keyword(kind)) return keyword_displays[kind - SQL_KEYWORDS];
  for (size_t p = 0; p < sizeof(punctuations) / sizeof(punctuations[0]); p++) {
    if (punctuations[p].kind == kind) return punctuations[p].display;
  }
  return NULL;
}

bool sql__is_strict_non_reserved(sql_kind kind) {
  switch ((int)kind) {
  case KW_ANTI:
  case KW_CROSS:
  case KW_EXCEPT:
  case KW_FULL:
  case KW_INNER:
  case KW_INTERSECT:
  case KW_JOIN:
  case KW_LATERAL:
  case KW_LEFT:
  case KW_NATURAL:
  case KW_ON:
  case KW_RIGHT:
  case KW_SEMI:
  case KW_SETMINUS:
  case KW_UNION:
  case KW_USING: return true;
  default: return false;
  }
}
