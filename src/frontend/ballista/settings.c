/* Settings. A Ballista client sends all that it has with every query, defaults and secrets included; what counts here
 * is a list. Values are handed on and never written anywhere. */
#include "frontend/ballista/ballista.h"

typedef Ballista__Protobuf__KeyValuePair pair_message;

/* The engine's settings that say what a query means, or how much is done at a time. All others are about how a client
 * or a cluster plans. `unless`: the client's default, which says nothing. */
static const struct counted {
  const char *key, *unless;
} counted[] = {
    {"datafusion.execution.time_zone", NULL},
    {"datafusion.execution.enable_ansi_mode", NULL},
    {"datafusion.execution.keep_partition_by_columns", NULL},
    {"datafusion.execution.listing_table_ignore_subdirectory", NULL},
    {"datafusion.execution.batch_size", "8192"},
    {"datafusion.execution.target_partitions", "16"},
};

static bool is_counted(const char *key, const char *value) {
  if (strncmp(key, "ballista.", 9) == 0) return true;
  for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
    if (strcmp(counted[i].key, key) == 0) return !counted[i].unless || strcmp(counted[i].unless, value) != 0;
  return false;
}

/* NULL: the setting is none, or does not count. */
static const char *value_of(const pair_message *pair) {
  if (pair->has_value_case != BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE) return NULL;
  return is_counted(pair->key, pair->value) ? pair->value : NULL;
}

const char *ballista__job_name(const Ballista__Protobuf__ExecuteQueryParams *params) {
  const char *name = "";
  for (size_t i = 0; i < params->n_settings; i++)
    if (strcmp(params->settings[i]->key, "ballista.job.name") == 0 && value_of(params->settings[i]))
      name = params->settings[i]->value;
  return name;
}

/* ---- what clients keep ---- */

void ballista__settings_destroy(void *argument) {
  ballista_settings *settings = argument;
  if (!settings) return;
  for (size_t i = 0; i < settings->count; i++)
    free((char *)settings->items[i].key), free((char *)settings->items[i].value);
  free(settings->items);
  free(settings);
}

static ballista_settings *settings_create(pair_message *const *pairs, size_t count) {
  ballista_settings *settings = calloc(1, sizeof *settings);
  if (settings) settings->items = calloc(count + 1, sizeof *settings->items);
  bool good = settings && settings->items;
  for (size_t i = 0; i < count && good; i++) {
    const char *value = value_of(pairs[i]);
    if (!value) continue;
    trn_kv *item = &settings->items[settings->count++];
    *item = (trn_kv){strdup(pairs[i]->key), strdup(value)};
    good = item->key && item->value;
    settings->bytes += strlen(pairs[i]->key) + strlen(value);
  }
  if (good) return settings;
  ballista__settings_destroy(settings);
  return NULL;
}

/* A user's sessions are apart from everybody else's. */
static char *session_key(ballista_rpc *rpc, const char *id) {
  bool is_authenticated;
  const char *user = ballista__rpc_user(rpc, &is_authenticated);
  return trn__arena_printf(rpc->arena, "%d%s\n%s", is_authenticated, user, id);
}

trn_status ballista__handle_update_session(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const Ballista__Protobuf__CreateUpdateSessionParams *params = (void *)request;
  ballista_service *service = rpc->service;
  char id[TRN_UUID_SIZE];
  Ballista__Protobuf__CreateUpdateSessionResult result = BALLISTA__PROTOBUF__CREATE_UPDATE_SESSION_RESULT__INIT;
  trn__uuid4(id);
  result.session_id = *params->session_id ? params->session_id : id;
  ballista_settings *settings = settings_create(params->settings, params->n_settings);
  char *key = session_key(rpc, result.session_id);
  void *old = NULL;
  bool full = false, is_large = settings && settings->bytes > TRN_BALLISTA_SETTINGS_BYTES_MAX,
       good = settings && key && !is_large;
  if (good) {
    settings->used_ns = trn__now_ns();
    pthread_mutex_lock(&service->mutex);
    full = trn__map_count(service->sessions) >= TRN_BALLISTA_SESSIONS_MAX &&
           !trn__map_get(service->sessions, key, strlen(key));
    good = !full && trn__map_set(service->sessions, key, strlen(key), settings, &old);
    pthread_mutex_unlock(&service->mutex);
  }
  ballista__settings_destroy(good ? old : settings);
  if (is_large)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The session's settings are too long (limit TRN_BALLISTA_SETTINGS_BYTES_MAX)");
  if (full)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The server keeps too many sessions (limit TRN_BALLISTA_SESSIONS_MAX)");
  if (!good) return trn__no_memory(error);
  ballista__need_timer(service);
  return ballista__rpc_reply(rpc, &result.base, error);
}

