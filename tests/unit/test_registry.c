/* The registry: names, factories, decoders that answer at once, later, twice, never, and after nobody waits any more.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "arrow/arrow_util.h"
#include "core/core.h"
#include "core/function.h"
#include "plan/plan.h"
#include <trunnion/decoder.h>
#include <trunnion/plugin.h>

static void says(trn_error *error, const char *text) {
  assert_non_null(error);
  if (!strstr(trn_error_message(error), text)) fail_msg("'%s' is not in '%s'", text, trn_error_message(error));
  trn_error_unref(error);
}

static trn_plan *some_plan(void) {
  trn_arena *arena = trn__arena_create(0);
  const trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  const trn_field field = {.name = "id", .type = column.type};
  trn_rel *rel = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  trn_plan *plan = NULL;
  rel->u.range.end = 3;
  rel->u.range.step = 1;
  assert_int_equal(trn__plan_create(arena, rel, &field, 2, NULL, NULL, &plan), TRN_OK);
  return plan;
}

/* ---- names ---- */

static trn_status make_scripted(void *user, const trn_registry *registry, const trn_config *config, trn_backend **out,
                                trn_error **error) {
  (void)user, (void)registry, (void)config, (void)error;
  trn_scripted *control = NULL;
  trn_status status = trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, out);
  trn__scripted_unref(control);
  return status;
}

static trn_status same_backend(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                               trn_backend **out, trn_error **error) {
  (void)registry, (void)config, (void)error;
  ++*(int *)user;
  *out = trn_backend_ref(inner);
  return TRN_OK;
}

static void things_are_made_by_name_and_unknown_names_list_the_known(void **state) {
  (void)state;
  trn_registry *registry = NULL;
  trn_backend *backend = NULL, *layer = NULL;
  trn_error *error = NULL;
  int layers = 0;
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_string_equal(trn_registry_frontend_at(registry, 0), "spark");
  assert_int_equal(trn_registry_add_backend(registry, "scripted", make_scripted, NULL, NULL), TRN_OK);
  assert_int_equal(trn_registry_add_layer(registry, "test.same", same_backend, &layers, NULL), TRN_OK);
  assert_int_equal(trn_registry_add_backend(registry, "scripted", make_scripted, NULL, &error), TRN_ALREADY_EXISTS);
  says(error, "'scripted'");
  error = NULL;
  assert_int_equal(trn_registry_add_backend(registry, "", make_scripted, NULL, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_registry_add_backend(registry, "none", NULL, NULL, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_registry_make_backend(registry, "scriptd", NULL, &backend, &error), TRN_NOT_FOUND);
  says(error, "There is no backend 'scriptd', did you mean 'scripted'?; known are: embedded");
  error = NULL;
  assert_int_equal(trn_registry_make_backend(registry, "scripted", NULL, &backend, NULL), TRN_OK);
  assert_int_equal(trn_registry_make_layer(registry, "test.same", NULL, backend, &layer, NULL), TRN_OK);
  assert_int_equal(layers, 1);
  assert_ptr_equal(layer, backend);
  trn_backend_unref(layer);
  trn_backend_unref(backend);
  trn_registry_destroy(registry);
  trn_registry_destroy(NULL);
}

static void a_factory_checks_the_keys_of_its_configuration(void **state) {
  (void)state;
  trn_registry *registry = NULL;
  trn_config *config = trn_config_create();
  trn_frontend *spark = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_config_set(config, "timezone", "Europe/Berlin", NULL), TRN_OK);
  assert_int_equal(trn_registry_make_frontend(registry, "spark", config, &spark, NULL), TRN_OK);
  trn_frontend_destroy(spark);
  assert_int_equal(trn_config_set(config, "timezon", "UTC", NULL), TRN_OK);
  assert_int_equal(trn_registry_make_frontend(registry, "spark", config, &spark, &error), TRN_INVALID_ARGUMENT);
  says(error, "did you mean 'timezone'?");
  trn_config_destroy(config);
  trn_registry_destroy(registry);
}

static int destroyed;
static void count_destroyed(void *object) {
  destroyed += object == &destroyed;
}

static void what_a_registry_owns_goes_with_it(void **state) {
  (void)state;
  trn_registry *registry = NULL;
  static const trn_decoder_ops none = {.struct_size = sizeof none};
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_own(registry, count_destroyed, &destroyed), TRN_OK);
  assert_int_equal(trn_registry_add_decoder(registry, "x", &none, NULL, NULL), TRN_INVALID_ARGUMENT);
  destroyed = 0;
  trn_registry_destroy(registry);
  assert_int_equal(destroyed, 1);
}

