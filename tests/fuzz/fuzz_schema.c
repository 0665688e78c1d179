/* Schemas as clients write them: Spark's JSON or DDL, to our types and on to Arrow's and Spark's own messages. What
 * must hold: an answer or an error; and what is accepted can be exported and read again. */
#include <stdlib.h>

#include "big_stack.h"
#include "faults.h"
#include "frontend/spark/translate/translate.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct job {
  const uint8_t *data;
  size_t size;
} job;

static void use(trn_arena *arena, const trn_type *type) {
  struct ArrowSchema schema = {0};
  trn_strbuf text = {0};
  const trn_type *back = NULL;
  trn__type_print(&text, type);
  trn__strbuf_finish(&text);
  Spark__Connect__DataType *message = spark__schema_to_proto(arena, type->fields, type->field_count);
  uint8_t *bytes = message ? malloc(protobuf_c_message_get_packed_size(&message->base) + 1) : NULL;
  if (bytes) protobuf_c_message_pack(&message->base, bytes);
  free(bytes);
  if (trn__type_export(type, "", false, NULL, "UTC", &schema) != TRN_OK) return;
  trn_status status = trn__type_import(arena, &schema, &back, NULL);
  if (status && !(TRN_FUZZ_IS_SHORT && status == TRN_RESOURCE_EXHAUSTED)) abort();
  if (!status && back->field_count != type->field_count) abort();
  schema.release(&schema);
}

static void run(void *argument) {
  const job *j = argument;
  trn_error *error = NULL;
  const trn_type *type = NULL;
  trn_arena *arena = trn__arena_create(256u << 20);
  if (!arena) return;
  trn_status status = spark__schema_from_text(arena, (const char *)j->data, j->size, &type, &error);
  if (status == TRN_INTERNAL || status == TRN_UNKNOWN || (status && !error && !TRN_FUZZ_IS_SHORT)) abort();
  if (!status) use(arena, type);
  trn_error_unref(error);
  trn__arena_unref(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  job j = {data, size};
  run_deep(run, &j);
  return 0;
}
