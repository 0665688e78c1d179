/* Statements by handle: results that wait to be fetched, and prepared statements. A handle is random and of use only to the
 * user whom it was given to, in whatever session: partitions are read by other processes than those that asked. */
#include "frontend/flightsql/flightsql.h"

trn_status flightsql__statement_create(flightsql_session *session, const char *sql, size_t size,
                                       flightsql_statement **out, trn_error **error) {
  flightsql_statement *statement = calloc(1, sizeof *statement);
  if (!statement) return trn__no_memory(error);
  statement->sql = malloc(size + 1);
  if (!statement->sql) {
    free(statement);
    return trn__no_memory(error);
  }
  if (size) memcpy(statement->sql, sql, size);
  statement->sql[size] = 0;
  statement->sql_size = size;
  atomic_init(&statement->refs, 1);
  pthread_mutex_init(&statement->mutex, NULL);
  statement->session = flightsql__session_ref(session);
  statement->count = -1;
  trn__uuid4(statement->handle);
  *out = statement;
  return TRN_OK;
}

flightsql_statement *flightsql__statement_ref(flightsql_statement *statement) {
  atomic_fetch_add_explicit(&statement->refs, 1, memory_order_relaxed);
  return statement;
}

void flightsql__statement_unref(flightsql_statement *statement) {
  if (!statement || atomic_fetch_sub_explicit(&statement->refs, 1, memory_order_acq_rel) != 1) return;
  trn_plan_unref(statement->plan);
  trn__strbuf_finish(&statement->schema);
  trn__strbuf_finish(&statement->parameter_schema);
  flightsql__parameters_unref(statement->bound);
  for (size_t i = 0; i < statement->running.count; i++) trn_operation_unref(statement->running.items[i]);
  trn__vec_finish(&statement->running);
  trn__vec_finish(&statement->planning);
  flightsql__result_unref(statement->result);
  trn_operation_unref(statement->held);
  pthread_mutex_destroy(&statement->mutex);
  flightsql__session_unref(statement->session);
  free(statement->sql);
  free(statement);
}

/* ---- the table ---- */

static size_t weight(const flightsql_statement *statement) {
  return statement->sql_size + statement->schema.size + statement->parameter_schema.size + sizeof *statement;
}

/* Counts one more in the session. */
static trn_status reserve(flightsql_statement *statement, trn_error **error) {
  flightsql_session *session = flightsql__owner(statement->session);
  trn_status status = TRN_OK;
  pthread_mutex_lock(&session->mutex);
  if (session->is_closed) {
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is closed");
  } else if (!statement->is_prepared) {
    if (session->open_count >= TRN_FLIGHT_STATEMENTS_MAX)
      status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                             "The session has %u results that were not fetched, which is the limit",
                             TRN_FLIGHT_STATEMENTS_MAX);
    session->open_count += !status;
  } else {
    if (session->prepared_count >= TRN_FLIGHT_PREPARED_MAX ||
        session->prepared_bytes + weight(statement) > TRN_FLIGHT_PREPARED_BYTES_MAX)
      status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                             "The session has too many prepared statements (limits: %u statements, %u bytes)",
                             TRN_FLIGHT_PREPARED_MAX, TRN_FLIGHT_PREPARED_BYTES_MAX);
    if (!status) session->prepared_count++, session->prepared_bytes += weight(statement);
  }
  pthread_mutex_unlock(&session->mutex);
  return status;
}

static void unreserve(flightsql_statement *statement) {
  flightsql_session *session = flightsql__owner(statement->session);
  pthread_mutex_lock(&session->mutex);
  if (statement->is_prepared) {
    session->prepared_count--;
    session->prepared_bytes -= weight(statement);
  } else if (session->open_count) {
    session->open_count--;
  }
  pthread_mutex_unlock(&session->mutex);
}

trn_status flightsql__statement_publish(flightsql_statement *statement, trn_error **error) {
  flightsql_service *service = statement->session->service;
  trn_status status = reserve(statement, error);
  if (status) return status;
  pthread_mutex_lock(&service->mutex);
  statement->expires_ns = trn__now_ns() + (int64_t)service->result_ms * 1000000;
  bool ok = trn__map_set(service->statements, statement->handle, TRN_UUID_SIZE - 1,
                         flightsql__statement_ref(statement), NULL);
  pthread_mutex_unlock(&service->mutex);
  if (ok) return TRN_OK;
  unreserve(statement);
  flightsql__statement_unref(statement);
  return trn__no_memory(error);
}

bool flightsql__handle_number(const void *handle, size_t size, char mark, size_t *out) {
  const char *at = (const char *)handle + TRN_UUID_SIZE;
  size_t digits = size > TRN_UUID_SIZE ? size - TRN_UUID_SIZE : 0;
  if (!digits || digits > 9 || at[-1] != mark) return false;
  *out = 0;
  for (size_t i = 0; i < digits; i++) {
    if (at[i] < '0' || at[i] > '9') return false;
    *out = *out * 10 + (size_t)(at[i] - '0');
  }
  return true;
}

