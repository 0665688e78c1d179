/* df.observe: metrics of the rows that pass a relation. They are computed by a query of their own over the same rows,
 * while the plan is made, and only for plans that run. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

static const trn_position NOWHERE = {-1, -1};

typedef Spark__Connect__Expression__Literal literal;
#define KIND(name) SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_##name

static char *decimal_text(trn_arena *arena, const trn_expr *expr) {
  trn_strbuf text = {0};
  spark__decimal_text(&text, spark__decimal_value(&expr->u.literal), expr->type->scale);
  char *copy = text.failed ? NULL : trn__arena_strdup(arena, text.data ? text.data : "");
  trn__strbuf_finish(&text);
  return copy;
}

static literal *to_proto(trn_arena *arena, const trn_expr *expr, unsigned depth);

static bool nested_to_proto(trn_arena *arena, const trn_expr *expr, unsigned depth, literal *out) {
  const trn_literal *value = &expr->u.literal;
  size_t count = value->value.nested.count;
  literal **items = TRN_NEW_N(arena, literal *, count);
  if (!items) return false;
  for (size_t i = 0; i < count; i++)
    if (!(items[i] = to_proto(arena, value->value.nested.items[i], depth + 1))) return false;
  if (expr->type->id == TRN_TYPE_STRUCT) {
    out->literal_type_case = KIND(STRUCT);
    out->struct_ = TRN_NEW(arena, Spark__Connect__Expression__Literal__Struct);
    if (!out->struct_) return false;
    spark__connect__expression__literal__struct__init(out->struct_);
    out->struct_->n_elements = count;
    out->struct_->elements = items;
    out->struct_->struct_type = spark__type_to_proto(arena, expr->type);
    return out->struct_->struct_type != NULL;
  }
  if (expr->type->id == TRN_TYPE_ARRAY) {
    out->literal_type_case = KIND(ARRAY);
    out->array = TRN_NEW(arena, Spark__Connect__Expression__Literal__Array);
    if (!out->array) return false;
    spark__connect__expression__literal__array__init(out->array);
    out->array->n_elements = count;
    out->array->elements = items;
    out->array->element_type = spark__type_to_proto(arena, expr->type->fields[0].type);
    return out->array->element_type != NULL;
  }
  out->literal_type_case = KIND(MAP);
  out->map = TRN_NEW(arena, Spark__Connect__Expression__Literal__Map);
  literal **keys = TRN_NEW_N(arena, literal *, count), **values = TRN_NEW_N(arena, literal *, count);
  if (!out->map || !keys || !values) return false;
  spark__connect__expression__literal__map__init(out->map);
  for (size_t i = 0; i < count / 2; i++) {
    keys[i] = items[2 * i];
    values[i] = items[2 * i + 1];
  }
  out->map->n_keys = out->map->n_values = count / 2;
  out->map->keys = keys;
  out->map->values = values;
  out->map->key_type = spark__type_to_proto(arena, expr->type->fields[0].type);
  out->map->value_type = spark__type_to_proto(arena, expr->type->fields[1].type);
  return out->map->key_type && out->map->value_type;
}

static bool fill(trn_arena *arena, const trn_expr *expr, unsigned depth, literal *out) {
  const trn_literal *value = &expr->u.literal;
  int64_t number = value->value.integer;
  if (value->is_null || expr->type->id == TRN_TYPE_NULL) {
    out->literal_type_case = KIND(NULL);
    out->null = spark__type_to_proto(arena, expr->type);
    return out->null != NULL;
  }
  switch ((trn_type_id)expr->type->id) {
  case TRN_TYPE_BOOL:
    out->literal_type_case = KIND(BOOLEAN);
    out->boolean = value->value.boolean;
    return true;
  case TRN_TYPE_INT8:
    out->literal_type_case = KIND(BYTE);
    out->byte = (int32_t)number;
    return true;
  case TRN_TYPE_INT16:
    out->literal_type_case = KIND(SHORT);
    out->short_ = (int32_t)number;
    return true;
  case TRN_TYPE_INT32:
    out->literal_type_case = KIND(INTEGER);
    out->integer = (int32_t)number;
    return true;
  case TRN_TYPE_INT64:
    out->literal_type_case = KIND(LONG);
    out->long_ = number;
    return true;
  case TRN_TYPE_FLOAT32:
    out->literal_type_case = KIND(FLOAT);
    out->float_ = (float)value->value.number;
    return true;
  case TRN_TYPE_FLOAT64:
    out->literal_type_case = KIND(DOUBLE);
    out->double_ = value->value.number;
    return true;
  case TRN_TYPE_DATE:
    out->literal_type_case = KIND(DATE);
    out->date = (int32_t)number;
    return true;
  case TRN_TYPE_TIMESTAMP:
    out->literal_type_case = KIND(TIMESTAMP);
    out->timestamp = number;
    return true;
  case TRN_TYPE_TIMESTAMP_NTZ:
    out->literal_type_case = KIND(TIMESTAMP_NTZ);
    out->timestamp_ntz = number;
    return true;
  case TRN_TYPE_INTERVAL_YEAR_MONTH:
    out->literal_type_case = KIND(YEAR_MONTH_INTERVAL);
    out->year_month_interval = (int32_t)number;
    return true;
  case TRN_TYPE_INTERVAL_DAY_TIME:
    out->literal_type_case = KIND(DAY_TIME_INTERVAL);
    out->day_time_interval = number;
    return true;
  case TRN_TYPE_STRING:
    out->literal_type_case = KIND(STRING);
    out->string = trn__arena_str(arena, value->value.bytes.data, value->value.bytes.size);
    return out->string != NULL;
  case TRN_TYPE_BINARY:
    out->literal_type_case = KIND(BINARY);
    out->binary = (ProtobufCBinaryData){value->value.bytes.size, (uint8_t *)value->value.bytes.data};
    return true;
  case TRN_TYPE_DECIMAL:
    out->literal_type_case = KIND(DECIMAL);
    out->decimal = TRN_NEW(arena, Spark__Connect__Expression__Literal__Decimal);
    if (!out->decimal) return false;
    spark__connect__expression__literal__decimal__init(out->decimal);
    out->decimal->value = decimal_text(arena, expr);
    out->decimal->_precision_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___PRECISION_PRECISION;
    out->decimal->precision = expr->type->precision;
    out->decimal->_scale_case = SPARK__CONNECT__EXPRESSION__LITERAL__DECIMAL___SCALE_SCALE;
    out->decimal->scale = expr->type->scale;
    return out->decimal->value != NULL;
  case TRN_TYPE_STRUCT:
  case TRN_TYPE_MAP:
  case TRN_TYPE_ARRAY: return depth < TRN_TYPE_DEPTH_MAX && nested_to_proto(arena, expr, depth, out);
  default: /* times and calendar intervals: their texts are not kept, a null of the type is */
    out->literal_type_case = KIND(NULL);
    out->null = spark__type_to_proto(arena, expr->type);
    return out->null != NULL;
  }
}

