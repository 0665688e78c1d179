/* The parser of policy texts: precedence climbing over a hand-written tokenizer, typed as it goes. */
#include "plan/text.h"

#include <stdio.h>

static trn_status expression(text_parser *p, int level, const trn_expr **out);

/* ---- errors and tokens ---- */

trn_status trn__text_fail(text_parser *p, text_token at, const char *format, ...) {
  if (!p->error) return TRN_INVALID_ARGUMENT;
  char what[300], message[600];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  snprintf(message, sizeof message, "%s, at character %zu of \"%.200s\"", what, at.start + 1, p->text);
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = TRN_INVALID_ARGUMENT,
                         .message = message,
                         .has_position = true,
                         .position = {(int32_t)at.start, (int32_t)(at.start + (at.size ? at.size - 1 : 0))}};
  *p->error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Up to the closing quote; a doubled one stays inside. */
static trn_status quoted(text_parser *p, char quote, text_token_kind kind) {
  size_t start = ++p->at;
  while (p->at < p->size && (p->text[p->at] != quote || (p->at + 1 < p->size && p->text[p->at + 1] == quote)))
    p->at += p->text[p->at] == quote ? 2 : 1;
  p->token = (text_token){kind, start, p->at - start, true};
  if (p->at >= p->size) return trn__text_fail(p, p->token, "a quote is not closed");
  p->at++;
  return TRN_OK;
}

static void number(text_parser *p) {
  size_t start = p->at;
  while (p->at < p->size && is_digit(p->text[p->at])) p->at++;
  if (p->at < p->size && p->text[p->at] == '.') p->at++;
  while (p->at < p->size && is_digit(p->text[p->at])) p->at++;
  if (p->at < p->size && (p->text[p->at] == 'e' || p->text[p->at] == 'E')) {
    size_t sign = p->at + 1;
    if (sign < p->size && (p->text[sign] == '+' || p->text[sign] == '-')) sign++;
    if (sign < p->size && is_digit(p->text[sign])) {
      p->at = sign;
      while (p->at < p->size && is_digit(p->text[p->at])) p->at++;
    }
  }
  p->token = (text_token){TEXT_NUMBER, start, p->at - start, false};
}

trn_status trn__text_next(text_parser *p) {
  while (p->at < p->size && (p->text[p->at] == ' ' || (p->text[p->at] >= '\t' && p->text[p->at] <= '\r'))) p->at++;
  p->token = (text_token){TEXT_END, p->at, 0, false};
  if (p->at >= p->size) return TRN_OK;
  char c = p->text[p->at], next = p->at + 1 < p->size ? p->text[p->at + 1] : 0;
  if (c == '\'') return quoted(p, c, TEXT_STRING);
  if (c == '`' || c == '"') return quoted(p, c, TEXT_NAME);
  if (is_digit(c) || (c == '.' && is_digit(next))) {
    number(p);
    return TRN_OK;
  }
  size_t start = p->at;
  if (is_letter(c)) {
    while (p->at < p->size && (is_letter(p->text[p->at]) || is_digit(p->text[p->at]))) p->at++;
    p->token = (text_token){TEXT_NAME, start, p->at - start, false};
    return TRN_OK;
  }
  bool is_pair = (c == '<' && (next == '=' || next == '>')) || (c == '>' && next == '=') || (c == '!' && next == '=') ||
                 (c == '|' && next == '|') || (c == '=' && next == '=');
  p->at += is_pair ? 2 : 1;
  p->token = (text_token){TEXT_SYMBOL, start, p->at - start, false};
  if (strchr("()+-*/%,.=<>!|", c) && (is_pair || (c != '!' && c != '|'))) return TRN_OK;
  return trn__text_fail(p, p->token, "'%c' means nothing here", c);
}

bool trn__text_is(const text_parser *p, const char *word) {
  if (p->token.is_quoted || p->token.kind == TEXT_END || p->token.size != strlen(word)) return false;
  for (size_t i = 0; i < p->token.size; i++) {
    char c = p->text[p->token.start + i];
    if (c >= 'A' && c <= 'Z') c = (char)(c + 32);
    if (c != word[i]) return false;
  }
  return true;
}

