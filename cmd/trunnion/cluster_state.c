/* A line for each process: NAME PID START ADDRESS. The first says whether it is a stock cluster. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster.h"

#define STATE_FILE "cluster.state"
#define LOCK_FILE "cluster.lock"
#define STATE_HEAD "trunnion cluster 1"

static trn_status failed(const char *path, trn_error **error) {
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s: %s", path, strerror(errno));
}

trn_status cluster_read_state(const char *directory, cluster_state *out, trn_error **error) {
  char path[PATH_MAX], line[CLUSTER_LINE_BYTES], kind[16];
  trn_status status = TRN_OK;
  *out = (cluster_state){0};
  snprintf(path, sizeof path, "%s/%s", directory, STATE_FILE);
  FILE *file = fopen(path, "re");
  if (!file) return errno == ENOENT ? TRN_OK : failed(path, error);
  bool ok = fgets(line, sizeof line, file) && sscanf(line, STATE_HEAD " %15s", kind) == 1;
  out->is_stock = ok && strcmp(kind, "stock") == 0;
  while (ok && fgets(line, sizeof line, file)) {
    cluster_process *p = &out->processes[out->count];
    int pid = 0;
    ok = out->count <= CLUSTER_EXECUTORS_MAX &&
         sscanf(line, "%31s %d %llu %279s", p->name, &pid, &p->started, p->address) == 4 && pid > 0 &&
         !strchr(p->name, '/'); /* it names files */
    if (!ok) break;
    p->pid = pid;
    out->count++;
  }
  if (!ok) {
    *out = (cluster_state){0};
    status = trn_error_set(error, TRN_DATA_LOSS, NULL, "%s is no state of a cluster", path);
  }
  fclose(file);
  return status;
}

trn_status cluster_write_state(const char *directory, const cluster_state *state, trn_error **error) {
  char path[PATH_MAX], fresh[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, STATE_FILE);
  snprintf(fresh, sizeof fresh, "%s/%s.new", directory, STATE_FILE);
  FILE *file = fopen(fresh, "we");
  if (!file) return failed(fresh, error);
  fprintf(file, STATE_HEAD " %s\n", state->is_stock ? "stock" : "own");
  for (size_t i = 0; i < state->count; i++) {
    const cluster_process *p = &state->processes[i];
    fprintf(file, "%s %d %llu %s\n", p->name, (int)p->pid, p->started, *p->address ? p->address : "-");
  }
  bool ok = fflush(file) == 0 && fsync(fileno(file)) == 0;
  ok = fclose(file) == 0 && ok;
  if (ok && rename(fresh, path) == 0) return TRN_OK;
  trn_status status = failed(path, error);
  unlink(fresh);
  return status;
}

trn_status cluster_remove_state(const char *directory, trn_error **error) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, STATE_FILE);
  return unlink(path) == 0 || errno == ENOENT ? TRN_OK : failed(path, error);
}

int cluster_lock(const char *directory, trn_error **error) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, LOCK_FILE);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0 && errno == EWOULDBLOCK)
    trn_error_set(error, TRN_ABORTED, NULL, "another command works on the cluster in %s", directory);
  else
    failed(path, error);
  if (fd >= 0) close(fd);
  return -1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
  (void)info, (void)kind, (void)where;
  remove(path);
  return 0;
}

void cluster_remove_directory(const char *path) {
  nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
