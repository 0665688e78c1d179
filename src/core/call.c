/* One RPC between a frontend and a host: a reference count, the copied request, and a check of the delivery contract.
 * It holds no lock and starts no thread; order and threads are the host's. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <trunnion/call.h>

#include "core/core.h"

enum { CALL_OPENED = 1, CALL_HALF_CLOSED = 2, CALL_CANCELLED = 4, CALL_DONE = 8, CALL_DELIVERING = 16 };

struct trn_call {
  atomic_size_t refs;
  atomic_bool cancelled;
  atomic_uint state; /* CALL_*; written by the host's deliveries only, read by assertions */
  trn_call_host host;
  void *self;
  const trn_method *method;
  void *user;
  const char *peer;
  const char *identity;
  const char **groups; /* behind the texts of the metadata array */
  size_t group_count;
  int64_t deadline_ns;
  size_t metadata_count;
  trn_metadata metadata[]; /* followed by the groups' pointers and the texts */
};

#ifndef NDEBUG
/* The call whose host function this thread is in: a host that delivers from inside one is found at once. Debug only. */
static _Thread_local const trn_call *host_entered;
#define HOST_ENTER(call)                                                                                               \
  const trn_call *outer = host_entered;                                                                                \
  host_entered = (call)
#define HOST_LEAVE() host_entered = outer
#define HOST_INSIDE(call) (host_entered == (call))
#else
#define HOST_ENTER(call) (void)0
#define HOST_LEAVE() (void)0
#define HOST_INSIDE(call) false
#endif

/* ---- making one ---- */

/* Hosts that were built before there were groups do not say any. */
static size_t group_count_of(const trn_call_request *request) {
  bool knows = !request->struct_size ||
               request->struct_size >= offsetof(trn_call_request, group_count) + sizeof request->group_count;
  return knows && request->groups ? request->group_count : 0;
}

/* Sum of the texts that follow the metadata array; each gets a NUL. SIZE_MAX on overflow. */
static size_t texts_size(const trn_call_request *request) {
  size_t size = 0;
  for (size_t i = 0; i < request->metadata_count; i++) {
    size_t more = strlen(request->metadata[i].key) + 2;
    if (request->metadata[i].size > SIZE_MAX / 4 - more || size > SIZE_MAX / 4) return SIZE_MAX;
    size += more + request->metadata[i].size;
  }
  for (size_t i = 0; i < group_count_of(request); i++) size += sizeof(char *) + strlen(request->groups[i]) + 1;
  if (request->peer) size += strlen(request->peer) + 1;
  if (request->identity) size += strlen(request->identity) + 1;
  return size;
}

static char *put_bytes(char **at, const void *bytes, size_t size) {
  char *start = *at;
  if (size) memcpy(start, bytes, size);
  start[size] = 0;
  *at = start + size + 1;
  return start;
}

trn_status trn_call_create(const trn_call_request *request, const trn_call_host *host, void *self, trn_call **out) {
  *out = NULL;
  if (!request || !request->method || !host || !host->send || !host->finish || !host->destroy) {
    return TRN_INVALID_ARGUMENT;
  }
  size_t texts = texts_size(request);
  size_t count = request->metadata_count;
  if (texts == SIZE_MAX || count > SIZE_MAX / 4 / sizeof(trn_metadata)) return TRN_RESOURCE_EXHAUSTED;
  trn_call *call = calloc(1, sizeof *call + count * sizeof(trn_metadata) + texts);
  if (!call) return TRN_RESOURCE_EXHAUSTED;
  atomic_init(&call->refs, 1);
  atomic_init(&call->cancelled, false);
  atomic_init(&call->state, 0);
  size_t host_size = host->struct_size && host->struct_size < sizeof call->host ? host->struct_size : sizeof call->host;
  memcpy(&call->host, host, host_size);
  call->self = self;
  call->method = request->method;
  call->user = request->method->service;
  call->deadline_ns = request->deadline_ns ? request->deadline_ns : INT64_MAX;
  call->metadata_count = count;
  call->group_count = group_count_of(request);
  call->groups = (const char **)&call->metadata[count];
  char *at = (char *)&call->groups[call->group_count];
  for (size_t i = 0; i < call->group_count; i++) {
    call->groups[i] = put_bytes(&at, request->groups[i], strlen(request->groups[i]));
  }
  for (size_t i = 0; i < count; i++) {
    const trn_metadata *from = &request->metadata[i];
    call->metadata[i].key = put_bytes(&at, from->key, strlen(from->key));
    call->metadata[i].value = put_bytes(&at, from->value, from->size);
    call->metadata[i].size = from->size;
  }
  call->peer = request->peer ? put_bytes(&at, request->peer, strlen(request->peer)) : "unknown:";
  call->identity = request->identity ? put_bytes(&at, request->identity, strlen(request->identity)) : NULL;
  *out = call;
  return TRN_OK;
}

trn_call *trn_call_ref(trn_call *call) {
  size_t before = atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
  TRN_ASSERT(before > 0);
  (void)before;
  return call;
}

void trn_call_unref(trn_call *call) {
  if (!call) return;
  size_t before = atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel);
  TRN_ASSERT(before > 0);
  if (before != 1) return;
  call->host.destroy(call->self);
  free(call);
}

/* ---- reading ---- */

