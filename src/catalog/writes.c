/* Writes to a warehouse's tables. Managed: files are made in a directory of the write's own, below the table's, and stay there;
 * the commit is the one transaction that lists them. External: files are made aside and moved. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/directory_write.h"
#include "catalog/warehouse.h"

enum { ABORT_TRIES = 10, ABORT_PAUSE_NS = 20 * 1000 * 1000 };

typedef struct table_write {
  trn_warehouse *w;
  trn_arena *arena;
  trn_write_request request; /* its texts are in the arena, `create` too */
  trn_table_row row;         /* unless it creates */
  const trn_table_info *info; /* of the row, or what will be created */
  const char *directory;     /* of the write; its files are there for good */
  const char *kept;          /* as the list of running writes has it */
  trn_directory_write *outside; /* of an external table */
  trn_vec files;             /* new_file */
} table_write;

typedef struct new_file {
  const char *path, *partition;
  int64_t rows, bytes;
} new_file;

/* ---- what the request says, kept ---- */

static const trn_kv *copy_pairs(trn_arena *arena, const trn_kv *pairs, size_t count) {
  trn_kv *copy = TRN_NEW_N(arena, trn_kv, count);
  for (size_t i = 0; copy && i < count; i++) {
    copy[i].key = trn__arena_strdup(arena, pairs[i].key);
    copy[i].value = pairs[i].value ? trn__arena_strdup(arena, pairs[i].value) : NULL;
    if (!copy[i].key || (pairs[i].value && !copy[i].value)) return NULL;
  }
  return copy;
}

/* A definition that outlives its giver: through its bytes. */
static trn_table_info *copy_info(trn_arena *arena, const trn_table_info *info, trn_error **error) {
  trn_strbuf bytes = {0};
  trn_table_info *copy = TRN_NEW(arena, trn_table_info);
  trn__definition_encode(&bytes, info);
  trn_status status = copy && !bytes.failed ? TRN_OK : trn__no_memory(error);
  if (!status) {
    const char *texts[] = {info->database, info->name, info->format, info->location, info->comment};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
      if (texts[i] && !(texts[i] = trn__arena_strdup(arena, texts[i]))) status = trn__no_memory(error);
    *copy = (trn_table_info){.struct_size = sizeof *copy,
                             .database = texts[0],
                             .name = texts[1],
                             .format = texts[2],
                             .location = texts[3],
                             .comment = texts[4],
                             .kind = info->kind,
                             .row_count = -1,
                             .byte_count = -1};
  }
  if (!status) status = trn__definition_decode(arena, bytes.data, bytes.size, copy, error);
  trn__strbuf_finish(&bytes);
  return status ? NULL : copy;
}

static trn_status copy_request(table_write *t, const trn_write_request *request, trn_error **error) {
  t->request = *request;
  t->request.database = trn__arena_strdup(t->arena, request->database);
  t->request.name = trn__arena_strdup(t->arena, request->name);
  t->request.partition = copy_pairs(t->arena, request->partition, request->partition_count);
  if (request->create && !(t->request.create = copy_info(t->arena, request->create, error)))
    return TRN_RESOURCE_EXHAUSTED;
  return t->request.database && t->request.name && t->request.partition ? TRN_OK : trn__no_memory(error);
}

/* ---- beginning ---- */

/* locks: mu held, in a transaction */
static trn_status find_target(table_write *t, trn_error **error) {
  trn_error *missing = NULL;
  const trn_write_request *r = &t->request;
  trn_status status = trn__table_find(t->w, t->arena, r->database, r->name, &t->row, &missing);
  if (r->mode == TRN_WRITE_CREATE) {
    t->info = r->create;
    if (status == TRN_NOT_FOUND) status = trn__database_check(t->w, r->database, error);
    else if (!status && !r->replace)
      status = trn__named_error(t->w, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", r->database,
                                r->name, error);
    trn_error_unref(missing);
    return status;
  }
  if (status) {
    if (error) *error = missing;
    else trn_error_unref(missing);
    return status;
  }
  t->info = &t->row.info;
  if (t->info->kind == TRN_TABLE_VIEW)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a view: nothing can be written to it", r->name);
  if (r->expected_identity && strcmp(r->expected_identity, t->info->identity) != 0)
    return trn_error_set(error, TRN_ABORTED, NULL, "The table %s was dropped and made again", r->name);
  return TRN_OK;
}

