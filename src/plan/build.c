/* Plans from nothing, from outside: what an edit can make besides the nodes of a rewriting. */
#include "core/query.h"
#include "plan/edit.h"
#include <trunnion/build.h>

static const trn_rel *made(trn_edit *edit, const trn_rel *rel) {
  if (!rel) edit->failed = true;
  return rel;
}

/* ---- the plan ---- */

static const trn_field *name_columns(trn_arena *arena, const trn_rel *root, const char *const *names) {
  trn_field *fields = TRN_NEW_N(arena, trn_field, root->column_count);
  for (uint32_t i = 0; fields && i < root->column_count; i++) {
    const char *name = names && names[i] ? names[i] : "";
    fields[i] = (trn_field){
        .name = trn__arena_strdup(arena, name), .type = root->columns[i].type, .nullable = root->columns[i].nullable};
    if (!fields[i].name) return NULL;
  }
  return fields;
}

trn_status trn_plan_build(trn_plan_builder build, void *user, trn_plan **out, trn_error **error) {
  *out = NULL;
  trn_edit edit = {.arena = trn__arena_create(0), .next_column = 1};
  const trn_rel *root = NULL;
  const char *const *names = NULL;
  const trn_field *fields = NULL;
  if (!edit.arena) return trn__no_memory(error);
  trn_status status = build(user, &edit, &root, &names, error);
  if (status == TRN_OK && edit.failed) status = trn__no_memory(error);
  if (status == TRN_OK && !root)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the builder of a plan gave no root");
  if (status == TRN_OK && !(fields = name_columns(edit.arena, root, names))) status = trn__no_memory(error);
  if (status == TRN_OK) {
    status = trn__plan_create(edit.arena, root, fields, edit.next_column, NULL, NULL, out);
    return status ? trn__no_memory(error) : TRN_OK;
  }
  trn__arena_unref(edit.arena);
  return status;
}

/* ---- another plan inside ---- */

/* Ids from `limit` on are new: old ones are below it. */
typedef struct renumbering {
  uint32_t limit, base;
} renumbering;

static uint32_t renumber(const renumbering *r, uint32_t id) {
  return id < r->limit ? id + r->base : id;
}

static trn_status renumber_rel(void *user, trn_arena *arena, const trn_rel *rel, const trn_rel **out,
                               trn_error **error) {
  const renumbering *r = user;
  bool has_old = false;
  for (uint32_t i = 0; i < rel->column_count; i++) has_old |= rel->columns[i].id < r->limit;
  if (!has_old) return TRN_OK;
  trn_rel *copy = trn__arena_copy(arena, rel, sizeof *rel);
  trn_column *columns = trn__arena_copy(arena, rel->columns, rel->column_count * sizeof *columns);
  if (!copy || !columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < rel->column_count; i++) columns[i].id = renumber(r, columns[i].id);
  copy->columns = columns;
  *out = copy;
  return TRN_OK;
}

static trn_status renumber_expr(void *user, trn_arena *arena, const trn_expr *expr, const trn_expr **out,
                                trn_error **error) {
  const renumbering *r = user;
  bool is_column =
      expr->kind == TRN_EXPR_COLUMN || expr->kind == TRN_EXPR_OUTER || expr->kind == TRN_EXPR_LAMBDA_VARIABLE;
  if (!is_column && expr->kind != TRN_EXPR_LAMBDA) return TRN_OK;
  trn_expr *copy = trn__arena_copy(arena, expr, sizeof *expr);
  if (!copy) return trn__no_memory(error);
  copy->position = (trn_position){-1, -1};
  if (is_column) {
    copy->u.column = renumber(r, expr->u.column);
  } else {
    size_t count = expr->u.lambda.param_count;
    uint32_t *params = trn__arena_copy(arena, expr->u.lambda.params, count * sizeof *params);
    if (!params) return trn__no_memory(error);
    for (size_t i = 0; i < count; i++) params[i] = renumber(r, params[i]);
    copy->u.lambda.params = params;
  }
  *out = copy;
  return TRN_OK;
}

static void release_plan(void *plan) {
  trn_plan_unref(plan);
}

const trn_rel *trn_edit_plan(trn_edit *edit, trn_plan *plan) {
  if (!plan || plan->kind != TRN_PLAN_LOGICAL) return NULL;
  uint32_t base = edit->next_column > plan->next_column ? edit->next_column : plan->next_column;
  if (base > UINT32_MAX / 2) return made(edit, NULL);
  renumbering r = {.limit = plan->next_column, .base = base};
  const trn_rewriter rewriter = {.rel = renumber_rel, .expr = renumber_expr, .user = &r};
  const trn_rel *root = NULL;
  if (!trn__arena_own(edit->arena, release_plan, trn_plan_ref(plan))) {
    trn_plan_unref(plan);
    return made(edit, NULL);
  }
  if (trn__rel_rewrite(edit->arena, plan->root, &rewriter, &root, NULL)) return made(edit, NULL);
  edit->next_column = base + plan->next_column;
  return root;
}

