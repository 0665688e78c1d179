/* Which backend a query goes to: configuration, rules, health. */
#include "layer/route.h"

enum { ROUTE_FAILURES = 3, ROUTE_REST_MS = 30 * 1000 };

/* ---- configuration ---- */

static size_t target_by_name(const route *r, const char *name) {
  size_t i = 0;
  while (i < r->target_count && strcmp(r->targets[i].name, name) != 0) i++;
  return i;
}

static trn_status no_target(const trn_config *where, const char *name, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: there is no backend '%s'", trn_config_origin(where),
                       name);
}

static trn_status read_target(const trn_config *map, const trn_registry *registry, route *r, trn_error **error) {
  const char *name = NULL, *type = NULL;
  const trn_config *config = NULL;
  route_target *targets = realloc(r->targets, (r->target_count + 1) * sizeof *targets);
  if (!targets) return trn__no_memory(error);
  r->targets = targets;
  route_target *target = &targets[r->target_count];
  *target = (route_target){0};
  trn_status status = trn_config_text(map, "name", &name, error);
  for (size_t i = 0; i < trn_config_count(map); i++) {
    const char *key = trn_config_key_at(map, i);
    if (strcmp(key, "name") == 0 || strcmp(key, "functions") == 0) continue;
    if (type)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a backend is of one kind, not '%s' and '%s'",
                           trn_config_origin(map), type, key);
    type = key;
    config = trn_config_at(map, i);
  }
  if (status == TRN_OK && (!name || !type || !registry))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "%s: a backend has a 'name', and a kind with its settings", trn_config_origin(map));
  if (status == TRN_OK && target_by_name(r, name) < r->target_count)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: there are two backends '%s'",
                           trn_config_origin(map), name);
  if (status) return status;
  r->target_count++;
  if (!(target->name = trn__text_copy(name))) return trn__no_memory(error);
  status = trn__texts_read(map, "functions", &target->functions, error);
  const trn_config *given = trn_config_get_kind(config) == TRN_CONFIG_MAP ? config : NULL;
  if (status == TRN_OK) status = trn_registry_make_backend(registry, type, given, &target->backend, error);
  return status;
}

static trn_status read_rule(const trn_config *map, route *r, route_rule *rule, trn_error **error) {
  static const char *const keys[] = {TRN_WHO_KEYS, "tags",          "tables",    "paths",     "functions", "statements",
                                     "setting",    "setting_value", "bytes_min", "bytes_max", "backend",   NULL};
  const char *backend = NULL, *setting = NULL, *value = NULL;
  trn_status status = trn_config_check_keys(map, keys, error);
  if (status == TRN_OK) status = trn__who_read(map, &rule->who, error);
  if (status == TRN_OK) status = trn__texts_read(map, "tags", &rule->tags, error);
  if (status == TRN_OK) status = trn__texts_read(map, "tables", &rule->tables, error);
  if (status == TRN_OK) status = trn__texts_read(map, "paths", &rule->paths, error);
  if (status == TRN_OK) status = trn__texts_read(map, "functions", &rule->functions, error);
  if (status == TRN_OK) status = trn__texts_read(map, "statements", &rule->statements, error);
  if (status == TRN_OK) status = trn_config_text(map, "setting", &setting, error);
  if (status == TRN_OK) status = trn_config_text(map, "setting_value", &value, error);
  if (status == TRN_OK) status = trn_config_size(map, "bytes_min", &rule->bytes_min, error);
  if (status == TRN_OK) status = trn_config_size(map, "bytes_max", &rule->bytes_max, error);
  if (status == TRN_OK) status = trn_config_text(map, "backend", &backend, error);
  if (status) return status;
  if (!backend)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a rule names a 'backend'", trn_config_origin(map));
  rule->target = target_by_name(r, backend);
  if (rule->target == r->target_count) return no_target(map, backend, error);
  if (setting) rule->setting = trn__text_copy(setting);
  if (setting) rule->setting_value = trn__text_copy(value ? value : "*");
  return setting && (!rule->setting || !rule->setting_value) ? trn__no_memory(error) : TRN_OK;
}

