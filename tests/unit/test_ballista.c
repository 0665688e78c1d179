/* Ballista's protocol over the scripted backend: submission, status, fetches, who may see what, cancelling, expiry, and
 * bytes that no client sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ballista_caller.h"

enum {
  QUEUED = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_QUEUED,
  RUNNING = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_RUNNING,
  FAILED = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_FAILED,
  SUCCESSFUL = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_SUCCESSFUL,
  ACCEPTED = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__RESULT_SUCCESS,
  REFUSED = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__RESULT_FAILURE
};

static void start(ballista_caller *c, const trn_ballista_frontend_options *options) {
  assert_int_equal(caller_start(c, options), TRN_OK);
}

static void a_little(void) {
  const struct timespec time = {.tv_nsec = 2000000};
  nanosleep(&time, NULL);
}

/* ---- submission ---- */

static void a_pushed_query_says_each_step_and_its_rows_are_fetched(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  caller_status s = caller_push(&c, "1000", "nightly");
  assert_int_equal(s.status, TRN_OK);
  assert_string_equal(c.server_version, "55.0.0"); /* a 55 client insists on it */
  assert_int_equal(s.messages, 3);                 /* queued, running, successful */
  assert_int_equal(s.which, SUCCESSFUL);
  assert_string_equal(s.name, "nightly");
  assert_true(s.local && s.has_location);
  assert_int_equal(s.rows, 1000);
  flight_result rows = caller_fetch(&c, &s, NULL);
  assert_int_equal(rows.status, TRN_OK);
  assert_int_equal(rows.rows, 1000);
  assert_int_equal(rows.columns, 1);
  /* A result that is kept can be fetched again; 54.x says the layout with another field. */
  assert_int_equal(caller_fetch(&c, &s, NULL).rows, 1000);
  caller_stop(&c);
}

static void a_pulled_query_is_asked_for_and_an_empty_result_has_a_schema(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  caller_status s = caller_submit(&c, "0");
  assert_int_equal(s.which, ACCEPTED);
  assert_string_equal(s.name, "session-1"); /* clients stop at any other session id */
  s = caller_wait(&c, s.job_id);
  assert_int_equal(s.which, SUCCESSFUL);
  flight_result rows = caller_fetch(&c, &s, NULL);
  assert_int_equal(rows.status, TRN_OK);
  assert_int_equal(rows.columns, 1);
  assert_int_equal(rows.rows, 0);
  caller_stop(&c);
}

static void what_cannot_be_read_fails_as_ballista_says_it(void **state) {
  ballista_caller c;
  trn_inproc_reply reply;
  (void)state;
  start(&c, NULL);
  caller_status s = caller_push(&c, "many", NULL);
  assert_int_equal(s.status, TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(c.text, "Could not parse plan: not a count of rows: 'many'"));
  s = caller_submit(&c, "many");
  assert_int_equal(s.which, REFUSED);
  assert_non_null(strstr(s.error, "not a count of rows: 'many'"));
  /* No query at all, a format that nobody knows, bytes that are no message. */
  Ballista__Protobuf__ExecuteQueryParams none;
  ballista__protobuf__execute_query_params__init(&none);
  assert_int_equal(caller_call(&c, "ExecuteQueryPush", &none, &reply), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(c.text, "The request has no query"));
  trn__inproc_reply_finish(&reply);
  Ballista__Protobuf__EncodedQuery query = BALLISTA__PROTOBUF__ENCODED_QUERY__INIT;
  query.format = (char *)"test.rang";
  none.query_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_ENCODED_QUERY;
  none.encoded_query = &query;
  assert_int_equal(caller_call(&c, "ExecuteQueryPush", &none, &reply), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(c.text, "test.range")); /* what is known is listed */
  trn__inproc_reply_finish(&reply);
  assert_int_equal(caller_call_bytes(&c, "ExecuteQuery", "\x0a\x7f", 2, &reply), TRN_INVALID_ARGUMENT);
  trn__inproc_reply_finish(&reply);
  /* Plans in fields 1, 6 and 7 are the backend's: this one knows none. */
  none.query_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_SUBSTRAIT_PLAN;
  none.substrait_plan = (ProtobufCBinaryData){3, (uint8_t *)"abc"};
  assert_int_equal(caller_call(&c, "ExecuteQueryPush", &none, &reply), TRN_UNIMPLEMENTED);
  trn__inproc_reply_finish(&reply);
  caller_stop(&c);
}

