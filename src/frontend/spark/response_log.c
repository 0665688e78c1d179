/* The responses of one execution: appended by its producer, read by at most one call, kept until released (or, when it
 * is not reattachable, until sent). A response is sent as slices over what it refers to; no batch is ever copied.
 *
 * One thread at a time pumps; whoever finds the pump busy leaves a note. Calls into the host are made without the lock.
 */
#include <stdio.h>

#include "core/varint.h"
#include "frontend/spark/service.h"

enum {
  LOG_HEARTBEAT_MS = 2000,    /* spark.connect.progress.reportInterval */
  LOG_RETRY_BYTES = 10 << 20, /* ...reattachable.observerRetryBufferSize: what stays although it was sent */
  LOG_CHUNK_BYTES_MIN = 1024,
  LOG_CHUNK_BYTES_MAX = 32 << 20, /* batches over this are cut even when no size was asked for */
  LOG_BATCH_BYTES_MAX = 120 << 20 /* clients take 128 MiB per message */
};
#define LOG_STREAM_BYTES_MAX ((size_t)1 << 30) /* ...reattachable.senderMaxStreamSize */

static const uint8_t ipc_end[8] = {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};

/* ---- bytes and batches ---- */

spark_bytes *spark__bytes_create(const void *data, size_t size) {
  spark_bytes *bytes = size <= SIZE_MAX - sizeof *bytes ? malloc(sizeof *bytes + size) : NULL;
  if (!bytes) return NULL;
  atomic_init(&bytes->refs, 1);
  bytes->size = size;
  if (data && size) memcpy(bytes->data, data, size);
  return bytes;
}

spark_bytes *spark__bytes_ref(spark_bytes *bytes) {
  atomic_fetch_add_explicit(&bytes->refs, 1, memory_order_relaxed);
  return bytes;
}

void spark__bytes_unref(spark_bytes *bytes) {
  if (bytes && atomic_fetch_sub_explicit(&bytes->refs, 1, memory_order_acq_rel) == 1) free(bytes);
}

static spark_batch *batch_create(spark_bytes *schema, const trn_slice *body, size_t count) {
  spark_batch *batch = calloc(1, sizeof *batch + (count + 2) * sizeof(trn_slice));
  if (!batch) return NULL;
  atomic_init(&batch->refs, 1);
  batch->schema = spark__bytes_ref(schema);
  batch->slices[batch->slice_count++] = (trn_slice){schema->data, schema->size, NULL, NULL};
  for (size_t i = 0; i < count; i++)
    if (body[i].size) batch->slices[batch->slice_count++] = (trn_slice){body[i].data, body[i].size, NULL, NULL};
  batch->slices[batch->slice_count++] = (trn_slice){ipc_end, sizeof ipc_end, NULL, NULL};
  for (size_t i = 0; i < batch->slice_count; i++) batch->size += batch->slices[i].size;
  return batch;
}

spark_batch *spark__batch_from_piece(spark_bytes *schema, trn_ipc_piece *piece) {
  spark_batch *batch = batch_create(schema, piece->slices, piece->slice_count);
  if (batch) {
    batch->piece = *piece;
  } else if (piece->release) {
    piece->release(piece->owner);
  }
  piece->release = NULL;
  return batch;
}

spark_batch *spark__batch_from_bytes(spark_bytes *schema, spark_bytes *body) {
  trn_slice slice = {body->data, body->size, NULL, NULL};
  spark_batch *batch = batch_create(schema, &slice, 1);
  if (batch) batch->body = spark__bytes_ref(body);
  return batch;
}

void spark__batch_unref(spark_batch *batch) {
  if (!batch || atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel) != 1) return;
  if (batch->piece.release) batch->piece.release(batch->piece.owner);
  spark__bytes_unref(batch->schema);
  spark__bytes_unref(batch->body);
  free(batch);
}

/* ---- responses ---- */

static spark_response *response_create(size_t head_size, spark_batch *batch, size_t offset, size_t size) {
  spark_response *response = calloc(1, sizeof *response + head_size);
  if (!response) return NULL;
  atomic_init(&response->refs, 1);
  response->head_size = head_size;
  if (batch) {
    atomic_fetch_add_explicit(&batch->refs, 1, memory_order_relaxed);
    response->batch = batch;
    response->offset = offset;
    response->batch_size = size;
  }
  return response;
}

