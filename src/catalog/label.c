/* A table as policies see it. */
#include <stdio.h>
#include <trunnion/catalog.h>

#include "plan/plan.h"

static trn_status fill_columns(trn_arena *arena, const struct ArrowSchema *schema, trn_scan_info *out,
                               trn_error **error) {
  size_t count = (size_t)schema->n_children;
  trn_scan_column *columns = TRN_NEW_N(arena, trn_scan_column, count);
  if (!columns) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    trn_field field;
    trn_status status = trn__field_import_any(arena, schema->children[i], &field, error);
    if (status) return status;
    columns[i] = (trn_scan_column){.name = field.name, .type = field.type, .nullable = field.nullable};
  }
  out->columns = columns;
  out->column_count = count;
  return TRN_OK;
}

trn_status trn_table_label(const trn_table *table, trn_scan_label **out, trn_error **error) {
  const trn_table_info *info = trn_table_get_info(table);
  const trn_table_file *files = NULL;
  size_t count = 0;
  bool listed = trn_table_files(table, &files, &count);
  trn_scan_info scan = {.struct_size = sizeof scan,
                        .kind = TRN_SCAN_TABLE,
                        .catalog = info->catalog,
                        .database = info->database,
                        .table = info->name,
                        .format = info->format,
                        .options = info->options,
                        .option_count = info->option_count,
                        .files = listed ? count : 0,
                        .bytes = info->byte_count > 0 ? (uint64_t)info->byte_count : 0};
  *out = NULL;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return trn__no_memory(error);
  const char **paths = TRN_NEW_N(arena, const char *, count + 1);
  trn_status status = paths ? fill_columns(arena, info->schema, &scan, error) : trn__no_memory(error);
  if (!status) {
    for (size_t i = 0; i < count; i++) paths[i] = files[i].path;
    if (!listed && info->location) paths[count++] = info->location;
    scan.paths = paths, scan.path_count = count;
    if ((listed || !info->location) && info->identity) /* who has no files knows its versions itself */
      scan.version = trn__arena_printf(arena, "%s:%llu", info->identity, (unsigned long long)info->version);
    status = trn_scan_label_create(&scan, out) ? trn__no_memory(error) : TRN_OK;
  }
  trn__arena_unref(arena);
  return status;
}
