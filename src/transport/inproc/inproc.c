/* Calls without a network. One mutex guards all calls of a client; it is never held while calling out. One thread
 * delivers: a call that has something to deliver is on its list. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "core/core.h"
#include "inproc_call.h"

/* ---- slices ---- */

static void release_slice(trn_slice slice) {
  if (slice.release) slice.release(slice.owner);
}

/* One slice out of several; takes them. A single one with an owner passes through. */
static bool join_slices(const trn_slice *slices, size_t count, trn_slice *out) {
  size_t size = 0;
  bool fits = true;
  if (count == 1 && slices[0].release) {
    *out = slices[0];
    return true;
  }
  for (size_t i = 0; i < count; i++) {
    fits = fits && slices[i].size <= UINT32_MAX - size;
    size += fits ? slices[i].size : 0;
  }
  char *bytes = fits ? malloc(size + 1) : NULL;
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    if (bytes && slices[i].size) memcpy(bytes + at, slices[i].data, slices[i].size);
    at += slices[i].size;
    release_slice(slices[i]);
  }
  *out = (trn_slice){bytes, size, free, bytes};
  return bytes != NULL;
}

static bool push(message_list *list, trn_slice slice) {
  message *added = malloc(sizeof *added);
  if (!added) {
    release_slice(slice);
    return false;
  }
  added->slice = slice;
  STAILQ_INSERT_TAIL(list, added, link);
  return true;
}

static trn_slice pop(message_list *list) {
  message *first = STAILQ_FIRST(list);
  trn_slice slice = first->slice;
  STAILQ_REMOVE_HEAD(list, link);
  free(first);
  return slice;
}

/* Moves everything out, to be released when the mutex is free. */
static void move_all(message_list *from, message_list *to) {
  STAILQ_CONCAT(to, from);
}

static void release_all(message_list *list) {
  while (!STAILQ_EMPTY(list)) release_slice(pop(list));
}

/* ---- results ---- */

/* A copy in one allocation; NULL: no memory, or none given. */
trn_metadata *trn__inproc_copy_metadata(const trn_metadata *metadata, size_t count) {
  if (!count) return NULL;
  size_t size = count * sizeof *metadata;
  for (size_t i = 0; i < count; i++) size += strlen(metadata[i].key) + metadata[i].size + 2;
  trn_metadata *copy = malloc(size);
  if (!copy) return NULL;
  char *at = (char *)&copy[count];
  for (size_t i = 0; i < count; i++) {
    size_t key_size = strlen(metadata[i].key) + 1;
    memcpy(at, metadata[i].key, key_size);
    if (metadata[i].size) memcpy(at + key_size, metadata[i].value, metadata[i].size);
    at[key_size + metadata[i].size] = 0;
    copy[i] = (trn_metadata){at, at + key_size, metadata[i].size};
    at += key_size + metadata[i].size + 1;
  }
  return copy;
}

/* locks: mutex held. Without memory for the text only the status remains. */
static void set_end(trn_inproc_call *call, trn_status status, const char *message) {
  call->is_ended = true;
  call->status = status;
  free(call->message);
  free(call->details);
  free(call->trailing);
  call->message = message && *message ? strdup(message) : NULL;
  call->details = NULL;
  call->trailing = NULL;
  call->details_size = call->trailing_count = 0;
}

/* ---- the list of calls with something to deliver ---- */

/* locks: mutex held */
static void post(trn_inproc_call *call) {
  if (call->is_listed || call->is_over) return;
  call->is_listed = true;
  TAILQ_INSERT_TAIL(&call->inproc->ready, call, ready_link);
  pthread_cond_signal(&call->inproc->changed);
}

/* ---- references ---- */

static void inproc_unref(trn_inproc *inproc) {
  if (atomic_fetch_sub_explicit(&inproc->refs, 1, memory_order_acq_rel) != 1) return;
  pthread_cond_destroy(&inproc->changed);
  pthread_mutex_destroy(&inproc->mutex);
  free(inproc);
}

void trn__inproc_call_unref(trn_inproc_call *call) {
  if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1) return;
  TRN_ASSERT(call->is_over);
  free(call->message);
  free(call->details);
  free(call->initial);
  free(call->trailing);
  inproc_unref(call->inproc);
  free(call);
}

