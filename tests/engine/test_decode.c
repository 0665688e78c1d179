/* Statements that are no queries, parameters, what is wrong with a text. */
#include "sql_fixture.h"

static void setup_tables(void) {
  static bool done;
  static const char *const tables[] = {"create table t (a bigint, b double, c varchar, d date)",
                                       "insert into t values (1, 1.5, 'x', date '2020-01-01'), (2, 2.5, 'y', null)", NULL};
  if (!done) run_all(tables);
  done = true;
}

static void parts_are(const char *const *parts, size_t count, const char *expected, const char *sql) {
  char text[256] = "";
  for (size_t i = 0; i < count; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "/" : "", parts[i]);
  if (strcmp(text, expected)) fail_msg("%s: name %s, not %s", sql, text, expected);
}

enum { IF_EXISTS = 1, IF_NOT_EXISTS = 2, OR_REPLACE = 4, CASCADE = 8, CATALOG = 16 };
static const struct {
  const char *sql;
  int kind;
  const char *name, *to;
  int flags;
  bool has_plan;
} commands[] = {
    {"create table n (i int, s varchar not null)", TRN_COMMAND_CREATE_TABLE, "n", "", 0, false},
    {"create table if not exists x.n (i int)", TRN_COMMAND_CREATE_TABLE, "x/n", "", IF_NOT_EXISTS, false},
    {"create or replace table n as select a from t", TRN_COMMAND_CREATE_TABLE, "n", "", OR_REPLACE, true},
    {"create external table e (i int) stored as csv location '/nowhere/' options ('format.has_header' 'true')",
     TRN_COMMAND_CREATE_TABLE, "e", "", 0, false},
    {"create view v as select a from t", TRN_COMMAND_CREATE_VIEW, "v", "", 0, false},
    {"create or replace view \"V w\" (x, y) as select a, b from t", TRN_COMMAND_CREATE_VIEW, "V w", "", OR_REPLACE, false},
    {"drop table n", TRN_COMMAND_DROP_TABLE, "n", "", 0, false},
    {"drop table if exists c.s.n", TRN_COMMAND_DROP_TABLE, "c/s/n", "", IF_EXISTS, false},
    {"drop view v", TRN_COMMAND_DROP_VIEW, "v", "", 0, false},
    {"create schema s", TRN_COMMAND_CREATE_DATABASE, "s", "", 0, false},
    {"create schema if not exists c.\"a.b\"", TRN_COMMAND_CREATE_DATABASE, "c/a.b", "", IF_NOT_EXISTS, false},
    {"drop schema if exists s cascade", TRN_COMMAND_DROP_DATABASE, "s", "", IF_EXISTS | CASCADE, false},
    {"use s", TRN_COMMAND_USE, "s", "", 0, false},
    {"alter table t rename to u", TRN_COMMAND_RENAME_TABLE, "t", "u", 0, false},
    {"truncate table t", TRN_COMMAND_TRUNCATE_TABLE, "t", "", 0, false},
    {"insert into t (a) values (5)", TRN_COMMAND_INSERT, "t", "", 0, true},
    {"insert into t select a + 1, b, c, d from t", TRN_COMMAND_INSERT, "t", "", 0, true},
    {"delete from t where a = 1", TRN_COMMAND_DELETE, "t", "", 0, true},
    {"delete from t", TRN_COMMAND_DELETE, "t", "", 0, true},
    {"update t set b = b + 1, c = 'z' where a = 2", TRN_COMMAND_UPDATE, "t", "", 0, true},
    {"copy (select a from t) to '/nowhere/x.parquet' stored as parquet", TRN_COMMAND_COPY, "", "", 0, true},
    {"set datafusion.execution.batch_size = 100", TRN_COMMAND_SET, "", "", 0, false},
    {"reset datafusion.execution.batch_size", TRN_COMMAND_SET, "", "", 0, false},
};

