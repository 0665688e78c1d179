/* A correlated subquery as a relation of its own: for every different combination of the outer columns that it reads
 * (the domain), its rows. The domain is joined to the subquery's leaves, and its columns are carried up through every
 * relation; a grouping groups by them, a window is partitioned by them, a limit counts within them. What decorrelate.c
 * cannot pull up in the form of predicates is done so. */
#include "optimize/decorrelate.h"
#include "plan/graph.h"

/* The outer columns, and what they are called in one copy of the domain. */
typedef struct domain {
  dec *d;
  const trn_rel *rel;      /* the different combinations: columns are `own` */
  const trn_column *outer; /* as the subquery names them */
  const trn_column *own;
  uint32_t count;
} domain;

static trn_status depend(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys);

static trn_status no_memory(domain *m) {
  return trn__no_memory(m->d->error);
}

/* ---- which outer columns ---- */
static void collect_expr(domain *m, const trn_expr *expr, const trn_rel *outer, trn_column *found) {
  if (expr->kind == TRN_EXPR_OUTER) {
    bool known = false;
    for (uint32_t i = 0; i < m->count; i++) known |= found[i].id == expr->u.column;
    for (uint32_t i = 0; i < outer->column_count && !known; i++)
      if (outer->columns[i].id == expr->u.column) found[m->count++] = outer->columns[i], known = true;
  }
  for (uint32_t i = 0; i < expr->arg_count; i++) collect_expr(m, expr->args[i], outer, found);
}

static void collect(domain *m, const trn_rel *rel, const trn_rel *outer, trn_column *found) {
  for (uint32_t i = 0; i < rel->expr_count; i++) collect_expr(m, rel->exprs[i], outer, found);
  for (uint32_t i = 0; i < rel->input_count; i++) collect(m, rel->inputs[i], outer, found);
}

/* ---- expressions ---- */
typedef struct binding {
  domain *m;
  const trn_column *keys;
} binding;

static const trn_expr *bound_leaf(void *user, const trn_expr *leaf) {
  const binding *b = user;
  for (uint32_t i = 0; leaf->kind == TRN_EXPR_OUTER && i < b->m->count; i++)
    if (b->m->outer[i].id == leaf->u.column) return trn__expr_column(b->m->d->arena, &b->keys[i]);
  return NULL;
}

static const trn_expr *bound(domain *m, const trn_expr *expr, const trn_column *keys) {
  binding b = {m, keys};
  return trn__dec_substitute(m->d, expr, bound_leaf, &b);
}

static trn_status bind_all(domain *m, const trn_rel *rel, const trn_column *keys, size_t more, const trn_expr ***out) {
  const trn_expr **exprs = TRN_NEW_N(m->d->arena, const trn_expr *, rel->expr_count + more + 1);
  if (!exprs) return no_memory(m);
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (!(exprs[i] = bound(m, rel->exprs[i], keys))) return no_memory(m);
  *out = exprs;
  return TRN_OK;
}

/* The keys of one copy equal those of another. */
static const trn_expr *same_keys(domain *m, const trn_column *a, const trn_column *b, const trn_expr *and) {
  for (uint32_t i = 0; i < m->count; i++) {
    const trn_expr *args[2] = {trn__expr_column(m->d->arena, &a[i]), trn__expr_column(m->d->arena, &b[i])};
    if (!args[0] || !args[1]) return NULL;
    const trn_expr *equal =
        trn__expr_call(m->d->arena, TRN_HOME_NATIVE, "is_not_distinct_from", trn__type(TRN_TYPE_BOOL), false, args, 2);
    if (!equal || !(and = trn__dec_and(m->d, and, equal))) return NULL;
  }
  return and;
}

