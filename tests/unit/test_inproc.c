/* Calls without a network: the call contract from both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/call_service.h"
#include "transport/inproc/inproc.h"

typedef struct fixture {
  call_service service;
  trn_routes *routes;
  trn_inproc *inproc;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->routes = service_routes(&f->service);
  *state = f;
  return trn__inproc_create(f->routes, &f->inproc);
}

static int tear_down(void **state) {
  fixture *f = *state;
  bool clean = service_is_clean(&f->service);
  trn__inproc_destroy(f->inproc);
  trn_routes_destroy(f->routes);
  free(f);
  return clean ? 0 : -1;
}

static trn_slice text_slice(const char *text) {
  return (trn_slice){.data = text, .size = strlen(text)};
}

static const trn_metadata *find(const trn_metadata *metadata, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(metadata[i].key, key) == 0) return &metadata[i];
  }
  return NULL;
}

/* ---- whole calls ---- */

static void unary_carries_message_and_metadata_both_ways(void **state) {
  fixture *f = *state;
  const trn_metadata metadata[] = {{"x-echo", "hello", 5}, {"x-echo-bin", "\0\1", 2}};
  trn_inproc_request request = {.path = "/t.Test/Echo", .metadata = metadata, .metadata_count = 2};
  trn_slice message = service_slice(&f->service, 100000, 'q');
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, &message, 1, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_OK);
  assert_int_equal(reply.message_count, 1);
  assert_int_equal(reply.messages[0].size, 100000);
  assert_int_equal(((const char *)reply.messages[0].data)[99999], 'q');
  const trn_metadata *initial = find(reply.initial, reply.initial_count, "x-echo");
  assert_non_null(initial);
  assert_memory_equal(initial->value, "hello", 5);
  const trn_metadata *trailing = find(reply.trailing, reply.trailing_count, "x-echo-bin");
  assert_non_null(trailing);
  assert_int_equal(trailing->size, 2);
  assert_memory_equal(find(reply.trailing, reply.trailing_count, "x-peer")->value, "inproc:", 7);
  trn__inproc_reply_finish(&reply);
}

static void a_failure_carries_message_and_details(void **state) {
  fixture *f = *state;
  trn_inproc_request request = {.path = "/t.Test/Fail"};
  trn_slice message = text_slice("x");
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, &message, 1, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_INVALID_ARGUMENT);
  assert_string_equal(reply.message, "no\tsuch \xc3\xa4rger, 100%");
  assert_int_equal(reply.details_size, 8);
  assert_memory_equal(reply.details, "de\0tails", 8);
  assert_int_equal(reply.message_count, 0);
  trn__inproc_reply_finish(&reply);
}

static void client_stream_is_pulled_and_summed(void **state) {
  fixture *f = *state;
  trn_inproc_request request = {.path = "/t.Test/Sum"};
  trn_slice messages[] = {text_slice("abc"), text_slice(""), text_slice("defg")};
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, messages, 3, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_OK);
  assert_memory_equal(reply.messages[0].data, "7", 1);
  assert_int_equal(atomic_load(&f->service.messages), 3);
  trn__inproc_reply_finish(&reply);
}

static void bidi_echoes_in_order(void **state) {
  fixture *f = *state;
  trn_inproc_request request = {.path = "/t.Test/Chat"};
  trn_slice messages[] = {text_slice("one"), text_slice("two"), text_slice("three")};
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, messages, 3, &reply), TRN_OK);
  assert_int_equal(reply.message_count, 3);
  assert_memory_equal(reply.messages[0].data, "one", 3);
  assert_memory_equal(reply.messages[2].data, "three", 5);
  trn__inproc_reply_finish(&reply);
}

static void check_refusal(fixture *f, const char *path, const char *texts, trn_status status, const char *words) {
  trn_inproc_request request = {.path = path};
  trn_slice messages[4];
  size_t count = 0;
  for (; texts && *texts; texts += strlen(texts) + 1) messages[count++] = text_slice(texts);
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, messages, count, &reply), TRN_OK);
  assert_int_equal(reply.status, status);
  assert_non_null(strstr(reply.message, words));
  trn__inproc_reply_finish(&reply);
}

