/* SQLite's rows as Arrow arrays, and declared types as Arrow types. */
#include "embed.h"
#include <stdio.h>

/* ---- types: docs/embedding.md has the table ---- */

bool embed_format(const char *declared, char out[32]) {
  static const char *const formats[][2] = {{"BOOLEAN", "b"},  {"TINYINT", "c"},         {"SMALLINT", "s"}, {"INT", "i"},
                                           {"INTEGER", "l"},  {"BIGINT", "l"},          {"REAL", "g"},     {"DOUBLE", "g"},
                                           {"TEXT", "u"},     {"VARCHAR", "u"},         {"CHAR", "u"},     {"BLOB", "z"},
                                           {"DATE", "tdD"},   {"TIMESTAMP", "tsu:UTC"}, {"DECIMAL", "d:"}};
  size_t size = strcspn(declared, "( ");
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (strlen(formats[i][0]) != size || sqlite3_strnicmp(declared, formats[i][0], (int)size) != 0) continue;
    int precision = 10, scale = 0;
    snprintf(out, 32, "%s", formats[i][1]);
    if (strcmp(out, "d:") != 0) return true;
    if (declared[size] == '(' && sscanf(declared + size, "(%d , %d", &precision, &scale) < 1) return false;
    if (precision < 1 || precision > 18 || scale < 0 || scale > precision) return false; /* 64 bits */
    snprintf(out, 32, "d:%d,%d", precision, scale);
    return true;
  }
  return false;
}

/* ---- schemas: one allocation each for the node, its texts and its children ---- */

static void schema_release(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    if (schema->children[i] && schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  free(schema->private_data);
  schema->release = NULL;
}

static trn_status schema_init(struct ArrowSchema *out, const char *format, const char *name, int64_t children) {
  size_t format_size = strlen(format) + 1, name_size = strlen(name) + 1;
  char *texts = malloc(format_size + name_size);
  *out = (struct ArrowSchema){.flags = ARROW_FLAG_NULLABLE, .private_data = texts, .release = schema_release};
  out->children = calloc((size_t)children + 1, sizeof *out->children);
  for (int64_t i = 0; texts && out->children && i < children; i++, out->n_children++)
    if (!(out->children[i] = calloc(1, sizeof **out->children))) break;
  if (!texts || !out->children || out->n_children < children) {
    schema_release(out);
    return TRN_RESOURCE_EXHAUSTED;
  }
  out->format = memcpy(texts, format, format_size);
  out->name = memcpy(texts + format_size, name, name_size);
  return TRN_OK;
}

/* Of flat structs, as this backend's results and tables are. Metadata of columns is left out. */
trn_status embed_schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out) {
  trn_status status = schema_init(out, schema->format, schema->name ? schema->name : "", schema->n_children);
  for (int64_t i = 0; !status && i < schema->n_children; i++) {
    status = schema_init(out->children[i], schema->children[i]->format, schema->children[i]->name, 0);
    if (!status) out->children[i]->flags = schema->children[i]->flags;
  }
  if (status && out->release) out->release(out);
  return status;
}

static trn_status column_schema(sqlite3_stmt *column, const char *table, struct ArrowSchema *out, trn_error **error) {
  const char *name = (const char *)sqlite3_column_text(column, 0), *type = (const char *)sqlite3_column_text(column, 1);
  char format[32];
  if (!name || !type || !embed_format(type, format))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "column %s of table %s has the type %s, which is not known here",
                         name ? name : "", table, type ? type : "");
  trn_status status = schema_init(out, format, name, 0);
  if (!status && sqlite3_column_int(column, 2)) out->flags = 0; /* NOT NULL */
  return status;
}

trn_status embed_schema(sqlite3 *db, const char *table, struct ArrowSchema *out, trn_error **error) {
  static const char counts[] = "SELECT count(*) FROM pragma_table_info(?)";
  static const char lists[] = "SELECT name, type, \"notnull\" FROM pragma_table_info(?) ORDER BY cid";
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(db, counts, -1, &statement, NULL);
  if (!code) code = sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
  int64_t count = !code && sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_finalize(statement);
  statement = NULL;
  trn_status status = schema_init(out, "+s", "", count);
  if (status) return trn_error_set(error, status, NULL, "out of memory");
  code = sqlite3_prepare_v2(db, lists, -1, &statement, NULL);
  if (!code) code = sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
  for (int64_t i = 0; !code && !status && i < count && sqlite3_step(statement) == SQLITE_ROW; i++)
    status = column_schema(statement, table, out->children[i], error);
  sqlite3_finalize(statement);
  if (code) status = embed_failed(db, code, error);
  if (status) out->release(out);
  return status;
}

