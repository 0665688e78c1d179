/* What only a client over a network meets: connections that fail, end, are refused; retries; TLS; a server that stops.
 */
#include "client_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tls_texts.h"

/* ---- a service that fails as it is told ---- */

typedef struct flaky {
  atomic_int calls, failures_left;
  trn_status status;
  const char *pushback;
  char seen[8][64];
} flaky;

static void flaky_message(trn_call *call, void *user, trn_slice message) {
  flaky *f = user;
  int index = atomic_fetch_add(&f->calls, 1);
  if (index < 8) snprintf(f->seen[index], 64, "%.*s", (int)message.size, (const char *)message.data);
  if (atomic_fetch_sub(&f->failures_left, 1) > 0) {
    drop_message(message);
    trn_metadata trailing = {"grpc-retry-pushback-ms", f->pushback, f->pushback ? strlen(f->pushback) : 0};
    trn_call_finish(call, f->status, "not now", NULL, 0, &trailing, f->pushback ? 1 : 0);
    return;
  }
  trn_call_send(call, &message, 1, TRN_SEND_MORE);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void flaky_done(trn_call *call, void *user) {
  (void)call, (void)user;
}

static void add_flaky(peer *p, flaky *f) {
  trn_method method = {.struct_size = sizeof method,
                       .path = "/t.Test/Flaky",
                       .kind = TRN_METHOD_UNARY,
                       .on_message = flaky_message,
                       .on_done = flaky_done,
                       .service = f};
  if (trn_routes_add(p->routes, &method, 1, NULL) != TRN_OK) fail_msg("routes");
}

/* The fixture serves before a test can add a route: these tests bring up their own peers. */
static peer *flaky_peer(flaky *f) {
  peer *p = calloc(1, sizeof *p);
  p->routes = service_routes(&p->service);
  add_flaky(p, f);
  if (transport != OVER_INPROC) {
    snprintf(p->target, sizeof p->target, "127.0.0.1:0");
    peer_serve(p, (trn_server_options){.loops = 1});
    assert_int_equal(trn_connector_create_network(NULL, &p->connector, NULL), TRN_OK);
  }
  p->channel = peer_open(p, (trn_channel_options){.retry_bytes_max = 1000});
  return p;
}

static void peer_gone(peer *p) {
  void *state = p;
  assert_int_equal(peer_tear_down(&state), 0);
}

static const trn_retry_policy three = {.struct_size = sizeof three, .attempts_max = 3, .backoff_ms = 20};

static void a_policy_repeats_what_may_be_repeated(void **state) {
  (void)state;
  for (transport = OVER_INPROC; transport <= OVER_TCP; transport++) {
    flaky f = {.failures_left = 2, .status = TRN_UNAVAILABLE};
    peer *p = flaky_peer(&f);
    trn_client_request request = {.path = "/t.Test/Flaky", .retry = &three};
    told *t = begin(p->channel, request);
    send_last(t, "again", 5);
    expect_end(t, TRN_OK, "");
    assert_int_equal(t->attempts, 3);
    assert_int_equal(f.calls, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(f.seen[i], "again");
    forget(t);
    /* More failures than attempts. */
    f.failures_left = 5;
    f.calls = 0;
    t = begin(p->channel, request);
    send_last(t, "again", 5);
    expect_end(t, TRN_UNAVAILABLE, "not now");
    assert_int_equal(f.calls, 3);
    forget(t);
    /* A status that is not in the policy; no policy; a message that was not kept. */
    f.failures_left = 1;
    f.calls = 0;
    f.status = TRN_ABORTED;
    t = begin(p->channel, request);
    send_last(t, "x", 1);
    expect_end(t, TRN_ABORTED, "not now");
    forget(t);
    f.failures_left = 1;
    f.status = TRN_UNAVAILABLE;
    t = call_begin(p->channel, "/t.Test/Flaky", TRN_METHOD_UNARY);
    send_last(t, "x", 1);
    expect_end(t, TRN_UNAVAILABLE, "not now");
    forget(t);
    f.failures_left = 1;
    t = begin(p->channel, request);
    char block[1001] = "";
    send_last(t, block, sizeof block);
    expect_end(t, TRN_UNAVAILABLE, "not now");
    forget(t);
    assert_int_equal(f.calls, 3);
    peer_gone(p);
  }
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void a_server_may_ask_for_a_pause_or_forbid(void **state) {
  (void)state;
  for (transport = OVER_INPROC; transport <= OVER_TCP; transport++) {
    flaky f = {.failures_left = 1, .status = TRN_UNAVAILABLE, .pushback = "300"};
    peer *p = flaky_peer(&f);
    trn_client_request request = {.path = "/t.Test/Flaky", .retry = &three};
    int64_t begun = now_ms();
    told *t = begin(p->channel, request);
    send_last(t, "x", 1);
    expect_end(t, TRN_OK, "");
    assert_in_range(now_ms() - begun, 290, 3000);
    forget(t);
    f.failures_left = 1;
    f.pushback = "-1";
    f.calls = 0;
    t = begin(p->channel, request);
    send_last(t, "x", 1);
    expect_end(t, TRN_UNAVAILABLE, "not now");
    assert_int_equal(f.calls, 1);
    forget(t);
    /* Cancelled in the pause; and a pause longer than the deadline is not waited for. */
    f.failures_left = 1;
    f.pushback = "60000";
    t = begin(p->channel, request);
    send_last(t, "x", 1);
    sleep_ms(100);
    assert_int_equal(t->dones, 0);
    trn_client_call_cancel(t->call);
    expect_end(t, TRN_CANCELLED, "");
    forget(t);
    f.failures_left = 1;
    request.timeout_ns = 5000000000;
    t = begin(p->channel, request);
    send_last(t, "x", 1);
    expect_end(t, TRN_UNAVAILABLE, "not now");
    forget(t);
    peer_gone(p);
  }
}

/* ---- connections ---- */

static void no_server_is_unavailable_and_later_it_works(void **state) {
  peer *p = *state;
  char target[128];
  snprintf(target, sizeof target, "%s", p->target);
  trn_server_stop(p->server, 0);
  p->server = NULL;
  trn_channel *channel = peer_open(p, (trn_channel_options){.backoff_ms = 200});
  told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_UNAVAILABLE, "Cannot connect to");
  forget(t);
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY); /* in the pause: at once */
  send_last(t, "x", 1);
  expect_end(t, TRN_UNAVAILABLE, "Cannot connect to");
  forget(t);
  told *patient = begin(channel, (trn_client_request){.path = "/t.Test/Echo", .wait_for_ready = true});
  send_last(patient, "patience", 8);
  told *late =
      begin(channel, (trn_client_request){.path = "/t.Test/Echo", .wait_for_ready = true, .timeout_ns = 50000000});
  send_last(late, "x", 1);
  expect_end(late, TRN_DEADLINE_EXCEEDED, "");
  forget(late);
  assert_int_equal(patient->dones, 0);
  peer_serve(p, (trn_server_options){.loops = 1});
  expect_end(patient, TRN_OK, "");
  forget(patient);
  trn_channel_unref(channel);
}

static void a_restarted_server_is_found_again(void **state) {
  peer *p = *state;
  for (int i = 0; i < 3; i++) {
    told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .wait_for_ready = true});
    send_last(t, "x", 1);
    expect_end(t, TRN_OK, "");
    forget(t);
    trn_server_stop(p->server, 1000);
    p->server = NULL;
    peer_serve(p, (trn_server_options){.loops = 1});
  }
}

