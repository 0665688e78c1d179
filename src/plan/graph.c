/* Nodes, their children, what a UNION must be, the map by identity, the stack. */
#include "plan/graph.h"

bool trn__node_child(trn_node node, uint32_t index, trn_node *child) {
  if (node.is_rel) {
    const trn_rel *rel = node.at;
    if (index < rel->input_count)
      *child = (trn_node){rel->inputs[index], true};
    else if (index - rel->input_count < rel->expr_count)
      *child = (trn_node){rel->exprs[index - rel->input_count], false};
    else
      return false;
    return true;
  }
  const trn_expr *expr = node.at;
  if (index < expr->arg_count) {
    *child = (trn_node){expr->args[index], false};
    return true;
  }
  index -= expr->arg_count;
  switch (expr->kind) {
  case TRN_EXPR_WINDOW: {
    const trn_expr *bounds[] = {expr->u.window.start, expr->u.window.end};
    if (!bounds[0]) bounds[0] = bounds[1], bounds[1] = NULL;
    if (index > 1 || !bounds[index]) return false;
    *child = (trn_node){bounds[index], false};
    return true;
  }
  case TRN_EXPR_LITERAL: {
    bool is_nested = expr->type->id >= TRN_TYPE_ARRAY && !expr->u.literal.is_null;
    if (!is_nested || index >= expr->u.literal.value.nested.count) return false;
    *child = (trn_node){expr->u.literal.value.nested.items[index], false};
    return true;
  }
  case TRN_EXPR_SUBQUERY:
    if (index || !expr->u.subquery.rel) return false;
    *child = (trn_node){expr->u.subquery.rel, true};
    return true;
  default: return false;
  }
}

/* ---- the map ---- */

static size_t slot_of(const trn_ptrmap *map, const void *a, const void *b) {
  uint64_t hash = ((uintptr_t)a >> 4) * 0x9E3779B97F4A7C15ull ^ ((uintptr_t)b >> 4) * 0xC2B2AE3D27D4EB4Full;
  size_t at = (size_t)(hash ^ hash >> 29) & (map->capacity - 1);
  while (map->slots[at].a && (map->slots[at].a != a || map->slots[at].b != b)) at = (at + 1) & (map->capacity - 1);
  return at;
}

bool trn__ptrmap_get(const trn_ptrmap *map, const void *a, const void *b, uint64_t *value) {
  if (!map->count) return false;
  const trn_ptrmap_slot *slot = &map->slots[slot_of(map, a, b)];
  if (!slot->a) return false;
  if (value) *value = slot->value;
  return true;
}

static bool ptrmap_grow(trn_ptrmap *map) {
  trn_ptrmap next = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
  next.slots = calloc(next.capacity, sizeof *next.slots);
  if (!next.slots) return false;
  for (size_t i = 0; i < map->capacity; i++)
    if (map->slots[i].a) next.slots[slot_of(&next, map->slots[i].a, map->slots[i].b)] = map->slots[i];
  free(map->slots);
  *map = next;
  return true;
}

bool trn__ptrmap_set(trn_ptrmap *map, const void *a, const void *b, uint64_t value) {
  if (map->count >= map->capacity / 2 && !ptrmap_grow(map)) return false;
  trn_ptrmap_slot *slot = &map->slots[slot_of(map, a, b)];
  if (!slot->a) map->count++;
  *slot = (trn_ptrmap_slot){a, b, value};
  return true;
}

void trn__ptrmap_finish(trn_ptrmap *map) {
  free(map->slots);
  *map = (trn_ptrmap){0};
}

/* ---- the stack ---- */

trn_status trn__stack_push(trn_stack *stack, trn_node node, const trn_rel *holder, size_t mark) {
  if (stack->count >= TRN_PLAN_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  if (stack->count == stack->capacity) {
    size_t capacity = stack->capacity ? stack->capacity * 2 : 64;
    trn_frame *frames = realloc(stack->frames, capacity * sizeof *frames);
    if (!frames) return TRN_RESOURCE_EXHAUSTED;
    stack->frames = frames;
    stack->capacity = capacity;
  }
  stack->frames[stack->count++] = (trn_frame){.node = node, .holder = holder, .mark = mark};
  return TRN_OK;
}

void trn__stack_finish(trn_stack *stack) {
  free(stack->frames);
  *stack = (trn_stack){0};
}

/* ---- inputs by their places ---- */

static bool input_fits(const trn_rel *rel, const trn_rel *input) {
  if (input->column_count != rel->column_count) return false;
  for (uint32_t i = 0; i < rel->column_count; i++) {
    const trn_type *type = input->columns[i].type;
    if (type->id != TRN_TYPE_NULL && !trn__type_same_shape(type, rel->columns[i].type)) return false;
  }
  return true;
}

bool trn__rel_fits(const trn_rel *rel) {
  if (rel->kind != TRN_REL_UNION && rel->kind != TRN_REL_SET) return true;
  for (uint32_t i = 0; i < rel->input_count; i++)
    if (!input_fits(rel, rel->inputs[i])) return false;
  return rel->kind == TRN_REL_UNION || rel->input_count == 2;
}

trn_status trn__rel_misfit(trn_error **error) {
  return trn_error_set(error, TRN_INTERNAL, NULL, "a UNION, INTERSECT or EXCEPT whose inputs have other columns than itself");
}
