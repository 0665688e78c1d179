/* Many threads on one stack of layers over the scripted backend, and on one warehouse: sessions come and go, operations
 * are read, cancelled (before and after there is one), dropped, while settings are reloaded and tables are made,
 * renamed, listed and dropped. Made for the thread sanitizer; also shows that nothing is lost. */
#include "support/layer_fixture.h"
#include <trunnion/catalog.h>
#include <trunnion/registry.h>

#include "catalog/warehouse.h"

enum { THREADS = 16, ROUNDS = 60 };

typedef struct storm {
  bench bench;
  trn_registry *registry;
  trn_config *layers;
  trn_backend *backend;
  trn_catalog *catalog;
  atomic_uint rows, cancelled, wrong, made;
  atomic_bool stop;
} storm;

typedef struct storm_thread {
  pthread_t id;
  storm *storm;
  unsigned number;
} storm_thread;

static void *request_later(void *cancel) {
  trn_cancel_request(cancel);
  trn_cancel_unref(cancel);
  return NULL;
}

/* What may come of a query that somebody cancels meanwhile. */
static void note(storm *s, trn_status status, int64_t rows, int64_t wanted) {
  if (!status && rows == wanted)
    atomic_fetch_add(&s->rows, 1);
  else if (status == TRN_CANCELLED)
    atomic_fetch_add(&s->cancelled, 1);
  else
    atomic_fetch_add(&s->wrong, 1);
}

static void one_query(storm *s, trn_session *session, unsigned choice) {
  int64_t wanted = 100 + choice % 3; /* few different plans: the cache is hit, waited for and led */
  trn_plan *plan = range_plan(wanted);
  trn_operation *operation = NULL;
  trn_error *error = NULL;
  trn_cancel *cancel = NULL;
  pthread_t canceller;
  bool races = choice % 5 == 1 && trn_cancel_create(&cancel) == TRN_OK &&
               pthread_create(&canceller, NULL, request_later, trn_cancel_ref(cancel)) == 0;
  const trn_execute_request request = {
      .struct_size = sizeof request, .plan = plan, .protocol = "test", .cancel = cancel};
  trn_status status = trn_backend_execute(session, &request, &operation, &error);
  if (status) {
    note(s, status, 0, wanted);
  } else if (choice % 5 == 2) {
    trn_operation_cancel(operation);
    int64_t rows = read_rows(operation, choice & 1, 0, &status, &error);
    note(s, status, rows, wanted); /* it may have been too late */
  } else if (choice % 5 == 3) {
    note(s, TRN_CANCELLED, 0, wanted); /* dropped unread */
  } else {
    int64_t rows = read_rows(operation, choice & 1, 0, &status, &error);
    note(s, status, rows, wanted);
  }
  if (races) pthread_join(canceller, NULL);
  trn_cancel_unref(cancel);
  trn_error_unref(error);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
}

static void *query(void *argument) {
  storm_thread *t = argument;
  static const char *const users[] = {"ann", "bob", "cid"};
  for (unsigned round = 0; round < ROUNDS; round++) {
    trn_session_request request = {.struct_size = sizeof request, .user = users[(t->number + round) % 3]};
    trn_session *session = NULL;
    if (trn_session_open(t->storm->backend, &request, &session, NULL)) {
      atomic_fetch_add(&t->storm->wrong, 1);
      continue;
    }
    for (unsigned i = 0; i < 3; i++) one_query(t->storm, session, t->number * ROUNDS + round * 3 + i);
    trn_session_unref(session);
  }
  return NULL;
}

static void count_table(void *user, const trn_table_info *table) {
  (void)table;
  ++*(unsigned *)user;
}

static void *tables(void *argument) {
  storm_thread *t = argument;
  storm *s = t->storm;
  char name[32], other[32];
  struct ArrowSchema schema;
  snprintf(name, sizeof name, "t%u", t->number);
  snprintf(other, sizeof other, "r%u", t->number);
  if (trn__schema_init(&schema, "+s", "", 0, NULL, 0, 1) ||
      trn__schema_init(schema.children[0], "l", "a", ARROW_FLAG_NULLABLE, NULL, 0, 0))
    abort();
  const trn_table_info info = {.struct_size = sizeof info,
                               .database = "default",
                               .name = name,
                               .schema = &schema,
                               .format = "json",
                               .row_count = -1,
                               .byte_count = -1};
  for (unsigned round = 0; round < ROUNDS / 4; round++) {
    unsigned count = 0;
    trn_table *table = NULL;
    trn_status status = trn_catalog_create_table(s->catalog, NULL, &info, false, NULL);
    if (!status) status = trn_catalog_list_tables(s->catalog, NULL, "default", true, count_table, &count, NULL);
    if (!status) status = trn_catalog_rename_table(s->catalog, NULL, "default", name, "default", other, NULL);
    if (!status) status = trn_catalog_get_table(s->catalog, NULL, "default", other, &table, NULL);
    trn_table_unref(table);
    if (!status) status = trn_catalog_drop_table(s->catalog, NULL, "default", other, true, NULL);
    if (status || !count)
      atomic_fetch_add(&s->wrong, 1);
    else
      atomic_fetch_add(&s->made, 1);
  }
  schema.release(&schema);
  return NULL;
}

