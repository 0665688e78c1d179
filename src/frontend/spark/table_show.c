/* SHOW and DESCRIBE of tables, views and databases, in Spark's columns and words. */
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "frontend/spark/sql/sql.h"
#include "frontend/spark/tables.h"

typedef struct showing {
  spark_rpc *rpc;
  spark_table *out;
  const char *pattern; /* or NULL */
  const char *database;
  bool is_views, extended;
  trn_status status;
  trn_error **error;
} showing;

static trn_status add(spark_table *out, const char *a, const char *b, const char *c) {
  const char *texts[] = {a, b, c};
  spark_cell *cell = spark__table_add(out);
  if (!cell) return TRN_RESOURCE_EXHAUSTED;
  for (size_t i = 0; i < out->column_count && i < 3; i++) cell[i] = spark__cell_text(texts[i]);
  return TRN_OK;
}

/* ---- what a table is, as lines "name: value" ---- */

typedef struct details {
  spark_rpc *rpc;
  spark_table *out;    /* rows, or */
  trn_strbuf *text;    /* lines */
  bool failed;
} details;

static void detail(details *d, const char *name, const char *value) {
  if (!value) return;
  if (d->text) {
    trn__strbuf_printf(d->text, "%s: %s\n", name, value);
    return;
  }
  const char *copy = trn__arena_strdup(d->rpc->arena, value);
  d->failed |= !copy || add(d->out, name, copy, "") != TRN_OK;
}

static const char *time_text(spark_rpc *rpc, int64_t ms, bool iso) {
  char text[64];
  time_t seconds = (time_t)(ms / 1000);
  struct tm parts;
  gmtime_r(&seconds, &parts);
  strftime(text, sizeof text, iso ? "%Y-%m-%dT%H:%M:%SZ" : "%a %b %d %H:%M:%S UTC %Y", &parts);
  return trn__arena_strdup(rpc->arena, text);
}

static int compare_pairs(const void *a, const void *b) {
  return strcmp(((const trn_kv *)a)->key, ((const trn_kv *)b)->key);
}

static const trn_kv *sorted(spark_rpc *rpc, const trn_kv *pairs, size_t count) {
  trn_kv *copy = TRN_NEW_N(rpc->arena, trn_kv, count);
  if (!copy) return NULL;
  if (count) memcpy(copy, pairs, count * sizeof *copy);
  qsort(copy, count, sizeof *copy, compare_pairs);
  return copy;
}

static const char *list_text(spark_rpc *rpc, const trn_kv *pairs, size_t count) {
  trn_strbuf out = {0};
  const trn_kv *all = sorted(rpc, pairs, count);
  for (size_t i = 0; all && i < count; i++)
    trn__strbuf_printf(&out, "%s%s=%s", i ? ", " : "[", all[i].key, all[i].value ? all[i].value : "");
  trn__strbuf_putc(&out, ']');
  const char *copy = all && !out.failed ? trn__arena_strdup(rpc->arena, out.data) : NULL;
  trn__strbuf_finish(&out);
  return copy;
}

static const char *names_text(spark_rpc *rpc, const char *const *names, size_t count) {
  trn_strbuf out = {0};
  trn__strbuf_putc(&out, '[');
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&out, "%s`%s`", i ? ", " : "", names[i]);
  trn__strbuf_putc(&out, ']');
  const char *copy = out.failed ? NULL : trn__arena_strdup(rpc->arena, out.data);
  trn__strbuf_finish(&out);
  return copy;
}

/* A path as Spark shows it. */
static const char *location_text(spark_rpc *rpc, const char *location) {
  if (!location) return NULL;
  bool bare = location[0] == '/';
  return trn__arena_printf(rpc->arena, bare ? "file:%s" : "%s", location);
}

static const char *view_mode(const trn_table_info *info) {
  for (size_t i = 0; i < info->option_count; i++)
    if (strcmp(info->options[i].key, SPARK_VIEW_MODE) == 0) return info->options[i].value;
  return "COMPENSATION";
}

static void view_details(details *d, const trn_table_info *info) {
  detail(d, "View Text", info->view_text);
  detail(d, "View Original Text", info->view_text);
  detail(d, "View Schema Mode", view_mode(info));
  detail(d, "View Catalog and Namespace",
         trn__arena_printf(d->rpc->arena, "spark_catalog.%s", info->view_database ? info->view_database : "default"));
  detail(d, "View Query Output Columns",
         names_text(d->rpc, info->view_columns, info->view_column_count));
}

