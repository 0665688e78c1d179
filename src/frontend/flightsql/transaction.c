/* Transactions: a session beside the session, with the same user, settings and temporary tables, whose statements are one
 * transaction of the catalog. A call names it by its id. What drivers send without an id although they mean it - ingestion and
 * metadata of ADBC - joins the one transaction that its session has. One that nobody uses for a while is rolled back when it has
 * changed something, for it keeps others from writing; when it has only read, it goes on with a new snapshot, for drivers
 * begin one with their connection and never say when they are done. */
#include "frontend/flightsql/flightsql.h"
#include "core/query.h"

typedef struct savepoint {
  char id[TRN_UUID_SIZE];
} savepoint;

flightsql_session *flightsql__owner(flightsql_session *session) { return session->parent ? session->parent : session; }

static bool is_of(const flightsql_session *transaction, const flightsql_session *session) {
  return strcmp(transaction->user, session->user) == 0 && transaction->is_authenticated == session->is_authenticated;
}

void flightsql__transaction_finish(flightsql_session *transaction) {
  for (size_t i = 0; i < transaction->savepoints.count; i++) free(transaction->savepoints.items[i]);
  trn__vec_finish(&transaction->savepoints);
}

bool flightsql__has_transactions(flightsql_session *session) {
  trn_catalog *catalog = NULL;
  if (session->service->read_only || trn_session_get_catalog(session->session, NULL, &catalog, NULL)) return false;
  bool has = trn_catalog_has_transactions(catalog);
  trn_catalog_unref(catalog);
  return has;
}

/* ---- finding ---- */

static void use(flightsql_session *transaction) {
  atomic_store(&transaction->used_ns, trn__now_ns());
  atomic_store(&transaction->was_used, true);
}

static flightsql_session *spoken_of(flightsql_session *session) {
  pthread_mutex_lock(&session->mutex);
  flightsql_session *spoken = session->spoken ? flightsql__session_ref(session->spoken) : NULL;
  pthread_mutex_unlock(&session->mutex);
  return spoken;
}

static flightsql_session *take_spoken(flightsql_session *session) {
  pthread_mutex_lock(&session->mutex);
  flightsql_session *spoken = session->spoken;
  session->spoken = NULL;
  pthread_mutex_unlock(&session->mutex);
  return spoken;
}

/* A client hears once that its transaction is gone; what follows is outside of one. */
static trn_status in_spoken(flightsql_session *session, flightsql_session **out, trn_error **error) {
  flightsql_session *spoken = session->parent ? NULL : spoken_of(session);
  *out = spoken ? spoken : flightsql__session_ref(session);
  if (!spoken) return TRN_OK;
  use(spoken);
  if (!atomic_load(&spoken->is_over)) return TRN_OK;
  flightsql__session_unref(take_spoken(session));
  flightsql__session_unref(spoken);
  *out = NULL;
  return trn_error_set(error, TRN_ABORTED, NULL, "The transaction was rolled back, for nobody used it for too long: begin it again");
}

trn_status flightsql__share_groups(const flightsql_session *session, flightsql_session *other, trn_error **error) {
  const char *const *groups = NULL;
  size_t count = trn_session_groups(session->session, &groups);
  return trn_session_set_groups(other->session, groups, count, error);
}

trn_status flightsql__in_transaction(flightsql_session *session, const ProtobufCBinaryData *id, flightsql_session **out,
                                     trn_error **error) {
  flightsql_service *service = session->service;
  *out = NULL;
  if (!id || !id->len) return in_spoken(session, out, error);
  pthread_mutex_lock(&service->mutex);
  flightsql_session *found = id->len == TRN_UUID_SIZE - 1 ? trn__map_get(service->transactions, (char *)id->data, id->len) : NULL;
  if (found && is_of(found, session)) *out = flightsql__session_ref(found);
  pthread_mutex_unlock(&service->mutex);
  if (!*out) return trn_error_set(error, TRN_NOT_FOUND, NULL, "The transaction is unknown: it was ended, or nobody used it for too long");
  use(*out);
  trn_status status = flightsql__share_groups(session, *out, error);
  if (!status) return TRN_OK;
  flightsql__session_unref(*out);
  *out = NULL;
  return status;
}

trn_status flightsql__transactions_set_groups(flightsql_session *session, trn_error **error) {
  flightsql_service *service = session->service;
  trn_status status = TRN_OK;
  const char *key;
  void *value;
  if (!atomic_load(&session->transaction_count)) return TRN_OK;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; !status && trn__map_next(service->transactions, &i, &key, &value);)
    if (((flightsql_session *)value)->parent == session) status = flightsql__share_groups(session, value, error);
  pthread_mutex_unlock(&service->mutex);
  return status;
}

