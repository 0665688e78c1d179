/* Requests to the Spark Connect service over a backend without an engine. The first byte says what follows: 'e' a Plan
 * for ExecutePlan, 'a' the rest of an AnalyzePlanRequest behind its session, both through the whole service; else a
 * Relation that is translated at once. Every plan that is executed or translated goes through the optimizer, is lowered
 * and lifted again. What must hold: each call ends, with a status that Spark's clients understand; errors have a text.
 */
#include <stdlib.h>
#include <unistd.h>

#include "big_stack.h"
#include "engine/lift.h"
#include "frontend/wire/wire.h"
#include "optimize/optimize.h"
#include "support/spark_client.h"
#include "support/spark_plans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { RUNS_PER_SERVICE = 500, ROWS_MAX = 10000 };

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char folder[] = "/tmp/trn-fuzz-spark-XXXXXX";
  (void)argc, (void)argv;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : 1;
}

typedef struct job {
  const uint8_t *data;
  size_t size;
} job;

static spark_client client;
static spark_plans plans;
static unsigned runs;

/* ---- what a backend does with a plan ---- */

static void lower_and_lift(const trn_plan *plan) {
  const trn_rel *root = NULL;
  trn_error *error = NULL;
  trn_lowered lowered = {0};
  uint32_t next = plan->next_column;
  char *text = NULL;
  if (trn_plan_print(plan, &text) == TRN_OK) trn_free(text);
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return;
  trn_status status = trn__plan_check_size(plan->root, &error);
  if (!status) status = trn__decorrelate(arena, plan->root, &next, &root, &error);
  if (!status) status = trn__prune(arena, root, next, &root, &error);
  if (!status) status = trn__lower(root, false, &lowered, &error);
  if (status == TRN_INTERNAL || (status && !error)) abort();
  trn_error_unref(error);
  trn__lowered_finish(&lowered);
  trn__arena_unref(arena);
}

static trn_walk find_many(void *user, const trn_rel *rel) {
  bool *many = user;
  if (rel->kind == TRN_REL_RANGE) {
    double count = ((double)rel->u.range.end - (double)rel->u.range.start) / (double)rel->u.range.step;
    *many |= count > ROWS_MAX;
  }
  return TRN_WALK_ON;
}

/* No fuzzer waits for a thousand million rows. */
static trn_status script_for(void *user, trn_session *session, trn_plan *plan, trn_script *script) {
  bool many = false;
  const trn_visitor visitor = {.rel = find_many, .user = &many};
  (void)user, (void)session;
  lower_and_lift(plan);
  if (trn__plan_walk(plan->root, &visitor) || many) {
    script->execute_status = TRN_RESOURCE_EXHAUSTED;
    script->message = "too many rows";
    return TRN_OK;
  }
  return TRN_UNIMPLEMENTED;
}

static void restart(void) {
  if (runs) {
    client_stop(&client);
    plans_close(&plans);
  }
  if (client_start(&client, NULL) || !plans_open(&plans) ||
      !plans_table(&plans, "t", "a INT, b STRING, c DECIMAL(10,2)") ||
      !plans_table(&plans, "u", "a BIGINT, d DATE, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>"))
    abort();
  trn__scripted_on_plan(client.scripted, script_for, NULL);
  trn__scripted_on_plan(plans.control, script_for, NULL);
}

/* ---- the three ways ---- */

static void put_field(trn_strbuf *out, unsigned number, const void *data, size_t size) {
  trn__strbuf_putc(out, (char)(number << 3 | 2));
  for (size_t rest = size; rest > 127 || (trn__strbuf_putc(out, (char)rest), false); rest >>= 7)
    trn__strbuf_putc(out, (char)(rest | 128));
  trn__strbuf_add(out, data, size);
}

/* What writes would leave files where they say. */
static bool writes(const uint8_t *data, size_t size) {
  Spark__Connect__Plan *plan = spark__connect__plan__unpack(NULL, size, data);
  bool does = false;
  if (plan && plan->op_type_case == SPARK__CONNECT__PLAN__OP_TYPE_COMMAND && plan->command) {
    const Spark__Connect__Command *command = plan->command;
    does = command->command_type_case != SPARK__CONNECT__COMMAND__COMMAND_TYPE_CREATE_DATAFRAME_VIEW &&
           command->command_type_case != SPARK__CONNECT__COMMAND__COMMAND_TYPE_CHECKPOINT_COMMAND &&
           command->command_type_case != SPARK__CONNECT__COMMAND__COMMAND_TYPE_SQL_COMMAND;
  }
  if (plan) spark__connect__plan__free_unpacked(plan, NULL);
  return does || memmem(data, size, "/", 1);
}

static void call(const char *method, unsigned field, const uint8_t *data, size_t size) {
  trn_strbuf request = {0};
  char path[128];
  trn_inproc_reply reply;
  put_field(&request, 1, client.session_id, strlen(client.session_id));
  if (field)
    put_field(&request, field, data, size);
  else
    trn__strbuf_add(&request, data, size);
  if (request.failed) abort();
  snprintf(path, sizeof path, "%s%s", SPARK_TEST_PATH, method);
  const trn_inproc_request what = {.path = path, .timeout_ns = 60000000000};
  const trn_slice message = {.data = request.data, .size = request.size};
  if (trn__inproc_invoke(client.inproc, &what, &message, 1, &reply)) abort();
  /* Never a status that clients retry for minutes, and never none in time. */
  if (reply.status != TRN_OK && reply.status != TRN_INTERNAL && reply.status != TRN_RESOURCE_EXHAUSTED &&
      reply.status != TRN_UNIMPLEMENTED) {
    fprintf(stderr, "%s: status %d, %s\n", method, (int)reply.status, reply.message);
    abort();
  }
  if (reply.status && !*reply.message) abort();
  trn__inproc_reply_finish(&reply);
  trn__strbuf_finish(&request);
}

static void translate(void *argument) {
  const job *j = argument;
  const trn_wire_limits limits = {TRN_WIRE_DEPTH_MAX, TRN_WIRE_NODES_MAX, 2000};
  const char *where = NULL;
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  if (trn__wire_check(&spark__connect__relation__descriptor, j->data, j->size, &limits, &where)) return;
  Spark__Connect__Relation *relation = spark__connect__relation__unpack(NULL, j->size, j->data);
  if (!relation) return;
  trn_status status = plans_relation(&plans, relation, &plan, &error);
  if (status == TRN_UNKNOWN || (status && !error)) abort();
  if (!status) lower_and_lift(plan);
  trn_error_unref(error);
  trn_plan_unref(plan);
  spark__connect__relation__free_unpacked(relation, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (runs % RUNS_PER_SERVICE == 0) restart();
  runs++;
  if (!size) return 0;
  job j = {data + 1, size - 1};
  switch (data[0]) {
  case 'e':
    if (!writes(j.data, j.size)) call("ExecutePlan", 3, j.data, j.size);
    break;
  case 'a':
    if (!memmem(j.data, j.size, "/", 1)) call("AnalyzePlan", 0, j.data, j.size);
    break;
  default: run_deep(translate, &j);
  }
  return 0;
}
