/* Prepared statements: what they give and take is known when they are made; nothing runs before it is asked for. */
#include "frontend/flightsql/flightsql.h"
#include "plan/plan.h"

/* ---- whether a plan can be kept ---- */

static trn_walk stop_at_scan(void *user, const trn_rel *rel) {
  (void)user;
  return rel->kind == TRN_REL_SCAN || rel->kind == TRN_REL_OPAQUE || rel->kind == TRN_REL_EXTENSION ? TRN_WALK_STOP
                                                                                                      : TRN_WALK_ON;
}

/* A plan that reads tables reads what they were when it was made: the next execution makes a new one. */
static bool is_timeless(const trn_plan *plan) {
  const trn_visitor visitor = {.rel = stop_at_scan};
  return trn__plan_walk(plan->root, &visitor) == TRN_OK;
}

/* ---- making ---- */

#define transaction_of(request) ((request)->_transaction_id_case ? &(request)->transaction_id : NULL)

static trn_status describe(flightsql_statement *statement, trn_arena *arena, trn_error **error) {
  flightsql_session *session = statement->session;
  flightsql_text text;
  struct ArrowSchema parameters = {0};
  const char **nulls = NULL;
  trn_status status =
      flightsql__text_read(arena, statement->sql, statement->sql_size, flightsql__dialect(session), &text, error);
  if (status) return status;
  statement->parameter_count = text.parameter_count;
  status = flightsql__parameter_types(session, arena, &text, &parameters, &nulls, error);
  if (!status) status = flightsql__schema_ipc(&parameters, &statement->parameter_schema, error);
  trn__schema_release(&parameters);
  trn_plan *plan = NULL;
  if (!status) status = flightsql__classify(session, arena, &text, nulls, &statement->kind, &plan, NULL, error);
  if (status || !plan) return status;
  status = flightsql__plan_schema_ipc(plan, &statement->schema, error);
  if (!status && !text.parameter_count && is_timeless(plan)) {
    statement->plan = plan;
    plan = NULL;
  }
  trn_plan_unref(plan);
  return status;
}

/* Into the table, and the answer that tells its handle. */
static trn_status publish(flight_rpc *rpc, flightsql_statement *statement, trn_error **error) {
  trn_status status = flightsql__statement_publish(statement, error);
  if (!status) {
    Arrow__Flight__Protocol__Sql__ActionCreatePreparedStatementResult result =
        ARROW__FLIGHT__PROTOCOL__SQL__ACTION_CREATE_PREPARED_STATEMENT_RESULT__INIT;
    result.prepared_statement_handle = (ProtobufCBinaryData){TRN_UUID_SIZE - 1, (uint8_t *)statement->handle};
    result.dataset_schema = (ProtobufCBinaryData){statement->schema.size, (uint8_t *)statement->schema.data};
    result.parameter_schema =
        (ProtobufCBinaryData){statement->parameter_schema.size, (uint8_t *)statement->parameter_schema.data};
    result._is_update_case = ARROW__FLIGHT__PROTOCOL__SQL__ACTION_CREATE_PREPARED_STATEMENT_RESULT___IS_UPDATE_IS_UPDATE;
    result.is_update = statement->kind != FLIGHTSQL_QUERY;
    status = flightsql__reply_result(rpc, "ActionCreatePreparedStatementResult", &result.base, error);
  }
  return status;
}

trn_status flightsql__prepared_create(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_service *service = self;
  flightsql_session *session, *in = NULL;
  flightsql_statement *statement = NULL;
  char name[64];
  trn_str value;
  Arrow__Flight__Protocol__Sql__ActionCreatePreparedStatementRequest *request;
  if (!flightsql__unwrap(body, size, name, &value) || strcmp(name, "ActionCreatePreparedStatementRequest") != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "CreatePreparedStatement takes an ActionCreatePreparedStatementRequest");
  trn_status status =
      flight__decode(rpc->arena, &arrow__flight__protocol__sql__action_create_prepared_statement_request__descriptor,
                     value.data, value.size, &request, error);
  if (!status) status = flightsql__session(service, rpc, &session, error);
  if (!status) status = flightsql__in_transaction(session, transaction_of(request), &in, error);
  if (!status) status = flightsql__statement_create(in, request->query, strlen(request->query), &statement, error);
  if (!status) {
    statement->is_prepared = true;
    status = describe(statement, rpc->arena, error);
  }
  if (!status) status = publish(rpc, statement, error);
  flightsql__statement_unref(statement);
  flightsql__session_unref(in);
  return status;
}

/* The plan is decoded anew by each execution: tables may change. */
static trn_status describe_substrait(flightsql_statement *statement, trn_error **error) {
  trn_plan *plan = NULL;
  struct ArrowSchema none = {0};
  trn_status status =
      flightsql__plan_substrait(statement->session, statement->sql, statement->sql_size, &plan, error);
  if (!status) status = flightsql__plan_schema_ipc(plan, &statement->schema, error);
  if (!status && trn__schema_init(&none, "+s", "", 0, NULL, 0, 0)) status = trn__no_memory(error);
  if (!status) status = flightsql__schema_ipc(&none, &statement->parameter_schema, error);
  trn__schema_release(&none);
  trn_plan_unref(plan);
  return status;
}