/* ---- decoders ---- */

typedef enum manner { AT_ONCE, INLINE, LATER, TWICE, NEVER, FAILS, FAILS_LATER, NO_PLAN, DOES_NOT_START } manner;

typedef struct test_decoder {
  manner manner;
  pthread_t thread;
  bool has_thread;
  trn_decode_ticket ticket;
  atomic_int cancelled, unwanted;
} test_decoder;

static trn_status decode(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                         trn_error **error) {
  test_decoder *d = self;
  assert_non_null(session);
  if (d->manner == FAILS) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "bad bytes");
  if (d->manner == AT_ONCE && input->size == 3) *out = some_plan();
  return TRN_OK;
}

static void *answer_later(void *argument) {
  test_decoder *d = argument;
  usleep(20000);
  trn_error *error = NULL;
  if (d->manner == FAILS_LATER) trn_error_set(&error, TRN_NOT_FOUND, NULL, "no such table");
  if (!trn_decode_answer(d->ticket, error ? TRN_NOT_FOUND : TRN_OK, error ? NULL : some_plan(), error)) d->unwanted++;
  if (d->manner == TWICE && !trn_decode_answer(d->ticket, TRN_OK, some_plan(), NULL)) d->unwanted++;
  return NULL;
}

static trn_status start(void *self, trn_session *session, const trn_plan_input *input, trn_decode_ticket ticket,
                        trn_error **error) {
  test_decoder *d = self;
  (void)session, (void)input;
  d->ticket = ticket;
  if (d->manner == DOES_NOT_START) return trn_error_set(error, TRN_UNAVAILABLE, NULL, "not now");
  if (d->manner == INLINE) assert_true(trn_decode_answer(ticket, TRN_OK, some_plan(), NULL));
  if (d->manner == LATER || d->manner == TWICE || d->manner == FAILS_LATER) {
    d->has_thread = true;
    assert_int_equal(pthread_create(&d->thread, NULL, answer_later, d), 0);
  }
  return TRN_OK;
}

static void cancel(void *self, trn_decode_ticket ticket) {
  test_decoder *d = self;
  assert_int_equal(ticket.id, d->ticket.id);
  d->cancelled++;
}

static bool is_cancelled(void *user) {
  return *(bool *)user;
}

/* One decode of "test"; checks what the decoder saw. */
static void decode_once(manner manner, const trn_decode_options *options, trn_status wanted, const char *text) {
  static const trn_decoder_ops now = {.struct_size = sizeof now, .decode = decode};
  static const trn_decoder_ops later = {.struct_size = sizeof later, .start = start, .cancel = cancel};
  test_decoder d = {.manner = manner};
  bool at_once = manner == AT_ONCE || manner == FAILS || manner == NO_PLAN;
  trn_registry *registry = NULL;
  trn_scripted *control = NULL;
  trn_backend *backend = NULL;
  trn_session *session = NULL;
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  const trn_session_request request = {.struct_size = sizeof request};
  const trn_plan_input input = {.struct_size = sizeof input, .format = "test", .data = "abc", .size = 3};
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_add_decoder(registry, "test", at_once ? &now : &later, &d, NULL), TRN_OK);
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
  assert_int_equal(trn_registry_decode(registry, session, &input, options, &plan, &error), wanted);
  if (text) says(error, text);
  assert_true((plan != NULL) == (wanted == TRN_OK));
  trn_plan_unref(plan);
  if (d.has_thread) pthread_join(d.thread, NULL);
  if (manner == NEVER) { /* an answer after the wait is noticed, and freed */
    assert_int_equal(d.cancelled, 1);
    assert_false(trn_decode_answer(d.ticket, TRN_OK, some_plan(), NULL));
  } else {
    assert_int_equal(d.cancelled, 0);
  }
  assert_int_equal(d.unwanted, manner == TWICE ? 1 : 0);
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn__scripted_unref(control);
  trn_registry_destroy(registry);
}

