/* Lifting: the engine's encoding of a plan becomes a resolved plan. */
#ifndef TRN_ENGINE_LIFT_H
#define TRN_ENGINE_LIFT_H
#include "engine/engine.h"
#include <trunnion/backend.h>

/* What a SCAN of the encoding refers to: a source, or the plan of a view. Borrowed; the plan takes references. */
typedef struct trn_lift_source {
  trn_source *source;
  trn_plan *view;        /* NULL unless it is a view */
  trn_scan_label *label; /* of `source`, or NULL */
  trn_table *table;      /* kept as long as the plan, or NULL */
} trn_lift_source;

typedef struct trn_lift_input {
  const void *data;
  size_t size;
  const trn_lift_source *sources;
  size_t source_count;
  trn_source *const *originals;
  size_t original_count;
  uint32_t next_column;             /* ids below may be in it */
  const struct ArrowSchema *schema; /* names and nullability at the root */
  const char *sql;                  /* the text, or NULL */
  trn_source *(*source_ref)(void *self, trn_source *source);
  void (*source_release)(void *source);
} trn_lift_input;

/* Gives `*out`. INVALID_ARGUMENT names what is wrong with the bytes. Iterates; recurses with the nesting of types only.
 */
trn_status trn__lift(const trn_lift_input *input, trn_plan **out, trn_error **error);

/* The columns of an Arrow schema (a struct), their ids the places. Types that are not ours are known by their format.
 */
trn_status trn__lift_columns(trn_arena *arena, const struct ArrowSchema *schema, trn_column **out, trn_error **error);
/* `expr_count` expressions over columns whose ids are their places, one after the other behind the header. */
trn_status trn__lift_exprs(trn_arena *arena, const void *data, size_t size, const trn_column *columns, uint32_t count,
                           uint32_t expr_count, const trn_expr *const **out, trn_error **error);

#endif
