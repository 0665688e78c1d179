/* Flight SQL: commands, statements and metadata over the one Flight service.
 *
 *   frontend.c    options, the provider, sessions' state         command.c   which command: info, schema, tickets, puts
 *   statement.c   statements by handle, their life               plan.c      SQL text to plans, either dialect; names
 *   command_of.c  what a text is, as trn_command                  constraint.c keys of CREATE TABLE
 *   update.c      what changes things, exactly once
 *   sql_text.c    tokens, placeholders                           parameter.c Arrow parameters as literals, their types
 *   prepared.c    prepared statements                            ingest.c    bulk ingestion, rows of temporary tables
 *   temporary.c   tables and views of one session
 *   rows.c        small results made here                        metadata.c keys.c sql_info.c xdbc.c   what tools ask
 *   action.c      transactions, cancel, renew, session options     info.c      endpoints, where they are
 *   result.c      results that wait in parts: polling, several endpoints   transaction.c transactions, savepoints
 *   handed.c      results that stay on a cluster's executors
 *
 * Locks, outermost first: service->mutex, session->mutex, statement->mutex, result->mutex. None is held while calling out. */
#ifndef TRN_FRONTEND_FLIGHTSQL_FLIGHTSQL_H
#define TRN_FRONTEND_FLIGHTSQL_FLIGHTSQL_H
#include <trunnion/catalog.h>
#include <trunnion/frontend.h>

#include "arrow/arrow_util.h"
#include "arrow/ipc_read.h"
#include "flight_sql.pb-c.h"
#include "frontend/flight/flight.h"
#include "frontend/spark/plan_sql.h"

#define FLIGHTSQL_PREFIX "type.googleapis.com/arrow.flight.protocol.sql."

typedef struct flightsql_service flightsql_service;
typedef struct flightsql_session flightsql_session;
typedef struct flightsql_statement flightsql_statement;
typedef struct flightsql_result flightsql_result;

typedef enum flightsql_dialect { FLIGHTSQL_ENGINE = 0, FLIGHTSQL_SPARK } flightsql_dialect;

/* ---- frontend.c ---- */

struct flightsql_service {
  flight_service *flight; /* borrowed: it owns us */
  const flight_provider_entry *entry;
  trn_backend *backend;
  flightsql_dialect dialect; /* of new sessions */
  uint64_t result_ms;
  char *spool_directory;
  bool read_only, hands_through; /* the latter: sessions may ask for it */
  pthread_mutex_t mutex;
  uint64_t transaction_ms;
  trn_map *statements;   /* handle -> statement, one reference each */
  trn_map *transactions; /* id -> session, one reference each */
  atomic_size_t waiting_bytes; /* of results in parts that are kept in memory */
};

struct flightsql_session {
  atomic_uint refs;
  flightsql_service *service; /* borrowed */
  trn_session *session;
  struct spark_catalog *views; /* of Spark's dialect */
  char *user;
  bool is_authenticated;
  pthread_mutex_t mutex;
  flightsql_dialect dialect;
  trn_map *temporary; /* name -> flightsql_temporary */
  unsigned endpoints; /* how many a result is asked to have */
  char *locations;    /* of them, a line each; NULL: none */
  bool hands_through; /* results are fetched from the executors that have them */
  unsigned open_count, prepared_count;
  size_t prepared_bytes;
  char fetched[TRN_FLIGHT_FETCHED_MAX][TRN_UUID_SIZE]; /* a ring: results that can be fetched once more */
  unsigned fetched_next;
  bool is_closed;
  /* Of a transaction, which is a session beside `parent`: that has the temporary tables, the limits and the options. */
  flightsql_session *parent; /* one reference; NULL: it is no transaction */
  char id[TRN_UUID_SIZE];
  _Atomic(int64_t) used_ns;
  atomic_uint busy, reading; /* statements that change things and run; results that are sent */
  atomic_bool is_over;
  /* Of a transaction: statements came since its snapshot may have been read; it changed something, or has savepoints; its
   * snapshot was given up, so that what it has read is no ground for changes. */
  atomic_bool was_used, has_changed, is_restarted;
  trn_vec savepoints; /* guarded by mutex */
  flightsql_session *spoken; /* of a session: the transaction that BEGIN began; one reference or NULL; guarded by mutex */
  atomic_uint transaction_count; /* of a session */
};
/* The call's session; borrowed from it. */
trn_status flightsql__session(flightsql_service *service, flight_rpc *rpc, flightsql_session **out, trn_error **error);
flightsql_session *flightsql__session_ref(flightsql_session *session);
void flightsql__session_unref(flightsql_session *session);

