/* Tables and views of the catalogs as relations. */
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/table.h"

#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrow/arrow_util.h"
#include "catalog/command.h"
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/values.h"

/* ---- names ---- */

static const char *folded(trn_arena *arena, const char *text, bool case_sensitive) {
  char *copy = trn__arena_strdup(arena, text);
  for (char *c = copy; c && *c && !case_sensitive; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
  return copy;
}

static void drop_catalog(void *catalog) {
  trn_catalog_unref(catalog);
}

static trn_status raise(trn_error **error, trn_status status, const char *condition, const char *key1,
                        const char *value1, const char *key2, const char *value2) {
  const trn_error_param params[] = {{key1, value1}, {key2, value2}};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = status,
                               .condition = condition,
                               .params = params,
                               .param_count = key2 ? 2 : 1};
  if (error) *error = trn_error_create(&spec);
  return status;
}

trn_status spark__catalog_named(trn_arena *arena, trn_session *session, const char *name, trn_catalog **out,
                                const char **shown, trn_error **error) {
  trn_error *missing = NULL;
  bool is_default = !name || strcasecmp(name, SPARK_CATALOG) == 0;
  trn_status status = trn_session_get_catalog(session, is_default ? NULL : name, out, &missing);
  if (status == TRN_NOT_FOUND) {
    const char *quoted = trn__arena_printf(arena, "`%s`", name);
    const char *setting = trn__arena_printf(arena, "\"spark.sql.catalog.%s\"", name);
    trn_error_unref(missing);
    if (!quoted || !setting) return trn__no_memory(error);
    return raise(error, TRN_NOT_FOUND, "CATALOG_NOT_FOUND", "catalogName", quoted, "config", setting);
  }
  if (status) {
    if (error) *error = missing;
    else trn_error_unref(missing);
    return status;
  }
  *shown = is_default ? SPARK_CATALOG : trn__arena_strdup(arena, trn_catalog_name(*out));
  if (*shown && trn__arena_own(arena, drop_catalog, *out)) return TRN_OK;
  trn_catalog_unref(*out);
  return trn__no_memory(error);
}

static bool is_catalog(trn_session *session, const char *name) {
  trn_catalog *catalog = NULL;
  bool found = strcasecmp(name, SPARK_CATALOG) == 0 || trn_session_get_catalog(session, name, &catalog, NULL) == TRN_OK;
  trn_catalog_unref(catalog);
  return found;
}

/* The session's catalog (NULL: the default) and database. */
static trn_status current(trn_arena *arena, trn_session *session, const spark_namespace *inside, const char **catalog,
                          const char **database, trn_error **error) {
  char *own = NULL, *schema = NULL;
  if (inside && inside->database) {
    *catalog = inside->catalog, *database = inside->database;
    return TRN_OK;
  }
  trn_status status = trn_session_namespace(session, &own, &schema, error);
  if (!status) {
    trn_catalog *first = NULL;
    bool is_default = trn_session_get_catalog(session, NULL, &first, NULL) == TRN_OK && strcmp(trn_catalog_name(first), own) == 0;
    trn_catalog_unref(first);
    *catalog = is_default ? NULL : trn__arena_strdup(arena, own);
    *database = trn__arena_strdup(arena, schema);
    if (!*database || (!is_default && !*catalog)) status = trn__no_memory(error);
  }
  free(own), free(schema);
  return status;
}

static trn_status too_many_parts(trn_arena *arena, char *const *parts, size_t count, trn_error **error) {
  const char *text = spark__sql_quote_path(arena, parts, count);
  trn_strbuf quoted = {0};
  for (size_t i = 0; i < count; i++) trn__strbuf_printf(&quoted, "%s`%s`", i ? "." : "", parts[i]);
  trn_status status = !text || quoted.failed
                          ? trn__no_memory(error)
                          : raise(error, TRN_INVALID_ARGUMENT, "REQUIRES_SINGLE_PART_NAMESPACE", "sessionCatalog",
                                  SPARK_CATALOG, "identifier", quoted.data);
  trn__strbuf_finish(&quoted);
  return status;
}

