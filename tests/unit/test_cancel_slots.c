/* Every slot of a backend that may block hears that nobody wants its answer: a backend each of whose slots waits until it
 * is told to stop, reached by calls that vanish and by calls whose time is over, in each protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/query.h"
#include "support/ballista_caller.h"
#include "support/spark_client.h"
#include <trunnion/layer.h>
#include <trunnion/registry.h>

/* ---- the backend ---- */

typedef enum slot { SLOT_NONE, SLOT_EXPLAIN, SLOT_DECODE, SLOT_ENCODE, SLOT_SOURCE, SLOT_CHECK, SLOT_EXECUTE } slot;

static atomic_int waits; /* the slot that waits */
static atomic_int entered, left, unheard;
static trn_cancel *seen; /* what the last slot's thread worked for */

static trn_status pass(slot which, trn_error **error) {
  trn_cancel *cancel = seen = trn_cancel_of_work();
  if (atomic_load(&waits) != (int)which) return TRN_OK;
  atomic_fetch_add(&entered, 1);
  WAIT_UNTIL(trn_cancel_is_requested(cancel));
  bool heard = trn_cancel_is_requested(cancel);
  if (!heard) atomic_fetch_add(&unheard, 1);
  atomic_fetch_add(&left, 1);
  return heard ? trn__cancelled(error) : trn_error_set(error, TRN_INTERNAL, NULL, "nobody cancelled");
}

static trn_status open_session(void *self, trn_session *session, void **state, trn_error **error) {
  (void)session, (void)error;
  *state = self;
  return TRN_OK;
}

static trn_status execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  (void)self, (void)state, (void)out;
  trn_status status = pass(SLOT_EXECUTE, error);
  if (!status && request->cancel != seen) status = trn_error_set(error, TRN_INTERNAL, NULL, "two tokens");
  return status ? status : trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "nothing runs here");
}

static trn_status explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  (void)self, (void)state, (void)plan, (void)mode;
  trn_status status = pass(SLOT_EXPLAIN, error);
  if (!status && !(*out = strdup("a plan"))) status = TRN_RESOURCE_EXHAUSTED;
  return status;
}

static trn_status decode(void *self, void *state, const trn_plan_input *input, trn_plan **out, trn_error **error) {
  int64_t count = 3;
  (void)self, (void)state;
  trn_status status = pass(SLOT_DECODE, error);
  if (!status && input->cancel != seen) status = trn_error_set(error, TRN_INTERNAL, NULL, "two tokens");
  return status ? status : trn_plan_build(caller_build, &count, out, error);
}

static trn_status encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  (void)self, (void)state, (void)plan, (void)format, (void)out;
  return pass(SLOT_ENCODE, error);
}

static trn_status open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  (void)self, (void)state, (void)request, (void)out, (void)schema;
  trn_status status = pass(SLOT_SOURCE, error);
  return status ? status : trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "there are no files here");
}

static trn_source *source_ref(void *self, trn_source *source) {
  (void)self;
  return source;
}

static void source_unref(void *self, trn_source *source) {
  (void)self, (void)source;
}

static trn_status check(void *self, void *state, trn_plan *plan, trn_error **error) {
  (void)self, (void)state, (void)plan;
  return pass(SLOT_CHECK, error);
}

static trn_backend *waiter(void) {
  static const trn_backend_ops ops = {.struct_size = sizeof ops,
                                      .open_session = open_session,
                                      .execute = execute,
                                      .explain = explain,
                                      .decode = decode,
                                      .encode = encode,
                                      .open_source = open_source,
                                      .source_ref = source_ref,
                                      .source_unref = source_unref,
                                      .check = check};
  static int nothing;
  trn_backend *backend = NULL;
  assert_int_equal(trn_backend_create(&ops, &nothing, &backend), TRN_OK);
  return backend;
}

/* ---- the token of a thread ---- */

