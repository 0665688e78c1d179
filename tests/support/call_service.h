/* A service for tests of hosts: each method shows one part of the call contract, and what happened is counted. */
#ifndef TESTS_SUPPORT_CALL_SERVICE_H
#define TESTS_SUPPORT_CALL_SERVICE_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trunnion/call.h>

/* A test that makes allocations fail does so on threads that a call has entered, except for the service's own ones. */
static _Thread_local bool test_may_fail;

static inline void *service_alloc(size_t size) {
  bool may_fail = test_may_fail;
  test_may_fail = false;
  void *memory = calloc(1, size);
  test_may_fail = may_fail;
  return memory;
}

typedef struct call_service {
  atomic_int opens, messages, half_closes, writables, cancels, dones;
  atomic_int fulls;          /* sends answered TRN_SEND_FULL */
  atomic_int made, released; /* slices with an owner */
  atomic_int message_bytes;
  atomic_int errors;        /* breaches of the contract that a callback saw */
  atomic_int workers;       /* threads that still run */
  bool is_threadless;       /* Worker answers at once */
  size_t stream_max;        /* messages, and bytes of each, that Stream gives; 0: as many as it is asked for */
  _Atomic(trn_call *) held; /* the last call of Hold: a reference */
} call_service;

/* What a call keeps between its callbacks. */
typedef struct call_note {
  call_service *service;
  size_t left, size; /* of Stream */
  size_t sum;        /* of Sum */
  bool is_open, is_half_closed, is_done;
} call_note;

static inline void service_release(void *owner) {
  call_service *service = *(call_service **)owner;
  atomic_fetch_add(&service->released, 1);
  free(owner);
}

/* A slice that the host must release exactly once: it starts with its service. */
static inline trn_slice service_slice(call_service *service, size_t size, int fill) {
  char *bytes = service_alloc(sizeof service + size);
  memcpy(bytes, &service, sizeof service);
  memset(bytes + sizeof service, fill, size);
  atomic_fetch_add(&service->made, 1);
  return (trn_slice){bytes + sizeof service, size, service_release, bytes};
}

static inline void drop_message(trn_slice message) {
  if (message.release) message.release(message.owner);
}

static inline void service_open(trn_call *call, void *user) {
  test_may_fail = true;
  call_service *service = user;
  call_note *note = service_alloc(sizeof *note);
  note->service = service;
  note->is_open = true;
  atomic_fetch_add(&service->opens, 1);
  trn_call_set_user(call, note);
  trn_metadata echo = {.key = "x-echo"};
  echo.value = trn_call_metadata(call, "x-echo", &echo.size);
  if (echo.value) trn_call_set_initial_metadata(call, &echo, 1);
}

static inline void service_open_pulling(trn_call *call, void *user) {
  service_open(call, user);
  trn_call_recv(call);
}

static inline void service_half_close(trn_call *call, void *user) {
  (void)call;
  call_note *note = user;
  if (note->is_half_closed || note->is_done) atomic_fetch_add(&note->service->errors, 1);
  note->is_half_closed = true;
  atomic_fetch_add(&note->service->half_closes, 1);
}

static inline void service_cancel(trn_call *call, void *user) {
  call_note *note = user;
  if (!trn_call_is_cancelled(call) || note->is_done) atomic_fetch_add(&note->service->errors, 1);
  atomic_fetch_add(&note->service->cancels, 1);
}

static inline void service_done(trn_call *call, void *user) {
  (void)call;
  call_note *note = user;
  if (note->is_done) atomic_fetch_add(&note->service->errors, 1);
  note->is_done = true;
  atomic_fetch_add(&note->service->dones, 1);
  free(note);
}

static inline void count_message(call_note *note, trn_slice message) {
  atomic_fetch_add(&note->service->messages, 1);
  atomic_fetch_add(&note->service->message_bytes, (int)message.size);
  if (note->is_half_closed || note->is_done) atomic_fetch_add(&note->service->errors, 1);
}

