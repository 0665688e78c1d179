/* WITH RECURSIVE: the steps run one after another while the plan is made, each over the rows of the one before; what
 * they gave becomes the CTE's rows. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

static const trn_position NOWHERE = {-1, -1};

/* Whether a message names the table anywhere. The wire check and the parser bound the depth. */
static bool names_table(spark_translator *t, const ProtobufCMessage *message, const char *name) {
  const ProtobufCMessageDescriptor *descriptor = message->descriptor;
  if (descriptor == &spark__connect__read__named_table__descriptor)
    return spark__name_equal(t, ((const Spark__Connect__Read__NamedTable *)message)->unparsed_identifier, name);
  bool found = false;
  for (unsigned i = 0; i < descriptor->n_fields && !found; i++) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
    const char *at = (const char *)message + field->offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) continue;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t count = *(const size_t *)((const char *)message + field->quantifier_offset);
      ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)at;
      for (size_t j = 0; j < count && !found; j++) found = names_table(t, items[j], name);
    } else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
               *(const uint32_t *)((const char *)message + field->quantifier_offset) == field->id) {
      const ProtobufCMessage *child = *(const ProtobufCMessage *const *)at;
      found = child && names_table(t, child, name);
    }
  }
  return found;
}

bool spark__is_recursive(spark_translator *t, const Spark__Connect__TrnCte *cte) {
  return cte->relation && names_table(t, &cte->relation->base, cte->name);
}

typedef struct recursion {
  spark_translator *t;
  const Spark__Connect__TrnCte *cte;
  spark_shared *shared;
  const Spark__Connect__Relation *start, *step;
  trn_field *fields;
  spark_rows all;
  size_t capacity; /* rows that all.cells has room for */
} recursion;

static trn_status incompatible(recursion *r, const trn_type *first, const trn_type *second, trn_error **error) {
  const char *left = spark__quoted_type(r->t, first), *right = spark__quoted_type(r->t, second);
  if (!left || !right) return trn__no_memory(error);
  return spark__error(r->t, error, TRN_INVALID_ARGUMENT, "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE", NOWHERE, "left", left,
                      "right", right, NULL);
}

static trn_status fields_of(recursion *r, const spark_relation *start, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(r->t, start->scope, &values, &count, error);
  r->all.width = count;
  r->fields = TRN_NEW_N(r->t->arena, trn_field, count);
  if (status != TRN_OK) return status;
  if (!r->fields) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++)
    r->fields[i] = (trn_field){.name = values[i].name, .type = values[i].expr->type, .nullable = true};
  return TRN_OK;
}

static trn_status check_step(recursion *r, const spark_relation *step, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  trn_status status = spark__scope_values(r->t, step->scope, &values, &count, error);
  if (status != TRN_OK) return status;
  if (count != r->all.width) {
    char first[24], second[24];
    snprintf(first, sizeof first, "%zu", r->all.width);
    snprintf(second, sizeof second, "%zu", count);
    return spark__error(r->t, error, TRN_INVALID_ARGUMENT, "NUM_COLUMNS_MISMATCH", NOWHERE, "operator", "UNION",
                        "firstNumColumns", first, "invalidOrdinalNum", "second", "invalidNumColumns", second, NULL);
  }
  for (size_t i = 0; i < count; i++)
    if (!trn__type_same_shape(values[i].expr->type, r->fields[i].type) && values[i].expr->type->id != TRN_TYPE_NULL)
      return incompatible(r, r->fields[i].type, values[i].expr->type, error);
  return TRN_OK;
}