static void every_cut_of_a_request_is_answered(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  trn_strbuf query = caller_query("5", "cut");
  for (size_t size = 0; size < query.size; size++) {
    trn_inproc_reply reply;
    caller_call_bytes(&c, "ExecuteQueryPush", query.data, size, &reply);
    assert_true(reply.status == TRN_OK || reply.status == TRN_INVALID_ARGUMENT || reply.status == TRN_UNIMPLEMENTED);
    trn__inproc_reply_finish(&reply);
  }
  trn__strbuf_finish(&query);
  assert_int_equal(caller_push(&c, "5", NULL).which, SUCCESSFUL);
  caller_stop(&c);
}

static void options_of_an_encoded_query_reach_its_decoder(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  Ballista__Protobuf__ExecuteQueryParams params;
  ballista__protobuf__execute_query_params__init(&params);
  Ballista__Protobuf__EncodedQuery query = BALLISTA__PROTOBUF__ENCODED_QUERY__INIT;
  Ballista__Protobuf__KeyValuePair absent = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__INIT, twice = absent,
                                   *pairs[] = {&absent, &twice};
  absent.key = (char *)"none";
  twice.key = (char *)"twice";
  twice.has_value_case = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE;
  twice.value = (char *)"";
  query.format = (char *)"test.range";
  query.payload = (ProtobufCBinaryData){2, (uint8_t *)"21"};
  query.options = pairs;
  query.n_options = 2;
  params.query_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_ENCODED_QUERY;
  params.encoded_query = &query;
  trn_inproc_reply reply;
  assert_int_equal(caller_call(&c, "ExecuteQueryPush", &params, &reply), TRN_OK);
  caller_status s = {0};
  caller_read_status(reply.messages[reply.message_count - 1].data, reply.messages[reply.message_count - 1].size, &s);
  assert_int_equal(s.rows, 42);
  trn__inproc_reply_finish(&reply);
  caller_stop(&c);
}

/* ---- versions, and calls of executors ---- */

static void versions_decide_who_may_submit(void **state) {
  static const struct {
    const char *version;
    bool refuses_older, is_fine;
  } cases[] = {{"55.0.0", false, true},  {"55.9.1-rc1", true, true}, {NULL, false, true},
               {NULL, true, false},      {"54.1.0", false, true},    {"54.1.0", true, false},
               {"56.0.0", false, false}, {"550.0.0", false, false},  {"", false, false},
               {"55x", false, false},    {".55", false, false},      {"99999999999999999999.1", false, false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const trn_ballista_frontend_options options = {.refuses_older = cases[i].refuses_older};
    ballista_caller c;
    start(&c, &options);
    c.version = cases[i].version;
    caller_status s = caller_push(&c, "3", NULL);
    assert_int_equal(s.status, cases[i].is_fine ? TRN_OK : TRN_FAILED_PRECONDITION);
    if (!cases[i].is_fine) assert_non_null(strstr(c.text, "cannot be used with scheduler 55.0.0"));
    assert_int_equal(caller_submit(&c, "3").status, s.status);
    caller_stop(&c);
  }
}

static void calls_of_executors_are_refused_by_name(void **state) {
  static const char *const names[] = {"PollWork", "RegisterExecutor", "HeartBeatFromExecutor", "UpdateTaskStatus",
                                      "ExecutorStopped"};
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    trn_inproc_reply reply;
    assert_int_equal(caller_call_bytes(&c, names[i], "\x0a\x01x", 3, &reply), TRN_UNIMPLEMENTED);
    assert_non_null(strstr(c.text, names[i]));
    trn__inproc_reply_finish(&reply);
  }
  caller_stop(&c);
}

/* ---- tickets ---- */

static void a_forged_ticket_gives_nothing(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  caller_status mine = caller_push(&c, "10", NULL), other = caller_push(&c, "20", NULL);
  static const char *const ids[] = {"", "../../../etc/passwd", "/etc/passwd", "..",
                                    "01a22d14-d9a5-7672-bab2-36e627ce2889"};
  Ballista__Protobuf__FetchPartition forged;
  mine.ticket.job_id = mine.job_id;
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    forged = mine.ticket;
    forged.job_id = (char *)ids[i];
    assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  }
  for (int i = 0; i < 64; i++) { /* each bit of the secret counts */
    forged = mine.ticket;
    forged.file_id ^= 1ull << i;
    assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  }
  forged = mine.ticket, forged.job_id = other.job_id; /* another job's, with this one's secret */
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.has_file_id_case = 0;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.stage_id++;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.partition_id = 1;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.layout = BALLISTA__PROTOBUF__SHUFFLE_LAYOUT__SHUFFLE_LAYOUT_SORT;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.is_sort_shuffle = true;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  forged = mine.ticket, forged.file_kind = BALLISTA__PROTOBUF__SHUFFLE_FILE_KIND__SHUFFLE_FILE_KIND_INDEX;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  Ballista__Protobuf__ByteRange range = BALLISTA__PROTOBUF__BYTE_RANGE__INIT, *ranges[] = {&range};
  forged = mine.ticket, forged.byte_ranges = ranges, forged.n_byte_ranges = 1;
  assert_int_equal(caller_redeem(&c, &forged, NULL).status, TRN_NOT_FOUND);
  /* A host in the ticket is never dialled. */
  forged = mine.ticket, forged.host = (char *)"169.254.169.254", forged.port = 80;
  assert_int_equal(caller_redeem(&c, &forged, NULL).rows, 10);
  assert_int_equal(caller_fetch(&c, &mine, NULL).rows, 10);
  caller_stop(&c);
}

