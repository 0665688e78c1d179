/* New plans from old ones, from outside: rewriting with a builder, and the guarded form of a scan. */
#include "plan/edit.h"
#include "core/query.h"
#include <trunnion/function.h>

/* ---- rewriting ---- */

typedef struct bridge {
  trn_edit *edit;
  const trn_rewriting *given;
} bridge;

static trn_status bridge_rel(void *user, trn_arena *arena, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  bridge *b = user;
  (void)arena;
  *out = rel;
  trn_status status = b->given->rel ? b->given->rel(b->given->user, b->edit, rel, out, error) : TRN_OK;
  return status == TRN_OK && (b->edit->failed || !*out) ? trn__no_memory(error) : status;
}

static trn_status bridge_expr(void *user, trn_arena *arena, const trn_expr *expr, const trn_expr **out,
                              trn_error **error) {
  bridge *b = user;
  (void)arena;
  *out = expr;
  trn_status status = b->given->expr ? b->given->expr(b->given->user, b->edit, expr, out, error) : TRN_OK;
  return status == TRN_OK && (b->edit->failed || !*out) ? trn__no_memory(error) : status;
}

static void release_plan(void *plan) {
  trn_plan_unref(plan);
}

/* Another root in a plan that is otherwise the old one. Takes the arena, also on failure. */
static trn_status plan_with(trn_plan *old, trn_arena *arena, const trn_rel *root, uint32_t next_column, trn_plan **out,
                            trn_error **error) {
  trn_plan *plan = TRN_NEW(arena, trn_plan);
  if (plan && trn__arena_own(arena, release_plan, trn_plan_ref(old))) {
    atomic_init(&plan->refs, 1);
    atomic_init(&plan->has_fingerprint, false);
    atomic_flag_clear(&plan->fingerprint_taken);
    atomic_init(&plan->found_functions, NULL);
    plan->arena = arena;
    plan->root = root;
    plan->fields = old->fields;
    plan->field_count = old->field_count;
    plan->next_column = next_column;
    plan->timezone = old->timezone;
    plan->sql = old->sql;
    plan->kind = old->kind;
    plan->functions = old->functions;
    plan->function_count = old->function_count;
    *out = plan;
    return TRN_OK;
  }
  if (plan) trn_plan_unref(old);
  trn__arena_unref(arena);
  return trn__no_memory(error);
}

static bool same_columns(const trn_rel *a, const trn_rel *b) {
  if (a->column_count != b->column_count) return false;
  for (uint32_t i = 0; i < a->column_count; i++)
    if (!trn__type_same_shape(a->columns[i].type, b->columns[i].type)) return false;
  return true;
}

trn_status trn_plan_rewrite(trn_plan *plan, const trn_rewriting *given, trn_plan **out, trn_error **error) {
  *out = NULL;
  trn_rewriting rewriting = {0};
  memcpy(&rewriting, given, trn__struct_size(given->struct_size, sizeof rewriting));
  trn_edit edit = {.arena = trn__arena_create(0), .next_column = plan->next_column};
  if (!edit.arena) return trn__no_memory(error);
  bridge b = {&edit, &rewriting};
  trn_rewriter rewriter = {.rel = bridge_rel, .expr = bridge_expr, .user = &b};
  const trn_rel *root = NULL;
  trn_status status = trn__rel_rewrite(edit.arena, plan->root, &rewriter, &root, error);
  if (status == TRN_OK && root != plan->root && !same_columns(root, plan->root))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a rewritten plan gives other columns than the old one");
  if (status == TRN_OK && root != plan->root) return plan_with(plan, edit.arena, root, edit.next_column, out, error);
  if (status == TRN_OK) *out = trn_plan_ref(plan);
  trn__arena_unref(edit.arena);
  return status;
}

/* ---- the builder ---- */

bool trn_edit_failed(const trn_edit *edit) {
  return edit->failed;
}

static const trn_expr *made(trn_edit *edit, const trn_expr *expr) {
  if (!expr) edit->failed = true;
  return expr;
}

static const trn_rel *made_rel(trn_edit *edit, const trn_rel *rel) {
  if (!rel) edit->failed = true;
  return rel;
}

static bool all_there(const trn_expr *const *exprs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!exprs[i]) return false;
  return true;
}

const trn_type *trn_edit_type(trn_edit *edit, trn_type_id id) {
  (void)edit;
  return (unsigned)id < TRN_TYPE_ARRAY ? trn__type(id) : NULL;
}

