/* The contract of client.h, over every transport: routes of the process, TCP, a unix socket. */
#include "client_fixture.h"

static void unary_gives_metadata_message_and_trailers(void **state) {
  peer *p = *state;
  trn_metadata metadata[] = {{"x-echo", "hello", 5}, {"x-echo-bin", "\0\1\2\xff", 4}};
  told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .metadata = metadata, .metadata_count = 2});
  send_last(t, "ping", 4);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 1);
  assert_int_equal(t->messages[0].size, 4);
  assert_memory_equal(t->messages[0].data, "ping", 4);
  const trn_metadata *echo = find(t->initial, t->initial_count, "x-echo");
  assert_non_null(echo);
  assert_int_equal(echo->size, 5);
  const trn_metadata *binary = find(t->trailing, t->trailing_count, "x-echo-bin");
  assert_non_null(binary);
  assert_int_equal(binary->size, 4);
  assert_memory_equal(binary->value, "\0\1\2\xff", 4);
  assert_int_equal(t->attempts, 1);
  forget(t);
}

static void an_error_brings_text_and_details(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Fail", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_INVALID_ARGUMENT, "no\tsuch \xc3\xa4rger, 100%");
  assert_int_equal(t->details_size, 8);
  assert_memory_equal(t->details, "de\0tails", 8);
  assert_int_equal(t->count, 0);
  assert_int_equal(t->initials, 0);
  forget(t);
}

static void an_unknown_method_is_unimplemented(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/None", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  expect_end(t, TRN_UNIMPLEMENTED, "/t.Test/None");
  forget(t);
}

static void empty_and_missing_messages_differ(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  send_last(t, "", 0);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 1);
  assert_int_equal(t->messages[0].size, 0);
  forget(t);
  t = call_begin(p->channel, "/t.Test/Echo", TRN_METHOD_UNARY);
  trn_client_call_half_close(t->call);
  expect_end(t, TRN_INTERNAL, "without a message");
  forget(t);
}

static void a_second_message_of_a_unary_request_is_not_sent(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Hang", TRN_METHOD_UNARY);
  assert_int_equal(send_bytes(t, "a", 1), TRN_SEND_READY);
  assert_int_equal(send_bytes(t, "b", 1), TRN_SEND_CLOSED);
  trn_client_call_cancel(t->call);
  expect_end(t, TRN_CANCELLED, "");
  forget(t);
}

static void a_stream_comes_as_it_is_asked_for(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Stream", TRN_METHOD_SERVER_STREAM);
  send_last(t, "5 1000", 6);
  sleep_ms(50);
  assert_int_equal(t->count, 0);
  for (size_t i = 1; i <= 5; i++) {
    trn_client_call_recv(t->call);
    WAIT_FOR(t, t->count == i);
    sleep_ms(5);
    assert_int_equal(t->count, i);
    assert_int_equal(t->messages[i - 1].size, 1000);
  }
  trn_client_call_recv(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 5);
  forget(t);
}

static void the_end_comes_after_the_messages(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Stream", TRN_METHOD_SERVER_STREAM);
  send_last(t, "3 10", 4);
  trn_client_call_recv(t->call);
  WAIT_FOR(t, t->count == 1);
  sleep_ms(100);
  assert_int_equal(t->dones, 0); /* two are unread */
  trn_client_call_recv(t->call);
  trn_client_call_recv(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 3);
  forget(t);
}

static void an_unread_stream_stops_its_sender(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Stream", TRN_METHOD_SERVER_STREAM);
  t->drops = true;
  send_last(t, "400 100000", 10);
  for (int i = 0; i < 500 && !atomic_load(&p->service.fulls); i++) sleep_ms(10);
  sleep_ms(100);
  int made = atomic_load(&p->service.made);
  assert_in_range(made, 2, 200); /* of 800 slices: the windows and the queue, not all of it */
  sleep_ms(50);
  assert_int_equal(atomic_load(&p->service.made), made);
  for (int i = 0; i < 401; i++) trn_client_call_recv(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 400);
  forget(t);
}

