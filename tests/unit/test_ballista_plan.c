/* Plans and metrics as Ballista writes them: what becomes of them, and bytes that nobody writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frontend/ballista/ballista.h"
#include "plan/ballista_plan.h"

/* Messages by hand: a tag, a length below 128 (or given), bytes. */
static void put(trn_strbuf *out, unsigned field, const void *data, size_t size) {
  uint64_t tag = (uint64_t)field << 3 | 2;
  for (; tag > 127; tag >>= 7) trn__strbuf_putc(out, (char)(tag | 128));
  trn__strbuf_putc(out, (char)tag);
  uint64_t length = size;
  for (; length > 127; length >>= 7) trn__strbuf_putc(out, (char)(length | 128));
  trn__strbuf_putc(out, (char)length);
  trn__strbuf_add(out, data, size);
}

static trn_strbuf around(unsigned field, const trn_strbuf *inner) {
  trn_strbuf out = {0};
  put(&out, field, inner->data, inner->size);
  return out;
}

/* LogicalPlanNode{copy_to{input, output_url, file_type}}, `depth` times inside `node_field`. */
static trn_strbuf copy_inside(unsigned node_field, const char *file_type, size_t size, unsigned depth) {
  trn_strbuf node = {0};
  put(&node, 1, "\x52\x00", 2); /* an empty relation */
  put(&node, 2, "/tmp/x", 6);
  put(&node, 3, file_type, size);
  trn_strbuf plan = around(29, &node);
  trn__strbuf_finish(&node);
  for (unsigned i = 0; i < depth; i++) {
    trn_strbuf input = around(1, &plan), outer = around(node_field, &input);
    trn__strbuf_finish(&input);
    trn__strbuf_finish(&plan);
    plan = outer;
  }
  return plan;
}

/* Below EXPLAIN, that is. */
static trn_strbuf copy_plan(const char *file_type, size_t size, unsigned depth) {
  return copy_inside(12, file_type, size, depth);
}

static void assert_becomes(trn_strbuf before, trn_strbuf after, bool is_older) {
  trn_strbuf out = {0};
  trn_error *error = NULL;
  bool changed = false;
  assert_int_equal(trn__ballista_plan(before.data, before.size, is_older, &out, &changed, &error), TRN_OK);
  if (!changed) {
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, after.size);
  } else {
    assert_int_equal(out.size, after.size);
    assert_memory_equal(out.data, after.data, after.size);
  }
  trn__strbuf_finish(&out);
  trn__strbuf_finish(&before);
  trn__strbuf_finish(&after);
}

static void file_formats_of_copy_become_datafusion_s(void **state) {
  (void)state;
  for (unsigned depth = 0; depth < 40; depth += 13) { /* lengths of one byte, and of two */
    assert_becomes(copy_plan("", 0, depth), copy_plan("\x08\x03", 2, depth),
                   false); /* parquet: place 0 is not written */
    assert_becomes(copy_plan("\x12\x01z", 3, depth), copy_plan("\x08\x03\x12\x01z", 5, depth), false);
    assert_becomes(copy_plan("\x08\x01\x12\x01z", 5, depth), copy_plan("\x08\x01\x12\x01z", 5, depth), false); /* csv */
    assert_becomes(copy_plan("\x08\x02", 2, depth), copy_plan("\x08\x02", 2, depth), false); /* json */
    assert_becomes(copy_plan("\x12\x01z\x08\x03", 5, depth), copy_plan("\x12\x01z\x08\x04", 5, depth),
                   false); /* arrow */
    assert_becomes(copy_plan("\x08\x84\x00", 3, depth), copy_plan("\x08\x05", 2, depth),
                   false); /* avro, in two bytes */
  }
  trn_strbuf wrong = copy_plan("\x08\x07", 2, 1), out = {0};
  trn_error *error = NULL;
  bool changed;
  assert_int_equal(trn__ballista_plan(wrong.data, wrong.size, false, &out, &changed, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "file format number 7"));
  trn_error_unref(error);
  trn__strbuf_finish(&wrong);
}

