/* The Ballista backend against a scheduler and executors that behave as the test says. */
#include "support/ballista_script.h"

#include "backend/ballista/backend.h"

typedef struct rig {
  bench bench; /* the local backend */
  cluster_script script;
  trn_routes *routes;
  trn_backend *encoder, *backend;
  trn_session *session;
  trn_status encodes; /* what encoding a plan gives */
} rig;

/* The local backend's encoder. */
static trn_status encode(void *self, trn_layer_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  rig *r = self;
  (void)session, (void)plan;
  assert_true(!strcmp(format, "ballista.logical.v1") || !strcmp(format, "ballista.explain.v1"));
  if (r->encodes) return trn_error_set(error, r->encodes, NULL, "a lateral thought cannot run on a Ballista cluster");
  *out = (trn_bytes){.data = "plan", .size = 4};
  return TRN_OK;
}

static void rig_open(rig *r, trn_ballista_options options) {
  trn_layer_ops ops = {.struct_size = sizeof ops, .name = "encoder", .encode = encode};
  bench_open(&r->bench, TRN_SCRIPTED_ARRAYS);
  r->encodes = TRN_OK;
  r->routes = script_routes(&r->script);
  options.struct_size = sizeof options;
  options.routes = r->routes;
  options.scheduler = "scheduler:50050";
  options.threads = 2;
  if (!options.timeout_ms) options.timeout_ms = 5000;
  assert_int_equal(trn_layer_create(&ops, r, r->bench.base, &r->encoder, NULL), TRN_OK);
  assert_int_equal(trn_ballista_backend_create(&options, r->encoder, &r->backend, NULL), TRN_OK);
  r->session = session_of(r->backend, "ann", NULL);
}

static void rig_close(rig *r) {
  trn_ballista *b = trn__layer_self(trn__layer_of(r->backend));
  atomic_fetch_add(&b->refs, 1);
  trn_session_unref(r->session);
  trn_backend_unref(r->backend);
  trn_backend_unref(r->encoder);
  script_settle(&r->script, b);
  bench_close(&r->bench);
  script_finish(&r->script, r->routes);
}

static trn_operation *start(rig *r) {
  trn_operation *operation = NULL;
  trn_error *error = NULL;
  trn_plan *plan = range_plan(5);
  trn_status status = begin(r->session, plan, &operation, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_plan_unref(plan);
  return operation;
}

/* Starting fails; gives the message (free). */
static char *refusal(rig *r, trn_status expected) {
  trn_operation *operation = NULL;
  trn_error *error = NULL;
  trn_plan *plan = range_plan(5);
  assert_int_equal(begin(r->session, plan, &operation, &error), expected);
  trn_plan_unref(plan);
  char *message = strdup(trn_error_message(error));
  trn_error_unref(error);
  return message;
}

/* All values that arrive, in order, as arrays. */
static size_t read_values(trn_operation *operation, int64_t *out, size_t room) {
  trn_stream *stream = NULL;
  puller p;
  size_t count = 0;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  for (;;) {
    struct ArrowArray array;
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    if (!array.release) break;
    for (int64_t i = 0; i < array.length && count < room; i++)
      out[count++] = trn__array_int(array.children[0], "l", array.offset + i);
    array.release(&array);
  }
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  return count;
}

/* The status and text of the failure that reading ends with. */
static trn_status read_failure(trn_operation *operation, char message[256]) {
  trn_stream *stream = NULL;
  trn_status status = TRN_OK;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  for (struct ArrowArray array; !status;) {
    status = pull_array(&p, stream, &array);
    if (!status) assert_non_null(array.release); /* the end would be wrong */
    if (!status) array.release(&array);
  }
  snprintf(message, 256, "%s", p.message);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  return status;
}

static void assert_has(const char *text, const char *part) {
  if (!strstr(text, part)) print_error("'%s' is not in '%s'\n", part, text);
  assert_non_null(strstr(text, part));
}

/* ---- results ---- */

static void rows_of_all_partitions_come_in_order(bool compresses) {
  static rig r;
  int64_t values[100];
  script_init(&r.script);
  r.script.partitions = 6;
  r.script.batches = 2;
  r.script.rows = 4;
  r.script.compresses = compresses;
  memcpy(r.script.steps, (script_step[]){STEP_QUEUED, STEP_RUNNING, STEP_DONE}, 3 * sizeof(script_step));
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_values(start(&r), values, 100), 48);
  for (int i = 0; i < 48; i++) assert_int_equal(values[i], i / 8 * 1000000 + i % 8);
  assert_true(script_await(&r.script, &r.script.cleaned, 1));
  assert_int_equal(r.script.cancelled, 0);
  assert_true(trn__uuid_is_valid(r.script.job_name));
  rig_close(&r);
}

