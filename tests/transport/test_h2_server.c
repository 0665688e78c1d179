/* What the options of the bundled server promise: who calls, unix sockets, plain GET, PINGs, idle connections. */
#include "h2_fixture.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <trunnion/client.h>

/* ---- who calls ---- */

typedef struct guard {
  atomic_int asked, released, destroyed;
  atomic_int pause_ms;
} guard;

static void guard_release(trn_identity *identity) {
  guard *g = identity->owner;
  atomic_fetch_add(&g->released, 1);
}

static trn_status guard_authenticate(void *self, const trn_credentials *credentials, trn_identity *out,
                                     trn_error **error) {
  static const char *const groups[] = {"readers", "writers"};
  guard *g = self;
  atomic_fetch_add(&g->asked, 1);
  if (atomic_load(&g->pause_ms)) sleep_ms((unsigned)atomic_load(&g->pause_ms));
  if (!credentials->authorization || strncmp(credentials->authorization, "Bearer ", 7) != 0) {
    return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "A token is needed");
  }
  out->user = strcmp(credentials->authorization, "Bearer alice") == 0 ? "alice" : "somebody";
  out->groups = groups;
  out->group_count = 2;
  out->release = guard_release;
  out->owner = g;
  return TRN_OK;
}

static void guard_destroy(void *self) {
  atomic_fetch_add(&((guard *)self)->destroyed, 1);
}

/* Answers with the caller's name and groups. */
static void whoami_message(trn_call *call, void *user, trn_slice message) {
  (void)user;
  const char *const *groups = NULL;
  size_t count = trn_call_groups(call, &groups);
  const char *name = trn_call_identity(call);
  char text[128];
  trn_slice reply = {.data = text};
  reply.size = (size_t)snprintf(text, sizeof text, "%s/%zu/%s/%s", name ? name : "nobody", count,
                                count ? groups[0] : "", count > 1 ? groups[1] : "");
  drop_message(message);
  trn_call_send(call, &reply, 1, TRN_SEND_MORE);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void whoami_done(trn_call *call, void *user) {
  (void)call, (void)user;
}

static void start_guarded(fixture *f, guard *g) {
  static const trn_authenticator_ops ops = {
      .struct_size = sizeof ops, .authenticate = guard_authenticate, .destroy = guard_destroy};
  trn_method method = {
      .struct_size = sizeof method, .path = "/t.Test/WhoAmI", .on_message = whoami_message, .on_done = whoami_done};
  trn_authenticator *authenticator = NULL;
  assert_int_equal(trn_authenticator_create(&ops, g, &authenticator), TRN_OK);
  f->routes = service_routes(&f->service);
  assert_int_equal(trn_routes_add(f->routes, &method, 1, NULL), TRN_OK);
  trn_server_options options = {
      .struct_size = sizeof options, .listen = "127.0.0.1:0", .loops = 2, .authenticator = authenticator};
  assert_int_equal(trn_server_start(f->routes, &options, &f->server, NULL), TRN_OK);
  trn_authenticator_unref(authenticator);
  f->port = trn_server_port(f->server);
}

static void stop_guarded(fixture *f, guard *g) {
  trn_server_stop(f->server, 0);
  assert_true(service_is_clean(&f->service));
  trn_routes_destroy(f->routes);
  assert_int_equal(g->destroyed, 1);
}

static void the_authenticator_says_who_calls(void **state) {
  (void)state;
  fixture f = {0};
  guard g = {0};
  start_guarded(&f, &g);
  h2_client *client = client_connect(f.port, true, 0);
  expect(ask(client, "/t.Test/WhoAmI", NULL, 0, "x", 1), 16, "A token is needed");
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 16, "A token is needed");
  assert_int_equal(atomic_load(&f.service.opens), 0);
  nghttp2_nv alice = client_nv("authorization", "Bearer alice"), bob = client_nv("authorization", "Bearer bob");
  const uint8_t *data = NULL;
  int asked = atomic_load(&g.asked);
  for (int i = 0; i < 3; i++) {
    h2_reply *reply = ask(client, "/t.Test/WhoAmI", &alice, 1, "x", 1);
    expect(reply, 0, "");
    size_t size = message_at(reply, 0, &data, NULL);
    assert_int_equal(size, strlen("alice/2/readers/writers"));
    assert_memory_equal(data, "alice/2/readers/writers", size);
  }
  assert_int_equal(atomic_load(&g.asked), asked + 1); /* the connection remembers */
  h2_reply *reply = ask(client, "/t.Test/WhoAmI", &bob, 1, "x", 1);
  expect(reply, 0, "");
  assert_int_equal(message_at(reply, 0, &data, NULL), strlen("somebody/2/readers/writers"));
  assert_int_equal(atomic_load(&g.asked), asked + 2);
  /* Messages that come before the answer are kept; a cancel and a deadline meanwhile are survived. */
  atomic_store(&g.pause_ms, 100);
  nghttp2_nv carol = client_nv("authorization", "Bearer carol");
  h2_reply *sum = client_call(client, "/t.Test/Sum", &carol, 1);
  static char block[1000000];
  for (int i = 0; i < 5; i++) client_message(client, sum, block, 300000, i == 4);
  client_finish(client, sum);
  expect(sum, 0, "");
  assert_int_equal(message_at(sum, 0, &data, NULL), 7);
  assert_memory_equal(data, "1500000", 7);
  nghttp2_nv dave[2] = {client_nv("authorization", "Bearer dave"), client_nv("grpc-timeout", "20m")};
  expect(ask(client, "/t.Test/Echo", dave, 2, "x", 1), 4, "");
  h2_reply *cancelled = client_call(client, "/t.Test/Echo", &dave[0], 1);
  client_run(client, 20);
  client_cancel(client, cancelled, NGHTTP2_CANCEL);
  client_run(client, 150);
  client_close(client);
  /* A connection that goes while the question is asked; a stop meanwhile. */
  client = client_connect(f.port, true, 0);
  client_message(client, client_call(client, "/t.Test/Echo", &alice, 1), "x", 1, true);
  client_run(client, 20);
  client_close(client);
  client = client_connect(f.port, true, 0);
  client_message(client, client_call(client, "/t.Test/Echo", &alice, 1), "x", 1, true);
  client_run(client, 20);
  stop_guarded(&f, &g);
  client_close(client);
}

