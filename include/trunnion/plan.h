/* A resolved plan: immutable, reference counted. Relations and expressions with integer column ids and no names: names are
 * at the root, and in the labels of what is read and written. Policies read plans (accessors, walk, match) and make new
 * ones of them (rewrite).
 *
 * Everything that an accessor gives is borrowed from the plan. Threads: any. Nothing here blocks. Since 0.1. */
#ifndef TRUNNION_PLAN_H
#define TRUNNION_PLAN_H
#include <trunnion/arrow.h>
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_plan trn_plan;
typedef struct trn_rel trn_rel;   /**< a relation */
typedef struct trn_expr trn_expr; /**< an expression */
typedef struct trn_type trn_type; /**< of a column or an expression */
typedef struct trn_source trn_source;
typedef struct trn_backend trn_backend;

TRN_API trn_plan *trn_plan_ref(trn_plan *plan);
TRN_API void trn_plan_unref(trn_plan *plan); /**< NULL is accepted. Threads: any. */
/** The Arrow schema of the result, with display names (names may repeat). Gives `*out` (its release). */
TRN_API trn_status trn_plan_schema(const trn_plan *plan, struct ArrowSchema *out);
/** 128 bits that are equal for equal plans, whatever column ids they were numbered with. What a scan reads counts by its
 *  label when the label says all about it (trn_scan_label_identity), so that plans of different sessions are equal. */
TRN_API void trn_plan_fingerprint(const trn_plan *plan, uint8_t out[16]);
/** An indented text of the plan, for people. Gives `*out` (trn_free). */
TRN_API trn_status trn_plan_print(const trn_plan *plan, char **out);
/** The plan as one SELECT of a SQL dialect, for backends that run SQL: docs/embedding.md says how each one holds the types.
 *  Tables and columns are named as the labels of the scans name them; the result's columns come in order, named c<n>.
 *  `dialect`: "sqlite", "postgresql", "duckdb"; sql.h has dialects of one's own. Gives `*out` (trn_free). Errors: UNIMPLEMENTED names what has no form of exactly the same meaning;
 *  INVALID_ARGUMENT: an unknown dialect; RESOURCE_EXHAUSTED. Since 0.1. */
TRN_API trn_status trn_plan_to_sql(const trn_plan *plan, const char *dialect, char **out, trn_error **error);
/** Frees text that a function of this library gave. */
TRN_API void trn_free(void *memory);

/* ---- kinds. Both enums grow at their ends only. ---- */

typedef enum trn_type_id {
  TRN_TYPE_NULL = 0,
  TRN_TYPE_BOOL,
  TRN_TYPE_INT8,
  TRN_TYPE_INT16,
  TRN_TYPE_INT32,
  TRN_TYPE_INT64,
  TRN_TYPE_FLOAT32,
  TRN_TYPE_FLOAT64,
  TRN_TYPE_DECIMAL, /* precision 1..38, scale 0..precision; Arrow decimal128 */
  TRN_TYPE_STRING,  /* Arrow utf8; length > 0: char(length) or varchar(length), see `variant` */
  TRN_TYPE_BINARY,
  TRN_TYPE_DATE,          /* days, Arrow date32 */
  TRN_TYPE_TIMESTAMP,     /* an instant: microseconds UTC, Arrow timestamp[us, UTC] inside, relabelled at the edge */
  TRN_TYPE_TIMESTAMP_NTZ, /* Arrow timestamp[us] */
  TRN_TYPE_TIME,          /* Arrow time64[ns], precision 0..9 */
  TRN_TYPE_INTERVAL_YEAR_MONTH, /* Arrow interval[months]; start/end field in precision/scale */
  TRN_TYPE_INTERVAL_DAY_TIME,   /* Arrow duration[us]; start/end field in precision/scale */
  TRN_TYPE_INTERVAL_CALENDAR,   /* Arrow interval[month_day_nano] */
  TRN_TYPE_ARRAY,               /* fields[0]: element */
  TRN_TYPE_MAP,                 /* fields[0]: key (never null), fields[1]: value */
  TRN_TYPE_STRUCT,              /* fields */
  TRN_TYPE_OTHER,               /* another type of Arrow's, known by its format only: it is carried, not computed with */
  TRN_TYPE_COUNT
} trn_type_id;

