/* Plugins: shared objects with one entry point that add to a registry. A plugin is:
 *
 *     #include <trunnion/plugin.h>
 *     TRN_PLUGIN("my plugin", "1.2")
 *     trn_status trn_plugin_init(trn_registry *registry, const trn_config *config, trn_error **error) { ... }
 *
 * It is linked with -ltrunnion, in C, C++ or anything that can export the two symbols. */
#ifndef TRUNNION_PLUGIN_H
#define TRUNNION_PLUGIN_H
#include <trunnion/function.h>
#include <trunnion/registry.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Changes when structs of a frozen layout, or what functions promise, change. Sized structs and new functions do not
 *  change it: a plugin runs with every library of its number that is not older than its headers. */
#define TRN_PLUGIN_ABI 1
#define TRN_PLUGIN_HEADERS "0.1.0"

/** What the library looks at before it calls anything. Frozen layout. */
typedef struct trn_plugin_about {
  uint32_t abi;        /**< TRN_PLUGIN_ABI */
  uint32_t slice_size; /**< of trn_slice: size and pointers must agree */
  const char *headers; /**< TRN_PLUGIN_HEADERS */
  const char *name;
  const char *version;
} trn_plugin_about;

#ifdef __cplusplus
#define TRN_PLUGIN_EXTERN extern "C"
#else
#define TRN_PLUGIN_EXTERN extern
#endif

#define TRN_PLUGIN(name, version)                                                                                      \
  TRN_PLUGIN_EXTERN TRN_API const trn_plugin_about trn_plugin;                                                         \
  const trn_plugin_about trn_plugin = {TRN_PLUGIN_ABI, (uint32_t)sizeof(trn_slice), TRN_PLUGIN_HEADERS, name, version};

/** The entry point, which the plugin defines: adds what it has to `registry`. `config`: the map that the configuration
 *  has for the plugin, or NULL. Not OK: the plugin is not used. What it added has `user` pointers that outlive the
 *  registry (trn_registry_own). Runs on the thread that loads. */
TRN_API trn_status trn_plugin_init(trn_registry *registry, const trn_config *config, trn_error **error);

/** Loads the plugin at `path` and runs its entry point. It is unloaded when the registry is destroyed. NOT_FOUND: the
 *  file cannot be loaded; FAILED_PRECONDITION: it is no plugin, or one for another version (both are named); what its
 *  entry point returned. Blocks. Since 0.1. */
TRN_API trn_status trn_registry_load_plugin(trn_registry *registry, const char *path, const trn_config *config,
                                            trn_error **error);
/** Adds a library of functions (function.h) to all backends that are made from the registry afterwards, and so to all that
 *  clients write: `library.function(...)` in Spark's SQL and call_function, in plans that are built, and in the engine's SQL
 *  (table functions: LATERAL "library.function"(...)). Every name is "library.word" of small letters, so none of a dialect's
 *  own functions changes its meaning. A Spark session calls one
 *  by a name of its own after CREATE TEMPORARY FUNCTION name AS 'library.word'. Borrows for the life of the process: the
 *  engine keeps its functions, and the plugin that adds a library stays loaded. ALREADY_EXISTS, INVALID_ARGUMENT name the
 *  function; FAILED_PRECONDITION: another version of function.h. Since 0.1. */
TRN_API trn_status trn_registry_add_functions(trn_registry *registry, const trn_function_library *library,
                                              trn_error **error);
/** Names of the libraries; NULL: no more. */
TRN_API const char *trn_registry_functions_at(const trn_registry *registry, size_t index);
/** The plugins that were loaded; NULL: no more. */
TRN_API const trn_plugin_about *trn_registry_plugin_at(const trn_registry *registry, size_t index);

#ifdef __cplusplus
}
#endif
#endif
