/* The relation half of the translator, inside: scopes, contexts, and what relation*.c, select.c, aggregate.c, join.c,
 * source.c and expression*.c share.
 *
 * A scope is a VIEW of a relation's columns: names, qualifiers and the order that a client sees. Renaming, reordering,
 * dropping and aliasing change scopes only; a relation is made when values change. spark__materialize gives a relation
 * whose columns are exactly the visible ones, for those that work by position (set operations, DISTINCT, the root). */
#ifndef TRN_FRONTEND_SPARK_SCOPE_H
#define TRN_FRONTEND_SPARK_SCOPE_H
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/values.h"

/* What may stand before a column's name: alias, or catalog, database, table. */
#define SPARK_QUALIFIER_PARTS_MAX 4
typedef struct spark_qualifier {
  uint32_t count;
  const char *parts[SPARK_QUALIFIER_PARTS_MAX];
} spark_qualifier;

typedef struct spark_column {
  const trn_expr *expr; /* a COLUMN: id, type, nullability */
  const char *name;
  const char *metadata;             /* JSON or NULL */
  const spark_qualifier *qualifier; /* NULL: none */
  bool hidden;                      /* a USING key of the other side: by qualified name, or by plan id */
  bool generated;                   /* the name was made by us, not by the client */
} spark_column;

typedef struct spark_growth spark_growth;
typedef struct spark_scope {
  const spark_column *columns;
  uint32_t count;
  uint32_t hidden_count;
  const struct spark_scope *below; /* names that a projection left out: filter and sort may still use them */
  uint64_t begin, end;             /* when its relation was translated: a relation's inputs lie inside */
  struct spark_scope_index *index; /* of larger ones, from the first look-up on; shared with those that it grew into */
  struct spark_growth *growth;     /* of a chain of withColumn (with_columns.c), or NULL */
} spark_scope;

/* A translated relation. */
typedef struct spark_relation {
  const trn_rel *rel;
  spark_scope *scope;
} spark_relation;

/* An alias of a select list that later items may use. */
typedef struct spark_lateral {
  const char *name;
  uint32_t hash; /* of the name */
  uint32_t item;
  const trn_expr *column; /* made when first used */
  const trn_expr *value;
} spark_lateral;

struct spark_aggregation;

/* Where an expression stands: what its names mean. */
typedef struct spark_context {
  struct spark_context *outer; /* of the query around a subquery */
  const spark_scope *scope;
  const struct spark_value *values; /* what scope's columns stand for: arguments of a SQL function; NULL: themselves */
  bool shadows; /* and hide functions without parentheses, CURRENT_DATE and kin */
  const spark_scope *inputs[2]; /* where plan ids are looked up; the scope's own relation, or a join's two */
  uint32_t input_count;
  const spark_scope *first; /* looked up before `scope`: a select list's output, for ORDER BY */
  const spark_scope *last;  /* looked up after `scope`, outside of aggregate functions: aliases, for HAVING */
  bool use_below;           /* names that projections left out */
  bool found_below;         /* and one was: spark__require_columns is due */
  spark_lateral *laterals;
  uint32_t lateral_count;
  bool lateral_used;                       /* some were: they need projections of their own */
  struct spark_aggregation *aggregation;   /* HAVING, ORDER BY, select list of an aggregation */
  const spark_scope *generated;            /* what the generators before gave: looked up last */
  unsigned in_aggregate;                   /* inside an aggregate function's arguments */
  const Spark__Connect__TrnSelect *select; /* whose named windows are in force */
} spark_context;

/* A definition that may be used several times: a CTE, a view. */
typedef struct spark_shared {
  const char *name;
  spark_relation relation;
  bool used;
  struct spark_shared *next;
} spark_shared;

/* References of WithRelations. */
typedef struct spark_references {
  const Spark__Connect__WithRelations *message;
  struct spark_references *outer;
  struct spark_shared *ctes; /* what was in force around it */
} spark_references;

/* A relation with a plan id. */
typedef struct spark_plan_id {
  int64_t id;
  const spark_scope *scope;
  uint64_t begin, end;
  unsigned depth;
  struct spark_plan_id *next;    /* earlier one in the same bucket */
  struct spark_plan_id *earlier; /* in order of translation */
} spark_plan_id;