static literal *to_proto(trn_arena *arena, const trn_expr *expr, unsigned depth) {
  literal *out = TRN_NEW(arena, literal);
  if (!out) return NULL;
  spark__connect__expression__literal__init(out);
  return fill(arena, expr, depth, out) ? out : NULL;
}

/* ---- the relation ---- */
/* A column outside of aggregate functions. The depth is that of a translated expression: bounded. */
static const trn_expr *bare_column(const trn_expr *expr) {
  if (expr->kind == TRN_EXPR_COLUMN) return expr;
  if (expr->kind == TRN_EXPR_AGGREGATE) return NULL;
  const trn_expr *found = NULL;
  for (uint32_t i = 0; i < expr->arg_count && !found; i++) found = bare_column(expr->args[i]);
  return found;
}

static trn_status check_metrics(spark_translator *t, const spark_scope *scope, const spark_value *metrics, size_t count,
                                trn_error **error) {
  for (size_t i = 0; i < count; i++) {
    const trn_expr *column = bare_column(metrics[i].expr);
    if (!column) continue;
    const char *name = spark__sql_text(t, spark__column_name(t, scope, column->u.column));
    if (!name) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_OBSERVED_METRICS.NON_AGGREGATE_FUNC_ARG_IS_ATTRIBUTE",
                        NOWHERE, "expr", name, NULL);
  }
  return TRN_OK;
}

static trn_status keep(spark_translator *t, const Spark__Connect__CollectMetrics *node, int64_t plan_id,
                       const spark_value *metrics, const spark_rows *rows, trn_error **error) {
  size_t count = rows->width;
  spark_observed *item = TRN_NEW(t->arena, spark_observed);
  literal **values = TRN_NEW_N(t->arena, literal *, count);
  char **keys = TRN_NEW_N(t->arena, char *, count);
  if (!item || !values || !keys) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    keys[i] = (char *)(metrics[i].name ? metrics[i].name : "");
    values[i] = to_proto(t->arena, rows->cells[i], 0);
    if (!values[i]) return trn__no_memory(error);
  }
  spark__connect__execute_plan_response__observed_metrics__init(&item->message);
  item->message.name = node->name;
  item->message.plan_id = plan_id;
  item->message.n_keys = item->message.n_values = count;
  item->message.keys = keys;
  item->message.values = values;
  item->next = t->observed;
  t->observed = item;
  t->observed_count++;
  return TRN_OK;
}

trn_status spark__relation_observe(spark_translator *t, const Spark__Connect__Relation *r, spark_relation *out,
                                   trn_error **error) {
  const Spark__Connect__CollectMetrics *node = r->collect_metrics;
  spark_context context;
  spark_value *metrics = NULL;
  size_t count = 0;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, out->scope);
  status = spark__expressions(t, node->metrics, node->n_metrics, &metrics, &count, error);
  spark__context_end(t, &context);
  if (status == TRN_OK) status = check_metrics(t, out->scope, metrics, count, error);
  if (status != TRN_OK || !count || !t->observes) return status;
  spark_relation grouped;
  spark_rows rows = {0};
  status = spark__grouped(t, out, NULL, 0, metrics, count, &grouped, error);
  if (status == TRN_OK) status = spark__run_now(t, &grouped, 1, &rows, error);
  if (status != TRN_OK || !rows.row_count) return status;
  int64_t plan_id = r->common && r->common->_plan_id_case ? r->common->plan_id : 0;
  return keep(t, node, plan_id, metrics, &rows, error);
}
