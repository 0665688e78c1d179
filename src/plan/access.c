/* What the public header reads of a plan. */
#include "plan/plan.h"

/* ---- plans ---- */

trn_plan_kind trn_plan_get_kind(const trn_plan *plan) {
  return (trn_plan_kind)plan->kind;
}
const trn_rel *trn_plan_root(const trn_plan *plan) {
  return plan->root;
}
const char *trn_plan_text(const trn_plan *plan) {
  return plan->sql;
}
size_t trn_plan_column_count(const trn_plan *plan) {
  return plan->field_count;
}
const char *trn_plan_column_name(const trn_plan *plan, size_t index) {
  return index < plan->field_count ? plan->fields[index].name : NULL;
}
const trn_type *trn_plan_column_type(const trn_plan *plan, size_t index) {
  return index < plan->field_count ? plan->fields[index].type : NULL;
}

/* ---- types ---- */

trn_type_id trn_type_get_id(const trn_type *type) {
  return (trn_type_id)type->id;
}
int trn_type_precision(const trn_type *type) {
  return type->precision;
}
int trn_type_scale(const trn_type *type) {
  return type->scale;
}
size_t trn_type_field_count(const trn_type *type) {
  return type->field_count;
}
const char *trn_type_field_name(const trn_type *type, size_t index) {
  return index < type->field_count ? type->fields[index].name : NULL;
}
const trn_type *trn_type_field_type(const trn_type *type, size_t index) {
  return index < type->field_count ? type->fields[index].type : NULL;
}
bool trn_type_field_nullable(const trn_type *type, size_t index) {
  return index < type->field_count && type->fields[index].nullable;
}
bool trn_type_is_equal(const trn_type *a, const trn_type *b) {
  return trn__type_equal(a, b);
}

static trn_status take_text(trn_strbuf *text, char **out) {
  *out = text->failed ? NULL : text->data;
  if (*out) return TRN_OK;
  trn__strbuf_finish(text);
  return TRN_RESOURCE_EXHAUSTED;
}

trn_status trn_type_print(const trn_type *type, char **out) {
  trn_strbuf text = {0};
  trn__type_print(&text, type);
  return take_text(&text, out);
}

/* ---- expressions ---- */

trn_expr_kind trn_expr_get_kind(const trn_expr *expr) {
  return (trn_expr_kind)expr->kind;
}
const trn_type *trn_expr_get_type(const trn_expr *expr) {
  return expr->type;
}
bool trn_expr_is_nullable(const trn_expr *expr) {
  return expr->nullable;
}
size_t trn_expr_arg_count(const trn_expr *expr) {
  return expr->arg_count;
}
const trn_expr *trn_expr_arg(const trn_expr *expr, size_t index) {
  return index < expr->arg_count ? expr->args[index] : NULL;
}

uint32_t trn_expr_column_id(const trn_expr *expr) {
  bool is_column =
      expr->kind == TRN_EXPR_COLUMN || expr->kind == TRN_EXPR_OUTER || expr->kind == TRN_EXPR_LAMBDA_VARIABLE;
  return is_column ? expr->u.column : UINT32_MAX;
}

size_t trn_expr_lambda_param_count(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_LAMBDA ? expr->u.lambda.param_count : 0;
}
uint32_t trn_expr_lambda_param(const trn_expr *expr, size_t index) {
  return index < trn_expr_lambda_param_count(expr) ? expr->u.lambda.params[index] : UINT32_MAX;
}

static const trn_expr *function_of(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_WINDOW && expr->arg_count ? expr->args[0] : expr;
}

const char *trn_expr_function(const trn_expr *expr) {
  expr = function_of(expr);
  if (expr->kind == TRN_EXPR_CALL) return expr->u.call.name;
  return expr->kind == TRN_EXPR_AGGREGATE ? expr->u.aggregate.name : NULL;
}

trn_function_home trn_expr_function_home(const trn_expr *expr) {
  expr = function_of(expr);
  if (expr->kind == TRN_EXPR_CALL) return (trn_function_home)expr->u.call.home;
  return expr->kind == TRN_EXPR_AGGREGATE ? (trn_function_home)expr->u.aggregate.home : TRN_HOME_NATIVE;
}

int trn_expr_volatility(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_CALL ? expr->u.call.volatility : 0;
}

static const trn_literal *literal_of(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_LITERAL && !expr->u.literal.is_null ? &expr->u.literal : NULL;
}

bool trn_expr_literal_is_null(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_LITERAL && expr->u.literal.is_null;
}
bool trn_expr_literal_bool(const trn_expr *expr) {
  const trn_literal *literal = literal_of(expr);
  return literal && expr->type->id == TRN_TYPE_BOOL && literal->value.boolean;
}

int64_t trn_expr_literal_int(const trn_expr *expr) {
  const trn_literal *literal = literal_of(expr);
  trn_type_id id = (trn_type_id)expr->type->id;
  bool is_other = id <= TRN_TYPE_BOOL || id == TRN_TYPE_FLOAT32 || id == TRN_TYPE_FLOAT64 || id == TRN_TYPE_DECIMAL ||
                  id == TRN_TYPE_STRING || id == TRN_TYPE_BINARY || id >= TRN_TYPE_INTERVAL_CALENDAR;
  return literal && !is_other ? literal->value.integer : 0;
}

