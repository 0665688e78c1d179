/* The Spark Connect service over inproc calls and a scripted backend: what the stock client depends on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/spark_client.h"

static const char operation[] = "00112233-4455-4677-8899-aabbccddeeff";

static int set_up(void **state) {
  spark_client *client = malloc(sizeof *client);
  *state = client;
  return client_start(client, NULL);
}

static int set_up_small(void **state) {
  spark_client *client = malloc(sizeof *client);
  const trn_spark_options options = {
      .struct_size = sizeof options, .workers = 2, .detached_ms = 300, .response_log_bytes = 64 << 10};
  *state = client;
  return client_start(client, &options);
}

static int tear_down(void **state) {
  client_stop(*state);
  free(*state);
  return 0;
}

/* ---- ExecutePlan ---- */

static int64_t check_range_batches(const responses *r, size_t from, size_t to) {
  int64_t rows = 0;
  for (size_t i = from; i < to; i++) {
    const Spark__Connect__ExecutePlanResponse *item = r->items[i];
    assert_int_equal(item->response_type_case, SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_ARROW_BATCH);
    const ProtobufCBinaryData data = item->arrow_batch->data;
    assert_int_equal(item->arrow_batch->start_offset, rows);
    assert_true(data.len > 16);
    assert_memory_equal(data.data, "\xFF\xFF\xFF\xFF", 4);
    assert_memory_equal(data.data + data.len - 8, "\xFF\xFF\xFF\xFF\0\0\0\0", 8);
    rows += item->arrow_batch->row_count;
  }
  return rows;
}

