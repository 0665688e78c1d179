/* Columns that nobody reads are left out, projections over projections become one, filters over filters one, nested
 * unions one union: what a client builds step by step (450 withColumn, 500 union, 400 filter, a frame joined with itself
 * eight times) is planned by the engine in the time of what it means. Linear in the plan's size, where a relation counts as many times as it has
 * columns. */
#include "optimize/optimize.h"
#include "plan/graph.h"
#include <string.h>

typedef struct pruning {
  trn_arena *arena;
  const trn_rel **order; /* inputs before those that read them */
  const trn_rel **made;  /* what order[i] becomes */
  bool **need;           /* which of its columns somebody reads */
  bool *joins_above;     /* a filter that only the filter above it reads: made with that one */
  size_t count, capacity;
  trn_ptrmap index; /* relation -> its place in `order` */
  uint32_t *stamp;  /* column id -> the round in which it was marked */
  uint64_t *place;  /* column id -> something, valid where `stamp` says so */
  uint32_t round, id_count;
  bool is_short; /* of memory, where something can be left as it was: then it would differ from time to time */
} pruning;

/* ---- the order ---- */
static bool append(pruning *p, const trn_rel *rel) {
  if (p->count == p->capacity) {
    size_t larger = p->capacity ? 2 * p->capacity : 64;
    const trn_rel **items = TRN_NEW_N(p->arena, const trn_rel *, larger);
    if (!items) return false;
    if (p->count) memcpy(items, p->order, p->count * sizeof *items);
    p->order = items;
    p->capacity = larger;
  }
  p->order[p->count] = rel;
  return trn__ptrmap_set(&p->index, rel, NULL, p->count++);
}

static trn_status sort(pruning *p, const trn_rel *root) {
  trn_stack stack = {0};
  trn_status status = trn__stack_push(&stack, (trn_node){root, true}, NULL, 0);
  while (status == TRN_OK && stack.count) {
    trn_frame *top = &stack.frames[stack.count - 1];
    const trn_rel *rel = top->node.at;
    if (top->next == rel->input_count) {
      if (!trn__rel_fits(rel)) status = TRN_INTERNAL;
      else if (!append(p, rel)) status = TRN_RESOURCE_EXHAUSTED;
      stack.count--;
      continue;
    }
    const trn_rel *input = rel->inputs[top->next++];
    if (!trn__ptrmap_get(&p->index, input, NULL, NULL))
      status = trn__stack_push(&stack, (trn_node){input, true}, NULL, 0);
  }
  trn__stack_finish(&stack);
  return status;
}

static size_t index_of(const pruning *p, const trn_rel *rel) {
  uint64_t value = 0;
  trn__ptrmap_get(&p->index, rel, NULL, &value);
  return (size_t)value;
}

/* ---- marks: sets of column ids, emptied by starting another round ---- */
static void mark(pruning *p, uint32_t id, uint64_t value) {
  if (id >= p->id_count) return;
  p->stamp[id] = p->round;
  p->place[id] = value;
}

static bool is_marked(const pruning *p, uint32_t id) {
  return id >= p->id_count || p->stamp[id] == p->round;
}

static trn_walk mark_column(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)holder;
  if (expr->kind == TRN_EXPR_COLUMN) mark(user, expr->u.column, 0);
  return TRN_WALK_ON;
}

static trn_status mark_expr(pruning *p, const trn_expr *expr) {
  trn_visitor visitor = {.expr = mark_column, .user = p};
  if (expr->kind == TRN_EXPR_COLUMN) return mark_column(p, expr, NULL), TRN_OK;
  return trn__expr_walk(expr, &visitor);
}

/* ---- what is needed, from the root down ---- */
static void need_all(pruning *p, const trn_rel *rel) {
  memset(p->need[index_of(p, rel)], 1, rel->column_count);
}

static bool any(const bool *need, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (need[i]) return true;
  return false;
}

/* A relation without columns is legal for few: one stays. */
static void need_one(const trn_rel *rel, bool *need) {
  if (rel->column_count && !any(need, rel->column_count)) need[0] = true;
}

/* Which expressions of the relation are computed: all but those that make columns nobody reads. */
static bool computes(const trn_rel *rel, const bool *need, uint32_t i) {
  switch (rel->kind) {
  case TRN_REL_PROJECT: return need[i];
  case TRN_REL_AGGREGATE: return i < rel->u.aggregate.group_count || need[i];
  case TRN_REL_WINDOW: return need[rel->column_count - rel->expr_count + i];
  default: return true;
  }
}

