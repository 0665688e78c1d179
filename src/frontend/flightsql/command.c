/* Commands: what a descriptor or a ticket asks for. Metadata is a table of commands: a descriptor's bytes are its ticket.
 * Statements are planned when their info is asked for and run when their ticket is redeemed - those that change things the
 * other way round: they run once, before their info is answered, so that a reader that never comes loses nothing. */
#include "frontend/flightsql/flightsql.h"

bool flightsql__claims(void *self, const void *command, size_t size) {
  char name[64];
  trn_str value;
  (void)self;
  return flightsql__unwrap(command, size, name, &value);
}

bool flightsql__unwrap(const void *data, size_t size, char name[64], trn_str *value) {
  trn_str url;
  const size_t prefix = sizeof FLIGHTSQL_PREFIX - 1;
  if (!flight__any(data, size, &url, value) || url.size <= prefix || url.size - prefix >= 64 ||
      memcmp(url.data, FLIGHTSQL_PREFIX, prefix) != 0)
    return false;
  memcpy(name, url.data + prefix, url.size - prefix);
  name[url.size - prefix] = 0;
  return true;
}

/* ---- metadata ---- */

#define DESCRIPTOR(name) &arrow__flight__protocol__sql__##name##__descriptor

static const struct metadata {
  const char *name;
  const ProtobufCMessageDescriptor *message;
  const char *columns;
  flightsql_fill fill;
} metadata[] = {
    {"CommandGetCatalogs", DESCRIPTOR(command_get_catalogs), "catalog_name:u!", flightsql__fill_catalogs},
    {"CommandGetDbSchemas", DESCRIPTOR(command_get_db_schemas), "catalog_name:u db_schema_name:u!",
     flightsql__fill_db_schemas},
    {"CommandGetTables", DESCRIPTOR(command_get_tables), FLIGHTSQL_TABLES, flightsql__fill_tables},
    {"CommandGetTableTypes", DESCRIPTOR(command_get_table_types), "table_type:u!", flightsql__fill_table_types},
    {"CommandGetPrimaryKeys", DESCRIPTOR(command_get_primary_keys), FLIGHTSQL_PRIMARY_KEYS,
     flightsql__fill_primary_keys},
    {"CommandGetExportedKeys", DESCRIPTOR(command_get_exported_keys), FLIGHTSQL_KEYS, flightsql__fill_exported_keys},
    {"CommandGetImportedKeys", DESCRIPTOR(command_get_imported_keys), FLIGHTSQL_KEYS, flightsql__fill_imported_keys},
    {"CommandGetCrossReference", DESCRIPTOR(command_get_cross_reference), FLIGHTSQL_KEYS,
     flightsql__fill_cross_reference},
    {"CommandGetXdbcTypeInfo", DESCRIPTOR(command_get_xdbc_type_info), FLIGHTSQL_XDBC, flightsql__fill_xdbc},
};

static const struct metadata *find_metadata(const char *name) {
  for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++)
    if (strcmp(metadata[i].name, name) == 0) return &metadata[i];
  return NULL;
}

static trn_status metadata_rows(const struct metadata *entry, const ProtobufCMessage *message, flightsql_rows *rows,
                                trn_error **error) {
  const char *columns = entry->columns;
  if (entry->fill == flightsql__fill_tables &&
      ((const Arrow__Flight__Protocol__Sql__CommandGetTables *)message)->include_schema)
    columns = FLIGHTSQL_TABLES " table_schema:y!";
  return flightsql__rows_init(rows, columns, error);
}

static trn_status metadata_schema(trn_arena *arena, const struct metadata *entry, trn_str value, trn_strbuf *out,
                                  trn_error **error) {
  ProtobufCMessage *message;
  flightsql_rows rows = {0};
  trn_status status = flight__decode(arena, entry->message, value.data, value.size, &message, error);
  if (!status) status = metadata_rows(entry, message, &rows, error);
  if (!status) status = flightsql__schema_ipc(&rows.schema, out, error);
  flightsql__rows_finish(&rows);
  return status;
}