#define SPARK_PLAN_BUCKETS 256u

/* Names of a lambda's parameters. */
typedef struct spark_lambda {
  struct spark_lambda *outer;
  const char *const *names;
  const trn_expr *const *variables; /* LAMBDA_VARIABLE */
  uint32_t count;
} spark_lambda;

/* t->state. */
/* A view inside another. */
typedef struct spark_view_frame {
  const char *name;
  const char *catalog, *database; /* of one that a catalog keeps; NULL: a temporary one */
  const struct spark_view_frame *outer;
} spark_view_frame;

/* A SQL function whose body is being translated, inside of others. */
typedef struct spark_body {
  const char *key, *shown;
  bool is_kept; /* it is being made, and outlives temporary functions and views */
  const struct spark_body *outer;
} spark_body;

typedef struct spark_state {
  const spark_body *body; /* NULL: none */
  spark_context *context;
  spark_shared *ctes;
  spark_shared *views; /* used so far in this plan */
  spark_references *references;
  spark_plan_id *plans[SPARK_PLAN_BUCKETS];
  spark_plan_id *last_plan;
  spark_lambda *lambda;
  uint64_t clock;
  uint32_t relations; /* translated so far */
  uint32_t steps;     /* nodes entered so far: an operand of BETWEEN is translated twice, nested ones 2^n times */
  unsigned view_depth;
  const struct spark_view_frame *view;   /* the innermost view that is being translated; NULL: none */
  const char *view_catalog, *view_database; /* where names in a view of a catalog are looked up; NULL: the session's */
  const trn_expr *time_window;           /* the column of the window() that is in force */
  bool reads_files;                      /* some relation so far was of files */
  bool has_generators;                   /* some call was one: where they may not stand is checked */
  bool foreign_positions;                /* positions refer to another text than t->sql: drop them */
  const Spark__Connect__SQL *parameters; /* what :name and ? mean */
  /* Functions that were called, for policies: a hash set by identity. NULL: none so far. */
  const struct spark_function **used;
  unsigned used_count;
  struct spark_library_row *library_rows; /* library.c: of the plugins' functions that are used */
} spark_state;
/* Gives the names of the functions that were called to the plan. */
trn_status spark__plan_functions(const spark_translator *t, trn_plan *plan);

static inline spark_state *spark__state(spark_translator *t) {
  return t->state;
}

/* ---- errors ---- */
trn_status spark__unimplemented(spark_translator *t, trn_position position, trn_error **error, const char *format, ...)
    TRN_PRINTF(4, 5);
trn_position spark__position(spark_translator *t, const Spark__Connect__Expression *expression);
trn_position spark__relation_position(spark_translator *t, const Spark__Connect__Relation *relation);
/* Counts one level of nesting; RESOURCE_EXHAUSTED beyond TRN_TRANSLATE_DEPTH_MAX. */
trn_status spark__enter(spark_translator *t, trn_error **error);
static inline void spark__leave(spark_translator *t) {
  t->depth--;
}

/* ---- names (scope.c) ---- */
bool spark__name_equal(const spark_translator *t, const char *a, const char *b);
uint32_t spark__name_hash(const char *name); /* the same for names that differ in case only */
const char *spark__quote(spark_translator *t, const char *name);                       /* `a`; NULL: no memory */
const char *spark__quote_parts(spark_translator *t, char *const *parts, size_t count); /* `a`.`b` */
const char *spark__quote_column(spark_translator *t, const spark_column *column);      /* with its qualifier */
const char *spark__quote_text(spark_translator *t, const char *text);                  /* a.b as `a`.`b` */
const char *spark__sql_text(spark_translator *t, const char *text);                    /* "a + b" in double quotes */

/* ---- scopes (scope.c) ---- */
spark_scope *spark__scope_create(spark_translator *t, const spark_column *columns, size_t count); /* borrows columns */
/* One more column behind those of `from`, which stays as it is. What a chain of them costs is linear. */
spark_scope *spark__scope_grow(spark_translator *t, const spark_scope *from, const spark_column *column);
/* Columns of `rel` with these names (fields), all with the qualifier. */
trn_status spark__scope_of(spark_translator *t, const trn_rel *rel, const trn_field *fields,
                           const spark_qualifier *qualifier, spark_relation *out, trn_error **error);
