/* Stars and regexes: one expression that stands for several columns. */
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/values.h"
#include <regex.h>

typedef Spark__Connect__Expression expression;

typedef struct value_list {
  spark_value **values;
  size_t *count, *capacity;
} value_list;

bool spark__is_star(const expression *e) {
  return e && (e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR ||
               e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_REGEX ||
               e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_STAR_EXCEPT);
}

static trn_status push_column(spark_translator *t, const spark_column *column, value_list *list, trn_error **error) {
  spark_value value;
  spark__column_value(column, column->name, &value);
  return spark__values_push(t, list->values, list->count, list->capacity, &value, error);
}

static trn_status whole(spark_translator *t, const spark_scope *scope, value_list *list, trn_error **error) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < scope->count && status == TRN_OK; i++)
    if (!scope->columns[i].hidden) status = push_column(t, &scope->columns[i], list, error);
  return status;
}

static bool has_qualifier(const spark_translator *t, const spark_column *column, char *const *parts, size_t count) {
  const spark_qualifier *q = column->qualifier;
  if (!q || q->count < count || count == 0) return false;
  for (size_t i = 0; i < count; i++)
    if (!spark__name_equal(t, q->parts[q->count - count + i], parts[i])) return false;
  return true;
}

/* t.*: also the hidden columns, before the others. */
static trn_status of_table(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                           value_list *list, trn_error **error) {
  trn_status status = TRN_OK;
  for (int hidden = scope->hidden_count ? 1 : 0; hidden >= 0; hidden--)
    for (uint32_t i = 0; i < scope->count && status == TRN_OK; i++)
      if (scope->columns[i].hidden == (bool)hidden && has_qualifier(t, &scope->columns[i], parts, count))
        status = push_column(t, &scope->columns[i], list, error);
  return status;
}

static trn_status of_struct(spark_translator *t, const spark_value *base, value_list *list, trn_error **error) {
  const trn_type *type = base->expr->type;
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < type->field_count && status == TRN_OK; i++) {
    char *part = (char *)type->fields[i].name;
    spark_value value = {.is_alias = true, .name = base->name, .metadata = type->fields[i].metadata};
    status = spark__nested_fields(t, base->expr, &part, 1, (trn_position){-1, -1}, &value.expr, &value.name, error);
    value.name = type->fields[i].name;
    if (status == TRN_OK) status = spark__values_push(t, list->values, list->count, list->capacity, &value, error);
  }
  return status;
}

static trn_status cannot_expand(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                                trn_position position, trn_error **error) {
  trn_strbuf columns = {0};
  for (uint32_t i = 0; scope && i < scope->count && i < 1000; i++) {
    const char *name = spark__quote(t, scope->columns[i].name);
    if (scope->columns[i].hidden || !name) continue;
    trn__strbuf_printf(&columns, "%s%s", columns.size ? ", " : "", name);
  }
  const char *text = columns.size ? spark__finish_text(t, &columns) : "", *target = spark__quote_parts(t, parts, count);
  if (!text || !target) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_RESOLVE_STAR_EXPAND", position, "targetString", target,
                      "columns", text, NULL);
}

static trn_status with_target(spark_translator *t, const char *text, trn_position position, value_list *list,
                              trn_error **error) {
  spark_context *context = spark__state(t)->context;
  const spark_scope *scope = context ? context->scope : NULL;
  size_t size = strlen(text), count = 0, before = *list->count;
  char **parts = NULL;
  if (size < 2 || strcmp(text + size - 2, ".*") != 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.UNRESOLVED_STAR_TARGET_INVALID", position,
                        "target", text, NULL);
  trn_status status = spark__sql_parse_attribute_name(t->arena, text, size - 2, &parts, &count, error);
  if (status != TRN_OK) return status;
  if (scope) status = of_table(t, scope, parts, count, list, error);
  if (status != TRN_OK || *list->count > before) return status;
  Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
  spark_value base;
  attribute.unparsed_identifier = trn__arena_str(t->arena, text, size - 2);
  if (!attribute.unparsed_identifier) return trn__no_memory(error);
  status = spark__resolve_attribute(t, &attribute, position, &base, NULL);
  if (status == TRN_OK && base.expr->type->id == TRN_TYPE_STRUCT) return of_struct(t, &base, list, error);
  return cannot_expand(t, scope, parts, count, position, error);
}

