/* Regular expressions: with literal patterns of the subset that regex.c translates; the engine's library matches them. */
#include "frontend/spark/translate/regex.h"

static trn_status pattern_of(spark_builder *b, size_t index, spark_regex *out) {
  const trn_expr *pattern = b->args[index];
  if (!spark__is_literal(pattern) || !spark__is_string(pattern->type)) return spark__not_supported(b, "a pattern that is not a literal");
  if (!spark__regex_translate(b->t, pattern->u.literal.value.bytes.data, pattern->u.literal.value.bytes.size, out))
    return spark__not_supported(b, "this pattern");
  return TRN_OK;
}

static const trn_expr *text_of(spark_builder *b, const char *text) {
  return trn__expr_string(b->t->arena, text, strlen(text));
}

static trn_expr *engine(spark_builder *b, const char *name, const trn_type *type, const trn_expr *const *args, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!args[i]) return NULL;
  return type ? trn__expr_call(b->t->arena, TRN_HOME_ENGINE, name, type, spark__any_nullable(args, count), args, count) : NULL;
}

static trn_status build_rlike(spark_builder *b, const trn_expr **out) {
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  spark_regex regex;
  if (b->args[1]->kind == TRN_EXPR_LITERAL && b->args[1]->u.literal.is_null) return spark__gives(b, trn__expr_null(b->t->arena, boolean), out);
  trn_status status = pattern_of(b, 1, &regex);
  if (status) return status;
  const trn_expr *args[2] = {b->args[0], regex.literal ? trn__expr_string(b->t->arena, regex.literal, regex.literal_size)
                                                       : text_of(b, regex.text)};
  if (regex.literal) return spark__gives(b, spark__kernel(b->t, "trn.contains", boolean, args, 2), out);
  return spark__gives(b, engine(b, "regexp_like", boolean, args, 2), out);
}

/* Java's replacement: $1 is a group, a backslash quotes. Here: groups as ${1}; anything else special is refused. */
static const char *replacement_of(spark_builder *b, const trn_expr *expr, unsigned groups) {
  if (!spark__is_literal(expr)) return NULL;
  trn_strbuf text = {0};
  const char *at = expr->u.literal.value.bytes.data, *end = at + expr->u.literal.value.bytes.size;
  bool good = true;
  for (; good && at < end; at++) {
    if (*at == '\\') {
      good = false;
    } else if (*at == '$') {
      bool digit = at + 1 < end && at[1] >= '0' && at[1] <= '9', more = at + 2 < end && at[2] >= '0' && at[2] <= '9';
      good = digit && !more && (unsigned)(at[1] - '0') <= groups;
      if (good) trn__strbuf_printf(&text, "${%c}", *++at);
    } else {
      trn__strbuf_putc(&text, *at);
    }
  }
  const char *made = spark__finish_text(b->t, &text);
  return good ? made : NULL;
}

static trn_status build_replace(spark_builder *b, const trn_expr **out) {
  spark_regex regex;
  if (b->count == 3) b->name = "regexp_replace($1, $2, $3, 1)";
  bool from_start = b->count == 3 || (spark__is_literal(b->args[3]) && b->args[3]->u.literal.value.integer == 1);
  if (!from_start) return spark__not_supported(b, "a position");
  trn_status status = pattern_of(b, 1, &regex);
  if (status) return status;
  /* After a match, the two libraries look for empty ones at different places. */
  if (regex.may_be_empty) return spark__not_supported(b, "a pattern that matches nothing");
  const char *replacement = replacement_of(b, b->args[2], regex.groups);
  if (!replacement) return spark__not_supported(b, "this replacement");
  const trn_expr *args[4] = {b->args[0], text_of(b, regex.text), text_of(b, replacement), text_of(b, "g")};
  return spark__gives(b, engine(b, "regexp_replace", trn__type(TRN_TYPE_STRING), args, 4), out);
}

