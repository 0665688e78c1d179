/* The bundled server with a client that keeps to the rules: the mapping of calls to HTTP/2. */
#include "h2_fixture.h"

#include <zlib.h>

/* ---- the four kinds ---- */

static void unary_answers_with_headers_message_and_trailers(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_nv extra[] = {client_nv("x-echo", "hello"), client_nv("x-echo-bin", "AAH/")};
  h2_reply *reply = ask(client, "/t.Test/Echo", extra, 2, "payload", 7);
  const uint8_t *data = NULL;
  expect(reply, 0, "");
  assert_int_equal(reply->http_status, 200);
  assert_int_equal(reply->error_code, NGHTTP2_NO_ERROR);
  assert_int_equal(reply->header_blocks, 2);
  assert_int_equal(message_at(reply, 0, &data, NULL), 7);
  assert_memory_equal(data, "payload", 7);
  assert_non_null(strstr(reply->headers, "content-type: application/grpc\n"));
  assert_non_null(strstr(reply->headers, "x-echo: hello\n"));
  assert_non_null(strstr(reply->headers, "x-echo-bin: AAH/\n"));
  assert_non_null(strstr(reply->headers, "x-peer: ipv4:127.0.0.1:"));
  assert_null(strstr(reply->headers, "grpc-message"));
  client_close(client);
}

static void an_error_without_messages_is_trailers_only(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = ask(client, "/t.Test/Fail", NULL, 0, "x", 1);
  expect(reply, TRN_INVALID_ARGUMENT, "no%09such %C3%A4rger, 100%25");
  assert_int_equal(reply->header_blocks, 1);
  assert_int_equal(reply->size, 0);
  assert_non_null(strstr(reply->headers, "grpc-status-details-bin: ZGUAdGFpbHM\n"));
  assert_non_null(strstr(reply->headers, "content-type: application/grpc\n"));
  client_close(client);
}

static void server_stream_sends_all_messages_in_order(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = ask(client, "/t.Test/Stream", NULL, 0, "300 5000", 8);
  const uint8_t *data = NULL;
  expect(reply, 0, "");
  assert_int_equal(reply->size, 300 * 5005);
  assert_int_equal(message_at(reply, 299, &data, NULL), 5000);
  assert_int_equal(data[0], 'a');
  assert_int_equal(data[4999], 'b');
  reply = ask(client, "/t.Test/Stream", NULL, 0, "5000 1", 6); /* small ones share frames */
  expect(reply, 0, "");
  assert_int_equal(reply->size, 5000 * 6);
  reply = ask(client, "/t.Test/Stream", NULL, 0, "3 0", 3);
  expect(reply, 0, "");
  assert_int_equal(reply->size, 15);
  reply = ask(client, "/t.Test/Stream", NULL, 0, "2 3000000", 9);
  expect(reply, 0, "");
  assert_int_equal(reply->size, 2 * 3000005);
  client_close(client);
}

static void client_stream_takes_messages_cut_anywhere(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = client_call(client, "/t.Test/Sum", NULL, 0);
  static const uint8_t bytes[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 'd', 'e'};
  const uint8_t *data = NULL;
  for (size_t i = 0; i < sizeof bytes; i++) {
    client_write(client, reply, bytes + i, 1, i + 1 == sizeof bytes);
    client_step(client, 1);
  }
  client_finish(client, reply);
  expect(reply, 0, "");
  assert_int_equal(message_at(reply, 0, &data, NULL), 1);
  assert_memory_equal(data, "5", 1);
  assert_int_equal(atomic_load(&f->service.messages), 3);
  client_close(client);
}

static void bidi_answers_each_message_before_the_next(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = client_call(client, "/t.Test/Chat", NULL, 0);
  for (int i = 1; i <= 20; i++) {
    client_message(client, reply, "ping", 4, false);
    int64_t until = client_now_ms() + 5000;
    while (reply->size < (size_t)i * 9 && client_now_ms() < until) client_step(client, 5);
    assert_int_equal(reply->size, i * 9);
  }
  client_write(client, reply, NULL, 0, true);
  client_finish(client, reply);
  expect(reply, 0, "");
  client_close(client);
}

