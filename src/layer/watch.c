/* Watching an operation: what comes out is counted, its end is told once, whatever the end is. */
#include "arrow/arrow_util.h"
#include "core/query.h"
#include "layer/layer.h"

/* Shared by the operation and its streams. */
typedef struct watch {
  atomic_size_t refs;
  atomic_bool has_ended;
  trn_operation *inner; /* a reference */
  trn_watch_hooks hooks;
  void *user;
} watch;

static void watch_end(watch *w, trn_status status, const trn_error *error) {
  if (!atomic_exchange(&w->has_ended, true) && w->hooks.end) w->hooks.end(w->user, status, error);
}

static watch *watch_ref(watch *w) {
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  return w;
}

static void watch_unref(watch *w) {
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  watch_end(w, TRN_CANCELLED, NULL); /* dropped */
  trn_operation_unref(w->inner);
  if (w->hooks.destroy) w->hooks.destroy(w->user);
  free(w);
}

/* ---- sizes of arrays ---- */

static uint64_t fixed_bits(const char *format) {
  switch (format[0]) {
  case 'b': return 1;
  case 'c':
  case 'C': return 8;
  case 's':
  case 'S':
  case 'e': return 16;
  case 'i':
  case 'I':
  case 'f': return 32;
  case 'l':
  case 'L':
  case 'g': return 64;
  case 'd': return 128;
  case 't': return format[1] == 'd' && format[2] == 'D' ? 32 : format[1] == 'i' && format[2] == 'n' ? 128 : 64;
  default: return 0;
  }
}

/* About what the rows take; the recursion is bounded. */
static uint64_t array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array, int depth) {
  uint64_t rows = array->length > 0 ? (uint64_t)array->length : 0, bytes = rows / 8 + fixed_bits(schema->format) * rows / 8;
  char kind = schema->format[0];
  if ((kind == 'u' || kind == 'z') && array->n_buffers >= 2 && array->buffers[1] && rows) {
    const int32_t *offsets = (const int32_t *)array->buffers[1] + array->offset;
    bytes += 4 * rows + (uint64_t)(offsets[rows] - offsets[0]);
  } else if ((kind == 'U' || kind == 'Z') && array->n_buffers >= 2 && array->buffers[1] && rows) {
    const int64_t *offsets = (const int64_t *)array->buffers[1] + array->offset;
    bytes += 8 * rows + (uint64_t)(offsets[rows] - offsets[0]);
  } else if (kind == 'v') {
    bytes += 16 * rows;
  }
  for (int64_t i = 0; depth < TRN_TYPE_DEPTH_MAX && i < array->n_children && i < schema->n_children; i++)
    bytes += array_bytes(schema->children[i], array->children[i], depth + 1);
  return bytes;
}

uint64_t trn__array_size(const struct ArrowSchema *schema, const struct ArrowArray *array) {
  return array_bytes(schema, array, 0);
}

/* ---- streams ---- */

typedef struct watched_stream {
  watch *watch;      /* a reference */
  trn_stream *inner; /* a reference */
  struct ArrowSchema schema; /* release NULL: not needed yet */
  trn_array_done array_done; /* of the pull that is outstanding */
  trn_ipc_done ipc_done;
  void *user;
} watched_stream;

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  return trn_stream_schema(((watched_stream *)self)->inner, out, error);
}
static trn_status stream_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  return trn_stream_schema_ipc(((watched_stream *)self)->inner, out, error);
}

/* What arrived, or the end; gives what to deliver instead. */
static trn_status arrived(watched_stream *s, trn_status status, const trn_error *error, bool is_item, int64_t rows,
                          uint64_t bytes, trn_error **refusal) {
  watch *w = s->watch;
  if (status == TRN_OK && is_item) {
    if (w->hooks.item) status = w->hooks.item(w->user, rows, bytes, refusal);
    if (status == TRN_OK) return TRN_OK;
    trn_operation_cancel(w->inner);
    error = *refusal;
  } else if (status && w->hooks.fail) {
    status = w->hooks.fail(w->user, status, refusal);
    if (*refusal) error = *refusal;
  }
  watch_end(w, status, error);
  return status;
}

static void on_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  watched_stream *s = user;
  trn_array_done done = s->array_done;
  void *done_user = s->user;
  trn_error *refusal = NULL;
  bool is_item = status == TRN_OK && array && array->release;
  uint64_t bytes = is_item && s->schema.release ? array_bytes(&s->schema, array, 0) : 0;
  trn_status told = arrived(s, status, error, is_item, is_item ? array->length : 0, bytes, &refusal);
  struct ArrowArray none = {0};
  if (is_item && told) trn__array_release(array);
  done(done_user, told, refusal ? refusal : error, is_item && told ? &none : array);
  trn_error_unref(refusal);
}

