/* What fills a response log: pulls of a result stream, one at a time, paused while the log is full. The completions
 * come on the backend's threads; they append, pump, and pull again. */
#include "frontend/spark/service.h"
#include <trunnion/catalog.h>

enum { PRODUCER_BATCH_BYTES = 4 << 20 /* keeps messages far below what any client takes */ };

/* ---- life ---- */

trn_status spark__execution_create(spark_session *session, const char *id, spark_execution **out, trn_error **error) {
  spark_execution *execution = calloc(1, sizeof *execution);
  if (!execution) return trn__no_memory(error);
  atomic_init(&execution->refs, 1);
  pthread_mutex_init(&execution->mutex, NULL);
  execution->session = spark__session_ref(session);
  if (trn_cancel_create(&execution->cancel)) {
    spark__execution_unref(execution);
    return trn__no_memory(error);
  }
  if (id) {
    memcpy(execution->id, id, TRN_UUID_SIZE);
  } else {
    trn__uuid4(execution->id);
  }
  execution->next_index = 1;
  execution->detached_ns = trn__now_ns();
  *out = execution;
  return TRN_OK;
}

spark_execution *spark__execution_ref(spark_execution *execution) {
  atomic_fetch_add_explicit(&execution->refs, 1, memory_order_relaxed);
  return execution;
}

static void collect_destroy(struct spark_collect *collect);

static void execution_destroy(void *argument) {
  spark_execution *execution = argument;
  spark__execution_drop_log(execution);
  collect_destroy(execution->collect);
  trn_stream_unref(execution->stream);
  trn_operation_unref(execution->operation);
  trn_table_write_abort(execution->write);
  trn_plan_unref(execution->plan);
  trn_cancel_unref(execution->cancel);
  spark__bytes_unref(execution->schema_ipc);
  spark__failure_unref(execution->failure);
  for (size_t i = 0; i < execution->tag_count; i++) free(execution->tags[i]);
  free(execution->tags);
  pthread_mutex_destroy(&execution->mutex);
  spark__session_unref(execution->session);
  free(execution);
}

void spark__execution_unref(spark_execution *execution) {
  if (!execution || atomic_fetch_sub_explicit(&execution->refs, 1, memory_order_acq_rel) != 1) return;
  /* A stream may be in the middle of a completion here, and plans want a big stack: a worker ends it, while there are
   * workers. Shutdown waits for who has entered, so the pool lives until this is submitted. */
  spark_service *service = spark__service_ref(execution->session->service);
  bool entered = trn__gate_enter(&service->gate);
  if (!entered || trn__pool_submit(service->pool, execution_destroy, execution)) execution_destroy(execution);
  if (entered) trn__gate_leave(&service->gate);
  spark__service_unref(service);
}

/* thread: worker. Takes a reference. */
static void settle(void *argument) {
  spark_execution *execution = argument;
  pthread_mutex_lock(&execution->mutex);
  trn_stream *stream = execution->stream;
  trn_operation *operation = execution->operation;
  trn_plan *plan = execution->plan;
  execution->stream = NULL;
  execution->operation = NULL;
  execution->plan = NULL;
  pthread_mutex_unlock(&execution->mutex);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
  spark__execution_unref(execution);
}

void spark__execution_settle(spark_execution *execution) {
  spark_service *service = execution->session->service;
  if (!trn__gate_enter(&service->gate)) return;
  /* Otherwise the destruction of the execution does it. */
  if (trn__pool_submit(service->pool, settle, spark__execution_ref(execution))) spark__execution_unref(execution);
  trn__gate_leave(&service->gate);
}

/* ---- the end ---- */

static void fail_with(spark_execution *execution, trn_status status, const trn_error *error) {
  pthread_mutex_lock(&execution->mutex);
  bool cancelled = execution->cancel_requested;
  pthread_mutex_unlock(&execution->mutex);
  trn_error *own = NULL;
  if (cancelled || (status == TRN_CANCELLED && !trn_error_condition(error))) {
    spark__raise(&own, TRN_CANCELLED, "OPERATION_CANCELED", NULL, NULL, NULL, NULL, NULL, NULL);
    error = own;
  }
  /* Only the producer comes here with an error of its own: then the plan is still there. */
  const char *sql = !own && execution->plan ? execution->plan->sql : NULL;
  spark_failure *failure = spark__failure_create(status, error, SPARK_PHASE_EXECUTION, sql, true);
  spark__execution_finish(execution, own ? SPARK_RUN_CANCELLED : SPARK_RUN_FAILED, failure);
  trn_error_unref(own);
}

