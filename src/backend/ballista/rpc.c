/* The client of a scheduler: channels, unary calls, pushed statuses. */
#include "backend/ballista/client.h"

#include <pthread.h>
#include <stdio.h>

#define SCHEDULER "/ballista.protobuf.SchedulerGrpc/"

struct trn_ballista_client {
  atomic_size_t refs;
  trn_connector *connector;
  trn_arena *arena; /* what the options said */
  trn_ballista_client_options options;
  trn_channel *scheduler;
  trn_pool *pool; /* one thread, for what comes later */
  pthread_mutex_t mu;
  trn_map *channels; /* address -> trn_channel, of executors; guarded by mu */
};

/* ---- the client ---- */

static void unref_channel(void *channel) {
  trn_channel_unref(channel);
}

trn_ballista_client *trn__ballista_client_ref(trn_ballista_client *client) {
  atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
  return client;
}

static void client_free(trn_ballista_client *client) {
  trn_channel_unref(client->scheduler);
  if (client->channels) trn__map_destroy(client->channels, unref_channel);
  if (client->pool) trn__pool_destroy(client->pool);
  trn_connector_unref(client->connector);
  trn__arena_unref(client->arena);
  pthread_mutex_destroy(&client->mu);
  free(client);
}

void trn__ballista_client_unref(trn_ballista_client *client) {
  if (client && atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) == 1) client_free(client);
}

const char *trn__ballista_client_target(const trn_ballista_client *client) {
  return client->options.target;
}

unsigned trn__ballista_timeout_ms(const trn_ballista_client *client) {
  return client->options.timeout_ms;
}

static trn_status open_channel(trn_ballista_client *client, const char *target, bool tls, const trn_metadata *metadata,
                               size_t count, trn_channel **out, trn_error **error) {
  const trn_ballista_client_options *o = &client->options;
  trn_channel_options channel = {.struct_size = sizeof channel,
                                 .target = target,
                                 .routes = o->routes,
                                 .tls = tls,
                                 .ca_pem = tls ? o->ca_pem : NULL,
                                 .cert_pem = tls ? o->cert_pem : NULL,
                                 .key_pem = tls ? o->key_pem : NULL,
                                 .metadata = metadata,
                                 .metadata_count = count,
                                 .connect_timeout_ms = o->timeout_ms,
                                 .backoff_ms_max = TRN_BALLISTA_BACKOFF_MS_MAX,
                                 .keepalive_ms = TRN_BALLISTA_KEEPALIVE_MS,
                                 .keepalive_timeout_ms = TRN_BALLISTA_KEEPALIVE_MS,
                                 .idle_ms = TRN_BALLISTA_IDLE_MS,
                                 .message_bytes_max = o->message_bytes_max};
  return trn_channel_open(client->connector, &channel, out, error);
}

static char *copy_text(trn_arena *arena, const char *text, bool *failed) {
  char *copy = text ? trn__arena_strdup(arena, text) : NULL;
  *failed |= text && !copy;
  return copy;
}

static bool copy_options(trn_ballista_client *client, const trn_ballista_client_options *given) {
  trn_ballista_client_options *o = &client->options;
  bool failed = false;
  *o = *given;
  o->target = copy_text(client->arena, given->target ? given->target : "", &failed);
  o->ca_pem = copy_text(client->arena, given->ca_pem, &failed);
  o->cert_pem = copy_text(client->arena, given->cert_pem, &failed);
  o->key_pem = copy_text(client->arena, given->key_pem, &failed);
  if (!o->timeout_ms) o->timeout_ms = TRN_BALLISTA_TIMEOUT_MS;
  if (!o->message_bytes_max) o->message_bytes_max = TRN_BALLISTA_MESSAGE_BYTES_MAX;
  o->metadata = NULL; /* the channel of the scheduler has it */
  o->metadata_count = 0;
  return !failed;
}

trn_status trn__ballista_client_create(const trn_ballista_client_options *options, trn_ballista_client **out,
                                       trn_error **error) {
  trn_ballista_client *client = calloc(1, sizeof *client);
  trn_status status = TRN_OK;
  *out = NULL;
  if (!client) return trn__no_memory(error);
  atomic_init(&client->refs, 1);
  pthread_mutex_init(&client->mu, NULL);
  client->arena = trn__arena_create(0);
  client->channels = trn__map_create();
  if (!client->arena || !client->channels || !copy_options(client, options) || trn__pool_create(1, &client->pool))
    status = trn__no_memory(error);
  if (options->connector) client->connector = trn_connector_ref(options->connector);
  if (!status) {
    status = open_channel(client, client->options.target, options->scheduler_tls, options->metadata,
                          options->metadata_count, &client->scheduler, error);
  }
  if (status)
    client_free(client);
  else
    *out = client;
  return status;
}