static void statements_become_commands(void **state) {
  (void)state;
  setup_tables();
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const char *sql = commands[i].sql;
    trn_statement s;
    trn_error *error = NULL;
    trn_status status = decode(sql, &s, &error);
    if (status) fail_with(status, error, sql);
    assert_int_equal(s.kind, TRN_STATEMENT_COMMAND);
    const trn_command *c = s.command;
    int flags = (c->if_exists ? IF_EXISTS : 0) | (c->if_not_exists ? IF_NOT_EXISTS : 0) | (c->or_replace ? OR_REPLACE : 0) |
                (c->cascade ? CASCADE : 0) | (c->is_catalog ? CATALOG : 0);
    if ((int)c->kind != commands[i].kind || flags != commands[i].flags || (c->plan != NULL) != commands[i].has_plan)
      fail_msg("%s: kind %d flags %d plan %d", sql, (int)c->kind, flags, c->plan != NULL);
    parts_are(c->name, c->name_count, commands[i].name, sql);
    parts_are(c->to, c->to_count, commands[i].to, sql);
    s.release(&s);
  }
}

static void tables_and_views_are_described(void **state) {
  (void)state;
  trn_statement s;
  setup_tables();
  assert_int_equal(decode("create external table e (i int, p varchar) stored as csv partitioned by (p) location '/nowhere/' "
                          "options ('format.has_header' 'true', 'format.delimiter' ';')",
                          &s, NULL),
                   TRN_OK);
  const trn_table_info *t = s.command->table;
  assert_int_equal(t->kind, TRN_TABLE_EXTERNAL);
  assert_string_equal(t->format, "csv");
  assert_string_equal(t->location, "/nowhere/");
  assert_int_equal(t->schema->n_children, 2);
  assert_string_equal(t->schema->children[0]->format, "i");
  parts_are(t->partition_columns, t->partition_column_count, "p", "partition columns");
  assert_int_equal(t->option_count, 2);
  assert_string_equal(t->options[0].key, "delimiter");
  assert_string_equal(t->options[1].key, "header");
  s.release(&s);
  assert_int_equal(decode("create view v (x, y) as select a, c from t where a > 1", &s, NULL), TRN_OK);
  t = s.command->table;
  assert_int_equal(t->kind, TRN_TABLE_VIEW);
  assert_string_equal(t->view_text, "SELECT a, c FROM t WHERE a > 1");
  assert_string_equal(t->view_dialect, "sql");
  assert_int_equal(t->schema->n_children, 2);
  parts_are(t->view_columns, t->view_column_count, "x/y", "view columns");
  assert_true(t->view_catalog && t->view_database);
  s.release(&s);
  assert_int_equal(decode("set datafusion.execution.batch_size = 100", &s, NULL), TRN_OK);
  assert_string_equal(s.command->columns[0], "datafusion.execution.batch_size");
  assert_string_equal(s.command->comment, "100");
  s.release(&s);
}

static void transactions_are_told(void **state) {
  (void)state;
  static const struct { const char *sql; trn_statement_kind kind; } statements[] = {
      {"begin", TRN_STATEMENT_BEGIN}, {"start transaction", TRN_STATEMENT_BEGIN}, {"commit", TRN_STATEMENT_COMMIT},
      {"rollback", TRN_STATEMENT_ROLLBACK}};
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
    trn_statement s;
    trn_error *error = NULL;
    trn_status status = decode(statements[i].sql, &s, &error);
    if (status) fail_with(status, error, statements[i].sql);
    assert_int_equal(s.kind, statements[i].kind);
    s.release(&s);
  }
}

