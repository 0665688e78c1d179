/* Actions: transactions, cancelling, renewing, session options. */
#include <stdio.h>

#include "frontend/flightsql/flightsql.h"

typedef Arrow__Flight__Protocol__SessionOptionValue option_value;
typedef Arrow__Flight__Protocol__SetSessionOptionsResult set_result;

#define DESCRIPTOR(name) &arrow__flight__protocol__##name##__descriptor

/* ---- transactions ---- */

/* The message that an action takes, out of its Any. */
static trn_status decode_action(flight_rpc *rpc, const void *body, size_t size, const char *type,
                                const ProtobufCMessageDescriptor *descriptor, void *out, trn_error **error) {
  char name[64];
  trn_str value;
  if (!flightsql__unwrap(body, size, name, &value) || strcmp(name, type) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "This action takes an %s", type);
  return flight__decode(rpc->arena, descriptor, value.data, value.size, out, error);
}

static trn_status begin_transaction(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__Sql__ActionBeginTransactionRequest *request;
  char id[TRN_UUID_SIZE];
  trn_status status = decode_action(rpc, body, size, "ActionBeginTransactionRequest",
                                    DESCRIPTOR(sql__action_begin_transaction_request), &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status && session->service->read_only)
    status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "This server is read only: it has no transactions");
  if (!status) status = flightsql__transaction_begin(session, id, error);
  if (status) return status;
  Arrow__Flight__Protocol__Sql__ActionBeginTransactionResult result =
      ARROW__FLIGHT__PROTOCOL__SQL__ACTION_BEGIN_TRANSACTION_RESULT__INIT;
  result.transaction_id = (ProtobufCBinaryData){TRN_UUID_SIZE - 1, (uint8_t *)id};
  return flightsql__reply_result(rpc, "ActionBeginTransactionResult", &result.base, error);
}

static trn_status end_transaction(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__Sql__ActionEndTransactionRequest *request;
  trn_status status = decode_action(rpc, body, size, "ActionEndTransactionRequest",
                                    DESCRIPTOR(sql__action_end_transaction_request), &request, error);
  if (!status && (int)request->action != 1 && (int)request->action != 2)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A transaction is ended by commit or rollback");
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = flightsql__transaction_end(session, &request->transaction_id, (int)request->action == 1, error);
  if (!status) flight__rpc_finish(rpc);
  return status;
}

static trn_status begin_savepoint(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session, *transaction = NULL;
  Arrow__Flight__Protocol__Sql__ActionBeginSavepointRequest *request;
  char id[TRN_UUID_SIZE];
  trn_status status = decode_action(rpc, body, size, "ActionBeginSavepointRequest",
                                    DESCRIPTOR(sql__action_begin_savepoint_request), &request, error);
  if (!status && !request->transaction_id.len)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A savepoint is one of a transaction, but none is named");
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = flightsql__in_transaction(session, &request->transaction_id, &transaction, error);
  if (!status) status = flightsql__savepoint_begin(transaction, id, error);
  flightsql__session_unref(transaction);
  if (status) return status;
  Arrow__Flight__Protocol__Sql__ActionBeginSavepointResult result =
      ARROW__FLIGHT__PROTOCOL__SQL__ACTION_BEGIN_SAVEPOINT_RESULT__INIT;
  result.savepoint_id = (ProtobufCBinaryData){TRN_UUID_SIZE - 1, (uint8_t *)id};
  return flightsql__reply_result(rpc, "ActionBeginSavepointResult", &result.base, error);
}

static trn_status end_savepoint(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__Sql__ActionEndSavepointRequest *request;
  trn_status status = decode_action(rpc, body, size, "ActionEndSavepointRequest",
                                    DESCRIPTOR(sql__action_end_savepoint_request), &request, error);
  if (!status && (int)request->action != 1 && (int)request->action != 2)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A savepoint is ended by release or rollback");
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = flightsql__savepoint_end(session, &request->savepoint_id, (int)request->action == 1, error);
  if (!status) flight__rpc_finish(rpc);
  return status;
}

/* ---- cancelling ---- */

