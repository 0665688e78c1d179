#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"

#define PROGRAM_NAME "trunnion-ballista"
#define FUNCTIONS_NAME "libtrunnion_functions.so"

/* ---- finding ---- */

/* The folder of this program, with a slash at its end. */
static bool own_folder(char *out, size_t size) {
  ssize_t length = readlink("/proc/self/exe", out, size - 1);
  if (length <= 0) return false;
  out[length] = 0;
  char *slash = strrchr(out, '/');
  if (slash) slash[1] = 0;
  return slash != NULL;
}

bool cluster_find_functions(char *out, size_t size) {
  char self[PATH_MAX];
  if (getenv("TRUNNION_FUNCTIONS") || !own_folder(self, sizeof self)) return false;
  snprintf(out, size, "%s%s", self, FUNCTIONS_NAME);
  return access(out, R_OK) == 0;
}

/* An argument, the variable, beside this program, in libexec of its prefix. */
bool cluster_find_program(const char *asked, char *out, size_t size) {
  static const char *const places[] = {"", "../libexec/trunnion/"};
  char self[PATH_MAX];
  if (!asked) asked = getenv("TRUNNION_CLUSTER_PROGRAM");
  if (asked && *asked) {
    snprintf(out, size, "%s", asked);
    return access(out, X_OK) == 0;
  }
  if (!own_folder(self, sizeof self)) return false;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(out, size, "%s%s%s", self, places[i], PROGRAM_NAME);
    if (access(out, X_OK) == 0) return true;
  }
  snprintf(out, size, "%s beside this program or in ../libexec/trunnion", PROGRAM_NAME);
  return false;
}

/* ---- which process it is ---- */

/* Field 22 of /proc/PID/stat; the name, field 2, can hold anything. 0: there is no such process, or it is only not yet
 * collected. */
static unsigned long long start_time(pid_t pid) {
  char path[64], text[1024], state = 0;
  unsigned long long out = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  size_t size = fread(text, 1, sizeof text - 1, file);
  text[size] = 0;
  fclose(file);
  const char *after = strrchr(text, ')');
  if (!after || sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                       &state, &out) != 2)
    return 0;
  return state == 'Z' || state == 'X' ? 0 : out;
}

bool cluster_runs(const cluster_process *p) {
  return p->pid > 0 && p->started && start_time(p->pid) == p->started;
}

/* ---- starting ---- */

/* Between fork and exec: only what is safe there. */
static void become(char *const *argv, int out_fd, int log_fd) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid(); /* a terminal's Ctrl-C is not for it */
  int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
    _exit(127);
  execv(argv[0], argv);
  dprintf(STDERR_FILENO, "%s: cannot be started: errno %d\n", argv[0], errno);
  _exit(127);
}

trn_status cluster_start(char *const *argv, const char *log, cluster_process *out, int *ready_fd, trn_error **error) {
  int pipes[2] = {-1, -1};
  int log_fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  trn_status status = TRN_OK;
  if (log_fd < 0) {
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s: %s", log, strerror(errno));
  } else if (pipe2(pipes, O_CLOEXEC) != 0) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s: %s", out->name, strerror(errno));
  } else if ((out->pid = fork()) < 0) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s: %s", out->name, strerror(errno));
  } else if (out->pid == 0) {
    become(argv, pipes[1], log_fd);
  } else {
    /* It cannot be gone for good while we have not collected it, so the start time is its own; 0 when it failed at
     * once, which the wait for its line finds. */
    out->started = start_time(out->pid);
    *ready_fd = pipes[0];
    pipes[0] = -1;
  }
  if (pipes[0] >= 0) close(pipes[0]);
  if (pipes[1] >= 0) close(pipes[1]);
  if (log_fd >= 0) close(log_fd);
  return status;
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The last line of a log, for a message. */
static void last_line(const char *path, char *out, size_t size) {
  char text[CLUSTER_LINE_BYTES];
  *out = 0;
  FILE *file = fopen(path, "re");
  if (!file) return;
  while (fgets(text, sizeof text, file)) {
    text[strcspn(text, "\n")] = 0;
    if (*text) snprintf(out, size, "%s", text);
  }
  fclose(file);
}

