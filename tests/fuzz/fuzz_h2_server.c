/* The bytes of a client, to the bundled server with the test service: HTTP/2 frames, headers, gRPC framing, gzip,
 * metadata. The preface is sent first, unless the first byte of the input is odd. What must hold: no crash, and every
 * call that began ends. The server's loop runs on the fuzzer's own thread: an input costs no wait for another one. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/call_service.h"
#include "transport/h2/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS_MAX = 1000000 /* of the loop, for one input: then it hangs */ };

static call_service service;
static trn_server *server;

static void start(void) {
  trn_error *error = NULL;
  trn_server_options options = {.struct_size = sizeof options,
                                .listen = "127.0.0.1:0",
                                .loops = 1,
                                .message_bytes_max = 1 << 20,
                                .memory_bytes_max = 16 << 20};
  service.is_threadless = true;
  service.stream_max = 100; /* its input is short, what it makes the server do should be */
  if (trn__h2_server_start(service_routes(&service), &options, false, &server, &error) != TRN_OK) abort();
}

/* The server's end of a pair becomes one of its connections, as if it had been accepted. */
static int connect_pair(void) {
  int fds[2];
  h2_handoff *handoff = calloc(1, sizeof *handoff);
  if (!handoff || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) abort();
  handoff->fd = fds[0];
  handoff->address.ss_family = AF_UNIX;
  atomic_fetch_add(&server->base.connection_count, 1);
  if (!trn__h2_loop_handoff(&server->base.loops[0], handoff)) abort();
  return fds[1];
}

/* What was asked for outside of the loop's callbacks waits for no event: first. */
static void turn(void) {
  trn__h2_loop_settle(&server->base.loops[0]);
  uv_run(&server->base.loops[0].uv, UV_RUN_NOWAIT);
}

/* Reads what the server has sent. False: it has closed the connection. */
static bool drain(int fd) {
  static char sink[65536];
  for (;;) {
    ssize_t got = recv(fd, sink, sizeof sink, 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got < 0 && errno == EAGAIN;
  }
}

/* False: the server has closed the connection. */
static bool push(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    }
    turn();
    if (!drain(fd)) return false;
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!server) start();
  if (!size) return 0;
  int fd = connect_pair();
  bool is_open = data[0] % 2 || push(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  if (is_open) push(fd, data + 1, size - 1);
  shutdown(fd, SHUT_WR); /* the server reads all of it, then the end, and closes */
  for (int i = 0; drain(fd); i++) {
    if (i == TURNS_MAX) abort(); /* it hangs */
    turn();
  }
  close(fd);
  for (int i = 0; atomic_load(&service.opens) != atomic_load(&service.dones); i++) {
    if (i == TURNS_MAX) abort(); /* a call never ended */
    turn();
  }
  trn_call_unref(atomic_exchange(&service.held, NULL));
  for (int i = 0; i < 3; i++) turn(); /* what is freed later is freed now: else it looks like a leak, which costs a search */
  if (atomic_load(&service.errors)) abort();
  return 0;
}