const spark_qualifier *spark__qualifier(spark_translator *t, const char *const *parts, size_t count);
const spark_column *spark__scope_column(spark_translator *t, const spark_scope *scope, uint32_t id); /* NULL: none */
bool spark__scope_has(spark_translator *t, const spark_scope *scope, uint32_t column_id);
uint32_t spark__scope_find(spark_translator *t, const spark_scope *scope, const char *name); /* UINT32_MAX: none */
uint32_t spark__scope_next(spark_translator *t, const spark_scope *scope, const char *name, uint32_t after);
size_t spark__visible_count(const spark_scope *scope);
/* A scope whose columns are those of `scope` without the hidden ones. */
trn_status spark__materialize(spark_translator *t, const spark_relation *relation, const trn_rel **out,
                              trn_error **error);
/* Makes columns that projections left out columns of the relation again. */
trn_status spark__require_columns(spark_translator *t, const trn_rel *rel, const trn_expr *const *exprs, size_t count,
                                  const trn_rel **out, trn_error **error);

/* ---- resolution (resolve.c) ---- */
/* What a name resolved to. */
typedef struct spark_resolved {
  const spark_column *column;
  size_t used; /* parts of the name; the rest are nested fields */
} spark_resolved;
/* *found false: no such column. AMBIGUOUS_REFERENCE. */
trn_status spark__scope_resolve(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                                trn_position position, spark_resolved *out, bool *found, trn_error **error);
/* Column and nested fields in the context; UNRESOLVED_COLUMN when missing. */
trn_status spark__resolve_attribute(spark_translator *t,
                                    const Spark__Connect__Expression__UnresolvedAttribute *attribute,
                                    trn_position position, spark_value *out, trn_error **error);
trn_status spark__unresolved_column(spark_translator *t, const spark_scope *scope, char *const *parts, size_t count,
                                    trn_position position, trn_error **error);
trn_status spark__nested_fields(spark_translator *t, const trn_expr *base, char *const *parts, size_t count,
                                trn_position position, const trn_expr **out, const char **name, trn_error **error);
void spark__column_value(const spark_column *column, const char *name, spark_value *out);
const char *spark__column_name(spark_translator *t, const spark_scope *scope, uint32_t id); /* for messages */

/* ---- plan ids (resolve.c) ---- */
trn_status spark__plan_id_add(spark_translator *t, int64_t id, const spark_scope *scope, uint64_t begin, uint64_t end,
                              trn_error **error);
void spark__plan_id_forget(spark_translator *t, const spark_plan_id *mark); /* those added since `mark` was the last */

/* The scope of the relation with the id, and the context's input that it lies in. */
trn_status spark__plan_scope(spark_translator *t, int64_t id, const spark_scope **found, const spark_scope **input,
                             bool *twice);

/* ---- expressions (expression*.c) ---- */
/* A list in which stars, regexes and multi-column things expand; gives an arena array. */
trn_status spark__expressions(spark_translator *t, Spark__Connect__Expression *const *expressions, size_t count,
                              spark_value **out, size_t *out_count, trn_error **error);
/* Appends what one item of a list stands for; *item: it, or what its text is parsed to. */
trn_status spark__list_item(spark_translator *t, const Spark__Connect__Expression *e, spark_value **values,
                            size_t *count, size_t *capacity, const Spark__Connect__Expression **item,
                            trn_error **error);
bool spark__is_star(const Spark__Connect__Expression *expression);
trn_status spark__expand_star(spark_translator *t, const Spark__Connect__Expression *star, spark_value **values,
                              size_t *count, size_t *capacity, trn_error **error);
trn_status spark__values_push(spark_translator *t, spark_value **values, size_t *count, size_t *capacity,
                              const spark_value *value, trn_error **error);
trn_status spark__extract_value(spark_translator *t, const spark_value *child, const spark_value *extraction,
                                trn_position position, spark_value *out, trn_error **error);
