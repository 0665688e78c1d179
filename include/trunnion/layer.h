/* Layers: a policy is a backend around a backend. This header has what a layer is written with (every slot that it does not
 * want goes on to the next backend), the layers that come with the library, and the building of stacks.
 *
 *   static trn_status count(void *self, trn_layer_session *session, const trn_execute_request *request,
 *                           trn_operation **out, trn_error **error) {
 *     atomic_fetch_add((atomic_int *)self, 1);
 *     return trn_next_execute(session, request, out, error);
 *   }
 *   trn_layer_ops ops = {.struct_size = sizeof ops, .name = "count", .execute = count};
 *   status = trn_layer_create(&ops, &counter, backend, &layered, &error);
 *
 * Threads: as with backends, any; several calls at once. Since 0.1. */
#ifndef TRUNNION_LAYER_H
#define TRUNNION_LAYER_H
#include <trunnion/backend.h>
#include <trunnion/catalog.h>
#include <trunnion/client.h>
#include <trunnion/registry.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing a layer ---- */

typedef struct trn_layer trn_layer;
/** A session as one layer sees it. Lives until close_session returned. */
typedef struct trn_layer_session trn_layer_session;

/** Where a layer stands by rule, outermost first; those with the same number may stand in any order. */
typedef enum trn_layer_role {
  TRN_LAYER_ANY = 0,       /**< anywhere */
  TRN_LAYER_OBSERVE = 10,  /**< trace: sees what is refused, too */
  TRN_LAYER_POLICY = 20,   /**< authorize, validate: before anything is spent on the query, or answered from a store */
  TRN_LAYER_CACHE = 30,
  TRN_LAYER_EXECUTE = 40   /**< limit, route: only for what really runs */
} trn_layer_role;

/** What a layer does itself. Every slot is optional: a missing one goes on to the next backend. */
typedef struct trn_layer_ops {
  size_t struct_size;
  const char *name; /**< for messages; copied */
  trn_layer_role role;
  /** Called after the next backend has opened the session; gives the layer's own state. Failing closes the inner one. */
  trn_status (*open_session)(void *self, trn_layer_session *session, void **state, trn_error **error);
  void (*close_session)(void *self, trn_layer_session *session, void *state);
  trn_status (*open_source)(void *self, trn_layer_session *session, const trn_source_request *request, trn_source **out,
                            struct ArrowSchema *schema, trn_error **error);
  /** Both or none: a layer whose sources are its own. */
  trn_source *(*source_ref)(void *self, trn_layer *layer, trn_source *source);
  void (*source_unref)(void *self, trn_layer *layer, trn_source *source);
  trn_status (*execute)(void *self, trn_layer_session *session, const trn_execute_request *request, trn_operation **out,
                        trn_error **error);
  trn_status (*explain)(void *self, trn_layer_session *session, trn_plan *plan, trn_explain_mode mode, char **out,
                        trn_error **error);
  trn_status (*decode)(void *self, trn_layer_session *session, const trn_plan_input *input, trn_plan **out,
                       trn_error **error);
  trn_status (*encode)(void *self, trn_layer_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                       trn_error **error);
  trn_status (*check)(void *self, trn_layer_session *session, trn_plan *plan, trn_error **error);
  /** Wraps a catalog of the next backend: `inner` is borrowed; `*out` is a catalog that the layer gives (or a reference to
   *  `inner`). trn_catalog_wrap helps. */
  trn_status (*catalog)(void *self, trn_layer_session *session, trn_catalog *inner, trn_catalog **out, trn_error **error);
  void (*destroy)(void *self);
  /** Missing while `decode` is there: a query without parameters is decoded again by `decode`, what is no query goes on. */
  trn_status (*decode_statement)(void *self, trn_layer_session *session, const trn_plan_input *input, trn_statement *out,
                                 trn_error **error);
  /** Takes new settings, as its factory would; sessions and running queries stay. On failure nothing changes. */
  trn_status (*reload)(void *self, const trn_config *config, trn_error **error);
} trn_layer_ops;

/** A layer around `inner` (a reference is taken). Copies `ops`; takes `self` on success. Errors: INVALID_ARGUMENT,
 *  RESOURCE_EXHAUSTED. */
