/* Stacks of layers: from a list, checked for order. */
#include <stdio.h>

#include "core/query.h"
#include "layer/layer.h"

/* ---- order ---- */

/* The first pair that stands wrongly; false: there is none. */
static bool wrong_order(trn_backend *backend, const trn_layer **outer, const trn_layer **inner) {
  const trn_layer *deepest = NULL;
  for (trn_layer *layer = trn__layer_of(backend); layer; layer = trn__layer_of(trn_layer_next(layer))) {
    if (trn__layer_role(layer) == TRN_LAYER_ANY) continue;
    if (deepest && trn__layer_role(layer) < trn__layer_role(deepest)) {
      *outer = deepest;
      *inner = layer;
      return true;
    }
    deepest = layer;
  }
  return false;
}

static const char *why(const trn_layer *inner) {
  switch (trn__layer_role(inner)) {
  case TRN_LAYER_OBSERVE: return "what is refused or answered from a store is else not seen";
  case TRN_LAYER_POLICY: return "a query is else answered, or paid for, before it is allowed";
  case TRN_LAYER_CACHE: return "an answer from the store else waits for what only running queries need";
  default: return "its role says so";
  }
}

trn_status trn_layers_check(trn_backend *backend, trn_error **error) {
  const trn_layer *outer = NULL, *inner = NULL;
  if (!wrong_order(backend, &outer, &inner)) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "layer '%s' must come before (outside of) '%s': %s",
                       trn__layer_name(inner), trn__layer_name(outer), why(inner));
}

/* ---- building ---- */

/* A failure that does not say where it comes from: with the place of what made it. */
static trn_status place(const trn_config *node, trn_status status, trn_error **error) {
  const char *origin = trn_config_origin(node), *words = error ? trn_error_message(*error) : "";
  if (!status || !error || !*error || !*origin || strncmp(words, origin, strcspn(origin, ":")) == 0) return status;
  trn_error *placed = NULL;
  trn_error_set(&placed, status, trn_error_condition(*error), "%s: %s", origin, words);
  if (!placed) return status;
  trn_error_unref(*error);
  *error = placed;
  return status;
}

/* An item of the list: a name, or a map of one name to its configuration. */
static trn_status read_item(const trn_config *item, const char **name, const trn_config **config, trn_error **error) {
  *config = NULL;
  *name = trn_config_value(item);
  if (*name) return TRN_OK;
  if (trn_config_get_kind(item) != TRN_CONFIG_MAP || trn_config_count(item) != 1)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s: a layer is a name, or one name with its settings below it", trn_config_origin(item));
  *name = trn_config_key_at(item, 0);
  *config = trn_config_at(item, 0);
  return TRN_OK;
}

static void warn(const trn_layers_options *options, const trn_error *error) {
  if (!options->sink) return;
  trn_event event = {.struct_size = sizeof event,
                     .kind = TRN_EVENT_WARNING,
                     .layer = "layers",
                     .action = "order",
                     .detail = trn_error_message(error),
                     .rows = -1,
                     .bytes = -1};
  options->sink(options->sink_user, &event);
}

/* With a trace layer in the stack, its file has what every layer tells. */
static void gather_events(trn_backend *backend, const trn_layers_options *options) {
  trn_layer *trace = trn__layer_of(backend);
  while (trace && strcmp(trn__layer_name(trace), "trace") != 0) trace = trn__layer_of(trn_layer_next(trace));
  if (!trace) return;
  trn__trace_forward(trace, options->sink, options->sink_user);
  for (trn_layer *layer = trn__layer_of(backend); layer; layer = trn__layer_of(trn_layer_next(layer)))
    if (layer != trace && !trn__trace_adopt(trace, layer)) return;
}

trn_status trn_layers_build(const trn_registry *registry, const trn_config *list, trn_backend *base,
                            const trn_layers_options *given, trn_backend **out, trn_error **error) {
  *out = NULL;
  trn_layers_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  trn_config_kind kind = trn_config_get_kind(list);
  if (kind != TRN_CONFIG_NONE && kind != TRN_CONFIG_LIST)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: layers are a list", trn_config_origin(list));
  trn_backend *backend = trn_backend_ref(base);
  trn_status status = TRN_OK;
  for (size_t i = trn_config_count(list); i-- > 0 && status == TRN_OK;) {
    const char *name = NULL;
    const trn_config *config = NULL;
    trn_backend *around = NULL;
    status = read_item(trn_config_at(list, i), &name, &config, error);
    if (status == TRN_OK) status = trn_registry_make_layer(registry, name, config, backend, &around, error);
    if (place(trn_config_at(list, i), status, error)) break;
    trn_layer *layer = trn__layer_of(around);
    if (layer && options.sink) trn__layer_set_sink(layer, options.sink, options.sink_user);
    trn_backend_unref(backend);
    backend = around;
  }
  if (status == TRN_OK) gather_events(backend, &options);
  trn_error *order = NULL;
  if (status == TRN_OK && trn_layers_check(backend, &order)) {
    if (options.order == TRN_ORDER_REFUSE) {
      status = TRN_INVALID_ARGUMENT;
      if (error) *error = trn_error_ref(order);
    } else {
      warn(&options, order);
    }
  }
  trn_error_unref(order);
  if (status)
    trn_backend_unref(backend);
  else
    *out = backend;
  return status;
}

/* ---- new settings ---- */

static trn_status other_layers(const trn_config *list, trn_error **error) {
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                       "%s: these are other layers than those that run, or in another order: start anew",
                       trn_config_origin(list));
}

/* A layer made with the settings, and thrown away: are they right? */
static trn_status try_settings(const trn_registry *registry, const trn_layer *layer, const char *name,
                               const trn_config *config, trn_error **error) {
  trn_backend *made = NULL;
  trn_status status = trn_registry_make_layer(registry, name, config, trn_layer_next(layer), &made, error);
  trn_backend_unref(made);
  return place(config, status, error);
}

trn_status trn_layers_reload(const trn_registry *registry, trn_backend *backend, const trn_config *list,
                             trn_error **error) {
  trn_status status = TRN_OK;
  for (int takes = 0; takes < 2 && status == TRN_OK; takes++) {
    trn_layer *layer = trn__layer_of(backend);
    for (size_t i = 0; i < trn_config_count(list) && status == TRN_OK; i++) {
      const char *name = NULL;
      const trn_config *config = NULL;
      status = read_item(trn_config_at(list, i), &name, &config, error);
      if (status) break;
      if (!layer || strcmp(trn__layer_name(layer), name) != 0) return other_layers(list, error);
      if (trn__layer_reloads(layer))
        status = takes ? trn__layer_reload(layer, config, error) : try_settings(registry, layer, name, config, error);
      layer = trn__layer_of(trn_layer_next(layer));
    }
    /* A backend may be a layer itself, below those of the list. */
    bool is_backend = layer && strcmp(trn__layer_name(layer), "ballista") == 0;
    if (status == TRN_OK && layer && !is_backend) return other_layers(list, error);
  }
  return status;
}
