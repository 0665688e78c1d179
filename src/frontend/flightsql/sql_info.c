/* GetSqlInfo: what the server is and can, one row per code, the value in a dense union. Every code of the specification has
 * a row: some drivers fail on a missing one. */
#include "frontend/flightsql/flightsql.h"

#include <trunnion/trunnion.h>

typedef enum info_type { INFO_TEXT, INFO_BOOL, INFO_INT64, INFO_INT32, INFO_LIST, INFO_MAP, INFO_TYPES } info_type;

typedef struct info {
  uint32_t code;
  info_type type;
  int64_t number;
  const char *text; /* of lists: items separated by blanks */
} info;

#define BIT(n) (1 << (n))
#define CONVERTS                                                                                                       \
  "0:0,3,4,5,6,7,12,13,14,17,19 1:1,18 2:2,3,7,19 3:0,2,3,4,5,6,7,12,13,14,15,16,17,19 4:3,4,16,19 "                     \
  "5:0,3,5,6,7,12,13,14,17,19 6:0,3,5,6,7,12,13,14,17,19 7:0,2,3,5,6,7,12,13,14,17,19 8:3,8,19 9:3,9,19 "               \
  "12:0,3,5,6,7,12,13,14,17,19 13:0,3,5,6,7,12,13,14,17,19 14:0,3,5,6,7,12,13,14,17,19 15:3,15,19 16:3,4,15,16,19 "      \
  "17:0,3,5,6,7,12,13,14,17,19 18:1,18 19:0,2,3,4,5,6,7,12,13,14,15,16,17,19"