static void response_unref(void *argument) {
  spark_response *response = argument;
  if (!response || atomic_fetch_sub_explicit(&response->refs, 1, memory_order_acq_rel) != 1) return;
  spark__batch_unref(response->batch);
  free(response);
}

static size_t response_bytes(const spark_response *response) {
  return sizeof *response + response->head_size + response->batch_size;
}

/* Sends it; every slice holds a reference until the host has written it. */
static trn_send_result response_send(spark_response *response, trn_call *call, unsigned flags) {
  enum { SLICES_MAX = 64 };
  size_t count = 1 + (response->batch ? response->batch->slice_count : 0);
  trn_slice few[SLICES_MAX], *slices = count <= SLICES_MAX ? few : malloc(count * sizeof *slices);
  if (!slices) {
    trn_call_abort(call, TRN_RESOURCE_EXHAUSTED);
    return TRN_SEND_CLOSED;
  }
  size_t used = 0;
  slices[used++] = (trn_slice){response->head, response->head_size, response_unref, response};
  size_t skip = response->offset, left = response->batch_size;
  for (size_t i = 0; response->batch && i < response->batch->slice_count && left; i++) {
    trn_slice part = response->batch->slices[i];
    if (skip >= part.size) {
      skip -= part.size;
      continue;
    }
    size_t size = part.size - skip < left ? part.size - skip : left;
    slices[used++] = (trn_slice){(const uint8_t *)part.data + skip, size, response_unref, response};
    skip = 0;
    left -= size;
  }
  atomic_fetch_add_explicit(&response->refs, (unsigned)used, memory_order_relaxed);
  trn_send_result result = trn_call_send(call, slices, used, flags);
  if (slices != few) free(slices);
  return result;
}

/* locks: mutex held. Puts it behind the others. */
static void append_locked(spark_execution *execution, spark_response *response) {
  response->index = execution->next_index++;
  if (execution->last) {
    execution->last->next = response;
  } else {
    execution->first = response;
  }
  execution->last = response;
  if (!execution->unsent && response->index > execution->sent) execution->unsent = response;
  execution->log_bytes += response_bytes(response);
}

/* locks: none. Takes it; drops it when the execution is over, so that nothing follows the end. */
static void append(spark_execution *execution, spark_response *response) {
  pthread_mutex_lock(&execution->mutex);
  bool keep = execution->state < SPARK_RUN_SUCCEEDED;
  if (keep) append_locked(execution, response);
  pthread_mutex_unlock(&execution->mutex);
  if (!keep) response_unref(response);
}

static void fill_ids(spark_execution *execution, Spark__Connect__ExecutePlanResponse *response,
                     char id[TRN_UUID_SIZE]) {
  trn__uuid4(id);
  response->session_id = execution->session->id;
  response->server_side_session_id = (char *)execution->session->server_id;
  response->operation_id = execution->id;
  response->response_id = id;
}

/* NULL: out of memory. */
static spark_response *pack_response(spark_execution *execution, Spark__Connect__ExecutePlanResponse *message) {
  char id[TRN_UUID_SIZE];
  fill_ids(execution, message, id);
  size_t size = spark__connect__execute_plan_response__get_packed_size(message);
  spark_response *response = response_create(size, NULL, 0, 0);
  if (!response) return NULL;
  memcpy(response->id, id, sizeof id);
  spark__connect__execute_plan_response__pack(message, response->head);
  return response;
}

trn_status spark__execution_append(spark_execution *execution, Spark__Connect__ExecutePlanResponse *message) {
  spark_response *response = pack_response(execution, message);
  if (!response) return TRN_RESOURCE_EXHAUSTED;
  append(execution, response);
  return TRN_OK;
}