static trn_status metadata_get(flightsql_session *session, flight_rpc *rpc, const struct metadata *entry, trn_str value,
                               trn_error **error) {
  ProtobufCMessage *message;
  flightsql_rows rows = {0};
  trn_status status = flight__decode(rpc->arena, entry->message, value.data, value.size, &message, error);
  if (!status) status = metadata_rows(entry, message, &rows, error);
  rows.rpc = rpc;
  flightsql_session *joined = flightsql__joined(session);
  if (!status) status = entry->fill(joined, &rows, message, error);
  flightsql__session_unref(joined);
  if (!status) status = flightsql__rows_send(&rows, error);
  flightsql__rows_finish(&rows);
  return status;
}

static trn_status sql_info_codes(trn_arena *arena, trn_str value, Arrow__Flight__Protocol__Sql__CommandGetSqlInfo **out,
                                 trn_error **error) {
  return flight__decode(arena, DESCRIPTOR(command_get_sql_info), value.data, value.size, out, error);
}

static trn_status sql_info_get(flightsql_session *session, flight_rpc *rpc, trn_str value, trn_error **error) {
  Arrow__Flight__Protocol__Sql__CommandGetSqlInfo *command;
  trn_strbuf schema = {0}, batch = {0};
  trn_status status = sql_info_codes(rpc->arena, value, &command, error);
  if (!status) status = flightsql__sql_info(session, command->info, command->n_info, &schema, &batch, error);
  if (!status) status = flight__send_ipc(rpc, schema.data, schema.size, error);
  if (!status) status = flight__send_ipc(rpc, batch.data, batch.size, error);
  if (!status) flight__rpc_finish(rpc);
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
  return status;
}

/* ---- answers ---- */

/* A planned query, told: one endpoint, whose ticket runs it; or it runs by itself, and its parts are told as they come. */
static trn_status reply_statement(flight_rpc *rpc, bool is_poll, trn_str command, flightsql_statement *statement,
                                  trn_error **error) {
  flightsql_session *session = flightsql__owner(statement->session);
  pthread_mutex_lock(&session->mutex);
  size_t goal = !is_poll && session->endpoints > 1 ? session->endpoints : 0;
  bool hands_through = !is_poll && statement->kind == FLIGHTSQL_QUERY && session->hands_through;
  pthread_mutex_unlock(&session->mutex);
  if (hands_through) return flightsql__handed_start(statement, rpc, command, error);
  bool has_parts = statement->kind == FLIGHTSQL_QUERY && (is_poll || goal);
  trn_status status = has_parts ? flightsql__result_start(statement, rpc, goal, error) : TRN_OK;
  if (!status) status = flightsql__statement_publish(statement, error);
  if (status && has_parts) flightsql__statement_cancel(statement);
  if (status) return status;
  if (has_parts) return flightsql__result_wait(statement, rpc, command, is_poll, SIZE_MAX, error);
  const flightsql_info info = {.command = command,
                               .statement = statement,
                               .is_poll = is_poll,
                               .expires_in_ms = session->service->result_ms};
  return flightsql__reply_info(rpc, &info, error);
}

trn_status flightsql__reply_result(flight_rpc *rpc, const char *type, const ProtobufCMessage *message,
                                   trn_error **error) {
  trn_strbuf body = {0};
  char *url = type ? trn__arena_printf(rpc->arena, FLIGHTSQL_PREFIX "%s", type) : NULL;
  if (type && !url) return trn__no_memory(error);
  if (type) flight__any_put(&body, url, message);
  else flight__message_put(&body, message);
  Arrow__Flight__Protocol__Result result = ARROW__FLIGHT__PROTOCOL__RESULT__INIT;
  result.body = (ProtobufCBinaryData){body.size, (uint8_t *)body.data};
  trn_status status = body.failed ? trn__no_memory(error) : flight__rpc_reply(rpc, &result.base, error);
  trn__strbuf_finish(&body);
  return status;
}

