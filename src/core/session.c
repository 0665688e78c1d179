/* Sessions: identity, settings, and what the backend keeps for them. */
#include "core/core.h"

#include <pthread.h>
#include <trunnion/catalog.h>

#include "core/query.h"

/* The groups that a user had at a time. Never changed. One allocation: pointers, then texts. */
typedef struct group_set {
  struct group_set *older;
  size_t count;
  char *names[];
} group_set;

struct trn_session {
  atomic_size_t refs;
  trn_backend *backend;
  void *state; /* the backend's */
  char *id, *user, *client;
  _Atomic(group_set *) groups; /* of the last call; readers borrow it, so the others stay */
  group_set *all_groups;       /* newest first; guarded by mu */
  size_t set_count;
  bool is_authenticated;
  pthread_mutex_t mu;
  trn_map *settings; /* to text on the heap; guarded by mu */
  trn_vec guards; /* setting_guard; only grows while the session is opened */
  char *catalog, *database; /* where names are looked up; NULL: the default; guarded by mu */
  const char *view_dialect; /* fixed before others see the session */
  trn_view_planner view_planner;
  void *view_user;
  trn_catalog *transaction_catalog; /* with a reference, while there is a transaction; guarded by mu */
  void *transaction;
  bool is_sealed; /* with it, or without writes; guarded by mu */
};

typedef struct setting_guard {
  trn_setting_guard guard;
  void *user;
} setting_guard;

static void session_free(trn_session *session) {
  if (session->transaction) trn_catalog_release_transaction(session->transaction_catalog, session->transaction);
  trn_catalog_unref(session->transaction_catalog);
  for (size_t i = 0; i < session->guards.count; i++) free(session->guards.items[i]);
  trn__vec_finish(&session->guards);
  for (group_set *set = session->all_groups, *older; set; set = older) {
    older = set->older;
    free(set);
  }
  trn__map_destroy(session->settings, free);
  pthread_mutex_destroy(&session->mu);
  trn_backend_unref(session->backend);
  free(session->id);
  free(session->user);
  free(session->client);
  free(session->catalog);
  free(session->database);
  free(session);
}

static trn_session *session_create(trn_backend *backend, const trn_session_request *request) {
  trn_session *session = calloc(1, sizeof *session);
  if (!session) return NULL;
  char id[TRN_UUID_SIZE];
  if (!request->id) trn__uuid7(id);
  atomic_init(&session->refs, 1);
  pthread_mutex_init(&session->mu, NULL);
  session->backend = trn_backend_ref(backend);
  session->id = trn__text_copy(request->id ? request->id : id);
  session->user = trn__text_copy(request->user ? request->user : "");
  session->client = trn__text_copy(request->client ? request->client : "");
  session->settings = trn__map_create();
  session->is_authenticated = request->is_authenticated;
  bool ok = session->id && session->user && session->client && session->settings &&
            trn_session_set_groups(session, request->groups, request->group_count, NULL) == TRN_OK;
  for (size_t i = 0; i < request->setting_count && ok; i++)
    ok = trn_session_set(session, request->settings[i].key, request->settings[i].value) == TRN_OK;
  if (ok) return session;
  session_free(session);
  return NULL;
}

trn_status trn_session_open(trn_backend *backend, const trn_session_request *given, trn_session **out,
                            trn_error **error) {
  *out = NULL;
  trn_session_request request = {0};
  if (given) memcpy(&request, given, trn__struct_size(given->struct_size, sizeof request));
  for (size_t i = 0; i < request.setting_count; i++)
    if (!request.settings[i].key) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a setting has no key");
  trn_session *session = session_create(backend, &request);
  if (!session) return trn__no_memory(error);
  trn_status status = trn__backend_open(backend, session, &session->state, error);
  if (status) {
    session_free(session);
    return status;
  }
  *out = session;
  return TRN_OK;
}

trn_session *trn_session_ref(trn_session *session) {
  atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
  return session;
}

void trn_session_unref(trn_session *session) {
  if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) != 1) return;
  trn__backend_close(session->backend, session->state);
  session_free(session);
}

const char *trn_session_id(const trn_session *session) {
  return session->id;
}
const char *trn_session_user(const trn_session *session) {
  return session->user;
}
const char *trn__session_client(const trn_session *session) {
  return session->client;
}
size_t trn_session_groups(const trn_session *session, const char *const **groups) {
  const group_set *set = atomic_load_explicit(&session->groups, memory_order_acquire);
  *groups = set ? (const char *const *)set->names : NULL;
  return set ? set->count : 0;
}
bool trn_session_is_authenticated(const trn_session *session) {
  return session->is_authenticated;
}
trn_backend *trn_session_backend(const trn_session *session) {
  return session->backend;
}
void *trn_session_backend_state(const trn_session *session) {
  return session->state;
}

