/* Mounting, and the way of a call: the host's thread hands messages to a worker, one at a time per call; the worker
 * decodes and runs the handler. Nothing here blocks the host. */
#include <stdio.h>
#include <unistd.h>

#include "frontend/flight/flight.h"
#include "frontend/spark/plan_sql.h"
#include "frontend/wire/wire.h"

enum { SERVICE_CONTROL_THREADS = 2, SERVICE_WORKERS_MIN = 8, SERVICE_SWEEP_MS = 1000, SERVICE_ERROR_BYTES_MAX = 4096 };

typedef Arrow__Flight__Protocol__FlightDescriptor descriptor_message;

typedef struct flight_method {
  const char *path;
  trn_method_kind kind;
  const ProtobufCMessageDescriptor *request; /* NULL: raw messages (Handshake, DoPut, DoExchange) */
  trn_status (*handle)(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
  bool is_control; /* never behind work that takes long */
} flight_method;

static trn_status handle_get_flight_info(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
static trn_status handle_poll_flight_info(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
static trn_status handle_get_schema(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
static trn_status handle_do_get(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);
static trn_status handle_list_flights(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error);

#define FLIGHT_PATH "/arrow.flight.protocol.FlightService/"
enum { METHOD_HANDSHAKE, METHOD_DO_PUT, METHOD_DO_EXCHANGE };
static const flight_method methods[] = {
    {FLIGHT_PATH "Handshake", TRN_METHOD_BIDI, NULL, NULL, true},
    {FLIGHT_PATH "DoPut", TRN_METHOD_BIDI, NULL, NULL, false},
    {FLIGHT_PATH "DoExchange", TRN_METHOD_BIDI, NULL, NULL, true},
    {FLIGHT_PATH "GetFlightInfo", TRN_METHOD_UNARY, &arrow__flight__protocol__flight_descriptor__descriptor,
     handle_get_flight_info, false},
    {FLIGHT_PATH "PollFlightInfo", TRN_METHOD_UNARY, &arrow__flight__protocol__flight_descriptor__descriptor,
     handle_poll_flight_info, false},
    {FLIGHT_PATH "GetSchema", TRN_METHOD_UNARY, &arrow__flight__protocol__flight_descriptor__descriptor,
     handle_get_schema, false},
    {FLIGHT_PATH "DoGet", TRN_METHOD_SERVER_STREAM, &arrow__flight__protocol__ticket__descriptor, handle_do_get, false},
    {FLIGHT_PATH "DoAction", TRN_METHOD_SERVER_STREAM, &arrow__flight__protocol__action__descriptor,
     flight__handle_do_action, false},
    {FLIGHT_PATH "ListActions", TRN_METHOD_SERVER_STREAM, &arrow__flight__protocol__empty__descriptor,
     flight__handle_list_actions, true},
    {FLIGHT_PATH "ListFlights", TRN_METHOD_SERVER_STREAM, &arrow__flight__protocol__criteria__descriptor,
     handle_list_flights, true},
};
enum { METHOD_COUNT = sizeof methods / sizeof *methods };

/* ---- calls ---- */

flight_rpc *flight__rpc_ref(flight_rpc *rpc) {
  atomic_fetch_add_explicit(&rpc->refs, 1, memory_order_relaxed);
  return rpc;
}

static void put_drop(flight_rpc *rpc) {
  void *put = rpc->put;
  rpc->put = NULL;
  if (put) rpc->provider->ops.put_drop(rpc->provider->self, put);
}

void flight__rpc_unref(flight_rpc *rpc) {
  if (!rpc || atomic_fetch_sub_explicit(&rpc->refs, 1, memory_order_acq_rel) != 1) return;
  for (unsigned i = 0; i < rpc->message_count; i++)
    if (rpc->messages[i].release) rpc->messages[i].release(rpc->messages[i].owner);
  put_drop(rpc);
  if (rpc->events && rpc->events->drop) rpc->events->drop(rpc->events_user);
  trn__arena_unref(rpc->arena);
  if (rpc->session) flight__session_leave(rpc->session);
  flight__identity_unref(rpc->found);
  trn_call_unref(rpc->call);
  trn_cancel_unref(rpc->cancel);
  pthread_mutex_destroy(&rpc->mutex);
  flight__service_unref(rpc->service);
  free(rpc);
}

void flight__rpc_attach(flight_rpc *rpc, const flight_events *events, void *user) {
  pthread_mutex_lock(&rpc->mutex);
  bool gone = atomic_load(&rpc->gone);
  TRN_ASSERT(!rpc->events);
  rpc->events = events;
  rpc->events_user = user;
  pthread_mutex_unlock(&rpc->mutex);
  if (gone) events->gone(user);
}

trn_status flight__rpc_send(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error) {
  size_t size = protobuf_c_message_get_packed_size(message);
  uint8_t *bytes = malloc(size ? size : 1);
  if (!bytes) return trn__no_memory(error);
  protobuf_c_message_pack(message, bytes);
  trn_slice slice = {bytes, size, free, bytes};
  trn_call_send(rpc->call, &slice, 1, TRN_SEND_MORE);
  return TRN_OK;
}

void flight__rpc_finish(flight_rpc *rpc) { trn_call_finish(rpc->call, TRN_OK, NULL, NULL, 0, NULL, 0); }

trn_status flight__rpc_reply(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error) {
  trn_status status = flight__rpc_send(rpc, message, error);
  if (!status) flight__rpc_finish(rpc);
  return status;
}

void flight__rpc_fail(flight_rpc *rpc, trn_status status, const trn_error *error) {
  trn_strbuf text = {0};
  trn_metadata trailing[2];
  size_t count = 0;
  const char *condition = trn_error_condition(error), *sqlstate = trn_error_sqlstate(error);
  if (condition) trailing[count++] = (trn_metadata){"trunnion-condition", condition, strlen(condition)};
  if (sqlstate) trailing[count++] = (trn_metadata){"trunnion-sqlstate", sqlstate, strlen(sqlstate)};
  if (condition) spark__error_text(&text, error);
  const char *message = text.data && !text.failed ? text.data : trn_error_message(error);
  size_t size = strnlen(message, SERVICE_ERROR_BYTES_MAX);
  /* It goes into a header: bounded, and UTF-8 whatever it quotes. */
  while (size && size == SERVICE_ERROR_BYTES_MAX && (message[size] & 0xC0) == 0x80) size--;
  bool is_good = size && trn__utf8_is_valid(message, size);
  char *cut = is_good ? strndup(message, size) : NULL;
  const char *fallback = status == TRN_CANCELLED ? "The call was cancelled"
                         : !error                ? "Out of memory"
                                                 : trn_status_name(status);
  trn_call_finish(rpc->call, status, cut ? cut : fallback, NULL, 0, trailing, count);
  free(cut);
  trn__strbuf_finish(&text);
}

/* ---- handlers of descriptors and tickets ---- */

static const flight_provider_entry *provider_of(flight_service *service, const void *command, size_t size) {
  for (unsigned i = 0; i < service->provider_count; i++)
    if (service->providers[i].ops.claims(service->providers[i].self, command, size)) return &service->providers[i];
  return NULL;
}

static trn_status find_provider(flight_rpc *rpc, const void *command, size_t size, const char *what, trn_error **error) {
  rpc->provider = provider_of(rpc->service, command, size);
  if (rpc->provider) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is none that this server knows", what);
}

static trn_status enter_descriptor(flight_rpc *rpc, const descriptor_message *descriptor, trn_error **error) {
  if (descriptor->type != ARROW__FLIGHT__PROTOCOL__FLIGHT_DESCRIPTOR__DESCRIPTOR_TYPE__CMD)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Descriptors of this server are commands, not paths");
  return find_provider(rpc, descriptor->cmd.data, descriptor->cmd.len, "The command of the descriptor", error);
}

static trn_status handle_get_flight_info(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const descriptor_message *descriptor = (descriptor_message *)request;
  trn_status status = enter_descriptor(rpc, descriptor, error);
  return status ? status : rpc->provider->ops.get_flight_info(rpc->provider->self, rpc, descriptor, error);
}

static trn_status handle_poll_flight_info(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const descriptor_message *descriptor = (descriptor_message *)request;
  trn_status status = enter_descriptor(rpc, descriptor, error);
  return status ? status : rpc->provider->ops.poll_flight_info(rpc->provider->self, rpc, descriptor, error);
}

static trn_status handle_get_schema(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const descriptor_message *descriptor = (descriptor_message *)request;
  trn_status status = enter_descriptor(rpc, descriptor, error);
  return status ? status : rpc->provider->ops.get_schema(rpc->provider->self, rpc, descriptor, error);
}

static trn_status handle_do_get(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const Arrow__Flight__Protocol__Ticket *ticket = (Arrow__Flight__Protocol__Ticket *)request;
  trn_status status = find_provider(rpc, ticket->ticket.data, ticket->ticket.len, "The ticket", error);
  if (status) return status;
  return rpc->provider->ops.do_get(rpc->provider->self, rpc, ticket->ticket.data, ticket->ticket.len, error);
}

/* Results are made by commands: there is nothing to list. */
static trn_status handle_list_flights(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  (void)request, (void)error;
  flight__rpc_finish(rpc);
  return TRN_OK;
}

/* ---- DoPut ---- */

static trn_status put_begin(flight_rpc *rpc, const flight_data *data, trn_error **error) {
  descriptor_message *descriptor = NULL;
  if (!data->has_descriptor)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The first message of a DoPut has no descriptor");
  trn_status status = flight__decode(rpc->arena, &arrow__flight__protocol__flight_descriptor__descriptor,
                                     data->descriptor.data, data->descriptor.size, &descriptor, error);
  if (!status) status = enter_descriptor(rpc, descriptor, error);
  if (!status && !rpc->provider->ops.put_open)
    status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "This command takes no data");
  if (!status)
    status = rpc->provider->ops.put_open(rpc->provider->self, rpc, descriptor->cmd.data, descriptor->cmd.len, &rpc->put,
                                         error);
  return status;
}

static trn_status put_message(flight_rpc *rpc, trn_slice message, trn_error **error) {
  flight_data data;
  trn_status status = flight__data_parse(message.data, message.size, &data, error);
  if (!status && !rpc->session) status = flight__session_enter(rpc, error);
  if (!status && !rpc->put) status = put_begin(rpc, &data, error);
  if (!status) status = rpc->provider->ops.put_data(rpc->provider->self, rpc->put, &data, error);
  return status;
}

static trn_status put_end(flight_rpc *rpc, trn_error **error) {
  if (!rpc->put) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A DoPut without a message");
  return rpc->provider->ops.put_end(rpc->provider->self, rpc->put, error);
}

/* ---- dispatch ---- */

/* Credentials are in the headers, as a rule; else in the payload of the first message that has one. */
static trn_status run_handshake(flight_rpc *rpc, trn_slice message, trn_error **error) {
  Arrow__Flight__Protocol__HandshakeRequest *request = NULL;
  trn_status status = flight__decode(rpc->arena, &arrow__flight__protocol__handshake_request__descriptor, message.data,
                                     message.size, &request, error);
  if (status || !request->payload.len) return status;
  status = flight__session_handshake(rpc, request->payload.data, request->payload.len, error);
  pthread_mutex_lock(&rpc->mutex);
  rpc->is_finished = !status;
  pthread_mutex_unlock(&rpc->mutex);
  return status;
}

/* A DoGet that brings no credentials, but a ticket which is one. */
static bool is_let_in(flight_rpc *rpc, trn_slice message) {
  Arrow__Flight__Protocol__Ticket *ticket;
  if (rpc->method->handle != handle_do_get || trn_call_metadata(rpc->call, "authorization", NULL) ||
      trn_call_metadata(rpc->call, "auth-token-bin", NULL) || trn_call_metadata(rpc->call, "cookie", NULL))
    return false;
  if (flight__decode(rpc->arena, rpc->method->request, message.data, message.size, &ticket, NULL)) return false;
  const flight_provider_entry *provider = provider_of(rpc->service, ticket->ticket.data, ticket->ticket.len);
  return provider && provider->ops.has_secret_tickets;
}

static trn_status run_message(flight_rpc *rpc, trn_slice message, trn_error **error) {
  ProtobufCMessage *request = NULL;
  if (rpc->method == &methods[METHOD_HANDSHAKE]) return run_handshake(rpc, message, error);
  if (rpc->method == &methods[METHOD_DO_EXCHANGE])
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "DoExchange is not part of what this server offers");
  if (rpc->method == &methods[METHOD_DO_PUT]) return put_message(rpc, message, error);
  trn_status status = is_let_in(rpc, message) ? TRN_OK : flight__session_enter(rpc, error);
  if (!status) status = flight__decode(rpc->arena, rpc->method->request, message.data, message.size, &request, error);
  if (!status) status = rpc->method->handle(rpc, request, error);
  return status;
}

static trn_status run_half_close(flight_rpc *rpc, trn_error **error) {
  if (rpc->method == &methods[METHOD_HANDSHAKE]) return flight__session_handshake(rpc, NULL, 0, error);
  if (rpc->method == &methods[METHOD_DO_EXCHANGE])
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "DoExchange is not part of what this server offers");
  if (rpc->method == &methods[METHOD_DO_PUT]) return put_end(rpc, error);
  return TRN_OK;
}

/* Gives the next thing that the worker does, or ends its turn. */
static bool next_event(flight_rpc *rpc, trn_slice *message, bool *is_half_close) {
  pthread_mutex_lock(&rpc->mutex);
  bool more = false;
  *is_half_close = false;
  *message = (trn_slice){0};
  if (rpc->is_finished || atomic_load(&rpc->gone)) {
    more = false;
  } else if (rpc->message_count) {
    *message = rpc->messages[0];
    rpc->messages[0] = rpc->messages[1];
    rpc->message_count--;
    more = true;
  } else if (rpc->is_half_closed && !rpc->half_close_done) {
    rpc->half_close_done = *is_half_close = true;
    more = true;
  }
  if (!more) rpc->is_running = false;
  pthread_mutex_unlock(&rpc->mutex);
  return more;
}

/* thread: worker. Takes a reference. */
static void rpc_run(void *argument) {
  flight_rpc *rpc = argument;
  trn_slice message;
  bool is_half_close;
  while (next_event(rpc, &message, &is_half_close)) {
    trn_error *error = NULL;
    trn_status status = TRN_OK;
    if (!rpc->arena && !(rpc->arena = trn__arena_create(0))) status = trn__no_memory(&error);
    trn_cancel *before = trn_cancel_work_for(rpc->cancel);
    if (!status) status = is_half_close ? run_half_close(rpc, &error) : run_message(rpc, message, &error);
    trn_cancel_work_for(before);
    if (message.release) message.release(message.owner);
    if (status) {
      flight__rpc_fail(rpc, status, error);
      pthread_mutex_lock(&rpc->mutex);
      rpc->is_finished = true;
      pthread_mutex_unlock(&rpc->mutex);
    } else if (!is_half_close && rpc->method->kind == TRN_METHOD_BIDI && !rpc->is_finished) {
      trn_call_recv(rpc->call);
    }
    trn_error_unref(error);
    trn__arena_unref(rpc->arena);
    rpc->arena = NULL;
  }
  flight_service *service = flight__service_ref(rpc->service);
  flight__rpc_unref(rpc);
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

static void rpc_schedule(flight_rpc *rpc) {
  pthread_mutex_lock(&rpc->mutex);
  bool start = !rpc->is_running && !rpc->is_finished;
  if (start) rpc->is_running = true;
  pthread_mutex_unlock(&rpc->mutex);
  if (!start) return;
  flight_service *service = rpc->service;
  bool entered = trn__gate_enter(&service->gate);
  trn_pool *pool = rpc->method->is_control ? service->control : service->pool;
  if (entered && trn__pool_submit(pool, rpc_run, flight__rpc_ref(rpc)) == TRN_OK) return;
  trn_call_finish(rpc->call, entered ? TRN_RESOURCE_EXHAUSTED : TRN_UNAVAILABLE,
                  entered ? "No worker thread can be started" : "The server is stopping", NULL, 0, NULL, 0);
  if (entered) {
    flight__rpc_unref(rpc);
    trn__gate_leave(&service->gate);
  }
}

static void on_open(trn_call *call, void *user) {
  flight_service *service = user;
  flight_rpc *rpc = calloc(1, sizeof *rpc);
  if (rpc && trn_cancel_create(&rpc->cancel)) {
    free(rpc);
    rpc = NULL;
  }
  if (rpc) {
    atomic_init(&rpc->refs, 1);
    atomic_init(&rpc->gone, false);
    pthread_mutex_init(&rpc->mutex, NULL);
    rpc->service = flight__service_ref(service);
    rpc->call = trn_call_ref(call);
    const char *path = trn_call_method(call)->path;
    for (size_t i = 0; i < METHOD_COUNT && !rpc->method; i++)
      if (strcmp(methods[i].path, path) == 0) rpc->method = &methods[i];
  }
  trn_call_set_user(call, rpc);
  if (!rpc) {
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
    return;
  }
  if (rpc->method == &methods[METHOD_HANDSHAKE] && trn_call_metadata(call, "authorization", NULL)) {
    /* Everything is there: a client may wait for the headers of the answer before it sends or closes anything. */
    rpc->is_half_closed = true;
    rpc_schedule(rpc);
  } else if (rpc->method->kind == TRN_METHOD_BIDI) {
    trn_call_recv(call);
  }
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  flight_rpc *rpc = user;
  (void)call;
  bool kept = false;
  if (rpc) {
    pthread_mutex_lock(&rpc->mutex);
    kept = rpc->message_count < sizeof rpc->messages / sizeof *rpc->messages;
    if (kept) rpc->messages[rpc->message_count++] = message;
    pthread_mutex_unlock(&rpc->mutex);
  }
  if (kept) {
    rpc_schedule(rpc);
  } else if (message.release) {
    message.release(message.owner);
  }
}

static void on_half_close(trn_call *call, void *user) {
  flight_rpc *rpc = user;
  (void)call;
  if (!rpc || rpc->method->kind != TRN_METHOD_BIDI) return;
  pthread_mutex_lock(&rpc->mutex);
  rpc->is_half_closed = true;
  pthread_mutex_unlock(&rpc->mutex);
  rpc_schedule(rpc);
}

static void on_writable(trn_call *call, void *user) {
  flight_rpc *rpc = user;
  (void)call;
  if (!rpc) return;
  pthread_mutex_lock(&rpc->mutex);
  const flight_events *events = rpc->events;
  void *events_user = rpc->events_user;
  pthread_mutex_unlock(&rpc->mutex);
  if (events && events->writable) events->writable(events_user);
}

static void rpc_gone(flight_rpc *rpc) {
  if (!rpc) return;
  pthread_mutex_lock(&rpc->mutex);
  bool was_gone = atomic_exchange(&rpc->gone, true);
  trn_cancel_request(rpc->cancel);
  const flight_events *events = rpc->events;
  void *user = rpc->events_user;
  pthread_mutex_unlock(&rpc->mutex);
  if (!was_gone && events) events->gone(user);
}

static void on_cancel(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  rpc_gone(user);
  flight__rpc_unref(user);
}

/* ---- timer ---- */

static void timer_run(void *argument);

void flight__need_timer(flight_service *service) {
  pthread_mutex_lock(&service->mutex);
  bool start = !service->has_timer && !service->gate.is_closed;
  if (start) service->has_timer = true;
  pthread_mutex_unlock(&service->mutex);
  if (!start) return;
  if (trn__pool_submit_after(service->control, SERVICE_SWEEP_MS, timer_run, flight__service_ref(service)) == TRN_OK) return;
  pthread_mutex_lock(&service->mutex); /* the next one tries again */
  service->has_timer = false;
  pthread_mutex_unlock(&service->mutex);
  flight__service_unref(service);
}

static void timer_run(void *argument) {
  flight_service *service = argument;
  pthread_mutex_lock(&service->mutex);
  service->has_timer = false;
  bool stopping = service->gate.is_closed;
  pthread_mutex_unlock(&service->mutex);
  if (!stopping) {
    for (unsigned i = 0; i < service->provider_count; i++)
      if (service->providers[i].ops.sweep) service->providers[i].ops.sweep(service->providers[i].self);
    flight__sweep_sessions(service);
    pthread_mutex_lock(&service->mutex);
    bool again = trn__map_count(service->sessions) > 0;
    pthread_mutex_unlock(&service->mutex);
    if (again) flight__need_timer(service);
  }
  flight__service_unref(service);
}

/* ---- the service ---- */

flight_service *flight__service_ref(flight_service *service) {
  atomic_fetch_add_explicit(&service->refs, 1, memory_order_relaxed);
  return service;
}

void flight__service_unref(flight_service *service) {
  if (!service || atomic_fetch_sub_explicit(&service->refs, 1, memory_order_acq_rel) != 1) return;
  for (unsigned i = 0; i < service->provider_count; i++)
    if (service->providers[i].ops.destroy) service->providers[i].ops.destroy(service->providers[i].self);
  trn__map_destroy(service->sessions, NULL);
  trn_authenticator_unref(service->authenticator);
  trn__gate_finish(&service->gate);
  pthread_mutex_destroy(&service->mutex);
  free(service);
}

bool flight__submit(flight_service *service, void (*run)(void *argument), void *argument) {
  return trn__pool_submit(service->pool, run, argument) == TRN_OK;
}

/* The routes are gone: no call is left (the host's promise). Waits for what runs, then for workers. */
static void service_destroy(void *argument) {
  flight_service *service = argument;
  for (unsigned i = 0; i < service->provider_count; i++)
    if (service->providers[i].ops.stop) service->providers[i].ops.stop(service->providers[i].self);
  trn__gate_close(&service->gate);
  trn__gate_wait(&service->gate);
  flight__close_all_sessions(service);
  trn__pool_destroy(service->pool);
  trn__pool_destroy(service->control);
  flight__service_unref(service);
}

static trn_status service_create(const flight_options *options, flight_service **out) {
  flight_service *service = calloc(1, sizeof *service);
  if (!service) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&service->refs, 1);
  pthread_mutex_init(&service->mutex, NULL);
  trn__gate_init(&service->gate, &service->mutex);
  service->session_idle_ms = options->session_idle_ms ? options->session_idle_ms : TRN_SESSION_IDLE_MS;
  service->authenticator = options->authenticator ? trn_authenticator_ref(options->authenticator) : NULL;
  service->allow_anonymous = options->allow_anonymous || !options->authenticator;
  service->sessions = trn__map_create();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  unsigned workers = options->workers ? options->workers : (unsigned)(cores > 0 ? cores : 1) + SERVICE_WORKERS_MIN;
  trn_status status = service->sessions ? trn__pool_create(workers, &service->pool) : TRN_RESOURCE_EXHAUSTED;
  if (!status) status = trn__pool_create(SERVICE_CONTROL_THREADS, &service->control);
  if (status) {
    trn__pool_destroy(service->pool);
    flight__service_unref(service);
  } else {
    *out = service;
  }
  return status;
}

trn_status flight__mount(trn_routes *routes, const flight_options *options, flight_service **out, trn_error **error) {
  const trn_method *mounted = trn_routes_find(routes, methods[0].path, strlen(methods[0].path));
  if (mounted && mounted->on_open == on_open) {
    *out = mounted->service;
    return TRN_OK;
  }
  flight_service *service = NULL;
  trn_status status = service_create(options, &service);
  if (status) return trn_error_set(error, status, NULL, "No memory or thread for the Flight service");
  trn_method table[METHOD_COUNT];
  for (size_t i = 0; i < METHOD_COUNT; i++)
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
                            .message_bytes_max = TRN_FLIGHT_MESSAGE_BYTES_MAX,
                            .authenticates = service->authenticator != NULL};
  if (trn_routes_own(routes, service_destroy, service)) {
    service_destroy(service);
    return trn__no_memory(error);
  }
  *out = service;
  return trn_routes_add(routes, table, METHOD_COUNT, error); /* what fails is the routes' all the same */
}

trn_status flight__add_provider(flight_service *service, const flight_provider *ops, void *self, trn_error **error) {
  if (service->provider_count == FLIGHT_PROVIDERS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The Flight service has %d providers already",
                         FLIGHT_PROVIDERS_MAX);
  for (unsigned i = 0; i < service->provider_count; i++)
    if (strcmp(service->providers[i].ops.name, ops->name) == 0)
      return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The Flight service has %s already", ops->name);
  flight_provider_entry *entry = &service->providers[service->provider_count];
  memcpy(&entry->ops, ops, ops->struct_size < sizeof entry->ops ? ops->struct_size : sizeof entry->ops);
  entry->self = self;
  entry->index = service->provider_count++;
  return TRN_OK;
}