typedef struct direct {
  trn_backend *backend;
  trn_session *session;
  trn_plan *plan;
  trn_cancel *cancel;
} direct;

static void direct_start(direct *d) {
  const trn_session_request who = {.struct_size = sizeof who, .user = "u"};
  int64_t count = 3;
  atomic_store(&waits, SLOT_NONE);
  d->backend = waiter();
  assert_int_equal(trn_session_open(d->backend, &who, &d->session, NULL), TRN_OK);
  assert_int_equal(trn_plan_build(caller_build, &count, &d->plan, NULL), TRN_OK);
  assert_int_equal(trn_cancel_create(&d->cancel), TRN_OK);
}

static void direct_stop(direct *d) {
  trn_cancel_unref(d->cancel);
  trn_plan_unref(d->plan);
  trn_session_unref(d->session);
  trn_backend_unref(d->backend);
}

static trn_status ask(direct *d, slot which, trn_cancel *own, trn_error **error) {
  trn_statement statement;
  trn_operation *operation;
  trn_source *source;
  struct ArrowSchema schema;
  trn_bytes bytes;
  char *text = NULL;
  trn_status status;
  const trn_execute_request run = {.struct_size = sizeof run, .plan = d->plan, .cancel = own};
  const trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = "x", .size = 1, .cancel = own};
  const trn_source_request files = {.struct_size = sizeof files, .format = "parquet"};
  switch (which) {
  case SLOT_EXPLAIN:
    status = trn_backend_explain(d->session, d->plan, TRN_EXPLAIN_LOGICAL, &text, error);
    free(text);
    return status;
  case SLOT_DECODE:
    status = trn_backend_decode_statement(d->session, &input, &statement, error);
    if (!status) statement.release(&statement);
    return status;
  case SLOT_ENCODE: return trn_backend_encode(d->session, d->plan, "substrait.plan.v1", &bytes, error);
  case SLOT_SOURCE: return trn_backend_open_source(d->session, &files, &source, &schema, error);
  case SLOT_CHECK: return trn_backend_check(d->session, d->plan, error);
  default: return trn_backend_execute(d->session, &run, &operation, error);
  }
}

static void what_a_thread_works_for_reaches_every_slot(void **state) {
  (void)state;
  direct d;
  direct_start(&d);
  for (slot which = SLOT_EXPLAIN; which <= SLOT_EXECUTE; which++) {
    trn_error *error = NULL;
    assert_null(trn_cancel_work_for(d.cancel));
    trn_status status = ask(&d, which, NULL, &error);
    assert_true(status == TRN_OK || status == TRN_UNIMPLEMENTED);
    assert_ptr_equal(seen, d.cancel);
    assert_ptr_equal(trn_cancel_work_for(NULL), d.cancel);
    assert_null(trn_cancel_of_work());
    trn_error_unref(error);
  }
  direct_stop(&d);
}

static void a_token_of_a_request_is_what_its_thread_works_for(void **state) {
  (void)state;
  direct d;
  trn_cancel *other = NULL;
  direct_start(&d);
  assert_int_equal(trn_cancel_create(&other), TRN_OK);
  trn_cancel_work_for(other);
  ask(&d, SLOT_EXECUTE, d.cancel, NULL);
  assert_ptr_equal(seen, d.cancel);
  ask(&d, SLOT_DECODE, d.cancel, NULL);
  assert_ptr_equal(seen, d.cancel);
  assert_ptr_equal(trn_cancel_work_for(NULL), other); /* as it was */
  trn_cancel_unref(other);
  direct_stop(&d);
}

static void nothing_begins_for_what_is_cancelled(void **state) {
  (void)state;
  direct d;
  direct_start(&d);
  trn_cancel_request(d.cancel);
  trn_cancel_work_for(d.cancel);
  for (slot which = SLOT_EXPLAIN; which <= SLOT_EXECUTE; which++) {
    trn_error *error = NULL;
    seen = NULL;
    assert_int_equal(ask(&d, which, NULL, &error), TRN_CANCELLED);
    assert_non_null(error);
    assert_null(seen);
    trn_error_unref(error);
  }
  trn_cancel_work_for(NULL);
  direct_stop(&d);
}

