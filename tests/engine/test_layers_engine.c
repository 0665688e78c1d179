/* Policies over the real engine: row filters and masks change what comes out, nothing of a hidden row shows through, and
 * every layer passes the conformance suite over it. */
#include "support/layer_fixture.h"

#include "conformance/backend_suite.h"

static char csv[] = "/tmp/trn-layers-XXXXXX.csv";

static trn_backend *engine(void) {
  trn_embedded_options options = {.struct_size = sizeof options,
                                  .engine_path = getenv("TRUNNION_ENGINE"),
                                  .functions_path = getenv("TRUNNION_FUNCTIONS"),
                                  .threads = 2};
  trn_backend *backend = NULL;
  trn_error *error = NULL;
  if (!options.engine_path || access(options.engine_path, R_OK)) {
    print_message("SKIPPED: no engine at TRUNNION_ENGINE\n");
    skip();
  }
  trn_status status = trn_embedded_backend_create(&options, &backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  return backend;
}

static int make_csv(void **state) {
  (void)state;
  int fd = mkstemps(csv, 4);
  static const char text[] = "id,region,ssn\n1,EU,111\n2,US,secret\n3,EU,333\n4,,444\n";
  bool ok = fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1;
  close(fd);
  return ok ? 0 : 1;
}
static int drop_csv(void **state) {
  (void)state;
  return unlink(csv);
}

static trn_backend *guarded(trn_config *config, trn_backend *inner) {
  trn_backend *out = NULL;
  trn_error *error = NULL;
  trn_authorize_options options = {.struct_size = sizeof options, .config = config};
  trn_status status = trn_authorize_create(&options, inner, &out, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_config_destroy(config);
  return out;
}

/* The file as a SCAN with a label. */
static const trn_rel *scan_csv(trn_session *session, trn_arena *arena) {
  const char *path = csv;
  trn_kv options[] = {{"has_header", "true"}};
  struct ArrowSchema schema, given;
  table_schema(&given);
  trn_source *source = NULL;
  trn_source_request request = {.struct_size = sizeof request,
                                .format = "csv",
                                .paths = &path,
                                .path_count = 1,
                                .options = options,
                                .option_count = 1,
                                .schema = &given};
  trn_error *error = NULL;
  trn_status status = trn_backend_open_source(session, &request, &source, &schema, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn__schema_release(&given);
  trn__schema_release(&schema);
  plan_spec spec = {.path = path, .version = "1"};
  trn_scan_label *label = label_of(&spec);
  static const uint32_t indexes[] = {0, 1, 2};
  trn_column columns[] = {{10, true, trn__type(TRN_TYPE_INT64)},
                          {11, true, trn__type(TRN_TYPE_STRING)},
                          {12, true, trn__type(TRN_TYPE_STRING)}};
  trn_rel *scan = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, 3);
  scan->u.scan.source = source;
  scan->u.scan.indexes = trn__arena_copy(arena, indexes, sizeof indexes);
  scan->u.scan.info = label;
  assert_int_equal(trn__source_hold(arena, trn_session_backend(session), source), TRN_OK);
  assert_int_equal(trn__label_hold(arena, label), TRN_OK);
  trn_backend_source_unref(trn_session_backend(session), source);
  trn_scan_label_unref(label);
  return scan;
}

/* Rows as "id|region|ssn;", in the file's order. Takes the plan. */
static trn_status rows_of(trn_session *session, trn_plan *plan, char *out, size_t size, char *message) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_error *error = NULL;
  puller p;
  puller_init(&p);
  out[0] = 0;
  trn_status status = begin(session, plan, &operation, &error);
  trn_plan_unref(plan);
  if (status == TRN_OK) status = trn_operation_result_stream(operation, &stream, &error);
  while (status == TRN_OK) {
    struct ArrowArray array;
    status = pull_array(&p, stream, &array);
    if (status || !array.release) break;
    for (int64_t row = 0; row < array.length; row++) {
      int64_t at = array.offset + row;
      struct ArrowArray **c = array.children;
      trn_str region = trn__array_bytes(c[1], "u", at), ssn = trn__array_bytes(c[2], "u", at);
      bool no_region = trn__array_is_null(c[1], at), no_ssn = trn__array_is_null(c[2], at);
      size_t used = strlen(out);
      snprintf(out + used, size - used, "%lld|%.*s|%.*s;", (long long)trn__array_int(c[0], "l", at),
               no_region ? 0 : (int)region.size, region.data, no_ssn ? 0 : (int)ssn.size, ssn.data);
    }
    trn__array_release(&array);
  }
  snprintf(message, 300, "%s", error ? trn_error_message(error) : p.message);
  trn_error_unref(error);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  puller_finish(&p);
  return status;
}

static trn_config *rule_config(const char *filter, const char *mask) {
  trn_config *config = config_of(""), *rule = add_map(config, "rules");
  put(rule, "allow", "read");
  put(rule, "paths", "/tmp");
  if (filter) put(rule, "filter", filter);
  if (mask) put(put_map(rule, "masks"), "ssn", mask);
  return config;
}

static void filters_and_masks_change_what_comes_out(void **state) {
  (void)state;
  static const struct {
    const char *filter, *mask, *expected;
  } cases[] = {{NULL, NULL, "1|EU|111;2|US|secret;3|EU|333;4||444;"},
               {"region = 'EU'", NULL, "1|EU|111;3|EU|333;"},
               {NULL, "concat('*', right(ssn, 2))", "1|EU|*11;2|US|*et;3|EU|*33;4||*44;"},
               {"region = 'EU' or region is null", "if(id > 1, null, ssn)", "1|EU|111;3|EU|;4||;"},
               {"lower(region) = current_user()", NULL, "1|EU|111;3|EU|333;"},
               {"is_member('analysts') and id in (2, 4)", "upper(ssn)", "2|US|SECRET;4||444;"},
               {"is_member('admins')", NULL, ""},
               {"id + 1 between 2 and 3.5 and not region like 'U%'", NULL, "1|EU|111;"},
               {"cast(id as string) = '3' or length(ssn) = 6", "case region when 'US' then sha2(ssn, 256) else 'x' end",
                "2|US|2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b;3|EU|x;"}};
  trn_backend *base = engine();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char rows[1000], message[300];
    trn_backend *backend = guarded(rule_config(cases[i].filter, cases[i].mask), base);
    trn_session *session = session_of(backend, "eu", "analysts");
    trn_arena *arena = trn__arena_create(0);
    const trn_rel *scan = scan_csv(session, arena);
    trn_status status = rows_of(session, plan_end(arena, scan, NAMES, 20), rows, sizeof rows, message);
    if (status) print_error("%s / %s: %s\n", cases[i].filter, cases[i].mask, message);
    assert_int_equal(status, TRN_OK);
    assert_string_equal(rows, cases[i].expected);
    trn_session_unref(session);
    trn_backend_unref(backend);
  }
  trn_backend_unref(base);
}