static void metrics_of_a_cluster_keep_their_stages(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  Ballista__Protobuf__GetJobMetricsResult flat = BALLISTA__PROTOBUF__GET_JOB_METRICS_RESULT__INIT, staged = flat,
                                          empty = flat;
  assert_int_equal(ballista__metrics_of(arena,
                                        "[{\"node\":0,\"name\":\"A\",\"metrics\":{\"output_rows\":5}},"
                                        "{\"node\":1,\"parent\":0,\"name\":\"B\",\"metrics\":{}}]",
                                        &flat),
                   TRN_OK);
  assert_int_equal(flat.n_stages, 1);
  assert_int_equal(flat.stages[0]->stage_id, 1);
  assert_int_equal(flat.stages[0]->n_operators, 2);
  assert_int_equal(flat.stages[0]->operators[1]->depth, 1);
  assert_int_equal(ballista__metrics_of(arena,
                                        "[{\"stage\":3,\"partitions\":2,\"operators\":[]},"
                                        "{\"stage\":7,\"partitions\":4,\"operators\":[{\"depth\":0,\"name\":\"W\","
                                        "\"description\":\"W: x\",\"metrics\":{}},{\"depth\":1,\"name\":\"S\","
                                        "\"description\":\"S: y\",\"metrics\":{\"output_rows\":42}}]}]",
                                        &staged),
                   TRN_OK);
  assert_int_equal(staged.n_stages, 2);
  assert_int_equal(staged.stages[0]->stage_id, 3);
  assert_int_equal(staged.stages[1]->stage_id, 7);
  assert_int_equal(staged.stages[1]->partitions, 4);
  assert_int_equal(staged.stages[1]->n_operators, 2);
  assert_int_equal(staged.stages[1]->operators[1]->depth, 1);
  assert_string_equal(staged.stages[1]->operators[1]->operator_type, "S");
  assert_string_equal(staged.stages[1]->operators[1]->operator_desc, "S: y");
  assert_int_equal(staged.stages[1]->operators[1]->metrics[0]->output_rows, 42);
  assert_int_equal(ballista__metrics_of(arena, "[]", &empty), TRN_OK);
  assert_int_equal(empty.n_stages, 0);
  trn__arena_unref(arena);
}

static void what_writes_is_refused_inside_another_plan(void **state) {
  (void)state;
  static const unsigned outer[] = {4, 5, 14, 3}; /* selection, limit, ANALYZE, projection */
  static const unsigned writers[] = {11, 18, 20, 22, 27, 29, 33};
  for (size_t i = 0; i < 4 * 7; i++) {
    trn_strbuf body = {0}, out = {0};
    trn_error *error = NULL;
    bool changed;
    put(&body, 1, "\x52\x00", 2);
    trn_strbuf writer = around(writers[i / 4], &body);
    assert_int_equal(trn__ballista_plan(writer.data, writer.size, false, &out, &changed, &error), TRN_OK);
    trn__strbuf_finish(&out);
    trn_strbuf input = around(1, &writer), plan = around(outer[i % 4], &input);
    /* An EXPLAIN in front, which does not count, changes nothing. */
    trn_strbuf both = {0};
    put(&both, 12, input.data, input.size);
    trn__strbuf_add(&both, plan.data, plan.size);
    assert_int_equal(trn__ballista_plan(plan.data, plan.size, false, &out, &changed, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), "inside another plan"));
    trn_error_unref(error);
    assert_int_equal(trn__ballista_plan(both.data, both.size, false, &out, &changed, NULL), TRN_INVALID_ARGUMENT);
    trn__strbuf_finish(&body);
    trn__strbuf_finish(&writer);
    trn__strbuf_finish(&input);
    trn__strbuf_finish(&plan);
    trn__strbuf_finish(&both);
  }
}

/* UnnestNode{input, options} under a projection, or in a subquery of one of its expressions. */
static trn_strbuf unnest_plan(const char *options, size_t size, bool in_subquery) {
  trn_strbuf node = {0}, list = {0};
  put(&node, 1, "\x52\x00", 2);
  put(&node, 7, options, size);
  trn_strbuf plan = around(30, &node);
  trn__strbuf_finish(&node);
  if (in_subquery) { /* LogicalExprNode{scalar_subquery_expr{subquery{subquery: plan}}} */
    for (int i = 0; i < 3; i++) {
      trn_strbuf outer = around(i == 2 ? 36 : 1, &plan);
      trn__strbuf_finish(&plan);
      plan = outer;
    }
    put(&list, 1, "\x52\x00", 2);
    put(&list, 2, plan.data, plan.size);
  } else {
    put(&list, 1, plan.data, plan.size);
  }
  trn__strbuf_finish(&plan);
  plan = around(3, &list);
  trn__strbuf_finish(&list);
  return plan;
}

static void an_older_unnest_that_drops_nulls_says_so(void **state) {
  (void)state;
  for (int deep = 0; deep < 2; deep++) {
    assert_becomes(unnest_plan("", 0, deep), unnest_plan("\x18\x01", 2, deep), true);
    assert_becomes(unnest_plan("\x08\x00", 2, deep), unnest_plan("\x08\x00\x18\x01", 4, deep), true);
    assert_becomes(unnest_plan("\x08\x01", 2, deep), unnest_plan("\x08\x01", 2, deep),
                   true);                                                      /* preserves: as by default */
    assert_becomes(unnest_plan("", 0, deep), unnest_plan("", 0, deep), false); /* 55: it preserves */
  }
}

