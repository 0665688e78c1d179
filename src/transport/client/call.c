/* One call of a client: its attempts over a transport, one after the other, and the messages that a further one would
 * have to send again. The mutex is held while the transport's functions run, so that messages stay in order; a
 * transport delivers nothing from inside them. It is not held while the caller's functions run. */
#include <stdlib.h>

#include "client.h"

struct trn_client_attempt {
  char unused; /* an attempt is its call: there is one at a time */
};

struct trn_client_call {
  atomic_size_t refs; /* the caller's, the run's until on_done, those of what was given to run_after */
  trn_channel *channel;
  trn_client_handlers handlers;
  void *user;
  trn_client_start start; /* with texts of its own */
  trn_metadata *metadata;
  trn_retry_policy retry;
  bool is_single_request, is_single_response;
  bool is_message_delivered; /* deliveries only */

  pthread_mutex_t mutex;       /* all below */
  const trn_client_host *host; /* NULL: no attempt now */
  void *host_self;
  kept_list kept;
  size_t kept_bytes;
  bool keeps; /* nothing came from the server, and all that was sent is kept */
  bool is_half_closed, is_cancelled, is_waiting, is_over, wants_writable, is_message_sent;
  size_t wanted; /* messages asked for before anything came */
  unsigned attempts, transparent, by_policy;
  char path[];
};

static trn_client_call *call_of(trn_client_attempt *attempt) {
  return (trn_client_call *)(void *)attempt;
}

/* ---- references ---- */

trn_client_call *trn_client_call_ref(trn_client_call *call) {
  atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
  return call;
}

void trn_client_call_unref(trn_client_call *call) {
  if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1) return;
  trn__kept_release(&call->kept);
  pthread_mutex_destroy(&call->mutex);
  trn_channel_unref(call->channel);
  free(call->metadata);
  free(call);
}

void *trn_client_call_user(const trn_client_call *call) {
  return call->user;
}

/* ---- attempts ---- */

/* locks: mutex held. Gives the attempt what the call has so far. */
static void replay(trn_client_call *call) {
  kept_message *message;
  trn_send_result result = TRN_SEND_READY;
  STAILQ_FOREACH(message, &call->kept, link) {
    result = call->host->send(call->host_self, trn__kept_lend(message), message->count, message->flags);
  }
  if (result == TRN_SEND_FULL) call->wants_writable = false; /* the transport will tell */
  for (size_t i = 0; i < call->wanted; i++) call->host->recv(call->host_self);
  if (call->is_half_closed) call->host->half_close(call->host_self);
}

/* locks: mutex held */
static trn_status start_attempt(trn_client_call *call) {
  const trn_channel *channel = call->channel;
  const trn_client_host *host = NULL;
  void *self = NULL;
  trn_status status =
      channel->ops->start(channel->self, &call->start, (trn_client_attempt *)(void *)call, &host, &self);
  if (status) return status;
  call->attempts++;
  call->host = host;
  call->host_self = self;
  replay(call);
  return TRN_OK;
}

/* locks: mutex held. No further attempt can be made: what was kept for one goes out, to be released without the mutex.
 */
static void commit(trn_client_call *call, kept_list *dropped) {
  call->keeps = false;
  call->kept_bytes = 0;
  STAILQ_CONCAT(dropped, &call->kept);
}

static void commit_now(trn_client_call *call) {
  kept_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  pthread_mutex_lock(&call->mutex);
  if (call->keeps) commit(call, &dropped);
  pthread_mutex_unlock(&call->mutex);
  trn__kept_release(&dropped);
}

/* thread: the transport's. The run's reference ends here. */
static void finish(trn_client_call *call, const trn_client_result *given) {
  kept_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  trn_client_result result = *given;
  pthread_mutex_lock(&call->mutex);
  call->is_over = true;
  call->is_waiting = false;
  result.attempts = call->attempts;
  commit(call, &dropped);
  pthread_mutex_unlock(&call->mutex);
  trn__kept_release(&dropped);
  if (!result.message) result.message = "";
  if (result.status == TRN_OK && call->is_single_response && !call->is_message_delivered) {
    result.status = TRN_INTERNAL;
    result.message = "The response has no message";
  }
  call->handlers.on_done(call, call->user, &result);
  trn_client_call_unref(call);
}

