/* Outputs as files: an Arrow IPC stream each, in a folder per attempt, so that two attempts never write the same file.
 * The folder counts when the store says so; before, nobody looks at it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arrow/ipc_batch.h"
#include "arrow/ipc_read.h"
#include "arrow/ipc_schema.h"
#include "scheduler/scheduler.h"

enum { SLICES_AT_ONCE = 64, PREFIX_SIZE = 8, FOLDER_TRIES = 100 };
static const uint8_t END_OF_STREAM[PREFIX_SIZE] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};

/* ---- writing ---- */

struct trn_spool_file {
  int fd;
  char *job_folder, *folder, *path;
  int64_t bytes;
};

static trn_status file_failed(trn_error **error, const char *what, const char *path, int code) {
  trn_status status = code == ENOSPC || code == EDQUOT || code == EFBIG  ? TRN_RESOURCE_EXHAUSTED
                      : code == EACCES || code == EPERM || code == EROFS ? TRN_PERMISSION_DENIED
                                                                         : TRN_INTERNAL;
  return trn_error_set(error, status, NULL, "%s %s: %s", what, path, strerrordesc_np(code));
}

static char *join(const char *folder, const char *name) {
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, "%s/%s", folder, name);
  if (!path.failed) return path.data;
  trn__strbuf_finish(&path);
  return NULL;
}

static int make_folder(const char *path) {
  return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
}

/* An earlier attempt that cleans up behind itself may take an empty folder away in between. */
static trn_status open_file(trn_spool_file *file, trn_error **error) {
  int code = 0;
  for (int i = 0; i < FOLDER_TRIES && file->fd < 0; i++) {
    code = make_folder(file->job_folder);
    if (!code) code = make_folder(file->folder);
    if (!code) {
      file->fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
      code = file->fd < 0 ? errno : 0;
    }
    if (code != ENOENT) break;
  }
  return code ? file_failed(error, "The output cannot be written to", file->path, code) : TRN_OK;
}

trn_status trn__spool_create(const char *directory, const char *job_id, uint64_t attempt, trn_spool_file **out,
                             trn_error **error) {
  char name[32];
  *out = NULL;
  trn_spool_file *file = calloc(1, sizeof *file);
  if (!file) return trn__no_memory(error);
  file->fd = -1;
  snprintf(name, sizeof name, "%llu", (unsigned long long)attempt);
  file->job_folder = join(directory, job_id);
  if (file->job_folder) file->folder = join(file->job_folder, name);
  if (file->folder) file->path = join(file->folder, "part-00000.arrows");
  trn_status status = file->path ? open_file(file, error) : trn__no_memory(error);
  if (status)
    trn__spool_destroy(file);
  else
    *out = file;
  return status;
}

/* Writes what `parts` say, however often the system stops in between; changes them. */
static trn_status write_parts(trn_spool_file *file, struct iovec *parts, int count, trn_error **error) {
  while (count) {
    ssize_t done = writev(file->fd, parts, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_failed(error, "The output cannot be written to", file->path, errno);
    file->bytes += done;
    for (; count && (size_t)done >= parts->iov_len; parts++, count--) done -= (ssize_t)parts->iov_len;
    if (count && done) {
      parts->iov_base = (char *)parts->iov_base + done;
      parts->iov_len -= (size_t)done;
    }
  }
  return TRN_OK;
}

trn_status trn__spool_write(trn_spool_file *file, const trn_slice *slices, size_t count, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t at = 0; at < count && !status;) {
    struct iovec parts[SLICES_AT_ONCE];
    int n = 0;
    for (; n < SLICES_AT_ONCE && at < count; at++)
      if (slices[at].size) parts[n++] = (struct iovec){(void *)slices[at].data, slices[at].size};
    status = write_parts(file, parts, n, error);
  }
  return status;
}

/* The entry of a file in its folder, and the folder's in its own. */
static trn_status sync_folder(const char *path, trn_error **error) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return file_failed(error, "The output folder cannot be opened", path, errno);
  int code = fsync(fd) ? errno : 0;
  close(fd);
  return code ? file_failed(error, "The output folder cannot be synced", path, code) : TRN_OK;
}

