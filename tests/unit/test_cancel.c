/* What blocks before there is an operation ends when nobody wants it: planning. A backend that plans until it is told
 * to stop, reached by interrupts, cancelled calls, deadlines, closed sessions and Flight's CancelFlightInfo, also
 * through layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/query.h"
#include "support/flight_client.h"
#include "support/spark_client.h"
#include <trunnion/layer.h>
#include <trunnion/registry.h>

/* ---- a backend that never ends planning by itself ---- */

static atomic_int entered, left, unheard;

static trn_status open_session(void *self, trn_session *session, void **state, trn_error **error) {
  (void)self, (void)session, (void)error;
  *state = self;
  return TRN_OK;
}

static trn_status plan_for_ever(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                                trn_error **error) {
  (void)self, (void)state, (void)out;
  atomic_fetch_add(&entered, 1);
  WAIT_UNTIL(trn_cancel_is_requested(request->cancel));
  bool heard = trn_cancel_is_requested(request->cancel);
  if (!heard) atomic_fetch_add(&unheard, 1);
  atomic_fetch_add(&left, 1);
  return heard ? trn__cancelled(error) : trn_error_set(error, TRN_INTERNAL, NULL, "nobody cancelled");
}

static trn_backend *planner(void) {
  static const trn_backend_ops ops = {
      .struct_size = sizeof ops, .open_session = open_session, .execute = plan_for_ever};
  static int nothing;
  trn_backend *backend = NULL;
  assert_int_equal(trn_backend_create(&ops, &nothing, &backend), TRN_OK);
  return backend;
}

/* Spark and Flight SQL over the planner; `layer`: NULL or the name of a layer between. */
typedef struct fixture {
  spark_client spark;
  flight_client flight;
  trn_registry *registry;
  trn_config *config;
} fixture;

static void start_through(fixture *f, const char *layer) {
  static const trn_flightsql_options dialect = {.struct_size = sizeof dialect, .dialect = "spark"};
  trn_frontend *frontend = NULL;
  trn_backend *backend = planner(), *outer = NULL;
  memset(f, 0, sizeof *f);
  atomic_store(&entered, 0), atomic_store(&left, 0), atomic_store(&unheard, 0);
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
  assert_int_equal(trn_flightsql_frontend_create(&dialect, &frontend), TRN_OK);
  assert_int_equal(trn_frontend_register(frontend, f->spark.routes, backend, NULL), TRN_OK);
  trn_frontend_destroy(frontend);
  assert_int_equal(trn__inproc_create(f->spark.routes, &f->spark.inproc), TRN_OK);
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
  WAIT_UNTIL(atomic_load(&left) == atomic_load(&entered));
  trn__inproc_destroy(f->spark.inproc);
  trn_routes_destroy(f->spark.routes);
  trn_registry_destroy(f->registry);
  trn_config_destroy(f->config);
}

static int stop(void **state) {
  stop_fixture(*state);
  free(*state);
  return 0;
}

/* An ExecutePlan that is being planned when this returns. */
static void begin(fixture *f, watch *w, execute_options options) {
  test_plan p;
  watch_start(&f->spark, w, "ExecutePlan", execute_slice(&f->spark, range_plan(&p, 0, 10), options), false);
  WAIT_UNTIL(atomic_load(&entered) == 1);
  assert_int_equal(atomic_load(&entered), 1);
}

static void ends_cancelled(watch *w, const char *text) {
  assert_true(watch_wait(w, 0));
  assert_int_equal(atomic_load(&unheard), 0);
  if (text && !strstr(w->text, text)) fail_msg("'%s' is not in '%s'", text, w->text);
  watch_end(w);
}

static const char *const ID = "00112233-4455-4677-8899-aabbccddeeff";

/* ---- the token ---- */

