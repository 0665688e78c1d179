/* What Flight SQL reads of a client before anything else looks at it. The first byte says what follows: 'c' an Any with a
 * command, whose SQL text is read to its tokens; 'p' FlightData messages of a DoPut, each behind two bytes of length, which
 * become parameters of a statement and then literals. What must hold: what is accepted can be read to its last byte. */
#include <stdlib.h>

#include "frontend/flightsql/flightsql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void touch(const void *data, size_t size) {
  for (size_t i = 0; i < size; i++) sink += ((const uint8_t *)data)[i];
}

#define DESCRIPTOR(name) &arrow__flight__protocol__sql__##name##__descriptor

static const struct command {
  const char *name;
  const ProtobufCMessageDescriptor *descriptor;
} commands[] = {
    {"CommandStatementQuery", DESCRIPTOR(command_statement_query)},
    {"CommandStatementUpdate", DESCRIPTOR(command_statement_update)},
    {"CommandStatementIngest", DESCRIPTOR(command_statement_ingest)},
    {"CommandStatementSubstraitPlan", DESCRIPTOR(command_statement_substrait_plan)},
    {"CommandPreparedStatementQuery", DESCRIPTOR(command_prepared_statement_query)},
    {"CommandPreparedStatementUpdate", DESCRIPTOR(command_prepared_statement_update)},
    {"CommandGetTables", DESCRIPTOR(command_get_tables)},
    {"CommandGetDbSchemas", DESCRIPTOR(command_get_db_schemas)},
    {"CommandGetSqlInfo", DESCRIPTOR(command_get_sql_info)},
    {"CommandGetCrossReference", DESCRIPTOR(command_get_cross_reference)},
    {"TicketStatementQuery", DESCRIPTOR(ticket_statement_query)},
    {"ActionCreatePreparedStatementRequest", DESCRIPTOR(action_create_prepared_statement_request)},
};

static void read_text(trn_arena *arena, const char *sql, flightsql_dialect dialect) {
  flightsql_text text;
  trn_error *error = NULL;
  trn_constraint *constraints = NULL;
  size_t count = 0, name_end, columns_at, row_at, row_end;
  if (flightsql__text_read(arena, sql, strlen(sql), dialect, &text, &error) == TRN_OK && text.count) {
    sink += flightsql__temporary_at(&text);
    for (uint32_t i = 0; i < text.name_count; i++) sink += strlen(text.names[i]);
    if (flightsql__insert_shape(&text, &name_end, &columns_at, &row_at, &row_end)) sink += row_end - row_at;
    if (flightsql__parse_constraints(arena, &text, &constraints, &count, &error) == TRN_OK)
      for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < constraints[i].column_count; j++) sink += strlen(constraints[i].columns[j]);
    char *again = flightsql__text_slice(arena, &text, 0, text.count, NULL);
    if (again) sink += strlen(again);
  }
  trn_error_unref(error);
}

static void read_command(trn_arena *arena, const uint8_t *data, size_t size) {
  char name[64];
  trn_str value;
  trn_error *error = NULL;
  ProtobufCMessage *message = NULL;
  if (!flightsql__unwrap(data, size, name, &value)) return;
  touch(value.data, value.size);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(commands[i].name, name) != 0) continue;
    if (flight__decode(arena, commands[i].descriptor, value.data, value.size, &message, &error) != TRN_OK) break;
    trn_strbuf out = {0};
    flight__message_put(&out, message);
    touch(out.data, out.size);
    trn__strbuf_finish(&out);
    if (i > 1) break;
    const char *sql = i ? ((Arrow__Flight__Protocol__Sql__CommandStatementUpdate *)message)->query
                        : ((Arrow__Flight__Protocol__Sql__CommandStatementQuery *)message)->query;
    read_text(arena, sql, FLIGHTSQL_ENGINE);
    read_text(arena, sql, FLIGHTSQL_SPARK);
  }
  trn_error_unref(error);
}

/* By the columns' places, and by their names in another order. */
static void read_literals(trn_arena *arena, const flightsql_parameters *parameters, flightsql_dialect dialect) {
  if (!parameters->schema.release || parameters->schema.n_children > 1000) return;
  uint32_t count = (uint32_t)parameters->schema.n_children;
  const char **names = TRN_NEW_N(arena, const char *, count);
  for (uint32_t i = 0; names && i < count; i++) {
    names[i] = parameters->schema.children[count - 1 - i]->name;
    if (!names[i]) names[i] = "";
  }
  const flightsql_text texts[] = {{.parameter_count = count},
                                  {.parameter_count = count, .names = names, .name_count = names ? count : 0}};
  for (int64_t row = 0; row < parameters->rows && row < 20; row++) {
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
      const char **literals = NULL;
      trn_error *error = NULL;
      if (!flightsql__parameters_literals(arena, parameters, row, &texts[t], dialect, &literals, &error))
        for (uint32_t i = 0; i < count; i++) sink += strlen(literals[i]);
      trn_error_unref(error);
    }
  }
}

static void read_put(trn_arena *arena, const uint8_t *data, size_t size) {
  flightsql_parameters *parameters = flightsql__parameters_create();
  trn_error *error = NULL;
  trn_status status = parameters ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  while (!status && size >= 2) {
    size_t length = (size_t)data[0] << 8 | data[1];
    if (length > size - 2) length = size - 2;
    flight_data message;
    status = flight__data_parse(data + 2, length, &message, &error);
    if (!status) status = flightsql__parameters_add(parameters, &message, &error);
    data += 2 + length;
    size -= 2 + length;
  }
  trn_error_unref(error);
  if (!parameters) return;
  read_literals(arena, parameters, FLIGHTSQL_ENGINE);
  read_literals(arena, parameters, FLIGHTSQL_SPARK);
  touch(parameters->ipc.data, parameters->ipc.size);
  flightsql__parameters_unref(parameters);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return 0;
  if (data[0] == 'c') read_command(arena, data + 1, size - 1);
  else if (data[0] == 'p') read_put(arena, data + 1, size - 1);
  trn__arena_unref(arena);
  return 0;
}
