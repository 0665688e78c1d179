/* Directories, moves, removals of a write: see directory_write.h. */
#include "catalog/directory_write.h"
#include <trunnion/catalog.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAKE_TRIES = 32, ABORT_TRIES = 10, ABORT_PAUSE_NS = 20 * 1000 * 1000, REMOVE_DEPTH_MAX = 128 };

/* ---- names ---- */

static char *format(const char *form, const char *a, const char *b) {
  int size = snprintf(NULL, 0, form, a, b);
  char *out = size < 0 ? NULL : malloc((size_t)size + 1);
  if (out) snprintf(out, (size_t)size + 1, form, a, b);
  return out;
}

static void write_free(trn_directory_write *write) {
  if (!write) return;
  for (size_t i = 0; write->partitions && i < write->partition_count; i++) free(write->partitions[i]);
  free(write->partitions);
  free(write->target), free(write->staging), free(write->parent), free(write->made), free(write->suffix);
  free(write);
}

trn_status trn__directory_write_create(const char *target, const char *ending, size_t partition_count, trn_directory_mode mode,
                               trn_directory_write **out, trn_error **error) {
  char id[TRN_UUID_SIZE];
  struct stat info;
  trn_directory_write *write = calloc(1, sizeof *write);
  if (!write) return trn__no_memory(error);
  trn__uuid4(id);
  write->mode = mode;
  write->partition_count = partition_count;
  write->target = strdup(target);
  write->replaces_file = mode != TRN_DIRECTORY_APPEND && stat(target, &info) == 0 && !S_ISDIR(info.st_mode);
  write->parent = write->replaces_file ? NULL : format("%s/_temporary%s", target, "");
  write->staging = write->replaces_file ? format("%s._temporary-%s", target, id) : format("%s/_temporary/%s", target, id);
  write->suffix = format(partition_count ? "-%s.c000%s" : "-%s-c000%s", id, ending);
  if (!write->target || !write->staging || !write->suffix || (!write->parent && !write->replaces_file)) {
    write_free(write);
    return trn__no_memory(error);
  }
  *out = write;
  return TRN_OK;
}

trn_status trn__directory_write_set_partitions(trn_directory_write *write, const char *const *names, trn_error **error) {
  write->partitions = calloc(write->partition_count + 1, sizeof *write->partitions);
  for (size_t i = 0; write->partitions && i < write->partition_count; i++)
    if (!(write->partitions[i] = strdup(names[i]))) return trn__no_memory(error);
  return write->partitions ? TRN_OK : trn__no_memory(error);
}

static trn_status failed(trn_error **error, const char *what, const char *path) {
  int code = errno;
  trn_status status = code == ENOSPC || code == EDQUOT ? TRN_RESOURCE_EXHAUSTED
                      : code == EACCES || code == EPERM || code == EROFS ? TRN_PERMISSION_DENIED : TRN_INTERNAL;
  char text[128] = "";
  const char *reason = strerror_r(code, text, sizeof text);
  return trn_error_set(error, status, NULL, "Cannot %s file:%s: %s", what, path, reason);
}

/* ---- making and removing ---- */

/* The directory and those above it. `*made`: set to the outermost that was not there, unless it is set. */
static trn_status make_all(const char *path, char **made, trn_error **error) {
  char *copy = strdup(path);
  trn_status status = copy ? TRN_OK : trn__no_memory(error);
  int tries = 0;
  for (char *at = copy ? copy + 1 : NULL; at && *at && !status;) {
    struct stat info;
    at = strchr(at, '/');
    if (at) *at = '\0';
    bool is_new = mkdir(copy, 0777) == 0;
    int code = is_new ? 0 : errno;
    bool is_there = is_new || (stat(copy, &info) == 0 && S_ISDIR(info.st_mode));
    if (is_new && made && !*made && !(*made = strdup(copy))) status = trn__no_memory(error);
    /* Another write that ends removes what is empty, perhaps while we stand in it: from the top again. */
    bool again = !is_there && (code == ENOENT || code == EEXIST) && ++tries < MAKE_TRIES;
    if (!is_there && !again) {
      errno = code == EEXIST ? ENOTDIR : code;
      status = failed(error, "make the directory", copy);
    }
    if (at) *at++ = '/';
    if (again) at = copy + 1;
  }
  free(copy);
  return status;
}

/* A directory's entries for itself and for the one above. */
static bool is_own(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void remove_all(int folder, const char *name, unsigned depth) {
  if (unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM) || depth > REMOVE_DEPTH_MAX) return;
  int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *stream = inner < 0 ? NULL : fdopendir(inner);
  if (!stream && inner >= 0) close(inner);
  for (struct dirent *e; stream && (e = readdir(stream));)
    if (!is_own(e->d_name)) remove_all(dirfd(stream), e->d_name, depth + 1);
  if (stream) closedir(stream);
  unlinkat(folder, name, AT_REMOVEDIR);
}

