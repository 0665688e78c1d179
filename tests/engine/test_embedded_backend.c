/* The embedded backend passes the conformance suite of backends. TRUNNION_ENGINE and TRUNNION_FUNCTIONS name the libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "conformance/backend_suite.h"

static void embedded_conforms(void **state) {
  (void)state;
  trn_embedded_options options = {.struct_size = sizeof options,
                                  .engine_path = getenv("TRUNNION_ENGINE"),
                                  .functions_path = getenv("TRUNNION_FUNCTIONS")};
  trn_backend *backend = NULL;
  trn_error *error = NULL;
  if (!options.engine_path || access(options.engine_path, R_OK)) {
    print_message("SKIPPED: no engine at TRUNNION_ENGINE\n");
    skip();
  }
  trn_status status = trn_embedded_backend_create(&options, &backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_backend_conformance(backend, &(trn_backend_deviations){0});
  trn_backend_unref(backend);
}

static void a_missing_engine_is_named(void **state) {
  (void)state;
  trn_embedded_options options = {.struct_size = sizeof options, .engine_path = "/no/such/engine.so"};
  trn_backend *backend = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_embedded_backend_create(&options, &backend, &error), TRN_NOT_FOUND);
  assert_non_null(strstr(trn_error_message(error), "/no/such/engine.so"));
  trn_error_unref(error);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(embedded_conforms), cmocka_unit_test(a_missing_engine_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
