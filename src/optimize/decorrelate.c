/* Decorrelation: SUBQUERY expressions become joins, OUTER references become columns.
 *
 * The subquery's correlated predicates are pulled up through its relations until they can stand in the condition of a
 * join with the relation that holds the subquery: EXISTS and IN in a conjunction become semi and anti joins, elsewhere
 * mark joins; a scalar subquery becomes a left join with one row per key. This is done here, and not by the engine,
 * because plans with correlated subqueries cannot be encoded and the engine pulls outer references out of filters only.
 *
 * Bounds: recursion follows the plan's own nesting, which is limited by TRN_PLAN_DEPTH_MAX; runs on a big stack. */
#include "optimize/decorrelate.h"

#define MAX_DEPTH TRN_PLAN_DEPTH_MAX

static trn_status fix_rel(dec *d, const trn_rel *rel, const trn_rel **out);

trn_status trn__dec_unsupported(dec *d, const char *what) {
  return trn_error_set(d->error, TRN_UNIMPLEMENTED, NULL, "a correlated subquery with %s is not supported yet", what);
}

static trn_status no_memory(dec *d) {
  return trn__no_memory(d->error);
}

/* ---- sets of column ids ---- */

static bool columns_have(const trn_rel *rel, uint32_t id) {
  for (uint32_t i = 0; i < rel->column_count; i++)
    if (rel->columns[i].id == id) return true;
  return false;
}

/* ---- questions about expressions ---- */

typedef enum facts { HAS_SUBQUERY = 1, HAS_OUTER = 2, HAS_COLUMN = 4 } facts;

static unsigned expr_facts(const trn_expr *expr) {
  unsigned found = 0;
  if (expr->kind == TRN_EXPR_SUBQUERY) found |= HAS_SUBQUERY;
  if (expr->kind == TRN_EXPR_OUTER) found |= HAS_OUTER;
  if (expr->kind == TRN_EXPR_COLUMN) found |= HAS_COLUMN;
  for (uint32_t i = 0; i < expr->arg_count; i++) found |= expr_facts(expr->args[i]);
  return found;
}

static unsigned own_facts(const trn_rel *rel) {
  unsigned found = 0;
  for (uint32_t i = 0; i < rel->expr_count; i++) found |= expr_facts(rel->exprs[i]);
  return found;
}

bool trn__rel_has_outer(const trn_rel *rel) {
  if (own_facts(rel) & HAS_OUTER) return true;
  for (uint32_t i = 0; i < rel->input_count; i++)
    if (trn__rel_has_outer(rel->inputs[i])) return true;
  return false;
}

/* ---- building ---- */

const trn_expr *trn__dec_and(dec *d, const trn_expr *a, const trn_expr *b) {
  if (a == NULL) return b;
  if (b == NULL) return a;
  const trn_expr *args[2] = {a, b};
  return trn__expr_call(d->arena, TRN_HOME_NATIVE, "and", trn__type(TRN_TYPE_BOOL), a->nullable || b->nullable, args,
                        2);
}

static const trn_expr *call1(dec *d, const char *name, const trn_expr *a) {
  return trn__expr_call(d->arena, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), false, &a, 1);
}

static const trn_expr *call2(dec *d, const char *name, const trn_expr *a, const trn_expr *b) {
  const trn_expr *args[2] = {a, b};
  return trn__expr_call(d->arena, TRN_HOME_NATIVE, name, trn__type(TRN_TYPE_BOOL), a->nullable || b->nullable, args, 2);
}

trn_column trn__dec_column(dec *d, const trn_type *type, bool nullable) {
  return (trn_column){.id = d->next++, .nullable = nullable, .type = type};
}

/* A copy of `rel` with other inputs and expressions; columns stay. */
static trn_rel *rebuild(dec *d, const trn_rel *rel, const trn_rel *const *inputs, const trn_expr *const *exprs) {
  trn_rel *copy = trn__rel_create(d->arena, (trn_rel_kind)rel->kind, inputs, rel->input_count, exprs, rel->expr_count,
                                  rel->columns, rel->column_count);
  if (copy) copy->u = rel->u;
  return copy;
}

const trn_rel *trn__dec_project(dec *d, const trn_rel *input, const trn_column *columns, uint32_t count) {
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, count ? count : 1);
  if (!exprs) return NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!(exprs[i] = trn__expr_column(d->arena, &columns[i]))) return NULL;
  return trn__rel_project(d->arena, input, exprs, columns, count);
}

/* ---- substitution ---- */

const trn_expr *trn__dec_substitute(dec *d, const trn_expr *expr, replace_fn replace, void *user) {
  if (expr->arg_count == 0) {
    const trn_expr *other = replace(user, expr);
    return other ? other : expr;
  }
  const trn_expr **args = NULL;
  for (uint32_t i = 0; i < expr->arg_count; i++) {
    const trn_expr *arg = trn__dec_substitute(d, expr->args[i], replace, user);
    if (!arg) return NULL;
    if (arg != expr->args[i] && !args) {
      args = TRN_NEW_N(d->arena, const trn_expr *, expr->arg_count);
      if (!args) return NULL;
      memcpy(args, expr->args, expr->arg_count * sizeof *args);
    }
    if (args) args[i] = arg;
  }
  if (!args) return expr;
  trn_expr *copy = trn__arena_copy(d->arena, expr, sizeof *expr);
  if (copy) copy->args = args;
  return copy;
}