/* One message of a batch: everything but the bytes of `data`, which comes last, so that they follow as slices. */
static trn_status append_part(spark_execution *execution, spark_batch *batch, size_t offset, size_t size, int64_t rows,
                              int64_t chunk, int64_t chunks) {
  Spark__Connect__ExecutePlanResponse message = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__ArrowBatch head = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__ARROW_BATCH__INIT;
  char id[TRN_UUID_SIZE];
  fill_ids(execution, &message, id);
  head.row_count = rows;
  head._start_offset_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__ARROW_BATCH___START_OFFSET_START_OFFSET;
  head.start_offset = execution->row_count;
  if (chunks > 1) {
    head._chunk_index_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__ARROW_BATCH___CHUNK_INDEX_CHUNK_INDEX;
    head.chunk_index = chunk;
    head._num_chunks_in_batch_case =
        SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__ARROW_BATCH___NUM_CHUNKS_IN_BATCH_NUM_CHUNKS_IN_BATCH;
    head.num_chunks_in_batch = chunks;
  }
  uint8_t data_tag[16], batch_tag[16];
  size_t data_tag_size = 0, batch_tag_size = 0;
  data_tag[data_tag_size++] = 2 << 3 | 2; /* ArrowBatch.data */
  data_tag_size = (size_t)(trn__varint_put(data_tag + data_tag_size, size) - data_tag);
  size_t head_size = protobuf_c_message_get_packed_size(&head.base);
  batch_tag[batch_tag_size++] = 2 << 3 | 2; /* ExecutePlanResponse.arrow_batch */
  batch_tag_size =
      (size_t)(trn__varint_put(batch_tag + batch_tag_size, head_size + data_tag_size + size) - batch_tag);
  size_t message_size = spark__connect__execute_plan_response__get_packed_size(&message);
  spark_response *response =
      response_create(message_size + batch_tag_size + head_size + data_tag_size, batch, offset, size);
  if (!response) return TRN_RESOURCE_EXHAUSTED;
  memcpy(response->id, id, sizeof id);
  uint8_t *at = response->head;
  at += spark__connect__execute_plan_response__pack(&message, at);
  memcpy(at, batch_tag, batch_tag_size);
  at += batch_tag_size;
  at += protobuf_c_message_pack(&head.base, at);
  memcpy(at, data_tag, data_tag_size);
  append(execution, response);
  return TRN_OK;
}

trn_status spark__execution_append_batch(spark_execution *execution, spark_batch *batch, int64_t row_count) {
  size_t chunk = LOG_CHUNK_BYTES_MAX;
  if (execution->chunk_bytes && execution->chunk_bytes < chunk) chunk = execution->chunk_bytes;
  if (chunk < LOG_CHUNK_BYTES_MIN) chunk = LOG_CHUNK_BYTES_MIN;
  if (!execution->may_chunk) {
    if (batch->size > LOG_BATCH_BYTES_MAX) return TRN_OUT_OF_RANGE;
    chunk = batch->size;
  }
  size_t chunks = (batch->size + chunk - 1) / chunk;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < chunks && !status; i++) {
    size_t offset = i * chunk, size = batch->size - offset < chunk ? batch->size - offset : chunk;
    status = append_part(execution, batch, offset, size, row_count, (int64_t)i, (int64_t)chunks);
  }
  execution->row_count += row_count;
  execution->batch_count++;
  return status;
}

/* ---- releasing ---- */

/* locks: mutex held. Takes the responses up to `index` off the log; they are chained from the result. */
static spark_response *cut_until(spark_execution *execution, uint64_t index) {
  spark_response *head = NULL, **tail = &head;
  while (execution->first && execution->first->index <= index) {
    spark_response *response = execution->first;
    execution->first = response->next;
    if (!execution->first) execution->last = NULL;
    if (execution->unsent == response) execution->unsent = response->next;
    if (response->index <= execution->sent) execution->retained_bytes -= response_bytes(response);
    execution->log_bytes -= response_bytes(response);
    execution->dropped = response->index;
    memcpy(execution->dropped_id, response->id, TRN_UUID_SIZE);
    response->next = NULL;
    *tail = response;
    tail = &response->next;
  }
  return head;
}

static void drop_chain(spark_response *response) {
  while (response) {
    spark_response *next = response->next;
    response_unref(response);
    response = next;
  }
}

