/* SQL functions: the text that made them is kept, and put in place of each call. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_ROUTINE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_ROUTINE_H
#include "frontend/spark/translate/scope.h"

/* Names -> the text of CREATE FUNCTION behind a letter (SPARK_ROUTINE_ANSI); thread safe. */
typedef struct spark_routines spark_routines;
spark_routines *spark__routines_create(void); /* NULL: no memory */
void spark__routines_destroy(spark_routines *routines);
trn_status spark__routines_copy(spark_routines *from, spark_routines *to, trn_error **error);
/* ALREADY_EXISTS without an error when it is there and not to be replaced; RESOURCE_EXHAUSTED over TRN_ROUTINES_MAX. */
trn_status spark__routine_add(spark_routines *routines, const char *key, const char *text, bool replace,
                              trn_error **error);
bool spark__routine_drop(spark_routines *routines, const char *key);
bool spark__routine_has(spark_routines *routines, const char *key);

/* Those of the session, TEMPORARY or with a name in a catalog. Borrowed. */
spark_routines *spark__catalog_routines(spark_catalog *catalog, bool temporary);

/* What a name means. `key` is for the map; `shown`: a.b.c; `quoted`: `a`.`b`.`c`. */
typedef struct spark_routine_name {
  bool temporary;
  bool ansi; /* of one that was found */
  const char *key, *shown, *quoted, *last;
} spark_routine_name;
trn_status spark__routine_name(spark_translator *t, const char *path, bool temporary, spark_routine_name *out,
                               trn_error **error);

/* The call of a function with evaluated arguments; *found false: there is none of the name. */
trn_status spark__routine_call(spark_translator *t, const char *path, const spark_value *args, size_t count,
                               trn_position position, spark_value *out, bool *found, trn_error **error);
trn_status spark__routine_table(spark_translator *t, const char *path, const spark_value *args, size_t count,
                                trn_position position, spark_relation *out, bool *found, trn_error **error);
/* The name "library.word" behind CREATE TEMPORARY FUNCTION name AS 'library.word'; NULL in *out: it is none of those. */
trn_status spark__routine_alias(spark_translator *t, const char *path, const char **out, trn_error **error);
/* library.c: the rows of a plugin's table function; the arguments are constants. */
trn_status spark__library_table(spark_translator *t, const char *name, const spark_value *args, size_t count,
                                spark_relation *out, trn_error **error);
bool spark__routine_exists(spark_translator *t, const char *path, bool is_table);
/* INVALID_TEMP_OBJ_REFERENCE when the function that is being made outlives what it names. */
trn_status spark__routine_refuse_temporary(spark_translator *t, const char *kind, const char *name,
                                           trn_error **error);
#define SPARK_ROUTINE_ANSI 'A' /* before a text that is kept: arithmetic fails; else ' ' */
/* Whether the definition makes sense. */
trn_status spark__routine_check(spark_translator *t, const Spark__Connect__TrnCreateFunction *function,
                                const spark_routine_name *name, trn_error **error);
#endif