typedef struct outer_to_column {
  dec *d;
  const trn_rel *rel;
  bool failed;
} outer_to_column;

static const trn_expr *outer_leaf(void *user, const trn_expr *leaf) {
  outer_to_column *o = user;
  if (leaf->kind != TRN_EXPR_OUTER || !columns_have(o->rel, leaf->u.column)) return NULL;
  trn_expr *copy = trn__arena_copy(o->d->arena, leaf, sizeof *leaf);
  if (!copy)
    o->failed = true;
  else
    copy->kind = TRN_EXPR_COLUMN;
  return copy;
}

/* OUTER references to columns of `rel` become COLUMN; those further out stay. */
static const trn_expr *bind_outer(dec *d, const trn_expr *expr, const trn_rel *rel) {
  outer_to_column o = {.d = d, .rel = rel};
  const trn_expr *bound = trn__dec_substitute(d, expr, outer_leaf, &o);
  return o.failed ? NULL : bound;
}

/* ---- conjunctions ---- */

/* Appends the conjuncts of `expr`; left-deep chains are followed by a loop. */
static bool split(trn_vec *out, const trn_expr *expr) {
  size_t first = out->count;
  while (expr->kind == TRN_EXPR_CALL && expr->u.call.home == TRN_HOME_NATIVE && !strcmp(expr->u.call.name, "and")) {
    if (!trn__vec_push(out, (void *)(uintptr_t)expr->args[1])) return false;
    expr = expr->args[0];
  }
  if (!trn__vec_push(out, (void *)(uintptr_t)expr)) return false;
  for (size_t a = first, b = out->count - 1; a < b; a++, b--) { /* the order of writing */
    void *t = out->items[a];
    out->items[a] = out->items[b];
    out->items[b] = t;
  }
  return true;
}

/* ---- pulling correlated predicates up ---- */

static trn_status pull(dec *d, const trn_rel *rel, pulled *out);

typedef struct by_column {
  const trn_column *columns;
  uint32_t count;
  const trn_expr **values;
} by_column;

static const trn_expr *column_leaf(void *user, const trn_expr *leaf) {
  by_column *b = user;
  if (leaf->kind == TRN_EXPR_COLUMN)
    for (uint32_t i = 0; i < b->count; i++)
      if (b->columns[i].id == leaf->u.column) return b->values[i];
  return NULL;
}

static trn_status pull_filter(dec *d, const trn_rel *rel, pulled *out) {
  const trn_rel *input = rel->inputs[0];
  trn_status status = pull(d, input, out);
  if (status) return status;
  trn_vec conjuncts = {0};
  const trn_expr *kept = NULL;
  if (!split(&conjuncts, rel->exprs[0])) status = no_memory(d);
  for (size_t i = 0; !status && i < conjuncts.count; i++) {
    const trn_expr *c = conjuncts.items[i];
    if (expr_facts(c) & HAS_OUTER) {
      if (out->empty)
        status = trn__dec_unsupported(d, "an outer column in HAVING");
      else if (!trn__vec_push(&out->preds, (void *)(uintptr_t)c))
        status = no_memory(d);
    } else if (!(kept = trn__dec_and(d, kept, c))) {
      status = no_memory(d);
    }
  }
  trn__vec_finish(&conjuncts);
  if (status || !kept) return status;
  if (!(out->rel = trn__rel_filter(d->arena, out->rel, kept))) return no_memory(d);
  if (out->empty) { /* HAVING over a global aggregate: the row for "no rows" passes it or not */
    by_column b = {rel->columns, rel->column_count, out->empty};
    const trn_expr *test = trn__dec_substitute(d, kept, column_leaf, &b);
    if (!test) return no_memory(d);
    for (uint32_t i = 0; i < rel->column_count; i++) {
      const trn_expr *args[2] = {test, out->empty[i]};
      if (!(out->empty[i] = trn__expr_create(d->arena, TRN_EXPR_CASE, out->empty[i]->type, true, args, 2)))
        return no_memory(d);
    }
  }
  return TRN_OK;
}

/* Columns that the predicates need and `have` lacks, as pass-through columns behind it. */
typedef struct extra {
  trn_column *columns;
  const trn_expr **exprs;
  uint32_t count, capacity;
} extra;

static trn_status need_columns(dec *d, const trn_expr *expr, const trn_rel *input, const trn_column *have,
                               uint32_t count, extra *e) {
  if (expr->kind == TRN_EXPR_COLUMN) {
    for (uint32_t i = 0; i < count; i++)
      if (have[i].id == expr->u.column) return TRN_OK;
    for (uint32_t i = 0; i < e->count; i++)
      if (e->columns[i].id == expr->u.column) return TRN_OK;
    if (e->count == e->capacity) {
      uint32_t capacity = e->capacity ? 2 * e->capacity : 8;
      trn_column *columns = TRN_NEW_N(d->arena, trn_column, capacity);
      const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, capacity);
      if (!columns || !exprs) return no_memory(d);
      if (e->count) {
        memcpy(columns, e->columns, e->count * sizeof *columns);
        memcpy(exprs, e->exprs, e->count * sizeof *exprs);
      }
      e->columns = columns, e->exprs = exprs, e->capacity = capacity;
    }
    trn_column column = {.id = expr->u.column, .nullable = expr->nullable, .type = expr->type};
    for (uint32_t i = 0; i < input->column_count; i++)
      if (input->columns[i].id == column.id) column = input->columns[i];
    e->columns[e->count] = column;
    if (!(e->exprs[e->count] = trn__expr_column(d->arena, &column))) return no_memory(d);
    e->count++;
  }
  for (uint32_t i = 0; i < expr->arg_count; i++) {
    trn_status status = need_columns(d, expr->args[i], input, have, count, e);
    if (status) return status;
  }
  return TRN_OK;
}

