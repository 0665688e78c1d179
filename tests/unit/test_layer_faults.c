/* Every allocation fails once, in each layer: made, opened, run, read, closed. The right status, nothing lost (slots,
 * entries, sessions: counted here; memory: by the leak checker of sanitizer builds), and the next run is well. */
#include "support/layer_fixture.h"
#include "support/failing_memory.h"

typedef struct faulty {
  bench bench;
  trn_session *root; /* at the backend itself: made the plans */
  trn_plan *plan, *other;
  trn_config *config;
  const char *name;
  trn_status first; /* that was not OK */
} faulty;

static trn_status make_layer(faulty *f, trn_backend **out) {
  trn_event_sink sink = log_event;
  void *user = &f->bench.log;
  trn_backend *base = f->bench.base;
  if (strcmp(f->name, "authorize") == 0) {
    trn_authorize_options o = {.struct_size = sizeof o, .config = f->config, .sink = sink, .sink_user = user};
    return trn_authorize_create(&o, base, out, NULL);
  }
  if (strcmp(f->name, "validate") == 0) {
    trn_validate_options o = {.struct_size = sizeof o, .config = f->config, .sink = sink, .sink_user = user};
    return trn_validate_create(&o, base, out, NULL);
  }
  trn_cache_options o = {.struct_size = sizeof o, .config = f->config, .sink = sink, .sink_user = user};
  if (strcmp(f->name, "cache") == 0) return trn_cache_create(&o, base, out, NULL);
  if (strcmp(f->name, "limit") == 0) return trn_limit_create(&o, base, out, NULL);
  trn_trace_options t = {.struct_size = sizeof t, .config = f->config, .sink = sink, .sink_user = user};
  if (strcmp(f->name, "trace") == 0) return trn_trace_create(&t, base, out, NULL);
  trn_route_options r = {.struct_size = sizeof r, .config = f->config, .sink = sink, .sink_user = user};
  return trn_route_create(&r, base, out, NULL);
}

static void note(faulty *f, trn_status status) {
  if (status && !f->first) f->first = status;
}

/* One query, read to its end. */
static void run_once(faulty *f, trn_session *session, trn_plan *plan) {
  trn_operation *operation = NULL;
  trn_status status = begin(session, plan, &operation, NULL);
  note(f, status);
  if (status) return;
  read_rows(operation, true, 0, &status, NULL);
  note(f, status);
  char *metrics = NULL;
  if (trn_operation_metrics(operation, &metrics) == TRN_OK) trn_free(metrics);
  trn_operation_unref(operation);
}

static void explain_once(faulty *f, trn_session *session) {
  char *text = NULL;
  trn_status status = trn_backend_explain(session, f->plan, TRN_EXPLAIN_LOGICAL, &text, NULL);
  if (status != TRN_PERMISSION_DENIED) note(f, status); /* as it must be where rows are hidden */
  if (status == TRN_OK) trn_free(text);
  note(f, trn_backend_check(session, f->plan, NULL));
}

static void open_once(faulty *f, trn_session *session, trn_backend *backend) {
  const char *path = "/data/sales";
  trn_source_request request = {.struct_size = sizeof request, .format = "parquet", .paths = &path, .path_count = 1};
  trn_source *source = NULL;
  struct ArrowSchema schema = {0};
  trn_status status = trn_backend_open_source(session, &request, &source, &schema, NULL);
  note(f, status);
  if (status) return;
  trn__schema_release(&schema);
  trn_backend_source_unref(backend, source);
}

/* Two at a time: with one slot the second waits. */
static void run_two(faulty *f, trn_session *session) {
  trn_operation *one = NULL, *two = NULL;
  trn_status status = begin(session, f->plan, &one, NULL);
  note(f, status);
  note(f, begin(session, f->other, &two, NULL));
  if (one) read_rows(one, true, 0, &status, NULL);
  trn_operation_unref(one);
  if (two) read_rows(two, true, 0, &status, NULL);
  note(f, status);
  trn_operation_unref(two);
}