/* The statement behind an endpoint's ticket; NULL: it is none that is known. A reference. */
static flightsql_statement *statement_of(flightsql_session *session, trn_arena *arena,
                                         const Arrow__Flight__Protocol__FlightEndpoint *endpoint) {
  char name[64];
  trn_str value;
  flightsql_statement *statement = NULL;
  Arrow__Flight__Protocol__Sql__TicketStatementQuery *ticket;
  if (!endpoint->ticket ||
      !flightsql__unwrap(endpoint->ticket->ticket.data, endpoint->ticket->ticket.len, name, &value) ||
      strcmp(name, "TicketStatementQuery") != 0 ||
      flight__decode(arena, DESCRIPTOR(sql__ticket_statement_query), value.data, value.size, &ticket, NULL))
    return NULL;
  flightsql__statement_find(session, ticket->statement_handle.data, ticket->statement_handle.len, false, &statement, NULL);
  return statement;
}

/* Takes the reference. Gives the number of Flight's CancelStatus. */
static int cancel_statement(flightsql_statement *statement) {
  int status = 3; /* what changed things has done so */
  if (!statement->has_run) {
    flightsql__statement_cancel(statement);
    flightsql__statement_close(statement);
    status = 1;
  }
  flightsql__statement_unref(statement);
  return status;
}

/* Cancels what the tickets of an info stand for; nobody can fetch it any more. What is polled may have no ticket yet. */
static trn_status cancel_info(flightsql_session *session, trn_arena *arena, const Arrow__Flight__Protocol__FlightInfo *info,
                              int *status, trn_error **error) {
  flightsql_statement *statement = NULL;
  bool found = false;
  if (info && info->app_metadata.len &&
      flightsql__statement_find(session, info->app_metadata.data, info->app_metadata.len, false, &statement, NULL) == TRN_OK) {
    *status = cancel_statement(statement);
    return TRN_OK;
  }
  for (size_t i = 0; info && i < info->n_endpoint; i++) {
    statement = statement_of(session, arena, info->endpoint[i]);
    if (!statement) continue;
    found = true;
    *status = cancel_statement(statement);
  }
  if (found) return TRN_OK;
  return trn_error_set(error, TRN_NOT_FOUND, NULL, "The query is unknown: it is over, or has expired");
}

static trn_status cancel_flight_info(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__CancelFlightInfoRequest *request;
  int result = 0;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(cancel_flight_info_request), body, size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = cancel_info(session, rpc->arena, request->info, &result, error);
  Arrow__Flight__Protocol__CancelFlightInfoResult reply = ARROW__FLIGHT__PROTOCOL__CANCEL_FLIGHT_INFO_RESULT__INIT;
  reply.status = (Arrow__Flight__Protocol__CancelStatus)result;
  return status ? status : flightsql__reply_result(rpc, NULL, &reply.base, error);
}

