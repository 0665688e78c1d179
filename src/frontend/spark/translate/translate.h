/* Translation: an unresolved Spark relation tree (protobuf) becomes a resolved trn_plan. Names are resolved here, against
 * scopes; coercion, ANSI and generated names are Spark's.
 *
 *   relation.c, scope.c, expression.c, aggregate.c, ...   relations, scopes, attributes, the expression walk
 *   call.c + functions_*.c    the table of Spark functions: coercion, generated names, what runs them
 *   cast.c literal.c type.c   casts, literals, types (protobuf, JSON, DDL names)
 */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_H
#define TRN_FRONTEND_SPARK_TRANSLATE_H
#include "plan/plan.h"
#include "spark_connect.pb-c.h"
#include <trunnion/backend.h>

/* What a client calls a view; kept by the Spark session, resolved by the translator. The relation is the view's
 * definition, unresolved or resolved at creation as Spark does (analysed eagerly, re-resolved on use). */
typedef struct spark_catalog spark_catalog;

/* A translation of one plan. Everything lives in `arena`, which ends up owned by the plan. */
typedef struct spark_translator {
  trn_arena *arena;
  trn_session *session;
  spark_catalog *catalog;
  uint32_t next_column;
  const char *sql;  /* the SQL text that positions refer to; NULL: a DataFrame plan */
  size_t sql_size;
  /* settings that analysis depends on, read once */
  bool ansi;           /* spark.sql.ansi.enabled, default true */
  bool case_sensitive; /* spark.sql.caseSensitive */
  const char *timezone; /* spark.sql.session.timeZone */
  int64_t now_us;       /* one current_timestamp per query */
  void *state;          /* of relation.c: CTEs, WithRelations references, plan ids, lateral and outer scopes */
  unsigned depth;
  /* Whether nobody wants the plan any more: asked while a query runs that the plan depends on. NULL: never */
  unsigned outer_views;  /* of other dialects, that the plan is inside of */
  const char *view_name; /* the view that is being defined, `a`.`b`.`c`: it may not be read; NULL: none */
  bool (*is_cancelled)(void *user);
  void *cancel_user;
  trn_cancel *cancel; /* what is requested then; borrowed; NULL: nothing */
  /* What df.observe asks for is computed, when the plan is to run, and listed here, in the plan's memory. */
  bool observes;
  struct spark_observed *observed;
  size_t observed_count;
  const struct spark_locals *locals;   /* of the script that the text stands in (variable.h); borrowed; NULL: none */
  const struct trn_registry *registry; /* of translators and decoders for extensions; NULL: none */
  unsigned extension_depth;
} spark_translator;

/* An expression with what Spark's analyzer knows about it besides the resolved node. */
typedef struct spark_value {
  const trn_expr *expr;
  const char *name;     /* the column name that Spark generates (or the alias); NUL-terminated, arena */
  const char *metadata; /* of an alias or of the attribute; JSON or NULL */
  bool is_alias;        /* name was given explicitly */
  bool is_attribute;    /* a plain column reference */
  bool is_foldable;     /* no columns inside, deterministic */
  bool is_generator;    /* explode and kin: expr is the CALL; only legal where relation.c expands it */
  bool is_window_function; /* rank and kin: only legal under OVER */
  bool has_aggregate;   /* an AGGREGATE expr is inside, outside of any window */
  const struct spark_qualifier *qualifier; /* of an attribute: the table's alias or name; relation half only */
  const char *const *aliases; /* several names, of a generator: explode(m) AS (k, v) */
  size_t alias_count;
  struct spark_generated *generated; /* of a generator in a select list: what it gives, which others may name */
  bool is_literal;      /* a literal as written, not what a cast of one was folded to: decimals take its digits */
  const char *variable_name; /* of a session variable: its name in a select list */
  const char *base_name; /* of an alias: the name without it */
  const char *lambda_name; /* of a lambda's parameter, or of a field inside of one: what a struct names it by */
  uint32_t lambda_count; /* of a lambda: its parameters; more than one are the fields "0", "1", .. of one struct, but
                            for accumulators and comparators */
} spark_value;