/* Chooses the directory, and lists the write as running, so that it is swept when this process dies. A transaction's files
 * are in its own, which is swept as a whole. locks: mu held, in a transaction */
static trn_status register_write(table_write *t, trn_error **error) {
  char id[TRN_UUID_SIZE];
  trn__uuid4(id);
  if (t->w->base) {
    const char *own = trn__transaction_directory(t->w, t->arena, error);
    if (!own) return TRN_RESOURCE_EXHAUSTED;
    t->directory = trn__arena_printf(t->arena, "%s/_w-%s", own, id);
    return t->directory ? TRN_OK : trn__no_memory(error);
  }
  const char *base = trn__table_location(t->w, t->arena, t->request.database, t->request.name, error);
  if (!base) return TRN_RESOURCE_EXHAUSTED;
  t->directory = trn__arena_printf(t->arena, "%s/_w-%s", base, id);
  t->kept = t->directory ? trn__path_inside(t->w, t->arena, t->directory) : NULL;
  if (!t->kept) return trn__no_memory(error);
  return trn__sql_run(t->w, error, "INSERT INTO writes VALUES(?, ?)", "ss", t->kept, t->w->process);
}

static trn_status begin_in_db(table_write *t, trn_session *session, trn_error **error) {
  trn_change change;
  trn_status status = trn__change_begin(&change, t->w, session, true, error);
  if (status) return status;
  if (change.w != t->w) { /* from here on, all of it is the transaction's */
    trn__warehouse_unref(t->w);
    t->w = trn__warehouse_ref(change.w);
  }
  status = find_target(t, error);
  if (!status && t->info->kind == TRN_TABLE_MANAGED) status = register_write(t, error);
  if (!status && t->info->kind != TRN_TABLE_MANAGED && t->w->base)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                           "%s is an external table: rows are written to it at once, which is no part of a transaction",
                           t->request.name);
  return trn__change_end(&change, status, error);
}

static trn_status failed(trn_error **error, const char *what, const char *path) {
  int code = errno;
  trn_status status = code == ENOSPC || code == EDQUOT || code == EFBIG ? TRN_RESOURCE_EXHAUSTED
                      : code == EACCES || code == EPERM || code == EROFS ? TRN_PERMISSION_DENIED : TRN_INTERNAL;
  return trn_error_set(error, status, NULL, "Cannot %s %s: %s", what, path, strerrordesc_np(code));
}

static trn_status make_directory(const char *path, trn_error **error) {
  char *copy = strdup(path);
  trn_status status = copy ? TRN_OK : trn__no_memory(error);
  for (char *at = copy ? strchr(copy + 1, '/') : NULL;; at = strchr(at + 1, '/')) {
    if (status) break;
    if (at) *at = '\0';
    if (mkdir(copy, 0777) != 0 && errno != EEXIST) status = failed(error, "make the directory", copy);
    if (!at) break;
    *at = '/';
  }
  free(copy);
  return status;
}

static const struct {
  const char *format, *ending;
  trn_kv options[2];
  size_t option_count;
} formats[] = {
    {"parquet", ".snappy.parquet", {{"compression", "snappy"}}, 1},
    {"csv", ".csv", {{"has_header", "false"}}, 1},
    {"json", ".json", {{0}}, 0},
};