/* The one transaction of the session; NULL: it has none, or several. A reference. */
static flightsql_session *only_one(flightsql_session *session) {
  flightsql_service *service = session->service;
  flightsql_session *found = NULL;
  const char *key;
  void *value;
  size_t count = 0;
  if (!atomic_load(&session->transaction_count)) return NULL;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; trn__map_next(service->transactions, &i, &key, &value);) {
    if (((flightsql_session *)value)->parent != session) continue;
    found = value;
    count++;
  }
  found = count == 1 ? flightsql__session_ref(found) : NULL;
  pthread_mutex_unlock(&service->mutex);
  if (found) use(found);
  return found;
}

flightsql_session *flightsql__joined(flightsql_session *session) {
  flightsql_session *found = session->parent ? NULL : only_one(session);
  return found ? found : flightsql__session_ref(session);
}

flightsql_session *flightsql__current(flightsql_session *session) {
  if (!session->parent || !atomic_load(&session->is_over)) return flightsql__session_ref(session);
  return flightsql__joined(session->parent);
}

/* ---- beginning ---- */

typedef struct setting_copy {
  trn_session *to;
  trn_status status;
} setting_copy;

static void copy_setting(void *user, const char *key, const char *value) {
  setting_copy *copy = user;
  if (!copy->status) copy->status = trn_session_set(copy->to, key, value);
}

/* As the session is now: settings, and where names are looked up. */
static trn_status copy_session(flightsql_session *from, flightsql_session *to, trn_error **error) {
  const char *const *groups = NULL;
  size_t count = trn_session_groups(from->session, &groups);
  char *catalog = NULL, *database = NULL;
  const trn_session_request request = {.struct_size = sizeof request,
                                       .user = from->user,
                                       .client = "Flight SQL",
                                       .groups = groups,
                                       .group_count = count,
                                       .is_authenticated = from->is_authenticated};
  trn_status status = trn_session_open(from->service->backend, &request, &to->session, error);
  if (!status) status = trn_session_namespace(from->session, &catalog, &database, error);
  if (status) return status;
  setting_copy copy = {to->session, TRN_OK};
  if (trn_session_each(from->session, copy_setting, &copy) || copy.status ||
      trn_session_set_namespace(to->session, catalog, database))
    status = trn__no_memory(error);
  trn_free(catalog);
  trn_free(database);
  return status;
}

static trn_status create(flightsql_session *session, flightsql_session **out, trn_error **error) {
  flightsql_session *made = calloc(1, sizeof *made);
  if (!made) return trn__no_memory(error);
  atomic_init(&made->refs, 1);
  pthread_mutex_init(&made->mutex, NULL);
  made->parent = flightsql__session_ref(session);
  made->service = session->service;
  made->dialect = flightsql__dialect(session);
  made->is_authenticated = session->is_authenticated;
  made->user = strdup(session->user);
  made->views = spark__catalog_create();
  trn__uuid4(made->id);
  atomic_store(&made->used_ns, trn__now_ns());
  trn_status status = made->user && made->views ? copy_session(session, made, error) : trn__no_memory(error);
  if (!status) {
    spark__plan_views(made->session, made->views);
    status = trn_transaction_begin(made->session, error);
  }
  if (status) flightsql__session_unref(made);
  else *out = made;
  return status;
}

trn_status flightsql__transaction_begin(flightsql_session *session, char id[TRN_UUID_SIZE], trn_error **error) {
  flightsql_service *service = session->service;
  flightsql_session *made = NULL;
  if (atomic_fetch_add(&session->transaction_count, 1) >= TRN_FLIGHT_TRANSACTIONS_MAX) {
    atomic_fetch_sub(&session->transaction_count, 1);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The session has %u transactions, which is the limit",
                         TRN_FLIGHT_TRANSACTIONS_MAX);
  }
  trn_status status = create(session, &made, error);
  if (!status) {
    memcpy(id, made->id, TRN_UUID_SIZE);
    pthread_mutex_lock(&service->mutex);
    bool ok = trn__map_set(service->transactions, made->id, TRN_UUID_SIZE - 1, made, NULL);
    pthread_mutex_unlock(&service->mutex);
    if (!ok) {
      flightsql__session_unref(made);
      status = trn__no_memory(error);
    }
  }
  if (status) atomic_fetch_sub(&session->transaction_count, 1);
  return status;
}

/* ---- ending ---- */