static void every_cut_and_change_of_a_plan_is_survived(void **state) {
  trn_strbuf plan = copy_plan("\x08\x03\x12\x05hello", 9, 20);
  (void)state;
  for (size_t i = 0; i < plan.size; i++) {
    for (int flip = 0; flip < 3; flip++) {
      uint8_t *copy = malloc(plan.size);
      memcpy(copy, plan.data, plan.size);
      size_t size = flip ? plan.size : i;
      if (flip) copy[i] ^= flip == 1 ? 0xff : 0x80;
      trn_strbuf out = {0};
      trn_str inner;
      trn_error *error = NULL;
      bool changed;
      trn_status status = trn__ballista_plan(copy, size, true, &out, &changed, &error);
      assert_true(status == TRN_OK || status == TRN_INVALID_ARGUMENT);
      trn__ballista_explained(copy, size, &inner);
      trn_ballista_write write;
      trn__ballista_written(copy, size, &write);
      trn_error_unref(error);
      trn__strbuf_finish(&out);
      free(copy);
    }
  }
  trn__strbuf_finish(&plan);
}

static void what_is_explained_is_found(void **state) {
  trn_str inner;
  (void)state;
  assert_true(trn__ballista_explained("\x62\x05\x0a\x03\x52\x01\x00", 7, &inner)); /* explain{input} */
  assert_int_equal(inner.size, 3);
  assert_memory_equal(inner.data, "\x52\x01\x00", 3);
  assert_false(trn__ballista_explained("\x22\x05\x0a\x03\x52\x01\x00", 7, &inner)); /* a selection */
  assert_false(trn__ballista_explained("\x62\x00", 2, &inner));
  assert_false(trn__ballista_explained("\x62\x05", 2, &inner));
  assert_false(trn__ballista_explained("", 0, &inner));
  /* Of a oneof the last counts. */
  assert_false(trn__ballista_explained("\x62\x02\x0a\x00\x52\x00", 6, &inner));
}

static bool is(trn_str text, const char *expected) {
  return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

/* DmlNode{type, input, table_name{bare{table}}, target{listing_scan{paths, extension, partition columns, json}}} */
static trn_strbuf insert_plan(unsigned paths) {
  trn_strbuf scan = {0}, node = {0}, name = {0};
  for (unsigned i = 0; i < paths; i++) put(&scan, 2, "file:///t/", 10);
  put(&scan, 3, ".json", 5);
  put(&scan, 7, "\x0a\x01k\x12\x00", 5);
  put(&scan, 7, "\x0a\x01l", 3);
  put(&scan, 15, "\x0a\x02\x08\x03", 4);
  trn__strbuf_add(&node, "\x08\x03", 2);
  put(&node, 2, "\x52\x00", 2);
  put(&name, 1, "\x0a\x03tab", 5);
  put(&node, 3, name.data, name.size);
  trn_strbuf target = around(1, &scan);
  put(&node, 5, target.data, target.size);
  trn_strbuf plan = around(33, &node);
  trn__strbuf_finish(&scan), trn__strbuf_finish(&node), trn__strbuf_finish(&name), trn__strbuf_finish(&target);
  return plan;
}

static void an_insert_is_read_with_the_table_that_it_is_for(void **state) {
  trn_ballista_write w;
  (void)state;
  trn_strbuf plan = insert_plan(1);
  assert_true(trn__ballista_written(plan.data, plan.size, &w));
  assert_true(w.is_insert && w.operation == TRN_BALLISTA_INSERT_APPEND && w.location_count == 1);
  assert_int_equal(w.format, 2);
  assert_int_equal(w.input.size, 2);
  assert_true(is(w.location, "file:///t/") && is(w.file_extension, ".json") && is(w.table, "tab"));
  assert_int_equal(w.partition_count, 2);
  assert_true(is(w.partition_by[0], "k") && is(w.partition_by[1], "l"));
  assert_int_equal(w.options.size, 2);
  for (size_t i = 0; i < plan.size; i++) { /* every cut is survived, and every byte changed */
    uint8_t *copy = malloc(plan.size);
    memcpy(copy, plan.data, plan.size);
    trn__ballista_written(copy, i, &w);
    copy[i] ^= 0xff;
    trn__ballista_written(copy, plan.size, &w);
    free(copy);
  }
  trn__strbuf_finish(&plan);
  plan = insert_plan(40); /* more places than one: said, not taken for one */
  assert_true(trn__ballista_written(plan.data, plan.size, &w));
  assert_int_equal(w.location_count, 40);
  trn__strbuf_finish(&plan);
  assert_false(trn__ballista_written("\x52\x00", 2, &w));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(file_formats_of_copy_become_datafusion_s),
      cmocka_unit_test(metrics_of_a_cluster_keep_their_stages),
      cmocka_unit_test(what_writes_is_refused_inside_another_plan),
      cmocka_unit_test(an_older_unnest_that_drops_nulls_says_so),
      cmocka_unit_test(every_cut_and_change_of_a_plan_is_survived),
      cmocka_unit_test(what_is_explained_is_found),
      cmocka_unit_test(an_insert_is_read_with_the_table_that_it_is_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
