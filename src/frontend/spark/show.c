/* Dataset.show: columns as texts, laid out exactly as Spark does (Dataset.showString, htmlString). Leaves are cast to
 * STRING inside the plan; nesting, nulls and binary are written here, as Spark's ToPrettyString has them. */
#include <stdio.h>

#include "arrow/arrow_util.h"
#include "frontend/spark/service.h"

/* ---- the plan ---- */

/* The type with every leaf as STRING, except what is written here from its own form. NULL: no memory. */
static const trn_type *text_type(trn_arena *arena, const trn_type *type, unsigned depth) {
  if (type->id == TRN_TYPE_NULL || type->id == TRN_TYPE_BINARY) return type;
  bool nested = type->id == TRN_TYPE_ARRAY || type->id == TRN_TYPE_MAP || type->id == TRN_TYPE_STRUCT;
  if (!nested || depth >= TRN_TYPE_DEPTH_MAX) return trn__type(TRN_TYPE_STRING);
  trn_field *fields = TRN_NEW_N(arena, trn_field, type->field_count);
  trn_type *out = fields ? trn__arena_copy(arena, type, sizeof *type) : NULL;
  if (!out) return NULL;
  for (uint32_t i = 0; i < type->field_count; i++) {
    fields[i] = type->fields[i];
    fields[i].type = text_type(arena, type->fields[i].type, depth + 1);
    if (!fields[i].type) return NULL;
  }
  out->fields = fields;
  return out;
}

/* Nested values whose leaves cannot be cast in place are cast as a whole. */
static trn_status cast_column(spark_translator *t, const trn_expr *column, const trn_expr **out, trn_error **error) {
  static const trn_position nowhere = {-1, -1};
  const trn_type *type = text_type(t->arena, column->type, 0);
  if (!type) return trn__no_memory(error);
  if (spark__cast(t, column, type, SPARK_CAST_ANSI, nowhere, out, NULL) == TRN_OK) return TRN_OK;
  return spark__cast(t, column, trn__type(TRN_TYPE_STRING), SPARK_CAST_ANSI, nowhere, out, error);
}

static void unref_plan(void *plan) {
  trn_plan_unref(plan);
}

