/* Catalogs, schemas, tables, keys: read from the session's catalogs, in the order that the specification wants. */
#include <stdio.h>
#include <strings.h>

#include "frontend/flightsql/flightsql.h"

/* ---- names ---- */

bool flightsql__like(const char *pattern, const char *text) {
  /* Greedy with one place to come back to: linear in practice, quadratic at worst. */
  const char *star = NULL, *resume = NULL;
  if (!pattern) return true;
  while (*text) {
    if (*pattern == '%') {
      star = ++pattern;
      resume = text;
      continue;
    }
    bool escaped = *pattern == '\\' && pattern[1];
    char wanted = escaped ? pattern[1] : *pattern;
    if ((*pattern == '_' && !escaped) || (wanted == *text && *pattern)) {
      pattern += escaped ? 2 : 1;
      text++;
    } else if (star) {
      pattern = star;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '%') pattern++;
  return *pattern == 0;
}

typedef struct names {
  trn_vec items;
  bool failed;
} names;

static void names_add(names *list, const char *name) {
  char *copy = strdup(name);
  if (copy && trn__vec_push(&list->items, copy)) return;
  free(copy);
  list->failed = true;
}

static void names_finish(names *list) {
  for (size_t i = 0; i < list->items.count; i++) free(list->items.items[i]);
  trn__vec_finish(&list->items);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void names_sort(names *list) {
  if (list->items.count) qsort(list->items.items, list->items.count, sizeof(void *), compare_names);
}

static void add_catalog(void *user, const char *name) { names_add(user, name); }

/* The catalogs that a filter lets through: absent: all; "": those without a name, of which there are none. */
static trn_status list_catalogs(flightsql_session *session, const char *filter, names *out, trn_error **error) {
  names all = {0};
  *out = (names){0};
  trn_status status = trn_session_list_catalogs(session->session, add_catalog, &all, error);
  for (size_t i = 0; !status && i < all.items.count; i++)
    if (!filter || strcmp(filter, all.items.items[i]) == 0) names_add(out, all.items.items[i]);
  if (!status && (all.failed || out->failed)) status = trn__no_memory(error);
  names_finish(&all);
  names_sort(out);
  return status;
}

static void add_database(void *user, const trn_database_info *database) { names_add(user, database->name); }

/* For each database of each catalog. */
typedef trn_status (*each_database)(void *user, trn_catalog *catalog, const char *catalog_name, const char *database,
                                    trn_error **error);

static trn_status walk_catalog(flightsql_session *session, const char *name, const char *pattern, each_database each,
                               void *user, trn_error **error) {
  trn_catalog *catalog = NULL;
  names databases = {0};
  trn_status status = trn_session_get_catalog(session->session, name, &catalog, error);
  if (!status) status = trn_catalog_list_databases(catalog, session->session, add_database, &databases, error);
  if (!status && databases.failed) status = trn__no_memory(error);
  names_sort(&databases);
  for (size_t i = 0; !status && i < databases.items.count; i++)
    if (flightsql__like(pattern, databases.items.items[i]))
      status = each(user, catalog, name, databases.items.items[i], error);
  names_finish(&databases);
  trn_catalog_unref(catalog);
  return status;
}

static trn_status walk_databases(flightsql_session *session, const char *filter, const char *pattern, each_database each,
                                 void *user, trn_error **error) {
  names catalogs;
  trn_status status = list_catalogs(session, filter, &catalogs, error);
  for (size_t i = 0; !status && i < catalogs.items.count; i++)
    status = walk_catalog(session, catalogs.items.items[i], pattern, each, user, error);
  names_finish(&catalogs);
  return status;
}

/* ---- catalogs, schemas, table types ---- */

trn_status flightsql__fill_catalogs(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                    trn_error **error) {
  names catalogs;
  (void)command;
  trn_status status = list_catalogs(session, NULL, &catalogs, error);
  for (size_t i = 0; !status && i < catalogs.items.count; i++) {
    flightsql__rows_text(rows, 0, catalogs.items.items[i]);
    flightsql__rows_end(rows);
  }
  names_finish(&catalogs);
  return status;
}

static trn_status put_schema(void *user, trn_catalog *catalog, const char *catalog_name, const char *database,
                             trn_error **error) {
  flightsql_rows *rows = user;
  (void)catalog, (void)error;
  flightsql__rows_text(rows, 0, catalog_name);
  flightsql__rows_text(rows, 1, database);
  flightsql__rows_end(rows);
  return TRN_OK;
}

#define GIVEN(message, field) ((message)->_##field##_case ? (message)->field : NULL)

trn_status flightsql__fill_db_schemas(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *message,
                                      trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetDbSchemas *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetDbSchemas *)message;
  return walk_databases(session, GIVEN(command, catalog), GIVEN(command, db_schema_filter_pattern), put_schema, rows,
                        error);
}

static const char *const table_types[] = {"LOCAL TEMPORARY", "TABLE", "VIEW"};

trn_status flightsql__fill_table_types(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *command,
                                       trn_error **error) {
  (void)session, (void)command, (void)error;
  for (size_t i = 0; i < sizeof table_types / sizeof *table_types; i++) {
    flightsql__rows_text(rows, 0, table_types[i]);
    flightsql__rows_end(rows);
  }
  return TRN_OK;
}

/* ---- tables ---- */

typedef struct tables_walk {
  flightsql_session *session;
  flightsql_rows *rows;
  const Arrow__Flight__Protocol__Sql__CommandGetTables *command;
  const char *catalog, *database;
  trn_status status;
} tables_walk;

/* BASE TABLE is TABLE, whatever the letters. */
static bool is_type_wanted(const Arrow__Flight__Protocol__Sql__CommandGetTables *command, const char *type) {
  for (size_t i = 0; i < command->n_table_types; i++) {
    const char *wanted = command->table_types[i];
    if (strcasecmp(wanted, type) == 0 || (strcasecmp(wanted, "BASE TABLE") == 0 && strcmp(type, "TABLE") == 0)) return true;
  }
  return command->n_table_types == 0;
}

static const char *type_name(const char *format, char out[48], int *precision, int *scale) {
  static const struct {
    const char *format, *name;
    int precision;
  } known[] = {{"b", "BOOLEAN", 1},   {"c", "TINYINT", 3},          {"s", "SMALLINT", 5},          {"i", "INTEGER", 10},
               {"l", "BIGINT", 19},   {"C", "TINYINT UNSIGNED", 3}, {"S", "SMALLINT UNSIGNED", 5}, {"I", "INTEGER UNSIGNED", 10},
               {"L", "BIGINT UNSIGNED", 20}, {"e", "REAL", 11},     {"f", "REAL", 24},             {"g", "DOUBLE", 53},
               {"u", "VARCHAR", 0},   {"U", "VARCHAR", 0},          {"vu", "VARCHAR", 0},          {"z", "BYTEA", 0},
               {"Z", "BYTEA", 0},     {"vz", "BYTEA", 0},           {"tdD", "DATE", 10},           {"tdm", "DATE", 10},
               {"n", "NULL", 0},      {"+s", "STRUCT", 0},          {"+m", "MAP", 0},              {"+l", "ARRAY", 0},
               {"+L", "ARRAY", 0},    {"tiM", "INTERVAL", 0},       {"tiD", "INTERVAL", 0},        {"tin", "INTERVAL", 0}};
  *precision = *scale = -1;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].format, format) != 0) continue;
    if (known[i].precision) *precision = known[i].precision, *scale = 0;
    return known[i].name;
  }
  if (sscanf(format, "d:%d,%d", precision, scale) == 2) {
    snprintf(out, 48, "DECIMAL(%d, %d)", *precision, *scale);
    return out;
  }
  if (strncmp(format, "tt", 2) == 0) return "TIME";
  if (strncmp(format, "ts", 2) == 0) return format[3] == ':' && format[4] ? "TIMESTAMP WITH TIME ZONE" : "TIMESTAMP";
  if (strncmp(format, "tD", 2) == 0) return "INTERVAL";
  return "OTHER";
}