static trn_status begin_outside(table_write *t, const char *ending, trn_error **error) {
  const char *location = t->info->location;
  if (!location) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The table %s has no location", t->info->name);
  if (strncmp(location, "file:", 5) == 0) location += 5;
  while (location[0] == '/' && location[1] == '/') location++;
  if (*location != '/')
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Writing to %s is not supported: only to local files", location);
  trn_directory_mode mode = t->request.mode == TRN_WRITE_APPEND ? TRN_DIRECTORY_APPEND
                            : t->request.mode == TRN_WRITE_OVERWRITE_PARTITIONS ||
                                    (t->request.mode == TRN_WRITE_OVERWRITE && t->request.partition_count)
                                ? TRN_DIRECTORY_OVERWRITE_PARTITIONS
                                : TRN_DIRECTORY_OVERWRITE;
  trn_status status = trn__directory_write_create(location, ending, t->info->partition_column_count, mode, &t->outside, error);
  if (!status) status = trn__directory_write_set_partitions(t->outside, t->info->partition_columns, error);
  if (!status) status = trn__directory_write_prepare(t->outside, error);
  if (!status) t->directory = t->outside->staging;
  return status;
}

/* ---- ending ---- */

static void forget(table_write *t) {
  trn_change change;
  if (!t->kept || trn__change_begin(&change, t->w, NULL, true, NULL)) return; /* then it is swept with the process */
  trn__change_end(&change, trn__sql_run(t->w, NULL, "DELETE FROM writes WHERE directory = ?", "s", t->kept), NULL);
}

static void write_abort(void *self) {
  table_write *t = self;
  trn__directory_write_abort(t->outside);
  t->outside = NULL;
  /* A writer that was told to stop may be in the middle of making a file. */
  bool is_managed = t->directory && t->info && t->info->kind == TRN_TABLE_MANAGED;
  for (int i = 0; is_managed && i < ABORT_TRIES; i++) {
    const struct timespec pause = {.tv_nsec = ABORT_PAUSE_NS};
    trn__remove_all(t->directory);
    if (i) nanosleep(&pause, NULL);
    if (i && access(t->directory, F_OK) != 0) break;
  }
  forget(t);
  char *slash = t->kept ? strrchr((char *)t->directory, '/') : NULL;
  if (slash) {
    *slash = '\0';
    rmdir(t->directory); /* of a table that never was */
  }
}

static void write_destroy(void *self) {
  table_write *t = self;
  trn__vec_finish(&t->files);
  trn__arena_unref(t->arena);
  trn__warehouse_unref(t->w);
  free(t);
}

static trn_status sync_path(const char *path, int flags, trn_error **error) {
  int file = open(path, flags | O_CLOEXEC);
  trn_status status = file < 0 || fsync(file) != 0 ? failed(error, "keep", path) : TRN_OK;
  if (file >= 0) close(file);
  return status;
}

static trn_status add_file(table_write *t, const char *path, const char *partition, trn_error **error) {
  struct stat info;
  if (stat(path, &info) != 0) return failed(error, "read", path);
  bool parquet = t->info->format && strcmp(t->info->format, "parquet") == 0;
  int64_t rows = parquet ? trn__parquet_rows(path) : -1;
  if (rows == 0 || info.st_size == 0) {
    unlink(path);
    return TRN_OK;
  }
  new_file *file = TRN_NEW(t->arena, new_file);
  if (!file) return trn__no_memory(error);
  *file = (new_file){trn__arena_strdup(t->arena, path), trn__arena_strdup(t->arena, partition), rows, info.st_size};
  if (!file->path || !file->partition || !trn__vec_push(&t->files, file)) return trn__no_memory(error);
  return t->w->in_memory ? TRN_OK : sync_path(path, O_RDONLY, error);
}

