/* Catalogs, tables and writes as handles: checked, full-size copies of somebody's tables of functions. */
#include <trunnion/catalog.h>

#include "arrow/arrow_util.h"

#include "core/query.h"

struct trn_catalog {
  atomic_size_t refs;
  trn_catalog_ops ops;
  void *self;
  char *name;
};

/* ---- what stands in for optional slots ---- */

static trn_status read_only(trn_error **error) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this catalog cannot be changed that way");
}

static trn_status stub_database(void *self, trn_session *session, const trn_database_info *database, trn_error **error) {
  (void)self, (void)session, (void)database;
  return read_only(error);
}

static trn_status stub_drop_database(void *self, trn_session *session, const char *name, bool cascade,
                                     trn_error **error) {
  (void)self, (void)session, (void)name, (void)cascade;
  return read_only(error);
}

static trn_status stub_create_table(void *self, trn_session *session, const trn_table_info *table, bool replace,
                                    trn_error **error) {
  (void)self, (void)session, (void)table, (void)replace;
  return read_only(error);
}

static trn_status stub_drop_table(void *self, trn_session *session, const char *database, const char *name, bool purge,
                                  trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)purge;
  return read_only(error);
}

static trn_status stub_rename(void *self, trn_session *session, const char *database, const char *name,
                              const char *to_database, const char *to_name, trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)to_database, (void)to_name;
  return read_only(error);
}

static trn_status stub_alter_table(void *self, trn_session *session, const trn_table_info *table, uint64_t version,
                                   trn_error **error) {
  (void)self, (void)session, (void)table, (void)version;
  return read_only(error);
}

static trn_status stub_begin_write(void *self, trn_session *session, const trn_write_request *request,
                                   trn_table_write **out, trn_error **error) {
  (void)self, (void)session, (void)request, (void)out;
  return read_only(error);
}

static trn_status stub_truncate(void *self, trn_session *session, const char *database, const char *name,
                                const trn_kv *partition, size_t count, trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)partition, (void)count;
  return read_only(error);
}

static trn_status stub_list_partitions(void *self, trn_session *session, const char *database, const char *name,
                                       const trn_kv *partition, size_t count, trn_each_partition each, void *user,
                                       trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)partition, (void)count, (void)each, (void)user;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this catalog does not list partitions");
}

static trn_status stub_add_partitions(void *self, trn_session *session, const char *database, const char *name,
                                      const trn_partition_info *partitions, size_t count, bool if_not_exists,
                                      trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)partitions, (void)count, (void)if_not_exists;
  return read_only(error);
}

static trn_status stub_drop_partitions(void *self, trn_session *session, const char *database, const char *name,
                                       const trn_kv *partition, size_t count, bool if_exists, trn_error **error) {
  (void)self, (void)session, (void)database, (void)name, (void)partition, (void)count, (void)if_exists;
  return read_only(error);
}

static trn_status stub_list_functions(void *self, trn_session *session, trn_each_function each, void *user,
                                      trn_error **error) {
  (void)self, (void)session, (void)each, (void)user, (void)error;
  return TRN_OK;
}

static trn_status stub_open_table(void *self, trn_session *session, trn_table *table, trn_source **out,
                                  struct ArrowSchema *schema, trn_error **error) {
  (void)self, (void)session, (void)out, (void)schema;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this catalog does not open the table %s",
                       trn_table_get_info(table)->name);
}

static trn_status stub_begin_transaction(void *self, trn_session *session, void **state, trn_error **error) {
  (void)self, (void)session, (void)state;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this catalog has no transactions");
}

static void stub_destroy(void *self) {
  (void)self;
}

