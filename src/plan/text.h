/* Conditions and values of policies as text: tokens, then typed expressions. Internal to src/plan. */
#ifndef TRN_PLAN_TEXT_H
#define TRN_PLAN_TEXT_H
#include "plan/edit.h"

typedef enum text_token_kind {
  TEXT_END = 0,
  TEXT_NAME,   /* plain or quoted: `is_quoted` names are no keywords */
  TEXT_NUMBER, /* digits, with or without a point or an exponent */
  TEXT_STRING, /* quotes doubled inside are still doubled */
  TEXT_SYMBOL
} text_token_kind;

typedef struct text_token {
  text_token_kind kind;
  size_t start, size; /* in the text; of quoted things without the quotes */
  bool is_quoted;
} text_token;

typedef struct text_parser {
  trn_edit *edit;
  const trn_rel **scan; /* NULL: only checked; columns are of an unknown type, which is that of null */
  const trn_text_context *context;
  const char *text;
  size_t at, size;
  text_token token; /* the next one */
  unsigned depth;
  trn_error **error;
} text_parser;

/* INVALID_ARGUMENT with the place of the token in the text. */
trn_status trn__text_fail(text_parser *p, text_token at, const char *format, ...) TRN_PRINTF(3, 4);
trn_status trn__text_next(text_parser *p); /* reads a token */
bool trn__text_is(const text_parser *p, const char *word); /* a keyword (lower case) or a symbol */

/* May it be of any type? Only where a text is checked: else a null without a type is just that. */
static inline bool trn__text_is_unknown(const text_parser *p, const trn_expr *expr) {
  return !p->scan && expr->type->id == TRN_TYPE_NULL;
}

/* ---- types and functions (text_types.c) ---- */
/* Both become of one type that keeps their values. */
trn_status trn__text_unify(text_parser *p, text_token at, const trn_expr **a, const trn_expr **b);
trn_status trn__text_arithmetic(text_parser *p, text_token at, char operation, const trn_expr *a, const trn_expr *b,
                                const trn_expr **out);
trn_status trn__text_function(text_parser *p, text_token name, const trn_expr **args, size_t count,
                              const trn_expr **out);
/* "bigint", "decimal(10,2)", ...; the parser is at its name. */
trn_status trn__text_type(text_parser *p, const trn_type **out);
trn_status trn__text_cast(text_parser *p, text_token at, const trn_expr *value, const trn_type *type,
                          const trn_expr **out);
trn_status trn__text_number(text_parser *p, text_token at, bool negative, const trn_expr **out);

#endif
