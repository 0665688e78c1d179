/* A query: an operation and its stream, and the thread that steps through SQLite's rows. The thread works only while
 * somebody waits for rows: streams are pulled. */
#include "embed.h"

typedef struct query {
  atomic_uint refs; /* the operation, the stream, the thread */
  embed *embed;
  char *sql;
  struct ArrowSchema schema;
  pthread_mutex_t mu;
  pthread_cond_t changed;
  /* guarded by mu */
  sqlite3 *db; /* while it may be interrupted */
  trn_array_done done; /* of the pull that waits; NULL: none */
  void *user;
  trn_operation_state state;
  bool has_stream, is_over; /* over: nobody will pull any more */
} query;

static void query_unref(query *q) {
  if (atomic_fetch_sub(&q->refs, 1) != 1) return;
  if (q->schema.release) q->schema.release(&q->schema);
  trn_free(q->sql);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->mu);
  free(q);
}

static void query_settle(query *q, trn_operation_state state) {
  pthread_mutex_lock(&q->mu);
  if (q->state == TRN_OPERATION_RUNNING) q->state = state;
  pthread_mutex_unlock(&q->mu);
}

static void query_cancel(query *q) {
  pthread_mutex_lock(&q->mu);
  if (q->state == TRN_OPERATION_RUNNING) q->state = TRN_OPERATION_CANCELLED;
  if (q->db) sqlite3_interrupt(q->db);
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
}

/* ---- the thread ---- */

/* Waits for a pull; false: the end. */
static bool wait_for_pull(query *q) {
  pthread_mutex_lock(&q->mu);
  while (!q->done && !q->is_over) pthread_cond_wait(&q->changed, &q->mu);
  bool is_pull = q->done != NULL;
  pthread_mutex_unlock(&q->mu);
  return is_pull;
}

static bool is_cancelled(query *q) {
  pthread_mutex_lock(&q->mu);
  bool cancelled = q->state == TRN_OPERATION_CANCELLED;
  pthread_mutex_unlock(&q->mu);
  return cancelled;
}

/* The next batch; an empty `out` at the end. A statement that is done would begin anew: `*is_done` says so. */
static trn_status step(query *q, sqlite3 *db, sqlite3_stmt *statement, embed_rows *rows, bool *is_done,
                       struct ArrowArray *out, trn_error **error) {
  trn_status status = TRN_OK;
  int count = 0, code = SQLITE_ROW;
  while (!status && count < EMBED_ROWS) {
    if (is_cancelled(q)) return trn_error_set(error, TRN_CANCELLED, NULL, "the query was cancelled");
    if ((code = sqlite3_step(statement)) != SQLITE_ROW) break;
    status = embed_rows_add(rows, statement, error);
    count++;
  }
  *is_done = code == SQLITE_DONE;
  if (!status && code != SQLITE_ROW && code != SQLITE_DONE) status = embed_failed(db, code, error);
  return !status && count ? embed_rows_finish(rows, out, error) : status;
}

static void answer(query *q, trn_status status, trn_error *error, struct ArrowArray *array) {
  pthread_mutex_lock(&q->mu);
  trn_array_done done = q->done;
  void *user = q->user;
  q->done = NULL;
  pthread_mutex_unlock(&q->mu);
  done(user, status, error, array);
  if (array->release) array->release(array); /* nobody took it */
  trn_error_unref(error);
}

/* Batch by batch, until the end, a failure, or the last reader's leave. `status`: how the opening went. */
static void pump(query *q, sqlite3 *db, sqlite3_stmt *statement, embed_rows *rows, trn_status status, trn_error *error) {
  bool is_done = false;
  while (wait_for_pull(q)) {
    struct ArrowArray array = {0};
    if (!status && !is_done) status = step(q, db, statement, rows, &is_done, &array, &error);
    if (status || !array.release)
      query_settle(q, status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED
                      : status                ? TRN_OPERATION_FAILED
                                              : TRN_OPERATION_FINISHED);
    trn_error *told = error;
    error = NULL;
    answer(q, status, told, &array);
  }
  trn_error_unref(error);
}

static trn_status start(query *q, sqlite3 **db, sqlite3_stmt **statement, embed_rows **rows, trn_error **error) {
  trn_status status = embed_open(q->embed->path, db, error);
  if (status) return status;
  pthread_mutex_lock(&q->mu);
  q->db = *db;
  pthread_mutex_unlock(&q->mu);
  int code = sqlite3_prepare_v2(*db, q->sql, -1, statement, NULL);
  return code ? embed_failed(*db, code, error) : embed_rows_create(&q->schema, rows, error);
}

