/* embed_sqlite --data FILE --users FILE --trace FILE [--listen HOST:PORT] [--explain DIALECT] */
#include "embed.h"
#include <signal.h>
#include <stdio.h>
#include <trunnion/server.h>

typedef struct settings {
  const char *data, *users, *trace, *listen, *explain;
} settings;

static int read_arguments(int count, char **arguments, settings *out) {
  *out = (settings){.listen = "127.0.0.1:0", .explain = "sqlite"};
  for (int i = 1; i + 1 < count; i += 2) {
    const char **place = !strcmp(arguments[i], "--data")     ? &out->data
                         : !strcmp(arguments[i], "--users")  ? &out->users
                         : !strcmp(arguments[i], "--trace")  ? &out->trace
                         : !strcmp(arguments[i], "--listen") ? &out->listen
                         : !strcmp(arguments[i], "--explain") ? &out->explain /* the dialect that EXPLAIN shows */
                                                              : NULL;
    if (!place) return 0;
    *place = arguments[i + 1];
  }
  return count % 2 == 1 && out->data && out->users && out->trace;
}

/* What the cache did, for the log. */
static void note(void *user, const trn_event *event) {
  (void)user;
  fprintf(stderr, "%s %s %s\n", event->layer, event->action, event->object ? event->object : "");
}

/* Policies around the backend: trace outside of authorize outside of cache. `*stack` becomes the outermost. */
static trn_status add_layers(trn_backend **stack, embed_users *users, const char *trace_file, trn_error **error) {
  trn_config *rules = trn_config_create(), *memory = trn_config_create(), *trace = trn_config_create();
  trn_backend *cached = NULL, *guarded = NULL, *traced = NULL;
  trn_status status = rules && memory && trace ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  if (!status) status = trn_config_set(rules, "default", "allow", error); /* then the callback may refuse */
  if (!status) status = trn_config_set(memory, "memory", "64M", error);
  if (!status) status = trn_config_set(trace, "file", trace_file, error);
  const trn_policy_callback callback = {.struct_size = sizeof callback, .decide = embed_decide, .user = users};
  const trn_cache_options cache = {.struct_size = sizeof cache, .config = memory, .sink = note};
  const trn_authorize_options authorize = {.struct_size = sizeof authorize, .config = rules, .callback = &callback};
  const trn_trace_options tracing = {.struct_size = sizeof tracing, .config = trace};
  if (!status) status = trn_cache_create(&cache, *stack, &cached, error);
  if (!status) status = trn_authorize_create(&authorize, cached, &guarded, error);
  if (!status) status = trn_trace_create(&tracing, guarded, &traced, error);
  if (!status) {
    trn_backend_unref(*stack); /* each layer keeps what is inside of it */
    *stack = traced;
  }
  trn_backend_unref(cached);
  trn_backend_unref(guarded);
  trn_config_destroy(rules);
  trn_config_destroy(memory);
  trn_config_destroy(trace);
  return status;
}

static trn_status build(embed *e, embed_users *users, const settings *s, trn_routes *routes, trn_error **error) {
  trn_backend *backend = NULL;
  trn_catalog *catalog = NULL;
  trn_frontend *spark = NULL;
  trn_status status = embed_backend_create(e, &backend, error);
  if (!status) status = embed_catalog_create(e, &catalog);
  if (!status) status = trn_backend_add_catalog(backend, catalog);
  if (!status) status = add_layers(&backend, users, s->trace, error);
  const trn_spark_options options = {.struct_size = sizeof options};
  if (!status) status = trn_spark_frontend_create(&options, &spark);
  if (!status) status = trn_frontend_register(spark, routes, backend, error);
  if (spark) trn_frontend_destroy(spark); /* the routes keep what serves */
  trn_catalog_unref(catalog);
  trn_backend_unref(backend);
  return status;
}

/* Until a signal that ends programs. */
static void serve(const sigset_t *ends, trn_server *server) {
  int signal_number;
  printf("serving on sc://127.0.0.1:%d\n", trn_server_port(server));
  fflush(stdout);
  sigwait(ends, &signal_number);
}

int main(int count, char **arguments) {
  settings s;
  if (!read_arguments(count, arguments, &s)) {
    fprintf(stderr, "usage: embed_sqlite --data FILE --users FILE --trace FILE [--listen HOST:PORT] [--explain DIALECT]\n");
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before any thread starts: all inherit it */
  embed e = {.path = realpath(s.data, NULL), .mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  e.explained = s.explain;
  trn_error *error = NULL;
  embed_users *users = NULL;
  trn_authenticator *authenticator = NULL;
  trn_routes *routes = NULL;
  trn_server *server = NULL;
  trn_status status = e.path ? trn_routes_create(&routes) : TRN_NOT_FOUND;
  if (!status) status = embed_users_open(s.users, &users, &error);
  if (!status) status = embed_authenticator(users, &authenticator);
  if (!status) status = build(&e, users, &s, routes, &error);
  const trn_server_options options = {
      .struct_size = sizeof options, .listen = s.listen, .authenticator = authenticator};
  if (!status) status = trn_server_start(routes, &options, &server, &error);
  if (!status) serve(&ends, server);
  trn_server_stop(server, 2000);
  if (routes) trn_routes_destroy(routes); /* sessions and their queries end */
  embed_wait(&e);
  trn_authenticator_unref(authenticator);
  embed_users_close(users);
  if (status) fprintf(stderr, "embed_sqlite: %s: %s\n", trn_status_name(status), trn_error_message(error));
  trn_error_unref(error);
  free(e.path);
  return status ? 1 : 0;
}
