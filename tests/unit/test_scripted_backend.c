/* The scripted backend: the conformance suite in both of its forms, and its scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "conformance/backend_suite.h"
#include "conformance/puller.h"
#include "core/query.h"

typedef struct fixture {
  trn_scripted *control;
  trn_backend *backend;
  trn_session *session;
} fixture;

static fixture fixture_open(trn_scripted_form form) {
  fixture f;
  assert_int_equal(trn__scripted_create(form, &f.control, &f.backend), TRN_OK);
  assert_int_equal(trn_session_open(f.backend, NULL, &f.session, NULL), TRN_OK);
  return f;
}

static void fixture_close(fixture *f) {
  trn_session_unref(f->session);
  trn_backend_unref(f->backend);
  trn_scripted_counts counts = trn__scripted_count(f->control);
  for (int i = 0; i < 1000 && counts.streams_opened != counts.streams_closed;
       i++) { /* a completion holds one a while */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    counts = trn__scripted_count(f->control);
  }
  assert_int_equal(counts.sessions_opened, counts.sessions_closed);
  assert_int_equal(counts.streams_opened, counts.streams_closed);
  assert_int_equal(counts.pulls, counts.completions);
  trn__scripted_unref(f->control);
}

static void conforms_with_arrays(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  trn_backend_deviations none = {0};
  trn_backend_conformance(f.backend, &none);
  fixture_close(&f);
}

static void conforms_with_ipc(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_IPC);
  trn_backend_deviations deviations = {.arrays_unimplemented = true};
  trn_backend_conformance(f.backend, &deviations);
  fixture_close(&f);
}

/* ---- scripts ---- */

static trn_plan *plan_end(trn_arena *a, const trn_rel *root) {
  trn_field *fields = TRN_NEW_N(a, trn_field, root->column_count);
  for (uint32_t i = 0; i < root->column_count; i++) fields[i] = (trn_field){.name = "n", .type = root->columns[i].type};
  trn_plan *plan;
  assert_int_equal(trn__plan_create(a, root, fields, 100, NULL, NULL, &plan), TRN_OK);
  return plan;
}

