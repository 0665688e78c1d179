/* What a name means: columns of scopes, nested fields, plan ids, lateral aliases, enclosing queries. */
#include "frontend/spark/translate/variable.h"
#include <stdio.h>
#include <strings.h>

void spark__column_value(const spark_column *column, const char *name, spark_value *out) {
  *out = (spark_value){.expr = column->expr,
                       .name = name,
                       .metadata = column->metadata,
                       .is_attribute = true,
                       .qualifier = column->qualifier};
}

/* ---- candidates in one scope ---- */
typedef struct candidates {
  const spark_column *first;
  uint32_t count; /* different columns */
  size_t used;
} candidates;

/* Whether the qualifier's last `count` parts are `parts`, under Spark's rules about how long it must be. */
static bool qualifier_matches(const spark_translator *t, const spark_qualifier *qualifier, char *const *parts,
                              size_t count) {
  if (!qualifier || qualifier->count < count) return false;
  if (count == 3 && qualifier->count != 3) return false;
  for (size_t i = 0; i < count; i++)
    if (!spark__name_equal(t, qualifier->parts[qualifier->count - count + i], parts[i])) return false;
  return true;
}

static void gather(spark_translator *t, const spark_scope *scope, char *const *parts, size_t qualifiers, bool hidden,
                   candidates *out) {
  const char *name = parts[qualifiers];
  *out = (candidates){.used = qualifiers + 1};
  for (uint32_t i = spark__scope_find(t, scope, name); i != UINT32_MAX; i = spark__scope_next(t, scope, name, i)) {
    const spark_column *column = &scope->columns[i];
    if (column->hidden != hidden) continue;
    if (qualifiers && !qualifier_matches(t, column->qualifier, parts, qualifiers)) continue;
    if (!out->first)
      out->first = column;
    else if (out->first->expr->u.column == column->expr->u.column)
      continue; /* the same column twice */
    out->count++;
  }
}

static trn_status ambiguous(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                            const candidates *found, trn_position position, trn_error **error) {
  const char *texts[64];
  size_t text_count = 0;
  for (uint32_t i = spark__scope_find(t, scope, parts[found->used - 1]); i != UINT32_MAX && text_count < 64;
       i = spark__scope_next(t, scope, parts[found->used - 1], i)) {
    const spark_column *column = &scope->columns[i];
    if (column->hidden != found->first->hidden) continue;
    if (found->used > 1 && !qualifier_matches(t, column->qualifier, parts, found->used - 1)) continue;
    const char *text = spark__quote_column(t, column);
    if (!text) return trn__no_memory(error);
    size_t at = text_count++;
    for (; at > 0 && strcmp(texts[at - 1], text) > 0; at--) texts[at] = texts[at - 1];
    texts[at] = text;
  }
  trn_strbuf list = {0};
  trn__strbuf_putc(&list, '[');
  for (size_t i = 0; i < text_count; i++) {
    if (i) trn__strbuf_puts(&list, ", ");
    trn__strbuf_puts(&list, texts[i]);
  }
  trn__strbuf_putc(&list, ']');
  const char *names = spark__finish_text(t, &list), *name = spark__quote_parts(t, parts, count);
  if (!names || !name) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "AMBIGUOUS_REFERENCE", position, "name", name, "referenceNames",
                      names, NULL);
}

trn_status spark__scope_resolve(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                                trn_position position, spark_resolved *out, bool *found, trn_error **error) {
  *found = false;
  /* Qualified readings go first, the longest before the shorter; a name alone never finds a hidden column. */
  for (int hidden = 0; hidden <= (scope->hidden_count ? 1 : 0); hidden++) {
    for (size_t qualifiers = count > 4 ? 3 : count - 1;; qualifiers--) {
      candidates now;
      if (hidden && qualifiers == 0) break;
      gather(t, scope, parts, qualifiers, hidden, &now);
      if (now.count > 1) return ambiguous(t, scope, parts, count, &now, position, error);
      if (now.count == 1) {
        *out = (spark_resolved){.column = now.first, .used = now.used};
        *found = true;
        return TRN_OK;
      }
      if (qualifiers == 0) break;
    }
  }
  return TRN_OK;
}