const trn_type *trn_edit_decimal(trn_edit *edit, int precision, int scale) {
  if (precision < 1 || precision > 38 || scale < 0 || scale > precision) return NULL;
  const trn_type *type = trn__type_decimal(edit->arena, precision, scale);
  if (!type) edit->failed = true;
  return type;
}

const trn_expr *trn_edit_column(trn_edit *edit, const trn_rel *rel, size_t index) {
  if (!rel || index >= rel->column_count) return NULL;
  return made(edit, trn__expr_column(edit->arena, &rel->columns[index]));
}

const trn_expr *trn_edit_null(trn_edit *edit, const trn_type *type) {
  return type ? made(edit, trn__expr_null(edit->arena, type)) : NULL;
}
const trn_expr *trn_edit_bool(trn_edit *edit, bool value) {
  return made(edit, trn__expr_bool(edit->arena, value));
}
const trn_expr *trn_edit_int(trn_edit *edit, const trn_type *type, int64_t value) {
  return type ? made(edit, trn__expr_int(edit->arena, type, value)) : NULL;
}

const trn_expr *trn_edit_double(trn_edit *edit, double value) {
  trn_expr *expr = trn__expr_create(edit->arena, TRN_EXPR_LITERAL, trn__type(TRN_TYPE_FLOAT64), false, NULL, 0);
  if (expr) expr->u.literal.value.number = value;
  return made(edit, expr);
}

const trn_expr *trn_edit_text(trn_edit *edit, const char *data, size_t size) {
  return made(edit, trn__expr_string(edit->arena, data, size));
}

const trn_expr *trn_edit_call(trn_edit *edit, trn_function_home home, const char *name, const trn_type *type,
                              bool nullable, const trn_expr *const *args, size_t count) {
  if (!type || !all_there(args, count)) return NULL;
  return made(edit, trn__expr_call(edit->arena, home, name, type, nullable, args, count));
}

const trn_expr *trn_edit_cast(trn_edit *edit, const trn_expr *expr, const trn_type *type, bool is_try) {
  if (!expr || !type || trn__type_equal(expr->type, type)) return expr;
  if (expr->kind == TRN_EXPR_LITERAL && expr->u.literal.is_null) return trn_edit_null(edit, type);
  return made(edit, trn__expr_cast(edit->arena, expr, type, is_try));
}

const trn_expr *trn_edit_case(trn_edit *edit, const trn_expr *const *args, size_t count) {
  if (count < 2 || !all_there(args, count)) return NULL;
  bool nullable = count % 2 == 0;
  for (size_t i = 1; i < count; i += 2) nullable |= args[i]->nullable;
  if (count % 2) nullable |= args[count - 1]->nullable;
  return made(edit, trn__expr_create(edit->arena, TRN_EXPR_CASE, args[1]->type, nullable, args, count));
}

/* ---- lambdas ---- */

const trn_expr *trn_edit_lambda_variable(trn_edit *edit, const trn_type *type, bool nullable) {
  if (!type) return NULL;
  const trn_type *open = trn__type_all_nullable(edit->arena, type, 0);
  trn_expr *expr = open ? trn__expr_create(edit->arena, TRN_EXPR_LAMBDA_VARIABLE, open, nullable, NULL, 0) : NULL;
  if (expr) expr->u.column = edit->next_column++;
  return made(edit, expr);
}

static bool are_variables(const trn_expr *const *params, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!params[i] || params[i]->kind != TRN_EXPR_LAMBDA_VARIABLE) return false;
    for (size_t k = 0; k < i; k++)
      if (params[k]->u.column == params[i]->u.column) return false;
  }
  return true;
}

const trn_expr *trn_edit_lambda(trn_edit *edit, const trn_expr *const *params, size_t count, const trn_expr *body) {
  if (!body || count > TRN_LAMBDA_PARAMETERS_MAX || !are_variables(params, count)) return NULL;
  trn_expr *expr = trn__expr_create(edit->arena, TRN_EXPR_LAMBDA, body->type, body->nullable, &body, 1);
  uint32_t *ids = TRN_NEW_N(edit->arena, uint32_t, count ? count : 1);
  if (!expr || !ids) return made(edit, NULL);
  for (size_t i = 0; i < count; i++) ids[i] = params[i]->u.column;
  expr->u.lambda.param_count = (uint32_t)count;
  expr->u.lambda.params = ids;
  return expr;
}

const trn_rel *trn_edit_filter(trn_edit *edit, const trn_rel *input, const trn_expr *condition) {
  return input && condition ? made_rel(edit, trn__rel_filter(edit->arena, input, condition)) : NULL;
}