static const info infos[] = {
    {0, INFO_TEXT, 0, "Trunnion"},
    {1, INFO_TEXT, 0, NULL /* the version */},
    {2, INFO_TEXT, 0, "1.5.0"},
    {3, INFO_BOOL, 0, NULL /* the option */},
    {4, INFO_BOOL, 1, NULL},  /* SQL */
    {5, INFO_BOOL, 1, NULL},  /* Substrait */
    {6, INFO_TEXT, 0, "0.1.0"},
    {7, INFO_TEXT, 0, "0.99.0"},
    {8, INFO_INT32, 2, NULL}, /* transactions, with savepoints; see without_transactions */
    {9, INFO_BOOL, 1, NULL},  /* cancel */
    {10, INFO_BOOL, 1, NULL}, /* bulk ingestion */
    {11, INFO_BOOL, 1, NULL}, /* ... in transactions */
    {100, INFO_INT32, 0, NULL},
    {101, INFO_INT32, 0, NULL},
    {500, INFO_BOOL, 0, NULL}, /* CREATE CATALOG */
    {501, INFO_BOOL, 1, NULL},
    {502, INFO_BOOL, 1, NULL},
    {503, INFO_INT32, 3, NULL}, /* plain identifiers: lower case */
    {504, INFO_TEXT, 0, "\""},
    {505, INFO_INT32, 0, NULL}, /* quoted ones: as they are; there is no value that says so */
    {506, INFO_BOOL, 1, NULL},
    {507, INFO_INT32, 0, NULL}, /* nulls sort high */
    {508, INFO_LIST, 0, "ANTI ASOF EXCEPT EXCLUDE EXPLAIN EXTERNAL ILIKE LATERAL LIMIT LOCATION OFFSET OVERWRITE QUALIFY REPLACE RLIKE "
                        "SEMI SHOW STORED TABLESAMPLE TRY_CAST UNNEST"},
    {509, INFO_LIST, 0, "abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh cot degrees exp factorial floor gcd lcm ln log "
                        "log10 log2 pi pow power radians random round signum sin sinh sqrt tan tanh trunc"},
    {510, INFO_LIST, 0, "ascii bit_length btrim char_length chr concat concat_ws contains ends_with initcap left length levenshtein "
                        "lower lpad ltrim octet_length position regexp_like regexp_match regexp_replace repeat replace reverse right "
                        "rpad rtrim split_part starts_with strpos substr substring to_hex translate trim upper uuid"},
    {511, INFO_LIST, 0, "coalesce nullif nvl version"},
    {512, INFO_LIST, 0, "current_date current_time current_timestamp date_bin date_part date_trunc extract from_unixtime make_date "
                        "now to_char to_date to_timestamp to_timestamp_micros to_timestamp_millis to_timestamp_seconds to_unixtime"},
    {513, INFO_TEXT, 0, "\\"},
    {514, INFO_TEXT, 0, ""},
    {515, INFO_BOOL, 1, NULL},
    {516, INFO_BOOL, 1, NULL},
    {517, INFO_MAP, 0, CONVERTS},
    {518, INFO_BOOL, 1, NULL},
    {519, INFO_BOOL, 0, NULL},
    {520, INFO_BOOL, 1, NULL},
    {521, INFO_BOOL, 1, NULL},
    {522, INFO_INT32, BIT(0) | BIT(1), NULL}, /* GROUP BY: unrelated, beyond SELECT */
    {523, INFO_BOOL, 1, NULL},
    {524, INFO_BOOL, 1, NULL},
    {525, INFO_INT32, BIT(0) | BIT(1) | BIT(2), NULL},
    {526, INFO_INT32, BIT(0), NULL}, /* SQL92: entry */
    {527, INFO_BOOL, 0, NULL},
    {528, INFO_INT32, BIT(1) | BIT(2), NULL},
    {529, INFO_TEXT, 0, "schema"},
    {530, INFO_TEXT, 0, "procedure"},
    {531, INFO_TEXT, 0, "catalog"},
    {532, INFO_BOOL, 1, NULL},
    {533, INFO_INT32, 0, NULL}, /* schemas in CALL, index and privilege definitions: there are none */
    {534, INFO_INT32, 0, NULL},
    {535, INFO_INT32, 0, NULL},
    {536, INFO_BOOL, 0, NULL},
    {537, INFO_BOOL, 0, NULL},
    {538, INFO_INT32, BIT(0) | BIT(1) | BIT(2) | BIT(3), NULL},
    {539, INFO_BOOL, 1, NULL},
    {540, INFO_INT32, BIT(0) | BIT(1), NULL},
    {541, INFO_INT64, 0, NULL}, /* sizes: 0 is no limit, or none that is known */
    {542, INFO_INT64, 0, NULL},
    {543, INFO_INT64, 0, NULL},
    {544, INFO_INT64, 0, NULL},
    {545, INFO_INT64, 0, NULL},
    {546, INFO_INT64, 0, NULL},
    {547, INFO_INT64, 0, NULL},
    {548, INFO_INT64, 0, NULL},
    {549, INFO_INT64, 0, NULL},
    {550, INFO_INT64, 0, NULL},
    {551, INFO_INT64, 0, NULL},
    {552, INFO_INT64, 0, NULL},
    {553, INFO_INT64, 0, NULL},
    {554, INFO_INT64, 0, NULL},
    {555, INFO_INT64, 0, NULL},
    {556, INFO_BOOL, 0, NULL},
    {557, INFO_INT64, TRN_FLIGHT_SQL_BYTES_MAX, NULL},
    {558, INFO_INT64, TRN_FLIGHT_PREPARED_MAX, NULL},
    {559, INFO_INT64, 0, NULL},
    {560, INFO_INT64, 0, NULL},
    {561, INFO_INT64, 0, NULL},
    {562, INFO_INT64, 4, NULL}, /* isolation: serializable */
    {563, INFO_BOOL, 1, NULL},
    {564, INFO_INT32, BIT(4), NULL},
    {565, INFO_BOOL, 0, NULL},
    {566, INFO_BOOL, 0, NULL},
    {567, INFO_INT32, BIT(1), NULL}, /* forward only */
    {568, INFO_INT32, BIT(1), NULL}, /* read only */
    {569, INFO_INT32, BIT(1), NULL},
    {570, INFO_INT32, 0, NULL},
    {571, INFO_INT32, 0, NULL},
    {572, INFO_BOOL, 1, NULL}, /* batches */
    {573, INFO_BOOL, 1, NULL}, /* savepoints */
    {574, INFO_BOOL, 0, NULL}, /* named parameters of what is called: there is nothing to call */
    {575, INFO_BOOL, 0, NULL},
    {576, INFO_BOOL, 0, NULL},
};
enum { INFO_COUNT = sizeof infos / sizeof *infos };

