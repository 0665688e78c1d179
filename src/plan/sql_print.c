/* Plans as SQL text: WITH r1 AS (...), r2 AS (...) SELECT ... Each relation is a common table expression whose columns are
 * named c<id>, written once however often it is used; filters, sorts, limits, projections and joins that have one user are
 * written into its SELECT. The printers of expressions are in sql_print_expr.c, dialects in files of their own. */
#include "plan/sql_print.h"
#include "plan/sql_print_rel.h"
#include <inttypes.h>

enum { DECIMAL_DIGITS_MAX = 38 };

/* ---- shared by the kinds of relations ---- */

static bool is_sole(const sql_printer *p, const trn_rel *rel) {
  uint64_t uses = 0;
  trn__ptrmap_get(&p->uses, rel, NULL, &uses);
  return uses == 1;
}

static void name(sql_printer *p, const trn_rel *rel) {
  uint64_t number = 0;
  trn__ptrmap_get(&p->numbers, rel, NULL, &number);
  trn__sql_printf(p, "r%u", (unsigned)number);
}

void trn__sql_columns(sql_printer *p, const trn_column *columns, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) trn__sql_printf(p, "%sc%u", i ? ", " : "", columns[i].id);
  if (!count) trn__sql_puts(p, "0 AS z"); /* rows without columns */
}

trn_status trn__sql_named(sql_printer *p, const trn_expr *const *exprs, const trn_column *columns, uint32_t count) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < count; i++) {
    if (i) trn__sql_puts(p, ", ");
    status = trn__sql_expr(p, exprs[i]);
    trn__sql_printf(p, " AS c%u", columns[i].id);
  }
  if (!count) trn__sql_puts(p, "0 AS z");
  return status;
}

/* ---- FROM: a name, or inner and outer joins of names ---- */

enum { TABLES_MAX = 24 }; /* in one FROM; SQLite joins 64 at most, and flattens subqueries into that */

static bool is_plain_join(const trn_rel *rel) {
  return rel->kind == TRN_REL_JOIN && rel->u.join.type <= TRN_JOIN_FULL;
}

static unsigned from_depth(const sql_printer *p, const trn_rel *rel) {
  unsigned depth = 0;
  while (is_plain_join(rel) && depth < TABLES_MAX && (depth == 0 || is_sole(p, rel))) rel = rel->inputs[0], depth++;
  return depth;
}

static trn_status from_need(sql_printer *p, const trn_rel *rel, unsigned depth) {
  trn_status status = TRN_OK;
  for (; !status && depth > 0; depth--, rel = rel->inputs[0]) status = trn__sql_relation(p, rel->inputs[1]);
  return status ? status : trn__sql_relation(p, rel);
}

/* The recursion is bounded by TABLES_MAX. */
static trn_status from_print(sql_printer *p, const trn_rel *rel, unsigned depth) {
  static const char *const kinds[] = {" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "};
  if (!depth) {
    name(p, rel);
    return TRN_OK;
  }
  trn_status status = from_print(p, rel->inputs[0], depth - 1);
  if (status) return status;
  trn__sql_puts(p, kinds[rel->u.join.type]);
  name(p, rel->inputs[1]);
  trn__sql_puts(p, " ON ");
  if (rel->expr_count) return trn__sql_expr(p, rel->exprs[0]);
  trn__sql_puts(p, "TRUE");
  return TRN_OK;
}

/* ---- a SELECT: [LIMIT] [PROJECT] [LIMIT] [SORT] FILTER* over FROM ---- */

typedef struct select_block {
  const trn_rel *top, *project, *sort, *limit, *from;
  trn_vec filters;
  unsigned depth; /* of FROM's joins */
} select_block;

/* Takes the relation into the block, when that is what it means. */
static bool block_take(select_block *b, const trn_rel *rel, trn_status *status) {
  bool is_below = b->filters.count || b->sort;
  switch (rel->kind) {
  case TRN_REL_LIMIT:
    if (b->limit || is_below) return false;
    b->limit = rel;
    return true;
  case TRN_REL_PROJECT:
    if (b->project || is_below) return false;
    b->project = rel;
    return true;
  case TRN_REL_SORT:
    if (b->sort || (rel->u.sort.fetch >= 0 && (b->limit || b->filters.count))) return false;
    b->sort = rel;
    return true;
  case TRN_REL_REPARTITION: return true;
  case TRN_REL_FILTER:
    if (!trn__vec_push(&b->filters, (void *)rel)) *status = TRN_RESOURCE_EXHAUSTED;
    return true;
  default: return false;
  }
}

