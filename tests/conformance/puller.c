#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "conformance/puller.h"

void puller_init(puller *p) {
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->mu, NULL);
  pthread_cond_init(&p->changed, NULL);
}

static void drop_items(puller *p) {
  if (p->array.release) p->array.release(&p->array);
  if (p->piece.release) p->piece.release(p->piece.owner);
  memset(&p->array, 0, sizeof p->array);
  memset(&p->piece, 0, sizeof p->piece);
}

void puller_finish(puller *p) {
  assert_true(puller_wait(p, 60000));
  drop_items(p);
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->mu);
}

/* ---- completions; a failed assertion on a foreign thread would jump wildly: they abort instead ---- */

static void must(bool condition) {
  if (!condition) abort();
}

static void done_begin(puller *p, trn_status status, const trn_error *error) {
  must(!p->is_in_done);                                               /* completions overlap */
  must(!(p->is_in_call && pthread_equal(p->caller, pthread_self()))); /* a completion is inline */
  must(p->completed < p->accepted + p->is_in_call);                   /* more completions than pulls */
  p->is_in_done = true;
  p->status = status;
  strncpy(p->message, error ? trn_error_message(error) : "", sizeof p->message - 1);
  const char *condition = error ? trn_error_condition(error) : NULL;
  strncpy(p->condition, condition ? condition : "", sizeof p->condition - 1);
  drop_items(p);
}

static void done_end(puller *p) {
  p->is_in_done = false;
  p->completed++;
  pthread_cond_broadcast(&p->changed);
}

static void on_array(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  puller *p = user;
  pthread_mutex_lock(&p->mu);
  done_begin(p, status, error);
  if (status == TRN_OK) {
    p->array = *array;
    array->release = NULL;
  }
  done_end(p);
  pthread_mutex_unlock(&p->mu);
}

static void on_ipc(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  puller *p = user;
  pthread_mutex_lock(&p->mu);
  done_begin(p, status, error);
  if (status == TRN_OK) p->piece = *piece;
  done_end(p);
  pthread_mutex_unlock(&p->mu);
}

static void call_begin(puller *p) {
  pthread_mutex_lock(&p->mu);
  p->is_in_call = true;
  p->caller = pthread_self();
  pthread_mutex_unlock(&p->mu);
}

static void call_end(puller *p, trn_status status) {
  pthread_mutex_lock(&p->mu);
  p->is_in_call = false;
  if (status == TRN_OK) p->accepted++;
  pthread_mutex_unlock(&p->mu);
}

trn_status puller_start_array(puller *p, trn_stream *stream) {
  call_begin(p);
  trn_status status = trn_stream_next_array(stream, on_array, p, NULL);
  call_end(p, status);
  return status;
}

trn_status puller_start_ipc(puller *p, trn_stream *stream, size_t bytes_max) {
  call_begin(p);
  trn_status status = trn_stream_next_ipc(stream, bytes_max, on_ipc, p, NULL);
  call_end(p, status);
  return status;
}

bool puller_wait(puller *p, unsigned timeout_ms) {
  struct timespec due;
  clock_gettime(CLOCK_REALTIME, &due);
  due.tv_sec += timeout_ms / 1000;
  due.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
  if (due.tv_nsec >= 1000000000) {
    due.tv_nsec -= 1000000000;
    due.tv_sec++;
  }
  pthread_mutex_lock(&p->mu);
  int code = 0;
  while (p->completed < p->accepted && code == 0) code = pthread_cond_timedwait(&p->changed, &p->mu, &due);
  bool ok = p->completed == p->accepted;
  pthread_mutex_unlock(&p->mu);
  return ok;
}

trn_status pull_array(puller *p, trn_stream *stream, struct ArrowArray *out) {
  memset(out, 0, sizeof *out);
  trn_status status = puller_start_array(p, stream);
  if (status) return status;
  assert_true(puller_wait(p, 60000));
  *out = p->array;
  p->array.release = NULL;
  return p->status;
}

trn_status pull_ipc(puller *p, trn_stream *stream, size_t bytes_max, trn_ipc_piece *out) {
  memset(out, 0, sizeof *out);
  trn_status status = puller_start_ipc(p, stream, bytes_max);
  if (status) return status;
  assert_true(puller_wait(p, 60000));
  *out = p->piece;
  p->piece.release = NULL;
  return p->status;
}

