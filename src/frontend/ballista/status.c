/* Jobs and their metrics as messages, and the calls that ask for them. */
#include <cjson/cJSON.h>

#include "frontend/ballista/ballista.h"

enum { STATUS_STAGE = 1, STATUS_PORT = 50050 /* nobody dials it: `local` says where results are */ };

/* ---- status ---- */

static Ballista__Protobuf__PartitionLocation *location_of(trn_arena *arena, const ballista_job *job, int64_t rows,
                                                          int64_t batches, int64_t bytes) {
  Ballista__Protobuf__PartitionLocation *location = TRN_NEW(arena, Ballista__Protobuf__PartitionLocation);
  Ballista__Protobuf__PartitionId *id = TRN_NEW(arena, Ballista__Protobuf__PartitionId);
  Ballista__Protobuf__ExecutorMetadata *executor = TRN_NEW(arena, Ballista__Protobuf__ExecutorMetadata);
  Ballista__Protobuf__PartitionStats *stats = TRN_NEW(arena, Ballista__Protobuf__PartitionStats);
  if (!location || !id || !executor || !stats) return NULL;
  ballista__protobuf__partition_location__init(location);
  ballista__protobuf__partition_id__init(id);
  ballista__protobuf__executor_metadata__init(executor);
  ballista__protobuf__partition_stats__init(stats);
  id->job_id = (char *)job->id;
  id->stage_id = STATUS_STAGE;
  executor->id = (char *)"trunnion";
  executor->host = (char *)"localhost";
  executor->port = executor->grpc_port = STATUS_PORT;
  stats->num_rows = rows;
  stats->num_batches = batches;
  stats->num_bytes = bytes;
  location->partition_id = id;
  location->executor_meta = executor;
  location->partition_stats = stats;
  location->has_file_id_case = BALLISTA__PROTOBUF__PARTITION_LOCATION__HAS_FILE_ID_FILE_ID;
  location->file_id = job->secret;
  return location;
}

/* A part that lies elsewhere. */
static Ballista__Protobuf__PartitionLocation *location_elsewhere(trn_arena *arena, const ballista_job *job,
                                                                 const trn_result_location *l) {
  Ballista__Protobuf__PartitionLocation *location = location_of(arena, job, l->rows, -1, l->bytes);
  if (!location) return NULL;
  location->partition_id->job_id = trn__arena_strdup(arena, l->job_id);
  location->partition_id->stage_id = l->stage_id;
  location->partition_id->partition_id = l->partition_id;
  location->executor_meta->id = trn__arena_strdup(arena, l->executor_id);
  location->executor_meta->host = trn__arena_strdup(arena, l->host);
  location->executor_meta->port = l->port;
  location->executor_meta->grpc_port = 0;
  location->is_sort_shuffle = l->is_sort_shuffle;
  location->has_file_id_case = l->has_file_id ? BALLISTA__PROTOBUF__PARTITION_LOCATION__HAS_FILE_ID_FILE_ID : 0;
  location->file_id = l->has_file_id ? l->file_id : 0;
  bool good = location->partition_id->job_id && location->executor_meta->id && location->executor_meta->host;
  return good ? location : NULL;
}

/* locks: job->mutex held. The parts of a result that is fetched elsewhere. */
static bool handed_of(trn_arena *arena, const ballista_job *job, Ballista__Protobuf__SuccessfulJob *out) {
  size_t count = job->handed ? job->handed->items.count : 0;
  out->partition_location = TRN_NEW_N(arena, Ballista__Protobuf__PartitionLocation *, count + 1);
  if (!out->partition_location) return false;
  for (size_t i = 0; i < count; i++) {
    out->partition_location[i] = location_elsewhere(arena, job, job->handed->items.items[i]);
    if (!out->partition_location[i]) return false;
  }
  out->n_partition_location = count;
  return true;
}