static trn_status block_open(sql_printer *p, const trn_rel *rel, select_block *b) {
  trn_status status = TRN_OK;
  *b = (select_block){.top = rel};
  while ((rel == b->top || is_sole(p, rel)) && block_take(b, rel, &status) && !status) rel = rel->inputs[0];
  b->from = rel;
  b->depth = rel == b->top || is_sole(p, rel) ? from_depth(p, rel) : 0;
  return status ? trn__no_memory(p->error) : from_need(p, b->from, b->depth);
}

static void block_limit(sql_printer *p, const select_block *b) {
  int64_t fetch = b->limit ? b->limit->u.limit.fetch : b->sort ? b->sort->u.sort.fetch : -1;
  int64_t skip = b->limit ? b->limit->u.limit.skip : 0;
  if (fetch >= 0) trn__sql_printf(p, " LIMIT %" PRId64, fetch);
  if (skip > 0) trn__sql_printf(p, " %sOFFSET %" PRId64, fetch < 0 ? p->dialect->no_limit : "", skip);
}

static trn_status block_print(sql_printer *p, const select_block *b) {
  trn_status status = TRN_OK;
  trn__sql_puts(p, "SELECT ");
  if (b->project)
    status = trn__sql_named(p, b->project->exprs, b->project->columns, b->project->column_count);
  else
    trn__sql_columns(p, b->top->columns, b->top->column_count);
  trn__sql_puts(p, " FROM ");
  if (!status) status = from_print(p, b->from, b->depth);
  for (size_t i = 0; !status && i < b->filters.count; i++) {
    trn__sql_puts(p, i ? " AND " : " WHERE ");
    const trn_expr *condition = ((const trn_rel *)b->filters.items[i])->exprs[0];
    status = trn__sql_expr(p, condition);
    if (!status) status = trn__sql_implied(p, condition);
  }
  if (!status && b->sort)
    status = trn__sql_order(p, b->sort->exprs, b->sort->u.sort.flags, b->sort->expr_count);
  block_limit(p, b);
  return status;
}

static trn_status select_print(sql_printer *p, const trn_rel *rel) {
  select_block b;
  trn_status status = block_open(p, rel, &b);
  if (!status) status = block_print(p, &b);
  trn__vec_finish(&b.filters);
  return status;
}

/* ---- leaves ---- */

static trn_status scan_print(sql_printer *p, const trn_rel *rel) {
  const trn_scan_info *info = rel->u.scan.info ? trn_scan_label_info(rel->u.scan.info) : NULL;
  if (!info || info->kind != TRN_SCAN_TABLE || !info->table)
    return trn__sql_refuse(p, "a scan of %s, which is no table,", rel->u.scan.label ? rel->u.scan.label : "something");
  trn__sql_puts(p, "SELECT ");
  for (uint32_t i = 0; i < rel->column_count; i++) {
    const char *column = trn_rel_scan_column_name(rel, i);
    if (!column) return trn__sql_refuse(p, "a column without a name of table %s", info->table);
    trn_status status = p->dialect->check_type(p, rel->columns[i].type);
    if (status) return status;
    if (i) trn__sql_puts(p, ", ");
    if ((status = p->dialect->column(p, column, rel->columns[i].type))) return status;
    trn__sql_printf(p, " AS c%u", rel->columns[i].id);
  }
  trn__sql_puts(p, rel->column_count ? " FROM " : "0 AS z FROM ");
  if (info->database && *info->database && strcmp(info->database, "default") != 0) {
    trn__sql_name(p, info->database);
    trn__sql_puts(p, ".");
  }
  trn__sql_name(p, info->table);
  return TRN_OK;
}

static trn_status no_rows(sql_printer *p, const trn_rel *rel) {
  trn_status status = TRN_OK;
  trn__sql_puts(p, "SELECT ");
  for (uint32_t i = 0; !status && i < rel->column_count; i++) {
    if (i) trn__sql_puts(p, ", ");
    status = p->dialect->null(p, rel->columns[i].type);
    trn__sql_printf(p, " AS c%u", rel->columns[i].id);
  }
  trn__sql_puts(p, rel->column_count ? " WHERE FALSE" : "0 AS z WHERE FALSE");
  return status;
}

