/* A backend: opens sessions, knows tables, executes resolved plans. A policy layer is a backend around a backend. */
#ifndef TRUNNION_BACKEND_H
#define TRUNNION_BACKEND_H
#include <trunnion/operation.h>
#include <trunnion/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A table's data as the backend knows it; what a SCAN of a plan holds. Reference counted by its backend. */
typedef struct trn_source trn_source;
typedef struct trn_catalog trn_catalog; /* catalog.h */
typedef struct trn_table trn_table;

/** Data named by a client: files, or rows that travelled with the request. */
typedef struct trn_source_request {
  size_t struct_size;
  const char *format; /**< "parquet", "csv", "json", "arrow" (files); "ipc": `data` is an Arrow IPC stream */
  const char *const *paths;
  size_t path_count;
  const trn_kv *options; /**< the engine's option names, translated by the frontend */
  size_t option_count;
  const struct ArrowSchema *schema; /**< NULL: inferred; borrowed */
  const void *data;                 /**< borrowed during the call */
  size_t data_size;
  trn_scan_label *label; /**< what it is in the terms of policies: a table of a catalog; NULL: what format and paths say */
  bool is_own;           /**< the files are the caller's own, an Arrow IPC stream in each: whole, and never changed while the source
                              lives (they may be removed): a backend of this process may map them. Since 0.1. */
} trn_source_request;

typedef struct trn_execute_request {
  size_t struct_size;
  const char *operation_id; /**< NULL: a new UUIDv7 */
  trn_plan *plan;           /**< borrowed; a reference is taken */
  const char *const *tags;
  size_t tag_count;
  const char *statement;   /**< the query's text, for logs; NULL: the plan's */
  const char *protocol;    /**< "spark", "flightsql", ...; NULL: unknown */
  const char *traceparent; /**< W3C trace context of the caller; NULL: none */
  const char *policy;      /**< what policies made of the user, set by layers: part of a cache's key; NULL: nothing */
  /** Looked at until execute returns, which it then does soon, with CANCELLED; the operation has a cancel of its own. Who
   *  keeps the request takes a reference. NULL: nobody cancels. */
  trn_cancel *cancel;
  /** The caller may ask where the result lies (trn_operation_locations) instead of for its rows: whoever can tell fetches
   *  nothing before a stream is asked for. */
  bool holds_output;
} trn_execute_request;

typedef enum trn_explain_mode { TRN_EXPLAIN_LOGICAL = 0, TRN_EXPLAIN_OPTIMIZED, TRN_EXPLAIN_PHYSICAL } trn_explain_mode;

/** A table as its name was resolved: a source with its schema, or (a view) a plan. Given: whoever asked unrefs `source`
 *  and `plan`, releases `schema`. `table`: a reference (trn_table_unref) or NULL; to be kept as long as the plan that
 *  reads it, so that its files stay. */
typedef struct trn_resolved_table {
  trn_source *source;
  struct ArrowSchema schema; /**< of `source` */
  trn_plan *plan;            /**< NULL unless it is a view */
  trn_table *table;
  trn_scan_label *label; /**< of `source`, a reference (trn_scan_label_unref) or NULL; for the scan that reads it */
} trn_resolved_table;
/** Finds what a table name in a query text or encoded plan means; `parts` outermost first ([catalog, [schema,]] table).
 *  NOT_FOUND names it. Blocks; called on the thread that decodes. */
typedef trn_status (*trn_table_resolver)(void *user, const char *const *parts, size_t count, trn_resolved_table *out,
                                         trn_error **error);

/** A query in some encoding: "sql" (the engine's own dialect), "datafusion.logical.v1", "datafusion.physical.v1",
 *  "substrait.plan.v1" or whatever a decoder is registered for. Borrowed during the call. */
typedef struct trn_plan_input {
  size_t struct_size;
  const char *format;
  const void *data;
  size_t size;
  const trn_kv *options;
  size_t option_count;
  trn_table_resolver resolve; /**< NULL: no tables */
  void *resolve_user;
  /** Values of the parameters ("?", "$1", "$name"): row `parameter_row` of a struct array, by place or (named ones) by the
   *  names of its columns; cast to the types that the parameters were found to have. NULL: they stay open. */
  const struct ArrowSchema *parameter_schema;
  const struct ArrowArray *parameters;
  int64_t parameter_row;
  trn_cancel *cancel; /**< as of trn_execute_request */
} trn_plan_input;

typedef struct trn_command trn_command; /* catalog.h */
typedef enum trn_statement_kind {
  TRN_STATEMENT_QUERY = 0, /**< plan */
  TRN_STATEMENT_COMMAND,   /**< command: to be given to trn_command_execute */
  TRN_STATEMENT_BEGIN,
  TRN_STATEMENT_COMMIT,
  TRN_STATEMENT_ROLLBACK
} trn_statement_kind;
/** A statement, decoded. Everything is borrowed from it and lives until `release`, which zeroes it. */
typedef struct trn_statement {
  size_t struct_size;
  trn_statement_kind kind;
  trn_plan *plan;
  const trn_command *command;
  /** A struct with a child per parameter, in order, named "$1" or "$name"; its type is Arrow's null ("n") when nothing
   *  tells. NULL: it has none. A plan with open parameters has a schema, but cannot be executed. */
  const struct ArrowSchema *parameters;
  void (*release)(struct trn_statement *statement); /**< NULL: nothing to release */
  void *owner;
} trn_statement;

