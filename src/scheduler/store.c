/* Stores: a checked, full-size copy of somebody's table. */
#include "core/core.h"

#include <trunnion/scheduler.h>

#include "core/query.h"

struct trn_job_store {
  atomic_size_t refs;
  trn_job_store_ops ops;
  void *self;
};

trn_status trn_job_store_create(const trn_job_store_ops *given, void *self, trn_job_store **out) {
  *out = NULL;
  trn_job_store_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.insert || !ops.get || !ops.update || !ops.take || !ops.renew || !ops.cancel || !ops.release || !ops.remove ||
      !ops.list || !ops.destroy)
    return TRN_INVALID_ARGUMENT;
  trn_job_store *store = calloc(1, sizeof *store);
  if (!store) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&store->refs, 1);
  ops.struct_size = sizeof ops;
  store->ops = ops;
  store->self = self;
  *out = store;
  return TRN_OK;
}

trn_job_store *trn_job_store_ref(trn_job_store *store) {
  atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
  return store;
}

void trn_job_store_unref(trn_job_store *store) {
  if (!store || atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) return;
  store->ops.destroy(store->self);
  free(store);
}

const trn_job_store_ops *trn_job_store_get_ops(const trn_job_store *store, void **self) {
  if (self) *self = store->self;
  return &store->ops;
}