typedef enum trn_expr_kind {
  TRN_EXPR_LITERAL = 0,
  TRN_EXPR_COLUMN,    /* a column of the inputs of the relation that holds the expression */
  TRN_EXPR_OUTER,     /* a column of an enclosing relation, inside a subquery; gone after decorrelation */
  TRN_EXPR_CALL,      /* scalar function or native operator: function, args */
  TRN_EXPR_AGGREGATE, /* only in AGGREGATE relations and as a window's function */
  TRN_EXPR_WINDOW,    /* only in WINDOW relations */
  TRN_EXPR_CAST,      /* the engine's own cast, used only where it equals Spark's; else a call of a cast kernel */
  TRN_EXPR_CASE,      /* args: when1, then1, ..., [else] (odd count: has else); conditions are boolean */
  TRN_EXPR_IN_LIST,   /* args: value, items...; SQL null semantics; all of one type */
  TRN_EXPR_SUBQUERY,  /* args: for IN the value(s); gone after decorrelation */
  TRN_EXPR_LAMBDA,    /* args[0]: body; lambda parameters as LAMBDA_VARIABLE */
  TRN_EXPR_LAMBDA_VARIABLE,
  TRN_EXPR_COUNT_
} trn_expr_kind;

typedef enum trn_subquery_kind { TRN_SUBQUERY_SCALAR = 0, TRN_SUBQUERY_EXISTS, TRN_SUBQUERY_IN } trn_subquery_kind;

/** Where a function runs. */
typedef enum trn_function_home {
  TRN_HOME_NATIVE = 0, /* an operator of the engine's plan, by its name in the list below */
  TRN_HOME_ENGINE,     /* a function of the engine, by its name there, exactly equal by semantics */
  TRN_HOME_LIBRARY     /* a function of src/functions ("trn...."), by name */
} trn_function_home;
/* Native operators: "=" "!=" "<" "<=" ">" ">=" "is_not_distinct_from" "is_distinct_from" "and" "or" "not" "is_null"
 * "is_not_null" "is_true" "is_false" "is_not_true" "is_not_false" "+" "-" "*" (doubles; decimals where types prove that
 * nothing can overflow) "/" (doubles) "%" "like" "ilike" "negative" "bit_and" "bit_or" "bit_xor" "get_field" (struct,
 * literal name). In lifted plans also "||" "~" "~*" "!~" "!~*" "<<" ">>" "@>" "<@" "similar_to", as the engine means them, and
 * "$1" or "$name": a parameter without a value, which cannot be run. Both sides have the same type, except for "*" "+" "-" of decimals. */

typedef enum trn_rel_kind {
  TRN_REL_SCAN = 0, /* a source; column i is the source's column trn_rel_scan_index(rel, i) */
  TRN_REL_LOCAL,    /* rows that travelled with the plan, Arrow IPC stream bytes; columns in its order */
  TRN_REL_VALUES,   /* exprs: rows * columns expressions without columns, row by row; 0 columns are legal */
  TRN_REL_RANGE,    /* one int64 column */
  TRN_REL_PROJECT,  /* exprs[i] makes columns[i]; a COLUMN expr may keep its id */
  TRN_REL_FILTER,   /* exprs[0] */
  TRN_REL_JOIN,     /* exprs[0]: condition, or none; columns: left's then right's (semi, anti: left's) */
  TRN_REL_AGGREGATE, /* exprs: group keys, then AGGREGATE exprs; columns likewise */
  TRN_REL_SORT,     /* exprs: keys */
  TRN_REL_LIMIT,
  TRN_REL_UNION,    /* UNION ALL of inputs with equal column types; columns are new ids */
  TRN_REL_DISTINCT, /* all columns */
  TRN_REL_SET,      /* INTERSECT / EXCEPT */
  TRN_REL_WINDOW,   /* columns: input's, then one per expr */
  TRN_REL_UNNEST,   /* exprs[0] array or map; columns: input's, then [position], element or key,value */
  TRN_REL_SAMPLE,
  TRN_REL_REPARTITION, /* exprs: keys or none */
  TRN_REL_EXTENSION, /* an embedder's operator */
  TRN_REL_OPAQUE,   /* a node that lifting did not know; carries the engine's original */
  TRN_REL_WRITE,    /* the input's rows go to files; one int64 column: how many, a row per partition */
  TRN_REL_COUNT_
} trn_rel_kind;

