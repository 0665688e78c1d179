/* The warehouse: what is committed is there, what is not is nowhere, snapshots keep their files. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trunnion/catalog.h>
#include <unistd.h>

#include "arrow/arrow_util.h"
#include "catalog/warehouse.h"

static char directory[64];

static int setup(void **state) {
  (void)state;
  snprintf(directory, sizeof directory, "/tmp/test_catalog.XXXXXX");
  return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  trn__remove_all(directory);
  return 0;
}

static trn_catalog *open_warehouse(void) {
  const trn_warehouse_options options = {.struct_size = sizeof options, .directory = directory};
  trn_catalog *catalog = NULL;
  trn_error *error = NULL;
  trn_status status = trn_warehouse_open(&options, &catalog, &error);
  if (status) fail_msg("%s", error ? trn_error_message(error) : "no message");
  return catalog;
}

static void make_schema(struct ArrowSchema *out) {
  const trn_kv comment = {TRN_COLUMN_COMMENT, "the key"};
  assert_int_equal(trn__schema_init(out, "+s", "", 0, NULL, 0, 2), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[0], "l", "a", ARROW_FLAG_NULLABLE, &comment, 1, 0), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[1], "u", "p", ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
}

static const char *const partition_columns[] = {"p"};

static trn_table_info table_named(const char *name, const struct ArrowSchema *schema) {
  return (trn_table_info){.struct_size = sizeof(trn_table_info),
                          .database = "default",
                          .name = name,
                          .schema = schema,
                          .format = "json",
                          .partition_columns = partition_columns,
                          .partition_column_count = 1,
                          .row_count = -1,
                          .byte_count = -1};
}

static void create_table(trn_catalog *catalog, const char *name) {
  struct ArrowSchema schema;
  make_schema(&schema);
  const trn_table_info info = table_named(name, &schema);
  assert_int_equal(trn_catalog_create_table(catalog, NULL, &info, false, NULL), TRN_OK);
  schema.release(&schema);
}

/* What the engine does: a file of a partition. */
static void put_file(const trn_table_write *write, const char *partition, const char *text) {
  const trn_write_target *target = trn_table_write_target(write);
  char path[512];
  snprintf(path, sizeof path, "%s/0", target->directory);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/0/x=%s", target->directory, partition);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/0/x=%s/data.json", target->directory, partition);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static trn_table_write *begin(trn_catalog *catalog, const char *name, trn_write_mode mode) {
  const trn_write_request request = {
      .struct_size = sizeof request, .database = "default", .name = name, .mode = mode};
  trn_table_write *write = NULL;
  trn_error *error = NULL;
  if (trn_catalog_begin_write(catalog, NULL, &request, &write, &error)) fail_msg("%s", trn_error_message(error));
  return write;
}

static void append(trn_catalog *catalog, const char *name, const char *partition, trn_write_mode mode) {
  trn_table_write *write = begin(catalog, name, mode);
  put_file(write, partition, "{\"a\":1}\n");
  assert_int_equal(trn_table_write_commit(write, 1, NULL), TRN_OK);
}

static trn_table *get(trn_catalog *catalog, const char *name) {
  trn_table *table = NULL;
  assert_int_equal(trn_catalog_get_table(catalog, NULL, "default", name, &table, NULL), TRN_OK);
  return table;
}

static size_t file_count(const trn_table *table) {
  const trn_table_file *files;
  size_t count;
  assert_true(trn_table_files(table, &files, &count));
  for (size_t i = 0; i < count; i++) assert_int_equal(access(files[i].path, R_OK), 0);
  return count;
}

static size_t files_of(trn_catalog *catalog, const char *name) {
  trn_table *table = get(catalog, name);
  size_t count = file_count(table);
  trn_table_unref(table);
  return count;
}

/* Files below a directory, whatever they are called. */
static size_t count_below(const char *path, const char *ending) {
  DIR *stream = opendir(path);
  size_t count = 0;
  for (struct dirent *e; stream && (e = readdir(stream));) {
    char below[512];
    size_t size = strlen(e->d_name);
    if (e->d_name[0] == '.') continue;
    snprintf(below, sizeof below, "%s/%s", path, e->d_name);
    if (e->d_type == DT_DIR)
      count += count_below(below, ending);
    else if (size > strlen(ending) && strcmp(e->d_name + size - strlen(ending), ending) == 0)
      count++;
  }
  if (stream) closedir(stream);
  return count;
}

