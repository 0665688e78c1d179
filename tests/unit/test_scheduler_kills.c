/* Jobs whose process is killed between any two of its writes, to the store or to files, and stores and disks that are
 * full: another process finds the job finished with its output, or lost, and brings it to its one right end.
 *
 * The steps of a life are numbered by what goes through here: every function of the store twice (before, after), every
 * call that changes a file. A child dies at step k by SIGKILL, for k = 1, 2, ... until it lives to its end. */
#include "support/scheduler_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { BRIEF_LEASE_MS = 60, ROWS_OF_JOB = 20000, STEPS_MAX = 400 };

/* ---- steps ---- */

static atomic_int step_count;
static int die_at; /* 0: never */
static atomic_bool is_counting = true;
static int full_from = -1, full_calls; /* these calls of the store find it full */
static atomic_int disk_full_from = -1; /* of files: ENOSPC from this writev on */
static atomic_int store_calls, writes;

static void a_step(void) {
  if (!atomic_load(&is_counting)) return;
  int step = atomic_fetch_add(&step_count, 1) + 1;
  if (die_at && step == die_at) kill(getpid(), SIGKILL);
}

ssize_t __real_writev(int fd, const struct iovec *parts, int count);
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count);
ssize_t __wrap_writev(int fd, const struct iovec *parts, int count) {
  a_step();
  int from = atomic_load(&disk_full_from);
  if (from >= 0 && atomic_fetch_add(&writes, 1) >= from) {
    errno = ENOSPC;
    return -1;
  }
  return __real_writev(fd, parts, count);
}

#define STEP_BEFORE(type, name, parameters, arguments)                                                                 \
  type __real_##name parameters;                                                                                       \
  type __wrap_##name parameters;                                                                                       \
  type __wrap_##name parameters {                                                                                      \
    a_step();                                                                                                          \
    return __real_##name arguments;                                                                                    \
  }
STEP_BEFORE(int, fsync, (int fd), (fd))
STEP_BEFORE(int, mkdir, (const char *path, mode_t mode), (path, mode))
STEP_BEFORE(int, unlink, (const char *path), (path))
STEP_BEFORE(int, rmdir, (const char *path), (path))

/* ---- a store whose functions are steps ---- */

static trn_status before_call(trn_error **error) {
  a_step();
  int call = atomic_fetch_add(&store_calls, 1);
  if (full_from >= 0 && call >= full_from && call < full_from + full_calls)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The job store: database or disk is full");
  return TRN_OK;
}

#define STEP_AROUND(name, parameters, arguments)                                                                       \
  static trn_status step_##name parameters {                                                                           \
    const trn_job_store_ops *ops = trn_job_store_get_ops(self, &self);                                                 \
    trn_status status = before_call(error);                                                                            \
    if (!status) status = ops->name arguments;                                                                         \
    a_step();                                                                                                          \
    return status;                                                                                                     \
  }
STEP_AROUND(insert, (void *self, const trn_job_record *r, trn_error **error), (self, r, error))
STEP_AROUND(get, (void *self, const char *id, bool q, trn_job_each each, void *user, trn_error **error),
            (self, id, q, each, user, error))
STEP_AROUND(update, (void *self, const trn_job_record *r, trn_error **error), (self, r, error))
STEP_AROUND(take, (void *self, const char *id, uint64_t a, const char *owner, bool n, trn_error **error),
            (self, id, a, owner, n, error))
STEP_AROUND(cancel, (void *self, const char *id, trn_error **error), (self, id, error))
STEP_AROUND(release, (void *self, const char *id, trn_error **error), (self, id, error))
STEP_AROUND(remove, (void *self, const char *id, trn_error **error), (self, id, error))
STEP_AROUND(list, (void *self, const trn_job_filter *f, trn_job_each each, void *user, trn_error **error),
            (self, f, each, user, error))

/* Not a step: it comes by the clock, and changes nothing of a job. */
static trn_status step_renew(void *self, const char *owner, uint64_t lease_ms, trn_job_each each, void *user,
                             trn_error **error) {
  const trn_job_store_ops *ops = trn_job_store_get_ops(self, &self);
  return ops->renew(self, owner, lease_ms, each, user, error);
}

static void step_destroy(void *self) {
  trn_job_store_unref(self);
}

static trn_job_store *open_step_store(const char *folder) {
  static const trn_job_store_ops ops = {sizeof ops,  step_insert,  step_get,    step_update, step_take,   step_renew,
                                        step_cancel, step_release, step_remove, step_list,   step_destroy};
  trn_job_store *store;
  assert_int_equal(trn_job_store_create(&ops, open_store(folder), &store), TRN_OK);
  return store;
}

static void node_open_steps(node *n, const char *folder) {
  trn_scheduler_options brief = {.lease_ms = BRIEF_LEASE_MS};
  node_open_with(n, folder, open_step_store(folder), &brief);
}

