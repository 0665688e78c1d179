/* A frontend that tells what its host does: serves /trunnion.Echo/..., counts, and checks the contract of call.h on
 * every callback. For tests/clients/test_hosts.py. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <trunnion/trunnion.h>

enum { FLOOD_MESSAGES = 400, FLOOD_BYTES = 256 << 10 };

typedef struct echo_call {
  atomic_bool is_inside;
  bool is_half_closed, is_cancelled, is_done;
  int sent; /* of Flood */
} echo_call;

static struct { atomic_int opened, done, cancelled, slices, slices_peak, violations, writable; } counts;

/* Of the leak sanitizer, when the host is built with it. */
void __lsan_ignore_object(const void *object) __attribute__((weak));

static void check(bool holds) {
  if (!holds) atomic_fetch_add(&counts.violations, 1);
}

static void enter(echo_call *echo) {
  check(!atomic_exchange(&echo->is_inside, true));
  check(!echo->is_done);
}

static void leave(echo_call *echo) {
  check(atomic_exchange(&echo->is_inside, false));
}

static void release(void *owner) {
  atomic_fetch_sub(&counts.slices, 1);
  free(owner);
}

static trn_slice slice_of(const void *data, size_t size) {
  void *copy = malloc(size + 1);
  if (size) memcpy(copy, data, size);
  int live = atomic_fetch_add(&counts.slices, 1) + 1, peak = atomic_load(&counts.slices_peak);
  while (live > peak && !atomic_compare_exchange_weak(&counts.slices_peak, &peak, live)) {
  }
  return (trn_slice){copy, size, release, copy};
}

static bool is(trn_call *call, const char *name) {
  return strcmp(strrchr(trn_call_method(call)->path, '/') + 1, name) == 0;
}

/* What the host said of the call goes back as initial metadata. */
static void reflect(trn_call *call) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t deadline = trn_call_deadline_ns(call);
  char left[32] = "none";
  if (deadline != INT64_MAX)
    snprintf(left, sizeof left, "%lld",
             (long long)((deadline - now.tv_sec * INT64_C(1000000000) - now.tv_nsec) / 1000000));
  const char *identity = trn_call_identity(call) ? trn_call_identity(call) : "none";
  const char *const *group = NULL;
  char groups[64] = "";
  for (size_t count = trn_call_groups(call, &group), i = 0; i < count; i++)
    snprintf(groups + strlen(groups), sizeof groups - strlen(groups), "%s%s", i ? "," : "", group[i]);
  size_t text_size = 0, bytes_size = 0;
  const void *text = trn_call_metadata(call, "some-text", &text_size);
  const void *bytes = trn_call_metadata(call, "some-bytes-bin", &bytes_size);
  trn_metadata metadata[] = {{"peer", trn_call_peer(call), strlen(trn_call_peer(call))},
                             {"identity", identity, strlen(identity)},
                             {"groups", groups, strlen(groups)},
                             {"left-ms", left, strlen(left)},
                             {"back-text", text, text_size},
                             {"back-bytes-bin", bytes, bytes_size}};
  trn_call_set_initial_metadata(call, metadata, sizeof metadata / sizeof *metadata);
}

static void on_open(trn_call *call, void *service) {
  (void)service;
  atomic_fetch_add(&counts.opened, 1);
  echo_call *echo = calloc(1, sizeof *echo);
  if (__lsan_ignore_object) __lsan_ignore_object(echo); /* see on_done */
  trn_call_set_user(call, echo);
  reflect(call);
  if (is(call, "Talk")) trn_call_recv(call);
}

static void finish(trn_call *call, trn_status status, const void *details, size_t details_size) {
  trn_metadata trailing[] = {{"trail", "a", 1}, {"trail", "b", 1}, {"trail-bin", "\0\xff\1", 3}};
  trn_call_finish(call, status,
                  status ? "m\xc3\xbc"
                           "de, 100%"
                         : NULL,
                  details, details_size, trailing, 3);
  trn_slice late = slice_of("late", 4);
  check(trn_call_send(call, &late, 1, 0) == TRN_SEND_CLOSED);
  trn_call_finish(call, TRN_INTERNAL, "a second end", NULL, 0, NULL, 0);
}

