/* A server of a program's own around Trunnion: Spark Connect in front, SQLite behind. docs/embedding.md walks through it. */
#ifndef EMBED_H
#define EMBED_H
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/trunnion.h>

enum { EMBED_ROWS = 8192, EMBED_QUERIES_MAX = 64 }; /* in a batch; at once */

/* The backend: queries that run and how to wait for their end. */
typedef struct embed {
  char *path; /* of the database */
  const char *explained; /* the dialect in which EXPLAIN shows a plan */
  pthread_mutex_t mu;
  pthread_cond_t changed;
  unsigned running; /* guarded by mu */
} embed;

/* backend.c: a backend over `e`, which outlives it. */
trn_status embed_backend_create(embed *e, trn_backend **out, trn_error **error);
trn_status embed_source_create(trn_source **out);
void embed_wait(embed *e); /* until no query runs */
trn_status embed_open(const char *path, sqlite3 **out, trn_error **error); /* read only */
trn_status embed_failed(sqlite3 *db, int code, trn_error **error);

/* query.c: one query that runs on a thread of its own. `sql` is taken (trn_free). */
trn_status embed_execute(embed *e, char *sql, const trn_execute_request *request, trn_operation **out, trn_error **error);

/* rows.c: result rows to Arrow. */
typedef struct embed_rows embed_rows;
trn_status embed_rows_create(const struct ArrowSchema *schema, embed_rows **out, trn_error **error);
trn_status embed_rows_add(embed_rows *rows, sqlite3_stmt *row, trn_error **error);
/* What was added becomes a struct array; the rows are empty afterwards. */
trn_status embed_rows_finish(embed_rows *rows, struct ArrowArray *out, trn_error **error);
void embed_rows_destroy(embed_rows *rows);
/* The Arrow format of a declared type; false: not known here. */
bool embed_format(const char *declared, char out[32]);
trn_status embed_schema(sqlite3 *db, const char *table, struct ArrowSchema *out, trn_error **error);
trn_status embed_schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out);

/* catalog.c: the database's tables as a catalog. */
trn_status embed_catalog_create(embed *e, trn_catalog **out);

/* users.c: who may come, and read what. */
typedef struct embed_users embed_users;
trn_status embed_users_open(const char *path, embed_users **out, trn_error **error);
void embed_users_close(embed_users *users);
trn_status embed_authenticator(embed_users *users, trn_authenticator **out);
trn_status embed_decide(void *user, const trn_access *access, trn_error **error);

#endif
