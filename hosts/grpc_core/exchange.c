#include "exchange.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
  struct message *next;
  grpc_byte_buffer *bytes;
  size_t size;
} message;

struct trn_exchange {
  const trn_exchange_io *ops;
  void *io;
  trn_call *call; /* the host's reference; gone with the last delivery */
  bool is_single; /* one request message */
  size_t limit;

  pthread_mutex_t mutex; /* of what follows */
  message *first, *last;
  size_t queued_bytes, writing_bytes;
  trn_metadata *initial;
  size_t initial_count;
  trn_exchange_end end;
  trn_slice held; /* received, and not asked for yet */
  unsigned pulls, received;
  unsigned busy; /* answers that are being handled: the last delivery waits for them */
  bool is_opened, is_delivering, is_reading, is_writing, is_poked;
  bool has_begun; /* initial metadata went out */
  bool is_full, is_writable_due;
  bool is_closed; /* nothing more is taken: finished, failed, or the client is gone */
  bool has_end, is_end_sent;
  bool has_held, is_half_close_due, is_request_over;
  bool is_over, is_cancel_due;
};

/* ---- metadata ---- */

static void metadata_free(trn_metadata *entries, size_t count) {
  for (size_t i = 0; entries && i < count; i++) {
    free((char *)entries[i].key);
    free((void *)entries[i].value);
  }
  free(entries);
}

/* NULL: none, or no memory. */
static trn_metadata *metadata_copy(const trn_metadata *entries, size_t count) {
  trn_metadata *copy = count ? calloc(count, sizeof *copy) : NULL;
  for (size_t i = 0; copy && i < count; i++) {
    copy[i].key = strdup(entries[i].key);
    copy[i].value = malloc(entries[i].size + 1);
    copy[i].size = entries[i].size;
    if (!copy[i].key || !copy[i].value) {
      metadata_free(copy, count);
      return NULL;
    }
    if (entries[i].size) memcpy((void *)copy[i].value, entries[i].value, entries[i].size);
  }
  return copy;
}

/* ---- the queue. locks: mutex held unless said ---- */

/* Gives the queue to be freed without the lock: releases of slices are foreign code. */
static message *queue_take(trn_exchange *x) {
  message *all = x->first;
  x->first = x->last = NULL;
  x->queued_bytes = 0;
  return all;
}

/* locks: none */
static void queue_free(message *all) {
  while (all) {
    message *next = all->next;
    grpc_byte_buffer_destroy(all->bytes);
    free(all);
    all = next;
  }
}

/* locks: none. Takes the slices. NULL: no memory. */
static message *message_create(const trn_slice *slices, size_t count) {
  message *m = calloc(1, sizeof *m);
  grpc_slice *parts = count ? malloc(count * sizeof *parts) : NULL;
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    const trn_slice *s = &slices[i];
    if (!m || !parts || (!s->size && s->release)) {
      if (s->release) s->release(s->owner);
    } else if (s->release) {
      parts[used++] = grpc_slice_new_with_user_data((void *)s->data, s->size, s->release, s->owner);
    } else if (s->size) {
      parts[used++] = grpc_slice_from_copied_buffer(s->data, s->size);
    }
    if (m) m->size += s->size;
  }
  if (!m || (count && !parts)) {
    free(m);
    m = NULL;
  } else {
    m->bytes = grpc_raw_byte_buffer_create(parts, used);
    for (size_t i = 0; i < used; i++) grpc_slice_unref(parts[i]);
  }
  free(parts);
  return m;
}

/* ---- deliveries ---- */

typedef enum delivery { NOTHING, OPEN, MESSAGE, HALF_CLOSE, WRITABLE, CANCEL, DONE } delivery;

static delivery next_delivery(trn_exchange *x, trn_slice *slice) {
  if (!x->is_opened) {
    x->is_opened = true;
    return OPEN;
  }
  if (x->is_cancel_due) {
    x->is_cancel_due = false;
    return CANCEL;
  }
  if (x->has_held && !x->is_over && (x->is_single || x->pulls)) {
    if (!x->is_single) x->pulls--;
    x->has_held = false;
    *slice = x->held;
    return MESSAGE;
  }
  if (x->is_half_close_due && !x->has_held && !x->is_over) {
    x->is_half_close_due = false;
    return HALF_CLOSE;
  }
  if (x->is_writable_due && !x->is_closed) {
    x->is_writable_due = false;
    return WRITABLE;
  }
  bool is_idle = !x->is_reading && !x->is_writing && !x->is_poked && !x->busy;
  return x->is_over && is_idle ? DONE : NOTHING;
}

