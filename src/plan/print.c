/* Plans as text, for people. Iterative; what grows beyond TRN_PLAN_PRINT_BYTES_MAX is cut. */
#include <inttypes.h>

#include "plan/graph.h"

/* ---- types: bounded by their constructors ---- */

static void interval_print(trn_strbuf *out, const trn_type *type, const char *const names[4]) {
  trn__strbuf_printf(out, "interval %s", names[type->precision & 3]);
  if (type->scale != type->precision) trn__strbuf_printf(out, " to %s", names[type->scale & 3]);
}

void trn__type_print(trn_strbuf *out, const trn_type *type) {
  static const char *const names[TRN_TYPE_COUNT] = {[TRN_TYPE_NULL] = "null",
                                                    [TRN_TYPE_BOOL] = "boolean",
                                                    [TRN_TYPE_INT8] = "tinyint",
                                                    [TRN_TYPE_INT16] = "smallint",
                                                    [TRN_TYPE_INT32] = "int",
                                                    [TRN_TYPE_INT64] = "bigint",
                                                    [TRN_TYPE_FLOAT32] = "float",
                                                    [TRN_TYPE_FLOAT64] = "double",
                                                    [TRN_TYPE_STRING] = "string",
                                                    [TRN_TYPE_BINARY] = "binary",
                                                    [TRN_TYPE_DATE] = "date",
                                                    [TRN_TYPE_TIMESTAMP] = "timestamp",
                                                    [TRN_TYPE_TIMESTAMP_NTZ] = "timestamp_ntz",
                                                    [TRN_TYPE_INTERVAL_CALENDAR] = "interval"};
  static const char *const year_month[4] = {"year", "month", "month", "month"};
  static const char *const day_time[4] = {"day", "hour", "minute", "second"};
  switch (type->id) {
  case TRN_TYPE_DECIMAL: trn__strbuf_printf(out, "decimal(%d,%d)", type->precision, type->scale); break;
  case TRN_TYPE_STRING:
    if (type->variant == TRN_STRING_PLAIN)
      trn__strbuf_puts(out, "string");
    else
      trn__strbuf_printf(out, "%s(%d)", type->variant == TRN_STRING_CHAR ? "char" : "varchar", type->length);
    break;
  case TRN_TYPE_TIME: trn__strbuf_printf(out, "time(%d)", type->precision); break;
  case TRN_TYPE_INTERVAL_YEAR_MONTH: interval_print(out, type, year_month); break;
  case TRN_TYPE_INTERVAL_DAY_TIME: interval_print(out, type, day_time); break;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT:
    trn__strbuf_puts(out, type->id == TRN_TYPE_ARRAY ? "array<" : type->id == TRN_TYPE_MAP ? "map<" : "struct<");
    for (uint32_t i = 0; i < type->field_count; i++) {
      if (i) trn__strbuf_putc(out, ',');
      if (type->id == TRN_TYPE_STRUCT) trn__strbuf_printf(out, "%s:", type->fields[i].name);
      trn__type_print(out, type->fields[i].type);
    }
    trn__strbuf_putc(out, '>');
    break;
  case TRN_TYPE_OTHER: trn__strbuf_printf(out, "arrow(%s)", type->format); break;
  default: trn__strbuf_puts(out, names[type->id]);
  }
}

/* ---- expressions ---- */

/* What is still to be printed, last first: a text, or an expression. */
typedef struct print_item {
  const char *text;
  const trn_expr *expr;
} print_item;

typedef struct printer {
  trn_strbuf *out;
  print_item *items;
  size_t count, capacity;
  trn_vec *subqueries; /* relations met, printed below the line; may be NULL */
} printer;

static void push(printer *p, const char *text, const trn_expr *expr) {
  if (p->count == p->capacity) {
    size_t capacity = p->capacity ? p->capacity * 2 : 64;
    print_item *items = realloc(p->items, capacity * sizeof *items);
    if (!items) {
      p->out->failed = true;
      return;
    }
    p->items = items;
    p->capacity = capacity;
  }
  p->items[p->count++] = (print_item){text, expr};
}

