/* The resolved plan: relations and expressions with integer column ids and no names. Names are only at the root.
 * Everything lives in one arena and is immutable once built; nodes may be shared inside a plan (a DAG is legal).
 * Rule of uniformity: every node has its children in one array, so that walking needs no switch. */
#ifndef TRN_PLAN_PLAN_H
#define TRN_PLAN_PLAN_H
#include "core/core.h"
#include <trunnion/arrow.h>
#include <trunnion/plan.h>

/* ---- types ---- */
typedef enum trn_string_variant { TRN_STRING_PLAIN = 0, TRN_STRING_CHAR, TRN_STRING_VARCHAR } trn_string_variant;

typedef struct trn_field {
  const char *name; /* "" never NULL */
  const trn_type *type;
  bool nullable;
  const char *metadata; /* JSON object or NULL */
} trn_field;

struct trn_type {
  uint8_t id;
  uint8_t precision; /* decimal: precision; time; intervals: start field (0 year/day 1 month/hour 2 minute 3 second) */
  int8_t scale;      /* decimal: scale; intervals: end field */
  uint8_t variant;   /* trn_string_variant */
  int32_t length;    /* char, varchar */
  uint32_t field_count;
  const trn_field *fields;
  uint32_t depth, node_count; /* set by the constructors, which bound them; 0: a type without fields */
  const char *format;         /* OTHER: Arrow's, as in its C interface; else NULL */
};
#define TRN_FIELD_METADATA_KEY "trn:metadata" /* a field's `metadata`, in an Arrow schema */

/* Singletons of types without parameters (id < TRN_TYPE_ARRAY, decimal as (10,0), intervals with the widest fields). */
const trn_type *trn__type(trn_type_id id);
/* NULL: no memory, or nested deeper than TRN_TYPE_DEPTH_MAX, or more than TRN_TYPE_NODES_MAX nodes. */
const trn_type *trn__type_decimal(trn_arena *arena, int precision, int scale);
const trn_type *trn__type_array(trn_arena *arena, const trn_type *element, bool contains_null);
const trn_type *trn__type_map(trn_arena *arena, const trn_type *key, const trn_type *value, bool value_contains_null);
const trn_type *trn__type_other(trn_arena *arena, const char *format, size_t size); /* copies the format */
const trn_type *trn__type_struct(trn_arena *arena, const trn_field *fields, size_t count); /* copies the fields */
/* The same, but elements, values and fields inside may be null at every depth; callers begin with `depth` 0. */
const trn_type *trn__type_all_nullable(trn_arena *arena, const trn_type *type, unsigned depth);
const trn_type *trn__type_copy(trn_arena *arena, const trn_type *type); /* deep; NULL: no memory */
bool trn__type_equal(const trn_type *a, const trn_type *b);          /* nested names and nullability count */
bool trn__type_same_shape(const trn_type *a, const trn_type *b);     /* nullability and nested names do not */
bool trn__type_is_integer(const trn_type *type);
bool trn__type_is_numeric(const trn_type *type);
/* Arrow C schema <-> type. `timezone` labels TIMESTAMP (NULL: "UTC"). Import bounds depth and rejects what has no type
 * here with UNIMPLEMENTED naming the format; utf8_view, large_* and dictionaries map to their plain type. */
trn_status trn__type_export(const trn_type *type, const char *name, bool nullable, const char *metadata,
                            const char *timezone, struct ArrowSchema *out);
trn_status trn__type_import(trn_arena *arena, const struct ArrowSchema *schema, const trn_type **out, trn_error **error);
/* The same with name, nullability and metadata. */
trn_status trn__field_import(trn_arena *arena, const struct ArrowSchema *schema, trn_field *out, trn_error **error);
/* And with types that the engine has and the plan has no name for (TRN_TYPE_OTHER): unsigned integers, half floats. */
trn_status trn__field_import_any(trn_arena *arena, const struct ArrowSchema *schema, trn_field *out, trn_error **error);

/* ---- expressions ---- */
typedef struct trn_sort_flags {
  bool descending;
  bool nulls_first;
} trn_sort_flags;

