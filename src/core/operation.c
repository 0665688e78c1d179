/* Operations: a checked, full-size copy of somebody's table, an id, and cancel made idempotent. */
#include "core/core.h"

#include <trunnion/operation.h>

#include "core/query.h"

struct trn_operation {
  atomic_size_t refs;
  trn_operation_ops ops;
  void *self;
  atomic_bool is_cancelled;
  char id[]; /* NUL-terminated */
};

static trn_status stub_metrics(void *self, char **out) {
  (void)self;
  (void)out;
  return TRN_UNIMPLEMENTED;
}

static trn_status stub_locations(void *self, void (*each)(void *user, const trn_result_location *location), void *user,
                                 trn_error **error) {
  (void)self, (void)each, (void)user;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the result lies nowhere that a client can fetch it from");
}

static void stub_destroy(void *self) {
  (void)self;
}

trn_status trn_operation_create(const trn_operation_ops *given, void *self, const char *id, trn_operation **out) {
  *out = NULL;
  trn_operation_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.state || !ops.cancel || !ops.result_stream) return TRN_INVALID_ARGUMENT;
  if (!ops.metrics) ops.metrics = stub_metrics;
  if (!ops.destroy) ops.destroy = stub_destroy;
  if (!ops.locations) ops.locations = stub_locations;
  char made[TRN_UUID_SIZE];
  if (!id) {
    trn__uuid7(made);
    id = made;
  }
  size_t size = strlen(id) + 1;
  trn_operation *operation = calloc(1, sizeof *operation + size);
  if (!operation) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&operation->refs, 1);
  atomic_init(&operation->is_cancelled, false);
  operation->ops = ops;
  operation->self = self;
  memcpy(operation->id, id, size);
  *out = operation;
  return TRN_OK;
}

trn_operation *trn_operation_ref(trn_operation *operation) {
  atomic_fetch_add_explicit(&operation->refs, 1, memory_order_relaxed);
  return operation;
}

void trn_operation_unref(trn_operation *operation) {
  if (!operation || atomic_fetch_sub_explicit(&operation->refs, 1, memory_order_acq_rel) != 1) return;
  operation->ops.destroy(operation->self);
  free(operation);
}

const char *trn_operation_id(const trn_operation *operation) {
  return operation->id;
}

trn_operation_state trn_operation_get_state(trn_operation *operation) {
  return operation->ops.state(operation->self);
}

void trn_operation_cancel(trn_operation *operation) {
  if (!atomic_exchange(&operation->is_cancelled, true)) operation->ops.cancel(operation->self);
}

trn_status trn_operation_result_stream(trn_operation *operation, trn_stream **out, trn_error **error) {
  *out = NULL;
  trn_status status = operation->ops.result_stream(operation->self, out, error);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the operation gave no stream");
  return status;
}

trn_status trn_operation_metrics(trn_operation *operation, char **out) {
  *out = NULL;
  return operation->ops.metrics(operation->self, out);
}

trn_status trn_operation_locations(trn_operation *operation,
                                   void (*each)(void *user, const trn_result_location *location), void *user,
                                   trn_error **error) {
  return operation->ops.locations(operation->self, each, user, error);
}
