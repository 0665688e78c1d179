/* What the files of the client share. */
#ifndef TRN_BACKEND_BALLISTA_CLIENT_H
#define TRN_BACKEND_BALLISTA_CLIENT_H
#include "backend/ballista/rpc.h"
#include "backend/ballista/wire.h"

#define TRN_BALLISTA_VERSION_HEADER "ballista-version"

/* Gives a reference to the channel of the executor (or proxy) at `address`; made when it is first used. */
trn_status trn__ballista_channel(trn_ballista_client *client, const char *address, trn_channel **out,
                                 trn_error **error);
/* A reference to the scheduler's own. */
trn_channel *trn__ballista_scheduler(trn_ballista_client *client);
unsigned trn__ballista_timeout_ms(const trn_ballista_client *client);
/* An error of a call: what it said, and who. Gives `*error`; returns the status. */
trn_status trn__ballista_call_error(trn_status status, const char *message, const char *who, trn_error **error);
/* JSON text of a GetJobMetricsResult. DATA_LOSS: it is none. */
trn_status trn__ballista_metrics_parse(const void *data, size_t size, trn_strbuf *out, trn_error **error);
/* The message's bytes with an owner: copies what is only borrowed. data NULL: no memory. Takes. */
trn_slice trn__ballista_own(trn_slice message);

#endif