static void *reload(void *argument) {
  storm *s = argument;
  while (!atomic_load(&s->stop)) {
    if (trn_layers_reload(s->registry, s->backend, trn_config_get(s->layers, "layers"), NULL))
      atomic_fetch_add(&s->wrong, 1);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  return NULL;
}

static trn_config *stack(void) {
  static const char *const names[] = {"trace", "validate", "cache", "limit"};
  trn_config *root = trn_config_create(), *list = NULL;
  assert_int_equal(trn_config_add(root, "layers", TRN_CONFIG_LIST, NULL, "here", &list, NULL), TRN_OK);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    trn_config *map = NULL, *own = NULL;
    assert_int_equal(trn_config_add(list, NULL, TRN_CONFIG_MAP, NULL, "here", &map, NULL), TRN_OK);
    assert_int_equal(trn_config_add(map, names[i], TRN_CONFIG_MAP, NULL, "here", &own, NULL), TRN_OK);
    if (!strcmp(names[i], "limit")) put(own, "concurrent", "3"), put(own, "queue", "1000");
  }
  return root;
}

static void nothing_is_lost_among_threads(void **state) {
  (void)state;
  static storm s;
  storm_thread threads[THREADS], makers[4];
  pthread_t reloader;
  char folder[] = "/tmp/test_api_storm.XXXXXX";
  assert_non_null(mkdtemp(folder));
  bench_open(&s.bench, TRN_SCRIPTED_ARRAYS);
  s.bench.has_refused = true;
  assert_int_equal(trn_registry_create(&s.registry), TRN_OK);
  s.layers = stack();
  const trn_layers_options options = {.struct_size = sizeof options, .sink = log_event, .sink_user = &s.bench.log};
  assert_int_equal(
      trn_layers_build(s.registry, trn_config_get(s.layers, "layers"), s.bench.base, &options, &s.backend, NULL),
      TRN_OK);
  const trn_warehouse_options where = {.struct_size = sizeof where, .directory = folder};
  assert_int_equal(trn_warehouse_open(&where, &s.catalog, NULL), TRN_OK);
  assert_int_equal(pthread_create(&reloader, NULL, reload, &s), 0);
  for (unsigned i = 0; i < THREADS; i++) {
    threads[i] = (storm_thread){.storm = &s, .number = i};
    assert_int_equal(pthread_create(&threads[i].id, NULL, query, &threads[i]), 0);
  }
  for (unsigned i = 0; i < 4; i++) {
    makers[i] = (storm_thread){.storm = &s, .number = i};
    assert_int_equal(pthread_create(&makers[i].id, NULL, tables, &makers[i]), 0);
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i].id, NULL);
  for (unsigned i = 0; i < 4; i++) pthread_join(makers[i].id, NULL);
  atomic_store(&s.stop, true);
  pthread_join(reloader, NULL);
  print_message("%u whole, %u cancelled or dropped, %u tables\n", atomic_load(&s.rows), atomic_load(&s.cancelled),
                atomic_load(&s.made));
  assert_int_equal(atomic_load(&s.wrong), 0);
  assert_int_equal(atomic_load(&s.rows) + atomic_load(&s.cancelled), THREADS * ROUNDS * 3);
  assert_true(atomic_load(&s.rows) > THREADS * ROUNDS);
  assert_int_equal(atomic_load(&s.made), 4 * (ROUNDS / 4));
  trn_catalog_unref(s.catalog);
  trn_backend_unref(s.backend);
  bench_close(&s.bench); /* sessions and streams of the backend: as many closed as opened */
  trn_registry_destroy(s.registry);
  trn_config_destroy(s.layers);
  trn__remove_all(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_among_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
