/* A Flight SQL client over inproc, for tests of the service without a network or an engine: Spark's dialect over the
 * scripted backend. */
#ifndef TESTS_SUPPORT_FLIGHT_CLIENT_H
#define TESTS_SUPPORT_FLIGHT_CLIENT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrow/ipc_read.h"
#include "backend/scripted/scripted.h"
#include "flight.pb-c.h"
#include "flight_sql.pb-c.h"
#include "frontend/flight/flight.h"
#include "transport/inproc/inproc.h"
#include <trunnion/frontend.h>

#define FLIGHT_TEST_PATH "/arrow.flight.protocol.FlightService/"
#define FLIGHT_SQL_URL "type.googleapis.com/arrow.flight.protocol.sql."

typedef struct flight_client {
  trn_scripted *scripted;
  trn_routes *routes;
  trn_inproc *inproc;
  const char *identity, *authorization; /* of the calls */
  char text[256];                       /* of the last failure */
} flight_client;

static inline int flight_start(flight_client *client, const trn_flightsql_options *options) {
  trn_backend *backend = NULL;
  trn_frontend *frontend = NULL;
  memset(client, 0, sizeof *client);
  trn_status status = trn__scripted_create(TRN_SCRIPTED_ARRAYS, &client->scripted, &backend);
  if (!status) status = trn_routes_create(&client->routes);
  if (!status) status = trn_flightsql_frontend_create(options, &frontend);
  if (!status) status = trn_frontend_register(frontend, client->routes, backend, NULL);
  if (!status) status = trn__inproc_create(client->routes, &client->inproc);
  trn_frontend_destroy(frontend);
  trn_backend_unref(backend);
  return (int)status;
}

static inline void flight_stop(flight_client *client) {
  trn__inproc_destroy(client->inproc);
  trn_routes_destroy(client->routes);
  trn__scripted_unref(client->scripted);
}

static inline trn_status flight_call(flight_client *client, const char *method, const trn_slice *messages, size_t count,
                                     trn_inproc_reply *reply) {
  char path[128];
  const trn_metadata metadata = {"authorization", client->authorization,
                                 client->authorization ? strlen(client->authorization) : 0};
  snprintf(path, sizeof path, "%s%s", FLIGHT_TEST_PATH, method);
  const trn_inproc_request request = {.path = path,
                                      .metadata = &metadata,
                                      .metadata_count = client->authorization ? 1 : 0,
                                      .identity = client->identity};
  trn_status status = trn__inproc_invoke(client->inproc, &request, messages, count, reply);
  if (status) {
    trn__inproc_reply_finish(reply);
    memset(reply, 0, sizeof *reply);
    return reply->status = status;
  }
  snprintf(client->text, sizeof client->text, "%s", reply->message);
  return reply->status;
}

/* A descriptor or ticket's command: an Any around `message` (NULL: empty). */
static inline trn_strbuf flight_command(const char *name, const void *message) {
  trn_strbuf out = {0};
  char url[128];
  snprintf(url, sizeof url, "%s%s", FLIGHT_SQL_URL, name);
  Arrow__Flight__Protocol__Empty empty = ARROW__FLIGHT__PROTOCOL__EMPTY__INIT;
  flight__any_put(&out, url, message ? message : &empty.base);
  return out;
}

static inline trn_strbuf flight_descriptor(const trn_strbuf *command) {
  Arrow__Flight__Protocol__FlightDescriptor descriptor = ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__INIT;
  trn_strbuf out = {0};
  descriptor.type = ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__DESCRIPTOR_TYPE__CMD;
  descriptor.cmd = (ProtobufCBinaryData){command->size, (uint8_t *)command->data};
  flight__message_put(&out, &descriptor.base);
  return out;
}

/* Asks for the info of a command; gives it (arrow__flight__protocol__flight_info__free_unpacked), or NULL. */
static inline Arrow__Flight__Protocol__FlightInfo *flight_info_of(flight_client *client, const trn_strbuf *command,
                                                                  trn_status *status) {
  trn_strbuf descriptor = flight_descriptor(command);
  const trn_slice message = {.data = descriptor.data, .size = descriptor.size};
  trn_inproc_reply reply;
  Arrow__Flight__Protocol__FlightInfo *info = NULL;
  *status = flight_call(client, "GetFlightInfo", &message, 1, &reply);
  if (!*status && reply.message_count == 1)
    info = arrow__flight__protocol__flight_info__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&descriptor);
  return info;
}

static inline trn_strbuf flight_query(const char *sql) {
  Arrow__Flight__Protocol__Sql__CommandStatementQuery query;
  arrow__flight__protocol__sql__command_statement_query__init(&query);
  query.query = (char *)sql;
  return flight_command("CommandStatementQuery", &query);
}

/* What a DoGet gave. */
typedef struct flight_result {
  trn_status status;
  size_t columns, messages;
  int64_t rows;
} flight_result;