/* A condition that fails on "secret" tells that the row is there, unless it never sees it. */
static void conditions_do_not_see_hidden_rows(void **state) {
  (void)state;
  char rows[1000], message[300];
  trn_backend *base = engine(), *backend = guarded(rule_config("region = 'EU'", NULL), base);
  trn_session *session = session_of(backend, "eu", NULL), *root = session_of(base, "root", NULL);
  for (int hidden = 0; hidden < 2; hidden++) {
    trn_session *who = hidden ? session : root;
    trn_arena *arena = trn__arena_create(0);
    const trn_rel *scan = scan_csv(who, arena);
    const trn_expr *number = trn__expr_cast(arena, trn__expr_column(arena, &scan->columns[2]), trn__type(TRN_TYPE_INT64), false);
    const trn_expr *args[] = {number, trn__expr_int(arena, trn__type(TRN_TYPE_INT64), 0)};
    const trn_expr *test = trn__expr_call(arena, TRN_HOME_NATIVE, ">", trn__type(TRN_TYPE_BOOL), true, args, 2);
    const trn_rel *filter = trn__rel_filter(arena, scan, test);
    trn_plan *plan = plan_end(arena, filter, NAMES, 20);
    trn_status status = rows_of(who, plan, rows, sizeof rows, message);
    if (hidden && status) print_error("%s\n", message);
    if (hidden)
      assert_int_equal(status, TRN_OK);
    else
      assert_int_not_equal(status, TRN_OK); /* it does fail on that row */
    if (hidden) assert_string_equal(rows, "1|EU|111;3|EU|333;");
  }
  trn_session_unref(session);
  trn_session_unref(root);
  trn_backend_unref(backend);
  trn_backend_unref(base);
}