/* ---- groups ---- */

static bool set_is(const group_set *set, const char *const *groups, size_t count) {
  if ((set ? set->count : 0) != count) return false;
  for (size_t i = 0; i < count; i++)
    if (strcmp(set->names[i], groups[i]) != 0) return false;
  return true;
}

static group_set *set_create(const char *const *groups, size_t count) {
  size_t size = sizeof(group_set);
  for (size_t i = 0; i < count; i++) size += sizeof(char *) + strlen(groups[i]) + 1;
  group_set *set = malloc(size);
  if (!set) return NULL;
  *set = (group_set){.count = count};
  char *at = (char *)(set->names + count);
  for (size_t i = 0; i < count; i++) {
    set->names[i] = at;
    at = stpcpy(at, groups[i]) + 1;
  }
  return set;
}

/* A set that the session had before is taken again: two tokens of one user that take turns cost nothing. */
trn_status trn_session_set_groups(trn_session *session, const char *const *groups, size_t count, trn_error **error) {
  bool ok = true, is_full = false;
  pthread_mutex_lock(&session->mu);
  group_set *set = atomic_load_explicit(&session->groups, memory_order_relaxed);
  if (!set_is(set, groups, count)) {
    set = session->all_groups;
    while (set && !set_is(set, groups, count)) set = set->older;
    if (!set && count) {
      is_full = session->set_count >= TRN_SESSION_GROUP_SETS_MAX;
      set = is_full ? NULL : set_create(groups, count);
      ok = set != NULL;
      if (ok) {
        set->older = session->all_groups;
        session->all_groups = set;
        session->set_count++;
      }
    }
    if (ok) atomic_store_explicit(&session->groups, set, memory_order_release);
  }
  pthread_mutex_unlock(&session->mu);
  if (is_full)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The user's groups changed more often than one session may see (limit %u): begin a new one",
                         TRN_SESSION_GROUP_SETS_MAX);
  return ok ? TRN_OK : trn__no_memory(error);
}

/* ---- where names are looked up ---- */

trn_status trn__session_get_names(trn_session *session, char **catalog, char **database) {
  pthread_mutex_lock(&session->mu);
  *catalog = session->catalog ? trn__text_copy(session->catalog) : NULL;
  *database = trn__text_copy(session->database ? session->database : TRN_DEFAULT_DATABASE);
  bool ok = *database && (*catalog || !session->catalog);
  pthread_mutex_unlock(&session->mu);
  if (ok) return TRN_OK;
  free(*catalog), free(*database);
  *catalog = *database = NULL;
  return TRN_RESOURCE_EXHAUSTED;
}

