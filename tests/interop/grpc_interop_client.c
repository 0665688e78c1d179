/* gRPC's interop cases, as client, on client.h: for the interop servers of other gRPC implementations. The few protobuf
 * messages are written by hand. Usage: grpc_interop_client --target HOST:PORT [--ca FILE --server-name NAME] [CASE]...
 * Without cases: all. Ends with the number of cases that failed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trunnion/client.h>

/* ---- protobuf ---- */

typedef struct bytes {
  uint8_t *data;
  size_t size;
} bytes;

static void add(bytes *b, const void *data, size_t size) {
  b->data = realloc(b->data, b->size + size + 1);
  if (!b->data) abort();
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
}

static void add_varint(bytes *b, uint64_t value) {
  uint8_t out[10];
  size_t size = 0;
  for (; value > 127; value >>= 7) out[size++] = (uint8_t)(value | 128);
  out[size++] = (uint8_t)value;
  add(b, out, size);
}

static void add_number(bytes *b, unsigned field, uint64_t value) {
  add_varint(b, field << 3);
  add_varint(b, value);
}

static void add_bytes(bytes *b, unsigned field, const void *data, size_t size) {
  add_varint(b, field << 3 | 2);
  add_varint(b, size);
  add(b, data, size);
}

/* Payload { body = 2 } of zeros, as field `field`. */
static void add_payload(bytes *b, unsigned field, size_t size) {
  bytes payload = {0};
  uint8_t *zeros = calloc(1, size + 1);
  add_bytes(&payload, 2, zeros, size);
  add_bytes(b, field, payload.data, payload.size);
  free(zeros);
  free(payload.data);
}

/* EchoStatus { code = 1, message = 2 } as field 7. */
static void add_status(bytes *b, int code, const char *message) {
  bytes status = {0};
  add_number(&status, 1, (uint64_t)code);
  add_bytes(&status, 2, message, strlen(message));
  add_bytes(b, 7, status.data, status.size);
  free(status.data);
}

/* ResponseParameters { size = 1 } as field 2 of StreamingOutputCallRequest. */
static void add_response(bytes *b, size_t size) {
  bytes parameters = {0};
  add_number(&parameters, 1, size);
  add_bytes(b, 2, parameters.data, parameters.size);
  free(parameters.data);
}

static bool next_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

/* A field by its number: the varint, or the size of the bytes with `*inside`. SIZE_MAX: absent. */
static size_t find_field(const void *data, size_t size, unsigned number, const void **inside) {
  const uint8_t *at = data, *end = at + size;
  uint64_t tag, value;
  while (at < end && next_varint(&at, end, &tag) && next_varint(&at, end, &value)) {
    if (tag >> 3 == number) {
      if (inside) *inside = at;
      return (size_t)value;
    }
    if ((tag & 7) == 2) at += value;
  }
  return SIZE_MAX;
}

/* The size of the body of the payload in field 1. */
static size_t body_size(trn_slice message) {
  const void *payload = NULL;
  size_t size = find_field(message.data, message.size, 1, &payload);
  return size == SIZE_MAX ? 0 : find_field(payload, size, 2, NULL);
}

/* ---- a call ---- */

typedef struct call {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  trn_client_call *handle;
  trn_slice messages[64];
  size_t count;
  bool is_done;
  trn_status status;
  char message[256], initial[64], trailing[64];
  size_t trailing_size;
} call;

static trn_channel *channel;

static void on_initial(trn_client_call *handle, void *user, const trn_metadata *metadata, size_t count) {
  (void)handle;
  call *c = user;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(metadata[i].key, "x-grpc-test-echo-initial") == 0) {
      snprintf(c->initial, sizeof c->initial, "%.*s", (int)metadata[i].size, (const char *)metadata[i].value);
    }
  }
}

static void on_message(trn_client_call *handle, void *user, trn_slice message) {
  (void)handle;
  call *c = user;
  pthread_mutex_lock(&c->mutex);
  if (c->count < 64) c->messages[c->count++] = message;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->mutex);
}

