/* A job's rows. They are pulled as fast as the backend makes them, up to a budget; what fits is kept and can be fetched
 * more than once. A larger result is begun: the job counts as successful, and the rest is made as one client fetches
 * it, so that memory stays bounded whatever the size. */
#include "frontend/ballista/ballista.h"

/* A piece that is kept and may be on its way to several clients. */
typedef struct kept {
  atomic_uint refs;
  trn_ipc_piece piece;
  trn_slice slice; /* of bytes that are ours */
  trn_strbuf bytes;
} kept;

typedef struct reader reader;

struct ballista_result {
  atomic_uint refs;
  ballista_service *service; /* one reference */
  trn_strbuf schema;         /* IPC; fixed */
  pthread_mutex_t mutex;
  /* guarded by mutex */
  trn_stream *stream; /* NULL: over */
  ballista_job *job;  /* while it is made; one reference */
  trn_vec pieces;     /* kept, one reference each */
  size_t first;       /* of those that were not taken */
  size_t bytes;       /* of those in memory */
  int64_t rows, batches, total_bytes;
  bool is_pulling, is_complete, is_cancelled;
  bool is_begun; /* not all of it is kept: pieces are taken by the one reader */
  bool has_reader;
  trn_status status; /* how it ended */
  trn_error *error;
  reader *waiting; /* its pull waits for a piece */
};

/* One fetch: what stands behind the stream that the Flight service sends. */
struct reader {
  ballista_result *result; /* one reference */
  size_t next;             /* of a result that is kept */
  trn_ipc_done done;       /* of the pull that is outstanding */
  void *user;
  bool is_cancelled; /* guarded by result->mutex */
};

/* ---- pieces ---- */

static void kept_unref(void *owner) {
  kept *k = owner;
  if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1) return;
  if (k->piece.release) k->piece.release(k->piece.owner);
  trn__strbuf_finish(&k->bytes);
  free(k);
}

/* The piece as somebody else's: with a reference of its own. */
static trn_ipc_piece kept_piece(kept *k) {
  trn_ipc_piece piece = k->piece;
  piece.release = kept_unref;
  piece.owner = k;
  return piece;
}

/* locks: result->mutex held. Takes the piece on success. */
static bool keep(ballista_result *result, const trn_ipc_piece *piece) {
  kept *k = calloc(1, sizeof *k);
  if (!k || !trn__vec_push(&result->pieces, k)) {
    free(k);
    return false;
  }
  atomic_init(&k->refs, 1);
  k->piece = *piece;
  result->bytes += piece->size;
  atomic_fetch_add(&result->service->bytes, piece->size);
  result->rows += piece->rows;
  result->batches++;
  result->total_bytes += (int64_t)piece->size;
  return true;
}

/* locks: result->mutex held. Moves what is kept to `out`, to be let go without the lock. */
static void take_pieces(ballista_result *result, trn_vec *out) {
  *out = result->pieces;
  for (size_t i = 0; i < result->first; i++) out->items[i] = NULL;
  result->pieces = (trn_vec){0};
  result->first = 0;
  atomic_fetch_sub(&result->service->bytes, result->bytes);
  result->bytes = 0;
}

static void drop_pieces(trn_vec *pieces) {
  for (size_t i = 0; i < pieces->count; i++)
    if (pieces->items[i]) kept_unref(pieces->items[i]);
  trn__vec_finish(pieces);
}

/* locks: result->mutex held. The next piece of the one reader, its reference moved. NULL: none is there. */
static kept *take_piece(ballista_result *result) {
  if (result->first == result->pieces.count) return NULL;
  kept *k = result->pieces.items[result->first++];
  result->bytes -= k->piece.size;
  atomic_fetch_sub(&result->service->bytes, k->piece.size);
  if (result->first == result->pieces.count) result->first = result->pieces.count = 0;
  return k;
}

/* ---- life ---- */

static ballista_result *result_new(ballista_service *service) {
  ballista_result *result = calloc(1, sizeof *result);
  if (!result) return NULL;
  atomic_init(&result->refs, 1);
  pthread_mutex_init(&result->mutex, NULL);
  result->service = ballista__service_ref(service);
  return result;
}

ballista_result *ballista__result_ref(ballista_result *result) {
  atomic_fetch_add_explicit(&result->refs, 1, memory_order_relaxed);
  return result;
}

