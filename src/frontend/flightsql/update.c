/* Statements that change things: run once per row of parameters, one after the other, never on a thread of the network. A
 * command that writes rows is an operation whose stream is read to its end, which is its commit. */
#include "frontend/flightsql/flightsql.h"
#include "catalog/command.h"
#include "plan/plan.h"

typedef struct update {
  flight_rpc *rpc; /* one reference while it is active; the call owns the update */
  flightsql_session *session;
  flightsql_statement *statement; /* or NULL */
  trn_arena *arena;               /* of the text and a command that is ready */
  flightsql_text text;
  flightsql_command ready;
  bool has_ready;
  flightsql_dialect dialect;
  flightsql_parameters *parameters;
  int64_t row, rows, count;
  flightsql_updated done;
  void *user;
  pthread_mutex_t mutex;
  trn_operation *operation;
  trn_stream *stream;
  bool is_cancelled;
  bool counts; /* rows that are added to a temporary table */
  flightsql_ingest *temporary; /* the rows of a temporary table that is made */
  trn_ipc_piece piece;         /* to be added to them */
} update;

static void step(void *argument);

static void update_drop(void *user) {
  update *u = user;
  if (u->piece.release) u->piece.release(u->piece.owner);
  flightsql__ingest_drop(u->temporary);
  flightsql__command_finish(&u->ready);
  trn__arena_unref(u->arena);
  flightsql__parameters_unref(u->parameters);
  flightsql__statement_unref(u->statement);
  flightsql__session_unref(u->session);
  pthread_mutex_destroy(&u->mutex);
  free(u);
}

static void let_go(update *u) {
  pthread_mutex_lock(&u->mutex);
  trn_stream *stream = u->stream;
  trn_operation *operation = u->operation;
  u->stream = NULL;
  u->operation = NULL;
  pthread_mutex_unlock(&u->mutex);
  trn_stream_unref(stream);
  if (operation && u->statement) flightsql__statement_ran(u->statement, operation);
  trn_operation_unref(operation);
}

static void finish(update *u, trn_status status, const trn_error *error) {
  flight_rpc *rpc = u->rpc;
  let_go(u);
  atomic_store(&u->session->used_ns, trn__now_ns());
  atomic_fetch_sub(&u->session->busy, 1); /* before the client knows: it may commit at once */
  u->done(u->user, status, error, u->count);
  flight_service *service = flight__service_ref(rpc->service);
  flight__rpc_unref(rpc);
  trn__gate_leave(&service->gate);
  flight__service_unref(service);
}

/* The client has gone: what has not committed does not. */
static void gone(void *user) {
  update *u = user;
  pthread_mutex_lock(&u->mutex);
  u->is_cancelled = true;
  trn_operation *operation = u->operation ? trn_operation_ref(u->operation) : NULL;
  trn_stream *stream = u->stream ? trn_stream_ref(u->stream) : NULL;
  pthread_mutex_unlock(&u->mutex);
  if (stream) trn_stream_cancel(stream);
  if (operation) trn_operation_cancel(operation);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
}

/* ---- one operation ---- */

static void submit(update *u, void (*run)(void *argument)) {
  if (flight__submit(u->rpc->service, run, u)) return;
  trn_error *error = NULL;
  trn_error_set(&error, TRN_RESOURCE_EXHAUSTED, NULL, "No worker thread can be started");
  finish(u, TRN_RESOURCE_EXHAUSTED, error);
  trn_error_unref(error);
}

static void pulled(void *user, trn_status status, const trn_error *error, struct ArrowArray *array);
static void piece_pulled(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece);

static void pull(update *u) {
  trn_error *error = NULL;
  trn_status status = u->temporary ? trn_stream_next_ipc(u->stream, TRN_FLIGHT_BATCH_BYTES, piece_pulled, u, &error)
                                   : trn_stream_next_array(u->stream, pulled, u, &error);
  if (status) finish(u, status, error);
  trn_error_unref(error);
}

static void pulled(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  update *u = user;
  if (status) {
    finish(u, status, error);
  } else if (array->release) {
    if (array->n_children > 0)
      for (int64_t i = 0; i < array->length; i++) u->count += trn__array_int(array->children[0], "l", i);
    array->release(array);
    pull(u);
  } else {
    u->row++;
    submit(u, step); /* also for the end: a stream is not dropped from inside of its completion */
  }
}

