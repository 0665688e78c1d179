/* Results: the partitions of a job by Flight's DoGet, from the executor that has them or through the scheduler's proxy.
 */
#include "backend/ballista/client.h"

#include <inttypes.h>
#include <stdio.h>

struct trn_ballista_fetch {
  atomic_size_t refs; /* the caller's, and the call's until its end */
  trn_ballista_client *client;
  trn_channel *channel;
  trn_client_call *call; /* set before anything is asked for */
  trn_ballista_fetch_handlers handlers;
  void *user;
  trn_status status; /* of a message that cannot be read */
  trn_error *error;
  char *who; /* "the output of job J (stage 2, partition 0) at executor E (host:port)" */
};

void trn__ballista_fetch_unref(trn_ballista_fetch *fetch) {
  if (!fetch || atomic_fetch_sub_explicit(&fetch->refs, 1, memory_order_acq_rel) != 1) return;
  trn_client_call_unref(fetch->call);
  trn_channel_unref(fetch->channel);
  trn_error_unref(fetch->error);
  trn__ballista_client_unref(fetch->client);
  free(fetch->who);
  free(fetch);
}

void trn__ballista_fetch_next(trn_ballista_fetch *fetch) {
  trn_client_call_recv(fetch->call);
}

void trn__ballista_fetch_cancel(trn_ballista_fetch *fetch) {
  trn_client_call_cancel(fetch->call);
}

/* FlightData { data_header = 2, data_body = 1000 }: both stay where they are. */
static bool read_flight_data(const trn_slice *bytes, trn_ballista_message *out) {
  trn_wire_reader r = trn__wire_reader(bytes->data, bytes->size);
  trn_wire_field f;
  *out = (trn_ballista_message){.bytes = *bytes};
  while (trn__wire_next(&r, &f)) {
    if (f.type != 2) continue;
    if (f.number == 2) out->header = f.bytes.data, out->header_size = f.bytes.size;
    if (f.number == 1000) out->body = f.bytes.data, out->body_size = f.bytes.size;
  }
  return !r.is_bad && out->header_size > 0;
}

static void on_message(trn_client_call *call, void *user, trn_slice given) {
  trn_ballista_fetch *fetch = user;
  trn_slice bytes = trn__ballista_own(given);
  trn_ballista_message message;
  if (fetch->status) {
    if (bytes.release) bytes.release(bytes.owner);
    return;
  }
  if (given.size && !bytes.data) {
    fetch->status = trn__no_memory(&fetch->error);
  } else if (!read_flight_data(&bytes, &message)) {
    fetch->status = trn_error_set(&fetch->error, TRN_DATA_LOSS, NULL, "%s is no Arrow data", fetch->who);
    if (bytes.release) bytes.release(bytes.owner);
  } else {
    fetch->handlers.on_message(fetch->user, message);
    return;
  }
  trn_client_call_cancel(call);
}

static void on_done(trn_client_call *call, void *user, const trn_client_result *result) {
  trn_ballista_fetch *fetch = user;
  (void)call;
  if (!fetch->status && result->status)
    fetch->status = trn__ballista_call_error(result->status, result->message, fetch->who, &fetch->error);
  fetch->handlers.on_done(fetch->user, fetch->status, fetch->error);
  trn__ballista_fetch_unref(fetch);
}

/* Action { fetch_partition = 3 { job_id = 1, stage_id = 2, partition_id = 3, host = 5, port = 6, file_id = 7, layout =
 * 9 } }, as the field `ticket = 1` of a Ticket. */
static trn_strbuf ticket_of(const trn_ballista_location *l) {
  trn_strbuf fetch = {0}, action = {0}, out = {0};
  trn__wire_put_text(&fetch, 1, l->job_id);
  trn__wire_put_number(&fetch, 2, l->stage_id);
  trn__wire_put_number(&fetch, 3, l->partition_id);
  trn__wire_put_text(&fetch, 5, l->host);
  trn__wire_put_number(&fetch, 6, l->port);
  if (l->has_file_id) trn__wire_put_number(&fetch, 7, l->file_id);
  if (l->is_sort_shuffle) trn__wire_put_number(&fetch, 9, 1);
  trn__wire_put_message(&action, 3, &fetch);
  trn__wire_put_message(&out, 1, &action);
  return out;
}

/* Where to ask: gives text (free), NULL: no memory. */
static char *address_of(const trn_ballista_client *client, const trn_ballista_job *job,
                        const trn_ballista_location *l) {
  bool is_v6 = strchr(l->host, ':') && l->host[0] != '[';
  char *out = NULL;
  if (job->is_proxied) return strdup(*job->proxy ? job->proxy : trn__ballista_client_target(client));
  return asprintf(&out, is_v6 ? "[%s]:%u" : "%s:%u", l->host, l->port) < 0 ? NULL : out;
}

static char *who_of(const trn_ballista_location *l, const char *address) {
  char *out = NULL;
  int size = asprintf(&out, "the output of job %s (stage %" PRIu32 ", partition %" PRIu32 ") at executor %s (%s)",
                      l->job_id, l->stage_id, l->partition_id, l->executor_id, address);
  return size < 0 ? NULL : out;
}

/* `address`: of the executor or the proxy; NULL: the scheduler is the proxy. */
static trn_status start(trn_ballista_fetch *fetch, const char *address, trn_error **error) {
  static const trn_client_handlers handlers = {
      .struct_size = sizeof handlers, .on_message = on_message, .on_done = on_done};
  trn_client_request request = {.struct_size = sizeof request,
                                .path = "/arrow.flight.protocol.FlightService/DoGet",
                                .kind = TRN_METHOD_SERVER_STREAM,
                                .handlers = &handlers,
                                .user = fetch};
  trn_status status = TRN_OK;
  if (address)
    status = trn__ballista_channel(fetch->client, address, &fetch->channel, error);
  else
    fetch->channel = trn__ballista_scheduler(fetch->client);
  if (!status) status = trn_client_call_start(fetch->channel, &request, &fetch->call, error);
  return status;
}

trn_status trn__ballista_fetch_open(trn_ballista_client *client, trn_ballista_job *job,
                                    const trn_ballista_location *location, const trn_ballista_fetch_handlers *handlers,
                                    void *user, trn_ballista_fetch **out, trn_error **error) {
  trn_ballista_fetch *fetch = calloc(1, sizeof *fetch);
  char *address = address_of(client, job, location);
  trn_strbuf ticket = ticket_of(location);
  trn_status status = fetch && address && !ticket.failed ? TRN_OK : trn__no_memory(error);
  *out = NULL;
  if (!status) {
    atomic_init(&fetch->refs, 2);
    fetch->client = trn__ballista_client_ref(client);
    fetch->handlers = *handlers;
    fetch->user = user;
    fetch->who = who_of(location, address);
    bool is_at_scheduler = job->is_proxied && !*job->proxy;
    status = fetch->who ? start(fetch, is_at_scheduler ? NULL : address, error) : trn__no_memory(error);
    if (status) atomic_store(&fetch->refs, 1);
  }
  free(address);
  if (status) {
    trn__strbuf_finish(&ticket);
    if (fetch && fetch->client)
      trn__ballista_fetch_unref(fetch);
    else
      free(fetch);
    return status;
  }
  trn_slice slice = {ticket.data, ticket.size, free, ticket.data};
  trn_client_call_send(fetch->call, &slice, 1, TRN_SEND_MORE);
  trn_client_call_half_close(fetch->call);
  *out = fetch;
  return TRN_OK;
}
