/* The output of a job: partitions are fetched a few at once, as far ahead as the budget goes, and handed out in order.
 */
#include "backend/ballista/backend.h"

#include "arrow/ipc_batch.h"
#include "arrow/ipc_read.h"

static void release(trn_slice *slice) {
  if (slice->release) slice->release(slice->owner);
}

/* ---- fetching ---- */

/* May this slot have one more message under way? locks: run->mu held */
static bool may_ask(const trn_ballista_run *run, size_t index) {
  const trn_ballista_slot *slot = &run->slots[index];
  if (!slot->fetch || slot->is_asked || slot->is_done || run->status || run->is_cancelled) return false;
  return run->bytes < run->backend->options.fetch_bytes_max || (index == run->head && !slot->first);
}

/* Asks every open slot that may go on. locks: none */
static void ask(trn_ballista_run *run) {
  for (;;) {
    trn_ballista_fetch *fetch = NULL;
    pthread_mutex_lock(&run->mu);
    for (size_t i = run->head; i < run->opened && !fetch; i++) {
      if (!may_ask(run, i)) continue;
      run->slots[i].is_asked = true;
      fetch = run->slots[i].fetch; /* lives as long as the run */
    }
    pthread_mutex_unlock(&run->mu);
    if (!fetch) return;
    trn__ballista_fetch_next(fetch);
  }
}

static void on_message(void *user, trn_ballista_message message) {
  trn_ballista_slot *slot = user;
  trn_ballista_run *run = slot->run;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  trn_ballista_item *item = NULL;
  int64_t rows = 0;
  pthread_mutex_lock(&run->mu);
  bool is_schema = !slot->has_schema;
  slot->has_schema = true;
  pthread_mutex_unlock(&run->mu);
  if (is_schema) {
    status = trn__ipc_schema_check(message.header, message.header_size, &run->schema, &error);
    release(&message.bytes);
  } else if (!(item = malloc(sizeof *item))) {
    status = trn__no_memory(&error);
    release(&message.bytes);
  }
  if (item) { /* what is no batch is told of when it is handed on */
    (void)trn__ipc_read_rows(message.header, message.header_size, &rows, NULL);
    *item = (trn_ballista_item){NULL, message};
  }
  pthread_mutex_lock(&run->mu);
  slot->is_asked = false;
  if (item) {
    *slot->last = item;
    slot->last = &item->next;
    slot->bytes += message.bytes.size;
    slot->rows += rows < INT64_MAX - slot->rows ? rows : INT64_MAX - slot->rows;
    run->bytes += message.bytes.size;
  }
  pthread_mutex_unlock(&run->mu);
  if (status) trn__ballista_run_fail(run, status, error);
  ask(run);
  trn__ballista_output_wake(run, true);
}

/* A partition may end well and yet not be whole: the scheduler has told how many rows it has. locks: run->mu held */
static bool is_short(const trn_ballista_slot *slot, const trn_ballista_location *location) {
  return location->rows < 0 ? !slot->has_schema : slot->rows < location->rows;
}

static void on_done(void *user, trn_status status, const trn_error *error) {
  trn_ballista_slot *slot = user;
  trn_ballista_run *run = slot->run;
  const trn_ballista_location *l = &run->job->locations[slot - run->slots];
  trn_error *own = NULL;
  pthread_mutex_lock(&run->mu);
  int64_t rows = slot->rows;
  bool is_lost = !status && is_short(slot, l);
  pthread_mutex_unlock(&run->mu);
  if (is_lost)
    status =
        trn_error_set(&own, TRN_DATA_LOSS, NULL,
                      "the output of job %s (stage %u, partition %u) at executor %s (%s:%u) is not whole: it ended "
                      "after %lld rows",
                      l->job_id, (unsigned)l->stage_id, (unsigned)l->partition_id, l->executor_id, l->host,
                      (unsigned)l->port, (long long)rows);
  pthread_mutex_lock(&run->mu);
  slot->is_done = true;
  slot->is_asked = false;
  slot->status = status;
  slot->error = error ? trn_error_ref((trn_error *)error) : own;
  pthread_mutex_unlock(&run->mu);
  trn__ballista_output_wake(run, true);
  trn__ballista_run_unref(run);
}

