/* Every allocation fails, once and from then on: of calls, routes, the host without a network, and the bundled server
 * with what it stands on. Then each call still ends, each slice is released, and the server still serves. */
#include "h2_fixture.h"

#include <uv.h>

#include "failing_memory.h"
#include "transport/inproc/inproc.h"

/* ---- routes and calls ---- */

static trn_status add_some(trn_routes *routes, int first, call_service *service) {
  char paths[20][32];
  trn_method methods[20];
  for (int i = 0; i < 20; i++) {
    snprintf(paths[i], sizeof paths[i], "/s/M%d", first + i);
    methods[i] = (trn_method){.struct_size = sizeof *methods,
                              .path = paths[i],
                              .on_message = echo_message,
                              .on_done = service_done,
                              .service = service};
  }
  return trn_routes_add(routes, methods, 20, NULL);
}

static void ignore(void *service) {
  (void)service;
}

static void routes_survive_without_memory(void **state) {
  (void)state;
  call_service service = {0};
  for (int k = 1;; k++) {
    trn_routes *routes = NULL;
    arm(k, true);
    trn_status status = trn_routes_create(&routes);
    for (int i = 0; i < 3 && !status; i++) {
      size_t before = trn_routes_count(routes);
      status = add_some(routes, i * 20, &service);
      if (status) assert_int_equal(trn_routes_count(routes), before);
    }
    for (int i = 0; i < 9 && !status; i++) status = trn_routes_own(routes, ignore, NULL);
    bool failed = disarm();
    assert_int_equal(status, failed ? TRN_RESOURCE_EXHAUSTED : TRN_OK);
    for (size_t i = 0; routes && i < trn_routes_count(routes); i++) {
      const trn_method *method = trn_routes_at(routes, i);
      assert_ptr_equal(trn_routes_find(routes, method->path, strlen(method->path)), method);
    }
    trn_routes_destroy(routes);
    if (!failed) break;
  }
}

static void calls_without_a_network_survive_without_memory(void **state) {
  (void)state;
  static const char *const paths[] = {"/t.Test/Echo", "/t.Test/Fail", "/t.Test/Stream", "/t.Test/Chat", "/t.Test/No"};
  call_service service = {0};
  trn_routes *routes = service_routes(&service);
  int reached = 0;
  for (int k = 1, quiet = 0; quiet < 3; k++) {
    trn_inproc *inproc = NULL;
    arm(k, true);
    trn_status status = trn__inproc_create(routes, &inproc);
    for (size_t i = 0; i < 5 && !status; i++) {
      const trn_metadata metadata[] = {{"x-echo", "1", 1}, {"x-echo-bin", "22", 2}};
      trn_inproc_request request = {
          .path = paths[i], .metadata = metadata, .metadata_count = 2, .timeout_ns = 5000000000};
      trn_slice message = {.data = "3 100", .size = 5};
      trn_inproc_reply reply;
      status = trn__inproc_invoke(inproc, &request, &message, 1, &reply);
      trn__inproc_reply_finish(&reply);
    }
    bool failed = disarm();
    assert_true(status == TRN_OK || failed);
    trn__inproc_destroy(inproc);
    reached += failed;
    quiet = failed ? 0 : quiet + 1;
  }
  assert_true(reached > 40);
  assert_true(service_is_clean(&service));
  trn_routes_destroy(routes);
}

/* ---- the bundled server ---- */

static void a_server_that_finds_no_memory_does_not_start(void **state) {
  (void)state;
  call_service service = {0};
  trn_routes *routes = service_routes(&service);
  int reached = 0;
  for (int k = 1, quiet = 0; quiet < 3; k++) {
    trn_server *server = NULL;
    trn_error *error = NULL;
    trn_server_options options = {.struct_size = sizeof options, .listen = "127.0.0.1:0", .loops = 2};
    arm(k, true);
    trn_status status = trn_server_start(routes, &options, &server, &error);
    bool failed = disarm();
    assert_true(status == TRN_OK || failed);
    assert_int_equal(status == TRN_OK, server != NULL);
    if (status == TRN_OK) assert_null(error);
    trn_error_unref(error);
    trn_server_stop(server, 0);
    reached += failed;
    quiet = failed ? 0 : quiet + 1;
  }
  assert_true(reached > 6);
  trn_routes_destroy(routes);
}

/* Calls of all kinds. False: one neither ended nor lost its connection. */
static bool use_server(fixture *f) {
  static const char *const paths[] = {"/t.Test/Echo", "/t.Test/Stream", "/t.Test/Chat", "/t.Test/Worker",
                                      "/t.Test/Hang", "/t.Test/Fail",   "/t.Test/None", "/t.Test/Deaf"};
  static const char words[] = "20 9000";
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *replies[8];
  char value[3000];
  bool ok = true;
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = 0;
  for (int i = 0; i < 8; i++) {
    nghttp2_nv extra[] = {client_nv("x-echo", value), client_nv("x-echo-bin", "AAAA"),
                          client_nv("grpc-accept-encoding", "gzip"),
                          client_nv("grpc-timeout", i == 4 || i == 7 ? "10m" : "5S")};
    replies[i] = client_call(client, paths[i], extra, 4);
    client_message(client, replies[i], words, sizeof words - 1, i != 7);
  }
  for (int i = 0; i < 8; i++) ok = (client_finish(client, replies[i]) || client->is_lost) && ok;
  client_close(client);
  return ok;
}

static void the_server_survives_without_memory(void **state) {
  fixture *f = *state;
  int reached = 0;
  assert_true(use_server(f)); /* what is allocated once is there now */
  for (int k = 1, quiet = 0; quiet < 5 && k < 3000; k++) {
    bool lasts = k % 4 == 0; /* each of them would double the time: the k of both are close enough */
    if (lasts) {
      arm_lasting(k, false);
    } else {
      arm(k, false);
    }
    bool ok = use_server(f);
    bool failed = disarm();
    if (!ok) fail_msg("a call hangs when allocation %d fails", k);
    expect_alive(f);
    reached += failed;
    quiet = failed ? 0 : quiet + 1;
  }
  assert_true(reached > 100);
}

int main(void) {
  uv_replace_allocator(spared_malloc, spared_realloc, spared_calloc, free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(routes_survive_without_memory),
      cmocka_unit_test(calls_without_a_network_survive_without_memory),
      cmocka_unit_test(a_server_that_finds_no_memory_does_not_start),
      CASE(the_server_survives_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
