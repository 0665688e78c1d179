/* trace: spans, logs, metrics. route: where queries go. */
#include "support/layer_fixture.h"

/* ---- trace ---- */

typedef struct span_log {
  pthread_mutex_t mu;
  char name[32][16], trace[32][40], span[32][20], parent[32][20];
  size_t count;
} span_log;

static void take_span(void *user, const trn_event *e) {
  span_log *log = user;
  pthread_mutex_lock(&log->mu);
  if (log->count < 32) {
    size_t i = log->count++;
    snprintf(log->name[i], sizeof log->name[i], "%s", e->action);
    snprintf(log->trace[i], sizeof log->trace[i], "%s", e->trace_id);
    snprintf(log->span[i], sizeof log->span[i], "%s", e->span_id);
    snprintf(log->parent[i], sizeof log->parent[i], "%s", e->parent_id ? e->parent_id : "");
  }
  pthread_mutex_unlock(&log->mu);
}

static size_t find_span(const span_log *log, const char *name) {
  size_t i = 0;
  while (i < log->count && strcmp(log->name[i], name) != 0) i++;
  assert_true(i < log->count);
  return i;
}

/* Catches what goes on to the next backend. */
static trn_status keep_parent(void *self, trn_layer_session *s, const trn_execute_request *request,
                              trn_operation **out, trn_error **error) {
  snprintf(self, 64, "%s", request->traceparent ? request->traceparent : "");
  return trn_next_execute(s, request, out, error);
}