static trn_status build_plan(spark_translator *t, const trn_plan *plan, const spark_show *show, trn_plan **out,
                             trn_error **error) {
  trn_arena *arena = t->arena;
  size_t count = plan->root->column_count;
  const trn_expr **exprs = TRN_NEW_N(arena, const trn_expr *, count);
  trn_column *columns = TRN_NEW_N(arena, trn_column, count);
  trn_field *fields = TRN_NEW_N(arena, trn_field, count);
  const trn_rel *inputs[] = {plan->root};
  trn_rel *limit =
      fields ? trn__rel_create(arena, TRN_REL_LIMIT, inputs, 1, NULL, 0, plan->root->columns, count) : NULL;
  if (!exprs || !columns || !limit) return trn__no_memory(error);
  limit->u.limit.skip = 0;
  limit->u.limit.fetch = show->rows > 0 ? (int64_t)show->rows + 1 : 1;
  uint32_t next = plan->next_column;
  for (size_t i = 0; i < count; i++) {
    const trn_expr *column = trn__expr_column(arena, &plan->root->columns[i]);
    if (!column) return trn__no_memory(error);
    trn_status status = cast_column(t, column, &exprs[i], error);
    if (status) return status;
    columns[i] = (trn_column){next++, exprs[i]->nullable, exprs[i]->type};
    fields[i] = (trn_field){plan->fields[i].name, exprs[i]->type, exprs[i]->nullable, NULL};
  }
  trn_rel *root = trn__rel_project(arena, limit, exprs, columns, count);
  if (!root) return trn__no_memory(error);
  t->arena = NULL; /* taken */
  trn_status status = trn__plan_create(arena, root, fields, next, plan->timezone, plan->sql, out);
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status spark__show_plan(spark_session *session, trn_plan *plan, const spark_show *show, trn_plan **out,
                            trn_error **error) {
  spark_translator translator;
  memset(&translator, 0, sizeof translator);
  *out = NULL;
  trn_status status = spark__translator_init(&translator, session->session, session->catalog, error);
  if (status) {
    trn_plan_unref(plan);
    return status;
  }
  translator.next_column = plan->next_column;
  /* The new plan refers to the old one's nodes. */
  if (trn__arena_own(translator.arena, unref_plan, plan)) {
    status = build_plan(&translator, plan, show, out, error);
  } else {
    trn_plan_unref(plan);
    status = trn__no_memory(error);
  }
  trn__arena_unref(translator.arena);
  return status;
}

/* ---- cells ---- */

static void put_binary(trn_strbuf *out, trn_str bytes) {
  trn__strbuf_putc(out, '[');
  for (size_t i = 0; i < bytes.size; i++)
    trn__strbuf_printf(out, i ? " %02X" : "%02X", (unsigned)(unsigned char)bytes.data[i]);
  trn__strbuf_putc(out, ']');
}

static trn_status put_value(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int64_t row, unsigned depth);

/* Elements [from, to) of a list, or pairs of a map. */
static trn_status put_list(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                           int64_t row, unsigned depth) {
  const int32_t *offsets = array->buffers[1];
  bool is_map = schema->format[1] == 'm';
  const struct ArrowSchema *item = schema->children[0];
  const struct ArrowArray *items = array->children[0];
  trn_status status = TRN_OK;
  trn__strbuf_putc(out, is_map ? '{' : '[');
  int64_t from = offsets[array->offset + row], to = offsets[array->offset + row + 1];
  for (int64_t i = from; i < to && !status; i++) {
    if (i > from) trn__strbuf_puts(out, ", ");
    if (!is_map) {
      status = put_value(out, item, items, i, depth + 1);
      continue;
    }
    int64_t at = items->offset + i; /* of the struct of key and value */
    status = put_value(out, item->children[0], items->children[0], at, depth + 1);
    trn__strbuf_puts(out, " -> ");
    if (!status) status = put_value(out, item->children[1], items->children[1], at, depth + 1);
  }
  trn__strbuf_putc(out, is_map ? '}' : ']');
  return status;
}

static trn_status put_struct(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                             int64_t row, unsigned depth) {
  trn_status status = TRN_OK;
  trn__strbuf_putc(out, '{');
  for (int64_t i = 0; i < schema->n_children && !status; i++) {
    if (i) trn__strbuf_puts(out, ", ");
    status = put_value(out, schema->children[i], array->children[i], array->offset + row, depth + 1);
  }
  trn__strbuf_putc(out, '}');
  return status;
}

/* UNIMPLEMENTED: a form that spark__show_plan does not ask for. */
static trn_status put_value(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int64_t row, unsigned depth) {
  const char *format = schema->format;
  if (depth > 2 * TRN_TYPE_DEPTH_MAX) return TRN_RESOURCE_EXHAUSTED;
  if (format[0] == 'n' || trn__array_is_null(array, row)) {
    trn__strbuf_puts(out, "NULL");
    return TRN_OK;
  }
  if (strcmp(format, "+l") == 0 || strcmp(format, "+m") == 0) return put_list(out, schema, array, row, depth);
  if (strcmp(format, "+s") == 0) return put_struct(out, schema, array, row, depth);
  if (strcmp(format, "u") != 0 && strcmp(format, "z") != 0) return TRN_UNIMPLEMENTED;
  trn_str bytes = trn__array_bytes(array, format, row);
  if (format[0] == 'z') {
    put_binary(out, bytes);
  } else {
    trn__strbuf_add(out, bytes.data, bytes.size);
  }
  return TRN_OK;
}

trn_status spark__show_cell(trn_strbuf *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int64_t row) {
  return put_value(out, schema, array, row, 0);
}

/* ---- texts: Java counts UTF-16 units ---- */

static bool is_full_width(uint32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0xFFE0 && c <= 0xFFE6);
}

/* The character at `at` of valid UTF-8 and its bytes. A broken sequence counts as one byte. */
static uint32_t next_char(const char *at, size_t *size) {
  const unsigned char *c = (const unsigned char *)at;
  size_t need = c[0] < 0xC0 ? 1 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
  uint32_t value = need == 1 ? c[0] : c[0] & (0x7Fu >> need);
  for (size_t i = 1; i < need; i++) {
    if ((c[i] & 0xC0) != 0x80) {
      *size = 1;
      return 0xFFFD;
    }
    value = value << 6 | (c[i] & 0x3F);
  }
  *size = need;
  return value;
}

