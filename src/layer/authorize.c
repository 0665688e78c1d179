/* The authorize layer: who may read, write, create and drop what; and what is left of it: row filters and column masks. */
#include <pthread.h>
#include <strings.h>

#include "layer/authorize.h"

#include "core/blake2b.h"
#include "core/query.h"

/* What was read last; a question holds a reference to what it began with. */
typedef struct authorize_state {
  atomic_uint refs;
  authorize_rules rules;
} authorize_state;

typedef struct authorize {
  pthread_mutex_t mutex; /* state */
  authorize_state *state;
  trn_desk *desk;
} authorize;

/* One plan, or one question, of a session. */
typedef struct inquiry {
  const authorize *a;
  authorize_state *state; /* a reference */
  const authorize_rules *rules; /* of the state */
  trn_layer_session *layer_session; /* NULL: a catalog asks */
  const trn_layer *layer;
  trn_session *session;
  const trn_plan *plan;
  trn_live live;
  trn_status status;
  trn_error **error;
  bool rewrites; /* something has a filter or a mask */
  const trn_scan_info *written; /* what the plan writes; NULL: nothing so far */
  trn_blake2b texts;
} inquiry;

/* ---- the rules of now ---- */

static void state_unref(authorize_state *state) {
  if (!state || atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1) return;
  authorize__finish(&state->rules);
  free(state);
}

static trn_status state_read(const trn_config *config, authorize_state **out, trn_error **error) {
  authorize_state *state = calloc(1, sizeof *state);
  if (!state) return trn__no_memory(error);
  atomic_init(&state->refs, 1);
  trn_status status = authorize__read(config, &state->rules, error);
  if (status) {
    state_unref(state);
  } else {
    *out = state;
  }
  return status;
}

static void inquiry_begin(inquiry *q, authorize *a) {
  q->a = a;
  pthread_mutex_lock(&a->mutex);
  q->state = a->state;
  atomic_fetch_add_explicit(&q->state->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&a->mutex);
  q->rules = &q->state->rules;
}

static void inquiry_end(inquiry *q) {
  state_unref(q->state);
}

/* ---- one decision ---- */

static const char *action_name(trn_access_action action) {
  static const char *const names[] = {"", "read", "write", "create", "drop", "use"};
  return names[action];
}

static const char *kind_name(trn_access_kind kind) {
  static const char *const names[] = {"", "table", "view", "path", "function", "column", "database", "", "statement"};
  return names[kind];
}

