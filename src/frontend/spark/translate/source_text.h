/* Text files as rows (source_text.c). */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_TEXT_H
#define TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_TEXT_H
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/write.h"

typedef struct spark_text_source {
  bool whole;            /* a row for each file */
  const char *separator; /* NULL: \n, \r\n, \r */
  size_t bytes_max;
} spark_text_source;

trn_status spark__text_source_options(spark_translator *t, const Spark__Connect__Read__DataSource *node,
                                      spark_text_source *out, trn_error **error);
/* Adds an IPC stream to `out`: a text column `name`, then those of the partitions as texts. Reads the files whole.
 * RESOURCE_EXHAUSTED over TRN_TEXT_SOURCE_BYTES_MAX. thread: worker */
trn_status spark__text_source_rows(spark_translator *t, const trn_vec *files, const spark_partitions *partitions,
                                   const spark_text_source *source, const char *name, trn_strbuf *out,
                                   trn_error **error);
#endif
