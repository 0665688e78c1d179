/* Submission: bytes become a plan by the decoder of their format, the plan an operation of the backend, its rows a
 * result. ExecuteQueryPush hears of each step, beginning at once: its client waits 20 seconds for headers, and for ever
 * after. */
#include <trunnion/catalog.h>

#include "frontend/ballista/ballista.h"
#include "plan/ballista_plan.h"

typedef Ballista__Protobuf__ExecuteQueryParams params_message;

/* What is in which field. Field 8 names its format itself. */
static const struct input_field {
  Ballista__Protobuf__ExecuteQueryParams__QueryCase which;
  const char *format;
} input_fields[] = {
    {BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_LOGICAL_PLAN, "ballista.logical.v1"},
    {BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_SUBSTRAIT_PLAN, "substrait.plan.v1"},
    {BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_PHYSICAL_PLAN, "datafusion.physical.v1"},
};

/* A query on its way from bytes to rows. */
typedef struct query {
  trn_session *session;
  trn_plan *plan;
  trn_plan_input input; /* what it was decoded from; borrowed from the request */
  bool is_explain, is_write;
  trn_ballista_write write; /* borrowed from the request */
} query;

static void query_finish(query *q) {
  trn_plan_unref(q->plan);
  trn_session_unref(q->session);
}

/* ---- plans ---- */

static trn_status encoded_input(ballista_rpc *rpc, const Ballista__Protobuf__EncodedQuery *query, trn_plan_input *out,
                                trn_error **error) {
  if (query->n_options > TRN_EXTENSION_OPTIONS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "An encoded query with %zu options (limit TRN_EXTENSION_OPTIONS_MAX)", query->n_options);
  trn_kv *options = TRN_NEW_N(rpc->arena, trn_kv, query->n_options + 1);
  if (!options) return trn__no_memory(error);
  for (size_t i = 0; i < query->n_options; i++) {
    const Ballista__Protobuf__KeyValuePair *pair = query->options[i];
    if (pair->has_value_case != BALLISTA__PROTOBUF__KEY_VALUE_PAIR__HAS_VALUE_VALUE) continue;
    options[out->option_count++] = (trn_kv){pair->key, pair->value};
  }
  out->format = query->format;
  out->data = query->payload.data;
  out->size = query->payload.len;
  out->options = options;
  return TRN_OK;
}

/* What came, as the decoders take it. */
static trn_status input_of(ballista_rpc *rpc, const params_message *params, trn_plan_input *out, query *q,
                           trn_error **error) {
  static const trn_kv older = {TRN_BALLISTA_CLIENT_OPTION, "54"};
  if (params->query_case == BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_ENCODED_QUERY)
    return encoded_input(rpc, params->encoded_query, out, error);
  size_t i = 0, count = sizeof input_fields / sizeof *input_fields;
  while (i < count && input_fields[i].which != params->query_case) i++;
  if (i == count) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The request has no query");
  if (rpc->is_older && params->query_case == BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_PHYSICAL_PLAN)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Physical plans of clients before 55 are not taken");
  out->format = input_fields[i].format;
  out->data = params->logical_plan.data; /* all three are bytes of one union */
  out->size = params->logical_plan.len;
  out->options = rpc->is_older ? &older : NULL;
  out->option_count = rpc->is_older;
  if (params->query_case != BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_LOGICAL_PLAN) return TRN_OK;
  trn_str inner = {out->data, out->size};
  q->is_explain = trn__ballista_explained(out->data, out->size, &inner);
  q->is_write = !q->is_explain && trn__ballista_written(out->data, out->size, &q->write);
  if (q->is_write) inner = q->write.input;
  out->data = inner.data;
  out->size = inner.size;
  return TRN_OK;
}

static trn_status resolve(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                          trn_error **error) {
  return trn_session_resolve_table(user, parts, count, out, error);
}

static bool is_cancelled(void *cancel) {
  return trn_cancel_is_requested(cancel);
}

/* As Ballista does: what cannot be read is the plan's fault, whatever an engine says of it. */
static trn_status plan_status(trn_status status) {
  return status == TRN_INTERNAL ? TRN_INVALID_ARGUMENT : status;
}

