/* Mounting, and the way of a call: the host's thread hands the message to a worker, the worker decodes and runs the
 * handler. Nothing here blocks the host. */
#include <unistd.h>

#include "frontend/ballista/ballista.h"
#include "frontend/spark/plan_sql.h"
#include "frontend/wire/wire.h"

enum { CONTROL_THREADS = 4, SWEEP_MS = 1000, ERROR_BYTES_MAX = 4096, VERSION_MAJOR = 55, VERSION_OLDER = 54,
       TICKET_KEY_BYTES_MIN = 16 };

struct ballista_method {
  const char *path;
  trn_method_kind kind;
  const ProtobufCMessageDescriptor *request; /* NULL: of executors, and not served */
  trn_status (*handle)(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error);
  bool is_submission; /* decodes and plans; only of clients whose version fits */
  bool blocks;        /* may wait for a cluster */
};

#define BALLISTA_PATH "/ballista.protobuf.SchedulerGrpc/"
#define REQUEST(name) &ballista__protobuf__##name##__descriptor
static const ballista_method methods[] = {
    {BALLISTA_PATH "ExecuteQueryPush", TRN_METHOD_SERVER_STREAM, REQUEST(execute_query_params),
     ballista__handle_execute_push, true},
    {BALLISTA_PATH "ExecuteQuery", TRN_METHOD_UNARY, REQUEST(execute_query_params), ballista__handle_execute, true},
    {BALLISTA_PATH "GetJobStatus", TRN_METHOD_UNARY, REQUEST(get_job_status_params), ballista__handle_get_status,
     false},
    {BALLISTA_PATH "GetJobMetrics", TRN_METHOD_UNARY, REQUEST(get_job_metrics_params), ballista__handle_get_metrics,
     false, true},
    {BALLISTA_PATH "CancelJob", TRN_METHOD_UNARY, REQUEST(cancel_job_params), ballista__handle_cancel, false},
    {BALLISTA_PATH "CleanJobData", TRN_METHOD_UNARY, REQUEST(clean_job_data_params), ballista__handle_clean, false},
    {BALLISTA_PATH "CreateUpdateSession", TRN_METHOD_UNARY, REQUEST(create_update_session_params),
     ballista__handle_update_session, false},
    {BALLISTA_PATH "RemoveSession", TRN_METHOD_UNARY, REQUEST(remove_session_params), ballista__handle_remove_session,
     false},
    {BALLISTA_PATH "PollWork", TRN_METHOD_UNARY, NULL, NULL, false},
    {BALLISTA_PATH "RegisterExecutor", TRN_METHOD_UNARY, NULL, NULL, false},
    {BALLISTA_PATH "HeartBeatFromExecutor", TRN_METHOD_UNARY, NULL, NULL, false},
    {BALLISTA_PATH "UpdateTaskStatus", TRN_METHOD_UNARY, NULL, NULL, false},
    {BALLISTA_PATH "ExecutorStopped", TRN_METHOD_UNARY, NULL, NULL, false},
};
enum { METHOD_COUNT = sizeof methods / sizeof *methods };

/* ---- calls ---- */

ballista_rpc *ballista__rpc_ref(ballista_rpc *rpc) {
  atomic_fetch_add_explicit(&rpc->refs, 1, memory_order_relaxed);
  return rpc;
}

void ballista__rpc_unref(ballista_rpc *rpc) {
  if (!rpc || atomic_fetch_sub_explicit(&rpc->refs, 1, memory_order_acq_rel) != 1) return;
  if (rpc->message.release) rpc->message.release(rpc->message.owner);
  ballista__job_unref(rpc->job);
  trn__arena_unref(rpc->arena);
  trn_call_unref(rpc->call);
  trn_cancel_unref(rpc->cancel);
  pthread_mutex_destroy(&rpc->mutex);
  ballista__service_unref(rpc->service);
  free(rpc);
}

const char *ballista__rpc_user(const ballista_rpc *rpc, bool *is_authenticated) {
  const char *identity = trn_call_identity(rpc->call);
  *is_authenticated = identity != NULL;
  return identity ? identity : "";
}