static void finish_with(trn_client_call *call, trn_status status, const char *message) {
  trn_client_result result = {.struct_size = sizeof result, .status = status, .message = message};
  finish(call, &result);
}

/* After the pause. thread: the transport's */
static void on_retry(void *argument) {
  trn_client_call *call = argument;
  trn_status status = TRN_OK;
  bool tells = false;
  pthread_mutex_lock(&call->mutex);
  bool goes_on = call->is_waiting;
  call->is_waiting = false;
  if (goes_on && call->is_cancelled) {
    status = TRN_CANCELLED;
  } else if (goes_on) {
    status = start_attempt(call);
    tells = !status && call->wants_writable;
    call->wants_writable = false;
  }
  pthread_mutex_unlock(&call->mutex);
  if (status)
    finish_with(call, status, status == TRN_CANCELLED ? "Cancelled by the client" : "The call cannot be repeated");
  if (tells && call->handlers.on_writable) call->handlers.on_writable(call, call->user);
  trn_client_call_unref(call);
}

/* -1: the server forbids; -2: it says nothing. */
static int64_t pushback_ms(const trn_client_result *result) {
  for (size_t i = 0; i < result->trailing_count; i++) {
    const trn_metadata *entry = &result->trailing[i];
    if (strcmp(entry->key, "grpc-retry-pushback-ms") != 0) continue;
    int64_t ms = 0;
    const char *digits = entry->value;
    if (!entry->size || entry->size > 9) return -1;
    for (size_t j = 0; j < entry->size; j++) {
      if (digits[j] < '0' || digits[j] > '9') return -1;
      ms = ms * 10 + (digits[j] - '0');
    }
    return ms;
  }
  return -2;
}

/* locks: mutex held */
static unsigned backoff_ms(const trn_client_call *call) {
  double ms = call->retry.backoff_ms;
  for (unsigned i = 1; i < call->by_policy && ms < call->retry.backoff_ms_max; i++) ms *= 1.6;
  if (ms > call->retry.backoff_ms_max) ms = call->retry.backoff_ms_max;
  int64_t now = trn__now_ns();
  uint64_t random = trn__hash(&now, sizeof now, (uint64_t)(uintptr_t)call) % 4001;
  return (unsigned)(ms * (0.8 + (double)random / 10000));
}

/* locks: mutex held. False: the call ends with this result. */
static bool may_repeat(trn_client_call *call, const trn_client_result *result, unsigned *delay_ms) {
  *delay_ms = 0;
  if (result->status == TRN_OK || call->is_cancelled || !call->keeps || call->is_message_delivered) return false;
  int64_t pushback = pushback_ms(result);
  if (result->is_unprocessed && call->transparent < TRN_CLIENT_TRANSPARENT_RETRIES_MAX) {
    call->transparent++;
  } else if (call->by_policy + 1 < call->retry.attempts_max && (call->retry.statuses >> result->status & 1) &&
             pushback != -1) {
    call->by_policy++;
    *delay_ms = pushback >= 0 ? (unsigned)pushback : backoff_ms(call);
  } else {
    return false;
  }
  return call->start.deadline_ns == INT64_MAX || trn__now_ns() + (int64_t)*delay_ms * 1000000 < call->start.deadline_ns;
}

void trn_client_attempt_done(trn_client_attempt *attempt, const trn_client_result *result) {
  trn_client_call *call = call_of(attempt);
  unsigned delay_ms = 0;
  pthread_mutex_lock(&call->mutex);
  const trn_client_host *host = call->host;
  void *self = call->host_self;
  call->host = NULL;
  call->host_self = NULL;
  bool repeats = may_repeat(call, result, &delay_ms);
  if (repeats) {
    call->is_waiting = true;
    trn_client_call_ref(call);
    if (call->channel->ops->run_after(call->channel->self, delay_ms, on_retry, call) != TRN_OK) {
      repeats = call->is_waiting = false;
      atomic_fetch_sub_explicit(&call->refs, 1, memory_order_relaxed); /* never the last: the run's is there */
    }
  }
  pthread_mutex_unlock(&call->mutex);
  if (!repeats) {
    TRN_ASSERT(host);
    trn_client_call_ref(call);
    finish(call, result);
    host->destroy(self);
    trn_client_call_unref(call);
  } else {
    host->destroy(self);
  }
}