/* Opens what may be open at once. locks: none */
static void open_more(trn_ballista_run *run) {
  static const trn_ballista_fetch_handlers handlers = {on_message, on_done};
  for (;;) {
    trn_error *error = NULL;
    trn_ballista_fetch *fetch = NULL;
    pthread_mutex_lock(&run->mu);
    bool goes_on = !run->status && !run->is_cancelled && run->opened < run->job->location_count &&
                   run->opened < run->head + run->backend->options.fetches_max &&
                   (run->opened == run->head || run->bytes < run->backend->options.fetch_bytes_max);
    size_t index = run->opened;
    if (goes_on) run->opened++;
    pthread_mutex_unlock(&run->mu);
    if (!goes_on) return;
    trn__ballista_run_ref(run);
    trn_status status = trn__ballista_fetch_open(run->backend->client, run->job, &run->job->locations[index], &handlers,
                                                 &run->slots[index], &fetch, &error);
    if (status) {
      trn__ballista_run_fail(run, status, error);
      trn__ballista_run_unref(run);
      return;
    }
    pthread_mutex_lock(&run->mu);
    run->slots[index].fetch = fetch;
    bool is_late = run->is_cancelled || run->status;
    pthread_mutex_unlock(&run->mu);
    if (is_late) trn__ballista_fetch_cancel(fetch);
  }
}

void trn__ballista_output_begin(trn_ballista_run *run) {
  open_more(run);
  ask(run);
  trn__ballista_output_wake(run, true);
}

void trn__ballista_output_stop(trn_ballista_run *run) {
  pthread_mutex_lock(&run->mu);
  size_t opened = run->slots ? run->opened : 0;
  pthread_mutex_unlock(&run->mu);
  for (size_t i = 0; i < opened; i++) {
    pthread_mutex_lock(&run->mu);
    trn_ballista_fetch *fetch = run->slots[i].fetch; /* NULL: whoever opens it sees that it is late */
    pthread_mutex_unlock(&run->mu);
    if (fetch) trn__ballista_fetch_cancel(fetch);
  }
}

void trn__ballista_output_finish(trn_ballista_run *run) {
  for (size_t i = 0; run->slots && i < run->job->location_count; i++) {
    trn_ballista_slot *slot = &run->slots[i];
    while (slot->first) {
      trn_ballista_item *item = slot->first;
      slot->first = item->next;
      release(&item->message.bytes);
      free(item);
    }
    trn_error_unref(slot->error);
    trn__ballista_fetch_unref(slot->fetch);
  }
  free(run->slots);
  trn__shared_array_unref(run->rest);
}

/* ---- delivering: on a thread of the pool, one at a time ---- */

typedef enum next_kind { NEXT_WAITS, NEXT_ITEM, NEXT_END, NEXT_FAILED } next_kind;

/* What comes next; moves on to the next partition. A partition's error is taken over. locks: run->mu held */
static next_kind next_item(trn_ballista_run *run, trn_ballista_item **out) {
  if (run->is_cancelled || run->status) return NEXT_FAILED;
  if (!run->job) return NEXT_WAITS;
  for (; run->head < run->job->location_count; run->head++) {
    trn_ballista_slot *slot = &run->slots[run->head];
    if (slot->first) {
      *out = slot->first;
      slot->first = slot->first->next;
      if (!slot->first) slot->last = &slot->first;
      slot->bytes -= (*out)->message.bytes.size;
      run->bytes -= (*out)->message.bytes.size;
      return NEXT_ITEM;
    }
    if (!slot->is_done) return NEXT_WAITS;
    if (slot->status) {
      run->status = slot->status;
      run->error = slot->error ? trn_error_ref(slot->error) : NULL;
      return NEXT_FAILED;
    }
  }
  return NEXT_END;
}

/* A pull's answer. */
typedef struct answer {
  trn_status status;
  trn_error *error;
  struct ArrowArray array;
  trn_ipc_piece piece;
} answer;

/* How many rows fit, when `rows` of them took `size` bytes: at least one. */
static int64_t rows_that_fit(int64_t rows, size_t size, size_t bytes_max) {
  double fit = (double)rows * (double)bytes_max / (double)size * 0.95;
  return fit < 1 ? 1 : fit < 1e18 ? (int64_t)fit : INT64_MAX / 2;
}

