/* SQL text to plans. Two dialects over the same tables: the engine's (its planner, lifted to our plan) and Spark's (our
 * parser). Either way a session's temporary tables hide those of the catalogs. */
#include "frontend/flightsql/flightsql.h"

#include "core/query.h"
#include "frontend/spark/decode_sql.h"
#include "plan/plan.h"

/* ---- names ---- */

/* Rows that came with a request of the session's own: policies let them through. */
trn_scan_label *flightsql__own_rows(void) {
  const trn_scan_info info = {.struct_size = sizeof info, .kind = TRN_SCAN_LOCAL};
  trn_scan_label *label = NULL;
  return trn_scan_label_create(&info, &label) == TRN_OK ? label : NULL;
}

static trn_status resolve(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                          trn_error **error) {
  flightsql_place *place = user;
  bool found = false;
  if (count == 1) {
    trn_status status = flightsql__temporary_resolve(place->session, parts[0], place->depth, &found, out, error);
    place->saw_temporary |= found;
    if (status || found) return status;
  }
  const char *full[3] = {place->catalog, count == 2 ? parts[0] : place->database, count ? parts[count - 1] : NULL};
  bool is_inside = place->catalog && (count == 1 || count == 2);
  return trn_session_resolve_table(place->session->session, is_inside ? full : parts, is_inside ? 3 : count, out, error);
}

trn_status flightsql__plan_at(flightsql_place *place, const char *sql, trn_plan **out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql,
                                .size = strlen(sql),
                                .resolve = resolve,
                                .resolve_user = place};
  *out = NULL;
  return trn_backend_decode(place->session->session, &input, out, error);
}

trn_status flightsql__plan_in(flightsql_session *session, flightsql_dialect dialect, const char *sql, trn_plan **out,
                              trn_error **error) {
  flightsql_place here = {.session = session};
  *out = NULL;
  trn_status status = dialect == FLIGHTSQL_SPARK ? spark__plan_sql(session->session, session->views, sql, out, error)
                                                 : flightsql__plan_at(&here, sql, out, error);
  if (!status) status = trn_backend_check(session->session, *out, error); /* its schema is shown before it runs */
  if (!status) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
}

trn_status flightsql__plan_substrait(flightsql_session *session, const void *data, size_t size, trn_plan **out,
                                     trn_error **error) {
  flightsql_place here = {.session = session};
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "substrait.plan.v1",
                                .data = data,
                                .size = size,
                                .resolve = resolve,
                                .resolve_user = &here};
  *out = NULL;
  if (!size) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Substrait plan is empty");
  trn_status status = trn_backend_decode(session->session, &input, out, error);
  if (!status) status = trn_backend_check(session->session, *out, error); /* its schema is shown */
  if (!status) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
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

trn_status flightsql__decode(flightsql_session *session, const char *sql, trn_statement *out, bool *saw_temporary,
                             trn_error **error) {
  flightsql_place here = {.session = session};
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql,
                                .size = strlen(sql),
                                .resolve = resolve,
                                .resolve_user = &here};
  *out = (trn_statement){0};
  *saw_temporary = false;
  if (flightsql__dialect(session) == FLIGHTSQL_SPARK)
    return spark__decode_sql(session->session, session->views, sql, out, error);
  trn_status status = trn_backend_decode_statement(session->session, &input, out, error);
  if (!status) status = check_statement(session, out, error);
  *saw_temporary = here.saw_temporary;
  if (!status) return TRN_OK;
  if (out->release) out->release(out);
  *out = (trn_statement){0};
  return status;
}

/* ---- a plan over sources ---- */

/* Columns with ids from `first` on. */
static trn_column *new_columns(trn_arena *arena, const trn_field *fields, size_t count, uint32_t first) {
  trn_column *columns = TRN_NEW_N(arena, trn_column, count);
  for (size_t i = 0; columns && i < count; i++)
    columns[i] = (trn_column){first + (uint32_t)i, fields[i].nullable, fields[i].type};
  return columns;
}

static trn_rel *scan(trn_arena *arena, flightsql_session *session, trn_source *source, const trn_field *fields, size_t count,
                     uint32_t first) {
  const trn_column *columns = new_columns(arena, fields, count, first);
  uint32_t *indexes = TRN_NEW_N(arena, uint32_t, count);
  trn_rel *rel = columns && indexes ? trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, count) : NULL;
  trn_scan_label *label = rel ? flightsql__own_rows() : NULL;
  if (!label) return NULL;
  for (size_t i = 0; i < count; i++) indexes[i] = (uint32_t)i;
  rel->u.scan.source = source;
  rel->u.scan.indexes = indexes;
  rel->u.scan.info = label;
  trn_status status = trn__label_hold(arena, label);
  trn_scan_label_unref(label);
  if (!status) status = trn__source_hold(arena, trn_session_backend(session->session), source);
  return status ? NULL : rel;
}

trn_status flightsql__plan_scan(flightsql_session *session, trn_source *const *sources, size_t source_count,
                                const struct ArrowSchema *schema, trn_plan **out, trn_error **error) {
  size_t count = (size_t)schema->n_children;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return trn__no_memory(error);
  trn_field *fields = TRN_NEW_N(arena, trn_field, count);
  const trn_rel **inputs = TRN_NEW_N(arena, const trn_rel *, source_count);
  trn_status status = fields && inputs ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < count && !status; i++) status = trn__field_import_any(arena, schema->children[i], &fields[i], error);
  uint32_t next = 1;
  for (size_t i = 0; i < source_count && !status; i++, next += (uint32_t)count) {
    inputs[i] = scan(arena, session, sources[i], fields, count, next);
    if (!inputs[i]) status = trn__no_memory(error);
  }
  const trn_rel *root = status ? NULL : inputs[0];
  if (!status && source_count > 1) {
    const trn_column *columns = new_columns(arena, fields, count, next);
    root = columns ? trn__rel_create(arena, TRN_REL_UNION, inputs, (uint32_t)source_count, NULL, 0, columns, count) : NULL;
    next += (uint32_t)count;
    if (!root) status = trn__no_memory(error);
  }
  if (status) {
    trn__arena_unref(arena);
    return status;
  }
  return trn__plan_create(arena, root, fields, next, NULL, NULL, out) ? trn__no_memory(error) : TRN_OK;
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
