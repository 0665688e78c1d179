/* A Spark Connect client over inproc, for tests of the service: builds requests, collects responses. */
#ifndef TESTS_SUPPORT_SPARK_CLIENT_H
#define TESTS_SUPPORT_SPARK_CLIENT_H
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/scripted/scripted.h"
#include "grpc_status.pb-c.h"
#include "spark_connect.pb-c.h"
#include "transport/inproc/inproc.h"
#include <trunnion/frontend.h>

#define SPARK_TEST_PATH "/spark.connect.SparkConnectService/"

typedef struct spark_client {
  trn_scripted *scripted;
  trn_routes *routes;
  trn_inproc *inproc;
  char session_id[TRN_UUID_SIZE];
} spark_client;

static inline int client_start(spark_client *client, const trn_spark_options *options) {
  trn_backend *backend = NULL;
  trn_frontend *frontend = NULL;
  memset(client, 0, sizeof *client);
  trn__uuid4(client->session_id);
  trn_status status = trn__scripted_create(TRN_SCRIPTED_ARRAYS, &client->scripted, &backend);
  if (!status) status = trn_routes_create(&client->routes);
  if (!status) status = trn_spark_frontend_create(options, &frontend);
  if (!status) status = trn_frontend_register(frontend, client->routes, backend, NULL);
  if (!status) status = trn__inproc_create(client->routes, &client->inproc);
  trn_frontend_destroy(frontend);
  trn_backend_unref(backend);
  return (int)status;
}

static inline void client_stop(spark_client *client) {
  trn__inproc_destroy(client->inproc);
  trn_routes_destroy(client->routes);
  trn__scripted_unref(client->scripted);
}

static inline trn_slice pack_slice(const void *message) {
  size_t size = protobuf_c_message_get_packed_size(message);
  uint8_t *bytes = malloc(size ? size : 1);
  protobuf_c_message_pack(message, bytes);
  return (trn_slice){bytes, size, free, bytes};
}

/* ---- a whole call ---- */

/* Sends one message, waits for the end. trn__inproc_reply_finish(reply). */
static inline void client_call(spark_client *client, const char *method, const void *request, trn_inproc_reply *reply) {
  char path[128];
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request call = {.path = path};
  trn_slice message = pack_slice(request);
  if (trn__inproc_invoke(client->inproc, &call, &message, 1, reply)) abort();
}

static inline void *unpack_slice(const ProtobufCMessageDescriptor *descriptor, const trn_slice *slice) {
  return protobuf_c_message_unpack(descriptor, NULL, slice->size, slice->data);
}

static inline void *client_ask(spark_client *client, const char *method, const void *request,
                               const ProtobufCMessageDescriptor *descriptor) {
  trn_inproc_reply reply;
  client_call(client, method, request, &reply);
  void *out = reply.status == TRN_OK && reply.message_count == 1 ? unpack_slice(descriptor, &reply.messages[0]) : NULL;
  if (reply.status) fprintf(stderr, "%s: %d %s\n", method, (int)reply.status, reply.message);
  trn__inproc_reply_finish(&reply);
  return out;
}

/* The value of an ErrorInfo's metadata in the status details; NULL: absent. Gives (free). `message`: of the Status. */
static inline char *details_value(const trn_inproc_reply *reply, const char *key, char **message) {
  char *out = NULL;
  Google__Rpc__Status *status = google__rpc__status__unpack(NULL, reply->details_size, reply->details);
  if (message) *message = status ? strdup(status->message) : NULL;
  if (status && status->n_details == 1) {
    ProtobufCBinaryData value = status->details[0]->value;
    Google__Rpc__ErrorInfo *info = google__rpc__error_info__unpack(NULL, value.len, value.data);
    for (size_t i = 0; info && i < info->n_metadata; i++)
      if (strcmp(info->metadata[i]->key, key) == 0) out = strdup(info->metadata[i]->value);
    if (info) google__rpc__error_info__free_unpacked(info, NULL);
  }
  if (status) google__rpc__status__free_unpacked(status, NULL);
  return out;
}

static inline bool has_condition(const trn_inproc_reply *reply, const char *condition) {
  char *found = details_value(reply, "errorClass", NULL);
  bool same = found && strcmp(found, condition) == 0;
  if (!same)
    fprintf(stderr, "condition %s, status %d, %s\n", found ? found : "(none)", (int)reply->status, reply->message);
  free(found);
  return same;
}

/* ---- ExecutePlan ---- */

typedef struct execute_options {
  const char *operation_id, *tag;
  bool reattachable, chunks;
  int64_t chunk_bytes;
} execute_options;

