/* EXPLAIN on a cluster: a table of three rows, whatever the backend. */
#include "arrow/arrow_util.h"
#include "frontend/ballista/ballista.h"

/* Text of a plan on the heap; what a backend does not tell is said so, as Ballista does. */
static trn_status text_of(trn_session *session, trn_plan *plan, trn_explain_mode mode, const char *name, char **out,
                          trn_error **error) {
  trn_error *own = NULL;
  trn_status status = trn_backend_explain(session, plan, mode, out, &own);
  if (status == TRN_UNIMPLEMENTED) {
    trn_strbuf text = {0};
    trn__strbuf_printf(&text, "<%s plan not available>", name);
    *out = text.failed ? NULL : text.data;
    trn_error_unref(own);
    return *out ? TRN_OK : trn__no_memory(error);
  }
  if (status && error)
    *error = own;
  else
    trn_error_unref(own);
  return status;
}

static trn_status rows_schema(struct ArrowSchema *out) {
  static const char *const names[] = {"plan_type", "plan"};
  trn_status status = trn__schema_init(out, "+s", NULL, 0, NULL, 0, 2);
  for (size_t i = 0; i < 2 && !status; i++) status = trn__schema_init(out->children[i], "u", names[i], 0, NULL, 0, 0);
  return status;
}

static trn_status rows_build(const struct ArrowSchema *schema, const char *const texts[3], struct ArrowArray *out) {
  static const char *const kinds[] = {"logical_plan", "physical_plan", "distributed_plan"};
  trn_array_builder *builder;
  trn_status status = trn__array_builder_create(schema, &builder);
  if (status) return status;
  for (size_t i = 0; i < 3; i++) {
    trn__array_append_bytes(trn__array_builder_child(builder, 0), kinds[i], strlen(kinds[i]));
    trn__array_append_bytes(trn__array_builder_child(builder, 1), texts[i],
                            strnlen(texts[i], TRN_PLAN_PRINT_BYTES_MAX));
    trn__array_append_end(builder);
  }
  status = trn__array_builder_finish(builder, out);
  trn__array_builder_destroy(builder);
  return status;
}

trn_status ballista__explain(ballista_service *service, trn_session *session, trn_plan *plan, ballista_result **out,
                             trn_error **error) {
  struct ArrowSchema schema = {0};
  struct ArrowArray rows = {0};
  trn_strbuf schema_bytes = {0}, bytes = {0}, stages = {0};
  char *logical = NULL, *physical = NULL;
  trn_status status = text_of(session, plan, TRN_EXPLAIN_OPTIMIZED, "logical", &logical, error);
  if (!status) status = text_of(session, plan, TRN_EXPLAIN_PHYSICAL, "physical", &physical, error);
  if (!status) {
    /* One stage: how a backend spreads its work is its own business. */
    trn__strbuf_printf(&stages, "=========Stage[stage_id=1, partitions=1]=========\n");
    trn__strbuf_puts(&stages, physical);
    const char *const texts[] = {logical, physical, stages.data};
    status = stages.failed ? TRN_RESOURCE_EXHAUSTED : rows_schema(&schema);
    if (!status) status = rows_build(&schema, texts, &rows);
    if (!status) status = trn__ipc_write_schema(&schema, &schema_bytes);
    if (!status) status = trn__ipc_write_batch(&schema, &rows, &bytes);
    if (status) trn__no_memory(error);
  }
  if (!status) status = ballista__result_of(service, &schema_bytes, &bytes, 3, out, error);
  trn__array_release(&rows);
  trn__schema_release(&schema);
  trn__strbuf_finish(&schema_bytes);
  trn__strbuf_finish(&bytes);
  trn__strbuf_finish(&stages);
  trn_free(logical);
  trn_free(physical);
  return status;
}
