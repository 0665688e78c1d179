/* Jobs on a backend of this process: executed as any query, the result's batches written to files as they come. A
 * thread is used while something is planned or written, none while the backend computes. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "scheduler/scheduler.h"

typedef struct on_backend {
  char *directory;
} on_backend;

/* Its end is reported by whoever holds the pull: one at a time, so nothing here needs a lock but the flag. */
typedef struct backend_run {
  atomic_size_t refs; /* the job's; the chain of pulls' */
  trn_job *job;
  trn_job_attempt attempt;
  trn_operation *operation;
  trn_stream *stream;
  trn_spool_file *file;
  int64_t rows, bytes;
  /* of the pull that came back */
  trn_status status;
  trn_error *error;
  trn_ipc_piece piece;
} backend_run;

static void run_unref(backend_run *r) {
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  trn_stream_unref(r->stream);
  trn_operation_unref(r->operation);
  trn__spool_destroy(r->file);
  trn_job_unref(r->job);
  free(r);
}

/* ---- the end ---- */

static trn_status end_file(backend_run *r, trn_job_location *location, trn_strbuf *uri, trn_error **error) {
  char *path = NULL;
  trn_status status = trn__spool_end(r->file, &path, &location->bytes, error);
  if (status) return status;
  trn__strbuf_printf(uri, "file://%s", path);
  free(path);
  location->uri = uri->data;
  location->rows = r->rows;
  return uri->failed ? trn__no_memory(error) : TRN_OK;
}

/* The file first: whoever hears of the end may remove the directory. */
static void end_failed(backend_run *r, trn_status status, const trn_error *error) {
  trn__spool_destroy(r->file);
  r->file = NULL;
  trn__job_failed(r->job, status, error);
}

static void succeed(backend_run *r) {
  trn_job_location location = {.struct_size = sizeof location};
  trn_strbuf uri = {0};
  trn_error *error = NULL;
  char *metrics = NULL;
  trn_slice schema = {0};
  trn_status status = end_file(r, &location, &uri, &error);
  if (status) {
    end_failed(r, status, error);
  } else {
    (void)trn_operation_metrics(r->operation, &metrics);
    (void)trn_stream_schema_ipc(r->stream, &schema, NULL);
    trn_job_record record = {.struct_size = sizeof record,
                             .id = r->attempt.id,
                             .state = TRN_JOB_SUCCEEDED,
                             .rows = r->rows,
                             .bytes = location.bytes,
                             .metrics = metrics,
                             .locations = &location,
                             .location_count = 1,
                             .schema = schema.data,
                             .schema_size = schema.size};
    trn__job_ended(r->job, &record);
  }
  trn_free(metrics);
  trn_error_unref(error);
  trn__strbuf_finish(&uri);
}

/* ---- pulls ---- */

static void pull(backend_run *r);

static void on_piece_written(backend_run *r) {
  r->rows += r->piece.rows;
  r->bytes += (int64_t)r->piece.size;
  trn_job_counts counts = {.stages = 1, .rows = r->rows, .bytes = r->bytes};
  trn__job_progress(r->job, &counts);
}

/* thread: worker */
static void write_piece(void *argument) {
  backend_run *r = argument;
  trn_error *error = NULL;
  bool is_end = !r->status && !r->piece.release;
  trn_status status = r->status;
  if (!status && !is_end) {
    status = trn__spool_write(r->file, r->piece.slices, r->piece.slice_count, &error);
    if (!status) on_piece_written(r);
  }
  if (r->piece.release) r->piece.release(r->piece.owner);
  r->piece = (trn_ipc_piece){0};
  if (status)
    end_failed(r, status, error ? error : r->error);
  else if (is_end)
    succeed(r);
  else
    pull(r);
  trn_error_unref(error);
  if (status || is_end) {
    trn_error_unref(r->error);
    run_unref(r);
  }
}

/* thread: any; must not block: a worker writes */
static void on_piece(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  backend_run *r = user;
  r->status = status;
  r->error = error ? trn_error_ref((trn_error *)error) : NULL;
  r->piece = piece ? *piece : (trn_ipc_piece){0};
  if (trn__pool_submit(r->attempt.pool, write_piece, r)) write_piece(r); /* no memory: late is better than never */
}