static void a_token_stays_requested(void **state) {
  (void)state;
  trn_cancel *cancel = NULL;
  assert_int_equal(trn_cancel_create(&cancel), TRN_OK);
  assert_false(trn_cancel_is_requested(cancel));
  assert_int_equal(*trn__cancel_flag(cancel), 0);
  trn_cancel *again = trn_cancel_ref(cancel);
  trn_cancel_request(cancel);
  trn_cancel_request(cancel);
  trn_cancel_unref(cancel);
  assert_true(trn_cancel_is_requested(again));
  assert_int_equal(*trn__cancel_flag(again), 1);
  trn_cancel_unref(again);
  trn_cancel_unref(NULL);
  trn_cancel_request(NULL);
  assert_null(trn_cancel_ref(NULL));
  assert_false(trn_cancel_is_requested(NULL));
}

static void an_arena_gives_nothing_once_cancelled(void **state) {
  (void)state;
  trn_cancel *cancel = NULL;
  trn_arena *arena = trn__arena_create(0);
  assert_int_equal(trn_cancel_create(&cancel), TRN_OK);
  trn__arena_watch(arena, cancel);
  assert_non_null(trn__arena_alloc(arena, 8));
  trn_cancel_request(cancel);
  assert_null(trn__arena_alloc(arena, 8));
  trn__arena_watch(arena, NULL);
  assert_non_null(trn__arena_alloc(arena, 8));
  trn__arena_unref(arena);
  trn_cancel_unref(cancel);
}

static void a_cancelled_request_does_not_reach_the_backend(void **state) {
  (void)state;
  trn_backend *backend = planner();
  trn_session *session = NULL;
  trn_cancel *cancel = NULL;
  trn_operation *operation = NULL;
  trn_error *error = NULL;
  trn_plan *plan = NULL;
  const trn_session_request who = {.struct_size = sizeof who, .user = "u"};
  trn_arena *arena = trn__arena_create(0);
  trn_rel *root = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, NULL, 0, NULL, 0);
  assert_int_equal(trn__plan_create(arena, root, NULL, 0, "UTC", NULL, &plan), TRN_OK);
  assert_int_equal(trn_session_open(backend, &who, &session, NULL), TRN_OK);
  assert_int_equal(trn_cancel_create(&cancel), TRN_OK);
  trn_cancel_request(cancel);
  atomic_store(&entered, 0);
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .cancel = cancel};
  assert_int_equal(trn_backend_execute(session, &request, &operation, &error), TRN_CANCELLED);
  assert_non_null(error);
  assert_int_equal(atomic_load(&entered), 0);
  trn_error_unref(error);
  trn_cancel_unref(cancel);
  trn_plan_unref(plan);
  trn_session_unref(session);
  trn_backend_unref(backend);
}

/* ---- Spark ---- */

static void interrupt(fixture *f, bool by_id) {
  Spark__Connect__InterruptRequest request = SPARK__CONNECT__INTERRUPT_REQUEST__INIT;
  request.session_id = f->spark.session_id;
  request.interrupt_type = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_ALL;
  if (by_id) {
    request.interrupt_type = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_OPERATION_ID;
    request.interrupt_case = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_OPERATION_ID;
    request.operation_id = (char *)ID;
  }
  Spark__Connect__InterruptResponse *reply =
      client_ask(&f->spark, "Interrupt", &request, &spark__connect__interrupt_response__descriptor);
  assert_non_null(reply);
  assert_int_equal(reply->n_interrupted_ids, 1);
  spark__connect__interrupt_response__free_unpacked(reply, NULL);
}

static void an_interrupt_reaches_planning(void **state) {
  fixture *f = *state;
  watch w;
  begin(f, &w, (execute_options){.reattachable = true});
  interrupt(f, false);
  ends_cancelled(&w, "OPERATION_CANCELED");
}

static void an_interrupt_by_id_reaches_planning(void **state) {
  fixture *f = *state;
  watch w;
  begin(f, &w, (execute_options){.operation_id = ID});
  interrupt(f, true);
  ends_cancelled(&w, "OPERATION_CANCELED");
}

