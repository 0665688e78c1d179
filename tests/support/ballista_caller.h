/* A Ballista client over inproc, for tests of the frontend without a network or an engine: plans in a format of the
 * test's, "test.range" (a count in decimal), over the scripted backend. Everything is static: one program includes it.
 */
#ifndef TESTS_SUPPORT_BALLISTA_CALLER_H
#define TESTS_SUPPORT_BALLISTA_CALLER_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trunnion/build.h>

#include "arrow/ipc_read.h"
#include "ballista.pb-c.h"
#include "support/flight_client.h"
#include <trunnion/decoder.h>

#define BALLISTA_TEST_PATH "/ballista.protobuf.SchedulerGrpc/"

typedef struct ballista_caller {
  flight_client flight; /* the client of DoGet; its parts are the whole's */
  trn_registry *registry;
  const char *version, *identity; /* of the calls */
  char text[512];                 /* of the last failure */
  char server_version[32];        /* of the last answer's headers */
} ballista_caller;

/* ---- plans ---- */

static const trn_rel *caller_range(trn_edit *edit, int64_t count) {
  return trn_edit_range(edit, 0, count, 1);
}

static trn_status caller_build(void *user, trn_edit *edit, const trn_rel **root, const char *const **names,
                               trn_error **error) {
  static const char *const id[] = {"id"};
  (void)error;
  *root = caller_range(edit, *(int64_t *)user);
  *names = id;
  return *root ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

static void (*caller_decoding)(int64_t count); /* what decoding waits for; NULL: nothing */

static trn_status caller_decode(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                                trn_error **error) {
  char text[32] = "";
  (void)self, (void)session;
  if (input->size == 0 || input->size >= sizeof text)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "not a count of rows");
  memcpy(text, input->data, input->size);
  char *end;
  int64_t count = strtoll(text, &end, 10);
  if (*end) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "not a count of rows: '%s'", text);
  if (caller_decoding) caller_decoding(count);
  for (size_t i = 0; i < input->option_count; i++)
    if (strcmp(input->options[i].key, "twice") == 0) count *= 2;
  return trn_plan_build(caller_build, &count, out, error);
}

/* ---- life ---- */

/* `backend`: borrowed. */
static inline trn_status caller_start_on(ballista_caller *c, const trn_ballista_frontend_options *given,
                                         trn_backend *backend) {
  static const trn_decoder_ops decoder = {.struct_size = sizeof decoder, .decode = caller_decode};
  trn_ballista_frontend_options options = {0};
  trn_frontend *frontend = NULL;
  c->version = "55.0.0";
  if (given) options = *given;
  options.struct_size = sizeof options;
  trn_status status = trn_registry_create(&c->registry);
  if (!status) status = trn_registry_add_decoder(c->registry, "test.range", &decoder, NULL, NULL);
  options.registry = c->registry;
  if (!status) status = trn_routes_create(&c->flight.routes);
  if (!status) status = trn_ballista_frontend_create(&options, &frontend);
  if (!status) status = trn_frontend_register(frontend, c->flight.routes, backend, NULL);
  if (!status) status = trn__inproc_create(c->flight.routes, &c->flight.inproc);
  trn_frontend_destroy(frontend);
  return status;
}

static inline trn_status caller_start(ballista_caller *c, const trn_ballista_frontend_options *options) {
  trn_backend *backend = NULL;
  memset(c, 0, sizeof *c);
  trn_status status = trn__scripted_create(TRN_SCRIPTED_ARRAYS, &c->flight.scripted, &backend);
  if (!status) status = caller_start_on(c, options, backend);
  trn_backend_unref(backend);
  return status;
}

static inline void caller_stop(ballista_caller *c) {
  trn__inproc_destroy(c->flight.inproc);
  trn_routes_destroy(c->flight.routes);
  if (c->flight.scripted) trn__scripted_unref(c->flight.scripted);
  trn_registry_destroy(c->registry);
}

/* ---- calls ---- */

static inline void caller_headers(ballista_caller *c, const trn_metadata *initial, size_t count) {
  c->server_version[0] = 0;
  for (size_t i = 0; i < count; i++)
    if (strcmp(initial[i].key, "ballista-version") == 0)
      snprintf(c->server_version, sizeof c->server_version, "%.*s", (int)initial[i].size,
               (const char *)initial[i].value);
}