static void answers_come_from_other_threads(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *replies[50];
  for (int i = 0; i < 50; i++) {
    replies[i] = client_call(client, "/t.Test/Worker", NULL, 0);
    client_message(client, replies[i], "abc", 3, true);
  }
  for (int i = 0; i < 50; i++) {
    client_finish(client, replies[i]);
    expect(replies[i], 0, "");
    assert_int_equal(replies[i]->size, 4 * 1005 + 8);
  }
  client_close(client);
}

/* ---- metadata ---- */

static void binary_metadata_comes_padded_unpadded_and_joined(void **state) {
  fixture *f = *state;
  static const struct {
    const char *sent, *back;
  } cases[] = {
      {"AA==", "AA"}, {"AA", "AA"}, {"AAE=", "AAE"}, {"AAE", "AAE"}, {"AAEC", "AAEC"}, {"", ""}, {"AAEC, AQ==", "AQ"},
  };
  h2_client *client = client_connect(f->port, true, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char want[64];
    nghttp2_nv extra = client_nv("x-echo-bin", cases[i].sent);
    h2_reply *reply = ask(client, "/t.Test/Echo", &extra, 1, "x", 1);
    expect(reply, 0, "");
    snprintf(want, sizeof want, "x-echo-bin: %s\n", cases[i].back);
    if (!strstr(reply->headers, want)) fail_msg("sent '%s', got %s", cases[i].sent, reply->headers);
  }
  static const char *const bad[] = {"A", "AA=A", "A===", "AA!A", "AAECA"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    nghttp2_nv extra = client_nv("x-echo-bin", bad[i]);
    expect(ask(client, "/t.Test/Echo", &extra, 1, "x", 1), TRN_INTERNAL, "Malformed");
  }
  client_close(client);
}

static void requests_that_are_not_grpc_get_an_http_answer(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_nv get[] = {client_nv(":method", "GET"), client_nv(":scheme", "http"), client_nv(":path", "/"),
                      client_nv(":authority", "test")};
  h2_reply *reply = client_start(client, get, 4);
  client_write(client, reply, NULL, 0, true);
  client_finish(client, reply);
  assert_int_equal(reply->http_status, 405);
  nghttp2_nv post[] = {client_nv(":method", "POST"), client_nv(":scheme", "http"), client_nv(":path", "/t.Test/Echo"),
                       client_nv(":authority", "test"), client_nv("content-type", "application/grpc-web")};
  reply = client_start(client, post, 5);
  client_write(client, reply, NULL, 0, true);
  client_finish(client, reply);
  assert_int_equal(reply->http_status, 415);
  post[4] = client_nv("content-type", "application/grpc+proto");
  reply = client_start(client, post, 5);
  client_message(client, reply, "x", 1, true);
  client_finish(client, reply);
  expect(reply, 0, "");
  client_close(client);
}

static void requests_that_cannot_be_served_name_the_reason(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  expect(ask(client, "/t.Test/Nothing", NULL, 0, "x", 1), TRN_UNIMPLEMENTED, "/t.Test/Nothing");
  nghttp2_nv extra = client_nv("grpc-encoding", "snappy");
  h2_reply *reply = ask(client, "/t.Test/Echo", &extra, 1, "x", 1);
  expect(reply, TRN_UNIMPLEMENTED, "grpc-encoding");
  assert_non_null(strstr(reply->headers, "grpc-accept-encoding: identity,deflate,gzip\n"));
  static const char *const bad[] = {"", "5", "S", "123456789S", "-1S", "1s"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    extra = client_nv("grpc-timeout", bad[i]);
    expect(ask(client, "/t.Test/Echo", &extra, 1, "x", 1), TRN_INTERNAL, "grpc-timeout");
  }
  extra = client_nv("grpc-timeout", "99999999H");
  expect(ask(client, "/t.Test/Echo", &extra, 1, "x", 1), 0, "");
  client_close(client);
}

/* ---- compression ---- */

static size_t gzip(const void *data, size_t size, uint8_t *out, size_t capacity, int window_bits) {
  z_stream z = {
      .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)capacity};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  size = capacity - z.avail_out;
  deflateEnd(&z);
  return size;
}

