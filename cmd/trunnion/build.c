/* From settings to what serves: plugins, backend, layers, frontends, authentication. */
#include "program.h"

/* A failure that does not say where it comes from: with the place of the setting. */
static trn_status place(const trn_config *node, trn_status status, trn_error **error) {
  const char *origin = trn_config_origin(node), *words = *error ? trn_error_message(*error) : "";
  if (!status || !*error || !*origin || strncmp(words, origin, strcspn(origin, ":")) == 0) return status;
  trn_error *placed = NULL;
  trn_error_set(&placed, status, NULL, "%s: %s", origin, words);
  if (!placed) return status;
  trn_error_unref(*error);
  *error = placed;
  return status;
}

/* ---- plugins ---- */

static trn_status load_plugins(trn_registry *registry, const trn_config *list, trn_error **error) {
  static const char *const keys[] = {"file", "options", NULL};
  trn_status status = TRN_OK;
  if (trn_config_get_kind(list) == TRN_CONFIG_TEXT)
    return place(list, trn_registry_load_plugin(registry, trn_config_value(list), NULL, error), error);
  for (size_t i = 0; i < trn_config_count(list) && !status; i++) {
    const trn_config *item = trn_config_at(list, i);
    const char *file = trn_config_value(item);
    if (!file) {
      status = trn_config_check_keys(item, keys, error);
      if (!status) status = trn_config_text(item, "file", &file, error);
      if (!status && !file)
        status =
            trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: plugins: 'file' is missing", trn_config_origin(item));
    }
    if (!status) status = trn_registry_load_plugin(registry, file, trn_config_get(item, "options"), error);
    place(item, status, error);
  }
  return status;
}

/* ---- the backend ---- */

/* What opens channels to other servers. */
static trn_status need_connector(building *b, trn_error **error) {
  trn_connector *connector = NULL;
  if (trn_registry_connector(b->registry)) return TRN_OK;
  trn_status status = trn_connector_create_network(NULL, &connector, error);
  if (!status) trn_registry_set_connector(b->registry, connector);
  trn_connector_unref(connector);
  return status;
}

/* "ballista://host:port", or a map with `ballista` in it. Gives the map (destroy `*own`), NULL: no cluster. */
static const trn_config *cluster_of(const trn_config *backend, trn_config **own, trn_status *status, trn_error **error) {
  const char *text = trn_config_value(backend);
  *own = NULL;
  *status = TRN_OK;
  if (!text || strncmp(text, "ballista://", 11) != 0) return trn_config_get(backend, "ballista");
  *own = trn_config_create();
  *status = *own ? trn_config_set_from(*own, "scheduler", text, trn_config_origin(backend), error) : TRN_RESOURCE_EXHAUSTED;
  return *own;
}

static trn_status make_backend(building *b, const trn_config *root, bool is_local, trn_error **error) {
  const trn_config *config = trn_config_get(root, "backend");
  b->backend_name = "embedded";
  if (is_local) { /* of a cluster: what runs here */
    config = trn_config_get(config, "embedded");
  } else if (trn_config_get_kind(config) == TRN_CONFIG_TEXT) {
    b->backend_name = trn_config_value(config);
    config = NULL;
  } else if (trn_config_get_kind(config) != TRN_CONFIG_NONE) {
    if (trn_config_get_kind(config) != TRN_CONFIG_MAP || trn_config_count(config) != 1)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "%s: backend: one backend is wanted: a name, or a map of its name to its options",
                           trn_config_origin(config));
    b->backend_name = trn_config_key_at(config, 0);
    config = trn_config_at(config, 0);
  }
  trn_status status = trn_registry_make_backend(b->registry, b->backend_name, config, &b->backend, error);
  return place(trn_config_get(root, "backend"), status, error);
}

/* The cluster around the backend that keeps sessions and catalogs. */
static trn_status add_cluster(building *b, const trn_config *cluster, trn_error **error) {
  trn_backend *outer = NULL;
  trn_status status = need_connector(b, error);
  if (!status) status = trn_registry_make_layer(b->registry, "ballista", cluster, b->backend, &outer, error);
  if (status) return status;
  trn_backend_unref(b->backend);
  b->backend = outer;
  b->backend_name = "ballista";
  return TRN_OK;
}