static void fill_stubs(trn_catalog_ops *ops) {
  if (!ops->create_database) ops->create_database = stub_database;
  if (!ops->drop_database) ops->drop_database = stub_drop_database;
  if (!ops->alter_database) ops->alter_database = stub_database;
  if (!ops->create_table) ops->create_table = stub_create_table;
  if (!ops->drop_table) ops->drop_table = stub_drop_table;
  if (!ops->rename_table) ops->rename_table = stub_rename;
  if (!ops->alter_table) ops->alter_table = stub_alter_table;
  if (!ops->begin_write) ops->begin_write = stub_begin_write;
  if (!ops->truncate_table) ops->truncate_table = stub_truncate;
  if (!ops->list_partitions) ops->list_partitions = stub_list_partitions;
  if (!ops->add_partitions) ops->add_partitions = stub_add_partitions;
  if (!ops->drop_partitions) ops->drop_partitions = stub_drop_partitions;
  if (!ops->list_functions) ops->list_functions = stub_list_functions;
  if (!ops->open_table) ops->open_table = stub_open_table;
  if (!ops->destroy) ops->destroy = stub_destroy;
  if (!ops->begin_transaction) ops->begin_transaction = stub_begin_transaction;
}

trn_status trn_catalog_create(const trn_catalog_ops *given, void *self, const char *name, trn_catalog **out) {
  *out = NULL;
  trn_catalog_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.list_databases || !ops.list_tables || !ops.get_table || !name || !*name) return TRN_INVALID_ARGUMENT;
  bool all = ops.savepoint && ops.end_transaction && ops.release_transaction;
  if (ops.begin_transaction && !all) return TRN_INVALID_ARGUMENT;
  fill_stubs(&ops);
  trn_catalog *catalog = calloc(1, sizeof *catalog);
  char *copy = malloc(strlen(name) + 1);
  if (!catalog || !copy) {
    free(catalog), free(copy);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&catalog->refs, 1);
  catalog->ops = ops;
  catalog->self = self;
  catalog->name = memcpy(copy, name, strlen(name) + 1);
  *out = catalog;
  return TRN_OK;
}

trn_catalog *trn_catalog_ref(trn_catalog *catalog) {
  atomic_fetch_add_explicit(&catalog->refs, 1, memory_order_relaxed);
  return catalog;
}

void trn_catalog_unref(trn_catalog *catalog) {
  if (!catalog || atomic_fetch_sub_explicit(&catalog->refs, 1, memory_order_acq_rel) != 1) return;
  catalog->ops.destroy(catalog->self);
  free(catalog->name);
  free(catalog);
}

const char *trn_catalog_name(const trn_catalog *catalog) {
  return catalog->name;
}

/* ---- the slots, called ---- */

static trn_status missing(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s has no name", what);
}
#define REQUIRE_NAME(name, what)                                                                                       \
  if (!(name) || !*(name)) return missing(error, what)

/* A caller's struct as large as we know it. */
static trn_table_info full_table(const trn_table_info *given) {
  trn_table_info info = {.row_count = -1, .byte_count = -1};
  memcpy(&info, given, trn__struct_size(given->struct_size, sizeof info));
  info.struct_size = sizeof info;
  return info;
}

static trn_database_info full_database(const trn_database_info *given) {
  trn_database_info info = {0};
  memcpy(&info, given, trn__struct_size(given->struct_size, sizeof info));
  info.struct_size = sizeof info;
  return info;
}

trn_status trn_catalog_list_databases(trn_catalog *c, trn_session *session, trn_each_database each, void *user,
                                      trn_error **error) {
  return c->ops.list_databases(c->self, session, each, user, error);
}

trn_status trn_catalog_create_database(trn_catalog *c, trn_session *session, const trn_database_info *given,
                                       trn_error **error) {
  trn_database_info info = full_database(given);
  REQUIRE_NAME(info.name, "a database");
  return c->ops.create_database(c->self, session, &info, error);
}

trn_status trn_catalog_drop_database(trn_catalog *c, trn_session *session, const char *name, bool cascade,
                                     trn_error **error) {
  REQUIRE_NAME(name, "a database");
  return c->ops.drop_database(c->self, session, name, cascade, error);
}

trn_status trn_catalog_alter_database(trn_catalog *c, trn_session *session, const trn_database_info *given,
                                      trn_error **error) {
  trn_database_info info = full_database(given);
  REQUIRE_NAME(info.name, "a database");
  return c->ops.alter_database(c->self, session, &info, error);
}

