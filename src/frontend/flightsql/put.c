/* DoPut: updates, parameters, ingestion. What arrives is bounded; what runs is run when the client has sent everything. */
#include "frontend/flightsql/flightsql.h"

typedef enum put_kind { PUT_UPDATE, PUT_PREPARED_UPDATE, PUT_BIND, PUT_INGEST } put_kind;

typedef struct put {
  put_kind kind;
  flight_rpc *rpc; /* borrowed: it owns us */
  flightsql_session *session;
  char *sql;
  flightsql_statement *prepared;
  flightsql_parameters *parameters;
  flightsql_ingest *ingest;
} put;

trn_status flightsql__reply_put(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error) {
  trn_strbuf body = {0};
  flight__message_put(&body, message);
  Arrow__Flight__Protocol__PutResult result = ARROW__FLIGHT__PROTOCOL__PUT_RESULT__INIT;
  result.app_metadata = (ProtobufCBinaryData){body.size, (uint8_t *)body.data};
  trn_status status = body.failed ? trn__no_memory(error) : flight__rpc_reply(rpc, &result.base, error);
  trn__strbuf_finish(&body);
  return status;
}

static trn_status open_update(put *p, trn_arena *arena, trn_str value, trn_error **error) {
  Arrow__Flight__Protocol__Sql__CommandStatementUpdate *command;
  trn_status status = flight__decode(arena, &arrow__flight__protocol__sql__command_statement_update__descriptor,
                                     value.data, value.size, &command, error);
  flightsql_session *in = NULL;
  const ProtobufCBinaryData *id = !status && command->_transaction_id_case ? &command->transaction_id : NULL;
  if (!status) status = flightsql__in_transaction(p->session, id, &in, error);
  if (in) {
    flightsql__session_unref(p->session);
    p->session = in;
  }
  if (!status && !(p->sql = strdup(command->query))) status = trn__no_memory(error);
  return status;
}

static trn_status open_prepared(put *p, trn_arena *arena, trn_str value, trn_error **error) {
  Arrow__Flight__Protocol__Sql__CommandPreparedStatementUpdate *command; /* the query's has the same field */
  trn_status status = flight__decode(arena, &arrow__flight__protocol__sql__command_prepared_statement_update__descriptor,
                                     value.data, value.size, &command, error);
  if (!status)
    status = flightsql__statement_find(p->session, command->prepared_statement_handle.data,
                                       command->prepared_statement_handle.len, true, &p->prepared, error);
  if (!status && p->prepared->session->parent) {
    flightsql_session *in = flightsql__current(p->prepared->session);
    flightsql__session_unref(p->session);
    p->session = in;
  }
  return status;
}

static trn_status open_ingest(put *p, trn_arena *arena, trn_str value, trn_error **error) {
  Arrow__Flight__Protocol__Sql__CommandStatementIngest *command;
  trn_status status = flight__decode(arena, &arrow__flight__protocol__sql__command_statement_ingest__descriptor,
                                     value.data, value.size, &command, error);
  return status ? status : flightsql__ingest_open(p->session, p->rpc, command, &p->ingest, error);
}

trn_status flightsql__put_open(void *self, flight_rpc *rpc, const void *command, size_t size, void **out,
                               trn_error **error) {
  static const struct {
    const char *name;
    put_kind kind;
    trn_status (*open)(put *p, trn_arena *arena, trn_str value, trn_error **error);
  } commands[] = {{"CommandStatementUpdate", PUT_UPDATE, open_update},
                  {"CommandPreparedStatementUpdate", PUT_PREPARED_UPDATE, open_prepared},
                  {"CommandPreparedStatementQuery", PUT_BIND, open_prepared},
                  {"CommandStatementIngest", PUT_INGEST, open_ingest}};
  char name[64];
  trn_str value;
  flightsql_session *session;
  flightsql__unwrap(command, size, name, &value);
  trn_status status = flightsql__session(self, rpc, &session, error);
  if (status) return status;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(commands[i].name, name) != 0) continue;
    put *p = calloc(1, sizeof *p);
    if (!p) return trn__no_memory(error);
    p->kind = commands[i].kind;
    p->rpc = rpc;
    p->session = flightsql__session_ref(session);
    p->parameters = flightsql__parameters_create();
    status = p->parameters ? commands[i].open(p, rpc->arena, value, error) : trn__no_memory(error);
    if (status) {
      flightsql__put_drop(self, p);
    } else {
      *out = p;
    }
    return status;
  }
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "The command %s takes no data here", name);
}