static trn_status add_catalog(building *b, trn_catalog *catalog, trn_error **error) {
  trn_status status = trn_backend_add_catalog(b->backend, catalog);
  if (status)
    trn_error_set(error, status, NULL, "the backend '%s' takes no catalog '%s': %s", b->backend_name,
                  trn_catalog_name(catalog), trn_status_name(status));
  trn_catalog_unref(catalog);
  return status;
}

/* `warehouse` is the default one; `catalogs` has others: each name a map of one kind to its options. */
static trn_status add_catalogs(building *b, const trn_config *root, trn_error **error) {
  const char *directory = setting(root, "warehouse");
  const trn_config *catalogs = trn_config_get(root, "catalogs");
  trn_status status = TRN_OK;
  trn_catalog *catalog = NULL;
  if (directory) {
    const trn_warehouse_options options = {.struct_size = sizeof options, .directory = directory};
    status = place(trn_config_get(root, "warehouse"), trn_warehouse_open(&options, &catalog, error), error);
    if (!status) status = add_catalog(b, catalog, error);
  }
  for (size_t i = 0; !status && i < trn_config_count(catalogs); i++) {
    const char *name = trn_config_key_at(catalogs, i);
    const trn_config *item = trn_config_at(catalogs, i);
    if (!name || trn_config_get_kind(item) != TRN_CONFIG_MAP || trn_config_count(item) != 1)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "%s: catalogs: a map of names is wanted, each with a map of one kind to its options",
                           trn_config_origin(catalogs));
    status = trn_registry_make_catalog(b->registry, trn_config_key_at(item, 0), trn_config_at(item, 0), name, &catalog,
                                       error);
    if (!status) status = add_catalog(b, catalog, error);
    place(item, status, error);
  }
  return status;
}

/* ---- layers ---- */

static void print_warning(void *user, const trn_event *event) {
  (void)user;
  if (event->kind == TRN_EVENT_WARNING)
    fprintf(stderr, "trunnion: warning: %s: %s\n", event->layer ? event->layer : "layers",
            event->detail ? event->detail : "");
}

/* Spans go to a collector: the layers need a client. */
static trn_status add_client(building *b, const trn_config *list, trn_error **error) {
  bool is_wanted = false;
  for (size_t i = 0; i < trn_config_count(list); i++)
    is_wanted |= trn_config_get(trn_config_get(trn_config_at(list, i), "trace"), "otlp") != NULL;
  if (!is_wanted) return TRN_OK;
  return need_connector(b, error);
}

static trn_status wrap(building *b, const trn_config *list, trn_error **error) {
  const trn_layers_options options = {.struct_size = sizeof options, .order = TRN_ORDER_REFUSE, .sink = print_warning};
  trn_backend *outer = NULL;
  if (trn_config_get_kind(list) == TRN_CONFIG_NONE) return TRN_OK;
  trn_status status = add_client(b, list, error);
  if (status) return status;
  status = trn_layers_build(b->registry, list, b->backend, &options, &outer, error);
  if (status) return status;
  trn_backend_unref(b->backend);
  b->backend = outer;
  return TRN_OK;
}

/* ---- frontends ---- */

static bool is_off(const trn_config *node) {
  const char *text = trn_config_value(node);
  return text && (!strcmp(text, "false") || !strcmp(text, "off") || !strcmp(text, "no"));
}

static bool is_listed(const trn_config *list, const char *name) {
  for (size_t i = 0; i < trn_config_count(list); i++) {
    const char *text = trn_config_value(trn_config_at(list, i));
    if (text && strcmp(text, name) == 0) return true;
  }
  return false;
}

