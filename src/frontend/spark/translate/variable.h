/* Session variables: kept by the catalog of a session, read where a name is no column. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_VARIABLE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_VARIABLE_H
#include "frontend/spark/translate/scope.h"

/* All of a session's; thread safe. */
typedef struct spark_variables spark_variables;
spark_variables *spark__variables_create(void); /* NULL: no memory */
void spark__variables_destroy(spark_variables *variables);
trn_status spark__variables_copy(spark_variables *from, spark_variables *to, trn_error **error);
spark_variables *spark__catalog_variables(spark_catalog *catalog); /* borrowed */

/* The names of variables are without qualifier, as written; case does not count. `value` is a LITERAL and is copied;
 * `default_text`: SQL, or NULL. ALREADY_EXISTS: it is there and not to be replaced. RESOURCE_EXHAUSTED over
 * TRN_VARIABLES_MAX. */
trn_status spark__variable_declare(spark_variables *variables, const char *name, const trn_expr *value,
                                   const char *default_text, bool replace, trn_error **error);
/* Of one that is there; gone meanwhile: nothing happens. */
trn_status spark__variable_set(spark_variables *variables, const char *name, const trn_expr *value, trn_error **error);
bool spark__variable_drop(spark_variables *variables, const char *name);
/* A copy in `arena`; *value NULL: there is none. `default_text` may be NULL. */
trn_status spark__variable_get(spark_variables *variables, trn_arena *arena, const char *name, const trn_expr **value,
                               const char **default_text, trn_error **error);

/* The variables of a script's block, or of a row of FOR: seen from the blocks inside. */
typedef struct spark_locals {
  const struct spark_locals *outer;
  const char *label; /* of the block, or the FOR's variable; one that nobody can write where there is none */
  spark_variables *variables;
} spark_locals;
/* The variable that the name (with a label, or without) starts with; *used: how many parts. NULL: none. Borrowed. */
const spark_locals *spark__local_find(const spark_locals *locals, char *const *parts, size_t count, size_t *used);

/* How many parts of a name say where variables are: 0, 1 (session.x), 2 (system.session.x); SIZE_MAX: another place. */
size_t spark__variable_qualifiers(char *const *parts, size_t count);
/* What the name means as a variable, with fields inside of it. */
trn_status spark__resolve_variable(spark_translator *t, char *const *parts, size_t count, trn_position position,
                                   spark_value *out, bool *found, trn_error **error);
/* What IDENTIFIER(...) may be made of: the texts among the parameters of `sql` (NULL: none) and among the variables. The
 * options borrow `names`. */
struct spark_sql_options;
typedef struct spark_text_names {
  trn_arena *arena;
  spark_variables *variables; /* NULL: none */
  const spark_locals *locals;
} spark_text_names;
trn_status spark__text_names(spark_text_names *names, const Spark__Connect__SQL *sql, struct spark_sql_options *options,
                             trn_error **error);
/* A literal as a message, for clients; no memory or a type that messages lack. */
trn_status spark__literal_to_proto(spark_translator *t, const trn_expr *literal,
                                   Spark__Connect__Expression__Literal **out, trn_error **error);
#endif
