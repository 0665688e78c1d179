/* Parquet files as Spark takes them: one schema for all, files by name, a directory's values as columns. */
#include <stdio.h>
#include <string.h>

#include "frontend/spark/translate/source_file.h"

enum { GROUPS_MAX = 1024 };

static const trn_position NOWHERE = {-1, -1};

/* ---- footers ---- */

static bool is_parquet(const char *path) {
  char head[4] = {0};
  unsigned char tail[8] = {0};
  bool exists;
  FILE *file = spark__open_regular(path, &exists);
  bool good = file && fread(head, 1, 4, file) == 4 && fseek(file, -8, SEEK_END) == 0;
  long at = good ? ftell(file) : 0;
  good = good && fread(tail, 1, 8, file) == 8;
  if (file) fclose(file);
  uint32_t footer = tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
  bool marked = memcmp(head, "PAR1", 4) == 0 && (memcmp(tail + 4, "PAR1", 4) == 0 || memcmp(tail + 4, "PARE", 4) == 0);
  return good && marked && at >= 4 && footer <= (unsigned long)at - 4;
}

trn_status spark__without_corrupt(spark_translator *t, spark_file_read *read, trn_error **error) {
  trn_vec *files = &read->list.files;
  size_t kept = 0;
  (void)t, (void)error;
  for (size_t i = 0; i < files->count; i++)
    if (is_parquet(files->items[i])) files->items[kept++] = files->items[i];
  read->list.leaves_out |= kept < files->count;
  files->count = kept;
  return TRN_OK;
}

/* What cannot be opened: a file that is no Parquet one is named, else it is the engine's error. */
static trn_status footer_error(spark_translator *t, const spark_file_read *read, trn_status status, trn_error **error) {
  for (size_t i = 0; i < read->list.files.count; i++) {
    const char *path = read->list.files.items[i];
    if (is_parquet(path)) continue;
    const char *shown = trn__arena_printf(t->arena, "file:%s", path);
    if (!shown) return trn__no_memory(error);
    if (error) trn_error_unref(*error), *error = NULL;
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", NOWHERE, "path", shown, NULL);
  }
  return status;
}

/* ---- the schema ---- */

static trn_status fields_of(spark_translator *t, const spark_file_read *read, const char **paths, size_t count, const trn_field **fields,
                            uint32_t *field_count, trn_error **error) {
  spark_file_read some = *read;
  trn_source *source = NULL;
  some.paths = paths, some.path_count = count;
  return spark__open_files(t, &some, NULL, NULL, &source, fields, field_count, error);
}

static const char *struct_text(spark_translator *t, const trn_field *fields, uint32_t count) {
  const trn_type *type = trn__type_struct(t->arena, fields, count);
  trn_strbuf text = {0};
  if (type) spark__type_sql(&text, type);
  return type ? spark__finish_text(t, &text) : NULL;
}

/* Files whose columns of one name differ in type. */
static trn_status merge_error(spark_translator *t, const spark_file_read *read, trn_status status, trn_error **error) {
  const char **files = (const char **)read->list.files.items;
  const trn_field *first = NULL, *other = NULL;
  uint32_t first_count = 0, other_count = 0;
  if (fields_of(t, read, files, 1, &first, &first_count, NULL)) return status;
  for (size_t i = 1; i < read->list.files.count; i++) {
    if (fields_of(t, read, files + i, 1, &other, &other_count, NULL)) return status;
    for (uint32_t j = 0; j < first_count; j++)
      for (uint32_t k = 0; k < other_count; k++) {
        if (!spark__name_equal(t, first[j].name, other[k].name) || trn__type_equal(first[j].type, other[k].type)) continue;
        const char *left = struct_text(t, first, first_count), *right = struct_text(t, other, other_count);
        if (!left || !right) return trn__no_memory(error);
        if (error) trn_error_unref(*error), *error = NULL;
        return spark__error(t, error, TRN_INVALID_ARGUMENT, "CANNOT_MERGE_SCHEMAS", NOWHERE, "left", left, "right", right, NULL);
      }
  }
  return status;
}

/* Columns whose names differ in their case only are one. */
static bool names_repeat(const spark_translator *t, const trn_field *fields, uint32_t count) {
  for (uint32_t i = 0; i < count && count <= 1000; i++)
    for (uint32_t k = 0; k < i; k++)
      if (spark__name_equal(t, fields[i].name, fields[k].name)) return true;
  return false;
}

