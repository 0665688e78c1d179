/* Relation.catalog: spark.catalog.* . Columns as Spark 4.2 returns them: clients read them by position. */
#include <strings.h>

#include "frontend/spark/tables.h"

typedef struct catalog_run {
  spark_rpc *rpc;
  spark_session *session;
  trn_arena *arena;
  spark_table *table;
  trn_error **error;
} catalog_run;

/* ---- helpers ---- */

/* Spark's patterns: '*' anything, '|' alternatives, letters of either case. */
static bool matches_one(const char *pattern, size_t size, const char *text) {
  size_t star = SIZE_MAX, mark = 0, at = 0, i = 0, length = strlen(text);
  while (i < length) {
    if (at < size && pattern[at] == '*') {
      star = at++;
      mark = i;
    } else if (at < size && strncasecmp(&pattern[at], &text[i], 1) == 0) {
      at++;
      i++;
    } else if (star != SIZE_MAX) {
      at = star + 1;
      i = ++mark;
    } else {
      return false;
    }
  }
  while (at < size && pattern[at] == '*') at++;
  return at == size;
}

bool spark__pattern_matches(const char *pattern, const char *text) {
  if (!pattern) return true;
  for (;;) {
    size_t size = strcspn(pattern, "|");
    if (matches_one(pattern, size, text)) return true;
    if (!pattern[size]) return false;
    pattern += size + 1;
  }
}

static char *quoted(trn_arena *arena, const char *name) {
  return trn__arena_printf(arena, "`%s`", name);
}

trn_status spark__check_database(spark_rpc *rpc, const char *name, trn_error **error) {
  spark_table_name database;
  if (strcasecmp(name, "global_temp") == 0) return TRN_OK;
  return spark__database_of(rpc, name, true, &database, error);
}

static trn_status check_database(catalog_run *run, const char *name) {
  return spark__check_database(run->rpc, name, run->error);
}

/* The view's own name out of what a client may write: backticks off. */
static const char *plain_name(catalog_run *run, const char *name) {
  size_t size = strlen(name);
  if (size < 2 || name[0] != '`' || name[size - 1] != '`' || memchr(name + 1, '`', size - 2)) return name;
  const char *copy = trn__arena_str(run->arena, name + 1, size - 2);
  return copy ? copy : name;
}

static bool has_view(catalog_run *run, const char *name, const char *db) {
  if (!db || !*db) return spark__session_has_view(run->session, plain_name(run, name));
  if (strcasecmp(db, "global_temp") != 0) return false;
  char *full = trn__arena_printf(run->arena, "global_temp.%s", plain_name(run, name));
  return full && spark__session_has_view(run->session, full);
}

static trn_status one_cell(catalog_run *run, spark_cell value) {
  spark_cell *cell = spark__table_add(run->table);
  if (!cell) return trn__no_memory(run->error);
  cell[0] = value;
  return TRN_OK;
}

/* ---- databases and catalogs ---- */

static trn_status current(catalog_run *run, bool catalog) {
  spark_table_name name;
  trn_status status = spark__database_of(run->rpc, "", false, &name, run->error);
  return status ? status : one_cell(run, spark__cell_text(catalog ? name.shown : name.database));
}

static trn_status current_database(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  (void)catalog;
  return current(run, false);
}

static trn_status current_catalog(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  (void)catalog;
  return current(run, true);
}

static trn_status set_current_database(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__use_database(run->rpc, catalog->set_current_database->db_name, run->error);
}

static trn_status set_current_catalog(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__use_catalog(run->rpc, catalog->set_current_catalog->catalog_name, run->error);
}

/* What a listing adds rows to. */
typedef struct listing {
  catalog_run *run;
  const char *pattern, *shown; /* of the catalog */
  bool only_views;
  trn_status status;
} listing;

