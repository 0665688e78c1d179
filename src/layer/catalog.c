/* A catalog around a catalog: asks before, tells afterwards. */
#include "core/query.h"
#include "layer/layer.h"

typedef struct wrapped {
  atomic_size_t refs; /* the catalog's, and one for each write */
  trn_catalog *inner; /* a reference */
  trn_catalog_hooks hooks;
  void *user;
} wrapped;

static void wrapped_unref(wrapped *w) {
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  if (w->hooks.destroy) w->hooks.destroy(w->user);
  trn_catalog_unref(w->inner);
  free(w);
}

static trn_catalog_access access_to(const wrapped *w, trn_catalog_action action, const char *database,
                                    const char *table) {
  return (trn_catalog_access){.struct_size = sizeof(trn_catalog_access),
                              .action = action,
                              .catalog = trn_catalog_name(w->inner),
                              .database = database ? database : "",
                              .table = table};
}

static trn_status ask(const wrapped *w, trn_session *session, const trn_catalog_access *access, trn_error **error) {
  return w->hooks.allow ? w->hooks.allow(w->user, session, access, error) : TRN_OK;
}

static trn_status tell(const wrapped *w, trn_session *session, const trn_catalog_access *access, trn_status status) {
  if (status == TRN_OK && w->hooks.changed) w->hooks.changed(w->user, session, access);
  return status;
}

/* ---- lists: entries that are not allowed are left out ---- */

typedef struct filtered {
  const wrapped *w;
  trn_session *session;
  const char *database;
  void *each; /* the caller's */
  void *user;
  trn_status status; /* something went wrong that is no refusal */
} filtered;

static bool may_list(filtered *f, const char *database, const char *table, bool is_view) {
  trn_catalog_access access = access_to(f->w, TRN_CATALOG_LIST, database, table);
  access.is_view = is_view;
  trn_status status = f->status ? f->status : ask(f->w, f->session, &access, NULL);
  if (status && status != TRN_PERMISSION_DENIED) f->status = status;
  return status == TRN_OK;
}

static void list_database(void *user, const trn_database_info *database) {
  filtered *f = user;
  if (may_list(f, database->name, NULL, false)) (*(trn_each_database *)f->each)(f->user, database);
}
static void list_table(void *user, const trn_table_info *table) {
  filtered *f = user;
  if (may_list(f, f->database, table->name, table->kind == TRN_TABLE_VIEW)) (*(trn_each_table *)f->each)(f->user, table);
}

static trn_status list_databases(void *self, trn_session *session, trn_each_database each, void *user,
                                 trn_error **error) {
  wrapped *w = self;
  filtered f = {.w = w, .session = session, .each = &each, .user = user};
  trn_status status = trn_catalog_list_databases(w->inner, session, list_database, &f, error);
  return status || !f.status ? status : trn_error_set(error, f.status, NULL, "the policy of a catalog failed");
}

static trn_status list_tables(void *self, trn_session *session, const char *database, bool with_schema,
                              trn_each_table each, void *user, trn_error **error) {
  wrapped *w = self;
  filtered f = {.w = w, .session = session, .database = database, .each = &each, .user = user};
  trn_status status = trn_catalog_list_tables(w->inner, session, database, with_schema, list_table, &f, error);
  return status || !f.status ? status : trn_error_set(error, f.status, NULL, "the policy of a catalog failed");
}

static trn_status list_functions(void *self, trn_session *session, trn_each_function each, void *user,
                                 trn_error **error) {
  return trn_catalog_list_functions(((wrapped *)self)->inner, session, each, user, error);
}

/* ---- databases ---- */

static trn_status create_database(void *self, trn_session *session, const trn_database_info *database,
                                  trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_CREATE, database->name, NULL);
  access.location = database->location;
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return tell(w, session, &access, trn_catalog_create_database(w->inner, session, database, error));
}

static trn_status drop_database(void *self, trn_session *session, const char *name, bool cascade, trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_DROP, name, NULL);
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return tell(w, session, &access, trn_catalog_drop_database(w->inner, session, name, cascade, error));
}

static trn_status alter_database(void *self, trn_session *session, const trn_database_info *database,
                                 trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_ALTER, database->name, NULL);
  access.location = database->location;
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return tell(w, session, &access, trn_catalog_alter_database(w->inner, session, database, error));
}

/* ---- tables ---- */

static trn_status get_table(void *self, trn_session *session, const char *database, const char *name, trn_table **out,
                            trn_error **error) {
  wrapped *w = self;
  trn_status status = trn_catalog_get_table(w->inner, session, database, name, out, error);
  if (status) return status;
  trn_catalog_access access = access_to(w, TRN_CATALOG_DESCRIBE, database, name);
  access.is_view = trn_table_get_info(*out)->kind == TRN_TABLE_VIEW;
  status = ask(w, session, &access, error);
  if (status == TRN_OK) return TRN_OK;
  trn_table_unref(*out);
  *out = NULL;
  return status;
}