/* ---- lives: what a child does, telling what it was answered ---- */

typedef void (*life)(const char *folder, int tell);

static void say(int tell, char word) {
  assert_int_equal(write(tell, &word, 1), 1);
}

static void submit_and_wait(const char *folder, int tell) {
  node n;
  node_open_steps(&n, folder);
  trn_job *job = submit(&n, "j", "rows 20000");
  say(tell, 'S');
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  say(tell, 'E');
  trn_job_unref(job);
  node_close(&n);
}

static void recover_and_wait(const char *folder, int tell) {
  node n;
  trn_job *job = NULL;
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  node_open_steps(&n, folder);
  assert_int_equal(trn_scheduler_recover(n.scheduler, "j", &resubmit, &job, NULL), TRN_OK);
  say(tell, 'S');
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  say(tell, 'E');
  trn_job_unref(job);
  node_close(&n);
}

static void submit_and_cancel(const char *folder, int tell) {
  node n;
  node_open_steps(&n, folder);
  trn_job *job = submit(&n, "j", "hang");
  say(tell, 'S');
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(trn_job_cancel(job, NULL), TRN_OK);
  say(tell, 'C');
  assert_int_equal(wait_for_end(job), TRN_JOB_CANCELLED);
  say(tell, 'E');
  trn_job_unref(job);
  node_close(&n);
}

static void submit_and_release(const char *folder, int tell) {
  node n;
  node_open_steps(&n, folder);
  trn_job *job = submit(&n, "j", "rows 20000");
  say(tell, 'S');
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  say(tell, 'E');
  atomic_store(&is_counting, true); /* the life before is another test's */
  assert_int_equal(trn_job_release(job, NULL), TRN_OK);
  say(tell, 'R');
  trn_job_unref(job);
  assert_int_equal(trn_scheduler_forget(n.scheduler, "j", NULL), TRN_OK);
  say(tell, 'F');
  node_close(&n);
}

