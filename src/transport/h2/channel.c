/* The network's client: a connector owns loops; a channel finds its target's addresses, connects, pauses after
 * failures, and gives its calls a connection. thread: loop, unless it says otherwise. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "h2.h"

static void connect_next(h2_channel *channel);

void trn__h2_channel_unref(h2_channel *channel) {
  if (atomic_fetch_sub_explicit(&channel->refs, 1, memory_order_acq_rel) != 1) return;
  trn__h2_tls_unref(channel->tls);
  free(channel->target);
  free(channel->host);
  free(channel->authority);
  free(channel->user_agent);
  free(channel->server_name);
  free(channel);
}

static void channel_ref(h2_channel *channel) {
  atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
}

/* ---- calls that wait ---- */

static void fail_waiting(h2_channel *channel) {
  h2_stream *stream = TAILQ_FIRST(&channel->waiting);
  while (stream) {
    h2_stream *next = TAILQ_NEXT(stream, link);
    if (!trn__h2_attempt_waits(stream)) trn__h2_attempt_unsent(stream, TRN_UNAVAILABLE, channel->problem);
    stream = next;
  }
}

static void on_pause_over(h2_task *task) {
  h2_channel *channel = (h2_channel *)((char *)task - offsetof(h2_channel, pause_task));
  channel->is_pausing = false;
  if (channel->link == H2_LINK_PAUSED) channel->link = H2_LINK_IDLE;
  if (channel->link == H2_LINK_IDLE && !TAILQ_EMPTY(&channel->waiting)) connect_next(channel);
  trn__h2_channel_unref(channel);
}

static unsigned backoff_ms(const h2_channel *channel) {
  double ms = channel->options.backoff_ms;
  for (unsigned i = 1; i < channel->failures && ms < channel->options.backoff_ms_max; i++) ms *= 1.6;
  if (ms > channel->options.backoff_ms_max) ms = channel->options.backoff_ms_max;
  uint64_t random = ((uint64_t)trn__h2_now_ns() ^ (uint64_t)(uintptr_t)channel) * 0x9e3779b97f4a7c15u >> 40;
  return (unsigned)(ms * (0.8 + (double)(random % 4001) / 10000));
}

/* No address can be reached: calls fail now, unless they wait; later it is tried again, when somebody wants it. */
static void give_up(h2_channel *channel, const char *problem) {
  channel->failures++;
  channel->link = H2_LINK_PAUSED;
  snprintf(channel->problem, sizeof channel->problem, "Cannot connect to '%.80s': %.60s", channel->target, problem);
  unsigned ms = backoff_ms(channel);
  if (!channel->is_pausing) {
    channel->is_pausing = true;
    channel_ref(channel);
    channel->pause_task = (h2_task){.at_ns = trn__h2_now_ns() + (int64_t)ms * 1000000, .run = on_pause_over};
    trn__h2_loop_post(channel->loop, &channel->pause_task);
  }
  fail_waiting(channel);
}

/* ---- connecting ---- */

static socklen_t address_size(const struct sockaddr_storage *address) {
  switch (address->ss_family) {
  case AF_INET: return sizeof(struct sockaddr_in);
  case AF_INET6: return sizeof(struct sockaddr_in6);
  default: return sizeof(struct sockaddr_un);
  }
}

/* Begins with the next address. False: `problem` says why not. */
static bool try_address(h2_channel *channel, const struct sockaddr_storage *address, char *problem, size_t size) {
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)address, address_size(address));
  if (rc != 0 && errno != EINPROGRESS) {
    char text[96] = "";
    snprintf(problem, size, "%s", strerror_r(errno, text, sizeof text));
    if (fd >= 0) close(fd);
    return false;
  }
  channel->link = H2_LINK_CONNECTING;
  h2_conn *conn = trn__h2_conn_connect(channel, fd, address);
  snprintf(problem, size, "no memory");
  if (!conn || conn->is_closed) return false;
  channel->conn = conn;
  return true;
}

static void try_addresses(h2_channel *channel, const char *problem) {
  char text[96];
  snprintf(text, sizeof text, "%s", problem);
  while (channel->address_next < channel->address_count) {
    if (try_address(channel, &channel->addresses[channel->address_next++], text, sizeof text)) return;
  }
  give_up(channel, text);
}