trn_status ballista__rpc_send(ballista_rpc *rpc, const ProtobufCMessage *message, trn_error **error) {
  size_t size = protobuf_c_message_get_packed_size(message);
  uint8_t *bytes = malloc(size ? size : 1);
  if (!bytes) return trn__no_memory(error);
  protobuf_c_message_pack(message, bytes);
  trn_slice slice = {bytes, size, free, bytes};
  trn_call_send(rpc->call, &slice, 1, 0);
  return TRN_OK;
}

void ballista__rpc_finish(ballista_rpc *rpc) {
  trn_call_finish(rpc->call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

trn_status ballista__rpc_reply(ballista_rpc *rpc, const ProtobufCMessage *message, trn_error **error) {
  trn_status status = ballista__rpc_send(rpc, message, error);
  if (!status) ballista__rpc_finish(rpc);
  return status;
}

char *ballista__error_text(trn_status status, const trn_error *error) {
  trn_strbuf text = {0};
  if (trn_error_condition(error)) spark__error_text(&text, error);
  const char *message = text.data && !text.failed ? text.data : trn_error_message(error);
  size_t size = strnlen(message, ERROR_BYTES_MAX);
  /* It goes into headers and messages: bounded, and UTF-8 whatever it quotes. */
  while (size && (message[size] & 0xC0) == 0x80) size--;
  bool is_good = size && trn__utf8_is_valid(message, size);
  const char *fallback = status == TRN_CANCELLED ? "Cancelled" : error ? trn_status_name(status) : "Out of memory";
  char *out = is_good ? strndup(message, size) : strdup(fallback);
  trn__strbuf_finish(&text);
  return out;
}

void ballista__rpc_fail(ballista_rpc *rpc, trn_status status, const trn_error *error) {
  char *text = ballista__error_text(status, error);
  trn_call_finish(rpc->call, status, text ? text : "Out of memory", NULL, 0, NULL, 0);
  free(text);
}

/* ---- versions ---- */

static int64_t major_of(const char *text, size_t size) {
  int64_t major = 0;
  size_t i = 0;
  for (; i < size && text[i] >= '0' && text[i] <= '9' && major < 10000; i++) major = major * 10 + (text[i] - '0');
  return i && (i == size || text[i] == '.') ? major : -1;
}

/* Clients from 55 on say their version; older ones say nothing. */
static trn_status check_version(ballista_rpc *rpc, trn_error **error) {
  size_t size = 0;
  const char *version = trn_call_metadata(rpc->call, "ballista-version", &size);
  int64_t major = version ? major_of(version, size) : VERSION_OLDER;
  rpc->is_older = major == VERSION_OLDER;
  if (major == VERSION_MAJOR || (rpc->is_older && !rpc->service->refuses_older)) return TRN_OK;
  char *text = version ? trn__arena_printf(rpc->arena, "client %.*s", (int)(size < 40 ? size : 40), version)
                       : trn__arena_strdup(rpc->arena, "client older than 55.0.0 (it sent no ballista-version)");
  if (!text) return trn__no_memory(error);
  return trn_error_set(
      error, TRN_FAILED_PRECONDITION, NULL,
      "Ballista %s cannot be used with scheduler %s. The client and the scheduler must have the same major "
      "version.",
      text, BALLISTA_VERSION);
}

/* ---- dispatch ---- */

static trn_status rpc_handle(ballista_rpc *rpc, trn_error **error) {
  const ballista_method *method = rpc->method;
  if (!method->request)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL,
                         "%s is between executors and schedulers: this server takes queries, not executors",
                         method->path + sizeof BALLISTA_PATH - 1);
  rpc->arena = trn__arena_create(0);
  if (!rpc->arena) return trn__no_memory(error);
  ProtobufCMessage *request;
  trn_status status = method->is_submission ? check_version(rpc, error) : TRN_OK;
  if (!status)
    status = ballista__decode(rpc->arena, method->request, rpc->message.data, rpc->message.size, &request, error);
  if (rpc->message.release) rpc->message.release(rpc->message.owner);
  rpc->message = (trn_slice){0};
  return status ? status : method->handle(rpc, request, error);
}

/* thread: worker. Takes a reference. */
static void rpc_run(void *argument) {
  ballista_rpc *rpc = argument;
  trn_error *error = NULL;
  trn_cancel *before = trn_cancel_work_for(rpc->cancel);
  trn_status status = trn_call_is_cancelled(rpc->call) ? TRN_CANCELLED : rpc_handle(rpc, &error);
  trn_cancel_work_for(before);
  if (status) ballista__rpc_fail(rpc, status, error);
  trn_error_unref(error);
  trn__arena_unref(rpc->arena);
  rpc->arena = NULL;
  ballista_service *service = ballista__service_ref(rpc->service);
  ballista__rpc_unref(rpc);
  trn__gate_leave(&service->gate);
  ballista__service_unref(service);
}

static void on_open(trn_call *call, void *user) {
  static const trn_metadata version = {"ballista-version", BALLISTA_VERSION, sizeof BALLISTA_VERSION - 1};
  ballista_rpc *rpc = calloc(1, sizeof *rpc);
  if (rpc && trn_cancel_create(&rpc->cancel)) {
    free(rpc);
    rpc = NULL;
  }
  if (rpc) {
    atomic_init(&rpc->refs, 1);
    pthread_mutex_init(&rpc->mutex, NULL);
    rpc->service = ballista__service_ref(user);
    rpc->call = trn_call_ref(call);
    const char *path = trn_call_method(call)->path;
    for (size_t i = 0; i < METHOD_COUNT && !rpc->method; i++)
      if (strcmp(methods[i].path, path) == 0) rpc->method = &methods[i];
  }
  trn_call_set_user(call, rpc);
  trn_call_set_initial_metadata(call, &version, 1);
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  ballista_rpc *rpc = user;
  if (!rpc) {
    if (message.release) message.release(message.owner);
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
    return;
  }
  rpc->message = message;
  bool entered = trn__gate_enter(&rpc->service->gate);
  const ballista_service *service = rpc->service;
  trn_pool *pool = rpc->method->is_submission || rpc->method->blocks ? service->pool
                   : service->stored                                 ? service->stored
                                                                     : service->control;
  if (entered && trn__pool_submit(pool, rpc_run, ballista__rpc_ref(rpc)) == TRN_OK) return;
  trn_call_finish(call, entered ? TRN_RESOURCE_EXHAUSTED : TRN_UNAVAILABLE,
                  entered ? "No worker thread can be started" : "The server is stopping", NULL, 0, NULL, 0);
  if (!entered) return;
  ballista__rpc_unref(rpc);
  trn__gate_leave(&rpc->service->gate);
}

static void rpc_gone(ballista_rpc *rpc) {
  if (!rpc) return;
  pthread_mutex_lock(&rpc->mutex);
  ballista_job *job = rpc->job;
  bool is_untold = rpc->is_untold;
  rpc->job = NULL;
  rpc->gone = true;
  pthread_mutex_unlock(&rpc->mutex);
  trn_cancel_request(rpc->cancel);
  if (job && is_untold)
    ballista__job_cancel(job);
  else if (job)
    ballista__job_abandon(job);
  ballista__job_unref(job);
}

static void on_cancel(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
  ballista__rpc_unref(user);
}

/* ---- timer ---- */

static void timer_run(void *argument) {
  ballista_service *service = argument;
  pthread_mutex_lock(&service->mutex);
  service->has_timer = false;
  bool stopping = service->gate.is_closed;
  pthread_mutex_unlock(&service->mutex);
  if (!stopping) {
    int64_t now = trn__now_ns();
    ballista__sweep_jobs(service, now);
    ballista__sweep_sessions(service, now);
    pthread_mutex_lock(&service->mutex);
    bool again = trn__map_count(service->jobs) || trn__map_count(service->sessions);
    pthread_mutex_unlock(&service->mutex);
    if (again) ballista__need_timer(service);
  }
  ballista__service_unref(service);
}

void ballista__need_timer(ballista_service *service) {
  pthread_mutex_lock(&service->mutex);
  bool start = !service->has_timer && !service->gate.is_closed;
  if (start) service->has_timer = true;
  pthread_mutex_unlock(&service->mutex);
  if (!start || trn__pool_submit_after(service->control, SWEEP_MS, timer_run, ballista__service_ref(service)) == TRN_OK)
    return;
  pthread_mutex_lock(&service->mutex); /* the next one tries again */
  service->has_timer = false;
  pthread_mutex_unlock(&service->mutex);
  ballista__service_unref(service);
}

/* ---- the service ---- */

ballista_service *ballista__service_ref(ballista_service *service) {
  atomic_fetch_add_explicit(&service->refs, 1, memory_order_relaxed);
  return service;
}

void ballista__service_unref(ballista_service *service) {
  if (!service || atomic_fetch_sub_explicit(&service->refs, 1, memory_order_acq_rel) != 1) return;
  trn__map_destroy(service->jobs, NULL);
  trn__map_destroy(service->sessions, ballista__settings_destroy);
  trn_registry_destroy(service->own);
  trn_scheduler_unref(service->scheduler);
  trn_backend_unref(service->backend);
  trn__gate_finish(&service->gate);
  pthread_mutex_destroy(&service->mutex);
  free(service);
}

/* The routes are gone: no call is left (the host's promise). What runs is cancelled and waited for. */
static void service_destroy(void *argument) {
  ballista_service *service = argument;
  trn__gate_close(&service->gate);
  ballista__sweep_jobs(service, 0);
  trn__gate_wait(&service->gate);
  ballista__sweep_jobs(service, 0); /* what was made meanwhile */
  trn__pool_destroy(service->pool);
  trn__pool_destroy(service->control);
  trn__pool_destroy(service->stored);
  ballista__service_unref(service);
}

static trn_status service_create(const trn_ballista_frontend_options *options, trn_backend *backend,
                                 ballista_service **out) {
  ballista_service *service = calloc(1, sizeof *service);
  if (!service) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&service->refs, 1);
  atomic_init(&service->bytes, 0);
  pthread_mutex_init(&service->mutex, NULL);
  trn__gate_init(&service->gate, &service->mutex);
  service->backend = trn_backend_ref(backend);
  service->registry = options->registry;
  service->result_ms = options->result_ms ? options->result_ms : TRN_BALLISTA_RESULT_MS;
  service->job_ms = options->job_ms ? options->job_ms : TRN_BALLISTA_JOB_MS;
  service->session_idle_ms = options->session_idle_ms ? options->session_idle_ms : TRN_SESSION_IDLE_MS;
  service->result_bytes = options->result_bytes ? options->result_bytes : TRN_BALLISTA_RESULT_BYTES;
  service->results_bytes = options->results_bytes ? options->results_bytes : TRN_BALLISTA_RESULTS_BYTES;
  service->runs_on = options->runs_on;
  service->refuses_older = options->refuses_older;
  service->hands_through = options->hands_through;
  service->resubmits = options->resubmits_lost;
  if (options->jobs) {
    service->scheduler = trn_scheduler_ref(options->jobs);
    service->runs_on = true; /* what is recorded is nobody's call's */
    ballista__stored_key(service, options->ticket_key, options->ticket_key_size);
  }
  service->jobs = trn__map_create();
  service->sessions = trn__map_create();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned workers = options->workers ? options->workers : (unsigned)(cores > 0 ? cores : 1) + 2;
  trn_status status = service->jobs && service->sessions ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  if (!status && !service->registry) {
    status = trn_registry_create(&service->own);
    service->registry = service->own;
  }
  if (!status) status = trn__pool_create(workers, &service->pool);
  if (!status) status = trn__pool_create(CONTROL_THREADS, &service->control);
  if (!status && service->scheduler) status = trn__pool_create(CONTROL_THREADS, &service->stored);
  if (!status) {
    *out = service;
    return TRN_OK;
  }
  trn__pool_destroy(service->pool);
  trn__pool_destroy(service->control);
  ballista__service_unref(service);
  return status;
}