/* Whether the inputs are read by position, or by those who cannot say what they read. */
static bool takes_all(const trn_rel *rel) {
  switch (rel->kind) {
  case TRN_REL_DISTINCT:
  case TRN_REL_SET:
  case TRN_REL_WRITE:
  case TRN_REL_EXTENSION:
  case TRN_REL_OPAQUE: return true;
  default: return false;
  }
}

static trn_status need_of_inputs(pruning *p, size_t at) {
  const trn_rel *rel = p->order[at];
  bool *need = p->need[at];
  trn_status status = TRN_OK;
  need_one(rel, need);
  /* an aggregation without keys needs one of its aggregates to stay what it is */
  if (rel->kind == TRN_REL_AGGREGATE && rel->u.aggregate.group_count == 0 && rel->expr_count &&
      !any(need, rel->expr_count))
    need[0] = true;
  for (uint32_t i = 0; takes_all(rel) && i < rel->input_count; i++) need_all(p, rel->inputs[i]);
  if (takes_all(rel)) return TRN_OK;
  if (rel->kind == TRN_REL_UNION) {
    for (uint32_t i = 0; i < rel->input_count; i++) {
      bool *below = p->need[index_of(p, rel->inputs[i])];
      for (uint32_t c = 0; c < rel->column_count; c++) below[c] |= need[c];
    }
    return TRN_OK;
  }
  p->round++;
  for (uint32_t c = 0; c < rel->column_count; c++)
    if (need[c]) mark(p, rel->columns[c].id, 0);
  if (rel->kind == TRN_REL_PROJECT) p->round++; /* its columns are its own, even where they keep an id */
  for (uint32_t i = 0; i < rel->expr_count && !status; i++)
    if (computes(rel, need, i)) status = mark_expr(p, rel->exprs[i]);
  for (uint32_t i = 0; i < rel->input_count; i++) {
    const trn_rel *input = rel->inputs[i];
    bool *below = p->need[index_of(p, input)];
    for (uint32_t c = 0; c < input->column_count; c++) below[c] |= is_marked(p, input->columns[c].id);
  }
  return status;
}

/* ---- making, from the leaves up ---- */
static const trn_rel *made(const pruning *p, const trn_rel *rel) {
  return p->made[index_of(p, rel)];
}

/* The columns of `rel` whose ids are marked. */
static const trn_rel *only_marked(pruning *p, const trn_rel *rel, uint32_t count) {
  const trn_expr **exprs = TRN_NEW_N(p->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, count);
  uint32_t at = 0;
  if (!exprs || !columns) return NULL;
  for (uint32_t c = 0; c < rel->column_count; c++) {
    if (!is_marked(p, rel->columns[c].id)) continue;
    columns[at] = rel->columns[c];
    if (!(exprs[at++] = trn__expr_column(p->arena, &rel->columns[c]))) return NULL;
  }
  return trn__rel_project(p->arena, rel, exprs, columns, count);
}

/* What `input` became, without what nobody above it reads. */
static const trn_rel *trimmed(pruning *p, const trn_rel *input) {
  const trn_rel *rel = made(p, input);
  const bool *need = p->need[index_of(p, input)];
  uint32_t wanted = 0;
  p->round++;
  for (uint32_t c = 0; c < input->column_count; c++)
    if (need[c]) mark(p, input->columns[c].id, 0);
  for (uint32_t c = 0; c < rel->column_count; c++) wanted += is_marked(p, rel->columns[c].id);
  return wanted == rel->column_count || wanted == 0 ? rel : only_marked(p, rel, wanted);
}

/* An input of a UNION: exactly the columns that are needed, by position. */
static const trn_rel *exact(pruning *p, const trn_rel *input, const bool *need, uint32_t count) {
  const trn_rel *rel = made(p, input);
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, count);
  const trn_expr **exprs = TRN_NEW_N(p->arena, const trn_expr *, count);
  uint32_t at = 0;
  if (!columns || !exprs) return NULL;
  for (uint32_t c = 0; c < input->column_count; c++)
    if (need[c]) columns[at++] = input->columns[c];
  bool same = rel->column_count == count;
  for (uint32_t c = 0; c < count && same; c++) same = rel->columns[c].id == columns[c].id;
  if (same) return rel;
  for (uint32_t c = 0; c < count; c++)
    if (!(exprs[c] = trn__expr_column(p->arena, &columns[c]))) return NULL;
  return trn__rel_project(p->arena, rel, exprs, columns, count);
}

