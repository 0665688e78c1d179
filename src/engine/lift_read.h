/* The state of lifting, and reading what the encoding is made of. */
#ifndef TRN_ENGINE_LIFT_READ_H
#define TRN_ENGINE_LIFT_READ_H
#include "engine/lift.h"

/* One of the stack: a relation or an expression. */
typedef struct trn_lift_item {
  const trn_rel *rel;
  const trn_expr *expr;
} trn_lift_item;

typedef struct trn_lifting {
  const trn_lift_input *in;
  trn_arena *arena;
  trn_error **error;
  const uint8_t *at, *end;
  trn_lift_item *items;
  size_t count, capacity;
  const trn_rel **shared; /* by slot */
  size_t shared_capacity;
  trn_column *known; /* by id, as last seen; type NULL: not yet */
  size_t known_capacity;
  uint32_t next; /* ids below are taken */
  bool *held;    /* by source: the arena has its references */
} trn_lifting;

trn_status trn__lift_invalid(trn_lifting *l, const char *what);

/* Readers give INVALID_ARGUMENT at the end of the bytes. */
trn_status trn__lift_u8(trn_lifting *l, uint8_t *out);
trn_status trn__lift_flag(trn_lifting *l, bool *out);
trn_status trn__lift_u32(trn_lifting *l, uint32_t *out);
trn_status trn__lift_u64(trn_lifting *l, uint64_t *out);
trn_status trn__lift_i64(trn_lifting *l, int64_t *out);
trn_status trn__lift_f64(trn_lifting *l, double *out);
trn_status trn__lift_text(trn_lifting *l, const char **out, size_t *size); /* a copy in the arena; size may be NULL */
/* A count of things that take at least `size` bytes each. */
trn_status trn__lift_count(trn_lifting *l, size_t size, uint32_t *out);
trn_status trn__lift_flags(trn_lifting *l, uint32_t count, const trn_sort_flags **out);
trn_status trn__lift_type(trn_lifting *l, const trn_type **out);

/* The stack. Popping what is not there, or is of the other kind, is invalid. */
trn_status trn__lift_push_rel(trn_lifting *l, const trn_rel *rel); /* its columns become known; NULL: no memory */
trn_status trn__lift_push_expr(trn_lifting *l, const trn_expr *expr);
trn_status trn__lift_pop_rel(trn_lifting *l, const trn_rel **out);
trn_status trn__lift_pop_exprs(trn_lifting *l, uint32_t count, const trn_expr ***out); /* first pushed first */
/* The column with this id; invalid when no relation had it. */
trn_status trn__lift_known(trn_lifting *l, uint32_t id, const trn_column **out);

trn_status trn__lift_expr(trn_lifting *l, uint8_t op);
trn_status trn__lift_rel(trn_lifting *l, uint8_t op);

#endif
