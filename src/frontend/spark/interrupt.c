/* The small RPCs about sessions and operations: Interrupt, GetStatus, ReleaseSession, CloneSession, FetchErrorDetails,
 * ArtifactStatus. */
#include "frontend/spark/service.h"

/* ---- Interrupt ---- */

static bool has_tag(const spark_execution *execution, const char *tag) {
  for (size_t i = 0; i < execution->tag_count; i++)
    if (strcmp(execution->tags[i], tag) == 0) return true;
  return false;
}

/* What to match: everything, a tag, or an id. */
static trn_status interrupt_target(const Spark__Connect__InterruptRequest *request, const char **tag, const char **id,
                                   trn_error **error) {
  *tag = *id = NULL;
  switch (request->interrupt_type) {
  case SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_ALL: return TRN_OK;
  case SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_TAG:
    if (request->interrupt_case == SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_OPERATION_TAG)
      *tag = request->operation_tag;
    if (*tag && **tag) return TRN_OK;
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "INTERRUPT_TYPE_TAG requested, but no operation_tag provided.");
  case SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_TYPE__INTERRUPT_TYPE_OPERATION_ID:
    if (request->interrupt_case == SPARK__CONNECT__INTERRUPT_REQUEST__INTERRUPT_OPERATION_ID)
      *id = request->operation_id;
    if (*id && **id) return TRN_OK;
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "INTERRUPT_TYPE_OPERATION_ID requested, but no operation_id provided.");
  default:
    return spark__raise(error, TRN_UNIMPLEMENTED, "UNSUPPORTED_FEATURE.INTERRUPT_TYPE", "interruptType",
                        "INTERRUPT_TYPE_UNSPECIFIED", NULL, NULL, NULL, NULL);
  }
}

trn_status spark__handle_interrupt(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__InterruptRequest *request = (const Spark__Connect__InterruptRequest *)message;
  const char *tag, *id;
  trn_vec executions = {0};
  Spark__Connect__InterruptResponse reply = SPARK__CONNECT__INTERRUPT_RESPONSE__INIT;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), true, error);
  if (!status) status = interrupt_target(request, &tag, &id, error);
  if (status) return status;
  bool complete = spark__session_executions(rpc->session, &executions);
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  reply.interrupted_ids = TRN_NEW_N(rpc->arena, char *, executions.count);
  if (!complete || !reply.interrupted_ids) status = trn__no_memory(error);
  for (size_t i = 0; i < executions.count; i++) {
    spark_execution *execution = executions.items[i];
    bool match = (!tag || has_tag(execution, tag)) && (!id || strcmp(execution->id, id) == 0);
    if (!status && match && spark__execution_interrupt(execution)) {
      char *copy = trn__arena_strdup(rpc->arena, execution->id);
      if (copy) reply.interrupted_ids[reply.n_interrupted_ids++] = copy;
    }
    spark__execution_unref(execution);
  }
  trn__vec_finish(&executions);
  return status ? status : spark__rpc_reply(rpc, &reply.base, error);
}

/* ---- GetStatus ---- */

typedef Spark__Connect__GetStatusResponse__OperationStatus operation_status;

static operation_status *make_status(trn_arena *arena, const char *id, int state) {
  operation_status *status = TRN_NEW(arena, operation_status);
  if (!status) return NULL;
  spark__connect__get_status_response__operation_status__init(status);
  status->operation_id = trn__arena_strdup(arena, id);
  status->state = state;
  return status->operation_id ? status : NULL;
}

static int state_of(spark_execution *execution) {
  enum { RUNNING = 2, TERMINATING = 3, SUCCEEDED = 4, FAILED = 5, CANCELLED = 6 };
  pthread_mutex_lock(&execution->mutex);
  int state = execution->state == SPARK_RUN_SUCCEEDED   ? SUCCEEDED
              : execution->state == SPARK_RUN_FAILED    ? FAILED
              : execution->state == SPARK_RUN_CANCELLED ? CANCELLED
              : execution->cancel_requested             ? TERMINATING
                                                        : RUNNING;
  pthread_mutex_unlock(&execution->mutex);
  return state;
}

static bool is_asked(const Spark__Connect__GetStatusRequest__OperationStatusRequest *ask, const char *id) {
  if (!ask->n_operation_ids) return true;
  for (size_t i = 0; i < ask->n_operation_ids; i++)
    if (strcmp(ask->operation_ids[i], id) == 0) return true;
  return false;
}

