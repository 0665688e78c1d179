/* A read of files while it is made: source.c has what all formats share, source_lines.c CSV, JSON and text. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_FILE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_SOURCE_FILE_H
#include "frontend/spark/translate/infer.h"
#include "frontend/spark/translate/source_text.h"
#include "frontend/spark/translate/table.h"
#include "frontend/spark/translate/write.h"

/* Of the engine's readers. */
typedef struct spark_read_options {
  trn_kv *items;
  size_t count;
  bool infer_schema, header;
} spark_read_options;

typedef struct spark_file_read {
  const char *format;
  const char **paths;
  size_t path_count;
  spark_read_options options;
  const char *schema_text;
  const trn_type *schema; /* given, or NULL */
  spark_partitions partitions; /* columns behind those of the files */
  const spark_source_spec *table; /* or NULL */
  const Spark__Connect__Read__DataSource *node; /* whose options these are, or NULL */
  spark_text_options text;
  bool is_text;
  spark_text_source lines; /* of text files */
  bool as_lines; /* rows are made of lines here, not by the engine's reader */
  bool in_memory; /* so are the lines */
  spark_file_filter filter;
  spark_file_list list; /* the files, when they are local */
  bool by_file; /* the files are named to the engine one by one: a directory has others too */
} spark_file_read;

trn_status spark__read_options_of(spark_translator *t, const Spark__Connect__Read__DataSource *node, const char *format,
                                  const char *path, spark_read_options *out, trn_error **error);
/* `schema`: NULL when the engine finds it; `schema_key`: what it is, for the session's cache. Gives *source. */
trn_status spark__open_files(spark_translator *t, const spark_file_read *read, const trn_type *schema, const char *schema_key,
                             trn_source **source, const trn_field **fields, uint32_t *count, trn_error **error);
trn_status spark__find_partitions(spark_translator *t, spark_file_read *read, trn_error **error);
trn_status spark__partition_values(spark_translator *t, const spark_file_read *read, spark_relation *out, trn_error **error);
trn_status spark__files_info(spark_translator *t, const spark_file_read *read, trn_scan_info *out, trn_error **error);
trn_scan_info spark__table_info(const spark_file_read *read, const trn_scan_info *files);
/* A directory's text as the column's value. */
trn_status spark__partition_value(spark_translator *t, const trn_expr *text, const trn_type *type, const trn_expr **out,
                                  trn_error **error);
/* By the engine's readers, when the partitions are known. */
trn_status spark__read_opened_files(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier,
                                    spark_relation *out, trn_error **error);

/* ---- partitions.c ---- */
/* What of the local path is behind the base; NULL: it is not below. Borrows from `path`. */
const char *spark__path_below(const char *base, const char *path);
/* As spark__partitions of the base, but only what the files' own paths have: nothing is looked at. */
trn_status spark__partitions_of_files(spark_translator *t, const char *base, const trn_vec *files, spark_partitions *out,
                                      trn_error **error);

/* ---- source_group.c ---- */
/* Leaves out what is no Parquet file. */
trn_status spark__without_corrupt(spark_translator *t, spark_file_read *read, trn_error **error);
/* The first file's schema is that of all, unless they are to be merged. FAILED_READ_FILE, CANNOT_MERGE_SCHEMAS. */
trn_status spark__parquet_schema(spark_translator *t, spark_file_read *read, trn_error **error);
/* Files that are named one by one, a directory's together, with its values as columns; or no files at all. */
trn_status spark__read_groups(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                              trn_error **error);

/* ---- source_lines.c ---- */
trn_status spark__choose_reader(spark_translator *t, spark_file_read *read, const char *first, trn_error **error);
trn_status spark__infer_lines(spark_translator *t, const spark_file_read *read, const trn_type **out, trn_error **error);
trn_status spark__read_text(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                            trn_error **error);
trn_status spark__read_lines(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                             trn_error **error);
#endif