/* locks: job->mutex held. What the state says, in the arena; false: no memory. */
static bool state_of(trn_arena *arena, const ballista_job *job, Ballista__Protobuf__JobStatus *out) {
  if (job->state == BALLISTA_QUEUED) {
    Ballista__Protobuf__QueuedJob *queued = TRN_NEW(arena, Ballista__Protobuf__QueuedJob);
    if (!queued) return false;
    ballista__protobuf__queued_job__init(queued);
    queued->queued_at = job->queued_ms;
    out->status_case = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_QUEUED;
    out->queued = queued;
  } else if (job->state == BALLISTA_RUNNING) {
    Ballista__Protobuf__RunningJob *running = TRN_NEW(arena, Ballista__Protobuf__RunningJob);
    if (!running) return false;
    ballista__protobuf__running_job__init(running);
    running->queued_at = job->queued_ms;
    running->started_at = job->started_ms;
    running->scheduler = (char *)"trunnion";
    out->status_case = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_RUNNING;
    out->running = running;
  } else if (job->state == BALLISTA_FAILED) {
    Ballista__Protobuf__FailedJob *failed = TRN_NEW(arena, Ballista__Protobuf__FailedJob);
    if (!failed) return false;
    ballista__protobuf__failed_job__init(failed);
    failed->error = trn__arena_strdup(arena, job->failure ? job->failure : "Out of memory");
    failed->queued_at = job->queued_ms;
    failed->started_at = job->started_ms;
    failed->ended_at = job->ended_ms;
    out->status_case = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_FAILED;
    out->failed = failed;
    return failed->error != NULL;
  } else {
    Ballista__Protobuf__SuccessfulJob *successful = TRN_NEW(arena, Ballista__Protobuf__SuccessfulJob);
    if (!successful) return false;
    ballista__protobuf__successful_job__init(successful);
    successful->queued_at = job->queued_ms;
    successful->started_at = job->started_ms;
    successful->ended_at = job->ended_ms;
    out->status_case = BALLISTA__PROTOBUF__JOB_STATUS__STATUS_SUCCESSFUL;
    out->successful = successful;
  }
  return true;
}

