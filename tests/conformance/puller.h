/* Pulls a stream and waits: what tests need to look at completions one by one. Every contract of a completion that can
 * be seen from outside is checked here: exactly one, not inline, not overlapping. */
#ifndef TRN_TESTS_PULLER_H
#define TRN_TESTS_PULLER_H
#include <pthread.h>
#include <trunnion/stream.h>

typedef struct puller {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  /* guarded by mu */
  unsigned accepted, completed;
  bool is_in_call; /* `caller` is inside a pull */
  pthread_t caller;
  bool is_in_done;
  trn_status status;
  char message[256], condition[64];
  struct ArrowArray array; /* of the last completion; the puller's until taken */
  trn_ipc_piece piece;
} puller;

void puller_init(puller *p);
void puller_finish(puller *p); /* releases what was not taken; waits for what is outstanding */

/* Starts a pull; the status of the start. */
trn_status puller_start_array(puller *p, trn_stream *stream);
trn_status puller_start_ipc(puller *p, trn_stream *stream, size_t bytes_max);
/* Waits until everything that was accepted has completed; false: not within `timeout_ms`. */
bool puller_wait(puller *p, unsigned timeout_ms);

/* Start and wait. The status of the start or of the completion; the end: TRN_OK and a NULL release. */
trn_status pull_array(puller *p, trn_stream *stream, struct ArrowArray *out);
trn_status pull_ipc(puller *p, trn_stream *stream, size_t bytes_max, trn_ipc_piece *out);

/* ---- reading IPC record batches, just enough to check them ---- */
typedef struct ipc_batch {
  unsigned char *bytes; /* the slices joined; free() */
  size_t size;
  int64_t rows, body_size;
  const unsigned char *body;
  const unsigned char *buffers; /* pairs of int64: offset, size */
  uint32_t buffer_count;
} ipc_batch;
/* False: not a well-formed encapsulated record batch message without compression. */
bool ipc_batch_read(const trn_ipc_piece *piece, ipc_batch *out);
/* Values of fixed width: buffer `index` of the body. NULL: out of bounds. */
const void *ipc_batch_buffer(const ipc_batch *batch, uint32_t index, int64_t *size);
/* The kind of the encapsulated message: 1 schema, 3 record batch; 0: malformed. */
int ipc_message_kind(const void *bytes, size_t size);

#endif