static h2_reply *ask_packed(h2_client *client, const char *encoding, const void *packed, size_t size) {
  nghttp2_nv extra = client_nv("grpc-encoding", encoding);
  h2_reply *reply = client_call(client, "/t.Test/Echo", &extra, encoding ? 1 : 0);
  uint8_t prefix[5] = {1, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
  client_write(client, reply, prefix, 5, false);
  client_write(client, reply, packed, size, true);
  client_finish(client, reply);
  return reply;
}

static void compressed_requests_are_inflated_up_to_the_limit(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  size_t big = 64u << 20, capacity = 1u << 20;
  uint8_t *zeros = calloc(1, big), *packed = malloc(capacity);
  size_t size = gzip(zeros, 100000, packed, capacity, 15 + 16);
  h2_reply *reply = ask_packed(client, "gzip", packed, size);
  expect(reply, 0, "");
  assert_int_equal(reply->size, 100005);
  assert_int_equal(atomic_load(&f->service.message_bytes), 100000);
  size = gzip(zeros, 4u << 20, packed, capacity, 15); /* exactly the limit */
  expect(ask_packed(client, "deflate", packed, size), 0, "");
  size = gzip(zeros, (4u << 20) + 1, packed, capacity, 15 + 16);
  expect(ask_packed(client, "gzip", packed, size), TRN_RESOURCE_EXHAUSTED, "after decompression");
  size = gzip(zeros, big, packed, capacity, 15 + 16);
  expect(ask_packed(client, "gzip", packed, size), TRN_RESOURCE_EXHAUSTED, "after decompression");
  size = gzip(zeros, 1000, packed, capacity, 15 + 16);
  expect(ask_packed(client, "gzip", packed, size - 3), TRN_INTERNAL, "malformed");
  packed[size++] = 'x'; /* something behind the end */
  expect(ask_packed(client, "gzip", packed, size), TRN_INTERNAL, "malformed");
  expect(ask_packed(client, "gzip", "", 0), TRN_INTERNAL, "malformed");
  expect(ask_packed(client, "identity", packed, size), TRN_INTERNAL, "grpc-encoding");
  free(zeros);
  free(packed);
  client_close(client);
}

static void responses_are_compressed_for_those_who_accept_it(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_nv extra = client_nv("grpc-accept-encoding", "identity, gzip,deflate");
  uint8_t zeros[20000] = {0}, out[20001];
  const uint8_t *data = NULL;
  int flag = -1;
  h2_reply *reply = ask(client, "/t.Test/Echo", &extra, 1, zeros, sizeof zeros);
  expect(reply, 0, "");
  size_t size = message_at(reply, 0, &data, &flag);
  assert_int_equal(flag, 1);
  assert_true(size < 1000);
  assert_non_null(strstr(reply->headers, "grpc-encoding: gzip\n"));
  z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size, .next_out = out, .avail_out = sizeof out};
  assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
  assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
  assert_int_equal(z.total_out, sizeof zeros);
  inflateEnd(&z);
  extra = client_nv("grpc-accept-encoding", "identity,gzipped");
  reply = ask(client, "/t.Test/Echo", &extra, 1, zeros, sizeof zeros);
  assert_int_equal(message_at(reply, 0, &data, &flag), sizeof zeros);
  assert_int_equal(flag, 0);
  assert_null(strstr(reply->headers, "grpc-encoding: gzip"));
  client_close(client);
}

/* ---- time, cancel, flow ---- */

static void a_deadline_sends_trailers_and_cancels(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_nv extra = client_nv("grpc-timeout", "80m");
  int64_t begin = client_now_ms();
  h2_reply *reply = ask(client, "/t.Test/Hang", &extra, 1, "x", 1);
  int64_t took = client_now_ms() - begin;
  expect(reply, TRN_DEADLINE_EXCEEDED, "Deadline");
  assert_int_equal(reply->error_code, NGHTTP2_NO_ERROR);
  assert_in_range(took, 75, 1000);
  assert_int_equal(atomic_load(&f->service.cancels), 1);
  /* Also while the request is open, and while the response is under way without a window. */
  reply = client_call(client, "/t.Test/Chat", &extra, 1);
  client_message(client, reply, "hi", 2, false);
  client_finish(client, reply);
  expect(reply, TRN_DEADLINE_EXCEEDED, "Deadline");
  client_close(client);
  client = client_connect(f->port, false, 0);
  reply = ask(client, "/t.Test/Stream", &extra, 1, "100 100000", 10);
  expect(reply, TRN_DEADLINE_EXCEEDED, "Deadline");
  assert_int_equal(reply->size, 65535);
  client_close(client);
}

