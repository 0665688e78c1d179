/* The only place for compiler extensions. */
#ifndef TRN_CORE_COMPILER_H
#define TRN_CORE_COMPILER_H
#include <stdlib.h>

#define TRN_PRINTF(format_index, args_index) __attribute__((format(printf, format_index, args_index)))
#define TRN_LIKELY(x) __builtin_expect(!!(x), 1)
#define TRN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TRN_CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* The widest integers: decimal128's unscaled values. */
__extension__ typedef __int128 trn_i128;
__extension__ typedef unsigned __int128 trn_u128;

/* Fields of messages that old clients still send are marked as deprecated. */
#define TRN_DEPRECATED_USE_BEGIN                                                                                       \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
#define TRN_DEPRECATED_USE_END _Pragma("GCC diagnostic pop")

/* AddressSanitizer builds watch the space between the pieces of an arena too. */
#if defined(__SANITIZE_ADDRESS__)
#define TRN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRN_ASAN 1
#endif
#endif
#ifdef TRN_ASAN
#include <sanitizer/asan_interface.h>
#define TRN_POISON(memory, size) __asan_poison_memory_region((memory), (size))
#define TRN_UNPOISON(memory, size) __asan_unpoison_memory_region((memory), (size))
#else
#define TRN_POISON(memory, size) ((void)(memory), (void)(size))
#define TRN_UNPOISON(memory, size) ((void)(memory), (void)(size))
#endif

/* Broken invariants of ours, never bad input. Debug, test and fuzz builds stop; release builds go on. */
#ifdef NDEBUG
#define TRN_ASSERT(condition) ((void)sizeof(condition))
#else
#define TRN_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#endif

#endif