static trn_status not_ready(const cluster_process *p, const char *log, bool is_late, trn_error **error) {
  char line[CLUSTER_LINE_BYTES];
  last_line(log, line, sizeof line);
  return trn_error_set(error, is_late ? TRN_DEADLINE_EXCEEDED : TRN_UNAVAILABLE, NULL, "the %s %s; its log is %s%s%s",
                       p->name, is_late ? "was not ready in time" : "ended", log, *line ? ": " : "", line);
}

trn_status cluster_wait_ready(cluster_process *p, int ready_fd, int timeout_ms, const char *log, trn_error **error) {
  char line[CLUSTER_LINE_BYTES];
  size_t size = 0;
  long long deadline = now_ms() + timeout_ms;
  bool is_late = false, is_ready = false;
  while (!is_ready && !is_late && size < sizeof line - 1) {
    struct pollfd wanted = {.fd = ready_fd, .events = POLLIN};
    long long left = deadline - now_ms();
    int got = left > 0 ? poll(&wanted, 1, (int)left) : 0;
    if (got < 0 && errno == EINTR) continue;
    is_late = got == 0;
    if (got <= 0) continue;
    ssize_t more = read(ready_fd, line + size, sizeof line - 1 - size);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    size += (size_t)more;
    line[size] = 0;
    const char *mark = strstr(line, " ready on ");
    is_ready = mark && strchr(mark, '\n') && sscanf(mark, " ready on %279s", p->address) == 1;
  }
  close(ready_fd);
  return is_ready ? TRN_OK : not_ready(p, log, is_late, error);
}

/* ---- ending ---- */

/* A descriptor that stands for exactly this process, or -1 when it is gone. */
static int open_process(const cluster_process *p) {
  if (p->pid <= 0) return -1;
  int fd = pidfd_open(p->pid, 0);
  /* What the descriptor was opened for can be a later process; what runs now under the id is what it was opened for. */
  if (fd >= 0 && !cluster_runs(p)) {
    close(fd);
    fd = -1;
  }
  return fd;
}

static void wait_all(struct pollfd *wanted, size_t count, int timeout_ms) {
  long long deadline = now_ms() + timeout_ms;
  for (;;) {
    size_t open = 0;
    for (size_t i = 0; i < count; i++) open += wanted[i].fd >= 0;
    long long left = deadline - now_ms();
    if (!open || left <= 0) return;
    if (poll(wanted, count, (int)left) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < count; i++) {
      if (wanted[i].fd < 0 || !(wanted[i].revents & POLLIN)) continue;
      close(wanted[i].fd);
      wanted[i].fd = -1;
    }
  }
}

bool cluster_end(const cluster_process *processes, size_t count, int grace_ms) {
  static const int signals[] = {SIGTERM, SIGKILL};
  const int times[] = {grace_ms, 5000};
  struct pollfd wanted[CLUSTER_EXECUTORS_MAX + 1];
  bool all = true;
  for (size_t i = 0; i < count; i++) wanted[i] = (struct pollfd){.fd = open_process(&processes[i]), .events = POLLIN};
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < count; i++)
      if (wanted[i].fd >= 0) pidfd_send_signal(wanted[i].fd, signals[round], NULL, 0);
    wait_all(wanted, count, times[round]);
  }
  for (size_t i = 0; i < count; i++) {
    if (wanted[i].fd >= 0) {
      close(wanted[i].fd);
      all = false;
    }
    if (processes[i].pid > 0) waitpid(processes[i].pid, NULL, WNOHANG); /* our own children; of others it says no */
  }
  return all;
}
