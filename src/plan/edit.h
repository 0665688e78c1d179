/* What the files of rewriting share. Internal to src/plan. */
#ifndef TRN_PLAN_EDIT_H
#define TRN_PLAN_EDIT_H
#include "plan/plan.h"

struct trn_edit {
  trn_arena *arena; /* of the new plan */
  uint32_t next_column;
  bool failed;
};

/* A column of the source with this name (exactly, else the only one without regard to case); UINT32_MAX: none. */
uint32_t trn__label_find_column(const trn_scan_label *label, const char *name, size_t size);
/* The place in `scan` of the source's column `index`; when it is not there, *scan becomes a copy that has it at its end.
 * UINT32_MAX: no memory. */
uint32_t trn__edit_scan_column(trn_edit *edit, const trn_rel **scan, uint32_t index);

#endif
