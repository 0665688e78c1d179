/* Scopes: which columns a relation shows, under which names. */
#include "frontend/spark/translate/scope.h"

enum { LINEAR_MAX = 8 }; /* up to so many columns are searched without an index */

/* ---- names ---- */
static int lower(unsigned char c) {
  return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

bool spark__name_equal(const spark_translator *t, const char *a, const char *b) {
  if (t->case_sensitive) return strcmp(a, b) == 0;
  for (; *a && *b; a++, b++)
    if (lower((unsigned char)*a) != lower((unsigned char)*b)) return false;
  return *a == *b;
}

uint32_t spark__name_hash(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++) hash = (hash ^ (uint32_t)lower((unsigned char)*name)) * 16777619u;
  return hash ^ (hash >> 15);
}

static void add_quoted(trn_strbuf *text, const char *name) {
  trn__strbuf_putc(text, '`');
  for (; *name; name++) {
    if (*name == '`') trn__strbuf_putc(text, '`');
    trn__strbuf_putc(text, *name);
  }
  trn__strbuf_putc(text, '`');
}

const char *spark__quote(spark_translator *t, const char *name) {
  trn_strbuf text = {0};
  add_quoted(&text, name);
  return spark__finish_text(t, &text);
}

const char *spark__quote_parts(spark_translator *t, char *const *parts, size_t count) {
  trn_strbuf text = {0};
  for (size_t i = 0; i < count; i++) {
    if (i) trn__strbuf_putc(&text, '.');
    add_quoted(&text, parts[i]);
  }
  return spark__finish_text(t, &text);
}

const char *spark__quote_column(spark_translator *t, const spark_column *column) {
  trn_strbuf text = {0};
  for (uint32_t i = 0; column->qualifier && i < column->qualifier->count; i++) {
    add_quoted(&text, column->qualifier->parts[i]);
    trn__strbuf_putc(&text, '.');
  }
  add_quoted(&text, column->name);
  return spark__finish_text(t, &text);
}

const char *spark__quote_text(spark_translator *t, const char *text) {
  char **parts = NULL;
  size_t count = 0;
  if (spark__sql_parse_attribute_name(t->arena, text, strlen(text), &parts, &count, NULL) != TRN_OK || count == 0)
    return spark__quote(t, text);
  return spark__quote_parts(t, parts, count);
}

const char *spark__sql_text(spark_translator *t, const char *text) {
  trn_strbuf buffer = {0};
  trn__strbuf_putc(&buffer, '"');
  trn__strbuf_puts(&buffer, text ? text : "");
  trn__strbuf_putc(&buffer, '"');
  return spark__finish_text(t, &buffer);
}

/* ---- making ---- */
spark_scope *spark__scope_create(spark_translator *t, const spark_column *columns, size_t count) {
  spark_scope *scope = count < UINT32_MAX / 4 ? TRN_NEW(t->arena, spark_scope) : NULL;
  if (!scope) return NULL;
  scope->columns = columns;
  scope->count = (uint32_t)count;
  for (size_t i = 0; i < count; i++) scope->hidden_count += columns[i].hidden;
  return scope;
}

const spark_qualifier *spark__qualifier(spark_translator *t, const char *const *parts, size_t count) {
  spark_qualifier *qualifier = TRN_NEW(t->arena, spark_qualifier);
  if (!qualifier) return NULL;
  size_t skip = count > SPARK_QUALIFIER_PARTS_MAX ? count - SPARK_QUALIFIER_PARTS_MAX : 0;
  for (size_t i = skip; i < count; i++) {
    qualifier->parts[qualifier->count] = trn__arena_strdup(t->arena, parts[i]);
    if (!qualifier->parts[qualifier->count++]) return NULL;
  }
  return qualifier;
}

trn_status spark__scope_of(spark_translator *t, const trn_rel *rel, const trn_field *fields,
                           const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, rel->column_count);
  if (!columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < rel->column_count; i++) {
    columns[i].expr = trn__expr_column(t->arena, &rel->columns[i]);
    columns[i].name = fields[i].name;
    columns[i].metadata = fields[i].metadata;
    columns[i].qualifier = qualifier;
    if (!columns[i].expr) return trn__no_memory(error);
  }
  out->rel = rel;
  out->scope = spark__scope_create(t, columns, rel->column_count);
  return out->scope ? TRN_OK : trn__no_memory(error);
}

trn_expr *spark__column_expr(spark_translator *t, const trn_type *type, bool nullable) {
  trn_column column = {.id = t->next_column, .type = type, .nullable = nullable};
  trn_expr *expr = trn__expr_column(t->arena, &column);
  if (expr) t->next_column++;
  return expr;
}

