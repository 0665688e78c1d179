/* The Ballista backend from a configuration: a layer around any backend, or a backend with an embedded one inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include <trunnion/ballista.h>

enum { SETTINGS_MAX = 256, PEM_BYTES_MAX = 1 << 20 };

/* Texts of files that the options refer to while the backend is made. */
typedef struct pem_files {
  char *ca, *cert, *key;
} pem_files;

static void pem_finish(pem_files *files) {
  if (files->key) explicit_bzero(files->key, strlen(files->key));
  free(files->ca);
  free(files->cert);
  free(files->key);
}

/* The text of the file that `key` names; NULL: none is named. Gives *out (free). */
static trn_status read_pem(const trn_config *config, const char *key, char **out, trn_error **error) {
  const char *path = NULL;
  trn_status status = trn_config_text(config, key, &path, error);
  if (status || !path) return status;
  FILE *file = fopen(path, "rb");
  char *text = file ? malloc(PEM_BYTES_MAX + 1) : NULL;
  size_t size = text ? fread(text, 1, PEM_BYTES_MAX + 1, file) : 0;
  if (file && !text)
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory");
  else if (!file || ferror(file) || size > PEM_BYTES_MAX)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: %s: cannot read %s, a file of up to 1 MiB",
                           trn_config_origin(trn_config_get(config, key)), key, path);
  if (file) fclose(file);
  if (status) {
    free(text);
    return status;
  }
  text[size] = 0;
  *out = text;
  return TRN_OK;
}

static trn_status read_tls(const trn_config *config, pem_files *files, trn_ballista_options *options,
                           trn_error **error) {
  trn_status status = trn_config_bool(config, "tls", &options->scheduler_tls, error);
  if (!status) status = trn_config_bool(config, "executor_tls", &options->executor_tls, error);
  if (!status) status = read_pem(config, "ca", &files->ca, error);
  if (!status) status = read_pem(config, "cert", &files->cert, error);
  if (!status) status = read_pem(config, "key", &files->key, error);
  if (!status && !files->cert != !files->key)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: ballista: 'cert' and 'key' go together",
                           trn_config_origin(config));
  if (!status && files->ca && !options->scheduler_tls && !options->executor_tls)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: ballista: 'ca' without 'tls' or 'executor_tls'",
                           trn_config_origin(config));
  options->ca_pem = files->ca, options->cert_pem = files->cert, options->key_pem = files->key;
  return status;
}

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
                                     "executor_tls", "ca",           "cert",      "key",      "writes",
                                     "embedded",     NULL};
  static const char *const fallbacks[] = {"local", "refuse", NULL};
  static const char *const functions[] = {"auto", "all", "stock", NULL};
  static const char *const writers[] = {"cluster", "local", NULL};
  static const char scheme[] = "ballista://";
  trn_kv settings[SETTINGS_MAX];
  pem_files files = {0};
  int fallback = 0, has = 0, writer = 0;
  trn_ballista_options options = {
      .struct_size = sizeof options, .connector = trn_registry_connector(registry), .settings = settings};
  (void)user;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_text(config, "scheduler", &options.scheduler, error);
  if (!status) status = read_choice(config, "fallback", fallbacks, &fallback, error);
  if (!status) status = read_choice(config, "functions", functions, &has, error);
  if (!status) status = read_settings(trn_config_get(config, "settings"), settings, &options.setting_count, error);
  if (!status) status = trn_config_text(config, "spool_dir", &options.spool_directory, error);
  if (!status) status = read_choice(config, "writes", writers, &writer, error);
  if (!status) status = read_tls(config, &files, &options, error);
  if (!status) status = read_numbers(config, &options, error);
  if (!status && !options.scheduler)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: ballista: 'scheduler' is missing",
                           trn_config_origin(config));
  if (!status) {
    if (strncmp(options.scheduler, scheme, strlen(scheme)) == 0) options.scheduler += strlen(scheme);
    options.fallback = (trn_ballista_fallback)fallback;
    options.functions = (trn_ballista_functions)has;
    options.writes_locally = writer == 1;
    status = trn_ballista_backend_create(&options, inner, out, error);
  }
  pem_finish(&files);
  return status;
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