/* Runs it in a process of its own that dies at step `at`; what it said. False: it lived to its end. */
static bool run_life(life lived, const char *folder, int at, char said[16]) {
  int ends[2], code = 0;
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    die_at = at;
    atomic_store(&step_count, 0);
    atomic_store(&is_counting, lived != submit_and_release); /* which says from where on */
    lived(folder, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  memset(said, 0, 16);
  for (size_t size = 0; size < 15;) {
    ssize_t got = read(ends[0], said + size, 15 - size);
    if (got <= 0) break;
    size += (size_t)got;
  }
  close(ends[0]);
  assert_int_equal(waitpid(child, &code, 0), child);
  if (WIFSIGNALED(code)) {
    assert_int_equal(WTERMSIG(code), SIGKILL);
    return true;
  }
  assert_true(WIFEXITED(code));
  assert_int_equal(WEXITSTATUS(code), 0);
  return false;
}

/* ---- what is found afterwards ---- */

static bool is_said(const char *said, char word) {
  return strchr(said, word) != NULL;
}

/* How many attempts have a folder. */
static int attempts_on_disk(const char *folder) {
  int count = 0;
  char *path = in_folder(folder, "outputs/j");
  DIR *d = opendir(path);
  for (struct dirent *entry; d && (entry = readdir(d));) count += entry->d_name[0] != '.';
  if (d) closedir(d);
  free(path);
  return count;
}

/* A handle once its last owner counts as gone; NULL: there is no job. */
static trn_job *found_dead(node *n) {
  trn_job *job = NULL;
  for (int i = 0; i < WAIT_MS; i++) {
    trn_status status = trn_scheduler_recover(n->scheduler, "j", NULL, &job, NULL);
    if (status == TRN_NOT_FOUND) return NULL;
    assert_int_equal(status, TRN_OK);
    if (status_of(job).state > TRN_JOB_RUNNING) return job;
    trn_job_unref(job);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  fail_msg("the job's owner does not die");
  return NULL;
}

static void is_brought_to_its_end(const char *folder, const char *said) {
  node n;
  node_open(&n, folder);
  trn_job *job = found_dead(&n), *again = NULL;
  if (!job) {
    assert_false(is_said(said, 'S')); /* nothing that was answered is forgotten */
    job = submit(&n, "j", "rows 20000");
  } else if (status_of(job).state == TRN_JOB_LOST) {
    assert_false(is_said(said, 'E'));
    trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
    assert_int_equal(submit_with(&n, "j", "rows 20000", NULL, &again, NULL), TRN_ALREADY_EXISTS);
    assert_int_equal(trn_scheduler_recover(n.scheduler, "j", &resubmit, &again, NULL), TRN_OK);
    trn_job_unref(job);
    job = again;
  } else {
    assert_int_equal(status_of(job).state, TRN_JOB_SUCCEEDED);
  }
  assert_int_equal(wait_for_end(job), TRN_JOB_SUCCEEDED);
  assert_int_equal(status_of(job).rows, ROWS_OF_JOB);
  output_is(job, ROWS_OF_JOB);
  assert_int_equal(attempts_on_disk(folder), 1);
  trn_job_unref(job);
  node_close(&n);
}

static void a_job_survives_the_death_of_its_process_at_every_step(void **state) {
  (void)state;
  char said[16];
  int at = 1;
  for (bool died = true; died; at++) {
    char *folder = make_folder_for_test();
    died = run_life(submit_and_wait, folder, at, said);
    is_brought_to_its_end(folder, said);
    remove_folder_of_test(folder);
    assert_true(at < STEPS_MAX);
  }
  print_message("%d steps\n", at);
  assert_true(at > 15); /* insert, running, the file's calls, the end: all were there */
}

static void a_recovery_survives_the_death_of_its_process_at_every_step(void **state) {
  (void)state;
  char said[16];
  int at = 1;
  for (bool died = true; died; at++) {
    char *folder = make_folder_for_test();
    assert_true(run_life(submit_and_wait, folder, 10, said)); /* in the middle of its file */
    node n;
    node_open(&n, folder);
    trn_job *job = found_dead(&n);
    assert_non_null(job);
    trn_job_unref(job);
    node_close(&n);
    died = run_life(recover_and_wait, folder, at, said);
    is_brought_to_its_end(folder, said);
    remove_folder_of_test(folder);
    assert_true(at < STEPS_MAX);
  }
  assert_true(at > 15);
}

static void a_cancelled_job_never_runs_again(void **state) {
  (void)state;
  char said[16];
  int at = 1;
  for (bool died = true; died; at++) {
    char *folder = make_folder_for_test();
    node n;
    trn_job *again = NULL;
    died = run_life(submit_and_cancel, folder, at, said);
    node_open(&n, folder);
    trn_job *job = found_dead(&n);
    trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
    assert_true(job || !is_said(said, 'S'));
    if (job && is_said(said, 'C')) {
      assert_int_equal(trn_scheduler_recover(n.scheduler, "j", &resubmit, &again, NULL), TRN_OK);
      assert_int_equal(wait_for_end(again), TRN_JOB_CANCELLED);
      assert_int_equal(trn__scripted_count(n.control).executed, 0);
      assert_int_equal(attempts_on_disk(folder), 0);
    } else if (job) {
      assert_int_equal(trn_job_cancel(job, NULL), TRN_OK);
      assert_int_equal(wait_for_end(job), TRN_JOB_CANCELLED);
    }
    trn_job_unref(again);
    trn_job_unref(job);
    node_close(&n);
    remove_folder_of_test(folder);
    assert_true(at < STEPS_MAX);
  }
}

static void an_output_is_whole_or_released(void **state) {
  (void)state;
  char said[16];
  int at = 1;
  for (bool died = true; died; at++) {
    char *folder = make_folder_for_test();
    node n;
    trn_job *job = NULL;
    died = run_life(submit_and_release, folder, at, said);
    node_open(&n, folder);
    trn_status found = trn_scheduler_job(n.scheduler, "j", &job, NULL);
    if (found) {
      assert_int_equal(found, TRN_NOT_FOUND);
      assert_true(is_said(said, 'R'));
    } else if (status_of(job).is_released) {
      assert_int_equal(trn_job_release(job, NULL), TRN_OK); /* what was left goes */
    } else {
      assert_false(is_said(said, 'R'));
      output_is(job, ROWS_OF_JOB);
      assert_int_equal(trn_job_release(job, NULL), TRN_OK);
    }
    assert_int_equal(attempts_on_disk(folder), 0);
    trn_job_unref(job);
    node_close(&n);
    remove_folder_of_test(folder);
    assert_true(at < STEPS_MAX);
  }
  assert_true(at > 6);
}

/* ---- full ---- */

/* The store is full for a while, from any call on. */
static void a_full_store_delays_or_refuses_and_never_lies(void **state) {
  (void)state;
  for (int from = 0; from < 12; from++) {
    char *folder = make_folder_for_test();
    node n;
    trn_job *job = NULL;
    node_open_steps(&n, folder);
    atomic_store(&store_calls, 0);
    full_from = from;
    full_calls = 3;
    trn_status status = submit_with(&n, "j", "rows 20000", NULL, &job, NULL);
    if (status) {
      assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
      full_from = -1;
      job = submit(&n, "j", "rows 20000");
    }
    trn_job_status end = {.struct_size = sizeof end};
    while ((status = trn_job_wait(job, WAIT_MS, &end, NULL, NULL)) == TRN_RESOURCE_EXHAUSTED) continue;
    assert_int_equal(status, TRN_OK);
    assert_int_equal(end.state, TRN_JOB_SUCCEEDED);
    full_from = -1;
    output_is(job, ROWS_OF_JOB);
    trn_job_unref(job);
    node_close(&n);
    node_open(&n, folder); /* and so it is in the store */
    assert_int_equal(trn_scheduler_job(n.scheduler, "j", &job, NULL), TRN_OK);
    assert_int_equal(status_of(job).state, TRN_JOB_SUCCEEDED);
    trn_job_unref(job);
    node_close(&n);
    remove_folder_of_test(folder);
  }
}

static void a_full_disk_fails_the_job_and_leaves_nothing(void **state) {
  (void)state;
  for (int from = 0; from < 4; from++) {
    char *folder = make_folder_for_test();
    node n;
    trn_error *failure = NULL;
    trn_job_status end = {.struct_size = sizeof end};
    node_open(&n, folder);
    atomic_store(&writes, 0);
    atomic_store(&disk_full_from, from);
    trn_job *job = submit(&n, "j", "rows 20000");
    assert_int_equal(trn_job_wait(job, WAIT_MS, &end, &failure, NULL), TRN_OK);
    atomic_store(&disk_full_from, -1);
    assert_int_equal(end.state, TRN_JOB_FAILED);
    assert_int_equal(trn_error_status(failure), TRN_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(trn_error_message(failure), "part-00000.arrows"));
    assert_int_equal(attempts_on_disk(folder), 0);
    trn_error_unref(failure);
    trn_job_unref(job);
    node_close(&n);
    remove_folder_of_test(folder);
  }
}

static bool write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) close(fd);
  return ok;
}

