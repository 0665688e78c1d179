/* Layers around catalogs: what may be created, dropped, listed and located where; who is told of changes. */
#include "support/layer_fixture.h"

typedef struct kept {
  bench bench;
  trn_backend *authorize, *backend; /* backend: trace around authorize around cache */
  trn_backend *cache;
  trn_session *ann;
  trn_catalog *catalog;
} kept;

static void kept_open(kept *k, trn_config *config) {
  bench_open(&k->bench, TRN_SCRIPTED_ARRAYS);
  trn_cache_options c = {.struct_size = sizeof c, .sink = log_event, .sink_user = &k->bench.log};
  trn_authorize_options a = {
      .struct_size = sizeof a, .config = config, .sink = log_event, .sink_user = &k->bench.log};
  trn_trace_options t = {.struct_size = sizeof t, .sink = log_event, .sink_user = &k->bench.log};
  assert_int_equal(trn_cache_create(&c, k->bench.base, &k->cache, NULL), TRN_OK);
  assert_int_equal(trn_authorize_create(&a, k->cache, &k->authorize, NULL), TRN_OK);
  assert_int_equal(trn_trace_create(&t, k->authorize, &k->backend, NULL), TRN_OK);
  trn_config_destroy(config);
  k->ann = session_of(k->backend, "ann", NULL);
  trn_error *error = NULL;
  trn_status status = trn_session_get_catalog(k->ann, NULL, &k->catalog, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
}

static void kept_close(kept *k) {
  trn_catalog_unref(k->catalog);
  trn_session_unref(k->ann);
  trn_backend_unref(k->backend);
  trn_backend_unref(k->authorize);
  trn_backend_unref(k->cache);
  bench_close(&k->bench);
}

static trn_status create(kept *k, const char *name, const char *location) {
  struct ArrowSchema schema;
  table_schema(&schema);
  trn_table_info info = {.struct_size = sizeof info,
                         .database = TRN_DEFAULT_DATABASE,
                         .name = name,
                         .kind = location ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED,
                         .schema = &schema,
                         .format = "parquet",
                         .location = location};
  trn_error *error = NULL;
  trn_status status = trn_catalog_create_table(k->catalog, k->ann, &info, false, &error);
  if (status && status != TRN_PERMISSION_DENIED) print_error("%s\n", trn_error_message(error));
  trn_error_unref(error);
  trn__schema_release(&schema);
  return status;
}

static void name_table(void *user, const trn_table_info *table) {
  trn__strbuf_printf(user, "%s ", table->name);
}

static trn_config *rules(void) {
  trn_config *config = config_of(""), *rule = add_map(config, "rules");
  put_list(rule, "allow", LIST("create", "read", "drop"));
  put(rule, "tables", "default.mine*");
  rule = add_map(config, "rules");
  put_list(rule, "allow", LIST("create"));
  put(rule, "tables", "shared");
  rule = add_map(config, "rules");
  put(rule, "allow", "create");
  put(rule, "paths", "/lake");
  return config;
}

static void definitions_need_the_right_to_name_and_place(void **state) {
  (void)state;
  kept k;
  kept_open(&k, rules());
  assert_int_equal(create(&k, "mine1", NULL), TRN_OK);
  assert_int_equal(create(&k, "shared", NULL), TRN_OK);
  assert_int_equal(create(&k, "other", NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(create(&k, "mine2", "/etc/secret"), TRN_PERMISSION_DENIED);
  assert_int_equal(create(&k, "mine2", "/lake/../etc"), TRN_PERMISSION_DENIED);
  assert_int_equal(create(&k, "mine2", "/lake/mine2"), TRN_OK);
  trn_catalog *catalog = k.catalog;
  assert_int_equal(trn_catalog_drop_table(catalog, k.ann, "default", "shared", false, NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(trn_catalog_rename_table(catalog, k.ann, "default", "mine1", "default", "theirs", NULL),
                   TRN_PERMISSION_DENIED); /* both names count */
  assert_int_equal(trn_catalog_rename_table(catalog, k.ann, "default", "mine1", "default", "mine3", NULL), TRN_OK);
  trn_database_info database = {.struct_size = sizeof database, .name = "mine"};
  assert_int_equal(trn_catalog_create_database(catalog, k.ann, &database, NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(trn_catalog_drop_table(catalog, k.ann, "default", "mine3", false, NULL), TRN_OK);
  assert_true(log_has(&k.bench.log, "trace create "));
  assert_true(log_has(&k.bench.log, "trace drop "));
  assert_true(log_has(&k.bench.log, "authorize deny "));
  kept_close(&k);
}

static void lists_and_descriptions_show_what_one_has_a_right_to(void **state) {
  (void)state;
  kept k;
  trn_strbuf names = {0};
  trn_table *table = NULL;
  kept_open(&k, rules());
  assert_int_equal(create(&k, "mine1", NULL), TRN_OK);
  trn_session *root = session_of(k.bench.base, "root", NULL);
  trn_catalog *inner = NULL;
  assert_int_equal(trn_session_get_catalog(root, NULL, &inner, NULL), TRN_OK); /* the same, unguarded */
  struct ArrowSchema schema;
  table_schema(&schema);
  trn_table_info info = {.struct_size = sizeof info,
                         .database = "default",
                         .name = "hidden",
                         .schema = &schema,
                         .format = "parquet"};
  assert_int_equal(trn_catalog_create_table(inner, root, &info, false, NULL), TRN_OK);
  trn__schema_release(&schema);
  assert_int_equal(trn_catalog_list_tables(k.catalog, k.ann, "default", false, name_table, &names, NULL), TRN_OK);
  assert_string_equal(names.data, "mine1 ");
  trn__strbuf_finish(&names);
  assert_int_equal(trn_catalog_get_table(k.catalog, k.ann, "default", "hidden", &table, NULL), TRN_PERMISSION_DENIED);
  assert_null(table);
  assert_int_equal(trn_catalog_get_table(k.catalog, k.ann, "default", "mine1", &table, NULL), TRN_OK);
  trn_table_unref(table);
  assert_int_equal(trn_catalog_list_tables(inner, root, "default", false, name_table, &names, NULL), TRN_OK);
  assert_string_equal(names.data, "hidden mine1 ");
  trn__strbuf_finish(&names);
  trn_catalog_unref(inner);
  trn_session_unref(root);
  kept_close(&k);
}

static void a_change_of_a_table_forgets_what_was_read_of_it(void **state) {
  (void)state;
  kept k;
  kept_open(&k, config_of("default=allow"));
  const char *own = trn_catalog_name(k.catalog);
  assert_int_equal(create(&k, "sales", NULL), TRN_OK);
  for (int i = 0; i < 2; i++) { /* a result that was made of the table, whoever opened it */
    trn_arena *arena = trn__arena_create(0);
    trn_scan_column columns[] = {{"id", trn__type(TRN_TYPE_INT64), true}};
    const trn_rel *scan = NULL;
    plan_spec spec = {.path = "/data/sales", .version = "v1"};
    assert_int_equal(open_scan(k.ann, &spec, arena, 10, &scan, NULL), TRN_OK);
    trn_scan_info info = {.struct_size = sizeof info,
                          .kind = TRN_SCAN_TABLE,
                          .catalog = own,
                          .database = "default",
                          .table = "sales",
                          .columns = columns,
                          .column_count = 1,
                          .version = "v1"};
    trn_scan_label *label = NULL;
    assert_int_equal(trn_scan_label_create(&info, &label), TRN_OK);
    ((trn_rel *)scan)->u.scan.info = label;
    assert_int_equal(trn__label_hold(arena, label), TRN_OK);
    trn_scan_label_unref(label);
    trn_status status;
    assert_int_equal(run_plan(k.ann, plan_end(arena, scan, NAMES, 20), &status, NULL), 3);
  }
  trn_cache_counts counts = {.struct_size = sizeof counts};
  assert_true(trn_cache_count(k.cache, &counts));
  assert_int_equal(counts.hits, 1);
  assert_int_equal(counts.entries, 1);
  assert_int_equal(create(&k, "other", NULL), TRN_OK); /* not this one */
  trn_cache_count(k.cache, &counts);
  assert_int_equal(counts.entries, 1);
  assert_int_equal(trn_catalog_truncate_table(k.catalog, k.ann, "default", "sales", NULL, 0, NULL), TRN_OK);
  trn_cache_count(k.cache, &counts);
  assert_int_equal(counts.entries, 0);
  assert_true(log_has(&k.bench.log, "cache invalidate"));
  kept_close(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(definitions_need_the_right_to_name_and_place),
      cmocka_unit_test(lists_and_descriptions_show_what_one_has_a_right_to),
      cmocka_unit_test(a_change_of_a_table_forgets_what_was_read_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