static void many_callers_at_once_are_told_apart(void **state) {
  (void)state;
  fixture f = {0};
  guard g = {.pause_ms = 5};
  start_guarded(&f, &g);
  h2_client *client = client_connect(f.port, true, 0);
  char tokens[40][32];
  h2_reply *replies[40];
  for (int i = 0; i < 40; i++) {
    snprintf(tokens[i], sizeof tokens[i], i % 3 ? "Bearer alice" : "Bearer %d", i);
    nghttp2_nv nv = client_nv("authorization", tokens[i]);
    replies[i] = client_call(client, "/t.Test/WhoAmI", &nv, 1);
    client_message(client, replies[i], "x", 1, true);
  }
  for (int i = 0; i < 40; i++) {
    const uint8_t *data = NULL;
    client_finish(client, replies[i]);
    expect(replies[i], 0, "");
    size_t size = message_at(replies[i], 0, &data, NULL);
    const char *want = i % 3 ? "alice/2/readers/writers" : "somebody/2/readers/writers";
    assert_int_equal(size, strlen(want));
    assert_memory_equal(data, want, size);
  }
  client_close(client);
  stop_guarded(&f, &g);
}

/* ---- unix sockets ---- */

static void a_socket_file_is_made_replaced_and_removed(void **state) {
  (void)state;
  char path[64], listen[80];
  snprintf(path, sizeof path, "/tmp/trn-server-%d.sock", (int)getpid());
  snprintf(listen, sizeof listen, "unix:%s", path);
  call_service service = {0};
  trn_routes *routes = service_routes(&service);
  trn_server_options options = {.struct_size = sizeof options, .listen = listen};
  /* A file that is no socket stays; so does a socket that somebody listens on. */
  FILE *file = fopen(path, "w");
  fputs("mine", file);
  fclose(file);
  trn_server *server = NULL, *second = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_server_start(routes, &options, &server, &error), TRN_UNAVAILABLE);
  assert_non_null(strstr(trn_error_message(error), path));
  trn_error_unref(error);
  assert_int_equal(unlink(path), 0);
  /* One that was left behind is replaced. */
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int left = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(left, (struct sockaddr *)&address, sizeof address), 0);
  close(left);
  assert_int_equal(trn_server_start(routes, &options, &server, NULL), TRN_OK);
  assert_int_equal(trn_server_port(server), 0);
  assert_int_equal(trn_server_start(routes, &options, &second, NULL), TRN_UNAVAILABLE);
  trn_server_stop(server, 0);
  assert_int_equal(access(path, F_OK), -1);
  char longer[300] = "unix:/";
  memset(longer + 6, 'x', 250);
  options.listen = longer;
  assert_int_equal(trn_server_start(routes, &options, &server, NULL), TRN_INVALID_ARGUMENT);
  trn_routes_destroy(routes);
}

/* ---- plain GET ---- */

static void get(void *user, const char *path, trn_http_response *response) {
  atomic_fetch_add((atomic_int *)user, 1);
  if (strcmp(path, "/metrics?x=1") != 0 && strcmp(path, "/big") != 0) return;
  size_t size = path[1] == 'b' ? 3000000 : 5;
  char *body = malloc(size);
  memset(body, 'm', size);
  response->status = 200;
  response->content_type = "text/x-metrics";
  response->body = (trn_slice){body, size, free, body};
}

static size_t http1(int port, const char *request, char *out, size_t capacity) {
  int fd = client_socket(port, 0);
  size_t have = 0;
  for (const char *at = request; *at; at++) { /* byte by byte */
    raw_send(fd, at, 1);
    if (at - request < 8) sleep_ms(2);
  }
  for (;;) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    ssize_t got = poll(&poller, 1, 5000) > 0 ? recv(fd, out + have, capacity - 1 - have, 0) : -1;
    if (got <= 0) break;
    have += (size_t)got;
  }
  out[have] = 0;
  close(fd);
  return have;
}

