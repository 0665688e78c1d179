/* Planning and folds over long lists stop in the engine when nobody wants them: each of these would compute for a
 * minute or more (the test's limit of time is what finds it), and ends as CANCELLED. TRUNNION_ENGINE,
 * TRUNNION_FUNCTIONS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "conformance/puller.h"
#include "engine/engine.h"
#include "frontend/spark/translate/scope.h"
#include <trunnion/backend.h>

static trn_backend *backend;
static trn_session *session;
static spark_catalog *catalog;

static void sleep_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int set_up(void **state) {
  const trn_embedded_options options = {.struct_size = sizeof options,
                                        .engine_path = getenv("TRUNNION_ENGINE"),
                                        .functions_path = getenv("TRUNNION_FUNCTIONS"),
                                        .threads = 2};
  const trn_session_request request = {.struct_size = sizeof request, .user = "test", .client = "test"};
  trn_error *error = NULL;
  (void)state;
  if (trn_embedded_backend_create(&options, &backend, &error)) {
    print_error("%s\n", trn_error_message(error));
    return 1;
  }
  catalog = spark__catalog_create();
  return !catalog || trn_session_open(backend, &request, &session, NULL) != TRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  spark__catalog_destroy(catalog);
  trn_session_unref(session);
  trn_backend_unref(backend);
  return 0;
}

/* ---- on threads with big stacks, as frontends have them ---- */

typedef struct job {
  const char *sql;
  unsigned filters; /* instead: so many over a range */
  trn_cancel *cancel;
  trn_status status;
  trn_operation *operation;
  char message[200];
} job;

static trn_status plan_sql(const char *text, trn_plan **out, trn_error **error) {
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  spark_translator t;
  sql.query = (char *)text;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  trn_status status = spark__translator_init(&t, session, catalog, error);
  return status ? status : spark__translate_relation(&t, &relation, out, error);
}

/* `count` filters, each over a projection, over a range. */
static const trn_rel *branch(trn_arena *arena, unsigned count, uint32_t *next) {
  trn_column column = {.id = (*next)++, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  const trn_rel *root = range;
  range->u.range.end = 100;
  range->u.range.step = 1;
  for (unsigned i = 0; i < count; i++) {
    trn_column made = {.id = (*next)++, .type = column.type};
    const trn_expr *sum = trn__expr_call(
        arena, TRN_HOME_LIBRARY, "trn.add_wrap", column.type, false,
        (const trn_expr *const[]){trn__expr_column(arena, &root->columns[0]), trn__expr_int(arena, column.type, i)}, 2);
    const trn_expr *condition = trn__expr_call(arena, TRN_HOME_NATIVE, ">", trn__type(TRN_TYPE_BOOL), false,
                                               (const trn_expr *const[]){sum, trn__expr_int(arena, column.type, 0)}, 2);
    root = trn__rel_filter(arena, root, condition);
    root = trn__rel_project(arena, root, &sum, &made, 1);
  }
  return root;
}

/* A union of branches: about as many relations as a plan may have. */
static trn_status plan_filters(unsigned count, trn_plan **out, trn_error **error) {
  enum { BRANCHES = 9 };
  const trn_rel *branches[BRANCHES];
  uint32_t next = 1;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return trn__no_memory(error);
  for (unsigned i = 0; i < BRANCHES; i++) branches[i] = branch(arena, count, &next);
  trn_column column = {.id = next++, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *root = trn__rel_create(arena, TRN_REL_UNION, branches, BRANCHES, NULL, 0, &column, 1);
  trn_field *field = TRN_NEW(arena, trn_field);
  *field = (trn_field){.name = "c", .type = column.type};
  return trn__plan_create(arena, root, field, next, "UTC", NULL, out);
}

static void execute(void *argument) {
  job *j = argument;
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  j->status = j->sql ? plan_sql(j->sql, &plan, &error) : plan_filters(j->filters, &plan, &error);
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .cancel = j->cancel};
  if (!j->status) j->status = trn_backend_execute(session, &request, &j->operation, &error);
  snprintf(j->message, sizeof j->message, "%s", error ? trn_error_message(error) : "");
  trn_error_unref(error);
  trn_plan_unref(plan);
}

static void *run(void *argument) {
  trn__run_on_big_stack(execute, argument);
  return NULL;
}

/* Cancelled when it has begun to plan. */
static void ends_cancelled(job *j) {
  pthread_t thread;
  assert_int_equal(trn_cancel_create(&j->cancel), TRN_OK);
  assert_int_equal(pthread_create(&thread, NULL, run, j), 0);
  sleep_ms(300);
  trn_cancel_request(j->cancel);
  pthread_join(thread, NULL);
  if (j->status != TRN_CANCELLED) print_error("%d %s\n", (int)j->status, j->message);
  assert_int_equal(j->status, TRN_CANCELLED);
  trn_cancel_unref(j->cancel);
}

static void a_fold_of_constants_stops(void **state) {
  (void)state;
  job j = {.sql = "select aggregate(sequence(1, 20000000), 0L, (a, x) -> a + x)"};
  ends_cancelled(&j);
}

static void the_optimizer_stops(void **state) {
  (void)state;
  job j = {.filters = 900};
  ends_cancelled(&j);
}

static void planning_goes_on_afterwards(void **state) {
  (void)state;
  job j = {.sql = "select aggregate(sequence(1, 10), 0L, (a, x) -> a + x)"};
  assert_int_equal(trn_cancel_create(&j.cancel), TRN_OK);
  trn__run_on_big_stack(execute, &j);
  assert_int_equal(j.status, TRN_OK);
  trn_cancel_request(j.cancel); /* too late: the operation has a cancel of its own */
  trn_stream *stream = NULL;
  puller p;
  struct ArrowArray array;
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(j.operation, &stream, NULL), TRN_OK);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  assert_int_equal(((const int64_t *)array.children[0]->buffers[1])[0], 55);
  array.release(&array);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(j.operation);
  trn_cancel_unref(j.cancel);
}

static int64_t cpu_ms(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000;
}

/* The pull ends at once in any case: what is looked at is that the thread stops computing. */
static void a_fold_that_runs_gives_its_thread_back(void **state) {
  (void)state;
  job j = {.sql = "select aggregate(sequence(1, 20000000 + cast(id as int)), 0L, (a, x) -> a + x) from range(1)"};
  trn_stream *stream = NULL;
  puller p;
  trn__run_on_big_stack(execute, &j);
  if (j.status) print_error("%s\n", j.message);
  assert_int_equal(j.status, TRN_OK);
  puller_init(&p);
  assert_int_equal(trn_operation_result_stream(j.operation, &stream, NULL), TRN_OK);
  assert_int_equal(puller_start_array(&p, stream), TRN_OK);
  int64_t before = cpu_ms();
  for (int i = 0; i < 500 && cpu_ms() - before < 200; i++) sleep_ms(10); /* it computes */
  trn_operation_cancel(j.operation);
  assert_true(puller_wait(&p, 60000));
  assert_int_equal(p.status, TRN_CANCELLED);
  bool is_quiet = false;
  for (int i = 0; i < 100 && !is_quiet; i++) {
    before = cpu_ms();
    sleep_ms(100);
    is_quiet = cpu_ms() - before < 20;
  }
  assert_true(is_quiet);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(j.operation);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fold_of_constants_stops),
      cmocka_unit_test(the_optimizer_stops),
      cmocka_unit_test(planning_goes_on_afterwards),
      cmocka_unit_test(a_fold_that_runs_gives_its_thread_back),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
