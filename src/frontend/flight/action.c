/* DoAction and ListActions: each action is a provider's row. */
#include "frontend/flight/flight.h"

static const flight_action *find_action(flight_rpc *rpc, const char *type) {
  for (unsigned i = 0; i < rpc->service->provider_count; i++) {
    const flight_provider_entry *provider = &rpc->service->providers[i];
    for (size_t j = 0; j < provider->ops.action_count; j++) {
      if (strcmp(provider->ops.actions[j].type, type) != 0) continue;
      rpc->provider = provider;
      return &provider->ops.actions[j];
    }
  }
  return NULL;
}

trn_status flight__handle_do_action(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const Arrow__Flight__Protocol__Action *message = (Arrow__Flight__Protocol__Action *)request;
  const flight_action *action = find_action(rpc, message->type);
  if (!action)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "There is no action '%.100s'; ListActions names them",
                         message->type);
  return action->run(rpc->provider->self, rpc, message->body.data, message->body.len, error);
}

trn_status flight__handle_list_actions(flight_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  (void)request;
  trn_status status = TRN_OK;
  for (unsigned i = 0; i < rpc->service->provider_count; i++) {
    const flight_provider *ops = &rpc->service->providers[i].ops;
    for (size_t j = 0; j < ops->action_count && !status; j++) {
      Arrow__Flight__Protocol__ActionType type = ARROW__FLIGHT__PROTOCOL__ACTION_TYPE__INIT;
      type.type = (char *)ops->actions[j].type;
      type.description = (char *)ops->actions[j].description;
      status = flight__rpc_send(rpc, &type.base, error);
    }
  }
  if (!status) flight__rpc_finish(rpc);
  return status;
}
