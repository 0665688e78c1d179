/* The bundled server under attack, while another client goes on being served: what each attack costs in memory is
 * printed and bounded, and how long the other client waits is printed. Attackers are plain sockets, so that their own memory
 * is next to nothing. */
#include "h2_fixture.h"

#include <sys/resource.h>
#include <zlib.h>

#include <trunnion/client.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* ---- figures ---- */

static long status_kb(const char *name) {
  char line[256];
  long kb = -1;
  size_t size = strlen(name);
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, name, size) == 0 && line[size] == ':') kb = strtol(line + size + 1, NULL, 10);
  }
  if (file) fclose(file);
  return kb;
}

static void reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

/* ---- the other client ---- */

typedef struct bystander {
  pthread_t thread;
  int port;
  atomic_bool stops;
  int calls, failures;
  int64_t slowest_ms;
  long before_kb;
} bystander;

static void *bystander_run(void *argument) {
  bystander *b = argument;
  char target[32];
  trn_connector *connector = NULL;
  trn_channel *channel = NULL;
  snprintf(target, sizeof target, "127.0.0.1:%d", b->port);
  trn_channel_options options = {.struct_size = sizeof options, .target = target};
  if (trn_connector_create_network(NULL, &connector, NULL) || trn_channel_open(connector, &options, &channel, NULL)) {
    b->failures++;
    return NULL;
  }
  while (!atomic_load(&b->stops) || !b->calls) {
    trn_client_reply reply;
    trn_slice slice = {.data = "x", .size = 1};
    trn_client_request request = {.struct_size = sizeof request, .path = "/t.Test/Echo"};
    int64_t begun = client_now_ms();
    trn_status status = trn_client_invoke(channel, &request, &slice, 1, &reply, NULL);
    int64_t took = client_now_ms() - begun;
    if (took > b->slowest_ms) b->slowest_ms = took;
    b->calls++;
    b->failures += status != TRN_OK || reply.status != TRN_OK;
    trn_client_reply_finish(&reply);
    sleep_ms(2);
  }
  trn_channel_unref(channel);
  trn_connector_unref(connector);
  return NULL;
}

static bystander *watch(fixture *f) {
  bystander *b = calloc(1, sizeof *b);
  b->port = f->port;
  if (pthread_create(&b->thread, NULL, bystander_run, b) != 0) abort();
  sleep_ms(30);
  b->before_kb = status_kb("VmRSS");
  reset_peak();
  return b;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

/* Prints what it cost; more than `max_kb`, or a call of the other client that failed, fails the test. */
static void settle_up(bystander *b, const char *attack, long max_kb) {
  long peak_kb = status_kb("VmHWM") - b->before_kb;
  atomic_store(&b->stops, true);
  pthread_join(b->thread, NULL);
  print_message("           %-44s peak +%ld kB, after +%ld kB; the other client: %d calls, slowest %lld ms\n", attack,
                peak_kb, status_kb("VmRSS") - b->before_kb, b->calls, (long long)b->slowest_ms);
  int failures = b->failures;
  free(b);
  assert_int_equal(failures, 0);
  if (!IS_SANITIZED) assert_true(peak_kb <= max_kb); /* sanitizers keep what was freed */
}

/* ---- raw frames ---- */

static int raw_connect(fixture *f) {
  int fd = client_socket(f->port, 0);
  assert_true(fd >= 0);
  raw_send(fd, preface, sizeof preface - 1);
  raw_frame(fd, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
  return fd;
}

/* A request's headers, without any compression. */
static size_t header_block(uint8_t *to, const char *path, const char *type) {
  uint8_t *at = to;
  *at++ = 0x83;                         /* :method POST */
  *at++ = 0x86;                         /* :scheme http */
  *at++ = 0x01, *at++ = 1, *at++ = 'x'; /* :authority */
  *at++ = 0x04, *at++ = (uint8_t)strlen(path);
  at = (uint8_t *)memcpy(at, path, strlen(path)) + strlen(path);
  *at++ = 0x0f, *at++ = 0x10, *at++ = (uint8_t)strlen(type); /* content-type */
  at = (uint8_t *)memcpy(at, type, strlen(type)) + strlen(type);
  static const uint8_t te[] = "\0\2te\10trailers";
  at = (uint8_t *)memcpy(at, te, sizeof te - 1) + sizeof te - 1;
  return (size_t)(at - to);
}

static void raw_request(int fd, uint32_t id, const char *path, uint8_t flags) {
  uint8_t block[200];
  size_t size = header_block(block, path, "application/grpc");
  raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, id, block, size);
}

/* Reads and drops what is there; false: the peer closed. */
static bool raw_drain(int fd) {
  char buffer[65536];
  for (;;) {
    ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
}

/* Sends without waiting for ever; false: the peer closed, or takes nothing for two seconds. */
static bool raw_push(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      size -= (size_t)sent;
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    if (poll(&poller, 1, 2000) <= 0) return false;
  }
  return true;
}

static void put_frame(uint8_t *to, size_t size, uint8_t type, uint8_t flags, uint32_t id) {
  const uint8_t head[9] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size,      type,       flags,
                           (uint8_t)(id >> 24),   (uint8_t)(id >> 16),  (uint8_t)(id >> 8), (uint8_t)id};
  memcpy(to, head, 9);
}