static void remove_staging(const trn_directory_write *write) {
  remove_all(AT_FDCWD, write->staging, 0);
  if (write->parent) rmdir(write->parent);
}

trn_status trn__directory_write_prepare(trn_directory_write *write, trn_error **error) {
  return make_all(write->staging, &write->made, error);
}

void trn__directory_write_abort(trn_directory_write *write) {
  if (!write) return;
  /* A writer that was told to stop may be in the middle of making a file. */
  for (int i = 0; write->target && i < ABORT_TRIES; i++) {
    const struct timespec pause = {.tv_nsec = ABORT_PAUSE_NS};
    remove_staging(write);
    nanosleep(&pause, NULL);
    if (access(write->staging, F_OK) != 0) break;
  }
  /* Directories that this write made, innermost first; one that somebody else has filled stays. */
  char *path = write->made ? write->target : NULL;
  for (size_t least = path ? strlen(write->made) : 0; path && strlen(path) >= least && rmdir(path) == 0;) {
    char *slash = strrchr(path, '/');
    if (!slash) break;
    *slash = '\0';
  }
  write_free(write);
}

/* ---- moves ---- */

typedef struct move {
  char *from, *to;
} move;

typedef struct moves {
  trn_vec items; /* move, in order */
  size_t done;
} moves;

static trn_status add_move(moves *list, char *from, char *to, trn_error **error) {
  move *m = from && to ? malloc(sizeof *m) : NULL;
  if (m) *m = (move){from, to};
  if (m && trn__vec_push(&list->items, m)) return TRN_OK;
  free(m), free(from), free(to);
  return trn__no_memory(error);
}

static void moves_finish(moves *list) {
  for (size_t i = 0; i < list->items.count; i++) {
    move *m = list->items.items[i];
    free(m->from), free(m->to), free(m);
  }
  trn__vec_finish(&list->items);
}

static trn_status make_moves(moves *list, trn_error **error) {
  trn_status status = TRN_OK;
  for (; list->done < list->items.count && !status; list->done += !status) {
    const move *m = list->items.items[list->done];
    char *folder = strdup(m->to), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder) status = trn__no_memory(error);
    if (slash) *slash = '\0';
    if (!status && slash && slash != folder) status = make_all(folder, NULL, error);
    if (!status && rename(m->from, m->to) != 0) status = failed(error, "move a result to", m->to);
    free(folder);
  }
  return status;
}

static void undo_moves(moves *list) {
  while (list->done) {
    const move *m = list->items.items[--list->done];
    (void)!rename(m->to, m->from); /* the best that can be done */
  }
}

/* ---- names of directories ---- */

static int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hive's way to write a name or value. */
static void put_escaped(trn_strbuf *out, const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c == 0x7F || strchr("\"#%'*/:=?\\{[]^", c))
      trn__strbuf_printf(out, "%%%02X", c);
    else
      trn__strbuf_putc(out, (char)c);
  }
}

/* Adds "/name=value", from the engine's form of it, in which bytes are %XX, and the name is the engine's. False: it has
 * another form. */
static bool put_level(trn_strbuf *out, const trn_directory_write *write, size_t level, const char *entry) {
  trn_strbuf text = {0};
  char numbered[32];
  snprintf(numbered, sizeof numbered, "partition %zu", level);
  const char *name = write->has_numbered_levels ? numbered : write->partitions[level];
  for (const char *c = entry; *c; c++) {
    bool escaped = c[0] == '%' && hex(c[1]) >= 0 && hex(c[2]) >= 0;
    trn__strbuf_putc(&text, escaped ? (char)(hex(c[1]) * 16 + hex(c[2])) : *c);
    if (escaped) c += 2;
  }
  size_t size = strlen(name);
  bool good = !text.failed && text.size > size && memcmp(text.data, name, size) == 0 && text.data[size] == '=';
  if (good) {
    trn__strbuf_putc(out, '/');
    put_escaped(out, write->partitions[level], strlen(write->partitions[level]));
    trn__strbuf_putc(out, '=');
    put_escaped(out, text.data + size + 1, text.size - size - 1);
  }
  trn__strbuf_finish(&text);
  return good;
}

/* ---- what goes where ---- */

typedef struct plan {
  const trn_directory_write *write;
  const char *root; /* where the files go: the target, or what will take its place */
  moves list;
  trn_map *replaced; /* partition directories whose old files go */
  unsigned aside;    /* things that went */
  trn_map *placed;   /* directories of partitions that got files, below the target; or NULL */
  trn_error **error;
} plan;

