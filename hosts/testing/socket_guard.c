/* For LD_PRELOAD: writes "FUNCTION OBJECT" to SOCKET_GUARD_LOG for each call of a socket function, with the object that
 * called. For tests/clients/test_hosts.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *name, void *caller) {
  Dl_info info = {0};
  char line[4200];
  const char *path = getenv("SOCKET_GUARD_LOG");
  int size =
      snprintf(line, sizeof line, "%s %s\n", name, dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?");
  int file = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (file >= 0) {
    if (write(file, line, (size_t)size) != size) abort();
    close(file);
  }
}

#define GUARD(name, parameters, arguments)                                                                             \
  int name parameters {                                                                                                \
    int(*next) parameters = NULL;                                                                                      \
    note(#name, __builtin_return_address(0));                                                                          \
    *(void **)&next = dlsym(RTLD_NEXT, #name);                                                                         \
    return next arguments;                                                                                             \
  }

GUARD(socket, (int domain, int type, int protocol), (domain, type, protocol))
GUARD(socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair))
GUARD(bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
GUARD(listen, (int fd, int backlog), (fd, backlog))
GUARD(connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
GUARD(accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), (fd, address, size, flags))
GUARD(getaddrinfo, (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out),
      (node, service, hints, out))