/* ---- suggestions ---- */
typedef struct suggestion {
  const char *text;
  const char *name;
  uint32_t id;
  size_t distance;
} suggestion;

enum { SUGGESTIONS_MAX = 5 };

static int by_name(const void *a, const void *b) {
  const suggestion *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->id > y->id) - (x->id < y->id);
}

static int by_distance(const void *a, const void *b) {
  const suggestion *x = a, *y = b;
  if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
  return by_name(a, b);
}

static bool same_qualifier(const spark_qualifier *a, const spark_qualifier *b, uint32_t drop) {
  uint32_t n = a && a->count > drop ? a->count - drop : 0, m = b && b->count > drop ? b->count - drop : 0;
  if (n != m) return false;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(a->parts[i], b->parts[i]) != 0) return false;
  return true;
}

/* How many parts of the qualifiers are worth showing: none when all columns have the same one. */
static uint32_t shown_parts(const spark_scope *scope, size_t name_parts) {
  bool one_table = true, one_schema = true;
  for (uint32_t i = 1; i < scope->count; i++) {
    if (!same_qualifier(scope->columns[0].qualifier, scope->columns[i].qualifier, 0)) one_table = false;
    if (!same_qualifier(scope->columns[0].qualifier, scope->columns[i].qualifier, 1)) one_schema = false;
  }
  if (name_parts == 1 && one_table) return 0;
  if (name_parts <= 2 && one_schema) return 1;
  return SPARK_QUALIFIER_PARTS_MAX;
}

static trn_status suggest(spark_translator *t, const spark_scope *scope, const char *wanted, size_t name_parts,
                          const char **out, trn_error **error) {
  suggestion *list = TRN_NEW_N(t->arena, suggestion, scope->count);
  if (!list) return trn__no_memory(error);
  uint32_t shown = shown_parts(scope, name_parts);
  size_t count = 0;
  for (uint32_t i = 0; i < scope->count; i++) {
    spark_column column = scope->columns[i];
    spark_qualifier cut = {0};
    if (column.hidden) continue;
    if (column.qualifier && shown < column.qualifier->count) {
      for (uint32_t k = column.qualifier->count - shown; k < column.qualifier->count; k++)
        cut.parts[cut.count++] = column.qualifier->parts[k];
      column.qualifier = &cut;
    }
    const char *text = spark__quote_column(t, &column);
    if (!text) return trn__no_memory(error);
    list[count++] = (suggestion){text, column.name, column.expr->u.column, trn__edit_distance(text, wanted)};
  }
  qsort(list, count, sizeof *list, by_distance);
  trn_strbuf text = {0};
  for (size_t i = 0; i < count && i < SUGGESTIONS_MAX; i++) {
    if (i) trn__strbuf_puts(&text, ", ");
    trn__strbuf_puts(&text, list[i].text);
  }
  *out = count ? spark__finish_text(t, &text) : "";
  return *out ? TRN_OK : trn__no_memory(error);
}

trn_status spark__unresolved_column(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                                    trn_position position, trn_error **error) {
  const char *name = spark__quote_parts(t, parts, count), *proposal = "";
  if (!name) return trn__no_memory(error);
  if (!scope || spark__visible_count(scope) == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", position, "objectName",
                        name, NULL);
  trn_status status = suggest(t, scope, name, count, &proposal, error);
  if (status != TRN_OK) return status;
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN.WITH_SUGGESTION", position, "objectName", name,
                      "proposal", proposal, NULL);
}

/* ---- plan ids ---- */
static uint32_t bucket(int64_t id) {
  return (uint32_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 40) % SPARK_PLAN_BUCKETS;
}