trn_status spark__update_fields(spark_translator *t, const Spark__Connect__Expression__UpdateFields *update,
                                trn_position position, spark_value *out, trn_error **error);
/* Arguments of a higher-order function: what the lambdas' parameters are follows from the other arguments. */
trn_status spark__lambda_arguments(spark_translator *t, const char *name, Spark__Connect__Expression *const *arguments,
                                   size_t count, trn_position position, spark_value **out, size_t *out_count,
                                   trn_error **error);
trn_status spark__lambda_variable(spark_translator *t,
                                  const Spark__Connect__Expression__UnresolvedNamedLambdaVariable *variable,
                                  trn_position position, spark_value *out, trn_error **error);
trn_status spark__window(spark_translator *t, const Spark__Connect__Expression__Window *window, trn_position position,
                         spark_value *out, trn_error **error);
/* zipWithIndex: the rows' numbers from 0. */
trn_status spark__sequence_id(spark_translator *t, spark_value *out, trn_error **error);
trn_status spark__window_reference(spark_translator *t, const Spark__Connect__TrnWindowReference *reference,
                                   trn_position position, spark_value *out, trn_error **error);
trn_status spark__subquery(spark_translator *t, Spark__Connect__TrnSubqueryKind kind,
                           const Spark__Connect__Relation *relation, Spark__Connect__Expression *const *values,
                           size_t value_count, trn_position position, spark_value *out, trn_error **error);
trn_status spark__refuse_subqueries(spark_translator *t, const trn_expr *expr, const spark_scope *scope,
                                    trn_error **error);
trn_status spark__call_by_name(spark_translator *t, const char *name, const spark_value *args, size_t count,
                               trn_position position, spark_value *out, trn_error **error);
trn_status spark__function_call(spark_translator *t, const char *name, Spark__Connect__Expression *const *arguments,
                                size_t count, bool is_distinct, bool is_internal,
                                const Spark__Connect__TrnFunctionModifiers *modifiers, trn_position position,
                                spark_value *out, trn_error **error);
/* Adds the column of the window() or session_window() that the keys or items call, if one does (time_window.c). */
trn_status spark__time_windows(spark_translator *t, spark_relation *relation, Spark__Connect__Expression *const *keys,
                               size_t key_count, Spark__Connect__Expression *const *items, size_t item_count,
                               trn_error **error);
/* Arguments by name in the function's order (functions_various.c). */
trn_status spark__positional(spark_translator *t, const char *function, Spark__Connect__Expression *const *arguments,
                             size_t count, trn_position position, Spark__Connect__Expression *const **out,
                             size_t *out_count, trn_error **error);
trn_sort_flags spark__sort_flags(const Spark__Connect__Expression__SortOrder *order);
trn_status spark__boolean(spark_translator *t, const spark_value *value, const char *condition, trn_position position,
                          const trn_expr **out, trn_error **error);
/* Children replaced: a copy of `expr` with other args. */
trn_status spark__expr_with_args(spark_translator *t, const trn_expr *expr, const trn_expr *const *args,
                                 const trn_expr **out, trn_error **error);
bool spark__expr_same(const trn_expr *a, const trn_expr *b); /* by structure; positions do not count */
/* Expressions in the order in which they came; thousands of them are found in the time of one. Zero: empty. */
typedef struct spark_expr_set {
  const trn_expr **items;
  uint64_t *hashes; /* equal for those that are the same */
  uint32_t *slots;  /* index + 1, 0 is free; 2 * capacity, a power of two */
  uint32_t count, capacity;
} spark_expr_set;
uint32_t spark__expr_set_find(const spark_expr_set *set, const trn_expr *expr);            /* UINT32_MAX: none is the same */
bool spark__expr_set_add(spark_translator *t, spark_expr_set *set, const trn_expr *expr); /* false: out of memory */
/* The first node, parents first, for which the test holds; not inside of subqueries' relations. */
typedef bool (*spark_expr_test)(void *user, const trn_expr *expr);
const trn_expr *spark__expr_find(const trn_expr *expr, spark_expr_test test, void *user);
bool spark__expr_contains(const trn_expr *expr, trn_expr_kind kind);
/* COLUMN `columns[i]` becomes values[i]. */
trn_status spark__substitute(spark_translator *t, const trn_expr *expr, const trn_expr *const *columns,
                             const trn_expr *const *values, size_t count, const trn_expr **out, trn_error **error);