static inline void finish_with_trailers(trn_call *call, trn_status status, const char *message) {
  trn_metadata trailing[3];
  size_t count = 0;
  const char *texts[] = {trn_call_peer(call), trn_call_identity(call)};
  trailing[count++] = (trn_metadata){"x-peer", texts[0], strlen(texts[0])};
  if (texts[1]) trailing[count++] = (trn_metadata){"x-identity", texts[1], strlen(texts[1])};
  trailing[count] = (trn_metadata){.key = "x-echo-bin"};
  trailing[count].value = trn_call_metadata(call, "x-echo-bin", &trailing[count].size);
  count += trailing[count].value != NULL;
  trn_call_finish(call, status, message, NULL, 0, trailing, count);
}

/* Echo: the message comes back, as it came. */
static inline void echo_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  count_message(note, message);
  trn_call_send(call, &message, 1, TRN_SEND_MORE | TRN_SEND_COMPRESS);
  finish_with_trailers(call, TRN_OK, NULL);
}

/* Fail: INVALID_ARGUMENT with a message that needs encoding, and details. */
static inline void fail_message(trn_call *call, void *user, trn_slice message) {
  count_message(user, message);
  drop_message(message);
  trn_call_finish(call, TRN_INVALID_ARGUMENT, "no\tsuch \xc3\xa4rger, 100%", "de\0tails", 8, NULL, 0);
}

/* Hang: no answer until somebody else ends the call. */
static inline void hang_message(trn_call *call, void *user, trn_slice message) {
  (void)call;
  count_message(user, message);
  drop_message(message);
}

/* Hold: as Hang, and the test gets a reference to the call. */
static inline void hold_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  count_message(note, message);
  drop_message(message);
  trn_call_unref(atomic_exchange(&note->service->held, trn_call_ref(call)));
}

/* Stream: the message is "count size"; that many messages of that size, no faster than the reader. */
static inline void stream_more(trn_call *call, call_note *note) {
  while (note->left) {
    note->left--;
    trn_slice slices[2] = {service_slice(note->service, note->size / 2, 'a'),
                           service_slice(note->service, note->size - note->size / 2, 'b')};
    trn_send_result result = trn_call_send(call, slices, 2, 0);
    if (result == TRN_SEND_FULL) {
      atomic_fetch_add(&note->service->fulls, 1);
      return;
    }
    if (result == TRN_SEND_CLOSED) return;
  }
  finish_with_trailers(call, TRN_OK, NULL);
}

static inline void stream_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  char text[64] = "";
  count_message(note, message);
  memcpy(text, message.data, message.size < 63 ? message.size : 63);
  drop_message(message);
  sscanf(text, "%zu %zu", &note->left, &note->size);
  size_t max = note->service->stream_max;
  if (max && note->left > max) note->left = max;
  if (max && note->size > max) note->size = max;
  stream_more(call, note);
}

static inline void stream_writable(trn_call *call, void *user) {
  call_note *note = user;
  atomic_fetch_add(&note->service->writables, 1);
  stream_more(call, note);
}

/* Sum: answers with the number of bytes it got. */
static inline void sum_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  count_message(note, message);
  note->sum += message.size;
  drop_message(message);
  trn_call_recv(call);
}

static inline void sum_half_close(trn_call *call, void *user) {
  call_note *note = user;
  char text[32];
  service_half_close(call, user);
  trn_slice reply = {.data = text, .size = (size_t)snprintf(text, sizeof text, "%zu", note->sum)};
  trn_call_send(call, &reply, 1, TRN_SEND_MORE);
  finish_with_trailers(call, TRN_OK, NULL);
}

/* Chat: echoes each message, one at a time. */
static inline void chat_message(trn_call *call, void *user, trn_slice message) {
  count_message(user, message);
  trn_call_send(call, &message, 1, 0);
  trn_call_recv(call);
}

static inline void chat_half_close(trn_call *call, void *user) {
  service_half_close(call, user);
  finish_with_trailers(call, TRN_OK, NULL);
}

/* Worker: answers from another thread, which looks at the call after its end too. */
typedef struct worker_job {
  trn_call *call;
  call_service *service;
  trn_slice message;
} worker_job;