void trn_call_set_user(trn_call *call, void *user) {
  call->user = user;
}

void *trn_call_user(const trn_call *call) {
  return call->user;
}

const trn_method *trn_call_method(const trn_call *call) {
  return call->method;
}

const void *trn_call_metadata(const trn_call *call, const char *key, size_t *size) {
  for (size_t i = call->metadata_count; i-- > 0;) {
    if (strcmp(call->metadata[i].key, key) == 0) {
      if (size) *size = call->metadata[i].size;
      return call->metadata[i].value;
    }
  }
  if (size) *size = 0;
  return NULL;
}

size_t trn_call_metadata_count(const trn_call *call) {
  return call->metadata_count;
}

const trn_metadata *trn_call_metadata_at(const trn_call *call, size_t index) {
  return index < call->metadata_count ? &call->metadata[index] : NULL;
}

int64_t trn_call_deadline_ns(const trn_call *call) {
  return call->deadline_ns;
}

const char *trn_call_peer(const trn_call *call) {
  return call->peer;
}

const char *trn_call_identity(const trn_call *call) {
  return call->identity;
}

size_t trn_call_groups(const trn_call *call, const char *const **groups) {
  if (groups) *groups = call->groups;
  return call->group_count;
}

bool trn_call_is_cancelled(const trn_call *call) {
  return atomic_load_explicit(&call->cancelled, memory_order_acquire);
}

/* ---- the frontend's side ---- */

void trn_call_recv(trn_call *call) {
  if (!call->host.recv) return;
  HOST_ENTER(call);
  call->host.recv(call->self);
  HOST_LEAVE();
}

trn_send_result trn_call_send(trn_call *call, const trn_slice *slices, size_t count, unsigned flags) {
  HOST_ENTER(call);
  trn_send_result result = call->host.send(call->self, slices, count, flags);
  HOST_LEAVE();
  return result;
}

void trn_call_set_initial_metadata(trn_call *call, const trn_metadata *metadata, size_t count) {
  if (!call->host.set_initial_metadata) return;
  HOST_ENTER(call);
  call->host.set_initial_metadata(call->self, metadata, count);
  HOST_LEAVE();
}

void trn_call_finish(trn_call *call, trn_status status, const char *message, const void *details, size_t details_size,
                     const trn_metadata *trailing, size_t trailing_count) {
  HOST_ENTER(call);
  call->host.finish(call->self, status, message, details, details_size, trailing, trailing_count);
  HOST_LEAVE();
}

void trn_call_abort(trn_call *call, trn_status status) {
  HOST_ENTER(call);
  if (call->host.abort) {
    call->host.abort(call->self, status);
  } else {
    call->host.finish(call->self, status, NULL, NULL, 0, NULL, 0);
  }
  HOST_LEAVE();
}

/* ---- the host's side ---- */

/* Enters a delivery: `needs` are the states it must have seen, `never` those it must not. */
static void deliver_begin(trn_call *call, unsigned needs, unsigned never) {
  unsigned state = atomic_fetch_or_explicit(&call->state, CALL_DELIVERING, memory_order_acq_rel);
  TRN_ASSERT(!HOST_INSIDE(call));
  TRN_ASSERT((state & CALL_DELIVERING) == 0);
  TRN_ASSERT((state & needs) == needs);
  TRN_ASSERT((state & never) == 0);
  (void)state, (void)needs, (void)never;
}

static void deliver_end(trn_call *call, unsigned reached) {
  atomic_fetch_or_explicit(&call->state, reached, memory_order_acq_rel);
  atomic_fetch_and_explicit(&call->state, ~(unsigned)CALL_DELIVERING, memory_order_acq_rel);
}

void trn_call_deliver_open(trn_call *call) {
  deliver_begin(call, 0, CALL_OPENED | CALL_DONE);
  if (call->method->on_open) call->method->on_open(call, call->method->service);
  deliver_end(call, CALL_OPENED);
}

void trn_call_deliver_message(trn_call *call, trn_slice message) {
  deliver_begin(call, CALL_OPENED, CALL_HALF_CLOSED | CALL_DONE);
  call->method->on_message(call, call->user, message);
  deliver_end(call, 0);
}

void trn_call_deliver_half_close(trn_call *call) {
  deliver_begin(call, CALL_OPENED, CALL_HALF_CLOSED | CALL_DONE);
  if (call->method->on_half_close) call->method->on_half_close(call, call->user);
  deliver_end(call, CALL_HALF_CLOSED);
}

void trn_call_deliver_writable(trn_call *call) {
  deliver_begin(call, CALL_OPENED, CALL_DONE);
  if (call->method->on_writable) call->method->on_writable(call, call->user);
  deliver_end(call, 0);
}

void trn_call_deliver_cancel(trn_call *call) {
  deliver_begin(call, CALL_OPENED, CALL_CANCELLED | CALL_DONE);
  atomic_store_explicit(&call->cancelled, true, memory_order_release);
  if (call->method->on_cancel) call->method->on_cancel(call, call->user);
  deliver_end(call, CALL_CANCELLED);
}

void trn_call_deliver_done(trn_call *call) {
  deliver_begin(call, CALL_OPENED, CALL_DONE);
  call->method->on_done(call, call->user);
  deliver_end(call, CALL_DONE);
  trn_call_unref(call);
}