bool spark__expr_uses(const trn_expr *expr, const trn_expr *const *columns, size_t count);
trn_expr *spark__column_expr(spark_translator *t, const trn_type *type, bool nullable); /* a new id */

/* ---- relations ---- */
trn_status spark__relation(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                           trn_error **error);
/* A context over `scope`, entered; spark__context_end leaves it. */
void spark__context_begin(spark_translator *t, spark_context *context, const spark_scope *scope);
void spark__context_end(spark_translator *t, spark_context *context);
/* The projection of values: windows and generators get relations of their own below it. */
trn_status spark__project(spark_translator *t, const spark_relation *input, const spark_value *values, size_t count,
                          const spark_context *context, spark_relation *out, trn_error **error);
/* What a projection of the values shows: columns[i].expr is values[i] itself when that is an attribute, or a new
 * column. */
/* exprs: instead of the values' own, or NULL. */
trn_status spark__output_scope(spark_translator *t, const spark_value *values, const trn_expr *const *exprs,
                               size_t count, spark_scope **out, trn_error **error);
/* The PROJECT that makes scope's columns from exprs[i]; the same relation when all are columns of it. */
trn_status spark__project_to(spark_translator *t, const trn_rel *input, const trn_expr *const *exprs,
                             const spark_scope *scope, const trn_rel **out, trn_error **error);
/* Items of lateral aliases move with what they stand for. */
trn_status spark__expand_generators(spark_translator *t, spark_relation *input, const spark_value **values,
                                    size_t *count, const spark_context *context, trn_error **error);
bool spark__holds_generator(spark_translator *t, const trn_expr *expr);
/* UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS: before aggregations hide what is inside of values. */
trn_status spark__refuse_nested_generators(spark_translator *t, const spark_value *values, size_t count,
                                           trn_error **error);
/* UNSUPPORTED_GENERATOR.OUTSIDE_SELECT; plan: a format that takes the value's name. */
trn_status spark__refuse_generators(spark_translator *t, const spark_value *value, const char *plan, trn_error **error);
/* The items behind the generator may name what it gives. */
trn_status spark__declare_generator(spark_translator *t, spark_context *context, spark_value *generator,
                                    trn_error **error);
/* SORT of the relation by keys that are resolved. */
trn_status spark__sort_by(spark_translator *t, spark_relation *relation, const trn_expr **keys,
                          const trn_sort_flags *flags, size_t count, bool is_global, trn_error **error);
/* Evaluates a select list in `context`, each alias visible to those behind it. */
trn_status spark__select_list(spark_translator *t, spark_context *context, Spark__Connect__Expression *const *list,
                              size_t count, spark_value **out, size_t *out_count, trn_error **error);
/* Lifts the WINDOW expressions of exprs into relations over *rel. */
trn_status spark__lift_windows(spark_translator *t, const trn_rel **rel, const trn_expr **exprs, size_t count,
                               trn_error **error);
trn_status spark__filter_by(spark_translator *t, spark_relation *relation, const Spark__Connect__Expression *condition,
                            trn_error **error);
trn_status spark__alias_relation(spark_translator *t, spark_relation *relation, const char *const *parts, size_t count,
                                 trn_error **error);
trn_status spark__rename_columns(spark_translator *t, spark_relation *relation, char *const *names, size_t count,
                                 trn_error **error);
/* One value per visible column. */
trn_status spark__scope_values(spark_translator *t, const spark_scope *scope, spark_value **out, size_t *count,
                               trn_error **error);
/* The same rows under new column ids. */
trn_status spark__renumber(spark_translator *t, spark_relation *relation, trn_error **error);
trn_status spark__one_row(spark_translator *t, spark_relation *out, trn_error **error);

trn_status spark__relation_select(spark_translator *t, const Spark__Connect__TrnSelect *select,
                                  const Spark__Connect__TrnOrderBy *order, spark_relation *out, trn_error **error);