/* ---- calls ---- */

typedef struct fixture {
  spark_client spark;
  flight_client flight;
  ballista_caller ballista;
  trn_registry *registry;
  trn_config *config;
} fixture;

static void start_through(fixture *f, const char *layer) {
  static const trn_flightsql_options engine = {.struct_size = sizeof engine};
  trn_frontend *frontend = NULL;
  trn_backend *backend = waiter(), *outer = NULL;
  memset(f, 0, sizeof *f);
  if (layer) {
    const trn_layers_options options = {.struct_size = sizeof options};
    f->config = trn_config_create();
    assert_int_equal(trn_registry_create(&f->registry), TRN_OK);
    assert_int_equal(trn_config_set(f->config, "layers[]", layer, NULL), TRN_OK);
    assert_int_equal(
        trn_layers_build(f->registry, trn_config_get(f->config, "layers"), backend, &options, &outer, NULL), TRN_OK);
    trn_backend_unref(backend);
    backend = outer;
  }
  assert_int_equal(trn_routes_create(&f->spark.routes), TRN_OK);
  assert_int_equal(trn_spark_frontend_create(NULL, &frontend), TRN_OK);
  assert_int_equal(trn_frontend_register(frontend, f->spark.routes, backend, NULL), TRN_OK);
  trn_frontend_destroy(frontend);
  assert_int_equal(trn_flightsql_frontend_create(&engine, &frontend), TRN_OK);
  assert_int_equal(trn_frontend_register(frontend, f->spark.routes, backend, NULL), TRN_OK);
  trn_frontend_destroy(frontend);
  assert_int_equal(trn__inproc_create(f->spark.routes, &f->spark.inproc), TRN_OK);
  assert_int_equal(caller_start_on(&f->ballista, NULL, backend), TRN_OK);
  trn_backend_unref(backend);
  trn__uuid4(f->spark.session_id);
  f->flight.inproc = f->spark.inproc;
}

static int start(void **state) {
  *state = calloc(1, sizeof(fixture));
  start_through(*state, NULL);
  return 0;
}

static void stop_fixture(fixture *f) {
  trn__inproc_destroy(f->spark.inproc);
  trn_routes_destroy(f->spark.routes);
  caller_stop(&f->ballista);
  trn_registry_destroy(f->registry);
  trn_config_destroy(f->config);
}

static int stop(void **state) {
  stop_fixture(*state);
  free(*state);
  return 0;
}

/* A call that is cancelled while the slot waits, then one whose time is over there; both are heard. */
static void is_heard(trn_inproc *inproc, const char *path, slot which, const void *data, size_t size) {
  static const trn_metadata version = {"ballista-version", "55.0.0", 6};
  watch w;
  atomic_store(&waits, which);
  for (int64_t timeout_ns = 0; timeout_ns <= 20000000000; timeout_ns = timeout_ns ? timeout_ns * 4 : 50000000) {
    atomic_store(&entered, 0), atomic_store(&left, 0), atomic_store(&unheard, 0);
    memset(&w, 0, sizeof w);
    pthread_mutex_init(&w.mutex, NULL);
    pthread_cond_init(&w.changed, NULL);
    const trn_inproc_request call = {.path = path,
                                     .metadata = &version,
                                     .metadata_count = 1,
                                     .timeout_ns = timeout_ns,
                                     .on_message = watch_message,
                                     .on_finish = watch_finish,
                                     .user = &w};
    assert_int_equal(trn__inproc_call(inproc, &call, &w.call), TRN_OK);
    trn__inproc_call_send(w.call, (trn_slice){.data = data, .size = size});
    trn__inproc_call_half_close(w.call);
    if (!timeout_ns) {
      WAIT_UNTIL(atomic_load(&entered) == 1);
      assert_int_equal(atomic_load(&entered), 1);
      trn__inproc_call_cancel(w.call);
    }
    assert_true(watch_wait(&w, 0));
    WAIT_UNTIL(atomic_load(&left) == atomic_load(&entered));
    assert_int_equal(atomic_load(&left), atomic_load(&entered));
    assert_int_equal(atomic_load(&unheard), 0);
    if (timeout_ns) assert_int_equal(w.status, TRN_DEADLINE_EXCEEDED);
    watch_end(&w);
    if (timeout_ns && atomic_load(&entered)) break; /* else it was over before it got there */
  }
  assert_int_equal(atomic_load(&entered), 1);
  atomic_store(&waits, SLOT_NONE);
}

