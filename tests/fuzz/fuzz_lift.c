/* The engine's encoding of a plan, as a decoded query comes back: what clients send as DataFusion or Substrait plans
 * decides its bytes. Lifted with four sources (the last is a view) and an original. What must hold: an answer or an
 * error that says where; and what was lifted can be printed, has a fingerprint, survives the optimizer and is lowered
 * to bytes that can be lifted again. */
#include <stdlib.h>

#include "big_stack.h"
#include "engine/lift.h"
#include "faults.h"
#include "optimize/optimize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SOURCES = 4 };

struct trn_source {
  atomic_int refs;
};

typedef struct job {
  const uint8_t *data;
  size_t size;
} job;

static trn_source things[SOURCES + 1];

static trn_source *thing_ref(void *self, trn_source *source) {
  (void)self;
  atomic_fetch_add(&source->refs, 1);
  return source;
}

static void thing_release(void *source) {
  if (source) atomic_fetch_sub(&((trn_source *)source)->refs, 1);
}

static trn_plan *view_plan(void) {
  trn_arena *arena = trn__arena_create(0);
  trn_column *column = arena ? TRN_NEW(arena, trn_column) : NULL;
  trn_field *field = column ? TRN_NEW(arena, trn_field) : NULL;
  trn_plan *plan = NULL;
  if (!field) abort();
  *column = (trn_column){.id = 0, .type = trn__type(TRN_TYPE_INT64)};
  *field = (trn_field){.name = "v", .type = column->type};
  const trn_expr *one = trn__expr_int(arena, column->type, 1);
  trn_rel *root = trn__rel_create(arena, TRN_REL_VALUES, NULL, 0, &one, 1, column, 1);
  if (!root || trn__plan_create(arena, root, field, 1, "UTC", NULL, &plan)) abort();
  return plan;
}

static trn_status lift(const void *data, size_t size, size_t columns, trn_plan **out, trn_error **error) {
  static struct ArrowSchema children[64], *pointers[64];
  static trn_plan *view;
  if (!view) view = view_plan();
  trn_lift_source sources[SOURCES] = {{&things[0], NULL, NULL, NULL},
                                      {&things[1], NULL, NULL, NULL},
                                      {&things[2], NULL, NULL, NULL},
                                      {NULL, view, NULL, NULL}};
  trn_source *originals[1] = {&things[SOURCES]};
  for (size_t i = 0; i < columns; i++) {
    children[i] = (struct ArrowSchema){.format = "l", .name = "c", .flags = ARROW_FLAG_NULLABLE};
    pointers[i] = &children[i];
  }
  const struct ArrowSchema schema = {.format = "+s", .name = "", .n_children = (int64_t)columns, .children = pointers};
  const trn_lift_input input = {.data = data,
                                .size = size,
                                .sources = sources,
                                .source_count = SOURCES,
                                .originals = originals,
                                .original_count = 1,
                                .next_column = 0,
                                .schema = &schema,
                                .source_ref = thing_ref,
                                .source_release = thing_release};
  return trn__lift(&input, out, error);
}

static void check_error(trn_status status, trn_error *error) {
  if (status == TRN_UNKNOWN || (status && !error && !TRN_FUZZ_IS_SHORT)) abort();
  trn_error_unref(error);
}

/* Of a plan that the bytes made: everything that reads plans. */
static void use(trn_plan *plan) {
  char *text = NULL;
  uint8_t fingerprint[16];
  const trn_rel *root = NULL;
  trn_error *error = NULL;
  trn_lowered lowered = {0};
  uint32_t next = plan->next_column;
  if (trn_plan_print(plan, &text) == TRN_OK) trn_free(text);
  text = NULL;
  trn_plan_fingerprint(plan, fingerprint);
  trn_status status = trn_plan_to_sql(plan, "sqlite", &text, &error);
  check_error(status, error);
  trn_free(text);
  error = NULL;
  trn_arena *arena = trn__arena_create(0);
  if (!arena) return;
  status = trn__plan_check_size(plan->root, &error);
  if (!status) status = trn__decorrelate(arena, plan->root, &next, &root, &error);
  if (!status) status = trn__prune(arena, root, next, &root, &error);
  if (!status) status = trn__lower(root, false, &lowered, &error);
  check_error(status, error);
  if (!status && !lowered.sources.count && !lowered.originals.count) { /* their indexes are new */
    trn_plan *again = NULL;
    error = NULL;
    status = lift(lowered.bytes.data, lowered.bytes.size, root->column_count, &again, &error);
    if (status && status != TRN_RESOURCE_EXHAUSTED) abort();
    trn_error_unref(error);
    trn_plan_unref(again);
  }
  trn__lowered_finish(&lowered);
  trn__arena_unref(arena);
}

static void run(void *argument) {
  const job *j = argument;
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  trn_status status = lift(j->data + 1, j->size - 1, j->data[0] % 64, &plan, &error);
  check_error(status, error);
  if (!status) use(plan);
  trn_plan_unref(plan);
  for (size_t i = 0; i <= SOURCES; i++)
    if (atomic_load(&things[i].refs)) abort(); /* a source was kept, or given back twice */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  job j = {data, size};
  if (size) run_deep(run, &j); /* as backends do */
  return 0;
}