void flightsql__statement_renew(flightsql_statement *statement) {
  flightsql_service *service = statement->session->service;
  pthread_mutex_lock(&service->mutex);
  statement->expires_ns = trn__now_ns() + (int64_t)service->result_ms * 1000000;
  pthread_mutex_unlock(&service->mutex);
}

trn_status flightsql__statement_find(flightsql_session *session, const void *handle, size_t size, bool is_prepared,
                                     flightsql_statement **out, trn_error **error) {
  flightsql_service *service = session->service;
  flightsql_statement *found = NULL;
  size_t number;
  bool has_number = !is_prepared && (flightsql__handle_number(handle, size, ':', &number) ||
                                     flightsql__handle_number(handle, size, '?', &number));
  if (has_number) size = TRN_UUID_SIZE - 1;
  pthread_mutex_lock(&service->mutex);
  if (size == TRN_UUID_SIZE - 1) found = trn__map_get(service->statements, handle, size);
  if (found && (found->is_prepared != is_prepared || strcmp(found->session->user, session->user) != 0 ||
                found->session->is_authenticated != session->is_authenticated || (has_number && !found->result)))
    found = NULL;
  if (found) flightsql__statement_ref(found);
  pthread_mutex_unlock(&service->mutex);
  trn_status status = found ? flightsql__share_groups(session, found->session, error) : TRN_OK;
  if (status) flightsql__statement_unref(found);
  *out = status ? NULL : found;
  if (found) return status;
  return trn_error_set(error, TRN_NOT_FOUND, NULL,
                       is_prepared ? "The prepared statement is unknown: it was closed, or its session is over"
                                   : "The ticket is unknown: its result was fetched, or has expired, or was closed");
}

/* locks: none. Gives the table's reference, or NULL. */
static flightsql_statement *take_out(flightsql_service *service, flightsql_statement *statement) {
  pthread_mutex_lock(&service->mutex);
  flightsql_statement *there = trn__map_get(service->statements, statement->handle, TRN_UUID_SIZE - 1);
  if (there == statement) trn__map_remove(service->statements, statement->handle, TRN_UUID_SIZE - 1);
  pthread_mutex_unlock(&service->mutex);
  return there == statement ? there : NULL;
}

void flightsql__statement_close(flightsql_statement *statement) {
  flightsql_statement *taken = take_out(statement->session->service, statement);
  if (!taken) return;
  unreserve(taken);
  flightsql__statement_unref(taken);
}

flightsql_parameters *flightsql__statement_bound(flightsql_statement *statement) {
  pthread_mutex_lock(&statement->mutex);
  flightsql_parameters *bound = statement->bound ? flightsql__parameters_ref(statement->bound) : NULL;
  pthread_mutex_unlock(&statement->mutex);
  return bound;
}

/* The result was read to its end. A few can be read again; the oldest of those goes. */
void flightsql__statement_fetched(flightsql_statement *statement) {
  flightsql_session *session = flightsql__owner(statement->session);
  flightsql_statement *old = NULL;
  char handle[TRN_UUID_SIZE] = "";
  pthread_mutex_lock(&session->mutex);
  bool again = false;
  for (size_t i = 0; i < TRN_FLIGHT_FETCHED_MAX; i++) again |= strcmp(session->fetched[i], statement->handle) == 0;
  if (!again) {
    char *slot = session->fetched[session->fetched_next++ % TRN_FLIGHT_FETCHED_MAX];
    memcpy(handle, slot, TRN_UUID_SIZE);
    memcpy(slot, statement->handle, TRN_UUID_SIZE);
  }
  pthread_mutex_unlock(&session->mutex);
  if (*handle && flightsql__statement_find(session, handle, TRN_UUID_SIZE - 1, false, &old, NULL) == TRN_OK) {
    flightsql__statement_close(old);
    flightsql__statement_unref(old);
  }
}

/* ---- what runs ---- */

bool flightsql__statement_plan(flightsql_statement *statement, trn_cancel *cancel) {
  pthread_mutex_lock(&statement->mutex);
  bool ok = !statement->is_cancelled && trn__vec_push(&statement->planning, cancel);
  if (ok) trn_cancel_ref(cancel);
  pthread_mutex_unlock(&statement->mutex);
  return ok;
}

/* Takes `item` out; false: it is not there. locks: the statement's mutex held */
static bool drop_item(trn_vec *list, const void *item) {
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i] != item) continue;
    list->items[i] = list->items[--list->count];
    return true;
  }
  return false;
}

void flightsql__statement_planned(flightsql_statement *statement, trn_cancel *cancel) {
  pthread_mutex_lock(&statement->mutex);
  bool found = drop_item(&statement->planning, cancel);
  pthread_mutex_unlock(&statement->mutex);
  if (found) trn_cancel_unref(cancel);
}