/* ---- relations ---- */
/* A copy of the domain under new ids. */
static const trn_rel *copy_of_domain(domain *m, trn_column *keys) {
  const trn_expr **exprs = TRN_NEW_N(m->d->arena, const trn_expr *, m->count + 1);
  if (!exprs) return NULL;
  for (uint32_t i = 0; i < m->count; i++) {
    keys[i] = trn__dec_column(m->d, m->own[i].type, m->own[i].nullable);
    if (!(exprs[i] = trn__expr_column(m->d->arena, &m->own[i]))) return NULL;
  }
  return trn__rel_project(m->d->arena, m->rel, exprs, keys, m->count);
}

/* Columns, then the keys. */
static trn_column *with_keys(domain *m, const trn_column *columns, uint32_t count, const trn_column *keys) {
  trn_column *all = TRN_NEW_N(m->d->arena, trn_column, count + m->count + 1);
  if (!all) return NULL;
  if (count) memcpy(all, columns, count * sizeof *all);
  memcpy(all + count, keys, m->count * sizeof *all);
  return all;
}

static trn_status depend_project(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  const trn_rel *input = NULL;
  const trn_expr **exprs = NULL;
  trn_status status = depend(m, rel->inputs[0], &input, keys);
  if (!status) status = bind_all(m, rel, keys, m->count, &exprs);
  if (status) return status;
  trn_column *columns = with_keys(m, rel->columns, rel->column_count, keys);
  if (!columns) return no_memory(m);
  for (uint32_t i = 0; i < m->count; i++)
    if (!(exprs[rel->expr_count + i] = trn__expr_column(m->d->arena, &keys[i]))) return no_memory(m);
  *out = trn__rel_project(m->d->arena, input, exprs, columns, rel->column_count + m->count);
  return *out ? TRN_OK : no_memory(m);
}

/* Relations that show their input's columns. */
static trn_status depend_same(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  const trn_rel *input = NULL;
  const trn_expr **exprs = NULL;
  trn_status status = depend(m, rel->inputs[0], &input, keys);
  if (!status) status = bind_all(m, rel, keys, 0, &exprs);
  if (status) return status;
  uint32_t own = rel->column_count - rel->inputs[0]->column_count; /* UNNEST adds some */
  trn_column *columns = TRN_NEW_N(m->d->arena, trn_column, input->column_count + own + 1);
  if (!columns) return no_memory(m);
  memcpy(columns, input->columns, input->column_count * sizeof *columns);
  if (own) memcpy(columns + input->column_count, rel->columns + rel->inputs[0]->column_count, own * sizeof *columns);
  trn_rel *copy = trn__rel_create(m->d->arena, (trn_rel_kind)rel->kind, &input, 1, exprs, rel->expr_count, columns,
                                  input->column_count + own);
  if (!copy) return no_memory(m);
  copy->u = rel->u;
  *out = copy;
  return TRN_OK;
}

/* Every combination has its row, also where there was nothing to aggregate. */
static trn_status every_key(domain *m, const trn_rel *rel, const trn_rel *grouped, const trn_column *group_keys,
                            const trn_column *values, const trn_rel **out, trn_column *keys) {
  trn_arena *arena = m->d->arena;
  const trn_rel *all = copy_of_domain(m, keys);
  const trn_expr *on = all ? same_keys(m, keys, group_keys, NULL) : NULL;
  uint32_t width = grouped->column_count, count = rel->column_count;
  const trn_expr **exprs = TRN_NEW_N(arena, const trn_expr *, width + m->count + count + 1);
  trn_column *columns = TRN_NEW_N(arena, trn_column, width + 1);
  if (!all || !on || !exprs || !columns) return no_memory(m);
  for (uint32_t i = 0; i < width; i++) {
    columns[i] = grouped->columns[i];
    if (!(exprs[i] = trn__expr_column(arena, &columns[i]))) return no_memory(m);
  }
  trn_column found = columns[width] = trn__dec_column(m->d, trn__type(TRN_TYPE_BOOL), false);
  if (!(exprs[width] = trn__expr_bool(arena, true))) return no_memory(m);
  const trn_rel *marked = trn__rel_project(arena, grouped, exprs, columns, width + 1);
  const trn_rel *join = marked ? trn__rel_join(arena, TRN_JOIN_LEFT, all, marked, on) : NULL;
  trn_column *shown = with_keys(m, rel->columns, count, keys);
  found.nullable = true;
  const trn_expr *mark = trn__expr_column(arena, &found);
  const trn_expr *none = mark ? trn__expr_call(arena, TRN_HOME_NATIVE, "is_null", mark->type, false, &mark, 1) : NULL;
  if (!join || !shown || !none) return no_memory(m);
  for (uint32_t i = 0; i < count; i++) {
    trn_column value = values[i];
    value.nullable = true;
    const trn_expr *empty = trn__dec_empty(m->d, rel->exprs[i]);
    if (!empty) return trn__dec_unsupported(m->d, "an aggregate that is not NULL over no rows");
    const trn_expr *args[3] = {none, empty, trn__expr_column(arena, &value)};
    if (!args[2]) return no_memory(m);
    shown[i].nullable = true;
    if (!(exprs[i] = trn__expr_create(arena, TRN_EXPR_CASE, value.type, true, args, 3))) return no_memory(m);
  }
  for (uint32_t i = 0; i < m->count; i++)
    if (!(exprs[count + i] = trn__expr_column(arena, &keys[i]))) return no_memory(m);
  *out = trn__rel_project(arena, join, exprs, shown, count + m->count);
  return *out ? TRN_OK : no_memory(m);
}