TRN_API trn_status trn_layer_create(const trn_layer_ops *ops, void *self, trn_backend *inner, trn_backend **out,
                                    trn_error **error);

TRN_API trn_session *trn_layer_session_get(const trn_layer_session *session); /**< borrowed */
TRN_API void *trn_layer_session_state(const trn_layer_session *session);      /**< what open_session gave */
TRN_API trn_layer *trn_layer_session_layer(const trn_layer_session *session);
TRN_API trn_backend *trn_layer_next(const trn_layer *layer); /**< the backend inside; borrowed */

/* What comes after this layer: each as the function of backend.h with the same end of its name. */
TRN_API trn_status trn_next_open_source(trn_layer_session *session, const trn_source_request *request, trn_source **out,
                                        struct ArrowSchema *schema, trn_error **error);
TRN_API trn_source *trn_next_source_ref(trn_layer *layer, trn_source *source);
TRN_API void trn_next_source_unref(trn_layer *layer, trn_source *source);
TRN_API trn_status trn_next_execute(trn_layer_session *session, const trn_execute_request *request, trn_operation **out,
                                    trn_error **error);
TRN_API trn_status trn_next_explain(trn_layer_session *session, trn_plan *plan, trn_explain_mode mode, char **out,
                                    trn_error **error);
TRN_API trn_status trn_next_decode(trn_layer_session *session, const trn_plan_input *input, trn_plan **out,
                                   trn_error **error);
TRN_API trn_status trn_next_decode_statement(trn_layer_session *session, const trn_plan_input *input, trn_statement *out,
                                             trn_error **error);
TRN_API trn_status trn_next_encode(trn_layer_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                                   trn_error **error);
TRN_API trn_status trn_next_check(trn_layer_session *session, trn_plan *plan, trn_error **error);
/** NULL: the default catalog. Gives `*out`, unwrapped by this layer. */
TRN_API trn_status trn_next_catalog(trn_layer_session *session, const char *name, trn_catalog **out, trn_error **error);

/** A catalog that asks before it goes on to `inner` (a reference is taken), and tells afterwards. */
typedef enum trn_catalog_action {
  TRN_CATALOG_READ = 1, /**< open_table */
  TRN_CATALOG_LIST,     /**< list_databases, list_tables, list_functions: `allow` is asked for each entry, which is left out */
  TRN_CATALOG_CREATE,   /**< create_database, create_table; begin_write with CREATE */
  TRN_CATALOG_WRITE,    /**< begin_write, truncate_table, add_partitions, drop_partitions */
  TRN_CATALOG_ALTER,    /**< alter_*, rename_table (both names) */
  TRN_CATALOG_DROP,
  TRN_CATALOG_DESCRIBE /**< get_table, list_partitions: what whoever reads, writes or drops must know */
} trn_catalog_action;
typedef struct trn_catalog_access {
  size_t struct_size;
  trn_catalog_action action;
  const char *catalog, *database, *table; /**< table NULL: the database itself */
  bool is_view;                           /**< where it is known */
  const char *location;                   /**< a path that a definition names; NULL: none */
  bool is_renamed;                        /**< ALTER of the name that goes: the data will be there under another one */
  bool shows_values;                      /**< DESCRIBE by list_partitions: values of rows are shown */
} trn_catalog_access;
typedef struct trn_catalog_hooks {
  size_t struct_size;
  trn_status (*allow)(void *user, trn_session *session, const trn_catalog_access *access, trn_error **error);
  /** After a change that succeeded (of a write: after its commit). Optional. */
  void (*changed)(void *user, trn_session *session, const trn_catalog_access *access);
  void (*destroy)(void *user);
} trn_catalog_hooks;
/** Copies `hooks`; takes `user` on success. */
TRN_API trn_status trn_catalog_wrap(trn_catalog *inner, const trn_catalog_hooks *hooks, void *user, trn_catalog **out);

/** Watches an operation of the next backend. Hooks are called without a lock held; `end` exactly once, whatever happens
 *  first: the stream's end, a failure, a cancel, the stream or the operation dropped. */
