/* Scripts: BEGIN ... END. The parts run one after the other on the worker that has the request; what a statement starts
 * is waited for. An error looks for an EXIT handler, from the innermost block outward. */
#include <stdio.h>
#include <strings.h>

#include "frontend/spark/service.h"
#include "frontend/spark/sql/sql.h"
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/variable.h"

typedef enum jump_kind { JUMP_NONE = 0, JUMP_LEAVE, JUMP_ITERATE } jump_kind;

struct spark_script_run {
  spark_rpc *rpc;
  spark_execution *execution;
  const char *sql; /* the script's text */
  jump_kind jump;  /* on the way to what has the label */
  const char *jump_label;
  unsigned steps;
  trn_strbuf rows; /* of the last query: an IPC stream; empty: there was none */
  bool fits;
};
typedef struct spark_script_run script_run;

static trn_status run_part(script_run *run, const spark_script *part, trn_error **error);
static trn_status run_block(script_run *run, const spark_script *block, trn_error **error);

static trn_status raise_at(trn_error **error, int32_t start, const char *condition, const char *key, const char *value) {
  if (!error) return TRN_INVALID_ARGUMENT;
  const trn_error_param params[] = {{key, value}};
  const trn_error_spec spec = {.struct_size = sizeof spec,
                               .status = TRN_INVALID_ARGUMENT,
                               .condition = condition,
                               .params = params,
                               .param_count = key ? 1 : 0,
                               .has_position = start >= 0,
                               .position = {start, start}};
  *error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

/* ---- before it runs: handlers ---- */

/* The conditions that the blocks around declare. */
typedef struct known {
  const struct known *outer;
  const spark_script *block;
} known;

static bool is_known(const known *known, const char *name) {
  for (; known; known = known->outer)
    for (size_t i = 0; i < known->block->condition_count; i++)
      if (strcmp(known->block->conditions[i], name) == 0) return true;
  return spark__condition_exists(name);
}

static trn_status check_twice(const spark_script_handler *handlers, size_t count, trn_error **error) {
  static const char *const conditions[] = {"DUPLICATE_EXCEPTION_HANDLER.CONDITION", "DUPLICATE_EXCEPTION_HANDLER.SQLSTATE",
                                           "DUPLICATE_EXCEPTION_HANDLER.NOT_FOUND",
                                           "DUPLICATE_EXCEPTION_HANDLER.SQLEXCEPTION"};
  static const char *const keys[] = {"condition", "sqlState", NULL, NULL};
  for (size_t h = 0; h < count; h++)
    for (size_t i = 0; i < handlers[h].condition_count; i++)
      for (size_t g = 0; g < h; g++)
        for (size_t k = 0; k < handlers[g].condition_count; k++) {
          const spark_script_condition *a = &handlers[h].conditions[i], *b = &handlers[g].conditions[k];
          if (a->kind == b->kind && (!a->name || strcmp(a->name, b->name) == 0))
            return raise_at(error, -1, conditions[a->kind], keys[a->kind], a->name);
        }
  return TRN_OK;
}

/* Recursion: the parser bounds the depth. */
static trn_status check(const spark_script *part, const known *outer, trn_error **error) {
  const known here = {outer, part};
  trn_status status = part->handler_count ? check_twice(part->handlers, part->handler_count, error) : TRN_OK;
  for (size_t h = 0; h < part->handler_count && !status; h++) {
    const spark_script_handler *handler = &part->handlers[h];
    for (size_t i = 0; i < handler->condition_count && !status; i++) {
      const spark_script_condition *condition = &handler->conditions[i];
      if (condition->kind == SPARK_HANDLER_CONDITION && !is_known(&here, condition->name))
        status = raise_at(error, handler->body->start, "INVALID_HANDLER_DECLARATION.CONDITION_NOT_FOUND", "condition",
                          condition->name);
    }
    if (!status) status = check(handler->body, &here, error);
  }
  for (size_t i = 0; i < part->item_count && !status; i++) status = check(part->items[i], &here, error);
  for (size_t i = 0; i < part->branch_count && !status; i++)
    if (part->branches[i].body) status = check(part->branches[i].body, &here, error);
  return part->body && !status ? check(part->body, &here, error) : status;
}

/* ---- errors and their handlers ---- */

static bool starts(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* How well the condition fits: more is better, 0 is not at all. */
static unsigned rank(const spark_script_condition *condition, const char *name, const char *sqlstate) {
  size_t size = condition->name ? strlen(condition->name) : 0;
  switch (condition->kind) {
  case SPARK_HANDLER_CONDITION:
    if (strcmp(condition->name, name) == 0) return 4;
    return starts(name, condition->name) && name[size] == '.' ? 3 : 0;
  case SPARK_HANDLER_SQLSTATE: return strcmp(condition->name, sqlstate) == 0 ? 2 : 0;
  case SPARK_HANDLER_NOT_FOUND: return starts(sqlstate, "02");
  default: return !starts(sqlstate, "02") && !starts(sqlstate, "XX");
  }
}

/* What has no condition is not Spark's error: cancelling, limits, a lack of memory. */
static const spark_script_handler *handler_of(const spark_script *block, trn_status status, const trn_error *error) {
  const char *name = error ? trn_error_condition(error) : NULL, *sqlstate = error ? trn_error_sqlstate(error) : NULL;
  const spark_script_handler *best = NULL;
  unsigned best_rank = 0;
  if (!name || status == TRN_CANCELLED) return NULL;
  if (!sqlstate && !spark__condition_find(name, &sqlstate, NULL)) sqlstate = "";
  for (size_t h = 0; h < block->handler_count; h++)
    for (size_t i = 0; i < block->handlers[h].condition_count; i++) {
      unsigned fit = rank(&block->handlers[h].conditions[i], name, sqlstate);
      if (fit <= best_rank) continue;
      best = &block->handlers[h];
      best_rank = fit;
    }
  return best;
}

/* ---- parts ---- */

static trn_status step(script_run *run, trn_error **error) {
  if (trn_cancel_is_requested(spark__rpc_cancel(run->rpc)))
    return spark__raise(error, TRN_CANCELLED, "OPERATION_CANCELED", NULL, NULL, NULL, NULL, NULL, NULL);
  if (++run->steps <= TRN_SCRIPT_STEPS_MAX) return TRN_OK;
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The script runs more steps than TRN_SCRIPT_STEPS_MAX (%u).",
                       TRN_SCRIPT_STEPS_MAX);
}

static trn_status is_true(script_run *run, const spark_script *part, const spark_script_branch *branch, bool *out,
                          trn_error **error) {
  bool is_boolean = false;
  Spark__Connect__Expression *condition = branch->condition;
  trn_status status = TRN_OK;
  if (branch->later.size) status = spark__script_read_later(run->rpc, run->sql, &branch->later, NULL, &condition, error);
  if (!status) status = spark__evaluate_condition(run->rpc, condition, &is_boolean, out, error);
  if (status || is_boolean) return status;
  return raise_at(error, part->start, "INVALID_BOOLEAN_STATEMENT", "invalidStatement", branch->text);
}

/* Whether a loop goes on behind a round of its body: a jump to its label ends here. */
static bool goes_on(script_run *run, const char *label) {
  if (!run->jump) return true;
  if (!label || strcasecmp(label, run->jump_label) != 0) return false;
  bool again = run->jump == JUMP_ITERATE;
  run->jump = JUMP_NONE;
  return again;
}

static trn_status run_branch(script_run *run, const spark_script *part, trn_error **error) {
  for (size_t i = 0; i < part->branch_count; i++) {
    bool found = false;
    trn_status status = is_true(run, part, &part->branches[i], &found, error);
    if (status) return status;
    if (found) return run_block(run, part->branches[i].body, error);
  }
  return part->body ? run_block(run, part->body, error) : TRN_OK;
}

/* WHILE, REPEAT, LOOP */
static trn_status run_loop(script_run *run, const spark_script *part, trn_error **error) {
  bool more = true;
  trn_status status = TRN_OK;
  while (!status && more) {
    status = step(run, error);
    if (!status && part->kind == SPARK_SCRIPT_WHILE) status = is_true(run, part, part->branches, &more, error);
    if (status || !more) break;
    status = run_block(run, part->body, error);
    if (status || !goes_on(run, part->label)) break;
    if (part->kind != SPARK_SCRIPT_REPEAT) continue;
    bool done = false;
    status = is_true(run, part, part->branches, &done, error);
    more = !done;
  }
  return status;
}

/* ---- FOR ---- */

/* The rows of the query, in the memory of `t`, which the caller gives back. */
static trn_status for_rows(script_run *run, const spark_script *part, spark_translator *t, const char ***names,
                           spark_rows *rows, trn_error **error) {
  spark_relation relation;
  spark_value *values = NULL;
  size_t count = 0;
  spark_sql_statement read = {.relation = part->query};
  trn_status status = TRN_OK;
  if (part->later.size) status = spark__script_read_later(run->rpc, run->sql, &part->later, &read, NULL, error);
  if (!status) status = spark__relation(t, read.relation, &relation, error);
  if (!status) status = spark__scope_values(t, relation.scope, &values, &count, error);
  *names = status ? NULL : TRN_NEW_N(t->arena, const char *, count);
  if (!status && !*names) status = trn__no_memory(error);
  for (size_t i = 0; i < count && !status; i++) (*names)[i] = values[i].name ? values[i].name : "";
  if (status) return status;
  run->rpc->phase = SPARK_PHASE_EXECUTION;
  status = spark__run_now(t, &relation, TRN_SCRIPT_ROWS_MAX + 1, rows, error);
  if (!status && rows->row_count > TRN_SCRIPT_ROWS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A FOR over more rows than TRN_SCRIPT_ROWS_MAX (%u).",
                         TRN_SCRIPT_ROWS_MAX);
  return status;
}

/* One round: the row's columns are variables, also behind the FOR's own. */
static trn_status for_round(script_run *run, const spark_script *part, const char *const *names,
                            const trn_expr *const *cells, size_t width, trn_error **error) {
  const spark_locals *outer = run->rpc->locals;
  spark_locals row = {.outer = outer, .label = part->variable ? part->variable : "\001", .variables = spark__variables_create()};
  trn_status status = row.variables ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < width && !status; i++)
    status = spark__variable_declare(row.variables, names[i], cells[i], NULL, true, error);
  run->rpc->locals = &row;
  if (!status) status = run_block(run, part->body, error);
  run->rpc->locals = outer;
  spark__variables_destroy(row.variables);
  return status;
}

