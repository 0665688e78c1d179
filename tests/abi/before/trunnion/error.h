/* Errors: a status that alone is always right, and an optional object that says what, which value, what to do. */
#ifndef TRUNNION_ERROR_H
#define TRUNNION_ERROR_H
#include <trunnion/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The gRPC status codes; 0 is success. Back-pressure is never a status. */
typedef enum trn_status {
  TRN_OK = 0,
  TRN_CANCELLED = 1,
  TRN_UNKNOWN = 2,
  TRN_INVALID_ARGUMENT = 3,
  TRN_DEADLINE_EXCEEDED = 4,
  TRN_NOT_FOUND = 5,
  TRN_ALREADY_EXISTS = 6,
  TRN_PERMISSION_DENIED = 7,
  TRN_RESOURCE_EXHAUSTED = 8,
  TRN_FAILED_PRECONDITION = 9,
  TRN_ABORTED = 10,
  TRN_OUT_OF_RANGE = 11,
  TRN_UNIMPLEMENTED = 12,
  TRN_INTERNAL = 13,
  TRN_UNAVAILABLE = 14,
  TRN_DATA_LOSS = 15,
  TRN_UNAUTHENTICATED = 16
} trn_status;

/** Immutable, reference counted. Every function that takes a `trn_error **error` accepts NULL (no object wanted); it
 *  stores an object only when it returns a status other than TRN_OK, and may store NULL then (out of memory). */
typedef struct trn_error trn_error;

/** A named value of an error condition's message template, e.g. {"objectName", "`x`"}. */
typedef trn_kv trn_error_param;

/** Where in the query text the error is: 0-based byte offsets of the first and the last byte, -1 when unknown. */
typedef struct trn_position {
  int32_t start;
  int32_t stop;
} trn_position;

/** What trn_error_create copies. Zero-initialize; set what is known. */
typedef struct trn_error_spec {
  size_t struct_size;
  trn_status status;
  const char *condition; /**< e.g. "DIVIDE_BY_ZERO", "UNRESOLVED_COLUMN.WITH_SUGGESTION"; NULL: none */
  const char *sqlstate;  /**< five characters; NULL: whatever the frontend's table has for the condition */
  const char *message;   /**< complete text; NULL: the frontend renders the condition's template */
  const trn_error_param *params;
  size_t param_count;
  trn_position position; /**< read only when has_position */
  bool has_position;
  trn_error *cause; /**< borrowed; a reference is taken */
} trn_error_spec;

/** Gives a new object (trn_error_unref), or NULL when out of memory. Copies everything. Threads: any. Since 0.1. */
TRN_API trn_error *trn_error_create(const trn_error_spec *spec);
TRN_API trn_error *trn_error_ref(trn_error *error);
TRN_API void trn_error_unref(trn_error *error);

/** Stores a new error in `*error` when `error` is not NULL (replacing nothing: `*error` is taken as unset), and returns
 *  `status`. printf-style message. Threads: any. Since 0.1. */
TRN_API trn_status trn_error_set(trn_error **error, trn_status status, const char *condition, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

TRN_API trn_status trn_error_status(const trn_error *error);        /**< TRN_UNKNOWN for NULL */
TRN_API const char *trn_error_message(const trn_error *error);      /**< "" when none; never NULL */
TRN_API const char *trn_error_condition(const trn_error *error);    /**< NULL when none */
TRN_API const char *trn_error_sqlstate(const trn_error *error);     /**< NULL when none */
TRN_API size_t trn_error_params(const trn_error *error, const trn_error_param **params); /**< count; borrowed */
TRN_API bool trn_error_position(const trn_error *error, trn_position *position);
TRN_API const trn_error *trn_error_cause(const trn_error *error);
/** The name of a status as gRPC spells it, e.g. "RESOURCE_EXHAUSTED". */
TRN_API const char *trn_status_name(trn_status status);

#ifdef __cplusplus
}
#endif
#endif
