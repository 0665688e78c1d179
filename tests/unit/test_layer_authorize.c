/* authorize and validate: what is refused before the backend sees it, what reaches it instead, what is logged. */
#include "support/layer_fixture.h"

typedef struct guarded {
  bench bench;
  trn_backend *backend;
  trn_session *ann; /* of group analysts */
} guarded;

static void guarded_open(guarded *g, trn_config *config, const trn_policy_callback *callback) {
  bench_open(&g->bench, TRN_SCRIPTED_ARRAYS);
  trn_authorize_options options = {.struct_size = sizeof options,
                                   .config = config,
                                   .callback = callback,
                                   .sink = log_event,
                                   .sink_user = &g->bench.log};
  trn_error *error = NULL;
  trn_status status = trn_authorize_create(&options, g->bench.base, &g->backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_config_destroy(config);
  g->ann = session_of(g->backend, "ann", "analysts");
}

static void guarded_close(guarded *g) {
  trn_session_unref(g->ann);
  trn_backend_unref(g->backend);
  bench_close(&g->bench);
}

static trn_status try_plan(guarded *g, const plan_spec *spec, char *message) {
  trn_error *error = NULL;
  trn_plan *plan = NULL;
  trn_status status = plan_of(g->ann, spec, &plan, &error);
  /* A plan that somebody else could open: the check is at execute, too. */
  if (status == TRN_OK) run_plan(g->ann, plan, &status, &error);
  if (message) snprintf(message, 300, "%s", trn_error_message(error));
  trn_error_unref(error);
  return status;
}

static trn_config *table_rule(trn_config *config, const char *action, const char *table) {
  trn_config *rule = add_map(config, "rules");
  put(rule, action, "read");
  put(rule, "tables", table);
  return rule;
}

static const plan_spec SALES = {.path = "/data/sales", .table = "sales", .version = "v1"};
static const plan_spec SALES_FILES = {.path = "/data/sales", .version = "v1"};

static void nothing_is_allowed_by_default(void **state) {
  (void)state;
  guarded g;
  char message[300];
  guarded_open(&g, config_of(""), NULL);
  assert_int_equal(try_plan(&g, &SALES, message), TRN_PERMISSION_DENIED);
  assert_string_equal(message, "User 'ann' may not read table main.shop.sales");
  assert_int_equal(try_plan(&g, &SALES_FILES, message), TRN_PERMISSION_DENIED);
  assert_non_null(strstr(message, "path /data/sales"));
  assert_true(log_has(&g.bench.log, "authorize deny main.shop.sales PERMISSION_DENIED"));
  assert_int_equal(trn__scripted_count(g.bench.control).executed, 0);
  trn_status status;
  assert_int_equal(run_plan(g.ann, range_plan(5), &status, NULL), 5); /* reads nothing */
  guarded_close(&g);
}

static void rules_are_for_users_and_groups_and_a_denial_wins(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of("");
  put(table_rule(config, "allow", "shop.*"), "groups", "analysts");
  put(table_rule(config, "deny", "main.*.other"), "users", "a*");
  guarded_open(&g, config, NULL);
  plan_spec other = SALES;
  other.table = "other";
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_OK);
  assert_int_equal(try_plan(&g, &other, NULL), TRN_PERMISSION_DENIED);
  trn_session *bob = session_of(g.backend, "bob", "analysts"), *eve = session_of(g.backend, "eve", "guests");
  trn_session *ann = g.ann;
  g.ann = bob;
  assert_int_equal(try_plan(&g, &other, NULL), TRN_OK);
  g.ann = eve;
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_PERMISSION_DENIED);
  g.ann = ann;
  trn_session_unref(bob);
  trn_session_unref(eve);
  guarded_close(&g);
}