static void pull(backend_run *r) {
  trn_error *error = NULL;
  trn_status status = trn_stream_next_ipc(r->stream, TRN_JOB_PIECE_BYTES, on_piece, r, &error);
  if (!status) return;
  end_failed(r, status, error);
  trn_error_unref(error);
  run_unref(r);
}

/* ---- the runner ---- */

static trn_status execute(backend_run *r, trn_error **error) {
  trn_plan *plan = NULL;
  trn_status status = trn__job_plan(r->job, &plan, error);
  if (status) return status;
  trn_execute_request request = {.struct_size = sizeof request,
                                 .operation_id = r->attempt.id,
                                 .plan = plan,
                                 .tags = r->attempt.tags,
                                 .tag_count = r->attempt.tag_count,
                                 .protocol = "job",
                                 .cancel = r->attempt.cancel};
  status = trn_backend_execute(r->attempt.session, &request, &r->operation, error);
  trn_plan_unref(plan);
  if (!status) status = trn_operation_result_stream(r->operation, &r->stream, error);
  return status;
}

static trn_status begin_file(on_backend *b, backend_run *r, trn_error **error) {
  trn_slice schema;
  trn_status status = trn_stream_schema_ipc(r->stream, &schema, error);
  if (!status) status = trn__spool_create(b->directory, r->attempt.id, r->attempt.attempt, &r->file, error);
  return status ? status : trn__spool_write(r->file, &schema, 1, error);
}

static trn_status start(void *self, trn_job *job, void **run, trn_error **error) {
  on_backend *b = self;
  backend_run *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  atomic_init(&r->refs, 1);
  r->job = trn_job_ref(job);
  trn__job_attempt(job, &r->attempt);
  trn__spool_remove(b->directory, r->attempt.id, r->attempt.attempt, TRN_SPOOL_OTHERS);
  trn_status status = execute(r, error);
  if (!status) status = begin_file(b, r, error);
  if (status) {
    run_unref(r);
    return status;
  }
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  *run = r;
  pull(r);
  return TRN_OK;
}

static void cancel(void *run) {
  backend_run *r = run;
  trn_operation_cancel(r->operation);
  trn_stream_cancel(r->stream);
}

static void close_run(void *run) {
  run_unref(run);
}

static trn_status metrics(void *run, char **out) {
  return trn_operation_metrics(((backend_run *)run)->operation, out);
}

static trn_status output(void *self, const trn_job_record *record, trn_stream **out, trn_error **error) {
  (void)self;
  if (record->location_count != 1)
    return trn_error_set(error, TRN_DATA_LOSS, "JOB_OUTPUT_LOST", "Job %s has %zu output files, not 1", record->id,
                         record->location_count);
  return trn__spool_open(record->locations[0].uri, record->locations[0].rows, record->locations[0].bytes, out, error);
}

static void remove_output(void *self, const trn_job_record *record, bool all) {
  trn__spool_remove(((on_backend *)self)->directory, record->id, record->attempt, all ? TRN_SPOOL_ALL : TRN_SPOOL_THIS);
}

static void destroy(void *self) {
  on_backend *b = self;
  free(b->directory);
  free(b);
}

static const trn_runner_ops runner = {.start = start,
                                      .cancel = cancel,
                                      .abandon = cancel,
                                      .close = close_run,
                                      .metrics = metrics,
                                      .output = output,
                                      .remove = remove_output,
                                      .destroy = destroy};

trn_status trn_scheduler_create(const trn_scheduler_options *options, trn_backend *backend, trn_scheduler **out,
                                trn_error **error) {
  *out = NULL;
  const char *directory = options->output_directory;
  if (!directory || !*directory)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a scheduler of this process needs an output directory");
  if (mkdir(directory, 0700) && errno != EEXIST)
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "The output directory %s cannot be made: %s", directory,
                         strerrordesc_np(errno));
  on_backend *b = calloc(1, sizeof *b);
  if (!b) return trn__no_memory(error);
  b->directory = realpath(directory, NULL);
  if (!b->directory) {
    free(b);
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "The output directory %s: %s", directory, strerrordesc_np(errno));
  }
  return trn__scheduler_create(options, backend, &runner, b, out, error);
}