static trn_status decode(ballista_rpc *rpc, const params_message *params, ballista_job *job, query *out,
                         trn_error **error) {
  trn_plan_input input = {.struct_size = sizeof input, .resolve = resolve, .cancel = job->cancel};
  trn_status status = ballista__session_open(rpc, params, &out->session, error);
  if (!status) status = input_of(rpc, params, &input, out, error);
  if (status) return status;
  input.resolve_user = out->session;
  out->input = input;
  const trn_decode_options options = {.struct_size = sizeof options, .is_cancelled = is_cancelled, .user = job->cancel};
  status = trn_registry_decode(rpc->service->registry, out->session, &input, &options, &out->plan, error);
  status = plan_status(status);
  /* EXPLAIN shows it without running it. */
  if (!status && out->is_explain) status = trn_backend_check(out->session, out->plan, error);
  return status;
}

/* ---- running ---- */

static const char *header(ballista_rpc *rpc, const char *key) {
  size_t size;
  const char *value = trn_call_metadata(rpc->call, key, &size);
  return value ? trn__arena_str(rpc->arena, value, size) : NULL;
}

static void ignore(void *user, const trn_result_location *location) {
  (void)user, (void)location;
}

/* Will the output lie where clients can fetch it, and may they? */
static bool is_elsewhere(const ballista_service *service, trn_operation *operation) {
  return service->hands_through && trn_operation_locations(operation, ignore, NULL, NULL) != TRN_UNIMPLEMENTED;
}

/* Gives an operation, and its result unless that stays elsewhere. */
static trn_status execute(ballista_rpc *rpc, ballista_job *job, const query *q, trn_operation **operation,
                          ballista_result **result, trn_error **error) {
  const char *tag = job->name;
  trn_stream *stream = NULL;
  const trn_execute_request request = {.struct_size = sizeof request,
                                       .operation_id = job->id,
                                       .plan = q->plan,
                                       .tags = &tag,
                                       .tag_count = *tag != 0,
                                       .protocol = "ballista",
                                       .traceparent = header(rpc, "traceparent"),
                                       .cancel = job->cancel,
                                       .holds_output = rpc->service->hands_through};
  trn_status status = q->is_write ? ballista__write(rpc, job, q->session, q->plan, &q->write, operation, error)
                                  : trn_backend_execute(q->session, &request, operation, error);
  if (!status && !q->is_write && is_elsewhere(rpc->service, *operation)) return TRN_OK;
  if (!status) status = trn_operation_result_stream(*operation, &stream, error);
  if (!status) status = ballista__result_create(rpc->service, stream, result, error);
  if (status && *operation) {
    trn_operation_cancel(*operation);
    trn_operation_unref(*operation);
    *operation = NULL;
  }
  return status;
}

/* Only queries are jobs that can run again. */
static bool is_kept(const ballista_service *service, const query *q) {
  return service->scheduler && !q->is_explain && !q->is_write;
}

/* From a plan to rows on their way; what fails, the job says. */
static void run(ballista_rpc *rpc, ballista_job *job, const query *q) {
  trn_error *error = NULL;
  trn_operation *operation = NULL;
  ballista_result *result = NULL;
  if (is_kept(rpc->service, q)) {
    trn_status kept = ballista__stored_submit(job, q->session, q->plan, &q->input, &error);
    if (kept) ballista__job_fail(job, kept, error);
    trn_error_unref(error);
    return;
  }
  trn_cancel *before = trn_cancel_work_for(job->cancel);
  trn_status status = q->is_explain ? ballista__explain(rpc->service, q->session, q->plan, &result, &error)
                                    : execute(rpc, job, q, &operation, &result, &error);
  trn_cancel_work_for(before);
  if (!status)
    status = result ? ballista__job_run(job, q->session, operation, result)
                    : ballista__job_run_handed(job, q->session, operation);
  if (status) ballista__job_fail(job, status, error);
  trn_error_unref(error);
}

/* ---- the two calls ---- */

static bool is_plan_s_fault(trn_status status) {
  return status == TRN_INVALID_ARGUMENT || status == TRN_UNIMPLEMENTED || status == TRN_NOT_FOUND;
}

/* As Ballista says it: the call fails when the plan cannot be read. */
static trn_status not_parsed(trn_status status, trn_error **error) {
  if (!is_plan_s_fault(status)) return status;
  char *text = ballista__error_text(status, *error);
  trn_error_unref(*error);
  *error = NULL;
  trn_error_set(error, status, NULL, "Could not parse plan: %s", text ? text : "out of memory");
  free(text);
  return status;
}