void ballista__result_unref(ballista_result *result) {
  if (!result || atomic_fetch_sub_explicit(&result->refs, 1, memory_order_acq_rel) != 1) return;
  trn_vec pieces;
  take_pieces(result, &pieces);
  drop_pieces(&pieces);
  if (result->stream) trn_stream_unref(result->stream);
  trn_error_unref(result->error);
  trn__strbuf_finish(&result->schema);
  pthread_mutex_destroy(&result->mutex);
  ballista__service_unref(result->service);
  free(result);
}

trn_status ballista__result_create(ballista_service *service, trn_stream *stream, ballista_result **out,
                                   trn_error **error) {
  ballista_result *result = result_new(service);
  trn_slice schema = {0};
  *out = NULL;
  trn_status status = result ? trn_stream_schema_ipc(stream, &schema, error) : trn__no_memory(error);
  if (!status) {
    trn__strbuf_add(&result->schema, schema.data, schema.size);
    if (result->schema.failed) status = trn__no_memory(error);
  }
  if (schema.release) schema.release(schema.owner);
  if (status) {
    ballista__result_unref(result);
    trn_stream_cancel(stream);
    trn_stream_unref(stream);
    return status;
  }
  result->stream = stream;
  *out = result;
  return TRN_OK;
}

trn_status ballista__result_of(ballista_service *service, trn_strbuf *schema, trn_strbuf *batch, int64_t rows,
                               ballista_result **out, trn_error **error) {
  ballista_result *result = result_new(service);
  kept *k = calloc(1, sizeof *k);
  bool good = result && k && !schema->failed && !batch->failed && trn__vec_push(&result->pieces, k);
  if (!good) {
    trn__strbuf_finish(schema);
    trn__strbuf_finish(batch);
    free(k);
    ballista__result_unref(result);
    return trn__no_memory(error);
  }
  atomic_init(&k->refs, 1);
  k->bytes = *batch;
  k->slice = (trn_slice){.data = batch->data, .size = batch->size};
  k->piece = (trn_ipc_piece){.slices = &k->slice, .slice_count = 1, .size = batch->size, .rows = rows};
  result->schema = *schema;
  result->bytes = batch->size;
  atomic_fetch_add(&service->bytes, batch->size);
  result->rows = rows;
  result->batches = 1;
  result->total_bytes = (int64_t)batch->size;
  result->is_complete = true;
  *schema = *batch = (trn_strbuf){0};
  *out = result;
  return TRN_OK;
}

void ballista__result_size(ballista_result *result, int64_t *rows, int64_t *batches, int64_t *bytes) {
  pthread_mutex_lock(&result->mutex);
  bool known = result->is_complete;
  *rows = known ? result->rows : -1;
  *batches = known ? result->batches : -1;
  *bytes = known ? result->total_bytes : -1;
  pthread_mutex_unlock(&result->mutex);
}

bool ballista__result_is_complete(ballista_result *result) {
  pthread_mutex_lock(&result->mutex);
  bool complete = result->is_complete;
  pthread_mutex_unlock(&result->mutex);
  return complete;
}

/* ---- answering a fetch ---- */

/* What a pull is answered with. */
typedef struct answer {
  bool is_ready;
  trn_status status;
  trn_error *error; /* one reference */
  kept *piece;      /* one reference; NULL: the end */
} answer;

/* locks: result->mutex held */
static answer answer_of(ballista_result *result, reader *r) {
  answer a = {.is_ready = true};
  if (r->is_cancelled || result->is_cancelled) {
    a.status = TRN_CANCELLED;
    return a;
  }
  if (result->is_begun) {
    a.piece = take_piece(result);
  } else if (r->next < result->pieces.count) {
    a.piece = result->pieces.items[r->next++];
    atomic_fetch_add_explicit(&a.piece->refs, 1, memory_order_relaxed);
  }
  if (a.piece || (result->is_complete && !result->status)) return a;
  a.is_ready = result->status != TRN_OK;
  a.status = result->status;
  a.error = result->error ? trn_error_ref(result->error) : NULL;
  return a;
}

/* locks: none */
static void answer_give(reader *r, answer *a) {
  trn_ipc_piece piece = {0};
  trn_ipc_done done = r->done;
  void *user = r->user;
  if (a->piece) piece = kept_piece(a->piece);
  if (a->status == TRN_CANCELLED && !a->error) trn_error_set(&a->error, TRN_CANCELLED, NULL, "The job was cancelled");
  ballista_service *service = ballista__service_ref(r->result->service); /* the reader may go inside */
  done(user, a->status, a->error, a->status ? NULL : &piece);
  trn_error_unref(a->error);
  trn__gate_leave(&service->gate);
  ballista__service_unref(service);
}