static void plain_get_is_answered_beside_grpc(void **state) {
  (void)state;
  fixture f = {0};
  atomic_int gets = 0;
  assert_int_equal(start_server(&f, (trn_server_options){.loops = 2, .http_get = get, .http_user = &gets}), 0);
  enum { CAPACITY = 4000000 };
  char *answer = malloc(CAPACITY);
  http1(f.port, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", answer, CAPACITY);
  assert_non_null(strstr(answer, "HTTP/1.1 200 OK\r\n"));
  assert_non_null(strstr(answer, "Content-Type: text/x-metrics\r\n"));
  assert_non_null(strstr(answer, "\r\n\r\nmmmmm"));
  http1(f.port, "GET /else HTTP/1.0\r\n\r\n", answer, CAPACITY);
  assert_non_null(strstr(answer, "HTTP/1.1 404"));
  size_t size = http1(f.port, "GET /big HTTP/1.1\r\n\r\n", answer, CAPACITY);
  assert_in_range(size, 3000050, 3000200);
  assert_int_equal(http1(f.port, "GET nonsense\r\n\r\n", answer, CAPACITY), 0);
  assert_int_equal(http1(f.port, "POST / HTTP/1.1\r\n\r\n", answer, CAPACITY) > 0 && strstr(answer, "200"), 0);
  char longer[9000] = "GET /";
  memset(longer + 5, 'x', sizeof longer - 6);
  assert_int_equal(http1(f.port, longer, answer, CAPACITY), 0);
  free(answer);
  /* Over HTTP/2, and gRPC on the same port. */
  h2_client *client = client_connect(f.port, true, 0);
  nghttp2_nv nv[] = {client_nv(":method", "GET"), client_nv(":scheme", "http"), client_nv(":path", "/big"),
                     client_nv(":authority", "x")};
  h2_reply *reply = client_start(client, nv, 4);
  client_write(client, reply, "", 0, true);
  client_finish(client, reply);
  assert_int_equal(reply->http_status, 200);
  assert_int_equal(reply->size, 3000000);
  nv[2] = client_nv(":path", "/else");
  reply = client_start(client, nv, 4);
  client_write(client, reply, "", 0, true);
  client_finish(client, reply);
  assert_int_equal(reply->http_status, 404);
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
  assert_int_equal(gets, 5);
  trn_server_stop(f.server, 0);
  assert_true(service_is_clean(&f.service));
  trn_routes_destroy(f.routes);
}

/* ---- PINGs and idle connections ---- */

static void pings_without_need_end_the_connection(void **state) {
  fixture *f = *state;
  int fd = client_socket(f->port, 0);
  raw_send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  raw_frame(fd, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
  for (int i = 0; i < 6; i++) {
    raw_frame(fd, NGHTTP2_PING, 0, 0, "abcdefgh", 8);
    sleep_ms(5);
  }
  uint8_t bytes[4096];
  size_t have = 0;
  for (;;) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    ssize_t got = poll(&poller, 1, 3000) > 0 ? recv(fd, bytes + have, sizeof bytes - have, 0) : -1;
    if (got <= 0) break;
    have += (size_t)got;
  }
  assert_non_null(memmem(bytes, have, "too_many_pings", 14));
  assert_true(raw_is_closed(fd, 1000));
  close(fd);
  expect_alive(f);
}

static void pings_between_answers_are_welcome(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  for (int i = 0; i < 20; i++) {
    expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
    nghttp2_submit_ping(client->session, 0, NULL);
    client_run(client, 2);
  }
  assert_false(client->is_lost);
  client_close(client);
}

static void an_idle_connection_is_asked_to_leave(void **state) {
  (void)state;
  fixture f = {0};
  assert_int_equal(start_server(&f, (trn_server_options){.loops = 1, .connection_idle_ms = 200}), 0);
  h2_client *client = client_connect(f.port, true, 0);
  h2_reply *hang = client_call(client, "/t.Test/Hang", NULL, 0);
  client_message(client, hang, "x", 1, true);
  client_run(client, 600);
  assert_false(client->is_lost); /* a call is open */
  client_cancel(client, hang, NGHTTP2_CANCEL);
  client_run(client, 1500);
  assert_true(client->is_lost);
  client_close(client);
  trn_server_stop(f.server, 0);
  assert_true(service_is_clean(&f.service));
  trn_routes_destroy(f.routes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_authenticator_says_who_calls),
      cmocka_unit_test(many_callers_at_once_are_told_apart),
      cmocka_unit_test(a_socket_file_is_made_replaced_and_removed),
      cmocka_unit_test(plain_get_is_answered_beside_grpc),
      CASE(pings_without_need_end_the_connection),
      CASE(pings_between_answers_are_welcome),
      cmocka_unit_test(an_idle_connection_is_asked_to_leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
