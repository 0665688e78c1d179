/* Ballista's scheduler in this process (src/engine/ballista_abi.h): ids, hooks, cancelling, ends. With an executor of
 * the program trunnion-ballista (TRUNNION_CLUSTER_PROGRAM) where jobs are to be done. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/ballista_abi.h"
#include "engine/engine.h"

#define EVENTS_MAX 256
#define PATIENCE_MS 60000
#define RACERS 8

/* ---- what the host was told ---- */

typedef struct told {
  char id[TRN_BSCHED_JOB_ID_MAX + 1], name[64];
  int32_t change;
  trn_bsched_progress progress;
  size_t status_size;
} told;

static struct {
  pthread_mutex_t mu;
  told events[EVENTS_MAX];
  size_t count;
  int32_t answer_to_success; /* of `changed` */
  const char *found_id;      /* what `find` knows */
  int32_t session_answer;
  char session_setting[64];
  atomic_size_t next;
} host = {.mu = PTHREAD_MUTEX_INITIALIZER};

static int32_t on_changed(void *user, const trn_bsched_event *event) {
  assert_ptr_equal(user, &host);
  pthread_mutex_lock(&host.mu);
  if (host.count < EVENTS_MAX) {
    told *t = &host.events[host.count++];
    snprintf(t->id, sizeof t->id, "%s", event->job_id);
    snprintf(t->name, sizeof t->name, "%s", event->job_name);
    t->change = event->change, t->progress = event->progress, t->status_size = event->status_size;
  }
  int32_t answer = event->change == TRN_BSCHED_SUCCEEDED ? host.answer_to_success : TRN_OK;
  pthread_mutex_unlock(&host.mu);
  return answer;
}

/* JobStatus { job_id = 5: the id; failed = 3 { error = 1: "x" } } */
static int32_t on_find(void *user, const char *job_id, trn_engine_bytes *out) {
  static unsigned char bytes[64];
  (void)user;
  if (!host.found_id || strcmp(job_id, host.found_id) != 0) return TRN_NOT_FOUND;
  size_t size = strlen(job_id), at = 0;
  bytes[at++] = 5 << 3 | 2, bytes[at++] = (unsigned char)size;
  memcpy(bytes + at, job_id, size), at += size;
  memcpy(bytes + at, "\x1a\x03\x0a\x01x", 5), at += 5;
  *out = (trn_engine_bytes){.data = bytes, .size = at};
  return TRN_OK;
}

static int32_t on_session(void *user, const trn_kv *settings, size_t count,
                          void (*add)(void *owner, const char *key, const char *value), void *owner) {
  (void)user;
  for (size_t i = 0; i < count; i++)
    if (strcmp(settings[i].key, "datafusion.execution.batch_size") == 0)
      snprintf(host.session_setting, sizeof host.session_setting, "%s", settings[i].value);
  add(owner, "datafusion.execution.target_partitions", "3");
  return host.session_answer;
}

static size_t told_of(const char *id, int32_t change) {
  size_t out = 0;
  pthread_mutex_lock(&host.mu);
  for (size_t i = 0; i < host.count; i++)
    out += strcmp(host.events[i].id, id) == 0 && (!change || host.events[i].change == change);
  pthread_mutex_unlock(&host.mu);
  return out;
}

static void sleep_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void wait_told(const char *id, int32_t change) {
  for (int waited = 0; !told_of(id, change); waited += 5) {
    if (waited > PATIENCE_MS) fail_msg("job %s: never told of %d", id, change);
    sleep_ms(5);
  }
}

static int32_t on_table(void *user, const char *name, const void *bytes, size_t size, struct ArrowArrayStream *out);

/* ---- the scheduler ---- */

static const trn_bsched *ballista;
static const trn_function_library *library;

/* select 1 as x, as the stock client encodes it: a projection of a literal over one row */
static const unsigned char plan_one[] = {0x1a, 0x13, 0x0a, 0x04, 0x52, 0x02, 0x08, 0x01, 0x12, 0x0b, 0x12,
                                         0x09, 0x0a, 0x04, 0x1a, 0x02, 0x38, 0x01, 0x12, 0x01, 0x78};

static void succeeded(int32_t status, trn_engine_error *error, const char *what) {
  if (status) fail_msg("%s: %d %s", what, status, error->message ? error->message : "");
}

static void failed(int32_t expected, int32_t status, trn_engine_error *error, const char *words) {
  if (status != expected || !error->message || !strstr(error->message, words))
    fail_msg("%d %s instead of %d with '%s'", status, error->message ? error->message : "", expected, words);
  if (error->release) error->release(error->self);
  *error = (trn_engine_error){0};
}