static void plain_rows_come_in_order(void **state) {
  (void)state;
  rows_of_all_partitions_come_in_order(false);
}

static void compressed_rows_come_in_order(void **state) {
  (void)state;
  rows_of_all_partitions_come_in_order(true);
}

static void a_result_without_partitions_is_empty(void **state) {
  (void)state;
  rig r;
  int64_t values[4];
  script_init(&r.script);
  r.script.partitions = 0;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_values(start(&r), values, 4), 0);
  rig_close(&r);
}

static void pieces_are_cut_to_the_size_that_is_asked_for(bool compresses) {
  static rig r;
  int64_t rows = 0;
  script_init(&r.script);
  r.script.rows = 5000;
  r.script.compresses = compresses;
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  trn_stream *stream = NULL;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  for (trn_ipc_piece piece;;) {
    assert_int_equal(pull_ipc(&p, stream, 8192, &piece), TRN_OK);
    if (!piece.release) break;
    ipc_batch batch;
    int64_t size;
    assert_true(ipc_batch_read(&piece, &batch));
    assert_true(piece.size <= 8192);
    assert_int_equal(piece.size % 8, 0);
    int64_t first;
    memcpy(&first, ipc_batch_buffer(&batch, 1, &size), 8);
    assert_in_range(first, rows, rows); /* values count the rows */
    rows += piece.rows;
    free(batch.bytes);
    piece.release(piece.owner);
  }
  assert_int_equal(rows, 5000);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  rig_close(&r);
}

static void plain_pieces_are_cut(void **state) {
  (void)state;
  pieces_are_cut_to_the_size_that_is_asked_for(false);
}

static void compressed_pieces_are_cut(void **state) {
  (void)state;
  pieces_are_cut_to_the_size_that_is_asked_for(true);
}

static void a_piece_has_its_head_in_one_slice(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    rig r;
    trn_stream *stream = NULL;
    trn_ipc_piece piece;
    puller p;
    script_init(&r.script);
    r.script.rows = 100;
    r.script.compresses = i;
    rig_open(&r, (trn_ballista_options){0});
    trn_operation *operation = start(&r);
    puller_init(&p);
    assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
    assert_int_equal(pull_ipc(&p, stream, 1 << 20, &piece), TRN_OK);
    assert_non_null(piece.release);
    uint32_t prefix[2];
    memcpy(prefix, piece.slices[0].data, sizeof prefix);
    assert_int_equal(prefix[0], 0xffffffffu);
    assert_int_equal(piece.slices[0].size, sizeof prefix + prefix[1]);
    assert_int_equal(piece.slice_count, 2);
    assert_int_equal(piece.rows, 100);
    piece.release(piece.owner);
    puller_finish(&p);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
    rig_close(&r);
  }
}

static void nothing_is_fetched_beyond_the_budget_of_a_slow_client(void **state) {
  (void)state;
  rig r;
  script_init(&r.script);
  r.script.partitions = 8;
  r.script.rows = 1000; /* 8 KB */
  r.script.endless = true;
  rig_open(&r, (trn_ballista_options){.fetch_bytes_max = 64 << 10, .fetches_max = 2});
  trn_operation *operation = start(&r);
  trn_stream *stream = NULL;
  puller p;
  struct ArrowArray array;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  array.release(&array);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  assert_int_equal(script_count(&r.script, &r.script.fetched), 2);
  /* Budget, and what the transport holds: 1 MiB for each call. */
  assert_true(script_count(&r.script, &r.script.messages) < 8 + 2 * 135);
  puller_finish(&p);
  trn_stream_unref(stream); /* what was not read is not wanted */
  trn_operation_unref(operation);
  assert_true(script_await(&r.script, &r.script.cleaned, 1));
  rig_close(&r);
}

