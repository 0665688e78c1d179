/* The bundled gRPC server (HTTP/2 over nghttp2, libuv, OpenSSL), in libtrunnion_server. Programs that own a server
 * mount trn_routes there instead and do not need this. */
#ifndef TRUNNION_SERVER_H
#define TRUNNION_SERVER_H
#include <trunnion/auth.h>
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_server trn_server;

/** The answer to a plain HTTP GET (metrics, health). */
typedef struct trn_http_response {
  size_t struct_size;
  unsigned status;          /**< 200, 404, ... */
  const char *content_type; /**< a text that lives as long as the server; NULL: text/plain */
  trn_slice body;           /**< taken by the server */
} trn_http_response;
/** Answers GET `path` (with its query). On an event loop: must not block. Fills a zeroed `response`; status 0: 404. */
typedef void (*trn_http_handler)(void *user, const char *path, trn_http_response *response);

/** Zero means the default for every member. */
typedef struct trn_server_options {
  size_t struct_size;
  /** "host:port", "[v6]:port" (port 0: any free one) or "unix:/path". Default "127.0.0.1:15002". A socket file that no
   * server listens on any more is replaced, and removed at the end. */
  const char *listen;
  const char *cert_pem; /**< PEM text; with key_pem: TLS with ALPN h2 */
  const char *key_pem;
  const char *client_ca_pem; /**< PEM text: clients must present a certificate that it signs */
  unsigned loops;            /**< event loops (threads); default: min(cores, 4) */
  size_t message_bytes_max;  /**< largest request message; default 128 MiB */
  size_t metadata_bytes_max; /**< default 64 KiB */
  size_t send_high_water;    /**< queued bytes per call at which trn_call_send answers TRN_SEND_FULL; default 1 MiB */
  unsigned streams_max;      /**< concurrent streams per connection; default 1000 */
  unsigned connections_max;  /**< default 10,000 */
  unsigned handshake_ms;     /**< TLS handshake and the first HTTP/2 settings; default 10,000 */
  unsigned keepalive_ms;     /**< silence on a connection that has calls, then a PING; default 60,000 */
  unsigned keepalive_timeout_ms; /**< silence after that PING, then the peer is lost; default 20,000 */
  /** PINGs of a client that come faster, on a connection to which nothing was sent meanwhile, are strikes; the third
   * ends it with ENHANCE_YOUR_CALM "too_many_pings". Default 5,000; one without calls may send one in two hours at no
   * cost. */
  unsigned ping_interval_min_ms;
  unsigned connection_idle_ms; /**< a connection without calls for so long is asked to leave (GOAWAY); 0: never */
  unsigned connection_age_ms;  /**< likewise an old one; its calls may end; 0: never */
  unsigned
      stalled_ms; /**< a peer that takes nothing of what waits for it, or pauses inside a message: default 120,000 */
  size_t memory_bytes_max; /**< request bytes held for all connections together; default 2 GiB */
  /** Asked when a call opens, off the loops; what it answers is the call's identity and groups. A reference is taken.
   *  NULL: the certificate's name is the identity. */
  trn_authenticator *authenticator;
  trn_http_handler http_get; /**< NULL: such requests are refused. HTTP/1.1 (without TLS or ALPN) and HTTP/2 */
  void *http_user;
} trn_server_options;

/** Binds, starts the loops, serves `routes` (borrowed: must outlive the server and is not changed any more).
 *  Threads: any. Blocks: for binding. Errors: UNAVAILABLE (address in use ...), INVALID_ARGUMENT. Since 0.1. */
TRN_API trn_status trn_server_start(const trn_routes *routes, const trn_server_options *options, trn_server **out,
                                    trn_error **error);
TRN_API int trn_server_port(const trn_server *server); /**< 0 for a unix socket */
/** Replaces the certificates; connections that are there keep theirs, and no call is disturbed. On failure nothing
 * changes. Threads: any. Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (the server runs without TLS). Since 0.1. */
TRN_API trn_status trn_server_reload_tls(trn_server *server, const char *cert_pem, const char *key_pem,
                                         const char *client_ca_pem, trn_error **error);
/** No new connections or calls; running calls have `grace_ms` to end, then they are cancelled. Joins the loops and
 *  frees the server. Blocks. NULL is accepted. */
TRN_API void trn_server_stop(trn_server *server, unsigned grace_ms);

#ifdef __cplusplus
}
#endif
#endif