/* ---- messages ---- */

static void a_gigabyte_against_a_limit_of_four_megabytes(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  static uint8_t frame[9 + 16384];
  for (int i = 0; i < 8; i++) {
    int fd = raw_connect(f);
    raw_request(fd, 1, "/t.Test/Echo", 0);
    static const uint8_t prefix[5] = {0, 0x40, 0, 0, 0};
    raw_frame(fd, NGHTTP2_DATA, 0, 1, prefix, 5);
    put_frame(frame, 16384, NGHTTP2_DATA, 0, 1);
    for (int j = 0; j < 4096 && raw_push(fd, frame, sizeof frame); j++) raw_drain(fd); /* ignores all windows */
    close(fd);
  }
  settle_up(b, "8 messages of 1 GB, limit 4 MB", 40000);
}

static size_t make_bomb(uint8_t *out, size_t capacity, size_t inflated) {
  static uint8_t zeros[1 << 16];
  z_stream z = {0};
  deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  z.next_out = out;
  z.avail_out = (uInt)capacity;
  for (size_t done = 0; done < inflated; done += sizeof zeros) {
    z.next_in = zeros;
    z.avail_in = sizeof zeros;
    deflate(&z, Z_NO_FLUSH);
  }
  deflate(&z, Z_FINISH);
  size_t size = capacity - z.avail_out;
  deflateEnd(&z);
  return size;
}

