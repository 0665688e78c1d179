/* Results that stay where a cluster left them, for sessions that ask for it (the option `locations` = "executors"): an endpoint for
 * each part, with the executor's address and Ballista's ticket. The operation lives as long as the statement: its end has the
 * cluster clean up. Whoever cannot tell where a result lies (the embedded backend) gives it by way of this server, as always. */
#include "ballista.pb-c.h"
#include "frontend/flightsql/flightsql.h"

enum { HANDED_POLL_MS = 5, HANDED_POLL_MS_MAX = 100 };

/* A call that waits until the places are known. */
typedef struct handing {
  flight_rpc *rpc;                /* one reference until it is answered; the call owns the rest */
  flightsql_statement *statement; /* one reference */
  trn_operation *operation;       /* one reference */
  char *command;
  size_t command_size;
  unsigned delay_ms;
  atomic_bool is_gone, is_answered;
} handing;

typedef struct collected {
  trn_arena *arena;
  trn_vec places; /* flightsql_part */
  int64_t rows, bytes; /* -1: not known */
  bool failed;
} collected;

static void drop(void *user) {
  handing *h = user;
  flightsql__statement_unref(h->statement);
  trn_operation_unref(h->operation);
  free(h->command);
  free(h);
}

/* Nobody waits: the query is of no use to anybody. */
static void gone(void *user) {
  handing *h = user;
  atomic_store(&h->is_gone, true);
  if (!atomic_load(&h->is_answered)) trn_operation_cancel(h->operation); /* a call that is over has gone, too */
}

