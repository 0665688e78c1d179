/* Directories name=value: which there are below a path, and the types that Spark gives their columns. */
#include "frontend/spark/translate/source_file.h"
#include "frontend/spark/translate/scope.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVELS_MAX = 64, DIRECTORIES_MAX = 1 << 20, PATH_BYTES_MAX = 4096 };

/* In the order in which a column of both kinds becomes the later one. */
typedef enum guess { GUESS_NULL = 0, GUESS_INT, GUESS_LONG, GUESS_DECIMAL, GUESS_DOUBLE, GUESS_DATE, GUESS_TIMESTAMP, GUESS_STRING } guess;

typedef struct walk {
  spark_translator *t;
  const char *names[LEVELS_MAX];
  const char *keys[LEVELS_MAX]; /* as the directories have them */
  guess guesses[LEVELS_MAX];
  int digits[LEVELS_MAX];
  uint32_t count; /* levels found so far */
  size_t directories;
  bool infer;
  const char *first_file;
  trn_error **error;
} walk;

/* ---- values ---- */

static int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* %XX are bytes; what is none stays as it is. */
static char *unescape(trn_arena *arena, const char *text, size_t size) {
  char *out = trn__arena_alloc(arena, size + 1);
  size_t at = 0;
  for (size_t i = 0; out && i < size; i++) {
    bool escaped = text[i] == '%' && i + 2 < size && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    out[at++] = escaped ? (char)(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (escaped) i += 2;
  }
  if (out) out[at] = '\0';
  return out;
}

static bool digits_only(const char *text, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!isdigit((unsigned char)text[i])) return false;
  return true;
}

static bool is_date(const char *text) {
  if (!digits_only(text, 4) || text[4] != '-' || !digits_only(text + 5, 2) || text[7] != '-') return false;
  int month = atoi(text + 5), day = atoi(text + 8);
  return digits_only(text + 8, 2) && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

static bool is_timestamp(const char *text) {
  if (strlen(text) < 16 || !is_date(text) || (text[10] != ' ' && text[10] != 'T')) return false;
  return digits_only(text + 11, 2) && text[13] == ':' && digits_only(text + 14, 2);
}

static guess guess_number(const char *text, int *digits) {
  const char *first = text + (*text == '-' || *text == '+');
  size_t size = strlen(first);
  char *end = NULL;
  if (size && digits_only(first, size)) {
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == 0) return value >= INT32_MIN && value <= INT32_MAX ? GUESS_INT : GUESS_LONG;
    *digits = (int)size;
    return size <= 38 ? GUESS_DECIMAL : GUESS_DOUBLE;
  }
  /* strtod takes hexadecimal and names of infinity too. */
  if (!isdigit((unsigned char)*first) && *first != '.') return GUESS_STRING;
  if (strpbrk(first, "xXpP")) return GUESS_STRING;
  strtod(text, &end);
  return end != text && *end == '\0' ? GUESS_DOUBLE : GUESS_STRING;
}

static guess guess_value(const char *text, int *digits) {
  if (strcmp(text, SPARK_NULL_PARTITION) == 0) return GUESS_NULL;
  guess number = guess_number(text, digits);
  if (number != GUESS_STRING) return number;
  if (strlen(text) == 10 && is_date(text)) return GUESS_DATE;
  return is_timestamp(text) ? GUESS_TIMESTAMP : GUESS_STRING;
}

static void add_value(walk *w, uint32_t level, const char *text) {
  int digits = 0;
  guess found = w->infer ? guess_value(text, &digits) : GUESS_STRING, known = w->guesses[level];
  if (digits > w->digits[level]) w->digits[level] = digits;
  bool numbers = found <= GUESS_DOUBLE && known <= GUESS_DOUBLE;
  bool others = found == GUESS_NULL || known == GUESS_NULL || (found >= GUESS_DATE && known >= GUESS_DATE);
  guess wider = found > known ? found : known;
  w->guesses[level] = numbers || others ? wider : GUESS_STRING;
}

/* ---- directories ---- */