/* thread: worker: the spool may be a file */
static void spool_piece(void *argument) {
  update *u = argument;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  bool is_end = !u->piece.release;
  for (size_t i = 0; i < u->piece.slice_count && !is_end && !status; i++)
    status = flightsql__temporary_add(u->temporary, u->piece.slices[i].data, u->piece.slices[i].size, &error);
  if (!is_end) u->piece.release(u->piece.owner);
  u->piece = (trn_ipc_piece){0};
  if (is_end) {
    status = flightsql__temporary_keep(u->temporary, &error);
    flightsql__ingest_drop(u->temporary);
    u->temporary = NULL;
    u->row++;
  }
  if (status) finish(u, status, error);
  else if (is_end) step(u);
  else pull(u);
  trn_error_unref(error);
}

static void piece_pulled(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  update *u = user;
  if (status) {
    finish(u, status, error);
    return;
  }
  u->piece = piece->release ? *piece : (trn_ipc_piece){0};
  if (u->counts) u->count += u->piece.rows;
  submit(u, spool_piece);
}

/* DROP of a temporary table or view, which goes without a command. */
static trn_status drop_temporary(update *u, const trn_command *command, flightsql_temporary_kind kind, trn_error **error) {
  bool is_view = kind == FLIGHTSQL_TEMPORARY_VIEW;
  if ((command->kind == TRN_COMMAND_DROP_VIEW) != is_view)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a %s", command->name[0], is_view ? "view" : "table");
  flightsql__temporary_remove(u->session, command->name[0]);
  return TRN_OK;
}

/* A temporary table of columns, or of a query whose operation is given: its rows are read first. */
static trn_status begin_temporary(update *u, const flightsql_command *command, trn_operation **operation,
                                  trn_error **error) {
  const trn_execute_request request = {.struct_size = sizeof request, .plan = command->plan, .protocol = "flightsql", .cancel = u->rpc->cancel};
  trn_status status = flightsql__temporary_open(u->session, &command->command, &u->temporary, error);
  if (!status && u->temporary && command->plan)
    status = trn_backend_execute(u->session->session, &request, operation, error);
  else if (!status && u->temporary)
    status = flightsql__temporary_keep(u->temporary, error);
  if (*operation) return status;
  flightsql__ingest_drop(u->temporary);
  u->temporary = NULL;
  return status;
}

/* Writes to a temporary table: rows are added, or all of them are replaced (also by those that DELETE and UPDATE leave). */
static trn_status write_temporary(update *u, const trn_command *command, trn_operation **operation, trn_error **error) {
  trn_table_info table = {.struct_size = sizeof table, .name = command->name[0], .row_count = -1, .byte_count = -1};
  trn_command write = *command;
  struct ArrowSchema schema = {0};
  trn_plan *rows = NULL;
  trn_status status = flightsql__temporary_schema(u->session, command->name[0], &schema, error);
  table.schema = &schema;
  write.table = &table;
  if (!status && command->plan) status = trn__rows_plan(command->plan, &table, command, &rows, error);
  write.plan = rows;
  const trn_execute_request request = {.struct_size = sizeof request, .plan = rows, .protocol = "flightsql", .cancel = u->rpc->cancel};
  if (!status) status = flightsql__temporary_open(u->session, &write, &u->temporary, error);
  if (!status && rows) status = trn_backend_execute(u->session->session, &request, operation, error);
  if (!status && !rows) status = flightsql__temporary_keep(u->temporary, error);
  u->counts = command->kind == TRN_COMMAND_INSERT;
  if (command->kind == TRN_COMMAND_DELETE || command->kind == TRN_COMMAND_UPDATE) u->count = -1; /* nobody has counted */
  if (!*operation) {
    flightsql__ingest_drop(u->temporary);
    u->temporary = NULL;
  }
  trn_plan_unref(rows);
  trn__schema_release(&schema);
  return status;
}

