/* grpc.testing.TestService on the public headers, for the interop clients of other gRPC implementations. The few
 * protobuf messages are read and written by hand. Usage: grpc_interop_server [--port N] [--cert F --key F] [--loops N];
 * prints "port N" and serves until its standard input ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trunnion/server.h>

/* ---- protobuf ---- */

typedef struct field {
  unsigned number;
  uint64_t value;      /* of a varint */
  const uint8_t *data; /* of bytes and messages */
  size_t size;
} field;

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* The next field; false at the end and on anything malformed. */
static bool read_field(const uint8_t **at, const uint8_t *end, field *out) {
  uint64_t tag = 0;
  if (*at >= end || !read_varint(at, end, &tag)) return false;
  *out = (field){.number = (unsigned)(tag >> 3)};
  switch (tag & 7) {
  case 0: return read_varint(at, end, &out->value);
  case 2:
    if (!read_varint(at, end, &out->value) || out->value > (uint64_t)(end - *at)) return false;
    out->data = *at;
    out->size = (size_t)out->value;
    *at += out->size;
    return true;
  default: return false;
  }
}

static uint8_t *write_varint(uint8_t *to, uint64_t value) {
  for (; value > 127; value >>= 7) *to++ = (uint8_t)(value | 128);
  *to++ = (uint8_t)value;
  return to;
}

/* Message { Payload payload = 1 { bytes body = 2 } string server_id = 4 }: the reply of UnaryCall and, without the id,
 * of StreamingOutputCall. */
static uint8_t *make_payload(size_t size, bool with_server_id, size_t *out_size) {
  static const char server_id[] = {4 << 3 | 2, 8, 't', 'r', 'u', 'n', 'n', 'i', 'o', 'n'};
  uint8_t *message = calloc(1, size + 32), body[16], *to = message;
  if (!message) return NULL;
  size_t head = (size_t)(write_varint(body + 1, size) - body);
  body[0] = 2 << 3 | 2;
  *to++ = 1 << 3 | 2;
  to = write_varint(to, head + size);
  memcpy(to, body, head);
  to += head + size;
  if (with_server_id) {
    memcpy(to, server_id, sizeof server_id);
    to += sizeof server_id;
  }
  *out_size = (size_t)(to - message);
  return message;
}

static size_t payload_size(const field *payload) {
  const uint8_t *at = payload->data;
  field f;
  size_t size = 0;
  while (read_field(&at, payload->data + payload->size, &f)) {
    if (f.number == 2) size = f.size;
  }
  return size;
}

/* ---- a call: what it still has to send, each at its time ---- */

typedef struct step {
  struct step *next;
  int64_t due_ns;
  size_t size;
  bool is_finish, with_server_id;
  trn_status status;
  char message[512];
} step;

typedef struct service service;

typedef struct call_state {
  struct call_state *next; /* of the service's list */
  trn_call *call;          /* a reference */
  service *owner;
  step *first, *last;
  int64_t last_due_ns;
  size_t received; /* payload bytes of StreamingInputCall */
  bool is_full, is_done;
} call_state;

struct service {
  pthread_mutex_t mutex; /* all calls: this is a test program */
  pthread_cond_t changed;
  pthread_t thread;
  call_state *calls;
  bool stops;
};

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void finish_call(trn_call *call, trn_status status, const char *message) {
  trn_metadata trailing = {.key = "x-grpc-test-echo-trailing-bin"};
  trailing.value = trn_call_metadata(call, trailing.key, &trailing.size);
  trn_call_finish(call, status, message, NULL, 0, &trailing, trailing.value ? 1 : 0);
}

static bool wants_compression(const trn_call *call) {
  size_t size = 0;
  return trn_call_metadata(call, "x-trunnion-test-compress", &size) != NULL;
}