static void the_host_refuses_what_no_frontend_should_see(void **state) {
  fixture *f = *state;
  check_refusal(f, "/t.Test/Nothing", "x\0", TRN_UNIMPLEMENTED, "/t.Test/Nothing");
  check_refusal(f, "/t.Test/Echo", NULL, TRN_INTERNAL, "without a message");
  check_refusal(f, "/t.Test/Small", "12345678901234567\0", TRN_RESOURCE_EXHAUSTED, "17 vs. 16");
  assert_int_equal(atomic_load(&f->service.messages), 0);
  check_refusal(f, "/t.Test/Hang", "one\0two\0", TRN_INTERNAL, "More than one");
  check_refusal(f, "/t.Test/Abort", "x\0", TRN_RESOURCE_EXHAUSTED, "aborted");
}

static void a_deadline_ends_the_call_on_both_sides(void **state) {
  fixture *f = *state;
  trn_inproc_request request = {.path = "/t.Test/Hang", .timeout_ns = 50000000};
  trn_slice message = text_slice("x");
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(f->inproc, &request, &message, 1, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_DEADLINE_EXCEEDED);
  assert_true(wait_for_count(&f->service.cancels, 1));
  assert_true(wait_for_count(&f->service.dones, 1));
  trn__inproc_reply_finish(&reply);
}

/* ---- event by event ---- */

typedef struct client {
  atomic_int messages, finishes, status;
  pthread_t thread;
} client;

static void client_message(void *user, trn_slice slice) {
  client *client = user;
  client->thread = pthread_self();
  drop_message(slice);
  atomic_fetch_add(&client->messages, 1);
}

static void client_finish(void *user, const trn_inproc_result *result) {
  client *client = user;
  atomic_store(&client->status, (int)result->status);
  atomic_fetch_add(&client->finishes, 1);
}

static trn_inproc_call *start(fixture *f, const char *path, bool reads_when_asked, client *client, const char *text) {
  trn_inproc_request request = {.path = path,
                                .reads_when_asked = reads_when_asked,
                                .on_message = client_message,
                                .on_finish = client_finish,
                                .user = client};
  trn_inproc_call *call = NULL;
  assert_int_equal(trn__inproc_call(f->inproc, &request, &call), TRN_OK);
  if (text) trn__inproc_call_send(call, text_slice(text));
  return call;
}

static void a_slow_reader_stops_the_sender(void **state) {
  fixture *f = *state;
  client client = {0};
  trn_inproc_call *call = start(f, "/t.Test/Stream", true, &client, "100 100000");
  trn__inproc_call_half_close(call);
  assert_true(wait_for_count(&f->service.fulls, 1));
  sleep_ms(30);
  assert_int_equal(atomic_load(&f->service.made), 22); /* 11 messages of two slices are over 1 MiB */
  assert_int_equal(atomic_load(&client.messages), 0);
  trn__inproc_call_read(call, 1);
  assert_true(wait_for_count(&client.messages, 1));
  sleep_ms(30);
  assert_int_equal(atomic_load(&f->service.writables), 0); /* not under half yet */
  trn__inproc_call_read(call, 98);
  assert_true(wait_for_count(&client.messages, 99));
  assert_int_equal(atomic_load(&client.finishes), 0); /* the status waits behind the last message */
  trn__inproc_call_read(call, 1);
  assert_true(wait_for_count(&client.finishes, 1));
  assert_int_equal(atomic_load(&client.messages), 100);
  assert_true(atomic_load(&f->service.writables) >= 1);
  assert_false(pthread_equal(client.thread, pthread_self()));
  trn__inproc_call_unref(call);
}

static void a_cancel_reaches_the_frontend_once(void **state) {
  fixture *f = *state;
  client client = {0};
  trn_inproc_call *call = start(f, "/t.Test/Hang", false, &client, "x");
  assert_true(wait_for_count(&f->service.messages, 1));
  trn__inproc_call_cancel(call);
  trn__inproc_call_cancel(call);
  assert_true(wait_for_count(&client.finishes, 1));
  assert_int_equal(atomic_load(&client.status), TRN_CANCELLED);
  assert_true(wait_for_count(&f->service.dones, 1));
  assert_int_equal(atomic_load(&f->service.cancels), 1);
  trn__inproc_call_send(call, text_slice("late"));
  trn__inproc_call_unref(call);
}

