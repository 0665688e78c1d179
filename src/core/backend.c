/* Backends: a checked, full-size copy of somebody's table. */
#include "core/core.h"

#include <pthread.h>
#include <trunnion/catalog.h>

#include "core/query.h"

struct trn_backend {
  atomic_size_t refs;
  trn_backend_ops ops;
  void *self;
  pthread_mutex_t mu;
  trn_vec catalogs; /* trn_catalog, one reference each; only grows; guarded by mu */
};

/* ---- what stands in for optional slots ---- */

static void stub_close_session(void *self, void *session_state) {
  (void)self;
  (void)session_state;
}

static trn_status stub_open_source(void *self, void *session_state, const trn_source_request *request, trn_source **out,
                                   struct ArrowSchema *schema, trn_error **error) {
  (void)self;
  (void)session_state;
  (void)request;
  (void)out;
  (void)schema;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this backend opens no sources");
}

static trn_source *stub_source_ref(void *self, trn_source *source) {
  (void)self;
  return source;
}

static void stub_source_unref(void *self, trn_source *source) {
  (void)self;
  (void)source;
}

static trn_status stub_explain(void *self, void *session_state, trn_plan *plan, trn_explain_mode mode, char **out,
                               trn_error **error) {
  (void)self;
  (void)session_state;
  (void)plan;
  (void)mode;
  (void)out;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this backend does not explain plans");
}

static trn_status stub_decode(void *self, void *session_state, const trn_plan_input *input, trn_plan **out,
                              trn_error **error) {
  (void)self;
  (void)session_state;
  (void)out;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this backend does not decode plans of format '%s'",
                       input->format);
}

static trn_status stub_encode(void *self, void *session_state, trn_plan *plan, const char *format, trn_bytes *out,
                              trn_error **error) {
  (void)self;
  (void)session_state;
  (void)plan;
  (void)out;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this backend does not encode plans as '%s'", format);
}

static trn_status stub_check(void *self, void *session_state, trn_plan *plan, trn_error **error) {
  (void)self, (void)session_state, (void)plan, (void)error;
  return TRN_OK;
}

static void stub_destroy(void *self) {
  (void)self;
}

trn_status trn_backend_create(const trn_backend_ops *given, void *self, trn_backend **out) {
  *out = NULL;
  trn_backend_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  bool has_sources = ops.open_source != NULL;
  if (!ops.open_session || !ops.execute || (has_sources && (!ops.source_ref || !ops.source_unref)) ||
      !ops.catalog != !ops.list_catalogs)
    return TRN_INVALID_ARGUMENT;
  if (!ops.close_session) ops.close_session = stub_close_session;
  if (!ops.open_source) ops.open_source = stub_open_source;
  if (!ops.source_ref) ops.source_ref = stub_source_ref;
  if (!ops.source_unref) ops.source_unref = stub_source_unref;
  if (!ops.explain) ops.explain = stub_explain;
  if (!ops.destroy) ops.destroy = stub_destroy;
  if (!ops.decode) ops.decode = stub_decode;
  if (!ops.encode) ops.encode = stub_encode;
  if (!ops.check) ops.check = stub_check;
  trn_backend *backend = calloc(1, sizeof *backend);
  if (!backend) return TRN_RESOURCE_EXHAUSTED;
  if (pthread_mutex_init(&backend->mu, NULL) != 0) {
    free(backend);
    return TRN_RESOURCE_EXHAUSTED;
  }
  atomic_init(&backend->refs, 1);
  backend->ops = ops;
  backend->self = self;
  *out = backend;
  return TRN_OK;
}

trn_backend *trn_backend_ref(trn_backend *backend) {
  atomic_fetch_add_explicit(&backend->refs, 1, memory_order_relaxed);
  return backend;
}