/* ---- temporary.c: tables and views of one session ---- */

typedef struct flightsql_temporary flightsql_temporary;
void flightsql__temporary_destroy(void *temporary);
/* What a name of one part means in the session. */
typedef enum flightsql_temporary_kind { FLIGHTSQL_NO_TEMPORARY = 0, FLIGHTSQL_TEMPORARY_TABLE, FLIGHTSQL_TEMPORARY_VIEW } flightsql_temporary_kind;
flightsql_temporary_kind flightsql__temporary_kind(flightsql_session *session, const char *name);
/* As a trn_table_resolver; `depth`: of views. *found false: there is none of that name. */
trn_status flightsql__temporary_resolve(flightsql_session *session, const char *name, unsigned depth, bool *found,
                                        trn_resolved_table *out, trn_error **error);
/* Rows for a table: a source, its schema and the file behind it (or NULL), all three taken in any case. The table is made when
 * there is none and `creates`; what is there is replaced, gets the rows added when `appends`, or is ALREADY_EXISTS. */
typedef struct flightsql_temporary_rows {
  const char *name;
  trn_source *source;
  struct ArrowSchema schema;
  char *spool;
  bool creates, replaces, appends;
} flightsql_temporary_rows;
trn_status flightsql__temporary_put(flightsql_session *session, flightsql_temporary_rows *rows, trn_error **error);
trn_status flightsql__temporary_view(flightsql_session *session, const trn_command *command, trn_error **error);
/* False: it was not there. */
bool flightsql__temporary_remove(flightsql_session *session, const char *name);
/* A copy of a table's columns. */
trn_status flightsql__temporary_schema(flightsql_session *session, const char *name, struct ArrowSchema *out, trn_error **error);
void flightsql__temporary_each(flightsql_session *session,
                               void (*each)(void *user, const char *name, const struct ArrowSchema *schema), void *user);

/* ---- sql_text.c ---- */

typedef enum flightsql_token_kind {
  FLIGHTSQL_WORD = 1,    /* unquoted: a keyword or a name */
  FLIGHTSQL_QUOTED,      /* a quoted name */
  FLIGHTSQL_STRING,      /* a text in single quotes */
  FLIGHTSQL_NUMBER,
  FLIGHTSQL_PLACEHOLDER, /* "?", "$1", "$name", ":name" */
  FLIGHTSQL_SYMBOL
} flightsql_token_kind;
typedef struct flightsql_token {
  flightsql_token_kind kind;
  uint32_t start, size;
  uint32_t parameter; /* of a placeholder: from 0 */
} flightsql_token;
typedef struct flightsql_text {
  const char *data; /* NUL-terminated */
  size_t size;
  flightsql_token *tokens;
  size_t count;
  uint32_t parameter_count;
  const char **names; /* of the parameters, when they have some: parameter_count of them */
  uint32_t name_count;
} flightsql_text;
/* Reads a text into tokens of `arena`. INVALID_ARGUMENT: a quote that does not end; parameters with names and without. A last
 * ";" is dropped. */
trn_status flightsql__text_read(trn_arena *arena, const char *data, size_t size, flightsql_dialect dialect,
                                flightsql_text *out, trn_error **error);
bool flightsql__token_is(const flightsql_text *text, size_t index, const char *word); /* without case; false behind the end */
/* A name or a text without its quotes, in the arena. Words are folded to lower case, as DataFusion and Spark do. */
char *flightsql__token_name(trn_arena *arena, const flightsql_text *text, size_t index);
/* The text from token `from` to before token `to`, placeholders replaced by `literals` (NULL: as they are). */
char *flightsql__text_slice(trn_arena *arena, const flightsql_text *text, size_t from, size_t to,
                            const char *const *literals);
bool flightsql__token_is_name(const flightsql_text *text, size_t index);
/* Behind the bracket that closes the one at `at`; 0: it does not. */
size_t flightsql__text_closing(const flightsql_text *text, size_t at);
/* A name of up to three parts at *at. */
trn_status flightsql__parse_name(trn_arena *arena, const flightsql_text *text, size_t *at, const char ***parts,
                                 size_t *count, trn_error **error);