static trn_bsched_handle *start(const char *at) {
  trn_bsched_handle *out = NULL;
  trn_engine_error error = {0};
  pthread_mutex_lock(&host.mu);
  host.count = 0, host.answer_to_success = host.session_answer = TRN_OK, host.found_id = NULL;
  pthread_mutex_unlock(&host.mu);
  const trn_bsched_options options = {.struct_size = sizeof options,
                                      .host = at,
                                      .threads = 2,
                                      .data_seconds = -1,
                                      .state_seconds = -1,
                                      .libraries = &library,
                                      .library_count = 1,
                                      .hooks = {.struct_size = sizeof(trn_bsched_hooks),
                                                .user = &host,
                                                .changed = on_changed,
                                                .find = on_find,
                                                .session = on_session,
                                                .table = on_table}};
  succeeded(ballista->start(&options, &out, &error), &error, "start");
  return out;
}

static int32_t submit_bytes(trn_bsched_handle *s, const char *id, const void *plan, size_t size, char *out,
                            trn_engine_error *error) {
  const trn_kv settings[] = {{"datafusion.execution.batch_size", "777"}, {"datafusion.catalog.location", NULL}};
  const trn_bsched_submission submission = {.struct_size = sizeof submission,
                                            .kind = TRN_BSCHED_LOGICAL,
                                            .plan = plan,
                                            .plan_size = size,
                                            .requested_id = id,
                                            .job_name = "a name",
                                            .settings = settings,
                                            .setting_count = 2};
  return ballista->submit(s, &submission, out, error);
}

static int32_t submit(trn_bsched_handle *s, const char *id, char *out, trn_engine_error *error) {
  return submit_bytes(s, id, plan_one, sizeof plan_one, out, error);
}

static bool has(const trn_engine_bytes *bytes, const char *text) {
  return memmem(bytes->data, bytes->size, text, strlen(text)) != NULL;
}

static void release(trn_engine_bytes *bytes) {
  if (bytes->release) bytes->release(bytes->self);
}

/* ---- tests ---- */

static void a_job_has_the_id_that_was_asked_for_and_is_cancelled_once(void **state) {
  (void)state;
  trn_bsched_handle *s = start(NULL);
  trn_engine_error error = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  assert_string_equal(ballista->address(s), "");
  succeeded(submit(s, "job-1", id, &error), &error, "submit");
  assert_string_equal(id, "job-1");
  wait_told("job-1", TRN_BSCHED_RUNNING);
  assert_string_equal(host.session_setting, "777");
  pthread_mutex_lock(&host.mu);
  assert_int_equal(host.events[0].change, TRN_BSCHED_QUEUED);
  assert_string_equal(host.events[0].name, "a name");
  assert_int_equal(host.events[1].change, TRN_BSCHED_RUNNING);
  assert_true(host.events[1].progress.stages >= 1 && host.events[1].status_size > 0);
  pthread_mutex_unlock(&host.mu);

  trn_engine_bytes bytes = {0};
  succeeded(ballista->status(s, "job-1", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "job-1") && has(&bytes, "a name"));
  release(&bytes);
  trn_bsched_progress progress = {.struct_size = sizeof progress};
  succeeded(ballista->progress(s, "job-1", &progress, &error), &error, "progress");
  assert_true(progress.stages >= 1 && progress.stages_done == 0 && progress.tasks_done == 0 && progress.tasks >= 1);
  failed(TRN_FAILED_PRECONDITION, ballista->release(s, "job-1", &error), &error, "not finished");

  for (int i = 0; i < 3; i++) succeeded(ballista->cancel(s, "job-1", &error), &error, "cancel");
  wait_told("job-1", TRN_BSCHED_CANCELLED);
  succeeded(ballista->cancel(s, "job-1", &error), &error, "cancel of a cancelled one");
  succeeded(ballista->status(s, "job-1", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "Cancelled"));
  release(&bytes);
  ballista->stop(s, 1000);
  assert_int_equal(told_of("job-1", TRN_BSCHED_CANCELLED), 1);
  assert_int_equal(told_of("job-1", TRN_BSCHED_FAILED) + told_of("job-1", TRN_BSCHED_SUCCEEDED), 0);
}