static void a_lost_connection_ends_its_calls(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Hang", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  assert_true(wait_for_count(&p->service.messages, 1));
  trn_server_stop(p->server, 0);
  p->server = NULL;
  expect_end(t, TRN_UNAVAILABLE, "");
  assert_false(t->is_unprocessed);
  forget(t);
}

/* Calls that keep coming while servers stop in an orderly way and come again: none may fail. */
static atomic_bool storm_stops;
static void *storm_run(void *argument) {
  peer *p = argument;
  intptr_t failures = 0, calls = 0;
  while (!atomic_load(&storm_stops)) {
    trn_client_reply reply;
    trn_slice slice = {.data = "x", .size = 1};
    trn_client_request request = {
        .struct_size = sizeof request, .path = "/t.Test/Echo", .wait_for_ready = true, .timeout_ns = 20000000000};
    trn_status status = trn_client_invoke(p->channel, &request, &slice, 1, &reply, NULL);
    if (status || reply.status) {
      failures++;
      print_error("%d %d %s\n", status, reply.status, reply.message);
    }
    trn_client_reply_finish(&reply);
    calls++;
  }
  assert_true(calls > 0);
  return (void *)failures;
}

static void no_call_fails_while_servers_drain(void **state) {
  peer *p = *state;
  pthread_t threads[4];
  atomic_store(&storm_stops, false);
  trn_channel_unref(p->channel);
  p->channel = peer_open(p, (trn_channel_options){.backoff_ms = 20, .backoff_ms_max = 20});
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, storm_run, p);
  for (int i = 0; i < 8; i++) {
    sleep_ms(60);
    trn_server_stop(p->server, 5000);
    p->server = NULL;
    peer_serve(p, (trn_server_options){.loops = 1});
  }
  atomic_store(&storm_stops, true);
  for (int i = 0; i < 4; i++) {
    void *failures = NULL;
    pthread_join(threads[i], &failures);
    assert_int_equal((intptr_t)failures, 0);
  }
}