const trn_rel *trn_edit_project(trn_edit *edit, const trn_rel *input, const trn_expr *const *exprs, size_t count,
                                bool keep_ids) {
  if (!input || !all_there(exprs, count)) return NULL;
  trn_column *columns = TRN_NEW_N(edit->arena, trn_column, count);
  if (!columns) return made_rel(edit, NULL);
  for (size_t i = 0; i < count; i++) {
    bool keeps = keep_ids && exprs[i]->kind == TRN_EXPR_COLUMN;
    columns[i] = (trn_column){.id = keeps ? exprs[i]->u.column : edit->next_column++,
                              .nullable = exprs[i]->nullable,
                              .type = exprs[i]->type};
  }
  return made_rel(edit, trn__rel_project(edit->arena, input, exprs, columns, count));
}

const trn_rel *trn_edit_limit(trn_edit *edit, const trn_rel *input, int64_t skip, int64_t fetch) {
  if (!input) return NULL;
  trn_rel *rel =
      trn__rel_create(edit->arena, TRN_REL_LIMIT, &input, 1, NULL, 0, input->columns, input->column_count);
  if (rel) rel->u.limit.skip = skip, rel->u.limit.fetch = fetch;
  return made_rel(edit, rel);
}

const trn_rel *trn_edit_scan(trn_edit *edit, const trn_rel *scan, trn_backend *backend, trn_source *source,
                             trn_scan_label *label) {
  if (!scan || scan->kind != TRN_REL_SCAN) return NULL;
  trn_rel *copy = trn__arena_copy(edit->arena, scan, sizeof *scan);
  bool ok = copy && trn__source_hold(edit->arena, backend, source) == TRN_OK &&
            trn__label_hold(edit->arena, label) == TRN_OK;
  if (!ok) return made_rel(edit, NULL);
  copy->u.scan.source = source;
  copy->u.scan.info = label;
  return copy;
}

/* ---- views ---- */

static trn_status label_through(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out,
                                trn_error **error) {
  trn_scan_label *label = NULL;
  if (rel->kind != TRN_REL_SCAN || !rel->u.scan.info) return TRN_OK;
  trn_rel *copy = trn__arena_copy(edit->arena, rel, sizeof *rel);
  trn_status status = copy ? trn_scan_label_through(rel->u.scan.info, user, &label) : TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_OK) status = trn__label_hold(edit->arena, label);
  trn_scan_label_unref(label); /* the arena's stays */
  if (status) return trn__no_memory(error);
  copy->u.scan.info = label;
  *out = copy;
  return TRN_OK;
}

trn_status trn__plan_through_view(trn_plan *plan, const trn_scan_view *view, trn_plan **out, trn_error **error) {
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = label_through, .user = (void *)view};
  return trn_plan_rewrite(plan, &rewriting, out, error);
}

static void drop_plan(void *plan) { trn_plan_unref(plan); }

trn_status trn__plan_rename(trn_plan *plan, const struct ArrowSchema *schema, trn_plan **out, trn_error **error) {
  uint32_t count = plan->field_count;
  bool differs = false, fits = (uint64_t)schema->n_children == count;
  for (uint32_t i = 0; i < count && fits; i++) differs |= strcmp(plan->fields[i].name, schema->children[i]->name) != 0;
  if (!differs) {
    *out = trn_plan_ref(plan);
    return TRN_OK;
  }
  trn_arena *arena = trn__arena_create(0);
  trn_field *fields = arena ? TRN_NEW_N(arena, trn_field, count) : NULL;
  bool ok = fields != NULL;
  for (uint32_t i = 0; i < count && ok; i++) {
    fields[i] = plan->fields[i];
    fields[i].name = trn__arena_strdup(arena, schema->children[i]->name);
    ok = fields[i].name != NULL;
  }
  if (ok && !trn__arena_own(arena, drop_plan, trn_plan_ref(plan))) {
    trn_plan_unref(plan);
    ok = false;
  }
  if (!ok) {
    trn__arena_unref(arena);
    return trn__no_memory(error);
  }
  return trn__plan_create(arena, plan->root, fields, plan->next_column, plan->timezone, plan->sql, out) ? trn__no_memory(error)
                                                                                                        : TRN_OK;
}

/* ---- columns of sources ---- */