static bool is_over(const trn_strbuf *out) {
  return out->failed || out->size > TRN_PLAN_PRINT_BYTES_MAX;
}

/* Children [from, to) with separators, to be printed next. */
static void push_args(printer *p, const trn_expr *expr, uint32_t from, uint32_t to) {
  for (uint32_t i = to; i-- > from;) {
    push(p, NULL, expr->args[i]);
    if (i > from) push(p, ", ", NULL);
  }
}

static void bytes_print(trn_strbuf *out, const trn_type *type, const char *data, size_t size) {
  size_t shown = size < 100 ? size : 100;
  trn__strbuf_puts(out, type->id == TRN_TYPE_BINARY ? "x'" : "'");
  for (size_t i = 0; i < shown; i++) {
    if (type->id == TRN_TYPE_BINARY)
      trn__strbuf_printf(out, "%02x", (unsigned char)data[i]);
    else if (data[i] == '\'')
      trn__strbuf_puts(out, "''");
    else if ((unsigned char)data[i] < 32)
      trn__strbuf_printf(out, "\\%03o", (unsigned char)data[i]);
    else
      trn__strbuf_putc(out, data[i]);
  }
  trn__strbuf_puts(out, shown < size ? "...'" : "'");
}

void trn__decimal_print(trn_strbuf *out, const trn_literal *literal, int scale) {
  uint64_t low = literal->value.decimal.low, high = (uint64_t)literal->value.decimal.high;
  bool is_negative = literal->value.decimal.high < 0;
  if (is_negative) {
    low = ~low + 1;
    high = ~high + (low == 0);
  }
  uint32_t words[4] = {(uint32_t)(high >> 32), (uint32_t)high, (uint32_t)(low >> 32), (uint32_t)low};
  char digits[48];
  int at = sizeof digits;
  do { /* long division by ten */
    uint64_t rest = 0;
    for (unsigned i = 0; i < 4; i++) {
      rest = rest << 32 | words[i];
      words[i] = (uint32_t)(rest / 10);
      rest %= 10;
    }
    digits[--at] = (char)('0' + rest);
    if ((int)sizeof digits - at == scale) digits[--at] = '.';
  } while (at > 1 && (words[0] || words[1] || words[2] || words[3] || (int)sizeof digits - at <= scale + (scale > 0)));
  if (is_negative) trn__strbuf_putc(out, '-');
  trn__strbuf_add(out, digits + at, sizeof digits - (size_t)at);
}

static void literal_print(printer *p, const trn_expr *expr) {
  const trn_literal *literal = &expr->u.literal;
  if (literal->is_null) {
    trn__strbuf_puts(p->out, "null:");
    trn__type_print(p->out, expr->type);
    return;
  }
  switch (expr->type->id) {
  case TRN_TYPE_BOOL: trn__strbuf_puts(p->out, literal->value.boolean ? "true" : "false"); return;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: trn__strbuf_printf(p->out, "%.17g", literal->value.number); break;
  case TRN_TYPE_DECIMAL: trn__decimal_print(p->out, literal, expr->type->scale); break;
  case TRN_TYPE_STRING: bytes_print(p->out, expr->type, literal->value.bytes.data, literal->value.bytes.size); return;
  case TRN_TYPE_BINARY: bytes_print(p->out, expr->type, literal->value.bytes.data, literal->value.bytes.size); return;
  case TRN_TYPE_INTERVAL_CALENDAR:
    trn__strbuf_printf(p->out, "%dM%dD%" PRId64 "ns", literal->value.interval.months, literal->value.interval.days,
                       literal->value.interval.nanos);
    break;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT:
    trn__strbuf_puts(p->out, expr->type->id == TRN_TYPE_ARRAY ? "[" : "{");
    push(p, expr->type->id == TRN_TYPE_ARRAY ? "]" : "}", NULL);
    for (uint32_t i = literal->value.nested.count; i-- > 0;) {
      push(p, NULL, literal->value.nested.items[i]);
      if (i) push(p, ", ", NULL);
    }
    return;
  case TRN_TYPE_INT32: trn__strbuf_printf(p->out, "%" PRId64, literal->value.integer); return;
  default: trn__strbuf_printf(p->out, "%" PRId64, literal->value.integer);
  }
  trn__strbuf_putc(p->out, ':');
  trn__type_print(p->out, expr->type);
}

