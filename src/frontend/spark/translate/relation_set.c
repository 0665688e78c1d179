/* UNION, INTERSECT, EXCEPT; inline tables. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

static const trn_position NOWHERE = {-1, -1};

static const char *ordinal(size_t n) {
  static const char *const names[] = {"zeroth", "first",   "second", "third", "fourth", "fifth",
                                      "sixth",  "seventh", "eighth", "ninth", "tenth",  "11th",
                                      "12th",   "13th",    "14th",   "15th",  "16th"};
  return n < sizeof names / sizeof *names ? names[n] : "last";
}

typedef struct set_side {
  const trn_expr **exprs; /* by position */
  size_t count;
  const trn_rel *rel;
} set_side;

/* Columns cast to `types`: a projection only where a type changes or the order does. */
static trn_status project_side(spark_translator *t, set_side *side, const trn_type *const *types, size_t count,
                               trn_error **error) {
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  bool same = side->rel->column_count == count;
  trn_status status = TRN_OK;
  if (!columns) return trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    const trn_expr *before = side->exprs[i];
    status = spark__cast(t, before, types[i], SPARK_CAST_IMPLICIT, NOWHERE, &side->exprs[i], error);
    if (status != TRN_OK) break;
    const trn_expr *expr = side->exprs[i];
    bool kept = same && expr->kind == TRN_EXPR_COLUMN && expr->u.column == side->rel->columns[i].id;
    same = kept;
    columns[i] = (trn_column){.id = t->next_column++, .type = expr->type, .nullable = expr->nullable};
  }
  if (status != TRN_OK || same) return status;
  side->rel = trn__rel_project(t->arena, side->rel, side->exprs, columns, count);
  return side->rel ? TRN_OK : trn__no_memory(error);
}

static trn_status incompatible(spark_translator *t, const char *operator, size_t column, const trn_type *first,
                               const trn_type *second, trn_error **error) {
  const char *left = spark__quoted_type(t, second), *right = spark__quoted_type(t, first);
  if (!left || !right) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INCOMPATIBLE_COLUMN_TYPE", NOWHERE, "operator", operator,
                      "columnOrdinalNumber", ordinal(column + 1), "tableOrdinalNumber", "second", "dataType1", left,
                      "dataType2", right, "hint", "", NULL);
}

static trn_status common_types(spark_translator *t, const char *operator, const set_side * left, const set_side *right,
                               size_t count, const trn_type ***out, trn_error **error) {
  const trn_type **types = TRN_NEW_N(t->arena, const trn_type *, count);
  if (!types) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const trn_type *pair[2] = {left->exprs[i]->type, right->exprs[i]->type};
    if (trn__type_equal(pair[0], pair[1])) {
      types[i] = pair[0];
      continue;
    }
    trn_status status = spark__common_type(t, pair, 2, &types[i]);
    if (status != TRN_OK) return trn__no_memory(error);
    if (!types[i]) return incompatible(t, operator, i, pair[0], pair[1], error);
  }
  *out = types;
  return TRN_OK;
}

/* The visible columns; what is not visible goes with the projection. */
static trn_status side_of(spark_translator *t, const spark_relation *relation, set_side *out, trn_error **error) {
  const spark_scope *scope = relation->scope;
  out->rel = relation->rel;
  out->count = 0;
  out->exprs = TRN_NEW_N(t->arena, const trn_expr *, scope->count);
  if (!out->exprs) return trn__no_memory(error);
  for (uint32_t i = 0; i < scope->count; i++)
    if (!scope->columns[i].hidden) out->exprs[out->count++] = scope->columns[i].expr;
  return TRN_OK;
}

static trn_status count_mismatch(spark_translator *t, const char *operator, size_t left, size_t right,
                                 trn_error **error) {
  char first[24], second[24];
  snprintf(first, sizeof first, "%zu", left);
  snprintf(second, sizeof second, "%zu", right);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "NUM_COLUMNS_MISMATCH", NOWHERE, "operator", operator,
                      "firstNumColumns", first, "invalidOrdinalNum", "second", "invalidNumColumns", second, NULL);
}