static char *aside_name(plan *p) {
  char number[16];
  snprintf(number, sizeof number, "%u", p->aside++);
  return format("%s/old/%s", p->write->staging, number);
}

static trn_status set_aside(plan *p, const char *path) {
  return add_move(&p->list, strdup(path), aside_name(p), p->error);
}

/* All that is in the target. */
static trn_status set_all_aside(plan *p) {
  DIR *stream = opendir(p->write->target);
  trn_status status = stream ? TRN_OK : failed(p->error, "read the directory", p->write->target);
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    if (is_own(e->d_name) || !strcmp(e->d_name, "_temporary")) continue;
    char *path = format("%s/%s", p->write->target, e->d_name);
    status = path ? set_aside(p, path) : trn__no_memory(p->error);
    free(path);
  }
  if (stream) closedir(stream);
  return status;
}

/* All that is in `folder`, to the target. */
static trn_status move_all(plan *p, const char *folder) {
  DIR *stream = opendir(folder);
  trn_status status = stream ? TRN_OK : failed(p->error, "read the directory", folder);
  for (struct dirent *e; stream && !status && (e = readdir(stream));)
    if (!is_own(e->d_name))
      status = add_move(&p->list, format("%s/%s", folder, e->d_name), format("%s/%s", p->write->target, e->d_name), p->error);
  if (stream) closedir(stream);
  return status;
}

static trn_status set_partition_aside(plan *p, const char *path) {
  if (p->write->mode != TRN_DIRECTORY_OVERWRITE_PARTITIONS || trn__map_get(p->replaced, path, strlen(path))) return TRN_OK;
  if (!trn__map_set(p->replaced, path, strlen(path), p, NULL)) return trn__no_memory(p->error);
  return access(path, F_OK) == 0 ? set_aside(p, path) : TRN_OK;
}

/* A directory of the engine's partition `number`; `to` is where it belongs. */
static trn_status place(plan *p, const char *from, const char *to, size_t level, const char *number) {
  DIR *stream = opendir(from);
  trn_status status = stream ? TRN_OK : failed(p->error, "read the directory", from);
  bool leaf = level == p->write->partition_count;
  if (!status && leaf && level) status = set_partition_aside(p, to);
  if (!status && leaf && level && p->placed) {
    const char *below = to + strlen(p->root) + 1;
    if (!trn__map_set(p->placed, below, strlen(below), p, NULL)) status = trn__no_memory(p->error);
  }
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    if (is_own(e->d_name)) continue;
    trn_strbuf path = {0};
    char *source = format("%s/%s", from, e->d_name);
    trn__strbuf_puts(&path, to);
    if (!source) {
      status = trn__no_memory(p->error);
    } else if (leaf) {
      trn__strbuf_printf(&path, "/part-%05d%s", atoi(number), p->write->suffix);
      status = path.failed ? trn__no_memory(p->error) : add_move(&p->list, strdup(source), strdup(path.data), p->error);
    } else if (put_level(&path, p->write, level, e->d_name) && !path.failed) {
      status = place(p, source, path.data, level + 1, number);
    } else {
      status = trn_error_set(p->error, TRN_INTERNAL, NULL, "A partition directory has an unexpected name: %s", e->d_name);
    }
    free(source);
    trn__strbuf_finish(&path);
  }
  if (stream) closedir(stream);
  return status;
}

static trn_status place_all(plan *p) {
  DIR *stream = opendir(p->write->staging);
  trn_status status = stream ? TRN_OK : failed(p->error, "read the directory", p->write->staging);
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
    char *from = format("%s/%s", p->write->staging, e->d_name);
    status = from ? place(p, from, p->root, 0, e->d_name) : trn__no_memory(p->error);
    free(from);
  }
  if (stream) closedir(stream);
  return status;
}

static trn_status mark_success(const char *folder, trn_error **error) {
  char *path = format("%s/_SUCCESS%s", folder, "");
  int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  trn_status status = !path ? trn__no_memory(error) : file < 0 ? failed(error, "write", path) : TRN_OK;
  if (file >= 0) close(file);
  free(path);
  return status;
}

/* Other writes' staging directories, which were in `from`; none is touched, when `to` is NULL. Gives how many there are. */
static size_t adopt_others(const trn_directory_write *write, const char *from, const char *to) {
  const char *own = strrchr(write->staging, '/') + 1;
  DIR *stream = opendir(from);
  size_t count = 0;
  for (struct dirent *e; stream && (e = readdir(stream));) {
    if (is_own(e->d_name) || strcmp(e->d_name, own) == 0) continue;
    count++;
    char *old = to ? format("%s/%s", from, e->d_name) : NULL, *fresh = to ? format("%s/%s", to, e->d_name) : NULL;
    if (old && fresh && (mkdir(to, 0777) == 0 || errno == EEXIST)) (void)!rename(old, fresh);
    free(old), free(fresh);
  }
  if (stream) closedir(stream);
  return count;
}

