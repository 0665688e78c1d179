/* What the bundled server does after some time, with short times. */
#include "h2_fixture.h"

static int set_up_fast(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  return start_server(f, (trn_server_options){.loops = 2,
                                              .streams_max = 200,
                                              .handshake_ms = 1000,
                                              .keepalive_ms = 1000,
                                              .keepalive_timeout_ms = 1000,
                                              .stalled_ms = 1000});
}

static void a_connection_that_says_nothing_is_closed(void **state) {
  fixture *f = *state;
  int fd = client_socket(f->port, 0);
  int64_t begin = client_now_ms();
  assert_true(raw_is_closed(fd, 20000));
  assert_true(client_now_ms() - begin >= 900);
  close(fd);
}

static void a_peer_that_answers_no_ping_loses_its_calls_and_only_that(void **state) {
  fixture *f = *state;
  h2_client *idle = client_connect(f->port, true, 0), *good = client_connect(f->port, true, 0),
            *frozen = client_connect(f->port, true, 0);
  client_run(idle, 20);
  client_run(frozen, 20);
  h2_reply *hang = client_call(good, "/t.Test/Hang", NULL, 0);
  client_message(good, hang, "x", 1, true);
  client_message(frozen, client_call(frozen, "/t.Test/Hang", NULL, 0), "x", 1, true);
  client_step(frozen, 20);
  int64_t begin = client_now_ms();
  while (atomic_load(&f->service.cancels) == 0 && client_now_ms() - begin < 20000) client_run(good, 20);
  assert_true(client_now_ms() - begin >= 1900);
  client_run(good, 3000);
  assert_false(good->is_lost);
  assert_false(hang->is_closed);
  assert_int_equal(atomic_load(&f->service.cancels), 1);
  /* Idle gRPC clients do not answer PINGs, so they are not asked. */
  expect(ask(idle, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(idle);
  client_close(good);
  client_close(frozen);
}

#define FAST(name) cmocka_unit_test_setup_teardown(name, set_up_fast, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      FAST(a_connection_that_says_nothing_is_closed),
      FAST(a_peer_that_answers_no_ping_loses_its_calls_and_only_that),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
