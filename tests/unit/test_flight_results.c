/* Results that wait in parts: polling, several endpoints, cancelling, expiry, clients that vanish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/flight_client.h"

typedef Arrow__Flight__Protocol__PollInfo poll_info;
typedef Arrow__Flight__Protocol__FlightInfo flight_info;

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

/* Polls for a descriptor's command. */
static poll_info *poll_for(flight_client *client, const void *command, size_t size, trn_status *status) {
  const trn_strbuf bytes = {(char *)command, size, size, false};
  trn_strbuf descriptor = flight_descriptor(&bytes);
  const trn_slice message = {.data = descriptor.data, .size = descriptor.size};
  trn_inproc_reply reply;
  poll_info *info = NULL;
  *status = flight_call(client, "PollFlightInfo", &message, 1, &reply);
  if (!*status && reply.message_count == 1)
    info = arrow__flight__protocol__poll_info__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&descriptor);
  return info;
}

static poll_info *poll_next(flight_client *client, const poll_info *info, trn_status *status) {
  return poll_for(client, info->flight_descriptor->cmd.data, info->flight_descriptor->cmd.len, status);
}

static void drop(poll_info *info) { arrow__flight__protocol__poll_info__free_unpacked(info, NULL); }

static int64_t fetch_all(flight_client *client, const flight_info *info) {
  int64_t rows = 0;
  for (size_t i = 0; i < info->n_endpoint; i++) {
    flight_result result = flight_get(client, info->endpoint[i]->ticket->ticket.data, info->endpoint[i]->ticket->ticket.len);
    assert_int_equal(result.status, TRN_OK);
    rows += result.rows;
  }
  return rows;
}

static trn_status cancel(flight_client *client, flight_info *info) {
  Arrow__Flight__Protocol__CancelFlightInfoRequest request = ARROW__FLIGHT__PROTOCOL__CANCEL_FLIGHT_INFO_REQUEST__INIT;
  trn_strbuf body = {0}, answer = {0};
  request.info = info;
  flight__message_put(&body, &request.base);
  trn_status status = flight_act(client, "CancelFlightInfo", &body, &answer);
  if (!status) assert_int_equal(answer.data[1], 1); /* CANCELLED */
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&answer);
  return status;
}

static void wait_for_closed(flight_client *client, uint64_t count) {
  for (int i = 0; i < 5000; i++) {
    trn_scripted_counts counts = trn__scripted_count(client->scripted);
    if (counts.streams_opened >= count && counts.streams_closed == counts.streams_opened) return;
    flight_sleep_ms(1);
  }
  fail_msg("a stream is still open");
}

/* ---- polling ---- */

static void a_quick_query_is_over_with_its_first_poll(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_strbuf command = flight_query("SELECT * FROM range(1000)");
  poll_info *info = poll_for(client, command.data, command.size, &status);
  assert_int_equal(status, TRN_OK);
  assert_null(info->flight_descriptor);
  assert_true(info->progress == 1.0);
  assert_int_equal(info->info->n_endpoint, 1);
  assert_int_equal(info->info->total_records, 1000);
  assert_true(info->info->ordered);
  assert_memory_equal(info->info->flight_descriptor->cmd.data, command.data, command.size);
  assert_int_equal(fetch_all(client, info->info), 1000);
  assert_int_equal(fetch_all(client, info->info), 1000);
  assert_int_equal(trn__scripted_count(client->scripted).executed, 1);
  drop(info);
  trn__strbuf_finish(&command);
}

