/* The validate layer: what is too large, too deep or not wanted is refused before anything is spent on it; and which
 * settings clients may see and change. */
#include <pthread.h>

#include "core/query.h"
#include "layer/layer.h"
#include "plan/graph.h"

typedef struct caps {
  int64_t depth, nodes, columns; /* < 0: none */
  uint64_t files, bytes;         /* 0: none */
  bool known_size;               /* scans whose size is not known are refused */
  trn_texts functions;           /* forbidden */
  trn_texts statements;          /* forbidden kinds */
  trn_texts formats;             /* of decoded plans: forbidden */
} caps;

/* What clients may do with settings: the first rule that is about a key decides. */
typedef struct setting_rule {
  trn_who who;
  trn_texts keys;
  bool gets, sets, lists;
} setting_rule;

/* What was read last; whoever uses it holds a reference. */
typedef struct validate {
  atomic_uint refs;
  caps caps;
  setting_rule *settings;
  size_t setting_count;
  trn_texts secrets; /* never readable */
  bool others_get, others_set; /* keys that no rule is about */
  trn_desk *desk; /* the layer's */
} validate;

typedef struct validate_layer {
  pthread_mutex_t mutex; /* now */
  validate *now;
  trn_desk *desk;
} validate_layer;

/* ---- configuration ---- */

static void validate_unref(validate *v) {
  if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  trn__texts_finish(&v->caps.functions);
  trn__texts_finish(&v->caps.statements);
  trn__texts_finish(&v->caps.formats);
  trn__texts_finish(&v->secrets);
  for (size_t i = 0; i < v->setting_count; i++) {
    trn__who_finish(&v->settings[i].who);
    trn__texts_finish(&v->settings[i].keys);
  }
  free(v->settings);
  free(v);
}

static trn_status read_caps(const trn_config *config, caps *c, trn_error **error) {
  c->depth = c->nodes = c->columns = -1;
  int64_t files = 0;
  trn_status status = trn_config_number(config, "depth", 1, INT64_MAX, &c->depth, error);
  if (status == TRN_OK) status = trn_config_number(config, "nodes", 1, INT64_MAX, &c->nodes, error);
  if (status == TRN_OK) status = trn_config_number(config, "columns", 1, INT64_MAX, &c->columns, error);
  if (status == TRN_OK) status = trn_config_number(config, "files", 1, INT64_MAX, &files, error);
  if (status == TRN_OK) status = trn_config_size(config, "bytes", &c->bytes, error);
  if (status == TRN_OK) status = trn_config_bool(config, "known_size", &c->known_size, error);
  if (status == TRN_OK) status = trn__texts_read(config, "forbidden_functions", &c->functions, error);
  if (status == TRN_OK) status = trn__texts_read(config, "forbidden_statements", &c->statements, error);
  if (status == TRN_OK) status = trn__texts_read(config, "forbidden_formats", &c->formats, error);
  c->files = (uint64_t)files;
  return status;
}

static trn_status read_setting_rule(const trn_config *map, setting_rule *rule, trn_error **error) {
  static const char *const keys[] = {TRN_WHO_KEYS, "keys", "get", "set", "list", NULL};
  if (trn_config_get_kind(map) != TRN_CONFIG_MAP)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a rule for settings is a map", trn_config_origin(map));
  trn_status status = trn_config_check_keys(map, keys, error);
  if (status == TRN_OK) status = trn__who_read(map, &rule->who, error);
  if (status == TRN_OK) status = trn__texts_read(map, "keys", &rule->keys, error);
  if (status == TRN_OK) status = trn_config_bool(map, "get", &rule->gets, error);
  rule->lists = rule->gets;
  if (status == TRN_OK) status = trn_config_bool(map, "set", &rule->sets, error);
  if (status == TRN_OK) status = trn_config_bool(map, "list", &rule->lists, error);
  if (status == TRN_OK && !rule->keys.count)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a rule for settings has 'keys'",
                           trn_config_origin(map));
  return status;
}

