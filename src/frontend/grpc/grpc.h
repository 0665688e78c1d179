/* What gRPC's own small services share: they know the routes that they are mounted on, and answer on the host's thread.
 * Internal. */
#ifndef TRN_FRONTEND_GRPC_GRPC_H
#define TRN_FRONTEND_GRPC_GRPC_H
#include <trunnion/call.h>
#include <trunnion/frontend.h>

#include "core/core.h"

/* The name of the service that a method belongs to: "package.Service" of "/package.Service/Method". */
trn_str grpc__service_of(const trn_method *method);
/* The name of the `index`-th service of the routes, each once, in the order of the routes; {NULL, 0}: there are no
 * more. */
trn_str grpc__service_at(const trn_routes *routes, size_t index);
bool grpc__has_service(const trn_routes *routes, trn_str name);

/* One field of a message from outside: bytes, text or message. False: malformed. Fields of other kinds give number 0.
 */
bool grpc__next_field(const uint8_t **at, const uint8_t *end, uint64_t *number, trn_str *value);
/* Sends what the buffer holds, which is finished. FULL and CLOSED as trn_call_send; out of memory ends the call. */
trn_send_result grpc__send(trn_call *call, trn_strbuf *message);

#endif