static void names_match_by_their_last_parts(void **state) {
  (void)state;
  static const struct {
    const char *pattern;
    bool matches;
  } cases[] = {{"sales", true},      {"SALES", true},   {"shop.sales", true}, {"main.shop.sales", true},
               {"*", true},          {"*.sales", true}, {"shop.*", true},     {"s?les", true},
               {"other.sales", false}, {"sale", false},  {"x.main.shop.sales", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    guarded g;
    trn_config *config = config_of("");
    table_rule(config, "allow", cases[i].pattern);
    guarded_open(&g, config, NULL);
    assert_int_equal(try_plan(&g, &SALES, NULL), cases[i].matches ? TRN_OK : TRN_PERMISSION_DENIED);
    guarded_close(&g);
  }
}

static trn_status try_path(const char *allow, const char *deny, const char *path) {
  guarded g;
  trn_config *config = config_of("");
  if (allow) {
    trn_config *rule = add_map(config, "rules");
    put(rule, "allow", "read");
    put(rule, "paths", allow);
  }
  if (deny) {
    trn_config *rule = add_map(config, "rules");
    put(rule, "deny", "read");
    put(rule, "paths", deny);
  }
  guarded_open(&g, config, NULL);
  struct ArrowSchema schema;
  trn_source *source = NULL;
  trn_source_request request = {.struct_size = sizeof request, .format = "parquet", .paths = &path, .path_count = 1};
  trn_status status = trn_backend_open_source(g.ann, &request, &source, &schema, NULL);
  if (status == TRN_OK) {
    trn__schema_release(&schema);
    trn_backend_source_unref(g.backend, source);
  }
  guarded_close(&g);
  return status;
}

static void paths_are_compared_as_they_are_walked(void **state) {
  (void)state;
  assert_int_equal(try_path("/data", NULL, "/data/sales"), TRN_OK);
  assert_int_equal(try_path("/data/*", NULL, "/data/sales"), TRN_OK);
  assert_int_equal(try_path("/dat", NULL, "/data/sales"), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("/data/sales", NULL, "/data"), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("/data/sales", NULL, "/data/sales/../secret"), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("/data/sales", NULL, "file:///data//./sales"), TRN_NOT_FOUND); /* allowed; not a table here */
  assert_int_equal(try_path("s3://b/ok", NULL, "s3://b/ok/../secret"), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("s3://b/ok", NULL, "S3://b/ok/x"), TRN_NOT_FOUND);
  assert_int_equal(try_path("*", "s3://b/secret", "s3://b/secret/x"), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("*", "s3://b/secret*", "s3://b"), TRN_PERMISSION_DENIED); /* what holds it */
  assert_int_equal(try_path("*", "s3://b/secret*", "s3://b/se"), TRN_NOT_FOUND);
}

static void links_and_directories_above_do_not_help(void **state) {
  (void)state;
  char folder[] = "/tmp/trn-authorize-XXXXXX", secret[64], open[64], link[64], file[80];
  assert_non_null(mkdtemp(folder));
  snprintf(secret, sizeof secret, "%s/secret", folder);
  snprintf(open, sizeof open, "%s/open", folder);
  snprintf(link, sizeof link, "%s/open/link", folder);
  snprintf(file, sizeof file, "%s/f", secret);
  assert_int_equal(mkdir(secret, 0700), 0);
  assert_int_equal(mkdir(open, 0700), 0);
  assert_int_equal(symlink(secret, link), 0);
  fclose(fopen(file, "w"));
  assert_int_equal(try_path(open, NULL, link), TRN_PERMISSION_DENIED);       /* it leads elsewhere */
  assert_int_equal(try_path("*", secret, link), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("*", secret, folder), TRN_PERMISSION_DENIED);    /* reads what is in it */
  assert_int_equal(try_path("*", "*/secret/f", folder), TRN_PERMISSION_DENIED);
  assert_int_equal(try_path("*", secret, open), TRN_PERMISSION_DENIED);      /* through the link in it */
  unlink(link);
  assert_int_equal(try_path("*", secret, open), TRN_NOT_FOUND);
  unlink(file), rmdir(secret), rmdir(open), rmdir(folder);
}

static void hidden_columns_may_be_there_but_not_be_needed(void **state) {
  (void)state;
  guarded g;
  char message[300];
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put_list(rule, "hide", LIST("SSN"));
  guarded_open(&g, config, NULL);
  plan_spec spec = SALES;
  spec.columns = 3;
  assert_int_equal(try_plan(&g, &spec, NULL), TRN_OK);
  assert_int_equal(try_plan(&g, &SALES, message), TRN_PERMISSION_DENIED);
  assert_string_equal(message, "User 'ann' may not read column ssn");
  guarded_close(&g);
}

static void a_condition_on_a_hidden_column_is_a_use(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put_list(rule, "columns", LIST("id"));
  guarded_open(&g, config, NULL);
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *scan = NULL;
  assert_int_equal(open_scan(g.ann, &SALES, arena, 10, &scan, NULL), TRN_OK);
  const trn_expr *args[] = {trn__expr_column(arena, &scan->columns[2])};
  const trn_expr *test = trn__expr_call(arena, TRN_HOME_NATIVE, "is_null", trn__type(TRN_TYPE_BOOL), false, args, 1);
  const trn_rel *filter = trn__rel_filter(arena, scan, test);
  const trn_expr *id = trn__expr_column(arena, &scan->columns[0]);
  trn_plan *plan = plan_end(arena, trn__rel_project(arena, filter, &id, &scan->columns[0], 1), NULL, 20);
  trn_status status;
  run_plan(g.ann, plan, &status, NULL);
  assert_int_equal(status, TRN_PERMISSION_DENIED);
  guarded_close(&g);
}

static void filters_and_masks_stand_between_scan_and_query(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of("barrier=false"), *rule = table_rule(config, "allow", "sales");
  put(rule, "filter", "region = 'EU' and id < 100");
  put(put_map(rule, "masks"), "ssn", "'***'");
  guarded_open(&g, config, NULL);
  trn_script rows = {.execute_status = TRN_ABORTED}; /* the plan is looked at, not run */
  g.bench.script = &rows;
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_ABORTED);
  assert_non_null(g.bench.seen);
  const char *project = strcasestr(g.bench.seen, "project"), *masks = project ? strcasestr(project + 1, "project") : NULL;
  const char *filter = strcasestr(g.bench.seen, "filter"), *scan = strcasestr(g.bench.seen, "scan");
  if (!masks || !filter || !scan) print_error("%s\n", g.bench.seen);
  assert_non_null(masks);
  assert_true(masks < filter && filter < scan);
  assert_non_null(strstr(masks, "***"));
  assert_non_null(strstr(filter, "EU"));
  guarded_close(&g);
}

