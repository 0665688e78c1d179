/* Tables and views of the catalogs, by the names that clients write. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_TABLE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_TABLE_H
#include <trunnion/catalog.h>

#include "frontend/spark/translate/translate.h"

/* Spark's name for the default catalog, whatever its own name is. */
#define SPARK_CATALOG "spark_catalog"

/* What a name means. Texts are in the arena, which also holds the catalog. */
typedef struct spark_table_name {
  trn_catalog *catalog;
  const char *shown; /* the catalog's name as Spark shows it */
  const char *database, *name;
} spark_table_name;

/* Names without a catalog or database: NULL: the session's. */
typedef struct spark_namespace {
  const char *catalog, *database;
} spark_namespace;

/* `parts`: 1 to 3; letters are folded unless `case_sensitive`. REQUIRES_SINGLE_PART_NAMESPACE. */
trn_status spark__table_name(trn_arena *arena, trn_session *session, bool case_sensitive, const spark_namespace *inside,
                             char *const *parts, size_t count, spark_table_name *out, trn_error **error);
/* A database's name: [catalog.]database, as parts; none: the session's. `out->name` is "". */
trn_status spark__database_name(trn_arena *arena, trn_session *session, bool case_sensitive, char *const *parts,
                                size_t count, spark_table_name *out, trn_error **error);
/* The catalog as Spark calls it: a reference of the arena. CATALOG_NOT_FOUND. */
trn_status spark__catalog_named(trn_arena *arena, trn_session *session, const char *name, trn_catalog **out,
                                const char **shown, trn_error **error);
/* `a`.`b`.`c`; with dots alone when not quoted. NULL: out of memory. */
const char *spark__table_text(trn_arena *arena, const spark_table_name *name, bool quoted);

/* Columns of a table as Spark has them: types, comments in the metadata. Of the arena. */
trn_status spark__table_fields(trn_arena *arena, const trn_table_info *info, const trn_field **out, uint32_t *count,
                               trn_error **error);
/* The other way: a struct's schema for a catalog (release it). comment and default texts: per field, NULL: none; or NULL
 * as arrays. */
trn_status spark__table_schema(const trn_field *fields, uint32_t count, const char *const *comments,
                               const char *const *defaults, struct ArrowSchema *out, trn_error **error);
/* A column's comment or default out of a table's schema, in the arena; NULL: none. */
const char *spark__column_text(trn_arena *arena, const struct ArrowSchema *column, const char *key);

/* The table or view of a catalog. *found false: there is none (then nothing else is set). */
struct spark_relation;
trn_status spark__relation_table(spark_translator *t, char *const *parts, size_t count, struct spark_relation *out,
                                 bool *found, trn_error **error);

#endif
