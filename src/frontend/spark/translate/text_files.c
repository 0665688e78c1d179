/* Options, files and lines of CSV and JSON. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "frontend/spark/translate/infer.h"
#include <glob.h>
#include <unistd.h>

enum { FOLDER_DEPTH_MAX = 32 };

/* ---- options ---- */

static bool one_char(const char *value, char *out) {
  if (value[0] == '\\' && value[1] && !value[2]) {
    *out = value[1] == 't' ? '\t' : value[1];
    return true;
  }
  *out = value[0];
  return (unsigned char)value[0] < 128 && (!value[0] || !value[1]);
}

static bool csv_option(spark_text_options *o, const char *key, const char *value) {
  bool on = strcasecmp(value, "true") == 0;
  if (!strcasecmp(key, "header")) o->header = on;
  else if (!strcasecmp(key, "sep") || !strcasecmp(key, "delimiter")) o->separator = strcmp(value, "\\t") == 0 ? "\t" : value;
  else if (!strcasecmp(key, "quote")) return one_char(value, &o->quote);
  else if (!strcasecmp(key, "escape")) return one_char(value, &o->escape);
  else if (!strcasecmp(key, "comment")) return one_char(value, &o->comment);
  else if (!strcasecmp(key, "nullValue")) o->null_value = value;
  else if (!strcasecmp(key, "ignoreLeadingWhiteSpace") || !strcasecmp(key, "ignoreTrailingWhiteSpace")) return !on;
  else if (!strcasecmp(key, "charToEscapeQuoteEscaping") || !strcasecmp(key, "unescapedQuoteHandling")) return false;
  else if (!strcasecmp(key, "nanValue")) return strcmp(value, "NaN") == 0;
  else if (!strcasecmp(key, "positiveInf")) return strcmp(value, "Inf") == 0;
  else if (!strcasecmp(key, "negativeInf")) return strcmp(value, "-Inf") == 0;
  else if (!strcasecmp(key, "emptyValue")) return !*value;
  return true;
}

static bool mode_option(spark_text_options *o, const char *value) {
  o->drops_malformed = strcasecmp(value, "DROPMALFORMED") == 0;
  o->fails_fast = strcasecmp(value, "FAILFAST") == 0;
  return true; /* Spark takes what it does not know for PERMISSIVE */
}

static bool option(spark_text_options *o, bool csv, const char *key, const char *value) {
  bool on = strcasecmp(value, "true") == 0;
  if (!strcasecmp(key, "inferSchema")) o->infer = on;
  else if (!strcasecmp(key, "multiLine")) o->multi_line = on;
  else if (!strcasecmp(key, "mode")) return mode_option(o, value);
  else if (!strcasecmp(key, "columnNameOfCorruptRecord")) o->corrupt = value;
  else if (!strcasecmp(key, "dateFormat")) o->date_format = value;
  else if (!strcasecmp(key, "timestampFormat")) o->timestamp_format = value;
  else if (!strcasecmp(key, "samplingRatio")) o->sampling = atof(value);
  else if (!strcasecmp(key, "lineSep")) return strcmp(value, "\n") == 0;
  else if (!strcasecmp(key, "encoding") || !strcasecmp(key, "charset")) return !strcasecmp(value, "UTF-8") || !strcasecmp(value, "UTF8");
  else if (!csv && !strcasecmp(key, "primitivesAsString")) o->strings = on;
  else if (!csv && !strcasecmp(key, "prefersDecimal")) o->prefers_decimal = on;
  else if (!csv && (!strcasecmp(key, "allowComments") || !strcasecmp(key, "allowUnquotedFieldNames") || !strcasecmp(key, "dropFieldIfAllNull") ||
                    !strcasecmp(key, "allowBackslashEscapingAnyCharacter") || !strcasecmp(key, "allowUnquotedControlChars") || !strcasecmp(key, "inferTimestamp"))) return !on;
  else if (!csv && (!strcasecmp(key, "allowSingleQuotes") || !strcasecmp(key, "allowNonNumericNumbers"))) return on;
  else if (csv) return csv_option(o, key, value);
  return true;
}

void spark__text_options(const Spark__Connect__Read__DataSource *node, bool csv, spark_text_options *out, bool *served) {
  *out = (spark_text_options){.separator = ",", .quote = '"', .escape = '\\', .null_value = "", .corrupt = "_corrupt_record", .sampling = 1};
  *served = true;
  for (size_t i = 0; node && i < node->n_options; i++)
    *served &= option(out, csv, node->options[i]->key, node->options[i]->value ? node->options[i]->value : "");
  *served &= *out->separator != 0;
}

/* ---- files ---- */

static bool is_compressed(const char *name) {
  static const char *const endings[] = {".gz", ".bz2", ".xz", ".zst", ".deflate", ".lz4", ".snappy", ".zip"};
  size_t size = strlen(name);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t ending = strlen(endings[i]);
    if (size > ending && strcasecmp(name + size - ending, endings[i]) == 0) return true;
  }
  return false;
}

