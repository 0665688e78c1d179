/* Rewriting a plan, children first. What does not change is shared with the old plan. */
#include "plan/graph.h"

typedef struct rewrite {
  trn_arena *arena;
  const trn_rewriter *rewriter;
  trn_error **error;
  trn_ptrmap done;      /* node -> its replacement */
  trn_stack stack;      /* frame.mark: where the children's results start */
  const void **results; /* of children, in order */
  size_t count, capacity;
} rewrite;

static trn_status result_push(rewrite *w, const void *result) {
  if (w->count == w->capacity) {
    size_t capacity = w->capacity ? w->capacity * 2 : 64;
    const void **results = realloc(w->results, capacity * sizeof *results);
    if (!results) return TRN_RESOURCE_EXHAUSTED;
    w->results = results;
    w->capacity = capacity;
  }
  w->results[w->count++] = result;
  return TRN_OK;
}

/* A copy of the node with other children; NULL: no memory. */
static const trn_expr *expr_with(trn_arena *arena, const trn_expr *expr, const void *const *children) {
  trn_expr *copy = trn__arena_copy(arena, expr, sizeof *expr);
  if (!copy) return NULL;
  copy->args = expr->arg_count ? trn__arena_copy(arena, children, expr->arg_count * sizeof *children) : NULL;
  if (!copy->args && expr->arg_count) return NULL;
  children += expr->arg_count;
  switch (expr->kind) {
  case TRN_EXPR_WINDOW:
    if (copy->u.window.start) copy->u.window.start = *children++;
    if (copy->u.window.end) copy->u.window.end = *children;
    break;
  case TRN_EXPR_SUBQUERY:
    if (copy->u.subquery.rel) copy->u.subquery.rel = *children;
    break;
  case TRN_EXPR_LITERAL: {
    size_t size = copy->u.literal.value.nested.count * sizeof *children;
    copy->u.literal.value.nested.items = trn__arena_copy(arena, children, size);
    if (!copy->u.literal.value.nested.items) return NULL;
    break;
  }
  default: break;
  }
  return copy;
}

/* Input's columns, then those of the old node that were its own. */
static bool columns_extend(trn_arena *arena, trn_rel *copy, const trn_rel *old_input, const trn_rel *input) {
  uint32_t own = copy->column_count - old_input->column_count;
  uint64_t total = (uint64_t)input->column_count + own;
  trn_column *columns = total <= UINT32_MAX ? TRN_NEW_N(arena, trn_column, total) : NULL;
  if (!columns) return false;
  if (input->column_count) memcpy(columns, input->columns, input->column_count * sizeof *columns);
  if (own) memcpy(columns + input->column_count, copy->columns + old_input->column_count, own * sizeof *columns);
  copy->columns = columns;
  copy->column_count = (uint32_t)total;
  return true;
}

/* Columns that pass through a relation are those of its new inputs. */
static bool columns_follow(trn_arena *arena, const trn_rel *rel, trn_rel *copy) {
  if (!rel->input_count || rel->inputs[0] == NULL) return true;
  const trn_rel *old = rel->inputs[0], *input = copy->inputs[0];
  bool is_changed = input->columns != old->columns || input->column_count != old->column_count;
  switch (rel->kind) {
  case TRN_REL_FILTER:
  case TRN_REL_SORT:
  case TRN_REL_LIMIT:
  case TRN_REL_DISTINCT:
  case TRN_REL_SAMPLE:
  case TRN_REL_REPARTITION:
    copy->columns = input->columns;
    copy->column_count = input->column_count;
    return true;
  case TRN_REL_WINDOW:
  case TRN_REL_UNNEST:
    return !is_changed || rel->column_count < old->column_count || columns_extend(arena, copy, old, input);
  case TRN_REL_JOIN: {
    is_changed = is_changed || copy->inputs[1]->columns != rel->inputs[1]->columns;
    if (!is_changed) return true;
    const trn_column *mark = rel->column_count ? &rel->columns[rel->column_count - 1] : NULL;
    copy->columns = trn__join_columns(arena, rel->u.join.type, input, copy->inputs[1], mark, &copy->column_count);
    return copy->columns || !copy->column_count;
  }
  default: return true;
  }
}

