/* Allocations that fail when a test says so, for programs whose malloc is wrapped (their names end in _faults): `countdown`
 * says which one, `failures` how many did. Any thread. A program includes it once. */
#ifndef TRN_TESTS_FAILING_MEMORY_H
#define TRN_TESTS_FAILING_MEMORY_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static atomic_llong countdown = -1; /* < 0: nothing fails; 0: the next one */
static atomic_llong failures;

static bool fails(void) {
  if (atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0) return false;
  atomic_fetch_add(&failures, 1);
  return true;
}
void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}

#endif