static trn_status depend_aggregate(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  const trn_rel *input = NULL;
  const trn_expr **own = NULL;
  if (rel->u.aggregate.set_count) return trn__dec_unsupported(m->d, "grouping sets");
  trn_column *below = TRN_NEW_N(m->d->arena, trn_column, m->count + 1);
  if (!below) return no_memory(m);
  trn_status status = depend(m, rel->inputs[0], &input, below);
  if (!status) status = bind_all(m, rel, below, 0, &own);
  if (status) return status;
  bool global = rel->u.aggregate.group_count == 0;
  uint32_t total = rel->expr_count + m->count;
  const trn_expr **exprs = TRN_NEW_N(m->d->arena, const trn_expr *, total);
  trn_column *columns = TRN_NEW_N(m->d->arena, trn_column, total), *values = TRN_NEW_N(m->d->arena, trn_column, total);
  if (!exprs || !columns || !values) return no_memory(m);
  for (uint32_t i = 0; i < m->count; i++) {
    columns[i] = keys[i] = trn__dec_column(m->d, below[i].type, below[i].nullable);
    if (!(exprs[i] = trn__expr_column(m->d->arena, &below[i]))) return no_memory(m);
  }
  for (uint32_t i = 0; i < rel->expr_count; i++) {
    exprs[m->count + i] = own[i];
    columns[m->count + i] = values[i] =
        global ? trn__dec_column(m->d, own[i]->type, own[i]->nullable) : rel->columns[i];
  }
  trn_rel *grouped = trn__rel_create(m->d->arena, TRN_REL_AGGREGATE, &input, 1, exprs, total, columns, total);
  if (!grouped) return no_memory(m);
  grouped->u.aggregate.group_count = m->count + rel->u.aggregate.group_count;
  if (global) {
    trn_column *group_keys = trn__arena_copy(m->d->arena, keys, m->count * sizeof *keys);
    return group_keys ? every_key(m, rel, grouped, group_keys, values, out, keys) : no_memory(m);
  }
  *out = grouped;
  return TRN_OK;
}

