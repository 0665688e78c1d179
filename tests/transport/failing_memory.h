/* Allocations that fail on demand, once or from then on: this program's malloc, which is visible to the shared
 * libraries (nghttp2, OpenSSL, zlib), comes before the C library's. Include it once in a program. */
#ifndef TESTS_TRANSPORT_FAILING_MEMORY_H
#define TESTS_TRANSPORT_FAILING_MEMORY_H
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/call_service.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* Called before the sanitizer is ready. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined", "thread")))
#define REAL(name) __interceptor_##name
#else
#define UNCHECKED
#define REAL(name) __libc_##name
#endif
void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *memory, size_t size);

static atomic_int until_failure;  /* 0: none fails; 1: the next one */
static atomic_bool failure_lasts; /* then all that follow fail too */
static atomic_int failures;

UNCHECKED static bool fails_now(void) {
  if (!test_may_fail || atomic_load(&until_failure) == 0) return false;
  if (atomic_load(&failure_lasts) && atomic_load(&until_failure) == 1) {
    atomic_fetch_add(&failures, 1);
    errno = ENOMEM;
    return true;
  }
  if (atomic_fetch_sub(&until_failure, 1) != 1) return false;
  atomic_fetch_add(&failures, 1);
  errno = ENOMEM;
  return true;
}

TRN_API UNCHECKED void *malloc(size_t size) {
  return fails_now() ? NULL : REAL(malloc)(size);
}

TRN_API UNCHECKED void *calloc(size_t count, size_t size) {
  return fails_now() ? NULL : REAL(calloc)(count, size);
}

TRN_API UNCHECKED void *realloc(void *memory, size_t size) {
  return fails_now() ? NULL : REAL(realloc)(memory, size);
}

/* libuv ends the process when its table of descriptors cannot grow; nothing of ours can be tested behind that. */
static void *spared_malloc(size_t size) {
  return REAL(malloc)(size);
}
static void *spared_calloc(size_t count, size_t size) {
  return REAL(calloc)(count, size);
}
static void *spared_realloc(void *memory, size_t size) {
  return REAL(realloc)(memory, size);
}

/* Lets the k-th allocation fail; those of this thread count only when `own`. */
static inline void arm(int k, bool own) {
  test_may_fail = own;
  atomic_store(&failures, 0);
  atomic_store(&until_failure, k);
}

/* As arm, and all allocations after it. */
static inline void arm_lasting(int k, bool own) {
  arm(k, own);
  atomic_store(&failure_lasts, true);
}

/* True when the failure was reached. */
static inline bool disarm(void) {
  atomic_store(&until_failure, 0);
  atomic_store(&failure_lasts, false);
  test_may_fail = false;
  return atomic_load(&failures) > 0;
}

#endif
