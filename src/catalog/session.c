/* Names of a session in the terms of catalogs; the catalogs that were added to a backend. */
#include <stdio.h>
#include <trunnion/catalog.h>

#include "catalog/command.h"
#include "core/query.h"
#include "plan/plan.h"

trn_status trn_backend_add_catalog(trn_backend *backend, trn_catalog *catalog) {
  if (trn__backend_has_catalogs(backend)) return TRN_FAILED_PRECONDITION;
  return trn__backend_add_catalog(backend, catalog, false);
}

/* The catalog in memory of a backend that was given none. */
static trn_status make_first(trn_backend *backend, trn_error **error) {
  const trn_warehouse_options options = {.struct_size = sizeof options};
  trn_catalog *made = NULL;
  trn_status status = trn_warehouse_open(&options, &made, error);
  if (!status) status = trn__backend_add_catalog(backend, made, true);
  if (status == TRN_ALREADY_EXISTS) status = TRN_OK; /* another thread was first */
  trn_catalog_unref(made);
  return status;
}

static trn_status no_catalog(const char *name, trn_error **error) {
  char quoted[300];
  snprintf(quoted, sizeof quoted, "`%s`", name);
  const trn_error_param param = {"catalogName", quoted};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_NOT_FOUND,
                               .condition = "CATALOG_NOT_FOUND",
                               .message = "there is no such catalog",
                               .params = &param,
                               .param_count = 1};
  if (error) *error = trn_error_create(&spec);
  return TRN_NOT_FOUND;
}

trn_status trn__backend_get_catalog(trn_backend *backend, void *state, const char *name, trn_catalog **out,
                                    trn_error **error) {
  *out = NULL;
  if (trn__backend_has_catalogs(backend)) return trn__backend_catalog(backend, state, name, out, error);
  *out = trn__backend_added_catalog(backend, name, NULL);
  if (*out) return TRN_OK;
  trn_status status = make_first(backend, error);
  if (!status && !(*out = trn__backend_added_catalog(backend, name, NULL))) status = no_catalog(name, error);
  return status;
}

trn_status trn__backend_each_catalog(trn_backend *backend, void *state, void (*each)(void *user, const char *name),
                                     void *user, trn_error **error) {
  if (trn__backend_has_catalogs(backend)) return trn__backend_list_catalogs(backend, state, each, user, error);
  trn_catalog *catalog = NULL;
  trn_status status = trn__backend_get_catalog(backend, state, NULL, &catalog, error);
  trn_catalog_unref(catalog);
  for (size_t i = 0; !status && (catalog = trn__backend_added_catalog(backend, NULL, &i));) {
    each(user, trn_catalog_name(catalog));
    trn_catalog_unref(catalog);
  }
  return status;
}

trn_status trn_session_get_catalog(trn_session *session, const char *name, trn_catalog **out, trn_error **error) {
  return trn__backend_get_catalog(trn_session_backend(session), trn_session_backend_state(session), name, out, error);
}

trn_status trn_session_list_catalogs(trn_session *session, void (*each)(void *user, const char *name), void *user,
                                     trn_error **error) {
  return trn__backend_each_catalog(trn_session_backend(session), trn_session_backend_state(session), each, user, error);
}

trn_status trn_session_namespace(trn_session *session, char **catalog, char **database, trn_error **error) {
  trn_catalog *first = NULL;
  if (trn__session_get_names(session, catalog, database)) return trn__no_memory(error);
  if (*catalog) return TRN_OK;
  trn_status status = trn_session_get_catalog(session, NULL, &first, error);
  if (!status && !(*catalog = strdup(trn_catalog_name(first)))) status = trn__no_memory(error);
  trn_catalog_unref(first);
  if (status) {
    free(*database);
    *database = NULL;
  }
  return status;
}

trn_status trn_session_resolve_name(trn_session *session, const char *const *parts, size_t count, trn_catalog **catalog,
                                    char **database, char **name, trn_error **error) {
  char *own = NULL, *schema = NULL;
  *catalog = NULL, *database = *name = NULL;
  if (count < 1 || count > 3)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a table's name has one to three parts, not %zu", count);
  if (trn__session_get_names(session, &own, &schema)) return trn__no_memory(error);
  trn_status status = trn_session_get_catalog(session, count == 3 ? parts[0] : own, catalog, error);
  if (!status) {
    *database = strdup(count > 1 ? parts[count - 2] : schema);
    *name = strdup(parts[count - 1]);
    if (!*database || !*name) status = trn__no_memory(error);
  }
  if (status) {
    trn_catalog_unref(*catalog);
    free(*database), free(*name);
    *catalog = NULL, *database = *name = NULL;
  }
  free(own), free(schema);
  return status;
}

/* Names inside of a view: where it was made. */
typedef struct view_scope {
  trn_session *session;
  const char *catalog, *database; /* NULL: the session's */
  unsigned depth;
} view_scope;

static trn_status resolve_in(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                             trn_error **error);