void trn_backend_unref(trn_backend *backend) {
  if (!backend || atomic_fetch_sub_explicit(&backend->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < backend->catalogs.count; i++) trn_catalog_unref(backend->catalogs.items[i]);
  trn__vec_finish(&backend->catalogs);
  backend->ops.destroy(backend->self);
  pthread_mutex_destroy(&backend->mu);
  free(backend);
}

trn_status trn__backend_open(trn_backend *backend, trn_session *session, void **state, trn_error **error) {
  *state = NULL;
  return backend->ops.open_session(backend->self, session, state, error);
}

void trn__backend_close(trn_backend *backend, void *state) {
  backend->ops.close_session(backend->self, state);
}

static bool is_unwanted(void) {
  return trn_cancel_is_requested(trn_cancel_of_work());
}

trn_status trn_backend_open_source(trn_session *session, const trn_source_request *given, trn_source **out,
                                   struct ArrowSchema *schema, trn_error **error) {
  *out = NULL;
  *schema = (struct ArrowSchema){0};
  trn_source_request request = {0};
  memcpy(&request, given, trn__struct_size(given->struct_size, sizeof request));
  request.struct_size = sizeof request;
  if (!request.format) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a source has no format");
  if (is_unwanted()) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  trn_status status =
      backend->ops.open_source(backend->self, trn_session_backend_state(session), &request, out, schema, error);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no source");
  return status;
}

trn_source *trn_backend_source_ref(trn_backend *backend, trn_source *source) {
  return source ? backend->ops.source_ref(backend->self, source) : NULL;
}

void trn_backend_source_unref(trn_backend *backend, trn_source *source) {
  if (source) backend->ops.source_unref(backend->self, source);
}

trn_status trn_backend_execute(trn_session *session, const trn_execute_request *given, trn_operation **out,
                               trn_error **error) {
  *out = NULL;
  trn_execute_request request = {0};
  memcpy(&request, given, trn__struct_size(given->struct_size, sizeof request));
  request.struct_size = sizeof request;
  if (!request.plan) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "there is no plan to execute");
  if (!request.cancel) request.cancel = trn_cancel_of_work();
  if (trn_cancel_is_requested(request.cancel)) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  trn_cancel *before = trn_cancel_work_for(request.cancel);
  trn_status status = backend->ops.execute(backend->self, trn_session_backend_state(session), &request, out, error);
  trn_cancel_work_for(before);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no operation");
  return status;
}

trn_status trn_backend_explain(trn_session *session, trn_plan *plan, trn_explain_mode mode, char **out,
                               trn_error **error) {
  *out = NULL;
  if (is_unwanted()) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  trn_status status = backend->ops.explain(backend->self, trn_session_backend_state(session), plan, mode, out, error);
  if (!status && !*out) status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no text");
  return status;
}

static void release_query(trn_statement *statement) {
  trn_plan_unref(statement->plan);
  *statement = (trn_statement){0};
}

/* A backend that only knows queries. */
static trn_status decode_query(trn_backend *backend, void *state, const trn_plan_input *input, trn_statement *out,
                               trn_error **error) {
  trn_plan *plan = NULL;
  trn_status status = backend->ops.decode(backend->self, state, input, &plan, error);
  if (!status && !plan) status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no plan");
  if (!status) *out = (trn_statement){.struct_size = sizeof *out, .plan = plan, .release = release_query};
  return status;
}

trn_status trn__backend_decode_statement(trn_backend *backend, void *state, const trn_plan_input *given,
                                         trn_statement *out, trn_error **error) {
  *out = (trn_statement){0};
  trn_plan_input input = {0};
  memcpy(&input, given, trn__struct_size(given->struct_size, sizeof input));
  input.struct_size = sizeof input;
  if (!input.format) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a plan to decode has no format");
  if (!input.cancel) input.cancel = trn_cancel_of_work();
  if (trn_cancel_is_requested(input.cancel)) return trn__cancelled(error);
  trn_cancel *before = trn_cancel_work_for(input.cancel);
  trn_status status = backend->ops.decode_statement
                          ? backend->ops.decode_statement(backend->self, state, &input, out, error)
                          : decode_query(backend, state, &input, out, error);
  trn_cancel_work_for(before);
  return status;
}

trn_status trn_backend_decode_statement(trn_session *session, const trn_plan_input *input, trn_statement *out,
                                        trn_error **error) {
  return trn__backend_decode_statement(trn_session_backend(session), trn_session_backend_state(session), input, out,
                                       error);
}

