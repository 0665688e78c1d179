/* Frontends: a checked copy of somebody's table. */
#include "core/core.h"

#include <trunnion/frontend.h>

#include "core/query.h"

struct trn_frontend {
  trn_frontend_ops ops;
  void *self;
};

trn_status trn_frontend_create(const trn_frontend_ops *given, void *self, trn_frontend **out) {
  *out = NULL;
  trn_frontend_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.do_register) return TRN_INVALID_ARGUMENT;
  trn_frontend *frontend = calloc(1, sizeof *frontend);
  if (!frontend) return TRN_RESOURCE_EXHAUSTED;
  frontend->ops = ops;
  frontend->self = self;
  *out = frontend;
  return TRN_OK;
}

void trn_frontend_destroy(trn_frontend *frontend) {
  if (!frontend) return;
  if (frontend->ops.destroy) frontend->ops.destroy(frontend->self);
  free(frontend);
}

trn_status trn_frontend_register(trn_frontend *frontend, trn_routes *routes, trn_backend *backend, trn_error **error) {
  return frontend->ops.do_register(frontend->self, routes, backend, error);
}