static void table_details(details *d, const trn_table_info *info, const char *shown) {
  char number[24];
  detail(d, "Catalog", shown);
  detail(d, "Database", info->database);
  detail(d, "Table", info->name);
  if (info->owner && *info->owner) detail(d, "Owner", info->owner);
  detail(d, "Created Time", time_text(d->rpc, info->created_ms, false));
  detail(d, "Last Access", "UNKNOWN");
  detail(d, "Created By", info->created_by ? info->created_by : "Trunnion " TRUNNION_VERSION);
  detail(d, "Type", spark__kind_text(info->kind));
  detail(d, "Provider", info->format);
  if (info->bucket_count) {
    snprintf(number, sizeof number, "%u", info->bucket_count);
    detail(d, "Num Buckets", number);
    detail(d, "Bucket Columns", names_text(d->rpc, info->bucket_columns, info->bucket_column_count));
    detail(d, "Sort Columns", names_text(d->rpc, info->sort_columns, info->sort_column_count));
  }
  detail(d, "Comment", info->comment);
  if (info->kind == TRN_TABLE_VIEW) view_details(d, info);
  if (info->property_count) detail(d, "Table Properties", list_text(d->rpc, info->properties, info->property_count));
  detail(d, "Location", location_text(d->rpc, info->location));
  if (info->option_count) detail(d, "Storage Properties", list_text(d->rpc, info->options, info->option_count));
  if (info->partition_column_count) detail(d, "Partition Provider", "Catalog");
}

/* ---- SHOW TABLES, VIEWS, TABLE EXTENDED ---- */

static const char *type_word(const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_INT8: return "byte";
  case TRN_TYPE_INT16: return "short";
  case TRN_TYPE_INT32: return "integer";
  case TRN_TYPE_INT64: return "long";
  case TRN_TYPE_ARRAY: return "array";
  case TRN_TYPE_MAP: return "map";
  case TRN_TYPE_STRUCT: return "struct";
  default: return NULL;
  }
}

/* The schema as printSchema shows its outermost level. */
static void schema_text(trn_strbuf *out, const trn_field *fields, uint32_t count) {
  trn__strbuf_puts(out, "Schema: root\n");
  for (uint32_t i = 0; i < count; i++) {
    trn_strbuf type = {0};
    const char *word = type_word(fields[i].type);
    if (!word) spark__type_simple(&type, fields[i].type);
    trn__strbuf_printf(out, " |-- %s: %s (nullable = %s)\n", fields[i].name, word ? word : type.data ? type.data : "",
                       fields[i].nullable ? "true" : "false");
    trn__strbuf_finish(&type);
  }
  trn__strbuf_putc(out, '\n');
}

static const char *extended_text(spark_rpc *rpc, const trn_table_info *info) {
  trn_strbuf text = {0};
  details d = {.rpc = rpc, .text = &text};
  const trn_field *fields = NULL;
  uint32_t count = 0;
  table_details(&d, info, SPARK_CATALOG);
  if (spark__table_fields(rpc->arena, info, &fields, &count, NULL)) text.failed = true;
  if (info->partition_column_count)
    trn__strbuf_printf(&text, "Partition Columns: %s\n", names_text(rpc, info->partition_columns, info->partition_column_count));
  if (!text.failed) schema_text(&text, fields, count);
  const char *copy = text.failed ? NULL : trn__arena_strdup(rpc->arena, text.data);
  trn__strbuf_finish(&text);
  return copy;
}

static void show_table(void *user, const trn_table_info *info) {
  showing *s = user;
  if (s->status || (s->is_views && info->kind != TRN_TABLE_VIEW) || !spark__pattern_matches(s->pattern, info->name)) return;
  const char *database = trn__arena_strdup(s->rpc->arena, info->database), *name = trn__arena_strdup(s->rpc->arena, info->name);
  const char *extended = s->extended ? extended_text(s->rpc, info) : NULL;
  spark_cell *cell = database && name && (extended || !s->extended) ? spark__table_add(s->out) : NULL;
  if (!cell) {
    s->status = trn__no_memory(s->error);
    return;
  }
  cell[0] = spark__cell_text(database);
  cell[1] = spark__cell_text(name);
  cell[2] = spark__cell_bool(false);
  if (s->extended) cell[3] = spark__cell_text(extended);
}