static void record(const inquiry *q, const char *action, trn_access_kind kind, trn_access_action what,
                   const char *object, trn_status status, const authorize_rule *rule, const char *reason) {
  if (!trn__layer_has_sink(q->layer)) return;
  trn_strbuf detail = {0};
  trn__strbuf_printf(&detail, "%s %s: %s%s", action_name(what), kind_name(kind), reason, rule ? rule->origin : "");
  trn_event event = {.kind = TRN_EVENT_DECISION,
                     .action = action,
                     .object = object,
                     .user = trn_session_user(q->session),
                     .session_id = trn_session_id(q->session),
                     .detail = detail.data,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
  trn__layer_emit(q->layer, NULL, &event);
  trn__strbuf_finish(&detail);
}

static trn_status refuse(const inquiry *q, trn_access_kind kind, trn_access_action action, const char *object,
                         const authorize_rule *rule) {
  const char *reason = rule ? "by the rule at " : "no rule allows it";
  record(q, "deny", kind, action, object, TRN_PERMISSION_DENIED, rule, reason);
  const char *user = trn_session_user(q->session);
  return trn_error_set(q->error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS", "User '%s' may not %s %s %s", user,
                       action_name(action), kind_name(kind), object);
}

/* What the embedder says; the rules have allowed it. */
static trn_status consult(const inquiry *q, trn_access_kind kind, trn_access_action action, const char *object,
                          const char *column) {
  trn_access access = {.struct_size = sizeof access,
                       .kind = kind,
                       .action = action,
                       .name = object,
                       .column = column,
                       .user = trn_session_user(q->session),
                       .is_authenticated = trn_session_is_authenticated(q->session),
                       .session = q->session,
                       .plan = q->plan};
  access.group_count = trn_session_groups(q->session, &access.groups);
  trn_status status = trn__desk_ask(q->a->desk, &access, q->error);
  if (status) record(q, "deny", kind, action, object, status, NULL, "the callback says so");
  return status;
}

/* `actions`: one of them is enough; `action`: for words. */
static trn_status decide(const inquiry *q, trn_access_kind kind, trn_access_action action, unsigned actions,
                         const authorize_name *name, const char *text) {
  trn_strbuf full = {0};
  if (name) {
    if (name->catalog) trn__strbuf_printf(&full, "%s.", name->catalog);
    if (name->database && *name->database)
      trn__strbuf_printf(&full, "%s%s", name->database, name->table ? "." : "");
    trn__strbuf_puts(&full, name->table ? name->table : "");
  } else {
    trn__strbuf_puts(&full, text);
  }
  if (full.failed) {
    trn__strbuf_finish(&full);
    return trn__no_memory(q->error);
  }
  authorize_answer answer = authorize__decide(q->rules, q->session, kind, actions, name, text);
  trn_status status = answer.allowed ? consult(q, kind, action, full.data, NULL)
                                     : refuse(q, kind, action, full.data, answer.rule);
  if (status == TRN_OK)
    record(q, "allow", kind, action, full.data, TRN_OK, answer.rule, answer.rule ? "by the rule at " : "by default");
  trn__strbuf_finish(&full);
  return status;
}

static trn_status decide_text(const inquiry *q, trn_access_action action, const char *path) {
  char *given = trn__path_normal(path, false), *real = trn__path_normal(path, true);
  trn_status status = given && real ? TRN_OK : trn__no_memory(q->error);
  /* Both what the client wrote and where it leads. */
  if (status == TRN_OK) status = decide(q, TRN_ACCESS_PATH, action, AUTHORIZE_BIT(action), NULL, real);
  if (status == TRN_OK && strcmp(given, real) != 0) {
    authorize_answer answer =
        authorize__decide(q->rules, q->session, TRN_ACCESS_PATH, AUTHORIZE_BIT(action), NULL, given);
    if (!answer.allowed && (answer.rule || q->rules->allows_by_default))
      status = refuse(q, TRN_ACCESS_PATH, action, given, answer.rule);
  }
  free(given);
  free(real);
  return status;
}

static trn_status decide_path(const inquiry *q, trn_access_action action, const char *path) {
  size_t size = strcspn(path, "*?[{");
  trn_status status = decide_text(q, action, path);
  if (status || action != TRN_ACTION_READ || !path[size]) return status;
  /* A pattern that an engine is yet to match: it may find anything below the directory before it. */
  while (size && path[size - 1] != '/') size--;
  char *directory = strndup(path, size), *normal = directory ? trn__path_normal(directory, false) : NULL;
  if (!normal) status = trn__no_memory(q->error);
  else if (normal[0] == '/') status = decide_text(q, action, directory);
  free(normal);
  free(directory);
  return status;
}

static trn_status refuse_unknown(const inquiry *q, const char *what) {
  if (q->rules->allows_unknown) {
    record(q, "allow", TRN_ACCESS_UNKNOWN, TRN_ACTION_READ, what, TRN_OK, NULL, "unknown things are allowed");
    return consult(q, TRN_ACCESS_UNKNOWN, TRN_ACTION_READ, what, NULL);
  }
  record(q, "deny", TRN_ACCESS_UNKNOWN, TRN_ACTION_READ, what, TRN_PERMISSION_DENIED, NULL, "not understood");
  return trn_error_set(q->error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS",
                       "User '%s' may not run this: %s cannot be checked against the policies",
                       trn_session_user(q->session), what);
}

/* ---- what a plan reads and writes ---- */

static trn_status check_data(const inquiry *q, const trn_scan_info *info, trn_access_action action) {
  trn_status status = TRN_OK;
  bool has_rights = false; /* through a view that gives its own */
  for (size_t i = 0; i < info->view_count && status == TRN_OK && action == TRN_ACTION_READ; i++) {
    const trn_scan_view *view = &info->views[i];
    authorize_name name = {view->catalog, view->database, view->name};
    if (view->is_temporary) continue;
    if (!has_rights)
      status = decide(q, TRN_ACCESS_VIEW, action, AUTHORIZE_BIT(action), &name, NULL);
    has_rights |= q->rules->views_give_rights;
  }
  if (status || has_rights) return status;
  if (info->kind == TRN_SCAN_TABLE && info->table) {
    authorize_name name = {info->catalog, info->database, info->table};
    return decide(q, TRN_ACCESS_TABLE, action, AUTHORIZE_BIT(action), &name, NULL);
  }
  if (info->kind == TRN_SCAN_LOCAL || info->kind == TRN_SCAN_GENERATED) return TRN_OK;
  if (info->kind != TRN_SCAN_FILES || !info->path_count) return refuse_unknown(q, "a scan of unknown data");
  for (size_t i = 0; i < info->path_count && status == TRN_OK; i++) status = decide_path(q, action, info->paths[i]);
  return status;
}

/* Whether the data itself says which columns it has. Of text it is the client who does: by a schema, a header that counts or
 * not, a separator, an end of line, a mode that shows whole records. A rule about columns would be passed by. */
static bool has_columns(const trn_scan_info *info) {
  static const char *const formats[] = {"parquet", "arrow", "ipc", "avro", "orc"};
  if (info->is_raw) return false;
  for (size_t i = 0; i < sizeof formats / sizeof *formats && info->format; i++)
    if (strcasecmp(info->format, formats[i]) == 0) return true;
  return false;
}

static trn_status check_text(const inquiry *q, const trn_scan_info *info) {
  for (size_t r = 0; r < q->rules->count && !has_columns(info); r++) {
    const authorize_rule *rule = &q->rules->items[r];
    bool changes = rule->has_columns || rule->hide.count || rule->filter || rule->mask_count;
    if (!changes || !authorize__is_about(rule, q->session, info)) continue;
    /* A table that a rule names has the columns that its catalog says; one over files that a rule names is anybody's. */
    if (info->kind == TRN_SCAN_TABLE && !info->is_raw && !authorize__is_about_paths(rule, info)) continue;
    const char *object = info->table ? info->table : info->path_count ? info->paths[0] : "?";
    trn_access_kind kind = info->table ? TRN_ACCESS_TABLE : TRN_ACCESS_PATH;
    record(q, "deny", kind, TRN_ACTION_READ, object, TRN_PERMISSION_DENIED, rule, "text has no columns of its own: by the rule at ");
    return trn_error_set(q->error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS",
                         "User '%s' may not read %s %s: a rule is about its columns or rows, and what is a column of text "
                         "(%s) is said by who reads it; data in parquet or arrow files has columns of its own",
                         trn_session_user(q->session), kind_name(kind), object, info->format ? info->format : "unknown");
  }
  return TRN_OK;
}

/* Hidden columns that something needs. */
static trn_status check_columns(const inquiry *q, const trn_rel *rel, const trn_scan_info *info) {
  trn_status status = check_text(q, info);
  if (status) return status;
  for (size_t r = 0; r < q->rules->count; r++) {
    const authorize_rule *rule = &q->rules->items[r];
    if (!rule->has_columns && !rule->hide.count) continue;
    if (!authorize__is_about(rule, q->session, info)) continue;
    for (uint32_t i = 0; i < rel->column_count; i++) {
      if (!trn__is_live(&q->live, rel->columns[i].id)) continue;
      const char *name = trn_rel_scan_column_name(rel, i);
      if (!name) return refuse_unknown(q, "a column without a name");
      if (authorize__hides(rule, name)) return refuse(q, TRN_ACCESS_COLUMN, TRN_ACTION_READ, name, rule);
    }
  }
  return TRN_OK;
}

static bool has_guard(const inquiry *q, const trn_scan_info *info) {
  for (size_t r = 0; r < q->rules->count; r++) {
    const authorize_rule *rule = &q->rules->items[r];
    if ((rule->filter || rule->mask_count) && authorize__is_about(rule, q->session, info)) return true;
  }
  return false;
}

static bool same_text(const char *a, const char *b) {
  return !a || !b || strcasecmp(a, b) == 0; /* what is not said may be the same */
}

static bool same_data(const trn_scan_info *a, const trn_scan_info *b) {
  if (a->table && b->table)
    return same_text(a->table, b->table) && same_text(a->database, b->database) && same_text(a->catalog, b->catalog);
  for (size_t i = 0; i < a->path_count; i++)
    for (size_t k = 0; k < b->path_count; k++) {
      size_t size = strlen(a->paths[i]), other = strlen(b->paths[k]);
      if (strncmp(a->paths[i], b->paths[k], size < other ? size : other) == 0) return true;
    }
  return false;
}

/* Rows that are hidden or masked would be lost when the table is written anew from what the user sees: DELETE, UPDATE,
 * INSERT OVERWRITE. */
static trn_status check_guard(inquiry *q, const trn_scan_info *info) {
  q->rewrites = true;
  if (!q->written || !same_data(q->written, info)) return TRN_OK;
  record(q, "deny", TRN_ACCESS_TABLE, TRN_ACTION_WRITE, info->table ? info->table : "?", TRN_PERMISSION_DENIED, NULL,
         "it is written from rows that are filtered");
  return trn_error_set(q->error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS",
                       "User '%s' may not write %s from its own rows: some of them are hidden or masked",
                       trn_session_user(q->session), info->table ? info->table : "the files");
}

static trn_walk check_rel(void *user, const trn_rel *rel) {
  inquiry *q = user;
  const trn_scan_label *label = trn_rel_label(rel);
  switch (rel->kind) {
  case TRN_REL_SCAN:
    if (!label) {
      q->status = refuse_unknown(q, "a scan of unknown data");
      break;
    }
    q->status = check_data(q, trn_scan_label_info(label), TRN_ACTION_READ);
    if (q->status == TRN_OK) q->status = check_columns(q, rel, trn_scan_label_info(label));
    if (q->status == TRN_OK && has_guard(q, trn_scan_label_info(label)))
      q->status = check_guard(q, trn_scan_label_info(label));
    break;
  case TRN_REL_WRITE:
    if (label) q->written = trn_scan_label_info(label); /* before what it reads: parents come first */
    q->status = label ? check_data(q, trn_scan_label_info(label), TRN_ACTION_WRITE)
                      : decide_path(q, TRN_ACTION_WRITE, rel->u.write.directory);
    break;
  case TRN_REL_OPAQUE: q->status = refuse_unknown(q, "a relation that is not understood"); break;
  case TRN_REL_EXTENSION:
    if (!trn__texts_match(&q->rules->extensions, rel->u.extension.name, false))
      q->status = refuse_unknown(q, rel->u.extension.name);
    break;
  default: break;
  }
  return q->status ? TRN_WALK_STOP : TRN_WALK_ON;
}

static trn_status check_functions(const inquiry *q) {
  const char *const *names;
  size_t count;
  bool has_rules = !q->rules->allows_functions;
  for (size_t i = 0; i < q->rules->count; i++) has_rules |= q->rules->items[i].functions.count > 0;
  if (!has_rules) return TRN_OK;
  if (trn_plan_functions(q->plan, &names, &count)) return trn__no_memory(q->error);
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status =
        decide(q, TRN_ACCESS_FUNCTION, TRN_ACTION_USE, AUTHORIZE_BIT(TRN_ACTION_USE), NULL, names[i]);
  /* What does the work has another name than the protocol's, which has several for it: it may not be denied, either. */
  if (status == TRN_OK && trn__plan_own_functions(q->plan, &names, &count)) status = trn__no_memory(q->error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    const char *name = trn__function_plain(names[i]);
    authorize_answer answer =
        authorize__decide(q->rules, q->session, TRN_ACCESS_FUNCTION, AUTHORIZE_BIT(TRN_ACTION_USE), NULL, name);
    if (!answer.allowed && answer.rule) status = refuse(q, TRN_ACCESS_FUNCTION, TRN_ACTION_USE, name, answer.rule);
  }
  return status;
}

static trn_status check_plan(inquiry *q) {
  if (q->plan->kind == TRN_PLAN_PHYSICAL) return refuse_unknown(q, "a physical plan");
  if (trn__live_columns(q->plan, &q->live)) return trn__no_memory(q->error);
  trn_visitor visitor = {.rel = check_rel, .user = q};
  trn_status status = trn__plan_walk(q->plan->root, &visitor);
  if (q->status) status = q->status;
  else if (status) trn_error_set(q->error, status, NULL, "a plan is too deep to be checked, or memory is out");
  trn__live_finish(&q->live);
  return status ? status : check_functions(q);
}

/* ---- row filters and masks ---- */

static trn_status guard_scan(inquiry *q, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  const trn_scan_info *info = trn_scan_label_info(rel->u.scan.info);
  const authorize_rules *rules = q->rules;
  trn_vec filters = {0};
  trn_strbuf masks = {0};
  bool ok = true;
  for (size_t r = 0; r < rules->count && ok; r++) {
    const authorize_rule *rule = &rules->items[r];
    if ((!rule->filter && !rule->mask_count) || !authorize__is_about(rule, q->session, info)) continue;
    if (rule->filter) {
      ok = trn__vec_push(&filters, rule->filter);
      trn__blake2b_add(&q->texts, rule->filter, strlen(rule->filter) + 1);
    }
    if (rule->mask_count) trn__strbuf_add(&masks, rule->masks, rule->mask_count * sizeof *rule->masks);
    for (size_t m = 0; m < rule->mask_count; m++)
      trn__blake2b_add(&q->texts, rule->masks[m].text, strlen(rule->masks[m].text) + 1);
  }
  trn_status status = ok && !masks.failed ? TRN_OK : trn__no_memory(error);
  trn_text_context context = {.struct_size = sizeof context, .user = trn_session_user(q->session)};
  context.group_count = trn_session_groups(q->session, &context.groups);
  if (status == TRN_OK) {
    trn_error *failure = NULL;
    *out = trn_edit_guard(edit, rel, (const char *const *)filters.items, filters.count, (const trn_mask *)(void *)masks.data,
                          masks.size / sizeof(trn_mask), &context, rules->is_open, &failure);
    if (!*out) status = failure ? trn_error_status(failure) : TRN_RESOURCE_EXHAUSTED;
    if (!*out && error)
      *error = failure;
    else
      trn_error_unref(failure);
  }
  trn__vec_finish(&filters);
  trn__strbuf_finish(&masks);
  return status;
}

static trn_status rewrite_rel(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  inquiry *q = user;
  if (rel->kind != TRN_REL_SCAN || !rel->u.scan.info) return TRN_OK;
  if (!has_guard(q, trn_scan_label_info(rel->u.scan.info))) return TRN_OK;
  return guard_scan(q, edit, rel, out, error);
}

/* Checks; gives the plan that may run (a reference). `key` (33 bytes): what the filters and masks are. */
static trn_status permit(authorize *a, trn_layer_session *s, trn_plan *plan, trn_plan **out, char *key,
                         trn_error **error) {
  *out = NULL;
  inquiry q = {.layer_session = s,
               .layer = trn_layer_session_layer(s),
               .session = trn_layer_session_get(s),
               .plan = plan,
               .error = error};
  key[0] = 0;
  inquiry_begin(&q, a);
  trn_status status = check_plan(&q);
  if (status == TRN_OK && !q.rewrites) *out = trn_plan_ref(plan);
  if (status == TRN_OK && q.rewrites) {
    trn__blake2b_init(&q.texts);
    trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = rewrite_rel, .user = &q};
    status = trn_plan_rewrite(plan, &rewriting, out, error);
    uint8_t digest[16];
    trn__blake2b_end(&q.texts, digest);
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) key[2 * i] = hex[digest[i] >> 4], key[2 * i + 1] = hex[digest[i] & 15];
    key[32] = 0;
  }
  inquiry_end(&q);
  return status;
}