trn_status flightsql__put_data(void *self, void *user, const flight_data *data, trn_error **error) {
  put *p = user;
  (void)self;
  return p->ingest ? flightsql__ingest_data(p->ingest, data, error) : flightsql__parameters_add(p->parameters, data, error);
}

static void updated(void *user, trn_status status, const trn_error *error, int64_t count) {
  flight_rpc *rpc = user;
  trn_error *own = NULL;
  if (!status) {
    Arrow__Flight__Protocol__Sql__DoPutUpdateResult result = ARROW__FLIGHT__PROTOCOL__SQL__DO_PUT_UPDATE_RESULT__INIT;
    result.record_count = count;
    status = flightsql__reply_put(rpc, &result.base, &own);
    error = own;
  }
  if (status) flight__rpc_fail(rpc, status, error);
  trn_error_unref(own);
  flight__rpc_unref(rpc);
}

/* What was bound before stands until something else is bound. */
static trn_status bind(put *p, trn_error **error) {
  flightsql_statement *prepared = p->prepared;
  flightsql_parameters *parameters = p->parameters;
  if (parameters->schema.release && (uint64_t)parameters->schema.n_children != prepared->parameter_count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement has %u parameters, %lld were bound",
                         prepared->parameter_count, (long long)parameters->schema.n_children);
  p->parameters = NULL;
  pthread_mutex_lock(&prepared->mutex);
  flightsql_parameters *old = prepared->bound;
  prepared->bound = parameters;
  pthread_mutex_unlock(&prepared->mutex);
  flightsql__parameters_unref(old);
  Arrow__Flight__Protocol__Sql__DoPutPreparedStatementResult result;
  arrow__flight__protocol__sql__do_put_prepared_statement_result__init(&result);
  result._prepared_statement_handle_case =
      ARROW__FLIGHT__PROTOCOL__SQL__DO_PUT_PREPARED_STATEMENT_RESULT___PREPARED_STATEMENT_HANDLE_PREPARED_STATEMENT_HANDLE;
  result.prepared_statement_handle = (ProtobufCBinaryData){TRN_UUID_SIZE - 1, (uint8_t *)prepared->handle};
  return flightsql__reply_put(p->rpc, &result.base, error);
}

trn_status flightsql__put_end(void *self, void *user, trn_error **error) {
  put *p = user;
  (void)self;
  switch (p->kind) {
  case PUT_BIND: return bind(p, error);
  case PUT_INGEST: return flightsql__ingest_end(p->ingest, error);
  case PUT_UPDATE:
    flightsql__update(p->session, p->rpc, NULL, p->sql, strlen(p->sql), NULL, updated, flight__rpc_ref(p->rpc));
    return TRN_OK;
  default: break;
  }
  if (p->prepared->kind == FLIGHTSQL_QUERY)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The prepared statement is a query: it changes nothing");
  flightsql_parameters *bound = flightsql__statement_bound(p->prepared);
  flightsql_parameters *parameters = p->parameters->schema.release && p->parameters->schema.n_children ? p->parameters : bound;
  flightsql__update(p->session, p->rpc, NULL, p->prepared->sql, p->prepared->sql_size, parameters, updated,
                    flight__rpc_ref(p->rpc));
  flightsql__parameters_unref(bound);
  return TRN_OK;
}

void flightsql__put_drop(void *self, void *user) {
  put *p = user;
  (void)self;
  flightsql__ingest_drop(p->ingest);
  flightsql__parameters_unref(p->parameters);
  flightsql__statement_unref(p->prepared);
  flightsql__session_unref(p->session);
  free(p->sql);
  free(p);
}