typedef enum trn_frame_unit { TRN_FRAME_ROWS = 0, TRN_FRAME_RANGE, TRN_FRAME_GROUPS } trn_frame_unit;
typedef enum trn_frame_bound_kind {
  TRN_BOUND_UNBOUNDED_PRECEDING = 0,
  TRN_BOUND_PRECEDING, /* by the literal in bound */
  TRN_BOUND_CURRENT_ROW,
  TRN_BOUND_FOLLOWING,
  TRN_BOUND_UNBOUNDED_FOLLOWING
} trn_frame_bound_kind;

typedef struct trn_literal {
  bool is_null;
  union {
    bool boolean;
    int64_t integer; /* integers; days; microseconds; nanoseconds of a day; months */
    double number;   /* both float types */
    struct { uint64_t low; int64_t high; } decimal; /* unscaled two's complement */
    struct { const char *data; size_t size; } bytes;
    struct { int32_t months, days; int64_t nanos; } interval;
    struct { const trn_expr *const *items; uint32_t count; } nested; /* literals: elements; k1,v1,..; fields */
  } value;
} trn_literal;

struct trn_expr {
  uint8_t kind; /* trn_expr_kind */
  bool nullable;
  uint32_t arg_count;
  const trn_type *type;
  const trn_expr *const *args;
  trn_position position; /* in the SQL text of the plan; {-1,-1}: none */
  union {
    trn_literal literal;
    uint32_t column; /* COLUMN, OUTER, LAMBDA_VARIABLE: id */
    struct {
      const char *name;
      uint8_t home;         /* trn_function_home */
      uint8_t volatility;   /* 0 immutable, 1 stable, 2 volatile */
    } call;
    struct {
      const char *name;
      uint8_t home; /* ENGINE or LIBRARY */
      bool distinct;
      bool has_filter; /* the last arg is the filter, before it order_count sort keys */
      uint32_t order_count;
      const trn_sort_flags *order_flags;
    } aggregate;
    struct { /* args[0]: an AGGREGATE expr, or a CALL naming a window function; then partition keys, then order keys */
      uint32_t partition_count, order_count;
      const trn_sort_flags *order_flags;
      uint8_t unit, start_kind, end_kind;
      const trn_expr *start, *end; /* literals or NULL */
      bool ignore_nulls;
    } window;
    struct { bool is_try; } cast;
    struct { bool negated; } in_list;
    struct { uint8_t kind; bool negated; const trn_rel *rel; } subquery; /* IN: rel's columns match args */
    struct { uint32_t param_count; const uint32_t *params; } lambda;
  } u;
};

/* ---- relations ---- */
typedef struct trn_column {
  uint32_t id; /* unique in the plan */
  bool nullable;
  const trn_type *type;
} trn_column;

struct trn_rel {
  uint8_t kind; /* trn_rel_kind */
  uint32_t input_count, expr_count, column_count;
  const trn_rel *const *inputs;
  const trn_expr *const *exprs;
  const trn_column *columns; /* output; pass-through relations share their input's array */
  union {
    struct { /* the plan's arena owns references to source and info */
      trn_source *source;
      const uint32_t *indexes;
      const char *label; /* for prints */
      trn_scan_label *info; /* NULL: unknown, and refused by policies */
    } scan;
    struct { const void *ipc; size_t size; } local; /* the plan's arena owns the bytes */
    struct { uint32_t row_count; } values;
    struct { int64_t start, end, step; uint32_t partitions; } range;
    struct { uint8_t type; bool null_aware; } join; /* null_aware: LEFT_ANTI with NOT IN semantics */
    struct { uint32_t group_count; uint32_t set_count; const uint64_t *sets; } aggregate; /* sets: bit i = key i is
         in; none: plain GROUP BY. With sets a last int64 column, the grouping id, follows the aggregates */
    struct { const trn_sort_flags *flags; int64_t fetch; bool is_global; } sort; /* fetch < 0: all */
    struct { int64_t skip, fetch; } limit;                                      /* fetch < 0: all */
    struct { bool except; bool all; } set;
    struct { bool outer, with_position; } unnest;
    struct { double lower, upper; bool with_replacement; int64_t seed; } sample;
    struct { uint32_t partitions; bool shuffle, by_range; const trn_sort_flags *flags; } repartition;
    struct { const char *name; const void *payload; size_t size; } extension;
    struct { /* input columns by their places; the plan's arena owns a ref of `original`, whose backend alone can run it */
      trn_source *original;
      const char *label; /* what it does: equal texts for equal nodes */
    } opaque;
    struct { /* partition i's files: directory/i/data, or directory/i/name=value/... (values percent-encoded) */
      const char *format, *directory; /* "parquet" "csv" "json"; a local directory, absolute */
      const trn_kv *options;          /* by the engine's names */
      const char *const *names;       /* of the input's columns */
      const uint32_t *partition_by;   /* places of string columns */
      uint32_t option_count, partition_count;
      trn_scan_label *info; /* what is written, in the client's terms: a path, a table; the arena owns a reference */
    } write;
  } u;
};

