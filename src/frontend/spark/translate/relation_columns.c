/* Relations that rename, add, replace, drop and order columns. */
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

static const trn_position NOWHERE = {-1, -1};

static trn_status to_df(spark_translator *t, const Spark__Connect__ToDF *node, spark_relation *out, trn_error **error) {
  trn_status status = spark__relation(t, node->input, out, error);
  if (status != TRN_OK) return status;
  return spark__rename_columns(t, out, node->column_names, node->n_column_names, error);
}

/* ---- withColumnsRenamed; older clients send a map ---- */
/* Which values have a name now: chains of places, by the name's hash. */
typedef struct name_places {
  uint32_t *heads, *next; /* place + 1; 0: the end */
  uint32_t mask;
} name_places;

static bool places_init(spark_translator *t, name_places *places, const spark_value *values, size_t count) {
  uint32_t size = 16;
  while (size < count * 2) size *= 2;
  places->heads = TRN_NEW_N(t->arena, uint32_t, size);
  places->next = TRN_NEW_N(t->arena, uint32_t, count);
  places->mask = size - 1;
  if (!places->heads || !places->next) return false;
  for (uint32_t i = (uint32_t)count; i-- > 0;) {
    uint32_t *head = &places->heads[spark__name_hash(values[i].name) & places->mask];
    places->next[i] = *head;
    *head = i + 1;
  }
  return true;
}

static void rename_all(spark_translator *t, name_places *places, spark_value *values, const char *from, char *to) {
  uint32_t *link = &places->heads[spark__name_hash(from) & places->mask], moved = 0;
  while (*link) {
    uint32_t at = *link - 1;
    if (!spark__name_equal(t, values[at].name, from)) {
      link = &places->next[at];
      continue;
    }
    *link = places->next[at];
    places->next[at] = moved;
    moved = at + 1;
  }
  uint32_t *head = &places->heads[spark__name_hash(to) & places->mask];
  while (moved) {
    uint32_t at = moved - 1;
    moved = places->next[at];
    values[at].name = to;
    values[at].is_alias = true;
    values[at].is_attribute = false;
    places->next[at] = *head;
    *head = at + 1;
  }
}

TRN_DEPRECATED_USE_BEGIN
static trn_status renamed(spark_translator *t, const Spark__Connect__WithColumnsRenamed *node, spark_relation *out,
                          trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = spark__scope_values(t, out->scope, &values, &count, error);
  if (status != TRN_OK) return status;
  name_places places;
  if (count > UINT32_MAX / 4 || !places_init(t, &places, values, count)) return trn__no_memory(error);
  size_t renames = node->n_renames ? node->n_renames : node->n_rename_columns_map;
  for (size_t r = 0; r < renames; r++) {
    const char *from = node->n_renames ? node->renames[r]->col_name : node->rename_columns_map[r]->key;
    char *to = node->n_renames ? node->renames[r]->new_col_name : node->rename_columns_map[r]->value;
    rename_all(t, &places, values, from, to);
  }
  return spark__project(t, out, values, count, NULL, out, error);
}
TRN_DEPRECATED_USE_END

/* ---- drop ---- */
static void drop_name(spark_translator *t, const spark_scope *scope, const spark_value *values, size_t count,
                      const char *name, bool *dropped) {
  for (size_t i = 0; scope->hidden_count && i < count; i++) dropped[i] |= spark__name_equal(t, values[i].name, name);
  if (scope->hidden_count) return; /* else the values are the scope's columns, and have their places */
  for (uint32_t i = spark__scope_find(t, scope, name); i != UINT32_MAX; i = spark__scope_next(t, scope, name, i))
    dropped[i] = true;
}

static trn_status drop(spark_translator *t, const Spark__Connect__Drop *node, spark_relation *out, trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0, kept = 0;
  spark_context context;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = spark__scope_values(t, out->scope, &values, &count, error);
  if (status != TRN_OK) return status;
  bool *dropped = TRN_NEW_N(t->arena, bool, count);
  if (!dropped) return trn__no_memory(error);
  for (size_t n = 0; n < node->n_column_names; n++) drop_name(t, out->scope, values, count, node->column_names[n], dropped);
  spark__context_begin(t, &context, out->scope);
  for (size_t n = 0; n < node->n_columns && status == TRN_OK; n++) {
    spark_value value;
    trn_error *why = NULL;
    trn_status found =
        spark__expression(t, node->columns[n], &value, &why); /* a column that is not there is no error */
    bool ambiguous =
        found != TRN_OK && trn_error_condition(why) && strcmp(trn_error_condition(why), "AMBIGUOUS_REFERENCE") == 0;
    if (found == TRN_RESOURCE_EXHAUSTED || ambiguous) {
      status = found;
      if (error) *error = trn_error_ref(why);
    }
    trn_error_unref(why);
    for (size_t i = 0; found == TRN_OK && i < count; i++)
      dropped[i] |= value.expr->kind == TRN_EXPR_COLUMN && values[i].expr->u.column == value.expr->u.column;
  }
  spark__context_end(t, &context);
  if (status != TRN_OK) return status;
  for (size_t i = 0; i < count; i++)
    if (!dropped[i]) values[kept++] = values[i];
  return spark__project(t, out, values, kept, NULL, out, error);
}

/* ---- dropDuplicates ---- */
static trn_status first_of(spark_translator *t, spark_value *value, trn_error **error) {
  const spark_value column = *value;
  trn_status status = spark__call_by_name(t, "first", &column, 1, NOWHERE, value, error);
  value->name = column.name;
  value->metadata = column.metadata;
  value->is_alias = true;
  return status;
}