static trn_status plan_view(const view_scope *scope, const trn_table_info *info, trn_plan **out, trn_error **error) {
  const char *text = info->view_text ? info->view_text : "";
  view_scope inner = {scope->session, info->view_catalog ? info->view_catalog : info->catalog,
                      info->view_database ? info->view_database : info->database, scope->depth + 1};
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = info->view_dialect ? info->view_dialect : "sql",
                                .data = text,
                                .size = strlen(text),
                                .resolve = resolve_in,
                                .resolve_user = &inner};
  if (inner.depth > TRN_VIEW_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "views are nested deeper than TRN_VIEW_DEPTH_MAX (%u)",
                         TRN_VIEW_DEPTH_MAX);
  void *user = NULL;
  trn_view_planner planner = trn__session_view_planner(scope->session, input.format, &user);
  if (planner) return planner(user, scope->session, info, inner.depth, out, error); /* which reads it by its name, with all that its dialect has for that */
  trn_plan *plan = NULL;
  trn_status status = trn_backend_decode(scope->session, &input, &plan, error);
  const trn_scan_view view = {info->catalog, info->database, info->name, false};
  trn_plan *named = NULL;
  if (!status) status = trn__plan_rename(plan, info->schema, &named, error);
  if (!status) status = trn__plan_through_view(named, &view, out, error);
  trn_plan_unref(named);
  trn_plan_unref(plan);
  return status;
}

static trn_status resolve_in(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                             trn_error **error) {
  const view_scope *scope = user;
  trn_catalog *catalog = NULL;
  char *database = NULL, *name = NULL;
  const char *full[3] = {scope->catalog, scope->database, count ? parts[count - 1] : NULL};
  *out = (trn_resolved_table){0};
  if (count == 2) full[1] = parts[0];
  bool in_view = scope->catalog && (count == 1 || count == 2);
  trn_status status = trn_session_resolve_name(scope->session, in_view ? full : parts, in_view ? 3 : count, &catalog,
                                               &database, &name, error);
  if (!status) status = trn_catalog_get_table(catalog, scope->session, database, name, &out->table, error);
  const trn_table_info *info = status ? NULL : trn_table_get_info(out->table);
  if (info && info->kind == TRN_TABLE_VIEW)
    status = plan_view(scope, info, &out->plan, error);
  else if (info && !(status = trn_table_label(out->table, &out->label, error)))
    status = trn_catalog_open_table(catalog, scope->session, out->table, &out->source, &out->schema, error);
  if (status) {
    trn_scan_label_unref(out->label);
    trn_table_unref(out->table);
    *out = (trn_resolved_table){0};
  }
  trn_catalog_unref(catalog);
  free(database), free(name);
  return status;
}

trn_status trn__session_resolve_at(trn_session *session, unsigned depth, const char *const *parts, size_t count,
                                   trn_resolved_table *out, trn_error **error) {
  view_scope scope = {.session = session, .depth = depth};
  return resolve_in(&scope, parts, count, out, error);
}

trn_status trn_session_resolve_table(void *session, const char *const *parts, size_t count, trn_resolved_table *out,
                                     trn_error **error) {
  view_scope scope = {.session = session};
  return resolve_in(&scope, parts, count, out, error);
}

/* ---- transactions ---- */

trn_status trn_transaction_begin(trn_session *session, trn_error **error) {
  trn_catalog *catalog = NULL;
  char *own = NULL, *schema = NULL;
  void *state = NULL;
  if (trn__session_get_names(session, &own, &schema)) return trn__no_memory(error);
  trn_status status = trn_session_get_catalog(session, own, &catalog, error);
  if (!status) status = trn_catalog_begin_transaction(catalog, session, &state, error);
  if (!status && !trn__session_put_transaction(session, catalog, state)) {
    trn_catalog_release_transaction(catalog, state);
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is in a transaction already");
  }
  trn_catalog_unref(catalog);
  free(own), free(schema);
  return status;
}

static trn_status no_transaction(trn_error **error) {
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is in no transaction");
}

trn_status trn_transaction_savepoint(trn_session *session, trn_savepoint_action action, const char *name, trn_error **error) {
  trn_catalog *catalog = NULL;
  void *state = trn__session_get_transaction(session, &catalog);
  if (!state) return no_transaction(error);
  trn_status status = trn_catalog_savepoint(catalog, state, action, name, error);
  trn_catalog_unref(catalog);
  return status;
}

trn_status trn_transaction_end(trn_session *session, bool is_commit, trn_error **error) {
  trn_catalog *catalog = NULL;
  void *state = trn__session_take_transaction(session, &catalog);
  if (!state) return no_transaction(error);
  trn_status status = trn_catalog_end_transaction(catalog, state, is_commit, error);
  trn_catalog_release_transaction(catalog, state);
  trn_catalog_unref(catalog);
  return status;
}

void *trn_transaction_state(trn_session *session) { return trn__session_get_transaction(session, NULL); }

trn_status trn__transaction_check(trn_session *session, const trn_catalog *catalog, trn_error **error) {
  trn_catalog *own = NULL;
  if (!trn__session_get_transaction(session, &own)) return TRN_OK;
  bool same = strcmp(trn_catalog_name(own), trn_catalog_name(catalog)) == 0;
  trn_status status = same ? TRN_OK
                           : trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                                           "The transaction is one of the catalog %s: nothing of %s can be changed in it",
                                           trn_catalog_name(own), trn_catalog_name(catalog));
  trn_catalog_unref(own);
  return status;
}