static trn_status cancel_query(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__Sql__ActionCancelQueryRequest *request;
  Arrow__Flight__Protocol__FlightInfo *info;
  char name[64];
  trn_str value;
  int result = 0;
  if (!flightsql__unwrap(body, size, name, &value) || strcmp(name, "ActionCancelQueryRequest") != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "CancelQuery takes an ActionCancelQueryRequest");
  trn_status status =
      flight__decode(rpc->arena, DESCRIPTOR(sql__action_cancel_query_request), value.data, value.size, &request, error);
  if (!status)
    status = flight__decode(rpc->arena, DESCRIPTOR(flight_info), request->info.data, request->info.len, &info, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = cancel_info(session, rpc->arena, info, &result, error);
  Arrow__Flight__Protocol__Sql__ActionCancelQueryResult reply =
      ARROW__FLIGHT__PROTOCOL__SQL__ACTION_CANCEL_QUERY_RESULT__INIT;
  reply.result = (Arrow__Flight__Protocol__Sql__ActionCancelQueryResult__CancelResult)result;
  return status ? status : flightsql__reply_result(rpc, "ActionCancelQueryResult", &reply.base, error);
}

static trn_status renew_endpoint(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__RenewFlightEndpointRequest *request;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(renew_flight_endpoint_request), body, size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (status) return status;
  flightsql_statement *statement = request->endpoint ? statement_of(session, rpc->arena, request->endpoint) : NULL;
  if (!statement) return trn_error_set(error, TRN_NOT_FOUND, NULL, "The endpoint is unknown: it is over, or has expired");
  flightsql_service *service = self;
  flightsql__statement_renew(statement);
  flightsql__statement_unref(statement);
  Google__Protobuf__Timestamp expiration = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
  int64_t at = trn__wall_ms() + (int64_t)service->result_ms;
  expiration.seconds = at / 1000;
  expiration.nanos = (int32_t)(at % 1000 * 1000000);
  request->endpoint->expiration_time = &expiration;
  return flightsql__reply_result(rpc, NULL, &request->endpoint->base, error);
}

/* ---- session options ---- */

enum { OPTION_UNKNOWN = 1, OPTION_BAD_VALUE = 2 };

/* How many endpoints a result has; NULL: one. */
static int set_endpoints(flightsql_session *session, const char *text) {
  char *end = NULL;
  long count = text ? strtol(text, &end, 10) : 1;
  if (count < 1 || count > TRN_FLIGHT_ENDPOINTS_MAX || (end && (end == text || *end))) return OPTION_BAD_VALUE;
  pthread_mutex_lock(&session->mutex);
  session->endpoints = (unsigned)count;
  pthread_mutex_unlock(&session->mutex);
  return 0;
}

/* Where endpoints are told to be: addresses under which the client reaches this server, a line each; "reuse": the connection
 * that asks; "executors": where a cluster has them, if the operator lets results leave there. NULL or "": nothing is told, which
 * means the connection that asks. */
static int set_locations(flightsql_session *session, const char *text) {
  static const char reuse[] = "arrow-flight-reuse-connection://?";
  bool hands_through = text && strcmp(text, "executors") == 0;
  if (hands_through && !session->service->hands_through) return OPTION_BAD_VALUE;
  if (hands_through) text = NULL;
  if (text && strcmp(text, "reuse") == 0) text = reuse;
  size_t count = 1;
  for (const char *at = text; at && *at; count++) {
    size_t size = strcspn(at, "\n");
    bool is_known = strncmp(at, "grpc://", 7) == 0 || strncmp(at, "grpc+", 5) == 0 || strncmp(at, reuse, sizeof reuse - 1) == 0;
    if (!is_known || count > TRN_FLIGHT_LOCATIONS_MAX || size > TRN_FLIGHT_LOCATION_BYTES_MAX) return OPTION_BAD_VALUE;
    at += size;
    if (*at) at++;
  }
  char *copy = text && *text ? strdup(text) : NULL;
  if (text && *text && !copy) return OPTION_BAD_VALUE;
  pthread_mutex_lock(&session->mutex);
  char *old = session->locations;
  session->locations = copy;
  session->hands_through = hands_through;
  pthread_mutex_unlock(&session->mutex);
  free(old);
  return 0;
}

/* catalog, schema, dialect, endpoints, locations, and settings of the engine ("datafusion."). Gives the number of the error,
 * 0: none. */
static int set_option(flightsql_session *session, const char *key, const char *text) {
  if (strcmp(key, "dialect") == 0) {
    bool is_spark = text && strcmp(text, "spark") == 0;
    if (text && !is_spark && strcmp(text, "datafusion") != 0) return OPTION_BAD_VALUE;
    pthread_mutex_lock(&session->mutex);
    session->dialect = text ? (is_spark ? FLIGHTSQL_SPARK : FLIGHTSQL_ENGINE) : session->service->dialect;
    pthread_mutex_unlock(&session->mutex);
    return 0;
  }
  if (strcmp(key, "catalog") == 0 || strcmp(key, "schema") == 0) {
    bool is_catalog = key[0] == 'c';
    if (!text || !*text) text = is_catalog ? TRN_DEFAULT_CATALOG : TRN_DEFAULT_DATABASE;
    const trn_command use = {.struct_size = sizeof use,
                             .kind = TRN_COMMAND_USE,
                             .name = &text,
                             .name_count = 1,
                             .is_catalog = is_catalog};
    trn_operation *operation = NULL;
    if (trn_command_execute(session->session, &use, &operation, NULL, NULL, NULL)) return OPTION_BAD_VALUE;
    trn_operation_unref(operation);
    return 0;
  }
  if (strcmp(key, "endpoints") == 0) return set_endpoints(session, text);
  if (strcmp(key, "locations") == 0) return set_locations(session, text);
  if (strncmp(key, "datafusion.", 11) == 0 || strncmp(key, "spark.", 6) == 0)
    return trn_session_client_set(session->session, key, text, NULL) ? OPTION_BAD_VALUE : 0;
  return OPTION_UNKNOWN;
}

/* The session's transaction goes on with it too. */
static void set_in_transaction(flightsql_session *session, const char *key, const char *text) {
  flightsql_session *joined = flightsql__joined(session);
  if (joined != session) set_option(joined, key, text);
  flightsql__session_unref(joined);
}

/* The values of a list, a line each. NULL: no memory, or one has a line's end in it. */
static const char *list_text(trn_arena *arena, const option_value *value) {
  const Arrow__Flight__Protocol__SessionOptionValue__StringListValue *list = value->string_list_value;
  char *text = trn__arena_strdup(arena, "");
  for (size_t i = 0; text && i < list->n_values && i <= TRN_FLIGHT_LOCATIONS_MAX; i++) {
    if (strchr(list->values[i], '\n')) return NULL;
    text = trn__arena_printf(arena, "%s%s%s", text, i ? "\n" : "", list->values[i]);
  }
  return text;
}

/* The value as text, in `buffer` where it is no text. NULL: erase. *ok false: a list where none is taken. */
static const char *option_text(trn_arena *arena, const char *key, const option_value *value, char buffer[40], bool *ok) {
  const char *list;
  *ok = true;
  switch (value ? (int)value->option_value_case : 0) {
  case ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_STRING_VALUE: return value->string_value;
  case ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_BOOL_VALUE: return value->bool_value ? "true" : "false";
  case ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_INT64_VALUE:
    snprintf(buffer, 40, "%lld", (long long)value->int64_value);
    return buffer;
  case ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_DOUBLE_VALUE:
    snprintf(buffer, 40, "%.17g", value->double_value);
    return buffer;
  case ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_STRING_LIST_VALUE:
    list = strcmp(key, "locations") == 0 ? list_text(arena, value) : NULL;
    *ok = list != NULL;
    return list;
  default: return NULL;
  }
}

static trn_status set_options(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__SetSessionOptionsRequest *request;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(set_session_options_request), body, size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (status) return status;
  set_result result = ARROW__FLIGHT__PROTOCOL__SET_SESSION_OPTIONS_RESULT__INIT;
  size_t count = request->n_session_options;
  result.errors = TRN_NEW_N(rpc->arena, Arrow__Flight__Protocol__SetSessionOptionsResult__ErrorsEntry *, count);
  if (!result.errors) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    char buffer[40];
    bool ok;
    const char *text = option_text(rpc->arena, request->session_options[i]->key, request->session_options[i]->value, buffer, &ok);
    int number = ok ? set_option(session, request->session_options[i]->key, text) : OPTION_BAD_VALUE;
    if (!number) set_in_transaction(session, request->session_options[i]->key, text);
    if (!number) continue;
    Arrow__Flight__Protocol__SetSessionOptionsResult__ErrorsEntry *entry =
        TRN_NEW(rpc->arena, Arrow__Flight__Protocol__SetSessionOptionsResult__ErrorsEntry);
    Arrow__Flight__Protocol__SetSessionOptionsResult__Error *value =
        TRN_NEW(rpc->arena, Arrow__Flight__Protocol__SetSessionOptionsResult__Error);
    if (!entry || !value) return trn__no_memory(error);
    arrow__flight__protocol__set_session_options_result__errors_entry__init(entry);
    arrow__flight__protocol__set_session_options_result__error__init(value);
    value->value = (Arrow__Flight__Protocol__SetSessionOptionsResult__ErrorValue)number;
    entry->key = request->session_options[i]->key;
    entry->value = value;
    result.errors[result.n_errors++] = entry;
  }
  return flightsql__reply_result(rpc, NULL, &result.base, error);
}

