/* Decorrelation, inside: what decorrelate.c, which pulls predicates up, and depend.c, which pushes rows down, share. */
#ifndef TRN_OPTIMIZE_DECORRELATE_H
#define TRN_OPTIMIZE_DECORRELATE_H
#include "optimize/optimize.h"

/* A scalar subquery whose value is a column by now. */
typedef struct joined {
  const trn_rel *rel;
  const trn_expr *value;
  struct joined *next;
} joined;

typedef struct dec {
  trn_arena *arena;
  uint32_t next; /* next free column id */
  unsigned depth;
  trn_error **error;
  joined *joined; /* of the relation whose expressions are being replaced */
} dec;

typedef const trn_expr *(*replace_fn)(void *user, const trn_expr *leaf); /* NULL: keep */

typedef struct pulled {
  const trn_rel *rel;
  const trn_column *columns; /* the subquery's own, wherever they are among rel's now */
  trn_vec preds;             /* of trn_expr: inner columns as COLUMN (all of rel's columns), the others as OUTER */
  /* What the columns of the original relation are when no row of the outer key exists: only below a global aggregate,
   * which has a row even then. One per column of the original relation; NULL: no such promise. */
  const trn_expr **empty;
  bool one_row; /* at most one row for each combination of the pulled keys */
} pulled;

bool trn__rel_has_outer(const trn_rel *rel);
trn_column trn__dec_column(dec *d, const trn_type *type, bool nullable);
/* Pass-through of `columns` of `input`. */
const trn_rel *trn__dec_project(dec *d, const trn_rel *input, const trn_column *columns, uint32_t count);
/* Replaces leaves (no args); gives `expr` itself when nothing changed, NULL when out of memory. */
const trn_expr *trn__dec_substitute(dec *d, const trn_expr *expr, replace_fn replace, void *user);
const trn_expr *trn__dec_and(dec *d, const trn_expr *a, const trn_expr *b);
trn_status trn__dec_unsupported(dec *d, const char *what);
/* The value of an aggregate over no rows; NULL: it has no literal. */
const trn_expr *trn__dec_empty(dec *d, const trn_expr *aggregate);
bool trn__is_global_aggregate(const trn_rel *rel);

/* depend.c: the subquery for every combination of the outer columns that it reads, as a relation of its own; out->preds
 * says which combination a row of `outer` has. Whatever the subquery consists of. */
trn_status trn__depend(dec *d, const trn_rel *rel, const trn_rel *outer, pulled *out);

/* FILTER of `input` by the condition, whose subqueries are joined; columns are rel's. */
trn_status trn__fix_filter(dec *d, const trn_rel *rel, const trn_rel *input, const trn_expr *condition,
                           const trn_rel **out);
/* outer_join.c: the join `rel` of the inputs, with subqueries in its condition. */
trn_status trn__fix_outer_join(dec *d, const trn_rel *rel, const trn_rel *const *inputs, const trn_rel **out);

/* The engine's mark joins need a column on each side: SELECT EXISTS (SELECT 1) has none. NULL: no memory. */
const trn_rel *trn__dec_some_column(dec *d, const trn_rel *rel);

#endif
