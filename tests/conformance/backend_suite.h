/* What every backend must do, whatever runs behind it. Called from a cmocka test; fails by cmocka's assertions. */
#ifndef TRN_TESTS_BACKEND_SUITE_H
#define TRN_TESTS_BACKEND_SUITE_H
#include <trunnion/backend.h>

/* Where a backend is allowed to differ. The suite checks that it does differ: a deviation that is gone must be removed.
 */
typedef struct trn_backend_deviations {
  bool arrays_unimplemented; /* its streams give IPC only */
  bool explain_unimplemented;
  bool metrics_unimplemented;
  bool sources_unimplemented;
} trn_backend_deviations;

/* Borrows `backend`. The plans are made of VALUES, RANGE, PROJECT of columns and literals, LIMIT. */
void trn_backend_conformance(trn_backend *backend, const trn_backend_deviations *deviations);

#endif
