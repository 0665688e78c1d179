/* Where traces go: contexts of callers, lines of JSON, metrics in Prometheus' text form. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "layer/trace.h"

/* ---- trace context ---- */

static bool is_hex(const char *text, size_t size) {
  bool any = false;
  for (size_t i = 0; i < size; i++) {
    bool digit = text[i] >= '0' && text[i] <= '9', letter = text[i] >= 'a' && text[i] <= 'f';
    if (!digit && !letter) return false;
    any |= text[i] != '0';
  }
  return any; /* all zeros are no id */
}

/* 32 hexadecimal digits of randomness: a UUID's, without its dashes and fixed bits in one half. */
static void random_hex(char *out, size_t size) {
  char text[TRN_UUID_SIZE];
  size_t count = 0;
  while (count < size) {
    trn__uuid4(text);
    for (size_t i = 0; text[i] && count < size; i++)
      if (text[i] != '-' && i != 14 && i != 19) out[count++] = text[i];
  }
  out[size] = 0;
}

trace_context trace__context(const char *text) {
  trace_context context = {.is_sampled = true};
  bool is_whole = text && strlen(text) >= 55 && text[2] == '-' && text[35] == '-' && text[52] == '-' &&
                  strncmp(text, "ff", 2) != 0 && is_hex(text + 3, 32) && is_hex(text + 36, 16);
  if (is_whole) {
    memcpy(context.trace, text + 3, 32);
    memcpy(context.parent, text + 36, 16);
    context.is_sampled = strchr("13579bdf", text[54]) != NULL;
  } else {
    random_hex(context.trace, 32);
  }
  return context;
}

void trace__span_id(char out[SPAN_ID_TEXT]) {
  random_hex(out, 16);
}

void trace__parent_text(const trace_context *context, const char *span, char out[TRACEPARENT_TEXT]) {
  snprintf(out, TRACEPARENT_TEXT, "00-%s-%s-%s", context->trace, span, context->is_sampled ? "01" : "00");
}

/* ---- JSON lines ---- */

trn_status trace__file_open(trace_file *file, const char *path, trn_error **error) {
  file->fd = -1;
  pthread_mutex_init(&file->mu, NULL);
  if (!path) return TRN_OK;
  file->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file->fd >= 0) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s cannot be written: %s", path, strerror(errno));
}

void trace__file_close(trace_file *file) {
  if (file->fd >= 0) close(file->fd);
  file->fd = -1;
  pthread_mutex_destroy(&file->mu);
}

static void put_text(trn_strbuf *out, const char *key, const char *text) {
  if (!text) return;
  trn__strbuf_printf(out, ",\"%s\":\"", key);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      trn__strbuf_printf(out, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7f)
      trn__strbuf_printf(out, "\\u%04x", *c);
    else
      trn__strbuf_putc(out, (char)*c);
  }
  trn__strbuf_putc(out, '"');
}

void trace__file_write(trace_file *file, const trn_event *e) {
  static const char *const kinds[] = {"", "decision", "cache", "route", "limit", "span", "audit", "slow", "warning"};
  if (file->fd < 0) return;
  trn_strbuf line = {0};
  int64_t at = e->start_ns ? e->start_ns : trn__wall_ms() * 1000000;
  trn__strbuf_printf(&line, "{\"time\":%" PRId64 ".%06" PRId64 ",\"kind\":\"%s\"", at / 1000000000,
                     at / 1000 % 1000000, kinds[e->kind]);
  put_text(&line, "layer", e->layer), put_text(&line, "action", e->action), put_text(&line, "object", e->object);
  put_text(&line, "user", e->user), put_text(&line, "session", e->session_id);
  put_text(&line, "operation", e->operation_id), put_text(&line, "protocol", e->protocol);
  put_text(&line, "statement", e->statement), put_text(&line, "detail", e->detail);
  put_text(&line, "trace_id", e->trace_id), put_text(&line, "span_id", e->span_id);
  put_text(&line, "parent_id", e->parent_id);
  if (e->duration_ns) trn__strbuf_printf(&line, ",\"duration_ms\":%.3f", (double)e->duration_ns / 1e6);
  if (e->rows >= 0) trn__strbuf_printf(&line, ",\"rows\":%" PRId64, e->rows);
  if (e->bytes >= 0) trn__strbuf_printf(&line, ",\"bytes\":%" PRId64, e->bytes);
  trn__strbuf_printf(&line, ",\"status\":\"%s\"}\n", trn_status_name(e->status));
  pthread_mutex_lock(&file->mu);
  for (size_t done = 0; !line.failed && done < line.size;) {
    ssize_t count = write(file->fd, line.data + done, line.size - done);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) done += (size_t)count;
  }
  pthread_mutex_unlock(&file->mu);
  trn__strbuf_finish(&line);
}

/* ---- metrics ---- */

enum { PROTOCOLS_MAX = 16, STATUSES = 17 };
static const double BOUNDS[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600};
enum { BUCKETS = sizeof BOUNDS / sizeof *BOUNDS };

typedef struct protocol_metrics {
  char name[32];
  uint64_t ended[STATUSES], buckets[BUCKETS + 1], rows, bytes;
  int64_t running;
  double seconds;
} protocol_metrics;

struct trace_metrics {
  pthread_mutex_t mu;
  /* guarded by mu */
  protocol_metrics protocols[PROTOCOLS_MAX];
  size_t count;
  int64_t sessions;
};

