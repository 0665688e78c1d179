/* The layers of this folder as factories, by name. */
#include "layer/layer.h"

static trn_status make_authorize(void *user, const trn_registry *registry, const trn_config *config,
                                 trn_backend *inner, trn_backend **out, trn_error **error) {
  (void)user, (void)registry;
  trn_authorize_options options = {.struct_size = sizeof options, .config = config};
  trn_config *empty = config ? NULL : trn_config_create(); /* named without settings: nothing is allowed */
  if (!config && !empty) return trn__no_memory(error);
  if (!config) options.config = empty;
  trn_status status = trn_authorize_create(&options, inner, out, error);
  trn_config_destroy(empty);
  return status;
}

static trn_status make_validate(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                                trn_backend **out, trn_error **error) {
  (void)user, (void)registry;
  trn_validate_options options = {.struct_size = sizeof options, .config = config};
  return trn_validate_create(&options, inner, out, error);
}

static trn_status make_cache(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                             trn_backend **out, trn_error **error) {
  (void)user, (void)registry;
  trn_cache_options options = {.struct_size = sizeof options, .config = config};
  return trn_cache_create(&options, inner, out, error);
}

static trn_status make_trace(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                             trn_backend **out, trn_error **error) {
  (void)user;
  trn_trace_options options = {
      .struct_size = sizeof options, .config = config, .connector = trn_registry_connector(registry)};
  return trn_trace_create(&options, inner, out, error);
}

static trn_status make_route(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                             trn_backend **out, trn_error **error) {
  (void)user;
  trn_route_options options = {.struct_size = sizeof options, .config = config, .registry = registry};
  return trn_route_create(&options, inner, out, error);
}

static trn_status make_limit(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                             trn_backend **out, trn_error **error) {
  (void)user, (void)registry;
  trn_limit_options options = {.struct_size = sizeof options, .config = config};
  return trn_limit_create(&options, inner, out, error);
}

trn_status trn__layers_register(trn_registry *registry, trn_error **error) {
  static const struct {
    const char *name;
    trn_layer_factory make;
  } layers[] = {{"authorize", make_authorize}, {"validate", make_validate}, {"cache", make_cache},
                {"trace", make_trace},         {"route", make_route},       {"limit", make_limit}};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < sizeof layers / sizeof *layers && status == TRN_OK; i++)
    status = trn_registry_add_layer(registry, layers[i].name, layers[i].make, NULL, error);
  return status;
}