/** Bytes that the library gives: call release once. */
typedef struct trn_bytes {
  const void *data;
  size_t size;
  void (*release)(void *owner);
  void *owner;
} trn_bytes;

/** What a backend implements. `self` is the backend, `session` what open_session gave. All may be called from any thread. */
typedef struct trn_backend_ops {
  size_t struct_size;
  /** Required. Cheap: sessions are made lazily. Gives `*session_state`. */
  trn_status (*open_session)(void *self, trn_session *session, void **session_state, trn_error **error);
  void (*close_session)(void *self, void *session_state);
  /** Makes a source and gives its schema. Blocks (worker threads only). PATH_NOT_FOUND names the path. Optional. */
  trn_status (*open_source)(void *self, void *session_state, const trn_source_request *request, trn_source **out,
                            struct ArrowSchema *schema, trn_error **error);
  trn_source *(*source_ref)(void *self, trn_source *source);
  void (*source_unref)(void *self, trn_source *source);
  /** Required. Starts a query; blocks for planning at most (worker threads only). */
  trn_status (*execute)(void *self, void *session_state, const trn_execute_request *request, trn_operation **out,
                        trn_error **error);
  /** Text of a plan; gives `*out` (trn_free). Blocks. Optional. */
  trn_status (*explain)(void *self, void *session_state, trn_plan *plan, trn_explain_mode mode, char **out,
                        trn_error **error);
  void (*destroy)(void *self);
  /** Decodes a query to a resolved plan. UNIMPLEMENTED for formats that it does not know. Blocks. Optional. */
  trn_status (*decode)(void *self, void *session_state, const trn_plan_input *input, trn_plan **out, trn_error **error);
  /** Encodes a plan; UNIMPLEMENTED names the construct that the format cannot hold. Blocks. Optional. */
  trn_status (*encode)(void *self, void *session_state, trn_plan *plan, const char *format, trn_bytes *out,
                       trn_error **error);
  /** Gives a reference to the catalog of that name, NULL: the default one. NOT_FOUND. Does not block for long. Optional,
   *  with `list_catalogs`: the catalogs that were added to the backend (catalog.h), else one in memory. */
  trn_status (*catalog)(void *self, void *session_state, const char *name, trn_catalog **out, trn_error **error);
  /** Names, the default one first. */
  trn_status (*list_catalogs)(void *self, void *session_state, void (*each)(void *user, const char *name), void *user,
                              trn_error **error);
  /** May the session see what this plan says of itself (schema, explain, inputs)? For calls that analyze a plan and run
   *  nothing. Optional: OK. */
  trn_status (*check)(void *self, void *session_state, trn_plan *plan, trn_error **error);
  /** As decode, but also of what is no query. Gives `*out` (its release). Optional: what `decode` gives is a query. */
  trn_status (*decode_statement)(void *self, void *session_state, const trn_plan_input *input, trn_statement *out,
                                 trn_error **error);
} trn_backend_ops;

/** Checks required slots (INVALID_ARGUMENT), fills optional ones with UNIMPLEMENTED. Takes `self` on success only. */
TRN_API trn_status trn_backend_create(const trn_backend_ops *ops, void *self, trn_backend **out);
TRN_API trn_backend *trn_backend_ref(trn_backend *backend);
TRN_API void trn_backend_unref(trn_backend *backend);
TRN_API trn_status trn_backend_open_source(trn_session *session, const trn_source_request *request, trn_source **out,
                                           struct ArrowSchema *schema, trn_error **error);
TRN_API trn_source *trn_backend_source_ref(trn_backend *backend, trn_source *source);
TRN_API void trn_backend_source_unref(trn_backend *backend, trn_source *source);
TRN_API trn_status trn_backend_execute(trn_session *session, const trn_execute_request *request, trn_operation **out,
                                       trn_error **error);
TRN_API trn_status trn_backend_explain(trn_session *session, trn_plan *plan, trn_explain_mode mode, char **out,
                                       trn_error **error);

TRN_API trn_status trn_backend_decode(trn_session *session, const trn_plan_input *input, trn_plan **out,
                                      trn_error **error);
/** Gives `*out` (its release, when not NULL). Nothing has run when it returns. */
TRN_API trn_status trn_backend_decode_statement(trn_session *session, const trn_plan_input *input, trn_statement *out,
                                                trn_error **error);
/** Asks the layers whether the session may see what a plan says of itself: PERMISSION_DENIED. */
TRN_API trn_status trn_backend_check(trn_session *session, trn_plan *plan, trn_error **error);
TRN_API trn_status trn_backend_encode(trn_session *session, trn_plan *plan, const char *format, trn_bytes *out,
                                      trn_error **error);

/** The bundled in-process backend: DataFusion behind libtrunnion_engine.so. Zero means the default. */
typedef struct trn_embedded_options {
  size_t struct_size;
  const char *engine_path;    /**< libtrunnion_engine.so; NULL: beside the running program, then the loader's search */
  const char *functions_path; /**< libtrunnion_functions.so; likewise */
  unsigned threads;
  uint64_t memory_bytes;
  const char *spill_directory;
  /** Function libraries (function.h) beside the bundled one; they live as long as the process. Since 0.1. */
  const struct trn_function_library *const *libraries;
  size_t library_count;
} trn_embedded_options;
/** Loads the engine (never unloaded). NOT_FOUND names the file. Threads: any. Blocks. Since 0.1. */
TRN_API trn_status trn_embedded_backend_create(const trn_embedded_options *options, trn_backend **out, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
