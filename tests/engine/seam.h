/* For tests at the engine's boundary: plans by hand, pulling, a tiny function library. Everything is static: one
 * program includes it. */
#ifndef TRN_TESTS_ENGINE_SEAM_H
#define TRN_TESTS_ENGINE_SEAM_H
#include "engine/engine_abi.h"
#include "plan/plan.h"
#include "seam_functions.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- bytes ---- */
typedef struct bytes {
  uint8_t *data;
  size_t size, capacity;
} bytes;

static inline void put(bytes *b, const void *data, size_t size) {
  if (b->size + size > b->capacity) {
    b->capacity = 2 * (b->size + size) + 64;
    b->data = realloc(b->data, b->capacity);
    if (!b->data) abort();
  }
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
}
static inline void u8(bytes *b, uint8_t v) { put(b, &v, 1); }
static inline void u32(bytes *b, uint32_t v) { put(b, &v, 4); }
static inline void u64(bytes *b, uint64_t v) { put(b, &v, 8); }
static inline void i64(bytes *b, int64_t v) { put(b, &v, 8); }
static inline void str(bytes *b, const char *s) { u32(b, (uint32_t)strlen(s)), put(b, s, strlen(s)); }
static inline void type(bytes *b, uint8_t id) {
  u8(b, id), u8(b, id == TRN_TYPE_DECIMAL ? 10 : 0), u8(b, id == TRN_TYPE_DECIMAL ? 2 : 0), u8(b, 0), u32(b, 0), u32(b, 0);
}
static inline void begin(bytes *b) {
  b->size = 0;
  put(b, "TRNP", 4), u32(b, 1);
}

/* ---- operations ---- */
static inline void op_column(bytes *b, uint32_t id) { u8(b, TRN_OP_COLUMN), u32(b, id); }
static inline void op_int(bytes *b, int64_t v) { u8(b, TRN_OP_LITERAL), type(b, TRN_TYPE_INT64), u8(b, 0), i64(b, v); }
static inline void op_text(bytes *b, const char *v) { u8(b, TRN_OP_LITERAL), type(b, TRN_TYPE_STRING), u8(b, 0), str(b, v); }
static inline void op_null(bytes *b, uint8_t id) { u8(b, TRN_OP_LITERAL), type(b, id), u8(b, 1); }
static inline void op_call(bytes *b, uint8_t home, const char *name, uint32_t argc, uint8_t result) {
  u8(b, TRN_OP_CALL), u8(b, home), str(b, name), u32(b, argc), type(b, result), u8(b, 1);
}
static inline void op_range(bytes *b, int64_t end, uint32_t partitions, uint32_t id) {
  u8(b, TRN_OP_RANGE), i64(b, 0), i64(b, end), i64(b, 1), u32(b, partitions), u32(b, id);
}
static inline void op_project(bytes *b, uint32_t n, ...) {
  va_list ids;
  u8(b, TRN_OP_PROJECT), u32(b, n);
  va_start(ids, n);
  for (uint32_t i = 0; i < n; i++) u32(b, va_arg(ids, uint32_t));
  va_end(ids);
}
static inline void op_aggregate(bytes *b, uint8_t home, const char *name, uint8_t distinct, uint32_t argc) {
  u8(b, TRN_OP_AGGREGATE), u8(b, home), str(b, name), u8(b, distinct), u8(b, 0), u32(b, 0), u32(b, argc);
  type(b, TRN_TYPE_INT64);
}
/* No grouping sets; ids follow as arguments: groups + aggregates. */
static inline void op_group(bytes *b, uint32_t groups, uint32_t aggregates, ...) {
  va_list ids;
  u8(b, TRN_OP_AGGREGATE_REL), u32(b, groups), u32(b, aggregates);
  va_start(ids, aggregates);
  for (uint32_t i = 0; i < groups + aggregates; i++) u32(b, va_arg(ids, uint32_t));
  va_end(ids);
  u32(b, 0), u32(b, 0);
}
static inline void op_sort(bytes *b, uint32_t n, uint8_t flags) {
  u8(b, TRN_OP_SORT), u32(b, n);
  for (uint32_t i = 0; i < n; i++) u8(b, flags);
  i64(b, -1);
}
static inline void op_join(bytes *b, uint8_t kind, uint8_t null_aware, uint8_t has_condition, uint32_t mark) {
  u8(b, TRN_OP_JOIN), u8(b, kind), u8(b, null_aware), u8(b, has_condition), u32(b, mark);
}

