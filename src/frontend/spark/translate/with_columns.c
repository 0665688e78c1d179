/* withColumns. A chain of them, each with columns of its own, is one projection, however long it is: scopes and the
 * projection's lists grow behind what they were, and each step sees its part of them. */
#include "frontend/spark/translate/scope.h"

static const trn_position NOWHERE = {-1, -1};

/* The lists of the projection that a chain has so far. */
struct spark_growth {
  const trn_rel *rel; /* the last step's: who has another one may not grow these */
  const trn_expr **exprs;
  trn_column *columns;
  uint32_t capacity;
};

static trn_status column_exists(spark_translator *t, const char *name, trn_error **error) {
  const char *quoted = spark__quote(t, name);
  if (!quoted) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "COLUMN_ALREADY_EXISTS", NOWHERE, "columnName", quoted, NULL);
}

static trn_status check_alias_names(spark_translator *t, const Spark__Connect__WithColumns *node, trn_error **error) {
  spark_column *names = TRN_NEW_N(t->arena, spark_column, node->n_aliases);
  trn_expr *any = trn__expr_null(t->arena, trn__type(TRN_TYPE_NULL));
  if (!names || !any) return trn__no_memory(error);
  for (size_t i = 0; i < node->n_aliases; i++) {
    const Spark__Connect__Expression__Alias *alias = node->aliases[i];
    if (alias->n_name != 1)
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.WITH_COLUMNS_REQUIRE_SINGLE_NAME_PART",
                          NOWHERE, "got", "", NULL);
    names[i] = (spark_column){.name = alias->name[0], .expr = any};
  }
  spark_scope *scope = spark__scope_create(t, names, node->n_aliases);
  if (!scope) return trn__no_memory(error);
  for (uint32_t i = 0; i < scope->count; i++)
    if (spark__scope_find(t, scope, names[i].name) != i) return column_exists(t, names[i].name, error);
  return TRN_OK;
}

static trn_status alias_values(spark_translator *t, const Spark__Connect__WithColumns *node, spark_value *out,
                               trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < node->n_aliases && status == TRN_OK; i++) {
    const Spark__Connect__Expression__Alias *alias = node->aliases[i];
    status = spark__expression(t, alias->expr, &out[i], error);
    out[i].name = alias->name[0];
    out[i].is_alias = true;
    out[i].is_attribute = false;
    if (alias->_metadata_case) out[i].metadata = alias->metadata;
  }
  return status;
}

/* ---- growing ---- */

/* The projection's columns are the scope's, one by one. */
static bool is_exact(const spark_relation *input) {
  const trn_rel *rel = input->rel;
  if (rel->kind != TRN_REL_PROJECT || rel->column_count != input->scope->count || input->scope->hidden_count > 0)
    return false;
  for (uint32_t i = 0; i < rel->column_count; i++)
    if (rel->columns[i].id != input->scope->columns[i].expr->u.column) return false;
  return true;
}

/* What cannot stand in the projection that is there: a column that it makes itself, what needs relations of its own. */
typedef struct blocker {
  spark_translator *t;
  const spark_relation *input;
} blocker;

static bool blocks(void *user, const trn_expr *expr) {
  const blocker *b = user;
  if (expr->kind == TRN_EXPR_WINDOW || expr->kind == TRN_EXPR_SUBQUERY || expr->kind == TRN_EXPR_AGGREGATE) return true;
  if (expr->kind != TRN_EXPR_COLUMN) return false;
  const spark_column *column = spark__scope_column(b->t, b->input->scope, expr->u.column);
  if (!column) return true;
  const trn_expr *made = b->input->rel->exprs[column - b->input->scope->columns];
  return made->kind != TRN_EXPR_COLUMN || made->u.column != expr->u.column;
}

static bool fits(spark_translator *t, const spark_relation *input, const spark_value *added, size_t count) {
  blocker b = {t, input};
  spark_growth *growth = input->scope->growth;
  if (!(growth && growth->rel == input->rel) && !is_exact(input)) return false;
  for (size_t i = 0; i < count; i++) {
    if (added[i].is_generator || added[i].is_window_function || added[i].has_aggregate || added[i].alias_count > 0)
      return false;
    if (spark__scope_find(t, input->scope, added[i].name) != UINT32_MAX) return false;
    if (spark__expr_find(added[i].expr, blocks, &b)) return false;
  }
  return true;
}