static trn_status depend_join(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  trn_join_type type = (trn_join_type)rel->u.join.type;
  bool left_keeps = type != TRN_JOIN_RIGHT && type != TRN_JOIN_FULL;
  trn_column *right_keys = TRN_NEW_N(m->d->arena, trn_column, m->count + 1);
  const trn_rel *left = NULL, *right = rel->inputs[1];
  if (!right_keys) return no_memory(m);
  if (!left_keeps) return trn__dec_unsupported(m->d, "an outer column below a right or full join");
  bool both = trn__rel_has_outer(right);
  trn_status status = depend(m, rel->inputs[0], &left, keys);
  if (!status && both) status = depend(m, right, &right, right_keys);
  if (status) return status;
  const trn_expr *on = rel->expr_count ? bound(m, rel->exprs[0], keys) : NULL;
  if (rel->expr_count && !on) return no_memory(m);
  if (both && !(on = same_keys(m, keys, right_keys, on))) return no_memory(m);
  if (both && rel->u.join.null_aware) return trn__dec_unsupported(m->d, "NOT IN over nulls inside of it");
  trn_rel *join = type == TRN_JOIN_LEFT_MARK
                      ? trn__rel_mark_join(m->d->arena, left, right, on, rel->columns[rel->column_count - 1].id)
                      : trn__rel_join(m->d->arena, type, left, right, on);
  if (!join) return no_memory(m);
  join->u.join.null_aware = rel->u.join.null_aware;
  *out = join;
  return TRN_OK;
}

/* UNION, INTERSECT, EXCEPT: the keys are further columns of all inputs. */
static trn_status depend_set(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  const trn_rel **inputs = TRN_NEW_N(m->d->arena, const trn_rel *, rel->input_count);
  trn_column *below = TRN_NEW_N(m->d->arena, trn_column, m->count + 1);
  if (!trn__rel_fits(rel)) return trn__rel_misfit(m->d->error);
  if (!inputs || !below) return no_memory(m);
  for (uint32_t i = 0; i < rel->input_count; i++) {
    const trn_rel *input = NULL;
    trn_status status = depend(m, rel->inputs[i], &input, below);
    if (status) return status;
    trn_column *columns = with_keys(m, rel->inputs[i]->columns, rel->inputs[i]->column_count, below);
    if (!columns || !(inputs[i] = trn__dec_project(m->d, input, columns, rel->column_count + m->count)))
      return no_memory(m);
  }
  for (uint32_t i = 0; i < m->count; i++) keys[i] = trn__dec_column(m->d, below[i].type, below[i].nullable);
  trn_column *columns = with_keys(m, rel->columns, rel->column_count, keys);
  trn_rel *copy = columns ? trn__rel_create(m->d->arena, (trn_rel_kind)rel->kind, inputs, rel->input_count, NULL, 0,
                                            columns, rel->column_count + m->count)
                          : NULL;
  if (!copy) return no_memory(m);
  copy->u = rel->u;
  *out = copy;
  return TRN_OK;
}

/* A window function over the rows of each combination. */
static const trn_expr *per_key(domain *m, const trn_expr *window, const trn_column *keys) {
  uint32_t partitions = window->u.window.partition_count, count = window->arg_count + m->count;
  const trn_expr **args = TRN_NEW_N(m->d->arena, const trn_expr *, count);
  trn_expr *copy = trn__arena_copy(m->d->arena, window, sizeof *window);
  if (!args || !copy) return NULL;
  memcpy(args, window->args, (partitions + 1) * sizeof *args);
  for (uint32_t i = 0; i < m->count; i++)
    if (!(args[partitions + 1 + i] = trn__expr_column(m->d->arena, &keys[i]))) return NULL;
  memcpy(args + partitions + 1 + m->count, window->args + partitions + 1,
         (window->arg_count - partitions - 1) * sizeof *args);
  copy->args = args;
  copy->arg_count = count;
  copy->u.window.partition_count = partitions + m->count;
  return copy;
}

static trn_status depend_window(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  const trn_rel *input = NULL;
  const trn_expr **exprs = NULL;
  trn_status status = depend(m, rel->inputs[0], &input, keys);
  if (!status) status = bind_all(m, rel, keys, 0, &exprs);
  if (status) return status;
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (!(exprs[i] = per_key(m, exprs[i], keys))) return no_memory(m);
  trn_column *columns = TRN_NEW_N(m->d->arena, trn_column, input->column_count + rel->expr_count);
  if (!columns) return no_memory(m);
  memcpy(columns, input->columns, input->column_count * sizeof *columns);
  memcpy(columns + input->column_count, rel->columns + (rel->column_count - rel->expr_count),
         rel->expr_count * sizeof *columns);
  *out = trn__rel_create(m->d->arena, TRN_REL_WINDOW, &input, 1, exprs, rel->expr_count, columns,
                         input->column_count + rel->expr_count);
  return *out ? TRN_OK : no_memory(m);
}

