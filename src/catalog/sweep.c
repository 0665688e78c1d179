/* What keeps files of former versions, and what removes them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/warehouse.h"

enum { REMOVE_DEPTH_MAX = 128 };

/* ---- processes ---- */

static char *process_path(const trn_warehouse *w, const char *id) {
  trn_strbuf path = {0};
  trn__strbuf_printf(&path, "%s/_processes/%s", w->directory, id);
  if (!path.failed) return path.data;
  trn__strbuf_finish(&path);
  return NULL;
}

trn_status trn__process_open(trn_warehouse *w, trn_error **error) {
  trn__uuid4(w->process);
  char *folder = process_path(w, ""), *path = process_path(w, w->process);
  void *page = MAP_FAILED;
  if (folder && path) {
    mkdir(folder, 0777);
    w->process_file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  bool ok = w->process_file >= 0 && flock(w->process_file, LOCK_EX) == 0 &&
            ftruncate(w->process_file, sizeof(uint64_t)) == 0;
  if (ok) page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, w->process_file, 0);
  if (page != MAP_FAILED) {
    w->oldest = page;
    atomic_store(w->oldest, UINT64_MAX);
  }
  trn_status status = page != MAP_FAILED ? TRN_OK
                      : !folder || !path ? trn__no_memory(error)
                                         : trn_error_set(error, errno == ENOSPC ? TRN_RESOURCE_EXHAUSTED : TRN_PERMISSION_DENIED, NULL,
                                                         "Nothing can be written to the warehouse %s", w->directory);
  free(folder), free(path);
  return status;
}

void trn__process_close(trn_warehouse *w) {
  if (w->oldest && w->oldest != &w->own_oldest) munmap((void *)w->oldest, sizeof(uint64_t));
  if (w->process_file < 0) return;
  char *path = process_path(w, w->process);
  if (path) unlink(path);
  free(path);
  close(w->process_file);
}

/* A file of another process: *alive, and the oldest snapshot that it uses. A dead one's file is removed. */
static bool look_at_process(const trn_warehouse *w, const char *id, uint64_t *oldest) {
  char *path = process_path(w, id);
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  bool alive = true; /* when in doubt */
  uint64_t value = 0;
  if (file >= 0 && flock(file, LOCK_SH | LOCK_NB) == 0) {
    alive = false;
    struct stat info;
    if (fstat(file, &info) == 0 && info.st_size == 0) alive = true; /* it is about to lock it */
    if (!alive) unlink(path);
  } else if (file >= 0 && pread(file, &value, sizeof value, 0) != (ssize_t)sizeof value) {
    value = 0;
  } else if (file < 0 && errno == ENOENT) {
    alive = false;
  }
  if (file >= 0) close(file);
  free(path);
  if (alive && value < *oldest) *oldest = value;
  return alive;
}

bool trn__process_is_alive(const trn_warehouse *w, const char *id) {
  uint64_t oldest = UINT64_MAX;
  return trn__uuid_is_valid(id) && look_at_process(w, id, &oldest);
}

/* The oldest snapshot that any process uses; ids of those alive into `alive`. False: out of memory. */
static bool look_at_processes(trn_warehouse *w, trn_map *alive, uint64_t *oldest) {
  *oldest = atomic_load(w->oldest);
  if (w->in_memory) return true;
  char *folder = process_path(w, "");
  DIR *stream = folder ? opendir(folder) : NULL;
  bool ok = stream != NULL;
  for (struct dirent *e; ok && (e = readdir(stream));) {
    if (!trn__uuid_is_valid(e->d_name)) continue;
    bool own = strcmp(e->d_name, w->process) == 0;
    if (own || look_at_process(w, e->d_name, oldest))
      ok = trn__map_set(alive, e->d_name, strlen(e->d_name), w, NULL);
  }
  if (stream) closedir(stream);
  free(folder);
  return ok;
}

/* ---- pins ---- */

/* locks: pin_mu held */
static void publish(trn_warehouse *w) {
  uint64_t oldest = w->pin_count ? w->pins[0].sequence : UINT64_MAX;
  if (w->reading && w->read_from < oldest) oldest = w->read_from;
  atomic_store(w->oldest, oldest);
}

/* locks: pin_mu held */
static void end_before(trn_warehouse *w) {
  w->reading--;
  publish(w);
}

