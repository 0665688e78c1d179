/* The bytes of a client, to the bundled server with the test service: HTTP/2 frames, headers, gRPC framing, gzip,
 * metadata. The preface is sent first, unless the first byte of the input is odd. What must hold: no crash, and every
 * call that began ends. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/call_service.h"
#include "transport/h2/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static call_service service;
static trn_server *server;

static void start(void) {
  trn_error *error = NULL;
  trn_server_options options = {.struct_size = sizeof options,
                                .listen = "127.0.0.1:0",
                                .loops = 1,
                                .message_bytes_max = 1 << 20,
                                .memory_bytes_max = 16 << 20};
  if (trn_server_start(service_routes(&service), &options, &server, &error) != TRN_OK) abort();
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

static void push(int fd, const void *data, size_t size) {
  static char sink[65536];
  const char *at = data;
  while (size) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= (size_t)sent;
    } else if (errno != EAGAIN) {
      return;
    } else {
      struct pollfd poller = {.fd = fd, .events = POLLIN | POLLOUT};
      poll(&poller, 1, 1000);
      if (poller.revents & POLLIN && recv(fd, sink, sizeof sink, 0) <= 0 && errno != EAGAIN) return;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char sink[65536];
  if (!server) start();
  if (!size) return 0;
  int fd = connect_pair();
  if (data[0] % 2 == 0) push(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  push(fd, data + 1, size - 1);
  shutdown(fd, SHUT_WR); /* the server reads all of it, then the end, and closes */
  for (;;) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int ready = poll(&poller, 1, 60000);
    if (ready < 0 && errno == EINTR) continue; /* libFuzzer's alarm */
    if (ready <= 0) abort();                   /* it hangs */
    ssize_t got = recv(fd, sink, sizeof sink, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) break;
  }
  close(fd);
  for (int i = 0; atomic_load(&service.opens) != atomic_load(&service.dones); i++) {
    if (i == 60000) abort(); /* a call never ended */
    sleep_ms(1);
  }
  trn_call_unref(atomic_exchange(&service.held, NULL));
  if (atomic_load(&service.errors)) abort();
  return 0;
}
