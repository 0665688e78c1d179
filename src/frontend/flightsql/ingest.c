/* Bulk ingestion: the rows are spooled as they come, in memory while they are few, else in a file, so that memory is bounded
 * whatever arrives; the end of the stream makes one command of them, which happens altogether or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "frontend/flightsql/flightsql.h"

typedef Arrow__Flight__Protocol__Sql__CommandStatementIngest ingest_command;
typedef Arrow__Flight__Protocol__Sql__CommandStatementIngest__TableDefinitionOptions ingest_options;

struct flightsql_ingest {
  flight_rpc *rpc; /* borrowed: its put owns us */
  flightsql_session *session;
  char *parts[3];
  size_t part_count;
  int if_not_exists, if_exists; /* of the options */
  bool is_temporary;
  bool has_schema;
  trn_strbuf memory;
  int file; /* -1: none yet */
  char *path;
  uint64_t file_size;
  int64_t rows;
};

static bool keep_part(flightsql_ingest *ingest, const char *text) {
  ingest->parts[ingest->part_count] = strdup(text);
  return ingest->parts[ingest->part_count++] != NULL;
}

trn_status flightsql__ingest_open(flightsql_session *session, flight_rpc *rpc, const ingest_command *command,
                                  flightsql_ingest **out, trn_error **error) {
  if (session->service->read_only)
    return trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "This server is read only");
  const ingest_options *options = command->table_definition_options;
  if (!options || !options->if_not_exist || !options->if_exists)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "An ingestion says what is done when the table exists and when it does not");
  if (!*command->table) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "An ingestion names a table");
  flightsql_ingest *ingest = calloc(1, sizeof *ingest);
  if (!ingest) return trn__no_memory(error);
  /* Drivers do not say in which transaction: the session's one. */
  bool is_told = command->_transaction_id_case && command->transaction_id.len;
  trn_status status = TRN_OK;
  ingest->file = -1;
  ingest->rpc = rpc;
  if (is_told) status = flightsql__in_transaction(session, &command->transaction_id, &ingest->session, error);
  else ingest->session = flightsql__joined(session);
  ingest->if_not_exists = (int)options->if_not_exist;
  ingest->if_exists = (int)options->if_exists;
  ingest->is_temporary = command->temporary;
  bool has_schema = command->_schema_case && *command->schema, has_catalog = command->_catalog_case && *command->catalog;
  bool ok = true;
  if (!status && has_catalog && !has_schema) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "An ingestion that names a catalog names a schema too");
  } else if (!status) {
    if (has_catalog) ok = keep_part(ingest, command->catalog);
    if (ok && has_schema) ok = keep_part(ingest, command->schema);
    if (ok) ok = keep_part(ingest, command->table);
    if (!ok) status = trn__no_memory(error);
  }
  if (status) {
    flightsql__ingest_drop(ingest);
  } else {
    *out = ingest;
  }
  return status;
}

/* ---- spooling ---- */

static trn_status file_error(trn_error **error, const char *what) {
  int code = errno;
  return trn_error_set(error, code == ENOSPC ? TRN_RESOURCE_EXHAUSTED : TRN_INTERNAL, NULL, "%s: %s", what, strerror(code));
}

