/* The Ballista backend: a layer around the backend that keeps sessions and sources. Queries go to the cluster, or stay.
 */
#include "backend/ballista/backend.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "ballista.logical.v1"
#define EXPLAIN_FORMAT "ballista.explain.v1"

void trn__ballista_unref(trn_ballista *b) {
  if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  trn__ballista_client_unref(b->client);
  if (b->pool) trn__pool_destroy(b->pool);
  trn__ballista_spool_destroy(b->spool);
  trn__arena_unref(b->arena);
  free(b);
}

/* ---- where a query goes ---- */

/* What the cluster is known to have; what was found out is asked again after a while, since clusters are replaced. */
static trn_ballista_functions known_functions(trn_ballista *b) {
  if (b->options.functions) return b->options.functions;
  bool is_old = trn__now_ns() - atomic_load(&b->asked_ns) > TRN_BALLISTA_FUNCTIONS_NS;
  return is_old ? TRN_BALLISTA_FUNCTIONS_AUTO : (trn_ballista_functions)atomic_load(&b->functions);
}

static void learn_functions(trn_ballista *b, trn_ballista_functions functions) {
  atomic_store(&b->functions, (int)functions);
  atomic_store(&b->asked_ns, trn__now_ns());
}

/* The cluster cannot run it: it runs here, if it may. Takes `why`. */
static trn_status stay(trn_ballista *b, trn_layer_session *session, const trn_execute_request *request, trn_error *why,
                       trn_operation **out, trn_error **error) {
  trn_status status = TRN_OK;
  if (b->options.fallback == TRN_BALLISTA_FALLBACK_REFUSE)
    status = trn_error_set(error, TRN_UNIMPLEMENTED, "UNSUPPORTED_FEATURE.BALLISTA",
                           "The Ballista cluster cannot run this query: %s", trn_error_message(why));
  trn_error_unref(why);
  return status ? status : trn_next_execute(session, request, out, error);
}

/* Does a failed encoding mean that the cluster cannot run the plan? Everything else is the query's own failure. */
static bool is_for_others(trn_status status) {
  return status == TRN_UNIMPLEMENTED;
}

static trn_status submit(trn_ballista *b, trn_layer_session *session, const trn_execute_request *request,
                         trn_operation **out, trn_error **error) {
  trn_bytes bytes = {0};
  trn_error *why = NULL;
  char id[TRN_UUID_SIZE];
  trn_execute_request named = *request;
  const char *own = trn__ballista_own_function(request->plan);
  if (own && known_functions(b) == TRN_BALLISTA_FUNCTIONS_STOCK) {
    trn_error_set(&why, TRN_UNIMPLEMENTED, NULL, "it does not have Trunnion's %s", own);
    return stay(b, session, request, why, out, error);
  }
  trn_status status = trn_next_encode(session, request->plan, FORMAT, &bytes, &why);
  if (is_for_others(status)) return stay(b, session, request, why, out, error);
  if (!status && !named.operation_id) {
    trn__uuid7(id);
    named.operation_id = id;
  }
  if (!status) {
    trn_slice plan = {bytes.data, bytes.size, bytes.release, bytes.owner};
    status = trn__ballista_run_start(b, &named, trn_layer_session_get(session), plan, NULL, out, &why);
    if (!status && own) learn_functions(b, TRN_BALLISTA_FUNCTIONS_ALL);
    if (status == TRN_INVALID_ARGUMENT) { /* a plan of ours that it cannot read: it is made of other things */
      if (own && known_functions(b) == TRN_BALLISTA_FUNCTIONS_AUTO) learn_functions(b, TRN_BALLISTA_FUNCTIONS_STOCK);
      return stay(b, session, request, why, out, error);
    }
  }
  if (error)
    *error = why;
  else
    trn_error_unref(why);
  return status;
}

static trn_status execute(void *self, trn_layer_session *session, const trn_execute_request *request,
                          trn_operation **out, trn_error **error) {
  trn_ballista *b = self;
  bool stays = b->options.fallback == TRN_BALLISTA_FALLBACK_LOCAL && trn__ballista_is_trivial(request->plan);
  stays |= b->options.writes_locally && trn__ballista_writes(request->plan);
  return stays ? trn_next_execute(session, request, out, error) : submit(b, session, request, out, error);
}

/* ---- explaining ---- */