/* ---- schema ---- */

static trn_status list_schema(struct ArrowSchema *out, const char *name, const char *item, int64_t flags) {
  trn_status status = trn__schema_init(out, "+l", name, flags, NULL, 0, 1);
  return status ? status : trn__schema_init(out->children[0], item, "item", ARROW_FLAG_NULLABLE, NULL, 0, 0);
}

static trn_status map_schema(struct ArrowSchema *out, const char *name) {
  trn_status status = trn__schema_init(out, "+m", name, 0, NULL, 0, 1);
  if (!status) status = trn__schema_init(out->children[0], "+s", "entries", 0, NULL, 0, 2);
  if (!status) status = trn__schema_init(out->children[0]->children[0], "i", "key", 0, NULL, 0, 0);
  return status ? status : list_schema(out->children[0]->children[1], "value", "i", ARROW_FLAG_NULLABLE);
}

/* As the C++, Go and Java implementations have it, member by member: some drivers compare. */
static trn_status info_schema(struct ArrowSchema *out) {
  static const struct {
    const char *name, *format;
  } members[] = {{"string_value", "u"}, {"bool_value", "b"}, {"bigint_value", "l"}, {"int32_bitmask", "i"}};
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, 2);
  if (!status) status = trn__schema_init(out->children[0], "I", "info_name", 0, NULL, 0, 0);
  struct ArrowSchema *value = out->children ? out->children[1] : NULL;
  if (!status) status = trn__schema_init(value, "+ud:0,1,2,3,4,5", "value", 0, NULL, 0, INFO_TYPES);
  for (size_t i = 0; i < sizeof members / sizeof *members && !status; i++)
    status = trn__schema_init(value->children[i], members[i].format, members[i].name, 0, NULL, 0, 0);
  if (!status) status = list_schema(value->children[INFO_LIST], "string_list", "u", 0);
  return status ? status : map_schema(value->children[INFO_MAP], "int32_to_int32_list_map");
}

/* ---- values ---- */

/* Whom it is about. */
typedef struct sayer {
  const flightsql_service *service;
  bool has_transactions;
} sayer;

static void append_list(trn_array_builder *to, const char *text) {
  while (text && *text) {
    size_t size = strcspn(text, " ");
    trn__array_append_bytes(trn__array_builder_child(to, 0), text, size);
    text += size;
    while (*text == ' ') text++;
  }
  trn__array_append_end(to);
}

/* "key:value,value key:value". */
static void append_map(trn_array_builder *to, const char *text) {
  trn_array_builder *entries = trn__array_builder_child(to, 0), *values = trn__array_builder_child(entries, 1);
  while (*text) {
    char *end;
    trn__array_append_int(trn__array_builder_child(entries, 0), strtol(text, &end, 10));
    do {
      trn__array_append_int(trn__array_builder_child(values, 0), strtol(end + 1, &end, 10));
    } while (*end == ',');
    trn__array_append_end(values);
    trn__array_append_end(entries);
    text = *end ? end + 1 : end;
  }
  trn__array_append_end(to);
}

/* What the session's catalog gives: each statement is one transaction by itself, else nothing is known. */
static int64_t without_transactions(uint32_t code, int64_t number) {
  return code == 8 || code == 11 || (code >= 562 && code <= 564) || code == 573 ? code == 564 : number;
}