static void metrics_are_text(void **state) {
  (void)state;
  rig r;
  char *text = NULL;
  script_init(&r.script);
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  assert_int_equal(trn_operation_metrics(operation, &text), TRN_OK);
  assert_has(text, "\"stage\":3");
  assert_has(text, "\"name\":\"ShuffleWriterExec\"");
  assert_has(text, "\"output_rows\":42");
  free(text);
  trn_operation_unref(operation);
  rig_close(&r);
}

/* ---- cancelling ---- */

static void a_cancel_is_repeated_until_the_job_is_over(void **state) {
  (void)state;
  rig r;
  script_init(&r.script);
  r.script.steps[0] = STEP_QUEUED;
  r.script.cancels_to_obey = 3;
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  trn_operation_cancel(operation);
  trn_operation_cancel(operation);
  assert_int_equal(trn_operation_get_state(operation), TRN_OPERATION_CANCELLED);
  assert_true(script_await(&r.script, &r.script.cancelled, 3));
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  assert_in_range(script_count(&r.script, &r.script.cancelled), 3, 4); /* one may have been under way */
  assert_int_equal(r.script.cleaned, 0);
  trn_operation_unref(operation);
  rig_close(&r);
}

static void a_pull_ends_when_the_query_is_cancelled(void **state) {
  (void)state;
  rig r;
  script_init(&r.script);
  r.script.steps[0] = STEP_RUNNING;
  r.script.cancels_to_obey = 1;
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  trn_stream *stream = NULL;
  puller p;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_OK);
  assert_false(puller_wait(&p, 20));
  trn_operation_cancel(operation);
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.status, TRN_CANCELLED);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  assert_true(script_await(&r.script, &r.script.cancelled, 1));
  rig_close(&r);
}

static void a_query_that_nobody_reads_is_cancelled(void **state) {
  (void)state;
  rig r;
  script_init(&r.script);
  r.script.steps[0] = STEP_RUNNING;
  r.script.cancels_to_obey = 1;
  rig_open(&r, (trn_ballista_options){0});
  trn_operation_unref(start(&r));
  assert_true(script_await(&r.script, &r.script.cancelled, 1));
  rig_close(&r);
}

/* ---- statuses that are pushed: by schedulers that take a job's name for its id ---- */

/* A query that is asked for, from whose answer the backend learns that the next one can be pushed. */
static void rig_open_pushing(rig *r, trn_ballista_options options) {
  int64_t values[16];
  r->script.takes_names = true;
  rig_open(r, options);
  assert_int_equal(read_values(start(r), values, 16), 4);
  assert_int_equal(script_count(&r->script, &r->script.submitted), 1);
  assert_true(script_await(&r->script, &r->script.cleaned, 1));
}

static void set_steps(rig *r, script_step first, script_step second) {
  pthread_mutex_lock(&r->script.mu);
  r->script.asked = 0;
  memset(r->script.steps, 0, sizeof r->script.steps);
  r->script.steps[0] = first, r->script.steps[1] = second;
  pthread_mutex_unlock(&r->script.mu);
}

static void a_job_whose_id_is_known_is_pushed_and_never_asked_for(void **state) {
  (void)state;
  for (int stays = 0; stays < 2; stays++) {
    rig r;
    int64_t values[16];
    unsigned count = stays ? 40 : 3;
    script_init(&r.script);
    memcpy(r.script.pushes, (script_step[]){STEP_QUEUED, STEP_RUNNING, STEP_DONE}, 3 * sizeof(script_step));
    r.script.push_stays = stays; /* streams that the scheduler does not end are ended here, once the job is over */
    rig_open_pushing(&r, (trn_ballista_options){0});
    set_steps(&r, STEP_NONSENSE, STEP_UNKNOWN); /* who asks is sorry */
    for (unsigned i = 0; i < count; i++) assert_int_equal(read_values(start(&r), values, 16), 4);
    assert_int_equal(script_count(&r.script, &r.script.pushed), count);
    assert_int_equal(script_count(&r.script, &r.script.submitted), 1);
    assert_true(script_await(&r.script, &r.script.cleaned, count + 1));
    rig_close(&r);
  }
}