typedef struct option_list {
  trn_arena *arena;
  Arrow__Flight__Protocol__GetSessionOptionsResult *result;
  size_t capacity;
  bool failed;
} option_list;

static void add_option(void *user, const char *key, const char *text) {
  option_list *list = user;
  Arrow__Flight__Protocol__GetSessionOptionsResult *result = list->result;
  if (result->n_session_options == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    Arrow__Flight__Protocol__GetSessionOptionsResult__SessionOptionsEntry **grown =
        TRN_NEW_N(list->arena, Arrow__Flight__Protocol__GetSessionOptionsResult__SessionOptionsEntry *, capacity);
    if (grown && list->capacity) memcpy(grown, result->session_options, list->capacity * sizeof *grown);
    list->failed |= !grown;
    if (!grown) return;
    result->session_options = grown;
    list->capacity = capacity;
  }
  Arrow__Flight__Protocol__GetSessionOptionsResult__SessionOptionsEntry *entry =
      TRN_NEW(list->arena, Arrow__Flight__Protocol__GetSessionOptionsResult__SessionOptionsEntry);
  option_value *value = TRN_NEW(list->arena, option_value);
  if (entry && value) {
    arrow__flight__protocol__get_session_options_result__session_options_entry__init(entry);
    arrow__flight__protocol__session_option_value__init(value);
    value->option_value_case = ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_STRING_VALUE;
    value->string_value = trn__arena_strdup(list->arena, text);
    entry->key = trn__arena_strdup(list->arena, key);
    entry->value = value;
    list->failed |= !value->string_value || !entry->key;
    result->session_options[result->n_session_options++] = entry;
  }
  list->failed |= !entry || !value;
}

