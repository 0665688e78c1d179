/* Results that wait for their fetch in parts: a query that runs by itself while its client polls, or until several endpoints
 * can be told. What it gives is kept as the engine gave it while the service's waiting results are few, else in a file; a part
 * is a run of messages that a ticket stands for, and is never changed again. Whoever asks for news waits here, on no thread.
 *
 * Locks: result->mutex, inside of statement->mutex. None is held while calling out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "frontend/flightsql/flightsql.h"

/* A message of a result: the engine's piece, kept; or where it is in the file. */
typedef struct held {
  atomic_uint refs; /* the result's, and one for each time that it is on its way */
  trn_ipc_piece piece;
} held;

typedef struct entry {
  held *held; /* NULL: in the file */
  uint64_t offset;
  size_t size;
  int64_t rows;
} entry;

typedef struct part {
  size_t first, count;
  int64_t rows;
  uint64_t bytes;
  bool is_fetched;
} part;

/* Who asks for news. */
typedef struct waiter {
  flight_rpc *rpc; /* one reference while it waits; the call owns the waiter */
  flightsql_result *result;
  flightsql_statement *statement;
  char *command;
  size_t command_size;
  size_t seen; /* parts that the client knows */
  int64_t due_ns;
  bool is_poll;
} waiter;

struct flightsql_result {
  atomic_uint refs;
  flightsql_service *service;     /* borrowed: calls and workers that use it have entered */
  flightsql_statement *statement; /* one reference while it runs */
  trn_operation *operation;       /* while it runs */
  trn_stream *stream;
  trn_ipc_piece piece; /* on its way into the file; one pull at a time */
  trn_status ended;    /* how the stream did, with its error */
  trn_error *failure;
  size_t goal;         /* endpoints that are told at the end; 0: parts are told as they are ready */
  char *schema;        /* IPC, of the stream */
  size_t schema_size;
  int file;            /* -1: none yet; its name is gone already */
  uint64_t file_size;
  pthread_mutex_t mutex;
  /* guarded by mutex */
  entry *entries;
  size_t entry_count, entry_capacity;
  part *parts;
  size_t part_count, part_capacity, parted; /* entries that are in parts */
  uint64_t open_bytes;                      /* of those that are not */
  uint64_t kept_bytes, total_bytes;
  bool is_over;
  trn_status status;
  trn_error *error;
  trn_vec waiters;
};

/* ---- life ---- */

static void held_unref(void *owner) {
  held *h = owner;
  if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  if (h->piece.release) h->piece.release(h->piece.owner);
  free(h);
}

static flightsql_result *result_ref(flightsql_result *result) {
  atomic_fetch_add_explicit(&result->refs, 1, memory_order_relaxed);
  return result;
}