static void a_client_stream_is_summed_up(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Sum", TRN_METHOD_CLIENT_STREAM);
  char *block = calloc(1, 100000);
  for (int i = 0; i < 100; i++) send_bytes(t, block, 100000);
  free(block);
  trn_client_call_half_close(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->count, 1);
  assert_int_equal(t->messages[0].size, 8);
  assert_memory_equal(t->messages[0].data, "10000000", 8);
  forget(t);
}

static void a_full_queue_says_so_and_says_when_not(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/HoldBidi", TRN_METHOD_BIDI);
  char *block = calloc(1, 1000000);
  send_bytes(t, block, 1000); /* it takes one message, and then none until it is asked to */
  int sent = 0;
  trn_send_result result = TRN_SEND_READY;
  for (; result == TRN_SEND_READY && sent < 40; sent++) result = send_bytes(t, block, 1000000);
  assert_int_equal(result, TRN_SEND_FULL);
  assert_in_range(sent, 1, 20);
  sleep_ms(200);
  for (result = TRN_SEND_READY; result == TRN_SEND_READY && sent < 40; sent++) result = send_bytes(t, block, 1000000);
  assert_int_equal(result, TRN_SEND_FULL);
  int before = t->writables;
  for (int i = 0; i < 40; i++) {
    trn_call *held = atomic_load(&p->service.held);
    if (held) trn_call_recv(held);
  }
  WAIT_FOR(t, t->writables > before);
  trn_client_call_half_close(t->call);
  for (int i = 0; i < 20; i++) trn_call_recv(atomic_load(&p->service.held));
  expect_end(t, TRN_OK, "");
  free(block);
  forget(t);
}

static void a_chat_goes_back_and_forth(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Chat", TRN_METHOD_BIDI);
  for (size_t i = 1; i <= 50; i++) {
    char text[16];
    int size = snprintf(text, sizeof text, "%zu", i);
    trn_client_call_recv(t->call);
    send_bytes(t, text, (size_t)size);
    WAIT_FOR(t, t->count == i);
    assert_memory_equal(t->messages[i - 1].data, text, (size_t)size);
  }
  trn_client_call_half_close(t->call);
  expect_end(t, TRN_OK, "");
  assert_int_equal(t->initials, 1);
  forget(t);
}

static void a_cancel_ends_both_sides(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Hang", TRN_METHOD_UNARY);
  send_last(t, "x", 1);
  assert_true(wait_for_count(&p->service.messages, 1));
  trn_client_call_cancel(t->call);
  trn_client_call_cancel(t->call);
  expect_end(t, TRN_CANCELLED, "Cancelled by the client");
  assert_true(wait_for_count(&p->service.cancels, 1));
  assert_int_equal(send_bytes(t, "x", 1), TRN_SEND_CLOSED);
  trn_client_call_recv(t->call);
  trn_client_call_half_close(t->call);
  forget(t);
}

static void a_cancel_at_every_moment_ends_once(void **state) {
  peer *p = *state;
  for (int i = 0; i < 60; i++) {
    told *t = call_begin(p->channel, i % 2 ? "/t.Test/Stream" : "/t.Test/Chat",
                         i % 2 ? TRN_METHOD_SERVER_STREAM : TRN_METHOD_BIDI);
    if (i % 3) send_bytes(t, "200 10000", 9);
    if (i % 4 == 0) trn_client_call_half_close(t->call);
    for (int j = 0; j < i % 7; j++) trn_client_call_recv(t->call);
    if (i % 5 == 0) sleep_ms((unsigned)i % 4);
    trn_client_call_cancel(t->call);
    wait_done(t);
    forget(t);
  }
}

static void a_deadline_ends_both_sides(void **state) {
  peer *p = *state;
  told *t = begin(p->channel, (trn_client_request){.path = "/t.Test/Hang", .timeout_ns = 100000000});
  send_last(t, "x", 1);
  expect_end(t, TRN_DEADLINE_EXCEEDED, "Deadline Exceeded");
  assert_true(wait_for_count(&p->service.cancels, 1));
  forget(t);
}