static void start_read(trn_exchange *x);

/* The end of handling an answer: makes what deliveries are due, unless another thread is at it. thread: one of the
 * server's; locks: none. `x` may be gone afterwards. */
static void pump(trn_exchange *x) {
  pthread_mutex_lock(&x->mutex);
  x->busy--;
  if (x->is_delivering) {
    pthread_mutex_unlock(&x->mutex);
    return;
  }
  x->is_delivering = true;
  for (;;) {
    trn_slice slice = {0};
    delivery due = next_delivery(x, &slice);
    if (due == NOTHING) break;
    pthread_mutex_unlock(&x->mutex);
    switch (due) {
    case OPEN: trn_call_deliver_open(x->call); break;
    case MESSAGE: trn_call_deliver_message(x->call, slice); break;
    case HALF_CLOSE: trn_call_deliver_half_close(x->call); break;
    case WRITABLE: trn_call_deliver_writable(x->call); break;
    case CANCEL: trn_call_deliver_cancel(x->call); break;
    default: trn_call_deliver_done(x->call); return;
    }
    if (due == OPEN || due == MESSAGE) start_read(x);
    pthread_mutex_lock(&x->mutex);
  }
  x->is_delivering = false;
  pthread_mutex_unlock(&x->mutex);
}

/* Lets a thread of the server pump: for functions from which no delivery may be made. locks: none */
static void poke(trn_exchange *x) {
  pthread_mutex_lock(&x->mutex);
  bool starts = !x->is_poked && !x->is_delivering; /* who delivers looks again before it leaves */
  if (starts) x->is_poked = true;
  pthread_mutex_unlock(&x->mutex);
  if (starts && !x->ops->poke(x->io)) {
    pthread_mutex_lock(&x->mutex);
    x->is_poked = false;
    pthread_mutex_unlock(&x->mutex);
  }
}

void trn_exchange_poked(trn_exchange *x) {
  pthread_mutex_lock(&x->mutex);
  x->busy++;
  x->is_poked = false;
  pthread_mutex_unlock(&x->mutex);
  pump(x);
}

/* ---- the reply ---- */

/* Ends the call at once: what is queued is dropped. locks: none. The frontend is told once the transport has closed. */
static void fail(trn_exchange *x, trn_status status, const char *text) {
  pthread_mutex_lock(&x->mutex);
  bool is_late = x->is_over || x->is_end_sent;
  message *dropped = queue_take(x);
  x->is_closed = true;
  pthread_mutex_unlock(&x->mutex);
  queue_free(dropped);
  if (!is_late) x->ops->cancel(x->io, status, text);
}

/* Starts a write when there is something to write and none is under way. locks: none */
static void start_write(trn_exchange *x) {
  pthread_mutex_lock(&x->mutex);
  message *m = x->first;
  bool is_due = !x->is_writing && !x->is_over && !x->is_end_sent && (m || x->has_end);
  trn_exchange_write write = {0};
  if (is_due) {
    if (m) {
      x->first = m->next;
      if (!x->first) x->last = NULL;
      x->writing_bytes = m->size;
      write.message = m->bytes;
    }
    if (x->has_end && !x->first) {
      x->is_end_sent = true;
      write.end = &x->end;
    }
    if (!x->has_begun) {
      write.is_first = true;
      write.initial = x->initial;
      write.initial_count = x->initial_count;
    }
    x->has_begun = x->is_writing = true;
  }
  pthread_mutex_unlock(&x->mutex);
  if (!is_due) return;
  free(m);
  if (!x->ops->write(x->io, &write)) {
    pthread_mutex_lock(&x->mutex);
    x->is_writing = false;
    x->is_end_sent = false;
    pthread_mutex_unlock(&x->mutex);
    fail(x, TRN_INTERNAL, "The response cannot be written");
  }
}

void trn_exchange_written(trn_exchange *x, bool is_ok) {
  pthread_mutex_lock(&x->mutex);
  x->busy++;
  x->queued_bytes -= x->writing_bytes < x->queued_bytes ? x->writing_bytes : x->queued_bytes;
  x->writing_bytes = 0;
  x->is_writing = false;
  if (x->is_full && x->queued_bytes <= TRN_HOST_HIGH_WATER / 2) {
    x->is_full = false;
    x->is_writable_due = !x->is_closed;
  }
  bool is_lost = !is_ok && !x->is_end_sent && !x->is_over;
  pthread_mutex_unlock(&x->mutex);
  if (is_lost)
    fail(x, TRN_UNAVAILABLE, "The client is gone");
  else if (is_ok)
    start_write(x);
  pump(x);
}