static void add_database(void *user, const trn_database_info *info) {
  listing *l = user;
  if (l->status || !spark__pattern_matches(l->pattern, info->name)) return;
  trn_arena *arena = l->run->arena;
  const char *name = trn__arena_strdup(arena, info->name), *location = info->location ? info->location : "";
  const char *comment = trn__arena_strdup(arena, info->comment ? info->comment : "");
  const char *shown = trn__arena_printf(arena, *location == '/' ? "file:%s" : "%s", location);
  spark_cell *cell = name && comment && shown ? spark__table_add(l->run->table) : NULL;
  if (!cell) {
    l->status = trn__no_memory(l->run->error);
    return;
  }
  cell[0] = spark__cell_text(name);
  cell[1] = spark__cell_text(l->shown);
  cell[2] = spark__cell_text(comment);
  cell[3] = spark__cell_text(shown);
}

static trn_status list_databases(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListDatabases *list = catalog->list_databases;
  spark_table_name name;
  trn_status status = spark__database_of(run->rpc, "", false, &name, run->error);
  listing l = {.run = run, .pattern = list->_pattern_case ? list->pattern : NULL, .shown = name.shown};
  if (!status) status = trn_catalog_list_databases(name.catalog, run->session->session, add_database, &l, run->error);
  return status ? status : l.status;
}

static trn_status get_database(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  spark_table_name name;
  trn_database_info info;
  trn_status status = spark__get_database(run->rpc, catalog->get_database->db_name, &name, &info, run->error);
  listing l = {.run = run, .shown = name.shown};
  if (!status) add_database(&l, &info);
  return status ? status : l.status;
}

static trn_status database_exists(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  spark_table_name name;
  trn_status status = spark__database_of(run->rpc, catalog->database_exists->db_name, false, &name, run->error);
  return status ? status : one_cell(run, spark__cell_bool(spark__database_exists(run->rpc, &name)));
}

static trn_status create_database(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__create_database(run->rpc, catalog->create_database, run->error);
}

static trn_status drop_database(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__drop_database(run->rpc, catalog->drop_database, run->error);
}

static trn_status list_catalogs(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListCatalogs *list = catalog->list_catalogs;
  if (!spark__pattern_matches(list->_pattern_case ? list->pattern : NULL, "spark_catalog")) return TRN_OK;
  return one_cell(run, spark__cell_text("spark_catalog"));
}

/* ---- views ---- */

/* name, catalog, namespace, description, tableType, isTemporary */
static trn_status add_view(catalog_run *run, const char *name) {
  static const char *const global_namespace[] = {"global_temp"};
  static const char prefix[] = "global_temp.";
  bool is_global = strncmp(name, prefix, sizeof prefix - 1) == 0;
  char *copy = trn__arena_strdup(run->arena, is_global ? name + sizeof prefix - 1 : name);
  spark_cell *cell = copy ? spark__table_add(run->table) : NULL;
  if (!cell) return trn__no_memory(run->error);
  cell[0] = spark__cell_text(copy);
  cell[2] = (spark_cell){.items = global_namespace, .item_count = is_global};
  cell[4] = spark__cell_text("TEMPORARY");
  cell[5] = spark__cell_bool(true);
  return TRN_OK;
}

static void add_table(void *user, const trn_table_info *info) {
  listing *l = user;
  trn_arena *arena = l->run->arena;
  if (l->status || !spark__pattern_matches(l->pattern, info->name) || (l->only_views && info->kind != TRN_TABLE_VIEW)) return;
  const char **namespace = TRN_NEW_N(arena, const char *, 1);
  const char *name = trn__arena_strdup(arena, info->name), *comment = info->comment ? trn__arena_strdup(arena, info->comment) : NULL;
  if (namespace) namespace[0] = trn__arena_strdup(arena, info->database);
  spark_cell *cell = namespace && namespace[0] && name && (comment || !info->comment) ? spark__table_add(l->run->table) : NULL;
  if (!cell) {
    l->status = trn__no_memory(l->run->error);
    return;
  }
  cell[0] = spark__cell_text(name);
  cell[1] = spark__cell_text(l->shown);
  cell[2] = (spark_cell){.items = namespace, .item_count = 1};
  cell[3] = spark__cell_text(comment);
  cell[4] = spark__cell_text(spark__kind_text(info->kind));
  cell[5] = spark__cell_bool(false);
}