static trn_status read_settings(const trn_config *config, validate *v, trn_error **error) {
  static const char *const keys[] = {"default_get", "default_set", "secrets", "rules", NULL};
  const trn_config *settings = trn_config_get(config, "settings");
  v->others_get = v->others_set = true;
  trn_status status = trn_config_check_keys(settings, keys, error);
  if (status == TRN_OK) status = trn_config_bool(settings, "default_get", &v->others_get, error);
  if (status == TRN_OK) status = trn_config_bool(settings, "default_set", &v->others_set, error);
  if (status == TRN_OK) status = trn__texts_read(settings, "secrets", &v->secrets, error);
  const trn_config *rules = trn_config_get(settings, "rules");
  if (status == TRN_OK && rules && trn_config_get_kind(rules) != TRN_CONFIG_LIST)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: 'rules' is a list", trn_config_origin(rules));
  size_t count = trn_config_count(rules);
  if (status == TRN_OK && !(v->settings = calloc(count ? count : 1, sizeof *v->settings)))
    status = trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    v->setting_count = i + 1;
    status = read_setting_rule(trn_config_at(rules, i), &v->settings[i], error);
  }
  return status;
}

static trn_status validate_read(const trn_config *config, trn_desk *desk, validate **out, trn_error **error) {
  static const char *const keys[] = {"depth", "nodes", "columns", "files", "bytes", "known_size", "forbidden_functions",
                                     "forbidden_statements", "forbidden_formats", "settings", NULL};
  validate *v = calloc(1, sizeof *v);
  if (!v) return trn__no_memory(error);
  atomic_init(&v->refs, 1);
  v->desk = desk;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (status == TRN_OK) status = read_caps(config, &v->caps, error);
  if (status == TRN_OK) status = read_settings(config, v, error);
  if (status) {
    validate_unref(v);
  } else {
    *out = v;
  }
  return status;
}

/* A reference to what is in force. */
static validate *now(validate_layer *layer) {
  pthread_mutex_lock(&layer->mutex);
  validate *v = layer->now;
  atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&layer->mutex);
  return v;
}

/* ---- plans ---- */

typedef struct measure {
  const validate *v;
  uint64_t nodes, files, bytes, wide;
  const char *unknown; /* a scan whose size is not known */
} measure;

/* Nesting, without recursion: children first. */
static trn_status depth_of(const trn_plan *plan, int64_t *out) {
  trn_ptrmap depths = {0};
  trn_stack stack = {0};
  uint64_t depth = 0;
  trn_status status = trn__stack_push(&stack, (trn_node){plan->root, true}, NULL, 0);
  while (status == TRN_OK && stack.count) {
    trn_frame *top = &stack.frames[stack.count - 1];
    trn_node child;
    if (trn__node_child(top->node, top->next, &child)) {
      top->next++;
      if (trn__ptrmap_get(&depths, child.at, NULL, &depth)) {
        if (depth > top->mark) top->mark = depth;
      } else {
        status = trn__stack_push(&stack, child, NULL, 0);
      }
      continue;
    }
    depth = top->mark + 1;
    if (!trn__ptrmap_set(&depths, top->node.at, NULL, depth)) status = TRN_RESOURCE_EXHAUSTED;
    stack.count--;
    if (stack.count && depth > stack.frames[stack.count - 1].mark) stack.frames[stack.count - 1].mark = depth;
  }
  trn__stack_finish(&stack);
  trn__ptrmap_finish(&depths);
  *out = (int64_t)depth;
  return status;
}

static void measure_scan(measure *m, const trn_rel *rel) {
  const trn_scan_label *label = trn_rel_label(rel);
  const trn_scan_info *info = label ? trn_scan_label_info(label) : NULL;
  if (info && (info->kind == TRN_SCAN_LOCAL || info->kind == TRN_SCAN_GENERATED)) return;
  uint64_t files = info ? info->files : 0, bytes = info ? info->bytes : 0;
  uint8_t version[16];
  bool counts = m->v->caps.files || m->v->caps.bytes || m->v->caps.known_size;
  if (counts && info && (!files || !bytes) && info->path_count)
    if (!trn__paths_version(info->paths, info->path_count, version, &files, &bytes)) files = bytes = 0;
  m->files += files;
  m->bytes += bytes;
  if (!files) m->unknown = info && info->table ? info->table : info && info->path_count ? info->paths[0] : "?";
}