/* ---- what the frontend calls. Any thread ---- */

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  trn_exchange *x = self;
  message *m = message_create(slices, count);
  if (!m) {
    fail(x, TRN_RESOURCE_EXHAUSTED, "No memory for a response");
    return TRN_SEND_CLOSED;
  }
  pthread_mutex_lock(&x->mutex);
  trn_send_result result = TRN_SEND_CLOSED;
  if (!x->is_closed) {
    if (x->last)
      x->last->next = m;
    else
      x->first = m;
    x->last = m;
    x->queued_bytes += m->size;
    x->is_full |= x->queued_bytes > TRN_HOST_HIGH_WATER;
    result = x->is_full ? TRN_SEND_FULL : TRN_SEND_READY;
    m = NULL;
  }
  pthread_mutex_unlock(&x->mutex);
  queue_free(m);
  if (result != TRN_SEND_CLOSED && !(flags & TRN_SEND_MORE)) start_write(x);
  return result;
}

static void host_finish(void *self, trn_status status, const char *text, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  trn_exchange *x = self;
  trn_exchange_end end = {.status = status};
  end.message = text ? strdup(text) : NULL;
  end.details = details_size ? malloc(details_size) : NULL;
  if (end.details) {
    memcpy(end.details, details, details_size);
    end.details_size = details_size;
  }
  end.trailing = metadata_copy(trailing, trailing_count);
  end.trailing_count = end.trailing ? trailing_count : 0;
  pthread_mutex_lock(&x->mutex);
  bool is_taken = !x->is_closed;
  if (is_taken) {
    x->end = end;
    x->has_end = x->is_closed = true;
  }
  pthread_mutex_unlock(&x->mutex);
  if (is_taken) {
    start_write(x);
  } else {
    free(end.message);
    free(end.details);
    metadata_free(end.trailing, end.trailing_count);
  }
}

static void host_recv(void *self) {
  trn_exchange *x = self;
  pthread_mutex_lock(&x->mutex);
  if (!x->is_single && x->pulls < 1u << 30) x->pulls++;
  bool is_due = x->has_held && !x->is_over;
  pthread_mutex_unlock(&x->mutex);
  if (is_due) poke(x);
}

static void host_initial(void *self, const trn_metadata *metadata, size_t count) {
  trn_exchange *x = self;
  trn_metadata *copy = metadata_copy(metadata, count);
  size_t copied = copy ? count : 0;
  pthread_mutex_lock(&x->mutex);
  if (!x->has_begun) {
    trn_metadata *before = x->initial;
    size_t before_count = x->initial_count;
    x->initial = copy;
    x->initial_count = copied;
    copy = before;
    copied = before_count;
  }
  pthread_mutex_unlock(&x->mutex);
  metadata_free(copy, copied);
}

static void host_abort(void *self, trn_status status) {
  fail(self, status, "The server aborted the call");
}

static void host_destroy(void *self) {
  trn_exchange *x = self;
  x->ops->destroy(x->io);
  queue_free(x->first);
  metadata_free(x->initial, x->initial_count);
  metadata_free(x->end.trailing, x->end.trailing_count);
  free(x->end.message);
  free(x->end.details);
  if (x->has_held) x->held.release(x->held.owner);
  pthread_mutex_destroy(&x->mutex);
  free(x);
}

/* ---- the request ---- */

/* One message is read ahead of the frontend's asking, so that the end of the request is seen. locks: none */
static void start_read(trn_exchange *x) {
  pthread_mutex_lock(&x->mutex);
  bool is_due = !x->is_reading && !x->has_held && !x->is_request_over && !x->is_over;
  if (is_due) x->is_reading = true;
  pthread_mutex_unlock(&x->mutex);
  if (is_due && !x->ops->read(x->io)) {
    pthread_mutex_lock(&x->mutex);
    x->is_reading = false;
    x->is_request_over = true;
    pthread_mutex_unlock(&x->mutex);
    fail(x, TRN_INTERNAL, "The request cannot be read");
  }
}

static void slice_unref(void *owner) {
  grpc_slice_unref(*(grpc_slice *)owner);
  free(owner);
}

