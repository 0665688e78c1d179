/* The wish that a call ends, seen by whoever works on it. */
#include "core/query.h"

struct trn_cancel {
  atomic_size_t refs;
  _Atomic(uint32_t) flag; /* 0, then 1 for ever */
};

trn_status trn_cancel_create(trn_cancel **out) {
  trn_cancel *cancel = calloc(1, sizeof *cancel);
  *out = cancel;
  if (!cancel) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&cancel->refs, 1);
  atomic_init(&cancel->flag, 0);
  return TRN_OK;
}

trn_cancel *trn_cancel_ref(trn_cancel *cancel) {
  if (cancel) atomic_fetch_add_explicit(&cancel->refs, 1, memory_order_relaxed);
  return cancel;
}

void trn_cancel_unref(trn_cancel *cancel) {
  if (cancel && atomic_fetch_sub_explicit(&cancel->refs, 1, memory_order_acq_rel) == 1) free(cancel);
}

void trn_cancel_request(trn_cancel *cancel) {
  if (cancel) atomic_store(&cancel->flag, 1);
}

bool trn_cancel_is_requested(const trn_cancel *cancel) {
  return cancel && atomic_load_explicit(&cancel->flag, memory_order_relaxed);
}

/* Of a thread, as errno is: it follows the calls down through layers of any age, whose slots have no place for it. */
static _Thread_local trn_cancel *works_for;

trn_cancel *trn_cancel_work_for(trn_cancel *cancel) {
  trn_cancel *before = works_for;
  works_for = cancel;
  return before;
}

trn_cancel *trn_cancel_of_work(void) {
  return works_for;
}

const uint32_t *trn__cancel_flag(const trn_cancel *cancel) {
  return cancel ? (const uint32_t *)&cancel->flag : NULL;
}

trn_status trn__cancelled(trn_error **error) {
  return trn_error_set(error, TRN_CANCELLED, NULL, "The operation was cancelled");
}