typedef struct trn_watch_hooks {
  size_t struct_size;
  void (*pull)(void *user);                               /**< before each pull; optional */
  /** Each batch or piece as it arrives. A status other than OK fails the stream with it and cancels the query. Optional. */
  trn_status (*item)(void *user, int64_t rows, uint64_t bytes, trn_error **error);
  void (*end)(void *user, trn_status status, const trn_error *error); /**< CANCELLED: dropped before its end */
  /** Changes the text of metrics: takes `text` (trn_free; may be NULL), gives another. Optional. */
  char *(*metrics)(void *user, char *text);
  void (*destroy)(void *user); /**< last; optional */
  /** A failure on its way to the client: gives the status to tell instead, and its error in `*error`. Optional. */
  trn_status (*fail)(void *user, trn_status status, trn_error **error);
} trn_watch_hooks;
/** Takes `inner` and `user` on success; on failure neither, and no hook is called. Gives `*out` with inner's id. */
TRN_API trn_status trn_operation_watch(trn_operation *inner, const trn_watch_hooks *hooks, void *user,
                                       trn_operation **out);

/** An operation that begins later: when `trn_deferred_start` (or `trn_deferred_fail`) says so, perhaps on another thread.
 *  Until then its state is PENDING, its stream is there (with the plan's schema) and a pull waits. `start` runs once, on a
 *  worker thread of the library, and gives what really runs. After a cancel `cancelled` is called instead: exactly one of
 *  both, unless trn_deferred_fail was called or the handle dropped before. */
typedef struct trn_deferred trn_deferred;
typedef struct trn_deferred_ops {
  size_t struct_size;
  trn_status (*start)(void *user, trn_operation **out, trn_error **error);
  void (*cancelled)(void *user); /**< instead of `start`: nobody wants it any more; any thread, must not block. Optional */
  void (*destroy)(void *user);
} trn_deferred_ops;
/** Takes `user` on success. `request`: its id and plan. Gives the operation, and the handle that starts it (a reference).
 *  The layer stays alive as long as either. */
TRN_API trn_status trn_deferred_create(trn_layer *layer, const trn_deferred_ops *ops, void *user,
                                       const trn_execute_request *request, trn_deferred **handle, trn_operation **out);
TRN_API void trn_deferred_start(trn_deferred *handle); /**< idempotent; does not block */
TRN_API void trn_deferred_fail(trn_deferred *handle, trn_status status, trn_error *error); /**< `error` is borrowed */
TRN_API void trn_deferred_unref(trn_deferred *handle);

/* ---- decisions that may come later ---- */

/** Where an answer goes. Frozen layout; copied freely. Valid as long as the layer: an answer that is late, or a second one,
 *  is noticed and dropped. */
typedef struct trn_decision {
  void *owner;
  uint64_t id;
} trn_decision;
/** Answers, once: OK allows; another status refuses with `error` (taken; may be NULL). False: nobody waits: it was answered
 *  before, cancelled, or took too long (a debug build stops there unless the layer has an `on_misuse`). Threads: any. */
TRN_API bool trn_decision_answer(trn_decision decision, trn_status status, trn_error *error);

/* ---- what the layers ask about ---- */

typedef enum trn_access_kind {
  TRN_ACCESS_TABLE = 1, /**< database "", table "" where there are none */
  TRN_ACCESS_VIEW,
  TRN_ACCESS_PATH,
  TRN_ACCESS_FUNCTION,
  TRN_ACCESS_COLUMN,
  TRN_ACCESS_DATABASE,
  TRN_ACCESS_UNKNOWN,  /**< a node that nobody understands, a physical plan */
  TRN_ACCESS_STATEMENT /**< the whole: kind in `name` */
} trn_access_kind;
typedef enum trn_access_action {
  TRN_ACTION_READ = 1,
  TRN_ACTION_WRITE,
  TRN_ACTION_CREATE,
  TRN_ACTION_DROP,
  TRN_ACTION_USE /**< functions */
} trn_access_action;

/** One question. Borrowed during the call (and until the answer, when it comes later). */
typedef struct trn_access {
  size_t struct_size;
  trn_access_kind kind;
  trn_access_action action;
  const char *name;   /**< "catalog.database.table", a path, a function, a statement's kind */
  const char *column; /**< of COLUMN */
  const char *user;
  const char *const *groups;
  size_t group_count;
  bool is_authenticated;
  trn_session *session;
  const trn_plan *plan; /**< or NULL */
} trn_access;

