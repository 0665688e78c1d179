/* Arenas, buffers, maps, ids, errors, the worker pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "core/core.h"
#include "core/gate.h"
#include <trunnion/plan.h>
#include <trunnion/trunnion.h>

/* ---- arena ---- */

static void arena_gives_zeroed_aligned_memory_of_any_size(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  assert_non_null(arena);
  static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 16384, 70000, 3 << 20};
  for (unsigned round = 0; round < 40; round++) {
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      unsigned char *p = trn__arena_alloc(arena, sizes[i]);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p & 15, 0);
      for (size_t k = 0; k < sizes[i]; k += 97) assert_int_equal(p[k], 0);
      memset(p, 0xaa, sizes[i]);
    }
  }
  trn__arena_unref(arena);
  trn__arena_unref(NULL);
}

static void arena_stops_at_its_cap(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(100000);
  size_t got = 0;
  while (trn__arena_alloc(arena, 1000)) got += 1000;
  assert_true(got > 95000 && got <= 100000);
  assert_true(trn__arena_bytes(arena) <= 100000);
  assert_null(trn__arena_alloc(arena, SIZE_MAX));
  assert_null(trn__arena_alloc_n(arena, SIZE_MAX / 2, 3));
  assert_null(trn__arena_str(arena, "x", SIZE_MAX));
  trn__arena_unref(arena);
}

typedef struct order {
  int at;
  int seen[3];
} order;
static order owned_order;
static void owned_release(void *object) {
  owned_order.seen[owned_order.at++] = *(int *)object;
}

static void arena_releases_what_it_owns_last_first(void **state) {
  (void)state;
  static int one = 1, two = 2;
  owned_order = (order){0};
  trn_arena *arena = trn__arena_create(0);
  assert_true(trn__arena_own(arena, owned_release, &one));
  assert_true(trn__arena_own(arena, owned_release, &two));
  trn__arena_unref(trn__arena_ref(arena));
  assert_int_equal(owned_order.at, 0);
  trn__arena_unref(arena);
  assert_int_equal(owned_order.at, 2);
  assert_int_equal(owned_order.seen[0], 2);
}

static void arena_prints_and_copies(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  assert_string_equal(trn__arena_printf(arena, "%d-%s", 7, "x"), "7-x");
  assert_string_equal(trn__arena_str(arena, "abcdef", 3), "abc");
  assert_string_equal(trn__arena_strdup(arena, ""), "");
  assert_memory_equal(trn__arena_copy(arena, "q\0r", 3), "q\0r", 3);
  trn__arena_unref(arena);
}

/* ---- strbuf, vec ---- */

static void strbuf_grows_and_prints(void **state) {
  (void)state;
  trn_strbuf b = {0};
  for (int i = 0; i < 1000; i++) trn__strbuf_printf(&b, "%d,", i);
  trn__strbuf_putc(&b, '!');
  trn__strbuf_add(&b, NULL, 0);
  assert_false(b.failed);
  assert_int_equal(b.size, strlen(b.data));
  assert_string_equal(b.data + b.size - 5, "999,!");
  trn__strbuf_finish(&b);
  assert_null(b.data);
}

static void strbuf_fails_for_ever_once_it_failed(void **state) {
  (void)state;
  trn_strbuf b = {0};
  trn__strbuf_puts(&b, "ok");
  trn__strbuf_add(&b, "x", SIZE_MAX / 2);
  assert_true(b.failed);
  trn__strbuf_puts(&b, "more");
  trn__strbuf_printf(&b, "%s", "and more");
  assert_true(b.failed);
  assert_string_equal(b.data, "ok");
  trn__strbuf_finish(&b);
}

static void vec_keeps_what_is_pushed(void **state) {
  (void)state;
  trn_vec v = {0};
  int x[100];
  for (int i = 0; i < 100; i++) assert_true(trn__vec_push(&v, &x[i]));
  assert_int_equal(v.count, 100);
  assert_ptr_equal(v.items[57], &x[57]);
  trn__vec_finish(&v);
}