/* ---- the host's functions. thread: any ---- */

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  (void)flags;
  trn_inproc_call *call = self;
  trn_inproc *inproc = call->inproc;
  trn_slice whole = {0};
  bool joined = join_slices(slices, count, &whole);
  trn_send_result result = TRN_SEND_CLOSED;
  pthread_mutex_lock(&inproc->mutex);
  if (!call->is_ended) {
    call->is_sending = true;
    size_t size = whole.size + 5; /* as framed by gRPC */
    if (joined && push(&call->responses, whole)) {
      call->queued_bytes += size;
      result = call->queued_bytes > call->send_high_water ? TRN_SEND_FULL : TRN_SEND_READY;
      if (result == TRN_SEND_FULL) call->wants_writable = true;
    } else {
      set_end(call, TRN_RESOURCE_EXHAUSTED, "No memory for a response message, or it is over 4 GiB");
    }
    joined = false;
    post(call);
  }
  pthread_mutex_unlock(&inproc->mutex);
  if (joined) release_slice(whole);
  return result;
}

static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  trn_inproc_call *call = self;
  void *copy = details ? malloc(details_size + 1) : NULL;
  if (copy && details_size) memcpy(copy, details, details_size);
  trn_metadata *metadata = trn__inproc_copy_metadata(trailing, trailing_count);
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_ended) {
    set_end(call, status, message);
    call->details = copy;
    call->details_size = copy ? details_size : 0;
    call->trailing = metadata;
    call->trailing_count = metadata ? trailing_count : 0;
    copy = NULL;
    metadata = NULL;
    post(call);
  }
  pthread_mutex_unlock(&call->inproc->mutex);
  free(copy);
  free(metadata);
}

static void host_recv(void *self) {
  trn_inproc_call *call = self;
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_ended && !call->is_single) {
    call->wanted++;
    post(call);
  }
  pthread_mutex_unlock(&call->inproc->mutex);
}

static void host_set_initial_metadata(void *self, const trn_metadata *metadata, size_t count) {
  trn_inproc_call *call = self;
  trn_metadata *copy = trn__inproc_copy_metadata(metadata, count);
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_ended && !call->is_sending) {
    trn_metadata *old = call->initial;
    call->initial = copy;
    call->initial_count = copy ? count : 0;
    copy = old;
  }
  pthread_mutex_unlock(&call->inproc->mutex);
  free(copy);
}

static void host_abort(void *self, trn_status status) {
  trn_inproc_call *call = self;
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_over && !call->is_cancelled) {
    move_all(&call->responses, &dropped);
    set_end(call, status ? status : TRN_UNKNOWN, "The call was aborted");
    call->is_cancelled = true;
    post(call);
  }
  pthread_mutex_unlock(&call->inproc->mutex);
  release_all(&dropped);
}

static void host_destroy(void *self) {
  trn__inproc_call_unref(self);
}

static const trn_call_host host = {
    .struct_size = sizeof(trn_call_host),
    .send = host_send,
    .finish = host_finish,
    .recv = host_recv,
    .set_initial_metadata = host_set_initial_metadata,
    .abort = host_abort,
    .destroy = host_destroy,
};

/* ---- deliveries. thread: the delivery thread ---- */

typedef enum delivery {
  DELIVER_NOTHING,
  DELIVER_OPEN,
  DELIVER_CANCEL,
  DELIVER_MESSAGE,
  DELIVER_HALF_CLOSE,
  DELIVER_WRITABLE,
  DELIVER_CLIENT_WRITABLE,
  DELIVER_INITIAL,
  DELIVER_RESPONSE,
  DELIVER_FINISH
} delivery;

/* locks: mutex held. The host ends the call: what was not delivered is dropped. */
static void end_by_host(trn_inproc_call *call, trn_status status, const char *message, message_list *dropped) {
  move_all(&call->responses, dropped);
  move_all(&call->requests, dropped);
  set_end(call, status, message);
  call->is_cancelled = true;
}