static trn_status list_temporary(catalog_run *run, const char *pattern, bool global) {
  trn_vec names = {0};
  trn_status status = spark__session_views(run->session, &names) ? TRN_OK : trn__no_memory(run->error);
  for (size_t i = 0; i < names.count; i++) {
    char *name = names.items[i];
    bool is_global = strncmp(name, "global_temp.", 12) == 0;
    if (!status && (global || !is_global) && spark__pattern_matches(pattern, is_global ? name + 12 : name))
      status = add_view(run, name);
    free(name);
  }
  trn__vec_finish(&names);
  return status;
}

/* Temporary views are listed with every database; global ones with theirs only. */
static trn_status list_of(catalog_run *run, const char *db, const char *pattern, bool only_views) {
  bool global = db && strcasecmp(db, "global_temp") == 0;
  spark_table_name name;
  if (global) return list_temporary(run, pattern, true);
  trn_status status = spark__database_of(run->rpc, db ? db : "", true, &name, run->error);
  listing l = {.run = run, .pattern = pattern, .shown = name.shown, .only_views = only_views};
  if (!status)
    status = trn_catalog_list_tables(name.catalog, run->session->session, name.database, false, add_table, &l, run->error);
  if (!status) status = l.status;
  return status ? status : list_temporary(run, pattern, false);
}

static trn_status list_tables(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListTables *list = catalog->list_tables;
  return list_of(run, list->_db_name_case ? list->db_name : NULL, list->_pattern_case ? list->pattern : NULL, false);
}

static trn_status list_views(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListViews *list = catalog->list_views;
  return list_of(run, list->_db_name_case ? list->db_name : NULL, list->_pattern_case ? list->pattern : NULL, true);
}

/* The name with its database, when that was said on its own. */
static const char *in_database(catalog_run *run, const char *name, const char *db) {
  return db && *db ? trn__arena_printf(run->arena, "%s.%s", db, name) : name;
}

static trn_status get_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__GetTable *get = catalog->get_table;
  const char *db = get->_db_name_case ? get->db_name : NULL;
  spark_table_name name;
  trn_table *table = NULL;
  if (has_view(run, get->table_name, db)) return add_view(run, plain_name(run, get->table_name));
  const char *text = in_database(run, get->table_name, db);
  if (!text) return trn__no_memory(run->error);
  trn_status status = spark__need_table(run->rpc, text, &name, &table, run->error);
  listing l = {.run = run, .shown = name.shown};
  if (!status) add_table(&l, trn_table_get_info(table));
  return status ? status : l.status;
}

static trn_status table_exists(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__TableExists *ask = catalog->table_exists;
  const char *db = ask->_db_name_case ? ask->db_name : NULL;
  spark_table_name name;
  trn_table *table = NULL;
  bool found = has_view(run, ask->table_name, db);
  const char *text = in_database(run, ask->table_name, db);
  if (!text) return trn__no_memory(run->error);
  trn_status status = found ? TRN_OK : spark__name_of(run->rpc, text, &name, run->error);
  if (!status && !found) status = spark__find_table(run->rpc, &name, &table, run->error);
  return status ? status : one_cell(run, spark__cell_bool(found || table));
}

static trn_status function_exists(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const char *name = catalog->function_exists->function_name;
  if (strncasecmp(name, "system.builtin.", 15) == 0) {
    name += 15;
  } else if (strncasecmp(name, "builtin.", 8) == 0) {
    name += 8;
  }
  return one_cell(run, spark__cell_bool(spark__function_exists(name)));
}

/* name, catalog, namespace, description, className, isTemporary: builtin functions count as temporary, as in Spark. */
static trn_status add_function(catalog_run *run, const char *name) {
  spark_cell *cell = spark__table_add(run->table);
  if (!cell) return trn__no_memory(run->error);
  cell[0] = spark__cell_text(name);
  cell[4] = spark__cell_text("");
  cell[5] = spark__cell_bool(true);
  return TRN_OK;
}

