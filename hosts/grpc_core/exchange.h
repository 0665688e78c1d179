/* The half that the adapters to libgrpc and libgrpc++ share: one call's queue, its deliveries, its end. What differs -
 * how a message is read and written - is a trn_exchange_io. */
#ifndef TRUNNION_HOSTS_EXCHANGE_H
#define TRUNNION_HOSTS_EXCHANGE_H
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TRN_HOST_HIGH_WATER = 1 << 20,          /* queued bytes from which a frontend is asked to wait; it goes on at half */
  TRN_HOST_MESSAGE_BYTES_MAX = 128 << 20, /* request messages of methods that name no limit */
  TRN_HOST_METADATA_MAX = 256             /* entries of a request */
};

typedef struct trn_exchange trn_exchange;

/* Copies: valid as long as the exchange. */
typedef struct trn_exchange_end {
  trn_status status;
  char *message; /* NULL: none */
  void *details;
  size_t details_size;
  trn_metadata *trailing;
  size_t trailing_count;
} trn_exchange_end;

/* One write: what goes out together. All borrowed until trn_exchange_written, but `message`, which is taken. */
typedef struct trn_exchange_write {
  bool is_first; /* initial metadata goes along */
  const trn_metadata *initial;
  size_t initial_count;
  grpc_byte_buffer *message;   /* NULL: none */
  const trn_exchange_end *end; /* NULL: the call goes on */
} trn_exchange_write;

/* thread: any; locks: none. Each of read, write and poke that returned true is answered once, never inline; false: it
 * did not start, and the call is lost. */
typedef struct trn_exchange_io {
  bool (*read)(void *io);                                   /* answered by trn_exchange_received */
  bool (*write)(void *io, const trn_exchange_write *write); /* answered by trn_exchange_written */
  bool (*poke)(void *io); /* answered by trn_exchange_poked, on a thread of the server */
  void (*cancel)(void *io, trn_status status, const char *message);
  void (*destroy)(void *io); /* the last reference to the call is gone */
} trn_exchange_io;

/* Makes the call. Takes `io` on success. trn_exchange_start and trn_exchange_closed must follow once each. The exchange
 * may be gone once those two were called and all reads, writes and pokes were answered. */
trn_status trn_exchange_open(const trn_call_request *request, const trn_exchange_io *ops, void *io, trn_exchange **out);
/* Opens the call, on a thread of the server. */
void trn_exchange_start(trn_exchange *x);
/* `message` is taken. NULL: no more (`is_failed`: since the call is lost). */
void trn_exchange_received(trn_exchange *x, grpc_byte_buffer *message, bool is_failed);
void trn_exchange_written(trn_exchange *x, bool is_ok);
void trn_exchange_poked(trn_exchange *x);
/* The transport's part is over. `is_cancelled`: before the answer was complete. */
void trn_exchange_closed(trn_exchange *x, bool is_cancelled);

#ifdef __cplusplus
}
#endif
#endif
