/* Files of a write: where they are made, and how they come to where they belong. The engine writes into a staging
 * directory below the target, which readers skip; only when everything is there do files get their names. */
#ifndef TRN_FRONTEND_TRN_DIRECTORY_H
#define TRN_FRONTEND_TRN_DIRECTORY_H
#include "core/core.h"
#include <trunnion/catalog.h>

typedef enum trn_directory_mode {
  TRN_DIRECTORY_APPEND = 0,
  TRN_DIRECTORY_OVERWRITE,   /* all that is there goes */
  TRN_DIRECTORY_OVERWRITE_PARTITIONS /* only partitions that are written go */
} trn_directory_mode;

typedef struct trn_directory_write {
  char *target;  /* absolute, without a '/' at the end; NULL: rows are made and dropped */
  char *staging; /* the engine's directory, of this write alone */
  char *parent;  /* of the staging directory, removed when empty; or NULL */
  char *made;    /* the outermost directory that did not exist before; or NULL */
  char *suffix;  /* of file names: "-<uuid>-c000.snappy.parquet" */
  char **partitions; /* names of the directory levels */
  size_t partition_count;
  trn_directory_mode mode;
  bool replaces_file; /* the target is a file that goes */
  bool has_numbered_levels; /* the engine calls directories "partition 0", ...: files have columns of the real names */
} trn_directory_write;

/* The names of a write to `target`; nothing is made yet. `ending`: ".snappy.parquet". Gives *out. */
trn_status trn__directory_write_create(const char *target, const char *ending, size_t partition_count, trn_directory_mode mode,
                               trn_directory_write **out, trn_error **error);
trn_status trn__directory_write_set_partitions(trn_directory_write *write, const char *const *names, trn_error **error);
/* Makes the directories. */
trn_status trn__directory_write_prepare(trn_directory_write *write, trn_error **error);
/* Blocks: renames. On failure everything is as it was before. Frees `write` also then. `placed`: NULL, or gets the
 * directories of partitions that got files ("a=1/b=2") as keys. */
trn_status trn__directory_write_commit(trn_directory_write *write, trn_map *placed, trn_error **error);
/* Blocks: removes what there is of the write, and frees it. NULL is accepted. */
void trn__directory_write_abort(trn_directory_write *write);
/* As a write whose commit and abort are these. Takes `write`, also on failure. */
trn_status trn__directory_write_wrap(trn_directory_write *write, trn_table_write **out, trn_error **error);
#endif