void flightsql__result_unref(flightsql_result *result) {
  if (!result || atomic_fetch_sub_explicit(&result->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < result->entry_count; i++) held_unref(result->entries[i].held);
  if (result->kept_bytes) atomic_fetch_sub(&result->service->waiting_bytes, result->kept_bytes);
  if (result->file >= 0) close(result->file);
  trn__vec_finish(&result->waiters);
  trn_error_unref(result->error);
  pthread_mutex_destroy(&result->mutex);
  free(result->entries);
  free(result->parts);
  free(result->schema);
  free(result);
}

/* ---- parts ---- */

/* Gives room for one more of `size` bytes each. */
static bool grow(void **items, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return true;
  size_t next = *capacity ? 2 * *capacity : 16;
  void *grown = realloc(*items, next * size);
  if (!grown) return false;
  *items = grown;
  *capacity = next;
  return true;
}

/* The entries up to `end` that are in no part become one. locks: mutex held */
static bool close_part(flightsql_result *r, size_t end) {
  if (end == r->parted && r->part_count) return true;
  if (!grow((void **)&r->parts, r->part_count, &r->part_capacity, sizeof *r->parts)) return false;
  part p = {.first = r->parted, .count = end - r->parted};
  for (size_t i = p.first; i < end; i++) p.rows += r->entries[i].rows, p.bytes += r->entries[i].size;
  r->parts[r->part_count++] = p;
  r->parted = end;
  r->open_bytes -= p.bytes;
  return true;
}

/* A result of any size has no more than some hundred parts: they grow. locks: mutex held */
static uint64_t part_bytes(const flightsql_result *r) {
  size_t doubled = r->part_count / (TRN_FLIGHT_PARTS_MAX / 8);
  return (uint64_t)TRN_FLIGHT_PART_BYTES << (doubled < 16 ? doubled : 16);
}

/* Everything is there: as many parts of about the same size as were asked for. locks: mutex held */
static bool close_evenly(flightsql_result *r) {
  uint64_t each = r->open_bytes / r->goal + 1, sum = 0;
  bool ok = true;
  for (size_t i = 0; ok && i < r->entry_count; i++) {
    sum += r->entries[i].size;
    if (sum >= each * (r->part_count + 1)) ok = close_part(r, i + 1);
  }
  return ok && close_part(r, r->entry_count);
}

/* ---- answers ---- */

static void waiter_drop(void *user) {
  waiter *w = user;
  flightsql__statement_unref(w->statement);
  flightsql__result_unref(w->result);
  free(w->command);
  free(w);
}

/* Takes the waiter out of the list; false: it was taken before. */
static bool take(waiter *w) {
  flightsql_result *r = w->result;
  bool found = false;
  pthread_mutex_lock(&r->mutex);
  for (size_t i = 0; i < r->waiters.count && !found; i++) {
    if (r->waiters.items[i] != w) continue;
    r->waiters.items[i] = r->waiters.items[--r->waiters.count];
    found = true;
  }
  pthread_mutex_unlock(&r->mutex);
  return found;
}

static void waiter_end(waiter *w) {
  flight_rpc *rpc = w->rpc;
  flight_service *service = flight__service_ref(rpc->service);
  flight__rpc_unref(rpc); /* the waiter may go with it */
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

/* Who polls comes again, or lets the result expire; who waits for all of it does not want it any more. */
static void waiter_gone(void *user) {
  waiter *w = user;
  if (!take(w)) return;
  if (!w->is_poll) flightsql__statement_cancel(w->statement);
  waiter_end(w);
}

static trn_status answer(waiter *w, trn_error **error) {
  flightsql_result *r = w->result;
  flightsql_info info = {.command = {w->command, w->command_size},
                         .statement = w->statement,
                         .is_poll = w->is_poll,
                         .expires_in_ms = r->service->result_ms};
  pthread_mutex_lock(&r->mutex);
  trn_status status = r->status;
  if (status && error && r->error) *error = trn_error_ref(r->error);
  bool keep = status || r->is_over || r->goal || r->parted == r->entry_count || r->part_count >= TRN_FLIGHT_PARTS_MAX;
  bool ok = keep || close_part(r, r->entry_count);
  info.part_count = r->part_count;
  info.is_complete = r->is_over;
  if (r->is_over) {
    info.rows = 0, info.bytes = (int64_t)r->total_bytes;
    for (size_t i = 0; i < r->part_count; i++) info.rows += r->parts[i].rows;
  }
  pthread_mutex_unlock(&r->mutex);
  if (status) flightsql__statement_close(w->statement);
  if (!status && !ok) status = trn__no_memory(error);
  if (status) return status;
  flightsql__statement_renew(w->statement);
  return flightsql__reply_info(w->rpc, &info, error);
}

/* thread: worker */
static void answer_run(void *argument) {
  waiter *w = argument;
  trn_error *error = NULL;
  trn_status status = answer(w, &error);
  if (status) flight__rpc_fail(w->rpc, status, error);
  trn_error_unref(error);
  waiter_end(w);
}

static void answer_submit(waiter *w) {
  if (flight__submit(w->rpc->service, answer_run, w)) return;
  flight__rpc_fail(w->rpc, TRN_RESOURCE_EXHAUSTED, NULL);
  waiter_end(w);
}

/* locks: mutex held */
static bool is_due(const flightsql_result *r, const waiter *w, int64_t now) {
  if (r->is_over) return true;
  return w->is_poll && (r->part_count > w->seen || now >= w->due_ns);
}

/* Answers those that are due. locks: none */
static void wake(flightsql_result *r) {
  for (;;) {
    waiter *due = NULL;
    int64_t now = trn__now_ns();
    pthread_mutex_lock(&r->mutex);
    for (size_t i = 0; i < r->waiters.count && !due; i++) {
      if (!is_due(r, r->waiters.items[i], now)) continue;
      due = r->waiters.items[i];
      r->waiters.items[i] = r->waiters.items[--r->waiters.count];
    }
    pthread_mutex_unlock(&r->mutex);
    if (!due) return;
    answer_submit(due);
  }
}

static void timer_run(void *argument) {
  flightsql_result *r = argument;
  wake(r);
  flightsql__result_unref(r);
}

trn_status flightsql__result_wait(flightsql_statement *statement, flight_rpc *rpc, trn_str command, bool is_poll, size_t seen,
                                  trn_error **error) {
  static const flight_events events = {NULL, waiter_gone, waiter_drop};
  flightsql_result *r = statement->result;
  flight_service *service = rpc->service;
  waiter *w = calloc(1, sizeof *w);
  char *copy = w ? malloc(command.size + 1) : NULL;
  if (!copy || !trn__gate_enter(&service->gate)) {
    bool stops = copy != NULL;
    free(copy);
    free(w);
    return stops ? trn_error_set(error, TRN_UNAVAILABLE, NULL, "The server is stopping") : trn__no_memory(error);
  }
  memcpy(copy, command.data, command.size);
  uint64_t hold_ms = seen == SIZE_MAX ? TRN_FLIGHT_FIRST_POLL_MS : TRN_FLIGHT_POLL_MS;
  *w = (waiter){.rpc = flight__rpc_ref(rpc),
                .result = result_ref(r),
                .statement = flightsql__statement_ref(statement),
                .command = copy,
                .command_size = command.size,
                .seen = seen == SIZE_MAX ? 0 : seen,
                .due_ns = trn__now_ns() + (int64_t)hold_ms * 1000000,
                .is_poll = is_poll};
  if (is_poll && trn__pool_submit_after(service->control, hold_ms, timer_run, result_ref(r))) {
    flightsql__result_unref(r);
    w->due_ns = 0; /* no timer: what is there is told at once */
  }
  pthread_mutex_lock(&r->mutex);
  bool ok = r->waiters.count < TRN_FLIGHT_POLLS_MAX && trn__vec_push(&r->waiters, w);
  pthread_mutex_unlock(&r->mutex);
  if (!ok) {
    flight__rpc_unref(rpc);
    trn__gate_leave(&service->gate);
    waiter_drop(w);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "More than TRN_FLIGHT_POLLS_MAX (%u) calls wait for one result",
                         TRN_FLIGHT_POLLS_MAX);
  }
  flight__rpc_attach(rpc, &events, w); /* may end the wait, but not `r`: the statement has it */
  wake(r);
  return TRN_OK;
}

/* ---- running ---- */

static void pull(flightsql_result *r);

/* The end, once. thread: any, but not inside of the stream's completion when `r->stream` is there */
static void finish(flightsql_result *r, trn_status status, const trn_error *error) {
  flightsql_statement *statement = r->statement;
  flight_service *service = flight__service_ref(r->service->flight);
  trn_stream *stream = r->stream;
  trn_operation *operation = r->operation;
  pthread_mutex_lock(&r->mutex);
  bool ok = status || (r->goal ? close_evenly(r) : close_part(r, r->entry_count));
  r->status = ok ? status : TRN_RESOURCE_EXHAUSTED;
  r->error = error ? trn_error_ref((trn_error *)error) : NULL;
  r->is_over = true;
  r->stream = NULL;
  r->operation = NULL;
  r->statement = NULL;
  pthread_mutex_unlock(&r->mutex);
  if (status) trn_operation_cancel(operation);
  flightsql__statement_ran(statement, operation);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  wake(r);
  flightsql__statement_unref(statement);
  flightsql__result_unref(r);
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

static void submit(flightsql_result *r, void (*run)(void *argument)) {
  if (flight__submit(r->service->flight, run, r)) return;
  trn_error *error = NULL;
  trn_error_set(&error, TRN_RESOURCE_EXHAUSTED, NULL, "No worker thread can be started");
  finish(r, TRN_RESOURCE_EXHAUSTED, error);
  trn_error_unref(error);
}

static trn_status file_error(trn_error **error, const char *what) {
  int code = errno;
  return trn_error_set(error, code == ENOSPC || code == EDQUOT ? TRN_RESOURCE_EXHAUSTED : TRN_INTERNAL, NULL,
                       "The file of a waiting result cannot be %s: %s", what, strerror(code));
}

/* A file without a name: it goes with the result, and with the process. */
static trn_status open_file(flightsql_result *r, trn_error **error) {
  char id[TRN_UUID_SIZE];
  trn_strbuf path = {0};
  trn__uuid4(id);
  trn__strbuf_printf(&path, "%s/trunnion-%s.result", r->service->spool_directory, id);
  if (!path.failed) r->file = open(path.data, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  trn_status status = path.failed ? trn__no_memory(error) : r->file < 0 ? file_error(error, "opened") : TRN_OK;
  if (!status) unlink(path.data);
  trn__strbuf_finish(&path);
  return status;
}

static trn_status write_piece(flightsql_result *r, const trn_ipc_piece *piece, trn_error **error) {
  trn_status status = r->file < 0 ? open_file(r, error) : TRN_OK;
  for (size_t i = 0; !status && i < piece->slice_count; i++) {
    const char *at = piece->slices[i].data;
    for (size_t left = piece->slices[i].size; !status && left;) {
      ssize_t wrote = pwrite(r->file, at, left, (off_t)r->file_size);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) status = file_error(error, "written");
      else at += wrote, left -= (size_t)wrote, r->file_size += (uint64_t)wrote;
    }
  }
  return status;
}

/* Puts a message behind the others. Takes `h` (may be NULL). */
static trn_status add_entry(flightsql_result *r, held *h, const trn_ipc_piece *piece, uint64_t offset, trn_error **error) {
  pthread_mutex_lock(&r->mutex);
  bool ok = grow((void **)&r->entries, r->entry_count, &r->entry_capacity, sizeof *r->entries), is_added = ok;
  if (ok) {
    r->entries[r->entry_count++] = (entry){h, offset, piece->size, piece->rows};
    r->total_bytes += piece->size;
    r->open_bytes += piece->size;
    if (h) r->kept_bytes += piece->size;
    if (!r->goal && r->open_bytes >= part_bytes(r)) ok = close_part(r, r->entry_count);
  }
  bool too_much = r->total_bytes > TRN_FLIGHT_WAITING_RESULT_MAX;
  pthread_mutex_unlock(&r->mutex);
  if (!is_added && h) {
    atomic_fetch_sub(&r->service->waiting_bytes, piece->size);
    held_unref(h);
  }
  if (!ok) return trn__no_memory(error);
  if (!too_much) return TRN_OK;
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                       "The result is larger than TRN_FLIGHT_WAITING_RESULT_MAX (%llu bytes): fetch it from one endpoint, "
                       "which does not keep it",
                       (unsigned long long)TRN_FLIGHT_WAITING_RESULT_MAX);
}

/* thread: worker: the disk may be slow */
static void store_run(void *argument) {
  flightsql_result *r = argument;
  trn_error *error = NULL;
  uint64_t offset = r->file_size;
  trn_status status = write_piece(r, &r->piece, &error);
  if (!status) status = add_entry(r, NULL, &r->piece, offset, &error);
  if (r->piece.release) r->piece.release(r->piece.owner);
  r->piece = (trn_ipc_piece){0};
  if (status) finish(r, status, error);
  else wake(r), pull(r);
  trn_error_unref(error);
}

/* thread: worker: a stream is not dropped from inside of its completion */
static void end_run(void *argument) {
  flightsql_result *r = argument;
  trn_error *error = r->failure;
  r->failure = NULL;
  finish(r, r->ended, error);
  trn_error_unref(error);
}

static void end_later(flightsql_result *r, trn_status status, const trn_error *error) {
  r->ended = status;
  r->failure = error ? trn_error_ref((trn_error *)error) : NULL;
  submit(r, end_run);
}

/* Room in memory for a piece, of what the whole service has for waiting results. */
static bool reserve(flightsql_result *r, size_t size) {
  if (atomic_fetch_add(&r->service->waiting_bytes, size) + size <= TRN_FLIGHT_WAITING_BYTES) return true;
  atomic_fetch_sub(&r->service->waiting_bytes, size);
  return false;
}

static void pulled(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  flightsql_result *r = user;
  trn_error *own = NULL;
  if (status || !piece->release) {
    end_later(r, status, error);
    return;
  }
  bool is_reserved = r->file < 0 && reserve(r, piece->size);
  held *h = is_reserved ? malloc(sizeof *h) : NULL;
  if (is_reserved && !h) atomic_fetch_sub(&r->service->waiting_bytes, piece->size);
  if (!h) { /* what comes later stays in order in the file, too */
    r->piece = *piece;
    submit(r, store_run);
    return;
  }
  atomic_init(&h->refs, 1);
  h->piece = *piece;
  status = add_entry(r, h, &h->piece, 0, &own);
  if (status) end_later(r, status, own);
  else wake(r), pull(r);
  trn_error_unref(own);
}

static void pull(flightsql_result *r) {
  trn_error *error = NULL;
  trn_status status = trn_stream_next_ipc(r->stream, TRN_FLIGHT_BATCH_BYTES, pulled, r, &error);
  if (status) end_later(r, status, error);
  trn_error_unref(error);
}

static trn_status result_create(flightsql_statement *statement, size_t goal, trn_stream *stream, flightsql_result **out,
                                trn_error **error) {
  trn_slice schema = {0};
  trn_status status = trn_stream_schema_ipc(stream, &schema, error);
  if (status) return status;
  flightsql_result *r = calloc(1, sizeof *r);
  char *copy = r ? malloc(schema.size) : NULL;
  if (copy) {
    memcpy(copy, schema.data, schema.size);
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->mutex, NULL);
    r->service = statement->session->service;
    r->schema = copy;
    r->schema_size = schema.size;
    r->file = -1;
    r->goal = goal;
    *out = r;
  } else {
    free(r);
    status = trn__no_memory(error);
  }
  if (schema.release) schema.release(schema.owner);
  return status;
}