/* locks: mutex held. The index of a response; that of the last one that was dropped is known too: a client releases
 * what it has got, then asks for what follows. */
static bool find(spark_execution *execution, const char *response_id, uint64_t *index) {
  *index = execution->dropped;
  if (strcmp(execution->dropped_id, response_id) == 0) return true;
  for (spark_response *response = execution->first; response; response = response->next) {
    *index = response->index;
    if (strcmp(response->id, response_id) == 0) return true;
  }
  return false;
}

trn_status spark__execution_cursor(spark_execution *execution, const char *last, uint64_t *after, trn_error **error) {
  *after = 0;
  pthread_mutex_lock(&execution->mutex);
  bool found = !last || !*last || find(execution, last, after);
  uint64_t dropped = execution->dropped;
  pthread_mutex_unlock(&execution->mutex);
  if (!found)
    return spark__raise(error, TRN_NOT_FOUND, "INVALID_CURSOR.POSITION_NOT_FOUND", "responseId", last, NULL, NULL, NULL,
                        NULL);
  if (*after >= dropped) return TRN_OK;
  char digits[24];
  snprintf(digits, sizeof digits, "%llu", (unsigned long long)*after + 1);
  return spark__raise(error, TRN_OUT_OF_RANGE, "INVALID_CURSOR.POSITION_NOT_AVAILABLE", "responseId", last ? last : "",
                      "index", digits, NULL, NULL);
}

void spark__execution_drop_log(spark_execution *execution) {
  drop_chain(execution->first);
  execution->first = execution->last = execution->unsent = NULL;
}

void spark__execution_release(spark_execution *execution, const char *until) {
  uint64_t index;
  pthread_mutex_lock(&execution->mutex);
  spark_response *gone = find(execution, until, &index) ? cut_until(execution, index) : NULL;
  pthread_mutex_unlock(&execution->mutex);
  drop_chain(gone);
  spark__execution_resume(execution);
}

/* locks: mutex held. What was sent and need not stay: everything when nobody can reattach; else, only under pressure,
 * what is older than the retry buffer (a client that never releases must not stop its own query). */
static spark_response *cut_sent(spark_execution *execution) {
  if (!execution->is_reattachable) return cut_until(execution, execution->sent);
  size_t budget = execution->session->service->response_log_bytes;
  size_t keep = budget / 2 < LOG_RETRY_BYTES ? budget / 2 : LOG_RETRY_BYTES;
  if (execution->log_bytes < budget) return NULL;
  uint64_t until = 0;
  size_t retained = execution->retained_bytes;
  for (spark_response *r = execution->first; r && r->index <= execution->sent && retained > keep; r = r->next) {
    retained -= response_bytes(r);
    until = r->index;
  }
  return cut_until(execution, until);
}

/* ---- the reader ---- */

/* locks: mutex held. Where a new reader begins. */
static void seek(spark_execution *execution, uint64_t after) {
  execution->sent = after;
  execution->retained_bytes = 0;
  spark_response *response = execution->first;
  for (; response && response->index <= after; response = response->next)
    execution->retained_bytes += response_bytes(response);
  execution->unsent = response;
}

/* locks: mutex held. Time or size is up: a client that can resume has to do so (proxies drop streams that are open for
 * long). */
static bool is_cut(const spark_execution *execution, int64_t now_ns) {
  int64_t stream_ns = (int64_t)execution->session->service->stream_ms * 1000000;
  return execution->is_reattachable &&
         (execution->sent_bytes >= LOG_STREAM_BYTES_MAX || now_ns - execution->attached_ns >= stream_ns);
}

static bool is_over(const spark_execution *execution) {
  return execution->state >= SPARK_RUN_SUCCEEDED;
}

/* Ends the reader's call with the execution's outcome. */
static void finish_call(spark_execution *execution, spark_rpc *rpc) {
  if (execution->state == SPARK_RUN_SUCCEEDED) {
    trn_call_finish(rpc->call, TRN_OK, NULL, NULL, 0, NULL, 0);
  } else {
    spark__call_fail(rpc->call, execution->failure);
  }
}