/* Names that no frontend has are mistakes. */
static trn_status check_frontends(const trn_registry *registry, const trn_config *config, trn_error **error) {
  bool is_list = trn_config_get_kind(config) == TRN_CONFIG_LIST;
  for (size_t i = 0; i < trn_config_count(config); i++) {
    const char *name = is_list ? trn_config_value(trn_config_at(config, i)) : trn_config_key_at(config, i);
    const char *known = NULL;
    for (size_t k = 0; name && (known = trn_registry_frontend_at(registry, k)) && strcmp(known, name) != 0;) k++;
    if (known) continue;
    trn_frontend *none = NULL;
    trn_error *cause = NULL;
    trn_status status = trn_registry_make_frontend(registry, name ? name : "", NULL, &none, &cause);
    trn_frontend_destroy(none);
    status = trn_error_set(error, status ? status : TRN_INVALID_ARGUMENT, NULL, "%s: frontends: %s",
                           trn_config_origin(trn_config_at(config, i)), trn_error_message(cause));
    trn_error_unref(cause);
    return status;
  }
  return TRN_OK;
}

static trn_status note_frontend(building *b, const char *name) {
  char *names = NULL;
  if (asprintf(&names, "%s%s%s", b->frontends ? b->frontends : "", b->frontends ? ", " : "", name) < 0)
    return TRN_RESOURCE_EXHAUSTED;
  free(b->frontends);
  b->frontends = names;
  return TRN_OK;
}

static trn_status mount(building *b, const trn_config *root, trn_error **error) {
  const trn_config *config = trn_config_get(root, "frontends");
  bool is_list = trn_config_get_kind(config) == TRN_CONFIG_LIST;
  trn_status status = check_frontends(b->registry, config, error);
  if (!status) status = trn_routes_create(&b->routes);
  const char *name;
  for (size_t i = 0; !status && (name = trn_registry_frontend_at(b->registry, i)); i++) {
    const trn_config *own = is_list ? NULL : trn_config_get(config, name);
    trn_frontend *frontend = NULL;
    if (is_off(own) || (is_list && !is_listed(config, name))) continue;
    status = trn_registry_make_frontend(b->registry, name, own, &frontend, error);
    if (!status) status = trn_frontend_register(frontend, b->routes, b->backend, error);
    if (!status) status = note_frontend(b, name);
    trn_frontend_destroy(frontend);
  }
  if (!status && !b->frontends)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "frontends: none is left to be served");
  return status;
}

/* ---- all of it ---- */

static trn_status authenticate(building *b, const trn_config *root, trn_error **error) {
  const trn_config *auth = trn_config_get(root, "auth");
  if (trn_config_get_kind(auth) == TRN_CONFIG_NONE) return TRN_OK;
  trn_status status = place(auth, trn_auth_create(auth, &b->authenticator, error), error);
  bool certificates = false;
  if (!status) status = trn_config_bool(auth, "certificates", &certificates, error);
  if (!status) trn_registry_set_authenticator(b->registry, b->authenticator);
  if (!status && certificates && !setting(root, "tls.client_ca"))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "auth.certificates: nobody checks certificates without tls.client_ca");
  return status;
}

trn_status build(const trn_config *root, building *b, trn_error **error) {
  trn_config *own = NULL;
  *b = (building){0};
  trn_status status = trn_registry_create(&b->registry);
  if (!status) status = load_plugins(b->registry, trn_config_get(root, "plugins"), error);
  if (!status) status = authenticate(b, root, error);
  const trn_config *cluster = NULL;
  if (!status) cluster = cluster_of(trn_config_get(root, "backend"), &own, &status, error);
  if (!status) status = make_backend(b, root, cluster != NULL, error);
  if (!status) status = add_catalogs(b, root, error);
  if (!status && cluster) status = add_cluster(b, cluster, error);
  if (!status) status = wrap(b, trn_config_get(root, "layers"), error);
  if (!status) status = jobs_open(root, b->registry, b->backend, &b->jobs, error);
  if (!status) status = mount(b, root, error);
  trn_config_destroy(own);
  return status;
}

void building_finish(building *b) {
  trn_routes_destroy(b->routes);
  jobs_close(&b->jobs);
  trn_backend_unref(b->backend);
  trn_authenticator_unref(b->authenticator);
  trn_registry_destroy(b->registry);
  free(b->frontends);
}

trn_status building_reload(building *b, const trn_config *root, trn_error **error) {
  trn_status status = b->authenticator ? trn_authenticator_reload(b->authenticator, error) : TRN_OK;
  trn_status policies = TRN_OK;
  if (root)
    policies = trn_layers_reload(b->registry, b->backend, trn_config_get(root, "layers"), status ? NULL : error);
  return status ? status : policies;
}