static const trn_rel *make_union(pruning *p, const trn_rel *rel, const bool *need) {
  uint32_t count = 0, inputs = 0, at = 0;
  for (uint32_t c = 0; c < rel->column_count; c++) count += need[c];
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, count);
  const trn_rel **parts = TRN_NEW_N(p->arena, const trn_rel *, rel->input_count);
  if (!columns || !parts) return NULL;
  for (uint32_t c = 0; c < rel->column_count; c++)
    if (need[c]) columns[at++] = rel->columns[c];
  for (uint32_t i = 0; i < rel->input_count; i++) {
    if (!(parts[i] = exact(p, rel->inputs[i], need, count))) return NULL;
    inputs += parts[i]->kind == TRN_REL_UNION ? parts[i]->input_count : 1;
  }
  const trn_rel **flat = TRN_NEW_N(p->arena, const trn_rel *, inputs);
  if (!flat) return NULL;
  at = 0;
  for (uint32_t i = 0; i < rel->input_count; i++) {
    if (parts[i]->kind != TRN_REL_UNION) flat[at++] = parts[i];
    for (uint32_t j = 0; parts[i]->kind == TRN_REL_UNION && j < parts[i]->input_count; j++)
      flat[at++] = parts[i]->inputs[j];
  }
  return trn__rel_create(p->arena, TRN_REL_UNION, flat, inputs, NULL, 0, columns, count);
}

static const trn_rel *make_scan(pruning *p, const trn_rel *rel, const bool *need) {
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, rel->column_count);
  uint32_t *indexes = TRN_NEW_N(p->arena, uint32_t, rel->column_count), count = 0;
  if (!columns || !indexes) return NULL;
  for (uint32_t c = 0; c < rel->column_count; c++) {
    if (!need[c]) continue;
    columns[count] = rel->columns[c];
    indexes[count++] = rel->u.scan.indexes[c];
  }
  if (count == rel->column_count) return rel;
  trn_rel *scan = trn__rel_create(p->arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, count);
  if (!scan) return NULL;
  scan->u = rel->u;
  scan->u.scan.indexes = indexes;
  return scan;
}

/* ---- projections over projections ---- */
static bool is_trivial(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_COLUMN || (expr->kind == TRN_EXPR_LITERAL && expr->type->id < TRN_TYPE_ARRAY);
}

typedef struct uses {
  pruning *p;
  const trn_rel *lower;
  bool nested; /* something computed is read by what computes */
} uses;

static trn_walk check_use(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)holder;
  uses *u = user;
  if (expr->kind != TRN_EXPR_COLUMN || !is_marked(u->p, expr->u.column) || expr->u.column >= u->p->id_count)
    return TRN_WALK_ON;
  u->nested |= !is_trivial(u->lower->exprs[u->p->place[expr->u.column] & UINT32_MAX]);
  return u->nested ? TRN_WALK_STOP : TRN_WALK_ON;
}

static trn_status put_lower(void *user, trn_arena *arena, const trn_expr *expr, const trn_expr **out,
                            trn_error **error) {
  (void)arena, (void)error;
  uses *u = user;
  *out = expr;
  if (expr->kind == TRN_EXPR_COLUMN && expr->u.column < u->p->id_count && is_marked(u->p, expr->u.column))
    *out = u->lower->exprs[u->p->place[expr->u.column] & UINT32_MAX];
  return TRN_OK;
}

/* Whether `exprs` can stand over the input of `lower`: nothing is computed twice, and no expression grows. */
static bool merges(pruning *p, const trn_rel *lower, const trn_expr *const *exprs, uint32_t count) {
  uses u = {.p = p, .lower = lower};
  trn_visitor visitor = {.expr = check_use, .user = &u};
  p->round++;
  for (uint32_t c = 0; c < lower->column_count; c++) mark(p, lower->columns[c].id, c);
  for (uint32_t i = 0; i < count; i++) {
    if (exprs[i]->kind != TRN_EXPR_COLUMN) {
      trn_status status = trn__expr_walk(exprs[i], &visitor);
      p->is_short |= status == TRN_RESOURCE_EXHAUSTED;
      if (status || u.nested) return false;
      continue;
    }
    uint32_t id = exprs[i]->u.column;
    if (id >= p->id_count || !is_marked(p, id)) return false;
    if (is_trivial(lower->exprs[p->place[id] & UINT32_MAX])) continue;
    if (p->place[id] >> 32) return false; /* read a second time */
    p->place[id] |= UINT64_C(1) << 32;
  }
  return true;
}