/* locks: mutex held, released while sending. One step; false: nothing to do now. */
static bool pump_step(spark_execution *execution) {
  spark_rpc *rpc = execution->consumer;
  spark_response *response = execution->unsent;
  /* A finish needs no room: it goes behind what is queued. */
  if (!rpc || (execution->is_full && (response || !is_over(execution)))) return false;
  bool cut = is_cut(execution, trn__now_ns());
  if (!response || cut) {
    bool over = !response && is_over(execution);
    if (!over && !cut) return false;
    execution->consumer = NULL;
    execution->detached_ns = trn__now_ns();
    bool remove = over && !execution->is_reattachable;
    pthread_mutex_unlock(&execution->mutex);
    if (over) {
      finish_call(execution, rpc);
    } else { /* without result_complete: the client reattaches */
      trn_call_finish(rpc->call, TRN_OK, NULL, NULL, 0, NULL, 0);
    }
    if (remove) spark__session_remove_execution(execution->session, execution);
    spark__rpc_unref(rpc);
    pthread_mutex_lock(&execution->mutex);
    return true;
  }
  unsigned writable = atomic_load(&rpc->writable);
  atomic_fetch_add_explicit(&response->refs, 1, memory_order_relaxed);
  execution->sent = response->index;
  execution->unsent = response->next;
  execution->retained_bytes += response_bytes(response);
  execution->sent_bytes += response_bytes(response);
  execution->sent_ns = trn__now_ns();
  /* What follows at once shares packets with it. */
  unsigned flags = execution->unsent || is_over(execution) ? TRN_SEND_MORE : 0;
  spark__rpc_ref(rpc);
  pthread_mutex_unlock(&execution->mutex);
  trn_send_result result = response_send(response, rpc->call, flags);
  pthread_mutex_lock(&execution->mutex);
  /* on_writable may have come already: then there is room again. */
  if (result == TRN_SEND_FULL && execution->consumer == rpc && writable == atomic_load(&rpc->writable))
    execution->is_full = true;
  spark_response *gone = cut_sent(execution);
  pthread_mutex_unlock(&execution->mutex);
  if (result == TRN_SEND_CLOSED) spark__execution_detach(execution, rpc);
  drop_chain(gone);
  response_unref(response);
  spark__rpc_unref(rpc);
  spark__execution_resume(execution);
  pthread_mutex_lock(&execution->mutex);
  return true;
}

void spark__execution_pump(spark_execution *execution) {
  spark__execution_ref(execution);
  pthread_mutex_lock(&execution->mutex);
  if (execution->is_pumping) {
    execution->pump_again = true;
  } else {
    execution->is_pumping = true;
    do {
      execution->pump_again = false;
      while (pump_step(execution)) continue;
    } while (execution->pump_again);
    execution->is_pumping = false;
  }
  pthread_mutex_unlock(&execution->mutex);
  spark__execution_unref(execution);
}

void spark__execution_writable(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  execution->is_full = false;
  pthread_mutex_unlock(&execution->mutex);
  spark__execution_pump(execution);
}

/* Ends a call that does not read, or does so no longer. */
static void refuse(spark_rpc *rpc, trn_status status, const char *condition, const char *id, const char *index) {
  trn_error *error = NULL;
  spark__raise(&error, status, condition, id ? "responseId" : NULL, id, index ? "index" : NULL, index, NULL, NULL);
  spark_failure *failure = spark__failure_create(status, error, SPARK_PHASE_PROTOCOL, NULL, false);
  spark__call_fail(rpc->call, failure);
  spark__failure_unref(failure);
  trn_error_unref(error);
}