static void old_and_idle_connections_are_asked_to_leave(void **state) {
  peer *p = *state;
  trn_server_stop(p->server, 0);
  peer_serve(p, (trn_server_options){.loops = 1, .connection_age_ms = 100, .connection_idle_ms = 50});
  for (int i = 0; i < 40; i++) {
    told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .wait_for_ready = true});
    send_last(t, "x", 1);
    expect_end(t, TRN_OK, "");
    forget(t);
    sleep_ms(i % 10 == 0 ? 150 : 5);
  }
}

static void a_silent_server_is_lost(void **state) {
  (void)state;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(fd, 10), 0);
  getsockname(fd, (struct sockaddr *)&address, &size);
  peer p = {0};
  snprintf(p.target, sizeof p.target, "127.0.0.1:%d", ntohs(address.sin_port));
  transport = OVER_TCP;
  assert_int_equal(trn_connector_create_network(NULL, &p.connector, NULL), TRN_OK);
  /* It never answers the preface. */
  trn_channel *channel = peer_open(&p, (trn_channel_options){.connect_timeout_ms = 200});
  told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  expect_end(t, TRN_UNAVAILABLE, "it took too long");
  forget(t);
  trn_channel_unref(channel);
  /* It answers the preface, and nothing else. */
  channel = peer_open(&p, (trn_channel_options){.keepalive_ms = 100, .keepalive_timeout_ms = 100});
  int first = accept(fd, NULL, NULL);
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  int second = accept(fd, NULL, NULL);
  static const char settings[9] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
  assert_int_equal(write(second, settings, 9), 9);
  expect_end(t, TRN_UNAVAILABLE, "answers no PING");
  assert_false(t->is_unprocessed);
  forget(t);
  trn_channel_unref(channel);
  /* Not HTTP/2. */
  channel = peer_open(&p, (trn_channel_options){0});
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  int third = accept(fd, NULL, NULL);
  static const char http1[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
  assert_true(write(third, http1, sizeof http1 - 1) > 0);
  expect_end(t, TRN_UNAVAILABLE, "does not speak HTTP/2");
  forget(t);
  trn_channel_unref(channel);
  trn_connector_unref(p.connector);
  close(first), close(second), close(third), close(fd);
}

