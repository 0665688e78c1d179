/* The bundled server with clients that do not keep to the rules, and its start and stop. */
#include "h2_fixture.h"

#include <sys/resource.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* A raw connection that has sent the preface and its SETTINGS. */
static int raw_connect(fixture *f) {
  int fd = client_socket(f->port, 0);
  assert_true(fd >= 0);
  raw_send(fd, preface, sizeof preface - 1);
  raw_frame(fd, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
  return fd;
}

/* ---- connections ---- */

static void a_bad_preface_closes_the_connection(void **state) {
  fixture *f = *state;
  static const char *const bad[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxxxxxxxxxxxxxxx",
                                    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client hello, perhaps"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int fd = client_socket(f->port, 0);
    raw_send(fd, bad[i], strlen(bad[i]));
    assert_true(raw_is_closed(fd, 3000));
    close(fd);
  }
  expect_alive(f);
}

static void random_frames_do_no_harm(void **state) {
  fixture *f = *state;
  uint32_t random = 12345;
  for (int i = 0; i < 300; i++) {
    uint8_t payload[300];
    int fd = raw_connect(f);
    for (int j = 0; j < 10; j++) {
      for (size_t k = 0; k < sizeof payload; k++) payload[k] = (uint8_t)((random = random * 1103515245 + 12345) >> 16);
      raw_frame(fd, payload[0] % 11, payload[1], payload[2] % 8, payload + 8, payload[3]);
    }
    if (i % 16 == 0) sleep_ms(5); /* some are read, some are lost with the connection */
    close(fd);
  }
  expect_alive(f);
}

static void endless_continuations_end_the_connection(void **state) {
  fixture *f = *state;
  uint8_t junk[1000];
  memset(junk, 0x40, sizeof junk);
  int fd = raw_connect(f);
  raw_frame(fd, NGHTTP2_HEADERS, 0, 1, "\x83", 1);
  for (int i = 0; i < 20000; i++) raw_frame(fd, NGHTTP2_CONTINUATION, 0, 1, junk, sizeof junk);
  assert_true(raw_is_closed(fd, 3000));
  close(fd);
  expect_alive(f);
}

static void rapid_resets_end_the_connection_or_are_survived(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  for (int i = 0; i < 4090 && !client->is_lost; i++) {
    h2_reply *reply = client_call(client, "/t.Test/Hang", NULL, 0);
    client_step(client, 0);
    client_cancel(client, reply, NGHTTP2_CANCEL);
    client_step(client, 0);
  }
  client_run(client, 50);
  client_close(client);
  expect_alive(f);
}

static void connections_over_the_limit_are_closed(void **state) {
  (void)state;
  fixture f = {0};
  assert_int_equal(start_server(&f, (trn_server_options){.loops = 2, .connections_max = 3}), 0);
  h2_client *clients[3];
  for (int i = 0; i < 3; i++) {
    clients[i] = client_connect(f.port, true, 0);
    expect(ask(clients[i], "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  }
  int fd = client_socket(f.port, 0);
  assert_true(raw_is_closed(fd, 3000));
  close(fd);
  client_close(clients[0]);
  bool ok = false;
  for (int i = 0; i < 100 && !ok; i++) { /* the place is free as soon as the server has seen the end */
    h2_client *client = client_connect(f.port, true, 0);
    ok = ask(client, "/t.Test/Echo", NULL, 0, "x", 1)->grpc_status == 0;
    client_close(client);
    sleep_ms(5);
  }
  assert_true(ok);
  client_close(clients[1]);
  client_close(clients[2]);
  trn_server_stop(f.server, 1000);
  assert_true(service_is_clean(&f.service));
  trn_routes_destroy(f.routes);
}

static void accepting_goes_on_after_descriptors_ran_out(void **state) {
  fixture *f = *state;
  struct rlimit old, few;
  int fds[256], count = 0;
  expect_alive(f);
  int waiting = client_socket(f->port, 0); /* made now, since the limit is the client's too */
  close(waiting);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  few = old;
  few.rlim_cur = 200;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  while (count < 256 && (fds[count] = dup(0)) >= 0) count++;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(waiting, (struct sockaddr *)&address, sizeof address), 0);
  sleep_ms(250); /* several vain tries */
  while (count) close(fds[--count]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
  h2_client *client = client_on(waiting, NULL, true);
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
  expect_alive(f);
}

/* ---- headers ---- */

static void a_huge_header_is_refused_and_the_connection_lives(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  char *value = malloc(60001);
  memset(value, 'h', 60000);
  value[60000] = 0;
  nghttp2_nv extra[2] = {client_nv("x-echo-not", value), client_nv("x-more", value)};
  expect(ask(client, "/t.Test/Echo", extra, 1, "x", 1), 0, "");
  expect(ask(client, "/t.Test/Echo", extra, 2, "x", 1), TRN_RESOURCE_EXHAUSTED, "metadata larger than 65536");
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  assert_int_equal(atomic_load(&f->service.opens), 2);
  free(value);
  client_close(client);
}

static void too_many_binary_values_are_refused(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  char *commas = malloc(20001);
  memset(commas, ',', 20000);
  commas[20000] = 0;
  nghttp2_nv extra = client_nv("x-bin", commas);
  expect(ask(client, "/t.Test/Echo", &extra, 1, "x", 1), TRN_RESOURCE_EXHAUSTED, "metadata");
  free(commas);
  client_close(client);
}

/* ---- messages ---- */

static void a_message_over_the_limit_is_refused_at_its_prefix(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  static const uint8_t huge[5] = {0, 0xff, 0xff, 0xff, 0xff}, one_over[5] = {0, 0, 0x40, 0, 1};
  h2_reply *reply = client_call(client, "/t.Test/Echo", NULL, 0);
  client_write(client, reply, huge, 5, false); /* nothing follows: the answer cannot have waited for the message */
  assert_true(client_finish(client, reply));
  expect(reply, TRN_RESOURCE_EXHAUSTED, "4294967295 vs. 4194304");
  assert_int_equal(reply->error_code, NGHTTP2_NO_ERROR);
  reply = client_call(client, "/t.Test/Sum", NULL, 0);
  client_message(client, reply, "abc", 3, false);
  client_write(client, reply, one_over, 5, false);
  client_finish(client, reply);
  expect(reply, TRN_RESOURCE_EXHAUSTED, "4194305 vs. 4194304");
  expect(ask(client, "/t.Test/Small", NULL, 0, "12345678901234567", 17), TRN_RESOURCE_EXHAUSTED, "17 vs. 16");
  expect(ask(client, "/t.Test/Small", NULL, 0, "1234567890123456", 16), 0, "");
  client_close(client);
}

static void a_broken_request_ends_the_call(void **state) {
  fixture *f = *state;
  static const struct {
    const char *path, *bytes;
    size_t size;
    const char *words;
  } cases[] = {
      {"/t.Test/Echo", "", 0, "without a message"},
      {"/t.Test/Echo", "\0\0\0\0", 4, "inside a message"},
      {"/t.Test/Echo", "\0\0\0\0\5abc", 8, "inside a message"},
      {"/t.Test/Sum", "\0\0\0\0\1a\0\0", 8, "inside a message"},
      {"/t.Test/Echo", "\2\0\0\0\1a", 6, "compressed-flag 2"},
      {"/t.Test/Hang", "\0\0\0\0\1a\0\0\0\0\1b", 12, "More than one"},
  };
  h2_client *client = client_connect(f->port, true, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    h2_reply *reply = client_call(client, cases[i].path, NULL, 0);
    client_write(client, reply, cases[i].bytes, cases[i].size, true);
    client_finish(client, reply);
    expect(reply, TRN_INTERNAL, cases[i].words);
  }
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
}

/* ---- many streams ---- */

static void streams_over_the_limit_are_refused(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *replies[300];
  for (int i = 0; i < 300; i++) { /* sent before the server's SETTINGS could be read */
    replies[i] = client_call(client, "/t.Test/Hang", NULL, 0);
    client_message(client, replies[i], "x", 1, true);
  }
  client_run(client, 200);
  int refused = 0;
  for (int i = 0; i < 300; i++) refused += replies[i]->is_closed && replies[i]->error_code == NGHTTP2_REFUSED_STREAM;
  assert_int_equal(refused, 100);
  assert_int_equal(atomic_load(&f->service.opens), 200);
  for (int i = 0; i < 300; i++) client_cancel(client, replies[i], NGHTTP2_CANCEL);
  client_run(client, 50);
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
}

/* ---- threads: run it under TSan ---- */

static void *run_client(void *argument) {
  fixture *f = argument;
  uint32_t random = (uint32_t)(uintptr_t)&random;
  for (int i = 0; i < 6; i++) {
    h2_client *client = client_connect(f->port, true, 0);
    h2_reply *replies[40];
    for (int j = 0; j < 40; j++) {
      static const char *const paths[] = {"/t.Test/Echo", "/t.Test/Worker", "/t.Test/Stream",
                                          "/t.Test/Chat", "/t.Test/Hang",   "/t.Test/Worker"};
      nghttp2_nv extra = client_nv("grpc-timeout", "30m");
      replies[j] = client_call(client, paths[j % 6], &extra, j % 6 == 4 || j % 12 == 5);
      client_message(client, replies[j], "20 30000", 8, true);
      random = random * 1103515245 + 12345;
      if (random >> 29 == 0) client_cancel(client, replies[j], NGHTTP2_CANCEL);
      client_step(client, 0);
    }
    if (i != 5) { /* the last connection goes in the middle of everything */
      for (int j = 0; j < 40; j++) {
        if (!client_finish(client, replies[j])) atomic_fetch_add(&f->service.errors, 1);
      }
    }
    client_close(client);
  }
  return NULL;
}

static void many_connections_and_workers_at_once(void **state) {
  fixture *f = *state;
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_client, f), 0);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&f->service.errors), 0);
}