static void unless_told_otherwise_every_column_is_sealed(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put(rule, "filter", "region = 'EU'");
  guarded_open(&g, config, NULL);
  trn_script rows = {.execute_status = TRN_ABORTED};
  g.bench.script = &rows;
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_ABORTED);
  size_t seals = 0;
  for (const char *at = g.bench.seen; (at = strcasestr(at, "case")); at++) seals++;
  assert_int_equal(seals, 3);
  guarded_close(&g);
}

static void texts_know_the_user_and_errors_name_the_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {{"region = current_user() or is_member('analysts')", NULL},
               {"id in (1, 2, 3) and not region like 'E%'", NULL},
               {"case when id > 1 then region else 'x' end = 'EU'", NULL},
               {"id between 1 and 5 or substr(ssn, 1, 2) || 'x' = '11x'", NULL},
               {"coalesce(region, '') <> '' and id + 1 > 2.5", NULL},
               {"cast(id as string) = '1' and region is not null", NULL},
               {"regin = 'EU'", "there is no column 'regin'"},
               {"region = 5", "do not go together"},
               {"region", "a condition is expected"},
               {"region + 1 = 2", "'+' is for numbers"},
               {"id like 'E%'", "like compares texts"},
               {"left(region, ssn) = 'x'", "an argument must be an integer"},
               {"upper(id) = 'x'", "an argument must be text"},
               {"if(id, ssn, region) = 'x'", "if takes a condition and two values"},
               {"id.part = 1", "only structs have fields"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    guarded g;
    char message[300];
    trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
    put(rule, "filter", cases[i].text);
    guarded_open(&g, config, NULL);
    trn_script rows = {.execute_status = TRN_ABORTED};
    g.bench.script = &rows;
    trn_status status = try_plan(&g, &SALES, message);
    if (cases[i].message && !strstr(message, cases[i].message)) print_error("%s: %s\n", cases[i].text, message);
    assert_int_equal(status, cases[i].message ? TRN_INVALID_ARGUMENT : TRN_ABORTED);
    if (cases[i].message) assert_non_null(strstr(message, cases[i].message));
    guarded_close(&g);
  }
}

