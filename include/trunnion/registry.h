/* Everything that can be added by name: frontends, backends, layers, catalogs, plan-input decoders, relation translators,
 * function libraries. A program fills a registry, from its own code and from plugins, before it serves. */
#ifndef TRUNNION_REGISTRY_H
#define TRUNNION_REGISTRY_H
#include <trunnion/auth.h>
#include <trunnion/backend.h>
#include <trunnion/client.h>
#include <trunnion/config.h>
#include <trunnion/frontend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Factories: `config` is the map that the configuration has for the thing (NULL: none). Errors name the key. */
typedef trn_status (*trn_frontend_factory)(void *user, const trn_registry *registry, const trn_config *config,
                                           trn_frontend **out, trn_error **error);
typedef trn_status (*trn_backend_factory)(void *user, const trn_registry *registry, const trn_config *config,
                                          trn_backend **out, trn_error **error);
/** A layer around `inner` (borrowed; the layer takes a reference of its own). */
typedef trn_status (*trn_layer_factory)(void *user, const trn_registry *registry, const trn_config *config,
                                        trn_backend *inner, trn_backend **out, trn_error **error);

/** A catalog that is to be called `name`. */
typedef trn_status (*trn_catalog_factory)(void *user, const trn_registry *registry, const trn_config *config,
                                          const char *name, trn_catalog **out, trn_error **error);

/** A registry with the built-in things. Not thread safe until it is no longer changed; then only read. */
TRN_API trn_status trn_registry_create(trn_registry **out);
/** Outlives everything that was made from it; plugins (plugin.h) are unloaded here. NULL is accepted. */
TRN_API void trn_registry_destroy(trn_registry *registry);

/* Each copies `name`. ALREADY_EXISTS names what is taken. `user` is borrowed and outlives the registry. */
TRN_API trn_status trn_registry_add_frontend(trn_registry *registry, const char *name, trn_frontend_factory factory,
                                             void *user, trn_error **error);
TRN_API trn_status trn_registry_add_backend(trn_registry *registry, const char *name, trn_backend_factory factory,
                                            void *user, trn_error **error);
TRN_API trn_status trn_registry_add_layer(trn_registry *registry, const char *name, trn_layer_factory factory, void *user,
                                          trn_error **error);
TRN_API trn_status trn_registry_add_catalog(trn_registry *registry, const char *kind, trn_catalog_factory factory,
                                            void *user, trn_error **error);

/** Names in the order of adding, built-in ones first; NULL: no more. Borrowed from the registry. */
TRN_API const char *trn_registry_frontend_at(const trn_registry *registry, size_t index);
TRN_API const char *trn_registry_backend_at(const trn_registry *registry, size_t index);
TRN_API const char *trn_registry_layer_at(const trn_registry *registry, size_t index);
TRN_API const char *trn_registry_catalog_at(const trn_registry *registry, size_t index);
/** Runs `destroy(object)` when the registry is destroyed (last first): how what was added ties its `user` to it. On
 *  failure it did not take the object. */
TRN_API trn_status trn_registry_own(trn_registry *registry, void (*destroy)(void *object), void *object);

/** Who knows callers, for frontends that check credentials of their own protocol (Flight's handshake). A reference is taken;
 *  NULL: nobody. Before frontends are made. */
TRN_API void trn_registry_set_authenticator(trn_registry *registry, trn_authenticator *authenticator);
TRN_API trn_authenticator *trn_registry_authenticator(const trn_registry *registry); /**< borrowed; NULL: nobody */
/** What opens channels to other servers, for layers that have something to send (trace: `otlp`). A reference is taken; NULL:
 *  nothing does. Before layers are made. */
TRN_API void trn_registry_set_connector(trn_registry *registry, trn_connector *connector);
TRN_API trn_connector *trn_registry_connector(const trn_registry *registry); /**< borrowed; NULL: none */
/** What keeps jobs (scheduler.h), for frontends whose protocol has them. As in trn_ballista_frontend_options. */
typedef struct trn_registry_jobs {
  size_t struct_size;
  struct trn_scheduler *scheduler;
  const void *ticket_key;
  size_t ticket_key_size;
  bool resubmits_lost;
} trn_registry_jobs;
/** Copies the struct; what it points to is borrowed until the frontends are made. NULL: nothing. Since 0.1. */
TRN_API void trn_registry_set_jobs(trn_registry *registry, const trn_registry_jobs *jobs);
TRN_API const trn_registry_jobs *trn_registry_get_jobs(const trn_registry *registry); /**< borrowed; NULL: none */

/* Each makes one by name; NOT_FOUND lists the known names. */
TRN_API trn_status trn_registry_make_frontend(const trn_registry *registry, const char *name, const trn_config *config,
                                              trn_frontend **out, trn_error **error);
TRN_API trn_status trn_registry_make_backend(const trn_registry *registry, const char *name, const trn_config *config,
                                             trn_backend **out, trn_error **error);
TRN_API trn_status trn_registry_make_layer(const trn_registry *registry, const char *name, const trn_config *config,
                                           trn_backend *inner, trn_backend **out, trn_error **error);

TRN_API trn_status trn_registry_make_catalog(const trn_registry *registry, const char *kind, const trn_config *config,
                                             const char *name, trn_catalog **out, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
