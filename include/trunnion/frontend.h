/* Protocol frontends, to be mounted into any host's routes. */
#ifndef TRUNNION_FRONTEND_H
#define TRUNNION_FRONTEND_H
#include <trunnion/auth.h>
#include <trunnion/backend.h>
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_frontend trn_frontend;
typedef struct trn_registry trn_registry;

typedef struct trn_frontend_ops {
  size_t struct_size;
  /** Adds its methods to `routes`, executing on `backend` (takes a reference). What it makes is owned by the routes. */
  trn_status (*do_register)(void *self, trn_routes *routes, trn_backend *backend, trn_error **error);
  void (*destroy)(void *self);
} trn_frontend_ops;

TRN_API trn_status trn_frontend_create(const trn_frontend_ops *ops, void *self, trn_frontend **out);
TRN_API void trn_frontend_destroy(trn_frontend *frontend);
/** Mounts `frontend` on `routes`. The routes keep what serves; the frontend may be destroyed afterwards. Since 0.1. */
TRN_API trn_status trn_frontend_register(trn_frontend *frontend, trn_routes *routes, trn_backend *backend,
                                         trn_error **error);

/** Spark Connect. Zero means the default. */
typedef struct trn_spark_options {
  size_t struct_size;
  unsigned workers;            /**< threads that decode, translate and plan; default: cores + 2, started on demand */
  uint64_t session_idle_ms;    /**< default 60 minutes */
  uint64_t detached_ms;        /**< operations that no client reads are dropped after; default 5 minutes */
  size_t response_log_bytes;   /**< unreleased responses of one operation; default 64 MiB */
  const char *timezone;        /**< default of spark.sql.session.timeZone; "UTC" */
  uint64_t stream_ms;          /**< a stream that can be resumed is ended after, and the client resumes it; default 2 minutes */
  const trn_registry *registry; /**< of translators and decoders for Spark's extensions; borrowed until the routes are
                                   gone; NULL: none */
} trn_spark_options;
TRN_API trn_status trn_spark_frontend_create(const trn_spark_options *options, trn_frontend **out);

/** Flight SQL, in the one Flight service of the routes (whoever registers there first gives its threads, session time and
 *  authenticator). Zero means the default. */
typedef struct trn_flightsql_options {
  size_t struct_size;
  unsigned workers;         /**< threads that decode and plan; default: cores + 8, started on demand */
  uint64_t session_idle_ms; /**< default 60 minutes */
  uint64_t result_ms;       /**< a result that nobody fetches is dropped after; default 5 minutes */
  trn_authenticator *authenticator; /**< a reference is taken; NULL: whatever the host says, and anybody */
  bool allow_anonymous;     /**< with an authenticator: callers without credentials are let in as "" */
  const char *dialect;      /**< of new sessions: "datafusion" (default) or "spark" */
  const char *spool_directory; /**< for rows that are ingested and do not fit in memory; default: the C library's */
  bool read_only;           /**< statements that change things are refused */
  uint64_t transaction_ms;  /**< a transaction that nobody uses is rolled back after; default 5 minutes */
  bool hands_through; /**< sessions may ask for results to stay on a Ballista cluster's executors (the option `locations` =
                         "executors"): no row comes through this server, and whoever reaches an executor can read it */
} trn_flightsql_options;
/** INVALID_ARGUMENT: an unknown dialect. Since 0.1. */
TRN_API trn_status trn_flightsql_frontend_create(const trn_flightsql_options *options, trn_frontend **out);

/** gRPC's health checking (grpc.health.v1: Check, Watch, List): the server and every service of the routes serve, until the
 *  routes go. Callers without credentials are answered too. The backend may be NULL. Since 0.1. */
TRN_API trn_status trn_health_frontend_create(trn_frontend **out);
/** Server reflection (grpc.reflection.v1 and v1alpha): the services of the routes, and the descriptors of those that come
 *  with the library. The backend may be NULL. Since 0.1. */
TRN_API trn_status trn_reflection_frontend_create(trn_frontend **out);

/** Ballista's scheduler protocol (clients of 55.x; of 54.x too, unless refused), its results in the one Flight service of the
 *  routes (whoever registers there first gives its threads, session time and authenticator). Zero means the default. */
typedef struct trn_ballista_frontend_options {
  size_t struct_size;
  unsigned workers;         /**< threads that decode and plan; default: cores + 2, started on demand */
  uint64_t session_idle_ms; /**< settings that a client keeps (CreateUpdateSession) are dropped after; default 60 minutes */
  uint64_t result_ms;       /**< a result that nobody fetches is dropped after; default 5 minutes */
  uint64_t job_ms;          /**< a job that is over is forgotten after; default 60 minutes */
  size_t result_bytes;      /**< of one job's rows in memory; a larger result is made as it is fetched; default 16 MiB */
  size_t results_bytes;     /**< of all jobs' together; default 256 MiB */
  bool runs_on;             /**< a job whose client is gone runs on, as in Ballista; else it is cancelled */
  bool refuses_older;       /**< clients that send no version (54.x) are refused, as Ballista 55 does */
  trn_authenticator *authenticator; /**< of Flight, when this is the first there; a reference is taken; NULL: the host's */
  bool allow_anonymous;             /**< likewise */
  const trn_registry *registry; /**< of decoders for plans; borrowed until the routes are gone; NULL: one with the built-in
                                   ones */
  bool hands_through; /**< results that a backend leaves on a Ballista cluster's executors are fetched there, where clients
                         reach them: no row comes through this server, and whoever reaches an executor can read it */
  /** Queries become jobs of this scheduler (scheduler.h), over the backend that the frontend is registered with: they are
   *  recorded, run on when their client is gone, and other processes over the same store answer for them and serve their
   *  outputs. A reference is taken. NULL: jobs are this process's. COPY, INSERT and EXPLAIN are this process's always. */
  struct trn_scheduler *jobs;
  const void *ticket_key; /**< with `jobs`, required: at least 16 secret bytes, the same for all who serve them; copied */
  size_t ticket_key_size;
  bool resubmits_lost; /**< a lost job that a client asks for is submitted again; else it has failed for its client */
} trn_ballista_frontend_options;
/** INVALID_ARGUMENT: jobs without a key, or with hands_through. Since 0.1. */
TRN_API trn_status trn_ballista_frontend_create(const trn_ballista_frontend_options *options, trn_frontend **out);

#ifdef __cplusplus
}
#endif
#endif