static void aggregate_print(printer *p, const trn_expr *expr) {
  uint32_t tail = expr->u.aggregate.order_count + expr->u.aggregate.has_filter;
  uint32_t args = expr->arg_count > tail ? expr->arg_count - tail : 0;
  trn__strbuf_printf(p->out, "%s(%s", expr->u.aggregate.name, expr->u.aggregate.distinct ? "distinct " : "");
  if (expr->u.aggregate.has_filter) {
    push(p, ")", NULL);
    push(p, NULL, expr->args[expr->arg_count - 1]);
    push(p, " filter (", NULL);
  }
  push(p, ")", NULL);
  for (uint32_t i = expr->u.aggregate.order_count; i-- > 0;) {
    push(p, expr->u.aggregate.order_flags[i].descending ? " desc" : " asc", NULL);
    push(p, NULL, expr->args[args + i]);
    push(p, i ? ", " : " order by ", NULL);
  }
  push_args(p, expr, 0, args);
}

static void window_print(printer *p, const trn_expr *expr) {
  static const char *const units[] = {" rows ", " range ", " groups "};
  static const char *const bounds[] = {"unbounded preceding", " preceding", "current row", " following",
                                       "unbounded following"};
  uint32_t partitions = expr->u.window.partition_count, orders = expr->u.window.order_count;
  push(p, ")", NULL);
  push(p, bounds[expr->u.window.end_kind % 5], NULL);
  if (expr->u.window.end) push(p, NULL, expr->u.window.end);
  push(p, "..", NULL);
  push(p, bounds[expr->u.window.start_kind % 5], NULL);
  if (expr->u.window.start) push(p, NULL, expr->u.window.start);
  push(p, units[expr->u.window.unit % 3], NULL);
  for (uint32_t i = orders; i-- > 0;) {
    push(p, expr->u.window.order_flags[i].descending ? " desc" : " asc", NULL);
    push(p, NULL, expr->args[1 + partitions + i]);
    push(p, i ? ", " : " order by ", NULL);
  }
  push_args(p, expr, 1, 1 + partitions);
  push(p, partitions ? "partition by " : "", NULL);
  push(p, expr->u.window.ignore_nulls ? " ignore nulls over (" : " over (", NULL);
  push(p, NULL, expr->args[0]);
}

static void case_print(printer *p, const trn_expr *expr) {
  push(p, " end", NULL);
  for (uint32_t i = expr->arg_count; i-- > 0;) {
    bool is_else = i == expr->arg_count - 1 && expr->arg_count % 2;
    push(p, NULL, expr->args[i]);
    push(p, is_else ? " else " : i % 2 ? " then " : " when ", NULL);
  }
  trn__strbuf_puts(p->out, "case");
}

static void subquery_print(printer *p, const trn_expr *expr) {
  static const char *const kinds[] = {"scalar", "exists", "in"};
  if (p->subqueries && !trn__vec_push(p->subqueries, (void *)expr->u.subquery.rel)) p->out->failed = true;
  trn__strbuf_printf(p->out, "%s%s_subquery(", expr->u.subquery.negated ? "not " : "",
                     kinds[expr->u.subquery.kind % 3]);
  push(p, ")", NULL);
  push_args(p, expr, 0, expr->arg_count);
}