trn_status trn_catalog_list_tables(trn_catalog *c, trn_session *session, const char *database, bool with_schema,
                                   trn_each_table each, void *user, trn_error **error) {
  REQUIRE_NAME(database, "a database");
  return c->ops.list_tables(c->self, session, database, with_schema, each, user, error);
}

trn_status trn_catalog_get_table(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                 trn_table **out, trn_error **error) {
  *out = NULL;
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  trn_status status = c->ops.get_table(c->self, session, database, name, out, error);
  if (status) *out = NULL;
  if (!status && !*out) status = trn_error_set(error, TRN_INTERNAL, NULL, "the catalog gave no table");
  return status;
}

trn_status trn_catalog_create_table(trn_catalog *c, trn_session *session, const trn_table_info *given, bool replace,
                                    trn_error **error) {
  trn_table_info info = full_table(given);
  REQUIRE_NAME(info.database, "a database");
  REQUIRE_NAME(info.name, "a table");
  if (!info.schema) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the table %s has no schema", info.name);
  return c->ops.create_table(c->self, session, &info, replace, error);
}

trn_status trn_catalog_drop_table(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                  bool purge, trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  return c->ops.drop_table(c->self, session, database, name, purge, error);
}

trn_status trn_catalog_rename_table(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                    const char *to_database, const char *to_name, trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  REQUIRE_NAME(to_database, "a database");
  REQUIRE_NAME(to_name, "a table");
  return c->ops.rename_table(c->self, session, database, name, to_database, to_name, error);
}

trn_status trn_catalog_alter_table(trn_catalog *c, trn_session *session, const trn_table_info *given,
                                   uint64_t expected_version, trn_error **error) {
  trn_table_info info = full_table(given);
  REQUIRE_NAME(info.database, "a database");
  REQUIRE_NAME(info.name, "a table");
  if (!info.schema) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the table %s has no schema", info.name);
  return c->ops.alter_table(c->self, session, &info, expected_version, error);
}

trn_status trn_catalog_begin_write(trn_catalog *c, trn_session *session, const trn_write_request *given,
                                   trn_table_write **out, trn_error **error) {
  *out = NULL;
  trn_write_request request = {0};
  memcpy(&request, given, trn__struct_size(given->struct_size, sizeof request));
  request.struct_size = sizeof request;
  REQUIRE_NAME(request.database, "a database");
  REQUIRE_NAME(request.name, "a table");
  trn_table_info create;
  if (request.create) {
    create = full_table(request.create);
    create.database = request.database, create.name = request.name;
    request.create = &create;
  }
  if ((request.mode == TRN_WRITE_CREATE) != (request.create && request.create->schema))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a write that creates %s must say with which columns",
                         request.name);
  trn_status status = c->ops.begin_write(c->self, session, &request, out, error);
  if (status) *out = NULL;
  if (!status && !*out) status = trn_error_set(error, TRN_INTERNAL, NULL, "the catalog gave no write");
  return status;
}

trn_status trn_catalog_truncate_table(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                      const trn_kv *partition, size_t partition_count, trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  return c->ops.truncate_table(c->self, session, database, name, partition, partition_count, error);
}

trn_status trn_catalog_list_partitions(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                       const trn_kv *partition, size_t partition_count, trn_each_partition each,
                                       void *user, trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  return c->ops.list_partitions(c->self, session, database, name, partition, partition_count, each, user, error);
}

trn_status trn_catalog_add_partitions(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                      const trn_partition_info *partitions, size_t count, bool if_not_exists,
                                      trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  return c->ops.add_partitions(c->self, session, database, name, partitions, count, if_not_exists, error);
}

trn_status trn_catalog_drop_partitions(trn_catalog *c, trn_session *session, const char *database, const char *name,
                                       const trn_kv *partition, size_t partition_count, bool if_exists,
                                       trn_error **error) {
  REQUIRE_NAME(database, "a database");
  REQUIRE_NAME(name, "a table");
  return c->ops.drop_partitions(c->self, session, database, name, partition, partition_count, if_exists, error);
}