/* ---- the end of a write: files are moved or removed, which blocks, so a worker does it ---- */

typedef struct ending {
  spark_execution *execution; /* one reference */
  trn_table_write *write;
  trn_status status; /* of the run */
  trn_error *error;
} ending;

static trn_table_write *take_write(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  trn_table_write *write = execution->write;
  execution->write = NULL;
  pthread_mutex_unlock(&execution->mutex);
  return write;
}

/* Whatever still writes is told to stop. */
static void stop_writers(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  trn_stream *stream = execution->stream;
  trn_operation *operation = execution->operation;
  execution->stream = NULL;
  execution->operation = NULL;
  pthread_mutex_unlock(&execution->mutex);
  if (stream) trn_stream_cancel(stream);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

static void end_write(ending *end) {
  spark_execution *execution = end->execution;
  if (end->status) {
    stop_writers(execution);
    trn_table_write_abort(end->write);
  } else {
    end->status = trn_table_write_commit(end->write, -1, &end->error);
  }
  if (end->status) {
    fail_with(execution, end->status, end->error);
  } else {
    spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  }
  trn_error_unref(end->error);
}

/* thread: worker */
static void end_write_later(void *argument) {
  ending *end = argument;
  spark_service *service = spark__service_ref(end->execution->session->service);
  end_write(end);
  spark__execution_unref(end->execution);
  free(end);
  trn__gate_leave(&service->gate);
  spark__service_unref(service);
}

/* Takes `write`. The completion of a pull calls it: it has entered the service, so that shutdown waits. */
static void finish_write(spark_execution *execution, trn_table_write *write, trn_status status, const trn_error *error) {
  spark_service *service = execution->session->service;
  ending *later = malloc(sizeof *later);
  ending end = {execution, write, status, error ? trn_error_ref((trn_error *)error) : NULL};
  bool entered = later && trn__gate_enter(&service->gate);
  if (entered) {
    *later = end;
    spark__execution_ref(execution);
    if (trn__pool_submit(service->pool, end_write_later, later) == TRN_OK) return;
    spark__execution_unref(execution);
    trn__gate_leave(&service->gate);
  }
  free(later);
  end_write(&end); /* the server stops, or memory is out: here and now */
}

static void finish_with(spark_execution *execution, trn_status status, const trn_error *error) {
  trn_table_write *write = take_write(execution);
  if (write) {
    finish_write(execution, write, status, error);
  } else {
    fail_with(execution, status, error);
  }
}

static trn_status append_schema(spark_execution *execution, const trn_field *fields, size_t count) {
  trn_arena *arena = trn__arena_create(0);
  Spark__Connect__ExecutePlanResponse message = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  if (arena) message.schema = spark__schema_to_proto(arena, fields, count);
  trn_status status = message.schema ? spark__execution_append(execution, &message) : TRN_RESOURCE_EXHAUSTED;
  trn__arena_unref(arena);
  return status;
}

/* A result without rows still has one batch: the client insists on a table. */
static trn_status append_empty(spark_execution *execution, trn_error **error) {
  struct ArrowSchema schema = {0};
  trn_status status = trn_stream_schema(execution->stream, &schema, error);
  if (status) return status;
  spark_bytes *body = spark__empty_batch_ipc(&schema);
  spark_batch *batch = body ? spark__batch_from_bytes(execution->schema_ipc, body) : NULL;
  status = batch ? spark__execution_append_batch(execution, batch, 0) : trn__no_memory(error);
  spark__batch_unref(batch);
  spark__bytes_unref(body);
  if (schema.release) schema.release(&schema);
  return status;
}

static void finish_stream(spark_execution *execution) {
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  if (execution->batch_count == 0) status = append_empty(execution, &error);
  if (status) {
    finish_with(execution, status, error);
  } else {
    spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  }
  trn_error_unref(error);
}

/* ---- pulling ---- */

static void collect_batch(spark_execution *execution, const struct ArrowArray *array, trn_status *status,
                          trn_error **error);
static trn_status collect_finish(spark_execution *execution, trn_error **error);

/* The completion of a pull has come. True: go on with what it brought. `is_pulling` stays set while that is worked on:
 * no other thread pulls meanwhile. */
static bool pull_is_good(spark_execution *execution, trn_status status, const trn_error *error) {
  pthread_mutex_lock(&execution->mutex);
  bool cancelled = execution->cancel_requested;
  pthread_mutex_unlock(&execution->mutex);
  if (cancelled && !status) status = TRN_CANCELLED;
  if (status) finish_with(execution, status, error);
  return status == TRN_OK;
}

/* What a pull brought has been dealt with: the next one. An interrupt that came meanwhile has left the end to us. */
static void pull_again(spark_execution *execution) {
  pthread_mutex_lock(&execution->mutex);
  execution->is_pulling = false;
  bool cancelled = execution->cancel_requested;
  pthread_mutex_unlock(&execution->mutex);
  if (cancelled) {
    finish_with(execution, TRN_CANCELLED, NULL);
  } else {
    spark__execution_resume(execution);
  }
}

/* The last thing a completion does. */
static void pull_leave(spark_execution *execution) {
  spark_service *service = spark__service_ref(execution->session->service);
  spark__execution_unref(execution);
  trn__gate_leave(&service->gate);
  spark__service_unref(service);
}

static void ipc_done(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  spark_execution *execution = user;
  if (!pull_is_good(execution, status, error)) {
    if (!status && piece && piece->release) piece->release(piece->owner);
  } else if (!piece->release) {
    finish_stream(execution);
  } else {
    int64_t rows = piece->rows;
    spark_batch *batch = spark__batch_from_piece(execution->schema_ipc, piece);
    trn_error *own = NULL;
    status = batch ? spark__execution_append_batch(execution, batch, rows) : trn__no_memory(&own);
    if (status == TRN_OUT_OF_RANGE)
      status = trn_error_set(&own, TRN_RESOURCE_EXHAUSTED, NULL, "A row of the result is too large for one message");
    spark__batch_unref(batch);
    if (status) {
      finish_with(execution, status, own);
    } else {
      spark__execution_pump(execution);
      pull_again(execution);
    }
    trn_error_unref(own);
  }
  pull_leave(execution);
}

static void array_done(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  spark_execution *execution = user;
  if (!pull_is_good(execution, status, error)) {
    if (!status && array && array->release) array->release(array);
  } else {
    trn_error *own = NULL;
    bool more = array->release != NULL;
    if (more) {
      if (!execution->drops_rows) collect_batch(execution, array, &status, &own);
      array->release(array);
    } else if (execution->drops_rows) {
      trn_table_write *write = take_write(execution);
      if (write) finish_write(execution, write, TRN_OK, NULL);
    } else {
      status = collect_finish(execution, &own);
    }
    if (status) {
      finish_with(execution, status, own);
    } else if (more) {
      pull_again(execution);
    }
    trn_error_unref(own);
  }
  pull_leave(execution);
}

void spark__execution_resume(spark_execution *execution) {
  spark_service *service = execution->session->service;
  pthread_mutex_lock(&execution->mutex);
  bool pull = execution->state == SPARK_RUN_STREAMING && !execution->is_pulling && !execution->cancel_requested;
  if (pull && execution->log_bytes >= service->response_log_bytes) pull = false;
  if (pull) execution->is_pulling = true;
  pthread_mutex_unlock(&execution->mutex);
  if (!pull) return;
  trn_error *error = NULL;
  trn_status status = TRN_CANCELLED;
  bool entered = trn__gate_enter(&service->gate);
  if (entered) {
    spark__execution_ref(execution);
    status = execution->collect || execution->drops_rows
                 ? trn_stream_next_array(execution->stream, array_done, execution, &error)
                 : trn_stream_next_ipc(execution->stream, PRODUCER_BATCH_BYTES, ipc_done, execution, &error);
  }
  if (status) {
    finish_with(execution, status, error);
    if (entered) pull_leave(execution);
  }
  trn_error_unref(error);
}

bool spark__execution_interrupt(spark_execution *execution) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  pthread_mutex_lock(&execution->mutex);
  bool running = execution->state < SPARK_RUN_SUCCEEDED;
  bool idle = running && execution->state == SPARK_RUN_STREAMING && !execution->is_pulling;
  if (running) {
    execution->cancel_requested = true;
    if (execution->operation) operation = trn_operation_ref(execution->operation);
    if (execution->stream) stream = trn_stream_ref(execution->stream);
  }
  pthread_mutex_unlock(&execution->mutex);
  if (running) trn_cancel_request(execution->cancel);
  if (stream) trn_stream_cancel(stream);
  if (operation) trn_operation_cancel(operation);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  /* Nobody else will: no completion is to come, and resume does not pull any more. */
  if (idle) finish_with(execution, TRN_CANCELLED, NULL);
  return running;
}

