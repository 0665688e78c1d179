/* Parts of the trace layer. Internal to src/layer. */
#ifndef TRN_LAYER_TRACE_H
#define TRN_LAYER_TRACE_H
#include <pthread.h>

#include "layer/layer.h"

/* ---- trace context ---- */
enum { TRACE_ID_TEXT = 33, SPAN_ID_TEXT = 17, TRACEPARENT_TEXT = 56 };
typedef struct trace_context {
  char trace[TRACE_ID_TEXT], parent[SPAN_ID_TEXT]; /* hex; parent "": a root */
  bool is_sampled;
} trace_context;
/* From a W3C header, or a new one when there is none or it is malformed. */
trace_context trace__context(const char *traceparent);
void trace__span_id(char out[SPAN_ID_TEXT]);
/* "00-<trace>-<span>-01" */
void trace__parent_text(const trace_context *context, const char *span, char out[TRACEPARENT_TEXT]);

/* ---- JSON lines ---- */
typedef struct trace_file {
  pthread_mutex_t mu;
  int fd; /* -1: none */
} trace_file;
trn_status trace__file_open(trace_file *file, const char *path, trn_error **error);
void trace__file_close(trace_file *file);
void trace__file_write(trace_file *file, const trn_event *event); /* best effort: a full disk stops no query */

/* ---- metrics ---- */
typedef struct trace_metrics trace_metrics;
trace_metrics *trace__metrics_create(void); /* NULL: no memory */
void trace__metrics_destroy(trace_metrics *metrics);
void trace__metrics_begin(trace_metrics *metrics, const char *protocol);
/* `begun`: it was counted by _begin. */
void trace__metrics_end(trace_metrics *metrics, const char *protocol, bool begun, trn_status status, int64_t ns,
                        uint64_t rows, uint64_t bytes);
void trace__metrics_session(trace_metrics *metrics, int change);
void trace__metrics_render(trace_metrics *metrics, trn_strbuf *out);

#endif