/* locks: mutex held. A request message over the limit, or a request without one, ends the call. */
static void check_request(trn_inproc_call *call, message_list *dropped) {
  message *first = STAILQ_FIRST(&call->requests);
  char text[128];
  if (call->is_ended) return;
  if (first && first->slice.size > call->message_bytes_max) {
    snprintf(text, sizeof text, "Received message larger than max (%zu vs. %zu)", first->slice.size,
             call->message_bytes_max);
    end_by_host(call, TRN_RESOURCE_EXHAUSTED, text, dropped);
  } else if (first && call->is_single && call->is_message_delivered) {
    end_by_host(call, TRN_INTERNAL, "More than one message in a request of a method that takes one", dropped);
  } else if (!first && call->is_half_closed && call->is_single && !call->is_message_delivered) {
    end_by_host(call, TRN_INTERNAL, "The request ended without a message", dropped);
  }
}

/* locks: mutex held. A response message over the client's limit ends the call. */
static void check_response(trn_inproc_call *call, message_list *dropped) {
  const message *first = STAILQ_FIRST(&call->responses);
  char text[128];
  if (!call->response_bytes_max || first->slice.size <= call->response_bytes_max) return;
  snprintf(text, sizeof text, "Received message larger than max (%zu vs. %zu)", first->slice.size,
           call->response_bytes_max);
  end_by_host(call, TRN_RESOURCE_EXHAUSTED, text, dropped);
}

/* locks: mutex held. What is next for this call; `slice` for messages. */
static delivery next_delivery(trn_inproc_call *call, trn_slice *slice, message_list *dropped) {
  if (!call->method) return call->is_over ? DELIVER_NOTHING : DELIVER_FINISH;
  if (call->is_over) return DELIVER_NOTHING;
  if (!call->is_opened) {
    call->is_opened = true;
    return DELIVER_OPEN;
  }
  check_request(call, dropped);
  if (call->is_cancelled && !call->is_cancel_delivered) {
    call->is_cancel_delivered = true;
    return DELIVER_CANCEL;
  }
  if (!call->is_ended && call->wanted && !STAILQ_EMPTY(&call->requests)) {
    call->wanted--;
    call->is_message_delivered = true;
    *slice = pop(&call->requests);
    call->request_bytes -= slice->size + 5;
    return DELIVER_MESSAGE;
  }
  if (!call->is_ended && call->is_half_closed && STAILQ_EMPTY(&call->requests) && !call->is_half_close_delivered) {
    call->is_half_close_delivered = true;
    return DELIVER_HALF_CLOSE;
  }
  if (!call->is_ended && call->wants_writable && call->queued_bytes <= call->send_high_water / 2) {
    call->wants_writable = false;
    return DELIVER_WRITABLE;
  }
  if (!call->is_ended && call->client_wants_writable && call->request_bytes <= call->send_high_water / 2) {
    call->client_wants_writable = false;
    return DELIVER_CLIENT_WRITABLE;
  }
  if (!call->is_initial_delivered && (call->is_sending || (call->initial && call->is_ended && !call->is_cancelled))) {
    call->is_initial_delivered = true;
    return DELIVER_INITIAL;
  }
  if (!STAILQ_EMPTY(&call->responses) && call->credits) {
    check_response(call, dropped);
    if (STAILQ_EMPTY(&call->responses)) return next_delivery(call, slice, dropped); /* to the cancel */
    if (call->credits != SIZE_MAX) call->credits--;
    *slice = pop(&call->responses);
    call->queued_bytes -= slice->size + 5;
    return DELIVER_RESPONSE;
  }
  return call->is_ended && STAILQ_EMPTY(&call->responses) ? DELIVER_FINISH : DELIVER_NOTHING;
}

static void finish(trn_inproc_call *call) {
  trn_inproc *inproc = call->inproc;
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  pthread_mutex_lock(&inproc->mutex);
  call->is_over = true;
  if (call->is_listed) { /* since this delivery began: the list holds no reference */
    call->is_listed = false;
    TAILQ_REMOVE(&inproc->ready, call, ready_link);
  }
  move_all(&call->requests, &dropped);
  TAILQ_REMOVE(&inproc->calls, call, link);
  pthread_mutex_unlock(&inproc->mutex);
  release_all(&dropped);
  trn_inproc_result result = {
      .status = call->status,
      .message = call->message ? call->message : "",
      .details = call->details,
      .details_size = call->details_size,
      .initial = call->initial,
      .initial_count = call->initial_count,
      .trailing = call->trailing,
      .trailing_count = call->trailing_count,
  };
  /* The server's side first: when the client has heard of the end, nobody is inside the routes any more. */
  trn_call *server_side = call->call;
  call->call = NULL;
  if (server_side) trn_call_deliver_done(server_side);
  call->on_finish(call->user, &result);
  trn__inproc_call_unref(call);
}

