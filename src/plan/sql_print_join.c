/* Semi, anti and mark joins as SQL text: IN where the condition is equalities, else EXISTS. */
#include "plan/sql_print_rel.h"

/* The condition, taken apart: left values that equal right ones; what only the right side decides; the rest. */
typedef struct parts {
  trn_vec left, right; /* of trn_expr */
  trn_vec right_only, mixed;
} parts;

typedef struct sides {
  const trn_rel *left, *right;
  bool sees_left, sees_right;
} sides;

static bool gives(const trn_rel *rel, uint32_t id) {
  for (uint32_t i = 0; i < rel->column_count; i++)
    if (rel->columns[i].id == id) return true;
  return false;
}

static trn_walk see(void *user, const trn_expr *expr, const trn_rel *holder) {
  sides *s = user;
  (void)holder;
  if (expr->kind != TRN_EXPR_COLUMN) return TRN_WALK_ON;
  if (gives(s->left, expr->u.column))
    s->sees_left = true;
  else
    s->sees_right = true;
  return TRN_WALK_ON;
}

static trn_status look(const trn_rel *rel, const trn_expr *e, sides *out) {
  *out = (sides){.left = rel->inputs[0], .right = rel->inputs[1]};
  return trn__expr_walk(e, &(trn_visitor){.expr = see, .user = out});
}

static bool is_native(const trn_expr *e, const char *name) {
  return e->kind == TRN_EXPR_CALL && e->u.call.home == TRN_HOME_NATIVE && strcmp(e->u.call.name, name) == 0;
}

static trn_status add(trn_vec *vec, const trn_expr *e) {
  return trn__vec_push(vec, (void *)e) ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

static trn_status place(const trn_rel *rel, const trn_expr *e, parts *out) {
  sides all, a, b;
  trn_status status = look(rel, e, &all);
  if (status) return status;
  if (!all.sees_left) return add(&out->right_only, e);
  if (!is_native(e, "=") || e->arg_count != 2) return add(&out->mixed, e);
  if ((status = look(rel, e->args[0], &a)) || (status = look(rel, e->args[1], &b))) return status;
  bool is_straight = !a.sees_right && !b.sees_left && b.sees_right;
  bool is_swapped = !b.sees_right && !a.sees_left && a.sees_right;
  if (!is_straight && !is_swapped) return add(&out->mixed, e);
  status = add(&out->left, e->args[is_swapped]);
  return status ? status : add(&out->right, e->args[is_straight]);
}

static trn_status take_apart(const trn_rel *rel, parts *out) {
  trn_vec todo = {0};
  trn_status status = rel->expr_count ? add(&todo, rel->exprs[0]) : TRN_OK;
  while (!status && todo.count) {
    const trn_expr *e = todo.items[--todo.count];
    if (!is_native(e, "and")) {
      status = place(rel, e, out);
      continue;
    }
    for (uint32_t i = 0; !status && i < e->arg_count; i++) status = add(&todo, e->args[i]);
  }
  trn__vec_finish(&todo);
  return status;
}

static void parts_finish(parts *p) {
  trn__vec_finish(&p->left);
  trn__vec_finish(&p->right);
  trn__vec_finish(&p->right_only);
  trn__vec_finish(&p->mixed);
}

static trn_status where(sql_printer *p, const trn_vec *conditions) {
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < conditions->count; i++) {
    trn__sql_puts(p, i ? " AND " : " WHERE ");
    status = trn__sql_expr(p, conditions->items[i]);
  }
  return status;
}

static trn_status values(sql_printer *p, const trn_vec *exprs) {
  return trn__sql_exprs(p, (const trn_expr *const *)exprs->items, (uint32_t)exprs->count);
}

/* (a, b) IN (SELECT x, y FROM right ...): true exactly when a right row equals, else false or null. */
static trn_status in_print(sql_printer *p, const trn_rel *rel, const parts *parts) {
  bool is_row = parts->left.count > 1;
  trn__sql_puts(p, is_row ? "((" : "(");
  trn_status status = values(p, &parts->left);
  trn__sql_puts(p, is_row ? ") IN (SELECT " : " IN (SELECT ");
  if (!status) status = values(p, &parts->right);
  trn__sql_puts(p, " FROM ");
  trn__sql_cte_name(p, rel->inputs[1]);
  if (!status) status = where(p, &parts->right_only);
  trn__sql_puts(p, "))");
  return status;
}