static void on_done(trn_client_call *handle, void *user, const trn_client_result *result) {
  (void)handle;
  call *c = user;
  pthread_mutex_lock(&c->mutex);
  c->is_done = true;
  c->status = result->status;
  snprintf(c->message, sizeof c->message, "%s", result->message);
  for (size_t i = 0; i < result->trailing_count; i++) {
    const trn_metadata *entry = &result->trailing[i];
    if (strcmp(entry->key, "x-grpc-test-echo-trailing-bin") != 0 || entry->size > sizeof c->trailing) continue;
    memcpy(c->trailing, entry->value, entry->size);
    c->trailing_size = entry->size;
  }
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->mutex);
}

static call *start(const char *method, trn_method_kind kind, int64_t timeout_ms, bool with_metadata) {
  static const trn_client_handlers handlers = {
      .struct_size = sizeof handlers, .on_initial = on_initial, .on_message = on_message, .on_done = on_done};
  static const trn_metadata metadata[] = {
      {"x-grpc-test-echo-initial", "test_initial_metadata_value", 27},
      {"x-grpc-test-echo-trailing-bin", "\xab\xab\xab", 3},
  };
  char path[96];
  call *c = calloc(1, sizeof *c);
  pthread_mutex_init(&c->mutex, NULL);
  pthread_cond_init(&c->changed, NULL);
  snprintf(path, sizeof path, "/grpc.testing.%s", method);
  trn_client_request request = {.struct_size = sizeof request,
                                .path = path,
                                .kind = kind,
                                .metadata = metadata,
                                .metadata_count = with_metadata ? 2 : 0,
                                .timeout_ns = timeout_ms * 1000000,
                                .handlers = &handlers,
                                .user = c};
  if (trn_client_call_start(channel, &request, &c->handle, NULL) != TRN_OK) abort();
  return c;
}

static void send(call *c, bytes *message) {
  trn_slice slice = {message->data, message->size, free, message->data};
  if (!message->data) slice = (trn_slice){.data = ""};
  trn_client_call_send(c->handle, &slice, 1, 0);
  *message = (bytes){0};
}

static bool wait_messages(call *c, size_t count) {
  pthread_mutex_lock(&c->mutex);
  while (c->count < count && !c->is_done) pthread_cond_wait(&c->changed, &c->mutex);
  bool ok = c->count >= count;
  pthread_mutex_unlock(&c->mutex);
  return ok;
}

static void wait_done(call *c) {
  pthread_mutex_lock(&c->mutex);
  while (!c->is_done) pthread_cond_wait(&c->changed, &c->mutex);
  pthread_mutex_unlock(&c->mutex);
}

static bool end(call *c, trn_status status, bool ok) {
  wait_done(c);
  if (c->status != status) printf("  status %d '%s', not %d\n", c->status, c->message, status);
  ok = ok && c->status == status;
  for (size_t i = 0; i < c->count; i++) {
    if (c->messages[i].release) c->messages[i].release(c->messages[i].owner);
  }
  trn_client_call_unref(c->handle);
  free(c);
  return ok;
}

/* ---- the cases ---- */

static bool empty_unary(void) {
  call *c = start("TestService/EmptyCall", TRN_METHOD_UNARY, 10000, false);
  send(c, &(bytes){0});
  trn_client_call_half_close(c->handle);
  wait_done(c);
  return end(c, TRN_OK, c->count == 1 && c->messages[0].size == 0);
}

static call *unary(const char *method, bytes *request, bool with_metadata) {
  call *c = start(method, TRN_METHOD_UNARY, 10000, with_metadata);
  send(c, request);
  trn_client_call_half_close(c->handle);
  wait_done(c);
  return c;
}

static bytes simple_request(size_t response, size_t payload) {
  bytes request = {0};
  add_number(&request, 2, response);
  add_payload(&request, 3, payload);
  return request;
}

static bool large_unary(void) {
  bytes request = simple_request(314159, 271828);
  call *c = unary("TestService/UnaryCall", &request, false);
  return end(c, TRN_OK, c->count == 1 && body_size(c->messages[0]) == 314159);
}