static trn_status pull_project(dec *d, const trn_rel *rel, pulled *out) {
  if (own_facts(rel) & HAS_OUTER) return trn__dec_unsupported(d, "an outer column in its select list");
  trn_status status = pull(d, rel->inputs[0], out);
  if (status) return status;
  extra e = {0};
  for (size_t i = 0; i < out->preds.count; i++)
    if ((status = need_columns(d, out->preds.items[i], out->rel, rel->columns, rel->column_count, &e))) return status;
  uint32_t total = rel->column_count + e.count;
  trn_column *columns = TRN_NEW_N(d->arena, trn_column, total ? total : 1);
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, total ? total : 1);
  if (!columns || !exprs) return no_memory(d);
  for (uint32_t i = 0; i < total; i++) {
    bool own = i < rel->column_count;
    columns[i] = own ? rel->columns[i] : e.columns[i - rel->column_count];
    exprs[i] = own ? rel->exprs[i] : e.exprs[i - rel->column_count];
  }
  if (out->empty) {
    const trn_expr **empty = TRN_NEW_N(d->arena, const trn_expr *, rel->column_count ? rel->column_count : 1);
    if (!empty) return no_memory(d);
    by_column b = {rel->inputs[0]->columns, rel->inputs[0]->column_count, out->empty};
    for (uint32_t i = 0; i < rel->column_count; i++)
      if (!(empty[i] = trn__dec_substitute(d, rel->exprs[i], column_leaf, &b))) return no_memory(d);
    out->empty = empty;
  }
  out->rel = trn__rel_project(d->arena, out->rel, exprs, columns, total);
  return out->rel ? TRN_OK : no_memory(d);
}

const trn_expr *trn__dec_empty(dec *d, const trn_expr *aggregate) {
  const char *name = aggregate->u.aggregate.name;
  if (!strcmp(name, "count") || !strcmp(name, "trn.count_if")) return trn__expr_int(d->arena, aggregate->type, 0);
  if (!aggregate->nullable) return NULL; /* e.g. collect_list: an empty array, which has no literal here */
  return trn__expr_null(d->arena, aggregate->type);
}

/* inner = outer, either way round: the inner side into *inner. */
static bool is_key(const trn_expr *pred, int *inner) {
  if (pred->kind != TRN_EXPR_CALL || pred->u.call.home != TRN_HOME_NATIVE || pred->arg_count != 2) return false;
  if (strcmp(pred->u.call.name, "=") && strcmp(pred->u.call.name, "is_not_distinct_from")) return false;
  unsigned a = expr_facts(pred->args[0]), b = expr_facts(pred->args[1]);
  if (!(a & HAS_OUTER) && !(b & HAS_COLUMN)) return *inner = 0, true;
  if (!(b & HAS_OUTER) && !(a & HAS_COLUMN)) return *inner = 1, true;
  return false;
}

/* Makes the inner sides of the pulled key predicates grouping keys of an aggregate over out->rel: exprs/columns get
 * them in front, and the predicates refer to the new columns. */
static trn_status keys_of(dec *d, pulled *out, const trn_expr **exprs, trn_column *columns, uint32_t *count) {
  *count = 0;
  for (size_t i = 0; i < out->preds.count; i++) {
    const trn_expr *pred = out->preds.items[i];
    if (!(expr_facts(pred) & HAS_COLUMN)) continue; /* only about the outer row */
    int inner;
    if (!is_key(pred, &inner)) return trn__dec_unsupported(d, "a correlation other than equality below an aggregate");
    columns[*count] = trn__dec_column(d, pred->args[inner]->type, pred->args[inner]->nullable);
    exprs[*count] = pred->args[inner];
    const trn_expr *args[2] = {pred->args[0], pred->args[1]};
    if (!(args[inner] = trn__expr_column(d->arena, &columns[*count]))) return no_memory(d);
    trn_expr *copy = trn__arena_copy(d->arena, pred, sizeof *pred);
    if (!copy || !(copy->args = trn__arena_copy(d->arena, args, sizeof args))) return no_memory(d);
    out->preds.items[i] = copy;
    (*count)++;
  }
  return TRN_OK;
}