/* A layer whose second rule has this filter, or else mask, is not made. */
static void settings_are_refused(const char *filter, const char *mask, const char *where, const char *what) {
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_config *config = config_of("");
  table_rule(config, "allow", "sales");
  trn_config *rule = table_rule(config, "allow", "sales");
  if (filter) put(rule, "filter", filter);
  if (mask) put(put_map(rule, "masks"), "ssn", mask);
  trn_authorize_options options = {.struct_size = sizeof options, .config = config};
  trn_backend *out = NULL;
  trn_error *error = NULL;
  trn_status status = trn_authorize_create(&options, b.base, &out, &error);
  const char *message = status ? trn_error_message(error) : "it is made";
  bool is_named = strstr(message, where) && strstr(message, what);
  if (!status || !is_named) print_error("%.300s: %s\n", filter ? filter : mask, message);
  assert_true(status != TRN_OK && is_named && !out);
  trn_error_unref(error);
  trn_config_destroy(config);
  bench_close(&b);
}

static void texts_that_fit_no_table_are_errors_of_the_settings(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"region = 'EU", "a quote is not closed"},
                                         {"(region = 'EU'", "')' is missing"},
                                         {"drop(region) = 'x'", "there is no function 'drop'"},
                                         {"region = 'EU'; select 1", "means nothing here"},
                                         {"upper(region, ssn) = 'x'", "upper takes 1 to 1 arguments, not 2"},
                                         {"region. = 'x'", "a field's name is missing"},
                                         {"region in (1, 'x')", "do not go together"},
                                         {"left(region, 'x') = 'x'", "an argument must be an integer"},
                                         {"5 like region", "like compares texts"},
                                         {"if(5, a, b)", "if takes a condition and two values"},
                                         {"region and 5", "a condition is expected, not a value"},
                                         {"", "ends too early"}};
  char deep[8001];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    settings_are_refused(cases[i][0], NULL, "rule 2, its filter: ", cases[i][1]);
  settings_are_refused(NULL, "concat('x', ssn", "rule 2, the mask of 'ssn': ", "')' is missing");
  memset(deep, '(', 4000);
  memset(deep + 4000, ')', 4000);
  deep[8000] = 0;
  settings_are_refused(deep, NULL, "rule 2, its filter: ", "TRN_POLICY_TEXT_DEPTH_MAX");
}

static void what_is_not_understood_is_refused(void **state) {
  (void)state;
  guarded g;
  char message[300];
  guarded_open(&g, config_of("default=allow"), NULL);
  plan_spec unlabelled = SALES;
  unlabelled.table = "";
  assert_int_equal(try_plan(&g, &unlabelled, message), TRN_PERMISSION_DENIED);
  assert_non_null(strstr(message, "cannot be checked"));
  trn_plan *plan = range_plan(3);
  plan->kind = TRN_PLAN_PHYSICAL;
  trn_status status;
  run_plan(g.ann, plan, &status, NULL);
  assert_int_equal(status, TRN_PERMISSION_DENIED);
  trn_arena *arena = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  run_plan(g.ann, plan_end(arena, trn__rel_create(arena, TRN_REL_OPAQUE, NULL, 0, NULL, 0, &column, 1), NULL, 2),
           &status, NULL);
  assert_int_equal(status, TRN_PERMISSION_DENIED);
  assert_int_equal(trn__scripted_count(g.bench.control).executed, 0);
  guarded_close(&g);
  guarded_open(&g, config_of("default=allow\nunknown=allow"), NULL);
  assert_int_equal(try_plan(&g, &unlabelled, NULL), TRN_OK);
  guarded_close(&g);
}

static void what_is_filtered_is_checked_and_not_explained(void **state) {
  (void)state;
  guarded g;
  char *text = NULL;
  trn_plan *plan = NULL;
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put(rule, "filter", "region = 'EU'");
  guarded_open(&g, config, NULL);
  assert_int_equal(plan_of(g.ann, &SALES, &plan, NULL), TRN_OK);
  assert_int_equal(trn_backend_explain(g.ann, plan, TRN_EXPLAIN_LOGICAL, &text, NULL), TRN_PERMISSION_DENIED);
  assert_null(text); /* it would tell of files and statistics of all rows */
  assert_int_equal(trn_backend_check(g.ann, plan, NULL), TRN_OK);
  trn_plan_unref(plan);
  guarded_close(&g);
}

