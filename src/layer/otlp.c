/* Spans to an OpenTelemetry collector: OTLP's ExportTraceServiceRequest, written by hand (a dozen fields), in batches. */
#include <pthread.h>
#include <trunnion/client.h>

#include "core/query.h"
#include "core/varint.h"
#include "layer/layer.h"

enum { OTLP_BATCH = 64, OTLP_CALLS_MAX = 4, OTLP_TIMEOUT_S = 10, OTLP_BYTES_MAX = 4 << 20, OTLP_DELAY_MS = 2000 };
#define OTLP_PATH "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

typedef struct otlp {
  atomic_size_t refs; /* the exporter's, and one for each call */
  trn_channel *channel;
  char *service;
  trn_pool *pool; /* sends what is not a whole batch after a while */
  pthread_mutex_t mu;
  /* guarded by mu */
  trn_strbuf spans; /* fields 2 of a ScopeSpans, one after the other */
  size_t count;
  bool is_waiting; /* send_rest will come */
  atomic_size_t calls, dropped;
} otlp;

static void otlp_unref(otlp *o) {
  if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
  trn_channel_unref(o->channel);
  trn__strbuf_finish(&o->spans);
  pthread_mutex_destroy(&o->mu);
  free(o->service);
  free(o);
}

/* ---- protobuf ---- */

static void put_fixed(trn_strbuf *out, unsigned field, int64_t value) {
  trn__strbuf_varint(out, field << 3 | 1);
  trn__strbuf_add(out, &value, sizeof value);
}

/* A message of its own as a field; takes it. */
static void put_message(trn_strbuf *out, unsigned field, trn_strbuf *message) {
  if (message->failed) out->failed = true;
  trn__strbuf_field(out, field, message->data ? message->data : "", message->size);
  trn__strbuf_finish(message);
}

/* KeyValue { key = 1, value = 2: AnyValue { string_value = 1 } } */
static void put_attribute(trn_strbuf *out, unsigned field, const char *key, const char *value) {
  trn_strbuf pair = {0}, any = {0};
  if (!value || !*value) return;
  trn__strbuf_field(&pair, 1, key, strlen(key));
  trn__strbuf_field(&any, 1, value, strlen(value));
  put_message(&pair, 2, &any);
  put_message(out, field, &pair);
}

/* AnyValue { int_value = 3 } */
static void put_number(trn_strbuf *out, unsigned field, const char *key, int64_t value) {
  trn_strbuf pair = {0}, any = {0};
  if (value < 0) return;
  trn__strbuf_field(&pair, 1, key, strlen(key));
  trn__strbuf_varint(&any, 3 << 3);
  trn__strbuf_varint(&any, (uint64_t)value);
  put_message(&pair, 2, &any);
  put_message(out, field, &pair);
}

static void put_hex(trn_strbuf *out, unsigned field, const char *hex) {
  unsigned char bytes[16];
  size_t size = hex ? strlen(hex) / 2 : 0;
  if (!size || size > sizeof bytes) return;
  for (size_t i = 0; i < size; i++) {
    unsigned digits[2];
    for (int k = 0; k < 2; k++) {
      char c = hex[2 * i + (size_t)k];
      digits[k] = c >= 'a' ? (unsigned)(c - 'a' + 10) : (unsigned)(c - '0');
    }
    bytes[i] = (unsigned char)(digits[0] << 4 | (digits[1] & 15));
  }
  trn__strbuf_field(out, field, bytes, size);
}

static void put_span(trn_strbuf *out, const trn_event *e) {
  trn_strbuf span = {0}, status = {0};
  put_hex(&span, 1, e->trace_id);
  put_hex(&span, 2, e->span_id);
  put_hex(&span, 4, e->parent_id);
  trn__strbuf_field(&span, 5, e->action, strlen(e->action));
  trn__strbuf_varint(&span, 6 << 3);
  trn__strbuf_varint(&span, strcmp(e->action, "call") == 0 ? 2 : 1); /* SERVER, INTERNAL */
  put_fixed(&span, 7, e->start_ns);
  put_fixed(&span, 8, e->start_ns + e->duration_ns);
  put_attribute(&span, 9, "db.user", e->user);
  put_attribute(&span, 9, "db.statement", e->statement);
  put_attribute(&span, 9, "trunnion.protocol", e->protocol);
  put_attribute(&span, 9, "trunnion.session", e->session_id);
  put_attribute(&span, 9, "trunnion.operation", e->operation_id);
  put_attribute(&span, 9, "trunnion.object", e->object);
  put_number(&span, 9, "trunnion.rows", e->rows);
  put_number(&span, 9, "trunnion.bytes", e->bytes);
  if (e->detail) trn__strbuf_field(&status, 2, e->detail, strlen(e->detail));
  trn__strbuf_varint(&status, 3 << 3);
  trn__strbuf_varint(&status, e->status ? 2 : 1); /* ERROR, OK */
  put_message(&span, 15, &status);
  put_message(out, 2, &span);
}