static inline flight_result flight_get(flight_client *client, const void *ticket, size_t size) {
  Arrow__Flight__Protocol__Ticket message = ARROW__FLIGHT__PROTOCOL__TICKET__INIT;
  trn_strbuf bytes = {0};
  trn_inproc_reply reply;
  flight_result result = {0};
  message.ticket = (ProtobufCBinaryData){size, (uint8_t *)ticket};
  flight__message_put(&bytes, &message.base);
  const trn_slice slice = {.data = bytes.data, .size = bytes.size};
  result.status = flight_call(client, "DoGet", &slice, 1, &reply);
  for (size_t i = 0; !result.status && i < reply.message_count; i++) {
    flight_data data;
    trn_ipc_kind kind;
    int64_t body;
    if (flight__data_parse(reply.messages[i].data, reply.messages[i].size, &data, NULL) ||
        trn__ipc_read_kind(data.header.data, data.header.size, &kind, &body, NULL) ||
        (size_t)body != data.body.size || (kind == TRN_IPC_SCHEMA) != (i == 0)) {
      result.status = TRN_DATA_LOSS;
      break;
    }
    result.messages++;
    if (kind == TRN_IPC_SCHEMA && trn__ipc_read_schema(data.header.data, data.header.size, NULL, &result.columns, NULL))
      result.status = TRN_DATA_LOSS;
    int64_t rows = 0; /* RecordBatch.length, by reading the batch as one without columns */
    struct ArrowSchema none;
    struct ArrowArray array;
    if (kind == TRN_IPC_BATCH && trn__schema_init(&none, "+s", "", 0, NULL, 0, 0) == TRN_OK) {
      if (trn__ipc_read_batch(&none, data.header.data, data.header.size, data.body.data, data.body.size, &array, NULL) == TRN_OK) {
        rows = array.length;
        array.release(&array);
      }
      none.release(&none);
    }
    result.rows += rows;
  }
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&bytes);
  return result;
}

/* Info and data of a query. */
static inline flight_result flight_run(flight_client *client, const char *sql) {
  trn_strbuf command = flight_query(sql);
  flight_result result = {0};
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &result.status);
  if (info) {
    result = flight_get(client, info->endpoint[0]->ticket->ticket.data, info->endpoint[0]->ticket->ticket.len);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&command);
  return result;
}

/* One action; the body of its last result in `body` (NULL: not wanted). */
static inline trn_status flight_act(flight_client *client, const char *type, const trn_strbuf *request, trn_strbuf *body) {
  Arrow__Flight__Protocol__Action action = ARROW__FLIGHT__PROTOCOL__ACTION__INIT;
  trn_strbuf bytes = {0};
  trn_inproc_reply reply;
  action.type = (char *)type;
  if (request) action.body = (ProtobufCBinaryData){request->size, (uint8_t *)request->data};
  flight__message_put(&bytes, &action.base);
  const trn_slice slice = {.data = bytes.data, .size = bytes.size};
  trn_status status = flight_call(client, "DoAction", &slice, 1, &reply);
  if (!status && body && reply.message_count) {
    const trn_slice *last = &reply.messages[reply.message_count - 1];
    Arrow__Flight__Protocol__Result *result = arrow__flight__protocol__result__unpack(NULL, last->size, last->data);
    if (result) trn__strbuf_add(body, result->body.data, result->body.len);
    if (result) arrow__flight__protocol__result__free_unpacked(result, NULL);
  }
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&bytes);
  return status;
}

/* Prepares; gives the handle. */
static inline trn_status flight_prepare(flight_client *client, const char *sql, char handle[64], bool *is_update) {
  Arrow__Flight__Protocol__Sql__ActionCreatePreparedStatementRequest request;
  arrow__flight__protocol__sql__action_create_prepared_statement_request__init(&request);
  request.query = (char *)sql;
  trn_strbuf body = flight_command("ActionCreatePreparedStatementRequest", &request), answer = {0};
  trn_status status = flight_act(client, "CreatePreparedStatement", &body, &answer);
  trn_str url, value;
  if (!status && flight__any(answer.data, answer.size, &url, &value)) {
    Arrow__Flight__Protocol__Sql__ActionCreatePreparedStatementResult *result =
        arrow__flight__protocol__sql__action_create_prepared_statement_result__unpack(NULL, value.size,
                                                                                      (const uint8_t *)value.data);
    if (result) {
      snprintf(handle, 64, "%.*s", (int)result->prepared_statement_handle.len, (char *)result->prepared_statement_handle.data);
      if (is_update) *is_update = result->is_update;
      arrow__flight__protocol__sql__action_create_prepared_statement_result__free_unpacked(result, NULL);
    }
  }
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&answer);
  return status;
}

static inline trn_strbuf flight_prepared_query(const char *handle) {
  Arrow__Flight__Protocol__Sql__CommandPreparedStatementQuery command =
      ARROW__FLIGHT__PROTOCOL__SQL__COMMAND_PREPARED_STATEMENT_QUERY__INIT;
  command.prepared_statement_handle = (ProtobufCBinaryData){strlen(handle), (uint8_t *)handle};
  return flight_command("CommandPreparedStatementQuery", &command);
}

/* A FlightData from a descriptor (may be NULL) and an encapsulated IPC message (may be NULL). */
static inline trn_strbuf flight_data_message(const trn_strbuf *descriptor, const void *ipc, size_t size) {
  Arrow__Flight__Protocol__FlightData data = ARROW__FLIGHT__PROTOCOL__FLIGHT_DATA__INIT;
  Arrow__Flight__Protocol__FlightDescriptor *unpacked = NULL;
  trn_strbuf out = {0};
  uint32_t header = 0;
  if (descriptor)
    data.flight_descriptor = unpacked =
        arrow__flight__protocol__flight_descriptor__unpack(NULL, descriptor->size, (const uint8_t *)descriptor->data);
  if (size) {
    memcpy(&header, (const char *)ipc + 4, 4);
    data.data_header = (ProtobufCBinaryData){header, (uint8_t *)ipc + 8};
    data.data_body = (ProtobufCBinaryData){size - 8 - header, (uint8_t *)ipc + 8 + header};
  }
  flight__message_put(&out, &data.base);
  if (unpacked) arrow__flight__protocol__flight_descriptor__free_unpacked(unpacked, NULL);
  return out;
}

static inline void flight_sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

#endif