trn_status ballista__handle_execute_push(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const params_message *params = (params_message *)request;
  ballista_job *job = NULL;
  query q = {0};
  trn_status status = ballista__job_create(rpc, ballista__job_name(params), &job, error);
  if (status) return status;
  /* Where jobs are kept, nobody hears of one that is not. */
  bool waits = rpc->service->scheduler != NULL;
  (waits ? ballista__job_hold : ballista__job_watch)(job, rpc);
  status = decode(rpc, params, job, &q, error);
  if (waits) ballista__job_let_go(rpc);
  bool is_recorded = !status && is_kept(rpc->service, &q);
  if (is_recorded) run(rpc, job, &q);
  if (waits && !status) ballista__job_watch(job, rpc);
  if (!status) {
    if (!is_recorded) run(rpc, job, &q);
  } else if (!waits && trn_cancel_is_requested(job->cancel)) {
    ballista__job_fail(job, TRN_CANCELLED, NULL);
    status = TRN_OK; /* its status has told so */
  } else {
    if (waits) ballista__job_forget(job);
    ballista__job_unwatch(job);
    ballista__job_fail(job, status, error ? *error : NULL);
    status = not_parsed(status, error);
  }
  query_finish(&q);
  ballista__job_unref(job);
  return status;
}

/* The answer to what cannot be read. */
static trn_status reply_failure(ballista_rpc *rpc, const params_message *params, trn_status status, trn_error **error) {
  Ballista__Protobuf__ExecuteQueryResult result = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__INIT;
  Ballista__Protobuf__ExecuteQueryFailureResult failure = BALLISTA__PROTOBUF__EXECUTE_QUERY_FAILURE_RESULT__INIT;
  char *text = ballista__error_text(status, *error);
  if (!text) return status;
  result.operation_id = params->operation_id;
  result.result_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__RESULT_FAILURE;
  result.failure = &failure;
  failure.failure_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_FAILURE_RESULT__FAILURE_PLAN_PARSING_FAILURE;
  failure.plan_parsing_failure = text;
  trn_error_unref(*error);
  *error = NULL;
  status = ballista__rpc_reply(rpc, &result.base, error);
  free(text);
  return status;
}

static trn_status reply_success(ballista_rpc *rpc, const params_message *params, const ballista_job *job,
                                trn_error **error) {
  Ballista__Protobuf__ExecuteQueryResult result = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__INIT;
  Ballista__Protobuf__ExecuteQuerySuccessResult success = BALLISTA__PROTOBUF__EXECUTE_QUERY_SUCCESS_RESULT__INIT;
  char session_id[TRN_UUID_SIZE];
  trn__uuid4(session_id);
  success.job_id = (char *)job->id;
  success.session_id = *params->session_id ? params->session_id : session_id; /* clients insist on their own */
  result.operation_id = params->operation_id;
  result.result_case = BALLISTA__PROTOBUF__EXECUTE_QUERY_RESULT__RESULT_SUCCESS;
  result.success = &success;
  return ballista__rpc_reply(rpc, &result.base, error);
}

trn_status ballista__handle_execute(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const params_message *params = (params_message *)request;
  ballista_job *job = NULL;
  query q = {0};
  trn_status status = ballista__job_create(rpc, ballista__job_name(params), &job, error);
  if (status) return status;
  ballista__job_hold(job, rpc);
  status = decode(rpc, params, job, &q, error);
  ballista__job_let_go(rpc);
  if (!status && trn_call_is_cancelled(rpc->call)) status = TRN_CANCELLED; /* nobody hears the job's id */
  if (status) {
    ballista__job_fail(job, status, error ? *error : NULL);
    ballista__job_forget(job);
    if (is_plan_s_fault(status)) status = reply_failure(rpc, params, status, error);
  } else if (is_kept(rpc->service, &q)) { /* what is answered is recorded */
    run(rpc, job, &q);
    status = reply_success(rpc, params, job, error);
  } else {
    status = reply_success(rpc, params, job, error);
    run(rpc, job, &q);
  }
  query_finish(&q);
  ballista__job_unref(job);
  return status;
}
