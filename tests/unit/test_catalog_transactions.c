/* Transactions of sessions over a warehouse: all or nothing, one snapshot, savepoints, nobody waits who only reads. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <trunnion/catalog.h>
#include <unistd.h>

#include "arrow/arrow_util.h"
#include "backend/scripted/scripted.h"
#include "catalog/warehouse.h"
#include "core/query.h"

typedef struct fixture {
  char directory[64];
  trn_catalog *catalog;
  trn_scripted *scripted;
  trn_backend *backend;
  struct ArrowSchema schema;
  bool in_memory;
} fixture;

static int open_fixture(void **state, bool in_memory) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  f->in_memory = in_memory;
  snprintf(f->directory, sizeof f->directory, "/tmp/test_transactions.XXXXXX");
  if (!mkdtemp(f->directory)) return -1;
  const trn_warehouse_options options = {
      .struct_size = sizeof options, .directory = in_memory ? NULL : f->directory, .lock_ms = 300};
  if (trn_warehouse_open(&options, &f->catalog, NULL)) return -1;
  if (trn__scripted_create(TRN_SCRIPTED_ARRAYS, &f->scripted, &f->backend)) return -1;
  if (trn_backend_add_catalog(f->backend, f->catalog)) return -1;
  if (trn__schema_init(&f->schema, "+s", "", 0, NULL, 0, 1)) return -1;
  return trn__schema_init(f->schema.children[0], "l", "a", ARROW_FLAG_NULLABLE, NULL, 0, 0) ? -1 : 0;
}
static int set_up(void **state) { return open_fixture(state, false); }
static int set_up_memory(void **state) { return open_fixture(state, true); }

static int tear_down(void **state) {
  fixture *f = *state;
  trn_backend_unref(f->backend);
  trn__scripted_unref(f->scripted);
  trn_catalog_unref(f->catalog);
  f->schema.release(&f->schema);
  trn__remove_all(f->directory);
  free(f);
  return 0;
}

static trn_session *session(fixture *f) {
  trn_session *made = NULL;
  assert_int_equal(trn_session_open(f->backend, NULL, &made, NULL), TRN_OK);
  return made;
}

static trn_session *beginning(fixture *f) {
  trn_session *made = session(f);
  assert_int_equal(trn_transaction_begin(made, NULL), TRN_OK);
  return made;
}

static trn_status create(fixture *f, trn_session *in, const char *name) {
  const trn_table_info info = {.struct_size = sizeof info, .database = "default", .name = name, .schema = &f->schema,
                               .format = "json", .row_count = -1, .byte_count = -1};
  return trn_catalog_create_table(f->catalog, in, &info, false, NULL);
}

/* Adds a file, as a write of the engine does. */
static trn_status append(fixture *f, trn_session *in, const char *name) {
  const trn_write_request request = {.struct_size = sizeof request, .database = "default", .name = name, .mode = TRN_WRITE_APPEND};
  trn_table_write *write = NULL;
  char path[512];
  trn_status status = trn_catalog_begin_write(f->catalog, in, &request, &write, NULL);
  if (status) return status;
  snprintf(path, sizeof path, "%s/0", trn_table_write_target(write)->directory);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/0/data.json", trn_table_write_target(write)->directory);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("{\"a\":1}\n", file);
  fclose(file);
  return trn_table_write_commit(write, 1, NULL);
}

/* Files of a table as a session sees it, all of them readable; -1: it is not there. */
static int files_of(fixture *f, trn_session *in, const char *name, uint64_t *version) {
  trn_table *table = NULL;
  const trn_table_file *files;
  size_t count = 0;
  trn_status status = trn_catalog_get_table(f->catalog, in, "default", name, &table, NULL);
  if (status == TRN_NOT_FOUND) return -1;
  assert_int_equal(status, TRN_OK);
  assert_true(trn_table_files(table, &files, &count));
  for (size_t i = 0; i < count; i++) assert_int_equal(access(files[i].path, R_OK), 0);
  if (version) *version = trn_table_get_info(table)->version;
  trn_table_unref(table);
  return (int)count;
}

/* Directories of transactions below the warehouse. */
static size_t transactions_on_disk(const fixture *f) {
  DIR *stream = opendir(f->directory);
  size_t count = 0;
  for (struct dirent *e; stream && (e = readdir(stream));) count += strncmp(e->d_name, "_t-", 3) == 0;
  if (stream) closedir(stream);
  return count;
}

