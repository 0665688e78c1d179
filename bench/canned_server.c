/* A server that answers each method with bytes from a file, whatever was asked: the floor that a client's own cost sets.
 * usage: canned_server DIR; DIR/<Method> holds u32 little-endian length, bytes, ... of one reply; DIR/ExecutePlan.first, when there,
 * is the reply to the first call. Prints its port. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/server.h>

typedef struct canned {
  unsigned char *first, *data;
  size_t first_size, size;
  atomic_int calls;
} canned;

static unsigned char *read_all(const char *directory, const char *name, size_t *size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  unsigned char *data = malloc(1 << 20);
  *size = data ? fread(data, 1, 1 << 20, file) : 0;
  fclose(file);
  return data;
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  canned *c = user;
  if (message.release) message.release(message.owner);
  int number = atomic_fetch_add(&c->calls, 1);
  const unsigned char *at = number == 0 && c->first ? c->first : c->data;
  const unsigned char *end = at ? at + (at == c->first ? c->first_size : c->size) : NULL;
  while (end && end - at >= 4) {
    uint32_t size = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    trn_slice slice = {.data = at + 4, .size = size};
    trn_call_send(call, &slice, 1, TRN_SEND_MORE);
    at += 4 + size;
  }
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void on_done(trn_call *call, void *user) { (void)call, (void)user; }

int main(int argc, char **argv) {
  static const char *const NAMES[] = {"ExecutePlan", "ReattachExecute", "ReleaseExecute", "Config", "AnalyzePlan", "ReleaseSession"};
  static canned replies[sizeof NAMES / sizeof *NAMES];
  trn_routes *routes;
  trn_server *server;
  trn_error *error = NULL;
  if (argc != 2 || trn_routes_create(&routes)) return 2;
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    char path[128], first[64];
    snprintf(path, sizeof path, "/spark.connect.SparkConnectService/%s", NAMES[i]);
    snprintf(first, sizeof first, "%s.first", NAMES[i]);
    replies[i].data = read_all(argv[1], NAMES[i], &replies[i].size);
    replies[i].first = read_all(argv[1], first, &replies[i].first_size);
    trn_method method = {.struct_size = sizeof method,
                         .path = path,
                         .kind = i < 2 ? TRN_METHOD_SERVER_STREAM : TRN_METHOD_UNARY,
                         .on_message = on_message,
                         .on_done = on_done,
                         .service = &replies[i]};
    if (trn_routes_add(routes, &method, 1, NULL)) return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  trn_server_options options = {.struct_size = sizeof options, .listen = "127.0.0.1:0"};
  if (trn_server_start(routes, &options, &server, &error)) return fprintf(stderr, "%s\n", trn_error_message(error)), 1;
  printf("sc://127.0.0.1:%d\n", trn_server_port(server));
  fflush(stdout);
  int number;
  sigwait(&signals, &number);
  trn_server_stop(server, 0);
  trn_routes_destroy(routes);
  return 0;
}
