/* Trunnion's frontends in a grpc_server that somebody else owns: its ports, credentials and own services stay theirs.
 *
 *   trn_grpc_mount_create(server, &options, &mount);   before grpc_server_start
 *   grpc_server_start(server);
 *   trn_grpc_mount_start(mount);
 *   ...
 *   grpc_server_shutdown_and_notify(server, ...); grpc_server_cancel_all_calls(server);  and its tag has arrived
 *   trn_grpc_mount_destroy(mount);                     then grpc_server_destroy
 *
 * Effects on the process: `threads` threads, each with a completion queue of its own. No socket is made. */
#ifndef TRUNNION_GRPC_H
#define TRUNNION_GRPC_H
#include <grpc/grpc.h>
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_grpc_mount trn_grpc_mount;

/** Who sends a call. Borrowed until the function that told it is called again on the same thread. */
typedef struct trn_grpc_identity {
  const char *name; /**< NULL: nobody known */
  const char *const *groups;
  size_t group_count;
} trn_grpc_identity;

typedef struct trn_grpc_options {
  size_t struct_size;
  const trn_routes *routes; /**< complete; outlives the mount */
  unsigned threads;         /**< 0: two */
  /** How calls come in. False: all that the server has no registered method for, once (a server with registered methods
   *  only never answers an unknown one). True: our paths are registered, for owners who request generic calls
   * themselves. */
  bool registered;
  /** Asked once per call, before it is opened; must not block. A status other than OK ends the call (UNAUTHENTICATED:
   *  not at methods that check credentials themselves). When it is NULL, or
   *  gives no name, the identity in the call's auth context counts: a client certificate's common name, or what the
   *  owner's auth metadata processor set. */
  trn_status (*identify)(void *user, grpc_call *call, const grpc_metadata_array *metadata, trn_grpc_identity *out);
  void *user;
} trn_grpc_options;

/** Threads: the server's owner. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
trn_status trn_grpc_mount_create(grpc_server *server, const trn_grpc_options *options, trn_grpc_mount **out);
/** Begins to take calls. RESOURCE_EXHAUSTED when no thread can be started. */
trn_status trn_grpc_mount_start(trn_grpc_mount *mount);
/** Waits for the threads. The server has shut down: the tag of grpc_server_shutdown_and_notify has arrived. */
void trn_grpc_mount_destroy(trn_grpc_mount *mount);

#ifdef __cplusplus
}
#endif
#endif
