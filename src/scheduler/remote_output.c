/* The output of a job on a cluster: partition after partition, each by Flight from where its location says. */
#include <stdio.h>

#include "arrow/ipc_batch.h"
#include "arrow/ipc_read.h"
#include "arrow/ipc_schema.h"
#include "scheduler/remote.h"

typedef enum pull_form { PULL_NONE, PULL_IPC, PULL_ARRAY } pull_form;

typedef struct remote_output {
  atomic_size_t refs; /* the stream's; one of a fetch until its end */
  trn_ballista_client *client;
  trn_job_copy copy;
  struct ArrowSchema schema; /* release NULL: it has a type that is not read as arrays */
  trn_pool *pool;            /* a thread: decompresses, completes */
  pthread_mutex_t mu;
  /* guarded by mu */
  size_t partition;
  trn_ballista_fetch *fetch; /* of that partition */
  bool has_schema, is_cancelled;
  int64_t rows;   /* of this partition so far */
  pull_form form; /* the pull that is outstanding */
  trn_ipc_done ipc_done;
  trn_array_done array_done;
  void *user;
  trn_status failed; /* how fetching ended, for the pull that follows what came before */
  trn_error *failure;
  /* what came for the pull */
  bool has_answer;
  trn_status status;
  trn_error *error;
  trn_ballista_message message;
} remote_output;

static void output_unref(remote_output *o) {
  if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
  trn__pool_destroy(o->pool);
  trn_error_unref(o->failure);
  trn__schema_release(&o->schema);
  trn__job_copy_finish(&o->copy);
  trn__ballista_client_unref(o->client);
  pthread_mutex_destroy(&o->mu);
  free(o);
}

static void release(trn_slice *slice) {
  if (slice->release) slice->release(slice->owner);
  *slice = (trn_slice){0};
}

/* ---- a pull's answer ---- */

/* thread: the output's own */
static void answer(void *argument) {
  remote_output *o = argument;
  trn_ipc_piece piece = {0};
  struct ArrowArray array = {0};
  pthread_mutex_lock(&o->mu);
  trn_ballista_message message = o->message;
  trn_status status = o->status;
  trn_error *error = o->error;
  pull_form form = o->form;
  o->message = (trn_ballista_message){0};
  o->error = NULL;
  o->form = PULL_NONE;
  o->has_answer = false;
  pthread_mutex_unlock(&o->mu);
  bool has_rows = message.header != NULL;
  if (status || !has_rows)
    release(&message.bytes);
  else if (form == PULL_IPC)
    status = trn__ballista_message_piece(message, 0, &o->schema, &piece, &array, &error);
  else
    status = trn__ballista_message_array(message, &o->schema, &array, &error);
  if (form == PULL_IPC)
    o->ipc_done(o->user, status, error, &piece);
  else
    o->array_done(o->user, status, error, &array);
  trn__array_release(&array);
  trn_error_unref(error);
}

/* Takes error and message. locks: none. Out of memory: here, then; it is not a thread that asked. */
static void give(remote_output *o, trn_status status, trn_error *error, const trn_ballista_message *message) {
  pthread_mutex_lock(&o->mu);
  bool is_wanted = o->form != PULL_NONE && !o->has_answer;
  if (is_wanted) {
    o->has_answer = true;
    o->status = status;
    o->error = error;
    o->message = message ? *message : (trn_ballista_message){0};
  }
  pthread_mutex_unlock(&o->mu);
  if (!is_wanted) {
    trn_error_unref(error);
    if (message && message->bytes.release) message->bytes.release(message->bytes.owner);
  } else if (trn__pool_submit(o->pool, answer, o)) {
    answer(o);
  }
}

/* ---- fetching ---- */

static void go_on(remote_output *o);