static void analyze_is_heard(fixture *f, Spark__Connect__AnalyzePlanRequest *request, slot which) {
  request->session_id = f->spark.session_id;
  trn_slice bytes = pack_slice(request);
  is_heard(f->spark.inproc, SPARK_TEST_PATH "AnalyzePlan", which, bytes.data, bytes.size);
  if (bytes.release) bytes.release(bytes.owner);
}

static void explain_in_spark(fixture *f) {
  test_plan p;
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__Explain what = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__EXPLAIN__INIT;
  what.plan = range_plan(&p, 0, 10);
  what.explain_mode = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__EXPLAIN__EXPLAIN_MODE__EXPLAIN_MODE_EXTENDED;
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_EXPLAIN;
  request.explain = &what;
  analyze_is_heard(f, &request, SLOT_EXPLAIN);
}

static void spark_ends_an_explain(void **state) {
  explain_in_spark(*state);
}

static void spark_ends_a_check(void **state) {
  test_plan p;
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__Schema what = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__SCHEMA__INIT;
  what.plan = range_plan(&p, 0, 10);
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_SCHEMA;
  request.schema = &what;
  analyze_is_heard(*state, &request, SLOT_CHECK);
}

static void spark_ends_the_look_at_files(void **state) {
  test_plan p;
  char *paths[] = {(char *)"file:///nowhere"};
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Read read = SPARK__CONNECT__READ__INIT;
  Spark__Connect__Read__DataSource source = SPARK__CONNECT__READ__DATA_SOURCE__INIT;
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__Schema what = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__SCHEMA__INIT;
  range_plan(&p, 0, 10);
  source.format = (char *)"parquet";
  source._format_case = SPARK__CONNECT__READ__DATA_SOURCE___FORMAT_FORMAT;
  source.n_paths = 1;
  source.paths = paths;
  read.read_type_case = SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE;
  read.data_source = &source;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation.read = &read;
  p.plan.root = &relation;
  what.plan = &p.plan;
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_SCHEMA;
  request.schema = &what;
  analyze_is_heard(*state, &request, SLOT_SOURCE);
}

static void info_is_heard(fixture *f, trn_strbuf command, slot which) {
  trn_strbuf descriptor = flight_descriptor(&command);
  is_heard(f->flight.inproc, FLIGHT_TEST_PATH "GetFlightInfo", which, descriptor.data, descriptor.size);
  trn__strbuf_finish(&descriptor);
  trn__strbuf_finish(&command);
}

static void flight_sql_ends_the_reading_of_a_query(void **state) {
  info_is_heard(*state, flight_query("SELECT 1"), SLOT_DECODE);
}

static void flight_sql_ends_a_check(void **state) {
  info_is_heard(*state, flight_query("SELECT 1"), SLOT_CHECK);
}

static void flight_sql_ends_the_reading_of_a_plan(void **state) {
  Arrow__Flight__Protocol__Sql__SubstraitPlan plan = ARROW__FLIGHT__PROTOCOL__SQL__SUBSTRAIT_PLAN__INIT;
  Arrow__Flight__Protocol__Sql__CommandStatementSubstraitPlan message;
  arrow__flight__protocol__sql__command_statement_substrait_plan__init(&message);
  plan.plan = (ProtobufCBinaryData){1, (uint8_t *)"x"};
  message.plan = &plan;
  info_is_heard(*state, flight_command("CommandStatementSubstraitPlan", &message), SLOT_DECODE);
}

