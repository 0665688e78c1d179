/* What the bundled server does after a minute, in seconds: it is compiled in here, with other limits. */
#include "transport/h2/limits.h"
#undef TRN_H2_HANDSHAKE_MS
#undef TRN_H2_KEEPALIVE_MS
#undef TRN_H2_KEEPALIVE_TIMEOUT_MS
#define TRN_H2_HANDSHAKE_MS 1000u
#define TRN_H2_KEEPALIVE_MS 1000u
#define TRN_H2_KEEPALIVE_TIMEOUT_MS 1000u

#include "transport/h2/codec.c"
#include "transport/h2/conn.c"
#include "transport/h2/headers.c"
#include "transport/h2/loop.c"
#include "transport/h2/message.c"
#include "transport/h2/server.c"
#include "transport/h2/session.c"
#include "transport/h2/stream.c"
#include "transport/h2/tls.c"

#include "h2_fixture.h"

static void a_connection_that_says_nothing_is_closed(void **state) {
  fixture *f = *state;
  int fd = client_socket(f->port, 0);
  int64_t begin = client_now_ms();
  assert_true(raw_is_closed(fd, 5000));
  assert_in_range(client_now_ms() - begin, 900, 4000);
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
  while (atomic_load(&f->service.cancels) == 0 && client_now_ms() - begin < 10000) client_run(good, 20);
  assert_in_range(client_now_ms() - begin, 1900, 7000);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_connection_that_says_nothing_is_closed),
      CASE(a_peer_that_answers_no_ping_loses_its_calls_and_only_that),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
