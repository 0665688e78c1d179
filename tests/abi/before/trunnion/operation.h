/* A running or finished query of a session. */
#ifndef TRUNNION_OPERATION_H
#define TRUNNION_OPERATION_H
#include <trunnion/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_operation trn_operation;

typedef enum trn_operation_state {
  TRN_OPERATION_PENDING = 0,
  TRN_OPERATION_PLANNING,
  TRN_OPERATION_RUNNING,
  TRN_OPERATION_FINISHED,
  TRN_OPERATION_FAILED,
  TRN_OPERATION_CANCELLED,
  TRN_OPERATION_CLOSED
} trn_operation_state;

typedef struct trn_operation_ops {
  size_t struct_size;
  trn_operation_state (*state)(void *self);
  /** Idempotent, any thread, does not block. */
  void (*cancel)(void *self);
  /** Gives a stream; blocks for planning only. A second call may be refused with FAILED_PRECONDITION. */
  trn_status (*result_stream)(void *self, trn_stream **out, trn_error **error);
  /** JSON text about the work done so far; gives `*out` (trn_free). Optional. */
  trn_status (*metrics)(void *self, char **out);
  void (*destroy)(void *self);
} trn_operation_ops;

/** `id`: NULL: a new UUIDv7. Copied. */
TRN_API trn_status trn_operation_create(const trn_operation_ops *ops, void *self, const char *id, trn_operation **out);
TRN_API trn_operation *trn_operation_ref(trn_operation *operation);
TRN_API void trn_operation_unref(trn_operation *operation);
TRN_API const char *trn_operation_id(const trn_operation *operation);
TRN_API trn_operation_state trn_operation_get_state(trn_operation *operation);
TRN_API void trn_operation_cancel(trn_operation *operation);
TRN_API trn_status trn_operation_result_stream(trn_operation *operation, trn_stream **out, trn_error **error);
TRN_API trn_status trn_operation_metrics(trn_operation *operation, char **out);

#ifdef __cplusplus
}
#endif
#endif
