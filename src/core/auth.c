/* Authenticators: a checked copy of somebody's table, reference counted. */
#include "core/query.h"
#include <trunnion/auth.h>

struct trn_authenticator {
  atomic_size_t refs;
  atomic_uint_least64_t reloads;
  trn_authenticator_ops ops;
  void *self;
};

trn_status trn_authenticator_create(const trn_authenticator_ops *given, void *self, trn_authenticator **out) {
  *out = NULL;
  trn_authenticator_ops ops = {0};
  if (given) memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.authenticate) return TRN_INVALID_ARGUMENT;
  trn_authenticator *authenticator = calloc(1, sizeof *authenticator);
  if (!authenticator) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&authenticator->refs, 1);
  atomic_init(&authenticator->reloads, 0);
  authenticator->ops = ops;
  authenticator->self = self;
  *out = authenticator;
  return TRN_OK;
}

trn_authenticator *trn_authenticator_ref(trn_authenticator *authenticator) {
  atomic_fetch_add_explicit(&authenticator->refs, 1, memory_order_relaxed);
  return authenticator;
}

void trn_authenticator_unref(trn_authenticator *authenticator) {
  if (!authenticator || atomic_fetch_sub_explicit(&authenticator->refs, 1, memory_order_acq_rel) != 1) return;
  if (authenticator->ops.destroy) authenticator->ops.destroy(authenticator->self);
  free(authenticator);
}

trn_status trn_authenticator_reload(trn_authenticator *authenticator, trn_error **error) {
  trn_status status = authenticator->ops.reload ? authenticator->ops.reload(authenticator->self, error) : TRN_OK;
  if (!status) atomic_fetch_add(&authenticator->reloads, 1);
  return status;
}

uint64_t trn_authenticator_reloads(const trn_authenticator *authenticator) {
  return atomic_load(&authenticator->reloads);
}

trn_status trn_authenticator_refresh(trn_authenticator *authenticator, const trn_identity *was, trn_identity *out,
                                     trn_error **error) {
  trn_identity identity = {.struct_size = sizeof identity};
  trn_status status = authenticator->ops.refresh
                          ? authenticator->ops.refresh(authenticator->self, was, &identity, error)
                          : TRN_OK;
  if (!status)
    memcpy(out, &identity, out->struct_size ? trn__struct_size(out->struct_size, sizeof identity) : sizeof identity);
  return status;
}

trn_status trn_authenticate(trn_authenticator *authenticator, const trn_credentials *given, trn_identity *out,
                            trn_error **error) {
  trn_credentials credentials = {0};
  trn_identity identity = {.struct_size = sizeof identity};
  memcpy(&credentials, given, trn__struct_size(given->struct_size, sizeof credentials));
  credentials.struct_size = sizeof credentials;
  trn_status status = authenticator->ops.authenticate(authenticator->self, &credentials, &identity, error);
  if (!status && (!identity.user || !*identity.user)) { /* nobody is not somebody */
    if (identity.release) identity.release(&identity);
    return trn_error_set(error, TRN_INTERNAL, NULL, "The authenticator gave no user");
  }
  if (!status)
    memcpy(out, &identity, out->struct_size ? trn__struct_size(out->struct_size, sizeof identity) : sizeof identity);
  return status;
}