static trn_status list_functions(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListFunctions *list = catalog->list_functions;
  const char *pattern = list->_pattern_case ? list->pattern : NULL, *name;
  trn_status status = list->_db_name_case && *list->db_name ? check_database(run, list->db_name) : TRN_OK;
  for (size_t i = 0; !status && (name = spark__function_name(i)); i++)
    if (spark__function_is_served(name) && spark__pattern_matches(pattern, name)) status = add_function(run, name);
  return status;
}

static trn_status get_function(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const char *asked = catalog->get_function->function_name, *name;
  for (size_t i = 0; (name = spark__function_name(i)); i++)
    if (strcasecmp(name, asked) == 0) return add_function(run, name);
  char *text = quoted(run->arena, asked);
  if (!text) return trn__no_memory(run->error);
  return spark__raise(run->error, TRN_NOT_FOUND, "UNRESOLVED_ROUTINE", "routineName", text, "searchPath",
                      "[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]", NULL, NULL);
}

trn_status spark__plan_table(spark_rpc *rpc, const char *name, trn_plan **out, trn_error **error) {
  Spark__Connect__Read__NamedTable named = SPARK__CONNECT__READ__NAMED_TABLE__INIT;
  Spark__Connect__Read read = SPARK__CONNECT__READ__INIT;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  named.unparsed_identifier = (char *)name;
  read.read_type_case = SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE;
  read.named_table = &named;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation.read = &read;
  return spark__plan_relation(rpc, &relation, out, error);
}

trn_status spark__add_columns(spark_table *table, const trn_field *fields, size_t count, size_t type_column,
                              size_t nullable_column) {
  for (size_t i = 0; i < count; i++) {
    trn_strbuf type = {0};
    spark__type_simple(&type, fields[i].type);
    spark_cell *cell = type.failed ? NULL : spark__table_add(table);
    char *name = trn__arena_strdup(table->arena, fields[i].name);
    char *text = trn__arena_strdup(table->arena, type.data ? type.data : "");
    trn__strbuf_finish(&type);
    if (!cell || !name || !text) return TRN_RESOURCE_EXHAUSTED;
    cell[0] = spark__cell_text(name);
    cell[type_column] = spark__cell_text(text);
    for (size_t j = nullable_column; j < table->column_count; j++) cell[j] = spark__cell_bool(false);
    if (nullable_column < table->column_count) cell[nullable_column] = spark__cell_bool(fields[i].nullable);
  }
  return TRN_OK;
}

/* name, description, dataType, nullable, isPartition, isBucket, isCluster */
static trn_status table_columns(catalog_run *run, const trn_table_info *info) {
  const trn_field *fields = NULL;
  uint32_t count = 0;
  trn_status status = spark__table_fields(run->arena, info, &fields, &count, run->error);
  if (!status && spark__add_columns(run->table, fields, count, 2, 3)) status = trn__no_memory(run->error);
  for (uint32_t i = 0; !status && i < count; i++) {
    spark_cell *cell = run->table->cells + i * run->table->column_count;
    cell[1] = spark__cell_text(spark__column_text(run->arena, info->schema->children[i], TRN_COLUMN_COMMENT));
    cell[4] = spark__cell_bool(i >= count - info->partition_column_count);
  }
  return status;
}

static trn_status list_columns(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__ListColumns *list = catalog->list_columns;
  const char *text = in_database(run, list->table_name, list->_db_name_case ? list->db_name : NULL);
  spark_table_name name;
  trn_table *table = NULL;
  trn_plan *plan = NULL;
  if (!text) return trn__no_memory(run->error);
  if (!spark__is_temp_view(run->rpc, text)) {
    trn_status status = spark__need_table(run->rpc, text, &name, &table, run->error);
    return status ? status : table_columns(run, trn_table_get_info(table));
  }
  trn_status status = spark__plan_table(run->rpc, text, &plan, run->error);
  if (!status && spark__add_columns(run->table, plan->fields, plan->field_count, 2, 3)) status = trn__no_memory(run->error);
  trn_plan_unref(plan);
  return status;
}

static trn_status drop_temp_view(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const char *name = plain_name(run, catalog->drop_temp_view->view_name);
  return one_cell(run, spark__cell_bool(spark__session_drop_view(run->session, name, false)));
}