static void *query_thread(void *argument) {
  query *q = argument;
  embed *e = q->embed;
  sqlite3 *db = NULL;
  sqlite3_stmt *statement = NULL;
  embed_rows *rows = NULL;
  trn_error *error = NULL;
  trn_status status = start(q, &db, &statement, &rows, &error);
  pump(q, db, statement, rows, status, error);
  pthread_mutex_lock(&q->mu);
  q->db = NULL;
  pthread_mutex_unlock(&q->mu);
  embed_rows_destroy(rows);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  query_unref(q);
  pthread_mutex_lock(&e->mu);
  e->running--;
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mu);
  return NULL;
}

/* ---- the stream ---- */

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  trn_status status = embed_schema_copy(&((query *)self)->schema, out);
  return status ? trn_error_set(error, status, NULL, "out of memory") : TRN_OK;
}

static trn_status stream_next(void *self, trn_array_done done, void *user, trn_error **error) {
  query *q = self;
  (void)error;
  pthread_mutex_lock(&q->mu);
  q->done = done;
  q->user = user;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
  return TRN_OK;
}

static void stream_cancel(void *self) {
  query_cancel(self);
}

static void query_leave(query *q) {
  pthread_mutex_lock(&q->mu);
  q->is_over = true;
  pthread_cond_signal(&q->changed);
  pthread_mutex_unlock(&q->mu);
}

static void stream_destroy(void *self) {
  query_leave(self);
  query_unref(self);
}

/* ---- the operation ---- */

static trn_operation_state operation_state(void *self) {
  query *q = self;
  pthread_mutex_lock(&q->mu);
  trn_operation_state state = q->state;
  pthread_mutex_unlock(&q->mu);
  return state;
}

static void operation_cancel(void *self) {
  query_cancel(self);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  static const trn_stream_ops ops = {.struct_size = sizeof ops,
                                     .schema = stream_schema,
                                     .next_array = stream_next,
                                     .cancel = stream_cancel,
                                     .destroy = stream_destroy};
  query *q = self;
  pthread_mutex_lock(&q->mu);
  bool is_second = q->has_stream;
  q->has_stream = true;
  pthread_mutex_unlock(&q->mu);
  if (is_second) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result was read already");
  atomic_fetch_add(&q->refs, 1);
  trn_status status = trn_stream_create(&ops, q, out);
  if (status) stream_destroy(q);
  return status;
}

static void operation_destroy(void *self) {
  query *q = self;
  pthread_mutex_lock(&q->mu);
  bool has_stream = q->has_stream;
  pthread_mutex_unlock(&q->mu);
  if (!has_stream) query_leave(q);
  query_unref(q);
}

static bool begin(embed *e) {
  pthread_mutex_lock(&e->mu);
  bool is_free = e->running < EMBED_QUERIES_MAX;
  e->running += is_free;
  pthread_mutex_unlock(&e->mu);
  return is_free;
}

static void give_up(embed *e) {
  pthread_mutex_lock(&e->mu);
  e->running--;
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mu);
}

trn_status embed_execute(embed *e, char *sql, const trn_execute_request *request, trn_operation **out, trn_error **error) {
  static const trn_operation_ops ops = {.struct_size = sizeof ops,
                                        .state = operation_state,
                                        .cancel = operation_cancel,
                                        .result_stream = operation_stream,
                                        .destroy = operation_destroy};
  query *q = calloc(1, sizeof *q);
  if (!q) {
    trn_free(sql);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  }
  *q = (query){.embed = e, .sql = sql, .state = TRN_OPERATION_RUNNING};
  atomic_init(&q->refs, 1);
  pthread_mutex_init(&q->mu, NULL);
  pthread_cond_init(&q->changed, NULL);
  trn_status status = trn_plan_schema(request->plan, &q->schema);
  if (!status && !begin(e)) status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "too many queries at once");
  if (status) {
    query_unref(q);
    return status;
  }
  pthread_t thread;
  atomic_fetch_add(&q->refs, 1); /* the thread's */
  if (pthread_create(&thread, NULL, query_thread, q)) {
    give_up(e);
    query_unref(q);
    query_unref(q);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no thread for the query");
  }
  pthread_detach(thread);
  status = trn_operation_create(&ops, q, request->operation_id, out);
  if (status) operation_destroy(q);
  return status;
}