static void masks_count_for_conditions_too(void **state) {
  (void)state;
  char rows[1000], message[300];
  trn_backend *base = engine(), *backend = guarded(rule_config(NULL, "'***'"), base);
  trn_session *session = session_of(backend, "eu", NULL);
  static const char *const guesses[] = {"secret", "***"}, *const expected[] = {"", "1|EU|***;2|US|***;3|EU|***;4||***;"};
  for (int i = 0; i < 2; i++) {
    trn_arena *arena = trn__arena_create(0);
    const trn_rel *scan = scan_csv(session, arena);
    const trn_expr *args[] = {trn__expr_column(arena, &scan->columns[2]),
                              trn__expr_string(arena, guesses[i], strlen(guesses[i]))};
    const trn_expr *test = trn__expr_call(arena, TRN_HOME_NATIVE, "=", trn__type(TRN_TYPE_BOOL), true, args, 2);
    trn_plan *plan = plan_end(arena, trn__rel_filter(arena, scan, test), NAMES, 20);
    assert_int_equal(rows_of(session, plan, rows, sizeof rows, message), TRN_OK);
    assert_string_equal(rows, expected[i]);
  }
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(base);
}

static void a_whole_stack_conforms(void **state) {
  (void)state;
  trn_backend *base = engine(), *limit = NULL, *route = NULL, *cache = NULL, *authorize = NULL, *trace = NULL;
  trn_config *open = config_of("default=allow\nunknown=allow"), *slots = config_of("concurrent=64\nrun_time=5m");
  trn_config *small = config_of("memory=8M\nwait=20ms");
  trn_limit_options l = {.struct_size = sizeof l, .config = slots};
  trn_cache_options c = {.struct_size = sizeof c, .config = small};
  trn_authorize_options a = {.struct_size = sizeof a, .config = open};
  assert_int_equal(trn_route_create(NULL, base, &route, NULL), TRN_OK);
  assert_int_equal(trn_limit_create(&l, route, &limit, NULL), TRN_OK);
  assert_int_equal(trn_cache_create(&c, limit, &cache, NULL), TRN_OK);
  assert_int_equal(trn_authorize_create(&a, cache, &authorize, NULL), TRN_OK);
  assert_int_equal(trn_trace_create(NULL, authorize, &trace, NULL), TRN_OK);
  assert_int_equal(trn_layers_check(trace, NULL), TRN_OK);
  trn_backend_conformance(trace, &(trn_backend_deviations){0});
  trn_backend *all[] = {trace, authorize, cache, limit, route, base};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) trn_backend_unref(all[i]);
  trn_config_destroy(open), trn_config_destroy(slots), trn_config_destroy(small);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(filters_and_masks_change_what_comes_out),
      cmocka_unit_test(conditions_do_not_see_hidden_rows),
      cmocka_unit_test(masks_count_for_conditions_too),
      cmocka_unit_test(a_whole_stack_conforms),
  };
  return cmocka_run_group_tests(tests, make_csv, drop_csv);
}
