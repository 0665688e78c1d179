/* The program `trunnion`: a server made from nothing but the public headers. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/server.h>
#include <trunnion/trunnion.h>
#include <unistd.h>

typedef struct settings {
  const char *listen, *tls_cert, *tls_key, *client_ca, *engine, *functions, *spill, *timezone;
  unsigned threads, loops, grace_ms;
  unsigned long long memory_bytes;
  bool allow_remote;
} settings;

typedef enum value_kind { TEXT, NUMBER, BYTES, FLAG } value_kind;

/* The options of `serve`: the one table for parsing and --help. */
static const struct {
  const char *name, *argument, *help;
  value_kind kind;
  size_t offset;
} OPTIONS[] = {
    {"listen", "HOST:PORT", "where to listen; port 0: any free one (default 127.0.0.1:15002)", TEXT, offsetof(settings, listen)},
    {"allow-remote", NULL, "listen beyond loopback although clients are not authenticated", FLAG,
     offsetof(settings, allow_remote)},
    {"tls-cert", "FILE", "PEM certificate chain; with --tls-key", TEXT, offsetof(settings, tls_cert)},
    {"tls-key", "FILE", "PEM private key", TEXT, offsetof(settings, tls_key)},
    {"client-ca", "FILE", "PEM certificates: clients must present one that these sign", TEXT, offsetof(settings, client_ca)},
    {"threads", "N", "threads that execute queries (default: cores)", NUMBER, offsetof(settings, threads)},
    {"loops", "N", "threads that serve the network (default: up to 4)", NUMBER, offsetof(settings, loops)},
    {"memory", "BYTES", "memory for queries, with K, M or G; beyond it they spill (default: no limit)", BYTES,
     offsetof(settings, memory_bytes)},
    {"spill-dir", "DIR", "where queries spill (default: the system's temporary directory)", TEXT, offsetof(settings, spill)},
    {"timezone", "ZONE", "default of spark.sql.session.timeZone (default UTC)", TEXT, offsetof(settings, timezone)},
    {"engine", "FILE", "libtrunnion_engine.so (default: beside this program)", TEXT, offsetof(settings, engine)},
    {"functions", "FILE", "libtrunnion_functions.so (default: beside this program)", TEXT, offsetof(settings, functions)},
    {"grace", "MS", "how long running calls may go on after SIGTERM (default 2000)", NUMBER, offsetof(settings, grace_ms)},
};
#define OPTION_COUNT (sizeof OPTIONS / sizeof *OPTIONS)

static int usage(FILE *out) {
  fprintf(out, "usage: trunnion serve [options]\n       trunnion --version | --help\n\nServes Spark Connect on in-process "
               "DataFusion. Connect with PySpark: SparkSession.builder.remote(\"sc://HOST:PORT\")\n\n");
  for (size_t i = 0; i < OPTION_COUNT; i++)
    fprintf(out, "  --%-13s%-10s %s\n", OPTIONS[i].name, OPTIONS[i].argument ? OPTIONS[i].argument : "", OPTIONS[i].help);
  return out == stdout ? 0 : 2;
}

static bool parse_bytes(const char *text, unsigned long long *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  if (errno || end == text || *text == '-') return false;
  if (!*end) return true;
  unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (!shift || end[1] || *out >> (64 - shift)) return false;
  *out <<= shift;
  return true;
}

static bool set_option(settings *s, size_t index, const char *text) {
  char *at = (char *)s + OPTIONS[index].offset;
  unsigned long long number;
  switch (OPTIONS[index].kind) {
  case TEXT: memcpy(at, &text, sizeof text); return true;
  case FLAG: *(bool *)at = true; return true;
  case BYTES: return parse_bytes(text, (unsigned long long *)at);
  case NUMBER:
    if (!parse_bytes(text, &number) || number > 1u << 30) return false;
    *(unsigned *)at = (unsigned)number;
    return true;
  }
  return false;
}

static bool parse(int argc, char **argv, settings *s) {
  struct option longs[OPTION_COUNT + 2] = {0};
  for (size_t i = 0; i < OPTION_COUNT; i++)
    longs[i] = (struct option){OPTIONS[i].name, OPTIONS[i].argument ? required_argument : no_argument, NULL, 256 + (int)i};
  longs[OPTION_COUNT] = (struct option){"help", no_argument, NULL, 'h'};
  for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
    if (c == 'h') exit(usage(stdout));
    if (c < 256) return false;
    if (!set_option(s, (size_t)c - 256, optarg)) {
      fprintf(stderr, "trunnion: --%s: '%s' is no valid value\n", OPTIONS[c - 256].name, optarg);
      return false;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "trunnion: unexpected argument '%s'\n", argv[optind]);
    return false;
  }
  return true;
}