trn_status trn_backend_decode(trn_session *session, const trn_plan_input *given, trn_plan **out, trn_error **error) {
  *out = NULL;
  trn_plan_input input = {0};
  memcpy(&input, given, trn__struct_size(given->struct_size, sizeof input));
  input.struct_size = sizeof input;
  if (!input.format) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a plan to decode has no format");
  if (!input.cancel) input.cancel = trn_cancel_of_work();
  if (trn_cancel_is_requested(input.cancel)) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  trn_cancel *before = trn_cancel_work_for(input.cancel);
  trn_status status = backend->ops.decode(backend->self, trn_session_backend_state(session), &input, out, error);
  trn_cancel_work_for(before);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no plan");
  return status;
}

trn_status trn_backend_check(trn_session *session, trn_plan *plan, trn_error **error) {
  if (is_unwanted()) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  return backend->ops.check(backend->self, trn_session_backend_state(session), plan, error);
}

trn_status trn_backend_encode(trn_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                              trn_error **error) {
  *out = (trn_bytes){0};
  if (is_unwanted()) return trn__cancelled(error);
  trn_backend *backend = trn_session_backend(session);
  return backend->ops.encode(backend->self, trn_session_backend_state(session), plan, format, out, error);
}

/* ---- catalogs ---- */

bool trn__backend_has_catalogs(const trn_backend *backend) {
  return backend->ops.catalog != NULL;
}

trn_status trn__backend_catalog(trn_backend *backend, void *state, const char *name, trn_catalog **out,
                                trn_error **error) {
  *out = NULL;
  trn_status status = backend->ops.catalog(backend->self, state, name, out, error);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no catalog");
  return status;
}

trn_status trn__backend_list_catalogs(trn_backend *backend, void *state, void (*each)(void *user, const char *name),
                                      void *user, trn_error **error) {
  return backend->ops.list_catalogs(backend->self, state, each, user, error);
}

/* locks: backend->mu held */
static trn_catalog *find_catalog(const trn_backend *backend, const char *name, size_t from) {
  for (size_t i = from; i < backend->catalogs.count; i++)
    if (!name || strcmp(trn_catalog_name(backend->catalogs.items[i]), name) == 0) return backend->catalogs.items[i];
  return NULL;
}

trn_catalog *trn__backend_added_catalog(trn_backend *backend, const char *name, size_t *index) {
  pthread_mutex_lock(&backend->mu);
  trn_catalog *found = find_catalog(backend, name, index ? (*index)++ : 0);
  if (found) trn_catalog_ref(found);
  pthread_mutex_unlock(&backend->mu);
  return found;
}

trn_status trn__backend_add_catalog(trn_backend *backend, trn_catalog *catalog, bool only_first) {
  trn_status status = TRN_OK;
  pthread_mutex_lock(&backend->mu);
  if (only_first ? backend->catalogs.count > 0 : find_catalog(backend, trn_catalog_name(catalog), 0) != NULL)
    status = TRN_ALREADY_EXISTS;
  else if (trn__vec_push(&backend->catalogs, catalog))
    trn_catalog_ref(catalog);
  else
    status = TRN_RESOURCE_EXHAUSTED;
  pthread_mutex_unlock(&backend->mu);
  return status;
}

const trn_backend_ops *trn__backend_ops(const trn_backend *backend, void **self) {
  *self = backend->self;
  return &backend->ops;
}

/* ---- sources held by plans ---- */

typedef struct held_source {
  trn_backend *backend;
  trn_source *source;
} held_source;

static void held_source_release(void *object) {
  held_source *held = object;
  trn_backend_source_unref(held->backend, held->source);
  trn_backend_unref(held->backend);
}

trn_status trn__source_hold(trn_arena *arena, trn_backend *backend, trn_source *source) {
  held_source *held = TRN_NEW(arena, held_source);
  if (!held) return TRN_RESOURCE_EXHAUSTED;
  held->backend = trn_backend_ref(backend);
  held->source = trn_backend_source_ref(backend, source);
  if (trn__arena_own(arena, held_source_release, held)) return TRN_OK;
  held_source_release(held);
  return TRN_RESOURCE_EXHAUSTED;
}
