/* CSV and JSON files as Spark reads them: what is in them (infer_csv.c, infer_json.c, over plain reads), and rows out of
 * their lines (text_rows.c). */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_INFER_H
#define TRN_FRONTEND_SPARK_TRANSLATE_INFER_H
#include <stdio.h>

#include "frontend/spark/translate/scope.h"

/* Spark's options of both formats, by their meaning. */
typedef struct spark_text_options {
  const char *separator, *null_value, *date_format, *timestamp_format, *corrupt; /* corrupt: a column's name */
  char quote, escape, comment; /* 0: none */
  bool header, infer, multi_line, strings, prefers_decimal, drops_malformed, fails_fast;
  double sampling;
} spark_text_options;
/* *served false: an option (or its value) that these readers do not know. */
void spark__text_options(const Spark__Connect__Read__DataSource *node, bool csv, spark_text_options *out, bool *served);

/* Local data files below the paths, in order of names; *plain false: some are compressed or not local. */
trn_status spark__text_files(spark_translator *t, const char *const *paths, size_t count, trn_vec *out, bool *plain,
                             trn_error **error);
/* Local patterns become what they match, directories too; one that matches nothing stays. */
trn_status spark__expand_patterns(spark_translator *t, const char ***all, size_t *all_count, trn_error **error);
/* A file's lines or records, one after the other. */
typedef struct spark_lines {
  void *file;
  char *line;
  size_t room;
} spark_lines;
/* A file; others (a pipe, a device) could keep whoever reads waiting: NULL. *exists: there is something, at least. */
FILE *spark__open_regular(const char *path, bool *exists);
bool spark__lines_open(spark_lines *lines, const char *path);
/* The next line without its end; false: no more. */
bool spark__lines_next(spark_lines *lines, const char **text, size_t *size);
/* Adds the next line to what was given: a record that goes on. */
bool spark__lines_more(spark_lines *lines, const char **text, size_t *size);
void spark__lines_close(spark_lines *lines);

trn_status spark__infer_csv(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                            const trn_type **out, trn_error **error);
trn_status spark__infer_json(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                             const trn_type **out, trn_error **error);

/* `relation`: a text column of lines first, then whatever (partition columns). It becomes the schema's columns, then
 * those. `path`: for messages. */
trn_status spark__rows_of_lines(spark_translator *t, bool csv, const trn_type *schema, const spark_text_options *options,
                                const char *path, spark_relation *relation, trn_error **error);
#endif