static trn_status values_print(sql_printer *p, const trn_rel *rel) {
  uint32_t width = rel->column_count, rows = rel->u.values.row_count;
  if (!rows) return no_rows(p, rel);
  if (rows == 1) {
    trn__sql_puts(p, "SELECT ");
    return trn__sql_named(p, rel->exprs, rel->columns, width);
  }
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < rows; i++) { /* names are those of the relation: trn__sql_relation */
    trn__sql_puts(p, i ? ", (" : "VALUES (");
    status = width ? trn__sql_exprs(p, rel->exprs + (size_t)i * width, width) : TRN_OK;
    trn__sql_puts(p, width ? ")" : "0)");
    if (p->out->size > TRN_SQL_BYTES_MAX)
      status = trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is too large for SQL text");
  }
  return status;
}

static trn_status range_print(sql_printer *p, const trn_rel *rel) {
  int64_t start = rel->u.range.start, end = rel->u.range.end, step = rel->u.range.step;
  if (!step || !rel->column_count) return trn_error_set(p->error, TRN_INTERNAL, NULL, "a range without a step");
  if (step > 0 ? start >= end : start <= end) {
    return no_rows(p, rel);
  }
  int64_t last = step > 0 ? end - 1 : end + 1, beyond; /* no overflow: there are numbers before the end */
  if (__builtin_add_overflow(last, step, &beyond)) return trn__sql_refuse(p, "a range that ends at the end of 64 bits");
  if (p->dialect->series) {
    trn__sql_printf(p, "SELECT v AS c%u FROM ", rel->columns[0].id);
    trn_status status = p->dialect->series(p, start, last, step);
    trn__sql_puts(p, " AS g(v)");
    return status;
  }
  trn__sql_printf(p, "SELECT v AS c%u FROM (WITH RECURSIVE g(v) AS (SELECT (%" PRId64 ") UNION ALL SELECT v + (%" PRId64
                     ") FROM g WHERE v + (%" PRId64 ") %s %" PRId64 ") SELECT v FROM g) AS q",
                  rel->columns[0].id, start, step, step, step > 0 ? "<" : ">", end);
  return TRN_OK;
}

/* ---- aggregation ---- */

static bool any_split(sql_printer *p, const trn_rel *rel) {
  for (uint32_t i = rel->u.aggregate.group_count; i < rel->expr_count; i++)
    if (rel->exprs[i]->kind == TRN_EXPR_AGGREGATE && p->dialect->is_split(rel->exprs[i])) return true;
  return false;
}

/* Around the aggregation: what is made of the parts. */
static trn_status split_open(sql_printer *p, const trn_rel *rel) {
  trn_status status = TRN_OK;
  trn__sql_puts(p, "SELECT ");
  for (uint32_t i = 0; !status && i < rel->expr_count; i++) {
    uint32_t id = rel->columns[i].id;
    if (i) trn__sql_puts(p, ", ");
    if (i < rel->u.aggregate.group_count || !p->dialect->is_split(rel->exprs[i])) {
      trn__sql_printf(p, "c%u", id);
      continue;
    }
    status = p->dialect->joined(p, rel->exprs[i], id);
    trn__sql_printf(p, " AS c%u", id);
  }
  trn__sql_puts(p, " FROM (");
  return status;
}

static trn_status aggregates_print(sql_printer *p, const trn_rel *rel) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < rel->expr_count; i++) {
    const trn_expr *e = rel->exprs[i];
    uint32_t id = rel->columns[i].id;
    if (i) trn__sql_puts(p, ", ");
    if (i >= rel->u.aggregate.group_count && p->dialect->is_split(e)) {
      status = trn__sql_aggregate(p, e, 1);
      trn__sql_printf(p, " AS s%u, ", id);
      if (!status) status = trn__sql_aggregate(p, e, 2);
      trn__sql_printf(p, " AS n%u", id);
    } else {
      status = trn__sql_expr(p, e);
      trn__sql_printf(p, " AS c%u", id);
    }
  }
  if (!rel->expr_count) trn__sql_puts(p, "0 AS z");
  return status;
}

/* Constant keys group nothing, and a number would be a place; but without any key there is always a row. */
static trn_status keys_print(sql_printer *p, const trn_rel *rel) {
  trn_status status = TRN_OK;
  bool is_first = true;
  for (uint32_t i = 0; !status && i < rel->u.aggregate.group_count; i++) {
    if (rel->exprs[i]->kind == TRN_EXPR_LITERAL) continue;
    trn__sql_puts(p, is_first ? " GROUP BY " : ", ");
    is_first = false;
    status = trn__sql_expr(p, rel->exprs[i]);
  }
  bool is_constant = is_first && rel->u.aggregate.group_count;
  if (is_constant) trn__sql_puts(p, p->traits ? " HAVING count(*) > 0" : " GROUP BY NULL");
  return status;
}