/* df["*"]: the columns of that DataFrame which the input still has. */
static trn_status by_plan_id(spark_translator *t, int64_t id, trn_position position, value_list *list,
                             trn_error **error) {
  const spark_scope *found = NULL, *input = NULL;
  bool twice = false;
  trn_status status = spark__plan_scope(t, id, &found, &input, &twice);
  if (twice)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "AMBIGUOUS_COLUMN_REFERENCE", position, "name", "`*`", NULL);
  if (!found)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_RESOLVE_DATAFRAME_COLUMN", position, "name", "`*`",
                        NULL);
  for (uint32_t i = 0; i < found->count && status == TRN_OK; i++) {
    if (found->columns[i].hidden) continue;
    const spark_column *seen = spark__scope_column(t, input, found->columns[i].expr->u.column);
    spark_column column = found->columns[i];
    if (!seen)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_RESOLVE_DATAFRAME_COLUMN", position, "name", "`*`",
                          NULL);
    column.expr = seen->expr;
    status = push_column(t, &column, list, error);
  }
  return status;
}

static trn_status star(spark_translator *t, const expression *e, value_list *list, trn_error **error) {
  const Spark__Connect__Expression__UnresolvedStar *node = e->unresolved_star;
  spark_context *context = spark__state(t)->context;
  bool target = node->_unparsed_target_case != 0, plan = node->_plan_id_case != 0;
  if (target && plan)
    return spark__error(t, error, TRN_INVALID_ARGUMENT,
                        "CONNECT_INVALID_PLAN.UNRESOLVED_STAR_WITH_BOTH_TARGET_AND_PLAN_ID", spark__position(t, e),
                        NULL);
  if (target) return with_target(t, node->unparsed_target, spark__position(t, e), list, error);
  if (plan) return by_plan_id(t, node->plan_id, spark__position(t, e), list, error);
  return context && context->scope ? whole(t, context->scope, list, error) : TRN_OK;
}

/* ---- star except ---- */
/* What the star gave, as a scope in which the names of EXCEPT are looked up. */
static trn_status except_scope(spark_translator *t, const spark_value *values, size_t count, spark_scope **out,
                               trn_error **error) {
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, count);
  if (!columns) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const trn_expr *expr = values[i].expr;
    if (expr->kind != TRN_EXPR_COLUMN) expr = spark__column_expr(t, expr->type, expr->nullable);
    if (!expr) return trn__no_memory(error);
    columns[i] =
        (spark_column){.expr = expr, .name = values[i].name ? values[i].name : "", .qualifier = values[i].qualifier};
  }
  *out = spark__scope_create(t, columns, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* What an item of EXCEPT names: a column, or a field inside of one. */
typedef struct left_out {
  size_t column;
  const char *written; /* the column's name there */
  char **parts; /* the names of the fields, from the outermost */
  size_t count;
} left_out;

static trn_status excepted(spark_translator *t, const spark_scope *scope, const expression *item, left_out *out,
                           trn_error **error) {
  char **parts = NULL;
  size_t count = 0;
  spark_resolved resolved;
  bool found = false;
  const char *text = item->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE
                         ? item->unresolved_attribute->unparsed_identifier
                         : NULL;
  if (!text) return spark__unimplemented(t, spark__position(t, item), error, "EXCEPT of something else than a name");
  trn_status status = spark__sql_parse_attribute_name(t->arena, text, strlen(text), &parts, &count, error);
  if (status == TRN_OK)
    status = spark__scope_resolve(t, scope, parts, count, spark__position(t, item), &resolved, &found, error);
  if (status != TRN_OK) return status;
  if (!found) return spark__unresolved_column(t, scope, parts, count, spark__position(t, item), error);
  *out = (left_out){.column = (size_t)(resolved.column - scope->columns), .written = parts[resolved.used - 1],
                    .parts = parts + resolved.used, .count = count - resolved.used};
  return TRN_OK;
}

/* One is what the other is inside of. As Spark has it, a column that is written in two ways is no overlap. */
static bool overlap(const spark_translator *t, const left_out *a, const left_out *b) {
  if (a->column != b->column || strcmp(a->written, b->written) != 0) return false;
  for (size_t i = 0; i < a->count && i < b->count; i++)
    if (!spark__name_equal(t, a->parts[i], b->parts[i])) return false;
  return true;
}

static trn_status refuse_overlap(spark_translator *t, const Spark__Connect__TrnExpressionList *node,
                                 trn_position position, trn_error **error) {
  trn_strbuf names = {0};
  for (size_t i = 1; i < node->n_expressions; i++)
    trn__strbuf_printf(&names, "%s%s", i > 1 ? ", " : "",
                       node->expressions[i]->unresolved_attribute->unparsed_identifier);
  const char *text = spark__finish_text(t, &names);
  return text ? spark__error(t, error, TRN_INVALID_ARGUMENT, "EXCEPT_OVERLAPPING_COLUMNS", position, "columns", text, NULL)
              : trn__no_memory(error);
}

/* The fields that are to go from the struct `base`, which is `depth` fields inside of the column. */
typedef struct field_cut {
  spark_translator *t;
  const left_out *items;
  size_t count, column;
  const char *name; /* of the column */
  trn_position position;
} field_cut;

/* *whole: the field goes; else *inside: something inside of it does. */
static void find_cut(const field_cut *cut, char *const *path, size_t depth, const char *name, bool *whole, bool *inside) {
  *whole = *inside = false;
  for (size_t i = 0; i < cut->count; i++) {
    const left_out *item = &cut->items[i];
    bool same = item->column == cut->column && item->count > depth;
    for (size_t k = 0; k < depth && same; k++) same = spark__name_equal(cut->t, item->parts[k], path[k]);
    if (!same || !spark__name_equal(cut->t, item->parts[depth], name)) continue;
    *(item->count == depth + 1 ? whole : inside) = true;
  }
}

/* As Spark has it, a struct that is NULL becomes one of NULLs. */
static trn_status without_fields(const field_cut *cut, const trn_expr *base, char **path, size_t depth, spark_value *out,
                                 trn_error **error) {
  spark_translator *t = cut->t;
  const trn_type *type = base->type;
  size_t count = 0;
  if (type->id != TRN_TYPE_STRUCT) {
    const char *text = depth ? spark__quote_parts(t, path, depth) : cut->name, *found = spark__quoted_type(t, type);
    if (!text || !found) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "EXCEPT_NESTED_COLUMN_INVALID_TYPE", cut->position, "columnName",
                        text, "dataType", found, NULL);
  }
  spark_value *pairs = TRN_NEW_N(t->arena, spark_value, 2 * (size_t)type->field_count);
  trn_status status = pairs ? spark__enter(t, error) : trn__no_memory(error);
  if (status != TRN_OK) return status;
  for (uint32_t i = 0; i < type->field_count && status == TRN_OK; i++) {
    char *name = (char *)type->fields[i].name;
    bool whole, inside;
    find_cut(cut, path, depth, name, &whole, &inside);
    if (whole) continue;
    spark_value *key = &pairs[count++], *item = &pairs[count++];
    *key = (spark_value){.expr = trn__expr_string(t->arena, name, strlen(name)), .name = name, .is_foldable = true};
    *item = (spark_value){.name = name};
    if (!key->expr) status = trn__no_memory(error);
    if (status == TRN_OK) status = spark__nested_fields(t, base, &name, 1, cut->position, &item->expr, &item->name, error);
    path[depth] = name;
    if (status == TRN_OK && inside) status = without_fields(cut, item->expr, path, depth + 1, item, error);
  }
  spark__leave(t);
  if (status == TRN_OK && count == 0)
    return spark__unimplemented(t, cut->position, error, "EXCEPT of all fields of a struct");
  return status == TRN_OK ? spark__call_by_name(t, "named_struct", pairs, count, cut->position, out, error) : status;
}

