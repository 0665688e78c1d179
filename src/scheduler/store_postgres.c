/* The job store's driver for PostgreSQL. libpq is loaded when it is needed; what is used of it is declared here, since
 * its interface has not changed in twenty years and its headers need not be there. */
#include <dlfcn.h>
#include <stdio.h>

#include "scheduler/store_sql.h"

enum { CONNECTION_OK = 0, PGRES_COMMAND_OK = 1, PGRES_TUPLES_OK = 2, DIAG_SQLSTATE = 'C' };
enum { OID_INT8 = 20, OID_TEXT = 25, OID_BYTEA = 17, PARAMETERS_MAX = 32, COLUMNS_MAX = 32 };

typedef struct libpq {
  void *(*connectdb)(const char *conninfo);
  int (*status)(const void *connection);
  void (*reset)(void *connection);
  void (*finish)(void *connection);
  char *(*error_message)(const void *connection);
  void *(*exec)(void *connection, const char *sql);
  void *(*exec_params)(void *connection, const char *sql, int count, const unsigned *types, const char *const *values,
                       const int *lengths, const int *formats, int result_format);
  int (*result_status)(const void *result);
  char *(*result_error_field)(const void *result, int field);
  char *(*result_error_message)(const void *result);
  char *(*cmd_tuples)(void *result);
  int (*ntuples)(const void *result);
  int (*nfields)(const void *result);
  int (*getisnull)(const void *result, int row, int column);
  int (*getlength)(const void *result, int row, int column);
  char *(*getvalue)(const void *result, int row, int column);
  void (*clear)(void *result);
  void (*set_notice_processor)(void *connection, void (*processor)(void *user, const char *text), void *user);
} libpq;

typedef struct postgres_db {
  pthread_mutex_t mu; /* from begin to end */
  void *library, *connection;
  libpq pq;
} postgres_db;

static trn_status load(postgres_db *d, trn_error **error) {
  static const char *const names[] = {"PQconnectdb",
                                      "PQstatus",
                                      "PQreset",
                                      "PQfinish",
                                      "PQerrorMessage",
                                      "PQexec",
                                      "PQexecParams",
                                      "PQresultStatus",
                                      "PQresultErrorField",
                                      "PQresultErrorMessage",
                                      "PQcmdTuples",
                                      "PQntuples",
                                      "PQnfields",
                                      "PQgetisnull",
                                      "PQgetlength",
                                      "PQgetvalue",
                                      "PQclear",
                                      "PQsetNoticeProcessor"};
  _Static_assert(sizeof(libpq) == sizeof names / sizeof *names * sizeof(void *), "a function per name");
  d->library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (!d->library)
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "PostgreSQL's library cannot be loaded: %s", dlerror());
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *symbol = dlsym(d->library, names[i]);
    if (!symbol) return trn_error_set(error, TRN_NOT_FOUND, NULL, "PostgreSQL's library has no %s", names[i]);
    memcpy((char *)&d->pq + i * sizeof symbol, &symbol, sizeof symbol);
  }
  return TRN_OK;
}

static void be_silent(void *user, const char *text) {
  (void)user;
  (void)text;
}

/* ---- results ---- */

static trn_status connection_failed(postgres_db *d, trn_error **error) {
  return trn__sql_failed(error, TRN_UNAVAILABLE, d->connection ? d->pq.error_message(d->connection) : "no connection");
}

/* SQLSTATE classes: 08 connection, 23505 unique, 40 rolled back, 53 resources, 57 shut down, 42501 privileges. */
static trn_status result_failed(postgres_db *d, const void *result, trn_error **error) {
  const char *state = result ? d->pq.result_error_field(result, DIAG_SQLSTATE) : NULL;
  if (!state || !strncmp(state, "08", 2) || d->pq.status(d->connection) != CONNECTION_OK)
    return connection_failed(d, error);
  const char *text = d->pq.result_error_message(result);
  if (!strcmp(state, "23505")) return trn__sql_failed(error, TRN_ALREADY_EXISTS, text);
  if (!strncmp(state, "53", 2)) return trn__sql_failed(error, TRN_RESOURCE_EXHAUSTED, text);
  if (!strncmp(state, "40", 2) || !strncmp(state, "57", 2)) return trn__sql_failed(error, TRN_UNAVAILABLE, text);
  if (!strcmp(state, "42501")) return trn__sql_failed(error, TRN_PERMISSION_DENIED, text);
  return trn__sql_failed(error, TRN_INTERNAL, text);
}

static trn_status command(postgres_db *d, const char *sql, trn_error **error) {
  void *result = d->pq.exec(d->connection, sql);
  int code = result ? d->pq.result_status(result) : -1;
  trn_status status = code == PGRES_COMMAND_OK || code == PGRES_TUPLES_OK ? TRN_OK : result_failed(d, result, error);
  d->pq.clear(result);
  return status;
}

static uint64_t big_endian(const char *data, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; i++) value = value << 8 | (uint8_t)data[i];
  return value;
}

static bool tell(postgres_db *d, const void *result, int at, const char *kinds, trn_sql_row row, void *user) {
  trn_sql_value values[COLUMNS_MAX];
  size_t count = strnlen(kinds, COLUMNS_MAX);
  for (size_t i = 0; i < count; i++) {
    int column = (int)i;
    values[i] = (trn_sql_value){0};
    if (d->pq.getisnull(result, at, column)) continue;
    values[i].data = d->pq.getvalue(result, at, column);
    values[i].size = (size_t)d->pq.getlength(result, at, column);
    values[i].kind = kinds[i] == 'i' ? TRN_SQL_INT : kinds[i] == 't' ? TRN_SQL_TEXT : TRN_SQL_BYTES;
    /* int8, or the one byte of a boolean */
    if (kinds[i] == 'i') values[i].number = (int64_t)big_endian(values[i].data, (int)values[i].size);
  }
  return row(user, values, count);
}