static trn_status skip(text_parser *p, const char *word) {
  if (!trn__text_is(p, word)) return trn__text_fail(p, p->token, "'%s' is missing", word);
  return trn__text_next(p);
}

/* Takes the word when it is there. */
static bool accept(text_parser *p, const char *word, trn_status *status) {
  if (*status || !trn__text_is(p, word)) return false;
  *status = trn__text_next(p);
  return *status == TRN_OK;
}

/* ---- making ---- */

static trn_status give(text_parser *p, const trn_expr *expr, const trn_expr **out) {
  *out = expr;
  return expr ? TRN_OK : trn__no_memory(p->error);
}

static trn_status native(text_parser *p, const char *name, const trn_expr *a, const trn_expr *b, bool nullable,
                         const trn_expr **out) {
  const trn_expr *args[] = {a, b};
  return give(p, trn_edit_call(p->edit, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), nullable, args, b ? 2 : 1),
              out);
}

static trn_status to_bool(text_parser *p, text_token at, const trn_expr **expr) {
  if ((*expr)->type->id == TRN_TYPE_BOOL) return TRN_OK;
  if ((*expr)->type->id == TRN_TYPE_NULL) return give(p, trn_edit_null(p->edit, trn__type(TRN_TYPE_BOOL)), expr);
  return trn__text_fail(p, at, "a condition is expected, not a value");
}

static trn_status connect(text_parser *p, text_token at, const char *name, const trn_expr *a, const trn_expr *b,
                          const trn_expr **out) {
  trn_status status = to_bool(p, at, &a);
  if (status == TRN_OK) status = to_bool(p, at, &b);
  return status ? status : native(p, name, a, b, a->nullable || b->nullable, out);
}

static trn_status negate(text_parser *p, text_token at, const trn_expr **expr) {
  trn_status status = to_bool(p, at, expr);
  return status ? status : native(p, "not", *expr, NULL, (*expr)->nullable, expr);
}

static trn_status compare(text_parser *p, text_token at, const char *name, const trn_expr *a, const trn_expr *b,
                          const trn_expr **out) {
  trn_status status = trn__text_unify(p, at, &a, &b);
  if (status) return status;
  if (a->type->id >= TRN_TYPE_ARRAY) return trn__text_fail(p, at, "nested values are not compared");
  return native(p, name, a, b, a->nullable || b->nullable, out);
}

/* ---- leaves ---- */

static trn_status string_literal(text_parser *p, text_token at, const trn_expr **out) {
  trn_strbuf text = {0};
  for (size_t i = 0; i < at.size; i++) {
    trn__strbuf_putc(&text, p->text[at.start + i]);
    if (p->text[at.start + i] == '\'') i++;
  }
  const trn_expr *expr = text.failed ? NULL : trn_edit_text(p->edit, text.data ? text.data : "", text.size);
  trn__strbuf_finish(&text);
  return give(p, expr, out);
}

/* date '2024-01-31': the engine reads it, once, when it folds the cast. */
static trn_status typed_literal(text_parser *p, trn_type_id type, const trn_expr **out) {
  text_token at = p->token;
  const trn_expr *text = NULL;
  trn_status status = string_literal(p, at, &text);
  if (status == TRN_OK) status = trn__text_next(p);
  return status ? status : trn__text_cast(p, at, text, trn__type(type), out);
}

static trn_status field_of(text_parser *p, const trn_expr **expr) {
  text_token at = p->token;
  const trn_type *type = (*expr)->type;
  if (type->id != TRN_TYPE_STRUCT) return trn__text_fail(p, at, "only structs have fields");
  for (uint32_t i = 0; i < type->field_count; i++) {
    const trn_field *field = &type->fields[i];
    if (strlen(field->name) != at.size || memcmp(field->name, p->text + at.start, at.size) != 0) continue;
    const trn_expr *args[] = {*expr, trn_edit_text(p->edit, field->name, at.size)};
    bool nullable = (*expr)->nullable || field->nullable;
    trn_status status =
        give(p, trn_edit_call(p->edit, TRN_HOME_NATIVE, "get_field", field->type, nullable, args, 2), expr);
    return status ? status : trn__text_next(p);
  }
  return trn__text_fail(p, at, "there is no field '%.*s'", (int)at.size, p->text + at.start);
}