trn_status trn__spool_end(trn_spool_file *file, char **path, int64_t *bytes, trn_error **error) {
  trn_slice end = {.data = END_OF_STREAM, .size = sizeof END_OF_STREAM};
  *path = NULL;
  trn_status status = trn__spool_write(file, &end, 1, error);
  if (!status && fsync(file->fd)) status = file_failed(error, "The output cannot be synced", file->path, errno);
  if (!status) {
    int fd = file->fd;
    file->fd = -1;
    if (close(fd)) status = file_failed(error, "The output cannot be written to", file->path, errno);
  }
  if (!status) status = sync_folder(file->folder, error);
  if (!status) status = sync_folder(file->job_folder, error);
  if (status) return status;
  *bytes = file->bytes;
  *path = file->path;
  file->path = NULL;
  return TRN_OK;
}

void trn__spool_destroy(trn_spool_file *file) {
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  if (file->path) { /* it was not ended */
    unlink(file->path);
    if (file->folder) rmdir(file->folder);
    if (file->job_folder) rmdir(file->job_folder); /* stays when others are in it */
  }
  free(file->path), free(file->folder), free(file->job_folder);
  free(file);
}

/* ---- removing: files of ours in folders of ours, two levels ---- */

static void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char *below = join(path, entry->d_name);
    if (below) unlink(below);
    free(below);
  }
  if (folder) closedir(folder);
  rmdir(path);
}

void trn__spool_remove(const char *directory, const char *job_id, uint64_t attempt, trn_spool_which which) {
  char name[32];
  snprintf(name, sizeof name, "%llu", (unsigned long long)attempt);
  char *path = trn__job_id_is_valid(job_id) ? join(directory, job_id) : NULL;
  DIR *folder = path ? opendir(path) : NULL;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    bool is_it = strcmp(entry->d_name, name) == 0;
    if (entry->d_name[0] == '.' || (which != TRN_SPOOL_ALL && is_it != (which == TRN_SPOOL_THIS))) continue;
    char *below = join(path, entry->d_name);
    if (below) remove_folder(below);
    free(below);
  }
  if (folder) closedir(folder);
  if (path) rmdir(path);
  free(path);
}

/* ---- reading ---- */

typedef struct spool_reader {
  int fd;
  char *path;
  int64_t rows_left, bytes; /* what must still come */
  off_t at;
  trn_strbuf schema_ipc;
  struct ArrowSchema schema; /* release NULL: it has a type that is not read as arrays */
  trn_pool *pool;
  bool is_over;
  atomic_bool is_cancelled;
  /* of the pull that is outstanding */
  trn_ipc_done ipc_done;
  trn_array_done array_done;
  void *user;
} spool_reader;

static trn_status lost(spool_reader *r, trn_error **error, const char *what) {
  return trn_error_set(error, TRN_DATA_LOSS, "JOB_OUTPUT_LOST", "The output file %s %s", r->path, what);
}