/* Of INSERT INTO t [(columns)] VALUES (row): where the name begins and ends, where the row is. False: it is another. */
bool flightsql__insert_shape(const flightsql_text *text, size_t *name_end, size_t *columns_at, size_t *row_at,
                             size_t *row_end);

/* ---- plan.c ---- */

/* Plans a query in the session's dialect. thread: worker */
trn_status flightsql__plan(flightsql_session *session, const char *sql, trn_plan **out, trn_error **error);
trn_status flightsql__plan_in(flightsql_session *session, flightsql_dialect dialect, const char *sql, trn_plan **out,
                              trn_error **error);
/* Plans a Substrait plan, which may be shown. */
trn_status flightsql__plan_substrait(flightsql_session *session, const void *data, size_t size, trn_plan **out,
                                     trn_error **error);
flightsql_dialect flightsql__dialect(flightsql_session *session);
/* What a text of the session's dialect means; call its release. What it says of itself was allowed. *saw_temporary:
 * it reads what only the session has. thread: worker */
trn_status flightsql__decode(flightsql_session *session, const char *sql, trn_statement *out, bool *saw_temporary,
                             trn_error **error);
/* Where names of a text are looked up: in the session's namespace (`catalog` NULL), or where a temporary view was made. */
typedef struct flightsql_place {
  flightsql_session *session;
  const char *catalog, *database;
  unsigned depth; /* of temporary views */
  bool saw_temporary; /* set when a name is one of the session's own */
} flightsql_place;
trn_status flightsql__plan_at(flightsql_place *place, const char *sql, trn_plan **out, trn_error **error);
trn_scan_label *flightsql__own_rows(void);
/* A plan that reads all columns of sources with the same ones, one after the other. Borrows; gives `*out`. */
trn_status flightsql__plan_scan(flightsql_session *session, trn_source *const *sources, size_t count,
                                const struct ArrowSchema *schema, trn_plan **out, trn_error **error);
/* The schema of a plan as an encapsulated IPC message. */
trn_status flightsql__plan_schema_ipc(const trn_plan *plan, trn_strbuf *out, trn_error **error);
trn_status flightsql__schema_ipc(const struct ArrowSchema *schema, trn_strbuf *out, trn_error **error);

/* ---- command_of.c: what a text is; constraint.c: what the engine's planner drops of it ---- */

typedef enum flightsql_kind {
  FLIGHTSQL_QUERY = 0,
  FLIGHTSQL_DDL, /* gives no rows */
  FLIGHTSQL_DML  /* gives a count */
} flightsql_kind;
/* What a text is, with parameters' literals put in (NULL: none). Gives the plan of a query, else NULL. Unless `parameters` is
 * NULL, it becomes a copy of what the planner knows of placeholders that are left ("$1"), with a NULL release when it is not
 * told. thread: worker */
trn_status flightsql__classify(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                               const char *const *literals, flightsql_kind *kind, trn_plan **plan,
                               struct ArrowSchema *parameters, trn_error **error);
/* What a statement that is no query means, with parameters' literals put in (NULL: none). Fills `command`, which lives in
 * `arena`, but for what flightsql__command_finish drops in any case. */
typedef struct flightsql_command {
  trn_command command;
  trn_table_info table;
  trn_database_info database;
  struct ArrowSchema schema; /* of an ingestion */
  trn_plan *plan;
  bool is_temporary;     /* CREATE TABLE, VIEW: of the session */
  trn_statement_kind spoken; /* BEGIN, COMMIT, ROLLBACK; else TRN_STATEMENT_QUERY, and there is a command */
  trn_statement decoded; /* what the command's parts are borrowed from */
  const char *short_name; /* of Spark's dialect: the table's, when the text has one of one part; NULL: else */
} flightsql_command;
trn_status flightsql__command(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                              const char *const *literals, flightsql_command *out, trn_error **error);
void flightsql__command_finish(flightsql_command *command);
/* Of CREATE [OR REPLACE] TEMPORARY TABLE or VIEW: where TEMPORARY stands; 0: it is another statement. */
size_t flightsql__temporary_at(const flightsql_text *text);

/* constraint.c: the constraints of CREATE TABLE t (..). */
trn_status flightsql__parse_constraints(trn_arena *arena, const flightsql_text *text, trn_constraint **out, size_t *count,
                                        trn_error **error);