static trn_status show_temporary(showing *s, bool global) {
  static const char prefix[] = "global_temp.";
  trn_vec names = {0};
  trn_status status = spark__session_views(s->rpc->session, &names) ? TRN_OK : trn__no_memory(s->error);
  for (size_t i = 0; i < names.count; i++) {
    char *name = names.items[i];
    bool is_global = strncmp(name, prefix, sizeof prefix - 1) == 0;
    const char *plain = is_global ? name + sizeof prefix - 1 : name;
    if (!status && (global || !is_global) && spark__pattern_matches(s->pattern, plain)) {
      char *copy = trn__arena_strdup(s->rpc->arena, plain);
      spark_cell *cell = copy ? spark__table_add(s->out) : NULL;
      if (!cell) {
        status = trn__no_memory(s->error);
      } else {
        cell[0] = spark__cell_text(is_global ? "global_temp" : "");
        cell[1] = spark__cell_text(copy);
        cell[2] = spark__cell_bool(true);
        if (s->extended) cell[3] = spark__cell_text("");
      }
    }
    free(name);
  }
  trn__vec_finish(&names);
  return status;
}

static trn_status show_tables(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  showing s = {.rpc = rpc, .out = out, .error = error, .pattern = *show->pattern ? show->pattern : NULL,
               .is_views = strcmp(show->what, "views") == 0, .extended = strcmp(show->what, "table extended") == 0};
  spark_table_name database;
  bool global = strcasecmp(show->namespace_, "global_temp") == 0;
  if (global) return show_temporary(&s, true);
  trn_status status = spark__database_of(rpc, show->namespace_, true, &database, error);
  if (!status)
    status = trn_catalog_list_tables(database.catalog, rpc->session->session, database.database, s.extended, show_table, &s,
                                     error);
  if (!status) status = s.status;
  return status ? status : show_temporary(&s, false);
}

/* ---- SHOW DATABASES, COLUMNS, TBLPROPERTIES, PARTITIONS ---- */

static void show_database(void *user, const trn_database_info *info) {
  showing *s = user;
  if (s->status || !spark__pattern_matches(s->pattern, info->name)) return;
  const char *name = trn__arena_strdup(s->rpc->arena, info->name);
  if (!name || add(s->out, name, NULL, NULL)) s->status = trn__no_memory(s->error);
}

static trn_status show_databases(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                 trn_error **error) {
  showing s = {.rpc = rpc, .out = out, .error = error, .pattern = *show->pattern ? show->pattern : NULL};
  trn_catalog *catalog = NULL;
  const char *shown = NULL;
  trn_status status = spark__catalog_named(rpc->arena, rpc->session->session, *show->namespace_ ? show->namespace_ : NULL,
                                           &catalog, &shown, error);
  if (!status) status = trn_catalog_list_databases(catalog, rpc->session->session, show_database, &s, error);
  return status ? status : s.status;
}

static trn_status show_columns(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  trn_plan *plan = NULL;
  const char *text = show->name;
  if (*show->namespace_ && !strchr(text, '.')) text = trn__arena_printf(rpc->arena, "%s.%s", show->namespace_, text);
  if (!text) return trn__no_memory(error);
  if (!spark__is_temp_view(rpc, text)) {
    trn_status status = spark__need_table(rpc, text, &name, &table, error);
    if (status) return status;
  }
  trn_status status = spark__plan_table(rpc, text, &plan, error);
  for (uint32_t i = 0; !status && i < plan->field_count; i++) {
    const char *column = trn__arena_strdup(rpc->arena, plan->fields[i].name);
    if (!column || (spark__pattern_matches(*show->pattern ? show->pattern : NULL, column) && add(out, column, NULL, NULL)))
      status = trn__no_memory(error);
  }
  trn_plan_unref(plan);
  return status;
}