/* ---- one session ---- */

static void others_see_nothing_before_the_commit_and_all_after_it(void **state) {
  fixture *f = *state;
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "a"), TRN_OK);
  assert_int_equal(create(f, own, "b"), TRN_OK);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(append(f, own, "b"), TRN_OK);
  assert_int_equal(append(f, own, "b"), TRN_OK);
  assert_int_equal(files_of(f, own, "b", NULL), 2);
  assert_int_equal(files_of(f, NULL, "a", NULL), -1);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(files_of(f, NULL, "a", NULL), 1);
  assert_int_equal(files_of(f, NULL, "b", NULL), 2);
  assert_int_equal(files_of(f, own, "b", NULL), 2);
  trn_session_unref(own);
  assert_int_equal(files_of(f, NULL, "b", NULL), 2);
}

static void a_write_that_outlives_its_transaction_leaves_the_turn_to_others(void **state) {
  fixture *f = *state;
  assert_int_equal(create(f, NULL, "a"), TRN_OK);
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "b"), TRN_OK);
  const trn_write_request request = {.struct_size = sizeof request, .database = "default", .name = "a", .mode = TRN_WRITE_APPEND};
  trn_table_write *write = NULL;
  assert_int_equal(trn_catalog_begin_write(f->catalog, own, &request, &write, NULL), TRN_OK);
  assert_int_equal(trn_transaction_end(own, false, NULL), TRN_OK);
  char above[512];
  const char *directory = trn_table_write_target(write)->directory;
  snprintf(above, sizeof above, "%.*s", (int)(strrchr(directory, '/') - directory), directory);
  mkdir(above, 0777), mkdir(directory, 0777); /* the engine writes on */
  assert_int_equal(trn_table_write_commit(write, 1, NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(append(f, NULL, "a"), TRN_OK);
  assert_int_equal(files_of(f, NULL, "a", NULL), 1);
  trn_session_unref(own);
}

static void a_session_that_is_one_transaction_writes_nothing_after_it(void **state) {
  fixture *f = *state;
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "a"), TRN_OK);
  trn__session_seal_transaction(own, true);
  assert_int_equal(create(f, own, "b"), TRN_OK); /* in it */
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(create(f, own, "c"), TRN_ABORTED);
  assert_int_equal(append(f, own, "a"), TRN_ABORTED);
  assert_int_equal(files_of(f, own, "a", NULL), 0);
  assert_int_equal(files_of(f, NULL, "c", NULL), -1);
  assert_int_equal(append(f, NULL, "a"), TRN_OK);
  assert_int_equal(trn_transaction_begin(own, NULL), TRN_OK);
  trn__session_seal_transaction(own, false);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(create(f, own, "c"), TRN_OK);
  trn_session_unref(own);
}

static void a_rollback_leaves_nothing(void **state) {
  fixture *f = *state;
  assert_int_equal(create(f, NULL, "a"), TRN_OK);
  assert_int_equal(append(f, NULL, "a"), TRN_OK);
  trn_session *own = beginning(f);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(create(f, own, "b"), TRN_OK);
  assert_int_equal(append(f, own, "b"), TRN_OK);
  if (!f->in_memory) assert_int_equal(transactions_on_disk(f), 1);
  assert_int_equal(trn_transaction_end(own, false, NULL), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), 1);
  assert_int_equal(files_of(f, own, "b", NULL), -1);
  assert_int_equal(transactions_on_disk(f), 0);
  trn_session_unref(own);
}

static void a_session_that_goes_rolls_back(void **state) {
  fixture *f = *state;
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "a"), TRN_OK);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  trn_session_unref(own);
  assert_int_equal(files_of(f, NULL, "a", NULL), -1);
  assert_int_equal(transactions_on_disk(f), 0);
  assert_int_equal(create(f, NULL, "a"), TRN_OK); /* and others may write */
}

static void begin_and_end_come_in_pairs(void **state) {
  fixture *f = *state;
  trn_session *own = session(f);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_SET, "s", NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(trn_transaction_begin(own, NULL), TRN_OK);
  assert_int_equal(trn_transaction_begin(own, NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(trn_transaction_begin(own, NULL), TRN_OK);
  assert_int_equal(trn_transaction_end(own, false, NULL), TRN_OK);
  trn_session_unref(own);
}

static void savepoints_take_back_what_came_after_them(void **state) {
  fixture *f = *state;
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_SET, "one", NULL), TRN_OK);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_SET, "two \"x\"", NULL), TRN_OK);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_ROLLBACK, "two \"x\"", NULL), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), 1);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_ROLLBACK, "one", NULL), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), 0);
  assert_true(trn_transaction_savepoint(own, TRN_SAVEPOINT_ROLLBACK, "two \"x\"", NULL) != TRN_OK); /* gone with it */
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_RELEASE, "one", NULL), TRN_OK);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(files_of(f, NULL, "a", NULL), 1);
  trn_session_unref(own);
}

