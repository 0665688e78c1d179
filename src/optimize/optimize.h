/* Rewrites of the resolved plan before it goes to an engine. */
#ifndef TRN_OPTIMIZE_OPTIMIZE_H
#define TRN_OPTIMIZE_OPTIMIZE_H
#include "plan/plan.h"

/* trn__decorrelate is declared in plan/plan.h. */
bool trn__columns_have(const trn_rel *rel, uint32_t id);

#endif