static void a_cancel_of_a_pushed_job_is_repeated_until_it_is_over(void **state) {
  (void)state;
  rig r;
  script_init(&r.script);
  r.script.pushes[0] = STEP_QUEUED;
  r.script.push_stays = true;
  rig_open_pushing(&r, (trn_ballista_options){0});
  set_steps(&r, STEP_QUEUED, STEP_UNKNOWN);
  pthread_mutex_lock(&r.script.mu);
  r.script.cancels_to_obey = 3;
  pthread_mutex_unlock(&r.script.mu);
  trn_operation *operation = start(&r);
  trn_operation_cancel(operation);
  assert_true(script_await(&r.script, &r.script.cancelled, 3));
  assert_int_equal(trn_operation_get_state(operation), TRN_OPERATION_CANCELLED);
  trn_operation_unref(operation);
  rig_close(&r);
}

/* The call that is not answered; the caller's reference. */
static trn_call *take_held(rig *r) {
  pthread_mutex_lock(&r->script.mu);
  trn_call *held = r->script.held;
  r->script.held = NULL;
  pthread_mutex_unlock(&r->script.mu);
  return held;
}

static void a_push_that_breaks_is_followed_by_questions(void **state) {
  (void)state;
  for (int breaks = 0; breaks < 2; breaks++) {
    rig r;
    int64_t values[16];
    script_init(&r.script);
    r.script.pushes[0] = STEP_RUNNING;
    r.script.push_stays = breaks; /* else it ends well, without the job's end */
    rig_open_pushing(&r, (trn_ballista_options){0});
    set_steps(&r, STEP_RUNNING, STEP_DONE);
    trn_operation *operation = start(&r);
    if (breaks) {
      for (int i = 0; i < 10000 && trn_operation_get_state(operation) != TRN_OPERATION_RUNNING; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
      trn_call *held = take_held(&r);
      trn_call_abort(held, TRN_UNAVAILABLE);
      trn_call_unref(held);
    }
    assert_int_equal(read_values(operation, values, 16), 4);
    assert_int_equal(script_count(&r.script, &r.script.pushed), 1);
    assert_true(script_await(&r.script, &r.script.cleaned, 2));
    assert_int_equal(script_count(&r.script, &r.script.cancelled), 0);
    rig_close(&r);
  }
}

static void a_scheduler_that_gives_other_ids_is_asked_from_then_on(void **state) {
  (void)state;
  rig r;
  int64_t values[16];
  script_init(&r.script);
  memcpy(r.script.pushes, (script_step[]){STEP_RUNNING, STEP_DONE}, 2 * sizeof(script_step));
  rig_open_pushing(&r, (trn_ballista_options){0});
  r.script.takes_names = false; /* it was replaced */
  assert_int_equal(read_values(start(&r), values, 16), 4);
  assert_int_equal(read_values(start(&r), values, 16), 4);
  assert_int_equal(script_count(&r.script, &r.script.pushed), 1);
  assert_int_equal(script_count(&r.script, &r.script.submitted), 2);
  rig_close(&r);
}

/* Then it may be somebody else's job that has the id which was asked for. */
static void an_id_that_was_asked_for_is_not_believed_before_the_scheduler_says_it(void **state) {
  (void)state;
  for (int is_told = 0; is_told < 2; is_told++) {
    rig r;
    script_init(&r.script);
    r.script.cancels_to_obey = 2;
    rig_open_pushing(&r, (trn_ballista_options){.timeout_ms = 200});
    set_steps(&r, STEP_RUNNING, STEP_UNKNOWN);
    r.script.takes_names = false; /* the name is taken */
    r.script.submission_hangs = true;
    free(refusal(&r, TRN_DEADLINE_EXCEEDED));
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(script_count(&r.script, &r.script.cancelled), 0);
    assert_int_equal(script_count(&r.script, &r.script.asked), 0);
    trn_call *held = take_held(&r);
    if (is_told) {
      tell_version(held, &r.script);
      trn_strbuf out = status_message(&r.script, STEP_RUNNING);
      answer(held, &out);
      assert_true(script_await(&r.script, &r.script.cancelled, 2)); /* again and again, of that one */
    }
    trn_call_abort(held, TRN_UNAVAILABLE);
    trn_call_unref(held);
    rig_close(&r);
    if (is_told) assert_string_equal(r.script.cancelled_id, "job-1");
    if (!is_told) assert_int_equal(r.script.cancelled, 0);
  }
}

static void a_push_that_ends_without_a_word_fails_the_query(void **state) {
  (void)state;
  rig r;
  char message[256];
  char *text = NULL;
  script_init(&r.script);
  rig_open_pushing(&r, (trn_ballista_options){0});
  set_steps(&r, STEP_DONE, STEP_UNKNOWN); /* of another's job */
  unsigned cleaned = script_count(&r.script, &r.script.cleaned);
  trn_operation *operation = start(&r);
  assert_int_equal(trn_operation_metrics(operation, &text), TRN_UNAVAILABLE);
  assert_int_equal(read_failure(operation, message), TRN_UNAVAILABLE);
  assert_has(message, "scheduler:50050");
  assert_int_equal(script_count(&r.script, &r.script.cleaned), cleaned);
  assert_int_equal(script_count(&r.script, &r.script.cancelled), 0);
  rig_close(&r);
}

static void a_push_that_is_not_taken_fails_as_a_submission_does(void **state) {
  (void)state;
  rig r;
  trn_status status;
  script_init(&r.script);
  rig_open_pushing(&r, (trn_ballista_options){.timeout_ms = 200});
  r.script.refusal = "no function trn.add_checked_i32"; /* it runs here, and there is nothing to cancel */
  trn_operation *operation = start(&r);
  assert_int_equal(read_rows(operation, false, 0, &status, NULL), 5);
  trn_operation_unref(operation);
  assert_int_equal(script_count(&r.script, &r.script.pushed), 1);
  assert_int_equal(script_count(&r.script, &r.script.cancelled), 0);
  r.script.refusal = NULL;
  r.script.version = "56.0.0";
  char *text = refusal(&r, TRN_FAILED_PRECONDITION);
  assert_has(text, "56.0.0");
  free(text);
  r.script.version = "55.0.0";
  r.script.submission_hangs = true;
  text = refusal(&r, TRN_DEADLINE_EXCEEDED);
  assert_has(text, "scheduler:50050 (ExecuteQueryPush)");
  free(text);
  trn_call *held = take_held(&r);
  trn_call_finish(held, TRN_UNAVAILABLE, "gone", NULL, 0, NULL, 0);
  trn_call_unref(held);
  rig_close(&r);
}

/* ---- schedulers that fail ---- */

static void a_scheduler_of_another_version_is_refused_and_its_job_cancelled(void **state) {
  (void)state;
  static const char *const versions[] = {"54.1.0", NULL, "no number"};
  for (int i = 0; i < 3; i++) {
    rig r;
    script_init(&r.script);
    r.script.version = versions[i];
    rig_open(&r, (trn_ballista_options){0});
    char *message = refusal(&r, TRN_FAILED_PRECONDITION);
    assert_has(message, "scheduler:50050");
    assert_has(message, versions[i] ? versions[i] : "54 or older");
    assert_true(script_await(&r.script, &r.script.cancelled, 1));
    free(message);
    rig_close(&r);
  }
}

static void a_scheduler_that_does_not_answer_fails_the_query_in_time(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.submission_hangs = true;
  rig_open(&r, (trn_ballista_options){.timeout_ms = 100});
  char *text = refusal(&r, TRN_DEADLINE_EXCEEDED);
  assert_has(text, "scheduler:50050");
  free(text);
  rig_close(&r);

  script_init(&r.script);
  memcpy(r.script.steps, (script_step[]){STEP_RUNNING, STEP_SILENT}, 2 * sizeof(script_step));
  rig_open(&r, (trn_ballista_options){.timeout_ms = 100});
  assert_int_equal(read_failure(start(&r), message), TRN_DEADLINE_EXCEEDED);
  assert_has(message, "job job-1 was lost");
  assert_true(script_await(&r.script, &r.script.cancelled, 1));
  rig_close(&r);
}

static void a_cluster_without_a_free_executor_does_not_hold_who_explains(void **state) {
  (void)state;
  rig r;
  char *text = NULL;
  trn_error *error = NULL;
  trn_plan *plan = range_plan(5);
  script_init(&r.script);
  r.script.steps[0] = STEP_RUNNING;
  r.script.cancels_to_obey = 1;
  rig_open(&r, (trn_ballista_options){.timeout_ms = 300});
  assert_int_equal(trn_backend_explain(r.session, plan, TRN_EXPLAIN_PHYSICAL, &text, &error), TRN_UNAVAILABLE);
  assert_null(text);
  assert_has(trn_error_message(error), "scheduler:50050");
  assert_true(script_await(&r.script, &r.script.cancelled, 1));
  trn_error_unref(error);
  trn_plan_unref(plan);
  rig_close(&r);
}

static void planning_can_be_cancelled_while_the_scheduler_hangs(void **state) {
  (void)state;
  rig r;
  trn_cancel *cancel = NULL;
  trn_operation *operation = NULL;
  script_init(&r.script);
  r.script.submission_hangs = true;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(trn_cancel_create(&cancel), TRN_OK);
  trn_cancel_request(cancel);
  trn_plan *plan = range_plan(5);
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .cancel = cancel};
  assert_int_equal(trn_backend_execute(r.session, &request, &operation, NULL), TRN_CANCELLED);
  assert_null(operation);
  trn_plan_unref(plan);
  trn_cancel_unref(cancel);
  trn_call *held = take_held(&r);
  if (held) trn_call_finish(held, TRN_UNAVAILABLE, "gone", NULL, 0, NULL, 0);
  trn_call_unref(held);
  rig_close(&r);
}