trn_status ballista__status_of(trn_arena *arena, ballista_job *job, Ballista__Protobuf__GetJobStatusResult **out) {
  Ballista__Protobuf__GetJobStatusResult *result = TRN_NEW(arena, Ballista__Protobuf__GetJobStatusResult);
  Ballista__Protobuf__JobStatus *status = TRN_NEW(arena, Ballista__Protobuf__JobStatus);
  if (!result || !status) return TRN_RESOURCE_EXHAUSTED;
  ballista__protobuf__get_job_status_result__init(result);
  ballista__protobuf__job_status__init(status);
  result->status = status;
  result->flight_proxy_case = BALLISTA__PROTOBUF__GET_JOB_STATUS_RESULT__FLIGHT_PROXY_LOCAL;
  result->local = true; /* results are fetched here */
  status->job_id = job->id;
  status->job_name = job->name;
  pthread_mutex_lock(&job->mutex);
  bool good = state_of(arena, job, status);
  ballista_result *rows = job->result ? ballista__result_ref(job->result) : NULL;
  bool is_successful = good && status->status_case == BALLISTA__PROTOBUF__JOB_STATUS__STATUS_SUCCESSFUL;
  bool is_handed = is_successful && job->is_handed, is_stored = job->stored != NULL;
  int64_t row_count = is_stored ? job->rows : -1, batches = -1, bytes = is_stored ? job->bytes : -1;
  if (is_handed) good = handed_of(arena, job, status->successful);
  pthread_mutex_unlock(&job->mutex);
  if (is_handed) {
    result->local = false; /* but there */
  } else if (is_successful) {
    if (rows) ballista__result_size(rows, &row_count, &batches, &bytes);
    Ballista__Protobuf__PartitionLocation **locations = TRN_NEW(arena, Ballista__Protobuf__PartitionLocation *);
    if (locations) *locations = location_of(arena, job, row_count, batches, bytes);
    good = locations && *locations;
    status->successful->partition_location = locations;
    status->successful->n_partition_location = 1;
  }
  ballista__result_unref(rows);
  *out = result;
  return good ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- metrics ---- */

/* Numbers with a field of their own; others are counts, or times. */
static const struct named {
  const char *name;
  Ballista__Protobuf__OperatorMetric__MetricCase which;
} named[] = {
    {"output_rows", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_OUTPUT_ROWS},
    {"elapsed_compute", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_ELAPSE_TIME},
    {"spill_count", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_SPILL_COUNT},
    {"spilled_bytes", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_SPILLED_BYTES},
    {"spilled_rows", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_SPILLED_ROWS},
    {"mem_used", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_CURRENT_MEMORY_USAGE},
    {"output_bytes", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_OUTPUT_BYTES},
    {"output_batches", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_OUTPUT_BATCHES},
    {"start_timestamp", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_START_TIMESTAMP},
    {"end_timestamp", BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_END_TIMESTAMP},
};

static bool is_time(const char *name) {
  size_t size = strlen(name);
  return strncmp(name, "time_", 5) == 0 || (size > 5 && strcmp(name + size - 5, "_time") == 0) ||
         strcmp(name, "time") == 0;
}

static bool metric_of(trn_arena *arena, const char *name, double number, Ballista__Protobuf__OperatorMetric *out) {
  uint64_t value = number > 0 && number < 1.8e19 ? (uint64_t)number : 0;
  ballista__protobuf__operator_metric__init(out);
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    if (strcmp(named[i].name, name) != 0) continue;
    out->metric_case = named[i].which;
    out->output_rows = value; /* all of them are eight bytes of one union */
    return true;
  }
  char *copy = trn__arena_strdup(arena, name);
  Ballista__Protobuf__NamedTime *time = is_time(name) ? TRN_NEW(arena, Ballista__Protobuf__NamedTime) : NULL;
  Ballista__Protobuf__NamedCount *count = time ? NULL : TRN_NEW(arena, Ballista__Protobuf__NamedCount);
  if (!copy || (!time && !count)) return false;
  if (time) {
    ballista__protobuf__named_time__init(time);
    time->name = copy;
    time->value = value;
    out->metric_case = BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_TIME;
    out->time = time;
  } else {
    ballista__protobuf__named_count__init(count);
    count->name = copy;
    count->value = value;
    out->metric_case = BALLISTA__PROTOBUF__OPERATOR_METRIC__METRIC_COUNT;
    out->count = count;
  }
  return true;
}

/* A number of an object that is none of its parts' counts; what is none is `otherwise`. */
static uint32_t number_of(const cJSON *object, const char *name, uint32_t otherwise) {
  const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, name);
  bool is_good = cJSON_IsNumber(number) && number->valuedouble >= 0 && number->valuedouble <= UINT32_MAX;
  return is_good ? (uint32_t)number->valuedouble : otherwise;
}

/* One operator: {"node", "parent", "name", "metrics"}, or of a cluster {"depth", "name", "description", "metrics"}.
 * `depths`: of those before it. */
static bool operator_of(trn_arena *arena, const cJSON *node, uint32_t *depths, size_t index,
                        Ballista__Protobuf__OperatorWithMetrics *out) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(node, "name"), *metric;
  const cJSON *parent = cJSON_GetObjectItemCaseSensitive(node, "parent");
  const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(node, "metrics");
  size_t count = cJSON_IsObject(metrics) ? (size_t)cJSON_GetArraySize(metrics) : 0;
  const cJSON *description = cJSON_GetObjectItemCaseSensitive(node, "description");
  ballista__protobuf__operator_with_metrics__init(out);
  depths[index] = number_of(node, "depth", 0);
  if (cJSON_IsNumber(parent) && parent->valuedouble >= 0 && parent->valuedouble < (double)index)
    depths[index] = depths[(size_t)parent->valuedouble] + 1;
  out->depth = depths[index];
  out->operator_type = out->operator_desc = trn__arena_strdup(arena, cJSON_IsString(name) ? name->valuestring : "");
  if (cJSON_IsString(description)) out->operator_desc = trn__arena_strdup(arena, description->valuestring);
  out->metrics = TRN_NEW_N(arena, Ballista__Protobuf__OperatorMetric *, count + 1);
  Ballista__Protobuf__OperatorMetric *items = TRN_NEW_N(arena, Ballista__Protobuf__OperatorMetric, count + 1);
  if (!out->operator_type || !out->operator_desc || !out->metrics || !items) return false;
  if (count) cJSON_ArrayForEach(metric, metrics) {
      if (!cJSON_IsNumber(metric) || !metric->string) continue;
      if (!metric_of(arena, metric->string, metric->valuedouble, &items[out->n_metrics])) return false;
      out->metrics[out->n_metrics] = &items[out->n_metrics];
      out->n_metrics++;
    }
  return true;
}