/* ---- parameter.c ---- */

/* Rows of parameters; immutable once they are bound. */
typedef struct flightsql_parameters {
  atomic_uint refs;
  struct ArrowSchema schema;
  struct ArrowArray *batches;
  size_t batch_count;
  int64_t rows;
  trn_strbuf ipc; /* the same as an IPC stream */
} flightsql_parameters;
flightsql_parameters *flightsql__parameters_create(void);
flightsql_parameters *flightsql__parameters_ref(flightsql_parameters *parameters);
void flightsql__parameters_unref(flightsql_parameters *parameters);
/* Adds the Arrow part of a FlightData. RESOURCE_EXHAUSTED over the limits. */
trn_status flightsql__parameters_add(flightsql_parameters *parameters, const flight_data *data, trn_error **error);
/* The literals of one row for the text's parameters, in the arena: by the names of the columns when the parameters have names
 * and one of them is a column's, else by place. INVALID_ARGUMENT: not as many columns as parameters, or others. */
trn_status flightsql__parameters_literals(trn_arena *arena, const flightsql_parameters *parameters, int64_t row,
                                          const flightsql_text *text, flightsql_dialect dialect, const char ***out,
                                          trn_error **error);
/* What the types of a text's placeholders are, as far as the text says: utf8 else. Gives a struct schema, and literals
 * (NULLs of these types) to plan the text with. */
trn_status flightsql__parameter_types(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                                      struct ArrowSchema *out, const char ***nulls, trn_error **error);

/* ---- statement.c ---- */

struct flightsql_statement {
  atomic_uint refs;
  char handle[TRN_UUID_SIZE];
  flightsql_session *session; /* one reference */
  bool is_prepared, is_substrait;
  flightsql_kind kind;
  char *sql; /* or a Substrait plan */
  size_t sql_size;
  uint32_t parameter_count;
  pthread_mutex_t mutex;
  trn_plan *plan;       /* of a query without parameters, or of a query with those that are bound */
  trn_strbuf schema;    /* IPC; of the result */
  trn_strbuf parameter_schema;
  flightsql_parameters *bound; /* of a prepared statement */
  int64_t count;        /* of an update that has run */
  bool has_run, is_cancelled;
  trn_operation *held; /* whose output lies on executors; or NULL */
  trn_vec running;      /* operations, one reference each */
  trn_vec planning;     /* trn_cancel of what is no operation yet, one reference each */
  int64_t expires_ns;   /* of a query whose result waits; guarded by service->mutex */
  flightsql_result *result; /* in parts; fixed before others see the statement. One reference, or NULL */
};
/* Makes one with a new handle, not yet in the table. Copies `sql`. */
trn_status flightsql__statement_create(flightsql_session *session, const char *sql, size_t size,
                                       flightsql_statement **out, trn_error **error);
flightsql_statement *flightsql__statement_ref(flightsql_statement *statement);
void flightsql__statement_unref(flightsql_statement *statement);
/* Into the table; limits are checked. */
trn_status flightsql__statement_publish(flightsql_statement *statement, trn_error **error);
/* By handle, if it is this user's; a query's may have something behind it (flightsql__handle_number). Gives a reference.
 * NOT_FOUND. */
trn_status flightsql__statement_find(flightsql_session *session, const void *handle, size_t size, bool is_prepared,
                                     flightsql_statement **out, trn_error **error);
/* "<handle>:7" is a part, "<handle>?7" a poll that knows seven of them. False: it has no such number. */
bool flightsql__handle_number(const void *handle, size_t size, char mark, size_t *out);
void flightsql__statement_close(flightsql_statement *statement);
void flightsql__statement_renew(flightsql_statement *statement); /* it expires later */
/* Runs the plan, listed as running in the statement: flightsql__statement_ran ends that. The call's trace context goes along.
 * Gives both. */
trn_status flightsql__statement_execute(flightsql_statement *statement, flight_rpc *rpc, trn_operation **operation,
                                        trn_stream **stream, trn_error **error);
/* The same up to where its stream is asked for; `holds`: it may be asked where its output lies instead. */
trn_status flightsql__statement_begin(flightsql_statement *statement, flight_rpc *rpc, bool holds, trn_operation **operation,
                                      trn_error **error);
