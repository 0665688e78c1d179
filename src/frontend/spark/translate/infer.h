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
  const char *charset, *line_separator; /* NULL: UTF-8; \n, \r\n and \r */
  bool header, infer, multi_line, strings, prefers_decimal, drops_malformed, fails_fast, comments, ignores_corrupt, finds_charset;
  double sampling;
} spark_text_options;
/* *served false: an option (or its value) that these readers do not know. */
void spark__text_options(const Spark__Connect__Read__DataSource *node, bool csv, spark_text_options *out, bool *served);

/* ---- which files (select_files.c) ---- */
typedef struct spark_file_filter {
  const char *pattern, *base; /* of names, or NULL; the directory below which name=value are columns, or NULL */
  int64_t before, after;      /* microseconds: when the files were changed last */
  bool recursive, merges, ignores_corrupt;
  bool any; /* some option says which files they are */
} spark_file_filter;
typedef struct spark_file_list {
  trn_vec files; /* in order of names; trn__vec_finish */
  uint64_t bytes;
  bool local;      /* false: some are not local, or there are too many */
  bool leaves_out; /* of a directory, data files that whoever lists it would find */
  bool nested;     /* some are in directories below */
} spark_file_list;
/* `node`: NULL has no options. */
trn_status spark__file_filter(spark_translator *t, const Spark__Connect__Read__DataSource *node, spark_file_filter *out,
                              trn_error **error);
/* Local data files below the paths. `out` is zero before. */
trn_status spark__select_files(spark_translator *t, const char *const *paths, size_t count, const spark_file_filter *filter,
                               spark_file_list *out, trn_error **error);
/* Local patterns become what they match, directories too; one that matches nothing stays. */
trn_status spark__expand_patterns(spark_translator *t, const char ***all, size_t *all_count, trn_error **error);
/* A file; others (a pipe, a device) could keep whoever reads waiting: NULL. *exists: there is something, at least. */
FILE *spark__open_regular(const char *path, bool *exists);

/* By a file's name, as Hadoop knows it. */
typedef enum spark_compression {
  SPARK_PLAIN = 0,
  SPARK_GZIP,
  SPARK_BZIP2,
  SPARK_ZSTD,
  SPARK_DEFLATE,
  SPARK_OTHER_COMPRESSION /* which is not read */
} spark_compression;
spark_compression spark__compression_of(const char *path);
/* As UTF-8, not compressed. `charset`: a name of Spark's list; NULL is UTF-8, whose bytes are not looked
 * at. NULL as spark__open_regular. */
FILE *spark__open_text(const char *path, const char *charset, bool *exists);

/* How a file is cut into records. */
typedef enum spark_cut { SPARK_CUT_LINES, SPARK_CUT_FILE, SPARK_CUT_CSV } spark_cut;
typedef enum spark_records_failure {
  SPARK_RECORDS_GOOD = 0,
  SPARK_RECORDS_UNREADABLE,
  SPARK_RECORDS_TOO_LARGE,
  SPARK_RECORDS_NO_MEMORY,
  SPARK_RECORDS_CANCELLED
} spark_records_failure;
/* A file's records, one after the other. */
typedef struct spark_records {
  FILE *file;
  spark_cut cut;
  const spark_text_options *options; /* borrowed: the separators, the charset, CSV's quotes */
  char *bytes;
  size_t at, size, room;
  const char *line; /* the end of CSV's lines */
  bool ended, first, exists;
  spark_records_failure failure;
} spark_records;
/* False: spark__records_status says why. */
bool spark__records_open(spark_records *records, const char *path, const spark_text_options *options, spark_cut cut);
/* The next record without its end, until the one after it; false: no more, or spark__records_status. What the thread works
 * for may be cancelled. */
bool spark__records_next(spark_records *records, const char **text, size_t *size);
/* Why there are no more records: OK at the end of the file, or where corrupt files are ignored. */
trn_status spark__records_status(spark_translator *t, const spark_records *records, const char *path, trn_error **error);
void spark__records_close(spark_records *records);

trn_status spark__infer_csv(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                            const trn_type **out, trn_error **error);
trn_status spark__infer_json(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                             const trn_type **out, trn_error **error);
/* What of a JSON text are records: all of it, or, where it is an array, its elements. `multi_line`: what is behind the first
 * value does not count. thread: worker */
typedef trn_status spark_take_record(void *user, const char *text, size_t size);
trn_status spark__json_records(spark_translator *t, const spark_text_options *options, const char *text, size_t size,
                               spark_take_record *take, void *user, trn_error **error);

/* `relation`: a text column of lines first, then whatever (partition columns). It becomes the schema's columns, then
 * those. `path`: for messages. */
trn_status spark__rows_of_lines(spark_translator *t, bool csv, const trn_type *schema, const spark_text_options *options,
                                const char *path, spark_relation *relation, trn_error **error);
#endif