/* ---- the provider ---- */

/* A ticket's bytes as a descriptor. */
static trn_status no_descriptor(void *self, flight_rpc *rpc,
                                const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error) {
  (void)self, (void)rpc, (void)descriptor;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Results of Ballista are fetched by ticket");
}

static void provider_destroy(void *self) {
  ballista__service_unref(self);
}

static trn_status mount_flight(ballista_service *service, const trn_ballista_frontend_options *given,
                               trn_routes *routes, trn_error **error) {
  const flight_options options = {.workers = given->workers,
                                  .session_idle_ms = given->session_idle_ms,
                                  .authenticator = given->authenticator,
                                  .allow_anonymous = given->allow_anonymous};
  const flight_provider provider = {.struct_size = sizeof provider,
                                    .name = "ballista",
                                    .has_secret_tickets = true,
                                    .claims = ballista__claims,
                                    .get_flight_info = no_descriptor,
                                    .poll_flight_info = no_descriptor,
                                    .get_schema = no_descriptor,
                                    .do_get = ballista__do_get,
                                    .destroy = provider_destroy};
  flight_service *flight = NULL;
  trn_status status = flight__mount(routes, &options, &flight, error);
  if (!status) status = flight__add_provider(flight, &provider, service, error);
  if (!status) ballista__service_ref(service); /* the provider's */
  return status;
}