/* ---- statements ---- */

/* The count of an update as a result. */
static trn_status count_rows(flightsql_rows *rows, trn_error **error) { return flightsql__rows_init(rows, "count:l!", error); }

static trn_status count_schema(trn_strbuf *out, trn_error **error) {
  flightsql_rows rows = {0};
  trn_status status = count_rows(&rows, error);
  if (!status) status = flightsql__schema_ipc(&rows.schema, out, error);
  flightsql__rows_finish(&rows);
  return status;
}

static trn_status count_get(flight_rpc *rpc, const flightsql_statement *statement, trn_error **error) {
  flightsql_rows rows = {0};
  trn_status status = count_rows(&rows, error);
  rows.rpc = rpc;
  if (!status && statement->kind == FLIGHTSQL_DML) {
    flightsql__rows_int(&rows, 0, statement->count);
    flightsql__rows_end(&rows);
  }
  if (!status) status = flightsql__rows_send(&rows, error);
  flightsql__rows_finish(&rows);
  return status;
}

/* An update that a query path asked for, on its way. */
typedef struct updating {
  flight_rpc *rpc;
  flightsql_statement *statement, *prepared;
  char *command;
  size_t command_size;
  bool is_poll;
} updating;

static void updated(void *user, trn_status status, const trn_error *error, int64_t count) {
  updating *u = user;
  trn_error *own = NULL;
  if (!status) {
    u->statement->count = count;
    u->statement->has_run = true;
    status = reply_statement(u->rpc, u->is_poll, (trn_str){u->command, u->command_size}, u->statement, &own);
    error = own;
  }
  if (status) flight__rpc_fail(u->rpc, status, error);
  trn_error_unref(own);
  flightsql__statement_unref(u->statement);
  flightsql__statement_unref(u->prepared);
  flight__rpc_unref(u->rpc);
  free(u->command);
  free(u);
}

/* Takes the statement (and `prepared`, whose parameters it uses), also on failure. */
static trn_status run_update(flight_rpc *rpc, bool is_poll, trn_str command, flightsql_statement *statement,
                             flightsql_statement *prepared, trn_error **error) {
  trn_status status = count_schema(&statement->schema, error);
  updating *u = status ? NULL : calloc(1, sizeof *u);
  char *copy = u ? malloc(command.size + 1) : NULL;
  if (!copy) {
    free(u);
    flightsql__statement_unref(statement);
    flightsql__statement_unref(prepared);
    return status ? status : trn__no_memory(error);
  }
  memcpy(copy, command.data, command.size);
  *u = (updating){flight__rpc_ref(rpc), statement, prepared, copy, command.size, is_poll};
  flightsql_parameters *bound = prepared ? flightsql__statement_bound(prepared) : NULL;
  flightsql__update(statement->session, rpc, statement, statement->sql, statement->sql_size, bound, updated, u);
  flightsql__parameters_unref(bound);
  return TRN_OK;
}

/* A statement from a text, planned when it is a query. */
static trn_status from_text(flightsql_session *session, trn_arena *arena, const char *sql, flightsql_statement **out,
                            trn_error **error) {
  flightsql_text text;
  flightsql_statement *statement = NULL;
  trn_status status = flightsql__text_read(arena, sql, strlen(sql), flightsql__dialect(session), &text, error);
  if (!status && text.parameter_count)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A statement with parameters is prepared first");
  if (!status) status = flightsql__statement_create(session, sql, strlen(sql), &statement, error);
  if (status) return status;
  status = flightsql__classify(session, arena, &text, NULL, &statement->kind, &statement->plan, NULL, error);
  if (!status && statement->plan) status = flightsql__plan_schema_ipc(statement->plan, &statement->schema, error);
  if (status) {
    flightsql__statement_unref(statement);
  } else {
    *out = statement;
  }
  return status;
}