/* ---- the layer ---- */

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *given, trn_operation **out,
                          trn_error **error) {
  char key[33];
  trn_execute_request request = *given;
  trn_plan *plan = NULL;
  trn_status status = permit(self, s, given->plan, &plan, key, error);
  if (status) return status;
  trn_strbuf policy = {0};
  if (key[0]) {
    trn__strbuf_printf(&policy, "%s%s%s", given->policy ? given->policy : "", given->policy ? "," : "", key);
    request.policy = policy.data;
  }
  request.plan = plan;
  status = policy.failed ? trn__no_memory(error) : trn_next_execute(s, &request, out, error);
  trn__strbuf_finish(&policy);
  trn_plan_unref(plan);
  return status;
}

static trn_status explain(void *self, trn_layer_session *s, trn_plan *given, trn_explain_mode mode, char **out,
                          trn_error **error) {
  char key[33];
  trn_plan *plan = NULL;
  trn_status status = permit(self, s, given, &plan, key, error);
  if (status == TRN_OK && key[0]) /* files are named by values of rows, and their statistics are of all rows */
    status = trn_error_set(error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS",
                           "User '%s' may not see how this runs: something of what it reads is hidden",
                           trn_session_user(trn_layer_session_get(s)));
  if (status == TRN_OK) status = trn_next_explain(s, plan, mode, out, error);
  trn_plan_unref(plan);
  return status;
}

