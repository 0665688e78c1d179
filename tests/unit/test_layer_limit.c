/* limit: slots and queues; they come back on every path. */
#include "support/layer_fixture.h"

typedef struct limited {
  bench bench;
  trn_backend *backend;
  trn_session *ann;
} limited;

static void limited_open(limited *l, trn_config *config) {
  bench_open(&l->bench, TRN_SCRIPTED_ARRAYS);
  trn_limit_options options = {
      .struct_size = sizeof options, .config = config, .sink = log_event, .sink_user = &l->bench.log};
  trn_error *error = NULL;
  trn_status status = trn_limit_create(&options, l->bench.base, &l->backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_config_destroy(config);
  l->ann = session_of(l->backend, "ann", NULL);
}

static trn_limit_counts counts_of(const limited *l) {
  trn_limit_counts counts = {.struct_size = sizeof counts};
  assert_true(trn_limit_count(l->backend, &counts));
  return counts;
}

static void await_counts(const limited *l, uint64_t running, uint64_t waiting) {
  for (int i = 0; i < 5000; i++) {
    trn_limit_counts counts = counts_of(l);
    if (counts.running == running && counts.waiting == waiting) return;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  trn_limit_counts counts = counts_of(l);
  assert_int_equal(counts.running, running);
  assert_int_equal(counts.waiting, waiting);
}

static void limited_close(limited *l) {
  await_counts(l, 0, 0);
  trn_session_unref(l->ann);
  trn_backend_unref(l->backend);
  bench_close(&l->bench);
}

static trn_operation *begin_range(trn_session *session, trn_status expected) {
  trn_operation *operation = NULL;
  trn_plan *plan = range_plan(5);
  assert_int_equal(begin(session, plan, &operation, NULL), expected);
  trn_plan_unref(plan);
  return operation;
}

static void those_beyond_the_limit_wait_and_those_beyond_the_queue_are_refused(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("concurrent=2\nqueue=1"));
  trn_operation *one = begin_range(l.ann, TRN_OK), *two = begin_range(l.ann, TRN_OK);
  trn_operation *three = begin_range(l.ann, TRN_OK);
  assert_int_equal(trn_operation_get_state(three), TRN_OPERATION_PENDING);
  assert_null(begin_range(l.ann, TRN_RESOURCE_EXHAUSTED));
  assert_int_equal(counts_of(&l).running, 2);
  assert_int_equal(counts_of(&l).waiting, 1);
  assert_int_equal(counts_of(&l).refused, 1);
  trn_status status;
  assert_int_equal(read_rows(one, false, 0, &status, NULL), 5); /* its end lets the next one go */
  assert_int_equal(read_rows(three, false, 0, &status, NULL), 5);
  assert_int_equal(trn_operation_get_state(three), TRN_OPERATION_FINISHED);
  trn_operation_unref(one);
  trn_operation_unref(three);
  trn_operation_unref(two); /* never read */
  limited_close(&l);
}

static void a_waiting_query_answers_its_pull_when_it_ran(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("concurrent=1"));
  trn_operation *one = begin_range(l.ann, TRN_OK), *two = begin_range(l.ann, TRN_OK);
  trn_stream *stream = NULL;
  assert_int_equal(trn_operation_result_stream(two, &stream, NULL), TRN_OK);
  puller p;
  puller_init(&p);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  assert_false(puller_wait(&p, 20));
  trn_operation_cancel(one);
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.status, TRN_OK);
  assert_int_equal(p.piece.rows, 5);
  trn_stream_unref(stream);
  trn_operation_unref(one);
  trn_operation_unref(two);
  puller_finish(&p);
  limited_close(&l);
}