trn_status spark__plan_id_add(spark_translator *t, int64_t id, const spark_scope *scope, uint64_t begin, uint64_t end,
                              trn_error **error) {
  spark_state *state = spark__state(t);
  spark_plan_id *plan = TRN_NEW(t->arena, spark_plan_id);
  if (!plan) return trn__no_memory(error);
  *plan = (spark_plan_id){.id = id,
                          .scope = scope,
                          .begin = begin,
                          .end = end,
                          .depth = t->depth,
                          .next = state->plans[bucket(id)],
                          .earlier = state->last_plan};
  state->plans[bucket(id)] = plan;
  state->last_plan = plan;
  return TRN_OK;
}

void spark__plan_id_forget(spark_translator *t, const spark_plan_id *mark) {
  spark_state *state = spark__state(t);
  while (state->last_plan != mark) { /* the last of all is the last of its bucket */
    spark_plan_id *plan = state->last_plan;
    state->plans[bucket(plan->id)] = plan->next;
    state->last_plan = plan->earlier;
  }
}

/* What of the context's inputs has the column: itself, or (for filter and sort) what its projections left out. */
static bool reaches(spark_translator *t, spark_context *context, const spark_scope *input, uint32_t id) {
  if (spark__scope_has(t, input, id)) return true;
  for (const spark_scope *below = input->below; context->use_below && below; below = below->below) {
    if (!spark__scope_has(t, below, id)) continue;
    context->found_below = true;
    return true;
  }
  return false;
}

static const spark_scope *input_of(const spark_context *context, const spark_plan_id *plan) {
  for (uint32_t i = 0; i < context->input_count; i++)
    if (plan->begin >= context->inputs[i]->begin && plan->end <= context->inputs[i]->end) return context->inputs[i];
  return NULL;
}

trn_status spark__plan_scope(spark_translator *t, int64_t id, const spark_scope **found, const spark_scope **input,
                             bool *twice) {
  unsigned best = UINT32_MAX;
  const spark_context *context = spark__state(t)->context;
  *found = *input = NULL;
  *twice = false;
  for (spark_plan_id *plan = spark__state(t)->plans[bucket(id)]; plan && context; plan = plan->next) {
    const spark_scope *holder = plan->id == id ? input_of(context, plan) : NULL;
    if (!holder || plan->depth > best) continue;
    *twice = *found && plan->depth == best;
    best = plan->depth;
    *found = plan->scope;
    *input = holder;
  }
  return TRN_OK;
}

/* The column's type and nullability as the context has it: an outer join above the DataFrame may have changed them. */
static const trn_expr *as_seen(spark_translator *t, const spark_context *context, const trn_expr *expr) {
  const spark_column *column = context->scope ? spark__scope_column(t, context->scope, expr->u.column) : NULL;
  return column ? column->expr : expr;
}

static trn_status find_by_plan_id(spark_translator *t, spark_context *context, int64_t id, char *const *parts,
                                  size_t count, trn_position position, spark_resolved *out, bool *found, bool *matched,
                                  trn_error **error) {
  unsigned best = UINT32_MAX;
  bool twice = false;
  *found = *matched = false;
  for (spark_plan_id *plan = spark__state(t)->plans[bucket(id)]; plan; plan = plan->next) {
    if (plan->id != id) continue;
    const spark_scope *input = input_of(context, plan);
    spark_resolved now;
    bool has = false;
    if (!input) continue;
    *matched = true;
    trn_status status = spark__scope_resolve(t, plan->scope, parts, count, position, &now, &has, error);
    if (status != TRN_OK) return status;
    if (!has || !reaches(t, context, input, now.column->expr->u.column)) continue;
    if (*found && now.column->expr->u.column == out->column->expr->u.column) continue;
    if (plan->depth > best) continue;
    twice = *found && plan->depth == best;
    best = plan->depth;
    *out = now;
    *found = true;
  }
  if (!twice) return TRN_OK;
  const char *name = spark__quote_parts(t, parts, count);
  if (!name) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "AMBIGUOUS_COLUMN_REFERENCE", position, "name", name, NULL);
}