static void changes_are_whole_tables(void **state) {
  (void)state;
  setup_tables();
  static const struct { const char *sql, *rows; } changes[] = {
      {"delete from t where a = 1", "2,2.5,y,null,\n"},
      {"delete from t where d is null", "1,1.5,x,18262,\n"},
      {"delete from t where d > date '1999-01-01'", "2,2.5,y,null,\n"}, /* null is not true: it stays */
      {"delete from t", ""},
      {"update t set b = a * 10, c = 'z' where a = 2", "1,1.5,x,18262,\n2,20,z,null,\n"},
      {"update t set b = 0", "1,0,x,18262,\n2,0,y,null,\n"},
      {"insert into t (c, a) values ('n', 7)", "7,null,n,null,\n"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    trn_statement s;
    trn_error *error = NULL;
    trn_status status = decode(changes[i].sql, &s, &error);
    if (status) fail_with(status, error, changes[i].sql);
    char *rows = execute(s.command->plan, changes[i].sql);
    assert_string_equal(rows, changes[i].rows);
    free(rows);
    s.release(&s);
  }
}

/* ---- parameters ---- */

/* The one batch of a query, as values to bind. */
static void values_of(const char *sql, struct ArrowSchema *schema, struct ArrowArray *array) {
  trn_statement s;
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  puller p;
  assert_int_equal(decode(sql, &s, NULL), TRN_OK);
  const trn_execute_request request = {.struct_size = sizeof request, .plan = s.plan};
  assert_int_equal(trn_backend_execute(session, &request, &operation, NULL), TRN_OK);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  assert_int_equal(trn_stream_schema(stream, schema, NULL), TRN_OK);
  puller_init(&p);
  assert_int_equal(pull_array(&p, stream, array), TRN_OK);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  s.release(&s);
}

static trn_status decode_bound(const char *sql, const char *values, int64_t row, trn_statement *out, trn_error **error) {
  struct ArrowSchema schema = {0};
  struct ArrowArray array = {0};
  values_of(values, &schema, &array);
  const trn_plan_input input = {.struct_size = sizeof input, .format = "sql", .data = sql, .size = strlen(sql),
                                .resolve = trn_session_resolve_table, .resolve_user = session,
                                .parameter_schema = &schema, .parameters = &array, .parameter_row = row};
  trn_status status = trn_backend_decode_statement(session, &input, out, error);
  schema.release(&schema), array.release(&array);
  return status;
}

static void bound_gives(const char *sql, const char *values, int64_t row, const char *expected) {
  trn_statement s;
  trn_error *error = NULL;
  trn_status status = decode_bound(sql, values, row, &s, &error);
  if (status) fail_with(status, error, sql);
  char *rows = execute(s.plan, sql);
  assert_string_equal(rows, expected);
  free(rows);
  s.release(&s);
}

static void parameters_are_inferred_and_bound(void **state) {
  (void)state;
  trn_statement s;
  trn_error *error = NULL;
  setup_tables();
  assert_int_equal(decode("select a, b from t where a = ? and c like ? and d < $3", &s, NULL), TRN_OK);
  assert_non_null(s.parameters);
  assert_int_equal(s.parameters->n_children, 3);
  assert_string_equal(s.parameters->children[0]->name, "$1");
  assert_string_equal(s.parameters->children[0]->format, "l");
  assert_string_equal(s.parameters->children[1]->format, "u");
  assert_string_equal(s.parameters->children[2]->format, "tdD");
  struct ArrowSchema schema = {0};
  assert_int_equal(trn_plan_schema(s.plan, &schema), TRN_OK);
  assert_int_equal(schema.n_children, 2);
  schema.release(&schema);
  const trn_execute_request request = {.struct_size = sizeof request, .plan = s.plan};
  trn_operation *operation = NULL;
  assert_int_equal(trn_backend_execute(session, &request, &operation, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_condition(error), "UNBOUND_SQL_PARAMETER");
  trn_error_unref(error), error = NULL;
  s.release(&s);

  assert_int_equal(decode("select $1", &s, NULL), TRN_OK); /* nothing tells the type */
  assert_string_equal(s.parameters->children[0]->format, "n");
  s.release(&s);
  assert_int_equal(decode("insert into t (a, b) values (?, ?)", &s, NULL), TRN_OK);
  assert_string_equal(s.parameters->children[0]->format, "l");
  assert_string_equal(s.parameters->children[1]->format, "g");
  s.release(&s);

  bound_gives("select a, c from t where a = ?", "select 2", 0, "2,y,\n");
  bound_gives("select a, c from t where a = $1 or c = $2", "select * from (values (9, 'x'), (2, 'q')) v", 0, "1,x,\n");
  bound_gives("select a, c from t where a = $1 or c = $2", "select * from (values (9, 'x'), (2, 'q')) v", 1, "2,y,\n");
  bound_gives("select a from t where b > $low and b < $high", "select 2.0 as low, 9.0 as high", 0, "2,\n");
  bound_gives("select $1 || '!'", "select 'a'", 0, "a!,\n");
  bound_gives("select a from t order by a limit $1", "select 1", 0, "1,\n");
  assert_int_equal(decode_bound("select a from t where a = $1 and b = $2", "select 1", 0, &s, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_condition(error), "UNBOUND_SQL_PARAMETER");
  trn_error_unref(error), error = NULL;
  assert_int_equal(decode_bound("select a from t where d = $1", "select 'soup'", 0, &s, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_condition(error), "INVALID_PARAMETER_VALUE");
  trn_error_unref(error), error = NULL;
  assert_int_equal(decode_bound("select $1", "select 1", 5, &s, &error), TRN_INVALID_ARGUMENT);
  trn_error_unref(error);
}

/* ---- errors ---- */

static void mistakes_are_placed(void **state) {
  (void)state;
  static const struct { const char *sql, *condition; int start; } mistakes[] = {
      {"select a from t whre a = 1 = 2", "PARSE_SYNTAX_ERROR", -2},
      {"select", "PARSE_SYNTAX_ERROR", -2},
      {"", "PARSE_EMPTY_STATEMENT", -1},
      {"select 1; select 2", "PARSE_SYNTAX_ERROR", -1},
      {"select 'abc", "PARSE_SYNTAX_ERROR", -2},
      {"select nofun(a) from t", "UNRESOLVED_ROUTINE", -2},
      {"select a from missing", "TABLE_OR_VIEW_NOT_FOUND", -2},
      {"select\n  a,\n  wrong from t", NULL, 14},
  };
  setup_tables();
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    trn_statement s;
    trn_error *error = NULL;
    trn_position at;
    if (!decode(mistakes[i].sql, &s, &error)) fail_msg("%s is understood", mistakes[i].sql);
    const char *condition = trn_error_condition(error);
    if (mistakes[i].condition && (!condition || strcmp(condition, mistakes[i].condition)))
      fail_msg("%s: %s %s", mistakes[i].sql, condition ? condition : "none", trn_error_message(error));
    bool has = trn_error_position(error, &at);
    if (mistakes[i].start >= 0 && (!has || at.start != mistakes[i].start))
      fail_msg("%s: at %d", mistakes[i].sql, has ? at.start : -1);
    assert_null(strstr(trn_error_message(error), "Line:"));
    trn_error_unref(error);
  }
}

static void nesting_is_bounded(void **state) {
  (void)state;
  enum { LEVELS = 100000 };
  trn_strbuf text = {0};
  trn_statement s;
  trn_error *error = NULL;
  trn__strbuf_puts(&text, "select ");
  for (int i = 0; i < LEVELS; i++) trn__strbuf_putc(&text, '(');
  trn__strbuf_putc(&text, '1');
  for (int i = 0; i < LEVELS; i++) trn__strbuf_putc(&text, ')');
  trn__strbuf_putc(&text, 0);
  assert_int_equal(decode(text.data, &s, &error), TRN_RESOURCE_EXHAUSTED);
  trn_error_unref(error);
  trn__strbuf_finish(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statements_become_commands),   cmocka_unit_test(tables_and_views_are_described),
      cmocka_unit_test(transactions_are_told),        cmocka_unit_test(changes_are_whole_tables),
      cmocka_unit_test(parameters_are_inferred_and_bound), cmocka_unit_test(mistakes_are_placed),
      cmocka_unit_test(nesting_is_bounded)};
  const char *path = getenv("TRUNNION_ENGINE");
  if (!path || access(path, R_OK)) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: TRUNNION_ENGINE=%s is not readable\n", path ? path : "");
    return 0;
  }
  return cmocka_run_group_tests(tests, open_session, close_session);
}