static trn_status write_all(flightsql_ingest *ingest, const void *data, size_t size, trn_error **error) {
  for (const char *at = data; size;) {
    ssize_t wrote = write(ingest->file, at, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return file_error(error, "The spool of the ingestion cannot be written");
    at += wrote;
    size -= (size_t)wrote;
    ingest->file_size += (uint64_t)wrote;
  }
  return TRN_OK;
}

static trn_status open_spool(flightsql_ingest *ingest, trn_error **error) {
  char id[TRN_UUID_SIZE], *path = NULL;
  trn_strbuf text = {0};
  trn__uuid4(id);
  trn__strbuf_printf(&text, "%s/trunnion-%s.arrow", ingest->session->service->spool_directory, id);
  if (!text.failed) path = strdup(text.data);
  trn__strbuf_finish(&text);
  if (!path) return trn__no_memory(error);
  ingest->file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  ingest->path = path;
  if (ingest->file >= 0) return write_all(ingest, ingest->memory.data, ingest->memory.size, error);
  trn_status status = file_error(error, "The spool of the ingestion cannot be opened");
  free(ingest->path);
  ingest->path = NULL;
  return status;
}

static trn_status spool(flightsql_ingest *ingest, const void *data, size_t size, trn_error **error) {
  if (ingest->file >= 0) return write_all(ingest, data, size, error);
  if (ingest->memory.size + size <= TRN_FLIGHT_SPOOL_BYTES) {
    trn__strbuf_add(&ingest->memory, data, size);
    return ingest->memory.failed ? trn__no_memory(error) : TRN_OK;
  }
  trn_status status = open_spool(ingest, error);
  if (status) return status;
  trn__strbuf_finish(&ingest->memory);
  ingest->memory = (trn_strbuf){0};
  return write_all(ingest, data, size, error);
}

/* Bodies begin where any buffer in them may: whoever maps the file reads them where they lie. */
enum { BODY_ALIGNMENT = 64 };

static size_t padding_of(const flightsql_ingest *ingest, size_t header_size) {
  uint64_t at = (ingest->file >= 0 ? ingest->file_size : ingest->memory.size) + 8 + header_size;
  return (size_t)((BODY_ALIGNMENT - at % BODY_ALIGNMENT) % BODY_ALIGNMENT);
}

trn_status flightsql__ingest_data(flightsql_ingest *ingest, const flight_data *data, trn_error **error) {
  static const char zeros[BODY_ALIGNMENT];
  trn_ipc_kind kind;
  int64_t body_size;
  if (!data->header.size) return TRN_OK;
  trn_status status = trn__ipc_read_kind(data->header.data, data->header.size, &kind, &body_size, error);
  if (status) return status;
  if ((kind == TRN_IPC_SCHEMA) == ingest->has_schema)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         ingest->has_schema ? "The schema of the rows changes in the middle"
                                            : "Rows of an ingestion come before their schema");
  if (body_size != (int64_t)data->body.size)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A batch announces %lld bytes and has %zu",
                         (long long)body_size, data->body.size);
  status = trn__ipc_check(data->header.data, data->header.size, data->body.size, error); /* zeros are put behind it */
  int64_t rows = 0;
  if (!status && kind == TRN_IPC_BATCH) status = trn__ipc_read_rows(data->header.data, data->header.size, &rows, error);
  if (status) return status;
  if (__builtin_add_overflow(ingest->rows, rows, &ingest->rows)) ingest->rows = INT64_MAX; /* of columns without bytes */
  uint64_t size_so_far = ingest->file >= 0 ? ingest->file_size : ingest->memory.size;
  if (!trn__ipc_rows_fit(ingest->rows, size_so_far + data->body.size))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%lld rows in %llu bytes are more than are read",
                         (long long)ingest->rows, (unsigned long long)(size_so_far + data->body.size));
  ingest->has_schema = true;
  size_t padding = padding_of(ingest, data->header.size);
  uint32_t prefix[2] = {0xffffffffu, (uint32_t)(data->header.size + padding)};
  status = spool(ingest, prefix, sizeof prefix, error);
  if (!status) status = spool(ingest, data->header.data, data->header.size, error);
  if (!status && padding) status = spool(ingest, zeros, padding, error);
  return status ? status : spool(ingest, data->body.data, data->body.size, error);
}

/* ---- the end ---- */

static trn_status open_rows(flightsql_ingest *ingest, trn_source **source, struct ArrowSchema *schema,
                            trn_error **error) {
  static const char end[8] = "\xff\xff\xff\xff";
  trn_status status = spool(ingest, end, sizeof end, error);
  if (status) return status;
  const char *path = ingest->path;
  trn_scan_label *label = flightsql__own_rows(); /* policies are about paths that clients name: the spool's is none */
  if (!label) return trn__no_memory(error);
  trn_source_request request = {.struct_size = sizeof request, .label = label};
  if (path) {
    request.format = "arrow";
    request.paths = &path;
    request.path_count = 1;
    request.is_own = true;
  } else {
    request.format = "ipc";
    request.data = ingest->memory.data;
    request.data_size = ingest->memory.size;
  }
  status = trn_backend_open_source(ingest->session->session, &request, source, schema, error);
  trn_scan_label_unref(label);
  return status;
}

/* Puts the rows into the session as a table of its own. Takes the schema. */
static trn_status keep_temporary(flightsql_ingest *ingest, trn_source *source, struct ArrowSchema *schema,
                                 trn_error **error) {
  flightsql_session *session = ingest->session;
  flightsql_temporary_rows rows = {.name = ingest->parts[ingest->part_count - 1],
                                   .source = trn_backend_source_ref(trn_session_backend(session->session), source),
                                   .schema = *schema,
                                   .spool = ingest->path,
                                   .creates = ingest->if_not_exists != 2,
                                   .replaces = ingest->if_exists == 3,
                                   .appends = ingest->if_exists == 2};
  schema->release = NULL;
  ingest->path = NULL;
  return flightsql__temporary_put(session, &rows, error);
}