static const trn_rel *rel_with(trn_arena *arena, const trn_rel *rel, const void *const *children) {
  trn_rel *copy = trn__arena_copy(arena, rel, sizeof *rel);
  if (!copy) return NULL;
  if (rel->input_count) copy->inputs = trn__arena_copy(arena, children, rel->input_count * sizeof *children);
  children += rel->input_count;
  if (rel->expr_count) copy->exprs = trn__arena_copy(arena, children, rel->expr_count * sizeof *children);
  bool ok = (copy->inputs || !rel->input_count) && (copy->exprs || !rel->expr_count);
  return ok && columns_follow(arena, rel, copy) ? copy : NULL;
}

/* The children of the top frame are done: its node is rewritten, its result replaces theirs. */
static trn_status leave(rewrite *w) {
  trn_frame frame = w->stack.frames[--w->stack.count];
  const void *node = frame.node.at;
  bool is_changed = false;
  trn_node child;
  for (uint32_t i = 0; trn__node_child(frame.node, i, &child); i++)
    is_changed |= child.at != w->results[frame.mark + i];
  if (is_changed) {
    const void *const *children = w->results + frame.mark;
    node = frame.node.is_rel ? (const void *)rel_with(w->arena, node, children)
                             : (const void *)expr_with(w->arena, node, children);
    if (!node) return trn__no_memory(w->error);
  }
  trn_status status = TRN_OK;
  if (frame.node.is_rel && w->rewriter->rel) {
    const trn_rel *rel = node;
    status = w->rewriter->rel(w->rewriter->user, w->arena, rel, &rel, w->error);
    node = rel;
  } else if (!frame.node.is_rel && w->rewriter->expr) {
    const trn_expr *expr = node;
    status = w->rewriter->expr(w->rewriter->user, w->arena, expr, &expr, w->error);
    node = expr;
  }
  if (status) return status;
  w->count = frame.mark;
  if (!trn__ptrmap_set(&w->done, frame.node.at, NULL, (uintptr_t)node)) return trn__no_memory(w->error);
  return result_push(w, node) ? trn__no_memory(w->error) : TRN_OK;
}

static trn_status enter(rewrite *w, trn_node node) {
  uint64_t done;
  if (trn__ptrmap_get(&w->done, node.at, NULL, &done))
    return result_push(w, (const void *)(uintptr_t)done) ? trn__no_memory(w->error) : TRN_OK;
  trn_status status = trn__stack_push(&w->stack, node, NULL, w->count);
  if (status)
    trn_error_set(w->error, status, NULL, "the plan is nested deeper than %d levels, or memory is out",
                  TRN_PLAN_DEPTH_MAX);
  return status;
}

static trn_status rewrite_from(trn_arena *arena, trn_node root, const trn_rewriter *rewriter, const void **out,
                               trn_error **error) {
  rewrite w = {.arena = arena, .rewriter = rewriter, .error = error};
  *out = NULL;
  trn_status status = enter(&w, root);
  while (status == TRN_OK && w.stack.count) {
    trn_frame *top = &w.stack.frames[w.stack.count - 1];
    trn_node child;
    status = trn__node_child(top->node, top->next++, &child) ? enter(&w, child) : leave(&w);
  }
  if (status == TRN_OK) *out = w.results[0];
  trn__stack_finish(&w.stack);
  trn__ptrmap_finish(&w.done);
  free(w.results);
  return status;
}

trn_status trn__rel_rewrite(trn_arena *arena, const trn_rel *root, const trn_rewriter *rewriter, const trn_rel **out,
                            trn_error **error) {
  const void *result;
  trn_status status = rewrite_from(arena, (trn_node){root, true}, rewriter, &result, error);
  *out = result;
  return status;
}

trn_status trn__expr_rewrite(trn_arena *arena, const trn_expr *expr, const trn_rewriter *rewriter, const trn_expr **out,
                             trn_error **error) {
  const void *result;
  trn_status status = rewrite_from(arena, (trn_node){expr, false}, rewriter, &result, error);
  *out = result;
  return status;
}
