/* What every registry has: the bundled frontends, backends and decoders, each with the keys of its configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/function.h"
#include "core/registry.h"
#include <trunnion/catalog.h>

/* ---- frontends ---- */

/* A zone that the kernels will find: an offset, a short name, or a region that the system knows. */
static bool is_zone(const char *name) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/:";
  const char *offset = strncmp(name, "UTC", 3) == 0 || strncmp(name, "GMT", 3) == 0 ? name + 3 : name;
  struct stat about;
  char path[256];
  if (!*name || name[strspn(name, letters)] || strlen(name) > 100 || *name == '/') return false;
  if (!*offset || *offset == '+' || *offset == '-' || strcmp(name, "Z") == 0) return true;
  if (!strchr(name, '/') && strlen(name) == 3) return true; /* EST, PST: Java's own names */
  if (stat("/usr/share/zoneinfo", &about) != 0) return true; /* whatever the system knows */
  snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
  return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static trn_status spark_frontend(void *user, const trn_registry *registry, const trn_config *config, trn_frontend **out,
                                 trn_error **error) {
  static const char *const keys[] = {"workers", "session_idle", "detached", "response_log", "timezone", "stream", NULL};
  trn_spark_options options = {.struct_size = sizeof options, .registry = registry};
  int64_t workers = 0;
  uint64_t log_bytes = 0;
  (void)user;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_number(config, "workers", 0, 1024, &workers, error);
  if (!status) status = trn_config_duration(config, "session_idle", &options.session_idle_ms, error);
  if (!status) status = trn_config_duration(config, "detached", &options.detached_ms, error);
  if (!status) status = trn_config_size(config, "response_log", &log_bytes, error);
  if (!status) status = trn_config_text(config, "timezone", &options.timezone, error);
  if (!status) status = trn_config_duration(config, "stream", &options.stream_ms, error);
  if (!status && options.timezone && !is_zone(options.timezone))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: timezone: there is no time zone '%s'",
                           trn_config_origin(trn_config_get(config, "timezone")), options.timezone);
  if (status) return status;
  options.workers = (unsigned)workers;
  options.response_log_bytes = (size_t)log_bytes;
  status = trn_spark_frontend_create(&options, out);
  return status ? trn_error_set(error, status, NULL, "The Spark Connect frontend cannot be made") : TRN_OK;
}

static trn_status flightsql_frontend(void *user, const trn_registry *registry, const trn_config *config,
                                     trn_frontend **out, trn_error **error) {
  static const char *const keys[] = {"workers", "session_idle", "result", "dialect", "spool_dir", "read_only",
                                     "hand_through", NULL};
  trn_flightsql_options options = {.struct_size = sizeof options,
                                   .authenticator = trn_registry_authenticator(registry)};
  int64_t workers = 0;
  (void)user;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_number(config, "workers", 0, 1024, &workers, error);
  if (!status) status = trn_config_duration(config, "session_idle", &options.session_idle_ms, error);
  if (!status) status = trn_config_duration(config, "result", &options.result_ms, error);
  if (!status) status = trn_config_text(config, "dialect", &options.dialect, error);
  if (!status) status = trn_config_text(config, "spool_dir", &options.spool_directory, error);
  if (!status) status = trn_config_bool(config, "read_only", &options.read_only, error);
  if (!status) status = trn_config_bool(config, "hand_through", &options.hands_through, error);
  if (status) return status;
  options.workers = (unsigned)workers;
  status = trn_flightsql_frontend_create(&options, out);
  if (status == TRN_INVALID_ARGUMENT)
    return trn_error_set(error, status, NULL, "dialect is 'datafusion' or 'spark', not '%s'", options.dialect);
  return status ? trn_error_set(error, status, NULL, "The Flight SQL frontend cannot be made") : TRN_OK;
}

static trn_status health_frontend(void *user, const trn_registry *registry, const trn_config *config, trn_frontend **out,
                                  trn_error **error) {
  static const char *const keys[] = {NULL};
  (void)user, (void)registry;
  trn_status status = trn_config_check_keys(config, keys, error);
  return status ? status : trn_health_frontend_create(out);
}

static trn_status reflection_frontend(void *user, const trn_registry *registry, const trn_config *config,
                                      trn_frontend **out, trn_error **error) {
  static const char *const keys[] = {NULL};
  (void)user, (void)registry;
  trn_status status = trn_config_check_keys(config, keys, error);
  return status ? status : trn_reflection_frontend_create(out);
}