/* regexp_extract(s, p [, i]): the group of the first match, '' without one. */
static trn_status build_extract(spark_builder *b, const trn_expr **out) {
  spark_regex regex;
  if (b->count == 2) b->name = "regexp_extract($1, $2, 1)";
  if (b->count == 3 && !spark__is_literal(b->args[2])) return spark__not_supported(b, "a group that is not a literal");
  int64_t index = b->count == 3 ? b->args[2]->u.literal.value.integer : 1;
  trn_status status = pattern_of(b, 1, &regex);
  if (status) return status;
  if (index < 0 || index > regex.groups) return spark__not_supported(b, "a group that the pattern has not");
  if (regex.groups_may_miss) return spark__not_supported(b, "a pattern whose groups may be left out");
  const trn_type *string = trn__type(TRN_TYPE_STRING), *list = trn__type_array(b->t->arena, string, true);
  const char *whole = trn__arena_printf(b->t->arena, "(%s)", regex.text); /* group 0 as a group */
  if (!list || !whole) return trn__no_memory(b->error);
  const trn_expr *match[2] = {b->args[0], text_of(b, whole)};
  trn_expr *groups = engine(b, "regexp_match", list, match, 2);
  if (!groups) return trn__no_memory(b->error);
  groups->nullable = true; /* no match */
  const trn_expr *pick[2] = {groups, trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), index)};
  trn_expr *picked = spark__kernel(b->t, "trn.array_get_try", string, pick, 2);
  if (!picked) return trn__no_memory(b->error);
  const trn_expr *either[2] = {picked, text_of(b, "")};
  const trn_expr *branches[3] = {spark__is_null(b->t, b->args[0], false), trn__expr_null(b->t->arena, string),
                                 either[1] ? trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "coalesce", string, false, either, 2) : NULL};
  trn_expr *expr = spark__case(b->t, branches, 3, string);
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

/* split(s, p [, -1]) at a literal separator. The engine splits '' into nothing, Java into one empty string. */
static trn_status build_split(spark_builder *b, const trn_expr **out) {
  spark_regex regex;
  if (b->count == 2) b->name = "split($1, $2, -1)";
  bool all = b->count == 2 || (spark__is_literal(b->args[2]) && b->args[2]->u.literal.value.integer <= 0);
  if (!all) return spark__not_supported(b, "a limit");
  trn_status status = pattern_of(b, 1, &regex);
  if (status) return status;
  if (!regex.literal || regex.literal_size == 0) return spark__not_supported(b, "a separator that is a pattern");
  const trn_type *string = trn__type(TRN_TYPE_STRING), *list = trn__type_array(b->t->arena, string, false);
  if (!list) return trn__no_memory(b->error);
  const trn_expr *empty = text_of(b, ""), *same[2] = {b->args[0], empty};
  const trn_expr *parts[2] = {b->args[0], trn__expr_string(b->t->arena, regex.literal, regex.literal_size)};
  if (!empty) return trn__no_memory(b->error);
  const trn_expr *branches[3] = {spark__native(b->t, "=", trn__type(TRN_TYPE_BOOL), same, 2), engine(b, "make_array", list, &empty, 1),
                                 engine(b, "string_to_array", list, parts, 2)};
  trn_expr *expr = spark__case(b->t, branches, 3, list);
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

static const spark_function rows[] = {
    {"rlike", "ss", NULL, NULL, build_rlike, "RLIKE($1, $2)", 0, 0},
    {"regexp", "ss", NULL, NULL, build_rlike, "REGEXP($1, $2)", 0, 0},
    {"regexp_like", "ss", NULL, NULL, build_rlike, "REGEXP_LIKE($1, $2)", 0, 0},
    {"regexp_replace", "sss|i", NULL, NULL, build_replace, NULL, 0, 0},
    {"regexp_extract", "ss|i", NULL, NULL, build_extract, NULL, 0, 0},
    {"split", "ss|i", NULL, NULL, build_split, NULL, 0, 0},
};
const spark_function_table spark__functions_regex = {rows, sizeof rows / sizeof rows[0]};
