/* Plan-input decoders: from a format's name and bytes to a resolved plan. "sql", "datafusion.logical.v1",
 * "datafusion.physical.v1" and "substrait.plan.v1" are built in and ask the session's backend, as does "ballista.logical.v1",
 * Ballista's way to write the first of them; "spark.sql" is a query in Spark's dialect; others are added. */
#ifndef TRUNNION_DECODER_H
#define TRUNNION_DECODER_H
#include <trunnion/registry.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where an answer that comes later goes. Frozen layout; copied freely. Valid until the registry is destroyed: an answer
 *  that is late, or a second one, is noticed and dropped. */
typedef struct trn_decode_ticket {
  void *owner;
  uint64_t id;
} trn_decode_ticket;

/** One of `decode` and `start` is required; `start` goes first when both are there. Threads: any, several at once. */
typedef struct trn_decoder_ops {
  size_t struct_size;
  /** Decodes at once; may block and compute (worker threads only). Gives `*out`. */
  trn_status (*decode)(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out, trn_error **error);
  /** Begins, and answers with trn_decode_answer, from any thread, also before it returns. Not OK: it does not answer.
   *  `session` and `input` are valid until it has answered, or `cancel` was called. */
  trn_status (*start)(void *self, trn_session *session, const trn_plan_input *input, trn_decode_ticket ticket,
                      trn_error **error);
  /** Nobody waits for the ticket any more: the client cancelled, or it took too long. When it returns, the decoder does
   *  not touch `session` and `input` any more. Required with `start`. */
  void (*cancel)(void *self, trn_decode_ticket ticket);
  void (*destroy)(void *self); /**< with the registry; optional */
} trn_decoder_ops;

/** Takes `self` on success. Copies `format` and `ops`. ALREADY_EXISTS names a format that is taken. Since 0.1. */
TRN_API trn_status trn_registry_add_decoder(trn_registry *registry, const char *format, const trn_decoder_ops *ops,
                                            void *self, trn_error **error);
/** The known formats; NULL: no more. */
TRN_API const char *trn_registry_decoder_at(const trn_registry *registry, size_t index);

/** Zero means the default. */
typedef struct trn_decode_options {
  size_t struct_size;
  bool (*is_cancelled)(void *user); /**< asked while an answer is waited for; NULL: never */
  void *user;
  uint64_t timeout_ms; /**< for an answer that comes later; default 5 minutes */
} trn_decode_options;

/** Decodes by `input->format`. Gives `*out`. Threads: any. Blocks. Errors: INVALID_ARGUMENT lists the known formats;
 *  CANCELLED; DEADLINE_EXCEEDED; those of the decoder. Since 0.1. */
TRN_API trn_status trn_registry_decode(const trn_registry *registry, trn_session *session, const trn_plan_input *input,
                                       const trn_decode_options *options, trn_plan **out, trn_error **error);
/** Answers a ticket, once. `plan` (with TRN_OK) and `error` are taken, also when nobody waits. False: nobody does: it
 *  was answered before, cancelled, or took too long. Threads: any. Blocks: no. */
TRN_API bool trn_decode_answer(trn_decode_ticket ticket, trn_status status, trn_plan *plan, trn_error *error);

#ifdef __cplusplus
}
#endif
#endif