static void endpoints_come_while_it_runs_and_are_only_ever_added(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_script script = {.is_hanging = true, .hang_at = 3, .is_endless = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(1000)");
  poll_info *first = poll_for(client, command.data, command.size, &status);
  assert_int_equal(status, TRN_OK);
  assert_non_null(first->flight_descriptor);
  assert_non_null(first->info); /* drivers read it always */
  assert_true(first->info->schema.len > 0);
  assert_non_null(first->expiration_time);
  poll_info *second = poll_next(client, first, &status); /* three batches are there: they can be fetched before the end */
  assert_int_equal(status, TRN_OK);
  assert_non_null(second->flight_descriptor);
  assert_true(second->info->n_endpoint >= 1 && second->info->n_endpoint >= first->info->n_endpoint);
  assert_int_equal(second->info->total_records, -1);
  for (size_t i = 0; i < first->info->n_endpoint; i++) {
    const ProtobufCBinaryData *a = &first->info->endpoint[i]->ticket->ticket, *b = &second->info->endpoint[i]->ticket->ticket;
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
  }
  assert_int_equal(fetch_all(client, second->info), 3000);
  assert_int_equal(cancel(client, second->info), TRN_OK);
  wait_for_closed(client, 1);
  poll_info *third = poll_next(client, second, &status);
  assert_null(third);
  assert_int_equal(status, TRN_NOT_FOUND);
  const ProtobufCBinaryData *ticket = &second->info->endpoint[0]->ticket->ticket;
  assert_int_equal(flight_get(client, ticket->data, ticket->len).status, TRN_NOT_FOUND);
  drop(first);
  drop(second);
  trn__strbuf_finish(&command);
}

static void what_is_polled_is_cancelled_before_it_has_an_endpoint(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(10)");
  poll_info *info = poll_for(client, command.data, command.size, &status);
  assert_int_equal(status, TRN_OK);
  assert_int_equal(info->info->n_endpoint, 0);
  client->identity = "eve"; /* not hers */
  assert_int_equal(cancel(client, info->info), TRN_NOT_FOUND);
  assert_null(poll_next(client, info, &status));
  assert_int_equal(status, TRN_NOT_FOUND);
  client->identity = NULL;
  assert_int_equal(cancel(client, info->info), TRN_OK);
  wait_for_closed(client, 1);
  drop(info);
  trn__strbuf_finish(&command);
}

static void a_failure_reaches_who_polls(void **state) {
  flight_client *client = *state;
  trn_status status;
  trn_script script = {.fail_status = TRN_OUT_OF_RANGE, .fail_at = 1, .message = "it broke", .is_endless = true, .pull_delay_ms = 60};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(10)");
  poll_info *info = poll_for(client, command.data, command.size, &status);
  for (int i = 0; i < 10 && info; i++) {
    poll_info *next = poll_next(client, info, &status);
    drop(info);
    info = next;
  }
  assert_int_equal(status, TRN_OUT_OF_RANGE);
  assert_non_null(strstr(client->text, "it broke"));
  wait_for_closed(client, 1);
  trn__strbuf_finish(&command);
}

static void polls_that_are_made_up_are_refused(void **state) {
  flight_client *client = *state;
  trn_status status;
  static const char *const handles[] = {"", "?", "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000?0",
                                        "00000000-0000-4000-8000-000000000000?99999999999999999999",
                                        "00000000-0000-4000-8000-000000000000:0", "00000000-0000-4000-8000-000000000000?-1"};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
    Arrow__Flight__Protocol__Sql__TicketStatementQuery forged = ARROW__FLIGHT__PROTOCOL__SQL__TICKET_STATEMENT_QUERY__INIT;
    forged.statement_handle = (ProtobufCBinaryData){strlen(handles[i]), (uint8_t *)handles[i]};
    trn_strbuf command = flight_command("TicketStatementQuery", &forged);
    assert_null(poll_for(client, command.data, command.size, &status));
    assert_true(status == TRN_NOT_FOUND || status == TRN_INVALID_ARGUMENT);
    assert_true(flight_get(client, command.data, command.size).status == TRN_NOT_FOUND);
    trn__strbuf_finish(&command);
  }
  assert_int_equal(flight_run(client, "SELECT 1").status, TRN_OK);
}

static void a_poll_that_nobody_comes_back_to_expires_and_stops_its_query(void **state) {
  (void)state;
  flight_client client;
  trn_flightsql_options options = spark;
  options.result_ms = 50;
  assert_int_equal(flight_start(&client, &options), 0);
  trn_status status;
  trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client.scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(10)");
  poll_info *info = poll_for(&client, command.data, command.size, &status);
  assert_non_null(info);
  wait_for_closed(&client, 1); /* the clock comes every second */
  assert_null(poll_next(&client, info, &status));
  assert_int_equal(status, TRN_NOT_FOUND);
  drop(info);
  trn__strbuf_finish(&command);
  flight_stop(&client);
}

/* ---- several endpoints ---- */

static void set_option(flight_client *client, const char *key, const char *value, bool is_bad) {
  Arrow__Flight__Protocol__SetSessionOptionsRequest request = ARROW__FLIGHT__PROTOCOL__SET_SESSION_OPTIONS_REQUEST__INIT;
  Arrow__Flight__Protocol__SetSessionOptionsRequest__SessionOptionsEntry entry =
      ARROW__FLIGHT__PROTOCOL__SET_SESSION_OPTIONS_REQUEST__SESSION_OPTIONS_ENTRY__INIT;
  Arrow__Flight__Protocol__SetSessionOptionsRequest__SessionOptionsEntry *entries[] = {&entry};
  Arrow__Flight__Protocol__SessionOptionValue option = ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__INIT;
  trn_strbuf body = {0}, answer = {0};
  option.option_value_case = ARROW__FLIGHT__PROTOCOL__SESSION_OPTION_VALUE__OPTION_VALUE_STRING_VALUE;
  option.string_value = (char *)value;
  entry.key = (char *)key;
  entry.value = &option;
  request.n_session_options = 1;
  request.session_options = entries;
  flight__message_put(&body, &request.base);
  assert_int_equal(flight_act(client, "SetSessionOptions", &body, &answer), TRN_OK);
  assert_int_equal(answer.size > 0, is_bad);
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&answer);
}