/* Spark's dialect does not see what is temporary: whoever wrote `name` may mean it, and would change a table that lasts. */
static trn_status refuse_hidden(update *u, const char *name, trn_error **error) {
  if (!name || flightsql__temporary_kind(u->session, name) == FLIGHTSQL_NO_TEMPORARY) return TRN_OK;
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL,
                       "%s is temporary in this session, which Spark's dialect does not see: name the database of the table that "
                       "is meant, or use the dialect datafusion",
                       name);
}

/* A command about what only the session has. *is_its false: it is about something else. */
static trn_status on_temporary(update *u, const flightsql_command *given, bool *is_its, trn_operation **operation,
                               trn_error **error) {
  const trn_command *command = &given->command;
  *is_its = true;
  if (given->is_temporary)
    return command->kind == TRN_COMMAND_CREATE_VIEW ? flightsql__temporary_view(u->session, command, error)
                                                    : begin_temporary(u, given, operation, error);
  bool creates = command->kind == TRN_COMMAND_CREATE_TABLE || command->kind == TRN_COMMAND_CREATE_VIEW;
  bool on_table = command->kind >= TRN_COMMAND_CREATE_TABLE && !creates && command->kind != TRN_COMMAND_COPY &&
                  command->kind != TRN_COMMAND_SET;
  bool is_named = on_table && command->name_count == 1;
  bool is_hidden = on_table && (given->short_name || (is_named && u->dialect == FLIGHTSQL_SPARK));
  if (is_hidden) {
    *is_its = false;
    trn_status status = refuse_hidden(u, given->short_name, error); /* as it is written, and as Spark reads it */
    return status ? status : refuse_hidden(u, command->name[command->name_count - 1], error);
  }
  flightsql_temporary_kind kind = is_named ? flightsql__temporary_kind(u->session, command->name[0]) : FLIGHTSQL_NO_TEMPORARY;
  *is_its = kind != FLIGHTSQL_NO_TEMPORARY;
  if (!*is_its) return TRN_OK;
  switch (command->kind) {
  case TRN_COMMAND_DROP_TABLE:
  case TRN_COMMAND_DROP_VIEW: return drop_temporary(u, command, kind, error);
  case TRN_COMMAND_INSERT:
  case TRN_COMMAND_DELETE:
  case TRN_COMMAND_UPDATE:
  case TRN_COMMAND_TRUNCATE_TABLE:
    if (kind == FLIGHTSQL_TEMPORARY_TABLE) return write_temporary(u, command, operation, error);
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a view: nothing can be written to it", command->name[0]);
  default:
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "%s is temporary: it can be read, written to and dropped",
                         command->name[0]);
  }
}

/* What a transaction sets for its session stays when it ends. */
static trn_status set_in_session(update *u, const trn_command *command, trn_error **error) {
  trn_operation *operation = NULL;
  if (!u->session->parent || (command->kind != TRN_COMMAND_USE && command->kind != TRN_COMMAND_SET)) return TRN_OK;
  trn_status status = trn_command_execute(u->session->parent->session, command, &operation, NULL, NULL, error);
  trn_operation_unref(operation);
  return status;
}

/* *is_done: nothing runs on. */
static trn_status execute(update *u, flightsql_command *command, bool *is_done, trn_error **error) {
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_slice schema = {0};
  *is_done = true;
  if (u->session->service->read_only)
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "This server is read only");
  if (command->spoken) return flightsql__transaction_spoken(u->session, command->spoken, error);
  bool changes = command->command.kind != TRN_COMMAND_USE && command->command.kind != TRN_COMMAND_SET;
  if (changes && u->session->parent && atomic_load(&u->session->is_restarted))
    return trn_error_set(error, TRN_ABORTED, NULL,
                         "What the transaction has read was given up, for nobody used it for too long: begin it again");
  if (changes && u->session->parent && atomic_load(&u->session->is_over))
    return trn_error_set(error, TRN_ABORTED, NULL, "The transaction is over");
  if (changes) atomic_store(&u->session->has_changed, true);
  int64_t count = 0;
  trn_status status = set_in_session(u, &command->command, error);
  if (status) return status;
  command->command.cancel = u->rpc->cancel;
  if (u->statement && !flightsql__statement_plan(u->statement, u->rpc->cancel))
    return trn_error_set(error, TRN_CANCELLED, NULL, "The statement was cancelled");
  bool is_its = false;
  status = on_temporary(u, command, &is_its, &operation, error);
  if (!status && !is_its)
    status = trn_command_execute(u->session->session, &command->command, &operation, &count, NULL, error);
  if (u->statement && (status || !operation)) flightsql__statement_planned(u->statement, u->rpc->cancel);
  if (status || !operation) {
    u->count += count;
    return status;
  }
  if (u->statement && !flightsql__statement_run(u->statement, operation))
    status = trn_error_set(error, TRN_CANCELLED, NULL, "The statement was cancelled");
  if (u->statement) flightsql__statement_planned(u->statement, u->rpc->cancel);
  if (!status) status = trn_operation_result_stream(operation, &stream, error);
  if (!status && u->temporary) status = trn_stream_schema_ipc(stream, &schema, error);
  if (!status && u->temporary) status = flightsql__temporary_add(u->temporary, schema.data, schema.size, error);
  pthread_mutex_lock(&u->mutex);
  u->operation = operation;
  u->stream = stream;
  bool cancelled = u->is_cancelled;
  pthread_mutex_unlock(&u->mutex);
  if (!status && cancelled) status = TRN_CANCELLED;
  if (status) {
    trn_operation_cancel(operation);
    let_go(u);
    return status;
  }
  *is_done = false;
  pull(u);
  return TRN_OK;
}

