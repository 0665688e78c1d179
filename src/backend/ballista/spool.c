/* Rows that clients sent along and that are too large to travel in a plan: files that the cluster reads. A file belongs
 * to the source that was opened on it, and goes with it. */
#include "arrow/ipc_file.h"
#include "backend/ballista/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct spooled {
  size_t refs;
  uint64_t size;
  char path[];
} spooled;

struct trn_ballista_spool {
  char *directory;
  pthread_mutex_t mu;
  trn_map *sources; /* by the source's address; guarded by mu */
  uint64_t bytes;   /* of all files; guarded by mu */
};

static void spooled_free(void *value) {
  spooled *s = value;
  unlink(s->path);
  free(s);
}

trn_status trn__ballista_spool_create(const char *directory, trn_ballista_spool **out, trn_error **error) {
  struct stat about;
  *out = NULL;
  if (directory[0] != '/' || stat(directory, &about) != 0 || !S_ISDIR(about.st_mode) || access(directory, W_OK) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "the spool directory '%s' is no absolute path of a directory that can be written to",
                         directory);
  trn_ballista_spool *spool = calloc(1, sizeof *spool);
  if (!spool) return trn__no_memory(error);
  pthread_mutex_init(&spool->mu, NULL);
  spool->directory = strdup(directory);
  spool->sources = trn__map_create();
  *out = spool;
  if (spool->directory && spool->sources) return TRN_OK;
  trn__ballista_spool_destroy(spool);
  *out = NULL;
  return trn__no_memory(error);
}

void trn__ballista_spool_destroy(trn_ballista_spool *spool) {
  if (!spool) return;
  if (spool->sources) trn__map_destroy(spool->sources, spooled_free);
  pthread_mutex_destroy(&spool->mu);
  free(spool->directory);
  free(spool);
}

static bool write_all(int fd, const char *at, size_t size) {
  while (size) {
    ssize_t done = write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done, size -= (size_t)done;
  }
  return true;
}

trn_status trn__ballista_spool_write(trn_ballista_spool *spool, const void *data, size_t size, char **path,
                                     trn_error **error) {
  char id[TRN_UUID_SIZE];
  trn_strbuf tail = {0};
  *path = NULL;
  trn_status status = trn__ipc_file_tail(data, size, &tail, error);
  if (status) {
    trn__strbuf_finish(&tail);
    return status;
  }
  pthread_mutex_lock(&spool->mu);
  bool is_full = spool->bytes + size > TRN_BALLISTA_SPOOL_BYTES_MAX;
  pthread_mutex_unlock(&spool->mu);
  if (is_full) {
    trn__strbuf_finish(&tail);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "rows of clients take more than %llu bytes in '%s'",
                         (unsigned long long)TRN_BALLISTA_SPOOL_BYTES_MAX, spool->directory);
  }
  trn__uuid7(id);
  if (asprintf(path, "%s/trunnion-%s.arrow", spool->directory, id) < 0) {
    *path = NULL;
    trn__strbuf_finish(&tail);
    return trn__no_memory(error);
  }
  int fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool ok = fd >= 0 && write_all(fd, TRN_IPC_FILE_MAGIC, TRN_IPC_FILE_HEAD_SIZE) && write_all(fd, data, size) &&
            write_all(fd, tail.data, tail.size);
  int code = errno;
  if (fd >= 0 && close(fd) != 0 && ok) ok = false, code = errno;
  trn__strbuf_finish(&tail);
  if (ok) return TRN_OK;
  if (fd >= 0) unlink(*path);
  free(*path);
  *path = NULL;
  return trn_error_set(error, code == ENOSPC || code == EDQUOT ? TRN_RESOURCE_EXHAUSTED : TRN_INTERNAL, NULL,
                       "rows of a client cannot be written to '%s': %s", spool->directory, strerror(code));
}

/* ---- files of sources ---- */

bool trn__ballista_spool_own(trn_ballista_spool *spool, trn_source *source, const char *path) {
  size_t size = strlen(path) + 1;
  struct stat about;
  spooled *s = calloc(1, sizeof *s + size), *old = NULL;
  if (!s) return false;
  s->refs = 1;
  s->size = stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
  memcpy(s->path, path, size);
  pthread_mutex_lock(&spool->mu);
  bool ok = trn__map_set(spool->sources, (const char *)&source, sizeof source, s, (void **)&old);
  if (ok) spool->bytes += s->size;
  pthread_mutex_unlock(&spool->mu);
  if (!ok) free(s);
  if (old) spooled_free(old);
  return ok;
}

void trn__ballista_spool_ref(trn_ballista_spool *spool, trn_source *source) {
  pthread_mutex_lock(&spool->mu);
  spooled *s = trn__map_get(spool->sources, (const char *)&source, sizeof source);
  if (s) s->refs++;
  pthread_mutex_unlock(&spool->mu);
}

void trn__ballista_spool_unref(trn_ballista_spool *spool, trn_source *source) {
  pthread_mutex_lock(&spool->mu);
  spooled *s = trn__map_get(spool->sources, (const char *)&source, sizeof source);
  bool is_last = s && --s->refs == 0;
  if (is_last) {
    trn__map_remove(spool->sources, (const char *)&source, sizeof source);
    spool->bytes -= s->size;
  }
  pthread_mutex_unlock(&spool->mu);
  if (is_last) spooled_free(s);
}