static void a_scheduler_that_was_started_again_does_not_know_the_job(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  memcpy(r.script.steps, (script_step[]){STEP_RUNNING, STEP_QUEUED}, 2 * sizeof(script_step));
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  assert_true(script_await(&r.script, &r.script.asked, 1));
  pthread_mutex_lock(&r.script.mu);
  r.script.steps[1] = STEP_UNKNOWN;
  pthread_mutex_unlock(&r.script.mu);
  assert_int_equal(read_failure(operation, message), TRN_UNAVAILABLE);
  assert_has(message, "does not know job job-1 any more");
  rig_close(&r);
}

static void nonsense_from_a_scheduler_fails_the_query(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.steps[0] = STEP_NONSENSE;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_failure(start(&r), message), TRN_DATA_LOSS);
  assert_has(message, "job-1");
  rig_close(&r);
}

static void a_job_that_fails_says_why(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.steps[0] = STEP_FAILED;
  r.script.failure = "no disk left";
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_failure(start(&r), message), TRN_INTERNAL);
  assert_has(message, "no disk left");
  assert_int_equal(script_count(&r.script, &r.script.cleaned), 0);
  rig_close(&r);
}

/* ---- executors that fail ---- */

static void an_executor_that_is_gone_during_a_fetch_is_named(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.partitions = 3;
  r.script.batches = 5;
  r.script.breaks_at = 2;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_failure(start(&r), message), TRN_UNAVAILABLE);
  assert_has(message, "job-1");
  assert_has(message, "executor-7 (10.1.2.3:50051)");
  assert_true(script_await(&r.script, &r.script.cleaned, 1));
  rig_close(&r);
}