/* Rows that are left from a batch that was too large: as many as fit, by the average of those before. */
static void cut(trn_ballista_run *run, size_t bytes_max, answer *a) {
  const struct ArrowArray *whole = trn__shared_array_get(run->rest);
  int64_t rows = whole->length - run->rest_at;
  struct ArrowArray part = {0};
  if (run->rest_rows && run->rest_rows < rows) rows = run->rest_rows;
  for (;;) {
    trn_status status = trn__shared_array_slice(run->rest, run->rest_at, rows, &part);
    if (status) {
      a->status = trn__no_memory(&a->error);
      return;
    }
    a->status = trn__ballista_rows_piece(&run->schema, &part, &a->piece, &a->error);
    trn__array_release(&part);
    if (a->status || a->piece.size <= bytes_max || rows == 1) break;
    int64_t fit = rows_that_fit(rows, a->piece.size, bytes_max);
    rows = fit < rows ? fit : rows - 1;
    a->piece.release(a->piece.owner);
    a->piece = (trn_ipc_piece){0};
  }
  run->rest_rows = a->status ? 0 : rows_that_fit(rows, a->piece.size, bytes_max);
  run->rest_at += rows;
  if (run->rest_at < whole->length) return;
  trn__shared_array_unref(run->rest);
  run->rest = NULL;
}

/* Makes of a message what the pull wants; takes it. */
static void convert(trn_ballista_run *run, trn_ballista_message message, bool wants_array, size_t bytes_max,
                    answer *a) {
  struct ArrowArray large = {0};
  if (wants_array) {
    a->status = trn__ballista_message_array(message, &run->schema, &a->array, &a->error);
    return;
  }
  a->status = trn__ballista_message_piece(message, bytes_max, &run->schema, &a->piece, &large, &a->error);
  if (a->status || !large.release) return;
  if (trn__shared_array_create(&large, &run->rest)) {
    a->status = trn__no_memory(&a->error);
    return;
  }
  run->rest_at = run->rest_rows = 0;
  cut(run, bytes_max, a);
}

/* Rows that a pull for pieces left, for one that wants arrays. */
static void give_rest(trn_ballista_run *run, answer *a) {
  int64_t rows = trn__shared_array_get(run->rest)->length - run->rest_at;
  if (trn__shared_array_slice(run->rest, run->rest_at, rows, &a->array)) a->status = trn__no_memory(&a->error);
  trn__shared_array_unref(run->rest);
  run->rest = NULL;
}

/* Answers the pull; run->is_delivering is ours. locks: none */
static void complete(trn_ballista_run *run, answer *a) {
  pthread_mutex_lock(&run->mu);
  trn_array_done array_done = run->array_done;
  trn_ipc_done ipc_done = run->ipc_done;
  void *user = run->user;
  run->has_pull = run->is_delivering = false;
  run->array_done = NULL, run->ipc_done = NULL;
  pthread_mutex_unlock(&run->mu);
  if (array_done)
    array_done(user, a->status, a->error, &a->array);
  else
    ipc_done(user, a->status, a->error, &a->piece);
  trn_error_unref(a->error);
}

/* The error of a run that failed, or was cancelled. locks: run->mu held */
static void take_failure(const trn_ballista_run *run, answer *a) {
  a->status = run->is_cancelled ? TRN_CANCELLED : run->status;
  if (run->is_cancelled)
    trn_error_set(&a->error, TRN_CANCELLED, NULL, "the query was cancelled");
  else if (run->error)
    a->error = trn_error_ref(run->error);
}

/* Makes an answer of what waits: a message, or rows that are left of one. */
static void answer_rows(trn_ballista_run *run, trn_ballista_item *item, bool wants_array, size_t bytes_max, answer *a) {
  if (item)
    convert(run, item->message, wants_array, bytes_max, a);
  else if (wants_array)
    give_rest(run, a);
  else
    cut(run, bytes_max, a);
  free(item);
  if (a->status) trn__ballista_run_fail(run, a->status, a->error ? trn_error_ref(a->error) : NULL);
}