static trn_status create_table(void *self, trn_session *session, const trn_table_info *table, bool replace,
                               trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_CREATE, table->database, table->name);
  access.is_view = table->kind == TRN_TABLE_VIEW;
  access.location = table->location;
  trn_status status = ask(w, session, &access, error);
  if (status == TRN_OK && replace) { /* what is there goes */
    trn_catalog_access drop = access_to(w, TRN_CATALOG_DROP, table->database, table->name);
    status = ask(w, session, &drop, error);
  }
  if (status) return status;
  return tell(w, session, &access, trn_catalog_create_table(w->inner, session, table, replace, error));
}

static trn_status drop_table(void *self, trn_session *session, const char *database, const char *name, bool purge,
                             trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_DROP, database, name);
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return tell(w, session, &access, trn_catalog_drop_table(w->inner, session, database, name, purge, error));
}

static trn_status rename_table(void *self, trn_session *session, const char *database, const char *name,
                               const char *to_database, const char *to_name, trn_error **error) {
  wrapped *w = self;
  trn_catalog_access from = access_to(w, TRN_CATALOG_ALTER, database, name);
  trn_catalog_access to = access_to(w, TRN_CATALOG_ALTER, to_database, to_name);
  from.is_renamed = true;
  trn_status status = ask(w, session, &from, error);
  if (status == TRN_OK) status = ask(w, session, &to, error);
  if (status) return status;
  status = trn_catalog_rename_table(w->inner, session, database, name, to_database, to_name, error);
  tell(w, session, &from, status);
  return tell(w, session, &to, status);
}

static trn_status alter_table(void *self, trn_session *session, const trn_table_info *table, uint64_t expected_version,
                              trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_ALTER, table->database, table->name);
  access.location = table->location;
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return tell(w, session, &access, trn_catalog_alter_table(w->inner, session, table, expected_version, error));
}

/* ---- writes: told after the commit ---- */

typedef struct wrapped_write {
  wrapped *w;           /* a reference */
  trn_session *session; /* a reference */
  trn_table_write *inner;
  char *database, *name;
  trn_catalog_action action;
} wrapped_write;

static trn_status write_commit(void *self, int64_t row_count, trn_error **error) {
  wrapped_write *write = self;
  trn_catalog_access access = access_to(write->w, write->action, write->database, write->name);
  trn_table_write *inner = write->inner;
  write->inner = NULL;
  return tell(write->w, write->session, &access, trn_table_write_commit(inner, row_count, error));
}

static void write_abort(void *self) {
  wrapped_write *write = self;
  trn_table_write_abort(write->inner);
  write->inner = NULL;
}

static trn_status write_batch(void *self, const struct ArrowSchema *schema, struct ArrowArray *rows,
                              trn_error **error) {
  return trn_table_write_batch(((wrapped_write *)self)->inner, schema, rows, error);
}

static void write_free(void *self) {
  wrapped_write *write = self;
  trn_table_write_abort(write->inner);
  trn_session_unref(write->session);
  wrapped_unref(write->w);
  free(write->database);
  free(write->name);
  free(write);
}

static const trn_table_write_ops write_ops = {.struct_size = sizeof(trn_table_write_ops),
                                              .commit = write_commit,
                                              .abort = write_abort,
                                              .batch = write_batch,
                                              .destroy = write_free};

/* Takes `inner`, also on failure. */
static trn_status wrap_write(wrapped *w, trn_session *session, const trn_write_request *request,
                             trn_catalog_action action, trn_table_write *inner, trn_table_write **out,
                             trn_error **error) {
  if (!w->hooks.changed) { /* nobody to tell */
    *out = inner;
    return TRN_OK;
  }
  wrapped_write *write = calloc(1, sizeof *write);
  if (!write) {
    trn_table_write_abort(inner);
    return trn__no_memory(error);
  }
  write->w = w;
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  write->session = trn_session_ref(session);
  write->inner = inner;
  write->action = action;
  write->database = trn__text_copy(request->database);
  write->name = trn__text_copy(request->name);
  bool ok = (write->database || !request->database) && (write->name || !request->name);
  if (ok && trn_table_write_create(&write_ops, write, trn_table_write_target(inner), out) == TRN_OK) return TRN_OK;
  write_free(write);
  return trn__no_memory(error);
}

static trn_status begin_write(void *self, trn_session *session, const trn_write_request *request, trn_table_write **out,
                              trn_error **error) {
  wrapped *w = self;
  bool creates = request->mode == TRN_WRITE_CREATE;
  trn_catalog_access access =
      access_to(w, creates ? TRN_CATALOG_CREATE : TRN_CATALOG_WRITE, request->database, request->name);
  if (request->create) access.location = request->create->location;
  trn_status status = ask(w, session, &access, error);
  if (status == TRN_OK && creates && request->replace) {
    trn_catalog_access drop = access_to(w, TRN_CATALOG_DROP, request->database, request->name);
    status = ask(w, session, &drop, error);
  }
  trn_table_write *inner = NULL;
  if (status == TRN_OK) status = trn_catalog_begin_write(w->inner, session, request, &inner, error);
  return status ? status : wrap_write(w, session, request, access.action, inner, out, error);
}