static bool attempt(faulty *f) {
  trn_backend *backend = NULL;
  trn_session *session = NULL;
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  f->first = TRN_OK;
  note(f, make_layer(f, &backend));
  if (!backend) return false;
  note(f, trn_session_open(backend, &request, &session, NULL));
  if (session) {
    run_once(f, session, f->plan);
    run_once(f, session, f->plan);
    run_two(f, session);
    explain_once(f, session);
    open_once(f, session, backend);
    trn_limit_counts counts = {.struct_size = sizeof counts};
    if (trn_limit_count(backend, &counts)) { /* a completion may still be on its way out */
      for (int i = 0; i < 2000 && (counts.running || counts.waiting); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        trn_limit_count(backend, &counts);
      }
      assert_int_equal(counts.running, 0);
      assert_int_equal(counts.waiting, 0);
    }
  }
  trn_session_unref(session);
  trn_backend_unref(backend);
  return f->first == TRN_OK;
}

static void each_allocation_fails(const char *name, trn_config *config) {
  faulty f = {.name = name, .config = config};
  bench_open(&f.bench, TRN_SCRIPTED_ARRAYS);
  f.bench.has_refused = true;
  f.root = session_of(f.bench.base, "root", NULL);
  plan_spec sales = {.path = "/data/sales", .table = "sales", .version = "1"};
  plan_spec other = {.path = "/data/other", .table = "other", .version = "1"};
  assert_int_equal(plan_of(f.root, &sales, &f.plan, NULL), TRN_OK);
  assert_int_equal(plan_of(f.root, &other, &f.other, NULL), TRN_OK);
  struct ArrowSchema schema;
  table_schema(&schema);
  trn_script script = {.schema = &schema}; /* no rows: filters and masks are not evaluated here */
  f.bench.script = &script;
  long long k = 0, tries = 0;
  for (;; k++, tries++) {
    assert_true(tries < 20000);
    failures = 0;
    countdown = k;
    bool ok = attempt(&f);
    countdown = -1;
    if (!failures) {
      assert_true(ok);
      break;
    }
    /* What failed says so; UNAVAILABLE and FAILED_PRECONDITION would send a client on a wrong way. */
    bool is_right = ok || f.first == TRN_RESOURCE_EXHAUSTED;
    if (!is_right) print_error("%s, allocation %lld: %s\n", name, k, trn_status_name(f.first));
    assert_true(is_right);
  }
  print_message("%s: %lld allocations\n", name, k);
  assert_true(k > 20);
  trn__schema_release(&schema);
  trn_plan_unref(f.plan);
  trn_plan_unref(f.other);
  trn_session_unref(f.root);
  trn_config_destroy(config);
  bench_close(&f.bench);
}

static void in_authorize(void **state) {
  (void)state;
  trn_config *config = config_of("");
  trn_config *rule = add_map(config, "rules");
  put_list(rule, "allow", LIST("read"));
  put(rule, "tables", "*");
  put(rule, "filter", "region = current_user() and id in (1, 2) or upper(region) like 'E%'");
  put(put_map(rule, "masks"), "ssn", "case when id > 1 then '***' else ssn end");
  trn_config *paths = add_map(config, "rules");
  put(paths, "allow", "read");
  put(paths, "paths", "/data");
  each_allocation_fails("authorize", config);
}

static void in_validate(void **state) {
  (void)state;
  each_allocation_fails("validate", config_of("depth=100\nnodes=100\nforbidden_functions[]=reflect\nsettings.secrets[]=x"));
}

static void in_cache(void **state) {
  (void)state;
  each_allocation_fails("cache", config_of("memory=1M\nsettings[]=datafusion.*"));
}

static void in_limit(void **state) {
  (void)state;
  each_allocation_fails("limit", config_of("concurrent=1\nqueue=5\nrun_time=1m\nresult_bytes=1M"));
}

static void in_trace(void **state) {
  (void)state;
  each_allocation_fails("trace", config_of("slow=1ms"));
}

static void in_route(void **state) {
  (void)state;
  each_allocation_fails("route", config_of("sticky=true"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_authorize), cmocka_unit_test(in_validate), cmocka_unit_test(in_cache),
      cmocka_unit_test(in_limit),     cmocka_unit_test(in_trace),    cmocka_unit_test(in_route),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