static trn_status read_fallback(const trn_config *config, route *r, trn_error **error) {
  trn_texts names;
  trn_status status = trn__texts_read(config, "fallback", &names, error);
  if (status == TRN_OK && !(r->fallback = calloc(names.count + 1, sizeof *r->fallback))) status = trn__no_memory(error);
  for (size_t i = 0; i < names.count && status == TRN_OK; i++) {
    size_t target = target_by_name(r, names.items[i]);
    if (target == r->target_count)
      status = no_target(trn_config_get(config, "fallback"), names.items[i], error);
    else
      r->fallback[r->fallback_count++] = target;
  }
  trn__texts_finish(&names);
  return status;
}

trn_status route__read(const trn_config *config, const trn_registry *registry, route *r, trn_error **error) {
  static const char *const keys[] = {"backends", "rules", "fallback", "sticky", "failures", "rest", NULL};
  const trn_config *backends = trn_config_get(config, "backends"), *rules = trn_config_get(config, "rules");
  int64_t failures = ROUTE_FAILURES;
  r->rest_ms = ROUTE_REST_MS;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (status == TRN_OK) status = trn_config_bool(config, "sticky", &r->sticks, error);
  if (status == TRN_OK) status = trn_config_number(config, "failures", 1, 1000, &failures, error);
  if (status == TRN_OK) status = trn_config_duration(config, "rest", &r->rest_ms, error);
  r->failures_max = (unsigned)failures;
  for (size_t i = 0; i < trn_config_count(backends) && status == TRN_OK; i++)
    status = read_target(trn_config_at(backends, i), registry, r, error);
  size_t count = trn_config_count(rules);
  if (status == TRN_OK && !(r->rules = calloc(count + 1, sizeof *r->rules))) status = trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    r->rule_count = i + 1;
    status = read_rule(trn_config_at(rules, i), r, &r->rules[i], error);
  }
  return status ? status : read_fallback(config, r, error);
}

void route__finish(route *r) {
  for (size_t i = 0; i < r->target_count; i++) {
    free(r->targets[i].name);
    trn_backend_unref(r->targets[i].backend);
    trn__texts_finish(&r->targets[i].functions);
  }
  for (size_t i = 0; i < r->rule_count; i++) {
    route_rule *rule = &r->rules[i];
    trn__who_finish(&rule->who);
    trn__texts_finish(&rule->tags), trn__texts_finish(&rule->tables), trn__texts_finish(&rule->paths);
    trn__texts_finish(&rule->functions), trn__texts_finish(&rule->statements);
    free(rule->setting), free(rule->setting_value);
  }
  free(r->targets);
  free(r->rules);
  free(r->fallback);
}

/* ---- what a plan can run on ---- */

typedef struct function_search {
  const route_target *target;
  const char *found;
} function_search;

static trn_walk find_foreign(void *user, const trn_expr *expr, const trn_rel *holder) {
  function_search *search = user;
  (void)holder;
  const char *name = expr->kind == TRN_EXPR_WINDOW ? NULL : trn_expr_function(expr);
  if (!name || trn__texts_match(&search->target->functions, name, false)) return TRN_WALK_ON;
  search->found = name;
  return TRN_WALK_STOP;
}

const char *route__cannot_run(const route_target *target, const trn_plan *plan) {
  function_search search = {.target = target};
  trn_visitor visitor = {.expr = find_foreign, .user = &search};
  if (!target->functions.count) return NULL;
  (void)trn__plan_walk(plan->root, &visitor); /* too deep, or no memory: the target will say so */
  return search.found;
}

/* ---- health ---- */

bool route__is_healthy(route *r, size_t index) {
  route_target *target = &r->targets[index];
  if (target->is_healthy && !target->is_healthy(target->user)) return false;
  pthread_mutex_lock(&r->mu);
  bool is_sick = target->sick_until_ns && trn__now_ns() < target->sick_until_ns;
  pthread_mutex_unlock(&r->mu);
  return !is_sick;
}

/* Only what says that the backend is not there counts; a query's own fault does not. */
void route__report(route *r, size_t index, trn_status status) {
  route_target *target = &r->targets[index];
  pthread_mutex_lock(&r->mu);
  if (status != TRN_UNAVAILABLE) {
    target->failures = 0;
    target->sick_until_ns = 0;
  } else if (++target->failures >= r->failures_max) {
    target->sick_until_ns = trn__now_ns() + (int64_t)r->rest_ms * 1000000;
  }
  pthread_mutex_unlock(&r->mu);
}

/* ---- rules ---- */

typedef struct facts {
  const route_rule *rule;
  bool table_found, path_found;
  uint64_t bytes;
} facts;