trn_status flightsql__prepared_substrait(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session, *in = NULL;
  flightsql_statement *statement = NULL;
  char name[64];
  trn_str value;
  Arrow__Flight__Protocol__Sql__ActionCreatePreparedSubstraitPlanRequest *request;
  if (!flightsql__unwrap(body, size, name, &value) || strcmp(name, "ActionCreatePreparedSubstraitPlanRequest") != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "CreatePreparedSubstraitPlan takes an ActionCreatePreparedSubstraitPlanRequest");
  trn_status status = flight__decode(
      rpc->arena, &arrow__flight__protocol__sql__action_create_prepared_substrait_plan_request__descriptor, value.data,
      value.size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = flightsql__in_transaction(session, transaction_of(request), &in, error);
  if (!status && !request->plan)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The command has no Substrait plan");
  if (!status)
    status = flightsql__statement_create(in, (const char *)request->plan->plan.data, request->plan->plan.len,
                                         &statement, error);
  if (!status) {
    statement->is_prepared = statement->is_substrait = true;
    status = describe_substrait(statement, error);
  }
  if (!status) status = publish(rpc, statement, error);
  flightsql__statement_unref(statement);
  flightsql__session_unref(in);
  return status;
}

trn_status flightsql__prepared_close(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  flightsql_statement *statement = NULL;
  char name[64];
  trn_str value;
  Arrow__Flight__Protocol__Sql__ActionClosePreparedStatementRequest *request;
  if (!flightsql__unwrap(body, size, name, &value) || strcmp(name, "ActionClosePreparedStatementRequest") != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "ClosePreparedStatement takes an ActionClosePreparedStatementRequest");
  trn_status status =
      flight__decode(rpc->arena, &arrow__flight__protocol__sql__action_close_prepared_statement_request__descriptor,
                     value.data, value.size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status)
    status = flightsql__statement_find(session, request->prepared_statement_handle.data,
                                       request->prepared_statement_handle.len, true, &statement, error);
  if (status) return status;
  flightsql__statement_close(statement);
  flightsql__statement_unref(statement);
  flight__rpc_finish(rpc);
  return TRN_OK;
}

/* ---- running ---- */

enum { PREPARED_ROWS_MAX = 1000 }; /* of parameters of one query: each becomes a part of a UNION ALL */

/* The text for what is bound: for several rows, the results of each in their order. */
static trn_status bound_text(flightsql_statement *prepared, const flightsql_parameters *bound, trn_arena *arena,
                             char **out, trn_error **error) {
  flightsql_dialect dialect = flightsql__dialect(prepared->session);
  flightsql_text text;
  trn_strbuf sql = {0};
  trn_status status = flightsql__text_read(arena, prepared->sql, prepared->sql_size, dialect, &text, error);
  int64_t rows = bound ? bound->rows : 0;
  if (!status && !rows)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement has %u parameters, but none is bound",
                           text.parameter_count);
  if (!status && rows > PREPARED_ROWS_MAX)
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A query is run for at most %d rows of parameters",
                           PREPARED_ROWS_MAX);
  for (int64_t row = 0; row < rows && !status; row++) {
    const char **literals;
    status = flightsql__parameters_literals(arena, bound, row, &text, dialect, &literals, error);
    char *part = status ? NULL : flightsql__text_slice(arena, &text, 0, text.count, literals);
    if (!status && !part) status = trn__no_memory(error);
    if (!status) trn__strbuf_printf(&sql, rows > 1 ? "%s(%s)" : "%s%s", row ? " UNION ALL " : "", part);
  }
  if (!status) *out = sql.failed ? NULL : trn__arena_str(arena, sql.data, sql.size);
  if (!status && !*out) status = trn__no_memory(error);
  trn__strbuf_finish(&sql);
  return status;
}

static trn_status execution(flightsql_session *session, flightsql_statement *prepared, flightsql_statement **out,
                            trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  flightsql_statement *statement = NULL;
  char *sql = prepared->sql;
  if (!arena) return trn__no_memory(error);
  trn_status status = TRN_OK;
  if (prepared->parameter_count && prepared->kind == FLIGHTSQL_QUERY) {
    flightsql_parameters *bound = flightsql__statement_bound(prepared);
    status = bound_text(prepared, bound, arena, &sql, error);
    flightsql__parameters_unref(bound);
  }
  if (!status && prepared->is_substrait) {
    status = flightsql__statement_create(session, "", 0, &statement, error);
    if (!status)
      status = flightsql__plan_substrait(session, prepared->sql, prepared->sql_size, &statement->plan, error);
    if (!status) status = flightsql__plan_schema_ipc(statement->plan, &statement->schema, error);
  } else if (!status) {
    status = flightsql__statement_create(session, sql, strlen(sql), &statement, error);
  }
  if (!status && !prepared->is_substrait) {
    statement->kind = prepared->kind;
    statement->parameter_count = prepared->kind == FLIGHTSQL_QUERY ? 0 : prepared->parameter_count;
    if (prepared->plan) statement->plan = trn_plan_ref(prepared->plan);
    if (!statement->plan && statement->kind == FLIGHTSQL_QUERY)
      status = flightsql__plan(session, sql, &statement->plan, error);
    if (!status && statement->plan) status = flightsql__plan_schema_ipc(statement->plan, &statement->schema, error);
  }
  if (status) {
    flightsql__statement_unref(statement);
  } else {
    *out = statement;
  }
  trn__arena_unref(arena);
  return status;
}

trn_status flightsql__prepared_execution(flightsql_session *caller, flightsql_statement *prepared,
                                         flightsql_statement **out, trn_error **error) {
  flightsql_session *session =
      prepared->session->parent ? flightsql__current(prepared->session) : flightsql__session_ref(caller);
  trn_status status = execution(session, prepared, out, error);
  flightsql__session_unref(session);
  return status;
}