static void on_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  watched_stream *s = user;
  trn_ipc_done done = s->ipc_done;
  void *done_user = s->user;
  trn_error *refusal = NULL;
  bool is_item = status == TRN_OK && piece && piece->release;
  trn_status told = arrived(s, status, error, is_item, is_item ? piece->rows : 0, is_item ? piece->size : 0, &refusal);
  trn_ipc_piece none = {0};
  if (is_item && told) piece->release(piece->owner);
  done(done_user, told, refusal ? refusal : error, is_item && told ? &none : piece);
  trn_error_unref(refusal);
}

/* A pull that was not accepted: the query is over unless the caller only pulled twice. */
static trn_status refused(watched_stream *s, trn_status status, trn_error **error) {
  if (status && status != TRN_FAILED_PRECONDITION && status != TRN_UNIMPLEMENTED)
    watch_end(s->watch, status, error ? *error : NULL);
  return status;
}

static trn_status stream_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  watched_stream *s = self;
  if (s->watch->hooks.pull) s->watch->hooks.pull(s->watch->user);
  if (s->watch->hooks.item && !s->schema.release) {
    trn_status status = trn_stream_schema(s->inner, &s->schema, error);
    if (status) return status;
  }
  s->array_done = done;
  s->user = user;
  return refused(s, trn_stream_next_array(s->inner, on_array, s, error), error);
}

static trn_status stream_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  watched_stream *s = self;
  if (s->watch->hooks.pull) s->watch->hooks.pull(s->watch->user);
  s->ipc_done = done;
  s->user = user;
  return refused(s, trn_stream_next_ipc(s->inner, bytes_max, on_ipc, s, error), error);
}

static void stream_cancel(void *self) {
  watched_stream *s = self;
  trn_stream_cancel(s->inner);
  watch_end(s->watch, TRN_CANCELLED, NULL);
}

static void stream_destroy(void *self) {
  watched_stream *s = self;
  watch_end(s->watch, TRN_CANCELLED, NULL);
  trn_stream_unref(s->inner);
  watch_unref(s->watch);
  trn__schema_release(&s->schema);
  free(s);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = stream_schema,
                                          .schema_ipc = stream_schema_ipc,
                                          .next_array = stream_next_array,
                                          .next_ipc = stream_next_ipc,
                                          .cancel = stream_cancel,
                                          .destroy = stream_destroy};

/* ---- the operation ---- */

static trn_operation_state operation_state(void *self) {
  return trn_operation_get_state(((watch *)self)->inner);
}

static void operation_cancel(void *self) {
  watch *w = self;
  trn_operation_cancel(w->inner);
  watch_end(w, TRN_CANCELLED, NULL);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  watch *w = self;
  trn_stream *inner = NULL;
  trn_status status = trn_operation_result_stream(w->inner, &inner, error);
  if (status) {
    if (status != TRN_FAILED_PRECONDITION) watch_end(w, status, error ? *error : NULL);
    return status;
  }
  watched_stream *s = calloc(1, sizeof *s);
  status = s ? trn_stream_create(&stream_ops, s, out) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    free(s);
    trn_stream_unref(inner);
    watch_end(w, status, NULL);
    return trn__no_memory(error);
  }
  s->watch = watch_ref(w);
  s->inner = inner;
  return TRN_OK;
}

static trn_status operation_metrics(void *self, char **out) {
  watch *w = self;
  trn_status status = trn_operation_metrics(w->inner, out);
  if (!w->hooks.metrics) return status;
  *out = w->hooks.metrics(w->user, status ? NULL : *out);
  return *out ? TRN_OK : status ? status : TRN_RESOURCE_EXHAUSTED;
}

static void operation_destroy(void *self) {
  watch_unref(self);
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = operation_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = operation_metrics,
                                                .destroy = operation_destroy};

trn_status trn_operation_watch(trn_operation *inner, const trn_watch_hooks *hooks, void *user, trn_operation **out) {
  *out = NULL;
  watch *w = calloc(1, sizeof *w);
  if (!w) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&w->refs, 1);
  atomic_init(&w->has_ended, false);
  memcpy(&w->hooks, hooks, trn__struct_size(hooks->struct_size, sizeof w->hooks));
  trn_status status = trn_operation_create(&operation_ops, w, trn_operation_id(inner), out);
  if (status) {
    free(w);
    return status;
  }
  w->inner = inner;
  w->user = user;
  return TRN_OK;
}