static inline trn_status caller_call_bytes(ballista_caller *c, const char *method, const void *data, size_t size,
                                           trn_inproc_reply *reply) {
  char path[128];
  const trn_metadata version = {"ballista-version", c->version, c->version ? strlen(c->version) : 0};
  const trn_slice message = {.data = data, .size = size};
  snprintf(path, sizeof path, "%s%s", BALLISTA_TEST_PATH, method);
  const trn_inproc_request request = {
      .path = path, .metadata = &version, .metadata_count = c->version != NULL, .identity = c->identity};
  memset(reply, 0, sizeof *reply);
  trn_status status = trn__inproc_invoke(c->flight.inproc, &request, &message, 1, reply);
  if (status) reply->status = status;
  snprintf(c->text, sizeof c->text, "%s", reply->message ? reply->message : "");
  caller_headers(c, reply->initial, reply->initial_count);
  return reply->status;
}

static inline trn_status caller_call(ballista_caller *c, const char *method, const void *message,
                                     trn_inproc_reply *reply) {
  trn_strbuf bytes = {0};
  flight__message_put(&bytes, message);
  trn_status status = caller_call_bytes(c, method, bytes.data, bytes.size, reply);
  trn__strbuf_finish(&bytes);
  return status;
}

/* A query of `count` rows, in bytes. */
static inline trn_strbuf caller_query(const char *payload, const char *job_name) {
  Ballista__Protobuf__ExecuteQueryParams params;
  ballista__protobuf__execute_query_params__init(&params);
  Ballista__Protobuf__EncodedQuery query = BALLISTA__PROTOBUF__ENCODED_QUERY__INIT;
  Ballista__Protobuf__KeyValuePair pair = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__INIT, none = pair,
                                   *pairs[] = {&pair, &none};
  trn_strbuf out = {0};
  query.format = (char *)"test.range";
  query.payload = (ProtobufCBinaryData){strlen(payload), (uint8_t *)payload};
  params.query_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_ENCODED_QUERY;
  params.encoded_query = &query;
  params.session_id = (char *)"session-1";
  params.operation_id = (char *)"operation-1";
  pair.key = (char *)"ballista.job.name";
  pair.has_value_case = BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE;
  pair.value = (char *)job_name;
  none.key = (char *)"datafusion.execution.time_zone";
  params.settings = pairs;
  params.n_settings = job_name ? 2 : 0;
  flight__message_put(&out, &params.base);
  return out;
}

/* What a job's status says. */
typedef struct caller_status {
  trn_status status; /* of the call */
  int which;         /* of JobStatus; 0: the job is not known */
  char job_id[64], name[64], error[256];
  bool local, has_location;
  char host[64];                             /* of the first location */
  Ballista__Protobuf__FetchPartition ticket; /* as of the first location, but for the job's id */
  int64_t rows;
  size_t messages;
} caller_status;

static inline void caller_read_status(const void *data, size_t size, caller_status *out) {
  Ballista__Protobuf__GetJobStatusResult *result = ballista__protobuf__get_job_status_result__unpack(NULL, size, data);
  if (!result) {
    out->status = TRN_DATA_LOSS;
    return;
  }
  out->local =
      result->flight_proxy_case == BALLISTA__PROTOBUF__GET_JOB_STATUS_RESULT__FLIGHT_PROXY_LOCAL && result->local;
  out->which = result->status ? (int)result->status->status_case : 0;
  if (result->status) {
    snprintf(out->job_id, sizeof out->job_id, "%s", result->status->job_id);
    snprintf(out->name, sizeof out->name, "%s", result->status->job_name);
  }
  if (out->which == BALLISTA__PROTOBUF__JOB_STATUS__STATUS_FAILED)
    snprintf(out->error, sizeof out->error, "%s", result->status->failed->error);
  if (out->which == BALLISTA__PROTOBUF__JOB_STATUS__STATUS_SUCCESSFUL &&
      result->status->successful->n_partition_location == 1) {
    const Ballista__Protobuf__PartitionLocation *location = result->status->successful->partition_location[0];
    out->has_location = true;
    out->rows = location->partition_stats->num_rows;
    snprintf(out->host, sizeof out->host, "%s:%u", location->executor_meta->host, location->executor_meta->port);
    ballista__protobuf__fetch_partition__init(&out->ticket);
    out->ticket.stage_id = location->partition_id->stage_id;
    out->ticket.partition_id = location->partition_id->partition_id;
    out->ticket.has_file_id_case =
        location->has_file_id_case == BALLISTA__PROTOBUF__PARTITION_LOCATION__HAS_FILE_ID_FILE_ID
            ? BALLISTA__PROTOBUF__FETCH_PARTITION__HAS_FILE_ID_FILE_ID
            : 0;
    out->ticket.file_id = location->file_id;
  }
  ballista__protobuf__get_job_status_result__free_unpacked(result, NULL);
}

