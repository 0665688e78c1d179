/* Running: listeners, signals, reloading; and --check, which does all of it but that. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "program.h"

typedef struct tls_files {
  char *cert, *key, *client_ca; /* PEM texts; NULL: not set */
} tls_files;

typedef struct running {
  const trn_config *root;
  building built;
  const char *listen[PROGRAM_LISTENERS_MAX];
  size_t listen_count;
  trn_server *servers[PROGRAM_LISTENERS_MAX];
  size_t server_count;
  uint64_t grace_ms;
  bool serves_metrics;
} running;

/* ---- TLS files ---- */

static trn_status read_file(const trn_config *root, const char *key, char **out, trn_error **error) {
  const char *path = setting(root, key);
  struct stat about;
  if (!path) return TRN_OK;
  FILE *file = fopen(path, "rb");
  if (!file || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > 1 << 20) {
    trn_status status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: cannot read %s: %s", key, path,
                                      file ? "it is no file of up to 1 MiB" : strerror(errno));
    if (file) fclose(file);
    return status;
  }
  char *text = malloc((size_t)about.st_size + 1);
  size_t size = text ? fread(text, 1, (size_t)about.st_size, file) : 0;
  fclose(file);
  if (!text) return TRN_RESOURCE_EXHAUSTED;
  text[size] = 0;
  *out = text;
  return TRN_OK;
}

static void tls_finish(tls_files *tls) {
  if (tls->key) explicit_bzero(tls->key, strlen(tls->key));
  free(tls->cert);
  free(tls->key);
  free(tls->client_ca);
  *tls = (tls_files){0};
}

static trn_status tls_read(const trn_config *root, tls_files *out, trn_error **error) {
  trn_status status = read_file(root, "tls.cert", &out->cert, error);
  if (!status) status = read_file(root, "tls.key", &out->key, error);
  if (!status) status = read_file(root, "tls.client_ca", &out->client_ca, error);
  if (!status && (!out->cert != !out->key || (out->client_ca && !out->cert)))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "tls: 'cert' and 'key' go together, and 'client_ca' needs both");
  return status;
}

/* ---- where to listen ---- */

static bool is_local(const char *listen) {
  return !strncmp(listen, "unix:", 5) || !strncmp(listen, "127.", 4) || !strncmp(listen, "localhost:", 10) ||
         !strncmp(listen, "[::1]:", 6);
}

/* host:port, [v6]:port, unix:/path; whether the host is there is seen when it is listened on. */
static bool is_address(const char *listen) {
  if (!strncmp(listen, "unix:", 5)) return listen[5] != 0;
  const char *colon = strrchr(listen, ':');
  size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
  return colon && digits && digits <= 5 && !colon[1 + digits] && strtoul(colon + 1, NULL, 10) <= 65535;
}

static trn_status read_listeners(running *r, trn_error **error) {
  const trn_config *node = trn_config_get(r->root, "listen");
  const char *text = trn_config_value(node);
  bool allow_remote = false;
  trn_status status = trn_config_bool(r->root, "allow_remote", &allow_remote, error);
  if (trn_config_get_kind(node) == TRN_CONFIG_NONE) text = "127.0.0.1:15002";
  if (text) r->listen[r->listen_count++] = text;
  for (size_t i = 0; !status && i < trn_config_count(node); i++) {
    text = trn_config_value(trn_config_at(node, i));
    if (!text || r->listen_count == PROGRAM_LISTENERS_MAX)
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: listen: a list of up to %d texts is wanted",
                             trn_config_origin(node), PROGRAM_LISTENERS_MAX);
    else
      r->listen[r->listen_count++] = text;
  }
  bool knows_clients = r->built.authenticator || setting(r->root, "tls.client_ca");
  for (size_t i = 0; !status && i < r->listen_count; i++) {
    if (!is_address(r->listen[i])) {
      status =
          trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: listen: '%s' is not host:port, [v6]:port or unix:/path",
                        trn_config_origin(node), r->listen[i]);
      break;
    }
    if (is_local(r->listen[i]) || knows_clients || allow_remote) continue;
    status = trn_error_set(
        error, TRN_INVALID_ARGUMENT, NULL,
        "%s is not loopback and clients are not authenticated: set auth or --client-ca, or --allow-remote "
        "if everybody who reaches this port may read and compute",
        r->listen[i]);
  }
  return status;
}

