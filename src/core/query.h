/* What the objects of the query API share among themselves. Internal. */
#ifndef TRN_CORE_QUERY_H
#define TRN_CORE_QUERY_H
#include "core/core.h"
#include <trunnion/backend.h>

/* How much of a caller's struct is read: what it knows of what we know. */
static inline size_t trn__struct_size(size_t given, size_t known) { return given < known ? given : known; }

trn_status trn__backend_open(trn_backend *backend, trn_session *session, void **state, trn_error **error);
void trn__backend_close(trn_backend *backend, void *state);

const char *trn__session_client(const trn_session *session);

/* Makes `arena` hold a reference to `source` (takes one of its own) and to the backend. */
trn_status trn__source_hold(trn_arena *arena, trn_backend *backend, trn_source *source);

#endif