/* ---- flatbuffers, read with bounds ---- */

typedef struct flat {
  const unsigned char *bytes;
  size_t size;
} flat;

static bool flat_read(flat f, size_t at, void *out, size_t width) {
  if (at > f.size || width > f.size - at) return false;
  memcpy(out, f.bytes + at, width);
  return true;
}

/* Where field `index` of the table at `table` is; 0: absent or malformed. */
static size_t flat_field(flat f, size_t table, unsigned index) {
  int32_t to_vtable;
  uint16_t size, offset;
  if (!flat_read(f, table, &to_vtable, 4)) return 0;
  size_t vtable = (size_t)((int64_t)table - to_vtable);
  if (!flat_read(f, vtable, &size, 2) || 4 + 2 * index + 2 > size) return 0;
  if (!flat_read(f, vtable + 4 + 2 * index, &offset, 2) || !offset) return 0;
  return table + offset;
}

static size_t flat_follow(flat f, size_t at) {
  uint32_t offset;
  return at && flat_read(f, at, &offset, 4) ? at + offset : 0;
}

/* The message's metadata and its table. */
static bool message_read(const void *bytes, size_t size, flat *f, size_t *table) {
  uint32_t prefix[2];
  if (size < 8) return false;
  memcpy(prefix, bytes, 8);
  if (prefix[0] != 0xffffffffu || prefix[1] % 8 || prefix[1] > size - 8) return false;
  *f = (flat){(const unsigned char *)bytes + 8, prefix[1]};
  uint32_t root;
  if (!flat_read(*f, 0, &root, 4)) return false;
  *table = root;
  int16_t version = 0;
  size_t field = flat_field(*f, *table, 0);
  return field && flat_read(*f, field, &version, 2) && version == 4;
}

int ipc_message_kind(const void *bytes, size_t size) {
  flat f;
  size_t table;
  uint8_t kind = 0;
  if (!message_read(bytes, size, &f, &table)) return 0;
  size_t field = flat_field(f, table, 1);
  return field && flat_read(f, field, &kind, 1) ? kind : 0;
}

bool ipc_batch_read(const trn_ipc_piece *piece, ipc_batch *out) {
  memset(out, 0, sizeof *out);
  size_t size = 0;
  for (size_t i = 0; i < piece->slice_count; i++) size += piece->slices[i].size;
  if (size != piece->size || !(out->bytes = malloc(size + 1))) return false;
  for (size_t i = 0; i < piece->slice_count; i++) {
    if (piece->slices[i].release) return false; /* all live until the piece is released */
    memcpy(out->bytes + out->size, piece->slices[i].data, piece->slices[i].size);
    out->size += piece->slices[i].size;
  }
  flat f;
  size_t table;
  uint32_t count;
  if (ipc_message_kind(out->bytes, size) != 3 || !message_read(out->bytes, size, &f, &table)) return false;
  size_t body = flat_field(f, table, 3), batch = flat_follow(f, flat_field(f, table, 2));
  if (body && !flat_read(f, body, &out->body_size, 8)) return false;
  if (!batch || flat_field(f, batch, 3)) return false; /* compressed */
  size_t length = flat_field(f, batch, 0), buffers = flat_follow(f, flat_field(f, batch, 2));
  if (length && !flat_read(f, length, &out->rows, 8)) return false;
  if (!buffers || !flat_read(f, buffers, &count, 4) || count > (f.size - buffers) / 16) return false;
  out->buffers = f.bytes + buffers + 4;
  out->buffer_count = count;
  out->body = f.bytes + f.size;
  return out->rows == piece->rows && out->body_size % 8 == 0 && (int64_t)(size - 8 - f.size) == out->body_size;
}

const void *ipc_batch_buffer(const ipc_batch *batch, uint32_t index, int64_t *size) {
  int64_t pair[2];
  if (index >= batch->buffer_count) return NULL;
  memcpy(pair, batch->buffers + 16 * index, 16);
  if (pair[0] < 0 || pair[1] < 0 || pair[0] % 8 || pair[0] > batch->body_size || pair[1] > batch->body_size - pair[0])
    return NULL;
  *size = pair[1];
  return batch->body + pair[0];
}