/* Goes down the levels of partitions below `path`. */
static trn_status collect(table_write *t, const char *path, size_t level, const char *partition, trn_error **error) {
  DIR *stream = opendir(path);
  trn_status status = stream ? TRN_OK : failed(error, "read the directory", path);
  bool leaf = level == t->info->partition_column_count;
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    trn_strbuf below = {0}, inner = {0}, value = {0};
    trn__strbuf_printf(&below, "%s/%s", path, e->d_name);
    const char *equals = strchr(e->d_name, '=');
    if (!leaf && equals) {
      trn__partition_unescape(&value, equals + 1, strlen(equals + 1));
      trn__strbuf_printf(&inner, "%s%s", partition, level ? "/" : "");
      trn__partition_level(&inner, t->info->partition_columns[level], value.data ? value.data : "");
    }
    if (below.failed || inner.failed || value.failed) status = trn__no_memory(error);
    else if (leaf) status = add_file(t, below.data, partition, error);
    else if (equals) status = collect(t, below.data, level + 1, inner.data, error);
    trn__strbuf_finish(&below), trn__strbuf_finish(&inner), trn__strbuf_finish(&value);
  }
  if (stream) closedir(stream);
  return status || t->w->in_memory ? status : sync_path(path, O_RDONLY | O_DIRECTORY, error);
}

static trn_status collect_all(table_write *t, trn_error **error) {
  DIR *stream = opendir(t->directory);
  trn_status status = stream ? TRN_OK : failed(error, "read the directory", t->directory);
  for (struct dirent *e; stream && !status && (e = readdir(stream));) {
    if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
    trn_strbuf below = {0};
    trn__strbuf_printf(&below, "%s/%s", t->directory, e->d_name);
    status = below.failed ? trn__no_memory(error) : collect(t, below.data, 0, "", error);
    trn__strbuf_finish(&below);
  }
  if (stream) closedir(stream);
  return status || t->w->in_memory ? status : sync_path(t->directory, O_RDONLY | O_DIRECTORY, error);
}

/* Former rows that this write replaces. locks: mu held, in a transaction */
static trn_status retire_matching(table_write *t, int64_t table, uint64_t sequence, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_vec found = {0};
  bool more = true;
  trn_status status = trn__sql_prepare(t->w, &statement, error,
                                       "SELECT DISTINCT partition FROM files WHERE table_id = ?", "i", table);
  while (!status && more) {
    bool matches = false;
    status = trn__sql_step(t->w, statement, &more, error);
    if (status || !more) break;
    const char *partition = trn__sql_column(statement, 0);
    status = trn__partition_matches(t->info, partition ? partition : "", t->request.partition,
                                    t->request.partition_count, &matches, error);
    char *copy = matches && !status ? trn__arena_strdup(t->arena, partition) : NULL;
    if (matches && !status && (!copy || !trn__vec_push(&found, copy))) status = trn__no_memory(error);
  }
  sqlite3_finalize(statement);
  for (size_t i = 0; !status && i < found.count; i++)
    status = trn__files_retire(t->w, table, found.items[i], sequence, error);
  trn__vec_finish(&found);
  return status;
}

/* Their entries in the list of partitions; those that get rows come back with them. locks: mu held, in a transaction */
static trn_status forget_matching(table_write *t, int64_t table, trn_error **error) {
  sqlite3_stmt *statement = NULL;
  trn_vec found = {0};
  bool more = true;
  trn_status status =
      trn__sql_prepare(t->w, &statement, error, "SELECT directory FROM partitions WHERE table_id = ?", "i", table);
  while (!status && more) {
    bool matches = false;
    status = trn__sql_step(t->w, statement, &more, error);
    if (status || !more) break;
    const char *partition = trn__sql_column(statement, 0);
    status = trn__partition_matches(t->info, partition ? partition : "", t->request.partition,
                                    t->request.partition_count, &matches, error);
    char *copy = matches && !status ? trn__arena_strdup(t->arena, partition) : NULL;
    if (matches && !status && (!copy || !trn__vec_push(&found, copy))) status = trn__no_memory(error);
  }
  sqlite3_finalize(statement);
  for (size_t i = 0; !status && i < found.count; i++)
    status = trn__sql_run(t->w, error, "DELETE FROM partitions WHERE table_id = ? AND directory = ?", "is", table,
                          found.items[i]);
  trn__vec_finish(&found);
  return status;
}