/* A name without a table: any column, and any field of it. */
static trn_status unknown_column(text_parser *p, const trn_expr **out) {
  trn_status status = give(p, trn_edit_null(p->edit, trn__type(TRN_TYPE_NULL)), out);
  while (status == TRN_OK && accept(p, ".", &status))
    status = p->token.kind == TEXT_NAME ? trn__text_next(p) : trn__text_fail(p, p->token, "a field's name is missing");
  return status;
}

static trn_status column(text_parser *p, text_token name, const trn_expr **out) {
  if (!p->scan) return unknown_column(p, out);
  const trn_scan_label *label = (*p->scan)->u.scan.info;
  uint32_t index = trn__label_find_column(label, p->text + name.start, name.size);
  if (index == UINT32_MAX) {
    char *what = trn_scan_label_text(label);
    trn_status status = trn__text_fail(p, name, "there is no column '%.*s' in %s", (int)name.size,
                                       p->text + name.start, what ? what : "the table");
    trn_free(what);
    return status;
  }
  uint32_t place = trn__edit_scan_column(p->edit, p->scan, index);
  if (place == UINT32_MAX) return trn__no_memory(p->error);
  trn_status status = give(p, trn_edit_column(p->edit, *p->scan, place), out);
  while (status == TRN_OK && accept(p, ".", &status)) status = field_of(p, out);
  return status;
}

static trn_status call(text_parser *p, text_token name, const trn_expr **out) {
  enum { ARGS_MAX = 16 };
  const trn_expr *args[ARGS_MAX];
  size_t count = 0;
  trn_status status = trn__text_next(p); /* the parenthesis */
  bool is_empty = trn__text_is(p, ")");
  while (status == TRN_OK && !is_empty) {
    if (count == ARGS_MAX) return trn__text_fail(p, p->token, "a function has more than %d arguments", ARGS_MAX);
    status = expression(p, 0, &args[count++]);
    if (!accept(p, ",", &status)) break;
  }
  if (status == TRN_OK) status = skip(p, ")");
  return status ? status : trn__text_function(p, name, args, count, out);
}

static trn_status cast_call(text_parser *p, const trn_expr **out) {
  text_token at = p->token;
  const trn_expr *value = NULL;
  const trn_type *type = NULL;
  trn_status status = skip(p, "(");
  if (status == TRN_OK) status = expression(p, 0, &value);
  if (status == TRN_OK) status = skip(p, "as");
  if (status == TRN_OK) status = trn__text_type(p, &type);
  if (status == TRN_OK) status = skip(p, ")");
  return status ? status : trn__text_cast(p, at, value, type, out);
}

/* case [value] when .. then .. [else ..] end */
static trn_status case_of(text_parser *p, const trn_expr **out) {
  enum { ARGS_MAX = 65 };
  const trn_expr *args[ARGS_MAX], *value = NULL;
  size_t count = 0;
  text_token at = p->token;
  trn_status status = TRN_OK;
  if (!trn__text_is(p, "when")) status = expression(p, 0, &value);
  while (accept(p, "when", &status)) {
    if (count + 3 > ARGS_MAX) return trn__text_fail(p, p->token, "a case has too many branches");
    at = p->token;
    status = expression(p, 0, &args[count]);
    if (status == TRN_OK && value) status = compare(p, at, "=", value, args[count], &args[count]);
    if (status == TRN_OK) status = to_bool(p, at, &args[count]);
    if (status == TRN_OK) status = skip(p, "then");
    if (status == TRN_OK) status = expression(p, 0, &args[count + 1]);
    count += 2;
  }
  if (status == TRN_OK && !count) return trn__text_fail(p, at, "a case has no branch");
  if (accept(p, "else", &status)) status = expression(p, 0, &args[count++]);
  if (status == TRN_OK) status = skip(p, "end");
  /* All values of one type: twice, since the last may widen the first. */
  for (size_t pass = 0; pass < 2; pass++)
    for (size_t i = 3; i <= count && status == TRN_OK; i += 2)
      status = trn__text_unify(p, at, &args[1], &args[i < count ? i : count - 1]);
  return status ? status : give(p, trn_edit_case(p->edit, args, count), out);
}

