/* What walking, rewriting, printing and fingerprinting share: nodes of either sort, their children, and a map by
 * identity. For what goes through plans: src/plan, src/optimize, src/engine, src/layer. */
#ifndef TRN_PLAN_GRAPH_H
#define TRN_PLAN_GRAPH_H
#include "plan/plan.h"

/* A relation or an expression. */
typedef struct trn_node {
  const void *at;
  bool is_rel;
} trn_node;

/* Child `index` of a node: of a relation inputs, then expressions; of an expression args, then the bounds of a window's
 * frame, the elements of a nested literal, the relation of a subquery. False: there are no more. */
bool trn__node_child(trn_node node, uint32_t index, trn_node *child);

/* Whether a UNION or SET, which takes its inputs' columns by their places, finds in each input as many as it has itself, of their
 * types (or of no type); other relations do. To be asked before a walk that reads them so: rewriting can break it. */
bool trn__rel_fits(const trn_rel *rel);
/* The INTERNAL error of one that does not. */
trn_status trn__rel_misfit(trn_error **error);

/* ---- a map from one or two pointers to a number ---- */
typedef struct trn_ptrmap_slot {
  const void *a, *b; /* a NULL: free */
  uint64_t value;
} trn_ptrmap_slot;
typedef struct trn_ptrmap {
  trn_ptrmap_slot *slots;
  size_t count, capacity; /* a power of two */
} trn_ptrmap;
bool trn__ptrmap_get(const trn_ptrmap *map, const void *a, const void *b, uint64_t *value);
bool trn__ptrmap_set(trn_ptrmap *map, const void *a, const void *b, uint64_t value); /* false: out of memory */
void trn__ptrmap_finish(trn_ptrmap *map);

/* ---- the stack of an iterative walk ---- */
typedef struct trn_frame {
  trn_node node;
  const trn_rel *holder; /* of an expression */
  uint32_t next;         /* child to visit */
  size_t mark;           /* the user's */
} trn_frame;
typedef struct trn_stack {
  trn_frame *frames;
  size_t count, capacity;
} trn_stack;
/* RESOURCE_EXHAUSTED: out of memory, or deeper than TRN_PLAN_DEPTH_MAX. */
trn_status trn__stack_push(trn_stack *stack, trn_node node, const trn_rel *holder, size_t mark);
void trn__stack_finish(trn_stack *stack);

#endif
