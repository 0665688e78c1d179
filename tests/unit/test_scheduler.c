/* Schedulers and jobs over the scripted backend: life, events, duplicates, recovery, two schedulers over one store. */
#include "support/scheduler_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "scheduler/store_sql.h"

static void error_says(trn_error *error, const char *text) {
  assert_non_null(error);
  if (!strstr(trn_error_message(error), text)) fail_msg("'%s' is not in '%s'", text, trn_error_message(error));
  trn_error_unref(error);
}

/* ---- one job ---- */

static void a_job_runs_and_its_output_is_read_twice(void **state) {
  (void)state;
  node n;
  char *folder = node_open_alone(&n);
  trn_job *job = submit(&n, "0190-first.job", "rows 5000");
  assert_string_equal(trn_job_id(job), "0190-first.job");
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  trn_job_status status = status_of(job);
  assert_int_equal(status.rows, 5000);
  assert_int_equal(status.attempt, 1);
  assert_true(status.submitted_ms && status.started_ms >= status.submitted_ms && status.ended_ms >= status.started_ms);
  output_is(job, 5000);
  output_is(job, 5000);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

static void count_location(void *user, const trn_job_location *location) {
  struct stat info;
  assert_int_equal(strncmp(location->uri, "file:///", 8), 0);
  assert_int_equal(stat(location->uri + 7, &info), 0);
  assert_int_equal(info.st_size, location->bytes);
  *(int64_t *)user += location->rows;
}

static void a_plan_runs_and_has_an_id_and_locations(void **state) {
  (void)state;
  node n;
  char *folder = node_open_alone(&n);
  trn_plan *plan = range_of(10);
  trn_job *job = NULL;
  trn_submit_request request = {.struct_size = sizeof request, .session = n.session, .plan = plan};
  assert_int_equal(trn_scheduler_submit(n.scheduler, &request, &job, NULL), TRN_OK);
  trn_plan_unref(plan);
  assert_true(trn__uuid_is_valid(trn_job_id(job)));
  assert_int_equal(trn_job_id(job)[14], '7');
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  int64_t rows = 0;
  assert_int_equal(trn_job_locations(job, count_location, &rows, NULL), TRN_OK);
  assert_int_equal(rows, 10);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

static void a_failed_job_says_why_and_has_no_output(void **state) {
  (void)state;
  node n;
  int64_t rows;
  char *folder = node_open_alone(&n);
  trn_job *job = submit(&n, "f", "fail");
  trn_job_status status = {.struct_size = sizeof status};
  trn_error *failure = NULL, *error = NULL;
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  assert_int_equal(trn_error_status(failure), TRN_DATA_LOSS);
  assert_string_equal(trn_error_condition(failure), "LOST_ROWS");
  error_says(failure, "as scripted");
  assert_int_equal(read_output(job, &rows, &error), TRN_FAILED_PRECONDITION);
  error_says(error, "it is failed");
  trn_job_unref(job);
  /* Another process reads the same of the store. */
  node_close(&n);
  node_open(&n, folder);
  assert_int_equal(trn_scheduler_job(n.scheduler, "f", &job, NULL), TRN_OK);
  assert_int_equal(trn_job_get_status(job, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  assert_string_equal(trn_error_condition(failure), "LOST_ROWS");
  error_says(failure, "as scripted");
  trn_job_unref(job);
  char *outputs = in_folder(folder, "outputs/f");
  assert_int_not_equal(access(outputs, F_OK), 0);
  free(outputs);
  job = submit(&n, "g", "nonsense");
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  error_says(failure, "no query: nonsense");
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

static void bad_requests_are_refused(void **state) {
  (void)state;
  static const char *const ids[] = {
      "",
      "../x",
      "a/b",
      ".x",
      "-x",
      "a b",
      "\xc3\xa4",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  node n;
  trn_job *job;
  char *folder = node_open_alone(&n);
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    assert_int_equal(submit_with(&n, ids[i], "rows 1", NULL, &job, NULL), TRN_INVALID_ARGUMENT);
  trn_submit_request none = {.struct_size = sizeof none, .session = n.session};
  assert_int_equal(trn_scheduler_submit(n.scheduler, &none, &job, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_scheduler_job(n.scheduler, "nobody", &job, NULL), TRN_NOT_FOUND);
  assert_int_equal(trn_scheduler_recover(n.scheduler, "nobody", NULL, &job, NULL), TRN_NOT_FOUND);
  assert_int_equal(trn_scheduler_forget(n.scheduler, "nobody", NULL), TRN_NOT_FOUND);
  trn_scheduler *other = NULL;
  trn_scheduler_options options = {.struct_size = sizeof options, .store = n.store};
  assert_int_equal(trn_scheduler_create(&options, n.backend, &other, NULL), TRN_INVALID_ARGUMENT);
  node_close_alone(&n, folder);
}

/* ---- duplicates ---- */

static void an_id_is_taken_once(void **state) {
  (void)state;
  node n, m;
  trn_job *again = NULL;
  trn_error *error = NULL;
  char *folder = node_open_alone(&n);
  node_open(&m, folder);
  trn_job *job = submit(&n, "one", "rows 10");
  assert_int_equal(submit_with(&n, "one", "rows 20", NULL, &again, &error), TRN_ALREADY_EXISTS);
  error_says(error, "job one already");
  assert_null(again);
  assert_int_equal(submit_with(&m, "one", "rows 30", NULL, &again, NULL), TRN_ALREADY_EXISTS);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(submit_with(&m, "one", "rows 30", NULL, &again, NULL), TRN_ALREADY_EXISTS);
  output_is(job, 10);
  assert_int_equal(trn__scripted_count(n.control).executed, 1);
  assert_int_equal(trn__scripted_count(m.control).executed, 0);
  /* Forgotten, it may be used again. */
  assert_int_equal(trn_scheduler_forget(m.scheduler, "one", NULL), TRN_OK);
  trn_job_status status = {.struct_size = sizeof status};
  assert_int_equal(trn_job_get_status(job, &status, NULL, NULL), TRN_NOT_FOUND);
  again = submit(&m, "one", "rows 7");
  assert_int_equal(wait_for_end(again), TRN_JOB_SUCCEEDED);
  output_is(again, 7);
  trn_job_unref(again);
  trn_job_unref(job);
  node_close(&m);
  node_close_alone(&n, folder);
}

enum { RACERS = 8 };

typedef struct racer {
  node *n;
  trn_status status;
  trn_job *job;
} racer;

static void *race(void *argument) {
  racer *r = argument;
  r->status = submit_with(r->n, "raced", "rows 100", NULL, &r->job, NULL);
  return NULL;
}

static void of_racing_duplicates_one_runs(void **state) {
  (void)state;
  node nodes[2];
  racer racers[RACERS] = {0};
  pthread_t threads[RACERS];
  int winners = 0;
  char *folder = make_folder_for_test();
  node_open(&nodes[0], folder);
  node_open(&nodes[1], folder);
  for (int i = 0; i < RACERS; i++) {
    racers[i].n = &nodes[i % 2];
    assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
  }
  for (int i = 0; i < RACERS; i++) {
    pthread_join(threads[i], NULL);
    winners += racers[i].status == TRN_OK;
    if (racers[i].status) assert_int_equal(racers[i].status, TRN_ALREADY_EXISTS);
    if (racers[i].job) assert_int_equal(wait_for_end(racers[i].job), TRN_JOB_SUCCEEDED);
    trn_job_unref(racers[i].job);
  }
  assert_int_equal(winners, 1);
  assert_int_equal(trn__scripted_count(nodes[0].control).executed + trn__scripted_count(nodes[1].control).executed, 1);
  node_close(&nodes[1]);
  node_close(&nodes[0]);
  remove_folder_of_test(folder);
}

/* ---- events ---- */

typedef struct events {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  unsigned count, ends, terminals;
  bool arrived;
  trn_status result;
  trn_job_status last, first;
  trn_job_state states[64];
} events;

static void on_event(void *user, trn_status result, const trn_job_status *status, const trn_error *failure) {
  events *e = user;
  (void)failure;
  pthread_mutex_lock(&e->mu);
  e->result = result;
  e->arrived = true;
  if (status) {
    if (!e->count) e->first = *status;
    if (e->count < 64) e->states[e->count] = status->state;
    e->last = *status;
    e->count++;
    e->terminals += status->state > TRN_JOB_RUNNING;
  } else {
    e->ends++;
  }
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mu);
}

static void events_init(events *e) {
  *e = (events){0};
  pthread_mutex_init(&e->mu, NULL);
  pthread_cond_init(&e->changed, NULL);
}

static void await_event(events *e) {
  pthread_mutex_lock(&e->mu);
  while (!e->arrived) pthread_cond_wait(&e->changed, &e->mu);
  e->arrived = false;
  pthread_mutex_unlock(&e->mu);
}

static void next_event(trn_job_subscription *s, events *e) {
  assert_int_equal(trn_job_subscription_next(s, on_event, e, NULL), TRN_OK);
  await_event(e);
}

static void a_slow_subscriber_loses_nothing(void **state) {
  (void)state;
  node n;
  events e;
  trn_job_subscription *s = NULL;
  char *folder = node_open_alone(&n);
  events_init(&e);
  trn_job *job = submit(&n, "slow", "slow 3000");
  assert_int_equal(trn_job_subscribe(job, &s, NULL), TRN_OK);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED); /* nobody has asked for an event yet */
  while (!e.ends) next_event(s, &e);
  assert_int_equal(e.first.state, TRN_JOB_QUEUED);
  assert_int_equal(e.states[1], TRN_JOB_RUNNING);
  assert_int_equal(e.last.state, TRN_JOB_SUCCEEDED);
  assert_int_equal(e.terminals, 1);
  assert_true(e.count >= 4); /* batches are counted in between */
  next_event(s, &e);         /* and nothing follows */
  assert_int_equal(e.ends, 2);
  trn_job_subscription_destroy(s);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

static void one_event_is_asked_for_at_a_time_and_destroying_ends_it(void **state) {
  (void)state;
  node n;
  events e;
  trn_job_subscription *s = NULL;
  char *folder = node_open_alone(&n);
  events_init(&e);
  trn_job *job = submit(&n, "h", "hang");
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(trn_job_subscribe(job, &s, NULL), TRN_OK);
  next_event(s, &e);
  assert_int_equal(e.last.state, TRN_JOB_QUEUED);
  next_event(s, &e);
  assert_int_equal(e.last.state, TRN_JOB_RUNNING);
  next_event(s, &e); /* the first batch */
  assert_int_equal(trn_job_subscription_next(s, on_event, &e, NULL), TRN_OK);
  assert_int_equal(trn_job_subscription_next(s, on_event, &e, NULL), TRN_FAILED_PRECONDITION);
  trn_job_subscription_destroy(s);
  await_event(&e);
  assert_int_equal(e.result, TRN_CANCELLED);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

/* ---- cancel ---- */

static void a_running_and_a_waiting_job_are_cancelled(void **state) {
  (void)state;
  node n;
  char *folder = make_folder_for_test();
  trn_scheduler_options one = {.jobs_running_max = 1};
  node_open_with(&n, folder, open_store(folder), &one);
  trn_job *first = submit(&n, "first", "hang"), *second = submit(&n, "second", "rows 5"),
          *third = submit(&n, "third", "rows 5");
  wait_for_state(first, TRN_JOB_RUNNING);
  assert_int_equal(status_of(second).state, TRN_JOB_QUEUED);
  assert_int_equal(trn_job_cancel(second, NULL), TRN_OK);
  assert_int_equal(wait_for_end(second), TRN_JOB_CANCELLED);
  assert_int_equal(trn_job_cancel(first, NULL), TRN_OK);
  assert_int_equal(trn_job_cancel(first, NULL), TRN_OK);
  assert_int_equal(wait_for_end(first), TRN_JOB_CANCELLED);
  assert_int_equal(wait_for_end(third), TRN_JOB_SUCCEEDED);
  assert_int_equal(trn_job_cancel(third, NULL), TRN_OK); /* keeps its output */
  assert_int_equal(status_of(third).state, TRN_JOB_SUCCEEDED);
  output_is(third, 5);
  trn_job_unref(first);
  trn_job_unref(second);
  trn_job_unref(third);
  node_close_alone(&n, folder);
}

static void a_full_queue_refuses(void **state) {
  (void)state;
  node n;
  trn_job *job = NULL;
  char *folder = make_folder_for_test();
  trn_scheduler_options small = {.jobs_running_max = 1, .jobs_queued_max = 1};
  node_open_with(&n, folder, open_store(folder), &small);
  trn_job *first = submit(&n, "a", "hang"), *second = submit(&n, "b", "hang");
  assert_int_equal(submit_with(&n, "c", "rows 1", NULL, &job, NULL), TRN_RESOURCE_EXHAUSTED);
  trn_job_unref(first);
  trn_job_unref(second);
  node_close_alone(&n, folder);
}

/* ---- release ---- */

static void a_released_output_is_gone_and_its_record_stays(void **state) {
  (void)state;
  node n;
  int64_t rows;
  trn_error *error = NULL;
  char *folder = node_open_alone(&n);
  trn_job *job = submit(&n, "r", "rows 100");
  trn_job *running = submit(&n, "h", "hang");
  assert_int_equal(trn_job_release(running, NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(trn_job_release(job, NULL), TRN_OK);
  assert_int_equal(trn_job_release(job, NULL), TRN_OK);
  assert_true(status_of(job).is_released);
  assert_int_equal(read_output(job, &rows, &error), TRN_NOT_FOUND);
  error_says(error, "was released");
  char *path = in_folder(folder, "outputs/r");
  assert_int_not_equal(access(path, F_OK), 0);
  free(path);
  trn_job *again = NULL;
  assert_int_equal(submit_with(&n, "r", "rows 1", NULL, &again, NULL), TRN_ALREADY_EXISTS);
  trn_job_unref(job);
  trn_job_unref(running);
  node_close_alone(&n, folder);
}

/* The file is damaged behind the scheduler's back: never fewer rows as if nothing were. */
static void a_cut_or_missing_output_is_a_loss(void **state) {
  (void)state;
  node n;
  int64_t rows;
  char *folder = node_open_alone(&n);
  trn_job *job = submit(&n, "x", "rows 1000");
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  char *path = in_folder(folder, "outputs/x/1/part-00000.arrows");
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  int fd = open(path, O_RDWR);
  /* The same size, but ended early: as many bytes of nothing where the last batch was. */
  char zero[8] = {(char)0xff, (char)0xff, (char)0xff, (char)0xff};
  off_t after_schema = 8;
  uint32_t size;
  assert_int_equal(pread(fd, &size, 4, 4), 4);
  after_schema += size;
  char kept[8];
  assert_int_equal(pread(fd, kept, 8, after_schema), 8);
  assert_int_equal(pwrite(fd, zero, 8, after_schema), 8);
  assert_int_equal(read_output(job, &rows, NULL), TRN_DATA_LOSS);
  assert_int_equal(pwrite(fd, kept, 8, after_schema), 8);
  output_is(job, 1000);
  assert_int_equal(ftruncate(fd, info.st_size - 8), 0);
  close(fd);
  assert_int_equal(read_output(job, &rows, NULL), TRN_DATA_LOSS);
  unlink(path);
  assert_int_equal(read_output(job, &rows, NULL), TRN_DATA_LOSS);
  free(path);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

/* ---- several schedulers ---- */

static void another_scheduler_follows_fetches_and_cancels(void **state) {
  (void)state;
  node n, m;
  events e;
  trn_job *there = NULL, *hanging = NULL;
  trn_job_subscription *s = NULL;
  char *folder = node_open_alone(&n);
  events_init(&e);
  node_open(&m, folder);
  trn_job *job = submit(&n, "shared", "slow 3000");
  assert_int_equal(trn_scheduler_job(m.scheduler, "shared", &there, NULL), TRN_OK);
  assert_int_equal(trn_job_subscribe(there, &s, NULL), TRN_OK);
  assert_int_equal(wait_for_end(there), TRN_JOB_SUCCEEDED);
  while (!e.ends) next_event(s, &e);
  assert_int_equal(e.terminals, 1);
  assert_int_equal(e.last.state, TRN_JOB_SUCCEEDED);
  output_is(there, 3000);
  trn_job_subscription_destroy(s);
  trn_job_unref(there);
  trn_job_unref(job);
  job = submit(&n, "hanging", "hang");
  wait_for_state(job, TRN_JOB_RUNNING);
  /* Recovering what somebody runs leaves it alone. */
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(m.scheduler, "hanging", &resubmit, &hanging, NULL), TRN_OK);
  assert_int_equal(status_of(hanging).state, TRN_JOB_RUNNING);
  assert_int_equal(status_of(hanging).attempt, 1);
  assert_int_equal(trn_job_cancel(hanging, NULL), TRN_OK);
  assert_int_equal(wait_for_end(hanging), TRN_JOB_CANCELLED);
  assert_int_equal(wait_for_end(job), TRN_JOB_CANCELLED);
  trn_job_unref(hanging);
  trn_job_unref(job);
  assert_int_equal(trn__scripted_count(m.control).executed, 0);
  node_close(&m);
  node_close_alone(&n, folder);
}

static void jobs_of_a_stopped_scheduler_are_lost_until_they_are_recovered(void **state) {
  (void)state;
  node n, m;
  trn_job *lost = NULL, *followed = NULL;
  trn_job_status status = {.struct_size = sizeof status};
  char *folder = node_open_alone(&n);
  node_open(&m, folder);
  trn_job *job = submit(&n, "l", "hang");
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(trn_scheduler_job(m.scheduler, "l", &followed, NULL), TRN_OK);
  node_close(&n);
  assert_int_equal(wait_for_end(job), TRN_JOB_LOST); /* the handle outlives its scheduler */
  trn_job_unref(job);
  assert_int_equal(wait_for_end(followed), TRN_JOB_LOST);
  assert_int_equal(trn_scheduler_recover(m.scheduler, "l", NULL, &lost, NULL), TRN_OK);
  assert_int_equal(status_of(lost).state, TRN_JOB_LOST);
  trn_job_unref(lost);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(m.scheduler, "l", &resubmit, &lost, NULL), TRN_OK);
  wait_for_state(lost, TRN_JOB_RUNNING);
  assert_int_equal(status_of(lost).attempt, 2);
  /* Cancelled while it is lost again, it never runs. */
  node_close(&m);
  trn_job_unref(lost);
  trn_job_unref(followed);
  node_open(&m, folder);
  assert_int_equal(trn_scheduler_job(m.scheduler, "l", &lost, NULL), TRN_OK);
  assert_int_equal(status_of(lost).state, TRN_JOB_LOST);
  assert_int_equal(trn_job_cancel(lost, NULL), TRN_OK);
  assert_int_equal(status_of(lost).state, TRN_JOB_CANCELLED);
  trn_job_unref(lost);
  assert_int_equal(trn_scheduler_recover(m.scheduler, "l", &resubmit, &lost, NULL), TRN_OK);
  assert_int_equal(status_of(lost).state, TRN_JOB_CANCELLED);
  assert_int_equal(trn__scripted_count(m.control).executed, 0);
  trn_job_unref(lost);
  node_close(&m);
  remove_folder_of_test(folder);
}

static void a_job_that_is_lost_each_time_fails(void **state) {
  (void)state;
  node n;
  trn_error *failure = NULL;
  trn_job_status status = {.struct_size = sizeof status};
  const trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  char *folder = node_open_alone(&n);
  trn_job *job = submit(&n, "killer", "hang");
  for (unsigned i = 1; i <= TRN_JOB_ATTEMPTS_MAX; i++) {
    wait_for_state(job, TRN_JOB_RUNNING);
    assert_int_equal(status_of(job).attempt, i);
    node_close(&n);
    trn_job_unref(job);
    node_open(&n, folder);
    assert_int_equal(trn_scheduler_recover(n.scheduler, "killer", &resubmit, &job, NULL), TRN_OK);
  }
  assert_int_equal(trn_job_get_status(job, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  error_says(failure, "lost 5 times");
  assert_int_equal(trn__scripted_count(n.control).executed, 0);
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_forget(n.scheduler, "killer", NULL), TRN_OK);
  node_close_alone(&n, folder);
}

static void a_lost_job_without_a_query_fails(void **state) {
  (void)state;
  node n;
  trn_job *job = NULL;
  const trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  char *folder = node_open_alone(&n);
  trn_plan *plan = range_of(HANGING);
  const trn_submit_request request = {
      .struct_size = sizeof request, .requested_job_id = "once", .session = n.session, .plan = plan};
  assert_int_equal(trn_scheduler_submit(n.scheduler, &request, &job, NULL), TRN_OK);
  trn_plan_unref(plan);
  wait_for_state(job, TRN_JOB_RUNNING);
  node_close(&n);
  trn_job_unref(job);
  node_open(&n, folder);
  trn_error *error = NULL;
  assert_int_equal(trn_scheduler_recover(n.scheduler, "once", &resubmit, &job, &error), TRN_FAILED_PRECONDITION);
  error_says(error, "nothing is recorded");
  assert_int_equal(trn_scheduler_job(n.scheduler, "once", &job, NULL), TRN_OK);
  assert_int_equal(status_of(job).state, TRN_JOB_FAILED);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

/* A scheduler that was stopped by a debugger, say: its lease runs out, somebody else runs the job, it comes back. */
typedef struct paused_store {
  trn_job_store *inner;
  atomic_bool is_paused;
  bool refuses_outputs; /* for good */
} paused_store;

static trn_status paused_renew(void *self, const char *owner, uint64_t lease_ms, trn_job_each each, void *user,
                               trn_error **error) {
  paused_store *p = self;
  void *inner;
  const trn_job_store_ops *ops = trn_job_store_get_ops(p->inner, &inner);
  if (atomic_load(&p->is_paused)) return trn_error_set(error, TRN_UNAVAILABLE, NULL, "paused");
  return ops->renew(inner, owner, lease_ms, each, user, error);
}

#define PASS(name, parameters, arguments)                                                                              \
  static trn_status paused_##name parameters {                                                                         \
    paused_store *p = self;                                                                                            \
    const trn_job_store_ops *ops = trn_job_store_get_ops(p->inner, &self);                                             \
    return ops->name arguments;                                                                                        \
  }
PASS(insert, (void *self, const trn_job_record *r, trn_error **error), (self, r, error))
PASS(get, (void *self, const char *id, bool q, trn_job_each each, void *user, trn_error **error),
     (self, id, q, each, user, error))
static trn_status paused_update(void *self, const trn_job_record *r, trn_error **error) {
  paused_store *p = self;
  void *inner;
  const trn_job_store_ops *ops = trn_job_store_get_ops(p->inner, &inner);
  if (p->refuses_outputs && r->location_count) return trn_error_set(error, TRN_INTERNAL, NULL, "invalid byte sequence");
  return ops->update(inner, r, error);
}
PASS(take, (void *self, const char *id, uint64_t a, const char *owner, bool n, trn_error **error),
     (self, id, a, owner, n, error))
PASS(cancel, (void *self, const char *id, trn_error **error), (self, id, error))
PASS(release, (void *self, const char *id, trn_error **error), (self, id, error))
PASS(remove, (void *self, const char *id, trn_error **error), (self, id, error))
PASS(list, (void *self, const trn_job_filter *f, trn_job_each each, void *user, trn_error **error),
     (self, f, each, user, error))

static void paused_destroy(void *self) {
  paused_store *p = self;
  trn_job_store_unref(p->inner);
}

static const trn_job_store_ops paused_ops = {sizeof paused_ops, paused_insert, paused_get,    paused_update,
                                             paused_take,       paused_renew,  paused_cancel, paused_release,
                                             paused_remove,     paused_list,   paused_destroy};

static void an_end_that_the_store_refuses_is_a_failure(void **state) {
  (void)state;
  node n;
  char *folder = make_folder_for_test();
  paused_store refusing = {.inner = open_store(folder), .refuses_outputs = true};
  trn_job_store *store;
  assert_int_equal(trn_job_store_create(&paused_ops, &refusing, &store), TRN_OK);
  node_open_with(&n, folder, store, NULL);
  trn_job *job = submit(&n, "r", "rows 10");
  assert_int_equal(wait_for_end(job), TRN_JOB_FAILED);
  char *path = in_folder(folder, "outputs/r/1");
  for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_not_equal(access(path, F_OK), 0);
  free(path);
  trn_job_unref(job);
  node_close_alone(&n, folder);
}

static void a_scheduler_that_lost_its_lease_changes_nothing(void **state) {
  (void)state;
  node n, m;
  trn_job *taken = NULL;
  char *folder = make_folder_for_test();
  paused_store paused = {.inner = open_store(folder)};
  trn_job_store *store;
  assert_int_equal(trn_job_store_create(&paused_ops, &paused, &store), TRN_OK);
  trn_scheduler_options brief = {.lease_ms = SHORT_LEASE_MS};
  node_open_with(&n, folder, store, &brief);
  node_open(&m, folder);
  trn_job *job = submit(&n, "p", "slow 500000");
  wait_for_state(job, TRN_JOB_RUNNING);
  atomic_store(&paused.is_paused, true);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  for (int i = 0; i < 1000; i++) { /* until the lease has run out */
    assert_int_equal(trn_scheduler_recover(m.scheduler, "p", &resubmit, &taken, NULL), TRN_OK);
    if (status_of(taken).attempt == 2) break;
    trn_job_unref(taken);
    taken = NULL;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  assert_non_null(taken);
  atomic_store(&paused.is_paused, false);
  /* The first comes to its end and finds that the job is not its own: it follows what the other does. */
  assert_int_equal(wait_for_end(taken), TRN_JOB_SUCCEEDED);
  for (int i = 0; i < 2000 && status_of(job).state != TRN_JOB_SUCCEEDED; i++)
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(status_of(job).attempt, 2);
  output_is(taken, 500000);
  output_is(job, 500000);
  char *path = in_folder(folder, "outputs/p/1");
  for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_not_equal(access(path, F_OK), 0); /* what it had written is gone */
  free(path);
  trn_job_unref(taken);
  trn_job_unref(job);
  node_close(&m);
  node_close_alone(&n, folder);
}

/* ---- list ---- */

typedef struct found {
  char ids[64][32];
  size_t count;
  trn_job_state state;
} found;

static bool collect(void *user, const trn_job_record *record) {
  found *f = user;
  snprintf(f->ids[f->count++], 32, "%s", record->id);
  f->state = record->state;
  assert_string_equal(record->user, "ann");
  assert_null(record->query);
  return f->count < 64;
}

static void lists_are_filtered_and_go_on(void **state) {
  (void)state;
  node n;
  found f = {0};
  char *folder = node_open_alone(&n);
  for (int i = 0; i < 5; i++) {
    char id[8];
    trn_job *job = NULL;
    snprintf(id, sizeof id, "j%d", i);
    assert_int_equal(submit_with(&n, id, i == 3 ? "hang" : "rows 1", i % 2 ? "odd" : "even", &job, NULL), TRN_OK);
    if (i == 3)
      wait_for_state(job, TRN_JOB_RUNNING);
    else
      assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
    trn_job_unref(job);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* another millisecond */
  }
  trn_job_filter filter = {.struct_size = sizeof filter, .limit = 2};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_int_equal(f.count, 2);
  assert_string_equal(f.ids[0], "j4");
  filter.after_id = "j3";
  f = (found){0};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_string_equal(f.ids[0], "j2");
  assert_string_equal(f.ids[1], "j1");
  filter = (trn_job_filter){.struct_size = sizeof filter, .tag = "odd"};
  f = (found){0};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_int_equal(f.count, 2);
  filter = (trn_job_filter){.struct_size = sizeof filter, .states = 1u << TRN_JOB_RUNNING, .user = "ann"};
  f = (found){0};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_int_equal(f.count, 1);
  assert_string_equal(f.ids[0], "j3");
  filter = (trn_job_filter){.struct_size = sizeof filter, .user = "bob"};
  f = (found){0};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_int_equal(f.count, 0);
  node_close(&n);
  node_open(&n, folder); /* whoever ran j3 is gone */
  filter = (trn_job_filter){.struct_size = sizeof filter, .states = 1u << TRN_JOB_LOST};
  assert_int_equal(trn_scheduler_list(n.scheduler, &filter, collect, &f, NULL), TRN_OK);
  assert_int_equal(f.count, 1);
  assert_int_equal(f.state, TRN_JOB_LOST);
  node_close_alone(&n, folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_runs_and_its_output_is_read_twice),
      cmocka_unit_test(a_plan_runs_and_has_an_id_and_locations),
      cmocka_unit_test(a_failed_job_says_why_and_has_no_output),
      cmocka_unit_test(bad_requests_are_refused),
      cmocka_unit_test(an_id_is_taken_once),
      cmocka_unit_test(of_racing_duplicates_one_runs),
      cmocka_unit_test(a_slow_subscriber_loses_nothing),
      cmocka_unit_test(one_event_is_asked_for_at_a_time_and_destroying_ends_it),
      cmocka_unit_test(a_running_and_a_waiting_job_are_cancelled),
      cmocka_unit_test(a_full_queue_refuses),
      cmocka_unit_test(a_released_output_is_gone_and_its_record_stays),
      cmocka_unit_test(a_cut_or_missing_output_is_a_loss),
      cmocka_unit_test(another_scheduler_follows_fetches_and_cancels),
      cmocka_unit_test(jobs_of_a_stopped_scheduler_are_lost_until_they_are_recovered),
      cmocka_unit_test(a_job_that_is_lost_each_time_fails),
      cmocka_unit_test(a_lost_job_without_a_query_fails),
      cmocka_unit_test(a_scheduler_that_lost_its_lease_changes_nothing),
      cmocka_unit_test(an_end_that_the_store_refuses_is_a_failure),
      cmocka_unit_test(lists_are_filtered_and_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
