/* A running or finished query of a session. */
#ifndef TRUNNION_OPERATION_H
#define TRUNNION_OPERATION_H
#include <trunnion/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_operation trn_operation;

/** Says that nobody wants an answer any more, to calls that block for long and have no operation yet: planning. Whoever
 *  asks makes one, hands it over in the request, and may request it from any thread. Reference counted; once requested it
 *  stays so. Since 0.1. */
typedef struct trn_cancel trn_cancel;
/** RESOURCE_EXHAUSTED. */
TRN_API trn_status trn_cancel_create(trn_cancel **out);
TRN_API trn_cancel *trn_cancel_ref(trn_cancel *cancel); /**< NULL gives NULL */
TRN_API void trn_cancel_unref(trn_cancel *cancel);
TRN_API void trn_cancel_request(trn_cancel *cancel); /**< idempotent, never blocks; NULL is accepted */
TRN_API bool trn_cancel_is_requested(const trn_cancel *cancel); /**< NULL: false */
/** Says what the calling thread works for, until it says something else: blocking calls whose request holds no token
 *  (explain, encode, check, open_source, what a decoder calls) look at this one, and return soon with CANCELLED. Borrows
 *  `cancel` so long; NULL: nobody cancels. Returns what was said before, to be said again at the end. Since 0.1. */
TRN_API trn_cancel *trn_cancel_work_for(trn_cancel *cancel);
TRN_API trn_cancel *trn_cancel_of_work(void); /**< what this thread works for, borrowed; NULL: nobody cancels */

typedef enum trn_operation_state {
  TRN_OPERATION_PENDING = 0,
  TRN_OPERATION_PLANNING,
  TRN_OPERATION_RUNNING,
  TRN_OPERATION_FINISHED,
  TRN_OPERATION_FAILED,
  TRN_OPERATION_CANCELLED,
  TRN_OPERATION_CLOSED
} trn_operation_state;

/** A part of a result that a client can fetch by itself, with Ballista's tickets, from where it lies. Texts are borrowed
 *  while it is told. Since 0.1. */
typedef struct trn_result_location {
  size_t struct_size;
  const char *job_id;
  uint32_t stage_id, partition_id;
  const char *executor_id, *host;
  uint32_t port;
  bool has_file_id, is_sort_shuffle;
  uint64_t file_id;
  int64_t rows, bytes; /**< -1: unknown */
} trn_result_location;

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
  /** Tells the parts in order. FAILED_PRECONDITION: not known yet; later what became of it. They stay fetchable as long as
   *  the operation lives. Optional (UNIMPLEMENTED): what wraps an operation and changes its rows leaves it out. */
  trn_status (*locations)(void *self, void (*each)(void *user, const trn_result_location *location), void *user,
                          trn_error **error);
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
TRN_API trn_status trn_operation_locations(trn_operation *operation,
                                           void (*each)(void *user, const trn_result_location *location), void *user,
                                           trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