static void targets_that_are_none_are_named(void **state) {
  peer *p = *state;
  static const char *const bad[] = {"nothing", "", ":5", "::1:5", "unix:", "host:"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    trn_channel *channel = NULL;
    trn_error *error = NULL;
    trn_channel_options options = {.struct_size = sizeof options, .target = bad[i]};
    assert_int_equal(trn_channel_open(p->connector, &options, &channel, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), "host:port"));
    trn_error_unref(error);
  }
  snprintf(p->target, sizeof p->target, "no-such-host.invalid:1");
  trn_channel *channel = peer_open(p, (trn_channel_options){0});
  told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  expect_end(t, TRN_UNAVAILABLE, "no-such-host.invalid");
  forget(t);
  trn_channel_unref(channel);
}

static void a_name_is_resolved(void **state) {
  peer *p = *state;
  char *colon = strrchr(p->target, ':');
  char target[128];
  snprintf(target, sizeof target, "localhost%s", colon);
  snprintf(p->target, sizeof p->target, "%s", target);
  trn_channel *channel = peer_open(p, (trn_channel_options){0});
  told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_OK, "");
  forget(t);
  trn_channel_unref(channel);
}

static void calls_over_the_servers_stream_limit_wait_their_turn(void **state) {
  peer *p = *state;
  trn_server_stop(p->server, 0);
  peer_serve(p, (trn_server_options){.loops = 1, .streams_max = 5});
  told *calls[30];
  for (int i = 0; i < 30; i++) {
    calls[i] = begin(p->channel,
                     (trn_client_request){.path = "/t.Test/Chat", .kind = TRN_METHOD_BIDI, .wait_for_ready = true});
    trn_client_call_recv(calls[i]->call);
    send_bytes(calls[i], "x", 1);
  }
  trn_client_call_cancel(calls[29]->call);
  expect_end(calls[29], TRN_CANCELLED, "");
  forget(calls[29]);
  for (int i = 0; i < 29; i++) {
    trn_client_call_half_close(calls[i]->call);
    expect_end(calls[i], TRN_OK, "");
    forget(calls[i]);
  }
}

static void messages_are_compressed_both_ways(void **state) {
  peer *p = *state;
  char *block = calloc(1, 1000000);
  told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .compress = true});
  trn_slice slice = {.data = block, .size = 1000000};
  trn_client_call_send(t->call, &slice, 1, TRN_SEND_COMPRESS);
  trn_client_call_half_close(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->messages[0].size, 1000000);
  assert_memory_equal(t->messages[0].data, block, 1000000);
  forget(t);
  free(block);
}

/* ---- the last references fall in a callback ---- */

typedef struct leaver {
  trn_channel *channel;
  trn_connector *connector;
  atomic_int done;
} leaver;

static void leaver_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call, (void)result;
  leaver *l = user;
  trn_channel_unref(l->channel);
  trn_connector_unref(l->connector);
  atomic_store(&l->done, 1);
}

static void everything_may_be_dropped_in_a_callback(void **state) {
  peer *p = *state;
  static const trn_client_handlers handlers = {.struct_size = sizeof handlers, .on_done = leaver_done};
  for (int i = 0; i < 5; i++) {
    leaver l = {0};
    trn_client_call *call = NULL;
    assert_int_equal(trn_connector_create_network(&(trn_network_options){.loops = 2}, &l.connector, NULL), TRN_OK);
    trn_channel_options options = {.struct_size = sizeof options, .target = p->target};
    assert_int_equal(trn_channel_open(l.connector, &options, &l.channel, NULL), TRN_OK);
    trn_client_request request = {
        .struct_size = sizeof request, .path = "/t.Test/Echo", .handlers = &handlers, .user = &l};
    assert_int_equal(trn_client_call_start(l.channel, &request, &call, NULL), TRN_OK);
    trn_slice slice = {.data = "x", .size = 1};
    trn_client_call_send(call, &slice, 1, 0);
    trn_client_call_half_close(call);
    trn_client_call_unref(call);
    assert_true(wait_for_count(&l.done, 1));
  }
  sleep_ms(100); /* the loops end by themselves */
}

/* ---- TLS ---- */