trn_status trn__ballista_channel(trn_ballista_client *client, const char *address, trn_channel **out,
                                 trn_error **error) {
  size_t size = strlen(address);
  trn_status status = TRN_OK;
  trn_channel *made = NULL;
  pthread_mutex_lock(&client->mu);
  trn_channel *known = trn__map_get(client->channels, address, size);
  *out = known ? trn_channel_ref(known) : NULL;
  pthread_mutex_unlock(&client->mu);
  if (*out) return TRN_OK;
  status = open_channel(client, address, client->options.executor_tls, NULL, 0, &made, error);
  if (status) return status;
  pthread_mutex_lock(&client->mu);
  known = trn__map_get(client->channels, address, size);
  if (known) {
    *out = trn_channel_ref(known);
  } else {
    *out = trn_channel_ref(made);
    bool is_kept = trn__map_count(client->channels) < TRN_BALLISTA_EXECUTORS_MAX &&
                   trn__map_set(client->channels, address, size, made, NULL);
    if (is_kept) made = NULL; /* one that is not kept serves this call only */
  }
  pthread_mutex_unlock(&client->mu);
  trn_channel_unref(made);
  return TRN_OK;
}

trn_channel *trn__ballista_scheduler(trn_ballista_client *client) {
  return trn_channel_ref(client->scheduler);
}

trn_status trn__ballista_after(trn_ballista_client *client, unsigned delay_ms, void (*run)(void *argument),
                               void *argument) {
  return trn__pool_submit_after(client->pool, delay_ms, run, argument);
}

/* ---- what calls share ---- */

trn_status trn__ballista_call_error(trn_status status, const char *message, const char *who, trn_error **error) {
  if (status == TRN_DEADLINE_EXCEEDED) return trn_error_set(error, status, NULL, "%s did not answer in time", who);
  if (status == TRN_UNAVAILABLE) return trn_error_set(error, status, NULL, "%s cannot be reached: %s", who, message);
  return trn_error_set(error, status, NULL, "%s answered %s: %s", who, trn_status_name(status), message);
}

trn_slice trn__ballista_own(trn_slice message) {
  if (message.release) return message;
  void *copy = malloc(message.size + 1);
  if (!copy) return (trn_slice){0};
  if (message.size) memcpy(copy, message.data, message.size);
  return (trn_slice){copy, message.size, free, copy};
}

static void release(trn_slice *slice) {
  if (slice->release) slice->release(slice->owner);
  *slice = (trn_slice){0};
}

/* "55" of "55.0.0"; -1: no number. */
static long major_of(const char *version, size_t size) {
  long major = 0;
  size_t i = 0;
  for (; i < size && i < 6 && version[i] >= '0' && version[i] <= '9'; i++) major = 10 * major + (version[i] - '0');
  return i ? major : -1;
}

/* The scheduler says its version in the headers of its answer to a query; one that does not is older than 55. */
static trn_status check_version(const trn_ballista_client *client, const trn_metadata *headers, size_t count,
                                trn_error **error) {
  const char *version = NULL;
  size_t size = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(headers[i].key, TRN_BALLISTA_VERSION_HEADER) != 0) continue;
    version = headers[i].value;
    size = headers[i].size;
  }
  if (version && major_of(version, size) == major_of(TRN_BALLISTA_VERSION, strlen(TRN_BALLISTA_VERSION))) return TRN_OK;
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                       "the Ballista scheduler at %s is of version %.*s, and this server works with %s",
                       client->options.target, version ? (int)(size < 64 ? size : 64) : 21,
                       version ? version : "54 or older (unknown)", TRN_BALLISTA_VERSION);
}

static const trn_metadata version_header = {TRN_BALLISTA_VERSION_HEADER, TRN_BALLISTA_VERSION,
                                            sizeof TRN_BALLISTA_VERSION - 1};

/* ExecuteQueryParams without its plan: session_id = 3, settings = 4 { key = 1, value = 2 }, operation_id = 5; then the
 * head of the plan's field, so that the plan itself follows as it is. */