static void flood(trn_call *call, echo_call *echo) {
  static const char block[FLOOD_BYTES];
  trn_send_result result = TRN_SEND_READY;
  while (result == TRN_SEND_READY && echo->sent < FLOOD_MESSAGES) {
    int number = echo->sent++;
    trn_slice slices[] = {slice_of(&number, sizeof number), slice_of(block, sizeof block), {"unowned", 7, NULL, NULL}};
    result = trn_call_send(call, slices, 3, 0);
  }
  if (result != TRN_SEND_CLOSED && echo->sent == FLOOD_MESSAGES) finish(call, TRN_OK, NULL, 0);
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  echo_call *echo = user;
  enter(echo);
  check(!echo->is_half_closed);
  trn_slice reply = slice_of(message.data, message.size);
  if (is(call, "Talk")) {
    trn_call_send(call, &reply, 1, 0);
    trn_call_recv(call);
  } else if (is(call, "Fail")) {
    release(reply.owner);
    finish(call, TRN_FAILED_PRECONDITION, message.data, message.size);
  } else if (is(call, "Abort")) {
    trn_call_send(call, &reply, 1, 0);
    trn_call_abort(call, TRN_DATA_LOSS);
  } else if (is(call, "Flood")) {
    release(reply.owner);
    flood(call, echo);
  } else if (is(call, "Wait")) {
    release(reply.owner);
  } else {
    char text[256];
    release(reply.owner);
    snprintf(text, sizeof text, "opened=%d done=%d cancelled=%d slices=%d peak=%d writable=%d violations=%d",
             counts.opened, counts.done, counts.cancelled, counts.slices, counts.slices_peak, counts.writable,
             counts.violations);
    reply = slice_of(text, strlen(text));
    trn_call_send(call, &reply, 1, TRN_SEND_MORE);
    finish(call, TRN_OK, NULL, 0);
  }
  if (message.release) message.release(message.owner);
  leave(echo);
}

static void on_half_close(trn_call *call, void *user) {
  echo_call *echo = user;
  enter(echo);
  check(!echo->is_half_closed);
  echo->is_half_closed = true;
  if (is(call, "Talk")) finish(call, TRN_OK, NULL, 0);
  leave(echo);
}

static void on_writable(trn_call *call, void *user) {
  enter(user);
  atomic_fetch_add(&counts.writable, 1);
  if (is(call, "Flood")) flood(call, user);
  leave(user);
}

static void on_cancel(trn_call *call, void *user) {
  echo_call *echo = user;
  enter(echo);
  check(!echo->is_cancelled && trn_call_is_cancelled(call));
  echo->is_cancelled = true;
  atomic_fetch_add(&counts.cancelled, 1);
  leave(echo);
}

/* The user data is leaked: a delivery after this one must find it. */
static void on_done(trn_call *call, void *user) {
  echo_call *echo = user;
  enter(echo);
  echo->is_done = true;
  trn_slice late = slice_of("late", 4);
  check(trn_call_send(call, &late, 1, 0) == TRN_SEND_CLOSED);
  trn_call_recv(call);
  leave(echo);
  atomic_fetch_add(&counts.done, 1);
}

/* Gives the routes. Exported for tests that load this. */
trn_status echo_routes_create(trn_routes **out);
trn_status echo_routes_create(trn_routes **out) {
#define ECHO_METHOD(name, kind, max)                                                                                   \
  {                                                                                                                    \
    sizeof(trn_method), "/trunnion.Echo/" name, kind, on_open, on_message, on_half_close, on_writable, on_cancel,      \
        on_done, NULL, max, false                                                                                      \
  }
  static const trn_method methods[] = {
      ECHO_METHOD("Talk", TRN_METHOD_BIDI, 1 << 20),     ECHO_METHOD("Fail", TRN_METHOD_UNARY, 0),
      ECHO_METHOD("Abort", TRN_METHOD_SERVER_STREAM, 0), ECHO_METHOD("Flood", TRN_METHOD_SERVER_STREAM, 0),
      ECHO_METHOD("Wait", TRN_METHOD_SERVER_STREAM, 0),  ECHO_METHOD("Counts", TRN_METHOD_UNARY, 0),
  };
  trn_status status = trn_routes_create(out);
  if (!status) status = trn_routes_add(*out, methods, sizeof methods / sizeof *methods, NULL);
  return status;
}