static bool name_is(const char *name, const char *data, size_t size, bool ignore_case) {
  if (strlen(name) != size) return false;
  for (size_t i = 0; i < size; i++) {
    char a = name[i], b = data[i];
    if (ignore_case && a >= 'A' && a <= 'Z') a = (char)(a + 32);
    if (ignore_case && b >= 'A' && b <= 'Z') b = (char)(b + 32);
    if (a != b) return false;
  }
  return true;
}

uint32_t trn__label_find_column(const trn_scan_label *label, const char *name, size_t size) {
  const trn_scan_info *info = trn_scan_label_info(label);
  uint32_t found = UINT32_MAX;
  for (size_t i = 0; i < info->column_count; i++)
    if (name_is(info->columns[i].name, name, size, false)) return (uint32_t)i;
  for (size_t i = 0; i < info->column_count; i++) {
    if (!name_is(info->columns[i].name, name, size, true)) continue;
    if (found != UINT32_MAX) return UINT32_MAX; /* two: neither is meant */
    found = (uint32_t)i;
  }
  return found;
}

uint32_t trn__edit_scan_column(trn_edit *edit, const trn_rel **scan, uint32_t index) {
  const trn_rel *old = *scan;
  for (uint32_t i = 0; i < old->column_count; i++)
    if (trn_rel_scan_index(old, i) == index) return i;
  uint32_t count = old->column_count;
  const trn_scan_column *column = &trn_scan_label_info(old->u.scan.info)->columns[index];
  trn_rel *copy = trn__arena_copy(edit->arena, old, sizeof *old);
  trn_column *columns = TRN_NEW_N(edit->arena, trn_column, (size_t)count + 1);
  uint32_t *indexes = TRN_NEW_N(edit->arena, uint32_t, (size_t)count + 1);
  if (!copy || !columns || !indexes || trn__label_hold(edit->arena, old->u.scan.info)) {
    edit->failed = true;
    return UINT32_MAX;
  }
  if (count) memcpy(columns, old->columns, count * sizeof *columns);
  for (uint32_t i = 0; i < count; i++) indexes[i] = trn_rel_scan_index(old, i);
  columns[count] = (trn_column){.id = edit->next_column++, .type = column->type, .nullable = column->nullable};
  indexes[count] = index;
  copy->columns = columns;
  copy->column_count = count + 1;
  copy->u.scan.indexes = indexes;
  *scan = copy;
  return count;
}

/* ---- the guarded form of a scan ---- */

/* Masks by the place of their column in the scan; NULL: not masked. */
typedef struct guard {
  trn_edit *edit;
  const trn_rel *outer; /* what is replaced: its ids are used above */
  const trn_rel *scan;  /* the scan inside, with ids of its own for what is replaced */
  const trn_mask **masks;
  const trn_text_context *context;
  trn_error **error;
} guard;

static trn_status find_masks(guard *g, const trn_mask *masks, size_t count) {
  trn_edit *edit = g->edit;
  g->masks = TRN_NEW_N(edit->arena, const trn_mask *, g->outer->column_count + 1);
  if (!g->masks) return trn__no_memory(g->error);
  for (size_t m = 0; m < count; m++) {
    uint32_t index = trn__label_find_column(g->outer->u.scan.info, masks[m].column, strlen(masks[m].column));
    if (index == UINT32_MAX)
      return trn_error_set(g->error, TRN_INVALID_ARGUMENT, NULL, "a mask is for column '%s', which the table has not",
                           masks[m].column);
    for (uint32_t i = 0; i < g->outer->column_count; i++)
      if (trn_rel_scan_index(g->outer, i) == index && !g->masks[i]) g->masks[i] = &masks[m];
  }
  return TRN_OK;
}

/* A copy of the scan in which every column that the projection replaces has a new id. */
static trn_status inner_scan(guard *g, bool all) {
  const trn_rel *outer = g->outer;
  trn_rel *copy = trn__arena_copy(g->edit->arena, outer, sizeof *outer);
  trn_column *columns = trn__arena_copy(g->edit->arena, outer->columns, outer->column_count * sizeof *columns);
  if (!copy || !columns) return trn__no_memory(g->error);
  for (uint32_t i = 0; i < outer->column_count; i++)
    if (all || g->masks[i]) columns[i].id = g->edit->next_column++;
  copy->columns = columns;
  g->scan = copy;
  return TRN_OK;
}

/* The value, but only where the row is to be seen. An optimizer may move a condition of the query below the filter (they
 * commute, it thinks) and evaluate it first, and a condition that fails tells what it failed on: so there is nothing to
 * see in hidden rows even there. */
