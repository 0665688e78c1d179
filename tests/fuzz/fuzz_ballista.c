/* What Ballista's frontend reads of a client before anything else looks at it. The first byte says what follows: 'e' an
 * ExecuteQueryParams, whose plan is read as one, 't' a ticket's Action, 'p' a plan, 'm' a backend's metrics. What must
 * hold: what is accepted can be read to its last byte, and a rewritten plan is as long as its edits say. */
#include <stdlib.h>

#include "faults.h"
#include "frontend/ballista/ballista.h"
#include "plan/ballista_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void touch(const void *data, size_t size) {
  for (size_t i = 0; i < size; i++) sink += ((const uint8_t *)data)[i];
}

static void read_plan(const void *data, size_t size) {
  trn_str inner;
  for (int is_older = 0; is_older < 2; is_older++) {
    trn_strbuf out = {0}, again = {0};
    trn_error *error = NULL;
    bool changed = false, twice = false;
    trn_status status = trn__ballista_plan(data, size, is_older, &out, &changed, &error);
    if (!status && changed) {
      touch(out.data, out.size);
      if (out.size < size / 2) __builtin_trap(); /* little is ever taken away */
      trn__ballista_plan(out.data, out.size, is_older, &again, &twice, NULL);
    } else if (out.size && !(TRN_FUZZ_IS_SHORT && status)) {
      __builtin_trap();
    }
    trn_error_unref(error);
    trn__strbuf_finish(&again);
    trn__strbuf_finish(&out);
  }
  if (!trn__ballista_explained(data, size, &inner)) return;
  if (inner.data < (const char *)data || inner.data + inner.size > (const char *)data + size) __builtin_trap();
  touch(inner.data, inner.size);
}

static void read_message(trn_arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *data,
                         size_t size) {
  ProtobufCMessage *message = NULL;
  trn_error *error = NULL;
  if (ballista__decode(arena, descriptor, data, size, &message, &error) == TRN_OK) {
    trn_strbuf out = {0};
    flight__message_put(&out, message);
    touch(out.data, out.size);
    trn__strbuf_finish(&out);
    if (descriptor == &ballista__protobuf__execute_query_params__descriptor) {
      const Ballista__Protobuf__ExecuteQueryParams *params = (void *)message;
      touch(ballista__job_name(params), strlen(ballista__job_name(params)));
      if (params->query_case == BALLISTA__PROTOBUF__EXECUTE_QUERY_PARAMS__QUERY_LOGICAL_PLAN)
        read_plan(params->logical_plan.data, params->logical_plan.len);
    }
  }
  trn_error_unref(error);
}

static void read_metrics(trn_arena *arena, const uint8_t *data, size_t size) {
  Ballista__Protobuf__GetJobMetricsResult result = BALLISTA__PROTOBUF__GET_JOB_METRICS_RESULT__INIT;
  char *text = trn__arena_str(arena, (const char *)data, size);
  if (!text || ballista__metrics_of(arena, text, &result)) return;
  trn_strbuf out = {0};
  flight__message_put(&out, &result.base);
  touch(out.data, out.size);
  trn__strbuf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return 0;
  if (data[0] == 'e')
    read_message(arena, &ballista__protobuf__execute_query_params__descriptor, data + 1, size - 1);
  else if (data[0] == 't')
    read_message(arena, &ballista__protobuf__action__descriptor, data + 1, size - 1);
  else if (data[0] == 'p')
    read_plan(data + 1, size - 1);
  else if (data[0] == 'm')
    read_metrics(arena, data + 1, size - 1);
  trn__arena_unref(arena);
  return 0;
}