/* ---- the plan ---- */
struct trn_plan {
  atomic_uint refs;
  trn_arena *arena;      /* owned */
  const trn_rel *root;
  const trn_field *fields; /* display names, types as clients see them, metadata: one per root column */
  uint32_t field_count;
  uint32_t next_column; /* ids below are taken */
  const char *timezone; /* the session's, for TIMESTAMP columns at the edge; NULL: UTC */
  const char *sql;      /* the text that positions refer to, or NULL */
  uint8_t fingerprint[16];
  atomic_bool has_fingerprint;
  atomic_flag fingerprint_taken; /* by the thread that writes it */
  uint8_t kind;                  /* trn_plan_kind */
  const char *const *functions;  /* names of functions in the protocol's words: trn__plan_set_functions */
  uint32_t function_count;
  _Atomic(void *) found_functions; /* when none were recorded: made on demand, freed with the arena */
};
/* Takes the arena (also on failure). `fields` of the arena, one per root column. */
trn_status trn__plan_create(trn_arena *arena, const trn_rel *root, const trn_field *fields, uint32_t next_column,
                            const char *timezone, const char *sql, trn_plan **out);

/* Before the plan is shared. `names` of the plan's arena, in any order, may repeat: they are sorted in place. */
void trn__plan_set_functions(trn_plan *plan, const char **names, size_t count);
/* Names as the plan has them, whatever its protocol calls them; as trn_plan_functions. */
trn_status trn__plan_own_functions(const trn_plan *plan, const char *const **names, size_t *count);
/* Without the mark of our own functions: "trn.upper" is "upper". */
static inline const char *trn__function_plain(const char *name) {
  return strncmp(name, "trn.", 4) == 0 ? name + 4 : name;
}
/* The plan of a view: its scans say that they are reached through it. Gives `*out`. */
trn_status trn__plan_through_view(trn_plan *plan, const trn_scan_view *view, trn_plan **out, trn_error **error);
/* A copy of a plan's relations in `arena`, whose column ids are `offset` higher: ids are unique in a plan. */
trn_status trn__renumber(trn_arena *arena, const trn_rel *root, uint32_t offset, const trn_rel **out, trn_error **error);
/* The same rows with the names of a schema's columns, as many as there are. Gives `*out`: the plan itself when it has them. */
trn_status trn__plan_rename(trn_plan *plan, const struct ArrowSchema *schema, trn_plan **out, trn_error **error);
/* Makes the arena hold a reference to a label; NULL is accepted. */
trn_status trn__label_hold(trn_arena *arena, trn_scan_label *label);

/* ---- building: each gives a node of the arena, or NULL when memory is out. Child arrays are copied. ---- */
trn_expr *trn__expr_create(trn_arena *arena, trn_expr_kind kind, const trn_type *type, bool nullable,
                           const trn_expr *const *args, size_t arg_count);
trn_expr *trn__expr_column(trn_arena *arena, const trn_column *column);
trn_expr *trn__expr_null(trn_arena *arena, const trn_type *type);
trn_expr *trn__expr_bool(trn_arena *arena, bool value);
trn_expr *trn__expr_int(trn_arena *arena, const trn_type *type, int64_t value);
trn_expr *trn__expr_string(trn_arena *arena, const char *data, size_t size);
trn_expr *trn__expr_call(trn_arena *arena, trn_function_home home, const char *name, const trn_type *type, bool nullable,
                         const trn_expr *const *args, size_t arg_count);
