/* Text files as rows (source_text.c). */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_TEXT_H
#define TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_TEXT_H
#include "frontend/spark/translate/infer.h"
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/write.h"

typedef enum spark_rows_kind { SPARK_ROWS_TEXT, SPARK_ROWS_CSV, SPARK_ROWS_JSON } spark_rows_kind;
typedef struct spark_text_source {
  spark_rows_kind kind;
  bool whole; /* a row for each file; of CSV: quotes go over lines, of JSON: a value for each file */
  const spark_text_options *options; /* borrowed */
  size_t bytes_max;
} spark_text_source;

/* Of text files. `options` is what *out borrows. */
trn_status spark__text_source_options(const Spark__Connect__Read__DataSource *node, spark_text_options *options,
                                      spark_text_source *out, trn_error **error);
/* Adds an IPC stream to `out`: a text column `name`, then those of the partitions as texts. Reads the files whole.
 * RESOURCE_EXHAUSTED over TRN_TEXT_SOURCE_BYTES_MAX. thread: worker */
trn_status spark__text_source_rows(spark_translator *t, const trn_vec *files, const spark_partitions *partitions,
                                   const spark_text_source *source, const char *name, trn_strbuf *out,
                                   trn_error **error);
#endif
