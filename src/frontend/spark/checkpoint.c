/* checkpoint, localCheckpoint: the rows as they are now, kept in the session as a relation of their own. */
#include "frontend/spark/service.h"

/* The name that the relation has in the session's catalog: no view's, which has no control characters. */
static char *key_of(trn_arena *arena, const char *id) {
  return trn__arena_printf(arena, "\001checkpoint %s", id);
}

/* Rows that do not fit are computed anew by whoever reads the checkpoint. */
static trn_status rows_of(spark_rpc *rpc, const Spark__Connect__Relation *relation, Spark__Connect__LocalRelation *out,
                          bool *fits, trn_error **error) {
  trn_plan *plan = NULL;
  trn_strbuf bytes = {0};
  trn_status status = spark__plan_relation(rpc, relation, &plan, error);
  *fits = false;
  if (!status) {
    rpc->phase = SPARK_PHASE_EXECUTION;
    status = spark__collect_ipc(rpc->session->session, plan, spark__rpc_cancel(rpc), TRN_CHECKPOINT_BYTES_MAX, &bytes, fits, error);
  }
  if (!status && *fits) {
    out->_data_case = SPARK__CONNECT__LOCAL_RELATION___DATA_DATA;
    out->data.len = bytes.size;
    out->data.data = trn__arena_copy(rpc->arena, bytes.data, bytes.size);
    if (!out->data.data) status = trn__no_memory(error);
  }
  trn__strbuf_finish(&bytes);
  trn_plan_unref(plan);
  return status;
}

static trn_status inline_one(spark_rpc *rpc, Spark__Connect__Relation *relation, trn_error **error) {
  Spark__Connect__Relation *kept = NULL;
  char *key = key_of(rpc->arena, relation->cached_remote_relation->relation_id);
  if (!key) return trn__no_memory(error);
  trn_status status = spark__catalog_view(rpc->session->catalog, rpc->arena, key, true, &kept, error);
  if (status || !kept) return status; /* not there: whoever reads it says so */
  Spark__Connect__RelationCommon *common = relation->common;
  *relation = *kept;
  relation->common = common;
  return TRN_OK;
}

/* The wire check bounds the depth (big stack). */
trn_status spark__checkpoint_inline(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const ProtobufCMessageDescriptor *descriptor = message->descriptor;
  if (descriptor == &spark__connect__relation__descriptor) {
    Spark__Connect__Relation *relation = (Spark__Connect__Relation *)message;
    if (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_CACHED_REMOTE_RELATION)
      return inline_one(rpc, relation, error);
  }
  trn_status status = TRN_OK;
  for (unsigned i = 0; i < descriptor->n_fields && !status; i++) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
    char *at = (char *)message + field->offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) continue;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t count = *(const size_t *)((const char *)message + field->quantifier_offset);
      ProtobufCMessage **items = *(ProtobufCMessage ***)at;
      for (size_t j = 0; j < count && !status; j++) status = spark__checkpoint_inline(rpc, items[j], error);
    } else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
               *(const uint32_t *)((const char *)message + field->quantifier_offset) == field->id) {
      ProtobufCMessage *child = *(ProtobufCMessage **)at;
      if (child) status = spark__checkpoint_inline(rpc, child, error);
    }
  }
  return status;
}

trn_status spark__checkpoint_run(spark_rpc *rpc, spark_execution *execution,
                                 const Spark__Connect__CheckpointCommand *command, trn_error **error) {
  Spark__Connect__LocalRelation local;
  Spark__Connect__Relation rows = SPARK__CONNECT__RELATION__INIT;
  const Spark__Connect__Relation *kept = command->relation;
  bool fits = false;
  char id[TRN_UUID_SIZE];
  trn__uuid4(id);
  spark__connect__local_relation__init(&local);
  char *key = key_of(rpc->arena, id);
  if (!key) return trn__no_memory(error);
  /* Also when it need not be eager: the views that it reads may mean something else by then. */
  trn_status status = rows_of(rpc, command->relation, &local, &fits, error);
  if (!status && fits) {
    rows.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION;
    rows.local_relation = &local;
    kept = &rows;
  }
  if (!status) status = spark__catalog_set_view(rpc->session->catalog, key, kept, true, error);
  if (status) return status;
  Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__CheckpointCommandResult result = SPARK__CONNECT__CHECKPOINT_COMMAND_RESULT__INIT;
  Spark__Connect__CachedRemoteRelation cached = SPARK__CONNECT__CACHED_REMOTE_RELATION__INIT;
  cached.relation_id = id;
  result.relation = &cached;
  response.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_CHECKPOINT_COMMAND_RESULT;
  response.checkpoint_command_result = &result;
  if (spark__execution_append(execution, &response)) return trn__no_memory(error);
  spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  return TRN_OK;
}

trn_status spark__checkpoint_drop(spark_rpc *rpc, spark_execution *execution,
                                  const Spark__Connect__RemoveCachedRemoteRelationCommand *command, trn_error **error) {
  const char *id = command->relation && command->relation->relation_id ? command->relation->relation_id : "";
  char *key = key_of(rpc->arena, id);
  if (!key) return trn__no_memory(error);
  spark__catalog_drop_view(rpc->session->catalog, key, true);
  spark__execution_finish(execution, SPARK_RUN_SUCCEEDED, NULL);
  return TRN_OK;
}