static void decoders_answer_at_once_or_later(void **state) {
  (void)state;
  decode_once(AT_ONCE, NULL, TRN_OK, NULL);
  decode_once(INLINE, NULL, TRN_OK, NULL);
  decode_once(LATER, NULL, TRN_OK, NULL);
  decode_once(TWICE, NULL, TRN_OK, NULL);
}

static void decoders_that_fail_or_do_not_answer_give_their_status(void **state) {
  (void)state;
  bool yes = true;
  const trn_decode_options short_wait = {.struct_size = sizeof short_wait, .timeout_ms = 30};
  const trn_decode_options unwanted = {.struct_size = sizeof unwanted, .is_cancelled = is_cancelled, .user = &yes};
  decode_once(FAILS, NULL, TRN_INVALID_ARGUMENT, "bad bytes");
  decode_once(FAILS_LATER, NULL, TRN_NOT_FOUND, "no such table");
  decode_once(DOES_NOT_START, NULL, TRN_UNAVAILABLE, "not now");
  decode_once(NO_PLAN, NULL, TRN_INTERNAL, "gave no plan");
  decode_once(NEVER, &short_wait, TRN_DEADLINE_EXCEEDED, "within 30 ms");
  decode_once(NEVER, &unwanted, TRN_CANCELLED, "cancelled");
}

static void unknown_formats_list_the_known_ones(void **state) {
  (void)state;
  trn_registry *registry = NULL;
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  const trn_plan_input input = {.struct_size = sizeof input, .format = "substrait.plan.v2"};
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_decode(registry, NULL, &input, NULL, &plan, &error), TRN_INVALID_ARGUMENT);
  says(error, "There is no decoder 'substrait.plan.v2', did you mean 'substrait.plan.v1'?; known are: sql, "
              "datafusion.logical.v1, datafusion.physical.v1, substrait.plan.v1");
  trn_registry_destroy(registry);
}

static void a_file_that_is_no_plugin_is_refused(void **state) {
  (void)state;
  trn_registry *registry = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_load_plugin(registry, "/nonexistent/x.so", NULL, &error), TRN_NOT_FOUND);
  says(error, "/nonexistent/x.so");
  error = NULL;
  assert_int_equal(trn_registry_load_plugin(registry, "libm.so.6", NULL, &error), TRN_FAILED_PRECONDITION);
  says(error, "is no plugin");
  error = NULL;
  assert_int_equal(trn_registry_load_plugin(registry, NULL, NULL, &error), TRN_NOT_FOUND);
  says(error, "no path");
  trn_registry_destroy(registry);
}

/* ---- functions ---- */

static trn_status bind_long(const trn_scalar_function *function, const trn_function_arg *args, size_t count,
                            struct ArrowSchema *out, trn_function_error *error) {
  (void)function, (void)args;
  if (count == 1) return trn__schema_init(out, "l", "", ARROW_FLAG_NULLABLE, NULL, 0, 0);
  if (count == 2) return TRN_INVALID_ARGUMENT; /* without a word */
  (error->fail)(error->self, TRN_INVALID_ARGUMENT, "MY_CONDITION", "not so many");
  for (int i = 0; i < 20; i++) error->add_param(error->self, "count", "3x", 1);
  error->set_position(error->self, -1);
  return TRN_INVALID_ARGUMENT;
}