/* ---- columns that grow ---- */

typedef struct column {
  char kind; /* the first letter of the format; 'D' date32 */
  int width; /* of a value in bytes; 0: bits; -1: texts */
  char *valid, *data;
  int32_t *offsets; /* texts */
  size_t data_size, data_capacity;
  int64_t nulls;
} column;

struct embed_rows {
  int64_t count;
  size_t column_count;
  column columns[];
};

static bool column_open(column *c, const char *format) {
  static const char kinds[] = "bcsilfgduz";
  static const int widths[] = {0, 1, 2, 4, 8, 4, 8, 16, -1, -1};
  const char *at = strchr(kinds, format[0]);
  *c = (column){0};
  if (at && (format[1] == 0 || format[0] == 'd'))
    c->kind = format[0], c->width = widths[at - kinds];
  else if (strcmp(format, "tdD") == 0)
    c->kind = 'D', c->width = 4;
  else if (strcmp(format, "tiM") == 0)
    c->kind = 'i', c->width = 4;
  else if (strncmp(format, "tsu:", 4) == 0 || strcmp(format, "tDu") == 0 || strcmp(format, "ttn") == 0)
    c->kind = 'l', c->width = 8;
  else if (strcmp(format, "n") == 0)
    c->kind = 'n', c->width = 0;
  return c->kind != 0;
}

static bool column_start(column *c) {
  c->nulls = 0;
  c->data_size = 0;
  c->data_capacity = c->width > 0 ? (size_t)c->width * EMBED_ROWS : EMBED_ROWS;
  c->valid = calloc(1, EMBED_ROWS / 8);
  c->data = calloc(1, c->data_capacity);
  c->offsets = c->width < 0 ? calloc(EMBED_ROWS + 1, sizeof *c->offsets) : NULL;
  return c->valid && c->data && (c->offsets || c->width >= 0);
}

static void column_drop(column *c) {
  free(c->valid);
  free(c->data);
  free(c->offsets);
  c->valid = c->data = NULL;
  c->offsets = NULL;
}

static trn_status out_of_range(trn_error **error) {
  return trn_error_set(error, TRN_OUT_OF_RANGE, "ARITHMETIC_OVERFLOW", "a number is too large for its type");
}

static trn_status add_text(column *c, int64_t row, const void *data, size_t size, trn_error **error) {
  if (c->data_size + size > INT32_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "texts of more than 2 GiB in one batch");
  if (c->data_size + size > c->data_capacity) {
    size_t capacity = 2 * (c->data_size + size);
    char *grown = realloc(c->data, capacity);
    if (!grown) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
    c->data = grown;
    c->data_capacity = capacity;
  }
  if (size) memcpy(c->data + c->data_size, data, size);
  c->data_size += size;
  c->offsets[row + 1] = (int32_t)c->data_size;
  return TRN_OK;
}

static bool parse_date(const char *text, int32_t *days) {
  int year, month, day, end = 0;
  if (!text || sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || text[end]) return false;
  if (month < 1 || month > 12 || day < 1 || day > 31) return false;
  int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
  int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  *days = (int32_t)(era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468);
  return true;
}

/* A whole number into 1, 2, 4, 8 or 16 bytes (little endian, as Arrow has it). A real is one that overflowed. */
static trn_status add_whole(column *c, int64_t row, sqlite3_stmt *statement, int index, trn_error **error) {
  int64_t value = sqlite3_column_int64(statement, index), high = value < 0 ? -1 : 0;
  char *place = c->data + row * c->width;
  if (sqlite3_column_type(statement, index) != SQLITE_INTEGER) return out_of_range(error);
  if (c->width < 8 && value >> (8 * c->width - 1) != high) return out_of_range(error);
  memcpy(place, &value, c->width < 8 ? (size_t)c->width : 8);
  if (c->width == 16) memcpy(place + 8, &high, 8);
  return TRN_OK;
}