static trn_status encode(void *self, trn_layer_session *s, trn_plan *given, const char *format, trn_bytes *out,
                         trn_error **error) {
  char key[33];
  trn_plan *plan = NULL;
  trn_status status = permit(self, s, given, &plan, key, error);
  if (status == TRN_OK) status = trn_next_encode(s, plan, format, out, error);
  trn_plan_unref(plan);
  return status;
}

static trn_status check(void *self, trn_layer_session *s, trn_plan *given, trn_error **error) {
  char key[33];
  trn_plan *plan = NULL;
  trn_status status = permit(self, s, given, &plan, key, error);
  if (status == TRN_OK) status = trn_next_check(s, plan, error);
  trn_plan_unref(plan);
  return status;
}

/* Before anything is looked at: inference reads files, and its errors tell what is there. */
static trn_status open_source(void *self, trn_layer_session *s, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  inquiry q = {.layer_session = s,
               .layer = trn_layer_session_layer(s),
               .session = trn_layer_session_get(s),
               .error = error};
  trn_status status = TRN_OK;
  inquiry_begin(&q, self);
  if (request->label) {
    status = check_data(&q, trn_scan_label_info(request->label), TRN_ACTION_READ);
    if (!status) status = check_text(&q, trn_scan_label_info(request->label)); /* before a schema is inferred from it */
  }
  for (size_t i = 0; i < request->path_count && status == TRN_OK && !request->label; i++)
    status = decide_path(&q, TRN_ACTION_READ, request->paths[i]);
  inquiry_end(&q);
  return status ? status : trn_next_open_source(s, request, out, schema, error);
}