static trn_status ballista_frontend(void *user, const trn_registry *registry, const trn_config *config,
                                    trn_frontend **out, trn_error **error) {
  static const char *const keys[] = {"workers", "session_idle", "result", "job", "result_memory", "results_memory",
                                     "cancel_on_disconnect", "older_clients", "hand_through", NULL};
  trn_ballista_frontend_options options = {.struct_size = sizeof options,
                                  .authenticator = trn_registry_authenticator(registry),
                                  .registry = registry};
  int64_t workers = 0;
  uint64_t result_bytes = 0, results_bytes = 0;
  bool cancels = true, older = true;
  (void)user;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_number(config, "workers", 0, 1024, &workers, error);
  if (!status) status = trn_config_duration(config, "session_idle", &options.session_idle_ms, error);
  if (!status) status = trn_config_duration(config, "result", &options.result_ms, error);
  if (!status) status = trn_config_duration(config, "job", &options.job_ms, error);
  if (!status) status = trn_config_size(config, "result_memory", &result_bytes, error);
  if (!status) status = trn_config_size(config, "results_memory", &results_bytes, error);
  if (!status) status = trn_config_bool(config, "cancel_on_disconnect", &cancels, error);
  if (!status) status = trn_config_bool(config, "older_clients", &older, error);
  if (!status) status = trn_config_bool(config, "hand_through", &options.hands_through, error);
  if (status) return status;
  options.workers = (unsigned)workers;
  options.result_bytes = (size_t)result_bytes;
  options.results_bytes = (size_t)results_bytes;
  options.runs_on = !cancels;
  options.refuses_older = !older;
  const trn_registry_jobs *jobs = trn_registry_get_jobs(registry);
  if (jobs && options.hands_through)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s: hand_through: outputs of jobs that are kept are here; leave one of the two out",
                         trn_config_origin(trn_config_get(config, "hand_through")));
  if (jobs) {
    options.jobs = jobs->scheduler;
    options.ticket_key = jobs->ticket_key;
    options.ticket_key_size = jobs->ticket_key_size;
    options.resubmits_lost = jobs->resubmits_lost;
  }
  status = trn_ballista_frontend_create(&options, out);
  return status ? trn_error_set(error, status, NULL, "The Ballista frontend cannot be made") : TRN_OK;
}

/* ---- backends ---- */

static trn_status embedded_backend(void *user, const trn_registry *registry, const trn_config *config,
                                   trn_backend **out, trn_error **error) {
  static const char *const keys[] = {"engine", "functions", "threads", "memory", "spill_dir", NULL};
  trn_embedded_options options = {.struct_size = sizeof options};
  int64_t threads = 0;
  (void)user;
  options.libraries = trn__registry_libraries(registry, &options.library_count);
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_text(config, "engine", &options.engine_path, error);
  if (!status) status = trn_config_text(config, "functions", &options.functions_path, error);
  if (!status) status = trn_config_number(config, "threads", 0, 4096, &threads, error);
  if (!status) status = trn_config_size(config, "memory", &options.memory_bytes, error);
  if (!status) status = trn_config_text(config, "spill_dir", &options.spill_directory, error);
  struct stat about;
  const char *spill = options.spill_directory;
  if (!status && spill && (stat(spill, &about) != 0 || !S_ISDIR(about.st_mode)))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: spill_dir: %s is no directory",
                           trn_config_origin(trn_config_get(config, "spill_dir")), spill);
  options.threads = (unsigned)threads;
  return status ? status : trn_embedded_backend_create(&options, out, error);
}

/* ---- catalogs ---- */

static trn_status warehouse_catalog(void *user, const trn_registry *registry, const trn_config *config,
                                    const char *name, trn_catalog **out, trn_error **error) {
  static const char *const keys[] = {"directory", "lock", "grace", NULL};
  trn_warehouse_options options = {.struct_size = sizeof options, .name = name};
  (void)user, (void)registry;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_text(config, "directory", &options.directory, error);
  if (!status) status = trn_config_duration(config, "lock", &options.lock_ms, error);
  if (!status) status = trn_config_duration(config, "grace", &options.grace_ms, error);
  return status ? status : trn_warehouse_open(&options, out, error);
}

/* ---- decoders: the session's backend knows how ---- */

static trn_status backend_decode(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                                 trn_error **error) {
  (void)self;
  return trn_backend_decode(session, input, out, error);
}

static const char *const backend_formats[] = {"sql", "datafusion.logical.v1", "datafusion.physical.v1",
                                              "substrait.plan.v1"};

trn_status trn__registry_add_builtin(trn_registry *registry) {
  static const trn_decoder_ops by_backend = {.struct_size = sizeof by_backend, .decode = backend_decode};
  trn_status status = trn_registry_add_frontend(registry, "spark", spark_frontend, NULL, NULL);
  if (!status) status = trn_registry_add_frontend(registry, "flightsql", flightsql_frontend, NULL, NULL);
  if (!status) status = trn_registry_add_frontend(registry, "ballista", ballista_frontend, NULL, NULL);
  if (!status) status = trn_registry_add_frontend(registry, "health", health_frontend, NULL, NULL);
  if (!status) status = trn_registry_add_frontend(registry, "reflection", reflection_frontend, NULL, NULL);
  if (!status) status = trn_registry_add_backend(registry, "embedded", embedded_backend, NULL, NULL);
  if (!status) status = trn_registry_add_backend(registry, "ballista", trn__ballista_backend, NULL, NULL);
  if (!status) status = trn_registry_add_layer(registry, "ballista", trn__ballista_layer, NULL, NULL);
  if (!status) status = trn_registry_add_catalog(registry, "warehouse", warehouse_catalog, NULL, NULL);
  for (size_t i = 0; i < sizeof backend_formats / sizeof *backend_formats && !status; i++)
    status = trn_registry_add_decoder(registry, backend_formats[i], &by_backend, NULL, NULL);
  if (!status) status = trn__ballista_decoder_register(registry);
  if (!status) status = trn__spark_decoder_register(registry);
  if (!status) status = trn__layers_register(registry, NULL);
  return status;
}
