/* SQL texts as tokens: where placeholders are, which words a statement begins with. Knows quotes and comments, not grammar. */
#include <ctype.h>
#include <strings.h>

#include "frontend/flightsql/flightsql.h"

enum { NAME_PARTS_MAX = 3 };

typedef struct lexer {
  trn_arena *arena;
  flightsql_text *text;
  flightsql_dialect dialect;
  size_t at, capacity;
  size_t name_capacity;
  trn_map *names; /* of parameters -> index + 1; NULL: none yet */
  bool has_unnamed;
  uint32_t questions;
  unsigned inside; /* of [ and {: a colon means something else there */
} lexer;

static bool is_word(unsigned char c) { return isalnum(c) || c == '_' || c >= 0x80; }

static trn_status add(lexer *l, flightsql_token_kind kind, size_t start, uint32_t parameter, trn_error **error) {
  flightsql_text *text = l->text;
  if (text->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 64;
    flightsql_token *grown = TRN_NEW_N(l->arena, flightsql_token, capacity);
    if (!grown) return trn__no_memory(error);
    if (text->count) memcpy(grown, text->tokens, text->count * sizeof *grown);
    text->tokens = grown;
    l->capacity = capacity;
  }
  text->tokens[text->count++] = (flightsql_token){kind, (uint32_t)start, (uint32_t)(l->at - start), parameter};
  return TRN_OK;
}

/* Behind a quoted piece; a doubled quote stands for itself. False: it does not end. */
static bool skip_quoted(lexer *l, char quote, bool has_escapes) {
  const char *data = l->text->data;
  for (l->at++; l->at < l->text->size; l->at++) {
    if (has_escapes && data[l->at] == '\\') {
      l->at++;
    } else if (data[l->at] == quote) {
      l->at++;
      if (l->at >= l->text->size || data[l->at] != quote) return true;
    }
  }
  l->at = l->text->size;
  return false;
}

/* The size of the mark that begins a text in dollars, "$$" or "$tag$"; 0: none begins here. */
static size_t dollar_mark(const lexer *l) {
  const char *data = l->text->data;
  size_t end = l->at + 1;
  if (l->dialect != FLIGHTSQL_ENGINE || data[l->at] != '$') return 0;
  while (end < l->text->size && is_word((unsigned char)data[end])) end++;
  return end < l->text->size && data[end] == '$' ? end + 1 - l->at : 0;
}

/* Behind the mark's next place, which ends the text. False: it has none. */
static bool skip_dollars(lexer *l, size_t mark) {
  const char *data = l->text->data, *from = data + l->at;
  for (l->at += mark; l->at + mark <= l->text->size; l->at++) {
    const char *dollar = memchr(data + l->at, '$', l->text->size - l->at);
    if (!dollar) break;
    l->at = (size_t)(dollar - data);
    if (l->at + mark > l->text->size || memcmp(dollar, from, mark) != 0) continue;
    l->at += mark;
    return true;
  }
  l->at = l->text->size;
  return false;
}

/* Behind blanks and comments. False: a comment does not end. */
static bool skip_blank(lexer *l) {
  const char *data = l->text->data;
  size_t size = l->text->size;
  for (;;) {
    while (l->at < size && (isspace((unsigned char)data[l->at]) || data[l->at] == 0)) l->at++;
    if (l->at + 1 < size && data[l->at] == '-' && data[l->at + 1] == '-') {
      while (l->at < size && data[l->at] != '\n') l->at++;
    } else if (l->at + 1 < size && data[l->at] == '/' && data[l->at + 1] == '*') {
      unsigned depth = 1;
      for (l->at += 2; l->at + 1 < size && depth; l->at++) {
        if (data[l->at] == '*' && data[l->at + 1] == '/') depth--, l->at++;
        else if (data[l->at] == '/' && data[l->at + 1] == '*') depth++, l->at++;
      }
      if (depth) return false;
    } else {
      return true;
    }
  }
}

/* The index of the parameter of that name, which has been or is added. */
static trn_status name_index(lexer *l, const char *name, size_t size, uint32_t *index, trn_error **error) {
  flightsql_text *text = l->text;
  if (!l->names && !(l->names = trn__map_create())) return trn__no_memory(error);
  const void *known = trn__map_get(l->names, name, size);
  *index = known ? (uint32_t)(uintptr_t)known - 1 : text->name_count;
  if (known || *index >= TRN_FLIGHT_PARAMETERS_MAX) return TRN_OK; /* what is too many is refused by the caller */
  if (text->name_count == l->name_capacity) {
    size_t capacity = l->name_capacity ? 2 * l->name_capacity : 8;
    const char **grown = TRN_NEW_N(l->arena, const char *, capacity);
    if (!grown) return trn__no_memory(error);
    if (text->name_count) memcpy(grown, text->names, text->name_count * sizeof *grown);
    text->names = grown;
    l->name_capacity = capacity;
  }
  text->names[text->name_count] = trn__arena_str(l->arena, name, size);
  if (!text->names[text->name_count] || !trn__map_set(l->names, name, size, (void *)(uintptr_t)(*index + 1), NULL))
    return trn__no_memory(error);
  text->name_count++;
  return TRN_OK;
}