flightsql_parameters *flightsql__statement_bound(flightsql_statement *statement); /* a reference or NULL */
void flightsql__statement_fetched(flightsql_statement *statement);
bool flightsql__statement_cancel(flightsql_statement *statement); /* true: something was running */
/* Something of the statement is planned, on behalf of a call that has this to be cancelled with. False: cancelled before. */
bool flightsql__statement_plan(flightsql_statement *statement, trn_cancel *cancel);
void flightsql__statement_planned(flightsql_statement *statement, trn_cancel *cancel);
bool flightsql__statement_run(flightsql_statement *statement, trn_operation *operation); /* false: cancelled before */
void flightsql__statement_ran(flightsql_statement *statement, trn_operation *operation);
void flightsql__session_drop_statements(flightsql_service *service, flightsql_session *session); /* NULL: all */
void flightsql__sweep(void *self);

/* ---- transaction.c ---- */

bool flightsql__has_transactions(flightsql_session *session);
/* Who has the temporary tables, options and limits: the session itself, or that of a transaction. Borrowed. */
flightsql_session *flightsql__owner(flightsql_session *session);
/* The transaction with the id (NULL or empty: the one that BEGIN began, else the session itself). Gives a reference. NOT_FOUND;
 * ABORTED: what BEGIN began was rolled back, which the client does not know yet. */
trn_status flightsql__in_transaction(flightsql_session *session, const ProtobufCBinaryData *id, flightsql_session **out,
                                     trn_error **error);
/* For calls that cannot say so: the one transaction of the session, else the session itself. A reference. */
flightsql_session *flightsql__joined(flightsql_session *session);
/* What a prepared statement runs in: its own transaction, or when that is over what flightsql__joined says. A reference. */
flightsql_session *flightsql__current(flightsql_session *session);
trn_status flightsql__transaction_begin(flightsql_session *session, char id[TRN_UUID_SIZE], trn_error **error);
trn_status flightsql__transaction_end(flightsql_session *session, const ProtobufCBinaryData *id, bool is_commit,
                                      trn_error **error);
/* BEGIN, COMMIT and ROLLBACK as statements, which need no id. `from`: the session that the statement is of. */
trn_status flightsql__transaction_spoken(flightsql_session *from, trn_statement_kind kind, trn_error **error);
trn_status flightsql__savepoint_begin(flightsql_session *transaction, char id[TRN_UUID_SIZE], trn_error **error);
trn_status flightsql__savepoint_end(flightsql_session *session, const ProtobufCBinaryData *id, bool is_release,
                                    trn_error **error);
void flightsql__transactions_drop(flightsql_service *service, const flightsql_session *session); /* NULL: all */
/* Another session of the same user (its transaction, the one that made its statement) gets the groups that he has now. */
trn_status flightsql__share_groups(const flightsql_session *session, flightsql_session *other, trn_error **error);
/* The session's transactions get the groups that its user has now. */
trn_status flightsql__transactions_set_groups(flightsql_session *session, trn_error **error);
void flightsql__transactions_sweep(flightsql_service *service);
void flightsql__transaction_finish(flightsql_session *transaction);

/* ---- info.c ---- */

/* A part of a result that lies elsewhere. */
typedef struct flightsql_part {
  char *uri;
  ProtobufCBinaryData ticket;
} flightsql_part;
typedef struct flightsql_info {
  trn_str command;                /* of the descriptor that was asked for */
  flightsql_statement *statement; /* NULL: metadata, whose command is its ticket */
  const trn_strbuf *schema;       /* of metadata */
  bool is_poll;
  bool is_complete;      /* of a result in parts: there are no more */
  flightsql_part *const *parts; /* of a result that lies elsewhere, part_count of them; else NULL */
  size_t part_count;     /* of a result in parts */
  int64_t rows, bytes;   /* of one that is complete */
  uint64_t expires_in_ms;
} flightsql_info;
trn_status flightsql__reply_info(flight_rpc *rpc, const flightsql_info *info, trn_error **error);

/* ---- handed.c ---- */

/* Runs the statement, publishes it, and answers when it is known where its parts lie. */
trn_status flightsql__handed_start(flightsql_statement *statement, flight_rpc *rpc, trn_str command, trn_error **error);

/* ---- result.c ---- */

/* Starts the statement's query and keeps what it gives, for `goal` endpoints at its end (0: parts as they come). Before the
 * statement is published. */