/* One df.observe's metrics. */
typedef struct spark_observed {
  Spark__Connect__ExecutePlanResponse__ObservedMetrics message;
  struct spark_observed *next;
} spark_observed;

/* Runs the plan and waits: an IPC stream. *fits false: it is larger than bytes_max, and `out` is not whole. thread:
 * worker */
trn_status spark__collect_ipc(trn_session *session, trn_plan *plan, trn_cancel *cancel, size_t bytes_max, trn_strbuf *out,
                              bool *fits, trn_error **error);

/* ---- call.c: functions by name ---- */
typedef struct spark_call {
  const char *name; /* as written: "sum", "+", "SUBSTRING" */
  const spark_value *args;
  size_t arg_count;
  bool is_star;     /* count(*): one unresolved star was the only argument; args empty */
  bool is_distinct;
  bool is_internal;
  bool is_try;      /* inside try_* composition; normally false */
  const spark_value *filter; /* FILTER (WHERE ...), or NULL */
  bool ignore_nulls;
  const spark_value *order;  /* WITHIN GROUP keys */
  const trn_sort_flags *order_flags;
  size_t order_count;
  trn_position position;
} spark_call;
/* Resolves, coerces, names. UNRESOLVED_ROUTINE, WRONG_NUM_ARGS.WITHOUT_SUGGESTION, DATATYPE_MISMATCH.* as Spark has them. */
trn_status spark__call(spark_translator *t, const spark_call *call, spark_value *out, trn_error **error);
bool spark__function_exists(const char *name);
bool spark__function_is_aggregate(const char *name);
const char *spark__function_name(size_t index); /* Spark's builtin functions in order, served or not; NULL: the end */
bool spark__function_is_served(const char *name); /* there is a row for it */

/* ---- cast.c ---- */
typedef enum spark_cast_mode { SPARK_CAST_ANSI = 0, SPARK_CAST_TRY, SPARK_CAST_LEGACY, SPARK_CAST_IMPLICIT /* coercion */ } spark_cast_mode;
/* expr itself when the type is already right. DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION and kin when not allowed.
 * STRICT nullability: result is nullable when the cast can give null. */
trn_status spark__cast(spark_translator *t, const trn_expr *expr, const trn_type *target, spark_cast_mode mode,
                       trn_position position, const trn_expr **out, trn_error **error);
/* An explicit cast with its generated name "CAST(a AS INT)" / "TRY_CAST(...)"; mode from eval mode and settings. */
trn_status spark__cast_value(spark_translator *t, const spark_value *value, const trn_type *target, bool is_try,
                             trn_position position, spark_value *out, trn_error **error);
/* May a value of `from` be stored in / cast to `to` at all under the mode. */
bool spark__can_cast(const trn_type *from, const trn_type *to, spark_cast_mode mode);

/* ---- coerce.c ---- */
/* The type that Spark widens these to in UNION, CASE, COALESCE, IN, arrays (ANSI or not by t->ansi); NULL in *out: none. */
trn_status spark__common_type(spark_translator *t, const trn_type *const *types, size_t count, const trn_type **out);

/* ---- literal.c ---- */
trn_status spark__literal(spark_translator *t, const Spark__Connect__Expression__Literal *literal, trn_position position,
                          spark_value *out, trn_error **error);
/* DATE '..', TIMESTAMP '..' and kin (TrnTypedString), INTERVAL forms (TrnInterval, see sql/sql.h). */
trn_status spark__typed_string(spark_translator *t, const Spark__Connect__TrnTypedString *literal, trn_position position,
                               spark_value *out, trn_error **error);
trn_status spark__interval(spark_translator *t, const Spark__Connect__TrnInterval *interval, const spark_value *values,
                           size_t value_count, trn_position position, spark_value *out, trn_error **error);

/* ---- type.c ---- */
trn_status spark__type_from_proto(trn_arena *arena, const Spark__Connect__DataType *proto, const trn_type **out,
                                  trn_error **error);