static trn_status pull_aggregate(dec *d, const trn_rel *rel, pulled *out) {
  if (own_facts(rel) & HAS_OUTER) return trn__dec_unsupported(d, "an outer column in an aggregate");
  if (rel->u.aggregate.set_count) return trn__dec_unsupported(d, "grouping sets");
  trn_status status = pull(d, rel->inputs[0], out);
  if (status) return status;
  if (out->empty) out->empty = NULL; /* an aggregate over an aggregate: its own promise counts */
  size_t most = out->preds.count + rel->column_count + 1;
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, most);
  trn_column *columns = TRN_NEW_N(d->arena, trn_column, most);
  uint32_t keys;
  if (!exprs || !columns) return no_memory(d);
  if ((status = keys_of(d, out, exprs, columns, &keys))) return status;
  memcpy(exprs + keys, rel->exprs, rel->expr_count * sizeof *exprs);
  memcpy(columns + keys, rel->columns, rel->column_count * sizeof *columns);
  if (rel->u.aggregate.group_count == 0) {
    out->one_row = true;
    out->empty = TRN_NEW_N(d->arena, const trn_expr *, rel->column_count + 1);
    if (!out->empty) return no_memory(d);
    for (uint32_t i = 0; i < rel->expr_count; i++)
      if (!(out->empty[i] = trn__dec_empty(d, rel->exprs[i])))
        return trn__dec_unsupported(d, "an aggregate that is not NULL over no rows");
  } else {
    out->one_row = false;
  }
  trn_rel *aggregate = trn__rel_create(d->arena, TRN_REL_AGGREGATE, &out->rel, 1, exprs, rel->expr_count + keys,
                                       columns, rel->column_count + keys);
  if (!aggregate) return no_memory(d);
  aggregate->u.aggregate.group_count = rel->u.aggregate.group_count + keys;
  out->rel = aggregate;
  return TRN_OK;
}

static trn_status pull_join(dec *d, const trn_rel *rel, pulled *out) {
  trn_join_type type = (trn_join_type)rel->u.join.type;
  const trn_expr *condition = rel->expr_count ? rel->exprs[0] : NULL;
  bool inner = type == TRN_JOIN_INNER;
  if (!inner && (trn__rel_has_outer(rel->inputs[1]) || (condition && expr_facts(condition) & HAS_OUTER)))
    return trn__dec_unsupported(d, "an outer column below an outer, semi or anti join");
  if (!inner && (type == TRN_JOIN_RIGHT || type == TRN_JOIN_FULL))
    return trn__dec_unsupported(d, "an outer column below a join");
  trn_status status = pull(d, rel->inputs[0], out);
  pulled right = {.rel = rel->inputs[1]};
  if (!status && inner) status = pull(d, rel->inputs[1], &right);
  const trn_expr *kept = NULL;
  trn_vec conjuncts = {0};
  if (!status && condition && !split(&conjuncts, condition)) status = no_memory(d);
  for (size_t i = 0; !status && i < conjuncts.count; i++) {
    const trn_expr *c = conjuncts.items[i];
    if (!(expr_facts(c) & HAS_OUTER)) {
      if (!(kept = trn__dec_and(d, kept, c))) status = no_memory(d);
    } else if (!trn__vec_push(&out->preds, (void *)(uintptr_t)c)) {
      status = no_memory(d);
    }
  }
  for (size_t i = 0; !status && i < right.preds.count; i++)
    if (!trn__vec_push(&out->preds, right.preds.items[i])) status = no_memory(d);
  if (!status && ((out->empty && out->preds.count) || right.empty) && trn__rel_has_outer(rel))
    status = trn__dec_unsupported(d, "a join over a correlated aggregate");
  out->empty = NULL, out->one_row = false;
  if (!status) {
    bool mark = type == TRN_JOIN_LEFT_MARK; /* keeps its mark column, the last one */
    trn_rel *join =
        mark ? trn__rel_mark_join(d->arena, out->rel, right.rel, kept, rel->columns[rel->column_count - 1].id)
             : trn__rel_join(d->arena, type, out->rel, right.rel, kept);
    if (join) join->u.join.null_aware = rel->u.join.null_aware;
    out->rel = join;
    if (!out->rel) status = no_memory(d);
  }
  trn__vec_finish(&conjuncts);
  trn__vec_finish(&right.preds);
  return status;
}