typedef enum trn_join_type {
  TRN_JOIN_INNER = 0, /* without a condition: cross */
  TRN_JOIN_LEFT,
  TRN_JOIN_RIGHT,
  TRN_JOIN_FULL,
  TRN_JOIN_LEFT_SEMI,
  TRN_JOIN_LEFT_ANTI,
  TRN_JOIN_LEFT_MARK /* left's columns, then one boolean: has a match */
} trn_join_type;

/** A physical plan is opaque throughout: policies that must understand it refuse it. */
typedef enum trn_plan_kind { TRN_PLAN_LOGICAL = 0, TRN_PLAN_PHYSICAL } trn_plan_kind;

/* ---- labels: what is read, what is written ---- */

typedef enum trn_scan_kind {
  TRN_SCAN_UNKNOWN = 0, /**< policies that must know refuse it */
  TRN_SCAN_TABLE,       /**< a table of a catalog: catalog, database, table; paths when it has files */
  TRN_SCAN_FILES,       /**< named by the client: format, paths */
  TRN_SCAN_LOCAL,       /**< rows that travelled with the request */
  TRN_SCAN_GENERATED    /**< made by the program: names of tables, settings, a checkpoint of rows that were read before */
} trn_scan_kind;

/** A column of the source, by its name there. */
typedef struct trn_scan_column {
  const char *name;
  const trn_type *type; /**< copied with the label */
  bool nullable;
} trn_scan_column;

/** A view through which something is reached. */
typedef struct trn_scan_view {
  const char *catalog, *database, *name; /**< NULL: none */
  bool is_temporary; /**< made by a client in its session: it gives no rights */
} trn_scan_view;

/** What a scan reads or a write writes. Zero-initialize; set what is known. NULL text: unknown or not there. */
typedef struct trn_scan_info {
  size_t struct_size;
  trn_scan_kind kind;
  const char *catalog, *database, *table;
  const char *format;       /**< "parquet", ... */
  const char *const *paths; /**< absolute paths and URLs, patterns expanded */
  size_t path_count;
  const trn_kv *options; /**< of the format; they change what is read */
  size_t option_count;
  const trn_scan_column *columns; /**< of the source, in its order: a scan's index i is columns[i] */
  size_t column_count;
  const char *version;     /**< of the data: a snapshot of a table, a digest of file names, sizes and times */
  uint64_t files, bytes;   /**< to read; 0: unknown */
  const trn_scan_view *views; /**< outermost first */
  size_t view_count;
  const void *content; /**< LOCAL: the rows as they came; digested, not kept */
  size_t content_size;
  bool is_raw; /**< `columns` are lines or the like, from which the query makes the columns that policies name */
} trn_scan_info;

/** An immutable copy of an info, reference counted. */
typedef struct trn_scan_label trn_scan_label;
/** Copies everything. Gives `*out`. Errors: RESOURCE_EXHAUSTED, INVALID_ARGUMENT (a column without name or type). */
TRN_API trn_status trn_scan_label_create(const trn_scan_info *info, trn_scan_label **out);
/** The same with one more view around it (outermost). */
TRN_API trn_status trn_scan_label_through(const trn_scan_label *label, const trn_scan_view *view, trn_scan_label **out);
TRN_API trn_scan_label *trn_scan_label_ref(trn_scan_label *label);
TRN_API void trn_scan_label_unref(trn_scan_label *label); /**< NULL is accepted */
TRN_API const trn_scan_info *trn_scan_label_info(const trn_scan_label *label); /**< its `content` is NULL */
/** 128 bits over everything but `views`, `files`, `bytes`: equal labels read equal rows. False: the label does not say
 *  all (no version, or an UNKNOWN kind). */
TRN_API bool trn_scan_label_identity(const trn_scan_label *label, uint8_t out[16]);
/** "catalog.database.table", or the paths, for messages and logs. Gives `*out` (trn_free); NULL: out of memory. */
TRN_API char *trn_scan_label_text(const trn_scan_label *label);

/* ---- plans ---- */

TRN_API trn_plan_kind trn_plan_get_kind(const trn_plan *plan);
TRN_API const trn_rel *trn_plan_root(const trn_plan *plan);
TRN_API const char *trn_plan_text(const trn_plan *plan); /**< the query text that positions refer to; NULL: none */
TRN_API size_t trn_plan_column_count(const trn_plan *plan);
TRN_API const char *trn_plan_column_name(const trn_plan *plan, size_t index); /**< as clients see it */
TRN_API const trn_type *trn_plan_column_type(const trn_plan *plan, size_t index);
/** Names of the functions that the query calls: in the words of its protocol ("ifnull") when the frontend recorded them,
 *  else as the plan has them ("trn.concat"). Sorted, each once. Gives an array that the plan keeps. */