static void a_statement_that_fails_takes_back_itself_only(void **state) {
  fixture *f = *state;
  trn_session *own = beginning(f);
  assert_int_equal(create(f, own, "a"), TRN_OK);
  assert_int_equal(create(f, own, "a"), TRN_ALREADY_EXISTS);
  assert_int_equal(append(f, own, "nowhere"), TRN_NOT_FOUND);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(files_of(f, NULL, "a", NULL), 1);
  trn_session_unref(own);
}

/* ---- several ---- */

static void it_reads_the_snapshot_of_its_first_statement(void **state) {
  fixture *f = *state;
  trn_error *error = NULL;
  assert_int_equal(create(f, NULL, "a"), TRN_OK);
  trn_session *own = beginning(f);
  assert_int_equal(append(f, NULL, "a"), TRN_OK); /* it has not read anything yet */
  assert_int_equal(files_of(f, own, "a", NULL), 1);
  assert_int_equal(append(f, NULL, "a"), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), 1);
  assert_int_equal(trn_catalog_drop_table(f->catalog, NULL, "default", "a", false, NULL), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), 1); /* with its files */
  const trn_table_info info = {.struct_size = sizeof info, .database = "default", .name = "b", .schema = &f->schema, .format = "json"};
  assert_int_equal(trn_catalog_create_table(f->catalog, own, &info, false, &error), TRN_ABORTED);
  assert_non_null(strstr(trn_error_message(error), "begin it again"));
  trn_error_unref(error);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(files_of(f, own, "a", NULL), -1);
  trn_session_unref(own);
}

static void who_writes_waits_for_a_while_and_who_reads_does_not(void **state) {
  fixture *f = *state;
  assert_int_equal(create(f, NULL, "a"), TRN_OK);
  trn_session *own = beginning(f), *other = beginning(f);
  assert_int_equal(append(f, own, "a"), TRN_OK);
  assert_int_equal(create(f, NULL, "b"), TRN_UNAVAILABLE); /* after lock_ms */
  assert_int_equal(append(f, other, "a"), TRN_UNAVAILABLE);
  assert_int_equal(files_of(f, NULL, "a", NULL), 0);
  assert_int_equal(files_of(f, other, "a", NULL), 0);
  assert_int_equal(trn_transaction_end(own, true, NULL), TRN_OK);
  assert_int_equal(create(f, NULL, "b"), TRN_OK);
  trn_session_unref(own);
  trn_session_unref(other);
}

static void a_version_that_was_seen_never_means_other_rows(void **state) {
  fixture *f = *state;
  uint64_t seen[8], now = 0;
  size_t count = 0;
  assert_int_equal(create(f, NULL, "a"), TRN_OK);
  for (int i = 0; i < 3; i++) {
    trn_session *own = beginning(f);
    assert_int_equal(append(f, own, "a"), TRN_OK);
    assert_int_equal(files_of(f, own, "a", &seen[count++]), i + 1);
    assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_SET, "s", NULL), TRN_OK);
    assert_int_equal(append(f, own, "a"), TRN_OK);
    assert_int_equal(files_of(f, own, "a", &seen[count++]), i + 2);
    assert_int_equal(trn_transaction_savepoint(own, TRN_SAVEPOINT_ROLLBACK, "s", NULL), TRN_OK);
    assert_int_equal(append(f, own, "a"), TRN_OK);
    assert_int_equal(files_of(f, own, "a", &now), i + 2);
    for (size_t j = 0; j < count; j++) assert_true(now > seen[j]);
    assert_int_equal(trn_transaction_end(own, false, NULL), TRN_OK);
    trn_session_unref(own);
    seen[count - 1] = now;
    assert_int_equal(append(f, NULL, "a"), TRN_OK);
    assert_int_equal(files_of(f, NULL, "a", &now), i + 1);
    for (size_t j = 0; j < count; j++) assert_true(now > seen[j]);
  }
}

