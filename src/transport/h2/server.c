/* The server: options, the listening socket, starting and stopping. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "h2.h"

/* ---- options ---- */

static void set_defaults(trn_server *server, const trn_server_options *given) {
  trn_server_options *options = &server->options;
  size_t size = sizeof *options;
  if (given && given->struct_size && given->struct_size < size) size = given->struct_size;
  if (given) memcpy(options, given, size);
  options->struct_size = sizeof *options;
  unsigned cores = uv_available_parallelism();
  if (!options->handshake_ms) options->handshake_ms = TRN_H2_HANDSHAKE_MS;
  if (!options->keepalive_ms) options->keepalive_ms = TRN_H2_KEEPALIVE_MS;
  if (!options->keepalive_timeout_ms) options->keepalive_timeout_ms = TRN_H2_KEEPALIVE_TIMEOUT_MS;
  if (!options->ping_interval_min_ms) options->ping_interval_min_ms = TRN_H2_PING_INTERVAL_MS;
  if (!options->stalled_ms) options->stalled_ms = TRN_H2_STALLED_MS;
  if (!options->memory_bytes_max) options->memory_bytes_max = TRN_H2_HELD_BYTES_DEFAULT;
  if (!options->listen) options->listen = TRN_H2_LISTEN_DEFAULT;
  if (!options->loops) options->loops = cores < TRN_H2_LOOPS_DEFAULT_MAX ? cores : TRN_H2_LOOPS_DEFAULT_MAX;
  if (options->loops > TRN_H2_LOOPS_MAX) options->loops = TRN_H2_LOOPS_MAX;
  if (!options->message_bytes_max) options->message_bytes_max = TRN_H2_MESSAGE_BYTES_DEFAULT;
  if (options->message_bytes_max > UINT32_MAX) options->message_bytes_max = UINT32_MAX;
  if (!options->metadata_bytes_max) options->metadata_bytes_max = TRN_H2_METADATA_BYTES_DEFAULT;
  if (!options->send_high_water) options->send_high_water = TRN_H2_SEND_HIGH_WATER_DEFAULT;
  if (!options->streams_max) options->streams_max = TRN_H2_STREAMS_DEFAULT;
  if (!options->connections_max) options->connections_max = TRN_H2_CONNECTIONS_DEFAULT;
}

/* ---- listening ---- */

/* `port` replaces the address's own when it is not 0. -1: errno says why. */
static int open_socket(const struct addrinfo *info, int port, bool has_others) {
  struct sockaddr_storage address = {0};
  int on = 1;
  int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
  if (fd < 0) return -1;
  memcpy(&address, info->ai_addr, info->ai_addrlen);
  /* REUSEADDR so that a restart need not wait; never REUSEPORT: two servers on one port would share the clients. */
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info->ai_family == AF_INET6) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    int only = has_others; /* "[::]" alone takes IPv4 too */
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (port) v6->sin6_port = htons((uint16_t)port);
  } else if (port) {
    ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)port);
  }
  if (bind(fd, (struct sockaddr *)&address, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int port_of(int fd) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
  return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static bool is_repeated(const struct addrinfo *found, const struct addrinfo *at) {
  for (; found != at; found = found->ai_next) {
    if (found->ai_addrlen == at->ai_addrlen && memcmp(found->ai_addr, at->ai_addr, at->ai_addrlen) == 0) return true;
  }
  return false;
}

/* One socket for each address of the name ("localhost" has two). An address that this host does not have is left out;
 * one that somebody else listens on is an error. 0, or why there is none. */
static int open_sockets(trn_server *server, const struct addrinfo *found) {
  int missing = EADDRNOTAVAIL;
  for (const struct addrinfo *at = found; at && server->listen_count < TRN_H2_LISTENERS_MAX; at = at->ai_next) {
    if ((at->ai_family != AF_INET && at->ai_family != AF_INET6) || is_repeated(found, at)) continue;
    int fd = open_socket(at, server->port, found->ai_next != NULL);
    if (fd >= 0) {
      server->listen_fds[server->listen_count++] = fd;
      server->port = port_of(fd);
    } else if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
      missing = errno;
    } else {
      return errno;
    }
  }
  return server->listen_count ? 0 : missing;
}

static trn_status listen_on(trn_server *server, const char *text, trn_error **error) {
  trn_status status = TRN_OK;
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
  char *host = NULL, *port = NULL, reason[128] = "";
  char *copy = strdup(text);
  if (!copy) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for the server");
    goto end;
  }
  if (!trn__h2_address_split(copy, &host, &port)) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "'%s' is not host:port or [v6]:port", text);
    goto end;
  }
  int rc = getaddrinfo(*host ? host : NULL, port, &hints, &found);
  if (rc != 0) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Cannot resolve '%s': %s", text, gai_strerror(rc));
    goto end;
  }
  rc = open_sockets(server, found);
  if (rc != 0) {
    const char *why = strerror_r(rc, reason, sizeof reason);
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "Cannot listen on '%s': %s", text, why);
  }
end:
  if (found) freeaddrinfo(found);
  free(copy);
  return status;
}

/* ---- a unix socket ---- */