static trn_status run_for(script_run *run, const spark_script *part, trn_error **error) {
  spark_translator t;
  spark_rows rows = {0};
  const char **names = NULL;
  trn_status status = spark__begin_translation(run->rpc, &t, error);
  if (status) return status;
  status = for_rows(run, part, &t, &names, &rows, error);
  for (size_t i = 0; i < rows.row_count && !status; i++) {
    status = step(run, error);
    if (!status) status = for_round(run, part, names, rows.cells + i * rows.width, rows.width, error);
    if (!goes_on(run, part->label)) break;
  }
  trn__arena_unref(t.arena);
  return status;
}

static trn_status run_statement(script_run *run, const spark_script *part, trn_error **error) {
  spark_rpc *rpc = run->rpc;
  const Spark__Connect__SQL *parameters = rpc->parameters;
  const spark_sql_statement *statement = part->statement;
  spark_sql_statement read;
  trn_status status = step(run, error);
  if (status) return status;
  rpc->sql = run->sql;
  if (part->later.size) {
    rpc->phase = SPARK_PHASE_PARSE;
    status = spark__script_read_later(rpc, run->sql, &part->later, &read, NULL, error);
    statement = &read;
  }
  rpc->phase = SPARK_PHASE_ANALYSIS;
  if (!status) status = spark__statement_run(rpc, run->execution, statement, error);
  if (!status) rpc->sql = run->sql; /* else it is the text that the error's position means */
  rpc->parameters = parameters;
  return status;
}