/* One row for each combination of the columns; of the others, what the first row has. */
static trn_status first_rows(spark_translator *t, const Spark__Connect__Deduplicate *node, spark_relation *out,
                             trn_error **error) {
  spark_value *values = NULL;
  size_t count = 0, key_count = 0;
  spark_aggregation aggregation = {.scope = out->scope, .has_group_by = true};
  trn_status status = spark__scope_values(t, out->scope, &values, &count, error);
  spark_value *keys = TRN_NEW_N(t->arena, spark_value, count);
  bool *is_key = TRN_NEW_N(t->arena, bool, count);
  if (status != TRN_OK) return status;
  if (!keys || !is_key) return trn__no_memory(error);
  for (size_t n = 0; n < node->n_column_names; n++) {
    bool found = false;
    for (size_t i = 0; i < count; i++) {
      if (!spark__name_equal(t, values[i].name, node->column_names[n])) continue;
      found = true;
      if (!is_key[i]) keys[key_count++] = values[i];
      is_key[i] = true;
    }
    if (found) continue;
    trn_strbuf list = {0};
    for (size_t i = 0; i < count && i < 1000; i++) trn__strbuf_printf(&list, "%s%s", i ? ", " : "", values[i].name);
    const char *names = list.size ? spark__finish_text(t, &list) : "";
    if (!names) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVED_COLUMN_AMONG_FIELD_NAMES", NOWHERE, "colName",
                        node->column_names[n], "fieldNames", names, NULL);
  }
  status = spark__aggregation_keys(t, &aggregation, keys, key_count, error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    if (!is_key[i]) status = first_of(t, &values[i], error);
    if (status == TRN_OK) status = spark__aggregation_lift(t, &aggregation, values[i].expr, &values[i].expr, error);
  }
  spark_relation below = {.scope = out->scope};
  if (status == TRN_OK) status = spark__aggregation_relation(t, &aggregation, out->rel, &below.rel, error);
  if (status == TRN_OK) status = spark__project(t, &below, values, count, NULL, out, error);
  if (status == TRN_OK) out->scope->below = NULL;
  return status;
}

static trn_status deduplicate(spark_translator *t, const Spark__Connect__Deduplicate *node, spark_relation *out,
                              trn_error **error) {
  bool all = node->_all_columns_as_keys_case && node->all_columns_as_keys;
  if (all && node->n_column_names)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.DEDUPLICATE_ALL_COLUMNS_AND_SUBSET",
                        NOWHERE, NULL);
  if (!all && !node->n_column_names)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "CONNECT_INVALID_PLAN.DEDUPLICATE_REQUIRES_COLUMNS_OR_ALL",
                        NOWHERE, NULL);
  trn_status status = spark__relation(t, node->input, out, error);
  if (status != TRN_OK) return status;
  return all ? spark__distinct(t, out, error) : first_rows(t, node, out, error);
}

/* ---- df.to(schema) ---- */
static trn_status to_schema(spark_translator *t, const Spark__Connect__ToSchema *node, spark_relation *out,
                            trn_error **error) {
  const trn_type *type = NULL;
  trn_status status = spark__relation(t, node->input, out, error);
  if (status == TRN_OK) status = spark__type_from_proto(t->arena, node->schema, &type, error);
  if (status != TRN_OK) return status;
  if (type->id != TRN_TYPE_STRUCT)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The schema is not a struct.");
  spark_value *values = TRN_NEW_N(t->arena, spark_value, type->field_count);
  if (!values) return trn__no_memory(error);
  for (uint32_t i = 0; i < type->field_count && status == TRN_OK; i++) {
    const trn_field *field = &type->fields[i];
    char *parts[1] = {(char *)field->name};
    spark_resolved resolved;
    bool found = false;
    status = spark__scope_resolve(t, out->scope, parts, 1, NOWHERE, &resolved, &found, error);
    if (status != TRN_OK) break;
    values[i] = (spark_value){.name = field->name, .metadata = field->metadata, .is_alias = true};
    if (!found && !field->nullable) return spark__unresolved_column(t, out->scope, parts, 1, NOWHERE, error);
    if (!found)
      values[i].expr = trn__expr_null(t->arena, field->type);
    else
      status = spark__cast(t, resolved.column->expr, field->type, SPARK_CAST_ANSI, NOWHERE, &values[i].expr, error);
    if (status == TRN_OK && !values[i].expr) return trn__no_memory(error);
    if (found && !values[i].metadata) values[i].metadata = resolved.column->metadata;
  }
  return status == TRN_OK ? spark__project(t, out, values, type->field_count, NULL, out, error) : status;
}

trn_status spark__relation_columns(spark_translator *t, const Spark__Connect__Relation *r, spark_relation *out,
                                   trn_error **error) {
  switch ((int)r->rel_type_case) {
  case SPARK__CONNECT__RELATION__REL_TYPE_TO_DF: return to_df(t, r->to_df, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_WITH_COLUMNS: return spark__with_columns(t, r->with_columns, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_WITH_COLUMNS_RENAMED: return renamed(t, r->with_columns_renamed, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_DROP: return drop(t, r->drop, out, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_DEDUPLICATE: return deduplicate(t, r->deduplicate, out, error);
  default: return to_schema(t, r->to_schema, out, error);
  }
}