trace_metrics *trace__metrics_create(void) {
  trace_metrics *m = calloc(1, sizeof *m);
  if (m) pthread_mutex_init(&m->mu, NULL);
  return m;
}

void trace__metrics_destroy(trace_metrics *m) {
  if (!m) return;
  pthread_mutex_destroy(&m->mu);
  free(m);
}

/* The last one is for all that come too late: names are from requests, and must not fill memory. locks: mu held */
static protocol_metrics *protocol_of(trace_metrics *m, const char *name) {
  if (!name || !*name) name = "unknown";
  for (size_t i = 0; i < m->count; i++)
    if (strncmp(m->protocols[i].name, name, sizeof m->protocols[i].name - 1) == 0) return &m->protocols[i];
  if (m->count == PROTOCOLS_MAX) return &m->protocols[PROTOCOLS_MAX - 1];
  protocol_metrics *made = &m->protocols[m->count++];
  snprintf(made->name, sizeof made->name, "%s", m->count == PROTOCOLS_MAX ? "other" : name);
  for (char *c = made->name; *c; c++)
    if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20) *c = '_';
  return made;
}

void trace__metrics_begin(trace_metrics *m, const char *protocol) {
  pthread_mutex_lock(&m->mu);
  protocol_of(m, protocol)->running++;
  pthread_mutex_unlock(&m->mu);
}

void trace__metrics_end(trace_metrics *m, const char *protocol, bool begun, trn_status status, int64_t ns,
                        uint64_t rows, uint64_t bytes) {
  double seconds = (double)ns / 1e9;
  size_t bucket = 0;
  while (bucket < BUCKETS && seconds > BOUNDS[bucket]) bucket++;
  pthread_mutex_lock(&m->mu);
  protocol_metrics *p = protocol_of(m, protocol);
  if (begun) p->running--;
  p->ended[(unsigned)status < STATUSES ? status : TRN_UNKNOWN]++;
  p->buckets[bucket]++;
  p->seconds += seconds;
  p->rows += rows;
  p->bytes += bytes;
  pthread_mutex_unlock(&m->mu);
}

void trace__metrics_session(trace_metrics *m, int change) {
  pthread_mutex_lock(&m->mu);
  m->sessions += change;
  pthread_mutex_unlock(&m->mu);
}

static void render_histogram(const protocol_metrics *p, trn_strbuf *out) {
  uint64_t sum = 0;
  for (size_t b = 0; b <= BUCKETS; b++) {
    sum += p->buckets[b];
    if (b < BUCKETS)
      trn__strbuf_printf(out, "trunnion_query_seconds_bucket{protocol=\"%s\",le=\"%g\"} %" PRIu64 "\n", p->name,
                         BOUNDS[b], sum);
    else
      trn__strbuf_printf(out, "trunnion_query_seconds_bucket{protocol=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", p->name, sum);
  }
  trn__strbuf_printf(out, "trunnion_query_seconds_sum{protocol=\"%s\"} %.6f\n", p->name, p->seconds);
  trn__strbuf_printf(out, "trunnion_query_seconds_count{protocol=\"%s\"} %" PRIu64 "\n", p->name, sum);
}

void trace__metrics_render(trace_metrics *m, trn_strbuf *out) {
  pthread_mutex_lock(&m->mu);
  trn__strbuf_printf(out, "# HELP trunnion_sessions Sessions that are open.\n# TYPE trunnion_sessions gauge\n"
                          "trunnion_sessions %" PRId64 "\n", m->sessions);
  trn__strbuf_puts(out, "# HELP trunnion_queries_running Queries that have begun and not ended.\n"
                        "# TYPE trunnion_queries_running gauge\n");
  for (size_t i = 0; i < m->count; i++)
    trn__strbuf_printf(out, "trunnion_queries_running{protocol=\"%s\"} %" PRId64 "\n", m->protocols[i].name,
                       m->protocols[i].running);
  trn__strbuf_puts(out, "# HELP trunnion_queries_total Queries that have ended, by gRPC status.\n"
                        "# TYPE trunnion_queries_total counter\n");
  for (size_t i = 0; i < m->count; i++)
    for (unsigned s = 0; s < STATUSES; s++)
      if (m->protocols[i].ended[s])
        trn__strbuf_printf(out, "trunnion_queries_total{protocol=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                           m->protocols[i].name, trn_status_name((trn_status)s), m->protocols[i].ended[s]);
  trn__strbuf_puts(out, "# HELP trunnion_result_rows_total Rows given to clients.\n"
                        "# TYPE trunnion_result_rows_total counter\n");
  for (size_t i = 0; i < m->count; i++)
    trn__strbuf_printf(out, "trunnion_result_rows_total{protocol=\"%s\"} %" PRIu64 "\n", m->protocols[i].name,
                       m->protocols[i].rows);
  trn__strbuf_puts(out, "# HELP trunnion_result_bytes_total Bytes given to clients.\n"
                        "# TYPE trunnion_result_bytes_total counter\n");
  for (size_t i = 0; i < m->count; i++)
    trn__strbuf_printf(out, "trunnion_result_bytes_total{protocol=\"%s\"} %" PRIu64 "\n", m->protocols[i].name,
                       m->protocols[i].bytes);
  trn__strbuf_puts(out, "# HELP trunnion_query_seconds Time from the request to the end of the result.\n"
                        "# TYPE trunnion_query_seconds histogram\n");
  for (size_t i = 0; i < m->count; i++) render_histogram(&m->protocols[i], out);
  pthread_mutex_unlock(&m->mu);
}
