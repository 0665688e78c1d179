/* SQL text to plans. Two dialects over the same tables: the engine's (its planner, lifted to our plan) and Spark's (our
 * parser). Either way a session's temporary tables hide those of the catalogs. */
#include "frontend/flightsql/flightsql.h"

#include "core/query.h"
#include "plan/plan.h"

/* ---- names ---- */

/* Rows that came with a request of the session's own: policies let them through. */
static trn_scan_label *own_rows(void) {
  const trn_scan_info info = {.struct_size = sizeof info, .kind = TRN_SCAN_LOCAL};
  trn_scan_label *label = NULL;
  return trn_scan_label_create(&info, &label) == TRN_OK ? label : NULL;
}

static bool find_temporary(flightsql_session *of, const char *name, trn_resolved_table *out, trn_status *status,
                           trn_error **error) {
  flightsql_session *session = flightsql__owner(of);
  pthread_mutex_lock(&session->mutex);
  flightsql_temporary *table = trn__map_get(session->temporary, name, strlen(name));
  if (table) {
    out->source = trn_backend_source_ref(table->backend, table->source);
    out->label = own_rows();
    *status = !out->label || trn__schema_copy(&table->schema, &out->schema) ? trn__no_memory(error) : TRN_OK;
    if (*status) {
      trn_backend_source_unref(table->backend, out->source);
      trn_scan_label_unref(out->label);
      *out = (trn_resolved_table){0};
    }
  }
  pthread_mutex_unlock(&session->mutex);
  return table != NULL;
}

static trn_status resolve(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                          trn_error **error) {
  flightsql_session *session = user;
  trn_status status = TRN_OK;
  if (count == 1 && find_temporary(session, parts[0], out, &status, error)) return status;
  return trn_session_resolve_table(session->session, parts, count, out, error);
}

trn_status flightsql__plan_in(flightsql_session *session, flightsql_dialect dialect, const char *sql, trn_plan **out,
                              trn_error **error) {
  *out = NULL;
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql,
                                .size = strlen(sql),
                                .resolve = resolve,
                                .resolve_user = session};
  trn_status status = dialect == FLIGHTSQL_SPARK
                          ? spark__plan_sql(session->session, session->views, sql, out, error)
                          : trn_backend_decode(session->session, &input, out, error);
  if (!status) status = trn_backend_check(session->session, *out, error); /* its schema is shown before it runs */
  if (!status) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
}

trn_status flightsql__plan_substrait(flightsql_session *session, const void *data, size_t size, trn_plan **out,
                                     trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "substrait.plan.v1",
                                .data = data,
                                .size = size,
                                .resolve = resolve,
                                .resolve_user = session};
  *out = NULL;
  if (!size) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Substrait plan is empty");
  trn_status status = trn_backend_decode(session->session, &input, out, error);
  if (!status) status = trn_backend_check(session->session, *out, error); /* its schema is shown */
  if (!status) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
}

/* A view that was made in Spark's dialect is planned by it, whatever the session's is. */
static trn_status plan_spark_view(void *user, const trn_table_info *view, trn_plan **out, trn_error **error) {
  flightsql_session *session = user;
  const char *const parts[] = {view->catalog, view->database, view->name};
  trn_strbuf sql = {0};
  trn__strbuf_puts(&sql, "SELECT * FROM ");
  for (size_t i = 0; i < 3; i++) {
    trn__strbuf_puts(&sql, i ? ".`" : "`");
    for (const char *c = parts[i]; *c; c++) {
      if (*c == '`') trn__strbuf_putc(&sql, '`');
      trn__strbuf_putc(&sql, *c);
    }
    trn__strbuf_putc(&sql, '`');
  }
  trn_status status = sql.failed ? trn__no_memory(error) : spark__plan_sql(session->session, session->views, sql.data, out, error);
  trn__strbuf_finish(&sql);
  return status;
}

void flightsql__plan_views(flightsql_session *session) {
  trn__session_set_view_planner(session->session, "spark.sql", plan_spark_view, session);
}

trn_status flightsql__plan(flightsql_session *session, const char *sql, trn_plan **out, trn_error **error) {
  return flightsql__plan_in(session, flightsql__dialect(session), sql, out, error);
}

