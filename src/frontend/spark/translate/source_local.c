/* Rows that came with the request. */
#include "core/query.h"
#include "frontend/spark/translate/infer.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/table.h"
#include "frontend/spark/translate/write.h"
#include <glob.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

static const trn_position NOWHERE = {-1, -1};

static bool same_names(const trn_type *a, const trn_type *b) {
  if (a->field_count != b->field_count) return false;
  for (uint32_t i = 0; i < a->field_count; i++) {
    bool named = a->id == TRN_TYPE_STRUCT;
    if (named && strcmp(a->fields[i].name, b->fields[i].name) != 0) return false;
    if (!same_names(a->fields[i].type, b->fields[i].type)) return false;
  }
  return true;
}

/* The client's schema over what Arrow carried: names, nullability and metadata are the schema's; other types are cast.
 */
static trn_status with_schema(spark_translator *t, const trn_type *schema, trn_field *fields, uint32_t count,
                              const trn_type **targets, trn_error **error) {
  if (schema->id != TRN_TYPE_STRUCT || schema->field_count != count)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.INVALID_SCHEMA_NON_STRUCT_TYPE", NOWHERE,
                        "inputSchema", "", "dataType", "", NULL);
  for (uint32_t i = 0; i < count; i++) {
    const trn_field *given = &schema->fields[i];
    bool same = trn__type_same_shape(given->type, fields[i].type) && same_names(given->type, fields[i].type);
    if (same)
      fields[i].type = given->type;
    else
      targets[i] = given->type;
    fields[i].name = given->name;
    fields[i].metadata = given->metadata;
    fields[i].nullable = given->nullable;
  }
  return TRN_OK;
}

static trn_status cast_fields(spark_translator *t, const trn_field *fields, const trn_type *const *targets,
                              spark_relation *out, trn_error **error) {
  bool any = false;
  for (uint32_t i = 0; i < out->scope->count; i++) any |= targets[i] != NULL;
  spark_value *values = NULL;
  size_t count = 0;
  if (!any) return TRN_OK;
  trn_status status = spark__scope_values(t, out->scope, &values, &count, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    if (!targets[i]) continue;
    status = spark__cast(t, values[i].expr, targets[i], SPARK_CAST_ANSI, NOWHERE, &values[i].expr, error);
    values[i].is_attribute = false;
    values[i].is_alias = true;
    values[i].metadata = fields[i].metadata;
  }
  return status == TRN_OK ? spark__project(t, out, values, count, NULL, out, error) : status;
}

static trn_status empty_local(spark_translator *t, const trn_type *schema, spark_relation *out, trn_error **error) {
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, schema->field_count);
  if (!columns) return trn__no_memory(error);
  for (uint32_t i = 0; i < schema->field_count; i++)
    columns[i] =
        (trn_column){.id = t->next_column++, .type = schema->fields[i].type, .nullable = schema->fields[i].nullable};
  trn_rel *rel = trn__rel_create(t->arena, TRN_REL_VALUES, NULL, 0, NULL, 0, columns, schema->field_count);
  if (!rel) return trn__no_memory(error);
  return spark__scope_of(t, rel, schema->fields, NULL, out, error);
}

trn_status spark__relation_local(spark_translator *t, const Spark__Connect__LocalRelation *local, spark_relation *out,
                                 trn_error **error) {
  const trn_type *schema = NULL;
  trn_status status = TRN_OK;
  bool has_data = local->_data_case != 0, has_schema = local->_schema_case && local->schema && *local->schema;
  if (has_schema) status = spark__schema_from_text(t->arena, local->schema, strlen(local->schema), &schema, error);
  if (status != TRN_OK) return status;
  if (!has_data && (!schema || schema->id != TRN_TYPE_STRUCT))
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.SCHEMA_REQUIRED_FOR_LOCAL_RELATION",
                        NOWHERE, NULL);
  if (!has_data) return empty_local(t, schema, out, error);
  trn_source_request request = {
      .struct_size = sizeof request, .format = "ipc", .data = local->data.data, .data_size = local->data.len};
  trn_source *source = NULL;
  const trn_field *arrow = NULL;
  uint32_t count = 0;
  status = spark__open_source(t, &request, NULL, &source, &arrow, &count, error);
  if (status != TRN_OK) return status;
  trn_field *fields = TRN_NEW_N(t->arena, trn_field, count);
  const trn_type **targets = TRN_NEW_N(t->arena, const trn_type *, count);
  if (!fields || !targets) return trn__no_memory(error);
  if (count) memcpy(fields, arrow, count * sizeof *fields);
  if (schema) status = with_schema(t, schema, fields, count, targets, error);
  trn_scan_info info = {.kind = TRN_SCAN_LOCAL, .content = local->data.data, .content_size = local->data.len};
  if (status == TRN_OK) status = spark__scan_source(t, source, fields, NULL, count, "local", &info, NULL, out, error);
  return status == TRN_OK ? cast_fields(t, fields, targets, out, error) : status;
}