static void a_session_gets_as_many_endpoints_as_it_asks_for(void **state) {
  flight_client *client = *state;
  trn_status status;
  client->identity = "alice";
  set_option(client, "endpoints", "0", true);
  set_option(client, "endpoints", "65", true);
  set_option(client, "endpoints", "4x", true);
  set_option(client, "locations", "http://elsewhere", true);
  set_option(client, "endpoints", "4", false);
  set_option(client, "locations", "grpc://one:1\narrow-flight-reuse-connection://?", false);
  trn_strbuf command = flight_query("SELECT * FROM range(100000)");
  flight_info *info = flight_info_of(client, &command, &status);
  assert_int_equal(status, TRN_OK);
  assert_true(info->n_endpoint > 1 && info->n_endpoint <= 4);
  assert_int_equal(info->total_records, 100000);
  assert_true(info->ordered);
  for (size_t i = 0; i < info->n_endpoint; i++) {
    assert_int_equal(info->endpoint[i]->n_location, 2);
    assert_string_equal(info->endpoint[i]->location[0]->uri, "grpc://one:1");
    assert_non_null(info->endpoint[i]->expiration_time);
  }
  assert_int_equal(fetch_all(client, info), 100000);
  assert_int_equal(trn__scripted_count(client->scripted).executed, 1);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  client->identity = "bob"; /* another session has its own options */
  info = flight_info_of(client, &command, &status);
  assert_int_equal(info->n_endpoint, 1);
  assert_int_equal(info->endpoint[0]->n_location, 0);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
}

static void an_empty_result_has_an_endpoint_too(void **state) {
  flight_client *client = *state;
  trn_status status;
  set_option(client, "endpoints", "4", false);
  trn_strbuf command = flight_query("SELECT * FROM range(0)");
  flight_info *info = flight_info_of(client, &command, &status);
  assert_int_equal(status, TRN_OK);
  assert_int_equal(info->n_endpoint, 1);
  assert_int_equal(fetch_all(client, info), 0);
  arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  trn__strbuf_finish(&command);
}

/* ---- clients that vanish ---- */

static void ignore_message(void *user, trn_slice message) {
  (void)user;
  if (message.release) message.release(message.owner);
}

static void note_finish(void *user, const trn_inproc_result *result) {
  (void)result;
  atomic_store((atomic_int *)user, 1);
}

static void vanish_while_waiting(flight_client *client, const char *method) {
  trn_strbuf command = flight_query("SELECT * FROM range(10)"), descriptor = flight_descriptor(&command);
  atomic_int over = 0;
  char path[128];
  uint64_t before = trn__scripted_count(client->scripted).pulls;
  snprintf(path, sizeof path, "%s%s", FLIGHT_TEST_PATH, method);
  const trn_inproc_request request = {.path = path, .on_message = ignore_message, .on_finish = note_finish, .user = &over};
  trn_inproc_call *call = NULL;
  assert_int_equal(trn__inproc_call(client->inproc, &request, &call), TRN_OK);
  trn__inproc_call_send(call, (trn_slice){.data = descriptor.data, .size = descriptor.size});
  trn__inproc_call_half_close(call);
  while (trn__scripted_count(client->scripted).pulls == before) flight_sleep_ms(1);
  trn__inproc_call_cancel(call);
  while (!atomic_load(&over)) flight_sleep_ms(1);
  trn__inproc_call_unref(call);
  trn__strbuf_finish(&descriptor);
  trn__strbuf_finish(&command);
}

static void who_waits_for_all_endpoints_and_vanishes_ends_the_query(void **state) {
  flight_client *client = *state;
  trn_script script = {.is_hanging = true};
  set_option(client, "endpoints", "4", false);
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  vanish_while_waiting(client, "GetFlightInfo");
  wait_for_closed(client, 1);
}

static void who_polls_and_vanishes_leaves_the_query_until_the_session_ends(void **state) {
  flight_client *client = *state;
  trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  vanish_while_waiting(client, "PollFlightInfo");
  assert_int_equal(trn__scripted_count(client->scripted).streams_closed, 0);
  assert_int_equal(flight_act(client, "CloseSession", NULL, NULL), TRN_OK);
  wait_for_closed(client, 1);
}

static void a_server_that_stops_ends_what_waits(void **state) {
  flight_client *client = *state; /* tear_down stops it */
  trn_status status;
  trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  trn_strbuf command = flight_query("SELECT * FROM range(10)");
  poll_info *info = poll_for(client, command.data, command.size, &status);
  assert_non_null(info);
  drop(info);
  trn__strbuf_finish(&command);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_quick_query_is_over_with_its_first_poll),
      TEST(endpoints_come_while_it_runs_and_are_only_ever_added),
      TEST(what_is_polled_is_cancelled_before_it_has_an_endpoint),
      TEST(a_failure_reaches_who_polls),
      TEST(polls_that_are_made_up_are_refused),
      cmocka_unit_test(a_poll_that_nobody_comes_back_to_expires_and_stops_its_query),
      TEST(a_session_gets_as_many_endpoints_as_it_asks_for),
      TEST(an_empty_result_has_an_endpoint_too),
      TEST(who_waits_for_all_endpoints_and_vanishes_ends_the_query),
      TEST(who_polls_and_vanishes_leaves_the_query_until_the_session_ends),
      TEST(a_server_that_stops_ends_what_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