static char *file_text(const char *path) {
  char *text = calloc(1, 1 << 16);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

static void spans_hang_together_and_go_on(void **state) {
  (void)state;
  bench b;
  span_log spans = {.mu = PTHREAD_MUTEX_INITIALIZER};
  char parent[64] = "", path[] = "/tmp/trn-trace-XXXXXX", audit[] = "/tmp/trn-audit-XXXXXX";
  close(mkstemp(path)), close(mkstemp(audit));
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_layer_ops ops = {.struct_size = sizeof ops, .name = "keep", .execute = keep_parent};
  trn_backend *inner = NULL, *backend = NULL;
  assert_int_equal(trn_layer_create(&ops, parent, b.base, &inner, NULL), TRN_OK);
  trn_config *config = config_of("slow=1ms\nstatement_bytes=10");
  trn_config_set(config, "file", path, NULL);
  trn_config_set(config, "audit_file", audit, NULL);
  trn_span_exporter exporter = {.struct_size = sizeof exporter, .span = take_span, .user = &spans};
  trn_trace_options options = {.struct_size = sizeof options,
                               .config = config,
                               .sink = log_event,
                               .sink_user = &b.log,
                               .exporter = &exporter};
  assert_int_equal(trn_trace_create(&options, inner, &backend, NULL), TRN_OK);
  trn_config_destroy(config);
  trn_session *session = session_of(backend, "ann", NULL);
  plan_spec spec = {.path = "/data/sales", .table = "sales"};
  trn_plan *plan = NULL;
  trn_operation *operation = NULL;
  trn_status status;
  assert_int_equal(plan_of(session, &spec, &plan, NULL), TRN_OK);
  trn_execute_request request = {.struct_size = sizeof request,
                                 .plan = plan,
                                 .protocol = "spark",
                                 .statement = "select \"s\xc3\xa9\xc3\xa9",
                                 .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
  trn_script slow = {.pull_delay_ms = 5};
  (void)slow;
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  assert_int_equal(read_rows(operation, true, 0, &status, NULL), 3);
  size_t call = find_span(&spans, "call"), execute = find_span(&spans, "execute"), fetch = find_span(&spans, "fetch");
  assert_string_equal(spans.trace[call], "0af7651916cd43dd8448eb211c80319c");
  assert_string_equal(spans.parent[call], "b7ad6b7169203331");
  assert_string_equal(spans.parent[execute], spans.span[call]);
  assert_string_equal(spans.parent[fetch], spans.span[call]);
  find_span(&spans, "open");
  char expected[64]; /* the backend's spans are below that of the execution */
  snprintf(expected, sizeof expected, "00-0af7651916cd43dd8448eb211c80319c-%s-01", spans.span[execute]);
  assert_string_equal(parent, expected);
  trn_operation_unref(operation);

  request.traceparent = "00-nonsense"; /* then a trace of its own */
  request.plan = range_plan(2);
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
  assert_int_equal(strlen(parent), 55);
  assert_null(strstr(parent, "0af7651916cd43dd8448eb211c80319c"));
  trn_operation_unref(operation); /* never read: told as cancelled */
  trn_plan_unref(request.plan);

  char *lines = file_text(path), *audits = file_text(audit);
  assert_non_null(strstr(lines, "\"kind\":\"slow\""));
  assert_non_null(strstr(lines, "\"statement\":\"select \\\"s\"")); /* cut, between characters */
  assert_non_null(strstr(audits, "\"object\":\"main.shop.sales\""));
  assert_non_null(strstr(audits, "\"user\":\"ann\""));
  assert_non_null(strstr(audits, "\"rows\":3"));
  assert_non_null(strstr(audits, "\"status\":\"CANCELLED\""));
  assert_null(strstr(audits, "\"kind\":\"span\""));
  free(lines), free(audits);
  unlink(path), unlink(audit);
  trn_plan_unref(plan);
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(inner);
  bench_close(&b);
}

static void refusals_are_audited_and_counted(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_config *config = config_of("forbidden_statements=query");
  trn_validate_options deny = {.struct_size = sizeof deny, .config = config};
  trn_trace_options options = {.struct_size = sizeof options, .sink = log_event, .sink_user = &b.log};
  trn_backend *inner = NULL, *backend = NULL;
  assert_int_equal(trn_validate_create(&deny, b.base, &inner, NULL), TRN_OK);
  trn_config_destroy(config);
  assert_int_equal(trn_trace_create(&options, inner, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_status status;
  run_plan(session, range_plan(3), &status, NULL);
  assert_int_equal(status, TRN_PERMISSION_DENIED);
  assert_true(log_has(&b.log, "trace query  PERMISSION_DENIED"));
  char *text = NULL;
  assert_int_equal(trn_metrics_render(backend, &text), TRN_OK);
  assert_non_null(strstr(text, "trunnion_queries_total{protocol=\"test\",status=\"PERMISSION_DENIED\"} 1\n"));
  assert_non_null(strstr(text, "trunnion_queries_running{protocol=\"test\"} 0\n"));
  assert_non_null(strstr(text, "trunnion_sessions 1\n"));
  assert_non_null(strstr(text, "trunnion_query_seconds_bucket{protocol=\"test\",le=\"+Inf\"} 1\n"));
  trn_free(text);
  assert_int_equal(trn_metrics_render(inner, &text), TRN_NOT_FOUND);
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(inner);
  bench_close(&b);
}

static void metrics_do_not_grow_with_what_clients_say(void **state) {
  (void)state;
  bench b;
  trn_backend *backend = NULL;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(trn_trace_create(NULL, b.base, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  for (int i = 0; i < 50; i++) {
    char protocol[32];
    trn_operation *operation = NULL;
    trn_plan *plan = range_plan(1);
    snprintf(protocol, sizeof protocol, "p%d\"\n", i);
    trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .protocol = protocol};
    assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
    trn_operation_unref(operation);
    trn_plan_unref(plan);
  }
  char *text = NULL;
  size_t lines = 0;
  assert_int_equal(trn_metrics_render(backend, &text), TRN_OK);
  for (char *at = text; (at = strstr(at, "trunnion_result_rows_total{")); at++) lines++;
  assert_int_equal(lines, 16);
  assert_non_null(strstr(text, "protocol=\"other\"} "));
  trn_free(text);
  trn_session_unref(session);
  trn_backend_unref(backend);
  bench_close(&b);
}

/* ---- OTLP ---- */

typedef struct collector {
  pthread_mutex_t mu;
  char bytes[1 << 16];
  size_t size;
  atomic_int calls;
} collector;

static void collect(trn_call *call, void *user, trn_slice message) {
  collector *c = user;
  pthread_mutex_lock(&c->mu);
  if (message.size <= sizeof c->bytes) memcpy(c->bytes, message.data, c->size = message.size);
  pthread_mutex_unlock(&c->mu);
  if (message.release) message.release(message.owner);
  trn_slice empty = {.data = "", .size = 0};
  trn_call_send(call, &empty, 1, TRN_SEND_MORE);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
  atomic_fetch_add(&c->calls, 1);
}
static void collected(trn_call *call, void *user) {
  (void)call, (void)user;
}

/* Length-delimited fields nest as the definitions of OTLP say: the bytes of the innermost one at the path. */
static trn_str field_at(trn_str message, const unsigned *path) {
  for (; *path; path++) {
    size_t at = 0;
    trn_str found = {0};
    while (at < message.size) {
      uint64_t numbers[2] = {0, 0};
      for (int n = 0; n < 2; n++) {
        for (int shift = 0; at < message.size; shift += 7) {
          unsigned char byte = (unsigned char)message.data[at++];
          numbers[n] |= (uint64_t)(byte & 0x7f) << shift;
          if (byte < 0x80) break;
        }
        if (n == 0 && (numbers[0] & 7) == 1) at += 8;
        if (n == 0 && (numbers[0] & 7) == 1) break;
      }
      if ((numbers[0] & 7) != 2) continue;
      assert_true(numbers[1] <= message.size - at);
      if (numbers[0] >> 3 == *path && !found.data) found = (trn_str){message.data + at, numbers[1]};
      at += numbers[1];
    }
    assert_non_null(found.data);
    message = found;
  }
  return message;
}

static void spans_reach_a_collector(void **state) {
  (void)state;
  static collector c = {.mu = PTHREAD_MUTEX_INITIALIZER};
  bench b;
  trn_routes *routes = NULL;
  trn_channel *channel = NULL;
  trn_span_exporter exporter;
  trn_backend *backend = NULL;
  trn_method method = {.struct_size = sizeof method,
                       .path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                       .kind = TRN_METHOD_UNARY,
                       .on_message = collect,
                       .on_done = collected,
                       .service = &c};
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  assert_int_equal(trn_routes_add(routes, &method, 1, NULL), TRN_OK);
  trn_channel_options channel_options = {.struct_size = sizeof channel_options, .routes = routes};
  assert_int_equal(trn_channel_open(NULL, &channel_options, &channel, NULL), TRN_OK);
  assert_int_equal(trn_otlp_exporter_create(channel, "shop", &exporter), TRN_OK);
  trn_channel_unref(channel);
  trn_trace_options options = {.struct_size = sizeof options, .exporter = &exporter};
  assert_int_equal(trn_trace_create(&options, b.base, &backend, NULL), TRN_OK);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_status status;
  for (int i = 0; i < 30; i++) assert_int_equal(run_plan(session, range_plan(2), &status, NULL), 2);
  for (int i = 0; i < 5000 && !c.calls; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(c.calls, 1); /* 90 spans: a batch, and a rest */
  pthread_mutex_lock(&c.mu);
  trn_str all = {c.bytes, c.size};
  trn_str service = field_at(all, (unsigned[]){1, 1, 1, 2, 1, 0}), scope = field_at(all, (unsigned[]){1, 2, 1, 1, 0});
  trn_str trace = field_at(all, (unsigned[]){1, 2, 2, 1, 0}), span = field_at(all, (unsigned[]){1, 2, 2, 2, 0});
  trn_str name = field_at(all, (unsigned[]){1, 2, 2, 5, 0});
  assert_int_equal(service.size, 4);
  assert_memory_equal(service.data, "shop", 4);
  assert_memory_equal(scope.data, "trunnion", 8);
  assert_int_equal(trace.size, 16);
  assert_int_equal(span.size, 8);
  assert_memory_equal(name.data, "execute", name.size);
  pthread_mutex_unlock(&c.mu);
  trn_session_unref(session);
  trn_backend_unref(backend);
  for (int i = 0; i < 5000 && c.calls < 2; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(c.calls, 2); /* the rest, at the end */
  bench_close(&b);
  trn_routes_destroy(routes);
}

/* ---- route ---- */

typedef struct routed {
  bench near, far;
  trn_backend *backend;
  trn_session *ann;
  bool far_is_sick;
} routed;

static bool far_is_healthy(void *user) {
  return !((routed *)user)->far_is_sick;
}

static void routed_open(routed *r, trn_config *config, const char *const *functions, size_t function_count,
                        trn_route_choice choose) {
  bench_open(&r->near, TRN_SCRIPTED_ARRAYS);
  bench_open(&r->far, TRN_SCRIPTED_ARRAYS);
  r->far_is_sick = false;
  trn_route_target target = {.name = "far",
                             .backend = r->far.base,
                             .functions = functions,
                             .function_count = function_count,
                             .is_healthy = far_is_healthy,
                             .user = r};
  trn_route_options options = {.struct_size = sizeof options,
                               .config = config,
                               .targets = &target,
                               .target_count = 1,
                               .choose = choose,
                               .choose_user = r,
                               .sink = log_event,
                               .sink_user = &r->near.log};
  trn_error *error = NULL;
  trn_status status = trn_route_create(&options, r->near.base, &r->backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_config_destroy(config);
  r->ann = session_of(r->backend, "ann", "analysts");
}

static void routed_close(routed *r) {
  trn_session_unref(r->ann);
  trn_backend_unref(r->backend);
  bench_close(&r->near);
  bench_close(&r->far);
}

static void expect(routed *r, uint64_t near, uint64_t far) {
  assert_int_equal(trn__scripted_count(r->near.control).executed, near);
  assert_int_equal(trn__scripted_count(r->far.control).executed, far);
}

static const plan_spec SALES = {.path = "/data/sales", .table = "sales"};

static int64_t query(routed *r, const plan_spec *spec) {
  trn_plan *plan = NULL;
  trn_status status;
  trn_error *error = NULL;
  assert_int_equal(plan_of(r->ann, spec, &plan, NULL), TRN_OK);
  int64_t rows = run_plan(r->ann, plan, &status, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  trn_error_unref(error);
  return rows;
}

static void sources_are_opened_where_the_query_goes(void **state) {
  (void)state;
  routed r;
  trn_config *config = config_of("");
  trn_config *rule = add_map(config, "rules");
  put(rule, "tables", "*.other");
  put(rule, "backend", "far");
  routed_open(&r, config, NULL, 0, NULL);
  plan_spec other = {.path = "/data/other", .table = "other"};
  assert_int_equal(query(&r, &SALES), 3);
  expect(&r, 1, 0);
  assert_int_equal(query(&r, &other), 3);
  expect(&r, 1, 1);
  assert_true(log_has(&r.near.log, "route rule far OK"));
  assert_true(log_has(&r.near.log, "route default default OK"));
  routed_close(&r);
}

static void rules_are_by_user_tag_setting_and_size(void **state) {
  (void)state;
  static const char *const rules[][2] = {{"groups", "analysts"}, {"bytes_min", "1000"}, {"tags", "big"}, {"setting", "where"}};
  for (size_t i = 0; i < 4; i++) {
    routed r;
    trn_config *config = config_of("");
    trn_config *rule = add_map(config, "rules");
    put(rule, rules[i][0], rules[i][1]);
    if (i == 3) put(rule, "setting_value", "f*");
    put(rule, "backend", "far");
    routed_open(&r, config, NULL, 0, NULL);
    trn_plan *plan = NULL;
    trn_operation *operation = NULL;
    const char *tag = "big";
    assert_int_equal(plan_of(r.ann, &SALES, &plan, NULL), TRN_OK);
    if (i == 3) trn_session_set(r.ann, "where", "far");
    trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .tags = &tag, .tag_count = i == 2};
    assert_int_equal(trn_backend_execute(r.ann, &request, &operation, NULL), TRN_OK);
    expect(&r, 0, 1);
    trn_operation_unref(operation);
    trn_plan_unref(plan);
    trn_session *bob = session_of(r.backend, "bob", NULL), *ann = r.ann;
    trn_status status;
    run_plan(bob, range_plan(3), &status, NULL); /* none of it */
    expect(&r, 1, 1);
    (void)ann;
    trn_session_unref(bob);
    routed_close(&r);
  }
}

static trn_plan *upper_plan(void) {
  trn_arena *arena = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)}, made = {.id = 2, .type = trn__type(TRN_TYPE_STRING)};
  trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.end = 3;
  range->u.range.step = 1;
  const trn_expr *text = trn__expr_string(arena, "x", 1);
  const trn_expr *call = trn__expr_call(arena, TRN_HOME_LIBRARY, "trn.upper", made.type, false, &text, 1);
  return plan_end(arena, trn__rel_project(arena, range, &call, &made, 1), NULL, 3);
}

static const char *always_far(void *user, trn_session *session, const trn_plan *plan,
                              const trn_execute_request *request) {
  (void)user, (void)session, (void)plan, (void)request;
  return "far";
}

static void what_a_backend_cannot_run_goes_elsewhere(void **state) {
  (void)state;
  routed r;
  const char *functions[] = {"trn.lower"};
  routed_open(&r, config_of(""), functions, 1, always_far);
  trn_script done = {.execute_status = TRN_ABORTED};
  r.near.script = r.far.script = &done;
  trn_status status;
  run_plan(r.ann, range_plan(3), &status, NULL);
  expect(&r, 0, 1);
  run_plan(r.ann, upper_plan(), &status, NULL);
  expect(&r, 1, 1);
  routed_close(&r);
}

static void sick_backends_are_passed_over_and_failures_make_them_sick(void **state) {
  (void)state;
  routed r;
  trn_script away = {.execute_status = TRN_UNAVAILABLE};
  routed_open(&r, config_of("failures=2\nrest=50ms"), NULL, 0, always_far);
  trn_status status;
  r.far_is_sick = true;
  assert_int_equal(run_plan(r.ann, range_plan(3), &status, NULL), 3);
  expect(&r, 1, 0);
  r.far_is_sick = false;
  r.far.script = &away;
  for (uint64_t i = 1; i <= 2; i++) { /* tried, then the next one */
    assert_int_equal(run_plan(r.ann, range_plan(3), &status, NULL), 3);
    expect(&r, 1 + i, i);
  }
  assert_true(log_has(&r.near.log, "route fallback default OK"));
  assert_int_equal(run_plan(r.ann, range_plan(3), &status, NULL), 3);
  expect(&r, 4, 2); /* not even tried */
  r.far.script = NULL;
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  assert_int_equal(run_plan(r.ann, range_plan(3), &status, NULL), 3);
  expect(&r, 4, 3);
  routed_close(&r);
}

static void sessions_stick_when_told(void **state) {
  (void)state;
  routed r;
  trn_config *config = config_of("sticky=true");
  trn_config *rule = add_map(config, "rules");
  put(rule, "tables", "other");
  put(rule, "backend", "far");
  routed_open(&r, config, NULL, 0, NULL);
  plan_spec other = {.path = "/data/other", .table = "other"};
  assert_int_equal(query(&r, &other), 3);
  assert_int_equal(query(&r, &SALES), 3); /* would have stayed near */
  expect(&r, 0, 2);
  routed_close(&r);
}

static void a_source_that_only_one_backend_has_is_named(void **state) {
  (void)state;
  routed r;
  routed_open(&r, config_of(""), NULL, 0, always_far);
  trn_session *base = session_of(r.near.base, "root", NULL);
  trn_plan *plan = NULL;
  trn_status status;
  trn_error *error = NULL;
  assert_int_equal(plan_of(base, &SALES, &plan, NULL), TRN_OK); /* not opened through the layer */
  run_plan(r.ann, plan, &status, &error);
  assert_int_equal(status, TRN_FAILED_PRECONDITION);
  assert_non_null(strstr(trn_error_message(error), "cannot be read at backend 'far'"));
  trn_error_unref(error);
  trn_session_unref(base);
  routed_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_hang_together_and_go_on),
      cmocka_unit_test(refusals_are_audited_and_counted),
      cmocka_unit_test(metrics_do_not_grow_with_what_clients_say),
      cmocka_unit_test(spans_reach_a_collector),
      cmocka_unit_test(sources_are_opened_where_the_query_goes),
      cmocka_unit_test(rules_are_by_user_tag_setting_and_size),
      cmocka_unit_test(what_a_backend_cannot_run_goes_elsewhere),
      cmocka_unit_test(sick_backends_are_passed_over_and_failures_make_them_sick),
      cmocka_unit_test(sessions_stick_when_told),
      cmocka_unit_test(a_source_that_only_one_backend_has_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