/* ---- start and stop ---- */

static void a_server_that_cannot_start_says_why(void **state) {
  fixture *f = *state;
  static const char *const bad[] = {"127.0.0.1", "127.0.0.1:", "::1:80", "127.0.0.1:http-x", "no.such.host.invalid:1"};
  char taken[64];
  trn_server *server = NULL;
  trn_error *error = NULL;
  snprintf(taken, sizeof taken, "127.0.0.1:%d", f->port);
  trn_server_options options = {.struct_size = sizeof options, .listen = taken};
  assert_int_equal(trn_server_start(f->routes, &options, &server, &error), TRN_UNAVAILABLE);
  assert_non_null(strstr(trn_error_message(error), taken));
  assert_null(server);
  trn_error_unref(error);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    error = NULL;
    options.listen = bad[i];
    assert_int_equal(trn_server_start(f->routes, &options, &server, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), bad[i]));
    trn_error_unref(error);
  }
  options = (trn_server_options){.struct_size = sizeof options, .listen = "127.0.0.1:0", .cert_pem = "x"};
  assert_int_equal(trn_server_start(f->routes, &options, &server, NULL), TRN_INVALID_ARGUMENT);
  options.key_pem = "y";
  assert_int_equal(trn_server_start(f->routes, &options, &server, NULL), TRN_INVALID_ARGUMENT);
  trn_server_stop(NULL, 0);
}

