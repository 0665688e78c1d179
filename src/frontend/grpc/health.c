/* grpc.health.v1.Health: a server that answers serves; a service is known when the routes have it. Who is not known may
 * ask too: whoever restarts servers has no credentials. */
#include "core/varint.h"
#include "frontend/grpc/grpc.h"

#define HEALTH_PATH "/grpc.health.v1.Health/"
enum { SERVING = 1, SERVICE_UNKNOWN = 3 };
enum { HEALTH_MESSAGE_BYTES_MAX = 4096 };

/* HealthCheckRequest { service = 1 } */
static bool read_service(const trn_slice *message, trn_str *out) {
  const uint8_t *at = message->data, *end = message->size ? at + message->size : at;
  *out = (trn_str){"", 0};
  while (message->size && at != end) {
    uint64_t number;
    trn_str value;
    if (!grpc__next_field(&at, end, &number, &value)) return false;
    if (number == 1) *out = value;
  }
  return true;
}

static void put_status(trn_strbuf *out, int status) {
  trn__strbuf_putc(out, 1 << 3);
  trn__strbuf_putc(out, (char)status);
}

static void finish(trn_call *call, trn_status status, const char *text) {
  trn_call_finish(call, status, text, NULL, 0, NULL, 0);
}

/* Check and Watch: the whole server ("") or one service. */
static void on_check(trn_call *call, void *user, trn_slice message) {
  const trn_routes *routes = user;
  bool watches = trn_call_method(call)->kind == TRN_METHOD_SERVER_STREAM;
  trn_str service;
  trn_strbuf reply = {0};
  bool good = read_service(&message, &service);
  bool known = good && (!service.size || grpc__has_service(routes, service));
  if (message.release) message.release(message.owner);
  if (!good) {
    finish(call, TRN_INVALID_ARGUMENT, "Malformed message: grpc.health.v1.HealthCheckRequest");
  } else if (!known && !watches) {
    finish(call, TRN_NOT_FOUND, "There is no such service");
  } else {
    put_status(&reply, known ? SERVING : SERVICE_UNKNOWN);
    bool sent = grpc__send(call, &reply) != TRN_SEND_CLOSED;
    if (sent && !watches) finish(call, TRN_OK, NULL);
    /* What is served does not change while the routes live: a watch hears no more, and ends with its call. */
  }
}

/* HealthListResponse { map<string, HealthCheckResponse> statuses = 1 } */
static void put_entry(trn_strbuf *out, trn_str name) {
  trn_strbuf entry = {0}, status = {0};
  put_status(&status, SERVING);
  trn__strbuf_field(&entry, 1, name.data, name.size);
  trn__strbuf_field(&entry, 2, status.data, status.size);
  trn__strbuf_field(out, 1, entry.data, entry.size);
  out->failed |= entry.failed || status.failed;
  trn__strbuf_finish(&entry);
  trn__strbuf_finish(&status);
}

static void on_list(trn_call *call, void *user, trn_slice message) {
  const trn_routes *routes = user;
  trn_strbuf reply = {0};
  if (message.release) message.release(message.owner);
  put_entry(&reply, (trn_str){"", 0});
  trn_str name;
  for (size_t i = 0; (name = grpc__service_at(routes, i)).data; i++) put_entry(&reply, name);
  if (grpc__send(call, &reply) != TRN_SEND_CLOSED) finish(call, TRN_OK, NULL);
}

static void on_done(trn_call *call, void *user) {
  (void)call, (void)user;
}

static trn_status health_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  const trn_method shape = {.struct_size = sizeof shape,
                            .kind = TRN_METHOD_UNARY,
                            .on_message = on_check,
                            .on_done = on_done,
                            .service = routes,
                            .message_bytes_max = HEALTH_MESSAGE_BYTES_MAX,
                            .authenticates = true};
  trn_method methods[] = {shape, shape, shape};
  (void)self, (void)backend;
  methods[0].path = HEALTH_PATH "Check";
  methods[1].path = HEALTH_PATH "Watch";
  methods[1].kind = TRN_METHOD_SERVER_STREAM;
  methods[2].path = HEALTH_PATH "List";
  methods[2].on_message = on_list;
  return trn_routes_add(routes, methods, sizeof methods / sizeof *methods, error);
}

trn_status trn_health_frontend_create(trn_frontend **out) {
  static const trn_frontend_ops ops = {.struct_size = sizeof ops, .do_register = health_register};
  return trn_frontend_create(&ops, NULL, out);
}