/* The rows of parameters as one INSERT, when the VALUES are nothing but the parameters in order. */
static bool is_plain_insert(const update *u) {
  size_t name_end, columns_at, row_at, row_end;
  if (u->text.name_count) return false; /* the columns may be in another order */
  if (!flightsql__insert_shape(&u->text, &name_end, &columns_at, &row_at, &row_end)) return false;
  uint32_t next = 0;
  for (size_t i = row_at + 1; i < row_end - 1; i++) {
    bool is_comma = (i - row_at) % 2 == 0;
    if (is_comma ? !flightsql__token_is(&u->text, i, ",")
                 : u->text.tokens[i].kind != FLIGHTSQL_PLACEHOLDER || u->text.tokens[i].parameter != next++)
      return false;
  }
  return next > 0 && next == u->text.parameter_count && (uint64_t)u->parameters->schema.n_children == next;
}

static trn_status insert_all(update *u, trn_arena *arena, bool *is_done, trn_error **error) {
  flightsql_command command = {.command = {.struct_size = sizeof(trn_command), .kind = TRN_COMMAND_INSERT}};
  flightsql_text names = u->text;
  size_t at = flightsql__token_is(&u->text, 2, "table") ? 3 : 2, row_at, row_end, columns_at;
  struct ArrowSchema schema = {0};
  trn_source *source = NULL;
  trn_status status = flightsql__parse_name(arena, &u->text, &at, (const char ***)&command.command.name,
                                            &command.command.name_count, error);
  flightsql__insert_shape(&u->text, &at, &columns_at, &row_at, &row_end);
  if (!status && columns_at) {
    const char **columns = TRN_NEW_N(arena, const char *, row_at);
    if (!columns) status = trn__no_memory(error);
    for (size_t i = columns_at + 1; !status && i < row_at - 2; i += 2) {
      columns[command.command.column_count++] = flightsql__token_name(arena, &names, i);
      if (!columns[command.command.column_count - 1]) status = trn__no_memory(error);
    }
    command.command.columns = columns;
  }
  const trn_source_request request = {.struct_size = sizeof request,
                                      .format = "ipc",
                                      .data = u->parameters->ipc.data,
                                      .data_size = u->parameters->ipc.size};
  if (!status) status = trn_backend_open_source(u->session->session, &request, &source, &schema, error);
  if (!status) status = flightsql__plan_scan(u->session, &source, 1, &schema, &command.plan, error);
  if (source) trn_backend_source_unref(trn_session_backend(u->session->session), source);
  trn__schema_release(&schema);
  command.command.plan = command.plan;
  u->row = u->rows - 1;
  if (!status) status = execute(u, &command, is_done, error);
  flightsql__command_finish(&command);
  return status;
}