/* LIMIT, and a sort that fetches: the first rows of each combination, by their number. */
static trn_status depend_limit(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  bool is_sort = rel->kind == TRN_REL_SORT;
  const trn_rel *sort = is_sort ? rel : rel->inputs[0], *input = NULL;
  bool sorted = sort->kind == TRN_REL_SORT && (is_sort || sort->u.sort.fetch < 0);
  int64_t skip = is_sort ? 0 : rel->u.limit.skip, fetch = is_sort ? rel->u.sort.fetch : rel->u.limit.fetch;
  const trn_expr **order = NULL;
  trn_status status = depend(m, sorted ? sort->inputs[0] : rel->inputs[0], &input, keys);
  uint32_t order_count = sorted ? sort->expr_count : 0;
  if (!status && sorted) status = bind_all(m, sort, keys, 0, &order);
  if (status) return status;
  trn_arena *arena = m->d->arena;
  const trn_type *int64 = trn__type(TRN_TYPE_INT64);
  const trn_expr **args = TRN_NEW_N(arena, const trn_expr *, 1 + m->count + order_count);
  trn_column *columns = TRN_NEW_N(arena, trn_column, input->column_count + 1);
  if (!args || !columns) return no_memory(m);
  if (!(args[0] = trn__expr_call(arena, TRN_HOME_ENGINE, "row_number", int64, false, NULL, 0))) return no_memory(m);
  for (uint32_t i = 0; i < m->count; i++)
    if (!(args[1 + i] = trn__expr_column(arena, &keys[i]))) return no_memory(m);
  if (order_count) memcpy(args + 1 + m->count, order, order_count * sizeof *args);
  trn_expr *window = trn__expr_create(arena, TRN_EXPR_WINDOW, int64, false, args, 1 + m->count + order_count);
  if (!window) return no_memory(m);
  window->u.window.partition_count = m->count;
  window->u.window.order_count = order_count;
  window->u.window.order_flags = sorted ? sort->u.sort.flags : NULL;
  window->u.window.unit = TRN_FRAME_ROWS;
  window->u.window.start_kind = TRN_BOUND_UNBOUNDED_PRECEDING;
  window->u.window.end_kind = TRN_BOUND_CURRENT_ROW;
  memcpy(columns, input->columns, input->column_count * sizeof *columns);
  trn_column number = columns[input->column_count] = trn__dec_column(m->d, int64, false);
  const trn_expr *call = window, *test = NULL;
  const trn_rel *numbered =
      trn__rel_create(arena, TRN_REL_WINDOW, &input, 1, &call, 1, columns, input->column_count + 1);
  for (int upper = 0; numbered && upper < 2; upper++) {
    if (upper ? fetch < 0 : skip == 0) continue;
    int64_t limit = upper ? (fetch > INT64_MAX - skip ? INT64_MAX : skip + fetch) : skip;
    const trn_expr *pair[2] = {trn__expr_column(arena, &number), trn__expr_int(arena, int64, limit)};
    if (!pair[0] || !pair[1]) return no_memory(m);
    const trn_expr *one =
        trn__expr_call(arena, TRN_HOME_NATIVE, upper ? "<=" : ">", trn__type(TRN_TYPE_BOOL), false, pair, 2);
    if (!one || !(test = trn__dec_and(m->d, test, one))) return no_memory(m);
  }
  if (numbered && test) numbered = trn__rel_filter(arena, numbered, test);
  *out = numbered ? trn__dec_project(m->d, numbered, input->columns, input->column_count) : NULL;
  return *out ? TRN_OK : no_memory(m);
}