/* The cluster's own text. UNIMPLEMENTED, INVALID_ARGUMENT: it does not run there. */
static trn_status explain_there(trn_ballista *b, trn_layer_session *session, trn_plan *plan, char **out,
                                trn_error **error) {
  trn_bytes bytes = {0};
  trn_operation *operation = NULL;
  struct ArrowSchema schema = {0};
  char id[TRN_UUID_SIZE];
  trn__uuid7(id);
  const trn_execute_request request = {
      .struct_size = sizeof request, .operation_id = id, .plan = plan, .cancel = trn_cancel_of_work()};
  trn_status status = trn_next_encode(session, plan, EXPLAIN_FORMAT, &bytes, error);
  trn_slice slice = {bytes.data, bytes.size, bytes.release, bytes.owner};
  if (status) return status;
  if (trn__ballista_explain_schema(&schema)) {
    if (slice.release) slice.release(slice.owner);
    return trn__no_memory(error);
  }
  status = trn__ballista_run_start(b, &request, trn_layer_session_get(session), slice, &schema, &operation, error);
  if (!status) status = trn__ballista_explain_read(b, operation, out, error);
  trn_operation_unref(operation);
  schema.release(&schema);
  return status;
}

static trn_status explain(void *self, trn_layer_session *session, trn_plan *plan, trn_explain_mode mode, char **out,
                          trn_error **error) {
  trn_ballista *b = self;
  trn_error *why = NULL;
  bool is_own = known_functions(b) == TRN_BALLISTA_FUNCTIONS_STOCK && trn__ballista_own_function(plan);
  if (mode != TRN_EXPLAIN_PHYSICAL || is_own || trn__ballista_is_trivial(plan))
    return trn_next_explain(session, plan, mode, out, error);
  trn_status status = explain_there(b, session, plan, out, &why);
  bool stays = status == TRN_UNIMPLEMENTED || status == TRN_INVALID_ARGUMENT;
  if (status && !stays && error)
    *error = why;
  else
    trn_error_unref(why);
  return stays ? trn_next_explain(session, plan, mode, out, error) : status;
}

/* ---- sources: rows that clients send along ---- */

static trn_status open_spooled(trn_ballista *b, trn_layer_session *session, const trn_source_request *request,
                               trn_source **out, struct ArrowSchema *schema, trn_error **error) {
  char *path = NULL;
  trn_status status = trn__ballista_spool_write(b->spool, request->data, request->data_size, &path, error);
  if (status == TRN_UNIMPLEMENTED || status == TRN_INVALID_ARGUMENT) { /* whoever reads them here says what is wrong */
    if (error) trn_error_unref(*error), *error = NULL;
    return trn_next_open_source(session, request, out, schema, error);
  }
  if (status) return status;
  const char *const paths[] = {path};
  trn_source_request file = {
      .struct_size = sizeof file, .format = "arrow", .paths = paths, .path_count = 1, .label = request->label};
  trn_error *why = NULL;
  status = trn_next_open_source(session, &file, out, schema, &why);
  bool is_owned = !status && trn__ballista_spool_own(b->spool, *out, path);
  if (!status && !is_owned) { /* without memory: the file would stay */
    trn_next_source_unref(trn_layer_session_layer(session), *out);
    if (schema->release) schema->release(schema);
    status = trn__no_memory(error);
  } else if (status) { /* e.g. two columns of one name, which a file cannot have: these rows stay here */
    unlink(path);
    trn_error_unref(why);
    status = trn_next_open_source(session, request, out, schema, error);
  }
  if (status && !is_owned) unlink(path);
  free(path);
  return status;
}