static trn_status aggregate_print(sql_printer *p, const trn_rel *rel) {
  if (rel->u.aggregate.set_count) return trn__sql_refuse(p, "GROUPING SETS");
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  bool is_split = any_split(p, rel);
  if (!status && is_split) status = split_open(p, rel);
  trn__sql_puts(p, "SELECT ");
  if (!status) status = aggregates_print(p, rel);
  trn__sql_puts(p, " FROM ");
  name(p, rel->inputs[0]);
  if (!status) status = keys_print(p, rel);
  if (is_split) trn__sql_puts(p, ") AS q");
  return status;
}

/* ---- others ---- */

static trn_status window_print(sql_printer *p, const trn_rel *rel) {
  uint32_t own = rel->column_count - rel->expr_count;
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  if (status) return status;
  trn__sql_puts(p, "SELECT ");
  trn__sql_columns(p, rel->columns, own);
  trn__sql_puts(p, ", ");
  status = trn__sql_named(p, rel->exprs, rel->columns + own, rel->expr_count);
  trn__sql_puts(p, " FROM ");
  name(p, rel->inputs[0]);
  return status;
}

/* The columns of an input under the names of the relation. */
static void renamed(sql_printer *p, const trn_rel *rel, const trn_rel *input) {
  for (uint32_t i = 0; i < rel->column_count; i++)
    trn__sql_printf(p, "%sc%u AS c%u", i ? ", " : "", input->columns[i].id, rel->columns[i].id);
  if (!rel->column_count) trn__sql_puts(p, "0 AS z");
}

static trn_status union_print(sql_printer *p, const trn_rel *rel) {
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < rel->input_count; i++) status = trn__sql_relation(p, rel->inputs[i]);
  if (!rel->input_count) return no_rows(p, rel);
  for (uint32_t i = 0; i < rel->input_count; i++) {
    trn__sql_puts(p, i ? " UNION ALL SELECT " : "SELECT ");
    renamed(p, rel, rel->inputs[i]);
    trn__sql_puts(p, " FROM ");
    name(p, rel->inputs[i]);
  }
  return status;
}

/* With ALL, equal rows are told apart by their number among their equals. */
static trn_status set_print(sql_printer *p, const trn_rel *rel) {
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  if (!status) status = trn__sql_relation(p, rel->inputs[1]);
  if (!rel->column_count) return trn__sql_refuse(p, "INTERSECT or EXCEPT of no columns");
  if (rel->u.set.all) {
    trn__sql_puts(p, "SELECT ");
    trn__sql_columns(p, rel->columns, rel->column_count);
    trn__sql_puts(p, " FROM (");
  }
  for (uint32_t i = 0; i < 2; i++) {
    if (i) trn__sql_puts(p, rel->u.set.except ? " EXCEPT " : " INTERSECT ");
    trn__sql_puts(p, "SELECT ");
    renamed(p, rel, rel->inputs[i]);
    if (rel->u.set.all) {
      trn__sql_puts(p, ", row_number() OVER (PARTITION BY ");
      trn__sql_columns(p, rel->inputs[i]->columns, rel->column_count);
      trn__sql_puts(p, ") AS n");
    }
    trn__sql_puts(p, " FROM ");
    name(p, rel->inputs[i]);
  }
  if (rel->u.set.all) trn__sql_puts(p, ") AS q");
  return status;
}

static trn_status distinct_print(sql_printer *p, const trn_rel *rel) {
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  trn__sql_puts(p, "SELECT DISTINCT ");
  trn__sql_columns(p, rel->columns, rel->column_count);
  trn__sql_puts(p, " FROM ");
  name(p, rel->inputs[0]);
  return status;
}

/* A common table expression that is computed before what reads it. */
static trn_status barrier_print(sql_printer *p, const trn_rel *rel) {
  if (!trn__rel_is_barrier(rel)) return trn__sql_refuse(p, "a sample");
  trn_status status = trn__sql_relation(p, rel->inputs[0]);
  trn__sql_puts(p, "SELECT ");
  trn__sql_columns(p, rel->columns, rel->column_count);
  trn__sql_puts(p, " FROM ");
  if (!status) name(p, rel->inputs[0]);
  return status;
}

