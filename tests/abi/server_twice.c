/* Loads the server's library, serves a call over a socket, unloads it; several times: nothing is left, neither memory
 * nor threads nor file descriptors, and the libraries are really gone. usage: server_twice LIBTRUNNION
 * LIBTRUNNION_SERVER */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <trunnion/frontend.h>
#include <trunnion/server.h>

enum { ROUNDS = 24, FIRST = 12 /* what is made once is made */, NOISE = 2048 };

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define CORE(X)                                                                                                        \
  X(trn_routes_create)                                                                                                 \
  X(trn_routes_destroy) X(trn_frontend_register) X(trn_frontend_destroy) X(trn_health_frontend_create)
#define SERVER(X) X(trn_server_start) X(trn_server_port) X(trn_server_stop)
#define MEMBER(name) static __typeof__(&name) use_##name;
CORE(MEMBER)
SERVER(MEMBER)

static void *load(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) fprintf(stderr, "%s\n", dlerror());
  CHECK(handle);
  return handle;
}

static void unload(void *handle, const char *path) {
  CHECK(dlclose(handle) == 0);
  CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD)); /* really gone */
}

/* The preface, SETTINGS, and grpc.health.v1.Health/Check with an empty message; reads until the trailers' grpc-status.
 */
static void ask(int port) {
  static const char request[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                "\0\0\0\4\0\0\0\0\0"
                                "\0\0\x4f\1\4\0\0\0\1"
                                "\x83\x86\4\x1c/grpc.health.v1.Health/Check\1\1x\0\x0c"
                                "content-type\x10"
                                "application/grpc\0\2te\x08"
                                "trailers"
                                "\0\0\5\0\1\0\0\0\1\0\0\0\0\0";
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  char answer[4096];
  size_t size = 0;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval patience = {20, 0};
  CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  CHECK(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1);
  while (!memmem(answer, size, "grpc-status", 11) && !memmem(answer, size, "\0\0\0\0\2\x08\x01", 7)) {
    ssize_t got = recv(fd, answer + size, sizeof answer - size, 0);
    CHECK(got > 0); /* SERVING is there: a message of two bytes, or an error says so and fails below */
    size += (size_t)got;
  }
  CHECK(memmem(answer, size, "\0\0\0\0\2\x08\x01", 7));
  close(fd);
}

static unsigned entries(const char *path) {
  DIR *folder = opendir(path);
  unsigned count = 0;
  CHECK(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Threads that ended may still be listed for a moment. */
static unsigned threads(unsigned wanted) {
  unsigned count = 0;
  for (int i = 0; i < 2000 && (count = entries("/proc/self/task")) > wanted; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return count;
}

static void run(const char *core_path, const char *server_path) {
  trn_routes *routes = NULL;
  trn_frontend *frontend = NULL;
  trn_server *server = NULL;
  void *core = load(core_path), *handle = load(server_path);
#define FROM_CORE(name) CHECK((*(void **)&use_##name = dlsym(core, #name)));
#define FROM_SERVER(name) CHECK((*(void **)&use_##name = dlsym(handle, #name)));
  CORE(FROM_CORE)
  SERVER(FROM_SERVER)
  CHECK(use_trn_routes_create(&routes) == TRN_OK && use_trn_health_frontend_create(&frontend) == TRN_OK);
  CHECK(use_trn_frontend_register(frontend, routes, NULL, NULL) == TRN_OK);
  use_trn_frontend_destroy(frontend);
  const trn_server_options options = {.struct_size = sizeof options, .listen = "127.0.0.1:0"};
  CHECK(use_trn_server_start(routes, &options, &server, NULL) == TRN_OK);
  ask(use_trn_server_port(server));
  use_trn_server_stop(server, 1000);
  use_trn_routes_destroy(routes);
  unload(handle, server_path);
  unload(core, core_path);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  size_t before = 0;
  unsigned descriptors = entries("/proc/self/fd"), tasks = entries("/proc/self/task");
  for (int i = 1; i <= ROUNDS; i++) {
    run(argv[1], argv[2]);
    if (i == FIRST) before = mallinfo2().uordblks;
  }
  size_t after = mallinfo2().uordblks, kept = after > before ? after - before : 0;
  printf("%d rounds, %zu bytes kept by the last %d\n", ROUNDS, kept, ROUNDS - FIRST);
  CHECK(kept < (size_t)(ROUNDS - FIRST) * NOISE);
  CHECK(entries("/proc/self/fd") == descriptors && threads(tasks) == tasks);
  return 0;
}