/* ---- catalogs ---- */

typedef struct catalog_guard {
  authorize *a;
  trn_layer *layer;
  trn_backend *backend; /* a reference: keeps both */
} catalog_guard;

/* A rule hides or changes something of it: it may not be renamed (rules are about names: under another one it would be
 * whole), and its partitions are not told (they are values of rows, also of hidden ones). */
static trn_status check_whole(const inquiry *q, const authorize_name *name, const char *table, trn_access_action action) {
  const trn_scan_info info = {.kind = TRN_SCAN_TABLE, .catalog = name->catalog, .database = name->database, .table = table};
  for (size_t r = 0; r < q->rules->count; r++) {
    const authorize_rule *rule = &q->rules->items[r];
    bool changes = rule->filter || rule->mask_count || rule->has_columns || rule->hide.count;
    if (changes && authorize__is_about(rule, q->session, &info))
      return refuse(q, TRN_ACCESS_TABLE, action, table, rule);
  }
  return TRN_OK;
}

/* It may be a table or a view: a right to either. */
static trn_access_kind either_kind(const inquiry *q, unsigned bits, const authorize_name *name) {
  bool is_view = !authorize__decide(q->rules, q->session, TRN_ACCESS_TABLE, bits, name, NULL).allowed &&
                 authorize__decide(q->rules, q->session, TRN_ACCESS_VIEW, bits, name, NULL).rule;
  return is_view ? TRN_ACCESS_VIEW : TRN_ACCESS_TABLE;
}

