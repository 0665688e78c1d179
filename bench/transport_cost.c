/* What the transport costs: bytes per idle connection and stream, CPU per call and per gigabyte at the server, time
 * from the start to the first answer. The server is a process of its own with an echo service; the client is
 * client.h's. usage: transport_cost [scale, default 1]; one "name value unit" per line. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trunnion/client.h>
#include <trunnion/server.h>

/* ---- the server's process ---- */

static void keep(void *owner) {
  (void)owner;
}

static void echo(trn_call *call, void *user, trn_slice message) {
  (void)user;
  trn_call_send(call, &message, 1, TRN_SEND_MORE);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void hold(trn_call *call, void *user, trn_slice message) {
  (void)call, (void)user;
  if (message.release) message.release(message.owner);
}

static char block[1 << 20];
typedef struct flow {
  size_t left;
} flow;

static void more(trn_call *call, void *user) {
  flow *f = user;
  while (f->left) {
    trn_slice slice = {block, sizeof block, keep, block};
    f->left--;
    trn_send_result result = trn_call_send(call, &slice, 1, 0);
    if (result != TRN_SEND_READY) return;
  }
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void pour_open(trn_call *call, void *service) {
  (void)service;
  trn_call_set_user(call, calloc(1, sizeof(flow)));
}

static void pour(trn_call *call, void *user, trn_slice message) {
  flow *f = user;
  char text[32] = "";
  memcpy(text, message.data, message.size < 31 ? message.size : 31);
  if (message.release) message.release(message.owner);
  f->left = strtoul(text, NULL, 10);
  more(call, f);
}

static void done(trn_call *call, void *user) {
  (void)call, (void)user;
}

static void pour_done(trn_call *call, void *user) {
  (void)call;
  free(user);
}

static void serve(const char *listen, int ready) {
  static const trn_method methods[] = {
      {.struct_size = sizeof *methods, .path = "/b/Echo", .on_message = echo, .on_done = done},
      {.struct_size = sizeof *methods, .path = "/b/Hold", .on_message = hold, .on_done = done},
      {.struct_size = sizeof *methods,
       .path = "/b/Pour",
       .kind = TRN_METHOD_SERVER_STREAM,
       .on_open = pour_open,
       .on_message = pour,
       .on_writable = more,
       .on_done = pour_done},
  };
  trn_routes *routes = NULL;
  trn_server *server = NULL;
  trn_server_options options = {.struct_size = sizeof options, .listen = listen, .loops = 1, .streams_max = 20000};
  if (trn_routes_create(&routes) || trn_routes_add(routes, methods, 3, NULL) ||
      trn_server_start(routes, &options, &server, NULL)) {
    _exit(1);
  }
  if (write(ready, "r", 1) != 1) _exit(1);
  pause(); /* until it is killed */
}

/* ---- figures ---- */

static pid_t child;

static long child_kb(void) {
  char path[64], line[256];
  long kb = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)child);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %ld", &kb);
  if (file) fclose(file);
  return kb;
}

static double child_cpu(void) {
  char path[64], text[1024] = "";
  unsigned long user = 0, system = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  FILE *file = fopen(path, "r");
  if (file && fgets(text, sizeof text, file)) {
    sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  }
  if (file) fclose(file);
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void figure(const char *name, double value, const char *unit) {
  printf("%s %.2f %s\n", name, value, unit);
  fflush(stdout);
}

/* ---- the client's side ---- */

static trn_channel *channel;

static trn_status invoke(const char *path, const char *text) {
  trn_client_reply reply;
  trn_client_request request = {.struct_size = sizeof request, .path = path, .wait_for_ready = true};
  trn_slice slice = {.data = text, .size = strlen(text)};
  trn_status status = trn_client_invoke(channel, &request, &slice, 1, &reply, NULL);
  if (!status) status = reply.status;
  trn_client_reply_finish(&reply);
  return status;
}

static void on_message(trn_client_call *call, void *user, trn_slice message) {
  (void)user;
  if (message.release) message.release(message.owner);
  trn_client_call_recv(call);
}

static void on_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call, (void)result;
  atomic_fetch_add((atomic_int *)user, 1);
}

static const trn_client_handlers handlers = {
    .struct_size = sizeof handlers, .on_message = on_message, .on_done = on_done};

