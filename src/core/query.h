/* What the objects of the query API share among themselves. Internal. */
#ifndef TRN_CORE_QUERY_H
#define TRN_CORE_QUERY_H
#include "core/core.h"
#include <trunnion/backend.h>
#include <trunnion/catalog.h>

/* How much of a caller's struct is read: what it knows of what we know. */
static inline size_t trn__struct_size(size_t given, size_t known) { return given < known ? given : known; }

trn_status trn__backend_open(trn_backend *backend, trn_session *session, void **state, trn_error **error);
void trn__backend_close(trn_backend *backend, void *state);

const char *trn__session_client(const trn_session *session);

/* ---- catalogs: src/catalog asks ---- */
/* False: the backend has no slot of its own; then its list counts. */
/* Gives copies; `*catalog` NULL: the default one. */
trn_status trn__session_get_names(trn_session *session, char **catalog, char **database);
/* Who plans views of a dialect that the session's backend does not decode; set by frontends when they open the session, which
 * `user` outlives. `dialect` is not copied. `depth`: of views inside of each other, in whatever dialect. */
typedef trn_status (*trn_view_planner)(void *user, trn_session *session, const trn_table_info *view, unsigned depth,
                                       trn_plan **out, trn_error **error);
void trn__session_set_view_planner(trn_session *session, const char *dialect, trn_view_planner planner, void *user);
/* NULL: the backend decodes it. */
trn_view_planner trn__session_view_planner(trn_session *session, const char *dialect, void **user);
/* The one transaction of a session: its catalog's state. `put` takes a reference to the catalog; false: there is one. `get` and
 * `take` give the state (NULL: none) and, unless `catalog` is NULL, a reference. */
bool trn__session_put_transaction(trn_session *session, trn_catalog *catalog, void *state);
void *trn__session_get_transaction(trn_session *session, trn_catalog **catalog);
void *trn__session_take_transaction(trn_session *session, trn_catalog **catalog);
/* A session that is one transaction: from here on what writes without it is refused, for it would be committed outside of it. */
void trn__session_seal_transaction(trn_session *session, bool is_sealed);
/* As get; both at one time. */
void *trn__session_look_at_transaction(trn_session *session, trn_catalog **catalog, bool *is_sealed);
bool trn__backend_has_catalogs(const trn_backend *backend);
trn_status trn__backend_catalog(trn_backend *backend, void *state, const char *name, trn_catalog **out,
                                trn_error **error);
trn_status trn__backend_list_catalogs(trn_backend *backend, void *state, void (*each)(void *user, const char *name),
                                      void *user, trn_error **error);
/* Falls back on `decode` where the backend has no slot for statements. */
trn_status trn__backend_decode_statement(trn_backend *backend, void *state, const trn_plan_input *input,
                                         trn_statement *out, trn_error **error);
/* Slot or list, whichever the backend has (src/catalog/session.c); `state`: the backend's session. */
trn_status trn__backend_get_catalog(trn_backend *backend, void *state, const char *name, trn_catalog **out,
                                    trn_error **error);
trn_status trn__backend_each_catalog(trn_backend *backend, void *state, void (*each)(void *user, const char *name),
                                     void *user, trn_error **error);
/* The list that programs add to; `name` NULL: the first. A reference, or NULL. */
trn_catalog *trn__backend_added_catalog(trn_backend *backend, const char *name, size_t *index);
/* Adds at the end, a reference is taken. ALREADY_EXISTS. `only_first`: unless there is one. */
trn_status trn__backend_add_catalog(trn_backend *backend, trn_catalog *catalog, bool only_first);

/* The full-size table, for layers: every slot is there but catalog and list_catalogs. */
const trn_backend_ops *trn__backend_ops(const trn_backend *backend, void **self);

/* What turns from 0 to 1 when it is requested: for code that knows nothing of C11's atomics. NULL for NULL. */
const uint32_t *trn__cancel_flag(const trn_cancel *cancel);
trn_status trn__cancelled(trn_error **error);

/* Makes `arena` hold a reference to `source` (takes one of its own) and to the backend. */
trn_status trn__source_hold(trn_arena *arena, trn_backend *backend, trn_source *source);

/* A digest of what local paths hold now: names, sizes, times. False: it cannot be known (URLs, too many files). */
bool trn__paths_version(const char *const *paths, size_t count, uint8_t out[16], uint64_t *files, uint64_t *bytes);

#endif