static trn_status from_substrait(flightsql_session *session, const ProtobufCBinaryData *plan, flightsql_statement **out,
                                 trn_error **error) {
  flightsql_statement *statement = NULL;
  trn_status status = flightsql__statement_create(session, "", 0, &statement, error);
  if (!status) status = flightsql__plan_substrait(session, plan->data, plan->len, &statement->plan, error);
  if (!status) status = flightsql__plan_schema_ipc(statement->plan, &statement->schema, error);
  if (status) {
    flightsql__statement_unref(statement);
  } else {
    *out = statement;
  }
  return status;
}

/* ---- what a descriptor means ---- */

#define transaction_of(command) ((command)->_transaction_id_case ? &(command)->transaction_id : NULL)

/* Gives a statement for commands that are one. *prepared: what it was made from, a reference or NULL. */
static trn_status open_statement(flightsql_session *session, trn_arena *arena, const char *name, trn_str value,
                                 flightsql_statement **out, flightsql_statement **prepared, trn_error **error) {
  *out = *prepared = NULL;
  trn_status status;
  if (strcmp(name, "CommandStatementQuery") == 0) {
    Arrow__Flight__Protocol__Sql__CommandStatementQuery *command;
    status = flight__decode(arena, DESCRIPTOR(command_statement_query), value.data, value.size, &command, error);
    flightsql_session *in = NULL;
    if (!status) status = flightsql__in_transaction(session, transaction_of(command), &in, error);
    if (!status) status = from_text(in, arena, command->query, out, error);
    flightsql__session_unref(in);
    return status;
  }
  if (strcmp(name, "CommandStatementSubstraitPlan") == 0) {
    Arrow__Flight__Protocol__Sql__CommandStatementSubstraitPlan *command;
    status = flight__decode(arena, DESCRIPTOR(command_statement_substrait_plan), value.data, value.size, &command, error);
    flightsql_session *in = NULL;
    if (!status && !command->plan)
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The command has no Substrait plan");
    if (!status) status = flightsql__in_transaction(session, transaction_of(command), &in, error);
    if (!status) status = from_substrait(in, &command->plan->plan, out, error);
    flightsql__session_unref(in);
    return status;
  }
  if (strcmp(name, "CommandPreparedStatementQuery") == 0) {
    Arrow__Flight__Protocol__Sql__CommandPreparedStatementQuery *command;
    status = flight__decode(arena, DESCRIPTOR(command_prepared_statement_query), value.data, value.size, &command, error);
    if (!status)
      status = flightsql__statement_find(session, command->prepared_statement_handle.data,
                                         command->prepared_statement_handle.len, true, prepared, error);
    if (!status) status = flightsql__prepared_execution(session, *prepared, out, error);
    if (status) {
      flightsql__statement_unref(*prepared);
      *prepared = NULL;
    }
    return status;
  }
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "The command %s is not supported", name);
}

/* A poll for what a former one began. */
static trn_status poll_again(flightsql_session *session, flight_rpc *rpc, trn_str command, trn_str value, trn_error **error) {
  Arrow__Flight__Protocol__Sql__TicketStatementQuery *ticket;
  flightsql_statement *statement = NULL;
  size_t seen = 0;
  trn_status status = flight__decode(rpc->arena, DESCRIPTOR(ticket_statement_query), value.data, value.size, &ticket, error);
  if (status) return status;
  const ProtobufCBinaryData *handle = &ticket->statement_handle;
  if (!flightsql__handle_number(handle->data, handle->len, '?', &seen))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A ticket is polled for: its result is fetched by DoGet");
  status = flightsql__statement_find(session, handle->data, handle->len, false, &statement, error);
  if (status) return status;
  flightsql__statement_renew(statement);
  status = flightsql__result_wait(statement, rpc, command, true, seen, error);
  flightsql__statement_unref(statement);
  return status;
}

