/* What can be known of a plan before it is encoded. */
#include "backend/ballista/backend.h"

static trn_walk find_own(void *user, const trn_expr *expr, const trn_rel *holder) {
  const char **found = user;
  (void)holder;
  if (expr->kind == TRN_EXPR_CALL && expr->u.call.home == TRN_HOME_LIBRARY) *found = expr->u.call.name;
  if (expr->kind == TRN_EXPR_AGGREGATE && expr->u.aggregate.home == TRN_HOME_LIBRARY) *found = expr->u.aggregate.name;
  return *found ? TRN_WALK_STOP : TRN_WALK_ON;
}

static trn_walk find_own_relation(void *user, const trn_rel *rel) {
  const char **found = user;
  if (rel->kind == TRN_REL_WRITE) *found = "WRITE";
  return *found ? TRN_WALK_STOP : TRN_WALK_ON;
}

const char *trn__ballista_own_function(const trn_plan *plan) {
  const char *found = NULL;
  const trn_visitor visitor = {.rel = find_own_relation, .expr = find_own, .user = &found};
  return trn__plan_walk(plan->root, &visitor) == TRN_RESOURCE_EXHAUSTED ? "?" : found;
}

static trn_walk find_work(void *user, const trn_rel *rel) {
  bool *found = user;
  switch (rel->kind) {
  case TRN_REL_VALUES: *found |= rel->u.values.row_count > TRN_BALLISTA_TRIVIAL_ROWS; break;
  case TRN_REL_PROJECT:
  case TRN_REL_FILTER:
  case TRN_REL_LIMIT:
  case TRN_REL_SORT:
  case TRN_REL_WRITE: break;
  default: *found = true;
  }
  return *found ? TRN_WALK_STOP : TRN_WALK_ON;
}

bool trn__ballista_is_trivial(const trn_plan *plan) {
  bool found = false;
  const trn_visitor visitor = {.rel = find_work, .user = &found};
  return !trn__plan_walk(plan->root, &visitor) && !found;
}

static trn_walk find_write(void *user, const trn_rel *rel) {
  bool *found = user;
  *found |= rel->kind == TRN_REL_WRITE;
  return *found ? TRN_WALK_STOP : TRN_WALK_ON;
}

bool trn__ballista_writes(const trn_plan *plan) {
  bool found = false;
  const trn_visitor visitor = {.rel = find_write, .user = &found};
  return trn__plan_walk(plan->root, &visitor) == TRN_RESOURCE_EXHAUSTED || found;
}