static trn_status name_or_call(text_parser *p, const trn_expr **out) {
  text_token name = p->token;
  trn_status status = trn__text_next(p);
  if (status) return status;
  text_parser saved = *p;
  saved.token = name;
  bool is_call = trn__text_is(p, "(");
  if (trn__text_is(&saved, "true") || trn__text_is(&saved, "false"))
    return give(p, trn_edit_bool(p->edit, trn__text_is(&saved, "true")), out);
  if (trn__text_is(&saved, "null")) return give(p, trn_edit_null(p->edit, trn__type(TRN_TYPE_NULL)), out);
  if (trn__text_is(&saved, "case")) return case_of(p, out);
  if (is_call && trn__text_is(&saved, "cast")) return cast_call(p, out);
  if (p->token.kind == TEXT_STRING && trn__text_is(&saved, "date")) return typed_literal(p, TRN_TYPE_DATE, out);
  if (p->token.kind == TEXT_STRING && trn__text_is(&saved, "timestamp"))
    return typed_literal(p, TRN_TYPE_TIMESTAMP, out);
  return is_call && !name.is_quoted ? call(p, name, out) : column(p, name, out);
}

static trn_status primary(text_parser *p, const trn_expr **out) {
  text_token at = p->token;
  trn_status status = TRN_OK;
  switch (at.kind) {
  case TEXT_NAME: return name_or_call(p, out);
  case TEXT_NUMBER:
    status = trn__text_number(p, at, false, out);
    return status ? status : trn__text_next(p);
  case TEXT_STRING:
    status = string_literal(p, at, out);
    return status ? status : trn__text_next(p);
  default: break;
  }
  if (accept(p, "-", &status)) {
    at = p->token;
    if (at.kind == TEXT_NUMBER) {
      status = trn__text_number(p, at, true, out);
      return status ? status : trn__text_next(p);
    }
    const trn_expr *zero = trn_edit_int(p->edit, trn__type(TRN_TYPE_INT32), 0), *value = NULL;
    status = primary(p, &value);
    return status ? status : zero ? trn__text_arithmetic(p, at, '-', zero, value, out) : trn__no_memory(p->error);
  }
  if (accept(p, "(", &status)) {
    status = expression(p, 0, out);
    return status ? status : skip(p, ")");
  }
  return status ? status : trn__text_fail(p, at, at.kind == TEXT_END ? "the text ends too early" : "a value is missing");
}

/* ---- operators; levels: 0 or, 1 and, 2 not, 3 comparisons, 4 + - ||, 5 * / % ---- */

static trn_status in_list(text_parser *p, text_token at, const trn_expr *value, bool negated, const trn_expr **out) {
  enum { ITEMS_MAX = 1000 };
  trn_status status = skip(p, "(");
  trn_vec items = {0};
  if (status == TRN_OK && !trn__vec_push(&items, (void *)value)) status = trn__no_memory(p->error);
  while (status == TRN_OK) {
    const trn_expr *item = NULL;
    status = expression(p, 4, &item);
    if (status == TRN_OK && items.count > ITEMS_MAX)
      status = trn__text_fail(p, at, "a list has more than %d items", ITEMS_MAX);
    if (status == TRN_OK && !trn__vec_push(&items, (void *)item)) status = trn__no_memory(p->error);
    if (!accept(p, ",", &status)) break;
  }
  if (status == TRN_OK) status = skip(p, ")");
  bool nullable = false;
  const trn_expr **args = (const trn_expr **)items.items;
  for (size_t pass = 0; pass < 2; pass++) /* the last may widen the first */
    for (size_t i = 1; i < items.count && status == TRN_OK; i++) status = trn__text_unify(p, at, &args[0], &args[i]);
  for (size_t i = 0; i < items.count && status == TRN_OK; i++) nullable |= args[i]->nullable;
  if (status == TRN_OK) {
    trn_expr *expr = trn__expr_create(p->edit->arena, TRN_EXPR_IN_LIST, trn__type(TRN_TYPE_BOOL), nullable, args,
                                      items.count);
    if (expr) expr->u.in_list.negated = negated;
    status = give(p, expr, out);
  }
  trn__vec_finish(&items);
  return status;
}