static void take_addresses(h2_channel *channel, const struct addrinfo *found) {
  channel->address_count = channel->address_next = 0;
  for (; found && channel->address_count < TRN_H2_ADDRESSES_MAX; found = found->ai_next) {
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    struct sockaddr_storage *address = &channel->addresses[channel->address_count++];
    memset(address, 0, sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
  }
}

static void on_resolved(uv_getaddrinfo_t *resolver, int status, struct addrinfo *found) {
  h2_channel *channel = resolver->data;
  h2_loop *loop = channel->loop;
  loop->working--;
  take_addresses(channel, status == 0 ? found : NULL);
  uv_freeaddrinfo(found);
  if (status != 0) {
    give_up(channel, uv_strerror(status));
  } else {
    try_addresses(channel, "the name has no address");
  }
  trn__h2_channel_unref(channel);
  trn__h2_loop_settle(loop);
}

static void resolve(h2_channel *channel) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST},
                  *found = NULL;
  if (getaddrinfo(channel->host_name, channel->port, &hints, &found) == 0) { /* no name: does not block */
    take_addresses(channel, found);
    freeaddrinfo(found);
    try_addresses(channel, "no address");
    return;
  }
  hints.ai_flags = 0;
  channel->link = H2_LINK_RESOLVING;
  channel->resolver.data = channel;
  int rc =
      uv_getaddrinfo(&channel->loop->uv, &channel->resolver, on_resolved, channel->host_name, channel->port, &hints);
  if (rc != 0) {
    give_up(channel, uv_strerror(rc));
    return;
  }
  channel->loop->working++;
  channel_ref(channel);
}

static void set_unix_address(h2_channel *channel) {
  struct sockaddr_un *address = (struct sockaddr_un *)&channel->addresses[0];
  memset(&channel->addresses[0], 0, sizeof channel->addresses[0]);
  address->sun_family = AF_UNIX;
  strncpy(address->sun_path, channel->target + 5, sizeof address->sun_path - 1); /* fits: checked at open */
  channel->address_count = 1;
  channel->address_next = 0;
}

static unsigned tick_ms(const trn_channel_options *options) {
  unsigned ms = options->connect_timeout_ms;
  if (options->keepalive_ms && options->keepalive_ms < ms) ms = options->keepalive_ms;
  if (options->keepalive_ms && options->keepalive_timeout_ms < ms) ms = options->keepalive_timeout_ms;
  if (options->idle_ms && options->idle_ms < ms) ms = options->idle_ms;
  return ms / 4;
}

static void connect_next(h2_channel *channel) {
  trn__h2_loop_tick_at_most(channel->loop, tick_ms(&channel->options));
  channel->connect_until_ns = trn__h2_now_ns() + (int64_t)channel->options.connect_timeout_ms * 1000000;
  if (channel->host) {
    resolve(channel);
  } else {
    set_unix_address(channel);
    try_addresses(channel, "no address");
  }
}

/* ---- what connections and calls say ---- */

void trn__h2_channel_place(h2_channel *channel, h2_stream *stream, bool waits) {
  if (channel->link == H2_LINK_READY) {
    trn__h2_attempt_submit(stream, channel->conn);
    return;
  }
  if (channel->link == H2_LINK_PAUSED && !waits) {
    trn__h2_attempt_unsent(stream, TRN_UNAVAILABLE, channel->problem);
    return;
  }
  trn__h2_attempt_wait(stream);
  if (channel->link == H2_LINK_IDLE) connect_next(channel);
}

void trn__h2_channel_ready(h2_channel *channel, h2_conn *conn) {
  if (channel->conn != conn) return;
  channel->link = H2_LINK_READY;
  channel->failures = 0;
  while (!TAILQ_EMPTY(&channel->waiting)) trn__h2_attempt_go(TAILQ_FIRST(&channel->waiting), conn);
}

/* Ends when its last call does. */
static void retire(h2_conn *conn) {
  conn->is_leaving = true;
  if (!conn->session || !conn->is_ready) {
    trn__h2_conn_close(conn);
  } else if (!conn->stream_count) {
    trn__h2_conn_check(conn, nghttp2_session_terminate_session(conn->session, NGHTTP2_NO_ERROR));
    trn__h2_conn_dirty(conn);
  }
}

void trn__h2_channel_leaving(h2_channel *channel, h2_conn *conn) {
  if (channel->conn == conn) {
    channel->conn = NULL;
    channel->link = H2_LINK_IDLE;
  }
  if (conn->is_ready) retire(conn);
}

