/* Options, files and lines of CSV and JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "frontend/spark/translate/infer.h"
#include <glob.h>
#include <unistd.h>

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
  else if (!strcasecmp(key, "lineSep")) o->line_separator = value;
  else if (!strcasecmp(key, "encoding") || !strcasecmp(key, "charset")) o->charset = !strcasecmp(value, "UTF-8") || !strcasecmp(value, "UTF8") ? NULL : value;
  else if (!strcasecmp(key, "ignoreCorruptFiles")) o->ignores_corrupt = on;
  else if (!csv && !strcasecmp(key, "allowComments")) o->comments = on;
  else if (!csv && !strcasecmp(key, "primitivesAsString")) o->strings = on;
  else if (!csv && !strcasecmp(key, "prefersDecimal")) o->prefers_decimal = on;
  else if (!csv && (!strcasecmp(key, "allowUnquotedFieldNames") || !strcasecmp(key, "dropFieldIfAllNull") ||
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
  out->finds_charset = !csv && out->multi_line && !out->charset;
}

/* ---- patterns ---- */

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