static void many_deadlines_end_in_their_order(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *replies[60];
  char timeouts[60][16];
  int ended = 0, last = -1;
  int64_t begin = client_now_ms();
  for (int i = 0; i < 60; i++) { /* 30 ms, 40 ms ... in a scrambled order; every third call does not wait for it */
    snprintf(timeouts[i], sizeof timeouts[i], "%dm", 30 + (i * 37) % 60 * 10);
    nghttp2_nv extra = client_nv("grpc-timeout", timeouts[i]);
    replies[i] = client_call(client, i % 3 ? "/t.Test/Hang" : "/t.Test/Echo", &extra, 1);
    client_message(client, replies[i], "x", 1, true);
  }
  for (int64_t until = client_now_ms() + 10000; ended < 60 && client_now_ms() < until;) {
    bool was_closed[60];
    int earliest = 1000, latest = -1;
    for (int i = 0; i < 60; i++) was_closed[i] = replies[i]->is_closed;
    client_step(client, 5);
    for (int i = 0; i < 60; i++) {
      if (was_closed[i] || !replies[i]->is_closed) continue;
      ended++;
      expect(replies[i], i % 3 ? TRN_DEADLINE_EXCEEDED : TRN_OK, "");
      if (i % 3 == 0) continue;
      int timeout = atoi(timeouts[i]);
      assert_in_range(client_now_ms() - begin, timeout - 5, timeout + 400);
      if (timeout < earliest) earliest = timeout;
      if (timeout > latest) latest = timeout;
    }
    if (latest < 0) continue;
    assert_true(earliest > last);
    last = latest;
  }
  assert_int_equal(ended, 60);
  client_close(client);
}

static void a_cancel_reaches_the_frontend(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *hang = client_call(client, "/t.Test/Hang", NULL, 0);
  client_message(client, hang, "x", 1, true);
  h2_reply *chat = client_call(client, "/t.Test/Chat", NULL, 0);
  client_message(client, chat, "x", 1, false);
  while (chat->size < 6 && !client->is_lost) client_step(client, 5);
  client_cancel(client, hang, NGHTTP2_CANCEL);
  client_cancel(client, chat, NGHTTP2_CANCEL);
  client_run(client, 20);
  assert_true(wait_for_count(&f->service.cancels, 2));
  assert_true(wait_for_count(&f->service.dones, 2));
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
}

static void a_cancel_in_the_middle_of_a_stream_releases_everything(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, false, 0);
  h2_reply *reply = client_call(client, "/t.Test/Stream", NULL, 0);
  client_message(client, reply, "1000 100000", 11, true);
  client_run(client, 50);
  assert_int_equal(atomic_load(&f->service.fulls), 1);
  client_cancel(client, reply, NGHTTP2_CANCEL);
  client_run(client, 20);
  assert_true(wait_for_count(&f->service.cancels, 1));
  assert_true(wait_for_count(&f->service.released, atomic_load(&f->service.made)));
  client_close(client);
}

static void a_lost_peer_cancels_its_calls(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  for (int i = 0; i < 10; i++) {
    client_message(client, client_call(client, "/t.Test/Hang", NULL, 0), "x", 1, i % 2);
  }
  client_run(client, 20);
  assert_true(wait_for_count(&f->service.messages, 10));
  client_close(client);
  assert_true(wait_for_count(&f->service.cancels, 10));
  assert_true(wait_for_count(&f->service.dones, 10));
}

static void an_abort_resets_the_stream(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = ask(client, "/t.Test/Abort", NULL, 0, "x", 1);
  assert_true(reply->is_closed);
  assert_int_equal(reply->grpc_status, -1);
  assert_int_equal(reply->error_code, NGHTTP2_ENHANCE_YOUR_CALM);
  client_close(client);
}

