/* Every allocation of src/catalog fails once: the failure is reported, and the warehouse is as it was. SQLite's own
 * allocations are its library's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <trunnion/catalog.h>
#include <unistd.h>

#include "arrow/arrow_util.h"
#include "backend/scripted/scripted.h"
#include "catalog/warehouse.h"

#include "support/failing_memory.h"

static char directory[64];
static trn_catalog *catalog;
static trn_backend *backend;
static struct ArrowSchema schema;
static unsigned attempts; /* names differ from attempt to attempt */

/* Until one run meets no failure; that one must succeed. */
static void each_allocation_fails(bool (*attempt)(void)) {
  for (long long k = 0;; k++) {
    assert_true(k < 20000);
    failures = 0;
    attempts++;
    countdown = k;
    bool ok = attempt();
    countdown = -1;
    if (failures) continue;
    assert_true(ok);
    assert_true(k > 0);
    return;
  }
}

static const char *const partition_columns[] = {"p"};

static trn_table_info table_named(const char *name) {
  return (trn_table_info){.struct_size = sizeof(trn_table_info), .database = "default", .name = name, .schema = &schema,
                          .format = "json", .partition_columns = partition_columns, .partition_column_count = 1,
                          .row_count = -1, .byte_count = -1};
}

static int setup(void **state) {
  (void)state;
  const trn_warehouse_options options = {.struct_size = sizeof options, .directory = directory};
  snprintf(directory, sizeof directory, "/tmp/test_catalog_faults.XXXXXX");
  if (!mkdtemp(directory) || trn__schema_init(&schema, "+s", "", 0, NULL, 0, 2)) return -1;
  if (trn__schema_init(schema.children[0], "l", "a", ARROW_FLAG_NULLABLE, NULL, 0, 0)) return -1;
  if (trn__schema_init(schema.children[1], "u", "p", ARROW_FLAG_NULLABLE, NULL, 0, 0)) return -1;
  if (trn_warehouse_open(&options, &catalog, NULL)) return -1;
  const trn_table_info info = table_named("t");
  return trn_catalog_create_table(catalog, NULL, &info, false, NULL) == TRN_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  trn_catalog_unref(catalog);
  schema.release(&schema);
  trn__remove_all(directory);
  return 0;
}

static bool open_once(void) {
  const trn_warehouse_options options = {.struct_size = sizeof options, .directory = directory};
  trn_catalog *again = NULL;
  trn_status status = trn_warehouse_open(&options, &again, NULL);
  assert_true(status == TRN_OK ? again != NULL : again == NULL);
  trn_catalog_unref(again);
  return status == TRN_OK;
}

static bool define_once(void) {
  char name[32];
  snprintf(name, sizeof name, "t%u", attempts);
  const trn_table_info info = table_named(name);
  const trn_kv properties[] = {{"k", "v"}};
  const trn_database_info database = {.struct_size = sizeof database, .name = name, .properties = properties, .property_count = 1};
  trn_status status = trn_catalog_create_database(catalog, NULL, &database, NULL);
  if (!status) status = trn_catalog_create_table(catalog, NULL, &info, false, NULL);
  if (!status) status = trn_catalog_rename_table(catalog, NULL, "default", name, name, "u", NULL);
  if (!status) status = trn_catalog_drop_database(catalog, NULL, name, true, NULL);
  return status == TRN_OK;
}

static void count_table(void *user, const trn_table_info *table) {
  *(size_t *)user += table->schema != NULL;
}

static void count_partition(void *user, const trn_partition_info *partition) {
  *(size_t *)user += partition->value_count;
}

static bool read_once(void) {
  trn_table *table = NULL;
  trn_scan_label *label = NULL;
  size_t count = 0;
  trn_status status = trn_catalog_get_table(catalog, NULL, "default", "t", &table, NULL);
  if (!status) status = trn_table_label(table, &label, NULL);
  if (!status) status = trn_catalog_list_tables(catalog, NULL, "default", true, count_table, &count, NULL);
  if (!status) status = trn_catalog_list_partitions(catalog, NULL, "default", "t", NULL, 0, count_partition, &count, NULL);
  trn_scan_label_unref(label);
  trn_table_unref(table);
  return status == TRN_OK;
}