static trn_status pull(dec *d, const trn_rel *rel, pulled *out) {
  if (++d->depth > MAX_DEPTH)
    return trn_error_set(d->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested deeper than %u", MAX_DEPTH);
  trn_status status = TRN_OK;
  bool global = rel->kind == TRN_REL_AGGREGATE && rel->u.aggregate.group_count == 0 && !rel->u.aggregate.set_count;
  if (!trn__rel_has_outer(rel)) {
    out->rel = rel;
    out->one_row = global;
    d->depth--;
    return TRN_OK;
  }
  switch (rel->kind) {
  case TRN_REL_FILTER: status = pull_filter(d, rel, out); break;
  case TRN_REL_PROJECT: status = pull_project(d, rel, out); break;
  case TRN_REL_AGGREGATE: status = pull_aggregate(d, rel, out); break;
  case TRN_REL_JOIN: status = pull_join(d, rel, out); break;
  case TRN_REL_DISTINCT:
    status = pull(d, rel->inputs[0], out);
    if (!status && out->empty) status = trn__dec_unsupported(d, "DISTINCT over an aggregate");
    if (!status && !(out->rel = trn__rel_create(d->arena, TRN_REL_DISTINCT, &out->rel, 1, NULL, 0, out->rel->columns,
                                                out->rel->column_count)))
      status = no_memory(d);
    break;
  case TRN_REL_SORT:
    if (rel->u.sort.fetch >= 0)
      status = trn__dec_unsupported(d, "LIMIT");
    else
      status = pull(d, rel->inputs[0], out); /* the order inside a subquery means nothing */
    break;
  case TRN_REL_LIMIT: status = trn__dec_unsupported(d, "LIMIT"); break;
  case TRN_REL_UNION:
  case TRN_REL_SET: status = trn__dec_unsupported(d, "a set operation"); break;
  case TRN_REL_WINDOW: status = trn__dec_unsupported(d, "a window function"); break;
  default: status = trn__dec_unsupported(d, "an outer column at this place"); break;
  }
  d->depth--;
  return status;
}

/* The condition of the join: the predicates, bound to `outer`. */
static trn_status bind_preds(dec *d, const pulled *p, const trn_rel *outer, const trn_expr **condition) {
  for (size_t i = 0; i < p->preds.count; i++) {
    const trn_expr *bound = bind_outer(d, p->preds.items[i], outer);
    if (!bound || !(*condition = trn__dec_and(d, *condition, bound))) return no_memory(d);
  }
  return TRN_OK;
}

/* What EXISTS does not look at: select lists, order, DISTINCT, a limit that lets a row through. */
static const trn_rel *strip_for_exists(const trn_rel *rel) {
  for (;;) {
    bool limit = rel->kind == TRN_REL_LIMIT && rel->u.limit.skip == 0 && rel->u.limit.fetch != 0;
    bool sort = rel->kind == TRN_REL_SORT && rel->u.sort.fetch != 0;
    if (rel->kind != TRN_REL_PROJECT && rel->kind != TRN_REL_DISTINCT && !limit && !sort) return rel;
    rel = rel->inputs[0];
  }
}

bool trn__is_global_aggregate(const trn_rel *rel) {
  while (rel->kind == TRN_REL_PROJECT || rel->kind == TRN_REL_SORT) rel = rel->inputs[0];
  return rel->kind == TRN_REL_AGGREGATE && rel->u.aggregate.group_count == 0 && rel->u.aggregate.set_count == 0;
}

/* value = column, for all columns of an IN; with `or_null`, also true when either side is null. */
static trn_status in_condition(dec *d, const trn_expr *in, const pulled *p, bool or_null, const trn_expr **condition) {
  for (uint32_t i = 0; i < in->arg_count; i++) {
    const trn_expr *value = in->args[i], *column = trn__expr_column(d->arena, &p->columns[i]);
    const trn_expr *test = column ? call2(d, "=", value, column) : NULL;
    if (test && or_null && value->nullable) {
      const trn_expr *null = call1(d, "is_null", value);
      test = null ? call2(d, "or", test, null) : NULL;
    }
    if (test && or_null && p->columns[i].nullable) {
      const trn_expr *null = call1(d, "is_null", column);
      test = null ? call2(d, "or", test, null) : NULL;
    }
    if (!test || !(*condition = trn__dec_and(d, *condition, test))) return no_memory(d);
  }
  return TRN_OK;
}

static bool in_is_nullable(const trn_expr *in, const pulled *p) {
  for (uint32_t i = 0; i < in->arg_count; i++)
    if (in->args[i]->nullable || p->columns[i].nullable) return true;
  return false;
}

/* Pulls the predicates of a relation without subqueries up or, where that cannot be done, makes it for every row of
 * `outer`. trn__vec_finish(&p->preds) afterwards, also on failure. */
static trn_status open_rel(dec *d, const trn_rel *rel, const trn_rel *outer, bool keeps_empty, pulled *p) {
  trn_error **error = d->error;
  unsigned depth = d->depth;
  p->columns = rel->columns;
  d->error = NULL;
  trn_status status = pull(d, rel, p);
  d->error = error;
  d->depth = depth;
  if (status == TRN_OK && (keeps_empty || !p->empty)) return TRN_OK;
  trn__vec_finish(&p->preds);
  *p = (pulled){.columns = rel->columns};
  if (status == TRN_OK || status == TRN_UNIMPLEMENTED) return trn__depend(d, rel, outer, p);
  return trn_error_set(error, status, NULL, "The subqueries could not be joined.");
}

/* Fixes and opens a subquery. */
static trn_status open_subquery(dec *d, const trn_expr *sub, const trn_rel *outer, pulled *p) {
  const trn_rel *rel = sub->u.subquery.rel;
  if (sub->u.subquery.kind == TRN_SUBQUERY_EXISTS) rel = strip_for_exists(rel);
  trn_status status = fix_rel(d, rel, &rel);
  return status ? status : open_rel(d, rel, outer, true, p);
}

/* A lateral join: the right side reads columns of the left one as OUTER. */
static trn_status fix_lateral(dec *d, const trn_rel *rel, const trn_rel *const *inputs, const trn_expr *condition,
                              const trn_rel **out) {
  pulled p = {0};
  trn_status status = open_rel(d, inputs[1], inputs[0], false, &p);
  if (!status) status = bind_preds(d, &p, inputs[0], &condition);
  trn__vec_finish(&p.preds);
  if (status) return status;
  const trn_rel *join = trn__rel_join(d->arena, (trn_join_type)rel->u.join.type, inputs[0], p.rel, condition);
  *out = join ? trn__dec_project(d, join, rel->columns, rel->column_count) : NULL;
  return *out ? TRN_OK : no_memory(d);
}

/* [NOT] EXISTS / [NOT] IN as a conjunct: a semi or anti join. `negated` includes the subquery's own flag. */
static trn_status join_predicate(dec *d, const trn_expr *sub, bool negated, const trn_rel **cur) {
  pulled p = {0};
  const trn_expr *condition = NULL;
  bool null_aware = false, is_in = sub->u.subquery.kind == TRN_SUBQUERY_IN;
  trn_status status = open_subquery(d, sub, *cur, &p);
  if (!status && !is_in && trn__is_global_aggregate(strip_for_exists(sub->u.subquery.rel))) { /* always one row */
    trn__vec_finish(&p.preds);
    if (!negated) return TRN_OK;
    const trn_expr *never = trn__expr_bool(d->arena, false);
    *cur = never ? trn__rel_filter(d->arena, *cur, never) : NULL;
    return *cur ? TRN_OK : no_memory(d);
  }
  if (!status) status = bind_preds(d, &p, *cur, &condition);
  if (!status && is_in) {
    bool general = negated && in_is_nullable(sub, &p);
    null_aware = general && condition == NULL && sub->arg_count == 1;
    status = in_condition(d, sub, &p, general && !null_aware, &condition);
  }
  if (!status && !condition && !(condition = trn__expr_bool(d->arena, true))) status = no_memory(d);
  if (!status) {
    trn_rel *join = trn__rel_join(d->arena, negated ? TRN_JOIN_LEFT_ANTI : TRN_JOIN_LEFT_SEMI, *cur, p.rel, condition);
    if (join) join->u.join.null_aware = null_aware;
    *cur = join;
    if (!join) status = no_memory(d);
  }
  trn__vec_finish(&p.preds);
  return status;
}

static trn_status mark_join(dec *d, const trn_rel **cur, const trn_rel *right, const trn_expr *condition,
                            const trn_expr **mark) {
  if (!condition && !(condition = trn__expr_bool(d->arena, true))) return no_memory(d);
  trn_column column = trn__dec_column(d, trn__type(TRN_TYPE_BOOL), false);
  if (!(*cur = trn__dec_some_column(d, *cur)) || !(right = trn__dec_some_column(d, right))) return no_memory(d);
  *cur = trn__rel_mark_join(d->arena, *cur, right, condition, column.id);
  *mark = trn__expr_column(d->arena, &column);
  return *cur && *mark ? TRN_OK : no_memory(d);
}

/* [NOT] EXISTS / IN anywhere in an expression: a mark join. As Spark's existence joins, it is never NULL: an IN that
 * cannot tell is false, and so is a NOT IN. */
static trn_status mark_predicate(dec *d, const trn_expr *sub, bool negated, const trn_rel **cur, const trn_expr **out) {
  pulled p = {0};
  const trn_expr *condition = NULL, *mark = NULL;
  bool is_in = sub->u.subquery.kind == TRN_SUBQUERY_IN;
  trn_status status = open_subquery(d, sub, *cur, &p);
  if (!status && !is_in && trn__is_global_aggregate(strip_for_exists(sub->u.subquery.rel))) {
    mark = trn__expr_bool(d->arena, true); /* always one row */
  } else {
    if (!status) status = bind_preds(d, &p, *cur, &condition);
    if (!status && is_in) status = in_condition(d, sub, &p, negated, &condition);
    if (!status) status = mark_join(d, cur, p.rel, condition, &mark);
  }
  if (!status && mark && negated) mark = trn__expr_call(d->arena, TRN_HOME_NATIVE, "not", mark->type, false, &mark, 1);
  if (!status && !mark) status = no_memory(d);
  *out = mark;
  trn__vec_finish(&p.preds);
  return status;
}

/* One row per key: keys as group keys, single_value over the first column. */
static trn_status one_row_per_key(dec *d, pulled *p) {
  trn_column value = p->columns[0];
  const trn_expr *column = trn__expr_column(d->arena, &value);
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, p->preds.count + 1);
  trn_column *columns = TRN_NEW_N(d->arena, trn_column, p->preds.count + 1);
  if (!column || !exprs || !columns) return no_memory(d);
  uint32_t keys;
  trn_status status = keys_of(d, p, exprs, columns, &keys);
  if (status) return status;
  trn_expr *single = trn__expr_create(d->arena, TRN_EXPR_AGGREGATE, value.type, true, &column, 1);
  if (!single) return no_memory(d);
  single->u.aggregate.name = "trn.single_value";
  single->u.aggregate.home = TRN_HOME_LIBRARY;
  exprs[keys] = single;
  columns[keys] = trn__dec_column(d, value.type, true);
  trn_rel *aggregate = trn__rel_create(d->arena, TRN_REL_AGGREGATE, &p->rel, 1, exprs, keys + 1, columns, keys + 1);
  if (!aggregate) return no_memory(d);
  aggregate->u.aggregate.group_count = keys;
  /* the value comes first again */
  trn_column *order = TRN_NEW_N(d->arena, trn_column, keys + 1);
  if (!order) return no_memory(d);
  order[0] = columns[keys];
  memcpy(order + 1, columns, keys * sizeof *order);
  p->rel = trn__dec_project(d, aggregate, order, keys + 1);
  p->empty = NULL, p->one_row = true;
  p->columns = order;
  return p->rel ? TRN_OK : no_memory(d);
}

