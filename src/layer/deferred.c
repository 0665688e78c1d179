/* An operation that begins later. Its stream is there at once; the first pull waits until what runs is known.
 *
 * A waiting pull is answered by whoever takes it out under the lock: the start, a failure, or a cancel. */
#include <pthread.h>

#include "arrow/arrow_util.h"
#include "core/query.h"
#include "layer/layer.h"

typedef struct pull {
  bool is_there, is_ipc;
  size_t bytes_max;
  trn_array_done array_done;
  trn_ipc_done ipc_done;
  void *user;
} pull;

struct trn_deferred {
  atomic_size_t refs;
  trn_deferred_ops ops;
  void *user;
  trn_backend *layer; /* a reference: the pool is the layer's */
  trn_pool *pool;
  trn_plan *plan;
  pthread_mutex_t mu;
  /* guarded by mu */
  bool is_started, is_cancelled, is_ready, has_stream; /* ready: inner and stream, or status, are final */
  trn_operation *inner;
  trn_stream *stream;
  trn_status status;
  trn_error *error;
  pull waiting;
};

static trn_deferred *deferred_ref(trn_deferred *d) {
  atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
  return d;
}

trn_deferred *trn__deferred_ref(trn_deferred *handle) {
  return deferred_ref(handle);
}

void trn_deferred_unref(trn_deferred *d) {
  if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1) return;
  trn_stream_unref(d->stream);
  trn_operation_unref(d->inner);
  trn_error_unref(d->error);
  trn_plan_unref(d->plan);
  if (d->ops.destroy) d->ops.destroy(d->user);
  pthread_mutex_destroy(&d->mu);
  trn_backend *layer = d->layer;
  free(d);
  trn_backend_unref(layer);
}

/* ---- the waiting pull ---- */

/* Answers a pull that was taken out, with a failure. locks: none */
static void answer_failure(const pull *p, trn_status status, const trn_error *error) {
  struct ArrowArray array = {0};
  trn_ipc_piece piece = {0};
  if (p->is_ipc)
    p->ipc_done(p->user, status, error, &piece);
  else
    p->array_done(p->user, status, error, &array);
}

/* Hands a pull that was taken out to the stream that runs. */
static void forward(trn_stream *stream, const pull *p) {
  trn_error *error = NULL;
  trn_status status = p->is_ipc ? trn_stream_next_ipc(stream, p->bytes_max, p->ipc_done, p->user, &error)
                                : trn_stream_next_array(stream, p->array_done, p->user, &error);
  if (status) answer_failure(p, status, error);
  trn_error_unref(error);
}

/* What is to be is known: tells the waiting pull. Takes error, inner and stream. */
static void settle(trn_deferred *d, trn_operation *inner, trn_stream *stream, trn_status status, trn_error *error) {
  pthread_mutex_lock(&d->mu);
  if (d->is_ready) { /* a cancel was first */
    pthread_mutex_unlock(&d->mu);
    if (inner) trn_operation_cancel(inner);
    trn_stream_unref(stream);
    trn_operation_unref(inner);
    trn_error_unref(error);
    return;
  }
  d->is_ready = true;
  d->inner = inner;
  d->stream = stream;
  d->status = status;
  d->error = error;
  pull waiting = d->waiting;
  d->waiting.is_there = false;
  pthread_mutex_unlock(&d->mu);
  if (!waiting.is_there) return;
  if (status)
    answer_failure(&waiting, status, error);
  else
    forward(stream, &waiting);
}

/* ---- starting ---- */

static void run_start(void *argument) {
  trn_deferred *d = argument;
  trn_operation *inner = NULL;
  trn_stream *stream = NULL;
  trn_error *error = NULL;
  pthread_mutex_lock(&d->mu);
  bool is_wanted = !d->is_cancelled && !d->is_ready;
  pthread_mutex_unlock(&d->mu);
  if (is_wanted) {
    trn_status status = d->ops.start(d->user, &inner, &error);
    if (status == TRN_OK) status = trn_operation_result_stream(inner, &stream, &error);
    if (status) {
      trn_operation_unref(inner);
      inner = NULL;
    }
    settle(d, inner, stream, status, error);
  } else if (d->ops.cancelled) { /* between the start and now */
    d->ops.cancelled(d->user);
  }
  trn_deferred_unref(d);
}

void trn_deferred_start(trn_deferred *d) {
  pthread_mutex_lock(&d->mu);
  bool is_first = !d->is_started && !d->is_ready;
  d->is_started = true;
  pthread_mutex_unlock(&d->mu);
  if (!is_first) return;
  if (trn__pool_submit(d->pool, run_start, deferred_ref(d)) == TRN_OK) return;
  trn_error *error = NULL;
  trn_status status = trn__no_memory(&error);
  settle(d, NULL, NULL, status, error);
  if (d->ops.cancelled) d->ops.cancelled(d->user);
  trn_deferred_unref(d);
}

void trn_deferred_fail(trn_deferred *d, trn_status status, trn_error *error) {
  settle(d, NULL, NULL, status, error ? trn_error_ref(error) : NULL);
}

typedef struct late_answer {
  trn_deferred *deferred;
  pull pull;
} late_answer;

static void answer_cancelled(void *argument) {
  late_answer *late = argument;
  answer_failure(&late->pull, TRN_CANCELLED, late->deferred->error);
  trn_deferred_unref(late->deferred);
  free(late);
}