static void count_partition(void *user, const trn_partition_info *partition) {
  (void)partition;
  ++*(size_t *)user;
}

/* ---- definitions ---- */

static void what_was_created_is_there_after_a_restart(void **state) {
  (void)state;
  struct ArrowSchema schema;
  make_schema(&schema);
  trn_kv properties[] = {{"k", "v"}, {"empty", ""}};
  const char *const keys[] = {"a"};
  const trn_constraint constraint = {.kind = TRN_CONSTRAINT_PRIMARY_KEY, .columns = keys, .column_count = 1};
  trn_table_info info = table_named("t", &schema);
  info.comment = "a table", info.properties = properties, info.property_count = 2;
  info.constraints = &constraint, info.constraint_count = 1;
  trn_catalog *catalog = open_warehouse();
  assert_int_equal(trn_catalog_create_table(catalog, NULL, &info, false, NULL), TRN_OK);
  trn_error *error = NULL;
  assert_int_equal(trn_catalog_create_table(catalog, NULL, &info, false, &error), TRN_ALREADY_EXISTS);
  assert_string_equal(trn_error_condition(error), "TABLE_OR_VIEW_ALREADY_EXISTS");
  trn_error_unref(error);
  trn_catalog_unref(catalog);
  schema.release(&schema);
  catalog = open_warehouse();
  trn_table *table = get(catalog, "t");
  const trn_table_info *found = trn_table_get_info(table);
  size_t size = 0;
  assert_string_equal(found->comment, "a table");
  assert_int_equal(found->property_count, 2);
  assert_string_equal(found->properties[1].value, "");
  assert_int_equal(found->schema->n_children, 2);
  assert_string_equal(found->schema->children[0]->name, "a");
  assert_memory_equal(trn__schema_metadata(found->schema->children[0], TRN_COLUMN_COMMENT, &size), "the key", 7);
  assert_string_equal(found->partition_columns[0], "p");
  assert_string_equal(found->constraints[0].columns[0], "a");
  assert_true(strncmp(found->location, directory, strlen(directory)) == 0);
  trn_table_unref(table);
  trn_catalog_unref(catalog);
}

static void a_database_with_tables_is_dropped_only_by_cascade(void **state) {
  (void)state;
  struct ArrowSchema schema;
  trn_catalog *catalog = open_warehouse();
  const trn_database_info database = {.struct_size = sizeof database, .name = "d"};
  assert_int_equal(trn_catalog_create_database(catalog, NULL, &database, NULL), TRN_OK);
  assert_int_equal(trn_catalog_create_database(catalog, NULL, &database, NULL), TRN_ALREADY_EXISTS);
  make_schema(&schema);
  trn_table_info info = table_named("t", &schema);
  info.database = "nowhere";
  trn_error *error = NULL;
  assert_int_equal(trn_catalog_create_table(catalog, NULL, &info, false, &error), TRN_NOT_FOUND);
  assert_string_equal(trn_error_condition(error), "SCHEMA_NOT_FOUND");
  trn_error_unref(error);
  info.database = "d";
  assert_int_equal(trn_catalog_create_table(catalog, NULL, &info, false, NULL), TRN_OK);
  assert_int_equal(trn_catalog_drop_database(catalog, NULL, "d", false, NULL), TRN_FAILED_PRECONDITION);
  assert_int_equal(trn_catalog_drop_database(catalog, NULL, "d", true, NULL), TRN_OK);
  assert_int_equal(trn_catalog_drop_database(catalog, NULL, "d", true, NULL), TRN_NOT_FOUND);
  schema.release(&schema);
  trn_catalog_unref(catalog);
}

static void a_rename_keeps_rows_and_identity(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  trn_table *before = get(catalog, "t");
  assert_int_equal(trn_catalog_rename_table(catalog, NULL, "default", "t", "default", "u", NULL), TRN_OK);
  trn_table *after = get(catalog, "u");
  assert_string_equal(trn_table_get_info(before)->identity, trn_table_get_info(after)->identity);
  assert_int_equal(file_count(after), 1);
  create_table(catalog, "t");
  assert_int_equal(files_of(catalog, "t"), 0);
  trn_table_unref(before), trn_table_unref(after);
  assert_int_equal(trn_catalog_rename_table(catalog, NULL, "default", "t", "default", "u", NULL), TRN_ALREADY_EXISTS);
  trn_catalog_unref(catalog);
}