trn_status spark__table_name(trn_arena *arena, trn_session *session, bool case_sensitive, const spark_namespace *inside,
                             char *const *parts, size_t count, spark_table_name *out, trn_error **error) {
  const char *catalog = NULL, *database = NULL;
  trn_status status = current(arena, session, inside, &catalog, &database, error);
  if (status) return status;
  if (count > 3 || count == 0 || (count == 3 && !is_catalog(session, parts[0])))
    return too_many_parts(arena, parts, count, error);
  if (count == 3) catalog = parts[0];
  *out = (spark_table_name){.database = count > 1 ? folded(arena, parts[count - 2], case_sensitive) : database,
                            .name = folded(arena, parts[count - 1], case_sensitive)};
  if (!out->database || !out->name) return trn__no_memory(error);
  return spark__catalog_named(arena, session, catalog, &out->catalog, &out->shown, error);
}

trn_status spark__database_name(trn_arena *arena, trn_session *session, bool case_sensitive, char *const *parts,
                                size_t count, spark_table_name *out, trn_error **error) {
  const char *catalog = NULL, *database = NULL;
  trn_status status = current(arena, session, NULL, &catalog, &database, error);
  if (status) return status;
  if (count > 2 || (count == 2 && !is_catalog(session, parts[0]))) return too_many_parts(arena, parts, count, error);
  if (count == 2) catalog = parts[0];
  *out = (spark_table_name){.database = count ? folded(arena, parts[count - 1], case_sensitive) : database, .name = ""};
  if (!out->database) return trn__no_memory(error);
  return spark__catalog_named(arena, session, catalog, &out->catalog, &out->shown, error);
}

const char *spark__table_text(trn_arena *arena, const spark_table_name *name, bool quoted) {
  const char *q = quoted ? "`" : "";
  if (!*name->name) return trn__arena_printf(arena, "%s%s%s.%s%s%s", q, name->shown, q, q, name->database, q);
  return trn__arena_printf(arena, "%s%s%s.%s%s%s.%s%s%s", q, name->shown, q, q, name->database, q, q, name->name, q);
}

/* ---- columns ---- */

const char *spark__column_text(trn_arena *arena, const struct ArrowSchema *column, const char *key) {
  size_t size = 0;
  const char *text = trn__schema_metadata(column, key, &size);
  return text ? trn__arena_str(arena, text, size) : NULL;
}

static void json_text(trn_strbuf *out, const char *text) {
  trn__strbuf_putc(out, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') trn__strbuf_putc(out, '\\');
    if (c < 0x20) trn__strbuf_printf(out, "\\u%04x", c);
    else trn__strbuf_putc(out, (char)c);
  }
  trn__strbuf_putc(out, '"');
}

static trn_status column_field(trn_arena *arena, const struct ArrowSchema *column, trn_field *out, trn_error **error) {
  trn_status status = trn__field_import(arena, column, out, error);
  const char *type = spark__column_text(arena, column, TRN_COLUMN_TYPE_TEXT);
  const char *comment = spark__column_text(arena, column, TRN_COLUMN_COMMENT);
  if (!status && type) {
    Spark__Connect__DataType *proto = NULL;
    status = spark__sql_parse_type(arena, type, strlen(type), NULL, &proto, error);
    if (!status) status = spark__type_from_proto(arena, proto, &out->type, error);
  }
  if (status || !comment) return status;
  trn_strbuf json = {0};
  trn__strbuf_puts(&json, "{\"comment\":");
  json_text(&json, comment);
  trn__strbuf_putc(&json, '}');
  out->metadata = json.failed ? NULL : trn__arena_strdup(arena, json.data);
  trn__strbuf_finish(&json);
  return out->metadata ? TRN_OK : trn__no_memory(error);
}