static trn_strbuf query_head(const trn_ballista_query *query) {
  trn_strbuf out = {0};
  char session[TRN_UUID_SIZE];
  if (!query->session_id) trn__uuid7(session);
  trn__wire_put_text(&out, 3, query->session_id ? query->session_id : session);
  for (size_t i = 0; i < query->setting_count; i++) {
    trn_strbuf pair = {0};
    if (!query->settings[i].value) continue;
    trn__wire_put_bytes(&pair, 1, query->settings[i].key, strlen(query->settings[i].key));
    trn__wire_put_bytes(&pair, 2, query->settings[i].value, strlen(query->settings[i].value));
    trn__wire_put_message(&out, 4, &pair);
  }
  trn__wire_put_text(&out, 5, query->operation_id);
  trn__wire_put_head(&out, query->kind, query->plan.size);
  return out;
}

/* Sends the query and says that no more will come; takes both. */
static void send_query(trn_client_call *call, trn_strbuf *head, const trn_ballista_query *query) {
  trn_slice slices[2] = {{head->data, head->size, free, head->data}, query->plan};
  trn_client_call_send(call, slices, 2, TRN_SEND_MORE);
  trn_client_call_half_close(call);
}

/* ---- unary calls ---- */

typedef struct unary unary;
/* Makes of the answer what the caller is given. */
typedef trn_status (*unary_read)(unary *u, const trn_client_result *result, trn_ballista_reply *reply,
                                 trn_error **error);
struct unary {
  trn_ballista_client *client;
  trn_slice answer;
  unary_read read;
  trn_ballista_done done;
  void *user;
  char *text; /* what `reply` refers to; free */
  trn_ballista_job *job;
  char what[24]; /* "GetJobStatus" */
  bool is_out_of_memory;
};

static void unary_free(unary *u) {
  release(&u->answer);
  free(u->text);
  trn__ballista_job_unref(u->job);
  trn__ballista_client_unref(u->client);
  free(u);
}

static void unary_message(trn_client_call *call, void *user, trn_slice message) {
  unary *u = user;
  (void)call;
  u->answer = trn__ballista_own(message);
  u->is_out_of_memory = message.size && !u->answer.data; /* an empty message is one, too */
}

static trn_status who(const trn_ballista_client *client, const char *what, const trn_client_result *result,
                      trn_error **error) {
  char name[256];
  snprintf(name, sizeof name, "the Ballista scheduler at %s (%s)", client->options.target, what);
  return trn__ballista_call_error(result->status, result->message, name, error);
}

static void unary_done(trn_client_call *call, void *user, const trn_client_result *result) {
  unary *u = user;
  trn_error *error = NULL;
  trn_ballista_reply reply = {0};
  trn_status status = TRN_OK;
  (void)call;
  if (result->status)
    status = who(u->client, u->what, result, &error);
  else if (u->is_out_of_memory)
    status = trn__no_memory(&error);
  else if (u->read)
    status = u->read(u, result, &reply, &error);
  u->done(u->user, status, error, &reply);
  trn_error_unref(error);
  unary_free(u);
}

static const trn_client_handlers unary_handlers = {
    .struct_size = sizeof unary_handlers, .on_message = unary_message, .on_done = unary_done};

/* Gives the call's state, or NULL: no memory. */
static unary *unary_create(trn_ballista_client *client, const char *what, unary_read read, trn_ballista_done done,
                           void *user) {
  unary *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  u->client = trn__ballista_client_ref(client);
  u->read = read, u->done = done, u->user = user;
  snprintf(u->what, sizeof u->what, "%s", what);
  return u;
}

/* Starts it. Not OK: `u` is freed. Gives `*call` (unref). */
static trn_status unary_start(unary *u, const trn_retry_policy *retry, trn_client_call **call, trn_error **error) {
  char path[128];
  trn_client_request request = {.struct_size = sizeof request,
                                .path = path,
                                .kind = TRN_METHOD_UNARY,
                                .metadata = &version_header,
                                .metadata_count = 1,
                                .timeout_ns = u->client->options.timeout_ms * INT64_C(1000000),
                                .retry = retry,
                                .handlers = &unary_handlers,
                                .user = u};
  snprintf(path, sizeof path, SCHEDULER "%s", u->what);
  trn_status status = trn_client_call_start(u->client->scheduler, &request, call, error);
  if (status) unary_free(u);
  return status;
}

/* What only asks is repeated while the scheduler is away for a moment. */
static const trn_retry_policy again = {
    .struct_size = sizeof again, .attempts_max = TRN_BALLISTA_ATTEMPTS_MAX, .backoff_ms = 200, .backoff_ms_max = 2000};