/* ---- making ---- */

static void result_pull(ballista_result *result);

/* Room for one more piece? locks: result->mutex held */
static bool has_room(const ballista_result *result) {
  const ballista_service *service = result->service;
  if (result->first == result->pieces.count) return true;
  return result->bytes < service->result_bytes && atomic_load(&service->bytes) < service->results_bytes;
}

typedef struct ended {
  trn_stream *stream;
  ballista_job *job;
} ended;

/* locks: result->mutex held. Nothing more is made: gives what goes, to be let go without the lock. */
static ended result_over(ballista_result *result) {
  ended e = {result->stream, result->job};
  result->stream = NULL;
  result->job = NULL;
  return e;
}

/* Tells the job how far it is. Takes what ended. */
static void tell(ballista_job *job, ended *e, bool begins, trn_status status, const trn_error *error) {
  if (begins) ballista__job_succeed(job);
  if (e->job) {
    if (status) {
      ballista__job_fail(e->job, status, error);
    } else {
      ballista__job_succeed(e->job);
      ballista__job_done(e->job);
    }
    ballista__job_unref(e->job);
  }
  trn_stream_unref(e->stream);
}

/* A pull was answered. Takes the piece. */
static void on_piece(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  ballista_result *result = user; /* one reference, of the pull */
  ballista_service *service = result->service;
  trn_error *own = NULL;
  ended over = {0};
  answer a = {0};
  bool is_end = !status && (!piece || !piece->release);
  if (!status && !is_end && atomic_load(&service->bytes) + piece->size > service->results_bytes)
    ballista__drop_fetched(service);
  pthread_mutex_lock(&result->mutex);
  result->is_pulling = false;
  bool kept_it = !status && !is_end && !result->is_cancelled && keep(result, piece);
  if (!status && !is_end && !kept_it) status = result->is_cancelled ? TRN_CANCELLED : trn__no_memory(&own);
  if (is_end) result->is_complete = true;
  if (status && !result->status) {
    result->status = status;
    result->error = trn_error_ref(own ? own : (trn_error *)error);
  }
  if (is_end || status) over = result_over(result);
  bool room = has_room(result), begins = kept_it && !room && !result->is_begun;
  if (begins) result->is_begun = true;
  ballista_job *job = begins && result->job ? ballista__job_ref(result->job) : NULL;
  reader *waiting = result->waiting;
  if (waiting) a = answer_of(result, waiting);
  if (waiting && a.is_ready) result->waiting = NULL;
  bool again = kept_it && (room || (waiting && a.is_ready));
  pthread_mutex_unlock(&result->mutex);
  if (!kept_it && piece && piece->release) piece->release(piece->owner);
  tell(job, &over, job != NULL, status, own ? own : error);
  ballista__job_unref(job);
  if (again) result_pull(result);
  if (waiting && a.is_ready) answer_give(waiting, &a);
  trn_error_unref(own);
  ballista__service_ref(service);
  ballista__result_unref(result);
  trn__gate_leave(&service->gate);
  ballista__service_unref(service);
}

static void result_pull(ballista_result *result) {
  trn_error *error = NULL;
  pthread_mutex_lock(&result->mutex);
  bool pull = result->stream && !result->is_pulling && !result->is_cancelled && has_room(result);
  if (pull) result->is_pulling = true;
  trn_stream *stream = pull ? trn_stream_ref(result->stream) : NULL;
  pthread_mutex_unlock(&result->mutex);
  if (!pull) return;
  ballista__result_ref(result);
  trn_status status = trn__gate_enter(&result->service->gate) ? TRN_OK : TRN_UNAVAILABLE;
  bool entered = !status;
  if (status) trn_error_set(&error, status, NULL, "The server is stopping");
  if (!status) status = trn_stream_next_ipc(stream, TRN_FLIGHT_BATCH_BYTES, on_piece, result, &error);
  if (status) {
    /* As if it had been answered, but for the count of what runs. */
    if (!entered) trn__gate_count(&result->service->gate);
    on_piece(result, status, error, NULL);
  }
  trn_error_unref(error);
  trn_stream_unref(stream);
}

void ballista__result_start(ballista_result *result, ballista_job *job) {
  pthread_mutex_lock(&result->mutex);
  bool is_complete = result->is_complete, is_cancelled = result->is_cancelled;
  if (!is_complete && !is_cancelled) result->job = ballista__job_ref(job);
  pthread_mutex_unlock(&result->mutex);
  if (is_cancelled) return;
  if (is_complete) {
    ballista__job_succeed(job);
    ballista__job_done(job);
  } else {
    result_pull(result);
  }
}

