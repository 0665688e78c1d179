/* Clients of the test service over every transport: the same tests run over each. */
#ifndef TESTS_TRANSPORT_CLIENT_FIXTURE_H
#define TESTS_TRANSPORT_CLIENT_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include <trunnion/client.h>
#include <trunnion/server.h>

#include "support/alone.h"
#include "support/call_service.h"

typedef enum over { OVER_INPROC, OVER_TCP, OVER_UNIX } over;

typedef struct peer {
  call_service service;
  trn_routes *routes;
  trn_server *server;
  trn_connector *connector;
  trn_channel *channel;
  char target[128];
} peer;

static over transport;

/* What one call told its caller. */
typedef struct told {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int initials, writables, dones, errors;
  trn_slice *messages;
  size_t count;
  bool in_callback, drops;
  trn_status status;
  char message[256], details[64];
  size_t details_size;
  trn_metadata initial[8], trailing[8];
  char texts[16][64];
  size_t initial_count, trailing_count, text_count;
  bool is_unprocessed;
  unsigned attempts;
  trn_client_call *call;
} told;

static inline void told_enter(told *t) {
  pthread_mutex_lock(&t->mutex);
  if (t->in_callback || t->dones) t->errors++;
  t->in_callback = true;
}

static inline void told_leave(told *t) {
  t->in_callback = false;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
}

static inline size_t told_metadata(told *t, trn_metadata *to, const trn_metadata *from, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < count && kept < 8 && t->text_count < 15; i++) {
    if (from[i].size >= 64) continue;
    char *key = t->texts[t->text_count++], *value = t->texts[t->text_count++];
    snprintf(key, 64, "%s", from[i].key);
    memcpy(value, from[i].value, from[i].size);
    to[kept++] = (trn_metadata){key, value, from[i].size};
  }
  return kept;
}

static inline void told_initial(trn_client_call *call, void *user, const trn_metadata *metadata, size_t count) {
  (void)call;
  told *t = user;
  told_enter(t);
  t->initials++;
  if (t->initials > 1 || t->count) t->errors++;
  t->initial_count = told_metadata(t, t->initial, metadata, count);
  told_leave(t);
}

static inline void told_message(trn_client_call *call, void *user, trn_slice message) {
  (void)call;
  told *t = user;
  told_enter(t);
  if (!t->initials) t->errors++;
  if (t->drops) {
    if (message.release) message.release(message.owner);
  } else {
    t->messages = realloc(t->messages, (t->count + 1) * sizeof *t->messages);
    t->messages[t->count] = message;
  }
  t->count++;
  told_leave(t);
}

static inline void told_writable(trn_client_call *call, void *user) {
  (void)call;
  told *t = user;
  told_enter(t);
  t->writables++;
  told_leave(t);
}

static inline void told_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call;
  told *t = user;
  told_enter(t);
  t->dones++;
  t->status = result->status;
  snprintf(t->message, sizeof t->message, "%s", result->message);
  t->details_size = result->details_size;
  if (result->details && result->details_size < sizeof t->details)
    memcpy(t->details, result->details, result->details_size);
  t->trailing_count = told_metadata(t, t->trailing, result->trailing, result->trailing_count);
  t->is_unprocessed = result->is_unprocessed;
  t->attempts = result->attempts;
  told_leave(t);
}

static const trn_client_handlers told_handlers = {.struct_size = sizeof told_handlers,
                                                  .on_initial = told_initial,
                                                  .on_message = told_message,
                                                  .on_writable = told_writable,
                                                  .on_done = told_done};

static inline told *begin(trn_channel *channel, trn_client_request request) {
  told *t = calloc(1, sizeof *t);
  trn_error *error = NULL;
  pthread_mutex_init(&t->mutex, NULL);
  pthread_cond_init(&t->changed, NULL);
  request.struct_size = sizeof request;
  request.handlers = &told_handlers;
  request.user = t;
  trn_status status = trn_client_call_start(channel, &request, &t->call, &error);
  if (status) fail_msg("start: %s", trn_error_message(error));
  return t;
}

static inline told *call_begin(trn_channel *channel, const char *path, trn_method_kind kind) {
  return begin(channel, (trn_client_request){.path = path, .kind = kind});
}

static inline trn_send_result send_bytes(told *t, const void *data, size_t size) {
  trn_slice slice = {.data = data, .size = size};
  return trn_client_call_send(t->call, &slice, 1, 0);
}

static inline void send_last(told *t, const void *data, size_t size) {
  send_bytes(t, data, size);
  trn_client_call_half_close(t->call);
}

