/* Writing files: the plan of df.write, and the directories that partitioned files are in. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_WRITE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_WRITE_H
#include "frontend/spark/translate/translate.h"

/* Spark's name for "no value" in a directory name=value. */
#define SPARK_NULL_PARTITION "__HIVE_DEFAULT_PARTITION__"

/* What a write operation says, its options read. Texts are borrowed. */
typedef struct spark_write_spec {
  const char *format, *shown_format; /* "parquet", "Parquet" */
  const char *directory;             /* where the engine writes */
  const char *target;                /* the path that the client named, absolute: what policies see */
  char *const *partition_by;         /* names as the client wrote them */
  size_t partition_count;
  const trn_kv *options; /* the engine's */
  size_t option_count;
  const char *date_format, *timestamp_format; /* of texts; or NULL */
  /* CSV: fields are quoted in the plan, the engine only puts them in lines. One character each. */
  const char *separator, *quote, *escape;
  const char *null_value, *empty_value;
  bool quote_all, trim_left, trim_right;
  const struct spark_insert *insert; /* into a table: its columns; NULL: as they come */
  bool partitions_last;              /* of a new table: partition columns are moved to the end */
  bool keeps_partitions;             /* files have the partition columns too */
  const trn_scan_info *table;        /* what policies see, of a table */
} spark_write_spec;

/* The plan that writes the relation's rows; names of partition columns as the data has them go to `*partitions`, an
 * array of spec->partition_count texts of the plan's arena. Takes the translator's arena, also on failure. */
trn_status spark__translate_write(spark_translator *t, const Spark__Connect__Relation *relation,
                                  const spark_write_spec *spec, trn_plan **out, const char *const **partitions,
                                  trn_error **error);

/* Levels of directories name=value below some paths. */
typedef struct spark_partitions {
  const char **names;
  const char **keys; /* the names as directories have them, with %XX */
  const trn_type **types; /* as Spark infers them from the values */
  uint32_t count;
  const char *first_file; /* the name of a data file that was seen, or NULL */
} spark_partitions;
/* Local directories only; others have none. CONFLICTING_PARTITION_COLUMN_NAMES. */
trn_status spark__partitions(spark_translator *t, const char *const *paths, size_t path_count, bool infer,
                             spark_partitions *out, trn_error **error);
/* What the directory key=value on the path says; NULL: there is none, or no memory. */
const char *spark__partition_text(trn_arena *arena, const char *path, const char *key);
#endif