/* As they arrive: the end of the partition may be told before they are handed on. */
static trn_status count_rows(remote_output *o, const trn_ballista_message *message, trn_error **error) {
  int64_t rows = 0;
  if (trn__ipc_read_rows(message->header, message->header_size, &rows, NULL))
    return trn_error_set(error, TRN_DATA_LOSS, "JOB_OUTPUT_LOST", "The output of job %s has a batch that is none",
                         o->copy.record.id);
  pthread_mutex_lock(&o->mu);
  o->rows += rows;
  pthread_mutex_unlock(&o->mu);
  return TRN_OK;
}

static void on_message(void *user, trn_ballista_message message) {
  remote_output *o = user;
  trn_error *error = NULL;
  pthread_mutex_lock(&o->mu);
  bool is_schema = !o->has_schema;
  o->has_schema = true;
  trn_ballista_fetch *fetch = o->fetch;
  pthread_mutex_unlock(&o->mu);
  if (!is_schema) {
    trn_status status = count_rows(o, &message, &error);
    if (status) release(&message.bytes);
    give(o, status, error, status ? NULL : &message);
    return;
  }
  trn_status status =
      o->schema.release ? trn__ipc_schema_check(message.header, message.header_size, &o->schema, &error) : TRN_OK;
  release(&message.bytes);
  if (status)
    give(o, status, error, NULL);
  else if (fetch)
    trn__ballista_fetch_next(fetch);
}

static void on_done(void *user, trn_status status, const trn_error *error) {
  remote_output *o = user;
  trn_error *failure = error ? trn_error_ref((trn_error *)error) : NULL;
  pthread_mutex_lock(&o->mu);
  const trn_job_location *location = &o->copy.record.locations[o->partition];
  trn_ballista_fetch *fetch = o->fetch;
  bool is_short = !status && location->rows >= 0 && o->rows != location->rows;
  o->fetch = NULL;
  if (!status) o->partition++, o->rows = 0, o->has_schema = false;
  if (o->is_cancelled) status = TRN_CANCELLED;
  pthread_mutex_unlock(&o->mu);
  if (is_short)
    status = trn_error_set(&failure, TRN_DATA_LOSS, "JOB_OUTPUT_LOST",
                           "A part of the output of job %s at %s is not whole", o->copy.record.id, location->uri);
  if (status) {
    pthread_mutex_lock(&o->mu);
    o->failed = status;
    o->failure = failure;
    pthread_mutex_unlock(&o->mu);
  }
  go_on(o);
  trn__ballista_fetch_unref(fetch);
  output_unref(o);
}

static trn_status open_next(remote_output *o, trn_error **error) {
  static const trn_ballista_fetch_handlers handlers = {on_message, on_done};
  trn_ballista_job *job = NULL;
  trn_ballista_fetch *fetch = NULL;
  trn_status status = trn__remote_location(&o->copy.record, o->partition, &job, error);
  if (!status) {
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed); /* on_done's */
    status = trn__ballista_fetch_open(o->client, job, &job->locations[0], &handlers, o, &fetch, error);
    if (status) atomic_fetch_sub_explicit(&o->refs, 1, memory_order_relaxed);
  }
  if (job) trn__ballista_job_unref(job);
  if (status) return status;
  pthread_mutex_lock(&o->mu);
  o->fetch = fetch;
  bool is_cancelled = o->is_cancelled;
  pthread_mutex_unlock(&o->mu);
  if (is_cancelled)
    trn__ballista_fetch_cancel(fetch);
  else
    trn__ballista_fetch_next(fetch);
  return TRN_OK;
}

/* A pull is outstanding: its message is asked for. locks: none */
static void go_on(remote_output *o) {
  trn_error *error = NULL;
  pthread_mutex_lock(&o->mu);
  trn_ballista_fetch *fetch = o->fetch;
  bool is_end = o->partition == o->copy.record.location_count, is_cancelled = o->is_cancelled;
  bool has_pull = o->form != PULL_NONE && !o->has_answer;
  trn_status failed = o->failed;
  if (has_pull && failed && o->failure) error = trn_error_ref(o->failure);
  pthread_mutex_unlock(&o->mu);
  if (!has_pull) return;
  if (failed) {
    give(o, failed, error, NULL);
  } else if (is_cancelled && !fetch) {
    trn_status status = trn_error_set(&error, TRN_CANCELLED, NULL, "reading the output was cancelled");
    give(o, status, error, NULL);
  } else if (fetch) {
    trn__ballista_fetch_next(fetch);
  } else if (is_end) {
    give(o, TRN_OK, NULL, NULL);
  } else {
    trn_status status = open_next(o, &error);
    if (status) give(o, status, error, NULL);
  }
}