/* As one piece of memory; copied if it came in several. Takes `bytes`. False: no memory. */
static bool flatten(grpc_byte_buffer *bytes, trn_slice *out) {
  grpc_byte_buffer_reader reader;
  bool is_ok = false;
  size_t size = grpc_byte_buffer_length(bytes), used = 0;
  if (!grpc_byte_buffer_reader_init(&reader, bytes)) goto done;
  grpc_slice part;
  grpc_slice *only = malloc(sizeof *only);
  char *copy = NULL;
  if (only && grpc_byte_buffer_reader_next(&reader, only)) {
    if (GRPC_SLICE_LENGTH(*only) == size) { /* the usual case; also small slices, whose bytes are inside of `only` */
      *out = (trn_slice){GRPC_SLICE_START_PTR(*only), size, slice_unref, only};
      only = NULL;
      is_ok = true;
    } else if ((copy = malloc(size + 1))) {
      part = *only;
      do {
        size_t length = GRPC_SLICE_LENGTH(part);
        if (length > size - used) length = size - used;
        memcpy(copy + used, GRPC_SLICE_START_PTR(part), length);
        used += length;
        grpc_slice_unref(part);
      } while (grpc_byte_buffer_reader_next(&reader, &part));
      *out = (trn_slice){copy, used, free, copy};
      is_ok = true;
    } else {
      grpc_slice_unref(*only);
    }
  } else if (only && (copy = malloc(1))) { /* an empty message */
    *out = (trn_slice){copy, 0, free, copy};
    is_ok = true;
  }
  free(only);
  grpc_byte_buffer_reader_destroy(&reader);
done:
  grpc_byte_buffer_destroy(bytes);
  return is_ok;
}

void trn_exchange_received(trn_exchange *x, grpc_byte_buffer *bytes, bool is_failed) {
  trn_slice slice = {0};
  size_t size = bytes ? grpc_byte_buffer_length(bytes) : 0;
  const char *problem = NULL;
  trn_status status = TRN_INTERNAL;
  if (bytes && size > x->limit) {
    grpc_byte_buffer_destroy(bytes);
    status = TRN_RESOURCE_EXHAUSTED;
    problem = "A message is larger than the method's limit";
  } else if (bytes && !flatten(bytes, &slice)) {
    status = TRN_RESOURCE_EXHAUSTED;
    problem = "No memory for a message";
  }
  pthread_mutex_lock(&x->mutex);
  x->busy++;
  if (!bytes && !is_failed && x->is_single && !x->received) {
    problem = "The request ended without a message";
  } else if (bytes && !problem && x->is_single && x->received) {
    problem = "More than one message in a request of a method that takes one";
  } else if (bytes && !problem) {
    x->received = 1;
    x->held = slice;
    x->has_held = true;
    slice.release = NULL;
  } else if (!bytes && !is_failed) {
    x->is_half_close_due = true;
  }
  if (!bytes || problem) x->is_request_over = true;
  x->is_reading = false;
  pthread_mutex_unlock(&x->mutex);
  if (slice.release) slice.release(slice.owner);
  if (problem) fail(x, status, problem);
  pump(x);
}

void trn_exchange_closed(trn_exchange *x, bool is_cancelled) {
  pthread_mutex_lock(&x->mutex);
  x->busy++;
  message *dropped = queue_take(x);
  x->is_over = x->is_closed = true;
  x->is_cancel_due = is_cancelled;
  pthread_mutex_unlock(&x->mutex);
  queue_free(dropped);
  pump(x);
}

trn_status trn_exchange_open(const trn_call_request *request, const trn_exchange_io *ops, void *io,
                             trn_exchange **out) {
  static const trn_call_host host = {sizeof(trn_call_host), host_send,  host_finish, host_recv,
                                     host_initial,          host_abort, host_destroy};
  trn_exchange *x = calloc(1, sizeof *x);
  if (!x) return TRN_RESOURCE_EXHAUSTED;
  x->ops = ops;
  x->io = io;
  x->is_single = request->method->kind == TRN_METHOD_UNARY || request->method->kind == TRN_METHOD_SERVER_STREAM;
  x->limit = request->method->message_bytes_max ? request->method->message_bytes_max : TRN_HOST_MESSAGE_BYTES_MAX;
  pthread_mutex_init(&x->mutex, NULL);
  trn_status status = trn_call_create(request, &host, x, &x->call);
  if (status) {
    pthread_mutex_destroy(&x->mutex);
    free(x);
    return status;
  }
  x->busy = 1; /* until trn_exchange_start */
  *out = x;
  return TRN_OK;
}

void trn_exchange_start(trn_exchange *x) {
  pump(x);
}
