/* A client's session with a backend: settings, temporary views. One session may be reached by several protocols. */
#ifndef TRUNNION_SESSION_H
#define TRUNNION_SESSION_H
#include <trunnion/error.h>
#include <trunnion/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_session trn_session;
typedef struct trn_backend trn_backend;

typedef struct trn_session_request {
  size_t struct_size;
  const char *id;     /**< NULL: a new UUIDv7 */
  const char *user;   /**< "" when unknown */
  const char *client; /**< the client's own description, for logs */
  const trn_kv *settings;
  size_t setting_count;
} trn_session_request;

/** Opens a session on `backend` (a reference is taken). Copies the request. Threads: any. Blocks: no. Since 0.1. */
TRN_API trn_status trn_session_open(trn_backend *backend, const trn_session_request *request, trn_session **out,
                                    trn_error **error);
TRN_API trn_session *trn_session_ref(trn_session *session);
TRN_API void trn_session_unref(trn_session *session);
TRN_API const char *trn_session_id(const trn_session *session);
TRN_API const char *trn_session_user(const trn_session *session);
TRN_API trn_backend *trn_session_backend(const trn_session *session);
/** What the backend's open_session gave. */
TRN_API void *trn_session_backend_state(const trn_session *session);

/** Settings: text to text. `get` copies into a new string (trn_free), NULL when unset. `set` with NULL unsets. Threads: any. */
TRN_API char *trn_session_get(trn_session *session, const char *key);
TRN_API trn_status trn_session_set(trn_session *session, const char *key, const char *value);
/** Calls `each` for a snapshot of the explicitly set keys, in order of first setting. */
TRN_API trn_status trn_session_each(trn_session *session, void (*each)(void *user, const char *key, const char *value),
                                    void *user);

#ifdef __cplusplus
}
#endif
#endif