static void every_cut_of_a_ticket_gives_nothing(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  caller_status s = caller_push(&c, "10", NULL);
  Ballista__Protobuf__Action action = BALLISTA__PROTOBUF__ACTION__INIT;
  trn_strbuf bytes = {0};
  action.action_type_case = BALLISTA__PROTOBUF__ACTION__ACTION_TYPE_FETCH_PARTITION;
  action.fetch_partition = &s.ticket;
  s.ticket.job_id = s.job_id;
  flight__message_put(&bytes, &action.base);
  for (size_t size = 0; size < bytes.size; size++)
    assert_int_equal(flight_get(&c.flight, bytes.data, size).status, TRN_INVALID_ARGUMENT);
  assert_int_equal(flight_get(&c.flight, bytes.data, bytes.size).rows, 10);
  static const char only_settings[] = "\xa2\x06\x03\x0a\x01x";
  assert_int_equal(flight_get(&c.flight, only_settings, sizeof only_settings - 1).status, TRN_INVALID_ARGUMENT);
  trn__strbuf_finish(&bytes);
  caller_stop(&c);
}

/* ---- who ---- */

static void jobs_are_their_users_own(void **state) {
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  c.identity = "ann";
  caller_status s = caller_push(&c, "10", NULL);
  assert_int_equal(s.which, SUCCESSFUL);
  c.identity = "bob";
  assert_int_equal(caller_ask(&c, s.job_id).which, 0); /* as if there were none */
  assert_false(caller_cancel(&c, s.job_id));
  Ballista__Protobuf__GetJobMetricsParams metrics = BALLISTA__PROTOBUF__GET_JOB_METRICS_PARAMS__INIT;
  Ballista__Protobuf__CleanJobDataParams clean = BALLISTA__PROTOBUF__CLEAN_JOB_DATA_PARAMS__INIT;
  trn_inproc_reply reply;
  metrics.job_id = clean.job_id = s.job_id;
  assert_int_equal(caller_call(&c, "GetJobMetrics", &metrics, &reply), TRN_NOT_FOUND);
  trn__inproc_reply_finish(&reply);
  assert_int_equal(caller_call(&c, "CleanJobData", &clean, &reply), TRN_OK); /* and does nothing */
  trn__inproc_reply_finish(&reply);
  assert_int_equal(caller_fetch(&c, &s, "bob").status, TRN_NOT_FOUND);
  c.identity = NULL;
  assert_int_equal(caller_ask(&c, s.job_id).which, 0);
  /* The stock client sends no credentials when it fetches: what it was told is enough. */
  assert_int_equal(caller_fetch(&c, &s, NULL).rows, 10);
  assert_int_equal(caller_fetch(&c, &s, "ann").rows, 10);
  c.identity = "ann";
  assert_int_equal(caller_ask(&c, s.job_id).which, SUCCESSFUL);
  assert_int_equal(caller_call(&c, "GetJobMetrics", &metrics, &reply), TRN_OK);
  trn__inproc_reply_finish(&reply);
  caller_stop(&c);
}

static trn_status nobody(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error) {
  (void)self, (void)credentials, (void)out;
  return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "nobody is known");
}

