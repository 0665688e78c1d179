/* The route layer: each query to the backend that suits it. A source belongs to a backend; the layer's own sources remember
 * what was asked for, and are opened where a query goes. */
#include "layer/route.h"

#include "arrow/arrow_util.h"

/* ---- sessions at targets ---- */

/* The state of the session at a target; opens it. */
static trn_status state_at(route *r, trn_layer_session *s, size_t target, void **out, trn_error **error) {
  route_session *state = trn_layer_session_state(s);
  route_target *t = &r->targets[target];
  trn_status status = TRN_OK;
  if (target == 0) {
    *out = trn__layer_session_inner(s);
    return TRN_OK;
  }
  pthread_mutex_lock(&state->mu);
  bool is_open = state->is_open[target];
  *out = state->states[target];
  pthread_mutex_unlock(&state->mu);
  if (is_open) return TRN_OK;
  void *opened = NULL;
  status = t->ops->open_session(t->self, trn_layer_session_get(s), &opened, error);
  if (status) return status;
  pthread_mutex_lock(&state->mu);
  bool was_first = !state->is_open[target];
  if (was_first) state->states[target] = opened;
  state->is_open[target] = true;
  *out = state->states[target];
  pthread_mutex_unlock(&state->mu);
  if (!was_first) t->ops->close_session(t->self, opened);
  return TRN_OK;
}

static trn_status open_session(void *self, trn_layer_session *s, void **out, trn_error **error) {
  route *r = self;
  (void)s;
  route_session *state = calloc(1, sizeof *state);
  if (!state) return trn__no_memory(error);
  state->states = calloc(r->target_count, sizeof *state->states);
  state->is_open = calloc(r->target_count, sizeof *state->is_open);
  pthread_mutex_init(&state->mu, NULL);
  *out = state;
  if (state->states && state->is_open) return TRN_OK;
  free(state->states);
  free(state->is_open);
  pthread_mutex_destroy(&state->mu);
  free(state);
  *out = NULL;
  return trn__no_memory(error);
}

static void close_session(void *self, trn_layer_session *s, void *opened) {
  route *r = self;
  route_session *state = opened;
  (void)s;
  if (!state) return;
  for (size_t i = 0; i < r->target_count; i++)
    if (state->is_open[i]) r->targets[i].ops->close_session(r->targets[i].self, state->states[i]);
  pthread_mutex_destroy(&state->mu);
  free(state->states);
  free(state->is_open);
  free(state);
}

/* ---- sources ---- */

typedef struct route_source {
  atomic_size_t refs;
  route *route;
  trn_arena *arena; /* what was asked for is in it */
  trn_source_request request;
  struct ArrowSchema given;  /* of the request; release NULL: none */
  struct ArrowSchema schema; /* what the first one that opened it said */
  pthread_mutex_t mu;
  trn_source **at; /* one for each target; NULL: not opened; guarded by mu */
} route_source;

static void source_free(route_source *source) {
  route *r = source->route;
  for (size_t i = 0; source->at && i < r->target_count; i++)
    if (source->at[i]) r->targets[i].ops->source_unref(r->targets[i].self, source->at[i]);
  free(source->at);
  trn_scan_label_unref(source->request.label);
  trn__schema_release(&source->given);
  trn__schema_release(&source->schema);
  pthread_mutex_destroy(&source->mu);
  trn__arena_unref(source->arena);
  free(source);
}

static bool copy_list(trn_arena *arena, route_source *source, const trn_source_request *request) {
  const char **paths = TRN_NEW_N(arena, const char *, request->path_count);
  trn_kv *options = TRN_NEW_N(arena, trn_kv, request->option_count);
  if (!paths || !options) return false;
  for (size_t i = 0; i < request->path_count; i++)
    if (!(paths[i] = trn__arena_strdup(arena, request->paths[i]))) return false;
  for (size_t i = 0; i < request->option_count; i++) {
    options[i].key = trn__arena_strdup(arena, request->options[i].key);
    options[i].value = request->options[i].value ? trn__arena_strdup(arena, request->options[i].value) : NULL;
    if (!options[i].key || (request->options[i].value && !options[i].value)) return false;
  }
  source->request.paths = paths;
  source->request.options = options;
  return true;
}

