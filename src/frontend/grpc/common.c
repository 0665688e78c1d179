#include "frontend/grpc/grpc.h"
#include "frontend/wire/wire.h"

trn_str grpc__service_of(const trn_method *method) {
  const char *slash = strrchr(method->path, '/');
  return (trn_str){method->path + 1, slash > method->path ? (size_t)(slash - method->path) - 1 : 0};
}

static bool same(trn_str a, trn_str b) {
  return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

trn_str grpc__service_at(const trn_routes *routes, size_t index) {
  size_t seen = 0;
  trn_str before = {NULL, 0};
  for (size_t i = 0; i < trn_routes_count(routes); i++) { /* a frontend adds its methods together */
    trn_str service = grpc__service_of(trn_routes_at(routes, i));
    if (before.data && same(service, before)) continue;
    before = service;
    bool is_first = true;
    for (size_t k = 0; k < i && is_first; k++) is_first = !same(service, grpc__service_of(trn_routes_at(routes, k)));
    if (is_first && seen++ == index) return service;
  }
  return (trn_str){NULL, 0};
}

bool grpc__has_service(const trn_routes *routes, trn_str name) {
  for (size_t i = 0; i < trn_routes_count(routes); i++)
    if (same(name, grpc__service_of(trn_routes_at(routes, i)))) return true;
  return false;
}

bool grpc__next_field(const uint8_t **at, const uint8_t *end, uint64_t *number, trn_str *value) {
  uint64_t tag, size;
  *number = 0;
  if (!trn__wire_varint(at, end, &tag)) return false;
  size_t fixed = tag % 8 == 1 ? 8 : tag % 8 == 5 ? 4 : 0;
  if (tag % 8 == 0) return trn__wire_varint(at, end, &size);
  if (fixed && fixed > (size_t)(end - *at)) return false;
  *at += fixed;
  if (fixed) return true;
  if (tag % 8 != 2 || !trn__wire_varint(at, end, &size) || size > (size_t)(end - *at)) return false;
  *number = tag >> 3;
  *value = (trn_str){(const char *)*at, (size_t)size};
  *at += size;
  return true;
}

trn_send_result grpc__send(trn_call *call, trn_strbuf *message) {
  trn_send_result result = TRN_SEND_CLOSED;
  if (message->failed) {
    trn__strbuf_finish(message);
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
    return result;
  }
  const trn_slice slice = {message->data ? message->data : "", message->size, message->data ? free : NULL,
                           message->data};
  *message = (trn_strbuf){0};
  return trn_call_send(call, &slice, 1, 0);
}