/* ---- starting ---- */

static trn_status copy_schema_ipc(spark_execution *execution, trn_stream *stream, trn_error **error) {
  trn_slice slice = {0};
  trn_status status = trn_stream_schema_ipc(stream, &slice, error);
  if (status) return status;
  execution->schema_ipc = spark__bytes_create(slice.data, slice.size);
  if (slice.release) slice.release(slice.owner);
  return execution->schema_ipc ? TRN_OK : trn__no_memory(error);
}

static trn_status collect_schema(spark_execution *execution, trn_stream *stream, trn_error **error);

/* Starts execution->plan and the first pull. */
static trn_status start(spark_execution *execution, trn_error **error) {
  trn_session *session = execution->session->session;
  const trn_execute_request request = {.struct_size = sizeof request,
                                       .operation_id = execution->id,
                                       .plan = execution->plan,
                                       .tags = (const char *const *)execution->tags,
                                       .tag_count = execution->tag_count,
                                       .protocol = "spark",
                                       .traceparent = execution->traceparent[0] ? execution->traceparent : NULL,
                                       .cancel = execution->cancel};
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_status status = TRN_OK;
  pthread_mutex_lock(&execution->mutex);
  bool cancelled = execution->cancel_requested;
  pthread_mutex_unlock(&execution->mutex);
  if (cancelled) status = TRN_CANCELLED;
  if (!status) status = trn_backend_execute(session, &request, &operation, error);
  if (!status) status = trn_operation_result_stream(operation, &stream, error);
  if (!status)
    status = execution->collect ? collect_schema(execution, stream, error) : copy_schema_ipc(execution, stream, error);
  pthread_mutex_lock(&execution->mutex);
  execution->operation = operation; /* also on failure: freed with the execution */
  execution->stream = stream;
  cancelled = execution->cancel_requested;
  if (!status && !cancelled) execution->state = SPARK_RUN_STREAMING;
  pthread_mutex_unlock(&execution->mutex);
  if (!status && cancelled) {
    trn_operation_cancel(operation);
    status = TRN_CANCELLED;
  }
  if (status == TRN_CANCELLED && cancelled && error) {
    trn_error_unref(*error); /* whatever the backend said of it */
    *error = NULL;
  }
  if (status == TRN_CANCELLED && cancelled)
    return spark__raise(error, TRN_CANCELLED, "OPERATION_CANCELED", NULL, NULL, NULL, NULL, NULL, NULL);
  if (!status) spark__execution_resume(execution);
  return status;
}

