/* Mounting, and the way of a call: the host's thread hands the message to a worker, the worker decodes and runs the
 * handler. Nothing here blocks the host. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/spark/service.h"

enum {
  SERVICE_CONTROL_THREADS = 2,
  SERVICE_STREAM_MS = 120000,        /* spark.connect.execute.reattachable.senderMaxStreamDuration */
  SERVICE_EXECUTION_SWEEP_MS = 1000, /* heartbeats come every 2 s */
  SERVICE_SESSION_SWEEP_MS_MAX = 30000,
  SERVICE_MESSAGE_BYTES_MAX = 128 << 20 /* spark.connect.grpc.maxInboundMessageSize */
};

#define SPARK_PATH "/spark.connect.SparkConnectService/"
static const spark_method methods[] = {
    {SPARK_PATH "ExecutePlan", TRN_METHOD_SERVER_STREAM, &spark__connect__execute_plan_request__descriptor,
     spark__handle_execute, true},
    {SPARK_PATH "AnalyzePlan", TRN_METHOD_UNARY, &spark__connect__analyze_plan_request__descriptor,
     spark__handle_analyze, true},
    {SPARK_PATH "Config", TRN_METHOD_UNARY, &spark__connect__config_request__descriptor, spark__handle_config},
    {SPARK_PATH "AddArtifacts", TRN_METHOD_CLIENT_STREAM, &spark__connect__add_artifacts_request__descriptor, NULL},
    {SPARK_PATH "ArtifactStatus", TRN_METHOD_UNARY, &spark__connect__artifact_statuses_request__descriptor,
     spark__handle_artifact_status},
    {SPARK_PATH "Interrupt", TRN_METHOD_UNARY, &spark__connect__interrupt_request__descriptor, spark__handle_interrupt},
    {SPARK_PATH "ReattachExecute", TRN_METHOD_SERVER_STREAM, &spark__connect__reattach_execute_request__descriptor,
     spark__handle_reattach},
    {SPARK_PATH "ReleaseExecute", TRN_METHOD_UNARY, &spark__connect__release_execute_request__descriptor,
     spark__handle_release_execute},
    {SPARK_PATH "ReleaseSession", TRN_METHOD_UNARY, &spark__connect__release_session_request__descriptor,
     spark__handle_release_session},
    {SPARK_PATH "FetchErrorDetails", TRN_METHOD_UNARY, &spark__connect__fetch_error_details_request__descriptor,
     spark__handle_fetch_error_details},
    {SPARK_PATH "CloneSession", TRN_METHOD_UNARY, &spark__connect__clone_session_request__descriptor,
     spark__handle_clone_session},
    {SPARK_PATH "GetStatus", TRN_METHOD_UNARY, &spark__connect__get_status_request__descriptor,
     spark__handle_get_status},
};
enum { METHOD_COUNT = sizeof methods / sizeof *methods };

/* ---- calls ---- */

spark_rpc *spark__rpc_ref(spark_rpc *rpc) {
  atomic_fetch_add_explicit(&rpc->refs, 1, memory_order_relaxed);
  return rpc;
}

void spark__rpc_unref(spark_rpc *rpc) {
  if (!rpc || atomic_fetch_sub_explicit(&rpc->refs, 1, memory_order_acq_rel) != 1) return;
  if (rpc->message.release) rpc->message.release(rpc->message.owner);
  spark__execution_unref(atomic_load(&rpc->execution));
  spark__session_unref(rpc->session);
  trn__arena_unref(rpc->arena);
  trn_call_unref(rpc->call);
  trn_cancel_unref(rpc->cancel);
  spark__service_unref(rpc->service);
  free(rpc);
}

/* Ends a call with an error, and keeps the error for FetchErrorDetails. */
static void rpc_fail(spark_rpc *rpc, trn_status status, const trn_error *error) {
  spark_failure *failure = spark__failure_create(status, error, rpc->phase, rpc->sql, rpc->session != NULL);
  if (failure && rpc->session) spark__session_keep_failure(rpc->session, failure);
  spark__call_fail(rpc->call, failure);
  spark__failure_unref(failure);
}

