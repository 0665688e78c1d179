/* Translators of Spark's extensions: a Relation, Expression or Command of a Spark Connect client may hold a message of
 * somebody's own (google.protobuf.Any). The translator registered for its type makes plan nodes of it; it can translate
 * messages inside its own, sees the columns of what they become, and says what its own columns are called.
 *
 * "trunnion.EncodedQuery" is built in: a message EncodedQuery {string format = 1; bytes payload = 2; map<string, string>
 * options = 3;} in a relation is decoded by the decoder of its format (decoder.h). */
#ifndef TRUNNION_TRANSLATOR_H
#define TRUNNION_TRANSLATOR_H
#include <trunnion/build.h>
#include <trunnion/registry.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One translation, while a callback of a translator runs; what its functions give lives as long as the plan. Used on the
 *  callback's thread only. */
typedef struct trn_translation trn_translation;
/** The columns of a translated relation by name, in the order that clients see. */
typedef struct trn_scope trn_scope;

/** A relation and its names. Frozen layout. */
typedef struct trn_translated {
  const trn_rel *rel;     /**< may have more columns than are visible */
  const trn_scope *scope; /**< its columns are columns of `rel` */
} trn_translated;

/** A column of a scope. */
typedef struct trn_scope_column {
  size_t struct_size;
  const trn_expr *column;       /**< a COLUMN expression: id, type, nullability */
  const char *name;
  const char *const *qualifier; /**< what may stand before the name: alias, or catalog, database, table */
  size_t qualifier_count;
  const char *metadata; /**< JSON of the field, or NULL */
  bool is_hidden;       /**< by qualified name only (the other side of a USING join) */
} trn_scope_column;

/** A translated expression. */
typedef struct trn_translated_expr {
  size_t struct_size;
  const trn_expr *expr;
  const char *name; /**< as a column it is called so; NULL: by the type of the message */
} trn_translated_expr;

/** A type's translator; each of the three is optional: then such a message is refused by name. `value` (`size` bytes): the
 *  serialized message, borrowed. They may block and compute (worker threads). Threads: any, several at once. */
typedef struct trn_translator_ops {
  size_t struct_size;
  trn_status (*relation)(void *self, trn_translation *translation, const void *value, size_t size, trn_translated *out,
                         trn_error **error);
  /** An expression over the columns in force where it stands. */
  trn_status (*expression)(void *self, trn_translation *translation, const void *value, size_t size,
                           trn_translated_expr *out, trn_error **error);
  /** A command: does what it does; rows of `*out`, when it is set, are the answer. */
  trn_status (*command)(void *self, trn_translation *translation, const void *value, size_t size, trn_translated *out,
                        trn_error **error);
  void (*destroy)(void *self); /**< with the registry; optional */
} trn_translator_ops;

/** For messages of a type: "package.Message", or a URL of which that is the last part. Takes `self` on success. Copies.
 *  ALREADY_EXISTS. Since 0.1. */
TRN_API trn_status trn_registry_add_translator(trn_registry *registry, const char *type, const trn_translator_ops *ops,
                                               void *self, trn_error **error);
TRN_API const char *trn_registry_translator_at(const trn_registry *registry, size_t index); /**< NULL: no more */

/* ---- inside a callback ---- */

TRN_API trn_session *trn_translation_session(trn_translation *translation);
/** Makes nodes of the plan. */
TRN_API trn_edit *trn_translation_edit(trn_translation *translation);
/** The client's number of the relation that the message stands in: what `df["column"]` names it by. False: none. It is
 *  bound to the translator's output without further ado. */
TRN_API bool trn_translation_plan_id(const trn_translation *translation, int64_t *out);

/** Translates a serialized spark.connect.Relation. */
TRN_API trn_status trn_translation_relation(trn_translation *translation, const void *message, size_t size,
                                            trn_translated *out, trn_error **error);
/** Translates a serialized spark.connect.Expression over the columns of `scope`; NULL: over those in force where the
 *  message stands (expressions only). */
TRN_API trn_status trn_translation_expr(trn_translation *translation, const trn_scope *scope, const void *message,
                                        size_t size, trn_translated_expr *out, trn_error **error);
/** A plan as a relation, e.g. a decoder's; its names become the scope's. Borrows; the new plan keeps a reference. */
TRN_API trn_status trn_translation_plan(trn_translation *translation, trn_plan *plan, trn_translated *out,
                                        trn_error **error);

TRN_API size_t trn_scope_count(const trn_scope *scope);
/** False: beyond the end. */
TRN_API bool trn_scope_get(const trn_scope *scope, size_t index, trn_scope_column *out);
/** The scope in force where an expression's message stands; NULL: none. */
TRN_API const trn_scope *trn_translation_scope(trn_translation *translation);
/** A new scope. Copies. INVALID_ARGUMENT names a column that has no name or is no COLUMN. */
TRN_API trn_status trn_translation_new_scope(trn_translation *translation, const trn_scope_column *columns, size_t count,
                                             const trn_scope **out, trn_error **error);
/** Binds another of the client's numbers of relations to a scope. */
TRN_API trn_status trn_translation_bind_plan_id(trn_translation *translation, int64_t id, const trn_scope *scope,
                                                trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
