/* Every allocation of a query on a cluster fails once: the query fails with a status that says so, or is well; nothing hangs; the
 * next one is well. Memory that is lost is found by sanitizer builds. */
#include "support/ballista_script.h"

#include "backend/ballista/backend.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static atomic_llong countdown = -1; /* < 0: nothing fails; 0: the next one */
static atomic_llong failures;

static bool fails(void) {
  if (script_is_at_work || atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0) return false;
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

static trn_status encode(void *self, trn_layer_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  (void)self, (void)session, (void)plan, (void)format, (void)error;
  *out = (trn_bytes){.data = "plan", .size = 4};
  return TRN_OK;
}

/* A query, read to its end. Gives how many rows came. */
static int64_t run_once(trn_session *session, trn_plan *plan, bool as_ipc, trn_status *status) {
  trn_operation *operation = NULL;
  char *metrics = NULL;
  int64_t rows = 0;
  *status = begin(session, plan, &operation, NULL);
  if (*status) return 0;
  rows = read_rows(operation, as_ipc, 1024, status, NULL);
  if (trn_operation_metrics(operation, &metrics) == TRN_OK) trn_free(metrics);
  trn_operation_unref(operation);
  return rows;
}

static bool is_expected(trn_status status) {
  /* A channel in this process that is out of memory says so, or that it cannot go on. */
  return status == TRN_RESOURCE_EXHAUSTED || status == TRN_INTERNAL || status == TRN_UNAVAILABLE ||
         status == TRN_CANCELLED;
}

static void every_allocation_of_a_query_may_fail(bool compresses, bool as_ipc, bool pushes) {
  cluster_script script;
  bench local;
  trn_backend *encoder = NULL, *backend = NULL;
  trn_layer_ops ops = {.struct_size = sizeof ops, .name = "encoder", .encode = encode};
  trn_ballista_options options = {.struct_size = sizeof options, .scheduler = "s:1", .threads = 1, .timeout_ms = 2000};
  trn_status status;
  bool is_through = false;
  script_init(&script);
  script.partitions = 3;
  script.rows = 300;
  script.compresses = compresses;
  script.takes_names = pushes;
  memcpy(script.pushes, (script_step[]){STEP_RUNNING, STEP_DONE}, 2 * sizeof(script_step));
  memcpy(script.steps, (script_step[]){STEP_RUNNING, STEP_DONE}, 2 * sizeof(script_step));
  options.routes = script_routes(&script);
  bench_open(&local, TRN_SCRIPTED_ARRAYS);
  local.has_refused = true;
  assert_int_equal(trn_layer_create(&ops, NULL, local.base, &encoder, NULL), TRN_OK);
  assert_int_equal(trn_ballista_backend_create(&options, encoder, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_plan *plan = range_plan(5);
  assert_int_equal(run_once(session, plan, as_ipc, &status), 900);
  for (long long k = 0; k < 1000 && !is_through; k++) {
    pthread_mutex_lock(&script.mu);
    script.asked = 0;
    pthread_mutex_unlock(&script.mu);
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    int64_t rows = run_once(session, plan, as_ipc, &status);
    atomic_store(&countdown, -1);
    is_through = atomic_load(&failures) == 0;
    if (status && !is_expected(status)) print_error("allocation %lld: %s\n", k, trn_status_name(status));
    assert_true(status == TRN_OK || is_expected(status));
    if (status == TRN_OK) assert_int_equal(rows, 900);
  }
  assert_true(is_through);
  assert_int_equal(run_once(session, plan, as_ipc, &status), 900);
  assert_int_equal(status, TRN_OK);
  trn_plan_unref(plan);
  trn_ballista *b = trn__layer_self(trn__layer_of(backend));
  atomic_fetch_add(&b->refs, 1);
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(encoder);
  script_settle(&script, b);
  bench_close(&local);
  script_finish(&script, (trn_routes *)options.routes);
}

static void every_allocation_of_pieces_may_fail(void **state) {
  (void)state;
  every_allocation_of_a_query_may_fail(false, true, false);
}

static void every_allocation_of_arrays_may_fail(void **state) {
  (void)state;
  every_allocation_of_a_query_may_fail(true, false, false);
}

static void every_allocation_of_a_pushed_query_may_fail(void **state) {
  (void)state;
  every_allocation_of_a_query_may_fail(false, false, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_pieces_may_fail),
                                     cmocka_unit_test(every_allocation_of_arrays_may_fail),
                                     cmocka_unit_test(every_allocation_of_a_pushed_query_may_fail)};
  alarm(100); /* nothing may hang */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
