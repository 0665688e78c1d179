/* Ballista's clients and jobs that a scheduler keeps, over the scripted backend: what is answered is recorded, other
 * processes answer for it, tickets stay secrets, and a service that ends leaves jobs to their scheduler. */
#include "support/scheduler_fixture.h"

#include "support/ballista_caller.h"

enum {
  FAILED = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_FAILED,
  RUNNING = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_RUNNING,
  SUCCESSFUL = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_SUCCESSFUL
};

static const char key[] = "sixteen bytes ok";

/* One server over the store of a folder. */
typedef struct server {
  ballista_caller c;
  trn_registry *registry;
  trn_job_store *store;
  trn_scheduler *scheduler;
} server;

static unsigned workers; /* of the next one; 0: the default */

static void server_open(server *s, const char *folder, bool resubmits, uint64_t lease_ms) {
  static const trn_decoder_ops decoder = {.struct_size = sizeof decoder, .decode = caller_decode};
  trn_backend *backend = NULL;
  char *outputs = in_folder(folder, "outputs");
  memset(s, 0, sizeof *s);
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &s->c.flight.scripted, &backend), TRN_OK);
  trn__scripted_on_plan(s->c.flight.scripted, script_of, NULL);
  assert_int_equal(trn_registry_create(&s->registry), TRN_OK);
  assert_int_equal(trn_registry_add_decoder(s->registry, "test.range", &decoder, NULL, NULL), TRN_OK);
  s->store = open_store(folder);
  const trn_scheduler_options options = {.struct_size = sizeof options,
                                         .store = s->store,
                                         .output_directory = outputs,
                                         .registry = s->registry,
                                         .lease_ms = lease_ms,
                                         .poll_ms = 10};
  assert_int_equal(trn_scheduler_create(&options, backend, &s->scheduler, NULL), TRN_OK);
  const trn_ballista_frontend_options frontend = {.jobs = s->scheduler,
                                                  .ticket_key = key,
                                                  .ticket_key_size = sizeof key - 1,
                                                  .resubmits_lost = resubmits,
                                                  .workers = workers};
  assert_int_equal(caller_start_on(&s->c, &frontend, backend), TRN_OK);
  trn_backend_unref(backend);
  free(outputs);
}

static void server_close(server *s) {
  caller_stop(&s->c);
  trn_scheduler_unref(s->scheduler);
  trn_job_store_unref(s->store);
  trn_registry_destroy(s->registry);
}

static void a_job_is_answered_for_by_the_next_process(void **state) {
  (void)state;
  server one, two;
  char *folder = make_folder_for_test();
  server_open(&one, folder, false, LEASE_MS);
  caller_status pushed = caller_push(&one.c, "1000", "nightly");
  assert_int_equal(pushed.which, SUCCESSFUL);
  assert_int_equal(pushed.rows, 1000);
  assert_int_equal(caller_fetch(&one.c, &pushed, NULL).rows, 1000);
  caller_status asked = caller_submit(&one.c, "10");
  assert_int_equal(caller_wait(&one.c, asked.job_id).which, SUCCESSFUL);
  caller_status failed = caller_push(&one.c, "1000002", NULL);
  assert_int_equal(failed.which, FAILED);
  server_close(&one);
  server_open(&two, folder, false, LEASE_MS);
  caller_status again = caller_ask(&two.c, pushed.job_id);
  assert_int_equal(again.which, SUCCESSFUL);
  assert_string_equal(again.name, "nightly");
  assert_int_equal(again.rows, 1000);
  assert_int_equal(again.ticket.file_id, pushed.ticket.file_id);
  assert_int_equal(caller_fetch(&two.c, &pushed, NULL).rows, 1000);
  assert_int_equal(caller_fetch(&two.c, &again, NULL).rows, 1000);
  assert_int_equal(caller_ask(&two.c, asked.job_id).which, SUCCESSFUL);
  caller_status still = caller_ask(&two.c, failed.job_id);
  assert_int_equal(still.which, FAILED);
  assert_string_equal(still.error, failed.error);
  assert_false(caller_cancel(&two.c, pushed.job_id)); /* what is over keeps its output */
  assert_int_equal(caller_fetch(&two.c, &pushed, NULL).rows, 1000);
  server_close(&two);
  remove_folder_of_test(folder);
}