static trn_status get_info(void *self, flight_rpc *rpc, const Arrow__Flight__Protocol__FlightDescriptor *descriptor,
                           bool is_poll, trn_error **error) {
  flightsql_service *service = self;
  flightsql_session *session;
  char name[64];
  trn_str value, command = {(const char *)descriptor->cmd.data, descriptor->cmd.len};
  trn_strbuf schema = {0};
  flightsql__unwrap(command.data, command.size, name, &value);
  trn_status status = flightsql__session(service, rpc, &session, error);
  if (status) return status;
  const struct metadata *entry = find_metadata(name);
  if (entry || strcmp(name, "CommandGetSqlInfo") == 0) {
    Arrow__Flight__Protocol__Sql__CommandGetSqlInfo *codes;
    status = entry ? metadata_schema(rpc->arena, entry, value, &schema, error)
                   : sql_info_codes(rpc->arena, value, &codes, error);
    if (!status && !entry) status = flightsql__sql_info(session, NULL, 0, &schema, NULL, error);
    const flightsql_info info = {.command = command, .schema = &schema, .is_poll = is_poll};
    if (!status) status = flightsql__reply_info(rpc, &info, error);
    trn__strbuf_finish(&schema);
    return status;
  }
  if (is_poll && strcmp(name, "TicketStatementQuery") == 0) return poll_again(session, rpc, command, value, error);
  flightsql_statement *statement, *prepared;
  status = open_statement(session, rpc->arena, name, value, &statement, &prepared, error);
  if (status) return status;
  if (statement->kind != FLIGHTSQL_QUERY) return run_update(rpc, is_poll, command, statement, prepared, error);
  status = reply_statement(rpc, is_poll, command, statement, error);
  flightsql__statement_unref(statement);
  flightsql__statement_unref(prepared);
  return status;
}

trn_status flightsql__get_flight_info(void *self, flight_rpc *rpc,
                                      const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error) {
  return get_info(self, rpc, descriptor, false, error);
}

trn_status flightsql__poll_flight_info(void *self, flight_rpc *rpc,
                                       const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error) {
  return get_info(self, rpc, descriptor, true, error);
}

static trn_status statement_schema(flightsql_session *session, trn_arena *arena, const char *name, trn_str value,
                                   trn_strbuf *out, trn_error **error) {
  flightsql_statement *statement, *prepared;
  trn_status status = TRN_OK;
  if (strcmp(name, "CommandPreparedStatementQuery") == 0) {
    /* What it was prepared with: nothing need be bound yet. */
    Arrow__Flight__Protocol__Sql__CommandPreparedStatementQuery *command;
    status = flight__decode(arena, DESCRIPTOR(command_prepared_statement_query), value.data, value.size, &command, error);
    if (!status)
      status = flightsql__statement_find(session, command->prepared_statement_handle.data,
                                         command->prepared_statement_handle.len, true, &statement, error);
    prepared = NULL;
  } else {
    status = open_statement(session, arena, name, value, &statement, &prepared, error);
  }
  if (status) return status;
  if (statement->kind != FLIGHTSQL_QUERY) status = count_schema(out, error);
  else trn__strbuf_add(out, statement->schema.data, statement->schema.size);
  flightsql__statement_unref(statement);
  flightsql__statement_unref(prepared);
  return status ? status : out->failed ? trn__no_memory(error) : TRN_OK;
}

trn_status flightsql__get_schema(void *self, flight_rpc *rpc,
                                 const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error) {
  flightsql_session *session;
  char name[64];
  trn_str value;
  trn_strbuf schema = {0};
  flightsql__unwrap(descriptor->cmd.data, descriptor->cmd.len, name, &value);
  const struct metadata *entry = find_metadata(name);
  trn_status status = flightsql__session(self, rpc, &session, error);
  if (!status && entry) status = metadata_schema(rpc->arena, entry, value, &schema, error);
  else if (!status && strcmp(name, "CommandGetSqlInfo") == 0) status = flightsql__sql_info(session, NULL, 0, &schema, NULL, error);
  else if (!status) status = statement_schema(session, rpc->arena, name, value, &schema, error);
  Arrow__Flight__Protocol__SchemaResult result = ARROW__FLIGHT__PROTOCOL__SCHEMA_RESULT__INIT;
  result.schema = (ProtobufCBinaryData){schema.size, (uint8_t *)schema.data};
  if (!status) status = flight__rpc_reply(rpc, &result.base, error);
  trn__strbuf_finish(&schema);
  return status;
}