trn_status flightsql__result_start(flightsql_statement *statement, flight_rpc *rpc, size_t goal, trn_error **error) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  flightsql_result *r = NULL;
  trn_status status = flightsql__statement_execute(statement, rpc, &operation, &stream, error);
  if (status) return status;
  status = result_create(statement, goal, stream, &r, error);
  if (!status && !trn__gate_enter(&rpc->service->gate))
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "The server is stopping");
  if (status) {
    flightsql__statement_ran(statement, operation);
    trn_operation_cancel(operation);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
    flightsql__result_unref(r);
    return status;
  }
  r->operation = operation;
  r->stream = stream;
  r->statement = flightsql__statement_ref(statement);
  statement->result = result_ref(r);
  pull(r);
  return TRN_OK;
}

bool flightsql__result_is_over(flightsql_result *r) {
  pthread_mutex_lock(&r->mutex);
  bool is_over = r->is_over;
  pthread_mutex_unlock(&r->mutex);
  return is_over;
}

/* ---- fetching ---- */

/* The messages of one part, as a stream. */
typedef struct reader {
  flightsql_result *result; /* one reference */
  size_t at, end;
  atomic_bool is_cancelled;
  trn_ipc_done done; /* of the pull that is outstanding */
  void *user;
} reader;

static trn_status reader_schema(void *self, trn_slice *out, trn_error **error) {
  const reader *s = self;
  (void)error;
  *out = (trn_slice){.data = s->result->schema, .size = s->result->schema_size};
  return TRN_OK;
}

