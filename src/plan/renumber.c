/* A plan's relations with other column ids. */
#include "plan/plan.h"

typedef struct renumbering {
  uint32_t offset;
} renumbering;

static trn_status renumber_expr(void *user, trn_arena *arena, const trn_expr *expr, const trn_expr **out,
                                trn_error **error) {
  const renumbering *r = user;
  *out = expr;
  bool has_id = expr->kind == TRN_EXPR_COLUMN || expr->kind == TRN_EXPR_OUTER || expr->kind == TRN_EXPR_LAMBDA_VARIABLE;
  if (!has_id && expr->kind != TRN_EXPR_LAMBDA) return TRN_OK;
  trn_expr *copy = trn__arena_copy(arena, expr, sizeof *expr);
  if (!copy) return trn__no_memory(error);
  if (has_id) {
    copy->u.column += r->offset;
  } else {
    uint32_t *params = TRN_NEW_N(arena, uint32_t, expr->u.lambda.param_count);
    if (!params) return trn__no_memory(error);
    for (uint32_t i = 0; i < expr->u.lambda.param_count; i++) params[i] = expr->u.lambda.params[i] + r->offset;
    copy->u.lambda.params = params;
  }
  *out = copy;
  return TRN_OK;
}

/* The place of the first column that is the relation's own: those before it came, renumbered, from the inputs. */
static uint32_t own_columns(const trn_rel *rel) {
  switch (rel->kind) {
  case TRN_REL_FILTER:
  case TRN_REL_SORT:
  case TRN_REL_LIMIT:
  case TRN_REL_DISTINCT:
  case TRN_REL_SAMPLE:
  case TRN_REL_REPARTITION: return rel->column_count;
  case TRN_REL_WINDOW:
  case TRN_REL_UNNEST: return rel->inputs[0]->column_count;
  case TRN_REL_JOIN: return rel->u.join.type == TRN_JOIN_LEFT_MARK ? rel->column_count - 1 : rel->column_count;
  default: return 0;
  }
}

static trn_status renumber_rel(void *user, trn_arena *arena, const trn_rel *rel, const trn_rel **out,
                               trn_error **error) {
  const renumbering *r = user;
  uint32_t first = own_columns(rel);
  *out = rel;
  if (first >= rel->column_count) return TRN_OK;
  trn_rel *copy = trn__arena_copy(arena, rel, sizeof *rel);
  trn_column *columns = copy ? trn__arena_copy(arena, rel->columns, rel->column_count * sizeof *columns) : NULL;
  if (!columns) return trn__no_memory(error);
  for (uint32_t i = first; i < rel->column_count; i++) columns[i].id += r->offset;
  copy->columns = columns;
  *out = copy;
  return TRN_OK;
}

trn_status trn__renumber(trn_arena *arena, const trn_rel *root, uint32_t offset, const trn_rel **out,
                         trn_error **error) {
  renumbering r = {offset};
  trn_rewriter rewriter = {.rel = renumber_rel, .expr = renumber_expr, .user = &r};
  return trn__rel_rewrite(arena, root, &rewriter, out, error);
}