/* "$name", ":name": but "a:b", "a::b" and what is in brackets are no parameters. */
static bool is_named(const lexer *l, size_t start) {
  const char *data = l->text->data;
  unsigned char next = start + 1 < l->text->size ? (unsigned char)data[start + 1] : 0;
  if (!is_word(next) || isdigit(next)) return false;
  size_t end = start + 1;
  while (end < l->text->size && is_word((unsigned char)data[end])) end++;
  if (data[start] == '$') return end == l->text->size || data[end] != '$'; /* $tag$ begins a text */
  unsigned char before = start ? (unsigned char)data[start - 1] : ' ';
  return data[start] == ':' && !l->inside && !is_word(before) && !strchr(":)]}'\"`", before);
}

static trn_status placeholder(lexer *l, size_t start, trn_error **error) {
  uint32_t index = 0;
  bool has_name = is_named(l, start);
  if (has_name) {
    for (l->at++; l->at < l->text->size && is_word((unsigned char)l->text->data[l->at]);) l->at++;
    trn_status status = name_index(l, l->text->data + start + 1, l->at - start - 1, &index, error);
    if (status) return status;
  } else if (l->text->data[start] == '?') {
    l->at++;
    index = l->questions++;
  } else {
    uint64_t number = 0;
    for (l->at++; l->at < l->text->size && isdigit((unsigned char)l->text->data[l->at]); l->at++)
      if (number <= TRN_FLIGHT_PARAMETERS_MAX) number = number * 10 + (uint64_t)(l->text->data[l->at] - '0');
    if (!number) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Parameters count from $1");
    index = (uint32_t)number - 1;
  }
  if (index >= TRN_FLIGHT_PARAMETERS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A statement has at most %u parameters",
                         TRN_FLIGHT_PARAMETERS_MAX);
  l->has_unnamed |= !has_name;
  if (l->has_unnamed && l->text->name_count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A statement has parameters with names, or without: not both");
  if (index >= l->text->parameter_count) l->text->parameter_count = index + 1;
  return add(l, FLIGHTSQL_PLACEHOLDER, start, index, error);
}

static trn_status next_token(lexer *l, trn_error **error) {
  const char *data = l->text->data;
  size_t start = l->at, size = l->text->size;
  unsigned char c = (unsigned char)data[start];
  bool ended = true;
  size_t mark = dollar_mark(l);
  flightsql_token_kind kind = FLIGHTSQL_SYMBOL;
  if (c == '\'') {
    kind = FLIGHTSQL_STRING;
    ended = skip_quoted(l, '\'', l->dialect == FLIGHTSQL_SPARK);
  } else if (c == '"' || c == '`') {
    bool is_text = c == '"' && l->dialect == FLIGHTSQL_SPARK;
    kind = is_text ? FLIGHTSQL_STRING : FLIGHTSQL_QUOTED;
    ended = skip_quoted(l, (char)c, is_text);
  } else if (mark) {
    kind = FLIGHTSQL_STRING;
    ended = skip_dollars(l, mark);
  } else if (c == '?' || (c == '$' && start + 1 < size && isdigit((unsigned char)data[start + 1])) || is_named(l, start)) {
    return placeholder(l, start, error);
  } else if (isdigit(c)) {
    kind = FLIGHTSQL_NUMBER;
    while (l->at < size && (is_word((unsigned char)data[l->at]) || data[l->at] == '.')) l->at++;
  } else if (is_word(c)) {
    kind = FLIGHTSQL_WORD;
    bool has_dollars = l->dialect == FLIGHTSQL_ENGINE; /* a$b is a name there */
    while (l->at < size && (is_word((unsigned char)data[l->at]) || (has_dollars && data[l->at] == '$'))) l->at++;
  } else {
    if (c == '[' || c == '{') l->inside++;
    if ((c == ']' || c == '}') && l->inside) l->inside--;
    l->at++;
  }
  if (!ended) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The SQL text ends inside of quotes");
  return add(l, kind, start, 0, error);
}

trn_status flightsql__text_read(trn_arena *arena, const char *data, size_t size, flightsql_dialect dialect,
                                flightsql_text *out, trn_error **error) {
  if (size > TRN_FLIGHT_SQL_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The SQL text has %zu bytes, the limit is %u", size,
                         TRN_FLIGHT_SQL_BYTES_MAX);
  *out = (flightsql_text){.data = data, .size = size};
  lexer l = {.arena = arena, .text = out, .dialect = dialect};
  trn_status status = TRN_OK;
  for (;;) {
    if (!skip_blank(&l))
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The SQL text ends inside of a comment");
    else if (l.at < size)
      status = next_token(&l, error);
    else
      break;
    if (status) break;
  }
  trn__map_destroy(l.names, NULL);
  if (status) return status;
  while (out->count && out->data[out->tokens[out->count - 1].start] == ';') out->count--;
  if (!out->count) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The SQL text is empty");
  return TRN_OK;
}

bool flightsql__token_is(const flightsql_text *text, size_t index, const char *word) {
  if (index >= text->count) return false;
  const flightsql_token *token = &text->tokens[index];
  return (token->kind == FLIGHTSQL_WORD || token->kind == FLIGHTSQL_SYMBOL) && token->size == strlen(word) &&
         strncasecmp(text->data + token->start, word, token->size) == 0;
}

char *flightsql__token_name(trn_arena *arena, const flightsql_text *text, size_t index) {
  const flightsql_token *token = &text->tokens[index];
  char *name = trn__arena_str(arena, text->data + token->start, token->size);
  if (!name) return NULL;
  if (token->kind == FLIGHTSQL_WORD) {
    for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
    return name;
  }
  if (token->kind != FLIGHTSQL_QUOTED && token->kind != FLIGHTSQL_STRING) return name;
  char quote = name[0], *to = name;
  for (const char *from = name + 1; from < name + token->size - 1; from++) {
    *to++ = *from;
    if (*from == quote && from[1] == quote) from++;
  }
  *to = 0;
  return name;
}

char *flightsql__text_slice(trn_arena *arena, const flightsql_text *text, size_t from, size_t to,
                            const char *const *literals) {
  trn_strbuf out = {0};
  if (from < to) {
    size_t at = text->tokens[from].start, end = text->tokens[to - 1].start + text->tokens[to - 1].size;
    for (size_t i = from; literals && i < to; i++) {
      const flightsql_token *token = &text->tokens[i];
      if (token->kind != FLIGHTSQL_PLACEHOLDER) continue;
      trn__strbuf_add(&out, text->data + at, token->start - at);
      trn__strbuf_puts(&out, literals[token->parameter]);
      at = token->start + token->size;
    }
    trn__strbuf_add(&out, text->data + at, end - at);
  }
  char *copy = out.failed ? NULL : trn__arena_str(arena, out.data ? out.data : "", out.size);
  trn__strbuf_finish(&out);
  return copy;
}

/* ---- names and brackets ---- */

bool flightsql__token_is_name(const flightsql_text *text, size_t index) {
  return index < text->count && (text->tokens[index].kind == FLIGHTSQL_WORD || text->tokens[index].kind == FLIGHTSQL_QUOTED);
}

size_t flightsql__text_closing(const flightsql_text *text, size_t at) {
  size_t depth = 0;
  for (; at < text->count; at++) {
    if (flightsql__token_is(text, at, "(")) depth++;
    if (flightsql__token_is(text, at, ")") && --depth == 0) return at + 1;
  }
  return 0;
}

trn_status flightsql__parse_name(trn_arena *arena, const flightsql_text *text, size_t *at, const char ***parts,
                                 size_t *count, trn_error **error) {
  *parts = TRN_NEW_N(arena, const char *, NAME_PARTS_MAX);
  *count = 0;
  if (!*parts) return trn__no_memory(error);
  for (;;) {
    if (!flightsql__token_is_name(text, *at))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A name is expected%s", *count ? " behind '.'" : "");
    if (*count == NAME_PARTS_MAX)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A name has at most %d parts", NAME_PARTS_MAX);
    (*parts)[*count] = flightsql__token_name(arena, text, (*at)++);
    if (!(*parts)[(*count)++]) return trn__no_memory(error);
    if (!flightsql__token_is(text, *at, ".")) return TRN_OK;
    (*at)++;
  }
}

bool flightsql__insert_shape(const flightsql_text *text, size_t *name_end, size_t *columns_at, size_t *row_at,
                             size_t *row_end) {
  size_t at = 2;
  if (!flightsql__token_is(text, 0, "insert") || !flightsql__token_is(text, 1, "into")) return false;
  if (flightsql__token_is(text, at, "table")) at++;
  while (flightsql__token_is_name(text, at) && flightsql__token_is(text, at + 1, ".")) at += 2;
  if (!flightsql__token_is_name(text, at++)) return false;
  *name_end = at;
  *columns_at = 0;
  if (flightsql__token_is(text, at, "(")) {
    *columns_at = at;
    at = flightsql__text_closing(text, at);
    if (!at) return false;
  }
  if (!flightsql__token_is(text, at, "values") || !flightsql__token_is(text, at + 1, "(")) return false;
  *row_at = at + 1;
  *row_end = flightsql__text_closing(text, at + 1);
  return *row_end == text->count;
}