void trn__pin_before(trn_warehouse *w) {
  if (w->base) w = w->base;
  pthread_mutex_lock(&w->pin_mu);
  if (!w->reading++) w->read_from = w->seen; /* what will be read is not older than what was */
  publish(w);
  pthread_mutex_unlock(&w->pin_mu);
}

void trn__pin_cancel(trn_warehouse *w) {
  if (w->base) w = w->base;
  pthread_mutex_lock(&w->pin_mu);
  end_before(w);
  pthread_mutex_unlock(&w->pin_mu);
}

bool trn__pin_add(trn_warehouse *w, uint64_t sequence) {
  bool ok = true, is_view = w->base != NULL; /* what that sees may not be committed yet */
  if (is_view) w = w->base;
  pthread_mutex_lock(&w->pin_mu);
  size_t at = w->pin_count;
  while (at && w->pins[at - 1].sequence >= sequence) at--;
  if (at < w->pin_count && w->pins[at].sequence == sequence) {
    w->pins[at].count++;
  } else {
    if (w->pin_count == w->pin_capacity) {
      size_t capacity = w->pin_capacity ? 2 * w->pin_capacity : 16;
      trn_pin *pins = realloc(w->pins, capacity * sizeof *pins);
      ok = pins != NULL;
      if (pins) w->pins = pins, w->pin_capacity = capacity;
    }
    if (ok) {
      memmove(&w->pins[at + 1], &w->pins[at], (w->pin_count - at) * sizeof *w->pins);
      w->pins[at] = (trn_pin){sequence, 1};
      w->pin_count++;
    }
  }
  if (!is_view && sequence > w->seen) w->seen = sequence;
  end_before(w);
  pthread_mutex_unlock(&w->pin_mu);
  return ok;
}

void trn__pin_remove(trn_warehouse *w, uint64_t sequence) {
  if (w->base) w = w->base;
  pthread_mutex_lock(&w->pin_mu);
  size_t at = 0;
  while (at < w->pin_count && w->pins[at].sequence != sequence) at++;
  if (at < w->pin_count && --w->pins[at].count == 0) {
    memmove(&w->pins[at], &w->pins[at + 1], (w->pin_count - at - 1) * sizeof *w->pins);
    w->pin_count--;
  }
  publish(w);
  pthread_mutex_unlock(&w->pin_mu);
}

/* ---- garbage ---- */

trn_status trn__files_retire(trn_warehouse *w, int64_t table, const char *partition, uint64_t sequence,
                             trn_error **error) {
  const char *add = partition ? "INSERT OR REPLACE INTO garbage SELECT path, ?, ? FROM files WHERE table_id = ? AND "
                                "partition = ?"
                              : "INSERT OR REPLACE INTO garbage SELECT path, ?, ? FROM files WHERE table_id = ?";
  const char *drop = partition ? "DELETE FROM files WHERE table_id = ? AND partition = ?"
                               : "DELETE FROM files WHERE table_id = ?";
  trn_status status =
      trn__sql_run(w, error, add, partition ? "iiis" : "iii", (int64_t)sequence, trn__wall_ms(), table, partition);
  return status ? status : trn__sql_run(w, error, drop, partition ? "is" : "i", table, partition);
}

static void remove_at(int folder, const char *name, unsigned depth) {
  if (unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM) || depth > REMOVE_DEPTH_MAX) return;
  int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *stream = inner < 0 ? NULL : fdopendir(inner);
  if (!stream && inner >= 0) close(inner);
  for (struct dirent *e; stream && (e = readdir(stream));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove_at(dirfd(stream), e->d_name, depth + 1);
  if (stream) closedir(stream);
  unlinkat(folder, name, AT_REMOVEDIR);
}

void trn__remove_all(const char *path) {
  remove_at(AT_FDCWD, path, 0);
}

/* The file, then the directories above that are empty now, up to the one that is named for a write, and the table's. */
static void remove_file(const char *path) {
  char *copy = strdup(path);
  unlink(path);
  for (char *slash; copy && (slash = strrchr(copy, '/')) && slash != copy;) {
    *slash = '\0';
    char *name = strrchr(copy, '/');
    bool last = name && strncmp(name, "/_w-", 4) == 0;
    if (rmdir(copy) != 0) break;
    if (!last) continue;
    *name = '\0';
    rmdir(copy);
    break;
  }
  free(copy);
}

