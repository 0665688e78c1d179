/* A request that outlives the call that brought it. Internal to src/layer. */
#ifndef TRN_LAYER_REQUEST_H
#define TRN_LAYER_REQUEST_H
#include "layer/layer.h"

/* Copies texts, takes a reference to the plan. False: no memory; to be finished all the same. */
bool trn__request_copy(trn_execute_request *out, const trn_execute_request *request);
void trn__request_finish(trn_execute_request *request);

#endif
