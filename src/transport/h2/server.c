/* The server: options, the listening socket, starting and stopping. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
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

/* Splits "host:port" or "[v6]:port" in place. */
static bool split_address(char *text, char **host, char **port) {
  char *colon = strrchr(text, ':');
  if (!colon || !colon[1]) return false;
  *colon = 0;
  *port = colon + 1;
  *host = text;
  size_t size = strlen(text);
  if (text[0] == '[' && size > 2 && text[size - 1] == ']') {
    text[size - 1] = 0;
    *host = text + 1;
  } else if (strchr(text, ':')) {
    return false; /* a v6 address without brackets */
  }
  return true;
}

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
  if (!split_address(copy, &host, &port)) {
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

/* ---- life ---- */

static trn_status prepare_session(trn_server *server) {
  if (trn__h2_session_callbacks(&server->callbacks) != TRN_OK) return TRN_RESOURCE_EXHAUSTED;
  if (nghttp2_option_new(&server->session_option) != 0) return TRN_RESOURCE_EXHAUSTED;
  nghttp2_option_set_no_auto_window_update(server->session_option, 1);
  nghttp2_option_set_no_closed_streams(server->session_option, 1);
  nghttp2_option_set_stream_reset_rate_limit(server->session_option, TRN_H2_RESETS_BURST, TRN_H2_RESETS_PER_S);
  nghttp2_option_set_max_send_header_block_length(server->session_option, TRN_H2_RESPONSE_BLOCK_MAX);
  return TRN_OK;
}

static void destroy(trn_server *server) {
  if (!server) return;
  for (unsigned i = 0; i < server->loop_count; i++) trn__h2_loop_finish(&server->loops[i]);
  free(server->loops);
  for (unsigned i = 0; i < server->listen_count; i++) close(server->listen_fds[i]);
  trn__h2_tls_destroy(server->tls);
  nghttp2_session_callbacks_del(server->callbacks);
  nghttp2_option_del(server->session_option);
  pthread_cond_destroy(&server->changed);
  pthread_mutex_destroy(&server->mutex);
  free(server);
}

static void set_stage(trn_server *server, h2_stage stage) {
  atomic_store(&server->stage, stage);
  for (unsigned i = 0; i < server->loop_count; i++) {
    if (server->loops[i].has_thread) trn__h2_loop_wake(&server->loops[i]);
  }
}

/* True when all loops have ended within the time. */
static bool wait_ended(trn_server *server, unsigned timeout_ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + (int64_t)timeout_ms * 1000000;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  pthread_mutex_lock(&server->mutex);
  int rc = 0;
  while (server->running && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&server->changed, &server->mutex, &until);
  bool ended = server->running == 0;
  pthread_mutex_unlock(&server->mutex);
  return ended;
}

void trn_server_stop(trn_server *server, unsigned grace_ms) {
  if (!server) return;
  set_stage(server, H2_DRAIN);
  bool ended = wait_ended(server, grace_ms);
  if (!ended) {
    set_stage(server, H2_CANCEL);
    ended = wait_ended(server, TRN_H2_CANCEL_FLUSH_MS);
  }
  if (!ended) set_stage(server, H2_KILL);
  for (unsigned i = 0; i < server->loop_count; i++) {
    if (server->loops[i].has_thread) pthread_join(server->loops[i].thread, NULL);
  }
  destroy(server);
}

static trn_status start_loops(trn_server *server) {
  server->loops = calloc(server->options.loops, sizeof *server->loops);
  if (!server->loops) return TRN_RESOURCE_EXHAUSTED;
  server->loop_count = server->options.loops;
  for (unsigned i = 0; i < server->loop_count; i++) {
    trn_status status = trn__h2_loop_init(&server->loops[i], server, i == 0);
    if (status) return status;
  }
  /* The listener's last: it hands connections to the others. */
  for (unsigned i = server->loop_count; i-- > 0;) {
    trn_status status = trn__h2_loop_start(&server->loops[i]);
    if (status) return status;
  }
  return TRN_OK;
}

static trn_server *create(void) {
  trn_server *server = calloc(1, sizeof *server);
  if (!server) return NULL;
  pthread_condattr_t attributes;
  pthread_mutex_init(&server->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&server->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  return server;
}

trn_status trn_server_start(const trn_routes *routes, const trn_server_options *options, trn_server **out,
                            trn_error **error) {
  *out = NULL;
  if (!routes) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A server needs routes");
  trn_server *server = create();
  if (!server) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for the server");
  trn_status status = TRN_OK;
  server->routes = routes;
  set_defaults(server, options);
  const trn_server_options *set = &server->options;
  if (!set->cert_pem != !set->key_pem || (set->client_ca_pem && !set->cert_pem)) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "TLS needs cert_pem and key_pem together; client_ca_pem needs both");
    goto end;
  }
  if (set->cert_pem && (status = trn__h2_tls_create(set, &server->tls, error))) goto end;
  if ((status = listen_on(server, set->listen, error))) goto end;
  if ((status = prepare_session(server)) || (status = start_loops(server))) {
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

int trn_server_port(const trn_server *server) {
  return server->port;
}