static void a_slow_reader_stops_the_sender(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, false, 0);
  h2_reply *reply = client_call(client, "/t.Test/Stream", NULL, 0);
  client_message(client, reply, "100 100000", 10, true);
  client_run(client, 100);
  assert_int_equal(reply->size, 65535); /* the window */
  assert_int_equal(atomic_load(&f->service.fulls), 1);
  assert_in_range(atomic_load(&f->service.made), 20, 24); /* not much over 1 MiB */
  nghttp2_submit_window_update(client->session, NGHTTP2_FLAG_NONE, 0, 20000000);
  nghttp2_submit_window_update(client->session, NGHTTP2_FLAG_NONE, reply->id, 20000000);
  client_finish(client, reply);
  expect(reply, 0, "");
  assert_int_equal(reply->size, 100 * 100005);
  assert_true(atomic_load(&f->service.writables) >= 1);
  client_close(client);
}

static void a_reader_that_leaves_its_socket_full_stops_the_sender(void **state) {
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
  sleep_ms(100);
  assert_true(atomic_load(&f->service.made) < 400); /* what the sockets take, a batch, and the high-water mark */
  client->reads = true;
  client_finish(client, reply);
  expect(reply, 0, "");
  assert_int_equal(reply->size, 600 * 100005);
  client_close(client);
}

static void a_frontend_that_does_not_pull_closes_the_window(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  uint8_t *bulk = calloc(1, 3u << 20);
  h2_reply *deaf[4];
  for (int i = 0; i < 4; i++) {
    deaf[i] = client_call(client, "/t.Test/Deaf", NULL, 0);
    client_message(client, deaf[i], bulk, 3u << 20, false);
  }
  client_run(client, 200);
  for (int i = 0; i < 4; i++) assert_int_equal(deaf[i]->out_at, 2u << 20); /* each stream's window, no more */
  assert_int_equal(atomic_load(&f->service.messages), 0);
  expect(ask(client, "/t.Test/Echo", NULL, 0, bulk, 1u << 20), 0, ""); /* others are not held up */
  for (int i = 0; i < 4; i++) client_cancel(client, deaf[i], NGHTTP2_CANCEL);
  client_run(client, 20);
  assert_true(wait_for_count(&f->service.dones, 5));
  free(bulk);
  client_close(client);
}

static void unread_bytes_of_a_connection_are_bounded(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  uint8_t *bulk = calloc(1, 3u << 20);
  h2_reply *deaf[40];
  size_t sent = 0;
  for (int i = 0; i < 40; i++) {
    deaf[i] = client_call(client, "/t.Test/Deaf", NULL, 0);
    client_message(client, deaf[i], bulk, 3u << 20, false);
  }
  for (int64_t until = client_now_ms() + 20000; sent < 32u << 20 && client_now_ms() < until;) {
    client_step(client, 5);
    sent = 0;
    for (int i = 0; i < 40; i++) sent += deaf[i]->out_at;
  }
  client_run(client, 300); /* what more it lets through */
  sent = 0;
  for (int i = 0; i < 40; i++) sent += deaf[i]->out_at;
  assert_in_range(sent, 32u << 20, 41u << 20); /* 40 streams with a window of 2 MiB each, but 32 + 8 MiB for all */
  for (int i = 0; i < 38; i++) client_cancel(client, deaf[i], NGHTTP2_CANCEL);
  expect(ask(client, "/t.Test/Echo", NULL, 0, bulk, 3u << 20), 0, ""); /* the window came back */
  free(bulk);
  client_close(client);
}

static void pulling_opens_the_window(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  uint8_t *bulk = calloc(1, 1u << 20);
  h2_reply *reply = client_call(client, "/t.Test/HoldBidi", NULL, 0);
  for (int i = 0; i < 8; i++) client_message(client, reply, bulk, 1u << 20, i == 7);
  for (int i = 1; i <= 8; i++) {
    int64_t until = client_now_ms() + 5000;
    while (atomic_load(&f->service.messages) < i && client_now_ms() < until) client_step(client, 5);
    client_run(client, 10);
    assert_int_equal(atomic_load(&f->service.messages), i);
    assert_true(reply->out_at <= (size_t)i * ((1u << 20) + 5) + (2u << 20)); /* what was pulled, and a window */
    trn_call *held = atomic_exchange(&f->service.held, NULL);
    assert_non_null(held);
    trn_call_recv(held);
    trn_call_unref(held);
  }
  client_finish(client, reply);
  expect(reply, 0, "");
  assert_int_equal(atomic_load(&f->service.message_bytes), 8 << 20);
  free(bulk);
  client_close(client);
}

