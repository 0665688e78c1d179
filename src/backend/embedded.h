/* What the files of the embedded backend share. */
#ifndef TRN_BACKEND_EMBEDDED_H
#define TRN_BACKEND_EMBEDDED_H
#include "engine/engine.h"
#include <trunnion/table.h>

typedef struct trn_embedded {
  const trn_engine *engine;
  trn_engine_runtime *runtime;
} trn_embedded;

/* An idle session is only this: the engine's sessions are cheap handles over a shared base, made for each request. */
typedef struct trn_embedded_session {
  trn_embedded *backend;
  trn_session *session; /* borrowed: it owns us */
} trn_embedded_session;

/* A table, or what an opaque relation stands for: one of the two is set. */
struct trn_source {
  atomic_uint refs;
  const trn_engine *engine;
  trn_engine_source *source;
  trn_engine_original *original;
};

/* Takes references of its own. NULL: no memory. */
trn_source *trn__embedded_source_create(const trn_engine *engine, trn_engine_source *source,
                                        trn_engine_original *original);
trn_source *trn__embedded_source_ref(void *self, trn_source *source);
void trn__embedded_source_release(void *source);

/* Gives an engine session of its own to the caller (release): sessions are cheap handles over a shared base. */
trn_status trn__embedded_engine_session(trn_embedded_session *session, trn_engine_session **out, trn_error **error);
/* Decorrelates, lowers; gives the engine's plan. `cancel`: NULL: it goes to its end. */
trn_status trn__embedded_lower(trn_embedded *backend, trn_engine_session *session, const trn_plan *plan,
                               const trn_cancel *cancel, trn_engine_plan **out, trn_error **error);
/* What the engine does on this thread ends soon once `cancel` is requested, until the next watch (NULL: it goes on). */
void trn__embedded_watch(const trn_embedded *backend, const trn_cancel *cancel);
/* After a failure: the status that is true. A cancelled call may have failed in any way. */
trn_status trn__embedded_why(trn_status status, const trn_cancel *cancel, trn_error **error);

/* A table of the program as the engine's source. Takes the table on success only. */
trn_status trn__embedded_open_table(trn_embedded *backend, trn_engine_session *session, const trn_table_provider *table,
                                    trn_engine_source **out, struct ArrowSchema *schema, trn_error **error);

/* Rows in a file of the caller's own (`is_own`), mapped. False: nothing was done, it is to be opened as any file. */
bool trn__embedded_open_mapped(trn_embedded *backend, trn_engine_session *session, const trn_source_request *request,
                               trn_engine_source **out, struct ArrowSchema *schema, trn_status *status, trn_error **error);

/* Files by their paths. */
trn_status trn__embedded_open_files(trn_embedded *backend, trn_engine_session *session,
                                    const trn_source_request *request, trn_engine_source **out,
                                    struct ArrowSchema *schema, trn_error **error);

/* Slots of the backend. */
trn_status trn__embedded_encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out,
                                trn_error **error);
trn_status trn__embedded_decode(void *self, void *state, const trn_plan_input *input, trn_plan **out,
                                trn_error **error);
trn_status trn__embedded_decode_statement(void *self, void *state, const trn_plan_input *input, trn_statement *out,
                                          trn_error **error);

#endif