size_t spark__visible_count(const spark_scope *scope) {
  return scope->count - scope->hidden_count;
}

trn_status spark__scope_values(spark_translator *t, const spark_scope *scope, spark_value **out, size_t *count,
                               trn_error **error) {
  spark_value *values = TRN_NEW_N(t->arena, spark_value, spark__visible_count(scope));
  if (!values) return trn__no_memory(error);
  *count = 0;
  for (uint32_t i = 0; i < scope->count; i++)
    if (!scope->columns[i].hidden) spark__column_value(&scope->columns[i], scope->columns[i].name, &values[(*count)++]);
  *out = values;
  return TRN_OK;
}

/* ---- looking up ----
 * An index is over columns in its own memory when scopes grow; each of them sees the first `count` of its columns. So a
 * thousand columns that are added one by one cost no thousand indexes. */
typedef struct spark_scope_index {
  const spark_column *columns;
  spark_column *grown; /* `columns` when there may be more; else NULL */
  uint32_t count, capacity;
  uint32_t *name_heads, *name_next, *name_last; /* built at the first look-up by name; chains are in order; 0 ends them */
  uint32_t *ids;                                /* and at the first one by id: open addressing, earlier ones first */
  uint32_t mask;
} spark_scope_index;

static uint32_t id_hash(uint32_t id) {
  return id * 2654435761u;
}

static void add_name(spark_scope_index *index, uint32_t at) {
  uint32_t slot = spark__name_hash(index->columns[at].name) & index->mask;
  if (index->name_heads[slot]) index->name_next[index->name_last[slot] - 1] = at + 1;
  else index->name_heads[slot] = at + 1;
  index->name_last[slot] = at + 1;
}

static void add_id(spark_scope_index *index, uint32_t at) {
  uint32_t slot = id_hash(index->columns[at].expr->u.column) & index->mask;
  while (index->ids[slot]) slot = (slot + 1) & index->mask;
  index->ids[slot] = at + 1;
}

static spark_scope_index *index_create(spark_translator *t, const spark_column *columns, uint32_t count,
                                       uint32_t capacity) {
  spark_scope_index *index = TRN_NEW(t->arena, spark_scope_index);
  if (!index) return NULL;
  uint32_t size = 16;
  while (size < capacity * 2) size *= 2;
  *index = (spark_scope_index){.columns = columns, .count = count, .capacity = capacity, .mask = size - 1};
  return index;
}

/* False without memory: searched one by one then. */
static bool index_names(spark_translator *t, const spark_scope *scope) {
  if (!scope->index) ((spark_scope *)scope)->index = index_create(t, scope->columns, scope->count, scope->count);
  spark_scope_index *index = scope->index;
  if (!index || index->name_heads) return index != NULL;
  uint32_t *heads = TRN_NEW_N(t->arena, uint32_t, index->mask + 1), *last = TRN_NEW_N(t->arena, uint32_t, index->mask + 1);
  index->name_next = TRN_NEW_N(t->arena, uint32_t, index->capacity);
  if (!heads || !last || !index->name_next) return false;
  index->name_heads = heads;
  index->name_last = last;
  for (uint32_t i = 0; i < index->count; i++) add_name(index, i);
  return true;
}

static bool index_ids(spark_translator *t, const spark_scope *scope) {
  if (!scope->index) ((spark_scope *)scope)->index = index_create(t, scope->columns, scope->count, scope->count);
  spark_scope_index *index = scope->index;
  if (!index || index->ids) return index != NULL;
  index->ids = TRN_NEW_N(t->arena, uint32_t, index->mask + 1);
  if (!index->ids) return false;
  for (uint32_t i = 0; i < index->count; i++) add_id(index, i);
  return true;
}

static uint32_t find_from(spark_translator *t, const spark_scope *scope, const char *name, uint32_t link) {
  for (; link && link <= scope->count; link = scope->index->name_next[link - 1])
    if (spark__name_equal(t, scope->columns[link - 1].name, name)) return link - 1;
  return UINT32_MAX;
}

uint32_t spark__scope_find(spark_translator *t, const spark_scope *scope, const char *name) {
  if (scope->count > LINEAR_MAX && index_names(t, scope))
    return find_from(t, scope, name, scope->index->name_heads[spark__name_hash(name) & scope->index->mask]);
  for (uint32_t i = 0; i < scope->count; i++)
    if (spark__name_equal(t, scope->columns[i].name, name)) return i;
  return UINT32_MAX;
}

uint32_t spark__scope_next(spark_translator *t, const spark_scope *scope, const char *name, uint32_t after) {
  if (scope->count > LINEAR_MAX && index_names(t, scope))
    return find_from(t, scope, name, scope->index->name_next[after]);
  for (uint32_t i = after + 1; i < scope->count; i++)
    if (spark__name_equal(t, scope->columns[i].name, name)) return i;
  return UINT32_MAX;
}