static void a_query_gives_schema_batches_and_result_complete(void **state) {
  spark_client *client = *state;
  test_plan p;
  responses r = client_execute(client, range_plan(&p, 0, 20000),
                               (execute_options){.operation_id = operation, .reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_true(r.count >= 3);
  assert_non_null(r.items[0]->schema);
  assert_int_equal(r.items[0]->schema->kind_case, SPARK__CONNECT__DATA_TYPE__KIND_STRUCT);
  assert_string_equal(r.items[0]->schema->struct_->fields[0]->name, "id");
  assert_int_equal(check_range_batches(&r, 1, r.count - 1), 20000);
  assert_int_equal(r.items[r.count - 1]->response_type_case,
                   SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_RESULT_COMPLETE);
  for (size_t i = 0; i < r.count; i++) {
    assert_string_equal(r.items[i]->session_id, client->session_id);
    assert_string_equal(r.items[i]->operation_id, operation);
    assert_int_equal(strlen(r.items[i]->response_id), 36);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(r.items[i]->response_id, r.items[j]->response_id);
  }
  responses_finish(&r);
}

static void without_reattach_the_stream_just_ends(void **state) {
  test_plan p;
  responses r = client_execute(*state, range_plan(&p, 0, 3), (execute_options){0});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(r.count, 2);
  assert_int_equal(check_range_batches(&r, 1, 2), 3);
  responses_finish(&r);
}

static void an_empty_result_still_has_one_batch(void **state) {
  test_plan p;
  responses r = client_execute(*state, range_plan(&p, 5, 5), (execute_options){.reattachable = true});
  assert_int_equal(r.count, 3);
  assert_int_equal(r.items[1]->response_type_case, SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_ARROW_BATCH);
  assert_int_equal(r.items[1]->arrow_batch->row_count, 0);
  assert_true(r.items[1]->arrow_batch->data.len > 16);
  responses_finish(&r);
}

static void large_batches_are_cut_into_chunks_as_asked(void **state) {
  test_plan p;
  responses r =
      client_execute(*state, range_plan(&p, 0, 8000), (execute_options){.chunks = true, .chunk_bytes = 10000});
  assert_int_equal(r.reply.status, TRN_OK);
  size_t total = 0;
  int64_t chunks = r.items[1]->arrow_batch->num_chunks_in_batch;
  assert_true(chunks > 1);
  assert_int_equal(r.count, (size_t)chunks + 1);
  for (int64_t i = 0; i < chunks; i++) {
    const Spark__Connect__ExecutePlanResponse__ArrowBatch *batch = r.items[i + 1]->arrow_batch;
    assert_int_equal(batch->row_count, 8000);
    assert_int_equal(batch->start_offset, 0);
    assert_int_equal(batch->chunk_index, i);
    assert_int_equal(batch->num_chunks_in_batch, chunks);
    assert_true(batch->data.len <= 10000);
    total += batch->data.len;
  }
  responses whole = client_execute(*state, range_plan(&p, 0, 8000), (execute_options){0});
  assert_int_equal(total, whole.items[1]->arrow_batch->data.len);
  assert_false(whole.items[1]->arrow_batch->_num_chunks_in_batch_case);
  responses_finish(&whole);
  responses_finish(&r);
}

static void a_plan_without_anything_is_refused_as_spark_does(void **state) {
  test_plan p;
  spark__connect__plan__init(&p.plan);
  responses r = client_execute(*state, &p.plan, (execute_options){0});
  assert_int_equal(r.reply.status, TRN_INTERNAL);
  assert_true(has_condition(&r.reply, "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET"));
  assert_non_null(strstr(r.reply.message, "spark.connect.Plan is not set: OPTYPE_NOT_SET SQLSTATE: 56K00"));
  responses_finish(&r);
  spark__connect__relation__init(&p.relation);
  r = client_execute(*state, plan_of_relation(&p), (execute_options){0});
  assert_non_null(strstr(r.reply.message, "spark.connect.Relation is not set: RELTYPE_NOT_SET"));
  responses_finish(&r);
}

static void bad_ids_and_tags_are_refused(void **state) {
  test_plan p;
  responses r = client_execute(*state, range_plan(&p, 0, 1), (execute_options){.operation_id = "abc"});
  assert_true(has_condition(&r.reply, "INVALID_HANDLE.FORMAT"));
  responses_finish(&r);
  r = client_execute(*state, range_plan(&p, 0, 1), (execute_options){.tag = "a,b"});
  assert_string_equal(r.reply.message, "Spark Connect tag cannot contain ','.");
  char *classes = details_value(&r.reply, "classes", NULL);
  assert_non_null(strstr(classes, "java.lang.IllegalArgumentException"));
  free(classes);
  responses_finish(&r);
}

/* ---- errors ---- */

static void a_failure_carries_spark_s_classes_and_its_details_can_be_fetched(void **state) {
  spark_client *client = *state;
  const trn_script script = {.execute_status = TRN_INVALID_ARGUMENT, .condition = "DIVIDE_BY_ZERO", .message = "x"};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  responses r =
      client_execute(client, range_plan(&p, 0, 1), (execute_options){.operation_id = operation, .reattachable = true});
  assert_int_equal(r.reply.status, TRN_INTERNAL);
  assert_true(has_condition(&r.reply, "DIVIDE_BY_ZERO"));
  char *message, *classes = details_value(&r.reply, "classes", &message),
                 *id = details_value(&r.reply, "errorId", NULL);
  char *sqlstate = details_value(&r.reply, "sqlState", NULL);
  assert_string_equal(message, r.reply.message); /* or the client raises ValueError */
  assert_string_equal(sqlstate, "22012");
  assert_non_null(strstr(classes, "[\"org.apache.spark.SparkArithmeticException\",\"java.lang.ArithmeticException\""));
  /* A call that reattaches gets the same end. */
  responses again = client_reattach(client, operation, NULL);
  assert_true(has_condition(&again.reply, "DIVIDE_BY_ZERO"));
  responses_finish(&again);
  Spark__Connect__FetchErrorDetailsRequest request = SPARK__CONNECT__FETCH_ERROR_DETAILS_REQUEST__INIT;
  request.session_id = client->session_id;
  request.error_id = id;
  Spark__Connect__FetchErrorDetailsResponse *details =
      client_ask(client, "FetchErrorDetails", &request, &spark__connect__fetch_error_details_response__descriptor);
  assert_int_equal(details->n_errors, 1);
  assert_true(details->_root_error_idx_case);
  assert_string_equal(details->errors[0]->error_type_hierarchy[0], "org.apache.spark.SparkArithmeticException");
  assert_string_equal(details->errors[0]->message, message);
  assert_string_equal(details->errors[0]->spark_throwable->error_class, "DIVIDE_BY_ZERO");
  spark__connect__fetch_error_details_response__free_unpacked(details, NULL);
  request.error_id = (char *)operation;
  details =
      client_ask(client, "FetchErrorDetails", &request, &spark__connect__fetch_error_details_response__descriptor);
  assert_int_equal(details->n_errors, 0);
  spark__connect__fetch_error_details_response__free_unpacked(details, NULL);
  free(message), free(classes), free(id), free(sqlstate);
  responses_finish(&r);
}

static void a_failure_in_the_middle_comes_behind_the_rows(void **state) {
  spark_client *client = *state;
  const trn_script script = {.fail_status = TRN_INTERNAL, .fail_at = 1, .message = "the disk is on fire"};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  responses r = client_execute(client, range_plan(&p, 0, 20000), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_INTERNAL);
  assert_non_null(strstr(r.reply.message, "the disk is on fire"));
  assert_int_equal(r.count, 2); /* schema, one batch, no result_complete */
  responses_finish(&r);
}

static void a_parse_error_shows_the_text(void **state) {
  test_plan p;
  responses r = client_execute(*state, sql_plan(&p, "selec 1"), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_INTERNAL);
  assert_string_equal(r.reply.message, "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 "
                                       "(line 1, pos 0)\n\n== SQL ==\nselec 1\n^^^\n");
  char *classes = details_value(&r.reply, "classes", NULL);
  assert_non_null(strstr(
      classes, "[\"org.apache.spark.sql.catalyst.parser.ParseException\",\"org.apache.spark.sql.AnalysisException\""));
  free(classes);
  responses_finish(&r);
}

static void artifacts_are_drained_and_refused(void **state) {
  spark_client *client = *state;
  const trn_inproc_request call = {.path = SPARK_TEST_PATH "AddArtifacts"};
  char bytes[1000] = {0};
  trn_slice parts[50];
  for (size_t i = 0; i < 50; i++) parts[i] = (trn_slice){bytes, sizeof bytes, NULL, NULL};
  trn_inproc_reply reply;
  assert_int_equal(trn__inproc_invoke(client->inproc, &call, parts, 50, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_INTERNAL);
  assert_string_equal(reply.message, "AddArtifacts is not supported by this server.");
  trn__inproc_reply_finish(&reply);
}

/* ---- reattach ---- */

static void reattach_replays_what_follows_a_response(void **state) {
  spark_client *client = *state;
  test_plan p;
  responses first = client_execute(client, range_plan(&p, 0, 20000),
                                   (execute_options){.operation_id = operation, .reattachable = true});
  responses all = client_reattach(client, operation, NULL);
  assert_int_equal(all.count, first.count);
  for (size_t i = 0; i < all.count; i++) assert_string_equal(all.items[i]->response_id, first.items[i]->response_id);
  responses_finish(&all);
  responses rest = client_reattach(client, operation, first.items[1]->response_id);
  assert_int_equal(rest.count, first.count - 2);
  assert_string_equal(rest.items[0]->response_id, first.items[2]->response_id);
  responses_finish(&rest);
  /* The last that was released is where a client goes on. */
  assert_true(client_release(client, operation, first.items[1]->response_id));
  rest = client_reattach(client, operation, first.items[1]->response_id);
  assert_int_equal(rest.count, first.count - 2);
  responses_finish(&rest);
  rest = client_reattach(client, operation, NULL);
  assert_true(has_condition(&rest.reply, "INVALID_CURSOR.POSITION_NOT_AVAILABLE"));
  responses_finish(&rest);
  rest = client_reattach(client, operation, operation);
  assert_true(has_condition(&rest.reply, "INVALID_CURSOR.POSITION_NOT_FOUND"));
  responses_finish(&rest);
  assert_true(client_release(client, operation, NULL));
  assert_false(client_release(client, operation, NULL));
  rest = client_reattach(client, operation, NULL);
  assert_true(has_condition(&rest.reply, "INVALID_HANDLE.OPERATION_NOT_FOUND"));
  responses_finish(&rest);
  responses_finish(&first);
}

static void a_used_operation_id_runs_again(void **state) {
  test_plan p;
  for (int i = 0; i < 2; i++) {
    responses r = client_execute(*state, range_plan(&p, 0, 7),
                                 (execute_options){.operation_id = operation, .reattachable = true});
    assert_int_equal(r.reply.status, TRN_OK);
    assert_int_equal(r.count, 3);
    responses_finish(&r);
  }
}

static void a_client_that_never_releases_can_go_on(void **state) {
  test_plan p;
  for (int i = 0; i < TRN_OPERATIONS_PER_SESSION_MAX + 5; i++) {
    responses r = client_execute(*state, range_plan(&p, 0, 1), (execute_options){.reattachable = true});
    assert_int_equal(r.reply.status, TRN_OK);
    responses_finish(&r);
  }
}

static void reattach_in_an_unknown_session_says_so(void **state) {
  responses r = client_reattach(*state, operation, NULL);
  assert_true(has_condition(&r.reply, "INVALID_HANDLE.SESSION_NOT_FOUND"));
  responses_finish(&r);
}

static void a_second_reader_takes_over(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_hanging = true, .hang_at = 1};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch one, two;
  watch_start(client, &one, "ExecutePlan",
              execute_slice(client, range_plan(&p, 0, 20000),
                            (execute_options){.operation_id = operation, .reattachable = true}),
              false);
  assert_true(watch_wait(&one, 2));
  watch_start(client, &two, "ReattachExecute", reattach_slice(client, operation, NULL), false);
  assert_true(watch_wait(&one, 0));
  assert_int_equal(one.status, TRN_INTERNAL);
  assert_non_null(strstr(one.text, "INVALID_CURSOR.DISCONNECTED"));
  assert_true(watch_wait(&two, 2));
  assert_true(client_release(client, operation, NULL));
  assert_true(watch_wait(&two, 0));
  watch_end(&one);
  watch_end(&two);
}

static int set_up_short(void **state) {
  spark_client *client = malloc(sizeof *client);
  const trn_spark_options options = {.struct_size = sizeof options, .stream_ms = 300};
  *state = client;
  return client_start(client, &options);
}

static void a_stream_that_is_open_for_long_is_ended_to_be_resumed(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_hanging = true, .hang_at = 1};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  responses r = client_execute(client, range_plan(&p, 0, 20000),
                               (execute_options){.operation_id = operation, .reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK); /* and no result_complete: the client goes on */
  assert_int_equal(r.count, 2);
  responses rest = client_reattach(client, operation, r.items[1]->response_id);
  assert_int_equal(rest.reply.status, TRN_OK);
  assert_int_equal(rest.count, 0);
  responses_finish(&rest);
  responses_finish(&r);
  assert_true(client_release(client, operation, NULL));
}

/* ---- the log ---- */

static void a_reader_that_does_not_read_pauses_the_source(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_endless = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch w;
  watch_start(client, &w, "ExecutePlan",
              execute_slice(client, range_plan(&p, 0, 2000),
                            (execute_options){.operation_id = operation, .reattachable = true}),
              true);
  uint64_t before, pulls = 0;
  do { /* until nothing is pulled for a while */
    before = pulls;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    pulls = trn__scripted_count(client->scripted).pulls;
  } while (pulls != before || pulls == 0);
  assert_in_range(pulls, 1, 40); /* 16 KB each against a log of 64 KiB */
  assert_true(client_release(client, operation, NULL));
  trn__inproc_call_cancel(w.call);
  assert_true(watch_wait(&w, 0));
  WAIT_UNTIL(trn__scripted_count(client->scripted).streams_closed == 1);
  assert_int_equal(trn__scripted_count(client->scripted).streams_closed, 1);
  watch_end(&w);
}

static void a_reader_that_reads_gets_everything_although_the_log_is_small(void **state) {
  test_plan p;
  responses r = client_execute(*state, range_plan(&p, 0, 200000), (execute_options){0});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(check_range_batches(&r, 1, r.count), 200000);
  responses_finish(&r);
}

static void a_reader_that_never_releases_gets_everything_too(void **state) {
  test_plan p;
  responses r = client_execute(*state, range_plan(&p, 0, 200000), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(check_range_batches(&r, 1, r.count - 1), 200000);
  responses_finish(&r);
}

static void an_operation_nobody_reads_is_abandoned(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_hanging = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch w;
  watch_start(
      client, &w, "ExecutePlan",
      execute_slice(client, range_plan(&p, 0, 10), (execute_options){.operation_id = operation, .reattachable = true}),
      false);
  assert_true(watch_wait(&w, 1));
  trn__inproc_call_cancel(w.call);
  WAIT_UNTIL(trn__scripted_count(client->scripted).streams_closed == 1);
  assert_int_equal(trn__scripted_count(client->scripted).streams_closed, 1);
  responses r = client_reattach(client, operation, NULL);
  assert_true(has_condition(&r.reply, "INVALID_HANDLE.OPERATION_NOT_FOUND"));
  responses_finish(&r);
  watch_end(&w);
}

static void the_end_of_a_call_that_cannot_reattach_cancels_the_query(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_hanging = true, .hang_at = 1};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch w;
  watch_start(client, &w, "ExecutePlan", execute_slice(client, range_plan(&p, 0, 20000), (execute_options){0}), false);
  assert_true(watch_wait(&w, 2));
  trn__inproc_call_cancel(w.call);
  WAIT_UNTIL(trn__scripted_count(client->scripted).streams_closed == 1);
  assert_int_equal(trn__scripted_count(client->scripted).streams_closed, 1);
  watch_end(&w);
}

/* ---- interrupt, status ---- */

static Spark__Connect__InterruptResponse *interrupt(spark_client *client, const char *tag, const char *id) {
  Spark__Connect__InterruptRequest request = SPARK__CONNECT__INTERRUPT_REQUEST__INIT;
  request.session_id = client->session_id;
  request.interrupt_type = tag  ? SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_TAG
                           : id ? SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_OPERATION_ID
                                : SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_ALL;
  if (tag) {
    request.interrupt_case = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_OPERATION_TAG;
    request.operation_tag = (char *)tag;
  } else if (id) {
    request.interrupt_case = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_OPERATION_ID;
    request.operation_id = (char *)id;
  }
  return client_ask(client, "Interrupt", &request, &spark__connect__interrupt_response__descriptor);
}

static size_t interrupt_count(spark_client *client, const char *tag, const char *id) {
  Spark__Connect__InterruptResponse *reply = interrupt(client, tag, id);
  assert_non_null(reply);
  size_t count = reply->n_interrupted_ids;
  spark__connect__interrupt_response__free_unpacked(reply, NULL);
  return count;
}

static int status_of(spark_client *client, const char *id) {
  Spark__Connect__GetStatusRequest request = SPARK__CONNECT__GET_STATUS_REQUEST__INIT;
  Spark__Connect__GetStatusRequest__OperationStatusRequest ask =
      SPARK__CONNECT__GET_STATUS_REQUEST__OPERATION_STATUS_REQUEST__INIT;
  request.session_id = client->session_id;
  request._operation_status_case = SPARK__CONNECT__GET_STATUS_REQUEST___OPERATION_STATUS_OPERATION_STATUS;
  request.operation_status = &ask;
  Spark__Connect__GetStatusResponse *reply =
      client_ask(client, "GetStatus", &request, &spark__connect__get_status_response__descriptor);
  int state = 0;
  for (size_t i = 0; i < reply->n_operation_statuses; i++)
    if (strcmp(reply->operation_statuses[i]->operation_id, id) == 0) state = reply->operation_statuses[i]->state;
  spark__connect__get_status_response__free_unpacked(reply, NULL);
  return state;
}

static void interrupt_ends_a_running_query_and_names_it(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_hanging = true, .hang_at = 1};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch w;
  watch_start(client, &w, "ExecutePlan",
              execute_slice(client, range_plan(&p, 0, 20000),
                            (execute_options){.operation_id = operation, .tag = "mine", .reattachable = true}),
              false);
  assert_true(watch_wait(&w, 2));
  assert_int_equal(status_of(client, operation), 2);
  assert_int_equal(interrupt_count(client, "other", NULL), 0);
  assert_int_equal(interrupt_count(client, NULL, client->session_id), 0);
  assert_int_equal(interrupt_count(client, "mine", NULL), 1);
  assert_true(watch_wait(&w, 0));
  assert_int_equal(w.status, TRN_INTERNAL);
  assert_non_null(strstr(w.text, "[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008"));
  assert_int_equal(status_of(client, operation), 6);
  assert_int_equal(interrupt_count(client, NULL, NULL), 0); /* only what runs */
  assert_true(client_release(client, operation, NULL));
  assert_int_equal(status_of(client, operation), 6);
  watch_end(&w);
}

static void interrupt_ends_a_paused_query(void **state) {
  spark_client *client = *state;
  const trn_script script = {.is_endless = true};
  assert_int_equal(trn__scripted_on(client->scripted, NULL, &script), TRN_OK);
  test_plan p;
  watch w;
  watch_start(client, &w, "ExecutePlan",
              execute_slice(client, range_plan(&p, 0, 20000),
                            (execute_options){.operation_id = operation, .reattachable = true}),
              true);
  uint64_t before, pulls = 0;
  do {
    before = pulls;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    pulls = trn__scripted_count(client->scripted).pulls;
  } while (pulls != before || pulls == 0);
  assert_int_equal(interrupt_count(client, NULL, operation), 1);
  trn__inproc_call_read(w.call, 10000);
  assert_true(watch_wait(&w, 0));
  assert_non_null(strstr(w.text, "OPERATION_CANCELED"));
  watch_end(&w);
}

/* A handler that keeps a worker until it is let go: a plan that takes long. */
typedef struct slow_planner {
  atomic_int entered;
  atomic_bool go;
} slow_planner;

static trn_status plan_slowly(void *user, trn_session *session, trn_plan *plan, trn_script *script) {
  slow_planner *slow = user;
  (void)session, (void)plan, (void)script;
  atomic_fetch_add(&slow->entered, 1);
  WAIT_UNTIL(atomic_load(&slow->go));
  return TRN_UNIMPLEMENTED; /* as usual, then */
}

static void plans_that_take_long_leave_the_rest_answering(void **state) {
  spark_client *client = *state;
  slow_planner slow = {0};
  trn__scripted_on_plan(client->scripted, plan_slowly, &slow);
  watch calls[4]; /* two workers */
  test_plan p;
  for (size_t i = 0; i < 4; i++)
    watch_start(client, &calls[i], "ExecutePlan",
                execute_slice(client, range_plan(&p, 0, 10), (execute_options){.reattachable = true}), false);
  WAIT_UNTIL(atomic_load(&slow.entered) == 2);
  assert_int_equal(atomic_load(&slow.entered), 2);
  assert_int_equal(status_of(client, operation), 0); /* answered */
  assert_int_equal(interrupt_count(client, NULL, NULL), 2);
  atomic_store(&slow.go, true);
  size_t cancelled = 0;
  for (size_t i = 0; i < 4; i++) {
    assert_true(watch_wait(&calls[i], 0));
    cancelled += calls[i].status == TRN_INTERNAL && strstr(calls[i].text, "OPERATION_CANCELED");
    watch_end(&calls[i]);
  }
  assert_int_equal(cancelled, 2);
}

/* ---- commands ---- */

static void a_query_text_comes_back_to_be_run_later(void **state) {
  test_plan p;
  responses r = client_execute(*state, sql_plan(&p, "select 1 as one"), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(r.count, 2);
  assert_int_equal(r.items[0]->response_type_case,
                   SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_SQL_COMMAND_RESULT);
  const Spark__Connect__Relation *relation = r.items[0]->sql_command_result->relation;
  assert_int_equal(relation->rel_type_case, SPARK__CONNECT__RELATION__REL_TYPE_SQL);
  assert_string_equal(relation->sql->query, "select 1 as one");
  assert_int_equal(relation->common->plan_id, 77);
  responses_finish(&r);
}

static void a_command_text_runs_now_and_gives_its_rows(void **state) {
  test_plan p;
  responses r = client_execute(*state, sql_plan(&p, "set spark.sql.shuffle.partitions = 5"),
                               (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  const Spark__Connect__Relation *relation = r.items[0]->sql_command_result->relation;
  assert_int_equal(relation->rel_type_case, SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION);
  const ProtobufCBinaryData data = relation->local_relation->data;
  assert_non_null(memmem(data.data, data.len, "spark.sql.shuffle.partitions", 28));
  responses_finish(&r);
  r = client_execute(*state, sql_plan(&p, "set spark.sql.warehouse.dir = x"), (execute_options){0});
  assert_true(has_condition(&r.reply, "CANNOT_MODIFY_STATIC_CONFIG"));
  responses_finish(&r);
}

static void a_command_that_is_not_served_is_refused_by_name(void **state) {
  test_plan p;
  spark__connect__plan__init(&p.plan);
  spark__connect__command__init(&p.command);
  Spark__Connect__MergeIntoTableCommand merge = SPARK__CONNECT__MERGE_INTO_TABLE_COMMAND__INIT;
  p.command.command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_MERGE_INTO_TABLE_COMMAND;
  p.command.merge_into_table_command = &merge;
  p.plan.op_type_case = SPARK__CONNECT__PLAN__OP_TYPE_COMMAND;
  p.plan.command = &p.command;
  responses r = client_execute(*state, &p.plan, (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_INTERNAL); /* never UNAVAILABLE: clients would try for ten minutes */
  assert_non_null(strstr(r.reply.message, "spark.connect.Command is not supported: merge_into_table_command(16)"));
  responses_finish(&r);
}

static Spark__Connect__Plan *view_plan(test_plan *p, const char *name, bool replace) {
  range_plan(p, 0, 3);
  spark__connect__command__init(&p->command);
  spark__connect__create_data_frame_view_command__init(&p->view);
  p->view.input = &p->relation;
  p->view.name = (char *)name;
  p->view.replace = replace;
  p->command.command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW;
  p->command.create_dataframe_view = &p->view;
  p->plan.op_type_case = SPARK__CONNECT__PLAN__OP_TYPE_COMMAND;
  p->plan.command = &p->command;
  return &p->plan;
}

static int64_t listed_tables(spark_client *client) {
  test_plan p;
  Spark__Connect__ListTables list = SPARK__CONNECT__LIST_TABLES__INIT;
  spark__connect__relation__init(&p.relation);
  spark__connect__catalog__init(&p.catalog);
  p.catalog.cat_type_case = SPARK__CONNECT__CATALOG__CAT_TYPE_LIST_TABLES;
  p.catalog.list_tables = &list;
  p.relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_CATALOG;
  p.relation.catalog = &p.catalog;
  responses r = client_execute(client, plan_of_relation(&p), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(r.count, 3);
  assert_int_equal(r.items[0]->schema->struct_->n_fields, 6);
  int64_t rows = r.items[1]->arrow_batch->row_count;
  responses_finish(&r);
  return rows;
}

static void views_are_made_listed_cloned_and_dropped(void **state) {
  spark_client *client = *state;
  test_plan p;
  assert_int_equal(listed_tables(client), 0);
  responses r = client_execute(client, view_plan(&p, "V1", false), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(r.count, 1); /* only result_complete */
  responses_finish(&r);
  r = client_execute(client, view_plan(&p, "v1", false), (execute_options){0});
  assert_true(has_condition(&r.reply, "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"));
  responses_finish(&r);
  assert_int_equal(listed_tables(client), 1);
  Spark__Connect__CloneSessionRequest request = SPARK__CONNECT__CLONE_SESSION_REQUEST__INIT;
  request.session_id = client->session_id;
  Spark__Connect__CloneSessionResponse *clone =
      client_ask(client, "CloneSession", &request, &spark__connect__clone_session_response__descriptor);
  assert_non_null(clone);
  r = client_execute(client, sql_plan(&p, "drop view v1"), (execute_options){0});
  assert_int_equal(r.reply.status, TRN_OK);
  responses_finish(&r);
  assert_int_equal(listed_tables(client), 0);
  memcpy(client->session_id, clone->new_session_id, TRN_UUID_SIZE);
  assert_int_equal(listed_tables(client), 1);
  spark__connect__clone_session_response__free_unpacked(clone, NULL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, set_up_small, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_query_gives_schema_batches_and_result_complete),
      TEST(without_reattach_the_stream_just_ends),
      TEST(an_empty_result_still_has_one_batch),
      TEST(large_batches_are_cut_into_chunks_as_asked),
      TEST(a_plan_without_anything_is_refused_as_spark_does),
      TEST(bad_ids_and_tags_are_refused),
      TEST(a_failure_carries_spark_s_classes_and_its_details_can_be_fetched),
      TEST(a_failure_in_the_middle_comes_behind_the_rows),
      TEST(a_parse_error_shows_the_text),
      TEST(artifacts_are_drained_and_refused),
      TEST(reattach_replays_what_follows_a_response),
      TEST(a_used_operation_id_runs_again),
      TEST(a_client_that_never_releases_can_go_on),
      TEST(reattach_in_an_unknown_session_says_so),
      TEST(a_second_reader_takes_over),
      cmocka_unit_test_setup_teardown(a_stream_that_is_open_for_long_is_ended_to_be_resumed, set_up_short, tear_down),
      SMALL(a_reader_that_does_not_read_pauses_the_source),
      SMALL(a_reader_that_reads_gets_everything_although_the_log_is_small),
      SMALL(a_reader_that_never_releases_gets_everything_too),
      SMALL(an_operation_nobody_reads_is_abandoned),
      TEST(the_end_of_a_call_that_cannot_reattach_cancels_the_query),
      TEST(interrupt_ends_a_running_query_and_names_it),
      SMALL(interrupt_ends_a_paused_query),
      SMALL(plans_that_take_long_leave_the_rest_answering),
      TEST(a_query_text_comes_back_to_be_run_later),
      TEST(a_command_text_runs_now_and_gives_its_rows),
      TEST(a_command_that_is_not_served_is_refused_by_name),
      TEST(views_are_made_listed_cloned_and_dropped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