/* ---- attributes ---- */
typedef struct lookup {
  spark_translator *t;
  char **parts;
  size_t count;
  trn_position position;
  trn_error **error;
  spark_value *out;
  bool found;
} lookup;

/* From a column and the rest of the name to a value. */
static trn_status take(lookup *l, const spark_resolved *resolved, const trn_expr *expr) {
  spark_translator *t = l->t;
  const char *name = l->parts[resolved->used - 1];
  spark__column_value(resolved->column, name, l->out);
  l->out->expr = expr;
  l->found = true;
  if (resolved->used == l->count) return TRN_OK;
  trn_status status = spark__nested_fields(t, expr, l->parts + resolved->used, l->count - resolved->used, l->position,
                                           &l->out->expr, &l->out->name, l->error);
  l->out->is_attribute = false; /* Spark names it with an alias: a column of its own */
  l->out->is_alias = true;
  l->out->qualifier = NULL;
  return status;
}

static trn_status try_scope(lookup *l, const spark_scope *scope) {
  spark_resolved resolved;
  bool found = false;
  trn_status status = spark__scope_resolve(l->t, scope, l->parts, l->count, l->position, &resolved, &found, l->error);
  return status == TRN_OK && found ? take(l, &resolved, resolved.column->expr) : status;
}

/* A parameter of a SQL function: the argument in its place. */
static trn_status try_values(lookup *l, const spark_context *context) {
  spark_translator *t = l->t;
  spark_resolved resolved;
  bool found = false;
  trn_status status = spark__scope_resolve(t, context->scope, l->parts, l->count, l->position, &resolved, &found, l->error);
  if (status != TRN_OK || !found) return status;
  const spark_value *value = &context->values[resolved.column - context->scope->columns];
  status = take(l, &resolved, value->expr);
  l->out->is_attribute = false;
  l->out->is_foldable = value->is_foldable;
  l->out->has_aggregate = value->has_aggregate;
  return status;
}

static trn_status try_laterals(lookup *l, spark_context *context) {
  spark_translator *t = l->t;
  spark_lateral *match = NULL;
  uint32_t count = 0, hash = spark__name_hash(l->parts[0]);
  for (uint32_t i = 0; i < context->lateral_count; i++) {
    if (context->laterals[i].hash != hash || !spark__name_equal(t, context->laterals[i].name, l->parts[0])) continue;
    match = &context->laterals[i];
    count++;
  }
  if (count == 0) return TRN_OK;
  const char *name = spark__quote_parts(t, l->parts, l->count);
  if (!name) return trn__no_memory(l->error);
  if (count > 1) {
    char number[16];
    snprintf(number, sizeof number, "%u", count);
    return spark__error(t, l->error, TRN_INVALID_ARGUMENT, "AMBIGUOUS_LATERAL_COLUMN_ALIAS", l->position, "name", name,
                        "n", number, NULL);
  }
  if (context->in_aggregate)
    return spark__error(t, l->error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_AGGREGATE_FUNC",
                        l->position, "lca", name, "aggFunc", "\"\"", NULL);
  context->lateral_used = true;
  if (!match->column) match->column = spark__column_expr(t, match->value->type, match->value->nullable);
  if (!match->column) return trn__no_memory(l->error);
  spark_column column = {.expr = match->column, .name = match->name};
  spark_resolved resolved = {.column = &column, .used = 1};
  trn_status status = take(l, &resolved, match->column);
  if (status != TRN_OK || l->count > 1) return status;
  /* So Spark calls it inside of other expressions; alone it has its own name (spark__select_list). */
  l->out->name = trn__arena_printf(t->arena, "lateralAliasReference(%s)", l->parts[0]);
  return l->out->name ? TRN_OK : trn__no_memory(l->error);
}

