/* What GetFlightInfo and PollFlightInfo answer: endpoints, where they are, and for how long. */
#include "frontend/flightsql/flightsql.h"

typedef Arrow__Flight__Protocol__FlightEndpoint endpoint_message;

/* An Any around a handle: a ticket, or what is polled next. In the arena. */
static bool handle_any(trn_arena *arena, const char *handle, ProtobufCBinaryData *out) {
  Arrow__Flight__Protocol__Sql__TicketStatementQuery message = ARROW__FLIGHT__PROTOCOL__SQL__TICKET_STATEMENT_QUERY__INIT;
  trn_strbuf bytes = {0};
  if (!handle) return false;
  message.statement_handle = (ProtobufCBinaryData){strlen(handle), (uint8_t *)handle};
  flight__any_put(&bytes, FLIGHTSQL_PREFIX "TicketStatementQuery", &message.base);
  char *copy = bytes.failed ? NULL : trn__arena_str(arena, bytes.data, bytes.size);
  *out = (ProtobufCBinaryData){bytes.size, (uint8_t *)copy};
  trn__strbuf_finish(&bytes);
  return copy != NULL;
}

static Google__Protobuf__Timestamp *expires(trn_arena *arena, uint64_t in_ms) {
  Google__Protobuf__Timestamp *out = TRN_NEW(arena, Google__Protobuf__Timestamp);
  if (!out) return NULL;
  google__protobuf__timestamp__init(out);
  int64_t at = trn__wall_ms() + (int64_t)in_ms;
  out->seconds = at / 1000;
  out->nanos = (int32_t)(at % 1000 * 1000000);
  return out;
}

/* The locations that the session asked for, in order; the same for every endpoint. */
static bool locations(trn_arena *arena, flightsql_session *of, Arrow__Flight__Protocol__Location ***out, size_t *count) {
  flightsql_session *session = flightsql__owner(of);
  pthread_mutex_lock(&session->mutex);
  char *text = session->locations ? trn__arena_strdup(arena, session->locations) : NULL;
  bool ok = text || !session->locations;
  pthread_mutex_unlock(&session->mutex);
  *count = 0;
  if (!text) return ok;
  *out = TRN_NEW_N(arena, Arrow__Flight__Protocol__Location *, TRN_FLIGHT_LOCATIONS_MAX);
  for (char *next, *at = text; *out && at && *count < TRN_FLIGHT_LOCATIONS_MAX; at = next) {
    Arrow__Flight__Protocol__Location *location = TRN_NEW(arena, Arrow__Flight__Protocol__Location);
    if (!location) return false;
    next = strchr(at, '\n');
    if (next) *next++ = 0;
    arrow__flight__protocol__location__init(location);
    location->uri = at;
    (*out)[(*count)++] = location;
  }
  return *out != NULL;
}

static bool fill_endpoint(trn_arena *arena, const flightsql_info *given, size_t index, endpoint_message *out) {
  Arrow__Flight__Protocol__Ticket *ticket = TRN_NEW(arena, Arrow__Flight__Protocol__Ticket);
  if (!ticket) return false;
  arrow__flight__protocol__flight_endpoint__init(out);
  arrow__flight__protocol__ticket__init(ticket);
  out->ticket = ticket;
  const flightsql_statement *statement = given->statement;
  if (!statement) {
    ticket->ticket = (ProtobufCBinaryData){given->command.size, (uint8_t *)given->command.data};
    return true;
  }
  if (given->parts) {
    Arrow__Flight__Protocol__Location *location = TRN_NEW(arena, Arrow__Flight__Protocol__Location);
    out->location = TRN_NEW(arena, Arrow__Flight__Protocol__Location *);
    if (!location || !out->location) return false;
    arrow__flight__protocol__location__init(location);
    location->uri = given->parts[index]->uri;
    out->location[out->n_location++] = location;
    ticket->ticket = given->parts[index]->ticket;
    return !given->expires_in_ms || (out->expiration_time = expires(arena, given->expires_in_ms)) != NULL;
  }
  const char *handle = statement->result ? trn__arena_printf(arena, "%s:%zu", statement->handle, index) : statement->handle;
  if (given->expires_in_ms && !(out->expiration_time = expires(arena, given->expires_in_ms))) return false;
  return handle_any(arena, handle, &ticket->ticket) &&
         locations(arena, statement->session, &out->location, &out->n_location);
}

static bool fill_poll(trn_arena *arena, const flightsql_info *given, Arrow__Flight__Protocol__FlightDescriptor *next,
                      Arrow__Flight__Protocol__PollInfo *out) {
  if (given->statement && given->expires_in_ms && !(out->expiration_time = expires(arena, given->expires_in_ms))) return false;
  if (!given->statement || !given->statement->result || given->is_complete) {
    out->_progress_case = ARROW__FLIGHT__PROTOCOL__POLL_INFO___PROGRESS_PROGRESS;
    out->progress = 1;
    return true;
  }
  /* How far it is nobody knows before the end; that it goes on, the endpoints say. */
  next->type = ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__DESCRIPTOR_TYPE__CMD;
  out->flight_descriptor = next;
  return handle_any(arena, trn__arena_printf(arena, "%s?%zu", given->statement->handle, given->part_count), &next->cmd);
}

trn_status flightsql__reply_info(flight_rpc *rpc, const flightsql_info *given, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return trn__no_memory(error);
  Arrow__Flight__Protocol__FlightDescriptor descriptor = ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__INIT, next = descriptor;
  Arrow__Flight__Protocol__FlightInfo info = ARROW__FLIGHT__PROTOCOL__FLIGHT_INFO__INIT;
  Arrow__Flight__Protocol__PollInfo poll = ARROW__FLIGHT__PROTOCOL__POLL_INFO__INIT;
  flightsql_statement *statement = given->statement;
  const trn_strbuf *schema = statement ? &statement->schema : given->schema;
  bool has_parts = statement && (statement->result || given->parts);
  size_t count = has_parts ? given->part_count : 1;
  endpoint_message *endpoints = TRN_NEW_N(arena, endpoint_message, count + 1);
  info.endpoint = TRN_NEW_N(arena, endpoint_message *, count + 1);
  bool ok = endpoints && info.endpoint;
  for (size_t i = 0; ok && i < count; i++) {
    info.endpoint[info.n_endpoint++] = &endpoints[i];
    ok = fill_endpoint(arena, given, i, &endpoints[i]);
  }
  descriptor.type = ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__DESCRIPTOR_TYPE__CMD;
  descriptor.cmd = (ProtobufCBinaryData){given->command.size, (uint8_t *)given->command.data};
  info.schema = (ProtobufCBinaryData){schema->size, (uint8_t *)schema->data};
  info.flight_descriptor = &descriptor;
  bool is_known = has_parts && given->is_complete;
  info.total_records = is_known ? given->rows : -1;
  info.total_bytes = is_known ? given->bytes : -1;
  info.ordered = true;
  /* What CancelFlightInfo knows it by, also before there is an endpoint. */
  if (has_parts) info.app_metadata = (ProtobufCBinaryData){TRN_UUID_SIZE - 1, (uint8_t *)statement->handle};
  if (ok && given->is_poll) ok = fill_poll(arena, given, &next, &poll);
  poll.info = &info;
  trn_status status = !ok            ? trn__no_memory(error)
                      : given->is_poll ? flight__rpc_reply(rpc, &poll.base, error)
                                       : flight__rpc_reply(rpc, &info.base, error);
  trn__arena_unref(arena);
  return status;
}