trn_status spark__table_fields(trn_arena *arena, const trn_table_info *info, const trn_field **out, uint32_t *count,
                               trn_error **error) {
  trn_field *fields = TRN_NEW_N(arena, trn_field, (size_t)info->schema->n_children);
  trn_status status = fields ? TRN_OK : trn__no_memory(error);
  for (int64_t i = 0; !status && i < info->schema->n_children; i++)
    status = column_field(arena, info->schema->children[i], &fields[i], error);
  *out = fields;
  *count = (uint32_t)info->schema->n_children;
  return status;
}

/* The type's text, where Arrow's form says less. NULL: it says all. */
static bool needs_text(trn_arena *arena, const trn_type *type, const struct ArrowSchema *arrow) {
  const trn_type *back = NULL;
  return trn__type_import(arena, arrow, &back, NULL) != TRN_OK || !trn__type_equal(type, back);
}

static trn_status export_column(trn_arena *arena, const trn_field *field, const char *comment, const char *text,
                                struct ArrowSchema *out, trn_error **error) {
  trn_strbuf type = {0};
  struct ArrowSchema plain = {0}, made = {0};
  trn_kv metadata[4];
  size_t count = 0;
  trn_status status = trn__type_export(field->type, field->name, field->nullable, NULL, NULL, &plain);
  if (status) return trn_error_set(error, status, NULL, "The type of the column %s cannot be stored", field->name);
  if (comment) metadata[count++] = (trn_kv){TRN_COLUMN_COMMENT, comment};
  if (text) metadata[count++] = (trn_kv){TRN_COLUMN_DEFAULT, text};
  if (needs_text(arena, field->type, &plain)) {
    spark__type_sql(&type, field->type);
    if (!type.failed) metadata[count++] = (trn_kv){TRN_COLUMN_TYPE_TEXT, type.data};
  }
  status = type.failed ? TRN_RESOURCE_EXHAUSTED
                       : trn__schema_init(&made, plain.format, field->name, plain.flags, metadata, count,
                                          (size_t)plain.n_children);
  for (int64_t i = 0; !status && i < plain.n_children; i++) status = trn__schema_copy(plain.children[i], made.children[i]);
  if (status) trn__schema_release(&made);
  else *out = made;
  trn__schema_release(&plain);
  trn__strbuf_finish(&type);
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status spark__table_schema(const trn_field *fields, uint32_t count, const char *const *comments,
                               const char *const *defaults, struct ArrowSchema *out, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  trn_status status = arena ? trn__schema_init(out, "+s", "", 0, NULL, 0, count) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    trn__arena_unref(arena);
    return trn__no_memory(error);
  }
  for (uint32_t i = 0; !status && i < count; i++)
    status = export_column(arena, &fields[i], comments ? comments[i] : NULL, defaults ? defaults[i] : NULL,
                           out->children[i], error);
  if (status) trn__schema_release(out);
  trn__arena_unref(arena);
  return status;
}

/* ---- tables ---- */

static void drop_table(void *table) {
  trn_table_unref(table);
}

static trn_status no_rows(spark_translator *t, const trn_field *fields, uint32_t count, const spark_qualifier *qualifier,
                          spark_relation *out, trn_error **error) {
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  if (!columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < count; i++)
    columns[i] = (trn_column){.id = t->next_column++, .type = fields[i].type, .nullable = fields[i].nullable};
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, NULL, 0, columns, count);
  return rel ? spark__scope_of(t, rel, fields, qualifier, out, error) : trn__no_memory(error);
}

/* The table's options as those of a read. */
static trn_status read_node(spark_translator *t, const trn_table_info *info, Spark__Connect__Read__DataSource **out,
                            trn_error **error) {
  Spark__Connect__Read__DataSource *node = TRN_NEW(t->arena, Spark__Connect__Read__DataSource);
  if (!node) return trn__no_memory(error);
  spark__connect__read__data_source__init(node);
  node->options = TRN_NEW_N(t->arena, Spark__Connect__Read__DataSource__OptionsEntry *, info->option_count);
  if (!node->options) return trn__no_memory(error);
  for (size_t i = 0; i < info->option_count; i++) {
    Spark__Connect__Read__DataSource__OptionsEntry *entry = TRN_NEW(t->arena, Spark__Connect__Read__DataSource__OptionsEntry);
    if (!entry) return trn__no_memory(error);
    spark__connect__read__data_source__options_entry__init(entry);
    entry->key = (char *)info->options[i].key;
    entry->value = (char *)(info->options[i].value ? info->options[i].value : "");
    if (strcasecmp(entry->key, "path") == 0) continue;
    node->options[node->n_options++] = entry;
  }
  *out = node;
  return TRN_OK;
}

