/* Texts to the Spark SQL parser. The first byte chooses what is parsed: a statement, an expression, a type, a schema, a
 * name. What must hold: an answer or an error, and positions of errors inside the text. */
#include <stdlib.h>

#include "big_stack.h"
#include "faults.h"
#include "frontend/spark/sql/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct job {
  const uint8_t *data;
  size_t size;
} job;

static void check_error(trn_status status, trn_error *error, size_t size) {
  trn_position position;
  if (status == TRN_INTERNAL || status == TRN_UNKNOWN) abort();
  if (status && !error && !TRN_FUZZ_IS_SHORT) abort();
  if (error && trn_error_position(error, &position) && position.start > (int64_t)size) abort();
  trn_error_unref(error);
}

static void parse(void *argument) {
  const job *j = argument;
  const char *text = (const char *)j->data + 1;
  size_t size = j->size - 1, count = 0;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  spark_sql_options options = {.double_quoted_identifiers = j->data[0] & 16, .exponent_as_decimal = j->data[0] & 32};
  trn_arena *arena = trn__arena_create(256u << 20);
  if (!arena) return;
  union {
    spark_sql_statement statement;
    Spark__Connect__Expression *expression;
    Spark__Connect__DataType *type;
    char **parts;
  } out;
  switch (j->data[0] % 8) {
  case 0: status = spark__sql_parse_expression(arena, text, size, &options, &out.expression, &error); break;
  case 1: status = spark__sql_parse_type(arena, text, size, &options, &out.type, &error); break;
  case 2: status = spark__sql_parse_schema(arena, text, size, &options, &out.type, &error); break;
  case 3:
    status = spark__sql_parse_multipart_identifier(arena, text, size, &options, &out.parts, &count, &error);
    break;
  case 4: status = spark__sql_parse_attribute_name(arena, text, size, &out.parts, &count, &error); break;
  default: status = spark__sql_parse_statement(arena, text, size, &options, &out.statement, &error); break;
  }
  check_error(status, error, size);
  trn__arena_unref(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  job j = {data, size};
  if (size) run_deep(parse, &j); /* as the frontend does */
  return 0;
}