/** What the embedder says beyond the rules. Exactly one of `decide` and `start` is set. */
typedef struct trn_policy_callback {
  size_t struct_size;
  /** OK: the rules decide; PERMISSION_DENIED (or another status) refuses. */
  trn_status (*decide)(void *user, const trn_access *access, trn_error **error);
  /** Begins; trn_decision_answer answers, from any thread, also before it returns. Not OK: refused, no answer comes. */
  trn_status (*start)(void *user, const trn_access *access, trn_decision decision, trn_error **error);
  /** Nobody waits for the decision any more. When it returns, `access` is not touched any more. Required with `start`. */
  void (*cancel)(void *user, trn_decision decision);
  uint64_t timeout_ms; /**< for an answer; 0: 30 seconds. Then DEADLINE_EXCEEDED */
  void (*on_misuse)(void *user, trn_decision decision); /**< a second or late answer; optional */
  void (*destroy)(void *user);
  void *user;
} trn_policy_callback;

/* ---- events: what layers did, for logs ---- */

typedef enum trn_event_kind {
  TRN_EVENT_DECISION = 1, /**< authorize, validate: allowed or refused */
  TRN_EVENT_CACHE,        /**< hit, miss, stored, invalidated */
  TRN_EVENT_ROUTE,
  TRN_EVENT_LIMIT,
  TRN_EVENT_SPAN,  /**< a finished piece of work */
  TRN_EVENT_AUDIT, /**< a finished operation: who, what, tables, end, rows, bytes, time */
  TRN_EVENT_SLOW,
  TRN_EVENT_WARNING
} trn_event_kind;
typedef struct trn_event {
  size_t struct_size;
  trn_event_kind kind;
  const char *layer;  /**< "authorize" */
  const char *action; /**< "deny", "allow", "hit", ...; of a span its name: "call", "plan", "execute", "fetch" */
  const char *object; /**< what it is about */
  const char *user;
  const char *session_id, *operation_id;
  const char *statement;
  const char *protocol;
  const char *detail; /**< free text: a rule, a reason */
  const char *trace_id, *span_id, *parent_id; /**< hex */
  int64_t start_ns;   /**< since the epoch */
  int64_t duration_ns;
  int64_t rows, bytes; /**< -1: not counted */
  trn_status status;
} trn_event;
/** Called on the thread that did the thing; must not block. */
typedef void (*trn_event_sink)(void *user, const trn_event *event);

/* ---- the layers ---- */

/** authorize. Options from `config` (docs/policies.md), callback and sink from code; each may be NULL. Errors name the key
 *  and where it was written. Takes nothing; `callback->user` is taken on success. */
typedef struct trn_authorize_options {
  size_t struct_size;
  const trn_config *config;
  const trn_policy_callback *callback;
  trn_event_sink sink;
  void *sink_user;
} trn_authorize_options;
TRN_API trn_status trn_authorize_create(const trn_authorize_options *options, trn_backend *inner, trn_backend **out,
                                        trn_error **error);

/** validate. */
typedef trn_authorize_options trn_validate_options;
TRN_API trn_status trn_validate_create(const trn_validate_options *options, trn_backend *inner, trn_backend **out,
                                       trn_error **error);

/** cache. */
typedef struct trn_cache_options {
  size_t struct_size;
  const trn_config *config;
  trn_event_sink sink;
  void *sink_user;
} trn_cache_options;
TRN_API trn_status trn_cache_create(const trn_cache_options *options, trn_backend *inner, trn_backend **out,
                                    trn_error **error);
typedef struct trn_cache_counts {
  size_t struct_size;
  uint64_t hits, misses, waits, stores, evictions, invalidations, disk_hits;
  uint64_t entries, bytes, disk_bytes;
} trn_cache_counts;
/** False: `cache` is not a cache's backend. */
TRN_API bool trn_cache_count(trn_backend *cache, trn_cache_counts *out);
/** Everything is forgotten. */
TRN_API void trn_cache_clear(trn_backend *cache);

/** trace. Where finished spans go besides the files that `config` names; batches are the exporter's business. */
typedef struct trn_span_exporter {
  size_t struct_size;
  void (*span)(void *user, const trn_event *span); /**< any thread; must not block */
  void (*flush)(void *user, uint64_t timeout_ms);
  void (*destroy)(void *user);
  void *user;
} trn_span_exporter;
/** OTLP over gRPC: spans in batches to an OpenTelemetry collector. A reference to the channel is taken; `service`: the name
 *  that the spans are under. Fills `*out` for trn_trace_options, which takes it. What cannot be sent is dropped: queries
 *  never wait. Errors: RESOURCE_EXHAUSTED. */
