/* The trace layer: spans, the slow-query and audit logs, metrics. It changes nothing but the trace context that goes on. */
#include "layer/trace.h"

#include <trunnion/client.h>

#include "core/query.h"

typedef struct trace {
  atomic_size_t refs; /* the layer's, and one for each layer whose events come here */
  trn_event_sink sink; /* where they go on to; NULL: nowhere */
  void *sink_user;
  trace_file file, audit;
  uint64_t slow_ms; /* 0: no log of slow queries */
  int64_t statement_bytes;
  trace_metrics *metrics;
  trn_span_exporter exporter;
} trace;

static void tell(trace *t, trn_layer_session *s, trn_event *event) {
  trn_layer *layer = trn_layer_session_layer(s);
  trn_session *session = trn_layer_session_get(s);
  event->struct_size = sizeof *event;
  event->layer = trn__layer_name(layer);
  event->user = trn_session_user(session);
  event->session_id = trn_session_id(session);
  trace__file_write(event->kind == TRN_EVENT_AUDIT && t->audit.fd >= 0 ? &t->audit : &t->file, event);
  if (event->kind == TRN_EVENT_SPAN && t->exporter.span) t->exporter.span(t->exporter.user, event);
  trn__layer_emit(layer, s, event);
}

/* A finished span that is not an operation's. */
static void tell_span(trace *t, trn_layer_session *s, const trace_context *context, const char *action,
                      const char *object, int64_t wall_ns, int64_t begun_ns, trn_status status,
                      const trn_error *error) {
  char span[SPAN_ID_TEXT];
  trace__span_id(span);
  trn_event event = {.kind = TRN_EVENT_SPAN,
                     .action = action,
                     .object = object,
                     .detail = error ? trn_error_message(error) : NULL,
                     .trace_id = context->trace,
                     .span_id = span,
                     .parent_id = context->parent[0] ? context->parent : NULL,
                     .start_ns = wall_ns,
                     .duration_ns = trn__now_ns() - begun_ns,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
  tell(t, s, &event);
}

/* ---- one operation ---- */

typedef struct traced {
  trace *trace;
  trn_layer_session *session;
  trn_session *held; /* a reference: keeps both */
  trace_context context;
  char call[SPAN_ID_TEXT], fetch[SPAN_ID_TEXT];
  char *operation_id, *statement, *protocol, *objects;
  const char *kind; /* of the statement */
  int64_t wall_ns, begun_ns;
  atomic_int_least64_t fetch_wall_ns, fetch_ns; /* 0: nothing was read yet */
  atomic_uint_least64_t rows, bytes;
} traced;

static void traced_free(void *user) {
  traced *t = user;
  free(t->operation_id);
  free(t->statement);
  free(t->protocol);
  free(t->objects);
  trn_session_unref(t->held);
  free(t);
}

static char *statement_text(const trace *trace, const trn_execute_request *request) {
  const char *text = request->statement ? request->statement : trn_plan_text(request->plan);
  char *printed = NULL;
  if (!text && trn_plan_print(request->plan, &printed) == TRN_OK) text = printed;
  size_t size = text ? strlen(text) : 0;
  if (size > (size_t)trace->statement_bytes) size = (size_t)trace->statement_bytes;
  while (text && size && ((unsigned char)text[size] & 0xc0) == 0x80) size--; /* no half character */
  char *copy = text ? malloc(size + 1) : NULL;
  if (copy) {
    memcpy(copy, text, size);
    copy[size] = 0;
  }
  trn_free(printed);
  return copy;
}

static traced *traced_create(trace *trace, trn_layer_session *s, const trn_execute_request *request) {
  traced *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->trace = trace;
  t->session = s;
  t->held = trn_session_ref(trn_layer_session_get(s));
  t->context = trace__context(request->traceparent);
  trace__span_id(t->call);
  trace__span_id(t->fetch);
  t->operation_id = trn__text_copy(request->operation_id);
  t->protocol = trn__text_copy(request->protocol);
  t->statement = statement_text(trace, request);
  t->objects = trn__plan_objects(request->plan);
  t->kind = trn__plan_statement(request->plan);
  t->wall_ns = trn__wall_ms() * 1000000;
  t->begun_ns = trn__now_ns();
  return t;
}

static trn_event event_of(const traced *t, trn_event_kind kind, const char *action, trn_status status) {
  return (trn_event){.kind = kind,
                     .action = action,
                     .object = t->objects,
                     .operation_id = t->operation_id,
                     .statement = t->statement,
                     .protocol = t->protocol,
                     .trace_id = t->context.trace,
                     .start_ns = t->wall_ns,
                     .duration_ns = trn__now_ns() - t->begun_ns,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
}

/* The end of it all: the spans of fetch and call, audit, slow log, metrics. */
static void traced_end(traced *t, trn_status status, const trn_error *error, bool begun) {
  uint64_t rows = atomic_load(&t->rows), bytes = atomic_load(&t->bytes);
  int64_t fetch_ns = atomic_load(&t->fetch_ns), now = trn__now_ns();
  const char *detail = error ? trn_error_message(error) : NULL;
  if (fetch_ns) {
    trn_event fetch = event_of(t, TRN_EVENT_SPAN, "fetch", status);
    fetch.statement = NULL;
    fetch.span_id = t->fetch, fetch.parent_id = t->call;
    fetch.start_ns = atomic_load(&t->fetch_wall_ns), fetch.duration_ns = now - fetch_ns;
    fetch.rows = (int64_t)rows, fetch.bytes = (int64_t)bytes;
    tell(t->trace, t->session, &fetch);
  }
  trn_event call = event_of(t, TRN_EVENT_SPAN, "call", status);
  call.span_id = t->call, call.parent_id = t->context.parent[0] ? t->context.parent : NULL;
  call.rows = (int64_t)rows, call.bytes = (int64_t)bytes, call.detail = detail;
  tell(t->trace, t->session, &call);
  trn_event audit = event_of(t, TRN_EVENT_AUDIT, t->kind, status);
  audit.rows = (int64_t)rows, audit.bytes = (int64_t)bytes, audit.detail = detail;
  tell(t->trace, t->session, &audit);
  if (t->trace->slow_ms && (uint64_t)(now - t->begun_ns) >= t->trace->slow_ms * 1000000) {
    trn_event slow = event_of(t, TRN_EVENT_SLOW, t->kind, status);
    slow.rows = (int64_t)rows, slow.bytes = (int64_t)bytes;
    tell(t->trace, t->session, &slow);
  }
  trace__metrics_end(t->trace->metrics, t->protocol, begun, status, now - t->begun_ns, rows, bytes);
}

static void on_pull(void *user) {
  traced *t = user;
  int64_t none = 0;
  if (atomic_load(&t->fetch_ns)) return;
  atomic_store(&t->fetch_wall_ns, trn__wall_ms() * 1000000);
  atomic_compare_exchange_strong(&t->fetch_ns, &none, trn__now_ns());
}

static trn_status on_item(void *user, int64_t rows, uint64_t bytes, trn_error **error) {
  traced *t = user;
  (void)error;
  atomic_fetch_add(&t->rows, (uint64_t)rows);
  atomic_fetch_add(&t->bytes, bytes);
  return TRN_OK;
}

static void on_end(void *user, trn_status status, const trn_error *error) {
  traced_end(user, status, error, true);
}

/* ---- the layer ---- */

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *given, trn_operation **out,
                          trn_error **error) {
  static const trn_watch_hooks hooks = {.struct_size = sizeof hooks,
                                        .pull = on_pull,
                                        .item = on_item,
                                        .end = on_end,
                                        .destroy = traced_free};
  trace *trace = self;
  traced *t = traced_create(trace, s, given);
  if (!t) return trn__no_memory(error);
  char parent[TRACEPARENT_TEXT], span[SPAN_ID_TEXT];
  trn_execute_request request = *given;
  trn_operation *inner = NULL;
  trn_error *failure = NULL;
  trace__span_id(span);
  trace__parent_text(&t->context, span, parent);
  request.traceparent = parent;
  trace__metrics_begin(trace->metrics, t->protocol);
  int64_t begun = trn__now_ns();
  trn_status status = trn_next_execute(s, &request, &inner, &failure);
  if (inner && !t->operation_id) t->operation_id = trn__text_copy(trn_operation_id(inner));
  trn_event event = event_of(t, TRN_EVENT_SPAN, "execute", status);
  event.span_id = span, event.parent_id = t->call;
  event.duration_ns = trn__now_ns() - begun;
  event.detail = failure ? trn_error_message(failure) : NULL;
  tell(trace, s, &event);
  if (status == TRN_OK) {
    status = trn_operation_watch(inner, &hooks, t, out);
    if (status == TRN_OK) return TRN_OK;
    trn_operation_cancel(inner);
    trn_operation_unref(inner);
    trn__no_memory(&failure);
  }
  traced_end(t, status, failure, true);
  traced_free(t);
  if (error)
    *error = failure;
  else
    trn_error_unref(failure);
  return status;
}

static const char *option(const trn_plan_input *input, const char *key) {
  for (size_t i = 0; i < input->option_count; i++)
    if (input->options[i].key && strcmp(input->options[i].key, key) == 0) return input->options[i].value;
  return NULL;
}

/* A failure on its way out, seen by the span. */
static trn_status hand_over(trn_status status, trn_error *failure, trn_error **error) {
  if (error && status)
    *error = failure;
  else
    trn_error_unref(failure);
  return status;
}

static trn_status decode(void *self, trn_layer_session *s, const trn_plan_input *input, trn_plan **out,
                         trn_error **error) {
  trace_context context = trace__context(option(input, "traceparent"));
  int64_t wall = trn__wall_ms() * 1000000, begun = trn__now_ns();
  trn_error *failure = NULL;
  trn_status status = trn_next_decode(s, input, out, &failure);
  tell_span(self, s, &context, "plan", input->format, wall, begun, status, failure);
  return hand_over(status, failure, error);
}

static trn_status decode_statement(void *self, trn_layer_session *s, const trn_plan_input *input, trn_statement *out,
                                   trn_error **error) {
  trace_context context = trace__context(option(input, "traceparent"));
  int64_t wall = trn__wall_ms() * 1000000, begun = trn__now_ns();
  trn_error *failure = NULL;
  trn_status status = trn_next_decode_statement(s, input, out, &failure);
  tell_span(self, s, &context, "plan", input->format, wall, begun, status, failure);
  return hand_over(status, failure, error);
}

static trn_status open_source(void *self, trn_layer_session *s, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  trace_context context = trace__context(NULL);
  int64_t wall = trn__wall_ms() * 1000000, begun = trn__now_ns();
  trn_error *failure = NULL;
  trn_status status = trn_next_open_source(s, request, out, schema, &failure);
  tell_span(self, s, &context, "open", request->path_count ? request->paths[0] : request->format, wall, begun, status,
            failure);
  return hand_over(status, failure, error);
}

static trn_status explain(void *self, trn_layer_session *s, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  trace_context context = trace__context(NULL);
  char *objects = trn__plan_objects(plan);
  int64_t wall = trn__wall_ms() * 1000000, begun = trn__now_ns();
  trn_error *failure = NULL;
  trn_status status = trn_next_explain(s, plan, mode, out, &failure);
  tell_span(self, s, &context, "explain", objects, wall, begun, status, failure);
  trn_event audit = {.kind = TRN_EVENT_AUDIT,
                     .action = "explain",
                     .object = objects,
                     .statement = trn_plan_text(plan),
                     .detail = failure ? trn_error_message(failure) : NULL,
                     .start_ns = wall,
                     .duration_ns = trn__now_ns() - begun,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
  tell(self, s, &audit);
  free(objects);
  return hand_over(status, failure, error);
}

static trn_status open_session(void *self, trn_layer_session *s, void **state, trn_error **error) {
  (void)s, (void)error;
  *state = NULL;
  trace__metrics_session(((trace *)self)->metrics, 1);
  return TRN_OK;
}

static void close_session(void *self, trn_layer_session *s, void *state) {
  (void)s, (void)state;
  trace__metrics_session(((trace *)self)->metrics, -1);
}

/* ---- changes of catalogs: for the audit log ---- */

typedef struct catalog_trace {
  trace *trace;
  trn_layer *layer;
  trn_backend *backend; /* a reference: keeps both */
} catalog_trace;

static void catalog_changed(void *user, trn_session *session, const trn_catalog_access *access) {
  static const char *const actions[] = {[TRN_CATALOG_READ] = "read",   [TRN_CATALOG_LIST] = "list",
                                        [TRN_CATALOG_CREATE] = "create", [TRN_CATALOG_WRITE] = "insert",
                                        [TRN_CATALOG_ALTER] = "alter", [TRN_CATALOG_DROP] = "drop",
                                        [TRN_CATALOG_DESCRIBE] = "describe"};
  catalog_trace *c = user;
  trn_strbuf name = {0};
  trn__strbuf_printf(&name, "%s.%s%s%s", access->catalog ? access->catalog : "", access->database,
                     access->table ? "." : "", access->table ? access->table : "");
  trn_event audit = {.struct_size = sizeof audit,
                     .kind = TRN_EVENT_AUDIT,
                     .layer = trn__layer_name(c->layer),
                     .action = actions[access->action],
                     .object = name.data,
                     .user = trn_session_user(session),
                     .session_id = trn_session_id(session),
                     .detail = access->location,
                     .start_ns = trn__wall_ms() * 1000000,
                     .rows = -1,
                     .bytes = -1};
  trace__file_write(c->trace->audit.fd >= 0 ? &c->trace->audit : &c->trace->file, &audit);
  trn__layer_emit(c->layer, NULL, &audit);
  trn__strbuf_finish(&name);
}

static void catalog_trace_free(void *user) {
  catalog_trace *c = user;
  trn_backend_unref(c->backend);
  free(c);
}

static trn_status wrap_catalog(void *self, trn_layer_session *s, trn_catalog *inner, trn_catalog **out,
                               trn_error **error) {
  static const trn_catalog_hooks hooks = {
      .struct_size = sizeof hooks, .changed = catalog_changed, .destroy = catalog_trace_free};
  catalog_trace *c = malloc(sizeof *c);
  if (!c) return trn__no_memory(error);
  trn_layer *layer = trn_layer_session_layer(s);
  *c = (catalog_trace){self, layer, trn__layer_ref(layer)};
  if (trn_catalog_wrap(inner, &hooks, c, out) == TRN_OK) return TRN_OK;
  catalog_trace_free(c);
  return trn__no_memory(error);
}

/* ---- making ---- */

static void trace_free(trace *t) {
  trace__file_close(&t->file);
  trace__file_close(&t->audit);
  trace__metrics_destroy(t->metrics);
  free(t);
}

static void trace_unref(void *self) {
  trace *t = self;
  if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  if (t->exporter.flush) t->exporter.flush(t->exporter.user, 2000);
  if (t->exporter.destroy) t->exporter.destroy(t->exporter.user);
  trace_free(t);
}

static void destroy(void *self) {
  trace_unref(self);
}

static void foreign_event(void *user, const trn_event *event) {
  trace *t = user;
  trace__file_write(&t->file, event);
  if (t->sink) t->sink(t->sink_user, event);
}

bool trn__trace_adopt(trn_layer *layer, trn_layer *other) {
  if (!trn__layer_is(layer, destroy)) return false;
  trace *t = trn__layer_self(layer);
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  trn__layer_redirect(other, foreign_event, t, trace_unref);
  return true;
}

void trn__trace_forward(trn_layer *layer, trn_event_sink sink, void *user) {
  if (!trn__layer_is(layer, destroy)) return;
  trace *t = trn__layer_self(layer);
  t->sink = sink;
  t->sink_user = user;
}

/* `otlp`: http://host:port of a collector, https for TLS. Gives what the exporter wants; nothing without the key. */
static trn_status make_exporter(const trn_trace_options *options, trn_span_exporter *out, trn_error **error) {
  static const struct {
    const char *prefix;
    bool tls;
  } kinds[] = {{"http://", false}, {"https://", true}};
  const char *url = NULL, *service = NULL;
  trn_channel *channel = NULL;
  trn_status status = trn_config_text(options->config, "otlp", &url, error);
  if (status == TRN_OK) status = trn_config_text(options->config, "service", &service, error);
  if (status || !url) return status;
  const char *origin = trn_config_origin(trn_config_get(options->config, "otlp"));
  if (options->exporter)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: otlp: there is an exporter already", origin);
  if (!options->connector)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s: otlp: there is no client for networks here", origin);
  trn_channel_options target = {.struct_size = sizeof target};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !target.target; i++)
    if (strncmp(url, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
      target.target = url + strlen(kinds[i].prefix), target.tls = kinds[i].tls;
  if (!target.target || !strchr(target.target, ':') || strchr(target.target, '/'))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s: otlp: '%s' is not http://host:port or https://host:port of a collector (gRPC)", origin, url);
  status = trn_channel_open(options->connector, &target, &channel, error);
  if (status == TRN_OK && trn_otlp_exporter_create(channel, service, out)) status = trn__no_memory(error);
  trn_channel_unref(channel);
  return status;
}

trn_status trn_trace_create(const trn_trace_options *given, trn_backend *inner, trn_backend **out, trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "trace",
                                    .role = TRN_LAYER_OBSERVE,
                                    .open_session = open_session,
                                    .close_session = close_session,
                                    .open_source = open_source,
                                    .execute = execute,
                                    .explain = explain,
                                    .decode = decode,
                                    .catalog = wrap_catalog,
                                    .decode_statement = decode_statement,
                                    .destroy = destroy};
  static const char *const keys[] = {"file", "audit_file", "slow", "statement_bytes", "otlp", "service", NULL};
  *out = NULL;
  trn_trace_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  trace *t = calloc(1, sizeof *t);
  const char *file = NULL, *audit = NULL;
  if (!t) return trn__no_memory(error);
  atomic_init(&t->refs, 1);
  t->statement_bytes = 4096;
  t->audit.fd = -1;
  t->metrics = trace__metrics_create();
  trn_status status = t->metrics ? trn_config_check_keys(options.config, keys, error) : trn__no_memory(error);
  if (status == TRN_OK) status = trn_config_text(options.config, "file", &file, error);
  if (status == TRN_OK) status = trn_config_text(options.config, "audit_file", &audit, error);
  if (status == TRN_OK) status = trn_config_duration(options.config, "slow", &t->slow_ms, error);
  if (status == TRN_OK)
    status = trn_config_number(options.config, "statement_bytes", 0, 1 << 20, &t->statement_bytes, error);
  trn_status opened = trace__file_open(&t->file, status ? NULL : file, error);
  trn_status audited = trace__file_open(&t->audit, status || opened ? NULL : audit, error);
  if (status == TRN_OK) status = opened ? opened : audited;
  trn_span_exporter own = {0};
  if (status == TRN_OK) status = make_exporter(&options, &own, error);
  if (status == TRN_OK) {
    status = trn__layer_make(&ops, t, inner, options.sink, options.sink_user, out, error);
    if (status == TRN_OK && options.exporter)
      memcpy(&t->exporter, options.exporter, trn__struct_size(options.exporter->struct_size, sizeof t->exporter));
    if (status == TRN_OK && own.destroy) t->exporter = own;
    if (status && own.destroy) own.destroy(own.user);
  }
  if (status) trace_free(t);
  return status;
}

/* ---- metrics of a stack ---- */

trn_status trn_metrics_render(trn_backend *backend, char **out) {
  trn_strbuf text = {0};
  bool found = false;
  *out = NULL;
  for (trn_layer *layer = trn__layer_of(backend); layer; backend = trn_layer_next(layer), layer = trn__layer_of(backend)) {
    trn_limit_counts limits = {.struct_size = sizeof limits};
    if (trn__layer_is(layer, destroy)) {
      found = true;
      trace__metrics_render(((trace *)trn__layer_self(layer))->metrics, &text);
    } else if (trn_limit_count(backend, &limits)) {
      trn__strbuf_printf(&text,
                         "# TYPE trunnion_limit_running gauge\ntrunnion_limit_running %llu\n"
                         "# TYPE trunnion_limit_waiting gauge\ntrunnion_limit_waiting %llu\n"
                         "# TYPE trunnion_limit_refused_total counter\ntrunnion_limit_refused_total %llu\n",
                         (unsigned long long)limits.running, (unsigned long long)limits.waiting,
                         (unsigned long long)(limits.refused + limits.expired));
    }
    trn_cache_counts cache = {.struct_size = sizeof cache};
    if (trn_cache_count(backend, &cache))
      trn__strbuf_printf(&text,
                         "# TYPE trunnion_cache_hits_total counter\ntrunnion_cache_hits_total %llu\n"
                         "# TYPE trunnion_cache_misses_total counter\ntrunnion_cache_misses_total %llu\n"
                         "# TYPE trunnion_cache_bytes gauge\ntrunnion_cache_bytes %llu\n",
                         (unsigned long long)(cache.hits + cache.disk_hits), (unsigned long long)cache.misses,
                         (unsigned long long)cache.bytes);
  }
  if (!found || text.failed) {
    trn__strbuf_finish(&text);
    return found ? TRN_RESOURCE_EXHAUSTED : TRN_NOT_FOUND;
  }
  *out = text.data;
  return TRN_OK;
}