Spark__Connect__DataType *spark__type_to_proto(trn_arena *arena, const trn_type *type); /* NULL: no memory */
/* A struct of the fields, as schema responses carry it. */
Spark__Connect__DataType *spark__schema_to_proto(trn_arena *arena, const trn_field *fields, size_t count);
/* Spark's JSON schema text ({"type":"struct","fields":[...]}) or a DDL text, by its first character. */
/* The type with everything inside of it nullable (keys of maps cannot be); NULL: no memory. */
const trn_type *spark__all_nullable(spark_translator *t, const trn_type *type, unsigned depth);
trn_status spark__schema_from_text(trn_arena *arena, const char *text, size_t size, const trn_type **out, trn_error **error);
void spark__type_sql(trn_strbuf *out, const trn_type *type);    /* "DECIMAL(10,2)", "ARRAY<STRING>": in messages, names */
void spark__type_simple(trn_strbuf *out, const trn_type *type); /* "decimal(10,2)", "array<string>": simpleString */

/* ---- relation.c: the way in ---- */
/* Translates to a plan whose names are at the root, with WHAT DataFusion cannot do still as SUBQUERY expressions (the
 * backend decorrelates). The translator's arena is taken (also on failure). Runs on a worker with a big stack. */
trn_status spark__translate_relation(spark_translator *t, const Spark__Connect__Relation *relation, trn_plan **out,
                                     trn_error **error);
/* What the session's settings say of the grammar. */
struct spark_sql_options;
void spark__translator_sql_options(spark_translator *t, struct spark_sql_options *out);
/* What :name and ? mean in what is translated; borrowed. */
void spark__translator_parameters(spark_translator *t, const Spark__Connect__SQL *sql);
/* extension.c: the plan whose rows a command of somebody's own answers with; NULL: it has none. Takes the arena as above. */
trn_status spark__translate_command(spark_translator *t, const Google__Protobuf__Any *message, trn_plan **out,
                                    trn_error **error);
/* Prepares `t`: arena, settings from the session. */
trn_status spark__translator_init(spark_translator *t, trn_session *session, spark_catalog *catalog, trn_error **error);
/* The views that the translation used, until its plan is freed; NULL: no more. */
const char *spark__used_view(const spark_translator *t, size_t index);
/* The expression walk: relation.c's scope is in t->state. expression.c owns it. */
trn_status spark__expression(spark_translator *t, const Spark__Connect__Expression *expression, spark_value *out,
                             trn_error **error);

/* ---- catalog.c: temporary views of a session (thread safe) ---- */
spark_catalog *spark__catalog_create(void);
void spark__catalog_destroy(spark_catalog *catalog);
/* Copies the relation (its serialized form). TEMP_TABLE_OR_VIEW_ALREADY_EXISTS unless replace. */
trn_status spark__catalog_set_view(spark_catalog *catalog, const char *name, const Spark__Connect__Relation *relation,
                                   bool replace, trn_error **error);
/* Unpacks into `arena`; NULL in *out when there is none. Case as the setting says. */
trn_status spark__catalog_view(spark_catalog *catalog, trn_arena *arena, const char *name, bool case_sensitive,
                               Spark__Connect__Relation **out, trn_error **error);
/* What was inferred of files, by a key that changes with them; a copy in `arena`, or NULL. */
const char *spark__catalog_inferred(spark_catalog *catalog, trn_arena *arena, const char *key);
void spark__catalog_keep_inferred(spark_catalog *catalog, const char *key, const char *schema);
bool spark__catalog_drop_view(spark_catalog *catalog, const char *name, bool case_sensitive);
/* A source opened for a view's or a query's Read, kept so that the same files are not inferred again for each plan:
 * keyed by format, paths, options, schema; refreshed when a file's size or mtime changed. */

/* An allocator for protobuf-c that takes from an arena and never frees. */
struct ProtobufCAllocator;
ProtobufCAllocator spark__allocator(trn_arena *arena);

#endif