static void one_that_is_planned_is_cancelled_as_well(void **state) {
  (void)state;
  trn_bsched_handle *s = start(NULL);
  trn_engine_error error = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  for (int i = 0; i < 20; i++) {
    succeeded(submit(s, NULL, id, &error), &error, "submit");
    assert_int_equal(strlen(id), 36);
    succeeded(ballista->cancel(s, id, &error), &error, "cancel at once");
    wait_told(id, TRN_BSCHED_CANCELLED);
  }
  trn_engine_bytes bytes = {0};
  succeeded(ballista->list(s, &bytes, &error), &error, "list");
  assert_true(has(&bytes, id) && bytes.size > 20 * 36);
  release(&bytes);
  ballista->stop(s, 1000);
}

static trn_bsched_handle *raced;
static void *race(void *user) {
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  trn_engine_error error = {0};
  *(int32_t *)user = submit(raced, "the-one", id, &error);
  if (error.release) error.release(error.self);
  return NULL;
}

static void of_submissions_with_one_id_exactly_one_runs(void **state) {
  (void)state;
  pthread_t threads[RACERS];
  int32_t results[RACERS], ok = 0, taken = 0;
  raced = start(NULL);
  for (int i = 0; i < RACERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, race, &results[i]), 0);
  for (int i = 0; i < RACERS; i++) {
    pthread_join(threads[i], NULL);
    ok += results[i] == TRN_OK, taken += results[i] == TRN_ALREADY_EXISTS;
  }
  assert_int_equal(ok, 1);
  assert_int_equal(taken, RACERS - 1);
  wait_told("the-one", TRN_BSCHED_RUNNING);
  assert_int_equal(told_of("the-one", TRN_BSCHED_QUEUED), 1);
  ballista->stop(raced, 1000);
}

static void what_is_wrong_is_named_and_leaves_no_job(void **state) {
  (void)state;
  trn_bsched_handle *s = start(NULL);
  trn_engine_error error = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1], long_id[200];
  memset(long_id, 'x', sizeof long_id);
  long_id[sizeof long_id - 1] = 0;
  const char *const ids[] = {"", "..", ".hidden", "a/b", "../x", "a b", "\xc3\xa4", "a\n", long_id};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    failed(TRN_INVALID_ARGUMENT, submit(s, ids[i], id, &error), &error, "no id");
  failed(TRN_INVALID_ARGUMENT, submit_bytes(s, "bad", "\xff\xff\xff", 3, id, &error), &error, "plan");
  failed(TRN_INVALID_ARGUMENT, submit_bytes(s, "bad", "", 0, id, &error), &error, "plan");
  for (size_t size = 1; size < sizeof plan_one;
       size++) { /* cut off anywhere: an answer, and no job with that id stays */
    int32_t status = submit_bytes(s, NULL, plan_one, size, id, &error);
    if (error.release) error.release(error.self);
    error = (trn_engine_error){0};
    assert_true(status == TRN_OK || status == TRN_INVALID_ARGUMENT);
  }
  trn_engine_bytes bytes = {0};
  failed(TRN_NOT_FOUND, ballista->status(s, "bad", &bytes, &error), &error, "bad");
  failed(TRN_NOT_FOUND, ballista->cancel(s, "bad", &error), &error, "bad");
  failed(TRN_NOT_FOUND, ballista->metrics(s, "bad", &bytes, &error), &error, "bad");
  host.session_answer = TRN_PERMISSION_DENIED;
  assert_int_not_equal(submit(s, "refused", id, &error), TRN_OK);
  assert_non_null(strstr(error.message, "refuses the session"));
  error.release(error.self);
  host.session_answer = TRN_OK;
  succeeded(submit(s, "refused", id, &error), &error, "the id is free again");
  ballista->stop(s, 1000);
}

static void a_job_of_somebody_elses_is_found_and_its_id_is_taken(void **state) {
  (void)state;
  trn_bsched_handle *s = start(NULL);
  trn_engine_error error = {0};
  trn_engine_bytes bytes = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  host.found_id = "of-before";
  succeeded(ballista->status(s, "of-before", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "of-before"));
  release(&bytes);
  failed(TRN_ALREADY_EXISTS, submit(s, "of-before", id, &error), &error, "of-before");
  succeeded(ballista->cancel(s, "of-before", &error), &error, "it has ended");
  ballista->stop(s, 1000);
}