/* The column without the fields that are named inside of it; *gone: it is named itself. */
static trn_status cut_column(field_cut *cut, const spark_value *column, spark_value *out, bool *gone, trn_error **error) {
  bool inside = false;
  size_t depth = 0;
  *out = *column;
  *gone = false;
  cut->name = column->name ? column->name : "";
  for (size_t i = 0; i < cut->count; i++) {
    const left_out *item = &cut->items[i];
    if (item->column != cut->column) continue;
    if (item->count == 0) *gone = true;
    if (item->count == 0) return TRN_OK;
    const trn_expr *found = NULL;
    const char *name = NULL;
    trn_status status =
        spark__nested_fields(cut->t, column->expr, item->parts, item->count, cut->position, &found, &name, error);
    if (status != TRN_OK) return status;
    inside = true;
    if (depth < item->count) depth = item->count;
  }
  if (!inside) return TRN_OK;
  char **path = TRN_NEW_N(cut->t->arena, char *, depth + 1);
  if (!path) return trn__no_memory(error);
  trn_status status = without_fields(cut, column->expr, path, 0, out, error);
  out->name = column->name;
  out->is_alias = true;
  out->is_attribute = false;
  return status;
}

static trn_status star_except(spark_translator *t, const expression *e, value_list *list, trn_error **error) {
  const Spark__Connect__TrnExpressionList *node = e->trn_star_except;
  spark_value *all = NULL;
  size_t count = 0, capacity = 0;
  value_list inner = {&all, &count, &capacity};
  spark_scope *scope = NULL;
  if (node->n_expressions == 0 ||
      node->expressions[0]->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR)
    return spark__unimplemented(t, spark__position(t, e), error, "EXCEPT of something else than a star");
  trn_status status = star(t, node->expressions[0], &inner, error);
  if (status == TRN_OK) status = except_scope(t, all, count, &scope, error);
  if (status != TRN_OK) return status;
  size_t item_count = node->n_expressions - 1;
  left_out *items = TRN_NEW_N(t->arena, left_out, item_count);
  if (!items) return trn__no_memory(error);
  for (size_t i = 0; i < item_count; i++) {
    status = excepted(t, scope, node->expressions[i + 1], &items[i], error);
    if (status != TRN_OK) return status;
    for (size_t k = 0; k < i; k++)
      if (overlap(t, &items[i], &items[k])) return refuse_overlap(t, node, spark__position(t, e), error);
  }
  field_cut cut = {.t = t, .items = items, .count = item_count, .position = spark__position(t, e)};
  for (; cut.column < count && status == TRN_OK; cut.column++) {
    spark_value value;
    bool gone;
    status = cut_column(&cut, &all[cut.column], &value, &gone, error);
    if (status == TRN_OK && !gone)
      status = spark__values_push(t, list->values, list->count, list->capacity, &value, error);
  }
  return status;
}