static const trn_rel *make_project(pruning *p, const trn_rel *rel, const bool *need) {
  const trn_rel *input = made(p, rel->inputs[0]);
  const trn_expr **exprs = TRN_NEW_N(p->arena, const trn_expr *, rel->expr_count);
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, rel->expr_count);
  uint32_t count = 0;
  if (!exprs || !columns) return NULL;
  for (uint32_t i = 0; i < rel->expr_count; i++) {
    if (!need[i]) continue;
    columns[count] = rel->columns[i];
    exprs[count++] = rel->exprs[i];
  }
  if (input->kind == TRN_REL_PROJECT && count && merges(p, input, exprs, count)) {
    uses u = {.p = p, .lower = input};
    trn_rewriter rewriter = {.expr = put_lower, .user = &u};
    for (uint32_t i = 0; i < count; i++)
      if (trn__expr_rewrite(p->arena, exprs[i], &rewriter, &exprs[i], NULL) != TRN_OK) return NULL;
    input = input->inputs[0];
  } else if (count == rel->expr_count && input == rel->inputs[0]) {
    return rel;
  }
  return trn__rel_project(p->arena, input, exprs, columns, count);
}

/* ---- filters over filters ---- */
static trn_walk stop_at_volatile(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)holder;
  if (expr->kind != TRN_EXPR_CALL || expr->u.call.volatility < 2) return TRN_WALK_ON;
  *(bool *)user = true;
  return TRN_WALK_STOP;
}

/* What gives another value at each row must see the rows that it saw. */
static trn_status is_volatile(const trn_expr *expr, bool *out) {
  trn_visitor visitor = {.expr = stop_at_volatile, .user = out};
  trn_status status = trn__expr_walk(expr, &visitor);
  return *out ? TRN_OK : status;
}

static trn_status find_chains(pruning *p) {
  uint8_t *readers = TRN_NEW_N(p->arena, uint8_t, p->count); /* 2: more than one */
  if (!(p->joins_above = TRN_NEW_N(p->arena, bool, p->count)) || !readers) return TRN_RESOURCE_EXHAUSTED;
  for (size_t at = 0; at < p->count; at++) {
    const trn_rel *rel = p->order[at];
    bool above = false;
    if (rel->kind == TRN_REL_FILTER && is_volatile(rel->exprs[0], &above) != TRN_OK) return TRN_RESOURCE_EXHAUSTED;
    for (uint32_t i = 0; i < rel->input_count; i++) {
      size_t input = index_of(p, rel->inputs[i]);
      bool below = above;
      if (readers[input] < 2) readers[input]++;
      if (rel->kind != TRN_REL_FILTER || p->order[input]->kind != TRN_REL_FILTER) continue;
      if (!below && is_volatile(p->order[input]->exprs[0], &below) != TRN_OK) return TRN_RESOURCE_EXHAUSTED;
      p->joins_above[input] = !below;
    }
  }
  for (size_t at = 0; at < p->count; at++) p->joins_above[at] &= readers[at] == 1;
  return TRN_OK;
}

/* A balanced tree in the order of the conditions. */
static const trn_expr *all_of(pruning *p, const trn_expr *const *conditions, size_t count) {
  if (count == 1) return conditions[0];
  const trn_expr *args[2] = {all_of(p, conditions, count / 2), all_of(p, conditions + count / 2, count - count / 2)};
  if (!args[0] || !args[1]) return NULL;
  return trn__expr_call(p->arena, TRN_HOME_NATIVE, "and", trn__type(TRN_TYPE_BOOL),
                        args[0]->nullable || args[1]->nullable, args, 2);
}

static const trn_rel *make_filter(pruning *p, const trn_rel *rel) {
  const trn_rel *input = rel->inputs[0];
  size_t count = 1;
  for (; p->joins_above[index_of(p, input)]; input = input->inputs[0]) count++;
  const trn_rel *below = made(p, input);
  if (count == 1 && below == input) return rel;
  const trn_expr **conditions = TRN_NEW_N(p->arena, const trn_expr *, count);
  if (!conditions) return NULL;
  for (size_t i = count; i-- > 0; rel = rel->inputs[0]) conditions[i] = rel->exprs[0]; /* the lowest one first */
  const trn_expr *condition = all_of(p, conditions, count);
  return condition ? trn__rel_filter(p->arena, below, condition) : NULL;
}