static trn_plan *range_plan(int64_t rows) {
  trn_arena *a = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *range = trn__rel_create(a, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.end = rows;
  range->u.range.step = 1;
  return plan_end(a, range);
}

static trn_status run(fixture *f, trn_plan *plan, trn_stream **stream, trn_error **error) {
  trn_operation *operation;
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  trn_status status = trn_backend_execute(f->session, &request, &operation, error);
  trn_plan_unref(plan);
  if (status) return status;
  status = trn_operation_result_stream(operation, stream, error);
  trn_operation_unref(operation);
  return status;
}

/* Rows of one int32 column "v": first, first + 1, ... */
static trn_shared_array *int_batch(struct ArrowSchema *schema, int32_t first, int count) {
  trn_type type = {
      .id = TRN_TYPE_STRUCT, .field_count = 1, .fields = &(trn_field){.name = "v", .type = trn__type(TRN_TYPE_INT32)}};
  trn_array_builder *builder;
  struct ArrowArray array;
  trn_shared_array *shared;
  assert_int_equal(trn__type_export(&type, "", false, NULL, NULL, schema), TRN_OK);
  assert_int_equal(trn__array_builder_create(schema, &builder), TRN_OK);
  for (int i = 0; i < count; i++) {
    trn__array_append_int(trn__array_builder_child(builder, 0), first + i);
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
  trn__array_builder_destroy(builder);
  assert_int_equal(trn__shared_array_create(&array, &shared), TRN_OK);
  return shared;
}

static void scripts_fail_where_they_say(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  trn_stream *stream;
  trn_error *error = NULL;
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  trn_script script = {.fail_status = TRN_DATA_LOSS, .fail_at = 2, .condition = "LOST", .message = "gone"};
  assert_int_equal(trn__scripted_on(f.control, NULL, &script), TRN_OK);
  assert_int_equal(run(&f, range_plan(1000000), &stream, NULL), TRN_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    array.release(&array);
  }
  assert_int_equal(pull_array(&p, stream, &array), TRN_DATA_LOSS);
  assert_string_equal(p.message, "gone");
  assert_string_equal(p.condition, "LOST");
  trn_stream_unref(stream);
  script = (trn_script){.execute_status = TRN_INVALID_ARGUMENT, .message = "bad plan"};
  assert_int_equal(trn__scripted_on(f.control, NULL, &script), TRN_OK);
  assert_int_equal(run(&f, range_plan(10), &stream, &error), TRN_INVALID_ARGUMENT);
  assert_string_equal(trn_error_message(error), "bad plan");
  trn_error_unref(error);
  puller_finish(&p);
  fixture_close(&f);
}

static void hanging_pulls_end_by_cancel_only(void **state) {
  (void)state;
  for (int by_unref = 0; by_unref < 2; by_unref++) {
    fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
    trn_stream *stream;
    struct ArrowArray array;
    puller p;
    puller_init(&p);
    trn_script script = {.is_hanging = true, .hang_at = 1};
    assert_int_equal(trn__scripted_on(f.control, NULL, &script), TRN_OK);
    assert_int_equal(run(&f, range_plan(1000000), &stream, NULL), TRN_OK);
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    array.release(&array);
    assert_int_equal(puller_start_array(&p, stream), TRN_OK);
    assert_false(puller_wait(&p, 30));
    assert_int_equal(puller_start_array(&p, stream), TRN_FAILED_PRECONDITION);
    assert_int_equal(puller_start_ipc(&p, stream, 0), TRN_FAILED_PRECONDITION);
    if (by_unref)
      trn_stream_unref(stream);
    else
      trn_stream_cancel(stream);
    assert_true(puller_wait(&p, 10000));
    assert_int_equal(p.status, TRN_CANCELLED);
    if (!by_unref) trn_stream_unref(stream);
    puller_finish(&p);
    fixture_close(&f);
  }
}

static void delayed_pulls_are_cut_short_by_cancel(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  trn_stream *stream;
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  trn_script script = {.pull_delay_ms = 20};
  assert_int_equal(trn__scripted_on(f.control, NULL, &script), TRN_OK);
  int64_t start_ns = trn__now_ns();
  assert_int_equal(run(&f, range_plan(100), &stream, NULL), TRN_OK);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  array.release(&array);
  assert_true(trn__now_ns() - start_ns >= 20000000);
  trn_stream_unref(stream);
  script.pull_delay_ms = 600000;
  assert_int_equal(trn__scripted_on(f.control, NULL, &script), TRN_OK);
  assert_int_equal(run(&f, range_plan(100), &stream, NULL), TRN_OK);
  assert_int_equal(puller_start_array(&p, stream), TRN_OK);
  trn_stream_cancel(stream);
  assert_true(puller_wait(&p, 10000));
  assert_int_equal(p.status, TRN_CANCELLED);
  trn_stream_unref(stream);
  puller_finish(&p);
  /* The late answer holds its stream until the pool goes: the fixture's counts would wait for it. */
  trn_session_unref(f.session);
  trn_backend_unref(f.backend);
  trn__scripted_unref(f.control);
}

static void canned_rows_go_by_fingerprint(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_IPC);
  struct ArrowSchema schema, ignored;
  trn_shared_array *batches[] = {int_batch(&schema, 5, 3), int_batch(&ignored, 8, 4)};
  trn__schema_release(&ignored);
  trn_script script = {.schema = &schema, .batches = batches, .batch_count = 2};
  trn_plan *plan = range_plan(77);
  uint8_t fingerprint[16];
  trn_plan_fingerprint(plan, fingerprint);
  assert_int_equal(trn__scripted_on(f.control, fingerprint, &script), TRN_OK);
  trn__schema_release(&schema);
  for (int i = 0; i < 2; i++) trn__shared_array_unref(batches[i]);
  trn_stream *canned, *other;
  trn_ipc_piece piece;
  puller p;
  puller_init(&p);
  assert_int_equal(run(&f, plan, &canned, NULL), TRN_OK);
  assert_int_equal(run(&f, range_plan(78), &other, NULL), TRN_OK);
  static const int64_t rows[] = {3, 4};
  for (int i = 0; i < 2; i++) {
    ipc_batch batch;
    int64_t size;
    assert_int_equal(pull_ipc(&p, canned, 0, &piece), TRN_OK);
    assert_true(ipc_batch_read(&piece, &batch));
    assert_int_equal(batch.rows, rows[i]);
    assert_int_equal(((const int32_t *)ipc_batch_buffer(&batch, 1, &size))[0], i ? 8 : 5);
    free(batch.bytes);
    piece.release(piece.owner);
  }
  assert_int_equal(pull_ipc(&p, canned, 0, &piece), TRN_OK);
  assert_null(piece.release);
  assert_int_equal(pull_ipc(&p, other, 0, &piece), TRN_OK);
  assert_int_equal(piece.rows, 78);
  piece.release(piece.owner);
  trn_stream_unref(canned);
  trn_stream_unref(other);
  puller_finish(&p);
  fixture_close(&f);
}

typedef struct handler {
  const struct ArrowSchema *schema;
  trn_shared_array *batch;
  int asked;
} handler;

static trn_status handle(void *user, trn_session *session, trn_plan *plan, trn_script *script) {
  handler *h = user;
  h->asked++;
  assert_non_null(trn_session_id(session));
  if (plan->root->u.range.end != 1) return TRN_UNIMPLEMENTED;
  *script = (trn_script){.schema = h->schema, .batches = &h->batch, .batch_count = 1, .is_endless = true};
  return TRN_OK;
}

static void handlers_see_plans_and_streams_may_be_endless(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  struct ArrowSchema schema;
  handler h = {.schema = &schema, .batch = int_batch(&schema, 1, 2)};
  trn__scripted_on_plan(f.control, handle, &h);
  trn_stream *stream;
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  assert_int_equal(run(&f, range_plan(1), &stream, NULL), TRN_OK);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
    assert_int_equal(array.length, 2);
    assert_int_equal(trn__array_int(array.children[0], "i", 1), 2);
    array.release(&array);
  }
  trn_stream_unref(stream);
  assert_int_equal(run(&f, range_plan(9), &stream, NULL), TRN_OK);
  assert_int_equal(pull_array(&p, stream, &array), TRN_OK);
  assert_int_equal(array.length, 9);
  array.release(&array);
  trn_stream_unref(stream);
  assert_int_equal(h.asked, 2);
  trn__shared_array_unref(h.batch);
  trn__schema_release(&schema);
  puller_finish(&p);
  fixture_close(&f);
}