static void loaded_free(void *owner) { free(owner); }

/* Reads an entry out of the file. */
static trn_status load(flightsql_result *r, const entry *e, trn_ipc_piece *out, trn_error **error) {
  trn_slice *slice = malloc(sizeof *slice + e->size);
  if (!slice) return trn__no_memory(error);
  char *bytes = (char *)(slice + 1);
  for (size_t done = 0; done < e->size;) {
    ssize_t got = pread(r->file, bytes + done, e->size - done, (off_t)(e->offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      free(slice);
      return file_error(error, "read");
    }
    done += (size_t)got;
  }
  *slice = (trn_slice){.data = bytes, .size = e->size};
  *out = (trn_ipc_piece){slice, 1, e->size, e->rows, loaded_free, slice};
  return TRN_OK;
}

/* thread: worker */
static void reader_run(void *argument) {
  reader *s = argument;
  flightsql_result *r = s->result;
  trn_error *error = NULL;
  trn_ipc_piece piece = {0};
  trn_status status = atomic_load(&s->is_cancelled) ? TRN_CANCELLED : TRN_OK;
  if (!status && s->at < s->end) {
    pthread_mutex_lock(&r->mutex);
    entry e = r->entries[s->at++];
    if (e.held) atomic_fetch_add_explicit(&e.held->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&r->mutex);
    if (e.held) {
      piece = e.held->piece;
      piece.release = held_unref;
      piece.owner = e.held;
    } else {
      status = load(r, &e, &piece, &error);
    }
  }
  s->done(s->user, status, error, &piece); /* the reader may be gone behind it */
  trn_error_unref(error);
}

static trn_status reader_next(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  reader *s = self;
  (void)bytes_max; /* they were pulled with the same */
  s->done = done;
  s->user = user;
  if (flight__submit(s->result->service->flight, reader_run, s)) return TRN_OK;
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "No worker thread can be started");
}