static trn_status show_properties(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  if (spark__is_temp_view(rpc, show->name)) return TRN_OK;
  trn_status status = spark__need_table(rpc, show->name, &name, &table, error);
  if (status) return status;
  const trn_table_info *info = trn_table_get_info(table);
  size_t options = info->kind == TRN_TABLE_VIEW ? 0 : info->option_count, count = info->property_count + options;
  trn_kv *all = TRN_NEW_N(rpc->arena, trn_kv, count);
  if (!all) return trn__no_memory(error);
  for (size_t i = 0; i < info->property_count; i++) all[i] = info->properties[i];
  for (size_t i = 0; i < options; i++) {
    all[info->property_count + i] =
        (trn_kv){trn__arena_printf(rpc->arena, "option.%s", info->options[i].key), info->options[i].value};
    if (!all[info->property_count + i].key) return trn__no_memory(error);
  }
  qsort(all, count, sizeof *all, compare_pairs);
  for (size_t i = 0; i < count && !status; i++)
    if ((!*show->key || strcmp(show->key, all[i].key) == 0) && add(out, all[i].key, all[i].value, NULL))
      status = trn__no_memory(error);
  if (status || !*show->key || out->row_count) return status;
  const char *text = trn__arena_printf(rpc->arena, "Table %s does not have property: %s",
                                       spark__table_text(rpc->arena, &name, false), show->key);
  return !text || add(out, show->key, text, NULL) ? trn__no_memory(error) : TRN_OK;
}

static void put_escaped(trn_strbuf *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7F || strchr("\"#%'*/:=?\\{[]^", c)) trn__strbuf_printf(out, "%%%02X", c);
    else trn__strbuf_putc(out, (char)c);
  }
}

typedef struct partition_rows {
  showing s;
  const trn_table_info *info;
} partition_rows;

static void show_partition(void *user, const trn_partition_info *p) {
  partition_rows *rows = user;
  trn_strbuf text = {0};
  for (size_t i = 0; i < p->value_count; i++) {
    trn__strbuf_printf(&text, "%s%s=", i ? "/" : "", rows->info->partition_columns[i]);
    if (p->values[i]) put_escaped(&text, p->values[i]);
    else trn__strbuf_puts(&text, SPARK_NULL_PARTITION);
  }
  const char *copy = text.failed ? NULL : trn__arena_strdup(rows->s.rpc->arena, text.data);
  trn__strbuf_finish(&text);
  if (!copy || add(rows->s.out, copy, NULL, NULL)) rows->s.status = trn__no_memory(rows->s.error);
}

static trn_status show_partitions(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out,
                                  trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  const trn_kv *pairs = NULL;
  size_t count = 0;
  trn_status status = spark__refuse_temp_view(rpc, show->name, "SHOW PARTITIONS", false, error);
  if (!status) status = spark__need_table(rpc, show->name, &name, &table, error);
  if (status) return status;
  partition_rows rows = {.s = {.rpc = rpc, .out = out, .error = error}, .info = trn_table_get_info(table)};
  if (!rows.info->partition_column_count) {
    const char *shown = spark__table_text(rpc->arena, &name, true);
    return shown ? spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY", "name",
                                shown, NULL, NULL, NULL, NULL)
                 : trn__no_memory(error);
  }
  status = spark__partition_spec(rpc, rows.info, show->partitions, show->n_partitions, &pairs, &count, error);
  if (!status)
    status = trn_catalog_list_partitions(name.catalog, rpc->session->session, name.database, name.name, pairs, count,
                                         show_partition, &rows, error);
  return status ? status : rows.s.status;
}

/* ---- SHOW CREATE TABLE ---- */

static void quoted(trn_strbuf *out, const char *text) {
  trn__strbuf_putc(out, '\'');
  for (; *text; text++) {
    if (*text == '\'' || *text == '\\') trn__strbuf_putc(out, '\\');
    trn__strbuf_putc(out, *text);
  }
  trn__strbuf_putc(out, '\'');
}

static void pairs_text(spark_rpc *rpc, trn_strbuf *out, const char *word, const trn_kv *pairs, size_t count) {
  const trn_kv *all = sorted(rpc, pairs, count);
  if (!count) return;
  if (!all) {
    out->failed = true;
    return;
  }
  trn__strbuf_printf(out, "%s (\n", word);
  for (size_t i = 0; i < count; i++) {
    trn__strbuf_puts(out, i ? ",\n  " : "  ");
    quoted(out, all[i].key);
    trn__strbuf_puts(out, " = ");
    quoted(out, all[i].value ? all[i].value : "");
  }
  trn__strbuf_puts(out, ")\n");
}