/* All of them have the job's id as field 1. */
static trn_status call_of_job(trn_ballista_client *client, const char *what, const char *job_id, unary_read read,
                              trn_ballista_done done, void *user, trn_error **error) {
  trn_strbuf text = {0};
  trn_client_call *call = NULL;
  trn__wire_put_bytes(&text, 1, job_id, strlen(job_id));
  unary *u = text.failed ? NULL : unary_create(client, what, read, done, user);
  trn_status status = u ? unary_start(u, &again, &call, error) : trn__no_memory(error);
  if (status) {
    trn__strbuf_finish(&text);
    return status;
  }
  trn_slice slice = {text.data, text.size, free, text.data};
  trn_client_call_send(call, &slice, 1, TRN_SEND_MORE);
  trn_client_call_half_close(call);
  trn_client_call_unref(call);
  return TRN_OK;
}

static trn_status read_status(unary *u, const trn_client_result *result, trn_ballista_reply *reply, trn_error **error) {
  trn_status status = trn__ballista_job_parse(u->answer.data, u->answer.size, &u->job, error);
  (void)result;
  reply->job = u->job;
  return status;
}

trn_status trn__ballista_job_status(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                                    trn_error **error) {
  return call_of_job(client, "GetJobStatus", job_id, read_status, done, user, error);
}

static trn_status read_metrics(unary *u, const trn_client_result *result, trn_ballista_reply *reply,
                               trn_error **error) {
  trn_strbuf text = {0};
  trn_status status = trn__ballista_metrics_parse(u->answer.data, u->answer.size, &text, error);
  (void)result;
  u->text = text.data;
  reply->metrics = text.data;
  return status;
}

trn_status trn__ballista_job_metrics(trn_ballista_client *client, const char *job_id, trn_ballista_done done,
                                     void *user, trn_error **error) {
  return call_of_job(client, "GetJobMetrics", job_id, read_metrics, done, user, error);
}

trn_status trn__ballista_cancel(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                                trn_error **error) {
  return call_of_job(client, "CancelJob", job_id, NULL, done, user, error);
}

trn_status trn__ballista_clean(trn_ballista_client *client, const char *job_id, trn_ballista_done done, void *user,
                               trn_error **error) {
  return call_of_job(client, "CleanJobData", job_id, NULL, done, user, error);
}

/* ---- submission ---- */

static void ignored(void *user, trn_status status, const trn_error *error, const trn_ballista_reply *reply) {
  (void)user, (void)status, (void)error, (void)reply;
}

/* ExecuteQueryFailureResult: what each of its texts is about. */
static trn_status read_failure(const trn_ballista_client *client, trn_wire_reader r, trn_error **error) {
  static const char *const what[] = {"", "does not know the session", "cannot read the plan", "cannot read the text"};
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number < 1 || f.number > 3 || f.type != 2) continue;
    return trn_error_set(error, f.number == 1 ? TRN_NOT_FOUND : TRN_INVALID_ARGUMENT, NULL,
                         "the Ballista scheduler at %s %s: %.*s", client->options.target, what[f.number],
                         (int)(f.bytes.size < 4096 ? f.bytes.size : 4096), f.bytes.data);
  }
  return trn_error_set(error, TRN_INTERNAL, NULL,
                       "the Ballista scheduler at %s did not take the query, and says not why", client->options.target);
}

/* ExecuteQueryResult { success = 1 { job_id = 1 }, failure = 2 } */
static trn_status read_submitted(unary *u, const trn_client_result *result, trn_ballista_reply *reply,
                                 trn_error **error) {
  trn_wire_reader r = trn__wire_reader(u->answer.data, u->answer.size);
  trn_wire_field f, g;
  trn_str id = {0};
  trn_status status = TRN_OK;
  while (status == TRN_OK && trn__wire_next(&r, &f)) {
    if (f.number == 1 && f.type == 2) {
      trn_wire_reader inside = trn__wire_inside(&f);
      while (trn__wire_next(&inside, &g))
        if (g.number == 1 && g.type == 2) id = g.bytes;
      r.is_bad |= inside.is_bad;
    }
    if (f.number == 2 && f.type == 2) status = read_failure(u->client, trn__wire_inside(&f), error);
  }
  if (status) return status;
  if (r.is_bad || !id.size || id.size > TRN_BALLISTA_ID_BYTES_MAX || memchr(id.data, 0, id.size))
    return trn_error_set(error, TRN_DATA_LOSS, NULL, "the Ballista scheduler at %s answered to a query with no job",
                         u->client->options.target);
  u->text = strndup(id.data, id.size);
  if (!u->text) return trn__no_memory(error);
  status = check_version(u->client, result->initial, result->initial_count, error);
  if (status) trn__ballista_cancel(u->client, u->text, ignored, NULL, NULL);
  reply->job_id = u->text;
  return status;
}