/* Waits for one of the counts; fails the test after ten seconds. */
#define WAIT_FOR(t, condition)                                                                                         \
  do {                                                                                                                 \
    pthread_mutex_lock(&(t)->mutex);                                                                                   \
    struct timespec until_;                                                                                            \
    clock_gettime(CLOCK_REALTIME, &until_);                                                                            \
    until_.tv_sec += 20;                                                                                               \
    int rc_ = 0;                                                                                                       \
    while (!(condition) && rc_ == 0) rc_ = pthread_cond_timedwait(&(t)->changed, &(t)->mutex, &until_);                \
    bool met_ = (condition);                                                                                           \
    pthread_mutex_unlock(&(t)->mutex);                                                                                 \
    if (!met_) {                                                                                                       \
      fail_msg("%s does not come: %zu messages, %d initials, %d dones, status %d %s", #condition, (t)->count,          \
               (t)->initials, (t)->dones, (t)->status, (t)->message);                                                  \
    }                                                                                                                  \
  } while (0)

static inline void wait_done(told *t) {
  WAIT_FOR(t, t->dones == 1);
}

static inline void forget(told *t) {
  trn_client_call_unref(t->call);
  for (size_t i = 0; !t->drops && i < t->count; i++) {
    if (t->messages[i].release) t->messages[i].release(t->messages[i].owner);
  }
  assert_int_equal(t->errors, 0);
  assert_int_equal(t->dones, 1);
  free(t->messages);
  pthread_mutex_destroy(&t->mutex);
  pthread_cond_destroy(&t->changed);
  free(t);
}

static inline void expect_end(told *t, trn_status status, const char *words) {
  wait_done(t);
  if (t->status != status || !strstr(t->message, words)) {
    fail_msg("status %d '%s', not %d '%s'", t->status, t->message, status, words);
  }
}

static inline const trn_metadata *find(const trn_metadata *metadata, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(metadata[i].key, key) == 0) return &metadata[i];
  }
  return NULL;
}

/* ---- the peers ---- */

static inline void peer_serve(peer *p, trn_server_options options) {
  trn_error *error = NULL;
  options.struct_size = sizeof options;
  options.listen = p->target;
  if (trn_server_start(p->routes, &options, &p->server, &error) != TRN_OK) fail_msg("%s", trn_error_message(error));
  if (strncmp(p->target, "unix:", 5) != 0) {
    snprintf(p->target, sizeof p->target, "127.0.0.1:%d", trn_server_port(p->server));
  }
}

static inline trn_channel *peer_open(peer *p, trn_channel_options options) {
  trn_error *error = NULL;
  trn_channel *channel = NULL;
  options.struct_size = sizeof options;
  options.target = p->target;
  if (transport == OVER_INPROC) options.routes = p->routes;
  if (trn_channel_open(p->connector, &options, &channel, &error) != TRN_OK) fail_msg("%s", trn_error_message(error));
  return channel;
}

static inline int peer_up(void **state, trn_server_options server, trn_channel_options channel) {
  peer *p = calloc(1, sizeof *p);
  *state = p;
  p->routes = service_routes(&p->service);
  if (transport == OVER_TCP) snprintf(p->target, sizeof p->target, "127.0.0.1:0");
  if (transport == OVER_UNIX) snprintf(p->target, sizeof p->target, "unix:/tmp/trn-test-%d.sock", (int)getpid());
  if (transport != OVER_INPROC) {
    peer_serve(p, server);
    if (trn_connector_create_network(&(trn_network_options){.struct_size = sizeof(trn_network_options), .loops = 2},
                                     &p->connector, NULL) != TRN_OK) {
      return -1;
    }
  }
  p->channel = peer_open(p, channel);
  return 0;
}

static inline int peer_set_up(void **state) {
  return peer_up(state, (trn_server_options){.loops = 2, .message_bytes_max = 4u << 20},
                 (trn_channel_options){.message_bytes_max = 4u << 20});
}

static inline int peer_tear_down(void **state) {
  peer *p = *state;
  trn_channel_unref(p->channel);
  trn_connector_unref(p->connector);
  trn_server_stop(p->server, 0);
  bool clean = service_is_clean(&p->service);
  if (!clean) {
    print_error("opens %d dones %d made %d released %d errors %d\n", p->service.opens, p->service.dones,
                p->service.made, p->service.released, p->service.errors);
  }
  trn_routes_destroy(p->routes);
  free(p);
  return clean ? 0 : -1;
}

#endif
