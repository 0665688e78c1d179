/* Rows that the engine reads where the caller has them. */
#include "seam.h"
#include <stdatomic.h>

/* The caller's side: counts what is given back. */
typedef struct lent {
  void *copy;
  atomic_int released;
} lent;

static void lent_release(void *argument) {
  lent *l = argument;
  free(l->copy);
  l->copy = NULL;
  atomic_fetch_add(&l->released, 1);
}

/* A copy of exactly this size, so that reading beyond it is seen by a sanitizer. */
static trn_engine_bytes lend(lent *l, const void *data, size_t size) {
  l->copy = malloc(size ? size : 1);
  if (!l->copy) abort();
  memcpy(l->copy, data, size);
  atomic_init(&l->released, 0);
  return (trn_engine_bytes){l->copy, size, l, lent_release};
}

/* `rows` rows of a text and the numbers from 0 on, in messages of at most 32 KiB. */
static void make_stream(bytes *out, int64_t rows) {
  bytes *b = &f.plan;
  begin(b);
  op_range(b, rows, 1, 0);
  op_text(b, "some text"), op_column(b, 0), op_project(b, 2, 1, 0);
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  trn_engine_bytes schema = {0};
  trn_engine_error error = {0};
  check(f.engine->execution_schema_ipc(execution, &schema, &error), &error);
  put(out, schema.data, schema.size);
  for (;;) {
    pull p;
    pull_init(&p);
    check(f.engine->next_ipc(execution, 32768, pull_ipc_done, &p, &error), &error);
    pull_wait(&p, 1);
    check(p.error.status, &p.error);
    if (!p.ipc.release) break;
    for (size_t i = 0; i < p.ipc.part_count; i++) put(out, p.ipc.parts[i].data, p.ipc.parts[i].size);
    p.ipc.release(p.ipc.self);
  }
  f.engine->execution_release(execution);
  f.engine->plan_release(plan);
}

static int32_t open_mapped(const trn_engine_bytes *given, struct ArrowSchema *schema, trn_engine_error *error) {
  int32_t status = f.engine->source_mapped(f.session, given, &f.sources[0], schema, error);
  if (!status) f.source_count = 1;
  return status;
}

static void drop_source(void) {
  f.engine->source_release(f.sources[0]);
  f.sources[0] = NULL;
  f.source_count = 0;
}

/* What is dropped goes on a thread of the engine's, as a rule: it is waited for. */
static void await_release(lent *l) {
  for (int i = 0; i < 10000 && !atomic_load(&l->released); i++) usleep(1000);
  assert_int_equal(atomic_load(&l->released), 1);
}

static void scan_sums(bytes *b) {
  begin(b);
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 1), u32(b, 1), u32(b, 6);
  op_column(b, 6), op_aggregate(b, TRN_HOME_ENGINE, "sum", 0, 1);
  op_aggregate(b, TRN_HOME_ENGINE, "count", 0, 0);
  op_group(b, 0, 2, 7, 8);
}

static void test_rows_are_read_in_place_and_given_back_once(void **state) {
  (void)state;
  bytes stream = {0};
  lent l;
  struct ArrowSchema schema = {0};
  trn_engine_error error = {0};
  make_stream(&stream, 100000);
  trn_engine_bytes given = lend(&l, stream.data, stream.size);
  check(open_mapped(&given, &schema, &error), &error);
  assert_int_equal(schema.n_children, 2);
  schema.release(&schema);
  scan_sums(&f.plan);
  RUN_EXPECT("4999950000,100000;");
  RUN_EXPECT("4999950000,100000;"); /* again, from the beginning */

  bytes *b = &f.plan;
  begin(b); /* in the order of the stream, whatever the partitions */
  u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 1), u32(b, 1), u32(b, 5);
  op_column(b, 5), op_int(b, 40000), op_call(b, TRN_HOME_NATIVE, ">=", 2, TRN_TYPE_BOOL), u8(b, TRN_OP_FILTER);
  u8(b, TRN_OP_LIMIT), i64(b, 0), i64(b, 3);
  RUN_EXPECT("40000;40001;40002;");

  /* What is read lives longer than the source. */
  trn_engine_plan *plan = lower();
  drop_source();
  assert_int_equal(atomic_load(&l.released), 0);
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  pull p;
  pull_init(&p);
  check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
  pull_wait(&p, 1);
  f.engine->execution_release(execution);
  assert_int_equal(p.array.length, 3);
  if (p.array.release) p.array.release(&p.array);
  await_release(&l);
  free(stream.data);
}