trn_status spark__rpc_reply(spark_rpc *rpc, const ProtobufCMessage *reply, trn_error **error) {
  size_t size = protobuf_c_message_get_packed_size(reply);
  uint8_t *bytes = malloc(size ? size : 1);
  if (!bytes) return trn__no_memory(error);
  protobuf_c_message_pack(reply, bytes);
  trn_slice slice = {bytes, size, free, bytes};
  trn_call_send(rpc->call, &slice, 1, TRN_SEND_MORE);
  trn_call_finish(rpc->call, TRN_OK, NULL, NULL, 0, NULL, 0);
  return TRN_OK;
}

/* thread: worker. Takes a reference. */
static void rpc_run(void *argument) {
  spark_rpc *rpc = argument;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  if (!atomic_load(&rpc->gone)) {
    ProtobufCMessage *request = NULL;
    rpc->arena = trn__arena_create(0);
    status = rpc->arena ? spark__wire_decode(rpc->arena, rpc->method->request, rpc->message.data, rpc->message.size,
                                             &request, &error)
                        : trn__no_memory(&error);
    if (rpc->message.release) rpc->message.release(rpc->message.owner);
    rpc->message = (trn_slice){0};
    trn_cancel *before = trn_cancel_work_for(rpc->cancel);
    if (!status) status = rpc->method->handle(rpc, request, &error);
    trn_cancel_work_for(before);
    if (status) rpc_fail(rpc, status, error);
    /* A stream may go on for long: it does not need the request. */
    trn__arena_unref(rpc->arena);
    rpc->arena = NULL;
    rpc->sql = NULL;
  }
  trn_error_unref(error);
  spark__rpc_unref(rpc);
}

static void on_open(trn_call *call, void *user) {
  const spark_method *method = NULL;
  const char *path = trn_call_method(call)->path;
  for (size_t i = 0; i < METHOD_COUNT && !method; i++)
    if (strcmp(methods[i].path, path) == 0) method = &methods[i];
  spark_rpc *rpc = calloc(1, sizeof *rpc);
  if (rpc && trn_cancel_create(&rpc->cancel)) {
    free(rpc);
    rpc = NULL;
  }
  if (rpc) {
    atomic_init(&rpc->refs, 1);
    rpc->service = spark__service_ref(user);
    rpc->call = trn_call_ref(call);
    rpc->method = method;
  }
  trn_call_set_user(call, rpc);
  if (trn_call_method(call)->kind == TRN_METHOD_CLIENT_STREAM) trn_call_recv(call);
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  spark_rpc *rpc = user;
  if (!rpc) {
    if (message.release) message.release(message.owner);
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
    return;
  }
  if (!rpc->method->handle) { /* a client stream that is not served: drained, then answered */
    if (message.release) message.release(message.owner);
    trn_call_recv(call);
    return;
  }
  rpc->message = message;
  trn_pool *pool = rpc->method->is_work ? rpc->service->pool : rpc->service->control;
  if (trn__pool_submit(pool, rpc_run, spark__rpc_ref(rpc)) == TRN_OK) return;
  trn_error *error = NULL;
  trn_error_set(&error, TRN_RESOURCE_EXHAUSTED, NULL, "No worker thread can be started");
  rpc_fail(rpc, TRN_RESOURCE_EXHAUSTED, error);
  trn_error_unref(error);
  spark__rpc_unref(rpc);
}

static void on_half_close(trn_call *call, void *user) {
  spark_rpc *rpc = user;
  (void)call;
  if (!rpc || rpc->method->handle) return;
  trn_error *error = NULL;
  trn_error_set(&error, TRN_UNIMPLEMENTED, NULL, "%s is not supported by this server.",
                rpc->method->path + sizeof SPARK_PATH - 1);
  rpc_fail(rpc, TRN_UNIMPLEMENTED, error);
  trn_error_unref(error);
}

static void on_writable(trn_call *call, void *user) {
  spark_rpc *rpc = user;
  (void)call;
  if (!rpc) return;
  atomic_fetch_add(&rpc->writable, 1);
  spark_execution *execution = atomic_load(&rpc->execution);
  if (execution) spark__execution_writable(execution);
}