static void tickets_of_kept_jobs_are_secrets_too(void **state) {
  (void)state;
  server s;
  char *folder = make_folder_for_test();
  server_open(&s, folder, false, LEASE_MS);
  s.c.identity = "ann";
  caller_status mine = caller_push(&s.c, "5", NULL), other = caller_push(&s.c, "6", NULL);
  server_close(&s);
  server_open(&s, folder, false, LEASE_MS);
  assert_int_equal(caller_fetch(&s.c, &mine, NULL).rows, 5);
  assert_int_equal(caller_fetch(&s.c, &mine, "ann").rows, 5);
  assert_int_equal(caller_fetch(&s.c, &mine, "bob").status, TRN_NOT_FOUND);
  caller_status forged = mine;
  forged.ticket.file_id = other.ticket.file_id;
  assert_int_equal(caller_fetch(&s.c, &forged, NULL).status, TRN_NOT_FOUND);
  static const char *const ids[] = {"", "../outputs", ".tickets", "01234567-89ab-7cde-8f01-23456789abcd"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    forged = mine;
    snprintf(forged.job_id, sizeof forged.job_id, "%s", ids[i]);
    assert_int_equal(caller_fetch(&s.c, &forged, NULL).status, TRN_NOT_FOUND);
  }
  s.c.identity = "bob";
  assert_int_equal(caller_ask(&s.c, mine.job_id).which, 0); /* as if it were not there */
  assert_false(caller_cancel(&s.c, mine.job_id));
  s.c.identity = "ann";
  assert_int_equal(caller_ask(&s.c, mine.job_id).which, SUCCESSFUL);
  server_close(&s);
  remove_folder_of_test(folder);
}