/* The target and `fresh` change places in one step, so that whoever lists the target sees all of the old files or all of
 * the new ones. The new directory stands beside the target for a moment: no directory can be exchanged with one inside of
 * it. False, and nothing has changed: not on this file system, not with these rights, the target is a link or a mount, or
 * others are writing to it. */
static bool exchange(const trn_directory_write *write, const char *fresh) {
  const char *slash = strrchr(write->target, '/'), *id = strrchr(write->staging, '/') + 1;
  char *folder = slash ? strndup(write->target, (size_t)(slash - write->target)) : NULL;
  char *beside = folder ? format("%s/_temporary-%s", folder, id) : NULL, *left = beside ? format("%s/_temporary%s", beside, "") : NULL;
  struct stat info;
  bool done = left && lstat(write->target, &info) == 0 && S_ISDIR(info.st_mode) && adopt_others(write, write->parent, NULL) == 0;
  if (done) done = chmod(fresh, info.st_mode & 07777) == 0 && (info.st_uid == geteuid() || chown(fresh, info.st_uid, info.st_gid) == 0);
  if (done) done = rename(fresh, beside) == 0;
  if (done && renameat2(AT_FDCWD, beside, AT_FDCWD, write->target, RENAME_EXCHANGE) != 0) {
    (void)!rename(beside, fresh);
    done = false;
  }
  if (done) {
    adopt_others(write, left, write->parent); /* that began just now */
    remove_all(AT_FDCWD, beside, 0);
  }
  free(folder), free(beside), free(left);
  return done;
}

/* The whole target anew. */
static trn_status replace_all(plan *p) {
  char *fresh = format("%s/%s", p->write->staging, "new");
  p->root = fresh;
  trn_status status = fresh ? make_all(fresh, NULL, p->error) : trn__no_memory(p->error);
  if (!status) status = place_all(p);
  if (!status) status = make_moves(&p->list, p->error);
  if (!status) status = mark_success(fresh, p->error);
  if (!status && !exchange(p->write, fresh)) {
    status = set_all_aside(p);
    if (!status) status = move_all(p, fresh);
    if (!status) status = make_moves(&p->list, p->error);
  }
  p->root = NULL;
  free(fresh);
  return status;
}

static trn_status add_files(plan *p) {
  p->root = p->write->target;
  trn_status status = p->write->replaces_file ? set_aside(p, p->write->target) : TRN_OK;
  if (!status) status = place_all(p);
  if (!status) status = make_moves(&p->list, p->error);
  if (!status) status = make_all(p->write->target, NULL, p->error);
  return status ? status : mark_success(p->write->target, p->error);
}

trn_status trn__directory_write_commit(trn_directory_write *write, trn_map *placed, trn_error **error) {
  plan p = {.write = write, .error = error, .replaced = trn__map_create(), .placed = placed};
  trn_status status = !write->target || p.replaced ? TRN_OK : trn__no_memory(error);
  if (!write->target) goto done; /* nothing was written */
  if (!status)
    status = write->mode == TRN_DIRECTORY_OVERWRITE && !write->replaces_file ? replace_all(&p) : add_files(&p);
  if (status) undo_moves(&p.list);
done:
  moves_finish(&p.list);
  trn__map_destroy(p.replaced, NULL);
  if (status) {
    trn__directory_write_abort(write);
  } else {
    if (write->target) remove_staging(write);
    write_free(write);
  }
  return status;
}

/* ---- as a write to a table that no catalog knows ---- */

static trn_status path_commit(void *self, int64_t row_count, trn_error **error) {
  (void)row_count;
  return trn__directory_write_commit(self, NULL, error);
}

static void path_abort(void *self) {
  trn__directory_write_abort(self);
}

static const trn_table_write_ops path_ops = {
    .struct_size = sizeof(trn_table_write_ops), .commit = path_commit, .abort = path_abort};

trn_status trn__directory_write_wrap(trn_directory_write *write, trn_table_write **out, trn_error **error) {
  const trn_write_target target = {.struct_size = sizeof target, .directory = write->staging ? write->staging : ""};
  if (trn_table_write_create(&path_ops, write, &target, out) == TRN_OK) return TRN_OK;
  trn__directory_write_abort(write);
  return trn__no_memory(error);
}