void trn__h2_channel_lost(h2_channel *channel, h2_conn *conn, const char *problem) {
  if (channel->conn != conn) return;
  bool was_ready = channel->link == H2_LINK_READY;
  channel->conn = NULL;
  channel->link = H2_LINK_IDLE;
  if (channel->is_closing) return;
  if (!was_ready && trn__h2_now_ns() < channel->connect_until_ns) {
    try_addresses(channel, problem);
  } else if (!was_ready) {
    give_up(channel, problem);
  } else if (!TAILQ_EMPTY(&channel->waiting)) {
    connect_next(channel);
  }
}

/* ---- the transport's functions. thread: any ---- */

static trn_status channel_start(void *self, const trn_client_start *start, trn_client_attempt *to,
                                const trn_client_host **host, void **out) {
  h2_stream *stream = NULL;
  trn_status status = trn__h2_attempt_create(self, start, to, &stream, host);
  *out = stream;
  return status;
}

typedef struct later {
  h2_task task; /* first */
  void (*run)(void *argument);
  void *argument;
} later;

static void on_later(h2_task *task) {
  later *later = (struct later *)task;
  later->run(later->argument);
  free(later);
}

static trn_status channel_run_after(void *self, unsigned delay_ms, void (*run)(void *argument), void *argument) {
  h2_channel *channel = self;
  later *later = malloc(sizeof *later);
  if (!later) return TRN_RESOURCE_EXHAUSTED;
  later->task = (h2_task){.at_ns = trn__h2_now_ns() + (int64_t)delay_ms * 1000000, .run = on_later};
  later->run = run;
  later->argument = argument;
  trn__h2_loop_post(channel->loop, &later->task);
  return TRN_OK;
}

/* thread: loop */
static void on_close(h2_task *task) {
  h2_channel *channel = (h2_channel *)((char *)task - offsetof(h2_channel, close_task));
  h2_conn *conn = channel->conn;
  channel->is_closing = true;
  channel->conn = NULL;
  channel->link = H2_LINK_IDLE;
  if (conn) retire(conn);
  trn__h2_channel_unref(channel);
}

static void channel_destroy(void *self) {
  h2_channel *channel = self;
  channel->close_task.run = on_close;
  trn__h2_loop_post(channel->loop, &channel->close_task);
}

static const trn_channel_ops channel_operations = {
    .struct_size = sizeof(trn_channel_ops),
    .start = channel_start,
    .run_after = channel_run_after,
    .destroy = channel_destroy,
};

/* ---- opening. thread: any ---- */

static void set_defaults(trn_channel_options *options) {
  if (!options->connect_timeout_ms) options->connect_timeout_ms = TRN_H2_CONNECT_MS;
  if (!options->backoff_ms) options->backoff_ms = TRN_H2_BACKOFF_MS;
  if (!options->backoff_ms_max) options->backoff_ms_max = TRN_H2_BACKOFF_MS_MAX;
  if (!options->keepalive_timeout_ms) options->keepalive_timeout_ms = TRN_H2_KEEPALIVE_TIMEOUT_MS;
  if (!options->metadata_bytes_max) options->metadata_bytes_max = TRN_H2_METADATA_BYTES_DEFAULT;
  if (!options->send_high_water) options->send_high_water = TRN_H2_SEND_HIGH_WATER_DEFAULT;
}

static bool split_target(h2_channel *channel) {
  if (strncmp(channel->target, "unix:", 5) == 0) {
    size_t size = strlen(channel->target + 5);
    return size && size < sizeof((struct sockaddr_un *)0)->sun_path;
  }
  channel->host = strdup(channel->target);
  return channel->host && trn__h2_address_split(channel->host, &channel->host_name, &channel->port) &&
         channel->host_name[0];
}

static bool is_header_text(const char *text) {
  return *text && trn__h2_value_is_sendable(text, strlen(text));
}

