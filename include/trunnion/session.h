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
  const char *const *groups; /**< of the authenticated user; copied */
  size_t group_count;
  bool is_authenticated; /**< `user` is what an authenticator or the host says, not only what the client claims */
} trn_session_request;

/** Opens a session on `backend` (a reference is taken). Copies the request. Threads: any. Blocks: no. Since 0.1. */
TRN_API trn_status trn_session_open(trn_backend *backend, const trn_session_request *request, trn_session **out,
                                    trn_error **error);
TRN_API trn_session *trn_session_ref(trn_session *session);
TRN_API void trn_session_unref(trn_session *session);
TRN_API const char *trn_session_id(const trn_session *session);
TRN_API const char *trn_session_user(const trn_session *session);
/** The count; borrowed, as long as the session, also when the groups change meanwhile. */
TRN_API size_t trn_session_groups(const trn_session *session, const char *const **groups);
/** What an authenticator or the host says now of the session's user: frontends do this with every call that enters it. What
 *  runs already is not judged again. Copies. Threads: any. Blocks: no. Errors: RESOURCE_EXHAUSTED, also when one session
 *  had too many different sets of groups. Since 0.1. */
TRN_API trn_status trn_session_set_groups(trn_session *session, const char *const *groups, size_t count,
                                          trn_error **error);
TRN_API bool trn_session_is_authenticated(const trn_session *session);
TRN_API trn_backend *trn_session_backend(const trn_session *session);
/** What the backend's open_session gave. */
TRN_API void *trn_session_backend_state(const trn_session *session);

/** Settings: text to text. `get` copies into a new string (trn_free), NULL when unset. `set` with NULL unsets. Threads: any. */
TRN_API char *trn_session_get(trn_session *session, const char *key);
TRN_API trn_status trn_session_set(trn_session *session, const char *key, const char *value);
/** Calls `each` for a snapshot of the explicitly set keys, in order of first setting. */
TRN_API trn_status trn_session_each(trn_session *session, void (*each)(void *user, const char *key, const char *value),
                                    void *user);

/* What clients ask for goes through the guards that layers set; the functions above are for the server's own code. */
typedef enum trn_setting_use { TRN_SETTING_GET = 0, TRN_SETTING_SET, TRN_SETTING_LIST } trn_setting_use;
/** May a client do that with the key? `value`: what it sets (NULL: unsets). OK, or PERMISSION_DENIED. Any thread. */
typedef trn_status (*trn_setting_guard)(void *user, trn_session *session, const char *key, const char *value,
                                        trn_setting_use use, trn_error **error);
/** For open_session of backends and layers: every guard must agree. `user` outlives the session. RESOURCE_EXHAUSTED. */
TRN_API trn_status trn_session_guard_settings(trn_session *session, trn_setting_guard guard, void *user);
TRN_API trn_status trn_session_client_check(trn_session *session, const char *key, const char *value,
                                            trn_setting_use use, trn_error **error);
/** Gives `*out` (trn_free; NULL: unset). */
TRN_API trn_status trn_session_client_get(trn_session *session, const char *key, char **out, trn_error **error);
TRN_API trn_status trn_session_client_set(trn_session *session, const char *key, const char *value, trn_error **error);
/** As trn_session_each, without what the client may not list. */
TRN_API trn_status trn_session_client_each(trn_session *session,
                                           void (*each)(void *user, const char *key, const char *value), void *user);

#ifdef __cplusplus
}
#endif
#endif