/* ---- nodes ---- */

const trn_rel *trn_edit_join(trn_edit *edit, trn_join_type type, const trn_rel *left, const trn_rel *right,
                             const trn_expr *condition) {
  if (!left || !right || (unsigned)type >= TRN_JOIN_LEFT_MARK) return NULL;
  return made(edit, trn__rel_join(edit->arena, type, left, right, condition));
}

const trn_rel *trn_edit_range(trn_edit *edit, int64_t start, int64_t end, int64_t step) {
  if (!step) return NULL;
  const trn_column column = {.id = edit->next_column++, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *rel = trn__rel_create(edit->arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  if (rel) {
    rel->u.range.start = start;
    rel->u.range.end = end;
    rel->u.range.step = step;
  }
  return made(edit, rel);
}

const trn_rel *trn_edit_values(trn_edit *edit, const trn_expr *const *exprs, size_t row_count, size_t column_count) {
  if (row_count > UINT32_MAX || column_count > UINT32_MAX || (column_count && row_count > UINT32_MAX / column_count))
    return made(edit, NULL);
  size_t count = row_count * column_count;
  for (size_t i = 0; i < count; i++)
    if (!exprs[i] || !trn__type_equal(exprs[i]->type, exprs[i % column_count]->type)) return NULL;
  if (!row_count && column_count) return NULL; /* of which types? */
  trn_column *columns = TRN_NEW_N(edit->arena, trn_column, column_count);
  if (!columns) return made(edit, NULL);
  for (size_t i = 0; i < column_count; i++) {
    columns[i] = (trn_column){.id = edit->next_column++, .type = exprs[i]->type};
    for (size_t row = 0; row < row_count; row++) columns[i].nullable |= exprs[row * column_count + i]->nullable;
  }
  trn_rel *rel = trn__rel_create(edit->arena, TRN_REL_VALUES, NULL, 0, exprs, count, columns, column_count);
  if (rel) rel->u.values.row_count = (uint32_t)row_count;
  return made(edit, rel);
}

const trn_rel *trn_edit_read(trn_edit *edit, trn_session *session, trn_source *source, const struct ArrowSchema *schema,
                             trn_scan_label *label) {
  if (!source || !schema || schema->n_children < 0 || schema->n_children > UINT32_MAX) return NULL;
  uint32_t count = (uint32_t)schema->n_children;
  trn_column *columns = TRN_NEW_N(edit->arena, trn_column, count);
  uint32_t *indexes = TRN_NEW_N(edit->arena, uint32_t, count);
  bool ok = columns && indexes && !trn__label_hold(edit->arena, label) &&
            !trn__source_hold(edit->arena, trn_session_backend(session), source);
  for (uint32_t i = 0; i < count && ok; i++) {
    trn_field field;
    ok = trn__field_import_any(edit->arena, schema->children[i], &field, NULL) == TRN_OK;
    if (ok) columns[i] = (trn_column){.id = edit->next_column++, .type = field.type, .nullable = field.nullable};
    indexes[i] = i;
  }
  trn_rel *rel = ok ? trn__rel_create(edit->arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, count) : NULL;
  if (rel) {
    rel->u.scan.source = source;
    rel->u.scan.indexes = indexes;
    rel->u.scan.info = label;
    rel->u.scan.label = "";
  }
  return made(edit, rel);
}

const trn_rel *trn_edit_sort(trn_edit *edit, const trn_rel *input, const trn_expr *const *keys,
                             const bool *is_descending, size_t count) {
  if (!input || !count) return NULL;
  trn_sort_flags *flags = TRN_NEW_N(edit->arena, trn_sort_flags, count);
  if (!flags) return made(edit, NULL);
  for (size_t i = 0; i < count; i++) {
    if (!keys[i]) return NULL;
    bool descends = is_descending && is_descending[i];
    flags[i] = (trn_sort_flags){.descending = descends, .nulls_first = !descends};
  }
  trn_rel *rel =
      trn__rel_create(edit->arena, TRN_REL_SORT, &input, 1, keys, count, input->columns, input->column_count);
  if (rel) {
    rel->u.sort.flags = flags;
    rel->u.sort.fetch = -1;
    rel->u.sort.is_global = true;
  }
  return made(edit, rel);
}