static void tls_checks_the_name_and_brings_a_certificate(void **state) {
  (void)state;
  transport = OVER_TCP;
  tls_texts texts;
  tls_texts_make(&texts);
  peer p = {0};
  p.routes = service_routes(&p.service);
  snprintf(p.target, sizeof p.target, "127.0.0.1:0");
  peer_serve(
      &p, (trn_server_options){.cert_pem = texts.server_cert, .key_pem = texts.server_key, .client_ca_pem = texts.ca});
  assert_int_equal(trn_connector_create_network(NULL, &p.connector, NULL), TRN_OK);
  trn_channel_options good = {
      .ca_pem = texts.ca, .cert_pem = texts.client_cert, .key_pem = texts.client_key, .server_name = "server.test"};
  trn_channel *channel = peer_open(&p, good);
  told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_OK, "");
  const trn_metadata *identity = find(t->trailing, t->trailing_count, "x-identity");
  assert_non_null(identity);
  assert_memory_equal(identity->value, "client.test", 11);
  forget(t);
  /* Other certificates while it runs: a call that is there goes on, new connections get the new ones. */
  told *chat = call_begin(channel, "/t.Test/Chat", TRN_METHOD_BIDI);
  trn_client_call_recv(chat->call);
  send_bytes(chat, "a", 1);
  WAIT_FOR(chat, chat->count == 1);
  tls_texts others;
  tls_texts_make(&others);
  assert_int_equal(trn_server_reload_tls(p.server, "no", "no", NULL, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_server_reload_tls(p.server, others.server_cert, others.server_key, others.ca, NULL), TRN_OK);
  trn_client_call_recv(chat->call);
  send_last(chat, "b", 1);
  WAIT_FOR(chat, chat->count == 2);
  expect_end(chat, TRN_OK, "");
  forget(chat);
  trn_channel_unref(channel);
  channel = peer_open(&p, good);
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  expect_end(t, TRN_UNAVAILABLE, "certificate");
  forget(t);
  trn_channel_unref(channel);
  assert_int_equal(trn_server_reload_tls(p.server, texts.server_cert, texts.server_key, texts.ca, NULL), TRN_OK);
  /* Another name, and none of our own. */
  trn_channel_options wrong = good;
  wrong.server_name = "another.test";
  channel = peer_open(&p, wrong);
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  expect_end(t, TRN_UNAVAILABLE, "mismatch");
  forget(t);
  trn_channel_unref(channel);
  wrong = (trn_channel_options){.ca_pem = texts.ca, .server_name = "server.test"};
  channel = peer_open(&p, wrong);
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_UNAVAILABLE, "");
  forget(t);
  trn_channel_unref(channel);
  /* Plain bytes to a TLS server. */
  channel = peer_open(&p, (trn_channel_options){0});
  t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  expect_end(t, TRN_UNAVAILABLE, "");
  forget(t);
  trn_channel_unref(channel);
  trn_connector_unref(p.connector);
  trn_server_stop(p.server, 0);
  assert_true(service_is_clean(&p.service));
  trn_routes_destroy(p.routes);
  tls_texts_free(&texts);
  tls_texts_free(&others);
}

static int tcp_up(void **state) {
  transport = OVER_TCP;
  return peer_set_up(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, tcp_up, peer_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_policy_repeats_what_may_be_repeated),
      cmocka_unit_test(a_server_may_ask_for_a_pause_or_forbid),
      CASE(no_server_is_unavailable_and_later_it_works),
      CASE(a_restarted_server_is_found_again),
      CASE(a_lost_connection_ends_its_calls),
      CASE(no_call_fails_while_servers_drain),
      CASE(old_and_idle_connections_are_asked_to_leave),
      cmocka_unit_test(a_silent_server_is_lost),
      CASE(targets_that_are_none_are_named),
      CASE(a_name_is_resolved),
      CASE(calls_over_the_servers_stream_limit_wait_their_turn),
      CASE(messages_are_compressed_both_ways),
      CASE(everything_may_be_dropped_in_a_callback),
      cmocka_unit_test(tls_checks_the_name_and_brings_a_certificate),
  };
  return cmocka_run_group_tests(tests, NULL, wait_until_alone);
}
