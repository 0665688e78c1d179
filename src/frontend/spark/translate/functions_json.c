/* JSON: texts to values and back. Options are not taken yet, but for those that change nothing. */
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/values.h"

/* What the kernels read and write: no intervals, and only texts (writing: simple values too) as keys. */
static bool is_plain(const trn_type *type, bool writes, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX || spark__is_interval(type) || type->id == TRN_TYPE_INTERVAL_CALENDAR) return false;
  if (!writes && (type->id == TRN_TYPE_BINARY || type->id == TRN_TYPE_TIME || type->id == TRN_TYPE_NULL)) return false;
  if (type->id == TRN_TYPE_MAP) {
    const trn_type *key = type->fields[0].type;
    bool good = spark__is_string(key) || (writes && (trn__type_is_integer(key) || key->id == TRN_TYPE_BOOL));
    if (!good) return false;
  }
  for (uint32_t i = 0; i < type->field_count; i++)
    if (!is_plain(type->fields[i].type, writes, depth + 1)) return false;
  return true;
}

/* Columns, or else one type. */
static trn_status schema_of(spark_builder *b, const trn_literal *text, const trn_type **out) {
  const char *data = text->value.bytes.data;
  size_t size = text->value.bytes.size;
  Spark__Connect__DataType *parsed = NULL;
  trn_error *first = NULL;
  trn_status status = spark__schema_from_text(b->t->arena, data, size, out, &first);
  trn_error_unref(first);
  if (!status) return TRN_OK;
  status = spark__sql_parse_type(b->t->arena, data, size, NULL, &parsed, b->error);
  return status ? status : spark__type_from_proto(b->t->arena, parsed, out, b->error);
}

static trn_status build_from_json(spark_builder *b, const trn_expr **out) {
  const trn_expr *text = b->args[1];
  const trn_type *schema = NULL;
  if (b->count == 3) return spark__not_supported(b, "options");
  if (!spark__is_string(b->args[0]->type) && b->args[0]->type->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, "\"STRING\"", b->args[0]->type);
  if (!spark__is_literal(text) || !spark__is_string(text->type))
    return spark__not_supported(b, "a schema that is not a literal");
  trn_status status = schema_of(b, &text->u.literal, &schema);
  if (!status) status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  if (status) return status;
  if (schema->id != TRN_TYPE_STRUCT && schema->id != TRN_TYPE_ARRAY && schema->id != TRN_TYPE_MAP) {
    const char *shown = spark__quoted_type(b->t, schema);
    if (!shown) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_JSON_SCHEMA", "schema", shown, (char *)NULL);
  }
  if (!is_plain(schema, false, 0)) return spark__not_supported(b, "a type of this schema");
  if (!(schema = spark__all_nullable(b->t, schema, 0))) return trn__no_memory(b->error);
  b->name = schema->id == TRN_TYPE_MAP ? "entries" : "from_json($1)";
  const trn_expr *args[2] = {b->args[0], trn__expr_null(b->t->arena, schema)};
  return spark__gives(b, spark__kernel_with(b, "trn.from_json", schema, args, 2, SPARK_ZONE), out);
}

static trn_status build_to_json(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (b->count == 2) return spark__not_supported(b, "options");
  if (type->id != TRN_TYPE_STRUCT && type->id != TRN_TYPE_ARRAY && type->id != TRN_TYPE_MAP)
    return spark__unexpected_input(b, 0, "(\"STRUCT\" or \"ARRAY\" or \"MAP\" or \"VARIANT\")", type);
  if (!is_plain(type, true, 0)) return spark__not_supported(b, "a type inside of this value");
  b->name = "to_json($1)";
  return spark__gives(b, spark__kernel_with(b, "trn.to_json", trn__type(TRN_TYPE_STRING), b->args, 1, SPARK_ZONE), out);
}

static trn_status build_keys(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type_array(b->t->arena, trn__type(TRN_TYPE_STRING), true);
  return spark__gives(b, spark__kernel(b->t, "trn.json_object_keys", type, b->args, 1), out);
}

static const spark_function rows[] = {
    {"get_json_object", "ss", "s", "trn.get_json_object", NULL, NULL, SPARK_NULLABLE, 0},
    {"json_array_length", "s", "i", "trn.json_array_length", NULL, NULL, SPARK_NULLABLE, 0},
    {"json_object_keys", "s", NULL, NULL, build_keys, NULL, SPARK_NULLABLE, 0},
    {"from_json", "aa|a", NULL, NULL, build_from_json, NULL, SPARK_NULLABLE, 0},
    {"to_json", "a|a", NULL, NULL, build_to_json, NULL, SPARK_NULLABLE, 0},
};
const spark_function_table spark__functions_json = {rows, sizeof rows / sizeof rows[0]};
