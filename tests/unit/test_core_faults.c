/* Every allocation fails once: the k-th, for each k until a run needs none. Linked with --wrap, so that malloc, calloc
 * and realloc of everything in the executable come here. What is checked: the
 * failure is reported, what existed before is unharmed, and nothing leaks (by the leak checker of the sanitizer
 * builds). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "backend/scripted/scripted.h"
#include "conformance/puller.h"
#include "core/core.h"
#include "plan/plan.h"

#include "support/failing_memory.h"

/* Runs `attempt` with its first, second, ... allocation failing, until one run meets no failure; that one must succeed.
 * `attempt` cleans up after itself; true: it succeeded. A run that met a failure may succeed where memory was optional.
 */
static void each_allocation_fails(bool (*attempt)(void), bool may_succeed) {
  for (long long k = 0;; k++) {
    assert_true(k < 100000);
    failures = 0;
    countdown = k;
    bool ok = attempt();
    countdown = -1;
    if (!failures) {
      assert_true(ok);
      assert_true(k > 0); /* it does allocate */
      return;
    }
    assert_true(!ok || may_succeed);
  }
}

/* ---- core ---- */

static bool try_errors(void) {
  trn_error_param params[] = {{"a", "b"}};
  trn_error *cause = NULL;
  trn_status status = trn_error_set(&cause, TRN_NOT_FOUND, "C", "%0*d", 700, 1); /* also a message on the heap */
  assert_int_equal(status, TRN_NOT_FOUND);                                       /* the status is right in any case */
  trn_error *error = trn_error_create(&(trn_error_spec){.struct_size = sizeof(trn_error_spec),
                                                        .status = TRN_INTERNAL,
                                                        .message = "m",
                                                        .params = params,
                                                        .param_count = 1,
                                                        .cause = cause});
  bool ok = cause && error && strlen(trn_error_message(cause)) == 700;
  assert_true(!error || strcmp(trn_error_message(error), "m") == 0);
  trn_error_unref(error);
  trn_error_unref(cause);
  return ok;
}

static void errors_survive_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_errors, false);
}

static bool try_map(void) {
  trn_map *map = trn__map_create();
  bool ok = map != NULL;
  size_t count = 0;
  for (int i = 0; i < 50 && map; i++) {
    char key = (char)('0' + i);
    if (trn__map_set(map, &key, 1, map, NULL))
      count++;
    else
      ok = false;
    assert_int_equal(trn__map_count(map), count); /* a failed set changed nothing */
  }
  trn__map_destroy(map, NULL);
  return ok;
}

static void maps_survive_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_map, false);
}

static bool try_buffers(void) {
  trn_strbuf text = {0};
  trn_vec vec = {0};
  bool ok = true;
  for (int i = 0; i < 100; i++) {
    trn__strbuf_printf(&text, "%d %s", i, "some text that makes it grow");
    ok = trn__vec_push(&vec, &text) && ok;
  }
  ok = ok && !text.failed;
  trn__strbuf_finish(&text);
  trn__vec_finish(&vec);
  return ok;
}

static void buffers_survive_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_buffers, false);
}

static void count_run(void *argument) {
  atomic_fetch_add((atomic_int *)argument, 1);
}

static bool try_pool(void) {
  static atomic_int ran;
  trn_pool *pool = NULL;
  int accepted = 0;
  ran = 0;
  if (trn__pool_create(2, &pool) != TRN_OK) return false;
  for (int i = 0; i < 4; i++) {
    accepted += trn__pool_submit(pool, count_run, &ran) == TRN_OK;
    accepted += trn__pool_submit_after(pool, 1000000, count_run, &ran) == TRN_OK;
  }
  trn__pool_destroy(pool);
  assert_int_equal(ran, accepted); /* what was accepted runs, what was not does not */
  return accepted == 8;
}

static void pools_survive_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_pool, true); /* a second worker is optional */
}

/* ---- plans ---- */

static const trn_type *build_type(trn_arena *a) {
  const trn_type *map = trn__type(TRN_TYPE_INT32);
  map = trn__type_map(a, trn__type(TRN_TYPE_STRING), trn__type(TRN_TYPE_INT32), true);
  const trn_type *list = map ? trn__type_array(a, map, true) : NULL;
  trn_field fields[] = {{.name = "x", .type = list, .metadata = "{}"},
                        {.name = "y", .type = trn__type_decimal(a, 5, 2)}};
  return list && fields[1].type ? trn__type_struct(a, fields, 2) : NULL;
}