/* ---- the others ---- */
/* Those of the old columns that the new inputs have, and those that the relation makes itself. */
static const trn_column *columns_of(pruning *p, const trn_rel *rel, const trn_rel *const *inputs, const bool *need,
                                    uint32_t *count) {
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, rel->column_count);
  uint32_t own = rel->kind == TRN_REL_AGGREGATE ? 0 : rel->column_count;
  if (!columns) return NULL;
  if (rel->kind == TRN_REL_WINDOW) own = rel->column_count - rel->expr_count;
  if (rel->kind == TRN_REL_UNNEST) own = rel->inputs[0]->column_count;
  if (rel->kind == TRN_REL_JOIN && rel->u.join.type == TRN_JOIN_LEFT_MARK) own = rel->column_count - 1;
  p->round++;
  for (uint32_t i = 0; i < rel->input_count; i++)
    for (uint32_t c = 0; c < inputs[i]->column_count; c++) mark(p, inputs[i]->columns[c].id, 0);
  *count = 0;
  for (uint32_t c = 0; c < rel->column_count; c++) {
    bool keeps = c < own ? is_marked(p, rel->columns[c].id) : true;
    if (c >= own && c - own < rel->expr_count && (rel->kind == TRN_REL_WINDOW || rel->kind == TRN_REL_AGGREGATE))
      keeps = computes(rel, need, c - own);
    if (keeps) columns[(*count)++] = rel->columns[c];
  }
  return columns;
}

static const trn_rel *make(pruning *p, size_t at) {
  const trn_rel *rel = p->order[at];
  const bool *need = p->need[at];
  if (rel->kind == TRN_REL_SCAN) return make_scan(p, rel, need);
  if (rel->kind == TRN_REL_PROJECT) return make_project(p, rel, need);
  if (rel->kind == TRN_REL_UNION) return make_union(p, rel, need);
  if (p->joins_above[at]) return rel; /* not looked at */
  if (rel->kind == TRN_REL_FILTER) return make_filter(p, rel);
  if (rel->input_count == 0) return rel;
  const trn_rel **inputs = TRN_NEW_N(p->arena, const trn_rel *, rel->input_count);
  const trn_expr **exprs = TRN_NEW_N(p->arena, const trn_expr *, rel->expr_count);
  if (!inputs || (rel->expr_count && !exprs)) return NULL;
  bool same = true;
  uint32_t expr_count = 0, column_count = 0;
  for (uint32_t i = 0; i < rel->input_count; i++) {
    const trn_rel *input = rel->inputs[i];
    inputs[i] = rel->kind == TRN_REL_JOIN ? trimmed(p, input) : made(p, input);
    if (takes_all(rel)) inputs[i] = exact(p, input, p->need[index_of(p, input)], input->column_count);
    if (!inputs[i]) return NULL;
    same &= inputs[i] == input;
  }
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (computes(rel, need, i)) exprs[expr_count++] = rel->exprs[i];
  if (same && expr_count == rel->expr_count) return rel;
  if (rel->kind == TRN_REL_WINDOW && expr_count == 0) return inputs[0];
  const trn_column *columns = columns_of(p, rel, inputs, need, &column_count);
  if (!columns) return NULL;
  if (takes_all(rel)) columns = rel->columns, column_count = rel->column_count;
  trn_rel *copy =
      trn__rel_create(p->arena, rel->kind, inputs, rel->input_count, exprs, expr_count, columns, column_count);
  if (copy) copy->u = rel->u;
  return copy;
}

static trn_status run(pruning *p, const trn_rel *root, const trn_rel **out) {
  trn_status status = sort(p, root);
  if (status) return status;
  p->stamp = TRN_NEW_N(p->arena, uint32_t, p->id_count);
  p->place = TRN_NEW_N(p->arena, uint64_t, p->id_count);
  p->need = TRN_NEW_N(p->arena, bool *, p->count);
  p->made = TRN_NEW_N(p->arena, const trn_rel *, p->count);
  if (!p->stamp || !p->place || !p->need || !p->made) return TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < p->count; i++)
    if (!(p->need[i] = TRN_NEW_N(p->arena, bool, p->order[i]->column_count + 1))) return TRN_RESOURCE_EXHAUSTED;
  need_all(p, root);
  status = find_chains(p);
  for (size_t i = p->count; i-- > 0 && !status;) status = need_of_inputs(p, i);
  for (size_t i = 0; i < p->count && !status; i++)
    if (!(p->made[i] = make(p, i))) status = TRN_RESOURCE_EXHAUSTED;
  if (!status) *out = p->made[p->count - 1];
  return status;
}

trn_status trn__prune(trn_arena *arena, const trn_rel *root, uint32_t next_column, const trn_rel **out,
                      trn_error **error) {
  pruning p = {.arena = arena, .id_count = next_column};
  *out = root;
  trn_status status = run(&p, root, out);
  trn__ptrmap_finish(&p.index);
  if (status == TRN_OK && (p.is_short || trn__arena_is_short(arena))) status = TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_INTERNAL) return trn__rel_misfit(error);
  return status == TRN_OK ? TRN_OK : trn_error_set(error, status, NULL, "The plan could not be simplified.");
}