static void a_partition_that_ends_early_is_a_loss(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    rig r;
    char message[256];
    script_init(&r.script);
    r.script.partitions = 2;
    r.script.told_rows = i == 0 ? 5 : i == 1 ? 4 : 0; /* and has 4 */
    r.script.ends_early = i > 0;
    rig_open(&r, (trn_ballista_options){0});
    assert_int_equal(read_failure(start(&r), message), TRN_DATA_LOSS);
    assert_has(message, "job job-1");
    assert_has(message, "executor-7 (10.1.2.3:50051)");
    rig_close(&r);
  }
}

static void a_partition_that_is_whole_is_none(void **state) {
  (void)state;
  rig r;
  int64_t values[16];
  script_init(&r.script);
  r.script.partitions = 2;
  r.script.told_rows = 4;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_values(start(&r), values, 16), 8);
  rig_close(&r);
}

static void results_of_other_types_are_refused(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.wrong_schema = true;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_failure(start(&r), message), TRN_FAILED_PRECONDITION);
  assert_has(message, "column 1");
  rig_close(&r);
}

static void results_that_are_garbage_are_refused(void **state) {
  (void)state;
  rig r;
  char message[256];
  script_init(&r.script);
  r.script.garbage = true;
  rig_open(&r, (trn_ballista_options){0});
  assert_int_equal(read_failure(start(&r), message), TRN_DATA_LOSS);
  assert_has(message, "executor-7");
  rig_close(&r);
}