trn_expr *trn__expr_cast(trn_arena *arena, const trn_expr *arg, const trn_type *type, bool is_try);
trn_rel *trn__rel_create(trn_arena *arena, trn_rel_kind kind, const trn_rel *const *inputs, size_t input_count,
                         const trn_expr *const *exprs, size_t expr_count, const trn_column *columns, size_t column_count);
/* A sample of all rows: no optimizer moves a condition through it. */
bool trn__rel_is_barrier(const trn_rel *rel);
/* What is wrong with a policy's text (trn_edit_parse) whatever it is over: its grammar, functions and their arguments, types
 * as far as no column decides. What is right over some table passes. A condition, or a value of any type. */
trn_status trn__text_check(const char *text, bool is_condition, trn_error **error);
/* Pass-through relations: columns are the input's. */
trn_rel *trn__rel_filter(trn_arena *arena, const trn_rel *input, const trn_expr *condition);
trn_rel *trn__rel_project(trn_arena *arena, const trn_rel *input, const trn_expr *const *exprs,
                          const trn_column *columns, size_t count);
/* Columns are made from the inputs and the type (outer joins make the other side nullable). Not for LEFT_MARK. */
trn_rel *trn__rel_join(trn_arena *arena, trn_join_type type, const trn_rel *left, const trn_rel *right,
                       const trn_expr *condition);
/* LEFT_MARK: `mark` is the id of the column that it adds. */
trn_rel *trn__rel_mark_join(trn_arena *arena, const trn_rel *left, const trn_rel *right, const trn_expr *condition,
                            uint32_t mark);
/* The columns of a join; `mark`: of LEFT_MARK. NULL with *count 0: none; NULL otherwise: no memory. */
const trn_column *trn__join_columns(trn_arena *arena, trn_join_type type, const trn_rel *left, const trn_rel *right,
                                    const trn_column *mark, uint32_t *count);

/* ---- walking and rewriting ---- */
/* Iterative. RESOURCE_EXHAUSTED beyond TRN_PLAN_DEPTH_MAX or out of memory; CANCELLED after TRN_WALK_STOP. A shared
 * relation is visited once, a shared expression with children once per holder. */
trn_status trn__plan_walk(const trn_rel *root, const trn_visitor *visitor);
trn_status trn__expr_walk(const trn_expr *expr, const trn_visitor *visitor);

/* Bottom-up: children first; `rel`/`expr` gets a node whose children are already rewritten and gives the node to use
 * (itself: unchanged). Unchanged nodes are shared, not copied; a shared node is rewritten once. Columns that come from the
 * inputs (pass-through relations, JOIN, WINDOW, UNNEST) are those of the rewritten inputs. */
typedef struct trn_rewriter {
  trn_status (*rel)(void *user, trn_arena *arena, const trn_rel *rel, const trn_rel **out, trn_error **error);
  trn_status (*expr)(void *user, trn_arena *arena, const trn_expr *expr, const trn_expr **out, trn_error **error);
  void *user;
} trn_rewriter;
trn_status trn__rel_rewrite(trn_arena *arena, const trn_rel *root, const trn_rewriter *rewriter, const trn_rel **out,
                            trn_error **error);
trn_status trn__expr_rewrite(trn_arena *arena, const trn_expr *expr, const trn_rewriter *rewriter, const trn_expr **out,
                             trn_error **error);

/* ---- optimize (src/optimize): gives an equivalent plan without SUBQUERY and OUTER expressions; *next_column grows ---- */
trn_status trn__decorrelate(trn_arena *arena, const trn_rel *root, uint32_t *next_column, const trn_rel **out,
                            trn_error **error);

/* ---- text ---- */
void trn__type_print(trn_strbuf *out, const trn_type *type);
void trn__decimal_print(trn_strbuf *out, const trn_literal *literal, int scale); /* digits, with a point */
void trn__expr_print(trn_strbuf *out, const trn_expr *expr);
void trn__rel_print(trn_strbuf *out, const trn_rel *rel);

#endif