/* Lists with room for `count` more behind those of the projection. */
static spark_growth *room_behind(spark_translator *t, const spark_relation *input, size_t count) {
  spark_growth *growth = input->scope->growth;
  const trn_rel *rel = input->rel;
  size_t needed = rel->column_count + count;
  if (growth && growth->rel == rel && needed <= growth->capacity) return growth;
  size_t capacity = needed < 8 ? 16 : needed * 2;
  growth = capacity < UINT32_MAX ? TRN_NEW(t->arena, spark_growth) : NULL;
  if (!growth) return NULL;
  growth->capacity = (uint32_t)capacity;
  growth->exprs = TRN_NEW_N(t->arena, const trn_expr *, capacity);
  growth->columns = TRN_NEW_N(t->arena, trn_column, capacity);
  if (!growth->exprs || !growth->columns) return NULL;
  if (rel->column_count) {
    memcpy(growth->exprs, rel->exprs, rel->column_count * sizeof *rel->exprs);
    memcpy(growth->columns, rel->columns, rel->column_count * sizeof *rel->columns);
  }
  return growth;
}

static trn_status grow(spark_translator *t, const spark_relation *input, const spark_value *added, size_t count,
                       spark_relation *out, trn_error **error) {
  spark_growth *growth = room_behind(t, input, count);
  spark_scope *scope = input->scope;
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_PROJECT, input->rel->inputs, 1, NULL, 0, NULL, 0);
  if (!growth || !rel) return trn__no_memory(error);
  uint32_t at = input->rel->column_count;
  for (size_t i = 0; i < count; i++, at++) {
    const trn_expr *expr = spark__column_expr(t, added[i].expr->type, added[i].expr->nullable);
    if (!expr) return trn__no_memory(error);
    const spark_column column = {.expr = expr, .name = added[i].name, .metadata = added[i].metadata};
    if (!(scope = spark__scope_grow(t, scope, &column))) return trn__no_memory(error);
    growth->exprs[at] = added[i].expr;
    growth->columns[at] = (trn_column){.id = expr->u.column, .type = expr->type, .nullable = expr->nullable};
  }
  rel->exprs = growth->exprs;
  rel->columns = growth->columns;
  rel->expr_count = rel->column_count = at;
  growth->rel = rel;
  scope->growth = growth;
  scope->below = input->scope;
  *out = (spark_relation){.rel = rel, .scope = scope};
  return TRN_OK;
}

/* ---- the other way: a projection of its own, columns replaced where they were ---- */
static trn_status replace(spark_translator *t, const spark_relation *input, const spark_value *added, size_t added_count,
                          spark_relation *out, trn_error **error) {
  const spark_scope *scope = input->scope;
  size_t count = 0;
  spark_value *values = TRN_NEW_N(t->arena, spark_value, spark__visible_count(scope) + added_count);
  uint32_t *place = TRN_NEW_N(t->arena, uint32_t, scope->count);
  if (!values || !place) return trn__no_memory(error);
  for (uint32_t i = 0; i < scope->count; i++) {
    place[i] = scope->columns[i].hidden ? UINT32_MAX : (uint32_t)count;
    if (!scope->columns[i].hidden) spark__column_value(&scope->columns[i], scope->columns[i].name, &values[count++]);
  }
  for (size_t i = 0; i < added_count; i++) {
    bool found = false;
    for (uint32_t k = spark__scope_find(t, scope, added[i].name); k != UINT32_MAX;
         k = spark__scope_next(t, scope, added[i].name, k)) {
      if (place[k] == UINT32_MAX) continue;
      values[place[k]] = added[i];
      found = true;
    }
    if (!found) values[count++] = added[i];
  }
  return spark__project(t, input, values, count, NULL, out, error);
}

trn_status spark__with_columns(spark_translator *t, const Spark__Connect__WithColumns *node, spark_relation *out,
                               trn_error **error) {
  spark_relation input;
  spark_context context;
  trn_status status = spark__relation(t, node->input, &input, error);
  if (status == TRN_OK) status = check_alias_names(t, node, error);
  spark_value *added = TRN_NEW_N(t->arena, spark_value, node->n_aliases);
  if (status != TRN_OK) return status;
  if (!added) return trn__no_memory(error);
  spark__context_begin(t, &context, input.scope);
  status = alias_values(t, node, added, error);
  spark__context_end(t, &context);
  if (status != TRN_OK) return status;
  return fits(t, &input, added, node->n_aliases) ? grow(t, &input, added, node->n_aliases, out, error)
                                                 : replace(t, &input, added, node->n_aliases, out, error);
}