trn_status trn_session_set_namespace(trn_session *session, const char *catalog, const char *database) {
  char *new_catalog = catalog ? trn__text_copy(catalog) : NULL, *new_database = database ? trn__text_copy(database) : NULL;
  bool ok = (new_catalog || !catalog) && (new_database || !database);
  pthread_mutex_lock(&session->mu);
  if (ok && new_catalog) {
    char *old = session->catalog;
    session->catalog = new_catalog;
    new_catalog = old;
  }
  if (ok && new_database) {
    char *old = session->database;
    session->database = new_database;
    new_database = old;
  }
  pthread_mutex_unlock(&session->mu);
  free(new_catalog), free(new_database);
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- views of other dialects ---- */

void trn__session_set_view_planner(trn_session *session, const char *dialect, trn_view_planner planner, void *user) {
  session->view_dialect = dialect;
  session->view_planner = planner;
  session->view_user = user;
}

trn_view_planner trn__session_view_planner(trn_session *session, const char *dialect, void **user) {
  *user = session->view_user;
  return session->view_planner && strcmp(session->view_dialect, dialect) == 0 ? session->view_planner : NULL;
}

/* ---- the transaction ---- */

bool trn__session_put_transaction(trn_session *session, trn_catalog *catalog, void *state) {
  pthread_mutex_lock(&session->mu);
  bool ok = !session->transaction;
  if (ok) {
    session->transaction_catalog = trn_catalog_ref(catalog);
    session->transaction = state;
  }
  pthread_mutex_unlock(&session->mu);
  return ok;
}

void *trn__session_look_at_transaction(trn_session *session, trn_catalog **catalog, bool *is_sealed) {
  pthread_mutex_lock(&session->mu);
  void *state = session->transaction;
  if (catalog) *catalog = state ? trn_catalog_ref(session->transaction_catalog) : NULL;
  *is_sealed = session->is_sealed;
  pthread_mutex_unlock(&session->mu);
  return state;
}

void *trn__session_get_transaction(trn_session *session, trn_catalog **catalog) {
  bool is_sealed;
  return trn__session_look_at_transaction(session, catalog, &is_sealed);
}

void trn__session_seal_transaction(trn_session *session, bool is_sealed) {
  pthread_mutex_lock(&session->mu);
  session->is_sealed = is_sealed;
  pthread_mutex_unlock(&session->mu);
}

void *trn__session_take_transaction(trn_session *session, trn_catalog **catalog) {
  pthread_mutex_lock(&session->mu);
  void *state = session->transaction;
  *catalog = session->transaction_catalog;
  session->transaction = NULL;
  session->transaction_catalog = NULL;
  pthread_mutex_unlock(&session->mu);
  return state;
}

/* ---- settings ---- */

char *trn_session_get(trn_session *session, const char *key) {
  pthread_mutex_lock(&session->mu);
  const char *value = trn__map_get(session->settings, key, strlen(key));
  char *copy = value ? trn__text_copy(value) : NULL;
  pthread_mutex_unlock(&session->mu);
  return copy;
}

trn_status trn_session_set(trn_session *session, const char *key, const char *value) {
  size_t size = strlen(key);
  char *copy = value ? trn__text_copy(value) : NULL;
  if (value && !copy) return TRN_RESOURCE_EXHAUSTED;
  void *old = NULL;
  trn_status status = TRN_OK;
  pthread_mutex_lock(&session->mu);
  if (!value) {
    old = trn__map_remove(session->settings, key, size);
  } else if ((trn__map_count(session->settings) >= TRN_SESSION_SETTINGS_MAX &&
              !trn__map_get(session->settings, key, size)) ||
             !trn__map_set(session->settings, key, size, copy, &old)) {
    old = copy;
    status = TRN_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_unlock(&session->mu);
  free(old);
  return status;
}

trn_status trn_session_each(trn_session *session, void (*each)(void *user, const char *key, const char *value),
                            void *user) {
  trn_strbuf texts = {0}; /* key NUL value NUL ...: nothing is held while calling out */
  const char *key;
  void *value;
  pthread_mutex_lock(&session->mu);
  for (size_t i = 0; trn__map_next(session->settings, &i, &key, &value);) {
    trn__strbuf_add(&texts, key, strlen(key) + 1);
    trn__strbuf_add(&texts, value, strlen(value) + 1);
  }
  pthread_mutex_unlock(&session->mu);
  trn_status status = texts.failed ? TRN_RESOURCE_EXHAUSTED : TRN_OK;
  for (size_t at = 0; status == TRN_OK && at < texts.size;) {
    const char *name = texts.data + at, *text = name + strlen(name) + 1;
    each(user, name, text);
    at = (size_t)(text - texts.data) + strlen(text) + 1;
  }
  trn__strbuf_finish(&texts);
  return status;
}

/* ---- settings, as clients see them ---- */

trn_status trn_session_guard_settings(trn_session *session, trn_setting_guard guard, void *user) {
  setting_guard *item = malloc(sizeof *item);
  if (!item) return TRN_RESOURCE_EXHAUSTED;
  *item = (setting_guard){guard, user};
  if (trn__vec_push(&session->guards, item)) return TRN_OK;
  free(item);
  return TRN_RESOURCE_EXHAUSTED;
}

trn_status trn_session_client_check(trn_session *session, const char *key, const char *value, trn_setting_use use,
                                    trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < session->guards.count && status == TRN_OK; i++) {
    const setting_guard *item = session->guards.items[i];
    status = item->guard(item->user, session, key, value, use, error);
  }
  return status;
}

trn_status trn_session_client_get(trn_session *session, const char *key, char **out, trn_error **error) {
  *out = NULL;
  trn_status status = trn_session_client_check(session, key, NULL, TRN_SETTING_GET, error);
  if (status == TRN_OK) *out = trn_session_get(session, key);
  return status;
}

trn_status trn_session_client_set(trn_session *session, const char *key, const char *value, trn_error **error) {
  trn_status status = trn_session_client_check(session, key, value, TRN_SETTING_SET, error);
  if (status) return status;
  status = trn_session_set(session, key, value);
  return status ? trn_error_set(error, status, NULL, "too many settings, or memory is out") : TRN_OK;
}

typedef struct guarded_each {
  trn_session *session;
  void (*each)(void *user, const char *key, const char *value);
  void *user;
} guarded_each;

static void each_guarded(void *user, const char *key, const char *value) {
  guarded_each *g = user;
  if (trn_session_client_check(g->session, key, NULL, TRN_SETTING_LIST, NULL) == TRN_OK) g->each(g->user, key, value);
}

trn_status trn_session_client_each(trn_session *session, void (*each)(void *user, const char *key, const char *value),
                                   void *user) {
  guarded_each g = {session, each, user};
  return trn_session_each(session, each_guarded, &g);
}
