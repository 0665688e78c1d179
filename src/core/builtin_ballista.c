/* The Ballista backend from a configuration: a layer around any backend, or a backend with an embedded one inside. */
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include <trunnion/ballista.h>

enum { SETTINGS_MAX = 256 };

/* One of `names`, by its place. */
static trn_status read_choice(const trn_config *config, const char *key, const char *const *names, int *out,
                              trn_error **error) {
  const char *text = NULL;
  trn_status status = trn_config_text(config, key, &text, error);
  for (int i = 0; !status && text && names[i]; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    *out = i;
    return TRN_OK;
  }
  if (status || !text) return status;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: %s is '%s' or '%s', not '%s'",
                       trn_config_origin(trn_config_get(config, key)), key, names[0], names[1], text);
}

static trn_status read_settings(const trn_config *map, trn_kv *out, size_t *count, trn_error **error) {
  *count = trn_config_count(map);
  if (*count > SETTINGS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s: more than %d settings", trn_config_origin(map),
                         SETTINGS_MAX);
  for (size_t i = 0; i < *count; i++) {
    out[i] = (trn_kv){trn_config_key_at(map, i), trn_config_value(trn_config_at(map, i))};
    if (!out[i].key || !out[i].value)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: settings: a map of texts is wanted",
                           trn_config_origin(map));
  }
  return TRN_OK;
}

static trn_status read_numbers(const trn_config *config, trn_ballista_options *options, trn_error **error) {
  uint64_t inline_bytes = 0, fetch_bytes = 0, timeout_ms = 0;
  int64_t fetches = 0;
  trn_status status = trn_config_size(config, "inline", &inline_bytes, error);
  if (!status) status = trn_config_size(config, "fetch_memory", &fetch_bytes, error);
  if (!status) status = trn_config_number(config, "fetches", 1, 1024, &fetches, error);
  if (!status) status = trn_config_duration(config, "timeout", &timeout_ms, error);
  if (!status && timeout_ms > INT32_MAX) timeout_ms = INT32_MAX;
  options->inline_bytes_max = (size_t)inline_bytes;
  options->fetch_bytes_max = (size_t)fetch_bytes;
  options->fetches_max = (unsigned)fetches;
  options->timeout_ms = (unsigned)timeout_ms;
  return status;
}

trn_status trn__ballista_layer(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                               trn_backend **out, trn_error **error) {
  static const char *const keys[] = {"scheduler",    "fallback",     "functions", "settings", "spool_dir",
                                     "inline",       "fetch_memory", "fetches",   "timeout",  "tls",
                                     "executor_tls", "embedded",     NULL};
  static const char *const fallbacks[] = {"local", "refuse", NULL};
  static const char *const functions[] = {"auto", "all", "stock", NULL};
  static const char scheme[] = "ballista://";
  trn_kv settings[SETTINGS_MAX];
  int fallback = 0, has = 0;
  trn_ballista_options options = {
      .struct_size = sizeof options, .connector = trn_registry_connector(registry), .settings = settings};
  (void)user;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_text(config, "scheduler", &options.scheduler, error);
  if (!status) status = read_choice(config, "fallback", fallbacks, &fallback, error);
  if (!status) status = read_choice(config, "functions", functions, &has, error);
  if (!status) status = read_settings(trn_config_get(config, "settings"), settings, &options.setting_count, error);
  if (!status) status = trn_config_text(config, "spool_dir", &options.spool_directory, error);
  if (!status) status = trn_config_bool(config, "tls", &options.scheduler_tls, error);
  if (!status) status = trn_config_bool(config, "executor_tls", &options.executor_tls, error);
  if (!status) status = read_numbers(config, &options, error);
  if (!status && !options.scheduler)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: ballista: 'scheduler' is missing",
                           trn_config_origin(config));
  if (status) return status;
  if (strncmp(options.scheduler, scheme, strlen(scheme)) == 0) options.scheduler += strlen(scheme);
  options.fallback = (trn_ballista_fallback)fallback;
  options.functions = (trn_ballista_functions)has;
  return trn_ballista_backend_create(&options, inner, out, error);
}

trn_status trn__ballista_backend(void *user, const trn_registry *registry, const trn_config *config, trn_backend **out,
                                 trn_error **error) {
  trn_backend *local = NULL;
  trn_status status =
      trn_registry_make_backend(registry, "embedded", trn_config_get(config, "embedded"), &local, error);
  if (!status) status = trn__ballista_layer(user, registry, config, local, out, error);
  trn_backend_unref(local);
  return status;
}
