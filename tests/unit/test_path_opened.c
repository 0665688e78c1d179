/* Which text of a path the engine opens, and which paths are refused because they would be read as others. */
#include "engine/engine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void opens(const char *path, const char *text) {
  const char *opened = NULL;
  trn_error *error = NULL;
  if (trn__path_opened(path, &opened, &error)) fail_msg("%s: %s", path, trn_error_message(error));
  if (strcmp(opened, text) != 0) fail_msg("%s is opened as %s", path, opened);
}

static void refuses(const char *path, const char *why) {
  const char *opened = NULL;
  trn_error *error = NULL;
  trn_status status = trn__path_opened(path, &opened, &error);
  if (status != TRN_INVALID_ARGUMENT) fail_msg("%s: status %d", path, (int)status);
  if (!strstr(trn_error_message(error), why) || !strstr(trn_error_message(error), path))
    fail_msg("%s: %s", path, trn_error_message(error));
  trn_error_unref(error);
}

static void test_paths_of_this_machine_are_opened_as_they_are(void **state) {
  (void)state;
  static const char *const paths[] = {"/data/a.parquet", "/data/%2e%2e/a?b#c", "data/a.csv", "", "./x", "1:2",
                                      "/a b/ü", "a b:c"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    opens(paths[i], paths[i]);
  opens("file:/data/%2e", "/data/%2e");
  opens("file:///data/x", "/data/x");
  opens("file:////data", "//data");
}

static void test_other_spellings_of_local_files_are_refused(void **state) {
  (void)state;
  refuses("file:data", "behind file:");
  refuses("file://host/data", "behind file:");
  refuses("file:", "behind file:");
  static const char *const paths[] = {"FILE:/etc", " file:/etc", "\tfile:/etc", "fi\tle:/etc", "\x01" "file:///etc", "fil\ne:///x"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) refuses(paths[i], "a local file's begins with file:");
}

static void test_urls_mean_what_they_say(void **state) {
  (void)state;
  static const char *const plain[] = {"s3://bucket/a/b.parquet", "S3://bucket/x", "http://example.com:80/x", "gs://b/",
                                      "http://10.0.0.1/x", "http://[::1]/x", "s3a://bucket/with blank/x"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) opens(plain[i], plain[i]);
  static const char *const others[] = {
      "s3:/bucket/x", "s3:bucket", "s3:///x", "a:b", "s3://user@bucket/x", "s3://bucket/%2e%2e/x", "http://h/x?y", "http://h/x#y",
      "http://h\\x", "s3://bu\tcket/x", "s3://bucket/x ", "\ts3://bucket/x", "http://0x7f.1/", "http://127.1/x", "http://2130706433/",
      "http://010.0.0.1/", "http://10.0.0.256/", "http://10.0.0.1./", "http://h\xc3\xbc/", "http://a b/", "s3://b/\x7f"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) refuses(others[i], "a URL is scheme://host/path");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths_of_this_machine_are_opened_as_they_are),
      cmocka_unit_test(test_other_spellings_of_local_files_are_refused),
      cmocka_unit_test(test_urls_mean_what_they_say),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