static const char *operator_name(const Spark__Connect__SetOperation *node) {
  bool all = node->_is_all_case && node->is_all;
  switch ((int)node->set_op_type) {
  case SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_INTERSECT: return all ? "INTERSECT ALL" : "INTERSECT";
  case SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_EXCEPT: return all ? "EXCEPT ALL" : "EXCEPT";
  default: return "UNION";
  }
}

/* The operation over two aligned sides; names are the left one's. */
static trn_status combine(spark_translator *t, const Spark__Connect__SetOperation *node, set_side *left,
                          set_side *right, const spark_column *names, size_t count, spark_relation *out,
                          trn_error **error) {
  const char *operator= operator_name(node);
  const trn_type **types = NULL;
  trn_status status = common_types(t, operator, left, right, count, &types, error);
  if (status == TRN_OK) status = project_side(t, left, types, count, error);
  if (status == TRN_OK) status = project_side(t, right, types, count, error);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count);
  spark_column *shown = TRN_NEW_N(t->arena, spark_column, count);
  if (status != TRN_OK) return status;
  if (!columns || !shown) return trn__no_memory(error);
  bool is_union = operator[0] == 'U', except = operator[0] == 'E';
  for (size_t i = 0; i < count; i++) {
    bool l = left->exprs[i]->nullable, r = right->exprs[i]->nullable;
    columns[i] = (trn_column){.id = t->next_column++,
                              .type = types[i],
                              .nullable = is_union ? l || r
                                          : except ? l
                                                   : l && r};
    shown[i] = names[i];
    shown[i].hidden = false;
    shown[i].qualifier = NULL;
    shown[i].expr = trn__expr_column(t->arena, &columns[i]);
    if (!shown[i].expr) return trn__no_memory(error);
  }
  const trn_rel *inputs[2] = {left->rel, right->rel};
  trn_rel *rel = trn__rel_create(t->arena, is_union ? TRN_REL_UNION : TRN_REL_SET, inputs, 2, NULL, 0, columns, count);
  if (!rel) return trn__no_memory(error);
  if (!is_union) {
    rel->u.set.except = except;
    rel->u.set.all = node->_is_all_case && node->is_all;
  }
  out->rel = rel;
  out->scope = spark__scope_create(t, shown, count);
  if (!out->scope) return trn__no_memory(error);
  return is_union && !(node->_is_all_case && node->is_all) ? spark__distinct(t, out, error) : TRN_OK;
}

static trn_status visible_columns(spark_translator *t, const spark_scope *scope, const spark_column **out,
                                  size_t *count, trn_error **error) {
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, scope->count);
  if (!columns) return trn__no_memory(error);
  *count = 0;
  for (uint32_t i = 0; i < scope->count; i++)
    if (!scope->columns[i].hidden) columns[(*count)++] = scope->columns[i];
  *out = columns;
  return TRN_OK;
}

static trn_status missing_by_name(spark_translator *t, const char *name, const spark_column *columns, size_t count,
                                  trn_error **error) {
  trn_strbuf list = {0};
  for (size_t i = 0; i < count && i < 1000; i++) trn__strbuf_printf(&list, "%s%s", i ? ", " : "", columns[i].name);
  const char *names = list.size ? spark__finish_text(t, &list) : "";
  if (!names) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN_AMONG_FIELD_NAMES", NOWHERE, "colName", name,
                      "fieldNames", names, NULL);
}

/* ---- structs by name ---- */
static const trn_field *field_named(const spark_translator *t, const trn_type *type, const char *name) {
  for (uint32_t i = 0; i < type->field_count; i++)
    if (spark__name_equal(t, type->fields[i].name, name)) return &type->fields[i];
  return NULL;
}

/* The fields of both: left's in their order, then those that only right has. Other types: left's. Gives `left` itself
 * when the two have the same shape, or when a field is missing and may not be. */