static const trn_expr *sealed(guard *g, const trn_expr *condition, const trn_expr *value) {
  if (!condition || !value) return value;
  const trn_expr *args[] = {condition, value};
  return trn__expr_create(g->edit->arena, TRN_EXPR_CASE, value->type, true, args, 2);
}

/* All of the conditions. */
static const trn_expr *conjunction(guard *g, const trn_expr *const *conditions, size_t count) {
  const trn_expr *all = conditions[0];
  for (size_t i = 1; i < count && all; i++) {
    const trn_expr *args[] = {all, conditions[i]};
    bool nullable = all->nullable || conditions[i]->nullable;
    all = trn__expr_call(g->edit->arena, TRN_HOME_NATIVE, "and", trn__type(TRN_TYPE_BOOL), nullable, args, 2);
  }
  return all;
}

/* Every row, and no condition from above goes through it: a sample of all. What a condition says of a row that is gone -
 * that it fails without looking at any column - would tell that there is such a row. */
static const trn_rel *barrier(trn_arena *arena, const trn_rel *rel) {
  trn_rel *all = rel ? trn__rel_create(arena, TRN_REL_SAMPLE, &rel, 1, NULL, 0, rel->columns, rel->column_count) : NULL;
  if (all) all->u.sample.upper = 1;
  return all;
}

bool trn__rel_is_barrier(const trn_rel *rel) {
  return rel->kind == TRN_REL_SAMPLE && rel->u.sample.lower <= 0 && rel->u.sample.upper >= 1 &&
         !rel->u.sample.with_replacement;
}

/* Filters over the scan, then the projection that gives the outer ids. */
static trn_status guard_build(guard *g, const char *const *filters, size_t filter_count, bool seals,
                              const trn_rel **out) {
  trn_edit *edit = g->edit;
  uint32_t count = g->outer->column_count;
  const trn_expr **exprs = TRN_NEW_N(edit->arena, const trn_expr *, count);
  const trn_expr **conditions = TRN_NEW_N(edit->arena, const trn_expr *, filter_count);
  trn_column *columns = trn__arena_copy(edit->arena, g->outer->columns, count * sizeof *columns);
  if (!exprs || !conditions || !columns) return trn__no_memory(g->error);
  trn_status status = TRN_OK;
  for (size_t i = 0; i < filter_count && status == TRN_OK; i++)
    status = trn_edit_parse(edit, &g->scan, filters[i], g->context, trn__type(TRN_TYPE_BOOL), &conditions[i], g->error);
  const trn_expr *all = status == TRN_OK && filter_count ? conjunction(g, conditions, filter_count) : NULL;
  if (status == TRN_OK && filter_count && !all) status = trn__no_memory(g->error);
  for (uint32_t i = 0; i < count && status == TRN_OK; i++) {
    if (g->masks[i])
      status = trn_edit_parse(edit, &g->scan, g->masks[i]->text, g->context, columns[i].type, &exprs[i], g->error);
    else
      exprs[i] = trn__expr_column(edit->arena, &g->scan->columns[i]);
    if (status == TRN_OK && seals) exprs[i] = sealed(g, all, exprs[i]);
    if (status == TRN_OK && !exprs[i]) status = trn__no_memory(g->error);
    if (status == TRN_OK) columns[i].nullable = exprs[i]->nullable;
  }
  const trn_rel *rel = g->scan;
  if (status) return status;
  if (all) rel = trn__rel_filter(edit->arena, rel, all);
  if (all && seals) rel = barrier(edit->arena, rel);
  *out = rel ? trn__rel_project(edit->arena, rel, exprs, columns, count) : NULL;
  return *out ? TRN_OK : trn__no_memory(g->error);
}

const trn_rel *trn_edit_guard(trn_edit *edit, const trn_rel *scan, const char *const *filters, size_t filter_count,
                              const trn_mask *masks, size_t mask_count, const trn_text_context *context, bool is_open,
                              trn_error **error) {
  if (!filter_count && !mask_count) return scan;
  if (scan->kind != TRN_REL_SCAN || !scan->u.scan.info) {
    trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "what is not a scan with a label cannot be guarded");
    return NULL;
  }
  guard g = {.edit = edit, .outer = scan, .context = context, .error = error};
  const trn_rel *out = NULL;
  bool seals = filter_count && !is_open;
  trn_status status = find_masks(&g, masks, mask_count);
  if (status == TRN_OK) status = inner_scan(&g, seals);
  if (status == TRN_OK) status = guard_build(&g, filters, filter_count, seals, &out);
  return status == TRN_OK ? out : NULL;
}