trn_status spark__relation_project(spark_translator *t, const Spark__Connect__Project *project, spark_relation *out,
                                   trn_error **error);
trn_status spark__finish_select(spark_translator *t, const spark_relation *input, spark_value *values, size_t count,
                                const spark_context *context, const trn_expr *qualify, spark_scope *output,
                                spark_relation *out, trn_error **error);
trn_status spark__sort_relation(spark_translator *t, spark_relation *relation,
                                Spark__Connect__Expression__SortOrder *const *order, size_t count, bool all,
                                bool is_global, const Spark__Connect__TrnSelect *select, trn_error **error);
/* PROJECTs for the lateral aliases in use; exprs[item] becomes their column. */
trn_status spark__lateral_relations(spark_translator *t, const trn_rel **rel, const spark_context *context,
                                    const trn_expr **exprs, size_t count, trn_error **error);
trn_status spark__needs_over(spark_translator *t, const spark_value *value, trn_error **error);  /* rank() alone */
trn_status spark__refuse_maps(spark_translator *t, const spark_scope *scope, trn_error **error); /* in set operations */
trn_status spark__refuse_unordered(spark_translator *t, const spark_value *key, trn_sort_flags flags,
                                   trn_error **error);
trn_status spark__distinct(spark_translator *t, spark_relation *relation, trn_error **error);
trn_status spark__relation_join(spark_translator *t, const Spark__Connect__Join *join, bool natural,
                                spark_relation *out, trn_error **error);
trn_status spark__relation_aggregate(spark_translator *t, const Spark__Connect__Aggregate *aggregate,
                                     spark_relation *out, trn_error **error);
trn_status spark__relation_set(spark_translator *t, const Spark__Connect__SetOperation *set, spark_relation *out,
                               trn_error **error);
trn_status spark__relation_read(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                trn_error **error);
/* A table that spark.catalog.createTable has made, used as a relation. */
trn_status spark__relation_created(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                   trn_error **error);
/* Gives the plan's arena references to the source and (unless NULL) to an arena. */
trn_status spark__hold_source(spark_translator *t, trn_backend *backend, trn_source *source, trn_arena *arena,
                              trn_error **error);
/* A table that is no files: its catalog opens it. `fields` are its columns. */
trn_status spark__read_opened(spark_translator *t, trn_catalog *catalog, trn_table *table, const trn_field *fields,
                              uint32_t count, const spark_qualifier *qualifier, spark_relation *out, trn_error **error);
/* Files of a table. */
typedef struct spark_source_spec {
  const char *format;
  const char **paths;
  size_t path_count;
  bool listed; /* these files are all, and have all columns: no directories are looked at */
  const spark_qualifier *qualifier;
  const trn_type *schema;
  const char *label;
  trn_scan_info info; /* of a table */
} spark_source_spec;
/* `options`: only these are read of it. */
trn_status spark__read_source(spark_translator *t, const Spark__Connect__Read__DataSource *options,
                              const spark_source_spec *spec, spark_relation *out, trn_error **error);
/* A view stands alone: nothing of the query around it is visible inside. */
trn_status spark__translate_view(spark_translator *t, spark_view_frame frame, const Spark__Connect__Relation *relation,
                                 spark_relation *out, trn_error **error);
trn_status spark__relation_local(spark_translator *t, const Spark__Connect__LocalRelation *local, spark_relation *out,
                                 trn_error **error);
trn_status spark__relation_values(spark_translator *t, const Spark__Connect__TrnValues *values, spark_relation *out,
                                  trn_error **error);
trn_status spark__with_columns(spark_translator *t, const Spark__Connect__WithColumns *node, spark_relation *out,
                               trn_error **error);
trn_status spark__relation_columns(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                   trn_error **error); /* to_df, with_columns, renames, drop, deduplicate, to_schema */
trn_status spark__relation_with(spark_translator *t, const Spark__Connect__TrnWith *with, spark_relation *out,
                                trn_error **error);
/* A CTE or view: the first use takes the relation, others the same rows under other ids. */
trn_status spark__use_shared(spark_translator *t, spark_shared *shared, spark_relation *out, trn_error **error);
trn_status spark__relation_sql(spark_translator *t, const Spark__Connect__SQL *sql, spark_relation *out,
                               trn_error **error);