/* A file that a server left behind is removed; one that is listened on, or is no socket, is left alone. */
static void remove_stale(const struct sockaddr_un *address) {
  struct stat found;
  if (lstat(address->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  bool is_stale = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
  close(fd);
  if (is_stale) unlink(address->sun_path);
}

static trn_status listen_on_unix(trn_server *server, const char *path, trn_error **error) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char reason[128] = "";
  size_t size = strlen(path);
  if (!size || size >= sizeof address.sun_path) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "'unix:%.200s' is not unix:/path of at most %zu bytes",
                         path, sizeof address.sun_path - 1);
  }
  memcpy(address.sun_path, path, size);
  server->unix_path = strdup(path);
  int fd = server->unix_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
  if (fd >= 0) remove_stale(&address);
  bool is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (is_bound && listen(fd, SOMAXCONN) == 0) {
    server->listen_fds[server->listen_count++] = fd;
    return TRN_OK;
  }
  const char *why = strerror_r(errno, reason, sizeof reason);
  if (is_bound) unlink(path);
  free(server->unix_path);
  server->unix_path = NULL;
  if (fd >= 0) close(fd);
  return trn_error_set(error, TRN_UNAVAILABLE, NULL, "Cannot listen on 'unix:%s': %s", path, why);
}

/* ---- certificates ---- */

static trn_status make_tls(const trn_server *server, const char *cert_pem, const char *key_pem,
                           const char *client_ca_pem, h2_tls **out, trn_error **error) {
  h2_tls_texts texts = {.cert_pem = cert_pem,
                        .key_pem = key_pem,
                        .ca_pem = client_ca_pem,
                        .takes_http1 = server->options.http_get != NULL};
  if (!cert_pem || !key_pem) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "TLS needs cert_pem and key_pem together; client_ca_pem needs both");
  }
  return trn__h2_tls_create(&texts, out, error);
}

trn_status trn_server_reload_tls(trn_server *server, const char *cert_pem, const char *key_pem,
                                 const char *client_ca_pem, trn_error **error) {
  if (!server->has_tls) {
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The server runs without TLS; that cannot change");
  }
  h2_tls *tls = NULL;
  trn_status status = make_tls(server, cert_pem, key_pem, client_ca_pem, &tls, error);
  if (status) return status;
  pthread_mutex_lock(&server->tls_mutex);
  h2_tls *old = server->tls;
  server->tls = tls;
  pthread_mutex_unlock(&server->tls_mutex);
  trn__h2_tls_unref(old);
  return TRN_OK;
}

/* ---- life ---- */

static void destroy(trn_server *server) {
  trn__h2_base_finish(&server->base);
  for (unsigned i = 0; i < server->listen_count; i++) close(server->listen_fds[i]);
  if (server->unix_path) unlink(server->unix_path);
  free(server->unix_path);
  trn__h2_tls_unref(server->tls);
  trn_authenticator_unref(server->authenticator);
  pthread_mutex_destroy(&server->tls_mutex);
  free(server);
}

void trn_server_stop(trn_server *server, unsigned grace_ms) {
  if (!server) return;
  h2_base *base = &server->base;
  trn__h2_base_stage(base, H2_DRAIN);
  bool ended = trn__h2_base_wait(base, grace_ms);
  if (!ended) {
    trn__h2_base_stage(base, H2_CANCEL);
    ended = trn__h2_base_wait(base, TRN_H2_CANCEL_FLUSH_MS);
  }
  if (!ended) trn__h2_base_stage(base, H2_KILL);
  trn__h2_base_join(base);
  destroy(server);
}

static unsigned tick_ms(const trn_server_options *options) {
  unsigned ms = options->handshake_ms;
  if (options->keepalive_ms < ms) ms = options->keepalive_ms;
  if (options->keepalive_timeout_ms < ms) ms = options->keepalive_timeout_ms;
  if (options->stalled_ms < ms) ms = options->stalled_ms;
  if (options->connection_idle_ms && options->connection_idle_ms < ms) ms = options->connection_idle_ms;
  if (options->connection_age_ms && options->connection_age_ms < ms) ms = options->connection_age_ms;
  return ms / 4 < TRN_H2_TICK_MIN_MS ? TRN_H2_TICK_MIN_MS : ms / 4;
}

static trn_status prepare(trn_server *server, trn_error **error) {
  const trn_server_options *set = &server->options;
  trn_status status = TRN_OK;
  if (set->cert_pem || set->key_pem || set->client_ca_pem) {
    status = make_tls(server, set->cert_pem, set->key_pem, set->client_ca_pem, &server->tls, error);
    server->has_tls = !status;
  }
  if (!status && strncmp(set->listen, "unix:", 5) == 0) {
    status = listen_on_unix(server, set->listen + 5, error);
  } else if (!status) {
    status = listen_on(server, set->listen, error);
  }
  return status;
}

trn_status trn__h2_server_start(const trn_routes *routes, const trn_server_options *options, bool has_threads,
                                trn_server **out, trn_error **error) {
  *out = NULL;
  if (!routes) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A server needs routes");
  trn_server *server = calloc(1, sizeof *server);
  if (!server) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for the server");
  trn_status status = TRN_OK;
  pthread_mutex_init(&server->tls_mutex, NULL);
  server->routes = routes;
  set_defaults(server, options);
  server->base.memory_bytes_max = server->options.memory_bytes_max;
  if (server->options.authenticator) server->authenticator = trn_authenticator_ref(server->options.authenticator);
  bool has_parts = trn__h2_base_create_parts(&server->base);
  if ((status = prepare(server, error))) goto end;
  server->base.tick_ms = tick_ms(&server->options);
  status = has_parts ? trn__h2_base_start(&server->base, server->options.loops, server, has_threads)
                     : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    trn_error_set(error, status, NULL, "The server's loops cannot be started: out of memory, threads or descriptors");
    goto end;
  }
  server->options.listen = server->options.cert_pem = server->options.key_pem = server->options.client_ca_pem = NULL;
  *out = server;
  server = NULL;
end:
  trn_server_stop(server, 0);
  return status;
}

trn_status trn_server_start(const trn_routes *routes, const trn_server_options *options, trn_server **out,
                            trn_error **error) {
  return trn__h2_server_start(routes, options, true, out, error);
}

int trn_server_port(const trn_server *server) {
  return server->port;
}