/* Columns that a text takes, and its UTF-16 units (`units` may be NULL). */
static size_t text_width(const char *text, size_t *units) {
  size_t width = 0, count = 0, size;
  for (; *text; text += size) {
    uint32_t c = next_char(text, &size);
    size_t step = c > 0xFFFF ? 2 : 1;
    count += step;
    width += step + is_full_width(c);
  }
  if (units) *units = count;
  return width;
}

/* Bytes of the first `units` UTF-16 units; half a pair is left out. */
static size_t prefix_bytes(const char *text, size_t units) {
  size_t bytes = 0, size;
  while (text[bytes]) {
    size_t step = next_char(text + bytes, &size) > 0xFFFF ? 2 : 1;
    if (step > units) break;
    units -= step;
    bytes += size;
  }
  return bytes;
}

/* The text with characters that would break the layout escaped. */
static void put_escaped(trn_strbuf *out, const char *text) {
  static const char from[] = "\n\r\t\f\b\v\a", to[] = "nrtfbva";
  for (; *text; text++) {
    const char *at = strchr(from, *text);
    if (at) {
      trn__strbuf_putc(out, '\\');
      trn__strbuf_putc(out, to[at - from]);
    } else {
      trn__strbuf_putc(out, *text);
    }
  }
}

/* Gives the escaped, cut text (free); NULL: out of memory. */
static char *prepare(const char *text, int32_t truncate) {
  trn_strbuf out = {0};
  put_escaped(&out, text);
  size_t units = 0;
  if (out.data) text_width(out.data, &units);
  if (truncate > 0 && units > (size_t)truncate) {
    bool dots = truncate >= 4;
    out.size = prefix_bytes(out.data, (size_t)truncate - (dots ? 3 : 0));
    out.data[out.size] = 0;
    if (dots) trn__strbuf_puts(&out, "...");
  }
  if (!out.data) trn__strbuf_puts(&out, "");
  if (out.failed || !out.data) {
    trn__strbuf_finish(&out);
    return NULL;
  }
  return out.data;
}

/* ---- layout ---- */

typedef struct grid {
  const spark_show *show;
  size_t columns, rows; /* rows: without the head */
  char **cells;         /* head first; prepared texts */
} grid;

static const char *grid_cell(const grid *g, size_t row, size_t column) {
  return g->cells[row * g->columns + column];
}

static void put_repeated(trn_strbuf *out, char c, size_t count) {
  while (count--) trn__strbuf_putc(out, c);
}

/* `left`: the padding comes first. */
static void put_padded(trn_strbuf *out, const char *text, size_t width, bool left, char with) {
  size_t own = text_width(text, NULL), pad = width > own ? width - own : 0;
  if (left) put_repeated(out, with, pad);
  trn__strbuf_puts(out, text);
  if (!left) put_repeated(out, with, pad);
}

static void put_separator(trn_strbuf *out, const size_t *widths, size_t count) {
  trn__strbuf_putc(out, '+');
  for (size_t i = 0; i < count; i++) {
    if (i) trn__strbuf_putc(out, '+');
    put_repeated(out, '-', widths[i]);
  }
  trn__strbuf_puts(out, "+\n");
}

static bool put_table(trn_strbuf *out, const grid *g) {
  size_t *widths = malloc((g->columns ? g->columns : 1) * sizeof *widths);
  if (!widths) return false;
  for (size_t column = 0; column < g->columns; column++) {
    widths[column] = 3;
    for (size_t row = 0; row <= g->rows; row++) {
      size_t width = text_width(grid_cell(g, row, column), NULL);
      if (width > widths[column]) widths[column] = width;
    }
  }
  put_separator(out, widths, g->columns);
  for (size_t row = 0; row <= g->rows; row++) {
    trn__strbuf_putc(out, '|');
    for (size_t column = 0; column < g->columns; column++) {
      if (column) trn__strbuf_putc(out, '|');
      put_padded(out, grid_cell(g, row, column), widths[column], g->show->truncate > 0, ' ');
    }
    trn__strbuf_puts(out, "|\n");
    if (row == 0) put_separator(out, widths, g->columns);
  }
  put_separator(out, widths, g->columns);
  free(widths);
  return true;
}