/* ---- tickets ---- */

typedef struct sending {
  flightsql_statement *statement;
  trn_operation *operation; /* NULL: a part of a result */
  size_t part;
} sending;

static void sent(void *user, trn_status status, int64_t rows) {
  sending *s = user;
  (void)rows;
  flightsql_session *session = s->statement->session;
  if (s->operation) flightsql__statement_ran(s->statement, s->operation);
  atomic_store(&session->used_ns, trn__now_ns());
  atomic_fetch_sub(&session->reading, 1);
  if (!status && (s->operation || flightsql__result_fetched(s->statement->result, s->part)))
    flightsql__statement_fetched(s->statement);
  trn_operation_unref(s->operation);
  flightsql__statement_unref(s->statement);
  free(s);
}

/* Runs a planned statement and streams its rows, or those of a part that is there. Borrows the statement. */
static trn_status stream_statement(flight_rpc *rpc, flightsql_statement *statement, size_t part, trn_error **error) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  sending *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  trn_status status = statement->result ? flightsql__result_open(statement->result, part, &stream, error)
                                        : flightsql__statement_execute(statement, rpc, &operation, &stream, error);
  if (status) {
    free(s);
    return status;
  }
  atomic_fetch_add(&statement->session->reading, 1);
  *s = (sending){flightsql__statement_ref(statement), operation ? trn_operation_ref(operation) : NULL, part};
  flight__send_stream(rpc, operation, stream, TRN_FLIGHT_BATCH_BYTES, sent, s);
  return TRN_OK;
}

trn_status flightsql__do_get(void *self, flight_rpc *rpc, const void *ticket, size_t size, trn_error **error) {
  flightsql_service *service = self;
  flightsql_session *session;
  flightsql_statement *statement = NULL, *prepared = NULL;
  char name[64];
  trn_str value;
  size_t part = 0;
  flightsql__unwrap(ticket, size, name, &value);
  trn_status status = flightsql__session(service, rpc, &session, error);
  if (status) return status;
  const struct metadata *entry = find_metadata(name);
  if (entry) return metadata_get(session, rpc, entry, value, error);
  if (strcmp(name, "CommandGetSqlInfo") == 0) return sql_info_get(session, rpc, value, error);
  if (strcmp(name, "TicketStatementQuery") == 0) {
    Arrow__Flight__Protocol__Sql__TicketStatementQuery *message;
    status = flight__decode(rpc->arena, DESCRIPTOR(ticket_statement_query), value.data, value.size, &message, error);
    if (!status)
      status = flightsql__statement_find(session, message->statement_handle.data, message->statement_handle.len, false,
                                         &statement, error);
    if (!status && statement->result &&
        !flightsql__handle_number(message->statement_handle.data, message->statement_handle.len, ':', &part))
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The ticket names no part of its result");
  } else if (strcmp(name, "CommandPreparedStatementQuery") == 0) {
    /* Some clients redeem the command itself. What changes things is run by GetFlightInfo only. */
    status = open_statement(session, rpc->arena, name, value, &statement, &prepared, error);
    if (!status && statement->kind != FLIGHTSQL_QUERY)
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The statement changes things: GetFlightInfo or DoPut runs it");
  } else {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is no ticket", name);
  }
  if (!status) status = statement->kind == FLIGHTSQL_QUERY ? stream_statement(rpc, statement, part, error) : count_get(rpc, statement, error);
  if (!status && statement->kind != FLIGHTSQL_QUERY) flightsql__statement_fetched(statement);
  flightsql__statement_unref(statement);
  flightsql__statement_unref(prepared);
  return status;
}