static trn_status read_exactly(spool_reader *r, void *out, size_t size, trn_error **error) {
  char *to = out;
  while (size) {
    ssize_t done = pread(r->fd, to, size, r->at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_failed(error, "The output cannot be read from", r->path, errno);
    if (done == 0) return lost(r, error, "was cut");
    to += done, size -= (size_t)done, r->at += done;
  }
  return TRN_OK;
}

/* One message, whole, into `out`; `*header_size` 0: the end of the stream. */
static trn_status read_message(spool_reader *r, trn_strbuf *out, size_t *header_size, int64_t *body_size,
                               trn_ipc_kind *kind, trn_error **error) {
  uint32_t prefix[2];
  trn_status status = read_exactly(r, prefix, sizeof prefix, error);
  *header_size = 0;
  if (status || (prefix[0] == UINT32_MAX && prefix[1] == 0)) return status;
  if (prefix[0] != UINT32_MAX || prefix[1] > r->bytes - r->at) return lost(r, error, "is damaged");
  char *header = NULL;
  trn__strbuf_add(out, prefix, sizeof prefix);
  if (!(header = trn__strbuf_extend(out, prefix[1]))) return trn__no_memory(error);
  status = read_exactly(r, header, prefix[1], error);
  if (!status && trn__ipc_read_kind(header, prefix[1], kind, body_size, NULL)) status = lost(r, error, "is damaged");
  if (!status && (*body_size > r->bytes - r->at || *body_size > (int64_t)TRN_JOB_MESSAGE_BYTES_MAX))
    status = lost(r, error, "is damaged");
  if (status) return status;
  char *body = trn__strbuf_extend(out, (size_t)*body_size);
  if (!body) return trn__no_memory(error);
  *header_size = prefix[1];
  return read_exactly(r, body, (size_t)*body_size, error);
}

static void piece_release(void *owner) {
  trn_slice *slice = owner;
  free((void *)slice->data);
  free(slice);
}

static void reader_destroy(void *self) {
  spool_reader *r = self;
  if (!r) return;
  if (r->fd >= 0) close(r->fd);
  trn__pool_destroy(r->pool);
  trn__strbuf_finish(&r->schema_ipc);
  trn__schema_release(&r->schema);
  free(r->path);
  free(r);
}

/* The next batch's bytes; out->size 0: the end, which is where it must be. */
static trn_status next_batch(spool_reader *r, trn_strbuf *out, size_t *header_size, int64_t *rows, trn_error **error) {
  trn_ipc_kind kind = TRN_IPC_BATCH;
  int64_t body_size = 0;
  if (r->is_over) return TRN_OK;
  if (atomic_load(&r->is_cancelled))
    return trn_error_set(error, TRN_CANCELLED, NULL, "reading the output was cancelled");
  trn_status status = read_message(r, out, header_size, &body_size, &kind, error);
  if (!status && !*header_size) {
    r->is_over = true;
    return r->rows_left == 0 ? TRN_OK : lost(r, error, "does not have the rows that were written");
  }
  if (!status && (kind != TRN_IPC_BATCH || trn__ipc_read_rows(out->data + PREFIX_SIZE, *header_size, rows, NULL) ||
                  *rows > r->rows_left))
    status = lost(r, error, "is damaged");
  if (!status) r->rows_left -= *rows;
  return status;
}

/* thread: the reader's own */
static void run_ipc(void *argument) {
  spool_reader *r = argument;
  trn_strbuf bytes = {0};
  trn_ipc_piece piece = {0};
  size_t header_size = 0;
  int64_t rows = 0;
  trn_error *error = NULL;
  trn_status status = next_batch(r, &bytes, &header_size, &rows, &error);
  trn_slice *slice = !status && bytes.size ? malloc(sizeof *slice) : NULL;
  if (!status && bytes.size && !slice) status = trn__no_memory(&error);
  if (slice) {
    *slice = (trn_slice){.data = bytes.data, .size = bytes.size};
    piece = (trn_ipc_piece){slice, 1, bytes.size, rows, piece_release, slice};
    bytes = (trn_strbuf){0};
  }
  r->ipc_done(r->user, status, error, &piece);
  trn__strbuf_finish(&bytes);
  trn_error_unref(error);
}

/* The array lies in the bytes, which it owns: a message is a multiple of 8 long, and so is its head. */
static trn_status import(spool_reader *r, trn_strbuf *bytes, size_t header_size, struct ArrowArray *out,
                         trn_error **error) {
  trn_ipc_batch batch = {0};
  size_t body_at = PREFIX_SIZE + header_size;
  const char *header = bytes->data + PREFIX_SIZE, *body = bytes->data + body_at;
  if (header_size % 8) return lost(r, error, "is damaged");
  trn_status status = trn__ipc_batch_parse(header, header_size, bytes->size - body_at, &batch, NULL);
  if (!status && batch.codec) status = TRN_DATA_LOSS; /* nobody wrote it so */
  if (!status) {
    trn_slice owner = {.data = bytes->data, .size = bytes->size, .release = free, .owner = bytes->data};
    size_t body_size = bytes->size - body_at;
    *bytes = (trn_strbuf){0};
    status = trn__ipc_batch_import(&batch, &r->schema, body, body_size, owner, out, NULL);
  }
  trn__ipc_batch_finish(&batch);
  if (status == TRN_RESOURCE_EXHAUSTED) return trn__no_memory(error);
  return status ? lost(r, error, "is damaged") : TRN_OK;
}

static void run_array(void *argument) {
  spool_reader *r = argument;
  trn_strbuf bytes = {0};
  struct ArrowArray array = {0};
  size_t header_size = 0;
  int64_t rows = 0;
  trn_error *error = NULL;
  trn_status status = next_batch(r, &bytes, &header_size, &rows, &error);
  if (!status && bytes.size) status = import(r, &bytes, header_size, &array, &error);
  r->array_done(r->user, status, error, &array);
  trn__array_release(&array); /* nobody took it */
  trn__strbuf_finish(&bytes);
  trn_error_unref(error);
}

static trn_status reader_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  spool_reader *r = self;
  (void)bytes_max; /* what was written in pieces of TRN_JOB_PIECE_BYTES is small enough for every protocol */
  r->ipc_done = done;
  r->user = user;
  return trn__pool_submit(r->pool, run_ipc, r) ? trn__no_memory(error) : TRN_OK;
}