static void a_call_that_vanishes_ends_planning(void **state) {
  fixture *f = *state;
  watch w;
  begin(f, &w, (execute_options){.operation_id = ID});
  trn__inproc_call_cancel(w.call);
  WAIT_UNTIL(atomic_load(&left) == 1);
  assert_int_equal(atomic_load(&left), 1);
  ends_cancelled(&w, NULL);
}

static void a_released_execution_ends_planning(void **state) {
  fixture *f = *state;
  watch w;
  begin(f, &w, (execute_options){.operation_id = ID, .reattachable = true});
  assert_true(client_release(&f->spark, ID, NULL));
  WAIT_UNTIL(atomic_load(&left) == 1);
  assert_int_equal(atomic_load(&left), 1);
  ends_cancelled(&w, NULL);
}

static void a_closed_session_ends_planning(void **state) {
  fixture *f = *state;
  watch w;
  Spark__Connect__ReleaseSessionRequest request = SPARK__CONNECT__RELEASE_SESSION_REQUEST__INIT;
  request.session_id = f->spark.session_id;
  begin(f, &w, (execute_options){.reattachable = true});
  Spark__Connect__ReleaseSessionResponse *reply =
      client_ask(&f->spark, "ReleaseSession", &request, &spark__connect__release_session_response__descriptor);
  assert_non_null(reply);
  spark__connect__release_session_response__free_unpacked(reply, NULL);
  ends_cancelled(&w, "OPERATION_CANCELED");
}

static void a_deadline_ends_planning(void **state) {
  fixture *f = *state;
  test_plan p;
  trn_inproc_reply reply;
  trn_slice message = execute_slice(&f->spark, range_plan(&p, 0, 10), (execute_options){0});
  const trn_inproc_request call = {.path = SPARK_TEST_PATH "ExecutePlan", .timeout_ns = 50000000};
  assert_int_equal(trn__inproc_invoke(f->spark.inproc, &call, &message, 1, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_DEADLINE_EXCEEDED);
  trn__inproc_reply_finish(&reply);
  WAIT_UNTIL(atomic_load(&left) == atomic_load(&entered));
  assert_int_equal(atomic_load(&left), atomic_load(&entered));
  assert_int_equal(atomic_load(&unheard), 0);
}

/* The columns of a pivot are the values that a query finds while the plan is analyzed. */
static void a_question_that_vanishes_ends_the_query_it_depends_on(void **state) {
  fixture *f = *state;
  test_plan p;
  watch w;
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__Schema schema = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__SCHEMA__INIT;
  Spark__Connect__Relation pivot = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Aggregate aggregate = SPARK__CONNECT__AGGREGATE__INIT;
  Spark__Connect__Aggregate__Pivot by = SPARK__CONNECT__AGGREGATE__PIVOT__INIT;
  Spark__Connect__Expression column = SPARK__CONNECT__EXPRESSION__INIT, count = SPARK__CONNECT__EXPRESSION__INIT,
                             *args[] = {&column}, *list[] = {&count};
  Spark__Connect__Expression__UnresolvedAttribute id = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
  Spark__Connect__Expression__UnresolvedFunction function = SPARK__CONNECT__EXPRESSION__UNRESOLVED_FUNCTION__INIT;
  range_plan(&p, 0, 10);
  id.unparsed_identifier = "id";
  column.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  column.unresolved_attribute = &id;
  function.function_name = "count";
  function.n_arguments = 1;
  function.arguments = args;
  count.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION;
  count.unresolved_function = &function;
  by.col = &column;
  aggregate.input = &p.relation;
  aggregate.group_type = SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_PIVOT;
  aggregate.pivot = &by;
  aggregate.n_aggregate_expressions = 1;
  aggregate.aggregate_expressions = list;
  pivot.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_AGGREGATE;
  pivot.aggregate = &aggregate;
  p.plan.root = &pivot;
  schema.plan = &p.plan;
  request.session_id = f->spark.session_id;
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_SCHEMA;
  request.schema = &schema;
  watch_start(&f->spark, &w, "AnalyzePlan", pack_slice(&request), false);
  WAIT_UNTIL(atomic_load(&entered) == 1);
  assert_int_equal(atomic_load(&entered), 1);
  trn__inproc_call_cancel(w.call);
  WAIT_UNTIL(atomic_load(&left) == 1);
  assert_int_equal(atomic_load(&left), 1);
  ends_cancelled(&w, NULL);
}

static void every_layer_hands_the_wish_on(void **state) {
  static const char *const layers[] = {"trace", "validate", "cache", "limit"};
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    fixture f;
    watch w;
    start_through(&f, layers[i]);
    begin(&f, &w, (execute_options){.reattachable = true});
    interrupt(&f, false);
    ends_cancelled(&w, "OPERATION_CANCELED");
    stop_fixture(&f);
  }
}

