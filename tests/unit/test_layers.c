/* Layers as backends: the conformance suite on each alone and on random stacks; the framework; order. */
#include "support/layer_fixture.h"

#include "conformance/backend_suite.h"

/* ---- stacks ---- */

static void count_span(void *user, const trn_event *span) {
  event_log *log = user;
  pthread_mutex_lock(&log->mu);
  trn__strbuf_printf(&log->text, "span %s\n", span->action ? span->action : "-");
  pthread_mutex_unlock(&log->mu);
}
static void no_flush(void *user, uint64_t timeout_ms) {
  (void)user, (void)timeout_ms;
}

/* Something that lets everything through, but looks at it. */
static trn_backend *around(const char *name, trn_backend *inner, event_log *log) {
  trn_backend *out = NULL;
  trn_error *error = NULL;
  trn_status status = TRN_NOT_FOUND;
  if (strcmp(name, "authorize") == 0) {
    trn_config *config = config_of("default=allow");
    trn_config *rule = add_map(config, "rules");
    put(rule, "deny", "read");
    put(rule, "tables", "secret.*");
    trn_authorize_options o = {.struct_size = sizeof o, .config = config, .sink = log_event, .sink_user = log};
    status = trn_authorize_create(&o, inner, &out, &error);
    trn_config_destroy(config);
  } else if (strcmp(name, "validate") == 0) {
    trn_config *config = config_of("depth=100\nnodes=1000\nforbidden_functions[]=reflect");
    trn_validate_options o = {.struct_size = sizeof o, .config = config, .sink = log_event, .sink_user = log};
    status = trn_validate_create(&o, inner, &out, &error);
    trn_config_destroy(config);
  } else if (strcmp(name, "cache") == 0) {
    trn_config *config = config_of("memory=1M\nentry=600K\nwait=20ms");
    trn_cache_options o = {.struct_size = sizeof o, .config = config, .sink = log_event, .sink_user = log};
    status = trn_cache_create(&o, inner, &out, &error);
    trn_config_destroy(config);
  } else if (strcmp(name, "trace") == 0) {
    trn_trace_options o = {.struct_size = sizeof o, .sink = log_event, .sink_user = log};
    status = trn_trace_create(&o, inner, &out, &error);
  } else if (strcmp(name, "exported") == 0) { /* a trace whose spans go somewhere, as OTLP's do */
    const trn_span_exporter exporter = {.struct_size = sizeof exporter, .span = count_span, .flush = no_flush, .user = log};
    trn_trace_options o = {.struct_size = sizeof o, .exporter = &exporter};
    status = trn_trace_create(&o, inner, &out, &error);
  } else if (strcmp(name, "route") == 0) {
    trn_route_options o = {.struct_size = sizeof o, .sink = log_event, .sink_user = log};
    status = trn_route_create(&o, inner, &out, &error);
  } else if (strcmp(name, "limit") == 0) {
    trn_config *config = config_of("concurrent=8\nqueue=100\nresult_bytes=100G\nrun_time=10m");
    trn_limit_options o = {.struct_size = sizeof o, .config = config, .sink = log_event, .sink_user = log};
    status = trn_limit_create(&o, inner, &out, &error);
    trn_config_destroy(config);
  } else if (strcmp(name, "plain") == 0) {
    trn_layer_ops ops = {.struct_size = sizeof ops, .name = "plain"};
    status = trn_layer_create(&ops, NULL, inner, &out, &error);
  }
  if (status) print_error("%s: %s\n", name, trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  return out;
}

static const char *const ALL[] = {"authorize", "validate", "cache", "trace", "exported", "route", "limit", "plain"};
enum { ALL_COUNT = sizeof ALL / sizeof *ALL };

static void conforms(const char *const *names, size_t count, trn_scripted_form form) {
  bench b;
  bench_open(&b, form);
  trn_backend *backend = trn_backend_ref(b.base);
  for (size_t i = 0; i < count; i++) { /* innermost first */
    trn_backend *outer = around(names[i], backend, &b.log);
    trn_backend_unref(backend);
    backend = outer;
  }
  trn_backend_deviations deviations = {.arrays_unimplemented = form == TRN_SCRIPTED_IPC};
  trn_backend_conformance(backend, &deviations);
  if (count == 1 && strcmp(names[0], "exported") == 0) assert_true(log_has(&b.log, "span execute"));
  trn_backend_unref(backend);
  bench_close(&b);
}

static void each_layer_alone_conforms(void **state) {
  (void)state;
  for (size_t i = 0; i < ALL_COUNT; i++) {
    conforms(&ALL[i], 1, TRN_SCRIPTED_ARRAYS);
    if (strcmp(ALL[i], "cache") != 0) conforms(&ALL[i], 1, TRN_SCRIPTED_IPC); /* it has a schema even where the backend has not */
  }
}

static void random_stacks_conform(void **state) {
  (void)state;
  uint64_t seed = (uint64_t)trn__now_ns();
  for (int round = 0; round < 6; round++) {
    const char *names[6];
    size_t count = 2 + (size_t)(trn__hash(&round, sizeof round, seed) % 5);
    for (size_t i = 0; i < count; i++) {
      uint64_t at[2] = {(uint64_t)round, i};
      names[i] = ALL[trn__hash(at, sizeof at, seed) % ALL_COUNT];
      print_message("%s ", names[i]);
    }
    print_message("\n");
    conforms(names, count, TRN_SCRIPTED_ARRAYS);
  }
}

/* ---- the framework ---- */

typedef struct counting {
  atomic_int opened, closed, executed, destroyed;
  trn_status fail_open;
} counting;

static trn_status counting_open(void *self, trn_layer_session *s, void **state, trn_error **error) {
  counting *c = self;
  atomic_fetch_add(&c->opened, 1);
  assert_non_null(trn_layer_session_get(s));
  *state = c;
  return c->fail_open ? trn_error_set(error, c->fail_open, NULL, "no") : TRN_OK;
}
static void counting_close(void *self, trn_layer_session *s, void *state) {
  assert_ptr_equal(state, self);
  assert_ptr_equal(trn_layer_session_state(s), self);
  atomic_fetch_add(&((counting *)self)->closed, 1);
}
static trn_status counting_execute(void *self, trn_layer_session *s, const trn_execute_request *request,
                                   trn_operation **out, trn_error **error) {
  atomic_fetch_add(&((counting *)self)->executed, 1);
  return trn_next_execute(s, request, out, error);
}
static void counting_destroy(void *self) {
  atomic_fetch_add(&((counting *)self)->destroyed, 1);
}

static void a_layer_overrides_what_it_wants(void **state) {
  (void)state;
  bench b;
  counting c = {0};
  trn_backend *backend = NULL;
  trn_layer_ops ops = {.struct_size = sizeof ops,
                       .name = "count",
                       .open_session = counting_open,
                       .close_session = counting_close,
                       .execute = counting_execute,
                       .destroy = counting_destroy};
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(trn_layer_create(&ops, &c, b.base, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_status status;
  assert_int_equal(run_plan(session, range_plan(10), &status, NULL), 10);
  plan_spec spec = {.path = "/data/sales", .table = "sales"};
  trn_plan *plan = NULL;
  assert_int_equal(plan_of(session, &spec, &plan, NULL), TRN_OK); /* sources go through */
  assert_int_equal(run_plan(session, plan, &status, NULL), 3);
  assert_int_equal(c.opened, 1);
  assert_int_equal(c.executed, 2);
  trn_session_unref(session);
  assert_int_equal(c.closed, 1);
  c.fail_open = TRN_UNAVAILABLE; /* the inner session is closed again: bench_close counts */
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_UNAVAILABLE);
  assert_int_equal(c.closed, 1);
  trn_backend_unref(backend);
  for (int i = 0; i < 2000 && !c.destroyed; i++) /* a completion lets go of its plan, and that of the backend */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(c.destroyed, 1);
  bench_close(&b);
}

static void an_old_layer_knows_fewer_slots(void **state) {
  (void)state;
  bench b;
  trn_backend *backend = NULL;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_layer_ops ops = {.struct_size = offsetof(trn_layer_ops, execute), .name = "old", .execute = counting_execute};
  assert_int_equal(trn_layer_create(&ops, NULL, b.base, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_status status;
  assert_int_equal(run_plan(session, range_plan(10), &status, NULL), 10); /* its execute is beyond its size */
  trn_session_unref(session);
  trn_backend_unref(backend);
  ops = (trn_layer_ops){.struct_size = sizeof ops, .source_ref = (trn_source * (*)(void *, trn_layer *, trn_source *))1};
  assert_int_equal(trn_layer_create(&ops, NULL, b.base, &backend, NULL), TRN_INVALID_ARGUMENT);
  bench_close(&b);
}

/* ---- order and building ---- */

static void the_order_of_roles_is_checked(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_backend *cache = around("cache", b.base, &b.log), *authorize = around("authorize", cache, &b.log);
  trn_backend *plain = around("plain", authorize, &b.log), *trace = around("trace", plain, &b.log);
  assert_int_equal(trn_layers_check(trace, NULL), TRN_OK);
  trn_backend *inner = around("authorize", b.base, &b.log), *wrong = around("cache", inner, &b.log);
  trn_error *error = NULL;
  assert_int_equal(trn_layers_check(wrong, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "'authorize' must come before (outside of) 'cache'"));
  trn_error_unref(error);
  trn_backend *all[] = {cache, authorize, plain, trace, inner, wrong};
  for (size_t i = 0; i < 6; i++) trn_backend_unref(all[i]);
  bench_close(&b);
}

static trn_config *list_of(const char *const *names) {
  trn_config *root = trn_config_create();
  for (; *names; names++)
    assert_int_equal(trn_config_set(root, "layers[]", *names, NULL), TRN_OK);
  return root;
}

static void stacks_are_built_from_lists(void **state) {
  (void)state;
  bench b;
  trn_registry *registry = NULL;
  trn_backend *backend = NULL;
  trn_error *error = NULL;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  trn_config *config = list_of(LIST("trace", "validate", "cache", "route", "limit"));
  trn_layers_options options = {.struct_size = sizeof options, .sink = log_event, .sink_user = &b.log};
  trn_status status = trn_layers_build(registry, trn_config_get(config, "layers"), b.base, &options, &backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  assert_int_equal(run_plan(session, range_plan(10), &status, NULL), 10);
  assert_true(log_has(&b.log, "cache miss"));
  assert_true(log_has(&b.log, "trace call"));
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_config_destroy(config);

  config = list_of(LIST("cache", "validate"));
  assert_int_equal(trn_layers_build(registry, trn_config_get(config, "layers"), b.base, &options, &backend, &error),
                   TRN_INVALID_ARGUMENT);
  assert_null(backend);
  trn_error_unref(error);
  error = NULL;
  options.order = TRN_ORDER_WARN;
  assert_int_equal(trn_layers_build(registry, trn_config_get(config, "layers"), b.base, &options, &backend, &error), TRN_OK);
  assert_true(log_has(&b.log, "layers order"));
  trn_backend_unref(backend);
  trn_config_destroy(config);

  config = list_of(LIST("cahce"));
  assert_int_equal(trn_layers_build(registry, trn_config_get(config, "layers"), b.base, &options, &backend, &error), TRN_NOT_FOUND);
  assert_non_null(strstr(trn_error_message(error), "cahce"));
  trn_error_unref(error);
  trn_config_destroy(config);

  config = trn_config_create(); /* one name with its settings */
  trn_config *item = add_map(config, "layers");
  put(put_map(item, "limit"), "concurrent", "0");
  error = NULL;
  assert_int_equal(trn_layers_build(registry, trn_config_get(config, "layers"), b.base, &options, &backend, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "concurrent"));
  trn_error_unref(error);
  trn_config_destroy(config);

  assert_int_equal(trn_layers_build(registry, NULL, b.base, NULL, &backend, NULL), TRN_OK);
  assert_ptr_equal(backend, b.base);
  trn_backend_unref(backend);
  trn_registry_destroy(registry);
  bench_close(&b);
}

/* ---- deferred operations ---- */

typedef struct later {
  trn_session *session;
  trn_plan *plan;
  trn_status fail;
  atomic_int started, cancelled, destroyed;
} later;
static trn_status later_start(void *user, trn_operation **out, trn_error **error) {
  later *l = user;
  atomic_fetch_add(&l->started, 1);
  if (l->fail) return trn_error_set(error, l->fail, NULL, "it did not begin");
  trn_execute_request request = {.struct_size = sizeof request, .plan = l->plan};
  return trn_backend_execute(l->session, &request, out, error);
}
static void later_cancelled(void *user) {
  atomic_fetch_add(&((later *)user)->cancelled, 1);
}
static void later_destroy(void *user) {
  atomic_fetch_add(&((later *)user)->destroyed, 1);
}

static void deferred_operations_begin_fail_and_are_cancelled(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_backend *backend = around("plain", b.base, &b.log);
  trn_session *session = session_of(b.base, "ann", NULL);
  trn_deferred_ops ops = {
      .struct_size = sizeof ops, .start = later_start, .cancelled = later_cancelled, .destroy = later_destroy};
  for (int round = 0; round < 4; round++) { /* begins; fails to begin; is failed; is cancelled */
    later l = {.session = session, .plan = range_plan(5), .fail = round == 1 ? TRN_UNAVAILABLE : TRN_OK};
    trn_execute_request request = {.struct_size = sizeof request, .plan = l.plan, .operation_id = "op"};
    trn_deferred *handle = NULL;
    trn_operation *operation = NULL;
    assert_int_equal(trn_deferred_create(trn__layer_of(backend), &ops, &l, &request, &handle, &operation), TRN_OK);
    assert_string_equal(trn_operation_id(operation), "op");
    assert_int_equal(trn_operation_get_state(operation), TRN_OPERATION_PENDING);
    trn_stream *stream = NULL;
    struct ArrowSchema schema;
    assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
    assert_int_equal(trn_stream_schema(stream, &schema, NULL), TRN_OK); /* before anything ran */
    trn__schema_release(&schema);
    puller p;
    puller_init(&p);
    assert_int_equal(puller_start_array(&p, stream), TRN_OK);
    assert_false(puller_wait(&p, 20));
    trn_error *error = NULL;
    if (round < 2) trn_deferred_start(handle);
    if (round == 2) trn_error_set(&error, TRN_ABORTED, NULL, "no turn");
    if (round == 2) trn_deferred_fail(handle, TRN_ABORTED, error);
    if (round == 3) trn_operation_cancel(operation);
    assert_true(puller_wait(&p, 10000));
    static const trn_status expected[] = {TRN_OK, TRN_UNAVAILABLE, TRN_ABORTED, TRN_CANCELLED};
    assert_int_equal(p.status, expected[round]);
    if (round == 0) assert_int_equal(p.array.length, 5);
    assert_int_equal(l.started, round < 2);
    assert_int_equal(l.cancelled, round == 3);
    trn_error_unref(error);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
    trn_deferred_unref(handle);
    puller_finish(&p);
    for (int i = 0; i < 2000 && !l.destroyed; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(l.destroyed, 1);
    trn_plan_unref(l.plan);
  }
  trn_session_unref(session);
  trn_backend_unref(backend);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_layer_overrides_what_it_wants),
      cmocka_unit_test(an_old_layer_knows_fewer_slots),
      cmocka_unit_test(the_order_of_roles_is_checked),
      cmocka_unit_test(stacks_are_built_from_lists),
      cmocka_unit_test(deferred_operations_begin_fail_and_are_cancelled),
      cmocka_unit_test(each_layer_alone_conforms),
      cmocka_unit_test(random_stacks_conform),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
