/* Limits of the bundled server that are not options. (This library sees only public headers, so they are not in the
 * core's limits.h.) */
#ifndef TRN_H2_LIMITS_H
#define TRN_H2_LIMITS_H

#define TRN_H2_LISTEN_DEFAULT "127.0.0.1:15002"
#define TRN_H2_LISTENERS_MAX 8u /* addresses that a host name stands for */
#define TRN_H2_LOOPS_DEFAULT_MAX 4u
#define TRN_H2_LOOPS_MAX 64u
#define TRN_H2_MESSAGE_BYTES_DEFAULT (128u << 20)
#define TRN_H2_METADATA_BYTES_DEFAULT (64u << 10)
#define TRN_H2_SEND_HIGH_WATER_DEFAULT (1u << 20)
#define TRN_H2_STREAMS_DEFAULT 1000u
#define TRN_H2_CONNECTIONS_DEFAULT 10000u

#define TRN_H2_STREAM_WINDOW (2 << 20)      /* bytes a client may send on one stream that nobody reads */
#define TRN_H2_CONNECTION_WINDOW (8 << 20)  /* bytes in flight on one connection */
#define TRN_H2_UNREAD_BYTES_MAX (32u << 20) /* unread bytes of all streams of a connection before its window closes */
#define TRN_H2_FRAME_RECV_MAX (1u << 20)    /* SETTINGS_MAX_FRAME_SIZE we announce */
#define TRN_H2_FRAME_SEND_MAX (512u << 10)  /* largest DATA frame we make, if the peer allows that much */
#define TRN_H2_SMALL_MESSAGE 4096u          /* messages up to this size are not counted against the next */
#define TRN_H2_HELD_BYTES_DEFAULT (2ull << 30) /* unfinished and unread messages of all connections together */

/* Streams that a client may reset at once and per second before its connection ends ("rapid reset"). */
#define TRN_H2_RESETS_BURST 5000u
#define TRN_H2_RESETS_PER_S 500u

#define TRN_H2_METADATA_ENTRIES_MAX 1024u       /* request headers, and entries of a response's metadata */
#define TRN_H2_RESPONSE_HEADERS_MAX (64u << 10) /* bytes of response headers or trailers */
#define TRN_H2_RESPONSE_BLOCK_MAX                                                                                      \
  (256u << 10) /* what nghttp2 may encode; above the line before, or calls would hang                                  \
                */

#define TRN_H2_HANDSHAKE_MS 10000u         /* TLS handshake and HTTP/2 preface */
#define TRN_H2_KEEPALIVE_MS 60000u         /* silence on a connection that has calls, then a PING */
#define TRN_H2_KEEPALIVE_TIMEOUT_MS 20000u /* silence after that PING, then the peer is lost */
#define TRN_H2_TCP_KEEPALIVE_S 120         /* for connections without calls: idle gRPC clients do not answer PINGs */
#define TRN_H2_TICK_MS 1000u
#define TRN_H2_TICK_MIN_MS 10u
#define TRN_H2_STALLED_MS 120000u                   /* a peer that takes nothing, or pauses inside a message */
#define TRN_H2_PING_INTERVAL_MS 5000u               /* between a client's PINGs, when nothing was sent to it */
#define TRN_H2_PING_INTERVAL_IDLE_MS (7200u * 1000) /* likewise, without calls */
#define TRN_H2_PING_STRIKES_MAX 2u                  /* one more ends the connection */
#define TRN_H2_AUTH_CACHE_MS 10000u                 /* how long a connection's last credentials are known */
#define TRN_H2_AUTH_BYTES_MAX 16384u                /* longer credentials are not kept */
#define TRN_H2_HTTP_HEAD_MAX 8192u                  /* of a plain HTTP/1.1 request */

#define TRN_H2_ADDRESSES_MAX 8u /* of a name, that a client tries */
#define TRN_H2_DEADLINE_SLACK_NS 1000000
#define TRN_H2_CONNECT_MS 20000u
#define TRN_H2_BACKOFF_MS 1000u
#define TRN_H2_BACKOFF_MS_MAX 120000u
#define TRN_H2_ACCEPT_PAUSE_MS 100u /* out of file descriptors: no accepting for so long */
#define TRN_H2_GOAWAY_MS 1000u      /* stop: for the PING that tells that a client has seen the first GOAWAY */
#define TRN_H2_CANCEL_FLUSH_MS 500u /* stop: for the last trailers to leave */

#define TRN_H2_BATCH_SEGMENTS 256u      /* pieces of one writev */
#define TRN_H2_BATCH_COPY (64u << 10)   /* frame headers, HEADERS frames and small messages of one writev */
#define TRN_H2_BATCH_BYTES (1u << 20)   /* bytes after which a batch is written */
#define TRN_H2_PIECES_MAX 32u           /* pieces of messages in one DATA frame */
#define TRN_H2_PIECE_COPY_MAX 512u      /* smaller pieces are copied, which is cheaper than an iovec */
#define TRN_H2_READ_BYTES (256u << 10)  /* one read; the buffer belongs to the loop */
#define TRN_H2_READS_MAX 8u             /* reads from one connection before the others get their turn */
#define TRN_H2_PUMP_BYTES (8u << 20)    /* bytes written to one connection before the others get their turn */
#define TRN_H2_SETTLE_CONNECTIONS 1024u /* connections served in one round */
#define TRN_H2_SETTLE_ROUNDS 16u /* rounds of work made by callbacks before the loop looks at its sockets again */

#endif