static trn_walk measure_rel(void *user, const trn_rel *rel) {
  measure *m = user;
  m->nodes++;
  if (rel->column_count > m->wide) m->wide = rel->column_count;
  if (rel->kind == TRN_REL_SCAN) measure_scan(m, rel);
  return TRN_WALK_ON;
}

static trn_walk measure_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  (void)expr, (void)holder;
  ((measure *)user)->nodes++;
  return TRN_WALK_ON;
}

static trn_status too_much(const trn_layer_session *s, const char *what, uint64_t has, uint64_t most,
                           trn_error **error) {
  trn_event event = {.kind = TRN_EVENT_DECISION,
                     .action = "deny",
                     .object = what,
                     .detail = "over a cap",
                     .rows = -1,
                     .bytes = -1,
                     .status = TRN_RESOURCE_EXHAUSTED};
  trn__layer_emit(trn_layer_session_layer(s), s, &event);
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                       "The query has %llu %s; the server's policy allows %llu (validate.%s)", (unsigned long long)has,
                       what, (unsigned long long)most, what);
}

static trn_status forbidden(const trn_layer_session *s, const char *what, const char *name, trn_error **error) {
  trn_event event = {.kind = TRN_EVENT_DECISION,
                     .action = "deny",
                     .object = name,
                     .detail = what,
                     .rows = -1,
                     .bytes = -1,
                     .status = TRN_PERMISSION_DENIED};
  trn__layer_emit(trn_layer_session_layer(s), s, &event);
  return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "The %s %s is forbidden by the server's policy", what, name);
}

static trn_status check_size(const validate *v, const trn_layer_session *s, const trn_plan *plan, trn_error **error) {
  const caps *c = &v->caps;
  measure m = {.v = v};
  int64_t depth = 0;
  trn_visitor visitor = {.rel = measure_rel, .expr = measure_expr, .user = &m};
  trn_status status = trn__plan_walk(plan->root, &visitor);
  if (status == TRN_OK && c->depth >= 0) status = depth_of(plan, &depth);
  if (status) return trn_error_set(error, status, NULL, "a plan is too deep to be checked, or memory is out");
  if (c->depth >= 0 && depth > c->depth) return too_much(s, "depth", (uint64_t)depth, (uint64_t)c->depth, error);
  if (c->nodes >= 0 && m.nodes > (uint64_t)c->nodes) return too_much(s, "nodes", m.nodes, (uint64_t)c->nodes, error);
  if (c->columns >= 0 && m.wide > (uint64_t)c->columns)
    return too_much(s, "columns", m.wide, (uint64_t)c->columns, error);
  if (c->files && m.files > c->files) return too_much(s, "files", m.files, c->files, error);
  if (c->bytes && m.bytes > c->bytes) return too_much(s, "bytes", m.bytes, c->bytes, error);
  if (c->known_size && m.unknown) return forbidden(s, "scan of unknown size", m.unknown, error);
  return TRN_OK;
}

static trn_status ask(const validate *v, const trn_layer_session *s, const trn_plan *plan, const char *kind,
                      trn_error **error) {
  trn_session *session = trn_layer_session_get(s);
  if (trn__texts_match(&v->caps.statements, kind, true)) return forbidden(s, "statement", kind, error);
  trn_access access = {.struct_size = sizeof access,
                       .kind = TRN_ACCESS_STATEMENT,
                       .action = TRN_ACTION_USE,
                       .name = kind,
                       .user = trn_session_user(session),
                       .is_authenticated = trn_session_is_authenticated(session),
                       .session = session,
                       .plan = plan};
  access.group_count = trn_session_groups(session, &access.groups);
  return trn__desk_ask(v->desk, &access, error);
}