/* ---- what the cluster cannot run ---- */

static void what_cannot_be_encoded_runs_locally_or_is_refused_by_name(void **state) {
  (void)state;
  rig r;
  trn_status status;
  script_init(&r.script);
  rig_open(&r, (trn_ballista_options){0});
  r.encodes = TRN_UNIMPLEMENTED;
  trn_operation *operation = start(&r);
  assert_int_equal(read_rows(operation, false, 0, &status, NULL), 5);
  trn_operation_unref(operation);
  assert_int_equal(r.script.submitted, 0);
  r.encodes = TRN_RESOURCE_EXHAUSTED; /* not a matter of where it runs */
  free(refusal(&r, TRN_RESOURCE_EXHAUSTED));
  rig_close(&r);

  script_init(&r.script);
  rig_open(&r, (trn_ballista_options){.fallback = TRN_BALLISTA_FALLBACK_REFUSE});
  r.encodes = TRN_UNIMPLEMENTED;
  char *message = refusal(&r, TRN_UNIMPLEMENTED);
  assert_has(message, "a lateral thought");
  free(message);
  rig_close(&r);
}

static void what_the_scheduler_cannot_read_runs_locally(void **state) {
  (void)state;
  rig r;
  trn_status status;
  script_init(&r.script);
  r.script.refusal = "no function trn.add_checked_i32";
  rig_open(&r, (trn_ballista_options){0});
  trn_operation *operation = start(&r);
  assert_int_equal(read_rows(operation, false, 0, &status, NULL), 5);
  trn_operation_unref(operation);
  assert_int_equal(r.script.submitted, 1);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_rows_come_in_order),
      cmocka_unit_test(compressed_rows_come_in_order),
      cmocka_unit_test(a_result_without_partitions_is_empty),
      cmocka_unit_test(plain_pieces_are_cut),
      cmocka_unit_test(compressed_pieces_are_cut),
      cmocka_unit_test(a_piece_has_its_head_in_one_slice),
      cmocka_unit_test(nothing_is_fetched_beyond_the_budget_of_a_slow_client),
      cmocka_unit_test(metrics_are_text),
      cmocka_unit_test(a_cancel_is_repeated_until_the_job_is_over),
      cmocka_unit_test(a_pull_ends_when_the_query_is_cancelled),
      cmocka_unit_test(a_query_that_nobody_reads_is_cancelled),
      cmocka_unit_test(a_job_whose_id_is_known_is_pushed_and_never_asked_for),
      cmocka_unit_test(a_cancel_of_a_pushed_job_is_repeated_until_it_is_over),
      cmocka_unit_test(a_push_that_breaks_is_followed_by_questions),
      cmocka_unit_test(a_scheduler_that_gives_other_ids_is_asked_from_then_on),
      cmocka_unit_test(an_id_that_was_asked_for_is_not_believed_before_the_scheduler_says_it),
      cmocka_unit_test(a_push_that_ends_without_a_word_fails_the_query),
      cmocka_unit_test(a_push_that_is_not_taken_fails_as_a_submission_does),
      cmocka_unit_test(a_scheduler_of_another_version_is_refused_and_its_job_cancelled),
      cmocka_unit_test(a_scheduler_that_does_not_answer_fails_the_query_in_time),
      cmocka_unit_test(a_cluster_without_a_free_executor_does_not_hold_who_explains),
      cmocka_unit_test(planning_can_be_cancelled_while_the_scheduler_hangs),
      cmocka_unit_test(a_scheduler_that_was_started_again_does_not_know_the_job),
      cmocka_unit_test(nonsense_from_a_scheduler_fails_the_query),
      cmocka_unit_test(a_job_that_fails_says_why),
      cmocka_unit_test(an_executor_that_is_gone_during_a_fetch_is_named),
      cmocka_unit_test(a_partition_that_ends_early_is_a_loss),
      cmocka_unit_test(a_partition_that_is_whole_is_none),
      cmocka_unit_test(results_of_other_types_are_refused),
      cmocka_unit_test(results_that_are_garbage_are_refused),
      cmocka_unit_test(what_cannot_be_encoded_runs_locally_or_is_refused_by_name),
      cmocka_unit_test(what_the_scheduler_cannot_read_runs_locally),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