flightsql_dialect flightsql__dialect(flightsql_session *session) {
  pthread_mutex_lock(&session->mutex);
  flightsql_dialect dialect = session->dialect;
  pthread_mutex_unlock(&session->mutex);
  return dialect;
}

/* Its columns are shown, or kept: may the session see them? */
static trn_status check_statement(flightsql_session *session, const trn_statement *statement, trn_error **error) {
  if (statement->kind == TRN_STATEMENT_QUERY) return trn_backend_check(session->session, statement->plan, error);
  if (statement->kind != TRN_STATEMENT_COMMAND) return TRN_OK;
  const trn_command *command = statement->command;
  if (command->plan) return trn_backend_check(session->session, command->plan, error);
  if (command->kind != TRN_COMMAND_CREATE_VIEW || !command->table || !command->table->view_text) return TRN_OK;
  trn_plan *plan = NULL;
  trn_status status = flightsql__plan_in(session, FLIGHTSQL_ENGINE, command->table->view_text, &plan, error);
  trn_plan_unref(plan);
  return status;
}

trn_status flightsql__decode(flightsql_session *session, const char *sql, trn_statement *out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql,
                                .size = strlen(sql),
                                .resolve = resolve,
                                .resolve_user = session};
  *out = (trn_statement){0};
  trn_status status = trn_backend_decode_statement(session->session, &input, out, error);
  if (!status) status = check_statement(session, out, error);
  if (!status) return TRN_OK;
  if (out->release) out->release(out);
  *out = (trn_statement){0};
  return status;
}

/* ---- a plan over a source ---- */

static trn_status scan_columns(trn_arena *arena, const struct ArrowSchema *schema, trn_column **columns,
                               trn_field **fields, uint32_t **indexes, trn_error **error) {
  size_t count = (size_t)schema->n_children;
  *columns = TRN_NEW_N(arena, trn_column, count);
  *fields = TRN_NEW_N(arena, trn_field, count);
  *indexes = TRN_NEW_N(arena, uint32_t, count);
  if (!*columns || !*fields || !*indexes) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    trn_status status = trn__field_import(arena, schema->children[i], &(*fields)[i], error);
    if (status) return status;
    (*columns)[i] = (trn_column){(uint32_t)i + 1, (*fields)[i].nullable, (*fields)[i].type};
    (*indexes)[i] = (uint32_t)i;
  }
  return TRN_OK;
}

trn_status flightsql__plan_scan(flightsql_session *session, trn_source *source, const struct ArrowSchema *schema,
                                trn_plan **out, trn_error **error) {
  trn_column *columns;
  trn_field *fields;
  uint32_t *indexes;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return trn__no_memory(error);
  trn_status status = scan_columns(arena, schema, &columns, &fields, &indexes, error);
  trn_rel *scan = NULL;
  if (!status) {
    scan = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, (size_t)schema->n_children);
    if (!scan) status = trn__no_memory(error);
  }
  if (!status) {
    scan->u.scan.source = source;
    scan->u.scan.indexes = indexes;
    trn_scan_label *label = own_rows();
    scan->u.scan.info = label;
    status = label ? trn__label_hold(arena, label) : TRN_RESOURCE_EXHAUSTED;
    trn_scan_label_unref(label);
    if (!status) status = trn__source_hold(arena, trn_session_backend(session->session), source);
    if (status) trn__no_memory(error);
  }
  if (status) {
    trn__arena_unref(arena);
    return status;
  }
  if (trn__plan_create(arena, scan, fields, (uint32_t)schema->n_children + 1, NULL, NULL, out)) return trn__no_memory(error);
  return TRN_OK;
}

/* ---- schemas ---- */

trn_status flightsql__schema_ipc(const struct ArrowSchema *schema, trn_strbuf *out, trn_error **error) {
  trn_status status = trn__ipc_write_schema(schema, out);
  if (status == TRN_UNIMPLEMENTED)
    return trn_error_set(error, status, NULL, "A column of the result has a type that is not written as Arrow IPC");
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status flightsql__plan_schema_ipc(const trn_plan *plan, trn_strbuf *out, trn_error **error) {
  struct ArrowSchema schema = {0};
  if (trn_plan_schema(plan, &schema)) return trn__no_memory(error);
  trn_status status = flightsql__schema_ipc(&schema, out, error);
  trn__schema_release(&schema);
  return status;
}
