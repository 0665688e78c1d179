/* Parts of the Spark Connect service: the wire check, settings, sessions, the layout of show, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/wire/wire.h"
#include "frontend/spark/service.h"
#include "support/spark_client.h"

static int set_up(void **state) {
  spark_client *client = malloc(sizeof *client);
  *state = client;
  return client_start(client, NULL);
}

static int set_up_idle(void **state) {
  spark_client *client = malloc(sizeof *client);
  const trn_spark_options options = {.struct_size = sizeof options, .session_idle_ms = 200, .timezone = "Asia/Tokyo"};
  *state = client;
  return client_start(client, &options);
}

static int tear_down(void **state) {
  client_stop(*state);
  free(*state);
  return 0;
}

/* ---- wire ---- */

static const ProtobufCMessageDescriptor *const relation_type = &spark__connect__relation__descriptor;

static void assert_refused(const void *data, size_t size, const char *why) {
  trn_error *error = NULL;
  assert_int_equal(spark__wire_check(relation_type, data, size, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_condition(error), "CONNECT_INVALID_PLAN.CANNOT_PARSE");
  const trn_error_param *params;
  assert_int_equal(trn_error_params(error, &params), 1);
  if (!strstr(params[0].value, why)) fail_msg("%s, not %s", params[0].value, why);
  trn_error_unref(error);
}

/* A relation of `levels` nested filters; gives (free). */
static uint8_t *nested_filters(size_t levels, size_t *size) {
  size_t capacity = levels * 16 + 16, used = 0;
  uint8_t *end = malloc(capacity);
  for (size_t i = 0; i < levels; i++) { /* written back to front: input(1) of a filter(4) */
    uint8_t head[16];
    size_t n = 0;
    for (int layer = 0; layer < 2; layer++) {
      uint8_t tag = layer ? 4 << 3 | 2 : 1 << 3 | 2;
      uint64_t length = used + n;
      uint8_t number[10];
      size_t m = 0;
      do number[m++] = (uint8_t)((length & 127) | (length > 127 ? 128 : 0));
      while (length >>= 7);
      memmove(head + 1 + m, head, n);
      head[0] = tag;
      memcpy(head + 1, number, m);
      n += 1 + m;
    }
    memmove(end + n, end, used);
    memcpy(end, head, n);
    used += n;
  }
  *size = used;
  return end;
}

static void nesting_is_bounded_without_recursion(void **state) {
  (void)state;
  size_t size;
  uint8_t *deep = nested_filters(500, &size); /* two messages a level */
  assert_int_equal(spark__wire_check(relation_type, deep, size, NULL), TRN_OK);
  free(deep);
  deep = nested_filters(5000, &size);
  assert_refused(deep, size, "nesting");
  free(deep);
}

static void broken_messages_are_refused(void **state) {
  (void)state;
  assert_refused("\x22\x7f", 2, "truncated"); /* filter longer than the message */
  assert_refused("\x23\x24", 2, "group");     /* field 4, start group */
  assert_refused("\x00", 1, "malformed");     /* field 0 */
  assert_refused("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, "malformed");
  assert_refused("\x09\x01", 2, "truncated");
  assert_refused("\xff", 1, "malformed");
}

static void members_of_ours_are_refused_from_outside(void **state) {
  (void)state;
  Spark__Connect__TrnWith with = SPARK__CONNECT__TRN_WITH__INIT;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_TRN_WITH;
  relation.trn_with = &with;
  trn_slice slice = pack_slice(&relation);
  assert_refused(slice.data, slice.size, "reserved");
  slice.release(slice.owner);
}

static void texts_must_be_utf8_without_nul(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t size;
    const char *why;
  } cases[] = {
      {"a\0b", 3, "NUL"},
      {"\xff", 1, "UTF-8"},
      {"\xc0\xaf", 2, "UTF-8"},
      {"\xed\xa0\x80", 3, "UTF-8"},
      {"\xe2\x82", 2, "UTF-8"},
      {"\xf4\x90\x80\x80", 4, "UTF-8"},
      {"ok \xe2\x82\xac \xf0\x9f\x98\x80", 11, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[32]; /* sql(10) { query(1) } */
    size_t n = cases[i].size;
    bytes[0] = 10 << 3 | 2;
    bytes[1] = (uint8_t)(n + 2);
    bytes[2] = 1 << 3 | 2;
    bytes[3] = (uint8_t)n;
    memcpy(bytes + 4, cases[i].text, n);
    if (cases[i].why) {
      assert_refused(bytes, n + 4, cases[i].why);
    } else {
      assert_int_equal(spark__wire_check(relation_type, bytes, n + 4, NULL), TRN_OK);
    }
  }
}

static void many_small_messages_are_bounded(void **state) {
  (void)state;
  size_t count = (size_t)TRN_WIRE_NODES_MAX + 10;
  uint8_t *bytes = malloc(2 * count + 16); /* project(3) { expressions(3) {} ... } */
  size_t inner = 2 * count, at = 0;
  bytes[at++] = 3 << 3 | 2;
  for (uint64_t n = inner; n; n >>= 7) bytes[at++] = (uint8_t)((n & 127) | (n > 127 ? 128 : 0));
  for (size_t i = 0; i < count; i++) {
    bytes[at++] = 3 << 3 | 2;
    bytes[at++] = 0;
  }
  assert_refused(bytes, at, "too many messages");
  free(bytes);
}

/* ---- settings ---- */

typedef struct setting {
  const char *key, *value;
} setting;

static Spark__Connect__ConfigResponse *config(spark_client *client, Spark__Connect__ConfigRequest__Operation *operation,
                                              char **condition) {
  Spark__Connect__ConfigRequest request = SPARK__CONNECT__CONFIG_REQUEST__INIT;
  request.session_id = client->session_id;
  request.operation = operation;
  trn_inproc_reply reply;
  client_call(client, "Config", &request, &reply);
  Spark__Connect__ConfigResponse *response =
      reply.status == TRN_OK ? unpack_slice(&spark__connect__config_response__descriptor, &reply.messages[0]) : NULL;
  *condition = reply.status ? details_value(&reply, "errorClass", NULL) : NULL;
  trn__inproc_reply_finish(&reply);
  return response;
}

/* Gives the condition (free) or NULL. */
static char *set_config(spark_client *client, const char *key, const char *value, bool silent) {
  Spark__Connect__ConfigRequest__Operation operation = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__INIT;
  Spark__Connect__ConfigRequest__Set set = SPARK__CONNECT__CONFIG_REQUEST__SET__INIT;
  Spark__Connect__KeyValue pair = SPARK__CONNECT__KEY_VALUE__INIT, *pairs[] = {&pair};
  char *condition;
  pair.key = (char *)key;
  pair._value_case = SPARK__CONNECT__KEY_VALUE___VALUE_VALUE;
  pair.value = (char *)value;
  set.n_pairs = 1;
  set.pairs = pairs;
  set._silent_case = SPARK__CONNECT__CONFIG_REQUEST__SET___SILENT_SILENT;
  set.silent = silent;
  operation.op_type_case = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_SET;
  operation.set = &set;
  Spark__Connect__ConfigResponse *response = config(client, &operation, &condition);
  if (response) spark__connect__config_response__free_unpacked(response, NULL);
  return condition;
}

/* Gives the value (free); NULL: no value, or refused (then `*condition`). */
static char *get_config(spark_client *client, const char *key, char **condition) {
  Spark__Connect__ConfigRequest__Operation operation = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__INIT;
  Spark__Connect__ConfigRequest__Get get = SPARK__CONNECT__CONFIG_REQUEST__GET__INIT;
  char *keys[] = {(char *)key}, *value = NULL;
  get.n_keys = 1;
  get.keys = keys;
  operation.op_type_case = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET;
  operation.get = &get;
  Spark__Connect__ConfigResponse *response = config(client, &operation, condition);
  if (response && response->pairs[0]->_value_case) value = strdup(response->pairs[0]->value);
  if (response) spark__connect__config_response__free_unpacked(response, NULL);
  return value;
}

static void assert_config(spark_client *client, const char *key, const char *expected) {
  char *condition, *value = get_config(client, key, &condition);
  if (!expected) {
    assert_null(value);
  } else if (!value || strcmp(value, expected) != 0) {
    fail_msg("%s is %s (%s), not %s", key, value ? value : "unset", condition ? condition : "", expected);
  }
  free(value);
  free(condition);
}

static void assert_set(spark_client *client, const char *key, const char *value, bool silent, const char *expected) {
  char *condition = set_config(client, key, value, silent);
  if (!expected) {
    assert_null(condition);
  } else {
    assert_non_null(condition);
    assert_string_equal(condition, expected);
  }
  free(condition);
}

static void settings_have_spark_s_defaults(void **state) {
  static const setting keys[] = {
      {"spark.connect.session.planCompression.threshold", "-1"},
      {"spark.sql.session.localRelationCacheThreshold", "2147483647"},
      {"spark.sql.session.localRelationChunkSizeRows", "10000"},
      {"spark.sql.timestampType", "TIMESTAMP_LTZ"},
      {"spark.sql.session.timeZone", "UTC"},
      {"spark.sql.ansi.enabled", "true"},
      {"spark.sql.connect.serverStacktrace.enabled", "false"},
      {"spark.sql.adaptive.advisoryPartitionSizeInBytes", "64MB"}, /* by another key */
      {"spark.sql.optimizer.excludedRules", NULL},
  };
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_config(*state, keys[i].key, keys[i].value);
  char *condition;
  assert_null(get_config(*state, "no.such.key", &condition));
  assert_string_equal(condition, "SQL_CONF_NOT_FOUND");
  free(condition);
}

static void settings_are_checked_and_kept(void **state) {
  assert_set(*state, "spark.sql.shuffle.partitions", "7", false, NULL);
  assert_config(*state, "spark.sql.shuffle.partitions", "7");
  assert_set(*state, "spark.sql.shuffle.partitions", "x", false, "INVALID_CONF_VALUE.TYPE_MISMATCH");
  assert_set(*state, "spark.sql.ansi.enabled", "maybe", false, "INVALID_CONF_VALUE.TYPE_MISMATCH");
  assert_set(*state, "spark.sql.session.timeZone", "no zone", false, "INVALID_CONF_VALUE.TIME_ZONE");
  assert_set(*state, "spark.sql.warehouse.dir", "x", false, "CANNOT_MODIFY_STATIC_CONFIG");
  assert_set(*state, "spark.sql.warehouse.dir", "x", true, NULL);
  assert_config(*state, "spark.sql.warehouse.dir", "spark-warehouse");
  assert_set(*state, "my.own.key", "v", false, NULL);
  assert_config(*state, "my.own.key", "v");
  Spark__Connect__ConfigRequest__Operation operation = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__INIT;
  Spark__Connect__ConfigRequest__GetAll all = SPARK__CONNECT__CONFIG_REQUEST__GET_ALL__INIT;
  char *condition;
  all._prefix_case = SPARK__CONNECT__CONFIG_REQUEST__GET_ALL___PREFIX_PREFIX;
  all.prefix = "my.own.";
  operation.op_type_case = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET_ALL;
  operation.get_all = &all;
  Spark__Connect__ConfigResponse *response = config(*state, &operation, &condition);
  assert_int_equal(response->n_pairs, 1);
  assert_string_equal(response->pairs[0]->key, "key"); /* without the prefix */
  spark__connect__config_response__free_unpacked(response, NULL);
}

static void the_table_of_defaults_is_sorted(void **state) {
  (void)state;
  static const spark_config_default rows[] = {
#include "frontend/spark/config_defaults.inc"
  };
  for (size_t i = 1; i < sizeof rows / sizeof *rows; i++) assert_true(strcmp(rows[i - 1].key, rows[i].key) < 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_ptr_equal(spark__config_default(rows[i].key)->key == NULL, 0);
}

/* ---- sessions ---- */

static char *session_condition(spark_client *client, const char *session_id, const char *observed) {
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__SparkVersion version = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__SPARK_VERSION__INIT;
  trn_inproc_reply reply;
  request.session_id = (char *)session_id;
  if (observed) {
    request._client_observed_server_side_session_id_case =
        SPARK__CONNECT__ANALYZE_PLAN_REQUEST___CLIENT_OBSERVED_SERVER_SIDE_SESSION_ID_CLIENT_OBSERVED_SERVER_SIDE_SESSION_ID;
    request.client_observed_server_side_session_id = (char *)observed;
  }
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_SPARK_VERSION;
  request.spark_version = &version;
  client_call(client, "AnalyzePlan", &request, &reply);
  char *condition = NULL;
  if (reply.status) {
    condition = details_value(&reply, "errorClass", NULL);
  } else {
    Spark__Connect__AnalyzePlanResponse *response =
        unpack_slice(&spark__connect__analyze_plan_response__descriptor, &reply.messages[0]);
    assert_string_equal(response->session_id, session_id);
    assert_string_equal(response->spark_version->version, "4.2.0");
    spark__connect__analyze_plan_response__free_unpacked(response, NULL);
  }
  trn__inproc_reply_finish(&reply);
  return condition;
}

static void assert_session(spark_client *client, const char *id, const char *observed, const char *expected) {
  char *condition = session_condition(client, id, observed);
  if (expected) {
    assert_non_null(condition);
    assert_string_equal(condition, expected);
  } else {
    assert_null(condition);
  }
  free(condition);
}

static Spark__Connect__ReleaseSessionResponse *release_session(spark_client *client) {
  Spark__Connect__ReleaseSessionRequest request = SPARK__CONNECT__RELEASE_SESSION_REQUEST__INIT;
  request.session_id = client->session_id;
  return client_ask(client, "ReleaseSession", &request, &spark__connect__release_session_response__descriptor);
}

static void sessions_are_made_checked_closed_and_remembered(void **state) {
  spark_client *client = *state;
  assert_session(client, "abc", NULL, "INVALID_HANDLE.FORMAT");
  assert_session(client, client->session_id, NULL, NULL);
  assert_session(client, client->session_id, client->session_id, "INVALID_HANDLE.SESSION_CHANGED");
  Spark__Connect__ReleaseSessionResponse *reply = release_session(client);
  assert_non_null(reply);
  assert_int_equal(strlen(reply->server_side_session_id), 36);
  spark__connect__release_session_response__free_unpacked(reply, NULL);
  reply = release_session(client);
  assert_non_null(reply);
  spark__connect__release_session_response__free_unpacked(reply, NULL);
  assert_session(client, client->session_id, NULL, "INVALID_HANDLE.SESSION_CLOSED");
}

static void idle_sessions_are_closed(void **state) {
  spark_client *client = *state;
  assert_config(client, "spark.sql.session.timeZone", "Asia/Tokyo");
  WAIT_UNTIL(trn__scripted_count(client->scripted).sessions_closed == 1);
  assert_int_equal(trn__scripted_count(client->scripted).sessions_closed, 1);
  assert_session(client, client->session_id, NULL, "INVALID_HANDLE.SESSION_CLOSED");
}

/* ---- show: expected texts are real Spark's ---- */

static void assert_show(spark_show show, const char *const *names, size_t columns, const char *const *cells,
                        size_t rows, bool more, const char *expected) {
  size_t size = 0;
  char *text = spark__show_format(&show, names, columns, cells, rows, more, &size);
  assert_non_null(text);
  assert_string_equal(text, expected);
  assert_int_equal(size, strlen(expected));
  free(text);
}

static void show_lays_out_as_spark_does(void **state) {
  (void)state;
  const char *const names[] = {"age", "name"};
  const char *const cells[] = {"14", "Tom", "23", "Alice", "16", "Bob", "19", "This is a super l"};
  /* DataFrame.show's doctests */
  assert_show(
      (spark_show){2, 20, false, false}, names, 2, cells, 2, true,
      "+---+-----+\n|age| name|\n+---+-----+\n| 14|  Tom|\n| 23|Alice|\n+---+-----+\nonly showing top 2 rows");
  assert_show((spark_show){20, 3, false, false}, names, 2, cells, 4, false,
              "+---+----+\n|age|name|\n+---+----+\n| 14| Tom|\n| 23| Ali|\n| 16| Bob|\n| 19| Thi|\n+---+----+\n");
  assert_show((spark_show){20, 0, true, false}, names, 2, cells + 6, 1, false,
              "-RECORD 0-----------------\n age  | 19                \n name | This is a super l \n");
  assert_show((spark_show){20, 0, false, false}, names, 2, cells, 2, false,
              "+---+-----+\n|age|name |\n+---+-----+\n|14 |Tom  |\n|23 |Alice|\n+---+-----+\n");
  assert_show((spark_show){20, 20, false, false}, names, 2, cells, 0, false,
              "+---+----+\n|age|name|\n+---+----+\n+---+----+\n");
  assert_show((spark_show){20, 20, true, false}, names, 2, cells, 0, false, "(0 rows)");
  assert_show((spark_show){1, 20, false, false}, NULL, 0, NULL, 1, true,
              "++\n||\n++\n||\n++\nonly showing top 1 row");
  assert_show((spark_show){20, 20, false, true}, names, 2, cells, 1, false,
              "<table border='1'>\n<tr><th>age</th><th>name</th></tr>\n<tr><td>14</td><td>Tom</td></tr>\n</table>\n");
}

static void show_escapes_cuts_and_counts_wide_characters(void **state) {
  (void)state;
  const char *const names[] = {"c"};
  const char *const cells[] = {"a\nb\tc", "\xe4\xb8\xad\xe6\x96\x87", "0123456789012345678901", "\xc3\xa9"};
  assert_show(
      (spark_show){20, 20, false, false}, names, 1, cells, 4, false,
      "+--------------------+\n|                   c|\n+--------------------+\n|             a\\nb\\tc|\n|             "
      "   "
      "\xe4\xb8\xad\xe6\x96\x87|\n|01234567890123456...|\n|                   \xc3\xa9|\n+--------------------+\n");
}

/* ---- errors ---- */

static void a_runtime_error_marks_its_place_in_the_text(void **state) {
  (void)state;
  const char *sql = "select 1/0";
  const trn_error_param params[] = {{"config", "\"spark.sql.ansi.enabled\""}};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_INVALID_ARGUMENT,
                               .condition = "DIVIDE_BY_ZERO",
                               .params = params,
                               .param_count = 1,
                               .position = {7, 9},
                               .has_position = true};
  trn_error *error = trn_error_create(&spec);
  spark_failure *failure = spark__failure_create(TRN_INVALID_ARGUMENT, error, SPARK_PHASE_EXECUTION, sql, true);
  assert_string_equal(
      failure->message,
      "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL "
      "instead. If necessary set \"spark.sql.ansi.enabled\" to \"false\" to bypass this error. SQLSTATE: "
      "22012\n== SQL (line 1, position 8) ==\nselect 1/0\n       ^^^\n");
  assert_string_equal(failure->fragment, "1/0");
  spark__failure_unref(failure);
  trn_error_unref(error);
}

static void contexts_of_long_texts_are_cut(void **state) {
  (void)state;
  const char *sql = "select\n aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, 1/\n0 "
                    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
  int32_t start = (int32_t)(strstr(sql, "1/") - sql);
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_INVALID_ARGUMENT,
                               .condition = "USER_RAISED_EXCEPTION",
                               .message = "m",
                               .position = {start, start + 3},
                               .has_position = true};
  trn_error *error = trn_error_create(&spec);
  spark_failure *failure = spark__failure_create(TRN_INVALID_ARGUMENT, error, SPARK_PHASE_EXECUTION, sql, true);
  assert_string_equal(failure->summary,
                      "== SQL (line 2, position 59) ==\n...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, 1/\n"
                      "                                   ^^\n0 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb...\n^\n");
  spark__failure_unref(failure);
  trn_error_unref(error);
}

static void long_messages_are_cut_for_the_trailers_only(void **state) {
  (void)state;
  char *text = malloc(9001);
  for (size_t i = 0; i < 9000; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
  text[9000] = 0;
  trn_error *error = NULL;
  trn_error_set(&error, TRN_INTERNAL, NULL, "%s", text);
  spark_failure *failure = spark__failure_create(TRN_INTERNAL, error, SPARK_PHASE_EXECUTION, NULL, true);
  assert_string_equal(failure->message, text);
  size_t wire = strlen(failure->wire_message); /* percent-encoded, and as base64 in the details */
  assert_in_range(wire * 3 + failure->details_size * 4 / 3, 4000, 7700);
  assert_true(trn__utf8_is_valid(failure->wire_message, strlen(failure->wire_message)));
  assert_string_equal(failure->classes[0], "org.apache.spark.SparkException");
  spark__failure_unref(failure);
  trn_error_unref(error);
  free(text);
}

static void conditions_are_found(void **state) {
  (void)state;
  const char *sqlstate, *text;
  assert_true(spark__condition_find("UNRESOLVED_COLUMN.WITH_SUGGESTION", &sqlstate, &text));
  assert_string_equal(sqlstate, "42703");
  assert_non_null(strstr(text, "Did you mean one of the following? [<proposal>]."));
  assert_false(spark__condition_find("NO_SUCH_CONDITION", &sqlstate, &text));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nesting_is_bounded_without_recursion),
      cmocka_unit_test(broken_messages_are_refused),
      cmocka_unit_test(members_of_ours_are_refused_from_outside),
      cmocka_unit_test(texts_must_be_utf8_without_nul),
      cmocka_unit_test(many_small_messages_are_bounded),
      TEST(settings_have_spark_s_defaults),
      TEST(settings_are_checked_and_kept),
      cmocka_unit_test(the_table_of_defaults_is_sorted),
      TEST(sessions_are_made_checked_closed_and_remembered),
      cmocka_unit_test_setup_teardown(idle_sessions_are_closed, set_up_idle, tear_down),
      cmocka_unit_test(show_lays_out_as_spark_does),
      cmocka_unit_test(show_escapes_cuts_and_counts_wide_characters),
      cmocka_unit_test(a_runtime_error_marks_its_place_in_the_text),
      cmocka_unit_test(contexts_of_long_texts_are_cut),
      cmocka_unit_test(long_messages_are_cut_for_the_trailers_only),
      cmocka_unit_test(conditions_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
