/* ExecutePlan, ReattachExecute, ReleaseExecute. */
#include "frontend/spark/service.h"
#include "frontend/spark/sql/sql.h"

enum { EXECUTE_TAGS_MAX = 1000 };

static trn_status invalid_handle(trn_error **error, trn_status status, const char *condition, const char *handle) {
  return spark__raise(error, status, condition, "handle", handle, NULL, NULL, NULL, NULL);
}

/* ---- the request ---- */

static trn_status copy_tags(spark_execution *execution, const Spark__Connect__ExecutePlanRequest *request,
                            trn_error **error) {
  if (request->n_tags > EXECUTE_TAGS_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "More than %d tags", EXECUTE_TAGS_MAX);
  if (!request->n_tags) return TRN_OK;
  execution->tags = calloc(request->n_tags, sizeof *execution->tags);
  if (!execution->tags) return trn__no_memory(error);
  for (size_t i = 0; i < request->n_tags; i++) {
    if (strchr(request->tags[i], ','))
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Spark Connect tag cannot contain ','.");
    if (!*request->tags[i])
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Spark Connect tag cannot be an empty string.");
    execution->tags[i] = strdup(request->tags[i]);
    if (!execution->tags[i]) return trn__no_memory(error);
    execution->tag_count++;
  }
  return TRN_OK;
}

static void read_options(spark_execution *execution, const Spark__Connect__ExecutePlanRequest *request) {
  for (size_t i = 0; i < request->n_request_options; i++) {
    const Spark__Connect__ExecutePlanRequest__RequestOption *option = request->request_options[i];
    switch (option->request_option_case) {
    case SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__REQUEST_OPTION_REATTACH_OPTIONS:
      execution->is_reattachable = option->reattach_options->reattachable;
      break;
    case SPARK__CONNECT__EXECUTE_PLAN_REQUEST__REQUEST_OPTION__REQUEST_OPTION_RESULT_CHUNKING_OPTIONS: {
      const Spark__Connect__ResultChunkingOptions *chunking = option->result_chunking_options;
      execution->may_chunk = chunking->allow_arrow_batch_chunking;
      if (chunking->_preferred_arrow_chunk_size_case && chunking->preferred_arrow_chunk_size > 0)
        execution->chunk_bytes = (size_t)chunking->preferred_arrow_chunk_size;
      break;
    }
    default: break; /* options of plugins we do not have */
    }
  }
}

/* ---- running ---- */

const Spark__Connect__SQL *spark__sql_of(const Spark__Connect__Relation *relation) {
  for (size_t depth = 0; relation && depth < TRN_WIRE_DEPTH_MAX; depth++) {
    if (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_SQL) return relation->sql;
    if (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_WITH_RELATIONS) {
      relation = relation->with_relations->root;
      continue;
    }
    if (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE__NOT_SET ||
        relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_EXTENSION)
      return NULL;
    /* Most relations have one member `input`: go on there. */
    const ProtobufCMessage *member = (const ProtobufCMessage *)relation->read; /* any member of the union */
    const ProtobufCFieldDescriptor *field =
        member ? protobuf_c_message_descriptor_get_field_by_name(member->descriptor, "input") : NULL;
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REPEATED ||
        field->descriptor != &spark__connect__relation__descriptor)
      return NULL;
    relation = *(Spark__Connect__Relation *const *)((const char *)member + field->offset);
  }
  return NULL;
}

/* After a failed translation: was it the SQL text that did not parse? Then the error is a ParseException. */
static spark_phase phase_of_failure(const Spark__Connect__SQL *sql) {
  spark_phase phase = SPARK_PHASE_ANALYSIS;
  trn_arena *arena = sql ? trn__arena_create(0) : NULL;
  if (arena) {
    spark_sql_statement statement;
    if (spark__sql_parse_statement(arena, sql->query, strlen(sql->query), NULL, &statement, NULL))
      phase = SPARK_PHASE_PARSE;
  }
  trn__arena_unref(arena);
  return phase;
}

/* An execution lives on without its call when it can be reattached to; a question does not. */
static bool is_unwanted(void *user) {
  spark_rpc *rpc = user;
  spark_execution *execution = atomic_load(&rpc->execution);
  if (!execution) return atomic_load(&rpc->gone);
  pthread_mutex_lock(&execution->mutex);
  bool cancelled = execution->cancel_requested;
  pthread_mutex_unlock(&execution->mutex);
  return cancelled;
}

trn_cancel *spark__rpc_cancel(spark_rpc *rpc) {
  spark_execution *execution = atomic_load(&rpc->execution);
  return execution ? execution->cancel : rpc->cancel;
}

/* What df.observe asks for is computed when `observes`, and listed in *translator, as the views that were used are: in
 * the plan's memory. */