static trn_status add_rows(recursion *r, const spark_rows *rows, trn_error **error) {
  spark_rows *all = &r->all;
  if (rows->row_count > TRN_RECURSION_ROWS_MAX - all->row_count) {
    char most[24];
    snprintf(most, sizeof most, "%u", TRN_RECURSION_ROWS_MAX);
    return spark__error(r->t, error, TRN_INVALID_ARGUMENT, "RECURSION_ROW_LIMIT_EXCEEDED", NOWHERE, "rowLimit", most,
                        NULL);
  }
  if (rows->row_count > r->capacity - all->row_count) {
    size_t grown = 2 * (all->row_count + rows->row_count);
    const trn_expr **cells = TRN_NEW_N(r->t->arena, const trn_expr *, grown * all->width);
    if (!cells) return trn__no_memory(error);
    if (all->row_count) memcpy(cells, all->cells, all->row_count * all->width * sizeof *cells);
    all->cells = cells;
    r->capacity = grown;
  }
  size_t at = all->row_count * all->width;
  for (size_t i = 0; i < rows->row_count * rows->width; i++) {
    const trn_expr *cell = rows->cells[i];
    if (cell->type->id == TRN_TYPE_NULL) cell = trn__expr_null(r->t->arena, r->fields[i % all->width].type);
    if (!cell) return trn__no_memory(error);
    all->cells[at + i] = cell;
  }
  all->row_count += rows->row_count;
  return TRN_OK;
}

/* One step: the CTE is what the rows are. */
static trn_status run_step(recursion *r, const spark_rows *before, spark_rows *after, trn_error **error) {
  spark_relation step;
  trn_status status = spark__rows_relation(r->t, before, r->fields, &r->shared->relation, error);
  r->shared->used = false;
  if (status == TRN_OK) status = spark__relation(r->t, r->step, &step, error);
  if (status == TRN_OK) status = check_step(r, &step, error);
  return status == TRN_OK ? spark__run_now(r->t, &step, TRN_RECURSION_ROWS_MAX + 1, after, error) : status;
}

static trn_status run_steps(recursion *r, int64_t enough, trn_error **error) {
  int32_t most = r->cte->max_recursion_level > 0 ? r->cte->max_recursion_level : TRN_RECURSION_LEVELS_MAX;
  spark_rows last = r->all, next;
  trn_status status = TRN_OK;
  for (int32_t level = 1; status == TRN_OK && last.row_count && (enough < 0 || r->all.row_count < (uint64_t)enough);
       level++) {
    if (level > most) {
      char text[24];
      snprintf(text, sizeof text, "%d", (int)most);
      return spark__error(r->t, error, TRN_INVALID_ARGUMENT, "RECURSION_LEVEL_LIMIT_EXCEEDED", NOWHERE, "levelLimit",
                          text, NULL);
    }
    status = run_step(r, &last, &next, error);
    if (status == TRN_OK) status = add_rows(r, &next, error);
    if (status != TRN_OK) break;
    /* the rows as they are in `all`, with their types */
    last = (spark_rows){.width = r->all.width, .row_count = next.row_count};
    last.cells = r->all.cells + (r->all.row_count - next.row_count) * r->all.width;
  }
  return status;
}

trn_status spark__recursive_cte(spark_translator *t, const Spark__Connect__TrnCte *cte, int64_t enough,
                                spark_shared *shared, trn_error **error) {
  const Spark__Connect__Relation *relation = cte->relation;
  bool is_union = relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_SET_OP &&
                  relation->set_op->set_op_type == SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_UNION &&
                  relation->set_op->left_input && relation->set_op->right_input;
  if (!is_union || names_table(t, &relation->set_op->left_input->base, cte->name))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_RECURSIVE_CTE", NOWHERE, NULL);
  if (!relation->set_op->is_all)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE", NOWHERE, NULL);
  recursion r = {.t = t,
                 .cte = cte,
                 .shared = shared,
                 .start = relation->set_op->left_input,
                 .step = relation->set_op->right_input};
  spark_relation start;
  spark_rows rows = {0};
  trn_status status = spark__relation(t, r.start, &start, error);
  if (status == TRN_OK && cte->n_columns)
    status = spark__rename_columns(t, &start, cte->columns, cte->n_columns, error);
  if (status == TRN_OK) status = fields_of(&r, &start, error);
  if (status == TRN_OK) status = spark__run_now(t, &start, TRN_RECURSION_ROWS_MAX + 1, &rows, error);
  if (status == TRN_OK) status = add_rows(&r, &rows, error);
  if (status == TRN_OK) status = run_steps(&r, enough, error);
  if (status == TRN_OK) status = spark__rows_relation(t, &r.all, r.fields, &shared->relation, error);
  shared->used = false;
  return status;
}
