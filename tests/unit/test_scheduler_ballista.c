/* Jobs on a Ballista scheduler that behaves as the test says: handed over, followed, attached to again, lost. */
#include "support/ballista_script.h"
#include "support/scheduler_fixture.h"

#include <trunnion/layer.h>

typedef struct cluster {
  cluster_script script;
  trn_routes *routes;
  char *folder;
} cluster;

static void cluster_open(cluster *c) {
  script_init(&c->script);
  c->script.partitions = 2;
  c->script.batches = 3;
  c->script.rows = 100;
  c->routes = script_routes(&c->script);
  c->folder = make_folder_for_test();
}

static void cluster_close(cluster *c) {
  for (int i = 0; i < 5000 && script_count(&c->script, &c->script.open); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(script_count(&c->script, &c->script.open), 0);
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* the channel goes on a thread of its own */
  trn_call_unref(c->script.held);
  trn_routes_destroy(c->routes);
  remove_folder_of_test(c->folder);
}

static void now_it_says(cluster *c, script_step step) {
  pthread_mutex_lock(&c->script.mu);
  memset(c->script.steps, 0, sizeof c->script.steps);
  c->script.steps[0] = step;
  c->script.asked = 0;
  pthread_mutex_unlock(&c->script.mu);
}

static void takes_names(cluster *c, bool it_does) {
  pthread_mutex_lock(&c->script.mu);
  c->script.takes_names = it_does;
  pthread_mutex_unlock(&c->script.mu);
}

/* The local backend's encoder. */
static trn_status encode(void *self, trn_layer_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  (void)self, (void)session, (void)plan;
  if (strcmp(format, "ballista.logical.v1") != 0)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "not %s", format);
  if (plan->root->u.range.end == FAILING)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "a lateral thought cannot run on a Ballista cluster");
  *out = (trn_bytes){.data = "plan", .size = 4};
  return TRN_OK;
}

/* As node_open, on the cluster; takes the store. */
static void remote_open_on(node *n, cluster *c, trn_job_store *store) {
  static const trn_decoder_ops decoder = {.struct_size = sizeof decoder, .decode = decode_query};
  trn_layer_ops layer = {.struct_size = sizeof layer, .name = "encoder", .encode = encode};
  trn_backend *base = NULL;
  *n = (node){.store = store};
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &n->control, &base), TRN_OK);
  assert_int_equal(trn_layer_create(&layer, NULL, base, &n->backend, NULL), TRN_OK);
  trn_backend_unref(base);
  assert_int_equal(trn_registry_create(&n->registry), TRN_OK);
  assert_int_equal(trn_registry_add_decoder(n->registry, QUERY_FORMAT, &decoder, NULL, NULL), TRN_OK);
  trn_scheduler_options options = {
      .struct_size = sizeof options, .store = n->store, .registry = n->registry, .lease_ms = LEASE_MS, .poll_ms = 10};
  trn_ballista_options ballista = {
      .struct_size = sizeof ballista, .routes = c->routes, .scheduler = "scheduler:50050", .timeout_ms = 1000};
  assert_int_equal(trn_scheduler_create_ballista(&options, &ballista, n->backend, &n->scheduler, NULL), TRN_OK);
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  assert_int_equal(trn_scheduler_create_session(n->scheduler, &request, &n->session, NULL), TRN_OK);
}

static void remote_open(node *n, cluster *c) {
  remote_open_on(n, c, open_store(c->folder));
}

/* All rows of both partitions, in order; as arrays, or only counted as IPC. */
static trn_status read_partitions(trn_job *job, bool as_ipc, int64_t *rows) {
  trn_stream *stream = NULL;
  puller p;
  struct ArrowArray array;
  trn_ipc_piece piece;
  *rows = 0;
  trn_status status = trn_job_output(job, &stream, NULL);
  if (status) return status;
  puller_init(&p);
  for (bool more = true; more;) {
    status = as_ipc ? pull_ipc(&p, stream, 0, &piece) : pull_array(&p, stream, &array);
    more = !status && (as_ipc ? piece.release != NULL : array.release != NULL);
    if (!more) break;
    if (as_ipc) {
      *rows += piece.rows;
      piece.release(piece.owner);
      continue;
    }
    for (int64_t i = 0; i < array.length; i++, ++*rows)
      assert_int_equal(trn__array_int(array.children[0], "l", array.offset + i), *rows / 300 * 1000000 + *rows % 300);
    array.release(&array);
  }
  puller_finish(&p);
  trn_stream_unref(stream);
  return status;
}

static void output_is_whole(trn_job *job) {
  int64_t rows;
  for (int as_ipc = 0; as_ipc < 2; as_ipc++) {
    assert_int_equal(read_partitions(job, as_ipc, &rows), TRN_OK);
    assert_int_equal(rows, 600);
  }
}