static bool is_null_literal(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_LITERAL && expr->u.literal.is_null;
}

/* The value of a scalar subquery as an expression over *cur, which is joined with it. */
static trn_status join_scalar(dec *d, const trn_expr *sub, const trn_rel **cur, const trn_expr **out) {
  pulled p = {0};
  const trn_expr *condition = NULL;
  const trn_rel *left = *cur;
  trn_status status = open_subquery(d, sub, *cur, &p);
  bool global = !status && trn__is_global_aggregate(sub->u.subquery.rel);
  if (!status && !p.one_row && !(global && p.preds.count == 0)) status = one_row_per_key(d, &p);
  /* A correlated subquery that had to be reduced is without its own "no rows" promise: NULL, as SQL has it. */
  trn_column value = status ? (trn_column){0} : p.columns[0];
  const trn_expr *empty = !status && p.empty && p.preds.count && !is_null_literal(p.empty[0]) ? p.empty[0] : NULL;
  trn_column marker = {0};
  if (!status && empty) { /* COUNT is 0, not NULL, where nothing matched: a constant tells matched rows */
    const trn_expr *yes = trn__expr_bool(d->arena, true);
    uint32_t count = p.rel->column_count;
    const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, count + 1);
    trn_column *columns = TRN_NEW_N(d->arena, trn_column, count + 1);
    if (!yes || !exprs || !columns) status = no_memory(d);
    for (uint32_t i = 0; !status && i < count; i++) {
      columns[i] = p.rel->columns[i];
      if (!(exprs[i] = trn__expr_column(d->arena, &columns[i]))) status = no_memory(d);
    }
    if (!status) {
      exprs[count] = yes;
      marker = columns[count] = trn__dec_column(d, yes->type, false);
      if (!(p.rel = trn__rel_project(d->arena, p.rel, exprs, columns, count + 1))) status = no_memory(d);
    }
  }
  if (!status) status = bind_preds(d, &p, left, &condition);
  if (!status && !(*cur = trn__rel_join(d->arena, condition ? TRN_JOIN_LEFT : TRN_JOIN_INNER, left, p.rel, condition)))
    status = no_memory(d);
  if (!status) {
    value.nullable = true, marker.nullable = true;
    const trn_expr *result = trn__expr_column(d->arena, &value);
    if (result && empty) {
      const trn_expr *mark = trn__expr_column(d->arena, &marker);
      const trn_expr *none = mark ? call1(d, "is_null", mark) : NULL;
      const trn_expr *bound = bind_outer(d, empty, left);
      const trn_expr *args[3] = {none, bound, result};
      result = none && bound ? trn__expr_create(d->arena, TRN_EXPR_CASE, value.type, true, args, 3) : NULL;
    }
    if (!(*out = result)) status = no_memory(d);
  }
  trn__vec_finish(&p.preds);
  return status;
}