static trn_status retire_written(table_write *t, int64_t table, uint64_t sequence, trn_error **error) {
  trn_status status = TRN_OK;
  const char *last = NULL; /* files of one partition mostly follow each other */
  for (size_t i = 0; !status && i < t->files.count; i++) {
    const char *partition = ((new_file *)t->files.items[i])->partition;
    if (last && strcmp(last, partition) == 0) continue;
    status = trn__files_retire(t->w, table, partition, sequence, error);
    last = partition;
  }
  return status;
}

static trn_status list_files(table_write *t, int64_t table, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < t->files.count; i++) {
    const new_file *file = t->files.items[i];
    const char *path = trn__path_inside(t->w, t->arena, file->path);
    if (!path) return trn__no_memory(error);
    status = trn__sql_run(t->w, error,
                          "INSERT INTO files(table_id, partition, path, row_count, byte_count) VALUES(?, ?, ?, ?, ?)",
                          "issii", table, file->partition, path, file->rows, file->bytes);
    if (!status && *file->partition)
      status = trn__sql_run(t->w, error, "INSERT OR IGNORE INTO partitions VALUES(?, ?, NULL)", "is", table,
                            file->partition);
  }
  return status;
}

/* The table as it is now; it may have been changed since the write began. locks: mu held, in a transaction */
static trn_status find_again(table_write *t, uint64_t sequence, int64_t *table, trn_error **error) {
  trn_table_row now;
  if (t->request.mode == TRN_WRITE_CREATE)
    return trn__table_insert(t->w, t->info, t->request.replace, sequence, table, error);
  trn_status status = trn__table_find(t->w, t->arena, t->request.database, t->request.name, &now, error);
  if (status) return status;
  *table = now.id;
  bool same = now.id == t->row.id && now.definition_version == t->row.definition_version;
  if (same && t->request.expected_version) same = now.info.version == t->request.expected_version;
  if (same) return TRN_OK;
  return trn_error_set(error, TRN_ABORTED, NULL, "The table %s was changed while rows were written to it: try again",
                       t->request.name);
}

/* locks: mu held, in a transaction */
static trn_status commit_in_db(table_write *t, uint64_t sequence, trn_error **error) {
  int64_t table = 0;
  trn_status status = find_again(t, sequence, &table, error);
  if (!status && t->info->kind == TRN_TABLE_MANAGED) {
    if (t->request.mode == TRN_WRITE_OVERWRITE && !t->request.partition_count) {
      status = trn__files_retire(t->w, table, NULL, sequence, error);
      if (!status) status = trn__sql_run(t->w, error, "DELETE FROM partitions WHERE table_id = ?", "i", table);
    } else if (t->request.mode == TRN_WRITE_OVERWRITE) {
      status = retire_matching(t, table, sequence, error);
      if (!status) status = forget_matching(t, table, error);
    } else if (t->request.mode == TRN_WRITE_OVERWRITE_PARTITIONS) {
      status = retire_written(t, table, sequence, error);
    }
  }
  if (!status) status = list_files(t, table, error);
  if (!status) status = trn__table_touch(t->w, table, sequence, false, error);
  if (!status && t->kept) status = trn__sql_run(t->w, error, "DELETE FROM writes WHERE directory = ?", "s", t->kept);
  return status;
}

/* Partitions that an external write made, for the list. */
static trn_status note_placed(table_write *t, const trn_map *placed, trn_error **error) {
  const char *key;
  void *value;
  trn_status status = TRN_OK;
  sqlite3_stmt *statement = NULL;
  bool found = false;
  int64_t table = 0;
  status = trn__sql_prepare(t->w, &statement, error, "SELECT id FROM tables WHERE database = ? AND name = ?", "ss",
                            t->request.database, t->request.name);
  if (!status) status = trn__sql_step(t->w, statement, &found, error);
  if (!status && found) table = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  for (size_t i = 0; !status && trn__map_next(placed, &i, &key, &value);)
    status = trn__sql_run(t->w, error, "INSERT OR IGNORE INTO partitions VALUES(?, ?, NULL)", "is", table, key);
  return status;
}

