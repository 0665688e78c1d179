/* The bundled gRPC server (HTTP/2 over nghttp2, libuv, OpenSSL), in libtrunnion_server. Programs that own a server
 * mount trn_routes there instead and do not need this. */
#ifndef TRUNNION_SERVER_H
#define TRUNNION_SERVER_H
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_server trn_server;

/** Zero means the default for every member. */
typedef struct trn_server_options {
  size_t struct_size;
  const char *listen;    /**< "host:port", "[v6]:port"; port 0: any free one. Default "127.0.0.1:15002" */
  const char *cert_pem;  /**< PEM text; with key_pem: TLS with ALPN h2 */
  const char *key_pem;
  const char *client_ca_pem; /**< PEM text: clients must present a certificate that it signs */
  unsigned loops;            /**< event loops (threads); default: min(cores, 4) */
  size_t message_bytes_max;  /**< largest request message; default 128 MiB */
  size_t metadata_bytes_max; /**< default 64 KiB */
  size_t send_high_water;    /**< queued bytes per call at which trn_call_send answers TRN_SEND_FULL; default 1 MiB */
  unsigned streams_max;      /**< concurrent streams per connection; default 1000 */
  unsigned connections_max;  /**< default 10,000 */
} trn_server_options;

/** Binds, starts the loops, serves `routes` (borrowed: must outlive the server and is not changed any more).
 *  Threads: any. Blocks: for binding. Errors: UNAVAILABLE (address in use ...), INVALID_ARGUMENT. Since 0.1. */
TRN_API trn_status trn_server_start(const trn_routes *routes, const trn_server_options *options, trn_server **out,
                                    trn_error **error);
TRN_API int trn_server_port(const trn_server *server);
/** No new connections or calls; running calls have `grace_ms` to end, then they are cancelled. Joins the loops and
 *  frees the server. Blocks. NULL is accepted. */
TRN_API void trn_server_stop(trn_server *server, unsigned grace_ms);

#ifdef __cplusplus
}
#endif
#endif
