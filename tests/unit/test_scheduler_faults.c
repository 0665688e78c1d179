/* Jobs with every allocation failing once, on whatever thread: the failure is reported, by the call or by the job's
 * end, nothing hangs, nothing leaks, and the run without a failure succeeds. (SQLite's own memory is not meant: it is
 * another library's.) */
#include "support/scheduler_fixture.h"
#include "support/failing_memory.h"

static char *folder;
static node base; /* what is made while nothing fails */

static trn_status open_scheduler(trn_job_store *store, trn_scheduler **out, trn_error **error) {
  char outputs[128];
  snprintf(outputs, sizeof outputs, "%s/outputs", folder);
  trn_scheduler_options options = {.struct_size = sizeof options,
                                   .store = store,
                                   .output_directory = outputs,
                                   .registry = base.registry,
                                   .lease_ms = LEASE_MS};
  return trn_scheduler_create(&options, base.backend, out, error);
}

static trn_status submit_query(trn_scheduler *scheduler, trn_session *session, const char *query, trn_job **job,
                               trn_error **error) {
  trn_plan_input input = {.struct_size = sizeof input, .format = QUERY_FORMAT, .data = query, .size = strlen(query)};
  static const char *const tags[] = {"a tag"};
  static const trn_kv setting = {"k", "v"};
  trn_submit_request request = {.struct_size = sizeof request,
                                .requested_job_id = "j",
                                .session = session,
                                .input = &input,
                                .settings = &setting,
                                .setting_count = 1,
                                .tags = tags,
                                .tag_count = 1};
  return trn_scheduler_submit(scheduler, &request, job, error);
}

typedef struct waiter {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool is_there, is_end;
  trn_status result;
} waiter;

static void on_event(void *user, trn_status result, const trn_job_status *status, const trn_error *failure) {
  waiter *w = user;
  (void)failure;
  pthread_mutex_lock(&w->mu);
  w->is_there = true;
  w->result = result;
  w->is_end = !status || status->state > TRN_JOB_RUNNING;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mu);
}

/* To the terminal event, which comes whatever fails. */
static trn_status follow(trn_job *job, trn_error **error) {
  trn_job_subscription *s = NULL;
  waiter w = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  trn_status status = trn_job_subscribe(job, &s, error);
  while (!status && !w.is_end) {
    w.is_there = false;
    status = trn_job_subscription_next(s, on_event, &w, error);
    pthread_mutex_lock(&w.mu);
    while (!status && !w.is_there) pthread_cond_wait(&w.changed, &w.mu);
    pthread_mutex_unlock(&w.mu);
    if (!status) status = w.result;
  }
  trn_job_subscription_destroy(s);
  return status;
}

static trn_status wait_and_read(trn_job *job, trn_error **error) {
  trn_job_status end = {.struct_size = sizeof end};
  trn_error *failure = NULL;
  trn_stream *stream = NULL;
  char *metrics = NULL;
  trn_status status;
  while ((status = trn_job_wait(job, WAIT_MS, &end, &failure, error)) == TRN_RESOURCE_EXHAUSTED) {
    if (error) trn_error_unref(*error), *error = NULL;
  }
  assert_int_equal(status, TRN_OK);
  if (end.state != TRN_JOB_SUCCEEDED) {
    assert_int_equal(end.state, TRN_JOB_FAILED);
    status = TRN_RESOURCE_EXHAUSTED;
  }
  trn_error_unref(failure);
  if (!status) status = trn_job_output(job, &stream, error);
  trn_stream_unref(stream);
  if (!status) (void)trn_job_metrics(job, &metrics, NULL);
  trn_free(metrics);
  return status;
}

static bool look(void *user, const trn_job_record *record) {
  (void)record;
  ++*(int *)user;
  return true;
}