/* A renamed table goes away where it was, and is read where it comes to. */
static trn_status allow_rename(const inquiry *q, const authorize_name *name) {
  static const trn_access_action actions[] = {TRN_ACTION_CREATE, TRN_ACTION_DROP, TRN_ACTION_READ};
  trn_status status = check_whole(q, name, name->table, TRN_ACTION_DROP);
  for (size_t i = 0; i < sizeof actions / sizeof *actions && status == TRN_OK; i++) {
    unsigned bits = AUTHORIZE_BIT(actions[i]);
    status = decide(q, either_kind(q, bits, name), actions[i], bits, name, NULL);
  }
  return status;
}

static trn_status allow_in_catalog(void *user, trn_session *session, const trn_catalog_access *access,
                                   trn_error **error) {
  catalog_guard *guard = user;
  static const struct {
    trn_access_action action;
    unsigned bits;
  } actions[] = {[TRN_CATALOG_READ] = {TRN_ACTION_READ, AUTHORIZE_BIT(TRN_ACTION_READ)},
                 [TRN_CATALOG_LIST] = {TRN_ACTION_READ, AUTHORIZE_ALL},
                 [TRN_CATALOG_CREATE] = {TRN_ACTION_CREATE, AUTHORIZE_BIT(TRN_ACTION_CREATE)},
                 [TRN_CATALOG_WRITE] = {TRN_ACTION_WRITE, AUTHORIZE_BIT(TRN_ACTION_WRITE)},
                 [TRN_CATALOG_ALTER] = {TRN_ACTION_CREATE, AUTHORIZE_BIT(TRN_ACTION_CREATE)},
                 [TRN_CATALOG_DROP] = {TRN_ACTION_DROP, AUTHORIZE_BIT(TRN_ACTION_DROP)},
                 [TRN_CATALOG_DESCRIBE] = {TRN_ACTION_READ, AUTHORIZE_ALL}};
  inquiry q = {.layer = guard->layer, .session = session, .error = error};
  authorize_name name = {access->catalog, access->database, access->table};
  trn_access_kind kind =
      !access->table ? TRN_ACCESS_DATABASE : access->is_view ? TRN_ACCESS_VIEW : TRN_ACCESS_TABLE;
  trn_access_action action = actions[access->action].action;
  unsigned bits = actions[access->action].bits;
  trn_status status = TRN_OK;
  inquiry_begin(&q, guard->a);
  if (access->action == TRN_CATALOG_LIST) { /* no event for each entry */
    if (access->table && !authorize__decide(q.rules, session, kind, bits, &name, NULL).allowed)
      status = TRN_PERMISSION_DENIED;
    inquiry_end(&q);
    return status;
  }
  if (access->action == TRN_CATALOG_DROP && access->table) kind = either_kind(&q, bits, &name);
  status = access->is_renamed ? allow_rename(&q, &name) : decide(&q, kind, action, bits, &name, NULL);
  if (status == TRN_OK && access->shows_values) status = check_whole(&q, &name, access->table, TRN_ACTION_READ);
  if (status == TRN_OK && access->location) status = decide_path(&q, TRN_ACTION_CREATE, access->location);
  inquiry_end(&q);
  return status;
}