static void a_port_that_is_taken_and_options_that_are_wrong(void **state) {
  (void)state;
  trn_engine_error error = {0};
  trn_bsched_handle *first = start("127.0.0.1"), *second = NULL;
  const char *port = strrchr(ballista->address(first), ':');
  assert_non_null(port);
  trn_bsched_options options = {.struct_size = sizeof options, .host = "127.0.0.1", .port = (uint16_t)atoi(port + 1)};
  failed(TRN_UNAVAILABLE, ballista->start(&options, &second, &error), &error, "127.0.0.1");
  options.struct_size = 8;
  failed(TRN_INVALID_ARGUMENT, ballista->start(&options, &second, &error), &error, "older");
  failed(TRN_INVALID_ARGUMENT, ballista->start(NULL, &second, &error), &error, "missing");
  assert_null(second);
  ballista->stop(first, 1000);
  ballista->stop(NULL, 0);
}

/* A CustomTableScanNode { table_name = 1 { bare = 1 { table = 1: "t" } }, schema = 3, custom_table_data = 5 }: rows of
 * the host's own. */
static const unsigned char plan_custom[] = {0xca, 0x01, 0x1a, 0x32, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0x74,
                                            0x1a, 0x0b, 0x0a, 0x09, 0x0a, 0x01, 0x76, 0x12, 0x02, 0x52,
                                            0x00, 0x18, 0x01, 0x2a, 0x04, 0x72, 0x6f, 0x77, 0x73};

/* What the host's table has: a column of three integers, whose memory is nobody's to free. */
static const int64_t values[] = {7, 8, 9};
static const void *column_buffers[] = {NULL, values}, *no_buffers[] = {NULL};
static struct ArrowArray column, *columns[] = {&column};
static struct ArrowSchema column_schema, *column_schemas[] = {&column_schema};

static void release_schema(struct ArrowSchema *schema) {
  schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
  array->release = NULL;
}

static void release_stream(struct ArrowArrayStream *stream) {
  stream->release = NULL;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  (void)stream;
  column_schema = (struct ArrowSchema){.format = "l", .name = "other", .flags = 2, .release = release_schema};
  *out = (struct ArrowSchema){
      .format = "+s", .name = "", .n_children = 1, .children = column_schemas, .release = release_schema};
  return 0;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  bool is_first = stream->private_data == NULL;
  stream->private_data = stream;
  column = (struct ArrowArray){.length = 3, .n_buffers = 2, .buffers = column_buffers, .release = release_array};
  *out = (struct ArrowArray){.length = 3,
                             .n_buffers = 1,
                             .n_children = 1,
                             .buffers = no_buffers,
                             .children = columns,
                             .release = release_array};
  if (!is_first) *out = (struct ArrowArray){0};
  return 0;
}

static const char *stream_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL;
}

static int32_t on_table(void *user, const char *name, const void *bytes, size_t size, struct ArrowArrayStream *out) {
  (void)user;
  if (strcmp(name, "t") != 0) return TRN_UNIMPLEMENTED;
  if (size != 4 || memcmp(bytes, "rows", 4) != 0) return TRN_DATA_LOSS;
  *out = (struct ArrowArrayStream){
      .get_schema = stream_schema, .get_next = stream_next, .get_last_error = stream_error, .release = release_stream};
  return TRN_OK;
}

static void a_table_that_the_host_cannot_give(void **state) {
  (void)state;
  unsigned char other[sizeof plan_custom];
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  trn_engine_error error = {0};
  trn_bsched_handle *s = start(NULL);
  memcpy(other, plan_custom, sizeof other);
  other[sizeof other - 1] = 'x';
  failed(TRN_INVALID_ARGUMENT, submit_bytes(s, "bad", other, sizeof other, id, &error), &error,
         "cannot give the table t");
  memcpy(other, plan_custom, sizeof other);
  other[9] = 'u'; /* another name: nobody's */
  failed(TRN_INVALID_ARGUMENT, submit_bytes(s, "bad", other, sizeof other, id, &error), &error, "parse plan");
  ballista->stop(s, 1000);
}

/* ---- with an executor ---- */

static pid_t executor(const char *address, const char *folder) {
  const char *program = getenv("TRUNNION_CLUSTER_PROGRAM"), *functions = getenv("TRUNNION_FUNCTIONS");
  char *port = strrchr(address, ':') + 1;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    execl(program, program, "executor", "--functions", functions, "--bind-host", "127.0.0.1", "--external-host",
          "127.0.0.1", "--scheduler-host", "127.0.0.1", "--scheduler-port", port, "--bind-port", "0",
          "--bind-grpc-port", "0", "--bind-health-port", "0", "--vcores", "1", "--memory-pool-size", "64MiB",
          "--work-dir", folder, "--log-level-setting", "ERROR", NULL);
    _exit(127);
  }
  return pid;
}

