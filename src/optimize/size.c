/* How large a plan is for an engine whose plans are trees: what is shared counts as often as it is used. */
#include "optimize/optimize.h"
#include "plan/graph.h"

/* Sizes of everything below a node, saturating: a DAG of fifty nodes can stand for 2^50. */
typedef struct sizes {
  uint32_t rels, exprs;
} sizes;

static uint32_t sum(uint32_t a, uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint64_t pack(sizes s) {
  return (uint64_t)s.rels << 32 | s.exprs;
}

static sizes unpack(uint64_t value) {
  return (sizes){(uint32_t)(value >> 32), (uint32_t)value};
}

/* All children of the node on top have their sizes in `done`. */
static bool leave(trn_ptrmap *done, trn_node node) {
  sizes all = {node.is_rel, !node.is_rel};
  trn_node child;
  /* Rows that are written out are many, and cheap: they are data. */
  bool is_data = node.is_rel && ((const trn_rel *)node.at)->kind == TRN_REL_VALUES;
  for (uint32_t i = 0; trn__node_child(node, i, &child); i++) {
    uint64_t value = 0;
    trn__ptrmap_get(done, child.at, NULL, &value);
    sizes below = unpack(value);
    if (is_data && below.exprs == 1) continue;
    all.rels = sum(all.rels, below.rels);
    all.exprs = sum(all.exprs, below.exprs);
  }
  return trn__ptrmap_set(done, node.at, NULL, pack(all));
}

static trn_status measure(const trn_rel *root, sizes *out) {
  trn_ptrmap done = {0};
  trn_stack stack = {0};
  trn_status status = trn__stack_push(&stack, (trn_node){root, true}, NULL, 0);
  while (status == TRN_OK && stack.count) {
    trn_frame *top = &stack.frames[stack.count - 1];
    trn_node child;
    if (!trn__node_child(top->node, top->next++, &child)) {
      if (!leave(&done, top->node)) status = TRN_RESOURCE_EXHAUSTED;
      stack.count--;
    } else if (!trn__ptrmap_get(&done, child.at, NULL, NULL)) {
      status = trn__stack_push(&stack, child, NULL, 0);
    }
  }
  uint64_t value = 0;
  trn__ptrmap_get(&done, root, NULL, &value);
  *out = unpack(value);
  trn__stack_finish(&stack);
  trn__ptrmap_finish(&done);
  return status;
}

trn_status trn__plan_check_size(const trn_rel *root, trn_error **error) {
  sizes size;
  trn_status status = measure(root, &size);
  if (status)
    return trn_error_set(error, status, NULL, "the plan is nested deeper than %d levels, or memory is out",
                         TRN_PLAN_DEPTH_MAX);
  if (size.rels > TRN_PLAN_TREE_RELATIONS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "the plan has more than %u relations when each is counted as often as it is used",
                         TRN_PLAN_TREE_RELATIONS_MAX);
  if (size.exprs > TRN_PLAN_TREE_EXPRESSIONS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "the plan has more than %u expressions when each is counted as often as it is used",
                         TRN_PLAN_TREE_EXPRESSIONS_MAX);
  return TRN_OK;
}