static trn_status exists_print(sql_printer *p, const trn_rel *rel) {
  trn__sql_puts(p, "(EXISTS (SELECT 1 FROM ");
  trn__sql_cte_name(p, rel->inputs[1]);
  trn_status status = TRN_OK;
  if (rel->expr_count) {
    trn__sql_puts(p, " WHERE ");
    status = trn__sql_expr(p, rel->exprs[0]);
  }
  trn__sql_puts(p, "))");
  return status;
}

static bool is_in(const parts *parts) {
  return parts->left.count && !parts->mixed.count;
}

static trn_status condition(sql_printer *p, const trn_rel *rel, const parts *parts) {
  return is_in(parts) ? in_print(p, rel, parts) : exists_print(p, rel);
}

static trn_status print(sql_printer *p, const trn_rel *rel, const parts *parts) {
  trn_join_type type = (trn_join_type)rel->u.join.type;
  trn_status status = TRN_OK;
  if (rel->u.join.null_aware && (parts->left.count != 1 || parts->mixed.count))
    return trn__sql_refuse(p, "NOT IN with such a condition");
  /* SQLite would read the right side once for each left row. */
  if (parts->mixed.count && !p->dialect->correlates)
    return trn__sql_refuse(p, "EXISTS with a condition that is no equality");
  trn__sql_puts(p, "SELECT ");
  trn__sql_columns(p, rel->inputs[0]->columns, rel->inputs[0]->column_count);
  if (type == TRN_JOIN_LEFT_MARK) {
    trn__sql_puts(p, ", (");
    status = condition(p, rel, parts);
    trn__sql_printf(p, " IS TRUE) AS c%u", rel->columns[rel->column_count - 1].id);
  }
  trn__sql_puts(p, " FROM ");
  trn__sql_cte_name(p, rel->inputs[0]);
  if (status || type == TRN_JOIN_LEFT_MARK) return status;
  trn__sql_puts(p, " WHERE ");
  bool is_plain_anti = type == TRN_JOIN_LEFT_ANTI && !is_in(parts); /* EXISTS is never null; optimizers know NOT EXISTS */
  if (is_plain_anti) trn__sql_puts(p, "NOT ");
  status = condition(p, rel, parts);
  if (type == TRN_JOIN_LEFT_ANTI && !is_plain_anti) trn__sql_puts(p, rel->u.join.null_aware ? " IS FALSE" : " IS NOT TRUE");
  return status;
}

trn_status trn__sql_existence(sql_printer *p, const trn_rel *rel) {
  parts parts = {0};
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  if (!status) status = trn__sql_relation(p, rel->inputs[1]);
  if (!status && take_apart(rel, &parts)) status = trn__no_memory(p->error);
  if (!status) status = print(p, rel, &parts);
  parts_finish(&parts);
  return status;
}

/* ---- filters go below semi and anti joins, whose rows are the left side's: fewer rows look for a match ---- */

static const trn_rel *lower(trn_arena *arena, const trn_rel *rel, const trn_expr *condition, unsigned depth) {
  bool is_kept = rel->kind == TRN_REL_JOIN && depth < TRN_SQL_PRINT_DEPTH_MAX &&
                 (rel->u.join.type == TRN_JOIN_LEFT_SEMI || rel->u.join.type == TRN_JOIN_LEFT_ANTI);
  if (!is_kept) return trn__rel_filter(arena, rel, condition);
  const trn_rel *left = lower(arena, rel->inputs[0], condition, depth + 1);
  trn_rel *join = left ? trn__rel_join(arena, (trn_join_type)rel->u.join.type, left, rel->inputs[1],
                                       rel->expr_count ? rel->exprs[0] : NULL)
                       : NULL;
  if (join) join->u.join.null_aware = rel->u.join.null_aware;
  return join;
}

static trn_status lower_filter(void *user, trn_arena *arena, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)user;
  *out = rel->kind == TRN_REL_FILTER ? lower(arena, rel->inputs[0], rel->exprs[0], 0) : rel;
  return *out ? TRN_OK : trn__no_memory(error);
}

trn_status trn__sql_lower_filters(trn_arena *arena, const trn_rel *root, const trn_rel **out, trn_error **error) {
  return trn__rel_rewrite(arena, root, &(trn_rewriter){.rel = lower_filter}, out, error);
}