static int compare(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static trn_status add_path(spark_translator *t, const char *path, unsigned depth, trn_vec *out, bool *plain,
                           trn_error **error) {
  struct stat info;
  struct dirent **entries = NULL;
  if (stat(path, &info) != 0 || depth > FOLDER_DEPTH_MAX) return TRN_OK; /* whoever opens it says what is wrong */
  if (!S_ISDIR(info.st_mode)) {
    char *copy = trn__arena_strdup(t->arena, path);
    *plain &= !is_compressed(path);
    if (out->count >= TRN_SOURCE_FILES_MAX) *plain = false;
    return copy && trn__vec_push(out, copy) ? TRN_OK : trn__no_memory(error);
  }
  int count = scandir(path, &entries, NULL, compare);
  trn_status status = TRN_OK;
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (!status && name[0] != '.' && (name[0] != '_' || strchr(name, '='))) {
      const char *below = trn__arena_printf(t->arena, "%s/%s", path, name);
      status = below ? add_path(t, below, depth + 1, out, plain, error) : trn__no_memory(error);
    }
    free(entries[i]);
  }
  free(entries);
  return status;
}

trn_status spark__text_files(spark_translator *t, const char *const *paths, size_t count, trn_vec *out, bool *plain,
                             trn_error **error) {
  trn_status status = TRN_OK;
  *plain = true;
  for (size_t i = 0; i < count && !status; i++) {
    const char *path = paths[i];
    if (strncmp(path, "file:", 5) == 0) path += 5;
    while (path[0] == '/' && path[1] == '/') path++;
    if (strstr(path, "://")) *plain = false;
    else status = add_path(t, path, 0, out, plain, error);
  }
  if (!out->count) *plain = false;
  return status;
}

/* Local patterns become what they match, directories too; one that matches nothing stays, and is not found. */
trn_status spark__expand_patterns(spark_translator *t, const char ***all, size_t *all_count, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < *all_count && status == TRN_OK; i++) {
    const char *path = strncmp((*all)[i], "file:/", 6) == 0 ? (*all)[i] + 5 : (*all)[i];
    glob_t found = {0};
    if (!strpbrk(path, "*?[{") || strstr(path, "://") || access(path, F_OK) == 0) continue;
    if (glob(path, GLOB_BRACE, NULL, &found) == 0) {
      size_t after = *all_count - i - 1, count = found.gl_pathc;
      const char **paths = count <= TRN_SOURCE_FILES_MAX ? TRN_NEW_N(t->arena, const char *, i + count + after + 1) : NULL;
      if (paths && i) memcpy(paths, *all, i * sizeof *paths);
      if (paths && after) memcpy(paths + i + count, *all + i + 1, after * sizeof *paths);
      for (size_t k = 0; paths && k < count; k++)
        if (!(paths[i + k] = trn__arena_strdup(t->arena, found.gl_pathv[k]))) status = trn__no_memory(error);
      if (count > TRN_SOURCE_FILES_MAX)
        status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s matches more than %u paths", path,
                               TRN_SOURCE_FILES_MAX);
      else if (!paths)
        status = trn__no_memory(error);
      if (status == TRN_OK) {
        *all = paths;
        *all_count += count - 1;
        i += count - 1;
      }
    }
    globfree(&found);
  }
  return status;
}

/* ---- lines ---- */

FILE *spark__open_regular(const char *path, bool *exists) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  *exists = fd >= 0;
  FILE *file = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? fdopen(fd, "rb") : NULL;
  if (!file && fd >= 0) close(fd);
  return file;
}

bool spark__lines_open(spark_lines *lines, const char *path) {
  bool exists;
  *lines = (spark_lines){.file = spark__open_regular(path, &exists)};
  return lines->file != NULL;
}

static size_t without_end(const char *line, size_t size) {
  if (size && line[size - 1] == '\n') size--;
  if (size && line[size - 1] == '\r') size--;
  return size;
}

bool spark__lines_next(spark_lines *lines, const char **text, size_t *size) {
  ssize_t got = getline(&lines->line, &lines->room, lines->file);
  if (got < 0) return false;
  *text = lines->line;
  *size = without_end(lines->line, (size_t)got);
  return true;
}

bool spark__lines_more(spark_lines *lines, const char **text, size_t *size) {
  char *next = NULL;
  size_t room = 0, before = *size;
  ssize_t got = getline(&next, &room, lines->file);
  bool ok = got >= 0;
  if (ok && before + (size_t)got + 2 > lines->room) {
    char *larger = realloc(lines->line, before + (size_t)got + 2);
    ok = larger != NULL;
    if (ok) lines->line = larger, lines->room = before + (size_t)got + 2;
  }
  if (ok) {
    lines->line[before] = '\n';
    memcpy(lines->line + before + 1, next, (size_t)got + 1);
    *text = lines->line;
    *size = before + 1 + without_end(lines->line + before + 1, (size_t)got);
  }
  free(next);
  return ok;
}

void spark__lines_close(spark_lines *lines) {
  if (lines->file) fclose(lines->file);
  free(lines->line);
}