const spark_column *spark__scope_column(spark_translator *t, const spark_scope *scope, uint32_t id) {
  if (scope->count <= LINEAR_MAX || !index_ids(t, scope)) {
    for (uint32_t i = 0; i < scope->count; i++)
      if (scope->columns[i].expr->u.column == id) return &scope->columns[i];
    return NULL;
  }
  const spark_scope_index *index = scope->index;
  for (uint32_t slot = id_hash(id) & index->mask; index->ids[slot]; slot = (slot + 1) & index->mask)
    if (index->ids[slot] <= scope->count && scope->columns[index->ids[slot] - 1].expr->u.column == id)
      return &scope->columns[index->ids[slot] - 1];
  return NULL;
}

/* Room for more columns behind those of `scope`, with a new index unless its own has it and nobody else grew there. */
static spark_scope_index *room_behind(spark_translator *t, const spark_scope *scope) {
  spark_scope_index *index = scope->index;
  if (index && index->grown && index->count == scope->count && index->count < index->capacity) return index;
  if (scope->count > UINT32_MAX / 16) return NULL;
  uint32_t capacity = scope->count < 8 ? 16 : scope->count * 2;
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, capacity);
  if (!columns) return NULL;
  if (scope->count) memcpy(columns, scope->columns, scope->count * sizeof *columns);
  index = index_create(t, columns, scope->count, capacity);
  if (index) index->grown = columns;
  return index;
}

spark_scope *spark__scope_grow(spark_translator *t, const spark_scope *from, const spark_column *column) {
  spark_scope *scope = TRN_NEW(t->arena, spark_scope);
  spark_scope_index *index = scope ? room_behind(t, from) : NULL;
  if (!index) return NULL;
  uint32_t at = index->count++;
  index->grown[at] = *column;
  if (index->name_heads) add_name(index, at);
  if (index->ids) add_id(index, at);
  *scope = (spark_scope){.columns = index->columns,
                         .count = index->count,
                         .hidden_count = from->hidden_count + column->hidden,
                         .index = index};
  return scope;
}

bool spark__scope_has(spark_translator *t, const spark_scope *scope, uint32_t column_id) {
  return spark__scope_column(t, scope, column_id) != NULL;
}

const char *spark__column_name(spark_translator *t, const spark_scope *scope, uint32_t id) {
  const spark_column *column = scope ? spark__scope_column(t, scope, id) : NULL;
  return column ? column->name : "?";
}

/* ---- from scopes back to relations ---- */
static bool is_exact(const spark_relation *relation) {
  const spark_scope *scope = relation->scope;
  uint32_t at = 0;
  for (uint32_t i = 0; i < scope->count; i++) {
    if (scope->columns[i].hidden) continue;
    if (at >= relation->rel->column_count || relation->rel->columns[at].id != scope->columns[i].expr->u.column)
      return false;
    at++;
  }
  return at == relation->rel->column_count;
}

trn_status spark__materialize(spark_translator *t, const spark_relation *relation, const trn_rel **out,
                              trn_error **error) {
  *out = relation->rel;
  if (is_exact(relation)) return TRN_OK;
  const spark_scope *scope = relation->scope;
  size_t count = 0, size = 16;
  while (size < (size_t)scope->count * 2) size *= 2;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, scope->count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, scope->count);
  uint32_t *seen = calloc(size, sizeof *seen);
  if (!exprs || !columns || !seen) goto no_memory;
  for (uint32_t i = 0; i < scope->count; i++) {
    if (scope->columns[i].hidden) continue;
    const trn_expr *expr = scope->columns[i].expr;
    size_t slot = (expr->u.column * 2654435761u) & (size - 1);
    while (seen[slot] && seen[slot] != expr->u.column + 1) slot = (slot + 1) & (size - 1);
    columns[count] = (trn_column){
        .id = seen[slot] ? t->next_column++ : expr->u.column, .type = expr->type, .nullable = expr->nullable};
    seen[slot] = expr->u.column + 1;
    exprs[count++] = expr;
  }
  *out = trn__rel_project(t->arena, relation->rel, exprs, columns, count);
  if (!*out) goto no_memory;
  free(seen);
  return TRN_OK;
no_memory:
  free(seen);
  return trn__no_memory(error);
}

static bool rel_has(const trn_rel *rel, uint32_t id) {
  for (uint32_t i = 0; i < rel->column_count; i++)
    if (rel->columns[i].id == id) return true;
  return false;
}

