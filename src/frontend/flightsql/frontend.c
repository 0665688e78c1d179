/* The Flight SQL frontend: options, the provider in the Flight service, what it keeps for a session. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/flightsql/flightsql.h"

/* ---- sessions ---- */

flightsql_session *flightsql__session_ref(flightsql_session *session) {
  atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
  return session;
}

void flightsql__session_unref(flightsql_session *session) {
  if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) != 1) return;
  flightsql__transaction_finish(session);
  if (session->temporary) trn__map_destroy(session->temporary, flightsql__temporary_destroy);
  if (session->views) spark__catalog_destroy(session->views);
  trn_session_unref(session->session);
  pthread_mutex_destroy(&session->mutex);
  flightsql__session_unref(session->spoken);
  flightsql__session_unref(session->parent);
  free(session->locations);
  free(session->user);
  free(session);
}

static trn_status session_make(void *self, flight_rpc *rpc, void **state, trn_error **error) {
  flightsql_service *service = self;
  const flight_session *from = rpc->session;
  flightsql_session *session = calloc(1, sizeof *session);
  if (!session) return trn__no_memory(error);
  atomic_init(&session->refs, 1);
  pthread_mutex_init(&session->mutex, NULL);
  session->service = service;
  session->dialect = service->dialect;
  session->endpoints = 1;
  session->is_authenticated = from->is_authenticated;
  session->user = strdup(from->user);
  session->temporary = trn__map_create();
  session->views = spark__catalog_create();
  const trn_session_request request = {.struct_size = sizeof request,
                                       .user = from->user,
                                       .client = "Flight SQL",
                                       .groups = rpc->groups,
                                       .group_count = rpc->group_count,
                                       .is_authenticated = from->is_authenticated};
  trn_status status = session->user && session->temporary && session->views
                          ? trn_session_open(service->backend, &request, &session->session, error)
                          : trn__no_memory(error);
  if (status) {
    flightsql__session_unref(session);
  } else {
    spark__plan_views(session->session, session->views);
    *state = session;
  }
  return status;
}

static void session_end(void *self, void *state) {
  flightsql_session *session = state;
  pthread_mutex_lock(&session->mutex);
  session->is_closed = true;
  pthread_mutex_unlock(&session->mutex);
  flightsql__session_drop_statements(self, session);
  flightsql__transactions_drop(self, session);
  pthread_mutex_lock(&session->mutex);
  flightsql_session *spoken = session->spoken; /* it holds the session */
  session->spoken = NULL;
  pthread_mutex_unlock(&session->mutex);
  flightsql__session_unref(spoken);
}

static void session_close(void *self, void *state) {
  session_end(self, state); /* also for one that was made at the same time as another and came second */
  flightsql__session_unref(state);
}

trn_status flightsql__session(flightsql_service *service, flight_rpc *rpc, flightsql_session **out,
                              trn_error **error) {
  void *state = NULL;
  *out = NULL;
  trn_status status = flight__session_state(rpc, service->entry, session_make, &state, error);
  flightsql_session *session = state;
  if (!status) status = trn_session_set_groups(session->session, rpc->groups, rpc->group_count, error);
  if (!status) status = flightsql__transactions_set_groups(session, error);
  if (!status) *out = session;
  return status;
}

/* ---- the service ---- */

static void service_stop(void *self) {
  flightsql__session_drop_statements(self, NULL);
  flightsql__transactions_drop(self, NULL);
}

static void service_destroy(void *self) {
  flightsql_service *service = self;
  trn__map_destroy(service->statements, NULL);
  trn__map_destroy(service->transactions, NULL);
  pthread_mutex_destroy(&service->mutex);
  trn_backend_unref(service->backend);
  free(service->spool_directory);
  free(service);
}

/* What a frontend keeps until it registers. */
typedef struct flightsql_frontend {
  trn_flightsql_options options;
  char *spool_directory, *dialect;
} flightsql_frontend;