/* The partitions that the catalog knows of a table, as rows of values. */
typedef struct known_partitions {
  spark_translator *t;
  trn_vec rows; /* arrays of texts, NULL for null */
  bool failed;
} known_partitions;

static void keep_partition(void *user, const trn_partition_info *partition) {
  known_partitions *known = user;
  const char **values = TRN_NEW_N(known->t->arena, const char *, partition->value_count);
  known->failed |= !values || !trn__vec_push(&known->rows, (void *)values);
  for (size_t i = 0; !known->failed && i < partition->value_count; i++) {
    if (!partition->values[i]) continue;
    values[i] = trn__arena_strdup(known->t->arena, partition->values[i]);
    known->failed |= !values[i];
  }
}

/* Whether there is anything to read at an external table's location. */
static trn_status has_location(spark_translator *t, const spark_table_name *name, const trn_table_info *info,
                               known_partitions *known, bool *out, trn_error **error) {
  const char *path = info->location ? info->location : "";
  *out = true;
  if (info->partition_column_count) {
    trn_status status = trn_catalog_list_partitions(name->catalog, t->session, name->database, name->name, NULL, 0,
                                                    keep_partition, known, error);
    if (!status && known->failed) status = trn__no_memory(error);
    if (status || !known->rows.count) {
      *out = false;
      return status;
    }
  }
  if (strncmp(path, "file:", 5) == 0) path += 5;
  if (!strstr(path, "://") && access(path, F_OK) != 0) *out = false;
  return TRN_OK;
}

/* Directories that the catalog does not know are not of the table: (p = 1 AND q = 'x') OR ... */
static trn_status only_known(spark_translator *t, const trn_table_info *info, const known_partitions *known,
                             spark_relation *out, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0, levels = info->partition_column_count;
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL), *string = trn__type(TRN_TYPE_STRING);
  const trn_expr *any = NULL;
  trn_status status = spark__scope_values(t, out->scope, &values, &count, error);
  for (size_t r = 0; r < known->rows.count && !status; r++) {
    const char **row = known->rows.items[r];
    const trn_expr *all = NULL;
    for (size_t i = 0; i < levels && !status; i++) {
      const trn_expr *column = values[count - levels + i].expr, *value;
      trn_expr *text = row[i] ? trn__expr_string(t->arena, row[i], strlen(row[i])) : trn__expr_null(t->arena, string);
      if (!text) return trn__no_memory(error);
      status = spark__cast(t, text, column->type, SPARK_CAST_LEGACY, (trn_position){-1, -1}, &value, error);
      if (status) break;
      const trn_expr *sides[] = {column, value};
      const trn_expr *is = trn__expr_call(t->arena, TRN_HOME_NATIVE, "is_not_distinct_from", boolean, false, sides, 2);
      const trn_expr *both[] = {all, is};
      all = all ? trn__expr_call(t->arena, TRN_HOME_NATIVE, "and", boolean, false, both, 2) : is;
      if (!all) return trn__no_memory(error);
    }
    const trn_expr *either[] = {any, all};
    if (!status) any = any ? trn__expr_call(t->arena, TRN_HOME_NATIVE, "or", boolean, false, either, 2) : all;
  }
  if (status || !any) return status;
  trn_rel *filter = trn__rel_filter(t->arena, out->rel, any);
  if (!filter) return trn__no_memory(error);
  out->rel = filter;
  return TRN_OK;
}