static void rpc_gone(spark_rpc *rpc) {
  if (!rpc) return;
  /* Before the execution is read: attach stores that first and looks at this afterwards. */
  atomic_store(&rpc->gone, true);
  trn_cancel_request(rpc->cancel);
  spark_execution *execution = atomic_load(&rpc->execution);
  if (execution) spark__execution_detach(execution, rpc);
}

static void on_cancel(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
  spark__rpc_unref(user);
}

/* ---- timers ---- */

static void session_timer(void *argument);
static void execution_timer(void *argument);

/* locks: none. Starts a timer unless it runs. */
static void timer_start(spark_service *service, bool *has, void (*run)(void *), uint64_t delay_ms) {
  pthread_mutex_lock(&service->mutex);
  bool start = !*has && !service->gate.is_closed;
  if (start) *has = true;
  pthread_mutex_unlock(&service->mutex);
  if (!start) return;
  if (trn__pool_submit_after(service->control, delay_ms, run, spark__service_ref(service)) == TRN_OK) return;
  pthread_mutex_lock(&service->mutex); /* the next session or execution tries again */
  *has = false;
  pthread_mutex_unlock(&service->mutex);
  spark__service_unref(service);
}

void spark__service_need_execution_timer(spark_service *service) {
  timer_start(service, &service->has_execution_timer, execution_timer, SERVICE_EXECUTION_SWEEP_MS);
}

void spark__service_need_session_timer(spark_service *service) {
  uint64_t delay = service->session_idle_ms / 4;
  if (delay > SERVICE_SESSION_SWEEP_MS_MAX) delay = SERVICE_SESSION_SWEEP_MS_MAX;
  timer_start(service, &service->has_session_timer, session_timer, delay ? delay : 1);
}

static void session_timer(void *argument) {
  spark_service *service = argument;
  pthread_mutex_lock(&service->mutex);
  service->has_session_timer = false;
  bool stopping = service->gate.is_closed;
  pthread_mutex_unlock(&service->mutex);
  if (!stopping) {
    spark__service_sweep_sessions(service);
    pthread_mutex_lock(&service->mutex);
    bool again = trn__map_count(service->sessions) > 0;
    pthread_mutex_unlock(&service->mutex);
    if (again) spark__service_need_session_timer(service);
  }
  spark__service_unref(service);
}

static void execution_timer(void *argument) {
  spark_service *service = argument;
  pthread_mutex_lock(&service->mutex);
  service->has_execution_timer = false;
  bool stopping = service->gate.is_closed;
  pthread_mutex_unlock(&service->mutex);
  if (!stopping && spark__service_sweep_executions(service)) spark__service_need_execution_timer(service);
  spark__service_unref(service);
}

/* ---- the service ---- */

spark_service *spark__service_ref(spark_service *service) {
  atomic_fetch_add_explicit(&service->refs, 1, memory_order_relaxed);
  return service;
}

void spark__service_unref(spark_service *service) {
  if (!service || atomic_fetch_sub_explicit(&service->refs, 1, memory_order_acq_rel) != 1) return;
  trn__map_destroy(service->sessions, NULL);
  trn__map_destroy(service->closed, NULL);
  trn__gate_finish(&service->gate);
  pthread_mutex_destroy(&service->mutex);
  trn_backend_unref(service->backend);
  free(service->timezone);
  free(service);
}

/* Takes one session out of the table; NULL: there is none left. */
static spark_session *take_session(spark_service *service) {
  spark_session *session = NULL;
  pthread_mutex_lock(&service->mutex);
  const char *key;
  void *value;
  size_t index = 0;
  if (trn__map_next(service->sessions, &index, &key, &value)) {
    session = value;
    trn__map_remove(service->sessions, session->key, strlen(session->key));
  }
  pthread_mutex_unlock(&service->mutex);
  return session;
}