static trn_status plan_relation(spark_rpc *rpc, const Spark__Connect__Relation *relation, trn_plan **out,
                                bool observes, spark_translator *translator, trn_error **error) {
  *out = NULL;
  memset(translator, 0, sizeof *translator);
  rpc->phase = SPARK_PHASE_ANALYSIS;
  const Spark__Connect__SQL *sql = spark__sql_of(relation);
  if (sql || !rpc->locals) rpc->sql = sql ? sql->query : NULL; /* else the script's, where the relation was read */
  if (!relation || relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE__NOT_SET)
    return spark__error_not_set(error, "spark.connect.Relation", "RELTYPE_NOT_SET");
  trn_status status = spark__translator_init(translator, rpc->session->session, rpc->session->catalog, error);
  translator->is_cancelled = is_unwanted;
  translator->cancel_user = rpc;
  translator->cancel = spark__rpc_cancel(rpc);
  translator->observes = observes;
  translator->registry = rpc->service->registry;
  translator->locals = rpc->locals;
  if (!status && !sql && rpc->locals && rpc->sql) { /* a statement of a script: the plan's text is the script's */
    translator->sql = trn__arena_strdup(translator->arena, rpc->sql);
    translator->sql_size = translator->sql ? strlen(rpc->sql) : 0;
  }
  if (!status) spark__translator_parameters(translator, rpc->parameters);
  if (!status) status = spark__translate_relation(translator, relation, out, error);
  if (status) rpc->phase = phase_of_failure(sql);
  if (status) translator->state = NULL; /* gone with the arena */
  return status;
}

