/* Partitions: a directory name=value per level, as Hive writes them. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "catalog/warehouse.h"

static int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_escaped(trn_strbuf *out, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c == 0x7F || strchr("\"#%'*/:=?\\{[]^", c))
      trn__strbuf_printf(out, "%%%02X", c);
    else
      trn__strbuf_putc(out, (char)c);
  }
}

void trn__partition_level(trn_strbuf *out, const char *name, const char *value) {
  put_escaped(out, name);
  trn__strbuf_putc(out, '=');
  put_escaped(out, value && *value ? value : TRN_NULL_PARTITION);
}

void trn__partition_unescape(trn_strbuf *out, const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    bool escaped = text[i] == '%' && i + 2 < size && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    trn__strbuf_putc(out, escaped ? (char)(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i]);
    if (escaped) i += 2;
  }
}

bool trn__partition_value(const char *directory, size_t index, trn_strbuf *out) {
  out->size = 0;
  for (; index && directory; index--) {
    directory = strchr(directory, '/');
    if (directory) directory++;
  }
  const char *equals = directory ? strchr(directory, '=') : NULL;
  if (!equals) return false;
  trn__partition_unescape(out, equals + 1, strcspn(equals + 1, "/"));
  if (!out->data) trn__strbuf_puts(out, "");
  if (out->data) out->data[out->size] = '\0';
  return !out->failed && strcmp(out->data, TRN_NULL_PARTITION) != 0;
}

trn_status trn__partition_matches(const trn_table_info *table, const char *directory, const trn_kv *values, size_t count,
                                  bool *out, trn_error **error) {
  trn_strbuf value = {0};
  trn_status status = TRN_OK;
  *out = true;
  for (size_t i = 0; i < count && *out && !status; i++) {
    size_t level = 0;
    while (level < table->partition_column_count && strcasecmp(table->partition_columns[level], values[i].key) != 0)
      level++;
    if (level == table->partition_column_count) {
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is no partition column of %s", values[i].key,
                             table->name);
      break;
    }
    bool has = trn__partition_value(directory, level, &value);
    if (value.failed) status = trn__no_memory(error);
    const char *wanted = values[i].value && *values[i].value ? values[i].value : NULL;
    *out = has ? wanted && strcmp(value.data, wanted) == 0 : !wanted;
  }
  trn__strbuf_finish(&value);
  return status;
}

/* ---- listing ---- */

typedef struct found_partition {
  char *directory;
  trn_partition_info info;
} found_partition;

/* The values of a directory; of the arena. */
static trn_status fill_values(trn_arena *arena, const trn_table_info *table, found_partition *p, trn_error **error) {
  const char **values = TRN_NEW_N(arena, const char *, table->partition_column_count);
  trn_strbuf value = {0};
  trn_status status = values ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; !status && i < table->partition_column_count; i++) {
    if (!trn__partition_value(p->directory, i, &value)) continue;
    values[i] = trn__arena_strdup(arena, value.data);
    if (!values[i]) status = trn__no_memory(error);
  }
  if (value.failed) status = trn__no_memory(error);
  trn__strbuf_finish(&value);
  p->info.values = values;
  p->info.value_count = table->partition_column_count;
  return status;
}

/* Partitions with the values, of the arena. locks: mu held */
static trn_status find(trn_warehouse *w, trn_arena *arena, const trn_table_row *row, const trn_kv *partition,
                       size_t count, trn_vec *out, trn_error **error) {
  static const char sql[] = "SELECT p.directory, p.location, (SELECT CASE WHEN min(row_count) < 0 THEN -1 ELSE "
                            "ifnull(sum(row_count), 0) END FROM files f WHERE f.table_id = p.table_id AND f.partition = "
                            "p.directory), (SELECT ifnull(sum(byte_count), 0) FROM files f WHERE f.table_id = p.table_id "
                            "AND f.partition = p.directory) FROM partitions p WHERE p.table_id = ? ORDER BY p.directory";
  sqlite3_stmt *statement = NULL;
  bool more = true;
  bool managed = row->info.kind == TRN_TABLE_MANAGED;
  trn_status status = trn__sql_prepare(w, &statement, error, sql, "i", row->id);
  while (!status && more) {
    status = trn__sql_step(w, statement, &more, error);
    if (status || !more) break;
    const char *directory = trn__sql_column(statement, 0), *location = trn__sql_column(statement, 1);
    bool matches = false;
    status = trn__partition_matches(&row->info, directory ? directory : "", partition, count, &matches, error);
    if (status || !matches) continue;
    found_partition *p = TRN_NEW(arena, found_partition);
    if (p) p->directory = trn__arena_strdup(arena, directory);
    if (!p || !p->directory || !trn__vec_push(out, p)) status = trn__no_memory(error);
    if (status) break;
    p->info = (trn_partition_info){.struct_size = sizeof p->info,
                                   .location = trn__path_outside(w, arena, location),
                                   .row_count = managed ? sqlite3_column_int64(statement, 2) : -1,
                                   .byte_count = managed ? sqlite3_column_int64(statement, 3) : -1};
    status = fill_values(arena, &row->info, p, error);
  }
  sqlite3_finalize(statement);
  return status;
}