static inline void *worker_run(void *argument) {
  test_may_fail = true;
  worker_job *job = argument;
  for (int i = 0; i < 4; i++) {
    trn_slice slice = service_slice(job->service, 1000, 'w');
    trn_call_send(job->call, &slice, 1, i % 2 ? TRN_SEND_MORE : 0);
  }
  trn_call_send(job->call, &job->message, 1, 0);
  finish_with_trailers(job->call, TRN_OK, NULL);
  trn_slice late = service_slice(job->service, 10, 'l');
  if (trn_call_send(job->call, &late, 1, 0) != TRN_SEND_CLOSED) atomic_fetch_add(&job->service->errors, 1);
  trn_call_recv(job->call);
  trn_call_unref(job->call);
  atomic_fetch_sub(&job->service->workers, 1);
  free(job);
  return NULL;
}

static inline void worker_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  count_message(note, message);
  worker_job *job = service_alloc(sizeof *job);
  *job = (worker_job){trn_call_ref(call), note->service, message};
  pthread_t thread;
  atomic_fetch_add(&note->service->workers, 1);
  if (note->service->is_threadless) {
    worker_run(job);
    return;
  }
  bool may_fail = test_may_fail;
  test_may_fail = false;
  if (pthread_create(&thread, NULL, worker_run, job) != 0) abort();
  test_may_fail = may_fail;
  pthread_detach(thread);
}

/* Abort: resets the call. */
static inline void abort_message(trn_call *call, void *user, trn_slice message) {
  call_note *note = user;
  count_message(note, message);
  drop_message(message);
  trn_slice slice = service_slice(note->service, 100, 'x');
  trn_call_send(call, &slice, 1, 0);
  trn_call_abort(call, TRN_RESOURCE_EXHAUSTED);
}

#define SERVICE_METHOD(name, method_kind, open, message, half_close, writable, limit)                                  \
  {                                                                                                                    \
    .struct_size = sizeof(trn_method), .path = "/t.Test/" name, .kind = method_kind, .on_open = open,                  \
    .on_message = message, .on_half_close = half_close, .on_writable = writable, .on_cancel = service_cancel,          \
    .on_done = service_done, .service = service, .message_bytes_max = limit                                            \
  }

static inline trn_routes *service_routes(call_service *service) {
  const trn_method methods[] = {
      SERVICE_METHOD("Echo", TRN_METHOD_UNARY, service_open, echo_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Small", TRN_METHOD_UNARY, service_open, echo_message, service_half_close, NULL, 16),
      SERVICE_METHOD("Fail", TRN_METHOD_UNARY, service_open, fail_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Hang", TRN_METHOD_UNARY, service_open, hang_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Hold", TRN_METHOD_UNARY, service_open, hold_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Abort", TRN_METHOD_UNARY, service_open, abort_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Worker", TRN_METHOD_SERVER_STREAM, service_open, worker_message, service_half_close, NULL, 0),
      SERVICE_METHOD("Stream", TRN_METHOD_SERVER_STREAM, service_open, stream_message, service_half_close,
                     stream_writable, 0),
      SERVICE_METHOD("Sum", TRN_METHOD_CLIENT_STREAM, service_open_pulling, sum_message, sum_half_close, NULL, 0),
      SERVICE_METHOD("Chat", TRN_METHOD_BIDI, service_open_pulling, chat_message, chat_half_close, NULL, 0),
      SERVICE_METHOD("Deaf", TRN_METHOD_BIDI, service_open, chat_message, chat_half_close, NULL, 0),
      SERVICE_METHOD("HoldBidi", TRN_METHOD_BIDI, service_open_pulling, hold_message, chat_half_close, NULL, 0),
  };
  trn_routes *routes = NULL;
  if (trn_routes_create(&routes) || trn_routes_add(routes, methods, sizeof methods / sizeof *methods, NULL)) abort();
  return routes;
}

static inline void sleep_ms(unsigned ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&time, NULL);
}

/* Waits until a counter has a value; false after ten seconds. */
static inline bool wait_for_count(atomic_int *counter, int value) {
  for (int i = 0; i < 2000 && atomic_load(counter) != value; i++) sleep_ms(5);
  return atomic_load(counter) == value;
}

/* Every call ended, every slice was released, nobody broke the contract. */
static inline bool service_is_clean(call_service *service) {
  trn_call_unref(atomic_exchange(&service->held, NULL));
  return wait_for_count(&service->workers, 0) && wait_for_count(&service->dones, atomic_load(&service->opens)) &&
         wait_for_count(&service->released, atomic_load(&service->made)) && atomic_load(&service->errors) == 0;
}

#endif