static void others_may_not_even_see_a_plan(void **state) {
  (void)state;
  guarded g;
  char *text = NULL;
  trn_bytes bytes;
  trn_plan *plan = NULL;
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put(rule, "users", "ann");
  guarded_open(&g, config, NULL);
  assert_int_equal(plan_of(g.ann, &SALES, &plan, NULL), TRN_OK);
  trn_session *eve = session_of(g.backend, "eve", NULL);
  assert_int_equal(trn_backend_explain(eve, plan, TRN_EXPLAIN_LOGICAL, &text, NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(trn_backend_check(eve, plan, NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(trn_backend_encode(eve, plan, "substrait.plan.v1", &bytes, NULL), TRN_PERMISSION_DENIED);
  assert_int_equal(trn_backend_encode(g.ann, plan, "substrait.plan.v1", &bytes, NULL), TRN_UNIMPLEMENTED);
  trn_plan_unref(plan);
  trn_session_unref(eve);
  guarded_close(&g);
}

static void views_give_rights_only_when_told_and_never_temporary_ones(void **state) {
  (void)state;
  static const trn_scan_view lasting = {"main", "shop", "eu_sales", false}, temporary = {NULL, NULL, "eu_sales", true};
  for (int definer = 0; definer < 2; definer++) {
    guarded g;
    trn_config *config = config_of(definer ? "views=definer" : "views=invoker"), *rule = add_map(config, "rules");
    put(rule, "allow", "read");
    put(rule, "views", "eu_sales");
    guarded_open(&g, config, NULL);
    plan_spec spec = SALES;
    spec.view = &lasting;
    /* The source itself is opened by the catalog; here: by somebody who may. */
    trn_session *base = session_of(g.bench.base, "root", NULL);
    trn_plan *plan = NULL;
    trn_status status;
    assert_int_equal(plan_of(base, &spec, &plan, NULL), TRN_OK);
    run_plan(g.ann, plan, &status, NULL);
    assert_int_equal(status, definer ? TRN_OK : TRN_PERMISSION_DENIED);
    spec.view = &temporary;
    assert_int_equal(plan_of(base, &spec, &plan, NULL), TRN_OK);
    run_plan(g.ann, plan, &status, NULL);
    assert_int_equal(status, TRN_PERMISSION_DENIED);
    trn_session_unref(base);
    guarded_close(&g);
  }
}

/* ---- writes ---- */

static void writes_need_the_right_to_their_target(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of(""), *rule = add_map(config, "rules");
  put(rule, "allow", "write");
  put(rule, "paths", "/out/ok");
  guarded_open(&g, config, NULL);
  static const char *const paths[] = {"/out/ok/x", "/out/no"};
  for (int i = 0; i < 2; i++) {
    trn_arena *arena = trn__arena_create(0);
    trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)}, count = {.id = 2, .type = column.type};
    const trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
    trn_rel *write = trn__rel_create(arena, TRN_REL_WRITE, &range, 1, NULL, 0, &count, 1);
    write->u.write.format = "parquet";
    write->u.write.directory = "/staging/1";
    trn_scan_info info = {
        .struct_size = sizeof info, .kind = TRN_SCAN_FILES, .paths = &paths[i], .path_count = 1};
    assert_int_equal(trn_scan_label_create(&info, &write->u.write.info), TRN_OK);
    assert_int_equal(trn__label_hold(arena, write->u.write.info), TRN_OK);
    trn_scan_label_unref(write->u.write.info);
    trn_status status;
    trn_script rows = {.execute_status = TRN_ABORTED};
    g.bench.script = &rows;
    run_plan(g.ann, plan_end(arena, write, NULL, 3), &status, NULL);
    assert_int_equal(status, i ? TRN_PERMISSION_DENIED : TRN_ABORTED);
  }
  guarded_close(&g);
}

/* What is written anew from the rows that one sees loses those that one does not see. */
static void a_filtered_table_is_not_written_from_itself(void **state) {
  (void)state;
  guarded g;
  trn_config *config = config_of(""), *rule = table_rule(config, "allow", "sales");
  put(rule, "filter", "region = 'EU'");
  rule = add_map(config, "rules");
  put(rule, "allow", "write");
  put(rule, "tables", "*");
  guarded_open(&g, config, NULL);
  trn_script done = {.execute_status = TRN_ABORTED};
  g.bench.script = &done;
  for (int own = 0; own < 2; own++) {
    trn_arena *arena = trn__arena_create(0);
    const trn_rel *scan = NULL;
    trn_column count = {.id = 90, .type = trn__type(TRN_TYPE_INT64)};
    assert_int_equal(open_scan(g.ann, &SALES, arena, 10, &scan, NULL), TRN_OK);
    trn_rel *write = trn__rel_create(arena, TRN_REL_WRITE, &scan, 1, NULL, 0, &count, 1);
    write->u.write.format = "parquet";
    write->u.write.directory = "/staging/1";
    trn_scan_info info = {.struct_size = sizeof info,
                          .kind = TRN_SCAN_TABLE,
                          .catalog = "main",
                          .database = "shop",
                          .table = own ? "SALES" : "copy"};
    assert_int_equal(trn_scan_label_create(&info, &write->u.write.info), TRN_OK);
    assert_int_equal(trn__label_hold(arena, write->u.write.info), TRN_OK);
    trn_scan_label_unref(write->u.write.info);
    trn_status status;
    run_plan(g.ann, plan_end(arena, write, NULL, 91), &status, NULL);
    assert_int_equal(status, own ? TRN_PERMISSION_DENIED : TRN_ABORTED);
  }
  guarded_close(&g);
}

/* ---- callbacks ---- */

static trn_status deny_region(void *user, const trn_access *access, trn_error **error) {
  ++*(int *)user;
  assert_string_equal(access->user, "ann");
  assert_int_equal(access->group_count, 1);
  if (strstr(access->name, "sales"))
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "not today: %s", access->name);
  return TRN_OK;
}

static void a_callback_may_refuse_what_rules_allow(void **state) {
  (void)state;
  guarded g;
  char message[300];
  int calls = 0;
  trn_policy_callback callback = {.struct_size = sizeof callback, .decide = deny_region, .user = &calls};
  guarded_open(&g, config_of("default=allow"), &callback);
  plan_spec other = {.path = "/data/other", .table = "other"};
  assert_int_equal(try_plan(&g, &SALES, message), TRN_PERMISSION_DENIED);
  assert_string_equal(message, "not today: main.shop.sales");
  assert_int_equal(try_plan(&g, &other, NULL), TRN_OK);
  assert_true(calls >= 2);
  guarded_close(&g);
}

typedef struct later {
  pthread_t threads[64];
  atomic_int count, cancels, misuses;
  trn_status answer;
  bool twice, never;
  trn_decision last;
} later;

typedef struct errand {
  later *later;
  trn_decision decision;
} errand;

static void *answer_later(void *argument) {
  errand *e = argument;
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  trn_error *error = NULL;
  if (e->later->answer) trn_error_set(&error, e->later->answer, NULL, "said later");
  trn_decision_answer(e->decision, e->later->answer, error);
  if (e->later->twice) assert_false(trn_decision_answer(e->decision, TRN_OK, NULL));
  free(e);
  return NULL;
}

static trn_status start_later(void *user, const trn_access *access, trn_decision decision, trn_error **error) {
  later *l = user;
  (void)access, (void)error;
  l->last = decision;
  if (l->never) return TRN_OK;
  errand *e = malloc(sizeof *e);
  *e = (errand){l, decision};
  pthread_create(&l->threads[atomic_fetch_add(&l->count, 1)], NULL, answer_later, e);
  return TRN_OK;
}
static void cancel_later(void *user, trn_decision decision) {
  (void)decision;
  atomic_fetch_add(&((later *)user)->cancels, 1);
}
static void misused(void *user, trn_decision decision) {
  (void)decision;
  atomic_fetch_add(&((later *)user)->misuses, 1);
}

static void run_later(later *l, guarded *g, uint64_t timeout_ms) {
  trn_policy_callback callback = {.struct_size = sizeof callback,
                                  .start = start_later,
                                  .cancel = cancel_later,
                                  .on_misuse = misused,
                                  .timeout_ms = timeout_ms,
                                  .user = l};
  guarded_open(g, config_of("default=allow"), &callback);
}

static void decisions_may_come_later_from_other_threads(void **state) {
  (void)state;
  guarded g;
  later yes = {0}, no = {.answer = TRN_PERMISSION_DENIED}, twice = {.twice = true};
  char message[300];
  run_later(&yes, &g, 0);
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_OK);
  for (int i = 0; i < yes.count; i++) pthread_join(yes.threads[i], NULL);
  guarded_close(&g);
  run_later(&no, &g, 0);
  assert_int_equal(try_plan(&g, &SALES, message), TRN_PERMISSION_DENIED);
  assert_string_equal(message, "said later");
  for (int i = 0; i < no.count; i++) pthread_join(no.threads[i], NULL);
  guarded_close(&g);
  run_later(&twice, &g, 0);
  assert_int_equal(try_plan(&g, &SALES, NULL), TRN_OK);
  for (int i = 0; i < twice.count; i++) pthread_join(twice.threads[i], NULL);
  assert_int_equal(twice.misuses, twice.count);
  guarded_close(&g);
}