/* ---- Flight SQL ---- */

static void get(fixture *f, watch *w, Arrow__Flight__Protocol__FlightInfo *info) {
  trn_strbuf bytes = {0};
  Arrow__Flight__Protocol__Ticket message = ARROW__FLIGHT__PROTOCOL__TICKET__INIT;
  message.ticket = info->endpoint[0]->ticket->ticket;
  flight__message_put(&bytes, &message.base);
  memset(w, 0, sizeof *w);
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->changed, NULL);
  const trn_inproc_request request = {
      .path = FLIGHT_TEST_PATH "DoGet", .on_message = watch_message, .on_finish = watch_finish, .user = w};
  assert_int_equal(trn__inproc_call(f->spark.inproc, &request, &w->call), TRN_OK);
  trn__inproc_call_send(w->call, (trn_slice){.data = bytes.data, .size = bytes.size});
  trn__inproc_call_half_close(w->call);
  trn__strbuf_finish(&bytes);
  WAIT_UNTIL(atomic_load(&entered) == 1);
  assert_int_equal(atomic_load(&entered), 1);
}

static void flights_end_in_planning(void **state) {
  fixture *f = *state;
  trn_status status;
  watch w;
  trn_strbuf command = flight_query("SELECT * FROM range(10)"), body = {0};
  for (int by_action = 0; by_action < 2; by_action++) {
    atomic_store(&entered, 0), atomic_store(&left, 0);
    Arrow__Flight__Protocol__FlightInfo *info = flight_info_of(&f->flight, &command, &status);
    assert_non_null(info);
    get(f, &w, info);
    if (by_action) {
      Arrow__Flight__Protocol__CancelFlightInfoRequest cancel =
          ARROW__FLIGHT__PROTOCOL__CANCEL_FLIGHT_INFO_REQUEST__INIT;
      cancel.info = info;
      flight__message_put(&body, &cancel.base);
      assert_int_equal(flight_act(&f->flight, "CancelFlightInfo", &body, NULL), TRN_OK);
    } else {
      trn__inproc_call_cancel(w.call);
    }
    WAIT_UNTIL(atomic_load(&left) == 1);
    assert_int_equal(atomic_load(&left), 1);
    ends_cancelled(&w, NULL);
    arrow__flight__protocol__flight_info__free_unpacked(info, NULL);
  }
  trn__strbuf_finish(&body);
  trn__strbuf_finish(&command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_token_stays_requested),
      cmocka_unit_test(an_arena_gives_nothing_once_cancelled),
      cmocka_unit_test(a_cancelled_request_does_not_reach_the_backend),
      TEST(an_interrupt_reaches_planning),
      TEST(an_interrupt_by_id_reaches_planning),
      TEST(a_call_that_vanishes_ends_planning),
      TEST(a_released_execution_ends_planning),
      TEST(a_closed_session_ends_planning),
      TEST(a_deadline_ends_planning),
      TEST(a_question_that_vanishes_ends_the_query_it_depends_on),
      cmocka_unit_test(every_layer_hands_the_wish_on),
      TEST(flights_end_in_planning),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