trn_status spark__begin_translation(spark_rpc *rpc, spark_translator *t, trn_error **error) {
  trn_status status = spark__translator_init(t, rpc->session->session, rpc->session->catalog, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  t->sql = rpc->sql;
  t->sql_size = rpc->sql ? strlen(rpc->sql) : 0;
  t->is_cancelled = is_unwanted;
  t->cancel_user = rpc;
  t->cancel = spark__rpc_cancel(rpc);
  t->registry = rpc->service->registry;
  t->locals = rpc->locals;
  spark__translator_parameters(t, rpc->parameters);
  return TRN_OK;
}

trn_status spark__plan_relation(spark_rpc *rpc, const Spark__Connect__Relation *relation, trn_plan **out,
                                trn_error **error) {
  spark_translator translator;
  return plan_relation(rpc, relation, out, false, &translator, error);
}

trn_status spark__plan_command(spark_rpc *rpc, const Google__Protobuf__Any *message, trn_plan **out,
                               trn_error **error) {
  spark_translator translator;
  *out = NULL;
  rpc->phase = SPARK_PHASE_ANALYSIS;
  trn_status status = spark__translator_init(&translator, rpc->session->session, rpc->session->catalog, error);
  if (status) return status;
  translator.is_cancelled = is_unwanted;
  translator.cancel_user = rpc;
  translator.cancel = spark__rpc_cancel(rpc);
  translator.registry = rpc->service->registry;
  return spark__translate_command(&translator, message, out, error);
}

/* The view as it is now, under its name. */
static trn_status reference_to(spark_rpc *rpc, const char *name, Spark__Connect__Relation **out, trn_error **error) {
  Spark__Connect__Relation *relation = TRN_NEW(rpc->arena, Spark__Connect__Relation);
  Spark__Connect__SubqueryAlias *alias = TRN_NEW(rpc->arena, Spark__Connect__SubqueryAlias);
  char *copy = trn__arena_strdup(rpc->arena, name);
  if (!relation || !alias || !copy) return trn__no_memory(error);
  spark__connect__relation__init(relation);
  spark__connect__subquery_alias__init(alias);
  bool exact = spark__config_bool(rpc->session, "spark.sql.caseSensitive");
  trn_status status = spark__catalog_view(rpc->session->catalog, rpc->arena, name, exact, &alias->input, error);
  if (status) return status;
  alias->alias = copy;
  relation->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS;
  relation->subquery_alias = alias;
  *out = alias->input ? relation : NULL; /* NULL: dropped meanwhile */
  return TRN_OK;
}

trn_status spark__freeze_views(spark_rpc *rpc, Spark__Connect__Relation **relation, trn_error **error) {
  spark_translator translator;
  trn_plan *plan = NULL;
  size_t used = 0, kept = 0;
  trn_status status = plan_relation(rpc, *relation, &plan, false, &translator, error);
  while (!status && spark__used_view(&translator, used)) used++;
  Spark__Connect__Relation **references = used ? TRN_NEW_N(rpc->arena, Spark__Connect__Relation *, used) : NULL;
  if (used && !references) status = trn__no_memory(error);
  for (size_t i = 0; i < used && !status; i++) {
    const char *name = spark__used_view(&translator, i);
    if (strncmp(name, "global_temp.", 12) == 0) continue; /* not to be had by one name */
    status = reference_to(rpc, name, &references[kept], error);
    if (!status && references[kept]) kept++;
  }
  trn_plan_unref(plan);
  if (status || !kept) return status;
  Spark__Connect__Relation *wrapped = TRN_NEW(rpc->arena, Spark__Connect__Relation);
  Spark__Connect__WithRelations *with = TRN_NEW(rpc->arena, Spark__Connect__WithRelations);
  if (!wrapped || !with) return trn__no_memory(error);
  spark__connect__relation__init(wrapped);
  spark__connect__with_relations__init(with);
  with->root = *relation;
  with->n_references = kept;
  with->references = references;
  wrapped->rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_WITH_RELATIONS;
  wrapped->with_relations = with;
  *relation = wrapped;
  return TRN_OK;
}

static trn_status append_observed(spark_execution *execution, spark_observed *observed) {
  trn_status status = TRN_OK;
  for (; observed && !status; observed = observed->next) {
    Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
    Spark__Connect__ExecutePlanResponse__ObservedMetrics *metrics = &observed->message;
    response.n_observed_metrics = 1;
    response.observed_metrics = &metrics;
    status = spark__execution_append(execution, &response);
  }
  return status;
}

/* The plan of what runs now; its metrics go to the client. */
static trn_status plan_to_run(spark_execution *execution, spark_rpc *rpc, const Spark__Connect__Relation *relation,
                              trn_plan **out, trn_error **error) {
  spark_translator translator;
  trn_status status = plan_relation(rpc, relation, out, true, &translator, error);
  if (!status && append_observed(execution, translator.observed)) {
    trn_plan_unref(*out);
    *out = NULL;
    return trn__no_memory(error);
  }
  return status;
}

static trn_status run_catalog(spark_execution *execution, spark_rpc *rpc, const Spark__Connect__Catalog *catalog,
                              trn_error **error) {
  spark_table table;
  const char *created = spark__created_table(catalog);
  trn_status status = spark__catalog_run(rpc, catalog, &table, error);
  if (status || !created) return status ? status : spark__execution_answer(execution, &table, error);
  trn_plan *plan = NULL; /* what was made is a table, and that is the answer */
  status = spark__plan_table(rpc, created, &plan, error);
  rpc->phase = SPARK_PHASE_EXECUTION;
  return status ? status : spark__execution_run(execution, plan, error);
}

static trn_status run_show(spark_execution *execution, spark_rpc *rpc, const Spark__Connect__Relation *input,
                           const spark_show *show, trn_error **error) {
  trn_plan *plan = NULL;
  trn_status status = plan_to_run(execution, rpc, input, &plan, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_EXECUTION;
  return spark__execution_run_show(execution, plan, show, error);
}

static trn_status run_relation(spark_execution *execution, spark_rpc *rpc, const Spark__Connect__Relation *relation,
                               trn_error **error) {
  switch (relation->rel_type_case) {
  case SPARK__CONNECT__RELATION__REL_TYPE_CATALOG: return run_catalog(execution, rpc, relation->catalog, error);
  case SPARK__CONNECT__RELATION__REL_TYPE_SHOW_STRING: {
    const Spark__Connect__ShowString *from = relation->show_string;
    const spark_show show = {.rows = from->num_rows, .truncate = from->truncate, .vertical = from->vertical};
    return run_show(execution, rpc, from->input, &show, error);
  }
  case SPARK__CONNECT__RELATION__REL_TYPE_HTML_STRING: {
    const Spark__Connect__HtmlString *from = relation->html_string;
    const spark_show show = {.rows = from->num_rows, .truncate = from->truncate, .html = true};
    return run_show(execution, rpc, from->input, &show, error);
  }
  default: break;
  }
  trn_plan *plan = NULL;
  trn_status status = plan_to_run(execution, rpc, relation, &plan, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_EXECUTION;
  return spark__execution_run(execution, plan, error);
}

static trn_status run_plan(spark_execution *execution, spark_rpc *rpc, const Spark__Connect__Plan *plan,
                           trn_error **error) {
  switch (plan ? plan->op_type_case : SPARK__CONNECT__PLAN__OP_TYPE__NOT_SET) {
  case SPARK__CONNECT__PLAN__OP_TYPE_ROOT: return run_relation(execution, rpc, plan->root, error);
  case SPARK__CONNECT__PLAN__OP_TYPE_COMMAND: return spark__command_run(rpc, execution, plan->command, error);
  case SPARK__CONNECT__PLAN__OP_TYPE_COMPRESSED_OPERATION: /* makes the client stop compressing */
    return spark__raise(error, TRN_UNIMPLEMENTED, "CONNECT_INVALID_PLAN.CANNOT_PARSE", "errorMsg",
                        "compressed plans are not supported", NULL, NULL, NULL, NULL);
  default: return spark__error_not_set(error, "spark.connect.Plan", "OPTYPE_NOT_SET");
  }
}

trn_status spark__handle_execute(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ExecutePlanRequest *request = (const Spark__Connect__ExecutePlanRequest *)message;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), true, error);
  if (status) return status;
  const char *id = request->_operation_id_case ? request->operation_id : NULL;
  if (id && !*id) id = NULL;
  if (id && !trn__uuid_is_valid(id)) return invalid_handle(error, TRN_INVALID_ARGUMENT, "INVALID_HANDLE.FORMAT", id);
  spark_execution *execution = NULL;
  status = spark__execution_create(rpc->session, id, &execution, error);
  size_t trace_size = 0;
  const void *trace = trn_call_metadata(rpc->call, "traceparent", &trace_size);
  if (!status && trace && trace_size == sizeof execution->traceparent - 1)
    memcpy(execution->traceparent, trace, trace_size); /* zero-terminated: it was made zeroed */
  if (!status) status = copy_tags(execution, request, error);
  if (!status) {
    read_options(execution, request);
    status = spark__session_add_execution(rpc->session, execution, error);
  }
  if (!status) {
    spark__execution_attach(execution, rpc, 0);
    /* From here on the outcome is the execution's: a call that reattaches gets it too. */
    trn_cancel *before = trn_cancel_work_for(execution->cancel);
    status = run_plan(execution, rpc, request->plan, error);
    trn_cancel_work_for(before);
    if (status) {
      spark_failure *failure = spark__failure_create(status, *error, rpc->phase, rpc->sql, true);
      spark__execution_finish(execution, status == TRN_CANCELLED ? SPARK_RUN_CANCELLED : SPARK_RUN_FAILED, failure);
      status = TRN_OK;
    }
  }
  spark__execution_unref(execution);
  return status;
}

/* ---- ReattachExecute ---- */

trn_status spark__handle_reattach(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ReattachExecuteRequest *request = (const Spark__Connect__ReattachExecuteRequest *)message;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), false, error);
  if (status) return status;
  spark_execution *execution = spark__session_execution(rpc->session, request->operation_id);
  if (!execution)
    return invalid_handle(error, TRN_NOT_FOUND, "INVALID_HANDLE.OPERATION_NOT_FOUND", request->operation_id);
  const char *last = request->_last_response_id_case ? request->last_response_id : NULL;
  uint64_t after = 0;
  if (!execution->is_reattachable) {
    status = spark__raise(error, TRN_FAILED_PRECONDITION, "INVALID_CURSOR.NOT_REATTACHABLE", NULL, NULL, NULL, NULL,
                          NULL, NULL);
  } else {
    status = spark__execution_cursor(execution, last, &after, error);
  }
  if (!status) spark__execution_attach(execution, rpc, after);
  spark__execution_unref(execution);
  return status;
}