/* Adds the file's columns that are not there. *clash: one is there with another type. */
static trn_status add_fields(spark_translator *t, const trn_field *from, uint32_t from_count, trn_field **fields, uint32_t *count,
                             bool *clash, trn_error **error) {
  trn_field *more = TRN_NEW_N(t->arena, trn_field, *count + from_count);
  uint32_t known = *count, at = known;
  if (!more) return trn__no_memory(error);
  if (known) memcpy(more, *fields, known * sizeof *more);
  for (uint32_t i = 0; i < from_count; i++) {
    uint32_t k = i < known && spark__name_equal(t, from[i].name, more[i].name) ? i : 0; /* mostly at the same place */
    while (k < known && !spark__name_equal(t, from[i].name, more[k].name)) k++;
    if (k == known) more[at++] = from[i];
    else *clash |= !trn__type_equal(from[i].type, more[k].type);
  }
  if (at > known) *fields = more, *count = at;
  return TRN_OK;
}

/* Of files that are named one by one the engine takes the first one's columns only. */
static trn_status merge_files(spark_translator *t, const spark_file_read *read, const trn_field **out, uint32_t *out_count, trn_error **error) {
  trn_field *all = NULL;
  uint32_t count = 0, some_count = 0;
  bool clash = false;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < read->list.files.count && !status && !clash; i++) {
    const trn_field *some = NULL;
    if (t->is_cancelled && t->is_cancelled(t->cancel_user)) return trn_error_set(error, TRN_CANCELLED, NULL, "The query was cancelled");
    status = fields_of(t, read, (const char **)read->list.files.items + i, 1, &some, &some_count, error);
    if (!status) status = add_fields(t, some, some_count, &all, &count, &clash, error);
  }
  if (!status && clash) status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The files' columns differ in their types");
  *out = all, *out_count = count;
  return status;
}

static trn_status set_schema(spark_translator *t, spark_file_read *read, const trn_field *fields, uint32_t count, trn_error **error) {
  read->schema = trn__type_struct(t->arena, fields, count);
  read->schema_text = read->schema ? struct_text(t, fields, count) : NULL;
  return read->schema_text ? TRN_OK : trn__no_memory(error);
}

/* Directories that are opened by themselves (by their values) must get it, or each has its own file's columns. */
trn_status spark__parquet_schema(spark_translator *t, spark_file_read *read, trn_error **error) {
  const trn_field *all = NULL, *first = NULL;
  uint32_t count = 0, first_count = 0, levels = read->partitions.count;
  const trn_vec *files = &read->list.files;
  if (read->by_file && !files->count && !read->schema)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNABLE_TO_INFER_SCHEMA", NOWHERE, "format", "Parquet", NULL);
  if (!read->list.local || !files->count || read->schema) return TRN_OK;
  spark_file_read whole = *read; /* opened by whoever reads it: the session knows the source then */
  if (read->by_file && levels) whole.partitions.count = 0, whole.options.count -= levels, levels = 0;
  trn_source *source = NULL;
  trn_status status = spark__open_files(t, &whole, NULL, NULL, &source, &all, &count, error);
  if (!status && read->by_file && read->filter.merges && files->count > 1) status = merge_files(t, &whole, &all, &count, error);
  if (status == TRN_PERMISSION_DENIED || status == TRN_CANCELLED) return status; /* and nothing is told of what is in the files */
  if (status) status = footer_error(t, read, status, error);
  if (status && read->filter.merges && files->count > 1) return merge_error(t, read, status, error);
  if (files->count == 1) return status;
  bool merged = !status && read->filter.merges && !names_repeat(t, all, count), grouped = read->by_file && read->partitions.count;
  if (merged && read->by_file && count) return set_schema(t, read, all, count, error);
  if (merged) return TRN_OK;
  if (!status && read->by_file && !levels && count == 0) return TRN_OK;
  if (status && files->count < 2) return status;
  trn_status opened = fields_of(t, &whole, (const char **)files->items, 1, &first, &first_count, NULL);
  if (opened) return status ? status : TRN_OK;
  uint32_t own = first_count >= levels ? first_count - levels : first_count;
  if (!status && first_count == count && !grouped) return TRN_OK;
  if (status && error) trn_error_unref(*error), *error = NULL;
  return set_schema(t, read, first, own, error);
}

/* ---- groups ---- */

static size_t folder_size(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) : 0;
}

