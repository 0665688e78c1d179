/* GetXdbcTypeInfo: the types that a client may write in SQL, as JDBC's and ODBC's getTypeInfo list them. */
#include "frontend/flightsql/flightsql.h"

enum { NONE = INT32_MIN };

typedef struct xdbc_type {
  const char *name;
  int32_t data_type, column_size;
  const char *prefix, *suffix, *create_params;
  bool case_sensitive;
  int32_t searchable;
  int32_t is_unsigned; /* NONE: not a number */
  int32_t minimum_scale, maximum_scale, sql_data_type, datetime_subcode, radix;
} xdbc_type;

/* In order of data_type. */
static const xdbc_type types[] = {
    {"BOOLEAN", -7, 1, NULL, NULL, NULL, false, 2, NONE, NONE, NONE, -7, NONE, NONE},
    {"TINYINT", -6, 3, NULL, NULL, NULL, false, 2, 0, 0, 0, -6, NONE, 10},
    {"BIGINT", -5, 19, NULL, NULL, NULL, false, 2, 0, 0, 0, -5, NONE, 10},
    {"BYTEA", -3, INT32_MAX, "X'", "'", NULL, false, 2, NONE, NONE, NONE, -3, NONE, NONE},
    {"DECIMAL", 3, 38, NULL, NULL, "precision scale", false, 2, 0, 0, 38, 3, NONE, 10},
    {"INTEGER", 4, 10, NULL, NULL, NULL, false, 2, 0, 0, 0, 4, NONE, 10},
    {"SMALLINT", 5, 5, NULL, NULL, NULL, false, 2, 0, 0, 0, 5, NONE, 10},
    {"REAL", 7, 24, NULL, NULL, NULL, false, 2, 0, NONE, NONE, 7, NONE, 2},
    {"DOUBLE", 8, 53, NULL, NULL, NULL, false, 2, 0, NONE, NONE, 8, NONE, 2},
    {"VARCHAR", 12, INT32_MAX, "'", "'", "length", true, 3, NONE, NONE, NONE, 12, NONE, NONE},
    {"DATE", 91, 10, "DATE '", "'", NULL, false, 2, NONE, NONE, NONE, 9, 1, NONE},
    {"TIME", 92, 18, "TIME '", "'", NULL, false, 2, NONE, 0, 9, 9, 2, NONE},
    {"TIMESTAMP", 93, 29, "TIMESTAMP '", "'", NULL, false, 2, NONE, 0, 9, 9, 3, NONE},
};

static void put_int(flightsql_rows *rows, size_t column, int32_t value) {
  if (value == NONE) flightsql__rows_null(rows, column);
  else flightsql__rows_int(rows, column, value);
}

static void put_params(flightsql_rows *rows, size_t column, const char *text) {
  trn_array_builder *list = flightsql__rows_column(rows, column);
  if (!text) {
    trn__array_append_null(list);
    return;
  }
  while (*text) {
    size_t size = strcspn(text, " ");
    trn__array_append_bytes(trn__array_builder_child(list, 0), text, size);
    text += size;
    while (*text == ' ') text++;
  }
  trn__array_append_end(list);
}

trn_status flightsql__fill_xdbc(flightsql_session *session, flightsql_rows *rows, const ProtobufCMessage *message,
                                trn_error **error) {
  const Arrow__Flight__Protocol__Sql__CommandGetXdbcTypeInfo *command =
      (const Arrow__Flight__Protocol__Sql__CommandGetXdbcTypeInfo *)message;
  (void)session, (void)error;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const xdbc_type *t = &types[i];
    if (command->_data_type_case && command->data_type != t->data_type) continue;
    flightsql__rows_text(rows, 0, t->name);
    put_int(rows, 1, t->data_type);
    put_int(rows, 2, t->column_size);
    flightsql__rows_text(rows, 3, t->prefix);
    flightsql__rows_text(rows, 4, t->suffix);
    put_params(rows, 5, t->create_params);
    put_int(rows, 6, 1); /* nullable */
    put_int(rows, 7, t->case_sensitive);
    put_int(rows, 8, t->searchable);
    put_int(rows, 9, t->is_unsigned);
    put_int(rows, 10, 0); /* fixed_prec_scale: no money types */
    put_int(rows, 11, t->is_unsigned == NONE ? NONE : 0);
    flightsql__rows_text(rows, 12, t->name);
    put_int(rows, 13, t->minimum_scale);
    put_int(rows, 14, t->maximum_scale);
    put_int(rows, 15, t->sql_data_type);
    put_int(rows, 16, t->datetime_subcode);
    put_int(rows, 17, t->radix);
    put_int(rows, 18, NONE);
    flightsql__rows_end(rows);
  }
  return TRN_OK;
}