static trn_status truncate_table(void *self, trn_session *session, const char *database, const char *name,
                                 const trn_kv *partition, size_t partition_count, trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_WRITE, database, name);
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  status = trn_catalog_truncate_table(w->inner, session, database, name, partition, partition_count, error);
  return tell(w, session, &access, status);
}

/* ---- partitions ---- */

static trn_status list_partitions(void *self, trn_session *session, const char *database, const char *name,
                                  const trn_kv *partition, size_t partition_count, trn_each_partition each, void *user,
                                  trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_DESCRIBE, database, name);
  access.shows_values = true;
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  return trn_catalog_list_partitions(w->inner, session, database, name, partition, partition_count, each, user, error);
}

static trn_status add_partitions(void *self, trn_session *session, const char *database, const char *name,
                                 const trn_partition_info *partitions, size_t count, bool if_not_exists,
                                 trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_WRITE, database, name);
  trn_status status = ask(w, session, &access, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) { /* each location is a path that becomes readable */
    if (!partitions[i].location) continue;
    access.location = partitions[i].location;
    status = ask(w, session, &access, error);
  }
  if (status) return status;
  status = trn_catalog_add_partitions(w->inner, session, database, name, partitions, count, if_not_exists, error);
  return tell(w, session, &access, status);
}

static trn_status drop_partitions(void *self, trn_session *session, const char *database, const char *name,
                                  const trn_kv *partition, size_t partition_count, bool if_exists, trn_error **error) {
  wrapped *w = self;
  trn_catalog_access access = access_to(w, TRN_CATALOG_WRITE, database, name);
  trn_status status = ask(w, session, &access, error);
  if (status) return status;
  status = trn_catalog_drop_partitions(w->inner, session, database, name, partition, partition_count, if_exists, error);
  return tell(w, session, &access, status);
}

static trn_status open_table(void *self, trn_session *session, trn_table *table, trn_source **out,
                             struct ArrowSchema *schema, trn_error **error) {
  wrapped *w = self;
  const trn_table_info *info = trn_table_get_info(table);
  trn_catalog_access access = access_to(w, TRN_CATALOG_READ, info->database, info->name);
  trn_status status = ask(w, session, &access, error);
  return status ? status : trn_catalog_open_table(w->inner, session, table, out, schema, error);
}

/* ---- transactions: what is done in them is asked for as anything is ---- */

static trn_status begin_transaction(void *self, trn_session *session, void **state, trn_error **error) {
  return trn_catalog_begin_transaction(((wrapped *)self)->inner, session, state, error);
}
static trn_status savepoint(void *self, void *state, trn_savepoint_action action, const char *name, trn_error **error) {
  return trn_catalog_savepoint(((wrapped *)self)->inner, state, action, name, error);
}
static trn_status end_transaction(void *self, void *state, bool is_commit, trn_error **error) {
  return trn_catalog_end_transaction(((wrapped *)self)->inner, state, is_commit, error);
}
static void release_transaction(void *self, void *state) {
  trn_catalog_release_transaction(((wrapped *)self)->inner, state);
}

static void wrapped_destroy(void *self) {
  wrapped_unref(self);
}

static const trn_catalog_ops ops = {.struct_size = sizeof(trn_catalog_ops),
                                    .list_databases = list_databases,
                                    .create_database = create_database,
                                    .drop_database = drop_database,
                                    .alter_database = alter_database,
                                    .list_tables = list_tables,
                                    .get_table = get_table,
                                    .create_table = create_table,
                                    .drop_table = drop_table,
                                    .rename_table = rename_table,
                                    .alter_table = alter_table,
                                    .begin_write = begin_write,
                                    .truncate_table = truncate_table,
                                    .list_partitions = list_partitions,
                                    .add_partitions = add_partitions,
                                    .drop_partitions = drop_partitions,
                                    .list_functions = list_functions,
                                    .open_table = open_table,
                                    .destroy = wrapped_destroy,
                                    .begin_transaction = begin_transaction,
                                    .savepoint = savepoint,
                                    .end_transaction = end_transaction,
                                    .release_transaction = release_transaction};

trn_status trn_catalog_wrap(trn_catalog *inner, const trn_catalog_hooks *hooks, void *user, trn_catalog **out) {
  *out = NULL;
  wrapped *w = calloc(1, sizeof *w);
  if (!w) return TRN_RESOURCE_EXHAUSTED;
  memcpy(&w->hooks, hooks, trn__struct_size(hooks->struct_size, sizeof w->hooks));
  atomic_init(&w->refs, 1);
  w->inner = trn_catalog_ref(inner);
  w->user = user;
  trn_catalog_ops own = ops;
  if (!trn_catalog_has_transactions(inner)) own.begin_transaction = NULL;
  trn_status status = trn_catalog_create(&own, w, trn_catalog_name(inner), out);
  if (status) {
    trn_catalog_unref(inner);
    free(w);
  }
  return status;
}
