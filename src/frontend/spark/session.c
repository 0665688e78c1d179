/* Spark sessions, keyed by user and the client's session id. */
#include <stdio.h>

#include "frontend/spark/plan_sql.h"
#include "frontend/spark/service.h"

enum { SESSION_CLOSED_MAX = 1000, SESSION_TEXT_MAX = 1024 };

spark_session *spark__session_ref(spark_session *session) {
  atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
  return session;
}

void spark__session_unref(spark_session *session) {
  if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) != 1) return;
  trn__map_destroy(session->executions, NULL); /* empty: executions hold references to their session */
  trn__map_destroy(session->storage, NULL);
  trn__map_destroy(session->views, free);
  for (size_t i = 0; i < SPARK_FAILURES_MAX; i++) spark__failure_unref(session->failures[i]);
  spark__catalog_destroy(session->catalog);
  trn_session_unref(session->session);
  pthread_mutex_destroy(&session->mutex);
  spark__service_unref(session->service);
  free(session->key);
  free(session->user);
  free(session);
}

static trn_status invalid_handle(trn_error **error, trn_status status, const char *condition, const char *handle) {
  return spark__raise(error, status, condition, "handle", handle, NULL, NULL, NULL, NULL);
}

/* ---- making ---- */

static trn_status open_backend_session(spark_session *session, const spark_rpc *rpc, const char *client,
                                       trn_error **error) {
  spark_service *service = session->service;
  const char *const *groups = NULL;
  size_t group_count = trn_call_groups(rpc->call, &groups);
  const trn_kv zone = {"spark.sql.session.timeZone", service->timezone};
  const trn_session_request request = {.struct_size = sizeof request,
                                       .user = session->user,
                                       .client = client ? client : "",
                                       .settings = &zone,
                                       .setting_count = service->timezone ? 1 : 0,
                                       .groups = groups,
                                       .group_count = group_count,
                                       .is_authenticated = trn_call_identity(rpc->call) != NULL};
  trn_status status = trn_session_open(service->backend, &request, &session->session, error);
  if (status) return status;
  session->server_id = trn_session_id(session->session);
  spark__plan_views(session->session, session->catalog);
  return status;
}

static trn_status session_create(const spark_rpc *rpc, const char *key, const char *user, const char *id,
                                 spark_session **out, trn_error **error) {
  spark_service *service = rpc->service;
  spark_session *session = calloc(1, sizeof *session);
  if (!session) return trn__no_memory(error);
  atomic_init(&session->refs, 1);
  pthread_mutex_init(&session->mutex, NULL);
  session->service = spark__service_ref(service);
  session->used_ns = trn__now_ns();
  session->key = strdup(key);
  session->user = strdup(user);
  memcpy(session->id, id, TRN_UUID_SIZE);
  session->executions = trn__map_create();
  session->storage = trn__map_create();
  session->views = trn__map_create();
  session->catalog = spark__catalog_create();
  trn_status status = TRN_OK;
  if (!session->key || !session->user || !session->executions || !session->storage || !session->views ||
      !session->catalog) {
    status = trn__no_memory(error);
  } else {
    status = open_backend_session(session, rpc, NULL, error);
  }
  if (status) {
    spark__session_unref(session);
  } else {
    *out = session;
  }
  return status;
}

/* Who the session belongs to: whom the transport authenticated, else what the client says. */
static const char *user_of(const spark_rpc *rpc, spark_session_key key) {
  const char *identity = trn_call_identity(rpc->call);
  return identity ? identity : key.user && key.user->user_id ? key.user->user_id : "";
}