/* ---- plain HTTP: is it alive, how is it doing ---- */

/* On an event loop. Only who is let in without authentication anyway gets the metrics: their labels name users and
 * tables. */
static void answer_http(void *user, const char *path, trn_http_response *response) {
  const running *r = user;
  size_t size = strcspn(path, "?");
  if (size == 8 && !memcmp(path, "/healthz", 8)) {
    response->status = 200;
    response->body = (trn_slice){.data = "ok\n", .size = 3};
  } else if (size == 8 && !memcmp(path, "/metrics", 8) && r->serves_metrics) {
    char *text = NULL;
    if (trn_metrics_render(r->built.backend, &text)) return; /* 404: there is no trace layer */
    response->status = 200;
    response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    response->body = (trn_slice){.data = text, .size = strlen(text), .release = trn_free, .owner = text};
  }
}

/* ---- servers ---- */

static trn_status read_limits(const running *r, trn_server_options *options, trn_error **error) {
  const trn_config *limits = trn_config_get(r->root, "limits");
  uint64_t message = 0, metadata = 0, memory = 0, idle = 0, age = 0, keepalive = 0, stalled = 0;
  int64_t streams = 0, connections = 0, loops = 0;
  trn_status status = trn_config_size(limits, "message_bytes", &message, error);
  if (!status) status = trn_config_size(limits, "metadata_bytes", &metadata, error);
  if (!status) status = trn_config_size(limits, "memory", &memory, error);
  if (!status) status = trn_config_number(limits, "streams", 0, 1000000, &streams, error);
  if (!status) status = trn_config_number(limits, "connections", 0, 10000000, &connections, error);
  if (!status) status = trn_config_duration(limits, "connection_idle", &idle, error);
  if (!status) status = trn_config_duration(limits, "connection_age", &age, error);
  if (!status) status = trn_config_duration(limits, "keepalive", &keepalive, error);
  if (!status) status = trn_config_duration(limits, "stalled", &stalled, error);
  if (!status) status = trn_config_number(r->root, "loops", 0, 256, &loops, error);
  if (!status && (idle > UINT32_MAX || age > UINT32_MAX || keepalive > UINT32_MAX || stalled > UINT32_MAX))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "limits: a time is longer than 49 days");
  options->message_bytes_max = (size_t)message;
  options->metadata_bytes_max = (size_t)metadata;
  options->memory_bytes_max = (size_t)memory;
  options->streams_max = (unsigned)streams;
  options->connections_max = (unsigned)connections;
  options->connection_idle_ms = (unsigned)idle;
  options->connection_age_ms = (unsigned)age;
  options->keepalive_ms = (unsigned)keepalive;
  options->stalled_ms = (unsigned)stalled;
  options->loops = (unsigned)loops;
  return status;
}

static trn_status server_options(const running *r, const tls_files *tls, trn_server_options *out, trn_error **error) {
  *out = (trn_server_options){.struct_size = sizeof *out,
                              .cert_pem = tls->cert,
                              .key_pem = tls->key,
                              .client_ca_pem = tls->client_ca,
                              .authenticator = r->built.authenticator,
                              .http_get = answer_http,
                              .http_user = (void *)r};
  return read_limits(r, out, error);
}

/* "spark, flightsql" without Spark, which has a URL of its own. NULL: Spark is not served. */
static const char *besides_spark(const char *frontends) {
  if (strncmp(frontends, "spark", 5) != 0) return NULL; /* the first that is built in */
  return frontends[5] ? frontends + 7 : "";
}