static void see_location(void *user, const trn_job_location *location) {
  assert_string_equal(location->uri, "grpc://10.1.2.3:50051");
  assert_true(location->ticket_size > 10);
  ++*(int *)user;
}

static void a_job_runs_there_under_our_id(void **state) {
  (void)state;
  static cluster c;
  node n;
  int locations = 0;
  char *metrics = NULL;
  for (int compresses = 0; compresses < 2; compresses++) {
    cluster_open(&c);
    c.script.compresses = compresses;
    memcpy(c.script.steps, (script_step[]){STEP_UNKNOWN, STEP_QUEUED, STEP_RUNNING, STEP_DONE},
           4 * sizeof(script_step));
    remote_open(&n, &c);
    trn_job *job = submit(&n, "our-id", "rows 5");
    assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
    assert_string_equal(c.script.job_name, "our-id");
    output_is_whole(job);
    locations = 0;
    assert_int_equal(trn_job_locations(job, see_location, &locations, NULL), TRN_OK);
    assert_int_equal(locations, 2);
    assert_int_equal(trn_job_metrics(job, &metrics, NULL), TRN_OK);
    assert_non_null(strstr(metrics, "ShuffleWriterExec"));
    trn_free(metrics);
    /* Cancelling what has ended leaves the output alone, releasing does not. */
    assert_int_equal(trn_job_cancel(job, NULL), TRN_OK);
    assert_int_equal(script_count(&c.script, &c.script.cancelled), 0);
    output_is_whole(job);
    assert_int_equal(trn_job_release(job, NULL), TRN_OK);
    assert_true(script_await(&c.script, &c.script.cleaned, 1));
    trn_job_unref(job);
    node_close(&n);
    cluster_close(&c);
  }
}

static void a_job_that_goes_on_is_attached_to(void **state) {
  (void)state;
  static cluster c;
  node n, m;
  trn_job *job = NULL;
  cluster_open(&c);
  now_it_says(&c, STEP_RUNNING);
  remote_open(&n, &c);
  job = submit(&n, "on", "rows 5");
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_true(script_await(&c.script, &c.script.asked, 0));
  while (!script_count(&c.script, &c.script.submitted)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  trn_job_unref(job);
  node_close(&n); /* its process is gone; the cluster goes on */
  assert_int_equal(script_count(&c.script, &c.script.cancelled), 0);
  remote_open(&m, &c);
  assert_int_equal(trn_scheduler_job(m.scheduler, "on", &job, NULL), TRN_OK);
  assert_int_equal(status_of(job).state, TRN_JOB_LOST);
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_recover(m.scheduler, "on", NULL, &job, NULL), TRN_OK);
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(status_of(job).attempt, 2);
  now_it_says(&c, STEP_DONE);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  output_is_whole(job);
  assert_int_equal(script_count(&c.script, &c.script.submitted), 1); /* never twice */
  trn_job_unref(job);
  node_close(&m);
  cluster_close(&c);
}

static void a_job_that_the_cluster_forgot_is_lost_and_submitted_again(void **state) {
  (void)state;
  static cluster c;
  node n;
  trn_job *job = NULL, *again = NULL;
  cluster_open(&c);
  now_it_says(&c, STEP_RUNNING);
  remote_open(&n, &c);
  job = submit(&n, "forgotten", "rows 5");
  wait_for_state(job, TRN_JOB_RUNNING);
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL); /* seen by a question */
  now_it_says(&c, STEP_UNKNOWN);
  assert_int_equal(wait_for_end(job), TRN_JOB_LOST);
  assert_int_equal(trn_scheduler_recover(n.scheduler, "forgotten", NULL, &again, NULL), TRN_OK);
  assert_int_equal(status_of(again).state, TRN_JOB_LOST);
  trn_job_unref(again);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(n.scheduler, "forgotten", &resubmit, &again, NULL), TRN_OK);
  now_it_says(&c, STEP_DONE);
  assert_int_equal(wait_for_end(again), TRN_JOB_SUCCEEDED);
  assert_int_equal(script_count(&c.script, &c.script.submitted), 2);
  output_is_whole(again);
  trn_job_unref(again);
  trn_job_unref(job);
  node_close(&n);
  cluster_close(&c);
}

#define UUID_7 "0198F1C2-0000-7000-8000-000000000007" /* as it is on the cluster: in small letters */