trn_status flightsql__result_start(flightsql_statement *statement, flight_rpc *rpc, size_t goal, trn_error **error);
/* Answers the call when there is news for a client that knows `seen` parts (SIZE_MAX: it asks for the first time), or a while
 * has passed; unless `is_poll`, when all is there. OK: it will answer. */
trn_status flightsql__result_wait(flightsql_statement *statement, flight_rpc *rpc, trn_str command, bool is_poll, size_t seen,
                                  trn_error **error);
bool flightsql__result_is_over(flightsql_result *result);
/* The messages of a part. Gives `*out`. NOT_FOUND. */
trn_status flightsql__result_open(flightsql_result *result, size_t index, trn_stream **out, trn_error **error);
bool flightsql__result_fetched(flightsql_result *result, size_t index); /* true: that was the last one */
void flightsql__result_unref(flightsql_result *result);

/* ---- update.c ---- */

/* Called once, on a worker or an engine thread. `error` is borrowed. */
typedef void (*flightsql_updated)(void *user, trn_status status, const trn_error *error, int64_t count);
/* Runs a statement that changes things, once per row of `parameters` (NULL: once without any), in the order of rows. Takes
 * references. The call's end cancels it. `statement` may be NULL; what runs is listed in it. */
void flightsql__update(flightsql_session *session, flight_rpc *rpc, flightsql_statement *statement, const char *sql,
                       size_t size, flightsql_parameters *parameters, flightsql_updated done, void *user);
/* Runs a command that is ready; the same. Takes the command's contents (arena and all). */
void flightsql__update_command(flightsql_session *session, flight_rpc *rpc, trn_arena *arena, flightsql_command *command,
                               flightsql_updated done, void *user);

/* ---- prepared.c ---- */
trn_status flightsql__prepared_create(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error);
trn_status flightsql__prepared_substrait(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error);
trn_status flightsql__prepared_close(void *self, flight_rpc *rpc, const void *body, size_t size, trn_error **error);
/* A query for one execution of a prepared statement, with what is bound. Gives a statement, not published. */
trn_status flightsql__prepared_execution(flightsql_session *session, flightsql_statement *prepared,
                                         flightsql_statement **out, trn_error **error);

/* ---- rows.c: small results made here ---- */

typedef struct flightsql_rows {
  struct ArrowSchema schema;
  trn_array_builder *builder;
  flight_rpc *rpc; /* batches go there as they fill; NULL: nothing is sent */
  size_t bytes;    /* of the batch that grows, about */
  bool has_sent_schema;
  trn_status status;
  trn_error *error;
} flightsql_rows;
/* Columns from "name:type name:type ...": u utf8, i int32, l int64, b bool, y binary, c uint8, U uint32, a list of utf8; '!'
 * behind it: not null. */
trn_status flightsql__rows_init(flightsql_rows *rows, const char *spec, trn_error **error);
trn_array_builder *flightsql__rows_column(flightsql_rows *rows, size_t index);
void flightsql__rows_text(flightsql_rows *rows, size_t column, const char *text); /* NULL: null */
void flightsql__rows_int(flightsql_rows *rows, size_t column, int64_t value);
void flightsql__rows_null(flightsql_rows *rows, size_t column);
void flightsql__rows_end(flightsql_rows *rows); /* of a row */
/* Sends what is left, schema first, and ends the call. */
trn_status flightsql__rows_send(flightsql_rows *rows, trn_error **error);
void flightsql__rows_finish(flightsql_rows *rows);

/* ---- metadata ---- */

/* A metadata command: its columns, and its rows. */
typedef trn_status (*flightsql_fill)(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                     trn_error **error);
trn_status flightsql__fill_catalogs(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                    trn_error **error);
trn_status flightsql__fill_db_schemas(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                      trn_error **error);
trn_status flightsql__fill_tables(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                  trn_error **error);
trn_status flightsql__fill_table_types(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                       trn_error **error);
trn_status flightsql__fill_primary_keys(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                        trn_error **error);
trn_status flightsql__fill_exported_keys(flightsql_session *session, flightsql_rows *rows,
                                         const ProtobufCMessage *command, trn_error **error);
trn_status flightsql__fill_imported_keys(flightsql_session *session, flightsql_rows *rows,
                                         const ProtobufCMessage *command, trn_error **error);
trn_status flightsql__fill_cross_reference(flightsql_session *session, flightsql_rows *rows,
                                           const ProtobufCMessage *command, trn_error **error);