static void deliver(trn_inproc_call *call, delivery what, trn_slice slice) {
  switch (what) {
  case DELIVER_OPEN: trn_call_deliver_open(call->call); break;
  case DELIVER_CANCEL: trn_call_deliver_cancel(call->call); break;
  case DELIVER_MESSAGE: trn_call_deliver_message(call->call, slice); break;
  case DELIVER_HALF_CLOSE: trn_call_deliver_half_close(call->call); break;
  case DELIVER_WRITABLE: trn_call_deliver_writable(call->call); break;
  case DELIVER_CLIENT_WRITABLE:
    if (call->on_writable) call->on_writable(call->user);
    break;
  case DELIVER_INITIAL:
    if (call->on_initial) call->on_initial(call->user, call->initial, call->initial_count);
    break;
  case DELIVER_RESPONSE:
    if (call->on_message) {
      call->on_message(call->user, slice);
    } else {
      release_slice(slice);
    }
    break;
  case DELIVER_FINISH: finish(call); break;
  case DELIVER_NOTHING: break;
  }
}

/* One delivery of one call, so that calls take turns. locks: mutex held, released while delivering. */
static void serve_one(trn_inproc *inproc) {
  trn_inproc_call *call = TAILQ_FIRST(&inproc->ready);
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  trn_slice slice = {0};
  TAILQ_REMOVE(&inproc->ready, call, ready_link);
  call->is_listed = false;
  delivery what = next_delivery(call, &slice, &dropped);
  if (what != DELIVER_NOTHING) {
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&inproc->mutex);
    release_all(&dropped);
    deliver(call, what, slice);
    pthread_mutex_lock(&inproc->mutex);
    post(call);
    pthread_mutex_unlock(&inproc->mutex);
    trn__inproc_call_unref(call);
    pthread_mutex_lock(&inproc->mutex);
  }
  TRN_ASSERT(STAILQ_EMPTY(&dropped));
}

/* locks: mutex held. Ends the calls whose deadline passed; sets the next one to wait for. */
static void check_deadlines(trn_inproc *inproc) {
  int64_t now = trn__now_ns(), next = INT64_MAX;
  if (now < inproc->deadline_ns) return;
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  trn_inproc_call *call;
  TAILQ_FOREACH(call, &inproc->calls, link) {
    if (call->is_cancelled) continue;
    if (call->deadline_ns <= now) {
      end_by_host(call, TRN_DEADLINE_EXCEEDED, "Deadline Exceeded", &dropped);
      post(call);
    } else if (call->deadline_ns < next) {
      next = call->deadline_ns;
    }
  }
  inproc->deadline_ns = next;
  pthread_mutex_unlock(&inproc->mutex);
  release_all(&dropped);
  pthread_mutex_lock(&inproc->mutex);
}

/* locks: mutex held, released while a task runs. */
static void run_tasks(trn_inproc *inproc) {
  int64_t now = trn__now_ns();
  if (!inproc->stops && now < inproc->task_ns) return;
  inproc_task *task = LIST_FIRST(&inproc->tasks);
  inproc->task_ns = INT64_MAX;
  while (task) {
    inproc_task *next = LIST_NEXT(task, link);
    if (inproc->stops || task->at_ns <= now) {
      LIST_REMOVE(task, link);
      pthread_mutex_unlock(&inproc->mutex);
      task->run(task->argument);
      free(task);
      pthread_mutex_lock(&inproc->mutex);
      next = LIST_FIRST(&inproc->tasks); /* others may have come */
      inproc->task_ns = INT64_MAX;
    } else if (task->at_ns < inproc->task_ns) {
      inproc->task_ns = task->at_ns;
    }
    task = next;
  }
}

static void *run(void *argument) {
  trn_inproc *inproc = argument;
  pthread_mutex_lock(&inproc->mutex);
  for (;;) {
    check_deadlines(inproc);
    run_tasks(inproc);
    int64_t wait_ns = inproc->deadline_ns < inproc->task_ns ? inproc->deadline_ns : inproc->task_ns;
    if (!TAILQ_EMPTY(&inproc->ready)) {
      serve_one(inproc);
    } else if (inproc->stops && TAILQ_EMPTY(&inproc->calls) && LIST_EMPTY(&inproc->tasks)) {
      break;
    } else if (wait_ns == INT64_MAX) {
      pthread_cond_wait(&inproc->changed, &inproc->mutex);
    } else {
      struct timespec until = {.tv_sec = (time_t)(wait_ns / 1000000000), .tv_nsec = (long)(wait_ns % 1000000000)};
      pthread_cond_timedwait(&inproc->changed, &inproc->mutex, &until);
    }
  }
  pthread_mutex_unlock(&inproc->mutex);
  inproc_unref(inproc);
  return NULL;
}