static void a_name_listens_on_all_its_addresses(void **state) {
  (void)state;
  static const struct {
    const char *listen, *peer;
  } cases[] = {{"localhost:0", "x-peer: ipv4:127.0.0.1:"},
               {"[::]:0", "x-peer: ipv4:127.0.0.1:"},
               {":0", "x-peer: ipv4:127.0.0.1:"},
               {"0.0.0.0:0", "x-peer: ipv4:127.0.0.1:"}};
  call_service service = {0};
  trn_routes *routes = service_routes(&service);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_server_options options = {.struct_size = sizeof options, .listen = cases[i].listen, .loops = 1};
    trn_server *server = NULL;
    trn_status status = trn_server_start(routes, &options, &server, NULL);
    if (status && cases[i].listen[0] == '[') continue; /* a host without IPv6 */
    assert_int_equal(status, TRN_OK);
    h2_client *client = client_connect(trn_server_port(server), true, 0);
    h2_reply *reply = ask(client, "/t.Test/Echo", NULL, 0, "x", 1);
    expect(reply, 0, "");
    assert_non_null(strstr(reply->headers, cases[i].peer));
    client_close(client);
    trn_server_stop(server, 0);
  }
  trn_routes_destroy(routes);
}

static void stop_cancels_what_outlives_the_grace(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *hang = client_call(client, "/t.Test/Hang", NULL, 0);
  client_message(client, hang, "x", 1, true);
  h2_reply *deaf = client_call(client, "/t.Test/Deaf", NULL, 0);
  client_message(client, deaf, "x", 1, false);
  client_run(client, 30);
  assert_true(wait_for_count(&f->service.opens, 2));
  int64_t begin = client_now_ms();
  trn_server_stop(f->server, 0); /* the client reads nothing meanwhile */
  f->server = NULL;
  assert_in_range(client_now_ms() - begin, 0, 1500);
  assert_int_equal(atomic_load(&f->service.cancels), 2);
  assert_int_equal(atomic_load(&f->service.dones), 2);
  client_run(client, 50);
  expect(hang, TRN_UNAVAILABLE, "shutting down");
  expect(deaf, TRN_UNAVAILABLE, "shutting down");
  assert_true(client->goaways >= 1);
  client_close(client);
}

typedef struct stopping {
  trn_server *server;
  atomic_bool is_stopped;
} stopping;

static void *run_stop(void *argument) {
  stopping *stopping = argument;
  trn_server_stop(stopping->server, 5000);
  atomic_store(&stopping->is_stopped, true);
  return NULL;
}