static route_source *source_create(route *r, const trn_source_request *request) {
  route_source *source = calloc(1, sizeof *source);
  if (!source) return NULL;
  atomic_init(&source->refs, 1);
  pthread_mutex_init(&source->mu, NULL);
  source->route = r;
  source->request = *request;
  source->request.label = trn_scan_label_ref(request->label);
  source->at = calloc(r->target_count, sizeof *source->at);
  source->arena = trn__arena_create(0);
  bool ok = source->at && source->arena && copy_list(source->arena, source, request);
  if (ok && request->schema) {
    ok = trn__schema_copy(request->schema, &source->given) == TRN_OK;
    source->request.schema = &source->given;
  }
  if (ok) source->request.format = trn__arena_strdup(source->arena, request->format);
  if (ok && request->data) source->request.data = trn__arena_copy(source->arena, request->data, request->data_size);
  if (ok && source->request.format && (source->request.data || !request->data)) return source;
  source_free(source);
  return NULL;
}

/* The source at a target (borrowed); opens it there. */
static trn_status source_at(route_source *source, trn_layer_session *s, size_t target, trn_source **out,
                            trn_error **error) {
  route *r = source->route;
  route_target *t = &r->targets[target];
  struct ArrowSchema schema = {0};
  trn_source *opened = NULL;
  void *state = NULL;
  pthread_mutex_lock(&source->mu);
  *out = source->at[target];
  pthread_mutex_unlock(&source->mu);
  if (*out) return TRN_OK;
  trn_status status = state_at(r, s, target, &state, error);
  if (status == TRN_OK) status = t->ops->open_source(t->self, state, &source->request, &opened, &schema, error);
  if (status) return status;
  pthread_mutex_lock(&source->mu);
  bool was_first = !source->at[target];
  if (was_first) source->at[target] = opened;
  *out = source->at[target];
  if (!source->schema.release) {
    source->schema = schema;
    schema = (struct ArrowSchema){0};
  }
  pthread_mutex_unlock(&source->mu);
  trn__schema_release(&schema);
  if (!was_first) t->ops->source_unref(t->self, opened);
  return TRN_OK;
}

/* One of ours; NULL: a source of the default backend, which came past us. */
static route_source *own_source(route *r, trn_source *source) {
  pthread_mutex_lock(&r->mu);
  uint64_t alive = 0;
  bool known = trn__ptrmap_get(&r->sources, source, NULL, &alive) && alive;
  pthread_mutex_unlock(&r->mu);
  return known ? (route_source *)(void *)source : NULL;
}

static trn_source *source_ref(void *self, trn_layer *layer, trn_source *source) {
  route_source *own = own_source(self, source);
  if (!own) return trn_next_source_ref(layer, source);
  atomic_fetch_add_explicit(&own->refs, 1, memory_order_relaxed);
  return source;
}

static void source_unref(void *self, trn_layer *layer, trn_source *source) {
  route *r = self;
  route_source *own = own_source(r, source);
  if (!own) {
    trn_next_source_unref(layer, source);
    return;
  }
  if (atomic_fetch_sub_explicit(&own->refs, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_lock(&r->mu);
  trn__ptrmap_set(&r->sources, source, NULL, 0); /* the key is there: this needs no memory */
  pthread_mutex_unlock(&r->mu);
  source_free(own);
}

/* Backends that are asked for a schema, in order: the first that can open it. */
static trn_status open_source(void *self, trn_layer_session *s, const trn_source_request *request, trn_source **out,
                              struct ArrowSchema *schema, trn_error **error) {
  route *r = self;
  route_source *source = source_create(r, request);
  if (!source) return trn__no_memory(error);
  trn_source *opened = NULL;
  trn_error *first = NULL;
  trn_status status = TRN_UNAVAILABLE;
  for (size_t i = 0; i < r->target_count && status; i++) {
    trn_error *failure = NULL;
    trn_status tried = source_at(source, s, i, &opened, &failure);
    bool is_elsewhere = tried == TRN_UNAVAILABLE || tried == TRN_UNIMPLEMENTED;
    if (!first && tried) first = trn_error_ref(failure);
    trn_error_unref(failure);
    status = tried;
    if (tried && !is_elsewhere) break;
  }
  if (status == TRN_OK) status = trn__schema_copy(&source->schema, schema) ? trn__no_memory(error) : TRN_OK;
  if (status == TRN_OK) {
    pthread_mutex_lock(&r->mu);
    bool kept = trn__ptrmap_set(&r->sources, source, NULL, 1);
    pthread_mutex_unlock(&r->mu);
    if (!kept) {
      trn__schema_release(schema);
      status = trn__no_memory(error);
    }
  } else if (first && error) {
    *error = first;
    first = NULL;
  }
  trn_error_unref(first);
  if (status)
    source_free(source);
  else
    *out = (trn_source *)(void *)source;
  return status;
}

/* ---- plans ---- */

typedef struct moving {
  route *route;
  trn_layer_session *session;
  size_t target;
} moving;

static trn_status move_scan(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  moving *m = user;
  trn_source *source = NULL;
  if (rel->kind != TRN_REL_SCAN) return TRN_OK;
  route_target *target = &m->route->targets[m->target];
  route_source *own = own_source(m->route, rel->u.scan.source);
  if (!own) {
    if (m->target == 0) return TRN_OK;
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s cannot be read at backend '%s': only '%s' has it",
                         rel->u.scan.label ? rel->u.scan.label : "a source", target->name, m->route->targets[0].name);
  }
  trn_status status = source_at(own, m->session, m->target, &source, error);
  if (status) return status;
  *out = trn_edit_scan(edit, rel, target->backend, source, rel->u.scan.info);
  return TRN_OK;
}

/* The plan with the target's sources. */
static trn_status move_plan(route *r, trn_layer_session *s, size_t target, trn_plan *plan, trn_plan **out,
                            trn_error **error) {
  moving m = {r, s, target};
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = move_scan, .user = &m};
  return trn_plan_rewrite(plan, &rewriting, out, error);
}

