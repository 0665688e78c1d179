/* Building expressions and relations. */
#include "plan/plan.h"

#define COPY_N(arena, items, count) trn__arena_copy((arena), (items), (count) * sizeof *(items))

trn_expr *trn__expr_create(trn_arena *arena, trn_expr_kind kind, const trn_type *type, bool nullable,
                           const trn_expr *const *args, size_t arg_count) {
  if (arg_count > UINT32_MAX) return NULL;
  trn_expr *expr = TRN_NEW(arena, trn_expr);
  if (!expr) return NULL;
  expr->kind = (uint8_t)kind;
  expr->type = type;
  expr->nullable = nullable;
  expr->position = (trn_position){-1, -1};
  if (arg_count) {
    expr->args = COPY_N(arena, args, arg_count);
    if (!expr->args) return NULL;
    expr->arg_count = (uint32_t)arg_count;
  }
  return expr;
}

trn_expr *trn__expr_column(trn_arena *arena, const trn_column *column) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_COLUMN, column->type, column->nullable, NULL, 0);
  if (expr) expr->u.column = column->id;
  return expr;
}

trn_expr *trn__expr_null(trn_arena *arena, const trn_type *type) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_LITERAL, type, true, NULL, 0);
  if (expr) expr->u.literal.is_null = true;
  return expr;
}

trn_expr *trn__expr_bool(trn_arena *arena, bool value) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_BOOL), false, NULL, 0);
  if (expr) expr->u.literal.value.boolean = value;
  return expr;
}

trn_expr *trn__expr_int(trn_arena *arena, const trn_type *type, int64_t value) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_LITERAL, type, false, NULL, 0);
  if (expr) expr->u.literal.value.integer = value;
  return expr;
}

trn_expr *trn__expr_string(trn_arena *arena, const char *data, size_t size) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_STRING), false, NULL, 0);
  if (!expr) return NULL;
  expr->u.literal.value.bytes.data = trn__arena_str(arena, data, size);
  expr->u.literal.value.bytes.size = size;
  return expr->u.literal.value.bytes.data ? expr : NULL;
}

trn_expr *trn__expr_call(trn_arena *arena, trn_function_home home, const char *name, const trn_type *type,
                         bool nullable, const trn_expr *const *args, size_t arg_count) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_CALL, type, nullable, args, arg_count);
  if (!expr) return NULL;
  expr->u.call.home = (uint8_t)home;
  expr->u.call.name = trn__arena_strdup(arena, name);
  return expr->u.call.name ? expr : NULL;
}

trn_expr *trn__expr_cast(trn_arena *arena, const trn_expr *arg, const trn_type *type, bool is_try) {
  trn_expr *expr = trn__expr_create(arena, TRN_EXPR_CAST, type, arg->nullable || is_try, &arg, 1);
  if (!expr) return NULL;
  expr->u.cast.is_try = is_try;
  expr->position = arg->position;
  return expr;
}

/* ---- relations ---- */

/* The columns themselves when an input has the very same array, else a copy. */
static const trn_column *columns_share(trn_arena *arena, const trn_rel *const *inputs, size_t input_count,
                                       const trn_column *columns, size_t count) {
  for (size_t i = 0; i < input_count; i++)
    if (inputs[i]->columns == columns && inputs[i]->column_count >= count) return columns;
  return COPY_N(arena, columns, count);
}