/* The types that results have: no views, dictionaries or run ends, which JDBC does not read. */
static trn_status plain_schema(const struct ArrowSchema *from, const trn_kv *metadata, size_t count, unsigned depth,
                               struct ArrowSchema *out) {
  const struct ArrowSchema *type = from->dictionary ? from->dictionary : from;
  const char *format = type->format;
  if (strcmp(format, "vu") == 0) format = "u";
  if (strcmp(format, "vz") == 0) format = "z";
  if (strcmp(format, "e") == 0) format = "f";
  if (depth > TRN_TYPE_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  trn_status status =
      trn__schema_init(out, format, from->name, from->flags, metadata, count, (size_t)type->n_children);
  for (int64_t i = 0; i < type->n_children && !status; i++)
    status = plain_schema(type->children[i], NULL, 0, depth + 1, out->children[i]);
  return status;
}

/* A column with what JDBC and ADBC read of it. */
static trn_status column_schema(const tables_walk *walk, const char *table, const struct ArrowSchema *from,
                                struct ArrowSchema *out) {
  char buffer[48], precision_text[16], scale_text[16], type[64], *comment = NULL;
  int precision, scale;
  size_t size;
  const char *name = type_name(from->format, buffer, &precision, &scale);
  const char *text = trn__schema_metadata(from, TRN_COLUMN_TYPE_TEXT, &size);
  snprintf(type, sizeof type, "%.*s", text ? (int)(size < 60 ? size : 60) : 60, text ? text : name);
  snprintf(precision_text, sizeof precision_text, "%d", precision);
  snprintf(scale_text, sizeof scale_text, "%d", scale);
  trn_kv metadata[12] = {{"ARROW:FLIGHT:SQL:CATALOG_NAME", walk->catalog}, {"ARROW:FLIGHT:SQL:DB_SCHEMA_NAME", walk->database},
                         {"ARROW:FLIGHT:SQL:TABLE_NAME", table},           {"ARROW:FLIGHT:SQL:TYPE_NAME", type},
                         {"ARROW:FLIGHT:SQL:IS_AUTO_INCREMENT", "0"},      {"ARROW:FLIGHT:SQL:IS_CASE_SENSITIVE", "1"},
                         {"ARROW:FLIGHT:SQL:IS_READ_ONLY", "0"},           {"ARROW:FLIGHT:SQL:IS_SEARCHABLE", "1"}};
  size_t count = 8;
  if (precision >= 0) {
    metadata[count++] = (trn_kv){"ARROW:FLIGHT:SQL:PRECISION", precision_text};
    metadata[count++] = (trn_kv){"ARROW:FLIGHT:SQL:SCALE", scale_text};
  }
  text = trn__schema_metadata(from, TRN_COLUMN_COMMENT, &size);
  if (text && (comment = strndup(text, size))) metadata[count++] = (trn_kv){"ARROW:FLIGHT:SQL:REMARKS", comment};
  trn_status status = plain_schema(from, metadata, count, 0, out);
  free(comment);
  return status;
}

static trn_status put_table_schema(tables_walk *walk, const char *table, const struct ArrowSchema *schema) {
  struct ArrowSchema columns = {0};
  trn_strbuf bytes = {0};
  int64_t count = schema && schema->release ? schema->n_children : 0;
  trn_status status = trn__schema_init(&columns, "+s", "", 0, NULL, 0, (size_t)count);
  for (int64_t i = 0; i < count && !status; i++)
    status = column_schema(walk, table, schema->children[i], columns.children[i]);
  if (!status) status = trn__ipc_write_schema(&columns, &bytes);
  if (!status) trn__array_append_bytes(flightsql__rows_column(walk->rows, 4), bytes.data, bytes.size);
  walk->rows->bytes += bytes.size;
  trn__schema_release(&columns);
  trn__strbuf_finish(&bytes);
  return status;
}

static void put_table(tables_walk *walk, const char *name, const char *type, const struct ArrowSchema *schema) {
  if (walk->status || !is_type_wanted(walk->command, type) ||
      !flightsql__like(GIVEN(walk->command, table_name_filter_pattern), name))
    return;
  flightsql__rows_text(walk->rows, 0, walk->catalog);
  flightsql__rows_text(walk->rows, 1, walk->database);
  flightsql__rows_text(walk->rows, 2, name);
  flightsql__rows_text(walk->rows, 3, type);
  if (walk->command->include_schema) walk->status = put_table_schema(walk, name, schema);
  flightsql__rows_end(walk->rows);
}

static void each_table(void *user, const trn_table_info *table) {
  put_table(user, table->name, table->kind == TRN_TABLE_VIEW ? "VIEW" : "TABLE", table->schema);
}

static void put_temporary(void *user, const char *name, const struct ArrowSchema *schema) {
  put_table(user, name, "LOCAL TEMPORARY", schema);
}

/* The session's own tables, in the schema where its names are looked up. */
static trn_status put_temporaries(tables_walk *walk, trn_error **error) {
  char *catalog = NULL, *database = NULL;
  trn_status status = trn_session_namespace(walk->session->session, &catalog, &database, error);
  if (!status && strcmp(catalog, walk->catalog) == 0 && strcmp(database, walk->database) == 0)
    flightsql__temporary_each(walk->session, put_temporary, walk);
  trn_free(catalog);
  trn_free(database);
  return status;
}

static trn_status put_tables(void *user, trn_catalog *catalog, const char *catalog_name, const char *database,
                             trn_error **error) {
  tables_walk *walk = user;
  walk->catalog = catalog_name;
  walk->database = database;
  trn_status status = trn_catalog_list_tables(catalog, walk->session->session, database, walk->command->include_schema,
                                              each_table, walk, error);
  if (status == TRN_NOT_FOUND) { /* dropped meanwhile */
    if (error) trn_error_unref(*error), *error = NULL;
    status = TRN_OK;
  }
  if (!status) status = put_temporaries(walk, error);
  if (!status && walk->status)
    status = walk->status == TRN_UNIMPLEMENTED
                 ? trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "A table of %s has a column of a type without an Arrow form",
                                 database)
                 : trn__no_memory(error);
  return status;
}

