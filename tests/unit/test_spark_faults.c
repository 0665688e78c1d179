/* Memory runs out: whichever allocation of the server fails, the call ends, nothing crashes, and the server lives on.
 * The allocator of the process is replaced; sanitizers bring their own, there the test has nothing to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/spark_client.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static _Thread_local bool is_client; /* the test's own thread: it does not handle failures */
static atomic_long countdown;        /* allocations of other threads until one fails; 0: none does */
static atomic_long failures;

static bool fails(void) {
  if (is_client || atomic_load_explicit(&countdown, memory_order_relaxed) <= 0) return false;
  if (atomic_fetch_sub(&countdown, 1) != 1) return false;
  atomic_fetch_add(&failures, 1);
  return true;
}

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}

typedef struct server_call {
  const char *name;
  void (*run)(spark_client *client);
} server_call;

/* One call whatever comes of it. False: not answered in time. */
static void call(spark_client *client, const char *method, trn_slice message) {
  char path[128];
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request request = {.path = path, .timeout_ns = 20000000000};
  trn_inproc_reply reply;
  trn_status status = trn__inproc_invoke(client->inproc, &request, &message, 1, &reply);
  if (status == TRN_OK && reply.status == TRN_DEADLINE_EXCEEDED) fail_msg("%s hangs", method);
  trn__inproc_reply_finish(&reply);
}

static void run_query(spark_client *client) {
  test_plan p;
  call(client, "ExecutePlan", execute_slice(client, range_plan(&p, 0, 10000), (execute_options){.reattachable = true}));
}

static void run_sql(spark_client *client) {
  test_plan p;
  call(client, "ExecutePlan", execute_slice(client, sql_plan(&p, "select 1 as a, 'x' as b"), (execute_options){0}));
}

static void run_set(spark_client *client) {
  test_plan p;
  call(client, "ExecutePlan", execute_slice(client, sql_plan(&p, "set my.key = value"), (execute_options){0}));
}

static void run_script(spark_client *client) {
  test_plan p;
  call(client, "ExecutePlan",
       execute_slice(client,
                     sql_plan(&p, "BEGIN DECLARE x INT = 1; DECLARE EXIT HANDLER FOR SQLEXCEPTION SET x = 3; "
                                  "l: LOOP IF true THEN LEAVE l; END IF; END LOOP; SET x = 2; SELECT nope; END"),
                     (execute_options){0}));
}

static void run_wrong_query(spark_client *client) {
  test_plan p;
  call(client, "ExecutePlan",
       execute_slice(client, sql_plan(&p, "select nope"), (execute_options){.reattachable = true}));
}

static void run_config(spark_client *client) {
  Spark__Connect__ConfigRequest request = SPARK__CONNECT__CONFIG_REQUEST__INIT;
  Spark__Connect__ConfigRequest__Operation operation = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__INIT;
  Spark__Connect__ConfigRequest__Get get = SPARK__CONNECT__CONFIG_REQUEST__GET__INIT;
  char *keys[] = {"spark.sql.ansi.enabled"};
  get.n_keys = 1;
  get.keys = keys;
  operation.op_type_case = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET;
  operation.get = &get;
  request.session_id = client->session_id;
  request.operation = &operation;
  call(client, "Config", pack_slice(&request));
}

static void fail_each_allocation(void (*run)(spark_client *client), bool new_session) {
  spark_client client;
  is_client = true;
  assert_int_equal(client_start(&client, NULL), 0);
  run_query(&client); /* threads and session are there */
  long reached = 1;
  for (long k = 1; k < 5000 && reached; k++) {
    if (new_session) trn__uuid4(client.session_id);
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    run(&client);
    atomic_store(&countdown, 0);
    reached = atomic_load(&failures);
  }
  assert_int_equal(reached, 0); /* the last round needed fewer allocations than were allowed */
  test_plan p;
  responses r = client_execute(&client, range_plan(&p, 0, 10), (execute_options){.reattachable = true});
  assert_int_equal(r.reply.status, TRN_OK);
  assert_int_equal(r.count, 3);
  responses_finish(&r);
  client_stop(&client);
}

static void a_query_survives(void **state) {
  (void)state;
  fail_each_allocation(run_query, false);
}

static void a_query_in_a_new_session_survives(void **state) {
  (void)state;
  fail_each_allocation(run_query, true);
}

static void a_sql_text_survives(void **state) {
  (void)state;
  fail_each_allocation(run_sql, false);
}

static void a_script_survives(void **state) {
  (void)state;
  fail_each_allocation(run_script, false);
}

static void a_wrong_query_survives(void **state) {
  (void)state;
  fail_each_allocation(run_wrong_query, false);
}

static void settings_survive(void **state) {
  (void)state;
  fail_each_allocation(run_set, true);
  fail_each_allocation(run_config, true);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_query_survives),    cmocka_unit_test(a_query_in_a_new_session_survives),
      cmocka_unit_test(a_sql_text_survives), cmocka_unit_test(a_wrong_query_survives),
      cmocka_unit_test(a_script_survives),
      cmocka_unit_test(settings_survive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