trn_status spark__execution_run(spark_execution *execution, trn_plan *plan, trn_error **error) {
  execution->plan = plan;
  trn_status status = append_schema(execution, plan->fields, plan->field_count);
  return status ? trn__no_memory(error) : start(execution, error);
}

/* The write of a script's statement: the next one waits for it. */
static trn_status write_here(spark_execution *execution, trn_plan *plan, trn_table_write *write, trn_error **error) {
  trn_strbuf rows = {0};
  bool fits = false;
  trn_status status = spark__collect_ipc(execution->session->session, plan, execution->cancel, TRN_SCRIPT_BYTES_MAX,
                                         &rows, &fits, error);
  if (!status && !fits) status = trn_error_set(error, TRN_INTERNAL, NULL, "A write gave too many rows");
  if (!status && trn_cancel_is_requested(execution->cancel))
    status = trn_error_set(error, TRN_CANCELLED, NULL, "The request was cancelled");
  trn__strbuf_finish(&rows);
  trn_plan_unref(plan);
  if (!status) return trn_table_write_commit(write, -1, error);
  trn_table_write_abort(write);
  return status;
}

trn_status spark__execution_run_write(spark_execution *execution, trn_plan *plan, trn_table_write *write,
                                      trn_error **error) {
  if (execution->script) return write_here(execution, plan, write, error);
  execution->plan = plan;
  execution->drops_rows = true;
  pthread_mutex_lock(&execution->mutex);
  execution->write = write;
  pthread_mutex_unlock(&execution->mutex);
  trn_status status = start(execution, error);
  if (!status) return TRN_OK;
  write = take_write(execution); /* nobody else ends it: it has not begun */
  if (write) stop_writers(execution);
  trn_table_write_abort(write);
  return status;
}

trn_status spark__execution_answer(spark_execution *execution, const spark_table *table, trn_error **error) {
  trn_status status = append_schema(execution, table->fields, table->column_count);
  spark_bytes *schema = spark__table_schema_ipc(table), *body = spark__table_batch_ipc(table);
  spark_batch *batch = schema && body ? spark__batch_from_bytes(schema, body) : NULL;
  if (!batch || status) {
    status = trn__no_memory(error);
  } else {
    status = spark__execution_append_batch(execution, batch, (int64_t)table->row_count);
    if (status == TRN_OUT_OF_RANGE)
      status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The result is too large for one message");
  }
  spark__batch_unref(batch);
  spark__bytes_unref(schema);
  spark__bytes_unref(body);
  if (!status) spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  return status;
}

