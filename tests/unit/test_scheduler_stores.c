/* One suite over the stores that are bundled: SQLite, and PostgreSQL where Debian's server is installed (started here,
 * on a socket in the test's folder). Then what thousands of ended jobs cost. */
#include "support/scheduler_fixture.h"

#include <glob.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "scheduler/store_sql.h"

typedef struct stores { /* how one is opened */
  char *folder;
  char *conninfo; /* NULL: SQLite */
  pid_t server;
} stores;

static trn_status try_open(const stores *s, trn_job_store **out, trn_error **error) {
  if (s->conninfo) return trn_postgres_job_store_open(s->conninfo, out, error);
  char *path = in_folder(s->folder, "jobs.sqlite");
  trn_status status = trn_sqlite_job_store_open(path, out, error);
  free(path);
  return status;
}

static trn_job_store *open_one(const stores *s) {
  trn_job_store *store = NULL;
  trn_error *error = NULL;
  trn_status status = try_open(s, &store, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  return store;
}

/* ---- the server ---- */

static pid_t spawn(char *const *arguments, const char *log) {
  fflush(NULL);
  pid_t child = fork();
  if (child) return child;
  struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL; /* it refuses to run as root */
  if (user && (setgroups(0, NULL) || setgid(user->pw_gid) || setuid(user->pw_uid))) _exit(126);
  if (!freopen(log, "a", stdout) || dup2(fileno(stdout), 2) < 0 || chdir("/")) _exit(126);
  execv(arguments[0], arguments);
  _exit(127);
}

static bool run_to_end(char *const *arguments, const char *log) {
  int code = 0;
  pid_t child = spawn(arguments, log);
  return child > 0 && waitpid(child, &code, 0) == child && WIFEXITED(code) && WEXITSTATUS(code) == 0;
}

/* False: there is none on this machine. */
static bool start_server(stores *s) {
  glob_t found;
  char conninfo[512];
  if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found)) return false;
  char *initdb = found.gl_pathv[found.gl_pathc - 1], *data = in_folder(s->folder, "data"),
       *log = in_folder(s->folder, "log");
  char *bin = strndup(initdb, strlen(initdb) - strlen("/initdb")), *postgres = in_folder(bin, "postgres");
  assert_int_equal(chmod(s->folder, 0777), 0);
  char *make[] = {initdb, "-D", data, "-U", "jobs", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", NULL};
  assert_true(run_to_end(make, log));
  char *serve[] = {postgres, "-D", data, "-k", s->folder, "-h", "", "-c", "shared_buffers=16MB", NULL};
  s->server = spawn(serve, log);
  snprintf(conninfo, sizeof conninfo, "host=%s user=jobs dbname=postgres", s->folder);
  s->conninfo = strdup(conninfo);
  trn_job_store *store = NULL;
  trn_status status = TRN_UNAVAILABLE;
  for (int i = 0; i < 1000 && (status = try_open(s, &store, NULL)) == TRN_UNAVAILABLE; i++)
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  assert_int_equal(status, TRN_OK);
  trn_job_store_unref(store);
  free(postgres), free(bin), free(log), free(data);
  globfree(&found);
  return true;
}

static int sqlite_setup(void **state) {
  stores *s = calloc(1, sizeof *s);
  s->folder = make_folder_for_test();
  *state = s;
  return 0;
}

static int postgres_setup(void **state) {
  sqlite_setup(state);
  stores *s = *state;
  if (!start_server(s)) {
    print_message("PostgreSQL is not installed: its store is NOT tested\n");
    free(s->folder);
    s->folder = NULL;
  }
  return 0;
}

static int teardown(void **state) {
  stores *s = *state;
  if (s->server) {
    kill(s->server, SIGINT);
    waitpid(s->server, NULL, 0);
  }
  if (s->folder) remove_folder_of_test(s->folder);
  free(s->conninfo);
  free(s);
  return 0;
}

/* ---- one store ---- */

static const char *const some_tags[] = {"nightly", "gr\xc3\xbc\xc3\x9f"
                                                   "e"},
                         *const some_groups[] = {"a", "b"};
static const trn_kv some_settings[] = {{"k", "v"}, {"empty", ""}, {"unset", NULL}};