/* CURRENT_DATE and kin without parentheses. */
static trn_status try_function(lookup *l) {
  static const char *const names[] = {"current_date",     "current_timestamp", "current_user",   "user",
                                      "session_user",     "current_time",      "localtimestamp", "current_catalog",
                                      "current_database", "current_schema",    "grouping__id"};
  if (l->count != 1) return TRN_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcasecmp(names[i], l->parts[0]) != 0) continue;
    l->found = true;
    trn_status status = spark__function_call(l->t, i == 10 ? "grouping_id" : names[i], NULL, 0, false, false, NULL, l->position,
                                             l->out, l->error);
    if (i == 10 && !status) l->out->variable_name = names[i]; /* alone; inside of others it is the function */
    return status;
  }
  return TRN_OK;
}

/* The scopes of one context, in the order in which Spark asks them. */
static trn_status try_context(lookup *l, spark_context *context) {
  trn_status status = TRN_OK;
  if (context->first && !context->in_aggregate) status = try_scope(l, context->first);
  if (status != TRN_OK || l->found) return status;
  if (context->values) return try_values(l, context);
  if (context->scope) status = try_scope(l, context->scope);
  if (status != TRN_OK) return status;
  if (context->last && !context->in_aggregate &&
      (!l->found || (context->aggregation && !spark__aggregation_has_key(context->aggregation, l->out->expr)))) {
    spark_value before = *l->out;
    bool was_found = l->found;
    l->found = false;
    status = try_scope(l, context->last);
    if (status != TRN_OK) return status;
    if (!l->found && was_found) *l->out = before;
    l->found = l->found || was_found;
  }
  for (const spark_scope *below = context->scope ? context->scope->below : NULL;
       context->use_below && below && !l->found && status == TRN_OK; below = below->below) {
    status = try_scope(l, below);
    if (l->found) context->found_below = true;
  }
  if (status == TRN_OK && !l->found) status = try_laterals(l, context);
  if (status == TRN_OK && !l->found && context->generated && !context->in_aggregate)
    status = try_scope(l, context->generated);
  return status;
}

/* The same column, as a subquery sees it. */
static trn_status outer_tree(lookup *l, const trn_expr *expr, const trn_expr **out) {
  spark_translator *t = l->t;
  *out = expr;
  if (expr->kind == TRN_EXPR_COLUMN) {
    trn_expr *outer = trn__expr_create(t->arena, TRN_EXPR_OUTER, expr->type, expr->nullable, NULL, 0);
    if (!outer) return trn__no_memory(l->error);
    outer->u.column = expr->u.column;
    *out = outer;
    return TRN_OK;
  }
  if (expr->kind == TRN_EXPR_AGGREGATE || expr->kind == TRN_EXPR_WINDOW)
    return spark__unimplemented(t, l->position, l->error, "An aggregate as the argument of a function with a query");
  if (expr->arg_count == 0) return TRN_OK;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, expr->arg_count);
  if (!args) return trn__no_memory(l->error);
  if (++spark__state(t)->steps > TRN_TRANSLATE_STEPS_MAX) /* shared parts: a tree that is exponentially larger */
    return trn_error_set(l->error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The plan takes more than TRN_TRANSLATE_STEPS_MAX (%u) steps: parts are used too often.",
                         TRN_TRANSLATE_STEPS_MAX);
  trn_status status = spark__enter(t, l->error);
  if (status != TRN_OK) return status;
  for (uint32_t i = 0; i < expr->arg_count && status == TRN_OK; i++) status = outer_tree(l, expr->args[i], &args[i]);
  spark__leave(t);
  return status == TRN_OK ? spark__expr_with_args(t, expr, args, out, l->error) : status;
}