static trn_status reader_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  spool_reader *r = self;
  if (!r->schema.release)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the output has columns that can be had as Arrow IPC only");
  r->array_done = done;
  r->user = user;
  return trn__pool_submit(r->pool, run_array, r) ? trn__no_memory(error) : TRN_OK;
}

static trn_status reader_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  spool_reader *r = self;
  if (!r->schema.release)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the output's schema can be had as Arrow IPC only");
  return trn__schema_copy(&r->schema, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status reader_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  spool_reader *r = self;
  (void)error;
  *out = (trn_slice){.data = r->schema_ipc.data, .size = r->schema_ipc.size};
  return TRN_OK;
}

static void reader_cancel(void *self) {
  atomic_store(&((spool_reader *)self)->is_cancelled, true);
}

static const trn_stream_ops reader_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = reader_schema,
                                          .schema_ipc = reader_schema_ipc,
                                          .next_array = reader_next_array,
                                          .next_ipc = reader_next_ipc,
                                          .cancel = reader_cancel,
                                          .destroy = reader_destroy};

static trn_status read_head(spool_reader *r, trn_error **error) {
  struct stat info;
  size_t header_size = 0;
  int64_t body_size = 0;
  trn_ipc_kind kind = TRN_IPC_BATCH;
  r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
  if (r->fd < 0) return lost(r, error, errno == ENOENT ? "is not there any more" : "cannot be opened");
  if (fstat(r->fd, &info) || info.st_size != r->bytes) return lost(r, error, "does not have the size that was written");
  trn_status status = read_message(r, &r->schema_ipc, &header_size, &body_size, &kind, error);
  if (!status && (kind != TRN_IPC_SCHEMA || !header_size)) status = lost(r, error, "is damaged");
  /* Not every type: then it has the IPC form only. */
  if (!status) (void)trn__ipc_import_schema(r->schema_ipc.data + PREFIX_SIZE, header_size, &r->schema, NULL);
  return status;
}

trn_status trn__spool_open(const char *uri, int64_t rows, int64_t bytes, trn_stream **out, trn_error **error) {
  *out = NULL;
  if (strncmp(uri, "file:///", 8) != 0)
    return trn_error_set(error, TRN_INTERNAL, NULL, "The output %s is not a file", uri);
  spool_reader *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  *r = (spool_reader){.fd = -1, .path = trn__text_copy(uri + 7), .rows_left = rows, .bytes = bytes};
  atomic_init(&r->is_cancelled, false);
  trn_status status = r->path && !trn__pool_create(1, &r->pool) ? read_head(r, error) : trn__no_memory(error);
  if (!status && trn_stream_create(&reader_ops, r, out)) status = trn__no_memory(error);
  if (status) reader_destroy(r);
  return status;
}
