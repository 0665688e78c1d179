/* Files of a write: where they are made, and how they come to where they belong. The engine writes into a staging
 * directory below the target, which readers skip; only when everything is there do files get their names. */
#ifndef TRN_FRONTEND_SPARK_WRITE_H
#define TRN_FRONTEND_SPARK_WRITE_H
#include "core/core.h"
#include <trunnion/export.h>

typedef enum spark_write_mode {
  SPARK_WRITE_APPEND = 0,
  SPARK_WRITE_OVERWRITE,   /* all that is there goes */
  SPARK_WRITE_OVERWRITE_PARTITIONS /* only partitions that are written go */
} spark_write_mode;

typedef struct spark_write {
  char *target;  /* absolute, without a '/' at the end; NULL: rows are made and dropped */
  char *staging; /* the engine's directory, of this write alone */
  char *parent;  /* of the staging directory, removed when empty; or NULL */
  char *made;    /* the outermost directory that did not exist before; or NULL */
  char *suffix;  /* of file names: "-<uuid>-c000.snappy.parquet" */
  char **partitions; /* names of the directory levels */
  size_t partition_count;
  spark_write_mode mode;
  bool replaces_file; /* the target is a file that goes */
} spark_write;

/* The names of a write to `target`; nothing is made yet. `ending`: ".snappy.parquet". Gives *out. */
trn_status spark__write_create(const char *target, const char *ending, size_t partition_count, spark_write_mode mode,
                               spark_write **out, trn_error **error);
trn_status spark__write_set_partitions(spark_write *write, const char *const *names, trn_error **error);
/* Makes the directories. */
trn_status spark__write_prepare(spark_write *write, trn_error **error);
/* Blocks: renames. On failure everything is as it was before. Frees `write` also then. */
trn_status spark__write_commit(spark_write *write, trn_error **error);
/* Blocks: removes what there is of the write, and frees it. NULL is accepted. */
void spark__write_abort(spark_write *write);
#endif