static void emit(route *r, trn_layer_session *s, const trn_execute_request *request, size_t target,
                 const char *reason, trn_status status) {
  trn_event event = {.kind = TRN_EVENT_ROUTE,
                     .action = reason,
                     .object = r->targets[target].name,
                     .operation_id = request->operation_id,
                     .statement = request->statement,
                     .protocol = request->protocol,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
  trn__layer_emit(trn_layer_session_layer(s), s, &event);
}

static trn_status try_target(route *r, trn_layer_session *s, size_t target, const trn_execute_request *given,
                             trn_operation **out, trn_error **error) {
  route_target *t = &r->targets[target];
  trn_execute_request request = *given;
  void *state = NULL;
  trn_plan *plan = NULL;
  trn_status status = state_at(r, s, target, &state, error);
  if (status == TRN_OK) status = move_plan(r, s, target, given->plan, &plan, error);
  request.plan = plan;
  if (status == TRN_OK) status = t->ops->execute(t->self, state, &request, out, error);
  if (status == TRN_OK && !*out) status = trn_error_set(error, TRN_INTERNAL, NULL, "the backend gave no operation");
  trn_plan_unref(plan);
  return status;
}

static trn_status cannot(const route_target *target, const char *function, trn_error **error) {
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "backend '%s' cannot run the function %s", target->name,
                       function);
}

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  route *r = self;
  size_t *order = calloc(r->target_count, sizeof *order);
  if (!order) return trn__no_memory(error);
  const char *reason = NULL;
  size_t count = route__candidates(r, s, request, order, &reason);
  trn_error *failure = NULL;
  trn_status status = TRN_UNAVAILABLE;
  bool any = false;
  for (size_t pass = 0; pass < 2 && !any; pass++) /* the sick ones only when there is nobody else */
    for (size_t i = 0; i < count; i++) {
      const route_target *target = &r->targets[order[i]];
      const char *function = route__cannot_run(target, request->plan);
      if (pass == 0 && !route__is_healthy(r, order[i])) continue;
      trn_error_unref(failure);
      failure = NULL;
      if (function) {
        status = cannot(target, function, &failure);
        continue;
      }
      any = true;
      status = try_target(r, s, order[i], request, out, &failure);
      route__report(r, order[i], status);
      emit(r, s, request, order[i], i ? "fallback" : reason, status);
      if (status != TRN_UNAVAILABLE && status != TRN_UNIMPLEMENTED) {
        route_session *state = trn_layer_session_state(s);
        pthread_mutex_lock(&state->mu);
        if (status == TRN_OK && r->sticks) state->stuck = order[i] + 1;
        pthread_mutex_unlock(&state->mu);
        goto done;
      }
    }
done:
  free(order);
  if (error && status)
    *error = failure;
  else
    trn_error_unref(failure);
  return status;
}

