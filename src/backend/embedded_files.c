/* Files as the engine's sources. */
#include "backend/embedded.h"
#include <stdlib.h>
#include <string.h>

/* A failure names paths as they were given, not as they were opened. */
static void name_as_given(const trn_source_request *request, const char *const *opened, const trn_error_param *from,
                          trn_error_param *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = from[i];
    if (strcmp(to[i].key, "path") != 0) continue;
    for (size_t k = 0; k < request->path_count; k++)
      if (strcmp(to[i].value, opened[k]) == 0) to[i].value = request->paths[k];
  }
}

static trn_status failed(const trn_source_request *request, const char *const *opened, trn_engine_error *failure,
                         trn_error **error) {
  trn_error_param *params = calloc(failure->param_count + 1, sizeof *params);
  if (params) {
    name_as_given(request, opened, failure->params, params, failure->param_count);
    failure->params = params;
  }
  trn_status status = trn__engine_error(failure, error);
  free(params);
  return status;
}

trn_status trn__embedded_open_files(trn_embedded *backend, trn_engine_session *session,
                                    const trn_source_request *request, trn_engine_source **out,
                                    struct ArrowSchema *schema, trn_error **error) {
  trn_engine_error failure = {.position = -1};
  const char **opened = calloc(request->path_count + 1, sizeof *opened);
  trn_status status = opened ? TRN_OK : trn__no_memory(error);
  for (size_t i = 0; i < request->path_count && !status; i++)
    status = trn__path_opened(request->paths[i], &opened[i], error);
  if (!status && backend->engine->source_files(session, request->format, opened, request->path_count, request->options,
                                               request->option_count, request->schema, out, schema, &failure))
    status = failed(request, opened, &failure, error);
  free(opened);
  return status;
}