static trn_status refuse_kind(sql_printer *p, const trn_rel *rel) {
  static const char *const names[TRN_REL_COUNT_] = {[TRN_REL_LOCAL] = "rows that came with the query",
                                                    [TRN_REL_UNNEST] = "a generator (explode, unnest)",
                                                    [TRN_REL_WRITE] = "a write"};
  if (rel->kind == TRN_REL_EXTENSION)
    return trn__sql_refuse(p, "the operator %s", rel->u.extension.name ? rel->u.extension.name : "");
  if (rel->kind == TRN_REL_OPAQUE)
    return trn__sql_refuse(p, "the operator \"%.100s\"", rel->u.opaque.label ? rel->u.opaque.label : "");
  return trn__sql_refuse(p, "%s", rel->kind < TRN_REL_COUNT_ && names[rel->kind] ? names[rel->kind] : "this relation");
}

static trn_status body(sql_printer *p, const trn_rel *rel) {
  if (!trn__rel_fits(rel)) return trn__rel_misfit(p->error);
  switch (rel->kind) {
  case TRN_REL_SCAN: return scan_print(p, rel);
  case TRN_REL_VALUES: return values_print(p, rel);
  case TRN_REL_RANGE: return range_print(p, rel);
  case TRN_REL_PROJECT:
  case TRN_REL_FILTER:
  case TRN_REL_SORT:
  case TRN_REL_LIMIT:
  case TRN_REL_REPARTITION: return select_print(p, rel);
  case TRN_REL_JOIN: return is_plain_join(rel) ? select_print(p, rel) : trn__sql_existence(p, rel);
  case TRN_REL_AGGREGATE: return aggregate_print(p, rel);
  case TRN_REL_UNION: return union_print(p, rel);
  case TRN_REL_DISTINCT: return distinct_print(p, rel);
  case TRN_REL_SET: return set_print(p, rel);
  case TRN_REL_WINDOW: return window_print(p, rel);
  case TRN_REL_SAMPLE: return barrier_print(p, rel);
  default: return refuse_kind(p, rel);
  }
}

/* ---- common table expressions ---- */

void trn__sql_cte_name(sql_printer *p, const trn_rel *rel) {
  name(p, rel);
}

void trn__sql_cte_add(sql_printer *p, const char *head, uint32_t number, const char *columns, const trn_strbuf *text,
                      const char *hint) {
  trn__strbuf_printf(&p->ctes, "%s%s%u%s AS %s(", p->ctes.size ? ", " : "", head, number, columns, hint);
  trn__strbuf_add(&p->ctes, text->data ? text->data : "", text->size);
  trn__strbuf_puts(&p->ctes, ")");
  p->ctes.failed |= text->failed;
}

/* A row of VALUES has no names for its columns: the relation's head has them. */
static void head_columns(const trn_rel *rel, trn_strbuf *out) {
  if (rel->kind != TRN_REL_VALUES || rel->u.values.row_count < 2) return;
  trn__strbuf_puts(out, "(");
  for (uint32_t i = 0; i < rel->column_count; i++) trn__strbuf_printf(out, "%sc%u", i ? ", " : "", rel->columns[i].id);
  trn__strbuf_puts(out, rel->column_count ? ")" : "z)");
}

