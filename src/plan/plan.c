/* Plans: the root, its display names, and the life of the arena. */
#include "plan/plan.h"

#include "arrow/arrow_util.h"

trn_status trn__plan_create(trn_arena *arena, const trn_rel *root, const trn_field *fields, uint32_t next_column,
                            const char *timezone, const char *sql, trn_plan **out) {
  *out = NULL;
  trn_plan *plan = TRN_NEW(arena, trn_plan);
  const char *zone = timezone ? trn__arena_strdup(arena, timezone) : NULL;
  const char *text = sql ? trn__arena_strdup(arena, sql) : NULL;
  uint64_t nodes = 0; /* what a schema will cost, and every message with it */
  for (uint32_t i = 0; i < root->column_count; i++)
    nodes += fields[i].type->node_count ? fields[i].type->node_count : 1;
  if (!plan || (timezone && !zone) || (sql && !text) || nodes > TRN_SCHEMA_NODES_MAX) {
    trn__arena_unref(arena);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&plan->refs, 1);
  atomic_init(&plan->has_fingerprint, false);
  atomic_flag_clear(&plan->fingerprint_taken);
  atomic_init(&plan->found_functions, NULL);
  plan->arena = arena;
  plan->root = root;
  plan->fields = fields;
  plan->field_count = root->column_count;
  plan->next_column = next_column;
  plan->timezone = zone;
  plan->sql = text;
  *out = plan;
  return TRN_OK;
}

trn_plan *trn_plan_ref(trn_plan *plan) {
  atomic_fetch_add_explicit(&plan->refs, 1, memory_order_relaxed);
  return plan;
}

void trn_plan_unref(trn_plan *plan) {
  if (!plan || atomic_fetch_sub_explicit(&plan->refs, 1, memory_order_acq_rel) != 1) return;
  free(atomic_load_explicit(&plan->found_functions, memory_order_acquire));
  trn__arena_unref(plan->arena); /* the plan itself is in it */
}

trn_status trn_plan_schema(const trn_plan *plan, struct ArrowSchema *out) {
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, plan->field_count);
  if (status) return status;
  for (uint32_t i = 0; i < plan->field_count && status == TRN_OK; i++) {
    const trn_field *field = &plan->fields[i];
    status =
        trn__type_export(field->type, field->name, field->nullable, field->metadata, plan->timezone, out->children[i]);
  }
  if (status) trn__schema_release(out);
  return status;
}