/* Takes it out of the table; false: somebody else did. */
static bool take_out(flightsql_session *transaction) {
  flightsql_service *service = transaction->service;
  pthread_mutex_lock(&service->mutex);
  bool mine = trn__map_remove(service->transactions, transaction->id, TRN_UUID_SIZE - 1) != NULL;
  pthread_mutex_unlock(&service->mutex);
  if (mine) atomic_fetch_sub(&transaction->parent->transaction_count, 1);
  return mine;
}

/* Ends one that was taken out, whose reference of the table goes. */
static trn_status end(flightsql_session *transaction, bool is_commit, trn_error **error) {
  atomic_store(&transaction->is_over, true);
  if (!is_commit) flightsql__session_drop_statements(transaction->service, transaction);
  trn__session_seal_transaction(transaction->session, true);
  trn_status status = trn_transaction_end(transaction->session, is_commit, error);
  flightsql__session_unref(transaction);
  return status;
}

trn_status flightsql__transaction_end(flightsql_session *session, const ProtobufCBinaryData *id, bool is_commit,
                                      trn_error **error) {
  flightsql_session *transaction = NULL;
  trn_error *missing = NULL;
  if (!id->len) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "No transaction is named");
  trn_status status = flightsql__in_transaction(session, id, &transaction, &missing);
  if (status == TRN_NOT_FOUND && !is_commit) status = TRN_OK; /* it was rolled back: that is what is wanted */
  if (status && error) *error = missing;
  else trn_error_unref(missing);
  if (status || !transaction) return status;
  if (is_commit && atomic_load(&transaction->busy)) {
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "A statement of the transaction is still running");
  } else if (take_out(transaction)) {
    status = end(transaction, is_commit, error);
  } else {
    status = trn_error_set(error, TRN_NOT_FOUND, NULL, "The transaction was ended meanwhile");
  }
  flightsql__session_unref(transaction);
  return status;
}

static trn_status speak_begin(flightsql_session *session, trn_error **error) {
  flightsql_service *service = session->service;
  char id[TRN_UUID_SIZE];
  flightsql_session *spoken = spoken_of(session);
  flightsql__session_unref(spoken);
  if (spoken) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is in a transaction already");
  trn_status status = flightsql__transaction_begin(session, id, error);
  if (status) return status;
  pthread_mutex_lock(&service->mutex);
  spoken = trn__map_get(service->transactions, id, TRN_UUID_SIZE - 1);
  if (spoken) flightsql__session_ref(spoken);
  pthread_mutex_unlock(&service->mutex);
  pthread_mutex_lock(&session->mutex);
  flightsql_session *other = session->spoken; /* of another call at the same time: that one counts */
  if (!other) session->spoken = spoken;
  pthread_mutex_unlock(&session->mutex);
  if (!other) return TRN_OK;
  if (take_out(spoken)) end(spoken, false, NULL);
  flightsql__session_unref(spoken);
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is in a transaction already");
}

static trn_status speak_end(flightsql_session *session, bool is_commit, trn_error **error) {
  flightsql_session *spoken = spoken_of(session);
  if (!spoken) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The session is in no transaction");
  trn_status status = TRN_OK;
  if (is_commit && atomic_load(&spoken->busy) > 1) { /* the statement that says so is one */
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "A statement of the transaction is still running");
  } else {
    flightsql__session_unref(take_spoken(session));
    if (take_out(spoken)) status = end(spoken, is_commit, error);
    else if (is_commit)
      status = trn_error_set(error, TRN_ABORTED, NULL, "The transaction was rolled back, for nobody used it for too long");
  }
  flightsql__session_unref(spoken);
  return status;
}

trn_status flightsql__transaction_spoken(flightsql_session *from, trn_statement_kind kind, trn_error **error) {
  flightsql_session *session = flightsql__owner(from), *spoken = spoken_of(session);
  bool is_its = from == session || from == spoken;
  flightsql__session_unref(spoken);
  if (!is_its)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The transaction is ended as it was begun: by its id");
  if (kind == TRN_STATEMENT_BEGIN) return speak_begin(session, error);
  return speak_end(session, kind == TRN_STATEMENT_COMMIT, error);
}

/* Gives its snapshot up: the next statement reads a new one. What comes at the same time changes nothing, and sees what is there. */
static void restart(flightsql_session *transaction) {
  atomic_store(&transaction->is_restarted, true);
  atomic_store(&transaction->was_used, false);
  trn__session_seal_transaction(transaction->session, true);
  trn_transaction_end(transaction->session, false, NULL);
  if (!trn_transaction_begin(transaction->session, NULL)) trn__session_seal_transaction(transaction->session, false);
}