TRN_API trn_status trn_plan_functions(const trn_plan *plan, const char *const **names, size_t *count);

/* ---- types ---- */

TRN_API trn_type_id trn_type_get_id(const trn_type *type);
TRN_API int trn_type_precision(const trn_type *type); /**< decimals, times */
TRN_API int trn_type_scale(const trn_type *type);     /**< decimals */
TRN_API size_t trn_type_field_count(const trn_type *type);
TRN_API const char *trn_type_field_name(const trn_type *type, size_t index);
TRN_API const trn_type *trn_type_field_type(const trn_type *type, size_t index);
TRN_API bool trn_type_field_nullable(const trn_type *type, size_t index);
TRN_API bool trn_type_is_equal(const trn_type *a, const trn_type *b);
/** Gives `*out` (trn_free): "decimal(10,2)". */
TRN_API trn_status trn_type_print(const trn_type *type, char **out);

/* ---- expressions ---- */

TRN_API trn_expr_kind trn_expr_get_kind(const trn_expr *expr);
TRN_API const trn_type *trn_expr_get_type(const trn_expr *expr);
TRN_API bool trn_expr_is_nullable(const trn_expr *expr);
TRN_API size_t trn_expr_arg_count(const trn_expr *expr);
TRN_API const trn_expr *trn_expr_arg(const trn_expr *expr, size_t index); /**< NULL beyond the end */
TRN_API uint32_t trn_expr_column_id(const trn_expr *expr); /**< COLUMN, OUTER, LAMBDA_VARIABLE; else UINT32_MAX */
/** LAMBDA: the ids of its parameters, in order: its body (its only argument) names them by LAMBDA_VARIABLEs. Other kinds have
 *  none; UINT32_MAX: beyond the end. Since 0.1. */
TRN_API size_t trn_expr_lambda_param_count(const trn_expr *expr);
TRN_API uint32_t trn_expr_lambda_param(const trn_expr *expr, size_t index);
TRN_API const char *trn_expr_function(const trn_expr *expr); /**< CALL, AGGREGATE, WINDOW (its function's); else NULL */
TRN_API trn_function_home trn_expr_function_home(const trn_expr *expr);
TRN_API int trn_expr_volatility(const trn_expr *expr); /**< CALL: 0 immutable, 1 stable, 2 volatile */
TRN_API bool trn_expr_literal_is_null(const trn_expr *expr);
TRN_API bool trn_expr_literal_bool(const trn_expr *expr);
TRN_API int64_t trn_expr_literal_int(const trn_expr *expr); /**< integers, days, microseconds, ...; else 0 */
TRN_API double trn_expr_literal_double(const trn_expr *expr);
TRN_API trn_str trn_expr_literal_bytes(const trn_expr *expr); /**< STRING, BINARY; else empty */
TRN_API const trn_rel *trn_expr_subquery(const trn_expr *expr); /**< NULL: none */
TRN_API trn_position trn_expr_position(const trn_expr *expr);   /**< in trn_plan_text; -1: unknown */
/** Gives `*out` (trn_free). */
TRN_API trn_status trn_expr_print(const trn_expr *expr, char **out);

/* ---- relations ---- */

TRN_API trn_rel_kind trn_rel_get_kind(const trn_rel *rel);
TRN_API const char *trn_rel_kind_name(trn_rel_kind kind); /**< "Scan" */
TRN_API size_t trn_rel_input_count(const trn_rel *rel);
TRN_API const trn_rel *trn_rel_input(const trn_rel *rel, size_t index);
TRN_API size_t trn_rel_expr_count(const trn_rel *rel);
TRN_API const trn_expr *trn_rel_expr(const trn_rel *rel, size_t index);
TRN_API size_t trn_rel_column_count(const trn_rel *rel);
TRN_API uint32_t trn_rel_column_id(const trn_rel *rel, size_t index); /**< unique in the plan */
TRN_API const trn_type *trn_rel_column_type(const trn_rel *rel, size_t index);
TRN_API bool trn_rel_column_nullable(const trn_rel *rel, size_t index);
/** SCAN: what is read; WRITE: what is written. NULL: not known, or another kind. */
TRN_API const trn_scan_label *trn_rel_label(const trn_rel *rel);
TRN_API trn_source *trn_rel_scan_source(const trn_rel *rel);
TRN_API uint32_t trn_rel_scan_index(const trn_rel *rel, size_t column); /**< the place in the source */
/** The name of a SCAN's column in its source; NULL: not known. */
TRN_API const char *trn_rel_scan_column_name(const trn_rel *rel, size_t column);
TRN_API trn_join_type trn_rel_join_type(const trn_rel *rel);
TRN_API size_t trn_rel_group_count(const trn_rel *rel); /**< AGGREGATE: how many of its exprs are keys */
TRN_API int64_t trn_rel_limit_skip(const trn_rel *rel);
TRN_API int64_t trn_rel_limit_fetch(const trn_rel *rel); /**< LIMIT, SORT; < 0: all */
TRN_API const char *trn_rel_write_format(const trn_rel *rel);
TRN_API const char *trn_rel_write_directory(const trn_rel *rel);
TRN_API const char *trn_rel_extension_name(const trn_rel *rel);