static void a_decision_that_does_not_come_is_a_refusal_and_late_ones_are_dropped(void **state) {
  (void)state;
  guarded g;
  later never = {.never = true};
  char message[300];
  run_later(&never, &g, 30);
  assert_int_equal(try_plan(&g, &SALES, message), TRN_DEADLINE_EXCEEDED);
  assert_non_null(strstr(message, "no decision about 'main.shop.sales' came within 30 ms"));
  assert_int_equal(never.cancels, 1);
  assert_false(trn_decision_answer(never.last, TRN_OK, NULL));
  assert_int_equal(never.misuses, 1);
  guarded_close(&g);
}

/* ---- configuration ---- */

static void wrong_configurations_are_named(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  static const char *const cases[][2] = {{"default=perhaps", "deny"},
                                         {"ruls=x", "ruls"},
                                         {"views=mine", "definer"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_config *config = config_of(cases[i][0]);
    trn_authorize_options options = {.struct_size = sizeof options, .config = config};
    trn_backend *out = NULL;
    trn_error *error = NULL;
    assert_int_equal(trn_authorize_create(&options, b.base, &out, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), cases[i][1]));
    trn_error_unref(error);
    trn_config_destroy(config);
  }
  static const char *const rules[][3] = {{"allow", "fly", "no action"}, {"allow", "read", "is about tables"}};
  for (size_t i = 0; i < 2; i++) {
    trn_config *config = config_of("");
    put(add_map(config, "rules"), rules[i][0], rules[i][1]);
    trn_authorize_options options = {.struct_size = sizeof options, .config = config};
    trn_backend *out = NULL;
    trn_error *error = NULL;
    assert_int_equal(trn_authorize_create(&options, b.base, &out, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), rules[i][2]));
    trn_error_unref(error);
    trn_config_destroy(config);
  }
  bench_close(&b);
}