trn_status flightsql__fill_tables(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *message,
                                  trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetTables *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetTables *)message;
  tables_walk walk = {.session = session, .rows = rows, .command = command};
  return walk_databases(session, GIVEN(command, catalog), GIVEN(command, db_schema_filter_pattern), put_tables, &walk,
                        error);
}

/* ---- keys: what tables declare; nothing enforces them ---- */

typedef struct keys_walk {
  flightsql_session *session;
  flightsql_rows *rows;
  const char *pk_catalog, *pk_schema, *pk_table, *fk_catalog, *fk_schema, *fk_table; /* NULL: any */
  const char *catalog, *database;
} keys_walk;

static void put_primary_key(keys_walk *walk, const trn_table_info *table, const trn_constraint *key) {
  for (size_t i = 0; i < key->column_count; i++) {
    flightsql__rows_text(walk->rows, 0, walk->catalog);
    flightsql__rows_text(walk->rows, 1, walk->database);
    flightsql__rows_text(walk->rows, 2, table->name);
    flightsql__rows_text(walk->rows, 3, key->columns[i]);
    flightsql__rows_int(walk->rows, 4, (int64_t)i + 1);
    flightsql__rows_text(walk->rows, 5, key->name);
    flightsql__rows_end(walk->rows);
  }
}

