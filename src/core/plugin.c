/* Loading plugins: what one says about itself is checked before any of its functions runs. */
#include <dlfcn.h>
#include <stdlib.h>

#include "core/registry.h"

static void unload(void *handle) {
  dlclose(handle);
}

static trn_status check_about(const char *path, const trn_plugin_about *about, trn_error **error) {
  if (!about)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                         "%s is no plugin: it does not export trn_plugin (TRN_PLUGIN) and trn_plugin_init", path);
  if (about->abi == TRN_PLUGIN_ABI && about->slice_size == sizeof(trn_slice)) return TRN_OK;
  /* Of another version only the number can be trusted. */
  return trn_error_set(
      error, TRN_FAILED_PRECONDITION, NULL,
      "%s is a plugin for version %u of the plugin interface, this library (%s) has version %u: build it "
      "with this library's headers",
      path, about->abi, TRUNNION_VERSION, TRN_PLUGIN_ABI);
}

trn_status trn_registry_load_plugin(trn_registry *registry, const char *path, const trn_config *config,
                                    trn_error **error) {
  trn_status status = TRN_OK;
  trn_status (*init)(trn_registry *, const trn_config *, trn_error **) = NULL;
  void *handle = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle) {
    const char *why = path && *path ? dlerror() : "no path is given";
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "cannot load the plugin %s: %s", path ? path : "", why ? why : "");
  }
  const trn_plugin_about *about = dlsym(handle, "trn_plugin");
  *(void **)&init = dlsym(handle, "trn_plugin_init");
  status = check_about(path, init ? about : NULL, error);
  if (status) {
    dlclose(handle);
    return status;
  }
  if (trn_registry_own(registry, unload, handle)) {
    dlclose(handle);
    return trn__no_memory(error);
  }
  /* From here on it stays loaded: what it adds may point into it. */
  size_t libraries = registry->libraries.count;
  status = init(registry, config, error);
  /* Engines keep functions for the life of the process. */
  if (registry->libraries.count > libraries && !dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE) && !status)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the plugin %s cannot be kept: %s", path, dlerror());
  if (status && error && !*error)
    trn_error_set(error, status, NULL, "the plugin %s failed: %s", path, trn_status_name(status));
  if (!status && !trn__vec_push(&registry->plugins, (void *)about)) status = trn__no_memory(error);
  return status;
}

const trn_plugin_about *trn_registry_plugin_at(const trn_registry *registry, size_t index) {
  return index < registry->plugins.count ? registry->plugins.items[index] : NULL;
}
