/* Many threads on one Spark Connect service: every call ends exactly once, and all memory is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/spark_client.h"

enum { THREADS = 16, ROUNDS = 100, ENDLESS_ROWS = 300000 };

typedef struct storm {
  spark_client client;
  atomic_int started, finished, twice, late;
} storm;

/* One call; `ends` must become 1 and stay so. */
typedef struct storm_call {
  storm *storm;
  atomic_int messages, ends;
  trn_inproc_call *call;
} storm_call;

static void on_message(void *user, trn_slice message) {
  storm_call *c = user;
  if (message.release) message.release(message.owner);
  if (atomic_load(&c->ends)) atomic_fetch_add(&c->storm->late, 1);
  atomic_fetch_add(&c->messages, 1);
}

static void on_finish(void *user, const trn_inproc_result *result) {
  storm_call *c = user;
  storm *s = c->storm;
  (void)result;
  atomic_fetch_add(&s->finished, 1);
  if (atomic_fetch_add(&c->ends, 1)) atomic_fetch_add(&s->twice, 1); /* the last use of `c`: who waits gives it back */
}

static void start_call(storm *s, storm_call *c, const char *method, trn_slice message, bool asked, int64_t timeout_ns) {
  char path[128];
  *c = (storm_call){.storm = s};
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request request = {.path = path,
                                      .timeout_ns = timeout_ns,
                                      .reads_when_asked = asked,
                                      .send_high_water = asked ? 1024 : 0,
                                      .on_message = on_message,
                                      .on_finish = on_finish,
                                      .user = c};
  if (trn__inproc_call(s->client.inproc, &request, &c->call)) abort();
  atomic_fetch_add(&s->started, 1);
  trn__inproc_call_send(c->call, message);
  trn__inproc_call_half_close(c->call);
}

static void end_call(storm_call *c) {
  WAIT_UNTIL(atomic_load(&c->ends));
  if (!atomic_load(&c->ends)) abort(); /* lost: `c` cannot be given back */
  trn__inproc_call_unref(c->call);
}

static void interrupt_all(spark_client *client) {
  Spark__Connect__InterruptRequest request = SPARK__CONNECT__INTERRUPT_REQUEST__INIT;
  request.session_id = client->session_id;
  request.interrupt_type = SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_ALL;
  trn_inproc_reply reply;
  client_call(client, "Interrupt", &request, &reply);
  trn__inproc_reply_finish(&reply);
}

static void release_session(spark_client *client) {
  Spark__Connect__ReleaseSessionRequest request = SPARK__CONNECT__RELEASE_SESSION_REQUEST__INIT;
  request.session_id = client->session_id;
  trn_inproc_reply reply;
  client_call(client, "ReleaseSession", &request, &reply);
  trn__inproc_reply_finish(&reply);
}

/* A query, and one thing that happens to it; which one follows from the numbers of thread and round. */
static void one_round(storm *s, spark_client *mine, unsigned choice) {
  char id[TRN_UUID_SIZE];
  test_plan p;
  storm_call call, other;
  bool reattachable = choice & 1, asked = choice & 2;
  trn__uuid4(id);
  const execute_options options = {.operation_id = id, .tag = "storm", .reattachable = reattachable};
  trn_slice message = execute_slice(mine, range_plan(&p, 0, choice % 3 ? 1000 : ENDLESS_ROWS), options);
  start_call(s, &call, "ExecutePlan", message, asked, choice % 11 == 10 ? 2000000 : 0);
  if (asked) trn__inproc_call_read(call.call, 1 + choice % 4);
  if (choice % 5 == 0) WAIT_UNTIL(atomic_load(&call.messages) || atomic_load(&call.ends));
  switch (choice % 7) {
  case 0: trn__inproc_call_cancel(call.call); break;
  case 1: interrupt_all(mine); break;
  case 2: release_session(mine); break;
  case 3: { /* the other reads on, from the beginning: the first is told, unless it is over */
    start_call(s, &other, "ReattachExecute", reattach_slice(mine, id, NULL), false, 0);
    end_call(&other);
    trn__inproc_call_cancel(call.call);
    break;
  }
  case 4: {
    trn_inproc_reply reply;
    Spark__Connect__ReleaseExecuteRequest request = SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__INIT;
    Spark__Connect__ReleaseExecuteRequest__ReleaseAll all = SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_ALL__INIT;
    request.session_id = mine->session_id;
    request.operation_id = id;
    request.release_case = SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_RELEASE_ALL;
    request.release_all = &all;
    client_call(mine, "ReleaseExecute", &request, &reply);
    trn__inproc_reply_finish(&reply);
    break;
  }
  case 5: /* cancelled, then read from elsewhere */
    trn__inproc_call_cancel(call.call);
    start_call(s, &other, "ReattachExecute", reattach_slice(mine, id, NULL), asked, 0);
    trn__inproc_call_cancel(other.call);
    end_call(&other);
    break;
  default: break;
  }
  trn__inproc_call_read(call.call, SIZE_MAX);
  if (choice % 7 == 4) trn__inproc_call_cancel(call.call); /* released before it was known: it may run on */
  end_call(&call);
}

typedef struct storm_thread {
  pthread_t id;
  storm *storm;
  unsigned number;
} storm_thread;

static void *run(void *argument) {
  storm_thread *thread = argument;
  spark_client mine = thread->storm->client;
  for (unsigned round = 0; round < ROUNDS; round++) {
    /* Two threads each share a session. */
    if (round % 10 == 0)
      snprintf(mine.session_id, sizeof mine.session_id, "00112233-4455-4677-8899-%012u", thread->number / 2 + round);
    if (round % 7 == 2) trn__uuid4(mine.session_id); /* the one before may have been released */
    one_round(thread->storm, &mine, thread->number * ROUNDS + round);
  }
  return NULL;
}

static void every_call_ends_once_and_nothing_is_left(void **state) {
  (void)state;
  static storm s; /* zeroed */
  storm_thread threads[THREADS];
  const trn_spark_options options = {
      .struct_size = sizeof options, .workers = 4, .detached_ms = 500, .response_log_bytes = 64 << 10};
  memset(&s, 0, sizeof s);
  assert_int_equal(client_start(&s.client, &options), 0);
  for (unsigned i = 0; i < THREADS; i++) {
    threads[i] = (storm_thread){.storm = &s, .number = i};
    assert_int_equal(pthread_create(&threads[i].id, NULL, run, &threads[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i].id, NULL);
  assert_true(atomic_load(&s.started) >= THREADS * ROUNDS);
  assert_int_equal(atomic_load(&s.finished), atomic_load(&s.started));
  assert_int_equal(atomic_load(&s.twice), 0);
  assert_int_equal(atomic_load(&s.late), 0);
  trn_scripted *scripted = s.client.scripted;
  trn__inproc_destroy(s.client.inproc);
  trn_routes_destroy(s.client.routes); /* waits: now nothing of the backend's may be left */
  trn_scripted_counts counts = trn__scripted_count(scripted);
  assert_true(counts.executed > 0);
  assert_int_equal(counts.sessions_closed, counts.sessions_opened);
  assert_int_equal(counts.streams_closed, counts.streams_opened);
  assert_int_equal(counts.completions, counts.pulls);
  trn__scripted_unref(scripted);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_ends_once_and_nothing_is_left)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