static void node_print(printer *p, const trn_expr *expr) {
  trn_strbuf *out = p->out;
  switch (expr->kind) {
  case TRN_EXPR_LITERAL: literal_print(p, expr); break;
  case TRN_EXPR_COLUMN: trn__strbuf_printf(out, "#%u", expr->u.column); break;
  case TRN_EXPR_OUTER: trn__strbuf_printf(out, "outer#%u", expr->u.column); break;
  case TRN_EXPR_LAMBDA_VARIABLE: trn__strbuf_printf(out, "v%u", expr->u.column); break;
  case TRN_EXPR_CALL:
    trn__strbuf_printf(out, "%s(", expr->u.call.name);
    push(p, ")", NULL);
    push_args(p, expr, 0, expr->arg_count);
    break;
  case TRN_EXPR_AGGREGATE: aggregate_print(p, expr); break;
  case TRN_EXPR_WINDOW: window_print(p, expr); break;
  case TRN_EXPR_CAST: {
    trn__strbuf_puts(out, expr->u.cast.is_try ? "try_cast<" : "cast<");
    trn__type_print(out, expr->type);
    trn__strbuf_puts(out, ">(");
    push(p, ")", NULL);
    push_args(p, expr, 0, expr->arg_count);
    break;
  }
  case TRN_EXPR_CASE: case_print(p, expr); break;
  case TRN_EXPR_IN_LIST:
    push(p, ")", NULL);
    push_args(p, expr, 1, expr->arg_count);
    push(p, expr->u.in_list.negated ? " not in (" : " in (", NULL);
    push(p, NULL, expr->args[0]);
    break;
  case TRN_EXPR_SUBQUERY: subquery_print(p, expr); break;
  case TRN_EXPR_LAMBDA:
    trn__strbuf_putc(out, '(');
    for (uint32_t i = 0; i < expr->u.lambda.param_count; i++)
      trn__strbuf_printf(out, "%sv%u", i ? ", " : "", expr->u.lambda.params[i]);
    trn__strbuf_puts(out, ") -> ");
    push_args(p, expr, 0, expr->arg_count);
    break;
  default: trn__strbuf_printf(out, "expression_%d", expr->kind);
  }
}

static void expr_print(trn_strbuf *out, const trn_expr *expr, trn_vec *subqueries) {
  printer p = {.out = out, .subqueries = subqueries};
  push(&p, NULL, expr);
  while (p.count && !is_over(out)) {
    print_item item = p.items[--p.count];
    if (item.text)
      trn__strbuf_puts(out, item.text);
    else
      node_print(&p, item.expr);
  }
  free(p.items);
}

void trn__expr_print(trn_strbuf *out, const trn_expr *expr) {
  expr_print(out, expr, NULL);
}

/* ---- relations ---- */

static void columns_print(trn_strbuf *out, const trn_rel *rel) {
  trn__strbuf_puts(out, " [");
  for (uint32_t i = 0; i < rel->column_count && !is_over(out); i++) {
    trn__strbuf_printf(out, "%s#%u ", i ? ", " : "", rel->columns[i].id);
    trn__type_print(out, rel->columns[i].type);
    if (!rel->columns[i].nullable) trn__strbuf_puts(out, " not null");
  }
  trn__strbuf_putc(out, ']');
}