static void an_alteration_of_an_old_version_is_refused(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  trn_table *table = get(catalog, "t");
  trn_table_info info = *trn_table_get_info(table);
  info.comment = "new";
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  assert_int_equal(trn_catalog_alter_table(catalog, NULL, &info, info.version, NULL), TRN_ABORTED);
  assert_int_equal(trn_catalog_alter_table(catalog, NULL, &info, 0, NULL), TRN_OK);
  trn_table_unref(table);
  table = get(catalog, "t");
  assert_string_equal(trn_table_get_info(table)->comment, "new");
  assert_int_equal(file_count(table), 1);
  trn_table_unref(table);
  trn_catalog_unref(catalog);
}

/* ---- rows ---- */

static void a_snapshot_keeps_its_files(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  trn_table *old = get(catalog, "t");
  append(catalog, "t", "2", TRN_WRITE_OVERWRITE);
  assert_int_equal(file_count(old), 1); /* and it can be read */
  assert_int_equal(count_below(directory, ".json"), 2);
  trn_table *new = get(catalog, "t");
  assert_true(trn_table_get_info(new)->version > trn_table_get_info(old)->version);
  trn_table_unref(new);
  trn_table_unref(old);
  assert_int_equal(trn_catalog_drop_table(catalog, NULL, "default", "t", false, NULL), TRN_OK);
  assert_int_equal(count_below(directory, ".json"), 0);
  trn_catalog_unref(catalog);
}

static void a_snapshot_of_another_process_keeps_its_files(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse(), *other = open_warehouse();
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  trn_table *old = get(other, "t");
  append(catalog, "t", "2", TRN_WRITE_OVERWRITE);
  append(catalog, "t", "3", TRN_WRITE_OVERWRITE);
  assert_int_equal(file_count(old), 1);
  trn_table_unref(old);
  append(catalog, "t", "3", TRN_WRITE_OVERWRITE);
  assert_int_equal(count_below(directory, ".json"), 1);
  trn_catalog_unref(other);
  trn_catalog_unref(catalog);
}

static void partitions_are_replaced_one_by_one(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  size_t count = 0;
  const trn_kv one = {"p", "1"}, odd = {"p", "a/b=c"};
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  append(catalog, "t", "a%2Fb%3Dc", TRN_WRITE_APPEND);
  assert_int_equal(files_of(catalog, "t"), 3);
  append(catalog, "t", "1", TRN_WRITE_OVERWRITE_PARTITIONS);
  assert_int_equal(files_of(catalog, "t"), 2);
  assert_int_equal(trn_catalog_list_partitions(catalog, NULL, "default", "t", NULL, 0, count_partition, &count, NULL), TRN_OK);
  assert_int_equal(count, 2);
  count = 0;
  assert_int_equal(trn_catalog_list_partitions(catalog, NULL, "default", "t", &odd, 1, count_partition, &count, NULL), TRN_OK);
  assert_int_equal(count, 1);
  assert_int_equal(trn_catalog_truncate_table(catalog, NULL, "default", "t", &one, 1, NULL), TRN_OK);
  assert_int_equal(files_of(catalog, "t"), 1);
  assert_int_equal(trn_catalog_drop_partitions(catalog, NULL, "default", "t", &odd, 1, false, NULL), TRN_OK);
  assert_int_equal(trn_catalog_drop_partitions(catalog, NULL, "default", "t", &odd, 1, false, NULL), TRN_NOT_FOUND);
  assert_int_equal(files_of(catalog, "t"), 0);
  trn_catalog_unref(catalog);
}

static void an_aborted_write_leaves_nothing(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  trn_table_write *write = begin(catalog, "t", TRN_WRITE_APPEND);
  put_file(write, "1", "{}");
  trn_table_write_abort(write);
  assert_int_equal(files_of(catalog, "t"), 0);
  assert_int_equal(count_below(directory, ".json"), 0);
  trn_catalog_unref(catalog);
}