static trn_status dispatch(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  switch (rel->kind) {
  case TRN_REL_PROJECT: return depend_project(m, rel, out, keys);
  case TRN_REL_AGGREGATE: return depend_aggregate(m, rel, out, keys);
  case TRN_REL_JOIN: return depend_join(m, rel, out, keys);
  case TRN_REL_UNION:
  case TRN_REL_SET: return depend_set(m, rel, out, keys);
  case TRN_REL_WINDOW: return depend_window(m, rel, out, keys);
  case TRN_REL_LIMIT: return depend_limit(m, rel, out, keys);
  case TRN_REL_SORT:
    if (rel->u.sort.fetch >= 0) return depend_limit(m, rel, out, keys);
    return depend(m, rel->inputs[0], out, keys); /* the order inside a subquery means nothing */
  case TRN_REL_FILTER:
  case TRN_REL_DISTINCT:
  case TRN_REL_UNNEST: return depend_same(m, rel, out, keys);
  default: return trn__dec_unsupported(m->d, "an outer column at this place");
  }
}

/* `rel` for every combination: its columns, and `keys`. */
static trn_status depend(domain *m, const trn_rel *rel, const trn_rel **out, trn_column *keys) {
  if (++m->d->depth > TRN_PLAN_DEPTH_MAX)
    return trn_error_set(m->d->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested deeper than %u",
                         TRN_PLAN_DEPTH_MAX);
  trn_status status = TRN_OK;
  if (trn__rel_has_outer(rel)) {
    status = dispatch(m, rel, out, keys);
  } else { /* the same rows for every combination */
    const trn_rel *all = copy_of_domain(m, keys);
    *out = all ? trn__rel_join(m->d->arena, TRN_JOIN_INNER, all, rel, NULL) : NULL;
    if (!*out) status = no_memory(m);
  }
  m->d->depth--;
  return status;
}

trn_status trn__depend(dec *d, const trn_rel *rel, const trn_rel *outer, pulled *out) {
  domain m = {.d = d};
  trn_column *found = TRN_NEW_N(d->arena, trn_column, outer->column_count + 1);
  if (!found) return no_memory(&m);
  collect(&m, rel, outer, found);
  if (m.count == 0) { /* it reads columns from further out only: whoever holds those pushes them down */
    out->rel = rel;
    out->columns = rel->columns;
    out->one_row = trn__is_global_aggregate(rel);
    return TRN_OK;
  }
  trn_column *own = TRN_NEW_N(d->arena, trn_column, m.count), *keys = TRN_NEW_N(d->arena, trn_column, m.count);
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, m.count);
  if (!own || !keys || !exprs) return no_memory(&m);
  for (uint32_t i = 0; i < m.count; i++) {
    own[i] = trn__dec_column(d, found[i].type, found[i].nullable);
    if (!(exprs[i] = trn__expr_column(d->arena, &found[i]))) return no_memory(&m);
  }
  m.outer = found;
  m.own = own;
  const trn_rel *named = trn__rel_project(d->arena, outer, exprs, own, m.count);
  m.rel = named ? trn__rel_create(d->arena, TRN_REL_DISTINCT, &named, 1, NULL, 0, own, m.count) : NULL;
  if (!m.rel) return no_memory(&m);
  trn_status status = depend(&m, rel, &out->rel, keys);
  for (uint32_t i = 0; i < m.count && !status; i++) {
    trn_expr *there = trn__expr_create(d->arena, TRN_EXPR_OUTER, found[i].type, found[i].nullable, NULL, 0);
    const trn_expr *args[2] = {there, trn__expr_column(d->arena, &keys[i])};
    if (!args[0] || !args[1]) return no_memory(&m);
    there->u.column = found[i].id;
    const trn_expr *equal =
        trn__expr_call(d->arena, TRN_HOME_NATIVE, "is_not_distinct_from", trn__type(TRN_TYPE_BOOL), false, args, 2);
    if (!equal || !trn__vec_push(&out->preds, (void *)(uintptr_t)equal)) status = no_memory(&m);
  }
  out->columns = rel->columns;
  out->one_row = trn__is_global_aggregate(rel);
  return status;
}