static void head_print(trn_strbuf *out, const trn_rel *rel) {
  static const char *const names[TRN_REL_COUNT_] = {
      "scan",  "local",    "values", "range",  "project", "filter", "join",        "aggregate", "sort",  "limit",
      "union", "distinct", "set",    "window", "unnest",  "sample", "repartition", "extension", "opaque", "write"};
  static const char *const joins[] = {"inner", "left", "right", "full", "left semi", "left anti", "left mark"};
  trn__strbuf_puts(out, rel->kind < TRN_REL_COUNT_ ? names[rel->kind] : "?");
  switch (rel->kind) {
  case TRN_REL_SCAN: trn__strbuf_printf(out, " %s", rel->u.scan.label ? rel->u.scan.label : ""); break;
  case TRN_REL_LOCAL: trn__strbuf_printf(out, " %zu bytes", rel->u.local.size); break;
  case TRN_REL_VALUES: trn__strbuf_printf(out, " %u rows", rel->u.values.row_count); break;
  case TRN_REL_RANGE:
    trn__strbuf_printf(out, " %" PRId64 "..%" PRId64 " by %" PRId64, rel->u.range.start, rel->u.range.end,
                       rel->u.range.step);
    break;
  case TRN_REL_JOIN:
    trn__strbuf_printf(out, " %s%s", joins[rel->u.join.type % 7], rel->u.join.null_aware ? " null aware" : "");
    break;
  case TRN_REL_AGGREGATE:
    trn__strbuf_printf(out, " %u keys", rel->u.aggregate.group_count);
    for (uint32_t i = 0; i < rel->u.aggregate.set_count; i++)
      trn__strbuf_printf(out, "%s%" PRIx64, i ? "," : " sets ", rel->u.aggregate.sets[i]);
    break;
  case TRN_REL_SORT:
    if (rel->u.sort.fetch >= 0) trn__strbuf_printf(out, " first %" PRId64, rel->u.sort.fetch);
    if (!rel->u.sort.is_global) trn__strbuf_puts(out, " within partitions");
    break;
  case TRN_REL_LIMIT:
    trn__strbuf_printf(out, " skip %" PRId64 " fetch %" PRId64, rel->u.limit.skip, rel->u.limit.fetch);
    break;
  case TRN_REL_SET:
    trn__strbuf_printf(out, " %s%s", rel->u.set.except ? "except" : "intersect", rel->u.set.all ? " all" : "");
    break;
  case TRN_REL_UNNEST:
    trn__strbuf_printf(out, "%s%s", rel->u.unnest.outer ? " outer" : "",
                       rel->u.unnest.with_position ? " with position" : "");
    break;
  case TRN_REL_SAMPLE:
    trn__strbuf_printf(out, " %g..%g%s seed %" PRId64, rel->u.sample.lower, rel->u.sample.upper,
                       rel->u.sample.with_replacement ? " with replacement" : "", rel->u.sample.seed);
    break;
  case TRN_REL_REPARTITION: trn__strbuf_printf(out, " %u", rel->u.repartition.partitions); break;
  case TRN_REL_OPAQUE: trn__strbuf_printf(out, " %.200s", rel->u.opaque.label ? rel->u.opaque.label : ""); break;
  case TRN_REL_EXTENSION: trn__strbuf_printf(out, " %s", rel->u.extension.name ? rel->u.extension.name : ""); break;
  case TRN_REL_WRITE: trn__strbuf_printf(out, " %s %s", rel->u.write.format, rel->u.write.directory); break;
  default: break;
  }
}

/* One line; the relations of subqueries in it are added to `below`. */
static void line_print(trn_strbuf *out, const trn_rel *rel, trn_vec *below) {
  head_print(out, rel);
  const trn_sort_flags *flags = rel->kind == TRN_REL_SORT          ? rel->u.sort.flags
                                : rel->kind == TRN_REL_REPARTITION ? rel->u.repartition.flags
                                                                   : NULL;
  for (uint32_t i = 0; i < rel->expr_count && !is_over(out); i++) {
    trn__strbuf_puts(out, i ? ", " : " ");
    bool is_named = rel->kind == TRN_REL_PROJECT || rel->kind == TRN_REL_AGGREGATE;
    const trn_expr *expr = rel->exprs[i];
    bool is_kept =
        is_named && i < rel->column_count && expr->kind == TRN_EXPR_COLUMN && expr->u.column == rel->columns[i].id;
    if (is_named && !is_kept && i < rel->column_count) trn__strbuf_printf(out, "#%u := ", rel->columns[i].id);
    expr_print(out, expr, below);
    if (flags) trn__strbuf_puts(out, flags[i].descending ? " desc" : " asc");
    if (flags && flags[i].nulls_first == flags[i].descending)
      trn__strbuf_puts(out, flags[i].nulls_first ? " nulls first" : " nulls last");
  }
  bool is_leaf = rel->input_count == 0;
  if (is_leaf || rel->kind == TRN_REL_UNION || rel->kind == TRN_REL_SET || rel->kind == TRN_REL_UNNEST ||
      rel->kind == TRN_REL_WINDOW)
    columns_print(out, rel);
}

static void indent_print(trn_strbuf *out, size_t depth) {
  enum { INDENT_MAX = 40 }; /* a deep plan must not become quadratic text */
  for (size_t i = 0; i < depth && i < INDENT_MAX; i++) trn__strbuf_puts(out, "  ");
  if (depth > INDENT_MAX) trn__strbuf_printf(out, "(%zu) ", depth);
}