/* Sends what is due. locks: the service's mutex held. Gives when the next step is due; INT64_MAX: not by time. */
static int64_t pump(call_state *state) {
  while (state->first && !state->is_full) {
    step *step = state->first;
    if (step->due_ns > now_ns()) return step->due_ns;
    state->first = step->next;
    if (!state->first) state->last = NULL;
    if (step->is_finish) {
      finish_call(state->call, step->status, step->message);
    } else {
      trn_slice slice = {.release = free};
      slice.data = slice.owner = make_payload(step->size, step->with_server_id, &slice.size);
      if (!slice.data) {
        finish_call(state->call, TRN_RESOURCE_EXHAUSTED, "no memory for the payload");
      } else {
        unsigned flags = wants_compression(state->call) ? TRN_SEND_COMPRESS : 0;
        if (trn_call_send(state->call, &slice, 1, flags) == TRN_SEND_FULL) state->is_full = true;
      }
    }
    free(step);
  }
  return INT64_MAX;
}

static void add_step(call_state *state, int64_t wait_us, step what) {
  step *added = malloc(sizeof *added);
  if (!added) return;
  *added = what;
  int64_t now = now_ns();
  if (state->last_due_ns < now) state->last_due_ns = now;
  state->last_due_ns += wait_us * 1000;
  added->due_ns = state->last_due_ns;
  added->next = NULL;
  if (state->last) {
    state->last->next = added;
  } else {
    state->first = added;
  }
  state->last = added;
}

static void add_finish(call_state *state, trn_status status, const uint8_t *message, size_t size) {
  step what = {.is_finish = true, .status = status};
  if (size >= sizeof what.message) size = sizeof what.message - 1;
  if (size) memcpy(what.message, message, size);
  add_step(state, 0, what);
}

/* Sends the steps that wait for their time. */
static void *run_timer(void *argument) {
  service *service = argument;
  pthread_mutex_lock(&service->mutex);
  while (!service->stops) {
    int64_t due = INT64_MAX;
    for (call_state *state = service->calls; state; state = state->next) {
      int64_t next = pump(state);
      if (next < due) due = next;
    }
    struct timespec until = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)};
    if (due == INT64_MAX) {
      pthread_cond_wait(&service->changed, &service->mutex);
    } else {
      pthread_cond_timedwait(&service->changed, &service->mutex, &until);
    }
  }
  pthread_mutex_unlock(&service->mutex);
  return NULL;
}

static call_state *lock_call(void *user) {
  call_state *state = user;
  pthread_mutex_lock(&state->owner->mutex);
  return state;
}

static void unlock_call(call_state *state) {
  pump(state);
  pthread_cond_signal(&state->owner->changed);
  pthread_mutex_unlock(&state->owner->mutex);
}

/* ---- handlers common to all methods ---- */

static void on_open(trn_call *call, void *user) {
  service *service = user;
  call_state *state = calloc(1, sizeof *state);
  if (!state) abort(); /* a test program */
  state->call = trn_call_ref(call);
  state->owner = service;
  trn_call_set_user(call, state);
  trn_metadata initial = {.key = "x-grpc-test-echo-initial"};
  initial.value = trn_call_metadata(call, initial.key, &initial.size);
  if (initial.value) trn_call_set_initial_metadata(call, &initial, 1);
  pthread_mutex_lock(&service->mutex);
  state->next = service->calls;
  service->calls = state;
  pthread_mutex_unlock(&service->mutex);
  trn_call_recv(call);
}

static void on_writable(trn_call *call, void *user) {
  (void)call;
  call_state *state = lock_call(user);
  state->is_full = false;
  unlock_call(state);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  call_state *state = user;
  service *service = state->owner;
  pthread_mutex_lock(&service->mutex);
  call_state **at = &service->calls;
  while (*at != state) at = &(*at)->next;
  *at = state->next;
  pthread_mutex_unlock(&service->mutex);
  while (state->first) {
    step *next = state->first->next;
    free(state->first);
    state->first = next;
  }
  trn_call_unref(state->call);
  free(state);
}

static void release(trn_slice message) {
  if (message.release) message.release(message.owner);
}

/* ---- the methods ---- */