static trn_status add_value(column *c, int64_t row, sqlite3_stmt *statement, int index, trn_error **error) {
  switch (c->kind) {
  case 'b':
    if (sqlite3_column_int64(statement, index)) c->data[row / 8] |= (char)(1 << row % 8);
    return TRN_OK;
  case 'f': {
    float value = (float)sqlite3_column_double(statement, index);
    memcpy(c->data + row * 4, &value, 4);
    return TRN_OK;
  }
  case 'g': {
    double value = sqlite3_column_double(statement, index);
    memcpy(c->data + row * 8, &value, 8);
    return TRN_OK;
  }
  case 'u':
  case 'z': {
    const void *data = c->kind == 'u' ? (const void *)sqlite3_column_text(statement, index)
                                      : sqlite3_column_blob(statement, index);
    return add_text(c, row, data, (size_t)sqlite3_column_bytes(statement, index), error);
  }
  case 'D': {
    int32_t days;
    if (!parse_date((const char *)sqlite3_column_text(statement, index), &days))
      return trn_error_set(error, TRN_DATA_LOSS, NULL, "a date that is not written YYYY-MM-DD");
    memcpy(c->data + row * 4, &days, 4);
    return TRN_OK;
  }
  default: return add_whole(c, row, statement, index, error);
  }
}

trn_status embed_rows_create(const struct ArrowSchema *schema, embed_rows **out, trn_error **error) {
  size_t count = (size_t)schema->n_children;
  embed_rows *rows = calloc(1, sizeof *rows + count * sizeof rows->columns[0]);
  *out = rows;
  if (!rows) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  rows->column_count = count;
  for (size_t i = 0; i < count; i++) {
    const char *format = schema->children[i]->format;
    if (!column_open(&rows->columns[i], format))
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this server gives no columns of Arrow's format %s", format);
    if (!column_start(&rows->columns[i])) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  }
  return TRN_OK;
}

trn_status embed_rows_add(embed_rows *rows, sqlite3_stmt *statement, trn_error **error) {
  int64_t row = rows->count;
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < rows->column_count; i++) {
    column *c = &rows->columns[i];
    if (c->offsets) c->offsets[row + 1] = c->offsets[row];
    if (sqlite3_column_type(statement, (int)i) == SQLITE_NULL) {
      c->nulls++;
      continue;
    }
    c->valid[row / 8] |= (char)(1 << row % 8);
    status = add_value(c, row, statement, (int)i, error);
  }
  rows->count++;
  return status;
}

/* ---- arrays ---- */

static void array_release(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i] && array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->buffers);
  free(array->children);
  array->release = NULL;
}

static bool array_init(struct ArrowArray *out, int64_t length, int64_t buffers, int64_t children) {
  *out = (struct ArrowArray){.length = length, .release = array_release};
  out->buffers = calloc((size_t)buffers, sizeof *out->buffers);
  out->children = calloc((size_t)children + 1, sizeof *out->children);
  if (out->buffers) out->n_buffers = buffers;
  for (int64_t i = 0; out->buffers && out->children && i < children; i++, out->n_children++)
    if (!(out->children[i] = calloc(1, sizeof **out->children))) break;
  if (out->buffers && out->children && out->n_children == children) return true;
  array_release(out);
  return false;
}

/* Takes the column's buffers. */
static bool column_finish(column *c, int64_t length, struct ArrowArray *out) {
  if (c->kind == 'n') { /* Arrow's null type has no buffers */
    if (!array_init(out, length, 1, 0)) return false;
    out->n_buffers = 0;
    out->null_count = length;
    column_drop(c);
    return true;
  }
  if (!array_init(out, length, c->offsets ? 3 : 2, 0)) return false;
  out->null_count = c->nulls;
  out->buffers[0] = c->valid;
  out->buffers[1] = c->offsets ? (const void *)c->offsets : c->data;
  if (c->offsets) out->buffers[2] = c->data;
  c->valid = c->data = NULL;
  c->offsets = NULL;
  return true;
}

trn_status embed_rows_finish(embed_rows *rows, struct ArrowArray *out, trn_error **error) {
  bool ok = array_init(out, rows->count, 1, (int64_t)rows->column_count);
  for (size_t i = 0; ok && i < rows->column_count; i++)
    ok = column_finish(&rows->columns[i], rows->count, out->children[i]) && column_start(&rows->columns[i]);
  rows->count = 0;
  if (ok) return TRN_OK;
  if (out->release) out->release(out);
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
}

void embed_rows_destroy(embed_rows *rows) {
  if (!rows) return;
  for (size_t i = 0; i < rows->column_count; i++) column_drop(&rows->columns[i]);
  free(rows);
}