/* Packs a request for a plan. */
static inline trn_slice execute_slice(spark_client *client, Spark__Connect__Plan *plan, execute_options options) {
  Spark__Connect__ExecutePlanRequest request = SPARK__CONNECT__EXECUTE_PLAN_REQUEST__INIT;
  Spark__Connect__ReattachOptions reattach = SPARK__CONNECT__REATTACH_OPTIONS__INIT;
  Spark__Connect__ResultChunkingOptions chunking = SPARK__CONNECT__RESULT_CHUNKING_OPTIONS__INIT;
  Spark__Connect__ExecutePlanRequest__RequestOption one = SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__INIT;
  Spark__Connect__ExecutePlanRequest__RequestOption two = SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__INIT;
  Spark__Connect__ExecutePlanRequest__RequestOption *list[2];
  char *tags[1];
  request.session_id = client->session_id;
  request.plan = plan;
  request.request_options = list;
  if (options.operation_id) {
    request._operation_id_case = SPARK__CONNECT__EXECUTE_PLAN_REQUEST___OPERATION_ID_OPERATION_ID;
    request.operation_id = (char *)options.operation_id;
  }
  if (options.tag) {
    tags[0] = (char *)options.tag;
    request.n_tags = 1;
    request.tags = tags;
  }
  if (options.chunks) {
    chunking.allow_arrow_batch_chunking = true;
    if (options.chunk_bytes) {
      chunking._preferred_arrow_chunk_size_case =
          SPARK__CONNECT__RESULT_CHUNKING_OPTIONS___PREFERRED_ARROW_CHUNK_SIZE_PREFERRED_ARROW_CHUNK_SIZE;
      chunking.preferred_arrow_chunk_size = options.chunk_bytes;
    }
    one.request_option_case =
        SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__REQUEST_OPTION_RESULT_CHUNKING_OPTIONS;
    one.result_chunking_options = &chunking;
    list[request.n_request_options++] = &one;
  }
  if (options.reattachable) {
    reattach.reattachable = true;
    two.request_option_case = SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__REQUEST_OPTION_REATTACH_OPTIONS;
    two.reattach_options = &reattach;
    list[request.n_request_options++] = &two;
  }
  return pack_slice(&request);
}

typedef struct test_plan {
  Spark__Connect__Plan plan;
  Spark__Connect__Relation relation;
  Spark__Connect__RelationCommon common;
  Spark__Connect__Range range;
  Spark__Connect__Command command;
  Spark__Connect__SqlCommand sql_command;
  Spark__Connect__SQL sql;
  Spark__Connect__CreateDataFrameViewCommand view;
  Spark__Connect__Catalog catalog;
} test_plan;

static inline Spark__Connect__Plan *plan_of_relation(test_plan *p) {
  spark__connect__plan__init(&p->plan);
  p->plan.op_type_case = SPARK__CONNECT__PLAN__OP_TYPE_ROOT;
  p->plan.root = &p->relation;
  return &p->plan;
}

static inline Spark__Connect__Plan *range_plan(test_plan *p, int64_t start, int64_t end) {
  spark__connect__relation__init(&p->relation);
  spark__connect__range__init(&p->range);
  p->range._start_case = SPARK__CONNECT__RANGE___START_START;
  p->range.start = start;
  p->range.end = end;
  p->range.step = 1;
  p->relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_RANGE;
  p->relation.range = &p->range;
  return plan_of_relation(p);
}

static inline Spark__Connect__Plan *sql_plan(test_plan *p, const char *text) {
  spark__connect__plan__init(&p->plan);
  spark__connect__command__init(&p->command);
  spark__connect__sql_command__init(&p->sql_command);
  spark__connect__relation__init(&p->relation);
  spark__connect__relation_common__init(&p->common);
  spark__connect__sql__init(&p->sql);
  p->sql.query = (char *)text;
  p->common._plan_id_case = SPARK__CONNECT__RELATION_COMMON___PLAN_ID_PLAN_ID;
  p->common.plan_id = 77;
  p->relation.common = &p->common;
  p->relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  p->relation.sql = &p->sql;
  p->sql_command.input = &p->relation;
  p->command.command_type_case = SPARK__CONNECT__COMMAND__COMMAND_TYPE_SQL_COMMAND;
  p->command.sql_command = &p->sql_command;
  p->plan.op_type_case = SPARK__CONNECT__PLAN__OP_TYPE_COMMAND;
  p->plan.command = &p->command;
  return &p->plan;
}

/* What a stream of ExecutePlanResponse brought. */
typedef struct responses {
  trn_inproc_reply reply;
  Spark__Connect__ExecutePlanResponse **items; /* without heartbeats */
  size_t count;
} responses;

static inline void responses_finish(responses *r) {
  for (size_t i = 0; i < r->count; i++) spark__connect__execute_plan_response__free_unpacked(r->items[i], NULL);
  free(r->items);
  trn__inproc_reply_finish(&r->reply);
}

