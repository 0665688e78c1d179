/* Walking a plan, parents first. */
#include "plan/graph.h"

typedef struct walk {
  const trn_visitor *visitor;
  trn_ptrmap seen; /* relations; expressions with children, per holder */
  trn_stack stack;
} walk;

/* Calls the visitor; pushes the node when its children are to be visited. */
static trn_status enter(walk *w, trn_node node, const trn_rel *holder) {
  trn_node child;
  bool has_children = trn__node_child(node, 0, &child);
  if (node.is_rel || has_children) { /* what is shared is visited once; leaves need no memory of it */
    const void *second = node.is_rel ? NULL : (const void *)holder;
    if (trn__ptrmap_get(&w->seen, node.at, second, NULL)) return TRN_OK;
    if (!trn__ptrmap_set(&w->seen, node.at, second, 1)) return TRN_RESOURCE_EXHAUSTED;
  }
  trn_walk answer = TRN_WALK_ON;
  if (node.is_rel) {
    if (w->visitor->rel) answer = w->visitor->rel(w->visitor->user, node.at);
  } else if (w->visitor->expr) {
    answer = w->visitor->expr(w->visitor->user, node.at, holder);
  }
  if (answer == TRN_WALK_STOP) return TRN_CANCELLED;
  return answer == TRN_WALK_ON && has_children ? trn__stack_push(&w->stack, node, holder, 0) : TRN_OK;
}

static trn_status walk_from(trn_node root, const trn_visitor *visitor) {
  walk w = {.visitor = visitor};
  trn_status status = enter(&w, root, NULL);
  while (status == TRN_OK && w.stack.count) {
    trn_frame *top = &w.stack.frames[w.stack.count - 1];
    trn_node child;
    if (!trn__node_child(top->node, top->next++, &child))
      w.stack.count--;
    else
      status = enter(&w, child, top->node.is_rel ? top->node.at : top->holder);
  }
  trn__stack_finish(&w.stack);
  trn__ptrmap_finish(&w.seen);
  return status;
}

trn_status trn__plan_walk(const trn_rel *root, const trn_visitor *visitor) {
  return walk_from((trn_node){root, true}, visitor);
}

trn_status trn__expr_walk(const trn_expr *expr, const trn_visitor *visitor) {
  return walk_from((trn_node){expr, false}, visitor);
}