trn_status trn__warehouse_list_partitions(void *self, trn_session *session, const char *database, const char *name,
                                          const trn_kv *partition, size_t partition_count, trn_each_partition each,
                                          void *user, trn_error **error) {
  trn_table_row row;
  trn_vec found = {0};
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, false, error);
  if (status) return status;
  trn_arena *arena = trn__arena_ref(change.arena);
  status = trn__table_find(change.w, arena, database, name, &row, error);
  if (!status) status = find(change.w, arena, &row, partition, partition_count, &found, error);
  status = trn__change_end(&change, status, error);
  for (size_t i = 0; !status && i < found.count; i++) each(user, &((found_partition *)found.items[i])->info);
  trn__vec_finish(&found);
  trn__arena_unref(arena);
  return status;
}

/* ---- changes ---- */

/* `values`: by name, as they were asked for. */
static trn_status partition_error(trn_status status, const char *condition, const trn_table_info *table,
                                  const trn_kv *values, size_t count, trn_error **error) {
  trn_strbuf list = {0}, name = {0};
  trn__strbuf_printf(&name, "`%s`.`%s`", table->database, table->name);
  for (size_t i = 0; i < count; i++)
    trn__strbuf_printf(&list, "%s`%s` = %s", i ? ", " : "PARTITION (", values[i].key,
                       values[i].value ? values[i].value : "null");
  trn__strbuf_putc(&list, ')');
  if (list.failed || name.failed) {
    trn__strbuf_finish(&list), trn__strbuf_finish(&name);
    return trn__no_memory(error);
  }
  const trn_error_param params[] = {{"partitionList", list.data}, {"tableName", name.data}};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = status,
                               .condition = condition,
                               .params = params,
                               .param_count = 2};
  if (error) *error = trn_error_create(&spec);
  trn__strbuf_finish(&list), trn__strbuf_finish(&name);
  return status;
}

/* locks: mu held, in a transaction */
static trn_status add_one(trn_warehouse *w, trn_arena *arena, const trn_table_row *row, const trn_partition_info *p,
                          bool if_not_exists, trn_error **error) {
  trn_strbuf directory = {0};
  if (p->value_count != row->info.partition_column_count || !p->value_count)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a partition of %s has %zu values", row->info.name,
                         row->info.partition_column_count);
  for (size_t i = 0; i < p->value_count; i++) {
    if (i) trn__strbuf_putc(&directory, '/');
    trn__partition_level(&directory, row->info.partition_columns[i], p->values[i]);
  }
  const char *location = p->location ? trn__path_inside(w, arena, p->location) : NULL;
  trn_status status = directory.failed || (p->location && !location) ? trn__no_memory(error) : TRN_OK;
  if (!status)
    status = trn__sql_run(w, error, "INSERT OR IGNORE INTO partitions VALUES(?, ?, ?)", "iss", row->id, directory.data,
                          location);
  if (!status && sqlite3_changes(w->db) == 0 && !if_not_exists) {
    trn_kv *values = TRN_NEW_N(arena, trn_kv, p->value_count);
    for (size_t i = 0; values && i < p->value_count; i++)
      values[i] = (trn_kv){row->info.partition_columns[i], p->values[i]};
    status = values ? partition_error(TRN_ALREADY_EXISTS, "PARTITIONS_ALREADY_EXIST", &row->info, values, p->value_count,
                                      error)
                    : trn__no_memory(error);
  }
  trn__strbuf_finish(&directory);
  return status;
}

trn_status trn__warehouse_add_partitions(void *self, trn_session *session, const char *database, const char *name,
                                         const trn_partition_info *partitions, size_t count, bool if_not_exists,
                                         trn_error **error) {
  trn_table_row row;
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  status = trn__table_find(change.w, change.arena, database, name, &row, error);
  for (size_t i = 0; !status && i < count; i++)
    status = add_one(change.w, change.arena, &row, &partitions[i], if_not_exists, error);
  if (!status) status = trn__table_touch(change.w, row.id, change.sequence, false, error);
  return trn__change_end(&change, status, error);
}

trn_status trn__warehouse_drop_partitions(void *self, trn_session *session, const char *database, const char *name,
                                          const trn_kv *partition, size_t partition_count, bool if_exists,
                                          trn_error **error) {
  trn_table_row row;
  trn_vec found = {0};
  trn_change change;
  trn_status status = trn__change_begin(&change, self, session, true, error);
  if (status) return status;
  change.sweeps = true;
  trn_warehouse *w = change.w;
  status = trn__table_find(w, change.arena, database, name, &row, error);
  if (!status) status = find(w, change.arena, &row, partition, partition_count, &found, error);
  if (!status && !found.count && !if_exists)
    status = partition_error(TRN_NOT_FOUND, "PARTITIONS_NOT_FOUND", &row.info, partition, partition_count, error);
  for (size_t i = 0; !status && i < found.count; i++) {
    const char *directory = ((found_partition *)found.items[i])->directory;
    status = trn__files_retire(w, row.id, directory, change.sequence, error);
    if (!status)
      status = trn__sql_run(w, error, "DELETE FROM partitions WHERE table_id = ? AND directory = ?", "is", row.id,
                            directory);
  }
  if (!status) status = trn__table_touch(w, row.id, change.sequence, false, error);
  trn__vec_finish(&found);
  return trn__change_end(&change, status, error);
}
