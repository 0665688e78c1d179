/* A job store in SQL that SQLite and PostgreSQL both understand, over a driver for each. Internal. */
#ifndef TRN_SCHEDULER_STORE_SQL_H
#define TRN_SCHEDULER_STORE_SQL_H
#include "scheduler/scheduler.h"

typedef enum trn_sql_kind { TRN_SQL_NULL = 0, TRN_SQL_INT, TRN_SQL_TEXT, TRN_SQL_BYTES } trn_sql_kind;
typedef struct trn_sql_value {
  trn_sql_kind kind;
  int64_t number;
  const void *data; /* texts: NUL-terminated */
  size_t size;
} trn_sql_value;

/* Values are borrowed during the call, and are of the kinds of the columns. False: enough. */
typedef bool (*trn_sql_row)(void *user, const trn_sql_value *values, size_t count);

typedef struct trn_sql_driver {
  /* The type of bytes, milliseconds since the epoch by the database's clock, text that compares by bytes. */
  const char *bytes_type, *now, *binary;
  /* Everything between the two is done by one thread at a time. `writes`: in one transaction, which `end` commits when
   * `status` is OK, and takes back otherwise; gives the status of it all. */
  trn_status (*begin)(void *self, bool writes, trn_error **error);
  trn_status (*end)(void *self, bool writes, trn_status status, trn_error **error);
  /* Parameters are $1, $2, ... , first used in that order. `kinds`: of the columns that are read, a letter each: i, t,
   * b. `changed`: rows of a statement that changes; may be NULL. ALREADY_EXISTS: a key is taken. */
  trn_status (*run)(void *self, const char *sql, const trn_sql_value *parameters, size_t count, const char *kinds,
                    trn_sql_row row, void *user, int64_t *changed, trn_error **error);
  void (*destroy)(void *self);
} trn_sql_driver;

/* Makes the tables where they are not. Takes `self`, also on failure. */
trn_status trn__sql_job_store_create(const trn_sql_driver *driver, void *self, trn_job_store **out, trn_error **error);
/* What a database says of itself must fit into a line. */
trn_status trn__sql_failed(trn_error **error, trn_status status, const char *text);
void *trn__sql_job_store_driver(void *self); /* the driver's `self` of such a store's `self` */
/* Ends the connections of everybody else to the database, as its restart would: for tests. `driver`: PostgreSQL's. */
trn_status trn__postgres_end_others(void *driver);
/* Steps of SQLite's machine that the store has taken: what tests count instead of time. */
uint64_t trn__sqlite_job_store_steps(trn_job_store *store);

#endif
