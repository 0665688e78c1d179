/* trn.barrier(x): x. Volatile, so that no optimizer moves a condition below it: a condition of a user that fails, or
 * takes time, must not see rows that a row filter hides (src/plan/edit.c). */
#include "functions/frame.h"
#include <stdlib.h>

static trn_status barrier(fn_call *call) {
  int64_t *rows = malloc((size_t)(call->rows + 1) * sizeof *rows);
  if (!rows) return fn__raise_out_of_memory(&call->report);
  for (int64_t i = 0; i < call->rows; i++) rows[i] = call->columns[0].step ? i : 0;
  struct ArrowArray taken;
  trn_status status = fn__take(call->columns[0].type.schema, call->columns[0].array, rows, call->rows, &taken);
  free(rows);
  if (status) return fn__raise_out_of_memory(&call->report);
  call->given = taken;
  return TRN_OK;
}

static trn_status bind_barrier(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  return call->count == 1 ? fn__bind_first(call, out, schema) : fn__mismatch(call);
}

const fn_scalar fn__barrier_table[] = {
    {"trn.barrier", TRN_VOLATILE, 0, 0, bind_barrier, barrier},
    {NULL},
};