/* ---- the frontend ---- */

typedef struct ballista_frontend {
  trn_ballista_frontend_options options;
  uint8_t *key; /* a copy */
} ballista_frontend;

static trn_status frontend_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  const ballista_frontend *frontend = self;
  ballista_service *service = NULL;
  trn_method table[METHOD_COUNT];
  trn_status status = service_create(&frontend->options, backend, &service);
  if (status) return trn__no_memory(error);
  for (size_t i = 0; i < METHOD_COUNT; i++)
    table[i] = (trn_method){.struct_size = sizeof table[i],
                            .path = methods[i].path,
                            .kind = methods[i].kind,
                            .on_open = on_open,
                            .on_message = on_message,
                            .on_cancel = on_cancel,
                            .on_done = on_done,
                            .service = service,
                            .message_bytes_max = TRN_BALLISTA_REQUEST_BYTES_MAX};
  if (trn_routes_find(routes, methods[0].path, strlen(methods[0].path)))
    status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The routes have %s already", methods[0].path);
  if (!status) status = mount_flight(service, &frontend->options, routes, error);
  if (!status && trn_routes_own(routes, service_destroy, service)) status = trn__no_memory(error);
  if (status) {
    service_destroy(service);
    return status;
  }
  return trn_routes_add(routes, table, METHOD_COUNT, error); /* what fails is the routes' all the same */
}

