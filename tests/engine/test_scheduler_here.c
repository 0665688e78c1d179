/* Jobs on a Ballista scheduler inside of this process, with a real executor: done, cancelled, lost with the process,
 * fetched and run again by the next one. */
#include "support/scheduler_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trunnion/client.h>

enum { PATIENCE_MS = 60000 };

typedef struct here {
  trn_backend *local;
  trn_connector *connector;
  trn_job_store *store;
  trn_scheduler *scheduler;
  trn_session *session;
  char *address;
  pid_t executor;
} here;

static const char *needed(const char *variable) {
  const char *path = getenv(variable);
  if (path && access(path, R_OK) == 0) return path;
  print_message("SKIPPED: %s names no file: Ballista's scheduler in this process is NOT tested\n", variable);
  skip();
  return NULL;
}

static void succeeded(trn_status status, trn_error *error) {
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
}

static void here_open(here *h, const char *folder) {
  trn_error *error = NULL;
  *h = (here){.store = open_store(folder)};
  trn_embedded_options embedded = {.struct_size = sizeof embedded,
                                   .engine_path = needed("TRUNNION_ENGINE"),
                                   .functions_path = needed("TRUNNION_FUNCTIONS"),
                                   .threads = 1};
  succeeded(trn_embedded_backend_create(&embedded, &h->local, &error), error);
  succeeded(trn_connector_create_network(NULL, &h->connector, &error), error);
  trn_scheduler_options options = {
      .struct_size = sizeof options, .store = h->store, .lease_ms = LEASE_MS, .poll_ms = 10};
  trn_ballista_here_options more = {.struct_size = sizeof more,
                                    .library_path = needed("TRUNNION_BALLISTA"),
                                    .functions_path = embedded.functions_path,
                                    .connector = h->connector,
                                    .threads = 1};
  succeeded(trn_scheduler_create_ballista_here(&options, &more, h->local, &h->address, &h->scheduler, &error), error);
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  succeeded(trn_scheduler_create_session(h->scheduler, &request, &h->session, &error), error);
}

static void end_executor(here *h) {
  if (!h->executor) return;
  kill(h->executor, SIGTERM);
  waitpid(h->executor, NULL, 0);
  h->executor = 0;
}

static void here_close(here *h) {
  trn_session_unref(h->session);
  trn_scheduler_unref(h->scheduler);
  trn_job_store_unref(h->store);
  trn_backend_unref(h->local);
  trn_connector_unref(h->connector);
  trn_free(h->address);
}

static void begin_executor(here *h, const char *folder) {
  const char *program = needed("TRUNNION_CLUSTER_PROGRAM"), *functions = needed("TRUNNION_FUNCTIONS");
  char *port = strrchr(h->address, ':') + 1;
  fflush(NULL);
  h->executor = fork();
  assert_true(h->executor >= 0);
  if (h->executor) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
  execl(program, program, "executor", "--functions", functions, "--bind-host", "127.0.0.1", "--external-host",
        "127.0.0.1", "--scheduler-host", "127.0.0.1", "--scheduler-port", port, "--bind-port", "0", "--bind-grpc-port",
        "0", "--bind-health-port", "0", "--vcores", "1", "--memory-pool-size", "64MiB", "--work-dir", folder,
        "--log-level-setting", "ERROR", NULL);
  _exit(127);
}

static const char SUMS[] =
    "select v % 3 as k, sum(v) as s from (values (1), (2), (3), (4)) as t(v) group by 1 order by 1";

static trn_job *submit_sql(here *h, const char *id, const char *sql) {
  trn_job *job = NULL;
  trn_error *error = NULL;
  trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = sql, .size = strlen(sql)};
  trn_submit_request request = {
      .struct_size = sizeof request, .requested_job_id = id, .session = h->session, .input = &input};
  succeeded(trn_scheduler_submit(h->scheduler, &request, &job, &error), error);
  return job;
}