static size_t files_of_t(void) {
  trn_table *table = NULL;
  const trn_table_file *files;
  size_t count = 0;
  assert_int_equal(trn_catalog_get_table(catalog, NULL, "default", "t", &table, NULL), TRN_OK);
  trn_table_files(table, &files, &count);
  trn_table_unref(table);
  return count;
}

static bool write_once(void) {
  const trn_kv partition = {"p", "1"};
  const trn_write_request request = {.struct_size = sizeof request, .database = "default", .name = "t",
                                     .mode = TRN_WRITE_OVERWRITE, .partition = &partition, .partition_count = 1};
  trn_table_write *write = NULL;
  char path[512];
  trn_status status = trn_catalog_begin_write(catalog, NULL, &request, &write, NULL);
  if (status) return false;
  const char *base = trn_table_write_target(write)->directory;
  snprintf(path, sizeof path, "%s/0", base);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/0/x=1", base);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/0/x=1/data.json", base);
  long long kept = atomic_exchange(&countdown, -1); /* the engine's part: nothing fails */
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("{\"a\":1}\n", file);
  fclose(file);
  countdown = kept;
  status = trn_table_write_commit(write, 1, NULL);
  kept = atomic_exchange(&countdown, -1);
  assert_true(files_of_t() <= 1); /* all or nothing */
  if (status == TRN_OK) assert_int_equal(files_of_t(), 1);
  countdown = kept;
  return status == TRN_OK;
}

static bool transact_once(void) {
  char name[32];
  snprintf(name, sizeof name, "x%u", attempts);
  const trn_table_info info = table_named(name);
  trn_session *session = NULL;
  trn_table *table = NULL;
  long long kept = atomic_exchange(&countdown, -1);
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  countdown = kept;
  trn_status status = trn_transaction_begin(session, NULL);
  if (!status) status = trn_catalog_create_table(catalog, session, &info, false, NULL);
  if (!status) status = trn_transaction_savepoint(session, TRN_SAVEPOINT_SET, "s", NULL);
  if (!status) status = trn_catalog_drop_table(catalog, session, "default", name, false, NULL);
  if (!status) status = trn_transaction_savepoint(session, TRN_SAVEPOINT_ROLLBACK, "s", NULL);
  if (!status) status = trn_transaction_end(session, true, NULL);
  kept = atomic_exchange(&countdown, -1);
  trn_session_unref(session); /* rolls back what is left */
  trn_status found = trn_catalog_get_table(catalog, NULL, "default", name, &table, NULL);
  assert_int_equal(found, status == TRN_OK ? TRN_OK : TRN_NOT_FOUND); /* all or nothing */
  trn_table_unref(table);
  countdown = kept;
  return status == TRN_OK;
}

static void opening(void **state) {
  (void)state;
  each_allocation_fails(open_once);
}
static void definitions(void **state) {
  (void)state;
  each_allocation_fails(define_once);
}
static void reading(void **state) {
  (void)state;
  each_allocation_fails(write_once);
  each_allocation_fails(read_once);
}

static void transactions(void **state) {
  (void)state;
  trn_scripted *scripted = NULL;
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &scripted, &backend), TRN_OK);
  assert_int_equal(trn_backend_add_catalog(backend, catalog), TRN_OK);
  each_allocation_fails(transact_once);
  trn_backend_unref(backend);
  trn__scripted_unref(scripted);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(transactions, setup, teardown),
                                     cmocka_unit_test_setup_teardown(opening, setup, teardown),
                                     cmocka_unit_test_setup_teardown(definitions, setup, teardown),
                                     cmocka_unit_test_setup_teardown(reading, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