/* The routes are gone: no call is left (the host's promise). Waits for producers, then for workers. */
static void service_destroy(void *argument) {
  spark_service *service = argument;
  trn__gate_close(&service->gate);
  for (spark_session *session; (session = take_session(service));) {
    spark__session_shut(session);
    spark__session_unref(session);
  }
  trn__gate_wait(&service->gate);
  /* Work starts timers without having entered: its pool goes first. What control gives to work has entered. */
  trn__pool_destroy(service->pool);
  trn__pool_destroy(service->control);
  spark__service_unref(service);
}

static trn_status service_create(const trn_spark_options *options, trn_backend *backend, spark_service **out) {
  spark_service *service = calloc(1, sizeof *service);
  if (!service) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&service->refs, 1);
  pthread_mutex_init(&service->mutex, NULL);
  trn__gate_init(&service->gate, &service->mutex);
  service->backend = trn_backend_ref(backend);
  service->registry = options->registry;
  service->session_idle_ms = options->session_idle_ms ? options->session_idle_ms : TRN_SESSION_IDLE_MS;
  service->detached_ms = options->detached_ms ? options->detached_ms : TRN_DETACHED_MS;
  service->stream_ms = options->stream_ms ? options->stream_ms : SERVICE_STREAM_MS;
  service->response_log_bytes = options->response_log_bytes ? options->response_log_bytes : TRN_RESPONSE_LOG_BYTES;
  service->sessions = trn__map_create();
  service->closed = trn__map_create();
  if (options->timezone) service->timezone = strdup(options->timezone);
  trn_status status = TRN_OK;
  if (!service->sessions || !service->closed || (options->timezone && !service->timezone))
    status = TRN_RESOURCE_EXHAUSTED;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned workers = options->workers ? options->workers : (unsigned)(cores > 0 ? cores : 1) + 2;
  if (!status) status = trn__pool_create(workers, &service->pool);
  if (!status) status = trn__pool_create(SERVICE_CONTROL_THREADS, &service->control);
  if (status) {
    trn__pool_destroy(service->pool);
    spark__service_unref(service);
  } else {
    *out = service;
  }
  return status;
}

/* ---- the frontend ---- */

static trn_status frontend_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  spark_service *service = NULL;
  trn_status status = service_create(self, backend, &service);
  if (status) return trn_error_set(error, status, NULL, "No memory or thread for the Spark Connect service");
  trn_method table[METHOD_COUNT];
  for (size_t i = 0; i < METHOD_COUNT; i++) {
    table[i] = (trn_method){.struct_size = sizeof table[i],
                            .path = methods[i].path,
                            .kind = methods[i].kind,
                            .on_open = on_open,
                            .on_message = on_message,
                            .on_half_close = on_half_close,
                            .on_writable = on_writable,
                            .on_cancel = on_cancel,
                            .on_done = on_done,
                            .service = service,
                            .message_bytes_max = SERVICE_MESSAGE_BYTES_MAX};
  }
  status = trn_routes_add(routes, table, METHOD_COUNT, error);
  /* A failed own leaves routes that point to the service: it lives on, as they do. */
  if (!status) return trn_routes_own(routes, service_destroy, service);
  service_destroy(service);
  return status;
}

static void frontend_destroy(void *self) {
  trn_spark_options *options = self;
  free((char *)options->timezone);
  free(options);
}

trn_status trn_spark_frontend_create(const trn_spark_options *options, trn_frontend **out) {
  *out = NULL;
  trn_spark_options *copy = calloc(1, sizeof *copy);
  if (!copy) return TRN_RESOURCE_EXHAUSTED;
  if (options) {
    size_t size = options->struct_size && options->struct_size < sizeof *copy ? options->struct_size : sizeof *copy;
    memcpy(copy, options, size);
  }
  if (copy->timezone) {
    copy->timezone = strdup(copy->timezone);
    if (!copy->timezone) {
      free(copy);
      return TRN_RESOURCE_EXHAUSTED;
    }
  }
  static const trn_frontend_ops ops = {sizeof ops, frontend_register, frontend_destroy};
  trn_status status = trn_frontend_create(&ops, copy, out);
  if (status) frontend_destroy(copy);
  return status;
}