/* ---- pulling ---- */
typedef struct pull {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int calls;
  struct ArrowArray array;
  trn_engine_ipc ipc;
  trn_engine_error error;
} pull;

static inline void pull_array_done(void *user, struct ArrowArray *array, trn_engine_error *error) {
  pull *p = user;
  pthread_mutex_lock(&p->mutex);
  p->error = *error;
  if (!error->status && array) p->array = *array;
  p->calls++;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->mutex);
}
static inline void pull_ipc_done(void *user, trn_engine_ipc *ipc, trn_engine_error *error) {
  pull *p = user;
  pthread_mutex_lock(&p->mutex);
  p->error = *error;
  if (!error->status && ipc) p->ipc = *ipc;
  p->calls++;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->mutex);
}
static inline void pull_init(pull *p) {
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->changed, NULL);
}
static inline void pull_wait(pull *p, int calls) {
  pthread_mutex_lock(&p->mutex);
  while (p->calls < calls) pthread_cond_wait(&p->changed, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
}

/* ---- the fixture ---- */
typedef struct fixture {
  const trn_engine *engine;
  trn_engine_runtime *runtime;
  trn_engine_session *session;
  trn_engine_source *sources[4]; /* what SCAN refers to; owned */
  size_t source_count;
  bytes plan;
} fixture;

static fixture f;

static inline double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void release_error(trn_engine_error *error) {
  if (error->release) error->release(error->self);
  memset(error, 0, sizeof *error);
}

static inline void check(int32_t status, trn_engine_error *error) {
  if (status) fail_msg("status %d: %s", status, error->message ? error->message : "");
}

static inline trn_engine_plan *lower(void) {
  trn_engine_plan *plan = NULL;
  trn_engine_error error = {0};
  check(f.engine->plan_lower(f.session, f.plan.data, f.plan.size, f.sources, f.source_count, &plan, &error), &error);
  return plan;
}

static inline trn_engine_execution *execute(trn_engine_plan *plan) {
  trn_engine_execution *execution = NULL;
  trn_engine_error error = {0};
  check(f.engine->execute(f.session, plan, NULL, &execution, &error), &error);
  return execution;
}

/* Rows of the first `columns` columns, all int64, as text "1,2;3,null;". Gives the first error's status. */
typedef struct result {
  int32_t status;
  trn_engine_error error;
  int64_t rows, batches;
  char text[4096];
} result;

static inline void add_rows(result *out, const struct ArrowArray *batch) {
  for (int64_t row = 0; row < batch->length; row++)
    for (int64_t c = 0; c < batch->n_children; c++) {
      const struct ArrowArray *a = batch->children[c];
      size_t used = strlen(out->text);
      const char *end = c + 1 < batch->n_children ? "," : ";";
      if (used + 32 > sizeof out->text) return;
      if (a->n_buffers != 2) snprintf(out->text + used, 32, "?%s", end);
      else if (!bit(a->buffers[0], a->offset + row)) snprintf(out->text + used, 32, "null%s", end);
      else snprintf(out->text + used, 32, "%lld%s", (long long)((const int64_t *)a->buffers[1])[a->offset + row], end);
    }
}

static inline void drain(trn_engine_execution *execution, result *out) {
  memset(out, 0, sizeof *out);
  for (;;) {
    pull p;
    pull_init(&p);
    trn_engine_error error = {0};
    check(f.engine->next_array(execution, pull_array_done, &p, &error), &error);
    pull_wait(&p, 1);
    out->status = p.error.status, out->error = p.error;
    if (p.error.status || !p.array.release) return;
    add_rows(out, &p.array);
    out->rows += p.array.length, out->batches++;
    p.array.release(&p.array);
  }
}

static inline void run(result *out) {
  trn_engine_plan *plan = lower();
  trn_engine_execution *execution = execute(plan);
  f.engine->plan_release(plan);
  drain(execution, out);
  f.engine->execution_release(execution);
}

#define RUN_EXPECT(expected)                    \
  do {                                          \
    result r_;                                  \
    run(&r_);                                   \
    check(r_.status, &r_.error);                \
    assert_string_equal(r_.text, expected);     \
  } while (0)

/* ---- relations that many tests use ---- */
static inline void four_rows(bytes *b, uint32_t first) {
  static const int64_t keys[] = {1, 2, 1, 3};
  for (int i = 0; i < 4; i++) {
    op_int(b, keys[i]);
    if (i == 3) op_null(b, TRN_TYPE_INT64);
    else op_int(b, 10 * (i + 1));
  }
  u8(b, TRN_OP_VALUES), u32(b, 4), u32(b, 2);
  u32(b, first), type(b, TRN_TYPE_INT64), u8(b, 0), u32(b, first + 1), type(b, TRN_TYPE_INT64), u8(b, 1);
}

static inline void window(bytes *b, uint8_t unit, uint8_t start, uint8_t has_start) {
  u8(b, TRN_OP_WINDOW), u8(b, 1), u8(b, TRN_HOME_LIBRARY), str(b, "t.sum"), u8(b, 0), u8(b, 0), u32(b, 1), u32(b, 0);
  u32(b, 1), u8(b, 0), u8(b, unit), u8(b, start), u8(b, TRN_BOUND_CURRENT_ROW), u8(b, has_start), u8(b, 0);
  type(b, TRN_TYPE_INT64);
}

/* ---- opening, closing ---- */
static inline int reset(void **state) {
  (void)state;
  for (size_t i = 0; i < 4; i++) f.engine->source_release(f.sources[i]), f.sources[i] = NULL;
  f.source_count = 0;
  return 0;
}

/* Loads the engine; false: there is none, or it failed (then *failed). */
static inline bool seam_open(int *failed) {
  const char *path = getenv("TRUNNION_ENGINE");
  void *handle = path && *path && !access(path, R_OK) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle) {
    fprintf(stderr, "SKIPPED, NOTHING WAS TESTED: TRUNNION_ENGINE=%s is not a library (%s)\n", path ? path : "", path && *path ? dlerror() : "unset");
    return *failed = 0, false;
  }
  trn_engine_get_fn get;
  *(void **)&get = dlsym(handle, "trn_engine_get");
  const trn_function_library *libraries[] = {&library};
  trn_engine_options options = {.struct_size = sizeof options, .threads = 2, .memory_bytes = (uint64_t)1 << 30, .libraries = libraries, .library_count = 1};
  trn_engine_error error = {0};
  if (!get || !(f.engine = get(TRN_ENGINE_ABI)) || get(99)) return fprintf(stderr, "no engine in %s\n", path), *failed = 1, false;
  double start = now_ms();
  if (f.engine->runtime_create(&options, &f.runtime, &error) || f.engine->session_create(f.runtime, NULL, 0, &f.session, &error))
    return fprintf(stderr, "no session: %s\n", error.message), *failed = 1, false;
  fprintf(stderr, "runtime and session: %.1f ms\n", now_ms() - start);
  return true;
}

static inline void seam_close(void) {
  f.engine->session_release(f.session), f.engine->runtime_release(f.runtime);
  free(f.plan.data);
}

#endif