/* A few hundred nodes; NULL: no memory. */
static const trn_rel *build_rel(trn_arena *a, const trn_type *type) {
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT32)}, extra = {.id = 2, .type = type, .nullable = true};
  const trn_expr *one = trn__expr_int(a, column.type, 1);
  const trn_rel *rel = one ? trn__rel_create(a, TRN_REL_VALUES, NULL, 0, &one, 1, &column, 1) : NULL;
  for (int i = 0; i < 300 && rel; i++) {
    const trn_expr *sides[] = {trn__expr_column(a, &column), trn__expr_string(a, "text", 4)};
    if (!sides[0] || !sides[1]) return NULL;
    const trn_expr *same = trn__expr_call(a, TRN_HOME_LIBRARY, "trn.same", trn__type(TRN_TYPE_BOOL), false, sides, 2);
    rel = same ? trn__rel_filter(a, rel, same) : NULL;
  }
  const trn_expr *null = rel ? trn__expr_null(a, type) : NULL;
  rel = null ? trn__rel_project(a, rel, &null, &extra, 1) : NULL;
  return rel ? trn__rel_join(a, TRN_JOIN_FULL, rel, rel, NULL) : NULL;
}

static trn_plan *build_plan(void) {
  trn_plan *plan = NULL;
  trn_arena *a = trn__arena_create(0);
  const trn_type *type = a ? build_type(a) : NULL;
  const trn_rel *rel = type ? build_rel(a, type) : NULL;
  trn_field *fields = rel ? TRN_NEW_N(a, trn_field, 2) : NULL;
  if (!fields) {
    trn__arena_unref(a);
    return NULL;
  }
  for (int i = 0; i < 2; i++) fields[i] = (trn_field){.name = "c", .type = type, .nullable = true};
  if (trn__plan_create(a, rel, fields, 3, "Asia/Tokyo", "select 1", &plan)) return NULL; /* took the arena */
  return plan;
}

static bool try_plan(void) {
  trn_plan *plan = build_plan();
  trn_plan_unref(plan);
  return plan != NULL;
}

static void building_a_plan_survives_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_plan, false);
}

static trn_plan *shared_plan;

static bool try_schema(void) {
  struct ArrowSchema schema, copy;
  if (trn_plan_schema(shared_plan, &schema) != TRN_OK) return false;
  trn_arena *a = trn__arena_create(0);
  const trn_type *type;
  trn_error *error = NULL;
  bool ok = trn__schema_copy(&schema, &copy) == TRN_OK;
  if (ok) trn__schema_release(&copy);
  trn_status status = a ? trn__type_import(a, &schema, &type, &error) : TRN_RESOURCE_EXHAUSTED;
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn_error_unref(error);
  trn_strbuf bytes = {0};
  status = status ? status : trn__ipc_write_schema(&schema, &bytes);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn__strbuf_finish(&bytes);
  trn__arena_unref(a);
  schema.release(&schema);
  return ok && status == TRN_OK;
}

static trn_walk walk_rel(void *user, const trn_rel *rel) {
  (void)rel;
  ++*(size_t *)user;
  return TRN_WALK_ON;
}

static bool try_walk(void) {
  size_t count = 0;
  trn_visitor visitor = {.rel = walk_rel, .user = &count};
  trn_status status = trn__plan_walk(shared_plan->root, &visitor);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  return status == TRN_OK && count == 303;
}

static trn_status rewrite_literal(void *user, trn_arena *a, const trn_expr *expr, const trn_expr **out,
                                  trn_error **error) {
  (void)user;
  *out = expr->kind == TRN_EXPR_LITERAL && expr->type->id == TRN_TYPE_STRING ? trn__expr_bool(a, true) : expr;
  return *out ? TRN_OK : trn__no_memory(error);
}

static bool try_rewrite(void) {
  trn_arena *a = trn__arena_create(0);
  if (!a) return false;
  trn_rewriter rewriter = {.expr = rewrite_literal};
  trn_error *error = NULL;
  const trn_rel *out;
  trn_status status = trn__rel_rewrite(a, shared_plan->root, &rewriter, &out, &error);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn_error_unref(error);
  trn__arena_unref(a);
  return status == TRN_OK;
}

static bool try_print(void) {
  char *text = NULL;
  trn_status status = trn_plan_print(shared_plan, &text);
  assert_true(status == TRN_OK ? text != NULL : status == TRN_RESOURCE_EXHAUSTED && !text);
  trn_free(text);
  return status == TRN_OK;
}

static bool try_fingerprint(void) {
  static uint8_t good[16];
  uint8_t now[16];
  shared_plan->has_fingerprint = false;
  atomic_flag_clear(&shared_plan->fingerprint_taken);
  long long before = atomic_exchange(&countdown, -1);
  trn_plan_fingerprint(shared_plan, good);
  shared_plan->has_fingerprint = false;
  atomic_flag_clear(&shared_plan->fingerprint_taken);
  countdown = before;
  trn_plan_fingerprint(shared_plan, now);
  bool is_equal = memcmp(good, now, 16) == 0;
  if (!is_equal) assert_false(shared_plan->has_fingerprint); /* a wrong one is not kept */
  return is_equal;
}

static void using_a_plan_survives_failed_allocations(void **state) {
  (void)state;
  shared_plan = build_plan();
  assert_non_null(shared_plan);
  each_allocation_fails(try_schema, false);
  each_allocation_fails(try_walk, false);
  each_allocation_fails(try_rewrite, false);
  each_allocation_fails(try_print, false);
  each_allocation_fails(try_fingerprint, false);
  trn_plan_unref(shared_plan);
}

/* ---- arrays ---- */