static trn_status merged_type(spark_translator *t, const trn_type *left, const trn_type *right, bool allow,
                              const trn_type **out, trn_error **error) {
  *out = left;
  if (left->id != TRN_TYPE_STRUCT || right->id != TRN_TYPE_STRUCT) return TRN_OK;
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, (size_t)left->field_count + right->field_count);
  size_t count = 0;
  if (!fields) return trn__no_memory(error);
  for (uint32_t i = 0; i < left->field_count; i++) {
    const trn_field *other = field_named(t, right, left->fields[i].name);
    if (!other && !allow) return TRN_OK;
    fields[count] = left->fields[i];
    fields[count].nullable |= !other || other->nullable;
    trn_status status =
        other ? merged_type(t, left->fields[i].type, other->type, allow, &fields[count].type, error) : TRN_OK;
    if (status != TRN_OK) return status;
    count++;
  }
  for (uint32_t i = 0; i < right->field_count; i++) {
    if (field_named(t, left, right->fields[i].name)) continue;
    if (!allow) return TRN_OK;
    fields[count] = right->fields[i];
    fields[count++].nullable = true;
  }
  *out = trn__type_struct(t->arena, fields, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* The struct with the fields of `type`, by name; null stays null. */
static trn_status by_field(spark_translator *t, const trn_expr *expr, const trn_type *type, const trn_expr **out,
                           trn_error **error) {
  *out = expr;
  if (type->id != TRN_TYPE_STRUCT || expr->type->id != TRN_TYPE_STRUCT || trn__type_equal(type, expr->type))
    return TRN_OK;
  spark_value *args = TRN_NEW_N(t->arena, spark_value, 2 * (size_t)type->field_count), made, flag = {.expr = expr};
  if (!args) return trn__no_memory(error);
  trn_status status = TRN_OK;
  for (uint32_t i = 0; i < type->field_count && status == TRN_OK; i++) {
    const trn_field *field = &type->fields[i], *from = field_named(t, expr->type, field->name);
    spark_value *value = &args[2 * i + 1];
    char *part = (char *)(from ? from->name : "");
    value->name = field->name;
    args[2 * i] = (spark_value){.expr = trn__expr_string(t->arena, field->name, strlen(field->name)),
                                .name = field->name,
                                .is_foldable = true,
                                .is_literal = true};
    if (!from)
      value->expr = trn__expr_null(t->arena, field->type);
    else
      status = spark__nested_fields(t, expr, &part, 1, NOWHERE, &value->expr, &value->name, error);
    if (status == TRN_OK && (!value->expr || !args[2 * i].expr)) return trn__no_memory(error);
    if (status == TRN_OK && from) status = by_field(t, value->expr, field->type, &value->expr, error);
  }
  if (status == TRN_OK)
    status = spark__call_by_name(t, "named_struct", args, 2 * (size_t)type->field_count, NOWHERE, &made, error);
  if (status == TRN_OK && expr->nullable) {
    spark_value pair[2] = {{.name = ""}, made};
    flag.name = "";
    status = spark__call_by_name(t, "isnotnull", &flag, 1, NOWHERE, &pair[0], error);
    if (status == TRN_OK) status = spark__call_by_name(t, "when", pair, 2, NOWHERE, &made, error);
  }
  *out = made.expr;
  return status;
}

static trn_status align_structs(spark_translator *t, const trn_expr **left, const trn_expr **right, bool allow,
                                trn_error **error) {
  const trn_type *type = NULL;
  if ((*left)->type->id != TRN_TYPE_STRUCT || trn__type_equal((*left)->type, (*right)->type)) return TRN_OK;
  trn_status status = merged_type(t, (*left)->type, (*right)->type, allow, &type, error);
  if (status == TRN_OK) status = by_field(t, *left, type, left, error);
  if (status == TRN_OK && (type != (*left)->type || allow || type->field_count == (*right)->type->field_count))
    status = by_field(t, *right, type, right, error);
  return status;
}

/* unionByName: right's columns in left's order; with allow_missing, nulls for what a side has not. */
static trn_status by_name(spark_translator *t, const Spark__Connect__SetOperation *node, const spark_relation *l,
                          const spark_relation *r, spark_relation *out, trn_error **error) {
  bool allow = node->_allow_missing_columns_case && node->allow_missing_columns;
  set_side left, right;
  const spark_column *l_columns = NULL, *r_columns = NULL;
  size_t l_count = 0, r_count = 0, count = 0;
  trn_status status = side_of(t, l, &left, error);
  if (status == TRN_OK) status = side_of(t, r, &right, error);
  if (status == TRN_OK) status = visible_columns(t, l->scope, &l_columns, &l_count, error);
  if (status == TRN_OK) status = visible_columns(t, r->scope, &r_columns, &r_count, error);
  if (status != TRN_OK) return status;
  spark_scope *r_scope = spark__scope_create(t, r_columns, r_count);
  const trn_expr **l_exprs = TRN_NEW_N(t->arena, const trn_expr *, l_count + r_count);
  const trn_expr **r_exprs = TRN_NEW_N(t->arena, const trn_expr *, l_count + r_count);
  spark_column *names = TRN_NEW_N(t->arena, spark_column, l_count + r_count);
  bool *used = TRN_NEW_N(t->arena, bool, r_count);
  if (!r_scope || !l_exprs || !r_exprs || !names || !used) return trn__no_memory(error);
  for (; count < l_count; count++) {
    uint32_t at = spark__scope_find(t, r_scope, l_columns[count].name);
    if (at == UINT32_MAX && !allow) return missing_by_name(t, l_columns[count].name, r_columns, r_count, error);
    names[count] = l_columns[count];
    l_exprs[count] = left.exprs[count];
    r_exprs[count] = at == UINT32_MAX ? trn__expr_null(t->arena, l_columns[count].expr->type) : right.exprs[at];
    if (!r_exprs[count]) return trn__no_memory(error);
    if (at != UINT32_MAX) status = align_structs(t, &l_exprs[count], &r_exprs[count], allow, error);
    if (status != TRN_OK) return status;
    if (at != UINT32_MAX) used[at] = true;
  }
  for (size_t i = 0; i < r_count; i++) {
    if (used[i]) continue;
    if (!allow && l_count == r_count) return missing_by_name(t, r_columns[i].name, l_columns, l_count, error);
    if (!allow) return count_mismatch(t, "UNION", l_count, r_count, error);
    names[count] = r_columns[i];
    l_exprs[count] = trn__expr_null(t->arena, r_columns[i].expr->type);
    r_exprs[count] = right.exprs[i];
    if (!l_exprs[count++]) return trn__no_memory(error);
  }
  left.exprs = l_exprs;
  right.exprs = r_exprs;
  return combine(t, node, &left, &right, names, count, out, error);
}

trn_status spark__relation_set(spark_translator *t, const Spark__Connect__SetOperation *node, spark_relation *out,
                               trn_error **error) {
  spark_relation l, r;
  set_side left, right;
  const spark_column *names = NULL;
  size_t count = 0;
  if (node->set_op_type == SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_UNSPECIFIED)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_ENUM", NOWHERE, "fullName",
                        "spark.connect.SetOperation.SetOpType", "name", "SET_OP_TYPE_UNSPECIFIED", "number", "0", NULL);
  if (!node->left_input || !node->right_input)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.SET_OPERATION_MUST_HAVE_TWO_INPUTS",
                        NOWHERE, NULL);
  trn_status status = spark__relation(t, node->left_input, &l, error);
  if (status == TRN_OK) status = spark__relation(t, node->right_input, &r, error);
  if (status != TRN_OK) return status;
  if (node->_by_name_case && node->by_name) return by_name(t, node, &l, &r, out, error);
  status = side_of(t, &l, &left, error);
  if (status == TRN_OK) status = side_of(t, &r, &right, error);
  if (status == TRN_OK) status = visible_columns(t, l.scope, &names, &count, error);
  if (status != TRN_OK) return status;
  bool keeps_all = node->set_op_type == SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_UNION;
  if (!keeps_all) status = spark__refuse_maps(t, l.scope, error);
  if (status != TRN_OK) return status;
  if (left.count != right.count) return count_mismatch(t, operator_name(node), left.count, right.count, error);
  return combine(t, node, &left, &right, names, count, out, error);
}

