/* The Flight service and Flight SQL without a network: sessions, tickets, prepared statements, hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/flight_client.h"

static const trn_flightsql_options spark = {.struct_size = sizeof spark, .dialect = "spark"};

static int set_up(void **state) {
  flight_client *client = calloc(1, sizeof *client);
  *state = client;
  return flight_start(client, &spark);
}

static int tear_down(void **state) {
  flight_client *client = *state;
  flight_stop(client);
  free(client);
  return 0;
}

/* ---- queries ---- */

static void a_query_gives_its_rows(void **state) {
  flight_client *client = *state;
  flight_result result = flight_run(client, "SELECT 1 AS x, 'a' AS y");
  assert_int_equal(result.status, TRN_OK);
  assert_int_equal(result.columns, 2);
  assert_int_equal(result.rows, 1);
  result = flight_run(client, "SELECT * FROM range(1000)");
  assert_int_equal(result.status, TRN_OK);
  assert_int_equal(result.rows, 1000);
}

static void an_info_has_a_schema_one_endpoint_and_no_location(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_strbuf command = flight_query("SELECT 1 AS x");
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
  assert_int_equal(status, TRN_OK);
  assert_int_equal(info->n_endpoint, 1);
  assert_int_equal(info->endpoint[0]->n_location, 0);
  assert_int_equal(info->total_records, -1);
  assert_int_equal(info->flight_descriptor->cmd.len, command.size);
  assert_memory_equal(info->flight_descriptor->cmd.data, command.data, command.size);
  uint32_t mark;
  memcpy(&mark, info->schema.data, 4);
  assert_int_equal(mark, 0xffffffffu); /* encapsulated */
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
}

static void a_ticket_can_be_fetched_twice_and_is_of_no_use_to_others(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_strbuf command = flight_query("SELECT 1 AS x");
  client->identity = "alice";
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
  assert_int_equal(status, TRN_OK);
  const ProtobufCBinaryData *ticket = &info->endpoint[0]->ticket->ticket;
  client->identity = "bob";
  assert_int_equal(flight_get(client, ticket->data, ticket->len).status, TRN_NOT_FOUND);
  client->identity = NULL; /* nobody, even if called alice */
  assert_int_equal(flight_get(client, ticket->data, ticket->len).status, TRN_NOT_FOUND);
  client->authorization = "Basic YWxpY2U6eA"; /* alice:x, unpadded */
  assert_int_equal(flight_get(client, ticket->data, ticket->len).status, TRN_NOT_FOUND);
  client->authorization = NULL;
  client->identity = "alice";
  assert_int_equal(flight_get(client, ticket->data, ticket->len).rows, 1);
  assert_int_equal(flight_get(client, ticket->data, ticket->len).rows, 1);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
}

static void forged_tickets_are_refused(void **state) {
  flight_client *client = *state;
  Arrow__Flight__Protocol__Sql__TicketStatementQuery forged = ARROW__FLIGHT__PROTOCOL__SQL__TICKET_STATEMENT_QUERY__INIT;
  forged.statement_handle = (ProtobufCBinaryData){36, (uint8_t *)"00000000-0000-4000-8000-000000000000"};
  trn_strbuf ticket = flight_command("TicketStatementQuery", &forged);
  assert_int_equal(flight_get(client, ticket.data, ticket.size).status, TRN_NOT_FOUND);
  for (size_t size = 0; size < ticket.size; size++)
    assert_true(flight_get(client, ticket.data, size).status != TRN_OK);
  for (size_t i = 0; i < ticket.size; i++) { /* every byte changed */
    ticket.data[i] ^= 0x55;
    assert_true(flight_get(client, ticket.data, ticket.size).status != TRN_OK);
    ticket.data[i] ^= 0x55;
  }
  trn__strbuf_finish(&ticket);
  assert_int_equal(flight_run(client, "SELECT 1").status, TRN_OK);
}

static void wrong_statements_are_invalid_arguments(void **state) {
  flight_client *client = *state;
  static const char *const texts[] = {"SELEC 1", "", ";", "SELECT '", "/* ", "SELECT 1 /*", "CREATE", "DROP TABLE", "INSERT INTO",
                                      "CREATE TABLE t", "CREATE TABLE t (a", "CREATE TABLE t (a INT", "UPDATE t SET", "DELETE t",
                                      "CREATE TABLE t (a INT, PRIMARY KEY", "COPY (SELECT 1", "SELECT ?", "SELECT $0"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    flight_result result = flight_run(client, texts[i]);
    if (result.status != TRN_INVALID_ARGUMENT) print_message("%s: %d %s\n", texts[i], result.status, client->text);
    assert_int_equal(result.status, TRN_INVALID_ARGUMENT);
    assert_true(strlen(client->text) > 5);
  }
}

