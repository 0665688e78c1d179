/* Sixteen threads open, send, read, cancel and close at random on channels that come and go, over every transport. What
 * counts is that each call ends once and nothing is left; the rest is for the sanitizers. */
#include "client_fixture.h"

typedef struct gust {
  atomic_int refs, dones, errors;
  bool reads;
} gust;

static atomic_int open_gusts, total, double_dones;

static void gust_unref(gust *g) {
  if (atomic_fetch_sub(&g->refs, 1) != 1) return;
  if (atomic_load(&g->dones) != 1) atomic_fetch_add(&double_dones, 1);
  free(g);
  atomic_fetch_sub(&open_gusts, 1);
}

static void gust_message(trn_client_call *call, void *user, trn_slice message) {
  gust *g = user;
  if (atomic_load(&g->dones)) atomic_fetch_add(&double_dones, 1);
  if (message.release) message.release(message.owner);
  if (g->reads) trn_client_call_recv(call);
}

static void gust_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call, (void)result;
  gust *g = user;
  atomic_fetch_add(&g->dones, 1);
  gust_unref(g);
}

static const trn_client_handlers gust_handlers = {
    .struct_size = sizeof gust_handlers, .on_message = gust_message, .on_done = gust_done};

typedef struct sailor {
  peer *p;
  pthread_t thread;
  uint32_t random;
  int64_t until_ms;
} sailor;

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint32_t dice(sailor *s, uint32_t sides) {
  s->random = s->random * 1664525 + 1013904223;
  return (s->random >> 16) % sides;
}

static void one_call(sailor *s, trn_channel *channel) {
  static const char *const paths[] = {"/t.Test/Echo", "/t.Test/Stream", "/t.Test/Chat",   "/t.Test/Sum", "/t.Test/Hang",
                                      "/t.Test/Fail", "/t.Test/Abort",  "/t.Test/Worker", "/t.Test/No"};
  static const trn_method_kind kinds[] = {TRN_METHOD_UNARY,         TRN_METHOD_SERVER_STREAM, TRN_METHOD_BIDI,
                                          TRN_METHOD_CLIENT_STREAM, TRN_METHOD_UNARY,         TRN_METHOD_UNARY,
                                          TRN_METHOD_UNARY,         TRN_METHOD_SERVER_STREAM, TRN_METHOD_UNARY};
  static const trn_retry_policy policy = {
      .struct_size = sizeof policy, .attempts_max = 2, .backoff_ms = 2, .statuses = 1u << TRN_INVALID_ARGUMENT};
  uint32_t kind = dice(s, 9);
  gust *g = calloc(1, sizeof *g);
  atomic_store(&g->refs, 2);
  g->reads = dice(s, 4) != 0;
  trn_client_request request = {.struct_size = sizeof request,
                                .path = paths[kind],
                                .kind = kinds[kind],
                                .timeout_ns = (int64_t)(dice(s, 3) ? 1000 : 5) * 1000000,
                                .wait_for_ready = dice(s, 2),
                                .retry = dice(s, 2) ? &policy : NULL,
                                .compress = dice(s, 3) == 0,
                                .handlers = &gust_handlers,
                                .user = g};
  trn_client_call *call = NULL;
  atomic_fetch_add(&open_gusts, 1);
  if (trn_client_call_start(channel, &request, &call, NULL) != TRN_OK) abort();
  atomic_fetch_add(&total, 1);
  for (uint32_t i = dice(s, 5); i > 0; i--) {
    trn_slice slice = kind != 1 && dice(s, 2) ? service_slice(&s->p->service, 1 + dice(s, 30000), '7')
                                              : (trn_slice){.data = "9 20000", .size = 7};
    trn_client_call_send(call, &slice, 1, dice(s, 2) ? TRN_SEND_MORE : TRN_SEND_COMPRESS);
    if (dice(s, 2)) trn_client_call_recv(call);
  }
  trn_client_call_recv(call);
  if (dice(s, 5)) trn_client_call_half_close(call);
  if (dice(s, 3) == 0) sleep_ms(dice(s, 3));
  if (dice(s, 2)) trn_client_call_cancel(call);
  trn_client_call_unref(call);
  gust_unref(g);
}

static void *sail(void *argument) {
  sailor *s = argument;
  for (int round = 0; round < 25 && now_ms() < s->until_ms; round++) { /* 8,000 calls of all threads are enough */
    trn_channel *own = dice(s, 4) == 0 ? peer_open(s->p, (trn_channel_options){.backoff_ms = 1}) : NULL;
    for (int i = 0; i < 20; i++) one_call(s, own ? own : s->p->channel);
    trn_channel_unref(own);
  }
  return NULL;
}

static void sixteen_threads(void **state) {
  sailor sailors[16];
  int64_t until = now_ms() + 1000;
  atomic_store(&total, 0);
  for (unsigned i = 0; i < 16; i++) {
    sailors[i] = (sailor){.p = *state, .random = 77 + i, .until_ms = until};
    pthread_create(&sailors[i].thread, NULL, sail, &sailors[i]);
  }
  for (unsigned i = 0; i < 16; i++) pthread_join(sailors[i].thread, NULL);
  for (int i = 0; i < 5 && !wait_for_count(&open_gusts, 0); i++) {
    print_message("           %d of %d calls are still open\n", atomic_load(&open_gusts), atomic_load(&total));
  }
  assert_int_equal(atomic_load(&open_gusts), 0);
  assert_int_equal(atomic_load(&double_dones), 0);
  print_message("           %d calls\n", atomic_load(&total));
  assert_true(atomic_load(&total) > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(sixteen_threads, peer_set_up, peer_tear_down)};
  int failed = 0;
  for (transport = OVER_INPROC; transport <= OVER_UNIX; transport++)
    failed += cmocka_run_group_tests(tests, NULL, wait_until_alone);
  return failed;
}
