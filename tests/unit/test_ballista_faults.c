/* Every allocation of a Ballista exchange fails once. What is checked: each call ends, nothing crashes, and the service
 * works afterwards; nothing leaks (the sanitizer builds look). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/ballista_caller.h"

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
void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}

static ballista_caller caller;

/* Gives the first failure, and the rows in *rows. */
static trn_status run_push(int64_t *rows) {
  caller_status s = caller_push(&caller, "500", "named");
  if (s.status) return s.status;
  if (!s.has_location) return TRN_INTERNAL;
  flight_result result = caller_fetch(&caller, &s, NULL);
  *rows = result.rows;
  return result.status;
}

static trn_status run_pull(int64_t *rows) {
  caller_status s = caller_submit(&caller, "500");
  if (s.status || !*s.job_id) return s.status ? s.status : TRN_INTERNAL;
  s = caller_wait(&caller, s.job_id);
  if (s.status || !s.has_location) return s.status ? s.status : TRN_INTERNAL;
  Ballista__Protobuf__GetJobMetricsParams metrics = BALLISTA__PROTOBUF__GET_JOB_METRICS_PARAMS__INIT;
  trn_inproc_reply reply;
  metrics.job_id = s.job_id;
  trn_status status = caller_call(&caller, "GetJobMetrics", &metrics, &reply);
  trn__inproc_reply_finish(&reply);
  if (status) return status;
  flight_result result = caller_fetch(&caller, &s, NULL);
  *rows = result.rows;
  return result.status;
}

static trn_status run_session(int64_t *rows) {
  Ballista__Protobuf__CreateUpdateSessionParams create = BALLISTA__PROTOBUF__CREATE_UPDATE_SESSION_PARAMS__INIT;
  Ballista__Protobuf__KeyValuePair pair = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__INIT, *pairs[] = {&pair};
  trn_inproc_reply reply;
  pair.key = (char *)"ballista.job.name";
  pair.has_value_case = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE;
  pair.value = (char *)"x";
  create.session_id = (char *)"session-1";
  create.settings = pairs;
  create.n_settings = 1;
  trn_status status = caller_call(&caller, "CreateUpdateSession", &create, &reply);
  trn__inproc_reply_finish(&reply);
  return status ? status : run_push(rows);
}

static void each_allocation_fails(trn_status (*attempt)(int64_t *rows)) {
  for (long long k = 0;; k++) {
    int64_t rows = 0;
    assert_true(k < 100000);
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    trn_status status = attempt(&rows);
    atomic_store(&countdown, -1);
    if (!status) assert_int_equal(rows, 500); /* all of them, or a failure */
    if (!atomic_load(&failures)) {
      assert_int_equal(status, TRN_OK);
      break;
    }
  }
  int64_t rows = 0;
  assert_int_equal(attempt(&rows), TRN_OK);
  assert_int_equal(rows, 500);
}

static void check(trn_status (*attempt)(int64_t *rows), size_t result_bytes) {
  const trn_ballista_frontend_options options = {.result_bytes = result_bytes};
  is_client = true;
  assert_int_equal(caller_start(&caller, &options), TRN_OK);
  int64_t rows = 0;
  assert_int_equal(attempt(&rows), TRN_OK);
  each_allocation_fails(attempt);
  caller_stop(&caller);
}

static void a_pushed_query(void **state) {
  (void)state;
  check(run_push, 0);
}

static void a_pushed_query_whose_rows_are_made_as_they_are_fetched(void **state) {
  (void)state;
  check(run_push, 1);
}

static void a_pulled_query(void **state) {
  (void)state;
  check(run_pull, 0);
}

static void a_session_s_query(void **state) {
  (void)state;
  check(run_session, 0);
}

static void mounting(void **state) {
  (void)state;
  is_client = false;
  for (long long k = 0;; k++) {
    assert_true(k < 100000);
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    trn_status status = caller_start(&caller, NULL);
    atomic_store(&countdown, -1);
    caller_stop(&caller);
    if (!atomic_load(&failures)) {
      assert_int_equal(status, TRN_OK);
      break;
    }
    assert_int_not_equal(status, TRN_OK);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pushed_query), cmocka_unit_test(a_pushed_query_whose_rows_are_made_as_they_are_fetched),
      cmocka_unit_test(a_pulled_query), cmocka_unit_test(a_session_s_query),
      cmocka_unit_test(mounting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