static void a_held_call_is_pulled_and_answered_from_another_thread(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  h2_reply *reply = client_call(client, "/t.Test/HoldBidi", NULL, 0);
  for (int i = 0; i < 5; i++) client_message(client, reply, "abcd", 4, false);
  client_run(client, 50);
  assert_true(wait_for_count(&f->service.messages, 1)); /* the one that on_open asked for */
  for (int i = 2; i <= 5; i++) {
    trn_call *held = atomic_exchange(&f->service.held, NULL);
    assert_non_null(held);
    trn_call_recv(held);
    trn_call_unref(held);
    assert_true(wait_for_count(&f->service.messages, i));
    client_run(client, 10);
  }
  trn_call *held = atomic_exchange(&f->service.held, NULL);
  trn_slice slice = service_slice(&f->service, 3, 'x');
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_READY);
  trn_call_finish(held, TRN_OK, NULL, NULL, 0, NULL, 0);
  assert_true(client_finish(client, reply)); /* though the request is still open */
  expect(reply, 0, "");
  assert_int_equal(reply->size, 8);
  slice = service_slice(&f->service, 3, 'x');
  assert_true(wait_for_count(&f->service.dones, 1));
  assert_int_equal(trn_call_send(held, &slice, 1, 0), TRN_SEND_CLOSED);
  trn_call_unref(held);
  client_close(client);
}

/* ---- trailers that are too big for the client ---- */

static void trailers_shrink_to_what_the_client_takes(void **state) {
  fixture *f = *state;
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_settings_entry limit = {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2000};
  nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, &limit, 1);
  client_run(client, 20);
  h2_reply *reply = client_call(client, "/t.Test/Hold", NULL, 0);
  client_message(client, reply, "x", 1, true);
  client_run(client, 30);
  trn_call *held = atomic_exchange(&f->service.held, NULL);
  assert_non_null(held);
  char *text = malloc(100001), details[3000];
  memset(text, 'm', 100000);
  text[100000] = 0;
  memset(details, 'd', sizeof details);
  trn_call_finish(held, TRN_NOT_FOUND, text, details, sizeof details, NULL, 0);
  trn_call_unref(held);
  client_finish(client, reply);
  expect(reply, TRN_NOT_FOUND, "mmmm");
  assert_null(strstr(reply->headers, "details"));
  assert_true(strlen(reply->headers) < 2000);
  free(text);
  client_close(client);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(unary_answers_with_headers_message_and_trailers),
      CASE(an_error_without_messages_is_trailers_only),
      CASE(server_stream_sends_all_messages_in_order),
      CASE(client_stream_takes_messages_cut_anywhere),
      CASE(bidi_answers_each_message_before_the_next),
      CASE(answers_come_from_other_threads),
      CASE(binary_metadata_comes_padded_unpadded_and_joined),
      CASE(requests_that_are_not_grpc_get_an_http_answer),
      CASE(requests_that_cannot_be_served_name_the_reason),
      CASE(compressed_requests_are_inflated_up_to_the_limit),
      CASE(responses_are_compressed_for_those_who_accept_it),
      CASE(a_deadline_sends_trailers_and_cancels),
      CASE(many_deadlines_end_in_their_order),
      CASE(a_cancel_reaches_the_frontend),
      CASE(a_cancel_in_the_middle_of_a_stream_releases_everything),
      CASE(a_lost_peer_cancels_its_calls),
      CASE(an_abort_resets_the_stream),
      CASE(a_slow_reader_stops_the_sender),
      CASE(a_reader_that_leaves_its_socket_full_stops_the_sender),
      CASE(a_frontend_that_does_not_pull_closes_the_window),
      CASE(unread_bytes_of_a_connection_are_bounded),
      CASE(pulling_opens_the_window),
      CASE(a_held_call_is_pulled_and_answered_from_another_thread),
      CASE(trailers_shrink_to_what_the_client_takes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