static trn_walk look_at_data(void *user, const trn_rel *rel) {
  facts *f = user;
  const trn_scan_label *label = trn_rel_label(rel);
  const trn_scan_info *info = label ? trn_scan_label_info(label) : NULL;
  if (!info) return TRN_WALK_ON;
  if (rel->kind == TRN_REL_SCAN) f->bytes += info->bytes;
  char *name = info->table ? trn_scan_label_text(label) : NULL;
  if (name && trn__texts_match(&f->rule->tables, name, true)) f->table_found = true;
  if (info->table && trn__texts_match(&f->rule->tables, info->table, true)) f->table_found = true;
  trn_free(name);
  for (size_t i = 0; i < info->path_count; i++)
    if (trn__texts_match(&f->rule->paths, info->paths[i], false)) f->path_found = true;
  return TRN_WALK_ON;
}

static bool tag_matches(const route_rule *rule, const trn_execute_request *request) {
  for (size_t i = 0; i < request->tag_count; i++)
    if (trn__texts_match(&rule->tags, request->tags[i], false)) return true;
  return !rule->tags.count;
}

static bool setting_matches(const route_rule *rule, trn_session *session) {
  if (!rule->setting) return true;
  char *value = trn_session_get(session, rule->setting);
  bool matches = value && trn_pattern_matches(rule->setting_value, value, false);
  free(value);
  return matches;
}

static bool function_matches(const route_rule *rule, const trn_plan *plan) {
  const char *const *names = NULL;
  size_t count = 0;
  if (!rule->functions.count) return true;
  if (trn_plan_functions(plan, &names, &count)) return false;
  for (size_t i = 0; i < count; i++)
    if (trn__texts_match(&rule->functions, names[i], true)) return true;
  return false;
}

static bool rule_matches(const route_rule *rule, trn_session *session, const trn_execute_request *request) {
  if (!trn__who_matches(&rule->who, session) || !tag_matches(rule, request) || !setting_matches(rule, session))
    return false;
  if (rule->statements.count && !trn__texts_match(&rule->statements, trn__plan_statement(request->plan), true))
    return false;
  if (!function_matches(rule, request->plan)) return false;
  if (!rule->tables.count && !rule->paths.count && !rule->bytes_min && !rule->bytes_max) return true;
  facts f = {.rule = rule};
  trn_visitor visitor = {.rel = look_at_data, .user = &f};
  if (trn__plan_walk(request->plan->root, &visitor)) return false;
  return (!rule->tables.count || f.table_found) && (!rule->paths.count || f.path_found) &&
         f.bytes >= rule->bytes_min && (!rule->bytes_max || f.bytes <= rule->bytes_max);
}

static void add(size_t *order, size_t *count, size_t target) {
  for (size_t i = 0; i < *count; i++)
    if (order[i] == target) return;
  order[(*count)++] = target;
}

size_t route__candidates(route *r, trn_layer_session *s, const trn_execute_request *request, size_t *order,
                         const char **reason) {
  trn_session *session = trn_layer_session_get(s);
  route_session *state = trn_layer_session_state(s);
  size_t count = 0;
  *reason = "default";
  const char *chosen = r->choose ? r->choose(r->choose_user, session, request->plan, request) : NULL;
  size_t target = chosen ? target_by_name(r, chosen) : r->target_count;
  if (target < r->target_count) {
    *reason = "callback";
    add(order, &count, target);
  }
  pthread_mutex_lock(&state->mu);
  size_t stuck = r->sticks ? state->stuck : 0;
  pthread_mutex_unlock(&state->mu);
  if (stuck) {
    if (!count) *reason = "sticky";
    add(order, &count, stuck - 1);
  }
  for (size_t i = 0; i < r->rule_count && !count; i++)
    if (rule_matches(&r->rules[i], session, request)) {
      *reason = "rule";
      add(order, &count, r->rules[i].target);
    }
  if (!count && !r->fallback_count) add(order, &count, 0);
  for (size_t i = 0; i < r->fallback_count; i++) add(order, &count, r->fallback[i]);
  add(order, &count, 0);
  for (size_t i = 1; i < r->target_count; i++) /* the last resort for what the others cannot run */
    if (r->targets[i].functions.count == 0 && route__cannot_run(&r->targets[order[0]], request->plan))
      add(order, &count, i);
  return count;
}