/* ---- df.colRegex("`(a|b).*`") ---- */
static trn_status regex(spark_translator *t, const expression *e, value_list *list, trn_error **error) {
  const char *text = e->unresolved_regex->col_name ? e->unresolved_regex->col_name : "";
  spark_context *context = spark__state(t)->context;
  size_t size = strlen(text);
  if (size < 2 || text[0] != '`' || text[size - 1] != '`') { /* no regex: a name */
    Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
    spark_value value;
    attribute.unparsed_identifier = (char *)text;
    if (e->unresolved_regex->_plan_id_case) {
      attribute._plan_id_case = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE___PLAN_ID_PLAN_ID;
      attribute.plan_id = e->unresolved_regex->plan_id;
    }
    trn_status status = spark__resolve_attribute(t, &attribute, spark__position(t, e), &value, error);
    return status == TRN_OK ? spark__values_push(t, list->values, list->count, list->capacity, &value, error) : status;
  }
  regex_t compiled;
  char *pattern = trn__arena_printf(t->arena, "^(%.*s)$", (int)(size - 2), text + 1);
  if (!pattern) return trn__no_memory(error);
  if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB | (t->case_sensitive ? 0 : REG_ICASE)) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is not a regular expression.", text);
  trn_status status = TRN_OK;
  const spark_scope *scope = context ? context->scope : NULL;
  for (uint32_t i = 0; scope && i < scope->count && status == TRN_OK; i++)
    if (!scope->columns[i].hidden && regexec(&compiled, scope->columns[i].name, 0, NULL, 0) == 0)
      status = push_column(t, &scope->columns[i], list, error);
  regfree(&compiled);
  return status;
}

trn_status spark__expand_star(spark_translator *t, const expression *e, spark_value **values, size_t *count,
                              size_t *capacity, trn_error **error) {
  value_list list = {values, count, capacity};
  if (e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_REGEX) return regex(t, e, &list, error);
  if (e->expr_type_case == SPARK__CONNECT__EXPRESSION__EXPR_TYPE_TRN_STAR_EXCEPT)
    return star_except(t, e, &list, error);
  return star(t, e, &list, error);
}

/* ---- lists ---- */
/* "*" and "a AS b" as text are what they say. */
static trn_status parsed_item(spark_translator *t, const expression *e, const expression **out, trn_error **error) {
  expression *parsed = NULL;
  *out = e;
  if (!e || e->expr_type_case != SPARK__CONNECT__EXPRESSION__EXPR_TYPE_EXPRESSION_STRING) return TRN_OK;
  const char *text = e->expression_string->expression ? e->expression_string->expression : "";
  trn_status status = spark__sql_parse_expression(t->arena, text, strlen(text), NULL, &parsed, error);
  if (status == TRN_OK) *out = parsed;
  return status;
}

trn_status spark__list_item(spark_translator *t, const expression *e, spark_value **values, size_t *count,
                            size_t *capacity, const expression **item, trn_error **error) {
  spark_state *state = spark__state(t);
  bool before = state->foreign_positions;
  trn_status status = parsed_item(t, e, item, error);
  if (status != TRN_OK) return status;
  state->foreign_positions = before || *item != e; /* of a text of its own */
  if (spark__is_star(*item)) {
    status = spark__expand_star(t, *item, values, count, capacity, error);
  } else {
    spark_value value;
    status = spark__expression(t, *item, &value, error);
    if (status == TRN_OK) status = spark__values_push(t, values, count, capacity, &value, error);
  }
  state->foreign_positions = before;
  return status;
}