static void deliver(void *argument) {
  trn_ballista_run *run = argument;
  trn_ballista_item *item = NULL;
  answer a = {0};
  next_kind kind = NEXT_ITEM;
  pthread_mutex_lock(&run->mu);
  bool wants_array = run->array_done != NULL, is_done = run->job != NULL;
  size_t bytes_max = run->piece_bytes_max;
  if (run->is_cancelled || !run->rest) kind = next_item(run, &item);
  if (kind == NEXT_FAILED) take_failure(run, &a);
  if (kind == NEXT_WAITS) run->is_delivering = false;
  pthread_mutex_unlock(&run->mu);
  if (kind == NEXT_ITEM) answer_rows(run, item, wants_array, bytes_max, &a);
  if (kind == NEXT_FAILED) trn__ballista_output_stop(run);
  if (kind == NEXT_FAILED || kind == NEXT_END) trn__ballista_run_ended(run, a.status);
  if (is_done && kind != NEXT_END) {
    open_more(run);
    ask(run);
  }
  if (kind != NEXT_WAITS) complete(run, &a);
  trn__ballista_run_unref(run);
}

/* Can the pull that waits be answered? Moves over partitions that are empty. locks: run->mu held */
static bool is_ready(trn_ballista_run *run) {
  if (run->is_cancelled || run->status || run->rest) return true;
  if (!run->job) return false;
  for (; run->head < run->job->location_count; run->head++) {
    const trn_ballista_slot *slot = &run->slots[run->head];
    if (slot->first || (slot->is_done && slot->status)) return true;
    if (!slot->is_done) return false;
  }
  return true;
}

bool trn__ballista_output_wake(trn_ballista_run *run, bool may_be_here) {
  pthread_mutex_lock(&run->mu);
  size_t head = run->head;
  bool delivers = run->has_pull && !run->is_delivering && is_ready(run);
  if (delivers) run->is_delivering = true;
  bool moved = run->head != head;
  pthread_mutex_unlock(&run->mu);
  if (moved) { /* an empty partition is over: another may be opened */
    open_more(run);
    ask(run);
  }
  if (!delivers) return true;
  trn__ballista_run_ref(run);
  if (!trn__pool_submit(run->backend->pool, deliver, run)) return true;
  if (may_be_here) { /* without memory for a task, this thread has to do it */
    deliver(run);
    return true;
  }
  pthread_mutex_lock(&run->mu);
  run->is_delivering = false;
  pthread_mutex_unlock(&run->mu);
  trn__ballista_run_unref(run);
  return false;
}

/* ---- the stream ---- */

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  return trn__schema_copy(&((trn_ballista_run *)self)->schema, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status stream_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  const trn_strbuf *bytes = &((trn_ballista_run *)self)->schema_ipc;
  (void)error;
  *out = (trn_slice){.data = bytes->data, .size = bytes->size};
  return TRN_OK;
}

/* Not OK: there was no pull. */
static trn_status pull(trn_ballista_run *run, trn_array_done array_done, trn_ipc_done ipc_done, size_t bytes_max,
                       void *user, trn_error **error) {
  pthread_mutex_lock(&run->mu);
  run->array_done = array_done, run->ipc_done = ipc_done, run->user = user;
  run->piece_bytes_max = bytes_max;
  run->has_pull = true;
  pthread_mutex_unlock(&run->mu);
  if (trn__ballista_output_wake(run, false)) return TRN_OK;
  pthread_mutex_lock(&run->mu);
  bool is_taken = !run->has_pull || run->is_delivering; /* another thread was able to, meanwhile */
  if (!is_taken) run->has_pull = false;
  pthread_mutex_unlock(&run->mu);
  return is_taken ? TRN_OK : trn__no_memory(error);
}

static trn_status stream_next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  return pull(self, done, NULL, 0, user, error);
}

static trn_status stream_next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  return pull(self, NULL, done, bytes_max, user, error);
}

static void stream_destroy(void *self) {
  trn__ballista_run_cancel(self); /* what was not read is not wanted */
  trn__ballista_run_unref(self);
}

const trn_stream_ops trn__ballista_stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                                 .schema = stream_schema,
                                                 .schema_ipc = stream_schema_ipc,
                                                 .next_array = stream_next_array,
                                                 .next_ipc = stream_next_ipc,
                                                 .cancel = trn__ballista_run_cancel,
                                                 .destroy = stream_destroy};