static trn_status service_create(const flightsql_frontend *frontend, trn_backend *backend, flightsql_service **out) {
  flightsql_service *service = calloc(1, sizeof *service);
  if (!service) return TRN_RESOURCE_EXHAUSTED;
  pthread_mutex_init(&service->mutex, NULL);
  service->backend = trn_backend_ref(backend);
  service->dialect = frontend->dialect && strcmp(frontend->dialect, "spark") == 0 ? FLIGHTSQL_SPARK : FLIGHTSQL_ENGINE;
  service->result_ms = frontend->options.result_ms ? frontend->options.result_ms : TRN_FLIGHT_RESULT_MS;
  service->read_only = frontend->options.read_only;
  service->hands_through = frontend->options.hands_through;
  service->spool_directory = strdup(frontend->spool_directory ? frontend->spool_directory : P_tmpdir);
  service->transaction_ms = frontend->options.transaction_ms ? frontend->options.transaction_ms : TRN_FLIGHT_TRANSACTION_MS;
  service->statements = trn__map_create();
  service->transactions = trn__map_create();
  if (service->spool_directory && service->statements && service->transactions) {
    *out = service;
    return TRN_OK;
  }
  service_destroy(service);
  return TRN_RESOURCE_EXHAUSTED;
}

static trn_status frontend_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  const flightsql_frontend *frontend = self;
  const flight_options options = {.workers = frontend->options.workers,
                                  .session_idle_ms = frontend->options.session_idle_ms,
                                  .authenticator = frontend->options.authenticator,
                                  .allow_anonymous = frontend->options.allow_anonymous};
  const flight_provider provider = {.struct_size = sizeof provider,
                                    .name = "flight-sql",
                                    .claims = flightsql__claims,
                                    .get_flight_info = flightsql__get_flight_info,
                                    .poll_flight_info = flightsql__poll_flight_info,
                                    .get_schema = flightsql__get_schema,
                                    .do_get = flightsql__do_get,
                                    .put_open = flightsql__put_open,
                                    .put_data = flightsql__put_data,
                                    .put_end = flightsql__put_end,
                                    .put_drop = flightsql__put_drop,
                                    .actions = flightsql__actions,
                                    .action_count = flightsql__action_count,
                                    .session_end = session_end,
                                    .session_close = session_close,
                                    .sweep = flightsql__sweep,
                                    .stop = service_stop,
                                    .destroy = service_destroy};
  flightsql_service *service = NULL;
  trn_status status = service_create(frontend, backend, &service);
  if (status) return trn__no_memory(error);
  status = flight__mount(routes, &options, &service->flight, error);
  if (!status) status = flight__add_provider(service->flight, &provider, service, error);
  if (status) {
    service_destroy(service);
    return status;
  }
  service->entry = &service->flight->providers[service->flight->provider_count - 1];
  return TRN_OK;
}

static void frontend_destroy(void *self) {
  flightsql_frontend *frontend = self;
  trn_authenticator_unref(frontend->options.authenticator);
  free(frontend->spool_directory);
  free(frontend->dialect);
  free(frontend);
}

trn_status trn_flightsql_frontend_create(const trn_flightsql_options *options, trn_frontend **out) {
  static const trn_frontend_ops ops = {sizeof ops, frontend_register, frontend_destroy};
  *out = NULL;
  flightsql_frontend *frontend = calloc(1, sizeof *frontend);
  if (!frontend) return TRN_RESOURCE_EXHAUSTED;
  trn_flightsql_options given = {0};
  if (options)
    memcpy(&given, options, options->struct_size && options->struct_size < sizeof given ? options->struct_size : sizeof given);
  frontend->options = given;
  if (given.authenticator) trn_authenticator_ref(given.authenticator);
  if (given.spool_directory) frontend->spool_directory = strdup(given.spool_directory);
  if (given.dialect) frontend->dialect = strdup(given.dialect);
  trn_status status = TRN_OK;
  if ((given.spool_directory && !frontend->spool_directory) || (given.dialect && !frontend->dialect))
    status = TRN_RESOURCE_EXHAUSTED;
  if (!status && given.dialect && strcmp(given.dialect, "spark") != 0 && strcmp(given.dialect, "datafusion") != 0)
    status = TRN_INVALID_ARGUMENT;
  if (!status) status = trn_frontend_create(&ops, frontend, out);
  if (status) frontend_destroy(frontend);
  return status;
}