static bool is_native(const trn_expr *expr, const char *name) {
  return expr->kind == TRN_EXPR_CALL && expr->u.call.home == TRN_HOME_NATIVE && !strcmp(expr->u.call.name, name);
}

static bool is_predicate_subquery(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_SUBQUERY && expr->u.subquery.kind != TRN_SUBQUERY_SCALAR;
}

/* A subquery that is written once may stand twice, in x BETWEEN a AND b: it is joined once. */
static trn_status scalar_once(dec *d, const trn_expr *sub, const trn_rel **cur, const trn_expr **out) {
  for (const joined *j = d->joined; j; j = j->next)
    if (j->rel == sub->u.subquery.rel) return *out = j->value, TRN_OK;
  trn_status status = join_scalar(d, sub, cur, out);
  joined *j = status ? NULL : TRN_NEW(d->arena, joined);
  if (!status && !j) return no_memory(d);
  if (j) *j = (joined){.rel = sub->u.subquery.rel, .value = *out, .next = d->joined}, d->joined = j;
  return status;
}

static trn_status replace_in(dec *d, const trn_expr *expr, const trn_rel **cur, const trn_expr **out) {
  if (!(expr_facts(expr) & HAS_SUBQUERY)) return *out = expr, TRN_OK;
  bool negated = is_native(expr, "not") && is_predicate_subquery(expr->args[0]); /* NOT (a IN ...) is NOT IN */
  if (negated) expr = expr->args[0];
  const trn_expr **args = TRN_NEW_N(d->arena, const trn_expr *, expr->arg_count ? expr->arg_count : 1);
  trn_expr *copy = trn__arena_copy(d->arena, expr, sizeof *expr);
  if (!args || !copy) return no_memory(d);
  for (uint32_t i = 0; i < expr->arg_count; i++) {
    trn_status status = replace_in(d, expr->args[i], cur, &args[i]);
    if (status) return status;
  }
  copy->args = args;
  *out = copy;
  if (expr->kind != TRN_EXPR_SUBQUERY) return TRN_OK;
  if (!is_predicate_subquery(expr)) return scalar_once(d, copy, cur, out);
  return mark_predicate(d, copy, negated != expr->u.subquery.negated, cur, out);
}