/* Fills the command: what it is depends on whether the table exists. */
static trn_status make_command(flightsql_ingest *ingest, trn_arena *arena, const struct ArrowSchema *schema,
                               flightsql_command *out, trn_error **error) {
  trn_catalog *catalog = NULL;
  char *database = NULL, *name = NULL;
  trn_table *table = NULL;
  trn_session *session = ingest->session->session;
  trn_status status = trn_session_resolve_name(session, (const char *const *)ingest->parts, ingest->part_count, &catalog,
                                               &database, &name, error);
  if (status) return status;
  trn_error *missing = NULL;
  trn_status found = trn_catalog_get_table(catalog, session, database, name, &table, &missing);
  trn_command *command = &out->command;
  command->name = (const char *const *)ingest->parts;
  command->name_count = ingest->part_count;
  if (found == TRN_NOT_FOUND && ingest->if_not_exists == 2) {
    status = trn_error_set(error, TRN_NOT_FOUND, NULL, "There is no table %s", name);
  } else if (found == TRN_OK && ingest->if_exists == 1) {
    status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The table %s exists already", name);
  } else if (found == TRN_OK && ingest->if_exists == 2) {
    const char **columns = TRN_NEW_N(arena, const char *, (size_t)schema->n_children);
    command->kind = TRN_COMMAND_INSERT;
    command->mode = TRN_WRITE_APPEND;
    command->columns = columns;
    command->column_count = (size_t)schema->n_children;
    if (!columns) status = trn__no_memory(error);
    for (int64_t i = 0; columns && i < schema->n_children; i++) columns[i] = schema->children[i]->name;
  } else if (found == TRN_OK || found == TRN_NOT_FOUND) {
    command->kind = TRN_COMMAND_CREATE_TABLE;
    command->or_replace = found == TRN_OK;
    out->table.format = "parquet";
    out->table.schema = &out->schema;
    command->table = &out->table;
  } else {
    status = found;
    if (error) {
      *error = missing;
      missing = NULL;
    }
  }
  trn_error_unref(missing);
  trn_table_unref(table);
  trn_catalog_unref(catalog);
  trn_free(database);
  trn_free(name);
  return status;
}

static void ingested(void *user, trn_status status, const trn_error *error, int64_t count) {
  flight_rpc *rpc = user;
  trn_error *own = NULL;
  if (!status) {
    Arrow__Flight__Protocol__Sql__DoPutUpdateResult result = ARROW__FLIGHT__PROTOCOL__SQL__DO_PUT_UPDATE_RESULT__INIT;
    result.record_count = count;
    status = flightsql__reply_put(rpc, &result.base, &own);
    error = own;
  }
  if (status) flight__rpc_fail(rpc, status, error);
  trn_error_unref(own);
  flight__rpc_unref(rpc);
}

/* Takes nothing; the update keeps what it needs. */
static trn_status run(flightsql_ingest *ingest, trn_source *source, struct ArrowSchema *schema, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  flightsql_command command = {.command = {.struct_size = sizeof(trn_command)},
                               .table = {.struct_size = sizeof(trn_table_info), .row_count = -1, .byte_count = -1}};
  if (!arena) return trn__no_memory(error);
  trn_status status = flightsql__plan_scan(ingest->session, &source, 1, schema, &command.plan, error);
  command.command.plan = command.plan;
  if (!status && trn_plan_schema(command.plan, &command.schema)) status = trn__no_memory(error);
  if (!status) status = make_command(ingest, arena, &command.schema, &command, error);
  if (status) {
    flightsql__command_finish(&command);
    trn__arena_unref(arena);
    return status;
  }
  flightsql__update_command(ingest->session, ingest->rpc, arena, &command, ingested, flight__rpc_ref(ingest->rpc));
  return TRN_OK;
}