/* ---- map, hash ---- */

static void map_sets_gets_removes_in_order(void **state) {
  (void)state;
  trn_map *map = trn__map_create();
  assert_null(trn__map_get(map, "a", 1));
  char key[16];
  for (uintptr_t i = 1; i <= 5000; i++) {
    int n = snprintf(key, sizeof key, "key%d", (int)i);
    assert_true(trn__map_set(map, key, (size_t)n, (void *)i, NULL));
  }
  void *old = NULL;
  assert_true(trn__map_set(map, "key7", 4, (void *)7777, &old));
  assert_int_equal((uintptr_t)old, 7);
  for (int i = 1; i <= 5000; i += 2) {
    int n = snprintf(key, sizeof key, "key%d", i);
    assert_non_null(trn__map_remove(map, key, (size_t)n));
    assert_null(trn__map_remove(map, key, (size_t)n));
  }
  assert_int_equal(trn__map_count(map), 2500);
  assert_int_equal((uintptr_t)trn__map_get(map, "key4998", 7), 4998);
  assert_null(trn__map_get(map, "key4999", 7));
  assert_null(trn__map_get(map, "key4998x", 8));
  /* Reinsert and remove for long: the table must not fill with removed entries. */
  for (int i = 0; i < 20000; i++) {
    assert_true(trn__map_set(map, "again", 5, map, NULL));
    assert_ptr_equal(trn__map_remove(map, "again", 5), map);
  }
  const char *at;
  void *value;
  uintptr_t expected = 2;
  for (size_t i = 0; trn__map_next(map, &i, &at, &value); expected += 2) assert_int_equal((uintptr_t)value, expected);
  assert_int_equal(expected, 5002);
  trn__map_destroy(map, NULL);
  trn__map_destroy(NULL, NULL);
}

static void hash_is_xxh64(void **state) {
  (void)state;
  assert_true(trn__hash("", 0, 0) == 0xEF46DB3751D8E999ull);
  assert_true(trn__hash("a", 1, 0) == 0xD24EC4F1A98C6E5Bull);
  assert_true(trn__hash("abc", 3, 0) == 0x44BC2CF5AD770999ull);
  assert_true(trn__hash("Nobody inspects the spammish repetition", 39, 0) == 0xFBCEA83C8A378BF1ull);
}

/* ---- ids ---- */

static void uuids_are_valid_distinct_and_ordered_by_time(void **state) {
  (void)state;
  char a[TRN_UUID_SIZE], b[TRN_UUID_SIZE];
  trn__uuid4(a);
  assert_true(trn__uuid_is_valid(a));
  assert_int_equal(a[14], '4');
  trn__uuid7(a);
  nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
  trn__uuid7(b);
  assert_true(trn__uuid_is_valid(b));
  assert_int_equal(b[14], '7');
  assert_non_null(strchr("89ab", b[19]));
  assert_true(strcmp(a, b) < 0);
  assert_false(trn__uuid_is_valid(""));
  assert_false(trn__uuid_is_valid("00000000-0000-0000-0000-00000000000"));
  assert_false(trn__uuid_is_valid("00000000-0000-0000-0000-0000000000000"));
  assert_false(trn__uuid_is_valid("00000000-0000-0000-0000-00000000000g"));
  assert_true(trn__uuid_is_valid("00112233-4455-6677-8899-AABBCCDDEEFF"));
}

/* ---- errors ---- */

