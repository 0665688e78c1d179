/* Walking, matching and the names of functions, from outside. */
#include "plan/plan.h"

trn_status trn_plan_walk(const trn_plan *plan, const trn_visitor *visitor) {
  return trn__plan_walk(plan->root, visitor);
}

/* ---- patterns ---- */

static bool same_letter(char a, char b, bool ignore_case) {
  if (ignore_case && a >= 'A' && a <= 'Z') a = (char)(a + 32);
  if (ignore_case && b >= 'A' && b <= 'Z') b = (char)(b + 32);
  return a == b;
}

/* The last '*' is the only one that is ever tried again: what comes before it matched as early as it can. That is
 * |pattern| * |text| at worst, without recursion. */
bool trn_pattern_matches(const char *pattern, const char *text, bool ignore_case) {
  const char *star = NULL, *again = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = ++pattern;
      again = text;
    } else if (*pattern && (*pattern == '?' || same_letter(*pattern, *text, ignore_case))) {
      pattern++;
      text++;
    } else if (star) {
      pattern = star;
      text = ++again;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

/* ---- match ---- */

typedef struct matching {
  const trn_pattern *pattern;
  bool (*each)(void *user, const trn_rel *rel, const trn_expr *expr);
  void *user;
  trn_status status;
} matching;

/* "catalog.database.table"; a label without a catalog or database is shorter. */
static bool table_matches(matching *m, const trn_scan_info *info) {
  if (!info->table) return false;
  trn_strbuf name = {0};
  if (info->catalog) trn__strbuf_printf(&name, "%s.", info->catalog);
  if (info->database) trn__strbuf_printf(&name, "%s.", info->database);
  trn__strbuf_puts(&name, info->table);
  if (name.failed) m->status = TRN_RESOURCE_EXHAUSTED;
  bool matches = !name.failed && trn_pattern_matches(m->pattern->table, name.data, true);
  trn__strbuf_finish(&name);
  return matches;
}

static bool path_matches(const matching *m, const trn_scan_info *info) {
  for (size_t i = 0; i < info->path_count; i++)
    if (trn_pattern_matches(m->pattern->path, info->paths[i], false)) return true;
  return false;
}

static bool rel_matches(matching *m, const trn_rel *rel) {
  const trn_pattern *p = m->pattern;
  if (p->rel_kinds && !(p->rel_kinds >> rel->kind & 1)) return false;
  if (!p->table && !p->path) return true;
  const trn_scan_label *label = trn_rel_label(rel);
  if (!label) return false;
  const trn_scan_info *info = trn_scan_label_info(label);
  return (!p->table || table_matches(m, info)) && (!p->path || path_matches(m, info));
}

static trn_walk answer(const matching *m, bool goes_on) {
  return goes_on && m->status == TRN_OK ? TRN_WALK_ON : TRN_WALK_STOP;
}

static trn_walk match_rel(void *user, const trn_rel *rel) {
  matching *m = user;
  bool wants_exprs = m->pattern->expr_kinds || m->pattern->function;
  if (wants_exprs || !rel_matches(m, rel)) return answer(m, true);
  return answer(m, m->each(m->user, rel, NULL));
}

static trn_walk match_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  matching *m = user;
  const trn_pattern *p = m->pattern;
  if (!p->expr_kinds && !p->function) return TRN_WALK_ON;
  if (p->expr_kinds && !(p->expr_kinds >> expr->kind & 1)) return TRN_WALK_ON;
  const char *name = p->function ? trn_expr_function(expr) : NULL;
  if (p->function && (!name || !trn_pattern_matches(p->function, name, true))) return TRN_WALK_ON;
  if (!rel_matches(m, holder)) return answer(m, true);
  return answer(m, m->each(m->user, holder, expr));
}

trn_status trn_plan_match(const trn_plan *plan, const trn_pattern *given,
                          bool (*each)(void *user, const trn_rel *rel, const trn_expr *expr), void *user) {
  trn_pattern pattern = {0};
  memcpy(&pattern, given, given->struct_size < sizeof pattern ? given->struct_size : sizeof pattern);
  matching m = {.pattern = &pattern, .each = each, .user = user};
  trn_visitor visitor = {.rel = match_rel, .expr = match_expr, .user = &m};
  trn_status status = trn__plan_walk(plan->root, &visitor);
  if (m.status) return m.status;
  return status == TRN_CANCELLED ? TRN_OK : status; /* stopped because somebody had seen enough */
}

/* ---- functions ---- */

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t sort_unique(const char **names, size_t count) {
  if (count) qsort(names, count, sizeof *names, by_text);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (!kept || strcmp(names[kept - 1], names[i]) != 0) names[kept++] = names[i];
  return kept;
}

void trn__plan_set_functions(trn_plan *plan, const char **names, size_t count) {
  plan->functions = names;
  plan->function_count = (uint32_t)sort_unique(names, count);
}

static trn_walk find_function(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)holder;
  trn_vec *names = user;
  const char *name = expr->kind == TRN_EXPR_WINDOW ? NULL : trn_expr_function(expr); /* a window's is its child */
  bool is_function = name && trn_expr_function_home(expr) != TRN_HOME_NATIVE;
  if (!is_function || (names->count && names->items[names->count - 1] == name)) return TRN_WALK_ON;
  return trn__vec_push(names, (void *)name) ? TRN_WALK_ON : TRN_WALK_STOP;
}

typedef struct found {
  size_t count;
  const char *names[];
} found;

/* thread: any; whoever is first stores it, others drop theirs */
static const found *find_functions(trn_plan *plan) {
  found *known = atomic_load_explicit(&plan->found_functions, memory_order_acquire);
  if (known) return known;
  trn_vec names = {0};
  trn_visitor visitor = {.expr = find_function, .user = &names};
  trn_status status = trn__plan_walk(plan->root, &visitor);
  found *made = status ? NULL : malloc(sizeof *made + names.count * sizeof *made->names);
  if (made) {
    for (size_t i = 0; i < names.count; i++) made->names[i] = names.items[i];
    made->count = sort_unique(made->names, names.count);
    void *expected = NULL;
    if (!atomic_compare_exchange_strong(&plan->found_functions, &expected, made)) {
      free(made);
      made = expected;
    }
  }
  trn__vec_finish(&names);
  return made;
}

trn_status trn_plan_functions(const trn_plan *plan, const char *const **names, size_t *count) {
  *names = plan->functions;
  *count = plan->function_count;
  return plan->function_count ? TRN_OK : trn__plan_own_functions(plan, names, count);
}

trn_status trn__plan_own_functions(const trn_plan *plan, const char *const **names, size_t *count) {
  const found *made = find_functions((trn_plan *)plan);
  if (!made) return TRN_RESOURCE_EXHAUSTED;
  *names = made->names;
  *count = made->count;
  return TRN_OK;
}