static trn_status collect_statuses(spark_rpc *rpc, const Spark__Connect__GetStatusRequest__OperationStatusRequest *ask,
                                   Spark__Connect__GetStatusResponse *reply, trn_error **error) {
  spark_session *session = rpc->session;
  trn_vec executions = {0};
  bool complete = spark__session_executions(session, &executions);
  reply->operation_statuses = TRN_NEW_N(rpc->arena, operation_status *, executions.count + SPARK_FINISHED_MAX);
  if (!reply->operation_statuses) complete = false;
  for (size_t i = 0; i < executions.count; i++) {
    spark_execution *execution = executions.items[i];
    if (complete && is_asked(ask, execution->id)) {
      operation_status *status = make_status(rpc->arena, execution->id, state_of(execution));
      if (status) reply->operation_statuses[reply->n_operation_statuses++] = status;
    }
    spark__execution_unref(execution);
  }
  trn__vec_finish(&executions);
  if (!complete) return trn__no_memory(error);
  pthread_mutex_lock(&session->mutex);
  for (size_t i = 0; i < SPARK_FINISHED_MAX; i++) {
    const spark_finished *finished = &session->finished[i];
    if (!finished->id[0] || !is_asked(ask, finished->id)) continue;
    operation_status *status = make_status(rpc->arena, finished->id, finished->state);
    if (status) reply->operation_statuses[reply->n_operation_statuses++] = status;
  }
  pthread_mutex_unlock(&session->mutex);
  return TRN_OK;
}

trn_status spark__handle_get_status(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__GetStatusRequest *request = (const Spark__Connect__GetStatusRequest *)message;
  Spark__Connect__GetStatusResponse reply = SPARK__CONNECT__GET_STATUS_RESPONSE__INIT;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), false, error);
  if (!status && request->_operation_status_case)
    status = collect_statuses(rpc, request->operation_status, &reply, error);
  if (status) return status;
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  return spark__rpc_reply(rpc, &reply.base, error);
}

/* ---- ReleaseSession, CloneSession ---- */

trn_status spark__handle_release_session(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ReleaseSessionRequest *request = (const Spark__Connect__ReleaseSessionRequest *)message;
  if (!trn__uuid_is_valid(request->session_id))
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_HANDLE.FORMAT", "handle", request->session_id, NULL, NULL,
                        NULL, NULL);
  spark_session *session = NULL;
  spark__session_close(rpc, (spark_session_key){request->session_id, request->user_context, NULL},
                       request->allow_reconnect, &session);
  Spark__Connect__ReleaseSessionResponse reply = SPARK__CONNECT__RELEASE_SESSION_RESPONSE__INIT;
  reply.session_id = request->session_id;
  if (session) reply.server_side_session_id = (char *)session->server_id;
  trn_status status = spark__rpc_reply(rpc, &reply.base, error);
  spark__session_unref(session);
  return status;
}

trn_status spark__handle_clone_session(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__CloneSessionRequest *request = (const Spark__Connect__CloneSessionRequest *)message;
  char id[TRN_UUID_SIZE];
  spark_session *clone = NULL;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), false, error);
  if (status) return status;
  if (!request->_new_session_id_case || !*request->new_session_id) {
    trn__uuid4(id);
  } else if (trn__uuid_is_valid(request->new_session_id)) {
    memcpy(id, request->new_session_id, TRN_UUID_SIZE);
  } else {
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_HANDLE.FORMAT", "handle", request->new_session_id, NULL,
                        NULL, NULL, NULL);
  }
  status = spark__session_clone(rpc, id, &clone, error);
  if (status) return status;
  Spark__Connect__CloneSessionResponse reply = SPARK__CONNECT__CLONE_SESSION_RESPONSE__INIT;
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  reply.new_session_id = clone->id;
  reply.new_server_side_session_id = (char *)clone->server_id;
  status = spark__rpc_reply(rpc, &reply.base, error);
  spark__session_unref(clone);
  return status;
}

/* ---- FetchErrorDetails ---- */

typedef Spark__Connect__FetchErrorDetailsResponse__SparkThrowable__MessageParametersEntry parameter_entry;

/* The message parameters as a map. */
static bool fill_parameters(trn_arena *arena, const spark_failure *failure,
                            Spark__Connect__FetchErrorDetailsResponse__SparkThrowable *throwable) {
  throwable->message_parameters = TRN_NEW_N(arena, parameter_entry *, failure->param_count);
  if (!throwable->message_parameters) return false;
  for (size_t i = 0; i < failure->param_count; i++) {
    parameter_entry *entry = TRN_NEW(arena, parameter_entry);
    if (!entry) return false;
    spark__connect__fetch_error_details_response__spark_throwable__message_parameters_entry__init(entry);
    entry->key = (char *)failure->params[i].key;
    entry->value = (char *)failure->params[i].value;
    throwable->message_parameters[throwable->n_message_parameters++] = entry;
  }
  return true;
}