static void error_copies_everything(void **state) {
  (void)state;
  char text[] = "message";
  trn_error *cause = NULL;
  assert_int_equal(trn_error_set(&cause, TRN_NOT_FOUND, NULL, "no %s", "file"), TRN_NOT_FOUND);
  trn_error_param params[] = {{"objectName", "`x`"}, {"other", NULL}};
  trn_error *error = trn_error_create(&(trn_error_spec){.struct_size = sizeof(trn_error_spec),
                                                        .status = TRN_INVALID_ARGUMENT,
                                                        .condition = "C",
                                                        .sqlstate = "42000",
                                                        .message = text,
                                                        .params = params,
                                                        .param_count = 2,
                                                        .position = {3, 5},
                                                        .has_position = true,
                                                        .cause = cause});
  text[0] = 'X';
  trn_error_unref(cause);
  assert_string_equal(trn_error_message(error), "message");
  assert_string_equal(trn_error_condition(error), "C");
  assert_string_equal(trn_error_sqlstate(error), "42000");
  assert_int_equal(trn_error_status(error), TRN_INVALID_ARGUMENT);
  const trn_error_param *got;
  assert_int_equal(trn_error_params(error, &got), 2);
  assert_string_equal(got[0].value, "`x`");
  assert_null(got[1].value);
  trn_position position;
  assert_true(trn_error_position(error, &position));
  assert_int_equal(position.stop, 5);
  assert_string_equal(trn_error_message(trn_error_cause(error)), "no file");
  trn_error_unref(trn_error_ref(error));
  trn_error_unref(error);
}

static void error_spec_of_an_older_caller_reads_as_zero(void **state) {
  (void)state;
  trn_error_spec spec = {.struct_size = offsetof(trn_error_spec, position),
                         .status = TRN_INTERNAL,
                         .message = "m",
                         .position = {1, 2},
                         .has_position = true};
  trn_error *error = trn_error_create(&spec);
  assert_false(trn_error_position(error, NULL));
  trn_error_unref(error);
}

static void error_accepts_null_and_long_texts(void **state) {
  (void)state;
  assert_int_equal(trn_error_set(NULL, TRN_ABORTED, NULL, "x"), TRN_ABORTED);
  assert_int_equal(trn_error_status(NULL), TRN_UNKNOWN);
  assert_string_equal(trn_error_message(NULL), "");
  assert_null(trn_error_condition(NULL));
  assert_null(trn_error_cause(NULL));
  assert_int_equal(trn_error_params(NULL, NULL), 0);
  trn_error_unref(NULL);
  char big[3000];
  memset(big, 'b', sizeof big);
  big[sizeof big - 1] = 0;
  trn_error *error;
  trn_error_set(&error, TRN_INTERNAL, NULL, "%s!", big);
  assert_int_equal(strlen(trn_error_message(error)), sizeof big);
  trn_error_unref(error);
  /* A chain of causes is freed without recursion. */
  error = NULL;
  for (int i = 0; i < 300000; i++) {
    trn_error *next =
        trn_error_create(&(trn_error_spec){.struct_size = sizeof(trn_error_spec), .status = 2, .cause = error});
    trn_error_unref(error);
    error = next;
  }
  trn_error_unref(error);
}