static void a_table_that_changed_meanwhile_takes_no_rows(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  trn_table_write *write = begin(catalog, "t", TRN_WRITE_APPEND);
  put_file(write, "1", "{}");
  assert_int_equal(trn_catalog_drop_table(catalog, NULL, "default", "t", false, NULL), TRN_OK);
  create_table(catalog, "t");
  assert_int_equal(trn_table_write_commit(write, 1, NULL), TRN_ABORTED);
  assert_int_equal(files_of(catalog, "t"), 0);
  assert_int_equal(count_below(directory, ".json"), 0);
  trn_catalog_unref(catalog);
}

static void a_catalog_in_memory_cleans_up(void **state) {
  (void)state;
  const trn_warehouse_options options = {.struct_size = sizeof options};
  trn_catalog *catalog = NULL;
  char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
  setenv("TMPDIR", directory, 1);
  assert_int_equal(trn_warehouse_open(&options, &catalog, NULL), TRN_OK);
  assert_string_equal(trn_catalog_name(catalog), TRN_DEFAULT_CATALOG);
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  assert_int_equal(files_of(catalog, "t"), 1);
  assert_int_equal(count_below(directory, ".json"), 1);
  trn_catalog_unref(catalog);
  assert_int_equal(count_below(directory, ""), 0);
  if (before) setenv("TMPDIR", before, 1);
  else unsetenv("TMPDIR");
  free(before);
}

/* ---- processes that die ---- */

static void wait_for(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_killed_writer_leaves_no_half_table(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  trn_catalog_unref(catalog);
  for (int point = 0; point < 3; point++) {
    pid_t child = fork();
    if (child == 0) {
      catalog = open_warehouse();
      if (point == 0) raise(SIGKILL);
      trn_table_write *write = begin(catalog, "t", TRN_WRITE_OVERWRITE);
      if (point == 1) raise(SIGKILL);
      put_file(write, "2", "{\"a\":2}\n");
      raise(SIGKILL);
    }
    wait_for(child);
    if (point == 2) assert_int_equal(count_below(directory, ".json"), 2); /* until somebody sweeps */
    catalog = open_warehouse();
    assert_int_equal(files_of(catalog, "t"), 1);
    assert_int_equal(count_below(directory, ".json"), 1);
    trn_catalog_unref(catalog);
  }
}

/* Kills at any moment: whatever the child's last commit was, the table is whole. */
static void a_writer_killed_at_any_time_leaves_whole_commits(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  for (int i = 0; i < 20; i++) {
    size_t before = files_of(catalog, "t");
    pid_t child = fork();
    if (child == 0) {
      trn_catalog *own = open_warehouse();
      for (;;) {
        trn_table_write *write = begin(own, "t", TRN_WRITE_APPEND);
        put_file(write, "1", "{\"a\":1}\n");
        put_file(write, "2", "{\"a\":2}\n");
        trn_table_write_commit(write, 2, NULL);
      }
    }
    usleep(3000 + 2500 * (useconds_t)i);
    kill(child, SIGKILL);
    wait_for(child);
    size_t after = files_of(catalog, "t");
    assert_true(after >= before && (after - before) % 2 == 0);
  }
  trn_catalog_unref(catalog);
  catalog = open_warehouse(); /* leftovers are gone: all that is there is listed */
  assert_int_equal(count_below(directory, ".json"), files_of(catalog, "t"));
  trn_catalog_unref(catalog);
}

static void two_processes_write_one_table(void **state) {
  (void)state;
  enum { WRITERS = 3, WRITES = 15 };
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  pid_t children[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    if ((children[i] = fork())) continue;
    trn_catalog *own = open_warehouse();
    int failures = 0;
    for (int k = 0; k < WRITES; k++) {
      trn_table_write *write = begin(own, "t", TRN_WRITE_APPEND);
      put_file(write, "1", "{\"a\":1}\n");
      failures += trn_table_write_commit(write, 1, NULL) != TRN_OK;
    }
    trn_catalog_unref(own);
    _exit(failures);
  }
  for (int i = 0; i < WRITERS; i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  assert_int_equal(files_of(catalog, "t"), WRITERS * WRITES);
  trn_catalog_unref(catalog);
}

/* Files may grow no further: as on a full disk, the commit fails, and what was there stays. */
static void a_full_disk_loses_nothing(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "t");
  append(catalog, "t", "1", TRN_WRITE_APPEND);
  trn_catalog_unref(catalog);
  pid_t child = fork();
  if (child == 0) {
    struct stat info;
    char path[128];
    signal(SIGXFSZ, SIG_IGN);
    catalog = open_warehouse();
    snprintf(path, sizeof path, "%s/catalog.sqlite-wal", directory);
    trn_table_write *write = begin(catalog, "t", TRN_WRITE_OVERWRITE);
    put_file(write, "2", "{\"a\":2}\n");
    rlim_t limit = stat(path, &info) == 0 ? (rlim_t)info.st_size : 0;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY});
    trn_error *error = NULL;
    trn_status status = trn_table_write_commit(write, 1, &error);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    if (status != TRN_RESOURCE_EXHAUSTED) _exit(1);
    if (files_of(catalog, "t") != 1) _exit(2);
    append(catalog, "t", "3", TRN_WRITE_APPEND); /* and it goes on when there is room */
    trn_catalog_unref(catalog);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  catalog = open_warehouse();
  assert_int_equal(files_of(catalog, "t"), 2);
  assert_int_equal(count_below(directory, ".json"), 2);
  trn_catalog_unref(catalog);
}

