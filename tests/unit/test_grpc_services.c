/* gRPC's health checking and server reflection without a network: answers, and every broken request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/varint.h"
#include "transport/inproc/inproc.h"
#include <stdlib.h>
#include <trunnion/frontend.h>

#define HEALTH "/grpc.health.v1.Health/"
#define REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

static trn_routes *routes;
static trn_inproc *inproc;

static int set_up(void **state) {
  trn_frontend *health = NULL, *reflection = NULL;
  (void)state;
  if (trn_routes_create(&routes) || trn_health_frontend_create(&health) ||
      trn_reflection_frontend_create(&reflection) || trn_frontend_register(health, routes, NULL, NULL) ||
      trn_frontend_register(reflection, routes, NULL, NULL))
    return 1;
  trn_frontend_destroy(health);
  trn_frontend_destroy(reflection);
  return trn__inproc_create(routes, &inproc) != TRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  trn__inproc_destroy(inproc);
  trn_routes_destroy(routes);
  return 0;
}

/* A call with one message; trn__inproc_reply_finish. */
static trn_inproc_reply call(const char *path, const void *data, size_t size, int64_t timeout_ns) {
  trn_inproc_reply reply;
  const trn_inproc_request request = {.path = path, .timeout_ns = timeout_ns};
  const trn_slice message = {.data = data, .size = size};
  assert_int_equal(trn__inproc_invoke(inproc, &request, &message, 1, &reply), TRN_OK);
  return reply;
}

static trn_strbuf service_request(const char *name) {
  trn_strbuf out = {0};
  trn__strbuf_field(&out, 1, name, strlen(name));
  return out;
}

static void health_knows_the_services_of_the_routes(void **state) {
  static const struct {
    const char *name;
    trn_status status;
  } cases[] = {{"", TRN_OK},
               {"grpc.health.v1.Health", TRN_OK},
               {"grpc.reflection.v1alpha.ServerReflection", TRN_OK},
               {"grpc.health.v1", TRN_NOT_FOUND},
               {"grpc.health.v1.Healt", TRN_NOT_FOUND},
               {"no.such", TRN_NOT_FOUND}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_strbuf request = service_request(cases[i].name);
    trn_inproc_reply reply = call(HEALTH "Check", request.data, request.size, 0);
    assert_int_equal(reply.status, cases[i].status);
    assert_int_equal(reply.message_count, cases[i].status == TRN_OK);
    if (!reply.status) assert_memory_equal(reply.messages[0].data, "\x08\x01", 2);
    trn__inproc_reply_finish(&reply);
    reply = call(HEALTH "Watch", request.data, request.size, 20000000); /* it goes on until its deadline */
    assert_int_equal(reply.status, TRN_DEADLINE_EXCEEDED);
    assert_int_equal(reply.message_count, 1);
    assert_memory_equal(reply.messages[0].data, cases[i].status ? "\x08\x03" : "\x08\x01", 2);
    trn__inproc_reply_finish(&reply);
    trn__strbuf_finish(&request);
  }
  trn_inproc_reply reply = call(HEALTH "Check", "", 0, 0); /* an empty message: the server */
  assert_int_equal(reply.status, TRN_OK);
  trn__inproc_reply_finish(&reply);
  reply = call(HEALTH "List", "", 0, 0);
  assert_int_equal(reply.status, TRN_OK);
  assert_non_null(memmem(reply.messages[0].data, reply.messages[0].size, "grpc.reflection.v1.ServerReflection", 35));
  trn__inproc_reply_finish(&reply);
}

/* Every message of a conversation is answered by one; the numbers of the answers' members in `kinds`. */
static void reflection_answers_each_question(void **state) {
  static const struct {
    unsigned field;
    const char *value;
    uint8_t kind; /* the tag of the answer's member */
  } cases[] = {{7, "*", 0x32},
               {3, "grpc/health/v1/health.proto", 0x22},
               {4, "grpc.health.v1.Health.Check", 0x22},
               {4, "grpc.health.v1.HealthCheckResponse.ServingStatus", 0x22},
               {3, "spark/connect/base.proto", 0x3A}, /* known, but its service is not mounted */
               {4, "spark.connect.SparkConnectService", 0x3A},
               {4, "google.protobuf.Any", 0x22}, /* files without services are nobody's secret */
               {6, "grpc.health.v1.HealthCheckRequest", 0x2A},
               {6, "no.such.Type", 0x3A},
               {5, "", 0x3A},
               {1, "host", 0x3A}};
  enum { COUNT = sizeof cases / sizeof *cases };
  trn_slice messages[COUNT];
  trn_strbuf requests[COUNT] = {{0}};
  trn_inproc_reply reply;
  const trn_inproc_request request = {.path = REFLECTION};
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    trn__strbuf_field(&requests[i], cases[i].field, cases[i].value, strlen(cases[i].value));
    messages[i] = (trn_slice){.data = requests[i].data, .size = requests[i].size};
  }
  assert_int_equal(trn__inproc_invoke(inproc, &request, messages, COUNT, &reply), TRN_OK);
  assert_int_equal(reply.status, TRN_OK);
  assert_int_equal(reply.message_count, COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    trn_strbuf head = {0}; /* valid_host, then the question as it was */
    const char *host = cases[i].field == 1 ? cases[i].value : "";
    trn__strbuf_field(&head, 1, host, strlen(host));
    trn__strbuf_field(&head, 2, requests[i].data, requests[i].size);
    assert_true(reply.messages[i].size > head.size);
    assert_memory_equal(reply.messages[i].data, head.data, head.size);
    assert_int_equal(((const uint8_t *)reply.messages[i].data)[head.size], cases[i].kind);
    trn__strbuf_finish(&head);
    trn__strbuf_finish(&requests[i]);
  }
  trn__inproc_reply_finish(&reply);
}

static void broken_requests_are_refused(void **state) {
  static const char *const broken[] = {"\x0a",
                                       "\x0a\x05"
                                       "abc",
                                       "\x0b",
                                       "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                       "\x09"
                                       "abc",
                                       "\x0d"
                                       "ab",
                                       "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                                       "a"};
  static const char *const paths[] = {HEALTH "Check", HEALTH "Watch", REFLECTION};
  (void)state;
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
      size_t size = strlen(broken[i]);
      char *copy = malloc(size); /* a sanitizer sees reads past its end */
      memcpy(copy, broken[i], size);
      trn_inproc_reply reply = call(paths[k], copy, size, 0);
      assert_int_equal(reply.status, TRN_INVALID_ARGUMENT);
      assert_true(*reply.message);
      trn__inproc_reply_finish(&reply);
      free(copy);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(health_knows_the_services_of_the_routes),
      cmocka_unit_test(reflection_answers_each_question),
      cmocka_unit_test(broken_requests_are_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