/* ---- the client's side. thread: any ---- */

trn_status trn__inproc_create(const trn_routes *routes, trn_inproc **out) {
  *out = NULL;
  trn_inproc *inproc = calloc(1, sizeof *inproc);
  if (!inproc) return TRN_RESOURCE_EXHAUSTED;
  inproc->routes = routes;
  inproc->deadline_ns = inproc->task_ns = INT64_MAX;
  atomic_init(&inproc->refs, 2); /* the creator's, the thread's */
  LIST_INIT(&inproc->tasks);
  TAILQ_INIT(&inproc->calls);
  TAILQ_INIT(&inproc->ready);
  pthread_condattr_t attributes;
  pthread_mutex_init(&inproc->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&inproc->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (pthread_create(&inproc->thread, NULL, run, inproc) != 0) {
    atomic_store(&inproc->refs, 1);
    inproc_unref(inproc);
    return TRN_RESOURCE_EXHAUSTED;
  }
  *out = inproc;
  return TRN_OK;
}

static void stop(trn_inproc *inproc) {
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  trn_inproc_call *call;
  pthread_mutex_lock(&inproc->mutex);
  inproc->stops = true;
  TAILQ_FOREACH(call, &inproc->calls, link) {
    if (call->is_cancelled) continue;
    end_by_host(call, TRN_UNAVAILABLE, "The server is shutting down", &dropped);
    post(call);
  }
  pthread_cond_signal(&inproc->changed);
  pthread_mutex_unlock(&inproc->mutex);
  release_all(&dropped);
}

void trn__inproc_destroy(trn_inproc *inproc) {
  if (!inproc) return;
  stop(inproc);
  pthread_join(inproc->thread, NULL);
  inproc_unref(inproc);
}

void trn__inproc_release(trn_inproc *inproc) {
  bool is_own_thread = pthread_equal(inproc->thread, pthread_self());
  if (!is_own_thread) {
    trn__inproc_destroy(inproc);
    return;
  }
  pthread_detach(inproc->thread);
  stop(inproc);
  inproc_unref(inproc);
}

trn_status trn__inproc_run_after(trn_inproc *inproc, int64_t delay_ns, void (*run)(void *argument), void *argument) {
  inproc_task *task = malloc(sizeof *task);
  if (!task) return TRN_RESOURCE_EXHAUSTED;
  *task = (inproc_task){.at_ns = trn__now_ns() + delay_ns, .run = run, .argument = argument};
  pthread_mutex_lock(&inproc->mutex);
  LIST_INSERT_HEAD(&inproc->tasks, task, link);
  if (task->at_ns < inproc->task_ns) inproc->task_ns = task->at_ns;
  pthread_cond_signal(&inproc->changed);
  pthread_mutex_unlock(&inproc->mutex);
  return TRN_OK;
}

static trn_inproc_call *make_call(trn_inproc *inproc, const trn_inproc_request *request) {
  trn_inproc_call *call = calloc(1, sizeof *call);
  if (!call) return NULL;
  atomic_init(&call->refs, 2); /* the caller's, the delivery thread's */
  call->inproc = inproc;
  STAILQ_INIT(&call->requests);
  STAILQ_INIT(&call->responses);
  call->on_initial = request->on_initial;
  call->on_message = request->on_message;
  call->on_writable = request->on_writable;
  call->on_finish = request->on_finish;
  call->user = request->user;
  call->credits = request->reads_when_asked ? 0 : SIZE_MAX;
  call->send_high_water = request->send_high_water ? request->send_high_water : TRN_INPROC_SEND_HIGH_WATER;
  call->response_bytes_max = request->response_bytes_max;
  call->deadline_ns = request->deadline_ns      ? request->deadline_ns
                      : request->timeout_ns > 0 ? trn__now_ns() + request->timeout_ns
                                                : INT64_MAX;
  call->message_bytes_max = request->message_bytes_max ? request->message_bytes_max : TRN_INPROC_MESSAGE_BYTES_MAX;
  call->method = trn_routes_find(inproc->routes, request->path, strlen(request->path));
  if (!call->method) return call;
  if (call->method->message_bytes_max) call->message_bytes_max = call->method->message_bytes_max;
  call->is_single = call->method->kind == TRN_METHOD_UNARY || call->method->kind == TRN_METHOD_SERVER_STREAM;
  call->wanted = call->is_single ? 1 : 0;
  return call;
}

trn_status trn__inproc_call(trn_inproc *inproc, const trn_inproc_request *request, trn_inproc_call **out) {
  *out = NULL;
  if (!request->path || !request->on_finish) return TRN_INVALID_ARGUMENT;
  trn_inproc_call *call = make_call(inproc, request);
  if (!call) return TRN_RESOURCE_EXHAUSTED;
  trn_call_request server_side = {
      .struct_size = sizeof server_side,
      .method = call->method,
      .metadata = request->metadata,
      .metadata_count = request->metadata_count,
      .peer = "inproc:",
      .identity = request->identity,
      .deadline_ns = call->deadline_ns,
  };
  if (call->method) {
    trn_status status = trn_call_create(&server_side, &host, call, &call->call);
    if (status) {
      free(call);
      return status;
    }
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed); /* the trn_call's, until destroy */
  }
  atomic_fetch_add_explicit(&inproc->refs, 1, memory_order_relaxed);
  pthread_mutex_lock(&inproc->mutex);
  if (!call->method) {
    char text[256];
    snprintf(text, sizeof text, "Method not found: %.200s", request->path);
    set_end(call, TRN_UNIMPLEMENTED, text);
  }
  TAILQ_INSERT_TAIL(&inproc->calls, call, link);
  if (call->deadline_ns < inproc->deadline_ns) inproc->deadline_ns = call->deadline_ns;
  post(call);
  pthread_mutex_unlock(&inproc->mutex);
  *out = call;
  return TRN_OK;
}