/* EchoStatus { int32 code = 1; string message = 2; } */
static void echo_status(call_state *state, const field *status) {
  const uint8_t *at = status->data;
  field f, message = {0};
  int code = 0;
  while (read_field(&at, status->data + status->size, &f)) {
    if (f.number == 1) code = (int)f.value;
    if (f.number == 2) message = f;
  }
  if (code) add_finish(state, (trn_status)code, message.data, message.size);
}

static void on_empty(trn_call *call, void *user, trn_slice message) {
  (void)call;
  release(message);
  call_state *state = lock_call(user);
  trn_slice nothing = {.data = "", .size = 0};
  trn_call_send(state->call, &nothing, 1, TRN_SEND_MORE);
  add_finish(state, TRN_OK, NULL, 0);
  unlock_call(state);
}

/* SimpleRequest { int32 response_size = 2; EchoStatus response_status = 7; bool fill_server_id = 9; } */
static void on_unary(trn_call *call, void *user, trn_slice message) {
  (void)call;
  call_state *state = lock_call(user);
  const uint8_t *at = message.data, *end = at + message.size;
  field f;
  size_t size = 0;
  bool is_finished = false, with_server_id = false;
  while (read_field(&at, end, &f)) {
    if (f.number == 2) size = (size_t)f.value;
    if (f.number == 9) with_server_id = f.value != 0;
    if (f.number == 7) {
      echo_status(state, &f);
      is_finished = state->first != NULL;
    }
  }
  if (!is_finished) {
    if (size > 64u << 20) {
      add_finish(state, TRN_INVALID_ARGUMENT, (const uint8_t *)"response_size", 13);
    } else {
      add_step(state, 0, (step){.size = size, .with_server_id = with_server_id});
      add_finish(state, TRN_OK, NULL, 0);
    }
  }
  release(message);
  unlock_call(state);
}

/* StreamingOutputCallRequest { repeated ResponseParameters response_parameters = 2 { int32 size = 1; int32 interval_us
 * = 2; } EchoStatus response_status = 7; } */
static void add_responses(call_state *state, trn_slice message) {
  const uint8_t *at = message.data, *end = at + message.size;
  field f, p;
  while (read_field(&at, end, &f)) {
    if (f.number == 7) echo_status(state, &f);
    if (f.number != 2) continue;
    step what = {0};
    int64_t wait_us = 0;
    const uint8_t *inner = f.data;
    while (read_field(&inner, f.data + f.size, &p)) {
      if (p.number == 1) what.size = (size_t)p.value;
      if (p.number == 2) wait_us = (int32_t)p.value;
    }
    if (what.size <= 64u << 20 && wait_us >= 0) add_step(state, wait_us, what);
  }
}

static void on_output(trn_call *call, void *user, trn_slice message) {
  (void)call;
  call_state *state = lock_call(user);
  add_responses(state, message);
  add_finish(state, TRN_OK, NULL, 0);
  release(message);
  unlock_call(state);
}

static void on_input(trn_call *call, void *user, trn_slice message) {
  call_state *state = lock_call(user);
  const uint8_t *at = message.data, *end = at + message.size;
  field f;
  while (read_field(&at, end, &f)) {
    if (f.number == 1) state->received += payload_size(&f);
  }
  release(message);
  unlock_call(state);
  trn_call_recv(call);
}

static void on_input_end(trn_call *call, void *user) {
  call_state *state = lock_call(user);
  uint8_t reply[16], *end = reply;
  *end++ = 1 << 3 | 0;
  end = write_varint(end, state->received);
  trn_slice slice = {.data = reply, .size = (size_t)(end - reply)};
  trn_call_send(call, &slice, 1, TRN_SEND_MORE);
  add_finish(state, TRN_OK, NULL, 0);
  unlock_call(state);
}

static void on_full_duplex(trn_call *call, void *user, trn_slice message) {
  call_state *state = lock_call(user);
  add_responses(state, message);
  release(message);
  unlock_call(state);
  trn_call_recv(call);
}

/* HalfDuplexCall answers only when the client is through: the steps are held back as if the queue were full. */
static void on_half_duplex(trn_call *call, void *user, trn_slice message) {
  call_state *state = lock_call(user);
  state->is_full = true;
  add_responses(state, message);
  release(message);
  unlock_call(state);
  trn_call_recv(call);
}