/* As root, or as the root of a namespace of its own. */
static bool mount_small(const char *folder) {
  char map[32];
  snprintf(map, sizeof map, "0 %u 1", (unsigned)getuid());
  if (unshare(CLONE_NEWNS) && (unshare(CLONE_NEWUSER | CLONE_NEWNS) || !write_file("/proc/self/uid_map", map)))
    return false;
  return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) && !mount("jobs", folder, "tmpfs", 0, "size=700k");
}

/* A file system of its own that is really full: jobs are submitted until one is refused. 77: it cannot be had here. */
static void fill_a_disk(const char *folder, int tell) {
  (void)tell;
  node n;
  trn_job *job = NULL;
  char id[16];
  int done = 0;
  static char query[40000];
  if (!mount_small(folder)) _exit(77);
  node_open(&n, folder);
  trn_status status = TRN_OK;
  for (int i = 0; i < 200 && !status; i++) {
    snprintf(query, sizeof query, "rows 10%39000s", "");
    snprintf(id, sizeof id, "j%d", i);
    status = submit_with(&n, id, query, NULL, &job, NULL);
    trn_job_status end = {.struct_size = sizeof end};
    if (status) break;
    /* A job that was accepted ends, or waits for room to say so: it never says more than the store has. */
    if (trn_job_wait(job, 300, &end, NULL, NULL) == TRN_OK && end.state == TRN_JOB_SUCCEEDED) {
      output_is(job, 10);
      done++;
    }
    trn_job_unref(job);
  }
  bool is_right = (status == TRN_RESOURCE_EXHAUSTED || status == TRN_UNAVAILABLE) && done > 0;
  /* What was accepted is there. */
  for (int i = 0; i < done && is_right; i++) {
    snprintf(id, sizeof id, "j%d", i);
    is_right = trn_scheduler_job(n.scheduler, id, &job, NULL) == TRN_OK && status_of(job).state != TRN_JOB_LOST;
    trn_job_unref(job);
  }
  _exit(is_right ? 0 : 1);
}

static void a_file_system_that_is_really_full_is_survived(void **state) {
  (void)state;
  char *folder = make_folder_for_test();
  int code = 0;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) fill_a_disk(folder, -1);
  assert_int_equal(waitpid(child, &code, 0), child);
  remove_folder_of_test(folder);
  if (WIFEXITED(code) && WEXITSTATUS(code) == 77) {
    print_message("no file system can be mounted here: a really full disk is NOT tested\n");
    skip();
  }
  assert_true(WIFEXITED(code));
  assert_int_equal(WEXITSTATUS(code), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_survives_the_death_of_its_process_at_every_step),
      cmocka_unit_test(a_recovery_survives_the_death_of_its_process_at_every_step),
      cmocka_unit_test(a_cancelled_job_never_runs_again),
      cmocka_unit_test(an_output_is_whole_or_released),
      cmocka_unit_test(a_full_store_delays_or_refuses_and_never_lies),
      cmocka_unit_test(a_full_disk_fails_the_job_and_leaves_nothing),
      cmocka_unit_test(a_file_system_that_is_really_full_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