static trn_status run_row(update *u, bool *is_done, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  const char **literals = NULL;
  flightsql_command command;
  *is_done = true;
  if (!arena) return trn__no_memory(error);
  trn_status status = TRN_OK;
  if (u->has_ready) {
    status = execute(u, &u->ready, is_done, error);
  } else if (u->rows > 1 && is_plain_insert(u)) {
    status = insert_all(u, arena, is_done, error);
  } else {
    if (u->parameters)
      status = flightsql__parameters_literals(arena, u->parameters, u->row, &u->text, u->dialect,
                                              &literals, error);
    if (!status) status = flightsql__command(u->session, arena, &u->text, literals, &command, error);
    if (!status) {
      status = execute(u, &command, is_done, error);
      flightsql__command_finish(&command);
    }
  }
  trn__arena_unref(arena);
  return status;
}

/* thread: worker. Runs what is next until something runs by itself. */
static void step(void *argument) {
  update *u = argument;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  bool is_done = true;
  let_go(u);
  while (!status && is_done && u->row < u->rows) {
    pthread_mutex_lock(&u->mutex);
    bool cancelled = u->is_cancelled;
    pthread_mutex_unlock(&u->mutex);
    status = cancelled ? TRN_CANCELLED : run_row(u, &is_done, &error);
    if (!status && is_done) u->row++;
  }
  if (status || is_done) finish(u, status, error);
  trn_error_unref(error);
}

static update *update_create(flightsql_session *session, flight_rpc *rpc, flightsql_updated done, void *user) {
  update *u = calloc(1, sizeof *u);
  if (!u) return NULL;
  pthread_mutex_init(&u->mutex, NULL);
  u->session = flightsql__session_ref(session);
  u->rpc = rpc;
  u->rows = 1;
  u->done = done;
  u->user = user;
  return u;
}

/* Takes `u`: from here on the call has it. */
static void start(update *u) {
  static const flight_events events = {NULL, gone, update_drop};
  flight_rpc *rpc = flight__rpc_ref(u->rpc);
  if (trn__gate_enter(&rpc->service->gate)) {
    atomic_fetch_add(&u->session->busy, 1);
    flight__rpc_attach(rpc, &events, u);
    step(u);
    return;
  }
  u->done(u->user, TRN_UNAVAILABLE, NULL, 0);
  update_drop(u);
  flight__rpc_unref(rpc);
}

void flightsql__update(flightsql_session *session, flight_rpc *rpc, flightsql_statement *statement, const char *sql,
                       size_t size, flightsql_parameters *parameters, flightsql_updated done, void *user) {
  trn_error *error = NULL;
  update *u = update_create(session, rpc, done, user);
  trn_arena *arena = u ? trn__arena_create(0) : NULL;
  char *copy = arena ? trn__arena_str(arena, sql, size) : NULL;
  trn_status status = copy ? TRN_OK : trn__no_memory(&error);
  if (u) {
    u->arena = arena;
    pthread_mutex_lock(&session->mutex);
    u->dialect = session->dialect;
    pthread_mutex_unlock(&session->mutex);
  }
  if (!status) status = flightsql__text_read(arena, copy, size, u->dialect, &u->text, &error);
  if (!status && u->text.parameter_count) {
    if (parameters) u->parameters = flightsql__parameters_ref(parameters);
    u->rows = parameters ? parameters->rows : 0;
    if (!parameters || !parameters->schema.release)
      status = trn_error_set(&error, TRN_INVALID_ARGUMENT, NULL, "The statement has %u parameters, but none is bound",
                             u->text.parameter_count);
  }
  if (!status) {
    if (statement) u->statement = flightsql__statement_ref(statement);
    start(u);
  } else {
    done(user, status, error, 0);
    if (u) update_drop(u);
  }
  trn_error_unref(error);
}

void flightsql__update_command(flightsql_session *session, flight_rpc *rpc, trn_arena *arena, flightsql_command *command,
                               flightsql_updated done, void *user) {
  update *u = update_create(session, rpc, done, user);
  if (!u) {
    flightsql__command_finish(command);
    trn__arena_unref(arena);
    done(user, TRN_RESOURCE_EXHAUSTED, NULL, 0);
    return;
  }
  u->arena = arena;
  u->ready = *command;
  u->ready.command.table = command->command.table ? &u->ready.table : NULL;
  if (u->ready.table.schema == &command->schema) u->ready.table.schema = &u->ready.schema;
  u->has_ready = true;
  start(u);
}