/* ---- validate ---- */

static trn_status validated(const char *lines, const plan_spec *spec, char *message) {
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_config *config = config_of(lines);
  trn_validate_options options = {
      .struct_size = sizeof options, .config = config, .sink = log_event, .sink_user = &b.log};
  trn_backend *backend = NULL;
  assert_int_equal(trn_validate_create(&options, b.base, &backend, NULL), TRN_OK);
  trn_config_destroy(config);
  trn_session *session = session_of(backend, "ann", NULL);
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = plan_of(session, spec, &plan, &error);
  if (status == TRN_OK) run_plan(session, plan, &status, &error);
  snprintf(message, 300, "%s", trn_error_message(error));
  trn_error_unref(error);
  trn_session_unref(session);
  trn_backend_unref(backend);
  bench_close(&b);
  return status;
}

static void caps_are_named_when_they_are_exceeded(void **state) {
  (void)state;
  char message[300];
  static const struct {
    const char *lines;
    trn_status status;
    const char *message;
  } cases[] = {{"depth=3\nnodes=5\ncolumns=3\nfiles=2\nbytes=1000", TRN_OK, ""},
               {"depth=1", TRN_RESOURCE_EXHAUSTED, "2 depth"},
               {"nodes=2", TRN_RESOURCE_EXHAUSTED, "5 nodes"},
               {"columns=2", TRN_RESOURCE_EXHAUSTED, "3 columns"},
               {"files=1", TRN_RESOURCE_EXHAUSTED, "2 files"},
               {"bytes=999", TRN_RESOURCE_EXHAUSTED, "1000 bytes"},
               {"forbidden_statements=query", TRN_PERMISSION_DENIED, "statement query"},
               {"forbidden_statements=write", TRN_OK, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_status status = validated(cases[i].lines, &SALES, message);
    if (status != cases[i].status) print_error("%s: %s\n", cases[i].lines, message);
    assert_int_equal(status, cases[i].status);
    assert_non_null(strstr(message, cases[i].message));
  }
}

static void count_pair(void *user, const char *key, const char *value) {
  (void)value;
  trn__strbuf_printf(user, "%s ", key);
}

static void clients_see_the_settings_that_they_may(void **state) {
  (void)state;
  bench b;
  bench_open(&b, TRN_SCRIPTED_ARRAYS);
  trn_config *config = config_of("settings.secrets[]=*.password\nsettings.default_set=false");
  trn_config *rule = add_map((trn_config *)trn_config_get(config, "settings"), "rules");
  put(rule, "keys", "a.*");
  put(rule, "get", "true");
  put(rule, "set", "true");
  put(rule, "list", "false");
  trn_validate_options options = {.struct_size = sizeof options, .config = config};
  trn_backend *backend = NULL;
  assert_int_equal(trn_validate_create(&options, b.base, &backend, NULL), TRN_OK);
  trn_config_destroy(config);
  trn_session *session = session_of(backend, "ann", NULL);
  char *value = NULL;
  assert_int_equal(trn_session_client_set(session, "a.x", "1", NULL), TRN_OK);
  assert_int_equal(trn_session_client_set(session, "b.x", "1", NULL), TRN_PERMISSION_DENIED);
  assert_null(trn_session_get(session, "b.x"));
  assert_int_equal(trn_session_set(session, "b.x", "2"), TRN_OK); /* the server itself may */
  assert_int_equal(trn_session_set(session, "db.password", "hush"), TRN_OK);
  assert_int_equal(trn_session_client_get(session, "b.x", &value, NULL), TRN_OK);
  assert_string_equal(value, "2");
  trn_free(value);
  assert_int_equal(trn_session_client_get(session, "db.password", &value, NULL), TRN_PERMISSION_DENIED);
  assert_null(value);
  trn_strbuf keys = {0};
  assert_int_equal(trn_session_client_each(session, count_pair, &keys), TRN_OK);
  assert_string_equal(keys.data, "b.x ");
  trn__strbuf_finish(&keys);
  trn_session_unref(session);
  trn_backend_unref(backend);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_allowed_by_default),
      cmocka_unit_test(rules_are_for_users_and_groups_and_a_denial_wins),
      cmocka_unit_test(names_match_by_their_last_parts),
      cmocka_unit_test(paths_are_compared_as_they_are_walked),
      cmocka_unit_test(links_and_directories_above_do_not_help),
      cmocka_unit_test(hidden_columns_may_be_there_but_not_be_needed),
      cmocka_unit_test(a_condition_on_a_hidden_column_is_a_use),
      cmocka_unit_test(filters_and_masks_stand_between_scan_and_query),
      cmocka_unit_test(unless_told_otherwise_every_column_is_sealed),
      cmocka_unit_test(texts_know_the_user_and_errors_name_the_place),
      cmocka_unit_test(texts_that_fit_no_table_are_errors_of_the_settings),
      cmocka_unit_test(what_is_not_understood_is_refused),
      cmocka_unit_test(what_is_filtered_is_checked_and_not_explained),
      cmocka_unit_test(others_may_not_even_see_a_plan),
      cmocka_unit_test(views_give_rights_only_when_told_and_never_temporary_ones),
      cmocka_unit_test(writes_need_the_right_to_their_target),
      cmocka_unit_test(a_filtered_table_is_not_written_from_itself),
      cmocka_unit_test(a_callback_may_refuse_what_rules_allow),
      cmocka_unit_test(decisions_may_come_later_from_other_threads),
      cmocka_unit_test(a_decision_that_does_not_come_is_a_refusal_and_late_ones_are_dropped),
      cmocka_unit_test(wrong_configurations_are_named),
      cmocka_unit_test(caps_are_named_when_they_are_exceeded),
      cmocka_unit_test(clients_see_the_settings_that_they_may),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