static trn_status write_commit(void *self, int64_t row_count, trn_error **error) {
  table_write *t = self;
  trn_map *placed = t->outside ? trn__map_create() : NULL;
  trn_status status = t->outside ? (placed ? TRN_OK : trn__no_memory(error)) : collect_all(t, error);
  (void)row_count;
  if (!status && t->outside) {
    status = trn__directory_write_commit(t->outside, placed, error);
    t->outside = NULL;
  }
  trn_change change;
  if (!status) status = trn__change_begin(&change, t->w, NULL, true, error);
  if (!status) {
    status = commit_in_db(t, change.sequence, error);
    if (!status && placed) status = note_placed(t, placed, error);
    status = trn__change_end(&change, status, error);
  }
  trn__map_destroy(placed, NULL);
  if (status) {
    write_abort(t);
    return status;
  }
  if (!t->files.count && t->info->kind == TRN_TABLE_MANAGED) trn__remove_all(t->directory);
  if (t->request.mode != TRN_WRITE_APPEND) trn__sweep(t->w);
  return TRN_OK;
}

static const trn_table_write_ops write_ops = {.struct_size = sizeof(trn_table_write_ops),
                                              .commit = write_commit,
                                              .abort = write_abort,
                                              .destroy = write_destroy};

static trn_status start(table_write *t, trn_session *session, const trn_write_request *request, trn_table_write **out,
                        trn_error **error) {
  size_t f = 0;
  if (!(t->arena = trn__arena_create(0))) return trn__no_memory(error);
  trn_status status = copy_request(t, request, error);
  if (!status) status = begin_in_db(t, session, error);
  if (status) return status;
  const char *format = t->info->format ? t->info->format : "parquet";
  while (f < sizeof formats / sizeof *formats && strcmp(formats[f].format, format) != 0) f++;
  if (f == sizeof formats / sizeof *formats)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Writing to a table of format %s is not supported", format);
  bool outside = t->info->kind == TRN_TABLE_EXTERNAL;
  status = outside ? begin_outside(t, formats[f].ending, error) : make_directory(t->directory, error);
  if (status) return status;
  const trn_write_target target = {.struct_size = sizeof target,
                                   .directory = t->directory,
                                   .format = formats[f].format,
                                   .options = formats[f].options,
                                   .option_count = formats[f].option_count,
                                   .partition_columns = t->info->partition_columns,
                                   .partition_column_count = t->info->partition_column_count,
                                   .keeps_partition_columns = !outside};
  return trn_table_write_create(&write_ops, t, &target, out) ? trn__no_memory(error) : TRN_OK;
}

trn_status trn__warehouse_begin_write(void *self, trn_session *session, const trn_write_request *request,
                                      trn_table_write **out, trn_error **error) {
  table_write *t = calloc(1, sizeof *t);
  if (!t) return trn__no_memory(error);
  t->w = trn__warehouse_ref(self);
  trn_status status = start(t, session, request, out, error);
  if (status) {
    write_abort(t);
    write_destroy(t);
  }
  return status;
}

trn_status trn__warehouse_truncate(void *self, trn_session *session, const char *database, const char *name,
                                   const trn_kv *partition, size_t partition_count, trn_error **error) {
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  change.sweeps = true;
  table_write t = {.w = change.w, .arena = change.arena, .request = {.partition = partition, .partition_count = partition_count}};
  status = trn__table_find(t.w, t.arena, database, name, &t.row, error);
  t.info = &t.row.info;
  if (!status && t.info->kind != TRN_TABLE_MANAGED)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s is no managed table: it cannot be truncated", name);
  if (!status)
    status = partition_count ? retire_matching(&t, t.row.id, change.sequence, error)
                             : trn__files_retire(t.w, t.row.id, NULL, change.sequence, error);
  if (!status) status = trn__table_touch(t.w, t.row.id, change.sequence, false, error);
  return trn__change_end(&change, status, error);
}
