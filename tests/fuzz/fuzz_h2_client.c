/* The bytes of a server, to the network's client: it connects, calls, and reads what the input says. What must hold: no
 * crash, and every call ends once. The client's loop runs on the fuzzer's own thread: an input costs no wait for another
 * one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/h2/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS = 3, TURNS_MAX = 1000000 /* of the loop, for one input: then it hangs */ };

static trn_connector *connector;
static h2_base *base;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char target[128];

static void start(void) {
  snprintf(address.sun_path, sizeof address.sun_path, "/tmp/trn-fuzz-%d.sock", (int)getpid());
  snprintf(target, sizeof target, "unix:%s", address.sun_path);
  if (trn__h2_connector_create(NULL, false, &base, &connector, NULL) != TRN_OK) abort();
}

static void on_message(trn_client_call *call, void *user, trn_slice message) {
  (void)user;
  if (message.release) message.release(message.owner);
  trn_client_call_recv(call);
}

static void on_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call;
  for (size_t i = 0; i < result->trailing_count; i++) {
    if (strlen(result->trailing[i].key) > 1 << 20) abort();
  }
  ++*(int *)user;
}

/* What was asked for outside of the loop's callbacks waits for no event: first. */
static void turn(void) {
  trn__h2_loop_settle(&base->loops[0]);
  uv_run(&base->loops[0].uv, UV_RUN_NOWAIT);
}

static void begin(trn_channel *channel, trn_client_call *calls[CALLS], int dones[CALLS]) {
  static const trn_client_handlers handlers = {
      .struct_size = sizeof handlers, .on_message = on_message, .on_done = on_done};
  static const trn_method_kind kinds[CALLS] = {TRN_METHOD_UNARY, TRN_METHOD_SERVER_STREAM, TRN_METHOD_BIDI};
  for (int i = 0; i < CALLS; i++) { /* streams 1, 3, 5 */
    trn_client_request request = {.struct_size = sizeof request,
                                  .path = "/t.Test/Any",
                                  .kind = kinds[i],
                                  .handlers = &handlers,
                                  .user = &dones[i]};
    if (trn_client_call_start(channel, &request, &calls[i], NULL) != TRN_OK) abort();
    trn_slice slice = {.data = "x", .size = 1};
    trn_client_call_send(calls[i], &slice, 1, 0);
    trn_client_call_recv(calls[i]);
    if (i < 2) trn_client_call_half_close(calls[i]);
  }
}

/* The one connection that there is for an input: who tries again finds nobody. */
static int take_connection(trn_channel *channel, trn_client_call *calls[CALLS], int dones[CALLS]) {
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), fd = -1;
  unlink(address.sun_path);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) abort();
  begin(channel, calls, dones);
  for (int i = 0; i < TURNS_MAX && fd < 0; i++) {
    turn();
    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }
  close(listener);
  unlink(address.sun_path);
  if (fd < 0) abort();
  return fd;
}

/* Reads what the client has sent. False: it has closed the connection. */
static bool drain(int fd) {
  static char sink[65536];
  for (;;) {
    ssize_t got = recv(fd, sink, sizeof sink, 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got < 0 && errno == EAGAIN;
  }
}

static void serve(int fd, const uint8_t *data, size_t size) {
  bool is_open = send(fd, "\0\0\0\4\0\0\0\0\0", 9, MSG_NOSIGNAL) == 9;
  while (is_open && size) {
    ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent > 0) {
      data += sent;
      size -= (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
      break;
    }
    turn();
    is_open = drain(fd);
  }
  shutdown(fd, SHUT_WR);
  for (int i = 0; drain(fd); i++) {
    if (i == TURNS_MAX) abort(); /* it hangs */
    turn();
  }
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!connector) start();
  trn_channel_options options = {.struct_size = sizeof options,
                                 .target = target,
                                 .message_bytes_max = 1 << 20,
                                 .backoff_ms = 1,
                                 .backoff_ms_max = 1};
  trn_channel *channel = NULL;
  trn_client_call *calls[CALLS];
  int dones[CALLS] = {0};
  if (trn_channel_open(connector, &options, &channel, NULL) != TRN_OK) abort();
  serve(take_connection(channel, calls, dones), data, size);
  for (int i = 0; i < CALLS; i++) {
    for (int j = 0; !dones[i]; j++) {
      if (j == TURNS_MAX) abort(); /* a call never ended */
      turn();
    }
    if (dones[i] != 1) abort();
    trn_client_call_unref(calls[i]);
  }
  trn_channel_unref(channel);
  for (int i = 0; i < 3; i++) turn(); /* what is freed later is freed now: else it looks like a leak, which costs a search */
  return 0;
}
