/* Subqueries in the condition of an outer, semi or anti join. */
#include "optimize/decorrelate.h"

/* left.column is not distinct from the column of `copy` at its place, for all columns. */
static const trn_expr *same_row(dec *d, const trn_column *left, const trn_column *copy, uint32_t count) {
  const trn_expr *all = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const trn_expr *a = trn__expr_column(d->arena, &left[i]), *b = trn__expr_column(d->arena, &copy[i]);
    const trn_expr *args[2] = {a, b};
    const trn_expr *same = a && b ? trn__expr_call(d->arena, TRN_HOME_NATIVE, "is_not_distinct_from",
                                                   trn__type(TRN_TYPE_BOOL), false, args, 2)
                                  : NULL;
    if (!same || !(all = trn__dec_and(d, all, same))) return NULL;
  }
  return all ? all : trn__expr_bool(d->arena, true);
}

/* The different rows of `input` under new ids (copy[]). */
static const trn_rel *different_rows(dec *d, const trn_rel *input, trn_column *copy) {
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, input->column_count + 1);
  if (!exprs) return NULL;
  for (uint32_t i = 0; i < input->column_count; i++) {
    copy[i] = trn__dec_column(d, input->columns[i].type, input->columns[i].nullable);
    if (!(exprs[i] = trn__expr_column(d->arena, &input->columns[i]))) return NULL;
  }
  const trn_rel *named = trn__rel_project(d->arena, input, exprs, copy, input->column_count);
  return named ? trn__rel_create(d->arena, TRN_REL_DISTINCT, &named, 1, NULL, 0, copy, input->column_count) : NULL;
}

/* The subqueries of a renamed condition still name the old columns as OUTER ones: a projection gives both names. */
static const trn_rel *under_old_names(dec *d, const trn_rel *input, const trn_column *from, const trn_column *to,
                                      uint32_t count) {
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, count + 1);
  if (!exprs) return NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!(exprs[i] = trn__expr_column(d->arena, &to[i]))) return NULL;
  return trn__rel_project(d->arena, input, exprs, from, count);
}

/* The columns under new ids; those below `nulls` are NULL instead. */
static const trn_rel *renamed(dec *d, const trn_rel *input, const trn_column *columns, uint32_t count, uint32_t nulls,
                              trn_column *made) {
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, count + 1);
  if (!exprs) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    made[i] = trn__dec_column(d, columns[i].type, true);
    exprs[i] = i < nulls ? trn__expr_null(d->arena, columns[i].type) : trn__expr_column(d->arena, &columns[i]);
    if (!exprs[i]) return NULL;
  }
  return trn__rel_project(d->arena, input, exprs, made, count);
}

/* FULL: the left rows with what matches them, then the right rows that match none. `pairs`: the former; `matches`: has the
 * right rows that match. */
static trn_status add_unmatched(dec *d, const trn_rel *rel, const trn_rel *pairs, const trn_rel *right,
                                const trn_rel *matches, const trn_rel **out) {
  uint32_t total = rel->column_count, width = total - right->column_count;
  trn_column *made = TRN_NEW_N(d->arena, trn_column, total + 1);
  if (!made) return trn__no_memory(d->error);
  const trn_rel *matched = renamed(d, matches, right->columns, right->column_count, 0, made);
  const trn_expr *same = matched ? same_row(d, right->columns, made, right->column_count) : NULL;
  const trn_rel *rest = same ? trn__rel_join(d->arena, TRN_JOIN_LEFT_ANTI, right, matched, same) : NULL;
  const trn_rel *inputs[2] = {renamed(d, pairs, rel->columns, total, 0, made),
                              rest ? renamed(d, rest, rel->columns, total, width, made) : NULL};
  if (!inputs[0] || !inputs[1]) return trn__no_memory(d->error);
  *out = trn__rel_create(d->arena, TRN_REL_UNION, inputs, 2, NULL, 0, rel->columns, total);
  return *out ? TRN_OK : trn__no_memory(d->error);
}

/* LEFT, FULL, SEMI and ANTI joins on a condition with subqueries: which of the different left rows match which right rows is
 * a filter over their product; the left rows are then joined with that. */
trn_status trn__fix_outer_join(dec *d, const trn_rel *rel, const trn_rel *const *inputs, const trn_rel **out) {
  trn_join_type type = (trn_join_type)rel->u.join.type;
  bool swapped = type == TRN_JOIN_RIGHT;
  if (type == TRN_JOIN_LEFT_MARK)
    return trn_error_set(d->error, TRN_UNIMPLEMENTED, NULL, "a subquery in the condition of a mark join is not supported yet");
  const trn_rel *left = inputs[swapped], *right = inputs[!swapped], *matches = NULL;
  uint32_t width = left->column_count;
  trn_column *copy = TRN_NEW_N(d->arena, trn_column, width + 1), *keys = TRN_NEW_N(d->arena, trn_column, width + 1);
  if (!copy || !keys) return trn__no_memory(d->error);
  const trn_rel *different = different_rows(d, left, copy);
  if (different) different = under_old_names(d, different, left->columns, copy, width);
  const trn_rel *product = different ? trn__rel_join(d->arena, TRN_JOIN_INNER, different, right, NULL) : NULL;
  if (!product) return trn__no_memory(d->error);
  trn_status status = trn__fix_filter(d, product, product, rel->exprs[0], &matches);
  if (status) return status;
  /* the left half gets ids of its own, so that it can be joined with the left rows; the right half keeps its ids */
  uint32_t total = width + right->column_count;
  const trn_expr **exprs = TRN_NEW_N(d->arena, const trn_expr *, total + 1);
  trn_column *columns = TRN_NEW_N(d->arena, trn_column, total + 1);
  if (!exprs || !columns) return trn__no_memory(d->error);
  for (uint32_t i = 0; i < total; i++) {
    const trn_column *from = i < width ? &left->columns[i] : &right->columns[i - width];
    columns[i] = i < width ? trn__dec_column(d, from->type, from->nullable) : *from;
    if (i < width) keys[i] = columns[i];
    if (!(exprs[i] = trn__expr_column(d->arena, from))) return trn__no_memory(d->error);
  }
  matches = trn__rel_project(d->arena, matches, exprs, columns, total);
  const trn_expr *same = same_row(d, left->columns, keys, width);
  if (!matches || !same) return trn__no_memory(d->error);
  bool keeps_left = swapped || type == TRN_JOIN_FULL;
  const trn_rel *join = trn__rel_join(d->arena, keeps_left ? TRN_JOIN_LEFT : type, left, matches, same);
  if (!join) return trn__no_memory(d->error);
  if (type == TRN_JOIN_FULL) return add_unmatched(d, rel, join, right, matches, out);
  *out = trn__dec_project(d, join, rel->columns, rel->column_count);
  return *out ? TRN_OK : trn__no_memory(d->error);
}

const trn_rel *trn__dec_some_column(dec *d, const trn_rel *rel) {
  if (rel->column_count > 0) return rel;
  const trn_expr *any = trn__expr_bool(d->arena, true);
  const trn_column column = trn__dec_column(d, trn__type(TRN_TYPE_BOOL), false);
  return any ? trn__rel_project(d->arena, rel, &any, &column, 1) : NULL;
}