static trn_client_call *start(const char *path, trn_method_kind kind, const char *text, atomic_int *dones) {
  trn_client_call *call = NULL;
  trn_client_request request = {.struct_size = sizeof request,
                                .path = path,
                                .kind = kind,
                                .wait_for_ready = true,
                                .handlers = &handlers,
                                .user = dones};
  trn_slice slice = {.data = text, .size = strlen(text)};
  if (trn_client_call_start(channel, &request, &call, NULL) != TRN_OK) exit(1);
  trn_client_call_send(call, &slice, 1, 0);
  trn_client_call_recv(call);
  trn_client_call_half_close(call);
  return call;
}

static void wait_for(atomic_int *dones, int count) {
  while (atomic_load(dones) < count) usleep(1000);
}

static void measure_calls(int count) {
  double cpu = child_cpu(), begun = now();
  for (int i = 0; i < count; i++) invoke("/b/Echo", "0123456789012345678901234567890123456789012345678901234567890123");
  figure("unary_latency", (now() - begun) / count * 1e6, "us");
  figure("server_cpu_per_call", (child_cpu() - cpu) / count * 1e6, "us");
  atomic_int dones = 0;
  cpu = child_cpu(), begun = now();
  for (int i = 0; i < count; i += 100) { /* a hundred at once */
    for (int j = 0; j < 100; j++) trn_client_call_unref(start("/b/Echo", TRN_METHOD_UNARY, "x", &dones));
    wait_for(&dones, i + 100);
  }
  figure("server_cpu_per_call_x100", (child_cpu() - cpu) / count * 1e6, "us");
  figure("calls_per_s_x100", count / (now() - begun), "/s");
}

static void measure_flow(int gigabytes) {
  char text[32];
  atomic_int dones = 0;
  double cpu = child_cpu(), begun = now();
  snprintf(text, sizeof text, "%d", gigabytes * 1024);
  trn_client_call_unref(start("/b/Pour", TRN_METHOD_SERVER_STREAM, text, &dones));
  wait_for(&dones, 1);
  figure("server_cpu_per_GB", (child_cpu() - cpu) / gigabytes, "s");
  figure("throughput", gigabytes / (now() - begun), "GB/s");
}

static void measure_streams(int count) {
  atomic_int dones = 0;
  trn_client_call **calls = calloc((size_t)count, sizeof *calls);
  long kb = child_kb();
  for (int i = 0; i < count; i++) calls[i] = start("/b/Hold", TRN_METHOD_UNARY, "x", &dones);
  invoke("/b/Echo", "x"); /* behind them */
  usleep(100000);
  figure("bytes_per_idle_stream", (double)(child_kb() - kb) * 1024 / count, "B");
  for (int i = 0; i < count; i++) trn_client_call_cancel(calls[i]);
  wait_for(&dones, count);
  for (int i = 0; i < count; i++) trn_client_call_unref(calls[i]);
  free(calls);
}

static void measure_connections(const char *path, int count) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
  int *fds = calloc((size_t)count, sizeof *fds);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  long kb = child_kb();
  for (int i = 0; i < count; i++) {
    fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fds[i], (struct sockaddr *)&address, sizeof address) != 0 || write(fds[i], hello, sizeof hello) < 0)
      exit(1);
  }
  invoke("/b/Echo", "x");
  usleep(200000);
  figure("bytes_per_idle_connection", (double)(child_kb() - kb) * 1024 / count, "B");
  for (int i = 0; i < count; i++) close(fds[i]);
  free(fds);
}

int main(int argc, char **argv) {
  int scale = argc > 1 ? atoi(argv[1]) : 1, ready[2];
  char path[80], listen[96], byte;
  snprintf(path, sizeof path, "/tmp/trn-cost-%d.sock", (int)getpid());
  snprintf(listen, sizeof listen, "unix:%s", path);
  if (pipe(ready) != 0) return 1;
  double begun = now();
  child = fork();
  if (child == 0) serve(listen, ready[1]);
  if (child < 0 || read(ready[0], &byte, 1) != 1) return 1;
  trn_connector *connector = NULL;
  trn_channel_options options = {.struct_size = sizeof options, .target = listen};
  if (trn_connector_create_network(NULL, &connector, NULL) || trn_channel_open(connector, &options, &channel, NULL))
    return 1;
  trn_status status = invoke("/b/Echo", "x");
  figure("start_to_first_answer", (now() - begun) * 1e3, "ms");
  figure("server_at_rest", (double)child_kb() / 1024, "MB");
  measure_streams(1000);
  measure_connections(path, 500);
  measure_calls(5000 * scale);
  measure_flow(2 * scale);
  trn_channel_unref(channel);
  trn_connector_unref(connector);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  unlink(path);
  return status != TRN_OK;
}