static void print_listening(const running *r) {
  const char *others = besides_spark(r->built.frontends);
  for (size_t i = 0; i < r->server_count; i++) {
    const char *colon = strrchr(r->listen[i], ':');
    int port = trn_server_port(r->servers[i]);
    printf("trunnion %s: %s", trn_version(), others ? "Spark Connect on sc://" : r->built.frontends);
    printf("%s", others ? "" : " on ");
    if (port)
      printf("%.*s:%d", (int)(colon - r->listen[i]), r->listen[i], port);
    else
      printf("%s", r->listen[i]);
    printf("%s", others && setting(r->root, "tls.cert") ? "/;use_ssl=true" : "");
    if (others && *others) printf(" (and %s)", others);
    putchar('\n');
  }
  fflush(stdout);
}

static trn_status start(running *r, trn_error **error) {
  tls_files tls = {0};
  trn_server_options options;
  trn_status status = tls_read(r->root, &tls, error);
  if (!status) status = server_options(r, &tls, &options, error);
  for (size_t i = 0; i < r->listen_count && !status; i++) {
    options.listen = r->listen[i];
    status = trn_server_start(r->built.routes, &options, &r->servers[i], error);
    if (!status) r->server_count++;
  }
  tls_finish(&tls);
  return status;
}

/* ---- reloading ---- */

static void reload(running *r, const settings *s) {
  trn_error *error = NULL;
  tls_files tls = {0};
  settings again = {0};
  int result;
  bool failed = !settings_read(s->argc, s->argv, &again, &result); /* says what is wrong */
  trn_status status = building_reload(&r->built, failed ? NULL : again.root, &error);
  trn_config_destroy(again.root);
  if (status) {
    fail(0, "SIGHUP", status, error);
    failed = true;
    error = NULL;
  }
  status = tls_read(r->root, &tls, &error);
  for (size_t i = 0; tls.cert && !status && i < r->server_count; i++)
    status = trn_server_reload_tls(r->servers[i], tls.cert, tls.key, tls.client_ca, &error);
  tls_finish(&tls);
  if (status) {
    fail(0, "SIGHUP", status, error);
    failed = true;
  }
  fprintf(stderr, failed ? "trunnion: reloaded, except for what is named above\n" : "trunnion: reloaded\n");
}

/* ---- checking ---- */

static void print_check(const running *r) {
  const building *b = &r->built;
  const char *cert = setting(r->root, "tls.cert"), *ca = setting(r->root, "tls.client_ca");
  const trn_config *auth = trn_config_get(r->root, "auth");
  const trn_plugin_about *plugin;
  for (size_t i = 0; i < r->listen_count; i++) printf("listen          %s%s\n", r->listen[i], cert ? ", TLS" : "");
  if (cert) printf("certificate     %s\n", cert);
  if (ca) printf("client CA       %s: clients must present a certificate\n", ca);
  printf("authentication  ");
  static const char *const ways[] = {"auth.tokens", "auth.users", "auth.jwt.jwks"};
  static const char *const names[] = {"tokens", "passwords", "JSON web tokens"};
  const char *comma = "";
  for (size_t i = 0; auth && i < 3; i++) {
    const char *file = setting(r->root, ways[i]);
    if (!file) continue;
    printf("%s%s (%s)", comma, names[i], file);
    comma = ", ";
  }
  bool by_name = ca && !auth;
  const char *certificates = setting(r->root, "auth.certificates");
  if (by_name || (certificates && !strcmp(certificates, "true"))) printf("%scertificates", comma);
  printf("%s\n", auth || by_name ? "" : "none: everybody who reaches the port is who he says he is");
  for (size_t i = 0; (plugin = trn_registry_plugin_at(b->registry, i)); i++)
    printf("plugin          %s %s\n", plugin->name, plugin->version);
  printf("frontends       %s\nlayers          ", b->frontends);
  const trn_config *layers = trn_config_get(r->root, "layers");
  for (size_t i = 0; i < trn_config_count(layers); i++) {
    const trn_config *layer = trn_config_at(layers, i);
    const char *name = trn_config_value(layer);
    printf("%s%s", i ? ", " : "", name ? name : trn_config_key_at(layer, 0));
  }
  const char *warehouse = setting(r->root, "warehouse");
  printf("%s\nbackend         %s\nwarehouse       %s\n", trn_config_count(layers) ? "" : "none", b->backend_name,
         warehouse ? warehouse : "in memory");
  if (b->jobs.scheduler)
    printf("jobs            %s, outputs in %s\n", setting(r->root, "jobs.store"), setting(r->root, "jobs.output"));
  printf("decoders        ");
  const char *decoder;
  for (size_t i = 0; (decoder = trn_registry_decoder_at(b->registry, i)); i++) printf("%s%s", i ? ", " : "", decoder);
  const char *functions;
  for (size_t i = 0; (functions = trn_registry_functions_at(b->registry, i)); i++)
    printf("%s%s", i ? ", " : "\nfunctions       ", functions);
  printf("\nthe settings are valid\n");
}