static void a_ticket_is_let_in_where_credentials_are_asked_for(void **state) {
  static const trn_authenticator_ops ops = {.struct_size = sizeof ops, .authenticate = nobody};
  trn_ballista_frontend_options options = {0};
  ballista_caller c;
  (void)state;
  assert_int_equal(trn_authenticator_create(&ops, NULL, &options.authenticator), TRN_OK);
  start(&c, &options);
  c.identity = "ann"; /* as the host found */
  caller_status s = caller_push(&c, "10", NULL);
  c.identity = NULL;
  assert_int_equal(caller_fetch(&c, &s, NULL).rows, 10);
  s.ticket.file_id++;
  assert_int_equal(caller_fetch(&c, &s, NULL).status, TRN_NOT_FOUND);
  s.ticket.file_id--;
  c.flight.authorization = "Bearer wrong"; /* credentials that are brought count */
  assert_int_equal(caller_fetch(&c, &s, NULL).status, TRN_UNAUTHENTICATED);
  c.flight.authorization = NULL;
  assert_int_equal(flight_get(&c.flight, "x", 1).status, TRN_UNAUTHENTICATED); /* no other ticket */
  caller_stop(&c);
  trn_authenticator_unref(options.authenticator);
}

/* ---- ends ---- */

static void clean_and_time_take_a_result_away(void **state) {
  const trn_ballista_frontend_options options = {.result_ms = 500, .job_ms = 2500};
  ballista_caller c;
  trn_inproc_reply reply;
  (void)state;
  start(&c, &options);
  caller_status s = caller_push(&c, "10", NULL), cleaned = caller_push(&c, "10", NULL);
  Ballista__Protobuf__CleanJobDataParams clean = BALLISTA__PROTOBUF__CLEAN_JOB_DATA_PARAMS__INIT;
  clean.job_id = cleaned.job_id;
  assert_int_equal(caller_call(&c, "CleanJobData", &clean, &reply), TRN_OK);
  trn__inproc_reply_finish(&reply);
  assert_int_equal(caller_fetch(&c, &cleaned, NULL).status, TRN_NOT_FOUND);
  assert_int_equal(caller_ask(&c, cleaned.job_id).which, SUCCESSFUL); /* it still was */
  assert_int_equal(caller_fetch(&c, &s, NULL).rows, 10);
  trn_status status = TRN_OK;
  for (int i = 0; i < 400 && !status; i++) { /* fetching keeps it for another while: asked seldom */
    const struct timespec pause = {.tv_sec = 2};
    nanosleep(&pause, NULL);
    status = caller_fetch(&c, &s, NULL).status;
  }
  assert_int_equal(status, TRN_NOT_FOUND);
  for (int i = 0; i < 4000 && caller_ask(&c, s.job_id).which; i++) a_little();
  assert_int_equal(caller_ask(&c, s.job_id).which, 0); /* forgotten */
  caller_stop(&c);
}

/* A push whose events are looked at as they come. */
typedef struct watching {
  pthread_mutex_t mutex;
  caller_status last;
  trn_status status;
  bool is_over;
} watching;

static void on_message(void *user, trn_slice message) {
  watching *w = user;
  pthread_mutex_lock(&w->mutex);
  caller_read_status(message.data, message.size, &w->last);
  w->last.messages++;
  pthread_mutex_unlock(&w->mutex);
  if (message.release) message.release(message.owner);
}

static void on_finish(void *user, const trn_inproc_result *result) {
  watching *w = user;
  pthread_mutex_lock(&w->mutex);
  w->status = result->status;
  w->is_over = true;
  pthread_mutex_unlock(&w->mutex);
}

static trn_inproc_call *push_begin(ballista_caller *c, const char *payload, watching *w) {
  const trn_metadata version = {"ballista-version", c->version, strlen(c->version)};
  trn_strbuf query = caller_query(payload, NULL);
  trn_inproc_call *call = NULL;
  memset(w, 0, sizeof *w);
  pthread_mutex_init(&w->mutex, NULL);
  const trn_inproc_request request = {.path = BALLISTA_TEST_PATH "ExecuteQueryPush",
                                      .metadata = &version,
                                      .metadata_count = 1,
                                      .on_message = on_message,
                                      .on_finish = on_finish,
                                      .user = w};
  assert_int_equal(trn__inproc_call(c->flight.inproc, &request, &call), TRN_OK);
  trn__inproc_call_send(call, (trn_slice){.data = query.data, .size = query.size});
  trn__inproc_call_half_close(call);
  trn__strbuf_finish(&query);
  return call;
}

static caller_status seen(watching *w, bool *is_over) {
  pthread_mutex_lock(&w->mutex);
  caller_status s = w->last;
  if (is_over) *is_over = w->is_over;
  pthread_mutex_unlock(&w->mutex);
  return s;
}

static caller_status push_until(watching *w, int which) {
  caller_status s = {0};
  for (int i = 0; i < 5000 && (s = seen(w, NULL)).which != which; i++) a_little();
  assert_int_equal(s.which, which);
  return s;
}