/* ---- bad input ---- */

static void damaged_definitions_are_refused(void **state) {
  (void)state;
  struct ArrowSchema schema;
  make_schema(&schema);
  trn_table_info info = table_named("t", &schema), out = {0};
  trn_strbuf bytes = {0};
  trn__definition_encode(&bytes, &info);
  assert_false(bytes.failed);
  for (size_t size = 0; size < bytes.size; size++) { /* cut anywhere */
    trn_arena *arena = trn__arena_create(0);
    assert_int_equal(trn__definition_decode(arena, bytes.data, size, &out, NULL), TRN_DATA_LOSS);
    trn__arena_unref(arena);
  }
  for (size_t i = 0; i < bytes.size; i++) { /* a byte changed: an error or another definition, no crash */
    trn_arena *arena = trn__arena_create(0);
    bytes.data[i] ^= 0x55;
    trn__definition_decode(arena, bytes.data, bytes.size, &out, NULL);
    bytes.data[i] ^= 0x55;
    trn__arena_unref(arena);
  }
  trn__strbuf_finish(&bytes);
  schema.release(&schema);
}

static void a_file_that_is_no_database_is_refused(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/catalog.sqlite", directory);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 5000; i++) fputs("no database ", file);
  fclose(file);
  const trn_warehouse_options options = {.struct_size = sizeof options, .directory = directory};
  trn_catalog *catalog = NULL;
  assert_int_equal(trn_warehouse_open(&options, &catalog, NULL), TRN_DATA_LOSS);
  assert_null(catalog);
}

static void names_stay_inside_of_the_warehouse(void **state) {
  (void)state;
  trn_catalog *catalog = open_warehouse();
  create_table(catalog, "../../out");
  append(catalog, "../../out", "..%2Fx", TRN_WRITE_APPEND);
  trn_table *table = get(catalog, "../../out");
  const trn_table_file *files;
  size_t count;
  assert_true(trn_table_files(table, &files, &count));
  for (size_t i = 0; i < count; i++) assert_true(strncmp(files[i].path, directory, strlen(directory)) == 0 && !strstr(files[i].path, "/../"));
  assert_null(strstr(trn_table_get_info(table)->location, "/../"));
  trn_table_unref(table);
  trn_catalog_unref(catalog);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_was_created_is_there_after_a_restart),
      TEST(a_database_with_tables_is_dropped_only_by_cascade),
      TEST(a_rename_keeps_rows_and_identity),
      TEST(an_alteration_of_an_old_version_is_refused),
      TEST(a_snapshot_keeps_its_files),
      TEST(a_snapshot_of_another_process_keeps_its_files),
      TEST(partitions_are_replaced_one_by_one),
      TEST(an_aborted_write_leaves_nothing),
      TEST(a_table_that_changed_meanwhile_takes_no_rows),
      TEST(a_catalog_in_memory_cleans_up),
      TEST(a_killed_writer_leaves_no_half_table),
      TEST(a_writer_killed_at_any_time_leaves_whole_commits),
      TEST(two_processes_write_one_table),
      TEST(a_full_disk_loses_nothing),
      TEST(damaged_definitions_are_refused),
      TEST(a_file_that_is_no_database_is_refused),
      TEST(names_stay_inside_of_the_warehouse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