/* ---- walking, matching ---- */

typedef enum trn_walk { TRN_WALK_ON = 0, TRN_WALK_SKIP /* not into this node */, TRN_WALK_STOP } trn_walk;
typedef struct trn_visitor {
  /* Before the children; either may be NULL. Subqueries' relations are walked too. */
  trn_walk (*rel)(void *user, const trn_rel *rel);
  trn_walk (*expr)(void *user, const trn_expr *expr, const trn_rel *holder);
  void *user;
} trn_visitor;
/** Iterative. RESOURCE_EXHAUSTED: nested too deep, or out of memory; CANCELLED after TRN_WALK_STOP. A shared relation is
 *  visited once, a shared expression with children once per holder. */
TRN_API trn_status trn_plan_walk(const trn_plan *plan, const trn_visitor *visitor);

/** What to look for; conditions that are set must all hold. Patterns: '*' any text, '?' one character, the rest as it is;
 *  names of tables "catalog.database.table" without regard to the case of letters. Zero: any relation. */
typedef struct trn_pattern {
  size_t struct_size;
  uint64_t rel_kinds;  /**< bits 1 << trn_rel_kind */
  uint64_t expr_kinds; /**< bits 1 << trn_expr_kind: expressions are looked for, not relations */
  const char *table;   /**< SCAN and WRITE of a table */
  const char *path;    /**< SCAN and WRITE with such a path */
  const char *function; /**< an expression that calls it */
} trn_pattern;
/** Calls `each` for what matches (`expr` NULL: a relation; else `rel` holds it) until it returns false. */
TRN_API trn_status trn_plan_match(const trn_plan *plan, const trn_pattern *pattern,
                                  bool (*each)(void *user, const trn_rel *rel, const trn_expr *expr), void *user);
/** Does `text` match `pattern`? Linear time. */
TRN_API bool trn_pattern_matches(const char *pattern, const char *text, bool ignore_case);

/* ---- rewriting ---- */

/** Makes the nodes of a new plan. Lives during trn_plan_rewrite. Its functions give nodes of the new plan, or NULL: memory
 *  is out, or an argument is NULL (so that calls nest); trn_edit_failed says so at the end. */
typedef struct trn_edit trn_edit;

/** Bottom-up: a node comes when its children are rewritten; `*out` is what stands for it (already the node itself). A
 *  shared node comes once. Columns that come from inputs (FILTER, SORT, JOIN, ...) follow the rewritten inputs; ids that
 *  the old node gave must still be given by the new one where something above uses them. */
typedef struct trn_rewriting {
  size_t struct_size;
  trn_status (*rel)(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error);
  trn_status (*expr)(void *user, trn_edit *edit, const trn_expr *expr, const trn_expr **out, trn_error **error);
  void *user;
} trn_rewriting;
/** Gives a new plan (or a reference to the old one when nothing changed). The root must keep number and types of its
 *  columns, else INVALID_ARGUMENT. */
TRN_API trn_status trn_plan_rewrite(trn_plan *plan, const trn_rewriting *rewriting, trn_plan **out, trn_error **error);