static void tables_are_scanned_and_projected(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  struct ArrowSchema schema, found, ignored;
  trn_shared_array *batches[] = {int_batch(&schema, 0, 3), int_batch(&ignored, 3, 5)};
  trn__schema_release(&ignored);
  assert_int_equal(trn__scripted_add_table(f.control, "/t", &schema, batches, 2), TRN_OK);
  trn__schema_release(&schema);
  for (int i = 0; i < 2; i++) trn__shared_array_unref(batches[i]);

  trn_source *source;
  trn_error *error = NULL;
  const char *path = "/none";
  trn_source_request request = {.struct_size = sizeof request, .format = "parquet", .paths = &path, .path_count = 1};
  assert_int_equal(trn_backend_open_source(f.session, &request, &source, &found, &error), TRN_NOT_FOUND);
  assert_string_equal(trn_error_condition(error), "PATH_NOT_FOUND");
  trn_error_unref(error);
  path = "/t";
  assert_int_equal(trn_backend_open_source(f.session, &request, &source, &found, NULL), TRN_OK);
  assert_string_equal(found.children[0]->name, "v");
  trn__schema_release(&found);

  trn_arena *a = trn__arena_create(0);
  assert_int_equal(trn__source_hold(a, f.backend, source), TRN_OK);
  trn_backend_source_unref(f.backend, source);
  static const uint32_t index = 0;
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT32)};
  trn_rel *scan = trn__rel_create(a, TRN_REL_SCAN, NULL, 0, NULL, 0, &column, 1);
  scan->u.scan.source = source;
  scan->u.scan.indexes = &index;
  const trn_expr *exprs[] = {trn__expr_column(a, &column), trn__expr_null(a, trn__type(TRN_TYPE_STRING)),
                             trn__expr_column(a, &column)};
  trn_column columns[] = {{.id = 2, .type = column.type},
                          {.id = 3, .type = trn__type(TRN_TYPE_STRING), .nullable = true},
                          {.id = 4, .type = column.type}};
  const trn_rel *project = trn__rel_project(a, scan, exprs, columns, 3);
  trn_rel *limit = trn__rel_create(a, TRN_REL_LIMIT, &project, 1, NULL, 0, project->columns, 3);
  limit->u.limit.skip = 2;
  limit->u.limit.fetch = 4;
  trn_stream *stream;
  assert_int_equal(run(&f, plan_end(a, limit), &stream, NULL), TRN_OK);
  struct ArrowArray array;
  puller p;
  puller_init(&p);
  int32_t expected = 2;
  while (pull_array(&p, stream, &array) == TRN_OK && array.release) {
    for (int64_t i = 0; i < array.length; i++, expected++) {
      assert_int_equal(trn__array_int(array.children[0], "i", i), expected);
      assert_int_equal(trn__array_int(array.children[2], "i", i), expected);
      assert_true(trn__array_is_null(array.children[1], i));
    }
    array.release(&array);
  }
  assert_int_equal(expected, 6);
  trn_stream_unref(stream);
  puller_finish(&p);
  fixture_close(&f);
}

static void what_it_cannot_evaluate_is_named(void **state) {
  (void)state;
  fixture f = fixture_open(TRN_SCRIPTED_ARRAYS);
  trn_arena *a = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  const trn_rel *range = trn__rel_create(a, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  trn_stream *stream;
  trn_error *error = NULL;
  trn_rel *distinct = trn__rel_create(a, TRN_REL_DISTINCT, &range, 1, NULL, 0, range->columns, 1);
  assert_int_equal(run(&f, plan_end(a, distinct), &stream, &error), TRN_UNIMPLEMENTED);
  assert_non_null(strstr(trn_error_message(error), "kind 11"));
  trn_error_unref(error);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conforms_with_arrays),
      cmocka_unit_test(conforms_with_ipc),
      cmocka_unit_test(scripts_fail_where_they_say),
      cmocka_unit_test(hanging_pulls_end_by_cancel_only),
      cmocka_unit_test(delayed_pulls_are_cut_short_by_cancel),
      cmocka_unit_test(canned_rows_go_by_fingerprint),
      cmocka_unit_test(handlers_see_plans_and_streams_may_be_endless),
      cmocka_unit_test(tables_are_scanned_and_projected),
      cmocka_unit_test(what_it_cannot_evaluate_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