static void a_gzip_bomb_of_a_gigabyte(void **state) {
  fixture *f = *state;
  enum { CAPACITY = 2 << 20 };
  uint8_t *bomb = malloc(CAPACITY);
  size_t size = make_bomb(bomb, CAPACITY, 1u << 30);
  assert_in_range(size, 500000, CAPACITY - 1);
  bystander *b = watch(f);
  h2_client *client = client_connect(f->port, true, 0);
  nghttp2_nv gzip = client_nv("grpc-encoding", "gzip");
  for (int i = 0; i < 4; i++) {
    h2_reply *reply = client_call(client, "/t.Test/Echo", &gzip, 1);
    uint8_t prefix[5] = {1, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
    client_write(client, reply, prefix, 5, false);
    client_write(client, reply, bomb, size, true);
    client_finish(client, reply);
    expect(reply, 8, "larger than max after decompression");
  }
  client_close(client);
  settle_up(b, "4 gzip bombs, 1 MB that inflate to 1 GB", 60000);
  free(bomb);
}

/* ---- floods ---- */

static void a_flood_of_continuations(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  static uint8_t frame[9 + 10240];
  memset(frame, 0x40, sizeof frame);
  size_t sent = 0;
  for (int i = 0; i < 10; i++) {
    int fd = raw_connect(f);
    raw_frame(fd, NGHTTP2_HEADERS, 0, 1, "\x83", 1);
    put_frame(frame, 10240, NGHTTP2_CONTINUATION, 0, 1);
    for (int j = 0; j < 20000 && raw_push(fd, frame, sizeof frame); j++) sent += sizeof frame;
    close(fd);
  }
  print_message("           %zu MB were taken before the connections ended\n", sent >> 20);
  assert_true(sent < (200u << 20));
  settle_up(b, "10 floods of CONTINUATION", 40000);
}

static void flood(fixture *f, const char *name, uint8_t type, const void *payload, size_t size) {
  bystander *b = watch(f);
  static uint8_t frames[64 * 32];
  uint8_t *at = frames;
  for (int i = 0; i < 32; i++) {
    put_frame(at, size, type, 0, 0);
    if (size) memcpy(at + 9, payload, size);
    at += 9 + size;
  }
  int closed = 0;
  for (int i = 0; i < 4; i++) {
    int fd = raw_connect(f);
    bool open = true;
    for (int j = 0; j < 100000 && open; j++) open = raw_push(fd, frames, (size_t)(at - frames)); /* reads no answer */
    closed += !open;
    close(fd);
  }
  assert_int_equal(closed, 4);
  settle_up(b, name, 40000);
}

static void a_flood_of_settings(void **state) {
  flood(*state, "4 floods of SETTINGS, answers unread", NGHTTP2_SETTINGS, "\0\4\0\0\xff\xff", 6);
}

static void a_flood_of_pings(void **state) {
  flood(*state, "4 floods of PING, answers unread", NGHTTP2_PING, "12345678", 8);
}

static void fifty_thousand_resets(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  uint32_t resets = 0;
  for (int i = 0; i < 3; i++) {
    int fd = raw_connect(f);
    bool open = true;
    for (uint32_t id = 1; id < 100000 && open; id += 2, resets++) {
      uint8_t bytes[300], block[200];
      size_t size = header_block(block, "/t.Test/Hang", "application/grpc");
      put_frame(bytes, size, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id);
      memcpy(bytes + 9, block, size);
      put_frame(bytes + 9 + size, 4, NGHTTP2_RST_STREAM, 0, id);
      memcpy(bytes + 18 + size, "\0\0\0\10", 4);
      open = raw_push(fd, bytes, 22 + size) && raw_drain(fd);
    }
    close(fd);
  }
  print_message("           %u resets were taken before the connections ended\n", resets);
  settle_up(b, "rapid resets", 40000);
}

static void fifty_thousand_open_streams(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  int fd = raw_connect(f);
  uint32_t opened = 0;
  for (uint32_t id = 1; id < 100000; id += 2, opened++) {
    uint8_t bytes[300], block[200];
    size_t size = header_block(block, "/t.Test/Hang", "application/grpc");
    put_frame(bytes, size, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id);
    memcpy(bytes + 9, block, size);
    if (!raw_push(fd, bytes, 9 + size) || !raw_drain(fd)) break; /* never acknowledges SETTINGS */
  }
  print_message("           %u streams were opened by one connection, %d calls reached the frontend\n", opened,
                atomic_load(&f->service.opens));
  settle_up(b, "50,000 streams without an end", 60000);
  close(fd);
}

/* ---- the slow ---- */

static int set_up_impatient(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  return start_server(
      f,
      (trn_server_options){
          .loops = 2, .message_bytes_max = 4u << 20, .handshake_ms = 800, .stalled_ms = 800, .connections_max = 30000});
}

static void the_slow_are_not_waited_for(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  enum { COUNT = 100 };
  int prefaces[COUNT], headers[COUNT], bodies[COUNT];
  uint8_t block[200];
  size_t size = header_block(block, "/t.Test/Echo", "application/grpc");
  for (int i = 0; i < COUNT; i++) {
    prefaces[i] = client_socket(f->port, 0);
    raw_send(prefaces[i], preface, (size_t)i % 20);
    headers[i] = raw_connect(f);
    raw_frame(headers[i], NGHTTP2_HEADERS, 0, 1, block, size);
    bodies[i] = raw_connect(f);
    raw_request(bodies[i], 1, "/t.Test/Echo", 0);
    raw_frame(bodies[i], NGHTTP2_DATA, 0, 1, "\0\0\0\0\x10half", 9);
  }
  int64_t until = client_now_ms() + 2500;
  while (client_now_ms() < until) { /* a byte now and then keeps nobody alive who is in the middle of headers */
    for (int i = 0; i < COUNT; i++) raw_frame(headers[i], NGHTTP2_CONTINUATION, 0, 1, "", 0);
    sleep_ms(300);
  }
  for (int i = 0; i < COUNT; i++) {
    assert_true(raw_is_closed(prefaces[i], 2000));
    assert_true(raw_is_closed(headers[i], 2000));
    close(prefaces[i]), close(headers[i]), close(bodies[i]);
  }
  assert_true(wait_for_count(&f->service.cancels, COUNT)); /* the calls of the bodies ended, their connections live */
  settle_up(b, "300 slow: prefaces, headers, bodies", 40000);
}

static void readers_that_stop_reading(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  enum { COUNT = 20 };
  int fds[COUNT];
  for (int i = 0; i < COUNT; i++) {
    fds[i] = client_socket(f->port, 4096);
    raw_send(fds[i], preface, sizeof preface - 1);
    raw_frame(fds[i], NGHTTP2_SETTINGS, 0, 0, "\0\4\x7f\xff\xff\xff", 6);
    raw_frame(fds[i], NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\0\0\0", 4);
    raw_request(fds[i], 1, "/t.Test/Stream", 0);
    raw_frame(fds[i], NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1,
              "\0\0\0\0\x0c"
              "10000 100000",
              17);
  }
  sleep_ms(600);
  long peak = status_kb("VmHWM") - b->before_kb;
  print_message("           20 unread gigabytes hold %ld kB\n", peak);
  for (int i = 0; i < 400 && atomic_load(&f->service.cancels) < COUNT; i++) sleep_ms(10); /* stalled: they are let go */
  assert_int_equal(atomic_load(&f->service.cancels), COUNT);
  for (int i = 0; i < COUNT; i++) close(fds[i]);
  settle_up(b, "20 readers of 1 GB that stop reading", 100000);
}

static int set_up_inquisitive(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  return start_server(f, (trn_server_options){.loops = 2, .keepalive_ms = 300, .keepalive_timeout_ms = 300});
}

/* Peers that are gone without a word: their sockets stay, each with a call that nobody will read. Nothing comes from
 * them, no answer to a PING either. */
static void half_open_connections_are_given_up(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  enum { COUNT = 400 };
  int fds[COUNT];
  for (int i = 0; i < COUNT; i++) {
    fds[i] = raw_connect(f);
    raw_request(fds[i], 1, "/t.Test/Hang", 0);
    raw_frame(fds[i], NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\1x", 6);
  }
  assert_true(wait_for_count(&f->service.cancels, COUNT));
  for (int i = 0; i < COUNT; i++) {
    assert_true(raw_is_closed(fds[i], 5000));
    close(fds[i]);
  }
  settle_up(b, "400 half-open connections with a call each", 40000);
}

static void ten_thousand_connections(void **state) {
  fixture *f = *state;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  int count = limit.rlim_cur > 21000 ? 10000 : (int)(limit.rlim_cur - 500) / 2; /* both ends are in this process */
  int *fds = calloc((size_t)count, sizeof *fds);
  bystander *b = watch(f);
  for (int i = 0; i < count; i++) {
    fds[i] = raw_connect(f);
    if (i % 100 == 0) sleep_ms(1);
  }
  sleep_ms(300);
  long kb = status_kb("VmRSS") - b->before_kb;
  print_message("           %d connections: %ld bytes each\n", count, kb * 1024 / count);
  if (!IS_SANITIZED) assert_true(kb * 1024 / count < 32768);
  settle_up(b, "10,000 idle connections", 400000);
  for (int i = 0; i < count; i++) close(fds[i]);
  free(fds);
}

/* ---- what is no gRPC ---- */

static void wrong_types_and_binary_garbage(void **state) {
  fixture *f = *state;
  bystander *b = watch(f);
  static const char *const types[] = {
      "", "text/html", "application/json", "application/grpc-web", "application/grpcx", "APPLICATION/GRPC\x80"};
  for (int round = 0; round < 50; round++) {
    int fd = raw_connect(f);
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
      uint8_t block[200];
      size_t size = header_block(block, "/t.Test/Echo", types[i]);
      raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1 + 2 * i, block, size);
    }
    sleep_ms(2);
    close(fd);
  }
  h2_client *client = client_connect(f->port, true, 0);
  static const char *const garbage[] = {"!", "====", "A", "AAAA=A", "\xff\xfe", "AA AA", ",,,,", "AAAAA"};
  for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
    nghttp2_nv nv = client_nv("x-garbage-bin", garbage[i]);
    h2_reply *reply = ask(client, "/t.Test/Echo", &nv, 1, "x", 1);
    assert_true(reply->is_closed);
    bool is_refused = reply->grpc_status == 13 || reply->error_code == NGHTTP2_PROTOCOL_ERROR;
    assert_true(is_refused || strcmp(garbage[i], ",,,,") == 0);
  }
  client_close(client);
  assert_int_equal(atomic_load(&f->service.errors), 0);
  settle_up(b, "wrong content types, garbage in -bin", 40000);
}