static trn_status check_key(const spark_rpc *rpc, spark_session_key key, const char **user, trn_error **error) {
  if (!trn__uuid_is_valid(key.session_id))
    return invalid_handle(error, TRN_INVALID_ARGUMENT, "INVALID_HANDLE.FORMAT", key.session_id);
  *user = user_of(rpc, key);
  if (strlen(*user) > SESSION_TEXT_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The user id is longer than %d bytes", SESSION_TEXT_MAX);
  return TRN_OK;
}

/* Who was authenticated and who only says so are two, whatever they are called. NULL: no memory. */
static char *key_text(const spark_rpc *rpc, const char *user, const char *id) {
  return trn__arena_printf(rpc->arena, "%s\n%c%s", id, trn_call_identity(rpc->call) ? '=' : '?', user);
}

static trn_status make_key(const spark_rpc *rpc, const char *user, const char *id, char **out, trn_error **error) {
  *out = key_text(rpc, user, id);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* locks: service->mutex held. What the table has. SESSION_CLOSED; *out NULL: not there. */
static trn_status lookup(spark_service *service, const char *key, const char *id, spark_session **out,
                         trn_error **error) {
  *out = NULL;
  spark_session *session = trn__map_get(service->sessions, key, strlen(key));
  if (session) {
    *out = spark__session_ref(session);
    session->used_ns = trn__now_ns();
    return TRN_OK;
  }
  if (trn__map_get(service->closed, key, strlen(key)))
    return invalid_handle(error, TRN_FAILED_PRECONDITION, "INVALID_HANDLE.SESSION_CLOSED", id);
  return TRN_OK;
}

/* locks: none. Puts a new session into the table, unless somebody was faster: then gives theirs. */
static trn_status insert(spark_service *service, spark_session *session, spark_session **out, trn_error **error) {
  trn_status status = TRN_OK;
  pthread_mutex_lock(&service->mutex);
  spark_session *other = trn__map_get(service->sessions, session->key, strlen(session->key));
  if (other) {
    *out = spark__session_ref(other);
  } else if (service->gate.is_closed) {
    status = TRN_CANCELLED;
  } else if (trn__map_count(service->sessions) >= TRN_SESSIONS_MAX) {
    status = TRN_RESOURCE_EXHAUSTED;
  } else if (!trn__map_set(service->sessions, session->key, strlen(session->key), session, NULL)) {
    status = TRN_RESOURCE_EXHAUSTED;
  } else {
    spark__session_ref(session); /* the table's */
    *out = spark__session_ref(session);
  }
  pthread_mutex_unlock(&service->mutex);
  if (status)
    trn_error_set(error, status, NULL,
                  status == TRN_CANCELLED ? "The server is stopping" : "The server has too many sessions (limit %d)",
                  TRN_SESSIONS_MAX);
  return status;
}

/* A session lives longer than what its user may do: groups are those of who calls now. */
static trn_status take_groups(const spark_rpc *rpc, spark_session *session, trn_error **error) {
  const char *const *groups = NULL;
  size_t count = trn_call_groups(rpc->call, &groups);
  return trn_session_set_groups(session->session, groups, count, error);
}

trn_status spark__session_enter(spark_rpc *rpc, spark_session_key key, bool create, trn_error **error) {
  spark_service *service = rpc->service;
  spark_session *session = NULL;
  const char *user = NULL;
  char *text = NULL;
  trn_status status = check_key(rpc, key, &user, error);
  if (!status) status = make_key(rpc, user, key.session_id, &text, error);
  if (status) return status;
  pthread_mutex_lock(&service->mutex);
  status = lookup(service, text, key.session_id, &session, error);
  pthread_mutex_unlock(&service->mutex);
  if (session) status = take_groups(rpc, session, error);
  if (!status && !session && !create)
    status = invalid_handle(error, TRN_NOT_FOUND, "INVALID_HANDLE.SESSION_NOT_FOUND", key.session_id);
  if (!status && !session) {
    spark_session *made = NULL;
    status = session_create(rpc, text, user, key.session_id, &made, error);
    if (!status) {
      status = insert(service, made, &session, error);
      spark__session_unref(made);
      if (!status) spark__service_need_session_timer(service);
    }
  }
  if (status) {
    spark__session_unref(session);
    return status;
  }
  rpc->session = session; /* from here on errors are kept there */
  if (key.observed && *key.observed && strcmp(key.observed, session->server_id) != 0)
    return invalid_handle(error, TRN_FAILED_PRECONDITION, "INVALID_HANDLE.SESSION_CHANGED", key.session_id);
  return TRN_OK;
}

/* ---- cloning ---- */

typedef struct clone_settings {
  trn_session *to;
  trn_status status;
} clone_settings;

static void clone_setting(void *user, const char *key, const char *value) {
  clone_settings *clone = user;
  if (!clone->status) clone->status = trn_session_set(clone->to, key, value);
}

trn_status spark__session_clone(spark_rpc *rpc, const char *new_id, spark_session **out, trn_error **error) {
  spark_session *from = rpc->session, *made = NULL;
  spark_service *service = rpc->service;
  char *key;
  spark_session *taken = NULL;
  trn_status status = make_key(rpc, from->user, new_id, &key, error);
  if (status) return status;
  pthread_mutex_lock(&service->mutex);
  status = lookup(service, key, new_id, &taken, error);
  pthread_mutex_unlock(&service->mutex);
  if (!status && taken)
    status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The session %s exists already", new_id);
  spark__session_unref(taken);
  if (!status) status = session_create(rpc, key, from->user, new_id, &made, error);
  if (status) return status;
  clone_settings clone = {made->session, TRN_OK};
  status = trn_session_each(from->session, clone_setting, &clone);
  if (!status) status = clone.status;
  if (status) trn_error_set(error, status, NULL, "The settings of the session cannot be copied");
  if (!status) status = spark__session_copy_views(from, made, error);
  if (!status) status = insert(service, made, out, error);
  spark__session_unref(made);
  return status;
}

/* ---- closing ---- */

/* locks: service->mutex held. Memory may fail: then the session merely counts as unknown. */
static void remember_closed(spark_service *service, const char *key) {
  while (trn__map_count(service->closed) >= SESSION_CLOSED_MAX) {
    const char *oldest;
    void *value;
    size_t index = 0;
    if (!trn__map_next(service->closed, &index, &oldest, &value)) break;
    trn__map_remove(service->closed, oldest, strlen(oldest));
  }
  trn__map_set(service->closed, key, strlen(key), service, NULL);
}

/* locks: none. Gives the table's reference, or NULL. */
static spark_session *take_out(spark_service *service, const char *key, bool forget) {
  pthread_mutex_lock(&service->mutex);
  spark_session *session = trn__map_remove(service->sessions, key, strlen(key));
  if (session && !forget) remember_closed(service, key);
  pthread_mutex_unlock(&service->mutex);
  return session;
}

void spark__session_close(spark_rpc *rpc, spark_session_key key, bool forget, spark_session **out) {
  *out = NULL;
  char *text = key_text(rpc, user_of(rpc, key), key.session_id);
  if (!text) return;
  *out = take_out(rpc->service, text, forget);
  if (*out) spark__session_shut(*out);
}

void spark__session_shut(spark_session *session) {
  pthread_mutex_lock(&session->mutex);
  session->is_closed = true;
  pthread_mutex_unlock(&session->mutex);
  for (;;) {
    spark_execution *execution = NULL;
    const char *key;
    void *value;
    size_t index = 0;
    pthread_mutex_lock(&session->mutex);
    if (trn__map_next(session->executions, &index, &key, &value)) execution = spark__execution_ref(value);
    pthread_mutex_unlock(&session->mutex);
    if (!execution) return;
    spark__execution_interrupt(execution);
    spark__session_remove_execution(session, execution);
    spark__execution_unref(execution);
  }
}

void spark__service_sweep_sessions(spark_service *service) {
  int64_t now = trn__now_ns(), idle = (int64_t)service->session_idle_ms * 1000000;
  trn_vec old = {0};
  pthread_mutex_lock(&service->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(service->sessions, &i, &key, &value);) {
    spark_session *session = value;
    pthread_mutex_lock(&session->mutex);
    bool busy = trn__map_count(session->executions) > 0;
    pthread_mutex_unlock(&session->mutex);
    if (busy) session->used_ns = now;
    if (now - session->used_ns >= idle && trn__vec_push(&old, session)) spark__session_ref(session);
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < old.count; i++) {
    spark_session *session = old.items[i], *taken = take_out(service, session->key, false);
    if (taken) spark__session_shut(taken);
    spark__session_unref(taken);
    spark__session_unref(session);
  }
  trn__vec_finish(&old);
}

bool spark__service_sweep_executions(spark_service *service) {
  trn_vec sessions = {0};
  bool any = false;
  pthread_mutex_lock(&service->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(service->sessions, &i, &key, &value);)
    if (trn__vec_push(&sessions, value)) spark__session_ref(value);
  pthread_mutex_unlock(&service->mutex);
  int64_t now = trn__now_ns();
  for (size_t i = 0; i < sessions.count; i++) {
    trn_vec executions = {0};
    spark__session_executions(sessions.items[i], &executions);
    for (size_t j = 0; j < executions.count; j++) {
      any = true;
      spark__execution_tick(executions.items[j], now);
      spark__execution_unref(executions.items[j]);
    }
    trn__vec_finish(&executions);
    spark__session_unref(sessions.items[i]);
  }
  trn__vec_finish(&sessions);
  return any;
}

/* ---- executions of a session ---- */

spark_execution *spark__session_execution(spark_session *session, const char *id) {
  pthread_mutex_lock(&session->mutex);
  spark_execution *execution = trn__map_get(session->executions, id, strlen(id));
  if (execution) spark__execution_ref(execution);
  pthread_mutex_unlock(&session->mutex);
  return execution;
}

bool spark__session_executions(spark_session *session, trn_vec *out) {
  bool complete = true;
  pthread_mutex_lock(&session->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(session->executions, &i, &key, &value);) {
    if (trn__vec_push(out, value)) {
      spark__execution_ref(value);
    } else {
      complete = false;
    }
  }
  pthread_mutex_unlock(&session->mutex);
  return complete;
}

/* A client that never releases: its oldest execution that is over and that nobody reads makes room. */
static void make_room(spark_session *session) {
  spark_execution *oldest = NULL;
  trn_vec executions = {0};
  pthread_mutex_lock(&session->mutex);
  bool full = trn__map_count(session->executions) >= TRN_OPERATIONS_PER_SESSION_MAX;
  pthread_mutex_unlock(&session->mutex);
  if (!full) return;
  spark__session_executions(session, &executions);
  for (size_t i = 0; i < executions.count; i++) {
    spark_execution *execution = executions.items[i];
    pthread_mutex_lock(&execution->mutex);
    bool unread = execution->state >= SPARK_RUN_SUCCEEDED && !execution->consumer;
    pthread_mutex_unlock(&execution->mutex);
    if (unread && !oldest) oldest = spark__execution_ref(execution);
    spark__execution_unref(execution);
  }
  trn__vec_finish(&executions);
  if (oldest) spark__session_remove_execution(session, oldest);
  spark__execution_unref(oldest);
}

trn_status spark__session_add_execution(spark_session *session, spark_execution *execution, trn_error **error) {
  /* A finished one with the same id makes room: Spark runs a used id again. */
  spark_execution *old = spark__session_execution(session, execution->id);
  if (old) {
    bool over = spark__execution_is_over(old);
    if (over) spark__session_remove_execution(session, old);
    spark__execution_unref(old);
    if (!over)
      return invalid_handle(error, TRN_ALREADY_EXISTS, "INVALID_HANDLE.OPERATION_ALREADY_EXISTS", execution->id);
  }
  make_room(session);
  trn_status status = TRN_OK;
  const char *condition = NULL;
  pthread_mutex_lock(&session->mutex);
  if (session->is_closed) {
    status = TRN_FAILED_PRECONDITION;
    condition = "INVALID_HANDLE.SESSION_CLOSED";
  } else if (trn__map_get(session->executions, execution->id, strlen(execution->id))) {
    status = TRN_ALREADY_EXISTS;
    condition = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS";
  } else if (trn__map_count(session->executions) >= TRN_OPERATIONS_PER_SESSION_MAX ||
             !trn__map_set(session->executions, execution->id, strlen(execution->id), execution, NULL)) {
    status = TRN_RESOURCE_EXHAUSTED;
  } else {
    spark__execution_ref(execution);
  }
  pthread_mutex_unlock(&session->mutex);
  if (condition)
    return invalid_handle(error, status, condition, status == TRN_ALREADY_EXISTS ? execution->id : session->id);
  if (status)
    return trn_error_set(error, status, NULL, "The session has too many operations (limit %d)",
                         TRN_OPERATIONS_PER_SESSION_MAX);
  spark__service_need_execution_timer(session->service);
  return TRN_OK;
}

static uint8_t finished_state(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  spark_run_state state = execution->state;
  pthread_mutex_unlock(&execution->mutex);
  return state == SPARK_RUN_SUCCEEDED ? 4 : state == SPARK_RUN_FAILED ? 5 : 6; /* OperationState */
}

void spark__session_remove_execution(spark_session *session, spark_execution *execution) {
  uint8_t state = finished_state(execution);
  pthread_mutex_lock(&session->mutex);
  bool there = trn__map_get(session->executions, execution->id, strlen(execution->id)) == execution;
  if (there) {
    trn__map_remove(session->executions, execution->id, strlen(execution->id));
    spark_finished *slot = &session->finished[session->finished_next++ % SPARK_FINISHED_MAX];
    memcpy(slot->id, execution->id, TRN_UUID_SIZE);
    slot->state = state;
  }
  pthread_mutex_unlock(&session->mutex);
  if (there) spark__execution_unref(execution);
}

/* ---- errors, for FetchErrorDetails ---- */

void spark__session_keep_failure(spark_session *session, spark_failure *failure) {
  pthread_mutex_lock(&session->mutex);
  spark_failure **slot = &session->failures[session->failure_next++ % SPARK_FAILURES_MAX];
  spark_failure *old = *slot;
  *slot = spark__failure_ref(failure);
  pthread_mutex_unlock(&session->mutex);
  spark__failure_unref(old);
}

spark_failure *spark__session_failure(spark_session *session, const char *error_id) {
  spark_failure *found = NULL;
  pthread_mutex_lock(&session->mutex);
  for (size_t i = 0; i < SPARK_FAILURES_MAX && !found; i++)
    if (session->failures[i] && strcmp(session->failures[i]->error_id, error_id) == 0)
      found = spark__failure_ref(session->failures[i]);
  pthread_mutex_unlock(&session->mutex);
  return found;
}