trn_status spark__relation_with_relations(spark_translator *t, const Spark__Connect__WithRelations *with,
                                          spark_relation *out, trn_error **error);
trn_status
spark__relation_more(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                     trn_error **error); /* relation_more.c: na functions, pivot, unpivot, lateral view, ... */
/* JOIN of two relations; the scope shows both (semi, anti: left's). */
trn_status spark__join_relations(spark_translator *t, trn_join_type type, const trn_expr *condition,
                                 const spark_relation *left, const spark_relation *right, spark_relation *out,
                                 trn_error **error);
trn_status spark__relation_lateral_join(spark_translator *t, const Spark__Connect__LateralJoin *join,
                                        spark_relation *out, trn_error **error);
trn_status spark__relation_table_function(spark_translator *t,
                                          const Spark__Connect__UnresolvedTableValuedFunction *function,
                                          spark_relation *out, trn_error **error);
/* relation_stat.c: describe, summary, cov, corr. */
trn_status spark__relation_stat(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                trn_error **error);
/* The input once for each number 0..count-1, and CASE number WHEN 0 THEN items[0] WHEN 1 THEN items[stride] ... */
trn_status spark__numbered(spark_translator *t, const trn_rel **rel, size_t count, const trn_expr **number,
                           trn_error **error);
trn_status spark__by_number(spark_translator *t, const trn_expr *number, const spark_value *items, size_t stride,
                            size_t count, spark_value *out, trn_error **error);
trn_status spark__relation_lateral_view(spark_translator *t, const Spark__Connect__TrnLateralViewOf *view,
                                        spark_relation *out, trn_error **error);
trn_status spark__relation_sql_pivot(spark_translator *t, const Spark__Connect__TrnPivot *pivot, spark_relation *out,
                                     trn_error **error);
const Spark__Connect__Relation *spark__reference_by_plan_id(spark_translator *t, int64_t id);

/* ---- queries that run while a plan is made (rows.c) ---- */
typedef struct spark_rows {
  size_t width, row_count;
  const trn_expr **cells; /* LITERALs of the columns' types, row by row */
} spark_rows;
/* source.c: a SCAN of an open source. `order`: its columns, NULL: as they are. */
trn_status spark__scan_source(spark_translator *t, trn_source *source, const trn_field *fields, const uint32_t *order,
                              uint32_t count, const char *label, const trn_scan_info *info,
                              const spark_qualifier *qualifier, spark_relation *out, trn_error **error);
/* Runs the visible columns of the relation and waits; rows beyond row_max are left out. thread: worker */
trn_status spark__run_now(spark_translator *t, const spark_relation *relation, size_t row_max, spark_rows *out,
                          trn_error **error);
/* The LITERAL that an expression without columns is. */
trn_status spark__evaluate(spark_translator *t, const spark_value *value, const trn_expr **out, trn_error **error);
/* VALUES of the rows. */
trn_status spark__rows_relation(spark_translator *t, const spark_rows *rows, const trn_field *fields,
                                spark_relation *out, trn_error **error);
/* extension.c: messages of somebody's own, by their translator */
trn_status spark__relation_extension(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                     trn_error **error);
trn_status spark__expression_extension(spark_translator *t, const Google__Protobuf__Any *message,
                                       trn_position position, spark_value *out, trn_error **error);
/* relation.c: the plan of a translated relation. Takes the translator's arena, also on failure. */
trn_status spark__relation_plan(spark_translator *t, const spark_relation *relation, trn_plan **out,
                                trn_error **error);
/* join_nearest.c */
trn_status spark__relation_as_of(spark_translator *t, const Spark__Connect__AsOfJoin *join, spark_relation *out,
                                 trn_error **error);
trn_status spark__relation_nearest_by(spark_translator *t, const Spark__Connect__NearestByJoin *join,
                                      spark_relation *out, trn_error **error);