void ballista__result_cancel(ballista_result *result) {
  trn_vec pieces;
  ended over = {0};
  pthread_mutex_lock(&result->mutex);
  bool first = !result->is_cancelled;
  result->is_cancelled = true;
  take_pieces(result, &pieces);
  trn_stream *stream = first && result->stream ? trn_stream_ref(result->stream) : NULL;
  /* A pull that is outstanding ends it, and answers who waits; else this does. */
  if (!result->is_pulling) over = result_over(result);
  pthread_mutex_unlock(&result->mutex);
  drop_pieces(&pieces);
  if (stream) trn_stream_cancel(stream);
  trn_stream_unref(stream);
  trn_stream_unref(over.stream);
  if (over.job) ballista__job_fail(over.job, TRN_CANCELLED, NULL);
  ballista__job_unref(over.job);
}

/* ---- fetching ---- */

static trn_status reader_schema(void *self, trn_slice *out, trn_error **error) {
  const reader *r = self;
  (void)error;
  *out = (trn_slice){.data = r->result->schema.data, .size = r->result->schema.size};
  return TRN_OK;
}

/* thread: worker. Answers, or leaves it to the pull that brings the next piece. */
static void reader_run(void *argument) {
  reader *r = argument;
  ballista_result *result = ballista__result_ref(r->result);
  pthread_mutex_lock(&result->mutex);
  answer a = answer_of(result, r);
  if (!a.is_ready) result->waiting = r;
  bool is_begun = result->is_begun;
  pthread_mutex_unlock(&result->mutex);
  if (is_begun) result_pull(result); /* there is room now */
  if (a.is_ready) answer_give(r, &a);
  ballista__result_unref(result);
}

static trn_status reader_next(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  reader *r = self;
  ballista_service *service = r->result->service;
  (void)bytes_max; /* pieces were cut when they were made */
  if (!trn__gate_enter(&service->gate)) return trn_error_set(error, TRN_UNAVAILABLE, NULL, "The server is stopping");
  r->done = done;
  r->user = user;
  if (trn__pool_submit(service->control, reader_run, r) == TRN_OK) return TRN_OK;
  trn__gate_leave(&service->gate);
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No worker thread can be started");
}

static void reader_cancel(void *self) {
  reader *r = self;
  pthread_mutex_lock(&r->result->mutex);
  r->is_cancelled = true;
  /* Who waits has taken pieces: what is left is of no use to anybody. */
  bool waits = r->result->waiting == r;
  pthread_mutex_unlock(&r->result->mutex);
  if (waits) ballista__result_cancel(r->result);
}

static void reader_destroy(void *self) {
  reader *r = self;
  ballista_result *result = r->result;
  pthread_mutex_lock(&result->mutex);
  if (result->is_begun) result->has_reader = false;
  /* Rows that were taken are nowhere else: the rest is no result. */
  bool is_broken = result->is_begun && result->batches > (int64_t)(result->pieces.count - result->first);
  pthread_mutex_unlock(&result->mutex);
  if (is_broken) ballista__result_cancel(result);
  ballista__result_unref(result);
  free(r);
}

trn_status ballista__result_open(ballista_result *result, trn_stream **out, trn_error **error) {
  static const trn_stream_ops ops = {.struct_size = sizeof ops,
                                     .schema_ipc = reader_schema,
                                     .next_ipc = reader_next,
                                     .cancel = reader_cancel,
                                     .destroy = reader_destroy};
  *out = NULL;
  reader *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  pthread_mutex_lock(&result->mutex);
  bool is_taken =
      result->is_begun && (result->has_reader || result->batches > (int64_t)(result->pieces.count - result->first));
  bool is_there = (result->is_begun || result->is_complete) && !result->is_cancelled && !is_taken;
  if (is_there && result->is_begun) result->has_reader = true;
  pthread_mutex_unlock(&result->mutex);
  if (!is_there) {
    free(r);
    return trn_error_set(error, is_taken ? TRN_FAILED_PRECONDITION : TRN_NOT_FOUND, NULL,
                         is_taken ? "The result is too large to be kept: it can be fetched once, and was"
                                  : "There is no result for this ticket");
  }
  r->result = ballista__result_ref(result);
  trn_status status = trn_stream_create(&ops, r, out);
  if (!status) return TRN_OK;
  reader_destroy(r);
  return trn__no_memory(error);
}