static void frontend_destroy(void *self) {
  ballista_frontend *frontend = self;
  trn_authenticator_unref(frontend->options.authenticator);
  trn_scheduler_unref(frontend->options.jobs);
  free(frontend->key);
  free(frontend);
}

trn_status trn_ballista_frontend_create(const trn_ballista_frontend_options *options, trn_frontend **out) {
  static const trn_frontend_ops ops = {sizeof ops, frontend_register, frontend_destroy};
  *out = NULL;
  ballista_frontend *frontend = calloc(1, sizeof *frontend);
  if (!frontend) return TRN_RESOURCE_EXHAUSTED;
  size_t known = sizeof frontend->options;
  if (options)
    memcpy(&frontend->options, options,
           options->struct_size && options->struct_size < known ? options->struct_size : known);
  trn_ballista_frontend_options *o = &frontend->options;
  if (o->jobs && (!o->ticket_key || o->ticket_key_size < TICKET_KEY_BYTES_MIN || o->hands_through)) {
    free(frontend);
    return TRN_INVALID_ARGUMENT;
  }
  if (o->authenticator) trn_authenticator_ref(o->authenticator);
  if (o->jobs) trn_scheduler_ref(o->jobs);
  frontend->key = o->jobs ? malloc(o->ticket_key_size) : NULL;
  if (frontend->key) o->ticket_key = memcpy(frontend->key, o->ticket_key, o->ticket_key_size);
  if (o->jobs && !frontend->key) {
    frontend_destroy(frontend);
    return TRN_RESOURCE_EXHAUSTED;
  }
  trn_status status = trn_frontend_create(&ops, frontend, out);
  if (status) frontend_destroy(frontend);
  return status;
}