/* ---- ReleaseExecute ---- */

trn_status spark__handle_release_execute(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ReleaseExecuteRequest *request = (const Spark__Connect__ReleaseExecuteRequest *)message;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), false, error);
  if (status) return status;
  Spark__Connect__ReleaseExecuteResponse reply = SPARK__CONNECT__RELEASE_EXECUTE_RESPONSE__INIT;
  reply.session_id = rpc->session->id;
  reply.server_side_session_id = (char *)rpc->session->server_id;
  spark_execution *execution = spark__session_execution(rpc->session, request->operation_id);
  if (execution && !execution->is_reattachable)
    status = spark__raise(error, TRN_FAILED_PRECONDITION, "INVALID_CURSOR.NOT_REATTACHABLE", NULL, NULL, NULL, NULL,
                          NULL, NULL);
  if (execution && !status) {
    if (request->release_case == SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_RELEASE_ALL) {
      spark__execution_interrupt(execution);
      spark__session_remove_execution(rpc->session, execution);
    } else if (request->release_case == SPARK__CONNECT__RELEASE_EXECUTE_REQUEST__RELEASE_RELEASE_UNTIL) {
      spark__execution_release(execution, request->release_until->response_id);
    }
    reply._operation_id_case = SPARK__CONNECT__RELEASE_EXECUTE_RESPONSE___OPERATION_ID_OPERATION_ID;
    reply.operation_id = request->operation_id;
  }
  if (!status) status = spark__rpc_reply(rpc, &reply.base, error);
  spark__execution_unref(execution);
  return status;
}