TRN_API bool trn_edit_failed(const trn_edit *edit);
TRN_API const trn_type *trn_edit_type(trn_edit *edit, trn_type_id id); /**< without parameters */
TRN_API const trn_type *trn_edit_decimal(trn_edit *edit, int precision, int scale);
TRN_API const trn_expr *trn_edit_column(trn_edit *edit, const trn_rel *rel, size_t index);
TRN_API const trn_expr *trn_edit_null(trn_edit *edit, const trn_type *type);
TRN_API const trn_expr *trn_edit_bool(trn_edit *edit, bool value);
TRN_API const trn_expr *trn_edit_int(trn_edit *edit, const trn_type *type, int64_t value);
TRN_API const trn_expr *trn_edit_double(trn_edit *edit, double value);
TRN_API const trn_expr *trn_edit_text(trn_edit *edit, const char *data, size_t size);
TRN_API const trn_expr *trn_edit_call(trn_edit *edit, trn_function_home home, const char *name, const trn_type *type,
                                      bool nullable, const trn_expr *const *args, size_t count);
TRN_API const trn_expr *trn_edit_cast(trn_edit *edit, const trn_expr *expr, const trn_type *type, bool is_try);
TRN_API const trn_expr *trn_edit_case(trn_edit *edit, const trn_expr *const *args, size_t count); /**< as TRN_EXPR_CASE */
/** A parameter for one lambda, with an id of its own, of the type that the function gives (an element's, ...); what is inside
 *  of the type may be null, whatever `type` says: lambdas see no promise there. Use it in the body as often as you like.
 *  Since 0.1. */
TRN_API const trn_expr *trn_edit_lambda_variable(trn_edit *edit, const trn_type *type, bool nullable);
/** The lambda (params...) -> body: an argument of a call of a function that takes one; its type is the body's. Beside its
 *  parameters the body sees what the call sees: columns of the inputs, parameters of the lambdas around it. Without
 *  parameters: what looks at none. NULL also when one of `params` is no variable or is there twice, or when there are more
 *  than TRN_LAMBDA_PARAMETERS_MAX (function.h). Since 0.1. */
TRN_API const trn_expr *trn_edit_lambda(trn_edit *edit, const trn_expr *const *params, size_t count, const trn_expr *body);
TRN_API const trn_rel *trn_edit_filter(trn_edit *edit, const trn_rel *input, const trn_expr *condition);
/** New ids, unless an expr is a COLUMN and `keep_ids`. */
TRN_API const trn_rel *trn_edit_project(trn_edit *edit, const trn_rel *input, const trn_expr *const *exprs, size_t count,
                                        bool keep_ids);
TRN_API const trn_rel *trn_edit_limit(trn_edit *edit, const trn_rel *input, int64_t skip, int64_t fetch);
/** A scan of another source (of `backend`) with the same columns, by index. The plan takes references to backend, source
 *  and label. */
TRN_API const trn_rel *trn_edit_scan(trn_edit *edit, const trn_rel *scan, trn_backend *backend, trn_source *source,
                                     trn_scan_label *label);

/** Who asks: values of current_user(), is_member('group') in texts. */
typedef struct trn_text_context {
  size_t struct_size;
  const char *user;
  const char *const *groups;
  size_t group_count;
} trn_text_context;
/** Parses a condition or value such as "region = 'EU' and amount < 100" over the columns of a SCAN that has a label (all of
 *  the source's: `*scan` becomes a scan that has those which are used as well). Operators: or and not = <> != < <= > >=
 *  is [not] null, [not] in (...), [not] between, [not] like, + - * / ||, case when ... end, cast(x as type); literals:
 *  numbers, 'text', true, false, null, date '2024-01-31', timestamp '...'; functions: docs/policies.md lists them. `type`:
 *  the value is cast to it (NULL: as it comes). Errors: INVALID_ARGUMENT with a position in the text; an unknown column is
 *  one. */
TRN_API trn_status trn_edit_parse(trn_edit *edit, const trn_rel **scan, const char *text, const trn_text_context *context,
                                  const trn_type *type, const trn_expr **out, trn_error **error);

/** A column and the text of what is shown instead. */
typedef struct trn_mask {
  const char *column;
  const char *text;
} trn_mask;
/** The guarded form of a scan: rows that fail any of the `filters` are gone (they see real values), then the masked columns
 *  are replaced wherever they are used. A condition from above that an optimizer moves below the filter finds nulls in the
 *  rows that are gone: each column comes as "case when <filters> then it end", unless `is_open`. */
TRN_API const trn_rel *trn_edit_guard(trn_edit *edit, const trn_rel *scan, const char *const *filters, size_t filter_count,
                                      const trn_mask *masks, size_t mask_count, const trn_text_context *context,
                                      bool is_open, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