/* ---- the driver ---- */

static trn_status begin(void *self, bool writes, trn_error **error) {
  postgres_db *d = self;
  pthread_mutex_lock(&d->mu);
  if (d->pq.status(d->connection) != CONNECTION_OK) d->pq.reset(d->connection);
  trn_status status = d->pq.status(d->connection) != CONNECTION_OK ? connection_failed(d, error) : TRN_OK;
  if (!status && writes) status = command(d, "BEGIN", error);
  /* A server that went away is noticed by the first statement only; nothing has been done. */
  if (status && d->pq.status(d->connection) != CONNECTION_OK) {
    d->pq.reset(d->connection);
    if (d->pq.status(d->connection) == CONNECTION_OK) {
      if (error) trn_error_unref(*error), *error = NULL;
      status = writes ? command(d, "BEGIN", error) : TRN_OK;
    }
  }
  if (status) pthread_mutex_unlock(&d->mu);
  return status;
}

static trn_status end(void *self, bool writes, trn_status status, trn_error **error) {
  postgres_db *d = self;
  if (writes && !status)
    status = command(d, "COMMIT", error);
  else if (writes)
    (void)command(d, "ROLLBACK", NULL);
  pthread_mutex_unlock(&d->mu);
  return status;
}

typedef struct bound {
  unsigned types[PARAMETERS_MAX];
  const char *values[PARAMETERS_MAX];
  int lengths[PARAMETERS_MAX], formats[PARAMETERS_MAX];
  char numbers[PARAMETERS_MAX][8];
} bound;

static bool bind(bound *b, const trn_sql_value *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const trn_sql_value *v = &values[i];
    b->values[i] = NULL;
    b->types[i] = 0; /* of a NULL: what the statement makes of it */
    b->lengths[i] = 0;
    b->formats[i] = 1;
    if (v->kind == TRN_SQL_NULL) continue;
    if (v->size > INT32_MAX) return false;
    b->types[i] = v->kind == TRN_SQL_INT ? OID_INT8 : v->kind == TRN_SQL_TEXT ? OID_TEXT : OID_BYTEA;
    b->lengths[i] = v->kind == TRN_SQL_INT ? 8 : (int)v->size;
    b->values[i] = v->kind == TRN_SQL_INT ? b->numbers[i] : v->data;
    for (unsigned k = 0; k < 8; k++) b->numbers[i][k] = (char)((uint64_t)v->number >> (56 - 8 * k));
  }
  return true;
}

static trn_status run(void *self, const char *sql, const trn_sql_value *parameters, size_t count, const char *kinds,
                      trn_sql_row row, void *user, int64_t *changed, trn_error **error) {
  postgres_db *d = self;
  bound b;
  if (changed) *changed = 0;
  if (count > PARAMETERS_MAX || !bind(&b, parameters, count))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The job store: a value is too large");
  void *result = d->pq.exec_params(d->connection, sql, (int)count, b.types, b.values, b.lengths, b.formats, 1);
  int code = result ? d->pq.result_status(result) : -1;
  trn_status status = code == PGRES_COMMAND_OK || code == PGRES_TUPLES_OK ? TRN_OK : result_failed(d, result, error);
  if (!status && changed) *changed = strtoll(d->pq.cmd_tuples(result), NULL, 10);
  if (!status && row && d->pq.nfields(result) < (int)strlen(kinds))
    status = trn__sql_failed(error, TRN_INTERNAL, "too few columns");
  if (!status && row)
    for (int i = 0, rows = d->pq.ntuples(result); i < rows && tell(d, result, i, kinds, row, user); i++) continue;
  d->pq.clear(result);
  return status;
}

static void destroy(void *self) {
  postgres_db *d = self;
  if (d->connection) d->pq.finish(d->connection);
  if (d->library) dlclose(d->library);
  pthread_mutex_destroy(&d->mu);
  free(d);
}

static const trn_sql_driver driver = {.bytes_type = "BYTEA",
                                      .now = "CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT)",
                                      .binary = " COLLATE \"C\"",
                                      .begin = begin,
                                      .end = end,
                                      .run = run,
                                      .destroy = destroy};

trn_status trn_postgres_job_store_open(const char *conninfo, trn_job_store **out, trn_error **error) {
  *out = NULL;
  postgres_db *d = calloc(1, sizeof *d);
  if (!d) return trn__no_memory(error);
  pthread_mutex_init(&d->mu, NULL);
  trn_status status = load(d, error);
  if (!status && !(d->connection = d->pq.connectdb(conninfo))) status = trn__no_memory(error);
  if (!status && d->pq.status(d->connection) != CONNECTION_OK) status = connection_failed(d, error);
  if (!status) d->pq.set_notice_processor(d->connection, be_silent, NULL); /* "already exists, skipping" */
  /* Two that make the tables at once would fail on the catalog's own keys. The number is ours; it goes with the
   * session. */
  if (!status) status = command(d, "SELECT pg_advisory_lock(747234118)", error);
  if (status) {
    destroy(d);
    return status;
  }
  status = trn__sql_job_store_create(&driver, d, out, error);
  if (!status) {
    status = command(d, "SELECT pg_advisory_unlock(747234118)", error);
    if (status) trn_job_store_unref(*out), *out = NULL;
  }
  return status;
}

trn_status trn__postgres_end_others(void *self) {
  postgres_db *d = self;
  pthread_mutex_lock(&d->mu);
  trn_status status = command(d,
                              "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> "
                              "pg_backend_pid() AND backend_type = 'client backend'",
                              NULL);
  pthread_mutex_unlock(&d->mu);
  return status;
}