static trn_status drop_global_temp_view(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const char *name = plain_name(run, catalog->drop_global_temp_view->view_name);
  return one_cell(run, spark__cell_bool(spark__session_drop_view(run->session, name, true)));
}

static trn_status drop_view(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__DropView *drop = catalog->drop_view;
  if (spark__session_drop_view(run->session, plain_name(run, drop->view_name), false)) return TRN_OK;
  if (strncasecmp(drop->view_name, "global_temp.", 12) == 0 &&
      spark__session_drop_view(run->session, plain_name(run, drop->view_name + 12), true))
    return TRN_OK;
  return spark__drop_table(run->rpc, drop->view_name, true, drop->if_exists, run->error);
}

static trn_status drop_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__DropTable *drop = catalog->drop_table;
  return spark__drop_table(run->rpc, drop->table_name, false, drop->if_exists, run->error);
}

/* ---- tables made by spark.catalog ---- */

typedef struct table_creation {
  const char *name, *path, *source, *description;
  const Spark__Connect__DataType *schema;
  trn_kv *options;
  size_t option_count;
} table_creation;

static trn_status make_table(catalog_run *run, table_creation *c) {
  spark_new_table table = {0};
  spark_table_name name;
  trn_table *there = NULL;
  trn_table_info info = {.struct_size = sizeof info, .options = c->options, .option_count = c->option_count};
  const trn_type *type = NULL;
  trn_status status = spark__name_of(run->rpc, c->name, &name, run->error);
  if (!status) status = spark__table_format(run->rpc, c->source, &info.format, run->error);
  if (!status && c->schema) status = spark__type_from_proto(run->arena, c->schema, &type, run->error);
  if (!status) status = spark__find_table(run->rpc, &name, &there, run->error);
  if (status) return status;
  if (there) {
    const char *shown = spark__table_text(run->arena, &name, true);
    return shown ? spark__raise(run->error, TRN_ALREADY_EXISTS, "TABLE_OR_VIEW_ALREADY_EXISTS", "relationName", shown, NULL,
                                NULL, NULL, NULL)
                 : trn__no_memory(run->error);
  }
  info.location = c->path;
  info.comment = c->description;
  info.kind = c->path ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  info.owner = run->session->user;
  if (type && type->field_count) table.fields = type->fields, table.count = type->field_count;
  else status = spark__infer_table(run->rpc, info.format, c->path, c->options, c->option_count, &table, run->error);
  if (!status) status = spark__define_table(run->rpc, &name, &table, &info, run->error);
  trn_command command = {.kind = TRN_COMMAND_CREATE_TABLE, .table = &info};
  return status ? status : spark__run_command(run->rpc, &name, &command, run->error);
}

/* The client reads the table from the answer's plan: there are no rows. */
static trn_status create_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__CreateTable *m = catalog->create_table;
  table_creation c = {.name = m->table_name, .path = m->_path_case ? m->path : NULL, .source = m->_source_case ? m->source : NULL,
                      .description = m->_description_case && *m->description ? m->description : NULL,
                      .schema = m->_schema_case ? m->schema : NULL, .options = TRN_NEW_N(run->arena, trn_kv, m->n_options)};
  if (!c.options) return trn__no_memory(run->error);
  for (size_t i = 0; i < m->n_options; i++) {
    if (strcasecmp(m->options[i]->key, "path") == 0) c.path = m->options[i]->value;
    else c.options[c.option_count++] = (trn_kv){m->options[i]->key, m->options[i]->value};
  }
  return make_table(run, &c);
}

static trn_status create_external_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const Spark__Connect__CreateExternalTable *m = catalog->create_external_table;
  table_creation c = {.name = m->table_name, .path = m->_path_case ? m->path : NULL, .source = m->_source_case ? m->source : NULL,
                      .schema = m->_schema_case ? m->schema : NULL, .options = TRN_NEW_N(run->arena, trn_kv, m->n_options)};
  if (!c.options) return trn__no_memory(run->error);
  for (size_t i = 0; i < m->n_options; i++) {
    if (strcasecmp(m->options[i]->key, "path") == 0) c.path = m->options[i]->value;
    else c.options[c.option_count++] = (trn_kv){m->options[i]->key, m->options[i]->value};
  }
  return make_table(run, &c);
}

