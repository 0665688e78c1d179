/* Translators of Spark's extensions: what they may do, answers that are wrong, hostile bytes, and every allocation
 * failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frontend/spark/service.h"
#include "support/spark_plans.h"
#include <trunnion/decoder.h>
#include <trunnion/translator.h>
#include "support/failing_memory.h"

/* ---- translators ---- */

typedef enum manner { GOOD, NO_ANSWER, NO_SCOPE, FOREIGN_COLUMN, NO_NAME, REFUSES } manner;
static manner the_manner;

/* The message is a child relation: its rows, and the first column again under another name. */
static trn_status twice(void *self, trn_translation *translation, const void *value, size_t size, trn_translated *out,
                        trn_error **error) {
  trn_translated child;
  trn_edit *edit = trn_translation_edit(translation);
  trn_scope_column columns[2] = {{.struct_size = sizeof *columns}, {.struct_size = sizeof *columns}};
  static const char *const qualifier[] = {"q"};
  (void)self;
  if (the_manner == REFUSES) return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "not you");
  if (the_manner == NO_ANSWER) return TRN_OK;
  assert_non_null(trn_translation_session(translation));
  assert_null(trn_translation_scope(translation));
  trn_status status = trn_translation_relation(translation, value, size, &child, error);
  if (status) return status;
  assert_true(trn_scope_get(child.scope, 0, &columns[0]));
  assert_false(trn_scope_get(child.scope, trn_scope_count(child.scope), &columns[1]));
  const trn_expr *exprs[2] = {columns[0].column, columns[0].column};
  const trn_rel *rel = trn_edit_project(edit, child.rel, exprs, 1, true);
  const trn_rel *more = trn_edit_project(edit, rel, exprs, 1, false);
  const trn_rel *join = trn_edit_join(edit, TRN_JOIN_INNER, rel, more, NULL);
  columns[1] = (trn_scope_column){.struct_size = sizeof *columns,
                                  .column = trn_edit_column(edit, join, 1),
                                  .name = the_manner == NO_NAME ? NULL : "again",
                                  .qualifier = qualifier,
                                  .qualifier_count = 1};
  if (!columns[1].column) return TRN_RESOURCE_EXHAUSTED;
  out->rel = the_manner == FOREIGN_COLUMN ? rel : join;
  if (the_manner == NO_SCOPE) return TRN_OK;
  return trn_translation_new_scope(translation, columns, 2, &out->scope, error);
}

static trn_status same_expr(void *self, trn_translation *translation, const void *value, size_t size,
                            trn_translated_expr *out, trn_error **error) {
  (void)self;
  if (the_manner == NO_ANSWER) return TRN_OK;
  assert_non_null(trn_translation_scope(translation));
  trn_status status = trn_translation_expr(translation, NULL, value, size, out, error);
  out->name = "same";
  return status;
}

static trn_registry *make_registry(void) {
  static const trn_translator_ops relation = {.struct_size = sizeof relation, .relation = twice};
  static const trn_translator_ops expression = {.struct_size = sizeof expression, .expression = same_expr};
  trn_registry *registry = NULL;
  assert_int_equal(trn_registry_create(&registry), TRN_OK);
  assert_int_equal(trn_registry_add_translator(registry, "test.Twice", &relation, NULL, NULL), TRN_OK);
  assert_int_equal(trn_registry_add_translator(registry, "any.host/test.Same", &expression, NULL, NULL), TRN_OK);
  return registry;
}

/* ---- messages ---- */

typedef struct bytes {
  uint8_t data[4096];
  size_t size;
} bytes;

static void pack(const ProtobufCMessage *message, bytes *out) {
  out->size = protobuf_c_message_get_packed_size(message);
  assert_true(out->size <= sizeof out->data);
  protobuf_c_message_pack(message, out->data);
}

/* A relation that holds a message of a type. */
static void wrap(const char *type, const bytes *value, bytes *out) {
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
  any.type_url = (char *)type;
  any.value.data = (uint8_t *)value->data;
  any.value.len = value->size;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_EXTENSION;
  relation.extension = &any;
  pack(&relation.base, out);
}