static trn_status check_plan(validate_layer *layer, const trn_layer_session *s, const trn_plan *plan, const char *kind,
                             trn_error **error) {
  validate *v = now(layer);
  const char *const *names = NULL;
  size_t count = 0;
  trn_status status = check_size(v, s, plan, error);
  for (int own = 0; own < 2 && status == TRN_OK && v->caps.functions.count; own++) { /* in both words */
    if (own ? trn__plan_own_functions(plan, &names, &count) : trn_plan_functions(plan, &names, &count))
      status = trn__no_memory(error);
    for (size_t i = 0; i < count && status == TRN_OK; i++)
      if (trn__texts_match(&v->caps.functions, names[i], true) ||
          trn__texts_match(&v->caps.functions, trn__function_plain(names[i]), true))
        status = forbidden(s, "function", names[i], error);
  }
  if (status == TRN_OK) status = ask(v, s, plan, kind, error);
  validate_unref(v);
  return status;
}

static trn_status check_format(validate_layer *layer, const trn_layer_session *s, const char *format,
                               trn_error **error) {
  validate *v = now(layer);
  trn_status status = TRN_OK;
  if (trn__texts_match(&v->caps.formats, format, true)) status = forbidden(s, "format", format, error);
  validate_unref(v);
  return status;
}

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  trn_status status = check_plan(self, s, request->plan, trn__plan_statement(request->plan), error);
  return status ? status : trn_next_execute(s, request, out, error);
}

static trn_status explain(void *self, trn_layer_session *s, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  trn_status status = check_plan(self, s, plan, "explain", error);
  return status ? status : trn_next_explain(s, plan, mode, out, error);
}

static trn_status encode(void *self, trn_layer_session *s, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  trn_status status = check_plan(self, s, plan, "encode", error);
  return status ? status : trn_next_encode(s, plan, format, out, error);
}

static trn_status check(void *self, trn_layer_session *s, trn_plan *plan, trn_error **error) {
  trn_status status = check_plan(self, s, plan, "analyze", error);
  return status ? status : trn_next_check(s, plan, error);
}

static trn_status decode(void *self, trn_layer_session *s, const trn_plan_input *input, trn_plan **out,
                         trn_error **error) {
  trn_status status = check_format(self, s, input->format, error);
  return status ? status : trn_next_decode(s, input, out, error);
}

static trn_status decode_statement(void *self, trn_layer_session *s, const trn_plan_input *input, trn_statement *out,
                                   trn_error **error) {
  trn_status status = check_format(self, s, input->format, error);
  return status ? status : trn_next_decode_statement(s, input, out, error);
}

/* ---- statements that change catalogs ---- */

typedef struct catalog_caps {
  validate_layer *v;
  trn_backend *backend; /* a reference: keeps both */
  trn_layer *layer;
} catalog_caps;

static trn_status allow_in_catalog(void *user, trn_session *session, const trn_catalog_access *access,
                                   trn_error **error) {
  static const char *const kinds[] = {
      [TRN_CATALOG_CREATE] = "create", [TRN_CATALOG_WRITE] = "insert", [TRN_CATALOG_ALTER] = "alter",
      [TRN_CATALOG_DROP] = "drop",     [TRN_CATALOG_DESCRIBE] = NULL};
  catalog_caps *c = user;
  const char *kind = kinds[access->action];
  validate *v = kind ? now(c->v) : NULL;
  bool is_forbidden = v && trn__texts_match(&v->caps.statements, kind, true);
  validate_unref(v);
  if (!is_forbidden) return TRN_OK;
  trn_event event = {.kind = TRN_EVENT_DECISION,
                     .action = "deny",
                     .object = kind,
                     .detail = "statement",
                     .user = trn_session_user(session),
                     .session_id = trn_session_id(session),
                     .rows = -1,
                     .bytes = -1,
                     .status = TRN_PERMISSION_DENIED};
  trn__layer_emit(c->layer, NULL, &event);
  return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "The statement %s is forbidden by the server's policy", kind);
}

static void caps_free(void *user) {
  catalog_caps *c = user;
  trn_backend_unref(c->backend);
  free(c);
}

