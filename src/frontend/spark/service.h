/* The Spark Connect service: one spark_service per mounted frontend, sessions in it, executions in those.
 *
 *   frontend.c      mounting, one spark_rpc per call, dispatch to workers     wire.c      checks before protobuf-c
 *   session.c       sessions by (user, session id)                            config.c    settings and their defaults
 *   execute.c       ExecutePlan, ReattachExecute, ReleaseExecute              command.c sql_answer.c   commands,
 * spark.sql response_log.c  responses kept until released; feeds the attached call    producer.c  fills it from a
 * result stream show.c catalog_table.c views.c table.c   small results made here (Arrow IPC)      analyze.c AnalyzePlan
 *   interrupt.c     interrupt, status, release, clone, error details          error.c     trn_error -> Spark's form
 *
 * Locks, outermost first: service->mutex, session->mutex, execution->mutex. None is held while calling out. */
#ifndef TRN_FRONTEND_SPARK_SERVICE_H
#define TRN_FRONTEND_SPARK_SERVICE_H
#include <pthread.h>

#include <trunnion/call.h>
#include <trunnion/catalog.h>
#include <trunnion/frontend.h>

#include "core/core.h"
#include "core/gate.h"
#include "frontend/spark/translate/translate.h"

#define SPARK_CONNECT_VERSION "4.2.0"

typedef struct spark_service spark_service;
typedef struct spark_session spark_session;
typedef struct spark_execution spark_execution;
typedef struct spark_rpc spark_rpc;
typedef struct spark_failure spark_failure;
struct spark_sql_statement; /* sql/sql.h */

/* ---- wire.c ---- */

/* Checks `size` bytes against a descriptor, without recursion: nesting, number of messages, truncation, groups, members
 * of our own (numbers >= 2000), UTF-8 and NUL in texts. CONNECT_INVALID_PLAN.CANNOT_PARSE says what is wrong. */
trn_status spark__wire_check(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                             trn_error **error);
/* Checks, then decodes into `arena`. The result borrows nothing from `data`. */
trn_status spark__wire_decode(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const void *data,
                              size_t size, ProtobufCMessage **out, trn_error **error);

/* ---- error.c ---- */

/* Where an error came up: decides the exception class and how the position in the SQL text is shown. */
typedef enum spark_phase {
  SPARK_PHASE_PROTOCOL = 0,
  SPARK_PHASE_PARSE,
  SPARK_PHASE_ANALYSIS,
  SPARK_PHASE_EXECUTION
} spark_phase;

/* An error as a client sees it. Lives in its own arena; immutable. */
struct spark_failure {
  trn_arena *arena;
  char error_id[TRN_UUID_SIZE];     /* or empty */
  const char *message;              /* as FetchErrorDetails gives it */
  const char *wire_message;         /* cut, as the call's status carries it */
  const char *const *classes;       /* ends with NULL */
  const char *condition, *sqlstate; /* or NULL */
  const trn_kv *params;
  size_t param_count;
  bool has_context; /* in a SQL text */
  int32_t start, stop;
  const char *fragment, *summary;
  const void *details; /* google.rpc.Status */
  size_t details_size;
};
/* NULL: out of memory. `error` may be NULL (out of memory where it came up). `sql`: the text that its position means.
 * `is_kept`: with an id for FetchErrorDetails; then a session must keep it. */
spark_failure *spark__failure_create(trn_status status, const trn_error *error, spark_phase phase, const char *sql,
                                     bool is_kept);
spark_failure *spark__failure_ref(spark_failure *failure);
void spark__failure_unref(spark_failure *failure);
/* Ends the call with it; NULL: out of memory. */
void spark__call_fail(trn_call *call, const spark_failure *failure);
/* An error with a condition and up to three parameters (NULL keys end the list). Returns `status`. */
/* Whether there is a condition of the name, or one below it: UNRESOLVED_COLUMN. */
bool spark__condition_exists(const char *condition);
trn_status spark__raise(trn_error **error, trn_status status, const char *condition, const char *key1,
                        const char *value1, const char *key2, const char *value2, const char *key3, const char *value3);
/* CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET / _NOT_SUPPORTED, named as Spark names them. */
trn_status spark__error_not_set(trn_error **error, const char *full_name, const char *name);
trn_status spark__error_not_supported(trn_error **error, const ProtobufCMessage *message, int number);
/* The template and SQLSTATE of a condition; false: unknown. */
bool spark__condition_find(const char *condition, const char **sqlstate, const char **text);
/* `text` as a JSON string with its quotes. */
void spark__json_string(trn_strbuf *out, const char *text);

/* ---- the service (frontend.c) ---- */

struct spark_service {
  atomic_uint refs;
  const trn_registry *registry; /* borrowed; NULL: none */
  trn_backend *backend;
  trn_pool *pool;    /* decodes, translates, plans: ExecutePlan, AnalyzePlan */
  trn_pool *control; /* everything else, and the clock: never behind a plan that takes long */
  uint64_t session_idle_ms, detached_ms, stream_ms;
  size_t response_log_bytes;
  char *timezone; /* or NULL */
  pthread_mutex_t mutex;
  trn_gate gate;        /* producers with something outstanding */
  trn_map *sessions;    /* key -> spark_session, one reference each */
  trn_map *closed;      /* keys of closed sessions -> service itself; the oldest are forgotten */
  bool has_session_timer, has_execution_timer;
};
spark_service *spark__service_ref(spark_service *service);
void spark__service_unref(spark_service *service);
/* Periodic work: idle sessions; detached executions, heartbeats. thread: worker */
void spark__service_sweep_sessions(spark_service *service);
bool spark__service_sweep_executions(spark_service *service); /* false: there are none */
void spark__service_need_execution_timer(spark_service *service);
void spark__service_need_session_timer(spark_service *service);

/* One call. Made in on_open, one reference of the host's callbacks until on_done. */
struct spark_rpc {
  atomic_uint refs;
  spark_service *service; /* one reference */
  trn_call *call;         /* one reference */
  const struct spark_method *method;
  trn_slice message;
  trn_arena *arena;                     /* of the request, on the worker */
  spark_session *session;               /* found by the handler: errors are kept there; one reference */
  spark_phase phase;                    /* where the handler is, for its errors */
  const char *sql;                      /* the text that positions mean; in `arena` */
  const Spark__Connect__SQL *parameters; /* what :name and ? of a statement mean; in `arena`, or NULL */
  unsigned immediate_depth;             /* EXECUTE IMMEDIATE inside of each other */
  const struct spark_locals *locals;    /* variables of the script that runs, where it is; or NULL */
  _Atomic(spark_execution *) execution; /* set once by attach; one reference */
  atomic_bool gone;                     /* cancelled or done */
  trn_cancel *cancel;                   /* of the planning of what is no execution; requested when it is gone */
  atomic_uint writable;                 /* counts on_writable */
};
spark_rpc *spark__rpc_ref(spark_rpc *rpc);
void spark__rpc_unref(spark_rpc *rpc);
/* What is requested when nobody wants what the handler plans. Borrowed. */
trn_cancel *spark__rpc_cancel(spark_rpc *rpc);
/* Sends one message and ends the call with OK. */
trn_status spark__rpc_reply(spark_rpc *rpc, const ProtobufCMessage *reply, trn_error **error);