/* Texts of the first column, in the arena. locks: mu held */
static trn_status list(trn_warehouse *w, trn_arena *arena, trn_vec *out, const char *sql, const char *types, int64_t a,
                       int64_t b) {
  sqlite3_stmt *statement = NULL;
  bool more = true;
  trn_status status = trn__sql_prepare(w, &statement, NULL, sql, types, a, b);
  while (!status && more) {
    status = trn__sql_step(w, statement, &more, NULL);
    if (status || !more) break;
    const char *text = trn__sql_column(statement, 0);
    char *copy = text ? trn__arena_strdup(arena, text) : NULL;
    if (!copy || !trn__vec_push(out, copy)) status = TRN_RESOURCE_EXHAUSTED;
  }
  sqlite3_finalize(statement);
  return status;
}

/* Files that no snapshot in use can see. */
static void sweep_garbage(trn_warehouse *w, trn_arena *arena, uint64_t oldest) {
  trn_vec paths = {0};
  int64_t limit = oldest > INT64_MAX ? INT64_MAX : (int64_t)oldest;
  pthread_mutex_lock(&w->mu);
  list(w, arena, &paths, "SELECT path FROM garbage WHERE sequence <= ? AND at_ms <= ?", "ii", limit,
       trn__wall_ms() - (int64_t)w->grace_ms);
  pthread_mutex_unlock(&w->mu);
  for (size_t i = 0; i < paths.count; i++) {
    const char *path = trn__path_outside(w, arena, paths.items[i]);
    if (path) remove_file(path);
  }
  if (paths.count) {
    pthread_mutex_lock(&w->mu);
    trn_status status = trn__sql_begin(w, true, NULL);
    if (!status) {
      for (size_t i = 0; !status && i < paths.count; i++)
        status = trn__sql_run(w, NULL, "DELETE FROM garbage WHERE path = ?", "s", paths.items[i]);
      trn__sql_end(w, status, NULL);
    }
    pthread_mutex_unlock(&w->mu);
  }
  trn__vec_finish(&paths);
}

/* Directories of writes whose process is gone. */
static void sweep_writes(trn_warehouse *w, trn_arena *arena, const trn_map *alive) {
  trn_vec dead = {0};
  sqlite3_stmt *statement = NULL;
  bool more = true;
  pthread_mutex_lock(&w->mu);
  trn_status status = trn__sql_prepare(w, &statement, NULL, "SELECT directory, process FROM writes", "");
  while (!status && more) {
    status = trn__sql_step(w, statement, &more, NULL);
    if (status || !more) break;
    const char *directory = trn__sql_column(statement, 0), *process = trn__sql_column(statement, 1);
    if (!directory || !process || trn__map_get(alive, process, strlen(process))) continue;
    if (trn__process_is_alive(w, process)) continue; /* it began after the list was read */
    char *copy = trn__arena_strdup(arena, directory);
    if (!copy || !trn__vec_push(&dead, copy)) status = TRN_RESOURCE_EXHAUSTED;
  }
  sqlite3_finalize(statement);
  pthread_mutex_unlock(&w->mu);
  for (size_t i = 0; i < dead.count; i++) {
    const char *path = trn__path_outside(w, arena, dead.items[i]);
    if (path) trn__remove_all(path);
    pthread_mutex_lock(&w->mu);
    trn__sql_run(w, NULL, "DELETE FROM writes WHERE directory = ?", "s", dead.items[i]);
    pthread_mutex_unlock(&w->mu);
  }
  trn__vec_finish(&dead);
}

static void sweep(trn_warehouse *w, bool is_opening) {
  if (w->base) return; /* its commit does */
  uint64_t oldest = 0;
  trn_arena *arena = trn__arena_create(0);
  trn_map *alive = trn__map_create();
  if (arena && alive && look_at_processes(w, alive, &oldest)) {
    sweep_garbage(w, arena, oldest);
    if (!w->in_memory) sweep_writes(w, arena, alive);
    if (!w->in_memory && is_opening) trn__transactions_sweep(w, alive);
  }
  trn__map_destroy(alive, NULL);
  trn__arena_unref(arena);
}

void trn__sweep(trn_warehouse *w) { sweep(w, false); }
void trn__sweep_opened(trn_warehouse *w) { sweep(w, true); }
