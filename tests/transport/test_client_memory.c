/* Every allocation fails, once and from then on, while a client calls: of channels, calls, retries, nghttp2 and the
 * server, over a network and without one. Each call that was started still ends, once, and afterwards everything works.
 */
#include "client_fixture.h"

#include <uv.h>

#include "failing_memory.h"

/* What a call told, without any memory of its own. */
typedef struct brief {
  atomic_int dones, errors;
  trn_status status;
} brief;

static void brief_message(trn_client_call *call, void *user, trn_slice message) {
  brief *b = user;
  if (atomic_load(&b->dones)) atomic_fetch_add(&b->errors, 1);
  drop_message(message);
  test_may_fail = true; /* from now on also what this loop allocates */
  trn_client_call_recv(call);
}

static void brief_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call;
  brief *b = user;
  b->status = result->status;
  test_may_fail = true;
  atomic_fetch_add(&b->dones, 1);
}

static const trn_client_handlers handlers = {
    .struct_size = sizeof handlers, .on_message = brief_message, .on_done = brief_done};

enum { CALLS = 6 };

/* Calls of all kinds over a new channel. False: one that was started does not end, or ends twice. */
static bool use_client(peer *p) {
  static const char *const paths[CALLS] = {"/t.Test/Echo", "/t.Test/Stream", "/t.Test/Chat",
                                           "/t.Test/Sum",  "/t.Test/Hang",   "/t.Test/Fail"};
  static const trn_method_kind kinds[CALLS] = {TRN_METHOD_UNARY,         TRN_METHOD_SERVER_STREAM, TRN_METHOD_BIDI,
                                               TRN_METHOD_CLIENT_STREAM, TRN_METHOD_UNARY,         TRN_METHOD_UNARY};
  static const trn_retry_policy policy = {
      .struct_size = sizeof policy, .attempts_max = 3, .backoff_ms = 1, .statuses = 1u << TRN_INVALID_ARGUMENT};
  trn_metadata metadata = {"x-echo", "value", 5};
  trn_channel_options options = {.struct_size = sizeof options,
                                 .target = p->target,
                                 .routes = transport == OVER_INPROC ? p->routes : NULL,
                                 .metadata = &metadata,
                                 .metadata_count = 1,
                                 .backoff_ms = 1};
  trn_channel *channel = NULL;
  trn_client_call *calls[CALLS] = {0};
  brief told[CALLS] = {0};
  bool ok = true;
  if (trn_channel_open(p->connector, &options, &channel, NULL) != TRN_OK) return true;
  for (int i = 0; i < CALLS; i++) {
    trn_client_request request = {.struct_size = sizeof request,
                                  .path = paths[i],
                                  .kind = kinds[i],
                                  .timeout_ns = i == 4 ? 10000000 : 0,
                                  .retry = &policy,
                                  .handlers = &handlers,
                                  .user = &told[i]};
    if (trn_client_call_start(channel, &request, &calls[i], NULL) != TRN_OK) continue;
    trn_slice slices[2] = {{.data = "3 ", .size = 2}, {.data = "5000", .size = 4}};
    trn_client_call_send(calls[i], slices, 2, i % 2 ? 0 : TRN_SEND_COMPRESS);
    trn_client_call_recv(calls[i]);
    trn_client_call_half_close(calls[i]);
  }
  for (int i = 0; i < CALLS; i++) {
    if (!calls[i]) continue;
    for (int j = 0; j < 8000 && !atomic_load(&told[i].dones); j++) sleep_ms(1);
    ok = ok && atomic_load(&told[i].dones) == 1;
    if (!ok) print_error("%s does not end\n", paths[i]);
  }
  trn_channel_unref(channel);
  for (int i = 0; i < CALLS; i++) {
    ok = ok && atomic_load(&told[i].dones) <= 1 && !atomic_load(&told[i].errors);
    trn_client_call_unref(calls[i]);
  }
  return ok;
}

static void run_all(peer *p, bool lasts) {
  int reached = 0, step = lasts ? 3 : 1;
  assert_true(use_client(p)); /* what is allocated once is there now, and the loops count */
  for (int k = 1, quiet = 0; quiet < 5 && k < 3000; k += step) {
    if (lasts) {
      arm_lasting(k, true);
    } else {
      arm(k, true);
    }
    bool ok = use_client(p);
    bool failed = disarm();
    if (!ok) fail_msg("a call hangs when allocation %d fails%s", k, lasts ? " and all that follow" : "");
    told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .wait_for_ready = true});
    send_last(t, "x", 1);
    expect_end(t, TRN_OK, "");
    forget(t);
    reached += failed;
    quiet = failed ? 0 : quiet + 1;
  }
  assert_true(reached > (lasts ? 20 : 60));
}

static void calls_end_when_an_allocation_fails(void **state) {
  run_all(*state, false);
}

static void calls_end_when_all_allocations_fail(void **state) {
  run_all(*state, true);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)

int main(void) {
  uv_replace_allocator(spared_malloc, spared_realloc, spared_calloc, free);
  const struct CMUnitTest tests[] = {
      CASE(calls_end_when_an_allocation_fails),
      CASE(calls_end_when_all_allocations_fail),
  };
  int failed = 0;
  for (transport = OVER_INPROC; transport <= OVER_TCP; transport++) {
    failed += cmocka_run_group_tests_name(transport == OVER_INPROC ? "inproc" : "tcp", tests, NULL, NULL);
  }
  return failed;
}