static void flight_sql_ends_the_preparing_of_a_query(void **state) {
  fixture *f = *state;
  Arrow__Flight__Protocol__Sql__ActionCreatePreparedStatementRequest message;
  arrow__flight__protocol__sql__action_create_prepared_statement_request__init(&message);
  message.query = (char *)"SELECT 1";
  trn_strbuf body = flight_command("ActionCreatePreparedStatementRequest", &message), bytes = {0};
  Arrow__Flight__Protocol__Action action = ARROW__FLIGHT__PROTOCOL__ACTION__INIT;
  action.type = (char *)"CreatePreparedStatement";
  action.body = (ProtobufCBinaryData){body.size, (uint8_t *)body.data};
  flight__message_put(&bytes, &action.base);
  is_heard(f->flight.inproc, FLIGHT_TEST_PATH "DoAction", SLOT_DECODE, bytes.data, bytes.size);
  trn__strbuf_finish(&bytes);
  trn__strbuf_finish(&body);
}

static void ballista_is_heard(fixture *f, const char *path, const char *plan, size_t size, slot which) {
  Ballista__Protobuf__ExecuteQueryParams params;
  ballista__protobuf__execute_query_params__init(&params);
  trn_strbuf bytes = {0};
  params.query_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_LOGICAL_PLAN;
  params.logical_plan = (ProtobufCBinaryData){size, (uint8_t *)plan};
  flight__message_put(&bytes, &params.base);
  is_heard(f->ballista.flight.inproc, path, which, bytes.data, bytes.size);
  trn__strbuf_finish(&bytes);
}

static const char EXPLAINED[] = "\x62\x05\x0a\x03\x52\x01"; /* explain{input}; with its last byte, a zero */

static void ballista_ends_the_reading_of_a_plan(void **state) {
  ballista_is_heard(*state, BALLISTA_TEST_PATH "ExecuteQuery", EXPLAINED + 4, 3, SLOT_DECODE);
  ballista_is_heard(*state, BALLISTA_TEST_PATH "ExecuteQueryPush", EXPLAINED + 4, 3, SLOT_DECODE);
}

static void ballista_ends_an_explain(void **state) {
  ballista_is_heard(*state, BALLISTA_TEST_PATH "ExecuteQueryPush", EXPLAINED, sizeof EXPLAINED, SLOT_EXPLAIN);
}

static void ballista_ends_a_check(void **state) {
  ballista_is_heard(*state, BALLISTA_TEST_PATH "ExecuteQuery", EXPLAINED, sizeof EXPLAINED, SLOT_CHECK);
}

static void every_layer_lets_the_wish_through(void **state) {
  static const char *const layers[] = {"trace", "validate", "cache", "limit"};
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    fixture f;
    start_through(&f, layers[i]);
    explain_in_spark(&f);
    info_is_heard(&f, flight_query("SELECT 1"), SLOT_DECODE);
    stop_fixture(&f);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_thread_works_for_reaches_every_slot),
      cmocka_unit_test(a_token_of_a_request_is_what_its_thread_works_for),
      cmocka_unit_test(nothing_begins_for_what_is_cancelled),
      TEST(spark_ends_an_explain),
      TEST(spark_ends_a_check),
      TEST(spark_ends_the_look_at_files),
      TEST(flight_sql_ends_the_reading_of_a_query),
      TEST(flight_sql_ends_a_check),
      TEST(flight_sql_ends_the_reading_of_a_plan),
      TEST(flight_sql_ends_the_preparing_of_a_query),
      TEST(ballista_ends_the_reading_of_a_plan),
      TEST(ballista_ends_an_explain),
      TEST(ballista_ends_a_check),
      cmocka_unit_test(every_layer_lets_the_wish_through),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