static trn_status get_options(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  flightsql_session *session;
  Arrow__Flight__Protocol__GetSessionOptionsRequest *request;
  char *catalog = NULL, *database = NULL;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(get_session_options_request), body, size, &request, error);
  if (!status) status = flightsql__session(self, rpc, &session, error);
  if (!status) status = trn_session_namespace(session->session, &catalog, &database, error);
  if (status) return status;
  Arrow__Flight__Protocol__GetSessionOptionsResult result = ARROW__FLIGHT__PROTOCOL__GET_SESSION_OPTIONS_RESULT__INIT;
  option_list list = {rpc->arena, &result, 0, false};
  pthread_mutex_lock(&session->mutex);
  flightsql_dialect dialect = session->dialect;
  unsigned endpoints = session->endpoints;
  char *locations = session->hands_through ? trn__arena_strdup(rpc->arena, "executors")
                    : session->locations   ? trn__arena_strdup(rpc->arena, session->locations)
                                           : NULL;
  pthread_mutex_unlock(&session->mutex);
  char number[16];
  snprintf(number, sizeof number, "%u", endpoints > 1 ? endpoints : 1);
  add_option(&list, "endpoints", number);
  if (locations) add_option(&list, "locations", locations);
  add_option(&list, "catalog", catalog);
  add_option(&list, "schema", database);
  add_option(&list, "dialect", dialect == FLIGHTSQL_SPARK ? "spark" : "datafusion");
  trn_free(catalog);
  trn_free(database);
  status = trn_session_client_each(session->session, add_option, &list);
  if (status || list.failed) return trn__no_memory(error);
  return flightsql__reply_result(rpc, NULL, &result.base, error);
}

static trn_status close_session(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error) {
  Arrow__Flight__Protocol__CloseSessionRequest *request;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(close_session_request), body, size, &request, error);
  (void)self;
  if (status) return status;
  flight__session_close(rpc->session);
  Arrow__Flight__Protocol__CloseSessionResult reply = ARROW__FLIGHT__PROTOCOL__CLOSE_SESSION_RESULT__INIT;
  reply.status = ARROW__FLIGHT__PROTOCOL__CLOSE_SESSION_RESULT__STATUS__CLOSED;
  return flightsql__reply_result(rpc, NULL, &reply.base, error);
}

/* ---- the table ---- */

const flight_action flightsql__actions[] = {
    {"CreatePreparedStatement", "Prepares a SQL statement", flightsql__prepared_create},
    {"CreatePreparedSubstraitPlan", "Prepares a Substrait plan", flightsql__prepared_substrait},
    {"ClosePreparedStatement", "Drops a prepared statement", flightsql__prepared_close},
    {"BeginTransaction", "Begins a transaction over the session's catalog", begin_transaction},
    {"EndTransaction", "Commits a transaction, or rolls it back", end_transaction},
    {"BeginSavepoint", "Sets a savepoint in a transaction", begin_savepoint},
    {"EndSavepoint", "Releases a savepoint, or rolls back to it", end_savepoint},
    {"CancelQuery", "Cancels a query by its FlightInfo (deprecated: CancelFlightInfo)", cancel_query},
    {"CancelFlightInfo", "Cancels a query by its FlightInfo", cancel_flight_info},
    {"RenewFlightEndpoint", "Keeps a result that was not fetched for another while", renew_endpoint},
    {"SetSessionOptions", "Sets options: catalog, schema, dialect (datafusion, spark), endpoints, locations, datafusion.*, spark.*", set_options},
    {"GetSessionOptions", "Gives the session's options", get_options},
    {"CloseSession", "Ends the session and what it keeps", close_session},
};
const size_t flightsql__action_count = sizeof flightsql__actions / sizeof *flightsql__actions;