void trn_client_attempt_initial(trn_client_attempt *attempt, const trn_metadata *metadata, size_t count) {
  trn_client_call *call = call_of(attempt);
  commit_now(call);
  if (call->handlers.on_initial) call->handlers.on_initial(call, call->user, metadata, count);
}

void trn_client_attempt_message(trn_client_attempt *attempt, trn_slice message) {
  trn_client_call *call = call_of(attempt);
  commit_now(call);
  bool repeated = call->is_single_response && call->is_message_delivered;
  call->is_message_delivered = true;
  if (!repeated && call->handlers.on_message) {
    call->handlers.on_message(call, call->user, message);
    return;
  }
  if (message.release) message.release(message.owner);
  pthread_mutex_lock(&call->mutex);
  if (call->host && repeated) {
    call->host->cancel(call->host_self, TRN_INTERNAL);
  } else if (call->host && !call->is_single_response) {
    call->host->recv(call->host_self); /* nobody wants them */
  }
  pthread_mutex_unlock(&call->mutex);
}

void trn_client_attempt_writable(trn_client_attempt *attempt) {
  trn_client_call *call = call_of(attempt);
  if (call->handlers.on_writable) call->handlers.on_writable(call, call->user);
}

/* ---- the caller's side ---- */

static void read_handlers(trn_client_call *call, const trn_client_handlers *given) {
  size_t size = sizeof call->handlers;
  if (given->struct_size && given->struct_size < size) size = given->struct_size;
  memcpy(&call->handlers, given, size);
}

static trn_client_call *create_call(trn_channel *channel, const trn_client_request *request) {
  size_t path_size = strlen(request->path) + 1;
  trn_client_call *call = calloc(1, sizeof *call + path_size);
  if (!call) return NULL;
  atomic_init(&call->refs, 2); /* the caller's, the run's */
  memcpy(call->path, request->path, path_size);
  read_handlers(call, request->handlers);
  STAILQ_INIT(&call->kept);
  pthread_mutex_init(&call->mutex, NULL);
  call->channel = trn_channel_ref(channel);
  call->user = request->user;
  call->keeps = true;
  call->retry = request->retry ? trn__client_retry_read(request->retry) : channel->retry;
  call->is_single_request = request->kind == TRN_METHOD_UNARY || request->kind == TRN_METHOD_SERVER_STREAM;
  call->is_single_response = request->kind == TRN_METHOD_UNARY || request->kind == TRN_METHOD_CLIENT_STREAM;
  size_t count = channel->metadata_count + request->metadata_count;
  call->metadata =
      trn__client_metadata_copy(channel->metadata, channel->metadata_count, request->metadata, request->metadata_count);
  int64_t now = trn__now_ns();
  call->start = (trn_client_start){
      .struct_size = sizeof call->start,
      .path = call->path,
      .kind = request->kind,
      .metadata = call->metadata,
      .metadata_count = count,
      .deadline_ns =
          request->timeout_ns > 0 && request->timeout_ns < INT64_MAX - now ? now + request->timeout_ns : INT64_MAX,
      .wait_for_ready = request->wait_for_ready,
      .compress = request->compress,
      .message_bytes_max = request->message_bytes_max ? request->message_bytes_max : channel->message_bytes_max,
  };
  if (count && !call->metadata) {
    atomic_store(&call->refs, 1);
    trn_client_call_unref(call);
    return NULL;
  }
  return call;
}