trn_status flightsql__ingest_end(flightsql_ingest *ingest, trn_error **error) {
  trn_source *source = NULL;
  struct ArrowSchema schema = {0};
  if (!ingest->has_schema) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "An ingestion without a schema");
  trn_status status = open_rows(ingest, &source, &schema, error);
  if (status == TRN_INTERNAL) status = TRN_INVALID_ARGUMENT; /* the rows are the client's */
  if (status) return status;
  if (ingest->is_temporary) {
    int64_t count = ingest->rows;
    status = keep_temporary(ingest, source, &schema, error);
    Arrow__Flight__Protocol__Sql__DoPutUpdateResult result = ARROW__FLIGHT__PROTOCOL__SQL__DO_PUT_UPDATE_RESULT__INIT;
    result.record_count = count;
    if (!status) status = flightsql__reply_put(ingest->rpc, &result.base, error);
  } else {
    status = run(ingest, source, &schema, error);
  }
  trn_backend_source_unref(trn_session_backend(ingest->session->session), source);
  trn__schema_release(&schema);
  return status;
}

/* ---- temporary tables: rows of a query are spooled in the same way ---- */

static trn_status temporary_create(flightsql_session *session, const trn_command *command, flightsql_ingest **out,
                                   trn_error **error) {
  flightsql_ingest *ingest = calloc(1, sizeof *ingest);
  if (!ingest) return trn__no_memory(error);
  bool creates = command->kind == TRN_COMMAND_CREATE_TABLE;
  bool appends = command->kind == TRN_COMMAND_INSERT && command->mode == TRN_WRITE_APPEND;
  ingest->file = -1;
  ingest->session = flightsql__session_ref(session);
  ingest->if_not_exists = creates ? 1 : 2;
  ingest->if_exists = appends ? 2 : !creates || command->or_replace ? 3 : 1;
  ingest->is_temporary = true;
  if (keep_part(ingest, command->name[0])) {
    *out = ingest;
    return TRN_OK;
  }
  ingest->part_count = 0;
  flightsql__ingest_drop(ingest);
  return trn__no_memory(error);
}

/* What CREATE TEMPORARY TABLE may say. *exists: and it need not. */
static trn_status check_creation(flightsql_session *session, const trn_command *command, bool *exists, trn_error **error) {
  *exists = false;
  if (command->name_count != 1)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A temporary table has a name of one part");
  bool is_there = flightsql__temporary_kind(session, command->name[0]) != FLIGHTSQL_NO_TEMPORARY;
  *exists = is_there && command->if_not_exists;
  if (*exists) return TRN_OK;
  if (is_there && !command->or_replace)
    return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The temporary table %s exists already", command->name[0]);
  if (!command->plan && (!command->table->schema || !command->table->schema->n_children))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "CREATE TABLE has no columns");
  if (command->table->location)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "A temporary table has no LOCATION");
  return TRN_OK;
}

trn_status flightsql__temporary_open(flightsql_session *session, const trn_command *command, flightsql_ingest **out,
                                     trn_error **error) {
  flightsql_ingest *ingest = NULL;
  bool exists = false;
  *out = NULL;
  trn_status status =
      command->kind == TRN_COMMAND_CREATE_TABLE ? check_creation(session, command, &exists, error) : TRN_OK;
  if (status || exists) return status;
  status = temporary_create(session, command, &ingest, error);
  if (!status && !command->plan) {
    trn_strbuf schema = {0};
    status = flightsql__schema_ipc(command->table->schema, &schema, error);
    if (!status) status = spool(ingest, schema.data, schema.size, error);
    trn__strbuf_finish(&schema);
  }
  if (status) flightsql__ingest_drop(ingest);
  else *out = ingest;
  return status;
}

trn_status flightsql__temporary_add(flightsql_ingest *ingest, const void *data, size_t size, trn_error **error) {
  return spool(ingest, data, size, error);
}

trn_status flightsql__temporary_keep(flightsql_ingest *ingest, trn_error **error) {
  trn_source *source = NULL;
  struct ArrowSchema schema = {0};
  trn_status status = open_rows(ingest, &source, &schema, error);
  if (status) return status;
  status = keep_temporary(ingest, source, &schema, error);
  trn_backend_source_unref(trn_session_backend(ingest->session->session), source);
  trn__schema_release(&schema);
  return status;
}

void flightsql__ingest_drop(flightsql_ingest *ingest) {
  if (!ingest) return;
  if (ingest->file >= 0) close(ingest->file);
  if (ingest->path) unlink(ingest->path);
  free(ingest->path);
  trn__strbuf_finish(&ingest->memory);
  for (size_t i = 0; i < ingest->part_count; i++) free(ingest->parts[i]);
  flightsql__session_unref(ingest->session);
  free(ingest);
}