static void push_end(trn_inproc_call *call, watching *w) {
  bool is_over = false;
  for (int i = 0; i < 5000 && !is_over; i++) {
    seen(w, &is_over);
    if (!is_over) a_little();
  }
  assert_true(is_over);
  trn__inproc_call_unref(call);
}

static void cancelling_ends_what_runs_and_keeps_what_is_over(void **state) {
  const trn_script hangs = {.is_hanging = true};
  ballista_caller c;
  watching w;
  (void)state;
  start(&c, NULL);
  caller_status done = caller_push(&c, "10", NULL);
  assert_int_equal(caller_fetch(&c, &done, NULL).rows, 10); /* all of its rows are made */
  assert_false(caller_cancel(&c, done.job_id));             /* it is over: its output stays */
  assert_int_equal(caller_fetch(&c, &done, NULL).rows, 10);
  assert_false(caller_cancel(&c, "no such job"));
  trn__scripted_on(c.flight.scripted, NULL, &hangs);
  trn_inproc_call *call = push_begin(&c, "10", &w);
  caller_status s = push_until(&w, RUNNING);
  assert_true(caller_cancel(&c, s.job_id));
  assert_false(caller_cancel(&c, s.job_id));
  s = push_until(&w, FAILED);
  assert_string_equal(s.error, "Cancelled");
  push_end(call, &w);
  assert_int_equal(caller_ask(&c, s.job_id).which, FAILED);
  caller_stop(&c);
}

static void a_client_that_goes_takes_its_job_along_unless_jobs_run_on(void **state) {
  (void)state;
  for (int runs_on = 0; runs_on < 2; runs_on++) {
    const trn_ballista_frontend_options options = {.runs_on = runs_on};
    const trn_script slow = {.pull_delay_ms = 300};
    ballista_caller c;
    watching w;
    start(&c, &options);
    trn__scripted_on(c.flight.scripted, NULL, &slow);
    trn_inproc_call *call = push_begin(&c, "10", &w);
    caller_status s = push_until(&w, RUNNING);
    trn__inproc_call_cancel(call);
    push_end(call, &w);
    s = caller_wait(&c, s.job_id);
    assert_int_equal(s.which, runs_on ? SUCCESSFUL : FAILED);
    if (runs_on) assert_int_equal(caller_fetch(&c, &s, NULL).rows, 10);
    caller_stop(&c);
  }
}

static void what_the_backend_says_fails_the_job(void **state) {
  const trn_script refuses = {.execute_status = TRN_PERMISSION_DENIED, .message = "not for you"};
  const trn_script fails = {.fail_status = TRN_INTERNAL, .message = "the disk is gone"};
  ballista_caller c;
  (void)state;
  start(&c, NULL);
  trn__scripted_on(c.flight.scripted, NULL, &refuses);
  caller_status s = caller_push(&c, "10", NULL);
  assert_int_equal(s.which, FAILED);
  assert_non_null(strstr(s.error, "not for you"));
  trn__scripted_on(c.flight.scripted, NULL, &fails);
  s = caller_submit(&c, "10");
  s = caller_wait(&c, s.job_id);
  assert_int_equal(s.which, FAILED);
  assert_non_null(strstr(s.error, "the disk is gone"));
  caller_stop(&c);
}

/* ---- large results ---- */

static void a_large_result_is_made_as_it_is_fetched_and_once(void **state) {
  const trn_ballista_frontend_options options = {.result_bytes = 64 << 10};
  ballista_caller c;
  (void)state;
  start(&c, &options);
  caller_status s = caller_push(&c, "3000000", NULL); /* 24 MB */
  assert_int_equal(s.which, SUCCESSFUL);
  assert_int_equal(s.rows, -1); /* nobody knows yet */
  trn_scripted_counts before = trn__scripted_count(c.flight.scripted);
  assert_true(before.pulls < 100); /* bounded, whatever is behind */
  assert_int_equal(before.streams_closed, 0);
  flight_result rows = caller_fetch(&c, &s, NULL);
  assert_int_equal(rows.status, TRN_OK);
  assert_int_equal(rows.rows, 3000000);
  flight_result again = caller_fetch(&c, &s, NULL);
  assert_int_equal(again.status, TRN_FAILED_PRECONDITION);
  assert_int_equal(caller_ask(&c, s.job_id).rows, 3000000); /* now it is known */
  for (int i = 0; i < 2000 && trn__scripted_count(c.flight.scripted).streams_closed == 0; i++) a_little();
  assert_int_equal(trn__scripted_count(c.flight.scripted).streams_closed, 1);
  caller_stop(&c);
}