/* Where a plan that is not executed would go. */
static size_t first_choice(route *r, trn_layer_session *s, trn_plan *plan) {
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan};
  size_t *order = calloc(r->target_count, sizeof *order), found = 0;
  const char *reason = NULL;
  if (!order) return 0;
  size_t count = route__candidates(r, s, &request, order, &reason);
  for (size_t i = count; i-- > 0;)
    if (!route__cannot_run(&r->targets[order[i]], plan) && route__is_healthy(r, order[i])) found = order[i];
  free(order);
  return found;
}

/* There: gives the target, its session's state, and the plan with its sources there (a reference). */
static trn_status move_to_first(route *r, trn_layer_session *s, trn_plan *plan, route_target **target, void **state,
                                trn_plan **moved, trn_error **error) {
  size_t index = first_choice(r, s, plan);
  *target = &r->targets[index];
  *moved = NULL;
  trn_status status = state_at(r, s, index, state, error);
  return status ? status : move_plan(r, s, index, plan, moved, error);
}

static trn_status explain(void *self, trn_layer_session *s, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  route_target *target;
  trn_plan *moved;
  void *state = NULL;
  *out = NULL;
  trn_status status = move_to_first(self, s, plan, &target, &state, &moved, error);
  if (status == TRN_OK) status = target->ops->explain(target->self, state, moved, mode, out, error);
  trn_plan_unref(moved);
  return status;
}

static trn_status encode(void *self, trn_layer_session *s, trn_plan *plan, const char *format, trn_bytes *out,
                         trn_error **error) {
  route_target *target;
  trn_plan *moved;
  void *state = NULL;
  *out = (trn_bytes){0};
  trn_status status = move_to_first(self, s, plan, &target, &state, &moved, error);
  if (status == TRN_OK) status = target->ops->encode(target->self, state, moved, format, out, error);
  trn_plan_unref(moved);
  return status;
}

/* ---- decoding: at the default backend, whose sources become ours again ---- */

typedef struct decoding {
  route *route;
  trn_layer_session *session;
  const trn_plan_input *given;
  trn_ptrmap own; /* the default backend's source -> ours (a reference) */
  trn_vec held;   /* ours */
} decoding;

static trn_status resolve(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                          trn_error **error) {
  decoding *d = user;
  trn_status status = d->given->resolve(d->given->resolve_user, parts, count, out, error);
  if (status) return status;
  trn_layer *layer = trn_layer_session_layer(d->session);
  if (out->plan) {
    trn_plan *moved = NULL;
    status = move_plan(d->route, d->session, 0, out->plan, &moved, error);
    if (status) return status;
    trn_plan_unref(out->plan);
    out->plan = moved;
  }
  route_source *own = out->source ? own_source(d->route, out->source) : NULL;
  if (!own) return TRN_OK;
  trn_source *inner = NULL;
  status = source_at(own, d->session, 0, &inner, error);
  if (status) return status;
  if (!trn__ptrmap_set(&d->own, inner, NULL, (uintptr_t)out->source) || !trn__vec_push(&d->held, out->source))
    return trn__no_memory(error);
  /* The reference that the resolver gave is ours until the plan is made; the engine gets one of its own. */
  out->source = trn_next_source_ref(layer, inner);
  return TRN_OK;
}

static trn_status move_back(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  decoding *d = user;
  uint64_t own = 0;
  (void)error;
  if (rel->kind != TRN_REL_SCAN || !trn__ptrmap_get(&d->own, rel->u.scan.source, NULL, &own)) return TRN_OK;
  trn_backend *backend = trn__layer_ref(trn_layer_session_layer(d->session));
  *out = trn_edit_scan(edit, rel, backend, (trn_source *)(uintptr_t)own, rel->u.scan.info);
  trn_backend_unref(backend);
  return TRN_OK;
}

static trn_status decode(void *self, trn_layer_session *s, const trn_plan_input *given, trn_plan **out,
                         trn_error **error) {
  decoding d = {.route = self, .session = s, .given = given};
  trn_plan_input input = *given;
  trn_plan *plan = NULL;
  if (given->resolve) {
    input.resolve = resolve;
    input.resolve_user = &d;
  }
  trn_status status = trn_next_decode(s, &input, &plan, error);
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = move_back, .user = &d};
  if (status == TRN_OK) status = trn_plan_rewrite(plan, &rewriting, out, error);
  trn_plan_unref(plan);
  for (size_t i = 0; i < d.held.count; i++) source_unref(self, trn_layer_session_layer(s), d.held.items[i]);
  trn__vec_finish(&d.held);
  trn__ptrmap_finish(&d.own);
  return status;
}

