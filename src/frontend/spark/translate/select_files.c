/* Which local files a read is of, as Spark lists them: hidden ones are none; directories below count when they are name=value
 * or all of them are asked for; patterns of names and times choose among them. */
#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/spark/translate/infer.h"

enum { FOLDER_DEPTH_MAX = 32, PATTERNS_MAX = 64 };

typedef struct selection {
  spark_translator *t;
  const spark_file_filter *filter;
  const char *patterns[PATTERNS_MAX]; /* the filter's, without braces */
  size_t pattern_count;
  spark_file_list *out;
  trn_error **error;
} selection;

/* ---- options ---- */

static trn_status time_option(spark_translator *t, const char *option, const char *text, int64_t *out, trn_error **error) {
  spark_value value = {.expr = trn__expr_string(t->arena, text, strlen(text)), .name = ""};
  const trn_expr *time = NULL;
  trn_status status = value.expr ? TRN_OK : trn__no_memory(error);
  if (!status) status = spark__cast(t, value.expr, trn__type(TRN_TYPE_TIMESTAMP), SPARK_CAST_TRY, (trn_position){-1, -1}, &value.expr, error);
  if (!status) status = spark__evaluate(t, &value, &time, error);
  if (status) return status;
  if (time->kind == TRN_EXPR_LITERAL && !time->u.literal.is_null) {
    *out = time->u.literal.value.integer;
    return TRN_OK;
  }
  return trn_error_set(error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_1294",
                       "The timestamp provided for the '%s' option is invalid. The expected format is 'YYYY-MM-DDTHH:mm:ss', but the "
                       "provided timestamp: %s.",
                       option, text);
}

trn_status spark__file_filter(spark_translator *t, const Spark__Connect__Read__DataSource *node, spark_file_filter *out,
                              trn_error **error) {
  trn_status status = TRN_OK;
  *out = (spark_file_filter){.before = INT64_MAX, .after = INT64_MIN};
  for (size_t i = 0; node && i < node->n_options && !status; i++) {
    const char *key = node->options[i]->key, *value = node->options[i]->value ? node->options[i]->value : "";
    bool on = strcasecmp(value, "true") == 0;
    if (!strcasecmp(key, "recursiveFileLookup")) out->recursive = on;
    else if (!strcasecmp(key, "pathGlobFilter")) out->pattern = value;
    else if (!strcasecmp(key, "modifiedBefore")) status = time_option(t, "modifiedbefore", value, &out->before, error);
    else if (!strcasecmp(key, "modifiedAfter")) status = time_option(t, "modifiedafter", value, &out->after, error);
    else if (!strcasecmp(key, "basePath")) out->base = strncmp(value, "file:/", 6) == 0 ? value + 5 : value;
    else if (!strcasecmp(key, "mergeSchema")) out->merges = on;
    else if (!strcasecmp(key, "ignoreCorruptFiles")) out->ignores_corrupt = on;
    else continue;
    out->any |= strcasecmp(key, "mergeSchema") != 0 && strcasecmp(key, "ignoreCorruptFiles") != 0;
  }
  return status;
}

/* The alternatives of {a,b} one by one; a pattern of too many is cut, and matches less. */
static trn_status without_braces(selection *s, const char *pattern, unsigned depth) {
  const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
  if (!close || depth > 8) {
    if (s->pattern_count < PATTERNS_MAX) s->patterns[s->pattern_count++] = pattern;
    return TRN_OK;
  }
  trn_status status = TRN_OK;
  for (const char *at = open + 1; at <= close && !status;) {
    size_t size = strcspn(at, ",}");
    const char *one = trn__arena_printf(s->t->arena, "%.*s%.*s%s", (int)(open - pattern), pattern, (int)size, at, close + 1);
    status = one ? without_braces(s, one, depth + 1) : trn__no_memory(s->error);
    at += size + 1;
  }
  return status;
}

/* ---- files ---- */

static bool is_hidden(const char *name) {
  size_t size = strlen(name);
  if (name[0] == '.' || (name[0] == '_' && !strchr(name, '='))) return true;
  return size > 10 && strcmp(name + size - 10, "._COPYING_") == 0;
}

static bool passes(const selection *s, const char *name, const struct stat *info) {
  bool matches = !s->filter->pattern;
  for (size_t i = 0; i < s->pattern_count && !matches; i++) matches = fnmatch(s->patterns[i], name, 0) == 0;
  int64_t modified = (int64_t)info->st_mtim.tv_sec * 1000000 + info->st_mtim.tv_nsec / 1000;
  return matches && modified > s->filter->after && modified < s->filter->before;
}

static int compare(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static trn_status add_file(selection *s, const char *path, const char *name, const struct stat *info) {
  if (is_hidden(name)) {
    s->out->leaves_out |= strcmp(name, "_SUCCESS") != 0 && !strstr(name, ".crc");
    return TRN_OK;
  }
  if (!passes(s, name, info)) {
    s->out->leaves_out = true;
    return TRN_OK;
  }
  char *copy = trn__arena_strdup(s->t->arena, path);
  if (s->out->files.count >= TRN_SOURCE_FILES_MAX) s->out->local = false;
  if (s->out->local) s->out->bytes += (uint64_t)info->st_size;
  return copy && (!s->out->local || trn__vec_push(&s->out->files, copy)) ? TRN_OK : trn__no_memory(s->error);
}

static trn_status add_path(selection *s, const char *path, unsigned depth) {
  struct stat info;
  struct dirent **entries = NULL;
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  if (stat(path, &info) != 0 || depth > FOLDER_DEPTH_MAX || !s->out->local) return TRN_OK; /* whoever opens it says what is wrong */
  if (!S_ISDIR(info.st_mode)) return add_file(s, path, name, &info);
  if (depth && (is_hidden(name) || !(s->filter->recursive || strchr(name, '=')))) return TRN_OK;
  s->out->nested |= depth > 0;
  int count = scandir(path, &entries, NULL, compare);
  trn_status status = TRN_OK;
  for (int i = 0; i < count; i++) {
    const char *entry = entries[i]->d_name;
    if (!status && strcmp(entry, ".") != 0 && strcmp(entry, "..") != 0) {
      const char *below = trn__arena_printf(s->t->arena, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry);
      status = below ? add_path(s, below, depth + 1) : trn__no_memory(s->error);
    }
    free(entries[i]);
  }
  free(entries);
  return status;
}

trn_status spark__select_files(spark_translator *t, const char *const *paths, size_t count, const spark_file_filter *filter,
                               spark_file_list *out, trn_error **error) {
  selection s = {.t = t, .filter = filter, .out = out, .error = error};
  trn_status status = filter->pattern ? without_braces(&s, filter->pattern, 0) : TRN_OK;
  out->local = true;
  for (size_t i = 0; i < count && !status; i++) {
    const char *path = paths[i];
    if (strncmp(path, "file:", 5) == 0) path += 5;
    while (path[0] == '/' && path[1] == '/') path++;
    if (strstr(path, "://") || (strpbrk(path, "*?[{") && access(path, F_OK) != 0)) out->local = false;
    else if (*path) status = add_path(&s, path, 0);
  }
  return status;
}