static void a_result_without_end_can_be_cancelled_while_it_is_fetched(void **state) {
  const trn_ballista_frontend_options options = {.result_bytes = 64 << 10};
  const trn_script endless = {.is_endless = true};
  ballista_caller c;
  (void)state;
  start(&c, &options);
  trn__scripted_on(c.flight.scripted, NULL, &endless);
  caller_status s = caller_push(&c, "100000", NULL);
  assert_int_equal(s.which, SUCCESSFUL);
  assert_true(caller_cancel(&c, s.job_id)); /* there were rows still to be made */
  assert_int_equal(caller_ask(&c, s.job_id).which, FAILED);
  assert_int_not_equal(caller_fetch(&c, &s, NULL).status, TRN_OK);
  /* And one that goes with the server. */
  s = caller_push(&c, "100000", NULL);
  assert_int_equal(s.which, SUCCESSFUL);
  caller_stop(&c);
}

static void a_failure_behind_the_kept_rows_fails_the_fetch_and_the_job(void **state) {
  const trn_ballista_frontend_options options = {.result_bytes = 4 << 10};
  const trn_script fails = {
      .fail_status = TRN_INTERNAL, .message = "the disk is gone", .fail_at = 3, .is_endless = true};
  ballista_caller c;
  (void)state;
  start(&c, &options);
  trn__scripted_on(c.flight.scripted, NULL, &fails);
  caller_status s = caller_push(&c, "100000", NULL);
  assert_int_equal(s.which, SUCCESSFUL);
  flight_result rows = caller_fetch(&c, &s, NULL);
  assert_int_equal(rows.status, TRN_INTERNAL); /* never UNKNOWN: clients would try again */
  assert_non_null(strstr(c.flight.text, "the disk is gone"));
  assert_int_equal(caller_ask(&c, s.job_id).which, FAILED);
  caller_stop(&c);
}

static void many_results_share_a_budget(void **state) {
  const trn_ballista_frontend_options options = {.result_bytes = 1 << 20, .results_bytes = 300 << 10};
  enum { JOBS = 12, JOB_ROWS = 10000 /* 80 kB */ };
  ballista_caller c;
  caller_status jobs[JOBS];
  (void)state;
  start(&c, &options);
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = caller_push(&c, "10000", NULL);
    assert_int_equal(jobs[i].which, SUCCESSFUL);
  }
  for (int i = 0; i < JOBS; i++) { /* each can be fetched, kept or not */
    assert_int_equal(caller_fetch(&c, &jobs[i], NULL).rows, JOB_ROWS);
  }
  for (int i = 0; i < JOBS; i++) assert_int_equal(caller_push(&c, "10000", NULL).which, SUCCESSFUL);
  caller_stop(&c);
}

static void results_that_nobody_fetches_are_bounded(void **state) {
  const trn_ballista_frontend_options options = {.result_bytes = 1};
  ballista_caller c;
  caller_status first = {0}, s;
  (void)state;
  start(&c, &options);
  for (unsigned i = 0; i < TRN_BALLISTA_RUNNING_MAX; i++) {
    s = caller_push(&c, "5", NULL);
    assert_int_equal(s.which, SUCCESSFUL);
    if (!i) first = s;
  }
  s = caller_push(&c, "5", NULL);
  assert_int_equal(s.status, TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(c.text, "TRN_BALLISTA_RUNNING_MAX"));
  assert_int_equal(caller_fetch(&c, &first, NULL).rows, 5); /* what is fetched makes room */
  for (int i = 0; i < 1000 && (s = caller_push(&c, "5", NULL)).status; i++) a_little();
  assert_int_equal(s.which, SUCCESSFUL);
  caller_stop(&c);
}

/* ---- output that stays where it is ---- */

/* A backend whose results lie elsewhere: each operation is asked `asks` times before it knows where. */
typedef struct elsewhere {
  int asks;
  trn_status end; /* of its operations */
  atomic_int asked, cancelled, alive, held;
} elsewhere;