TRN_API trn_status trn_otlp_exporter_create(trn_channel *channel, const char *service, trn_span_exporter *out);
typedef struct trn_trace_options {
  size_t struct_size;
  const trn_config *config;
  trn_event_sink sink;
  void *sink_user;
  const trn_span_exporter *exporter; /**< `user` is taken on success */
  trn_connector *connector;          /**< for `otlp` in `config`; a reference is taken; NULL: that is an error */
} trn_trace_options;
TRN_API trn_status trn_trace_create(const trn_trace_options *options, trn_backend *inner, trn_backend **out,
                                    trn_error **error);
/** Metrics in Prometheus' text form, of every trace layer below `backend`. Gives `*out` (trn_free). NOT_FOUND: no trace. */
TRN_API trn_status trn_metrics_render(trn_backend *backend, char **out);

/** route: `inner` is the backend named "default"; others by name. */
typedef struct trn_route_target {
  const char *name;
  trn_backend *backend;            /**< a reference is taken */
  const char *const *functions;    /**< what it can run: patterns; NULL: everything */
  size_t function_count;
  bool (*is_healthy)(void *user);  /**< cheap; NULL: judged by failures */
  void *user;
} trn_route_target;
/** Chooses: gives the name of a target, or NULL: the rules decide. Any thread; does not block. */
typedef const char *(*trn_route_choice)(void *user, trn_session *session, const trn_plan *plan,
                                        const trn_execute_request *request);
typedef struct trn_route_options {
  size_t struct_size;
  const trn_config *config;
  const trn_route_target *targets;
  size_t target_count;
  trn_route_choice choose;
  void *choose_user;
  trn_event_sink sink;
  void *sink_user;
  const trn_registry *registry; /**< makes the backends that `config` names; NULL: only `targets` */
} trn_route_options;
TRN_API trn_status trn_route_create(const trn_route_options *options, trn_backend *inner, trn_backend **out,
                                    trn_error **error);

/** limit. */
typedef trn_cache_options trn_limit_options;
TRN_API trn_status trn_limit_create(const trn_limit_options *options, trn_backend *inner, trn_backend **out,
                                    trn_error **error);
typedef struct trn_limit_counts {
  size_t struct_size;
  uint64_t running, waiting, started, refused, expired;
} trn_limit_counts;
TRN_API bool trn_limit_count(trn_backend *limit, trn_limit_counts *out); /**< false: not a limit's backend */

/* ---- stacks ---- */

/** What to do about an order that the roles do not allow. */
typedef enum trn_layer_order { TRN_ORDER_REFUSE = 0, TRN_ORDER_WARN } trn_layer_order;
typedef struct trn_layers_options {
  size_t struct_size;
  trn_layer_order order;
  trn_event_sink sink; /**< warnings, and the events of all layers made here */
  void *sink_user;
} trn_layers_options;
/** Builds the stack that `list` says around `base`: a list of names ("trace") and of maps with one key, a name, whose value
 *  is the layer's configuration; the first is the outermost. Gives `*out` (for an empty list a reference to `base`).
 *  Errors: NOT_FOUND (an unknown layer), INVALID_ARGUMENT (a wrong order; says which should come first). */
TRN_API trn_status trn_layers_build(const trn_registry *registry, const trn_config *list, trn_backend *base,
                                    const trn_layers_options *options, trn_backend **out, trn_error **error);
/** New settings for the layers of a stack that trn_layers_build made: `list` has the same layers in the same order. Those
 *  that can take settings while they run (authorize, validate, others with `reload`) take them, the others keep theirs.
 *  All are checked before the first takes any. Errors: INVALID_ARGUMENT; FAILED_PRECONDITION: other layers. Threads: any;
 *  one at a time. */
TRN_API trn_status trn_layers_reload(const trn_registry *registry, trn_backend *backend, const trn_config *list,
                                     trn_error **error);
/** Checks the order of a stack, however it was made: INVALID_ARGUMENT says which layer should come first. */
TRN_API trn_status trn_layers_check(trn_backend *backend, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