/* The text of a file; the program ends when it cannot be read. */
static char *read_file(const char *path) {
  if (!path) return NULL;
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0, room = 0;
  while (file && !feof(file) && !ferror(file) && size < 1 << 20) {
    if (size + 4096 > room && !(text = realloc(text, (room += 8192) + 1))) break;
    size += fread(text + size, 1, 4096, file);
  }
  if (!file || ferror(file) || !text) {
    fprintf(stderr, "trunnion: cannot read %s: %s\n", path, strerror(errno));
    exit(2);
  }
  fclose(file);
  text[size] = 0;
  return text;
}

static bool is_loopback(const char *listen) {
  return !strncmp(listen, "127.", 4) || !strncmp(listen, "localhost:", 10) || !strncmp(listen, "[::1]", 5);
}

static int fail(const char *what, trn_status status, trn_error *error) {
  const char *message = error ? trn_error_message(error) : "";
  fprintf(stderr, "trunnion: %s: %s\n", what, *message ? message : trn_status_name(status));
  trn_error_unref(error);
  return 1;
}

static int serve(const settings *s) {
  trn_error *error = NULL;
  trn_backend *backend = NULL;
  trn_frontend *spark = NULL;
  trn_routes *routes = NULL;
  trn_server *server = NULL;
  int result = 0;
  trn_status status;
  const char *listen = s->listen ? s->listen : "127.0.0.1:15002";
  char *cert = read_file(s->tls_cert), *key = read_file(s->tls_key), *ca = read_file(s->client_ca);
  trn_embedded_options backend_options = {.struct_size = sizeof backend_options,
                                          .engine_path = s->engine,
                                          .functions_path = s->functions,
                                          .threads = s->threads,
                                          .memory_bytes = s->memory_bytes,
                                          .spill_directory = s->spill};
  trn_spark_options spark_options = {.struct_size = sizeof spark_options, .timezone = s->timezone};
  trn_server_options server_options = {.struct_size = sizeof server_options,
                                       .listen = listen,
                                       .cert_pem = cert,
                                       .key_pem = key,
                                       .client_ca_pem = ca,
                                       .loops = s->loops};
  /* All threads inherit the mask: the signals arrive at sigwait alone. */
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  if (!is_loopback(listen) && !ca && !s->allow_remote) {
    fprintf(stderr, "trunnion: %s is not loopback and clients are not authenticated: give --client-ca, or --allow-remote if "
                    "everybody who reaches this port may read and compute\n", listen);
    result = 2;
  }
  if (!result && (status = trn_embedded_backend_create(&backend_options, &backend, &error)))
    result = fail("backend", status, error);
  if (!result && (status = trn_spark_frontend_create(&spark_options, &spark))) result = fail("frontend", status, NULL);
  if (!result && (status = trn_routes_create(&routes))) result = fail("routes", status, NULL);
  if (!result && (status = trn_frontend_register(spark, routes, backend, &error))) result = fail("frontend", status, error);
  if (!result && (status = trn_server_start(routes, &server_options, &server, &error))) result = fail(listen, status, error);
  if (!result) {
    const char *colon = strrchr(listen, ':');
    int signal_number;
    printf("trunnion %s: Spark Connect on sc://%.*s:%d\n", trn_version(), (int)(colon - listen), listen,
           trn_server_port(server));
    fflush(stdout);
    sigwait(&signals, &signal_number);
  }
  trn_server_stop(server, s->grace_ms ? s->grace_ms : 2000);
  alarm(10); /* a query that is being planned cannot be interrupted: the process ends all the same */
  trn_routes_destroy(routes);
  trn_frontend_destroy(spark);
  trn_backend_unref(backend);
  free(cert), free(key), free(ca);
  return result;
}

int main(int argc, char **argv) {
  settings s = {0};
  if (argc >= 2 && !strcmp(argv[1], "--version")) return printf("trunnion %s\n", trn_version()) < 0;
  if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) return usage(stdout);
  if (argc < 2 || strcmp(argv[1], "serve")) return usage(stderr);
  if (!parse(argc - 1, argv + 1, &s)) return 2;
  return serve(&s);
}