static inline responses collect_responses(spark_client *client, const char *method, trn_slice message) {
  responses r = {0};
  char path[128];
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request call = {.path = path};
  if (trn__inproc_invoke(client->inproc, &call, &message, 1, &r.reply)) abort();
  r.items = calloc(r.reply.message_count ? r.reply.message_count : 1, sizeof *r.items);
  for (size_t i = 0; i < r.reply.message_count; i++) {
    Spark__Connect__ExecutePlanResponse *item =
        unpack_slice(&spark__connect__execute_plan_response__descriptor, &r.reply.messages[i]);
    if (!item) abort();
    if (item->response_type_case == SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_EXECUTION_PROGRESS) {
      spark__connect__execute_plan_response__free_unpacked(item, NULL);
    } else {
      r.items[r.count++] = item;
    }
  }
  return r;
}

static inline responses client_execute(spark_client *client, Spark__Connect__Plan *plan, execute_options options) {
  return collect_responses(client, "ExecutePlan", execute_slice(client, plan, options));
}

static inline trn_slice reattach_slice(spark_client *client, const char *operation_id, const char *last) {
  Spark__Connect__ReattachExecuteRequest request = SPARK__CONNECT__REATTACH_EXECUTE_REQUEST__INIT;
  request.session_id = client->session_id;
  request.operation_id = (char *)operation_id;
  if (last) {
    request._last_response_id_case = SPARK__CONNECT__REATTACH_EXECUTE_REQUEST___LAST_RESPONSE_ID_LAST_RESPONSE_ID;
    request.last_response_id = (char *)last;
  }
  return pack_slice(&request);
}

static inline responses client_reattach(spark_client *client, const char *operation_id, const char *last) {
  return collect_responses(client, "ReattachExecute", reattach_slice(client, operation_id, last));
}

/* `until` NULL: everything. True: the operation was known. */
static inline bool client_release(spark_client *client, const char *operation_id, const char *until) {
  Spark__Connect__ReleaseExecuteRequest request = SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__INIT;
  Spark__Connect__ReleaseExecuteRequest__ReleaseAll all = SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_ALL__INIT;
  Spark__Connect__ReleaseExecuteRequest__ReleaseUntil some =
      SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_UNTIL__INIT;
  request.session_id = client->session_id;
  request.operation_id = (char *)operation_id;
  request.release_case = until ? SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_RELEASE_UNTIL
                               : SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_RELEASE_ALL;
  some.response_id = (char *)until;
  if (until) {
    request.release_until = &some;
  } else {
    request.release_all = &all;
  }
  Spark__Connect__ReleaseExecuteResponse *reply =
      client_ask(client, "ReleaseExecute", &request, &spark__connect__release_execute_response__descriptor);
  bool known = reply && reply->_operation_id_case;
  if (reply) spark__connect__release_execute_response__free_unpacked(reply, NULL);
  return known;
}

/* ---- a call that is watched while it runs ---- */

typedef struct watch {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  size_t messages;
  bool done;
  trn_status status;
  char *text;
  trn_inproc_call *call;
} watch;

static inline void watch_message(void *user, trn_slice message) {
  watch *w = user;
  if (message.release) message.release(message.owner);
  pthread_mutex_lock(&w->mutex);
  w->messages++;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static inline void watch_finish(void *user, const trn_inproc_result *result) {
  watch *w = user;
  pthread_mutex_lock(&w->mutex);
  w->done = true;
  w->status = result->status;
  w->text = strdup(result->message);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static inline void watch_start(spark_client *client, watch *w, const char *method, trn_slice message, bool asked) {
  char path[128];
  memset(w, 0, sizeof *w);
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->changed, NULL);
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request call = {.path = path,
                                   .reads_when_asked = asked,
                                   .send_high_water = asked ? 1024 : 0,
                                   .on_message = watch_message,
                                   .on_finish = watch_finish,
                                   .user = w};
  if (trn__inproc_call(client->inproc, &call, &w->call)) abort();
  trn__inproc_call_send(w->call, message);
  trn__inproc_call_half_close(w->call);
}

/* Waits until so many messages came or (`messages` 0) the end; false: not within 20 s. */
static inline bool watch_wait(watch *w, size_t messages) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20;
  pthread_mutex_lock(&w->mutex);
  bool in_time = true;
  while (in_time && !(messages ? w->messages >= messages : w->done))
    in_time = pthread_cond_timedwait(&w->changed, &w->mutex, &until) == 0;
  pthread_mutex_unlock(&w->mutex);
  return in_time;
}

static inline void watch_end(watch *w) {
  trn__inproc_call_unref(w->call);
  free(w->text);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->mutex);
}

/* Waits for a condition that another thread brings about; false: not within 20 s. */
#define WAIT_UNTIL(condition)                                                                                          \
  for (int wait_left = 20000; wait_left && !(condition); wait_left--)                                                  \
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL)

#endif