trn_status flightsql__fill_xdbc(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                trn_error **error);
#define FLIGHTSQL_TABLES "catalog_name:u db_schema_name:u table_name:u! table_type:u!"
#define FLIGHTSQL_PRIMARY_KEYS                                                                                         \
  "catalog_name:u db_schema_name:u table_name:u! column_name:u! key_sequence:i! key_name:u"
#define FLIGHTSQL_KEYS                                                                                                 \
  "pk_catalog_name:u pk_db_schema_name:u pk_table_name:u! pk_column_name:u! fk_catalog_name:u fk_db_schema_name:u "    \
  "fk_table_name:u! fk_column_name:u! key_sequence:i! fk_key_name:u pk_key_name:u update_rule:c! delete_rule:c!"
#define FLIGHTSQL_XDBC                                                                                                 \
  "type_name:u! data_type:i! column_size:i literal_prefix:u literal_suffix:u create_params:a nullable:i! "             \
  "case_sensitive:b! searchable:i! unsigned_attribute:b fixed_prec_scale:b! auto_increment:b local_type_name:u "       \
  "minimum_scale:i maximum_scale:i sql_data_type:i! datetime_subcode:i num_prec_radix:i interval_precision:i"
/* SQL's LIKE: % and _, no escape. NULL pattern: everything. */
bool flightsql__like(const char *pattern, const char *text);

/* GetSqlInfo has a union, which the rows above do not do. `infos` empty: all. Appends the schema; the batch when `batch`. */
trn_status flightsql__sql_info(flightsql_session *session, const uint32_t *infos, size_t count, trn_strbuf *schema,
                               trn_strbuf *batch, trn_error **error);

/* ---- ingest.c ---- */
typedef struct flightsql_ingest flightsql_ingest;
trn_status flightsql__ingest_open(flightsql_session *session, flight_rpc *rpc,
                                  const Arrow__Flight__Protocol__Sql__CommandStatementIngest *command,
                                  flightsql_ingest **out, trn_error **error);
trn_status flightsql__ingest_data(flightsql_ingest *ingest, const flight_data *data, trn_error **error);
trn_status flightsql__ingest_end(flightsql_ingest *ingest, trn_error **error);
void flightsql__ingest_drop(flightsql_ingest *ingest);
/* Rows of a temporary table: opens a spool, NULL in *out when the table is there already and that is right; IPC messages are added
 * (its schema only when it has a query); then the session gets it. The command makes the table, or writes to it. */
trn_status flightsql__temporary_open(flightsql_session *session, const trn_command *command, flightsql_ingest **out,
                                     trn_error **error);
trn_status flightsql__temporary_add(flightsql_ingest *ingest, const void *data, size_t size, trn_error **error);
trn_status flightsql__temporary_keep(flightsql_ingest *ingest, trn_error **error);

/* ---- command.c ---- */
bool flightsql__claims(void *self, const void *command, size_t size);
trn_status flightsql__get_flight_info(void *self, flight_rpc *rpc,
                                      const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error);
trn_status flightsql__poll_flight_info(void *self, flight_rpc *rpc,
                                       const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error);
trn_status flightsql__get_schema(void *self, flight_rpc *rpc,
                                 const Arrow__Flight__Protocol__FlightDescriptor *descriptor, trn_error **error);
trn_status flightsql__do_get(void *self, flight_rpc *rpc, const void *ticket, size_t size, trn_error **error);
/* put.c */
trn_status flightsql__put_open(void *self, flight_rpc *rpc, const void *command, size_t size, void **put,
                               trn_error **error);
trn_status flightsql__put_data(void *self, void *put, const flight_data *data, trn_error **error);
trn_status flightsql__put_end(void *self, void *put, trn_error **error);
void flightsql__put_drop(void *self, void *put);
/* An Any of this surface: the name behind the prefix, the value. False: it is none. */
bool flightsql__unwrap(const void *data, size_t size, char name[64], trn_str *value);
/* Answers with one Result that wraps a message in an Any (NULL type: bare), then OK. */
trn_status flightsql__reply_result(flight_rpc *rpc, const char *type, const ProtobufCMessage *message,
                                   trn_error **error);
trn_status flightsql__reply_put(flight_rpc *rpc, const ProtobufCMessage *message, trn_error **error);

/* ---- action.c ---- */
extern const flight_action flightsql__actions[];
extern const size_t flightsql__action_count;

#endif