/* The scheduler took it, and the answer never came. */
static void a_job_whose_answer_was_cut_off_is_found_by_its_name(void **state) {
  (void)state;
  static cluster c;
  node n, m;
  trn_job *job = NULL;
  cluster_open(&c);
  c.script.submission_hangs = true;
  takes_names(&c, true);
  now_it_says(&c, STEP_RUNNING);
  /* While its process lives: it goes on, once the answer is not waited for any more. */
  remote_open(&n, &c);
  job = submit(&n, UUID_7, "rows 5");
  now_it_says(&c, STEP_DONE);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  output_is_whole(job);
  assert_int_equal(script_count(&c.script, &c.script.submitted), 1);
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_forget(n.scheduler, UUID_7, NULL), TRN_OK);
  trn_call_unref(c.script.held);
  c.script.held = NULL;
  /* And when it does not: whoever recovers it attaches to it. */
  now_it_says(&c, STEP_RUNNING);
  job = submit(&n, UUID_7, "rows 5");
  while (script_count(&c.script, &c.script.submitted) < 2) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  takes_names(&c, false); /* it is not to be found by this process */
  trn_job_unref(job);
  node_close(&n);
  takes_names(&c, true);
  c.script.submission_hangs = false;
  remote_open(&m, &c);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(m.scheduler, UUID_7, &resubmit, &job, NULL), TRN_OK);
  now_it_says(&c, STEP_DONE);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  output_is_whole(job);
  assert_int_equal(status_of(job).attempt, 2);
  assert_int_equal(script_count(&c.script, &c.script.submitted), 2); /* one for each of the two jobs */
  trn_job_unref(job);
  node_close(&m);
  cluster_close(&c);
}

/* A stock scheduler has ids of its own: what it took without an answer cannot be found, and runs again. */
static void a_job_that_cannot_be_found_is_submitted_again(void **state) {
  (void)state;
  static cluster c;
  node n, m;
  trn_job *job = NULL;
  cluster_open(&c);
  c.script.submission_hangs = true;
  now_it_says(&c, STEP_RUNNING);
  remote_open(&n, &c);
  job = submit(&n, UUID_7, "rows 5");
  while (!script_count(&c.script, &c.script.submitted)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  trn_job_unref(job);
  node_close(&n);
  c.script.submission_hangs = false;
  remote_open(&m, &c);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(m.scheduler, UUID_7, NULL, &job, NULL), TRN_OK);
  assert_int_equal(status_of(job).state, TRN_JOB_LOST);
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_recover(m.scheduler, UUID_7, &resubmit, &job, NULL), TRN_OK);
  now_it_says(&c, STEP_DONE);
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(script_count(&c.script, &c.script.submitted), 2);
  output_is_whole(job);
  trn_job_unref(job);
  node_close(&m);
  cluster_close(&c);
}

/* A store that refuses to hear what the cluster calls a job. */
static struct {
  const trn_job_store_ops *ops;
  trn_status gives;
  atomic_int left; /* so often */
} deaf;

static trn_status deaf_update(void *self, const trn_job_record *record, trn_error **error) {
  if (record->backend_id && atomic_fetch_sub(&deaf.left, 1) > 0)
    return trn_error_set(error, deaf.gives, NULL, "the store does not hear");
  return deaf.ops->update(self, record, error);
}

static void leave_open(void *self) {
  (void)self;
}

/* Whoever took it may be attached to it by then. */
static void a_job_that_was_taken_away_goes_on_where_it_can_be_found(void **state) {
  (void)state;
  static cluster c;
  for (int is_found = 0; is_found < 2; is_found++) {
    node n;
    void *self;
    trn_job_store *store = NULL;
    cluster_open(&c);
    takes_names(&c, is_found);
    now_it_says(&c, STEP_RUNNING);
    trn_job_store *inner = open_store(c.folder);
    deaf.ops = trn_job_store_get_ops(inner, &self);
    trn_job_store_ops ops = *deaf.ops;
    ops.update = deaf_update;
    ops.destroy = leave_open;
    assert_int_equal(trn_job_store_create(&ops, self, &store), TRN_OK);
    remote_open_on(&n, &c, store);
    deaf.gives = TRN_ABORTED;
    atomic_store(&deaf.left, 1000);
    trn_job *job = submit(&n, UUID_7, "rows 5");
    assert_int_equal(wait_for_end(job), TRN_JOB_LOST);
    trn_job_unref(job);
    if (!is_found) assert_true(script_await(&c.script, &c.script.cancelled, 1)); /* nobody else knows its id */
    assert_int_equal(script_count(&c.script, &c.script.cancelled), is_found ? 0 : 1);
    /* Where the store does not answer, nothing is known: it goes on here. */
    deaf.gives = TRN_UNAVAILABLE;
    atomic_store(&deaf.left, 1);
    now_it_says(&c, STEP_DONE);
    job = submit(&n, "0198f1c2-0000-7000-8000-000000000008", "rows 5");
    assert_int_equal(wait_for_end(job), is_found ? TRN_JOB_SUCCEEDED : TRN_JOB_FAILED);
    if (is_found) output_is_whole(job);
    if (is_found) assert_int_equal(script_count(&c.script, &c.script.cancelled), 0);
    trn_job_unref(job);
    node_close(&n);
    trn_job_store_unref(inner);
    cluster_close(&c);
  }
}

