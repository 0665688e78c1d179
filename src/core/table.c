/* Tables that the program implements, as sources. */
#include <trunnion/table.h>

#include "core/query.h"

trn_status trn_table_source_create(trn_session *session, const trn_table_provider_ops *ops, void *self,
                                   trn_scan_label *label, trn_source **out, struct ArrowSchema *schema,
                                   trn_error **error) {
  trn_table_provider provider = {.struct_size = sizeof provider, .self = self};
  memcpy(&provider.ops, ops, trn__struct_size(ops->struct_size, sizeof provider.ops));
  if (!provider.ops.schema || !provider.ops.scan)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a table needs a schema and a scan");
  const trn_source_request request = {.struct_size = sizeof request,
                                      .format = TRN_SOURCE_TABLE,
                                      .data = &provider,
                                      .data_size = sizeof provider,
                                      .label = label};
  return trn_backend_open_source(session, &request, out, schema, error);
}