/* One more stage with the operators of an array; `told`: what is said of it, or NULL. Room is there. */
static bool stage_of(trn_arena *arena, const cJSON *nodes, const cJSON *told,
                     Ballista__Protobuf__GetJobMetricsResult *out) {
  size_t count = cJSON_IsArray(nodes) ? (size_t)cJSON_GetArraySize(nodes) : 0, index = 0;
  Ballista__Protobuf__JobStageMetrics *stage = TRN_NEW(arena, Ballista__Protobuf__JobStageMetrics);
  Ballista__Protobuf__OperatorWithMetrics *items = TRN_NEW_N(arena, Ballista__Protobuf__OperatorWithMetrics, count + 1);
  uint32_t *depths = TRN_NEW_N(arena, uint32_t, count + 1);
  Ballista__Protobuf__OperatorWithMetrics **operators =
      TRN_NEW_N(arena, Ballista__Protobuf__OperatorWithMetrics *, count + 1);
  if (!stage || !items || !depths || !operators) return false;
  const cJSON *node;
  if (count) cJSON_ArrayForEach(node, nodes) {
      if (!operator_of(arena, node, depths, index, &items[index])) return false;
      operators[index] = &items[index];
      index++;
    }
  ballista__protobuf__job_stage_metrics__init(stage);
  stage->stage_id = number_of(told, "stage", STATUS_STAGE);
  stage->partitions = number_of(told, "partitions", 1);
  stage->operators = operators;
  stage->n_operators = index;
  if (index || told) out->stages[out->n_stages++] = stage;
  return true;
}

/* Operators of one stage, or stages of a cluster's job: [{"stage", "partitions", "operators"}]. */
static bool stages_of(trn_arena *arena, const cJSON *array, Ballista__Protobuf__GetJobMetricsResult *out) {
  out->stages = TRN_NEW_N(arena, Ballista__Protobuf__JobStageMetrics *, (size_t)cJSON_GetArraySize(array) + 1);
  if (!out->stages) return false;
  const cJSON *stage;
  if (!cJSON_GetObjectItemCaseSensitive(array->child, "operators")) return stage_of(arena, array, NULL, out);
  cJSON_ArrayForEach(stage, array) {
    if (!stage_of(arena, cJSON_GetObjectItemCaseSensitive(stage, "operators"), stage, out)) return false;
  }
  return true;
}