static trn_status run_part(script_run *run, const spark_script *part, trn_error **error) {
  switch (part->kind) {
  case SPARK_SCRIPT_BLOCK: return run_block(run, part, error);
  case SPARK_SCRIPT_STATEMENT: return run_statement(run, part, error);
  case SPARK_SCRIPT_BRANCH: return run_branch(run, part, error);
  case SPARK_SCRIPT_WHILE:
  case SPARK_SCRIPT_REPEAT:
  case SPARK_SCRIPT_LOOP: return run_loop(run, part, error);
  case SPARK_SCRIPT_FOR: return run_for(run, part, error);
  case SPARK_SCRIPT_LEAVE:
  case SPARK_SCRIPT_ITERATE:
    run->jump = part->kind == SPARK_SCRIPT_LEAVE ? JUMP_LEAVE : JUMP_ITERATE;
    run->jump_label = part->label;
    return step(run, error);
  }
  return TRN_OK;
}

static trn_status run_items(script_run *run, const spark_script *block, trn_error **error) {
  trn_status status = TRN_OK;
  trn_error *why = NULL;
  const spark_locals *here = run->rpc->locals;
  unsigned immediate_depth = run->rpc->immediate_depth;
  for (size_t i = 0; i < block->item_count && !status && !run->jump; i++)
    status = run_part(run, block->items[i], &why);
  const spark_script_handler *handler = status ? handler_of(block, status, why) : NULL;
  if (handler) { /* the block is over; its variables are still there */
    run->rpc->locals = here;
    run->rpc->immediate_depth = immediate_depth;
    run->rpc->sql = run->sql;
    trn_error_unref(why);
    why = NULL;
    status = run_part(run, handler->body, &why);
  }
  if (error) *error = why;
  else trn_error_unref(why);
  return status;
}