/* A handler runs on a worker. OK: it answered, or attached the call; else the dispatcher fails the call. */
typedef struct spark_method {
  const char *path;
  trn_method_kind kind;
  const ProtobufCMessageDescriptor *request;
  trn_status (*handle)(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
  bool is_work; /* runs in service->pool */
} spark_method;

trn_status spark__handle_execute(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_reattach(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_release_execute(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_analyze(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_config(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_artifact_status(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_interrupt(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_release_session(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_fetch_error_details(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_clone_session(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);
trn_status spark__handle_get_status(spark_rpc *rpc, ProtobufCMessage *request, trn_error **error);

/* ---- session.c ---- */

enum { SPARK_FINISHED_MAX = 64, SPARK_FAILURES_MAX = 64 };

typedef struct spark_finished {
  char id[TRN_UUID_SIZE];
  uint8_t state; /* Spark__Connect__GetStatusResponse__OperationStatus__OperationState */
} spark_finished;

struct spark_session {
  atomic_uint refs;
  spark_service *service; /* one reference */
  char *key, *user;
  char id[TRN_UUID_SIZE];
  const char *server_id; /* of `session` */
  trn_session *session;
  spark_catalog *catalog;
  pthread_mutex_t mutex;
  trn_map *executions; /* operation id -> spark_execution, one reference each */
  trn_map *views;      /* names of temporary views, as Spark lists them -> a copy of the name */
  trn_map *storage;    /* hexadecimal fingerprint of a persisted plan -> its level as number + 1 */
  spark_failure *failures[SPARK_FAILURES_MAX]; /* a ring of the latest */
  unsigned failure_next;
  spark_finished finished[SPARK_FINISHED_MAX]; /* a ring: executions that are gone */
  unsigned finished_next;
  int64_t used_ns;
  bool is_closed;
};

/* What every request carries. `observed` may be NULL. */
typedef struct spark_session_key {
  const char *session_id;
  const Spark__Connect__UserContext *user;
  const char *observed;
} spark_session_key;
#define SPARK_SESSION_KEY(request)                                                                                     \
  ((spark_session_key){(request)->session_id, (request)->user_context,                                                 \
                       (request)->_client_observed_server_side_session_id_case                                         \
                           ? (request)->client_observed_server_side_session_id                                         \
                           : NULL})
/* Finds the session, or makes it when `create`. Gives rpc->session. INVALID_HANDLE.FORMAT, .SESSION_CLOSED,
 * .SESSION_NOT_FOUND, .SESSION_CHANGED; RESOURCE_EXHAUSTED. */
trn_status spark__session_enter(spark_rpc *rpc, spark_session_key key, bool create, trn_error **error);
/* Makes a copy of rpc->session (settings, views) under a new id. Gives `*out`. */
trn_status spark__session_clone(spark_rpc *rpc, const char *new_id, spark_session **out, trn_error **error);
/* Takes it out of the service; its executions are cancelled. Remembered as closed unless `forget`. NULL: there was
 * none. */
void spark__session_close(spark_rpc *rpc, spark_session_key key, bool forget, spark_session **out);
/* Temporary views: kept by the catalog, their names here. `is_global`: in the database global_temp. */
trn_status spark__session_set_view(spark_session *session, const char *name, bool is_global,
                                   const Spark__Connect__Relation *relation, bool replace, trn_error **error);
bool spark__session_drop_view(spark_session *session, const char *name, bool is_global);
bool spark__session_has_view(spark_session *session, const char *name);
/* Copies of the names in order (free each and the vector). False: out of memory. */
bool spark__session_views(spark_session *session, trn_vec *out);
trn_status spark__session_copy_views(spark_session *from, spark_session *to, trn_error **error);
void spark__session_shut(spark_session *session); /* cancels what runs */
spark_session *spark__session_ref(spark_session *session);
void spark__session_unref(spark_session *session);
void spark__session_keep_failure(spark_session *session, spark_failure *failure);
spark_failure *spark__session_failure(spark_session *session, const char *error_id); /* a reference or NULL */
spark_execution *spark__session_execution(spark_session *session, const char *id);   /* a reference or NULL */
/* Takes a copy of all references; the caller unrefs them and finishes the vector. */
bool spark__session_executions(spark_session *session, trn_vec *out);
/* Refused while an execution of that id runs, over the limit, or when closed. */
trn_status spark__session_add_execution(spark_session *session, spark_execution *execution, trn_error **error);
void spark__session_remove_execution(spark_session *session, spark_execution *execution);

/* ---- config.c ---- */

typedef struct spark_config_default {
  const char *key;
  const char *value; /* NULL: no default; "<value of other.key>" */
  char type;         /* 'b' boolean, 'i' integer, 'd' number, 's' text */
  bool is_static;
} spark_config_default;
const spark_config_default *spark__config_default(const char *key);
/* The set value, else the default; gives `*out` (trn_free), NULL when it has no value. False: unknown key. */
bool spark__config_get(spark_session *session, const char *key, char **out);
/* Checks and sets. `*warning` (may be NULL as a pointer): static text or NULL. */
trn_status spark__config_set(spark_session *session, const char *key, const char *value, const char **warning,
                             trn_error **error);
trn_status spark__config_unset(spark_session *session, const char *key, trn_error **error);
bool spark__config_bool(spark_session *session, const char *key);

/* ---- table.c: small results made here ---- */

/* Columns are STRING, BOOL, INT64 or ARRAY of STRING. */
typedef struct spark_cell {
  bool is_null;
  int64_t integer;  /* BOOL, INT64 */
  const char *text; /* STRING */
  size_t text_size;
  const char *const *items; /* ARRAY */
  size_t item_count;
} spark_cell;
typedef struct spark_table {
  trn_arena *arena; /* borrowed */
  const trn_field *fields;
  size_t column_count;
  size_t row_count, row_capacity;
  spark_cell *cells; /* row by row */
} spark_table;
/* No rows; columns from "name:type name:type ...": type s text, b boolean, a array of texts; '!' behind it: not
 * nullable. */
trn_status spark__table_init(spark_table *table, trn_arena *arena, const char *spec);
/* A row of null cells to be filled in; NULL: out of memory. */
spark_cell *spark__table_add(spark_table *table);
spark_cell spark__cell_text(const char *text); /* NULL: null */
spark_cell spark__cell_bool(bool value);

/* Bytes on the heap, shared. */
typedef struct spark_bytes {
  atomic_uint refs;
  size_t size;
  uint8_t data[];
} spark_bytes;
spark_bytes *spark__bytes_create(const void *data, size_t size);
spark_bytes *spark__bytes_ref(spark_bytes *bytes);
void spark__bytes_unref(spark_bytes *bytes);
/* The encapsulated IPC messages of a table: schema and one record batch. NULL: out of memory. */
spark_bytes *spark__table_schema_ipc(const spark_table *table);
spark_bytes *spark__table_batch_ipc(const spark_table *table);
/* A whole IPC stream, in `table->arena`. */
trn_status spark__table_stream(const spark_table *table, ProtobufCBinaryData *out);
/* A record batch of no rows for any schema. */
spark_bytes *spark__empty_batch_ipc(const struct ArrowSchema *schema);

/* ---- catalog_table.c: Relation.catalog ---- */
/* Runs the operation and gives its rows, in rpc->arena. */
trn_status spark__catalog_run(spark_rpc *rpc, const Spark__Connect__Catalog *catalog, spark_table *out,
                              trn_error **error);
/* The table that createTable and createExternalTable make; NULL: it is something else. */
static inline const char *spark__created_table(const Spark__Connect__Catalog *catalog) {
  if (catalog->cat_type_case == SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_TABLE) return catalog->create_table->table_name;
  if (catalog->cat_type_case == SPARK__CONNECT__CATALOG__CAT_TYPE_CREATE_EXTERNAL_TABLE)
    return catalog->create_external_table->table_name;
  return NULL;
}
/* Only the columns. CONNECT_INVALID_PLAN names an operation that is not served. */
trn_status spark__catalog_columns(trn_arena *arena, const Spark__Connect__Catalog *catalog, spark_table *out,
                                  trn_error **error);
/* Spark's patterns: '*' anything, '|' alternatives, letters of either case. NULL matches everything. */
bool spark__pattern_matches(const char *pattern, const char *text);
trn_status spark__check_database(spark_rpc *rpc, const char *name, trn_error **error); /* SCHEMA_NOT_FOUND */
/* The plan that reads a table or view. */
trn_status spark__plan_table(spark_rpc *rpc, const char *name, trn_plan **out, trn_error **error);
/* A row per field: the name in column 0, the type's text, whether it is nullable (other booleans behind that: false).
 */
trn_status spark__add_columns(spark_table *table, const trn_field *fields, size_t count, size_t type_column,
                              size_t nullable_column);

/* ---- write.c: df.write ---- */
trn_status spark__write_run(spark_rpc *rpc, spark_execution *execution,
                            const Spark__Connect__WriteOperation *operation, trn_error **error);
/* producer.c: runs the plan, drops its rows, then commits the write, or aborts it when the run fails. Takes both, also on
 * failure. */
trn_status spark__execution_run_write(spark_execution *execution, trn_plan *plan, trn_table_write *write,
                                      trn_error **error); /* of a script: waits, and does not end the execution */

/* ---- sql_answer.c: SHOW, DESCRIBE, EXPLAIN ---- */
/* The rows of a statement that the SQL parser gave as a command of ours. */
trn_status spark__sql_answer(spark_rpc *rpc, const Spark__Connect__Command *command, spark_table *out,
                             trn_error **error);

/* ---- analyze.c ---- */
/* Appends what df.explain shows. mode: "simple", "extended", "codegen", "cost", "formatted". */
trn_status spark__explain(spark_rpc *rpc, const Spark__Connect__Relation *relation, const char *mode, trn_strbuf *out,
                          trn_error **error);

/* ---- show.c ---- */
typedef struct spark_show {
  int32_t rows, truncate;
  bool vertical, html;
} spark_show;
/* Rows collected for show: cells[row * column_count + column], NUL-terminated UTF-8. */
char *spark__show_format(const spark_show *show, const char *const *names, size_t column_count,
                         const char *const *cells, size_t row_count, bool has_more, size_t *size);
/* Adds limit and casts to a translated plan. Gives a new plan. Takes `plan` on success and failure. */
trn_status spark__show_plan(spark_session *session, trn_plan *plan, const spark_show *show, trn_plan **out,
                            trn_error **error);
/* Appends one value of a column of spark__show_plan. */
trn_status spark__show_cell(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int64_t row);

/* ---- response_log.c ---- */

/* The data of an arrow_batch: schema message, batch, end mark. Shared by the messages it is cut into. */
typedef struct spark_batch {
  atomic_uint refs;
  spark_bytes *schema, *body; /* references; body: or NULL with a piece */
  trn_ipc_piece piece;
  size_t size;
  size_t slice_count;
  trn_slice slices[];
} spark_batch;
spark_batch *spark__batch_from_piece(spark_bytes *schema, trn_ipc_piece *piece); /* takes the piece, also on failure */
spark_batch *spark__batch_from_bytes(spark_bytes *schema, spark_bytes *body);    /* takes references of its own */
void spark__batch_unref(spark_batch *batch);

typedef struct spark_response {
  atomic_uint refs;
  struct spark_response *next;
  char id[TRN_UUID_SIZE];
  uint64_t index;            /* from 1 */
  spark_batch *batch;        /* or NULL */
  size_t offset, batch_size; /* the part of the batch that this message carries */
  size_t head_size;
  uint8_t head[];
} spark_response;

typedef enum spark_run_state {
  SPARK_RUN_STARTING = 0, /* a worker is on it */
  SPARK_RUN_STREAMING,    /* pulls */
  SPARK_RUN_SUCCEEDED,
  SPARK_RUN_FAILED,
  SPARK_RUN_CANCELLED
} spark_run_state;

struct spark_execution {
  atomic_uint refs;
  spark_session *session; /* one reference */
  char id[TRN_UUID_SIZE];
  char **tags;
  size_t tag_count;
  char traceparent[56]; /* of the call that began it; "": none */
  bool is_reattachable, may_chunk;
  size_t chunk_bytes; /* 0: not asked for */
  pthread_mutex_t mutex;
  /* the log; locks: mutex held */
  spark_response *first, *last, *unsent; /* unsent: the first that the reader has not got */
  uint64_t next_index;
  uint64_t dropped; /* responses up to this index are gone */
  char dropped_id[TRN_UUID_SIZE];
  size_t log_bytes, retained_bytes; /* retained: of what was sent */
  /* the call that reads it; locks: mutex held */
  spark_rpc *consumer;
  uint64_t sent; /* index of the last response that was sent to it */
  bool is_full, is_pumping, pump_again;
  size_t sent_bytes;
  int64_t attached_ns, detached_ns, sent_ns;
  /* what runs; locks: mutex held */
  spark_run_state state;
  bool cancel_requested, is_pulling;
  trn_cancel *cancel; /* requested with it: for what is planned; set once */
  trn_operation *operation;
  trn_stream *stream;
  struct spark_collect *collect; /* rows go there instead of to the client: producer.c */
  bool drops_rows;               /* of a write: they only count what was written */
  trn_table_write *write;     /* to be committed or aborted by whoever takes it out */
  spark_failure *failure;
  /* only touched by the producer */
  struct spark_script_run *script; /* the script whose statements run: they do not answer, and wait for what they start */
  spark_bytes *schema_ipc;
  trn_plan *plan; /* what runs, for positions */
  int64_t row_count, batch_count;
};

trn_status spark__execution_create(spark_session *session, const char *id, spark_execution **out, trn_error **error);
spark_execution *spark__execution_ref(spark_execution *execution);
void spark__execution_unref(spark_execution *execution);
/* Makes `rpc` the reader after the response `after`. The call that read before ends with INVALID_CURSOR.DISCONNECTED.
 */
void spark__execution_attach(spark_execution *execution, spark_rpc *rpc, uint64_t after);
/* The call is over. Not reattachable: cancels. */
void spark__execution_detach(spark_execution *execution, spark_rpc *rpc);
/* The reader's call has room again. */
void spark__execution_writable(spark_execution *execution);
/* Sends what there is. thread: any; locks: none */
void spark__execution_pump(spark_execution *execution);
/* Appends a message: `response` gets its ids. thread: any */
trn_status spark__execution_append(spark_execution *execution, Spark__Connect__ExecutePlanResponse *response);
/* Appends one or more arrow_batch messages. Borrows `batch`. */
trn_status spark__execution_append_batch(spark_execution *execution, spark_batch *batch, int64_t row_count);
/* Where a call that has got everything up to the response `last` (NULL: nothing) goes on. INVALID_CURSOR.POSITION_* */
trn_status spark__execution_cursor(spark_execution *execution, const char *last, uint64_t *after, trn_error **error);
void spark__execution_drop_log(spark_execution *execution); /* at the end of its life */
/* Drops responses up to an id (unknown: nothing happens). */
void spark__execution_release(spark_execution *execution, const char *until);
/* The end: appends result_complete when all is well and asked for, then ends the reader's call. `failure`: taken; NULL
 * with FAILED: out of memory. */
void spark__execution_finish(spark_execution *execution, spark_run_state state, spark_failure *failure);
bool spark__execution_is_over(spark_execution *execution);
/* Heartbeat, stream cut, detached. thread: worker */
void spark__execution_tick(spark_execution *execution, int64_t now_ns);

/* ---- producer.c ---- */

/* Runs a plan; its batches go to the log. Takes `plan`. thread: worker */
trn_status spark__execution_run(spark_execution *execution, trn_plan *plan, trn_error **error);
/* Runs a plan whose rows become one show_string. Takes `plan` (before spark__show_plan). */
trn_status spark__execution_run_show(spark_execution *execution, trn_plan *plan, const spark_show *show,
                                     trn_error **error);
/* Answers with a table made here. */
trn_status spark__execution_answer(spark_execution *execution, const spark_table *table, trn_error **error);
/* Pulls again when the log has room. thread: any */
void spark__execution_resume(spark_execution *execution);
/* It is over: lets go of the plan and the stream, which the log does not need. */
void spark__execution_settle(spark_execution *execution);
/* True when it was running. Never blocks. */
bool spark__execution_interrupt(spark_execution *execution);

/* ---- checkpoint.c ---- */
trn_status spark__checkpoint_run(spark_rpc *rpc, spark_execution *execution,
                                 const Spark__Connect__CheckpointCommand *command, trn_error **error);
/* A view outlives the checkpoints that it reads: their rows become part of it. Changes `message`, which is in rpc->arena.
 */
trn_status spark__checkpoint_inline(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error);
trn_status spark__checkpoint_drop(spark_rpc *rpc, spark_execution *execution,
                                  const Spark__Connect__RemoveCachedRemoteRelationCommand *command, trn_error **error);

/* ---- command.c ---- */
trn_status spark__command_run(spark_rpc *rpc, spark_execution *execution, Spark__Connect__Command *command,
                              trn_error **error);
/* Relation -> plan with the session's settings and views. Sets rpc->phase and rpc->sql for errors. */
trn_status spark__plan_relation(spark_rpc *rpc, const Spark__Connect__Relation *relation, trn_plan **out,
                                trn_error **error);
/* A translator for expressions and queries of a statement; the caller gives its arena back. */
trn_status spark__begin_translation(spark_rpc *rpc, spark_translator *t, trn_error **error);

/* One statement of the script that runs in the execution: to its end. A query's rows become the script's. */
/* Reads a piece of a script, now that the variables in its names are known. `out`: a spark_sql_statement, or, of a condition,
 * an Expression. `text`: the script's. */
struct spark_script_later;
trn_status spark__script_read_later(spark_rpc *rpc, const char *text, const struct spark_script_later *later,
                                    struct spark_sql_statement *statement, Spark__Connect__Expression **condition, trn_error **error);
trn_status spark__statement_run(spark_rpc *rpc, spark_execution *execution, const struct spark_sql_statement *statement,
                                trn_error **error);

/* ---- script.c ---- */
/* Runs BEGIN ... END; answers with the rows of the last query. */
trn_status spark__script_run(spark_rpc *rpc, spark_execution *execution, const struct spark_sql_statement *statement,
                             trn_error **error);
/* A query of the script that runs in the execution: its rows are the script's, until another one's. */
trn_status spark__script_query(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__Relation *query,
                               trn_error **error);

/* ---- variables.c ---- */
/* A condition of a script: NULL is not true. */
trn_status spark__evaluate_condition(spark_rpc *rpc, const Spark__Connect__Expression *message, bool *is_boolean,
                                     bool *is_true, trn_error **error);
/* DECLARE, SET, DROP of session variables. *done false: another statement. */
trn_status spark__variable_statement(spark_rpc *rpc, const Spark__Connect__Command *command, bool *done,
                                     trn_error **error);
/* routines.c: CREATE FUNCTION, DROP FUNCTION. */
trn_status spark__routine_statement(spark_rpc *rpc, const Spark__Connect__Command *command, bool *done,
                                    trn_error **error);
/* The statement's text with its arguments, as spark.sql takes them. Gives `*out` in rpc->arena. */
trn_status spark__execute_immediate(spark_rpc *rpc, const Spark__Connect__TrnExecuteImmediate *message,
                                    Spark__Connect__Relation **out, trn_error **error);
/* ... INTO variables. `text`: of the statement. */
trn_status spark__execute_into(spark_rpc *rpc, const Spark__Connect__TrnExecuteImmediate *message,
                               const Spark__Connect__Relation *query, bool is_query, const char *text,
                               trn_error **error);

/* What a command of somebody's own answers with; NULL: nothing. */
trn_status spark__plan_command(spark_rpc *rpc, const Google__Protobuf__Any *message, trn_plan **out,
                               trn_error **error);
/* Plans the relation, then makes the views that it reads part of it, as they are now: a DataFrame's view does not change
 * when those do. The result is in rpc->arena. */
trn_status spark__freeze_views(spark_rpc *rpc, Spark__Connect__Relation **relation, trn_error **error);
/* The SQL text that a relation is or wraps; NULL: none. */
const Spark__Connect__SQL *spark__sql_of(const Spark__Connect__Relation *relation);

#endif
