/* Broken requests: every method takes mutated messages and ends the call. The seeds are real requests; the random
 * numbers are fixed (TRUNNION_FUZZ_SEED, TRUNNION_FUZZ_ROUNDS change them). Made for the sanitizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/spark_client.h"

static uint64_t random_state;

static uint64_t next_random(void) { /* xorshift64* */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 2685821657736338717u;
}

static unsigned long number_of(const char *name, unsigned long standard) {
  const char *text = getenv(name);
  return text ? strtoul(text, NULL, 10) : standard;
}

/* A copy of `seed`, changed in a few places; gives the new size. `out` has room for twice the seed and 64 bytes. */
static size_t mutate(const trn_slice *seed, uint8_t *out) {
  size_t size = seed->size;
  memcpy(out, seed->data, size);
  unsigned changes = 1 + (unsigned)(next_random() % 4);
  while (changes--) {
    size_t at = size ? (size_t)(next_random() % size) : 0, length = size - at < 32 ? size - at : 32;
    switch (next_random() % 6) {
    case 0:
      if (size) out[at] = (uint8_t)next_random();
      break;
    case 1:
      if (size) out[at] ^= (uint8_t)(1u << next_random() % 8);
      break;
    case 2: size = at; break; /* cut off */
    case 3:                   /* repeat a piece */
      if (size + length > seed->size * 2 + 64) break;
      memmove(out + at + length, out + at, size - at);
      size += length;
      break;
    case 4: /* leave a piece out */
      memmove(out + at, out + at + length, size - at - length);
      size -= length;
      break;
    default:
      if (size) out[at] = 0xFF;
      break;
    }
  }
  return size;
}

typedef struct seed {
  const char *method;
  trn_slice message;
} seed;

static seed analyze_seed(spark_client *client) {
  test_plan p;
  Spark__Connect__AnalyzePlanRequest request = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__INIT;
  Spark__Connect__AnalyzePlanRequest__Schema schema = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__SCHEMA__INIT;
  request.session_id = client->session_id;
  request.analyze_case = SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_SCHEMA;
  request.schema = &schema;
  schema.plan = range_plan(&p, 0, 10);
  return (seed){"AnalyzePlan", pack_slice(&request)};
}

static seed config_seed(spark_client *client) {
  Spark__Connect__ConfigRequest request = SPARK__CONNECT__CONFIG_REQUEST__INIT;
  Spark__Connect__ConfigRequest__Operation operation = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__INIT;
  Spark__Connect__ConfigRequest__Get get = SPARK__CONNECT__CONFIG_REQUEST__GET__INIT;
  char *keys[] = {"spark.sql.ansi.enabled", "spark.sql.session.timeZone"};
  get.n_keys = 2;
  get.keys = keys;
  operation.op_type_case = SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET;
  operation.get = &get;
  request.session_id = client->session_id;
  request.operation = &operation;
  return (seed){"Config", pack_slice(&request)};
}

/* A select with functions, literals, casts and a filter, as a DataFrame sends it. */
static seed project_seed(spark_client *client) {
  test_plan p;
  range_plan(&p, 0, 10);
  Spark__Connect__Expression column = SPARK__CONNECT__EXPRESSION__INIT, one = SPARK__CONNECT__EXPRESSION__INIT,
                             call = SPARK__CONNECT__EXPRESSION__INIT, *args[] = {&column, &one},
                             *list[] = {&call, &column};
  Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
  Spark__Connect__Expression__Literal literal = SPARK__CONNECT__EXPRESSION__LITERAL__INIT;
  Spark__Connect__Expression__UnresolvedFunction function = SPARK__CONNECT__EXPRESSION__UNRESOLVED_FUNCTION__INIT;
  Spark__Connect__Relation project = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Project select = SPARK__CONNECT__PROJECT__INIT;
  attribute.unparsed_identifier = "id";
  column.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  column.unresolved_attribute = &attribute;
  literal.literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER;
  literal.integer = 1;
  one.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  one.literal = &literal;
  function.function_name = "+";
  function.n_arguments = 2;
  function.arguments = args;
  call.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION;
  call.unresolved_function = &function;
  select.input = &p.relation;
  select.n_expressions = 2;
  select.expressions = list;
  project.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_PROJECT;
  project.project = &select;
  p.plan.root = &project;
  return (seed){"ExecutePlan", execute_slice(client, &p.plan, (execute_options){.reattachable = true})};
}

static void every_method_survives_mutated_messages(void **state) {
  (void)state;
  spark_client client;
  assert_int_equal(client_start(&client, NULL), 0);
  random_state = number_of("TRUNNION_FUZZ_SEED", 88172645463325252u);
  const char *id = "00112233-4455-4677-8899-aabbccddeeff";
  test_plan p;
  const seed seeds[] = {
      analyze_seed(&client),
      config_seed(&client),
      project_seed(&client),
      {"ExecutePlan",
       execute_slice(&client, range_plan(&p, 0, 100), (execute_options){.chunks = true, .reattachable = true})},
      {"ExecutePlan", execute_slice(&client, sql_plan(&p, "select a, sum(b) from (values (1, 2.5)) t(a, b) group by a"),
                                    (execute_options){.operation_id = id})},
      {"ReattachExecute", reattach_slice(&client, id, id)},
      {"ReleaseExecute", reattach_slice(&client, id, id)}, /* near enough: the first fields are the same */
      {"Interrupt", reattach_slice(&client, id, NULL)},
      {"ReleaseSession", reattach_slice(&client, id, NULL)},
      {"FetchErrorDetails", reattach_slice(&client, id, NULL)},
      {"CloneSession", reattach_slice(&client, id, NULL)},
      {"GetStatus", reattach_slice(&client, id, NULL)},
      {"ArtifactStatus", reattach_slice(&client, id, NULL)},
      {"AddArtifacts", reattach_slice(&client, id, NULL)},
  };
  unsigned long rounds = number_of("TRUNNION_FUZZ_ROUNDS", 300);
  for (unsigned long i = 0; i < rounds * (sizeof seeds / sizeof *seeds); i++) {
    const seed *from = &seeds[i % (sizeof seeds / sizeof *seeds)];
    uint8_t *bytes = malloc(from->message.size * 2 + 64);
    trn_slice message = {bytes, mutate(&from->message, bytes), free, bytes};
    char path[128];
    snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, from->method);
    const trn_inproc_request call = {.path = path, .timeout_ns = 30000000000};
    trn_inproc_reply reply;
    assert_int_equal(trn__inproc_invoke(client.inproc, &call, &message, 1, &reply), TRN_OK);
    /* Never a status that clients retry for ten minutes, and never none in time. */
    if (reply.status != TRN_OK && reply.status != TRN_INTERNAL && reply.status != TRN_RESOURCE_EXHAUSTED)
      fail_msg("%s, round %lu: status %d, %s", from->method, i, (int)reply.status, reply.message);
    trn__inproc_reply_finish(&reply);
  }
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) seeds[i].message.release(seeds[i].message.owner);
  client_stop(&client);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_survives_mutated_messages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