static void status_names_are_grpcs(void **state) {
  (void)state;
  assert_string_equal(trn_status_name(TRN_OK), "OK");
  assert_string_equal(trn_status_name(TRN_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  assert_string_equal(trn_status_name(TRN_UNAUTHENTICATED), "UNAUTHENTICATED");
  assert_string_equal(trn_status_name((trn_status)99), "UNKNOWN");
  assert_string_equal(trn_version(), TRUNNION_VERSION);
}

/* ---- pool ---- */

static void add_one(void *argument) {
  atomic_fetch_add((atomic_int *)argument, 1);
}

static void pool_runs_everything_before_it_is_gone(void **state) {
  (void)state;
  trn_pool *pool;
  atomic_int ran = 0;
  assert_int_equal(trn__pool_create(3, &pool), TRN_OK);
  for (int i = 0; i < 1000; i++) assert_int_equal(trn__pool_submit(pool, add_one, &ran), TRN_OK);
  for (int i = 0; i < 50; i++) assert_int_equal(trn__pool_submit_after(pool, 1000000, add_one, &ran), TRN_OK);
  trn__pool_destroy(pool);
  assert_int_equal(ran, 1050);
  trn__pool_destroy(NULL);
}

typedef struct chain {
  trn_pool *pool;
  atomic_int left;
} chain;
static void chain_run(void *argument) {
  chain *c = argument;
  if (atomic_fetch_sub(&c->left, 1) <= 1) return;
  if (c->left % 2)
    assert_int_equal(trn__pool_submit(c->pool, chain_run, c), TRN_OK);
  else
    assert_int_equal(trn__pool_submit_after(c->pool, 1, chain_run, c), TRN_OK);
}

static void pool_takes_work_from_its_own_tasks_to_the_end(void **state) {
  (void)state;
  chain c = {.left = 41};
  assert_int_equal(trn__pool_create(2, &c.pool), TRN_OK);
  assert_int_equal(trn__pool_submit(c.pool, chain_run, &c), TRN_OK);
  trn__pool_destroy(c.pool);
  assert_int_equal(c.left, 0);
}

typedef struct stamp {
  int64_t at_ns;
  atomic_bool done;
  int number;
  atomic_int *order;
  int place;
} stamp;
static void stamp_run(void *argument) {
  stamp *s = argument;
  s->at_ns = trn__now_ns();
  s->place = atomic_fetch_add(s->order, 1);
  s->done = true;
}

static void pool_runs_delayed_work_in_time_and_in_order(void **state) {
  (void)state;
  trn_pool *pool;
  assert_int_equal(trn__pool_create(1, &pool), TRN_OK);
  atomic_int order = 0;
  static const unsigned delays[] = {60, 20, 40, 20, 1};
  stamp stamps[5] = {0};
  int64_t start_ns = trn__now_ns();
  for (int i = 0; i < 5; i++) {
    stamps[i].order = &order;
    assert_int_equal(trn__pool_submit_after(pool, delays[i], stamp_run, &stamps[i]), TRN_OK);
  }
  while (!stamps[0].done) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  for (int i = 0; i < 5; i++) assert_true(stamps[i].at_ns - start_ns >= (int64_t)delays[i] * 1000000);
  assert_int_equal(stamps[0].place, 4);
  assert_int_equal(stamps[1].place, 1);
  assert_int_equal(stamps[3].place, 2);
  assert_int_equal(stamps[4].place, 0);
  trn__pool_destroy(pool);
}

/* Two tasks that wait for each other: both must run at once. */
typedef struct meeting {
  atomic_int here;
} meeting;
static void meet(void *argument) {
  meeting *m = argument;
  atomic_fetch_add(&m->here, 1);
  while (m->here < 2) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void pool_runs_tasks_side_by_side(void **state) {
  (void)state;
  trn_pool *pool;
  assert_int_equal(trn__pool_create(2, &pool), TRN_OK);
  meeting meetings[20] = {0};
  for (int i = 0; i < 20; i++) {
    meeting *m = &meetings[i];
    assert_int_equal(i % 2 ? trn__pool_submit(pool, meet, m) : trn__pool_submit_after(pool, 1, meet, m), TRN_OK);
    assert_int_equal(i % 2 ? trn__pool_submit(pool, meet, m) : trn__pool_submit_after(pool, 1, meet, m), TRN_OK);
    while (m->here < 2) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  trn__pool_destroy(pool);
}

typedef struct suicide {
  trn_pool *pool;
  atomic_int *ran;
} suicide;
static void suicide_run(void *argument) {
  suicide *s = argument;
  trn__pool_destroy(s->pool);
  atomic_fetch_add(s->ran, 1);
}

static void pool_may_be_destroyed_by_its_own_task(void **state) {
  (void)state;
  atomic_int ran = 0;
  suicide s = {.ran = &ran};
  assert_int_equal(trn__pool_create(2, &s.pool), TRN_OK);
  for (int i = 0; i < 10; i++) assert_int_equal(trn__pool_submit_after(s.pool, 1000000, add_one, &ran), TRN_OK);
  assert_int_equal(trn__pool_submit(s.pool, suicide_run, &s), TRN_OK);
  while (ran < 11) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  nanosleep(&(struct timespec){.tv_nsec = 20000000},
            NULL); /* the threads leave, the pool is freed: see the leak checker */
}

static int deep(int n) {
  volatile char pad[1024];
  pad[0] = (char)n;
  return n ? deep(n - 1) + pad[0] * 0 + 1 : 0;
}
static void deep_run(void *argument) {
  *(int *)argument = deep(20000);
}

static void big_stack_is_big(void **state) {
  (void)state;
  int depth = 0;
  assert_int_equal(trn__run_on_big_stack(deep_run, &depth), TRN_OK);
  assert_int_equal(depth, 20000);
}

/* ---- the gate ---- */

typedef struct gated {
  trn_gate gate;
  atomic_int left, refused;
} gated;

static void gated_run(void *argument) {
  gated *g = argument;
  if (!trn__gate_enter(&g->gate)) {
    atomic_fetch_add(&g->refused, 1);
    return;
  }
  nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  atomic_fetch_add(&g->left, 1);
  trn__gate_leave(&g->gate);
}

static void a_gate_waits_for_all_who_are_inside_and_lets_nobody_in_behind_them(void **state) {
  (void)state;
  enum { VISITORS = 400 };
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  gated g = {.left = 0};
  trn_pool *pool = NULL;
  trn__gate_init(&g.gate, &mutex);
  assert_int_equal(trn__pool_create(4, &pool), TRN_OK);
  assert_true(trn__gate_enter(&g.gate));
  for (int i = 0; i < VISITORS; i++) assert_int_equal(trn__pool_submit(pool, gated_run, &g), TRN_OK);
  trn__gate_close(&g.gate);
  assert_true(trn__gate_is_closed(&g.gate));
  assert_false(trn__gate_enter(&g.gate));
  trn__gate_count(&g.gate);
  trn__gate_leave(&g.gate);
  trn__gate_leave(&g.gate);
  trn__gate_wait(&g.gate);
  int left = g.left;
  trn__pool_destroy(pool);
  assert_int_equal(g.left, left); /* nobody came in behind the wait */
  assert_int_equal(g.left + g.refused, VISITORS);
  trn__gate_finish(&g.gate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gate_waits_for_all_who_are_inside_and_lets_nobody_in_behind_them),
      cmocka_unit_test(arena_gives_zeroed_aligned_memory_of_any_size),
      cmocka_unit_test(arena_stops_at_its_cap),
      cmocka_unit_test(arena_releases_what_it_owns_last_first),
      cmocka_unit_test(arena_prints_and_copies),
      cmocka_unit_test(strbuf_grows_and_prints),
      cmocka_unit_test(strbuf_fails_for_ever_once_it_failed),
      cmocka_unit_test(vec_keeps_what_is_pushed),
      cmocka_unit_test(map_sets_gets_removes_in_order),
      cmocka_unit_test(hash_is_xxh64),
      cmocka_unit_test(uuids_are_valid_distinct_and_ordered_by_time),
      cmocka_unit_test(error_copies_everything),
      cmocka_unit_test(error_spec_of_an_older_caller_reads_as_zero),
      cmocka_unit_test(error_accepts_null_and_long_texts),
      cmocka_unit_test(status_names_are_grpcs),
      cmocka_unit_test(pool_runs_everything_before_it_is_gone),
      cmocka_unit_test(pool_takes_work_from_its_own_tasks_to_the_end),
      cmocka_unit_test(pool_runs_delayed_work_in_time_and_in_order),
      cmocka_unit_test(pool_runs_tasks_side_by_side),
      cmocka_unit_test(pool_may_be_destroyed_by_its_own_task),
      cmocka_unit_test(big_stack_is_big),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
