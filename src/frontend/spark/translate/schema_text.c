/* Schemas as text: Spark's JSON ({"type":"struct","fields":[...]}) or DDL ("a INT, b STRING"). */
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/values.h"
#include <cjson/cJSON.h>

static trn_status bad(trn_error **error, const char *what) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The schema is not valid: %s", what);
}

static trn_status from_json(trn_arena *arena, const cJSON *json, unsigned depth, const trn_type **out,
                            trn_error **error);

static const char *string_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* Absent means true, as Spark's readers take it. */
static bool flag_of(const cJSON *object, const char *key) {
  return !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(object, key));
}

static trn_status metadata_of(trn_arena *arena, const cJSON *field, const char **out, trn_error **error) {
  const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(field, "metadata");
  *out = NULL;
  if (!cJSON_IsObject(metadata) || !metadata->child) return TRN_OK;
  char *text = cJSON_PrintUnformatted(metadata);
  if (text) *out = trn__arena_strdup(arena, text);
  cJSON_free(text);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status struct_from(trn_arena *arena, const cJSON *json, unsigned depth, const trn_type **out,
                              trn_error **error) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "fields"), *item;
  if (!cJSON_IsArray(list)) return bad(error, "a struct without fields");
  size_t count = (size_t)cJSON_GetArraySize(list), i = 0;
  trn_field *fields = TRN_NEW_N(arena, trn_field, count);
  if (!fields) return trn__no_memory(error);
  cJSON_ArrayForEach(item, list) {
    const char *name = string_of(item, "name");
    if (!name) return bad(error, "a field without a name");
    trn_status status =
        from_json(arena, cJSON_GetObjectItemCaseSensitive(item, "type"), depth + 1, &fields[i].type, error);
    if (!status) status = metadata_of(arena, item, &fields[i].metadata, error);
    if (status) return status;
    fields[i].name = trn__arena_strdup(arena, name);
    fields[i].nullable = flag_of(item, "nullable");
    if (!fields[i++].name) return trn__no_memory(error);
  }
  *out = trn__type_struct(arena, fields, count);
  return *out ? TRN_OK : trn__no_memory(error);
}

static trn_status object_from(trn_arena *arena, const cJSON *json, unsigned depth, const trn_type **out,
                              trn_error **error) {
  const char *kind = string_of(json, "type");
  const trn_type *first = NULL, *second = NULL;
  trn_status status;
  if (!kind) return bad(error, "a type without its name");
  if (!strcmp(kind, "struct")) return struct_from(arena, json, depth, out, error);
  if (!strcmp(kind, "array")) {
    status = from_json(arena, cJSON_GetObjectItemCaseSensitive(json, "elementType"), depth + 1, &first, error);
    if (status) return status;
    *out = trn__type_array(arena, first, flag_of(json, "containsNull"));
    return *out ? TRN_OK : trn__no_memory(error);
  }
  if (!strcmp(kind, "map")) {
    status = from_json(arena, cJSON_GetObjectItemCaseSensitive(json, "keyType"), depth + 1, &first, error);
    if (!status)
      status = from_json(arena, cJSON_GetObjectItemCaseSensitive(json, "valueType"), depth + 1, &second, error);
    if (status) return status;
    *out = trn__type_map(arena, first, second, flag_of(json, "valueContainsNull"));
    return *out ? TRN_OK : trn__no_memory(error);
  }
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "The type %s is not supported yet", kind);
}

static trn_status from_json(trn_arena *arena, const cJSON *json, unsigned depth, const trn_type **out,
                            trn_error **error) {
  if (depth > TRN_TYPE_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A type is nested deeper than TRN_TYPE_DEPTH_MAX (%d)",
                         TRN_TYPE_DEPTH_MAX);
  if (cJSON_IsObject(json)) return object_from(arena, json, depth, out, error);
  if (!cJSON_IsString(json)) return bad(error, "a type that is neither a name nor an object");
  if (!strcmp(json->valuestring, "null") || !strcmp(json->valuestring, "void")) {
    *out = trn__type(TRN_TYPE_NULL);
    return TRN_OK;
  }
  Spark__Connect__DataType *parsed = NULL; /* the names of JSON are names of DDL too */
  trn_status status = spark__sql_parse_type(arena, json->valuestring, strlen(json->valuestring), NULL, &parsed, error);
  return status ? status : spark__type_from_proto(arena, parsed, out, error);
}

trn_status spark__schema_from_text(trn_arena *arena, const char *text, size_t size, const trn_type **out,
                                   trn_error **error) {
  size_t at = 0;
  *out = NULL;
  if (size > TRN_SQL_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A schema is longer than TRN_SQL_BYTES_MAX (%u)",
                         TRN_SQL_BYTES_MAX);
  while (at < size && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) at++;
  if (at == size || (text[at] != '{' && text[at] != '"')) {
    Spark__Connect__DataType *parsed = NULL;
    trn_status status = spark__sql_parse_schema(arena, text, size, NULL, &parsed, error);
    return status ? status : spark__type_from_proto(arena, parsed, out, error);
  }
  cJSON *json = cJSON_ParseWithLength(text + at, size - at); /* bounds its own recursion (CJSON_NESTING_LIMIT) */
  trn_status status = json ? from_json(arena, json, 1, out, error) : bad(error, "its JSON cannot be read");
  cJSON_Delete(json);
  return status;
}