static void too_many_transactions_are_refused_by_name(void **state) {
  fixture *f = *state;
  trn_session *sessions[TRN_WAREHOUSE_TRANSACTIONS_MAX + 1];
  trn_error *error = NULL;
  for (unsigned i = 0; i < TRN_WAREHOUSE_TRANSACTIONS_MAX; i++) sessions[i] = beginning(f);
  trn_session *last = sessions[TRN_WAREHOUSE_TRANSACTIONS_MAX] = session(f);
  assert_int_equal(trn_transaction_begin(last, &error), TRN_RESOURCE_EXHAUSTED);
  assert_non_null(strstr(trn_error_message(error), "TRN_WAREHOUSE_TRANSACTIONS_MAX"));
  trn_error_unref(error);
  assert_int_equal(trn_transaction_end(sessions[7], true, NULL), TRN_OK);
  assert_int_equal(trn_transaction_begin(last, NULL), TRN_OK);
  for (unsigned i = 0; i <= TRN_WAREHOUSE_TRANSACTIONS_MAX; i++) trn_session_unref(sessions[i]);
}

/* ---- many at once: two tables always have as many files ---- */

enum { STORM_THREADS = 4, STORM_COMMITS = 12 };

typedef struct storm {
  fixture *f;
  atomic_int committed, writers;
} storm;

static void *writer(void *argument) {
  storm *s = argument;
  for (int done = 0; done < STORM_COMMITS;) {
    trn_session *own = beginning(s->f);
    trn_status status = append(s->f, own, "a");
    if (!status) status = append(s->f, own, "b");
    bool is_commit = !status && rand() % 4 != 0;
    trn_status ended = trn_transaction_end(own, is_commit, NULL);
    if (is_commit && !ended) {
      done++;
      atomic_fetch_add(&s->committed, 1);
    }
    trn_session_unref(own);
  }
  atomic_fetch_sub(&s->writers, 1);
  return NULL;
}

static void *reader(void *argument) {
  storm *s = argument;
  while (atomic_load(&s->writers)) {
    trn_session *own = beginning(s->f);
    int a = files_of(s->f, own, "a", NULL), b = files_of(s->f, own, "b", NULL);
    if (a != b) return "two tables of one commit differ";
    trn_transaction_end(own, true, NULL);
    trn_session_unref(own);
  }
  return NULL;
}

static void what_belongs_together_is_never_seen_apart(void **state) {
  storm s = {.f = *state, .writers = STORM_THREADS};
  pthread_t threads[STORM_THREADS + 2];
  assert_int_equal(create(s.f, NULL, "a"), TRN_OK);
  assert_int_equal(create(s.f, NULL, "b"), TRN_OK);
  for (size_t i = 0; i < STORM_THREADS + 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, i < STORM_THREADS ? writer : reader, &s), 0);
  for (size_t i = 0; i < STORM_THREADS + 2; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) fail_msg("%s", (char *)wrong);
  }
  assert_int_equal(atomic_load(&s.committed), STORM_THREADS * STORM_COMMITS);
  assert_int_equal(files_of(s.f, NULL, "a", NULL), STORM_THREADS * STORM_COMMITS);
  assert_int_equal(files_of(s.f, NULL, "b", NULL), STORM_THREADS * STORM_COMMITS);
}

int main(void) {
#define BOTH(name)                                                                                                     \
  cmocka_unit_test_setup_teardown(name, set_up, tear_down), cmocka_unit_test_setup_teardown(name, set_up_memory, tear_down)
  const struct CMUnitTest tests[] = {
      BOTH(others_see_nothing_before_the_commit_and_all_after_it),
      BOTH(a_session_that_is_one_transaction_writes_nothing_after_it),
      BOTH(a_rollback_leaves_nothing),
      BOTH(a_write_that_outlives_its_transaction_leaves_the_turn_to_others),
      BOTH(a_session_that_goes_rolls_back),
      BOTH(begin_and_end_come_in_pairs),
      BOTH(savepoints_take_back_what_came_after_them),
      BOTH(a_statement_that_fails_takes_back_itself_only),
      BOTH(it_reads_the_snapshot_of_its_first_statement),
      BOTH(who_writes_waits_for_a_while_and_who_reads_does_not),
      BOTH(a_version_that_was_seen_never_means_other_rows),
      cmocka_unit_test_setup_teardown(too_many_transactions_are_refused_by_name, set_up, tear_down),
      BOTH(what_belongs_together_is_never_seen_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