static trn_operation_state elsewhere_state(void *self) {
  (void)self;
  return TRN_OPERATION_RUNNING;
}
static void elsewhere_cancel(void *self) {
  atomic_fetch_add(&((elsewhere *)self)->cancelled, 1);
}
static void elsewhere_destroy(void *self) {
  atomic_fetch_sub(&((elsewhere *)self)->alive, 1);
}
static trn_status elsewhere_stream(void *self, trn_stream **out, trn_error **error) {
  (void)self, (void)out;
  return trn_error_set(error, TRN_DATA_LOSS, NULL, "its rows were asked for");
}
static trn_status elsewhere_locations(void *self, void (*each)(void *user, const trn_result_location *location),
                                      void *user, trn_error **error) {
  elsewhere *e = self;
  if (atomic_fetch_add(&e->asked, 1) < e->asks) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "not over");
  if (e->end) return trn_error_set(error, e->end, NULL, "the cluster is gone");
  const trn_result_location location = {.struct_size = sizeof location,
                                        .job_id = "theirs",
                                        .stage_id = 7,
                                        .partition_id = 3,
                                        .executor_id = "one",
                                        .host = "10.0.0.7",
                                        .port = 50051,
                                        .has_file_id = true,
                                        .file_id = 42,
                                        .rows = 5,
                                        .bytes = -1};
  each(user, &location);
  return TRN_OK;
}
static trn_status elsewhere_open(void *self, trn_session *session, void **state, trn_error **error) {
  (void)self, (void)session, (void)error;
  *state = NULL;
  return TRN_OK;
}
static trn_status elsewhere_execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                                    trn_error **error) {
  static const trn_operation_ops ops = {.struct_size = sizeof ops,
                                        .state = elsewhere_state,
                                        .cancel = elsewhere_cancel,
                                        .result_stream = elsewhere_stream,
                                        .destroy = elsewhere_destroy,
                                        .locations = elsewhere_locations};
  elsewhere *e = self;
  (void)state, (void)error;
  atomic_fetch_add(&e->alive, 1);
  if (request->holds_output) atomic_fetch_add(&e->held, 1);
  return trn_operation_create(&ops, e, request->operation_id, out);
}

static trn_backend *elsewhere_start(ballista_caller *c, elsewhere *e) {
  static const trn_backend_ops ops = {
      .struct_size = sizeof ops, .open_session = elsewhere_open, .execute = elsewhere_execute};
  const trn_ballista_frontend_options options = {.hands_through = true};
  trn_backend *backend = NULL;
  memset(c, 0, sizeof *c);
  assert_int_equal(trn_backend_create(&ops, e, &backend), TRN_OK);
  assert_int_equal(caller_start_on(c, &options, backend), TRN_OK);
  return backend;
}

static void output_is_handed_through_and_lives_as_long_as_the_job(void **state) {
  elsewhere e = {.asks = 3};
  ballista_caller c;
  trn_inproc_reply reply;
  (void)state;
  trn_backend *backend = elsewhere_start(&c, &e);
  caller_status s = caller_push(&c, "5", NULL);
  assert_int_equal(s.which, SUCCESSFUL);
  assert_false(s.local);
  assert_string_equal(s.host, "10.0.0.7:50051");
  assert_int_equal(s.ticket.stage_id, 7);
  assert_int_equal(s.ticket.partition_id, 3);
  assert_int_equal(s.ticket.file_id, 42);
  assert_int_equal(s.rows, 5);
  assert_int_equal(e.held, 1);
  assert_int_equal(e.alive, 1); /* its end would take the output away */
  assert_false(caller_cancel(&c, s.job_id));
  assert_int_equal(e.cancelled, 0);
  assert_int_equal(caller_fetch(&c, &s, NULL).status, TRN_NOT_FOUND); /* not here */
  Ballista__Protobuf__CleanJobDataParams clean = BALLISTA__PROTOBUF__CLEAN_JOB_DATA_PARAMS__INIT;
  clean.job_id = s.job_id;
  assert_int_equal(caller_call(&c, "CleanJobData", &clean, &reply), TRN_OK);
  trn__inproc_reply_finish(&reply);
  assert_int_equal(e.alive, 0);
  assert_false(caller_ask(&c, s.job_id).has_location);
  assert_int_equal(caller_push(&c, "5", NULL).which, SUCCESSFUL);
  caller_stop(&c); /* takes the second one's along */
  assert_int_equal(e.alive, 0);
  trn_backend_unref(backend);
}

static void a_job_elsewhere_fails_and_is_cancelled_like_any(void **state) {
  elsewhere e = {.asks = 3, .end = TRN_UNAVAILABLE};
  ballista_caller c;
  watching w;
  (void)state;
  trn_backend *backend = elsewhere_start(&c, &e);
  caller_status s = caller_push(&c, "5", NULL);
  assert_int_equal(s.which, FAILED);
  assert_non_null(strstr(s.error, "the cluster is gone"));
  e.asks = 1 << 30;
  trn_inproc_call *call = push_begin(&c, "10", &w);
  s = push_until(&w, RUNNING);
  assert_true(caller_cancel(&c, s.job_id));
  push_end(call, &w);
  assert_string_equal(caller_ask(&c, s.job_id).error, "Cancelled");
  call = push_begin(&c, "10", &w); /* and one that the server's end finds running */
  push_until(&w, RUNNING);
  trn__inproc_call_unref(call);
  caller_stop(&c);
  assert_int_equal(e.alive, 0);
  trn_backend_unref(backend);
}