static size_t grid_width(const grid *g, size_t from, size_t to) {
  size_t widest = 3;
  for (size_t i = from * g->columns; i < to * g->columns; i++) {
    size_t width = text_width(g->cells[i], NULL);
    if (width > widest) widest = width;
  }
  return widest;
}

static void put_vertical(trn_strbuf *out, const grid *g) {
  size_t names = grid_width(g, 0, 1), data = grid_width(g, 1, g->rows + 1);
  for (size_t row = 1; row <= g->rows; row++) {
    char head[48];
    snprintf(head, sizeof head, "-RECORD %zu", row - 1);
    put_padded(out, head, names + data + 5, false, '-');
    trn__strbuf_putc(out, '\n');
    for (size_t column = 0; column < g->columns; column++) {
      trn__strbuf_putc(out, ' ');
      put_padded(out, grid_cell(g, 0, column), names, false, ' ');
      trn__strbuf_puts(out, " | ");
      put_padded(out, grid_cell(g, row, column), data, false, ' ');
      trn__strbuf_puts(out, " \n");
    }
    if (!g->columns) trn__strbuf_putc(out, '\n');
  }
}

static void put_html_text(trn_strbuf *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '<': trn__strbuf_puts(out, "&lt;"); break;
    case '>': trn__strbuf_puts(out, "&gt;"); break;
    case '&': trn__strbuf_puts(out, "&amp;"); break;
    case '"': trn__strbuf_puts(out, "&quot;"); break;
    default: trn__strbuf_putc(out, *text);
    }
  }
}

static void put_html(trn_strbuf *out, const grid *g) {
  trn__strbuf_puts(out, "<table border='1'>\n");
  for (size_t row = 0; row <= g->rows; row++) {
    const char *tag = row ? "td" : "th";
    trn__strbuf_printf(out, "<tr><%s>", tag);
    for (size_t column = 0; column < g->columns; column++) {
      if (column) trn__strbuf_printf(out, "</%s><%s>", tag, tag);
      put_html_text(out, grid_cell(g, row, column));
    }
    trn__strbuf_printf(out, "</%s></tr>\n", tag);
  }
  trn__strbuf_puts(out, "</table>\n");
}

/* Fills g->cells; false: out of memory. */
static bool prepare_cells(grid *g, const char *const *names, const char *const *cells) {
  size_t count = g->columns * (g->rows + 1);
  g->cells = calloc(count ? count : 1, sizeof *g->cells);
  if (!g->cells) return false;
  for (size_t i = 0; i < count; i++) {
    /* The head is never cut. */
    g->cells[i] = i < g->columns ? prepare(names[i], 0) : prepare(cells[i - g->columns], g->show->truncate);
    if (!g->cells[i]) return false;
  }
  return true;
}

char *spark__show_format(const spark_show *show, const char *const *names, size_t column_count,
                         const char *const *cells, size_t row_count, bool has_more, size_t *size) {
  grid g = {show, column_count, row_count, NULL};
  trn_strbuf out = {0};
  bool done = prepare_cells(&g, names, cells);
  if (done && show->html) {
    put_html(&out, &g);
  } else if (done && show->vertical) {
    put_vertical(&out, &g);
    if (!row_count) trn__strbuf_puts(&out, "(0 rows)");
  } else if (done) {
    done = put_table(&out, &g);
  }
  if (has_more && !(show->vertical && !row_count)) {
    int32_t rows = show->rows > 0 ? show->rows : 0;
    trn__strbuf_printf(&out, "only showing top %d %s", (int)rows, rows == 1 ? "row" : "rows");
  }
  for (size_t i = 0; g.cells && i < column_count * (row_count + 1); i++) free(g.cells[i]);
  free(g.cells);
  if (!done || out.failed || !out.data) {
    trn__strbuf_finish(&out);
    return NULL;
  }
  *size = out.size;
  return out.data;
}