/* Every way in which a query may end without being read to its end. */
static void slots_come_back_on_every_path(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("concurrent=1\nqueue=5"));
  trn_stream *stream = NULL;
  trn_status status;
  trn_script fails = {.execute_status = TRN_UNAVAILABLE}, breaks = {.fail_status = TRN_ABORTED}, hangs = {.is_hanging = true};
  l.bench.script = &fails; /* execute fails */
  begin_range(l.ann, TRN_UNAVAILABLE);
  await_counts(&l, 0, 0);
  l.bench.script = &breaks; /* the stream fails */
  trn_operation *operation = begin_range(l.ann, TRN_OK);
  assert_int_equal(read_rows(operation, false, 0, &status, NULL), -1);
  assert_int_equal(status, TRN_ABORTED);
  await_counts(&l, 0, 0);
  trn_operation_unref(operation);
  l.bench.script = &hangs; /* cancelled while a pull is out; the stream dropped; the operation dropped */
  for (int way = 0; way < 4; way++) {
    operation = begin_range(l.ann, TRN_OK);
    puller p;
    puller_init(&p);
    assert_int_equal(counts_of(&l).running, 1);
    if (way != 3) assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
    if (way == 0) assert_int_equal(puller_start_array(&p, stream), TRN_OK);
    if (way == 0) trn_operation_cancel(operation);
    if (way == 1) trn_stream_cancel(stream);
    if (way != 3) trn_stream_unref(stream);
    trn_operation_unref(operation);
    puller_wait(&p, 10000);
    puller_finish(&p);
    await_counts(&l, 0, 0);
  }
  l.bench.script = NULL; /* waiting: cancelled, dropped, its start fails */
  for (int way = 0; way < 3; way++) {
    trn_operation *first = begin_range(l.ann, TRN_OK), *waits = begin_range(l.ann, TRN_OK);
    assert_int_equal(counts_of(&l).waiting, 1);
    if (way == 0) trn_operation_cancel(waits);
    if (way == 1) trn_operation_unref(waits);
    if (way == 2) l.bench.script = &fails;
    if (way < 2) await_counts(&l, 1, 0);
    trn_operation_unref(first);
    if (way == 2) assert_int_equal(read_rows(waits, false, 0, &status, NULL), -1);
    if (way == 2) assert_int_equal(status, TRN_UNAVAILABLE);
    if (way != 1) trn_operation_unref(waits);
    await_counts(&l, 0, 0);
    l.bench.script = NULL;
  }
  limited_close(&l);
}

static void what_waits_too_long_is_told_so(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("concurrent=1\nqueue_timeout=30ms"));
  trn_operation *one = begin_range(l.ann, TRN_OK), *two = begin_range(l.ann, TRN_OK);
  trn_status status;
  trn_error *error = NULL;
  assert_int_equal(read_rows(two, false, 0, &status, &error), -1);
  assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "waited longer than 30 ms"));
  assert_int_equal(counts_of(&l).expired, 1);
  trn_error_unref(error);
  trn_operation_unref(two);
  trn_operation_unref(one);
  limited_close(&l);
}

static void what_runs_too_long_and_gives_too_much_is_stopped(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("run_time=30ms"));
  trn_script hangs = {.is_hanging = true};
  trn_status status;
  trn_error *error = NULL;
  l.bench.script = &hangs;
  trn_operation *operation = begin_range(l.ann, TRN_OK);
  assert_int_equal(read_rows(operation, false, 0, &status, &error), -1);
  assert_int_equal(status, TRN_DEADLINE_EXCEEDED);
  assert_non_null(strstr(trn_error_message(error), "ran longer than the 30 ms"));
  trn_error_unref(error);
  error = NULL;
  trn_operation_unref(operation);
  limited_close(&l);
  limited_open(&l, config_of("result_bytes=100K"));
  trn_plan *plan = range_plan(100000);
  assert_int_equal(begin(l.ann, plan, &operation, NULL), TRN_OK);
  trn_plan_unref(plan);
  assert_int_equal(read_rows(operation, true, 0, &status, &error), -1);
  assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "102400 bytes"));
  trn_error_unref(error);
  trn_operation_unref(operation);
  limited_close(&l);
}

static void a_user_does_not_keep_others_out(void **state) {
  (void)state;
  limited l;
  limited_open(&l, config_of("concurrent=2\nper_user=1\nqueue=10"));
  trn_session *bob = session_of(l.backend, "bob", NULL);
  trn_operation *ann1 = begin_range(l.ann, TRN_OK), *ann2 = begin_range(l.ann, TRN_OK);
  trn_operation *bob1 = begin_range(bob, TRN_OK);
  assert_int_equal(trn_operation_get_state(ann2), TRN_OPERATION_PENDING);
  assert_int_equal(trn_operation_get_state(bob1), TRN_OPERATION_RUNNING); /* past the one who waits */
  trn_operation_unref(bob1);
  assert_int_equal(trn_operation_get_state(ann2), TRN_OPERATION_PENDING);
  trn_operation_unref(ann1);
  trn_status status;
  assert_int_equal(read_rows(ann2, false, 0, &status, NULL), 5);
  trn_operation_unref(ann2);
  trn_session_unref(bob);
  limited_close(&l);
}