static void columns_text(spark_rpc *rpc, trn_strbuf *out, const trn_table_info *info, const trn_field *fields,
                         uint32_t count) {
  bool view = info->kind == TRN_TABLE_VIEW;
  trn__strbuf_puts(out, " (\n");
  for (uint32_t i = 0; i < count; i++) {
    const char *comment = spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_COMMENT);
    const char *text = spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_DEFAULT);
    trn__strbuf_printf(out, "%s  %s", i ? ",\n" : "", fields[i].name);
    if (!view) {
      trn__strbuf_putc(out, ' ');
      spark__type_sql(out, fields[i].type);
      bool plain = fields[i].type->id == TRN_TYPE_STRING && fields[i].type->variant == TRN_STRING_PLAIN;
      if (plain) trn__strbuf_puts(out, " COLLATE UTF8_BINARY");
      if (text) trn__strbuf_printf(out, " DEFAULT %s", text);
    }
    if (comment) trn__strbuf_puts(out, " COMMENT "), quoted(out, comment);
  }
  trn__strbuf_puts(out, ")\n");
}

static void create_text(spark_rpc *rpc, trn_strbuf *out, const spark_table_name *name, const trn_table_info *info,
                        const trn_field *fields, uint32_t count) {
  bool view = info->kind == TRN_TABLE_VIEW;
  const char *full = spark__table_text(rpc->arena, name, false);
  if (view) full = trn__arena_printf(rpc->arena, "%s.%s", name->database, name->name);
  trn__strbuf_printf(out, "CREATE %s %s", view ? "VIEW" : "TABLE", full ? full : "");
  out->failed |= !full;
  columns_text(rpc, out, info, fields, count);
  if (!view) trn__strbuf_printf(out, "USING %s\n", info->format ? info->format : "parquet");
  pairs_text(rpc, out, "OPTIONS", info->options, view ? 0 : info->option_count);
  for (size_t i = 0; i < info->partition_column_count; i++)
    trn__strbuf_printf(out, "%s%s%s", i ? ", " : "PARTITIONED BY (", info->partition_columns[i],
                       i + 1 == info->partition_column_count ? ")\n" : "");
  if (info->comment) trn__strbuf_puts(out, "COMMENT "), quoted(out, info->comment), trn__strbuf_putc(out, '\n');
  if (info->kind == TRN_TABLE_EXTERNAL && info->location)
    trn__strbuf_puts(out, "LOCATION "), quoted(out, location_text(rpc, info->location)), trn__strbuf_putc(out, '\n');
  pairs_text(rpc, out, "TBLPROPERTIES", info->properties, info->property_count);
  if (view) trn__strbuf_printf(out, "WITH SCHEMA %s\nAS %s\n", view_mode(info), info->view_text ? info->view_text : "");
}

trn_status spark__create_statement(spark_rpc *rpc, const char *text, const char **out, trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  const trn_field *fields = NULL;
  uint32_t count = 0;
  trn_strbuf statement = {0};
  trn_status status = spark__refuse_temp_view(rpc, text, "SHOW CREATE TABLE", true, error);
  if (!status) status = spark__need_table(rpc, text, &name, &table, error);
  if (!status) status = spark__table_fields(rpc->arena, trn_table_get_info(table), &fields, &count, error);
  if (status) return status;
  create_text(rpc, &statement, &name, trn_table_get_info(table), fields, count);
  *out = statement.failed ? NULL : trn__arena_strdup(rpc->arena, statement.data);
  trn__strbuf_finish(&statement);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status show_create(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  const char *text = NULL;
  trn_status status = spark__create_statement(rpc, show->name, &text, error);
  if (status) return status;
  return add(out, text, NULL, NULL) ? trn__no_memory(error) : TRN_OK;
}

static trn_status show_current(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error) {
  spark_table_name name;
  (void)show;
  trn_status status = spark__database_of(rpc, "", false, &name, error);
  if (status) return status;
  return add(out, name.shown, name.database, NULL) ? trn__no_memory(error) : TRN_OK;
}

static const struct {
  const char *what, *columns;
  trn_status (*run)(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, trn_error **error);
} shows[] = {
    {"tables", "namespace:s! tableName:s! isTemporary:b!", show_tables},
    {"views", "namespace:s! viewName:s! isTemporary:b!", show_tables},
    {"table extended", "namespace:s! tableName:s! isTemporary:b! information:s!", show_tables},
    {"databases", "namespace:s!", show_databases},
    {"current namespace", "catalog:s! namespace:s!", show_current},
    {"columns", "col_name:s!", show_columns},
    {"tblproperties", "key:s! value:s!", show_properties},
    {"partitions", "partition:s!", show_partitions},
    {"create table", "createtab_stmt:s!", show_create},
};

trn_status spark__show_of_catalog(spark_rpc *rpc, const Spark__Connect__TrnShow *show, spark_table *out, bool *found,
                                  trn_error **error) {
  for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
    if (strcmp(shows[i].what, show->what) != 0) continue;
    *found = true;
    if (spark__table_init(out, rpc->arena, shows[i].columns)) return trn__no_memory(error);
    return shows[i].run(rpc, show, out, error);
  }
  *found = false;
  return TRN_OK;
}