/* observe.c */
trn_status spark__relation_observe(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                   trn_error **error);
/* recursive.c: whether the CTE names itself; its rows, when it does. `enough`: rows that are wanted at most, or < 0. */
bool spark__is_recursive(spark_translator *t, const Spark__Connect__TrnCte *cte);
trn_status spark__recursive_cte(spark_translator *t, const Spark__Connect__TrnCte *cte, int64_t enough,
                                spark_shared *shared, trn_error **error);
/* relation_run.c: tail, transpose, crosstab, freq_items, approx_quantile, sample_by. */
trn_status spark__relation_run(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                               trn_error **error);
trn_status spark__relation_crosstab(spark_translator *t, const Spark__Connect__StatCrosstab *crosstab,
                                    spark_relation *out, trn_error **error);
trn_status spark__named_values(spark_translator *t, const spark_scope *scope, char *const *names, size_t count,
                               spark_value **out, trn_error **error);
/* An aggregation: the keys, then the values over aggregate functions. */
trn_status spark__grouped(spark_translator *t, const spark_relation *input, const spark_value *keys, size_t key_count,
                          const spark_value *calls, size_t call_count, spark_relation *out, trn_error **error);
/* All values that are not null, in order, as a list; then the one that a share of them does not exceed. */
trn_status spark__sorted_values(spark_translator *t, const spark_value *value, spark_value *out, trn_error **error);
trn_status spark__quantile_of(spark_translator *t, const spark_value *sorted, double probability, double tolerance,
                              spark_value *out, trn_error **error);
/* LIMIT; the error of a negative one. */
trn_status spark__limit(spark_translator *t, spark_relation *relation, int64_t skip, int64_t fetch, trn_error **error);
trn_status spark__negative_limit(spark_translator *t, const char *name, int64_t value, trn_position position,
                                 trn_error **error);

/* ---- aggregation (aggregate.c) ---- */
typedef struct spark_aggregation {
  const spark_scope *scope;     /* of the input */
  spark_expr_set keys;          /* over the input */
  const trn_expr **key_columns; /* over the output; as many */
  spark_expr_set calls;         /* AGGREGATE */
  const trn_expr **call_columns;
  uint32_t call_capacity; /* of call_columns */
  const uint64_t *sets;
  uint32_t set_count;
  const trn_expr *grouping_id;  /* column; with sets */
  const char *const *key_names; /* for messages */
  bool has_group_by;
  const spark_lateral *laterals; /* columns that may stand outside of aggregate functions */
  uint32_t lateral_count;
  const spark_scope *output; /* likewise: those of the select list */
} spark_aggregation;
trn_status spark__aggregation_keys(spark_translator *t, spark_aggregation *aggregation, const spark_value *keys,
                                   size_t count, trn_error **error);
/* The expression over the output of the aggregation. MISSING_AGGREGATION, MISSING_GROUP_BY, NESTED_AGGREGATE_FUNCTION.
 */
trn_status spark__aggregation_lift(spark_translator *t, spark_aggregation *aggregation, const trn_expr *expr,
                                   const trn_expr **out, trn_error **error);
trn_status spark__aggregation_relation(spark_translator *t, const spark_aggregation *aggregation, const trn_rel *input,
                                       const trn_rel **out, trn_error **error);
trn_status spark__relation_pivot(spark_translator *t, const Spark__Connect__Aggregate *aggregate, spark_relation *out,
                                 trn_error **error);
trn_status spark__grouping_sets(spark_translator *t, int group_type, size_t key_count, const uint64_t *given,
                                size_t given_count, spark_aggregation *aggregation, trn_error **error);
bool spark__aggregation_has_key(const spark_aggregation *aggregation, const trn_expr *expr);

/* ---- sources (catalog.c) ---- */
typedef struct spark_source {
  trn_backend *backend;
  trn_source *source;
  const trn_field *fields; /* of `arena` */
  uint32_t field_count;
  trn_arena *arena;
} spark_source;
/* From the cache or the backend; a reference to the source goes to t->arena, the fields are copied there. */
trn_status spark__open_source(spark_translator *t, const trn_source_request *request, const char *schema_key,
                              trn_source **source, const trn_field **fields, uint32_t *field_count, trn_error **error);
/* A struct type's fields -> Arrow, for a request; release by its release. */
#endif