/* One directory's files, with its values behind their columns. */
static trn_status read_group(spark_translator *t, const spark_file_read *read, size_t from, size_t count, spark_relation *out,
                             trn_error **error) {
  spark_file_read group = *read;
  const spark_partitions *levels = &read->partitions;
  spark_value *values = NULL;
  size_t own = 0;
  group.paths = (const char **)read->list.files.items + from, group.path_count = count;
  group.options.count -= levels->count; /* they are last */
  group.partitions.count = 0;
  trn_status status = spark__read_opened_files(t, &group, NULL, out, error);
  if (!status) status = spark__scope_values(t, out->scope, &values, &own, error);
  spark_value *all = status ? NULL : TRN_NEW_N(t->arena, spark_value, own + levels->count);
  if (!status && !all) status = trn__no_memory(error);
  if (!status && own) memcpy(all, values, own * sizeof *all);
  for (uint32_t i = 0; i < levels->count && !status; i++) {
    const char *text = spark__partition_text(t->arena, group.paths[0], levels->keys[i]);
    const trn_expr *value = trn__expr_string(t->arena, text ? text : SPARK_NULL_PARTITION, strlen(text ? text : SPARK_NULL_PARTITION));
    all[own + i] = (spark_value){.name = levels->names[i], .is_alias = true};
    status = value ? spark__partition_value(t, value, levels->types[i], &all[own + i].expr, error) : trn__no_memory(error);
  }
  return status ? status : spark__project(t, out, all, own + levels->count, NULL, out, error);
}

/* Each directory's files are opened by themselves: what no schema makes the same can differ. */
static trn_status check_same(spark_translator *t, const spark_relation *first, const spark_relation *group, trn_error **error) {
  spark_value *left = NULL, *right = NULL;
  size_t left_count = 0, right_count = 0;
  trn_status status = spark__scope_values(t, first->scope, &left, &left_count, error);
  if (!status) status = spark__scope_values(t, group->scope, &right, &right_count, error);
  bool same = left_count == right_count;
  for (size_t i = 0; i < left_count && same && !status; i++)
    same = spark__name_equal(t, left[i].name, right[i].name) && trn__type_equal(left[i].expr->type, right[i].expr->type);
  return status || same ? status : spark__unimplemented(t, NOWHERE, error, "Reading files of several directories whose columns differ");
}

static trn_status unite(spark_translator *t, const trn_rel **rels, size_t count, const spark_relation *first, const trn_field **fields,
                        uint32_t *width, trn_rel **out, trn_error **error) {
  spark_value *values = NULL;
  size_t columns = 0;
  trn_status status = spark__scope_values(t, first->scope, &values, &columns, error);
  trn_column *made = status ? NULL : TRN_NEW_N(t->arena, trn_column, columns);
  trn_field *named = status ? NULL : TRN_NEW_N(t->arena, trn_field, columns);
  if (status) return status;
  if (!made || !named) return trn__no_memory(error);
  for (size_t i = 0; i < columns; i++) {
    made[i] = (trn_column){.id = t->next_column++, .type = values[i].expr->type, .nullable = true};
    named[i] = (trn_field){.name = values[i].name, .type = values[i].expr->type, .nullable = true, .metadata = values[i].metadata};
  }
  *fields = named, *width = (uint32_t)columns;
  *out = trn__rel_create(t->arena, TRN_REL_UNION, rels, (uint32_t)count, NULL, 0, made, (uint32_t)columns);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status no_files(spark_translator *t, const spark_file_read *read, spark_relation *out, trn_error **error) {
  const spark_rows none = {.width = read->schema->field_count};
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, read->schema->field_count);
  if (!fields) return trn__no_memory(error);
  for (uint32_t i = 0; i < read->schema->field_count; i++) fields[i] = read->schema->fields[i], fields[i].nullable = true;
  return spark__rows_relation(t, &none, fields, out, error);
}

trn_status spark__read_groups(spark_translator *t, spark_file_read *read, const spark_qualifier *qualifier, spark_relation *out,
                              trn_error **error) {
  const trn_vec *files = &read->list.files;
  const trn_rel *rels[GROUPS_MAX];
  size_t count = 0, from = 0;
  spark_relation group = {0}, first = {0};
  trn_status status = TRN_OK;
  if (!files->count) status = no_files(t, read, out, error);
  while (from < files->count && !status) {
    const char *path = files->items[from];
    size_t next = from + 1, size = folder_size(path);
    while (next < files->count && folder_size(files->items[next]) == size && memcmp(files->items[next], path, size) == 0) next++;
    if (count == GROUPS_MAX)
      return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Files of more than %d directories that are chosen one by one.", GROUPS_MAX);
    status = read_group(t, read, from, next - from, &group, error);
    if (!count) first = group;
    if (!status && count) status = check_same(t, &first, &group, error);
    rels[count++] = group.rel;
    from = next;
  }
  if (!status && count == 1) *out = first;
  if (!status && count > 1) {
    const trn_field *fields = NULL;
    uint32_t width = 0;
    trn_rel *all = NULL;
    status = unite(t, rels, count, &first, &fields, &width, &all, error);
    if (!status) status = spark__scope_of(t, all, fields, NULL, out, error);
  }
  if (status || !qualifier) return status;
  return spark__alias_relation(t, out, qualifier->parts, qualifier->count, error);
}
