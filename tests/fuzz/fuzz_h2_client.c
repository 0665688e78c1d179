/* The bytes of a server, to the network's client: it connects, calls, and reads what the input says. What must hold: no
 * crash, and every call ends once. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <stdatomic.h>

#include <trunnion/client.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static trn_connector *connector;
static int listener = -1;
static char target[128];

static void start(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/tmp/trn-fuzz-%d.sock", (int)getpid());
  snprintf(target, sizeof target, "unix:%s", address.sun_path);
  unlink(address.sun_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0) abort();
  if (trn_connector_create_network(NULL, &connector, NULL) != TRN_OK) abort();
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
  atomic_fetch_add((atomic_int *)user, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const trn_client_handlers handlers = {
      .struct_size = sizeof handlers, .on_message = on_message, .on_done = on_done};
  static const trn_method_kind kinds[] = {TRN_METHOD_UNARY, TRN_METHOD_SERVER_STREAM, TRN_METHOD_BIDI};
  if (!connector) start();
  trn_channel_options options = {.struct_size = sizeof options, .target = target, .message_bytes_max = 1 << 20};
  trn_channel *channel = NULL;
  trn_client_call *calls[3];
  atomic_int dones[3] = {0};
  if (trn_channel_open(connector, &options, &channel, NULL) != TRN_OK) abort();
  for (int i = 0; i < 3; i++) { /* streams 1, 3, 5 */
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
  int fd = accept(listener, NULL, NULL);
  char sink[4096];
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  if (poll(&poller, 1, 1000) > 0 && recv(fd, sink, sizeof sink, 0) < 0) abort(); /* the preface */
  send(fd, "\0\0\0\4\0\0\0\0\0", 9, MSG_NOSIGNAL);
  for (size_t sent = 0; sent < size;) {
    ssize_t some = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
    if (some <= 0) break;
    sent += (size_t)some;
  }
  shutdown(fd, SHUT_WR);
  while (recv(fd, sink, sizeof sink, 0) > 0) continue;
  close(fd);
  int others;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; !atomic_load(&dones[i]); j++) {
      struct pollfd again = {.fd = listener, .events = POLLIN};
      if (poll(&again, 1, 1) > 0 && (others = accept(listener, NULL, NULL)) >= 0) close(others);
      if (j == 60000) abort(); /* a call never ended */
    }
    if (atomic_load(&dones[i]) != 1) abort();
    trn_client_call_unref(calls[i]);
  }
  trn_channel_unref(channel);
  return 0;
}