static void messages_over_the_limits_are_refused(void **state) {
  peer *p = *state;
  char *block = calloc(1, 5u << 20);
  told *t = call_begin(p->channel, "/t.Test/Small", TRN_METHOD_UNARY);
  send_last(t, block, 17);
  expect_end(t, TRN_RESOURCE_EXHAUSTED, "larger than max (17 vs. 16)");
  forget(t);
  t = begin(p->channel, (trn_client_request){.path = "/t.Test/Echo", .message_bytes_max = 1000});
  send_last(t, block, 1001);
  expect_end(t, TRN_RESOURCE_EXHAUSTED, "Received message larger than max");
  forget(t);
  t = call_begin(p->channel, "/t.Test/Stream", TRN_METHOD_SERVER_STREAM);
  send_last(t, "1 5000000", 9);
  trn_client_call_recv(t->call);
  expect_end(t, TRN_RESOURCE_EXHAUSTED, "larger than max (5000000 vs. 4194304)");
  forget(t);
  free(block);
}

static void slices_are_released_once_and_not_copied(void **state) {
  peer *p = *state;
  told *t = call_begin(p->channel, "/t.Test/Sum", TRN_METHOD_CLIENT_STREAM);
  for (int i = 0; i < 20; i++) {
    trn_slice slices[3] = {
        service_slice(&p->service, 100, 'a'), {.data = "b", .size = 1}, service_slice(&p->service, 40000, 'c')};
    trn_client_call_send(t->call, slices, 3, i % 2 ? TRN_SEND_MORE : 0);
  }
  trn_client_call_half_close(t->call);
  expect_end(t, TRN_OK, "");
  assert_memory_equal(t->messages[0].data, "802020", 6);
  forget(t);
  assert_true(wait_for_count(&p->service.released, atomic_load(&p->service.made)));
}

static void a_blocking_call_gives_the_answer(void **state) {
  peer *p = *state;
  trn_client_reply reply;
  trn_metadata echo = {"x-echo", "v", 1};
  trn_client_request request = {
      .struct_size = sizeof request, .path = "/t.Test/Echo", .metadata = &echo, .metadata_count = 1};
  trn_slice slices[2] = {service_slice(&p->service, 10, 'a'), {.data = "zz", .size = 2}};
  assert_int_equal(trn_client_invoke(p->channel, &request, slices, 2, &reply, NULL), TRN_OK);
  assert_int_equal(reply.status, TRN_OK);
  assert_int_equal(reply.response.size, 12);
  assert_memory_equal(reply.response.data, "aaaaaaaaaazz", 12);
  assert_int_equal(reply.initial_count, 1);
  trn_client_reply_finish(&reply);
  request.path = "/t.Test/Fail";
  assert_int_equal(trn_client_invoke(p->channel, &request, slices + 1, 1, &reply, NULL), TRN_OK);
  assert_int_equal(reply.status, TRN_INVALID_ARGUMENT);
  assert_int_equal(reply.details_size, 8);
  trn_client_reply_finish(&reply);
}

static void bad_requests_are_refused_at_the_start(void **state) {
  peer *p = *state;
  trn_client_call *call = NULL;
  trn_client_request request = {.struct_size = sizeof request, .path = "no-slash", .handlers = &told_handlers};
  assert_int_equal(trn_client_call_start(p->channel, &request, &call, NULL), TRN_INVALID_ARGUMENT);
  assert_null(call);
  request.path = "/t.Test/Echo";
  request.handlers = NULL;
  assert_int_equal(trn_client_call_start(p->channel, &request, &call, NULL), TRN_INVALID_ARGUMENT);
}

static void metadata_of_the_channel_comes_with_every_call(void **state) {
  peer *p = *state;
  trn_metadata metadata = {"x-echo", "from the channel", 16};
  trn_channel *channel = peer_open(p, (trn_channel_options){.metadata = &metadata, .metadata_count = 1});
  for (int i = 0; i < 2; i++) {
    told *t = call_begin(channel, "/t.Test/Echo", TRN_METHOD_UNARY);
    send_last(t, "x", 1);
    expect_end(t, TRN_OK, "");
    assert_int_equal(find(t->initial, t->initial_count, "x-echo")->size, 16);
    forget(t);
  }
  trn_channel_unref(channel);
}