/* Relations that have more than one parent get a number. */
static bool count_uses(const trn_rel *root, trn_ptrmap *uses) {
  trn_stack stack = {0};
  bool ok = trn__stack_push(&stack, (trn_node){root, true}, NULL, 0) == TRN_OK;
  while (ok && stack.count) {
    trn_frame *top = &stack.frames[stack.count - 1];
    const trn_rel *rel = top->node.at;
    if (top->next >= rel->input_count) {
      stack.count--;
      continue;
    }
    const trn_rel *input = rel->inputs[top->next++];
    uint64_t count = 0;
    trn__ptrmap_get(uses, input, NULL, &count);
    ok = trn__ptrmap_set(uses, input, NULL, count + 1);
    if (ok && count == 0) ok = trn__stack_push(&stack, (trn_node){input, true}, NULL, 0) == TRN_OK;
  }
  trn__stack_finish(&stack);
  return ok;
}

/* A line for the relation, or a reference to where it was printed. True: its children come next. */
static bool rel_print_line(trn_strbuf *out, const trn_rel *rel, const trn_ptrmap *uses, trn_ptrmap *shown,
                           trn_vec *below) {
  uint64_t use_count = 0, number = 0;
  trn__ptrmap_get(uses, rel, NULL, &use_count);
  if (trn__ptrmap_get(shown, rel, NULL, &number)) {
    trn__strbuf_printf(out, "shared @%u\n", (unsigned)number);
    return false;
  }
  if (use_count > 1) {
    if (!trn__ptrmap_set(shown, rel, NULL, shown->count + 1)) out->failed = true;
    trn__strbuf_printf(out, "@%u ", (unsigned)shown->count);
  }
  line_print(out, rel, below);
  trn__strbuf_putc(out, '\n');
  return true;
}

void trn__rel_print(trn_strbuf *out, const trn_rel *root) {
  trn_ptrmap uses = {0}, shown = {0};
  trn_vec todo = {0}, depths = {0}, below = {0};
  bool ok = count_uses(root, &uses) && trn__vec_push(&todo, (void *)root) && trn__vec_push(&depths, NULL);
  while (ok && todo.count && !is_over(out)) {
    const trn_rel *rel = todo.items[--todo.count];
    size_t depth = (uintptr_t)depths.items[--depths.count];
    indent_print(out, depth);
    below.count = 0;
    if (!rel_print_line(out, rel, &uses, &shown, &below)) continue;
    for (size_t i = below.count; i-- > 0 && ok;)
      ok = trn__vec_push(&todo, below.items[i]) && trn__vec_push(&depths, (void *)(depth + 2));
    for (size_t i = rel->input_count; i-- > 0 && ok;)
      ok = trn__vec_push(&todo, (void *)rel->inputs[i]) && trn__vec_push(&depths, (void *)(depth + 1));
  }
  if (!ok)
    out->failed = true;
  else if (todo.count)
    trn__strbuf_puts(out, "...\n");
  trn__vec_finish(&todo);
  trn__vec_finish(&depths);
  trn__vec_finish(&below);
  trn__ptrmap_finish(&uses);
  trn__ptrmap_finish(&shown);
}

trn_status trn_plan_print(const trn_plan *plan, char **out) {
  trn_strbuf text = {0};
  *out = NULL;
  trn__strbuf_puts(&text, "output");
  for (uint32_t i = 0; i < plan->field_count; i++) {
    trn__strbuf_printf(&text, "%s%s #%u ", i ? ", " : " ", plan->fields[i].name, plan->root->columns[i].id);
    trn__type_print(&text, plan->fields[i].type);
  }
  trn__strbuf_putc(&text, '\n');
  trn__rel_print(&text, plan->root);
  if (text.failed) {
    trn__strbuf_finish(&text);
    return TRN_RESOURCE_EXHAUSTED;
  }
  *out = text.data;
  return TRN_OK;
}