trn_status trn__ballista_execute(trn_ballista_client *client, const trn_ballista_query *query, trn_ballista_done done,
                                 void *user, trn_error **error) {
  trn_client_call *call = NULL;
  trn_strbuf head = query_head(query);
  unary *u = head.failed ? NULL : unary_create(client, "ExecuteQuery", read_submitted, done, user);
  trn_status status = u ? unary_start(u, NULL, &call, error) : trn__no_memory(error);
  if (status) {
    trn_slice plan = query->plan;
    release(&plan);
    trn__strbuf_finish(&head);
    return status;
  }
  send_query(call, &head, query);
  trn_client_call_unref(call);
  return TRN_OK;
}

/* ---- pushed statuses ---- */

struct trn_ballista_push {
  atomic_size_t refs; /* the caller's, and the call's until its end */
  trn_ballista_client *client;
  trn_client_call *call; /* set before anything is sent */
  trn_ballista_push_handlers handlers;
  void *user;
  /* touched by the call's callbacks only */
  trn_error *error; /* of an answer that cannot be used */
  trn_status status;
  trn_ballista_job *last;
};

void trn__ballista_push_unref(trn_ballista_push *push) {
  if (!push || atomic_fetch_sub_explicit(&push->refs, 1, memory_order_acq_rel) != 1) return;
  trn_client_call_unref(push->call);
  trn_error_unref(push->error);
  trn__ballista_job_unref(push->last);
  trn__ballista_client_unref(push->client);
  free(push);
}

void trn__ballista_push_cancel(trn_ballista_push *push) {
  trn_client_call_cancel(push->call);
}

static void push_initial(trn_client_call *call, void *user, const trn_metadata *metadata, size_t count) {
  trn_ballista_push *push = user;
  push->status = check_version(push->client, metadata, count, &push->error);
  if (push->status)
    trn_client_call_cancel(call);
  else
    push->handlers.on_taken(push->user);
}

static void push_message(trn_client_call *call, void *user, trn_slice message) {
  trn_ballista_push *push = user;
  trn_ballista_job *job = NULL;
  if (!push->status) push->status = trn__ballista_job_parse(message.data, message.size, &job, &push->error);
  release(&message);
  if (push->status) {
    trn_client_call_cancel(call);
    return;
  }
  trn__ballista_job_unref(push->last);
  push->last = job;
  push->handlers.on_status(push->user, job);
  trn_client_call_recv(call);
}

static void push_done(trn_client_call *call, void *user, const trn_client_result *result) {
  trn_ballista_push *push = user;
  trn_ballista_reply reply = {.job = push->last};
  (void)call;
  if (!push->status && result->status) push->status = who(push->client, "ExecuteQueryPush", result, &push->error);
  push->handlers.on_done(push->user, push->status, push->error, &reply);
  trn__ballista_push_unref(push);
}

static trn_status push_start(trn_ballista_push *push, trn_error **error) {
  static const trn_client_handlers handlers = {.struct_size = sizeof handlers,
                                               .on_initial = push_initial,
                                               .on_message = push_message,
                                               .on_done = push_done};
  trn_client_request request = {.struct_size = sizeof request,
                                .path = SCHEDULER "ExecuteQueryPush",
                                .kind = TRN_METHOD_SERVER_STREAM,
                                .metadata = &version_header,
                                .metadata_count = 1,
                                .handlers = &handlers,
                                .user = push};
  return trn_client_call_start(push->client->scheduler, &request, &push->call, error);
}

trn_status trn__ballista_execute_push(trn_ballista_client *client, const trn_ballista_query *query,
                                      const trn_ballista_push_handlers *handlers, void *user, trn_ballista_push **out,
                                      trn_error **error) {
  trn_strbuf head = query_head(query);
  trn_ballista_push *push = head.failed ? NULL : calloc(1, sizeof *push);
  trn_status status = push ? TRN_OK : trn__no_memory(error);
  *out = NULL;
  if (!status) {
    atomic_init(&push->refs, 2);
    push->client = trn__ballista_client_ref(client);
    push->handlers = *handlers, push->user = user;
    status = push_start(push, error);
  }
  if (status) {
    trn_slice plan = query->plan;
    release(&plan);
    trn__strbuf_finish(&head);
    if (push) atomic_store(&push->refs, 1);
    trn__ballista_push_unref(push);
    return status;
  }
  *out = push;
  send_query(push->call, &head, query);
  trn_client_call_recv(push->call);
  return TRN_OK;
}