static trn_status add_one(const char *library_name, const char *function_name, uint32_t abi, trn_error **error) {
  static trn_scalar_function function;
  static trn_table_function table;
  static const trn_scalar_function *scalars[1];
  static const trn_table_function *tables[1];
  trn_registry *registry = NULL;
  function = (trn_scalar_function){.struct_size = sizeof function, .name = function_name, .bind = bind_long};
  table = (trn_table_function){.struct_size = sizeof table, .name = "my.table"};
  scalars[0] = &function, tables[0] = &table;
  const trn_function_library library = {.struct_size = sizeof library,
                                        .abi = abi,
                                        .name = library_name,
                                        .scalars = scalars,
                                        .scalar_count = 1,
                                        .tables = tables,
                                        .table_count = 1};
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  trn_status status = trn_registry_add_functions(registry, &library, error);
  const char *first = trn_registry_functions_at(registry, 0);
  if (status)
    assert_null(first);
  else
    assert_string_equal(first, library_name);
  trn_found_function found;
  bool has = trn__registry_function(registry, "MY.Half", &found);
  if (!status) assert_true(has && found.sort == TRN_SORT_SCALAR && strcmp(found.name, "my.half") == 0);
  if (!status) assert_int_equal(trn_registry_add_functions(registry, &library, NULL), TRN_ALREADY_EXISTS);
  size_t count = 0;
  trn__registry_libraries(registry, &count);
  assert_int_equal(count, status ? 0 : 1);
  trn_registry_destroy(registry);
  return status;
}

static void functions_have_names_that_change_no_others(void **state) {
  (void)state;
  static const struct {
    const char *library, *function, *message;
  } wrong[] = {{"my", "upper", "The function 'upper' of the library 'my' has to be called my.<word"},
               {"my", "my.", "has to be called my."},
               {"my", "my.a.b", "has to be called my."},
               {"my", "my.Half", "has to be called my."},
               {"my", "mine.half", "has to be called my."},
               {"my", NULL, "has a function without a name"},
               {"my", "my.table", "has two functions 'my.table'"},
               {"trn", "trn.upper", "not 'trn'"},
               {"My", "My.half", "a word of small letters"},
               {"", ".half", "a word of small letters"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    trn_error *error = NULL;
    assert_int_not_equal(add_one(wrong[i].library, wrong[i].function, TRN_FUNCTION_ABI, &error), TRN_OK);
    says(error, wrong[i].message);
  }
  trn_error *error = NULL;
  assert_int_equal(add_one("my", "my.half", TRN_FUNCTION_ABI + 1, &error), TRN_FAILED_PRECONDITION);
  says(error, "version");
  assert_int_equal(add_one("my", "my.half", TRN_FUNCTION_ABI, NULL), TRN_OK);
}

static void what_a_function_says_of_its_arguments_is_an_error(void **state) {
  (void)state;
  static const trn_scalar_function function = {.struct_size = sizeof function, .name = "my.half", .bind = bind_long};
  const trn_found_function found = {.sort = TRN_SORT_SCALAR, .name = "my.half", .scalar = &function};
  const trn_function_arg args[3] = {{0}};
  struct ArrowSchema schema = {0};
  trn_error *error = NULL;
  assert_int_equal(trn__function_bind(&found, args, 1, &schema, &error), TRN_OK);
  assert_string_equal(schema.format, "l");
  schema.release(&schema);
  assert_null(error);
  assert_int_equal(trn__function_bind(&found, args, 2, &schema, &error), TRN_INVALID_ARGUMENT);
  says(error, "The function my.half does not take these arguments");
  error = NULL;
  assert_int_equal(trn__function_bind(&found, args, 3, &schema, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_condition(error), "MY_CONDITION");
  says(error, "not so many");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(things_are_made_by_name_and_unknown_names_list_the_known),
      cmocka_unit_test(a_factory_checks_the_keys_of_its_configuration),
      cmocka_unit_test(what_a_registry_owns_goes_with_it),
      cmocka_unit_test(decoders_answer_at_once_or_later),
      cmocka_unit_test(decoders_that_fail_or_do_not_answer_give_their_status),
      cmocka_unit_test(unknown_formats_list_the_known_ones),
      cmocka_unit_test(a_file_that_is_no_plugin_is_refused),
      cmocka_unit_test(functions_have_names_that_change_no_others),
      cmocka_unit_test(what_a_function_says_of_its_arguments_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
