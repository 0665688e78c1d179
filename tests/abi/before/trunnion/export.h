/* Visibility and fixed small types shared by all public headers. */
#ifndef TRUNNION_EXPORT_H
#define TRUNNION_EXPORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRN_API __attribute__((visibility("default")))
#else
#define TRN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A borrowed piece of text: `size` bytes of UTF-8, not NUL-terminated. Frozen layout. */
typedef struct trn_str {
  const char *data;
  size_t size;
} trn_str;

/** Bytes with an owner. Whoever holds a slice with a non-NULL `release` calls `release(owner)` exactly once, on any
 *  thread. `release == NULL`: the bytes are borrowed. Frozen layout. */
typedef struct trn_slice {
  const void *data;
  size_t size;
  void (*release)(void *owner);
  void *owner;
} trn_slice;

/** A setting, option or property: both texts borrowed, NUL-terminated; `value` may be NULL where "unset" has a meaning. */
typedef struct trn_kv {
  const char *key;
  const char *value;
} trn_kv;

#ifdef __cplusplus
}
#endif
#endif