static void range_message(bytes *out) {
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Range range = SPARK__CONNECT__RANGE__INIT;
  range.end = 3;
  range.step = 1;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_RANGE;
  relation.range = &range;
  pack(&relation.base, out);
}

/* project(range, extension expression of the attribute `id`). */
static void expression_message(bytes *out) {
  Spark__Connect__Relation range_relation = SPARK__CONNECT__RELATION__INIT, relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Range range = SPARK__CONNECT__RANGE__INIT;
  Spark__Connect__Project project = SPARK__CONNECT__PROJECT__INIT;
  Spark__Connect__Expression inner = SPARK__CONNECT__EXPRESSION__INIT, outer = SPARK__CONNECT__EXPRESSION__INIT;
  Spark__Connect__Expression__UnresolvedAttribute attribute = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT;
  Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
  Spark__Connect__Expression *list[1] = {&outer};
  bytes child;
  range.end = 3;
  range.step = 1;
  range_relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_RANGE;
  range_relation.range = &range;
  attribute.unparsed_identifier = "id";
  inner.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  inner.unresolved_attribute = &attribute;
  pack(&inner.base, &child);
  any.type_url = "type.googleapis.com/test.Same";
  any.value.data = child.data;
  any.value.len = child.size;
  outer.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_EXTENSION;
  outer.extension = &any;
  project.input = &range_relation;
  project.n_expressions = 1;
  project.expressions = list;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_PROJECT;
  relation.project = &project;
  pack(&relation.base, out);
}

static trn_status translate(spark_plans *plans, const trn_registry *registry, const bytes *message, trn_plan **out,
                            trn_error **error) {
  spark_translator t;
  ProtobufCMessage *relation = NULL;
  *out = NULL;
  trn_status status = spark__translator_init(&t, plans->session, plans->catalog, error);
  if (status) return status;
  t.registry = registry;
  status = spark__wire_decode(t.arena, &spark__connect__relation__descriptor, message->data, message->size, &relation,
                              error);
  if (!status) return spark__translate_relation(&t, (Spark__Connect__Relation *)relation, out, error);
  trn__arena_unref(t.arena);
  return status;
}

static void check(manner how, const bytes *message, trn_status wanted, const char *text, const char *last_column) {
  spark_plans plans;
  trn_registry *registry = make_registry();
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  assert_true(plans_open(&plans));
  the_manner = how;
  trn_status status = translate(&plans, registry, message, &plan, &error);
  if (status != wanted) fail_msg("%s: %s", trn_status_name(status), trn_error_message(error));
  if (text && !strstr(trn_error_message(error), text)) fail_msg("'%s' is not in '%s'", text, trn_error_message(error));
  if (last_column) assert_string_equal(trn_plan_column_name(plan, trn_plan_column_count(plan) - 1), last_column);
  trn_plan_unref(plan);
  trn_error_unref(error);
  plans_close(&plans);
  trn_registry_destroy(registry);
}

/* ---- tests ---- */

static void translators_make_relations_and_expressions(void **state) {
  (void)state;
  bytes child, message;
  range_message(&child);
  wrap("type.googleapis.com/test.Twice", &child, &message);
  check(GOOD, &message, TRN_OK, NULL, "again");
  wrap("test.Twice", &message, &child); /* inside itself; without a host */
  check(GOOD, &child, TRN_OK, NULL, "again");
  expression_message(&message);
  check(GOOD, &message, TRN_OK, NULL, "same");
}