/* The certificates and limits are what a server takes: one is started on a free loopback port, with no methods. */
static trn_status try_server(running *r, trn_error **error) {
  tls_files tls = {0};
  trn_server_options options;
  trn_server *server = NULL;
  trn_routes *routes = NULL;
  trn_status status = tls_read(r->root, &tls, error);
  if (!status) status = server_options(r, &tls, &options, error);
  if (!status) status = trn_routes_create(&routes);
  options.listen = "127.0.0.1:0";
  if (!status) status = trn_server_start(routes, &options, &server, error);
  trn_server_stop(server, 0);
  trn_routes_destroy(routes);
  tls_finish(&tls);
  return status;
}

/* ---- all of it ---- */

static void warn(const running *r) {
  if (r->built.authenticator && !setting(r->root, "tls.cert"))
    for (size_t i = 0; i < r->listen_count; i++)
      if (!is_local(r->listen[i]))
        fprintf(stderr, "trunnion: warning: %s: tokens and passwords travel unencrypted; set tls\n", r->listen[i]);
}

/* The next signal; meanwhile, jobs are looked after. */
static int wait_for(running *r, const sigset_t *signals) {
  static const struct timespec second = {.tv_sec = 1};
  int number = -1;
  while (number < 0) {
    jobs_tend(&r->built.jobs);
    number = r->built.jobs.scheduler ? sigtimedwait(signals, NULL, &second) : sigwaitinfo(signals, NULL);
  }
  return number;
}

static int run(running *r, const settings *s, const sigset_t *signals) {
  trn_error *error = NULL;
  trn_status status = start(r, &error);
  if (status) return fail(1, "server", status, error);
  print_listening(r);
  for (int number = SIGHUP; number == SIGHUP;) {
    number = wait_for(r, signals);
    if (number == SIGHUP) reload(r, s);
  }
  return 0;
}

int serve(const settings *s) {
  running r = {.root = s->root, .grace_ms = 2000};
  trn_error *error = NULL;
  int result = 0;
  /* All threads inherit the mask: the signals arrive at sigwait alone. */
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  trn_status status = trn_config_duration(s->root, "grace", &r.grace_ms, &error);
  if (!status) status = build(s->root, &r.built, &error);
  r.serves_metrics = !r.built.authenticator && !setting(s->root, "tls.client_ca");
  if (!status) status = trn_config_bool(s->root, "metrics", &r.serves_metrics, &error);
  if (!status) status = read_listeners(&r, &error);
  if (!status && s->only_checks) status = try_server(&r, &error);
  if (status) {
    result = fail(2, "settings", status, error);
  } else {
    warn(&r);
    if (s->only_checks)
      print_check(&r);
    else
      result = run(&r, s, &signals);
  }
  for (size_t i = 0; i < r.server_count; i++) trn_server_stop(r.servers[i], (unsigned)r.grace_ms);
  building_finish(&r.built);
  return result;
}