static void deferred_cancel(trn_deferred *d) {
  pthread_mutex_lock(&d->mu);
  bool is_first = !d->is_cancelled;
  bool was_started = d->is_started, was_ready = d->is_ready;
  trn_operation *inner = d->inner ? trn_operation_ref(d->inner) : NULL;
  pull waiting = d->waiting;
  d->is_cancelled = true;
  if (!was_ready) {
    d->is_ready = true;
    d->status = TRN_CANCELLED;
    trn_error_set(&d->error, TRN_CANCELLED, NULL, "the operation was cancelled before it began");
    d->waiting.is_there = false;
  }
  pthread_mutex_unlock(&d->mu);
  if (inner) trn_operation_cancel(inner);
  trn_operation_unref(inner);
  if (was_ready) return;
  if (is_first && !was_started && d->ops.cancelled) d->ops.cancelled(d->user);
  if (!waiting.is_there) return;
  late_answer *late = malloc(sizeof *late);
  if (late) {
    *late = (late_answer){deferred_ref(d), waiting};
    if (trn__pool_submit(d->pool, answer_cancelled, late) == TRN_OK) return;
    trn_deferred_unref(d);
    free(late);
  }
  answer_failure(&waiting, TRN_CANCELLED, d->error); /* no thread for it: here, then */
}

/* ---- the stream ---- */

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  trn_deferred *d = self;
  return trn_plan_schema(d->plan, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status next(trn_deferred *d, const pull *p, trn_error **error) {
  pthread_mutex_lock(&d->mu);
  bool is_ready = d->is_ready;
  trn_stream *stream = d->stream;
  trn_status status = d->status;
  trn_error *failure = d->error ? trn_error_ref(d->error) : NULL;
  if (!is_ready) d->waiting = *p;
  pthread_mutex_unlock(&d->mu);
  if (is_ready && status) {
    if (error)
      *error = failure;
    else
      trn_error_unref(failure);
    return status;
  }
  trn_error_unref(failure);
  if (!is_ready) return TRN_OK;
  return p->is_ipc ? trn_stream_next_ipc(stream, p->bytes_max, p->ipc_done, p->user, error)
                   : trn_stream_next_array(stream, p->array_done, p->user, error);
}

static trn_status stream_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  pull p = {.is_there = true, .array_done = done, .user = user};
  return next(self, &p, error);
}

static trn_status stream_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  pull p = {.is_there = true, .is_ipc = true, .bytes_max = bytes_max, .ipc_done = done, .user = user};
  return next(self, &p, error);
}

static void stream_cancel(void *self) {
  deferred_cancel(self);
}
static void stream_destroy(void *self) {
  trn_deferred_unref(self);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = stream_schema,
                                          .next_array = stream_next_array,
                                          .next_ipc = stream_next_ipc,
                                          .cancel = stream_cancel,
                                          .destroy = stream_destroy};

/* ---- the operation ---- */

static trn_operation_state operation_state(void *self) {
  trn_deferred *d = self;
  pthread_mutex_lock(&d->mu);
  trn_operation *inner = d->inner ? trn_operation_ref(d->inner) : NULL;
  trn_status status = d->status;
  bool is_ready = d->is_ready;
  pthread_mutex_unlock(&d->mu);
  trn_operation_state state = TRN_OPERATION_PENDING;
  if (inner)
    state = trn_operation_get_state(inner);
  else if (is_ready)
    state = status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED : TRN_OPERATION_FAILED;
  trn_operation_unref(inner);
  return state;
}

static void operation_cancel(void *self) {
  deferred_cancel(self);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  trn_deferred *d = self;
  pthread_mutex_lock(&d->mu);
  bool is_again = d->has_stream;
  d->has_stream = true;
  pthread_mutex_unlock(&d->mu);
  if (is_again)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result of this operation can be read once");
  trn_status status = trn_stream_create(&stream_ops, d, out);
  if (status) return trn__no_memory(error);
  deferred_ref(d);
  return TRN_OK;
}

static trn_status operation_metrics(void *self, char **out) {
  trn_deferred *d = self;
  pthread_mutex_lock(&d->mu);
  trn_operation *inner = d->inner ? trn_operation_ref(d->inner) : NULL;
  pthread_mutex_unlock(&d->mu);
  trn_status status = inner ? trn_operation_metrics(inner, out) : TRN_UNIMPLEMENTED;
  trn_operation_unref(inner);
  return status;
}

static void operation_destroy(void *self) {
  deferred_cancel(self); /* nobody can read it any more, unless a stream does */
  trn_deferred_unref(self);
}

/* Dropping the operation while its stream is read must not cancel. */
static void operation_drop(void *self) {
  trn_deferred *d = self;
  pthread_mutex_lock(&d->mu);
  bool has_stream = d->has_stream;
  pthread_mutex_unlock(&d->mu);
  if (has_stream)
    trn_deferred_unref(d);
  else
    operation_destroy(d);
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = operation_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = operation_metrics,
                                                .destroy = operation_drop};

trn_status trn_deferred_create(trn_layer *layer, const trn_deferred_ops *ops, void *user,
                               const trn_execute_request *request, trn_deferred **handle, trn_operation **out) {
  *handle = NULL;
  *out = NULL;
  trn_deferred *d = calloc(1, sizeof *d);
  trn_status status = d ? trn__layer_pool(layer, &d->pool) : TRN_RESOURCE_EXHAUSTED;
  if (status == TRN_OK) status = trn_operation_create(&operation_ops, d, request->operation_id, out);
  if (status) {
    free(d);
    return status;
  }
  atomic_init(&d->refs, 2);
  memcpy(&d->ops, ops, trn__struct_size(ops->struct_size, sizeof d->ops));
  d->user = user;
  d->layer = trn__layer_ref(layer);
  d->plan = trn_plan_ref(request->plan);
  pthread_mutex_init(&d->mu, NULL);
  *handle = d;
  return TRN_OK;
}