static void reader_cancel(void *self) { atomic_store(&((reader *)self)->is_cancelled, true); }

static void reader_destroy(void *self) {
  reader *s = self;
  flightsql__result_unref(s->result);
  free(s);
}

trn_status flightsql__result_open(flightsql_result *r, size_t index, trn_stream **out, trn_error **error) {
  static const trn_stream_ops ops = {.struct_size = sizeof ops,
                                     .schema_ipc = reader_schema,
                                     .next_ipc = reader_next,
                                     .cancel = reader_cancel,
                                     .destroy = reader_destroy};
  pthread_mutex_lock(&r->mutex);
  bool found = index < r->part_count;
  size_t first = found ? r->parts[index].first : 0, count = found ? r->parts[index].count : 0;
  pthread_mutex_unlock(&r->mutex);
  if (!found) return trn_error_set(error, TRN_NOT_FOUND, NULL, "The ticket is unknown: its result has no such part");
  reader *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  s->result = result_ref(r);
  s->at = first;
  s->end = first + count;
  if (trn_stream_create(&ops, s, out) == TRN_OK) return TRN_OK;
  reader_destroy(s);
  return trn__no_memory(error);
}

bool flightsql__result_fetched(flightsql_result *r, size_t index) {
  pthread_mutex_lock(&r->mutex);
  if (index < r->part_count) r->parts[index].is_fetched = true;
  bool all = r->is_over;
  for (size_t i = 0; i < r->part_count && all; i++) all = r->parts[i].is_fetched;
  pthread_mutex_unlock(&r->mutex);
  return all;
}