bool trn_catalog_has_transactions(const trn_catalog *c) { return c->ops.begin_transaction != stub_begin_transaction; }

trn_status trn_catalog_begin_transaction(trn_catalog *c, trn_session *session, void **state, trn_error **error) {
  *state = NULL;
  return c->ops.begin_transaction(c->self, session, state, error);
}

trn_status trn_catalog_savepoint(trn_catalog *c, void *state, trn_savepoint_action action, const char *name,
                                 trn_error **error) {
  REQUIRE_NAME(name, "a savepoint");
  return c->ops.savepoint(c->self, state, action, name, error);
}

trn_status trn_catalog_end_transaction(trn_catalog *c, void *state, bool is_commit, trn_error **error) {
  return c->ops.end_transaction(c->self, state, is_commit, error);
}

void trn_catalog_release_transaction(trn_catalog *c, void *state) { c->ops.release_transaction(c->self, state); }

trn_status trn_catalog_list_functions(trn_catalog *c, trn_session *session, trn_each_function each, void *user,
                                      trn_error **error) {
  return c->ops.list_functions(c->self, session, each, user, error);
}

/* Files, or a directory of them, by the engine's reader. Options are the maker's: those of text formats that every maker
 * spells alike are translated, a frontend that knows better opens the files itself. */
static trn_status open_files(trn_session *session, trn_table *table, const trn_table_file *files, size_t count,
                             trn_source **out, struct ArrowSchema *schema, trn_error **error) {
  const trn_table_info *info = trn_table_get_info(table);
  const char **paths = calloc(count + 1, sizeof *paths);
  trn_kv *options = calloc(info->option_count + info->partition_column_count + 2, sizeof *options);
  size_t option_count = 0;
  trn_status status = paths && options ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < count && !status; i++) paths[i] = files[i].path;
  bool csv = info->format && strcmp(info->format, "csv") == 0;
  const char *header = "false";
  for (size_t i = 0; csv && i < info->option_count; i++)
    if (strcmp(info->options[i].key, "header") == 0) header = info->options[i].value;
  if (!status && csv) options[option_count++] = (trn_kv){"has_header", header};
  if (!status && !files) { /* a directory: its levels are columns, which the files do not have */
    paths[0] = info->location, count = 1;
    for (size_t i = 0; i < info->partition_column_count; i++)
      options[option_count++] = (trn_kv){"partition_column", info->partition_columns[i]};
  }
  if (!status) {
    trn_source_request request = {.struct_size = sizeof request,
                                  .format = info->format ? info->format : "parquet",
                                  .paths = paths,
                                  .path_count = count,
                                  .options = options,
                                  .option_count = option_count,
                                  .schema = info->schema};
    /* Policies look at the table, not at where its files are. */
    status = trn_table_label(table, &request.label, error);
    if (!status) status = trn_backend_open_source(session, &request, out, schema, error);
    trn_scan_label_unref(request.label);
  }
  free(paths), free(options);
  return status;
}

/* A table that has no rows yet: its schema is all there is. */
static trn_status open_empty(trn_session *session, const trn_table_info *info, trn_source **out,
                             struct ArrowSchema *schema, trn_error **error) {
  trn_strbuf bytes = {0};
  trn_status status = trn__ipc_write_schema(info->schema, &bytes);
  trn__ipc_eos(&bytes);
  if (!status && bytes.failed) status = TRN_RESOURCE_EXHAUSTED;
  if (status) {
    trn_error_set(error, status, NULL, "the schema of the empty table %s cannot be written", info->name);
  } else {
    trn_source_request request = {.struct_size = sizeof request, .format = "ipc", .data = bytes.data, .data_size = bytes.size};
    status = trn_backend_open_source(session, &request, out, schema, error);
  }
  trn__strbuf_finish(&bytes);
  return status;
}