/* The whole request around the spans; takes them. */
static trn_strbuf request_of(const otlp *o, trn_strbuf *spans) {
  trn_strbuf resource = {0}, scope = {0}, scoped = {0}, all = {0}, request = {0};
  put_attribute(&resource, 1, "service.name", o->service);
  trn__strbuf_field(&scope, 1, "trunnion", strlen("trunnion"));
  put_message(&scoped, 1, &scope);
  trn__strbuf_add(&scoped, spans->data, spans->size);
  trn__strbuf_finish(spans);
  put_message(&all, 1, &resource);
  put_message(&all, 2, &scoped);
  put_message(&request, 1, &all);
  return request;
}

/* ---- sending ---- */

static void on_done(trn_client_call *call, void *user, const trn_client_result *result) {
  otlp *o = user;
  (void)call;
  if (result->status) atomic_fetch_add(&o->dropped, OTLP_BATCH);
  atomic_fetch_sub(&o->calls, 1);
  otlp_unref(o);
}

/* Takes the request. */
static void send_batch(otlp *o, trn_strbuf *request) {
  static const trn_client_handlers handlers = {.struct_size = sizeof handlers, .on_done = on_done};
  trn_client_request start = {.struct_size = sizeof start,
                              .path = OTLP_PATH,
                              .kind = TRN_METHOD_UNARY,
                              .timeout_ns = OTLP_TIMEOUT_S * INT64_C(1000000000),
                              .handlers = &handlers,
                              .user = o};
  trn_client_call *call = NULL;
  bool is_late = request->failed || atomic_fetch_add(&o->calls, 1) >= OTLP_CALLS_MAX;
  atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  if (!is_late && trn_client_call_start(o->channel, &start, &call, NULL) == TRN_OK) {
    trn_slice slice = {request->data, request->size, free, request->data};
    (void)trn_client_call_send(call, &slice, 1, 0); /* takes it in every case */
    trn_client_call_half_close(call);
    trn_client_call_unref(call);
    return;
  }
  atomic_fetch_add(&o->dropped, OTLP_BATCH);
  if (!request->failed) atomic_fetch_sub(&o->calls, 1);
  trn__strbuf_finish(request);
  otlp_unref(o);
}

/* False: there are none. locks: o->mu held */
static bool take(otlp *o, trn_strbuf *out) {
  bool any = o->count > 0;
  *out = o->spans;
  o->spans = (trn_strbuf){0};
  o->count = 0;
  return any;
}

static void send_rest(void *argument) {
  otlp *o = argument;
  trn_strbuf rest;
  pthread_mutex_lock(&o->mu);
  bool any = take(o, &rest);
  o->is_waiting = false;
  pthread_mutex_unlock(&o->mu);
  if (any) {
    trn_strbuf request = request_of(o, &rest);
    send_batch(o, &request);
  }
  otlp_unref(o);
}

static void export_span(void *user, const trn_event *event) {
  otlp *o = user;
  trn_strbuf full = {0};
  pthread_mutex_lock(&o->mu);
  put_span(&o->spans, event);
  bool is_full = ++o->count >= OTLP_BATCH || o->spans.size > OTLP_BYTES_MAX || o->spans.failed;
  if (is_full) take(o, &full);
  bool waits = !is_full && !o->is_waiting;
  if (waits) o->is_waiting = true;
  pthread_mutex_unlock(&o->mu);
  if (waits) {
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    if (trn__pool_submit_after(o->pool, OTLP_DELAY_MS, send_rest, o) == TRN_OK) return;
    pthread_mutex_lock(&o->mu);
    o->is_waiting = false; /* the next span tries again */
    pthread_mutex_unlock(&o->mu);
    otlp_unref(o);
  }
  if (!is_full) return;
  trn_strbuf request = request_of(o, &full);
  send_batch(o, &request);
}

static void flush(void *user, uint64_t timeout_ms) {
  otlp *o = user;
  trn_strbuf rest;
  pthread_mutex_lock(&o->mu);
  bool any = take(o, &rest);
  pthread_mutex_unlock(&o->mu);
  if (!any) return;
  trn_strbuf request = request_of(o, &rest);
  trn_client_request start = {
      .struct_size = sizeof start, .path = OTLP_PATH, .timeout_ns = (int64_t)timeout_ms * 1000000};
  trn_client_reply reply = {.struct_size = sizeof reply};
  if (!request.failed) {
    trn_slice slice = {request.data, request.size, free, request.data};
    if (trn_client_invoke(o->channel, &start, &slice, 1, &reply, NULL) == TRN_OK) trn_client_reply_finish(&reply);
  } else {
    trn__strbuf_finish(&request);
  }
}

static void destroy(void *user) {
  otlp *o = user;
  trn__pool_destroy(o->pool);
  otlp_unref(o);
}

trn_status trn_otlp_exporter_create(trn_channel *channel, const char *service, trn_span_exporter *out) {
  otlp *o = calloc(1, sizeof *o);
  if (!o) return TRN_RESOURCE_EXHAUSTED;
  o->service = trn__text_copy(service ? service : "trunnion");
  if (!o->service || trn__pool_create(1, &o->pool)) {
    free(o->service);
    free(o);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&o->refs, 1);
  pthread_mutex_init(&o->mu, NULL);
  o->channel = trn_channel_ref(channel);
  *out = (trn_span_exporter){
      .struct_size = sizeof *out, .span = export_span, .flush = flush, .destroy = destroy, .user = o};
  return TRN_OK;
}