static void where_nothing_lies_elsewhere_rows_come_from_here(void **state) {
  const trn_ballista_frontend_options options = {.hands_through = true};
  ballista_caller c;
  (void)state;
  start(&c, &options);
  caller_status s = caller_push(&c, "10", NULL);
  assert_true(s.local);
  assert_int_equal(caller_fetch(&c, &s, NULL).rows, 10);
  caller_stop(&c);
}

/* ---- sessions ---- */

static void sessions_are_kept_and_removed(void **state) {
  Ballista__Protobuf__CreateUpdateSessionParams create = BALLISTA__PROTOBUF__CREATE_UPDATE_SESSION_PARAMS__INIT;
  Ballista__Protobuf__RemoveSessionParams remove = BALLISTA__PROTOBUF__REMOVE_SESSION_PARAMS__INIT;
  Ballista__Protobuf__KeyValuePair pair = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__INIT, *pairs[] = {&pair};
  ballista_caller c;
  trn_inproc_reply reply;
  (void)state;
  start(&c, NULL);
  pair.key = (char *)"ballista.job.name";
  pair.has_value_case = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE;
  pair.value = (char *)"x";
  create.settings = pairs;
  create.n_settings = 1;
  assert_int_equal(caller_call(&c, "CreateUpdateSession", &create, &reply), TRN_OK);
  Ballista__Protobuf__CreateUpdateSessionResult *made =
      ballista__protobuf__create_update_session_result__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
  assert_true(trn__uuid_is_valid(made->session_id));
  trn__inproc_reply_finish(&reply);
  remove.session_id = made->session_id;
  for (int i = 0; i < 3; i++) { /* another user's, its own, gone */
    c.identity = i == 0 ? "bob" : NULL;
    assert_int_equal(caller_call(&c, "RemoveSession", &remove, &reply), TRN_OK);
    Ballista__Protobuf__RemoveSessionResult *result =
        ballista__protobuf__remove_session_result__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
    assert_int_equal(result->success, i == 1);
    ballista__protobuf__remove_session_result__free_unpacked(result, NULL);
    trn__inproc_reply_finish(&reply);
  }
  ballista__protobuf__create_update_session_result__free_unpacked(made, NULL);
  caller_stop(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pushed_query_says_each_step_and_its_rows_are_fetched),
      cmocka_unit_test(a_pulled_query_is_asked_for_and_an_empty_result_has_a_schema),
      cmocka_unit_test(what_cannot_be_read_fails_as_ballista_says_it),
      cmocka_unit_test(every_cut_of_a_request_is_answered),
      cmocka_unit_test(options_of_an_encoded_query_reach_its_decoder),
      cmocka_unit_test(versions_decide_who_may_submit),
      cmocka_unit_test(calls_of_executors_are_refused_by_name),
      cmocka_unit_test(a_forged_ticket_gives_nothing),
      cmocka_unit_test(every_cut_of_a_ticket_gives_nothing),
      cmocka_unit_test(jobs_are_their_users_own),
      cmocka_unit_test(a_ticket_is_let_in_where_credentials_are_asked_for),
      cmocka_unit_test(clean_and_time_take_a_result_away),
      cmocka_unit_test(cancelling_ends_what_runs_and_keeps_what_is_over),
      cmocka_unit_test(a_client_that_goes_takes_its_job_along_unless_jobs_run_on),
      cmocka_unit_test(what_the_backend_says_fails_the_job),
      cmocka_unit_test(a_large_result_is_made_as_it_is_fetched_and_once),
      cmocka_unit_test(a_result_without_end_can_be_cancelled_while_it_is_fetched),
      cmocka_unit_test(a_failure_behind_the_kept_rows_fails_the_fetch_and_the_job),
      cmocka_unit_test(many_results_share_a_budget),
      cmocka_unit_test(results_that_nobody_fetches_are_bounded),
      cmocka_unit_test(output_is_handed_through_and_lives_as_long_as_the_job),
      cmocka_unit_test(a_job_elsewhere_fails_and_is_cancelled_like_any),
      cmocka_unit_test(where_nothing_lies_elsewhere_rows_come_from_here),
      cmocka_unit_test(sessions_are_kept_and_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