static trn_status conflict(walk *w, uint32_t level, const char *name) {
  const char *lists = trn__arena_printf(w->t->arena, "\n\tPartition column name list #0: %s\n\tPartition column name list #1: %s\n",
                                        w->names[level], name);
  if (!lists) return trn__no_memory(w->error);
  return spark__error(w->t, w->error, TRN_INVALID_ARGUMENT, "CONFLICTING_PARTITION_COLUMN_NAMES",
                      ((trn_position){-1, -1}), "distinctPartColLists", lists, "suspiciousPaths", "", NULL);
}

static bool is_level(const char *name, size_t size) {
  return *name != '_' && *name != '.' && *name != '=' && memchr(name, '=', size);
}

static trn_status add_level(walk *w, uint32_t level, const char *name, size_t size) {
  const char *equals = memchr(name, '=', size);
  if (level >= LEVELS_MAX) return trn_error_set(w->error, TRN_RESOURCE_EXHAUSTED, NULL, "There are too many partition directories");
  char *column = unescape(w->t->arena, name, (size_t)(equals - name));
  char *value = unescape(w->t->arena, equals + 1, size - (size_t)(equals + 1 - name));
  if (!column || !value) return trn__no_memory(w->error);
  if (level == w->count) {
    w->names[level] = column;
    w->keys[level] = trn__arena_str(w->t->arena, name, (size_t)(equals - name));
    if (!w->keys[level]) return trn__no_memory(w->error);
    w->count++;
  }
  if (strcmp(w->names[level], column) != 0) return conflict(w, level, column);
  add_value(w, level, value);
  return TRN_OK;
}

static trn_status directory(walk *w, char *path, size_t size, uint32_t level);

/* One entry of a directory; `path` has room for PATH_BYTES_MAX. */
static trn_status entry(walk *w, char *path, size_t size, const char *name, uint32_t level) {
  size_t length = strlen(name);
  struct stat info;
  if (!w->first_file && *name != '_' && *name != '.' && !strchr(name, '=')) {
    if (!(w->first_file = trn__arena_strdup(w->t->arena, name))) return trn__no_memory(w->error);
  }
  if (!is_level(name, length) || size + length + 2 > PATH_BYTES_MAX) return TRN_OK;
  path[size] = '/';
  memcpy(path + size + 1, name, length + 1);
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return TRN_OK;
  if (++w->directories > DIRECTORIES_MAX)
    return trn_error_set(w->error, TRN_RESOURCE_EXHAUSTED, NULL, "There are too many partition directories");
  trn_status status = add_level(w, level, name, length);
  return status ? status : directory(w, path, size + 1 + length, level + 1);
}

static trn_status directory(walk *w, char *path, size_t size, uint32_t level) {
  DIR *stream = opendir(path);
  trn_status status = TRN_OK;
  if (!stream) return TRN_OK; /* opening the files will say what is wrong */
  for (struct dirent *e; !status && (e = readdir(stream));) status = entry(w, path, size, e->d_name, level);
  path[size] = '\0';
  closedir(stream);
  return status;
}

static const trn_type *guessed_type(walk *w, uint32_t level) {
  static const trn_type_id types[] = {[GUESS_NULL] = TRN_TYPE_NULL,   [GUESS_INT] = TRN_TYPE_INT32,
                                      [GUESS_LONG] = TRN_TYPE_INT64,  [GUESS_DOUBLE] = TRN_TYPE_FLOAT64,
                                      [GUESS_DATE] = TRN_TYPE_DATE,   [GUESS_TIMESTAMP] = TRN_TYPE_TIMESTAMP,
                                      [GUESS_STRING] = TRN_TYPE_STRING};
  if (w->guesses[level] != GUESS_DECIMAL) return trn__type(types[w->guesses[level]]);
  return trn__type_decimal(w->t->arena, w->digits[level] > 20 ? w->digits[level] : 20, 0);
}

