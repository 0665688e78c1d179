/* What a cluster makes of a plan, as text: the rows of an EXPLAIN that ran as a job. */
#include "backend/ballista/backend.h"
#include "backend/ballista/client.h"

trn_status trn__ballista_explain_schema(struct ArrowSchema *out) {
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, 2);
  if (!status) status = trn__schema_init(out->children[0], "u", "plan_type", 0, NULL, 0, 0);
  if (!status) status = trn__schema_init(out->children[1], "u", "plan", 0, NULL, 0, 0);
  if (status) trn__schema_release(out);
  return status;
}

/* One pull that is waited for. */
typedef struct arrival {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool is_here;
  trn_status status;
  trn_error *error;
  struct ArrowArray array;
} arrival;

static void arrived(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  arrival *a = user;
  pthread_mutex_lock(&a->mu);
  a->status = status;
  a->error = error ? trn_error_ref((trn_error *)error) : NULL;
  a->array = *array;
  array->release = NULL;
  a->is_here = true;
  pthread_cond_signal(&a->changed);
  pthread_mutex_unlock(&a->mu);
}

static struct timespec after_ms(unsigned ms) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += ms / 1000;
  until.tv_nsec += ms % 1000 * 1000000L;
  if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
  return until;
}

static bool is_before(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* False: it was not there in time, or nobody wants it any more. */
static bool is_in_time(arrival *a, const struct timespec *until) {
  const trn_cancel *cancel = trn_cancel_of_work();
  bool is_late = false;
  pthread_mutex_lock(&a->mu);
  while (!a->is_here && !is_late && !trn_cancel_is_requested(cancel)) {
    const struct timespec look = after_ms(TRN_BALLISTA_POLL_MS);
    const struct timespec *first = cancel && is_before(&look, until) ? &look : until;
    is_late = pthread_cond_timedwait(&a->changed, &a->mu, first) && first == until;
  }
  bool is_here = a->is_here;
  pthread_mutex_unlock(&a->mu);
  return is_here;
}

static trn_status next(arrival *a, const trn_ballista *b, trn_stream *stream, const struct timespec *until,
                       trn_error **error) {
  a->is_here = false;
  trn_status status = trn_stream_next_array(stream, arrived, a, error);
  if (status) return status;
  bool is_late = !is_in_time(a, until);
  if (is_late) trn_stream_cancel(stream);
  pthread_mutex_lock(&a->mu);
  while (!a->is_here) pthread_cond_wait(&a->changed, &a->mu); /* `a` is used until then */
  pthread_mutex_unlock(&a->mu);
  if (is_late && a->status == TRN_CANCELLED) {
    trn_error_unref(a->error);
    if (trn_cancel_is_requested(trn_cancel_of_work()))
      return trn_error_set(error, TRN_CANCELLED, NULL, "the query was cancelled");
    return trn_error_set(error, TRN_UNAVAILABLE, NULL,
                         "the Ballista cluster at %s did not explain the plan within %u ms: is an executor free?",
                         trn__ballista_client_target(b->client), trn__ballista_timeout_ms(b->client));
  }
  if (error)
    *error = a->error;
  else
    trn_error_unref(a->error);
  return a->status;
}

/* The logical plan is left out: it is asked for on its own. */
static void add_rows(trn_strbuf *out, const struct ArrowArray *rows) {
  for (int64_t i = 0; i < rows->length; i++) {
    trn_str type = trn__array_bytes(rows->children[0], "u", rows->offset + i);
    trn_str text = trn__array_bytes(rows->children[1], "u", rows->offset + i);
    if (type.size == 12 && memcmp(type.data, "logical_plan", 12) == 0) continue;
    if (type.size != 13 || memcmp(type.data, "physical_plan", 13) != 0) {
      trn__strbuf_add(out, "\n", 1);
      trn__strbuf_add(out, type.data, type.size);
      trn__strbuf_puts(out, ":\n");
    }
    trn__strbuf_add(out, text.data, text.size);
  }
}

trn_status trn__ballista_explain_read(trn_ballista *b, trn_operation *operation, char **out, trn_error **error) {
  arrival a = {0};
  const struct timespec until = after_ms(trn__ballista_timeout_ms(b->client));
  trn_stream *stream = NULL;
  trn_strbuf text = {0};
  pthread_mutex_init(&a.mu, NULL);
  pthread_cond_init(&a.changed, NULL);
  trn_status status = trn_operation_result_stream(operation, &stream, error);
  while (!status) {
    status = next(&a, b, stream, &until, error);
    if (status || !a.array.release) break;
    add_rows(&text, &a.array);
    trn__array_release(&a.array);
  }
  if (!status && (text.failed || !text.data)) status = trn__no_memory(error);
  if (!status)
    *out = text.data;
  else
    trn__strbuf_finish(&text);
  trn_stream_unref(stream);
  pthread_cond_destroy(&a.changed);
  pthread_mutex_destroy(&a.mu);
  return status;
}