static trn_job_state end_of(trn_job *job, trn_job_status *status) {
  trn_error *failure = NULL, *error = NULL;
  *status = (trn_job_status){.struct_size = sizeof *status};
  succeeded(trn_job_wait(job, PATIENCE_MS, status, &failure, &error), error);
  if (status->state == TRN_JOB_FAILED) print_message("%s\n", trn_error_message(failure));
  trn_error_unref(failure);
  return status->state;
}

static void sums_are_right(trn_job *job) {
  static const int64_t expected[][2] = {{0, 3}, {1, 5}, {2, 2}};
  trn_stream *stream = NULL;
  trn_error *error = NULL;
  struct ArrowArray array;
  puller p;
  int64_t rows = 0;
  succeeded(trn_job_output(job, &stream, &error), error);
  puller_init(&p);
  for (;;) {
    trn_status status = pull_array(&p, stream, &array);
    if (status) print_error("%s\n", p.message);
    assert_int_equal(status, TRN_OK);
    if (!array.release) break;
    for (int64_t i = 0; i < array.length; i++, rows++)
      for (int c = 0; c < 2; c++)
        assert_int_equal(trn__array_int(array.children[c], "l", array.offset + i), expected[rows][c]);
    array.release(&array);
  }
  assert_int_equal(rows, 3);
  puller_finish(&p);
  trn_stream_unref(stream);
}

static void jobs_are_done_cancelled_lost_and_recovered(void **state) {
  (void)state;
  here h, next;
  trn_job_status status;
  trn_job *job = NULL, *again = NULL;
  char *folder = make_folder_for_test(), *work = in_folder(folder, "executor");
  assert_int_equal(mkdir(work, 0700), 0);
  needed("TRUNNION_BALLISTA");
  needed("TRUNNION_CLUSTER_PROGRAM");
  here_open(&h, folder);
  /* Nobody is there yet to run it. */
  trn_job *waiting = submit_sql(&h, "cancelled", SUMS);
  wait_for_state(waiting, TRN_JOB_RUNNING);
  succeeded(trn_job_cancel(waiting, NULL), NULL);
  assert_int_equal(end_of(waiting, &status), TRN_JOB_CANCELLED);
  trn_job_unref(waiting);
  trn_job *lost = submit_sql(&h, "lost", SUMS);
  wait_for_state(lost, TRN_JOB_RUNNING);
  trn_job_unref(lost);
  here_close(&h);

  here_open(&next, folder);
  assert_int_equal(trn_scheduler_recover(next.scheduler, "lost", NULL, &job, NULL), TRN_OK);
  assert_int_equal(status_of(job).state, TRN_JOB_LOST);
  trn_job_unref(job);
  begin_executor(&next, work);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(next.scheduler, "lost", &resubmit, &job, NULL), TRN_OK);
  assert_int_equal(end_of(job, &status), TRN_JOB_SUCCEEDED);
  assert_int_equal(status.attempt, 2);
  assert_true(status.stages >= 1 && status.stages_done == status.stages && status.tasks_done == status.tasks);
  sums_are_right(job);
  sums_are_right(job);
  trn_job_unref(job);
  /* The scheduler goes; the executor has the output, and another process finds it by the record. */
  trn_job *kept = submit_sql(&next, "kept", SUMS);
  assert_int_equal(end_of(kept, &status), TRN_JOB_SUCCEEDED);
  trn_job_unref(kept);
  pid_t executor = next.executor;
  here_close(&next);
  here_open(&h, folder);
  assert_int_equal(trn_scheduler_job(h.scheduler, "kept", &again, NULL), TRN_OK);
  assert_int_equal(status_of(again).state, TRN_JOB_SUCCEEDED);
  sums_are_right(again);
  trn_job_unref(again);
  h.executor = executor;
  end_executor(&h);
  here_close(&h);
  free(work);
  remove_folder_of_test(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_are_done_cancelled_lost_and_recovered)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