static void on_duplex_end(trn_call *call, void *user) {
  (void)call;
  call_state *state = lock_call(user);
  state->is_full = false;
  add_finish(state, TRN_OK, NULL, 0);
  unlock_call(state);
}

/* ---- the program ---- */

#define TEST_METHOD(name, method_kind, message, half_close)                                                            \
  {                                                                                                                    \
    .struct_size = sizeof(trn_method), .path = "/grpc.testing.TestService/" name, .kind = method_kind,                 \
    .on_open = on_open, .on_message = message, .on_half_close = half_close, .on_writable = on_writable,                \
    .on_done = on_done, .service = service                                                                             \
  }

static trn_status add_methods(trn_routes *routes, service *service) {
  const trn_method methods[] = {
      TEST_METHOD("EmptyCall", TRN_METHOD_UNARY, on_empty, NULL),
      TEST_METHOD("UnaryCall", TRN_METHOD_UNARY, on_unary, NULL),
      TEST_METHOD("CacheableUnaryCall", TRN_METHOD_UNARY, on_unary, NULL),
      TEST_METHOD("StreamingOutputCall", TRN_METHOD_SERVER_STREAM, on_output, NULL),
      TEST_METHOD("StreamingInputCall", TRN_METHOD_CLIENT_STREAM, on_input, on_input_end),
      TEST_METHOD("FullDuplexCall", TRN_METHOD_BIDI, on_full_duplex, on_duplex_end),
      TEST_METHOD("HalfDuplexCall", TRN_METHOD_BIDI, on_half_duplex, on_duplex_end),
  };
  return trn_routes_add(routes, methods, sizeof methods / sizeof *methods, NULL);
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 65536);
  if (file && text && fread(text, 1, 65535, file) == 0) text[0] = 0;
  if (file) fclose(file);
  return text;
}

/* Something that every HTTP client can get: h2spec wants an answer with a body. */
static void http_get(void *user, const char *path, trn_http_response *response) {
  (void)user, (void)path;
  response->status = 200;
  response->body = (trn_slice){.data = "ok\n", .size = 3};
}

int main(int argc, char **argv) {
  int port = 0;
  char listen[64];
  trn_server_options options = {.struct_size = sizeof options, .listen = listen, .loops = 2, .http_get = http_get};
  char *cert = NULL, *key = NULL, *ca = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--port") == 0) port = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--loops") == 0) options.loops = (unsigned)atoi(argv[i + 1]);
    if (strcmp(argv[i], "--cert") == 0) cert = read_file(argv[i + 1]);
    if (strcmp(argv[i], "--key") == 0) key = read_file(argv[i + 1]);
    if (strcmp(argv[i], "--client-ca") == 0) ca = read_file(argv[i + 1]);
  }
  snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
  options.cert_pem = cert;
  options.key_pem = key;
  options.client_ca_pem = ca;

  service service = {0};
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&service.changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&service.mutex, NULL);

  int exit_code = 1;
  trn_routes *routes = NULL;
  trn_server *server = NULL;
  trn_error *error = NULL;
  if (trn_routes_create(&routes) || add_methods(routes, &service) ||
      pthread_create(&service.thread, NULL, run_timer, &service)) {
    fprintf(stderr, "cannot set up\n");
    goto end;
  }
  if (trn_server_start(routes, &options, &server, &error) == TRN_OK) {
    printf("port %d\n", trn_server_port(server));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    exit_code = 0;
  } else {
    fprintf(stderr, "%s\n", trn_error_message(error));
  }
  trn_server_stop(server, 1000);
  pthread_mutex_lock(&service.mutex);
  service.stops = true;
  pthread_cond_signal(&service.changed);
  pthread_mutex_unlock(&service.mutex);
  pthread_join(service.thread, NULL);
end:
  trn_error_unref(error);
  trn_routes_destroy(routes);
  free(cert);
  free(key);
  free(ca);
  return exit_code;
}