static void memory_of_all_connections_has_one_budget(void **state) {
  (void)state;
  fixture f = {0};
  assert_int_equal(start_server(&f, (trn_server_options){.loops = 2, .memory_bytes_max = 16u << 20}), 0);
  bystander *b = watch(&f);
  enum { COUNT = 40 };
  static uint8_t half[1 << 20];
  h2_client *clients[COUNT];
  h2_reply *replies[COUNT];
  int refused = 0;
  for (int i = 0; i < COUNT; i++) { /* each is half of a message of 2 MB */
    clients[i] = client_connect(f.port, true, 0);
    replies[i] = client_call(clients[i], "/t.Test/Echo", NULL, 0);
    client_write(clients[i], replies[i], "\0\0\x20\0\0", 5, false);
    client_write(clients[i], replies[i], half, sizeof half, false);
    client_run(clients[i], 20);
  }
  for (int i = 0; i < COUNT; i++) {
    client_run(clients[i], 1);
    refused += replies[i]->grpc_status == 8;
  }
  print_message("           %d of %d messages of 2 MB were refused under a budget of 16 MB\n", refused, COUNT);
  assert_in_range(refused, COUNT - 17, COUNT - 4);
  settle_up(b, "40 halves of 2 MB, budget 16 MB", 110000); /* the clients' own copies count too */
  for (int i = 0; i < COUNT; i++) client_close(clients[i]);
  sleep_ms(50);
  expect_alive(&f);
  trn_server_stop(f.server, 0);
  assert_true(service_is_clean(&f.service));
  trn_routes_destroy(f.routes);
}

#define SLOW(name) cmocka_unit_test_setup_teardown(name, set_up_impatient, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(a_gigabyte_against_a_limit_of_four_megabytes),
      CASE(a_gzip_bomb_of_a_gigabyte),
      CASE(a_flood_of_continuations),
      CASE(a_flood_of_settings),
      CASE(a_flood_of_pings),
      CASE(fifty_thousand_resets),
      CASE(fifty_thousand_open_streams),
      SLOW(the_slow_are_not_waited_for),
      SLOW(readers_that_stop_reading),
      cmocka_unit_test_setup_teardown(half_open_connections_are_given_up, set_up_inquisitive, tear_down),
      CASE(wrong_types_and_binary_garbage),
      cmocka_unit_test(memory_of_all_connections_has_one_budget),
      cmocka_unit_test_setup_teardown(ten_thousand_connections, set_up_impatient, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