static trn_status recover_partitions(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__recover_partitions(run->rpc, catalog->recover_partitions->table_name, "ALTER TABLE RECOVER PARTITIONS",
                                   run->error);
}

static trn_status truncate_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__truncate_table(run->rpc, catalog->truncate_table->table_name, run->error);
}

static trn_status analyze_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  return spark__analyze_table(run->rpc, catalog->analyze_table->table_name, run->error);
}

static trn_status create_string(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  const char *text = NULL;
  trn_status status = spark__create_statement(run->rpc, catalog->get_create_table_string->table_name, &text, run->error);
  return status ? status : one_cell(run, spark__cell_text(text));
}

/* ---- caching: remembered, so that isCached tells what was asked for; the engine decides what it keeps ---- */

/* The key of a cached view or table among the session's storage levels. NULL: out of memory. */
static char *cache_key(catalog_run *run, const char *name) {
  char *key = trn__arena_printf(run->arena, "view %s", plain_name(run, name));
  for (char *c = key; c && *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  return key;
}

static trn_status with_view(catalog_run *run, const char *text, char **key) {
  spark_table_name name;
  trn_table *table = NULL;
  if (!has_view(run, text, NULL) && !spark__is_temp_view(run->rpc, text)) {
    trn_status status = spark__need_table(run->rpc, text, &name, &table, run->error);
    if (status) return status;
    text = spark__table_text(run->arena, &name, false);
    if (!text) return trn__no_memory(run->error);
  }
  *key = cache_key(run, text);
  return *key ? TRN_OK : trn__no_memory(run->error);
}

static trn_status is_cached(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  char *key;
  trn_status status = with_view(run, catalog->is_cached->table_name, &key);
  if (status) return status;
  pthread_mutex_lock(&run->session->mutex);
  bool cached = trn__map_get(run->session->storage, key, strlen(key)) != NULL;
  pthread_mutex_unlock(&run->session->mutex);
  return one_cell(run, spark__cell_bool(cached));
}

static trn_status cache_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  char *key;
  trn_status status = with_view(run, catalog->cache_table->table_name, &key);
  if (status) return status;
  pthread_mutex_lock(&run->session->mutex);
  bool stored = trn__map_set(run->session->storage, key, strlen(key), run->session, NULL);
  pthread_mutex_unlock(&run->session->mutex);
  return stored ? TRN_OK : trn__no_memory(run->error);
}

static trn_status uncache_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  char *key;
  trn_status status = with_view(run, catalog->uncache_table->table_name, &key);
  if (status) return status;
  pthread_mutex_lock(&run->session->mutex);
  trn__map_remove(run->session->storage, key, strlen(key));
  pthread_mutex_unlock(&run->session->mutex);
  return TRN_OK;
}

static trn_status clear_cache(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  (void)catalog;
  trn_map *empty = trn__map_create();
  if (!empty) return trn__no_memory(run->error);
  pthread_mutex_lock(&run->session->mutex);
  trn_map *old = run->session->storage;
  run->session->storage = empty;
  pthread_mutex_unlock(&run->session->mutex);
  trn__map_destroy(old, NULL);
  return TRN_OK;
}

static trn_status refresh_table(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  char *key;
  return with_view(run, catalog->refresh_table->table_name, &key);
}

static trn_status nothing(catalog_run *run, const Spark__Connect__Catalog *catalog) {
  (void)run;
  (void)catalog;
  return TRN_OK;
}

/* ---- the table of operations ---- */

#define TABLE_COLUMNS "name:s catalog:s namespace:a description:s tableType:s isTemporary:b!"
#define FUNCTION_COLUMNS "name:s catalog:s namespace:a description:s className:s isTemporary:b!"
#define CASE(name) SPARK__CONNECT__CATALOG__CAT_TYPE_##name