static trn_status read_table(spark_translator *t, const spark_table_name *name, trn_table *table,
                             const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  const trn_table_info *info = trn_table_get_info(table);
  const trn_table_file *files = NULL;
  const trn_field *fields = NULL;
  uint32_t count = 0;
  size_t file_count = 0;
  bool listed = trn_table_files(table, &files, &file_count), any = file_count > 0;
  trn_status status = spark__table_fields(t->arena, info, &fields, &count, error);
  for (uint32_t i = 0; !status && i < count; i++) /* char and varchar read as string */
    if (fields[i].type->id == TRN_TYPE_STRING) ((trn_field *)fields)[i].type = trn__type(TRN_TYPE_STRING);
  if (!status && !listed && !info->location)
    return spark__read_opened(t, name->catalog, table, fields, count, qualifier, out, error);
  known_partitions known = {.t = t};
  if (!status && !listed) {
    any = true;
    status = has_location(t, name, info, &known, &any, error);
  }
  if (status || !any) {
    trn__vec_finish(&known.rows);
    return status ? status : no_rows(t, fields, count, qualifier, out, error);
  }
  const char **paths = TRN_NEW_N(t->arena, const char *, file_count + 1);
  if (!paths) return trn__no_memory(error);
  for (size_t i = 0; i < file_count; i++) paths[i] = files[i].path;
  if (!listed) paths[file_count++] = info->location;
  spark_source_spec spec = {.format = info->format ? info->format : "parquet",
                            .paths = paths,
                            .path_count = file_count,
                            .listed = listed,
                            .qualifier = qualifier,
                            .schema = trn__type_struct(t->arena, fields, count),
                            .label = trn__arena_printf(t->arena, "%s.%s", name->database, name->name)};
  spec.info = (trn_scan_info){.struct_size = sizeof(trn_scan_info),
                              .kind = TRN_SCAN_TABLE,
                              .catalog = trn_catalog_name(name->catalog),
                              .database = name->database,
                              .table = name->name,
                              .format = info->format,
                              .paths = paths,
                              .path_count = file_count,
                              .files = listed ? file_count : 0,
                              .bytes = info->byte_count > 0 ? (uint64_t)info->byte_count : 0};
  if (listed)
    spec.info.version = trn__arena_printf(t->arena, "%s:%llu", info->identity, (unsigned long long)info->version);
  if (!spec.schema || !spec.label || (listed && !spec.info.version)) return trn__no_memory(error);
  Spark__Connect__Read__DataSource *node = NULL;
  status = read_node(t, info, &node, error);
  if (!status) status = spark__read_source(t, node, &spec, out, error);
  if (!status && known.rows.count && known.rows.count <= TRN_KNOWN_PARTITIONS_MAX) status = only_known(t, info, &known, out, error);
  trn__vec_finish(&known.rows);
  return status;
}

/* ---- views ---- */

static const char *view_mode(const trn_table_info *info) {
  for (size_t i = 0; i < info->option_count; i++)
    if (strcmp(info->options[i].key, SPARK_VIEW_MODE) == 0) return info->options[i].value;
  return "COMPENSATION";
}