static bool client_streaming(void) {
  static const size_t sizes[] = {27182, 8, 1828, 45904};
  call *c = start("TestService/StreamingInputCall", TRN_METHOD_CLIENT_STREAM, 10000, false);
  for (int i = 0; i < 4; i++) {
    bytes request = {0};
    add_payload(&request, 1, sizes[i]);
    send(c, &request);
  }
  trn_client_call_half_close(c->handle);
  wait_done(c);
  return end(c, TRN_OK, c->count == 1 && find_field(c->messages[0].data, c->messages[0].size, 1, NULL) == 74922);
}

static const size_t response_sizes[] = {31415, 9, 2653, 58979};

static bool server_streaming(void) {
  bytes request = {0};
  for (int i = 0; i < 4; i++) add_response(&request, response_sizes[i]);
  call *c = start("TestService/StreamingOutputCall", TRN_METHOD_SERVER_STREAM, 10000, false);
  send(c, &request);
  trn_client_call_half_close(c->handle);
  for (int i = 0; i < 5; i++) trn_client_call_recv(c->handle);
  wait_done(c);
  bool ok = c->count == 4;
  for (size_t i = 0; i < 4 && ok; i++) ok = body_size(c->messages[i]) == response_sizes[i];
  return end(c, TRN_OK, ok);
}

static bool ping(call *c, size_t index, size_t response, size_t payload) {
  bytes request = {0};
  add_response(&request, response);
  add_payload(&request, 3, payload);
  trn_client_call_recv(c->handle);
  send(c, &request);
  return wait_messages(c, index + 1) && body_size(c->messages[index]) == response;
}

static bool ping_pong(void) {
  static const size_t payloads[] = {27182, 8, 1828, 45904};
  call *c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 10000, false);
  bool ok = true;
  for (size_t i = 0; i < 4 && ok; i++) ok = ping(c, i, response_sizes[i], payloads[i]);
  trn_client_call_half_close(c->handle);
  return end(c, TRN_OK, ok);
}

static bool empty_stream(void) {
  call *c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 10000, false);
  trn_client_call_half_close(c->handle);
  trn_client_call_recv(c->handle);
  wait_done(c);
  return end(c, TRN_OK, c->count == 0);
}

static bool timeout_on_sleeping_server(void) {
  call *c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 1, false);
  bytes request = {0};
  add_payload(&request, 3, 27182);
  send(c, &request);
  return end(c, TRN_DEADLINE_EXCEEDED, true);
}

static bool cancel_after_begin(void) {
  call *c = start("TestService/StreamingInputCall", TRN_METHOD_CLIENT_STREAM, 10000, false);
  trn_client_call_cancel(c->handle);
  return end(c, TRN_CANCELLED, true);
}

static bool cancel_after_first_response(void) {
  call *c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 10000, false);
  bool ok = ping(c, 0, 31415, 27182);
  trn_client_call_cancel(c->handle);
  return end(c, TRN_CANCELLED, ok);
}

static bool status_is_echoed(const char *text) {
  bytes request = {0};
  add_status(&request, TRN_UNKNOWN, text);
  call *c = unary("TestService/UnaryCall", &request, false);
  bool ok = end(c, TRN_UNKNOWN, strcmp(c->message, text) == 0);
  add_status(&request, TRN_UNKNOWN, text);
  c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 10000, false);
  send(c, &request);
  trn_client_call_half_close(c->handle);
  trn_client_call_recv(c->handle);
  wait_done(c);
  return end(c, TRN_UNKNOWN, strcmp(c->message, text) == 0) && ok;
}

static bool status_code_and_message(void) {
  return status_is_echoed("test status message");
}

static bool special_status_message(void) {
  return status_is_echoed("\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and non-BMP \xf0\x9f\x98\x88\t\n");
}

static bool has_echoes(const call *c) {
  return strcmp(c->initial, "test_initial_metadata_value") == 0 && c->trailing_size == 3 &&
         memcmp(c->trailing, "\xab\xab\xab", 3) == 0;
}

static bool custom_metadata(void) {
  bytes request = simple_request(314159, 271828);
  call *c = unary("TestService/UnaryCall", &request, true);
  bool ok = has_echoes(c);
  ok = end(c, TRN_OK, ok);
  c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 10000, true);
  ok = ping(c, 0, 314159, 271828) && ok;
  trn_client_call_half_close(c->handle);
  wait_done(c);
  ok = has_echoes(c) && ok;
  return end(c, TRN_OK, ok);
}