static const struct {
  Spark__Connect__Catalog__CatTypeCase which;
  const char *columns;
  trn_status (*run)(catalog_run *run, const Spark__Connect__Catalog *catalog); /* NULL: not yet */
} operations[] = {
    {CASE(CURRENT_DATABASE), "value:s", current_database},
    {CASE(SET_CURRENT_DATABASE), "value:s!", set_current_database},
    {CASE(LIST_DATABASES), "name:s catalog:s description:s locationUri:s", list_databases},
    {CASE(LIST_TABLES), TABLE_COLUMNS, list_tables},
    {CASE(LIST_FUNCTIONS), FUNCTION_COLUMNS, list_functions},
    {CASE(LIST_COLUMNS), "name:s description:s dataType:s nullable:b! isPartition:b! isBucket:b! isCluster:b!",
     list_columns},
    {CASE(GET_DATABASE), "name:s catalog:s description:s locationUri:s", get_database},
    {CASE(GET_TABLE), TABLE_COLUMNS, get_table},
    {CASE(GET_FUNCTION), FUNCTION_COLUMNS, get_function},
    {CASE(DATABASE_EXISTS), "value:b!", database_exists},
    {CASE(TABLE_EXISTS), "value:b!", table_exists},
    {CASE(FUNCTION_EXISTS), "value:b!", function_exists},
    {CASE(DROP_TEMP_VIEW), "value:b!", drop_temp_view},
    {CASE(DROP_GLOBAL_TEMP_VIEW), "value:b!", drop_global_temp_view},
    {CASE(IS_CACHED), "value:b!", is_cached},
    {CASE(CACHE_TABLE), "value:s!", cache_table},
    {CASE(UNCACHE_TABLE), "value:s!", uncache_table},
    {CASE(CLEAR_CACHE), "value:s!", clear_cache},
    {CASE(REFRESH_TABLE), "value:s!", refresh_table},
    {CASE(REFRESH_BY_PATH), "value:s!", nothing},
    {CASE(CURRENT_CATALOG), "value:s", current_catalog},
    {CASE(SET_CURRENT_CATALOG), "value:s!", set_current_catalog},
    {CASE(LIST_CATALOGS), "name:s description:s", list_catalogs},
    {CASE(DROP_TABLE), "value:s!", drop_table},
    {CASE(DROP_VIEW), "value:s!", drop_view},
    {CASE(LIST_VIEWS), TABLE_COLUMNS, list_views},
    {CASE(CREATE_TABLE), "value:s!", create_table},
    {CASE(CREATE_EXTERNAL_TABLE), "value:s!", create_external_table},
    {CASE(CREATE_DATABASE), "value:s!", create_database},
    {CASE(DROP_DATABASE), "value:s!", drop_database},
    {CASE(RECOVER_PARTITIONS), "value:s!", recover_partitions},
    {CASE(TRUNCATE_TABLE), "value:s!", truncate_table},
    {CASE(ANALYZE_TABLE), "value:s!", analyze_table},
    {CASE(GET_CREATE_TABLE_STRING), "value:s", create_string},
};

/* The row of an operation that is served; NULL: none. */
static int find_operation(const Spark__Connect__Catalog *catalog) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
    if (operations[i].which == catalog->cat_type_case && operations[i].run) return (int)i;
  return -1;
}

trn_status spark__catalog_columns(trn_arena *arena, const Spark__Connect__Catalog *catalog, spark_table *out,
                                  trn_error **error) {
  int index = find_operation(catalog);
  if (index < 0 && catalog->cat_type_case == SPARK__CONNECT__CATALOG__CAT_TYPE__NOT_SET)
    return spark__error_not_set(error, "spark.connect.Catalog", "CATTYPE_NOT_SET");
  if (index < 0) return spark__error_not_supported(error, &catalog->base, (int)catalog->cat_type_case);
  return spark__table_init(out, arena, operations[index].columns) ? trn__no_memory(error) : TRN_OK;
}

trn_status spark__catalog_run(spark_rpc *rpc, const Spark__Connect__Catalog *catalog, spark_table *out,
                              trn_error **error) {
  trn_status status = spark__catalog_columns(rpc->arena, catalog, out, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  catalog_run run = {rpc, rpc->session, rpc->arena, out, error};
  return operations[find_operation(catalog)].run(&run, catalog);
}