void spark__execution_attach(spark_execution *execution, spark_rpc *rpc, uint64_t after) {
  atomic_store(&rpc->execution, spark__execution_ref(execution));
  pthread_mutex_lock(&execution->mutex);
  /* The call that read before may have gone on since the cursor was found, and what it got been dropped: a gap in the
   * rows must not go unnoticed. */
  bool is_gone = after < execution->dropped;
  spark_rpc *old = is_gone ? NULL : execution->consumer;
  if (!is_gone) {
    execution->consumer = spark__rpc_ref(rpc);
    seek(execution, after);
    execution->is_full = false;
    execution->sent_bytes = 0;
    execution->attached_ns = execution->sent_ns = trn__now_ns();
  }
  pthread_mutex_unlock(&execution->mutex);
  if (is_gone) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)after + 1);
    refuse(rpc, TRN_OUT_OF_RANGE, "INVALID_CURSOR.POSITION_NOT_AVAILABLE", "", digits);
    return;
  }
  if (old) {
    refuse(old, TRN_ABORTED, "INVALID_CURSOR.DISCONNECTED", NULL, NULL);
    spark__rpc_unref(old);
  }
  /* The call may have ended before it was stored. */
  if (atomic_load(&rpc->gone)) spark__execution_detach(execution, rpc);
  spark__execution_pump(execution);
}

void spark__execution_detach(spark_execution *execution, spark_rpc *rpc) {
  pthread_mutex_lock(&execution->mutex);
  bool mine = execution->consumer == rpc;
  if (mine) {
    execution->consumer = NULL;
    execution->detached_ns = trn__now_ns();
  }
  bool drop = mine && !execution->is_reattachable;
  pthread_mutex_unlock(&execution->mutex);
  if (drop) {
    spark__execution_interrupt(execution);
    spark__session_remove_execution(execution->session, execution);
  }
  if (mine) spark__rpc_unref(rpc);
}

/* ---- the end, and the clock ---- */

bool spark__execution_is_over(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  bool over = is_over(execution);
  pthread_mutex_unlock(&execution->mutex);
  return over;
}

static spark_response *complete_response(spark_execution *execution) {
  Spark__Connect__ExecutePlanResponse message = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__ResultComplete complete =
      SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESULT_COMPLETE__INIT;
  message.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_RESULT_COMPLETE;
  message.result_complete = &complete;
  return pack_response(execution, &message);
}

void spark__execution_finish(spark_execution *execution, spark_run_state state, spark_failure *failure) {
  spark_response *complete = NULL;
  if (state == SPARK_RUN_SUCCEEDED && execution->is_reattachable) {
    complete = complete_response(execution);
    if (!complete) state = SPARK_RUN_FAILED; /* without a failure: out of memory */
  }
  pthread_mutex_lock(&execution->mutex);
  bool first = !is_over(execution);
  if (first) {
    if (complete) append_locked(execution, complete);
    execution->state = state;
    execution->failure = failure;
  }
  pthread_mutex_unlock(&execution->mutex);
  if (!first) {
    response_unref(complete);
    spark__failure_unref(failure);
    return;
  }
  if (failure) spark__session_keep_failure(execution->session, failure);
  spark__execution_pump(execution);
  if (execution->is_reattachable) spark__execution_settle(execution); /* others go as a whole */
}

static void append_heartbeat(spark_execution *execution) {
  Spark__Connect__ExecutePlanResponse message = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__ExecutionProgress progress =
      SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__EXECUTION_PROGRESS__INIT;
  progress.num_inflight_tasks = 1;
  message.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_EXECUTION_PROGRESS;
  message.execution_progress = &progress;
  /* Without memory there is no heartbeat this time. */
  if (spark__execution_append(execution, &message) == TRN_OK) spark__execution_pump(execution);
}

void spark__execution_tick(spark_execution *execution, int64_t now_ns) {
  pthread_mutex_lock(&execution->mutex);
  bool attached = execution->consumer != NULL;
  bool idle = attached && !execution->is_full && now_ns - execution->sent_ns >= (int64_t)LOG_HEARTBEAT_MS * 1000000;
  bool heartbeat = idle && !is_over(execution);
  bool cut = attached && is_cut(execution, now_ns);
  bool abandoned =
      !attached && now_ns - execution->detached_ns >= (int64_t)execution->session->service->detached_ms * 1000000;
  pthread_mutex_unlock(&execution->mutex);
  if (abandoned) {
    spark__execution_interrupt(execution);
    spark__session_remove_execution(execution->session, execution);
  } else if (cut) {
    spark__execution_pump(execution);
  } else if (heartbeat) {
    append_heartbeat(execution);
  }
}