/* ---- DESCRIBE ---- */

static trn_status describe_columns(spark_rpc *rpc, const trn_table_info *info, const trn_field *fields, uint32_t from,
                                   uint32_t count, spark_table *out) {
  for (uint32_t i = from; i < count; i++) {
    trn_strbuf type = {0};
    spark__type_simple(&type, fields[i].type);
    const char *name = trn__arena_strdup(rpc->arena, fields[i].name);
    const char *text = type.failed ? NULL : trn__arena_strdup(rpc->arena, type.data);
    trn__strbuf_finish(&type);
    const char *comment = spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_COMMENT);
    if (!name || !text || add(out, name, text, comment)) return TRN_RESOURCE_EXHAUSTED;
  }
  return TRN_OK;
}

static trn_status describe_column(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, const trn_table_info *info,
                                  const trn_field *fields, uint32_t count, spark_table *out, trn_error **error) {
  static const char *const statistics[] = {"min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "histogram"};
  uint32_t at = 0;
  while (at < count && strcasecmp(fields[at].name, describe->column) != 0) at++;
  if (at == count) {
    const char *name = trn__arena_printf(rpc->arena, "`%s`", describe->column);
    return name ? spark__raise(error, TRN_INVALID_ARGUMENT, "COLUMN_NOT_FOUND", "colName", name, "caseSensitiveConfig",
                               "\"spark.sql.caseSensitive\"", NULL, NULL)
                : trn__no_memory(error);
  }
  trn_strbuf type = {0};
  spark__type_simple(&type, fields[at].type);
  const char *text = type.failed ? NULL : trn__arena_strdup(rpc->arena, type.data);
  trn__strbuf_finish(&type);
  const char *comment = spark__column_text(rpc->arena, info->schema->children[at], TRN_COLUMN_COMMENT);
  if (!text || spark__table_init(out, rpc->arena, "info_name:s! info_value:s!")) return trn__no_memory(error);
  trn_status status = add(out, "col_name", fields[at].name, NULL);
  if (!status) status = add(out, "data_type", text, NULL);
  if (!status) status = add(out, "comment", comment ? comment : "NULL", NULL);
  for (size_t i = 0; describe->extended && !status && i < sizeof statistics / sizeof *statistics; i++)
    status = add(out, statistics[i], "NULL", NULL);
  return status ? trn__no_memory(error) : TRN_OK;
}

static void json_pair(trn_strbuf *out, const char *key, const char *value) {
  if (!value) return;
  trn__strbuf_printf(out, ",\"%s\":", key);
  spark__json_string(out, value);
}

static void json_list(trn_strbuf *out, const char *key, const char *const *names, size_t count) {
  if (!count) return;
  trn__strbuf_printf(out, ",\"%s\":[", key);
  for (size_t i = 0; i < count; i++) {
    if (i) trn__strbuf_putc(out, ',');
    spark__json_string(out, names[i]);
  }
  trn__strbuf_putc(out, ']');
}

static void json_map(spark_rpc *rpc, trn_strbuf *out, const char *key, const trn_kv *pairs, size_t count) {
  const trn_kv *all = sorted(rpc, pairs, count);
  if (!count || !all) return;
  trn__strbuf_printf(out, ",\"%s\":{", key);
  for (size_t i = 0; i < count; i++) {
    if (i) trn__strbuf_putc(out, ',');
    spark__json_string(out, all[i].key);
    trn__strbuf_putc(out, ':');
    spark__json_string(out, all[i].value ? all[i].value : "");
  }
  trn__strbuf_putc(out, '}');
}

static void json_type(trn_strbuf *out, const trn_type *type, unsigned depth) {
  trn_strbuf name = {0};
  if (depth > TRN_TYPE_DEPTH_MAX) out->failed = true;
  if (out->failed) return;
  switch (type->id) {
  case TRN_TYPE_DECIMAL:
    trn__strbuf_printf(out, "{\"name\":\"decimal\",\"precision\":%d,\"scale\":%d}", type->precision, type->scale);
    return;
  case TRN_TYPE_STRING:
    if (type->variant != TRN_STRING_PLAIN)
      trn__strbuf_printf(out, "{\"name\":\"%s\",\"length\":%d}", type->variant == TRN_STRING_CHAR ? "char" : "varchar", (int)type->length);
    else
      trn__strbuf_puts(out, "{\"name\":\"string\",\"collation\":\"UTF8_BINARY\"}");
    return;
  case TRN_TYPE_ARRAY:
    trn__strbuf_puts(out, "{\"name\":\"array\",\"element_type\":");
    json_type(out, type->fields[0].type, depth + 1);
    trn__strbuf_printf(out, ",\"element_nullable\":%s}", type->fields[0].nullable ? "true" : "false");
    return;
  case TRN_TYPE_MAP:
    trn__strbuf_puts(out, "{\"name\":\"map\",\"key_type\":");
    json_type(out, type->fields[0].type, depth + 1);
    trn__strbuf_puts(out, ",\"value_type\":");
    json_type(out, type->fields[1].type, depth + 1);
    trn__strbuf_printf(out, ",\"value_nullable\":%s}", type->fields[1].nullable ? "true" : "false");
    return;
  case TRN_TYPE_STRUCT:
    trn__strbuf_puts(out, "{\"name\":\"struct\",\"fields\":[");
    for (uint32_t i = 0; i < type->field_count; i++) {
      trn__strbuf_puts(out, i ? ",{\"name\":" : "{\"name\":");
      spark__json_string(out, type->fields[i].name);
      trn__strbuf_puts(out, ",\"type\":");
      json_type(out, type->fields[i].type, depth + 1);
      trn__strbuf_printf(out, ",\"nullable\":%s}", type->fields[i].nullable ? "true" : "false");
    }
    trn__strbuf_puts(out, "]}");
    return;
  default:
    spark__type_simple(&name, type);
    const char *text = !name.data ? "" : strcmp(name.data, "timestamp") == 0 ? "timestamp_ltz" : name.data;
    trn__strbuf_printf(out, "{\"name\":\"%s\"}", text);
    trn__strbuf_finish(&name);
  }
}

static void json_columns(spark_rpc *rpc, trn_strbuf *out, const trn_table_info *info, const trn_field *fields, uint32_t count) {
  trn__strbuf_puts(out, ",\"columns\":[");
  for (uint32_t i = 0; i < count; i++) {
    trn__strbuf_puts(out, i ? ",{\"name\":" : "{\"name\":");
    spark__json_string(out, fields[i].name);
    trn__strbuf_puts(out, ",\"type\":");
    json_type(out, fields[i].type, 0);
    trn__strbuf_printf(out, ",\"nullable\":%s", fields[i].nullable ? "true" : "false");
    json_pair(out, "comment", spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_COMMENT));
    json_pair(out, "default", spark__column_text(rpc->arena, info->schema->children[i], TRN_COLUMN_DEFAULT));
    trn__strbuf_putc(out, '}');
  }
  trn__strbuf_putc(out, ']');
}