trn_status ballista__handle_remove_session(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const Ballista__Protobuf__RemoveSessionParams *params = (void *)request;
  Ballista__Protobuf__RemoveSessionResult result = BALLISTA__PROTOBUF__REMOVE_SESSION_RESULT__INIT;
  char *key = session_key(rpc, params->session_id);
  if (!key) return trn__no_memory(error);
  pthread_mutex_lock(&rpc->service->mutex);
  ballista_settings *old = trn__map_remove(rpc->service->sessions, key, strlen(key));
  pthread_mutex_unlock(&rpc->service->mutex);
  result.success = old != NULL;
  ballista__settings_destroy(old);
  return ballista__rpc_reply(rpc, &result.base, error);
}

void ballista__sweep_sessions(ballista_service *service, int64_t now_ns) {
  trn_vec old = {0};
  const char *key;
  void *value;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; trn__map_next(service->sessions, &i, &key, &value);) {
    const ballista_settings *settings = value;
    if (now_ns - settings->used_ns < (int64_t)service->session_idle_ms * 1000000) continue;
    char *copy = strdup(key);
    if (copy && !trn__vec_push(&old, copy)) free(copy);
  }
  for (size_t i = 0; i < old.count; i++) {
    char *name = old.items[i];
    old.items[i] = trn__map_remove(service->sessions, name, strlen(name));
    free(name);
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < old.count; i++) ballista__settings_destroy(old.items[i]);
  trn__vec_finish(&old);
}

/* ---- a job's session ---- */

/* What a policy does not let a client set is not set: a client sends it whether its user cares or not. */
static trn_status set(trn_session *session, const char *key, const char *value, trn_error **error) {
  trn_error *own = NULL;
  trn_status status = trn_session_client_set(session, key, value, &own);
  if (status && status != TRN_PERMISSION_DENIED && error) {
    *error = own;
    return status;
  }
  trn_error_unref(own);
  return status == TRN_PERMISSION_DENIED ? TRN_OK : status;
}

/* A copy in the arena of what the client keeps. */
static trn_status kept_settings(ballista_rpc *rpc, const char *id, trn_kv **out, size_t *count, trn_error **error) {
  ballista_service *service = rpc->service;
  char *key = session_key(rpc, id);
  bool good = key != NULL;
  *out = NULL;
  *count = 0;
  if (!good) return trn__no_memory(error);
  pthread_mutex_lock(&service->mutex);
  ballista_settings *settings = trn__map_get(service->sessions, key, strlen(key));
  if (settings) {
    settings->used_ns = trn__now_ns();
    *out = TRN_NEW_N(rpc->arena, trn_kv, settings->count + 1);
    good = *out != NULL;
    for (size_t i = 0; i < settings->count && good; i++) {
      (*out)[i] = (trn_kv){trn__arena_strdup(rpc->arena, settings->items[i].key),
                           trn__arena_strdup(rpc->arena, settings->items[i].value)};
      good = (*out)[i].key && (*out)[i].value;
    }
    *count = settings->count;
  }
  pthread_mutex_unlock(&service->mutex);
  return good ? TRN_OK : trn__no_memory(error);
}

trn_status ballista__session_open(ballista_rpc *rpc, const Ballista__Protobuf__ExecuteQueryParams *params,
                                  trn_session **out, trn_error **error) {
  trn_session *session = NULL;
  trn_kv *kept;
  size_t kept_count;
  const char *const *groups = NULL;
  bool is_authenticated;
  const char *user = ballista__rpc_user(rpc, &is_authenticated);
  const trn_session_request request = {.struct_size = sizeof request,
                                       .user = user,
                                       .client = "Ballista",
                                       .group_count = trn_call_groups(rpc->call, &groups),
                                       .groups = groups,
                                       .is_authenticated = is_authenticated};
  *out = NULL;
  trn_status status = kept_settings(rpc, params->session_id, &kept, &kept_count, error);
  if (!status) status = trn_session_open(rpc->service->backend, &request, &session, error);
  for (size_t i = 0; i < kept_count && !status; i++) status = set(session, kept[i].key, kept[i].value, error);
  for (size_t i = 0; i < params->n_settings && !status; i++) {
    const char *value = value_of(params->settings[i]);
    if (value) status = set(session, params->settings[i]->key, value, error);
  }
  if (status) {
    trn_session_unref(session);
    return status;
  }
  *out = session;
  return TRN_OK;
}
