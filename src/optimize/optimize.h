/* Rewrites of the resolved plan before it goes to an engine. */
#ifndef TRN_OPTIMIZE_OPTIMIZE_H
#define TRN_OPTIMIZE_OPTIMIZE_H
#include "plan/plan.h"

/* RESOURCE_EXHAUSTED when the plan is too large for an engine whose plans are trees (TRN_PLAN_TREE_*_MAX). To be asked
 * before any walk that follows shared parts as often as they are used. */
trn_status trn__plan_check_size(const trn_rel *root, trn_error **error);

/* Leaves out columns that nobody reads; merges projections over projections, filters over filters, and
 * unions in unions. The root keeps its columns. For plans without SUBQUERY expressions; every column's id is below `next_column`. */
trn_status trn__prune(trn_arena *arena, const trn_rel *root, uint32_t next_column, const trn_rel **out,
                      trn_error **error);

/* trn__decorrelate is declared in plan/plan.h. */

#endif