static trn_status primary_keys_of(void *user, trn_catalog *catalog, const char *catalog_name, const char *database,
                                  trn_error **error) {
  keys_walk *walk = user;
  trn_table *table = NULL;
  (void)error;
  if (walk->pk_schema && strcmp(walk->pk_schema, database) != 0) return TRN_OK;
  if (trn_catalog_get_table(catalog, walk->session->session, database, walk->pk_table, &table, NULL)) return TRN_OK;
  const trn_table_info *info = trn_table_get_info(table);
  walk->catalog = catalog_name;
  walk->database = database;
  for (size_t i = 0; i < info->constraint_count; i++)
    if (info->constraints[i].kind == TRN_CONSTRAINT_PRIMARY_KEY) put_primary_key(walk, info, &info->constraints[i]);
  trn_table_unref(table);
  return TRN_OK;
}

trn_status flightsql__fill_primary_keys(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *message,
                                        trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetPrimaryKeys *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetPrimaryKeys *)message;
  keys_walk walk = {.session = session, .rows = rows, .pk_schema = GIVEN(command, db_schema), .pk_table = command->table};
  return walk_databases(session, GIVEN(command, catalog), NULL, primary_keys_of, &walk, error);
}

static bool is_wanted(const char *wanted, const char *name) { return !wanted || strcmp(wanted, name) == 0; }