static trn_status set_texts(h2_channel *channel, const trn_channel_options *options, trn_error **error) {
  const char *agent = options->user_agent && is_header_text(options->user_agent) ? options->user_agent : "";
  size_t agent_size = strlen(agent) + 40;
  if (!split_target(channel)) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "'%.200s' is not host:port, [v6]:port or unix:/path",
                         options->target);
  }
  const char *authority = options->authority ? options->authority : channel->host ? options->target : "localhost";
  const char *name = options->server_name ? options->server_name : channel->host ? channel->host_name : "localhost";
  if (!is_header_text(authority)) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The authority of '%.200s' is no header value",
                         options->target);
  }
  channel->authority = strdup(authority);
  channel->server_name = strdup(name);
  channel->user_agent = malloc(agent_size);
  if (!channel->authority || !channel->server_name || !channel->user_agent) {
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for a channel");
  }
  snprintf(channel->user_agent, agent_size, "%s%sgrpc-c-trunnion/" TRUNNION_VERSION, agent, *agent ? " " : "");
  bool has_tls = options->tls || options->ca_pem || options->cert_pem || options->key_pem;
  if (!has_tls) return TRN_OK;
  if (!options->cert_pem != !options->key_pem) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A client certificate needs cert_pem and key_pem together");
  }
  h2_tls_texts texts = {
      .cert_pem = options->cert_pem, .key_pem = options->key_pem, .ca_pem = options->ca_pem, .is_client = true};
  return trn__h2_tls_create(&texts, &channel->tls, error);
}

static trn_status connector_open(void *self, const trn_channel_options *options, const trn_channel_ops **ops,
                                 void **out, trn_error **error) {
  h2_base *base = self;
  h2_channel *channel = calloc(1, sizeof *channel);
  if (channel) channel->target = strdup(options->target);
  if (!channel || !channel->target) {
    free(channel);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for a channel");
  }
  atomic_init(&channel->refs, 1);
  TAILQ_INIT(&channel->waiting);
  channel->base = base;
  trn_status status = set_texts(channel, options, error);
  if (status) {
    trn__h2_channel_unref(channel);
    return status;
  }
  channel->options = *options;
  set_defaults(&channel->options);
  pthread_mutex_lock(&base->mutex);
  channel->loop = &base->loops[base->next_loop++ % base->loop_count];
  pthread_mutex_unlock(&base->mutex);
  *ops = &channel_operations;
  *out = channel;
  return TRN_OK;
}

/* ---- the connector ---- */

static void connector_destroy(void *self) {
  h2_base *base = self;
  bool is_own_thread = false;
  for (unsigned i = 0; i < base->loop_count; i++) {
    is_own_thread |= base->loops[i].has_thread && pthread_equal(base->loops[i].thread, pthread_self());
  }
  if (is_own_thread) { /* a callback dropped the last channel: the last loop frees everything */
    pthread_mutex_lock(&base->mutex);
    base->is_abandoned = true;
    pthread_mutex_unlock(&base->mutex);
    for (unsigned i = 0; i < base->loop_count; i++) pthread_detach(base->loops[i].thread);
    trn__h2_base_stage(base, H2_KILL);
    return;
  }
  trn__h2_base_stage(base, H2_KILL);
  trn__h2_base_join(base);
  trn__h2_base_finish(base);
  free(base);
}

static const trn_connector_ops connector_operations = {
    .struct_size = sizeof(trn_connector_ops),
    .open = connector_open,
    .destroy = connector_destroy,
};

trn_status trn__h2_connector_create(const trn_network_options *given, bool has_threads, h2_base **out_base,
                                    trn_connector **out, trn_error **error) {
  trn_network_options options = {0};
  size_t size = sizeof options;
  if (given && given->struct_size && given->struct_size < size) size = given->struct_size;
  if (given) memcpy(&options, given, size);
  unsigned loops = options.loops ? options.loops : 1;
  h2_base *base = calloc(1, sizeof *base);
  *out = NULL;
  if (!base) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No memory for a connector");
  base->memory_bytes_max = options.memory_bytes_max ? options.memory_bytes_max : TRN_H2_HELD_BYTES_DEFAULT;
  bool has_parts = trn__h2_base_create_parts(base);
  if (loops > TRN_H2_LOOPS_MAX) loops = TRN_H2_LOOPS_MAX;
  trn_status status = has_parts ? trn__h2_base_start(base, loops, NULL, has_threads) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    connector_destroy(base);
  } else {
    status = trn_connector_create(&connector_operations, base, out);
  }
  if (status) trn_error_set(error, status, NULL, "The client's loops cannot be started: out of memory or threads");
  if (out_base) *out_base = status ? NULL : base;
  return status;
}

trn_status trn_connector_create_network(const trn_network_options *options, trn_connector **out, trn_error **error) {
  return trn__h2_connector_create(options, true, NULL, out, error);
}