static void append_value(const sayer *from, const info *row, trn_array_builder *const *members) {
  const flightsql_service *service = from->service;
  trn_array_builder *to = members[row->type];
  const char *text = row->code == 1 ? trn_version() : row->text;
  int64_t number = row->code == 3 ? service->read_only : row->number;
  if (!from->has_transactions) number = without_transactions(row->code, number);
  if (service->read_only && (row->code == 501 || row->code == 502 || row->code == 10)) number = 0;
  switch (row->type) {
  case INFO_TEXT: trn__array_append_bytes(to, text, strlen(text)); break;
  case INFO_BOOL: trn__array_append_bool(to, number != 0); break;
  case INFO_LIST: append_list(to, text); break;
  case INFO_MAP: append_map(to, text); break;
  default: trn__array_append_int(to, number);
  }
}

static bool is_wanted(const info *row, const uint32_t *codes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (codes[i] == row->code) return true;
  return count == 0;
}

/* The union's own buffers and children; all owned by the frame of write_batch. */
typedef struct union_array {
  int8_t types[INFO_COUNT];
  int32_t offsets[INFO_COUNT];
  const void *buffers[2];
  struct ArrowArray members[INFO_TYPES], *pointers[INFO_TYPES];
} union_array;

static trn_status write_batch(const sayer *from, const struct ArrowSchema *schema, const uint32_t *codes,
                              size_t count, trn_strbuf *out) {
  trn_array_builder *names = NULL, *members[INFO_TYPES] = {0};
  union_array value = {0};
  struct ArrowArray name_array = {0};
  int64_t rows = 0;
  trn_status status = trn__array_builder_create(schema->children[0], &names);
  for (size_t i = 0; i < INFO_TYPES && !status; i++)
    status = trn__array_builder_create(schema->children[1]->children[i], &members[i]);
  for (size_t i = 0; i < INFO_COUNT && !status; i++) {
    if (!is_wanted(&infos[i], codes, count)) continue;
    value.types[rows] = (int8_t)infos[i].type;
    value.offsets[rows++] = (int32_t)trn__array_builder_length(members[infos[i].type]);
    trn__array_append_int(names, infos[i].code);
    append_value(from, &infos[i], members);
  }
  if (!status) status = trn__array_builder_finish(names, &name_array);
  for (size_t i = 0; i < INFO_TYPES; i++) {
    if (!status) status = trn__array_builder_finish(members[i], &value.members[i]);
    value.pointers[i] = &value.members[i];
    trn__array_builder_destroy(members[i]);
  }
  trn__array_builder_destroy(names);
  value.buffers[0] = value.types;
  value.buffers[1] = value.offsets;
  struct ArrowArray union_value = {.length = rows, .n_buffers = 2, .buffers = value.buffers, .n_children = INFO_TYPES, .children = value.pointers};
  struct ArrowArray *columns[] = {&name_array, &union_value};
  const void *no_buffers[1] = {NULL};
  const struct ArrowArray batch = {.length = rows, .n_buffers = 1, .buffers = no_buffers, .n_children = 2, .children = columns};
  if (!status) status = trn__ipc_write_batch(schema, &batch, out);
  trn__array_release(&name_array);
  for (size_t i = 0; i < INFO_TYPES; i++) trn__array_release(&value.members[i]);
  return status;
}

trn_status flightsql__sql_info(flightsql_session *session, const uint32_t *codes, size_t count, trn_strbuf *schema,
                               trn_strbuf *batch, trn_error **error) {
  const sayer from = {session->service, batch && flightsql__has_transactions(session)};
  struct ArrowSchema columns = {0};
  trn_status status = info_schema(&columns);
  if (!status) status = trn__ipc_write_schema(&columns, schema);
  if (!status && batch) status = write_batch(&from, &columns, codes, count, batch);
  trn__schema_release(&columns);
  return status ? trn__no_memory(error) : TRN_OK;
}