static void end(handing *h) {
  flight_rpc *rpc = h->rpc;
  flight_service *service = flight__service_ref(rpc->service);
  flight__rpc_unref(rpc); /* `h` may go with it */
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

/* ---- places ---- */

static bool put_ticket(trn_arena *arena, const trn_result_location *at, ProtobufCBinaryData *out) {
  Ballista__Protobuf__Action action = BALLISTA__PROTOBUF__ACTION__INIT;
  Ballista__Protobuf__FetchPartition fetch = BALLISTA__PROTOBUF__FETCH_PARTITION__INIT;
  fetch.job_id = (char *)at->job_id;
  fetch.stage_id = at->stage_id;
  fetch.partition_id = at->partition_id;
  fetch.host = (char *)at->host;
  fetch.port = at->port;
  if (at->has_file_id) {
    fetch.has_file_id_case = BALLISTA__PROTOBUF__FETCH_PARTITION__HAS_FILE_ID_FILE_ID;
    fetch.file_id = at->file_id;
  }
  if (at->is_sort_shuffle) fetch.layout = BALLISTA__PROTOBUF__SHUFFLE_LAYOUT__SHUFFLE_LAYOUT_SORT;
  action.action_type_case = BALLISTA__PROTOBUF__ACTION__ACTION_TYPE_FETCH_PARTITION;
  action.fetch_partition = &fetch;
  out->len = ballista__protobuf__action__get_packed_size(&action);
  out->data = trn__arena_alloc(arena, out->len);
  if (out->data) ballista__protobuf__action__pack(&action, out->data);
  return out->data != NULL;
}

static void collect(void *user, const trn_result_location *at) {
  collected *all = user;
  flightsql_part *part = all->failed ? NULL : TRN_NEW(all->arena, flightsql_part);
  if (part) part->uri = trn__arena_printf(all->arena, strchr(at->host, ':') ? "grpc://[%s]:%u" : "grpc://%s:%u", at->host, at->port);
  if (!part || !part->uri || !put_ticket(all->arena, at, &part->ticket) || !trn__vec_push(&all->places, part)) {
    all->failed = true;
    return;
  }
  all->rows = all->rows < 0 || at->rows < 0 ? -1 : all->rows + at->rows;
  all->bytes = all->bytes < 0 || at->bytes < 0 ? -1 : all->bytes + at->bytes;
}

static trn_status answer(handing *h, const collected *all, trn_error **error) {
  flightsql_statement *statement = h->statement;
  atomic_store(&h->is_answered, true);
  pthread_mutex_lock(&statement->mutex);
  statement->held = trn_operation_ref(h->operation);
  pthread_mutex_unlock(&statement->mutex);
  flightsql__statement_ran(statement, h->operation); /* what is left of it may expire */
  flightsql__statement_renew(statement);
  const flightsql_info info = {.command = {h->command, h->command_size},
                               .statement = statement,
                               .parts = (flightsql_part *const *)all->places.items,
                               .part_count = all->places.count,
                               .is_complete = true,
                               .rows = all->rows,
                               .bytes = all->bytes,
                               .expires_in_ms = statement->session->service->result_ms};
  return flightsql__reply_info(h->rpc, &info, error);
}

/* Its rows come through here: one endpoint, whose DoGet runs it again. */
static trn_status answer_plainly(handing *h, trn_error **error) {
  trn_operation_cancel(h->operation);
  flightsql__statement_ran(h->statement, h->operation);
  const flightsql_info info = {.command = {h->command, h->command_size},
                               .statement = h->statement,
                               .expires_in_ms = h->statement->session->service->result_ms};
  return flightsql__reply_info(h->rpc, &info, error);
}

/* thread: worker */
static void ask(void *argument) {
  handing *h = argument;
  trn_error *error = NULL;
  collected all = {.arena = trn__arena_create(0)};
  trn_status status = atomic_load(&h->is_gone) ? TRN_CANCELLED
                      : !all.arena             ? trn__no_memory(&error)
                                               : trn_operation_locations(h->operation, collect, &all, &error);
  bool waits = status == TRN_FAILED_PRECONDITION;
  if (waits) {
    unsigned next = h->delay_ms + h->delay_ms / 2;
    h->delay_ms = next < HANDED_POLL_MS_MAX ? next : HANDED_POLL_MS_MAX;
    if (trn__pool_submit_after(h->rpc->service->control, h->delay_ms, ask, h)) {
      waits = false;
      status = TRN_RESOURCE_EXHAUSTED;
    }
  } else if (status == TRN_UNIMPLEMENTED) {
    trn_error_unref(error);
    error = NULL;
    status = answer_plainly(h, &error);
  } else if (!status) {
    status = all.failed ? trn__no_memory(&error) : answer(h, &all, &error);
  }
  trn__vec_finish(&all.places);
  trn__arena_unref(all.arena);
  if (status && !waits) {
    trn_operation_cancel(h->operation);
    flightsql__statement_ran(h->statement, h->operation);
    flightsql__statement_close(h->statement);
    flight__rpc_fail(h->rpc, status, error);
  }
  trn_error_unref(error);
  if (!waits) end(h);
}

trn_status flightsql__handed_start(flightsql_statement *statement, flight_rpc *rpc, trn_str command, trn_error **error) {
  static const flight_events events = {NULL, gone, drop};
  trn_operation *operation = NULL;
  trn_status status = flightsql__statement_begin(statement, rpc, true, &operation, error);
  if (status) return status;
  handing *h = calloc(1, sizeof *h);
  if (h) h->command = malloc(command.size + 1);
  status = h && h->command ? flightsql__statement_publish(statement, error) : trn__no_memory(error);
  if (!status && !trn__gate_enter(&rpc->service->gate)) {
    flightsql__statement_close(statement);
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "The server is stopping");
  }
  if (status) {
    trn_operation_cancel(operation);
    flightsql__statement_ran(statement, operation);
    trn_operation_unref(operation);
    if (h) free(h->command);
    free(h);
    return status;
  }
  memcpy(h->command, command.data, command.size);
  h->command_size = command.size;
  h->statement = flightsql__statement_ref(statement);
  h->operation = operation;
  h->delay_ms = HANDED_POLL_MS;
  h->rpc = flight__rpc_ref(rpc);
  flight__rpc_attach(rpc, &events, h);
  if (!flight__submit(rpc->service, ask, h)) {
    trn_operation_cancel(operation);
    flightsql__statement_ran(statement, operation);
    flightsql__statement_close(statement);
    flight__rpc_fail(rpc, TRN_RESOURCE_EXHAUSTED, NULL);
    end(h);
  }
  return TRN_OK;
}