/* The projection's or window's output with the columns that are new in its input. */
static trn_status widen(spark_translator *t, const trn_rel *rel, const trn_rel *input, const trn_expr *const *wanted,
                        size_t count, const trn_rel **out, trn_error **error) {
  bool project = rel->kind == TRN_REL_PROJECT;
  size_t own = project ? rel->column_count : rel->column_count - rel->inputs[0]->column_count;
  size_t kept = project ? 0 : input->column_count, expr_count = rel->expr_count;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, kept + own + count);
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, expr_count + count);
  if (!columns || !exprs) return trn__no_memory(error);
  if (kept) memcpy(columns, input->columns, kept * sizeof *columns);
  if (own) memcpy(columns + kept, rel->columns + rel->column_count - own, own * sizeof *columns);
  if (expr_count) memcpy(exprs, rel->exprs, expr_count * sizeof *exprs);
  size_t column_count = kept + own;
  for (size_t i = 0; project && i < count; i++) {
    columns[column_count++] =
        (trn_column){.id = wanted[i]->u.column, .type = wanted[i]->type, .nullable = wanted[i]->nullable};
    exprs[expr_count++] = wanted[i];
  }
  trn_rel *copy =
      trn__rel_create(t->arena, (trn_rel_kind)rel->kind, &input, 1, exprs, expr_count, columns, column_count);
  if (!copy) return trn__no_memory(error);
  copy->u = rel->u;
  *out = copy;
  return TRN_OK;
}

/* Adds those of the COLUMN expressions `wanted` that rel lost on the way to its output. */
static trn_status add_columns(spark_translator *t, const trn_rel *rel, const trn_expr *const *wanted, size_t count,
                              const trn_rel **out, trn_error **error) {
  const trn_expr **missing = TRN_NEW_N(t->arena, const trn_expr *, count);
  size_t missing_count = 0;
  if (!missing) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++)
    if (!rel_has(rel, wanted[i]->u.column)) missing[missing_count++] = wanted[i];
  *out = rel;
  if (missing_count == 0) return TRN_OK;
  bool wide = rel->kind == TRN_REL_PROJECT || rel->kind == TRN_REL_WINDOW || rel->kind == TRN_REL_UNNEST;
  bool through = wide || rel->kind == TRN_REL_FILTER || rel->kind == TRN_REL_SORT || rel->kind == TRN_REL_LIMIT ||
                 rel->kind == TRN_REL_SAMPLE || rel->kind == TRN_REL_REPARTITION;
  if (!through) return trn_error_set(error, TRN_INTERNAL, NULL, "A column of the plan is out of reach.");
  const trn_rel *input = NULL;
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  status = add_columns(t, rel->inputs[0], missing, missing_count, &input, error);
  spark__leave(t);
  if (status != TRN_OK) return status;
  if (wide) return widen(t, rel, input, missing, missing_count, out, error);
  trn_rel *copy = trn__rel_create(t->arena, (trn_rel_kind)rel->kind, &input, 1, rel->exprs, rel->expr_count,
                                  input->columns, input->column_count);
  if (!copy) return trn__no_memory(error);
  copy->u = rel->u;
  *out = copy;
  return TRN_OK;
}

typedef struct column_list {
  trn_arena *arena;
  const trn_expr **items;
  size_t count, capacity;
  bool failed;
} column_list;

static trn_walk collect_column(void *user, const trn_expr *expr, const trn_rel *holder) {
  column_list *list = user;
  (void)holder;
  /* An OUTER inside a subquery may mean a column of ours; those of others are not found and do not matter. */
  if (expr->kind != TRN_EXPR_COLUMN) return TRN_WALK_ON;
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i]->u.column == expr->u.column) return TRN_WALK_ON;
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    const trn_expr **items = TRN_NEW_N(list->arena, const trn_expr *, capacity);
    if (!items) {
      list->failed = true;
      return TRN_WALK_STOP;
    }
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = expr;
  return TRN_WALK_ON;
}

static trn_walk no_relation(void *user, const trn_rel *rel) {
  (void)user, (void)rel;
  return TRN_WALK_SKIP;
}

trn_status spark__require_columns(spark_translator *t, const trn_rel *rel, const trn_expr *const *exprs, size_t count,
                                  const trn_rel **out, trn_error **error) {
  column_list list = {.arena = t->arena};
  trn_visitor visitor = {.rel = no_relation, .expr = collect_column, .user = &list};
  for (size_t i = 0; i < count; i++) {
    trn_status status = trn__expr_walk(exprs[i], &visitor);
    if (list.failed) return trn__no_memory(error);
    if (status != TRN_OK)
      return trn_error_set(error, status, NULL, "An expression is nested deeper than TRN_PLAN_DEPTH_MAX.");
  }
  return add_columns(t, rel, list.items, list.count, out, error);
}