static trn_status reply_details(spark_rpc *rpc, const spark_failure *failure,
                                Spark__Connect__FetchErrorDetailsResponse *reply, trn_error **error) {
  Spark__Connect__FetchErrorDetailsResponse__Error details = SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__ERROR__INIT;
  Spark__Connect__FetchErrorDetailsResponse__SparkThrowable throwable =
      SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__SPARK_THROWABLE__INIT;
  Spark__Connect__FetchErrorDetailsResponse__QueryContext context =
      SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__QUERY_CONTEXT__INIT;
  Spark__Connect__FetchErrorDetailsResponse__QueryContext *contexts[] = {&context};
  Spark__Connect__FetchErrorDetailsResponse__Error *errors[] = {&details};
  details.message = (char *)failure->message;
  details.error_type_hierarchy = (char **)failure->classes;
  while (failure->classes[details.n_error_type_hierarchy]) details.n_error_type_hierarchy++;
  if (failure->condition) {
    if (!fill_parameters(rpc->arena, failure, &throwable)) return trn__no_memory(error);
    throwable._error_class_case =
        SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__SPARK_THROWABLE___ERROR_CLASS_ERROR_CLASS;
    throwable.error_class = (char *)failure->condition;
    if (failure->sqlstate) {
      throwable._sql_state_case = SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__SPARK_THROWABLE___SQL_STATE_SQL_STATE;
      throwable.sql_state = (char *)failure->sqlstate;
    }
    if (failure->has_context) {
      context.context_type = SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__QUERY_CONTEXT__CONTEXT_TYPE__SQL;
      context.start_index = failure->start;
      context.stop_index = failure->stop;
      context.fragment = (char *)failure->fragment;
      context.summary = (char *)failure->summary;
      throwable.n_query_contexts = 1;
      throwable.query_contexts = contexts;
    }
    details._spark_throwable_case =
        SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__ERROR___SPARK_THROWABLE_SPARK_THROWABLE;
    details.spark_throwable = &throwable;
  }
  reply->n_errors = 1;
  reply->errors = errors;
  reply->_root_error_idx_case = SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE___ROOT_ERROR_IDX_ROOT_ERROR_IDX;
  reply->root_error_idx = 0;
  return spark__rpc_reply(rpc, &reply->base, error);
}

trn_status spark__handle_fetch_error_details(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__FetchErrorDetailsRequest *request = (const Spark__Connect__FetchErrorDetailsRequest *)message;
  Spark__Connect__FetchErrorDetailsResponse reply = SPARK__CONNECT__FETCH_ERROR_DETAILS_RESPONSE__INIT;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), false, error);
  if (status) return status;
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  spark_failure *failure = spark__session_failure(rpc->session, request->error_id);
  /* Unknown (or one of the oldest): an empty answer; the client then keeps what the trailers said. */
  status = failure ? reply_details(rpc, failure, &reply, error) : spark__rpc_reply(rpc, &reply.base, error);
  spark__failure_unref(failure);
  return status;
}

/* ---- ArtifactStatus: nothing can be added, so nothing is there ---- */

trn_status spark__handle_artifact_status(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ArtifactStatusesRequest *request = (const Spark__Connect__ArtifactStatusesRequest *)message;
  typedef Spark__Connect__ArtifactStatusesResponse__StatusesEntry entry;
  typedef Spark__Connect__ArtifactStatusesResponse__ArtifactStatus artifact;
  Spark__Connect__ArtifactStatusesResponse reply = SPARK__CONNECT__ARTIFACT_STATUSES_RESPONSE__INIT;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), true, error);
  if (status) return status;
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  reply.statuses = TRN_NEW_N(rpc->arena, entry *, request->n_names);
  if (!reply.statuses) return trn__no_memory(error);
  for (size_t i = 0; i < request->n_names; i++) {
    entry *each = TRN_NEW(rpc->arena, entry);
    artifact *value = TRN_NEW(rpc->arena, artifact);
    if (!each || !value) return trn__no_memory(error);
    spark__connect__artifact_statuses_response__statuses_entry__init(each);
    spark__connect__artifact_statuses_response__artifact_status__init(value);
    each->key = request->names[i];
    each->value = value;
    reply.statuses[reply.n_statuses++] = each;
  }
  return spark__rpc_reply(rpc, &reply.base, error);
}
