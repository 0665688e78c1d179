/* Tables of the program in the scripted backend: read whole when they are opened. */
#include <pthread.h>
#include <trunnion/table.h>

#include "backend/scripted/scripted.h"

/* One pull, waited for. */
typedef struct waiting {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool done; /* guarded by mu, as the rest */
  trn_status status;
  trn_error *error;
  struct ArrowArray array;
} waiting;

static void arrived(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  waiting *w = user;
  pthread_mutex_lock(&w->mu);
  w->status = status;
  w->error = error ? trn_error_ref((trn_error *)error) : NULL;
  if (!status) w->array = *array;
  w->done = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mu);
}

static trn_status pull(trn_stream *stream, struct ArrowArray *out, trn_error **error) {
  waiting w = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  trn_status status = trn_stream_next_array(stream, arrived, &w, error);
  if (status) return status;
  pthread_mutex_lock(&w.mu);
  while (!w.done) pthread_cond_wait(&w.changed, &w.mu);
  pthread_mutex_unlock(&w.mu);
  *out = w.array;
  if (w.status && error)
    *error = w.error;
  else
    trn_error_unref(w.error);
  return w.status;
}

static trn_status drain(trn_stream *stream, trn_vec *batches, trn_error **error) {
  for (;;) {
    struct ArrowArray array = {0};
    trn_status status = pull(stream, &array, error);
    if (status || !array.release) return status;
    trn_shared_array *shared = NULL;
    if (trn__shared_array_create(&array, &shared)) return trn__no_memory(error);
    if (!trn__vec_push(batches, shared)) {
      trn__shared_array_unref(shared);
      return trn__no_memory(error);
    }
  }
}

trn_status trn__scripted_read_table(const trn_table_provider *table, trn_scripted_table *out, trn_error **error) {
  struct ArrowSchema schema = {0};
  trn_vec batches = {0};
  uint32_t *columns = NULL;
  trn_status status = table->ops.schema(table->self, &schema, error);
  uint32_t partitions = table->ops.partition_count ? table->ops.partition_count(table->self) : 1;
  if (!status && !(columns = calloc((size_t)schema.n_children + 1, sizeof *columns))) status = trn__no_memory(error);
  for (int64_t i = 0; !status && i < schema.n_children; i++) columns[i] = (uint32_t)i;
  for (uint32_t i = 0; !status && i < partitions; i++) {
    const trn_table_scan scan = {.struct_size = sizeof scan,
                                 .columns = columns,
                                 .column_count = (size_t)schema.n_children,
                                 .limit = -1,
                                 .partition = i};
    trn_stream *stream = NULL;
    status = table->ops.scan(table->self, &scan, &stream, error);
    if (!status) status = drain(stream, &batches, error);
    trn_stream_unref(stream);
  }
  if (!status && trn__scripted_table_init(out, &schema, (trn_shared_array *const *)batches.items, batches.count))
    status = trn__no_memory(error);
  for (size_t i = 0; i < batches.count; i++) trn__shared_array_unref(batches.items[i]);
  trn__vec_finish(&batches);
  if (schema.release) schema.release(&schema);
  free(columns);
  return status;
}