static trn_status live(trn_error **error) {
  trn_job_store *store = NULL;
  trn_scheduler *scheduler = NULL;
  trn_session *session = NULL;
  trn_job *job = NULL, *again = NULL;
  int count = 0;
  trn_session_request who = {.struct_size = sizeof who, .user = "ann"};
  trn_status status = trn_sqlite_job_store_open(NULL, &store, error);
  if (!status) status = open_scheduler(store, &scheduler, error);
  if (!status) status = trn_scheduler_create_session(scheduler, &who, &session, error);
  if (!status) status = submit_query(scheduler, session, "rows 3000", &job, error);
  if (!status) status = follow(job, error);
  if (!status) status = wait_and_read(job, error);
  if (!status) status = trn_scheduler_list(scheduler, NULL, look, &count, error);
  if (!status) assert_int_equal(count, 1);
  if (!status) status = trn_scheduler_recover(scheduler, "j", NULL, &again, error);
  if (!status) status = trn_job_release(again, error);
  if (!status) status = trn_scheduler_forget(scheduler, "j", error);
  trn_job_unref(again);
  trn_job_unref(job);
  trn_session_unref(session);
  trn_scheduler_unref(scheduler);
  trn_job_store_unref(store);
  return status;
}

/* A job that another process left is run again. */
static trn_job_store *left_behind;

static trn_status recover(trn_error **error) {
  trn_scheduler *scheduler = NULL;
  trn_job *job = NULL;
  trn_recover_options options = {.struct_size = sizeof options, .resubmit = true};
  trn_status status = open_scheduler(left_behind, &scheduler, error);
  if (!status) status = trn_scheduler_recover(scheduler, "left", &options, &job, error);
  if (!status) status = trn_job_cancel(job, error);
  trn_job_unref(job);
  trn_scheduler_unref(scheduler);
  return status;
}

static void each_allocation_fails(trn_status (*attempt)(trn_error **error), void (*before)(void)) {
  for (long long k = 0;; k++) {
    trn_error *error = NULL;
    assert_true(k < 5000);
    if (before) before();
    atomic_store(&failures, 0);
    atomic_store(&countdown, k);
    trn_status status = attempt(&error);
    atomic_store(&countdown, -1);
    if (status && status != TRN_RESOURCE_EXHAUSTED) print_error("%lld: %s\n", k, trn_error_message(error));
    trn_error_unref(error);
    if (!atomic_load(&failures)) {
      assert_int_equal(status, TRN_OK);
      assert_true(k > 10);
      return;
    }
    /* Memory that was only for a better message, or for metrics, may be missing. */
    if (status != TRN_OK) assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  }
}

static void a_job_lives_or_says_that_there_is_no_memory(void **state) {
  (void)state;
  each_allocation_fails(live, NULL);
}

static void leave_behind(void) {
  void *self;
  trn_job_store_unref(left_behind);
  assert_int_equal(trn_sqlite_job_store_open(NULL, &left_behind, NULL), TRN_OK);
  const trn_job_store_ops *ops = trn_job_store_get_ops(left_behind, &self);
  trn_job_record record = {.struct_size = sizeof record,
                           .id = "left",
                           .name = "left",
                           .user = "ann",
                           .session_id = "s",
                           .attempt = 1,
                           .owner = "gone",
                           .submitted_ms = 1,
                           .format = QUERY_FORMAT,
                           .query = "hang",
                           .query_size = 4};
  assert_int_equal(ops->insert(self, &record, NULL), TRN_OK);
}

static void a_recovery_succeeds_or_says_that_there_is_no_memory(void **state) {
  (void)state;
  each_allocation_fails(recover, leave_behind);
  trn_job_store_unref(left_behind);
}

static int setup(void **state) {
  (void)state;
  folder = make_folder_for_test();
  node_open(&base, folder);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  node_close(&base);
  remove_folder_of_test(folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_lives_or_says_that_there_is_no_memory),
      cmocka_unit_test(a_recovery_succeeds_or_says_that_there_is_no_memory),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