trn_status trn__sql_relation(sql_printer *p, const trn_rel *rel) {
  uint64_t number;
  if (trn__ptrmap_get(&p->numbers, rel, NULL, &number)) return TRN_OK;
  if (++p->depth > TRN_SQL_PRINT_DEPTH_MAX)
    return trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested too deeply for SQL text");
  trn_strbuf text = {0}, columns = {0}, *outer = p->out;
  unsigned depth = p->depth;
  p->out = &text;
  trn_status status = body(p, rel);
  p->out = outer;
  p->depth = depth - 1;
  head_columns(rel, &columns);
  if (!status && p->ctes.size + text.size > TRN_SQL_BYTES_MAX)
    status = trn_error_set(p->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is too large for SQL text");
  if (!status) trn__sql_cte_add(p, "r", ++p->count, columns.data ? columns.data : "", &text,
                               trn__rel_is_barrier(rel) ? "MATERIALIZED " : "");
  if (!status && (columns.failed || !trn__ptrmap_set(&p->numbers, rel, NULL, p->count))) status = trn__no_memory(p->error);
  trn__strbuf_finish(&text);
  trn__strbuf_finish(&columns);
  return status;
}

static trn_status count_uses(sql_printer *p, const trn_rel *root) {
  trn_stack stack = {0};
  trn_status status = trn__stack_push(&stack, (trn_node){root, true}, NULL, 0);
  while (!status && stack.count) {
    trn_frame *top = &stack.frames[stack.count - 1];
    const trn_rel *rel = top->node.at;
    if (top->next >= rel->input_count) {
      stack.count--;
      continue;
    }
    const trn_rel *input = rel->inputs[top->next++];
    uint64_t uses = 0;
    trn__ptrmap_get(&p->uses, input, NULL, &uses);
    if (!trn__ptrmap_set(&p->uses, input, NULL, uses + 1))
      status = TRN_RESOURCE_EXHAUSTED;
    else if (uses == 0)
      status = trn__stack_push(&stack, (trn_node){input, true}, NULL, 0);
  }
  trn__stack_finish(&stack);
  return status ? trn_error_set(p->error, status, NULL, "the plan is nested too deeply, or memory is out") : TRN_OK;
}

static trn_status print_root(sql_printer *p, const trn_rel *root) {
  trn_status status = count_uses(p, root);
  for (uint32_t i = 0; !status && i < root->column_count; i++) status = p->dialect->check_type(p, root->columns[i].type);
  if (status) return status;
  bool has_names = root->kind != TRN_REL_VALUES || root->u.values.row_count < 2;
  if (has_names) {
    status = body(p, root);
  } else {
    status = trn__sql_relation(p, root);
    trn__sql_puts(p, "SELECT ");
    trn__sql_columns(p, root->columns, root->column_count);
    trn__sql_puts(p, " FROM ");
    name(p, root);
  }
  return status;
}

static trn_status print_plan(sql_printer *p, const trn_plan *plan, char **out) {
  trn_strbuf text = {0}, whole = {0};
  p->out = &text;
  if (plan->kind != TRN_PLAN_LOGICAL) return trn__sql_refuse(p, "a physical plan");
  trn_arena *arena = trn__arena_create(0);
  uint32_t next = plan->next_column;
  const trn_rel *root = plan->root;
  trn_status status = arena ? trn__decorrelate(arena, plan->root, &next, &root, p->error) : trn__no_memory(p->error);
  if (!status) status = trn__sql_lower_filters(arena, root, &root, p->error);
  if (!status) status = print_root(p, root);
  if (!status) {
    if (p->ctes.size) trn__strbuf_puts(&whole, "WITH ");
    if (p->ctes.size) trn__strbuf_add(&whole, p->ctes.data, p->ctes.size);
    if (p->ctes.size) trn__strbuf_puts(&whole, " ");
    if (text.size) trn__strbuf_add(&whole, text.data, text.size);
    if (text.failed || p->ctes.failed || whole.failed) status = trn__no_memory(p->error);
  }
  if (!status)
    *out = whole.data;
  else
    trn__strbuf_finish(&whole);
  trn__strbuf_finish(&text);
  trn__strbuf_finish(&p->ctes);
  trn__ptrmap_finish(&p->uses);
  trn__ptrmap_finish(&p->numbers);
  trn__arena_unref(arena);
  return status;
}

trn_status trn_plan_print_sql(const trn_plan *plan, const trn_sql_dialect *given, char **out, trn_error **error) {
  trn_sql_dialect traits = {0};
  memcpy(&traits, given, given->struct_size < sizeof traits ? given->struct_size : sizeof traits);
  if (!traits.title) traits.title = "the database";
  if (!traits.name_quote) traits.name_quote = '"';
  if (!traits.decimal_digits || traits.decimal_digits > DECIMAL_DIGITS_MAX)
    traits.decimal_digits = DECIMAL_DIGITS_MAX;
  sql_dialect dialect = trn__sql_standard;
  dialect.title = traits.title;
  dialect.correlates = !traits.lacks_correlation;
  dialect.lacks_filter = traits.lacks_filter;
  if (!traits.series) dialect.series = NULL;
  sql_printer p = {.error = error, .dialect = &dialect, .traits = &traits};
  *out = NULL;
  return print_plan(&p, plan, out);
}

trn_status trn_plan_to_sql(const trn_plan *plan, const char *dialect, char **out, trn_error **error) {
  sql_printer p = {.error = error, .dialect = &trn__sql_sqlite};
  *out = NULL;
  const trn_sql_dialect *traits = dialect ? trn_sql_dialect_find(dialect) : NULL;
  if (traits) return trn_plan_print_sql(plan, traits, out, error);
  if (!dialect || strcmp(dialect, trn__sql_sqlite.name) != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "unknown SQL dialect \"%s\"; known: sqlite, postgresql, duckdb",
                         dialect ? dialect : "");
  return print_plan(&p, plan, out);
}