/* ---- show: the rows are collected, then become one text ---- */

struct spark_collect {
  spark_show show;
  struct ArrowSchema schema;
  trn_vec cells; /* char *, row by row */
  size_t bytes;
  size_t row_count, row_max;
};

static void collect_destroy(struct spark_collect *collect) {
  if (!collect) return;
  for (size_t i = 0; i < collect->cells.count; i++) free(collect->cells.items[i]);
  trn__vec_finish(&collect->cells);
  if (collect->schema.release) collect->schema.release(&collect->schema);
  free(collect);
}

static trn_status collect_schema(spark_execution *execution, trn_stream *stream, trn_error **error) {
  struct ArrowSchema *schema = &execution->collect->schema;
  trn_status status = trn_stream_schema(stream, schema, error);
  size_t columns = execution->plan->root->column_count;
  if (!status && (size_t)schema->n_children != columns)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "The result has %lld columns, not %zu",
                           (long long)schema->n_children, columns);
  return status;
}

static trn_status collect_cell(spark_execution *execution, const struct ArrowArray *array, size_t column, int64_t row,
                               trn_error **error) {
  struct spark_collect *collect = execution->collect;
  trn_strbuf text = {0};
  trn_status status =
      spark__show_cell(&text, collect->schema.children[column], array->children[column], row + array->offset);
  if (!status && !text.data) trn__strbuf_puts(&text, "");
  if (status || text.failed || !text.data || !trn__vec_push(&collect->cells, text.data)) {
    trn__strbuf_finish(&text);
    return status ? trn_error_set(error, status, NULL, "A column of the result cannot be shown")
                  : trn__no_memory(error);
  }
  collect->bytes += text.size + 64; /* and what the heap takes */
  if (collect->bytes > TRN_SHOW_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The rows to show are larger than %u bytes: show fewer rows", TRN_SHOW_BYTES_MAX);
  return TRN_OK;
}

static void collect_batch(spark_execution *execution, const struct ArrowArray *array, trn_status *status,
                          trn_error **error) {
  struct spark_collect *collect = execution->collect;
  size_t columns = execution->plan->root->column_count;
  for (int64_t row = 0; row < array->length && collect->row_count < collect->row_max && !*status; row++) {
    for (size_t column = 0; column < columns && !*status; column++)
      *status = collect_cell(execution, array, column, row, error);
    if (!*status) collect->row_count++;
  }
}

static trn_status collect_finish(spark_execution *execution, trn_error **error) {
  struct spark_collect *collect = execution->collect;
  const trn_plan *plan = execution->plan;
  static const trn_field field_show = {"show_string", NULL, false, NULL};
  static const trn_field field_html = {"html_string", NULL, false, NULL};
  trn_arena *arena = trn__arena_create(0);
  const char **names = arena ? TRN_NEW_N(arena, const char *, plan->field_count) : NULL;
  trn_field *field = names ? TRN_NEW(arena, trn_field) : NULL;
  char *text = NULL;
  size_t size = 0;
  if (field) {
    for (size_t i = 0; i < plan->field_count; i++) names[i] = plan->fields[i].name;
    size_t rows = collect->row_count;
    bool has_more = rows == collect->row_max;
    if (has_more) rows--;
    text = spark__show_format(&collect->show, names, plan->field_count, (const char *const *)collect->cells.items, rows,
                              has_more, &size);
    *field = collect->show.html ? field_html : field_show;
    field->type = trn__type(TRN_TYPE_STRING);
  }
  trn_status status = TRN_OK;
  if (!text) {
    status = trn__no_memory(error);
  } else {
    spark_table table = {.arena = arena, .fields = field, .column_count = 1};
    spark_cell *cell = spark__table_add(&table);
    if (cell) *cell = (spark_cell){.text = text, .text_size = size};
    status = cell ? spark__execution_answer(execution, &table, error) : trn__no_memory(error);
  }
  free(text);
  trn__arena_unref(arena);
  return status;
}

trn_status spark__execution_run_show(spark_execution *execution, trn_plan *plan, const spark_show *show,
                                     trn_error **error) {
  trn_status status = spark__show_plan(execution->session, plan, show, &execution->plan, error);
  if (status) return status;
  execution->collect = calloc(1, sizeof *execution->collect);
  if (!execution->collect) return trn__no_memory(error);
  execution->collect->show = *show;
  execution->collect->row_max = show->rows > 0 ? (size_t)show->rows + 1 : 1;
  return start(execution, error);
}