static void guard_free(void *user) {
  catalog_guard *guard = user;
  trn_backend_unref(guard->backend);
  free(guard);
}

static trn_status wrap_catalog(void *self, trn_layer_session *s, trn_catalog *inner, trn_catalog **out,
                               trn_error **error) {
  static const trn_catalog_hooks hooks = {
      .struct_size = sizeof hooks, .allow = allow_in_catalog, .destroy = guard_free};
  catalog_guard *guard = malloc(sizeof *guard);
  if (!guard) return trn__no_memory(error);
  trn_layer *layer = trn_layer_session_layer(s);
  *guard = (catalog_guard){self, layer, trn__layer_ref(layer)};
  trn_status status = trn_catalog_wrap(inner, &hooks, guard, out);
  if (!status) return TRN_OK;
  guard_free(guard);
  return trn__no_memory(error);
}

static void authorize_free(authorize *a) {
  state_unref(a->state);
  pthread_mutex_destroy(&a->mutex);
  free(a);
}

static void destroy(void *self) {
  authorize *a = self;
  trn__desk_destroy(a->desk);
  authorize_free(a);
}

static trn_status reload(void *self, const trn_config *config, trn_error **error) {
  authorize *a = self;
  authorize_state *state = NULL;
  trn_config *empty = config ? NULL : trn_config_create(); /* named without settings: nothing is allowed */
  if (!config && !empty) return trn__no_memory(error);
  trn_status status = state_read(config ? config : empty, &state, error);
  trn_config_destroy(empty);
  if (status) return status;
  pthread_mutex_lock(&a->mutex);
  authorize_state *old = a->state;
  a->state = state;
  pthread_mutex_unlock(&a->mutex);
  state_unref(old);
  return TRN_OK;
}

trn_status trn_authorize_create(const trn_authorize_options *given, trn_backend *inner, trn_backend **out,
                                trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "authorize",
                                    .role = TRN_LAYER_POLICY,
                                    .open_source = open_source,
                                    .execute = execute,
                                    .explain = explain,
                                    .encode = encode,
                                    .check = check,
                                    .catalog = wrap_catalog,
                                    .destroy = destroy,
                                    .reload = reload};
  *out = NULL;
  trn_authorize_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  authorize *a = calloc(1, sizeof *a);
  if (!a) return trn__no_memory(error);
  pthread_mutex_init(&a->mutex, NULL);
  trn_status status = state_read(options.config, &a->state, error);
  if (status == TRN_OK) status = trn__desk_create(options.callback, &a->desk, error);
  if (status == TRN_OK) {
    status = trn__layer_make(&ops, a, inner, options.sink, options.sink_user, out, error);
    if (status) trn__desk_drop(a->desk); /* the callback's user stays the caller's */
  }
  if (status) authorize_free(a);
  return status;
}