static void a_frontend_that_does_not_pull_gets_nothing(void **state) {
  fixture *f = *state;
  client client = {0};
  trn_inproc_call *call = start(f, "/t.Test/Deaf", false, &client, "x");
  trn__inproc_call_half_close(call);
  sleep_ms(30);
  assert_int_equal(atomic_load(&f->service.opens), 1);
  assert_int_equal(atomic_load(&f->service.messages), 0);
  assert_int_equal(atomic_load(&f->service.half_closes), 0);
  trn__inproc_call_cancel(call);
  assert_true(wait_for_count(&client.finishes, 1)); /* until then `client` is in use */
  assert_true(wait_for_count(&f->service.dones, 1));
  trn__inproc_call_unref(call);
}

static void a_held_call_is_answered_later_and_closed_after(void **state) {
  fixture *f = *state;
  client client = {0};
  trn_inproc_call *call = start(f, "/t.Test/Hold", false, &client, "x");
  assert_true(wait_for_count(&f->service.messages, 1));
  trn_call *held = NULL;
  for (int i = 0; i < 1000 && !held; i++) {
    held = atomic_exchange(&f->service.held, NULL);
    if (!held) sleep_ms(1);
  }
  assert_non_null(held);
  trn_slice slice = service_slice(&f->service, 10, 'h');
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_READY);
  trn_call_finish(held, TRN_OK, NULL, NULL, 0, NULL, 0);
  trn_call_finish(held, TRN_INTERNAL, "too late", NULL, 0, NULL, 0);
  assert_true(wait_for_count(&client.finishes, 1));
  assert_int_equal(atomic_load(&client.status), TRN_OK);
  slice = service_slice(&f->service, 10, 'h');
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_CLOSED);
  trn_call_unref(held);
  trn__inproc_call_unref(call);
}

/* ---- threads ---- */

static void *run_many(void *argument) {
  fixture *f = argument;
  for (int i = 0; i < 50; i++) {
    static const char *const paths[] = {"/t.Test/Echo", "/t.Test/Worker", "/t.Test/Chat", "/t.Test/Hang"};
    trn_inproc_request request = {.path = paths[i % 4], .timeout_ns = i % 4 == 3 ? 2000000 : 0};
    trn_slice message = service_slice(&f->service, 2000, 'm');
    trn_inproc_reply reply;
    if (trn__inproc_invoke(f->inproc, &request, &message, 1, &reply) != TRN_OK ||
        reply.status != (i % 4 == 3 ? TRN_DEADLINE_EXCEEDED : TRN_OK)) {
      atomic_fetch_add(&f->service.errors, 1);
    }
    trn__inproc_reply_finish(&reply);
  }
  return NULL;
}

static void many_threads_call_and_answer_at_once(void **state) {
  fixture *f = *state;
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, f), 0);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&f->service.opens), 300);
  assert_int_equal(atomic_load(&f->service.errors), 0);
}

static void destroying_the_client_ends_running_calls(void **state) {
  fixture *f = *state;
  client clients[20] = {0};
  trn_inproc_call *calls[20];
  for (int i = 0; i < 20; i++) calls[i] = start(f, i % 2 ? "/t.Test/Hold" : "/t.Test/Deaf", false, &clients[i], "x");
  assert_true(wait_for_count(&f->service.messages, 10));
  trn__inproc_destroy(f->inproc);
  f->inproc = NULL;
  assert_int_equal(atomic_load(&f->service.dones), 20);
  assert_int_equal(atomic_load(&f->service.cancels), 20);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(atomic_load(&clients[i].finishes), 1);
    assert_int_equal(atomic_load(&clients[i].status), TRN_UNAVAILABLE);
    trn__inproc_call_unref(calls[i]);
  }
  /* A frontend may still hold a call when its host is gone. */
  trn_call *held = atomic_exchange(&f->service.held, NULL);
  assert_non_null(held);
  trn_slice slice = service_slice(&f->service, 10, 'z');
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_CLOSED);
  trn_call_unref(held);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(unary_carries_message_and_metadata_both_ways),
      CASE(a_failure_carries_message_and_details),
      CASE(client_stream_is_pulled_and_summed),
      CASE(bidi_echoes_in_order),
      CASE(the_host_refuses_what_no_frontend_should_see),
      CASE(a_deadline_ends_the_call_on_both_sides),
      CASE(a_slow_reader_stops_the_sender),
      CASE(a_cancel_reaches_the_frontend_once),
      CASE(a_frontend_that_does_not_pull_gets_nothing),
      CASE(a_held_call_is_answered_later_and_closed_after),
      CASE(many_threads_call_and_answer_at_once),
      CASE(destroying_the_client_ends_running_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