static void wrong_answers_are_errors(void **state) {
  (void)state;
  bytes child, message;
  range_message(&child);
  wrap("type.googleapis.com/test.Twice", &child, &message);
  check(NO_ANSWER, &message, TRN_INTERNAL, "gave no relation", NULL);
  check(NO_SCOPE, &message, TRN_INTERNAL, "gave no relation", NULL);
  check(FOREIGN_COLUMN, &message, TRN_INTERNAL, "a scope with a column that its relation has not", NULL);
  check(NO_NAME, &message, TRN_INVALID_ARGUMENT, "has no name", NULL);
  check(REFUSES, &message, TRN_PERMISSION_DENIED, "not you", NULL);
  expression_message(&message);
  check(NO_ANSWER, &message, TRN_INTERNAL, "gave no expression", NULL);
  wrap("type.googleapis.com/test.Same", &child, &message);
  check(GOOD, &message, TRN_INVALID_ARGUMENT, "is no relation", NULL);
  wrap("type.googleapis.com/test.Twise", &child, &message);
  check(GOOD, &message, TRN_INVALID_ARGUMENT, "did you mean 'test.Twice'?", NULL);
}

static void messages_inside_each_other_are_bounded(void **state) {
  (void)state;
  static bytes a, b;
  range_message(&a);
  for (unsigned i = 0; i < TRN_EXTENSION_DEPTH_MAX; i++) {
    wrap("t/test.Twice", &a, &b);
    a = b;
  }
  check(GOOD, &a, TRN_OK, NULL, "again");
  wrap("t/test.Twice", &a, &b);
  check(GOOD, &b, TRN_RESOURCE_EXHAUSTED, "TRN_EXTENSION_DEPTH_MAX", NULL);
}

static uint32_t random_state = 7;
static uint32_t next_random(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

static void any_bytes_of_an_encoded_query_end_well(void **state) {
  (void)state;
  static const uint8_t tags[] = {012, 022, 032, 010, 015, 011};
  spark_plans plans;
  trn_registry *registry = make_registry();
  assert_true(plans_open(&plans));
  for (unsigned round = 0; round < 3000; round++) {
    bytes value = {.size = next_random() % 40}, message;
    trn_plan *plan = NULL;
    for (size_t i = 0; i < value.size; i++)
      value.data[i] = i % 3 == 0 && round % 2 ? tags[next_random() % sizeof tags] : (uint8_t)next_random();
    wrap("x/trunnion.EncodedQuery", &value, &message);
    assert_int_not_equal(translate(&plans, registry, &message, &plan, NULL), TRN_OK); /* no such format */
    assert_null(plan);
  }
  plans_close(&plans);
  trn_registry_destroy(registry);
}

static void without_a_registry_extensions_are_not_there(void **state) {
  (void)state;
  spark_plans plans;
  bytes child, message;
  trn_plan *plan = NULL;
  range_message(&child);
  wrap("t/test.Twice", &child, &message);
  assert_true(plans_open(&plans));
  assert_int_equal(translate(&plans, NULL, &message, &plan, NULL), TRN_UNIMPLEMENTED);
  plans_close(&plans);
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  bytes child, messages[2];
  spark_plans plans;
  trn_registry *registry = make_registry();
  range_message(&child);
  wrap("t/test.Twice", &child, &messages[0]);
  expression_message(&messages[1]);
  assert_true(plans_open(&plans));
  the_manner = GOOD;
  for (size_t i = 0; i < 2; i++) {
    for (long long k = 0;; k++) {
      trn_plan *plan = NULL;
      trn_error *error = NULL;
      assert_true(k < 100000);
      failures = 0;
      countdown = k;
      trn_status status = translate(&plans, registry, &messages[i], &plan, &error);
      countdown = -1;
      assert_true((status == TRN_OK) == (plan != NULL));
      if (!failures) assert_int_equal(status, TRN_OK);
      trn_plan_unref(plan);
      trn_error_unref(error);
      if (!failures) break;
    }
  }
  plans_close(&plans);
  trn_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(translators_make_relations_and_expressions),
      cmocka_unit_test(wrong_answers_are_errors),
      cmocka_unit_test(messages_inside_each_other_are_bounded),
      cmocka_unit_test(any_bytes_of_an_encoded_query_end_well),
      cmocka_unit_test(without_a_registry_extensions_are_not_there),
      cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