/* A statement whose plans are the inner one's with our sources. */
typedef struct moved_statement {
  trn_statement inner;
  trn_plan *plan; /* NULL: none */
  trn_command command;
} moved_statement;

static void release_moved(trn_statement *statement) {
  moved_statement *moved = statement->owner;
  trn_plan_unref(moved->plan);
  if (moved->inner.release) moved->inner.release(&moved->inner);
  free(moved);
  *statement = (trn_statement){0};
}

static trn_status decode_statement(void *self, trn_layer_session *s, const trn_plan_input *given, trn_statement *out,
                                   trn_error **error) {
  decoding d = {.route = self, .session = s, .given = given};
  trn_plan_input input = *given;
  moved_statement *moved = calloc(1, sizeof *moved);
  if (!moved) return trn__no_memory(error);
  if (given->resolve) {
    input.resolve = resolve;
    input.resolve_user = &d;
  }
  trn_status status = trn_next_decode_statement(s, &input, &moved->inner, error);
  trn_plan *plan = moved->inner.command ? moved->inner.command->plan : moved->inner.plan;
  trn_rewriting rewriting = {.struct_size = sizeof rewriting, .rel = move_back, .user = &d};
  if (status == TRN_OK && plan) status = trn_plan_rewrite(plan, &rewriting, &moved->plan, error);
  *out = moved->inner;
  out->owner = moved;
  out->release = release_moved;
  if (out->plan) out->plan = moved->plan;
  if (out->command) {
    moved->command = *moved->inner.command;
    if (moved->command.plan) moved->command.plan = moved->plan;
    out->command = &moved->command;
  }
  if (status) release_moved(out);
  for (size_t i = 0; i < d.held.count; i++) source_unref(self, trn_layer_session_layer(s), d.held.items[i]);
  trn__vec_finish(&d.held);
  trn__ptrmap_finish(&d.own);
  return status;
}

/* ---- making ---- */

static void destroy(void *self) {
  route *r = self;
  route__finish(r);
  trn__ptrmap_finish(&r->sources);
  pthread_mutex_destroy(&r->mu);
  free(r);
}

static trn_status add_given(route *r, const trn_route_target *given, trn_error **error) {
  route_target *target = &r->targets[r->target_count++];
  target->name = trn__text_copy(given->name);
  target->backend = trn_backend_ref(given->backend);
  target->is_healthy = given->is_healthy;
  target->user = given->user;
  target->functions.items = calloc(given->function_count + 1, sizeof(char *));
  if (!target->name || !target->functions.items) return trn__no_memory(error);
  for (size_t i = 0; i < given->function_count; i++) {
    target->functions.items[i] = trn__text_copy(given->functions[i]);
    if (!target->functions.items[i]) return trn__no_memory(error);
    target->functions.count++;
  }
  return TRN_OK;
}

trn_status trn_route_create(const trn_route_options *given, trn_backend *inner, trn_backend **out, trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "route",
                                    .role = TRN_LAYER_EXECUTE,
                                    .open_session = open_session,
                                    .close_session = close_session,
                                    .open_source = open_source,
                                    .source_ref = source_ref,
                                    .source_unref = source_unref,
                                    .execute = execute,
                                    .explain = explain,
                                    .decode = decode,
                                    .encode = encode,
                                    .decode_statement = decode_statement,
                                    .destroy = destroy};
  *out = NULL;
  trn_route_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  route *r = calloc(1, sizeof *r);
  if (!r) return trn__no_memory(error);
  pthread_mutex_init(&r->mu, NULL);
  r->choose = options.choose;
  r->choose_user = options.choose_user;
  r->targets = calloc(options.target_count + 1, sizeof *r->targets);
  trn_route_target first = {.name = "default", .backend = inner};
  trn_status status = r->targets ? add_given(r, &first, error) : trn__no_memory(error);
  for (size_t i = 0; i < options.target_count && status == TRN_OK; i++)
    status = add_given(r, &options.targets[i], error);
  if (status == TRN_OK) status = route__read(options.config, options.registry, r, error);
  for (size_t i = 0; i < r->target_count && status == TRN_OK; i++)
    r->targets[i].ops = trn__backend_ops(r->targets[i].backend, &r->targets[i].self);
  if (status == TRN_OK) status = trn__layer_make(&ops, r, inner, options.sink, options.sink_user, out, error);
  if (status) destroy(r);
  return status;
}
