/* The framework: a layer is a backend whose missing slots go on to the next one. */
#include "layer/layer.h"

#include <pthread.h>

#include "core/query.h"

enum { LAYER_THREADS = 4 };

struct trn_layer {
  trn_layer_ops ops; /* full size; slots may be NULL */
  char *name;
  void *self;
  trn_backend *backend; /* what the layer is to others; borrowed: it holds the layer */
  trn_backend *next;
  const trn_backend_ops *next_ops;
  void *next_self;
  trn_event_sink sink;
  void *sink_user;
  void (*sink_release)(void *user); /* NULL: sink_user is borrowed */
  pthread_mutex_t mu;
  trn_pool *pool; /* guarded by mu until it is there */
};

struct trn_layer_session {
  trn_layer *layer;
  trn_session *session; /* borrowed: it outlives this */
  void *inner, *state;
  bool is_open; /* `state` is the layer's */
};

/* ---- what comes next ---- */

trn_session *trn_layer_session_get(const trn_layer_session *session) {
  return session->session;
}
void *trn_layer_session_state(const trn_layer_session *session) {
  return session->state;
}
trn_layer *trn_layer_session_layer(const trn_layer_session *session) {
  return session->layer;
}
trn_backend *trn_layer_next(const trn_layer *layer) {
  return layer->next;
}

trn_status trn_next_open_source(trn_layer_session *s, const trn_source_request *request, trn_source **out,
                                struct ArrowSchema *schema, trn_error **error) {
  trn_layer *layer = s->layer;
  *out = NULL;
  *schema = (struct ArrowSchema){0};
  trn_source_request whole = {0};
  memcpy(&whole, request, trn__struct_size(request->struct_size, sizeof whole));
  whole.struct_size = sizeof whole;
  return layer->next_ops->open_source(layer->next_self, s->inner, &whole, out, schema, error);
}

trn_source *trn_next_source_ref(trn_layer *layer, trn_source *source) {
  return layer->next_ops->source_ref(layer->next_self, source);
}
void trn_next_source_unref(trn_layer *layer, trn_source *source) {
  if (source) layer->next_ops->source_unref(layer->next_self, source);
}

trn_status trn_next_execute(trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                            trn_error **error) {
  trn_layer *layer = s->layer;
  *out = NULL;
  trn_execute_request whole = {0};
  memcpy(&whole, request, trn__struct_size(request->struct_size, sizeof whole));
  whole.struct_size = sizeof whole;
  trn_status status = layer->next_ops->execute(layer->next_self, s->inner, &whole, out, error);
  if (status)
    *out = NULL;
  else if (!*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no operation");
  return status;
}

trn_status trn_next_explain(trn_layer_session *s, trn_plan *plan, trn_explain_mode mode, char **out,
                            trn_error **error) {
  *out = NULL;
  return s->layer->next_ops->explain(s->layer->next_self, s->inner, plan, mode, out, error);
}

trn_status trn_next_decode(trn_layer_session *s, const trn_plan_input *input, trn_plan **out, trn_error **error) {
  *out = NULL;
  trn_plan_input whole = {0};
  memcpy(&whole, input, trn__struct_size(input->struct_size, sizeof whole));
  whole.struct_size = sizeof whole;
  return s->layer->next_ops->decode(s->layer->next_self, s->inner, &whole, out, error);
}

trn_status trn_next_decode_statement(trn_layer_session *s, const trn_plan_input *input, trn_statement *out,
                                     trn_error **error) {
  return trn__backend_decode_statement(s->layer->next, s->inner, input, out, error);
}

trn_status trn_next_encode(trn_layer_session *s, trn_plan *plan, const char *format, trn_bytes *out,
                           trn_error **error) {
  *out = (trn_bytes){0};
  return s->layer->next_ops->encode(s->layer->next_self, s->inner, plan, format, out, error);
}

trn_status trn_next_check(trn_layer_session *s, trn_plan *plan, trn_error **error) {
  return s->layer->next_ops->check(s->layer->next_self, s->inner, plan, error);
}

trn_status trn_next_catalog(trn_layer_session *s, const char *name, trn_catalog **out, trn_error **error) {
  return trn__backend_get_catalog(s->layer->next, s->inner, name, out, error);
}

/* ---- the layer as a backend ---- */

static void session_close(trn_layer_session *s) {
  trn_layer *layer = s->layer;
  if (s->is_open && layer->ops.close_session) layer->ops.close_session(layer->self, s, s->state);
  layer->next_ops->close_session(layer->next_self, s->inner);
  free(s);
}

static trn_status layer_open_session(void *self, trn_session *session, void **out, trn_error **error) {
  trn_layer *layer = self;
  trn_layer_session *s = calloc(1, sizeof *s);
  if (!s) return trn__no_memory(error);
  s->layer = layer;
  s->session = session;
  trn_status status = layer->next_ops->open_session(layer->next_self, session, &s->inner, error);
  if (status) {
    free(s);
    return status;
  }
  if (layer->ops.open_session) status = layer->ops.open_session(layer->self, s, &s->state, error);
  s->is_open = status == TRN_OK;
  if (status)
    session_close(s);
  else
    *out = s;
  return status;
}

static void layer_close_session(void *self, void *state) {
  (void)self;
  session_close(state);
}

static trn_status layer_open_source(void *self, void *state, const trn_source_request *request, trn_source **out,
                                    struct ArrowSchema *schema, trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.open_source ? layer->ops.open_source(layer->self, state, request, out, schema, error)
                                : trn_next_open_source(state, request, out, schema, error);
}

static trn_source *layer_source_ref(void *self, trn_source *source) {
  trn_layer *layer = self;
  return layer->ops.source_ref ? layer->ops.source_ref(layer->self, layer, source) : trn_next_source_ref(layer, source);
}

static void layer_source_unref(void *self, trn_source *source) {
  trn_layer *layer = self;
  if (layer->ops.source_unref)
    layer->ops.source_unref(layer->self, layer, source);
  else
    trn_next_source_unref(layer, source);
}

static trn_status layer_execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                                trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.execute ? layer->ops.execute(layer->self, state, request, out, error)
                            : trn_next_execute(state, request, out, error);
}