static trn_status between(text_parser *p, text_token at, const trn_expr *value, bool negated, const trn_expr **out) {
  const trn_expr *low = NULL, *high = NULL;
  trn_status status = expression(p, 4, &low);
  if (status == TRN_OK) status = skip(p, "and");
  if (status == TRN_OK) status = expression(p, 4, &high);
  if (status == TRN_OK) status = compare(p, at, ">=", value, low, &low);
  if (status == TRN_OK) status = compare(p, at, "<=", value, high, &high);
  if (status == TRN_OK) status = connect(p, at, "and", low, high, out);
  return status == TRN_OK && negated ? negate(p, at, out) : status;
}

static trn_status like(text_parser *p, text_token at, const trn_expr *value, bool negated, const trn_expr **out) {
  const trn_expr *pattern = NULL;
  trn_status status = expression(p, 4, &pattern);
  if (status) return status;
  if ((value->type->id != TRN_TYPE_STRING && !trn__text_is_unknown(p, value)) ||
      (pattern->type->id != TRN_TYPE_STRING && !trn__text_is_unknown(p, pattern)))
    return trn__text_fail(p, at, "like compares texts");
  status = native(p, "like", value, pattern, value->nullable || pattern->nullable, out);
  return status == TRN_OK && negated ? negate(p, at, out) : status;
}

/* What may follow a value at level 3; false: nothing of it. */
static bool comparison(text_parser *p, const trn_expr *left, trn_status *status, const trn_expr **out) {
  static const char *const operators[][2] = {{"=", "="},  {"==", "="}, {"<>", "!="}, {"!=", "!="},
                                             {"<=", "<="}, {">=", ">="}, {"<", "<"},   {">", ">"}};
  text_token at = p->token;
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    const trn_expr *right = NULL;
    if (!accept(p, operators[i][0], status)) continue;
    *status = expression(p, 4, &right);
    if (*status == TRN_OK) *status = compare(p, at, operators[i][1], left, right, out);
    return true;
  }
  if (accept(p, "is", status)) {
    bool negated = accept(p, "not", status);
    if (*status == TRN_OK) *status = skip(p, "null");
    if (*status == TRN_OK) *status = native(p, negated ? "is_not_null" : "is_null", left, NULL, false, out);
    return true;
  }
  bool negated = accept(p, "not", status);
  if (accept(p, "in", status))
    *status = in_list(p, at, left, negated, out);
  else if (accept(p, "between", status))
    *status = between(p, at, left, negated, out);
  else if (accept(p, "like", status))
    *status = like(p, at, left, negated, out);
  else if (negated && *status == TRN_OK)
    *status = trn__text_fail(p, p->token, "'in', 'between' or 'like' is missing");
  else
    return *status != TRN_OK;
  return true;
}

static trn_status join_texts(text_parser *p, text_token at, const trn_expr *a, const trn_expr *b,
                             const trn_expr **out) {
  text_token name = {TEXT_NAME, at.start, at.size, false};
  const trn_expr *args[] = {a, b};
  return trn__text_function(p, name, args, 2, out);
}