static void stop_waits_for_running_calls_and_takes_no_new_ones(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0), *idle = client_connect(f->port, true, 0);
  h2_reply *chat = client_call(client, "/t.Test/Chat", NULL, 0);
  client_message(client, chat, "one", 3, false);
  while (chat->size < 8 && !client->is_lost) client_step(client, 5);
  client_run(idle, 20);
  stopping stopping = {.server = f->server};
  f->server = NULL;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_stop, &stopping), 0);
  while (client->goaways < 2 && !client->is_lost) client_step(client, 5);
  assert_int_equal(client->goaway_code, NGHTTP2_NO_ERROR);
  assert_int_equal(client->last_goaway_id, chat->id);
  client_run(idle, 1500);
  assert_true(idle->is_lost); /* nothing ran there */
  assert_false(atomic_load(&stopping.is_stopped));
  int fd = client_socket(f->port, 0); /* nobody listens */
  assert_int_equal(fd, -1);
  client_message(client, chat, "two", 3, true); /* the running call goes on to its end */
  client_finish(client, chat);
  expect(chat, 0, "");
  assert_int_equal(chat->size, 16);
  assert_int_equal(atomic_load(&f->service.cancels), 0);
  pthread_join(thread, NULL);
  client_close(client);
  client_close(idle);
}

static void a_call_on_its_way_when_the_stop_begins_is_served(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  client_run(client, 30);
  client->reads = false; /* has not seen the first GOAWAY when it sends */
  stopping stopping = {.server = f->server};
  f->server = NULL;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_stop, &stopping), 0);
  sleep_ms(50);
  h2_reply *reply = client_call(client, "/t.Test/Echo", NULL, 0);
  client_message(client, reply, "x", 1, true);
  client_step(client, 0);
  client->reads = true;
  client_finish(client, reply);
  expect(reply, 0, "");
  pthread_join(thread, NULL);
  client_close(client);
}

static void a_call_held_by_the_frontend_outlives_the_server(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  client_message(client, client_call(client, "/t.Test/Hold", NULL, 0), "x", 1, true);
  client_run(client, 20);
  assert_true(wait_for_count(&f->service.messages, 1));
  trn_server_stop(f->server, 0);
  f->server = NULL;
  trn_call *held = atomic_exchange(&f->service.held, NULL);
  assert_non_null(held);
  trn_slice slice = service_slice(&f->service, 10, 'x');
  assert_true(trn_call_is_cancelled(held));
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_CLOSED);
  trn_call_finish(held, TRN_OK, NULL, NULL, 0, NULL, 0);
  trn_call_recv(held);
  trn_call_abort(held, TRN_INTERNAL);
  trn_call_unref(held);
  client_close(client);
}

static void a_frozen_client_does_not_hold_up_the_stop(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 4096);
  nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0, 1 << 30);
  nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 30};
  nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, &window, 1);
  client_run(client, 20);
  h2_reply *reply = client_call(client, "/t.Test/Stream", NULL, 0);
  client_message(client, reply, "600 100000", 10, true);
  client->reads = false;
  client_step(client, 0);
  assert_true(wait_for_count(&f->service.messages, 1));
  int64_t begin = client_now_ms();
  trn_server_stop(f->server, 100);
  f->server = NULL;
  assert_in_range(client_now_ms() - begin, 100, 2000);
  assert_int_equal(atomic_load(&f->service.cancels), 1);
  client_close(client);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_bad_preface_closes_the_connection),
      CASE(random_frames_do_no_harm),
      CASE(endless_continuations_end_the_connection),
      CASE(rapid_resets_end_the_connection_or_are_survived),
      cmocka_unit_test(connections_over_the_limit_are_closed),
      CASE(accepting_goes_on_after_descriptors_ran_out),
      CASE(a_huge_header_is_refused_and_the_connection_lives),
      CASE(too_many_binary_values_are_refused),
      CASE(a_message_over_the_limit_is_refused_at_its_prefix),
      CASE(a_broken_request_ends_the_call),
      CASE(streams_over_the_limit_are_refused),
      CASE(many_connections_and_workers_at_once),
      CASE(a_server_that_cannot_start_says_why),
      cmocka_unit_test(a_name_listens_on_all_its_addresses),
      CASE(stop_cancels_what_outlives_the_grace),
      CASE(stop_waits_for_running_calls_and_takes_no_new_ones),
      CASE(a_call_on_its_way_when_the_stop_begins_is_served),
      CASE(a_call_held_by_the_frontend_outlives_the_server),
      CASE(a_frozen_client_does_not_hold_up_the_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