static bool unimplemented_method(void) {
  call *c = unary("TestService/UnimplementedCall", &(bytes){0}, false);
  return end(c, TRN_UNIMPLEMENTED, true);
}

static bool unimplemented_service(void) {
  call *c = unary("UnimplementedService/UnimplementedCall", &(bytes){0}, false);
  return end(c, TRN_UNIMPLEMENTED, true);
}

/* 1,000 calls open at once, each answered once and ended. */
static bool thousand_streams(void) {
  enum { COUNT = 1000 };
  call **calls = calloc(COUNT, sizeof(call *));
  bool ok = true;
  for (int i = 0; i < COUNT; i++) {
    bytes request = {0};
    add_response(&request, (size_t)i + 1);
    calls[i] = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 60000, false);
    trn_client_call_recv(calls[i]->handle);
    send(calls[i], &request);
  }
  for (int i = 0; i < COUNT; i++) {
    ok = wait_messages(calls[i], 1) && body_size(calls[i]->messages[0]) == (size_t)i + 1 && ok;
    trn_client_call_half_close(calls[i]->handle);
  }
  for (int i = 0; i < COUNT; i++) ok = end(calls[i], TRN_OK, true) && ok;
  free(calls);
  return ok;
}

/* 64 MB there and back, in messages of 3 MB. */
static bool large_messages(void) {
  call *c = start("TestService/FullDuplexCall", TRN_METHOD_BIDI, 60000, false);
  bool ok = true;
  for (size_t i = 0; i < 21 && ok; i++) ok = ping(c, i, 3000000, 3000000);
  trn_client_call_half_close(c->handle);
  return end(c, TRN_OK, ok);
}

static const struct {
  const char *name;
  bool (*run)(void);
} cases[] = {
    {"empty_unary", empty_unary},
    {"large_unary", large_unary},
    {"client_streaming", client_streaming},
    {"server_streaming", server_streaming},
    {"ping_pong", ping_pong},
    {"empty_stream", empty_stream},
    {"timeout_on_sleeping_server", timeout_on_sleeping_server},
    {"cancel_after_begin", cancel_after_begin},
    {"cancel_after_first_response", cancel_after_first_response},
    {"status_code_and_message", status_code_and_message},
    {"special_status_message", special_status_message},
    {"custom_metadata", custom_metadata},
    {"unimplemented_method", unimplemented_method},
    {"unimplemented_service", unimplemented_service},
    {"thousand_streams", thousand_streams},
    {"large_messages", large_messages},
};

static char *read_file(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = calloc(1, 65536);
  if (!file || !text || !fread(text, 1, 65535, file)) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(2);
  }
  fclose(file);
  return text;
}

static bool is_chosen(const char *name, char **chosen, int count) {
  if (!count) return true;
  for (int i = 0; i < count; i++) {
    if (strcmp(name, chosen[i]) == 0) return true;
  }
  return false;
}

int main(int argc, char **argv) {
  trn_channel_options options = {.struct_size = sizeof options, .message_bytes_max = 16u << 20};
  char *ca = NULL;
  int at = 1, failed = 0;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "--target") == 0) options.target = argv[at + 1];
    if (strcmp(argv[at], "--ca") == 0) options.ca_pem = ca = read_file(argv[at + 1]);
    if (strcmp(argv[at], "--server-name") == 0) options.server_name = argv[at + 1];
  }
  trn_connector *connector = NULL;
  trn_error *error = NULL;
  if (trn_connector_create_network(NULL, &connector, &error) ||
      trn_channel_open(connector, &options, &channel, &error)) {
    fprintf(stderr, "%s\n", trn_error_message(error));
    return 2;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (!is_chosen(cases[i].name, argv + at, argc - at)) continue;
    bool ok = cases[i].run();
    printf("%s  %s\n", ok ? "ok    " : "FAILED", cases[i].name);
    failed += !ok;
  }
  trn_channel_unref(channel);
  trn_connector_unref(connector);
  free(ca);
  return failed;
}