static trn_status layer_explain(void *self, void *state, trn_plan *plan, trn_explain_mode mode, char **out,
                                trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.explain ? layer->ops.explain(layer->self, state, plan, mode, out, error)
                            : trn_next_explain(state, plan, mode, out, error);
}

static trn_status layer_decode(void *self, void *state, const trn_plan_input *input, trn_plan **out,
                               trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.decode ? layer->ops.decode(layer->self, state, input, out, error)
                           : trn_next_decode(state, input, out, error);
}

static void release_query(trn_statement *statement) {
  trn_plan_unref(statement->plan);
  *statement = (trn_statement){0};
}

/* A layer that decodes sees queries; what is none goes on, and is judged when it is executed. */
static trn_status layer_decode_statement(void *self, void *state, const trn_plan_input *input, trn_statement *out,
                                         trn_error **error) {
  trn_layer *layer = self;
  trn_layer_session *s = state;
  trn_plan *plan = NULL;
  if (layer->ops.decode_statement) return layer->ops.decode_statement(layer->self, s, input, out, error);
  trn_status status = trn_next_decode_statement(s, input, out, error);
  if (status || !layer->ops.decode || out->kind != TRN_STATEMENT_QUERY || out->parameters) return status;
  out->release(out);
  status = layer->ops.decode(layer->self, state, input, &plan, error);
  if (!status) *out = (trn_statement){.struct_size = sizeof *out, .plan = plan, .release = release_query};
  return status;
}

static trn_status layer_encode(void *self, void *state, trn_plan *plan, const char *format, trn_bytes *out,
                               trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.encode ? layer->ops.encode(layer->self, state, plan, format, out, error)
                           : trn_next_encode(state, plan, format, out, error);
}

static trn_status layer_check(void *self, void *state, trn_plan *plan, trn_error **error) {
  trn_layer *layer = self;
  return layer->ops.check ? layer->ops.check(layer->self, state, plan, error) : trn_next_check(state, plan, error);
}

static trn_status layer_catalog(void *self, void *state, const char *name, trn_catalog **out, trn_error **error) {
  trn_layer *layer = self;
  trn_catalog *inner = NULL;
  trn_status status = trn_next_catalog(state, name, &inner, error);
  if (status || !layer->ops.catalog) {
    *out = inner;
    return status;
  }
  status = layer->ops.catalog(layer->self, state, inner, out, error);
  trn_catalog_unref(inner);
  return status;
}

static trn_status layer_list_catalogs(void *self, void *state, void (*each)(void *user, const char *name), void *user,
                                      trn_error **error) {
  trn_layer *layer = self;
  trn_layer_session *s = state;
  return trn__backend_each_catalog(layer->next, s->inner, each, user, error);
}

static void layer_free(trn_layer *layer) {
  if (layer->sink_release) layer->sink_release(layer->sink_user);
  trn_backend_unref(layer->next);
  pthread_mutex_destroy(&layer->mu);
  free(layer->name);
  free(layer);
}