static trn_status tell(walk *w, spark_partitions *out) {
  trn_arena *arena = w->t->arena;
  out->names = TRN_NEW_N(arena, const char *, w->count);
  out->keys = TRN_NEW_N(arena, const char *, w->count);
  out->types = TRN_NEW_N(arena, const trn_type *, w->count);
  if (!out->names || !out->keys || !out->types) return trn__no_memory(w->error);
  for (uint32_t i = 0; i < w->count; i++) {
    out->names[i] = w->names[i];
    out->keys[i] = w->keys[i];
    out->types[i] = guessed_type(w, i);
    if (!out->types[i]) return trn__no_memory(w->error);
  }
  out->count = w->count;
  out->first_file = w->first_file;
  return TRN_OK;
}

trn_status spark__partitions(spark_translator *t, const char *const *paths, size_t path_count, bool infer,
                             spark_partitions *out, trn_error **error) {
  walk *w = TRN_NEW(t->arena, walk);
  char *path = trn__arena_alloc(t->arena, PATH_BYTES_MAX);
  trn_status status = w && path ? TRN_OK : trn__no_memory(error);
  *out = (spark_partitions){0};
  if (status) return status;
  w->t = t, w->infer = infer, w->error = error;
  for (size_t i = 0; i < path_count && !status; i++) {
    const char *from = paths[i];
    if (strncmp(from, "file:", 5) == 0) from += 5;
    while (from[0] == '/' && from[1] == '/') from++;
    size_t size = strlen(from);
    if (strstr(from, "://") || size + 1 >= PATH_BYTES_MAX || (strpbrk(from, "*?[{") && access(from, F_OK) != 0)) continue;
    memcpy(path, from, size + 1);
    while (size > 1 && path[size - 1] == '/') path[--size] = '\0';
    status = directory(w, path, size, 0);
  }
  return status ? status : tell(w, out);
}

/* ---- paths ---- */

const char *spark__path_below(const char *base, const char *path) {
  if (strncmp(base, "file:", 5) == 0) base += 5;
  if (strncmp(path, "file:", 5) == 0) path += 5;
  while (*base) {
    if (*base != '/') {
      if (*base++ != *path++) return NULL;
      continue;
    }
    base += strspn(base, "/");
    if (!*base) break;
    if (*path != '/') return NULL;
    path += strspn(path, "/");
  }
  return *path && *path != '/' ? NULL : path;
}

/* The levels that are next to the file, of the directories from `at` to `end`. */
static trn_status levels_of(walk *w, const char *at, const char *end) {
  const char *first = NULL;
  bool follows = false;
  trn_status status = TRN_OK;
  for (const char *name = at + strspn(at, "/"); name < end;) {
    size_t size = strcspn(name, "/");
    bool level = is_level(name, size);
    if (level && !follows) first = name;
    follows = level;
    name += size;
    name += strspn(name, "/");
  }
  for (uint32_t level = 0; first && first < end && !status; level++) {
    size_t size = strcspn(first, "/");
    if (!is_level(first, size)) break;
    status = add_level(w, level, first, size);
    first += size;
    first += strspn(first, "/");
  }
  return status;
}

trn_status spark__partitions_of_files(spark_translator *t, const char *base, const trn_vec *files, spark_partitions *out,
                                      trn_error **error) {
  walk *w = TRN_NEW(t->arena, walk);
  trn_status status = w ? TRN_OK : trn__no_memory(error);
  *out = (spark_partitions){0};
  if (status) return status;
  w->t = t, w->infer = true, w->error = error;
  for (size_t i = 0; i < files->count && !status; i++) {
    const char *file = files->items[i], *at = spark__path_below(base, file), *end = strrchr(file, '/');
    if (!w->first_file && end) w->first_file = end + 1;
    if (at && end && at < end) status = levels_of(w, at, end);
  }
  return status ? status : tell(w, out);
}

const char *spark__partition_text(trn_arena *arena, const char *path, const char *key) {
  size_t size = strlen(key);
  const char *found = NULL, *next = strchr(path, '/');
  /* The nearest to the file: the table can lie in a directory of the same key. The file's own name is none. */
  for (const char *at = next; at && (next = strchr(at + 1, '/')); at = next)
    if (strncmp(at + 1, key, size) == 0 && at[1 + size] == '=') found = at + size + 2;
  return found ? unescape(arena, found, strcspn(found, "/")) : NULL;
}