static trn_status make_outer(lookup *l, const spark_context *owner) {
  spark_translator *t = l->t;
  if (owner == spark__state(t)->context) return TRN_OK;
  if (owner->values) return outer_tree(l, l->out->expr, &l->out->expr);
  const trn_expr *inner = l->out->expr;
  if (inner->kind != TRN_EXPR_COLUMN && inner->kind != TRN_EXPR_CALL) return TRN_OK;
  if (inner->kind == TRN_EXPR_CALL) { /* nested fields: get_field(column, name) */
    const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, inner->arg_count);
    if (!args) return trn__no_memory(l->error);
    if (inner->arg_count == 0) return TRN_OK;
    memcpy(args, inner->args, inner->arg_count * sizeof *args);
    spark_value base = *l->out;
    base.expr = args[0];
    lookup below = *l;
    below.out = &base;
    trn_status status = make_outer(&below, owner);
    if (status != TRN_OK) return status;
    args[0] = base.expr;
    return spark__expr_with_args(t, inner, args, &l->out->expr, l->error);
  }
  trn_expr *outer = trn__expr_create(t->arena, TRN_EXPR_OUTER, inner->type, inner->nullable, NULL, 0);
  if (!outer) return trn__no_memory(l->error);
  outer->u.column = inner->u.column;
  outer->position = l->position;
  l->out->expr = outer;
  return TRN_OK;
}

static trn_status by_plan_id(lookup *l, int64_t id) {
  spark_translator *t = l->t;
  unsigned level = 0; /* as in Spark: its own query and the one around it */
  for (spark_context *context = spark__state(t)->context; context && level < 2; context = context->outer, level++) {
    spark_resolved resolved;
    bool found = false, matched = false;
    trn_status status =
        find_by_plan_id(t, context, id, l->parts, l->count, l->position, &resolved, &found, &matched, l->error);
    if (status != TRN_OK) return status;
    if (!found) continue;
    status = take(l, &resolved, as_seen(t, context, resolved.column->expr));
    return status == TRN_OK ? make_outer(l, context) : status;
  }
  const char *name = spark__quote_parts(t, l->parts, l->count);
  if (!name) return trn__no_memory(l->error);
  return spark__error(t, l->error, TRN_INVALID_ARGUMENT, "CANNOT_RESOLVE_DATAFRAME_COLUMN", l->position, "name", name,
                      NULL);
}

trn_status spark__resolve_attribute(spark_translator *t,
                                    const Spark__Connect__Expression__UnresolvedAttribute *attribute,
                                    trn_position position, spark_value *out, trn_error **error) {
  lookup l = {.t = t, .position = position, .error = error, .out = out};
  const char *text = attribute->unparsed_identifier ? attribute->unparsed_identifier : "";
  trn_status status = spark__sql_parse_attribute_name(t->arena, text, strlen(text), &l.parts, &l.count, error);
  if (status != TRN_OK) return status;
  if (l.count == 0) return spark__unresolved_column(t, NULL, l.parts, 0, position, error);
  if (attribute->_plan_id_case == SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE___PLAN_ID_PLAN_ID)
    return by_plan_id(&l, attribute->plan_id);
  spark_context *here = spark__state(t)->context;
  bool skipped = false;
  unsigned level = 0; /* as in Spark: its own query and the one around it */
  for (spark_context *context = here; context && level < 2; context = context->outer, level++) {
    bool function_first = context == here && context->values && !context->shadows;
    if (function_first) status = try_function(&l);
    if (status == TRN_OK && !l.found) status = try_context(&l, context);
    if (status == TRN_OK && !l.found && context == here && !function_first) status = try_function(&l);
    if (status != TRN_OK) return status;
    if (l.found) return make_outer(&l, context);
    /* SELECT without FROM has no columns that could hide a function's parameters. */
    bool empty = context->scope && context->scope->count == 0;
    if (empty && !skipped && spark__state(t)->body) skipped = true, level--;
  }
  if (!here) {
    status = try_function(&l);
    if (status != TRN_OK || l.found) return status;
  }
  status = spark__resolve_variable(t, l.parts, l.count, position, out, &l.found, error);
  if (status != TRN_OK || l.found) return status;
  const spark_scope *scope = here ? (here->first && !here->in_aggregate ? here->first : here->scope) : NULL;
  return spark__unresolved_column(t, scope, l.parts, l.count, position, error);
}