trn_send_result trn__inproc_call_send_slices(trn_inproc_call *call, const trn_slice *slices, size_t count) {
  trn_slice whole = {0};
  bool joined = join_slices(slices, count, &whole);
  trn_send_result result = TRN_SEND_CLOSED;
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_ended && !call->is_half_closed) {
    if (joined && push(&call->requests, whole)) {
      call->request_bytes += whole.size + 5;
      result = call->request_bytes > call->send_high_water ? TRN_SEND_FULL : TRN_SEND_READY;
      if (result == TRN_SEND_FULL) call->client_wants_writable = true;
    } else {
      set_end(call, TRN_RESOURCE_EXHAUSTED, "No memory for a request message");
      call->is_cancelled = true;
    }
    joined = false;
    post(call);
  }
  pthread_mutex_unlock(&call->inproc->mutex);
  if (joined) release_slice(whole);
  return result;
}

void trn__inproc_call_send(trn_inproc_call *call, trn_slice message) {
  trn__inproc_call_send_slices(call, &message, 1);
}

void trn__inproc_call_half_close(trn_inproc_call *call) {
  pthread_mutex_lock(&call->inproc->mutex);
  call->is_half_closed = true;
  post(call);
  pthread_mutex_unlock(&call->inproc->mutex);
}

void trn__inproc_call_read(trn_inproc_call *call, size_t count) {
  pthread_mutex_lock(&call->inproc->mutex);
  call->credits = count < SIZE_MAX - call->credits ? call->credits + count : SIZE_MAX;
  post(call);
  pthread_mutex_unlock(&call->inproc->mutex);
}

void trn__inproc_call_fail(trn_inproc_call *call, trn_status status, const char *message) {
  message_list dropped = STAILQ_HEAD_INITIALIZER(dropped);
  pthread_mutex_lock(&call->inproc->mutex);
  if (!call->is_over && !call->is_cancelled) {
    end_by_host(call, status, message, &dropped);
    post(call);
  }
  pthread_mutex_unlock(&call->inproc->mutex);
  release_all(&dropped);
}

void trn__inproc_call_cancel(trn_inproc_call *call) {
  trn__inproc_call_fail(call, TRN_CANCELLED, "Cancelled by the client");
}