trn_status ballista__metrics_of(trn_arena *arena, const char *json, Ballista__Protobuf__GetJobMetricsResult *out) {
  cJSON *root = json ? cJSON_Parse(json) : NULL;
  bool good = !cJSON_IsArray(root) || stages_of(arena, root, out);
  cJSON_Delete(root);
  return good ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- calls ---- */

static trn_status find(ballista_rpc *rpc, const char *id, ballista_job **out, trn_error **error) {
  bool is_authenticated;
  const char *user = ballista__rpc_user(rpc, &is_authenticated);
  return ballista__job_find(rpc->service, id, user, is_authenticated, out, error);
}

/* The handle of one that a scheduler keeps, as long as the job; NULL: it is none. */
static trn_job *stored_of(ballista_job *job) {
  pthread_mutex_lock(&job->mutex);
  trn_job *stored = job->stored;
  pthread_mutex_unlock(&job->mutex);
  return stored;
}

trn_status ballista__handle_get_status(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  ballista_job *job = NULL;
  Ballista__Protobuf__GetJobStatusResult none = BALLISTA__PROTOBUF__GET_JOB_STATUS_RESULT__INIT, *result = &none;
  trn_status status = find(rpc, ((Ballista__Protobuf__GetJobStatusParams *)request)->job_id, &job, error);
  if (!status && job) ballista__stored_run_again(job);
  if (!status && job && (status = ballista__status_of(rpc->arena, job, &result))) trn__no_memory(error);
  if (!status) status = ballista__rpc_reply(rpc, &result->base, error);
  ballista__job_unref(job);
  return status;
}

/* The text of a job's metrics in the arena, NULL: none. */
static const char *metrics_text(ballista_rpc *rpc, ballista_job *job) {
  char *text = NULL;
  pthread_mutex_lock(&job->mutex);
  bool successful = job->state == BALLISTA_SUCCESSFUL;
  trn_operation *operation = successful && job->operation ? trn_operation_ref(job->operation) : NULL;
  const char *kept = successful && job->metrics ? trn__arena_strdup(rpc->arena, job->metrics) : NULL;
  trn_job *stored = successful ? job->stored : NULL;
  pthread_mutex_unlock(&job->mutex);
  if (operation && trn_operation_metrics(operation, &text)) text = NULL;
  if (stored && trn_job_metrics(stored, &text, NULL)) text = NULL;
  if (text) kept = trn__arena_strdup(rpc->arena, text);
  trn_free(text);
  trn_operation_unref(operation);
  return kept;
}

trn_status ballista__handle_get_metrics(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  const char *id = ((Ballista__Protobuf__GetJobMetricsParams *)request)->job_id;
  ballista_job *job = NULL;
  Ballista__Protobuf__GetJobMetricsResult result = BALLISTA__PROTOBUF__GET_JOB_METRICS_RESULT__INIT;
  trn_status status = find(rpc, id, &job, error);
  if (!status && !job) status = trn_error_set(error, TRN_NOT_FOUND, NULL, "There is no job %.100s", id);
  if (!status && (status = ballista__metrics_of(rpc->arena, metrics_text(rpc, job), &result))) trn__no_memory(error);
  if (!status) status = ballista__rpc_reply(rpc, &result.base, error);
  ballista__job_unref(job);
  return status;
}

trn_status ballista__handle_cancel(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  ballista_job *job = NULL;
  Ballista__Protobuf__CancelJobResult result = BALLISTA__PROTOBUF__CANCEL_JOB_RESULT__INIT;
  bool is_cancelled = false;
  trn_status status = find(rpc, ((Ballista__Protobuf__CancelJobParams *)request)->job_id, &job, error);
  if (job && stored_of(job))
    status = ballista__stored_cancel(job, &is_cancelled, error);
  else if (job)
    is_cancelled = ballista__job_cancel(job);
  result.cancelled = is_cancelled;
  ballista__job_unref(job);
  return status ? status : ballista__rpc_reply(rpc, &result.base, error);
}

trn_status ballista__handle_clean(ballista_rpc *rpc, ProtobufCMessage *request, trn_error **error) {
  ballista_job *job = NULL;
  Ballista__Protobuf__CleanJobDataResult result = BALLISTA__PROTOBUF__CLEAN_JOB_DATA_RESULT__INIT;
  trn_status status = find(rpc, ((Ballista__Protobuf__CleanJobDataParams *)request)->job_id, &job, error);
  if (job) {
    pthread_mutex_lock(&job->mutex);
    bool over = job->state == BALLISTA_SUCCESSFUL || job->state == BALLISTA_FAILED;
    pthread_mutex_unlock(&job->mutex);
    trn_job *stored = stored_of(job);
    if (over) ballista__job_drop_output(job); /* one that runs has none yet */
    if (over && stored) (void)trn_job_release(stored, NULL); /* a lost one has none */
  }
  ballista__job_unref(job);
  return status ? status : ballista__rpc_reply(rpc, &result.base, error);
}