/* ---- the stream ---- */

static trn_status begin(remote_output *o, pull_form form, void *user) {
  pthread_mutex_lock(&o->mu);
  o->form = form;
  o->user = user;
  pthread_mutex_unlock(&o->mu);
  go_on(o);
  return TRN_OK;
}

static trn_status next_ipc(void *self, size_t bytes_max, trn_ipc_done done, void *user, trn_error **error) {
  remote_output *o = self;
  (void)bytes_max; /* executors send pieces of 2 MiB, which are small enough for every protocol */
  (void)error;
  o->ipc_done = done;
  return begin(o, PULL_IPC, user);
}

static trn_status next_array(void *self, trn_array_done done, void *user, trn_error **error) {
  remote_output *o = self;
  if (!o->schema.release)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the output has columns that can be had as Arrow IPC only");
  o->array_done = done;
  return begin(o, PULL_ARRAY, user);
}

static trn_status give_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  remote_output *o = self;
  if (!o->schema.release)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the output's schema can be had as Arrow IPC only");
  return trn__schema_copy(&o->schema, out) ? trn__no_memory(error) : TRN_OK;
}

static trn_status give_schema_ipc(void *self, trn_slice *out, trn_error **error) {
  remote_output *o = self;
  (void)error;
  *out = (trn_slice){.data = o->copy.record.schema, .size = o->copy.record.schema_size};
  return TRN_OK;
}

static void cancel(void *self) {
  remote_output *o = self;
  pthread_mutex_lock(&o->mu);
  o->is_cancelled = true;
  trn_ballista_fetch *fetch = o->fetch;
  if (fetch) trn__ballista_fetch_cancel(fetch); /* while it cannot go; completions come later, elsewhere */
  pthread_mutex_unlock(&o->mu);
}

static void destroy(void *self) {
  cancel(self);
  output_unref(self);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = give_schema,
                                          .schema_ipc = give_schema_ipc,
                                          .next_array = next_array,
                                          .next_ipc = next_ipc,
                                          .cancel = cancel,
                                          .destroy = destroy};

/* The flatbuffer inside an encapsulated message. */
static bool schema_inside(const trn_job_record *r, const void **data, uint32_t *size) {
  if (r->schema_size < 8) return false;
  memcpy(size, (const char *)r->schema + 4, sizeof *size);
  *data = (const char *)r->schema + 8;
  return *size <= r->schema_size - 8;
}

trn_status trn__remote_output_open(trn_ballista_client *client, const trn_job_record *record, trn_stream **out,
                                   trn_error **error) {
  const void *data;
  uint32_t size;
  *out = NULL;
  if (!schema_inside(record, &data, &size))
    return trn_error_set(error, TRN_DATA_LOSS, "JOB_OUTPUT_LOST", "The schema of the output of job %s is not recorded",
                         record->id);
  remote_output *o = calloc(1, sizeof *o);
  if (!o) return trn__no_memory(error);
  atomic_init(&o->refs, 1);
  pthread_mutex_init(&o->mu, NULL);
  o->client = trn__ballista_client_ref(client);
  trn_status status = trn__job_copy_init(&o->copy, record);
  if (!status) status = trn__pool_create(1, &o->pool);
  if (!status) (void)trn__ipc_import_schema(data, size, &o->schema, NULL); /* not every type: then as IPC only */
  if (!status) status = trn_stream_create(&stream_ops, o, out);
  if (status) output_unref(o);
  return status ? trn__no_memory(error) : TRN_OK;
}