static bool try_arrays(void) {
  struct ArrowSchema schema;
  struct ArrowArray array = {0}, slice = {0};
  trn_array_builder *builder = NULL;
  trn_shared_array *shared = NULL;
  trn_strbuf bytes = {0};
  trn_status status = trn__schema_init(&schema, "+s", "", 0, NULL, 0, 2);
  if (status) return false;
  status = trn__schema_init(schema.children[0], "i", "a", 0, NULL, 0, 0);
  if (status == TRN_OK) status = trn__schema_init(schema.children[1], "u", "b", ARROW_FLAG_NULLABLE, NULL, 0, 0);
  if (status == TRN_OK) status = trn__array_builder_create(&schema, &builder);
  for (int i = 0; i < 100 && status == TRN_OK; i++) {
    trn__array_append_int(trn__array_builder_child(builder, 0), i);
    if (i % 2)
      trn__array_append_null(trn__array_builder_child(builder, 1));
    else
      trn__array_append_bytes(trn__array_builder_child(builder, 1), "bytes", 5);
    trn__array_append_end(builder);
  }
  if (status == TRN_OK) status = trn__array_builder_finish(builder, &array);
  trn__array_builder_destroy(builder);
  if (status == TRN_OK) status = trn__shared_array_create(&array, &shared);
  if (status == TRN_OK) status = trn__shared_array_slice(shared, 3, 50, &slice);
  if (status == TRN_OK) status = trn__ipc_write_batch(&schema, &slice, &bytes);
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn__array_release(&slice);
  trn__shared_array_unref(shared);
  trn__strbuf_finish(&bytes);
  schema.release(&schema);
  return status == TRN_OK;
}

static void arrays_survive_failed_allocations(void **state) {
  (void)state;
  each_allocation_fails(try_arrays, false);
}

/* ---- the query API, over the scripted backend ---- */

static trn_scripted *control;
static trn_backend *backend;
static trn_session *session;

static bool try_session(void) {
  trn_kv settings[] = {{"a", "b"}, {"c", "d"}};
  trn_session_request request = {.struct_size = sizeof request, .settings = settings, .setting_count = 2};
  trn_session *opened;
  trn_error *error = NULL;
  trn_status status = trn_session_open(backend, &request, &opened, &error);
  trn_error_unref(error);
  if (status) {
    assert_int_equal(status, TRN_RESOURCE_EXHAUSTED);
    assert_null(opened);
    return false;
  }
  bool ok = trn_session_set(opened, "a", "new") == TRN_OK;
  long long before = atomic_exchange(&countdown, -1);
  char *value = trn_session_get(opened, "a");
  assert_string_equal(value, ok ? "new" : "b");
  trn_free(value);
  countdown = before;
  trn_session_unref(opened);
  return ok;
}

static bool try_query(void) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_error *error = NULL;
  puller p;
  puller_init(&p);
  trn_execute_request request = {.struct_size = sizeof request, .plan = shared_plan};
  trn_status status = trn_backend_execute(session, &request, &operation, &error);
  trn_error_unref(error);
  error = NULL;
  if (status == TRN_OK) status = trn_operation_result_stream(operation, &stream, &error);
  trn_error_unref(error);
  struct ArrowArray array;
  trn_ipc_piece piece;
  if (status == TRN_OK) status = pull_array(&p, stream, &array);
  if (status == TRN_OK) trn__array_release(&array);
  for (int i = 0; i < 3 && status == TRN_OK; i++) { /* a batch in pieces: the adapter, and its thread */
    status = pull_ipc(&p, stream, 20000, &piece);
    if (status == TRN_OK) piece.release(piece.owner);
  }
  assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  countdown = -1;
  puller_finish(&p);
  return status == TRN_OK;
}

static void sessions_and_queries_survive_failed_allocations(void **state) {
  (void)state;
  trn_arena *a = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *range = trn__rel_create(a, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.end = 100000;
  range->u.range.step = 1;
  trn_field *field = TRN_NEW(a, trn_field);
  *field = (trn_field){.name = "id", .type = column.type};
  assert_int_equal(trn__plan_create(a, range, field, 2, NULL, NULL, &shared_plan), TRN_OK);
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, &backend), TRN_OK);
  assert_int_equal(trn_session_open(backend, NULL, &session, NULL), TRN_OK);
  each_allocation_fails(try_session, false);
  uint8_t fingerprint[16];
  trn_plan_fingerprint(shared_plan, fingerprint);
  each_allocation_fails(try_query, true); /* a further worker is optional */
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn__scripted_unref(control);
  trn_plan_unref(shared_plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_survive_failed_allocations),
      cmocka_unit_test(maps_survive_failed_allocations),
      cmocka_unit_test(buffers_survive_failed_allocations),
      cmocka_unit_test(pools_survive_failed_allocations),
      cmocka_unit_test(building_a_plan_survives_failed_allocations),
      cmocka_unit_test(using_a_plan_survives_failed_allocations),
      cmocka_unit_test(arrays_survive_failed_allocations),
      cmocka_unit_test(sessions_and_queries_survive_failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