trn_status trn_client_call_start(trn_channel *channel, const trn_client_request *request, trn_client_call **out,
                                 trn_error **error) {
  *out = NULL;
  if (!channel || !request || !request->path || request->path[0] != '/' || !request->handlers ||
      !request->handlers->on_done || (unsigned)request->kind > TRN_METHOD_BIDI) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "A call needs a channel, a path that begins with /, and on_done");
  }
  trn_client_call *call = create_call(channel, request);
  if (!call) return trn__no_memory(error);
  pthread_mutex_lock(&call->mutex);
  if (!call->is_single_response && !call->handlers.on_message) call->wanted = 1;
  *out = call; /* callbacks may come before this function returns */
  trn_status status = start_attempt(call);
  pthread_mutex_unlock(&call->mutex);
  if (status) {
    *out = NULL;
    atomic_store(&call->refs, 1);
    trn_client_call_unref(call);
    return trn_error_set(error, status, NULL, "No memory for a call");
  }
  return TRN_OK;
}

/* locks: mutex held. The message is kept, and sent if there is an attempt. */
static trn_send_result send_kept(trn_client_call *call, kept_message *message) {
  STAILQ_INSERT_TAIL(&call->kept, message, link);
  call->kept_bytes += message->size;
  if (call->host) return call->host->send(call->host_self, trn__kept_lend(message), message->count, message->flags);
  if (call->kept_bytes <= call->channel->retry_bytes_max) return TRN_SEND_READY;
  call->wants_writable = true;
  return TRN_SEND_FULL;
}

static void release_slices(const trn_slice *slices, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (slices[i].release) slices[i].release(slices[i].owner);
  }
}

trn_send_result trn_client_call_send(trn_client_call *call, const trn_slice *slices, size_t count, unsigned flags) {
  kept_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  trn_send_result result = TRN_SEND_CLOSED;
  kept_message *message = NULL;
  size_t size = 0;
  for (size_t i = 0; i < count; i++) size += slices[i].size;
  pthread_mutex_lock(&call->mutex);
  bool takes = !call->is_over && !call->is_cancelled && !call->is_half_closed && (call->host || call->is_waiting) &&
               !(call->is_single_request && call->is_message_sent);
  if (takes) call->is_message_sent = true;
  size_t keep_max = call->channel->retry_bytes_max;
  bool fits = call->kept_bytes <= keep_max && size <= keep_max - call->kept_bytes;
  if (takes && call->keeps && (fits || !call->host)) {
    message = trn__kept_create(slices, count, flags);
  }
  if (message) {
    result = send_kept(call, message);
  } else if (takes && call->host) { /* too much to keep */
    if (call->keeps) commit(call, &dropped);
    result = call->host->send(call->host_self, slices, count, flags);
  } else {
    takes = false;
  }
  pthread_mutex_unlock(&call->mutex);
  trn__kept_release(&dropped);
  if (!takes) release_slices(slices, count);
  return result;
}

void trn_client_call_half_close(trn_client_call *call) {
  pthread_mutex_lock(&call->mutex);
  if (!call->is_half_closed && !call->is_over) {
    call->is_half_closed = true;
    if (call->host) call->host->half_close(call->host_self);
  }
  pthread_mutex_unlock(&call->mutex);
}

void trn_client_call_recv(trn_client_call *call) {
  pthread_mutex_lock(&call->mutex);
  if (!call->is_over && !call->is_single_response) {
    if (call->keeps && call->wanted < UINT32_MAX) call->wanted++;
    if (call->host) call->host->recv(call->host_self);
  }
  pthread_mutex_unlock(&call->mutex);
}

void trn_client_call_cancel(trn_client_call *call) {
  pthread_mutex_lock(&call->mutex);
  if (!call->is_over && !call->is_cancelled) {
    call->is_cancelled = true;
    if (call->host) {
      call->host->cancel(call->host_self, TRN_CANCELLED);
    } else if (call->is_waiting) {
      trn_client_call_ref(call);
      if (call->channel->ops->run_after(call->channel->self, 0, on_retry, call) != TRN_OK) {
        /* The end of the pause will find it. */
        atomic_fetch_sub_explicit(&call->refs, 1, memory_order_relaxed);
      }
    }
  }
  pthread_mutex_unlock(&call->mutex);
}
