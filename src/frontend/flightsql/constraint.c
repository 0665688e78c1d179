/* Keys of CREATE TABLE t (..): the engine's planner drops those that it has no word for, and the names of all. */
#include "frontend/flightsql/flightsql.h"

typedef struct parser {
  trn_arena *arena;
  const flightsql_text *text;
  size_t at;
  trn_constraint *constraints;
  size_t count;
  trn_error **error;
} parser;

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

static trn_status unexpected(parser *p, const char *wanted) {
  if (p->at >= p->text->count)
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The statement ends where %s is expected", wanted);
  const flightsql_token *token = &p->text->tokens[p->at];
  return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "Syntax error at '%.*s' (byte %u): %s is expected",
                       (int)(token->size < 80 ? token->size : 80), p->text->data + token->start, token->start, wanted);
}

/* "(a, b)" as names. */
static trn_status name_list(parser *p, const char *const **out, size_t *count) {
  size_t end = flightsql__text_closing(p->text, p->at);
  if (!is(p, "(") || !end) return unexpected(p, "a list of names in brackets");
  const char **names = TRN_NEW_N(p->arena, const char *, end - p->at);
  if (!names) return trn__no_memory(p->error);
  *count = 0;
  for (p->at++; p->at < end - 1;) {
    if (!flightsql__token_is_name(p->text, p->at)) return unexpected(p, "a name");
    names[*count] = flightsql__token_name(p->arena, p->text, p->at++);
    if (!names[(*count)++]) return trn__no_memory(p->error);
    if (p->at < end - 1 && !take(p, ",")) return unexpected(p, "','");
  }
  p->at = end;
  *out = names;
  return TRN_OK;
}

static trn_constraint *add(parser *p, trn_constraint_kind kind, const char *const *columns, size_t count) {
  p->constraints[p->count] = (trn_constraint){.kind = kind, .columns = columns, .column_count = count};
  return &p->constraints[p->count++];
}

static trn_status references(parser *p, trn_constraint *constraint) {
  const char **parts;
  size_t count;
  if (!take(p, "references")) return unexpected(p, "REFERENCES");
  trn_status status = flightsql__parse_name(p->arena, p->text, &p->at, &parts, &count, p->error);
  if (status) return status;
  constraint->target_table = parts[count - 1];
  constraint->target_database = count > 1 ? parts[count - 2] : NULL;
  status = name_list(p, &constraint->target_columns, &count);
  if (!status && count != constraint->column_count)
    status = trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "A foreign key refers to as many columns as it has");
  return status;
}

/* [CONSTRAINT name] PRIMARY KEY (..) | UNIQUE (..) | FOREIGN KEY (..) REFERENCES t (..). *is_one false: it is a column. */
static trn_status table_constraint(parser *p, bool *is_one) {
  const char *name = NULL, *const *columns = NULL;
  size_t count = 0;
  trn_constraint_kind kind = TRN_CONSTRAINT_PRIMARY_KEY;
  *is_one = true;
  if (is(p, "constraint") && flightsql__token_is_name(p->text, p->at + 1)) {
    name = flightsql__token_name(p->arena, p->text, p->at + 1);
    p->at += 2;
  }
  if (take2(p, "foreign", "key")) {
    kind = TRN_CONSTRAINT_FOREIGN_KEY;
  } else if (is(p, "unique") && flightsql__token_is(p->text, p->at + 1, "(")) {
    p->at++;
    kind = TRN_CONSTRAINT_UNIQUE;
  } else if (!take2(p, "primary", "key")) {
    *is_one = false;
    return name ? unexpected(p, "PRIMARY KEY, UNIQUE or FOREIGN KEY") : TRN_OK;
  }
  trn_status status = name_list(p, &columns, &count);
  if (status) return status;
  trn_constraint *constraint = add(p, kind, columns, count);
  constraint->name = name;
  return kind == TRN_CONSTRAINT_FOREIGN_KEY ? references(p, constraint) : TRN_OK;
}

/* What keys a column says that it is. */
static trn_status column_keys(parser *p, size_t end) {
  if (!flightsql__token_is_name(p->text, p->at)) return unexpected(p, "a column's name");
  const char *name = flightsql__token_name(p->arena, p->text, p->at++);
  if (!name) return trn__no_memory(p->error);
  while (p->at < end && !is(p, ",")) {
    bool is_primary = take2(p, "primary", "key");
    if (is_primary || take(p, "unique")) {
      const char **columns = TRN_NEW(p->arena, const char *);
      if (!columns) return trn__no_memory(p->error);
      *columns = name;
      add(p, is_primary ? TRN_CONSTRAINT_PRIMARY_KEY : TRN_CONSTRAINT_UNIQUE, columns, 1);
      continue;
    }
    size_t behind = is(p, "(") ? flightsql__text_closing(p->text, p->at) : p->at + 1;
    if (!behind) return unexpected(p, "')'");
    p->at = behind;
  }
  return TRN_OK;
}

trn_status flightsql__parse_constraints(trn_arena *arena, const flightsql_text *text, trn_constraint **out, size_t *count,
                                        trn_error **error) {
  parser p = {.arena = arena, .text = text, .error = error};
  *out = NULL;
  *count = 0;
  while (p.at < text->count && !is(&p, "(")) p.at++;
  size_t end = flightsql__text_closing(text, p.at);
  if (!end) return unexpected(&p, "')'");
  p.constraints = TRN_NEW_N(arena, trn_constraint, end - p.at);
  if (!p.constraints) return trn__no_memory(error);
  trn_status status = TRN_OK;
  for (p.at++; p.at < end - 1 && !status;) {
    bool is_constraint;
    status = table_constraint(&p, &is_constraint);
    if (!status && !is_constraint) status = column_keys(&p, end - 1);
    while (!status && p.at < end - 1 && !is(&p, ",")) p.at++; /* ON DELETE and the like */
    p.at++;
  }
  *out = p.constraints;
  *count = p.count;
  return status;
}