/* One operator of this level and its right side; false: there is none. */
static bool binary(text_parser *p, int level, const trn_expr *left, trn_status *status, const trn_expr **out) {
  const trn_expr *right = NULL;
  text_token at = p->token;
  static const char *const words[6] = {[0] = "or", [1] = "and"};
  if (level <= 1) {
    if (!accept(p, words[level], status)) return *status != TRN_OK;
    *status = expression(p, level + 1, &right);
    if (*status == TRN_OK) *status = connect(p, at, words[level], left, right, out);
    return true;
  }
  if (level == 3) return comparison(p, left, status, out);
  const char *symbols = level == 4 ? "+-" : level == 5 ? "*/%" : "";
  bool joins = level == 4 && trn__text_is(p, "||");
  bool is_one = p->token.kind == TEXT_SYMBOL && at.size == 1 && strchr(symbols, p->text[at.start]);
  if (level < 4 || (!joins && !is_one)) return false;
  *status = trn__text_next(p);
  if (*status == TRN_OK) *status = expression(p, level + 1, &right);
  if (*status == TRN_OK && joins)
    *status = join_texts(p, at, left, right, out);
  else if (*status == TRN_OK)
    *status = trn__text_arithmetic(p, at, p->text[at.start], left, right, out);
  return true;
}

static trn_status expression(text_parser *p, int level, const trn_expr **out) {
  if (p->depth >= TRN_POLICY_TEXT_DEPTH_MAX)
    return trn__text_fail(p, p->token, "nested deeper than TRN_POLICY_TEXT_DEPTH_MAX (%u)", TRN_POLICY_TEXT_DEPTH_MAX);
  p->depth++;
  trn_status status = TRN_OK;
  text_token at = p->token;
  if (level == 2 && accept(p, "not", &status)) {
    status = expression(p, 2, out);
    if (status == TRN_OK) status = negate(p, at, out);
  } else if (status == TRN_OK && level > 5) {
    status = primary(p, out);
  } else if (status == TRN_OK) {
    status = expression(p, level + 1, out);
    const trn_expr *left = *out;
    while (status == TRN_OK && binary(p, level, left, &status, out)) left = *out;
  }
  p->depth--;
  return status;
}

/* The whole text; `type`: as of trn_edit_parse. */
static trn_status parse(text_parser *p, const trn_type *type, const trn_expr **out) {
  if (p->size > TRN_POLICY_TEXT_BYTES_MAX)
    return trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "a policy's text is longer than TRN_POLICY_TEXT_BYTES_MAX (%u)", TRN_POLICY_TEXT_BYTES_MAX);
  trn_status status = trn__text_next(p);
  if (status == TRN_OK) status = expression(p, 0, out);
  if (status == TRN_OK && p->token.kind != TEXT_END)
    status = trn__text_fail(p, p->token, "the text goes on after its end");
  text_token whole = {TEXT_NAME, 0, p->size, false};
  if (status == TRN_OK && type && type->id == TRN_TYPE_BOOL) status = to_bool(p, whole, out);
  if (status == TRN_OK && type) status = trn__text_cast(p, whole, *out, type, out);
  return status == TRN_OK && p->edit->failed ? trn__no_memory(p->error) : status;
}

trn_status trn_edit_parse(trn_edit *edit, const trn_rel **scan, const char *text, const trn_text_context *context,
                          const trn_type *type, const trn_expr **out, trn_error **error) {
  *out = NULL;
  text_parser p = {
      .edit = edit, .scan = scan, .context = context, .text = text, .size = strlen(text), .error = error};
  if ((*scan)->kind != TRN_REL_SCAN || !(*scan)->u.scan.info)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a text is over a scan that has a label");
  return parse(&p, type, out);
}

trn_status trn__text_check(const char *text, bool is_condition, trn_error **error) {
  trn_edit edit = {.arena = trn__arena_create(0)};
  if (!edit.arena) return trn__no_memory(error);
  text_parser p = {.edit = &edit, .text = text, .size = strlen(text), .error = error};
  const trn_expr *expr = NULL;
  trn_status status = parse(&p, is_condition ? trn__type(TRN_TYPE_BOOL) : NULL, &expr);
  trn__arena_unref(edit.arena);
  return status;
}