static void layer_destroy(void *self) {
  trn_layer *layer = self;
  trn__pool_destroy(layer->pool); /* its tasks use what follows */
  if (layer->ops.destroy) layer->ops.destroy(layer->self);
  layer_free(layer);
}

static const trn_backend_ops backend_ops = {.struct_size = sizeof(trn_backend_ops),
                                            .open_session = layer_open_session,
                                            .close_session = layer_close_session,
                                            .open_source = layer_open_source,
                                            .source_ref = layer_source_ref,
                                            .source_unref = layer_source_unref,
                                            .execute = layer_execute,
                                            .explain = layer_explain,
                                            .destroy = layer_destroy,
                                            .decode = layer_decode,
                                            .encode = layer_encode,
                                            .catalog = layer_catalog,
                                            .list_catalogs = layer_list_catalogs,
                                            .check = layer_check,
                                            .decode_statement = layer_decode_statement};

trn_status trn_layer_create(const trn_layer_ops *given, void *self, trn_backend *inner, trn_backend **out,
                            trn_error **error) {
  *out = NULL;
  trn_layer_ops ops = {0};
  memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!ops.source_ref != !ops.source_unref)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a layer has only one of source_ref and source_unref");
  trn_layer *layer = calloc(1, sizeof *layer);
  if (!layer) return trn__no_memory(error);
  layer->ops = ops;
  layer->self = self;
  layer->name = trn__text_copy(ops.name ? ops.name : "layer");
  layer->ops.name = layer->name;
  layer->next = trn_backend_ref(inner);
  layer->next_ops = trn__backend_ops(inner, &layer->next_self);
  pthread_mutex_init(&layer->mu, NULL);
  trn_status status = layer->name ? trn_backend_create(&backend_ops, layer, out) : TRN_RESOURCE_EXHAUSTED;
  if (status) {
    layer_free(layer);
    return trn__no_memory(error);
  }
  layer->backend = *out;
  return TRN_OK;
}

/* ---- for the layers here ---- */

void *trn__layer_session_inner(const trn_layer_session *session) {
  return session->inner;
}

trn_backend *trn__layer_ref(trn_layer *layer) {
  return trn_backend_ref(layer->backend);
}

trn_layer *trn__layer_of(trn_backend *backend) {
  void *self = NULL;
  return trn__backend_ops(backend, &self)->execute == layer_execute ? self : NULL;
}
const char *trn__layer_name(const trn_layer *layer) {
  return layer->name;
}
trn_layer_role trn__layer_role(const trn_layer *layer) {
  return layer->ops.role;
}
void *trn__layer_self(const trn_layer *layer) {
  return layer->self;
}
bool trn__layer_reloads(const trn_layer *layer) {
  return layer->ops.reload != NULL;
}
trn_status trn__layer_reload(trn_layer *layer, const trn_config *config, trn_error **error) {
  return layer->ops.reload ? layer->ops.reload(layer->self, config, error) : TRN_OK;
}
bool trn__layer_is(const trn_layer *layer, void (*destroy)(void *self)) {
  return layer->ops.destroy == destroy;
}
void trn__layer_set_sink(trn_layer *layer, trn_event_sink sink, void *user) {
  layer->sink = sink;
  layer->sink_user = user;
}
void trn__layer_redirect(trn_layer *layer, trn_event_sink sink, void *user, void (*release)(void *user)) {
  if (layer->sink_release) layer->sink_release(layer->sink_user);
  layer->sink = sink;
  layer->sink_user = user;
  layer->sink_release = release;
}
bool trn__layer_has_sink(const trn_layer *layer) {
  return layer->sink != NULL;
}

void trn__layer_emit(const trn_layer *layer, const trn_layer_session *session, trn_event *event) {
  if (!layer->sink) return;
  event->struct_size = sizeof *event;
  event->layer = layer->name;
  if (session && !event->user) event->user = trn_session_user(session->session);
  if (session && !event->session_id) event->session_id = trn_session_id(session->session);
  layer->sink(layer->sink_user, event);
}

trn_status trn__layer_pool(trn_layer *layer, trn_pool **out) {
  pthread_mutex_lock(&layer->mu);
  trn_status status = layer->pool ? TRN_OK : trn__pool_create(LAYER_THREADS, &layer->pool);
  *out = layer->pool;
  pthread_mutex_unlock(&layer->mu);
  return status;
}

trn_status trn__layer_make(const trn_layer_ops *ops, void *self, trn_backend *inner, trn_event_sink sink,
                           void *sink_user, trn_backend **out, trn_error **error) {
  trn_status status = trn_layer_create(ops, self, inner, out, error);
  if (status == TRN_OK) trn__layer_set_sink(trn__layer_of(*out), sink, sink_user);
  return status;
}
