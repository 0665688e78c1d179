/* What a plan reads, needs and is, for policies and logs. */
#include "layer/layer.h"

/* ---- columns that something needs ---- */

typedef struct marking {
  trn_live *live;
  bool is_changed;
  bool all; /* too many passes: everything is needed */
  trn_status status;
} marking;

static bool is_marked(const marking *m, uint32_t id) {
  return m->all || trn__is_live(m->live, id);
}

static void mark(marking *m, uint32_t id) {
  if (id >= m->live->count || trn__is_live(m->live, id)) return;
  m->live->bits[id >> 6] |= (uint64_t)1 << (id & 63);
  m->is_changed = true;
}

static void mark_columns(marking *m, const trn_rel *rel) {
  for (uint32_t i = 0; i < rel->column_count; i++) mark(m, rel->columns[i].id);
}

static trn_walk mark_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  marking *m = user;
  (void)holder;
  if (expr->kind == TRN_EXPR_COLUMN || expr->kind == TRN_EXPR_OUTER) mark(m, expr->u.column);
  if (expr->kind == TRN_EXPR_SUBQUERY && expr->u.subquery.rel) mark_columns(m, expr->u.subquery.rel);
  return TRN_WALK_ON;
}

static trn_walk skip_rel(void *user, const trn_rel *rel) {
  (void)user, (void)rel;
  return TRN_WALK_SKIP; /* relations of subqueries have their own turn */
}

static void mark_needs(marking *m, const trn_expr *expr) {
  trn_visitor visitor = {.rel = skip_rel, .expr = mark_expr, .user = m};
  trn_status status = trn__expr_walk(expr, &visitor);
  if (status) m->status = status;
}

/* Exprs from `first` on make the columns with the same place (counted from the end): needed when those are. */
static void mark_makers(marking *m, const trn_rel *rel, uint32_t first) {
  for (uint32_t i = 0; i < rel->expr_count; i++) {
    uint32_t column = rel->kind == TRN_REL_WINDOW ? rel->column_count - rel->expr_count + i : i;
    bool is_maker = i >= first && column < rel->column_count;
    if (!is_maker || is_marked(m, rel->columns[column].id)) mark_needs(m, rel->exprs[i]);
  }
}

static trn_walk mark_rel(void *user, const trn_rel *rel) {
  marking *m = user;
  switch (rel->kind) {
  case TRN_REL_PROJECT:
  case TRN_REL_WINDOW: mark_makers(m, rel, 0); break;
  case TRN_REL_AGGREGATE: mark_makers(m, rel, rel->u.aggregate.group_count); break;
  case TRN_REL_UNION:
    for (uint32_t i = 0; i < rel->input_count; i++)
      for (uint32_t c = 0; c < rel->column_count && c < rel->inputs[i]->column_count; c++)
        if (is_marked(m, rel->columns[c].id)) mark(m, rel->inputs[i]->columns[c].id);
    break;
  case TRN_REL_DISTINCT:
  case TRN_REL_SET:
  case TRN_REL_EXTENSION:
  case TRN_REL_OPAQUE:
  case TRN_REL_WRITE:
    for (uint32_t i = 0; i < rel->input_count; i++) mark_columns(m, rel->inputs[i]);
    mark_makers(m, rel, UINT32_MAX);
    break;
  default: mark_makers(m, rel, UINT32_MAX);
  }
  return m->status ? TRN_WALK_STOP : TRN_WALK_ON;
}

trn_status trn__live_columns(const trn_plan *plan, trn_live *out) {
  out->count = plan->next_column;
  out->bits = calloc((size_t)(plan->next_column >> 6) + 1, sizeof *out->bits);
  if (!out->bits) return TRN_RESOURCE_EXHAUSTED;
  marking m = {.live = out, .is_changed = true};
  mark_columns(&m, plan->root);
  trn_visitor visitor = {.rel = mark_rel, .user = &m};
  trn_status status = TRN_OK;
  for (unsigned pass = 0; m.is_changed && status == TRN_OK; pass++) {
    m.is_changed = false;
    m.all = pass >= TRN_LIVE_PASSES_MAX;
    status = trn__plan_walk(plan->root, &visitor);
    if (m.status) status = m.status;
    if (m.all) {
      memset(out->bits, 0xff, ((size_t)(plan->next_column >> 6) + 1) * sizeof *out->bits);
      break;
    }
  }
  if (status) trn__live_finish(out);
  return status;
}

void trn__live_finish(trn_live *live) {
  free(live->bits);
  *live = (trn_live){0};
}

/* ---- for logs ---- */

static trn_walk add_object(void *user, const trn_rel *rel) {
  trn_strbuf *text = user;
  bool is_known = rel->kind == TRN_REL_SCAN || rel->kind == TRN_REL_WRITE;
  const trn_scan_label *label = trn_rel_label(rel);
  if (!is_known || text->size > TRN_POLICY_TEXT_BYTES_MAX) return TRN_WALK_ON;
  char *name = label ? trn_scan_label_text(label) : trn__text_copy("?");
  if (text->size) trn__strbuf_puts(text, ", ");
  if (name)
    trn__strbuf_puts(text, name);
  else
    text->failed = true;
  free(name);
  return TRN_WALK_ON;
}

char *trn__plan_objects(const trn_plan *plan) {
  trn_strbuf text = {0};
  trn_visitor visitor = {.rel = add_object, .user = &text};
  trn__strbuf_puts(&text, "");
  trn_status status = trn__plan_walk(plan->root, &visitor);
  if (status == TRN_OK && !text.failed) return text.data;
  trn__strbuf_finish(&text);
  return NULL;
}

static trn_walk find_write(void *user, const trn_rel *rel) {
  if (rel->kind != TRN_REL_WRITE) return TRN_WALK_ON;
  *(bool *)user = true;
  return TRN_WALK_STOP;
}

const char *trn__plan_statement(const trn_plan *plan) {
  bool writes = false;
  trn_visitor visitor = {.rel = find_write, .user = &writes};
  if (plan->kind == TRN_PLAN_PHYSICAL) return "physical";
  (void)trn__plan_walk(plan->root, &visitor); /* out of memory: whoever asks walks it, too, and says so */
  return writes ? "write" : "query";
}