/* Submits by push and waits for the end. */
static inline caller_status caller_push(ballista_caller *c, const char *payload, const char *job_name) {
  trn_strbuf query = caller_query(payload, job_name);
  trn_inproc_reply reply;
  caller_status out = {0};
  out.status = caller_call_bytes(c, "ExecuteQueryPush", query.data, query.size, &reply);
  out.messages = reply.message_count;
  for (size_t i = 0; i < reply.message_count; i++)
    caller_read_status(reply.messages[i].data, reply.messages[i].size, &out);
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&query);
  return out;
}

/* Submits by pull; gives the job's id, or the failure in `error`. */
static inline caller_status caller_submit(ballista_caller *c, const char *payload) {
  trn_strbuf query = caller_query(payload, "pulled");
  trn_inproc_reply reply;
  caller_status out = {0};
  out.status = caller_call_bytes(c, "ExecuteQuery", query.data, query.size, &reply);
  Ballista__Protobuf__ExecuteQueryResult *result =
      out.status
          ? NULL
          : ballista__protobuf__execute_query_result__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
  if (result) {
    out.which = (int)result->result_case;
    if (out.which == BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__RESULT_SUCCESS) {
      snprintf(out.job_id, sizeof out.job_id, "%s", result->success->job_id);
      snprintf(out.name, sizeof out.name, "%s", result->success->session_id);
    } else {
      snprintf(out.error, sizeof out.error, "%s", result->failure->plan_parsing_failure);
    }
    ballista__protobuf__execute_query_result__free_unpacked(result, NULL);
  }
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&query);
  return out;
}

static inline caller_status caller_ask(ballista_caller *c, const char *job_id) {
  Ballista__Protobuf__GetJobStatusParams params = BALLISTA__PROTOBUF__GET_JOB_STATUS_PARAMS__INIT;
  trn_inproc_reply reply;
  caller_status out = {0};
  params.job_id = (char *)job_id;
  out.status = caller_call(c, "GetJobStatus", &params, &reply);
  if (!out.status) caller_read_status(reply.messages[0].data, reply.messages[0].size, &out);
  trn__inproc_reply_finish(&reply);
  return out;
}

/* Asks until the job is over. */
static inline caller_status caller_wait(ballista_caller *c, const char *job_id) {
  caller_status out = {0};
  for (int i = 0; i < 5000; i++) {
    out = caller_ask(c, job_id);
    if (out.status || out.which == 0 || out.which >= BALLISTA__PROTOBUF__JOB_STATUS__STATUS_FAILED) break;
    const struct timespec a_little = {.tv_nsec = 2000000};
    nanosleep(&a_little, NULL);
  }
  return out;
}

static inline bool caller_cancel(ballista_caller *c, const char *job_id) {
  Ballista__Protobuf__CancelJobParams params = BALLISTA__PROTOBUF__CANCEL_JOB_PARAMS__INIT;
  trn_inproc_reply reply;
  params.job_id = (char *)job_id;
  bool cancelled = false;
  if (caller_call(c, "CancelJob", &params, &reply) == TRN_OK) {
    Ballista__Protobuf__CancelJobResult *result =
        ballista__protobuf__cancel_job_result__unpack(NULL, reply.messages[0].size, reply.messages[0].data);
    cancelled = result && result->cancelled;
    ballista__protobuf__cancel_job_result__free_unpacked(result, NULL);
  }
  trn__inproc_reply_finish(&reply);
  return cancelled;
}

/* Fetches by a ticket; without credentials unless `identity`. */
static inline flight_result caller_redeem(ballista_caller *c, const Ballista__Protobuf__FetchPartition *ticket,
                                          const char *identity) {
  Ballista__Protobuf__Action action = BALLISTA__PROTOBUF__ACTION__INIT;
  trn_strbuf bytes = {0};
  action.action_type_case = BALLISTA__PROTOBUF__ACTION__ACTION_TYPE_FETCH_PARTITION;
  action.fetch_partition = (Ballista__Protobuf__FetchPartition *)ticket;
  flight__message_put(&bytes, &action.base);
  c->flight.identity = identity;
  flight_result result = flight_get(&c->flight, bytes.data, bytes.size);
  trn__strbuf_finish(&bytes);
  return result;
}

/* The rows of a job, as a client asks for them. */
static inline flight_result caller_fetch(ballista_caller *c, const caller_status *job, const char *identity) {
  Ballista__Protobuf__FetchPartition ticket = job->ticket;
  ticket.job_id = (char *)job->job_id;
  return caller_redeem(c, &ticket, identity);
}

#endif
