/* Writing to thousands of directories holds few files open, and loses nothing. */
#include "seam.h"
#include <dirent.h>
#include <ftw.h>
#include <sys/resource.h>

enum { VALUES = 3000, ROWS = 30000 };

static int files, directories;

static int count_entry(const char *path, const struct stat *s, int kind, struct FTW *ftw) {
  (void)path, (void)s, (void)ftw;
  files += kind == FTW_F, directories += kind == FTW_D;
  return 0;
}
static int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *ftw) {
  (void)s, (void)kind, (void)ftw;
  return remove(path);
}

static void test_thousands_of_directories(void **state) {
  (void)state;
  char folder[] = "/tmp/trn-write-XXXXXX", path[64];
  struct rusage before, after;
  bytes *b = &f.plan;
  assert_non_null(mkdtemp(folder));
  begin(b); /* rows of one directory are far apart */
  op_range(b, ROWS, 1, 0);
  op_column(b, 0);
  op_column(b, 0), op_int(b, VALUES), op_call(b, TRN_HOME_NATIVE, "%", 2, TRN_TYPE_INT64);
  u8(b, TRN_OP_CAST), type(b, TRN_TYPE_STRING), u8(b, 0);
  op_project(b, 2, 1, 2);
  u8(b, TRN_OP_WRITE), u32(b, 9), str(b, "parquet"), str(b, folder), u32(b, 0);
  u32(b, 2), str(b, "n"), str(b, "p"), u32(b, 1), u32(b, 1);
  getrusage(RUSAGE_SELF, &before);
  RUN_EXPECT("30000;");
  getrusage(RUSAGE_SELF, &after);
  long grown_mb = (after.ru_maxrss - before.ru_maxrss) / 1024;
  assert_int_equal(nftw(folder, count_entry, 16, FTW_PHYS), 0);
  assert_int_equal(files, VALUES); /* one each: no directory is opened twice */
  assert_int_equal(directories, VALUES + 2);
  if (grown_mb > 300) fail_msg("%d directories took %ld MB", VALUES, grown_mb);

  trn_engine_error error = {0};
  struct ArrowSchema schema = {0};
  snprintf(path, sizeof path, "%s/0/", folder);
  const char *paths[] = {path};
  const trn_kv options[] = {{"partition_column", "p"}};
  check(f.engine->source_files(f.session, "parquet", paths, 1, options, 1, NULL, &f.sources[0], &schema, &error), &error);
  schema.release(&schema);
  f.source_count = 1;
  begin(b); /* each row is where it belongs */
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 2), u32(b, 0), u32(b, 1), u32(b, 1), u32(b, 2);
  op_column(b, 1), op_int(b, VALUES), op_call(b, TRN_HOME_NATIVE, "%", 2, TRN_TYPE_INT64);
  op_column(b, 2), u8(b, TRN_OP_CAST), type(b, TRN_TYPE_INT64), u8(b, 0);
  op_call(b, TRN_HOME_NATIVE, "=", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  op_column(b, 1), op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1);
  op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0);
  op_group(b, 0, 2, 7, 8);
  RUN_EXPECT("449985000,30000;");
  nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_thousands_of_directories, reset)};
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