static void pools_share_by_their_weights(void **state) {
  (void)state;
  limited l;
  trn_config *config = config_of("concurrent=4\nqueue=100");
  static const char *const names[] = {"batch", "web"}, *const weights[] = {"1", "3"};
  for (int i = 0; i < 2; i++) {
    trn_config *pool = add_map(config, "pools");
    put(pool, "name", names[i]);
    put(pool, "users", names[i]);
    put(pool, "weight", weights[i]);
  }
  limited_open(&l, config);
  trn_session *batch = session_of(l.backend, "batch", NULL), *web = session_of(l.backend, "web", NULL);
  trn_operation *first[4], *batches[8], *webs[8];
  for (int i = 0; i < 4; i++) first[i] = begin_range(l.ann, TRN_OK);
  for (int i = 0; i < 8; i++) batches[i] = begin_range(batch, TRN_OK), webs[i] = begin_range(web, TRN_OK);
  for (int i = 0; i < 4; i++) trn_operation_unref(first[i]);
  await_counts(&l, 4, 12);
  int running[2] = {0, 0};
  for (int wait = 0; wait < 5000 && running[0] + running[1] < 4; wait++) {
    running[0] = running[1] = 0;
    for (int i = 0; i < 8; i++) {
      running[0] += trn_operation_get_state(batches[i]) != TRN_OPERATION_PENDING;
      running[1] += trn_operation_get_state(webs[i]) != TRN_OPERATION_PENDING;
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  assert_int_equal(running[0], 1);
  assert_int_equal(running[1], 3);
  for (int i = 0; i < 8; i++) trn_operation_unref(batches[i]), trn_operation_unref(webs[i]);
  trn_session_unref(batch);
  trn_session_unref(web);
  limited_close(&l);
}

/* ---- many at once ---- */

enum { THREADS = 16, ROUNDS = 40 };
typedef struct crowd {
  limited *l;
  int number;
  atomic_int *over; /* more ran than may */
} crowd;

static void *crowd_run(void *argument) {
  crowd *c = argument;
  char user[16];
  snprintf(user, sizeof user, "u%d", c->number % 5);
  for (int i = 0; i < ROUNDS; i++) {
    trn_session *session = session_of(c->l->backend, user, NULL);
    trn_operation *operation = NULL;
    trn_plan *plan = range_plan(1000 * (i % 7));
    if (begin(session, plan, &operation, NULL) == TRN_OK) {
      trn_stream *stream = NULL;
      if (counts_of(c->l).running > 3) atomic_fetch_add(c->over, 1);
      if (i % 3 == 0) trn_operation_cancel(operation);
      if (i % 4 == 1 && trn_operation_result_stream(operation, &stream, NULL) == TRN_OK) trn_stream_unref(stream);
      trn_status status;
      if (i % 3 == 2 && i % 4 != 1) read_rows(operation, i % 2, 0, &status, NULL);
      trn_operation_unref(operation);
    }
    trn_plan_unref(plan);
    trn_session_unref(session);
  }
  return NULL;
}

static void a_crowd_leaves_no_slot_behind(void **state) {
  (void)state;
  limited l;
  atomic_int over = 0;
  pthread_t threads[THREADS];
  crowd crowds[THREADS];
  limited_open(&l, config_of("concurrent=3\nper_user=2\nqueue=8\nqueue_timeout=200ms\nrun_time=2s"));
  for (int i = 0; i < THREADS; i++) {
    crowds[i] = (crowd){&l, i, &over};
    pthread_create(&threads[i], NULL, crowd_run, &crowds[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(over, 0);
  limited_close(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_beyond_the_limit_wait_and_those_beyond_the_queue_are_refused),
      cmocka_unit_test(a_waiting_query_answers_its_pull_when_it_ran),
      cmocka_unit_test(slots_come_back_on_every_path),
      cmocka_unit_test(what_waits_too_long_is_told_so),
      cmocka_unit_test(what_runs_too_long_and_gives_too_much_is_stopped),
      cmocka_unit_test(a_user_does_not_keep_others_out),
      cmocka_unit_test(pools_share_by_their_weights),
      cmocka_unit_test(a_crowd_leaves_no_slot_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