static trn_status fix_condition(dec *d, const trn_expr *condition, const trn_rel **cur, const trn_expr **kept) {
  trn_vec conjuncts = {0};
  trn_status status = split(&conjuncts, condition) ? TRN_OK : no_memory(d);
  for (size_t i = 0; !status && i < conjuncts.count; i++) {
    const trn_expr *c = conjuncts.items[i], *inner = c;
    bool negated = false;
    while (is_native(inner, "not")) inner = inner->args[0], negated = !negated;
    if (is_predicate_subquery(inner)) {
      bool nested = false;
      for (uint32_t k = 0; k < inner->arg_count; k++) nested |= (expr_facts(inner->args[k]) & HAS_SUBQUERY) != 0;
      if (!nested) {
        status = join_predicate(d, inner, negated != inner->u.subquery.negated, cur);
        continue;
      }
    }
    const trn_expr *fixed = NULL;
    status = replace_in(d, c, cur, &fixed);
    if (!status && !(*kept = trn__dec_and(d, *kept, fixed))) status = no_memory(d);
  }
  trn__vec_finish(&conjuncts);
  return status;
}

trn_status trn__fix_filter(dec *d, const trn_rel *rel, const trn_rel *input, const trn_expr *condition,
                           const trn_rel **out) {
  const trn_rel *cur = input;
  const trn_expr *kept = NULL;
  trn_status status = fix_condition(d, condition, &cur, &kept);
  if (status) return status;
  if (kept && !(cur = trn__rel_filter(d->arena, cur, kept))) return no_memory(d);
  if (cur->column_count != rel->column_count && !(cur = trn__dec_project(d, cur, rel->columns, rel->column_count)))
    return no_memory(d);
  *out = cur;
  return TRN_OK;
}

/* Relations whose expressions see one input: it grows by the subqueries' columns. */
static trn_status fix_single(dec *d, const trn_rel *rel, const trn_rel *input, const trn_rel **out) {
  const trn_rel *cur = input;
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, rel->expr_count);
  if (!exprs) return no_memory(d);
  for (uint32_t i = 0; i < rel->expr_count; i++) {
    trn_status status = replace_in(d, rel->exprs[i], &cur, &exprs[i]);
    if (status) return status;
  }
  trn_rel *copy = rebuild(d, rel, &cur, exprs);
  if (!copy) return no_memory(d);
  *out = copy;
  if (rel->kind == TRN_REL_PROJECT || rel->kind == TRN_REL_AGGREGATE || cur == input) return TRN_OK;
  if (rel->kind != TRN_REL_SORT && rel->kind != TRN_REL_REPARTITION)
    return trn__dec_unsupported(d, "this relation around it");
  copy->columns = cur->columns, copy->column_count = cur->column_count;
  return (*out = trn__dec_project(d, copy, rel->columns, rel->column_count)) ? TRN_OK : no_memory(d);
}

static trn_status fix_join(dec *d, const trn_rel *rel, const trn_rel *const *inputs, const trn_rel **out) {
  if (rel->u.join.type == TRN_JOIN_INNER) {
    const trn_rel *cross = trn__rel_join(d->arena, TRN_JOIN_INNER, inputs[0], inputs[1], NULL);
    return cross ? trn__fix_filter(d, rel, cross, rel->exprs[0], out) : no_memory(d);
  }
  return trn__fix_outer_join(d, rel, inputs, out);
}

static trn_status fix_rel(dec *d, const trn_rel *rel, const trn_rel **out) {
  if (++d->depth > MAX_DEPTH)
    return trn_error_set(d->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested deeper than %u", MAX_DEPTH);
  trn_status status = TRN_OK;
  const trn_rel *few[4], **inputs = few;
  bool changed = false;
  if (rel->input_count > 4 && !(inputs = TRN_NEW_N(d->arena, const trn_rel *, rel->input_count))) status = no_memory(d);
  for (uint32_t i = 0; !status && i < rel->input_count; i++) {
    status = fix_rel(d, rel->inputs[i], &inputs[i]);
    if (!status) changed |= inputs[i] != rel->inputs[i];
  }
  joined *before = d->joined;
  d->joined = NULL;
  if (!status && (own_facts(rel) & HAS_SUBQUERY)) {
    if (rel->kind == TRN_REL_FILTER)
      status = trn__fix_filter(d, rel, inputs[0], rel->exprs[0], out);
    else if (rel->kind == TRN_REL_JOIN)
      status = fix_join(d, rel, inputs, out);
    else if (rel->input_count == 1)
      status = fix_single(d, rel, inputs[0], out);
    else
      status = trn_error_set(d->error, TRN_UNIMPLEMENTED, NULL, "a subquery at this place is not supported yet");
  } else if (!status && rel->kind == TRN_REL_JOIN && rel->u.join.type <= TRN_JOIN_LEFT &&
             trn__rel_has_outer(inputs[1])) {
    status = fix_lateral(d, rel, inputs, rel->expr_count ? rel->exprs[0] : NULL, out);
  } else if (!status) {
    *out = changed ? rebuild(d, rel, inputs, rel->exprs) : rel;
    if (!*out) status = no_memory(d);
  }
  d->joined = before;
  d->depth--;
  return status;
}

trn_status trn__decorrelate(trn_arena *arena, const trn_rel *root, uint32_t *next_column, const trn_rel **out,
                            trn_error **error) {
  dec d = {.arena = arena, .next = *next_column, .error = error};
  trn_status status = fix_rel(&d, root, out);
  if (status == TRN_OK && trn__arena_is_short(arena)) status = trn__no_memory(error);
  *next_column = d.next;
  return status;
}