static trn_status describe_json(spark_rpc *rpc, const spark_table_name *name, const trn_table_info *info,
                                const trn_field *fields, uint32_t count, spark_table *out, trn_error **error) {
  trn_strbuf text = {0};
  trn__strbuf_puts(&text, "{\"table_name\":");
  spark__json_string(&text, info->name);
  json_pair(&text, "catalog_name", name->shown);
  json_list(&text, "namespace", &info->database, 1);
  json_pair(&text, "schema_name", info->database);
  json_columns(rpc, &text, info, fields, count);
  json_list(&text, "partition_columns", info->partition_columns, info->partition_column_count);
  json_pair(&text, "location", location_text(rpc, info->location));
  json_map(rpc, &text, "storage_properties", info->options, info->option_count);
  json_map(rpc, &text, "table_properties", info->properties, info->property_count);
  json_pair(&text, "created_time", time_text(rpc, info->created_ms, true));
  json_pair(&text, "last_access", "UNKNOWN");
  json_pair(&text, "created_by", info->created_by ? info->created_by : "Trunnion " TRUNNION_VERSION);
  json_pair(&text, "type", spark__kind_text(info->kind));
  json_pair(&text, "provider", info->format);
  json_pair(&text, "comment", info->comment);
  json_pair(&text, "view_text", info->kind == TRN_TABLE_VIEW ? info->view_text : NULL);
  json_pair(&text, "collation", "UTF8_BINARY");
  if (info->partition_column_count) json_pair(&text, "partition_provider", "Catalog");
  trn__strbuf_putc(&text, '}');
  const char *copy = text.failed ? NULL : trn__arena_strdup(rpc->arena, text.data);
  trn__strbuf_finish(&text);
  if (!copy || spark__table_init(out, rpc->arena, "json_metadata:s") || add(out, copy, NULL, NULL)) return trn__no_memory(error);
  return TRN_OK;
}