/* A file of the caller's own is a stream, which Ballista's plans do not tell from an Arrow file: executors get a copy that is one. */
static trn_status open_own(trn_ballista *b, trn_layer_session *session, const trn_source_request *request, trn_source **out,
                           struct ArrowSchema *schema, trn_error **error) {
  struct stat about;
  int file = open(request->paths[0], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  bool ok = file >= 0 && !fstat(file, &about) && S_ISREG(about.st_mode) && about.st_size > 0;
  void *bytes = ok ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
  if (bytes == MAP_FAILED) return trn_error_set(error, TRN_INTERNAL, NULL, "The file of rows for the cluster cannot be read");
  const trn_source_request rows = {.struct_size = sizeof rows,
                                   .format = "ipc",
                                   .data = bytes,
                                   .data_size = (size_t)about.st_size,
                                   .label = request->label};
  trn_status status = open_spooled(b, session, &rows, out, schema, error);
  munmap(bytes, (size_t)about.st_size);
  return status;
}

static trn_status open_source(void *self, trn_layer_session *session, const trn_source_request *request,
                              trn_source **out, struct ArrowSchema *schema, trn_error **error) {
  trn_ballista *b = self;
  bool is_large = strcmp(request->format, "ipc") == 0 && request->data_size > b->options.inline_bytes_max;
  if (b->spool && request->is_own && request->path_count == 1) return open_own(b, session, request, out, schema, error);
  return b->spool && is_large ? open_spooled(b, session, request, out, schema, error)
                              : trn_next_open_source(session, request, out, schema, error);
}

static trn_source *source_ref(void *self, trn_layer *layer, trn_source *source) {
  trn_ballista *b = self;
  if (b->spool) trn__ballista_spool_ref(b->spool, source);
  return trn_next_source_ref(layer, source);
}

static void source_unref(void *self, trn_layer *layer, trn_source *source) {
  trn_ballista *b = self;
  if (b->spool) trn__ballista_spool_unref(b->spool, source); /* first: the address is free for another one afterwards */
  trn_next_source_unref(layer, source);
}

/* ---- life ---- */

static void destroy(void *self) {
  trn_ballista *b = self;
  atomic_store(&b->is_closing, true);
  trn__ballista_unref(b);
}

static const trn_layer_ops layer_ops = {.struct_size = sizeof(trn_layer_ops),
                                        .name = "ballista",
                                        .role = TRN_LAYER_EXECUTE,
                                        .open_source = open_source,
                                        .source_ref = source_ref,
                                        .source_unref = source_unref,
                                        .execute = execute,
                                        .explain = explain,
                                        .destroy = destroy};

static bool copy_settings(trn_ballista *b) {
  const trn_kv *given = b->options.settings;
  trn_kv *settings = TRN_NEW_N(b->arena, trn_kv, b->options.setting_count);
  if (!settings) return false;
  for (size_t i = 0; i < b->options.setting_count; i++) {
    settings[i].key = trn__arena_strdup(b->arena, given[i].key);
    settings[i].value = given[i].value ? trn__arena_strdup(b->arena, given[i].value) : NULL;
    if (!settings[i].key || (given[i].value && !settings[i].value)) return false;
  }
  b->options.settings = settings;
  return true;
}

static void set_defaults(trn_ballista_options *o) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!o->inline_bytes_max) o->inline_bytes_max = TRN_BALLISTA_INLINE_BYTES;
  if (!o->fetch_bytes_max) o->fetch_bytes_max = TRN_BALLISTA_FETCH_BYTES;
  if (!o->fetches_max) o->fetches_max = TRN_BALLISTA_FETCHES;
  if (!o->threads) o->threads = cores > 0 ? (unsigned)cores : 1;
}

static trn_status open_client(trn_ballista *b, trn_error **error) {
  const trn_ballista_options *o = &b->options;
  const trn_ballista_client_options options = {.connector = o->connector,
                                               .target = o->scheduler,
                                               .routes = o->routes,
                                               .scheduler_tls = o->scheduler_tls,
                                               .executor_tls = o->executor_tls,
                                               .ca_pem = o->ca_pem,
                                               .cert_pem = o->cert_pem,
                                               .key_pem = o->key_pem,
                                               .metadata = o->metadata,
                                               .metadata_count = o->metadata_count,
                                               .timeout_ms = o->timeout_ms};
  if (!o->routes && (!o->connector || !o->scheduler || !*o->scheduler))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a Ballista backend needs a connector and a scheduler");
  return trn__ballista_client_create(&options, &b->client, error);
}

trn_status trn_ballista_backend_create(const trn_ballista_options *options, trn_backend *local, trn_backend **out,
                                       trn_error **error) {
  trn_ballista *b = calloc(1, sizeof *b);
  trn_status status = TRN_OK;
  *out = NULL;
  if (!b) return trn__no_memory(error);
  atomic_init(&b->refs, 1);
  size_t size = sizeof b->options;
  memcpy(&b->options, options, options->struct_size < size ? options->struct_size : size);
  set_defaults(&b->options);
  b->arena = trn__arena_create(0);
  if (!b->arena || !copy_settings(b) || trn__pool_create(b->options.threads, &b->pool)) status = trn__no_memory(error);
  if (!status) status = open_client(b, error);
  if (!status && b->options.spool_directory)
    status = trn__ballista_spool_create(b->options.spool_directory, &b->spool, error);
  if (!status) status = trn_layer_create(&layer_ops, b, local, out, error);
  if (status) trn__ballista_unref(b);
  return status;
}