trn_status trn_catalog_open_table(trn_catalog *c, trn_session *session, trn_table *table, trn_source **out,
                                  struct ArrowSchema *schema, trn_error **error) {
  const trn_table_info *info = trn_table_get_info(table);
  const trn_table_file *files = NULL;
  size_t count = 0;
  *out = NULL;
  *schema = (struct ArrowSchema){0};
  if (info->kind == TRN_TABLE_VIEW)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is a view: its query must be planned", info->name);
  bool listed = trn_table_files(table, &files, &count);
  if (listed && !count && info->schema) return open_empty(session, info, out, schema, error);
  if (listed && count) return open_files(session, table, files, count, out, schema, error);
  if (!listed && info->location && info->format) return open_files(session, table, NULL, 0, out, schema, error);
  trn_status status = c->ops.open_table(c->self, session, table, out, schema, error);
  if (!status && !*out) status = trn_error_set(error, TRN_INTERNAL, NULL, "the catalog gave no source");
  return status;
}

/* ---- tables ---- */

struct trn_table {
  atomic_size_t refs;
  trn_table_ops ops;
  void *self;
  trn_table_info info;
  const trn_table_file *files;
  size_t file_count;
  bool has_files;
};

trn_status trn_table_create(const trn_table_ops *given, void *self, const trn_table_info *info,
                            const trn_table_file *files, size_t file_count, bool has_files, trn_table **out) {
  *out = NULL;
  if (!info->name || !info->database || !info->schema) return TRN_INVALID_ARGUMENT;
  trn_table *table = calloc(1, sizeof *table);
  if (!table) return TRN_RESOURCE_EXHAUSTED;
  memcpy(&table->ops, given, trn__struct_size(given->struct_size, sizeof table->ops));
  atomic_init(&table->refs, 1);
  table->self = self;
  table->info = full_table(info);
  table->files = files;
  table->file_count = file_count;
  table->has_files = has_files;
  *out = table;
  return TRN_OK;
}

trn_table *trn_table_ref(trn_table *table) {
  atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
  return table;
}

void trn_table_unref(trn_table *table) {
  if (!table || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) != 1) return;
  if (table->ops.destroy) table->ops.destroy(table->self);
  free(table);
}

const trn_table_info *trn_table_get_info(const trn_table *table) {
  return &table->info;
}

bool trn_table_files(const trn_table *table, const trn_table_file **files, size_t *count) {
  *files = table->files;
  *count = table->file_count;
  return table->has_files;
}

/* ---- writes ---- */

struct trn_table_write {
  trn_table_write_ops ops;
  void *self;
  trn_write_target target;
};

trn_status trn_table_write_create(const trn_table_write_ops *given, void *self, const trn_write_target *target,
                                  trn_table_write **out) {
  *out = NULL;
  trn_table_write *write = calloc(1, sizeof *write);
  if (!write) return TRN_RESOURCE_EXHAUSTED;
  memcpy(&write->ops, given, trn__struct_size(given->struct_size, sizeof write->ops));
  memcpy(&write->target, target, trn__struct_size(target->struct_size, sizeof write->target));
  if (!write->ops.commit || !write->ops.abort || (!write->target.directory && !write->ops.batch)) {
    free(write);
    return TRN_INVALID_ARGUMENT;
  }
  write->self = self;
  *out = write;
  return TRN_OK;
}

const trn_write_target *trn_table_write_target(const trn_table_write *write) {
  return &write->target;
}

trn_status trn_table_write_batch(trn_table_write *write, const struct ArrowSchema *schema, struct ArrowArray *rows,
                                 trn_error **error) {
  if (write->ops.batch) return write->ops.batch(write->self, schema, rows, error);
  if (rows->release) rows->release(rows);
  return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the rows of this write go to files");
}

static void write_free(trn_table_write *write) {
  if (write->ops.destroy) write->ops.destroy(write->self);
  free(write);
}

trn_status trn_table_write_commit(trn_table_write *write, int64_t row_count, trn_error **error) {
  trn_status status = write->ops.commit(write->self, row_count, error);
  write_free(write);
  return status;
}

void trn_table_write_abort(trn_table_write *write) {
  if (!write) return;
  write->ops.abort(write->self);
  write_free(write);
}