static trn_status describe_rows(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, const spark_table_name *name,
                                const trn_table_info *info, const trn_field *fields, uint32_t count, spark_table *out) {
  trn_status status = spark__table_init(out, rpc->arena, "col_name:s! data_type:s! comment:s");
  if (!status) status = describe_columns(rpc, info, fields, 0, count, out);
  if (!status && info->partition_column_count) {
    status = add(out, "# Partition Information", "", "");
    if (!status) status = add(out, "# col_name", "data_type", "comment");
    if (!status) status = describe_columns(rpc, info, fields, count - (uint32_t)info->partition_column_count, count, out);
  }
  if (status || !describe->extended) return status;
  details d = {.rpc = rpc, .out = out};
  status = add(out, "", "", "");
  if (!status) status = add(out, info->kind == TRN_TABLE_VIEW ? "# Detailed Table Information" : "# Detailed Table Information", "", "");
  table_details(&d, info, name->shown);
  return d.failed ? TRN_RESOURCE_EXHAUSTED : status;
}

trn_status spark__describe_table(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out, bool *found,
                                 trn_error **error) {
  spark_table_name name;
  trn_table *table = NULL;
  const trn_field *fields = NULL;
  uint32_t count = 0;
  *found = !spark__is_temp_view(rpc, describe->name);
  if (!*found) return TRN_OK;
  trn_status status = spark__name_of(rpc, describe->name, &name, error);
  if (!status) status = spark__find_table(rpc, &name, &table, error);
  if (status) return status;
  if (!table) { /* perhaps files; or an error that says what there is not */
    *found = false;
    return TRN_OK;
  }
  const trn_table_info *info = trn_table_get_info(table);
  status = spark__table_fields(rpc->arena, info, &fields, &count, error);
  if (status) return status;
  if (*describe->column) return describe_column(rpc, describe, info, fields, count, out, error);
  if (describe->json) return describe_json(rpc, &name, info, fields, count, out, error);
  return describe_rows(rpc, describe, &name, info, fields, count, out) ? trn__no_memory(error) : TRN_OK;
}

/* ---- DESCRIBE DATABASE ---- */

trn_status spark__describe_database(spark_rpc *rpc, const Spark__Connect__TrnDescribe *describe, spark_table *out,
                                    trn_error **error) {
  spark_table_name name;
  trn_database_info info;
  trn_status status = spark__get_database(rpc, describe->name, &name, &info, error);
  if (status) return status;
  const char *rows[][2] = {{"Catalog Name", name.shown},
                           {"Namespace Name", info.name},
                           {"Comment", info.comment ? info.comment : ""},
                           {"Location", info.location ? location_text(rpc, info.location) : ""},
                           {"Owner", info.owner ? info.owner : ""}};
  if (spark__table_init(out, rpc->arena, "info_name:s! info_value:s")) return trn__no_memory(error);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!rows[i][1] || add(out, rows[i][0], rows[i][1], NULL)) return trn__no_memory(error);
  if (!describe->extended) return TRN_OK;
  trn_strbuf text = {0};
  const trn_kv *all = sorted(rpc, info.properties, info.property_count);
  for (size_t i = 0; all && i < info.property_count; i++)
    trn__strbuf_printf(&text, "%s(%s,%s)", i ? ", " : "(", all[i].key, all[i].value);
  if (info.property_count) trn__strbuf_putc(&text, ')');
  const char *copy = text.failed ? NULL : trn__arena_strdup(rpc->arena, text.data ? text.data : "");
  trn__strbuf_finish(&text);
  return !copy || add(out, "Properties", copy, NULL) ? trn__no_memory(error) : TRN_OK;
}