bool flightsql__statement_run(flightsql_statement *statement, trn_operation *operation) {
  pthread_mutex_lock(&statement->mutex);
  bool ok = !statement->is_cancelled && trn__vec_push(&statement->running, operation);
  if (ok) trn_operation_ref(operation);
  pthread_mutex_unlock(&statement->mutex);
  return ok;
}

void flightsql__statement_ran(flightsql_statement *statement, trn_operation *operation) {
  pthread_mutex_lock(&statement->mutex);
  bool found = drop_item(&statement->running, operation);
  pthread_mutex_unlock(&statement->mutex);
  if (found) trn_operation_unref(operation);
}

trn_status flightsql__statement_begin(flightsql_statement *statement, flight_rpc *rpc, bool holds, trn_operation **operation,
                                      trn_error **error) {
  char traceparent[64] = "";
  size_t trace_size = 0;
  const void *trace = trn_call_metadata(rpc->call, "traceparent", &trace_size);
  if (trace && trace_size < sizeof traceparent) memcpy(traceparent, trace, trace_size);
  const trn_execute_request request = {.struct_size = sizeof request,
                                       .plan = statement->plan,
                                       .protocol = "flightsql",
                                       .traceparent = *traceparent ? traceparent : NULL,
                                       .cancel = rpc->cancel,
                                       .holds_output = holds};
  *operation = NULL;
  trn_status status = flightsql__statement_plan(statement, rpc->cancel)
                          ? trn_backend_execute(statement->session->session, &request, operation, error)
                          : trn_error_set(error, TRN_CANCELLED, NULL, "The query was cancelled");
  if (!status && !flightsql__statement_run(statement, *operation))
    status = trn_error_set(error, TRN_CANCELLED, NULL, "The query was cancelled");
  flightsql__statement_planned(statement, rpc->cancel);
  if (!status) return TRN_OK;
  if (*operation) trn_operation_cancel(*operation);
  trn_operation_unref(*operation);
  *operation = NULL;
  return status;
}

trn_status flightsql__statement_execute(flightsql_statement *statement, flight_rpc *rpc, trn_operation **operation,
                                        trn_stream **stream, trn_error **error) {
  trn_status status = flightsql__statement_begin(statement, rpc, false, operation, error);
  if (status) return status;
  status = trn_operation_result_stream(*operation, stream, error);
  if (!status) return TRN_OK;
  flightsql__statement_ran(statement, *operation);
  trn_operation_cancel(*operation);
  trn_operation_unref(*operation);
  *operation = NULL;
  return status;
}

bool flightsql__statement_cancel(flightsql_statement *statement) {
  trn_vec running = {0};
  pthread_mutex_lock(&statement->mutex);
  if (!statement->is_prepared) statement->is_cancelled = true;
  bool any = statement->planning.count > 0;
  for (size_t i = 0; i < statement->planning.count; i++) trn_cancel_request(statement->planning.items[i]);
  for (size_t i = 0; i < statement->running.count; i++)
    if (trn__vec_push(&running, statement->running.items[i])) trn_operation_ref(statement->running.items[i]);
  pthread_mutex_unlock(&statement->mutex);
  any |= running.count > 0;
  for (size_t i = 0; i < running.count; i++) {
    trn_operation_cancel(running.items[i]);
    trn_operation_unref(running.items[i]);
  }
  trn__vec_finish(&running);
  return any;
}

/* ---- expiry ---- */

/* Drops those that `is_over` says, whole tables at a time so that no lock is held while they go. */
static void drop_where(flightsql_service *service, flightsql_session *session, int64_t now) {
  trn_vec old = {0};
  pthread_mutex_lock(&service->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(service->statements, &i, &key, &value);) {
    flightsql_statement *statement = value;
    /* What was prepared in a transaction is its client's to close. */
    bool is_own = !session || statement->session->parent == session ||
                  (statement->session == session && !(session->parent && statement->is_prepared));
    bool is_over = now ? !statement->is_prepared && statement->expires_ns <= now : is_own;
    if (!is_over) continue;
    pthread_mutex_lock(&statement->mutex);
    bool is_busy = now && statement->running.count + statement->planning.count > 0 && !statement->result; /* what runs by itself is for who asks again */
    pthread_mutex_unlock(&statement->mutex);
    if (!is_busy && trn__vec_push(&old, statement)) flightsql__statement_ref(statement);
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < old.count; i++) {
    if (!now || ((flightsql_statement *)old.items[i])->result) flightsql__statement_cancel(old.items[i]);
    flightsql__statement_close(old.items[i]);
    flightsql__statement_unref(old.items[i]);
  }
  trn__vec_finish(&old);
}

void flightsql__session_drop_statements(flightsql_service *service, flightsql_session *session) {
  drop_where(service, session, 0);
}

void flightsql__sweep(void *self) {
  drop_where(self, NULL, trn__now_ns());
  flightsql__transactions_sweep(self);
}
