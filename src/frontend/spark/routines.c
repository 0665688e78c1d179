/* CREATE FUNCTION and DROP FUNCTION: the statement's text is what is kept. */
#include "frontend/spark/service.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/values.h"

static trn_status exists_already(spark_routine_name *name, trn_error **error) {
  return spark__raise(error, TRN_ALREADY_EXISTS, "ROUTINE_ALREADY_EXISTS", "routineName", name->quoted,
                      "newRoutineType", "routine", "existingRoutineType", "routine");
}

static trn_status create(spark_rpc *rpc, spark_translator *t, const Spark__Connect__TrnCreateFunction *function,
                         trn_error **error) {
  spark_routine_name name;
  trn_status status = spark__routine_name(t, function->name, function->temporary, &name, error);
  if (status) return status;
  name.ansi = t->ansi;
  spark_routines *routines = spark__catalog_routines(rpc->session->catalog, function->temporary);
  if (!function->replace && spark__routine_has(routines, name.key))
    return function->if_not_exists ? TRN_OK : exists_already(&name, error);
  if (function->body || function->query)
    status = spark__routine_check(t, function, &name, error);
  else if (!spark__library_has(t, function->body_text, false) && !spark__library_has(t, function->body_text, true))
    return spark__raise(error, TRN_INVALID_ARGUMENT, "CANNOT_LOAD_FUNCTION_CLASS", "className", function->body_text,
                        "functionName", name.quoted, NULL, NULL);
  const char *text = trn__arena_printf(t->arena, "%c%s", t->ansi ? SPARK_ROUTINE_ANSI : ' ', rpc->sql);
  if (!status && !text) status = trn__no_memory(error);
  if (!status) status = spark__routine_add(routines, name.key, text, function->replace, error);
  if (status != TRN_ALREADY_EXISTS) return status;
  return function->if_not_exists ? TRN_OK : exists_already(&name, error);
}

static trn_status drop(spark_rpc *rpc, spark_translator *t, const Spark__Connect__TrnDropFunction *message,
                       trn_error **error) {
  spark_routine_name name;
  trn_status status = spark__routine_name(t, message->name, message->temporary, &name, error);
  if (status || spark__routine_drop(spark__catalog_routines(rpc->session->catalog, message->temporary), name.key) ||
      message->if_exists)
    return status;
  return spark__raise(error, TRN_NOT_FOUND, "ROUTINE_NOT_FOUND", "routineName", name.quoted, NULL, NULL, NULL, NULL);
}

trn_status spark__routine_statement(spark_rpc *rpc, const Spark__Connect__Command *command, bool *done,
                                    trn_error **error) {
  bool creates = command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_CREATE_FUNCTION;
  spark_translator t;
  *done = creates || command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DROP_FUNCTION;
  if (!*done) return TRN_OK;
  trn_status status = spark__begin_translation(rpc, &t, error);
  if (status) return status;
  status = creates ? create(rpc, &t, command->trn_create_function, error)
                   : drop(rpc, &t, command->trn_drop_function, error);
  trn__arena_unref(t.arena);
  return status;
}
