/* Every allocation of a Flight SQL exchange fails once. What is checked: each call ends, nothing crashes, and the service
 * works afterwards; nothing leaks (the sanitizer builds look). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/flight_client.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static atomic_llong countdown = -1; /* < 0: nothing fails; 0: the next one */
static atomic_llong failures;
/* The client's own allocations do not fail: it is not what is tested. */
static _Thread_local bool is_client;

static bool fails(void) {
  if (is_client || atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0) return false;
  atomic_fetch_add(&failures, 1);
  return true;
}
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return fails() ? NULL : __real_realloc(memory, size); }

static flight_client client;

static trn_status run_query(void) { return flight_run(&client, "SELECT id, 7 AS y FROM range(50)").status; }

static trn_status run_metadata(void) {
  static const char *const names[] = {"CommandGetSqlInfo", "CommandGetTables", "CommandGetXdbcTypeInfo"};
  trn_status first = TRN_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    trn_strbuf command = flight_command(names[i], NULL);
    trn_status status = flight_get(&client, command.data, command.size).status;
    if (!first) first = status;
    trn__strbuf_finish(&command);
  }
  return first;
}

static trn_status run_prepared(void) {
  char handle[64] = "";
  trn_status status = flight_prepare(&client, "SELECT CAST(1 AS BIGINT) AS x", handle, NULL);
  if (status) return status;
  trn_strbuf command = flight_prepared_query(handle);
  Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(&client, &command, &status);
  if (info) {
    status = flight_get(&client, info->endpoint[0]->ticket->ticket.data, info->endpoint[0]->ticket->ticket.len).status;
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&command);
  return status;
}

static trn_status run_handshake(void) {
  trn_inproc_reply reply;
  client.authorization = "Basic YTpi";
  trn_status status = flight_call(&client, "Handshake", NULL, 0, &reply);
  client.authorization = NULL;
  trn__inproc_reply_finish(&reply);
  return status;
}

/* Fetches what an info tells. */
static trn_status fetch(const Arrow__Flight__Protocol__FlightInfo *info) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < info->n_endpoint && !status; i++)
    status = flight_get(&client, info->endpoint[i]->ticket->ticket.data, info->endpoint[i]->ticket->ticket.len).status;
  return status;
}

static trn_status poll_once(const trn_strbuf *command, Arrow__Flight__Protocol__PollInfo **out) {
  trn_strbuf descriptor = flight_descriptor(command);
  const trn_slice message = {.data = descriptor.data, .size = descriptor.size};
  trn_inproc_reply reply;
  trn_status status = flight_call(&client, "PollFlightInfo", &message, 1, &reply);
  *out = NULL;
  if (!status) *out = arrow__flight__protocol__poll_info__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&descriptor);
  return status;
}

static trn_status run_poll(void) {
  Arrow__Flight__Protocol__PollInfo *info = NULL;
  trn_strbuf command = flight_query("SELECT id, 7 AS y FROM range(5000)");
  trn_status status = poll_once(&command, &info);
  while (!status && info->flight_descriptor) {
    trn_strbuf next = {0};
    trn__strbuf_add(&next, info->flight_descriptor->cmd.data, info->flight_descriptor->cmd.len);
    arrow__flight__protocol__poll_info__free_unpacked(info, NULL);
    status = poll_once(&next, &info);
    trn__strbuf_finish(&next);
  }
  if (!status) status = fetch(info->info);
  if (info) arrow__flight__protocol__poll_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
  return status;
}

/* A session with two endpoints for each result. */
static trn_status run_endpoints(void) {
  trn_strbuf body = {0}, command = flight_query("SELECT id FROM range(5000)");
  trn__strbuf_add(&body, "\x0a\x16\x0a\x09" "endpoints" "\x12\x09\x19\x02\0\0\0\0\0\0\0", 24);
  trn_status status = flight_act(&client, "SetSessionOptions", &body, NULL);
  Arrow__Flight__Protocol__FlightInfo *info = status ? NULL : flight_info_of(&client, &command, &status);
  if (info) {
    status = fetch(info);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&command);
  return status;
}

static trn_status run_transaction(void) {
  trn_strbuf begin = flight_command("ActionBeginTransactionRequest", NULL), answer = {0};
  trn_status status = flight_act(&client, "BeginTransaction", &begin, &answer);
  trn_str url, value;
  if (!status && flight__any(answer.data, answer.size, &url, &value)) {
    Arrow__Flight__Protocol__Sql__ActionEndTransactionRequest request;
    arrow__flight__protocol__sql__action_end_transaction_request__init(&request);
    request.transaction_id = (ProtobufCBinaryData){value.size - 2, (uint8_t *)value.data + 2};
    request.action = 1;
    trn_strbuf end = flight_command("ActionEndTransactionRequest", &request);
    status = flight_act(&client, "EndTransaction", &end, NULL);
    trn__strbuf_finish(&end);
  }
  trn__strbuf_finish(&begin);
  trn__strbuf_finish(&answer);
  return status;
}

static void each_allocation_fails(trn_status (*attempt)(void), long long stride) {
  for (long long k = 0;; k += stride) {
    assert_true(k < 100000);
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    trn_status status = attempt();
    atomic_store(&countdown, -1);
    if (atomic_load(&failures)) flight_act(&client, "CloseSession", NULL, NULL); /* what was told to nobody */
    if (!atomic_load(&failures)) {
      assert_int_equal(status, TRN_OK);
      assert_true(k > 0);
      return;
    }
    assert_int_equal(attempt(), TRN_OK); /* the service is unharmed */
  }
}

static void queries(void **state) { (void)state, each_allocation_fails(run_query, 1); }
static void metadata(void **state) { (void)state, each_allocation_fails(run_metadata, 3); }
static void prepared_statements(void **state) { (void)state, each_allocation_fails(run_prepared, 1); }
static void polls(void **state) { (void)state, each_allocation_fails(run_poll, 1); }
static void transactions(void **state) { (void)state, each_allocation_fails(run_transaction, 1); }
static void endpoints(void **state) { (void)state, each_allocation_fails(run_endpoints, 1); }
static void handshakes(void **state) { (void)state, each_allocation_fails(run_handshake, 1); }

static int set_up(void **state) {
  static const trn_flightsql_options options = {.struct_size = sizeof options, .dialect = "spark"};
  (void)state;
  is_client = true;
  return flight_start(&client, &options);
}

static int tear_down(void **state) {
  (void)state;
  flight_stop(&client);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(queries), cmocka_unit_test(metadata),
                                     cmocka_unit_test(prepared_statements), cmocka_unit_test(handshakes),
                                     cmocka_unit_test(polls), cmocka_unit_test(endpoints),
                                     cmocka_unit_test(transactions)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