/* ---- VALUES ---- */
static trn_status row_width(spark_translator *t, size_t expected, size_t actual, size_t row, trn_error **error) {
  char texts[3][24];
  snprintf(texts[0], sizeof texts[0], "%zu", expected);
  snprintf(texts[1], sizeof texts[1], "%zu", actual);
  snprintf(texts[2], sizeof texts[2], "%zu", row);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH", NOWHERE,
                      "expectedNumCols", texts[0], "actualNumCols", texts[1], "rowIndex", texts[2], NULL);
}

static trn_status values_type(spark_translator *t, const spark_value *values, size_t rows, size_t width, size_t column,
                              const char *name, const trn_type **out, trn_error **error) {
  const trn_type **types = TRN_NEW_N(t->arena, const trn_type *, rows);
  if (!types) return trn__no_memory(error);
  for (size_t i = 0; i < rows; i++) types[i] = values[i * width + column].expr->type;
  trn_status status = spark__common_type(t, types, rows, out);
  if (status != TRN_OK) return trn__no_memory(error);
  if (*out) return TRN_OK;
  const char *quoted = spark__quote(t, name);
  if (!quoted) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INLINE_TABLE.INCOMPATIBLE_TYPES_IN_INLINE_TABLE",
                      NOWHERE, "colName", quoted, NULL);
}