double trn_expr_literal_double(const trn_expr *expr) {
  const trn_literal *literal = literal_of(expr);
  bool is_double = expr->type->id == TRN_TYPE_FLOAT32 || expr->type->id == TRN_TYPE_FLOAT64;
  return literal && is_double ? literal->value.number : 0;
}

trn_str trn_expr_literal_bytes(const trn_expr *expr) {
  const trn_literal *literal = literal_of(expr);
  bool is_bytes = expr->type->id == TRN_TYPE_STRING || expr->type->id == TRN_TYPE_BINARY;
  if (!literal || !is_bytes) return (trn_str){0};
  return (trn_str){literal->value.bytes.data, literal->value.bytes.size};
}

const trn_rel *trn_expr_subquery(const trn_expr *expr) {
  return expr->kind == TRN_EXPR_SUBQUERY ? expr->u.subquery.rel : NULL;
}
trn_position trn_expr_position(const trn_expr *expr) {
  return expr->position;
}

trn_status trn_expr_print(const trn_expr *expr, char **out) {
  trn_strbuf text = {0};
  trn__expr_print(&text, expr);
  return take_text(&text, out);
}

/* ---- relations ---- */

trn_rel_kind trn_rel_get_kind(const trn_rel *rel) {
  return (trn_rel_kind)rel->kind;
}

const char *trn_rel_kind_name(trn_rel_kind kind) {
  static const char *const names[TRN_REL_COUNT_] = {
      "Scan", "Local",    "Values", "Range",  "Project", "Filter", "Join",        "Aggregate", "Sort",   "Limit",
      "Union", "Distinct", "Set",    "Window", "Unnest",  "Sample", "Repartition", "Extension", "Opaque", "Write"};
  return (unsigned)kind < TRN_REL_COUNT_ ? names[kind] : "Unknown";
}

size_t trn_rel_input_count(const trn_rel *rel) {
  return rel->input_count;
}
const trn_rel *trn_rel_input(const trn_rel *rel, size_t index) {
  return index < rel->input_count ? rel->inputs[index] : NULL;
}
size_t trn_rel_expr_count(const trn_rel *rel) {
  return rel->expr_count;
}
const trn_expr *trn_rel_expr(const trn_rel *rel, size_t index) {
  return index < rel->expr_count ? rel->exprs[index] : NULL;
}
size_t trn_rel_column_count(const trn_rel *rel) {
  return rel->column_count;
}
uint32_t trn_rel_column_id(const trn_rel *rel, size_t index) {
  return index < rel->column_count ? rel->columns[index].id : UINT32_MAX;
}
const trn_type *trn_rel_column_type(const trn_rel *rel, size_t index) {
  return index < rel->column_count ? rel->columns[index].type : NULL;
}
bool trn_rel_column_nullable(const trn_rel *rel, size_t index) {
  return index < rel->column_count && rel->columns[index].nullable;
}

const trn_scan_label *trn_rel_label(const trn_rel *rel) {
  if (rel->kind == TRN_REL_SCAN) return rel->u.scan.info;
  return rel->kind == TRN_REL_WRITE ? rel->u.write.info : NULL;
}
trn_source *trn_rel_scan_source(const trn_rel *rel) {
  return rel->kind == TRN_REL_SCAN ? rel->u.scan.source : NULL;
}
uint32_t trn_rel_scan_index(const trn_rel *rel, size_t column) {
  if (rel->kind != TRN_REL_SCAN || column >= rel->column_count) return UINT32_MAX;
  return rel->u.scan.indexes ? rel->u.scan.indexes[column] : (uint32_t)column;
}
const char *trn_rel_scan_column_name(const trn_rel *rel, size_t column) {
  uint32_t index = trn_rel_scan_index(rel, column);
  if (index == UINT32_MAX || !rel->u.scan.info) return NULL;
  const trn_scan_info *info = trn_scan_label_info(rel->u.scan.info);
  return index < info->column_count ? info->columns[index].name : NULL;
}

trn_join_type trn_rel_join_type(const trn_rel *rel) {
  return rel->kind == TRN_REL_JOIN ? (trn_join_type)rel->u.join.type : TRN_JOIN_INNER;
}
size_t trn_rel_group_count(const trn_rel *rel) {
  return rel->kind == TRN_REL_AGGREGATE ? rel->u.aggregate.group_count : 0;
}
int64_t trn_rel_limit_skip(const trn_rel *rel) {
  return rel->kind == TRN_REL_LIMIT ? rel->u.limit.skip : 0;
}
int64_t trn_rel_limit_fetch(const trn_rel *rel) {
  if (rel->kind == TRN_REL_LIMIT) return rel->u.limit.fetch;
  return rel->kind == TRN_REL_SORT ? rel->u.sort.fetch : -1;
}
const char *trn_rel_write_format(const trn_rel *rel) {
  return rel->kind == TRN_REL_WRITE ? rel->u.write.format : NULL;
}
const char *trn_rel_write_directory(const trn_rel *rel) {
  return rel->kind == TRN_REL_WRITE ? rel->u.write.directory : NULL;
}
const char *trn_rel_extension_name(const trn_rel *rel) {
  return rel->kind == TRN_REL_EXTENSION ? rel->u.extension.name : NULL;
}