static void a_job_that_runs_is_left_to_its_scheduler_and_cancelled_by_another(void **state) {
  (void)state;
  server one, two;
  char *folder = make_folder_for_test();
  server_open(&one, folder, false, LEASE_MS);
  server_open(&two, folder, false, LEASE_MS);
  caller_status hanging = caller_submit(&one.c, "1000001");
  for (int i = 0; i < WAIT_MS && caller_ask(&two.c, hanging.job_id).which != RUNNING; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(caller_ask(&two.c, hanging.job_id).which, RUNNING);
  caller_stop(&one.c); /* the service is gone, its scheduler is not */
  assert_int_equal(caller_ask(&two.c, hanging.job_id).which, RUNNING);
  trn_scheduler_unref(one.scheduler);
  caller_status lost = caller_ask(&two.c, hanging.job_id);
  assert_int_equal(lost.which, FAILED);
  assert_non_null(strstr(lost.error, "lost"));
  assert_true(caller_cancel(&two.c, hanging.job_id));
  assert_string_equal(caller_ask(&two.c, hanging.job_id).error, "Cancelled");
  trn_job_store_unref(one.store);
  trn_registry_destroy(one.registry);
  server_close(&two);
  remove_folder_of_test(folder);
}

static void a_lost_job_that_is_asked_for_runs_again(void **state) {
  (void)state;
  server one, two;
  char *folder = make_folder_for_test();
  server_open(&one, folder, true, LEASE_MS);
  trn__scripted_on_plan(one.c.flight.scripted, NULL, NULL);
  const trn_script hanging = {.is_hanging = true, .hang_at = 1};
  assert_int_equal(trn__scripted_on(one.c.flight.scripted, NULL, &hanging), TRN_OK);
  caller_status job = caller_submit(&one.c, "5000");
  for (int i = 0; i < WAIT_MS && caller_ask(&one.c, job.job_id).which != RUNNING; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  server_close(&one);
  server_open(&two, folder, true, LEASE_MS);
  caller_status end = caller_wait(&two.c, job.job_id);
  assert_int_equal(end.which, SUCCESSFUL);
  assert_int_equal(end.rows, 5000);
  assert_int_equal(caller_fetch(&two.c, &end, NULL).rows, 5000);
  server_close(&two);
  remove_folder_of_test(folder);
}

static void a_lost_job_runs_again_for_its_user_only_and_only_when_asked_how_it_is(void **state) {
  (void)state;
  server one, two;
  char *folder = make_folder_for_test();
  server_open(&one, folder, true, LEASE_MS);
  one.c.identity = "ann";
  caller_status forged = caller_push(&one.c, "5", NULL);
  caller_status jobs[2] = {caller_submit(&one.c, "1000001"), caller_submit(&one.c, "1000001")};
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < WAIT_MS && caller_ask(&one.c, jobs[k].job_id).which != RUNNING; i++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  server_close(&one);
  server_open(&two, folder, true, LEASE_MS);
  two.c.identity = "bob";
  assert_int_equal(caller_ask(&two.c, jobs[0].job_id).which, 0);
  assert_false(caller_cancel(&two.c, jobs[0].job_id));
  snprintf(forged.job_id, sizeof forged.job_id, "%s", jobs[0].job_id);
  assert_int_equal(caller_fetch(&two.c, &forged, NULL).status, TRN_NOT_FOUND);
  two.c.identity = "ann";
  assert_true(caller_cancel(&two.c, jobs[0].job_id));
  assert_string_equal(caller_ask(&two.c, jobs[0].job_id).error, "Cancelled");
  assert_int_equal(trn__scripted_count(two.c.flight.scripted).executed, 0);
  for (int i = 0; i < WAIT_MS && caller_ask(&two.c, jobs[1].job_id).which != RUNNING; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(caller_ask(&two.c, jobs[1].job_id).which, RUNNING);
  assert_true(caller_cancel(&two.c, jobs[1].job_id));
  server_close(&two);
  remove_folder_of_test(folder);
}

static atomic_bool is_decoding, may_decode;

static void decode_slowly(int64_t count) {
  if (count != 77) return;
  atomic_store(&is_decoding, true);
  for (int i = 0; i < WAIT_MS && !atomic_load(&may_decode); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *submit_slow(void *argument) {
  static caller_status out;
  out = caller_submit(argument, "77");
  return &out;
}

static void jobs_are_asked_for_and_cancelled_while_all_workers_decode(void **state) {
  (void)state;
  server s;
  pthread_t thread;
  void *slow;
  char *folder = make_folder_for_test();
  workers = 1;
  server_open(&s, folder, false, LEASE_MS);
  workers = 0;
  caller_status hanging = caller_submit(&s.c, "1000001");
  caller_decoding = decode_slowly;
  assert_int_equal(pthread_create(&thread, NULL, submit_slow, &s.c), 0);
  for (int i = 0; i < WAIT_MS && !atomic_load(&is_decoding); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_true(atomic_load(&is_decoding));
  assert_int_not_equal(caller_ask(&s.c, hanging.job_id).which, 0);
  assert_true(caller_cancel(&s.c, hanging.job_id));
  assert_string_equal(caller_wait(&s.c, hanging.job_id).error, "Cancelled");
  assert_false(atomic_load(&may_decode)); /* it was still at it */
  atomic_store(&may_decode, true);
  assert_int_equal(pthread_join(thread, &slow), 0);
  assert_int_equal(caller_wait(&s.c, ((caller_status *)slow)->job_id).rows, 77);
  caller_decoding = NULL;
  server_close(&s);
  remove_folder_of_test(folder);
}

static void what_cannot_be_read_is_no_job(void **state) {
  (void)state;
  server s;
  char *folder = make_folder_for_test();
  server_open(&s, folder, false, LEASE_MS);
  assert_int_equal(caller_push(&s.c, "many", NULL).status, TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(s.c.text, "not a count of rows: 'many'"));
  (void)caller_submit(&s.c, "many");
  trn_frontend *frontend = NULL;
  trn_ballista_frontend_options bad = {.struct_size = sizeof bad, .jobs = s.scheduler};
  assert_int_equal(trn_ballista_frontend_create(&bad, &frontend), TRN_INVALID_ARGUMENT);
  bad.ticket_key = "short", bad.ticket_key_size = 5;
  assert_int_equal(trn_ballista_frontend_create(&bad, &frontend), TRN_INVALID_ARGUMENT);
  bad.ticket_key = key, bad.ticket_key_size = sizeof key - 1, bad.hands_through = true;
  assert_int_equal(trn_ballista_frontend_create(&bad, &frontend), TRN_INVALID_ARGUMENT);
  assert_null(frontend);
  char *outputs = in_folder(folder, "outputs");
  assert_int_equal(rmdir(outputs), 0); /* nothing was written */
  free(outputs);
  server_close(&s);
  remove_folder_of_test(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_is_answered_for_by_the_next_process),
      cmocka_unit_test(tickets_of_kept_jobs_are_secrets_too),
      cmocka_unit_test(a_job_that_runs_is_left_to_its_scheduler_and_cancelled_by_another),
      cmocka_unit_test(a_lost_job_that_is_asked_for_runs_again),
      cmocka_unit_test(a_lost_job_runs_again_for_its_user_only_and_only_when_asked_how_it_is),
      cmocka_unit_test(jobs_are_asked_for_and_cancelled_while_all_workers_decode),
      cmocka_unit_test(what_cannot_be_read_is_no_job),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