trn_rel *trn__rel_create(trn_arena *arena, trn_rel_kind kind, const trn_rel *const *inputs, size_t input_count,
                         const trn_expr *const *exprs, size_t expr_count, const trn_column *columns,
                         size_t column_count) {
  if (input_count > UINT32_MAX || expr_count > UINT32_MAX || column_count > UINT32_MAX) return NULL;
  trn_rel *rel = TRN_NEW(arena, trn_rel);
  if (!rel) return NULL;
  rel->kind = (uint8_t)kind;
  rel->input_count = (uint32_t)input_count;
  rel->expr_count = (uint32_t)expr_count;
  rel->column_count = (uint32_t)column_count;
  if (input_count) rel->inputs = COPY_N(arena, inputs, input_count);
  if (expr_count) rel->exprs = COPY_N(arena, exprs, expr_count);
  if (column_count) rel->columns = columns_share(arena, inputs, input_count, columns, column_count);
  bool ok = (rel->inputs || !input_count) && (rel->exprs || !expr_count) && (rel->columns || !column_count);
  return ok ? rel : NULL;
}

trn_rel *trn__rel_filter(trn_arena *arena, const trn_rel *input, const trn_expr *condition) {
  return trn__rel_create(arena, TRN_REL_FILTER, &input, 1, &condition, 1, input->columns, input->column_count);
}

trn_rel *trn__rel_project(trn_arena *arena, const trn_rel *input, const trn_expr *const *exprs,
                          const trn_column *columns, size_t count) {
  return trn__rel_create(arena, TRN_REL_PROJECT, &input, 1, exprs, count, columns, count);
}

const trn_column *trn__join_columns(trn_arena *arena, trn_join_type type, const trn_rel *left, const trn_rel *right,
                                    const trn_column *mark, uint32_t *count) {
  if (type == TRN_JOIN_LEFT_SEMI || type == TRN_JOIN_LEFT_ANTI) {
    *count = left->column_count;
    return left->columns;
  }
  uint64_t total = (uint64_t)left->column_count + (type == TRN_JOIN_LEFT_MARK ? 1 : right->column_count);
  *count = total > UINT32_MAX ? UINT32_MAX : (uint32_t)total; /* also without memory: none is another thing */
  if (!total || total > UINT32_MAX) return NULL;
  trn_column *columns = TRN_NEW_N(arena, trn_column, total);
  if (!columns) return NULL;
  bool left_null = type == TRN_JOIN_RIGHT || type == TRN_JOIN_FULL;
  bool right_null = type == TRN_JOIN_LEFT || type == TRN_JOIN_FULL;
  trn_column *at = columns;
  for (uint32_t i = 0; i < left->column_count; i++, at++) {
    *at = left->columns[i];
    at->nullable |= left_null;
  }
  if (type == TRN_JOIN_LEFT_MARK) {
    *at = *mark;
  } else {
    for (uint32_t i = 0; i < right->column_count; i++, at++) {
      *at = right->columns[i];
      at->nullable |= right_null;
    }
  }
  return columns;
}

static trn_rel *join_create(trn_arena *arena, trn_join_type type, const trn_rel *left, const trn_rel *right,
                            const trn_expr *condition, const trn_column *mark) {
  uint32_t count = 0;
  const trn_column *columns = trn__join_columns(arena, type, left, right, mark, &count);
  if (!columns && count) return NULL;
  const trn_rel *inputs[] = {left, right};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_JOIN, inputs, 2, &condition, condition ? 1 : 0, NULL, 0);
  if (!rel) return NULL;
  rel->columns = columns;
  rel->column_count = count;
  rel->u.join.type = (uint8_t)type;
  return rel;
}

trn_rel *trn__rel_join(trn_arena *arena, trn_join_type type, const trn_rel *left, const trn_rel *right,
                       const trn_expr *condition) {
  TRN_ASSERT(type != TRN_JOIN_LEFT_MARK);
  return type == TRN_JOIN_LEFT_MARK ? NULL : join_create(arena, type, left, right, condition, NULL);
}

trn_rel *trn__rel_mark_join(trn_arena *arena, const trn_rel *left, const trn_rel *right, const trn_expr *condition,
                            uint32_t mark) {
  trn_column column = {.id = mark, .nullable = true, .type = trn__type(TRN_TYPE_BOOL)};
  return join_create(arena, TRN_JOIN_LEFT_MARK, left, right, condition, &column);
}
