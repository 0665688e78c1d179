/* The backend: what Trunnion asks of whoever runs queries. */
#include "embed.h"
#include <stdio.h>

struct trn_source { /* a table that a plan reads; the plan's SQL text names it, so there is nothing else to know */
  atomic_uint refs;
};

trn_status embed_failed(sqlite3 *db, int code, trn_error **error) {
  const char *text = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  /* What the SQL text says when values leave their range: docs/embedding.md. */
  if (strcmp(text, "integer overflow") == 0)
    return trn_error_set(error, TRN_OUT_OF_RANGE, "ARITHMETIC_OVERFLOW", "a number is too large for its type");
  if (strcmp(text, "malformed JSON") == 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, "DIVIDE_BY_ZERO", "division by zero");
  switch (code & 0xff) {
  case SQLITE_INTERRUPT: return trn_error_set(error, TRN_CANCELLED, NULL, "the query was cancelled");
  case SQLITE_NOMEM: return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  case SQLITE_BUSY: return trn_error_set(error, TRN_UNAVAILABLE, NULL, "the database is locked");
  case SQLITE_CANTOPEN: return trn_error_set(error, TRN_NOT_FOUND, NULL, "the database cannot be opened");
  default: return trn_error_set(error, TRN_INTERNAL, NULL, "SQLite: %s", text);
  }
}

trn_status embed_open(const char *path, sqlite3 **out, trn_error **error) {
  int code = sqlite3_open_v2(path, out, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
  if (!code) code = sqlite3_busy_timeout(*out, 5000);
  if (!code) return TRN_OK;
  trn_status status = embed_failed(*out, code, error);
  sqlite3_close(*out);
  *out = NULL;
  return status;
}

static trn_status open_session(void *self, trn_session *session, void **state, trn_error **error) {
  (void)session, (void)error;
  *state = self; /* sessions have nothing of their own here */
  return TRN_OK;
}

static void close_session(void *self, void *state) {
  (void)self, (void)state;
}

trn_status embed_source_create(trn_source **out) {
  *out = malloc(sizeof **out);
  if (!*out) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&(*out)->refs, 1);
  return TRN_OK;
}

/* Files that clients name do not exist for this server; its tables are opened by the catalog. */
static trn_status open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  (void)self, (void)state, (void)out, (void)schema;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this server reads its own tables, no %s", request->format);
}

static trn_source *source_ref(void *self, trn_source *source) {
  (void)self;
  atomic_fetch_add(&source->refs, 1);
  return source;
}

static void source_unref(void *self, trn_source *source) {
  (void)self;
  if (atomic_fetch_sub(&source->refs, 1) == 1) free(source);
}

static trn_status execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  (void)state;
  char *sql;
  trn_status status = trn_plan_to_sql(request->plan, "sqlite", &sql, error);
  return status ? status : embed_execute(self, sql, request, out, error);
}

static trn_status explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out, trn_error **error) {
  (void)state;
  const embed *e = self;
  return mode == TRN_EXPLAIN_LOGICAL ? trn_plan_print(plan, out) : trn_plan_to_sql(plan, e->explained, out, error);
}

static trn_status encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out, trn_error **error) {
  (void)self, (void)state;
  char *sql;
  if (strcmp(format, "sql.sqlite") != 0)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the format %s is not known; known: sql.sqlite", format);
  trn_status status = trn_plan_to_sql(plan, "sqlite", &sql, error);
  if (!status) *out = (trn_bytes){.data = sql, .size = strlen(sql), .release = trn_free, .owner = sql};
  return status;
}

static void destroy(void *self) {
  (void)self; /* main owns it */
}

trn_status embed_backend_create(embed *e, trn_backend **out, trn_error **error) {
  static const trn_backend_ops ops = {.struct_size = sizeof ops,
                                      .open_session = open_session,
                                      .close_session = close_session,
                                      .open_source = open_source,
                                      .source_ref = source_ref,
                                      .source_unref = source_unref,
                                      .execute = execute,
                                      .explain = explain,
                                      .encode = encode,
                                      .destroy = destroy};
  trn_status status = trn_backend_create(&ops, e, out);
  return status ? trn_error_set(error, status, NULL, "the backend cannot be made") : TRN_OK;
}

void embed_wait(embed *e) {
  pthread_mutex_lock(&e->mu);
  while (e->running) pthread_cond_wait(&e->changed, &e->mu);
  pthread_mutex_unlock(&e->mu);
}