/* Whether Spark reads `from` as `to` without a cast that may fail. */
static bool can_up_cast(const trn_type *from, const trn_type *to, unsigned depth) {
  static const trn_type_id ranks[] = {TRN_TYPE_INT8,  TRN_TYPE_INT16,   TRN_TYPE_INT32,
                                      TRN_TYPE_INT64, TRN_TYPE_FLOAT32, TRN_TYPE_FLOAT64};
  static const int digits[] = {3, 5, 10, 20}; /* of the integers, as decimals */
  int from_rank = -1, to_rank = -1;
  if (trn__type_equal(from, to) || from->id == TRN_TYPE_NULL) return true;
  if (depth > TRN_PLAN_DEPTH_MAX) return false;
  bool nested = from->id == TRN_TYPE_ARRAY || from->id == TRN_TYPE_MAP || from->id == TRN_TYPE_STRUCT;
  if (nested) {
    if (from->id != to->id || from->field_count != to->field_count) return false;
    for (uint32_t i = 0; i < from->field_count; i++)
      if ((from->fields[i].nullable && !to->fields[i].nullable) ||
          !can_up_cast(from->fields[i].type, to->fields[i].type, depth + 1))
        return false;
    return true;
  }
  if (spark__is_string(to)) return from->id != TRN_TYPE_BINARY;
  bool times = to->id == TRN_TYPE_TIMESTAMP || to->id == TRN_TYPE_TIMESTAMP_NTZ;
  if (times) return from->id == TRN_TYPE_DATE || from->id == TRN_TYPE_TIMESTAMP || from->id == TRN_TYPE_TIMESTAMP_NTZ;
  for (int i = 0; i < 6; i++) {
    if (from->id == ranks[i]) from_rank = i;
    if (to->id == ranks[i]) to_rank = i;
  }
  if (from_rank >= 0 && to_rank >= 0) return from_rank < to_rank;
  if (to->id != TRN_TYPE_DECIMAL) return from->id == TRN_TYPE_DECIMAL && to_rank >= 4 && from->precision <= (to_rank == 4 ? 7 : 15);
  if (from->id == TRN_TYPE_DECIMAL)
    return to->scale >= from->scale && to->precision - to->scale >= from->precision - from->scale;
  return from_rank >= 0 && from_rank < 4 && to->precision - to->scale >= digits[from_rank];
}

static trn_status refuse_up_cast(spark_translator *t, const spark_value *value, const trn_type *to, trn_error **error) {
  const char *source = spark__quoted_type(t, value->expr->type), *target = spark__quoted_type(t, to);
  trn_strbuf name = {0};
  for (uint32_t i = 0; value->qualifier && i < value->qualifier->count; i++)
    trn__strbuf_printf(&name, "%s.", value->qualifier->parts[i]);
  trn__strbuf_puts(&name, value->name ? value->name : "");
  const char *text = spark__finish_text(t, &name);
  if (!source || !target || !text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_UP_CAST_DATATYPE", (trn_position){-1, -1}, "expression", text,
                      "sourceType", source, "targetType", target, "details",
                      "The type path of the target object is:\n\nYou can either add an explicit cast to the input data or "
                      "choose a higher precision type of the field in the target object",
                      NULL);
}

/* The view as SHOW CREATE TABLE would not say it, but Spark's advice does. */
static trn_status refuse_view(spark_translator *t, const spark_table_name *name, const trn_table_info *info,
                              const char *wanted, trn_error **error) {
  const char *shown = trn__arena_printf(t->arena, "`%s`.`%s`.`%s`", name->shown, name->database, name->name);
  const char *advice = trn__arena_printf(t->arena, "CREATE OR REPLACE VIEW %s.%s.%s AS %s", name->shown, name->database,
                                         name->name, info->view_text ? info->view_text : "");
  if (!shown || !advice) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INCOMPATIBLE_VIEW_SCHEMA_CHANGE", (trn_position){-1, -1}, "viewName",
                      shown, "colName", wanted, "expectedNum", "1", "actualCols", "[]", "suggestion", advice, NULL);
}