static void test_few_and_no_rows_are_tables_too(void **state) {
  (void)state;
  for (int64_t rows = 0; rows < 3; rows++) {
    bytes stream = {0};
    lent l;
    struct ArrowSchema schema = {0};
    trn_engine_error error = {0};
    char expected[32];
    make_stream(&stream, rows);
    trn_engine_bytes given = lend(&l, stream.data, stream.size);
    check(open_mapped(&given, &schema, &error), &error);
    schema.release(&schema);
    scan_sums(&f.plan);
    if (rows) snprintf(expected, sizeof expected, "%d,%d;", rows == 2, (int)rows);
    else snprintf(expected, sizeof expected, "null,0;");
    RUN_EXPECT(expected);
    drop_source();
    await_release(&l);
    free(stream.data);
  }
}

/* Between two messages a stream may end; anywhere else it is cut off. */
static void test_a_stream_that_is_cut_anywhere_is_refused_and_given_back(void **state) {
  (void)state;
  bytes stream = {0};
  make_stream(&stream, 3);
  size_t accepted = 0;
  for (size_t size = 0; size < stream.size; size++) {
    lent l;
    struct ArrowSchema schema = {0};
    trn_engine_error error = {0};
    trn_engine_bytes given = lend(&l, stream.data, size);
    int32_t status = open_mapped(&given, &schema, &error);
    if (status) {
      assert_int_equal(status, TRN_INVALID_ARGUMENT);
      assert_int_equal(atomic_load(&l.released), 1);
      release_error(&error);
    } else {
      accepted++;
      schema.release(&schema);
      drop_source();
      await_release(&l);
    }
  }
  assert_int_equal(accepted, 1); /* behind the schema */
  free(stream.data);
}

/* Whatever a byte becomes: refused, or a table whose rows can be read. */
static void test_no_byte_that_differs_leads_astray(void **state) {
  (void)state;
  bytes stream = {0};
  make_stream(&stream, 40);
  size_t refused = 0;
  for (size_t at = 0; at < stream.size; at++) {
    lent l;
    struct ArrowSchema schema = {0};
    trn_engine_error error = {0};
    uint8_t before = stream.data[at];
    stream.data[at] ^= at % 3 ? 0xff : 0x04;
    trn_engine_bytes given = lend(&l, stream.data, stream.size);
    stream.data[at] = before;
    if (open_mapped(&given, &schema, &error)) {
      refused++;
      release_error(&error);
    } else {
      bool is_same = schema.n_children == 2 && !strcmp(schema.children[1]->format, "l");
      schema.release(&schema);
      bytes *b = &f.plan;
      begin(b);
      u8(b, TRN_OP_SCAN), u32(b, 0), u32(b, 2), u32(b, 0), u32(b, 5), u32(b, 1), u32(b, 6);
      result r = {0};
      if (is_same) run(&r);
      release_error(&r.error);
      drop_source();
    }
    await_release(&l);
  }
  assert_true(refused > 0);
  free(stream.data);
}

int main(void) {
  int failed = 0;
  if (!seam_open(&failed)) return failed;
  if (!TRN_ENGINE_HAS(f.engine, source_mapped)) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: the engine is of an older build, without source_mapped\n");
    seam_close();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_rows_are_read_in_place_and_given_back_once, reset),
      cmocka_unit_test_teardown(test_few_and_no_rows_are_tables_too, reset),
      cmocka_unit_test_teardown(test_a_stream_that_is_cut_anywhere_is_refused_and_given_back, reset),
      cmocka_unit_test_teardown(test_no_byte_that_differs_leads_astray, reset),
  };
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  seam_close();
  return failed;
}
