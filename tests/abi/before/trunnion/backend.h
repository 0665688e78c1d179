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
} trn_source_request;

typedef struct trn_execute_request {
  size_t struct_size;
  const char *operation_id; /**< NULL: a new UUIDv7 */
  trn_plan *plan;           /**< borrowed; a reference is taken */
  const char *const *tags;
  size_t tag_count;
} trn_execute_request;

typedef enum trn_explain_mode { TRN_EXPLAIN_LOGICAL = 0, TRN_EXPLAIN_OPTIMIZED, TRN_EXPLAIN_PHYSICAL } trn_explain_mode;

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

/** The bundled in-process backend: DataFusion behind libtrunnion_engine.so. Zero means the default. */
typedef struct trn_embedded_options {
  size_t struct_size;
  const char *engine_path;    /**< libtrunnion_engine.so; NULL: beside the running program, then the loader's search */
  const char *functions_path; /**< libtrunnion_functions.so; likewise */
  unsigned threads;
  uint64_t memory_bytes;
  const char *spill_directory;
} trn_embedded_options;
/** Loads the engine (never unloaded). NOT_FOUND names the file. Threads: any. Blocks. Since 0.1. */
TRN_API trn_status trn_embedded_backend_create(const trn_embedded_options *options, trn_backend **out, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