static trn_job_record some_record(const char *id, const char *owner) {
  return (trn_job_record){.struct_size = sizeof(trn_job_record),
                          .id = id,
                          .name = "a job",
                          .user = "ann",
                          .session_id = "s1",
                          .attempt = 1,
                          .owner = owner,
                          .submitted_ms = 1000,
                          .tags = some_tags,
                          .tag_count = 2,
                          .groups = some_groups,
                          .group_count = 2,
                          .is_authenticated = true,
                          .settings = some_settings,
                          .setting_count = 3,
                          .format = "f",
                          .query = "a\0b",
                          .query_size = 3};
}

static bool ignore(void *user, const trn_job_record *record) {
  (void)record;
  ++*(int *)user;
  return true;
}

#define OPEN_OPS(store)                                                                                                \
  void *self;                                                                                                          \
  const trn_job_store_ops *ops = trn_job_store_get_ops(store, &self)

static void what_is_written_is_read(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  trn_job_store *store = open_one(s);
  OPEN_OPS(store);
  int calls = 0;
  trn_job_copy copy;
  trn_job_record r = some_record("w", "o1");
  assert_int_equal(ops->renew(self, "o1", 60000, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(ops->insert(self, &r, NULL), TRN_OK);
  assert_int_equal(ops->insert(self, &r, NULL), TRN_ALREADY_EXISTS);
  trn_job_store_unref(store);
  store = open_one(s); /* another connection */
  ops = trn_job_store_get_ops(store, &self);
  assert_int_equal(trn__store_get(store, "w", true, &copy, NULL), TRN_OK);
  const trn_job_record *g = &copy.record;
  assert_string_equal(g->user, "ann");
  assert_string_equal(g->tags[1], some_tags[1]);
  assert_int_equal(g->group_count, 2);
  assert_int_equal(g->setting_count, 3);
  assert_string_equal(g->settings[1].value, "");
  assert_null(g->settings[2].value);
  assert_int_equal(g->query_size, 3);
  assert_memory_equal(g->query, "a\0b", 3);
  assert_true(g->is_authenticated && g->is_owner_alive && !g->is_cancelled && !g->is_released);
  assert_null(g->backend_id);
  trn__job_copy_finish(&copy);
  trn_job_location places[] = {{sizeof *places, "file:///x", NULL, 0, 1, -1},
                               {sizeof *places, "grpc://h:1", "t\0t", 3, 2, 20}};
  r.state = TRN_JOB_SUCCEEDED;
  r.backend_id = "b7";
  r.stages = 3, r.stages_done = 2, r.tasks = 40, r.tasks_done = 39, r.rows = 1ll << 40, r.bytes = 5;
  r.started_ms = 1100, r.ended_ms = 1200;
  r.metrics = "{}";
  r.locations = places;
  r.location_count = 2;
  assert_int_equal(ops->update(self, &r, NULL), TRN_OK);
  assert_int_equal(ops->update(self, &r, NULL), TRN_ABORTED); /* it has ended */
  assert_int_equal(trn__store_get(store, "w", false, &copy, NULL), TRN_OK);
  assert_null(g->query);
  assert_string_equal(g->format, "f");
  assert_int_equal(g->state, TRN_JOB_SUCCEEDED);
  assert_string_equal(g->backend_id, "b7");
  assert_int_equal(g->rows, 1ll << 40);
  assert_int_equal(g->tasks_done, 39);
  assert_int_equal(g->location_count, 2);
  assert_int_equal(g->locations[0].bytes, -1);
  assert_null(g->locations[0].ticket);
  assert_memory_equal(g->locations[1].ticket, "t\0t", 3);
  trn__job_copy_finish(&copy);
  trn_job_store_unref(store);
}

static void owners_are_fenced(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  trn_job_store *store = open_one(s);
  OPEN_OPS(store);
  int calls = 0;
  trn_job_copy copy;
  trn_job_record r = some_record("fence", "o1");
  assert_int_equal(ops->renew(self, "o1", 60000, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(ops->renew(self, "o2", 60000, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(ops->insert(self, &r, NULL), TRN_OK);
  assert_int_equal(ops->take(self, "fence", 1, "o2", true, NULL), TRN_ABORTED); /* o1 lives */
  assert_int_equal(ops->renew(self, "o1", 0, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(ops->take(self, "fence", 2, "o2", true, NULL), TRN_ABORTED); /* another attempt */
  assert_int_equal(ops->take(self, "fence", 1, "o2", true, NULL), TRN_OK);
  assert_int_equal(ops->take(self, "fence", 1, "o3", true, NULL), TRN_ABORTED);
  assert_int_equal(ops->update(self, &r, NULL), TRN_ABORTED); /* o1 has nothing to say any more */
  r.owner = "o2";
  assert_int_equal(ops->update(self, &r, NULL), TRN_ABORTED);
  r.attempt = 2;
  r.state = TRN_JOB_RUNNING;
  assert_int_equal(ops->update(self, &r, NULL), TRN_OK);
  assert_int_equal(ops->take(self, "fence", 2, "o2", false, NULL), TRN_OK); /* its own */
  assert_int_equal(trn__store_get(store, "fence", false, &copy, NULL), TRN_OK);
  assert_int_equal(copy.record.attempt, 3);
  assert_int_equal(copy.record.state, TRN_JOB_RUNNING);
  trn__job_copy_finish(&copy);
  /* A wish to cancel reaches the owner. */
  calls = 0;
  assert_int_equal(ops->renew(self, "o2", 60000, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(calls, 0);
  assert_int_equal(ops->cancel(self, "fence", NULL), TRN_OK);
  assert_int_equal(ops->renew(self, "o2", 60000, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(calls, 1);
  assert_int_equal(ops->remove(self, "fence", NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(ops->release(self, "fence", NULL), TRN_FAILED_PRECONDITION);
  r.attempt = 3;
  r.state = TRN_JOB_CANCELLED;
  assert_int_equal(ops->update(self, &r, NULL), TRN_OK);
  assert_int_equal(ops->cancel(self, "fence", NULL), TRN_OK);
  assert_int_equal(ops->release(self, "fence", NULL), TRN_OK);
  assert_int_equal(ops->remove(self, "fence", NULL), TRN_OK);
  assert_int_equal(ops->remove(self, "fence", NULL), TRN_NOT_FOUND);
  assert_int_equal(ops->cancel(self, "fence", NULL), TRN_NOT_FOUND);
  assert_int_equal(ops->get(self, "fence", false, ignore, &calls, NULL), TRN_NOT_FOUND);
  trn_job_store_unref(store);
}

enum { RACERS = 6 };

typedef struct racer {
  const stores *stores;
  int number;
  int inserted, taken;
} racer;

static void *race(void *argument) {
  racer *r = argument;
  char owner[24], id[24];
  int calls = 0;
  trn_job_store *store = open_one(r->stores);
  OPEN_OPS(store);
  snprintf(owner, sizeof owner, "r%d", r->number);
  for (int i = 0; i < 10; i++) {
    snprintf(id, sizeof id, "race-%d", i);
    trn_job_record record = some_record(id, "gone");
    trn_status status = ops->insert(self, &record, NULL);
    assert_true(status == TRN_OK || status == TRN_ALREADY_EXISTS);
    r->inserted += !status;
    assert_int_equal(ops->renew(self, owner, 60000, ignore, &calls, NULL), TRN_OK);
    status = ops->take(self, id, 1, owner, true, NULL);
    assert_true(status == TRN_OK || status == TRN_ABORTED);
    r->taken += !status;
  }
  trn_job_store_unref(store);
  return NULL;
}

static void of_racing_connections_one_wins(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  racer racers[RACERS];
  pthread_t threads[RACERS];
  int inserted = 0, taken = 0;
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (racer){s, i, 0, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
  }
  for (int i = 0; i < RACERS; i++) {
    pthread_join(threads[i], NULL);
    inserted += racers[i].inserted;
    taken += racers[i].taken;
  }
  assert_int_equal(inserted, 10);
  assert_int_equal(taken, 10);
}

/* Two schedulers, each with a connection of its own, as on two hosts that share outputs. */
static void two_schedulers_share_it(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  node n, m;
  trn_job *there = NULL, *again = NULL;
  node_open_with(&n, s->folder, open_one(s), NULL);
  node_open_with(&m, s->folder, open_one(s), NULL);
  trn_job *job = submit(&n, "two", "slow 3000");
  assert_int_equal(submit_with(&m, "two", "rows 1", NULL, &again, NULL), TRN_ALREADY_EXISTS);
  assert_int_equal(trn_scheduler_job(m.scheduler, "two", &there, NULL), TRN_OK);
  assert_int_equal(wait_for_end(there), TRN_JOB_SUCCEEDED);
  output_is(there, 3000);
  trn_job_unref(there);
  trn_job_unref(job);
  job = submit(&n, "two-lost", "hang");
  wait_for_state(job, TRN_JOB_RUNNING);
  trn_job_unref(job);
  node_close(&n);
  trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  assert_int_equal(trn_scheduler_recover(m.scheduler, "two-lost", &resubmit, &job, NULL), TRN_OK);
  wait_for_state(job, TRN_JOB_RUNNING);
  assert_int_equal(status_of(job).attempt, 2);
  assert_int_equal(trn_job_cancel(job, NULL), TRN_OK);
  assert_int_equal(wait_for_end(job), TRN_JOB_CANCELLED);
  trn_job_unref(job);
  node_close(&m);
}

static void pages_hold_every_job_once(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  trn_job_store *store = open_one(s);
  OPEN_OPS(store);
  int calls = 0;
  for (int i = 0; i < 30; i++) {
    char id[24];
    snprintf(id, sizeof id, "page-%02d", i);
    trn_job_record r = some_record(id, "o9");
    r.submitted_ms = 5000 + i / 3; /* some at the same time */
    r.session_id = "pages";
    assert_int_equal(ops->insert(self, &r, NULL), TRN_OK);
  }
  trn_job_filter filter = {.struct_size = sizeof filter, .session_id = "pages", .since_ms = 5001, .until_ms = 5009};
  assert_int_equal(ops->list(self, &filter, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(calls, 24);
  filter.tag = some_tags[1];
  filter.states = 1u << TRN_JOB_LOST | 1u << TRN_JOB_FAILED;
  filter.user = "ann";
  filter.name = "a job";
  filter.owner = "o9";
  filter.limit = 7;
  int pages = 0;
  char last[24];
  for (calls = 0;; pages++) {
    int before = calls;
    assert_int_equal(ops->list(self, &filter, ignore, &calls, NULL), TRN_OK);
    if (calls == before) break;
    snprintf(last, sizeof last, "page-%02d", 26 - calls + 1); /* they come newest first */
    filter.after_id = last;
  }
  assert_int_equal(calls, 24);
  assert_int_equal(pages, 4);
  filter = (trn_job_filter){.struct_size = sizeof filter, .tag = "no such tag"};
  calls = 0;
  assert_int_equal(ops->list(self, &filter, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(calls, 0);
  trn_job_store_unref(store);
}

static void a_lost_connection_is_opened_again(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  trn_job_store *store = open_one(s), *other = open_one(s);
  int calls = 0;
  OPEN_OPS(store);
  assert_int_equal(ops->renew(self, "again", 1000, ignore, &calls, NULL), TRN_OK);
  void *other_self;
  trn_job_store_get_ops(other, &other_self);
  void *driver = trn__sql_job_store_driver(other_self);
  assert_int_equal(trn__postgres_end_others(driver), TRN_OK);
  assert_int_equal(ops->renew(self, "again", 1000, ignore, &calls, NULL), TRN_OK);
  trn_job_store_unref(other);
  trn_job_store_unref(store);
}

static void a_server_that_is_not_there_is_unavailable(void **state) {
  stores *s = *state;
  if (!s->folder) skip();
  trn_job_store *store = NULL;
  trn_error *error = NULL;
  trn_status status = trn_postgres_job_store_open("host=/nonexistent user=jobs", &store, &error);
  assert_int_equal(status, TRN_UNAVAILABLE);
  assert_null(store);
  trn_error_unref(error);
}

/* ---- thousands of jobs: counted in steps of SQLite's machine ---- */

static uint64_t steps_of_lists(trn_job_store *store) {
  OPEN_OPS(store);
  int calls = 0;
  trn_job_filter filters[] = {
      {.limit = 20},
      {.limit = 20, .user = "ann"},
      {.limit = 20, .states = 1u << TRN_JOB_QUEUED | 1u << TRN_JOB_RUNNING},
      {.limit = 20, .states = 1u << TRN_JOB_LOST},
      {.limit = 20, .states = 1u << TRN_JOB_FAILED},
      {.limit = 20, .session_id = "s1"},
      {.limit = 20, .name = "a job"},
      {.limit = 20, .after_id = "many-50"},
  };
  uint64_t before = trn__sqlite_job_store_steps(store);
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
    filters[i].struct_size = sizeof *filters;
    assert_int_equal(ops->list(self, &filters[i], ignore, &calls, NULL), TRN_OK);
  }
  assert_int_equal(ops->get(self, "many-10", false, ignore, &calls, NULL), TRN_OK);
  assert_int_equal(ops->renew(self, "many", 60000, ignore, &calls, NULL), TRN_OK);
  return trn__sqlite_job_store_steps(store) - before;
}

static void add_jobs(trn_job_store *store, int from, int to) {
  OPEN_OPS(store);
  for (int i = from; i < to; i++) {
    char id[24];
    snprintf(id, sizeof id, "many-%d", i);
    trn_job_record r = some_record(id, "many");
    r.submitted_ms = i;
    r.tag_count = 0;
    assert_int_equal(ops->insert(self, &r, NULL), TRN_OK);
    r.state = TRN_JOB_SUCCEEDED;
    if (i % 100) assert_int_equal(ops->update(self, &r, NULL), TRN_OK);
  }
}

static void thousands_of_ended_jobs_slow_nothing(void **state) {
  (void)state;
  trn_job_store *store = NULL;
  assert_int_equal(trn_sqlite_job_store_open(NULL, &store, NULL), TRN_OK);
  add_jobs(store, 0, 2100); /* with as many active ones as a page has */
  uint64_t few = steps_of_lists(store);
  OPEN_OPS(store);
  for (int i = 3000; i < 12000; i++) { /* none of these is active */
    char id[24];
    snprintf(id, sizeof id, "many-%d", i);
    trn_job_record r = some_record(id, "many");
    r.submitted_ms = i;
    r.state = TRN_JOB_SUCCEEDED;
    r.tag_count = 0;
    assert_int_equal(ops->insert(self, &r, NULL), TRN_OK);
  }
  uint64_t many = steps_of_lists(store);
  print_message("steps with 2,100 jobs: %llu, with 11,100: %llu\n", (unsigned long long)few, (unsigned long long)many);
  assert_true(many < few + few / 4);
  trn_job_store_unref(store);
}

static void a_file_that_is_no_store_is_refused(void **state) {
  (void)state;
  char *folder = make_folder_for_test(), *path = in_folder(folder, "x");
  trn_job_store *store = NULL;
  trn_error *error = NULL;
  FILE *file = fopen(path, "w");
  fputs("this is no database, but long enough to look like the beginning of a file of some kind, or is it not? It is.",
        file);
  fclose(file);
  assert_int_equal(trn_sqlite_job_store_open(path, &store, &error), TRN_DATA_LOSS);
  trn_error_unref(error);
  error = NULL;
  assert_int_equal(trn_sqlite_job_store_open("/nonexistent/x", &store, &error), TRN_PERMISSION_DENIED);
  trn_error_unref(error);
  free(path);
  remove_folder_of_test(folder);
}

int main(void) {
  const struct CMUnitTest both[] = {
      cmocka_unit_test(what_is_written_is_read),        cmocka_unit_test(owners_are_fenced),
      cmocka_unit_test(of_racing_connections_one_wins), cmocka_unit_test(two_schedulers_share_it),
      cmocka_unit_test(pages_hold_every_job_once),
  };
  const struct CMUnitTest postgres[] = {
      cmocka_unit_test(a_lost_connection_is_opened_again),
      cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
  };
  const struct CMUnitTest sqlite[] = {
      cmocka_unit_test(thousands_of_ended_jobs_slow_nothing),
      cmocka_unit_test(a_file_that_is_no_store_is_refused),
  };
  int failed = cmocka_run_group_tests_name("SQLite", both, sqlite_setup, teardown);
  failed += cmocka_run_group_tests_name("SQLite alone", sqlite, NULL, NULL);
  struct CMUnitTest all[sizeof both / sizeof *both + sizeof postgres / sizeof *postgres];
  memcpy(all, both, sizeof both);
  memcpy((char *)all + sizeof both, postgres, sizeof postgres);
  return failed + cmocka_run_group_tests_name("PostgreSQL", all, postgres_setup, teardown);
}