static trn_status wrap_catalog(void *self, trn_layer_session *s, trn_catalog *inner, trn_catalog **out,
                               trn_error **error) {
  static const trn_catalog_hooks hooks = {
      .struct_size = sizeof hooks, .allow = allow_in_catalog, .destroy = caps_free};
  trn_layer *layer = trn_layer_session_layer(s);
  catalog_caps *c = malloc(sizeof *c);
  if (!c) return trn__no_memory(error);
  *c = (catalog_caps){self, trn__layer_ref(layer), layer};
  if (trn_catalog_wrap(inner, &hooks, c, out) == TRN_OK) return TRN_OK;
  caps_free(c);
  return trn__no_memory(error);
}

/* ---- settings ---- */

static bool may(const validate *v, const trn_session *session, const char *key, trn_setting_use use) {
  if (use != TRN_SETTING_SET && trn__texts_match(&v->secrets, key, true)) return false;
  for (size_t i = 0; i < v->setting_count; i++) {
    const setting_rule *rule = &v->settings[i];
    if (!trn__texts_match(&rule->keys, key, true) || !trn__who_matches(&rule->who, session)) continue;
    return use == TRN_SETTING_GET ? rule->gets : use == TRN_SETTING_SET ? rule->sets : rule->lists;
  }
  return use == TRN_SETTING_SET ? v->others_set : v->others_get;
}

static trn_status guard_setting(void *user, trn_session *session, const char *key, const char *value,
                                trn_setting_use use, trn_error **error) {
  static const char *const words[] = {"read", "set", "list"};
  (void)value;
  validate *v = now(user);
  bool allowed = may(v, session, key, use);
  validate_unref(v);
  if (allowed) return TRN_OK;
  return trn_error_set(error, TRN_PERMISSION_DENIED, "CANNOT_MODIFY_CONFIG",
                       "The setting %s may not be %s by clients (the server's policy)", key, words[use]);
}

static trn_status open_session(void *self, trn_layer_session *s, void **state, trn_error **error) {
  *state = NULL;
  return trn_session_guard_settings(trn_layer_session_get(s), guard_setting, self) ? trn__no_memory(error) : TRN_OK;
}

static void layer_free(validate_layer *layer) {
  validate_unref(layer->now);
  pthread_mutex_destroy(&layer->mutex);
  free(layer);
}

static void destroy(void *self) {
  validate_layer *layer = self;
  trn__desk_destroy(layer->desk);
  layer_free(layer);
}

static trn_status reload(void *self, const trn_config *config, trn_error **error) {
  validate_layer *layer = self;
  validate *fresh = NULL;
  trn_status status = validate_read(config, layer->desk, &fresh, error);
  if (status) return status;
  pthread_mutex_lock(&layer->mutex);
  validate *old = layer->now;
  layer->now = fresh;
  pthread_mutex_unlock(&layer->mutex);
  validate_unref(old);
  return TRN_OK;
}

trn_status trn_validate_create(const trn_validate_options *given, trn_backend *inner, trn_backend **out,
                               trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "validate",
                                    .role = TRN_LAYER_POLICY,
                                    .open_session = open_session,
                                    .execute = execute,
                                    .explain = explain,
                                    .decode = decode,
                                    .encode = encode,
                                    .check = check,
                                    .catalog = wrap_catalog,
                                    .decode_statement = decode_statement,
                                    .destroy = destroy,
                                    .reload = reload};
  *out = NULL;
  trn_validate_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  validate_layer *layer = calloc(1, sizeof *layer);
  if (!layer) return trn__no_memory(error);
  pthread_mutex_init(&layer->mutex, NULL);
  trn_status status = trn__desk_create(options.callback, &layer->desk, error);
  bool has_desk = status == TRN_OK;
  if (has_desk) status = validate_read(options.config, layer->desk, &layer->now, error);
  if (status == TRN_OK) status = trn__layer_make(&ops, layer, inner, options.sink, options.sink_user, out, error);
  if (status && has_desk) trn__desk_drop(layer->desk); /* the callback's user stays the caller's */
  if (status) layer_free(layer);
  return status;
}