static void failures_in_the_middle_reach_the_client(void **state) {
  flight_client *client = *state;
  trn_script script = {.fail_status = TRN_OUT_OF_RANGE, .fail_at = 1, .message = "it broke", .is_endless = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  flight_result result = flight_run(client, "SELECT * FROM range(10)");
  assert_int_equal(result.status, TRN_OUT_OF_RANGE);
  assert_non_null(strstr(client->text, "it broke"));
}

/* ---- clients that vanish ---- */

static void ignore_message(void *user, trn_slice message) {
  atomic_fetch_add((atomic_int *)user, 1);
  if (message.release) message.release(message.owner);
}

static void ignore_finish(void *user, const trn_inproc_result *result) {
  (void)result;
  atomic_fetch_add((atomic_int *)user, 1000000);
}

static void a_client_that_vanishes_ends_the_query(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_script script = {.is_endless = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  for (int reads = 0; reads < 3; reads++) {
    trn_strbuf command = flight_query("SELECT * FROM range(10000)"), bytes = {0};
    Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
    assert_non_null(info);
    Arrow__Flight__Protocol__Ticket message = ARROW__FLIGHT__PROTOCOL__TICKET__INIT;
    message.ticket = info->endpoint[0]->ticket->ticket;
    flight__message_put(&bytes, &message.base);
    atomic_int seen = 0;
    const trn_inproc_request request = {.path = FLIGHT_TEST_PATH "DoGet",
                                        .reads_when_asked = reads != 2,
                                        .on_message = ignore_message,
                                        .on_finish = ignore_finish,
                                        .user = &seen};
    trn_inproc_call *call = NULL;
    assert_int_equal(trn__inproc_call(client->inproc, &request, &call), TRN_OK);
    trn__inproc_call_send(call, (trn_slice){.data = bytes.data, .size = bytes.size});
    trn__inproc_call_half_close(call);
    if (reads == 1) trn__inproc_call_read(call, 2);
    for (int i = 0; i < 5000 && trn__scripted_count(client->scripted).streams_opened <= (uint64_t)reads; i++) flight_sleep_ms(1);
    flight_sleep_ms(10);
    trn__inproc_call_cancel(call);
    while (atomic_load(&seen) < 1000000) flight_sleep_ms(1);
    trn__inproc_call_unref(call);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
    trn__strbuf_finish(&bytes);
    trn__strbuf_finish(&command);
  }
  for (int i = 0; i < 5000; i++) {
    trn_scripted_counts counts = trn__scripted_count(client->scripted);
    if (counts.streams_opened == 3 && counts.streams_closed == 3) return;
    flight_sleep_ms(1);
  }
  fail_msg("a stream is still open");
}

static void cancel_flight_info_stops_what_runs(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(10)"), bytes = {0}, answer = {0};
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
  assert_non_null(info);
  Arrow__Flight__Protocol__Ticket message = ARROW__FLIGHT__PROTOCOL__TICKET__INIT;
  message.ticket = info->endpoint[0]->ticket->ticket;
  flight__message_put(&bytes, &message.base);
  atomic_int seen = 0;
  const trn_inproc_request request = {
      .path = FLIGHT_TEST_PATH "DoGet", .on_message = ignore_message, .on_finish = ignore_finish, .user = &seen};
  trn_inproc_call *call = NULL;
  assert_int_equal(trn__inproc_call(client->inproc, &request, &call), TRN_OK);
  trn__inproc_call_send(call, (trn_slice){.data = bytes.data, .size = bytes.size});
  trn__inproc_call_half_close(call);
  while (!trn__scripted_count(client->scripted).pulls) flight_sleep_ms(1);
  Arrow__Flight__Protocol__CancelFlightInfoRequest cancel = ARROW__FLIGHT__PROTOCOL__CANCEL_FLIGHT_INFO_REQUEST__INIT;
  cancel.info = info;
  trn_strbuf body = {0};
  flight__message_put(&body, &cancel.base);
  assert_int_equal(flight_act(client, "CancelFlightInfo", &body, &answer), TRN_OK);
  assert_int_equal(answer.data[1], 1); /* CANCELLED */
  while (atomic_load(&seen) < 1000000) flight_sleep_ms(1);
  assert_int_equal(flight_act(client, "CancelFlightInfo", &body, NULL), TRN_NOT_FOUND); /* it is over */
  trn__inproc_call_unref(call);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&answer);
  trn__strbuf_finish(&bytes);
  trn__strbuf_finish(&command);
}

static void results_that_nobody_fetches_expire(void **state) {
  (void)state;
  flight_client client;
  trn_flightsql_options options = spark;
  options.result_ms = 50;
  assert_int_equal(flight_start(&client, &options), 0);
  trn_status status;
  trn_strbuf command = flight_query("SELECT 1 AS x");
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(&client, &command, &status);
  assert_non_null(info);
  const ProtobufCBinaryData *ticket = &info->endpoint[0]->ticket->ticket;
  for (int i = 0; i < 400 && status == TRN_OK; i++) {
    flight_sleep_ms(20);
    if (i >= 100) status = flight_get(&client, ticket->data, ticket->len).status; /* the clock comes every second */
  }
  assert_int_equal(status, TRN_NOT_FOUND);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
  flight_stop(&client);
}

static void unfetched_results_of_a_session_are_limited(void **state) {
  flight_client *client = *state;
  trn_strbuf command = flight_query("SELECT 1 AS x");
  trn_status status = TRN_OK;
  for (unsigned i = 0; i <= TRN_FLIGHT_STATEMENTS_MAX && !status; i++) {
    Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
    if (info) arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
    assert_int_equal(status, i < TRN_FLIGHT_STATEMENTS_MAX ? TRN_OK : TRN_RESOURCE_EXHAUSTED);
  }
  trn__strbuf_finish(&command);
  assert_int_equal(flight_act(client, "CloseSession", NULL, NULL), TRN_OK); /* and all is gone with it */
  assert_int_equal(flight_run(client, "SELECT 1").status, TRN_OK);
}

/* ---- prepared statements ---- */

/* A batch of one int64 column. */
static void named_batch(const char *const *names, size_t count, int64_t first, int64_t rows, trn_strbuf *schema_bytes,
                        trn_strbuf *batch_bytes) {
  struct ArrowSchema schema;
  struct ArrowArray array;
  trn_array_builder *builder;
  assert_int_equal(trn__schema_init(&schema, "+s", "", 0, NULL, 0, count), TRN_OK);
  for (size_t k = 0; k < count; k++)
    assert_int_equal(trn__schema_init(schema.children[k], "l", names[k], ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  for (int64_t i = 0; i < rows; i++) {
    for (size_t k = 0; k < count; k++) trn__array_append_int(trn__array_builder_child(builder, k), first + i);
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
  assert_int_equal(trn__ipc_write_schema(&schema, schema_bytes), TRN_OK);
  assert_int_equal(trn__ipc_write_batch(&schema, &array, batch_bytes), TRN_OK);
  trn__array_builder_destroy(builder);
  array.release(&array);
  schema.release(&schema);
}

static void int_batch(int64_t first, int64_t rows, trn_strbuf *schema_bytes, trn_strbuf *batch_bytes) {
  static const char *const names[] = {"p"};
  named_batch(names, 1, first, rows, schema_bytes, batch_bytes);
}

/* Sends a schema and a batch, cut to `batch_size` bytes of body. */
static trn_status bind(flight_client *client, const char *handle, const trn_strbuf *schema, const trn_strbuf *batch,
                       size_t batch_size) {
  trn_strbuf command = flight_prepared_query(handle), descriptor = flight_descriptor(&command);
  trn_strbuf first = flight_data_message(&descriptor, schema->data, schema->size);
  trn_strbuf second = flight_data_message(NULL, batch->data, batch_size);
  const trn_slice messages[] = {{.data = first.data, .size = first.size}, {.data = second.data, .size = second.size}};
  trn_inproc_reply reply;
  trn_status status = flight_call(client, "DoPut", messages, 2, &reply);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&command);
  trn__strbuf_finish(&descriptor);
  trn__strbuf_finish(&first);
  trn__strbuf_finish(&second);
  return status;
}

static flight_result run_prepared(flight_client *client, const char *handle) {
  trn_strbuf command = flight_prepared_query(handle);
  flight_result result = {0};
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &result.status);
  if (info) {
    result = flight_get(client, info->endpoint[0]->ticket->ticket.data, info->endpoint[0]->ticket->ticket.len);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&command);
  return result;
}

static void a_prepared_query_runs_with_what_is_bound(void **state) {
  flight_client *client = *state;
  char handle[64];
  bool is_update = true;
  trn_strbuf schema = {0}, batch = {0};
  int_batch(41, 1, &schema, &batch);
  assert_int_equal(flight_prepare(client, "SELECT CAST(? AS BIGINT) AS x", handle, &is_update), TRN_OK);
  assert_false(is_update);
  assert_int_equal(run_prepared(client, handle).status, TRN_INVALID_ARGUMENT); /* nothing is bound */
  assert_int_equal(bind(client, handle, &schema, &batch, batch.size), TRN_OK);
  assert_int_equal(run_prepared(client, handle).rows, 1);
  assert_int_equal(run_prepared(client, handle).rows, 1);
  client->identity = "eve";
  assert_int_equal(run_prepared(client, handle).status, TRN_NOT_FOUND);
  client->identity = NULL;
  Arrow__Flight__Protocol__Sql__ActionClosePreparedStatementRequest close =
      ARROW__FLIGHT__PROTOCOL__SQL__ACTION_CLOSE_PREPARED_STATEMENT_REQUEST__INIT;
  close.prepared_statement_handle = (ProtobufCBinaryData){strlen(handle), (uint8_t *)handle};
  trn_strbuf body = flight_command("ActionClosePreparedStatementRequest", &close);
  assert_int_equal(flight_act(client, "ClosePreparedStatement", &body, NULL), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_NOT_FOUND);
  assert_int_equal(flight_act(client, "ClosePreparedStatement", &body, NULL), TRN_NOT_FOUND);
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
}

static void a_million_prepared_statements_are_refused_by_name(void **state) {
  flight_client *client = *state;
  char handle[64];
  trn_status status = TRN_OK;
  unsigned made = 0;
  for (; !status && made < 1000000; made += !status) status = flight_prepare(client, "SELECT 1 AS x", handle, NULL);
  assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(made, TRN_FLIGHT_PREPARED_MAX);
  assert_non_null(strstr(client->text, "10000 statements"));
  assert_int_equal(run_prepared(client, handle).rows, 1); /* the last one works */
  assert_int_equal(flight_act(client, "CloseSession", NULL, NULL), TRN_OK);
  assert_int_equal(flight_prepare(client, "SELECT 1 AS x", handle, NULL), TRN_OK);
}

static trn_status begin_transaction(flight_client *client, char id[64]) {
  trn_strbuf request = flight_command("ActionBeginTransactionRequest", NULL), answer = {0};
  trn_str url, value;
  trn_status status = flight_act(client, "BeginTransaction", &request, &answer);
  if (!status) {
    assert_true(flight__any(answer.data, answer.size, &url, &value));
    assert_int_equal(value.size, 38);
    memcpy(id, value.data + 2, 36);
    id[36] = 0;
  }
  trn__strbuf_finish(&request);
  trn__strbuf_finish(&answer);
  return status;
}

static trn_status end_transaction(flight_client *client, const char *id, int action) {
  Arrow__Flight__Protocol__Sql__ActionEndTransactionRequest request;
  arrow__flight__protocol__sql__action_end_transaction_request__init(&request);
  request.transaction_id = (ProtobufCBinaryData){strlen(id), (uint8_t *)id};
  request.action = action;
  trn_strbuf body = flight_command("ActionEndTransactionRequest", &request);
  trn_status status = flight_act(client, "EndTransaction", &body, NULL);
  trn__strbuf_finish(&body);
  return status;
}

static void transactions_are_limited_and_their_owners(void **state) {
  flight_client *client = *state;
  char ids[TRN_FLIGHT_TRANSACTIONS_MAX + 1][64];
  client->identity = "alice";
  for (unsigned i = 0; i < TRN_FLIGHT_TRANSACTIONS_MAX; i++) assert_int_equal(begin_transaction(client, ids[i]), TRN_OK);
  assert_int_equal(begin_transaction(client, ids[TRN_FLIGHT_TRANSACTIONS_MAX]), TRN_RESOURCE_EXHAUSTED);
  client->identity = "bob";
  assert_int_equal(end_transaction(client, ids[0], 1), TRN_NOT_FOUND);
  assert_int_equal(end_transaction(client, ids[0], 2), TRN_OK); /* he learns nothing, and hers stays */
  client->identity = "alice";
  assert_int_equal(end_transaction(client, ids[0], 3), TRN_INVALID_ARGUMENT);
  assert_int_equal(end_transaction(client, ids[0], 1), TRN_OK);
  assert_int_equal(end_transaction(client, ids[0], 1), TRN_NOT_FOUND);
  assert_int_equal(end_transaction(client, "", 1), TRN_INVALID_ARGUMENT);
  assert_int_equal(end_transaction(client, "00000000-0000-4000-8000-000000000000", 1), TRN_NOT_FOUND);
  assert_int_equal(end_transaction(client, "00000000-0000-4000-8000-000000000000", 2), TRN_OK); /* it is not there any more */
  assert_int_equal(begin_transaction(client, ids[0]), TRN_OK);
  assert_int_equal(flight_act(client, "CloseSession", NULL, NULL), TRN_OK); /* all of them end with it */
  assert_int_equal(end_transaction(client, ids[1], 1), TRN_NOT_FOUND);
}

static void transactions_that_nobody_uses_are_rolled_back(void **state) {
  (void)state;
  flight_client client;
  trn_flightsql_options options = spark;
  options.transaction_ms = 50;
  assert_int_equal(flight_start(&client, &options), 0);
  char id[64];
  trn_status status = begin_transaction(&client, id);
  assert_int_equal(status, TRN_OK);
  for (int i = 0; i < 400 && status != TRN_NOT_FOUND; i++) {
    flight_sleep_ms(150); /* the clock comes every second; asking does not count as use unless it is known */
    Arrow__Flight__Protocol__Sql__ActionBeginSavepointRequest request;
    arrow__flight__protocol__sql__action_begin_savepoint_request__init(&request);
    request.transaction_id = (ProtobufCBinaryData){strlen(id), (uint8_t *)id};
    request.name = (char *)"s";
    trn_strbuf body = flight_command("ActionBeginSavepointRequest", &request);
    status = flight_act(&client, "BeginSavepoint", &body, NULL);
    trn__strbuf_finish(&body);
  }
  assert_int_equal(status, TRN_NOT_FOUND);
  flight_stop(&client);
}

static flight_result query_in(flight_client *client, const char *id) {
  Arrow__Flight__Protocol__Sql__CommandStatementQuery query;
  arrow__flight__protocol__sql__command_statement_query__init(&query);
  query.query = (char *)"SELECT 1 AS x";
  query._transaction_id_case =
      ARROW__FLIGHT__PROTOCOL__SQL__COMMAND_STATEMENT_QUERY___TRANSACTION_ID_TRANSACTION_ID;
  query.transaction_id = (ProtobufCBinaryData){strlen(id), (uint8_t *)id};
  trn_strbuf command = flight_command("CommandStatementQuery", &query);
  flight_result result = {0};
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &result.status);
  if (info) {
    result = flight_get(client, info->endpoint[0]->ticket->ticket.data, info->endpoint[0]->ticket->ticket.len);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&command);
  return result;
}

static void a_transaction_that_only_reads_outlives_its_idle_time(void **state) {
  (void)state;
  flight_client client;
  trn_flightsql_options options = spark;
  options.transaction_ms = 20;
  assert_int_equal(flight_start(&client, &options), 0);
  char id[64];
  assert_int_equal(begin_transaction(&client, id), TRN_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(query_in(&client, id).rows, 1);
    flight_sleep_ms(1300); /* the clock comes every second */
  }
  assert_int_equal(query_in(&client, id).rows, 1);
  assert_int_equal(end_transaction(&client, id, 1), TRN_OK);
  assert_int_equal(query_in(&client, id).status, TRN_NOT_FOUND);
  flight_stop(&client);
}

static void parameters_that_do_not_fit_are_refused(void **state) {
  flight_client *client = *state;
  char handle[64];
  trn_strbuf schema = {0}, batch = {0};
  int_batch(1, 1, &schema, &batch);
  assert_int_equal(flight_prepare(client, "SELECT ? AS a, ? AS b", handle, NULL), TRN_OK);
  assert_int_equal(bind(client, handle, &schema, &batch, batch.size), TRN_INVALID_ARGUMENT);
  assert_int_equal(bind(client, handle, &batch, &schema, schema.size), TRN_INVALID_ARGUMENT);  /* the wrong way round */
  assert_int_equal(bind(client, handle, &schema, &schema, schema.size), TRN_INVALID_ARGUMENT); /* a schema twice */
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
}

static trn_status bind_named(flight_client *client, const char *handle, const char *const *names, size_t count, int64_t rows) {
  trn_strbuf schema = {0}, batch = {0};
  named_batch(names, count, 1, rows, &schema, &batch);
  trn_status status = bind(client, handle, &schema, &batch, batch.size);
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
  return status;
}

static void too_many_parameters_and_too_few_rows_are_refused(void **state) {
  flight_client *client = *state;
  static const char *const names[] = {"a", "b", "c"};
  char handle[64], none[64];
  assert_int_equal(flight_prepare(client, "SELECT CAST(? AS BIGINT) AS a, CAST(? AS BIGINT) AS b", handle, NULL), TRN_OK);
  assert_int_equal(bind_named(client, handle, names, 3, 1), TRN_INVALID_ARGUMENT);
  assert_int_equal(bind_named(client, handle, names, 2, 0), TRN_OK); /* no rows is no error until they are wanted */
  assert_int_equal(run_prepared(client, handle).status, TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(client->text, "2 parameters"));
  assert_int_equal(bind_named(client, handle, names, 2, 1), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_OK);
  assert_int_equal(bind_named(client, handle, names, 2, 1001), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_RESOURCE_EXHAUSTED); /* of a query */
  assert_int_equal(flight_prepare(client, "SELECT 1 AS x", none, NULL), TRN_OK);
  assert_int_equal(bind_named(client, none, names, 1, 1), TRN_INVALID_ARGUMENT);
  assert_int_equal(run_prepared(client, none).status, TRN_OK);
}

static void parameters_with_names_are_bound_by_them(void **state) {
  flight_client *client = *state;
  static const char *const right[] = {"b", "$a"}, *const wrong[] = {"b", "other"}, *const places[] = {"0", "1"};
  char handle[64];
  assert_int_equal(flight_prepare(client, "SELECT CAST(:a AS BIGINT) AS x, CAST(:b AS BIGINT) AS y, CAST(:a AS BIGINT) AS z", handle, NULL), TRN_OK);
  assert_int_equal(bind_named(client, handle, right, 2, 1), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_OK);
  assert_int_equal(bind_named(client, handle, wrong, 2, 1), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(client->text, "'a'"));
  assert_int_equal(bind_named(client, handle, places, 2, 1), TRN_OK); /* a driver that knows places only */
  assert_int_equal(run_prepared(client, handle).status, TRN_OK);
  assert_int_equal(bind_named(client, handle, right, 1, 1), TRN_INVALID_ARGUMENT);
  assert_int_equal(flight_prepare(client, "SELECT :a, ?", handle, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(flight_prepare(client, "SELECT ?, :a", handle, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(flight_prepare(client, "SELECT ':a ?' AS x, 1 AS y", handle, NULL), TRN_OK);
  assert_int_equal(run_prepared(client, handle).status, TRN_OK); /* neither is a parameter */
}

static void handles_of_others_and_forged_ones_are_not_found(void **state) {
  flight_client *client = *state;
  char handle[64], forged[64];
  client->identity = "alice";
  assert_int_equal(flight_prepare(client, "SELECT 1 AS x", handle, NULL), TRN_OK);
  for (size_t i = 0; i < strlen(handle); i++) { /* every byte changed */
    memcpy(forged, handle, sizeof forged);
    forged[i] = forged[i] == 'a' ? 'b' : 'a';
    assert_int_equal(run_prepared(client, forged).status, TRN_NOT_FOUND);
  }
  Arrow__Flight__Protocol__Sql__ActionClosePreparedStatementRequest close =
      ARROW__FLIGHT__PROTOCOL__SQL__ACTION_CLOSE_PREPARED_STATEMENT_REQUEST__INIT;
  close.prepared_statement_handle = (ProtobufCBinaryData){strlen(handle), (uint8_t *)handle};
  trn_strbuf body = flight_command("ActionClosePreparedStatementRequest", &close), schema = {0}, batch = {0};
  int_batch(1, 1, &schema, &batch);
  client->identity = "bob";
  assert_int_equal(run_prepared(client, handle).status, TRN_NOT_FOUND);
  assert_int_equal(bind(client, handle, &schema, &batch, batch.size), TRN_NOT_FOUND);
  assert_int_equal(flight_act(client, "ClosePreparedStatement", &body, NULL), TRN_NOT_FOUND);
  client->identity = "alice";
  assert_int_equal(run_prepared(client, handle).rows, 1); /* hers is as it was */
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
}

static void truncated_arrow_data_is_refused_at_every_byte(void **state) {
  flight_client *client = *state;
  char handle[64];
  trn_strbuf schema = {0}, batch = {0};
  int_batch(7, 3, &schema, &batch);
  assert_int_equal(flight_prepare(client, "SELECT CAST(? AS BIGINT) AS x", handle, NULL), TRN_OK);
  for (size_t size = 9; size < batch.size; size++) {
    trn_strbuf cut = {0};
    uint32_t header;
    trn__strbuf_add(&cut, batch.data, size);
    memcpy(&header, batch.data + 4, 4);
    if (header > size - 8) header = (uint32_t)size - 8; /* the header itself is cut */
    memcpy(cut.data + 4, &header, 4);
    if (bind(client, handle, &schema, &cut, cut.size) != TRN_INVALID_ARGUMENT) fail_msg("cut at %zu of %zu", size, batch.size);
    trn__strbuf_finish(&cut);
  }
  assert_int_equal(bind(client, handle, &schema, &batch, batch.size), TRN_OK);
  trn__strbuf_finish(&schema);
  trn__strbuf_finish(&batch);
}

/* ---- reading Arrow from outside ---- */

static void arrow_messages_survive_every_changed_byte(void **state) {
  (void)state;
  static const char *const formats[] = {"n", "b", "c", "S", "i", "L", "f", "g", "u", "z", "d:12,3", "tdD", "ttn", "tsu:UTC", "tiM"};
  enum { COUNT = sizeof formats / sizeof *formats, ROWS = 5 };
  struct ArrowSchema schema, read;
  struct ArrowArray array, back;
  trn_array_builder *builder;
  trn_strbuf bytes = {0}, batch = {0};
  assert_int_equal(trn__schema_init(&schema, "+s", "", 0, NULL, 0, COUNT), TRN_OK);
  for (size_t i = 0; i < COUNT; i++)
    assert_int_equal(trn__schema_init(schema.children[i], formats[i], "c", ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  for (int row = 0; row < ROWS; row++) {
    for (size_t i = 0; i < COUNT; i++) {
      trn_array_builder *column = trn__array_builder_child(builder, i);
      char raw[16] = {(char)(row + 1)};
      if (row == 2 || formats[i][0] == 'n') trn__array_append_null(column);
      else if (formats[i][0] == 'b') trn__array_append_bool(column, row & 1);
      else if (formats[i][0] == 'u' || formats[i][0] == 'z') trn__array_append_bytes(column, "abcdef", (size_t)row + 1);
      else if (formats[i][0] == 'f' || formats[i][0] == 'g') trn__array_append_double(column, row + 0.5);
      else if (formats[i][0] == 'd') trn__array_append_fixed(column, raw, 16);
      else trn__array_append_int(column, row + 1);
    }
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
  assert_int_equal(trn__ipc_write_schema(&schema, &bytes), TRN_OK);
  assert_int_equal(trn__ipc_write_batch(&schema, &array, &batch), TRN_OK);
  uint32_t schema_size, header;
  size_t fields;
  memcpy(&schema_size, bytes.data + 4, 4);
  memcpy(&header, batch.data + 4, 4);
  assert_int_equal(trn__ipc_read_schema(bytes.data + 8, schema_size, &read, &fields, NULL), TRN_OK);
  assert_int_equal(fields, COUNT);
  for (size_t i = 0; i < COUNT; i++) assert_string_equal(read.children[i]->format, formats[i]);
  const char *body = batch.data + 8 + header;
  size_t body_size = batch.size - 8 - header;
  assert_int_equal(trn__ipc_read_batch(&read, batch.data + 8, header, body, body_size, &back, NULL), TRN_OK);
  assert_int_equal(back.length, ROWS);
  assert_true(trn__array_is_null(back.children[4], 2));
  assert_int_equal(trn__array_int(back.children[4], "i", 3), 4);
  trn_str text = trn__array_bytes(back.children[8], "u", 4);
  assert_int_equal(text.size, 5);
  assert_memory_equal(text.data, "abcde", 5);
  back.release(&back);
  /* Whatever a byte becomes: refused, or read without leaving the buffers (the sanitizers look). */
  for (size_t i = 0; i < header + body_size; i++) {
    for (unsigned change = 1; change < 256; change <<= 1) {
      batch.data[8 + i] = (char)(batch.data[8 + i] ^ (int)change);
      if (trn__ipc_read_batch(&read, batch.data + 8, header, body, body_size, &back, NULL) == TRN_OK) back.release(&back);
      batch.data[8 + i] = (char)(batch.data[8 + i] ^ (int)change);
    }
  }
  for (size_t i = 0; i < schema_size; i++) {
    for (unsigned change = 1; change < 256; change <<= 1) {
      struct ArrowSchema other;
      bytes.data[8 + i] = (char)(bytes.data[8 + i] ^ (int)change);
      if (trn__ipc_read_schema(bytes.data + 8, schema_size, &other, &fields, NULL) == TRN_OK) other.release(&other);
      bytes.data[8 + i] = (char)(bytes.data[8 + i] ^ (int)change);
    }
    struct ArrowSchema cut;
    if (trn__ipc_read_schema(bytes.data + 8, i, &cut, &fields, NULL) == TRN_OK) cut.release(&cut);
  }
  read.release(&read);
  array.release(&array);
  trn__array_builder_destroy(builder);
  schema.release(&schema);
  trn__strbuf_finish(&bytes);
  trn__strbuf_finish(&batch);
}

/* ---- wire ---- */

static void messages_are_checked_before_they_are_decoded(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  Arrow__Flight__Protocol__FlightInfo *info;
  static const struct {
    const char *bytes;
    size_t size;
  } wrong[] = {{"\x0b", 1}, {"\x0a\x05x", 3}, {"\x00", 1}, {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11}, {"\x1a\x02\x0a\x09", 4}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(flight__decode(arena, &arrow__flight__protocol__flight_info__descriptor, wrong[i].bytes, wrong[i].size, &info, NULL),
                     TRN_INVALID_ARGUMENT);
  Arrow__Flight__Protocol__Action *action;
  assert_int_equal(flight__decode(arena, &arrow__flight__protocol__action__descriptor, "\x0a\x02\xff\xfe", 4, &action, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(flight__decode(arena, &arrow__flight__protocol__action__descriptor, "\x0a\x02" "a\0", 4, &action, NULL), TRN_INVALID_ARGUMENT);
  size_t size;
  assert_string_equal(flight__base64_decode(arena, "dXNlcjpwYXNz", 12, &size), "user:pass");
  assert_string_equal(flight__base64_decode(arena, "YTpi", 4, &size), "a:b");
  assert_string_equal(flight__base64_decode(arena, "YTo=", 4, &size), "a:");
  assert_string_equal(flight__base64_decode(arena, "YTo", 3, &size), "a:");
  assert_null(flight__base64_decode(arena, "Y!o=", 4, &size));
  assert_null(flight__base64_decode(arena, "Y", 1, &size));
  trn__arena_unref(arena);
}

static void commands_survive_every_changed_byte(void **state) {
  flight_client *client = *state;
  static const char *const names[] = {"CommandGetTables", "CommandGetSqlInfo", "CommandPreparedStatementQuery", "CommandStatementIngest",
                                      "CommandStatementSubstraitPlan"};
  uint32_t seed = 1;
  for (size_t n = 0; n <= sizeof names / sizeof *names; n++) {
    trn_strbuf command = n ? flight_command(names[n - 1], NULL) : flight_query("SELECT 1 AS x");
    if (n) trn__strbuf_add(&command, "\x12\x06\x0a\x04" "abcd", 8); /* an Any's value: field 1, four bytes */
    for (size_t i = 0; i < command.size; i++) {
      for (int change = 0; change < 3; change++) {
        char old = command.data[i];
        seed = seed * 1664525 + 1013904223;
        command.data[i] = (char)(change ? (int)(seed >> 24) : old ^ 0x80);
        trn_status status;
        Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
        if (info) arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
        assert_true(status != TRN_UNKNOWN && status != TRN_INTERNAL);
        trn_strbuf descriptor = flight_descriptor(&command), data = flight_data_message(&descriptor, NULL, 0);
        const trn_slice message = {.data = data.data, .size = data.size};
        trn_inproc_reply reply;
        status = flight_call(client, "DoPut", &message, 1, &reply);
        assert_true(status != TRN_UNKNOWN && status != TRN_INTERNAL);
        trn__inproc_reply_finish(&reply);
        trn__strbuf_finish(&descriptor);
        trn__strbuf_finish(&data);
        command.data[i] = old;
      }
    }
    trn__strbuf_finish(&command);
  }
  assert_int_equal(flight_act(client, "CloseSession", NULL, NULL), TRN_OK);
  assert_int_equal(flight_run(client, "SELECT 1").status, TRN_OK);
}

/* ---- authentication ---- */

static trn_status check(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error) {
  (void)self;
  if (credentials->authorization && (strcmp(credentials->authorization, "Basic am9lOnNlY3JldA==") == 0 ||
                                     strcmp(credentials->authorization, "Bearer api-token") == 0)) {
    out->user = "joe";
    return TRN_OK;
  }
  return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "wrong user or password");
}

static const trn_metadata *find(const trn_metadata *metadata, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(metadata[i].key, key) == 0) return &metadata[i];
  return NULL;
}

static void a_handshake_gives_a_bearer_token(void **state) {
  (void)state;
  static const trn_authenticator_ops ops = {.struct_size = sizeof ops, .authenticate = check};
  trn_authenticator *authenticator;
  flight_client client;
  trn_inproc_reply reply;
  assert_int_equal(trn_authenticator_create(&ops, NULL, &authenticator), TRN_OK);
  trn_flightsql_options options = spark;
  options.authenticator = authenticator;
  assert_int_equal(flight_start(&client, &options), 0);
  trn_authenticator_unref(authenticator);
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_UNAUTHENTICATED);
  client.authorization = "Basic am9lOndyb25n";
  assert_int_equal(flight_call(&client, "Handshake", NULL, 0, &reply), TRN_UNAUTHENTICATED);
  assert_non_null(strstr(client.text, "wrong user or password"));
  trn__inproc_reply_finish(&reply);
  client.authorization = "Basic am9lOnNlY3JldA=="; /* joe:secret */
  assert_int_equal(flight_call(&client, "Handshake", NULL, 0, &reply), TRN_OK);
  const trn_metadata *header = find(reply.initial, reply.initial_count, "authorization");
  assert_non_null(header);
  char bearer[128];
  snprintf(bearer, sizeof bearer, "%.*s", (int)header->size, (const char *)header->value);
  trn__inproc_reply_finish(&reply);
  assert_memory_equal(bearer, "Bearer ", 7);
  client.authorization = bearer;
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_OK);
  client.identity = "mallory"; /* what the host says wins: joe's token is of no use to others */
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_UNAUTHENTICATED);
  client.identity = NULL;
  bearer[20] ^= 1;
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_UNAUTHENTICATED);
  bearer[20] ^= 1;
  client.authorization = "Bearer api-token";
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_OK);
  client.authorization = "Basic eDphcGktdG9rZW4="; /* x:api-token: the token as the password */
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_OK);
  client.authorization = bearer;
  char handle[64];
  assert_int_equal(flight_prepare(&client, "SELECT 1", handle, NULL), TRN_OK);
  assert_int_equal(flight_act(&client, "CloseSession", NULL, NULL), TRN_OK);
  assert_int_equal(run_prepared(&client, handle).status, TRN_NOT_FOUND); /* what the session had is gone, */
  assert_int_equal(flight_run(&client, "SELECT 1").status, TRN_OK);      /* the token begins another */
  flight_stop(&client);
}

/* ---- metadata ---- */

static void every_metadata_command_gives_the_schema_that_it_announced(void **state) {
  flight_client *client = *state;
  static const struct {
    const char *name;
    size_t columns;
  } commands[] = {{"CommandGetCatalogs", 1},      {"CommandGetDbSchemas", 2},    {"CommandGetTables", 4},
                  {"CommandGetTableTypes", 1},    {"CommandGetPrimaryKeys", 6},  {"CommandGetExportedKeys", 13},
                  {"CommandGetImportedKeys", 13}, {"CommandGetCrossReference", 13}, {"CommandGetXdbcTypeInfo", 19},
                  {"CommandGetSqlInfo", 2}};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    trn_strbuf command = flight_command(commands[i].name, NULL);
    trn_status status;
    Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(client, &command, &status);
    if (status) print_message("%s: %s\n", commands[i].name, client->text);
    assert_int_equal(status, TRN_OK);
    uint32_t header;
    size_t fields = 0;
    memcpy(&header, info->schema.data + 4, 4);
    assert_int_equal(trn__ipc_read_schema(info->schema.data + 8, header, NULL, &fields, NULL), TRN_OK);
    assert_int_equal(fields, commands[i].columns);
    flight_result result = flight_get(client, info->endpoint[0]->ticket->ticket.data, info->endpoint[0]->ticket->ticket.len);
    assert_int_equal(result.status, TRN_OK);
    assert_int_equal(result.columns, commands[i].columns);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
    trn__strbuf_finish(&command);
  }
}

static void unknown_things_are_refused_by_name(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_inproc_reply reply;
  trn_strbuf command = flight_command("CommandNoSuchThing", NULL);
  assert_null(flight_info_of(client, &command, &status));
  assert_int_equal(status, TRN_UNIMPLEMENTED);
  assert_non_null(strstr(client->text, "CommandNoSuchThing"));
  assert_int_equal(flight_act(client, "NoSuchAction", NULL, NULL), TRN_UNIMPLEMENTED);
  assert_non_null(strstr(client->text, "NoSuchAction"));
  assert_int_equal(flight_act(client, "BeginTransaction", NULL, NULL), TRN_INVALID_ARGUMENT); /* not its message */
  assert_int_equal(flight_call(client, "DoExchange", NULL, 0, &reply), TRN_UNIMPLEMENTED);
  trn__inproc_reply_finish(&reply);
  const trn_slice nothing = {.data = "", .size = 0};
  assert_int_equal(flight_call(client, "DoPut", &nothing, 1, &reply), TRN_INVALID_ARGUMENT);
  trn__inproc_reply_finish(&reply);
  assert_int_equal(flight_call(client, "DoPut", NULL, 0, &reply), TRN_INVALID_ARGUMENT);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&command);
}

static void two_frontends_cannot_be_mounted_twice(void **state) {
  flight_client *client = *state;
  trn_backend *backend = NULL;
  trn_frontend *frontend = NULL;
  trn_scripted *scripted = NULL;
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &scripted, &backend), TRN_OK);
  assert_int_equal(trn_flightsql_frontend_create(&spark, &frontend), TRN_OK);
  assert_int_equal(trn_frontend_register(frontend, client->routes, backend, NULL), TRN_ALREADY_EXISTS);
  trn_frontend_destroy(frontend);
  trn_backend_unref(backend);
  trn__scripted_unref(scripted);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_query_gives_its_rows),
      TEST(an_info_has_a_schema_one_endpoint_and_no_location),
      TEST(a_ticket_can_be_fetched_twice_and_is_of_no_use_to_others),
      TEST(forged_tickets_are_refused),
      TEST(wrong_statements_are_invalid_arguments),
      TEST(failures_in_the_middle_reach_the_client),
      TEST(a_client_that_vanishes_ends_the_query),
      TEST(cancel_flight_info_stops_what_runs),
      cmocka_unit_test(results_that_nobody_fetches_expire),
      TEST(unfetched_results_of_a_session_are_limited),
      TEST(a_prepared_query_runs_with_what_is_bound),
      TEST(a_million_prepared_statements_are_refused_by_name),
      TEST(transactions_are_limited_and_their_owners),
      cmocka_unit_test(transactions_that_nobody_uses_are_rolled_back),
      cmocka_unit_test(a_transaction_that_only_reads_outlives_its_idle_time),
      TEST(parameters_that_do_not_fit_are_refused),
      TEST(too_many_parameters_and_too_few_rows_are_refused),
      TEST(parameters_with_names_are_bound_by_them),
      TEST(handles_of_others_and_forged_ones_are_not_found),
      TEST(truncated_arrow_data_is_refused_at_every_byte),
      cmocka_unit_test(arrow_messages_survive_every_changed_byte),
      cmocka_unit_test(messages_are_checked_before_they_are_decoded),
      TEST(commands_survive_every_changed_byte),
      cmocka_unit_test(a_handshake_gives_a_bearer_token),
      TEST(every_metadata_command_gives_the_schema_that_it_announced),
      TEST(unknown_things_are_refused_by_name),
      TEST(two_frontends_cannot_be_mounted_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