static trn_status run_block(script_run *run, const spark_script *block, trn_error **error) {
  spark_rpc *rpc = run->rpc;
  if (!block->has_scope) return run_items(run, block, error);
  char id[TRN_UUID_SIZE];
  trn__uuid4(id);
  const spark_locals *outer = rpc->locals;
  spark_locals scope = {.outer = outer, .label = block->label ? block->label : id, .variables = spark__variables_create()};
  if (!scope.variables) return trn__no_memory(error);
  rpc->locals = &scope;
  trn_status status = run_items(run, block, error);
  rpc->locals = outer;
  spark__variables_destroy(scope.variables);
  if (run->jump == JUMP_LEAVE && block->label && strcasecmp(block->label, run->jump_label) == 0) run->jump = JUMP_NONE;
  return status;
}

/* ---- the rows ---- */

trn_status spark__script_query(spark_rpc *rpc, spark_execution *execution, const Spark__Connect__Relation *query,
                               trn_error **error) {
  script_run *run = execution->script;
  trn_plan *plan = NULL;
  trn_status status = spark__plan_relation(rpc, query, &plan, error);
  if (status) return status;
  rpc->phase = SPARK_PHASE_EXECUTION;
  trn__strbuf_finish(&run->rows);
  run->rows = (trn_strbuf){0};
  status = spark__collect_ipc(rpc->session->session, plan, spark__rpc_cancel(rpc), TRN_SCRIPT_BYTES_MAX, &run->rows,
                              &run->fits, error);
  trn_plan_unref(plan);
  return status;
}

/* As the answer of any statement that has run already: a local relation. */
static trn_status answer(script_run *run, trn_error **error) {
  Spark__Connect__ExecutePlanResponse response = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__INIT;
  Spark__Connect__ExecutePlanResponse__SqlCommandResult result =
      SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__SQL_COMMAND_RESULT__INIT;
  Spark__Connect__LocalRelation local;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  const spark_table nothing = {.arena = run->rpc->arena};
  spark__connect__local_relation__init(&local);
  local._data_case = SPARK__CONNECT__LOCAL_RELATION___DATA_DATA;
  if (run->rows.size && !run->fits)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "The script's last query has more rows than TRN_SCRIPT_BYTES_MAX (%u bytes).",
                         TRN_SCRIPT_BYTES_MAX);
  local.data.data = (uint8_t *)run->rows.data;
  local.data.len = run->rows.size;
  if (!run->rows.size && spark__table_stream(&nothing, &local.data)) return trn__no_memory(error);
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION;
  relation.local_relation = &local;
  result.relation = &relation;
  response.response_type_case = SPARK__CONNECT__EXECUTE_PLAN_RESPONSE__RESPONSE_TYPE_SQL_COMMAND_RESULT;
  response.sql_command_result = &result;
  if (spark__execution_append(run->execution, &response)) return trn__no_memory(error);
  spark__execution_finish(run->execution, SPARK_RUN_SUCCEEDED, NULL);
  return TRN_OK;
}

trn_status spark__script_run(spark_rpc *rpc, spark_execution *execution, const spark_sql_statement *statement,
                             trn_error **error) {
  script_run run = {.rpc = rpc, .execution = execution, .sql = rpc->sql};
  trn_status status = check(statement->script, NULL, error);
  if (!status) {
    execution->script = &run;
    status = run_block(&run, statement->script, error);
    execution->script = NULL;
  }
  if (!status) status = answer(&run, error);
  trn__strbuf_finish(&run.rows);
  if (!status || !trn_cancel_is_requested(spark__rpc_cancel(rpc))) return status;
  if (error) { /* whatever it was that noticed */
    trn_error_unref(*error);
    *error = NULL;
  }
  return spark__raise(error, TRN_CANCELLED, "OPERATION_CANCELED", NULL, NULL, NULL, NULL, NULL, NULL);
}