/* The columns that the view had when it was made, by the names that its query gave them, under its own. */
static trn_status view_columns(spark_translator *t, const spark_table_name *name, const trn_table_info *info,
                               spark_relation *out, trn_error **error) {
  const trn_field *fields = NULL;
  spark_value *values = NULL, *picked;
  uint32_t count = 0;
  size_t given = 0;
  trn_status status = spark__table_fields(t->arena, info, &fields, &count, error);
  if (!status) status = spark__scope_values(t, out->scope, &values, &given, error);
  if (status) return status;
  const char *mode = view_mode(info);
  bool renamed = false;
  for (uint32_t i = 0; i < count; i++)
    renamed |= info->view_columns && i < info->view_column_count && strcmp(info->view_columns[i], fields[i].name) != 0;
  if (strcmp(mode, "EVOLUTION") == 0 && !renamed) return TRN_OK; /* whatever the query gives now */
  if (!(picked = TRN_NEW_N(t->arena, spark_value, count))) return trn__no_memory(error);
  for (uint32_t i = 0; i < count && !status; i++) {
    const char *wanted = info->view_columns && i < info->view_column_count ? info->view_columns[i] : fields[i].name;
    size_t at = i < given && spark__name_equal(t, values[i].name, wanted) ? i : 0;
    while (at < given && !spark__name_equal(t, values[at].name, wanted)) at++;
    if (at == given) return refuse_view(t, name, info, wanted, error);
    picked[i] = values[at];
  }
  for (uint32_t i = 0; i < count && !status; i++) {
    if (strcmp(mode, "BINDING") == 0 && !can_up_cast(picked[i].expr->type, fields[i].type, 0))
      return refuse_up_cast(t, &picked[i], fields[i].type, error);
    picked[i].name = fields[i].name;
    if (strcmp(mode, "TYPE EVOLUTION") != 0 && !trn__type_equal(picked[i].expr->type, fields[i].type)) {
      status = spark__cast(t, picked[i].expr, fields[i].type, SPARK_CAST_ANSI, (trn_position){-1, -1}, &picked[i].expr, error);
    }
    picked[i].is_attribute = false;
    picked[i].is_alias = true;
    picked[i].metadata = fields[i].metadata;
  }
  return status ? status : spark__project(t, out, picked, count, NULL, out, error);
}

/* The view that is being defined would read itself: v -> w -> v. */
static trn_status recursive_view(spark_translator *t, const spark_table_name *name, trn_error **error) {
  const spark_view_frame *frames[TRN_VIEW_DEPTH_MAX + 1];
  size_t depth = 0;
  trn_strbuf cycle = {0};
  trn__strbuf_puts(&cycle, t->view_name);
  for (const spark_view_frame *f = spark__state(t)->view; f && depth <= TRN_VIEW_DEPTH_MAX; f = f->outer) frames[depth++] = f;
  while (depth--) trn__strbuf_printf(&cycle, " -> `%s`.`%s`.`%s`", name->shown, name->database, frames[depth]->name);
  trn__strbuf_printf(&cycle, " -> %s", t->view_name);
  const char *text = spark__finish_text(t, &cycle);
  return text ? raise(error, TRN_INVALID_ARGUMENT, "RECURSIVE_VIEW", "viewIdent", t->view_name, "newPath", text)
              : trn__no_memory(error);
}

static void drop_plan(void *plan) { trn_plan_unref(plan); }

/* A view of another dialect: planned by who decodes that, its columns cast to Spark's types. */
static trn_status read_foreign_view(spark_translator *t, const spark_table_name *name, const trn_table_info *info,
                                    const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  const char *const parts[] = {trn_catalog_name(name->catalog), name->database, name->name};
  const trn_field *fields = NULL;
  const trn_rel *root = NULL;
  uint32_t count = 0;
  trn_resolved_table view = {0};
  trn_status status =
      trn__session_resolve_at(t->session, spark__state(t)->view_depth + t->outer_views, parts, 3, &view, error);
  if (!status) trn_table_unref(view.table);
  if (!status && !view.plan) { /* a table by now */
    if (view.source) trn_backend_source_unref(trn_session_backend(t->session), view.source);
    if (view.schema.release) view.schema.release(&view.schema);
    trn_scan_label_unref(view.label);
    status = trn_error_set(error, TRN_ABORTED, NULL, "The view %s was changed meanwhile", info->name);
  }
  if (!status && !trn__arena_own(t->arena, drop_plan, view.plan)) {
    trn_plan_unref(view.plan);
    status = trn__no_memory(error);
  }
  if (!status) status = spark__table_fields(t->arena, info, &fields, &count, error);
  if (!status && (view.plan->root->column_count != count || view.plan->next_column > UINT32_MAX - t->next_column))
    status = trn_error_set(error, TRN_ABORTED, NULL, "The view %s was changed meanwhile", info->name);
  if (!status) status = trn__renumber(t->arena, view.plan->root, t->next_column, &root, error);
  if (status) return status;
  t->next_column += view.plan->next_column;
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  if (!exprs || !columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < count; i++) {
    exprs[i] = trn__expr_column(t->arena, &root->columns[i]);
    if (exprs[i] && !trn__type_equal(root->columns[i].type, fields[i].type))
      exprs[i] = trn__expr_cast(t->arena, exprs[i], fields[i].type, false);
    if (!exprs[i]) return trn__no_memory(error);
    columns[i] = (trn_column){.id = t->next_column++, .type = fields[i].type, .nullable = exprs[i]->nullable};
  }
  const trn_rel *rel = trn__rel_project(t->arena, root, exprs, columns, count);
  return rel ? spark__scope_of(t, rel, fields, qualifier, out, error) : trn__no_memory(error);
}