static void put_foreign_key(keys_walk *walk, const trn_table_info *table, const trn_constraint *key) {
  const char *schema = key->target_database ? key->target_database : walk->database;
  if (!is_wanted(walk->pk_catalog, walk->catalog) || !is_wanted(walk->pk_schema, schema) ||
      !is_wanted(walk->pk_table, key->target_table))
    return;
  for (size_t i = 0; i < key->column_count; i++) {
    const char *const texts[] = {walk->catalog, schema,         key->target_table, key->target_columns[i],
                                 walk->catalog, walk->database, table->name,       key->columns[i]};
    for (size_t c = 0; c < 8; c++) flightsql__rows_text(walk->rows, c, texts[c]);
    flightsql__rows_int(walk->rows, 8, (int64_t)i + 1);
    flightsql__rows_text(walk->rows, 9, key->name);
    flightsql__rows_text(walk->rows, 10, NULL);
    flightsql__rows_int(walk->rows, 11, 3); /* NO ACTION: nothing enforces it */
    flightsql__rows_int(walk->rows, 12, 3);
    flightsql__rows_end(walk->rows);
  }
}

static void add_table(void *user, const trn_table_info *table) { names_add(user, table->name); }

static trn_status foreign_keys_of(void *user, trn_catalog *catalog, const char *catalog_name, const char *database,
                                  trn_error **error) {
  keys_walk *walk = user;
  names tables = {0};
  if (!is_wanted(walk->fk_schema, database)) return TRN_OK;
  trn_status status = TRN_OK;
  if (walk->fk_table) names_add(&tables, walk->fk_table);
  else status = trn_catalog_list_tables(catalog, walk->session->session, database, false, add_table, &tables, error);
  walk->catalog = catalog_name;
  walk->database = database;
  for (size_t i = 0; !status && i < tables.items.count; i++) {
    trn_table *table = NULL;
    if (trn_catalog_get_table(catalog, walk->session->session, database, tables.items.items[i], &table, NULL)) continue;
    const trn_table_info *info = trn_table_get_info(table);
    for (size_t j = 0; j < info->constraint_count; j++)
      if (info->constraints[j].kind == TRN_CONSTRAINT_FOREIGN_KEY) put_foreign_key(walk, info, &info->constraints[j]);
    trn_table_unref(table);
  }
  if (!status && tables.failed) status = trn__no_memory(error);
  names_finish(&tables);
  return status;
}

trn_status flightsql__fill_exported_keys(flightsql_session *session, flightsql_rows *rows,
                                         const ProtobufCMessage *message, trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetExportedKeys *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetExportedKeys *)message;
  keys_walk walk = {.session = session, .rows = rows, .pk_catalog = GIVEN(command, catalog),
                    .pk_schema = GIVEN(command, db_schema), .pk_table = command->table};
  return walk_databases(session, NULL, NULL, foreign_keys_of, &walk, error);
}

trn_status flightsql__fill_imported_keys(flightsql_session *session, flightsql_rows *rows,
                                         const ProtobufCMessage *message, trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetImportedKeys *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetImportedKeys *)message;
  keys_walk walk = {.session = session, .rows = rows, .fk_schema = GIVEN(command, db_schema), .fk_table = command->table};
  return walk_databases(session, GIVEN(command, catalog), NULL, foreign_keys_of, &walk, error);
}

trn_status flightsql__fill_cross_reference(flightsql_session *session, flightsql_rows *rows,
                                           const ProtobufCMessage *message, trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetCrossReference *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetCrossReference *)message;
  keys_walk walk = {.session = session, .rows = rows, .pk_catalog = GIVEN(command, pk_catalog),
                    .pk_schema = GIVEN(command, pk_db_schema), .pk_table = command->pk_table,
                    .fk_schema = GIVEN(command, fk_db_schema), .fk_table = command->fk_table};
  return walk_databases(session, GIVEN(command, fk_catalog), NULL, foreign_keys_of, &walk, error);
}