static void with_an_executor_jobs_are_done_and_recorded_first(void **state) {
  (void)state;
  char folder[] = "/tmp/trn-executor-XXXXXX", command[64];
  assert_non_null(mkdtemp(folder));
  trn_bsched_handle *s = start("127.0.0.1");
  trn_engine_error error = {0};
  trn_engine_bytes bytes = {0};
  char id[TRN_BSCHED_JOB_ID_MAX + 1];
  size_t count = 0;
  pid_t pid = executor(ballista->address(s), folder);
  for (int waited = 0; !count; waited += 10) {
    if (waited > PATIENCE_MS) fail_msg("no executor came");
    succeeded(ballista->executors(s, &count, &error), &error, "executors");
    sleep_ms(10);
  }
  succeeded(submit(s, "done", id, &error), &error, "submit");
  wait_told("done", TRN_BSCHED_SUCCEEDED);
  /* the host is told first: then it can be seen */
  for (int waited = 0; !count || waited == 0; waited++) {
    succeeded(ballista->status(s, "done", &bytes, &error), &error, "status");
    count = has(&bytes, "127.0.0.1");
    release(&bytes);
    assert_true(waited < 1000);
    sleep_ms(1);
  }
  succeeded(ballista->cancel(s, "done", &error), &error, "a finished one keeps its state");
  succeeded(ballista->status(s, "done", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "127.0.0.1") && !has(&bytes, "Cancelled"));
  release(&bytes);
  succeeded(ballista->metrics(s, "done", &bytes, &error), &error, "metrics");
  assert_true(bytes.size > 0);
  release(&bytes);
  trn_bsched_progress progress = {.struct_size = sizeof progress};
  succeeded(ballista->progress(s, "done", &progress, &error), &error, "progress");
  assert_true(progress.stages >= 1 && progress.stages_done == progress.stages && progress.tasks_done == progress.tasks);
  succeeded(ballista->release(s, "done", &error), &error, "release");
  assert_int_equal(told_of("done", TRN_BSCHED_SUCCEEDED), 1);

  succeeded(submit_bytes(s, "custom", plan_custom, sizeof plan_custom, id, &error), &error,
            "submit of the host's table");
  wait_told("custom", TRN_BSCHED_SUCCEEDED);
  sleep_ms(20);
  succeeded(ballista->status(s, "custom", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "\x08\x03\x10\x01")); /* a partition of three rows in one batch */
  release(&bytes);

  host.answer_to_success = TRN_RESOURCE_EXHAUSTED;
  succeeded(submit(s, "unrecorded", id, &error), &error, "submit");
  wait_told("unrecorded", TRN_BSCHED_FAILED);
  sleep_ms(20);
  succeeded(ballista->status(s, "unrecorded", &bytes, &error), &error, "status");
  assert_true(has(&bytes, "could not be recorded") && !has(&bytes, "127.0.0.1"));
  release(&bytes);
  assert_int_equal(told_of("unrecorded", TRN_BSCHED_FAILED), 1);
  kill(pid, SIGTERM);
  waitpid(pid, NULL, 0);
  ballista->stop(s, 2000);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const char *path = getenv("TRUNNION_BALLISTA"), *functions = getenv("TRUNNION_FUNCTIONS");
  trn_error *error = NULL;
  const trn_bsched *none = NULL;
  if (trn__bsched_load(path, &ballista, &error) || trn__function_library_load(functions, &library, &error)) {
    fprintf(stderr, "%s\n", trn_error_message(error));
    return 1;
  }
  if (trn__bsched_load("/nowhere/at/all.so", &none, NULL) != TRN_NOT_FOUND ||
      trn__bsched_load(functions, &none, NULL) != TRN_FAILED_PRECONDITION)
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_has_the_id_that_was_asked_for_and_is_cancelled_once),
      cmocka_unit_test(one_that_is_planned_is_cancelled_as_well),
      cmocka_unit_test(of_submissions_with_one_id_exactly_one_runs),
      cmocka_unit_test(what_is_wrong_is_named_and_leaves_no_job),
      cmocka_unit_test(a_job_of_somebody_elses_is_found_and_its_id_is_taken),
      cmocka_unit_test(a_table_that_the_host_cannot_give),
      cmocka_unit_test(a_port_that_is_taken_and_options_that_are_wrong),
      cmocka_unit_test(with_an_executor_jobs_are_done_and_recorded_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