static void a_cancel_is_repeated_until_it_is_heard(void **state) {
  (void)state;
  static cluster c;
  node n;
  cluster_open(&c);
  now_it_says(&c, STEP_RUNNING);
  c.script.cancels_to_obey = 3;
  remote_open(&n, &c);
  trn_job *job = submit(&n, "unheard", "rows 5");
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(trn_job_cancel(job, NULL), TRN_OK);
  assert_int_equal(wait_for_end(job), TRN_JOB_CANCELLED);
  assert_true(script_count(&c.script, &c.script.cancelled) >= 3);
  trn_job_unref(job);
  node_close(&n);
  cluster_close(&c);
}

static void failures_name_what_failed(void **state) {
  (void)state;
  static cluster c;
  node n;
  int64_t rows;
  trn_error *failure = NULL;
  trn_job_status status = {.struct_size = sizeof status};
  cluster_open(&c);
  c.script.failure = "the task was eaten";
  now_it_says(&c, STEP_FAILED);
  remote_open(&n, &c);
  trn_job *job = submit(&n, "eaten", "rows 5");
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  assert_non_null(strstr(trn_error_message(failure), "eaten"));
  trn_error_unref(failure);
  trn_job_unref(job);
  /* What is no text becomes a plain failure, here and for whoever reads the store. */
  c.script.failure = "the task was \xff\xc3 eaten";
  job = submit(&n, "no-text", "rows 5");
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  assert_int_equal(status.state, TRN_JOB_FAILED);
  assert_string_equal(trn_error_message(failure), "The job failed with a message that is not UTF-8");
  trn_error_unref(failure);
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_job(n.scheduler, "no-text", &job, NULL), TRN_OK);
  assert_int_equal(trn_job_get_status(job, &status, &failure, NULL), TRN_OK);
  assert_string_equal(trn_error_message(failure), "The job failed with a message that is not UTF-8");
  trn_error_unref(failure);
  trn_job_unref(job);
  job = submit(&n, "lateral", "fail"); /* its plan cannot be encoded */
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  assert_int_equal(trn_error_status(failure), TRN_UNIMPLEMENTED);
  assert_non_null(strstr(trn_error_message(failure), "lateral thought"));
  trn_error_unref(failure);
  trn_job_unref(job);
  /* An executor dies while the output is fetched: an error, not fewer rows. */
  now_it_says(&c, STEP_DONE);
  c.script.breaks_at = 2;
  job = submit(&n, "broken", "rows 5");
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(read_partitions(job, false, &rows), TRN_UNAVAILABLE);
  assert_true(rows < 300);
  trn_job_unref(job);
  c.script.breaks_at = 0;
  c.script.wrong_schema = true;
  job = submit(&n, "wrong", "rows 5");
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_not_equal(read_partitions(job, false, &rows), TRN_OK);
  assert_int_equal(rows, 0);
  trn_job_unref(job);
  node_close(&n);
  cluster_close(&c);
}

static void an_output_need_not_be_read_to_its_end(void **state) {
  (void)state;
  static cluster c;
  node n;
  trn_stream *stream = NULL;
  struct ArrowArray array;
  puller p;
  cluster_open(&c);
  remote_open(&n, &c);
  trn_job *job = submit(&n, "part", "rows 5");
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(trn_job_output(job, &stream, NULL), TRN_OK);
  puller_init(&p);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  array.release(&array);
  trn_stream_cancel(stream);
  assert_int_equal(pull_array(&p, stream, &array), TRN_CANCELLED);
  puller_finish(&p);
  trn_stream_unref(stream);
  assert_int_equal(trn_job_output(job, &stream, NULL), TRN_OK);
  puller_init(&p);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  array.release(&array);
  puller_finish(&p);
  trn_stream_unref(stream); /* in the middle */
  output_is_whole(job);
  trn_job_unref(job);
  node_close(&n);
  cluster_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_runs_there_under_our_id),
      cmocka_unit_test(a_job_that_goes_on_is_attached_to),
      cmocka_unit_test(a_job_that_the_cluster_forgot_is_lost_and_submitted_again),
      cmocka_unit_test(a_job_whose_answer_was_cut_off_is_found_by_its_name),
      cmocka_unit_test(a_job_that_cannot_be_found_is_submitted_again),
      cmocka_unit_test(a_job_that_was_taken_away_goes_on_where_it_can_be_found),
      cmocka_unit_test(a_cancel_is_repeated_until_it_is_heard),
      cmocka_unit_test(failures_name_what_failed),
      cmocka_unit_test(an_output_need_not_be_read_to_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
