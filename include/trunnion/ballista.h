/* Queries on a Ballista cluster: a backend around another one. The inner ("local") backend keeps sessions, sources and
 * catalogs, decodes, and encodes plans for the cluster; what the cluster cannot run exactly runs on it, or is refused.
 *
 * The cluster reads files itself: paths of a query must mean the same on its machines. Its function set is found out
 * with the first query that needs more than DataFusion's own functions (trunnion-ballista has all of them). */
#ifndef TRUNNION_BALLISTA_H
#define TRUNNION_BALLISTA_H
#include <trunnion/backend.h>
#include <trunnion/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trn_ballista_fallback {
  TRN_BALLISTA_FALLBACK_LOCAL = 0, /**< what the cluster cannot run runs on the local backend */
  TRN_BALLISTA_FALLBACK_REFUSE     /**< it fails with UNIMPLEMENTED, which names the construct */
} trn_ballista_fallback;

typedef enum trn_ballista_functions {
  TRN_BALLISTA_FUNCTIONS_AUTO = 0, /**< found out by the first query that uses one */
  TRN_BALLISTA_FUNCTIONS_ALL,      /**< the cluster has the function library: trunnion-ballista */
  TRN_BALLISTA_FUNCTIONS_STOCK     /**< only DataFusion's own: Ballista's published binaries */
} trn_ballista_functions;

/** Zero means the default for every member. Copied. */
typedef struct trn_ballista_options {
  size_t struct_size;
  trn_connector *connector; /**< makes the channels; a reference is taken. Required unless `routes` is set */
  const char *scheduler;    /**< "host:port" */
  const trn_routes *routes; /**< scheduler and executors are these, in this process; borrowed */
  bool scheduler_tls, executor_tls;
  const char *ca_pem, *cert_pem, *key_pem; /**< of both */
  const trn_metadata *metadata;            /**< sent with every call to the scheduler */
  size_t metadata_count;
  trn_ballista_fallback fallback;
  trn_ballista_functions functions;
  const trn_kv *settings; /**< of every job, "ballista.*" and "datafusion.*"; over the safe ones that are sent anyway */
  size_t setting_count;
  /** Rows that a client sent along and that are larger than `inline_bytes_max` (default 64 KiB) are put into files
   * here, which the cluster must be able to read under the same path. NULL: such queries run locally. */
  const char *spool_directory;
  size_t inline_bytes_max;
  size_t fetch_bytes_max; /**< results that wait for a slow client, of one query; default 32 MiB */
  unsigned fetches_max;   /**< partitions fetched at once, of one query; default 4 */
  unsigned timeout_ms;    /**< for an answer of the scheduler; default 20,000 */
  unsigned threads;       /**< that decompress results; default: cores */
  /** Files are written here, and not by the cluster's executors, which must see the directory under the same path. */
  bool writes_locally;
} trn_ballista_options;

/** A backend around `local` (a reference is taken). Does not connect: an unreachable scheduler fails queries with
 * UNAVAILABLE. Threads: any. Blocks: no. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED. Since 0.1. */
TRN_API trn_status trn_ballista_backend_create(const trn_ballista_options *options, trn_backend *local,
                                               trn_backend **out, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