static trn_status values_row(spark_translator *t, const Spark__Connect__TrnExpressionList *row, spark_value *out,
                             trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < row->n_expressions && status == TRN_OK; i++) {
    status = spark__expression(t, row->expressions[i], &out[i], error);
    if (status != TRN_OK) break;
    if (spark__expr_contains(out[i].expr, TRN_EXPR_COLUMN) || spark__expr_contains(out[i].expr, TRN_EXPR_OUTER) ||
        out[i].has_aggregate || out[i].is_generator) {
      const char *text = spark__sql_text(t, out[i].name);
      if (!text) return trn__no_memory(error);
      return spark__error(t, error, TRN_INVALID_ARGUMENT,
                          "INVALID_INLINE_TABLE.CANNOT_EVALUATE_EXPRESSION_IN_INLINE_TABLE",
                          spark__position(t, row->expressions[i]), "expr", text, NULL);
    }
  }
  return status;
}

trn_status spark__relation_values(spark_translator *t, const Spark__Connect__TrnValues *node, spark_relation *out,
                                  trn_error **error) {
  size_t rows = node->n_rows, width = rows ? node->rows[0]->n_expressions : 0;
  if (width && rows > SIZE_MAX / width / sizeof(spark_value)) return trn__no_memory(error);
  spark_value *values = TRN_NEW_N(t->arena, spark_value, rows * width);
  const trn_expr **exprs = TRN_NEW_N(t->arena, const trn_expr *, rows *width);
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, width);
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, width);
  spark_context context;
  trn_status status = TRN_OK;
  if (!values || !exprs || !columns || !fields) return trn__no_memory(error);
  spark__context_begin(t, &context, NULL);
  for (size_t i = 0; i < rows && status == TRN_OK; i++) {
    if (node->rows[i]->n_expressions != width)
      status = row_width(t, width, node->rows[i]->n_expressions, i, error);
    else
      status = values_row(t, node->rows[i], values + i * width, error);
  }
  spark__context_end(t, &context);
  for (size_t i = 0; i < rows * width && status == TRN_OK; i++)
    if (spark__expr_contains(values[i].expr, TRN_EXPR_SUBQUERY))
      status = spark__error(t, error, TRN_INVALID_ARGUMENT,
                            "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.SCALAR_SUBQUERY_IN_VALUES", values[i].expr->position, NULL);
  for (size_t c = 0; c < width && status == TRN_OK; c++) {
    char *name = trn__arena_printf(t->arena, "col%zu", c + 1);
    if (!name) return trn__no_memory(error);
    fields[c] = (trn_field){.name = name};
    status = values_type(t, values, rows, width, c, name, &fields[c].type, error);
    for (size_t i = 0; i < rows && status == TRN_OK; i++) {
      const trn_expr **cell = &exprs[i * width + c];
      status = spark__cast(t, values[i * width + c].expr, fields[c].type, SPARK_CAST_IMPLICIT, NOWHERE, cell, error);
      if (status == TRN_OK) fields[c].nullable |= (*cell)->nullable;
    }
    columns[c] = (trn_column){.id = t->next_column++, .type = fields[c].type, .nullable = fields[c].nullable};
  }
  if (status != TRN_OK) return status;
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, exprs, rows * width, columns, width);
  if (!rel) return trn__no_memory(error);
  rel->u.values.row_count = (uint32_t)rows;
  return spark__scope_of(t, rel, fields, NULL, out, error);
}