static void calls_outlive_the_channels_reference(void **state) {
  peer *p = *state;
  trn_channel *channel = peer_open(p, (trn_channel_options){0});
  told *t = call_begin(channel, "/t.Test/Chat", TRN_METHOD_BIDI);
  trn_channel_unref(channel);
  trn_client_call_recv(t->call);
  send_last(t, "still here", 10);
  WAIT_FOR(t, t->count == 1);
  expect_end(t, TRN_OK, "");
  forget(t);
}

/* ---- many at once ---- */

typedef struct load {
  peer *p;
  int failures;
} load;

static void *load_run(void *argument) {
  load *l = argument;
  for (int i = 0; i < 100; i++) {
    char text[32];
    trn_client_reply reply;
    trn_client_request request = {.struct_size = sizeof request, .path = "/t.Test/Echo", .timeout_ns = 20000000000};
    trn_slice slice = {.data = text, .size = (size_t)snprintf(text, sizeof text, "%p %d", argument, i)};
    trn_status status = trn_client_invoke(l->p->channel, &request, &slice, 1, &reply, NULL);
    bool is_same = !status && !reply.status && reply.response.size == slice.size &&
                   memcmp(reply.response.data, text, slice.size) == 0;
    l->failures += !is_same;
    trn_client_reply_finish(&reply);
  }
  return NULL;
}

static void threads_share_a_channel(void **state) {
  load loads[8];
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) {
    loads[i] = (load){.p = *state};
    pthread_create(&threads[i], NULL, load_run, &loads[i]);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(loads[i].failures, 0);
  }
}

static void a_thousand_calls_at_once(void **state) {
  peer *p = *state;
  enum { COUNT = 1000 };
  told **calls = calloc(COUNT, sizeof *calls);
  for (int i = 0; i < COUNT; i++) {
    calls[i] = call_begin(p->channel, "/t.Test/Chat", TRN_METHOD_BIDI);
    trn_client_call_recv(calls[i]->call);
    send_bytes(calls[i], &i, sizeof i);
  }
  for (int i = 0; i < COUNT; i++) WAIT_FOR(calls[i], calls[i]->count == 1);
  for (int i = 0; i < COUNT; i++) trn_client_call_half_close(calls[i]->call);
  for (int i = 0; i < COUNT; i++) {
    expect_end(calls[i], TRN_OK, "");
    assert_memory_equal(calls[i]->messages[0].data, &i, sizeof i);
    forget(calls[i]);
  }
  free(calls);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, peer_set_up, peer_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(unary_gives_metadata_message_and_trailers),
      CASE(an_error_brings_text_and_details),
      CASE(an_unknown_method_is_unimplemented),
      CASE(empty_and_missing_messages_differ),
      CASE(a_second_message_of_a_unary_request_is_not_sent),
      CASE(a_stream_comes_as_it_is_asked_for),
      CASE(the_end_comes_after_the_messages),
      CASE(an_unread_stream_stops_its_sender),
      CASE(a_client_stream_is_summed_up),
      CASE(a_full_queue_says_so_and_says_when_not),
      CASE(a_chat_goes_back_and_forth),
      CASE(a_cancel_ends_both_sides),
      CASE(a_cancel_at_every_moment_ends_once),
      CASE(a_deadline_ends_both_sides),
      CASE(messages_over_the_limits_are_refused),
      CASE(slices_are_released_once_and_not_copied),
      CASE(a_blocking_call_gives_the_answer),
      CASE(bad_requests_are_refused_at_the_start),
      CASE(metadata_of_the_channel_comes_with_every_call),
      CASE(calls_outlive_the_channels_reference),
      CASE(threads_share_a_channel),
      CASE(a_thousand_calls_at_once),
  };
  static const char *const names[] = {"inproc", "tcp", "unix"};
  int failed = 0;
  for (transport = OVER_INPROC; transport <= OVER_UNIX; transport++) {
    print_message("over %s\n", names[transport]);
    failed += cmocka_run_group_tests_name(names[transport], tests, NULL, NULL);
  }
  return failed;
}