static trn_status read_view(spark_translator *t, const spark_table_name *name, const trn_table_info *info,
                            const spark_qualifier *qualifier, spark_relation *out, trn_error **error) {
  Spark__Connect__Relation *relation = TRN_NEW(t->arena, Spark__Connect__Relation);
  Spark__Connect__SQL *sql = TRN_NEW(t->arena, Spark__Connect__SQL);
  char *text = trn__arena_strdup(t->arena, info->view_text ? info->view_text : "");
  const char *own = t->view_name ? spark__table_text(t->arena, name, true) : NULL;
  if (own && strcmp(own, t->view_name) == 0) return recursive_view(t, name, error);
  if (!relation || !sql || !text) return trn__no_memory(error);
  if (info->view_dialect && strcmp(info->view_dialect, "spark.sql") != 0)
    return read_foreign_view(t, name, info, qualifier, out, error);
  spark__connect__relation__init(relation);
  spark__connect__sql__init(sql);
  sql->query = text;
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation->sql = sql;
  spark_state *state = spark__state(t);
  spark_namespace before = {state->view_catalog, state->view_database};
  state->view_catalog = info->view_catalog;
  state->view_database = info->view_database ? info->view_database : name->database;
  const spark_plan_id *mark = state->last_plan;
  const spark_view_frame frame = {
      .name = name->name, .catalog = trn_catalog_name(name->catalog), .database = name->database};
  trn_status status = spark__translate_view(t, frame, relation, out, error);
  spark__plan_id_forget(t, mark);
  state->view_catalog = before.catalog;
  state->view_database = before.database;
  if (!status) status = view_columns(t, name, info, out, error);
  return status ? status : spark__alias_relation(t, out, qualifier->parts, qualifier->count, error);
}

/* ---- which ---- */

trn_status spark__relation_table(spark_translator *t, char *const *parts, size_t count, spark_relation *out, bool *found,
                                 trn_error **error) {
  spark_state *state = spark__state(t);
  const spark_namespace inside = {state->view_catalog, state->view_database};
  spark_table_name name;
  trn_error *missing = NULL;
  trn_table *table = NULL;
  *found = false;
  trn_status status = spark__table_name(t->arena, t->session, t->case_sensitive, &inside, parts, count, &name, error);
  if (status) return status;
  status = trn_catalog_get_table(name.catalog, t->session, name.database, name.name, &table, &missing);
  if (status == TRN_NOT_FOUND) {
    trn_error_unref(missing);
    return TRN_OK;
  }
  if (status) {
    if (error) *error = missing;
    else trn_error_unref(missing);
    return status;
  }
  if (!trn__arena_own(t->arena, drop_table, table)) {
    trn_table_unref(table);
    return trn__no_memory(error);
  }
  *found = true;
  const char *names[] = {name.shown, name.database, name.name};
  const spark_qualifier *qualifier = spark__qualifier(t, names, 3);
  if (!qualifier) return trn__no_memory(error);
  const trn_table_info *info = trn_table_get_info(table);
  if (info->kind == TRN_TABLE_VIEW) return read_view(t, &name, info, qualifier, out, error);
  return read_table(t, &name, table, qualifier, out, error);
}