/* Those of the session (NULL: all), or those that nobody uses; rolled back. */
static void end_where(flightsql_service *service, const flightsql_session *session, int64_t now) {
  trn_vec found = {0};
  const char *key;
  void *value;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; trn__map_next(service->transactions, &i, &key, &value);) {
    flightsql_session *transaction = value;
    bool is_idle = now && !atomic_load(&transaction->busy) && !atomic_load(&transaction->reading) &&
                   now - atomic_load(&transaction->used_ns) >= (int64_t)service->transaction_ms * 1000000;
    bool is_meant = now ? is_idle && atomic_load(&transaction->was_used) : !session || transaction->parent == session;
    if (is_meant && trn__vec_push(&found, transaction)) flightsql__session_ref(transaction);
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < found.count; i++) {
    if (now && !atomic_load(&((flightsql_session *)found.items[i])->has_changed)) restart(found.items[i]);
    else if (take_out(found.items[i])) end(found.items[i], false, NULL);
    flightsql__session_unref(found.items[i]);
  }
  trn__vec_finish(&found);
}

void flightsql__transactions_drop(flightsql_service *service, const flightsql_session *session) {
  end_where(service, session, 0);
}

void flightsql__transactions_sweep(flightsql_service *service) { end_where(service, NULL, trn__now_ns()); }

/* ---- savepoints: named by ids of ours, the client's names are its own business ---- */

trn_status flightsql__savepoint_begin(flightsql_session *transaction, char id[TRN_UUID_SIZE], trn_error **error) {
  savepoint *made = malloc(sizeof *made);
  if (!made) return trn__no_memory(error);
  trn__uuid4(made->id);
  pthread_mutex_lock(&transaction->mutex);
  bool ok = transaction->savepoints.count < TRN_FLIGHT_SAVEPOINTS_MAX && trn__vec_push(&transaction->savepoints, made);
  pthread_mutex_unlock(&transaction->mutex);
  if (!ok) {
    free(made);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The transaction has TRN_FLIGHT_SAVEPOINTS_MAX (%u) savepoints",
                         TRN_FLIGHT_SAVEPOINTS_MAX);
  }
  memcpy(id, made->id, TRN_UUID_SIZE);
  atomic_store(&transaction->has_changed, true);
  return trn_transaction_savepoint(transaction->session, TRN_SAVEPOINT_SET, id, error);
}

/* The transaction that a savepoint is of, and how many savepoints come before it. A reference, or NULL. */
static flightsql_session *find_savepoint(flightsql_session *session, const ProtobufCBinaryData *id, size_t *index) {
  flightsql_service *service = session->service;
  flightsql_session *found = NULL;
  const char *key;
  void *value;
  pthread_mutex_lock(&service->mutex);
  for (size_t i = 0; !found && trn__map_next(service->transactions, &i, &key, &value);) {
    flightsql_session *transaction = value;
    if (!is_of(transaction, session)) continue;
    pthread_mutex_lock(&transaction->mutex);
    for (size_t j = 0; j < transaction->savepoints.count && !found; j++) {
      const savepoint *s = transaction->savepoints.items[j];
      if (id->len != TRN_UUID_SIZE - 1 || memcmp(id->data, s->id, id->len) != 0) continue;
      found = flightsql__session_ref(transaction);
      *index = j;
    }
    pthread_mutex_unlock(&transaction->mutex);
  }
  pthread_mutex_unlock(&service->mutex);
  return found;
}

trn_status flightsql__savepoint_end(flightsql_session *session, const ProtobufCBinaryData *id, bool is_release,
                                    trn_error **error) {
  size_t index = 0;
  char name[TRN_UUID_SIZE] = "";
  flightsql_session *transaction = find_savepoint(session, id, &index);
  if (!transaction) return trn_error_set(error, TRN_NOT_FOUND, NULL, "The savepoint is unknown: it was released, or its transaction is over");
  memcpy(name, id->data, id->len);
  use(transaction);
  trn_status status = trn_transaction_savepoint(transaction->session,
                                                is_release ? TRN_SAVEPOINT_RELEASE : TRN_SAVEPOINT_ROLLBACK, name, error);
  pthread_mutex_lock(&transaction->mutex);
  size_t keep = status ? SIZE_MAX : index + !is_release; /* later ones are gone with it */
  while (transaction->savepoints.count > keep) free(transaction->savepoints.items[--transaction->savepoints.count]);
  pthread_mutex_unlock(&transaction->mutex);
  flightsql__session_unref(transaction);
  return status;
}
